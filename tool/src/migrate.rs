//! Migration: writes the objects of an old store, which [`jeton_migrate`] has read, to a new token
//! of Jeton.
//!
//! A child process ([`write_token`]) writes the new token in a separate directory, and the tool
//! then renames its file into the token directory. The tool sets `JETON_DIR` of the child to the
//! separate directory, because the module reads its directory from the environment.

mod plan;
mod proof;
mod stage;
mod trust;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::client::{Access, Attribute, Module, User};
use crate::token::{self, Choice};

pub use plan::Plan;
pub use stage::Stage;
pub use write::{WRITER, write_token};

/// The work of the process that writes the new token.
#[derive(Serialize, Deserialize)]
pub struct Job {
    pub objects: Vec<jeton_migrate::Object>,
    pub library: std::path::PathBuf,
    pub label: String,
    pub so_pin: String,
    pub pin: String,
}

/// The result of a [`Job`]. It contains no secret.
#[derive(Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub serial: String,
    /// One line for each object, in their order.
    pub lines: Vec<Line>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    /// The class, the key type and the size, e.g. `private key, EC P-256`.
    pub what: String,
    pub label: String,
    /// `CKA_ID` in hexadecimal.
    pub id: String,
    /// The migrated object, or the reason why it cannot be migrated.
    pub result: Result<Migrated, String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Migrated {
    /// Whether a private key was proved, or why it could not be; `None` for other objects.
    pub proof: Option<Result<(), String>>,
    /// The attributes that differ, each with the reason.
    pub differences: Vec<String>,
}

impl Outcome {
    pub fn migrated(&self) -> usize {
        self.lines.iter().filter(|line| line.result.is_ok()).count()
    }

    /// Returns the objects that cannot be migrated, with the reasons.
    pub fn left_out(&self) -> impl Iterator<Item = (&Line, &str)> {
        self.lines.iter().filter_map(|line| Some((line, line.result.as_ref().err()?.as_str())))
    }
}

/// Whether Jeton has a token with the label of the new token.
pub enum Presence {
    NoToken,
    Token {
        /// The number of objects of the old store that it has already.
        objects: usize,
        serial: String,
    },
}

/// Looks for a token with this label, and for the objects of the plans in it. Fails if the PIN does
/// not open the token.
pub fn presence(module: &Module, label: &str, pin: &str, plans: &[Plan]) -> Result<Presence, Error> {
    let choice = Choice::Label(label.to_owned());
    let exists = |slot: &token::Slot| {
        slot.token.as_ref().is_some_and(|token| token.is_initialised() && token.label == label)
    };
    if !token::slots(module)?.iter().any(exists) {
        return Ok(Presence::NoToken);
    }
    let slot = token::choose(module, &choice)?;
    let session = module.open_session(slot, Access::ReadOnly)?;
    session.login(User::User, Some(pin)).map_err(|failure| {
        Error::Failed(format!(
            "Jeton has a token labelled {label:?} already, and the PIN does not open it ({}). --label gives the \
             new token another label",
            failure.code_name()
        ))
    })?;
    let mut wanted = BTreeMap::<Vec<(u64, Vec<u8>)>, usize>::new();
    for plan in plans {
        let signs = plan.signs().into_iter().map(|one| (one.kind, one.value));
        *wanted.entry(signs.collect()).or_default() += 1;
    }
    let mut objects = 0;
    for (signs, count) in wanted {
        let template: Vec<_> = signs.into_iter().map(|(kind, value)| Attribute { kind, value }).collect();
        objects += session.find(&template)?.len().min(count);
    }
    Ok(Presence::Token { objects, serial: module.token_info(slot)?.serial })
}
