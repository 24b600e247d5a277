//! `key export`: writes a public key, or the URI of a private key.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use cryptoki_sys::{CKA_ID, CKA_LABEL};
use jeton_tool::Error;
use jeton_tool::client::Access;
use jeton_tool::formats::{self, PublicForm};
use jeton_tool::object::public_key_info;
use jeton_tool::uri::{PROVIDER_LABEL, Uri};

use crate::commands::out::{self, Encoding, Output};
use crate::commands::target::{Chosen, Need};

/// The form of a key.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
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
    /// A key file for OpenSSL's pkcs11-provider, with the PKCS#11 URI of the private key.
    Uri,
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
    /// With --format uri: the file that has the PIN where the key file is used. The key file
    /// contains its absolute path.
    #[arg(long, value_name = "FILE")]
    pin_source: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

impl Export {
    pub(super) fn run(self) -> Result<(), Error> {
        let form = match self.format {
            Form::Uri => return self.key_file(),
            _ if self.pin_source.is_some() => {
                return Err(Error::Usage("--pin-source is for --format uri".to_owned()));
            }
            Form::Pem => PublicForm::Pem,
            Form::Der => PublicForm::Der,
            Form::Openssh => PublicForm::OpenSsh,
            Form::Jwk => PublicForm::Jwk,
            Form::Dnskey => PublicForm::DnsKey(self.flags),
        };
        let (_, session) = self.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let object = match self.chosen.objects.find(&session, &["public"])?.as_slice() {
            [object] => *object,
            _ => self.chosen.objects.one(&session, &["public", "private", "cert"])?,
        };
        let info = public_key_info(&session, object)?;
        let label = String::from_utf8_lossy(&session.bytes(object, CKA_LABEL)).into_owned();
        let text =
            formats::public_key(&info, form, &label).map_err(|error| Error::Failed(error.to_string()))?;
        let form = if form == PublicForm::Der { out::Form::Binary } else { out::Form::Text };
        self.output.public(&text, form)
    }

    /// Writes the URI of a private key as a key file.
    fn key_file(&self) -> Result<(), Error> {
        let (opened, session) = self.chosen.session(Access::ReadOnly, Need::Login)?;
        let key = self.chosen.objects.one(&session, &["private"])?;
        let uri = Uri {
            token: Some(opened.info.label.clone()),
            object: String::from_utf8(session.bytes(key, CKA_LABEL)).ok().filter(|label| !label.is_empty()),
            id: Some(session.bytes(key, CKA_ID)).filter(|id| !id.is_empty()),
            class: Some("private".to_owned()),
            pin_source: self.pin_source.as_deref().map(file_uri).transpose()?,
            ..Uri::default()
        };
        self.output.encoded(&[uri.provider_der()?], PROVIDER_LABEL, Encoding::Pem)?.show()
    }
}

/// Returns the absolute path of a file as `file:/path`. The file need not exist.
fn file_uri(path: &Path) -> Result<String, Error> {
    let absolute = std::path::absolute(path).map_err(Error::io(path))?;
    match absolute.to_str() {
        Some(absolute) => Ok(format!("file:{absolute}")),
        None => Err(Error::Usage(format!("the path {} is not UTF-8", path.display()))),
    }
}
