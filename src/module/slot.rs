//! Slots and tokens (PKCS#11 3.2, "Slot and token management functions").

use std::sync::Arc;

use super::{Module, Slot, scan};
use crate::config::PinRules;
use crate::error::{Error, Result};
use crate::id::{MechanismType, SessionHandle, SlotId, token_flag as flag};
use crate::store::PinState;
use crate::store::sqlite::SqliteStore;
use crate::token::{Token, fits, new_serial};

const MANUFACTURER: &str = "Jeton";
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
        match self.token_in(slot) {
            Ok(token) => describe(&mut info, &token)?,
            Err(Error::TokenNotRecognized) => {}
            Err(error) => return Err(error),
        }
        Ok(info)
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
        Ok(MechanismInfo { min: row.sizes.0, max: row.sizes.1, flags: row.flags })
    }

    /// `C_InitToken`: a new token in the free slot, or a token anew, which needs its SO PIN.
    pub fn init_token(&self, slot: SlotId, so_pin: &[u8], label: &[u8; 32]) -> Result<()> {
        match self.token_in(slot) {
            Ok(token) => token.reinitialize(so_pin, *label),
            Err(Error::TokenNotRecognized) => self.make_token(slot, so_pin, label),
            Err(error) => Err(error),
        }
    }

    /// `C_InitPIN`
    pub fn init_pin(&self, session: SessionHandle, pin: &[u8]) -> Result<()> {
        let (token, rights) = self.access(session)?;
        if !rights.read_write {
            return Err(Error::SessionReadOnly);
        }
        token.init_pin(pin)
    }

    /// `C_SetPIN`
    pub fn set_pin(&self, session: SessionHandle, old: &[u8], new: &[u8]) -> Result<()> {
        let (token, rights) = self.access(session)?;
        if !rights.read_write {
            return Err(Error::SessionReadOnly);
        }
        token.set_pin(old, new)
    }

    /// A token in the free slot. The slot keeps its number, and a new free one comes after it.
    fn make_token(&self, slot: SlotId, so_pin: &[u8], label: &[u8; 32]) -> Result<()> {
        let state = self.state()?;
        fits(so_pin, &state.settings.pins)?;
        let header = Token::header(new_serial()?, slot.0, *label, so_pin, &state.settings)?;
        let mut slots = state.slots();
        let free = slots.iter().position(|known| known.id == slot && known.token.is_none());
        let free = free.ok_or(Error::SlotIdInvalid)?;
        let store = SqliteStore::create(&state.settings.token_dir, &header)?;
        let token = Token::open(slot, Arc::clone(&state.settings), Box::new(store))?;
        slots[free] = Slot { id: slot, token: Some(Arc::new(token)) };
        scan(&state.settings, &mut slots)
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
