//! What the rules demand of each call: which are refused, which the agent carries out in another
//! way, and what it does after one that succeeded.

use std::sync::atomic::Ordering;
use std::time::Duration;

use jeton::error::{Error, Result};
use jeton::functions::{Module, PinMark, User};
use jeton::id::{SessionHandle, SlotId, token_flag};
use jeton_agent_wire::{Call, Malformed, Outcome};
use jeton_words::bounded::MAX_ITEMS;
use jeton_words::token::Function;
use tracing::{debug, error};

use crate::application::{NONE, is_user, slot_of};
use crate::connection::Connection;
use crate::lock;
use crate::pins::mark;
use crate::rules::{Rule, fits};
use crate::worker::Application;

impl Connection<'_> {
    /// Returns the outcome of a call that the rule refuses, or that the agent carries out in
    /// another way; `None` for any other call.
    pub(crate) fn by_rule(
        &self,
        rule: &Rule,
        application: &Application,
        session: SessionHandle,
        call: &Call<'_>,
    ) -> Result<Option<Result<Outcome<'static>>>, Malformed> {
        Malformed::unless(self.has_turn(Duration::MAX))?;
        let module = &application.module;
        if let Some(error) = rule.refusal(module, call) {
            let function = call.function().name();
            self.worker.figures.refused.fetch_add(1, Ordering::Relaxed);
            // At the default level the log names each function of an application once.
            if lock(&application.refused).insert(function) {
                error!(client = self.peer(), function, "refused by a rule");
            } else {
                debug!(client = self.peer(), function, "refused by a rule");
            }
            let named = (session != NONE).then_some(session);
            let result = format!("refused by a rule: {error:?}");
            module.record_refusal(named, function, call.mechanism(), result);
            return Ok(Some(Err(error)));
        }
        // A program may insist on a login of the user, or end with a logout.
        let done = match call {
            Call::C_Login { user: User::User, .. } => {
                Outcome::C_Login { result: (), session: (), user: (), pin: () }
            }
            Call::C_Logout { .. } => Outcome::C_Logout { result: (), session: () },
            _ => return Ok(None),
        };
        let has_login = is_user(module, session)
            && slot_of(module, session).is_some_and(|slot| rule.logs_in(module, slot));
        Ok(has_login.then_some(Ok(done)))
    }

    /// Does what the rule demands after a call that succeeded, of a function with this slot: hides
    /// tokens, logs in to the token of a new session, and shows that the token needs no login.
    pub(crate) fn after<'a>(
        &self,
        application: &Application,
        slot: Option<SlotId>,
        mut outcome: Outcome<'a>,
    ) -> Result<Outcome<'a>> {
        if let Outcome::C_GetSlotList { result } = &mut outcome {
            // The client decodes no more.
            result.0.truncate(MAX_ITEMS);
        }
        if let Outcome::C_GetTokenInfo { result, .. } = &mut outcome {
            let mark =
                |user| slot.map_or_else(PinMark::default, |slot| mark(&application.module, slot, user));
            result.flags |= self.worker.wrong.flags(&result.serial, mark);
        }
        let Some(rule) = self.rule() else { return Ok(outcome) };
        let module = &application.module;
        let logs_in = || slot.filter(|slot| rule.logs_in(module, *slot));
        match &mut outcome {
            Outcome::C_GetSlotList { result } => result.0.retain(|slot| rule.sees(module, *slot)),
            Outcome::C_WaitForSlotEvent { result, .. } if !rule.sees(module, *result) => {
                return Err(Error::NoEvent);
            }
            Outcome::C_OpenSession { result, .. } => {
                if let Some(slot) = logs_in()
                    && !is_user(module, *result)
                {
                    let _run = self.begin_run()?;
                    self.log_in(module, *result, slot);
                }
            }
            Outcome::C_GetTokenInfo { result, .. } if logs_in().is_some() => {
                result.flags &= !token_flag::LOGIN_REQUIRED;
            }
            _ => {}
        }
        Ok(outcome)
    }
}

impl Rule {
    /// Returns whether the rule refuses a function.
    pub fn refuses(&self, function: Function) -> bool {
        self.refuse.iter().any(|pattern| fits(pattern, function.name()))
    }

    /// Returns the error of a call that the rule refuses.
    pub fn refusal(&self, module: &Module, call: &Call<'_>) -> Option<Error> {
        if self.refuses(call.function()) {
            return Some(Error::FunctionNotSupported);
        }
        if let Some(allowed) = &self.mechanisms
            && call.mechanism().is_some_and(|used| !allowed.contains(&used.to_string()))
        {
            return Some(Error::MechanismInvalid);
        }
        let slot = call.slot()?;
        if !self.sees(module, slot) {
            return Some(Error::SlotIdInvalid);
        }
        let is_full = matches!(call, Call::C_OpenSession { .. })
            && self
                .sessions
                .is_some_and(|most| module.token(slot).is_ok_and(|token| token.sessions >= most.get()));
        is_full.then_some(Error::SessionCount)
    }
}
