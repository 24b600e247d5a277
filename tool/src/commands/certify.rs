//! The commands of the CA, and requests and certificates that a key signs for itself.

use std::fs::File;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cryptoki_sys::CKA_ID;
use jeton_ca::authority::certificate_of;
use jeton_ca::certificate::{Holder, Role, request_tbs, self_signed_tbs};
use jeton_ca::register::Register;
use jeton_pki::signer::{Login, Signer, assemble};
use jeton_tool::Error;
use jeton_tool::client::{Access, ObjectHandle, Session};
use jeton_tool::import::{self, Duplicates, Naming};
use jeton_tool::object::{describe, public_key_info};

use super::authority::ListFile;
use super::ca::Ca;
use super::crl::Crl;
use super::info::Info;
use super::issue::{Issue, Renew};
use super::issued::{Expiring, Issued, Release, Revoke, Show};
use super::ocsp::Ocsp;
use super::out::{Encoding, Output, shown_path};
use super::p12::P12;
use super::pin::warn;
use super::target::{Chosen, Need, Opened};
use super::verify::Verify;

/// The label of a certificate in PEM.
const CERTIFICATE: &str = "CERTIFICATE";

/// The commands of their own.
#[derive(Subcommand)]
pub enum Command {
    /// Make a certificate request.
    Csr(Csr),
    /// Make the list of a CA, without which it signs nothing.
    Ca(Ca),
    /// Sign a certificate revocation list (CRL).
    Crl(Crl),
    /// Answer an OCSP request, or run a responder on a loopback address.
    Ocsp(Ocsp),
}

impl Command {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! { self, Self: Csr Ca Crl Ocsp; }
    }
}

/// The commands below `cert`.
#[derive(Subcommand)]
pub enum Certify {
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

impl Certify {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self, Self: Info Verify P12 SelfSign Issue Renew Issued Expiring Show Revoke Release;
        }
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
        let tbs = request_tbs(&ready.info, &ready.holder)?;
        let signature = self.subject.sign(&ready, &tbs)?;
        let der = assemble(&tbs, &ready.signer, &signature)?;
        self.subject.output.encoded(&[der], "CERTIFICATE REQUEST", self.subject.format)?.show()
    }
}

#[derive(Args)]
pub struct SelfSign {
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
    /// A key that the list has as compromised is refused.
    #[command(flatten)]
    list: ListFile,
}

impl SelfSign {
    pub fn run(self) -> Result<(), Error> {
        let access = if self.import { Access::ReadWrite } else { Access::ReadOnly };
        let ready = self.subject.open(access)?;
        if self.subject.output.if_absent() && self.import && !self.subject.output.is_kept() {
            // The token may have the certificate of an earlier run whose file is gone.
            if let Ok(der) = certificate_of(&ready.session, &ready.info) {
                return self.subject.output.encoded(&[der], CERTIFICATE, self.subject.format)?.show();
            }
        }
        if self.subject.output.keep()? {
            return Ok(());
        }
        let list = self.list.path()?;
        // A user of a token is not always the one of the CA.
        let is_foreign = || File::open(&list).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
        match self.list.is_named() {
            false if Register::is_missing(&list) => {}
            false if is_foreign() => warn(&format!(
                "{}: permission denied; the list was not asked whether the key is compromised",
                shown_path(&list)
            )),
            _ => self.list.open()?.expect_secret(&ready.info)?,
        }
        let mut serial = [0; 16];
        ready.session.random(&mut serial)?;
        let role = if self.ca { Role::Authority } else { Role::Leaf };
        let tbs = self_signed_tbs(&ready.info, &ready.holder, &ready.signer, role, self.days, serial)?;
        let signature = self.subject.sign(&ready, &tbs)?;
        let der = assemble(&tbs, &ready.signer, &signature)?;
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
