//! The attribute rules as data: a row per attribute and kind of object.
//!
//! PKCS#11 3.2, "Common attributes" to "Secret key objects" and the tables of each mechanism's key objects; the
//! columns are the footnotes of its attribute tables.

use super::value::Kind;
use crate::id::{AttributeType as A, KeyType as K, ObjectClass, value};

mod classes;

/// A set of kinds of objects: class with key or certificate type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sorts(u64);

#[allow(missing_docs, reason = "the names are the specification's")]
impl Sorts {
    pub const DATA: Self = Self(1);
    pub const X_509: Self = Self(1 << 1);
    pub const RSA_PUBLIC: Self = Self(1 << 2);
    pub const EC_PUBLIC: Self = Self(1 << 3);
    pub const EDWARDS_PUBLIC: Self = Self(1 << 4);
    pub const MONTGOMERY_PUBLIC: Self = Self(1 << 5);
    pub const ML_DSA_PUBLIC: Self = Self(1 << 6);
    pub const SLH_DSA_PUBLIC: Self = Self(1 << 7);
    pub const ML_KEM_PUBLIC: Self = Self(1 << 8);
    pub const RSA_PRIVATE: Self = Self(1 << 10);
    pub const EC_PRIVATE: Self = Self(1 << 11);
    pub const EDWARDS_PRIVATE: Self = Self(1 << 12);
    pub const MONTGOMERY_PRIVATE: Self = Self(1 << 13);
    pub const ML_DSA_PRIVATE: Self = Self(1 << 14);
    pub const SLH_DSA_PRIVATE: Self = Self(1 << 15);
    pub const ML_KEM_PRIVATE: Self = Self(1 << 16);
    pub const AES: Self = Self(1 << 20);
    pub const GENERIC_SECRET: Self = Self(1 << 21);
    pub const AES_XTS: Self = Self(1 << 22);
    pub const CHACHA20: Self = Self(1 << 23);
    pub const HKDF: Self = Self(1 << 24);
    /// The key types of the HMACs.
    pub const HMAC: Self = Self(1 << 25);
    pub const DH_PUBLIC: Self = Self(1 << 40);
    pub const DH_PRIVATE: Self = Self(1 << 41);
    pub const DH_PARAMETERS: Self = Self(1 << 42);
    pub const HOTP: Self = Self(1 << 43);
    pub const X_509_ATTRIBUTE: Self = Self(1 << 44);
    pub const WTLS: Self = Self(1 << 45);
    pub const TRUST: Self = Self(1 << 46);
    pub const PROFILE: Self = Self(1 << 47);
    pub const MECHANISM: Self = Self(1 << 48);
    /// Of the hardware features, the clock alone.
    pub const CLOCK: Self = Self(1 << 49);
    pub const VALIDATION: Self = Self(1 << 50);

    const CURVE_PUBLIC: Self = Self::EC_PUBLIC.or(Self::EDWARDS_PUBLIC).or(Self::MONTGOMERY_PUBLIC);
    const CURVE_PRIVATE: Self = Self::EC_PRIVATE.or(Self::EDWARDS_PRIVATE).or(Self::MONTGOMERY_PRIVATE);
    /// Keys with a parameter set.
    const SET_PUBLIC: Self = Self::ML_DSA_PUBLIC.or(Self::SLH_DSA_PUBLIC).or(Self::ML_KEM_PUBLIC);
    const SET_PRIVATE: Self = Self::ML_DSA_PRIVATE.or(Self::SLH_DSA_PRIVATE).or(Self::ML_KEM_PRIVATE);
    /// Keys that a seed makes.
    const SEEDED: Self = Self::ML_DSA_PRIVATE.or(Self::ML_KEM_PRIVATE);
    const PUBLIC: Self = Self::RSA_PUBLIC.or(Self::CURVE_PUBLIC).or(Self::SET_PUBLIC).or(Self::DH_PUBLIC);
    const PRIVATE: Self =
        Self::RSA_PRIVATE.or(Self::CURVE_PRIVATE).or(Self::SET_PRIVATE).or(Self::DH_PRIVATE);
    const SECRET: Self = Self::CIPHER.or(Self::GENERIC_SECRET).or(Self::HKDF).or(Self::HMAC).or(Self::HOTP);
    const SECRET_BUT_CHACHA20: Self = Self(Self::SECRET.0 & !Self::CHACHA20.0);
    const CIPHER: Self = Self::AES.or(Self::AES_XTS).or(Self::CHACHA20);
    const SIGNS: Self = Self::RSA_PRIVATE
        .or(Self::EC_PRIVATE)
        .or(Self::EDWARDS_PRIVATE)
        .or(Self::ML_DSA_PRIVATE)
        .or(Self::SLH_DSA_PRIVATE)
        .or(Self::CODES);
    const VERIFIES: Self = Self::RSA_PUBLIC
        .or(Self::EC_PUBLIC)
        .or(Self::EDWARDS_PUBLIC)
        .or(Self::ML_DSA_PUBLIC)
        .or(Self::SLH_DSA_PUBLIC)
        .or(Self::CODES);
    /// Keys of message authentication codes.
    const CODES: Self = Self::AES.or(Self::GENERIC_SECRET).or(Self::HMAC).or(Self::HOTP);
    const HIDDEN: Self = Self::PRIVATE.or(Self::SECRET);
    const KEYS: Self = Self::PUBLIC.or(Self::HIDDEN);
    const CERTIFICATES: Self = Self::X_509.or(Self::X_509_ATTRIBUTE).or(Self::WTLS);
    /// PKCS#11 3.2, "Object Classification": what applications make.
    const STORAGE: Self =
        Self::KEYS.or(Self::DATA).or(Self::CERTIFICATES).or(Self::TRUST).or(Self::DH_PARAMETERS);
    /// What the token alone has.
    const BUILT_IN: Self = Self::PROFILE.or(Self::MECHANISM).or(Self::CLOCK).or(Self::VALIDATION);
    const ALL: Self = Self::STORAGE.or(Self::BUILT_IN);
    const NONE: Self = Self(0);

    /// Every class with its key, certificate or feature type, and the sort of such objects.
    pub fn known() -> impl Iterator<Item = (ObjectClass, Option<u64>, Sorts)> {
        SORTS.iter().copied()
    }

    /// The sort of an object; `kind` is its key or certificate type.
    pub fn of(class: ObjectClass, kind: Option<u64>) -> Option<Self> {
        SORTS.iter().find(|(known, sub, _)| *known == class && *sub == kind).map(|(_, _, sort)| *sort)
    }

    /// Either.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether one of `other` is here.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is a public, private or secret key.
    pub const fn is_key(self) -> bool {
        Self::KEYS.has(self)
    }

    /// Whether it is a secret key.
    pub const fn is_secret(self) -> bool {
        Self::SECRET.has(self)
    }

    /// Whether it is a private key.
    pub const fn is_private(self) -> bool {
        Self::PRIVATE.has(self)
    }

    /// Whether it is a public key.
    pub const fn is_public(self) -> bool {
        Self::PUBLIC.has(self)
    }

    /// Whether it is a certificate.
    pub const fn is_certificate(self) -> bool {
        Self::CERTIFICATES.has(self)
    }

    /// Whether it is a class of which the token alone has objects.
    pub const fn is_built_in(self) -> bool {
        Self::BUILT_IN.has(self)
    }

    /// Whether it is a private or secret key.
    pub const fn is_hidden(self) -> bool {
        Self::HIDDEN.has(self)
    }
}

/// Class, key or certificate type, sort.
const SORTS: &[(ObjectClass, Option<u64>, Sorts)] = &[
    (ObjectClass::DATA, None, Sorts::DATA),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509), Sorts::X_509),
    (ObjectClass::PUBLIC_KEY, Some(K::RSA.0), Sorts::RSA_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::EC.0), Sorts::EC_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::EC_EDWARDS.0), Sorts::EDWARDS_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::ML_DSA.0), Sorts::ML_DSA_PUBLIC),
    (ObjectClass::PRIVATE_KEY, Some(K::RSA.0), Sorts::RSA_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::EC.0), Sorts::EC_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::EC_EDWARDS.0), Sorts::EDWARDS_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::ML_DSA.0), Sorts::ML_DSA_PRIVATE),
    (ObjectClass::SECRET_KEY, Some(K::AES.0), Sorts::AES),
    (ObjectClass::SECRET_KEY, Some(K::GENERIC_SECRET.0), Sorts::GENERIC_SECRET),
    (ObjectClass::PUBLIC_KEY, Some(K::EC_MONTGOMERY.0), Sorts::MONTGOMERY_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::SLH_DSA.0), Sorts::SLH_DSA_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::ML_KEM.0), Sorts::ML_KEM_PUBLIC),
    (ObjectClass::PRIVATE_KEY, Some(K::EC_MONTGOMERY.0), Sorts::MONTGOMERY_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::SLH_DSA.0), Sorts::SLH_DSA_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::ML_KEM.0), Sorts::ML_KEM_PRIVATE),
    (ObjectClass::SECRET_KEY, Some(K::AES_XTS.0), Sorts::AES_XTS),
    (ObjectClass::SECRET_KEY, Some(K::CHACHA20.0), Sorts::CHACHA20),
    (ObjectClass::SECRET_KEY, Some(K::HKDF.0), Sorts::HKDF),
    (ObjectClass::SECRET_KEY, Some(K::SHA_1_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA224_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA256_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA384_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA512_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA512_224_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA512_256_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_224_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_256_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_384_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_512_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_160_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_256_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_384_HMAC.0), Sorts::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_512_HMAC.0), Sorts::HMAC),
    (ObjectClass::PUBLIC_KEY, Some(K::DH.0), Sorts::DH_PUBLIC),
    (ObjectClass::PRIVATE_KEY, Some(K::DH.0), Sorts::DH_PRIVATE),
    (ObjectClass::DOMAIN_PARAMETERS, Some(K::DH.0), Sorts::DH_PARAMETERS),
    (ObjectClass::OTP_KEY, Some(K::HOTP.0), Sorts::HOTP),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509_ATTRIBUTE), Sorts::X_509_ATTRIBUTE),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_WTLS), Sorts::WTLS),
    (ObjectClass::TRUST, None, Sorts::TRUST),
    (ObjectClass::PROFILE, None, Sorts::PROFILE),
    (ObjectClass::MECHANISM, None, Sorts::MECHANISM),
    (ObjectClass::HW_FEATURE, Some(value::HW_CLOCK), Sorts::CLOCK),
    (ObjectClass::VALIDATION, None, Sorts::VALIDATION),
];

/// The class of the secret keys of a type. PKCS#11 3.2, "OTP key objects": those of one-time passwords have their own.
pub fn secret_class(key_type: K) -> ObjectClass {
    if key_type == K::HOTP { ObjectClass::OTP_KEY } else { ObjectClass::SECRET_KEY }
}

/// Whether a template may or must give an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// `TemplateIncomplete` without it.
    Must,
    /// It may stand there.
    May,
    /// `AttributeReadOnly`: the token sets it.
    Never,
    /// The mechanism sets it; a template may repeat it with the same value (`TemplateInconsistent` otherwise).
    Same,
}

/// How an attribute changes after creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// By `C_SetAttributeValue` and `C_CopyObject`.
    Free,
    /// By `C_CopyObject` alone.
    Copy,
    /// From false to true.
    Raise,
    /// From true to false.
    Lower,
    /// By the SO alone, at creation too.
    Officer,
    /// To no value.
    Clear,
    /// Not at all.
    Fixed,
}

/// What stands there when the template says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Default {
    /// No such attribute.
    Absent,
    /// True for these sorts, false for the others.
    TrueFor(Sorts),
    /// No bytes.
    Empty,
    /// A number.
    Number(u64),
    /// Worked out when it is read ([`computed`](super::computed)), unless the object holds a value.
    Computed,
}

/// A rule.
pub struct Rule {
    /// The attribute.
    pub id: A,
    /// How its value reads.
    pub kind: Kind,
    /// The objects that have it.
    pub on: Sorts,
    /// In `C_CreateObject`.
    pub create: Need,
    /// In `C_GenerateKey` and `C_GenerateKeyPair`.
    pub generate: Need,
    /// Afterwards.
    pub change: Change,
    /// Not readable where `CKA_SENSITIVE` is true or `CKA_EXTRACTABLE` is false.
    pub secret: bool,
    /// Without a value.
    pub default: Default,
    /// The largest number that it can be.
    pub most: u64,
}

impl Rule {
    const fn new(id: A, kind: Kind, on: Sorts) -> Self {
        Self {
            id,
            kind,
            on,
            create: Need::May,
            generate: Need::May,
            change: Change::Free,
            secret: false,
            default: Default::Absent,
            most: u64::MAX,
        }
    }

    const fn needs(mut self, create: Need, generate: Need) -> Self {
        self.create = create;
        self.generate = generate;
        self
    }

    const fn changes(mut self, change: Change) -> Self {
        self.change = change;
        self
    }

    const fn or(mut self, default: Default) -> Self {
        self.default = default;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    const fn up_to(mut self, most: u64) -> Self {
        self.most = most;
        self
    }

    /// In the functions that make a key out of another one.
    pub fn receive(&self) -> Need {
        match self.generate {
            // What a generation must be told, a key that is there already knows.
            Need::Must => Need::May,
            need => need,
        }
    }
}

/// All rules.
pub fn table() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain(classes::RULES)
}

/// The rule of an attribute on a sort of object.
pub fn rule(id: A, sort: Sorts) -> Option<&'static Rule> {
    table().find(|rule| rule.id == id && rule.on.has(sort))
}

/// The rules of a sort of object.
pub fn rules(sort: Sorts) -> impl Iterator<Item = &'static Rule> {
    table().filter(move |rule| rule.on.has(sort))
}

/// How an attribute's value reads, whatever the object.
pub fn kind(id: A) -> Option<Kind> {
    table().find(|rule| rule.id == id).map(|rule| rule.kind)
}

/// A flag with `default`, true for these sorts where the template says nothing.
const fn flag(id: A, on: Sorts, default: Sorts) -> Rule {
    Rule::new(id, Kind::Flag, on).or(Default::TrueFor(default))
}

/// A flag that the token alone sets.
const fn record(id: A, on: Sorts) -> Rule {
    flag(id, on, Sorts::NONE).needs(Need::Never, Need::Never).changes(Change::Fixed)
}

/// Bytes of which none is the default.
const fn text(id: A, on: Sorts) -> Rule {
    Rule::new(id, Kind::Bytes, on).or(Default::Empty)
}

/// A part of a public key that the mechanism makes.
const fn made(id: A, kind: Kind, on: Sorts) -> Rule {
    Rule::new(id, kind, on).needs(Need::Must, Need::Same).changes(Change::Fixed)
}

/// A secret part of a key, which the mechanism makes.
const fn hidden(id: A, kind: Kind, on: Sorts, create: Need) -> Rule {
    Rule::new(id, kind, on).needs(create, Need::Never).changes(Change::Fixed).secret()
}

/// What kind of one-time passwords a key makes.
const fn otp(id: A, default: u64) -> Rule {
    Rule::new(id, Kind::Number, Sorts::HOTP).changes(Change::Fixed).or(Default::Number(default))
}

const RULES: &[Rule] = &[
    // Every object.
    Rule::new(A::CLASS, Kind::Number, Sorts::ALL).needs(Need::Must, Need::Same).changes(Change::Fixed),
    // PKCS#11 3.2, "Storage Objects", "Copying objects".
    flag(A::TOKEN, Sorts::STORAGE, Sorts::NONE).changes(Change::Copy),
    flag(A::PRIVATE, Sorts::STORAGE, Sorts::HIDDEN).changes(Change::Copy),
    flag(A::MODIFIABLE, Sorts::STORAGE, Sorts::STORAGE).changes(Change::Copy),
    flag(A::COPYABLE, Sorts::STORAGE, Sorts::STORAGE).changes(Change::Lower),
    flag(A::DESTROYABLE, Sorts::STORAGE, Sorts::STORAGE).changes(Change::Copy),
    text(A::LABEL, Sorts::STORAGE),
    text(A::UNIQUE_ID, Sorts::ALL).needs(Need::Never, Need::Never).changes(Change::Fixed),
    // Data.
    text(A::APPLICATION, Sorts::DATA),
    text(A::OBJECT_ID, Sorts::DATA),
    text(A::VALUE, Sorts::DATA),
    // Certificates. PKCS#11 3.2, "X.509 public key certificate objects": only ID, ISSUER and SERIAL_NUMBER change.
    Rule::new(A::CERTIFICATE_TYPE, Kind::Number, Sorts::CERTIFICATES)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    flag(A::TRUSTED, Sorts::CERTIFICATES.or(Sorts::PUBLIC).or(Sorts::SECRET), Sorts::NONE)
        .changes(Change::Officer),
    Rule::new(A::CERTIFICATE_CATEGORY, Kind::Number, Sorts::CERTIFICATES)
        .changes(Change::Fixed)
        .up_to(value::CATEGORY_OTHER_ENTITY)
        .or(Default::Number(0)),
    Rule::new(A::JAVA_MIDP_SECURITY_DOMAIN, Kind::Number, Sorts::X_509)
        .changes(Change::Fixed)
        .up_to(value::DOMAIN_THIRD_PARTY)
        .or(Default::Number(0)),
    Rule::new(A::NAME_HASH_ALGORITHM, Kind::Number, Sorts::X_509.or(Sorts::WTLS).or(Sorts::TRUST))
        .changes(Change::Fixed),
    Rule::new(A::CHECK_VALUE, Kind::Bytes, Sorts::CERTIFICATES).changes(Change::Fixed).or(Default::Computed),
    Rule::new(A::SUBJECT, Kind::Bytes, Sorts::X_509.or(Sorts::WTLS))
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    text(A::ISSUER, Sorts::X_509.or(Sorts::WTLS)),
    text(A::SERIAL_NUMBER, Sorts::X_509.or(Sorts::X_509_ATTRIBUTE)),
    text(A::VALUE, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    text(A::URL, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    text(A::HASH_OF_SUBJECT_PUBLIC_KEY, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    text(A::HASH_OF_ISSUER_PUBLIC_KEY, Sorts::X_509.or(Sorts::WTLS)).changes(Change::Fixed),
    // Keys.
    Rule::new(A::KEY_TYPE, Kind::Number, Sorts::KEYS.or(Sorts::DH_PARAMETERS))
        .needs(Need::Must, Need::Same)
        .changes(Change::Fixed),
    text(A::ID, Sorts::KEYS.or(Sorts::X_509)),
    Rule::new(A::START_DATE, Kind::Date, Sorts::KEYS).or(Default::Empty),
    Rule::new(A::END_DATE, Kind::Date, Sorts::KEYS).or(Default::Empty),
    Rule::new(A::START_DATE, Kind::Date, Sorts::CERTIFICATES).changes(Change::Fixed).or(Default::Empty),
    Rule::new(A::END_DATE, Kind::Date, Sorts::CERTIFICATES).changes(Change::Fixed).or(Default::Empty),
    flag(
        A::DERIVE,
        Sorts::KEYS,
        Sorts::EC_PRIVATE
            .or(Sorts::MONTGOMERY_PRIVATE)
            .or(Sorts::GENERIC_SECRET)
            .or(Sorts::HKDF)
            .or(Sorts::AES)
            .or(Sorts::DH_PRIVATE),
    ),
    record(A::LOCAL, Sorts::KEYS.or(Sorts::DH_PARAMETERS)),
    Rule::new(A::KEY_GEN_MECHANISM, Kind::Number, Sorts::KEYS)
        .needs(Need::Never, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::ALLOWED_MECHANISMS, Kind::Numbers, Sorts::KEYS).changes(Change::Fixed),
    text(A::SUBJECT, Sorts::PUBLIC.or(Sorts::PRIVATE)),
    Rule::new(A::PUBLIC_KEY_INFO, Kind::Bytes, Sorts::PUBLIC.or(Sorts::CERTIFICATES))
        .changes(Change::Fixed)
        .or(Default::Computed),
    Rule::new(A::PUBLIC_KEY_INFO, Kind::Bytes, Sorts::PRIVATE).or(Default::Computed),
    // The token is validated by nobody: no flag is ever set.
    Rule::new(A::OBJECT_VALIDATION_FLAGS, Kind::Number, Sorts::KEYS)
        .needs(Need::Never, Need::Never)
        .changes(Change::Fixed)
        .or(Default::Computed),
    // What a key may do: true by default where its type can.
    flag(A::ENCRYPT, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::RSA_PUBLIC.or(Sorts::CIPHER)),
    flag(A::DECRYPT, Sorts::HIDDEN, Sorts::RSA_PRIVATE.or(Sorts::CIPHER)),
    flag(A::SIGN, Sorts::HIDDEN, Sorts::SIGNS),
    flag(A::VERIFY, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::VERIFIES),
    flag(A::SIGN_RECOVER, Sorts::PRIVATE, Sorts::RSA_PRIVATE),
    flag(A::VERIFY_RECOVER, Sorts::PUBLIC, Sorts::RSA_PUBLIC),
    flag(A::WRAP, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::RSA_PUBLIC.or(Sorts::CIPHER)),
    flag(A::UNWRAP, Sorts::HIDDEN, Sorts::RSA_PRIVATE.or(Sorts::CIPHER)),
    flag(A::ENCAPSULATE, Sorts::PUBLIC.or(Sorts::SECRET), Sorts::ML_KEM_PUBLIC),
    flag(A::DECAPSULATE, Sorts::HIDDEN, Sorts::ML_KEM_PRIVATE),
    Rule::new(A::WRAP_TEMPLATE, Kind::Template, Sorts::PUBLIC.or(Sorts::SECRET)).changes(Change::Fixed),
    Rule::new(A::UNWRAP_TEMPLATE, Kind::Template, Sorts::HIDDEN).changes(Change::Fixed),
    Rule::new(A::ENCAPSULATE_TEMPLATE, Kind::Template, Sorts::PUBLIC).changes(Change::Fixed),
    Rule::new(A::DECAPSULATE_TEMPLATE, Kind::Template, Sorts::PRIVATE).changes(Change::Fixed),
    Rule::new(A::DERIVE_TEMPLATE, Kind::Template, Sorts::HIDDEN).changes(Change::Fixed),
    // What protects a key.
    // PKCS#11 3.2, "Secret key objects": CKA_SENSITIVE is false by default; for private keys the token decides.
    flag(A::SENSITIVE, Sorts::HIDDEN, Sorts::PRIVATE).changes(Change::Raise),
    flag(A::EXTRACTABLE, Sorts::HIDDEN, Sorts::NONE).changes(Change::Lower),
    record(A::ALWAYS_SENSITIVE, Sorts::HIDDEN),
    record(A::NEVER_EXTRACTABLE, Sorts::HIDDEN),
    flag(A::WRAP_WITH_TRUSTED, Sorts::HIDDEN, Sorts::NONE).changes(Change::Raise),
    flag(A::ALWAYS_AUTHENTICATE, Sorts::PRIVATE, Sorts::NONE).changes(Change::Fixed),
    // RSA.
    made(A::MODULUS, Kind::Integer, Sorts::RSA_PUBLIC.or(Sorts::RSA_PRIVATE)),
    Rule::new(A::MODULUS_BITS, Kind::Number, Sorts::RSA_PUBLIC)
        .needs(Need::Never, Need::Must)
        .changes(Change::Fixed),
    Rule::new(A::PUBLIC_EXPONENT, Kind::Integer, Sorts::RSA_PUBLIC)
        .needs(Need::Must, Need::May)
        .changes(Change::Fixed),
    Rule::new(A::PUBLIC_EXPONENT, Kind::Integer, Sorts::RSA_PRIVATE)
        .needs(Need::May, Need::Same)
        .changes(Change::Fixed),
    hidden(A::PRIVATE_EXPONENT, Kind::Integer, Sorts::RSA_PRIVATE, Need::Must),
    hidden(A::PRIME_1, Kind::Integer, Sorts::RSA_PRIVATE, Need::May),
    hidden(A::PRIME_2, Kind::Integer, Sorts::RSA_PRIVATE, Need::May),
    hidden(A::EXPONENT_1, Kind::Integer, Sorts::RSA_PRIVATE, Need::May),
    hidden(A::EXPONENT_2, Kind::Integer, Sorts::RSA_PRIVATE, Need::May),
    hidden(A::COEFFICIENT, Kind::Integer, Sorts::RSA_PRIVATE, Need::May),
    // Elliptic curves.
    Rule::new(A::EC_PARAMS, Kind::Bytes, Sorts::CURVE_PUBLIC)
        .needs(Need::Must, Need::Must)
        .changes(Change::Fixed),
    made(A::EC_POINT, Kind::Bytes, Sorts::CURVE_PUBLIC),
    made(A::EC_PARAMS, Kind::Bytes, Sorts::CURVE_PRIVATE),
    hidden(
        A::VALUE,
        Kind::Bytes,
        Sorts::CURVE_PRIVATE.or(Sorts::SLH_DSA_PRIVATE).or(Sorts::DH_PRIVATE),
        Need::Must,
    ),
    // ML-DSA, ML-KEM, SLH-DSA.
    Rule::new(A::PARAMETER_SET, Kind::Number, Sorts::SET_PUBLIC)
        .needs(Need::Must, Need::Must)
        .changes(Change::Fixed),
    made(A::VALUE, Kind::Bytes, Sorts::SET_PUBLIC.or(Sorts::DH_PUBLIC)),
    made(A::PARAMETER_SET, Kind::Number, Sorts::SET_PRIVATE),
    // PKCS#11 3.2, "ML-DSA private key objects", "ML-KEM private key objects": at least one of SEED and VALUE.
    hidden(A::VALUE, Kind::Bytes, Sorts::SEEDED, Need::May),
    hidden(A::SEED, Kind::Bytes, Sorts::SEEDED, Need::May),
    // Secret keys.
    Rule::new(A::CHECK_VALUE, Kind::Bytes, Sorts::SECRET).changes(Change::Clear).or(Default::Computed),
    hidden(A::VALUE, Kind::Bytes, Sorts::SECRET, Need::Must),
    Rule::new(A::VALUE_LEN, Kind::Number, Sorts::SECRET_BUT_CHACHA20)
        .needs(Need::Never, Need::Must)
        .changes(Change::Fixed),
    Rule::new(A::VALUE_LEN, Kind::Number, Sorts::CHACHA20)
        .needs(Need::Never, Need::May)
        .changes(Change::Fixed)
        .or(Default::Number(32)),
    // Diffie-Hellman.
    Rule::new(A::PRIME, Kind::Integer, Sorts::DH_PUBLIC).needs(Need::Must, Need::Must).changes(Change::Fixed),
    Rule::new(A::BASE, Kind::Integer, Sorts::DH_PUBLIC).needs(Need::Must, Need::Must).changes(Change::Fixed),
    made(A::PRIME, Kind::Integer, Sorts::DH_PRIVATE),
    made(A::BASE, Kind::Integer, Sorts::DH_PRIVATE),
    Rule::new(A::VALUE_BITS, Kind::Number, Sorts::DH_PRIVATE)
        .needs(Need::Never, Need::May)
        .changes(Change::Fixed),
    Rule::new(A::PRIME, Kind::Integer, Sorts::DH_PARAMETERS)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::BASE, Kind::Integer, Sorts::DH_PARAMETERS)
        .needs(Need::Must, Need::Never)
        .changes(Change::Fixed),
    Rule::new(A::PRIME_BITS, Kind::Number, Sorts::DH_PARAMETERS)
        .needs(Need::Never, Need::Must)
        .changes(Change::Fixed),
    // One-time passwords. PKCS#11 3.2, "OATH HOTP secret key objects": the token may keep the counter from being
    // changed; here it goes up and by the token's hand alone.
    otp(A::OTP_FORMAT, value::OTP_FORMAT_DECIMAL),
    otp(A::OTP_LENGTH, 6),
    flag(A::OTP_USER_FRIENDLY_MODE, Sorts::HOTP, Sorts::HOTP).changes(Change::Fixed),
    otp(A::OTP_CHALLENGE_REQUIREMENT, value::OTP_PARAM_IGNORED),
    otp(A::OTP_TIME_REQUIREMENT, value::OTP_PARAM_IGNORED),
    otp(A::OTP_COUNTER_REQUIREMENT, value::OTP_PARAM_OPTIONAL),
    otp(A::OTP_PIN_REQUIREMENT, value::OTP_PARAM_IGNORED),
    text(A::OTP_COUNTER, Sorts::HOTP).changes(Change::Fixed),
    text(A::OTP_TIME, Sorts::HOTP).changes(Change::Fixed),
    text(A::OTP_USER_IDENTIFIER, Sorts::HOTP),
    text(A::OTP_SERVICE_IDENTIFIER, Sorts::HOTP),
    text(A::OTP_SERVICE_LOGO, Sorts::HOTP),
    text(A::OTP_SERVICE_LOGO_TYPE, Sorts::HOTP),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_one_rule_for_a_sort_and_one_kind_for_all() {
        for (at, rule) in table().enumerate() {
            for other in table().skip(at + 1) {
                if other.id == rule.id {
                    assert!(!other.on.has(rule.on), "{} stands twice", rule.id);
                    assert_eq!(other.kind, rule.kind, "{}", rule.id);
                }
            }
        }
    }

    #[test]
    fn every_flag_has_a_place_in_the_bits() {
        for rule in table().filter(|rule| rule.kind == Kind::Flag) {
            assert!(super::super::bits::Flag::of(rule.id).is_some(), "{}", rule.id);
        }
    }
}
