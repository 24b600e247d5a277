//! The public key of a private one (`CKM_PUB_KEY_FROM_PRIV_KEY`).

use crate::prelude::*;

fn derive(
    client: &Client,
    session: SessionHandle,
    private: ObjectHandle,
    template: &Attributes,
) -> Result<ObjectHandle, Error> {
    client.derive_key(session, &plain(M::PUB_KEY_FROM_PRIV_KEY), private, &template.template())
}

#[test]
fn the_public_key_of_every_private_key_matches_its_pair() {
    each_user(|client, session| {
        let agreeing = [Kind::X25519, Kind::X448, Kind::Dh];
        for kind in Kind::PAIRS.into_iter().chain(agreeing).chain(Kind::ENCAPSULATING) {
            println!("{kind:?}");
            // "Regardless of its CKA_DERIVE attribute value."
            let (public, private) = pair(client, session, kind, &none().flag(A::DERIVE, false));
            let made = derive(client, session, private, &none()).expect("a public key");
            assert_eq!(client.number(session, made, A::CLASS), ObjectClass::PUBLIC_KEY.0);
            for id in [
                A::KEY_TYPE,
                A::MODULUS,
                A::MODULUS_BITS,
                A::PUBLIC_EXPONENT,
                A::EC_PARAMS,
                A::EC_POINT,
                A::PARAMETER_SET,
                A::VALUE,
                A::PRIME,
                A::SUBPRIME,
                A::BASE,
                A::KEY_GEN_MECHANISM,
            ] {
                assert_eq!(client.read(session, made, id), client.read(session, public, id), "{id}");
            }
        }
    });
}

#[test]
fn omitted_attributes_come_from_the_private_key() {
    each_user(|client, session| {
        let private =
            none().flag(A::SIGN, false).bytes(A::ID, b"id").bytes(A::SUBJECT, b"subject").label("x");
        let kind = Kind::P256;
        let (_, private) =
            client.generate(session, kind.generator(), &kind.request(), &private).expect("a pair");
        let made = derive(client, session, private, &none()).expect("a public key");
        for (id, expected) in [
            (A::VERIFY, false),
            (A::DERIVE, true),
            (A::TOKEN, false),
            (A::PRIVATE, false),
            (A::LOCAL, false),
            (A::MODIFIABLE, true),
            (A::COPYABLE, true),
            (A::DESTROYABLE, false),
            (A::TRUSTED, false),
        ] {
            assert_eq!(client.flag(session, made, id), expected, "{id}");
        }
        let text = |id| client.read(session, made, id).expect("bytes");
        assert_eq!([text(A::ID), text(A::SUBJECT), text(A::LABEL)], [&b"id"[..], b"subject", b""]);

        let own = none().label("own").bytes(A::ID, b"other").flag(A::VERIFY, true).flag(A::DESTROYABLE, true);
        let own = own.number(A::KEY_TYPE, KeyType::EC.0).stored();
        let made = derive(client, session, private, &own).expect("a public key");
        for id in own.ids() {
            assert_eq!(client.read(session, made, id).expect("an attribute"), own.value(id), "{id}");
        }
        for (wrong, error) in [
            (none().number(A::CLASS, ObjectClass::PRIVATE_KEY.0), Error::TemplateInconsistent),
            (none().number(A::KEY_TYPE, KeyType::RSA.0), Error::TemplateInconsistent),
            (none().bytes(A::EC_PARAMS, P384), Error::TemplateInconsistent),
            (none().bytes(A::EC_POINT, &[4, 1, 2]), Error::TemplateInconsistent),
            (none().flag(A::SENSITIVE, true), Error::TemplateInconsistent),
            (none().flag(A::LOCAL, true), Error::AttributeReadOnly),
            (none().flag(A::TRUSTED, true), Error::AttributeReadOnly),
        ] {
            assert_eq!(derive(client, session, private, &wrong), Err(error));
        }
    });
}

#[test]
fn a_public_key_is_derived_only_from_a_private_key() {
    each_user(|client, session| {
        let (public, _) = pair(client, session, Kind::P256, &none());
        let (secret, _) = pair(client, session, Kind::Generic, &none());
        for wrong in [public, secret] {
            assert_eq!(derive(client, session, wrong, &none()), Err(Error::KeyTypeInconsistent));
        }
        assert_eq!(derive(client, session, ObjectHandle(0), &none()), Err(Error::KeyHandleInvalid));
        // The backend finds the missing public exponent of an RSA key.
        let half = [A::PUBLIC_EXPONENT, A::PRIME_1, A::PRIME_2, A::EXPONENT_1, A::EXPONENT_2, A::COEFFICIENT];
        let half = half.into_iter().fold(RSA.private.clone(), Attributes::without);
        let private = client.create(session, &half).expect("a key");
        let public = derive(client, session, private, &none()).expect("a public key");
        assert_eq!(client.read(session, public, A::PUBLIC_EXPONENT), Ok(vec![1, 0, 1]));
    });
}
