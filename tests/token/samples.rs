//! A sample of every object type that applications create, and a value for every attribute.

use jeton::mechanism::{self, Action};
use jeton::object::attribute::{self, Default, Need, ObjectTypes, Rule, secret_class};
use jeton::object::value::Kind as Form;

use crate::prelude::*;

/// An object type with the template that `C_CreateObject` needs.
pub struct Sample {
    pub class: ObjectClass,
    pub kind: Option<u64>,
    pub object_type: ObjectTypes,
    pub whole: Attributes,
}

/// Lengths of secret keys. Every key type accepts one of them.
const LENGTHS: [usize; 5] = [32, 16, 24, 8, 64];

/// Runs a test with a client, the user's session and a sample of every object type. The rules do
/// not depend on the backend, so one backend is enough.
pub fn with_samples(test: impl Fn(&Client, SessionHandle, &Sample)) {
    let (client, session) = one_user();
    for sample in samples(&client, session) {
        test(&client, session, &sample);
    }
}

/// Returns a sample of each object type that applications create.
pub fn samples(client: &Client, session: SessionHandle) -> Vec<Sample> {
    let mut out: Vec<Sample> = Vec::new();
    for (class, kind, object_type) in ObjectTypes::known() {
        let is_made_by_token =
            attribute::rules(object_type).any(|rule| rule.secret && rule.create == Need::Never);
        if object_type.is_built_in()
            || is_made_by_token
            || out.iter().any(|sample| sample.object_type == object_type)
        {
            continue;
        }
        let whole = example(client, session, class, kind, object_type);
        out.push(Sample { class, kind, object_type, whole });
    }
    out
}

impl Sample {
    /// Returns the template with readable secrets.
    pub fn open(&self) -> Attributes {
        if self.object_type.is_hidden() { self.whole.clone().and(&shown()) } else { self.whole.clone() }
    }

    pub fn generator(&self) -> Option<M> {
        let action = match self.class {
            ObjectClass::SECRET_KEY | ObjectClass::OTP_KEY => Action::Generate,
            ObjectClass::DOMAIN_PARAMETERS => Action::GenerateParameters,
            ObjectClass::PUBLIC_KEY | ObjectClass::PRIVATE_KEY => Action::GeneratePair,
            _ => return None,
        };
        let wanted = self.kind.map(KeyType);
        // The template of the private key says what to generate: see `stateful.rs`.
        if wanted == Some(KeyType::HSS) {
            return None;
        }
        mechanism::all().find(|row| row.key_type == wanted && row.action == action).map(|row| row.id)
    }

    /// Returns the expected result of a copy, which is `other` unless the object counts.
    pub fn copied(&self, other: Result<()>) -> Result<()> {
        if self.class == ObjectClass::OTP_KEY { Err(Error::ActionProhibited) } else { other }
    }

    /// Returns the expected result of a generation with a valid template.
    pub fn made(&self) -> Result<()> {
        if ObjectTypes::PARAMETERS.has(self.object_type) { Err(Error::KeySizeRange) } else { Ok(()) }
    }

    /// Returns whether the object is one key of a key pair.
    pub fn is_half(&self) -> bool {
        self.object_type.is_public() || self.object_type.is_private()
    }

    /// Returns the attributes that a generation needs, in the public template of a key pair. Prime
    /// generation is slow, so the template of domain parameters asks for a size that is refused
    /// after all other checks ([`made`](Self::made)). The conformance suite generates a prime.
    pub fn request(&self) -> Attributes {
        match self.object_type {
            object_type if ObjectTypes::PARAMETERS.has(object_type) => none().number(A::PRIME_BITS, 512),
            object_type if object_type.is_secret() => none().number(A::VALUE_LEN, self.len() as u64),
            _ => pair_kind(KeyType(self.kind.expect("a key type"))).request(),
        }
    }

    pub fn len(&self) -> usize {
        self.whole.value(A::VALUE).len()
    }

    /// Returns the size of a private key's value in bits.
    fn bits(&self) -> u64 {
        let value = self.whole.value(A::VALUE);
        let first = value.iter().position(|byte| *byte != 0).expect("a number");
        (value.len() - first) as u64 * 8 - u64::from(value[first].leading_zeros())
    }

    /// Returns a value that the attribute may have at creation.
    pub fn value(&self, rule: &Rule) -> Vec<u8> {
        let own = |number: u64| none().number(rule.id, number).value(rule.id).to_vec();
        match (rule.id, rule.kind, rule.default) {
            (A::VALUE_LEN, _, _) => own(self.len() as u64),
            (A::VALUE_BITS, _, _) => own(self.bits()),
            (A::OTP_COUNTER, _, _) => vec![7; 8],
            (A::OTP_TIME, _, _) => b"20260101123456".to_vec(),
            (A::CLASS, _, _) => own(self.class.0),
            (A::KEY_TYPE, _, _) => own(self.kind.expect("a key type")),
            (_, Form::Flag, Default::TrueFor(object_types)) => {
                vec![u8::from(object_types.has(self.object_type))]
            }
            (_, Form::Number, Default::Number(number)) => own(number),
            (_, Form::Number | Form::Numbers, _) => own(M::SHA_1.0),
            (_, Form::Date, _) => b"20260101".to_vec(),
            (_, Form::Integer, _) => vec![1, 0, 1],
            (_, Form::Bytes, Default::Computed) | (_, Form::Template, _) => Vec::new(),
            _ => b"x".to_vec(),
        }
    }

    /// Returns another value of the right form. For a template, both values are empty.
    pub fn other(&self, rule: &Rule) -> Vec<u8> {
        let own = |number: u64| none().number(rule.id, number).value(rule.id).to_vec();
        match (rule.id, rule.kind) {
            (_, Form::Flag) => vec![1 - self.value(rule)[0]],
            (A::PARAMETER_SET | A::HSS_LEVELS, _) => own(2),
            (_, Form::Number | Form::Numbers) => {
                let has = match self.whole.has(rule.id) {
                    true => self.whole.value(rule.id).to_vec(),
                    false => self.value(rule),
                };
                own(if has == own(1) { 2 } else { 1 })
            }
            (_, Form::Date) => b"20270101".to_vec(),
            (_, Form::Integer) => vec![3],
            (_, Form::Template) => Vec::new(),
            (A::EC_PARAMS, _) => Kind::P384.request().value(A::EC_PARAMS).to_vec(),
            _ => b"y".to_vec(),
        }
    }
}

fn example(
    client: &Client,
    session: SessionHandle,
    class: ObjectClass,
    kind: Option<u64>,
    object_type: ObjectTypes,
) -> Attributes {
    let certificate = |kind| {
        Attributes::of(ObjectClass::CERTIFICATE).number(A::CERTIFICATE_TYPE, kind).bytes(A::VALUE, b"der")
    };
    match object_type {
        ObjectTypes::DATA => Attributes::of(class),
        ObjectTypes::X_509 => certificate(value::CERTIFICATE_X_509).bytes(A::SUBJECT, b"a subject"),
        ObjectTypes::WTLS => certificate(value::CERTIFICATE_WTLS).bytes(A::SUBJECT, b"a subject"),
        ObjectTypes::X_509_ATTRIBUTE => {
            certificate(value::CERTIFICATE_X_509_ATTRIBUTE).bytes(A::OWNER, b"an owner")
        }
        ObjectTypes::TRUST => Attributes::of(class)
            .bytes(A::ISSUER, b"an issuer")
            .bytes(A::SERIAL_NUMBER, &[2, 1, 7])
            .bytes(A::HASH_OF_CERTIFICATE, &[7; 32])
            .number(A::NAME_HASH_ALGORITHM, M::SHA256.0),
        _ if ObjectTypes::PARAMETERS.has(object_type) => key_object(class, KeyType::DH).and(&group()),
        _ if object_type.is_secret() => secret(client, session, KeyType(kind.expect("a key type"))),
        _ => half(client, session, KeyType(kind.expect("a key type")), class, object_type),
    }
}

fn secret(client: &Client, session: SessionHandle, key_type: KeyType) -> Attributes {
    let mut keys = LENGTHS
        .into_iter()
        // Each byte of a DES key has an odd number of bits set.
        .flat_map(|len| [(0..len as u8).collect::<Vec<_>>(), vec![7; len]])
        .map(|value| key_object(secret_class(key_type), key_type).bytes(A::VALUE, &value));
    keys.find(|key| client.create(session, key).is_ok()).unwrap_or_else(|| panic!("no length of {key_type}"))
}

/// Reads one key of a new key pair. For RSA, reads it from the pair that most tests share.
fn half(
    client: &Client,
    session: SessionHandle,
    key_type: KeyType,
    class: ObjectClass,
    object_type: ObjectTypes,
) -> Attributes {
    if [KeyType::HSS, KeyType::XMSS, KeyType::XMSSMT].contains(&key_type) {
        return crate::stateful::public_key(key_type);
    }
    if key_type == KeyType::RSA {
        return if object_type.is_public() { RSA.public.clone() } else { RSA.private.clone() };
    }
    let kind = pair_kind(key_type);
    let (public, private) = client
        .generate(session, kind.generator(), &kind.request(), &shown())
        .unwrap_or_else(|error| panic!("{key_type}: {error:?}"));
    let object = if object_type.is_public() { public } else { private };
    let parts = attribute::rules(object_type).filter(|rule| {
        (rule.create == Need::Must || rule.secret) && ![A::CLASS, A::KEY_TYPE].contains(&rule.id)
    });
    parts.fold(key_object(class, key_type), |whole, rule| match client.read(session, object, rule.id) {
        Ok(value) => whole.bytes(rule.id, &value),
        Err(_) => whole,
    })
}

/// Returns the kind of key pair for a key type. A new key type needs an element in the list.
fn pair_kind(key_type: KeyType) -> Kind {
    let kinds = [
        Kind::Rsa,
        Kind::P256,
        Kind::Ed25519,
        Kind::X25519,
        Kind::MlDsa44,
        Kind::Composite,
        Kind::MlKem512,
        Kind::SlhDsaSha2,
        Kind::Dh,
    ];
    let kind = kinds.into_iter().find(|kind| kind.key_type() == key_type);
    kind.unwrap_or_else(|| panic!("no sample of {key_type}"))
}

/// Generates an AES key that wraps and unwraps.
pub fn wrapping_key(client: &Client, session: SessionHandle) -> ObjectHandle {
    pair(client, session, Kind::Aes, &none()).0
}
