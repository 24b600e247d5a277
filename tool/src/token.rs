//! Administration of tokens: list, initialise, delete.

mod files;

use jeton_client::safe_text::shown;

use crate::client::{Failure, LibraryInfo, Module, SlotId, SlotInfo, TokenInfo, Version};
use crate::uri::Uri;
use crate::{Cause, Error};

pub use files::delete_files;

#[derive(Clone, Debug)]
pub struct Slot {
    pub id: SlotId,
    pub slot: SlotInfo,
    /// Its token, if there is one.
    pub token: Option<TokenInfo>,
}

/// A way to choose a token. `softhsm2-util` has options for the first four.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first slot whose token is not initialised.
    Free,
    Slot(SlotId),
    Serial(String),
    Label(String),
    Uri(Box<Uri>),
    /// The only initialised token.
    Only,
}

pub fn slots(module: &Module) -> Result<Vec<Slot>, Failure> {
    let describe = |id| {
        let slot = module.slot_info(id)?;
        let present = slot.flags & cryptoki_sys::CKF_TOKEN_PRESENT != 0;
        let token = if present { Some(module.token_info(id)?) } else { None };
        Ok(Slot { id, slot, token })
    };
    module.slots(false)?.into_iter().map(describe).collect()
}

pub fn choose(module: &Module, choice: &Choice) -> Result<SlotId, Error> {
    let library = module.info()?;
    let fits = |slot: &Slot| {
        slot.token.as_ref().is_some_and(|token| match choice {
            Choice::Free => !token.is_initialised(),
            Choice::Slot(id) => slot.id == *id,
            Choice::Serial(serial) => token.serial == *serial,
            Choice::Label(label) => token.is_initialised() && token.label == *label,
            Choice::Uri(uri) => token.is_initialised() && uri_fits(uri, &library, slot, token),
            Choice::Only => token.is_initialised(),
        })
    };
    let all: Vec<_> = slots(module)?.into_iter().filter(fits).collect();
    let labels: Vec<_> = all.iter().filter_map(|slot| Some(shown(&slot.token.as_ref()?.label))).collect();
    let fitting: Vec<_> = all.iter().map(|slot| slot.id).collect();
    match (fitting.as_slice(), choice) {
        ([slot, ..], Choice::Free) | ([slot], _) => Ok(*slot),
        ([], Choice::Free) => {
            Err(Cause::NotFound.error("the module has no slot with an uninitialised token"))
        }
        ([], Choice::Only) => {
            Err(Cause::NotFound.error("the module has no initialised token; `jeton token init` makes one"))
        }
        ([], _) => Err(Cause::NotFound.error(format!("no {choice}; `jeton token list` shows the tokens"))),
        (_, Choice::Only) => Err(Error::Usage(format!(
            "the module has several tokens; choose one with --token, --serial or --slot: {}",
            labels.join(", ")
        ))),
        _ => {
            let serials: Vec<_> =
                all.iter().filter_map(|slot| Some(shown(&slot.token.as_ref()?.serial))).collect();
            let serials = serials.join(", ");
            Err(Error::Usage(format!("several tokens fit: {choice}; choose one with --serial: {serials}")))
        }
    }
}

/// RFC 7512, 2.3: every attribute that is there must fit.
fn uri_fits(uri: &Uri, library: &LibraryInfo, slot: &Slot, token: &TokenInfo) -> bool {
    let pairs = [
        (&uri.library_manufacturer, &library.manufacturer),
        (&uri.library_description, &library.description),
        (&uri.slot_manufacturer, &slot.slot.manufacturer),
        (&uri.slot_description, &slot.slot.description),
        (&uri.token, &token.label),
        (&uri.serial, &token.serial),
        (&uri.model, &token.model),
        (&uri.manufacturer, &token.manufacturer),
    ];
    let same = pairs.into_iter().all(|(wanted, found)| wanted.as_ref().is_none_or(|wanted| wanted == found));
    let Version(major, minor) = library.version;
    same && uri.slot.is_none_or(|wanted| wanted == wide(slot.id))
        && uri.library_version.is_none_or(|wanted| wanted == (major, minor))
}

#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
fn wide(slot: SlotId) -> u64 {
    u64::from(slot.0)
}

/// Fails if a token refuses a PIN of this length, and says the limits.
pub fn check_pin(token: &TokenInfo, whose: &str, pin: &str) -> Result<(), Error> {
    let (least, most) = (*token.pin_lengths.start(), *token.pin_lengths.end());
    // A module without limits says 0, or CK_EFFECTIVELY_INFINITE, which is 0 too.
    let length = pin.len() as cryptoki_sys::CK_ULONG;
    if length < least || most != 0 && length > most {
        return Err(Cause::Refused.error(format!(
            "the {whose} PIN has {length} bytes; the token takes {least} to {most}; nothing was changed"
        )));
    }
    Ok(())
}

/// Initialises the token and sets the user PIN. Returns the slot of the token afterwards.
pub fn initialise(
    module: &Module,
    choice: &Choice,
    label: &str,
    so_pin: &str,
    pin: &str,
) -> Result<SlotId, Error> {
    let slot = choose(module, choice)?;
    // Check the PINs first: C_InitToken erases the token, and only then would C_InitPIN refuse a
    // PIN.
    let info = module.token_info(slot)?;
    check_pin(&info, "SO", so_pin)?;
    check_pin(&info, "user", pin)?;
    Ok(jeton_peers::initialise(module, slot, label, so_pin, pin)?)
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Free => write!(f, "slot with an uninitialised token"),
            Self::Slot(id) => write!(f, "token in slot {}", id.0),
            Self::Serial(serial) => write!(f, "token with serial {serial:?}"),
            Self::Label(label) => write!(f, "token labelled {label:?}"),
            Self::Uri(uri) => write!(f, "token with the URI {uri}"),
            Self::Only => write!(f, "initialised token"),
        }
    }
}
