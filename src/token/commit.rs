//! Writes objects from memory to the store. Threads that create objects at the same time share a
//! commit, and so a sync: one of them writes the objects of all. Meanwhile the others wait for
//! their own objects, not for the lock of changes. So a thread that begins again cannot delay them.
//!
//! A change of one object is made again if another process has changed the object meanwhile. The
//! second try uses the current rows, in the same transaction. No other process can write during it,
//! so it succeeds, however often others change the object.

use std::sync::{Arc, Mutex, OnceLock};

use super::load::Loading;
use super::objects::{self, Cached, Entry};
use super::queue::{Job, Sealed};
use super::state::{ChangeGuard, Token};
use crate::error::{Error, Result, require};
use crate::id::ObjectHandle;
use crate::object::{Home, Object};
use crate::store::seal::summary::{RowHash, Summary};
use crate::store::seal::{TokenKey, record};
use crate::store::{Change, Purpose, Role, Row, Snapshot, Tag, Transaction, Write};
use crate::sync::lock;

/// Records of more bytes than this are written alone. If the disk or the server has no room for
/// them, the objects of other threads do not fail with them.
const LARGE: usize = 1 << 16;

impl Token {
    pub(super) fn commit_new(
        &self,
        key: (Arc<TokenKey>, i64),
        objects: Vec<Object>,
    ) -> Result<Vec<ObjectHandle>> {
        let job = self.job(key, objects)?;
        if job.len > LARGE {
            self.write_jobs(std::slice::from_ref(&job), &self.lock_changes(), &job.key);
        } else if let Some(mut writer) = self.queue.join(&job) {
            let change = self.lock_changes();
            let mut jobs = writer.take();
            // The jobs have different keys if the token got a new key while they waited.
            while let Some(key) = jobs.first().map(|job| job.key.clone()) {
                let (same, others): (Vec<_>, _) =
                    jobs.into_iter().partition(|job| Arc::ptr_eq(&job.key.0, &key.0));
                self.write_jobs(&same, &change, &key);
                jobs = others;
            }
        }
        job.done.get().cloned().unwrap_or(Err(Error::GeneralError))
    }

    fn job(&self, key: (Arc<TokenKey>, i64), objects: Vec<Object>) -> Result<Arc<Job>> {
        let seal = |object: Object| {
            let Home::Token(id) = object.home else { return Err(Error::GeneralError) };
            self.seal(&key.0, id, object)
        };
        let sealed = objects.into_iter().map(seal).collect::<Result<Vec<_>>>()?;
        let len = sealed.iter().map(|(_, (_, record))| record.len()).sum();
        Ok(Arc::new(Job { key, len, objects: Mutex::new(sealed), done: OnceLock::new() }))
    }

    fn write_jobs(
        &self,
        jobs: &[Arc<Job>],
        change: &ChangeGuard<'_>,
        (key, incarnation): &(Arc<TokenKey>, i64),
    ) {
        let objects: Vec<_> = jobs.iter().map(|job| std::mem::take(&mut *lock(&job.objects))).collect();
        let sealed = objects.iter().flatten();
        let writes: Vec<_> = sealed.map(|(_, (row, record))| Write::Insert(row, record)).collect();
        let outcome = self.notice_altered_rows(change).and_then(|()| {
            self.commit(change, (key, *incarnation), Purpose::Write, |transaction| {
                transaction.apply(&writes)?;
                let hashes = writes.iter().map(|write| self.row_change(key, write));
                Ok(Some(hashes.collect()))
            })
        });
        drop(writes);
        for (job, objects) in jobs.iter().zip(objects) {
            let insert = |(object, (row, _)): (Object, (Row, Vec<u8>))| {
                let handle = objects::stored_handle(row.id);
                self.objects.insert(handle, entry_of(object, row));
                handle
            };
            let made = || objects.into_iter().map(insert).collect();
            let _ = job.done.set(outcome.as_ref().map(|_| made()).map_err(|error| *error));
        }
    }

    /// Replaces or deletes a token object: `make` returns the new object, or `None` to delete it.
    /// If the object in the store does not have this tag, makes the change again from the current
    /// object. Fails with `ObjectHandleInvalid` if the object is gone.
    pub(super) fn commit_change(
        &self,
        change: &ChangeGuard<'_>,
        (key, incarnation): (Arc<TokenKey>, i64),
        (handle, id, tag): (ObjectHandle, i64, Tag),
        old: &Object,
        make: &Make<'_>,
    ) -> Result<()> {
        let new = self.make_change(&key, (id, tag), old, make)?;
        let purpose = if new.new.is_some() { Purpose::Write } else { Purpose::Erase };
        let mut again = None;
        self.commit(change, (&key, incarnation), purpose, |transaction| {
            again = None;
            if transaction.apply(&[new.write()])? {
                return Ok(Some(vec![self.row_change(&key, &new.write())]));
            }
            let new = self.change_again(change, (&key, incarnation), transaction, (handle, id), make)?;
            // Only an administrator of a database writes without the lock of the transaction.
            require(transaction.apply(&[new.write()])?, Error::DeviceError)?;
            let row_change = self.row_change(&key, &new.write());
            again = Some(new);
            Ok(Some(vec![row_change]))
        })?;
        match again.unwrap_or(new).new {
            Some((object, (row, _))) => self.objects.replace(handle, entry_of(object, row)),
            None => self.objects.remove(handle),
        };
        self.bump();
        Ok(())
    }

    fn make_change(
        &self,
        key: &TokenKey,
        (id, tag): (i64, Tag),
        old: &Object,
        make: &Make<'_>,
    ) -> Result<ObjectChange> {
        Ok(ObjectChange { id, tag, new: make(old)?.map(|new| self.seal(key, id, new)).transpose()? })
    }

    fn change_again(
        &self,
        change: &ChangeGuard<'_>,
        (key, incarnation): (&TokenKey, i64),
        transaction: &mut dyn Transaction,
        (handle, id): (ObjectHandle, i64),
        make: &Make<'_>,
    ) -> Result<ObjectChange> {
        let before = transaction.before()?;
        require(before.change.incarnation() == incarnation, Error::DeviceRemoved)?;
        let mut loading = Loading::new(self, Some(key), self.widest_login(), Cached::Keep);
        let record = transaction.load(id, &mut |row| loading.row(row))?;
        loading.finish(change, &before)?;
        self.bump();
        let tag = self.objects.row(id).ok_or(Error::ObjectHandleInvalid)?.tag;
        let record = record.filter(|record| record::tag(record) == Some(tag));
        let object = self.open_record(id, &record.ok_or(Error::ObjectHandleInvalid)?)?;
        self.objects.keep(handle, tag, &object);
        self.make_change(key, (id, tag), &object, make)
    }

    /// Returns an object with its row and its record.
    fn seal(&self, key: &TokenKey, id: i64, object: Object) -> Result<(Object, Sealed)> {
        let sealed = key.seal(&self.serial, id, object.attributes(), &self.public_indexer)?;
        Ok((object, sealed))
    }

    /// Commits what `work` writes in a transaction, with the summary of the new state. `work`
    /// returns the row hashes to add and to subtract, or `None` to commit nothing; it may be called
    /// again. Returns whether there was a commit. Fails with `DeviceRemoved` if the key belongs to
    /// another incarnation of the token.
    fn commit(
        &self,
        change: &ChangeGuard<'_>,
        (key, incarnation): (&TokenKey, i64),
        purpose: Purpose,
        mut work: impl FnMut(&mut dyn Transaction) -> Result<Option<Vec<RowChange>>>,
    ) -> Result<bool> {
        let mut before = None;
        let outcome = self.store.transact(purpose, &mut |transaction| {
            before = None;
            let Some(changes) = work(transaction)? else { return Ok(None) };
            let state = transaction.before()?;
            let summary = self.reseal_summary(key, incarnation, &state, |summary| {
                for (comes, goes) in &changes {
                    goes.iter().for_each(|hash| summary.subtract(*hash));
                    comes.iter().for_each(|hash| summary.add(*hash));
                }
            })?;
            before = Some(state.change);
            Ok(Some(Snapshot { change: state.change.next(), summary }))
        });
        outcome.inspect_err(|_| self.end_rolled_back_login(change))?;
        before.into_iter().for_each(|before| self.acknowledge(before));
        Ok(before.is_some())
    }

    /// Replaces the PIN record `old` (any record if `old` is `None`). Returns `false` if the record
    /// is not `old` any more.
    pub(super) fn commit_pin(
        &self,
        change: &ChangeGuard<'_>,
        key: (&TokenKey, i64),
        role: Role,
        old: Option<&[u8]>,
        record: &[u8],
    ) -> Result<bool> {
        self.commit(change, key, Purpose::Erase, |transaction| {
            Ok(transaction.set_pin(role, old, record)?.then(Vec::new))
        })
    }

    /// Returns the sealed summary of the state after `before`. Fails with `DeviceRemoved` if the
    /// incarnation of the token is not `incarnation`.
    pub(super) fn reseal_summary(
        &self,
        key: &TokenKey,
        incarnation: i64,
        before: &Snapshot,
        change: impl FnOnce(&mut Summary),
    ) -> Result<Vec<u8>> {
        self.expect_not_before(self.read_counter()?, before.change)?;
        self.expect_no_roll_back(self.latest(), before.change)?;
        require(before.change.incarnation() == incarnation, Error::DeviceRemoved)?;
        let opened = key.open_summary(&self.serial, before.change, &before.summary);
        let mut summary = opened.ok_or_else(|| {
            tracing::error!(
                token = self.serial,
                "nothing written: the summary of the objects was altered on disk"
            );
            Error::DeviceError
        })?;
        change(&mut summary);
        summary.change = before.change.next().0;
        key.seal_summary(&self.serial, &summary)
    }

    /// Notes in the counter that the store has reached this change number.
    pub(super) fn count_change(&self, change: Change) {
        if let Some(counter) = &self.counter {
            // A failure of the counter is in the log. The commit is valid anyway, and the next one
            // reads the counter before it.
            let _ = counter.note(change);
        }
    }

    /// Notes that the store is in the state after `before`.
    pub(super) fn acknowledge(&self, before: Change) {
        self.count_change(before.next());
        let mut state = self.state();
        state.latest = state.latest.max(before.next());
        // If another process wrote in between, `seen` keeps its value, so that the next check loads
        // the rows.
        if state.seen == Some(before) {
            state.seen = Some(before.next());
        }
    }

    /// Returns the row hashes that a write adds to the summary and subtracts from it.
    fn row_change(&self, key: &TokenKey, write: &Write<'_>) -> RowChange {
        let hash = |row: &Row| Some(key.row_hasher().hash(row));
        let old = |id| self.objects.row(id).as_ref().and_then(hash);
        match write {
            Write::Insert(row, _) => (hash(row), None),
            Write::Replace(_, row, _) => (hash(row), old(row.id)),
            Write::Delete(id, _) => (None, old(*id)),
        }
    }
}

/// Returns the new object of a change, or `None` to delete the object. May be called again with a
/// newer state of the object.
pub(super) type Make<'a> = dyn Fn(&Object) -> Result<Option<Object>> + 'a;

/// The row hashes that a write adds to the summary and subtracts from it.
type RowChange = (Option<RowHash>, Option<RowHash>);

struct ObjectChange {
    id: i64,
    tag: Tag,
    /// The new object; `None` to delete it.
    new: Option<(Object, Sealed)>,
}

impl ObjectChange {
    fn write(&self) -> Write<'_> {
        match &self.new {
            Some((_, (row, record))) => Write::Replace(self.tag, row, record),
            None => Write::Delete(self.id, self.tag),
        }
    }
}

fn entry_of(object: Object, row: Row) -> Entry {
    Entry { object: Some(Arc::new(object)), ..Entry::of_row(row) }
}

#[cfg(test)]
mod tests {
    use jeton_words::general::Threads;
    use jeton_words::session::Access;

    use super::*;
    use crate::config::Settings;
    use crate::id::{AttributeType as A, ObjectClass, SessionHandle, SlotId};
    use crate::object::make;
    use crate::object::template::{Given, Raw, Template};
    use crate::store;
    use crate::token::ClientToken;

    const PIN: &[u8] = b"a pin of a test";
    const LABEL: [u8; 32] = [b' '; 32];
    const SESSION: SessionHandle = SessionHandle(1);

    fn log_in(token: &ClientToken) {
        token.open_session(Access::ReadWrite).expect("a session");
        token.log_in(Role::SecurityOfficer, PIN).expect("the SO");
    }

    /// A token object that is not in the store yet.
    fn object(token: &ClientToken) -> Vec<Object> {
        let class = (ObjectClass::DATA.0 as std::ffi::c_ulong).to_ne_bytes();
        let given = |id, value| Given { id, value: Raw::Bytes(value) };
        let template = vec![given(A::CLASS, &class), given(A::TOKEN, &[1]), given(A::PRIVATE, &[0])];
        let rights = token.rights(Access::ReadWrite);
        let attributes = make::create(&Template(template), rights, token.provider()).expect("attributes");
        vec![token.new_object(rights, SESSION, attributes).expect("an object")]
    }

    #[test]
    fn a_job_that_waited_for_a_new_token_key_is_not_written_under_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let parameters =
            format!("token-dir = '{}', pin = {{ memory-kib = 8, passes = 1 }}", directory.path().display());
        let settings = Arc::new(Settings::load(Some(&parameters), Threads::Forbidden).expect("settings"));
        let header = Token::header("0123456789abcdef".to_owned(), 0, LABEL, PIN, &settings, Change(1));
        let header = header.expect("a header");
        let source = store::source(&settings).expect("a directory");
        source.create(&header).expect("a file");
        let store = source.open(&header.serial).expect("a store");
        let token = Token::open(SlotId(0), settings, store).expect("a token");
        let token = ClientToken::new(&Arc::new(token), None);

        log_in(&token);
        let waiting = token.job(token.key().expect("a login"), object(&token)).expect("a job");
        token.queue.append(&waiting);
        token.close_session(SESSION, Access::ReadWrite);
        token.reinitialize(PIN, LABEL).expect("a token");
        log_in(&token);
        assert!(token.commit_new(token.key().expect("a login"), object(&token)).is_ok());
        assert_eq!(waiting.done.get(), Some(&Err(Error::DeviceRemoved)));

        // The next login verifies the rows.
        token.logout().expect("the SO");
        token.log_in(Role::SecurityOfficer, PIN).expect("the SO");
        assert_eq!(token.objects.row_count(), 1);
        token.close_session(SESSION, Access::ReadWrite);
    }
}
