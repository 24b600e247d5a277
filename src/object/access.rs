//! Which session may create, change, copy or destroy which object (PKCS#11 3.2, "Session types" and
//! "Access to objects").

use jeton_words::session::Access;

use super::flags::Flag;
use super::{Attributes, Object, key};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, ObjectClass};

/// Which role is logged in to a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    Public,
    User,
    SecurityOfficer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The role that is logged in.
    pub(crate) login: Login,
    pub(crate) access: Access,
}

impl Rights {
    /// Checks that a session may create, change or destroy an object with these attributes. PKCS#11
    /// allows a public session to write public token objects. Here such a write needs the token
    /// key, which authenticates the file and which only a login unwraps.
    pub(crate) fn write(self, attributes: &Attributes) -> Result<()> {
        let is = |flag| attributes.flag(flag) == Some(true);
        let (token, private) = (is(A::TOKEN), is(A::PRIVATE));
        require(!token || self.access != Access::ReadOnly, Error::SessionReadOnly)?;
        if private && self.login != Login::User || token && self.login == Login::Public {
            return Err(Error::UserNotLoggedIn);
        }
        Ok(())
    }

    /// Checks that a session may create an object with these attributes. Only the SO creates
    /// trusted objects. The template was checked for this too, but the SO may log out between
    /// `C_GenerateKey` and `C_AsyncComplete`.
    pub(crate) fn make(self, attributes: &Attributes) -> Result<()> {
        require(attributes.flag(A::TRUSTED) != Some(true) || self.is_so(), Error::AttributeReadOnly)?;
        self.write(attributes)
    }

    pub(crate) fn is_so(self) -> bool {
        self.login == Login::SecurityOfficer
    }
}

/// Checks that an object may be changed: `CKA_MODIFIABLE`. PKCS#11 3.2, "Certificate objects":
/// "Trusted certificates cannot be modified". Here this holds for every trusted object, but the SO
/// can modify it, for example to withdraw the trust. A user who gave `CKA_DECRYPT` to a trusted
/// wrapping key could read every key that has `CKA_WRAP_WITH_TRUSTED`.
pub(crate) fn modifiable(object: &Object, rights: Rights) -> Result<()> {
    require(!object.flag(Flag::TRUSTED) || rights.is_so(), Error::ActionProhibited)?;
    permit(object, Flag::MODIFIABLE)
}

/// Fails if a change gives an unreadable key a usage that it may not have, because its bytes are a
/// part of another key or a concatenation.
pub(crate) fn keeps_makeup(object: &Object, attributes: &Attributes) -> Result<()> {
    let makeup = object.attributes().makeup();
    let raised = |(id, is): (A, bool)| is && object.attributes().flag(id) == Some(false);
    let usages = key::usages(ObjectClass::SECRET_KEY);
    match attributes.flags().any(|flag| usages.contains(&flag.0) && raised(flag) && !makeup.permits(flag.0)) {
        true => Err(Error::AttributeReadOnly),
        false => Ok(()),
    }
}

/// Checks that the object may be copied: `CKA_COPYABLE`. What counts is never copied, also if an
/// older version made it with `CKA_COPYABLE` true.
pub(crate) fn copyable(object: &Object) -> Result<()> {
    require(!object.attributes().counts(), Error::ActionProhibited)?;
    permit(object, Flag::COPYABLE)
}

/// Checks that the object itself permits the call: `CKA_DESTROYABLE`, for example.
pub(crate) fn permit(object: &Object, flag: Flag) -> Result<()> {
    if object.flag(flag) { Ok(()) } else { Err(Error::ActionProhibited) }
}
