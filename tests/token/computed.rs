//! Attributes that the token computes: check values, public keys in DER, validation flags.

use crate::prelude::*;

/// A P-256 key from `openssl ecparam -genkey`, its public half from `openssl ec -pubout`, its
/// certificate from `openssl req -x509 -subj "/CN=a test"` (OpenSSL 3.0), and the digest of the
/// certificate from `sha1sum`.
const SCALAR: &str = "002b42cfbe1b0cf58920ea35c56ed7bafe494573ac518815a4560e0a0443b3f3";
const INFO: &str = "3059301306072a8648ce3d020106082a8648ce3d03010703420004e7b89c0c4c6570f83b0b914fd50ac3902672cd66\
    6fad56ce7409c87c2090b2f5d77b2e0be692d65b7c5f0a04af7237ed476750b877cbdac2b7fd7b3dab823e23";
const CERTIFICATE: &str = "308201783082011fa003020102021412dd8e0142b9bc8380ba8175c8ea99b6219b35cf300a06082a8648ce3d04030230\
    11310f300d06035504030c066120746573743020170d3236313132313131323535355a180f3231323631303238313132\
    3535355a3011310f300d06035504030c066120746573743059301306072a8648ce3d020106082a8648ce3d0301070342\
    0004e7b89c0c4c6570f83b0b914fd50ac3902672cd666fad56ce7409c87c2090b2f5d77b2e0be692d65b7c5f0a04af72\
    37ed476750b877cbdac2b7fd7b3dab823e23a3533051301d0603551d0e041604148c765759598e776245b4b64a8a05c9\
    646c9bbafa301f0603551d230418301680148c765759598e776245b4b64a8a05c9646c9bbafa300f0603551d130101ff\
    040530030101ff300a06082a8648ce3d040302034700304402202c3b0c24475775e60499b3797b1861c435de07b1b05b\
    b3f4c50eb5bebe1de31f0220477eda1cf4da4947caec4ccd26511978ebc267131911b0ff94602fb71f83aa0b";
const CERTIFICATE_CHECK: &str = "bd694b";

fn certificate() -> Attributes {
    Attributes::of(ObjectClass::CERTIFICATE)
        .number(A::CERTIFICATE_TYPE, value::CERTIFICATE_X_509)
        .bytes(A::SUBJECT, b"a subject")
        .bytes(A::VALUE, &hex(CERTIFICATE))
}

fn p256() -> Attributes {
    key_object(ObjectClass::PRIVATE_KEY, KeyType::EC).bytes(A::EC_PARAMS, P256).bytes(A::VALUE, &hex(SCALAR))
}

/// Python's `cryptography` 48 and `hashlib` computed the expected values.
#[test]
fn sensitive_secret_keys_have_the_known_check_values() {
    each_user(|client, session| {
        let counted: Vec<u8> = (0..32).collect();
        for (key, known) in [
            (secret(KeyType::AES, &[7; 16]), "4c83b1"),
            (secret(KeyType::AES, &counted), "f29000"),
            (secret(KeyType::AES_XTS, &counted), "f071a2"),
            (secret(KeyType::GENERIC_SECRET, b"a generic secret"), "6dff01"),
            (secret(KeyType::CHACHA20, &[7; 32]), "00696a"),
            (secret(KeyType::SHA256_HMAC, &[7; 32]), "00696a"),
        ] {
            let key = key.flag(A::SENSITIVE, true).flag(A::ENCRYPT, false);
            let object = client.create(session, &key.clone().stored()).expect("a key");
            let check = hex(known);
            assert_eq!(client.read(session, object, A::CHECK_VALUE), Ok(check.clone()), "{known}");
            assert!(client.find(session, &none().bytes(A::CHECK_VALUE, &check)).contains(&object));
            // A check value in the template must be the right one.
            client.create(session, &key.clone().bytes(A::CHECK_VALUE, &check)).expect("a key");
            for wrong in [&[1, 2, 3][..], &check[..2]] {
                let refused = client.create(session, &key.clone().bytes(A::CHECK_VALUE, wrong));
                assert_eq!(refused, Err(Error::AttributeValueInvalid), "{known}");
            }
        }
    });
}

#[test]
fn an_empty_check_value_stays_empty() {
    each_user(|client, session| {
        let empty = none().bytes(A::CHECK_VALUE, b"");
        let never = client.create(session, &secret(KeyType::AES, &[7; 16]).and(&empty)).expect("a key");
        let (destroyed, _) = pair(client, session, Kind::Aes, &none());
        assert_eq!(client.read(session, destroyed, A::CHECK_VALUE).map(|check| check.len()), Ok(3));
        client.set(session, destroyed, &empty).expect("a key");
        let copy = client.copy(session, destroyed, &none()).expect("a copy");
        for key in [never, destroyed, copy] {
            assert_eq!(client.read(session, key, A::CHECK_VALUE), Ok(vec![]));
            let back = none().bytes(A::CHECK_VALUE, &hex("4c83b1"));
            assert_eq!(client.set(session, key, &back), Err(Error::AttributeValueInvalid));
        }
    });
}

#[test]
fn an_imported_key_with_a_wrong_check_value_is_refused() {
    each_user(|client, session| {
        let base = client.create(session, &secret(KeyType::GENERIC_SECRET, &[1; 8]).flag(A::DERIVE, true));
        let mechanism = plain(M::SHA256_KEY_DERIVATION);
        let derive = |template: &Attributes| {
            client.derive_key(session, &mechanism, base.expect("a key"), &template.template())
        };
        let key = derive(&none()).expect("a key");
        let check = client.read(session, key, A::CHECK_VALUE).expect("a check value");
        derive(&none().bytes(A::CHECK_VALUE, &check)).expect("a key");
        let wrong = [check[0] ^ 1, check[1], check[2]];
        assert_eq!(derive(&none().bytes(A::CHECK_VALUE, &wrong)), Err(Error::AttributeValueInvalid));
    });
}

#[test]
fn a_certificate_has_its_public_key_info_and_check_value() {
    each_user(|client, session| {
        let whole = client.create(session, &certificate()).expect("a certificate");
        assert_eq!(client.read(session, whole, A::PUBLIC_KEY_INFO), Ok(hex(INFO)));
        assert_eq!(client.read(session, whole, A::CHECK_VALUE), Ok(hex(CERTIFICATE_CHECK)));
        assert_eq!(client.find(session, &none().bytes(A::PUBLIC_KEY_INFO, &hex(INFO))), [whole]);
        client.create(session, &certificate().bytes(A::CHECK_VALUE, &hex(CERTIFICATE_CHECK))).expect("one");
        let wrong = client.create(session, &certificate().bytes(A::CHECK_VALUE, &[0; 3]));
        assert_eq!(wrong, Err(Error::AttributeValueInvalid));
        // PKCS#11 3.2, "Certificate objects": nothing enforces that `CKA_PUBLIC_KEY_INFO` matches
        // `CKA_VALUE`. A value that is not DER has no public key.
        let own = client.create(session, &certificate().bytes(A::PUBLIC_KEY_INFO, b"mine")).expect("one");
        assert_eq!(client.read(session, own, A::PUBLIC_KEY_INFO), Ok(b"mine".to_vec()));
        for len in [0, 1, 4, 40, 200] {
            let cut =
                certificate().without(A::VALUE).bytes(A::VALUE, &[&hex(CERTIFICATE)[..len], b"x"].concat());
            let cut = client.create(session, &cut).expect("a certificate");
            assert_eq!(client.read(session, cut, A::PUBLIC_KEY_INFO), Ok(vec![]), "{len}");
        }
    });
}

#[test]
fn a_private_key_has_the_known_public_key_info() {
    each_user(|client, session| {
        let info = none().bytes(A::PUBLIC_KEY_INFO, &hex(INFO));
        let key = client.create(session, &p256()).expect("a key");
        assert_eq!(client.read(session, key, A::PUBLIC_KEY_INFO), Ok(hex(INFO)));
        let said = client.create(session, &p256().and(&info)).expect("a key");
        let copy = client.copy(session, said, &info).expect("a copy");
        assert_eq!(client.set(session, copy, &info), Ok(()));
        assert_eq!(client.find(session, &info), [key, said, copy]);
        // PKCS#11 3.2, "Private key objects": the public key must correspond to the private key.
        let wrong = none().bytes(A::PUBLIC_KEY_INFO, &hex(INFO)[1..]);
        let refused = Err(Error::AttributeValueInvalid);
        assert_eq!(client.create(session, &p256().and(&wrong)), refused);
        assert_eq!(client.copy(session, key, &wrong), refused);
        assert_eq!(client.set(session, key, &wrong), Err(Error::AttributeValueInvalid));
    });
}

/// AsyncSSH and the clients of NSS and OpenSC read it. The standard has it in public keys only.
#[test]
fn a_private_key_on_a_curve_shows_its_point() {
    each_user(|client, session| {
        let key = client.create(session, &p256()).expect("a key");
        // The point is at the end of the public key in DER.
        let info = hex(INFO);
        let expected = [&[4, 65], &info[info.len() - 65..]].concat();
        assert_eq!(client.read(session, key, A::EC_POINT), Ok(expected.clone()));
        assert_eq!(client.find(session, &none().bytes(A::EC_POINT, &expected)), [key]);
        for kind in [Kind::P256, Kind::Ed25519, Kind::X25519] {
            let (public, private) = pair(client, session, kind, &none());
            let of_public = client.read(session, public, A::EC_POINT);
            assert!(of_public.is_ok(), "{of_public:?}");
            assert_eq!(client.read(session, private, A::EC_POINT), of_public);
        }
        let (_, rsa) = pair(client, session, Kind::Rsa, &none());
        assert_eq!(client.read(session, rsa, A::EC_POINT), Err(Error::AttributeTypeInvalid));
    });
}

/// PKCS#11 3.2, "RSA private key objects": "tokens MUST also store CKA_PUBLIC_EXPONENT".
#[test]
fn an_rsa_key_without_its_public_exponent_gets_it() {
    each_user(|client, session| {
        let whole = client.create(session, &RSA.private).expect("a key");
        let bare = RSA.private.clone().without(A::PUBLIC_EXPONENT);
        let bare = client.create(session, &bare).expect("a key");
        assert_eq!(client.read(session, bare, A::PUBLIC_EXPONENT), Ok(vec![1, 0, 1]));
        let info = |key| client.read(session, key, A::PUBLIC_KEY_INFO).expect("a public key");
        assert_eq!(info(bare), info(whole));
    });
}

/// The headers are those of the examples in RFC 8410 (10.1), RFC 9881 (C.2) and RFC 9935 (C.2), of
/// `openssl genpkey` for RSA and EC, of RFC 9909 (appendix C) for SLH-DSA, and of the
/// draft for composite ML-DSA.
#[test]
fn both_keys_of_a_pair_have_the_same_public_key_info() {
    each_user(|client, session| {
        for (kind, header) in [
            (Kind::Rsa, "30820122300d06092a864886f70d01010105000382010f003082010a0282010100"),
            (Kind::P256, "3059301306072a8648ce3d020106082a8648ce3d03010703420004"),
            (Kind::P384, "3076301006072a8648ce3d020106052b8104002203620004"),
            (Kind::Ed25519, "302a300506032b6570032100"),
            (Kind::Ed448, "3043300506032b6571033a00"),
            (Kind::X25519, "302a300506032b656e032100"),
            (Kind::X448, "3042300506032b656f033900"),
            (Kind::MlDsa44, "30820532300b06096086480165030403110382052100"),
            (Kind::MlKem512, "30820332300b06096086480165030404010382032100"),
            (Kind::Composite, "30820572300a06082b060105050706280382056200"),
            (Kind::SlhDsaSha2, "3030300b0609608648016503040315032100"),
        ] {
            let (public, private) = pair(client, session, kind, &none());
            let info = client.read(session, public, A::PUBLIC_KEY_INFO).expect("a public key");
            assert_eq!(client.read(session, private, A::PUBLIC_KEY_INFO), Ok(info.clone()), "{kind:?}");
            assert_eq!(info[..hex(header).len()], hex(header), "{kind:?}");
            let own = [A::MODULUS, A::EC_POINT, A::VALUE].into_iter();
            let own = own.filter_map(|id| client.read(session, public, id).ok()).next().expect("a part");
            let bare = &own[own.len().saturating_sub(32)..];
            assert!(info.windows(32).any(|window| window == bare), "{kind:?}");
            for key in [public, private] {
                assert_eq!(client.number(session, key, A::OBJECT_VALIDATION_FLAGS), 0);
            }
        }
    });
}
