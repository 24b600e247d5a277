//! The pipeline's cryptography through the C interface of a module. Each thread has a session. A
//! signature is one `C_SignInit` and one `C_Sign` with an output buffer. The pipeline keeps the
//! handles of the keys that it generated, and never searches for a key.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_lc_rs::digest::{SHA256, SHA384, digest};
use cryptoki_sys::{
    CK_MECHANISM_TYPE, CKA_CLASS, CKA_EC_PARAMS, CKA_EXTRACTABLE, CKA_ID, CKA_KEY_TYPE, CKA_LABEL,
    CKA_MODULUS_BITS, CKA_PARAMETER_SET, CKA_PRIVATE, CKA_PUBLIC_EXPONENT, CKA_SENSITIVE, CKA_SIGN,
    CKA_TOKEN, CKA_VERIFY, CKO_PUBLIC_KEY, CKR_ATTRIBUTE_VALUE_INVALID, CKR_PARAMETER_SET_NOT_SUPPORTED,
};
use jeton_pki::{
    Algorithm, ED25519_NAME_PARAMS, Input, Key, ecdsa, public_key_attributes, subject_public_key,
};
use spki::SubjectPublicKeyInfoOwned;

use super::engine::{Engine, Subscriber};
use super::workers::PerThread;
use crate::Error;
use crate::client::{
    Access, Attribute, Doing, Failure, Mechanism, Module, ObjectHandle, Session, SlotId, User, key_types,
    names,
};

/// A module with a token, logged in.
pub struct Pkcs11 {
    sessions: PerThread<Session>,
    mechanisms: Vec<CK_MECHANISM_TYPE>,
    ca: Option<Ca>,
    /// The index of the template variant that the module accepted last.
    variant: AtomicUsize,
    /// The objects of the batch, destroyed at its end.
    made: Mutex<Vec<ObjectHandle>>,
}

struct Ca {
    algorithm: &'static Algorithm,
    mechanism: Mechanism,
    input: Input,
    public: ObjectHandle,
    private: Option<ObjectHandle>,
}

impl Pkcs11 {
    /// Opens a session for each thread of the pool and logs the user in.
    pub fn open(module: &Module, slot: SlotId, pin: &str, threads: usize) -> Result<Self, Error> {
        let sessions = PerThread::new(threads, || module.open_session(slot, Access::ReadWrite))?;
        sessions.mine().login(User::User, Some(pin))?;
        Ok(Self {
            mechanisms: module.mechanisms(slot)?,
            sessions,
            ca: None,
            variant: AtomicUsize::new(0),
            made: Mutex::default(),
        })
    }

    fn ca(&self) -> Result<&Ca, Error> {
        self.ca.as_ref().ok_or_else(|| Error::Failed("no CA key was made".to_owned()))
    }

    /// Returns the mechanism with which the module signs, and its input.
    fn signing(&self, algorithm: &Algorithm) -> Result<(Mechanism, Input), Error> {
        let has = |mechanism| self.mechanisms.contains(&mechanism);
        let found = algorithm.signing.iter().find(|signing| has(signing.mechanism));
        found.map(|signing| (Mechanism::new(signing.mechanism), signing.input)).ok_or_else(|| {
            let wanted: Vec<_> =
                algorithm.signing.iter().map(|one| names::mechanism(one.mechanism)).collect();
            Error::NotAvailable(format!("no {}", wanted.join(" and no ")))
        })
    }

    /// Generates a key pair in this thread's session. Modules accept different forms of the curve.
    /// This function tries each form, and remembers the first one that works.
    fn generate(
        &self,
        algorithm: &Algorithm,
        token: bool,
        id: &[u8],
    ) -> Result<(ObjectHandle, ObjectHandle), Error> {
        let mechanism = Mechanism::new(algorithm.generation);
        let variants = key_parameters(algorithm);
        let session = self.sessions.mine();
        let first = self.variant.load(Ordering::Relaxed).min(variants.len() - 1);
        let mut refused = None;
        for index in (first..variants.len()).chain(0..first) {
            let public = public_template(token, id, &variants[index]);
            match session.generate_key_pair(&mechanism, &public, &private_template(token, id)) {
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

    fn public_key(
        &self,
        algorithm: &Algorithm,
        key: ObjectHandle,
    ) -> Result<SubjectPublicKeyInfoOwned, Error> {
        let session = self.sessions.mine();
        let info = subject_public_key(algorithm, |kind, capacity| {
            let read = session.attribute_within(key, kind, capacity);
            read.doing(|| format!("reading {} of a public key", names::attribute(kind)))
        });
        Ok(info?)
    }

    fn made(&self) -> std::sync::MutexGuard<'_, Vec<ObjectHandle>> {
        // A panic in another thread cannot leave this vector in a bad state.
        self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Engine for Pkcs11 {
    fn make_ca(&mut self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned, Error> {
        if !self.mechanisms.contains(&algorithm.generation) {
            return Err(lacks(algorithm));
        }
        let (mechanism, input) = self.signing(algorithm)?;
        self.variant.store(0, Ordering::Relaxed);
        let (public, private) = self.generate(algorithm, true, b"jeton-pipeline-ca")?;
        let key = self.public_key(algorithm, public)?;
        self.ca = Some(Ca { algorithm, mechanism, input, public, private: Some(private) });
        Ok(key)
    }

    fn import_ca(
        &mut self,
        algorithm: &'static Algorithm,
        key: &SubjectPublicKeyInfoOwned,
    ) -> Result<(), Error> {
        let (mechanism, input) = self.signing(algorithm)?;
        let mut refused = None;
        for attributes in public_key_attributes(algorithm, key.subject_public_key.raw_bytes())? {
            let mut template = vec![
                Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY),
                Attribute::number(CKA_KEY_TYPE, algorithm.key_type),
                Attribute::flag(CKA_TOKEN, false),
                Attribute::flag(CKA_VERIFY, true),
            ];
            template.extend(attributes);
            let created = self.sessions.mine().create_object(&template);
            match created.doing(|| format!("importing the CA's {} public key", algorithm.name)) {
                Ok(public) => {
                    self.made().push(public);
                    self.ca = Some(Ca { algorithm, mechanism, input, public, private: None });
                    return Ok(());
                }
                Err(failure) => refused = refused.or(Some(failure)),
            }
        }
        Err(refused.map_or_else(|| Error::Failed("no template to try".to_owned()), Error::from))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let ca = self.ca()?;
        let key = ca.private.ok_or_else(|| Error::Failed("the CA's key only verifies".to_owned()))?;
        let session = self.sessions.mine();
        let mut signature = vec![0; ca.algorithm.signature_length];
        let length = with_input(ca.input, message, |data| {
            session.sign_init(&ca.mechanism, key)?;
            session.sign(data, &mut signature)
        })?;
        signature.truncate(length);
        match ca.algorithm.key {
            Key::P256 | Key::P384 => Ok(ecdsa::to_der(&signature)?),
            _ => Ok(signature),
        }
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool, Error> {
        let ca = self.ca()?;
        let fixed;
        let signature = match ca.algorithm.key {
            Key::P256 | Key::P384 => match ecdsa::from_der(signature, ca.algorithm.signature_length) {
                Some(pair) => {
                    fixed = pair;
                    fixed.as_slice()
                }
                None => return Ok(false),
            },
            _ => signature,
        };
        let session = self.sessions.mine();
        Ok(with_input(ca.input, message, |data| {
            session.verify_init(&ca.mechanism, ca.public)?;
            session.verify(data, signature)
        })?)
    }

    fn make_subscriber(&self, algorithm: &'static Algorithm) -> Result<Subscriber, Error> {
        if !self.mechanisms.contains(&algorithm.generation) {
            return Err(lacks(algorithm));
        }
        let (public, _private) = self.generate(algorithm, false, b"jeton-subscriber")?;
        Ok(Subscriber { public_key: self.public_key(algorithm, public)? })
    }

    fn clear(&mut self) -> Result<(), Error> {
        self.ca = None;
        let made = std::mem::take(&mut *self.made());
        let session = self.sessions.mine();
        // Destroys every object, and then reports the first failure.
        let results: Vec<_> = made.into_iter().map(|object| session.destroy_object(object)).collect();
        Ok(results.into_iter().collect::<Result<_, _>>()?)
    }
}

/// Returns the error of a module that cannot generate a key of this algorithm.
fn lacks(algorithm: &Algorithm) -> Error {
    Error::NotAvailable(format!("no {}", names::mechanism(algorithm.generation)))
}

fn with_input<T>(input: Input, message: &[u8], call: impl FnOnce(&[u8]) -> T) -> T {
    match input {
        Input::Message => call(message),
        Input::Sha256 => call(digest(&SHA256, message).as_ref()),
        Input::Sha384 => call(digest(&SHA384, message).as_ref()),
    }
}

/// Returns the attributes of a public key template that depend on the algorithm. There are several
/// variants if modules differ. The specification's variant is first.
fn key_parameters(algorithm: &Algorithm) -> Vec<Vec<Attribute>> {
    match algorithm.key {
        Key::P256 => vec![vec![Attribute::bytes(CKA_EC_PARAMS, key_types::P256)]],
        Key::P384 => vec![vec![Attribute::bytes(CKA_EC_PARAMS, key_types::P384)]],
        Key::Ed25519 => vec![
            vec![Attribute::bytes(CKA_EC_PARAMS, key_types::ED25519)],
            vec![Attribute::bytes(CKA_EC_PARAMS, ED25519_NAME_PARAMS)],
        ],
        Key::MlDsa(set) | Key::SlhDsa(set) => vec![vec![Attribute::number(CKA_PARAMETER_SET, set)]],
        Key::Rsa(bits) => vec![vec![
            Attribute::number(CKA_MODULUS_BITS, bits),
            Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
        ]],
    }
}

fn public_template(token: bool, id: &[u8], parameters: &[Attribute]) -> Vec<Attribute> {
    let mut template = vec![
        Attribute::flag(CKA_TOKEN, token),
        Attribute::flag(CKA_VERIFY, true),
        Attribute::bytes(CKA_LABEL, id),
        Attribute::bytes(CKA_ID, id),
    ];
    template.extend_from_slice(parameters);
    template
}

fn private_template(token: bool, id: &[u8]) -> Vec<Attribute> {
    vec![
        Attribute::flag(CKA_TOKEN, token),
        Attribute::flag(CKA_PRIVATE, true),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_EXTRACTABLE, false),
        Attribute::flag(CKA_SIGN, true),
        Attribute::bytes(CKA_LABEL, id),
        Attribute::bytes(CKA_ID, id),
    ]
}
