//! What the rules demand of each call: which are refused, which the agent carries out in another
//! way, and what it does after one that succeeded.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cryptoki_sys::{
    CK_RV, CKF_LOGIN_REQUIRED, CKR_BUFFER_TOO_SMALL, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID,
    CKR_OK, CKR_SESSION_COUNT, CKR_SLOT_ID_INVALID, CKU_USER,
};
use jeton::functions::Module;
use jeton::id::{MechanismType, SessionHandle, SlotId};
use jeton_agent_wire::layout::TOKEN_FLAGS;
use jeton_agent_wire::{Argument, Call, Function, Malformed};
use serde_bytes::Bytes;
use tracing::{debug, error};

use crate::Application;
use crate::application::{is_user, slot_of};
use crate::rules::{Rule, fits};
use crate::{Connection, lock};

impl Connection<'_> {
    /// Answers a call that the rule refuses, or that the agent carries out in another way. Returns
    /// its code, or `None` for any other call.
    pub(crate) fn by_rule(
        &self,
        rule: &Rule,
        application: &Application,
        session: u64,
        call: &Call<'_>,
        frame: &mut Vec<u8>,
    ) -> Result<Option<CK_RV>, Malformed> {
        Malformed::unless(!self.has_ended(application.pace.turn(rule)))?;
        let module = &application.module;
        let refused = rule.refusal(module, call);
        if let Some(code) = refused {
            let function = call.function.name();
            self.client().figures.refused.fetch_add(1, Ordering::Relaxed);
            // At the default level the log names each function of an application once.
            if lock(&application.refused).insert(function) {
                error!(client = self.peer(), function, "refused by a rule");
            } else {
                debug!(client = self.peer(), function, "refused by a rule");
            }
            let named = (session != 0).then_some(SessionHandle(session));
            let result = format!("refused by a rule: 0x{code:x}");
            module.record_refusal(named, function, mechanism(call), result);
            return self.answer_with(application, session, code, Vec::new(), frame).map(Some);
        }
        // A program may insist on a login of the user, or end with a logout.
        let is_login = match call.function {
            Function::C_Login => matches!(call.arguments.first(), Some(Argument::Number(CKU_USER))),
            function => function == Function::C_Logout,
        };
        if is_login
            && is_user(module, session)
            && slot_of(module, session).is_some_and(|slot| rule.logs_in(module, slot))
        {
            return self.answer_with(application, session, CKR_OK, Vec::new(), frame).map(Some);
        }
        if let (Function::C_GetSlotList, true) = (call.function, rule.tokens.is_some())
            && let [_, Argument::Output(is_given, Some(room))] = call.arguments[..]
        {
            let slots = module.slots().unwrap_or_default();
            let seen: Vec<_> = slots.into_iter().filter(|slot| rule.sees(module, *slot)).collect();
            let count = (seen.len() as u64).to_ne_bytes();
            let items: Vec<_> = seen.iter().flat_map(|slot| slot.0.to_ne_bytes()).collect();
            let fits = !is_given || room >= seen.len() as u64;
            let code = if fits { CKR_OK } else { CKR_BUFFER_TOO_SMALL };
            let items = if is_given && fits { &items[..] } else { &[] };
            let outputs = vec![Bytes::new(&count), Bytes::new(items)];
            return self.answer_with(application, session, code, outputs, frame).map(Some);
        }
        Ok(None)
    }

    /// Returns whether a call returned the slot of a token that the rule hides.
    pub(crate) fn hides_event(&self, call: &Call<'_>, outputs: &[&Bytes]) -> bool {
        let slot = || outputs.first()?[..].try_into().ok().map(u64::from_ne_bytes).map(SlotId);
        let (Function::C_WaitForSlotEvent, Some((_, application)), Some(rule)) =
            (call.function, &self.application, self.rule())
        else {
            return false;
        };
        slot().is_some_and(|slot| !rule.sees(&application.module, slot))
    }

    /// Does what the rule demands after a call that succeeded: logs in to the token of a new
    /// session, and shows that the token needs no login. Returns the first output if it is another
    /// one.
    pub(crate) fn after(
        &self,
        rule: &Rule,
        application: &Application,
        call: &Call<'_>,
        outputs: &[&Bytes],
    ) -> Option<Vec<u8>> {
        let Some(Argument::Number(slot)) = call.arguments.first() else { return None };
        let module = &application.module;
        let first = outputs.first()?;
        match call.function {
            Function::C_OpenSession => {
                let session = u64::from_ne_bytes(first[..].try_into().ok()?);
                if rule.logs_in(module, SlotId(*slot)) && !is_user(module, session) {
                    self.agent.pins.log_in(rule, self.peer(), module, session, SlotId(*slot));
                }
                None
            }
            Function::C_GetTokenInfo if rule.logs_in(module, SlotId(*slot)) => {
                let mut info = first.to_vec();
                let field = info.get_mut(TOKEN_FLAGS..)?.first_chunk_mut()?;
                *field = (u64::from_ne_bytes(*field) & !CKF_LOGIN_REQUIRED).to_ne_bytes();
                Some(info)
            }
            _ => None,
        }
    }
}

impl Rule {
    /// Returns whether the rule refuses a function.
    pub fn refuses(&self, function: Function) -> bool {
        self.refuse.iter().any(|pattern| fits(pattern, function.name()))
    }

    /// Returns the code of a call that the rule refuses.
    pub fn refusal(&self, module: &Module, call: &Call<'_>) -> Option<CK_RV> {
        if self.refuses(call.function) {
            return Some(CKR_FUNCTION_NOT_SUPPORTED);
        }
        if let Some(allowed) = &self.mechanisms
            && mechanism(call).is_some_and(|used| !allowed.contains(&used.to_string()))
        {
            return Some(CKR_MECHANISM_INVALID);
        }
        let slot = named_slot(call)?;
        if !self.sees(module, slot) {
            return Some(CKR_SLOT_ID_INVALID);
        }
        let is_full = call.function == Function::C_OpenSession
            && self
                .sessions
                .is_some_and(|most| module.token(slot).is_ok_and(|token| token.sessions >= most.get()));
        is_full.then_some(CKR_SESSION_COUNT)
    }
}

pub fn mechanism(call: &Call<'_>) -> Option<MechanismType> {
    call.arguments.iter().find_map(|argument| match argument {
        Argument::Mechanism(mechanism, _) => mechanism.map(MechanismType),
        _ => None,
    })
}

fn named_slot(call: &Call<'_>) -> Option<SlotId> {
    use Function as F;
    let names_slot = matches!(
        call.function,
        F::C_GetSlotInfo
            | F::C_GetTokenInfo
            | F::C_GetMechanismList
            | F::C_GetMechanismInfo
            | F::C_InitToken
            | F::C_OpenSession
            | F::C_CloseAllSessions
    );
    match call.arguments.first() {
        Some(Argument::Number(slot)) if names_slot => Some(SlotId(*slot)),
        _ => None,
    }
}

/// Spaces the calls of an application.
#[derive(Default)]
pub struct Pace(Mutex<Option<Instant>>);

impl Pace {
    /// Returns how long the next call has to wait.
    pub fn turn(&self, rule: &Rule) -> Duration {
        let Some(most) = rule.calls_per_second else { return Duration::ZERO };
        let step = Duration::from_secs(1) / most.get();
        let mut next = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        // Calls of an idle second may come at once.
        let earliest = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        let turn = next.map_or(earliest, |next| next.max(earliest)) + step;
        *next = Some(turn);
        turn.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Peer, Unit};
    use crate::rules::Rules;

    #[test]
    fn calls_after_the_first_second_wait() {
        let rules = Rules::parse("[[client]]\ncalls-per-second = 100").expect("rules");
        let root = Peer::User { uid: 0, groups: vec![0], has_all_groups: true, unit: Unit::None, process: 1 };
        let verdict = rules.verdict(&root);
        let rule = verdict.rule().expect("a rule");
        let pace = Pace::default();
        let waits: Vec<_> = (0..150).map(|_| pace.turn(rule)).collect();
        assert_eq!(waits[99], Duration::ZERO);
        assert!(waits[149] >= Duration::from_millis(400), "{:?}", waits[149]);
    }
}
