//! The attribute rules, indexed for lookup. There is one index for each class and type; its first
//! use builds it from the table.

use once_cell::race::OnceBox;

use super::{Default, Need, ObjectTypes, Rule, table};
use crate::id::AttributeType as A;
use crate::object::flags::{Bits, Flag, NUMBERS};
use crate::object::value::Kind;

pub(crate) struct ObjectRules {
    /// All rules, sorted by attribute number.
    by_id: Vec<&'static Rule>,
    /// The index in `by_id` of the rule of each attribute number below [`NUMBERS`], or `u8::MAX`.
    places: Vec<u8>,
    /// The defaults of all flags. No flag is required in a template.
    pub(crate) flags: Bits,
    /// The other attributes that are required in a template, or whose default is empty or a number.
    pub(crate) filled: Vec<&'static Rule>,
    /// The attributes that a key hides.
    pub(crate) secret: Vec<A>,
}

impl ObjectRules {
    /// Returns the rules for one class and type. `object_type` must not contain several types.
    pub(crate) fn of(object_type: ObjectTypes) -> &'static Self {
        static OBJECT_TYPES: [OnceBox<ObjectRules>; 64] = [const { OnceBox::new() }; 64];
        OBJECT_TYPES[object_type.place()].get_or_init(|| Box::new(Self::new(object_type)))
    }

    /// Returns the rule of an attribute; `None` if these objects do not have it.
    pub(crate) fn get(&self, id: A) -> Option<&'static Rule> {
        match usize::try_from(id.0).ok().and_then(|number| self.places.get(number)) {
            Some(place) => self.by_id.get(usize::from(*place)).copied(),
            None => self.by_id.iter().copied().rev().find(|rule| rule.id == id),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Rule> {
        self.by_id.iter().copied()
    }

    fn new(object_type: ObjectTypes) -> Self {
        let mut by_id: Vec<_> = table().filter(|rule| rule.on.has(object_type)).collect();
        by_id.sort_unstable_by_key(|rule| rule.id);
        let (mut flags, mut places) = (Bits::default(), vec![u8::MAX; NUMBERS]);
        for (at, rule) in (0..).zip(&by_id) {
            if let Some(place) = places.get_mut(rule.id.0 as usize) {
                *place = at;
            }
            if let (Default::TrueFor(object_types), Some(flag)) = (rule.default, Flag::of(rule.id)) {
                flags.put(flag, object_types.has(object_type));
            }
        }
        let filled = by_id.iter().copied().filter(|rule| fills(rule)).collect();
        let secret = by_id.iter().filter(|rule| rule.secret).map(|rule| rule.id).collect();
        Self { by_id, places, flags, filled, secret }
    }
}

fn fills(rule: &Rule) -> bool {
    let must = rule.create == Need::Must || rule.generate == Need::Must;
    rule.kind != Kind::Flag && (must || matches!(rule.default, Default::Empty | Default::Number(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_found_for_each_of_its_object_types() {
        for (class, _, object_type) in ObjectTypes::known() {
            let rules = ObjectRules::of(object_type);
            for rule in table() {
                let found = rules.get(rule.id).is_some_and(|found| std::ptr::eq(found, rule));
                assert_eq!(found, rule.on.has(object_type), "{} of {class}", rule.id);
            }
        }
    }

    #[test]
    fn every_flag_has_a_default_and_is_not_secret() {
        for rule in table().filter(|rule| rule.kind == Kind::Flag) {
            assert!(matches!(rule.default, Default::TrueFor(_)), "{}", rule.id);
            assert!(rule.create != Need::Must && rule.generate != Need::Must && !rule.secret, "{}", rule.id);
        }
    }
}
