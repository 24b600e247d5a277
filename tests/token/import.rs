//! Imported objects, and the forms of their values.

use jeton::backend::{Curve, PairSpec, PublicParts};

use crate::prelude::*;

/// RFC 8032, 7.1, test 2.
const ED25519_SEED: [u8; 32] = [
    0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3, 0x46, 0xec, 0x11, 0x4e, 0x0f, 0x5b,
    0x8a, 0x31, 0x9f, 0x35, 0xab, 0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb,
];
const ED25519_POINT: [u8; 32] = [
    0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a, 0xa7, 0x4d, 0x1b, 0x7e, 0xbc, 0x9c,
    0x98, 0x2c, 0xcf, 0x2e, 0xc4, 0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c,
];
const ED25519_SIGNATURE_START: [u8; 8] = [0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8];

/// The product of two primes, of 512 bits.
const SHORT_MODULUS: &str = "ca43cbc12f26a705b1817483092d78172b90741550dc1d18db3dd06efd77fff2\
    5befa2b17aa05182c934fe07ef004e95f5278ee0c6d0450966444252b61092d5";

fn private(key_type: KeyType) -> Attributes {
    key_object(ObjectClass::PRIVATE_KEY, key_type)
}

fn public(key_type: KeyType) -> Attributes {
    key_object(ObjectClass::PUBLIC_KEY, key_type)
}

#[test]
fn an_imported_key_is_not_local_and_was_not_always_sensitive() {
    let (client, session) = one_user();
    let key = client.create(session, &RSA.private).expect("a key");
    for id in [A::LOCAL, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE] {
        assert!(!client.flag(session, key, id), "{id}");
    }
    assert_eq!(client.number(session, key, A::KEY_GEN_MECHANISM), M::UNAVAILABLE.0);
    assert!(client.flag(session, key, A::SENSITIVE) && !client.flag(session, key, A::EXTRACTABLE));
}

#[test]
fn rsa_keys_are_imported_with_and_without_primes() {
    each_user(|client, session| {
        let public = client.create(session, &RSA.public.clone().stored()).expect("a key");
        assert_eq!(client.number(session, public, A::MODULUS_BITS), 2048);
        let primes = [A::PRIME_1, A::PRIME_2, A::EXPONENT_1, A::EXPONENT_2, A::COEFFICIENT];
        let bare = primes.into_iter().fold(RSA.private.clone(), Attributes::without);
        for template in [RSA.private.clone(), bare] {
            let key = client.create(session, &template.stored()).expect("a key");
            let mechanism = plain(M::SHA256_RSA_PKCS);
            let signature = client.sign(session, &mechanism, key, b"data").expect("a signature");
            assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));
        }
        // Integers may have leading zeros.
        let modulus = [&[0, 0], RSA.public.value(A::MODULUS)].concat();
        let padded = RSA.public.clone().without(A::MODULUS).bytes(A::MODULUS, &modulus);
        let padded = client.create(session, &padded).expect("a key");
        let read = |key| client.read(session, key, A::MODULUS).expect("a modulus");
        assert_eq!(read(padded), read(public));

        let broken = RSA.private.clone().without(A::PRIME_1).bytes(A::PRIME_1, &[3; 128]);
        assert_eq!(client.create(session, &broken), Err(Error::AttributeValueInvalid));
        let small = RSA.public.clone().without(A::MODULUS).bytes(A::MODULUS, &hex(SHORT_MODULUS));
        assert_eq!(client.create(session, &small), Err(Error::KeySizeRange));
    });
}

#[test]
fn a_private_key_that_does_not_fit_its_public_key_is_refused() {
    each_user(|client, session| {
        // A coefficient of the secret vector of ML-KEM. Nothing in the key shows the change.
        let kind = Kind::MlKem512;
        let made = client.generate(session, kind.generator(), &kind.request(), &shown());
        let (_, made) = made.expect("a pair");
        let mut value = client.read(session, made, A::VALUE).expect("a value");
        let template = |value: &[u8]| private(KeyType::ML_KEM).and(&kind.request()).bytes(A::VALUE, value);
        client.create(session, &template(&value)).expect("a key");
        value[0] ^= 2;
        assert_eq!(client.create(session, &template(&value)), Err(Error::AttributeValueInvalid));
    });
}

#[test]
fn ml_kem_keys_are_imported_by_seed_value_or_both() {
    each_user(|client, session| {
        for kind in Kind::ENCAPSULATING {
            let made = client.generate(session, kind.generator(), &kind.request(), &shown());
            let (_, made) = made.expect("a pair");
            let [seed, value] =
                [A::SEED, A::VALUE].map(|id| client.read(session, made, id).expect("a value"));
            let base = private(KeyType::ML_KEM).and(&kind.request()).and(&shown());
            let seeded = base.clone().bytes(A::SEED, &seed);
            for template in
                [&seeded, &base.clone().bytes(A::VALUE, &value), &seeded.clone().bytes(A::VALUE, &value)]
            {
                let key = client.create(session, template).expect("a key");
                assert_eq!(client.read(session, key, A::VALUE), Ok(value.clone()), "{kind:?}");
            }
            assert_eq!(client.create(session, &base), Err(Error::TemplateIncomplete), "{kind:?}");
        }
    });
}

#[test]
fn an_ec_point_is_accepted_raw_or_in_der_and_returned_in_der() {
    each_user(|client, session| {
        for kind in [Kind::P256, Kind::P384, Kind::P521, Kind::Ed25519, Kind::Ed448] {
            let (generated, key) = pair(client, session, kind, &none());
            let given = client.read(session, generated, A::EC_POINT).expect("a point");
            let header = if given[1] < 0x80 { 2 } else { 3 };
            assert_eq!((given[0], given.len()), (4, header + usize::from(given[header - 1])), "{kind:?}");
            let bare = given[header..].to_vec();
            let mechanism = plain(if kind.key_type() == KeyType::EC { M::ECDSA_SHA256 } else { M::EDDSA });
            let signature = client.sign(session, &mechanism, key, b"data").expect("a signature");
            let der = |tag: u8, content: &[u8]| match content.len() {
                len @ 0..0x80 => [&[tag, len as u8], content].concat(),
                len => [&[tag, 0x81, len as u8], content].concat(),
            };
            let bits = der(3, &[&[0], &bare[..]].concat());
            let mut forms = vec![bare.clone(), der(4, &bare), bits];
            if kind.key_type() == KeyType::EC {
                let (half, sign) = (bare.len().div_ceil(2), bare[bare.len() - 1] & 1);
                let compressed = [&[2 + sign], &bare[1..half]].concat();
                let hybrid = [&[6 + sign], &bare[1..]].concat();
                forms.extend([der(4, &compressed), compressed, der(4, &hybrid), hybrid]);
            }
            for form in forms {
                let template = public(kind.key_type()).and(&kind.request()).bytes(A::EC_POINT, &form);
                let imported = client.create(session, &template).expect("a key");
                assert_eq!(client.read(session, imported, A::EC_POINT).expect("a point"), given, "{kind:?}");
                assert_eq!(client.verify(session, &mechanism, imported, b"data", &signature), Ok(()));
            }
        }
    });
}

#[test]
fn a_public_key_whose_private_key_is_no_secret_is_refused() {
    each_user(|client, session| {
        let one = |len: usize| [vec![1], vec![0; len - 1]].concat();
        for (kind, point) in [
            (Kind::Ed25519, one(32)),
            (Kind::Ed25519, vec![0; 32]),
            (Kind::Ed448, one(57)),
            (Kind::X25519, one(32)),
            (Kind::X448, vec![0; 56]),
        ] {
            let template = public(kind.key_type()).and(&kind.request()).bytes(A::EC_POINT, &point);
            assert_eq!(client.create(session, &template), Err(Error::AttributeValueInvalid), "{kind:?}");
        }
        let mut even = RSA.public.value(A::MODULUS).to_vec();
        *even.last_mut().expect("a byte") &= 0xfe;
        let template = RSA.public.clone().without(A::MODULUS).bytes(A::MODULUS, &even);
        assert_eq!(client.create(session, &template), Err(Error::AttributeValueInvalid));
    });
}

#[test]
fn a_raw_point_that_looks_like_an_octet_string_is_a_point() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        // The first byte of a raw point is 4, as in a DER octet string. In one point of 256 the
        // second byte is 63, which is also the right length of the octet string.
        let bare = loop {
            let (public, _) = provider.keys.generate(&PairSpec::Ec(Curve::P256)).expect("a pair");
            let PublicParts::Ec { point, .. } = public else { panic!("a point") };
            if point[..2] == [4, 63] {
                break point;
            }
        };
        let template = public(KeyType::EC).bytes(A::EC_PARAMS, P256).bytes(A::EC_POINT, &bare);
        let key = client.create(session, &template).expect("a key");
        assert_eq!(client.read(session, key, A::EC_POINT).expect("a point"), [&[4, 65][..], &bare].concat());
    });
}

#[test]
fn a_curve_is_accepted_by_oid_or_by_name() {
    each_user(|client, session| {
        for (kind, name) in [
            (Kind::P256, "secp256r1"),
            (Kind::P384, "secp384r1"),
            (Kind::P521, "secp521r1"),
            (Kind::Ed25519, "edwards25519"),
        ] {
            let printable = [&[0x13, name.len() as u8], name.as_bytes()].concat();
            let request = none().bytes(A::EC_PARAMS, &printable);
            let (public, private) =
                client.generate(session, kind.generator(), &request, &none()).expect("a pair");
            for half in [public, private] {
                let params = client.read(session, half, A::EC_PARAMS).expect("parameters");
                assert_eq!(params, kind.request().value(A::EC_PARAMS), "{name}");
            }
        }
        let key = private(KeyType::EC).bytes(A::VALUE, &[1; 32]);
        // PKCS#11 3.2, "Elliptic Curve". The values are unknown curves, a curve of another key
        // type, and values that name no curve: implicitlyCA, explicit parameters, bytes that are
        // not DER.
        let (unknown, malformed) = (Error::CurveNotSupported, Error::DomainParamsInvalid);
        for (wrong, error) in [
            (&b"\x13\x04none"[..], unknown),
            (&[0x06, 0x03, 0x2b, 0x01, 0x02], unknown),
            (ED25519, unknown),
            (&[0x05, 0x00], malformed),
            (&[0x30, 0x03, 0x02, 0x01, 0x01], malformed),
            (&[0x06, 0x09, 0x2b], malformed),
            (&[], malformed),
        ] {
            let template = key.clone().bytes(A::EC_PARAMS, wrong);
            assert_eq!(client.create(session, &template), Err(error), "{wrong:x?}");
            let request = none().bytes(A::EC_PARAMS, wrong);
            let pair = client.generate(session, M::EC_KEY_PAIR_GEN, &request, &none());
            assert_eq!(pair, Err(error), "{wrong:x?}");
        }
    });
}

#[test]
fn ec_scalars_are_accepted_with_and_without_padding_up_to_the_order() {
    each_user(|client, session| {
        let create = |scalar: &[u8]| {
            let template = private(KeyType::EC).bytes(A::EC_PARAMS, P256).bytes(A::VALUE, scalar);
            client.create(session, &template)
        };
        let sign = |key| client.sign(session, &plain(M::ECDSA_SHA256), key, b"data").expect("a signature");
        for scalar in [&[0, 0, 5][..], &[5], &[&[0; 40], &[5][..]].concat(), &[7; 32]] {
            assert_eq!(sign(create(scalar).expect("a key")).len(), 64);
        }
        for wrong in [&[][..], &[0; 32], &[0xff; 32], &[1; 33]] {
            assert_eq!(create(wrong), Err(Error::AttributeValueInvalid), "{wrong:x?}");
        }
    });
}

#[test]
fn an_imported_ed25519_key_makes_the_known_signature() {
    each_user(|client, session| {
        let key = |value: &[u8]| {
            let template = private(KeyType::EC_EDWARDS).bytes(A::EC_PARAMS, ED25519).bytes(A::VALUE, value);
            client.create(session, &template)
        };
        let wrapped = [&[0x04, 0x20], &ED25519_SEED[..]].concat();
        let point = public(KeyType::EC_EDWARDS).bytes(A::EC_PARAMS, ED25519);
        let point = client.create(session, &point.bytes(A::EC_POINT, &ED25519_POINT)).expect("a key");
        for form in [&ED25519_SEED[..], &wrapped] {
            let key = key(form).expect("a key");
            let signature = client.sign(session, &plain(M::EDDSA), key, &[0x72]).expect("a signature");
            assert_eq!(signature[..8], ED25519_SIGNATURE_START);
            assert_eq!(client.verify(session, &plain(M::EDDSA), point, &[0x72], &signature), Ok(()));
        }
        assert_eq!(key(&ED25519_SEED[..31]), Err(Error::AttributeValueInvalid));
    });
}

#[test]
fn ml_dsa_keys_are_imported_by_seed_value_or_both_if_they_agree() {
    each_user(|client, session| {
        for kind in [Kind::MlDsa44, Kind::MlDsa65, Kind::MlDsa87] {
            let (public, generated) =
                client.generate(session, kind.generator(), &kind.request(), &shown()).expect("a pair");
            let read = |key: ObjectHandle, id| client.read(session, key, id).expect("a value");
            let (seed, expanded) = (read(generated, A::SEED), read(generated, A::VALUE));
            let base = private(KeyType::ML_DSA).and(&kind.request()).and(&shown());
            for (template, has_seed) in [
                (base.clone().bytes(A::SEED, &seed), true),
                (base.clone().bytes(A::VALUE, &expanded), false),
                (base.clone().bytes(A::SEED, &seed).bytes(A::VALUE, &expanded), true),
            ] {
                let key = client.create(session, &template.stored()).expect("a key");
                assert_eq!(read(key, A::VALUE), expanded, "{kind:?}");
                assert_eq!(client.read(session, key, A::SEED).is_ok(), has_seed);
                let signature = client.sign(session, &plain(M::ML_DSA), key, b"data").expect("a signature");
                assert_eq!(client.verify(session, &plain(M::ML_DSA), public, b"data", &signature), Ok(()));
            }
            let mut another = seed.clone();
            another[0] ^= 1;
            for (template, error) in [
                (base.clone(), Error::TemplateIncomplete),
                (base.clone().bytes(A::SEED, &seed[1..]), Error::AttributeValueInvalid),
                (base.clone().bytes(A::VALUE, &expanded[1..]), Error::AttributeValueInvalid),
                (
                    base.clone().bytes(A::SEED, &another).bytes(A::VALUE, &expanded),
                    Error::TemplateInconsistent,
                ),
            ] {
                assert_eq!(client.create(session, &template), Err(error), "{kind:?}");
            }
        }
    });
}

#[test]
fn certificates_and_data_are_read_back_unchanged() {
    let (client, session) = one_user();
    let der: Vec<_> = (0..2000u32).map(|number| number as u8).collect();
    let certificate = Attributes::of(ObjectClass::CERTIFICATE)
        .number(A::CERTIFICATE_TYPE, value::CERTIFICATE_X_509)
        .bytes(A::SUBJECT, b"a subject")
        .bytes(A::ISSUER, b"an issuer")
        .bytes(A::SERIAL_NUMBER, &[2, 1, 7])
        .bytes(A::ID, b"7")
        .bytes(A::VALUE, &der)
        .label("a certificate");
    let data = Attributes::of(ObjectClass::DATA)
        .bytes(A::APPLICATION, b"an application")
        .bytes(A::OBJECT_ID, &[6, 1, 42])
        .bytes(A::VALUE, &der);
    for template in [certificate, data] {
        client.create(session, &template.clone().stored()).expect("an object");
        // Another process reads the object from the store, without a login.
        let other = Client::beside(&client.directory, DEFAULT, "");
        let session = other.open();
        let found = other.find_one(session, &template);
        for id in template.ids() {
            assert_eq!(other.read(session, found, id).expect("a value"), template.value(id), "{id}");
        }
    }
    // PKCS#11 3.2, "X.509 public key certificate objects", notes 2 and 3.
    let bare = Attributes::of(ObjectClass::CERTIFICATE)
        .number(A::CERTIFICATE_TYPE, value::CERTIFICATE_X_509)
        .bytes(A::SUBJECT, b"a subject");
    for without in [bare.clone(), bare.clone().bytes(A::URL, b"").bytes(A::VALUE, b"")] {
        assert_eq!(client.create(session, &without), Err(Error::TemplateIncomplete));
    }
    let linked = bare.bytes(A::URL, b"https://a.place/cert").bytes(A::HASH_OF_SUBJECT_PUBLIC_KEY, &[1; 20]);
    // PKCS#11 3.2, "X.509 public key certificate objects": if a URL replaces the certificate,
    // the hashes of the keys are required.
    assert_eq!(client.create(session, &linked), Err(Error::TemplateIncomplete));
    client.create(session, &linked.bytes(A::HASH_OF_ISSUER_PUBLIC_KEY, &[2; 20])).expect("a certificate");
}
