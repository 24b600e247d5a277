//! A server's key: in memory, or in a token. Each generated key has a self-signed certificate for
//! `localhost`.

use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    ML_DSA_65_SIGNING, PqdsaKeyPair,
};
use cryptoki_sys::CKA_EC_PARAMS;
use der::Encode;
use jeton_ca::certificate::{Holder, Role, self_signed_tbs};
use jeton_pki::key_type::KeyType;
use jeton_pki::signer::{Signer, assemble};
use jeton_rustls::Token;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SigningKey};

use super::KeyKind;
use super::case::name_of;
use crate::algorithm::Algorithm;
use crate::client::{Access, Attribute, Failure, Module, ObjectHandle, Session, SlotId, User, names};
use crate::pipeline::{ED25519_NAME, private_template, public_template};
use crate::{Error, Result};

pub(super) const NAME: &str = "localhost";
const LABEL: &[u8] = b"jeton-tls";
const DAYS: u32 = 7;

pub(super) fn in_memory(kind: KeyKind) -> Result<CertifiedKey> {
    let pkcs8 = pkcs8(kind).map_err(|Unspecified| Error::InProcess("generating a key pair"))?;
    let der = PrivatePkcs8KeyDer::from(pkcs8).into();
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&der).map_err(failed)?;
    let info = key.public_key().ok_or(Error::InProcess("encoding a public key"))?.to_vec();
    certified(kind, key, &info)
}

fn pkcs8(kind: KeyKind) -> Result<Vec<u8>, Unspecified> {
    let document = match kind {
        KeyKind::Rsa2048 => {
            let der: Pkcs8V1Der<'_> = rsa::KeyPair::generate(KeyKind::RSA_SIZE)?.as_der()?;
            return Ok(der.as_ref().to_vec());
        }
        KeyKind::P256 => EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?.to_pkcs8v1()?,
        KeyKind::P384 => EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING)?.to_pkcs8v1()?,
        KeyKind::Ed25519 => Ed25519KeyPair::generate()?.to_pkcs8v1()?,
        KeyKind::MlDsa65 => PqdsaKeyPair::generate(&ML_DSA_65_SIGNING)?.to_pkcs8v1()?,
    };
    Ok(document.as_ref().to_vec())
}

/// A token in which the tool generates keys. Dropping this value destroys these keys.
pub(super) struct TokenKeys {
    token: Token,
    session: Session,
    mechanisms: Vec<cryptoki_sys::CK_MECHANISM_TYPE>,
    made: Vec<ObjectHandle>,
}

impl TokenKeys {
    pub(super) fn open(module: &Module, slot: SlotId, pin: &str) -> Result<Self> {
        let session = module.open_session(slot, Access::ReadWrite)?;
        session.login(User::User, Some(pin))?;
        let token = Token::open(module, slot, None).map_err(token_error)?;
        Ok(Self { token, session, mechanisms: module.mechanisms(slot)?, made: Vec::new() })
    }

    pub(super) fn generate(&mut self, kind: KeyKind) -> Result<CertifiedKey> {
        let mut key_type = KeyType::parse(kind.key_type())?;
        let mechanism = key_type.mechanism.kind;
        if !self.mechanisms.contains(&mechanism) {
            return Err(Error::NotAvailable(format!("no {}", names::mechanism(mechanism))));
        }
        let (public, private) = match self.pair(&key_type) {
            // SoftHSMv2 before 2.7 accepts only the name of the curve, not its OID.
            Err(_) if kind == KeyKind::Ed25519 => {
                key_type.parameters = vec![Attribute::bytes(CKA_EC_PARAMS, ED25519_NAME)];
                self.pair(&key_type)?
            }
            pair => pair?,
        };
        self.made.extend([public, private]);
        let key = self.token.signing_key_of(private).map_err(token_error)?;
        let read = |kind, most| self.session.attribute_within(public, kind, most);
        let info = Algorithm::named(kind.key_type())?.public_key(read)?.to_der()?;
        certified(kind, key, &info)
    }

    fn pair(&self, key_type: &KeyType) -> Result<(ObjectHandle, ObjectHandle), Failure> {
        // jeton-rustls finds the public key of a private key by its ID.
        let mut id = [0; 8];
        self.session.random(&mut id)?;
        let public = public_template(true, (LABEL, &id), &key_type.parameters);
        let private = private_template(true, (LABEL, &id));
        self.session.generate_key_pair(&key_type.mechanism, &public, &private)
    }
}

impl Drop for TokenKeys {
    fn drop(&mut self) {
        for object in self.made.drain(..) {
            // Errors are ignored: the token of a measurement is usually a temporary one.
            let _ = self.session.destroy_object(object);
        }
    }
}

fn certified(kind: KeyKind, key: Arc<dyn SigningKey>, info: &[u8]) -> Result<CertifiedKey> {
    // A client finds a certificate by its subject, so the certificate of each key has a different
    // subject.
    let subject = format!("CN={NAME},O={}", name_of(kind));
    let holder = Holder::parse(&subject, &[format!("dns:{NAME}"), "ip:127.0.0.1".to_owned()])?;
    let form = Signer::of(info)?;
    let mut serial = [0; 16];
    let random = SystemRandom::new().fill(&mut serial);
    random.map_err(|Unspecified| Error::InProcess("drawing a serial number"))?;
    let tbs = self_signed_tbs(info, &holder, &form, Role::Leaf, DAYS, serial)?;
    let scheme = kind.certificate_scheme();
    let Some(signer) = key.choose_scheme(&[scheme]) else {
        return Err(Error::NotAvailable(format!("no mechanism for {scheme:?}")));
    };
    let certificate = assemble(&tbs, &form, &signer.sign(&tbs).map_err(failed)?)?;
    Ok(CertifiedKey::new(vec![certificate.into()], key))
}

/// Converts an error of rustls. If it contains an error of the module, only the text of that error
/// remains.
pub(super) fn failed(error: rustls::Error) -> Error {
    match error {
        rustls::Error::Other(other) => Error::Failed(other.0.to_string()),
        error => Error::Failed(format!("TLS: {error}")),
    }
}

pub(super) fn token_error(error: jeton_rustls::Error) -> Error {
    match error {
        jeton_rustls::Error::Module(failure) => Error::Module(failure),
        other => Error::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_key_in_memory_belongs_to_its_certificate() {
        for kind in KeyKind::value_variants() {
            let certified = in_memory(*kind).expect("the provider has this key");
            assert_eq!(certified.keys_match(), Ok(()), "{kind:?}");
        }
    }
}
