//! Slots and tokens (PKCS#11 3.2, "Slot and token management functions").

use std::sync::Arc;
use std::time::Duration;

use jeton_words::session::Access;
use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo, Wait};

use super::audit::Call;
use super::session::role;
use super::tokens::SlotToken;
use super::{Module, Slot, Threads, Tokens, User};
use crate::audit::Record;
use crate::config::PinRules;
use crate::error::{Error, Result, require};
use crate::id::{MechanismType, SessionHandle, SlotId, token_flag as flag};
use crate::store::Change;
use crate::store::seal::pin_record::{self, PinMark};
use crate::sync::lock;
use crate::token::{Token, fits, new_serial};

const MANUFACTURER: &str = "Jeton";
/// The interval at which a waiting thread looks for new tokens.
const POLL: Duration = Duration::from_millis(250);
const MODEL: &str = "Jeton";
/// The blank label that a token has before it is initialised.
const NO_LABEL: [u8; 32] = [b' '; 32];

impl Module {
    /// `C_GetSlotList`. Every slot has an initialised token, or a token that can be initialised.
    /// Adds the tokens that other processes have created since the last call.
    pub fn slots(&self) -> Result<Vec<SlotId>> {
        let state = self.state()?;
        state.scan(&state.lock_list())?;
        let slots = lock(&state.slots);
        Ok(slots.iter().map(|slot| slot.id).collect())
    }

    /// Returns the number of slots when they were last listed.
    pub fn slot_count(&self) -> usize {
        self.state().map_or(0, |state| lock(&state.slots).len())
    }

    /// `C_GetSlotInfo`
    pub fn slot(&self, slot: SlotId) -> Result<SlotInfo> {
        let state = self.state()?;
        state.known(slot)?;
        Ok(SlotInfo {
            description: format!("Jeton slot {}", slot.0),
            manufacturer: MANUFACTURER.into(),
            token_present: true,
            removable: state.settings.removable,
            hardware: version(),
            firmware: version(),
        })
    }

    /// `C_GetTokenInfo`
    pub fn token(&self, slot: SlotId) -> Result<TokenInfo> {
        let state = self.state()?;
        let pins = state.settings.pins;
        let mut info = TokenInfo {
            label: NO_LABEL,
            manufacturer: MANUFACTURER.into(),
            model: MODEL.into(),
            serial: String::new(),
            flags: flag::RNG
                | flag::LOGIN_REQUIRED
                | flag::RESTORE_KEY_NOT_NEEDED
                | flag::DUAL_CRYPTO_OPERATIONS
                | flag::CLOCK_ON_TOKEN,
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
        if self.threads() == Threads::Allowed {
            info.flags |= flag::ASYNC_SESSION_SUPPORTED;
        }
        if let Some(known) = state.known(slot)? {
            describe(&mut info, &known, &state)?;
            if let Some(token) = known.client_in_memory(&self.application) {
                let sessions = token.sessions();
                info.sessions = sessions.all;
                info.rw_sessions = sessions.read_write;
            }
        }
        Ok(info)
    }

    /// `C_WaitForSlotEvent`. Returns a slot whose token another process created after
    /// `C_Initialize`. Each such slot is returned once. Without such a slot the call waits, or
    /// fails with `NoEvent`.
    pub fn wait_for_slot_event(&self, wait: Wait) -> Result<SlotId> {
        let state = self.state()?;
        let mut may_have_new = state.source.watch();
        loop {
            let list = state.lock_list();
            if may_have_new()? {
                state.scan(&list)?;
            }
            // A token that was not there at `C_Initialize` and was not returned yet.
            let is_new = |slot: &&Slot| slot.token.is_some() && lock(&self.announced).insert(slot.id);
            let new = lock(&state.slots).iter().find(is_new).map(|slot| slot.id);
            if let Some(slot) = new {
                return Ok(slot);
            }
            drop(list);
            require(wait != Wait::Never, Error::NoEvent)?;
            std::thread::sleep(POLL);
            // PKCS#11 3.2, C_WaitForSlotEvent: C_Finalize ends the wait.
            require(self.state().is_ok_and(|now| Arc::ptr_eq(&now, &state)), Error::NotInitialized)?;
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
        let (min, max) = state.settings.sizes(row);
        Ok(MechanismInfo { min, max, flags: state.settings.does(row) })
    }

    /// `C_InitToken`. Creates a token in the free slot, or initialises a token again, which needs
    /// its SO PIN.
    pub fn init_token(&self, slot: SlotId, so_pin: &[u8], label: &[u8; 32]) -> Result<()> {
        let outcome = match self.token_in(slot) {
            Ok(token) => token.reinitialize(so_pin, *label),
            Err(Error::TokenNotRecognized) => self.make_token(slot, so_pin, label),
            Err(error) => Err(error),
        };
        if let Some(audit) = &self.state()?.settings.audit {
            let token = self.token_in(slot).ok().map(|token| token.serial().to_owned());
            let result = super::audit::describe(&outcome);
            let client = self.application.identity.as_ref().map(|identity| identity.name.clone());
            audit.note(Record { token, client, function: "C_InitToken", result, ..Record::default() });
        }
        self.state()?.note_idle(slot);
        outcome
    }

    /// `C_InitPIN`
    pub fn init_pin(&self, session: SessionHandle, pin: &[u8]) -> Result<()> {
        self.record_call(session, Call::of("C_InitPIN", None, &[]), |token, rights| {
            require(rights.access != Access::ReadOnly, Error::SessionReadOnly)?;
            token.init_pin(pin)
        })
    }

    /// `C_SetPIN`
    pub fn set_pin(&self, session: SessionHandle, old: &[u8], new: &[u8]) -> Result<()> {
        self.record_call(session, Call::of("C_SetPIN", None, &[]), |token, rights| {
            require(rights.access != Access::ReadOnly, Error::SessionReadOnly)?;
            token.set_pin(old, new)
        })
    }

    /// Returns a mark of the PIN that a user of the token has now; `None` if the PIN is not set, or
    /// the slot has no token. Reading it tries no PIN.
    ///
    /// A program that keeps a PIN for later keeps this mark with it, and uses the PIN only while
    /// the token has the same mark: a PIN that was replaced would count as a wrong one. `C_SetPIN`,
    /// `C_InitPIN`, `C_InitToken` and a new token key change the mark, also if the new PIN is the
    /// old one. A login that replaces a weak PIN record leaves it as it is. The mark reveals
    /// nothing about the PIN.
    ///
    /// Read the mark before the login with the PIN. If the PIN is replaced in between, the mark is
    /// an old one, and the PIN is not used again.
    pub fn pin_mark(&self, slot: SlotId, user: User) -> Result<Option<PinMark>> {
        let state = self.state()?;
        let Some(known) = state.known(slot)? else { return Ok(None) };
        let header = known.header(&state)?;
        let role = role(user);
        pin_record::pin_mark(&header.serial, role, &header.pin(role).record, state.settings.provider)
    }

    /// Creates a token in the free slot. The slot keeps its number, and a new free slot follows.
    fn make_token(&self, slot: SlotId, so_pin: &[u8], label: &[u8; 32]) -> Result<()> {
        let state = self.state()?;
        fits(so_pin, &state.settings.pins)?;
        let header = Token::header(new_serial()?, slot.0, *label, so_pin, &state.settings, Change(1))?;
        let list = state.lock_list();
        if let Some(most) = state.settings.most_tokens {
            state.scan(&list)?;
            let tokens = lock(&state.slots).iter().filter(|known| known.token.is_some()).count();
            require(tokens < most, Error::DeviceMemory)?;
        }
        if !lock(&state.slots).iter().any(|known| known.id == slot && known.token.is_none()) {
            return Err(Error::SlotIdInvalid);
        }
        state.source.create(&header)?;
        let token = SlotToken::new(slot, &header);
        let mut slots = lock(&state.slots);
        slots.retain(|known| known.id != slot);
        slots.push(Slot { id: slot, token: Some(Arc::new(token)) });
        state.finish(&mut slots);
        lock(&self.announced).insert(slot);
        Ok(())
    }
}

fn describe(info: &mut TokenInfo, known: &SlotToken, tokens: &Tokens) -> Result<()> {
    let facts = known.facts(tokens)?;
    let pins = &tokens.settings.pins;
    info.label = facts.label;
    info.serial.clone_from(&known.serial);
    info.flags |= flag::TOKEN_INITIALIZED;
    if known.is_write_protected(tokens)? {
        info.flags |= flag::WRITE_PROTECTED;
    }
    if facts.has_user_pin {
        info.flags |= flag::USER_PIN_INITIALIZED;
    }
    let user = [flag::USER_PIN_COUNT_LOW, flag::USER_PIN_FINAL_TRY, flag::USER_PIN_LOCKED];
    let so = [flag::SO_PIN_COUNT_LOW, flag::SO_PIN_FINAL_TRY, flag::SO_PIN_LOCKED];
    info.flags |= failures(facts.user_failures, pins, user) | failures(facts.so_failures, pins, so);
    Ok(())
}

/// Returns the flags of a PIN if some, all but one, or all of its attempts have failed.
fn failures(failures: u32, rules: &PinRules, [low, last, locked]: [u64; 3]) -> u64 {
    match rules.retries.saturating_sub(failures) {
        0 => locked,
        _ if failures == 0 => 0,
        1 => low | last,
        _ => low,
    }
}

/// Returns the version of this build, which is both the hardware and the firmware version.
fn version() -> (u8, u8) {
    let part = |text: &str| text.parse().unwrap_or(0);
    (part(env!("CARGO_PKG_VERSION_MAJOR")), part(env!("CARGO_PKG_VERSION_MINOR")))
}
