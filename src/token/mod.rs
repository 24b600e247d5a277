//! A token: its label, PINs and login, its objects, and the epoch that tells sessions when to look again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{error, warn};

use crate::backend::Provider;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle, SlotId};
use crate::object::policy::{Login, Rights};
use crate::object::value::Value;
use crate::object::{Attributes, Home, Object};
use crate::store::seal::{self, TokenKey};
use crate::store::{Change, Header, PinState, Role, Store, Stored, Write};

mod objects;
mod pin;

pub use pin::fits;

use objects::Objects;

/// A token in its slot.
pub struct Token {
    /// The slot.
    pub slot: SlotId,
    /// What the module was configured with.
    pub settings: Arc<Settings>,
    serial: String,
    store: Box<dyn Store>,
    objects: Objects,
    /// Held, before the state's lock, while store and memory change together: a search that took over records of
    /// the store in between would enter an object twice or drop it.
    change: Mutex<()>,
    state: Mutex<State>,
    /// Who is logged in, and a count of the moments at which what a session remembers may have become wrong: login,
    /// logout, a destroyed or changed object. The low two bits are the login.
    epoch: AtomicU64,
}

/// What a login changes. Its lock is never held while a key is made, used or derived from a PIN.
struct State {
    key: Option<TokenKey>,
    seen: Change,
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
    /// Opens the token of a store: its public objects are there, the private ones come with the login.
    pub fn open(slot: SlotId, settings: Arc<Settings>, store: Box<dyn Store>) -> Result<Self> {
        let serial = store.header()?.serial;
        let (records, seen) = store.load()?;
        let state = State { key: None, seen, sessions: 0, read_write_sessions: 0 };
        let token = Self {
            slot,
            settings,
            serial,
            store,
            objects: Objects::default(),
            change: Mutex::default(),
            state: Mutex::new(state),
            epoch: AtomicU64::new(login_bits(Login::Public)),
        };
        token.take_public(&records);
        Ok(token)
    }

    /// A new token's header and key under the SO PIN.
    pub fn header(
        serial: String,
        slot: u64,
        label: [u8; 32],
        so_pin: &[u8],
        settings: &Settings,
    ) -> Result<Header> {
        let record = TokenKey::generate()?.wrap(&serial, Role::Officer, so_pin, &settings.pins)?;
        let so = PinState { record, failures: 0 };
        Ok(Header { serial, slot, label, so, user: PinState::default() })
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
        login_of(self.epoch())
    }

    /// A number that changes whenever a handle, a right or a parsed key that a session remembers may be wrong.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
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
        if state.sessions == 0 && self.login_state() != Login::Public {
            self.end_login(&mut state);
        }
    }

    /// Ends the login: private objects are wiped from memory, private session objects are gone.
    pub fn logout(&self) -> Result<()> {
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
        let handles = self.insert_all(rights, session, [attributes])?;
        Ok(handles[0])
    }

    /// Makes several objects at once, or none.
    pub fn insert_all<const N: usize>(
        &self,
        rights: Rights,
        session: SessionHandle,
        attributes: [Attributes; N],
    ) -> Result<[ObjectHandle; N]> {
        let mut objects = Vec::with_capacity(N);
        let mut records = Vec::new();
        for mut attributes in attributes {
            rights.write(&attributes)?;
            attributes.put(A::UNIQUE_ID, Value::Bytes(unique_id()?.as_bytes().into()));
            let home = if attributes.flag(A::TOKEN) == Some(true) {
                Home::Token(record_id()?)
            } else {
                Home::Session(session)
            };
            if let Home::Token(id) = home {
                records.push((id, self.sealed(id, &attributes)?));
            }
            objects.push(Object::new(home, attributes)?);
        }
        let _change = (!records.is_empty()).then(|| self.change());
        let writes: Vec<_> = records.iter().map(|(id, record)| Write::Insert(*id, record)).collect();
        if !writes.is_empty() {
            self.store.commit(&writes)?;
        }
        let mut handles = [ObjectHandle(0); N];
        for (handle, object) in handles.iter_mut().zip(objects) {
            *handle = self.objects.insert(object);
        }
        Ok(handles)
    }

    /// Puts what `change` makes of an object in its place. It is made of the object as it is now, other processes'
    /// changes too: of an older one it would take back that a key is sensitive since.
    pub fn replace(
        &self,
        rights: Rights,
        handle: ObjectHandle,
        change: impl FnOnce(&Object) -> Result<Attributes>,
    ) -> Result<()> {
        let _change = self.change();
        self.take_changes()?;
        let old = self.object(rights, handle)?;
        let attributes = change(&old)?;
        rights.write(&attributes)?;
        if let Home::Token(id) = old.home {
            let record = self.sealed(id, &attributes)?;
            self.store.commit(&[Write::Replace(id, &record)])?;
        }
        self.objects.replace(handle, Object::new(old.home, attributes)?);
        self.bump();
        Ok(())
    }

    /// Destroys an object.
    pub fn remove(&self, rights: Rights, handle: ObjectHandle) -> Result<()> {
        let object = self.object(rights, handle)?;
        rights.write(object.attributes())?;
        crate::object::policy::destroyable(&object)?;
        let _change = matches!(object.home, Home::Token(_)).then(|| self.change());
        if let Home::Token(id) = object.home {
            self.store.commit(&[Write::Delete(id)])?;
        }
        self.objects.remove(handle);
        self.bump();
        Ok(())
    }

    /// The object of a handle, where a session with these rights sees it.
    pub fn object(&self, rights: Rights, handle: ObjectHandle) -> Result<Arc<Object>> {
        let object = self.objects.get(handle).ok_or(Error::ObjectHandleInvalid)?;
        if rights.see(&object) { Ok(object) } else { Err(Error::ObjectHandleInvalid) }
    }

    /// The objects that have all of these attributes, in the order in which they came.
    pub fn search(&self, rights: Rights, wanted: &[(A, Value)]) -> Vec<ObjectHandle> {
        self.objects.search(wanted, |object| rights.see(object))
    }

    /// Takes over what other processes wrote, where PKCS#11 lets it show.
    pub fn refresh(&self) -> Result<()> {
        let _change = self.change();
        self.take_changes()
    }

    /// The same for who holds the lock of changes.
    fn take_changes(&self) -> Result<()> {
        let mut state = self.state();
        let Some(delta) = self.store.changed_since(state.seen)? else { return Ok(()) };
        if delta.now.life() != state.seen.life() && state.key.is_some() {
            // The login was to the token before; the caller hears of it and logs in again.
            warn!(token = self.serial, "another process initialised the token anew: the login ends");
            self.end_login(&mut state);
            self.objects.retain_stored(&delta.present);
            self.take_public(&delta.written);
            state.seen = delta.now;
            return Err(Error::DeviceRemoved);
        }
        self.objects.retain_stored(&delta.present);
        match &state.key {
            Some(key) => self.take_verified(key, &delta.written, self.login_state()),
            None => self.take_public(&delta.written),
        }
        state.seen = delta.now;
        self.bump();
        Ok(())
    }

    fn change(&self) -> MutexGuard<'_, ()> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bump(&self) {
        self.epoch.fetch_add(4, Ordering::AcqRel);
    }

    /// Publishes who is logged in, in one step with a new epoch. The state's lock is held by the caller.
    fn publish(&self, login: Login) {
        let update = |epoch: u64| Some(((epoch & !3) + 4) | login_bits(login));
        let _ = self.epoch.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    }

    fn end_login(&self, state: &mut State) {
        self.publish(Login::Public);
        state.key = None;
        self.objects.remove_private();
    }

    /// Seals attributes under the token key, which is there while somebody is logged in.
    fn sealed(&self, id: i64, attributes: &Attributes) -> Result<Vec<u8>> {
        let state = self.state();
        let key = state.key.as_ref().ok_or(Error::UserNotLoggedIn)?;
        key.seal(&self.serial, id, attributes)
    }

    /// Reads the public records; nobody is logged in who could verify them.
    fn take_public(&self, records: &[Stored]) {
        for stored in records {
            match seal::Kind::of(&stored.record) {
                Some(seal::Kind::Private) => {}
                _ => self.take(stored, seal::peek(&stored.record)),
            }
        }
    }

    /// Reads and verifies all records; the private ones stay for the user alone.
    fn take_verified(&self, key: &TokenKey, records: &[Stored], login: Login) {
        for stored in records {
            self.take(stored, key.open(&self.serial, stored.id, &stored.record));
        }
        if login != Login::User {
            self.objects.remove_private();
        }
    }

    /// Takes an object over. One that was altered is named in the log and not used; the others stay usable.
    fn take(&self, stored: &Stored, attributes: Option<Attributes>) {
        match attributes.and_then(|attributes| Object::new(Home::Token(stored.id), attributes).ok()) {
            Some(object) => self.objects.upsert_stored(stored.id, object),
            None => {
                error!(
                    token = self.serial,
                    record = stored.id,
                    "an object was altered on disk and is not used"
                );
                self.objects.remove_stored(stored.id);
            }
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.sessions().all != 0 {
            warn!(token = self.serial, "token dropped with open sessions");
        }
    }
}

const fn login_bits(login: Login) -> u64 {
    match login {
        Login::Public => 0,
        Login::User => 1,
        Login::Officer => 2,
    }
}

const fn login_of(epoch: u64) -> Login {
    match epoch & 3 {
        1 => Login::User,
        2 => Login::Officer,
        _ => Login::Public,
    }
}

/// A record's number: random, so that processes need not agree on one.
fn record_id() -> Result<i64> {
    seal::random::<8>().map(|bytes| i64::from_le_bytes(bytes) & i64::MAX)
}

/// `CKA_UNIQUE_ID`: 128 random bits in hexadecimal.
fn unique_id() -> Result<String> {
    seal::random::<16>().map(|bytes| format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// A token's serial number: 64 random bits in hexadecimal.
pub fn new_serial() -> Result<String> {
    seal::random::<8>().map(|bytes| format!("{:016x}", u64::from_be_bytes(bytes)))
}
