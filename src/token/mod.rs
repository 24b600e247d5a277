//! A token: its label, PINs and login, its objects, and the epoch that tells sessions when to look again.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::{error, warn};

use crate::backend::Provider;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle, SlotId};
use crate::object::bits::Flag;
use crate::object::policy::{Login, Rights};
use crate::object::value::Value;
use crate::object::{Attributes, Home, Object, built_in, computed};
use crate::store::counter::Counter;
use crate::store::index::{NAMER_KEY, Namer};
use crate::store::seal::{self, TokenKey};
use crate::store::summary::Summary;
use crate::store::{Change, Header, PinState, Role, Store, Tag};

mod commit;
mod epoch;
mod objects;
mod pin;
mod scan;
mod search;
mod walk;

pub use pin::fits;

use commit::Queue;
use epoch::Epoch;
use objects::{Entry, Known, Objects};
use scan::Glance;
use search::{Plan, in_session};

/// A token in its slot.
pub struct Token {
    /// The slot.
    pub slot: SlotId,
    /// What the module was configured with.
    pub settings: Arc<Settings>,
    serial: String,
    store: Box<dyn Store>,
    objects: Objects,
    unique_ids: UniqueIds,
    /// Made at the first search for one.
    built_in: OnceLock<Vec<Arc<Object>>>,
    /// Makes the names of public objects; whoever reads the file can read those as well.
    open: Namer,
    /// Where one is configured.
    counter: Option<Counter>,
    /// New objects on their way to the store.
    queue: Queue,
    /// Held, before the state's lock, while store and memory change together: a search that took over rows of the store
    /// in between would enter an object twice or drop it.
    change: Mutex<()>,
    state: Mutex<State>,
    epoch: Epoch,
    glance: Glance,
}

/// What a login changes. Its lock is never held while a key is made, used or derived from a PIN.
struct State {
    key: Option<Arc<TokenKey>>,
    /// The life of the token that the key is of: see [`Change::life`].
    life: i64,
    /// The state of the store that the rows in memory are of; none before the first search.
    seen: Option<Change>,
    sessions: u64,
    read_write_sessions: u64,
}

/// How many sessions a token has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sessions {
    /// All.
    pub all: u64,
    /// The read/write ones.
    pub read_write: u64,
}

impl Token {
    /// Opens the token of a store. Nothing is read until somebody searches or logs in.
    pub fn open(slot: SlotId, settings: Arc<Settings>, store: Box<dyn Store>) -> Result<Self> {
        let serial = store.header()?.serial;
        let mut key = [0; NAMER_KEY];
        key.iter_mut().zip(serial.bytes()).for_each(|(byte, digit)| *byte = digit);
        let state = State { key: None, life: 0, seen: None, sessions: 0, read_write_sessions: 0 };
        let counter = settings.counter_dir.as_ref().map(|directory| Counter::of(directory, &serial));
        Ok(Self {
            slot,
            settings,
            serial,
            counter,
            store,
            objects: Objects::default(),
            unique_ids: UniqueIds::new()?,
            open: Namer::new(&key),
            queue: Queue::default(),
            built_in: OnceLock::new(),
            change: Mutex::default(),
            state: Mutex::new(state),
            epoch: Epoch::new(),
            glance: Glance::default(),
        })
    }

    /// A new token's header, and its key under the SO PIN; `change` is the state that it will be of.
    pub fn header(
        serial: String,
        slot: u64,
        label: [u8; 32],
        so_pin: &[u8],
        settings: &Settings,
        change: Change,
    ) -> Result<Header> {
        let key = TokenKey::generate()?;
        let record = key.wrap(&serial, Role::Officer, so_pin, &settings.pins)?;
        let summary = key.seal_summary(&serial, &Summary::empty(change))?;
        let so = PinState { record, failures: 0 };
        Ok(Header { serial, slot, label, so, user: PinState::default(), change, summary })
    }

    /// The serial number.
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// The backend that computes for this token.
    pub fn provider(&self) -> &'static Provider {
        self.settings.provider
    }

    /// What the store knows of the token now, other processes' changes too.
    pub fn stored_header(&self) -> Result<Header> {
        self.store.header()
    }

    /// Who is logged in.
    pub fn login_state(&self) -> Login {
        self.epoch.login()
    }

    /// A number that changes whenever a handle, a right or a parsed key that a session remembers may be wrong.
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// The rights of a session of this token.
    pub fn rights(&self, read_write: bool) -> Rights {
        Rights { login: self.login_state(), read_write }
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> Sessions {
        let state = self.state();
        Sessions { all: state.sessions, read_write: state.read_write_sessions }
    }

    /// Counts a session in.
    pub fn session_opened(&self, read_write: bool) -> Result<()> {
        let mut state = self.state();
        // PKCS#11 3.2, C_OpenSession: no read-only session beside a logged-in SO.
        if !read_write && self.login_state() == Login::Officer {
            return Err(Error::SessionReadWriteSoExists);
        }
        state.sessions += 1;
        state.read_write_sessions += u64::from(read_write);
        Ok(())
    }

    /// Counts a session out. With the last one the login ends.
    pub fn session_closed(&self, session: SessionHandle, read_write: bool) {
        // Another session may remember one of its keys.
        if self.objects.remove_session(session) {
            self.bump();
        }
        let mut state = self.state();
        state.sessions -= 1;
        state.read_write_sessions -= u64::from(read_write);
        let last = state.sessions == 0 && self.login_state() != Login::Public;
        drop(state);
        if last {
            let _change = self.change();
            let mut state = self.state();
            if state.sessions == 0 && self.login_state() != Login::Public {
                self.end_login(&mut state);
            }
        }
    }

    /// Ends the login: private objects are wiped from memory, private session objects are gone.
    pub fn logout(&self) -> Result<()> {
        let _change = self.change();
        let mut state = self.state();
        if self.login_state() == Login::Public {
            return Err(Error::UserNotLoggedIn);
        }
        self.end_login(&mut state);
        Ok(())
    }

    /// Makes an object of attributes that were made by the rules.
    pub fn insert(
        &self,
        rights: Rights,
        session: SessionHandle,
        attributes: Attributes,
    ) -> Result<ObjectHandle> {
        let object = self.new_object(rights, session, attributes)?;
        let handle = match object.home {
            Home::Token(_) => self.commit_new(vec![object])?[0],
            Home::Session(_) | Home::BuiltIn => self.objects.insert(self.entry(object, Tag::default())),
        };
        self.follow_logout(rights);
        Ok(handle)
    }

    /// Makes several objects at once, or none.
    pub fn insert_all<const N: usize>(
        &self,
        rights: Rights,
        session: SessionHandle,
        attributes: [Attributes; N],
    ) -> Result<[ObjectHandle; N]> {
        let made = self.insert_list(rights, session, attributes.into())?;
        made.try_into().map_err(|_| Error::GeneralError)
    }

    /// The same for a number of objects that is not known before.
    pub fn insert_list(
        &self,
        rights: Rights,
        session: SessionHandle,
        attributes: Vec<Attributes>,
    ) -> Result<Vec<ObjectHandle>> {
        let objects = attributes.into_iter().map(|attributes| self.new_object(rights, session, attributes));
        let objects = objects.collect::<Result<Vec<_>>>()?;
        let made = if objects.iter().any(|object| matches!(object.home, Home::Token(_))) {
            self.commit_new(objects)?
        } else {
            objects
                .into_iter()
                .map(|object| self.objects.insert(self.entry(object, Tag::default())))
                .collect()
        };
        self.follow_logout(rights);
        Ok(made)
    }

    /// An object that is in no list yet.
    fn new_object(
        &self,
        rights: Rights,
        session: SessionHandle,
        mut attributes: Attributes,
    ) -> Result<Object> {
        rights.write(&attributes)?;
        attributes.put(A::UNIQUE_ID, Value::Bytes(self.unique_ids.next()[..].into()));
        let token = attributes.flag(A::TOKEN) == Some(true);
        let home = if token { Home::Token(record_id()?) } else { Home::Session(session) };
        self.made(home, attributes)
    }

    /// A logout that came in between let go of the private objects that it saw.
    fn follow_logout(&self, rights: Rights) {
        if rights.login == Login::User && self.login_state() != Login::User {
            self.objects.remove_private();
        }
    }

    /// An object as the memory holds it.
    fn entry(&self, object: Object, tag: Tag) -> Entry {
        let private = object.flag(Flag::PRIVATE);
        let mut names = self.open.names(object.attributes());
        if private {
            names.iter_mut().for_each(|name| *name = in_session(*name));
        }
        Entry { home: object.home, private, tag, names, object: Some(Arc::new(object)) }
    }

    /// Puts what `change` makes of an object in its place. It is made of the object as it is now, other processes'
    /// changes too: of an older one it would take back that a key is sensitive since.
    pub fn replace(
        &self,
        rights: Rights,
        handle: ObjectHandle,
        change: impl Fn(&Object) -> Result<Attributes>,
    ) -> Result<()> {
        self.rewrite(rights, handle, |object| {
            let attributes = change(object)?;
            rights.write(&attributes)?;
            Ok(attributes)
        })
    }

    /// The same for what the token itself keeps of an object, which takes no right to write. `change` may be asked
    /// again where another process wrote meanwhile; what it was asked for last is what stands there.
    pub fn rewrite(
        &self,
        rights: Rights,
        handle: ObjectHandle,
        change: impl Fn(&Object) -> Result<Attributes>,
    ) -> Result<()> {
        let _change = self.change();
        self.take_changes()?;
        loop {
            let (tag, old) = self.current(rights, handle)?;
            let attributes = change(&old)?;
            let new = self.made(old.home, attributes)?;
            let entry = match old.home {
                Home::Session(_) | Home::BuiltIn => Some(self.entry(new, tag)),
                Home::Token(id) => self.commit_replacement(id, tag, new)?,
            };
            if let Some(entry) = entry {
                self.objects.replace(handle, entry);
                self.bump();
                return Ok(());
            }
            // Another process was quicker: once more with what it wrote.
            self.take_changes()?;
        }
    }

    /// Destroys an object.
    pub fn remove(&self, rights: Rights, handle: ObjectHandle) -> Result<()> {
        let seen = self.object(rights, handle)?;
        let _change = matches!(seen.home, Home::Token(_)).then(|| self.change());
        loop {
            let (tag, object) = match seen.home {
                Home::Token(_) => self.current(rights, handle)?,
                Home::Session(_) | Home::BuiltIn => (Tag::default(), Arc::clone(&seen)),
            };
            rights.write(object.attributes())?;
            crate::object::policy::destroyable(&object)?;
            let gone = match object.home {
                Home::Session(_) | Home::BuiltIn => true,
                Home::Token(id) => self.commit_removal(id, tag)?,
            };
            if gone {
                self.objects.remove(handle);
                self.bump();
                return Ok(());
            }
            self.take_changes()?;
        }
    }

    /// The object of a handle, where a session with these rights sees it.
    pub fn object(&self, rights: Rights, handle: ObjectHandle) -> Result<Arc<Object>> {
        match self.look_up(rights, handle)? {
            Some((_, object)) => Ok(object),
            // Another process changed it since the rows were read.
            None => {
                let _change = self.change();
                self.take_changes()?;
                self.current(rights, handle).map(|(_, object)| object)
            }
        }
    }

    /// The same, with its tag, for who holds the lock of changes.
    fn current(&self, rights: Rights, handle: ObjectHandle) -> Result<(Tag, Arc<Object>)> {
        for _ in 0..2 {
            if let Some(found) = self.look_up(rights, handle)? {
                return Ok(found);
            }
            self.take_changes()?;
        }
        // Row and record contradict each other, and nobody is writing.
        if let Some(Known { home: Home::Token(id), .. }) = self.objects.get(handle) {
            self.leave_out(id);
        }
        Err(Error::ObjectHandleInvalid)
    }

    /// The object of a handle and its tag, read and verified where that was not done yet; `None` where the store has
    /// another record than the row in memory belongs to.
    fn look_up(&self, rights: Rights, handle: ObjectHandle) -> Result<Option<(Tag, Arc<Object>)>> {
        if handle.0 <= objects::BUILT_IN {
            return self.built_in_object(handle).map(|object| Some((Tag::default(), object)));
        }
        let entry = self.objects.get(handle).ok_or(Error::ObjectHandleInvalid)?;
        if entry.private && rights.login != Login::User {
            return Err(Error::ObjectHandleInvalid);
        }
        match (entry.object, entry.home) {
            (Some(object), _) => Ok(Some((entry.tag, object))),
            (None, Home::Session(_) | Home::BuiltIn) => Err(Error::ObjectHandleInvalid),
            (None, Home::Token(id)) => {
                let Some(object) = self.read(id, entry.tag)? else { return Ok(None) };
                self.objects.keep(handle, entry.tag, &object);
                Ok(Some((entry.tag, object)))
            }
        }
    }

    /// Reads and verifies a record. Before a login nobody can verify; what is public is read as it stands, and again at
    /// the login.
    fn read(&self, id: i64, tag: Tag) -> Result<Option<Arc<Object>>> {
        let Some(record) = self.store.record(id)? else { return Ok(None) };
        if seal::tag(&record) != Some(tag) {
            return Ok(None);
        }
        let key = self.state().key.clone();
        let attributes = match &key {
            Some(key) => key.open(&self.serial, id, &record),
            None => seal::peek(&record),
        };
        match attributes.and_then(|attributes| Object::new(Home::Token(id), attributes, self.provider()).ok())
        {
            Some(object) => Ok(Some(Arc::new(object))),
            None => {
                self.leave_out(id);
                Err(Error::ObjectHandleInvalid)
            }
        }
    }

    /// An object that was altered on disk is named in the log and not used; the others stay usable.
    fn leave_out(&self, id: i64) {
        error!(token = self.serial, record = id, "an object was altered on disk and is not used");
        self.objects.retain_rows(|other| other != id);
    }

    /// The objects that have all of these attributes, in the order in which they came.
    pub fn search(&self, rights: Rights, wanted: &[(A, Value)]) -> Vec<ObjectHandle> {
        let built_in = built_in::CLASSES.map(|class| Value::Number(class.0));
        if wanted
            .iter()
            .any(|(id, value)| *id == A::CLASS && built_in.iter().any(|class| class.equals(value)))
        {
            return self.search_built_in(wanted);
        }
        let key = self.state().key.clone().filter(|_| rights.login == Login::User);
        let plan = Plan::new(wanted, &self.open, key.as_ref().map(|key| key.namer()));
        self.objects.search(&plan, |handle| self.object(rights, handle).ok())
    }

    /// An object of attributes that were made by the rules, where those that it computes are what the caller said.
    fn made(&self, home: Home, attributes: Attributes) -> Result<Object> {
        let object = Object::new(home, attributes, self.provider())?;
        computed::verify(object.attributes(), object.sort(), self.provider())?;
        Ok(object)
    }

    /// The built-in object of a handle.
    fn built_in_object(&self, handle: ObjectHandle) -> Result<Arc<Object>> {
        let place = usize::try_from(handle.0).ok().and_then(|number| number.checked_sub(1));
        let object = place.and_then(|place| self.built_in().get(place));
        object.map(Arc::clone).ok_or(Error::ObjectHandleInvalid)
    }

    fn search_built_in(&self, wanted: &[(A, Value)]) -> Vec<ObjectHandle> {
        let fits = |object: &Object| wanted.iter().all(|(id, value)| object.shows(*id, value));
        let objects = (1..=objects::BUILT_IN).zip(self.built_in());
        objects.filter(|(_, object)| fits(object)).map(|(number, _)| ObjectHandle(number)).collect()
    }

    fn built_in(&self) -> &[Arc<Object>] {
        self.built_in.get_or_init(|| {
            let mechanisms = self.settings.mechanisms.iter().map(|mechanism| mechanism.id);
            let objects = built_in::objects(mechanisms, self.provider());
            objects.unwrap_or_default().into_iter().map(Arc::new).collect()
        })
    }

    /// Takes over what other processes wrote, where PKCS#11 lets it show.
    pub fn refresh(&self) -> Result<()> {
        let seen = self.state().seen;
        if let Some(seen) = seen
            && !self.store.changed_since(seen)?
        {
            return Ok(());
        }
        let _change = self.change();
        self.take_changes()
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bump(&self) {
        self.epoch.bump();
    }

    /// Ends the login. The caller holds the lock of changes: rows that are taken over meanwhile would stay.
    fn end_login(&self, state: &mut State) {
        self.publish(Login::Public);
        state.key = None;
        self.objects.remove_private();
    }

    /// Publishes who is logged in, in one step with a new epoch. The state's lock is held by the caller.
    fn publish(&self, login: Login) {
        self.epoch.publish(login);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.sessions().all != 0 {
            warn!(token = self.serial, "token dropped with open sessions");
        }
    }
}

/// A record's number: random, so that processes need not agree on one.
fn record_id() -> Result<i64> {
    seal::random::<8>().map(|bytes| i64::from_le_bytes(bytes) & i64::MAX)
}

/// Makes `CKA_UNIQUE_ID`: numbers in hexadecimal, from a random one of 128 bits on that is drawn when the token is opened.
/// Each process opens it for itself, the child of a fork too: none gives what another gave.
struct UniqueIds {
    first: u128,
    given: AtomicU64,
}

impl UniqueIds {
    fn new() -> Result<Self> {
        Ok(Self { first: seal::random().map(u128::from_be_bytes)?, given: AtomicU64::new(0) })
    }

    fn next(&self) -> [u8; 32] {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let mut text = [b'0'; 32];
        // 128 bits are 32 digits.
        let _ = write!(&mut text[..], "{:032x}", self.first.wrapping_add(number.into()));
        text
    }
}

/// A token's serial number: 64 random bits in hexadecimal.
pub fn new_serial() -> Result<String> {
    seal::random::<8>().map(|bytes| format!("{:016x}", u64::from_be_bytes(bytes)))
}
