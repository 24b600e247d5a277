//! `key generate`: generates a key or a key pair.

use std::io::IsTerminal;
use std::str::FromStr;
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
use super::dates::Dates;
use crate::commands::again::Proposed;
use crate::commands::object::show_new;
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
    /// Split an Ed25519 key: 2/3 makes three shares, of which two sign. No process ever has the
    /// key. --agents names who has the shares.
    #[arg(long, value_name = "NEEDED/ALL", requires = "agents")]
    split: Option<Parts>,
    /// The addresses of the agents that get the shares: unix:/PATH or tls://HOST:PORT.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', requires = "split")]
    agents: Vec<String>,
    /// Show all properties of the new key.
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    dates: Dates,
    #[command(flatten)]
    key: NewKey,
}

/// The serial number of the token that the client module shows for a group of agents.
const SPLIT: &str = "split";

/// How many shares sign, and how many there are.
#[derive(Clone, Copy)]
struct Parts {
    needed: u8,
    all: u8,
}

impl FromStr for Parts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts =
            text.split_once('/').and_then(|(needed, all)| Some((needed.parse().ok()?, all.parse().ok()?)));
        match parts {
            Some((needed, all)) if (2..=16).contains(&all) && (2..=all).contains(&needed) => {
                Ok(Self { needed, all })
            }
            _ => Err("2/3 is two of three; at least two sign, and there are at most sixteen".to_owned()),
        }
    }
}

impl Generate {
    pub(super) fn run(mut self) -> Result<(), Error> {
        let kind = KeyType::parse(&self.kind)?;
        let usages = self.key.permissions.usages(kind.usages)?;
        if self.uses.is_some() && kind.shape == Shape::Secret {
            return Err(Error::Usage("--uses limits private keys only".to_owned()));
        }
        self.choose_group()?;
        let (opened, session) = self.key.session()?;
        if self.split.is_some() && opened.info.serial != SPLIT {
            return Err(Error::Usage("this module does not split keys".to_owned()));
        }
        let rows = |objects: Vec<ObjectHandle>| {
            let described: Vec<_> =
                objects.iter().map(|one| describe(&session, &opened.info, *one)).collect();
            show_new(&described, self.long)
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
        let [names, secret] = self.key.attributes(&session)?;
        let common = [&names[..], &self.dates.attributes()].concat();
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
    /// Chooses the module that keeps the shares of a split key at the agents.
    fn choose_group(&mut self) -> Result<(), Error> {
        let Some(Parts { needed, all }) = self.split else { return Ok(()) };
        if self.kind != "ed25519" {
            return Err(Error::Usage("--split splits keys of the type ed25519 only".to_owned()));
        }
        if self.agents.len() != usize::from(all) {
            let text = format!("--split {needed}/{all} needs {all} addresses in --agents");
            return Err(Error::Usage(text));
        }
        self.key.target.module = self.key.target.module.of_group(needed, &self.agents)?;
        Ok(())
    }

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
