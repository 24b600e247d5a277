//! A search, taken apart into what the index knows and what only the objects themselves tell.

use crate::id::AttributeType as A;
use crate::object::Object;
use crate::object::value::Value;
use crate::store::index::Namer;

/// The names that one wanted value has: in public objects, in private ones of sessions, in private ones of the store.
pub(super) struct Named([Option<u64>; 3]);

impl Named {
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter().flatten()
    }
}

/// A search.
pub(super) struct Plan<'a> {
    /// A set for each wanted value that has a name.
    pub(super) names: Vec<Named>,
    /// `CKA_TOKEN`
    pub(super) token: Option<bool>,
    /// `CKA_PRIVATE`
    pub(super) private: Option<bool>,
    /// What is compared object by object.
    pub(super) rest: Vec<&'a (A, Value)>,
    /// Whether private objects are seen.
    pub(super) all: bool,
}

impl<'a> Plan<'a> {
    /// Of the attributes that are wanted. `sealed` makes the names of the store's private objects; without it they are
    /// not seen.
    pub(super) fn new(wanted: &'a [(A, Value)], open: &Namer, sealed: Option<&Namer>) -> Self {
        let mut plan =
            Self { names: Vec::new(), token: None, private: None, rest: Vec::new(), all: sealed.is_some() };
        for pair in wanted {
            let (id, value) = pair;
            match (*id, value) {
                (A::TOKEN, Value::Flag(flag)) if plan.token.is_none_or(|known| known == *flag) => {
                    plan.token = Some(*flag);
                }
                (A::PRIVATE, Value::Flag(flag)) if plan.private.is_none_or(|known| known == *flag) => {
                    plan.private = Some(*flag);
                }
                (id, value) => match open.name(id, value) {
                    Some(name) => {
                        let hidden = plan.all.then(|| in_session(name));
                        let sealed = sealed.and_then(|namer| namer.name(id, value));
                        plan.names.push(Named([Some(name), hidden, sealed]));
                    }
                    None => plan.rest.push(pair),
                },
            }
        }
        plan
    }

    /// Whether an object has what has no name.
    pub(super) fn rest_fits(&self, object: &Object) -> bool {
        self.rest.iter().all(|(id, value)| object.shows(*id, value))
    }
}

/// The name of a private session object, which nobody but the user may find: another than a public object has.
pub(super) fn in_session(name: u64) -> u64 {
    !name
}
