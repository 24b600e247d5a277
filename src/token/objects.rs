//! The objects of a token in memory: by handle, by record, and an index over what callers search for.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;

use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::object::bits::Flag;
use crate::object::value::Value;
use crate::object::{Home, Object};

/// The attributes that narrow a search; the others are compared object by object.
const INDEXED: [A; 6] = [A::ID, A::LABEL, A::UNIQUE_ID, A::SUBJECT, A::ISSUER, A::SERIAL_NUMBER];

/// The handles up to this one are those of the built-in objects.
pub(super) const BUILT_IN: u64 = 0x1000;

/// Objects with their handles. A handle is never given twice.
#[derive(Default)]
pub(super) struct Objects {
    by_handle: DashMap<ObjectHandle, Arc<Object>>,
    by_record: Mutex<HashMap<i64, ObjectHandle>>,
    /// Hash of attribute and value to the objects that may have it.
    index: DashMap<u64, BTreeSet<ObjectHandle>>,
    hasher: RandomState,
    last: AtomicU64,
}

impl Objects {
    /// The object of a handle.
    pub(super) fn get(&self, handle: ObjectHandle) -> Option<Arc<Object>> {
        self.by_handle.get(&handle).map(|object| Arc::clone(&object))
    }

    /// Takes an object in.
    pub(super) fn insert(&self, object: Object) -> ObjectHandle {
        let handle = ObjectHandle(BUILT_IN + self.last.fetch_add(1, Ordering::Relaxed) + 1);
        if let Home::Token(id) = object.home {
            self.records().insert(id, handle);
        }
        self.enter(handle, &object);
        self.by_handle.insert(handle, Arc::new(object));
        handle
    }

    /// Puts an object in the place of another.
    pub(super) fn replace(&self, handle: ObjectHandle, object: Object) {
        if let Some(old) = self.get(handle) {
            self.leave(handle, &old);
        }
        self.enter(handle, &object);
        self.by_handle.insert(handle, Arc::new(object));
    }

    /// Lets an object go; it is wiped when its last user is done.
    pub(super) fn remove(&self, handle: ObjectHandle) {
        let Some((_, object)) = self.by_handle.remove(&handle) else { return };
        if let Home::Token(id) = object.home {
            self.records().remove(&id);
        }
        self.leave(handle, &object);
    }

    /// Takes over a record of the store, new or changed; its handle stays.
    pub(super) fn upsert_stored(&self, id: i64, object: Object) {
        let known = self.records().get(&id).copied();
        match known {
            Some(handle) => self.replace(handle, object),
            None => {
                self.insert(object);
            }
        }
    }

    /// Lets the object of a record go.
    pub(super) fn remove_stored(&self, id: i64) {
        let known = self.records().get(&id).copied();
        if let Some(handle) = known {
            self.remove(handle);
        }
    }

    /// Lets the objects go whose records are not among these (sorted).
    pub(super) fn retain_stored(&self, present: &[i64]) {
        let gone: Vec<_> = self
            .records()
            .iter()
            .filter(|(id, _)| present.binary_search(id).is_err())
            .map(|(_, handle)| *handle)
            .collect();
        gone.into_iter().for_each(|handle| self.remove(handle));
    }

    /// Lets the private objects go.
    pub(super) fn remove_private(&self) {
        self.remove_where(|object| object.flag(Flag::PRIVATE));
    }

    /// Lets the objects of a session go; whether it had any.
    pub(super) fn remove_session(&self, session: SessionHandle) -> bool {
        self.remove_where(|object| object.home == Home::Session(session))
    }

    /// The objects that have all these attributes and are seen, by handle.
    pub(super) fn search(&self, wanted: &[(A, Value)], sees: impl Fn(&Object) -> bool) -> Vec<ObjectHandle> {
        let fits =
            |object: &Object| sees(object) && wanted.iter().all(|(id, value)| object.shows(*id, value));
        let Some(candidates) = self.narrowest(wanted) else {
            let all = self.by_handle.iter().filter(|entry| fits(entry.value()));
            let mut found: Vec<_> = all.map(|entry| *entry.key()).collect();
            found.sort_unstable();
            return found;
        };
        candidates
            .into_iter()
            .filter(|handle| self.get(*handle).is_some_and(|object| fits(&object)))
            .collect()
    }

    /// The shortest of the index's lists that a search has to look through; `None` where it has none.
    fn narrowest(&self, wanted: &[(A, Value)]) -> Option<Vec<ObjectHandle>> {
        let keys = wanted.iter().filter_map(|(id, value)| match value {
            Value::Bytes(bytes) if INDEXED.contains(id) && !bytes.is_empty() => Some(self.key(*id, bytes)),
            _ => None,
        });
        let shortest = keys.min_by_key(|key| self.index.get(key).map_or(0, |list| list.len()))?;
        Some(self.index.get(&shortest).map(|list| list.iter().copied().collect()).unwrap_or_default())
    }

    fn remove_where(&self, goes: impl Fn(&Object) -> bool) -> bool {
        let going: Vec<_> =
            self.by_handle.iter().filter(|entry| goes(entry.value())).map(|entry| *entry.key()).collect();
        going.iter().for_each(|handle| self.remove(*handle));
        !going.is_empty()
    }

    fn enter(&self, handle: ObjectHandle, object: &Object) {
        for key in self.keys(object) {
            self.index.entry(key).or_default().insert(handle);
        }
    }

    fn leave(&self, handle: ObjectHandle, object: &Object) {
        for key in self.keys(object) {
            self.index.remove_if_mut(&key, |_, list| {
                list.remove(&handle);
                list.is_empty()
            });
        }
    }

    /// The places in the index of an object. No bytes is the default of most, and is not worth a list.
    fn keys(&self, object: &Object) -> impl Iterator<Item = u64> {
        let values = INDEXED.into_iter().filter_map(|id| Some((id, object.attributes().bytes(id)?)));
        values.filter(|(_, bytes)| !bytes.is_empty()).map(|(id, bytes)| self.key(id, bytes))
    }

    fn key(&self, id: A, bytes: &[u8]) -> u64 {
        self.hasher.hash_one((id, bytes))
    }

    fn records(&self) -> std::sync::MutexGuard<'_, HashMap<i64, ObjectHandle>> {
        self.by_record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Provider;
    use crate::id::ObjectClass;
    use crate::object::Attributes;

    fn data(label: &str) -> Object {
        let mut attributes = Attributes::default();
        attributes.put(A::CLASS, Value::Number(ObjectClass::DATA.0));
        attributes.put(A::LABEL, bytes(label));
        Object::new(Home::Session(SessionHandle(1)), attributes, Provider::ALL[0]).expect("data")
    }

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().into())
    }

    #[test]
    fn a_search_finds_what_is_there_now() {
        let objects = Objects::default();
        let a = objects.insert(data("a"));
        let b = objects.insert(data("b"));
        let find = |label| objects.search(&[(A::LABEL, bytes(label))], |_| true);
        assert_eq!((find("a"), find("b"), find("c")), (vec![a], vec![b], vec![]));
        objects.replace(a, data("b"));
        assert_eq!((find("a"), find("b")), (vec![], vec![a, b]));
        objects.remove(b);
        assert_eq!(find("b"), [a]);
        assert_eq!(objects.search(&[], |_| true), [a]);
        assert_eq!(objects.search(&[], |_| false), []);
        objects.remove_session(SessionHandle(1));
        assert!(objects.index.is_empty());
    }
}
