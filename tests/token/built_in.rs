//! The built-in objects: profiles, mechanisms, the clock.

use crate::prelude::*;

const CLASSES: [ObjectClass; 3] = [ObjectClass::PROFILE, ObjectClass::MECHANISM, ObjectClass::HW_FEATURE];

#[test]
fn profiles_are_found_by_class_without_a_login() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    let profiles = Attributes::of(ObjectClass::PROFILE);
    let found = client.find(session, &profiles);
    let ids: Vec<_> = found.iter().map(|one| client.number(session, *one, A::PROFILE_ID)).collect();
    let wanted = [
        value::BASELINE_PROVIDER,
        value::EXTENDED_PROVIDER,
        value::AUTHENTICATION_TOKEN,
        value::PUBLIC_CERTIFICATES_TOKEN,
    ];
    assert_eq!(ids, wanted);
    let one = client.find_one(session, &profiles.clone().number(A::PROFILE_ID, value::EXTENDED_PROVIDER));
    assert_eq!(one, found[1]);
    assert_eq!(client.find(session, &profiles.clone().number(A::PROFILE_ID, 0)), []);
    // Profiles are not storage objects.
    assert_eq!(client.read(session, one, A::TOKEN), Err(Error::AttributeTypeInvalid));
    assert_eq!(client.find(session, &profiles.flag(A::TOKEN, true)), []);
    assert!(client.object_size(session, one).expect("a size") > 0);
    // The user and the SO get the same handles.
    client.login(session);
    assert_eq!(client.find(session, &Attributes::of(ObjectClass::PROFILE)), found);
    client.logout(session).expect("the user");
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    assert_eq!(client.find(session, &Attributes::of(ObjectClass::PROFILE)), found);
}

#[test]
fn each_mechanism_has_an_object() {
    let client = Client::with(DEFAULT, ", mechanisms = { deny = ['CKM_SHA_1'] }");
    let session = client.open();
    let found = client.find(session, &Attributes::of(ObjectClass::MECHANISM));
    let mut ids: Vec<_> =
        found.iter().map(|one| M(client.number(session, *one, A::MECHANISM_TYPE))).collect();
    let mut listed = client.mechanisms(client.slot).expect("mechanisms");
    ids.sort();
    listed.sort();
    assert!(!listed.is_empty() && !listed.contains(&M::SHA_1));
    assert_eq!(ids, listed);
    let one = Attributes::of(ObjectClass::MECHANISM).number(A::MECHANISM_TYPE, M::AES_GCM.0);
    client.find_one(session, &one);
}

#[test]
fn the_clock_object_returns_the_time() {
    let (client, session) = one_user();
    let clock = client.find_one(session, &Attributes::of(ObjectClass::HW_FEATURE));
    assert_eq!(client.number(session, clock, A::HW_FEATURE_TYPE), value::HW_CLOCK);
    let before = client.token(client.slot).expect("a token").utc_time;
    let read = client.read(session, clock, A::VALUE).expect("a time");
    let after = client.token(client.slot).expect("a token").utc_time;
    assert!(before[..] <= read[..] && read[..] <= after[..], "{read:?}");
    assert!(read.len() == 16 && read.ends_with(b"00") && read.iter().all(u8::is_ascii_digit));
    let wrong = none().bytes(A::VALUE, b"2026010100000000");
    assert_eq!(client.set(session, clock, &wrong), Err(Error::ActionProhibited));
}

#[test]
fn built_in_objects_are_found_only_by_their_class() {
    let (client, session) = one_user();
    let own = client.create(session, &data("own")).expect("data");
    assert_eq!(client.find(session, &none()), [own]);
    assert_eq!(client.find(session, &none().number(A::PROFILE_ID, value::BASELINE_PROVIDER)), []);
    // The token has no validation objects.
    assert_eq!(client.find(session, &Attributes::of(ObjectClass::VALIDATION)), []);
    for class in CLASSES {
        assert!(!client.find(session, &Attributes::of(class)).contains(&own), "{class}");
    }
}

#[test]
fn built_in_objects_cannot_be_created_changed_copied_or_destroyed() {
    let (client, session) = one_user();
    for class in CLASSES {
        let one = client.find(session, &Attributes::of(class))[0];
        assert_eq!(client.set(session, one, &none().label("x")), Err(Error::ActionProhibited));
        assert_eq!(client.copy(session, one, &none()), Err(Error::ActionProhibited));
        assert_eq!(client.destroy_object(session, one), Err(Error::ActionProhibited));
        let made = client.create(session, &Attributes::of(class));
        assert_eq!(made, Err(Error::TemplateInconsistent), "{class}");
    }
    let made = client.create(session, &Attributes::of(ObjectClass::VALIDATION));
    assert_eq!(made, Err(Error::TemplateInconsistent));
}

#[test]
fn built_in_objects_have_unique_identifiers() {
    let client = Client::new(DEFAULT);
    let session = client.open();
    let mut ids: Vec<_> = CLASSES
        .into_iter()
        .flat_map(|class| client.find(session, &Attributes::of(class)))
        .map(|one| client.read(session, one, A::UNIQUE_ID).expect("an identifier"))
        .collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
