//! The form of attribute values that the attribute table requires, and the attributes that only the
//! SO may set.

use jeton::object::attribute::{self, Change, Need, Rule};
use jeton::object::value::Kind as Form;

use crate::prelude::*;
use crate::samples::{samples, with_samples};

/// Returns an invalid value of the attribute, or `None` if every value is valid.
fn malformed(rule: &Rule) -> Option<&'static [u8]> {
    match rule.kind {
        Form::Flag => Some(&[1, 0]),
        Form::Number | Form::Template => Some(&[1]),
        Form::Date => Some(b"20260230"),
        Form::Numbers => Some(&[1, 2, 3]),
        Form::Bytes | Form::Integer => None,
    }
}

#[test]
fn a_malformed_value_is_refused_by_every_function() {
    with_samples(|client, session, sample| {
        let object = client.create(session, &sample.open()).expect("an object");
        let refused = Err(Error::AttributeValueInvalid);
        for rule in attribute::rules(sample.object_type) {
            let Some(wrong) = malformed(rule) else { continue };
            let (id, what) = (rule.id, format!("{} {}", sample.class, rule.id));
            let change = none().bytes(id, wrong);
            assert_eq!(client.set(session, object, &change), Err(Error::AttributeValueInvalid), "{what}");
            let copied = client.copy(session, object, &change).map(drop);
            assert_eq!(copied, sample.copied(refused.map(drop)), "{what}");
            if rule.create != Need::Never {
                let whole = sample.whole.clone().without(id).bytes(id, wrong);
                assert_eq!(client.create(session, &whole), refused, "{what}");
            }
            let Some(generator) = sample.generator().filter(|_| rule.generate != Need::Never) else {
                continue;
            };
            let (request, own) = (sample.request(), sample.request().without(id).bytes(id, wrong));
            let made = if !sample.is_half() {
                client.generate_key(session, generator, &own).map(drop)
            } else if sample.object_type.is_public() {
                client.generate(session, generator, &own, &none()).map(drop)
            } else {
                client.generate(session, generator, &request, &change).map(drop)
            };
            assert_eq!(made, Err(Error::AttributeValueInvalid), "{what}");
        }
    });
}

#[test]
fn an_undefined_number_is_refused() {
    with_samples(|client, session, sample| {
        for rule in attribute::rules(sample.object_type).filter(|rule| rule.most != u64::MAX) {
            let mechanism = |number| sample.whole.clone().without(rule.id).number(rule.id, number);
            assert!(client.create(session, &mechanism(rule.most)).is_ok(), "{}", rule.id);
            let refused = client.create(session, &mechanism(rule.most + 1));
            assert_eq!(refused, Err(Error::AttributeValueInvalid), "{}", rule.id);
            if rule.change == Change::Free {
                let object = client.create(session, &sample.whole).expect("an object");
                let refused = client.set(session, object, &none().number(rule.id, rule.most + 1));
                assert_eq!(refused, Err(Error::AttributeValueInvalid), "{}", rule.id);
            }
        }
    });
}

#[test]
fn the_so_may_set_attributes_that_only_the_so_may_set() {
    let (client, session) = one_user();
    let samples = samples(&client, session);
    client.logout(session).expect("the user");
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    let mut cases = 0;
    for sample in samples {
        for rule in attribute::rules(sample.object_type).filter(|rule| rule.change == Change::SecurityOfficer)
        {
            let what = format!("{} {}", sample.class, rule.id);
            // The SO cannot create private objects.
            let open = sample.whole.clone().flag(A::PRIVATE, false);
            let said = client.create(session, &open.clone().flag(rule.id, true)).expect("an object");
            assert!(client.flag(session, said, rule.id), "{what}");
            assert_eq!(client.set(session, said, &none().flag(rule.id, false)), Ok(()), "{what}");
            let silent = client.create(session, &open).expect("an object");
            assert!(!client.flag(session, silent, rule.id), "{what}");
            let copy = client.copy(session, silent, &none().flag(rule.id, true));
            assert_eq!(
                copy.map(|copy| assert!(client.flag(session, copy, rule.id), "{what}")),
                sample.copied(Ok(()))
            );
            cases += 1;
        }
    }
    assert!(cases > 0);
}
