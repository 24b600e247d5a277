//! The parameters of ciphers with a secret key.

use std::mem::size_of;

use cryptoki_sys::{
    CK_AES_CTR_PARAMS, CK_CCM_PARAMS, CK_CHACHA20_PARAMS, CK_GCM_PARAMS, CK_SALSA20_CHACHA20_POLY1305_PARAMS,
    CK_ULONG,
};
use jeton_names::structs::{AAD, GcmWithoutBits};
use jeton_words::cipher::{AeadScheme, CipherMode, CipherScheme, GcmParams};
use jeton_words::error::{Error, Result, require};
use jeton_words::limit::CCM_MESSAGE;
use jeton_words::params::Params;

use super::{bounded, copy, nonce, read};
use crate::ck_ulong::wide;
use crate::input::In;

/// The length of a ChaCha20-Poly1305 nonce in bytes (RFC 8439, 2.8). The specification also has
/// nonces of 64 bits. They are too short to be random, and no RFC describes a construction that
/// uses them.
const CHACHA20_POLY1305_NONCE: u64 = 12;
const GMAC_STRUCT: usize = size_of::<CK_GCM_PARAMS>();
/// The length in bytes of a GMAC initialisation vector that is the parameter.
const GMAC_IV: usize = 12;
/// The number of counter and nonce bits in the original ChaCha20 and in the IETF variant (PKCS#11
/// 3.2, "ChaCha20: Nonce and block counter lengths").
const CHACHA20: [(u64, u64); 2] = [(64, 64), (32, 96)];

/// Reads the parameter of a cipher.
///
/// # Safety
///
/// The memory that the struct in `parameter` points to is readable.
pub(super) unsafe fn cipher(mode: CipherMode, parameter: &[u8]) -> Result<Params> {
    // SAFETY: the caller's promise.
    let scheme = unsafe {
        match mode {
            CipherMode::AesCtr => counter(parameter),
            CipherMode::ChaCha20 => chacha20(parameter),
            CipherMode::Aead(AeadScheme::AesGcm) => gcm(parameter)?.scheme(),
            CipherMode::Aead(AeadScheme::AesCcm) => ccm(parameter),
            CipherMode::Aead(AeadScheme::ChaCha20Poly1305) => chacha20_poly1305(parameter),
            // The parameter is the initialisation vector itself, or empty.
            mode => mode.scheme(parameter),
        }
    }?;
    Ok(Params::Cipher(scheme))
}

/// Reads `CK_AES_CTR_PARAMS`.
fn counter(parameter: &[u8]) -> Result<CipherScheme> {
    // SAFETY: an integer and bytes.
    let given: CK_AES_CTR_PARAMS = unsafe { read(parameter) }?;
    let bits = u32::try_from(given.ulCounterBits).map_err(|_| Error::MechanismParamInvalid)?;
    Ok(CipherScheme::AesCtr { block: given.cb, bits })
}

/// Reads `CK_GCM_PARAMS`. Its length shows which of the two forms it has.
///
/// # Safety
///
/// The memory that the struct points to is readable during `'a`, and nothing writes there.
#[inline]
pub(super) unsafe fn gcm<'a>(parameter: &[u8]) -> Result<GcmParams<'a>> {
    let given = if parameter.len() == size_of::<GcmWithoutBits>() {
        // SAFETY: integers and pointers.
        unsafe { read(parameter) }?
    } else {
        // SAFETY: integers and pointers.
        without_bits(unsafe { read(parameter) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { gcm_of(&given) }
}

/// Reads the parameter of GMAC. `C_Sign` gets the additional data, so the struct has none. PKCS#11
/// 2.40 has an initialisation vector of 12 bytes in place of the struct.
///
/// # Safety
///
/// The memory that the struct points to is readable.
pub(super) unsafe fn gmac(parameter: &[u8]) -> Result<Params> {
    let (iv, tag_len) = match parameter.len() {
        GMAC_STRUCT => {
            // SAFETY: the caller's promise.
            let given = unsafe { gcm(parameter) }?;
            require(given.aad.is_empty(), Error::MechanismParamInvalid)?;
            (given.nonce, given.tag_len)
        }
        GMAC_IV => (parameter, 16),
        _ => return Err(Error::MechanismParamInvalid),
    };
    Ok(Params::Gmac { iv: iv.into(), tag_len })
}

/// # Safety
///
/// The memory that the struct points to is readable during `'a`, and nothing writes there.
#[inline]
pub(super) unsafe fn gcm_of<'a>(given: &GcmWithoutBits) -> Result<GcmParams<'a>> {
    let tag_bits = wide(given.tag_bits);
    require(tag_bits.is_multiple_of(8), Error::MechanismParamInvalid)?;
    // SAFETY: the caller's promise.
    let nonce = unsafe { nonce_of(AeadScheme::AesGcm, In(given.iv, given.iv_len), tag_bits / 8) }?;
    // SAFETY: the caller's promise.
    let aad = unsafe { bounded(In(given.aad, given.aad_len), AAD) }?;
    Ok(GcmParams { nonce, aad, tag_len: tag_bits as usize / 8 })
}

/// Returns a nonce. Fails if the cipher does not accept the lengths of nonce and tag.
///
/// # Safety
///
/// The contract of [`In::bytes`].
unsafe fn nonce_of<'a>(cipher: AeadScheme, bytes: In, tag_len: u64) -> Result<&'a [u8]> {
    let len = wide(bytes.1);
    match (usize::try_from(len), usize::try_from(tag_len)) {
        // SAFETY: the caller's promise.
        (Ok(nonce_len), Ok(tag_len)) if cipher.takes(nonce_len, tag_len) => unsafe { bounded(bytes, len) },
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Converts the form with `ulIvBits`. The field is ignored: PKCS#11 3.2, `CK_GCM_PARAMS`, has it in
/// the header only, and clients leave other values there.
fn without_bits(given: CK_GCM_PARAMS) -> GcmWithoutBits {
    GcmWithoutBits {
        iv: given.pIv,
        iv_len: given.ulIvLen,
        aad: given.pAAD,
        aad_len: given.ulAADLen,
        tag_bits: given.ulTagBits,
    }
}

/// Reads `CK_CCM_PARAMS`.
///
/// # Safety
///
/// The memory that the struct points to is readable.
unsafe fn ccm(parameter: &[u8]) -> Result<CipherScheme> {
    // SAFETY: integers and pointers.
    let given: CK_CCM_PARAMS = unsafe { read(parameter) }?;
    // SAFETY: the caller's promise.
    unsafe { ccm_of(&given) }
}

/// # Safety
///
/// The memory that the struct points to is readable.
pub(super) unsafe fn ccm_of(given: &CK_CCM_PARAMS) -> Result<CipherScheme> {
    let (data_len, tag_len) = (wide(given.ulDataLen), wide(given.ulMACLen));
    // SAFETY: the caller's promise.
    let nonce = unsafe { nonce_of(AeadScheme::AesCcm, In(given.pNonce, given.ulNonceLen), tag_len) }?;
    require(data_len <= CCM_MESSAGE as u64, Error::MechanismParamInvalid)?;
    AeadScheme::check_ccm_len(nonce.len(), data_len as usize)?;
    // SAFETY: the caller's promise.
    let aad = unsafe { copy(In(given.pAAD, given.ulAADLen), AAD) }?;
    Ok(CipherScheme::Aead {
        cipher: AeadScheme::AesCcm,
        nonce: nonce.into(),
        aad,
        tag_len: tag_len as usize,
        data_len: data_len as usize,
    })
}

/// Reads `CK_CHACHA20_PARAMS`.
///
/// # Safety
///
/// The memory that the struct points to is readable.
unsafe fn chacha20(parameter: &[u8]) -> Result<CipherScheme> {
    // SAFETY: integers and pointers.
    let given: CK_CHACHA20_PARAMS = unsafe { read(parameter) }?;
    if !CHACHA20.contains(&(wide(given.blockCounterBits), wide(given.ulNonceBits))) {
        return Err(Error::MechanismParamInvalid);
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { copy(In(given.pBlockCounter, given.blockCounterBits / 8), 8) }?;
    // SAFETY: the caller's promise.
    let nonce = unsafe { copy(In(given.pNonce, given.ulNonceBits / 8), 12) }?;
    // RFC 8439, 2.3: the state holds the counter in little-endian order, and so does this
    // parameter.
    let mut counter = [0; 8];
    counter.iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
    Ok(CipherScheme::ChaCha20 { nonce, counter: u64::from_le_bytes(counter) })
}

/// Reads `CK_SALSA20_CHACHA20_POLY1305_PARAMS`.
///
/// # Safety
///
/// The memory that the struct points to is readable.
unsafe fn chacha20_poly1305(parameter: &[u8]) -> Result<CipherScheme> {
    // SAFETY: integers and pointers.
    let given: CK_SALSA20_CHACHA20_POLY1305_PARAMS = unsafe { read(parameter) }?;
    poly1305_nonce_len(given.ulNonceLen)?;
    // SAFETY: the caller's promise.
    let nonce = unsafe { nonce(In(given.pNonce, NONCE_BYTES), CHACHA20_POLY1305_NONCE) }?;
    // SAFETY: the caller's promise.
    let aad = unsafe { copy(In(given.pAAD, given.ulAADLen), AAD) }?;
    let tag_len = AeadScheme::POLY1305_TAG;
    Ok(CipherScheme::Aead { cipher: AeadScheme::ChaCha20Poly1305, nonce, aad, tag_len, data_len: 0 })
}

/// Returns the length of a ChaCha20-Poly1305 nonce in bytes. PKCS#11 3.2 passes it in bits, but
/// some clients pass it in bytes. No valid length is ambiguous.
pub(super) fn poly1305_nonce_len(given: CK_ULONG) -> Result<u64> {
    match given {
        NONCE_BYTES | NONCE_BITS => Ok(CHACHA20_POLY1305_NONCE),
        _ => Err(Error::MechanismParamInvalid),
    }
}

const NONCE_BYTES: CK_ULONG = CHACHA20_POLY1305_NONCE as CK_ULONG;
const NONCE_BITS: CK_ULONG = 8 * NONCE_BYTES;

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use cryptoki_sys::{
        CKM_AES_CCM, CKM_AES_GCM, CKM_AES_GMAC, CKM_AES_KEY_WRAP, CKM_AES_KEY_WRAP_KWP, CKM_CHACHA20,
        CKM_CHACHA20_POLY1305,
    };

    use super::super::testing::{BYTES, HUGE, INVALID, SOME, invoke, with};
    use super::*;

    fn gcm_with(
        ulIvLen: CK_ULONG,
        ulIvBits: CK_ULONG,
        ulAADLen: CK_ULONG,
        ulTagBits: CK_ULONG,
    ) -> CK_GCM_PARAMS {
        CK_GCM_PARAMS { pIv: SOME, ulIvLen, ulIvBits, pAAD: SOME, ulAADLen, ulTagBits }
    }

    fn ccm_with(
        ulDataLen: CK_ULONG,
        ulNonceLen: CK_ULONG,
        ulAADLen: CK_ULONG,
        ulMACLen: CK_ULONG,
    ) -> CK_CCM_PARAMS {
        CK_CCM_PARAMS { ulDataLen, pNonce: SOME, ulNonceLen, pAAD: SOME, ulAADLen, ulMACLen }
    }

    fn aead(cipher: AeadScheme, nonce: usize, aad: usize, tag_len: usize, data_len: usize) -> Result<Params> {
        let (nonce, aad) = (BYTES[..nonce].into(), BYTES[..aad].into());
        Ok(Params::Cipher(CipherScheme::Aead { cipher, nonce, aad, tag_len, data_len }))
    }

    fn gcm_of(nonce: usize, aad: usize, tag_len: usize) -> Result<Params> {
        aead(AeadScheme::AesGcm, nonce, aad, tag_len, 0)
    }

    #[test]
    fn key_wrapping_takes_an_initial_value_or_none() {
        let kw = |iv| CipherScheme::AesKw { iv, padded: false };
        let kwp = |iv| CipherScheme::AesKwp { iv };
        for (id, len, none, some) in [
            (CKM_AES_KEY_WRAP, 8, kw(None), kw(Some([7; 8]))),
            (CKM_AES_KEY_WRAP_KWP, 4, kwp(None), kwp(Some([7; 4]))),
        ] {
            assert!(invoke(id, null(), 0) == Ok(Params::Cipher(none)));
            assert!(invoke(id, SOME, len) == Ok(Params::Cipher(some)));
            for wrong in [1, len - 1, len + 1, usize::MAX] {
                assert_eq!(invoke(id, SOME, wrong).err(), INVALID);
            }
            assert_eq!(invoke(id, null(), len).err(), INVALID);
        }
    }

    #[test]
    fn gcm_takes_both_forms_of_its_struct() {
        let old = |tag_bits| GcmWithoutBits { iv: SOME, iv_len: 12, aad: SOME, aad_len: 3, tag_bits };
        assert!(with(CKM_AES_GCM, &old(128)) == gcm_of(12, 3, 16));
        assert!(with(CKM_AES_GCM, &gcm_with(12, 96, 3, 128)) == gcm_of(12, 3, 16));
        for iv_bits in [0, 12, 97, HUGE] {
            assert!(with(CKM_AES_GCM, &gcm_with(12, iv_bits, 3, 96)) == gcm_of(12, 3, 12));
        }
    }

    #[test]
    fn gcm_needs_a_nonce_but_no_additional_data() {
        assert_eq!(with(CKM_AES_GCM, &gcm_with(0, 0, 0, 128)).err(), INVALID);
        let no_aad = CK_GCM_PARAMS { pAAD: null_mut(), ..gcm_with(12, 96, 0, 128) };
        assert!(with(CKM_AES_GCM, &no_aad) == gcm_of(12, 0, 16));
    }

    #[test]
    fn gmac_takes_the_struct_of_gcm_or_the_initialisation_vector() {
        let gmac = |len: usize, tag_len| Ok(Params::Gmac { iv: BYTES[..len].into(), tag_len });
        assert!(invoke(CKM_AES_GMAC, SOME, 12) == gmac(12, 16));
        for len in [0, 1, 11, 13, 40, 47, 48, 49, 256, usize::MAX] {
            assert_eq!(invoke(CKM_AES_GMAC, SOME, len).err(), INVALID, "{len}");
        }
        assert_eq!(invoke(CKM_AES_GMAC, null(), 12).err(), INVALID);
        assert!(with(CKM_AES_GMAC, &gcm_with(12, 96, 0, 96)) == gmac(12, 12));
        assert_eq!(with(CKM_AES_GMAC, &gcm_with(12, 96, 1, 128)).err(), INVALID);
    }

    #[test]
    fn ccm_limits_the_message_by_the_length_of_its_nonce() {
        let ccm_of = |nonce, aad, tag_len, data_len| aead(AeadScheme::AesCcm, nonce, aad, tag_len, data_len);
        assert!(with(CKM_AES_CCM, &ccm_with(32, 7, 3, 4)) == ccm_of(7, 3, 4, 32));
        assert!(with(CKM_AES_CCM, &ccm_with(0xffff, 13, 0, 16)) == ccm_of(13, 0, 16, 0xffff));
        for wrong in [
            ccm_with(0x1_0000, 13, 0, 16),
            ccm_with(HUGE, 7, 0, 16),
            ccm_with(CCM_MESSAGE as CK_ULONG + 1, 7, 0, 16),
            ccm_with(32, 6, 0, 16),
        ] {
            assert_eq!(with(CKM_AES_CCM, &wrong).err(), INVALID);
        }
    }

    #[test]
    fn chacha20_counts_in_little_endian_order() {
        let counter = [1, 2, 3, 4, 5, 6, 7, 8];
        let pBlockCounter = counter.as_ptr().cast_mut();
        let of = |blockCounterBits, ulNonceBits| {
            with(
                CKM_CHACHA20,
                &CK_CHACHA20_PARAMS { pBlockCounter, blockCounterBits, pNonce: SOME, ulNonceBits },
            )
        };
        let expected = |nonce: usize, counter| {
            Ok(Params::Cipher(CipherScheme::ChaCha20 { nonce: BYTES[..nonce].into(), counter }))
        };
        assert!(of(32, 96) == expected(12, 0x0403_0201));
        assert!(of(64, 64) == expected(8, 0x0807_0605_0403_0201));
        for (counter_bits, nonce_bits) in [(32, 64), (64, 96), (64, 192), (0, 96), (32, 0)] {
            assert_eq!(of(counter_bits, nonce_bits).err(), INVALID);
        }
    }

    #[test]
    fn chacha20_poly1305_accepts_only_nonces_of_96_bits() {
        let of = |ulNonceLen, ulAADLen| {
            let params =
                CK_SALSA20_CHACHA20_POLY1305_PARAMS { pNonce: SOME, ulNonceLen, pAAD: SOME, ulAADLen };
            with(CKM_CHACHA20_POLY1305, &params)
        };
        for nonce_len in [12, 96] {
            assert!(of(nonce_len, 3) == aead(AeadScheme::ChaCha20Poly1305, 12, 3, 16, 0));
        }
        for nonce_len in [8, 24, 64, 192] {
            assert_eq!(of(nonce_len, 0).err(), INVALID);
        }
    }
}
