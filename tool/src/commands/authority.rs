//! The CA of `ca`, `cert issue`, `crl` and `ocsp`: its key in a token, its certificate, and the
//! list of the certificates that it issued.

use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use clap::Args;
use cryptoki_sys::CKA_VALUE;
use der::{DateTime, Decode, Reader, SliceReader};
use jeton_client::text::{from_hex, hex, shown};
use jeton_pki::certificate::{Login, Signer};
use jeton_pki::issuer::{self, Issuer};
use jeton_pki::name;
use jeton_tool::backup::list_path;
use jeton_tool::client::{Access, ObjectHandle, Session};
use jeton_tool::formats::{self, Item, Password, Wanted, certificate::public_key_of, identity};
use jeton_tool::object::public_key_info;
use jeton_tool::register::{Entry, Register};
use jeton_tool::{Cause, Error};
use serde::Serialize;
use x509_cert::Certificate;
use x509_cert::certificate::Rfc5280;
use x509_cert::ext::pkix::{CrlReason, SubjectAltName};
use x509_cert::serial_number::SerialNumber;

use super::out;
use super::target::{Chosen, Need, Objects, Opened};

/// The reasons of a revocation, by their names on the command line.
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

/// The option that names the list of issued certificates.
#[derive(Args)]
pub struct ListFile {
    /// The list of issued certificates, an SQLite file. The default is issued.sqlite beside the
    /// token directory.
    #[arg(long, value_name = "FILE")]
    issued: Option<PathBuf>,
}

impl ListFile {
    /// Returns the path of the list.
    pub fn path(&self) -> Result<PathBuf, Error> {
        match &self.issued {
            Some(path) => Ok(path.clone()),
            None => list_path(),
        }
    }
}

/// The options that choose a key and the certificate of its CA. --label and --id choose the key.
#[derive(Args)]
pub struct Authority {
    #[command(flatten)]
    pub chosen: Chosen,
    /// The certificate of the CA. The default is the certificate in the token with the public key
    /// of the key.
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,
    #[command(flatten)]
    pub list: ListFile,
}

/// A CA that is ready to sign.
pub struct Ready {
    /// The session, which is logged in.
    pub session: Session,
    /// The CA.
    pub issuer: Issuer,
    /// The name of the CA in the list: the digest of its subject and its key.
    pub name: String,
    /// The certificate of the CA.
    pub certificate: Vec<u8>,
    /// The public key of the signing key.
    pub info: Vec<u8>,
    opened: Opened,
    pub key: ObjectHandle,
}

impl Authority {
    /// Logs in, and finds the key and the certificate of the CA.
    pub fn open(&self) -> Result<Ready, Error> {
        let (opened, session) = self.chosen.session(Access::ReadOnly, Need::Login)?;
        let key = self.chosen.objects.one(&session, &["private"])?;
        let info = public_key_info(&session, key)?;
        let certificate = match &self.ca_cert {
            Some(path) => read_certificate(path)?,
            None => certificate_of(&session, &info)?,
        };
        let mut issuer = Issuer::new(&certificate)?;
        // The certificate does not say that the key is for RSASSA-PSS only.
        issuer.signer = Signer::of(&info)?;
        let name = id_of(&certificate)?;
        Ok(Ready { name, certificate, session, issuer, info, opened, key })
    }

    /// Signs with the key.
    pub fn sign(&self, ready: &Ready, signer: &Signer, tbs: &[u8]) -> Result<Vec<u8>, Error> {
        let login = Login { pin: &|| Ok(ready.opened.pin(&self.chosen.pin)?) };
        Ok(signer.sign(&ready.session, ready.key, &login, tbs)?)
    }
}

impl Ready {
    /// Fails unless the key is that of the CA.
    pub fn expect_own_key(&self) -> Result<(), Error> {
        if identity(&self.issuer.public_key()?) == identity(&self.info) {
            return Ok(());
        }
        Err(Error::Failed(format!("the key is not that of the certificate of {}", self.issuer.subject())))
    }

    /// Binds the CA to its row in the list: the certificates above restrict it. Fails if the list
    /// has another certificate of the CA.
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
        register.expect_secret(&self.info)?;
        self.path(register)?.iter().try_for_each(|(ca, serial)| register.expect_good(ca, serial))
    }

    /// Returns whether the CA signed a certificate or a CRL.
    pub fn has_signed(&self, der: &[u8]) -> Result<bool, Error> {
        let key = Certificate::from_der(&self.certificate)?.tbs_certificate.subject_public_key_info;
        match issuer::is_signed(&self.session, der, &key) {
            // A key of this type makes no signature with this algorithm.
            Err(jeton_pki::Error::Refused(_)) => Ok(false),
            signed => Ok(signed?),
        }
    }

    /// Returns the certificates of the CA and those above it: the CA that signed each one, by its
    /// name in the list, and the serial number.
    pub fn path(&self, register: &Register) -> Result<Vec<(String, String)>, Error> {
        let mut path = vec![self.certificate.clone()];
        path.extend(split(&register.authority(&self.name)?.above)?);
        let of = |(at, der): (usize, &Vec<u8>)| {
            // The last certificate is the root's, which signed itself.
            let signer = id_of(path.get(at + 1).unwrap_or(der))?;
            let serial = entry_of(der, &signer, "")?.serial;
            Ok((signer, serial))
        };
        path.iter().enumerate().map(of).collect()
    }
}

/// Returns the name of a CA in the list.
fn id_of(certificate: &[u8]) -> Result<String, Error> {
    Ok(hex(digest::digest(&digest::SHA256, &issuer::identity(certificate)?).as_ref()))
}

/// Returns a serial number in the form of the list: the digits of a positive integer in DER.
pub fn number_of(text: &str) -> Option<String> {
    let digits = text.replace(':', "");
    let even = if digits.len().is_multiple_of(2) { digits } else { format!("0{digits}") };
    Some(hex(SerialNumber::<Rfc5280>::new(&from_hex(&even)?).ok()?.as_bytes()))
}

/// Splits structures in DER that follow each other.
pub fn split(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut reader = SliceReader::new(bytes)?;
    let mut parts = Vec::new();
    while !reader.is_finished() {
        parts.push(reader.tlv_bytes()?.to_vec());
    }
    Ok(parts)
}

/// Finds the certificate in the token that has this public key.
pub fn certificate_of(session: &Session, info: &[u8]) -> Result<Vec<u8>, Error> {
    let all = Objects::named(None, None).find(session, &["cert"])?;
    let values = all.into_iter().map(|object| session.bytes(object, CKA_VALUE));
    let mut fitting: Vec<_> =
        values.filter(|der| public_key_of(der).is_ok_and(|own| identity(&own) == identity(info))).collect();
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

/// Reads the first certificate of a file.
pub fn read_certificate(path: &Path) -> Result<Vec<u8>, Error> {
    let first = read_certificates(path)?.into_iter().next();
    first.ok_or_else(|| Error::Failed(format!("{} has no certificate", path.display())))
}

/// Reads all certificates of a file.
pub fn read_certificates(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let file = out::input(path, formats::MAX_FILE)?;
    let refused = |source| Error::KeyFile { path: path.to_owned(), source };
    let entries = formats::read(&file, Wanted::Public, &mut Password::new(&mut || None)).map_err(refused)?;
    let certificates = entries.into_iter().filter_map(|entry| match entry.item {
        Item::Certificate(der) => Some(der),
        _ => None,
    });
    Ok(certificates.collect())
}

/// An issued certificate in `--json`.
#[derive(Serialize)]
pub struct IssuedRow {
    serial: String,
    subject: String,
    issuer: String,
    profile: String,
    names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    /// `valid`, `expired`, `held` or `revoked`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What the request asked for and did not get.
    #[serde(skip_serializing_if = "Option::is_none")]
    remark: Option<String>,
}

impl IssuedRow {
    /// Describes an entry of the list.
    pub fn of(entry: &Entry) -> Self {
        let name = |number| Some(REASONS.iter().find(|(reason, _)| *reason as u32 == number)?.1);
        Self {
            status: entry.status(),
            serial: entry.serial.clone(),
            subject: entry.subject.clone(),
            issuer: entry.issuer.clone(),
            profile: entry.profile.clone(),
            names: entry.names.split_whitespace().map(str::to_owned).collect(),
            remark: entry.remark.clone(),
            not_before: entry.not_before.map(date),
            not_after: entry.not_after.map(date),
            revoked: entry.revoked.map(date),
            reason: entry.reason.and_then(name),
        }
    }

    /// Writes the row as a line.
    pub fn show(&self) -> Result<(), Error> {
        let Self { serial, status, profile, .. } = self;
        let end = self.not_after.as_deref().unwrap_or("-");
        let (subject, issuer) = (shown(&self.subject), shown(&self.issuer));
        out::line(format_args!("{serial}  {status:<7}  {end:<20}  {profile:<11}  {subject} (of {issuer})"))
    }

    /// Writes what the list knows to standard error, beside the certificate.
    pub fn explain(&self) {
        let what = [self.revoked.as_deref(), self.reason, self.remark.as_deref()];
        let what: Vec<_> = what.into_iter().flatten().map(shown).collect();
        eprintln!("{} {} {} {}", self.serial, self.status, shown(&self.subject), what.join(", "));
    }
}

/// Returns a time in seconds since 1970 as a date.
pub fn date(seconds: i64) -> String {
    let time = std::time::Duration::from_secs(seconds.unsigned_abs());
    DateTime::from_unix_duration(time).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Describes a certificate for the list of this CA.
pub fn entry_of(der: &[u8], authority: &str, profile: &str) -> Result<Entry, Error> {
    let tbs = Certificate::from_der(der)?.tbs_certificate;
    let seconds = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs() as i64;
    let names = tbs.get::<SubjectAltName>()?.map(|(_, names)| names.0).unwrap_or_default();
    // A space separates two names.
    let shown = |one| name::shown(one).replace(' ', "\\u{20}");
    Ok(Entry {
        authority: authority.to_owned(),
        serial: hex(tbs.serial_number.as_bytes()),
        subject: tbs.subject.to_string(),
        issuer: tbs.issuer.to_string(),
        names: names.iter().map(shown).collect::<Vec<_>>().join(" "),
        profile: profile.to_owned(),
        not_before: Some(seconds(&tbs.validity.not_before)),
        not_after: Some(seconds(&tbs.validity.not_after)),
        ..Entry::default()
    })
}

/// Opens the list of a CA. Fails if it does not have the CA.
pub fn register(list: &ListFile, ready: &Ready) -> Result<Register, Error> {
    let register = Register::open(&list.path()?)?;
    register.authority(&ready.name)?;
    Ok(register)
}
