//! What keeps the counters of wrong PINs for the guesses of people. A token counts the wrong PINs
//! of all its users together, and ten of them lock it.
//!
//! One client has a few tries of its own, which end before those of the token. The agent's own
//! login tries a wrong PIN once.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jeton::error::{Error, Result as Outcome};
use jeton::functions::{Module, PinMark, User};
use jeton::id::{SessionHandle, SlotId, session_state};
use jeton_agent_wire::Call;
use tracing::{error, warn};
use zeroize::Zeroizing;

use crate::application::slot_of;
use crate::lock;
use crate::rules::Rule;

/// The wrong PINs of a client for a user of a token that the agent passes on. Half of those that a
/// token allows.
const MOST_WRONG: u32 = 5;
/// How long a client waits after that number of wrong PINs.
const PAUSE: Duration = Duration::from_secs(600);

/// A client, the serial number of a token, and the user whose PIN it is.
type Key = (String, String, User);

/// The tries of all clients.
#[derive(Default)]
pub(crate) struct Pins {
    clients: Mutex<HashMap<Key, Arc<Tries>>>,
    /// The wrong PINs of the agent's own logins, by the serial number of the token. One is locked
    /// during a login, so that many sessions that open at once try a PIN once.
    own: Mutex<HashMap<String, Arc<Mutex<Refused>>>>,
    /// Why the agent did not log in for a client last. The log says each reason once in a row.
    failures: Mutex<HashMap<String, String>>,
}

/// The tries of a client for a user of a token.
#[derive(Default)]
struct Tries {
    counts: Mutex<Counts>,
    /// Wakes a try that waits for the outcome of others.
    ended: Condvar,
}

#[derive(Default)]
struct Counts {
    wrong: u32,
    /// The tries that run. Each counts as a wrong one until its end.
    running: u32,
    last_wrong: Option<Instant>,
}

/// A try that runs. It ends when the value is dropped, as a wrong one unless
/// [`end`](Self::end) says otherwise.
pub(crate) struct Try {
    tries: Arc<Tries>,
    outcome: Outcome<()>,
}

/// The PINs that were wrong while the user's PIN had this mark.
#[derive(Default)]
struct Refused {
    mark: PinMark,
    pins: Vec<Zeroizing<Vec<u8>>>,
}

impl Pins {
    /// Begins the try that a call makes. `None` if the call tries no PIN. Fails with `PinLocked` if
    /// the client has no try left.
    pub(crate) fn begin(
        &self,
        client: &str,
        module: &Module,
        session: SessionHandle,
        call: &Call<'_>,
    ) -> Outcome<Option<Try>> {
        let Some((slot, user)) = tried(module, session, call) else { return Ok(None) };
        let Ok(token) = module.token(slot) else { return Ok(None) };
        let tries =
            Arc::clone(lock(&self.clients).entry((client.to_owned(), token.serial, user)).or_default());
        if tries.begin() {
            return Ok(Some(Try { tries, outcome: Err(Error::PinIncorrect) }));
        }
        warn!(client, "a PIN is not tried after {MOST_WRONG} wrong ones");
        Err(Error::PinLocked)
    }

    /// Logs in to a token with the PIN of a rule.
    pub(crate) fn log_in(
        &self,
        rule: &Rule,
        client: &str,
        module: &Module,
        session: SessionHandle,
        slot: SlotId,
    ) {
        let outcome = self.try_pin(rule, module, session, slot);
        let mut failures = lock(&self.failures);
        match outcome {
            Ok(()) => drop(failures.remove(client)),
            Err(reason) if failures.get(client) == Some(&reason) => {}
            Err(reason) => {
                error!(client, reason, "the agent cannot log in");
                failures.insert(client.to_owned(), reason);
            }
        }
    }

    /// A PIN that was wrong is not tried again before the user's PIN changes.
    fn try_pin(
        &self,
        rule: &Rule,
        module: &Module,
        session: SessionHandle,
        slot: SlotId,
    ) -> Result<(), String> {
        let pin = rule.pin().map_err(|reason| format!("no PIN: {reason}"))?;
        let (Ok(Some(mark)), Ok(token)) = (module.pin_mark(slot, User::User), module.token(slot)) else {
            return Err("the token has no user PIN".to_owned());
        };
        let refused = Arc::clone(lock(&self.own).entry(token.serial).or_default());
        let mut refused = lock(&refused);
        if refused.mark != mark {
            *refused = Refused { mark, pins: Vec::new() };
        }
        let wrong = || Err("the PIN is wrong: it is not tried again".to_owned());
        if refused.pins.contains(&pin) {
            return wrong();
        }
        match module.login(session, User::User, &pin) {
            Ok(()) | Err(Error::UserAlreadyLoggedIn) => Ok(()),
            Err(Error::PinIncorrect) => {
                refused.pins.push(pin);
                wrong()
            }
            Err(error) => Err(format!("{error:?}")),
        }
    }
}

impl Tries {
    /// Counts a try before it is made. Waits while the client has tries left only if some that run
    /// turn out right. Returns `false` if it has none left.
    fn begin(&self) -> bool {
        let mut counts = lock(&self.counts);
        loop {
            if counts.last_wrong.is_none_or(|last| last.elapsed() > PAUSE) {
                counts.wrong = 0;
            }
            let is_used_up = counts.wrong >= MOST_WRONG;
            if is_used_up || counts.wrong + counts.running < MOST_WRONG {
                counts.running += u32::from(!is_used_up);
                // The end of one try may decide about several that wait.
                self.ended.notify_one();
                return !is_used_up;
            }
            counts = self.ended.wait(counts).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Try {
    /// Ends the try with the result of the call.
    pub(crate) fn end(mut self, outcome: Outcome<()>) {
        self.outcome = outcome;
    }
}

impl Drop for Try {
    fn drop(&mut self) {
        let mut counts = lock(&self.tries.counts);
        counts.running -= 1;
        match self.outcome {
            Ok(()) => counts.wrong = 0,
            Err(Error::PinIncorrect) => {
                counts.wrong += 1;
                counts.last_wrong = Some(Instant::now());
            }
            Err(_) => {}
        }
        self.tries.ended.notify_one();
    }
}

/// Returns the slot of the token and the user whose PIN a call tries.
fn tried(module: &Module, session: SessionHandle, call: &Call<'_>) -> Option<(SlotId, User)> {
    let user = |is_so| if is_so { User::SecurityOfficer } else { User::User };
    match call {
        Call::C_Login { user: of, .. } | Call::C_LoginUser { user: of, .. } => {
            Some((slot_of(module, session)?, user(*of == User::SecurityOfficer)))
        }
        Call::C_SetPIN { .. } => {
            let session = module.session(session).ok()?;
            Some((session.slot, user(session.state == session_state::RW_SO_FUNCTIONS)))
        }
        Call::C_InitToken { slot, .. } => Some((*slot, User::SecurityOfficer)),
        _ => None,
    }
}
