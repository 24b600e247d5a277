//! Who may see and change which object (PKCS#11 3.2, "Session types" and "Access to objects").

use super::bits::Flag;
use super::{Attributes, Object};
use crate::error::{Error, Result};
use crate::id::AttributeType as A;

/// Who is logged in to a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// Nobody.
    Public,
    /// The normal user.
    User,
    /// The security officer.
    Officer,
}

/// A session's rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    /// Who is logged in.
    pub login: Login,
    /// A read/write session.
    pub read_write: bool,
}

impl Rights {
    /// Whether a session sees an object: private ones only while the user is logged in.
    pub fn see(self, object: &Object) -> bool {
        !object.flag(Flag::PRIVATE) || self.login == Login::User
    }

    /// Whether a session may make, change or destroy an object with these attributes. PKCS#11 lets a public
    /// session write public token objects; here the write is sealed under a key that only a login opens, so that
    /// what stands on disk can be trusted.
    pub fn write(self, attributes: &Attributes) -> Result<()> {
        let is = |flag| attributes.flag(flag) == Some(true);
        let (token, private) = (is(A::TOKEN), is(A::PRIVATE));
        if token && !self.read_write {
            return Err(Error::SessionReadOnly);
        }
        if private && self.login != Login::User || token && self.login == Login::Public {
            return Err(Error::UserNotLoggedIn);
        }
        Ok(())
    }

    /// Whether the SO acts.
    pub fn officer(self) -> bool {
        self.login == Login::Officer
    }
}

/// Whether an object may be changed: `CKA_MODIFIABLE`. PKCS#11 3.2, "Certificate objects": "Trusted certificates cannot
/// be modified", but that the SO can trust one no longer.
pub fn modifiable(object: &Object, rights: Rights) -> Result<()> {
    if object.sort().is_certificate() && object.flag(Flag::TRUSTED) && !rights.officer() {
        return Err(Error::ActionProhibited);
    }
    permit(object, Flag::MODIFIABLE)
}

/// Whether an object may be copied: `CKA_COPYABLE`.
pub fn copyable(object: &Object) -> Result<()> {
    permit(object, Flag::COPYABLE)
}

/// Whether an object may be destroyed: `CKA_DESTROYABLE`.
pub fn destroyable(object: &Object) -> Result<()> {
    permit(object, Flag::DESTROYABLE)
}

fn permit(object: &Object, flag: Flag) -> Result<()> {
    if object.flag(flag) { Ok(()) } else { Err(Error::ActionProhibited) }
}
