//! The tries of PINs. A token counts the wrong PINs of all its users together, and ten of them lock
//! it. So one client has a few tries of its own, which end before those of the token, and the agent
//! tries a wrong PIN of a rule once. The front counts them: see `front/pin_tries.rs`.

use std::sync::atomic::Ordering;

use jeton::error::{Error, Result};
use jeton::functions::{Module, PinMark, User};
use jeton::id::{SessionHandle, SlotId, session_state};
use jeton_agent_wire::Call;
use tracing::{error, warn};

use crate::application::slot_of;
use crate::ask_front::Grant;
use crate::connection::Connection;
use crate::link::{Answer, Outcome, Question};
use crate::lock;
use crate::wrong_pins::{MOST_WRONG, Pin, WRONG, Wrong};

/// A try of a PIN that runs.
pub(crate) struct Try<'a> {
    grant: Grant<'a>,
    wrong: &'a Wrong,
    key: Pin,
}

impl Try<'_> {
    /// Ends it with the result of the call.
    pub(crate) fn end(self, result: Result<()>) {
        self.grant.end(match result {
            Ok(()) => {
                self.wrong.note(self.key, |_| 0);
                Outcome::Right
            }
            Err(Error::PinIncorrect) => {
                self.wrong.note(self.key, |wrong| MOST_WRONG.min(wrong + 1));
                Outcome::Wrong
            }
            Err(_) => Outcome::Neither,
        });
    }
}

impl Connection<'_> {
    /// Begins the try that a call makes. `None` if the call tries no PIN. Fails with `PinLocked` if
    /// the client has no try left.
    pub(crate) fn begin_try(
        &self,
        module: &Module,
        session: SessionHandle,
        call: &Call<'_>,
    ) -> Result<Option<Try<'_>>> {
        let Some((slot, user)) = tried(module, session, call) else { return Ok(None) };
        let Ok(token) = module.token(slot) else { return Ok(None) };
        let (mark, wrong) = (mark(module, slot, user), &self.worker.wrong);
        let key = (token.serial.clone(), user, mark);
        let grant = self.worker.office.ask(Question::Try(token.serial, user, mark), || self.is_gone())?;
        if let Answer::Granted = grant.answer {
            return Ok(Some(Try { grant, wrong, key }));
        }
        wrong.note(key, |_| MOST_WRONG);
        warn!(client = self.peer(), "a PIN is not tried after {MOST_WRONG} wrong ones");
        Err(Error::PinLocked)
    }

    /// Waits until the KDF of a PIN may run. It ends with the value.
    pub(crate) fn begin_run(&self) -> Result<Grant<'_>> {
        self.worker.office.ask(Question::Run, || self.is_gone())
    }

    /// Logs in to a token with the PIN of the rule.
    pub(crate) fn log_in(&self, module: &Module, session: SessionHandle, slot: SlotId) {
        let outcome = self.try_pin(module, session, slot);
        if outcome.is_err() {
            self.worker.figures.failed_logins.fetch_add(1, Ordering::Relaxed);
        }
        let mut failure = lock(&self.worker.failure);
        match outcome {
            Ok(()) => *failure = None,
            Err(reason) if failure.as_ref() == Some(&reason) => {}
            Err(reason) => {
                error!(client = self.peer(), reason, "the agent cannot log in");
                *failure = Some(reason);
            }
        }
    }

    /// A PIN that was wrong is not tried again before the user's PIN changes.
    fn try_pin(&self, module: &Module, session: SessionHandle, slot: SlotId) -> Result<(), String> {
        let (Ok(Some(mark)), Ok(token)) = (module.pin_mark(slot, User::User), module.token(slot)) else {
            return Err("the token has no user PIN".to_owned());
        };
        let question = Question::Pin(token.serial, mark);
        let grant =
            self.worker.office.ask(question, || self.is_gone()).map_err(|error| format!("{error:?}"))?;
        let pin = match &grant.answer {
            Answer::Pin(pin) => pin,
            Answer::NoPin(reason) => return Err(reason.clone()),
            _ => return Err("the front gives no PIN".to_owned()),
        };
        match module.login(session, User::User, pin) {
            Ok(()) | Err(Error::UserAlreadyLoggedIn) => {
                grant.end(Outcome::Right);
                Ok(())
            }
            Err(Error::PinIncorrect) => {
                self.worker.figures.wrong_pins.fetch_add(1, Ordering::Relaxed);
                grant.end(Outcome::Wrong);
                Err(WRONG.to_owned())
            }
            Err(error) => Err(format!("{error:?}")),
        }
    }
}

/// Returns the mark of a user's PIN. A PIN that is not set has one too.
pub(crate) fn mark(module: &Module, slot: SlotId, user: User) -> PinMark {
    module.pin_mark(slot, user).ok().flatten().unwrap_or_default()
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
