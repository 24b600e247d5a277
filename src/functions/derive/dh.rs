//! Keys from key pairs: the shared secret of Diffie-Hellman (PKCS #3), and the public key of a
//! private key.

use jeton_secret::Secret;
use tracing::warn;

use crate::backend::PrivateKey;
use crate::error::{Error, Result, require};
use crate::functions::Module;
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::mechanism::field;
use crate::object::template::Template;
use crate::object::{Object, public_half};
use crate::token::Token;

/// Returns the shared secret, which is as long as the prime (PKCS#11 3.2, "PKCS #3 Diffie-Hellman
/// key derivation"). A shorter derived key gets the last bytes of the secret.
pub(super) fn agree(token: &Token, base: &Object, peer: &[u8]) -> Result<Secret> {
    // A public key may have CKA_DERIVE too, but its value is not a private one.
    require(base.object_type().is_private(), Error::KeyTypeInconsistent)?;
    agree_dh(token, &*base.private_key(token.provider())?, peer)
}

/// Returns the shared secret. Fails with `MechanismParamInvalid` if `peer` is not a public value of
/// the group, and with `KeyFunctionNotPermitted` if a peer of a small order would show a part of
/// the private value.
pub(in crate::functions) fn agree_dh(token: &Token, private: &dyn PrivateKey, peer: &[u8]) -> Result<Secret> {
    let allows_any_group = token.settings.policy.any_dh_group && !token.settings.is_strict();
    if !allows_any_group && !private.is_group_safe()? {
        warn!("the prime of a Diffie-Hellman key is not safe: see [policy] any-dh-group");
        return Err(Error::KeyFunctionNotPermitted);
    }
    const PEER: &str = "pParameter: the public value";
    if peer.is_empty() {
        return Err(field::refused(PEER));
    }
    private.agree(peer).map_err(|error| match error {
        Error::DataInvalid => field::refused(PEER),
        other => other,
    })
}

impl Module {
    /// Derives the public key of a private key, "regardless of its CKA_DERIVE attribute value"
    /// (PKCS#11 3.2, "Public key from private key").
    pub(in crate::functions) fn derive_public(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        private: ObjectHandle,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        let (token, rights) = self.access(session)?;
        let private = token.key_object(rights, private)?;
        require(private.object_type().is_key(), Error::KeyHandleInvalid)?;
        require(private.object_type().is_private(), Error::KeyTypeInconsistent)?;
        require(private.allows(mechanism.info.id), Error::MechanismInvalid)?;
        let parts = private.private_key(token.provider())?.public()?;
        let public = public_half::attributes(template, private.attributes(), &parts, rights)?;
        token.insert(rights, session, public)
    }
}
