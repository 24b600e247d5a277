//! PBKDF2: known answers of RFC 6070 and RFC 7914, 11, and of Python's `hashlib.pbkdf2_hmac` for
//! the other hashes.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, SessionHandle};
use jeton::mechanism::password::Password;
use jeton::mechanism::{Mechanism, Params};
use jeton::secret::Secret;

use crate::derive::shown;
use crate::support::{Attributes, Client, each_backend, hex, none, plain};

/// Every mechanism that has a case here.
pub const COVERED: [M; 1] = [M::PKCS5_PBKD2];

fn params(hash: Hash, password: &[u8], salt: &[u8], iterations: u32) -> Params {
    Params::Pbkdf2 { hash, salt: salt.into(), iterations, password: Password(Secret::from(password)) }
}

fn generic(len: u64) -> Attributes {
    none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0).number(A::VALUE_LEN, len)
}

fn value(
    client: &Client,
    session: SessionHandle,
    params: Params,
    template: &Attributes,
) -> Result<Vec<u8>, Error> {
    let mechanism = Mechanism { params, ..plain(M::PKCS5_PBKD2) };
    let template = template.clone().and(&shown());
    let key = client.module.generate_key(session, &mechanism, &template.template())?;
    client.read(session, key, A::VALUE)
}

/// Hash, password, salt, iterations and the key.
type Known = (Hash, &'static [u8], &'static [u8], u32, &'static str);

#[test]
fn pbkdf2_matches_known_values() {
    let cases: [Known; 9] = [
        // RFC 6070, 2.
        (Hash::Sha1, b"password", b"salt", 1, "0c60c80f961f0e71f3a9b524af6012062fe037a6"),
        (Hash::Sha1, b"password", b"salt", 4096, "4b007901b765489abead49d926f721d065a429c1"),
        (Hash::Sha1, b"pass\0word", b"sa\0lt", 4096, "56fa6aa75548099dcc37d7f03425e0c3"),
        // RFC 7914, 11.
        (
            Hash::Sha256,
            b"passwd",
            b"salt",
            1,
            "55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc49ca9cccf179b645991664b39d77ef317c71\
             b845b1e30bd509112041d3a19783",
        ),
        // Python.
        (Hash::Sha224, b"password", b"salt", 4096, "218c453bf90635bd0a21a75d172703ff6108ef603f65bb821a"),
        (
            Hash::Sha384,
            b"password",
            b"salt",
            1000,
            "3bd37e2236941d4a77b1b5b714c6f913fabb6b0841a6d7d8656b99d611e900fe06edb93b5b809efa",
        ),
        (
            Hash::Sha512,
            b"password",
            b"salt",
            1000,
            "afe6c5530785b6cc6b1c6453384731bd5ee432ee549fd42fb6695779ad8a1c5bf59de69c48f774ef",
        ),
        (
            Hash::Sha512_224,
            b"password",
            b"salt",
            1000,
            "2f7dd7172b0324e8234fb87a2a789b8ca20f613fb043be228e1edbfc159a909f4b9d36ec651e5b05",
        ),
        (
            Hash::Sha512_256,
            b"password",
            b"salt",
            1000,
            "f7e4fb1d98c78b615f585f974af8cd97651a244f4c5004189d136fed65652fa00e3e2060276cbcea",
        ),
    ];
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (hash, password, salt, iterations, known) in cases {
            let known = hex(known);
            let template = generic(known.len() as u64);
            let got = value(&client, session, params(hash, password, salt, iterations), &template);
            assert_eq!(got, Ok(known), "{hash:?}");
        }
    });
}

#[test]
fn the_template_sets_the_type_of_a_password_key() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let make = |template: Attributes| {
            value(&client, session, params(Hash::Sha256, b"password", b"salt", 1), &template)
        };
        let of = |key_type: KeyType| none().number(A::KEY_TYPE, key_type.0);
        assert_eq!(make(of(KeyType::AES).number(A::VALUE_LEN, 24)).map(|key| key.len()), Ok(24));
        // The template may omit a length that the key type fixes.
        assert_eq!(make(of(KeyType::CHACHA20)).map(|key| key.len()), Ok(32));
        assert_eq!(make(none().number(A::VALUE_LEN, 32)), Err(Error::TemplateIncomplete));
        assert_eq!(make(of(KeyType::AES)), Err(Error::TemplateIncomplete));
        assert_eq!(make(of(KeyType::AES).number(A::VALUE_LEN, 20)), Err(Error::KeySizeRange));
        assert_eq!(make(of(KeyType::RSA).number(A::VALUE_LEN, 32)), Err(Error::AttributeValueInvalid));
        for len in [0, 4097, u64::MAX] {
            assert_eq!(make(generic(len)), Err(Error::KeySizeRange));
        }
        let endless = params(Hash::Sha1, b"password", b"salt", u32::MAX);
        assert_eq!(value(&client, session, endless, &generic(20)), Err(Error::MechanismParamInvalid));
        // A key of many blocks multiplies the number of iterations.
        let long = params(Hash::Sha1, b"password", b"salt", 1 << 20);
        assert_eq!(value(&client, session, long, &generic(4096)), Err(Error::MechanismParamInvalid));
        let never = params(Hash::Sha1, b"password", b"salt", 0);
        assert_eq!(value(&client, session, never, &generic(20)), Err(Error::MechanismParamInvalid));
        assert_eq!(value(&client, session, Params::None, &generic(20)), Err(Error::MechanismParamInvalid));
    });
}
