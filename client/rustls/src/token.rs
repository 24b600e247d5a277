//! Finds a token of a module, and keys and certificates in it.

use std::fmt;
use std::sync::Arc;

use cryptoki_sys::{
    CK_OBJECT_CLASS, CKA_CLASS, CKA_ID, CKA_LABEL, CKA_VALUE, CKO_CERTIFICATE, CKO_PRIVATE_KEY,
};
use jeton_client::{Attribute, Module, ObjectHandle, Session, SlotId};
use rustls::pki_types::CertificateDer;

use crate::error::Error;
use crate::key::SigningKey;
use crate::pool::Pool;

/// A token of a module. Clones share its login and its sessions.
#[derive(Clone)]
pub struct Token {
    pool: Arc<Pool>,
}

impl Token {
    /// Opens the token with this label, or the only initialised token, and logs the user in.
    /// Does not log in if `pin` is `None`: then the process must be logged in already, or the
    /// objects must be public.
    pub fn find(module: &Module, label: Option<&str>, pin: Option<&str>) -> Result<Self, Error> {
        let mut found = None;
        for slot in module.slots(true)? {
            let info = module.token_info(slot)?;
            if info.is_initialised() && label.is_none_or(|label| info.label == label) {
                if found.is_some() {
                    return Err(Error::SeveralTokens { label: label.map(str::to_owned) });
                }
                found = Some(slot);
            }
        }
        let slot = found.ok_or_else(|| Error::NoToken { label: label.map(str::to_owned) })?;
        Self::open(module, slot, pin)
    }

    /// Opens the token in this slot. `pin` is the same as in [`Self::find`].
    pub fn open(module: &Module, slot: SlotId, pin: Option<&str>) -> Result<Self, Error> {
        Ok(Self { pool: Arc::new(Pool::open(module, slot, pin)?) })
    }

    /// Returns the private key with this label or ID. Fails if no key or several keys match.
    pub fn signing_key(&self, find: &Find) -> Result<Arc<SigningKey>, Error> {
        let key = self.pool.with(|session| one(session, "private key", CKO_PRIVATE_KEY, find))?;
        self.signing_key_of(key)
    }

    /// Returns the private key with this handle. The handle of a session object is valid until the
    /// session that made it ends.
    pub fn signing_key_of(&self, key: ObjectHandle) -> Result<Arc<SigningKey>, Error> {
        Ok(Arc::new(SigningKey::read(&self.pool, key)?))
    }

    /// Returns the certificate with this label or ID. Fails if no certificate or several match.
    pub fn certificate(&self, find: &Find) -> Result<CertificateDer<'static>, Error> {
        self.pool.with(|session| {
            let object = one(session, "certificate", CKO_CERTIFICATE, find)?;
            Ok(session.attribute(object, CKA_VALUE)?.into())
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("slot", &self.pool.slot()).finish_non_exhaustive()
    }
}

/// The label or the ID of an object, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Find {
    label: Option<String>,
    id: Option<Vec<u8>>,
}

impl Find {
    /// An object with this `CKA_LABEL`.
    pub fn label(label: impl Into<String>) -> Self {
        Self { label: Some(label.into()), id: None }
    }

    /// An object with this `CKA_ID`.
    pub fn id(id: impl Into<Vec<u8>>) -> Self {
        Self { label: None, id: Some(id.into()) }
    }

    /// An object that also has this `CKA_ID`.
    #[must_use]
    pub fn and_id(self, id: impl Into<Vec<u8>>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    fn template(&self, class: CK_OBJECT_CLASS) -> Vec<Attribute> {
        let label = self.label.as_ref().map(|label| Attribute::bytes(CKA_LABEL, label.as_bytes()));
        let id = self.id.as_ref().map(|id| Attribute::bytes(CKA_ID, id.as_slice()));
        [Attribute::number(CKA_CLASS, class)].into_iter().chain(label).chain(id).collect()
    }
}

impl fmt::Display for Find {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.label.as_ref().map(|label| format!("the label {label:?}"));
        let digits = |id: &Vec<u8>| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id = self.id.as_ref().map(|id| format!("the ID {}", digits(id)));
        f.write_str(&label.into_iter().chain(id).collect::<Vec<_>>().join(" and "))
    }
}

fn one(
    session: &Session,
    object: &'static str,
    class: CK_OBJECT_CLASS,
    find: &Find,
) -> Result<ObjectHandle, Error> {
    match session.find(&find.template(class))?.as_slice() {
        [handle] => Ok(*handle),
        [] => Err(Error::NotFound { object, find: find.to_string() }),
        several => Err(Error::Several { object, find: find.to_string(), count: several.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_names_label_and_id() {
        assert_eq!(Find::label("www").and_id([1, 0xab]).to_string(), "the label \"www\" and the ID 01ab");
        assert_eq!(Find::id([2]).template(CKO_PRIVATE_KEY).len(), 2);
    }
}
