//! Checks every rule of the attribute table with every function that makes, copies, changes or
//! reads an object. A function does what the rule allows, and refuses what it forbids with the
//! right error. Rules outside the table have their own tests.

use std::io::Read;
use std::sync::Mutex;

use jeton::object::attribute::{self, Change, Default, Need, Rule};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::prelude::*;
use crate::samples::{Sample, with_samples, wrapping_key};

/// Returns values of all attributes that the template may have and does not have yet, except secret
/// ones.
fn allowed(sample: &Sample, given: &Attributes, need: impl Fn(&Rule) -> Need) -> Attributes {
    attribute::rules(sample.object_type)
        .filter(|rule| matches!(need(rule), Need::May) && !rule.secret && !given.has(rule.id))
        // It excludes values of other attributes: see `stateful.rs`.
        .filter(|rule| rule.id != A::JETON_USES_LEFT)
        .fold(none(), |more, rule| more.bytes(rule.id, &sample.value(rule)))
}

/// Returns a template that breaks the rule of one attribute, and the error for it. `None` if no
/// template can break the rule.
fn refused(sample: &Sample, rule: &Rule, need: Need, given: &Attributes) -> Option<(Attributes, Error)> {
    match need {
        Need::Must => Some((given.clone().without(rule.id), Error::TemplateIncomplete)),
        Need::Never => Some((given.clone().bytes(rule.id, &sample.other(rule)), Error::AttributeReadOnly)),
        // The mechanism fixes the class and type of a key pair, so the template cannot choose
        // another value.
        Need::Same => Some((given.clone().bytes(rule.id, &sample.other(rule)), Error::TemplateInconsistent)),
        Need::May => None,
    }
}

/// Returns the error for an attribute that the object cannot have. PKCS#11 3.2, "Objects", examples
/// 1 and 5.
fn misplaced(id: A) -> Error {
    let known = attribute::table().any(|rule| rule.id == id);
    if known { Error::TemplateInconsistent } else { Error::AttributeTypeInvalid }
}

/// Returns the attributes that no object of this type has.
fn foreign(sample: &Sample) -> impl Iterator<Item = A> {
    let mut ids: Vec<_> = attribute::table().map(|rule| rule.id).collect();
    ids.sort();
    ids.dedup();
    ids.into_iter().filter(|id| attribute::rule(*id, sample.object_type).is_none()).chain([A(0x8000_0001)])
}

#[test]
fn create_object_follows_the_table() {
    with_samples(|client, session, sample| {
        let more = allowed(sample, &sample.whole, |rule| rule.create);
        let object = client.create(session, &sample.whole.clone().and(&more));
        let object = object.unwrap_or_else(|error| panic!("{} {:?}: {error:?}", sample.class, sample.kind));
        for id in more.ids().filter(|id| {
            attribute::rule(*id, sample.object_type).is_some_and(|rule| rule.default != Default::Computed)
        }) {
            if let Ok(value) = client.read(session, object, id) {
                assert_eq!(value, more.value(id), "{} {id}", sample.class);
            }
        }
        for rule in attribute::rules(sample.object_type).filter(|rule| rule.create != Need::Same) {
            let Some((template, error)) = refused(sample, rule, rule.create, &sample.whole) else { continue };
            assert_eq!(client.create(session, &template), Err(error), "{} {}", sample.class, rule.id);
        }
        for id in foreign(sample) {
            let template = sample.whole.clone().bytes(id, b"x");
            assert_eq!(client.create(session, &template), Err(misplaced(id)), "{} {id}", sample.class);
        }
    });
}

#[test]
fn generation_follows_the_table() {
    with_samples(|client, session, sample| {
        let Some(generator) = sample.generator() else { return };
        let request = sample.request();
        let own = if sample.object_type.is_private() { none() } else { request.clone() };
        let generate = |half: &Attributes| -> Result<()> {
            if !sample.is_half() {
                return client.generate_key(session, generator, half).map(drop);
            }
            let (public, private) =
                if sample.object_type.is_public() { (half, &none()) } else { (&request, half) };
            client.generate(session, generator, public, private).map(drop)
        };
        let identity = |rule: &Rule| [A::CLASS, A::KEY_TYPE].contains(&rule.id);
        let repeated = attribute::rules(sample.object_type)
            .filter(|rule| identity(rule))
            .fold(own.clone(), |own, rule| own.bytes(rule.id, &sample.value(rule)));
        let more = allowed(sample, &repeated, |rule| rule.generate);
        assert_eq!(generate(&repeated.and(&more)), sample.made(), "{} {generator}", sample.class);
        for rule in attribute::rules(sample.object_type) {
            let Some((template, error)) = refused(sample, rule, rule.generate, &own) else { continue };
            // RSA key generation is too slow for every invalid template.
            if rule.generate == Need::Same
                && sample.kind == Some(KeyType::RSA.0)
                && rule.id == A::PUBLIC_EXPONENT
            {
                continue;
            }
            assert_eq!(generate(&template), Err(error), "{} {}", sample.class, rule.id);
        }
        for id in foreign(sample) {
            assert_eq!(generate(&own.clone().bytes(id, b"x")), Err(misplaced(id)), "{} {id}", sample.class);
        }
    });
}

/// The keys with which the tests unwrap, derive and decapsulate other keys.
struct Receivers {
    by: ObjectHandle,
    base: ObjectHandle,
    kem: (ObjectHandle, ObjectHandle),
}

impl Receivers {
    fn new(client: &Client, session: SessionHandle) -> Self {
        let base = secret(KeyType::GENERIC_SECRET, &[9; 64]);
        Self {
            by: wrapping_key(client, session),
            base: client.create(session, &base.flag(A::DERIVE, true)).expect("a key"),
            kem: pair(client, session, Kind::MlKem512, &none()),
        }
    }

    fn unwrap(
        &self,
        client: &Client,
        session: SessionHandle,
        wrapped: &[u8],
        template: &Attributes,
    ) -> Result<()> {
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        client.unwrap(session, &kwp, self.by, wrapped, template).map(drop)
    }

    /// Wraps a sample with KWP, which keeps the exact length of a secret key. A key type may allow
    /// several lengths.
    fn wrapped(&self, client: &Client, session: SessionHandle, sample: &Sample) -> Vec<u8> {
        let key = client.create(session, &sample.open()).expect("a key");
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        client.wrap(session, &kwp, self.by, key).expect("a wrapped key")
    }
}

#[test]
fn unwrap_derive_and_decapsulate_follow_the_table() {
    with_samples(|client, session, sample| {
        if !sample.object_type.is_hidden() {
            return;
        }
        let receivers = Receivers::new(client, session);
        let wrapped = receivers.wrapped(client, session, sample);
        let identity = Attributes::of(sample.class).number(A::KEY_TYPE, sample.kind.expect("a key type"));
        let unwrap = |template: &Attributes| receivers.unwrap(client, session, &wrapped, template);
        let derive = |template: &Attributes| {
            let mechanism = plain(M::SHA512_KEY_DERIVATION);
            client.derive_key(session, &mechanism, receivers.base, &template.template()).map(drop)
        };
        let sealed = std::cell::RefCell::default();
        let encapsulate = |template: &Attributes| {
            let made = client.encapsulate(session, receivers.kem.0, &template.template());
            made.map(|(bytes, _)| drop(sealed.replace(bytes)))
        };
        let decapsulate = |template: &Attributes| {
            let sealed = sealed.borrow();
            let key = receivers.kem.1;
            client.decapsulate_key(session, &plain(M::ML_KEM), key, &template.template(), &sealed).map(drop)
        };
        type Receive<'a> = &'a dyn Fn(&Attributes) -> Result<()>;
        let mut functions: Vec<(&str, Receive<'_>)> = vec![("C_UnwrapKey", &unwrap)];
        if sample.object_type.is_secret() {
            functions.push(("C_DeriveKey", &derive));
            // `key_types` tests that an unreadable result is no key of triple DES.
            if sample.len() <= 32 && sample.kind != Some(KeyType::DES3.0) {
                functions.extend([
                    ("C_EncapsulateKey", &encapsulate as Receive<'_>),
                    ("C_DecapsulateKey", &decapsulate),
                ]);
            }
        }
        for (name, receive) in functions {
            let more = allowed(sample, &identity, Rule::receive);
            assert_eq!(
                receive(&identity.clone().and(&more)),
                Ok(()),
                "{name} {} {:?}",
                sample.class,
                sample.kind
            );
            for rule in attribute::rules(sample.object_type).filter(|rule| !identity.has(rule.id)) {
                let Some((template, error)) = refused(sample, rule, rule.receive(), &identity) else {
                    continue;
                };
                assert_eq!(receive(&template), Err(error), "{name} {} {}", sample.class, rule.id);
            }
            for id in foreign(sample) {
                let refused = receive(&identity.clone().bytes(id, b"x"));
                assert_eq!(refused, Err(misplaced(id)), "{name} {} {id}", sample.class);
            }
        }
    });
}

#[test]
fn changes_and_copies_follow_the_table() {
    with_samples(|client, session, sample| {
        let set =
            |object, rule: &Rule, value: &[u8]| client.set(session, object, &none().bytes(rule.id, value));
        let copy = |object, rule: &Rule, value: &[u8]| {
            client.copy(session, object, &none().bytes(rule.id, value)).map(drop)
        };
        for rule in attribute::rules(sample.object_type) {
            let fresh = || client.create(session, &sample.open()).expect("an object");
            let object = fresh();
            let other = sample.other(rule);
            let what = format!("{} {}", sample.class, rule.id);
            let refused = Err(Error::AttributeReadOnly);
            let (changed, copied) = match rule.change {
                // The attribute describes the key, so no other value is valid.
                Change::Free if rule.default == Default::Computed => {
                    (Err(Error::AttributeValueInvalid), Err(Error::AttributeValueInvalid))
                }
                Change::Free => (Ok(()), Ok(())),
                Change::Copy => (refused, Ok(())),
                // A copy can become private or unmodifiable, and not the reverse. It can lose a
                // usage and cannot gain one.
                Change::CopyRaise if other == [1] => (refused, Ok(())),
                Change::CopyLower if other == [0] => (refused, Ok(())),
                Change::CopyRaise | Change::CopyLower => (refused, Err(Error::TemplateInconsistent)),
                Change::Usage if other == [0] => (Ok(()), Ok(())),
                Change::Usage => (Ok(()), Err(Error::TemplateInconsistent)),
                Change::Clear => (Err(Error::AttributeValueInvalid), Err(Error::AttributeValueInvalid)),
                Change::Raise | Change::Lower => {
                    let (to, back) = if rule.change == Change::Raise { ([1], [0]) } else { ([0], [1]) };
                    assert_eq!(copy(object, rule, &to), sample.copied(Ok(())), "{what}");
                    assert_eq!(set(object, rule, &to), Ok(()), "{what}");
                    assert_eq!(set(object, rule, &to), Ok(()), "{what}: the same again");
                    assert_eq!(set(object, rule, &back), refused, "{what}");
                    if rule.id != A::COPYABLE {
                        assert_eq!(copy(object, rule, &back), sample.copied(refused), "{what}");
                    }
                    continue;
                }
                // The sample has no number that could become smaller.
                Change::SecurityOfficer | Change::Less | Change::Fixed => (refused, refused),
            };
            assert_eq!(copy(object, rule, &other), sample.copied(copied), "C_CopyObject {what}");
            assert_eq!(set(object, rule, &other), changed, "C_SetAttributeValue {what}");
            if rule.change == Change::Clear {
                assert_eq!(copy(fresh(), rule, b""), sample.copied(Ok(())), "{what}");
                assert_eq!(set(object, rule, b""), Ok(()), "{what}");
            }
        }
        let object = client.create(session, &sample.open()).expect("an object");
        for id in foreign(sample) {
            let changes = none().bytes(id, b"x");
            assert_eq!(client.set(session, object, &changes), Err(misplaced(id)), "{id}");
            let copied = client.copy(session, object, &changes).map(drop);
            assert_eq!(copied, sample.copied(Err(misplaced(id))), "{id}");
        }
    });
}

#[test]
fn reading_follows_the_table() {
    with_samples(|client, session, sample| {
        let open = client.create(session, &sample.open()).expect("an object");
        let closed = sample.whole.clone();
        let closed = if sample.object_type.is_hidden() { closed.flag(A::SENSITIVE, true) } else { closed };
        let closed = client.create(session, &closed).expect("an object");
        for rule in attribute::rules(sample.object_type) {
            let what = format!("{} {}", sample.class, rule.id);
            let given = sample.whole.has(rule.id);
            let read = |object| client.read(session, object, rule.id);
            if given || rule.default != Default::Absent {
                assert!(read(open).is_ok(), "{what}");
            }
            let expected = if rule.secret { Some(Error::AttributeSensitive) } else { read(open).err() };
            assert_eq!(read(closed).err(), expected, "{what}");
        }
        for id in foreign(sample) {
            let read = client.read(session, open, id);
            assert_eq!(read, Err(Error::AttributeTypeInvalid), "{} {id}", sample.class);
        }
    });
}

#[test]
fn a_search_by_value_finds_only_keys_that_are_not_sensitive() {
    with_samples(|client, session, sample| {
        for rule in
            attribute::rules(sample.object_type).filter(|rule| rule.secret && sample.whole.has(rule.id))
        {
            let wanted = none().bytes(rule.id, sample.whole.value(rule.id));
            let before = client.find(session, &wanted);
            let hiding = none().flag(A::SENSITIVE, true);
            let hidden = client.create(session, &sample.whole.clone().and(&hiding)).expect("a key");
            assert_eq!(client.find(session, &wanted), before, "{}", rule.id);
            let open = client.create(session, &sample.whole.clone().and(&shown())).expect("a key");
            let found = client.find(session, &wanted);
            assert!(found.contains(&open) && !found.contains(&hidden), "{}", rule.id);
        }
    });
}

/// Returns the error of a call, and the lines that it writes to the log.
fn logged<T>(call: impl FnOnce() -> Result<T>) -> (Option<Error>, String) {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(Mutex::new(writer));
    // The subscriber ends with the call, and so does the writing end of the pipe.
    let error = tracing::subscriber::with_default(Registry::default().with(lines), || call().err());
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("lines");
    (error, text)
}

#[test]
fn the_log_names_the_attribute_of_a_refused_template_or_change() {
    let (client, session) = one_user();
    let key = || key_object(ObjectClass::SECRET_KEY, KeyType::AES);
    let valued = || key().bytes(A::VALUE, &[1; 16]);
    let kept = client.create(session, &valued().flag(A::SENSITIVE, true)).expect("a key");
    let base = secret(KeyType::GENERIC_SECRET, &[1; 32]);
    let base = base.flag(A::DERIVE, true);
    let base = client.create_with(session, &base, A::DERIVE_TEMPLATE, &none().label("forced"));
    let base = base.expect("a key");
    let create = |more: Attributes| logged(|| client.create(session, &valued().and(&more)));
    let change = |more: Attributes| logged(|| client.set(session, kept, &more));
    let copy = |more: Attributes| logged(|| client.copy(session, kept, &more));
    let derive = |more: Attributes| {
        let digest = plain(M::SHA256_KEY_DERIVATION);
        logged(|| client.derive_key(session, &digest, base, &more.template()))
    };
    use Error::{AttributeReadOnly, AttributeValueInvalid, TemplateInconsistent};
    for (id, expected, (error, text)) in [
        (A::LOCAL, AttributeReadOnly, create(none().flag(A::LOCAL, true))),
        (A::TRUSTED, AttributeReadOnly, create(none().flag(A::TRUSTED, true))),
        (A::SENSITIVE, AttributeReadOnly, change(none().flag(A::SENSITIVE, false))),
        (A::VALUE, AttributeReadOnly, change(none().bytes(A::VALUE, &[2; 16]))),
        (A::PRIVATE, TemplateInconsistent, copy(none().flag(A::PRIVATE, false))),
        (A::LABEL, TemplateInconsistent, create(none().label("one").label("two"))),
        (A::MODULUS, TemplateInconsistent, create(none().bytes(A::MODULUS, &[1]))),
        (A::LABEL, TemplateInconsistent, derive(none().label("mine"))),
        (A::START_DATE, AttributeValueInvalid, create(none().bytes(A::START_DATE, b"20261332"))),
        (A::CHECK_VALUE, AttributeValueInvalid, change(none().bytes(A::CHECK_VALUE, &[1; 3]))),
        (
            A::VALUE,
            AttributeValueInvalid,
            logged(|| client.create(session, &key().bytes(A::VALUE, &[1; 17]))),
        ),
    ] {
        assert_eq!(error, Some(expected), "{id}");
        assert!(text.contains(&format!("attribute={id}")), "{id}: {text:?}");
    }
}
