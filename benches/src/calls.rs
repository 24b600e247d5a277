//! The timed calls, with all arguments prepared. A repetition calls the functions of the module.
//! Before that it sets at most a nonce, a key handle, values of a template or the lengths of
//! buffers. All other work goes through the safe client, which builds structures and vectors for
//! each call.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, Mechanism, ObjectHandle, Session, Structure};

use crate::scheme::Aead;

mod find;
mod key;
mod message;
mod object;

pub use find::search;
pub use key::{decapsulate, encapsulate, generate_key, generate_pair};
pub use message::Messages;
pub use object::{create, destroy, open_and_close, read};

pub type Answer<T = ()> = Result<T, Failure>;

/// A value of a template, with its index.
pub type Value<'a> = (usize, &'a [u8]);

/// The function behind the pointer of a function list, for example `Entry<CK_C_Sign>`.
type Entry<P> = <P as Pointer>::Function;

trait Pointer {
    type Function;
}

impl<F> Pointer for Option<F> {
    type Function = F;
}

/// `C_SignInit` and `C_Sign`, or the same for encryption, decryption or a digest.
pub struct Transform<'a> {
    session: &'a Session,
    names: (&'static str, &'static str),
    init: Start,
    act: Entry<CK_C_Sign>,
    mechanism: MechanismMemory,
    key: CK_OBJECT_HANDLE,
    input: Vec<u8>,
    out: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Start {
    Keyed(Entry<CK_C_SignInit>),
    Keyless(Entry<CK_C_DigestInit>),
}

impl<'a> Transform<'a> {
    pub fn sign(
        session: &'a Session,
        mechanism: &Mechanism,
        key: ObjectHandle,
        input: &[u8],
        room: usize,
    ) -> Answer<Self> {
        let functions = session.module().functions();
        let names = ("C_SignInit", "C_Sign");
        let init = Start::Keyed(entry(names.0, functions.C_SignInit)?);
        let mechanism = MechanismMemory::new(mechanism);
        Self::new(session, names, (init, functions.C_Sign), mechanism, key.0, (input, room))
    }

    /// Prepares two functions, with an input and a buffer of this length.
    fn new(
        session: &'a Session,
        names: (&'static str, &'static str),
        (init, act): (Start, CK_C_Sign),
        mechanism: MechanismMemory,
        key: CK_OBJECT_HANDLE,
        (input, room): (&[u8], usize),
    ) -> Answer<Self> {
        let act = entry(names.1, act)?;
        Ok(Self { session, names, init, act, mechanism, key, input: input.to_vec(), out: vec![0; room] })
    }

    /// Prepares to encrypt `input`. Each call has a new nonce of 12 bytes.
    pub fn seal(session: &'a Session, cipher: Aead, key: ObjectHandle, input: &[u8]) -> Answer<Self> {
        let functions = session.module().functions();
        let names = ("C_EncryptInit", "C_Encrypt");
        let init = Start::Keyed(entry(names.0, functions.C_EncryptInit)?);
        let sized = (input, input.len() + 16);
        Self::new(session, names, (init, functions.C_Encrypt), MechanismMemory::aead(cipher), key.0, sized)
    }

    /// Prepares to decrypt `ciphertext`, the output of the last call of `seal`, with the same key
    /// and nonce.
    pub fn open(seal: Self, ciphertext: &[u8]) -> Answer<Self> {
        let functions = seal.session.module().functions();
        let mut mechanism = seal.mechanism;
        mechanism.nonces = None;
        let names = ("C_DecryptInit", "C_Decrypt");
        let init = Start::Keyed(entry(names.0, functions.C_DecryptInit)?);
        // Some modules require room for the tag, too.
        let sized = (ciphertext, ciphertext.len());
        Self::new(seal.session, names, (init, functions.C_Decrypt), mechanism, seal.key, sized)
    }

    pub fn digest(session: &'a Session, mechanism: &Mechanism, input: &[u8]) -> Answer<Self> {
        let functions = session.module().functions();
        let names = ("C_DigestInit", "C_Digest");
        let init = Start::Keyless(entry(names.0, functions.C_DigestInit)?);
        let mechanism = MechanismMemory::new(mechanism);
        Self::new(session, names, (init, functions.C_Digest), mechanism, 0, (input, 64))
    }

    #[inline]
    pub fn call(&mut self) -> Answer<usize> {
        self.mechanism.freshen();
        self.start()?;
        self.finish()
    }

    /// Calls the second function only.
    #[inline]
    pub fn finish(&mut self) -> Answer<usize> {
        let mut len = self.out.len() as CK_ULONG;
        // SAFETY: the length is that of the input, which is only read; `out` is writable for its
        // length.
        let code = unsafe {
            (self.act)(
                self.session.handle(),
                self.input.as_ptr().cast_mut(),
                self.input.len() as CK_ULONG,
                self.out.as_mut_ptr(),
                &mut len,
            )
        };
        check(self.names.1, code)?;
        Ok(len as usize)
    }

    /// Calls the first function only.
    #[inline]
    pub fn start(&mut self) -> Answer {
        let mechanism = &mut self.mechanism.raw;
        let code = match self.init {
            // SAFETY: `self` owns the mechanism and the memory that it points to.
            Start::Keyed(init) => unsafe { init(self.session.handle(), mechanism, self.key) },
            // SAFETY: as above.
            Start::Keyless(init) => unsafe { init(self.session.handle(), mechanism) },
        };
        check(self.names.0, code)
    }

    pub fn rekey(&mut self, key: ObjectHandle) {
        self.key = key.0;
    }

    pub fn out(&self) -> &[u8] {
        &self.out
    }
}

/// Prepares `C_VerifyInit` and `C_Verify`.
pub fn verify<'a>(
    session: &'a Session,
    mechanism: &Mechanism,
    key: CK_OBJECT_HANDLE,
    input: Vec<u8>,
    signature: Vec<u8>,
) -> Answer<impl FnMut() -> Answer + use<'a>> {
    let functions = session.module().functions();
    let init = entry("C_VerifyInit", functions.C_VerifyInit)?;
    let verify = entry("C_Verify", functions.C_Verify)?;
    let mut mechanism = MechanismMemory::new(mechanism);
    Ok(move || {
        // SAFETY: the closure owns the mechanism and the memory that it points to.
        let code = unsafe { init(session.handle(), &mut mechanism.raw, key) };
        check("C_VerifyInit", code)?;
        let (data, len) = (input.as_ptr().cast_mut(), input.len() as CK_ULONG);
        let (given, given_len) = (signature.as_ptr().cast_mut(), signature.len() as CK_ULONG);
        // SAFETY: the lengths are those of the inputs, which are only read.
        check("C_Verify", unsafe { verify(session.handle(), data, len, given, given_len) })
    })
}

/// Prepares `C_GenerateRandom`.
pub fn random(session: &Session, len: usize) -> Answer<impl FnMut() -> Answer> {
    let generate = entry("C_GenerateRandom", session.module().functions().C_GenerateRandom)?;
    let mut out = vec![0; len];
    Ok(move || {
        // SAFETY: `out` is writable for its length.
        let code = unsafe { generate(session.handle(), out.as_mut_ptr(), out.len() as CK_ULONG) };
        check("C_GenerateRandom", code)
    })
}

struct MechanismMemory {
    raw: CK_MECHANISM,
    /// The parameter, as words so that every structure of the standard is aligned. `raw` points to
    /// it.
    words: Box<[u64]>,
    /// Owns the memory that the parameter points to.
    _mechanism: Mechanism,
    /// The number of nonces so far, if each call has a new one.
    nonces: Option<u64>,
}

impl MechanismMemory {
    fn new(mechanism: &Mechanism) -> Self {
        let bytes = &mechanism.parameter;
        let mut words: Box<[u64]> = bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_ne_bytes(word)
            })
            .collect();
        let pointer = if words.is_empty() {
            std::ptr::null_mut()
        } else {
            words.as_mut_ptr().cast::<std::ffi::c_void>()
        };
        let raw = CK_MECHANISM {
            mechanism: mechanism.kind,
            pParameter: pointer,
            ulParameterLen: bytes.len() as CK_ULONG,
        };
        Self { raw, words, _mechanism: mechanism.clone(), nonces: None }
    }

    /// Both parameters start with the nonce. There is no associated data.
    fn aead(cipher: Aead) -> Self {
        let nonce = Structure::new().bytes(&[0; 12]);
        let parameter = match cipher {
            Aead::AesGcm => nonce.number(96).bytes(b"").number(128),
            Aead::ChaCha20Poly1305 => nonce.bytes(b""),
        };
        Self { nonces: Some(0), ..Self::new(&parameter.mechanism(cipher.mechanism())) }
    }

    /// Increments the nonce unless it is kept, because an encryption must never use a nonce twice.
    #[inline]
    fn freshen(&mut self) {
        if let Some(count) = &mut self.nonces {
            *count += 1;
            let nonce = std::ptr::with_exposed_provenance_mut::<u64>(self.words[0] as usize);
            // SAFETY: the first word of an AEAD parameter is the address of the 12 bytes of the
            // nonce. `self` owns them, and only this function writes to them.
            unsafe { nonce.write_unaligned(*count) };
        }
    }
}

/// The structures of a template with the values that they point to.
struct TemplateMemory {
    raw: Vec<CK_ATTRIBUTE>,
    values: Vec<Attribute>,
}

impl TemplateMemory {
    fn new(attributes: &[Attribute]) -> Self {
        let mut values = attributes.to_vec();
        let raw = values
            .iter_mut()
            .map(|attribute| CK_ATTRIBUTE {
                type_: attribute.kind,
                pValue: attribute.value.as_mut_ptr().cast(),
                ulValueLen: attribute.value.len() as CK_ULONG,
            })
            .collect();
        Self { raw, values }
    }

    fn parts(&mut self) -> (*mut CK_ATTRIBUTE, CK_ULONG) {
        (self.raw.as_mut_ptr(), self.raw.len() as CK_ULONG)
    }

    /// Replaces a value by another one of the same length.
    fn overwrite(&mut self, at: usize, value: &[u8]) {
        assert_eq!(self.values[at].value.len(), value.len());
        // SAFETY: the structure points to a value of this length, which `self` owns.
        unsafe {
            std::ptr::copy_nonoverlapping(value.as_ptr(), self.raw[at].pValue.cast::<u8>(), value.len());
        }
    }
}

/// Returns an entry of a function list. Fails if the module lacks this function.
fn entry<F>(function: &'static str, pointer: Option<F>) -> Answer<F> {
    pointer.ok_or_else(|| refused(function, CKR_FUNCTION_NOT_SUPPORTED))
}

/// Fails unless `function` returned `CKR_OK`.
#[inline]
fn check(function: &'static str, code: CK_RV) -> Answer {
    if code == CKR_OK { Ok(()) } else { Err(refused(function, code)) }
}

#[cold]
fn refused(function: &'static str, code: CK_RV) -> Failure {
    Failure { function, code, doing: "benching".into() }
}
