//! The effects of attributes: defaults, trust, allowed mechanisms, template attributes, dates, the
//! PIN.

use crate::prelude::*;
use crate::samples::wrapping_key;

pub fn certificate() -> Attributes {
    Attributes::of(ObjectClass::CERTIFICATE)
        .number(A::CERTIFICATE_TYPE, value::CERTIFICATE_X_509)
        .bytes(A::SUBJECT, b"a subject")
        .bytes(A::VALUE, b"der")
}

fn wrap(client: &Client, session: SessionHandle, by: ObjectHandle, key: ObjectHandle) -> Result<Vec<u8>> {
    client.wrap(session, &plain(M::AES_KEY_WRAP_KWP), by, key)
}

/// The conformance cases "… whose value is read later" and "… reading the result" have the other
/// functions.
#[test]
fn default_protection_of_keys_follows_the_standard() {
    let (client, session) = one_user();
    let check = |key, sensitive, extractable, what: &str| {
        let flags = [A::PRIVATE, A::SENSITIVE, A::EXTRACTABLE].map(|id| client.flag(session, key, id));
        assert_eq!(flags, [true, sensitive, extractable], "{what}");
    };
    check(pair(&client, session, Kind::P256, &none()).1, true, false, "a private key");
    let by = wrapping_key(&client, session);
    let open = client.create(session, &secret(KeyType::AES, &[7; 16]).flag(A::EXTRACTABLE, true));
    let wrapped = wrap(&client, session, by, open.expect("a key")).expect("a wrapped key");
    let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES);
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let unwrapped = client.unwrap(session, &kwp, by, &wrapped, &template);
    check(unwrapped.expect("a key"), false, true, "C_UnwrapKey");

    let (public, private) = pair(&client, session, Kind::MlKem768, &none());
    let (sealed, sent) = client.encapsulate(session, public, &none().template()).expect("a key");
    check(sent, false, true, "C_EncapsulateKey");
    let kem = plain(M::ML_KEM);
    let received = client.decapsulate_key(session, &kem, private, &none().template(), &sealed);
    check(received.expect("a key"), false, true, "C_DecapsulateKey");

    let trust = Attributes::of(ObjectClass::TRUST).bytes(A::ISSUER, b"i").bytes(A::SERIAL_NUMBER, b"s");
    for open in [trust, certificate(), RSA.public.clone()] {
        let object = client.create(session, &open).expect("an object");
        assert!(!client.flag(session, object, A::PRIVATE));
    }
}

#[test]
fn the_template_attributes_of_a_key_apply_to_its_results() {
    let (client, session) = one_user();
    let forced = none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false).label("forced");
    let bound = |key| {
        assert!(client.flag(session, key, A::SENSITIVE) && !client.flag(session, key, A::EXTRACTABLE));
        assert_eq!(client.read(session, key, A::LABEL), Ok(b"forced".to_vec()));
    };
    let same = none().label("forced");
    let otherwise = none().label("mine");

    let base = secret(KeyType::GENERIC_SECRET, &[1; 32]).flag(A::DERIVE, true);
    let base = client.create_with(session, &base, A::DERIVE_TEMPLATE, &forced).expect("a key");
    let mechanism = plain(M::SHA256_KEY_DERIVATION);
    let derive = |template: &Attributes| client.derive_key(session, &mechanism, base, &template.template());
    bound(derive(&none()).expect("a key"));
    bound(derive(&same).expect("a key"));
    assert_eq!(derive(&otherwise), Err(Error::TemplateInconsistent));

    let kem = plain(M::ML_KEM);
    let request = Kind::MlKem512.request();
    let (plain_public, plain_private) =
        client.generate(session, M::ML_KEM_KEY_PAIR_GEN, &request, &shown()).expect("a pair");
    let part = |object, id| client.read(session, object, id).expect("a part");
    let own = |class, object| {
        key_object(class, KeyType::ML_KEM)
            .number(A::PARAMETER_SET, value::ML_KEM_512)
            .bytes(A::VALUE, &part(object, A::VALUE))
    };
    let public = own(ObjectClass::PUBLIC_KEY, plain_public);
    let public = client.create_with(session, &public, A::ENCAPSULATE_TEMPLATE, &forced).expect("a key");
    let private = own(ObjectClass::PRIVATE_KEY, plain_private);
    let private = client.create_with(session, &private, A::DECAPSULATE_TEMPLATE, &forced).expect("a key");
    let encapsulate =
        |template: &Attributes| client.encapsulate(session, public, &template.template()).map(|(_, key)| key);
    bound(encapsulate(&none()).expect("a key"));
    bound(encapsulate(&same).expect("a key"));
    // PKCS#11 3.2: if the caller's template contradicts the template attribute of the key,
    // C_EncapsulateKey returns CKR_KEY_HANDLE_INVALID. C_DeriveKey and C_DecapsulateKey return
    // CKR_TEMPLATE_INCONSISTENT.
    assert_eq!(encapsulate(&otherwise), Err(Error::KeyHandleInvalid));
    let (sealed, _) = client.encapsulate(session, public, &none().template()).expect("a key");
    let decapsulate =
        |template: &Attributes| client.decapsulate_key(session, &kem, private, &template.template(), &sealed);
    bound(decapsulate(&none()).expect("a key"));
    bound(decapsulate(&same).expect("a key"));
    assert_eq!(decapsulate(&otherwise), Err(Error::TemplateInconsistent));
}

#[test]
fn a_template_attribute_may_set_the_key_type_but_no_read_only_attribute() {
    let (client, session) = one_user();
    let open = client.create(session, &secret(KeyType::AES, &[8; 16]).flag(A::EXTRACTABLE, true));
    let open = open.expect("a key");
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let unwrap = |forced: &Attributes| {
        let own = secret(KeyType::AES, &[7; 16]);
        let by = client.create_with(session, &own, A::UNWRAP_TEMPLATE, forced).expect("a key");
        let wrapped = wrap(&client, session, by, open).expect("a wrapped key");
        client.unwrap(session, &kwp, by, &wrapped, &none())
    };
    assert_eq!(unwrap(&none()), Err(Error::TemplateIncomplete));
    let aes = none().number(A::KEY_TYPE, KeyType::AES.0);
    let key = unwrap(&aes).expect("a key");
    assert_eq!(client.number(session, key, A::KEY_TYPE), KeyType::AES.0);
    for wrong in
        [none().flag(A::LOCAL, true), none().flag(A::SIGN_RECOVER, true), none().bytes(A::VALUE, b"v")]
    {
        assert_eq!(unwrap(&aes.clone().and(&wrong)), Err(Error::TemplateInconsistent));
    }
}

#[test]
fn a_template_attribute_is_read_back_unchanged() {
    let (client, session) = one_user();
    let within = none().label("inside").flag(A::SIGN, true);
    let own = secret(KeyType::AES, &[7; 16]);
    for id in [A::WRAP_TEMPLATE, A::UNWRAP_TEMPLATE, A::DERIVE_TEMPLATE] {
        let key = client.create_with(session, &own, id, &within).expect("a key");
        let object = client.object(session, key).expect("a key");
        let Ok(jeton::object::AttributeView::Template(view)) = object.attribute(id) else {
            panic!("a template")
        };
        let ids: Vec<_> = view.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [A::LABEL, A::SIGN], "{id}");
        // A search finds the key by the whole template.
        client.find_init(session, &none().within(id, &within)).expect("a search");
        let mut found = [ObjectHandle(0); 2];
        assert_eq!((client.module.find(session, &mut found), found[0]), (Ok(1), key));
        client.find_final(session).expect("a search");
        let refused = client.create_with(session, &own, id, &none().bytes(A(0x8000_0001), b"x"));
        assert_eq!(refused, Err(Error::AttributeTypeInvalid), "{id}");
    }
}

#[test]
fn dates_must_be_valid_and_in_order() {
    let (client, session) = one_user();
    let aes = secret(KeyType::AES, &[7; 16]);
    let dates = |start: &[u8], end: &[u8]| none().bytes(A::START_DATE, start).bytes(A::END_DATE, end);
    let create = |start: &[u8], end: &[u8]| client.create(session, &aes.clone().and(&dates(start, end)));
    for (start, end) in
        [(&b""[..], &b""[..]), (b"20240229", b""), (b"", b"20261231"), (b"20260101", b"20260101")]
    {
        assert!(create(start, end).is_ok());
    }
    assert_eq!(create(b"20260102", b"20260101"), Err(Error::TemplateInconsistent));
    for wrong in [&b"20260229"[..], b"20261301", b"20260100", b"00000000", b"2026", b"2026010x"] {
        assert_eq!(create(wrong, b""), Err(Error::AttributeValueInvalid));
    }
    let key = create(b"20260101", b"20260601").expect("a key");
    let refused = client.set(session, key, &none().bytes(A::END_DATE, b"20251231"));
    assert_eq!(refused, Err(Error::TemplateInconsistent));
    assert_eq!(client.set(session, key, &dates(b"", b"20251231")), Ok(()));
}

#[test]
fn destroyable_cannot_change_from_false_to_true() {
    let (client, session) = one_user();
    let lasting = secret(KeyType::AES, &[7; 16]).flag(A::DESTROYABLE, false);
    let lasting = client.create(session, &lasting).expect("a key");
    let may = none().flag(A::DESTROYABLE, true);
    assert_eq!(client.set(session, lasting, &may), Err(Error::AttributeReadOnly));
    assert_eq!(client.destroy_object(session, lasting), Err(Error::ActionProhibited));
    // PKCS#11 3.2, "Copying objects": the copy may be destroyable.
    let copy = client.copy(session, lasting, &may).expect("a copy");
    assert_eq!(client.destroy_object(session, copy), Ok(()));
}

#[test]
fn a_template_cannot_set_the_unique_id() {
    let (client, session) = one_user();
    let key = client.create(session, &secret(KeyType::AES, &[7; 16])).expect("a key");
    let own = client.read(session, key, A::UNIQUE_ID).expect("an identifier");
    for id in [&own[..], b"", b"another"] {
        let given = none().bytes(A::UNIQUE_ID, id);
        let refused = Err(Error::AttributeReadOnly);
        assert_eq!(client.set(session, key, &given), Err(Error::AttributeReadOnly));
        assert_eq!(client.copy(session, key, &given), refused);
        assert_eq!(client.create(session, &secret(KeyType::AES, &[7; 16]).and(&given)), refused);
    }
}

#[test]
fn a_trust_object_must_name_its_certificate() {
    let (client, session) = one_user();
    let bare = Attributes::of(ObjectClass::TRUST).bytes(A::ISSUER, b"i").bytes(A::SERIAL_NUMBER, b"s");
    let server = |trust| none().number(A::TRUST_SERVER_AUTH, trust);
    let distrusts = client.create(session, &bare.clone().and(&server(value::NOT_TRUSTED)).stored());
    let distrusts = distrusts.expect("a trust object");
    assert_eq!(client.number(session, distrusts, A::TRUST_CODE_SIGNING), value::TRUST_UNKNOWN);
    assert_eq!(client.number(session, distrusts, A::NAME_HASH_ALGORITHM), M::SHA_1.0);
    let trusts = bare.and(&server(value::TRUST_ANCHOR));
    assert_eq!(client.create(session, &trusts), Err(Error::TemplateIncomplete));
    let refused = client.set(session, distrusts, &server(value::TRUST_ANCHOR));
    assert_eq!(refused, Err(Error::TemplateInconsistent));
    let named = none().bytes(A::HASH_OF_CERTIFICATE, &[1; 32]).number(A::NAME_HASH_ALGORITHM, M::SHA256.0);
    let trusts = client.create(session, &trusts.and(&named)).expect("a trust object");
    let wanted = Attributes::of(ObjectClass::TRUST).bytes(A::ISSUER, b"i").and(&server(value::TRUST_ANCHOR));
    assert_eq!(client.find(session, &wanted), [trusts]);
}
