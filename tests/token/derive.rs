//! Derived keys: known answers, both sides of an agreement, and inherited attributes.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::{AgreementKdf, HkdfSalt, Mechanism, Params};

use crate::keys::{Kind, X25519, key_object, pair};
use crate::support::{Attributes, Client, each_backend, hex, none, plain};

/// `CKM_SHA256_KEY_DERIVATION` and its variants, each with its hash.
const HASHED: [(M, M); 15] = [
    (M::SHA1_KEY_DERIVATION, M::SHA_1),
    (M::SHA224_KEY_DERIVATION, M::SHA224),
    (M::SHA256_KEY_DERIVATION, M::SHA256),
    (M::SHA384_KEY_DERIVATION, M::SHA384),
    (M::SHA512_KEY_DERIVATION, M::SHA512),
    (M::SHA512_224_KEY_DERIVATION, M::SHA512_224),
    (M::SHA512_256_KEY_DERIVATION, M::SHA512_256),
    (M::SHA3_224_KEY_DERIVATION, M::SHA3_224),
    (M::SHA3_256_KEY_DERIVATION, M::SHA3_256),
    (M::SHA3_384_KEY_DERIVATION, M::SHA3_384),
    (M::SHA3_512_KEY_DERIVATION, M::SHA3_512),
    (M::BLAKE2B_160_KEY_DERIVE, M::BLAKE2B_160),
    (M::BLAKE2B_256_KEY_DERIVE, M::BLAKE2B_256),
    (M::BLAKE2B_384_KEY_DERIVE, M::BLAKE2B_384),
    (M::BLAKE2B_512_KEY_DERIVE, M::BLAKE2B_512),
];
const OTHERS: [M; 13] = [
    M::ECDH1_DERIVE,
    M::ECDH1_COFACTOR_DERIVE,
    M::HKDF_DERIVE,
    M::HKDF_DATA,
    M::CONCATENATE_BASE_AND_KEY,
    M::CONCATENATE_BASE_AND_DATA,
    M::CONCATENATE_DATA_AND_BASE,
    M::XOR_BASE_AND_DATA,
    M::EXTRACT_KEY_FROM_KEY,
    M::AES_ECB_ENCRYPT_DATA,
    M::AES_CBC_ENCRYPT_DATA,
    // The tests of these two mechanisms are in other files.
    M::DH_PKCS_DERIVE,
    M::PUB_KEY_FROM_PRIV_KEY,
];

/// The derivations with SHAKE. The values are those of Python's
/// `hashlib.shake_128(bytes.fromhex("01234567")).hexdigest(32)`, and of `shake_256` with 64.
const SHAKES: [(M, &str); 2] = [
    (M::SHAKE_128_KEY_DERIVATION, "03870ca780ed319533f4c12257f6a475af86dd8195f9ebeb1b4e516afce5d318"),
    (
        M::SHAKE_256_KEY_DERIVATION,
        "a6255547b7e7f10f5ce3dc3188b295aab4abfc95510f798dbd565d38cb9758195b83fe1cfe1850f512fc1f7623de3e139b580f\
         da1b46acd8ef1ca7b56014bae1",
    ),
];

/// Returns the mechanisms that have a test here, and the two whose tests are in other files.
pub fn covered() -> impl Iterator<Item = M> {
    HASHED.iter().map(|case| case.0).chain(OTHERS).chain(SHAKES.map(|case| case.0))
}

pub fn shown() -> Attributes {
    none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

pub fn base(client: &Client, session: SessionHandle, key_type: KeyType, value: &[u8]) -> ObjectHandle {
    let template = key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, value).flag(A::DERIVE, true);
    client.create(session, &template.and(&shown())).expect("a key")
}

pub fn derive(
    client: &Client,
    session: SessionHandle,
    (id, params): (M, Params),
    base: ObjectHandle,
    template: &Attributes,
) -> Result<ObjectHandle, Error> {
    client.module.derive_key(session, &Mechanism { params, ..plain(id) }, base, &template.template())
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

fn ecdh(kdf: Option<AgreementKdf>, shared: &[u8], peer: &[u8]) -> (M, Params) {
    (M::ECDH1_DERIVE, Params::Ecdh { kdf, shared: shared.into(), peer: peer.into() })
}

#[test]
fn both_sides_agree_on_every_curve() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for kind in Kind::AGREEING {
            let sides = [(); 2].map(|()| pair(&client, session, kind, &none()));
            let points = sides.map(|(public, _)| client.read(session, public, A::EC_POINT).expect("a point"));
            let agree = |side: usize, kdf: Option<AgreementKdf>, bare: bool, template: &Attributes| {
                let point = &points[1 - side];
                let header = if point[1] < 0x80 { 2 } else { 3 };
                let mechanism = ecdh(kdf, b"", if bare { &point[header..] } else { point });
                value(&client, session, mechanism, sides[side].1, template).expect("a secret")
            };
            let whole = agree(0, None, false, &none());
            assert_eq!(whole, agree(1, None, true, &none()), "{kind:?}");
            let aes = none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 16);
            // The leading bytes are removed.
            assert_eq!(agree(0, None, true, &aes), whole[whole.len() - 16..], "{kind:?}");
            let kdf = Some(AgreementKdf::X963(Hash::Sha256));
            let long = none().number(A::VALUE_LEN, 100);
            assert_eq!(agree(0, kdf, false, &long), agree(1, kdf, true, &long), "{kind:?}");
            let (id, params) = ecdh(None, b"", &points[1]);
            assert_eq!(id, M::ECDH1_DERIVE);
            let cofactor = value(&client, session, (M::ECDH1_COFACTOR_DERIVE, params), sides[0].1, &none());
            assert_eq!(cofactor, Ok(whole.clone()));

            let too_long = none().number(A::VALUE_LEN, whole.len() as u64 + 1);
            let refused = value(&client, session, ecdh(None, b"", &points[1]), sides[0].1, &too_long);
            assert_eq!(refused, Err(Error::TemplateInconsistent));
            for wrong in [&[][..], &[4, 1, 2], &points[1][..points[1].len() - 1]] {
                let refused = value(&client, session, ecdh(None, b"", wrong), sides[0].1, &none());
                assert_eq!(refused, Err(Error::MechanismParamInvalid), "{kind:?}");
            }
            let refused = value(&client, session, ecdh(None, b"x", &points[1]), sides[0].1, &none());
            assert_eq!(refused, Err(Error::MechanismParamInvalid));
        }
    });
}

/// RFC 7748, 6.1.
#[test]
fn x25519_and_its_kdfs_match_known_values() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let own = hex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let peer = hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        let secret = hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
        let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC_MONTGOMERY)
            .bytes(A::EC_PARAMS, X25519)
            .bytes(A::VALUE, &own);
        let own = client.create(session, &template).expect("a key");
        assert_eq!(value(&client, session, ecdh(None, b"", &peer), own, &none()), Ok(secret));
        let long = none().number(A::VALUE_LEN, 40);
        // PKCS#11 3.2, "EC: Key Derivation Functions": `X963` is CKD_*_KDF and `OneStep` is
        // CKD_*_KDF_SP800. The values are from Python's hashlib. The counter is after the secret
        // in `X963`, and before it in `OneStep`.
        use AgreementKdf::{OneStep, X963};
        for (kdf, known) in [
            (
                X963(Hash::Sha256),
                "c31bff8abc5ffefb0fbface001746cc599567936a8126d315e0203cbb96653e61127f1bbda3c33ef",
            ),
            (
                OneStep(Hash::Sha256),
                "b1128e14c7682e519ab2e1eafa51efadc2d433c367db1b8b6933290e528df36c152a203114a3d2b1",
            ),
            (
                OneStep(Hash::Sha1),
                "a15671d3e47542d15cb013252acd7694c2e4d4c6a26c1ec72cc2304ffd033f4ecc2879967daeecae",
            ),
            (
                OneStep(Hash::Sha3_512),
                "9b0a13dbbc017bd8fd88fa8e279149100f7ede4dc12d54623c5b9b7c2bac0203be42c69292f46640",
            ),
            (
                X963(Hash::Blake2b160),
                "9545ce3d0f4b5ffb36ddc227ef09b6ccc45d210ceb9959260b4969fe2a870c2fc3dc468cc758c65f",
            ),
        ] {
            let made = value(&client, session, ecdh(Some(kdf), b"shared", &peer), own, &long);
            assert_eq!(made, Ok(hex(known)), "{kdf:?}");
        }
    });
}

fn hkdf(extract: bool, expand: bool, salt: HkdfSalt, info: &[u8]) -> Params {
    Params::Hkdf { extract, expand, hash: Hash::Sha256, salt, info: info.into() }
}

/// RFC 5869, A.1 to A.3.
#[test]
fn hkdf_matches_known_values_as_key_and_as_data() {
    let range = |from: u8, to: u8| (from..=to).collect::<Vec<_>>();
    let cases = [
        (
            vec![0x0b; 22],
            range(0, 12),
            range(0xf0, 0xf9),
            "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            range(0, 0x4f),
            range(0x60, 0xaf),
            range(0xb0, 0xff),
            "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09\
             da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            vec![0x0b; 22],
            vec![],
            vec![],
            "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ];
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (ikm, salt, info, prk, okm) in &cases {
            let (prk, okm) = (hex(prk), hex(okm));
            let key = base(&client, session, KeyType::HKDF, ikm);
            let wanted = none().number(A::VALUE_LEN, okm.len() as u64);
            let mut salts = vec![HkdfSalt::Data(salt[..].into())];
            if salt.is_empty() {
                salts.push(HkdfSalt::Null);
            } else {
                salts.push(HkdfSalt::Key(base(&client, session, KeyType::GENERIC_SECRET, salt)));
            }
            for salt in salts {
                let both = hkdf(true, true, salt.clone(), info);
                let got = value(&client, session, (M::HKDF_DERIVE, both.clone()), key, &wanted);
                assert_eq!(got.as_ref(), Ok(&okm));
                let data = derive(&client, session, (M::HKDF_DATA, both), key, &wanted.clone().label("iv"));
                let data = data.expect("a data object");
                assert_eq!(client.number(session, data, A::CLASS), ObjectClass::DATA.0);
                assert_eq!(client.read(session, data, A::VALUE).as_ref(), Ok(&okm));
                assert_eq!(client.read(session, data, A::VALUE_LEN), Err(Error::AttributeTypeInvalid));
                let extract = (M::HKDF_DERIVE, hkdf(true, false, salt, b""));
                assert_eq!(value(&client, session, extract, key, &none()), Ok(prk.clone()));
            }
            let prk = base(&client, session, KeyType::HKDF, &prk);
            let expand = (M::HKDF_DERIVE, hkdf(false, true, HkdfSalt::Null, info));
            assert_eq!(value(&client, session, expand.clone(), prk, &wanted), Ok(okm));
            let refused = value(&client, session, expand.clone(), prk, &none());
            assert_eq!(refused, Err(Error::TemplateIncomplete));
            let most = none().number(A::VALUE_LEN, 255 * 32 + 1);
            assert_eq!(value(&client, session, expand, prk, &most), Err(Error::KeySizeRange));
            let neither = (M::HKDF_DERIVE, hkdf(false, false, HkdfSalt::Null, b""));
            assert_eq!(value(&client, session, neither, prk, &wanted), Err(Error::MechanismParamInvalid));
        }
    });
}

#[test]
fn concatenation_xor_and_extraction_derive_the_expected_keys() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = base(&client, session, KeyType::GENERIC_SECRET, &[0x01, 0x23, 0x45, 0x67]);
        let other = base(&client, session, KeyType::GENERIC_SECRET, &[0x89, 0xab]);
        let data = |bytes: &[u8]| Params::Data(bytes.into());
        let three = none().number(A::VALUE_LEN, 3);
        for (id, params, template, known) in [
            (M::CONCATENATE_BASE_AND_KEY, Params::Key(other), none(), "0123456789ab"),
            (M::CONCATENATE_BASE_AND_DATA, data(b"\xff\xee"), none(), "01234567ffee"),
            (M::CONCATENATE_DATA_AND_BASE, data(b"\xff\xee"), none(), "ffee01234567"),
            (M::CONCATENATE_DATA_AND_BASE, data(b"\xff\xee"), three.clone(), "ffee01"),
            (M::XOR_BASE_AND_DATA, data(&[0xff; 4]), none(), "fedcba98"),
            (M::XOR_BASE_AND_DATA, data(&[0xff; 6]), three.clone(), "fedcba"),
            (M::XOR_BASE_AND_DATA, data(&[0xff; 2]), none(), "fedc"),
            (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0), three.clone(), "012345"),
            (M::EXTRACT_KEY_FROM_KEY, Params::Bit(12), three.clone(), "345670"),
            // The example of PKCS#11 3.2 with another key: the bits wrap around.
            (M::EXTRACT_KEY_FROM_KEY, Params::Bit(31), none().number(A::VALUE_LEN, 2), "8091"),
        ] {
            assert_eq!(value(&client, session, (id, params), key, &template), Ok(hex(known)), "{id}");
        }
        let over = (M::EXTRACT_KEY_FROM_KEY, Params::Bit(32));
        assert_eq!(value(&client, session, over, key, &three), Err(Error::MechanismParamInvalid));
        let longer = none().number(A::VALUE_LEN, 7);
        let join = (M::CONCATENATE_BASE_AND_KEY, Params::Key(other));
        assert_eq!(value(&client, session, join, key, &longer), Err(Error::TemplateInconsistent));
        let nothing = (M::CONCATENATE_BASE_AND_KEY, Params::Key(ObjectHandle(0)));
        assert_eq!(value(&client, session, nothing, key, &none()), Err(Error::KeyHandleInvalid));
        for (id, digest) in HASHED {
            let mut known = [0; 64];
            client.module.digest_init(session, &plain(digest)).expect("an operation");
            let out = jeton::module::Output::Buffer(&mut known);
            let len = client.module.digest(session, &[0x01, 0x23, 0x45, 0x67], out).expect("a digest");
            assert_eq!(value(&client, session, (id, Params::None), key, &none()), Ok(known[..len].to_vec()));
            let cut = none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 16);
            assert_eq!(value(&client, session, (id, Params::None), key, &cut), Ok(known[..16].to_vec()));
        }
    });
}

#[test]
fn shake_derivation_makes_a_key() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let key = base(&client, session, KeyType::GENERIC_SECRET, &[0x01, 0x23, 0x45, 0x67]);
        for (id, known) in SHAKES {
            let known = hex(known);
            let mechanism = || (id, Params::None);
            assert_eq!(value(&client, session, mechanism(), key, &none()).as_ref(), Ok(&known), "{id}");
            let cut = none().number(A::VALUE_LEN, 17);
            assert_eq!(value(&client, session, mechanism(), key, &cut), Ok(known[..17].to_vec()));
            let longer = none().number(A::VALUE_LEN, known.len() as u64 + 1);
            assert_eq!(value(&client, session, mechanism(), key, &longer), Err(Error::TemplateInconsistent));
        }
    });
}

/// FIPS 197, C.1: one block. CBC with a zero initialisation vector gives the same ciphertext.
#[test]
fn encrypt_data_derivation_makes_a_key() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let aes = base(&client, session, KeyType::AES, &(0..16).collect::<Vec<_>>());
        let data = hex("00112233445566778899aabbccddeeff");
        let known = hex("69c4e0d86a7b0430d8cdb78070b4c55a");
        let ecb = (M::AES_ECB_ENCRYPT_DATA, Params::Data(data[..].into()));
        let cbc = (M::AES_CBC_ENCRYPT_DATA, Params::CbcData { iv: [0; 16], data: data[..].into() });
        for mechanism in [ecb, cbc] {
            assert_eq!(value(&client, session, mechanism, aes, &none()).as_ref(), Ok(&known));
        }
        // PKCS#11 3.2, "Key derivation by data encryption": data that is shorter than the key is
        // an error.
        for mechanism in [
            (M::AES_ECB_ENCRYPT_DATA, Params::Data(data[..].into())),
            (M::AES_CBC_ENCRYPT_DATA, Params::CbcData { iv: [0; 16], data: data[..].into() }),
        ] {
            let longer = none().number(A::VALUE_LEN, 17);
            assert_eq!(value(&client, session, mechanism, aes, &longer), Err(Error::DataLenRange));
        }
        let odd = (M::AES_ECB_ENCRYPT_DATA, Params::Data([0; 15].into()));
        assert_eq!(value(&client, session, odd, aes, &none()), Err(Error::MechanismParamInvalid));
    });
}

#[test]
fn a_derived_key_inherits_the_protection_of_its_base_keys() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let make = |sensitive, extractable| {
            let template = none().number(A::VALUE_LEN, 32).flag(A::SENSITIVE, sensitive);
            let template = template.flag(A::EXTRACTABLE, extractable).flag(A::DERIVE, true);
            let mechanism = plain(M::GENERIC_SECRET_KEY_GEN);
            client.module.generate_key(session, &mechanism, &template.template()).expect("a key")
        };
        let (open, closed) = (make(false, true), make(true, false));
        let history =
            |key| [A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE].map(|id| client.flag(session, key, id));
        let protection = |key| [A::SENSITIVE, A::EXTRACTABLE].map(|id| client.flag(session, key, id));
        let data = |id| (id, Params::Data([1; 32].into()));
        for mechanism in [
            data(M::CONCATENATE_BASE_AND_DATA),
            data(M::CONCATENATE_DATA_AND_BASE),
            data(M::XOR_BASE_AND_DATA),
            (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0)),
            (M::CONCATENATE_BASE_AND_KEY, Params::Key(open)),
        ] {
            // A concatenation cannot be shortened. The other two derivations can halve the key.
            let small = match mechanism.0 {
                M::XOR_BASE_AND_DATA | M::EXTRACT_KEY_FROM_KEY => none().number(A::VALUE_LEN, 16),
                _ => none(),
            };
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
        let refused = derive(&client, session, join, open, &shown());
        assert_eq!(refused, Err(Error::TemplateInconsistent));
        // A digest of a key may be readable. `CKA_ALWAYS_SENSITIVE` and `CKA_NEVER_EXTRACTABLE` are
        // false then.
        let hash = (M::SHA256_KEY_DERIVATION, Params::None);
        let key = derive(&client, session, hash.clone(), closed, &shown()).expect("a key");
        assert_eq!((protection(key), history(key)), ([false, true], [false, false]));
        let key = derive(&client, session, hash.clone(), closed, &none()).expect("a key");
        assert_eq!((protection(key), history(key)), ([false, true], [false, false]));
        client.set(session, closed, &none().flag(A::DERIVE, false)).expect("a change");
        let refused = derive(&client, session, hash, closed, &none());
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
    });
}
