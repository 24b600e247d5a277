//! `cert info`: what the certificates of a file say.

use std::path::PathBuf;

use aws_lc_rs::digest;
use clap::Args;
use jeton_ca::authority::{entry_of, parse};
use jeton_ca::issuer::{key_name, purpose_name, usage_name};
use jeton_ca::register::{Entry, Register};
use jeton_ca::{file, name};
use jeton_client::safe_text::{hex, shown};
use jeton_tool::{Cause, Error};
use serde::Serialize;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName};

use super::authority::ListFile;
use super::out;
use super::pin::FilePin;

/// Show what the certificates of a file say: names, key, usages, validity and fingerprint.
///
/// If the list of issued certificates has one, its status there is shown. Nothing is verified.
#[derive(Args)]
pub struct Info {
    /// The file, or - for standard input: certificates in PEM, DER, PKCS#7 or PKCS#12.
    file: PathBuf,
    #[command(flatten)]
    file_pin: FilePin,
    #[command(flatten)]
    list: ListFile,
}

/// A certificate in `--json`.
#[derive(Serialize)]
struct Row {
    subject: String,
    issuer: String,
    serial: String,
    names: Vec<String>,
    not_before: String,
    not_after: String,
    /// The type of the key, as `key generate --type` names it.
    key: String,
    /// The object identifier of the algorithm of the signature.
    signature: String,
    usages: Vec<String>,
    extended_usages: Vec<String>,
    ca: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_length: Option<u8>,
    /// The SHA-256 digest of the certificate.
    fingerprint: String,
    /// The status in the list of issued certificates.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
}

impl Info {
    pub fn run(self) -> Result<(), Error> {
        let all = file::protected_certificates(&self.file, self.file_pin.given()?)?;
        if all.is_empty() {
            return Err(Cause::NotFound.error(format!("{} has no certificate", self.file.display())));
        }
        let path = self.list.path()?;
        let list = if Register::is_missing(&path) { None } else { Some(self.list.open()?) };
        let in_file = |error: Error| error.cause().error(format!("{}: {error}", out::shown_path(&self.file)));
        let row = |der: &Vec<u8>| Row::of(der, list.as_ref()).map_err(in_file);
        let rows = all.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        if out::is_json() { out::json(&rows) } else { rows.iter().try_for_each(Row::show) }
    }
}

impl Row {
    fn of(der: &[u8], list: Option<&Register>) -> Result<Self, Error> {
        let tbs = parse(der)?.tbs_certificate;
        let names = tbs.get::<SubjectAltName>()?.map(|(_, names)| names.0).unwrap_or_default();
        let basic = tbs.get::<BasicConstraints>()?.map(|(_, basic)| basic);
        let usages = tbs.get::<KeyUsage>()?.map(|(_, usage)| usage.0).unwrap_or_default();
        let extended = tbs.get::<ExtendedKeyUsage>()?.map(|(_, usage)| usage.0).unwrap_or_default();
        let entry = entry_of(der, "", "")?;
        let mut issued = list.map(|list| list.entries(None)).transpose()?.unwrap_or_default();
        let is_same = |found: &Entry| {
            list.is_some_and(|list| list.ders(found).is_ok_and(|all| all.iter().any(|own| own == der)))
        };
        issued.retain(|found| found.serial == entry.serial && is_same(found));
        Ok(Self {
            subject: entry.subject,
            issuer: entry.issuer,
            serial: entry.serial,
            names: names.iter().map(name::shown).collect(),
            not_before: tbs.validity.not_before.to_string(),
            not_after: tbs.validity.not_after.to_string(),
            key: key_name(&tbs.subject_public_key_info)?,
            signature: tbs.signature.oid.to_string(),
            usages: usages.into_iter().map(|usage| usage_name(usage).to_owned()).collect(),
            extended_usages: extended.iter().map(|purpose| purpose_name(*purpose)).collect(),
            ca: basic.as_ref().is_some_and(|basic| basic.ca),
            path_length: basic.and_then(|basic| basic.path_len_constraint),
            fingerprint: hex(digest::digest(&digest::SHA256, der).as_ref()),
            status: issued.first().map(|found| found.status()),
        })
    }

    fn show(&self) -> Result<(), Error> {
        let authority = match (self.ca, self.path_length) {
            (false, _) => String::new(),
            (true, None) => "yes".to_owned(),
            (true, Some(below)) => format!("yes, with at most {below} CAs below it"),
        };
        let fields: [(_, &str); 12] = [
            ("Issuer:", &self.issuer),
            ("Serial:", &self.serial),
            ("Names:", &self.names.join(" ")),
            ("From:", &self.not_before),
            ("Until:", &self.not_after),
            ("Key:", &self.key),
            ("Signed:", &self.signature),
            ("Usages:", &self.usages.join(" ")),
            ("For:", &self.extended_usages.join(" ")),
            ("CA:", &authority),
            ("SHA-256:", &self.fingerprint),
            ("Status:", self.status.unwrap_or_default()),
        ];
        out::fields(&shown(&self.subject), &fields)
    }
}
