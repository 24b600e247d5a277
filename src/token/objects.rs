//! The objects of a token in memory. They are indexed by handle, by row, by session, and by the
//! index keys that callers search for.
//!
//! A token object that is loaded from the store has only its row in memory until its record is
//! read.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use dashmap::DashMap;

use super::search::{Plan, WantedKeys};
use super::walk::{Place, Storage, Visibility, Walk};
use crate::id::{ObjectHandle, SessionHandle};
use crate::object::flags::Flag;
use crate::object::{Home, Object};
use crate::store::seal::index::IndexKeys;
use crate::store::{Row, Tag};
use crate::sync::lock;

/// The largest handle of a built-in object.
pub(super) const BUILT_IN: u64 = 0x1000;

/// The bit of the handle of a token object. The low bits are the upper bits of the number of its
/// row, which is random. So a token object has the same handle in every process and after a
/// restart, and handles are in the order of rows.
const STORED: u64 = 1 << 60;

pub(super) fn is_stored(handle: ObjectHandle) -> bool {
    handle.0 & STORED != 0
}

pub(super) fn stored_handle(id: i64) -> ObjectHandle {
    ObjectHandle(STORED | id.cast_unsigned() >> 11)
}

/// Returns the handle of a token object for a number that an application counts, see
/// `ClientToken::shown`. With the same number it returns the first handle again. With another
/// number it returns a handle that no object has: it changes all 60 bits below [`STORED`], and
/// those of a row are random.
pub(super) fn counted(handle: ObjectHandle, number: u64) -> ObjectHandle {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    ObjectHandle(handle.0 ^ number.wrapping_mul(GOLDEN_RATIO) >> 4)
}

/// The largest handle that an agent may ask for: see [`with_handle`].
const MOST_ASKED: u64 = 1 << 40;

thread_local! {
    static ASKED: Cell<Option<ObjectHandle>> = const { Cell::new(None) };
}

/// Runs `work`. The first session object that it makes in this thread has this handle, unless
/// another object of the application has it. So an agent makes an object of an earlier agent again.
pub fn with_handle<T>(handle: ObjectHandle, work: impl FnOnce() -> T) -> T {
    let fits = (BUILT_IN + 1..=MOST_ASKED).contains(&handle.0);
    ASKED.set(fits.then_some(handle));
    let outcome = work();
    ASKED.set(None);
    outcome
}

/// Returns the handle that [`with_handle`] asks for, once.
pub(super) fn asked() -> Option<ObjectHandle> {
    ASKED.take()
}

/// The objects with their handles. A handle is never reused.
#[derive(Default)]
pub(super) struct Objects {
    by_handle: DashMap<ObjectHandle, Entry, Spread>,
    by_row: Mutex<HashMap<i64, ObjectHandle>>,
    by_session: DashMap<SessionHandle, Posting, Spread>,
    index: DashMap<u64, Posting, Spread>,
    walk: RwLock<Walk>,
    last: AtomicU64,
}

/// The treatment of an object in memory when its row is loaded again and has not changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cached {
    Keep,
    /// It is read and verified again at its next use.
    Forget,
}

/// An object, or only its row.
pub(super) struct Entry {
    /// Where the object lives.
    pub(super) home: Home,
    pub(super) private: bool,
    /// The tag of its record. It has no meaning for a session object.
    pub(super) tag: Tag,
    /// The index keys that a search finds the object by. A session object has none before the next
    /// search.
    pub(super) index_keys: IndexKeys,
    /// The object; `None` until its record is read.
    pub(super) object: Option<Arc<Object>>,
}

/// The content of an entry without the index keys.
pub(super) struct Content {
    pub(super) home: Home,
    pub(super) private: bool,
    pub(super) tag: Tag,
    pub(super) object: Option<Arc<Object>>,
}

impl Entry {
    /// Returns the entry of a row whose record was not read yet.
    pub(super) fn of_row(row: Row) -> Self {
        Self {
            home: Home::Token(row.id),
            private: row.private,
            tag: row.tag,
            index_keys: row.index_keys,
            object: None,
        }
    }

    /// Returns the entry of a session object.
    pub(super) fn of_session(object: Object, index_keys: IndexKeys) -> Self {
        let (home, private, tag) = (object.home, object.flag(Flag::PRIVATE), Tag::default());
        Self { home, private, tag, index_keys, object: Some(Arc::new(object)) }
    }

    fn place(&self, handle: ObjectHandle) -> Place {
        let storage = if matches!(self.home, Home::Token(_)) { Storage::Token } else { Storage::Session };
        let visibility = if self.private { Visibility::Private } else { Visibility::Public };
        Place::new(handle, storage, visibility)
    }
}

/// The objects that have one index key, or belong to one session.
enum Posting {
    One(ObjectHandle),
    #[allow(
        clippy::box_collection,
        reason = "most index keys belong to one object, and there are as many index keys as objects"
    )]
    Many(Box<BTreeSet<ObjectHandle>>),
}

impl Posting {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(handles) => handles.len(),
        }
    }

    fn insert(&mut self, handle: ObjectHandle) {
        match self {
            Self::One(first) => *self = Self::Many(Box::new([*first, handle].into())),
            Self::Many(handles) => {
                handles.insert(handle);
            }
        }
    }

    /// Removes an object. Returns whether no object is left.
    fn remove(&mut self, handle: ObjectHandle) -> bool {
        match self {
            Self::One(only) => *only == handle,
            Self::Many(handles) => {
                handles.remove(&handle);
                handles.is_empty()
            }
        }
    }

    fn extend(&self, found: &mut Vec<ObjectHandle>) {
        match self {
            Self::One(only) => found.push(*only),
            Self::Many(handles) => found.extend(handles.iter()),
        }
    }
}

impl Objects {
    /// Returns a collection without objects. `last` is the number of handles that were given to
    /// objects before. None of these handles is reused.
    pub(super) fn after(last: u64) -> Self {
        Self { last: AtomicU64::new(last), ..Self::default() }
    }

    /// Returns the number of handles that were given to objects.
    pub(super) fn last_handle(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Returns whether an object is private; `None` if there is no such object.
    pub(super) fn is_private(&self, handle: ObjectHandle) -> Option<bool> {
        self.by_handle.get(&handle).map(|entry| entry.private)
    }

    pub(super) fn get(&self, handle: ObjectHandle) -> Option<Content> {
        self.by_handle.get(&handle).map(|entry| Content {
            home: entry.home,
            private: entry.private,
            tag: entry.tag,
            object: entry.object.clone(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.by_handle.len()
    }

    /// Returns a handle for a session object, which no object has had.
    pub(super) fn new_handle(&self) -> ObjectHandle {
        ObjectHandle(BUILT_IN + self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Counts a handle as given, and those below it.
    pub(super) fn skip_to(&self, handle: ObjectHandle) {
        self.last.fetch_max(handle.0 - BUILT_IN, Ordering::Relaxed);
    }

    pub(super) fn insert(&self, handle: ObjectHandle, entry: Entry) {
        let home = entry.home;
        if let Home::Token(id) = home {
            lock(&self.by_row).insert(id, handle);
        }
        let place = entry.place(handle);
        self.add_to_index(handle, &entry);
        self.by_handle.insert(handle, entry);
        self.walk.write().unwrap_or_else(PoisonError::into_inner).insert(place);
        // This comes last: if the session is closed meanwhile, its list has the whole object.
        if let Home::Session(session) = home {
            post(&self.by_session, session, handle);
        }
    }

    /// Replaces an object. Returns `false`, and changes nothing, if it was removed meanwhile.
    pub(super) fn replace(&self, handle: ObjectHandle, entry: Entry) -> bool {
        let place = entry.place(handle);
        let Some(mut known) = self.by_handle.get_mut(&handle) else { return false };
        self.add_to_index(handle, &entry);
        let old = std::mem::replace(&mut *known, entry);
        let gone = old.index_keys.iter().filter(|key| !known.index_keys.contains(key));
        gone.for_each(|key| self.remove_from_index(handle, *key));
        drop(known);
        self.walk.write().unwrap_or_else(PoisonError::into_inner).change(place);
        true
    }

    /// Stores an object that was read, if its row is unchanged.
    pub(super) fn keep(&self, handle: ObjectHandle, tag: Tag, object: &Arc<Object>) {
        if let Some(mut entry) = self.by_handle.get_mut(&handle)
            && entry.tag == tag
        {
            // A locked key is replaced by the same key that was read with the token key.
            if entry.object.as_ref().is_none_or(|known| known.is_locked()) {
                entry.object = Some(Arc::clone(object));
            }
        }
    }

    /// Removes an object. It is wiped when its last user releases it. Returns whether there was
    /// one.
    pub(super) fn remove(&self, handle: ObjectHandle) -> bool {
        let Some((_, entry)) = self.by_handle.remove(&handle) else { return false };
        match entry.home {
            Home::Token(id) => {
                lock(&self.by_row).remove(&id);
            }
            Home::Session(session) => {
                self.by_session.remove_if_mut(&session, |_, handles| handles.remove(handle));
            }
            Home::BuiltIn => {}
        }
        entry.index_keys.iter().for_each(|key| self.remove_from_index(handle, *key));
        self.walk.write().unwrap_or_else(PoisonError::into_inner).remove(handle);
        true
    }

    /// Adds or updates a row of the store; its handle stays. Forgets an object that was read if the
    /// row is different or `cached` is `Forget`.
    pub(super) fn load_row(&self, row: Row, cached: Cached) {
        let known = lock(&self.by_row).get(&row.id).copied();
        let Some(handle) = known else {
            let handle = stored_handle(row.id);
            // Random numbers do not meet in 52 bits: another program wrote this row.
            if !self.by_handle.contains_key(&handle) {
                self.insert(handle, Entry::of_row(row));
            }
            return;
        };
        let same = self
            .by_handle
            .get(&handle)
            .is_some_and(|entry| entry.tag == row.tag && entry.index_keys[..] == row.index_keys[..]);
        if cached == Cached::Forget || !same {
            self.replace(handle, Entry::of_row(row));
        }
    }

    pub(super) fn of_row(&self, id: i64) -> Option<(ObjectHandle, Tag)> {
        let handle = lock(&self.by_row).get(&id).copied()?;
        Some((handle, self.by_handle.get(&handle)?.tag))
    }

    pub(super) fn row(&self, id: i64) -> Option<Row> {
        let handle = lock(&self.by_row).get(&id).copied()?;
        let entry = self.by_handle.get(&handle)?;
        Some(Row { id, private: entry.private, tag: entry.tag, index_keys: entry.index_keys.clone() })
    }

    /// Returns the number of objects that have a row.
    pub(super) fn row_count(&self) -> usize {
        lock(&self.by_row).len()
    }

    /// Removes the token objects for whose rows `keep` is false.
    pub(super) fn retain_rows(&self, keep: impl Fn(i64) -> bool) {
        let gone: Vec<_> =
            lock(&self.by_row).iter().filter(|(id, _)| !keep(**id)).map(|(_, handle)| *handle).collect();
        self.remove_all(gone);
    }

    pub(super) fn remove_private(&self) {
        let walk = self.walk.read().unwrap_or_else(PoisonError::into_inner);
        let going: Vec<_> = walk.iter().filter(|place| place.private()).map(Place::handle).collect();
        drop(walk);
        self.remove_all(going);
    }

    fn remove_all(&self, handles: Vec<ObjectHandle>) {
        for handle in handles {
            self.remove(handle);
        }
    }

    /// Of each private or secret key in the store, keeps only the row in memory. The secret parts
    /// are wiped.
    pub(super) fn forget_keys(&self) {
        let walk = self.walk.read().unwrap_or_else(PoisonError::into_inner);
        let stored: Vec<_> = walk.iter().filter(|place| place.token()).map(Place::handle).collect();
        drop(walk);
        stored.into_iter().for_each(|handle| self.forget_key(handle));
    }

    /// Keeps only the row in memory of this object, if it is a private or secret key in the store.
    pub(super) fn forget_key(&self, handle: ObjectHandle) {
        if let Some(mut entry) = self.by_handle.get_mut(&handle)
            && matches!(entry.home, Home::Token(_))
            && entry.object.as_ref().is_some_and(|object| object.object_type().is_hidden())
        {
            entry.object = None;
        }
    }

    /// Removes the objects of a session. Returns whether it had any.
    pub(super) fn remove_session(&self, session: SessionHandle) -> bool {
        let Some((_, handles)) = self.by_session.remove(&session) else { return false };
        let mut going = Vec::new();
        handles.extend(&mut going);
        self.remove_all(going);
        true
    }

    /// Returns the objects that match, sorted by handle. `load` reads an object if the index cannot
    /// decide.
    pub(super) fn search(
        &self,
        plan: &Plan<'_>,
        load: impl Fn(ObjectHandle) -> Option<Arc<Object>>,
    ) -> Vec<ObjectHandle> {
        let reach = |wanted: &&WantedKeys| -> usize {
            wanted.iter().filter_map(|key| self.index.get(&key)).map(|posting| posting.len()).sum()
        };
        let mut found = match plan.index_keys.iter().min_by_key(reach) {
            None => self.walk_all(plan),
            Some(shortest) => {
                let mut found = self.collect_posted(shortest);
                if plan.index_keys.len() > 1 || plan.token.is_some() || plan.private.is_some() {
                    found.retain(|handle| self.by_handle.get(handle).is_some_and(|entry| fits(plan, &entry)));
                }
                found
            }
        };
        if !plan.rest.is_empty() {
            let is_wanted =
                |object: Arc<Object>| plan.rest.iter().all(|(id, value)| object.shows(*id, value));
            found.retain(|handle| load(*handle).is_some_and(is_wanted));
        }
        found
    }

    /// Returns every visible object that has the wanted flags.
    fn walk_all(&self, plan: &Plan<'_>) -> Vec<ObjectHandle> {
        let fits = |place: &Place| {
            (plan.all || !place.private())
                && plan.token.is_none_or(|token| token == place.token())
                && plan.private.is_none_or(|private| private == place.private())
        };
        let walk = self.walk.read().unwrap_or_else(PoisonError::into_inner);
        walk.iter().filter(fits).map(Place::handle).collect()
    }

    fn collect_posted(&self, index_keys: &WantedKeys) -> Vec<ObjectHandle> {
        let mut found = Vec::new();
        for key in index_keys.iter() {
            if let Some(posting) = self.index.get(&key) {
                let sorted = found.is_empty();
                posting.extend(&mut found);
                if !sorted {
                    found.sort_unstable();
                }
            }
        }
        found
    }

    fn add_to_index(&self, handle: ObjectHandle, entry: &Entry) {
        entry.index_keys.iter().for_each(|key| post(&self.index, *key, handle));
    }

    /// Adds the session objects with greater handles to the index. No session object is inserted
    /// meanwhile.
    pub(super) fn index_after(&self, last: ObjectHandle, index_keys: impl Fn(&Object) -> IndexKeys) {
        let walk = self.walk.read().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<_> = walk.after(last).map(Place::handle).collect();
        drop(walk);
        for handle in new {
            if let Some(mut entry) = self.by_handle.get_mut(&handle) {
                entry.index_keys = entry.object.as_deref().map(&index_keys).unwrap_or_default();
                self.add_to_index(handle, &entry);
            }
        }
    }

    fn remove_from_index(&self, handle: ObjectHandle, key: u64) {
        self.index.remove_if_mut(&key, |_, posting| posting.remove(handle));
    }
}

/// Adds an object to those that have a key.
fn post<K: Eq + Hash>(postings: &DashMap<K, Posting, Spread>, key: K, handle: ObjectHandle) {
    let known = postings.entry(key).and_modify(|posting| {
        if !matches!(posting, Posting::One(only) if *only == handle) {
            posting.insert(handle);
        }
    });
    known.or_insert(Posting::One(handle));
}

/// Returns whether an object has all the index keys and flags of a search.
fn fits(plan: &Plan<'_>, entry: &Entry) -> bool {
    plan.index_keys.iter().all(|wanted| wanted.iter().any(|key| entry.index_keys.contains(&key)))
        && plan.token.is_none_or(|token| token == matches!(entry.home, Home::Token(_)))
        && plan.private.is_none_or(|private| private == entry.private)
}

/// Hashes handles and index keys. Handles are consecutive and index keys are already hashes, so a
/// multiplication is enough to spread both over shards and buckets.
type Spread = BuildHasherDefault<Multiply>;

#[derive(Default)]
pub(super) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        // 2^64 divided by the golden ratio. The rotation moves the best bits to the ends that the
        // map uses.
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
