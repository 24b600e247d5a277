//! A search, divided into the part that the index answers and the part that needs the objects.

use smallvec::SmallVec;

use crate::id::AttributeType as A;
use crate::object::value::Value;
use crate::store::seal::index::Indexer;

/// The index keys of one wanted value: in public objects, in private session objects, and in
/// private token objects.
pub(super) struct WantedKeys([Option<u64>; 3]);

impl WantedKeys {
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter().flatten()
    }
}

pub(super) struct Plan<'a> {
    /// The index keys of each wanted value that is indexed. Most searches have at most two.
    pub(super) index_keys: SmallVec<[WantedKeys; 2]>,
    pub(super) token: Option<bool>,
    pub(super) private: Option<bool>,
    /// The attributes that are compared object by object.
    pub(super) rest: Vec<&'a (A, Value)>,
    /// Whether the session sees private objects.
    pub(super) all: bool,
}

impl<'a> Plan<'a> {
    /// Plans a search for these attributes. `sealed` computes the index keys of private token
    /// objects. Without it, the search finds no private objects.
    pub(super) fn new(wanted: &'a [(A, Value)], open: &Indexer, sealed: Option<&Indexer>) -> Self {
        let mut plan = Self {
            index_keys: SmallVec::new(),
            token: None,
            private: None,
            rest: Vec::new(),
            all: sealed.is_some(),
        };
        for pair in wanted {
            let (id, value) = pair;
            match (*id, value) {
                (A::TOKEN, Value::Flag(flag)) if plan.token.is_none_or(|known| known == *flag) => {
                    plan.token = Some(*flag);
                }
                (A::PRIVATE, Value::Flag(flag)) if plan.private.is_none_or(|known| known == *flag) => {
                    plan.private = Some(*flag);
                }
                (id, value) => match open.index_key(id, value) {
                    Some(key) => {
                        let hidden = plan.all.then(|| in_session(key));
                        let sealed = sealed.and_then(|indexer| indexer.index_key(id, value));
                        plan.index_keys.push(WantedKeys([Some(key), hidden, sealed]));
                    }
                    None => plan.rest.push(pair),
                },
            }
        }
        plan
    }
}

/// Returns the index key of a private session object: the inverted `key` of a public object with
/// the same value. Only a logged-in user's searches look for inverted keys, so other searches do
/// not find private objects.
pub(super) fn in_session(key: u64) -> u64 {
    !key
}
