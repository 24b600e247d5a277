//! Digests of keys (PKCS#11 3.2, `C_DigestKey`).

use super::Module;
use super::audit::Call;
use super::derive::digestible;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::mechanism::rule::Policy;
use crate::object::Object;
use crate::object::flags::Flag;
use crate::session::strong_enough;

impl Module {
    /// `C_DigestKey`
    pub fn digest_key(&self, session: SessionHandle, key: ObjectHandle) -> Result<()> {
        self.record_call(session, Call::of("C_DigestKey", None, &[key]), |_, _| {
            self.sessions.with(session, |session| {
                let digest = &mut session.operations.digest;
                let mechanism = digest.mechanism().ok_or(Error::OperationNotInitialized)?;
                let rights = session.token.rights(session.access);
                let object = session.token.key_object(rights, key)?;
                check_digestible(&object, mechanism, session.token.rules())?;
                digest.update(object.attributes().bytes(A::VALUE).unwrap_or_default())
            })
        })
    }
}

/// Checks that `C_DigestKey` may use a key with this digest mechanism. The function has no usage
/// attribute of its own. Its result has the same bytes as a key that is derived by this digest, so
/// a sensitive key needs `CKA_DERIVE`, and the rules for such a key hold. From the digest of a
/// short key, a caller could find the key: they could compare it with the digests of all values.
fn check_digestible(key: &Object, mechanism: &Mechanism, policy: Policy) -> Result<()> {
    let derives = !key.flag(Flag::SENSITIVE) || key.flag(Flag::DERIVE);
    if !key.object_type().is_secret() || !key.allows(mechanism.info.id) || !derives {
        return Err(Error::KeyIndigestible);
    }
    digestible(mechanism, key, policy)?;
    strong_enough(key)
}
