//! The parameters of PBKDF2 (PKCS#11 3.2, "PKCS #5 PBKDF2 key generation mechanism parameters").

use cryptoki_sys::{
    CK_PKCS5_PBKD2_PARAMS2, CK_ULONG, CKP_PKCS5_PBKD2_HMAC_SHA1, CKP_PKCS5_PBKD2_HMAC_SHA224,
    CKP_PKCS5_PBKD2_HMAC_SHA256, CKP_PKCS5_PBKD2_HMAC_SHA384, CKP_PKCS5_PBKD2_HMAC_SHA512,
    CKP_PKCS5_PBKD2_HMAC_SHA512_224, CKP_PKCS5_PBKD2_HMAC_SHA512_256, CKZ_SALT_SPECIFIED,
};
use jeton_names::structs::{DATA, PASSWORD_LIMIT};
use jeton_secret::Secret;
use jeton_words::error::{Error, Result, require};
use jeton_words::hash::Hash;
use jeton_words::params::Params;
use jeton_words::password::Password;

use super::{copy, named, read};
use crate::ck_ulong::wide;
use crate::input::In;

/// The first number that is too large for an address of a process. Linux gives a process that does
/// not ask for more 48 bits on aarch64, and 47 bits on x86-64. On Windows no number is an address.
const END_OF_ADDRESSES: u64 = if cfg!(windows) {
    0
} else if cfg!(target_arch = "aarch64") {
    1 << 48
} else {
    1 << 47
};
/// The supported pseudo-random functions: all except that of GOST R 34.11-94.
const PRFS: [(CK_ULONG, Hash); 7] = [
    (CKP_PKCS5_PBKD2_HMAC_SHA1, Hash::Sha1),
    (CKP_PKCS5_PBKD2_HMAC_SHA224, Hash::Sha224),
    (CKP_PKCS5_PBKD2_HMAC_SHA256, Hash::Sha256),
    (CKP_PKCS5_PBKD2_HMAC_SHA384, Hash::Sha384),
    (CKP_PKCS5_PBKD2_HMAC_SHA512, Hash::Sha512),
    (CKP_PKCS5_PBKD2_HMAC_SHA512_224, Hash::Sha512_224),
    (CKP_PKCS5_PBKD2_HMAC_SHA512_256, Hash::Sha512_256),
];

/// Reads `CK_PKCS5_PBKD2_PARAMS2`, or `CK_PKCS5_PBKD2_PARAMS` from before 2.40. The older struct
/// has the address of the password's length instead of the length. Both structs have the same size.
/// As in NSS, the value of this field shows which struct it is.
///
/// # Safety
///
/// The memory that the struct points to is readable.
pub(super) unsafe fn pbkdf2(parameter: &[u8]) -> Result<Params> {
    // SAFETY: the struct has only integers and pointers.
    let given: CK_PKCS5_PBKD2_PARAMS2 = unsafe { read(parameter) }?;
    require(given.saltSource == CKZ_SALT_SPECIFIED, Error::MechanismParamInvalid)?;
    let hash = named(&PRFS, given.prf)?;
    // "No Parameter. pPrfData must be NULL and ulPrfDataLen must be zero."
    require(given.pPrfData.is_null() && given.ulPrfDataLen == 0, Error::MechanismParamInvalid)?;
    // SAFETY: the caller's promise.
    let salt = unsafe { copy(In(given.pSaltSourceData.cast(), given.ulSaltSourceDataLen), DATA) }?;
    // SAFETY: the caller's promise.
    let len = unsafe { password_len(given.ulPasswordLen) }?;
    // SAFETY: the caller's promise.
    let password = unsafe { In(given.pPassword, len).bytes() }.map_err(|_| Error::MechanismParamInvalid)?;
    Ok(Params::Pbkdf2 {
        hash,
        salt,
        iterations: u32::try_from(given.iterations).map_err(|_| Error::MechanismParamInvalid)?,
        password: Password(Secret::from(password)),
    })
}

/// # Safety
///
/// If the number is an address, it is the address of a readable length.
unsafe fn password_len(given: CK_ULONG) -> Result<CK_ULONG> {
    if wide(given) < PASSWORD_LIMIT {
        return Ok(given);
    }
    let place = usize::try_from(given).map(std::ptr::with_exposed_provenance::<CK_ULONG>);
    let place = place.ok().filter(|place| place.is_aligned() && wide(given) < END_OF_ADDRESSES);
    // SAFETY: not null, aligned, and readable by the caller's promise.
    let len = place.map(|place| unsafe { place.read() }).ok_or(Error::MechanismParamInvalid)?;
    if wide(len) < PASSWORD_LIMIT { Ok(len) } else { Err(Error::MechanismParamInvalid) }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use cryptoki_sys::{CK_PKCS5_PBKD2_PARAMS, CKM_PKCS5_PBKD2};

    use super::super::testing::{HUGE, INVALID, SOME, with};
    use super::*;

    fn good() -> CK_PKCS5_PBKD2_PARAMS2 {
        CK_PKCS5_PBKD2_PARAMS2 {
            saltSource: CKZ_SALT_SPECIFIED,
            pSaltSourceData: SOME.cast(),
            ulSaltSourceDataLen: 8,
            iterations: 1000,
            prf: CKP_PKCS5_PBKD2_HMAC_SHA256,
            pPrfData: null_mut(),
            ulPrfDataLen: 0,
            pPassword: SOME,
            ulPasswordLen: 5,
        }
    }

    fn expected() -> Result<Params> {
        let (salt, password) = ([7; 8].into(), Password(Secret::new(vec![7; 5])));
        Ok(Params::Pbkdf2 { hash: Hash::Sha256, salt, iterations: 1000, password })
    }

    #[test]
    fn both_structs_are_read() {
        assert!(with(CKM_PKCS5_PBKD2, &good()) == expected());
        let mut len: CK_ULONG = 5;
        let old = CK_PKCS5_PBKD2_PARAMS {
            saltSource: CKZ_SALT_SPECIFIED,
            pSaltSourceData: SOME.cast(),
            ulSaltSourceDataLen: 8,
            iterations: 1000,
            prf: CKP_PKCS5_PBKD2_HMAC_SHA256,
            pPrfData: null_mut(),
            ulPrfDataLen: 0,
            pPassword: SOME,
            ulPasswordLen: std::ptr::with_exposed_provenance_mut((&raw mut len).expose_provenance()),
        };
        assert!(with(CKM_PKCS5_PBKD2, &old) == expected());
        len = HUGE;
        assert_eq!((with(CKM_PKCS5_PBKD2, &old).err(), len), (INVALID, HUGE));
    }

    #[test]
    fn invalid_parameters_of_pbkdf2_are_refused() {
        for wrong in [
            CK_PKCS5_PBKD2_PARAMS2 { pPrfData: SOME.cast(), ..good() },
            // Not an address: too large or odd.
            CK_PKCS5_PBKD2_PARAMS2 { ulPasswordLen: HUGE, ..good() },
            CK_PKCS5_PBKD2_PARAMS2 { ulPasswordLen: PASSWORD_LIMIT as CK_ULONG + 1, ..good() },
            CK_PKCS5_PBKD2_PARAMS2 { ulPasswordLen: END_OF_ADDRESSES as CK_ULONG, ..good() },
        ] {
            assert_eq!(with(CKM_PKCS5_PBKD2, &wrong).err(), INVALID);
        }
    }
}
