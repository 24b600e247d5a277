//! Slots and tokens (PKCS#11 3.2, "Slot and token management functions").

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::audit::Call;
use super::{Module, Slot, State, scan};
use crate::audit::Record;
use crate::config::PinRules;
use crate::error::{Error, Result};
use crate::id::{MechanismType, SessionHandle, SlotId, token_flag as flag};
use crate::store::sqlite::{SqliteStore, Stamp};
use crate::store::{Change, PinState};
use crate::token::{Token, fits, new_serial};

const MANUFACTURER: &str = "Jeton";
/// How often a waiting thread looks for new tokens.
const POLL: Duration = Duration::from_millis(250);
const MODEL: &str = "Jeton";
/// A label of blanks, as a token has before it is initialised.
const NO_LABEL: [u8; 32] = [b' '; 32];

/// What `C_GetSlotInfo` tells.
pub struct SlotInfo {
    /// Text of any length; the C interface pads and cuts.
    pub description: String,
    /// Text.
    pub manufacturer: &'static str,
    /// Always: a slot whose token was never initialised holds one to be initialised.
    pub token_present: bool,
    /// Version of the hardware.
    pub hardware: (u8, u8),
    /// Version of the firmware.
    pub firmware: (u8, u8),
}

/// What `C_GetTokenInfo` tells.
pub struct TokenInfo {
    /// Blank-padded.
    pub label: [u8; 32],
    /// Text.
    pub manufacturer: &'static str,
    /// Text.
    pub model: &'static str,
    /// Text of at most sixteen bytes.
    pub serial: String,
    /// `CKF_*`.
    pub flags: u64,
    /// Most sessions.
    pub max_sessions: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Most read/write sessions.
    pub max_rw_sessions: u64,
    /// Open read/write sessions.
    pub rw_sessions: u64,
    /// Longest PIN in bytes.
    pub max_pin_len: u64,
    /// Shortest PIN in bytes.
    pub min_pin_len: u64,
    /// Version of the hardware.
    pub hardware: (u8, u8),
    /// Version of the firmware.
    pub firmware: (u8, u8),
    /// The clock: `YYYYMMDDhhmmss00`.
    pub utc_time: [u8; 16],
}

/// What `C_GetMechanismInfo` tells.
pub struct MechanismInfo {
    /// Smallest key.
    pub min: u64,
    /// Largest key.
    pub max: u64,
    /// `CKF_*`.
    pub flags: u64,
}

impl Module {
    /// `C_GetSlotList`. Tokens that other processes made since show up here.
    pub fn slots(&self, _token_present: bool) -> Result<Vec<SlotId>> {
        let state = self.state()?;
        let mut slots = state.slots();
        scan(&state.settings, &mut slots)?;
        Ok(slots.iter().map(|slot| slot.id).collect())
    }

    /// `C_GetSlotInfo`
    pub fn slot(&self, slot: SlotId) -> Result<SlotInfo> {
        let state = self.state()?;
        let known = state.slots().iter().any(|known| known.id == slot);
        if !known {
            return Err(Error::SlotIdInvalid);
        }
        Ok(SlotInfo {
            description: format!("Jeton slot {}", slot.0),
            manufacturer: MANUFACTURER,
            token_present: true,
            hardware: version(),
            firmware: version(),
        })
    }

    /// `C_GetTokenInfo`
    pub fn token(&self, slot: SlotId) -> Result<TokenInfo> {
        let pins = self.state()?.settings.pins;
        let mut info = TokenInfo {
            label: NO_LABEL,
            manufacturer: MANUFACTURER,
            model: MODEL,
            serial: String::new(),
            flags: flag::RNG | flag::LOGIN_REQUIRED | flag::CLOCK_ON_TOKEN,
            max_sessions: crate::session::table::MAX_SESSIONS as u64,
            sessions: 0,
            max_rw_sessions: crate::session::table::MAX_SESSIONS as u64,
            rw_sessions: 0,
            max_pin_len: pins.max_length as u64,
            min_pin_len: pins.min_length as u64,
            hardware: version(),
            firmware: version(),
            utc_time: crate::object::clock::now(),
        };
        if self.may_be_asynchronous() {
            info.flags |= flag::ASYNC_SESSION_SUPPORTED;
        }
        match self.token_in(slot) {
            Ok(token) => describe(&mut info, &token)?,
            Err(Error::TokenNotRecognized) => {}
            Err(error) => return Err(error),
        }
        Ok(info)
    }

    /// `C_WaitForSlotEvent`: a slot whose token came since `C_Initialize`, made by another process; each is told once.
    /// Waits for one, or answers `NoEvent`.
    pub fn wait_for_slot_event(&self, wait: bool) -> Result<SlotId> {
        let state = self.state()?;
        let (mut before, mut looked_at) = (None, None);
        loop {
            let strangers = state.strangers()?;
            let mut slots = state.slots();
            // A file is looked at when it rests: its maker must not be disturbed, and one that is no token is not to
            // fill the log. But for the first time: then something is known at once.
            let rests = before.as_ref().is_none_or(|before| *before == strangers);
            if !strangers.is_empty() && rests && looked_at.as_ref() != Some(&strangers) {
                scan(&state.settings, &mut slots)?;
                looked_at = Some(strangers.clone());
            }
            before = Some(strangers);
            if let Some(slot) = slots.iter_mut().find(|slot| slot.event) {
                slot.event = false;
                return Ok(slot.id);
            }
            drop(slots);
            if !wait {
                return Err(Error::NoEvent);
            }
            std::thread::sleep(POLL);
            // PKCS#11 3.2, C_WaitForSlotEvent: C_Finalize ends the wait.
            if !self.state().is_ok_and(|now| Arc::ptr_eq(&now, &state)) {
                return Err(Error::NotInitialized);
            }
        }
    }

    /// `C_GetMechanismList`
    pub fn mechanisms(&self, slot: SlotId) -> Result<Vec<MechanismType>> {
        self.slot(slot)?;
        Ok(self.state()?.settings.mechanisms.iter().map(|mechanism| mechanism.id).collect())
    }

    /// `C_GetMechanismInfo`
    pub fn mechanism(&self, slot: SlotId, mechanism: MechanismType) -> Result<MechanismInfo> {
        self.slot(slot)?;
        let state = self.state()?;
        let row = state.settings.mechanism(mechanism).ok_or(Error::MechanismInvalid)?;
        Ok(MechanismInfo { min: row.sizes.0, max: row.sizes.1, flags: row.does() })
    }

    /// `C_InitToken`: a new token in the free slot, or a token anew, which needs its SO PIN.
    pub fn init_token(&self, slot: SlotId, so_pin: &[u8], label: &[u8; 32]) -> Result<()> {
        let outcome = match self.token_in(slot) {
            Ok(token) => token.reinitialize(so_pin, *label),
            Err(Error::TokenNotRecognized) => self.make_token(slot, so_pin, label),
            Err(error) => Err(error),
        };
        if let Some(audit) = &self.state()?.settings.audit {
            let token = self.token_in(slot).ok().map(|token| token.serial().to_owned());
            let result = super::audit::outcome(outcome.as_ref().err());
            audit.note(Record { token, function: "C_InitToken", result, ..Record::default() });
        }
        outcome
    }

    /// `C_InitPIN`
    pub fn init_pin(&self, session: SessionHandle, pin: &[u8]) -> Result<()> {
        self.recorded(session, Call::of("C_InitPIN", None, &[]), || {
            let (token, rights) = self.access(session)?;
            if !rights.read_write {
                return Err(Error::SessionReadOnly);
            }
            token.init_pin(pin)
        })
    }

    /// `C_SetPIN`
    pub fn set_pin(&self, session: SessionHandle, old: &[u8], new: &[u8]) -> Result<()> {
        self.recorded(session, Call::of("C_SetPIN", None, &[]), || {
            let (token, rights) = self.access(session)?;
            if !rights.read_write {
                return Err(Error::SessionReadOnly);
            }
            token.set_pin(old, new)
        })
    }

    /// A token in the free slot. The slot keeps its number, and a new free one comes after it.
    fn make_token(&self, slot: SlotId, so_pin: &[u8], label: &[u8; 32]) -> Result<()> {
        let state = self.state()?;
        fits(so_pin, &state.settings.pins)?;
        let header = Token::header(new_serial()?, slot.0, *label, so_pin, &state.settings, Change(1))?;
        let mut slots = state.slots();
        let free = slots.iter().position(|known| known.id == slot && known.token.is_none());
        let free = free.ok_or(Error::SlotIdInvalid)?;
        let store = SqliteStore::create(&state.settings.token_dir, &header)?;
        let token = Token::open(slot, Arc::clone(&state.settings), Box::new(store))?;
        slots[free] = Slot { id: slot, token: Some(Arc::new(token)), event: false };
        scan(&state.settings, &mut slots)
    }
}

impl State {
    /// The files that may be tokens and are in no slot, and how they are.
    fn strangers(&self) -> Result<Vec<(PathBuf, Stamp)>> {
        let files = SqliteStore::files(&self.settings.token_dir)?;
        let slots = self.slots();
        let unknown = files.into_iter().filter(|path| !slots.iter().any(|slot| slot.is_of(path)));
        Ok(unknown.map(|path| (path.clone(), SqliteStore::stamp(&path))).collect())
    }
}

fn describe(info: &mut TokenInfo, token: &Token) -> Result<()> {
    let header = token.stored_header()?;
    let sessions = token.sessions();
    let pins = &token.settings.pins;
    info.label = header.label;
    info.serial.clone_from(&header.serial);
    info.sessions = sessions.all;
    info.rw_sessions = sessions.read_write;
    info.flags |= flag::TOKEN_INITIALIZED;
    if !header.user.record.is_empty() {
        info.flags |= flag::USER_PIN_INITIALIZED;
    }
    let user = [flag::USER_PIN_COUNT_LOW, flag::USER_PIN_FINAL_TRY, flag::USER_PIN_LOCKED];
    let officer = [flag::SO_PIN_COUNT_LOW, flag::SO_PIN_FINAL_TRY, flag::SO_PIN_LOCKED];
    info.flags |= failures(&header.user, pins, user) | failures(&header.so, pins, officer);
    Ok(())
}

/// What the failures of a PIN say: some, all but one, all.
fn failures(pin: &PinState, rules: &PinRules, [low, last, locked]: [u64; 3]) -> u64 {
    match rules.retries.saturating_sub(pin.failures) {
        0 => locked,
        _ if pin.failures == 0 => 0,
        1 => low | last,
        _ => low,
    }
}

/// The version of this build; the token is its own hardware and firmware.
fn version() -> (u8, u8) {
    let part = |text: &str| text.parse().unwrap_or(0);
    (part(env!("CARGO_PKG_VERSION_MAJOR")), part(env!("CARGO_PKG_VERSION_MINOR")))
}
