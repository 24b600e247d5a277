//! `cert`: the certificates of a token.

use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use cryptoki_sys::CKA_VALUE;
use jeton_client::safe_text::hex;
use jeton_tool::Error;
use jeton_tool::client::Access;
use jeton_tool::formats::certificate::{Summary, summary};
use jeton_tool::object::describe;
use serde::Serialize;

#[cfg(feature = "ca")]
use super::certify::Certify;
use super::key::{Import, ImportType};
use super::out::{self, Encoding, Output};
use super::target::{Chosen, Need};

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
    #[cfg(feature = "ca")]
    #[command(flatten)]
    Certify(Box<Certify>),
}

impl Cert {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self.what, What: Export List;
            What::Import(command) => command.run_with(ImportType::Cert).map(Termination::report),
            #[cfg(feature = "ca")]
            What::Certify(command) => command.run(),
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
        self.output.encoded(&[session.bytes(object, CKA_VALUE)], "CERTIFICATE", self.format)?.show()
    }
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
