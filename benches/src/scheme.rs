//! The key pairs and signature schemes that are compared. The baseline and the modules use
//! the same list, so that all do the same work.

use cryptoki_sys::*;
use jeton::backend::{self, Curve, Hash, MlDsa, MlKem, SlhDsa};
use jeton_client::key_types::{self, KeyType};
use jeton_client::{Attribute, Mechanism};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ec(Curve),
    Rsa(usize),
    Ed25519,
    MlDsa(MlDsa),
    SlhDsa(SlhDsa),
    MlKem(MlKem),
}

pub struct Pair {
    /// The name of the pair, which is a part of the names of groups.
    pub name: &'static str,
    /// The name in [`key_types`], which has no row for RSA.
    id: &'static str,
    pub kind: Kind,
    pub schemes: &'static [Scheme],
    /// Whether making one takes so long that the short mode does not time it.
    pub slow_to_make: bool,
}

pub const PAIRS: &[Pair] = &[
    pair("p256", "p256", Kind::Ec(Curve::P256), &[Scheme::Ecdsa]),
    pair("p384", "p384", Kind::Ec(Curve::P384), &[Scheme::Ecdsa]),
    pair("p521", "p521", Kind::Ec(Curve::P521), &[Scheme::Ecdsa]),
    pair("rsa2048", "rsa", Kind::Rsa(2048), RSA),
    slow("rsa3072", "rsa", Kind::Rsa(3072), RSA),
    slow("rsa4096", "rsa", Kind::Rsa(4096), RSA),
    pair("ed25519", "ed25519", Kind::Ed25519, &[Scheme::Eddsa]),
    pair("mldsa44", "ml-dsa-44", Kind::MlDsa(MlDsa::MlDsa44), &[Scheme::MlDsa]),
    pair("mldsa65", "ml-dsa-65", Kind::MlDsa(MlDsa::MlDsa65), &[Scheme::MlDsa]),
    pair("mldsa87", "ml-dsa-87", Kind::MlDsa(MlDsa::MlDsa87), &[Scheme::MlDsa]),
    pair("slhdsa128f", "slh-dsa-sha2-128f", Kind::SlhDsa(SlhDsa::Sha2_128f), &[Scheme::SlhDsa]),
    slow("slhdsa128s", "slh-dsa-sha2-128s", Kind::SlhDsa(SlhDsa::Sha2_128s), &[Scheme::SlhDsa]),
    pair("mlkem512", "ml-kem-512", Kind::MlKem(MlKem::MlKem512), &[]),
    pair("mlkem768", "ml-kem-768", Kind::MlKem(MlKem::MlKem768), &[]),
    pair("mlkem1024", "ml-kem-1024", Kind::MlKem(MlKem::MlKem1024), &[]),
];

pub fn named(name: &str) -> &'static Pair {
    PAIRS.iter().find(|pair| pair.name == name).expect("a name of the table above")
}

const RSA: &[Scheme] = &[Scheme::RsaPkcs, Scheme::RsaPss];

const fn pair(name: &'static str, id: &'static str, kind: Kind, schemes: &'static [Scheme]) -> Pair {
    Pair { name, id, kind, schemes, slow_to_make: false }
}

const fn slow(name: &'static str, id: &'static str, kind: Kind, schemes: &'static [Scheme]) -> Pair {
    Pair { slow_to_make: true, ..pair(name, id, kind, schemes) }
}

impl Pair {
    pub fn generation(&self) -> CK_MECHANISM_TYPE {
        key_types::named(self.id).map_or(CKM_RSA_PKCS_KEY_PAIR_GEN, KeyType::generation)
    }

    /// Returns the attributes of the public template that name the algorithm.
    pub fn domain(&self) -> Vec<Attribute> {
        match (self.kind, key_types::named(self.id)) {
            // PKCS#11 3.2, "Elliptic curve": the curve as a PrintableString, which every peer
            // accepts.
            (Kind::Ed25519, _) => vec![Attribute::bytes(CKA_EC_PARAMS, b"\x13\x0cedwards25519".to_vec())],
            (_, Some(key_type)) => vec![key_type.parameters()],
            (Kind::Rsa(bits), None) => {
                let exponent = Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]);
                vec![Attribute::number(CKA_MODULUS_BITS, bits as u64), exponent]
            }
            (kind, None) => panic!("{kind:?} has no row in `key_types`"),
        }
    }
}

/// A cipher that also authenticates, with keys of 32 bytes, nonces of 12 bytes and tags of 16
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aead {
    AesGcm,
    ChaCha20Poly1305,
}

impl Aead {
    pub fn generation(self) -> CK_MECHANISM_TYPE {
        match self {
            Self::AesGcm => CKM_AES_KEY_GEN,
            Self::ChaCha20Poly1305 => CKM_CHACHA20_KEY_GEN,
        }
    }

    pub fn mechanism(self) -> CK_MECHANISM_TYPE {
        match self {
            Self::AesGcm => CKM_AES_GCM,
            Self::ChaCha20Poly1305 => CKM_CHACHA20_POLY1305,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    Sha256,
    Sha512,
}

impl Digest {
    pub fn mechanism(self) -> CK_MECHANISM_TYPE {
        match self {
            Self::Sha256 => CKM_SHA256,
            Self::Sha512 => CKM_SHA512,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `CKM_ECDSA` over a digest of 32, 48 or 64 bytes, depending on the curve.
    Ecdsa,
    /// `CKM_RSA_PKCS` over the DigestInfo of a SHA-256 digest.
    RsaPkcs,
    /// `CKM_RSA_PKCS_PSS` over a SHA-256 digest, MGF1 with SHA-256, a salt of 32 bytes.
    RsaPss,
    /// `CKM_EDDSA` over a message of 32 bytes.
    Eddsa,
    /// `CKM_ML_DSA` over a message of 32 bytes, hedged, no context.
    MlDsa,
    /// `CKM_SLH_DSA` over a message of 32 bytes, hedged, no context.
    SlhDsa,
}

/// The digest, or the message if the scheme takes one. Its value does not matter.
pub const INPUT: [u8; 64] = [0x5a; 64];

/// The bytes of a SHA-256 DigestInfo before its digest (RFC 8017, 9.2, note 1).
const SHA256_DIGEST_INFO: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00,
    0x04, 0x20,
];
pub const SALT: usize = 32;

impl Scheme {
    pub fn suffix(self) -> &'static str {
        match self {
            Self::RsaPkcs => "-pkcs",
            Self::RsaPss => "-pss",
            _ => "",
        }
    }

    /// Returns the input of the primitive: a digest or a message.
    pub fn input(self, kind: Kind) -> &'static [u8] {
        match kind {
            Kind::Ec(Curve::P384) => &INPUT[..48],
            Kind::Ec(Curve::P521) => &INPUT,
            _ => &INPUT[..32],
        }
    }

    /// Returns the input of `C_Sign`. For `CKM_RSA_PKCS` it is the DigestInfo, which `RSA_sign` of
    /// the baseline builds itself.
    pub fn module_input(self, kind: Kind) -> Vec<u8> {
        let input = self.input(kind);
        if self == Self::RsaPkcs { [&SHA256_DIGEST_INFO, input].concat() } else { input.to_vec() }
    }

    pub fn mechanism(self) -> Mechanism {
        match self {
            Self::Ecdsa => Mechanism::new(CKM_ECDSA),
            Self::RsaPkcs => Mechanism::new(CKM_RSA_PKCS),
            Self::RsaPss => {
                Mechanism::with_numbers(CKM_RSA_PKCS_PSS, &[CKM_SHA256, CKG_MGF1_SHA256, SALT as u64])
            }
            Self::Eddsa => Mechanism::new(CKM_EDDSA),
            Self::MlDsa => Mechanism::new(CKM_ML_DSA),
            Self::SlhDsa => Mechanism::new(CKM_SLH_DSA),
        }
    }

    /// Returns the scheme of the backends that takes [`input`](Self::input).
    pub fn of_backend(self) -> backend::Scheme {
        match self {
            Self::Ecdsa => backend::Scheme::Ecdsa,
            Self::RsaPkcs => backend::Scheme::RsaPkcs1 { hash: Some(Hash::Sha256) },
            Self::RsaPss => backend::Scheme::RsaPss { hash: Hash::Sha256, mgf: Hash::Sha256, salt_len: SALT },
            Self::Eddsa => backend::Scheme::Ed25519,
            Self::MlDsa => {
                backend::Scheme::MlDsa { hash: None, context: Box::default(), deterministic: false }
            }
            Self::SlhDsa => {
                backend::Scheme::SlhDsa { hash: None, context: Box::default(), deterministic: false }
            }
        }
    }
}
