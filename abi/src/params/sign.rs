//! The parameters of signatures and MACs. The parameters of RSA are in the file `rsa.rs`.

use cryptoki_sys::*;
use jeton::backend::Hash;
use jeton::error::{Error, Result};
use jeton::mechanism::Params;
use jeton_names::structs::MAC;

use super::{Parts, boolean, hash, named, read};
use crate::number::wide;

/// Maximum length of a GMAC initialisation vector in bytes (PKCS#11 3.2, "AES-GMAC").
const MAX_GMAC_IV: usize = 256;

/// Whether signatures with a hedge variant are deterministic. PKCS#11 3.2, "ML-DSA Signature":
/// `CKH_HEDGE_PREFERRED` leaves the choice to the token. This token then makes hedged signatures.
const DETERMINISTIC: [(CK_HEDGE_TYPE, bool); 3] =
    [(CKH_HEDGE_PREFERRED, false), (CKH_HEDGE_REQUIRED, false), (CKH_DETERMINISTIC_REQUIRED, true)];

/// The SHAKE functions. PKCS#11 has no digest mechanism for them. The caller names a SHAKE function
/// by its mechanism for key derivation.
const SHAKES: [(CK_MECHANISM_TYPE, Hash); 2] =
    [(CKM_SHAKE_128_KEY_DERIVATION, Hash::Shake128), (CKM_SHAKE_256_KEY_DERIVATION, Hash::Shake256)];

/// Reads `CK_EDDSA_PARAMS`.
pub(super) fn eddsa(given: CK_EDDSA_PARAMS, [context]: Parts<1>) -> Result<Params> {
    let prehash = boolean(given.phFlag)?;
    Ok(Params::Eddsa { prehash, context })
}

/// Reads `CK_SIGN_ADDITIONAL_CONTEXT`.
pub(super) fn context(given: CK_SIGN_ADDITIONAL_CONTEXT, [context]: Parts<1>) -> Result<Params> {
    sign_context(given.hedgeVariant, context, None)
}

/// Reads `CK_HASH_SIGN_ADDITIONAL_CONTEXT`.
pub(super) fn hash_context(given: CK_HASH_SIGN_ADDITIONAL_CONTEXT, [context]: Parts<1>) -> Result<Params> {
    let hash = hash(given.hash).or_else(|_| named(&SHAKES, given.hash))?;
    sign_context(given.hedgeVariant, context, Some(hash))
}

fn sign_context(hedge: CK_HEDGE_TYPE, context: Box<[u8]>, hash: Option<Hash>) -> Result<Params> {
    let deterministic = named(&DETERMINISTIC, hedge)?;
    Ok(Params::SignContext { deterministic, context, hash })
}

/// Reads `CK_MAC_GENERAL_PARAMS`.
pub(super) fn length(parameter: &[u8]) -> Result<Params> {
    // SAFETY: the parameter is an integer.
    let given = wide(unsafe { read::<CK_MAC_GENERAL_PARAMS>(parameter) }?);
    if !(1..=MAC).contains(&given) {
        return Err(Error::MechanismParamInvalid);
    }
    Ok(Params::Length(given as usize))
}

/// Reads the parameter of GMAC, which is the initialisation vector itself.
pub(super) fn gmac(parameter: &[u8]) -> Result<Params> {
    if !(1..=MAX_GMAC_IV).contains(&parameter.len()) {
        return Err(Error::MechanismParamInvalid);
    }
    Ok(Params::Iv(parameter.into()))
}

#[cfg(test)]
mod tests {
    use std::ptr::null;

    use super::super::testing::{BYTES, INVALID, invoke, with};
    use super::*;

    fn eddsa_of(phFlag: CK_BBOOL, context: *const u8, len: CK_ULONG) -> Result<Params> {
        with(CKM_EDDSA, &CK_EDDSA_PARAMS { phFlag, ulContextDataLen: len, pContextData: context.cast_mut() })
    }

    fn ml_dsa_of(hedge: CK_HEDGE_TYPE, context: *const u8, len: CK_ULONG) -> Result<Params> {
        let (hedgeVariant, pContext) = (hedge, context.cast_mut());
        with(CKM_ML_DSA, &CK_SIGN_ADDITIONAL_CONTEXT { hedgeVariant, pContext, ulContextLen: len })
    }

    fn hash_context_of(hash: CK_MECHANISM_TYPE, len: CK_ULONG) -> CK_HASH_SIGN_ADDITIONAL_CONTEXT {
        CK_HASH_SIGN_ADDITIONAL_CONTEXT {
            hedgeVariant: CKH_DETERMINISTIC_REQUIRED,
            pContext: BYTES.as_ptr().cast_mut(),
            ulContextLen: len,
            hash,
        }
    }

    #[test]
    fn eddsa_takes_a_context_or_no_parameter() {
        assert!(invoke(CKM_EDDSA, null(), 0) == Ok(Params::None));
        let params = eddsa_of(CK_TRUE, BYTES.as_ptr(), 255);
        assert!(params == Ok(Params::Eddsa { prehash: true, context: BYTES[..255].into() }));
        assert!(eddsa_of(CK_FALSE, null(), 0) == Ok(Params::Eddsa { prehash: false, context: [].into() }));
    }

    #[test]
    fn ml_dsa_takes_a_context_or_no_parameter() {
        assert!(invoke(CKM_ML_DSA, null(), 0) == Ok(Params::None));
        for (hedge, deterministic) in DETERMINISTIC {
            let params = ml_dsa_of(hedge, BYTES.as_ptr(), 3);
            let context = BYTES[..3].into();
            assert!(params == Ok(Params::SignContext { deterministic, context, hash: None }));
        }
    }

    #[test]
    fn a_context_with_a_hash_is_read() {
        for id in [CKM_HASH_ML_DSA, CKM_HASH_SLH_DSA] {
            for (number, hash) in [
                (CKM_SHA512, Hash::Sha512),
                (CKM_SHA3_256, Hash::Sha3_256),
                (CKM_SHAKE_128_KEY_DERIVATION, Hash::Shake128),
                (CKM_SHAKE_256_KEY_DERIVATION, Hash::Shake256),
            ] {
                let (context, hash) = (BYTES[..3].into(), Some(hash));
                let params = with(id, &hash_context_of(number, 3));
                assert!(params == Ok(Params::SignContext { deterministic: true, context, hash }));
            }
        }
    }

    #[test]
    fn a_mac_is_truncated_to_a_length() {
        let cut = |len: CK_MAC_GENERAL_PARAMS| with(CKM_AES_CMAC_GENERAL, &len);
        assert!(cut(8) == Ok(Params::Length(8)));
    }

    #[test]
    fn the_parameter_of_gmac_is_the_initialisation_vector() {
        for len in [1, 12, 256] {
            let params = invoke(CKM_AES_GMAC, BYTES.as_ptr(), len);
            assert!(params == Ok(Params::Iv(BYTES[..len].into())));
        }
        assert_eq!(invoke(CKM_AES_GMAC, null(), 0).err(), INVALID);
        assert_eq!(invoke(CKM_AES_GMAC, null(), 12).err(), INVALID);
        assert_eq!(invoke(CKM_AES_GMAC, BYTES.as_ptr(), 257).err(), INVALID);
    }
}
