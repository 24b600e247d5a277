//! The rules of creating, copying, changing and destroying objects.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, value};
use jeton::module::{Access, User};

use crate::keys::{Kind, RSA, key_object, pair};
use crate::support::{Attributes, Client, SO_PIN, data, none, one_backend, one_user};

fn aes() -> Attributes {
    key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &[7; 32])
}

#[test]
fn an_incomplete_or_invalid_template_is_refused() {
    one_user(|client, session| {
        let certificate =
            Attributes::of(ObjectClass::CERTIFICATE).number(A::CERTIFICATE_TYPE, value::CERTIFICATE_X_509);
        let cases = [
            // Attributes are missing.
            (none().label("no class"), Error::TemplateIncomplete),
            (Attributes::of(ObjectClass::SECRET_KEY), Error::TemplateIncomplete),
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
            (aes().without(A::VALUE), Error::TemplateIncomplete),
            (RSA.public.clone().without(A::PUBLIC_EXPONENT), Error::TemplateIncomplete),
            (RSA.private.clone().without(A::PRIVATE_EXPONENT), Error::TemplateIncomplete),
            // Attributes contradict each other.
            (data("a").label("b"), Error::TemplateInconsistent),
            (aes().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0), Error::TemplateInconsistent),
            (
                RSA.private.clone().flag(A::ALWAYS_AUTHENTICATE, true).flag(A::PRIVATE, false),
                Error::TemplateInconsistent,
            ),
            // Attributes that the caller cannot set.
            (data("a").bytes(A::UNIQUE_ID, b"mine"), Error::AttributeReadOnly),
            (aes().flag(A::LOCAL, true), Error::AttributeReadOnly),
            (aes().flag(A::ALWAYS_SENSITIVE, true), Error::AttributeReadOnly),
            (aes().flag(A::NEVER_EXTRACTABLE, true), Error::AttributeReadOnly),
            (aes().number(A::KEY_GEN_MECHANISM, M::AES_KEY_GEN.0), Error::AttributeReadOnly),
            (aes().number(A::VALUE_LEN, 32), Error::AttributeReadOnly),
            (RSA.public.clone().number(A::MODULUS_BITS, 2048), Error::AttributeReadOnly),
            (RSA.public.clone().flag(A::TRUSTED, true), Error::AttributeReadOnly),
            // Attributes of another object type.
            (data("a").flag(A::SIGN, true), Error::TemplateInconsistent),
            (aes().bytes(A::MODULUS, &[1]), Error::TemplateInconsistent),
            (RSA.public.clone().flag(A::SENSITIVE, true), Error::TemplateInconsistent),
            (data("a").bytes(A(0x8000_0001), b"x"), Error::AttributeTypeInvalid),
            // Values are malformed.
            (none().bytes(A::CLASS, &[0]), Error::AttributeValueInvalid),
            (none().number(A::CLASS, 4711), Error::AttributeValueInvalid),
            (key_object(ObjectClass::SECRET_KEY, KeyType::RSA), Error::AttributeValueInvalid),
            (data("a").bytes(A::TOKEN, &[1, 0]), Error::AttributeValueInvalid),
            (aes().bytes(A::START_DATE, b"20261x01"), Error::AttributeValueInvalid),
            (aes().bytes(A::ALLOWED_MECHANISMS, &[1, 2, 3]), Error::AttributeValueInvalid),
            (aes().without(A::VALUE).bytes(A::VALUE, &[7; 31]), Error::AttributeValueInvalid),
        ];
        for (at, (template, expected)) in cases.iter().enumerate() {
            assert_eq!(client.create(session, template), Err(*expected), "case {at}");
        }
        assert_eq!(client.find(session, &none()), []);
        // The same value twice is allowed.
        client.create(session, &data("a").label("a")).expect("data");
    });
}

#[test]
fn write_access_depends_on_session_and_login() {
    one_backend(|provider| {
        let client = Client::new(provider);
        let session = client.open();
        let read_only = client.module.open_session(client.slot, Access::ReadOnly).expect("a session");
        let private = data("a").flag(A::PRIVATE, true);
        assert_eq!(client.create(session, &private), Err(Error::UserNotLoggedIn));
        assert_eq!(client.create(session, &data("a").stored()), Err(Error::UserNotLoggedIn));
        assert_eq!(client.create(session, &aes().stored()), Err(Error::UserNotLoggedIn));
        assert_eq!(client.create(session, &aes().flag(A::PRIVATE, true)), Err(Error::UserNotLoggedIn));
        client.create(session, &data("public")).expect("data");

        client.login(session);
        assert_eq!(client.create(read_only, &data("a").stored()), Err(Error::SessionReadOnly));
        client.create(read_only, &private).expect("a session object");
        let stored = client.create(session, &private.stored().label("a")).expect("data");
        assert_eq!(client.set(read_only, stored, &none().label("b")), Err(Error::SessionReadOnly));
        assert_eq!(client.module.destroy_object(read_only, stored), Err(Error::SessionReadOnly));
        assert_eq!(client.copy(read_only, stored, &none()), Err(Error::SessionReadOnly));
        client.copy(read_only, stored, &none().flag(A::TOKEN, false)).expect("a session object");

        client.module.logout(session).expect("the user");
        assert_eq!(client.set(session, stored, &none().label("b")), Err(Error::ObjectHandleInvalid));
    });
}

#[test]
fn private_objects_are_invisible_without_the_user() {
    one_user(|client, session| {
        let open = client.create(session, &data("open").stored()).expect("data");
        let hidden = client.create(session, &data("hidden").stored().flag(A::PRIVATE, true)).expect("data");
        let both = client.find(session, &none());
        assert_eq!(both, [open, hidden]);
        client.module.logout(session).expect("the user");
        let is_invisible = |who: &str| {
            assert_eq!(client.find(session, &none()), [open], "{who}");
            assert_eq!(client.find(session, &none().label("hidden")), [], "{who}");
            let object = client.module.object(session, hidden).err();
            assert_eq!(object, Some(Error::ObjectHandleInvalid), "{who}");
            let destroyed = client.module.destroy_object(session, hidden);
            assert_eq!(destroyed, Err(Error::ObjectHandleInvalid), "{who}");
        };
        is_invisible("the public");
        client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
        is_invisible("the SO");
        client.module.logout(session).expect("the SO");
        client.login(session);
        assert_eq!(client.find(session, &none()).len(), 2);
    });
}

#[test]
fn attributes_change_only_in_allowed_directions() {
    one_user(|client, session| {
        let key = aes().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true);
        let key = client.create(session, &key).expect("a key");
        let set = |changes: Attributes| client.set(session, key, &changes);
        assert_eq!(set(none().label("new").bytes(A::ID, b"1")), Ok(()));
        assert_eq!(client.read(session, key, A::LABEL).expect("a label"), b"new");
        for refused in [
            none().flag(A::TOKEN, true),
            none().flag(A::PRIVATE, false),
            none().flag(A::MODIFIABLE, false),
            none().number(A::CLASS, ObjectClass::DATA.0),
            none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0),
            none().bytes(A::VALUE, &[8; 32]),
            none().flag(A::LOCAL, true),
            none().flag(A::TRUSTED, true),
        ] {
            assert_eq!(set(refused), Err(Error::AttributeReadOnly));
        }
        assert_eq!(set(none().flag(A::SIGN_RECOVER, true)), Err(Error::TemplateInconsistent));
        assert_eq!(set(none().bytes(A::SENSITIVE, b"")), Err(Error::AttributeValueInvalid));
        // If one attribute is refused, no attribute changes.
        let mixed = none().label("mixed").bytes(A::VALUE, &[8; 32]);
        assert_eq!(set(mixed), Err(Error::AttributeReadOnly));
        assert_eq!(client.read(session, key, A::LABEL).expect("a label"), b"new");

        assert_eq!(set(none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false)), Ok(()));
        assert_eq!(set(none().flag(A::SENSITIVE, false)), Err(Error::AttributeReadOnly));
        assert_eq!(set(none().flag(A::EXTRACTABLE, true)), Err(Error::AttributeReadOnly));
        assert_eq!(set(none().flag(A::COPYABLE, false)), Ok(()));
        assert_eq!(set(none().flag(A::COPYABLE, true)), Err(Error::AttributeReadOnly));
    });
}

#[test]
fn a_copy_takes_the_template_and_a_new_unique_id() {
    one_user(|client, session| {
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

        let desensitized = client.copy(session, copy, &none().flag(A::SENSITIVE, false));
        assert_eq!(desensitized, Err(Error::AttributeReadOnly));
        let exchanged = client.copy(session, copy, &none().bytes(A::VALUE, &[8; 32]));
        assert_eq!(exchanged, Err(Error::AttributeReadOnly));
        assert_eq!(client.set(session, copy, &none().label("x")), Err(Error::ActionProhibited));
    });
}

#[test]
fn copyable_modifiable_and_destroyable_are_enforced() {
    one_user(|client, session| {
        let create = |flag| client.create(session, &data("a").flag(flag, false)).expect("data");
        let fixed = create(A::MODIFIABLE);
        assert_eq!(client.set(session, fixed, &none().label("b")), Err(Error::ActionProhibited));
        let single = create(A::COPYABLE);
        assert_eq!(client.copy(session, single, &none()), Err(Error::ActionProhibited));
        let lasting = create(A::DESTROYABLE);
        assert_eq!(client.module.destroy_object(session, lasting), Err(Error::ActionProhibited));
        assert!(client.module.object(session, lasting).is_ok());
        for gone in [fixed, single] {
            assert_eq!(client.module.destroy_object(session, gone), Ok(()));
            assert_eq!(client.module.destroy_object(session, gone), Err(Error::ObjectHandleInvalid));
        }
    });
}

#[test]
fn only_the_so_sets_trusted_on_a_public_key() {
    one_backend(|provider| {
        let client = Client::new(provider);
        let session = client.open();
        client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
        let trusted = RSA.public.clone().stored().flag(A::TRUSTED, true);
        let key = client.create(session, &trusted).expect("a key");
        assert!(client.flag(session, key, A::TRUSTED));
        assert_eq!(client.create(session, &aes()), Err(Error::UserNotLoggedIn));
        client.module.logout(session).expect("the SO");
        client.login(session);
        let key = client.find_one(session, &none().flag(A::TRUSTED, true));
        // The user cannot change a trusted key, as with a trusted certificate.
        assert_eq!(client.set(session, key, &none().flag(A::TRUSTED, false)), Err(Error::ActionProhibited));
    });
}

#[test]
fn sensitive_values_cannot_be_read() {
    one_user(|client, session| {
        let secrets = [
            (Kind::Rsa, vec![A::PRIVATE_EXPONENT, A::PRIME_1, A::PRIME_2, A::EXPONENT_1, A::COEFFICIENT]),
            (Kind::P256, vec![A::VALUE]),
            (Kind::Ed25519, vec![A::VALUE]),
            (Kind::MlDsa44, vec![A::VALUE, A::SEED]),
        ];
        for (kind, hidden) in secrets {
            let (_, key) = pair(client, session, kind, &none());
            for id in hidden {
                assert_eq!(client.read(session, key, id), Err(Error::AttributeSensitive), "{kind:?} {id}");
            }
            assert_eq!(client.read(session, key, A::VALUE_LEN), Err(Error::AttributeTypeInvalid));
        }
        // `CKA_SENSITIVE` true hides the value, and so does `CKA_EXTRACTABLE` false.
        for (sensitive, extractable) in [(true, true), (false, false)] {
            let key = aes().flag(A::SENSITIVE, sensitive).flag(A::EXTRACTABLE, extractable);
            let key = client.create(session, &key).expect("a key");
            assert_eq!(client.read(session, key, A::VALUE), Err(Error::AttributeSensitive));
            assert_eq!(client.number(session, key, A::VALUE_LEN), 32);
        }
    });
}

#[test]
fn every_object_has_a_unique_identifier() {
    one_user(|client, session| {
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
    });
}

#[test]
fn the_size_of_an_object_grows_with_its_value() {
    one_user(|client, session| {
        let size = |value: &[u8]| {
            let object = data("a").without(A::VALUE).bytes(A::VALUE, value);
            let object = client.create(session, &object).expect("data");
            client.module.object_size(session, object).expect("a size")
        };
        assert!(size(&[0; 100]) >= size(&[]) + 100);
    });
}
