//! The types of keys that the tool generates, by the names on its command line.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism};

use crate::Error;

/// A key that can be generated.
#[derive(Clone, Debug)]
pub struct KeyType {
    /// The mechanism of `C_GenerateKey` or `C_GenerateKeyPair`.
    pub mechanism: Mechanism,
    /// Whether the key is a secret key or a pair.
    pub shape: Shape,
    /// The attributes of the public key, or of the secret key.
    pub parameters: Vec<Attribute>,
    /// The usages that the keys have by default.
    pub usages: &'static [Usage],
}

/// One key or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A secret key.
    Secret,
    /// A public and a private key.
    Pair,
}

/// An operation that a key permits. In a pair, each key has an attribute for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// `CKA_SIGN`, `CKA_VERIFY`
    Sign,
    /// `CKA_DECRYPT`, `CKA_ENCRYPT`
    Decrypt,
    /// `CKA_UNWRAP`, `CKA_WRAP`
    Wrap,
    /// `CKA_DERIVE`
    Derive,
    /// `CKA_DECAPSULATE`, `CKA_ENCAPSULATE`
    Decapsulate,
}

impl Usage {
    /// Reads a usage on the command line.
    pub fn parse(name: &str) -> Result<Self, Error> {
        Ok(match name {
            "sign" => Self::Sign,
            "decrypt" => Self::Decrypt,
            "wrap" => Self::Wrap,
            "derive" => Self::Derive,
            "decapsulate" => Self::Decapsulate,
            _ => {
                return Err(Error::Usage(format!(
                    "unknown usage {name:?}; known are sign, decrypt, wrap, derive, decapsulate"
                )));
            }
        })
    }

    /// Returns the attributes of the public and of the private key. A secret key has both.
    pub const fn attributes(self) -> (CK_ATTRIBUTE_TYPE, CK_ATTRIBUTE_TYPE) {
        match self {
            Self::Sign => (CKA_VERIFY, CKA_SIGN),
            Self::Decrypt => (CKA_ENCRYPT, CKA_DECRYPT),
            Self::Wrap => (CKA_WRAP, CKA_UNWRAP),
            Self::Derive => (CKA_DERIVE, CKA_DERIVE),
            Self::Decapsulate => (CKA_ENCAPSULATE, CKA_DECAPSULATE),
        }
    }
}

/// The names that `--type` takes, for help and errors.
pub const NAMES: &str = "rsa:BITS, ec:CURVE (p256, p384, p521, secp256k1), ed25519, ed448, x25519, x448, ml-dsa-44, \
ml-dsa-65, ml-dsa-87, ml-kem-512, ml-kem-768, ml-kem-1024, slh-dsa-SET (for example slh-dsa-sha2-128s), aes:BITS, \
generic:BYTES";

/// The curves: the name on the command line, the name in listings, and the value of
/// `CKA_EC_PARAMS`.
pub const CURVES: [(&str, &str, &[u8]); 8] = [
    ("p256", "P-256", b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"),
    ("p384", "P-384", b"\x06\x05\x2b\x81\x04\x00\x22"),
    ("p521", "P-521", b"\x06\x05\x2b\x81\x04\x00\x23"),
    ("secp256k1", "secp256k1", b"\x06\x05\x2b\x81\x04\x00\x0a"),
    ("ed25519", "Ed25519", b"\x06\x03\x2b\x65\x70"),
    ("ed448", "Ed448", b"\x06\x03\x2b\x65\x71"),
    ("x25519", "X25519", b"\x06\x03\x2b\x65\x6e"),
    ("x448", "X448", b"\x06\x03\x2b\x65\x6f"),
];

/// The parameter sets of SLH-DSA in the order of `CKP_SLH_DSA_…`, from 1.
pub const SLH_DSA: [&str; 12] = [
    "sha2-128s",
    "shake-128s",
    "sha2-128f",
    "shake-128f",
    "sha2-192s",
    "shake-192s",
    "sha2-192f",
    "shake-192f",
    "sha2-256s",
    "shake-256s",
    "sha2-256f",
    "shake-256f",
];

impl KeyType {
    /// Reads the value of `--type`.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let lower = name.to_ascii_lowercase();
        Self::named(&lower)
            .ok_or_else(|| Error::Usage(format!("unknown key type {name:?}; known are {NAMES}")))
    }

    fn named(name: &str) -> Option<Self> {
        let (family, detail) =
            name.split_once(':').map_or((name, None), |(family, detail)| (family, Some(detail)));
        let number = |default: CK_ULONG| detail.map_or(Some(default), |detail| detail.parse().ok());
        let curve = |wanted: &str| {
            let row = CURVES.iter().find(|(name, _, _)| *name == wanted);
            row.map(|(_, _, der)| vec![Attribute::bytes(CKA_EC_PARAMS, *der)])
        };
        let set =
            |number: Option<CK_ULONG>| number.map(|set| vec![Attribute::number(CKA_PARAMETER_SET, set)]);
        let pair = |mechanism, parameters: Option<Vec<Attribute>>, usages| {
            let mechanism = Mechanism::new(mechanism);
            Some(Self { mechanism, shape: Shape::Pair, parameters: parameters?, usages })
        };
        match family {
            "rsa" => {
                let parameters = vec![
                    Attribute::number(CKA_MODULUS_BITS, number(3072)?),
                    Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
                ];
                pair(CKM_RSA_PKCS_KEY_PAIR_GEN, Some(parameters), &[Usage::Sign, Usage::Decrypt])
            }
            "ec" => {
                let wanted =
                    detail.unwrap_or("p256").replace("secp256r1", "p256").replace("prime256v1", "p256");
                let wanted =
                    wanted.replace("secp384r1", "p384").replace("secp521r1", "p521").replace("p-", "p");
                pair(CKM_EC_KEY_PAIR_GEN, curve(&wanted), &[Usage::Sign])
            }
            "ed25519" | "ed448" if detail.is_none() => {
                pair(CKM_EC_EDWARDS_KEY_PAIR_GEN, curve(family), &[Usage::Sign])
            }
            "x25519" | "x448" if detail.is_none() => {
                pair(CKM_EC_MONTGOMERY_KEY_PAIR_GEN, curve(family), &[Usage::Derive])
            }
            "ml-dsa-44" => pair(CKM_ML_DSA_KEY_PAIR_GEN, set(Some(CKP_ML_DSA_44)), &[Usage::Sign]),
            "ml-dsa-65" => pair(CKM_ML_DSA_KEY_PAIR_GEN, set(Some(CKP_ML_DSA_65)), &[Usage::Sign]),
            "ml-dsa-87" => pair(CKM_ML_DSA_KEY_PAIR_GEN, set(Some(CKP_ML_DSA_87)), &[Usage::Sign]),
            "ml-kem-512" => pair(CKM_ML_KEM_KEY_PAIR_GEN, set(Some(CKP_ML_KEM_512)), &[Usage::Decapsulate]),
            "ml-kem-768" => pair(CKM_ML_KEM_KEY_PAIR_GEN, set(Some(CKP_ML_KEM_768)), &[Usage::Decapsulate]),
            "ml-kem-1024" => pair(CKM_ML_KEM_KEY_PAIR_GEN, set(Some(CKP_ML_KEM_1024)), &[Usage::Decapsulate]),
            "aes" => {
                let bits = number(256)?;
                Self::secret(CKM_AES_KEY_GEN, bits / 8, &[Usage::Decrypt, Usage::Wrap])
                    .filter(|_| bits % 8 == 0)
            }
            "generic" => Self::secret(CKM_GENERIC_SECRET_KEY_GEN, number(32)?, &[Usage::Sign, Usage::Derive]),
            _ => {
                let wanted = family.strip_prefix("slh-dsa-")?;
                let row = SLH_DSA.iter().position(|name| *name == wanted)?;
                pair(CKM_SLH_DSA_KEY_PAIR_GEN, set(CK_ULONG::try_from(row + 1).ok()), &[Usage::Sign])
            }
        }
    }

    fn secret(mechanism: CK_MECHANISM_TYPE, bytes: CK_ULONG, usages: &'static [Usage]) -> Option<Self> {
        let parameters = vec![Attribute::number(CKA_VALUE_LEN, bytes)];
        Some(Self { mechanism: Mechanism::new(mechanism), shape: Shape::Secret, parameters, usages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_help_are_key_types_and_others_are_refused() {
        for name in [
            "rsa",
            "rsa:2048",
            "ec:p256",
            "EC:P-384",
            "ec:secp521r1",
            "ec:secp256k1",
            "ed25519",
            "x448",
            "ml-dsa-65",
            "ml-kem-1024",
            "slh-dsa-shake-256f",
            "aes:128",
            "aes",
            "generic:64",
        ] {
            assert!(KeyType::parse(name).is_ok(), "{name}");
        }
        for name in ["", "rsa:x", "ec:p257", "ed25519:1", "ml-dsa", "slh-dsa", "aes:129", "dsa"] {
            assert!(KeyType::parse(name).is_err(), "{name}");
        }
    }
}
