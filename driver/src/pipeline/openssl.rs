//! The work of the pipeline with OpenSSL of the system called directly, as in the program of source
//! document 000 (docs/benchmarks/seeds.md). The cargo feature `openssl` adds this engine.
//!
//! Keys stay parsed. Each signature and each verification is one call of `EVP_DigestSign` or
//! `EVP_DigestVerify` with a buffer of the known length. For a call with a null buffer, OpenSSL
//! would compute a complete ML-DSA signature only to return its length.

use std::sync::{Mutex, PoisonError};

use der::asn1::OctetString;
use der::{Decode, Encode, Sequence};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private, Public};
use openssl::rand::rand_bytes;
use openssl::rsa::Rsa;
use openssl::sign::{Signer, Verifier};
use spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::engine::Engine;
use super::job::ModuleDescription;
use crate::algorithm::{Algorithm, Key};
use crate::{Error, Result};

/// OpenSSL, without PKCS#11.
#[derive(Default)]
pub struct OpenSsl {
    ca: Option<Ca>,
    /// Keys live until the batch ends, like the session objects of a module.
    subscribers: Mutex<Vec<PKey<Private>>>,
}

struct Ca {
    digest: Option<MessageDigest>,
    signature_length: usize,
    private: PKey<Private>,
    public: PKey<Public>,
}

impl OpenSsl {
    pub fn describe() -> ModuleDescription {
        ModuleDescription {
            description: "OpenSSL called directly".to_owned(),
            manufacturer: "the system's library".to_owned(),
            version: openssl::version::version().to_owned(),
            cryptoki: "-".to_owned(),
            library: None,
        }
    }

    fn ca(&self) -> Result<&Ca> {
        self.ca.as_ref().ok_or_else(|| Error::Failed("no CA key was made".to_owned()))
    }
}

impl Engine for OpenSsl {
    fn make_ca(&mut self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned> {
        let private = generate(algorithm)?;
        let key = public_key(&private)?;
        let public =
            PKey::public_key_from_der(&key.to_der()?).map_err(during("parsing the CA's public key"))?;
        let digest = match algorithm.key {
            Key::P256 | Key::Rsa(_) => Some(MessageDigest::sha256()),
            Key::P384 => Some(MessageDigest::sha384()),
            Key::Ed25519 | Key::MlDsa(_) | Key::SlhDsa(_) => None,
        };
        // A DER signature of ECDSA has at most 9 bytes more than r and s.
        let signature_length = algorithm.signature_length() + 9;
        self.ca = Some(Ca { digest, signature_length, private, public });
        Ok(key)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let ca = self.ca()?;
        let sign = || -> Result<Vec<u8>, ErrorStack> {
            let mut signer = match ca.digest {
                Some(digest) => Signer::new(digest, &ca.private),
                None => Signer::new_without_digest(&ca.private),
            }?;
            let mut signature = vec![0; ca.signature_length];
            let length = signer.sign_oneshot(&mut signature, message)?;
            signature.truncate(length);
            Ok(signature)
        };
        sign().map_err(during("signing"))
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let ca = self.ca()?;
        let verify = || -> Result<bool, ErrorStack> {
            let mut verifier = match ca.digest {
                Some(digest) => Verifier::new(digest, &ca.public),
                None => Verifier::new_without_digest(&ca.public),
            }?;
            verifier.verify_oneshot(signature, message)
        };
        verify().map_err(during("verifying"))
    }

    fn make_subscriber(&self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned> {
        let pair = generate(algorithm)?;
        let public_key = public_key(&pair)?;
        // A panic in another thread cannot leave this vector in a bad state.
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(pair);
        Ok(public_key)
    }

    fn clear(&mut self) -> Result<()> {
        *self = Self::default();
        Ok(())
    }
}

fn generate(algorithm: &Algorithm) -> Result<PKey<Private>> {
    let curve = |nid| {
        let group = EcGroup::from_curve_name(nid)?;
        PKey::from_ec_key(EcKey::generate(&group)?)
    };
    let made = match algorithm.key {
        Key::P256 => curve(Nid::X9_62_PRIME256V1),
        Key::P384 => curve(Nid::SECP384R1),
        Key::Ed25519 => PKey::generate_ed25519(),
        Key::Rsa(bits) => Rsa::generate(bits as u32).and_then(PKey::from_rsa),
        Key::MlDsa(_) => return generate_ml_dsa(algorithm),
        Key::SlhDsa(_) => {
            return Err(Error::NotAvailable("no generation of SLH-DSA keys in the crate openssl".to_owned()));
        }
    };
    made.map_err(during("generating a key pair"))
}

/// PrivateKeyInfo of RFC 5208.
#[derive(Sequence)]
struct PrivateKeyInfo {
    version: u8,
    algorithm: AlgorithmIdentifierOwned,
    private_key: OctetString,
}

/// Makes an ML-DSA key from a random seed. The crate's own function exists only if the tool is
/// built with the headers of OpenSSL 3.5. So this function encodes the seed as in RFC 9881, 6.
/// OpenSSL reads this form from version 3.5 on.
fn generate_ml_dsa(algorithm: &Algorithm) -> Result<PKey<Private>> {
    let mut private_key = [0; 34];
    private_key[..2].copy_from_slice(&[0x80, 32]);
    rand_bytes(&mut private_key[2..]).map_err(during("generating a key pair"))?;
    let info = PrivateKeyInfo {
        version: 0,
        algorithm: algorithm.identifier()?,
        private_key: OctetString::new(private_key.as_slice())?,
    };
    PKey::private_key_from_der(&info.to_der()?).map_err(|_| {
        let version = openssl::version::version();
        Error::NotAvailable(format!("no {} in {version} (from OpenSSL 3.5 on)", algorithm.name))
    })
}

fn public_key(pair: &PKey<Private>) -> Result<SubjectPublicKeyInfoOwned> {
    let der = pair.public_key_to_der().map_err(during("encoding a public key"))?;
    Ok(SubjectPublicKeyInfoOwned::from_der(&der)?)
}

fn during(doing: &'static str) -> impl Fn(ErrorStack) -> Error {
    move |error| Error::Failed(format!("OpenSSL, {doing}: {error}"))
}
