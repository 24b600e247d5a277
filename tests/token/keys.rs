//! The keys of the tests: the mechanism and the template that generate each kind of key, and an RSA
//! key pair that most tests share.

use std::sync::LazyLock;

use jeton::backend::{PairSpec, PrivateParts, PublicParts};
use jeton::id::{
    AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle, value,
};

use crate::support::{Attributes, Client, DEFAULT, hex, none, plain};

/// The type of a key pair or secret key, with its curve or parameter set if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Rsa,
    P224,
    P256,
    P384,
    P521,
    Secp256k1,
    Ed25519,
    Ed448,
    MlDsa44,
    MlDsa65,
    MlDsa87,
    /// ML-DSA-44 and P-256.
    Composite,
    SlhDsaSha2,
    SlhDsaShake,
    X25519,
    X448,
    MlKem512,
    MlKem768,
    MlKem1024,
    Aes,
    Generic,
    Hmac,
    BrainpoolP256r1,
    BrainpoolP256t1,
    BrainpoolP384r1,
    BrainpoolP384t1,
    /// A Diffie-Hellman key pair in the group of RFC 2409, 6.2.
    Dh,
}

pub const P224: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x21];
pub const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
pub const P384: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22];
pub const P521: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
pub const SECP256K1: &[u8] = &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x0a];
pub const ED25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
pub const ED448: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x71];
pub const X25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x6e];
pub const X448: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x6f];
/// Returns the DER encoding of a Brainpool curve's object identifier (RFC 5639, 4.1).
const fn brainpool(number: u8) -> [u8; 11] {
    [0x06, 0x09, 0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, number]
}
/// `CKP_SLH_DSA_SHA2_128F`, `CKP_SLH_DSA_SHAKE_128F`
const SLH_DSA_128F: [u64; 2] = [value::SLH_DSA_SHA2_128S + 2, value::SLH_DSA_SHA2_128S + 3];

impl Kind {
    pub const PAIRS: [Kind; 18] = [
        Kind::Rsa,
        Kind::P224,
        Kind::P256,
        Kind::P384,
        Kind::P521,
        Kind::Secp256k1,
        Kind::Ed25519,
        Kind::Ed448,
        Kind::MlDsa44,
        Kind::MlDsa65,
        Kind::MlDsa87,
        Kind::Composite,
        Kind::SlhDsaSha2,
        Kind::SlhDsaShake,
        Kind::BrainpoolP256r1,
        Kind::BrainpoolP256t1,
        Kind::BrainpoolP384r1,
        Kind::BrainpoolP384t1,
    ];
    /// The pairs for Diffie-Hellman on elliptic curves.
    pub const AGREEING: [Kind; 11] = [
        Kind::P224,
        Kind::P256,
        Kind::P384,
        Kind::P521,
        Kind::Secp256k1,
        Kind::X25519,
        Kind::X448,
        Kind::BrainpoolP256r1,
        Kind::BrainpoolP256t1,
        Kind::BrainpoolP384r1,
        Kind::BrainpoolP384t1,
    ];
    pub const ENCAPSULATING: [Kind; 3] = [Kind::MlKem512, Kind::MlKem768, Kind::MlKem1024];
    /// The secret keys that make MACs.
    pub const SECRETS: [Kind; 3] = [Kind::Aes, Kind::Generic, Kind::Hmac];

    pub fn key_type(self) -> KeyType {
        self.row().0
    }

    pub fn generator(self) -> M {
        self.row().1
    }

    /// Returns the attributes that the template of the public key or of the secret key needs.
    pub fn request(self) -> Attributes {
        self.row().2
    }

    fn row(self) -> (KeyType, M, Attributes) {
        use KeyType as T;
        let curve = |oid: &[u8]| (T::EC, M::EC_KEY_PAIR_GEN, none().bytes(A::EC_PARAMS, oid));
        let edwards = |oid| (T::EC_EDWARDS, M::EC_EDWARDS_KEY_PAIR_GEN, none().bytes(A::EC_PARAMS, oid));
        let agrees = |oid| (T::EC_MONTGOMERY, M::EC_MONTGOMERY_KEY_PAIR_GEN, none().bytes(A::EC_PARAMS, oid));
        let set =
            |key_type, mechanism, number| (key_type, mechanism, none().number(A::PARAMETER_SET, number));
        let secret = |key_type, mechanism, len| (key_type, mechanism, none().number(A::VALUE_LEN, len));
        match self {
            Kind::Rsa => (T::RSA, M::RSA_PKCS_KEY_PAIR_GEN, none().number(A::MODULUS_BITS, 2048)),
            Kind::P224 => curve(P224),
            Kind::P256 => curve(P256),
            Kind::P384 => curve(P384),
            Kind::P521 => curve(P521),
            Kind::Secp256k1 => curve(SECP256K1),
            Kind::BrainpoolP256r1 => curve(&brainpool(7)),
            Kind::BrainpoolP256t1 => curve(&brainpool(8)),
            Kind::BrainpoolP384r1 => curve(&brainpool(11)),
            Kind::BrainpoolP384t1 => curve(&brainpool(12)),
            Kind::Ed25519 => edwards(ED25519),
            Kind::Ed448 => edwards(ED448),
            Kind::X25519 => agrees(X25519),
            Kind::X448 => agrees(X448),
            Kind::MlDsa44 => set(T::ML_DSA, M::ML_DSA_KEY_PAIR_GEN, value::ML_DSA_44),
            Kind::MlDsa65 => set(T::ML_DSA, M::ML_DSA_KEY_PAIR_GEN, value::ML_DSA_65),
            Kind::MlDsa87 => set(T::ML_DSA, M::ML_DSA_KEY_PAIR_GEN, value::ML_DSA_87),
            Kind::Composite => set(T::JETON_COMPOSITE_ML_DSA, M::JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN, 40),
            Kind::SlhDsaSha2 => set(T::SLH_DSA, M::SLH_DSA_KEY_PAIR_GEN, SLH_DSA_128F[0]),
            Kind::SlhDsaShake => set(T::SLH_DSA, M::SLH_DSA_KEY_PAIR_GEN, SLH_DSA_128F[1]),
            Kind::MlKem512 => set(T::ML_KEM, M::ML_KEM_KEY_PAIR_GEN, value::ML_KEM_512),
            Kind::MlKem768 => set(T::ML_KEM, M::ML_KEM_KEY_PAIR_GEN, value::ML_KEM_768),
            Kind::MlKem1024 => set(T::ML_KEM, M::ML_KEM_KEY_PAIR_GEN, value::ML_KEM_1024),
            Kind::Aes => secret(T::AES, M::AES_KEY_GEN, 16),
            Kind::Generic => secret(T::GENERIC_SECRET, M::GENERIC_SECRET_KEY_GEN, 40),
            Kind::Hmac => secret(T::SHA256_HMAC, M::SHA256_KEY_GEN, 40),
            Kind::Dh => (T::DH, M::DH_PKCS_KEY_PAIR_GEN, group()),
        }
    }

    pub fn is_secret(self) -> bool {
        Self::SECRETS.contains(&self)
    }
}

pub struct RsaPair {
    pub public: Attributes,
    pub private: Attributes,
}

/// An RSA key pair of 2048 bits. Generation is slow, so most tests use this pair.
pub static RSA: LazyLock<RsaPair> = LazyLock::new(|| {
    let spec = PairSpec::Rsa { bits: 2048, public_exponent: &[1, 0, 1] };
    let (PublicParts::Rsa { n, e }, PrivateParts::Rsa(key)) = DEFAULT.keys.generate(&spec).expect("a pair")
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

pub fn secret(key_type: KeyType, value: &[u8]) -> Attributes {
    key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, value)
}

/// Creates a key pair of this kind, and returns the public key first. For a secret key, returns the
/// handle of one key twice. Every key gets the attributes `both`.
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
    let request = kind.request().and(both);
    if kind.is_secret() {
        let mechanism = plain(kind.generator());
        let key = client.module.generate_key(session, &mechanism, &request.template()).expect("a key");
        return (key, key);
    }
    client.generate(session, kind.generator(), &request, both).expect("a pair")
}

/// The prime of a Diffie-Hellman group: RFC 2409, 6.2. It is safe.
pub const PRIME: &str = "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a\
    08798e3404ddef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b\
    7edee386bfb5a899fa5ae9f24117c4b1fe649286651ece65381ffffffffffffffff";
pub const BASE: &str = "02";

/// Returns the attributes of the Diffie-Hellman group for a public template.
pub fn group() -> Attributes {
    none().bytes(A::PRIME, &hex(PRIME)).bytes(A::BASE, &hex(BASE))
}
