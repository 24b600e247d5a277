//! `key export`: writes a public key.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use cryptoki_sys::CKA_LABEL;
use jeton_tool::Error;
use jeton_tool::client::Access;
use jeton_tool::formats::{self, PublicForm};
use jeton_tool::object::public_key_info;

use crate::commands::out::Output;
use crate::commands::target::{Chosen, Need};

/// The form of a public key.
#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// SubjectPublicKeyInfo in PEM.
    Pem,
    /// SubjectPublicKeyInfo in DER.
    Der,
    /// A line of authorized_keys.
    Openssh,
    /// JSON Web Key.
    Jwk,
    /// The data of a DNSKEY record.
    Dnskey,
}

#[derive(Args)]
pub(super) struct Export {
    #[command(flatten)]
    chosen: Chosen,
    /// The format of the output.
    #[arg(long, value_enum, default_value = "pem")]
    format: Form,
    /// The flags of the DNSKEY: 256 for a zone-signing key, 257 for a key-signing key.
    #[arg(long, default_value = "257")]
    flags: u16,
    #[command(flatten)]
    output: Output,
}

impl Export {
    /// Runs the command.
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let (_, session) = self.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let object = match self.chosen.objects.find(&session, &["public"])?.as_slice() {
            [object] => *object,
            _ => self.chosen.objects.one(&session, &["public", "private", "cert"])?,
        };
        let info = public_key_info(&session, object)?;
        let form = match self.format {
            Form::Pem => PublicForm::Pem,
            Form::Der => PublicForm::Der,
            Form::Openssh => PublicForm::OpenSsh,
            Form::Jwk => PublicForm::Jwk,
            Form::Dnskey => PublicForm::DnsKey(self.flags),
        };
        let label = String::from_utf8_lossy(&session.bytes(object, CKA_LABEL)).into_owned();
        let text =
            formats::public_key(&info, form, &label).map_err(|error| Error::Failed(error.to_string()))?;
        if form == PublicForm::Der {
            self.output.binary(&text)?
        } else {
            self.output.text(&text)?
        }
        Ok(ExitCode::SUCCESS)
    }
}
