//! Sessions and the login (PKCS#11 3.2, "Session management functions").

use serde::{Deserialize, Serialize};

use crate::id::SlotId;

/// The result of `C_GetSessionInfo`.
#[derive(Serialize, Deserialize)]
pub struct SessionInfo {
    /// The slot of the token.
    pub slot: SlotId,
    /// The session state (`CKS_*`).
    pub state: u64,
    /// The type of the session.
    pub access: Access,
    /// True for an asynchronous session.
    pub asynchronous: bool,
}

/// The user type of a login (`CKU_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum User {
    /// `CKU_SO`
    SecurityOfficer,
    /// `CKU_USER`
    User,
    /// `CKU_CONTEXT_SPECIFIC`
    ContextSpecific,
}

impl User {
    /// Returns the name of the number.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SecurityOfficer => "CKU_SO",
            Self::User => "CKU_USER",
            Self::ContextSpecific => "CKU_CONTEXT_SPECIFIC",
        }
    }
}

/// The type of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// A read-only session, which cannot write token objects.
    ReadOnly,
    /// A read/write session.
    ReadWrite,
}
