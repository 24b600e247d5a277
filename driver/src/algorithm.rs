//! The ten algorithms of a CA, one row each. A profile names the algorithm of a CA and that of its
//! subscribers.

use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_ULONG, CKA_EC_POINT, CKA_MODULUS, CKA_PUBLIC_EXPONENT, CKA_VALUE, CKP_ML_DSA_44,
    CKP_ML_DSA_65, CKP_ML_DSA_87, CKP_SLH_DSA_SHA2_128F,
};
use der::asn1::{BitString, Null, ObjectIdentifier, OctetStringRef, UintRef};
use der::{Any, Decode, Encode};
use jeton_client::{Failure, key_types};
use jeton_pki::RsaPublicKey;
use jeton_pki::key_type::KeyType;
use spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use crate::{Error, Result};

#[derive(Debug)]
pub struct Algorithm {
    /// The name that `--ca-key-algo` takes.
    pub name: &'static str,
    pub key: Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    P256,
    P384,
    Ed25519,
    MlDsa(CK_ULONG),
    /// RSA with a modulus of this number of bits.
    Rsa(CK_ULONG),
    SlhDsa(CK_ULONG),
}

pub static ALGORITHMS: [Algorithm; 10] = [
    Algorithm { name: "ecdsa-p256", key: Key::P256 },
    Algorithm { name: "ecdsa-p384", key: Key::P384 },
    Algorithm { name: "ed25519", key: Key::Ed25519 },
    Algorithm { name: "ml-dsa-44", key: Key::MlDsa(CKP_ML_DSA_44) },
    Algorithm { name: "ml-dsa-65", key: Key::MlDsa(CKP_ML_DSA_65) },
    Algorithm { name: "ml-dsa-87", key: Key::MlDsa(CKP_ML_DSA_87) },
    Algorithm { name: "rsa2048", key: Key::Rsa(2048) },
    Algorithm { name: "rsa3072", key: Key::Rsa(3072) },
    Algorithm { name: "rsa4096", key: Key::Rsa(4096) },
    Algorithm { name: "slh-dsa-sha2-128f", key: Key::SlhDsa(CKP_SLH_DSA_SHA2_128F) },
];

impl Algorithm {
    /// Returns the algorithm with this name. The forms of `key generate --type` are accepted too,
    /// for example `ec:p256` and `rsa:2048`.
    pub fn named(name: &str) -> Result<&'static Self> {
        let own =
            name.to_ascii_lowercase().replace("ec:", "ecdsa-").replace("-p-", "-p").replace("rsa:", "rsa");
        ALGORITHMS.iter().find(|algorithm| algorithm.name == own).ok_or_else(|| {
            let known: Vec<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
            Error::Usage(format!("unknown algorithm {name:?}; known are {}", known.join(", ")))
        })
    }

    /// Returns how a module generates a key pair.
    pub fn key_type(&self) -> Result<KeyType> {
        Ok(KeyType::parse(&self.name.replace("ecdsa-", "ec:").replace("rsa", "rsa:"))?)
    }

    pub fn identifier(&self) -> Result<AlgorithmIdentifierOwned> {
        let (oid, parameters) = match self.key {
            Key::Rsa(_) => (key_types::RSA, Some(Any::from(Null))),
            Key::P256 => (key_types::EC, Some(Any::from_der(key_types::P256)?)),
            Key::P384 => (key_types::EC, Some(Any::from_der(key_types::P384)?)),
            Key::Ed25519 | Key::MlDsa(_) | Key::SlhDsa(_) => {
                (key_types::named(self.name).map_or(&[][..], |row| row.oid), None)
            }
        };
        Ok(AlgorithmIdentifierOwned { oid: ObjectIdentifier::from_der(oid)?, parameters })
    }

    /// Returns the length of a signature in its PKCS#11 form.
    pub const fn signature_length(&self) -> usize {
        match self.key {
            Key::P256 | Key::Ed25519 => 64,
            Key::P384 => 96,
            Key::MlDsa(CKP_ML_DSA_44) => 2420,
            Key::MlDsa(CKP_ML_DSA_65) => 3309,
            Key::MlDsa(_) => 4627,
            Key::Rsa(bits) => bits as usize / 8,
            Key::SlhDsa(_) => 17_088,
        }
    }

    /// Returns the SubjectPublicKeyInfo of a key. `read` takes an attribute and its greatest
    /// length.
    pub fn public_key(
        &self,
        read: impl Fn(CK_ATTRIBUTE_TYPE, usize) -> Result<Vec<u8>, Failure>,
    ) -> Result<SubjectPublicKeyInfoOwned> {
        let bits = match self.key {
            Key::P256 => point(read(CKA_EC_POINT, 112)?, 65),
            Key::P384 => point(read(CKA_EC_POINT, 112)?, 97),
            Key::Ed25519 => point(read(CKA_EC_POINT, 80)?, 32),
            Key::MlDsa(_) | Key::SlhDsa(_) => read(CKA_VALUE, 4096)?,
            Key::Rsa(_) => {
                let (modulus, exponent) = (read(CKA_MODULUS, 1024)?, read(CKA_PUBLIC_EXPONENT, 64)?);
                let (modulus, public_exponent) = (UintRef::new(&modulus)?, UintRef::new(&exponent)?);
                RsaPublicKey { modulus, public_exponent }.to_der()?
            }
        };
        let subject_public_key = BitString::from_bytes(&bits)?;
        Ok(SubjectPublicKeyInfoOwned { algorithm: self.identifier()?, subject_public_key })
    }
}

/// Returns a point of `length` bytes. `CKA_EC_POINT` is a DER OCTET STRING, but some modules return
/// the raw point.
fn point(attribute: Vec<u8>, length: usize) -> Vec<u8> {
    if attribute.len() == length {
        return attribute;
    }
    match OctetStringRef::from_der(&attribute) {
        Ok(point) => point.as_bytes().to_vec(),
        Err(_) => attribute,
    }
}

/// The algorithms of a CA's key and of its subscribers' keys.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub ca: &'static Algorithm,
    /// The algorithm of the keys in the certificates.
    pub subscriber: &'static Algorithm,
}

impl Profile {
    /// Reads `CA` or `CA/SUBSCRIBER`: names of algorithms.
    pub fn named(name: &str) -> Result<Self> {
        let (ca, subscriber) = name.split_once('/').unwrap_or((name, name));
        Ok(Self { ca: Algorithm::named(ca)?, subscriber: Algorithm::named(subscriber)? })
    }

    /// Returns the name in tables: `CA`, or `CA/SUBSCRIBER` if the two differ.
    pub fn name(&self) -> String {
        let (ca, subscriber) = (self.ca.name, self.subscriber.name);
        if ca == subscriber { ca.to_owned() } else { format!("{ca}/{subscriber}") }
    }
}

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
    fn a_point_is_accepted_raw_and_in_der() {
        let raw: Vec<u8> = std::iter::once(4).chain(1..=64).collect();
        let wrapped = OctetStringRef::new(&raw).and_then(|point| point.to_der()).expect("65 bytes encode");
        assert_eq!(point(raw.clone(), 65), raw);
        assert_eq!(point(wrapped, 65), raw);
    }
}
