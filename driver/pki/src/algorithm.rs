//! The ten algorithms of a CA in PKCS#11 and in X.509, one row each. A profile names the algorithm
//! of a CA and that of its subscribers.

use cryptoki_sys::{
    CK_KEY_TYPE, CK_MECHANISM_TYPE, CK_ULONG, CKK_EC, CKK_EC_EDWARDS, CKK_ML_DSA, CKK_RSA, CKK_SLH_DSA,
    CKM_EC_EDWARDS_KEY_PAIR_GEN, CKM_EC_KEY_PAIR_GEN, CKM_ECDSA, CKM_ECDSA_SHA256, CKM_ECDSA_SHA384,
    CKM_EDDSA, CKM_ML_DSA, CKM_ML_DSA_KEY_PAIR_GEN, CKM_RSA_PKCS_KEY_PAIR_GEN, CKM_SHA256_RSA_PKCS,
    CKM_SLH_DSA, CKM_SLH_DSA_KEY_PAIR_GEN, CKP_ML_DSA_44, CKP_ML_DSA_65, CKP_ML_DSA_87,
    CKP_SLH_DSA_SHA2_128F,
};
use der::Any;
use der::asn1::{Null, ObjectIdentifier};
use spki::AlgorithmIdentifierOwned;

use crate::Error;

/// A CA algorithm in PKCS#11 and in X.509.
#[derive(Debug)]
pub struct Algorithm {
    /// The name that `--ca-key-algo` takes.
    pub name: &'static str,
    /// The parameters of its keys.
    pub key: Key,
    /// `CKA_KEY_TYPE`
    pub key_type: CK_KEY_TYPE,
    /// The mechanism that generates a key pair.
    pub generation: CK_MECHANISM_TYPE,
    /// The mechanisms that sign, the preferred one first.
    pub signing: &'static [Signing],
    /// The length of a signature in its PKCS#11 form, or its upper bound.
    pub signature_length: usize,
    /// The algorithm in SubjectPublicKeyInfo.
    pub public_key: Identifier,
    /// The signature's algorithm.
    pub signature: Identifier,
}

/// The parameters of an algorithm's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// ECDSA on P-256.
    P256,
    /// ECDSA on P-384.
    P384,
    /// Ed25519.
    Ed25519,
    /// ML-DSA with this `CKP_ML_DSA_…`.
    MlDsa(CK_ULONG),
    /// RSA with a modulus of this number of bits.
    Rsa(CK_ULONG),
    /// SLH-DSA with this `CKP_SLH_DSA_…`.
    SlhDsa(CK_ULONG),
}

/// A mechanism that signs, and its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signing {
    /// `CKM_…`
    pub mechanism: CK_MECHANISM_TYPE,
    /// The input of `C_Sign`.
    pub input: Input,
}

/// The input of `C_Sign`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The message.
    Message,
    /// The SHA-256 digest of the message, computed by the tool.
    Sha256,
    /// The SHA-384 digest of the message, computed by the tool.
    Sha384,
}

/// An AlgorithmIdentifier.
#[derive(Clone, Copy, Debug)]
pub struct Identifier {
    oid: ObjectIdentifier,
    parameters: Parameters,
}

#[derive(Clone, Copy, Debug)]
enum Parameters {
    Absent,
    Null,
    Oid(ObjectIdentifier),
}

/// All algorithms.
pub static ALGORITHMS: [Algorithm; 10] = [
    Algorithm {
        name: "ecdsa-p256",
        key: Key::P256,
        key_type: CKK_EC,
        generation: CKM_EC_KEY_PAIR_GEN,
        signing: &[message(CKM_ECDSA_SHA256), Signing { mechanism: CKM_ECDSA, input: Input::Sha256 }],
        signature_length: 64,
        public_key: Identifier { oid: ID_EC_PUBLIC_KEY, parameters: Parameters::Oid(SECP256R1) },
        signature: absent(ECDSA_WITH_SHA256),
    },
    Algorithm {
        name: "ecdsa-p384",
        key: Key::P384,
        key_type: CKK_EC,
        generation: CKM_EC_KEY_PAIR_GEN,
        signing: &[message(CKM_ECDSA_SHA384), Signing { mechanism: CKM_ECDSA, input: Input::Sha384 }],
        signature_length: 96,
        public_key: Identifier { oid: ID_EC_PUBLIC_KEY, parameters: Parameters::Oid(SECP384R1) },
        signature: absent(ECDSA_WITH_SHA384),
    },
    Algorithm {
        name: "ed25519",
        key: Key::Ed25519,
        key_type: CKK_EC_EDWARDS,
        generation: CKM_EC_EDWARDS_KEY_PAIR_GEN,
        signing: &[message(CKM_EDDSA)],
        signature_length: 64,
        public_key: absent(ID_ED25519),
        signature: absent(ID_ED25519),
    },
    ml_dsa("ml-dsa-44", CKP_ML_DSA_44, 2420, ID_ML_DSA_44),
    ml_dsa("ml-dsa-65", CKP_ML_DSA_65, 3309, ID_ML_DSA_65),
    ml_dsa("ml-dsa-87", CKP_ML_DSA_87, 4627, ID_ML_DSA_87),
    rsa("rsa2048", 2048),
    rsa("rsa3072", 3072),
    rsa("rsa4096", 4096),
    // RFC 9909, 3: parameters MUST be absent, as for ML-DSA.
    Algorithm {
        name: "slh-dsa-sha2-128f",
        key: Key::SlhDsa(CKP_SLH_DSA_SHA2_128F),
        key_type: CKK_SLH_DSA,
        generation: CKM_SLH_DSA_KEY_PAIR_GEN,
        signing: &[message(CKM_SLH_DSA)],
        signature_length: 17_088,
        public_key: absent(ID_SLH_DSA_SHA2_128F),
        signature: absent(ID_SLH_DSA_SHA2_128F),
    },
];

impl Algorithm {
    /// Returns the algorithm with this name. The forms of `key generate --type` are accepted too,
    /// for example `ec:p256` and `rsa:2048`.
    pub fn named(name: &str) -> Result<&'static Self, Error> {
        let own =
            name.to_ascii_lowercase().replace("ec:", "ecdsa-").replace("-p-", "-p").replace("rsa:", "rsa");
        ALGORITHMS.iter().find(|algorithm| algorithm.name == own).ok_or_else(|| {
            let known: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
            Error::Usage(format!("unknown algorithm {name:?}; known are {}", known.join(", ")))
        })
    }

    /// Returns the algorithm of a certificate's key.
    pub fn of_public_key(key: &spki::SubjectPublicKeyInfoOwned) -> Option<&'static Self> {
        let fits = |algorithm: &&Self| {
            // The length of the key distinguishes the RSA sizes, which differ by at least 128
            // bytes.
            let length = key.subject_public_key.raw_bytes().len();
            let sized = match algorithm.key {
                Key::Rsa(bits) => length.abs_diff(bits as usize / 8) < 64,
                Key::P256 | Key::P384 => algorithm.public_key.to_owned() == key.algorithm,
                _ => true,
            };
            algorithm.public_key.oid == key.algorithm.oid && sized
        };
        ALGORITHMS.iter().find(fits)
    }
}

/// The algorithms of a CA's key and of its subscribers' keys.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The algorithm of the CA, which signs.
    pub ca: &'static Algorithm,
    /// The algorithm of the keys in the certificates.
    pub subscriber: &'static Algorithm,
}

impl Profile {
    /// Reads `CA` or `CA/SUBSCRIBER`: names of algorithms.
    pub fn named(name: &str) -> Result<Self, Error> {
        let (ca, subscriber) = name.split_once('/').unwrap_or((name, name));
        Ok(Self { ca: Algorithm::named(ca)?, subscriber: Algorithm::named(subscriber)? })
    }

    /// Returns the name in tables: `CA`, or `CA/SUBSCRIBER` if the two differ.
    pub fn name(&self) -> String {
        let (ca, subscriber) = (self.ca.name, self.subscriber.name);
        if ca == subscriber { ca.to_owned() } else { format!("{ca}/{subscriber}") }
    }
}

impl Identifier {
    /// Returns the X.509 structure.
    pub fn to_owned(self) -> AlgorithmIdentifierOwned {
        let parameters = match self.parameters {
            Parameters::Absent => None,
            Parameters::Null => Some(Any::from(Null)),
            Parameters::Oid(oid) => Some(Any::from(oid)),
        };
        AlgorithmIdentifierOwned { oid: self.oid, parameters }
    }
}

const fn message(mechanism: CK_MECHANISM_TYPE) -> Signing {
    Signing { mechanism, input: Input::Message }
}

const fn absent(oid: ObjectIdentifier) -> Identifier {
    Identifier { oid, parameters: Parameters::Absent }
}

const fn null(oid: ObjectIdentifier) -> Identifier {
    Identifier { oid, parameters: Parameters::Null }
}

// RFC 9881, 2: parameters MUST be absent, in the key and in the signature, and both have the same
// OID.
const fn ml_dsa(name: &'static str, set: CK_ULONG, length: usize, oid: ObjectIdentifier) -> Algorithm {
    Algorithm {
        name,
        key: Key::MlDsa(set),
        key_type: CKK_ML_DSA,
        generation: CKM_ML_DSA_KEY_PAIR_GEN,
        signing: const { &[message(CKM_ML_DSA)] },
        signature_length: length,
        public_key: absent(oid),
        signature: absent(oid),
    }
}

const fn rsa(name: &'static str, bits: CK_ULONG) -> Algorithm {
    Algorithm {
        name,
        key: Key::Rsa(bits),
        key_type: CKK_RSA,
        generation: CKM_RSA_PKCS_KEY_PAIR_GEN,
        signing: const { &[message(CKM_SHA256_RSA_PKCS)] },
        signature_length: bits as usize / 8,
        public_key: null(RSA_ENCRYPTION),
        signature: null(SHA256_WITH_RSA_ENCRYPTION),
    }
}

const ID_EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const SECP256R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const SECP384R1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ECDSA_WITH_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ID_SLH_DSA_SHA2_128F: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.21");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ID_ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const ID_ML_DSA_44: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.17");
const ID_ML_DSA_65: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.18");
const ID_ML_DSA_87: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.3.19");
const RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const SHA256_WITH_RSA_ENCRYPTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_one_algorithm_or_two() {
        let name =
            |text| Profile::named(text).map(|profile| profile.name()).map_err(|error| error.to_string());
        assert_eq!(name("ecdsa-p384").as_deref(), Ok("ecdsa-p384"));
        assert_eq!(name("rsa4096/ecdsa-p256").as_deref(), Ok("rsa4096/ecdsa-p256"));
        assert_eq!(name("ed25519/ed25519").as_deref(), Ok("ed25519"));
        for wrong in ["", "/", "ed25519/", "/ed25519", "ed25519/x", "ed25519/rsa2048/rsa2048"] {
            assert!(name(wrong).is_err_and(|text| text.contains("unknown algorithm")), "{wrong}");
        }
    }

    #[test]
    fn the_curve_of_a_key_tells_p256_from_p384() {
        for algorithm in &ALGORITHMS[..2] {
            let key = spki::SubjectPublicKeyInfoOwned {
                algorithm: algorithm.public_key.to_owned(),
                subject_public_key: der::asn1::BitString::from_bytes(&[4; 65]).expect("bytes"),
            };
            assert_eq!(Algorithm::of_public_key(&key).map(|found| found.name), Some(algorithm.name));
        }
    }
}
