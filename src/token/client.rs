//! A token as one application uses it.
//!
//! The login, the open sessions and the session objects belong to the application. The store, the
//! unlocked token key and the token objects belong to the [`Token`], which all applications of the
//! process share. PKCS#11 3.2, "Applications and processes": an application has its own sessions,
//! logins and session objects.
//!
//! Each application has its own epoch. When the epoch changes, the sessions look up their keys
//! again.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use jeton_words::session::Access;
use tracing::warn;

use super::epoch::Epoch;
use super::known_pin::KnownPin;
use super::objects::{self, Content, Entry, Objects};
use super::search::Plan;
use super::state::{Application, ChangeGuard, State, Token};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::object::access::{self, Login, Rights};
use crate::object::flags::Flag;
use crate::object::value::Value;
use crate::object::{Attributes, Home, Object, built_in};
use crate::quota::{Permit, Quota};
use crate::store::Tag;
use crate::store::seal::TokenKey;
use crate::store::seal::index::IndexKeys;
use crate::sync::lock;

/// The largest number of times that [`Token::current`] loads changes because the row of an object
/// does not match its record.
const MOST_LOADS: usize = 1000;

/// A token as one application uses it. Its methods need a session of the application. Those of the
/// [`Token`] need none.
pub struct ClientToken {
    token: Arc<Token>,
    /// The login, with the epoch of everything that the sessions remember.
    epoch: Epoch,
    /// The numbers of open sessions, which change only under the lock of the token's state.
    sessions: AtomicU64,
    read_write_sessions: AtomicU64,
    /// The number of logins of the user that have ended.
    logouts: AtomicU64,
    /// The session objects. The first one creates the collection.
    session_objects: OnceLock<Objects>,
    /// Locked from the choice of a session object's handle until the object has it. The index has
    /// the session objects up to this handle.
    indexed: Mutex<ObjectHandle>,
    identity: Option<Arc<Identity>>,
    /// The PIN of the login. The PIN is known while an application of the client has it here.
    pin: Mutex<Option<Arc<KnownPin>>>,
}

impl Deref for ClientToken {
    type Target = Token;

    fn deref(&self) -> &Token {
        &self.token
    }
}

/// Who an application of an agent works for.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The name, for the audit log.
    pub name: String,
    /// The labels of the token objects that the application sees and may make. `web-*` stands for
    /// all labels that begin with `web-`. `None` allows all.
    pub objects: Option<Vec<String>>,
    /// The memory that the application may make the module keep, which other applications of the
    /// same client may share. `None` does not limit it.
    pub memory: Option<Arc<Quota>>,
}

impl Identity {
    /// Returns whether the application may see a token object.
    fn allows(&self, attributes: &Attributes) -> bool {
        let Some(patterns) = &self.objects else { return true };
        let label = attributes.bytes(A::LABEL).unwrap_or_default();
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => label.starts_with(start.as_bytes()),
            None => label == pattern.as_bytes(),
        })
    }
}

/// The numbers of open sessions of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sessions {
    pub(crate) all: u64,
    pub(crate) read_write: u64,
}

impl ClientToken {
    /// Adds an application to those that use a token.
    pub(crate) fn new(token: &Arc<Token>, identity: Option<Arc<Identity>>) -> Arc<Self> {
        let client = Arc::new(Self {
            token: Arc::clone(token),
            epoch: Epoch::new(),
            sessions: AtomicU64::new(0),
            read_write_sessions: AtomicU64::new(0),
            logouts: AtomicU64::new(0),
            session_objects: OnceLock::new(),
            indexed: Mutex::new(ObjectHandle(0)),
            identity,
            pin: Mutex::default(),
        });
        let mut clients = lock(&token.clients);
        clients.retain(|other| other.strong_count() != 0);
        let weak = Arc::downgrade(&client);
        clients.push(weak);
        drop(clients);
        client
    }

    /// Returns who the application works for.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    /// Takes memory for what the application keeps until another call. `None` if the application
    /// has no quota. Fails with `DeviceMemory` if the quota does not have it.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Option<Permit>> {
        let Some(quota) = self.identity().and_then(|identity| identity.memory.as_ref()) else {
            return Ok(None);
        };
        let permit = quota.try_take(bytes).ok_or_else(|| {
            let (client, limit, used) =
                (self.identity().map(|identity| &identity.name), quota.limit(), quota.used());
            warn!(client, bytes, used, limit, "the memory of the client is used up");
            Error::DeviceMemory
        })?;
        Ok(Some(permit))
    }

    /// Takes the memory of a new object. A session object keeps it. For a token object the caller
    /// keeps it until the object has been written: the same process may create many at once.
    fn hold_object(&self, object: &mut Object) -> Result<Option<Permit>> {
        if self.identity().is_none_or(|identity| identity.memory.is_none()) {
            return Ok(None);
        }
        let permit = self.hold(object.footprint())?;
        if self.login_state() == Login::Public {
            // Otherwise one search could compute the public halves of all keys, which takes
            // minutes.
            let _ = object.attribute(A::PUBLIC_KEY_INFO);
        }
        if matches!(object.home, Home::Session(_)) {
            object.memory = permit;
            return Ok(None);
        }
        Ok(permit)
    }

    /// Fails if the application may not make token objects with these attributes.
    fn allow(&self, attributes: &Attributes) -> Result<()> {
        let is_stored = attributes.flag(A::TOKEN) == Some(true);
        match self.identity() {
            Some(identity) if is_stored && !identity.allows(attributes) => Err(Error::ActionProhibited),
            _ => Ok(()),
        }
    }

    /// Returns the role that is logged in.
    pub(crate) fn login_state(&self) -> Login {
        self.epoch.login()
    }

    /// Returns a number that changes whenever a handle, a right or a parsed key that a session
    /// remembers may be invalid.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Starts a new epoch with the same login.
    pub(super) fn bump(&self) {
        self.epoch.bump();
    }

    /// Publishes the login together with a new epoch, under the lock of the token's state.
    pub(super) fn publish(&self, _: &State, login: Login) {
        self.epoch.publish(login);
    }

    /// Keeps the known PIN of a login until the login ends, under the lock of the token's state.
    pub(super) fn note_pin(&self, _: &State, pin: Option<&Arc<KnownPin>>) {
        *lock(&self.pin) = pin.cloned();
    }

    /// Returns the rights of a session of this application.
    pub(crate) fn rights(&self, access: Access) -> Rights {
        Rights { login: self.login_state(), access }
    }

    pub(crate) fn sessions(&self) -> Sessions {
        Sessions {
            all: self.sessions.load(Ordering::Acquire),
            read_write: self.read_write_sessions.load(Ordering::Acquire),
        }
    }

    /// Counts a new session. Fails if it is read-only and the SO is logged in. Waits until an
    /// initialisation of the token ends.
    pub(crate) fn open_session(&self, access: Access) -> Result<()> {
        let mut state = self.state();
        while state.erasing {
            drop(state);
            drop(self.lock_changes());
            state = self.state();
        }
        // PKCS#11 3.2, C_OpenSession: no read-only session is allowed while the SO is logged in.
        if access == Access::ReadOnly && self.login_state() == Login::SecurityOfficer {
            return Err(Error::SessionReadWriteSoExists);
        }
        self.sessions.fetch_add(1, Ordering::AcqRel);
        self.read_write_sessions.fetch_add(u64::from(access == Access::ReadWrite), Ordering::AcqRel);
        Ok(())
    }

    /// Destroys the session objects of a session, and removes the session from the count. The last
    /// session ends the login. Returns the number of sessions that are left.
    pub(crate) fn close_session(&self, session: SessionHandle, access: Access) -> u64 {
        self.forget_session(session);
        let state = self.state();
        let left = self.sessions.fetch_sub(1, Ordering::AcqRel) - 1;
        self.read_write_sessions.fetch_sub(u64::from(access == Access::ReadWrite), Ordering::AcqRel);
        drop(state);
        if left == 0 && self.login_state() != Login::Public {
            let change = self.lock_changes();
            let mut state = self.state();
            if self.sessions().all == 0 && self.login_state() != Login::Public {
                self.end_login(&change, &mut state);
            }
            drop(state);
            self.take_back_all_owed();
        }
        left
    }

    /// Destroys the session objects of a session. Returns whether it had any.
    pub(crate) fn forget_session(&self, session: SessionHandle) -> bool {
        let had = self.session_objects.get().is_some_and(|objects| objects.remove_session(session));
        if had {
            // Another session may remember one of its keys.
            self.bump();
        }
        had
    }

    pub(crate) fn session_objects(&self) -> usize {
        self.session_objects.get().map_or(0, Objects::len)
    }

    /// Ends the login. Destroys private session objects. Wipes private objects from memory if no
    /// other application is logged in.
    pub(crate) fn logout(&self) -> Result<()> {
        let change = self.lock_changes();
        let mut state = self.state();
        require(self.login_state() != Login::Public, Error::UserNotLoggedIn)?;
        self.end_login(&change, &mut state);
        drop(state);
        self.take_back_all_owed();
        Ok(())
    }

    pub(super) fn end_login(&self, change: &ChangeGuard<'_>, state: &mut State) {
        self.close_login(state);
        self.wipe_unneeded(change, state);
    }

    /// Ends the login without a look at what the token has in memory.
    pub(super) fn close_login(&self, state: &State) {
        if self.login_state() == Login::User {
            self.logouts.fetch_add(1, Ordering::AcqRel);
        }
        self.note_pin(state, None);
        self.publish(state, Login::Public);
        if let Some(objects) = self.session_objects.get() {
            objects.remove_private();
        }
    }

    /// Returns the token key, and the incarnation of the token that the key belongs to. Fails with
    /// `UserNotLoggedIn` if this application is not logged in, although another may be.
    pub(super) fn key(&self) -> Result<(Arc<TokenKey>, i64)> {
        let state = self.state();
        let key = state.key.clone().filter(|_| self.login_state() != Login::Public);
        key.map(|key| (key, state.incarnation)).ok_or(Error::UserNotLoggedIn)
    }

    /// Creates an object from attributes that the rules have checked.
    pub(crate) fn insert(
        &self,
        rights: Rights,
        session: SessionHandle,
        attributes: Attributes,
    ) -> Result<ObjectHandle> {
        self.allow(&attributes)?;
        let mut object = self.new_object(rights, session, attributes)?;
        let _permit = self.hold_object(&mut object)?;
        let handle = match object.home {
            Home::Token(_) => self.shown(self.commit_new(self.key()?, vec![object])?[0]),
            Home::Session(_) | Home::BuiltIn => self.insert_in_session(object),
        };
        self.follow_logout(rights);
        Ok(handle)
    }

    /// Creates several objects, or no object if one fails.
    pub(crate) fn insert_all<const N: usize>(
        &self,
        rights: Rights,
        session: SessionHandle,
        attributes: [Attributes; N],
    ) -> Result<[ObjectHandle; N]> {
        let made = self.insert_list(rights, session, attributes.into())?;
        made.try_into().map_err(|_| Error::GeneralError)
    }

    /// Like `insert_all`, for a number of objects that is only known at run time.
    pub(crate) fn insert_list(
        &self,
        rights: Rights,
        session: SessionHandle,
        attributes: Vec<Attributes>,
    ) -> Result<Vec<ObjectHandle>> {
        let mut permits = Vec::new();
        let objects = attributes.into_iter().map(|attributes| {
            self.allow(&attributes)?;
            let mut object = self.new_object(rights, session, attributes)?;
            permits.extend(self.hold_object(&mut object)?);
            Ok(Some(object))
        });
        let mut objects = objects.collect::<Result<Vec<_>>>()?;
        let is_stored = |object: &mut Object| matches!(object.home, Home::Token(_));
        let stored: Vec<_> = objects.iter_mut().filter_map(|object| object.take_if(is_stored)).collect();
        let stored = if stored.is_empty() { Vec::new() } else { self.commit_new(self.key()?, stored)? };
        let mut stored = stored.into_iter().map(|handle| self.shown(handle));
        let insert = |object: Option<Object>| match object {
            Some(object) => Some(self.insert_in_session(object)),
            None => stored.next(),
        };
        let made = objects.into_iter().filter_map(insert).collect();
        self.follow_logout(rights);
        Ok(made)
    }

    /// Returns the number of logins of the user that have ended.
    pub(crate) fn logouts(&self) -> u64 {
        self.logouts.load(Ordering::Acquire)
    }

    /// Sets that number, so that the application knows private objects by the same handles as at
    /// another agent.
    pub(crate) fn set_logouts(&self, logouts: u64) {
        self.logouts.store(logouts, Ordering::Release);
        self.bump();
    }

    /// Returns the handle by which the application knows an object. PKCS#11 3.2, C_Logout: handles
    /// to private objects become invalid, and "even if a user is later logged back into the token,
    /// those handles remain invalid". So they have the number of logins that have ended.
    fn shown(&self, handle: ObjectHandle) -> ObjectHandle {
        let logouts = self.logouts.load(Ordering::Acquire);
        if logouts != 0 && objects::is_stored(handle) && self.token.objects.is_private(handle) == Some(true) {
            return objects::counted(handle, logouts);
        }
        handle
    }

    pub(super) fn known(&self, shown: ObjectHandle) -> Result<ObjectHandle> {
        let logouts = self.logouts.load(Ordering::Acquire);
        if logouts == 0 || !objects::is_stored(shown) {
            return Ok(shown);
        }
        let find = || {
            let is_known = |handle: &ObjectHandle| {
                self.token.objects.is_private(*handle).is_some() && self.shown(*handle) == shown
            };
            [shown, objects::counted(shown, logouts)].into_iter().find(is_known)
        };
        if let Some(handle) = find() {
            return Ok(handle);
        }
        // An application that goes on at another agent may know an object that this process has not
        // read yet.
        self.load_changes(&self.lock_changes())?;
        find().ok_or(Error::ObjectHandleInvalid)
    }

    /// Loads the changes of other processes if no row has this handle. An application that goes on
    /// at another agent may know an object that this process has not read yet.
    fn look_for(&self, handle: ObjectHandle) -> Result<()> {
        if objects::is_stored(handle) && self.token.objects.is_private(handle).is_none() {
            self.load_changes(&self.lock_changes())?;
        }
        Ok(())
    }

    /// Adds a session object. Returns its new handle.
    fn insert_in_session(&self, object: Object) -> ObjectHandle {
        let objects = self.session_objects.get_or_init(Objects::default);
        let mut indexed = lock(&self.indexed);
        let handle = match objects::asked().filter(|handle| objects.is_private(*handle).is_none()) {
            Some(handle) => {
                self.token.objects.skip_to(handle);
                handle
            }
            None => self.token.objects.new_handle(),
        };
        indexed.0 = indexed.0.min(handle.0 - 1);
        objects.insert(handle, Entry::of_session(object, IndexKeys::new()));
        handle
    }

    /// Adds the session objects to the index that were made since the last search. Most of them are
    /// destroyed before anyone searches.
    fn index_new(&self, objects: &Objects) {
        let mut indexed = lock(&self.indexed);
        objects.index_after(*indexed, |object| self.index_keys(object));
        indexed.0 = objects::BUILT_IN + self.token.objects.last_handle();
    }

    /// Removes what no login needs if a logout happened during the call: the logout did not see the
    /// new object.
    fn follow_logout(&self, rights: Rights) {
        if rights.login != Login::Public && self.login_state() != rights.login {
            let change = self.lock_changes();
            let mut state = self.state();
            // The user may be logged in again, and have new objects.
            if self.login_state() != Login::User {
                self.session_objects.get().into_iter().for_each(Objects::remove_private);
            }
            self.wipe_unneeded(&change, &mut state);
        }
    }

    /// Replaces an object with the result of `change`. `change` gets the current object, with the
    /// changes of other processes. A change of an older object could undo another change, for
    /// example one that made the key sensitive.
    pub(crate) fn replace(
        &self,
        rights: Rights,
        handle: ObjectHandle,
        change: impl Fn(&Object) -> Result<Attributes>,
    ) -> Result<()> {
        self.rewrite(rights, handle, |object| {
            let attributes = change(object)?;
            rights.write(&attributes)?;
            self.allow(&attributes)?;
            Ok(attributes)
        })
    }

    /// Like `replace`, for attributes that the token itself updates, which needs no right to write.
    /// `change` may be called again if another process wrote in the meantime. The result of the
    /// last call is stored.
    pub(crate) fn rewrite(
        &self,
        rights: Rights,
        handle: ObjectHandle,
        change: impl Fn(&Object) -> Result<Attributes>,
    ) -> Result<()> {
        let make = |old: &Object| {
            require(!old.is_locked(), Error::UserNotLoggedIn)?;
            Ok(self.make_object(old.home, change(old)?)?.keep_computed(old))
        };
        let handle = self.known(handle)?;
        let guard = self.lock_changes();
        self.notice_altered_rows(&guard)?;
        let (tag, old) = self.current(&guard, rights, handle)?;
        let Home::Token(id) = old.home else {
            let mut new = make(&old)?;
            self.hold_object(&mut new)?;
            let index_keys = self.index_keys(&new);
            let new = Entry::of_session(new, index_keys);
            // Another thread may have destroyed it meanwhile.
            let is_done = self.session_objects.get().is_some_and(|objects| objects.replace(handle, new));
            self.bump();
            return if is_done { Ok(()) } else { Err(Error::ObjectHandleInvalid) };
        };
        let make = |old: &Object| make(old).map(Some);
        self.commit_change(&guard, self.key()?, (handle, id, tag), &old, &make)
    }

    /// Destroys an object. Fails if it is not destroyable or the session may not write it.
    pub(crate) fn remove(&self, rights: Rights, handle: ObjectHandle) -> Result<()> {
        let handle = self.known(handle)?;
        let seen = self.seen(rights, handle)?;
        let check = |object: &Object| {
            rights.write(object.attributes())?;
            access::permit(object, Flag::DESTROYABLE)
        };
        let Home::Token(id) = seen.home else {
            check(&seen)?;
            let is_done = self.session_objects.get().is_some_and(|objects| objects.remove(handle));
            self.bump();
            return if is_done { Ok(()) } else { Err(Error::ObjectHandleInvalid) };
        };
        let change = self.lock_changes();
        let (tag, object) = self.current(&change, rights, handle)?;
        let make = |object: &Object| check(object).map(|()| None);
        self.commit_change(&change, self.key()?, (handle, id, tag), &object, &make)
    }

    /// Returns the object of a handle if a session with these rights sees it. Before a login, fails
    /// with `UserNotLoggedIn` for a key that is a token object with `CKA_PRIVATE` false: its secret
    /// parts are encrypted.
    pub(crate) fn object(&self, rights: Rights, handle: ObjectHandle) -> Result<Arc<Object>> {
        let object = self.visible(rights, handle)?;
        if object.is_locked() { Err(Error::UserNotLoggedIn) } else { Ok(object) }
    }

    /// Like `object`, for a key that is about to be used. If the store cannot be read, the handle
    /// may be valid.
    pub(crate) fn key_object(&self, rights: Rights, handle: ObjectHandle) -> Result<Arc<Object>> {
        self.object(rights, handle).map_err(|error| match error {
            Error::ObjectHandleInvalid => Error::KeyHandleInvalid,
            _ => error,
        })
    }

    /// Returns the object of a handle to read its attributes. It may be a key whose secret parts
    /// are encrypted until a login.
    pub(crate) fn visible(&self, rights: Rights, handle: ObjectHandle) -> Result<Arc<Object>> {
        self.seen(rights, self.known(handle)?)
    }

    /// Like [`visible`](Self::visible), for a handle of the token.
    fn seen(&self, rights: Rights, handle: ObjectHandle) -> Result<Arc<Object>> {
        match self.look_up(rights, handle) {
            Ok(Some((_, object))) => Ok(object),
            // Another process has changed it since the rows were read.
            Ok(None) => {
                let change = self.lock_changes();
                self.load_changes(&change)?;
                self.current(&change, rights, handle).map(|(_, object)| object)
            }
            Err(Error::ObjectHandleInvalid) => {
                self.look_for(handle)?;
                self.look_up(rights, handle)?.map(|(_, object)| object).ok_or(Error::ObjectHandleInvalid)
            }
            Err(error) => Err(error),
        }
    }

    fn current(
        &self,
        change: &ChangeGuard<'_>,
        rights: Rights,
        handle: ObjectHandle,
    ) -> Result<(Tag, Arc<Object>)> {
        let mut loads = 0;
        while loads < MOST_LOADS {
            if let Some(found) = self.look_up(rights, handle)? {
                return Ok(found);
            }
            let seen = self.state().seen;
            self.load_changes(change)?;
            loads += 1;
            // Other processes may write again and again between the reads of the row and of the
            // record.
            if loads >= 2 && self.state().seen == seen {
                break;
            }
        }
        // The row does not match the record, although no process is writing.
        if let Some(Content { home: Home::Token(id), .. }) = self.token.objects.get(handle) {
            self.leave_out(id);
        }
        Err(Error::ObjectHandleInvalid)
    }

    /// Returns the object of a handle and its tag. Reads it from the store if necessary. Returns
    /// `None` if the record in the store does not match the row in memory.
    fn look_up(&self, rights: Rights, handle: ObjectHandle) -> Result<Option<(Tag, Arc<Object>)>> {
        if handle.0 <= objects::BUILT_IN {
            let place = usize::try_from(handle.0).ok().and_then(|number| number.checked_sub(1));
            let object = place.and_then(|place| self.built_in().get(place)).map(Arc::clone);
            return object.map(|object| Some((Tag::default(), object))).ok_or(Error::ObjectHandleInvalid);
        }
        let objects =
            if objects::is_stored(handle) { Some(&self.token.objects) } else { self.session_objects.get() };
        let entry = objects.and_then(|objects| objects.get(handle)).ok_or(Error::ObjectHandleInvalid)?;
        require(!entry.private || rights.login == Login::User, Error::ObjectHandleInvalid)?;
        let tag = entry.tag;
        let Home::Token(id) = entry.home else {
            return entry.object.map(|object| Some((tag, object))).ok_or(Error::ObjectHandleInvalid);
        };
        let Some(object) = self.read_once(handle, id, entry)? else { return Ok(None) };
        if self.identity().is_some_and(|identity| !identity.allows(object.attributes())) {
            return Err(Error::ObjectHandleInvalid);
        }
        // Another application may be logged in.
        if rights.login == Login::Public && object.object_type().is_hidden() && !object.is_locked() {
            return Ok(Some((tag, Arc::new(object.without_secrets()?))));
        }
        Ok(Some((tag, object)))
    }

    pub(crate) fn search(&self, rights: Rights, wanted: &[(A, Value)]) -> Vec<ObjectHandle> {
        let built_in = built_in::CLASSES.map(|class| Value::Number(class.0));
        if wanted
            .iter()
            .any(|(id, value)| *id == A::CLASS && built_in.iter().any(|class| class.equals(value)))
        {
            let fits = |object: &Object| wanted.iter().all(|(id, value)| object.shows(*id, value));
            let objects = (1..=objects::BUILT_IN).zip(self.built_in());
            let found = objects.filter(|(_, object)| fits(object));
            return found.map(|(number, _)| ObjectHandle(number)).collect();
        }
        let key = self.state().key.clone().filter(|_| rights.login == Login::User);
        let plan = Plan::new(wanted, &self.public_indexer, key.as_ref().map(|key| key.indexer()));
        let load = |handle| self.seen(rights, handle).ok();
        let is_wanted = plan.token != Some(false);
        let mut found = if is_wanted { self.token.objects.search(&plan, load) } else { Vec::new() };
        // The application may see only some objects.
        if self.identity().is_some_and(|identity| identity.objects.is_some()) {
            found.retain(|handle| load(*handle).is_some());
        }
        if plan.token != Some(true)
            && let Some(objects) = self.session_objects.get()
        {
            self.index_new(objects);
            let stored = found.len();
            found.append(&mut objects.search(&plan, load));
            if stored != 0 && stored != found.len() {
                found.sort_unstable();
            }
        }
        if self.logouts.load(Ordering::Acquire) != 0 {
            found.iter_mut().for_each(|handle| *handle = self.shown(*handle));
        }
        found
    }
}

impl Application for ClientToken {
    fn login_state(&self) -> Login {
        self.login_state()
    }

    fn has_sessions(&self) -> bool {
        self.sessions().all != 0
    }

    fn bump(&self) {
        self.bump();
    }

    fn close_login(&self, state: &State) {
        self.close_login(state);
    }
}

impl Drop for ClientToken {
    fn drop(&mut self) {
        if self.sessions().all != 0 {
            warn!(token = self.serial, "token dropped with open sessions");
        }
    }
}
