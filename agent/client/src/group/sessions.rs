//! The slot of a group, its sessions, and the logins.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jeton_words::bounded::List;
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::id::{MechanismType, ObjectHandle, SessionHandle, SlotId, mechanism_flag};
use jeton_words::session::{Access, SessionInfo, User};
use jeton_words::slot::{MechanismInfo, SlotInfo, TokenInfo};
use jeton_words::token::{Function, Token};

use super::keys::Keys;
use super::member::{Member, lock};
use crate::transport::Split;

/// The slot of the group.
const SLOT: SlotId = SlotId(0);
/// The serial number of the group, of which no agent is the token.
const SERIAL: &str = "split";
/// What the group offers, with the flags.
const MECHANISMS: [(MechanismType, u64); 2] = [
    (MechanismType::EC_EDWARDS_KEY_PAIR_GEN, mechanism_flag::GENERATE_KEY_PAIR),
    (MechanismType::EDDSA, mechanism_flag::SIGN | mechanism_flag::VERIFY),
];

/// The agents, the keys that they have, and the sessions of the application.
pub struct Group {
    pub(super) members: Vec<Member>,
    /// How many agents a new key needs, and how many must show a key.
    pub(super) threshold: u8,
    pub(super) patience: Duration,
    pub(super) keys: Mutex<Keys>,
    sessions: RwLock<HashMap<SessionHandle, Arc<Mutex<Open>>>>,
    last: AtomicU64,
}

/// A session: one at each agent that answers.
pub(super) struct Open {
    access: Access,
    pub(super) at: Vec<Option<SessionHandle>>,
    /// The rest of a search.
    pub(super) found: Option<VecDeque<ObjectHandle>>,
    /// The key of a signature, and the parts of the message.
    pub(super) signs: Option<(usize, Vec<u8>)>,
    /// The agent that verifies.
    pub(super) verifies: Option<usize>,
}

/// Returns whether another agent may do what one could not: it does not answer.
fn is_away(error: Error) -> bool {
    matches!(
        error,
        Error::DeviceError | Error::GeneralError | Error::NotInitialized | Error::SessionHandleInvalid
    )
}

impl Group {
    /// Connects to the agents. Fails if none answers.
    pub fn start(split: &Split, threads: Threads) -> Result<Self> {
        let members: Vec<_> =
            split.agents.iter().map(|address| Member::new(address, split.token.clone(), threads)).collect();
        let count = members.iter().filter(|member| member.is_ready()).count();
        if count == 0 {
            return Err(Error::GeneralError);
        }
        let (keys, sessions, last) = Default::default();
        Ok(Self { members, threshold: split.threshold, patience: split.patience, keys, sessions, last })
    }

    /// Ends the application at each agent.
    pub fn stop(&self) {
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).clear();
        for member in &self.members {
            let _ = member.remote.stop();
        }
    }

    pub fn slots(&self) -> Result<List<SlotId>> {
        Ok(List(vec![SLOT]))
    }

    pub fn slot(&self, slot: SlotId) -> Result<SlotInfo> {
        self.first(slot, |member, at| member.remote.slot(at))
    }

    pub fn token(&self, slot: SlotId) -> Result<TokenInfo> {
        let info = self.first(slot, |member, at| member.remote.token(at))?;
        Ok(TokenInfo { serial: SERIAL.to_owned(), ..info })
    }

    pub fn mechanisms(&self, slot: SlotId) -> Result<List<MechanismType>> {
        check(slot)?;
        Ok(List(MECHANISMS.iter().map(|(id, _)| *id).collect()))
    }

    pub fn mechanism(&self, slot: SlotId, mechanism: MechanismType) -> Result<MechanismInfo> {
        let (_, flags) = MECHANISMS.iter().find(|(id, _)| *id == mechanism).ok_or(Error::MechanismInvalid)?;
        let info = self.first(slot, |member, at| member.remote.mechanism(at, mechanism))?;
        Ok(MechanismInfo { flags: info.flags & flags, ..info })
    }

    /// Asks the first agent that answers about its token.
    fn first<T>(&self, slot: SlotId, ask: impl Fn(&Member, SlotId) -> Result<T>) -> Result<T> {
        check(slot)?;
        for member in self.members.iter().filter(|member| member.is_ready()) {
            let answer = member.slot().and_then(|at| ask(member, at));
            match answer {
                Err(error) if is_away(error) => member.note(error),
                answer => return answer,
            }
        }
        Err(Error::DeviceError)
    }

    pub fn open_session(&self, slot: SlotId, access: Access, asynchronous: bool) -> Result<SessionHandle> {
        check(slot)?;
        if asynchronous {
            return Err(Error::SessionAsyncNotSupported);
        }
        let at = vec![None; self.members.len()];
        let mut open = Open { access, at, found: None, signs: None, verifies: None };
        let mut failure = Error::DeviceError;
        for at in 0..self.members.len() {
            if let Err(error) = self.session_at(&mut open, at) {
                failure = error;
            }
        }
        if open.at.iter().all(Option::is_none) {
            return Err(failure);
        }
        let handle = SessionHandle(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(handle, Arc::new(Mutex::new(open)));
        Ok(handle)
    }

    pub fn close_session(&self, session: SessionHandle) -> Result<()> {
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        let open = sessions.remove(&session).ok_or(Error::SessionHandleInvalid)?;
        drop(sessions);
        self.close(&open);
        Ok(())
    }

    pub fn close_all_sessions(&self, slot: SlotId) -> Result<()> {
        check(slot)?;
        let all = std::mem::take(&mut *self.sessions.write().unwrap_or_else(PoisonError::into_inner));
        all.values().for_each(|open| self.close(open));
        Ok(())
    }

    fn close(&self, open: &Mutex<Open>) {
        for (member, at) in self.members.iter().zip(&lock(open).at) {
            if let Some(at) = at {
                // It ends with its agent too.
                let _ = member.remote.close_session(*at);
            }
        }
    }

    pub(super) fn find_open(&self, session: SessionHandle) -> Result<Arc<Mutex<Open>>> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&session).cloned().ok_or(Error::SessionHandleInvalid)
    }

    /// Returns the session at an agent that answers. Opens one if the agent was away before.
    pub(super) fn session_at(&self, open: &mut Open, at: usize) -> Result<SessionHandle> {
        let member = &self.members[at];
        if !member.is_ready() {
            return Err(Error::DeviceError);
        }
        if let Some(session) = open.at[at] {
            return Ok(session);
        }
        let session = member.slot().and_then(|slot| member.remote.open_session(slot, open.access, false));
        if let Err(error) = session {
            member.note(error);
        }
        open.at[at] = session.ok();
        session
    }

    /// Calls `work` with each agent that answers, until one does it.
    pub(super) fn at_one<T>(
        &self,
        open: &mut Open,
        mut work: impl FnMut(usize, &Member, SessionHandle) -> Result<T>,
    ) -> Result<T> {
        for at in 0..self.members.len() {
            let Ok(session) = self.session_at(open, at) else { continue };
            match work(at, &self.members[at], session) {
                Err(error) if is_away(error) => self.lose(open, at, error),
                answer => return answer,
            }
        }
        Err(Error::DeviceError)
    }

    /// Notes that an agent did not do its part. A session that it does not know is opened again.
    pub(super) fn lose(&self, open: &mut Open, at: usize, error: Error) {
        if error == Error::SessionHandleInvalid {
            open.at[at] = None;
        }
        self.members[at].note(error);
    }

    pub fn session(&self, session: SessionHandle) -> Result<SessionInfo> {
        let open = self.find_open(session)?;
        let info = self.at_one(&mut lock(&open), |_, member, session| member.remote.session(session))?;
        Ok(SessionInfo { slot: SLOT, ..info })
    }

    /// Logs in at each agent that answers, with one PIN. Fails if fewer agents than a key needs
    /// accept it.
    pub fn login(&self, session: SessionHandle, user: User, pin: &[u8]) -> Result<()> {
        let login = |member: &Member, session| match member.remote.login(session, user, pin) {
            // It has gone on since before.
            Err(Error::UserAlreadyLoggedIn) => Ok(false),
            outcome => outcome.map(|()| true),
        };
        let done = self.at_all(session, login)?;
        if done.iter().any(|is_new| *is_new) { Ok(()) } else { Err(Error::UserAlreadyLoggedIn) }
    }

    pub fn logout(&self, session: SessionHandle) -> Result<()> {
        self.at_all(session, |member, session| member.remote.logout(session)).map(drop)
    }

    /// Calls `work` with all agents that answer. Fails if fewer than a key needs do it.
    fn at_all<T>(
        &self,
        session: SessionHandle,
        work: impl Fn(&Member, SessionHandle) -> Result<T>,
    ) -> Result<Vec<T>> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        let (mut done, mut failure) = (Vec::new(), Error::DeviceError);
        for at in 0..self.members.len() {
            let Ok(session) = self.session_at(&mut open, at) else { continue };
            match work(&self.members[at], session) {
                Ok(one) => done.push(one),
                Err(error) => {
                    self.lose(&mut open, at, error);
                    failure = error;
                }
            }
        }
        if done.len() < usize::from(self.threshold) { Err(failure) } else { Ok(done) }
    }

    pub fn random(&self, session: SessionHandle, out: &mut [u8]) -> Result<()> {
        let open = self.find_open(session)?;
        self.at_one(&mut lock(&open), |_, member, session| member.remote.random(session, out))
    }

    pub fn cancel(&self, session: SessionHandle, flags: u64) -> Result<()> {
        let open = self.find_open(session)?;
        let mut open = lock(&open);
        if flags & mechanism_flag::SIGN != 0 {
            open.signs = None;
        }
        if flags & mechanism_flag::FIND_OBJECTS != 0 {
            open.found = None;
        }
        Ok(())
    }

    /// Ends the operation that an `Init` function starts.
    pub fn clear(&self, session: SessionHandle, function: Function) -> Result<()> {
        let open = self.find_open(session)?;
        match function {
            Function::C_SignInit => lock(&open).signs = None,
            Function::C_VerifyInit => lock(&open).verifies = None,
            _ => {}
        }
        Ok(())
    }

    /// Returns the time at which a call that begins now ends.
    pub(super) fn end(&self) -> Instant {
        Instant::now() + self.patience
    }
}

fn check(slot: SlotId) -> Result<()> {
    if slot == SLOT { Ok(()) } else { Err(Error::SlotIdInvalid) }
}
