//! Loads rows of the store into memory: at a login, at the first search, and after another process
//! wrote.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{error, info, warn};

use super::objects::Cached;
use super::poll::tick;
use super::state::{ChangeGuard, Token};
use crate::error::{Error, Result};
use crate::object::access::Login;
use crate::store::change_counter::Counter;
use crate::store::seal::TokenKey;
use crate::store::seal::summary::Summary;
use crate::store::{Change, Header, Row, Snapshot};

/// The least pause after a check for changes, if the store does not announce them.
const PAUSE: Duration = Duration::from_secs(1);
/// The least pause after a load of changes, if the store announces them. The loads of many hosts
/// are work for its server.
const PAUSE_OF_LOADS: Duration = Duration::from_millis(250);

/// If a login sees at most this number of objects, it reads and verifies all of their records. So
/// the log names altered records at once. Other records are verified at their first use.
const FEW: usize = 256;

impl Token {
    /// Loads the changes of other processes, at most once a second. So a client that keeps a key
    /// handle and never searches notices that the key was destroyed or the token was replaced.
    #[inline]
    pub(crate) fn poll_occasionally(&self) -> Result<()> {
        let now = tick();
        if self.next_poll.due(now) { self.poll_due() } else { Ok(()) }
    }

    #[cold]
    fn poll_due(&self) -> Result<()> {
        let began = Instant::now();
        // If no rows were loaded, there is nothing to update.
        let is_loaded = self.state().seen.is_some();
        let outcome =
            if is_loaded { self.load_if(|seen| self.store.noticed_since(seen)) } else { Ok(Some(false)) };
        let least = |loaded| match self.store.announces_commits() {
            false => PAUSE,
            true if loaded => PAUSE_OF_LOADS,
            true => Duration::ZERO,
        };
        match outcome {
            Ok(Some(loaded)) => self.next_poll.pause_after(began, least(loaded)),
            // While the checks fail, no key is used.
            Ok(None) | Err(_) => self.next_poll.check_at_next_use(),
        }
        outcome.map(drop)
    }

    /// Loads the changes of other processes. Called where PKCS#11 allows them to become visible.
    pub(crate) fn poll(&self) -> Result<()> {
        self.load_if(|seen| self.store.changed_since(seen).map(Some)).map(drop)
    }

    /// Loads the changes of other processes if `changed` says that there are any. Returns whether
    /// it did, or `None` if the rows in memory may be old now: `changed` does not know, or the
    /// configuration allows the outage.
    fn load_if(&self, changed: impl FnOnce(Change) -> Result<Option<bool>>) -> Result<Option<bool>> {
        let seen = self.state().seen;
        let outcome = match seen.map_or(Ok(Some(true)), changed) {
            Ok(Some(true)) => self.load_changes(&self.lock_changes()).map(|()| Some(true)),
            Err(error) => {
                if error == Error::DeviceRemoved {
                    self.end_removed_login(&self.lock_changes());
                }
                Err(error)
            }
            unchanged => unchanged,
        };
        match outcome {
            Err(Error::DeviceError) if seen.is_some() && self.store.is_outage_allowed() => Ok(None),
            outcome => outcome,
        }
    }

    /// Loads the changes of other processes. If one of them initialised the token or gave it a new
    /// key, ends the login and fails once with `DeviceRemoved`.
    pub(super) fn load_changes(&self, change: &ChangeGuard<'_>) -> Result<()> {
        let (seen, key, incarnation) = {
            let state = self.state();
            (state.seen, state.key.clone(), state.incarnation)
        };
        if let Some(seen) = seen
            && !self.store.changed_since(seen)?
        {
            return Ok(());
        }
        if key.is_some() && self.store.incarnation()? != incarnation {
            warn!(
                token = self.serial,
                "another process initialised the token again or gave it a new key: the login ends"
            );
            self.end_logins(change, &mut self.state());
            self.load_rows(change, None, Login::Public, Cached::Forget)?;
            return Err(Error::DeviceRemoved);
        }
        self.load_rows(change, key.as_deref(), self.widest_login(), Cached::Keep)?;
        self.bump();
        Ok(())
    }

    /// Loads all rows again if another process changed the file but not the change number. So the
    /// log has an error if a row was removed or altered while this process runs.
    pub(super) fn notice_altered_rows(&self, change: &ChangeGuard<'_>) -> Result<()> {
        let seen = self.state().seen;
        match seen {
            Some(seen) if self.store.suspicious_since(seen)? => self.load_changes(change),
            _ => Ok(()),
        }
    }

    /// Loads the rows at a login. Fails with `DeviceError` if the counter has a later change
    /// number.
    pub(super) fn load_all(&self, change: &ChangeGuard<'_>, key: &Arc<TokenKey>, login: Login) -> Result<()> {
        let noted = self.read_counter()?;
        let login = if self.has_login(Login::User) { Login::User } else { login };
        self.load_rows(change, Some(key), login, Cached::Forget)?;
        let seen = self.state().seen;
        seen.map_or(Ok(()), |seen| self.expect_not_before(noted, seen))
    }

    /// Returns the token's header. Fails if the file was rolled back to an earlier state.
    pub(super) fn current_header(&self) -> Result<Header> {
        let (noted, latest) = (self.read_counter()?, self.latest());
        let header = self.store.header()?;
        self.expect_not_before(noted, header.change)?;
        self.expect_no_roll_back(latest, header.change)?;
        Ok(header)
    }

    /// Returns the change number in the counter. Callers read it before the store, because other
    /// processes may note later numbers in the meantime.
    pub(super) fn read_counter(&self) -> Result<Option<Change>> {
        self.counter.as_ref().map(Counter::read).transpose()
    }

    /// Fails with `DeviceError` if the counter has a later change number than the store.
    pub(super) fn expect_not_before(&self, noted: Option<Change>, found: Change) -> Result<()> {
        match noted {
            Some(noted) if found < noted => {
                error!(
                    token = self.serial,
                    state = found.0,
                    noted = noted.0,
                    "the token's file is an older copy; remove its counter to use it nevertheless"
                );
                Err(Error::DeviceError)
            }
            _ => Ok(()),
        }
    }

    /// Returns the latest state of the store that this process has seen. Callers without the lock
    /// of changes ask for it before they read the store, because another thread may see a later one
    /// in the meantime.
    pub(super) fn latest(&self) -> Change {
        self.state().latest
    }

    /// Fails with `DeviceRemoved` if this state of the store is earlier than `latest`.
    pub(super) fn expect_no_roll_back(&self, latest: Change, found: Change) -> Result<()> {
        if found >= latest {
            return Ok(());
        }
        error!(
            token = self.serial,
            state = found.0,
            seen = latest.0,
            "the token's file was replaced by an older copy under a running process; end the process to use it"
        );
        Err(Error::DeviceRemoved)
    }

    /// Ends the login if the store is in an earlier state than one that this process has seen.
    pub(super) fn end_rolled_back_login(&self, change: &ChangeGuard<'_>) {
        if self.store.header().is_ok_and(|header| header.change < self.state().latest) {
            self.forget_rolled_back_rows(change);
        }
    }

    /// Ends the login after the token was removed from the database, or after its file was removed
    /// or replaced while it was closed.
    pub(super) fn end_removed_login(&self, change: &ChangeGuard<'_>) {
        if self.widest_login() != Login::Public {
            self.end_logins(change, &mut self.state());
        }
    }

    fn forget_rolled_back_rows(&self, change: &ChangeGuard<'_>) {
        let mut state = self.state();
        // With `None`, the next check finds the older state again.
        state.seen = None;
        self.end_logins(change, &mut state);
        drop(state);
        self.objects.retain_rows(|_| false);
    }

    /// Loads the rows that are visible to this login. With a key, leaves out each group of rows
    /// that differs from the summary. A login forgets the public objects that were read before it,
    /// because they could not be verified.
    pub(super) fn load_rows(
        &self,
        change: &ChangeGuard<'_>,
        key: Option<&TokenKey>,
        login: Login,
        cached: Cached,
    ) -> Result<()> {
        if key.is_none() {
            info!(token = self.serial, "public objects are not authenticated before a login");
        }
        let mut loading = Loading::new(self, key, login, cached);
        let snapshot = self.store.load(&mut |row| loading.row(row))?;
        let present = loading.finish(change, &snapshot)?;
        if cached == Cached::Forget && present.len() <= FEW {
            self.store.prefetch(&present);
            present.iter().for_each(|id| self.verify(*id));
        }
        Ok(())
    }

    /// Reads and verifies the record of an object.
    fn verify(&self, id: i64) {
        // If this fails, the failure is in the log and the object is not used.
        if let Some((handle, tag)) = self.objects.of_row(id)
            && let Ok(Some(object)) = self.read(id, tag)
        {
            self.objects.keep(handle, tag, &object);
        }
    }
}

/// A load of all rows, which come one after the other. No row is usable before all rows were
/// compared with the summary. A load that fails changes nothing in memory.
pub(super) struct Loading<'a> {
    token: &'a Token,
    key: Option<&'a TokenKey>,
    login: Login,
    cached: Cached,
    /// The summary of the rows; `None` without a key.
    found: Option<Summary>,
    /// The visible rows, in the order of their numbers.
    rows: Vec<Row>,
}

impl<'a> Loading<'a> {
    /// Returns a load that skips the rows that are not visible to this login.
    pub(super) fn new(token: &'a Token, key: Option<&'a TokenKey>, login: Login, cached: Cached) -> Self {
        let found = key.map(|_| Summary::empty(Change(0)));
        Self { token, key, login, cached, found, rows: Vec::new() }
    }

    /// Takes the next row.
    pub(super) fn row(&mut self, row: Row) {
        if let (Some(found), Some(key)) = (&mut self.found, self.key) {
            found.add(key.row_hasher().hash(&row));
        }
        if !row.private || self.login == Login::User {
            self.rows.push(row);
        }
    }

    /// Takes the state that the rows belong to. Makes the verified rows usable, and forgets the
    /// rows that were altered or are no longer in the store. Returns the numbers of the visible
    /// rows that were compared with the summary.
    pub(super) fn finish(mut self, change: &ChangeGuard<'_>, snapshot: &Snapshot) -> Result<Vec<i64>> {
        let token = self.token;
        if let Err(error) = token.expect_no_roll_back(token.latest(), snapshot.change) {
            token.forget_rolled_back_rows(change);
            return Err(error);
        }
        self.leave_out_altered(snapshot);
        let present: Vec<_> = self.rows.iter().map(|row| row.id).collect();
        for row in self.rows {
            let cached = if row.private { Cached::Keep } else { self.cached };
            token.objects.load_row(row, cached);
        }
        if token.objects.row_count() != present.len() {
            token.objects.retain_rows(|id| present.binary_search(&id).is_ok());
        }
        let mut state = token.state();
        state.latest = snapshot.change;
        state.seen = Some(snapshot.change);
        Ok(if self.key.is_some() { present } else { Vec::new() })
    }

    /// Leaves out each group of rows that differs from the summary, or all rows if the summary was
    /// altered. Without a key, no row can be compared.
    fn leave_out_altered(&mut self, snapshot: &Snapshot) {
        let (Some(key), Some(found)) = (self.key, &self.found) else { return };
        let serial = &self.token.serial;
        let Some(sealed) = key.open_summary(serial, snapshot.change, &snapshot.summary) else {
            error!(token = serial, "the summary of the objects was altered on disk; no object is used");
            self.rows.clear();
            return;
        };
        if !sealed.differs(found) {
            return;
        }
        let suspects: Vec<_> =
            self.rows.iter().map(|row| row.id).filter(|id| sealed.group_differs(found, *id)).collect();
        error!(
            token = serial,
            left_out = ?suspects,
            "objects were removed, added or replaced on disk; the other objects of their groups are not used"
        );
        self.rows.retain(|row| suspects.binary_search(&row.id).is_err());
    }
}
