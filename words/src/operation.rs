//! The arguments of the functions of an operation.

use cryptoki_sys::{CK_OTP_PARAM, CK_OTP_SIGNATURE_INFO};
use serde::{Deserialize, Serialize};

use crate::cipher::GcmParams;
use crate::error::Result;
use crate::mechanism::{Mechanism, MechanismWord};
use crate::params::Params;

/// The destination of a result (PKCS#11 3.2, "Conventions for functions returning output in a
/// variable-length buffer").
pub enum Output<'a> {
    /// The caller passed NULL and asks only for the length.
    Length,
    /// The caller's buffer.
    Buffer(&'a mut [u8]),
}

impl Output<'_> {
    /// Returns the name of the function for the audit log, unless the caller asks only for the
    /// length.
    pub fn recorded(&self, function: &'static str) -> Option<&'static str> {
        matches!(self, Self::Buffer(_)).then_some(function)
    }
}

/// Whether a function begins a message or continues one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// The function begins a message.
    Begin,
    /// The function continues the active message.
    Continue,
}

/// The parameter of an encryption or a decryption. That of GCM stays in the caller's memory.
#[derive(Clone, Copy)]
pub enum CryptParams<'a> {
    /// The parameter of GCM.
    Gcm(GcmParams<'a>),
    /// The parameter of another mechanism.
    Parsed(&'a Params),
}

impl CryptParams<'_> {
    /// Copies the parameter. Fails with `HostMemory` if there is no memory for it.
    pub fn copied(self) -> Result<Params> {
        match self {
            Self::Gcm(gcm) => gcm.scheme().map(Params::Cipher),
            Self::Parsed(params) => Ok(params.clone()),
        }
    }

    /// Returns the bytes that [`copied`](Self::copied) allocates: see [`Params::size`].
    pub fn size(self) -> usize {
        match self {
            Self::Gcm(GcmParams { nonce, aad, .. }) => nonce.len() + aad.len(),
            Self::Parsed(params) => params.size(),
        }
    }
}

impl<'a> From<&'a Params> for CryptParams<'a> {
    fn from(params: &'a Params) -> Self {
        match params {
            Params::Cipher(scheme) => scheme.gcm().map_or(Self::Parsed(params), Self::Gcm),
            _ => Self::Parsed(params),
        }
    }
}

/// The mechanism of an encryption or a decryption.
#[derive(Clone, Copy)]
pub struct CryptMechanism<'a> {
    /// The mechanism.
    pub info: &'static MechanismWord,
    /// Its parameter.
    pub params: CryptParams<'a>,
}

impl<'a> From<&'a Mechanism> for CryptMechanism<'a> {
    fn from(mechanism: &'a Mechanism) -> Self {
        Self { info: mechanism.info, params: (&mechanism.params).into() }
    }
}

/// The result of `C_Sign`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signed {
    /// The buffer has a signature of this length, or this is the length to ask for.
    Bytes(usize),
    /// A one-time password.
    Password(OneTimePassword),
}

impl Signed {
    /// Returns the length of the result in the caller's buffer.
    #[inline]
    pub fn length(&self) -> usize {
        match self {
            Self::Bytes(length) => *length,
            Self::Password(password) => OneTimePassword::room(password.digits().len()),
        }
    }
}

/// A one-time password (PKCS#11 3.2, `CK_OTP_SIGNATURE_INFO`). The C interface lays it out, because
/// the struct has pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneTimePassword {
    /// The decimal digits, of which the first `len` count. Zeros if the caller asks for the length.
    pub digits: [u8; OneTimePassword::MAX_DIGITS],
    /// The number of digits.
    pub len: u8,
    /// The counter.
    pub counter: [u8; 8],
}

impl OneTimePassword {
    /// The greatest number of digits (PKCS#11 3.2, "OATH HOTP").
    pub const MAX_DIGITS: usize = 8;

    /// Returns the length of a `CK_OTP_SIGNATURE_INFO` with the two parameters of a password of
    /// this number of digits, and their values.
    pub const fn room(digits: usize) -> usize {
        size_of::<CK_OTP_SIGNATURE_INFO>() + 2 * size_of::<CK_OTP_PARAM>() + 8 + digits
    }

    /// Returns the digits.
    pub fn digits(&self) -> &[u8] {
        self.digits.get(..usize::from(self.len)).unwrap_or_default()
    }
}
