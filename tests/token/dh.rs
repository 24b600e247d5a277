//! Diffie-Hellman: key pairs, domain parameters, invalid groups and values. The known answer is
//! in `conformance/src/mechanisms/protocols.rs`.

use crate::prelude::*;

/// A private value, and `pow(2, PRIVATE, PRIME)` in Python.
const PRIVATE: &str = "b9a3b3ae8fefc1a2930496507086f8455d48943e";
const PUBLIC: &str = "47ffad7782a59da4f747d14a1f0a25bad876172a8078247c3c9294788a29eb123cdb879ba84775ccc4f5fb6\
    261d4297eae562618e611e6182a9d1e321ca5d05440e7889ef003fec60be7681f2cfc4baaa3934bd3e0a2628cf8980c02061d90a8\
    f3a9542c848c3a542b3afedddfc16b2a394befd1049bef3600b9998a0669a8ff";

fn key(class: ObjectClass, value: &str) -> Attributes {
    key_object(class, KeyType::DH).and(&group()).bytes(A::VALUE, &hex(value))
}

fn agree(
    client: &Client,
    session: SessionHandle,
    private: ObjectHandle,
    peer: &[u8],
    template: &Attributes,
) -> Result<Vec<u8>, Error> {
    let mechanism = Mechanism { params: Params::Data(peer.into()), ..plain(M::DH_PKCS_DERIVE) };
    let template = template.clone().and(&shown());
    let key = client.derive_key(session, &mechanism, private, &template.template())?;
    client.read(session, key, A::VALUE)
}

/// The attacks "Diffie-Hellman with the public value …" have the values that force the secret.
#[test]
fn a_peer_value_outside_the_group_is_refused() {
    each_user(|client, session| {
        let private = client.create(session, &key(ObjectClass::PRIVATE_KEY, PRIVATE)).expect("a key");
        for peer in [&[0xff; 128][..], &[1; 129]] {
            assert_eq!(agree(client, session, private, peer, &none()), Err(Error::MechanismParamInvalid));
        }
        // A public key does not derive.
        let public = key(ObjectClass::PUBLIC_KEY, PUBLIC).flag(A::DERIVE, true);
        let public = client.create(session, &public).expect("a key");
        assert_eq!(agree(client, session, public, &hex(PUBLIC), &none()), Err(Error::KeyTypeInconsistent));
        let missing = plain(M::DH_PKCS_DERIVE);
        let refused = client.derive_key(session, &missing, private, &none().template());
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
    });
}

#[test]
fn key_pairs_are_generated_in_the_group_of_the_template() {
    each_user(|client, session| {
        let make = |private: &Attributes| {
            client.generate(session, M::DH_PKCS_KEY_PAIR_GEN, &group(), &private.clone().and(&shown()))
        };
        let (a, b) =
            (make(&none()).expect("a pair"), make(&none().number(A::VALUE_BITS, 163)).expect("a pair"));
        let value = |key| client.read(session, key, A::VALUE).expect("a value");
        assert_eq!(client.number(session, a.1, A::VALUE_BITS), 1023);
        assert_eq!(client.number(session, b.1, A::VALUE_BITS), 163);
        let own = value(b.1);
        assert_eq!((own.len(), own[0] >> 2), (21, 1));
        for key in [a.0, a.1, b.0, b.1] {
            assert_eq!(client.read(session, key, A::PRIME), Ok(hex(PRIME)));
            assert_eq!(client.read(session, key, A::BASE), Ok(hex(BASE)));
            assert!(client.flag(session, key, A::LOCAL));
        }
        let secret = agree(client, session, a.1, &value(b.0), &none());
        assert_eq!(secret.as_ref().map(Vec::len), Ok(128));
        // A "Big integer" may have leading zeros.
        let padded = [vec![0; 3], value(a.0)].concat();
        assert_eq!(secret, agree(client, session, b.1, &padded, &none()));
        let aes = none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 32);
        let short = agree(client, session, a.1, &value(b.0), &aes);
        assert_eq!(short, secret.clone().map(|secret| secret[96..].to_vec()));
        let longer = none().number(A::VALUE_LEN, 129);
        assert_eq!(agree(client, session, a.1, &value(b.0), &longer), Err(Error::TemplateInconsistent));

        let copy = client.copy(session, a.1, &none()).expect("a copy");
        assert_eq!(agree(client, session, copy, &value(b.0), &none()), secret);
        for bits in [0, 1, 159, 1024, u64::MAX] {
            assert_eq!(make(&none().number(A::VALUE_BITS, bits)), Err(Error::KeySizeRange), "{bits}");
        }
        let refuses = |public: Attributes, error| {
            assert_eq!(client.generate(session, M::DH_PKCS_KEY_PAIR_GEN, &public, &none()), Err(error));
        };
        refuses(group().without(A::BASE), Error::TemplateIncomplete);
        refuses(group().without(A::PRIME), Error::TemplateIncomplete);
        refuses(group().bytes(A::VALUE, &[7]), Error::TemplateInconsistent);
        let mut even = hex(PRIME);
        even[127] ^= 1;
        refuses(group().without(A::PRIME).bytes(A::PRIME, &even), Error::DomainParamsInvalid);
        refuses(group().without(A::BASE).bytes(A::BASE, &[1]), Error::DomainParamsInvalid);
        refuses(group().without(A::BASE).bytes(A::BASE, &hex(PRIME)), Error::DomainParamsInvalid);
        // This prime is long enough for an imported key, but too short for key generation.
        refuses(none().bytes(A::PRIME, &[0xff; 127]).bytes(A::BASE, &[2]), Error::KeySizeRange);
    });
}

#[test]
fn imported_keys_and_groups_are_checked() {
    each_user(|client, session| {
        let refuses = |class, id, value: &[u8], error| {
            let template = key(class, PRIVATE).without(id).bytes(id, value);
            assert_eq!(client.create(session, &template), Err(error));
        };
        let (public, private) = (ObjectClass::PUBLIC_KEY, ObjectClass::PRIVATE_KEY);
        for value in [&[][..], &[0], &[1], &hex(PRIME)] {
            refuses(public, A::VALUE, value, Error::AttributeValueInvalid);
        }
        for value in [&[][..], &[0], &hex(PRIME)] {
            refuses(private, A::VALUE, value, Error::AttributeValueInvalid);
        }
        refuses(private, A::BASE, &[0], Error::DomainParamsInvalid);
        refuses(private, A::PRIME, &[0xff; 63], Error::KeySizeRange);
        refuses(private, A::PRIME, &[0xff; 1025], Error::KeySizeRange);
        let sized = key(private, PRIVATE).number(A::VALUE_BITS, 160);
        assert_eq!(client.create(session, &sized), Err(Error::AttributeReadOnly));

        let parameters = Attributes::of(ObjectClass::DOMAIN_PARAMETERS).number(A::KEY_TYPE, KeyType::DH.0);
        let made = client.create(session, &parameters.clone().and(&group())).expect("parameters");
        assert_eq!(client.number(session, made, A::PRIME_BITS), 1024);
        assert!(!client.flag(session, made, A::LOCAL) && !client.flag(session, made, A::PRIVATE));
        assert_eq!(client.find(session, &parameters), [made]);
        let copy = client.copy(session, made, &none().label("copy")).expect("a copy");
        assert_eq!(client.read(session, copy, A::PRIME), Ok(hex(PRIME)));
        let half = parameters.clone().bytes(A::PRIME, &hex(PRIME));
        assert_eq!(client.create(session, &half), Err(Error::TemplateIncomplete));
        let wrong = half.bytes(A::BASE, &[1]);
        assert_eq!(client.create(session, &wrong), Err(Error::DomainParamsInvalid));
        let sized = parameters.and(&group()).number(A::PRIME_BITS, 1024);
        assert_eq!(client.create(session, &sized), Err(Error::AttributeReadOnly));
        let make = |template: &Attributes| client.generate_key(session, M::DH_PKCS_PARAMETER_GEN, template);
        for bits in [0, 512, 1023, 4097, u64::MAX] {
            assert_eq!(make(&none().number(A::PRIME_BITS, bits)), Err(Error::KeySizeRange));
        }
        assert_eq!(make(&none()), Err(Error::TemplateIncomplete));
        let given = none().number(A::PRIME_BITS, 1024).bytes(A::PRIME, &hex(PRIME));
        assert_eq!(make(&given), Err(Error::AttributeReadOnly));
        // Domain parameters are not a key.
        assert_eq!(agree(client, session, made, &hex(PUBLIC), &none()), Err(Error::KeyHandleInvalid));
    });
}

/// In a group with small subgroups, peers of a small order show the private value modulo their
/// order.
#[test]
fn keys_agree_in_a_group_without_small_subgroups() {
    each_backend(|provider| {
        // The prime of RFC 5114, 2.1.
        let prime = "b10b8f96a080e01dde92de5eae5d54ec52c99fbcfb06a3c69a6a9dca52d23b616073e28675a23d189838ef1e2ee652c013ec\
            b4aea906112324975c3cd49b83bfaccbdd7d90c4bd7098488e9c219a73724effd6fae5644738faa31a4ff55bccc0a151af5f\
            0dc8b4bd45bf37df365c1a65e68cfda76d4da708df1fb2bc2e4a4371";
        for (policy, allowed) in
            [("", false), ("any-dh-group = true", true), ("name = 'strict', any-dh-group = true", false)]
        {
            let client = Client::with(provider, &format!(", policy = {{ {policy} }}"));
            let session = client.user();
            let key = key(ObjectClass::PRIVATE_KEY, PRIVATE).without(A::PRIME).bytes(A::PRIME, &hex(prime));
            let Ok(private) = client.create(session, &key.flag(A::DERIVE, true)) else {
                assert!(!allowed, "strict refuses short primes");
                continue;
            };
            let mechanism = Mechanism { params: Params::Data([9].into()), ..plain(M::DH_PKCS_DERIVE) };
            for _ in 0..2 {
                let made = client.derive_key(session, &mechanism, private, &none().template());
                assert_eq!(made.err(), (!allowed).then_some(Error::KeyFunctionNotPermitted));
            }
        }
    });
}
