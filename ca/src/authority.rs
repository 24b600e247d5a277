//! A CA that is ready to sign: its key in a token, its certificate, and the certificates above.

use std::path::Path;

use aws_lc_rs::digest;
use cryptoki_sys::{CKA_CLASS, CKA_VALUE, CKO_CERTIFICATE};
use der::Decode;
use jeton_client::safe_text::{from_hex, hex, shown};
use jeton_client::{Attribute, ObjectHandle, Session};
use jeton_formats::certificate::{Summary, names, public_key_of, split, summary};
use jeton_formats::{identity, secret_identities};
use jeton_pki::Signed;
use jeton_pki::signer::{Login, Signer, is_signed};
use spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::Certificate;
use x509_cert::certificate::Rfc5280;
use x509_cert::ext::pkix::{CrlReason, SubjectAltName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::{Time, Validity};
use zeroize::Zeroizing;

use crate::issuer::{self, Issuer};
use crate::name;
use crate::register::{Entry, Register};
use crate::{Cause, Error, Rules};

/// The reasons of a revocation, by their names on a command line.
pub const REASONS: [(CrlReason, &str); 8] = [
    (CrlReason::Unspecified, "unspecified"),
    (CrlReason::KeyCompromise, "key-compromise"),
    (CrlReason::CaCompromise, "ca-compromise"),
    (CrlReason::AffiliationChanged, "affiliation-changed"),
    (CrlReason::Superseded, "superseded"),
    (CrlReason::CessationOfOperation, "cessation-of-operation"),
    (CrlReason::CertificateHold, "hold"),
    (CrlReason::PrivilegeWithdrawn, "privilege-withdrawn"),
];

/// A key of a token that signs for a CA.
pub struct Key<'a> {
    /// The session, which is logged in.
    pub session: Session,
    /// The private key.
    pub handle: ObjectHandle,
    /// The public key as SubjectPublicKeyInfo.
    pub info: Vec<u8>,
    /// Returns the user's PIN, for a key that wants it at each use.
    pub pin: Box<dyn Fn() -> Result<Zeroizing<String>, jeton_pki::Error> + Send + 'a>,
}

/// Whose signature a certificate or a CRL has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// The CA made it.
    Own,
    /// The CA did not make it.
    Foreign,
    /// It is not known, for this reason: the algorithm is not accepted, such as one with SHA-1.
    Unsupported(String),
}

/// A CA that is ready to sign.
pub struct Ready<'a> {
    /// The key that signs.
    pub key: Key<'a>,
    /// The CA.
    pub issuer: Issuer,
    /// The name of the CA in the list: the digest of its subject and its key.
    pub name: String,
    /// The certificate of the CA.
    pub certificate: Vec<u8>,
    pub(crate) rules: Rules,
}

impl<'a> Ready<'a> {
    /// Reads the certificate of a CA. The key may be that of another signer of OCSP responses.
    pub fn new(key: Key<'a>, certificate: Vec<u8>, rules: Rules) -> Result<Self, Error> {
        let mut issuer = Issuer::new(&certificate)?;
        // The certificate does not say that the key is for RSASSA-PSS only.
        issuer.signer = Signer::of(&key.info)?;
        Ok(Self { name: id_of(&certificate)?, key, issuer, certificate, rules })
    }

    /// Signs with the key.
    pub fn sign(&self, signer: &Signer, tbs: &[u8]) -> Result<Vec<u8>, Error> {
        let login = Login { pin: &self.key.pin };
        Ok(signer.sign(&self.key.session, self.key.handle, &login, tbs)?)
    }

    /// Opens the list of the CA. Fails if it does not have the CA.
    pub fn register(&self, path: &Path) -> Result<Register, Error> {
        let register = Register::open(path, self.rules)?;
        register.authority(&self.name)?;
        Ok(register)
    }

    /// Fails unless the key is that of the CA.
    pub fn expect_own_key(&self) -> Result<(), Error> {
        if identity(&self.issuer.public_key()?) == identity(&self.key.info) {
            return Ok(());
        }
        Err(Error::Failed(format!("the key is not that of the certificate of {}", self.issuer.subject())))
    }

    /// Binds the CA to its row in the list: the certificates above restrict it. Fails if the list
    /// has another certificate of the CA. The caller also calls [`Self::expect_last_crl`].
    pub fn bind(mut self, register: &Register) -> Result<Self, Error> {
        self.expect_own_key()?;
        let ca = register.authority(&self.name)?;
        if self.certificate != ca.certificate {
            let text = "the list has another certificate of this CA; `jeton ca init` takes the new one";
            return Err(Error::Caused(Cause::Refused, text.to_owned()));
        }
        self.issuer = self.issuer.below(&split(&ca.above)?)?;
        Ok(self)
    }

    /// Fails if the list may lack revocations, or revokes the CA or one above it, or says that the
    /// key of the CA was compromised.
    pub fn expect_may_issue(&self, register: &Register) -> Result<(), Error> {
        register.expect_sure(&self.name)?;
        register.expect_secret(&self.key.info)?;
        self.expect_good(register)
    }

    /// Fails if the list revokes the CA or one above it.
    pub fn expect_good(&self, register: &Register) -> Result<(), Error> {
        self.path(register)?.iter().try_for_each(|(ca, serial)| register.expect_good(ca, serial))
    }

    /// Fails if a public key is that of the CA or of one above it: the holder could sign as the CA.
    pub fn expect_foreign(&self, info: &[u8]) -> Result<(), Error> {
        let secrets = secret_identities(info);
        let is_of_ca = |key: &Vec<u8>| self.rules.have_common_secret(&secret_identities(key), &secrets);
        if self.issuer.public_keys()?.iter().any(is_of_ca) {
            let text = "the public key is that of the CA or of a CA above it, or shares its secret";
            return Err(Cause::Refused.error(text));
        }
        Ok(())
    }

    /// Says whose signature a certificate or a CRL has.
    pub fn signature(&self, der: &[u8]) -> Result<Signature, Error> {
        let key = parse(&self.certificate)?.tbs_certificate.subject_public_key_info;
        Ok(match is_signed(&self.key.session, der, &key) {
            Err(jeton_pki::Error::Refused(reason)) if is_weak(der, &key)? => {
                Signature::Unsupported(format!("{reason}, which is not accepted"))
            }
            // A key of this type makes no signature with this algorithm.
            Err(jeton_pki::Error::Refused(_)) => Signature::Foreign,
            // The parameters of its algorithm cannot be read. The CA makes none of this kind.
            Err(jeton_pki::Error::Der(_)) => Signature::Foreign,
            Ok(false) => Signature::Foreign,
            Ok(true) => Signature::Own,
            Err(error) => return Err(error.into()),
        })
    }

    /// Returns the certificates of the CA and those above it: the CA that signed each one, by its
    /// name in the list, and the serial number.
    pub fn path(&self, register: &Register) -> Result<Vec<(String, String)>, Error> {
        let mut path = vec![self.certificate.clone()];
        let above = register.authority(&self.name)?.above;
        path.extend(split(&above)?.into_iter().map(<[u8]>::to_vec));
        let of = |(at, der): (usize, &Vec<u8>)| {
            // The last certificate is the root's, which signed itself.
            let signer = id_of(path.get(at + 1).unwrap_or(der))?;
            let serial = entry_of(der, &signer, "")?.serial;
            Ok((signer, serial))
        };
        path.iter().enumerate().map(of).collect()
    }
}

/// Returns whether a key of this type makes signatures with the algorithm of a certificate or a
/// CRL, and only the hash is not accepted.
fn is_weak(der: &[u8], key: &SubjectPublicKeyInfoOwned) -> Result<bool, Error> {
    // RFC 8017, A.2; RFC 3279, 2.2; RFC 5758, 3.2; NIST for SHA-3.
    const RSA: [&str; 12] = [
        "1.2.840.113549.1.1.2",
        "1.2.840.113549.1.1.4",
        "1.2.840.113549.1.1.5",
        "1.2.840.113549.1.1.10",
        "1.2.840.113549.1.1.14",
        "1.2.840.113549.1.1.15",
        "1.2.840.113549.1.1.16",
        "1.3.14.3.2.29",
        "2.16.840.1.101.3.4.3.13",
        "2.16.840.1.101.3.4.3.14",
        "2.16.840.1.101.3.4.3.15",
        "2.16.840.1.101.3.4.3.16",
    ];
    const EC: [&str; 6] = [
        "1.2.840.10045.4.1",
        "1.2.840.10045.4.3.1",
        "2.16.840.1.101.3.4.3.9",
        "2.16.840.1.101.3.4.3.10",
        "2.16.840.1.101.3.4.3.11",
        "2.16.840.1.101.3.4.3.12",
    ];
    let algorithm = AlgorithmIdentifierOwned::from_der(Signed::parse(der)?.algorithm)?.oid.to_string();
    Ok(match key.algorithm.oid.to_string().as_str() {
        "1.2.840.113549.1.1.1" | "1.2.840.113549.1.1.10" => RSA.contains(&algorithm.as_str()),
        "1.2.840.10045.2.1" => EC.contains(&algorithm.as_str()),
        _ => false,
    })
}

/// Reads a certificate that should be well-formed. The crate holds an object identifier of at most
/// 39 bytes with numbers below 2^32, and a serial number of at most 21 bytes.
pub fn parse(der: &[u8]) -> Result<Certificate, Error> {
    Certificate::from_der(der).map_err(|error| {
        let title = names(der).map(|names| shown(&names.title)).unwrap_or_default();
        Cause::Damaged.error(format!(
            "the certificate of {title} is damaged, or has an object identifier or a serial number of a length that is \
            not supported: DER: {error}"
        ))
    })
}

/// Returns the name of a CA in the list.
fn id_of(certificate: &[u8]) -> Result<String, Error> {
    Ok(hex(digest::digest(&digest::SHA256, &issuer::identity(certificate)?).as_ref()))
}

/// Returns a serial number in the form of the list: the digits of a positive integer in DER.
pub(crate) fn number_of(text: &str) -> Option<String> {
    let digits = text.replace(':', "");
    let even = if digits.len().is_multiple_of(2) { digits } else { format!("0{digits}") };
    Some(hex(SerialNumber::<Rfc5280>::new(&from_hex(&even)?).ok()?.as_bytes()))
}

/// Returns the certificates in a token.
pub(crate) fn certificates_in(session: &Session) -> Result<Vec<Vec<u8>>, Error> {
    let all = session.find(&[Attribute::number(CKA_CLASS, CKO_CERTIFICATE)])?;
    Ok(all.into_iter().map(|object| session.bytes(object, CKA_VALUE)).collect())
}

/// Finds the certificate in the token that has this public key.
pub fn certificate_of(session: &Session, info: &[u8]) -> Result<Vec<u8>, Error> {
    let mut fitting = certificates_in(session)?;
    fitting.retain(|der| public_key_of(der).is_ok_and(|own| identity(&own) == identity(info)));
    // An import may have made a second object of one certificate.
    fitting.sort();
    fitting.dedup();
    match fitting.len() {
        1 => Ok(fitting.remove(0)),
        0 => Err(Cause::NotFound.error(
            "the token has no certificate with the public key of the key; import it, or name its file",
        )),
        _ => Err(Error::Failed(
            "the token has several certificates of the key; name the file of one".to_owned(),
        )),
    }
}

/// Describes a certificate for the list of this CA. One that [`parse`] cannot read has no other
/// names: the list needs its number and its key.
pub fn entry_of(der: &[u8], authority: &str, profile: &str) -> Result<Entry, Error> {
    let (fields, Summary { subject, issuer, serial, .. }) = (names(der)?, summary(der)?);
    let validity = Validity::from_der(&fields.validity).map_err(Error::damaged)?;
    let seconds = |time: Time| time.to_unix_duration().as_secs() as i64;
    let parsed = Certificate::from_der(der).ok();
    let names = parsed.and_then(|one| one.tbs_certificate.get::<SubjectAltName>().ok().flatten());
    let names = names.map(|(_, names)| names.0).unwrap_or_default();
    // A space separates two names.
    let escaped = |one| name::shown(one).replace(' ', "\\u{20}");
    Ok(Entry {
        authority: authority.to_owned(),
        serial: hex(&serial),
        subject,
        issuer,
        names: names.iter().map(escaped).collect::<Vec<_>>().join(" "),
        profile: profile.to_owned(),
        not_before: Some(seconds(validity.not_before)),
        not_after: Some(seconds(validity.not_after)),
        ..Entry::default()
    })
}
