//! The proof of a private key: the public key that Jeton computes from it is that of the old store.
//! When the object was created, Jeton checked that the parts of the private key fit each other.

mod public;

use cryptoki_sys::{CKA_PUBLIC_KEY_INFO, CKA_TOKEN};
use jeton_migrate::Object;

use crate::Error;
use crate::client::{Attribute, ObjectHandle, Session};

pub(super) use public::PublicKeys;

pub(super) struct Prover<'a> {
    pub(super) session: &'a Session,
    pub(super) publics: &'a PublicKeys<'a>,
    /// Whether the policy of the new token is *strict*.
    pub(super) is_strict: bool,
}

impl Prover<'_> {
    /// Proves one private key. Fails if it does not fit its public key. The inner error says why
    /// there was no way to prove it.
    pub(super) fn prove(&self, object: &Object, key: ObjectHandle) -> Result<Result<(), String>, Error> {
        let publics = self.publics.of(object);
        if publics.is_empty() {
            return Ok(Err("the old store has no public key and no certificate with this ID".to_owned()));
        }
        let computed = self.session.attribute(key, CKA_PUBLIC_KEY_INFO)?;
        if computed.is_empty() {
            return Ok(Err("Jeton computes no public key from it".to_owned()));
        }
        for public in publics {
            let template = [&public.parts[..], &[Attribute::flag(CKA_TOKEN, false)]].concat();
            let object = self.session.create_object(&template)?;
            let expected = self.session.attribute(object, CKA_PUBLIC_KEY_INFO)?;
            self.session.destroy_object(object)?;
            if computed == expected {
                return Ok(Ok(()));
            }
        }
        Err(Error::Failed("it does not fit the old public key".to_owned()))
    }
}
