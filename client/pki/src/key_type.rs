//! The types of keys that the tool generates, by the names on its command line.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism, key_types};

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
    /// The attributes of the private key.
    pub private: Vec<Attribute>,
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
    /// `CKA_SIGN_RECOVER`, `CKA_VERIFY_RECOVER`. The command line has no name for it.
    Recover,
}

impl Usage {
    const ALL: [Self; 6] =
        [Self::Sign, Self::Decrypt, Self::Wrap, Self::Derive, Self::Decapsulate, Self::Recover];

    /// Reads a usage on the command line.
    fn parse(name: &str) -> Result<Self, Error> {
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

    /// Returns the attributes of a key of this class.
    fn attributes(self, class: CK_OBJECT_CLASS) -> &'static [CK_ATTRIBUTE_TYPE] {
        let both: &[_] = match self {
            Self::Sign => &[CKA_VERIFY, CKA_SIGN],
            Self::Decrypt => &[CKA_ENCRYPT, CKA_DECRYPT],
            Self::Wrap => &[CKA_WRAP, CKA_UNWRAP],
            Self::Derive => return &[CKA_DERIVE],
            Self::Decapsulate => &[CKA_ENCAPSULATE, CKA_DECAPSULATE],
            Self::Recover if class == CKO_SECRET_KEY => &[],
            Self::Recover => &[CKA_VERIFY_RECOVER, CKA_SIGN_RECOVER],
        };
        match class {
            CKO_PUBLIC_KEY => &both[..1],
            CKO_PRIVATE_KEY => &both[1..],
            _ => both,
        }
    }
}

/// The usages of a new key or pair. The defaults of the module decide about a usage in neither
/// list.
#[derive(Clone, Debug)]
pub struct Usages {
    permitted: Vec<Usage>,
    refused: Vec<Usage>,
}

impl Usages {
    /// Reads the usages on the command line, and refuses all others. Without names, permits the
    /// default usages of the key's type, and refuses none.
    pub fn parse(names: &[String], default: &[Usage]) -> Result<Self, Error> {
        if names.is_empty() {
            return Ok(Self { permitted: default.to_vec(), refused: Vec::new() });
        }
        let permitted = names.iter().map(|name| Usage::parse(name)).collect::<Result<Vec<_>, _>>()?;
        // Modules before PKCS#11 3.2 do not know it. Only ML-KEM keys have it by default.
        let may = |usage: &Usage| *usage != Usage::Decapsulate || default.contains(usage);
        let refused = Usage::ALL.into_iter().filter(|usage| may(usage) && !permitted.contains(usage));
        Ok(Self { refused: refused.collect(), permitted })
    }

    /// Returns the attributes for the template of a key of this class.
    pub fn attributes(&self, class: CK_OBJECT_CLASS) -> Vec<Attribute> {
        let flags = |usages: &[Usage], value| {
            let attributes = usages.iter().flat_map(|usage| usage.attributes(class));
            attributes.map(|attribute| Attribute::flag(*attribute, value)).collect::<Vec<_>>()
        };
        [flags(&self.permitted, true), flags(&self.refused, false)].concat()
    }
}

/// The names that `--type` takes, for help and errors.
pub const NAMES: &str = "rsa:BITS, ec:CURVE (p256, p384, p521, secp256k1), ed25519, ed448, x25519, x448, ml-dsa-44, \
ml-dsa-65, ml-dsa-87, mldsa44-ed25519, mldsa44-ecdsa-p256, mldsa65-rsa3072-pss, mldsa65-rsa3072-pkcs15, \
mldsa65-ecdsa-p256, mldsa65-ecdsa-p384, mldsa65-ed25519, mldsa87-ecdsa-p384, ml-kem-512, ml-kem-768, ml-kem-1024, slh-dsa-SET (for example slh-dsa-sha2-128s), aes:BITS, \
generic:BYTES, hss:HEIGHT/W,... and hss-192:HEIGHT/W,... (levels of LMS with SHA-256 or SHA-256/192: hss:15/4 makes \
32,768 signatures)";

/// Names that completions of shells propose.
pub const EXAMPLES: [&str; 22] = [
    "rsa:2048",
    "rsa:3072",
    "rsa:4096",
    "ec:p256",
    "ec:p384",
    "ec:p521",
    "ec:secp256k1",
    "ed25519",
    "ed448",
    "x25519",
    "x448",
    "ml-dsa-44",
    "ml-dsa-65",
    "ml-dsa-87",
    "mldsa65-ecdsa-p256",
    "mldsa65-ed25519",
    "ml-kem-512",
    "ml-kem-768",
    "ml-kem-1024",
    "aes:256",
    "generic:32",
    "hss:15/4",
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
        let pair = |mechanism, parameters, usages| {
            let (mechanism, private) = (Mechanism::new(mechanism), Vec::new());
            Some(Self { mechanism, shape: Shape::Pair, parameters, private, usages })
        };
        let of_row = |row: &key_types::KeyType| {
            let usages: &[Usage] = match row.kind {
                CKK_EC_MONTGOMERY => &[Usage::Derive],
                CKK_ML_KEM => &[Usage::Decapsulate],
                _ => &[Usage::Sign],
            };
            pair(row.generation(), vec![row.parameters()], usages)
        };
        match family {
            "rsa" => {
                let parameters = vec![
                    Attribute::number(CKA_MODULUS_BITS, number(3072)?),
                    Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
                ];
                pair(CKM_RSA_PKCS_KEY_PAIR_GEN, parameters, &[Usage::Sign, Usage::Decrypt])
            }
            "ec" => {
                let wanted =
                    detail.unwrap_or("p256").replace("secp256r1", "p256").replace("prime256v1", "p256");
                let wanted =
                    wanted.replace("secp384r1", "p384").replace("secp521r1", "p521").replace("p-", "p");
                key_types::named(&wanted).filter(|row| row.kind == CKK_EC).and_then(of_row)
            }
            "aes" => {
                let bits = number(256)?;
                Self::secret(CKM_AES_KEY_GEN, bits / 8, &[Usage::Decrypt, Usage::Wrap])
                    .filter(|_| bits % 8 == 0)
            }
            "generic" => Self::secret(CKM_GENERIC_SECRET_KEY_GEN, number(32)?, &[Usage::Sign, Usage::Derive]),
            "hss" | "hss-192" => {
                let made = pair(CKM_HSS_KEY_PAIR_GEN, Vec::new(), &[Usage::Sign])?;
                Some(Self { private: levels(detail?, family == "hss-192")?, ..made })
            }
            _ => key_types::named(name).filter(|row| row.kind != CKK_EC).and_then(of_row),
        }
    }

    fn secret(mechanism: CK_MECHANISM_TYPE, bytes: CK_ULONG, usages: &'static [Usage]) -> Option<Self> {
        let parameters = vec![Attribute::number(CKA_VALUE_LEN, bytes)];
        let (mechanism, private) = (Mechanism::new(mechanism), Vec::new());
        Some(Self { mechanism, shape: Shape::Secret, parameters, private, usages })
    }
}

/// Returns the attributes for the levels of a private key of HSS: the height of each level and the
/// bits of a digit (RFC 8554, 5.1 and 4.1), or those with SHA-256/192 (SP 800-208, 4).
fn levels(text: &str, is_short: bool) -> Option<Vec<Attribute>> {
    let (mut trees, mut ots) = (Vec::new(), Vec::new());
    for level in text.split(',') {
        let (height, bits) = level.split_once('/')?;
        let place = |list: &[&str], wanted| list.iter().position(|one| *one == wanted);
        let tree = place(&["5", "10", "15", "20", "25"], height)? as CK_ULONG;
        let digit = place(&["1", "2", "4", "8"], bits)? as CK_ULONG;
        trees.extend((tree + if is_short { 10 } else { 5 }).to_ne_bytes());
        ots.extend((digit + if is_short { 5 } else { 1 }).to_ne_bytes());
    }
    let levels = trees.len() / size_of::<CK_ULONG>();
    Some(vec![
        Attribute::number(CKA_HSS_LEVELS, levels as CK_ULONG),
        Attribute::bytes(CKA_HSS_LMS_TYPES, trees),
        Attribute::bytes(CKA_HSS_LMOTS_TYPES, ots),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_help_are_key_types_and_others_are_refused() {
        let others = ["rsa", "EC:P-384", "ec:secp521r1", "slh-dsa-shake-256f", "aes", "hss-192:5/8,25/1"];
        for name in EXAMPLES.into_iter().chain(others) {
            assert!(KeyType::parse(name).is_ok(), "{name}");
        }
        let wrong = " rsa:x ec:p257 ed25519:1 ml-dsa ml-dsa-44:x slh-dsa aes:129 dsa hss hss: hss:15 hss:15/3 hss:16/4 hss:15/4,";
        for name in wrong.split(' ') {
            assert!(KeyType::parse(name).is_err(), "{name}");
        }
    }
}
