//! The parameters of RSA: PSS, OAEP, and key wrapping with a fresh AES key.

use cryptoki_sys::*;
use jeton_names::structs::DATA;
use jeton_words::error::{Error, Result};
use jeton_words::hash::Hash;
use jeton_words::params::Params;

use super::{copy, hash, named, read, size};
use crate::ck_ulong::wide;
use crate::input::In;

/// The mask generation functions (PKCS#11 3.2, "PKCS #1 Mask Generation Functions").
const MASKS: [(CK_RSA_PKCS_MGF_TYPE, Hash); 9] = [
    (CKG_MGF1_SHA1, Hash::Sha1),
    (CKG_MGF1_SHA224, Hash::Sha224),
    (CKG_MGF1_SHA256, Hash::Sha256),
    (CKG_MGF1_SHA384, Hash::Sha384),
    (CKG_MGF1_SHA512, Hash::Sha512),
    (CKG_MGF1_SHA3_224, Hash::Sha3_224),
    (CKG_MGF1_SHA3_256, Hash::Sha3_256),
    (CKG_MGF1_SHA3_384, Hash::Sha3_384),
    (CKG_MGF1_SHA3_512, Hash::Sha3_512),
];

/// Reads `CK_RSA_PKCS_PSS_PARAMS`.
pub(super) fn pss(parameter: &[u8]) -> Result<Params> {
    // SAFETY: three integers.
    let given: CK_RSA_PKCS_PSS_PARAMS = unsafe { read(parameter) }?;
    let (hash, mgf) = (hash(given.hashAlg)?, named(&MASKS, given.mgf)?);
    Ok(Params::Pss { hash, mgf, salt_len: size(given.sLen)? })
}

/// Reads `CK_RSA_PKCS_OAEP_PARAMS`.
///
/// # Safety
///
/// The label that the struct points to is readable.
pub(super) unsafe fn oaep(parameter: &[u8]) -> Result<Params> {
    // SAFETY: integers and a pointer, and the caller's promise.
    let Padding { hash, mgf, label } = unsafe { padding(&read(parameter)?) }?;
    Ok(Params::Oaep { hash, mgf, label })
}

/// Reads `CK_RSA_AES_KEY_WRAP_PARAMS`.
///
/// # Safety
///
/// The inner struct that the struct points to is readable, and so is the label of the inner struct.
pub(super) unsafe fn aes_wrap(parameter: &[u8]) -> Result<Params> {
    // SAFETY: an integer and a pointer.
    let given: CK_RSA_AES_KEY_WRAP_PARAMS = unsafe { read(parameter) }?;
    let aes_bits = wide(given.ulAESKeyBits);
    if ![128, 192, 256].contains(&aes_bits) || given.pOAEPParams.is_null() {
        return Err(Error::MechanismParamInvalid);
    }
    // SAFETY: not null. The rest is the caller's promise.
    let Padding { hash, mgf, label } = unsafe { padding(&given.pOAEPParams.read_unaligned()) }?;
    Ok(Params::RsaAesWrap { aes_bits, hash, mgf, label })
}

/// The hashes and the label of OAEP.
struct Padding {
    hash: Hash,
    mgf: Hash,
    label: Box<[u8]>,
}

/// # Safety
///
/// The label is readable.
unsafe fn padding(given: &CK_RSA_PKCS_OAEP_PARAMS) -> Result<Padding> {
    let (hash, mgf) = (hash(given.hashAlg)?, named(&MASKS, given.mgf)?);
    // PKCS#11 3.2, "PKCS #1 RSA OAEP mechanism parameters": with source 0 the label is empty.
    let limit = named(&[(CKZ_DATA_SPECIFIED, DATA), (0, 0)], given.source)?;
    // SAFETY: the caller's promise.
    let label = unsafe { copy(In(given.pSourceData.cast(), given.ulSourceDataLen), limit) }?;
    Ok(Padding { hash, mgf, label })
}

#[cfg(test)]
mod tests {
    use std::ptr::from_ref;

    use super::super::testing::{BYTES, INVALID, SOME, length, with};
    use super::*;

    fn oaep_of(source: CK_RSA_PKCS_OAEP_SOURCE_TYPE, ulSourceDataLen: CK_ULONG) -> CK_RSA_PKCS_OAEP_PARAMS {
        let (hashAlg, mgf, pSourceData) = (CKM_SHA256, CKG_MGF1_SHA3_256, SOME.cast());
        CK_RSA_PKCS_OAEP_PARAMS { hashAlg, mgf, source, pSourceData, ulSourceDataLen }
    }

    fn wrap_of(ulAESKeyBits: CK_ULONG, oaep: &CK_RSA_PKCS_OAEP_PARAMS) -> CK_RSA_AES_KEY_WRAP_PARAMS {
        CK_RSA_AES_KEY_WRAP_PARAMS { ulAESKeyBits, pOAEPParams: from_ref(oaep).cast_mut() }
    }

    #[test]
    fn oaep_has_hashes_and_a_label() {
        let of = |params| with(CKM_RSA_PKCS_OAEP, &params);
        let (hash, mgf) = (Hash::Sha256, Hash::Sha3_256);
        for len in [0, 5] {
            let label = BYTES[..len].into();
            let params = of(oaep_of(CKZ_DATA_SPECIFIED, length(len)));
            assert!(params == Ok(Params::Oaep { hash, mgf, label }));
        }
        assert!(of(oaep_of(0, 0)) == Ok(Params::Oaep { hash, mgf, label: [].into() }));
        for wrong in [oaep_of(0, 1), oaep_of(2, 0)] {
            assert_eq!(of(wrong).err(), INVALID);
        }
    }

    #[test]
    fn rsa_aes_key_wrap_has_a_key_size_and_oaep_parameters() {
        let oaep = oaep_of(CKZ_DATA_SPECIFIED, 5);
        let of = |params| with(CKM_RSA_AES_KEY_WRAP, &params);
        let (hash, mgf, label) = (Hash::Sha256, Hash::Sha3_256, BYTES[..5].into());
        assert!(of(wrap_of(192, &oaep)) == Ok(Params::RsaAesWrap { aes_bits: 192, hash, mgf, label }));
        assert_eq!(of(wrap_of(256, &oaep_of(2, 0))).err(), INVALID);
    }
}
