//! Under *strict* a key gets its role when it is made, and every key with the same value has the
//! same role. `src/mechanism/rule.rs` has the rule (`Source`), and `src/object/strict.rs` applies
//! it.

use crate::prelude::*;

fn strict() -> (Client, SessionHandle) {
    let client = Client::with(DEFAULT, ", policy = { name = 'strict' }");
    let session = client.user();
    (client, session)
}

fn typed(key_type: KeyType) -> Attributes {
    key_object(ObjectClass::SECRET_KEY, key_type)
}

fn usages(all: &[A]) -> Attributes {
    all.iter().fold(none(), |made, id| made.flag(*id, true))
}

/// A key of the owner that cannot be read.
fn kept(
    client: &Client,
    session: SessionHandle,
    key: &Attributes,
    templates: &[(A, &Attributes)],
) -> ObjectHandle {
    let key = key.clone().bytes(A::VALUE, &[7; 32]).flag(A::SENSITIVE, true);
    let mut template = key.template();
    for (id, inner) in templates {
        template.0.push(Given { id: *id, value: Raw::Template(inner.template()) });
    }
    client.create_object(session, &template).expect("a key")
}

/// A trusted key that wraps and unwraps, with this `CKA_UNWRAP_TEMPLATE`.
fn backup_key(client: &Client, session: SessionHandle, forced: Option<&Attributes>) -> ObjectHandle {
    let key = typed(KeyType::AES).and(&usages(&[A::WRAP, A::UNWRAP])).stored();
    let key = key.flag(A::PRIVATE, false).flag(A::EXTRACTABLE, false);
    let templates: Vec<_> = forced.iter().map(|forced| (A::UNWRAP_TEMPLATE, *forced)).collect();
    let key = kept(client, session, &key, &templates);
    client.trust(session, key);
    key
}

/// The attack of Delaune, Kremer and Steel (2008): the wrapped key comes back in another role.
#[test]
fn an_unwrapped_key_has_the_role_of_the_unwrap_template_or_none() {
    let (client, session) = strict();
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let roles: [&[A]; 4] = [&[A::ENCRYPT, A::DECRYPT], &[A::WRAP, A::UNWRAP], &[A::SIGN], &[A::DERIVE]];
    let unwrap = |by, bytes: &[u8], template: Attributes| client.unwrap(session, &kwp, by, bytes, &template);
    let signs = usages(&[A::SIGN]);
    let (open, signing) = (backup_key(&client, session, None), backup_key(&client, session, Some(&signs)));
    for role in roles {
        let key = typed(KeyType::GENERIC_SECRET).and(&usages(role)).flag(A::EXTRACTABLE, true);
        let key = kept(&client, session, &key, &[]);
        let bytes = client.wrap(session, &kwp, open, key).expect("a wrapped key");
        for other in roles {
            let made = unwrap(open, &bytes, typed(KeyType::GENERIC_SECRET).and(&usages(other)));
            assert_eq!(made, Err(Error::TemplateInconsistent), "{role:?} {other:?}");
        }
        let made = unwrap(open, &bytes, typed(KeyType::GENERIC_SECRET)).expect("a key");
        // Nor does the key get the role of a second wrapping key.
        assert_eq!(client.wrap(session, &kwp, signing, made), Err(Error::KeyNotWrappable));
        let wrapped = client.wrap(session, &kwp, signing, key);
        assert_eq!(wrapped.is_ok(), role == [A::SIGN], "{role:?}");
        if let Ok(bytes) = wrapped {
            let made = unwrap(signing, &bytes, typed(KeyType::GENERIC_SECRET)).expect("a key");
            assert!(client.flag(session, made, A::SIGN));
        }
    }
    // The templates of a key are a part of its role.
    let key = typed(KeyType::GENERIC_SECRET).and(&signs).flag(A::EXTRACTABLE, true);
    let key = kept(&client, session, &key, &[(A::DERIVE_TEMPLATE, &signs)]);
    assert_eq!(client.wrap(session, &kwp, signing, key), Err(Error::KeyNotWrappable));
    let bytes = client.wrap(session, &kwp, open, key).expect("a wrapped key");
    let template = typed(KeyType::GENERIC_SECRET);
    let template = template.within(A::DERIVE_TEMPLATE, &signs);
    let made = client.unwrap_key(session, &kwp, open, &bytes, &template);
    assert_eq!(made, Err(Error::TemplateInconsistent));
}

fn hkdf(salt: HkdfSalt) -> Mechanism {
    let info = Box::default();
    let params = Params::Hkdf { extract: true, expand: true, hash: Hash::Sha256, salt, info };
    Mechanism { params, ..plain(M::HKDF_DERIVE) }
}

/// One value is derived twice. No result of one object shows a result of the other.
#[test]
fn a_derived_key_enciphers_or_derives_unless_a_template_names_its_role() {
    let (client, session) = strict();
    let derive = |mechanism: &Mechanism, base, key_type, role: &[A]| -> Result<ObjectHandle> {
        let template = typed(key_type).number(A::VALUE_LEN, 32).and(&usages(role));
        client.derive_key(session, mechanism, base, &template.template())
    };
    let key = typed(KeyType::GENERIC_SECRET).and(&usages(&[A::DERIVE]));
    let (free, signs) = (kept(&client, session, &key, &[]), usages(&[A::SIGN]));
    let plain_hkdf = hkdf(HkdfSalt::Null);
    for (key_type, role, allowed) in [
        (KeyType::AES, &[A::ENCRYPT, A::DECRYPT][..], true),
        (KeyType::GENERIC_SECRET, &[A::DERIVE], true),
        (KeyType::AES, &[A::DERIVE], false),
        (KeyType::GENERIC_SECRET, &[A::SIGN], false),
        (KeyType::AES, &[A::SIGN], false),
        (KeyType::AES, &[A::WRAP], false),
        (KeyType::AES, &[A::UNWRAP], false),
        (KeyType::GENERIC_SECRET, &[], true),
    ] {
        let made = derive(&plain_hkdf, free, key_type, role);
        assert_eq!(made.is_ok(), allowed, "{key_type:?} {role:?} {made:?}");
    }
    let signing = kept(&client, session, &key, &[(A::DERIVE_TEMPLATE, &signs)]);
    derive(&plain_hkdf, signing, KeyType::GENERIC_SECRET, &[A::SIGN]).expect("a key that signs");
    for role in [A::DERIVE, A::ENCRYPT] {
        let made = derive(&plain_hkdf, signing, KeyType::GENERIC_SECRET, &[role]);
        assert_eq!(made, Err(Error::TemplateInconsistent), "{role}");
    }
    // The template of the caller's own salt gives no role to the owner's key.
    let (salt, info) = (HkdfSalt::Key(signing), Box::default());
    let params = Params::Hkdf { extract: true, expand: false, hash: Hash::Sha256, salt, info };
    let salted = Mechanism { params, ..plain(M::HKDF_DERIVE) };
    let made = derive(&salted, free, KeyType::GENERIC_SECRET, &[A::SIGN]);
    assert_eq!(made, Err(Error::TemplateInconsistent));
    let template = typed(KeyType::GENERIC_SECRET).number(A::VALUE_LEN, 32);
    let template = template.within(A::DERIVE_TEMPLATE, &signs);
    let made = client.derive_key(session, &plain_hkdf, free, &template);
    assert_eq!(made, Err(Error::TemplateInconsistent));
    // A block cipher derives only from keys that encipher.
    let params = Params::Ike2PrfPlus { prf: MacFunction::AesCmac, seed_key: None, seed: Box::from([1]) };
    let by_cipher = Mechanism { params, ..plain(M::IKE2_PRF_PLUS_DERIVE) };
    assert_eq!(derive(&by_cipher, free, KeyType::AES, &[A::ENCRYPT]), Err(Error::MechanismParamInvalid));
}

/// Both parties of an agreement get the same value, also if both keys are in the token.
#[test]
fn an_agreed_key_enciphers_or_derives() {
    let (client, session) = strict();
    let (params, signs) = (none().bytes(A::EC_PARAMS, P256), usages(&[A::SIGN]));
    let private = usages(&[A::DERIVE]);
    let private = private.within(A::DERIVE_TEMPLATE, &signs);
    let kind = plain(M::EC_KEY_PAIR_GEN);
    let (public, private) =
        client.generate_key_pair(session, &kind, &params.template(), &private).expect("a pair");
    let point = client.read(session, public, A::EC_POINT).expect("a point");
    let peer = point[2..].into();
    let mechanism = Params::Ecdh { kdf: None, shared: Box::default(), peer };
    let mechanism = Mechanism { params: mechanism, ..plain(M::ECDH1_DERIVE) };
    let made = client.derive_key(session, &mechanism, private, &none().template());
    assert_eq!(made, Err(Error::TemplateInconsistent));
    let (_, private) =
        client.generate(session, M::EC_KEY_PAIR_GEN, &params, &usages(&[A::DERIVE])).expect("a pair");
    for (role, allowed) in [(A::DERIVE, true), (A::SIGN, false), (A::UNWRAP, false)] {
        let template = typed(KeyType::GENERIC_SECRET).flag(role, true);
        let made = client.derive_key(session, &mechanism, private, &template.template());
        assert_eq!(made.is_ok(), allowed, "{role} {made:?}");
    }
}

#[test]
fn the_keys_of_a_pair_have_one_role_and_one_payload() {
    let (client, session) = strict();
    let signs = usages(&[A::SIGN]);
    let make = |public: &Attributes, private: &Attributes, wraps: Option<&Attributes>, unwraps: bool| {
        let public = public.clone().number(A::MODULUS_BITS, 2048);
        let public = match wraps {
            Some(wraps) => public.within(A::WRAP_TEMPLATE, wraps),
            None => public.template(),
        };
        let private = match unwraps {
            true => private.within(A::UNWRAP_TEMPLATE, &signs),
            false => private.template(),
        };
        let kind = plain(M::RSA_PKCS_KEY_PAIR_GEN);
        client.generate_key_pair(session, &kind, &public, &private).map(drop)
    };
    let (wrap, unwrap) = (usages(&[A::WRAP]), usages(&[A::UNWRAP]));
    let refused = Err(Error::TemplateInconsistent);
    for (public, private) in [(A::WRAP, A::DECAPSULATE), (A::WRAP, A::DECRYPT), (A::ENCRYPT, A::SIGN)] {
        let made = make(&usages(&[public]), &usages(&[private]), None, false);
        assert_eq!(made, refused, "{public} {private}");
    }
    assert_eq!(make(&wrap, &unwrap, None, false), Ok(()));
    assert_eq!(make(&wrap, &unwrap, None, true), refused);
    assert_eq!(make(&wrap, &unwrap, Some(&usages(&[A::DERIVE])), true), refused);
    assert_eq!(make(&wrap, &unwrap, Some(&signs), true), Ok(()));
}

/// A value that is unwrapped as a key of HMAC would be copied into a cipher, whose ciphertext is
/// the value of a key that the first key derives.
#[test]
fn the_value_of_a_key_that_derives_never_enciphers() {
    let (client, session) = strict();
    let derives = usages(&[A::DERIVE]);
    let backup = backup_key(&client, session, Some(&derives));
    let base = typed(KeyType::AES).and(&derives).flag(A::EXTRACTABLE, true);
    let base = kept(&client, session, &base, &[]);
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let bytes = client.wrap(session, &kwp, backup, base).expect("a wrapped key");
    let generic = typed(KeyType::GENERIC_SECRET);
    let unwrapped = client.unwrap(session, &kwp, backup, &bytes, &generic);
    let prf = MacFunction::Hmac(Hash::Sha256);
    let params = Params::Ike1Extended { prf, shared: None, extra: Box::default() };
    let cut = Mechanism { params, ..plain(M::IKE1_EXTENDED_DERIVE) };
    for len in [16, 24, 32] {
        let aes = typed(KeyType::AES).number(A::VALUE_LEN, len).and(&usages(&[A::ENCRYPT]));
        let made = client.derive_key(session, &cut, unwrapped.expect("a key"), &aes.template());
        assert_eq!(made, Err(Error::KeyFunctionNotPermitted), "{len}");
    }
}

/// The first bytes of PKCS #8 are known, so a cipher that gets them and a few more shows the rest.
#[test]
fn a_private_key_is_not_unwrapped_as_a_secret_key() {
    let (client, session) = strict();
    let signs = usages(&[A::SIGN]);
    let backup = backup_key(&client, session, Some(&signs));
    let private = signs.clone().flag(A::EXTRACTABLE, true);
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    // DER writes their lengths in one, two and three bytes.
    for (mechanism, key_type, public) in [
        (M::EC_EDWARDS_KEY_PAIR_GEN, KeyType::EC_EDWARDS, none().bytes(A::EC_PARAMS, ED25519)),
        (M::EC_KEY_PAIR_GEN, KeyType::EC, none().bytes(A::EC_PARAMS, P256)),
        (M::RSA_PKCS_KEY_PAIR_GEN, KeyType::RSA, none().number(A::MODULUS_BITS, 2048)),
    ] {
        let made = client.generate(session, mechanism, &public, &private);
        let bytes = client.wrap(session, &kwp, backup, made.expect("a pair").1).expect("a wrapped key");
        let unwrap = |key: Attributes| client.unwrap(session, &kwp, backup, &bytes, &key);
        assert_eq!(unwrap(typed(KeyType::GENERIC_SECRET)), Err(Error::WrappedKeyInvalid));
        unwrap(key_object(ObjectClass::PRIVATE_KEY, key_type)).expect("a private key");
    }
}
