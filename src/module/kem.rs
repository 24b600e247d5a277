//! Key encapsulation (PKCS#11 3.2, `C_EncapsulateKey`, `C_DecapsulateKey`).

use super::Module;
use super::audit::Call;
use super::derive::{check_received, mark_received};
use super::wrap::DEFAULT_TYPE;
use crate::backend::MlKem;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectClass, ObjectHandle, SessionHandle};
use crate::mechanism::Mechanism;
use crate::object::key_type::set;
use crate::object::make::{Cut, Origin};
use crate::object::policy::Rights;
use crate::object::template::Template;
use crate::object::{Attributes, Object, make, strict};
use crate::session::operation::Output;
use crate::session::{Usage, usable};
use crate::token::Token;

impl Module {
    /// `C_EncapsulateKey`. Returns the length of the ciphertext. Also returns the key, unless the
    /// caller asked only for the length.
    pub fn encapsulate_key(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        public: ObjectHandle,
        template: &Template<'_>,
        out: Output<'_>,
    ) -> Result<(usize, Option<ObjectHandle>)> {
        self.record_call(session, Call::of("C_EncapsulateKey", Some(mechanism), &[public]), || {
            let (token, rights) = self.access(session)?;
            token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
            let public = usable(&token, rights, mechanism, public, Usage::ENCAPSULATE)?;
            let needed = ciphertext_len(&public)?;
            let Output::Buffer(out) = out else { return Ok((needed, None)) };
            let place = out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
            // PKCS#11 3.2, C_EncapsulateKey, has this error for a conflict of attributes.
            // C_DecapsulateKey has another.
            if make::conflicts(template, public.attributes().get(A::ENCAPSULATE_TEMPLATE)) {
                return Err(Error::KeyHandleInvalid);
            }
            let mut attributes = make_received(&token, &public, A::ENCAPSULATE_TEMPLATE, template, rights)?;
            let (ciphertext, secret) = public.public_key(token.provider())?.encapsulate()?;
            let forced = public.attributes().get(A::ENCAPSULATE_TEMPLATE);
            mark_received(mechanism, &mut attributes, template, forced, secret.len())?;
            let attributes = make::put_secret(attributes, &secret, Cut::Trailing)?;
            check_received(&attributes)?;
            let handle = token.insert(rights, session, attributes)?;
            place.copy_from_slice(&ciphertext);
            Ok((needed, Some(handle)))
        })
    }

    /// `C_DecapsulateKey`
    pub fn decapsulate_key(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        private: ObjectHandle,
        template: &Template<'_>,
        ciphertext: &[u8],
    ) -> Result<ObjectHandle> {
        self.record_call(session, Call::of("C_DecapsulateKey", Some(mechanism), &[private]), || {
            let (token, rights) = self.access(session)?;
            token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
            let private = usable(&token, rights, mechanism, private, Usage::DECAPSULATE)?;
            let mut attributes = make_received(&token, &private, A::DECAPSULATE_TEMPLATE, template, rights)?;
            // PKCS#11 3.2, C_DecapsulateKey: a ciphertext of the wrong length gives
            // `CKR_WRAPPED_KEY_LEN_RANGE`.
            let secret =
                private.private_key(token.provider())?.decapsulate(ciphertext).map_err(
                    |error| match error {
                        Error::EncryptedDataLenRange => Error::WrappedKeyLenRange,
                        other => other,
                    },
                )?;
            let forced = private.attributes().get(A::DECAPSULATE_TEMPLATE);
            mark_received(mechanism, &mut attributes, template, forced, secret.len())?;
            let attributes = make::put_secret(attributes, &secret, Cut::Trailing)?;
            check_received(&attributes)?;
            token.insert(rights, session, attributes)
        })
    }
}

/// Returns the attributes of the new key. `forced` is the attribute of `pair` that contains the
/// template for the new key.
fn make_received(
    token: &Token,
    pair: &Object,
    forced: A,
    template: &Template<'_>,
    rights: Rights,
) -> Result<Attributes> {
    let forced = pair.attributes().get(forced);
    let (history, key_type) = ((false, false), DEFAULT_TYPE);
    // Under the strict policy the secret is sensitive on both sides, as the private key is.
    let sensitive = token.settings.is_strict();
    let origin = Origin { forced, extractable: true, sensitive, history, key_type };
    let template = token.named_usages(template, ObjectClass::SECRET_KEY, forced);
    let attributes = make::receive(&template, &origin, rights)?;
    if sensitive {
        strict::hidden(&attributes)?;
    }
    rights.write(&attributes)?;
    Ok(attributes)
}

fn ciphertext_len(public: &Object) -> Result<usize> {
    let set = set::named(public.attributes(), &MlKem::ALL);
    set.map(MlKem::ciphertext_len).map_err(|_| Error::KeyTypeInconsistent)
}
