//! `cert` and `csr`: the certificates of a token, and certificates and requests that its keys sign.

use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use cryptoki_sys::{CKA_ID, CKA_VALUE};
use jeton_client::text::hex;
use jeton_pki::certificate::{self, Holder, Login, Role, Signer};
use jeton_tool::Error;
use jeton_tool::client::{Access, ObjectHandle, Session};
use jeton_tool::formats::certificate::{Summary, summary};
use jeton_tool::import::{self, Duplicates, Naming};
use jeton_tool::object::{describe, public_key_info};
use serde::Serialize;

use super::authority::certificate_of;
use super::info::Info;
use super::issue::{Issue, Renew};
use super::issued::{Expiring, Issued, Release, Revoke, Show};
use super::key::{Import, ImportType};
use super::out::{self, Encoding, Output};
use super::p12::P12;
use super::target::{Chosen, Need, Opened};
use super::verify::Verify;

/// The label of a certificate in PEM.
const CERTIFICATE: &str = "CERTIFICATE";

/// The certificates of a token.
#[derive(Args)]
pub struct Cert {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Import all certificates of a file, for example a chain.
    Import(Import),
    /// Write a certificate to a file.
    Export(Export),
    /// List the certificates.
    List(List),
    /// Show what the certificates of a file say.
    Info(Info),
    /// Validate the path from a certificate to a root. Exit status: 1 if it is not valid.
    Verify(Verify),
    /// Put a private key of a file and its certificates into a PKCS#12 file.
    P12(P12),
    /// Make a certificate that the key itself signs.
    SelfSign(SelfSign),
    /// Sign a certificate for a request with the key of a CA.
    Issue(Issue),
    /// Issue a certificate of the list again.
    Renew(Renew),
    /// List the certificates that the CAs issued.
    Issued(Issued),
    /// List the certificates that end soon. Exit status: 1 if there are some.
    Expiring(Expiring),
    /// Write a certificate of the list again.
    Show(Show),
    /// Revoke a certificate that `cert issue` made.
    Revoke(Revoke),
    /// Make a certificate valid again that was revoked with the reason hold.
    Release(Release),
}

impl Cert {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self.what, What: Export List Info Verify P12 SelfSign Issue Renew Issued Expiring Show Revoke Release;
            What::Import(command) => command.run_with(ImportType::Cert).map(Termination::report),
        }
    }
}

#[derive(Args)]
struct Export {
    #[command(flatten)]
    chosen: Chosen,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Encoding,
    #[command(flatten)]
    output: Output,
}

impl Export {
    fn run(self) -> Result<(), Error> {
        let (_, session) = self.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let object = self.chosen.objects.one(&session, &["cert"])?;
        write(&self.output, self.format, CERTIFICATE, &session.bytes(object, CKA_VALUE))
    }
}

/// Writes a structure with this label of PEM.
fn write(output: &Output, encoding: Encoding, label: &str, der: &[u8]) -> Result<(), Error> {
    output.encoded(&[der], label, encoding)?.show()
}

#[derive(Args)]
struct List {
    #[command(flatten)]
    chosen: Chosen,
}

/// A certificate in `--json`.
#[derive(Serialize)]
struct Row {
    label: String,
    id: String,
    subject: String,
    issuer: String,
    serial: String,
    not_after: String,
    uri: String,
}

impl List {
    fn run(self) -> Result<(), Error> {
        let (opened, session) = self.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let mut rows = Vec::new();
        for object in self.chosen.objects.find(&session, &["cert"])? {
            let described = describe(&session, &opened.info, object);
            // A certificate that cannot be read does not end the list.
            let summary = summary(&session.bytes(object, CKA_VALUE))
                .unwrap_or_else(|error| Summary { subject: format!("({error})"), ..Summary::default() });
            rows.push(Row {
                label: described.label,
                id: described.id,
                subject: summary.subject,
                issuer: summary.issuer,
                serial: hex(&summary.serial),
                not_after: summary.not_after,
                uri: described.uri,
            });
        }
        rows.sort_by(|one, other| (&one.label, &one.id).cmp(&(&other.label, &other.id)));
        if out::is_json() { out::json(&rows) } else { rows.iter().try_for_each(Row::show) }
    }
}

impl Row {
    fn show(&self) -> Result<(), Error> {
        let fields: [(_, &str); 6] = [
            ("Label:", &self.label),
            ("ID:", &self.id),
            ("Issuer:", &self.issuer),
            ("Serial:", &self.serial),
            ("Expires:", &self.not_after),
            ("URI:", &self.uri),
        ];
        out::fields(&self.subject, &fields)
    }
}

/// The key that signs, and the names of its holder.
#[derive(Args)]
struct Subject {
    #[command(flatten)]
    chosen: Chosen,
    /// The subject as in RFC 4514: "CN=www.example.org,O=Example".
    #[arg(long)]
    subject: String,
    /// Another name: dns:NAME, ip:ADDRESS, email:ADDRESS or uri:URI. Repeat the option for more.
    #[arg(long, value_name = "NAME")]
    san: Vec<String>,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Encoding,
    #[command(flatten)]
    output: Output,
}

/// A key that is ready to sign.
struct Ready {
    opened: Opened,
    session: Session,
    key: ObjectHandle,
    info: Vec<u8>,
    signer: Signer,
    holder: Holder,
}

impl Subject {
    fn open(&self, access: Access) -> Result<Ready, Error> {
        self.output.expect_writable()?;
        let holder = Holder::parse(&self.subject, &self.san)?;
        let (opened, session) = self.chosen.session(access, Need::Login)?;
        let key = self.chosen.objects.one(&session, &["private"])?;
        let info = public_key_info(&session, key)?;
        let signer = Signer::of(&info)?;
        Ok(Ready { opened, session, key, info, signer, holder })
    }

    fn sign(&self, ready: &Ready, tbs: &[u8]) -> Result<Vec<u8>, Error> {
        let login = Login { pin: &|| Ok(ready.opened.pin(&self.chosen.pin)?) };
        Ok(ready.signer.sign(&ready.session, ready.key, &login, tbs)?)
    }
}

/// Make a certificate request (PKCS#10) that a key of the token signs.
#[derive(Args)]
pub struct Csr {
    #[command(flatten)]
    subject: Subject,
}

impl Csr {
    pub fn run(self) -> Result<(), Error> {
        if self.subject.output.keep()? {
            return Ok(());
        }
        let ready = self.subject.open(Access::ReadOnly)?;
        let tbs = certificate::request_tbs(&ready.info, &ready.holder)?;
        let signature = self.subject.sign(&ready, &tbs)?;
        let der = certificate::assemble(&tbs, &ready.signer, &signature)?;
        write(&self.subject.output, self.subject.format, "CERTIFICATE REQUEST", &der)
    }
}

#[derive(Args)]
struct SelfSign {
    #[command(flatten)]
    subject: Subject,
    /// The certificate is valid for this number of days from now.
    #[arg(long, default_value = "365", value_parser = clap::value_parser!(u32).range(1..))]
    days: u32,
    /// Make the certificate of a certificate authority (CA).
    #[arg(long)]
    ca: bool,
    /// Also import the certificate into the token, with the label and the ID of its key.
    #[arg(long)]
    import: bool,
}

impl SelfSign {
    fn run(self) -> Result<(), Error> {
        let access = if self.import { Access::ReadWrite } else { Access::ReadOnly };
        let ready = self.subject.open(access)?;
        if self.subject.output.if_absent() && self.import && !self.subject.output.is_kept() {
            // The token may have the certificate of an earlier run whose file is gone.
            if let Ok(der) = certificate_of(&ready.session, &ready.info) {
                return write(&self.subject.output, self.subject.format, CERTIFICATE, &der);
            }
        }
        if self.subject.output.keep()? {
            return Ok(());
        }
        let mut serial = [0; 16];
        ready.session.random(&mut serial)?;
        let role = if self.ca { Role::Authority } else { Role::Leaf };
        let tbs =
            certificate::self_signed_tbs(&ready.info, &ready.holder, &ready.signer, role, self.days, serial)?;
        let signature = self.subject.sign(&ready, &tbs)?;
        let der = certificate::assemble(&tbs, &ready.signer, &signature)?;
        let draft = self.subject.output.encoded(&[&der], CERTIFICATE, self.subject.format)?;
        if self.import {
            let label = describe(&ready.session, &ready.opened.info, ready.key).label;
            let id = ready.session.bytes(ready.key, CKA_ID);
            import::certificate(
                &ready.session,
                &der,
                &Naming { label, id, duplicates: Duplicates::Refused },
            )?;
        }
        draft.show()
    }
}
