//! `CK_MECHANISM` with the parameter behind it: the one place that reads C parameter structs.

use std::mem::size_of;

use cryptoki_sys::*;
use jeton::backend::Hash;
use jeton::error::{Error, Result};
use jeton::id::MechanismType;
use jeton::mechanism::{self, Invocation, Params, Shape};

use crate::input::In;
use crate::number::wide;

/// The longest context of EdDSA (RFC 8032, 5.1) and ML-DSA (FIPS 204, 5.2) in bytes.
const MAX_CONTEXT: u64 = 255;
/// The longest salt in bytes: no signature of an RSA key up to 8192 bits has room for more.
const MAX_SALT: u64 = 8192 / 8;

/// The mask generation functions over the hashes of this token (PKCS#11 3.2, "PKCS #1 Mask Generation Functions").
const MASKS: [(CK_RSA_PKCS_MGF_TYPE, Hash); 5] = [
    (CKG_MGF1_SHA1, Hash::Sha1),
    (CKG_MGF1_SHA224, Hash::Sha224),
    (CKG_MGF1_SHA256, Hash::Sha256),
    (CKG_MGF1_SHA384, Hash::Sha384),
    (CKG_MGF1_SHA512, Hash::Sha512),
];

/// The mechanism; `None` for a `NULL` pointer, which ends an operation in the Init functions.
///
/// # Safety
///
/// `pointer` is `NULL` or readable, and so is the parameter in it, with what that points to.
pub(crate) unsafe fn mechanism(pointer: *const CK_MECHANISM) -> Result<Option<Invocation>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; readable by the caller's promise.
    let given = unsafe { pointer.read_unaligned() };
    let mechanism = mechanism::find(MechanismType(wide(given.mechanism))).ok_or(Error::MechanismInvalid)?;
    // SAFETY: the caller's promise.
    let parameter = unsafe { In(given.pParameter.cast(), given.ulParameterLen).bytes() };
    let parameter = parameter.map_err(|_| Error::MechanismParamInvalid)?;
    // SAFETY: the caller's promise, for what the parameter points to.
    let params = unsafe { params(mechanism.shape, parameter) }?;
    Ok(Some(Invocation { mechanism, params }))
}

/// The mechanism of a function that has no use for `NULL`.
///
/// # Safety
///
/// As for [`mechanism`].
pub(crate) unsafe fn mechanism_given(pointer: *const CK_MECHANISM) -> Result<Invocation> {
    // SAFETY: the caller's promise.
    unsafe { mechanism(pointer) }?.ok_or(Error::ArgumentsBad)
}

/// # Safety
///
/// What the struct in `parameter` points to is readable.
unsafe fn params(shape: Shape, parameter: &[u8]) -> Result<Params> {
    // The parameter is optional for the last two: "If no parameter is supplied …".
    match shape {
        Shape::None if parameter.is_empty() => Ok(Params::None),
        Shape::None => Err(Error::MechanismParamInvalid),
        Shape::Pss => pss(parameter),
        Shape::Eddsa | Shape::SignContext if parameter.is_empty() => Ok(Params::None),
        // SAFETY: the caller's promise.
        Shape::Eddsa => unsafe { eddsa(parameter) },
        // SAFETY: the caller's promise.
        Shape::SignContext => unsafe { sign_context(parameter) },
    }
}

fn pss(parameter: &[u8]) -> Result<Params> {
    // SAFETY: three integers.
    let given: CK_RSA_PKCS_PSS_PARAMS = unsafe { read(parameter) }?;
    let hash = mechanism::hash_named(MechanismType(wide(given.hashAlg)));
    let mgf = MASKS.iter().find(|(number, _)| *number == given.mgf).map(|(_, hash)| *hash);
    let salt_len = wide(given.sLen);
    match (hash, mgf) {
        (Some(hash), Some(mgf)) if salt_len <= MAX_SALT => {
            Ok(Params::Pss { hash, mgf, salt_len: salt_len as usize })
        }
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// # Safety
///
/// The context that the struct points to is readable.
unsafe fn eddsa(parameter: &[u8]) -> Result<Params> {
    // SAFETY: integers and a pointer.
    let given: CK_EDDSA_PARAMS = unsafe { read(parameter) }?;
    let prehash = match given.phFlag {
        CK_FALSE => false,
        CK_TRUE => true,
        _ => return Err(Error::MechanismParamInvalid),
    };
    // SAFETY: the caller's promise.
    let context = unsafe { context(In(given.pContextData, given.ulContextDataLen)) }?;
    Ok(Params::Eddsa { prehash, context })
}

/// # Safety
///
/// The context that the struct points to is readable.
unsafe fn sign_context(parameter: &[u8]) -> Result<Params> {
    // SAFETY: integers and a pointer.
    let given: CK_SIGN_ADDITIONAL_CONTEXT = unsafe { read(parameter) }?;
    let deterministic = match given.hedgeVariant {
        // PKCS#11 3.2, "ML-DSA Signature": preferred leaves the choice to the token, which hedges.
        CKH_HEDGE_PREFERRED | CKH_HEDGE_REQUIRED => false,
        CKH_DETERMINISTIC_REQUIRED => true,
        _ => return Err(Error::MechanismParamInvalid),
    };
    // SAFETY: the caller's promise.
    let context = unsafe { context(In(given.pContext, given.ulContextLen)) }?;
    Ok(Params::SignContext { deterministic, context })
}

/// A parameter struct, which has exactly the length of its type.
///
/// # Safety
///
/// `T` is a struct for which any bytes are a value.
unsafe fn read<T: Copy>(parameter: &[u8]) -> Result<T> {
    if parameter.len() != size_of::<T>() {
        return Err(Error::MechanismParamInvalid);
    }
    // SAFETY: as long as a `T`; any bytes are one by the caller's promise; alignment is not asked for.
    Ok(unsafe { parameter.as_ptr().cast::<T>().read_unaligned() })
}

/// # Safety
///
/// The bytes are readable.
unsafe fn context(bytes: In) -> Result<Box<[u8]>> {
    if wide(bytes.1) > MAX_CONTEXT {
        return Err(Error::MechanismParamInvalid);
    }
    // SAFETY: the caller's promise.
    unsafe { bytes.bytes() }.map(Box::from).map_err(|_| Error::MechanismParamInvalid)
}

#[cfg(test)]
mod tests {
    use std::ptr::{from_ref, null, null_mut};

    use super::*;
    use crate::number::length;

    const CONTEXT: [u8; 256] = [7; 256];
    const INVALID: Option<Error> = Some(Error::MechanismParamInvalid);

    fn invoke(mechanism: CK_MECHANISM_TYPE, parameter: *const u8, len: usize) -> Result<Params> {
        let given =
            CK_MECHANISM { mechanism, pParameter: parameter.cast_mut().cast(), ulParameterLen: length(len) };
        // SAFETY: the tests pass live memory, or what must not be read.
        unsafe { mechanism_given(&raw const given) }.map(|invocation| invocation.params)
    }

    fn with<T>(mechanism: CK_MECHANISM_TYPE, parameter: &T) -> Result<Params> {
        invoke(mechanism, from_ref(parameter).cast(), size_of::<T>())
    }

    fn pss_of(hash: CK_MECHANISM_TYPE, mgf: CK_RSA_PKCS_MGF_TYPE, salt: CK_ULONG) -> Result<Params> {
        with(CKM_RSA_PKCS_PSS, &CK_RSA_PKCS_PSS_PARAMS { hashAlg: hash, mgf, sLen: salt })
    }

    fn eddsa_of(phFlag: CK_BBOOL, context: *const u8, len: CK_ULONG) -> Result<Params> {
        with(CKM_EDDSA, &CK_EDDSA_PARAMS { phFlag, ulContextDataLen: len, pContextData: context.cast_mut() })
    }

    fn ml_dsa_of(hedge: CK_HEDGE_TYPE, context: *const u8, len: CK_ULONG) -> Result<Params> {
        let (hedgeVariant, pContext) = (hedge, context.cast_mut());
        with(CKM_ML_DSA, &CK_SIGN_ADDITIONAL_CONTEXT { hedgeVariant, pContext, ulContextLen: len })
    }

    #[test]
    fn null_is_no_mechanism() {
        // SAFETY: nothing is read through null.
        assert!(unsafe { mechanism(null()) }.is_ok_and(|mechanism| mechanism.is_none()));
        // SAFETY: nothing is read through null.
        assert_eq!(unsafe { mechanism_given(null()) }.err(), Some(Error::ArgumentsBad));
    }

    #[test]
    fn an_unknown_mechanism_is_refused_before_its_parameter_is_read() {
        let dangling = std::ptr::without_provenance(8);
        assert_eq!(invoke(CKM_VENDOR_DEFINED | 7, dangling, 64).err(), Some(Error::MechanismInvalid));
    }

    #[test]
    fn a_mechanism_without_parameter_takes_none() {
        assert!(invoke(CKM_ECDSA, null(), 0) == Ok(Params::None));
        assert!(invoke(CKM_ECDSA, CONTEXT.as_ptr(), 0) == Ok(Params::None));
        assert_eq!(invoke(CKM_ECDSA, CONTEXT.as_ptr(), 1).err(), INVALID);
        assert_eq!(invoke(CKM_ECDSA, null(), 1).err(), INVALID);
    }

    #[test]
    fn an_unaligned_mechanism_is_read() {
        let given = CK_MECHANISM { mechanism: CKM_ECDSA, pParameter: null_mut(), ulParameterLen: 0 };
        let mut memory = [0_u8; size_of::<CK_MECHANISM>() + 1];
        let place = memory.as_mut_ptr().wrapping_add(1).cast::<CK_MECHANISM>();
        // SAFETY: `place` lies inside `memory`.
        let invocation = unsafe {
            place.write_unaligned(given);
            mechanism_given(place)
        };
        assert!(invocation.is_ok_and(|invocation| invocation.mechanism.id == MechanismType::ECDSA));
    }

    #[test]
    fn pss_names_hash_mask_and_salt() {
        let params = pss_of(CKM_SHA256, CKG_MGF1_SHA384, 32);
        assert!(params == Ok(Params::Pss { hash: Hash::Sha256, mgf: Hash::Sha384, salt_len: 32 }));
        assert_eq!(pss_of(CKM_ECDSA, CKG_MGF1_SHA256, 32).err(), INVALID);
        assert_eq!(pss_of(CKM_SHA256, 0, 32).err(), INVALID);
        assert_eq!(pss_of(CKM_SHA256, CKG_MGF1_SHA256, CK_ULONG::MAX).err(), INVALID);
    }

    #[test]
    fn pss_wants_its_struct() {
        assert_eq!(invoke(CKM_RSA_PKCS_PSS, null(), 0).err(), INVALID);
        let short = size_of::<CK_RSA_PKCS_PSS_PARAMS>() - 1;
        assert_eq!(invoke(CKM_RSA_PKCS_PSS, CONTEXT.as_ptr(), short).err(), INVALID);
        assert_eq!(invoke(CKM_RSA_PKCS_PSS, null(), short + 1).err(), INVALID);
        assert_eq!(invoke(CKM_RSA_PKCS_PSS, CONTEXT.as_ptr(), usize::MAX).err(), INVALID);
    }

    #[test]
    fn eddsa_takes_a_context_or_none() {
        assert!(invoke(CKM_EDDSA, null(), 0) == Ok(Params::None));
        let params = eddsa_of(CK_TRUE, CONTEXT.as_ptr(), 255);
        assert!(params == Ok(Params::Eddsa { prehash: true, context: CONTEXT[..255].into() }));
        assert!(eddsa_of(CK_FALSE, null(), 0) == Ok(Params::Eddsa { prehash: false, context: [].into() }));
        assert_eq!(eddsa_of(2, null(), 0).err(), INVALID);
        assert_eq!(eddsa_of(CK_FALSE, null(), 1).err(), INVALID);
        assert_eq!(eddsa_of(CK_FALSE, CONTEXT.as_ptr(), 256).err(), INVALID);
    }

    #[test]
    fn ml_dsa_takes_a_context_or_none() {
        assert!(invoke(CKM_ML_DSA, null(), 0) == Ok(Params::None));
        for (hedge, deterministic) in
            [(CKH_HEDGE_PREFERRED, false), (CKH_HEDGE_REQUIRED, false), (CKH_DETERMINISTIC_REQUIRED, true)]
        {
            let params = ml_dsa_of(hedge, CONTEXT.as_ptr(), 3);
            assert!(params == Ok(Params::SignContext { deterministic, context: CONTEXT[..3].into() }));
        }
        assert_eq!(ml_dsa_of(3, null(), 0).err(), INVALID);
        assert_eq!(ml_dsa_of(CKH_HEDGE_REQUIRED, null(), 1).err(), INVALID);
        assert_eq!(ml_dsa_of(CKH_HEDGE_REQUIRED, CONTEXT.as_ptr(), 256).err(), INVALID);
        assert_eq!(ml_dsa_of(CKH_HEDGE_REQUIRED, CONTEXT.as_ptr(), CK_ULONG::MAX).err(), INVALID);
    }
}
