//! The arguments of the functions of an operation.

use serde::{Deserialize, Serialize};

use crate::cipher::GcmParams;
use crate::error::Result;
use crate::params::Params;

/// The destination of a result (PKCS#11 3.2, "Conventions for functions returning output in a
/// variable-length buffer").
pub enum Output<'a> {
    /// The caller passed NULL and asks only for the length.
    Length,
    /// The caller's buffer.
    Buffer(&'a mut [u8]),
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
