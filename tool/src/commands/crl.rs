//! `crl`: signs a certificate revocation list.

use std::path::{Path, absolute};

use clap::Args;
use jeton_ca::crl::Lost;
use jeton_ca::register::Entry;
use jeton_tool::Error;
use jeton_tool::output_file::is_stream;
use serde::Serialize;

use super::authority::Authority;
use super::out::{self, Draft, Encoding, Output, Written};

/// Sign a certificate revocation list (CRL) with the key of a CA.
///
/// The CRL has all certificates of this CA that `cert revoke` revoked. Its number is one more than
/// that of the last CRL. The list of the CA must exist: `jeton ca init` makes it.
#[derive(Args)]
pub struct Crl {
    #[command(flatten)]
    authority: Authority,
    /// The CRL is valid for this number of days from now.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    days: u32,
    /// The number of the CRL, above all earlier numbers. The first CRL of a CA that is older than
    /// its list needs one. So does the first one after a restore, if `ca adopt` did not read the
    /// last CRL, and the first one after the file of the last CRL was lost or moved.
    #[arg(long)]
    number: Option<u64>,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Encoding,
    #[command(flatten)]
    output: Output,
}

/// A CRL in `--json`.
#[derive(Serialize)]
struct Row {
    number: u64,
    revoked: usize,
    #[serde(flatten)]
    written: Written,
}

impl Crl {
    pub fn run(self) -> Result<(), Error> {
        if self.output.keep()? {
            return Ok(());
        }
        self.output.expect_writable()?;
        let ready = self.authority.open()?;
        let mut register = ready.register(&self.authority.list.path()?)?;
        let ready = ready.bind(&register)?;
        ready.expect_good(&register)?;
        let lost = if self.number.is_some() { Lost::Accepted } else { Lost::Refused };
        ready.expect_last_crl(&register, lost)?;
        if let Some(path) = self.output.replaced() {
            ready.expect_replaceable(&register, &path, lost)?;
        }
        let lifetime = i64::from(self.days) * 24 * 60 * 60;
        let make = |number, start: i64, all: &[Entry]| {
            let der = ready.crl(number, all, start, self.days)?;
            Ok((self.output.encoded(&[der], "X509 CRL", self.format)?, all.len()))
        };
        let publish = |number, (draft, revoked): (Draft, _), turn| {
            // The reader of a pipe may never read.
            let _turn = draft.is_file().then_some(turn);
            match draft.publish() {
                Ok(written) => Ok(Row { number, revoked, written }),
                Err(error) => {
                    let text =
                        format!("{error}; the CRL {number} is lost, and `jeton crl` signs the next one");
                    Err(Error::Caused(error.cause(), text))
                }
            }
        };
        // A stream keeps nothing, and a path that is not UTF-8 is not remembered.
        let file = self.output.path().filter(|path| !is_stream(path)).and_then(|path| absolute(path).ok());
        let file = file.as_deref().and_then(Path::to_str);
        out::if_json(&register.next_crl(&ready.name, self.number, lifetime, file, make, publish)?)
    }
}
