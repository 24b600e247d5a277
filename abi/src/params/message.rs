//! The parameter of one message of an AEAD cipher. A function reads it, and writes the generated
//! nonce and the tag to the memory that the parameter points to.
//!
//! The length of the parameter shows which struct it is, because the three structs have different
//! lengths. A struct for another cipher is refused.

use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{null_mut, slice_from_raw_parts_mut};

use cryptoki_sys::*;
use jeton_words::cipher::AeadScheme;
use jeton_words::error::{Error, Result, require};
use jeton_words::id::MechanismType;
use jeton_words::mechanism::{Mechanism, MechanismWord};
use jeton_words::message::{Generator, MessageParams};
use jeton_words::params::Params;

use super::{cipher, mechanism, named, read};
use crate::ck_ulong::wide;
use crate::input::In;

pub(super) const GENERATORS: [(CK_ULONG, Generator); 5] = [
    (CKG_NO_GENERATE, Generator::None),
    (CKG_GENERATE, Generator::Any),
    (CKG_GENERATE_COUNTER, Generator::Counter),
    (CKG_GENERATE_RANDOM, Generator::Random),
    (CKG_GENERATE_COUNTER_XOR, Generator::CounterXor),
];

/// How a function uses the tag of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Does not use it, because the message begins.
    Later,
    Read,
    /// Writes it after the encryption.
    Write,
}

/// How a function uses the nonce.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nonce {
    /// Uses the caller's nonce and ignores the generator.
    Given,
    /// Generates the nonce if the parameter asks for it.
    Generated,
}

/// The parameter, with the addresses of the nonce and of a tag that is written.
pub(crate) struct Message {
    pub(crate) params: MessageParams,
    pub(super) nonce: *mut CK_BYTE,
    pub(super) tag: *mut CK_BYTE,
}

struct Fields {
    scheme: AeadScheme,
    nonce: *mut CK_BYTE,
    nonce_len: u64,
    fixed_bits: u64,
    generator: CK_GENERATOR_FUNCTION,
    tag: *mut CK_BYTE,
    tag_len: u64,
    data_len: u64,
}

/// Reads the parameter of a message of the operation's cipher into `message`. Refuses the struct of
/// another cipher, and each without an operation, before it follows a pointer: one struct has an
/// address where another has a length.
///
/// # Safety
///
/// `pointer` is `NULL` or readable for `len` bytes. In the struct of that cipher, the nonce is
/// readable, and with [`Tag::Read`] the tag too.
#[inline]
pub(crate) unsafe fn read_message(
    message: &mut Message,
    scheme: Option<AeadScheme>,
    (pointer, len): (*mut c_void, CK_ULONG),
    nonce: Nonce,
    tag: Tag,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let parameter = unsafe { In(pointer.cast(), len).bytes() }.map_err(|_| Error::MechanismParamInvalid)?;
    let fields = fields(parameter)?;
    require(Some(fields.scheme) == scheme, Error::MechanismParamInvalid)?;
    message.nonce = fields.nonce;
    if tag == Tag::Write {
        message.tag = fields.tag;
    }
    // SAFETY: the caller's promise.
    unsafe { fields.parse(&mut message.params, nonce, tag) }
}

/// Reads the mechanism of `C_MessageEncryptInit` and `C_MessageDecryptInit`. Fails with
/// `ArgumentsBad` for `NULL`. The parameter may be present, as in the specification's example, or
/// absent. Each message has its own parameter, so this one is not used.
///
/// # Safety
///
/// `pointer` is `NULL` or readable, and so is the parameter in it.
pub(crate) unsafe fn message_mechanism(pointer: *const CK_MECHANISM) -> Result<Mechanism> {
    require(!pointer.is_null(), Error::ArgumentsBad)?;
    // SAFETY: the caller's promise.
    let (given, mechanism, scheme) = unsafe { aead(pointer) }?;
    // SAFETY: the caller's promise.
    let parameter = unsafe { In(given.pParameter.cast(), given.ulParameterLen).bytes() };
    let parameter = parameter.map_err(|_| Error::MechanismParamInvalid)?;
    require(parameter.is_empty() || fields(parameter)?.scheme == scheme, Error::MechanismParamInvalid)?;
    Ok(Mechanism { info: mechanism, params: Params::None })
}

/// Reads the mechanism of `C_WrapKeyAuthenticated` and `C_UnwrapKeyAuthenticated`, whose parameter
/// is that of a message.
///
/// # Safety
///
/// `pointer` is `NULL` or readable. For the parameter in it, the contract of [`read_message`]
/// holds.
pub(crate) unsafe fn mechanism_with_message(
    pointer: *const CK_MECHANISM,
    nonce: Nonce,
    tag: Tag,
) -> Result<(Mechanism, Message)> {
    require(!pointer.is_null(), Error::ArgumentsBad)?;
    // SAFETY: the caller's promise.
    let (given, mechanism, scheme) = unsafe { aead(pointer) }?;
    let mut message = Message::empty();
    // SAFETY: the caller's promise.
    unsafe {
        read_message(&mut message, Some(scheme), (given.pParameter, given.ulParameterLen), nonce, tag)
    }?;
    Ok((Mechanism { info: mechanism, params: Params::None }, message))
}

/// # Safety
///
/// `pointer` is readable.
unsafe fn aead(pointer: *const CK_MECHANISM) -> Result<(CK_MECHANISM, &'static MechanismWord, AeadScheme)> {
    // SAFETY: readable by the caller's promise. Alignment is not needed.
    let given = unsafe { pointer.read_unaligned() };
    let mechanism = mechanism::find(MechanismType(wide(given.mechanism))).ok_or(Error::MechanismInvalid)?;
    let scheme = mechanism.aead().ok_or(Error::MechanismInvalid)?;
    Ok((given, mechanism, scheme))
}

/// Fails with `MechanismParamInvalid` if a message has a parameter. Signature mechanisms have none.
pub(crate) fn no_parameter(len: CK_ULONG) -> Result<()> {
    if len == 0 { Ok(()) } else { Err(Error::MechanismParamInvalid) }
}

fn fields(parameter: &[u8]) -> Result<Fields> {
    const GCM: usize = size_of::<CK_GCM_MESSAGE_PARAMS>();
    const CCM: usize = size_of::<CK_CCM_MESSAGE_PARAMS>();
    const POLY: usize = size_of::<CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS>();
    // SAFETY: each of the three structs has only integers and pointers.
    unsafe {
        match parameter.len() {
            GCM => gcm(read(parameter)?),
            CCM => Ok(ccm(read(parameter)?)),
            POLY => chacha20_poly1305(read(parameter)?),
            _ => Err(Error::MechanismParamInvalid),
        }
    }
}

fn gcm(given: CK_GCM_MESSAGE_PARAMS) -> Result<Fields> {
    let tag_bits = wide(given.ulTagBits);
    require(tag_bits.is_multiple_of(8), Error::MechanismParamInvalid)?;
    Ok(Fields {
        scheme: AeadScheme::AesGcm,
        nonce: given.pIv,
        nonce_len: wide(given.ulIvLen),
        fixed_bits: wide(given.ulIvFixedBits),
        generator: given.ivGenerator,
        tag: given.pTag,
        tag_len: tag_bits / 8,
        data_len: 0,
    })
}

fn ccm(given: CK_CCM_MESSAGE_PARAMS) -> Fields {
    Fields {
        scheme: AeadScheme::AesCcm,
        nonce: given.pNonce,
        nonce_len: wide(given.ulNonceLen),
        fixed_bits: wide(given.ulNonceFixedBits),
        generator: given.nonceGenerator,
        tag: given.pMAC,
        tag_len: wide(given.ulMACLen),
        data_len: wide(given.ulDataLen),
    }
}

fn chacha20_poly1305(given: CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS) -> Result<Fields> {
    Ok(Fields {
        scheme: AeadScheme::ChaCha20Poly1305,
        nonce: given.pNonce,
        nonce_len: cipher::poly1305_nonce_len(given.ulNonceLen)?,
        fixed_bits: 0,
        generator: CKG_NO_GENERATE,
        tag: given.pTag,
        tag_len: AeadScheme::POLY1305_TAG as u64,
        data_len: 0,
    })
}

impl Fields {
    /// # Safety
    ///
    /// The nonce is readable, and with [`Tag::Read`] the tag too.
    #[inline]
    unsafe fn parse(self, params: &mut MessageParams, nonce: Nonce, tag: Tag) -> Result<()> {
        let len = |len: u64| usize::try_from(len).map_err(|_| Error::MechanismParamInvalid);
        let (nonce_len, tag_len) = (len(self.nonce_len)?, len(self.tag_len)?);
        // The lengths are checked first, so that no memory is read for a length that the cipher
        // does not accept.
        let lost = self.nonce.is_null() || (tag != Tag::Later && self.tag.is_null());
        require(!lost && self.scheme.takes(nonce_len, tag_len), Error::MechanismParamInvalid)?;
        // SAFETY: not null, at most `MAX_NONCE` bytes long. The rest is the caller's promise.
        let bytes = unsafe { &*slice_from_raw_parts_mut(self.nonce, nonce_len) };
        params.set_nonce(self.scheme, bytes, tag_len)?;
        params.announce(len(self.data_len)?);
        if nonce == Nonce::Generated {
            params.set_generator(named(&GENERATORS, self.generator)?, len(self.fixed_bits)?)?;
        }
        if tag == Tag::Read {
            // SAFETY: not null, at most 16 bytes long. The rest is the caller's promise.
            params.set_tag(unsafe { &*slice_from_raw_parts_mut(self.tag, tag_len) })?;
        }
        Ok(())
    }
}

impl Message {
    /// Returns a parameter to be read into: see [`MessageParams::empty`].
    #[inline]
    pub(crate) fn empty() -> Self {
        Self { params: MessageParams::empty(), nonce: null_mut(), tag: null_mut() }
    }

    /// Writes the generated nonce, and a tag that was read with [`Tag::Write`], to the caller's
    /// memory.
    ///
    /// # Safety
    ///
    /// The nonce in the parameter and this tag are writable, and no slice of their memory is in
    /// use.
    pub(crate) unsafe fn write(&self) {
        let (nonce, tag) = (self.params.nonce(), self.params.tag());
        // SAFETY: the code that read the parameter refused null, and read the same number of bytes
        // of the nonce. Writable by the caller's promise.
        unsafe {
            if self.params.generator() != Generator::None {
                std::ptr::copy(nonce.as_ptr(), self.nonce, nonce.len());
            }
            if !self.tag.is_null() {
                std::ptr::copy(tag.as_ptr(), self.tag, tag.len());
            }
        }
    }
}
