//! `key generate`.

use std::process::ExitCode;

use clap::Args;
use cryptoki_sys::{CKA_EXTRACTABLE, CKA_ID, CKA_LABEL, CKA_PRIVATE, CKA_SENSITIVE, CKA_TOKEN};
use jeton_driver::Error;
use jeton_driver::client::{Access, Attribute};
use jeton_driver::key_type::{self, KeyType, Shape};
use jeton_driver::object::describe;

use super::{random_id, usages};
use crate::commands::object::show;
use crate::commands::pin::UserPin;
use crate::commands::target::{Need, Target, id_of};

#[derive(Args)]
pub(super) struct Generate {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pin: UserPin,
    /// The type of the key.
    #[arg(long = "type", value_name = "TYPE", long_help = key_type::NAMES)]
    kind: String,
    /// The label.
    #[arg(long)]
    label: String,
    /// The ID in hexadecimal digits. Without it, 8 random bytes.
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    /// What the key may do: sign, decrypt, wrap, derive, decapsulate. The default depends on the
    /// type.
    #[arg(long, value_delimiter = ',')]
    usage: Vec<String>,
    /// Allow the private or secret key to be wrapped.
    #[arg(long)]
    extractable: bool,
}

impl Generate {
    /// Runs the command.
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        let kind = KeyType::parse(&self.kind)?;
        let usages = usages(&self.usage, kind.usages)?;
        let opened = self.target.open(None)?;
        let session = opened.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let id = match &self.id {
            Some(id) => id_of(id)?,
            None => random_id(&session)?,
        };
        let common = [
            Attribute::flag(CKA_TOKEN, true),
            Attribute::bytes(CKA_LABEL, self.label.as_bytes()),
            Attribute::bytes(CKA_ID, id),
        ];
        let secret = [
            Attribute::flag(CKA_PRIVATE, true),
            Attribute::flag(CKA_SENSITIVE, true),
            Attribute::flag(CKA_EXTRACTABLE, self.extractable),
        ];
        let made = match kind.shape {
            Shape::Secret => {
                let mut template = [&common[..], &secret, &kind.parameters].concat();
                for usage in usages {
                    let (one, two) = usage.attributes();
                    template.push(Attribute::flag(one, true));
                    template.extend((one != two).then(|| Attribute::flag(two, true)));
                }
                vec![session.generate_key(&kind.mechanism, &template)?]
            }
            Shape::Pair => {
                let (mut public, mut private) =
                    ([&common[..], &kind.parameters].concat(), [&common[..], &secret].concat());
                for usage in usages {
                    let (of_public, of_private) = usage.attributes();
                    public.push(Attribute::flag(of_public, true));
                    private.push(Attribute::flag(of_private, true));
                }
                let (public, private) = session.generate_key_pair(&kind.mechanism, &public, &private)?;
                vec![private, public]
            }
        };
        made.into_iter().try_for_each(|object| show(&describe(&session, &opened.info, object)))?;
        Ok(ExitCode::SUCCESS)
    }
}
