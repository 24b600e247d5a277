//! The parameters of mechanisms that derive a key from another key.

use cryptoki_sys::*;
use jeton_names::structs::{DATA, KEY_BITS, PEER};
use jeton_words::error::{Error, Result, require};
use jeton_words::hash::Hash;
use jeton_words::limit::INTEGER;
use jeton_words::params::AgreementKdf::{self, OneStep, X963};
use jeton_words::params::{HkdfSalt, Params};

use super::{Parts, boolean, copy, hash, named, read};
use crate::ck_ulong::{object, wide};
use crate::input::In;

/// The key derivation functions (PKCS#11 3.2, "EC: Key Derivation Functions").
const KDFS: [(CK_EC_KDF_TYPE, Option<AgreementKdf>); 23] = [
    (CKD_NULL, None),
    (CKD_SHA1_KDF, Some(X963(Hash::Sha1))),
    (CKD_SHA224_KDF, Some(X963(Hash::Sha224))),
    (CKD_SHA256_KDF, Some(X963(Hash::Sha256))),
    (CKD_SHA384_KDF, Some(X963(Hash::Sha384))),
    (CKD_SHA512_KDF, Some(X963(Hash::Sha512))),
    (CKD_SHA3_224_KDF, Some(X963(Hash::Sha3_224))),
    (CKD_SHA3_256_KDF, Some(X963(Hash::Sha3_256))),
    (CKD_SHA3_384_KDF, Some(X963(Hash::Sha3_384))),
    (CKD_SHA3_512_KDF, Some(X963(Hash::Sha3_512))),
    (CKD_BLAKE2B_160_KDF, Some(X963(Hash::Blake2b160))),
    (CKD_BLAKE2B_256_KDF, Some(X963(Hash::Blake2b256))),
    (CKD_BLAKE2B_384_KDF, Some(X963(Hash::Blake2b384))),
    (CKD_BLAKE2B_512_KDF, Some(X963(Hash::Blake2b512))),
    (CKD_SHA1_KDF_SP800, Some(OneStep(Hash::Sha1))),
    (CKD_SHA224_KDF_SP800, Some(OneStep(Hash::Sha224))),
    (CKD_SHA256_KDF_SP800, Some(OneStep(Hash::Sha256))),
    (CKD_SHA384_KDF_SP800, Some(OneStep(Hash::Sha384))),
    (CKD_SHA512_KDF_SP800, Some(OneStep(Hash::Sha512))),
    (CKD_SHA3_224_KDF_SP800, Some(OneStep(Hash::Sha3_224))),
    (CKD_SHA3_256_KDF_SP800, Some(OneStep(Hash::Sha3_256))),
    (CKD_SHA3_384_KDF_SP800, Some(OneStep(Hash::Sha3_384))),
    (CKD_SHA3_512_KDF_SP800, Some(OneStep(Hash::Sha3_512))),
];

/// Reads `CK_ECDH1_DERIVE_PARAMS`.
///
/// # Safety
///
/// The memory that the struct points to is readable.
pub(super) unsafe fn ecdh(parameter: &[u8]) -> Result<Params> {
    // SAFETY: integers and pointers.
    let given: CK_ECDH1_DERIVE_PARAMS = unsafe { read(parameter) }?;
    let kdf = named(&KDFS, given.kdf)?;
    // PKCS#11 3.2, CK_ECDH1_DERIVE_PARAMS: with CKD_NULL there is no shared information.
    let limit = if kdf.is_some() { DATA } else { 0 };
    // SAFETY: the caller's promise.
    let shared = unsafe { copy(In(given.pSharedData, given.ulSharedDataLen), limit) }?;
    // SAFETY: the caller's promise.
    let peer = unsafe { copy(In(given.pPublicData, given.ulPublicDataLen), PEER) }?;
    // It is empty in C_EncapsulateKey and C_DecapsulateKey.
    Ok(Params::Ecdh { kdf, shared, peer })
}

/// Reads `CK_ECDH_AES_KEY_WRAP_PARAMS`.
///
/// # Safety
///
/// The memory that the struct points to is readable.
pub(super) unsafe fn ecdh_aes_wrap(parameter: &[u8]) -> Result<Params> {
    // SAFETY: integers and a pointer.
    let given: CK_ECDH_AES_KEY_WRAP_PARAMS = unsafe { read(parameter) }?;
    let aes_bits = named(&[(128, 128), (192, 192), (256, 256)], given.ulAESKeyBits)?;
    let kdf = named(&KDFS, given.kdf)?;
    let limit = if kdf.is_some() { DATA } else { 0 };
    // SAFETY: the caller's promise.
    let shared = unsafe { copy(In(given.pSharedData, given.ulSharedDataLen), limit) }?;
    Ok(Params::EcdhAesWrap { aes_bits, kdf, shared })
}

/// Reads a "Big integer", which is the parameter itself.
pub(super) fn integer(parameter: &[u8]) -> Result<Params> {
    // It is empty in C_EncapsulateKey and C_DecapsulateKey.
    require(parameter.len() <= INTEGER, Error::MechanismParamInvalid)?;
    Ok(Params::Data(parameter.into()))
}

/// Reads `CK_HKDF_PARAMS`.
///
/// # Safety
///
/// The memory that the struct points to is readable.
pub(super) unsafe fn hkdf(parameter: &[u8]) -> Result<Params> {
    // SAFETY: integers and pointers.
    let given: CK_HKDF_PARAMS = unsafe { read(parameter) }?;
    let (extract, expand) = (boolean(given.bExtract)?, boolean(given.bExpand)?);
    let hash = hash(given.prfHashMechanism)?;
    // Only the extraction uses the salt, and only the expansion uses the information. If a step is
    // disabled, its fields may have any value. SAFETY: the caller's promise.
    let salt = if extract { unsafe { salt(&given) }? } else { HkdfSalt::Null };
    let info = if expand { In(given.pInfo, given.ulInfoLen) } else { In(std::ptr::null(), 0) };
    // SAFETY: the caller's promise.
    let info = unsafe { copy(info, DATA) }?;
    Ok(Params::Hkdf { extract, expand, hash, salt, info })
}

/// # Safety
///
/// The salt is readable.
unsafe fn salt(given: &CK_HKDF_PARAMS) -> Result<HkdfSalt> {
    match given.ulSaltType {
        CKF_HKDF_SALT_NULL => Ok(HkdfSalt::Null),
        // SAFETY: the caller's promise.
        CKF_HKDF_SALT_DATA => unsafe { copy(In(given.pSalt, given.ulSaltLen), DATA) }.map(HkdfSalt::Data),
        CKF_HKDF_SALT_KEY => Ok(HkdfSalt::Key(object(given.hSaltKey))),
        _ => Err(Error::MechanismParamInvalid),
    }
}

pub(super) fn data(_: CK_KEY_DERIVATION_STRING_DATA, [data]: Parts<1>) -> Result<Params> {
    Ok(Params::Data(data))
}

pub(super) fn cbc_data(given: CK_AES_CBC_ENCRYPT_DATA_PARAMS, [data]: Parts<1>) -> Result<Params> {
    Ok(Params::CbcData { iv: given.iv, data })
}

/// Reads a `CK_OBJECT_HANDLE`. The module checks later that it is the handle of a key.
pub(super) fn key(parameter: &[u8]) -> Result<Params> {
    // SAFETY: an integer.
    unsafe { read::<CK_OBJECT_HANDLE>(parameter) }.map(|handle| Params::Key(object(handle)))
}

/// Reads `CK_EXTRACT_PARAMS`.
pub(super) fn bit(parameter: &[u8]) -> Result<Params> {
    // SAFETY: an integer.
    let number = wide(unsafe { read::<CK_EXTRACT_PARAMS>(parameter) }?);
    if number < KEY_BITS { Ok(Params::Bit(number)) } else { Err(Error::MechanismParamInvalid) }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::super::testing::{BYTES, HUGE, INVALID, SOME, invoke, with};
    use super::*;

    fn ecdh_of(kdf: CK_EC_KDF_TYPE, shared: CK_ULONG, ulPublicDataLen: CK_ULONG) -> CK_ECDH1_DERIVE_PARAMS {
        let (pSharedData, pPublicData) = (SOME, SOME);
        CK_ECDH1_DERIVE_PARAMS { kdf, ulSharedDataLen: shared, pSharedData, ulPublicDataLen, pPublicData }
    }

    fn hkdf_of(
        bExtract: CK_BBOOL,
        bExpand: CK_BBOOL,
        ulSaltType: CK_ULONG,
        salt: CK_ULONG,
    ) -> CK_HKDF_PARAMS {
        CK_HKDF_PARAMS {
            bExtract,
            bExpand,
            prfHashMechanism: CKM_SHA256,
            ulSaltType,
            pSalt: SOME,
            ulSaltLen: salt,
            hSaltKey: 9,
            pInfo: SOME,
            ulInfoLen: 3,
        }
    }

    #[test]
    fn ecdh_refuses_unknown_functions_and_bad_lengths() {
        for wrong in [
            ecdh_of(CKD_SHA1_KDF_ASN1, 0, 65),
            ecdh_of(CKD_SHA1_KDF_CONCATENATE, 0, 65),
            ecdh_of(CKD_NULL, 1, 65),
        ] {
            assert_eq!(with(CKM_ECDH1_DERIVE, &wrong).err(), INVALID);
        }
        assert!(with(CKM_ECDH1_DERIVE, &ecdh_of(CKD_NULL, 0, 0)).is_ok(), "for C_EncapsulateKey");
    }

    #[test]
    fn hkdf_reads_only_the_fields_of_its_steps() {
        let hash = Hash::Sha256;
        let given = CK_HKDF_PARAMS { pSalt: null_mut(), ..hkdf_of(CK_FALSE, CK_TRUE, 0, HUGE) };
        let info = BYTES[..3].into();
        let expected = Params::Hkdf { extract: false, expand: true, hash, salt: HkdfSalt::Null, info };
        assert!(with(CKM_HKDF_DERIVE, &given) == Ok(expected));
        let given = CK_HKDF_PARAMS { ulInfoLen: HUGE, ..hkdf_of(CK_TRUE, CK_FALSE, CKF_HKDF_SALT_NULL, 0) };
        let info = [].into();
        let expected = Params::Hkdf { extract: true, expand: false, hash, salt: HkdfSalt::Null, info };
        assert!(with(CKM_HKDF_DERIVE, &given) == Ok(expected));
    }

    #[test]
    fn ecdh_wrapping_takes_aes_sizes_and_known_functions() {
        let of = |ulAESKeyBits, kdf, ulSharedDataLen| CK_ECDH_AES_KEY_WRAP_PARAMS {
            ulAESKeyBits,
            kdf,
            ulSharedDataLen,
            pSharedData: SOME,
        };
        for id in [CKM_ECDH_AES_KEY_WRAP, CKM_ECDH_COF_AES_KEY_WRAP, CKM_ECDH_X_AES_KEY_WRAP] {
            let expected =
                Params::EcdhAesWrap { aes_bits: 192, kdf: Some(X963(Hash::Sha1)), shared: BYTES[..5].into() };
            assert!(with(id, &of(192, CKD_SHA1_KDF, 5)) == Ok(expected));
            let expected = Params::EcdhAesWrap { aes_bits: 128, kdf: None, shared: Box::default() };
            assert!(with(id, &of(128, CKD_NULL, 0)) == Ok(expected));
            assert_eq!(with(id, &of(256, CKD_NULL, 1)).err(), INVALID);
        }
    }

    #[test]
    fn the_public_value_of_a_peer_is_the_parameter() {
        let long = [9; INTEGER + 1];
        for len in [0, 1, 256, INTEGER] {
            let params = invoke(CKM_DH_PKCS_DERIVE, long.as_ptr(), len);
            assert!(params == Ok(Params::Data(long[..len].into())));
        }
        for wrong in [INTEGER + 1, usize::MAX] {
            assert_eq!(invoke(CKM_DH_PKCS_DERIVE, long.as_ptr(), wrong).err(), INVALID);
        }
        assert_eq!(invoke(CKM_DH_PKCS_DERIVE, std::ptr::null(), 1).err(), INVALID);
    }
}
