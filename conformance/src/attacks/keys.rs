//! The keys of the attacks. A [`Template`] describes a secret key, and a [`Pair`] a key pair. The
//! owner imports or generates the victims from them, and the attacker the keys that it needs. A
//! template is also the last argument of calls that unwrap or derive a key.

use cryptoki_sys::*;
pub use jeton_client::ObjectHandle as Handle;
use jeton_client::{Attribute, Memory, Structure};

use super::{Attacker, Tried};
use crate::fixture::{P256, USAGES};
pub use crate::fixture::{bytes, flag, number};

pub type Handles = (Handle, Handle);

/// The value of the victims that are secret keys.
pub const VICTIM: [u8; 32] = *b"the victim is thirty-two bytes..";
pub const KNOWN: [u8; 32] = *b"the attacker knows these bytes !";
pub const KINDS: [CK_KEY_TYPE; 4] = [CKK_AES, CKK_GENERIC_SECRET, CKK_CHACHA20, CKK_SHA256_HMAC];

pub const fn kind_name(kind: CK_KEY_TYPE) -> &'static str {
    match kind {
        CKK_AES => "AES",
        CKK_CHACHA20 => "ChaCha20",
        CKK_SHA256_HMAC => "HMAC",
        _ => "generic",
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// `CKA_SENSITIVE` is true and `CKA_EXTRACTABLE` is false.
    Kept,
    /// `CKA_SENSITIVE` and `CKA_EXTRACTABLE` are true.
    Wrappable,
    /// `CKA_SENSITIVE`, `CKA_EXTRACTABLE` and `CKA_WRAP_WITH_TRUSTED` are true.
    ForTrusted,
    /// The key is readable, because the attacker may know its value.
    Open,
}

/// The attributes of a new object, and the memory of its templates such as `CKA_UNWRAP_TEMPLATE`.
#[derive(Clone, Default)]
pub struct Template {
    attributes: Vec<Attribute>,
    held: Vec<Memory>,
}

impl<T: IntoIterator<Item = Attribute>> From<T> for Template {
    fn from(attributes: T) -> Self {
        Self { attributes: attributes.into_iter().collect(), held: Vec::new() }
    }
}

impl AsRef<[Attribute]> for Template {
    fn as_ref(&self) -> &[Attribute] {
        &self.attributes
    }
}

impl Template {
    /// Adds attributes. They replace those of the same types.
    pub fn and(mut self, more: impl IntoIterator<Item = Attribute>) -> Self {
        for one in more {
            self.attributes.retain(|other| other.kind != one.kind);
            self.attributes.push(one);
        }
        self
    }

    pub fn guarded(self, guarded: Guarded) -> Self {
        let trusted = (guarded == Guarded::ForTrusted).then(|| flag(CKA_WRAP_WITH_TRUSTED, true));
        let flags =
            [flag(CKA_SENSITIVE, guarded != Guarded::Open), flag(CKA_EXTRACTABLE, guarded != Guarded::Kept)];
        self.and(flags).and(trusted)
    }

    /// Sets each type in `all` to true if `wanted` contains it, and otherwise to false.
    fn limited(self, all: &[CK_ATTRIBUTE_TYPE], wanted: &[CK_ATTRIBUTE_TYPE]) -> Self {
        self.and(all.iter().map(|usage| flag(*usage, wanted.contains(usage))))
    }

    /// Gives a secret key these usages and no others.
    pub fn usages(self, wanted: &[CK_ATTRIBUTE_TYPE]) -> Self {
        self.limited(&USAGES, wanted)
    }

    /// Sets these usages to true. The others have the module's defaults.
    pub fn able(self, usages: &[CK_ATTRIBUTE_TYPE]) -> Self {
        self.and(usages.iter().map(|usage| flag(*usage, true)))
    }

    /// Sets `CKA_ALLOWED_MECHANISMS` to one mechanism.
    pub fn only(self, mechanism: CK_MECHANISM_TYPE) -> Self {
        self.and([only(mechanism)])
    }

    /// Adds a template as the value of an attribute, such as `CKA_UNWRAP_TEMPLATE`.
    pub fn nested(self, kind: CK_ATTRIBUTE_TYPE, inner: impl Into<Self>) -> Self {
        let inner = inner.into();
        let values: Vec<_> = inner.attributes.iter().map(|one| Memory::of(&one.value)).collect();
        let array = inner.attributes.iter().zip(&values).fold(Structure::new(), |made, (one, memory)| {
            made.number(one.kind).pointer(memory).number(one.value.len() as CK_ULONG)
        });
        let mut made = self.and([bytes(kind, array.memory().bytes())]);
        made.held.extend(values.into_iter().chain(inner.held));
        made
    }
}

pub fn only(mechanism: CK_MECHANISM_TYPE) -> Attribute {
    bytes(CKA_ALLOWED_MECHANISMS, mechanism.to_ne_bytes())
}

pub fn head(class: CK_OBJECT_CLASS, kind: CK_KEY_TYPE) -> Template {
    [number(CKA_CLASS, class), number(CKA_KEY_TYPE, kind), flag(CKA_TOKEN, false)].into()
}

/// Describes a made secret key that is readable.
pub fn open(kind: CK_KEY_TYPE) -> Template {
    head(CKO_SECRET_KEY, kind).guarded(Guarded::Open)
}

/// Describes a made secret key that is readable and has this length.
pub fn open_of(kind: CK_KEY_TYPE, length: usize) -> Template {
    open(kind).and([number(CKA_VALUE_LEN, length as CK_ULONG)])
}

/// Describes a made secret key that is sensitive and not extractable.
pub fn hidden(kind: CK_KEY_TYPE) -> Template {
    head(CKO_SECRET_KEY, kind).guarded(Guarded::Kept)
}

/// Describes a made secret key that is sensitive, not extractable, and has this length.
pub fn hidden_of(kind: CK_KEY_TYPE, length: usize, usages: &[CK_ATTRIBUTE_TYPE]) -> Template {
    hidden(kind).and([number(CKA_VALUE_LEN, length as CK_ULONG)]).able(usages)
}

/// Describes a made key of 32 bytes that signs with HMAC. The attacker cannot read it.
pub fn mac_key() -> Template {
    hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_SIGN])
}

/// Describes an imported secret key with this value and only these usages.
pub fn secret(kind: CK_KEY_TYPE, value: &[u8], guarded: Guarded, usages: &[CK_ATTRIBUTE_TYPE]) -> Template {
    head(CKO_SECRET_KEY, kind).guarded(guarded).and([bytes(CKA_VALUE, value)]).usages(usages)
}

/// Describes a key of the owner with the value [`VICTIM`].
pub fn victim(kind: CK_KEY_TYPE, guarded: Guarded, usages: &[CK_ATTRIBUTE_TYPE]) -> Template {
    secret(kind, &VICTIM, guarded, usages)
}

/// Describes a victim with the usual usage of its type.
pub fn usual(kind: CK_KEY_TYPE, guarded: Guarded) -> Template {
    let usage = if matches!(kind, CKK_AES | CKK_CHACHA20) { CKA_ENCRYPT } else { CKA_SIGN };
    victim(kind, guarded, &[usage])
}

/// Describes a victim that encrypts with AES.
pub fn aes(guarded: Guarded) -> Template {
    usual(CKK_AES, guarded)
}

/// Describes a generic victim that may only derive. It is sensitive and not extractable.
pub fn base() -> Template {
    victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])
}

/// Describes an AES key that the attacker knows.
pub fn known(usages: &[CK_ATTRIBUTE_TYPE]) -> Template {
    secret(CKK_AES, &KNOWN, Guarded::Open, usages)
}

/// Describes a generic key that the attacker knows, and from which it derives.
pub fn known_base(guarded: Guarded) -> Template {
    secret(CKK_GENERIC_SECRET, &KNOWN, guarded, &[CKA_DERIVE])
}

/// Describes an AES key of the owner that wraps and unwraps. The attacker does not know it.
pub fn wrapping(usages: &[CK_ATTRIBUTE_TYPE]) -> Template {
    secret(CKK_AES, &[0x42; 32], Guarded::Kept, usages)
}

/// Describes an imported public RSA key that wraps.
pub fn public_rsa(modulus: impl Into<Vec<u8>>, exponent: &[u8]) -> Template {
    let numbers = [bytes(CKA_MODULUS, modulus), bytes(CKA_PUBLIC_EXPONENT, exponent)];
    head(CKO_PUBLIC_KEY, CKK_RSA).and(numbers).able(&[CKA_WRAP])
}

#[derive(Clone)]
pub struct Pair {
    pub generate: CK_MECHANISM_TYPE,
    pub public: Template,
    pub private: Template,
}

impl Pair {
    /// Describes a pair of session objects with these attributes.
    pub fn of<const M: usize, const N: usize>(
        generate: CK_MECHANISM_TYPE,
        public: [Attribute; M],
        private: [Attribute; N],
    ) -> Self {
        let session = || Template::from([flag(CKA_TOKEN, false)]);
        Self { generate, public: session().and(public), private: session().and(private) }
    }

    pub fn and(self, more: impl IntoIterator<Item = Attribute>) -> Self {
        Self { private: self.private.and(more), ..self }
    }

    /// Adds a template to the private key, like [`Template::nested`].
    pub fn nested(self, kind: CK_ATTRIBUTE_TYPE, inner: impl Into<Template>) -> Self {
        Self { private: self.private.nested(kind, inner), ..self }
    }

    /// Requires the PIN for each use of the private key.
    pub fn careful(self) -> Self {
        self.and([flag(CKA_ALWAYS_AUTHENTICATE, true)])
    }
}

/// Describes an RSA pair of 2048 bits with only these usages.
pub fn rsa(public: &[CK_ATTRIBUTE_TYPE], private: &[CK_ATTRIBUTE_TYPE]) -> Pair {
    let numbers = [number(CKA_MODULUS_BITS, 2048), bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])];
    let made = Pair::of(CKM_RSA_PKCS_KEY_PAIR_GEN, numbers, []);
    Pair {
        public: made.public.limited(&[CKA_ENCRYPT, CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_WRAP], public),
        private: made
            .private
            .guarded(Guarded::Kept)
            .limited(&[CKA_DECRYPT, CKA_SIGN, CKA_SIGN_RECOVER, CKA_UNWRAP], private),
        ..made
    }
}

/// Describes a P-256 pair. The private key has only these usages.
pub fn ec(private: &[CK_ATTRIBUTE_TYPE], guarded: Guarded) -> Pair {
    let made = Pair::of(CKM_EC_KEY_PAIR_GEN, [bytes(CKA_EC_PARAMS, P256), flag(CKA_VERIFY, true)], []);
    Pair { private: made.private.guarded(guarded).limited(&[CKA_SIGN, CKA_DERIVE], private), ..made }
}

/// Describes an imported P-256 key that signs, with the value [`VICTIM`].
pub fn ca_key(guarded: Guarded) -> Template {
    let numbers = [bytes(CKA_EC_PARAMS, P256), bytes(CKA_VALUE, VICTIM)];
    head(CKO_PRIVATE_KEY, CKK_EC).guarded(guarded).and(numbers).limited(&[CKA_SIGN, CKA_DERIVE], &[CKA_SIGN])
}

pub fn kem() -> Pair {
    let public = [number(CKA_PARAMETER_SET, CKP_ML_KEM_768), flag(CKA_ENCAPSULATE, true)];
    Pair::of(CKM_ML_KEM_KEY_PAIR_GEN, public, [flag(CKA_DECAPSULATE, true)])
}

/// What the owner prepares before the attack. If a step fails, the attack cannot be tried.
pub trait Prepare {
    type Made;

    fn prepare(&self, a: &Attacker<'_>) -> Tried<Self::Made>;
}

impl Prepare for () {
    type Made = ();

    fn prepare(&self, _: &Attacker<'_>) -> Tried<()> {
        Ok(())
    }
}

impl Prepare for Template {
    type Made = Handle;

    fn prepare(&self, a: &Attacker<'_>) -> Tried<Handle> {
        a.import(self)
    }
}

impl Prepare for Pair {
    type Made = Handles;

    fn prepare(&self, a: &Attacker<'_>) -> Tried<Self::Made> {
        a.pair(self)
    }
}

impl<A: Prepare, B: Prepare> Prepare for (A, B) {
    type Made = (A::Made, B::Made);

    fn prepare(&self, a: &Attacker<'_>) -> Tried<Self::Made> {
        Ok((self.0.prepare(a)?, self.1.prepare(a)?))
    }
}

/// A closure can prepare anything else.
impl<M, F: Fn(&Attacker<'_>) -> Tried<M>> Prepare for F {
    type Made = M;

    fn prepare(&self, a: &Attacker<'_>) -> Tried<M> {
        self(a)
    }
}

/// Lets the compiler infer the types of a closure that prepares something.
pub fn owner<M, F: Fn(&Attacker<'_>) -> Tried<M>>(prepare: F) -> F {
    prepare
}
