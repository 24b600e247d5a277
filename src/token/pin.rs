//! PINs and the login (PKCS#11 3.2, `C_InitToken`, `C_InitPIN`, `C_SetPIN`, `C_Login`).
//!
//! No lock of the token in memory is held while a PIN is tried: Argon2id is slow, and other
//! sessions continue in the meantime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tracing::{error, info, warn};

use super::client::{ClientToken, Sessions};
use super::known_pin::KnownPin;
use super::state::Token;
use crate::config::{PinRules, Settings};
use crate::error::{Error, Result, require};
use crate::object::access::Login;
use crate::store::seal::sealing_key::{self, SealingKey};
use crate::store::seal::summary::Summary;
use crate::store::seal::{TokenKey, pin_record};
use crate::store::{Attempt, Change, Header, PinState, Role};
use crate::sync::lock;

/// An attempt is refused if its turn begins later than this.
const LONGEST_QUEUE: Duration = Duration::from_secs(20);

/// Where the failure of an attempt is counted.
enum Counted {
    OnDisk(#[allow(dead_code, reason = "held until the failure is forgiven")] Attempt),
    /// Only in the memory of this process.
    InMemory,
}

/// The turns of attempts that cannot be counted on disk. They run one after the other, so that more
/// threads do not allow more attempts.
static UNCOUNTED: Turns = Turns(AtomicU64::new(0));

/// The start of the next free turn, in milliseconds of the monotonic clock. This is not a lock: the
/// child of a fork could inherit a locked lock, and the thread that holds it does not exist in the
/// child.
struct Turns(AtomicU64);

impl Turns {
    /// Waits for a free turn of this length, and until the turn is over. Returns `false` without
    /// waiting if the queue is too long.
    fn wait(&self, length: Duration) -> bool {
        let (now, length) = (milliseconds(), u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
        let longest = u64::try_from(LONGEST_QUEUE.as_millis()).unwrap_or(u64::MAX);
        let begin = |free: u64| free.max(now);
        let reserve = |free| (begin(free) - now <= longest).then(|| begin(free).saturating_add(length));
        let Ok(free) = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, reserve) else {
            return false;
        };
        std::thread::sleep(Duration::from_millis(begin(free).saturating_add(length) - now));
        true
    }
}

fn milliseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Both numbers are positive on this clock.
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// The result of an attempt with the right PIN.
pub(crate) struct Unwrapped {
    pub(super) key: TokenKey,
    /// The incarnation of the token that the key belongs to.
    pub(super) incarnation: i64,
    pub(super) record: Vec<u8>,
}

/// The time in which `C_InitToken` erases a token. Its end lets sessions open again.
struct Erasing<'a>(&'a Token);

impl Drop for Erasing<'_> {
    fn drop(&mut self) {
        self.0.state().erasing = false;
    }
}

/// An attacker who has the file can guess a PIN with fewer bytes within hours. Such a PIN is
/// allowed, and the log warns about it. The validated module asks for a password of 14 bytes.
const SHORT: usize = if cfg!(feature = "fips") { 14 } else { 8 };

impl Token {
    /// Initialises the token again. Needs the current SO PIN. Destroys all objects and the user
    /// PIN.
    ///
    /// The PIN takes long to try, so the sessions are counted again before the token is erased.
    /// From then on, no session opens until the initialisation ends.
    pub(crate) fn reinitialize(&self, so_pin: &[u8], label: [u8; 32]) -> Result<()> {
        require(!self.has_sessions(), Error::SessionExists)?;
        self.unwrap(Role::SecurityOfficer, so_pin)?;
        let latest = self.latest();
        let old = self.store.header()?;
        self.expect_no_roll_back(latest, old.change)?;
        let header =
            Self::header(old.serial, old.slot, label, so_pin, &self.settings, old.change.next_incarnation())?;
        let change = self.lock_changes();
        {
            let mut state = self.state();
            require(!self.has_sessions(), Error::SessionExists)?;
            state.erasing = true;
        }
        let _erasing = Erasing(self);
        self.store.initialize(&header)?;
        self.load_changes(&change)
    }

    /// Returns the header of a new token, with a new token key wrapped under the SO PIN. `change`
    /// is the first change number of the store.
    pub(crate) fn header(
        serial: String,
        slot: u64,
        label: [u8; 32],
        so_pin: &[u8],
        settings: &Settings,
        change: Change,
    ) -> Result<Header> {
        let key = TokenKey::generate(settings.token_format)?;
        let sealing = settings.sealing_key.as_ref().map(SealingKey::read).transpose()?;
        let record =
            key.wrap(&serial, Role::SecurityOfficer, so_pin, &settings.pins, sealing.as_ref(), None)?;
        warn_if_short(&serial, Role::SecurityOfficer, so_pin);
        let summary = key.seal_summary(&serial, &Summary::empty(change))?;
        let so = PinState { record, failures: 0 };
        Ok(Header { serial, slot, label, so, user: PinState::default(), change, summary })
    }

    /// Replaces a PIN record whose parameters are weaker than the configured ones. The login stays
    /// valid if this fails. If another process has replaced the record in the meantime, that record
    /// stays.
    fn strengthen(&self, key: (&TokenKey, i64), role: Role, old: &[u8], pin: &[u8]) {
        let Some(rules) = pin_record::stronger(old, &self.settings.pins) else { return };
        let sealing = self.sealing_for(old, None);
        let renewed = sealing
            .and_then(|sealing| key.0.wrap(&self.serial, role, pin, &rules, sealing.as_ref(), Some(old)));
        let renewed =
            renewed.and_then(|record| self.commit_pin(&self.lock_changes(), key, role, Some(old), &record));
        match renewed {
            Ok(done) => info!(token = self.serial, ?role, done, "a login replaces the weak PIN record"),
            Err(reason) => {
                warn!(token = self.serial, ?role, ?reason, "the weak PIN record could not be replaced")
            }
        }
    }

    /// Sets a new SO PIN with the user's PIN, for an SO PIN that is locked or lost. No PKCS#11
    /// function does this, so that a session of the user cannot become one of the SO.
    pub fn reset_so_pin(&self, user_pin: &[u8], new: &[u8]) -> Result<()> {
        self.fits(new)?;
        let Unwrapped { key, incarnation, .. } = self.unwrap(Role::User, user_pin)?;
        self.wrap((&key, incarnation), Role::SecurityOfficer, None, new)
    }

    /// Replaces the token's label after a check of the SO PIN. PKCS#11 can only do this with
    /// `C_InitToken`, which erases the token.
    pub fn rename(&self, so_pin: &[u8], label: &[u8; 32]) -> Result<()> {
        self.unwrap(Role::SecurityOfficer, so_pin)?;
        self.store.relabel(label)
    }

    /// Resets the failures of both PINs to zero.
    pub fn reset_failures(&self) -> Result<()> {
        [Role::SecurityOfficer, Role::User].into_iter().try_for_each(|role| self.store.forgive(role))
    }

    /// Fails with `PinLenRange` if the PIN is too short or too long.
    pub(crate) fn fits(&self, pin: &[u8]) -> Result<()> {
        fits(pin, &self.settings.pins)
    }

    /// Reads the configured sealing key; `None` if the configuration has none.
    pub(super) fn sealing_key(&self) -> Result<Option<SealingKey>> {
        self.settings.sealing_key.as_ref().map(SealingKey::read).transpose()
    }

    /// Returns the sealing key that a PIN record needs: the configured one or `other`. Fails with
    /// `DeviceError` if neither of them is the needed key.
    fn sealing_for(&self, record: &[u8], other: Option<&SealingKey>) -> Result<Option<SealingKey>> {
        let Some(needed) = pin_record::sealing_id(record) else { return Ok(None) };
        if let Some(other) = other.filter(|other| other.id() == needed) {
            return Ok(Some(other.duplicate()));
        }
        let key = self.sealing_key()?;
        let found = key.as_ref().map_or("none".to_owned(), |key| sealing_key::text(key.id()));
        if let Some(key) = key.filter(|key| key.id() == needed) {
            return Ok(Some(key));
        }
        error!(
            token = self.serial,
            needed = sealing_key::text(needed),
            found,
            "no PIN opens the token without its sealing key; [store] sealing-key must name it"
        );
        Err(Error::DeviceError)
    }

    /// Unwraps the token key with a PIN. A failure is counted before the PIN is tried, on disk if
    /// possible, so that killing the process gains no attempts. The failure stays counted only if
    /// the PIN is wrong.
    fn unwrap(&self, role: Role, pin: &[u8]) -> Result<Unwrapped> {
        self.unwrap_with(role, pin, None)
    }

    /// Like `unwrap`, for a record that may need the sealing key `other`, which is not configured.
    pub(super) fn unwrap_with(
        &self,
        role: Role,
        pin: &[u8],
        other: Option<&SealingKey>,
    ) -> Result<Unwrapped> {
        let header = self.current_header()?;
        let PinState { record, failures } = header.pin(role);
        require(!record.is_empty(), Error::UserPinNotInitialized)?;
        // These steps come before the count, so their errors do not cost an attempt.
        let sealing = self.sealing_for(record, other)?;
        let prepared = TokenKey::prepare(role, record, sealing)?;
        let counted = self.count(role, *failures).inspect_err(|error| {
            // At the level that is on by default: a server shows its user no reason.
            error!(token = self.serial, ?role, failures, ?error, "PIN refused before it was tried");
        })?;
        match prepared.open(&self.serial, pin) {
            Ok(key) => {
                self.forgive(role, *failures, &counted);
                Ok(Unwrapped { key, incarnation: header.change.incarnation(), record: record.clone() })
            }
            Err(error) => {
                error!(token = self.serial, ?role, ?error, "login failed");
                if error != Error::PinIncorrect {
                    self.take_back(role, &counted);
                }
                Err(error)
            }
        }
    }

    /// Counts a failure before the PIN is tried.
    fn count(&self, role: Role, failures: u32) -> Result<Counted> {
        self.take_back_owed(role);
        let limit = self.settings.pins.retries.saturating_sub(self.tally(role).uncounted);
        match self.store.begin_attempt(role, limit) {
            Ok(attempt) => Ok(Counted::OnDisk(attempt)),
            Err(reason @ (Error::DeviceMemory | Error::TokenWriteProtected)) => {
                self.count_in_memory(role, failures, reason)?;
                Ok(Counted::InMemory)
            }
            Err(error) => Err(error),
        }
    }

    /// Allows an attempt although the disk is full or read-only: a server that restarts must be
    /// able to log in. Each such attempt waits for a delay. Wrong PINs are counted in memory and
    /// can lock the PIN for this process.
    fn count_in_memory(&self, role: Role, failures: u32, reason: Error) -> Result<()> {
        let seconds = self.settings.pins.uncounted_delay;
        // At the level that is on by default: otherwise nothing explains why the login is slow.
        error!(
            token = self.serial,
            ?role,
            ?reason,
            seconds,
            "a wrong PIN cannot be counted on disk: each try waits, so that PINs cannot be guessed quickly \
             ([pin] uncounted-delay)"
        );
        let delay = Duration::from_secs(seconds.into());
        if !UNCOUNTED.wait(delay) {
            return Err(reason);
        }
        // Read after the wait, because other attempts may have failed in the meantime.
        let mut tally = self.tally(role);
        require(failures.saturating_add(tally.uncounted) < self.settings.pins.retries, Error::PinLocked)?;
        tally.uncounted += 1;
        Ok(())
    }

    /// Resets the failures after a right PIN. The login is valid even if this fails; the next login
    /// resets them.
    fn forgive(&self, role: Role, failures: u32, counted: &Counted) {
        self.tally(role).uncounted = 0;
        if failures == 0 && matches!(counted, Counted::InMemory) {
            return;
        }
        match self.store.forgive(role) {
            Ok(()) => self.tally(role).owed = 0,
            Err(reason) => {
                warn!(
                    token = self.serial,
                    ?role,
                    ?reason,
                    "the PIN was right, but the count of wrong PINs could not be reset"
                );
                self.tally(role).owed += u32::from(matches!(counted, Counted::OnDisk(_)));
            }
        }
    }

    /// Subtracts the failure of an attempt that ended with another error than a wrong PIN.
    fn take_back(&self, role: Role, counted: &Counted) {
        match counted {
            Counted::OnDisk(_) => self.tally(role).owed += 1,
            Counted::InMemory => {
                let mut tally = self.tally(role);
                tally.uncounted = tally.uncounted.saturating_sub(1);
            }
        }
        self.take_back_owed(role);
    }

    /// Subtracts the failures of both PINs that could not be subtracted earlier.
    pub(super) fn take_back_all_owed(&self) {
        [Role::SecurityOfficer, Role::User].into_iter().for_each(|role| self.take_back_owed(role));
    }

    fn take_back_owed(&self, role: Role) {
        let owed = std::mem::take(&mut self.tally(role).owed);
        if owed == 0 {
            return;
        }
        if let Err(reason) = self.store.take_back(role, owed) {
            warn!(
                token = self.serial,
                ?role,
                owed,
                ?reason,
                "failures that were not wrong PINs could not be subtracted"
            );
            self.tally(role).owed += owed;
        }
    }

    /// Replaces the PIN that has the record `old`, or any PIN if `old` is `None`. Fails with
    /// `PinIncorrect` if another process has replaced that PIN in the meantime.
    fn wrap(&self, key: (&TokenKey, i64), role: Role, old: Option<&[u8]>, pin: &[u8]) -> Result<()> {
        let sealing = self.sealing_key()?;
        let record = key.0.wrap(&self.serial, role, pin, &self.settings.pins, sealing.as_ref(), None)?;
        warn_if_short(&self.serial, role, pin);
        if self.commit_pin(&self.lock_changes(), key, role, old, &record)? {
            Ok(())
        } else {
            Err(Error::PinIncorrect)
        }
    }
}

impl ClientToken {
    /// Logs in: unwraps the token key with the PIN, and loads the objects. They include private
    /// objects only for the user. Uses the unwrapped key if another application of the client is
    /// logged in with the same PIN.
    pub(crate) fn log_in(&self, role: Role, pin: &[u8]) -> Result<()> {
        self.may_log_in(role)?;
        let known = self.known_pin(role, pin)?.map(|(known, _)| known);
        let mut is_right = known.as_deref().map(|known| lock(&known.is_right));
        if let (Some(known), Some(true)) = (&known, is_right.as_deref())
            && let Some((key, incarnation)) = self.key_of_known(role, known, pin)?
        {
            return self.start_login(role, &key, incarnation, Some(known));
        }
        let unwrapped = self.unwrap(role, pin);
        if unwrapped.is_err() {
            known.iter().for_each(|known| self.known_pins.forget(known));
        }
        let Unwrapped { key, incarnation, record } = unwrapped?;
        is_right.iter_mut().for_each(|is_right| **is_right = true);
        let key = Arc::new(key);
        self.start_login(role, &key, incarnation, known.as_ref())?;
        drop(is_right);
        self.store.tidy();
        self.upgrade(&key, incarnation);
        self.strengthen((&key, incarnation), role, &record, pin);
        Ok(())
    }

    /// Returns the known PIN that equals `pin`, or a new one, and the header that it is for. `None`
    /// if the application has no client, or if the PIN was never set.
    fn known_pin(&self, role: Role, pin: &[u8]) -> Result<Option<(Arc<KnownPin>, Header)>> {
        let Some(identity) = self.identity() else { return Ok(None) };
        let header = self.current_header()?;
        let Some(mark) = pin_record::pin_mark(&self.serial, role, &header.pin(role).record, self.provider())?
        else {
            return Ok(None);
        };
        let known = self.known_pins.find(self.provider(), &identity.name, &mark, pin)?;
        Ok(Some((known, header)))
    }

    /// Returns the token key and its incarnation if another login with a PIN lasts. `None` if the
    /// PIN has to be tried.
    fn key_of_known(&self, role: Role, known: &KnownPin, pin: &[u8]) -> Result<Option<(Arc<TokenKey>, i64)>> {
        // The PIN may have been replaced while other logins had their turns.
        let Some((same, header)) = self.known_pin(role, pin)? else { return Ok(None) };
        let (failures, incarnation) = (header.pin(role).failures, header.change.incarnation());
        let is_locked = failures.saturating_add(self.tally(role).uncounted) >= self.settings.pins.retries;
        let key = {
            let state = self.state();
            let is_valid = same.equals(known) && !is_locked && state.incarnation == incarnation;
            state.key.clone().filter(|_| is_valid)
        };
        if key.is_some() {
            self.forgive(role, failures, &Counted::InMemory);
        }
        Ok(key.map(|key| (key, incarnation)))
    }

    fn start_login(
        &self,
        role: Role,
        key: &Arc<TokenKey>,
        incarnation: i64,
        pin: Option<&Arc<KnownPin>>,
    ) -> Result<()> {
        let login = match role {
            Role::User => Login::User,
            Role::SecurityOfficer => Login::SecurityOfficer,
        };
        let change = self.lock_changes();
        let is_loaded = {
            let mut state = self.state();
            self.may_log_in(role)?;
            let sessions = self.sessions();
            if role == Role::SecurityOfficer && sessions.all != sessions.read_write {
                return Err(Error::SessionReadOnlyExists);
            }
            // The logins of other applications have the key of an older incarnation.
            if state.incarnation != incarnation {
                self.end_logins(&change, &mut state);
            }
            // Another login has loaded the objects that this one sees.
            let is_loaded = state.key.as_ref().is_some_and(|known| Arc::ptr_eq(known, key));
            state.key = Some(Arc::clone(key));
            state.incarnation = incarnation;
            is_loaded && self.has_login(login)
        };
        let loaded = if is_loaded { self.load_changes(&change) } else { self.load_all(&change, key, login) };
        if let Err(error) = loaded {
            self.end_login(&change, &mut self.state());
            return Err(error);
        }
        // Sessions may have been opened or closed in the meantime.
        let mut state = self.state();
        let refused = match self.sessions() {
            Sessions { all: 0, .. } => Some(Error::SessionHandleInvalid),
            Sessions { all, read_write } if role == Role::SecurityOfficer && all != read_write => {
                Some(Error::SessionReadOnlyExists)
            }
            _ => None,
        };
        match refused {
            Some(error) => {
                self.end_login(&change, &mut state);
                Err(error)
            }
            None => {
                self.note_pin(&state, pin);
                self.publish(&state, login);
                Ok(())
            }
        }
    }

    /// Verifies the user's PIN again, for one use of a key with `CKA_ALWAYS_AUTHENTICATE`.
    pub(crate) fn authenticate(&self, pin: &[u8]) -> Result<()> {
        require(self.login_state() == Login::User, Error::UserNotLoggedIn)?;
        self.unwrap(Role::User, pin).map(drop)
    }

    /// `C_InitPIN`: the SO sets the user's PIN. This also unlocks the PIN.
    pub(crate) fn init_pin(&self, pin: &[u8]) -> Result<()> {
        require(self.login_state() == Login::SecurityOfficer, Error::UserNotLoggedIn)?;
        self.fits(pin)?;
        let (key, incarnation) = self.key()?;
        self.wrap((&key, incarnation), Role::User, None, pin)
    }

    /// `C_SetPIN`: changes the SO PIN if the SO is logged in, and the user PIN otherwise.
    pub(crate) fn set_pin(&self, old: &[u8], new: &[u8]) -> Result<()> {
        self.poll()?;
        let role = match self.login_state() {
            Login::SecurityOfficer => Role::SecurityOfficer,
            Login::User | Login::Public => Role::User,
        };
        self.fits(new)?;
        let Unwrapped { key, incarnation, record } = self.unwrap(role, old)?;
        self.wrap((&key, incarnation), role, Some(&record), new)
    }

    fn may_log_in(&self, role: Role) -> Result<()> {
        match (self.login_state(), role) {
            (Login::Public, _) => Ok(()),
            (Login::User, Role::User) | (Login::SecurityOfficer, Role::SecurityOfficer) => {
                Err(Error::UserAlreadyLoggedIn)
            }
            _ => Err(Error::UserAnotherAlreadyLoggedIn),
        }
    }
}

/// Warns if a new PIN is easy to guess.
pub(super) fn warn_if_short(token: &str, role: Role, pin: &[u8]) {
    if pin.len() < SHORT {
        warn!(
            token,
            ?role,
            "the PIN has fewer than {SHORT} characters: an attacker who has the file can guess it"
        );
    }
}

/// Fails with `PinLenRange` if the rules do not allow the length of the PIN.
pub(crate) fn fits(pin: &[u8], rules: &PinRules) -> Result<()> {
    let fits = (rules.min_length..=rules.max_length).contains(&pin.len());
    if fits { Ok(()) } else { Err(Error::PinLenRange) }
}
