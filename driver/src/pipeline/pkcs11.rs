//! The pipeline's cryptography through the C interface of a module. Each thread has a session. A
//! signature is one `C_SignInit` and one `C_Sign` with an output buffer. With asynchronous
//! sessions, a thread starts the signatures of a part before it asks for the first one. The
//! pipeline keeps the handles of the keys that it generated, and never searches for a key.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cryptoki_sys::*;
use der::Encode;
use jeton_pki::signer::Signer;
use spki::SubjectPublicKeyInfoOwned;

use super::engine::Engine;
use super::parts::ITEMS;
use super::workers::PerThread;
use crate::algorithm::{Algorithm, Key};
use crate::client::{Access, Attribute, Doing, Failure, Module, ObjectHandle, Session, SlotId, User, names};
use crate::{Error, Result};

/// The name of Ed25519, `CKA_EC_PARAMS`. PKCS#11 3.0 allows it too, and SoftHSM before 2.7 accepts
/// no other form.
pub(crate) const ED25519_NAME: &[u8] = b"\x13\x0cedwards25519";

/// A module with a token, logged in.
pub struct Pkcs11 {
    sessions: PerThread<Session>,
    /// The asynchronous sessions of each thread.
    asynchronous: Option<PerThread<Vec<Session>>>,
    mechanisms: Vec<CK_MECHANISM_TYPE>,
    ca: Option<Ca>,
    /// The index of the template variant that the module accepted last.
    variant: AtomicUsize,
    /// The objects of the batch, destroyed at its end.
    made: Mutex<Vec<ObjectHandle>>,
}

struct Ca {
    signer: Signer,
    signature_length: usize,
    public: ObjectHandle,
    private: ObjectHandle,
}

impl Pkcs11 {
    /// Opens a session for each thread of the pool and logs the user in.
    pub fn open(
        module: &Module,
        slot: SlotId,
        pin: &str,
        threads: usize,
        asynchronous: bool,
    ) -> Result<Self> {
        let sessions = PerThread::new(threads, || module.open_session(slot, Access::ReadWrite))?;
        sessions.mine().login(User::User, Some(pin))?;
        let open = || (0..ITEMS).map(|_| module.open_async_session(slot, Access::ReadWrite)).collect();
        let asynchronous = asynchronous.then(|| PerThread::new(threads, open)).transpose()?;
        Ok(Self {
            asynchronous,
            mechanisms: module.mechanisms(slot)?,
            sessions,
            ca: None,
            variant: AtomicUsize::new(0),
            made: Mutex::default(),
        })
    }

    fn ca(&self) -> Result<&Ca> {
        self.ca.as_ref().ok_or_else(|| Error::Failed("no CA key was made".to_owned()))
    }

    fn signer(&self, key: &SubjectPublicKeyInfoOwned) -> Result<Signer> {
        let signer = Signer::of(&key.to_der()?)?;
        if self.mechanisms.contains(&signer.mechanism.kind) {
            Ok(signer)
        } else {
            Err(lacks(signer.mechanism.kind))
        }
    }

    /// Generates a key pair in this thread's session. Modules accept different forms of the curve.
    /// This function tries each form, and remembers the first one that works.
    fn generate(
        &self,
        algorithm: &Algorithm,
        token: bool,
        id: &[u8],
    ) -> Result<(ObjectHandle, ObjectHandle)> {
        let key_type = algorithm.key_type()?;
        let mechanism = key_type.mechanism;
        if !self.mechanisms.contains(&mechanism.kind) {
            return Err(lacks(mechanism.kind));
        }
        let mut variants = vec![key_type.parameters];
        if algorithm.key == Key::Ed25519 {
            variants.push(vec![Attribute::bytes(CKA_EC_PARAMS, ED25519_NAME)]);
        }
        let session = self.sessions.mine();
        let first = self.variant.load(Ordering::Relaxed).min(variants.len() - 1);
        let mut refused = None;
        for index in (first..variants.len()).chain(0..first) {
            let public = public_template(token, (id, id), &variants[index]);
            match session.generate_key_pair(&mechanism, &public, &private_template(token, (id, id))) {
                Ok(pair) => {
                    self.variant.store(index, Ordering::Relaxed);
                    self.made().extend([pair.0, pair.1]);
                    return Ok(pair);
                }
                Err(failure) => refused = refused.or(Some(failure)),
            }
        }
        // The loop ran at least once, and each iteration that did not return left a failure.
        let failure = refused.ok_or_else(|| Error::Failed("no template to try".to_owned()))?;
        // A module may have a mechanism without all of its parameter sets.
        let refusals = [CKR_ATTRIBUTE_VALUE_INVALID, CKR_PARAMETER_SET_NOT_SUPPORTED];
        if matches!(algorithm.key, Key::MlDsa(_) | Key::SlhDsa(_)) && refusals.contains(&failure.code) {
            let (function, code) = (failure.function, failure.code_name());
            return Err(Error::NotAvailable(format!("no such parameter set ({function}: {code})")));
        }
        let whose = if token { "the CA's" } else { "a subscriber's" };
        Err(Failure { doing: format!("generating {whose} {} key pair", algorithm.name).into(), ..failure }
            .into())
    }

    fn public_key(&self, algorithm: &Algorithm, key: ObjectHandle) -> Result<SubjectPublicKeyInfoOwned> {
        let session = self.sessions.mine();
        algorithm.public_key(|kind, capacity| {
            let read = session.attribute_within(key, kind, capacity);
            read.doing(|| format!("reading {} of a public key", names::attribute(kind)))
        })
    }

    fn made(&self) -> std::sync::MutexGuard<'_, Vec<ObjectHandle>> {
        // A panic in another thread cannot leave this vector in a bad state.
        self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Engine for Pkcs11 {
    fn make_ca(&mut self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned> {
        self.variant.store(0, Ordering::Relaxed);
        let (public, private) = self.generate(algorithm, true, b"jeton-pipeline-ca")?;
        let key = self.public_key(algorithm, public)?;
        let (signer, signature_length) = (self.signer(&key)?, algorithm.signature_length());
        self.ca = Some(Ca { signer, signature_length, public, private });
        Ok(key)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let ca = self.ca()?;
        let session = self.sessions.mine();
        let mut signature = vec![0; ca.signature_length];
        let digest = ca.signer.digest_of(message);
        session.sign_init(&ca.signer.mechanism, ca.private)?;
        let length = session.sign(digest.as_ref().map_or(message, AsRef::as_ref), &mut signature)?;
        signature.truncate(length);
        Ok(ca.signer.encoded(signature)?)
    }

    fn sign_all(&self, messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let Some(sessions) = &self.asynchronous else {
            return messages.iter().map(|message| self.sign(message)).collect();
        };
        let (ca, sessions) = (self.ca()?, sessions.mine());
        let mut signatures = Vec::with_capacity(messages.len());
        for messages in messages.chunks(sessions.len()) {
            let begun = sessions.iter().zip(messages).map(|(session, message)| {
                let digest = ca.signer.digest_of(message);
                let data = digest.as_ref().map_or(&**message, AsRef::as_ref);
                session.sign_later(&ca.signer.mechanism, ca.private, data, ca.signature_length)
            });
            // All are begun before the first one is asked for.
            let begun: Vec<_> = begun.collect::<Result<_, _>>()?;
            for later in begun {
                signatures.push(ca.signer.encoded(later.complete()?)?);
            }
        }
        Ok(signatures)
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let ca = self.ca()?;
        Ok(ca.signer.verify(&self.sessions.mine(), ca.public, message, signature)?)
    }

    fn make_subscriber(&self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned> {
        let (public, _private) = self.generate(algorithm, false, b"jeton-subscriber")?;
        self.public_key(algorithm, public)
    }

    fn clear(&mut self) -> Result<()> {
        self.ca = None;
        let made = std::mem::take(&mut *self.made());
        let session = self.sessions.mine();
        // Destroys every object, and then reports the first failure.
        let results: Vec<_> = made.into_iter().map(|object| session.destroy_object(object)).collect();
        Ok(results.into_iter().collect::<Result<_, _>>()?)
    }
}

/// Returns the error of a module without a mechanism.
fn lacks(mechanism: CK_MECHANISM_TYPE) -> Error {
    Error::NotAvailable(format!("no {}", names::mechanism(mechanism)))
}

pub(crate) fn public_template(
    token: bool,
    (label, id): (&[u8], &[u8]),
    parameters: &[Attribute],
) -> Vec<Attribute> {
    let mut template = vec![
        Attribute::flag(CKA_TOKEN, token),
        Attribute::flag(CKA_VERIFY, true),
        Attribute::bytes(CKA_LABEL, label),
        Attribute::bytes(CKA_ID, id),
    ];
    template.extend_from_slice(parameters);
    template
}

pub(crate) fn private_template(token: bool, (label, id): (&[u8], &[u8])) -> Vec<Attribute> {
    vec![
        Attribute::flag(CKA_TOKEN, token),
        Attribute::flag(CKA_PRIVATE, true),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_EXTRACTABLE, false),
        Attribute::flag(CKA_SIGN, true),
        Attribute::bytes(CKA_LABEL, label),
        Attribute::bytes(CKA_ID, id),
    ]
}
