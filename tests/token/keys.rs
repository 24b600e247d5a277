//! Keys of every kind for the tests: how each is generated, and an RSA pair made once for all.

use std::sync::LazyLock;

use jeton::backend::{PairSpec, PrivateParts, Provider, PublicParts};
use jeton::id::{
    AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle, value,
};

use crate::support::{Attributes, Client, none};

/// A kind of key pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
    MlDsa44,
    MlDsa65,
    MlDsa87,
}

pub const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
pub const P384: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
pub const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
pub const ED25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];

impl Kind {
    pub const ALL: [Kind; 8] = [
        Kind::Rsa,
        Kind::P256,
        Kind::P384,
        Kind::P521,
        Kind::Ed25519,
        Kind::MlDsa44,
        Kind::MlDsa65,
        Kind::MlDsa87,
    ];

    pub fn key_type(self) -> KeyType {
        match self {
            Kind::Rsa => KeyType::RSA,
            Kind::P256 | Kind::P384 | Kind::P521 => KeyType::EC,
            Kind::Ed25519 => KeyType::EC_EDWARDS,
            Kind::MlDsa44 | Kind::MlDsa65 | Kind::MlDsa87 => KeyType::ML_DSA,
        }
    }

    /// The mechanism that makes such a pair.
    pub fn generator(self) -> M {
        match self {
            Kind::Rsa => M::RSA_PKCS_KEY_PAIR_GEN,
            Kind::P256 | Kind::P384 | Kind::P521 => M::EC_KEY_PAIR_GEN,
            Kind::Ed25519 => M::EC_EDWARDS_KEY_PAIR_GEN,
            Kind::MlDsa44 | Kind::MlDsa65 | Kind::MlDsa87 => M::ML_DSA_KEY_PAIR_GEN,
        }
    }

    /// What the public template has to say for that.
    pub fn request(self) -> Attributes {
        match self {
            Kind::Rsa => none().number(A::MODULUS_BITS, 2048),
            Kind::P256 => none().bytes(A::EC_PARAMS, P256),
            Kind::P384 => none().bytes(A::EC_PARAMS, P384),
            Kind::P521 => none().bytes(A::EC_PARAMS, P521),
            Kind::Ed25519 => none().bytes(A::EC_PARAMS, ED25519),
            Kind::MlDsa44 => none().number(A::PARAMETER_SET, value::ML_DSA_44),
            Kind::MlDsa65 => none().number(A::PARAMETER_SET, value::ML_DSA_65),
            Kind::MlDsa87 => none().number(A::PARAMETER_SET, value::ML_DSA_87),
        }
    }
}

/// The templates of the two objects of an RSA pair.
pub struct RsaPair {
    pub public: Attributes,
    pub private: Attributes,
}

/// An RSA pair of 2048 bits. Making one takes long; the tests of generation make their own.
pub static RSA: LazyLock<RsaPair> = LazyLock::new(|| {
    let spec = PairSpec::Rsa { bits: 2048, public_exponent: &[1, 0, 1] };
    let (PublicParts::Rsa { n, e }, PrivateParts::Rsa(key)) =
        Provider::ALL[0].keys.generate(&spec).expect("a pair")
    else {
        panic!("an RSA pair");
    };
    let crt = key.crt.expect("primes");
    let public =
        key_object(ObjectClass::PUBLIC_KEY, KeyType::RSA).bytes(A::MODULUS, &n).bytes(A::PUBLIC_EXPONENT, &e);
    let private = key_object(ObjectClass::PRIVATE_KEY, KeyType::RSA)
        .bytes(A::MODULUS, &n)
        .bytes(A::PUBLIC_EXPONENT, &e)
        .bytes(A::PRIVATE_EXPONENT, &key.d)
        .bytes(A::PRIME_1, &crt.p)
        .bytes(A::PRIME_2, &crt.q)
        .bytes(A::EXPONENT_1, &crt.dp)
        .bytes(A::EXPONENT_2, &crt.dq)
        .bytes(A::COEFFICIENT, &crt.qinv);
    RsaPair { public, private }
});

pub fn key_object(class: ObjectClass, key_type: KeyType) -> Attributes {
    Attributes::of(class).number(A::KEY_TYPE, key_type.0)
}

/// A pair of that kind, public key first; both get these attributes.
pub fn pair(
    client: &Client,
    session: SessionHandle,
    kind: Kind,
    both: &Attributes,
) -> (ObjectHandle, ObjectHandle) {
    if kind == Kind::Rsa {
        let create = |half: &Attributes| client.create(session, &half.clone().and(both)).expect("a key");
        return (create(&RSA.public), create(&RSA.private));
    }
    client.generate(session, kind.generator(), &kind.request().and(both), both).expect("a pair")
}
