//! The rules of creating, copying, changing and destroying objects.

use crate::prelude::*;

pub fn aes() -> Attributes {
    secret(KeyType::AES, &[7; 32])
}

/// `attribute_rules.rs` has the rules of each attribute.
#[test]
fn a_template_whose_attributes_do_not_fit_together_is_refused() {
    let (client, session) = one_user();
    let certificate =
        Attributes::of(ObjectClass::CERTIFICATE).number(A::CERTIFICATE_TYPE, value::CERTIFICATE_X_509);
    let cases = [
        (Attributes::of(ObjectClass::CERTIFICATE), Error::TemplateIncomplete),
        (certificate.clone().bytes(A::VALUE, b"der"), Error::TemplateIncomplete),
        (certificate.bytes(A::SUBJECT, b"der"), Error::TemplateIncomplete),
        (
            Attributes::of(ObjectClass::CERTIFICATE)
                .number(A::CERTIFICATE_TYPE, value::CERTIFICATE_WTLS)
                .bytes(A::SUBJECT, b"")
                .bytes(A::VALUE, b"a certificate"),
            Error::TemplateIncomplete,
        ),
        (data("a").label("b"), Error::TemplateInconsistent),
        (aes().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0), Error::TemplateInconsistent),
        (
            RSA.private.clone().flag(A::ALWAYS_AUTHENTICATE, true).flag(A::PRIVATE, false),
            Error::TemplateInconsistent,
        ),
        (key_object(ObjectClass::SECRET_KEY, KeyType::RSA), Error::AttributeValueInvalid),
        (aes().without(A::VALUE).bytes(A::VALUE, &[7; 31]), Error::AttributeValueInvalid),
    ];
    for (at, (template, expected)) in cases.iter().enumerate() {
        assert_eq!(client.create(session, template), Err(*expected), "case {at}");
    }
    assert_eq!(client.find(session, &none()), []);
    // The same value twice is allowed.
    client.create(session, &data("a").label("a")).expect("data");
}

#[test]
fn write_access_depends_on_session_and_login() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    let read_only = client.open_session(client.slot, Access::ReadOnly).expect("a session");
    let private = data("a").flag(A::PRIVATE, true);
    for refused in [&private, &data("a").stored(), &aes().stored(), &aes().flag(A::PRIVATE, true)] {
        assert_eq!(client.create(session, refused), Err(Error::UserNotLoggedIn));
    }
    client.create(session, &data("public")).expect("data");

    client.login(session);
    assert_eq!(client.create(read_only, &data("a").stored()), Err(Error::SessionReadOnly));
    client.create(read_only, &private).expect("a session object");
    let stored = client.create(session, &private.stored().label("a")).expect("data");
    assert_eq!(client.set(read_only, stored, &none().label("b")), Err(Error::SessionReadOnly));
    assert_eq!(client.destroy_object(read_only, stored), Err(Error::SessionReadOnly));
    assert_eq!(client.copy(read_only, stored, &none()), Err(Error::SessionReadOnly));
    client.copy(read_only, stored, &none().flag(A::TOKEN, false)).expect("a session object");

    client.logout(session).expect("the user");
    assert_eq!(client.set(session, stored, &none().label("b")), Err(Error::ObjectHandleInvalid));
}

#[test]
fn no_attribute_changes_if_one_is_refused() {
    let (client, session) = one_user();
    let key = client.create(session, &aes().label("old")).expect("a key");
    let mixed = none().label("mixed").bytes(A::VALUE, &[8; 32]);
    assert_eq!(client.set(session, key, &mixed), Err(Error::AttributeReadOnly));
    assert_eq!(client.read(session, key, A::LABEL).expect("a label"), b"old");
}

#[test]
fn a_copy_takes_the_template_and_a_new_unique_id() {
    let (client, session) = one_user();
    let key = aes().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true).label("key");
    let key = client.create(session, &key).expect("a key");
    let changes = none().stored().label("copy").flag(A::SENSITIVE, true).flag(A::MODIFIABLE, false);
    let copy = client.copy(session, key, &changes).expect("a copy");
    assert!(client.flag(session, copy, A::TOKEN) && client.flag(session, copy, A::SENSITIVE));
    assert!(!client.flag(session, copy, A::MODIFIABLE) && !client.flag(session, key, A::TOKEN));
    assert_eq!(client.read(session, copy, A::LABEL).expect("a label"), b"copy");
    assert_eq!(client.read(session, copy, A::VALUE), Err(Error::AttributeSensitive));
    assert_eq!(client.read(session, key, A::VALUE).expect("a value"), [7; 32]);
    let id = |object| client.read(session, object, A::UNIQUE_ID).expect("an identifier");
    assert_ne!(id(key), id(copy));
}

#[test]
fn every_object_has_a_unique_identifier() {
    let (client, session) = one_user();
    let mut ids: Vec<_> = (0..8)
        .map(|number| {
            let object = data("a").flag(A::TOKEN, number % 2 == 0);
            let object = client.create(session, &object).expect("data");
            client.read(session, object, A::UNIQUE_ID).expect("an identifier")
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8);
    let found = client.find_one(session, &none().bytes(A::UNIQUE_ID, &ids[0]));
    assert_eq!(client.read(session, found, A::UNIQUE_ID).expect("an identifier"), ids[0]);
}

#[test]
fn the_size_of_an_object_grows_with_its_value() {
    let (client, session) = one_user();
    let size = |value: &[u8]| {
        let object = data("a").without(A::VALUE).bytes(A::VALUE, value);
        let object = client.create(session, &object).expect("data");
        client.object_size(session, object).expect("a size")
    };
    assert!(size(&[0; 100]) >= size(&[]) + 100);
}
