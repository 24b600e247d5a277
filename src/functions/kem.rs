//! Key encapsulation (PKCS#11 3.2, `C_EncapsulateKey`, `C_DecapsulateKey`).

use jeton_secret::{Secret, with_wiped_frame};

use super::Module;
use super::audit::Call;
use super::derive::{MAX_DERIVED, agree_dh, agree_ecdh, check_form, check_received, mark_received};
use super::wrap::{DEFAULT_TYPE, add_unwrapped_key, unwrap, unwrap_error, wrap};
use crate::backend::{MlKem, PrivateKey, PublicParts};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, ObjectHandle, SessionHandle};
use crate::mechanism::flow::{Extent, Sizes};
use crate::mechanism::rule::Source;
use crate::mechanism::{Action, Derivation, Mechanism, Params, row_of};
use crate::object::access::Rights;
use crate::object::key_type::{ec, set};
use crate::object::make::{Cut, Origin};
use crate::object::required::refused_in;
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Attributes, Object, key, make};
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
        let keys = [public];
        self.record_call(session, Call::of("C_EncapsulateKey", Some(mechanism), &keys), |token, rights| {
            token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
            let public = usable(&token, rights, mechanism, public, Usage::ENCAPSULATE)?;
            let needed = ciphertext_len(mechanism, &public)?;
            let Output::Buffer(out) = out else { return Ok((needed, None)) };
            let place = out.get_mut(..needed).ok_or(Error::BufferTooSmall { needed })?;
            // PKCS#11 3.2, C_EncapsulateKey, has this error for a conflict of attributes.
            // C_DecapsulateKey has another.
            if make::conflicts(template, public.attributes().get(A::ENCAPSULATE_TEMPLATE)) {
                return Err(Error::KeyHandleInvalid);
            }
            let forced = public.attributes().get(A::ENCAPSULATE_TEMPLATE);
            let mut attributes = make_received(&token, forced, template, rights)?;
            let (ciphertext, secret) = encapsulate(&token, mechanism, &public, &mut attributes)?;
            let attributes = secret.put(mechanism, attributes, template, forced)?;
            let handle = token.insert(rights, session, attributes)?;
            place.get_mut(..ciphertext.len()).ok_or(Error::GeneralError)?.copy_from_slice(&ciphertext);
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
        let keys = [private];
        self.record_call(session, Call::of("C_DecapsulateKey", Some(mechanism), &keys), |token, rights| {
            token.settings.mechanism(mechanism.info.id).ok_or(Error::MechanismInvalid)?;
            let private = usable(&token, rights, mechanism, private, Usage::DECAPSULATE)?;
            check_form(&token, mechanism, &private, 0)?;
            let forced = forced_by(&private, mechanism);
            let attributes = make_received(&token, forced, template, rights)?;
            if let Action::Sign(..) | Action::Encrypt(_) = row_of(mechanism.info).action {
                let unwrapped = unwrap(&token, mechanism, &private, ciphertext, &attributes);
                let unwrapped = unwrapped.map_err(unwrap_error)?;
                let attributes = add_unwrapped_key(&token, mechanism, attributes, &unwrapped)?;
                check_received(&attributes)?;
                return token.insert(rights, session, attributes);
            }
            let secret = decapsulate(&token, mechanism, &private, &attributes, ciphertext)?;
            let attributes = secret.put(mechanism, attributes, template, forced)?;
            token.insert(rights, session, attributes)
        })
    }
}

/// The secret of which a new key gets bytes.
struct Shared {
    secret: Secret,
    /// The end that is cut off for a shorter key.
    cut: Cut,
    /// The lengths that the secret could have.
    extent: Extent,
}

impl Shared {
    fn put(
        &self,
        mechanism: &Mechanism,
        mut attributes: Attributes,
        template: &Template<'_>,
        forced: Option<&Value>,
    ) -> Result<Attributes> {
        mark_received(mechanism, &mut attributes, template, forced, (self.extent, self.secret.len()))?;
        let attributes = make::put_secret(attributes, &self.secret, self.cut)?;
        check_received(&attributes)?;
        Ok(attributes)
    }
}

/// Returns the ciphertext and the secret. RSA encrypts a random key of the length in `attributes`.
fn encapsulate(
    token: &Token,
    mechanism: &Mechanism,
    public: &Object,
    attributes: &mut Attributes,
) -> Result<(Vec<u8>, Shared)> {
    let provider = token.provider();
    let (ciphertext, secret, cut) = match row_of(mechanism.info).action {
        Action::Encapsulate => {
            let (ciphertext, secret) = public.public_key(provider)?.encapsulate()?;
            (ciphertext, secret, Cut::Trailing)
        }
        Action::Derive(_) => {
            let agreed = with_wiped_frame(|| agree_with_fresh_key(token, mechanism, public, attributes));
            return agreed.map_err(|error| match error {
                // A public key of small order gives no shared secret.
                Error::MechanismParamInvalid if has_no_peer(mechanism) => Error::KeyFunctionNotPermitted,
                other => other,
            });
        }
        _ => {
            let (len, room) = (make::secret_len(attributes)?, ciphertext_len(mechanism, public)?);
            // The length is the caller's choice, so it is checked before the key is allocated.
            require(len <= room, Error::KeySizeRange)?;
            let mut secret = provider.random.secret(len)?;
            let key_type = attributes.number(A::KEY_TYPE).ok_or(Error::TemplateIncomplete)?;
            key::form_secret(KeyType(key_type), &mut secret);
            let mut ciphertext = vec![0; room];
            let len = wrap(token, mechanism, public, &secret, &mut ciphertext)?;
            ciphertext.truncate(len);
            (ciphertext, secret, Cut::Not)
        }
    };
    Ok((ciphertext, Shared { secret, cut, extent: Extent::Fixed }))
}

/// Generates a key pair. Its public key is the ciphertext.
fn agree_with_fresh_key(
    token: &Token,
    mechanism: &Mechanism,
    public: &Object,
    attributes: &Attributes,
) -> Result<(Vec<u8>, Shared)> {
    let provider = token.provider();
    let peer = peer_of(&key::public_parts(public.attributes())?)?;
    let (fresh, private) =
        provider.keys.generate(&key::pair_spec(public.attributes(), &Attributes::default())?)?;
    let secret = agree(token, mechanism, &*provider.keys.private(&private)?, &peer, attributes)?;
    let fresh = peer_of(&fresh)?;
    // A public value of Diffie-Hellman may be shorter than the prime.
    let mut ciphertext = vec![0; ciphertext_len(mechanism, public)?.saturating_sub(fresh.len())];
    ciphertext.extend(fresh);
    Ok((ciphertext, secret))
}

/// Returns the secret of a ciphertext. RSA has another path, because decapsulation is "exactly
/// equivalent to C_UnwrapKey" (PKCS#11 3.2, "PKCS #1 RSA OAEP").
fn decapsulate(
    token: &Token,
    mechanism: &Mechanism,
    private: &Object,
    attributes: &Attributes,
    ciphertext: &[u8],
) -> Result<Shared> {
    let key = private.private_key(token.provider())?;
    if row_of(mechanism.info).action == Action::Encapsulate {
        // PKCS#11 3.2, C_DecapsulateKey: a ciphertext of the wrong length gives
        // `CKR_WRAPPED_KEY_LEN_RANGE`.
        let secret = key.decapsulate(ciphertext).map_err(|error| match error {
            Error::EncryptedDataLenRange => Error::WrappedKeyLenRange,
            other => other,
        })?;
        return Ok(Shared { secret, cut: Cut::Trailing, extent: Extent::Fixed });
    }
    agree(token, mechanism, &*key, ciphertext, attributes).map_err(|error| match error {
        Error::MechanismParamInvalid if has_no_peer(mechanism) => Error::WrappedKeyInvalid,
        other => other,
    })
}

/// Derives the secret as `C_DeriveKey` does. PKCS#11 3.2, "Elliptic Curve Diffie-Hellman key
/// derivation": the parameter has no public key.
fn agree(
    token: &Token,
    mechanism: &Mechanism,
    private: &dyn PrivateKey,
    peer: &[u8],
    attributes: &Attributes,
) -> Result<Shared> {
    require(has_no_peer(mechanism), Error::MechanismParamInvalid)?;
    let wanted = attributes.number(A::VALUE_LEN).and_then(|len| usize::try_from(len).ok());
    let (secret, cut) = match &mechanism.params {
        Params::Ecdh { kdf, shared, .. } => agree_ecdh(
            token.provider(),
            private,
            (*kdf, shared),
            peer,
            wanted.map(|len| len.min(MAX_DERIVED)),
        )?,
        _ => (agree_dh(token, private, peer)?, Cut::Leading),
    };
    let inputs = row_of(mechanism.info).inputs(&mechanism.params, Sizes::default());
    Ok(Shared { secret, cut, extent: inputs.ok_or(Error::MechanismInvalid)?.extent })
}

/// Returns whether the parameter of a key agreement has no public key.
fn has_no_peer(mechanism: &Mechanism) -> bool {
    match &mechanism.params {
        Params::Ecdh { peer, .. } => peer.is_empty(),
        Params::Data(peer) => peer.is_empty(),
        _ => false,
    }
}

/// Returns the public key in the form of a parameter of `C_DeriveKey`.
fn peer_of(parts: &PublicParts) -> Result<Vec<u8>> {
    match parts {
        PublicParts::Dh { value, .. } => Ok(value.clone()),
        parts => ec::point_of(parts).map(<[u8]>::to_vec),
    }
}

/// Returns the template that a private key forces upon the keys that it decapsulates. Without
/// `CKA_DECAPSULATE_TEMPLATE` it is the template of the use that gives the same key. Otherwise a
/// user who adds `CKA_DECAPSULATE` to a key could bypass that template.
fn forced_by<'a>(private: &'a Object, mechanism: &Mechanism) -> Option<&'a Value> {
    let same = match row_of(mechanism.info).action {
        Action::Derive(_) => A::DERIVE_TEMPLATE,
        _ => A::UNWRAP_TEMPLATE,
    };
    let attributes = private.attributes();
    attributes.get(A::DECAPSULATE_TEMPLATE).or_else(|| attributes.get(same))
}

/// Returns the attributes of the new key. `forced` is the template that the key pair forces upon
/// it.
fn make_received(
    token: &Token,
    forced: Option<&Value>,
    template: &Template<'_>,
    rights: Rights,
) -> Result<Attributes> {
    let (history, key_type) = ((false, false), DEFAULT_TYPE);
    // Under the strict policy the secret is sensitive on both sides, as the private key is.
    let sensitive = token.settings.is_strict();
    let origin = Origin { forced, extractable: true, sensitive, history, key_type };
    let attributes = token.receive(template, &origin, (&[forced], Source::Agreed), rights)?;
    let is_secret = attributes.object_type().is_some_and(|object_type| object_type.is_secret());
    if is_secret {
        return Ok(attributes);
    }
    let clause = "C_EncapsulateKey and C_DecapsulateKey: the key is a secret key";
    Err(refused_in(&attributes, A::CLASS, clause, Error::TemplateInconsistent))
}

fn ciphertext_len(mechanism: &Mechanism, public: &Object) -> Result<usize> {
    let attributes = public.attributes();
    match row_of(mechanism.info).action {
        Action::Encapsulate => {
            let set = set::named(attributes, &MlKem::ALL);
            set.map(MlKem::ciphertext_len).map_err(|_| Error::KeyTypeInconsistent)
        }
        Action::Derive(Derivation::Dh) => {
            attributes.bytes(A::PRIME).map(<[u8]>::len).ok_or(Error::GeneralError)
        }
        Action::Derive(_) => ec::point_len(attributes),
        _ => key::modulus_len(attributes),
    }
}
