//! `key generate`: generates a key or a key pair.

use std::io::IsTerminal;
use std::time::Instant;

use clap::Args;
use cryptoki_sys::{
    CK_ULONG, CKA_MODULUS, CKA_MODULUS_BITS, CKA_PUBLIC_EXPONENT, CKA_TOKEN, CKO_PRIVATE_KEY, CKO_PUBLIC_KEY,
    CKO_SECRET_KEY,
};
use jeton_pki::key_type::{self, KeyType, Shape};
use jeton_tool::client::{Attribute, ObjectHandle, Session, names};
use jeton_tool::object::{describe, key_type, modulus_bits, partner, uses};
use jeton_tool::{Cause, Error};

use super::NewKey;
use crate::commands::again::Proposed;
use crate::commands::object::show;
use crate::commands::out;

#[derive(Args)]
pub(super) struct Generate {
    /// The type of the key.
    #[arg(long = "type", value_name = "TYPE", long_help = key_type::NAMES, hide_possible_values = true,
          value_parser = Proposed(&key_type::EXAMPLES))]
    kind: String,
    /// The number of times that the private key may be used. Only Jeton has such a limit. Nothing
    /// raises it.
    #[arg(long, value_name = "NUMBER")]
    uses: Option<CK_ULONG>,
    #[command(flatten)]
    key: NewKey,
}

impl Generate {
    pub(super) fn run(self) -> Result<(), Error> {
        let kind = KeyType::parse(&self.kind)?;
        let usages = self.key.permissions.usages(kind.usages)?;
        if self.uses.is_some() && kind.shape == Shape::Secret {
            return Err(Error::Usage("--uses limits private keys only".to_owned()));
        }
        let (opened, session) = self.key.session()?;
        let rows = |objects: Vec<ObjectHandle>| {
            show(&objects.iter().map(|one| describe(&session, &opened.info, *one)).collect::<Vec<_>>())
        };
        let class = if kind.shape == Shape::Pair { CKO_PRIVATE_KEY } else { CKO_SECRET_KEY };
        if let Some(key) = self.key.kept(&session, class)? {
            if !has_type(&session, key, &kind) {
                let text = format!("the key {:?} has the type {}", self.key.label, key_type(&session, key));
                return Err(Error::Caused(Cause::Exists, text));
            }
            if self.uses.is_some_and(|most| uses(&session, key).is_none_or(|uses| uses.left > most)) {
                let text = format!("the key {:?} may be used more often than --uses says", self.key.label);
                return Err(Error::Caused(Cause::Exists, text));
            }
            return rows([Some(key), partner(&session, key)].into_iter().flatten().collect());
        }
        let [common, secret] = self.key.attributes(&session)?;
        let waiting = out::waiting(self.announcement(&session));
        let made = match kind.shape {
            Shape::Secret => {
                let usages = usages.attributes(CKO_SECRET_KEY);
                let template = [&common[..], &secret, &kind.parameters, &usages].concat();
                vec![session.generate_key(&kind.mechanism, &template)?]
            }
            Shape::Pair => {
                let [of_public, of_private] =
                    [CKO_PUBLIC_KEY, CKO_PRIVATE_KEY].map(|class| usages.attributes(class));
                let public = [&common[..], &kind.parameters, &of_public].concat();
                let mut private = [&common[..], &secret, &kind.private, &of_private].concat();
                private.extend(self.uses.map(|uses| Attribute::number(names::JETON_USES_LEFT, uses)));
                let (public, private) = session.generate_key_pair(&kind.mechanism, &public, &private)?;
                vec![private, public]
            }
        };
        drop(waiting);
        rows(made)
    }
}

impl Generate {
    /// Returns what the command works on. For a high tree of LMS it estimates the time from that of
    /// a tree with 32 leaves.
    fn announcement(&self, session: &Session) -> String {
        let doing = format!("generating {}", self.kind);
        let minutes = || {
            let top = self.kind.strip_prefix("hss:")?.split(',').next()?;
            let (height, width) = top.split_once('/')?;
            let leaves = 1 << height.parse::<u32>().ok().filter(|height| (15..=25).contains(height))?;
            let small = KeyType::parse(&format!("hss:5/{width}")).ok()?;
            let start = Instant::now();
            let template = [&[Attribute::flag(CKA_TOKEN, false)], &small.private[..]].concat();
            session.generate_key_pair(&small.mechanism, &template[..1], &template).ok()?;
            Some((start.elapsed() * (leaves / 32)).as_secs().div_ceil(60))
        };
        let minutes = std::io::stderr().is_terminal().then(minutes).flatten();
        minutes.map_or(doing.clone(), |minutes| format!("{doing}, for about {minutes} min"))
    }
}

/// Returns whether a key has the type of `kind`: the parameters that a key shows.
fn has_type(session: &Session, key: ObjectHandle, kind: &KeyType) -> bool {
    kind.parameters.iter().chain(&kind.private).all(|parameter| match parameter.kind {
        CKA_MODULUS_BITS => {
            *parameter == Attribute::number(CKA_MODULUS_BITS, modulus_bits(&session.bytes(key, CKA_MODULUS)))
        }
        CKA_PUBLIC_EXPONENT => true,
        other => session.bytes(key, other) == parameter.value,
    })
}
