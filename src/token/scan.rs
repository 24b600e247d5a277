//! The way from the store's rows to the memory: at a login, at the first search, and when another process wrote.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use tracing::{error, warn};

use super::Token;
use crate::error::{Error, Result};
use crate::object::policy::Login;
use crate::store::counter::Counter;
use crate::store::seal::TokenKey;
use crate::store::summary::Summary;
use crate::store::{Change, Row};

/// Tokens of at most so many objects have every record read and verified at login, so that the log tells at once what
/// was altered; the records of larger ones are verified when they are used.
const FEW: usize = 256;

/// A look at a large token takes its time: the pause after it is at least so many times as long.
const SHARE: u128 = 16;

/// When the next look is due of who uses keys and never searches: a second of a clock that is cheap to read.
#[derive(Default)]
pub(super) struct Glance(AtomicI64);

impl Glance {
    /// Whether a look is due. One thread is told so.
    fn due(&self, now: i64) -> bool {
        let due = self.0.load(Ordering::Relaxed);
        let next = now.saturating_add(1);
        now >= due && self.0.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// A look that began then is over.
    fn over(&self, began: Instant) {
        let pause = began.elapsed().as_millis() * SHARE / 1000;
        let pause = i64::try_from(pause).unwrap_or(i64::MAX).max(1);
        self.0.store(second().saturating_add(pause), Ordering::Relaxed);
    }
}

fn second() -> i64 {
    clock_gettime(ClockId::MonotonicCoarse).tv_sec
}

impl Token {
    /// Takes over what other processes wrote, once a second: a client that keeps the handle of a key and never searches
    /// hears that the key was destroyed, or that the token is another one.
    #[inline]
    pub fn glance(&self) -> Result<()> {
        let now = second();
        if self.glance.due(now) { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&self) -> Result<()> {
        let began = Instant::now();
        // Where nothing was read, nothing is out of date.
        let outcome = if self.state().seen.is_some() { self.refresh() } else { Ok(()) };
        self.glance.over(began);
        outcome
    }

    /// Takes over what other processes wrote. The caller holds the lock of changes. `DeviceRemoved` where one initialised
    /// the token anew: the login was to the token before, and ends; the caller hears of it once.
    pub(super) fn take_changes(&self) -> Result<()> {
        let (seen, key, life) = {
            let state = self.state();
            (state.seen, state.key.clone(), state.life)
        };
        if let Some(seen) = seen
            && !self.store.changed_since(seen)?
        {
            return Ok(());
        }
        if key.is_some() && self.store.header()?.change.life() != life {
            warn!(token = self.serial, "another process initialised the token anew: the login ends");
            self.end_login(&mut self.state());
            self.take_rows(None, Login::Public, true)?;
            return Err(Error::DeviceRemoved);
        }
        self.take_rows(key.as_deref(), self.login_state(), false)?;
        self.bump();
        Ok(())
    }

    /// Takes over all rows at a login, and verifies them; the caller holds the lock of changes.
    pub(super) fn take_all(&self, key: &Arc<TokenKey>, login: Login) -> Result<()> {
        let noted = self.counter.as_ref().map(Counter::read).transpose()?;
        self.take_rows(Some(key), login, true)?;
        match (noted, self.state().seen) {
            (Some(noted), Some(seen)) if seen < noted => {
                error!(
                    token = self.serial,
                    state = seen.0,
                    noted = noted.0,
                    "the token's file is an older copy; remove its counter to use it nevertheless"
                );
                Err(Error::DeviceError)
            }
            _ => Ok(()),
        }
    }

    /// Takes over the rows that such a login sees and leaves out those that were altered. `anew` where it is a login:
    /// what was read before could not be verified.
    fn take_rows(&self, key: Option<&TokenKey>, login: Login, anew: bool) -> Result<()> {
        let mut found = key.map(|_| Summary::empty(Change(0)));
        let mut present = Vec::new();
        let snapshot = self.store.load(&mut |row: Row| {
            if let (Some(found), Some(key)) = (&mut found, key) {
                found.add(key.marker().mark(&row));
            }
            if !row.private || login == Login::User {
                present.push(row.id);
                let anew = anew && !row.private;
                self.objects.take_row(row, anew);
            }
        })?;
        self.state().seen = Some(snapshot.change);
        if self.objects.row_count() != present.len() {
            self.objects.retain_rows(|id| present.binary_search(&id).is_ok());
        }
        let (Some(key), Some(found)) = (key, found) else { return Ok(()) };
        let sealed = key.open_summary(&self.serial, snapshot.change, &snapshot.summary);
        let Some(sealed) = sealed else {
            error!(
                token = self.serial,
                "the summary of the objects was altered on disk; none of them is used"
            );
            self.objects.retain_rows(|_| false);
            return Ok(());
        };
        let accused: Vec<_> = present.iter().copied().filter(|id| sealed.accuses(&found, *id)).collect();
        if sealed.differs(&found) {
            error!(
                token = self.serial,
                left_out = ?accused,
                "objects were removed, added or replaced on disk; what is left of their group is not used"
            );
            self.objects.retain_rows(|id| accused.binary_search(&id).is_err());
        }
        if anew && present.len() <= FEW {
            present.iter().for_each(|id| self.verify(*id));
        }
        Ok(())
    }

    fn verify(&self, id: i64) {
        // Its failure is in the log, and the object is left out.
        if let Some((handle, tag)) = self.objects.of_row(id)
            && let Ok(Some(object)) = self.read(id, tag)
        {
            self.objects.keep(handle, tag, &object);
        }
    }
}
