//! The CA of `cert issue`, `crl` and `ocsp`: its key in a token, its certificate, and the list of
//! the certificates that it issued.

use std::path::PathBuf;

use clap::Args;
use cryptoki_sys::CKA_VALUE;
use der::{DateTime, Decode};
use jeton_client::text::hex;
use jeton_pki::certificate::{Login, Signer};
use jeton_pki::issuer::Issuer;
use jeton_tool::client::{Access, ObjectHandle, Session};
use jeton_tool::formats::{self, Item, Password, Wanted, certificate::public_key_of};
use jeton_tool::object::public_key_info;
use jeton_tool::register::{Entry, Register};
use jeton_tool::{Cause, Error, token_file};
use serde::Serialize;
use x509_cert::Certificate;
use x509_cert::ext::pkix::CrlReason;

use super::out;
use super::target::{Chosen, Need, Objects, Opened};

/// The reasons of a revocation, by their names on the command line.
pub const REASONS: [(CrlReason, &str); 7] = [
    (CrlReason::Unspecified, "unspecified"),
    (CrlReason::KeyCompromise, "key-compromise"),
    (CrlReason::CaCompromise, "ca-compromise"),
    (CrlReason::AffiliationChanged, "affiliation-changed"),
    (CrlReason::Superseded, "superseded"),
    (CrlReason::CessationOfOperation, "cessation-of-operation"),
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
            None => Ok(token_file::directory()?.with_file_name("issued.sqlite")),
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
    /// The key identifier of the CA in hexadecimal digits, which names it in the list.
    pub name: String,
    /// The public key of the signing key.
    pub info: Vec<u8>,
    opened: Opened,
    key: ObjectHandle,
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
        let issuer = Issuer::new(&certificate)?;
        Ok(Ready { name: hex(issuer.key_id()), session, issuer, info, opened, key })
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
        if self.issuer.public_key()? == self.info {
            return Ok(());
        }
        Err(Error::Failed(format!("the key is not that of the certificate of {}", self.issuer.subject())))
    }
}

/// Finds the certificate in the token that has this public key.
pub fn certificate_of(session: &Session, info: &[u8]) -> Result<Vec<u8>, Error> {
    let all = Objects::named(None, None).find(session, &["cert"])?;
    let values = all.into_iter().map(|object| session.bytes(object, CKA_VALUE));
    let mut fitting: Vec<_> = values.filter(|der| public_key_of(der).is_ok_and(|own| own == info)).collect();
    match fitting.len() {
        1 => Ok(fitting.remove(0)),
        0 => Err(Error::Caused(
            Cause::NotFound,
            "the token has no certificate with the public key of the key; import it, or name its file"
                .to_owned(),
        )),
        _ => Err(Error::Failed(
            "the token has several certificates of the key; name the file of one".to_owned(),
        )),
    }
}

/// Reads the first certificate of a file.
pub fn read_certificate(path: &std::path::Path) -> Result<Vec<u8>, Error> {
    let file = out::input(path, formats::MAX_FILE)?;
    let refused = |source| Error::KeyFile { path: path.to_owned(), source };
    let entries = formats::read(&file, Wanted::Public, &mut Password::new(&mut || None)).map_err(refused)?;
    let certificate = entries.into_iter().find_map(|entry| match entry.item {
        Item::Certificate(der) => Some(der),
        _ => None,
    });
    certificate.ok_or_else(|| Error::Failed(format!("{} has no certificate", path.display())))
}

/// An issued certificate in `--json`.
#[derive(Serialize)]
pub struct IssuedRow {
    serial: String,
    subject: String,
    issuer: String,
    profile: String,
    not_before: String,
    not_after: String,
    /// `valid`, `expired` or `revoked`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
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
            not_before: date(entry.not_before),
            not_after: date(entry.not_after),
            revoked: entry.revoked.map(date),
            reason: entry.reason.and_then(name),
        }
    }

    /// Writes the row as a line.
    pub fn show(&self) -> Result<(), Error> {
        let Self { serial, status, not_after, profile, .. } = self;
        let subject = jeton_client::text::shown(&self.subject);
        out::line(format_args!("{serial}  {status:<7}  {not_after}  {profile:<11}  {subject}"))
    }
}

fn date(seconds: i64) -> String {
    let time = std::time::Duration::from_secs(seconds.unsigned_abs());
    DateTime::from_unix_duration(time).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Describes a new certificate for the list.
pub fn entry_of(der: &[u8], profile: &str) -> Result<Entry, Error> {
    let tbs = Certificate::from_der(der)?.tbs_certificate;
    let seconds = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs() as i64;
    Ok(Entry {
        serial: hex(tbs.serial_number.as_bytes()),
        subject: tbs.subject.to_string(),
        issuer: tbs.issuer.to_string(),
        profile: profile.to_owned(),
        not_before: seconds(&tbs.validity.not_before),
        not_after: seconds(&tbs.validity.not_after),
        revoked: None,
        reason: None,
    })
}

/// Opens the list for a CA, which is added to a new list.
pub fn register(list: &ListFile, ready: &Ready) -> Result<Register, Error> {
    let register = Register::open(&list.path()?)?;
    register.add_authority(&ready.name, &ready.issuer.subject())?;
    Ok(register)
}
