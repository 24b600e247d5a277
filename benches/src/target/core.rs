//! A token of the core, without the C interface. The C interface reads C structures in each call.
//! Here the structures are read once, before the clock runs. Only templates are read in each timed
//! call.

use std::path::Path;

use cryptoki_sys::CK_OBJECT_HANDLE;
use jeton::backend::{CipherScheme, MlKem};
use jeton::error::Error;
use jeton::id::{AttributeType as A, MechanismType as M, ObjectHandle, SessionHandle, SlotId};
use jeton::mechanism::{self, Mechanism, Params};
use jeton::module::{Access, Module, Output, Started, User};
use jeton::object::AttributeView;
use jeton::object::template::{Given, Raw, Template as CoreTemplate};
use jeton::session::{Operations, Session};

use super::template::{self, FIVE, Findable, Values};
use super::{Home, Keys, Outcome, Target, Template};
use crate::operation::{Boxed, batched, making, one_by_one, repeated};
use crate::scheme::{Aead, Digest, INPUT, Pair, Scheme, named};

/// Room for the longest signature.
const MAX_SIGNATURE: usize = 17_088;
const PIN: &[u8] = b"bench-1234";
const SO_PIN: &[u8] = b"bench-so-1234";

/// A token of the core with the user logged in.
pub struct CoreToken {
    module: Module,
    slot: SlotId,
    session: SessionHandle,
}

impl CoreToken {
    /// Makes a fresh token in this directory, with the default backend.
    pub fn new(directory: &Path) -> Outcome<Self> {
        Self::make(directory).map_err(|error| format!("{error:?}"))
    }

    fn make(directory: &Path) -> Result<Self, Error> {
        let module = Module::new();
        module.initialize(Some(&crate::artefacts::parameters(directory, "aws-lc")))?;
        let slot = module.slots()?[0];
        let mut label = [b' '; 32];
        label[..5].copy_from_slice(b"bench");
        module.init_token(slot, SO_PIN, &label)?;
        let session = module.open_session(slot, Access::ReadWrite)?;
        module.login(session, User::SecurityOfficer, SO_PIN)?;
        module.init_pin(session, PIN)?;
        module.logout(session)?;
        module.login(session, User::User, PIN)?;
        Ok(Self { module, slot, session })
    }

    /// Makes session objects with the numbers of `range`.
    pub fn fill(&self, range: std::ops::Range<usize>) -> Outcome<()> {
        range.into_iter().try_for_each(|number| {
            self.create(&template::aes_object(number, Home::Session)).map(drop).outcome()
        })
    }

    /// Finalises the module, which closes its sessions.
    pub fn close(self) -> Outcome<()> {
        self.module.finalize().outcome()
    }

    fn create(&self, attributes: &Template) -> Result<ObjectHandle, Error> {
        self.module.create_object(self.session, &read(attributes))
    }

    fn generate(&self, mechanism: &Mechanism, public: &Template, private: &Template) -> Result<Keys, Error> {
        let pair = self.module.generate_key_pair(self.session, mechanism, &read(public), &read(private))?;
        let (public, private) = completed(pair)?;
        Ok(Keys { public: public.0, private: private.0 })
    }

    fn sign(
        &self,
        mechanism: &Mechanism,
        key: ObjectHandle,
        input: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Error> {
        self.start("C_SignInit", mechanism, key, Session::sign_init)?;
        self.operate(|operations| operations.sign.sign(input, Output::Buffer(out)))
    }

    /// Calls an `Init` function, as the C interface does.
    fn start(
        &self,
        function: &'static str,
        mechanism: &Mechanism,
        key: ObjectHandle,
        init: impl FnOnce(&mut Session, &Mechanism, ObjectHandle) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.module.with_session(self.session, |session| session.start(function, mechanism, key, init))
    }

    /// Calls `work` with the operations of the session, as the C interface does.
    fn operate<T>(&self, work: impl FnOnce(&mut Operations) -> Result<T, Error>) -> Result<T, Error> {
        self.module.with_session(self.session, |session| work(&mut session.operations))
    }

    fn remove(&self, object: ObjectHandle) {
        done(self.module.destroy_object(self.session, object));
    }

    /// Returns an operation that repeats a signature or a MAC.
    fn signing_with(&self, mechanism: Mechanism, key: ObjectHandle, input: Vec<u8>) -> Outcome<Boxed<'_>> {
        let mut out = vec![0; MAX_SIGNATURE];
        self.sign(&mechanism, key, &input, &mut out).outcome()?;
        Ok(repeated(move || {
            done(self.sign(&mechanism, key, &input, &mut out));
        }))
    }
}

impl Target for CoreToken {
    fn row(&self) -> &str {
        "core"
    }

    fn pair(&self, pair: &Pair) -> Outcome<Keys> {
        let (public, private) = (template::public(pair, Home::Token), template::private(pair, Home::Token));
        self.generate(&plain(pair.generation())?, &public, &private).outcome()
    }

    fn cipher_key(&self, cipher: Aead) -> Outcome<CK_OBJECT_HANDLE> {
        let (mechanism, template) = (plain(cipher.generation())?, template::cipher_key(cipher, Home::Token));
        let key = self.module.generate_key(self.session, &mechanism, &read(&template));
        Ok(key.and_then(completed).outcome()?.0)
    }

    fn generic_secret(&self) -> Outcome<CK_OBJECT_HANDLE> {
        Ok(self.create(&template::generic(Home::Token)).outcome()?.0)
    }

    fn destroy(&self, object: CK_OBJECT_HANDLE) {
        self.remove(ObjectHandle(object));
    }

    fn attribute(&self, object: CK_OBJECT_HANDLE, kind: u64) -> Outcome<Vec<u8>> {
        let object = self.module.object(self.session, ObjectHandle(object)).outcome()?;
        match object.attribute(A(kind)).outcome()? {
            AttributeView::Bytes(bytes) => Ok(bytes.into_owned()),
            AttributeView::Template(_) => Err("a template".to_owned()),
        }
    }

    fn signature(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Vec<u8>> {
        let mut out = vec![0; MAX_SIGNATURE];
        let (mechanism, input) = (mechanism(scheme)?, scheme.module_input(pair.kind));
        let len = self.sign(&mechanism, ObjectHandle(keys.private), &input, &mut out).outcome()?;
        out.truncate(len);
        Ok(out)
    }

    fn signing(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Boxed<'_>> {
        let key = ObjectHandle(keys.private);
        self.signing_with(mechanism(scheme)?, key, scheme.module_input(pair.kind))
    }

    fn verifying(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Boxed<'_>> {
        let signature = self.signature(pair, scheme, keys)?;
        let (mechanism, input, key) =
            (mechanism(scheme)?, scheme.module_input(pair.kind), ObjectHandle(keys.public));
        let verify = move || {
            self.start("C_VerifyInit", &mechanism, key, Session::verify_init)?;
            self.operate(|operations| operations.verify.verify(&input, &signature))
        };
        verify().outcome()?;
        Ok(repeated(move || done(verify())))
    }

    fn generating(&self, pair: &Pair, home: Home) -> Outcome<Boxed<'_>> {
        let mechanism = plain(pair.generation())?;
        let (public, private) = (template::public(pair, home), template::private(pair, home));
        let clear = |keys: Keys| {
            self.destroy(keys.public);
            self.destroy(keys.private);
        };
        clear(self.generate(&mechanism, &public, &private).outcome()?);
        Ok(making(move || done(self.generate(&mechanism, &public, &private)), clear))
    }

    fn generating_aes(&self, home: Home) -> Outcome<Boxed<'_>> {
        let (mechanism, template) = (plain(M::AES_KEY_GEN.0)?, template::aes(home));
        let generate =
            move || self.module.generate_key(self.session, &mechanism, &read(&template)).and_then(completed);
        self.remove(generate().outcome()?);
        Ok(making(move || done(generate()), |key| self.remove(key)))
    }

    fn encapsulating(&self, set: MlKem, keys: Keys) -> Outcome<Boxed<'_>> {
        let (mechanism, template) = (plain(M::ML_KEM.0)?, template::received());
        let mut out = vec![0; set.ciphertext_len()];
        let mut encapsulate = move || {
            let out = Output::Buffer(&mut out);
            let key = ObjectHandle(keys.public);
            let made = self.module.encapsulate_key(self.session, &mechanism, key, &read(&template), out)?;
            made.1.ok_or(Error::GeneralError)
        };
        self.remove(encapsulate().outcome()?);
        Ok(making(move || done(encapsulate()), |key| self.remove(key)))
    }

    fn decapsulating(&self, set: MlKem, keys: Keys) -> Outcome<Boxed<'_>> {
        let (mechanism, template) = (plain(M::ML_KEM.0)?, template::received());
        let mut ciphertext = vec![0; set.ciphertext_len()];
        let (public, private) = (ObjectHandle(keys.public), ObjectHandle(keys.private));
        let out = Output::Buffer(&mut ciphertext);
        let made =
            self.module.encapsulate_key(self.session, &mechanism, public, &read(&template), out).outcome()?;
        self.remove(made.1.ok_or("no key")?);
        let decapsulate = move || {
            self.module.decapsulate_key(self.session, &mechanism, private, &read(&template), &ciphertext)
        };
        self.remove(decapsulate().outcome()?);
        Ok(making(move || done(decapsulate()), |key| self.remove(key)))
    }

    fn sealing(&self, cipher: Aead, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>> {
        let mut mechanism = with_nonce(cipher)?;
        let (input, mut out, mut count) = (vec![0; len], vec![0; len + 16], 0u64);
        let mut seal = move || {
            count += 1;
            if let Params::Cipher(CipherScheme::Aead { nonce, .. }) = &mut mechanism.params {
                nonce[..8].copy_from_slice(&count.to_ne_bytes());
            }
            let key = ObjectHandle(key);
            self.start("C_EncryptInit", &mechanism, key, Session::encrypt_init)?;
            self.operate(|operations| operations.encrypt.crypt(&input, Output::Buffer(&mut out)))
        };
        seal().outcome()?;
        Ok(repeated(move || {
            done(seal());
        }))
    }

    fn opening(&self, cipher: Aead, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>> {
        let (mechanism, key) = (with_nonce(cipher)?, ObjectHandle(key));
        let (input, mut sealed, mut out) = (vec![0x5a; len], vec![0; len + 16], vec![0; len + 16]);
        self.start("C_EncryptInit", &mechanism, key, Session::encrypt_init)
            .and_then(|()| {
                self.operate(|operations| operations.encrypt.crypt(&input, Output::Buffer(&mut sealed)))
            })
            .outcome()?;
        let mut open = move || {
            self.start("C_DecryptInit", &mechanism, key, Session::decrypt_init)?;
            self.operate(|operations| operations.decrypt.crypt(&sealed, Output::Buffer(&mut out)))
        };
        open().outcome()?;
        Ok(repeated(move || {
            done(open());
        }))
    }

    fn digesting(&self, digest: Digest, len: usize) -> Outcome<Boxed<'_>> {
        let (mechanism, input, mut out) = (plain(digest.mechanism())?, vec![0; len], [0; 64]);
        let mut digest = move || {
            self.module.with_session(self.session, |session| session.digest_init(&mechanism))?;
            self.operate(|operations| operations.digest.digest(&input, Output::Buffer(&mut out)))
        };
        digest().outcome()?;
        Ok(repeated(move || {
            done(digest());
        }))
    }

    fn coding(&self, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>> {
        self.signing_with(plain(M::SHA256_HMAC.0)?, ObjectHandle(key), vec![0; len])
    }

    fn random(&self, len: usize) -> Outcome<Boxed<'_>> {
        let mut out = vec![0; len];
        Ok(repeated(move || done(self.module.random(self.session, &mut out))))
    }

    fn sessions(&self) -> Outcome<Boxed<'_>> {
        Ok(repeated(move || {
            let session = done(self.module.open_session(self.slot, Access::ReadWrite));
            done(self.module.close_session(session));
        }))
    }

    fn reading(&self, keys: Keys) -> Outcome<Boxed<'_>> {
        let key = ObjectHandle(keys.private);
        Ok(repeated(move || {
            let object = done(self.module.object(self.session, key));
            for kind in FIVE {
                std::hint::black_box(done(object.attribute(A(kind))));
            }
        }))
    }

    fn creating(&self, home: Home) -> Outcome<Boxed<'_>> {
        let template = template::aes_object(0, home);
        Ok(making(move || done(self.create(&template)), |object| self.remove(object)))
    }

    fn destroying(&self, home: Home) -> Outcome<Boxed<'_>> {
        let template = template::aes_object(0, home);
        Ok(batched(move || done(self.create(&template)), |object| self.remove(object), drop))
    }

    fn searching(&self, what: Findable, count: usize) -> Outcome<Boxed<'_>> {
        let (mut template, at) = what.template();
        let mut values = Values::new(what, count);
        let mut handles = vec![ObjectHandle(0); 256];
        let mut search = move || {
            if let Some(at) = at {
                template[at].value.copy_from_slice(values.next());
            }
            self.module.find_init(self.session, &read(&template))?;
            let mut found = 0;
            loop {
                let given = self.module.find(self.session, &mut handles)?;
                found += given;
                if given < handles.len() {
                    break;
                }
            }
            self.module.find_final(self.session)?;
            Ok(found)
        };
        let found = search().outcome()?;
        Ok(repeated(move || assert_eq!(done(search()), found, "{}", what.name())))
    }

    fn first_use(&self) -> Outcome<Boxed<'_>> {
        let pair = named("p256");
        let (mechanism, make) = (mechanism(Scheme::Ecdsa)?, plain(pair.generation())?);
        let (public, private) =
            (template::public(pair, Home::Session), template::private(pair, Home::Session));
        let mut out = vec![0; 64];
        Ok(one_by_one(
            move || done(self.generate(&make, &public, &private)),
            move |keys: Keys| {
                let key = ObjectHandle(keys.private);
                done(self.start("C_SignInit", &mechanism, key, Session::sign_init));
                keys
            },
            move |keys| {
                let input = &INPUT[..32];
                done(self.operate(|operations| operations.sign.sign(input, Output::Buffer(&mut out))));
                self.destroy(keys.public);
                self.destroy(keys.private);
            },
        ))
    }
}

/// Reads a template as the C interface does.
fn read(attributes: &Template) -> CoreTemplate<'_> {
    let mut template = Vec::with_capacity(attributes.len());
    for attribute in attributes {
        template.push(Given { id: A(attribute.kind), value: Raw::Bytes(&attribute.value) });
    }
    CoreTemplate(template)
}

/// Returns the result of a function. The session is not asynchronous, so the function is not
/// pending.
fn completed<T>(started: Started<T>) -> Result<T, Error> {
    match started {
        Started::Done(done) => Ok(done),
        Started::Pending => Err(Error::Pending),
    }
}

fn plain(number: u64) -> Outcome<Mechanism> {
    let mechanism = mechanism::find(M(number)).ok_or("no such mechanism")?;
    Ok(Mechanism { info: mechanism, params: Params::None })
}

/// Returns the mechanism of a cipher with a nonce of zeros.
fn with_nonce(cipher: Aead) -> Outcome<Mechanism> {
    let (nonce, aad) = ([0; 12].into(), Box::default());
    let (tag_len, data_len) = (16, 0);
    let scheme = CipherScheme::Aead { cipher: cipher.of_backend(), nonce, aad, tag_len, data_len };
    Ok(Mechanism { params: Params::Cipher(scheme), ..plain(cipher.mechanism())? })
}

fn mechanism(scheme: Scheme) -> Outcome<Mechanism> {
    Ok(Mechanism { params: scheme.params(), ..plain(scheme.mechanism().kind)? })
}

trait OrLeftOut<T> {
    fn outcome(self) -> Outcome<T>;
}

impl<T> OrLeftOut<T> for Result<T, Error> {
    fn outcome(self) -> Outcome<T> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// Panics if an operation that succeeded once fails while it is timed.
#[track_caller]
fn done<T>(answer: Result<T, Error>) -> T {
    answer.unwrap_or_else(|error| panic!("{error:?}"))
}
