//! Derived keys: templates that do not fit, inherited attributes, and the derivations that the
//! conformance suite does not have. The known answers of the others are in
//! `conformance/src/mechanisms`.

use jeton::mechanism::sp800_108::{Field, Number};

use crate::prelude::*;

/// Derivations by hashing with BLAKE2b, each with its hash.
pub const BLAKE2B: [(M, M); 4] = [
    (M::BLAKE2B_160_KEY_DERIVE, M::BLAKE2B_160),
    (M::BLAKE2B_256_KEY_DERIVE, M::BLAKE2B_256),
    (M::BLAKE2B_384_KEY_DERIVE, M::BLAKE2B_384),
    (M::BLAKE2B_512_KEY_DERIVE, M::BLAKE2B_512),
];

/// The derivations with SHAKE. The values are those of Python's
/// `hashlib.shake_128(bytes.fromhex("01234567")).hexdigest(32)`, and of `shake_256` with 64.
pub const SHAKES: [(M, &str); 2] = [
    (M::SHAKE_128_KEY_DERIVATION, "03870ca780ed319533f4c12257f6a475af86dd8195f9ebeb1b4e516afce5d318"),
    (
        M::SHAKE_256_KEY_DERIVATION,
        "a6255547b7e7f10f5ce3dc3188b295aab4abfc95510f798dbd565d38cb9758195b83fe1cfe1850f512fc1f7623de3e139b580f\
         da1b46acd8ef1ca7b56014bae1",
    ),
];

pub fn base(client: &Client, session: SessionHandle, key_type: KeyType, value: &[u8]) -> ObjectHandle {
    let template = secret(key_type, value).flag(A::DERIVE, true);
    client.create(session, &template.and(&shown())).expect("a key")
}

pub fn derive(
    client: &Client,
    session: SessionHandle,
    (id, params): (M, Params),
    base: ObjectHandle,
    template: &Attributes,
) -> Result<ObjectHandle, Error> {
    client.derive_key(session, &Mechanism { params, ..plain(id) }, base, &template.template())
}

/// Derives a readable key and returns its value.
pub fn value(
    client: &Client,
    session: SessionHandle,
    mechanism: (M, Params),
    base: ObjectHandle,
    template: &Attributes,
) -> Result<Vec<u8>, Error> {
    let key = derive(client, session, mechanism, base, &template.clone().and(&shown()))?;
    client.read(session, key, A::VALUE)
}

#[test]
fn blake2b_and_shake_derivations_match_known_values() {
    each_user(|client, session| {
        let own = [0x01, 0x23, 0x45, 0x67];
        let key = base(client, session, KeyType::GENERIC_SECRET, &own);
        let digest = |id| {
            let mut known = [0; 64];
            client.digest_init(session, &plain(id)).expect("an operation");
            let len = client.digest(session, &own, Output::Buffer(&mut known)).expect("a digest");
            known[..len].to_vec()
        };
        let hashed = BLAKE2B.map(|(id, hash)| (id, digest(hash)));
        for (id, known) in hashed.into_iter().chain(SHAKES.map(|(id, known)| (id, hex(known)))) {
            let made = |template| value(client, session, (id, Params::None), key, &template);
            assert_eq!(made(none()).as_ref(), Ok(&known), "{id}");
            assert_eq!(made(none().number(A::VALUE_LEN, 17)), Ok(known[..17].to_vec()), "{id}");
            let longer = none().number(A::VALUE_LEN, known.len() as u64 + 1);
            assert_eq!(made(longer), Err(Error::TemplateInconsistent), "{id}");
        }
    });
}

/// The point of the other side is encoded in DER or is bare, and a shorter key has the last bytes
/// of the secret.
#[test]
fn ecdh_accepts_both_encodings_of_a_point() {
    let (client, session) = one_user();
    for (kind, header) in [(Kind::P256, 2), (Kind::P521, 3), (Kind::X25519, 2)] {
        let (public, private) = pair(&client, session, kind, &none());
        let point = client.read(session, public, A::EC_POINT).expect("a point");
        let agree = |peer: &[u8], template: &Attributes| {
            let params = Params::Ecdh { kdf: None, shared: Box::default(), peer: peer.into() };
            value(&client, session, (M::ECDH1_DERIVE, params), private, template).expect("a secret")
        };
        let whole = agree(&point, &none());
        assert_eq!(agree(&point[header..], &none()), whole, "{kind:?}");
        let aes = none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 16);
        assert_eq!(agree(&point, &aes), whole[whole.len() - 16..], "{kind:?}");
    }
}

fn hkdf(extract: bool, expand: bool) -> Params {
    let (salt, info) = (HkdfSalt::Null, Box::default());
    Params::Hkdf { extract, expand, hash: Hash::Sha256, salt, info }
}

/// PKCS#11 3.2, "HKDF derive": the input may be "a data object which has the same size as the
/// underlying hash function".
#[test]
fn hkdf_extracts_from_a_data_object_as_from_a_key() {
    each_user(|client, session| {
        let object = |bytes: &[u8]| {
            let template = Attributes::of(ObjectClass::DATA).bytes(A::VALUE, bytes);
            client.create(session, &template).expect("an object")
        };
        let (data, key) = (object(&[7; 32]), base(client, session, KeyType::HKDF, &[7; 32]));
        let template = none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0).number(A::VALUE_LEN, 40);
        let made = |params, from| value(client, session, (M::HKDF_DERIVE, params), from, &template);
        let expected = made(hkdf(true, true), key).expect("a key");
        assert_eq!(made(hkdf(true, true), data), Ok(expected));
        // Another length, no extraction, and another derivation.
        for len in [0, 31, 33] {
            assert_eq!(made(hkdf(true, true), object(&vec![7; len])), Err(Error::KeySizeRange));
        }
        assert_eq!(made(hkdf(false, true), data), Err(Error::KeyHandleInvalid));
        let hashed = (M::SHA256_KEY_DERIVATION, Params::None);
        assert_eq!(value(client, session, hashed, data, &template), Err(Error::KeyHandleInvalid));
    });
}

fn counter(fields: Vec<Field>) -> Params {
    let iteration = Field::Iteration(Some(Number { little_endian: false, len: 4 }));
    let fields = [vec![iteration], fields].concat();
    Params::Sp800_108 { prf: MacFunction::Hmac(Hash::Sha256), fields, iv: Box::default() }
}

#[test]
fn ike_gives_at_most_255_blocks() {
    let (client, session) = one_user();
    let key = base(&client, session, KeyType::AES, &[1; 16]);
    let prf = MacFunction::AesCmac;
    for (id, params) in [
        (M::IKE1_EXTENDED_DERIVE, Params::Ike1Extended { prf, shared: None, extra: Box::default() }),
        (M::IKE2_PRF_PLUS_DERIVE, Params::Ike2PrfPlus { prf, seed_key: None, seed: Box::from(*b"seed") }),
    ] {
        let of = |len| {
            let template = none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0).number(A::VALUE_LEN, len);
            derive(&client, session, (id, params.clone()), key, &template).map(drop)
        };
        assert_eq!(of(255 * 16), Ok(()), "{id}");
        assert_eq!(of(255 * 16 + 1), Err(Error::KeySizeRange), "{id}");
    }
}

#[test]
fn a_derivation_needs_the_length_and_type_that_its_mechanism_leaves_open() {
    let (client, session) = one_user();
    let key = base(&client, session, KeyType::GENERIC_SECRET, &[1; 32]);
    let prf = MacFunction::Hmac(Hash::Sha256);
    let (nonces, cookies) = (Box::from([1; 32]), Box::from([2; 16]));
    let ike1 = Params::Ike1Prf { prf, shared: key, previous: None, cookies, number: 0 };
    let extended = Params::Ike1Extended { prf, shared: None, extra: Box::default() };
    let plus = Params::Ike2PrfPlus { prf, seed_key: None, seed: Box::from(*b"seed") };
    for (id, params) in [
        (M::HKDF_DERIVE, hkdf(false, true)),
        (M::SP800_108_COUNTER_KDF, counter(vec![])),
        (M::IKE1_PRF_DERIVE, ike1),
        (M::IKE1_EXTENDED_DERIVE, extended),
        (M::IKE2_PRF_PLUS_DERIVE, plus),
    ] {
        let refused = derive(&client, session, (id, params), key, &none());
        assert_eq!(refused, Err(Error::TemplateIncomplete), "{id}");
    }
    // PKCS#11 3.2, "Miscellaneous simple key derivation mechanisms": a type without a length must
    // have only one.
    let aes = none().number(A::KEY_TYPE, KeyType::AES.0);
    for id in [M::CONCATENATE_BASE_AND_DATA, M::CONCATENATE_DATA_AND_BASE, M::XOR_BASE_AND_DATA] {
        let refused = derive(&client, session, (id, Params::Data([1; 32].into())), key, &aes);
        assert_eq!(refused, Err(Error::TemplateIncomplete), "{id}");
    }
    // The PRF decides the type of a key of CKM_IKE_PRF_DERIVE.
    let ike = Params::IkePrf { prf, data_as_key: false, nonces, new_key: None };
    let made = derive(&client, session, (M::IKE_PRF_DERIVE, ike), key, &none()).expect("a key");
    assert_eq!(client.number(session, made, A::KEY_TYPE), KeyType::SHA256_HMAC.0);
    let data = (M::HKDF_DATA, hkdf(true, true));
    let made = derive(&client, session, data, key, &none().number(A::VALUE_LEN, 42)).expect("data");
    assert_eq!(client.read(session, made, A::VALUE_LEN), Err(Error::AttributeTypeInvalid));
}

#[test]
fn a_derived_key_inherits_the_protection_of_its_base_keys() {
    let (client, session) = one_user();
    let make = |sensitive, extractable| {
        let template = none().number(A::VALUE_LEN, 32).flag(A::SENSITIVE, sensitive);
        let template = template.flag(A::EXTRACTABLE, extractable).flag(A::DERIVE, true);
        let mechanism = plain(M::GENERIC_SECRET_KEY_GEN);
        client.module.generate_key(session, &mechanism, &template.template()).expect("a key")
    };
    let (open, closed) = (make(false, true), make(true, false));
    let history = |key| [A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE].map(|id| client.flag(session, key, id));
    let protection = |key| [A::SENSITIVE, A::EXTRACTABLE].map(|id| client.flag(session, key, id));
    let data = |id| (id, Params::Data([1; 32].into()));
    let whole = none().number(A::VALUE_LEN, 32);
    let half = none().number(A::VALUE_LEN, 16);
    let prf = MacFunction::Hmac(Hash::Sha256);
    let extended = Params::Ike1Extended { prf, shared: None, extra: Box::default() };
    // Only IKEv1 shortens an unreadable key.
    for (mechanism, small) in [
        (data(M::CONCATENATE_BASE_AND_DATA), none()),
        (data(M::CONCATENATE_DATA_AND_BASE), none()),
        (data(M::XOR_BASE_AND_DATA), whole.clone()),
        ((M::EXTRACT_KEY_FROM_KEY, Params::Bit(0)), whole.clone()),
        ((M::CONCATENATE_BASE_AND_KEY, Params::Key(open)), none()),
        ((M::IKE1_EXTENDED_DERIVE, extended), half.clone()),
    ] {
        for more in [none().flag(A::SENSITIVE, false), none().flag(A::EXTRACTABLE, true)] {
            let refused = derive(&client, session, mechanism.clone(), closed, &small.clone().and(&more));
            assert_eq!(refused, Err(Error::TemplateInconsistent), "{}", mechanism.0);
        }
        let key = derive(&client, session, mechanism.clone(), closed, &small).expect("a key");
        assert_eq!(protection(key), [true, false]);
        let both = !matches!(mechanism.1, Params::Key(_));
        assert_eq!(history(key), [both; 2], "{}", mechanism.0);
        assert!(!client.flag(session, key, A::LOCAL));
        let key = derive(&client, session, mechanism, open, &small.and(&shown())).expect("a key");
        assert_eq!((protection(key), history(key)), ([false, true], [false, false]));
    }
    // The protection of the other key is inherited too.
    let join = (M::CONCATENATE_BASE_AND_KEY, Params::Key(closed));
    assert_eq!(derive(&client, session, join, open, &shown()), Err(Error::TemplateInconsistent));
    // SP 800-108: "can both be specified to be either CK_TRUE or CK_FALSE".
    let kdf = (M::SP800_108_COUNTER_KDF, counter(vec![]));
    let key = derive(&client, session, kdf.clone(), closed, &half).expect("a key");
    assert_eq!((protection(key), history(key)), ([true, false], [true, true]));
    let key = derive(&client, session, kdf, closed, &half.clone().and(&shown())).expect("a key");
    assert_eq!((protection(key), history(key)), ([false, true], [false, false]));
    // A digest of a key may be readable. `CKA_ALWAYS_SENSITIVE` and `CKA_NEVER_EXTRACTABLE` are
    // false then.
    let hash = (M::SHA256_KEY_DERIVATION, Params::None);
    for template in [shown(), none()] {
        let key = derive(&client, session, hash.clone(), closed, &template).expect("a key");
        assert_eq!((protection(key), history(key)), ([false, true], [false, false]));
    }
    client.set(session, closed, &none().flag(A::DERIVE, false)).expect("a change");
    assert_eq!(derive(&client, session, hash, closed, &none()), Err(Error::KeyFunctionNotPermitted));
}
