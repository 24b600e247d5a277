//! DSA: key pairs and domain parameters, import, and invalid numbers.

use crate::prelude::*;

/// RFC 6979, A.2.1: the key pair in the group of `keys.rs`.
const PRIVATE: &str = "411602cb19a6ccc34494d79d98ef1e7ed5af25f7";
const PUBLIC: &str = "5df5e01ded31d0297e274e1691c192fe5868fef9e19a84776454b100cf16f65392195a38b90523e2542ee61871c04\
    40cb87c322fc4b4d2ec5e1e7ec766e1be8d4ce935437dc11c3c8fd426338933ebfe739cb3465f4d3668c5e473508253b1e6\
    82f65cbdc4fae93c2ea212390e54905a86e2223170b44eaa7da5dd9ffcfb7f3b";

fn key(class: ObjectClass) -> Attributes {
    let value = if class == ObjectClass::PUBLIC_KEY { PUBLIC } else { PRIVATE };
    key_object(class, KeyType::DSA).and(&dsa_group()).bytes(A::VALUE, &hex(value))
}

/// PKCS#11 3.2, "DSA without hashing": a digest of 20, 28, 32, 48 or 64 bytes, in one part.
#[test]
fn bare_dsa_takes_digests_in_one_part() {
    each_user(|client, session| {
        let (public, private) = pair(client, session, Kind::Dsa, &none());
        let mechanism = plain(M::DSA);
        for len in [0, 19, 21, 31, 33, 65] {
            let refused = client.sign(session, &mechanism, private, &vec![7; len]);
            assert_eq!(refused, Err(Error::DataLenRange), "{len}");
            let refused = client.verify(session, &mechanism, public, &vec![7; len], &[7; 40]);
            assert_eq!(refused, Err(Error::DataLenRange), "{len}");
        }
        for len in [0, 39, 41, 64] {
            let refused = client.verify(session, &mechanism, public, &[7; 20], &vec![1; len]);
            assert_eq!(refused, Err(Error::SignatureLenRange), "{len}");
        }
        client.sign_init(session, &mechanism, private).expect("an operation");
        assert_eq!(client.sign_update(session, &[7; 20]), Err(Error::OperationNotInitialized));
    });
}

#[test]
fn key_pairs_are_generated_in_the_group_of_the_template() {
    each_user(|client, session| {
        let make = |public: &Attributes, private: &Attributes| {
            client.generate(session, M::DSA_KEY_PAIR_GEN, public, private)
        };
        let (public, private) = make(&dsa_group(), &shown()).expect("a pair");
        for object in [public, private] {
            assert_eq!(client.read(session, object, A::PRIME), Ok(hex(DSA_PRIME)));
            assert_eq!(client.read(session, object, A::SUBPRIME), Ok(hex(DSA_SUBPRIME)));
            assert_eq!(client.read(session, object, A::BASE), Ok(hex(DSA_BASE)));
            assert!(client.flag(session, object, A::LOCAL));
        }
        assert!(client.flag(session, public, A::VERIFY) && client.flag(session, private, A::SIGN));
        let value = client.read(session, private, A::VALUE).expect("a value");
        assert!(value.len() <= 20 && value.first().is_some_and(|first| *first != 0));
        for id in [A::PRIME, A::SUBPRIME, A::BASE] {
            assert_eq!(make(&dsa_group().without(id), &none()), Err(Error::TemplateIncomplete), "{id}");
        }
        assert_eq!(make(&dsa_group().bytes(A::VALUE, &[7]), &none()), Err(Error::TemplateInconsistent));
        assert_eq!(make(&dsa_group(), &none().bytes(A::VALUE, &[7])), Err(Error::AttributeReadOnly));
        let wrong = make(&dsa_group().without(A::BASE).bytes(A::BASE, &[2]), &none());
        assert_eq!(wrong, Err(Error::DomainParamsInvalid));
    });
}

#[test]
fn domain_parameters_are_generated_and_imported() {
    each_user(|client, session| {
        let make = |template: &Attributes| client.generate_key(session, M::DSA_PARAMETER_GEN, template);
        let made = make(&none().number(A::PRIME_BITS, 1024)).expect("domain parameters");
        assert_eq!(client.number(session, made, A::CLASS), ObjectClass::DOMAIN_PARAMETERS.0);
        assert_eq!(client.number(session, made, A::KEY_TYPE), KeyType::DSA.0);
        assert_eq!(client.number(session, made, A::PRIME_BITS), 1024);
        assert_eq!(client.number(session, made, A::SUBPRIME_BITS), 160);
        assert!(client.flag(session, made, A::LOCAL));
        let group = [A::PRIME, A::SUBPRIME, A::BASE]
            .into_iter()
            .fold(none(), |group, id| group.bytes(id, &client.read(session, made, id).expect("a number")));
        let (public, private) =
            client.generate(session, M::DSA_KEY_PAIR_GEN, &group, &none()).expect("a pair");
        let signature = client.sign(session, &plain(M::DSA_SHA1), private, b"data").expect("a signature");
        assert_eq!(client.verify(session, &plain(M::DSA_SHA1), public, b"data", &signature), Ok(()));

        let imported = Attributes::of(ObjectClass::DOMAIN_PARAMETERS).number(A::KEY_TYPE, KeyType::DSA.0);
        let imported = client.create(session, &imported.and(&group)).expect("domain parameters");
        assert_eq!(client.number(session, imported, A::SUBPRIME_BITS), 160);
        assert!(!client.flag(session, imported, A::LOCAL));

        for bits in [0, 512, 1023, 1088, 3073, u64::MAX] {
            assert_eq!(make(&none().number(A::PRIME_BITS, bits)), Err(Error::KeySizeRange), "{bits}");
        }
        for (bits, subprime) in [(1024, 256), (2048, 160), (3072, 0), (1024, u64::MAX)] {
            let template = none().number(A::PRIME_BITS, bits).number(A::SUBPRIME_BITS, subprime);
            assert_eq!(make(&template), Err(Error::KeySizeRange));
        }
        assert_eq!(make(&none()), Err(Error::TemplateIncomplete));
        let given = none().number(A::PRIME_BITS, 1024).bytes(A::SUBPRIME, &[7]);
        assert_eq!(make(&given), Err(Error::AttributeReadOnly));
    });
}

#[test]
fn imported_numbers_are_checked() {
    each_user(|client, session| {
        let refuses = |class, id, value: &[u8], error| {
            let refused = client.create(session, &key(class).without(id).bytes(id, value));
            assert_eq!(refused, Err(error), "{id} {}", value.len());
        };
        let (public, private) = (ObjectClass::PUBLIC_KEY, ObjectClass::PRIVATE_KEY);
        for value in [&[][..], &[0], &hex(DSA_SUBPRIME), &[0xff; 20], &[1; 400]] {
            refuses(private, A::VALUE, value, Error::AttributeValueInvalid);
        }
        // Its order is 2.
        let mut largest = hex(DSA_PRIME);
        largest[127] -= 1;
        for value in [&[][..], &[0], &[1], &[2], &largest, &hex(DSA_PRIME), &[0xff; 400]] {
            refuses(public, A::VALUE, value, Error::AttributeValueInvalid);
        }
        let parameters = Attributes::of(ObjectClass::DOMAIN_PARAMETERS).number(A::KEY_TYPE, KeyType::DSA.0);
        let parameters = parameters.and(&dsa_group());
        for (id, value, error) in [
            (A::PRIME, &[][..], Error::KeySizeRange),
            (A::PRIME, &[0xff; 127], Error::KeySizeRange),
            (A::PRIME, &[0xff; 385], Error::KeySizeRange),
            (A::PRIME, &[0xff; 1 << 16], Error::KeySizeRange),
            (A::PRIME, &[0xfe; 128], Error::DomainParamsInvalid),
            (A::SUBPRIME, &[], Error::KeySizeRange),
            (A::SUBPRIME, &[0xff; 19], Error::KeySizeRange),
            (A::SUBPRIME, &[0xff; 33], Error::KeySizeRange),
            (A::SUBPRIME, &[0xff; 20], Error::DomainParamsInvalid),
            (A::BASE, &[], Error::DomainParamsInvalid),
            (A::BASE, &[1], Error::DomainParamsInvalid),
            (A::BASE, &[2], Error::DomainParamsInvalid),
            (A::BASE, &largest, Error::DomainParamsInvalid),
            (A::BASE, &hex(DSA_PRIME), Error::DomainParamsInvalid),
        ] {
            refuses(public, id, value, error);
            refuses(private, id, value, error);
            let refused = client.create(session, &parameters.clone().without(id).bytes(id, value));
            assert_eq!(refused, Err(error), "{id} {}", value.len());
        }
        // A number may have leading zeros. The token removes them.
        let padded = [vec![0; 4], hex(DSA_PRIME)].concat();
        let padded = key(public).without(A::PRIME).bytes(A::PRIME, &padded);
        let padded = client.create(session, &padded).expect("a key");
        assert_eq!(client.read(session, padded, A::PRIME), Ok(hex(DSA_PRIME)));
    });
}
