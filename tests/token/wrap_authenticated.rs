//! Wrapping and unwrapping with an authenticated cipher and associated data.

use jeton::backend::AeadScheme;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::Mechanism;
use jeton::mechanism::message::{Generator, MessageParams};
use jeton::module::{Authenticated, Output};

use crate::ciphers::message;
use crate::keys::{RSA, key_object};
use crate::messages::{secret, tagged};
use crate::support::{Attributes, Client, aead_params, each_backend, none, plain};

const CIPHERS: [(M, AeadScheme); 3] = [
    (M::AES_GCM, AeadScheme::AesGcm),
    (M::AES_CCM, AeadScheme::AesCcm),
    (M::CHACHA20_POLY1305, AeadScheme::ChaCha20Poly1305),
];
const NONCE: [u8; 12] = [5; 12];
const AAD: &[u8] = b"the name of this key";

fn params(scheme: AeadScheme) -> MessageParams {
    MessageParams::new(scheme, &NONCE, 16).expect("lengths of the cipher")
}

fn shown() -> Attributes {
    none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

/// A client, and a session with the user logged in.
struct Test {
    client: Client,
    session: SessionHandle,
}

impl Test {
    fn each(test: impl Fn(&Test)) {
        each_backend(|provider| {
            let client = Client::new(provider);
            let session = client.user();
            test(&Test { client, session });
        });
    }

    fn create(&self, attributes: &Attributes) -> ObjectHandle {
        self.client.create(self.session, attributes).expect("a key")
    }

    fn count(&self) -> usize {
        self.client.find(self.session, &none()).len()
    }

    fn wrap(
        &self,
        id: M,
        params: &mut MessageParams,
        by: ObjectHandle,
        key: ObjectHandle,
    ) -> Result<Vec<u8>, Error> {
        let mechanism = plain(id);
        let mut wrap = |out: Output<'_>| {
            let how = Authenticated { mechanism: &mechanism, params, aad: AAD };
            self.client.module.wrap_key_authenticated(self.session, how, by, key, out)
        };
        let needed = wrap(Output::Length)?;
        let refused = wrap(Output::Buffer(&mut vec![0; needed - 1]));
        assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
        let mut out = vec![0; needed];
        assert_eq!(wrap(Output::Buffer(&mut out))?, needed);
        Ok(out)
    }

    fn unwrap(
        &self,
        id: M,
        params: &mut MessageParams,
        aad: &[u8],
        by: ObjectHandle,
        wrapped: &[u8],
        template: &Attributes,
    ) -> Result<ObjectHandle, Error> {
        let mechanism = plain(id);
        let how = Authenticated { mechanism: &mechanism, params, aad };
        self.client.module.unwrap_key_authenticated(self.session, how, by, wrapped, &template.template())
    }
}

#[test]
fn keys_are_unwrapped_and_forged_input_creates_no_object() {
    Test::each(|test| {
        let (client, session) = (&test.client, test.session);
        for (id, scheme) in CIPHERS {
            let by = secret(client, session, id, &message(32));
            let value = message(21);
            let key = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).bytes(A::VALUE, &value);
            let key = test.create(&key.and(&shown()));
            let mut made = params(scheme);
            let wrapped = test.wrap(id, &mut made, by, key).expect("a wrapped key");
            assert_eq!(wrapped.len(), value.len());
            let tagged = |tag: &[u8]| tagged(params(scheme), tag);
            let template =
                key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).flag(A::SENSITIVE, false);
            let back = test.unwrap(id, &mut tagged(made.tag()), AAD, by, &wrapped, &template);
            let back = back.expect("a key");
            assert_eq!(client.read(session, back, A::VALUE).as_ref(), Ok(&value));
            assert!(client.flag(session, back, A::EXTRACTABLE));
            for id in [A::LOCAL, A::ALWAYS_SENSITIVE, A::NEVER_EXTRACTABLE] {
                assert!(!client.flag(session, back, id), "{id}");
            }

            let before = test.count();
            let mut flipped = wrapped.clone();
            flipped[0] ^= 1;
            let wrong_tag: Vec<u8> = made.tag().iter().map(|byte| !byte).collect();
            for (tag, aad, wrapped) in [
                (made.tag(), AAD, &flipped[..]),
                (made.tag(), AAD, &wrapped[1..]),
                (made.tag(), b"of another key", &wrapped),
                (&wrong_tag, AAD, &wrapped),
            ] {
                let refused = test.unwrap(id, &mut tagged(tag), aad, by, wrapped, &template);
                assert_eq!(refused, Err(Error::WrappedKeyInvalid), "{id}");
            }
            let wrong = template.clone().number(A::VALUE_LEN, 20);
            assert!(test.unwrap(id, &mut tagged(made.tag()), AAD, by, &wrapped, &wrong).is_err());
            assert_eq!(test.count(), before);
        }
    });
}

#[test]
fn wrap_key_and_wrap_key_authenticated_give_the_same_output() {
    Test::each(|test| {
        let (client, session) = (&test.client, test.session);
        let key = test.create(
            &key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &message(32)).and(&shown()),
        );
        for (id, scheme) in CIPHERS {
            let by = secret(client, session, id, &message(32));
            let single = aead_params(scheme, &NONCE, AAD, 16, 32);
            let mechanism = Mechanism { params: single, ..plain(id) };
            let mut expected = vec![0; 48];
            let out = Output::Buffer(&mut expected);
            assert_eq!(client.module.wrap_key(session, &mechanism, by, key, out), Ok(48));
            let mut made = params(scheme);
            let wrapped = test.wrap(id, &mut made, by, key).expect("a wrapped key");
            assert_eq!([&wrapped, made.tag()].concat(), expected, "{id}");
        }
    });
}

#[test]
fn private_keys_are_unwrapped() {
    Test::each(|test| {
        let (client, session) = (&test.client, test.session);
        let by = secret(client, session, M::AES_GCM, &message(16));
        let key = test.create(&RSA.private.clone().and(&shown()));
        let mut made = params(AeadScheme::AesGcm);
        made.set_generator(Generator::Any, 0).expect("no fixed bits");
        let wrapped = test.wrap(M::AES_GCM, &mut made, by, key).expect("a wrapped key");
        assert_ne!(made.nonce(), NONCE);
        let given = MessageParams::new(AeadScheme::AesGcm, made.nonce(), 16).expect("a nonce");
        let mut given = tagged(given, made.tag());
        let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::RSA).flag(A::SIGN, true);
        let back = test.unwrap(M::AES_GCM, &mut given, AAD, by, &wrapped, &template).expect("a key");
        let mechanism = plain(M::SHA256_RSA_PKCS);
        let signature = client.sign(session, &mechanism, back, b"data");
        assert_eq!(signature, client.sign(session, &mechanism, key, b"data"));
    });
}

#[test]
fn a_key_that_cannot_be_wrapped_or_a_missing_nonce_is_refused() {
    Test::each(|test| {
        let (client, session) = (&test.client, test.session);
        let scheme = AeadScheme::AesGcm;
        let by = secret(client, session, M::AES_GCM, &message(16));
        let aes = || key_object(ObjectClass::SECRET_KEY, KeyType::AES).bytes(A::VALUE, &message(16));
        let stays = test.create(&aes().flag(A::EXTRACTABLE, false));
        let refused = test.wrap(M::AES_GCM, &mut params(scheme), by, stays);
        assert_eq!(refused, Err(Error::KeyUnextractable));

        let key = test.create(&aes().and(&shown()));
        let may_not = test.create(&aes().flag(A::WRAP, false).flag(A::UNWRAP, false));
        let refused = test.wrap(M::AES_GCM, &mut params(scheme), may_not, key);
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES);
        let refused = test.unwrap(M::AES_GCM, &mut params(scheme), AAD, may_not, &[0; 16], &template);
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        let refused = test.wrap(M::AES_GCM, &mut params(scheme), ObjectHandle(0), key);
        assert_eq!(refused, Err(Error::WrappingKeyHandleInvalid));
        let refused = test.unwrap(M::AES_GCM, &mut params(scheme), AAD, ObjectHandle(0), &[0; 16], &template);
        assert_eq!(refused, Err(Error::UnwrappingKeyHandleInvalid));

        // A counter would start at zero again for each wrapped key, and repeat its nonces.
        for generator in [Generator::Counter, Generator::CounterXor] {
            let mechanism = plain(M::AES_GCM);
            let mut counted = params(scheme);
            counted.set_generator(generator, 0).expect("no fixed bits");
            let how = Authenticated { mechanism: &mechanism, params: &mut counted, aad: AAD };
            let out = Output::Buffer(&mut [0; 16]);
            let refused = client.module.wrap_key_authenticated(session, how, by, key, out);
            assert_eq!(refused, Err(Error::MechanismParamInvalid));
        }
        // The parameter of another cipher, and a mechanism that does not authenticate.
        let refused = test.wrap(M::AES_CCM, &mut params(scheme), by, key);
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
        let refused = test.wrap(M::AES_CBC, &mut params(scheme), by, key);
        assert_eq!(refused, Err(Error::MechanismInvalid));
    });
}

#[test]
fn wrap_key_authenticated_generates_the_nonce_of_the_parameter() {
    Test::each(|test| {
        let made = |session, generator, fixed_bits| {
            let mut given = params(AeadScheme::AesGcm);
            given.set_generator(generator, fixed_bits).expect("fixed bits of the nonce");
            test.client.module.wrapping_nonce(session, &mut given)?;
            Ok::<_, Error>(given.nonce().to_vec())
        };
        assert_eq!(made(test.session, Generator::None, 0), Ok(NONCE.to_vec()));
        for generator in [Generator::Any, Generator::Random] {
            let one = made(test.session, generator, 16).expect("a nonce");
            let two = made(test.session, generator, 16).expect("a nonce");
            assert_ne!(one, two);
            assert_eq!((&one[..2], &two[..2]), (&NONCE[..2], &NONCE[..2]));
        }
        for generator in [Generator::Counter, Generator::CounterXor] {
            assert_eq!(made(test.session, generator, 0), Err(Error::MechanismParamInvalid));
        }
        assert_eq!(made(SessionHandle(0), Generator::Any, 0), Err(Error::SessionHandleInvalid));
    });
}

#[test]
fn an_invalid_session_handle_has_its_own_error() {
    Test::each(|test| {
        let module = &test.client.module;
        assert_eq!(module.no_session(test.session), None);
        assert_eq!(module.no_session(SessionHandle(0)), Some(Error::SessionHandleInvalid));
    });
}
