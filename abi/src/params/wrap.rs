//! The parameters of `C_WrapKey` and `C_UnwrapKey` with an AEAD cipher: `CK_GCM_WRAP_PARAMS` and
//! `CK_CCM_WRAP_PARAMS`. They have the fields of the parameters of `C_Encrypt`, and also a nonce
//! generator. The functions accept the parameters of `C_Encrypt` too, which have other lengths.

use std::mem::size_of;
use std::ptr::null_mut;

use cryptoki_sys::{
    CK_BYTE, CK_CCM_PARAMS, CK_CCM_WRAP_PARAMS, CK_GCM_WRAP_PARAMS, CK_GENERATOR_FUNCTION, CK_MECHANISM,
};
use jeton_names::structs::GcmWithoutBits;
use jeton_words::cipher::{AeadScheme, CipherScheme};
use jeton_words::error::{Error, Result, require};
use jeton_words::id::MechanismType;
use jeton_words::mechanism::{Mechanism, MechanismWord};
use jeton_words::message::MessageParams;
use jeton_words::params::Params;

use super::cipher::{ccm_of, gcm_of};
use super::message::{GENERATORS, Message};
use super::{mechanism, named, read};
use crate::ck_ulong::wide;
use crate::input::In;

/// Reads the mechanism of `C_WrapKey`. Also returns the nonce if the parameter has a nonce
/// generator.
///
/// # Safety
///
/// `pointer` is `NULL` or readable. The parameter in it is readable, and so is the memory that the
/// parameter points to.
pub(crate) unsafe fn mechanism_that_wraps(
    pointer: *const CK_MECHANISM,
) -> Result<(Mechanism, Option<Message>)> {
    // SAFETY: the caller's promise.
    let Some((info, scheme, generated)) = unsafe { authenticated(pointer) }? else {
        // SAFETY: the caller's promise.
        return Ok((unsafe { mechanism(pointer) }?, None));
    };
    let message = message(&scheme, generated)?;
    Ok((Mechanism { info, params: Params::Cipher(scheme) }, Some(message)))
}

/// Reads the mechanism of `C_UnwrapKey`. "The ulIvFixedBits and ivGenerator fields are ignored."
///
/// # Safety
///
/// As for [`mechanism_that_wraps`].
pub(crate) unsafe fn mechanism_that_unwraps(pointer: *const CK_MECHANISM) -> Result<Mechanism> {
    // SAFETY: the caller's promise.
    match unsafe { authenticated(pointer) }? {
        Some((info, scheme, _)) => Ok(Mechanism { info, params: Params::Cipher(scheme) }),
        // SAFETY: the caller's promise.
        None => unsafe { mechanism(pointer) },
    }
}

/// The address of a nonce, and its generator.
struct Generated {
    nonce: *mut CK_BYTE,
    fixed_bits: u64,
    generator: CK_GENERATOR_FUNCTION,
}

/// Reads the mechanism and its parameter if the parameter is one of the two structs. The cipher of
/// the mechanism and the length of the parameter show which one.
///
/// # Safety
///
/// As for [`mechanism_that_wraps`].
unsafe fn authenticated(
    pointer: *const CK_MECHANISM,
) -> Result<Option<(&'static MechanismWord, CipherScheme, Generated)>> {
    require(!pointer.is_null(), Error::ArgumentsBad)?;
    // SAFETY: not null. Readable by the caller's promise.
    let given = unsafe { pointer.read_unaligned() };
    let Some(info) = mechanism::find(MechanismType(wide(given.mechanism))) else { return Ok(None) };
    let len = match info.aead() {
        Some(AeadScheme::AesGcm) => size_of::<CK_GCM_WRAP_PARAMS>(),
        Some(AeadScheme::AesCcm) => size_of::<CK_CCM_WRAP_PARAMS>(),
        _ => return Ok(None),
    };
    if wide(given.ulParameterLen) != len as u64 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let parameter = unsafe { In(given.pParameter.cast(), given.ulParameterLen).bytes() };
    let parameter = parameter.map_err(|_| Error::MechanismParamInvalid)?;
    // SAFETY: both structs have only integers and pointers. The rest is the caller's promise.
    let (scheme, generated) = unsafe {
        match info.aead() {
            Some(AeadScheme::AesGcm) => gcm(read(parameter)?),
            _ => ccm(read(parameter)?),
        }
    }?;
    Ok(Some((info, scheme, generated)))
}

/// # Safety
///
/// The memory that the struct points to is readable.
unsafe fn gcm(given: CK_GCM_WRAP_PARAMS) -> Result<(CipherScheme, Generated)> {
    let CK_GCM_WRAP_PARAMS { pIv, ulIvLen, ulIvFixedBits, ivGenerator, pAAD, ulAADLen, ulTagBits } = given;
    let generated = Generated { nonce: pIv, fixed_bits: wide(ulIvFixedBits), generator: ivGenerator };
    let given =
        GcmWithoutBits { iv: pIv, iv_len: ulIvLen, aad: pAAD, aad_len: ulAADLen, tag_bits: ulTagBits };
    // SAFETY: the caller's promise.
    Ok((unsafe { gcm_of(&given) }?.scheme()?, generated))
}

/// # Safety
///
/// The memory that the struct points to is readable.
unsafe fn ccm(given: CK_CCM_WRAP_PARAMS) -> Result<(CipherScheme, Generated)> {
    // `ulDataLen` is ignored.
    let CK_CCM_WRAP_PARAMS {
        pNonce,
        ulNonceLen,
        ulNonceFixedBits,
        nonceGenerator,
        pAAD,
        ulAADLen,
        ulMACLen,
        ..
    } = given;
    let generated =
        Generated { nonce: pNonce, fixed_bits: wide(ulNonceFixedBits), generator: nonceGenerator };
    let given = CK_CCM_PARAMS { ulDataLen: 0, pNonce, ulNonceLen, pAAD, ulAADLen, ulMACLen };
    // SAFETY: the caller's promise.
    Ok((unsafe { ccm_of(&given) }?, generated))
}

/// Returns the nonce as the nonce of a message, because the token generates both in the same way.
fn message(scheme: &CipherScheme, generated: Generated) -> Result<Message> {
    let CipherScheme::Aead { cipher, nonce, tag_len, .. } = scheme else {
        return Err(Error::MechanismParamInvalid);
    };
    let fixed_bits = usize::try_from(generated.fixed_bits).map_err(|_| Error::MechanismParamInvalid)?;
    let mut params = MessageParams::new(*cipher, nonce, *tag_len)?;
    params.set_generator(named(&GENERATORS, generated.generator)?, fixed_bits)?;
    Ok(Message { params, nonce: generated.nonce, tag: null_mut() })
}

#[cfg(test)]
mod tests {
    use std::ptr::{from_ref, null};

    use cryptoki_sys::{
        CK_GCM_PARAMS, CK_MECHANISM_TYPE, CK_ULONG, CKG_GENERATE, CKG_GENERATE_RANDOM, CKG_NO_GENERATE,
        CKM_AES_CCM, CKM_AES_GCM,
    };
    use jeton_words::message::Generator;

    use super::super::testing::{BYTES, HUGE, INVALID, SOME, length};
    use super::*;

    fn gcm_with(ivGenerator: CK_ULONG, ulIvFixedBits: CK_ULONG, ulIvLen: CK_ULONG) -> CK_GCM_WRAP_PARAMS {
        let (pIv, pAAD) = (SOME, SOME);
        CK_GCM_WRAP_PARAMS { pIv, ulIvLen, ulIvFixedBits, ivGenerator, pAAD, ulAADLen: 5, ulTagBits: 96 }
    }

    fn given<T>(mechanism: CK_MECHANISM_TYPE, parameter: &T) -> CK_MECHANISM {
        let pParameter = from_ref(parameter).cast_mut().cast();
        CK_MECHANISM { mechanism, pParameter, ulParameterLen: length(size_of::<T>()) }
    }

    fn wraps<T>(mechanism: CK_MECHANISM_TYPE, parameter: &T) -> Result<(Mechanism, Option<Message>)> {
        let given = given(mechanism, parameter);
        // SAFETY: live memory, or refused before it is read.
        unsafe { mechanism_that_wraps(&raw const given) }
    }

    #[test]
    fn the_parameter_selects_who_generates_the_nonce() {
        let expected = |cipher, nonce: usize, aad: usize, tag_len, data_len| {
            let (nonce, aad) = (BYTES[..nonce].into(), BYTES[..aad].into());
            Params::Cipher(CipherScheme::Aead { cipher, nonce, aad, tag_len, data_len })
        };
        let gcm = expected(AeadScheme::AesGcm, 12, 5, 12, 0);
        let parameter = gcm_with(CKG_GENERATE_RANDOM, 16, 12);
        let (mechanism, message) = wraps(CKM_AES_GCM, &parameter).expect("a parameter");
        let message = message.expect("a nonce that the token generates");
        assert!(mechanism.params == gcm);
        assert_eq!((message.params.generator(), message.params.fixed_bits()), (Generator::Random, 16));
        let ignored = gcm_with(HUGE, HUGE, 12);
        let given = given(CKM_AES_GCM, &ignored);
        // SAFETY: live memory.
        let mechanism = unsafe { mechanism_that_unwraps(&raw const given) }.expect("a parameter");
        assert!(mechanism.params == gcm);

        let ccm = CK_CCM_WRAP_PARAMS {
            ulDataLen: HUGE,
            pNonce: SOME,
            ulNonceLen: 11,
            ulNonceFixedBits: 0,
            nonceGenerator: CKG_NO_GENERATE,
            pAAD: null_mut(),
            ulAADLen: 0,
            ulMACLen: 8,
        };
        let (mechanism, message) = wraps(CKM_AES_CCM, &ccm).expect("a parameter");
        assert!(mechanism.params == expected(AeadScheme::AesCcm, 11, 0, 8, 0));
        assert!(message.is_some_and(|message| message.params.generator() == Generator::None));
    }

    #[test]
    fn the_parameter_of_a_cipher_is_accepted_too() {
        let parameter = CK_GCM_PARAMS {
            pIv: SOME,
            ulIvLen: 12,
            ulIvBits: 96,
            pAAD: null_mut(),
            ulAADLen: 0,
            ulTagBits: 128,
        };
        assert!(wraps(CKM_AES_GCM, &parameter).is_ok_and(|(_, message)| message.is_none()));
    }

    #[test]
    fn hostile_parameters_are_refused() {
        for wrong in
            [gcm_with(CKG_GENERATE, 97, 12), gcm_with(CKG_GENERATE, HUGE, 12), gcm_with(CKG_GENERATE, 0, 0)]
        {
            assert_eq!(wraps(CKM_AES_GCM, &wrong).err(), INVALID);
        }
        let nothing =
            CK_MECHANISM { pParameter: null_mut(), ..given(CKM_AES_GCM, &gcm_with(CKG_GENERATE, 0, 12)) };
        // SAFETY: nothing is read through null.
        unsafe {
            assert_eq!(mechanism_that_wraps(&raw const nothing).err(), INVALID);
            assert_eq!(mechanism_that_wraps(null()).err(), Some(Error::ArgumentsBad));
            assert_eq!(mechanism_that_unwraps(null()).err(), Some(Error::ArgumentsBad));
        }
    }
}
