//! Diffie-Hellman: the known answers of RFC 5114, key pairs that agree, and invalid groups.

use jeton::backend::Provider;
use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::{Mechanism, Params};

use crate::keys::{BASE, PRIME, group, key_object};
use crate::support::{Attributes, Client, each_backend, hex, none, plain};

/// RFC 5114, A.1: the key pairs of the 1024-bit group and their shared secret.
const PRIVATE_A: &str = "b9a3b3ae8fefc1a2930496507086f8455d48943e";
const PUBLIC_A: &str = "2a853b3d92197501b9015b2deb3ed84f5e021dcc3e52f109d3273d2b7521281cbabe0e76ff5727fa8acce26956ba9a1fca26\
    f20228d8693feb10841d84a7360054ece5a7f5b7a61ad3dfb3c60d2e43106d8727da37df9cce95b478755d06bcea8f9d4596\
    5f75a5f3d1df3701165fc9e50c4279ceb07f989540ae96d5d88ed776";
const PRIVATE_B: &str = "9392c9f9eb6a7a6a9022f7d83e7223c6835bbdda";
const PUBLIC_B: &str = "717a6cb053371ff4a3b932941c1e5663f861a1d6ad34ae66576dfb98f6c6cbf9ddd5a56c7833f6bcfdff095582ad868e440e\
    8d09fd769e3ceccdc3d3b1e4cfa057776caaf9739b6a9fee8e7411f8d6dac09d6a4edb46cc2b5d5203090eae6126311e53fd\
    2c14b574e6a3109a3da1be41bdceaa186f5ce06716a2b6a07b3c33fe";
const SECRET: &str = "5c804f454d30d9c4df85271f93528c91df6b48ab5f80b3b59caac1b28f8acba9cd3e39f3cb614525d9521d2e644c53b807b8\
    10f340062f257d7d6fbfe8d5e8f072e9b6e9afda9413eafb2e8b0699b1fb5a0caceddeaead7e9cfbb36ae2b420835bd83a19\
    fb0b5e96bf8fa4d09e345525167ecd9155416f46f408ed31b63c6e6d";

fn shown() -> Attributes {
    none().flag(A::SENSITIVE, false).flag(A::EXTRACTABLE, true)
}

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
    let key = client.module.derive_key(session, &mechanism, private, &template.template())?;
    client.read(session, key, A::VALUE)
}

#[test]
fn published_key_pairs_derive_the_published_secret() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        for (own, peer) in [(PRIVATE_A, PUBLIC_B), (PRIVATE_B, PUBLIC_A)] {
            let private = client.create(session, &key(ObjectClass::PRIVATE_KEY, own)).expect("a key");
            let secret = hex(SECRET);
            assert_eq!(agree(&client, session, private, &hex(peer), &none()), Ok(secret.clone()));
            // A "Big integer" may have leading zeros.
            let padded = [vec![0; 3], hex(peer)].concat();
            assert_eq!(agree(&client, session, private, &padded, &none()), Ok(secret.clone()));
            let aes = none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 32);
            assert_eq!(agree(&client, session, private, &hex(peer), &aes), Ok(secret[96..].to_vec()));
            let longer = none().number(A::VALUE_LEN, 129);
            let refused = agree(&client, session, private, &hex(peer), &longer);
            assert_eq!(refused, Err(Error::TemplateInconsistent));
        }
        let public = client.create(session, &key(ObjectClass::PUBLIC_KEY, PUBLIC_A)).expect("a key");
        assert_eq!(client.read(session, public, A::VALUE), Ok(hex(PUBLIC_A)));
    });
}

#[test]
fn a_peer_value_that_forces_the_secret_is_refused() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let private = client.create(session, &key(ObjectClass::PRIVATE_KEY, PRIVATE_A)).expect("a key");
        let prime = hex(PRIME);
        let mut before = prime.clone();
        before[127] -= 1;
        for peer in [&[0][..], &[1], &[0, 1], &before, &prime, &[0xff; 128], &[1; 129]] {
            let refused = agree(&client, session, private, peer, &none());
            assert_eq!(refused, Err(Error::MechanismParamInvalid));
        }
        // A public key does not derive.
        let public = key(ObjectClass::PUBLIC_KEY, PUBLIC_A).flag(A::DERIVE, true);
        let public = client.create(session, &public).expect("a key");
        let refused = agree(&client, session, public, &hex(PUBLIC_B), &none());
        assert_eq!(refused, Err(Error::KeyTypeInconsistent));
        let missing = plain(M::DH_PKCS_DERIVE);
        let refused = client.module.derive_key(session, &missing, private, &none().template());
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
    });
}

#[test]
fn key_pairs_are_generated_in_the_group_of_the_template() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
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
        let secret = agree(&client, session, a.1, &value(b.0), &none());
        assert_eq!(secret.as_ref().map(Vec::len), Ok(128));
        assert_eq!(secret, agree(&client, session, b.1, &value(a.0), &none()));

        let copy = client.copy(session, a.1, &none()).expect("a copy");
        assert_eq!(agree(&client, session, copy, &value(b.0), &none()), secret);
        for bits in [0, 1, 159, 1024, u64::MAX] {
            assert_eq!(make(&none().number(A::VALUE_BITS, bits)), Err(Error::KeySizeRange), "{bits}");
        }
        let refuses = |public: Attributes, error| {
            let made = client.generate(session, M::DH_PKCS_KEY_PAIR_GEN, &public, &none());
            assert_eq!(made, Err(error));
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
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let refuses = |class, id, value: &[u8], error| {
            let template = key(class, PRIVATE_A).without(id).bytes(id, value);
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
        let sized = key(private, PRIVATE_A).number(A::VALUE_BITS, 160);
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
        // Domain parameters are not a key.
        let refused = agree(&client, session, made, &hex(PUBLIC_B), &none());
        assert_eq!(refused, Err(Error::KeyHandleInvalid));
    });
}

/// Prime generation is slow, so this test uses only one backend. tests/backend checks the primes of
/// every backend.
#[test]
fn generated_domain_parameters_make_key_pairs_that_agree() {
    let client = Client::new(Provider::ALL[0]);
    let session = client.user();
    let make = |template: &Attributes| {
        client.module.generate_key(session, &plain(M::DH_PKCS_PARAMETER_GEN), &template.template())
    };
    let made = make(&none().number(A::PRIME_BITS, 1024).label("group")).expect("parameters");
    assert_eq!(client.number(session, made, A::CLASS), ObjectClass::DOMAIN_PARAMETERS.0);
    assert_eq!(client.number(session, made, A::KEY_TYPE), KeyType::DH.0);
    assert!(client.flag(session, made, A::LOCAL));
    let [prime, base] = [A::PRIME, A::BASE].map(|id| client.read(session, made, id).expect("a number"));
    assert_eq!((prime.len(), prime[0] >> 7, prime[127] & 3), (128, 1, 3));
    let group = none().bytes(A::PRIME, &prime).bytes(A::BASE, &base);
    let private = shown().number(A::VALUE_BITS, 225);
    let pairs = [(); 2]
        .map(|()| client.generate(session, M::DH_PKCS_KEY_PAIR_GEN, &group, &private).expect("a pair"));
    let public = pairs.map(|(public, _)| client.read(session, public, A::VALUE).expect("a value"));
    let secret = agree(&client, session, pairs[0].1, &public[1], &none());
    assert!(secret.is_ok());
    assert_eq!(secret, agree(&client, session, pairs[1].1, &public[0], &none()));
    for bits in [0, 512, 1023, 4097, u64::MAX] {
        assert_eq!(make(&none().number(A::PRIME_BITS, bits)), Err(Error::KeySizeRange));
    }
    assert_eq!(make(&none()), Err(Error::TemplateIncomplete));
    let given = none().number(A::PRIME_BITS, 1024).bytes(A::PRIME, &prime);
    assert_eq!(make(&given), Err(Error::AttributeReadOnly));
}

#[test]
fn a_private_key_is_wrapped_as_pkcs_8_and_unwrapped() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let template = key(ObjectClass::PRIVATE_KEY, PRIVATE_A).and(&shown());
        let private = client.create(session, &template).expect("a key");
        let by = none().number(A::VALUE_LEN, 32);
        let by = client.module.generate_key(session, &plain(M::AES_KEY_GEN), &by.template()).expect("a key");
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        let mut wrapped = vec![0; 1024];
        let out = jeton::module::Output::Buffer(&mut wrapped);
        let len = client.module.wrap_key(session, &kwp, by, private, out).expect("a wrapped key");
        let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::DH);
        let unwrap = |template: &Attributes| {
            client.module.unwrap_key(session, &kwp, by, &wrapped[..len], &template.template())
        };
        let back = unwrap(&template).expect("a key");
        assert_eq!(client.number(session, back, A::VALUE_BITS), 160);
        assert_eq!(agree(&client, session, back, &hex(PUBLIC_B), &none()), Ok(hex(SECRET)));
        let sized = |bits| template.clone().number(A::VALUE_BITS, bits);
        assert!(unwrap(&sized(160)).is_ok());
        assert_eq!(unwrap(&sized(161)), Err(Error::TemplateInconsistent));
        let other = template.clone().bytes(A::BASE, &[2]);
        assert_eq!(unwrap(&other), Err(Error::TemplateInconsistent));
    });
}
