//! A token that the bench calls through the C interface of its module.

use std::cell::RefCell;
use std::rc::Rc;

use cryptoki_sys::{
    CK_OBJECT_HANDLE, CKA_EC_PARAMS, CKA_LABEL, CKA_SIGN, CKA_TOKEN, CKM_AES_KEY_GEN, CKM_EC_KEY_PAIR_GEN,
    CKM_ML_KEM, CKM_SHA256_HMAC, CKR_USER_ALREADY_LOGGED_IN,
};
use jeton::backend::MlKem;
use jeton_client::key_types::P256;
use jeton_client::{
    Access, Attribute, Doing, Failure, Mechanism, Module, ObjectHandle, Session, SlotId, User,
};
use jeton_peers::{TokenAccess, open_token};

use super::template::{self, FIVE, Findable, ID_AT, LABEL_AT, Values};
use super::{Home, Keys, Outcome, aes_object};
use crate::calls;
use crate::child::Instance;
use crate::operation::{Boxed, batched, making, one_by_one, repeated};
use crate::scheme::{Aead, Digest, INPUT, Pair, Scheme, named};

/// The length of the longest signature that the bench makes: SLH-DSA-SHA2-128f.
const MAX_SIGNATURE: usize = 17_088;

/// A public and a private key.
type Both = (ObjectHandle, ObjectHandle);

/// A token that is called through its module's C interface, in a read/write session of the user.
pub struct ModuleToken {
    row: String,
    module: Module,
    slot: SlotId,
    session: Session,
    home: Home,
}

impl ModuleToken {
    /// Opens a session, and logs the user in unless another session has done so.
    pub fn open(row: &str, module: &Module, slot: SlotId, pin: &str, home: Home) -> Result<Self, Failure> {
        let session = module.open_session(slot, Access::ReadWrite)?;
        match session.login(User::User, Some(pin)) {
            Err(failure) if failure.code == CKR_USER_ALREADY_LOGGED_IN => {}
            other => other?,
        }
        Ok(Self { row: row.to_owned(), module: module.clone(), slot, session, home })
    }

    /// Loads a module, makes a token and logs the user in.
    pub fn fresh(instance: &Instance, home: Home) -> Outcome<Self> {
        let opened = open_token(&instance.library, Some(&instance.parameters()), &TokenAccess::Initialise);
        let (module, slot, pin) = opened.map_err(|error| error.to_string())?;
        Self::open("child", &module, slot, &pin, home).map_err(|failure| failure.to_string())
    }

    /// Returns another `ModuleToken` for the same token, with its own session. The keys that it
    /// makes are session objects.
    pub fn sibling(&self) -> Outcome<Self> {
        let session = self.another_session().outcome()?;
        let (row, module) = (self.row.clone(), self.module.clone());
        Ok(Self { row, module, slot: self.slot, session, home: Home::Session })
    }

    pub fn another_session(&self) -> Result<Session, Failure> {
        self.module.open_session(self.slot, Access::ReadWrite)
    }

    fn generate<'a>(
        &'a self,
        pair: &Pair,
        home: Home,
    ) -> calls::Answer<impl FnMut() -> calls::Answer<Both> + use<'a>> {
        let (public, private) = (template::public(pair, home), template::private(pair, home));
        calls::generate_pair(&self.session, &Mechanism::new(pair.generation()), &public, &private)
    }

    fn sign(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Result<calls::Transform<'_>, Failure> {
        let input = scheme.module_input(pair.kind);
        let key = ObjectHandle(keys.private);
        calls::Transform::sign(&self.session, &scheme.mechanism(), key, &input, MAX_SIGNATURE)
    }

    fn remove(&self, object: ObjectHandle) {
        done(calls::destroy(&self.session, object));
    }

    pub fn row(&self) -> &str {
        &self.row
    }

    /// Makes a key pair: token or session objects, depending on the row.
    pub fn pair(&self, pair: &Pair) -> Outcome<Keys> {
        let (public, private) = self.generate(pair, self.home).and_then(|mut call| call()).outcome()?;
        Ok(Keys { public: public.0, private: private.0 })
    }

    /// Makes a key of 32 bytes for this cipher: a token or a session object, depending on the row.
    pub fn cipher_key(&self, cipher: Aead) -> Outcome<CK_OBJECT_HANDLE> {
        let mechanism = Mechanism::new(cipher.generation());
        Ok(self.session.generate_key(&mechanism, &template::cipher_key(cipher, self.home)).outcome()?.0)
    }

    /// Makes a generic secret of 32 bytes: a token or a session object, depending on the row.
    pub fn generic_secret(&self) -> Outcome<CK_OBJECT_HANDLE> {
        Ok(self.session.create_object(&template::generic(self.home)).outcome()?.0)
    }

    pub fn destroy(&self, object: CK_OBJECT_HANDLE) {
        self.remove(ObjectHandle(object));
    }

    pub fn attribute(&self, object: CK_OBJECT_HANDLE, kind: u64) -> Outcome<Vec<u8>> {
        self.session.attribute(ObjectHandle(object), kind).outcome()
    }

    pub fn signature(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Vec<u8>> {
        let mut call = self.sign(pair, scheme, keys).outcome()?;
        let len = call.call().outcome()?;
        Ok(call.out()[..len].to_vec())
    }

    pub fn signing(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Boxed<'_>> {
        tried(self.sign(pair, scheme, keys).map(|mut call| move || call.call()))
    }

    pub fn verifying(&self, pair: &Pair, scheme: Scheme, keys: Keys) -> Outcome<Boxed<'_>> {
        let signature = self.signature(pair, scheme, keys)?;
        let input = scheme.module_input(pair.kind);
        tried(calls::verify(&self.session, &scheme.mechanism(), keys.public, input, signature))
    }

    pub fn generating(&self, pair: &Pair, home: Home) -> Outcome<Boxed<'_>> {
        let mut call = self.generate(pair, home).outcome()?;
        let clear = |(public, private)| {
            self.remove(public);
            self.remove(private);
        };
        clear(call().outcome()?);
        // All pairs have the same identifier, and one of the peers confuses keys that have the same
        // identifier. So each pair is destroyed before the next one is made.
        Ok(one_by_one(|| (), move |()| done(call()), clear))
    }

    /// `C_GenerateKey` of an AES-256 key.
    pub fn generating_aes(&self, home: Home) -> Outcome<Boxed<'_>> {
        let mechanism = Mechanism::new(CKM_AES_KEY_GEN);
        self.tried_making(calls::generate_key(&self.session, &mechanism, &template::aes(home)).outcome()?)
    }

    pub fn encapsulating(&self, set: MlKem, keys: Keys) -> Outcome<Boxed<'_>> {
        let (mut call, mut out) = (self.encapsulation(keys).outcome()?, vec![0; set.ciphertext_len()]);
        self.tried_making(move || call(&mut out))
    }

    pub fn decapsulating(&self, set: MlKem, keys: Keys) -> Outcome<Boxed<'_>> {
        let mut ciphertext = vec![0; set.ciphertext_len()];
        self.remove(self.encapsulation(keys).and_then(|mut call| call(&mut ciphertext)).outcome()?);
        let (mechanism, template) = (Mechanism::new(CKM_ML_KEM), template::received());
        let call = calls::decapsulate(&self.session, &mechanism, keys.private, &template, ciphertext);
        self.tried_making(call.outcome()?)
    }

    /// `C_EncryptInit` and `C_Encrypt` of this number of bytes, each with a new nonce.
    pub fn sealing(&self, cipher: Aead, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>> {
        let call = calls::Transform::seal(&self.session, cipher, ObjectHandle(key), &vec![0; len]);
        tried(call.map(|mut call| move || call.call()))
    }

    /// `C_EncryptMessage` of this number of bytes with AES-256-GCM, each with a new nonce.
    pub fn sealing_messages(&self, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>> {
        let messages = calls::Messages::begin(&self.session, ObjectHandle(key), &vec![0; len]);
        tried(messages.map(|mut messages| move || messages.call()))
    }

    /// `C_DecryptInit` and `C_Decrypt` of a ciphertext with this number of bytes and a tag.
    pub fn opening(&self, cipher: Aead, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>> {
        let (key, message) = (ObjectHandle(key), vec![0x5a; len]);
        let mut seal = calls::Transform::seal(&self.session, cipher, key, &message).outcome()?;
        let sealed = seal.call().outcome()?;
        let ciphertext = seal.out()[..sealed].to_vec();
        let mut call = calls::Transform::open(seal, &ciphertext).outcome()?;
        let opened = call.call().outcome()?;
        if call.out()[..opened] != message {
            return Err("the decrypted message differs from the original".to_owned());
        }
        Ok(repeated(move || {
            done(call.call());
        }))
    }

    /// `C_DigestInit` and `C_Digest` of this number of bytes.
    pub fn digesting(&self, digest: Digest, len: usize) -> Outcome<Boxed<'_>> {
        let mechanism = Mechanism::new(digest.mechanism());
        let call = calls::Transform::digest(&self.session, &mechanism, &vec![0; len]);
        tried(call.map(|mut call| move || call.call()))
    }

    /// `C_SignInit` and `C_Sign` of this number of bytes with HMAC-SHA-256.
    pub fn coding(&self, key: CK_OBJECT_HANDLE, len: usize) -> Outcome<Boxed<'_>> {
        let mechanism = Mechanism::new(CKM_SHA256_HMAC);
        let call = calls::Transform::sign(&self.session, &mechanism, ObjectHandle(key), &vec![0; len], 32);
        tried(call.map(|mut call| move || call.call()))
    }

    /// `C_GenerateRandom` of this number of bytes.
    pub fn random(&self, len: usize) -> Outcome<Boxed<'_>> {
        tried(calls::random(&self.session, len))
    }

    pub fn sessions(&self) -> Outcome<Boxed<'_>> {
        tried(calls::open_and_close(&self.module, self.slot))
    }

    /// `C_GetAttributeValue` of five attributes of a private key.
    pub fn reading(&self, keys: Keys) -> Outcome<Boxed<'_>> {
        tried(calls::read(&self.session, keys.private, &FIVE))
    }

    /// `C_CreateObject` of an AES key.
    pub fn creating(&self, home: Home) -> Outcome<Boxed<'_>> {
        Ok(making(self.numbered(home)?, |object| self.remove(object)))
    }

    /// `C_DestroyObject` of an AES key.
    pub fn destroying(&self, home: Home) -> Outcome<Boxed<'_>> {
        Ok(batched(self.numbered(home)?, |object| self.remove(object), drop))
    }

    /// Returns a function that creates AES keys with increasing numbers.
    fn numbered(&self, home: Home) -> Outcome<impl FnMut() -> ObjectHandle> {
        let mut call = creation(&self.session, home).outcome()?;
        self.remove(call(0).outcome()?);
        let mut number = 0;
        Ok(move || {
            number += 1;
            done(call(number))
        })
    }

    /// Returns an operation that makes objects, after a trial that may fail.
    fn tried_making<'a>(
        &'a self,
        mut call: impl FnMut() -> calls::Answer<ObjectHandle> + 'a,
    ) -> Outcome<Boxed<'a>> {
        self.remove(call().outcome()?);
        Ok(making(move || done(call()), |object| self.remove(object)))
    }

    /// A search (`C_FindObjectsInit`, all calls of `C_FindObjects`, `C_FindObjectsFinal`) among
    /// `count` objects. Each search looks for another value, unless it looks for all objects.
    pub fn searching(&self, what: Findable, count: usize) -> Outcome<Boxed<'_>> {
        let (template, at) = what.template();
        let mut call = calls::search(&self.session, &template).outcome()?;
        let mut values = Values::new(what, count);
        let mut search = move || call(at.map(|at| (at, values.next())));
        let found = search().outcome()?;
        let expected = if at.is_some() { found == 1 } else { found >= count };
        if !expected {
            return Err(format!("a search for {} finds {found} objects among {count}", what.name()));
        }
        Ok(repeated(move || assert_eq!(done(search()), found, "{}", what.name())))
    }

    /// The first `C_SignInit` with a P-256 key that was never used.
    pub fn first_use(&self) -> Outcome<Boxed<'_>> {
        let (pair, scheme) = (named("p256"), Scheme::Ecdsa);
        let mut generate = self.generate(pair, Home::Session).outcome()?;
        let (mechanism, input) = (scheme.mechanism(), &INPUT[..32]);
        let call = calls::Transform::sign(&self.session, &mechanism, ObjectHandle(0), input, 64);
        let call = Rc::new(RefCell::new(call.outcome()?));
        Ok(one_by_one(
            move || done(generate()),
            {
                let call = Rc::clone(&call);
                move |keys: Both| {
                    let mut call = call.borrow_mut();
                    call.rekey(keys.1);
                    done(call.start());
                    keys
                }
            },
            move |(public, private)| {
                done(call.borrow_mut().finish());
                self.remove(public);
                self.remove(private);
            },
        ))
    }

    fn encapsulation(
        &self,
        keys: Keys,
    ) -> calls::Answer<impl FnMut(&mut [u8]) -> calls::Answer<ObjectHandle>> {
        let mechanism = Mechanism::new(CKM_ML_KEM);
        calls::encapsulate(&self.session, &mechanism, keys.public, &template::received())
    }

    /// Creates an AES key for each number of `range`, and stops early if `enough` returns true. One
    /// thread creates session objects; `threads` threads create token objects. Returns the number
    /// of keys that were created.
    pub fn fill(
        &self,
        range: std::ops::Range<usize>,
        home: Home,
        threads: usize,
        enough: &(dyn Fn() -> bool + Sync),
    ) -> Result<usize, Failure> {
        if home == Home::Session || threads == 1 {
            return fill(&self.session, range, 1, home, enough);
        }
        let sessions: Vec<_> = (0..threads).map(|_| self.another_session()).collect::<Result<_, _>>()?;
        std::thread::scope(|scope| {
            let workers: Vec<_> = sessions
                .into_iter()
                .enumerate()
                .map(|(first, session)| {
                    let range = range.start + first..range.end;
                    scope.spawn(move || fill(&session, range, threads, home, enough))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
        })
    }
}

fn fill(
    session: &Session,
    range: std::ops::Range<usize>,
    step: usize,
    home: Home,
    enough: &(dyn Fn() -> bool + Sync),
) -> Result<usize, Failure> {
    let mut call = creation(session, home)?;
    let mut made = 0;
    for number in range.step_by(step) {
        if enough() {
            break;
        }
        call(number).doing(|| format!("making object {number}"))?;
        made += 1;
    }
    Ok(made)
}

/// Prepares calls that create the AES key with a number. Each key gets its own identifier, because
/// one of the peers confuses objects that have the same identifier.
pub fn creation(
    session: &Session,
    home: Home,
) -> calls::Answer<impl FnMut(usize) -> calls::Answer<ObjectHandle>> {
    let mut call = calls::create(session, &aes_object(0, home))?;
    Ok(move |number| call(&[(LABEL_AT, &template::label(number)), (ID_AT, &template::id(number))]))
}

/// Generates a P-256 key pair on the token with this label. Returns the public and the private key.
pub fn token_key(session: &Session, label: &str) -> Result<(ObjectHandle, ObjectHandle), Failure> {
    let both = [Attribute::flag(CKA_TOKEN, true), Attribute::bytes(CKA_LABEL, label)];
    let public = [&both[..], &[Attribute::bytes(CKA_EC_PARAMS, P256)]].concat();
    let private = [&both[..], &[Attribute::flag(CKA_SIGN, true)]].concat();
    session.generate_key_pair(&Mechanism::new(CKM_EC_KEY_PAIR_GEN), &public, &private)
}

trait OrLeftOut<T> {
    fn outcome(self) -> Outcome<T>;
}

impl<T> OrLeftOut<T> for Result<T, Failure> {
    fn outcome(self) -> Outcome<T> {
        self.map_err(|failure| format!("{}: {}", failure.function, failure.code_name()))
    }
}

/// Returns an operation that repeats a prepared call, after a trial that may fail.
fn tried<'a, T>(call: calls::Answer<impl FnMut() -> calls::Answer<T> + 'a>) -> Outcome<Boxed<'a>> {
    let mut call = call.outcome()?;
    call().outcome()?;
    Ok(repeated(move || {
        done(call());
    }))
}

/// Returns the value of a call. Panics if the call failed, because the measurement is then invalid.
#[track_caller]
#[inline]
fn done<T>(answer: calls::Answer<T>) -> T {
    match answer {
        Ok(value) => value,
        Err(failure) => panic!("{failure}"),
    }
}
