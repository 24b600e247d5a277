//! The state of an operation after a part of its message. `C_GetOperationState` saves it.

use jeton_secret::Secret;

use crate::backend::{Hasher, Mac, SavedCipher};
use crate::id::ObjectHandle;
use crate::mechanism::Mechanism;
use crate::quota::Permit;

/// The state of a digest, a MAC or a cipher after a part of the message.
pub enum Progress {
    /// A digest, or `None` if it has no data yet.
    Hasher(Option<Box<dyn Hasher>>),
    Mac(Box<dyn Mac>),
    Cipher(SavedCipher),
    /// The message so far, for a mechanism that collects it.
    Collected(Secret),
}

impl Progress {
    /// Returns the number of message bytes that it holds.
    pub(super) fn collected(&self) -> usize {
        match self {
            Self::Collected(message) | Self::Cipher(SavedCipher::Collected(message)) => message.len(),
            Self::Hasher(_) | Self::Mac(_) | Self::Cipher(SavedCipher::Running(_)) => 0,
        }
    }
}

pub(crate) struct Saved {
    /// The mechanism that the operation was started with.
    pub(crate) mechanism: Mechanism,
    /// The handle of the key, or 0.
    pub(crate) key: ObjectHandle,
    /// The state after the parts so far, or `None` before the first part.
    pub(crate) progress: Option<Progress>,
    /// The message bytes that are counted in the quota of the application.
    pub(crate) message: usize,
    pub(crate) _memory: Option<Permit>,
}
