//! Rights that a copy, change or template cannot give: `CKA_PRIVATE` false for a copy of a private
//! object, additional usages, trust that the SO did not set.

use crate::prelude::*;
use crate::protection::certificate;

/// The SO may set `CKA_TRUSTED` in a template attribute. The file of an older version may contain
/// such a template that the user set.
#[test]
fn a_template_attribute_cannot_make_an_object_of_the_user_trusted() {
    let (client, session) = one_user();
    let trusted = none().flag(A::TRUSTED, true);
    let open = none().stored().flag(A::PRIVATE, false);
    let aes = secret(KeyType::AES, &[7; 16]).and(&open);
    let generic = secret(KeyType::GENERIC_SECRET, &[1; 32]).and(&open).flag(A::DERIVE, true);
    let (public, _) = pair(&client, session, Kind::MlKem512, &none());
    let ml_kem = client.read(session, public, A::VALUE).expect("a key");
    let ml_kem = key_object(ObjectClass::PUBLIC_KEY, KeyType::ML_KEM)
        .number(A::PARAMETER_SET, value::ML_KEM_512)
        .bytes(A::VALUE, &ml_kem)
        .and(&open);
    client.as_so(session, || {
        for (label, own, id) in [
            ("wraps", &aes, A::UNWRAP_TEMPLATE),
            ("derives", &generic, A::DERIVE_TEMPLATE),
            ("encapsulates", &ml_kem, A::ENCAPSULATE_TEMPLATE),
        ] {
            let own = own.clone().label(label);
            client.create_object(session, &own.within(id, &trusted)).expect("a key");
        }
    });
    let named = |label: &str| client.find_one(session, &none().label(label));
    let key = secret(KeyType::AES, &[8; 16]).flag(A::EXTRACTABLE, true);
    let key = client.create(session, &key).expect("a key");
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let wrapped = client.wrap(session, &kwp, named("wraps"), key).expect("a wrapped key");
    let received = key_object(ObjectClass::SECRET_KEY, KeyType::AES).number(A::VALUE_LEN, 16);
    for template in [received.clone(), received.clone().and(&trusted)] {
        let refused: Result<ObjectHandle> = Err(Error::AttributeReadOnly);
        let template = template.without(A::VALUE_LEN);
        assert_eq!(client.unwrap(session, &kwp, named("wraps"), &wrapped, &template), refused);
    }
    let mechanism = plain(M::SHA256_KEY_DERIVATION);
    let derived = client.derive_key(session, &mechanism, named("derives"), &received.template());
    assert_eq!(derived, Err(Error::AttributeReadOnly));
    let made = client.encapsulate(session, named("encapsulates"), &received.template());
    assert_eq!(made.map(drop), Err(Error::AttributeReadOnly));
}

/// The attacks "the user … a trusted key" and "a copy by the user …" have the usages of the
/// key.
#[test]
fn only_the_so_changes_a_trusted_object() {
    let (client, session) = one_user();
    let open = none().stored().flag(A::PRIVATE, false);
    let objects = [secret(KeyType::AES, &[7; 16]), RSA.public.clone(), certificate()];
    let trust = |trusted| none().flag(A::TRUSTED, trusted);
    for object in objects.map(|object| object.and(&open)) {
        let object = client.create(session, &object).expect("an object");
        let id = client.read(session, object, A::UNIQUE_ID).expect("an identifier");
        let found = || client.find_one(session, &none().bytes(A::UNIQUE_ID, &id));
        client.as_so(session, || client.set(session, found(), &trust(true)).expect("trust"));
        for change in [none().label("mine"), trust(false), trust(true)] {
            assert_eq!(client.set(session, found(), &change), Err(Error::ActionProhibited));
        }
        client.as_so(session, || {
            let copy = client.copy(session, found(), &none()).expect("a copy");
            assert!(!client.flag(session, copy, A::TRUSTED));
            client.destroy_object(session, copy).expect("a copy");
            client.set(session, found(), &trust(false)).expect("a change");
        });
        assert_eq!(client.set(session, found(), &none().label("mine")), Ok(()));
    }
}

/// The SO requests a trusted key and logs out. `C_AsyncComplete` refuses to create it for the user,
/// who is logged in by then.
#[test]
fn the_user_cannot_complete_an_asynchronous_request_of_the_so() {
    let client = Client::new(DEFAULT);
    let module = &client.module;
    let session = module.open_async_session(client.slot, Access::ReadWrite).expect("a session");
    module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    let template = none().number(A::VALUE_LEN, 16).flag(A::PRIVATE, false).flag(A::TRUSTED, true);
    assert_eq!(client.generate_key(session, M::AES_KEY_GEN, &template), Err(Error::Pending));
    module.logout(session).expect("the SO");
    client.login(session);
    let made = loop {
        match module.async_complete(session, jeton::functions::AsyncFunction::GenerateKey) {
            Err(Error::Pending) => std::thread::yield_now(),
            made => break made.map(drop),
        }
    };
    assert_eq!(made, Err(Error::AttributeReadOnly));
    assert!(client.find(session, &none().flag(A::TRUSTED, true)).is_empty());
}
