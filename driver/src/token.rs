//! Administration of tokens: list, initialise, delete.

mod files;

use crate::Error;
use crate::client::{Failure, Module, SlotId, SlotInfo, TokenInfo};

pub use files::{delete_files, token_directory};

/// A slot and its token.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The slot ID.
    pub id: SlotId,
    /// The slot.
    pub slot: SlotInfo,
    /// Its token, if there is one.
    pub token: Option<TokenInfo>,
}

/// Chooses a token, with the same options as `softhsm2-util`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first slot whose token is not initialised.
    Free,
    /// A slot by its ID.
    Slot(SlotId),
    /// A token by its serial.
    Serial(String),
    /// A token by its label.
    Label(String),
}

/// Returns all slots of the module.
pub fn slots(module: &Module) -> Result<Vec<Slot>, Failure> {
    let describe = |id| {
        let slot = module.slot_info(id)?;
        let present = slot.flags & cryptoki_sys::CKF_TOKEN_PRESENT != 0;
        let token = if present { Some(module.token_info(id)?) } else { None };
        Ok(Slot { id, slot, token })
    };
    module.slots(false)?.into_iter().map(describe).collect()
}

/// Returns the slot that `choice` selects.
pub fn choose(module: &Module, choice: &Choice) -> Result<SlotId, Error> {
    let fits = |slot: &Slot| {
        slot.token.as_ref().is_some_and(|token| match choice {
            Choice::Free => !token.is_initialised(),
            Choice::Slot(id) => slot.id == *id,
            Choice::Serial(serial) => token.serial == *serial,
            Choice::Label(label) => token.is_initialised() && token.label == *label,
        })
    };
    let fitting: Vec<_> = slots(module)?.into_iter().filter(fits).map(|slot| slot.id).collect();
    match (fitting.as_slice(), choice) {
        ([slot, ..], Choice::Free) | ([slot], _) => Ok(*slot),
        ([], _) => Err(Error::Usage(format!("no {choice}"))),
        _ => Err(Error::Usage(format!("several tokens fit: {choice}; choose one by its serial"))),
    }
}

/// Initialises the token and sets the user PIN. Returns the slot of the token afterwards.
pub fn initialise(
    module: &Module,
    choice: &Choice,
    label: &str,
    so_pin: &str,
    pin: &str,
) -> Result<SlotId, Error> {
    Ok(jeton_peers::initialise(module, choose(module, choice)?, label, so_pin, pin)?)
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Free => write!(f, "slot with an uninitialised token"),
            Self::Slot(id) => write!(f, "token in slot {}", id.0),
            Self::Serial(serial) => write!(f, "token with serial {serial:?}"),
            Self::Label(label) => write!(f, "token labelled {label:?}"),
        }
    }
}
