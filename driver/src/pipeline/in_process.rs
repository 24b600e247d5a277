//! The baseline: the work of the pipeline with AWS-LC called directly, and with the crate `slh-dsa`
//! for SLH-DSA, which AWS-LC lacks. The additional time of Jeton with its AWS-LC backend is the
//! cost of PKCS#11.
//!
//! Keys stay parsed, and AWS-LC returns ECDSA signatures in their X.509 form. So the baseline
//! does not parse keys or convert signatures.

use std::sync::Mutex;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::error::{KeyRejected, Unspecified};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1,
    ECDSA_P384_SHA384_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, ML_DSA_44,
    ML_DSA_44_SIGNING, ML_DSA_65, ML_DSA_65_SIGNING, ML_DSA_87, ML_DSA_87_SIGNING, ParsedPublicKey,
    PqdsaKeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, VerificationAlgorithm,
};
use cryptoki_sys::{CKP_ML_DSA_44, CKP_ML_DSA_65};
use der::asn1::BitString;
use der::{Decode, Encode};
use slh_dsa::{Sha2_128f, Signature as SlhDsaSignature, SigningKey, VerifyingKey};
use spki::SubjectPublicKeyInfoOwned;

use super::ModuleDescription;
use super::engine::Engine;
use crate::algorithm::{Algorithm, Key};
use crate::{Error, Result};

/// AWS-LC, without PKCS#11.
#[derive(Default)]
pub struct InProcess {
    private: Option<KeyPair>,
    public: Option<PublicKey>,
    /// Keys live until the batch ends, like the session objects of a module.
    subscribers: Mutex<Vec<KeyPair>>,
}

impl InProcess {
    pub fn describe() -> ModuleDescription {
        ModuleDescription {
            description: "AWS-LC called directly".to_owned(),
            manufacturer: "through aws-lc-rs".to_owned(),
            version: aws_lc_rs::awslc_version().to_owned(),
            cryptoki: "-".to_owned(),
            library: None,
        }
    }
}

impl Engine for InProcess {
    fn make_ca(&mut self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned> {
        let private = KeyPair::generate(algorithm)?;
        let key = private.public_key()?;
        self.public = Some(PublicKey::parse(algorithm, &key)?);
        self.private = Some(private);
        Ok(key)
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        self.private.as_ref().ok_or_else(no_ca)?.sign(message)
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let key = self.public.as_ref().ok_or_else(no_ca)?;
        Ok(key.verify(message, signature))
    }

    fn make_subscriber(&self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned> {
        let pair = KeyPair::generate(algorithm)?;
        let public_key = pair.public_key()?;
        // A panic in another thread cannot leave this vector in a bad state.
        self.subscribers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(pair);
        Ok(public_key)
    }

    fn clear(&mut self) -> Result<()> {
        *self = Self::default();
        Ok(())
    }
}

/// A key pair of AWS-LC, or of `slh-dsa`.
pub(crate) enum KeyPair {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    MlDsa(PqdsaKeyPair),
    Rsa(RsaKeyPair),
    SlhDsa(Box<SigningKey<Sha2_128f>>),
}

impl KeyPair {
    pub(crate) fn generate(algorithm: &Algorithm) -> Result<Self> {
        let made = match algorithm.key {
            Key::P256 => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map(Self::Ecdsa),
            Key::P384 => EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING).map(Self::Ecdsa),
            Key::Ed25519 => Ed25519KeyPair::generate().map(Self::Ed25519),
            Key::MlDsa(CKP_ML_DSA_44) => PqdsaKeyPair::generate(&ML_DSA_44_SIGNING).map(Self::MlDsa),
            Key::MlDsa(CKP_ML_DSA_65) => PqdsaKeyPair::generate(&ML_DSA_65_SIGNING).map(Self::MlDsa),
            Key::MlDsa(_) => PqdsaKeyPair::generate(&ML_DSA_87_SIGNING).map(Self::MlDsa),
            Key::Rsa(2048) => RsaKeyPair::generate(KeySize::Rsa2048).map(Self::Rsa),
            Key::Rsa(3072) => RsaKeyPair::generate(KeySize::Rsa3072).map(Self::Rsa),
            Key::Rsa(_) => RsaKeyPair::generate(KeySize::Rsa4096).map(Self::Rsa),
            Key::SlhDsa(_) => generate_slh_dsa().map(|key| Self::SlhDsa(Box::new(key))),
        };
        made.map_err(|Unspecified| Error::InProcess("generating a key pair"))
    }

    pub(crate) fn public_key(&self) -> Result<SubjectPublicKeyInfoOwned> {
        let der: Result<PublicKeyX509Der<'_>, Unspecified> = match self {
            Self::Ecdsa(pair) => pair.public_key().as_der(),
            Self::Ed25519(pair) => pair.public_key().as_der(),
            Self::MlDsa(pair) => pair.public_key().as_der(),
            Self::Rsa(pair) => pair.public_key().as_der(),
            Self::SlhDsa(key) => {
                let public: &VerifyingKey<Sha2_128f> = key.as_ref().as_ref();
                return Ok(SubjectPublicKeyInfoOwned {
                    algorithm: Algorithm::named("slh-dsa-sha2-128f")?.identifier()?,
                    subject_public_key: BitString::from_bytes(&public.to_bytes())?,
                });
            }
        };
        let der = der.map_err(|Unspecified| Error::InProcess("encoding a public key"))?;
        Ok(SubjectPublicKeyInfoOwned::from_der(der.as_ref())?)
    }

    /// Signs. Returns the signature in its X.509 form.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let rng = SystemRandom::new();
        let signed = match self {
            Self::Ecdsa(pair) => pair.sign(&rng, message).map(|signature| signature.as_ref().to_vec()),
            Self::Ed25519(pair) => pair.try_sign(message).map(|signature| signature.as_ref().to_vec()),
            Self::MlDsa(pair) => {
                let mut signature = vec![0; pair.algorithm().signature_len()];
                pair.sign(message, &mut signature).map(|_| signature)
            }
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &rng, message, &mut signature).map(|()| signature)
            }
            Self::SlhDsa(key) => sign_slh_dsa(key, message),
        };
        signed.map_err(|Unspecified| Error::InProcess("signing"))
    }
}

/// FIPS 205, table 2: n of SLH-DSA-SHA2-128f, in bytes.
const N: usize = 16;

fn generate_slh_dsa() -> Result<SigningKey<Sha2_128f>, Unspecified> {
    let mut seed = [0; 3 * N];
    aws_lc_rs::rand::fill(&mut seed)?;
    Ok(SigningKey::slh_keygen_internal(&seed[..N], &seed[N..2 * N], &seed[2 * N..]))
}

/// Signs with fresh random bytes: the hedged variant, as Jeton does.
fn sign_slh_dsa(key: &SigningKey<Sha2_128f>, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let mut random = [0; N];
    aws_lc_rs::rand::fill(&mut random)?;
    let signature = key.try_sign_with_context(message, &[], Some(&random)).map_err(|_| Unspecified)?;
    Ok(signature.to_bytes().to_vec())
}

enum PublicKey {
    AwsLc(ParsedPublicKey),
    SlhDsa(Box<VerifyingKey<Sha2_128f>>),
}

impl PublicKey {
    fn parse(algorithm: &Algorithm, key: &SubjectPublicKeyInfoOwned) -> Result<Self> {
        let rejected = || Error::InProcess("parsing a public key");
        let Some(verification) = verification(algorithm) else {
            let bytes = key.subject_public_key.raw_bytes();
            let parsed = VerifyingKey::try_from(bytes).map_err(|_| rejected())?;
            return Ok(Self::SlhDsa(Box::new(parsed)));
        };
        let parsed = ParsedPublicKey::new(verification, key.to_der()?);
        parsed.map(Self::AwsLc).map_err(|KeyRejected { .. }| rejected())
    }

    /// Returns whether a signature in its X.509 form is right.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::AwsLc(key) => key.verify_sig(message, signature).is_ok(),
            Self::SlhDsa(key) => SlhDsaSignature::try_from(signature)
                .is_ok_and(|signature| key.try_verify_with_context(message, &[], &signature).is_ok()),
        }
    }
}

/// Returns how AWS-LC verifies, or `None` for SLH-DSA.
fn verification(algorithm: &Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm.key {
        Key::P256 => &ECDSA_P256_SHA256_ASN1,
        Key::P384 => &ECDSA_P384_SHA384_ASN1,
        Key::Ed25519 => &ED25519,
        Key::MlDsa(CKP_ML_DSA_44) => &ML_DSA_44,
        Key::MlDsa(CKP_ML_DSA_65) => &ML_DSA_65,
        Key::MlDsa(_) => &ML_DSA_87,
        Key::Rsa(_) => &RSA_PKCS1_2048_8192_SHA256,
        Key::SlhDsa(_) => return None,
    })
}

fn no_ca() -> Error {
    Error::InProcess("looking for a CA key that was not made")
}
