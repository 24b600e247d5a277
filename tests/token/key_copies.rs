//! Rights that a copy, change or template cannot give: `CKA_PRIVATE` false for a copy of a private
//! object, additional usages, trust that the SO did not set.

use jeton::error::{Error, Result};
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::module::{Access, Output, User};
use jeton::object::template::{Given, Raw, Template};

use crate::keys::{Kind, key_object, pair};
use crate::support::{Attributes, Client, SO_PIN, each_backend, none, plain};

fn secret(key_type: KeyType, value: &[u8]) -> Attributes {
    key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, value)
}

/// Returns a template that contains another one in an attribute.
fn within<'a>(own: &'a Attributes, id: A, inner: &'a Attributes) -> Template<'a> {
    let mut template = own.template();
    template.0.push(Given { id, value: Raw::Template(inner.template()) });
    template
}

/// Runs `work` while the SO is logged in. The user is logged in before and after.
fn as_the_so<T>(client: &Client, session: SessionHandle, work: impl FnOnce() -> T) -> T {
    client.module.logout(session).expect("the user");
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    let out = work();
    client.module.logout(session).expect("the SO");
    client.login(session);
    out
}

#[test]
fn a_copy_never_lowers_cka_private() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let (_, private) = pair(&client, session, Kind::P256, &none().stored());
        let aes = client.create(session, &secret(KeyType::AES, &[7; 16])).expect("a key");
        let data = Attributes::of(ObjectClass::DATA).flag(A::PRIVATE, true);
        let data = client.create(session, &data).expect("an object");
        for object in [private, aes, data] {
            for more in [none(), none().stored()] {
                let open = more.flag(A::PRIVATE, false);
                assert_eq!(client.copy(session, object, &open), Err(Error::TemplateInconsistent));
            }
            let same = client.copy(session, object, &none().flag(A::PRIVATE, true)).expect("a copy");
            assert!(client.flag(session, same, A::PRIVATE));
        }
        let open = secret(KeyType::AES, &[7; 16]).flag(A::PRIVATE, false);
        let open = client.create(session, &open).expect("a key");
        let closed = client.copy(session, open, &none().flag(A::PRIVATE, true)).expect("a copy");
        assert!(client.flag(session, closed, A::PRIVATE));
        assert_eq!(client.set(session, open, &none().flag(A::PRIVATE, true)), Err(Error::AttributeReadOnly));
    });
}

#[test]
fn a_copy_cannot_gain_a_usage() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let idle = [A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP, A::SIGN, A::VERIFY, A::DERIVE];
        let frozen = idle.into_iter().fold(secret(KeyType::AES, &[7; 16]), |key, id| key.flag(id, false));
        let frozen = client.create(session, &frozen.flag(A::MODIFIABLE, false)).expect("a key");
        for id in idle.into_iter().chain([A::MODIFIABLE]) {
            let more = none().flag(id, true);
            assert_eq!(client.copy(session, frozen, &more), Err(Error::TemplateInconsistent), "{id}");
            assert_eq!(client.set(session, frozen, &more), Err(Error::ActionProhibited), "{id}");
        }
        let copy = client.copy(session, frozen, &none()).expect("a copy");
        assert_eq!(client.set(session, copy, &none().flag(A::DECRYPT, true)), Err(Error::ActionProhibited));
        // Fewer usages are allowed.
        let whole = client.create(session, &secret(KeyType::AES, &[7; 16])).expect("a key");
        let less = client.copy(session, whole, &none().flag(A::DECRYPT, false)).expect("a copy");
        assert!(!client.flag(session, less, A::DECRYPT) && client.flag(session, less, A::ENCRYPT));
    });
}

const TEMPLATES: [A; 5] = [
    A::WRAP_TEMPLATE,
    A::UNWRAP_TEMPLATE,
    A::DERIVE_TEMPLATE,
    A::ENCAPSULATE_TEMPLATE,
    A::DECAPSULATE_TEMPLATE,
];

#[test]
fn the_user_cannot_set_trusted_in_a_template_attribute() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let trusted = none().flag(A::TRUSTED, true);
        let refused = Err(Error::AttributeReadOnly);
        let aes = secret(KeyType::AES, &[7; 16]);
        let sized = none().number(A::VALUE_LEN, 16);
        let base = secret(KeyType::GENERIC_SECRET, &[1; 32]).flag(A::EXTRACTABLE, true).flag(A::DERIVE, true);
        let base = client.create(session, &base).expect("a key");
        let by = client.create(session, &aes).expect("a key");
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let mut wrapped = vec![0; 64];
        let len = module.wrap_key(session, &kwp, by, base, Output::Buffer(&mut wrapped)).expect("a key");
        let (public, private) = pair(&client, session, Kind::MlKem512, &none());
        let mut sealed = vec![0; 768];
        let received = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET);
        for id in &TEMPLATES[..3] {
            let id = *id;
            assert_eq!(module.create_object(session, &within(&aes, id, &trusted)), refused, "{id}");
            let mechanism = plain(M::AES_KEY_GEN);
            assert_eq!(
                module.generate_key(session, &mechanism, &within(&sized, id, &trusted)),
                refused,
                "{id}"
            );
            let template = within(&received, id, &trusted);
            let unwrapped = module.unwrap_key(session, &kwp, by, &wrapped[..len], &template);
            assert_eq!(unwrapped, refused, "C_UnwrapKey {id}");
            let mechanism = plain(M::SHA256_KEY_DERIVATION);
            assert_eq!(module.derive_key(session, &mechanism, base, &template), refused, "C_DeriveKey {id}");
            let kem = plain(M::ML_KEM);
            let out = Output::Buffer(&mut sealed);
            let made = module.encapsulate_key(session, &kem, public, &template, out).map(drop);
            assert_eq!(made, refused.map(drop), "C_EncapsulateKey {id}");
            let made = module.decapsulate_key(session, &kem, private, &template, &sealed);
            assert_eq!(made, refused, "C_DecapsulateKey {id}");
        }
        // A template in a template.
        let nothing = none();
        let inner = within(&nothing, A::UNWRAP_TEMPLATE, &trusted).0;
        let mut outer = aes.template();
        outer.0.push(Given { id: A::DERIVE_TEMPLATE, value: Raw::Template(Template(inner)) });
        assert_eq!(module.create_object(session, &outer), refused);
        let (ml_kem, request) = (plain(M::ML_KEM_KEY_PAIR_GEN), Kind::MlKem512.request());
        let public = within(&request, A::ENCAPSULATE_TEMPLATE, &trusted);
        let made = module.generate_key_pair(session, &ml_kem, &public, &none().template());
        assert_eq!(made.map(drop), refused.map(drop));
        for id in [A::UNWRAP_TEMPLATE, A::DERIVE_TEMPLATE, A::DECAPSULATE_TEMPLATE] {
            let private = within(&nothing, id, &trusted).0;
            let made = module.generate_key_pair(session, &ml_kem, &request.template(), &Template(private));
            assert_eq!(made.map(drop), refused.map(drop), "{id}");
        }
        // The template may set CKA_TRUSTED to false.
        let not = none().flag(A::TRUSTED, false);
        assert!(module.create_object(session, &within(&aes, A::UNWRAP_TEMPLATE, &not)).is_ok());
    });
}

/// The SO may set `CKA_TRUSTED` in a template attribute. The file of an older version may contain
/// such a template that the user set.
#[test]
fn a_template_attribute_cannot_make_an_object_of_the_user_trusted() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let trusted = none().flag(A::TRUSTED, true);
        let open = none().stored().flag(A::PRIVATE, false);
        let aes = secret(KeyType::AES, &[7; 16]).and(&open);
        let generic = secret(KeyType::GENERIC_SECRET, &[1; 32]).and(&open).flag(A::DERIVE, true);
        let (public, _) = pair(&client, session, Kind::MlKem512, &none());
        let value = client.read(session, public, A::VALUE).expect("a key");
        let ml_kem = key_object(ObjectClass::PUBLIC_KEY, KeyType::ML_KEM)
            .number(A::PARAMETER_SET, jeton::id::value::ML_KEM_512)
            .bytes(A::VALUE, &value)
            .and(&open);
        as_the_so(&client, session, || {
            for (label, own, id) in [
                ("wraps", &aes, A::UNWRAP_TEMPLATE),
                ("derives", &generic, A::DERIVE_TEMPLATE),
                ("encapsulates", &ml_kem, A::ENCAPSULATE_TEMPLATE),
            ] {
                let own = own.clone().label(label);
                module.create_object(session, &within(&own, id, &trusted)).expect("a key");
            }
        });
        let named = |label: &str| client.find_one(session, &none().label(label));
        let key = secret(KeyType::AES, &[8; 16]).flag(A::EXTRACTABLE, true);
        let key = client.create(session, &key).expect("a key");
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let mut wrapped = vec![0; 64];
        let out = Output::Buffer(&mut wrapped);
        let len = module.wrap_key(session, &kwp, named("wraps"), key, out).expect("a wrapped key");
        let received = key_object(ObjectClass::SECRET_KEY, KeyType::AES).number(A::VALUE_LEN, 16);
        for template in [received.clone(), received.clone().and(&trusted)] {
            let refused: Result<ObjectHandle> = Err(Error::AttributeReadOnly);
            let template = template.without(A::VALUE_LEN);
            let unwrapped =
                module.unwrap_key(session, &kwp, named("wraps"), &wrapped[..len], &template.template());
            assert_eq!(unwrapped, refused);
        }
        let mechanism = plain(M::SHA256_KEY_DERIVATION);
        let derived = module.derive_key(session, &mechanism, named("derives"), &received.template());
        assert_eq!(derived, Err(Error::AttributeReadOnly));
        let out = Output::Buffer(&mut [0; 768]);
        let kem = plain(M::ML_KEM);
        let made = module.encapsulate_key(session, &kem, named("encapsulates"), &received.template(), out);
        assert_eq!(made.map(drop), Err(Error::AttributeReadOnly));
    });
}

#[test]
fn only_the_so_changes_a_trusted_key() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let open = none().stored().flag(A::PRIVATE, false);
        let (public, _) = client
            .generate(
                session,
                M::RSA_PKCS_KEY_PAIR_GEN,
                &Kind::Rsa.request().and(&open).label("rsa"),
                &none(),
            )
            .expect("a pair");
        let aes = secret(KeyType::AES, &[7; 16]).and(&open).label("aes").flag(A::DECRYPT, false);
        let aes = client.create(session, &aes).expect("a key");
        let trust = none().flag(A::TRUSTED, true);
        as_the_so(&client, session, || {
            for key in [aes, public] {
                client.set(session, key, &trust).expect("trust");
            }
        });
        for label in ["aes", "rsa"] {
            let key = client.find_one(session, &none().label(label));
            for change in [
                none().flag(A::DECRYPT, true).flag(A::SIGN, true),
                none().flag(A::WRAP, true),
                none().label("mine"),
                none().flag(A::TRUSTED, false),
                trust.clone(),
            ] {
                assert_eq!(client.set(session, key, &change), Err(Error::ActionProhibited), "{label}");
            }
            // A copy by the user is not trusted.
            let copy = client.copy(session, key, &none().label("copy")).expect("a copy");
            assert!(!client.flag(session, copy, A::TRUSTED), "{label}");
            assert_eq!(client.copy(session, key, &trust), Err(Error::AttributeReadOnly), "{label}");
            client.module.destroy_object(session, copy).expect("a copy");
        }
        as_the_so(&client, session, || {
            let key = client.find_one(session, &none().label("aes"));
            let copy = client.copy(session, key, &none()).expect("a copy");
            assert!(!client.flag(session, copy, A::TRUSTED));
            client.module.destroy_object(session, copy).expect("a copy");
            client.set(session, key, &none().flag(A::TRUSTED, false)).expect("a change");
        });
        let key = client.find_one(session, &none().label("aes"));
        assert_eq!(client.set(session, key, &none().label("mine")), Ok(()));
    });
}

/// Clulow's attack on `CKA_WRAP_WITH_TRUSTED`: the wrapping key decrypts what it wrapped.
#[test]
fn the_user_cannot_read_a_key_with_wrap_with_trusted() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let open = none().stored().flag(A::PRIVATE, false);
        let by = secret(KeyType::AES, &[7; 16]).and(&open).flag(A::DECRYPT, false).label("by");
        let by = client.create(session, &by).expect("a key");
        as_the_so(&client, session, || {
            client.set(session, by, &none().flag(A::TRUSTED, true)).expect("trust")
        });
        let by = client.find_one(session, &none().label("by"));
        let key = secret(KeyType::AES, &[8; 16]).flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, true);
        let key = client.create(session, &key.flag(A::WRAP_WITH_TRUSTED, true)).expect("a key");
        let ecb = plain(M::AES_ECB);
        let mut wrapped = [0; 16];
        module.wrap_key(session, &ecb, by, key, Output::Buffer(&mut wrapped)).expect("a wrapped key");
        assert_eq!(client.set(session, by, &none().flag(A::DECRYPT, true)), Err(Error::ActionProhibited));
        assert_eq!(module.decrypt_init(session, &ecb, by), Err(Error::KeyFunctionNotPermitted));
        let copy = client.copy(session, by, &none().flag(A::DECRYPT, true));
        assert_eq!(copy, Err(Error::TemplateInconsistent));
        // A copy is not trusted, so it does not wrap a key with CKA_WRAP_WITH_TRUSTED.
        let copy = client.copy(session, by, &none()).expect("a copy");
        let refused = module.wrap_key(session, &ecb, copy, key, Output::Buffer(&mut [0; 16]));
        assert_eq!(refused, Err(Error::KeyNotWrappable));
    });
}

/// The SO requests a trusted key and logs out. `C_AsyncComplete` refuses to create it for the user,
/// who is logged in by then.
#[test]
fn the_user_cannot_complete_an_asynchronous_request_of_the_so() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let module = &client.module;
        let session = module.open_async_session(client.slot, Access::ReadWrite).expect("a session");
        module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
        let template = none().number(A::VALUE_LEN, 16).flag(A::PRIVATE, false).flag(A::TRUSTED, true);
        let pending = module.generate_key(session, &plain(M::AES_KEY_GEN), &template.template());
        assert_eq!(pending, Err(Error::Pending));
        module.logout(session).expect("the SO");
        client.login(session);
        let made = loop {
            match module.async_complete(session, jeton::module::AsyncFunction::GenerateKey) {
                Err(Error::Pending) => std::thread::yield_now(),
                made => break made.map(drop),
            }
        };
        assert_eq!(made, Err(Error::AttributeReadOnly));
        assert!(client.find(session, &none().flag(A::TRUSTED, true)).is_empty());
    });
}
