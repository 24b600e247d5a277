//! A token: its PINs and its objects, which all applications of a process share.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use jeton_secret::Secret;
use tracing::error;

use super::known_pin::KnownPins;
use super::objects::{Content, Objects};
use super::poll::NextPoll;
use super::queue::Queue;
use super::reserve::Reserved;
use super::search::in_session;
use super::tally::Tally;
use crate::backend::{PrivateKey, Provider};
use crate::config::{Format, Settings};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectClass, ObjectHandle, SessionHandle, SlotId};
use crate::mechanism::rule::{Policy, Source};
use crate::object::access::{self, Login, Rights};
use crate::object::flags::Flag;
use crate::object::key_type::{Limited, limited};
use crate::object::make::{self, Origin};
use crate::object::template::Template;
use crate::object::value::Value;
use crate::object::{Attributes, Home, Object, built_in, computed, fips, strict};
use crate::store::change_counter::Counter;
use crate::store::seal::index::{INDEXER_KEY, IndexKeys, Indexer};
use crate::store::seal::{self, TokenKey, record};
use crate::store::{Change, Header, Role, Store, Tag};

/// A token in its slot.
pub struct Token {
    pub(crate) slot: SlotId,
    /// The configuration of the module.
    pub(crate) settings: Arc<Settings>,
    pub(super) serial: String,
    pub(super) store: Box<dyn Store>,
    pub(super) objects: Objects,
    unique_ids: UniqueIds,
    /// The built-in objects. Their first use creates them.
    pub(super) built_in: OnceLock<Vec<Arc<Object>>>,
    /// Computes the index keys of public objects. Its key is public: anyone who can read the file
    /// can also read these objects.
    pub(super) public_indexer: Indexer,
    /// The counter file, if a directory for it is configured.
    pub(super) counter: Option<Counter>,
    /// The new objects that wait to be written to the store.
    pub(super) queue: Queue,
    changes: Mutex<()>,
    pub(super) state: Mutex<State>,
    pub(super) counted: Counted,
    /// The applications that use the token.
    pub(super) clients: Mutex<Vec<Weak<dyn Application>>>,
    pub(super) next_poll: NextPoll,
    /// The tally of each PIN, indexed by role.
    pub(super) tallies: [Mutex<Tally>; 2],
    pub(super) known_pins: KnownPins,
}

/// What a token asks of each application that uses it.
pub(super) trait Application: Send + Sync {
    /// Returns the role that is logged in.
    fn login_state(&self) -> Login;
    fn has_sessions(&self) -> bool;
    /// Starts a new epoch with the same login.
    fn bump(&self);
    /// Ends the login without a look at what the token has in memory.
    fn close_login(&self, state: &State);
}

/// The keys of a token whose uses this process counts.
#[derive(Default)]
pub(super) struct Counted {
    pub(super) reserved: Reserved,
    /// The parsed keys. Each use replaces the object, which would have to be parsed again.
    pub(super) parsed: Mutex<HashMap<ObjectHandle, Weak<dyn PrivateKey>>>,
}

/// The lock of changes, which is held while store and memory change together. Without it, a search
/// that reads rows in between would add an object twice or drop it. It is taken before the lock of
/// `state`. A function that needs the lock takes a reference to the guard.
pub(super) struct ChangeGuard<'a> {
    _lock: MutexGuard<'a, ()>,
}

/// The unlocked key and the state of the store. The lock of this struct is never held while a key
/// is generated or used, or while a PIN is tried.
pub(super) struct State {
    /// The token key while an application is logged in.
    pub(super) key: Option<Arc<TokenKey>>,
    /// The incarnation of the token that the key belongs to: see [`Change::incarnation`].
    pub(super) incarnation: i64,
    /// The change number of the store when the rows in memory were loaded; `None` if no rows were
    /// loaded.
    pub(super) seen: Option<Change>,
    /// The latest change number of the store that this process has seen. An earlier one means that
    /// the file was rolled back.
    pub(super) latest: Change,
    /// Whether `C_InitToken` erases the token. It holds the lock of changes meanwhile.
    pub(super) erasing: bool,
}

/// The facts about a token that a process keeps after it removed the [`Token`] from memory. A new
/// `Token` gets them, so that no handle is reused, no wrong PIN is forgotten, and a roll-back is
/// detected.
#[derive(Clone, Copy)]
pub(crate) struct Remains {
    /// The latest change number of the store that this process has seen.
    pub(crate) latest: Change,
    /// The number of handles that were given to objects. No handle is reused.
    last_handle: u64,
    tallies: [Tally; 2],
}

impl Remains {
    /// Returns the facts about a token of which the process has seen only this change number.
    pub(crate) fn of_new(latest: Change) -> Self {
        Self { latest, ..Self::default() }
    }
}

impl Default for Remains {
    fn default() -> Self {
        Self { latest: Change(0), last_handle: 0, tallies: Default::default() }
    }
}

impl Token {
    /// Opens the token of a store. Reads no objects until the first search or login.
    pub fn open(slot: SlotId, settings: Arc<Settings>, store: Box<dyn Store>) -> Result<Self> {
        Self::resume(slot, settings, store, Remains::default())
    }

    /// Opens the token of a store that this process has used before.
    pub(crate) fn resume(
        slot: SlotId,
        settings: Arc<Settings>,
        store: Box<dyn Store>,
        remains: Remains,
    ) -> Result<Self> {
        let Header { serial, change, .. } = store.header()?;
        let latest = change.max(remains.latest);
        let state = State { key: None, incarnation: 0, seen: None, latest, erasing: false };
        let counter = settings.counter_dir.as_ref().map(|directory| Counter::of(directory, &serial));
        let public_indexer = public_indexer(&serial);
        Ok(Self {
            slot,
            settings,
            serial,
            counter,
            store,
            objects: Objects::after(remains.last_handle),
            unique_ids: UniqueIds::new()?,
            public_indexer,
            queue: Queue::default(),
            built_in: OnceLock::new(),
            changes: Mutex::default(),
            state: Mutex::new(state),
            counted: Counted::default(),
            clients: Mutex::default(),
            next_poll: NextPoll::default(),
            tallies: remains.tallies.map(Mutex::new),
            known_pins: KnownPins::new()?,
        })
    }

    /// Returns the facts that must outlive the token in memory. Call it when no session and no
    /// other call uses the token.
    pub(crate) fn remains(&self) -> Remains {
        Remains {
            latest: self.state().latest,
            last_handle: self.objects.last_handle(),
            tallies: [Role::SecurityOfficer, Role::User].map(|role| *self.tally(role)),
        }
    }

    pub(crate) fn is_file_open(&self) -> bool {
        self.store.is_open()
    }

    pub(crate) fn serial(&self) -> &str {
        &self.serial
    }

    /// Returns the backend of this token.
    pub(crate) fn provider(&self) -> &'static Provider {
        self.settings.provider
    }

    /// Reads the current header from the store, with the changes of other processes.
    pub(crate) fn stored_header(&self) -> Result<Header> {
        self.store.header()
    }

    /// Copies one state of the store into the empty file at `path`, while other processes write.
    pub(crate) fn copy_store(&self, path: &Path) -> Result<()> {
        self.store.copy(path)
    }

    /// Looks for damage in the store that can be seen without a PIN.
    pub(crate) fn damage(&self) -> Result<Vec<String>> {
        self.store.damage()
    }

    /// Counts the objects in the store.
    pub(crate) fn stored_objects(&self) -> Result<u64> {
        let mut objects = 0;
        self.store.load(&mut |_| objects += 1).map(|_| objects)
    }

    /// Returns whether the store is currently read-only.
    pub(crate) fn is_write_protected(&self) -> bool {
        self.store.is_write_protected()
    }

    /// Returns a new object that is not in memory or in the store yet.
    pub(super) fn new_object(
        &self,
        rights: Rights,
        session: SessionHandle,
        mut attributes: Attributes,
    ) -> Result<Object> {
        rights.make(&attributes)?;
        if self.settings.is_strict() {
            strict::admit(&attributes, self.settings.policy.name)?;
        }
        if self.settings.enforces_fips() {
            fips::admit(&attributes)?;
        }
        attributes.put(A::UNIQUE_ID, Value::Bytes(self.unique_ids.next()));
        if let Some(uses) = attributes.number(A::JETON_USES_LEFT) {
            attributes.put(A::JETON_USES, Value::Number(uses));
        }
        let token = attributes.flag(A::TOKEN) == Some(true);
        if token && attributes.counts_uses() {
            let incarnation = self.state().incarnation.cast_unsigned();
            attributes.put(A::JETON_INCARNATION, Value::Number(incarnation));
        }
        let home = if token { Home::Token(record_id()?) } else { Home::Session(session) };
        let object = self.make_object(home, attributes)?;
        self.check_key_size(object.attributes())?;
        Ok(object)
    }

    /// Fails if `[mechanisms]` refuses the size or the curve of a key, with the errors of
    /// `check_rsa_bits` and `check_curve`. A request for a new RSA key has no modulus and passes.
    pub(crate) fn check_key_size(&self, attributes: &Attributes) -> Result<()> {
        match limited(attributes)? {
            Some(Limited::RsaBits(bits)) => self.settings.check_rsa_bits(bits),
            Some(Limited::Curve(curve)) => self.settings.check_curve(curve),
            None => Ok(()),
        }
    }

    /// Returns a template for a new key. Under the policy *strict*, the function adds each usage
    /// that is in neither the template nor `forced`, with the value false. `forced` is the template
    /// that another key prescribes for the new key.
    pub(crate) fn named_usages<'t, 'a>(
        &self,
        template: &'t Template<'a>,
        class: ObjectClass,
        forced: Option<&Value>,
    ) -> Cow<'t, Template<'a>> {
        if self.settings.is_strict() {
            Cow::Owned(strict::named(template, class, forced))
        } else {
            Cow::Borrowed(template)
        }
    }

    /// Returns the attributes of a key that another key makes, before its value is known.
    /// `templates` are those of the unreadable keys that make it. With none of them the value is
    /// known.
    pub(crate) fn receive(
        &self,
        template: &Template<'_>,
        origin: &Origin<'_>,
        (templates, source): (&[Option<&Value>], Source),
        rights: Rights,
    ) -> Result<Attributes> {
        let template = self.named_usages(template, ObjectClass::SECRET_KEY, origin.forced);
        let attributes = make::receive(&template, origin, rights)?;
        if self.settings.is_strict() {
            strict::received(&attributes, templates, source)?;
        }
        rights.write(&attributes)?;
        Ok(attributes)
    }

    /// Returns the policy as the rules for unreadable keys need it.
    pub(crate) fn rules(&self) -> Policy {
        if self.settings.is_strict() { Policy::Strict } else { Policy::Compatible }
    }

    /// Fails if a change or a copy of an object adds a usage that the policy or the rules for
    /// unreadable keys do not allow.
    pub(crate) fn check_change(&self, object: &Object, attributes: &Attributes) -> Result<()> {
        access::keeps_makeup(object, attributes)?;
        if self.settings.is_strict() { strict::only_lowered(object, attributes) } else { Ok(()) }
    }

    /// Fails if the policy does not allow a pair with these usages.
    pub(crate) fn check_pair(&self, public: &Attributes, private: &Attributes) -> Result<()> {
        if self.settings.is_strict() { strict::admit_pair(public, private) } else { Ok(()) }
    }

    /// Returns the index keys of a session object.
    pub(super) fn index_keys(&self, object: &Object) -> IndexKeys {
        let mut index_keys = self.public_indexer.index_keys(object.attributes());
        if object.flag(Flag::PRIVATE) {
            index_keys.iter_mut().for_each(|key| *key = in_session(*key));
        }
        index_keys
    }

    /// Returns the token object of an entry. Reads it from the store if necessary. Returns `None`
    /// if the record in the store does not match the row in memory.
    pub(super) fn read_once(
        &self,
        handle: ObjectHandle,
        id: i64,
        entry: Content,
    ) -> Result<Option<Arc<Object>>> {
        // A key that was read before the login must be read again, for its secret parts.
        let read = entry.object.filter(|object| !object.is_locked() || self.state().key.is_none());
        if read.is_some() {
            return Ok(read);
        }
        let Some(object) = self.read(id, entry.tag)? else { return Ok(None) };
        self.objects.keep(handle, entry.tag, &object);
        // A logout that happened in between did not see this key, so the key is forgotten here.
        if object.object_type().is_hidden() && !object.is_locked() && self.state().key.is_none() {
            self.objects.forget_key(handle);
        }
        Ok(Some(object))
    }

    /// Reads and verifies a record. Before a login no record can be verified: a public object is
    /// read unverified, and is forgotten at the login.
    pub(super) fn read(&self, id: i64, tag: Tag) -> Result<Option<Arc<Object>>> {
        let Some(record) = self.store.record(id)? else { return Ok(None) };
        if record::tag(&record) != Some(tag) {
            return Ok(None);
        }
        self.open_record(id, &record).map(Some)
    }

    /// Verifies a record. Before a login no record can be verified. Leaves the object out if the
    /// record was altered.
    pub(super) fn open_record(&self, id: i64, record: &[u8]) -> Result<Arc<Object>> {
        let key = self.state().key.clone();
        let attributes = match &key {
            Some(key) => key.open(&self.serial, id, record),
            None => record::peek(record),
        };
        match attributes.and_then(|attributes| Object::new(Home::Token(id), attributes, self.provider()).ok())
        {
            Some(object) => Ok(Arc::new(object)),
            None => {
                self.leave_out(id);
                Err(Error::ObjectHandleInvalid)
            }
        }
    }

    /// Stops using an object that was altered on disk, and names it in the log. The other objects
    /// stay usable.
    pub(super) fn leave_out(&self, id: i64) {
        error!(token = self.serial, record = id, "an object was altered on disk and is not used");
        self.objects.retain_rows(|other| other != id);
    }

    /// Returns an object with these attributes. Fails if the template's values of computed
    /// attributes are wrong.
    pub(super) fn make_object(&self, home: Home, attributes: Attributes) -> Result<Object> {
        let object = Object::new(home, attributes, self.provider())?;
        computed::verify(object.attributes(), object.object_type(), self.provider())?;
        Ok(object)
    }

    pub(super) fn built_in(&self) -> &[Arc<Object>] {
        self.built_in.get_or_init(|| {
            let mechanisms = self.settings.mechanisms.iter().map(|mechanism| mechanism.id);
            let objects = built_in::objects(mechanisms, self.provider());
            objects.unwrap_or_default().into_iter().map(Arc::new).collect()
        })
    }

    pub(super) fn lock_changes(&self) -> ChangeGuard<'_> {
        ChangeGuard { _lock: self.changes.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    pub(super) fn tally(&self, role: Role) -> MutexGuard<'_, Tally> {
        self.tallies[role as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each_client(&self, work: impl FnMut(Arc<dyn Application>)) {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.iter().filter_map(Weak::upgrade).for_each(work);
    }

    /// Returns whether an application is logged in with this role.
    pub(super) fn has_login(&self, login: Login) -> bool {
        let mut has = false;
        self.each_client(|client| has |= client.login_state() == login);
        has
    }

    /// Returns the login that sees most objects, of the logins of all applications.
    pub(super) fn widest_login(&self) -> Login {
        let logins = [Login::User, Login::SecurityOfficer];
        logins.into_iter().find(|login| self.has_login(*login)).unwrap_or(Login::Public)
    }

    /// Returns whether an application has an open session.
    pub(crate) fn has_sessions(&self) -> bool {
        let mut has = false;
        self.each_client(|client| has |= client.has_sessions());
        has
    }

    /// Starts a new epoch in every application.
    pub(super) fn bump(&self) {
        self.each_client(|client| client.bump());
    }

    pub(super) fn end_logins(&self, change: &ChangeGuard<'_>, state: &mut State) {
        self.each_client(|client| client.close_login(state));
        self.wipe_unneeded(change, state);
    }

    /// Wipes from memory what no login needs: the private objects if the user is not logged in, and
    /// the token key if no role is. Without the lock of changes, a concurrent load could add
    /// private objects again.
    pub(super) fn wipe_unneeded(&self, _: &ChangeGuard<'_>, state: &mut State) {
        if self.has_login(Login::User) {
            return;
        }
        if !self.has_login(Login::SecurityOfficer) {
            state.key = None;
        }
        self.objects.remove_private();
        if state.key.is_none() {
            self.objects.forget_keys();
        }
    }
}

/// Returns a random record number, so that processes need not coordinate their numbers.
fn record_id() -> Result<i64> {
    seal::random::<8>().map(|bytes| i64::from_le_bytes(bytes) & i64::MAX)
}

/// Generates values of `CKA_UNIQUE_ID`: consecutive numbers in hexadecimal. The first one is a
/// random number of 128 bits, which is drawn when the token is opened. Each process draws its own
/// number, also the child of a fork, so that no two processes generate the same value.
struct UniqueIds {
    first: u128,
    given: AtomicU64,
}

impl UniqueIds {
    fn new() -> Result<Self> {
        Ok(Self { first: seal::random().map(u128::from_be_bytes)?, given: AtomicU64::new(0) })
    }

    fn next(&self) -> Secret {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let bytes = self.first.wrapping_add(number.into()).to_be_bytes();
        // Without a table of the digits, the compiler computes all of them at once.
        let digit = |four: u8| four + if four < 10 { b'0' } else { b'a' - 10 };
        bytes.map(|byte| [byte >> 4, byte & 15].map(digit)).as_flattened().into()
    }
}

pub(super) fn public_indexer(serial: &str) -> Indexer {
    let mut key = [0; INDEXER_KEY];
    key.iter_mut().zip(serial.bytes()).for_each(|(byte, digit)| *byte = digit);
    // A key that everybody knows protects nothing, so the fast hash is right in every format.
    Indexer::new(Format::Standard, &key)
}

/// Returns a new serial number: 64 random bits in hexadecimal.
pub(crate) fn new_serial() -> Result<String> {
    seal::random::<8>().map(|bytes| format!("{:016x}", u64::from_be_bytes(bytes)))
}
