//! Functions that continue after they have returned (PKCS#11 3.2, "Asynchronous function management
//! functions").

use serde::{Deserialize, Serialize};

use crate::id::ObjectHandle;

/// A function that can return `CKR_PENDING`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum AsyncFunction {
    GenerateKey,
    GenerateKeyPair,
    Sign,
    SignFinal,
}

impl AsyncFunction {
    const ALL: [Self; 4] = [Self::GenerateKey, Self::GenerateKeyPair, Self::Sign, Self::SignFinal];

    /// Returns the function with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// Returns the name of the function.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GenerateKey => "C_GenerateKey",
            Self::GenerateKeyPair => "C_GenerateKeyPair",
            Self::Sign => "C_Sign",
            Self::SignFinal => "C_SignFinal",
        }
    }
}

/// The result of a function that may continue after it has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Started<T> {
    /// The function is complete.
    Done(T),
    /// The function is pending (`CKR_PENDING`). `C_AsyncComplete` returns its result.
    Pending,
}

/// The objects that a function created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// The secret key or the public key.
    pub object: ObjectHandle,
    /// The private key of a pair.
    pub additional: Option<ObjectHandle>,
}
