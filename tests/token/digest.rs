//! Digests: known answers, in one part and in several.

use jeton::error::Error;
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass};
use jeton::module::Output;

use crate::keys::{RSA, key_object};
use crate::support::{Client, each_backend, plain};

/// Mechanism, digest length, and the first bytes of the digests of `abc` and of the empty message
/// (the examples of FIPS 180-4 and 202).
pub const KNOWN: [(M, usize, [u8; 4], [u8; 4]); 15] = [
    (M::SHA_1, 20, [0xa9, 0x99, 0x3e, 0x36], [0xda, 0x39, 0xa3, 0xee]),
    (M::SHA224, 28, [0x23, 0x09, 0x7d, 0x22], [0xd1, 0x4a, 0x02, 0x8c]),
    (M::SHA256, 32, [0xba, 0x78, 0x16, 0xbf], [0xe3, 0xb0, 0xc4, 0x42]),
    (M::SHA384, 48, [0xcb, 0x00, 0x75, 0x3f], [0x38, 0xb0, 0x60, 0xa7]),
    (M::SHA512, 64, [0xdd, 0xaf, 0x35, 0xa1], [0xcf, 0x83, 0xe1, 0x35]),
    (M::SHA512_224, 28, [0x46, 0x34, 0x27, 0x0f], [0x6e, 0xd0, 0xdd, 0x02]),
    (M::SHA512_256, 32, [0x53, 0x04, 0x8e, 0x26], [0xc6, 0x72, 0xb8, 0xd1]),
    (M::SHA3_224, 28, [0xe6, 0x42, 0x82, 0x4c], [0x6b, 0x4e, 0x03, 0x42]),
    (M::SHA3_256, 32, [0x3a, 0x98, 0x5d, 0xa7], [0xa7, 0xff, 0xc6, 0xf8]),
    (M::SHA3_384, 48, [0xec, 0x01, 0x49, 0x82], [0x0c, 0x63, 0xa7, 0x5b]),
    (M::SHA3_512, 64, [0xb7, 0x51, 0x85, 0x0b], [0xa6, 0x9f, 0x73, 0xcc]),
    // Python's `hashlib` computed these.
    (M::BLAKE2B_160, 20, [0x38, 0x42, 0x64, 0xf6], [0x33, 0x45, 0x52, 0x4a]),
    (M::BLAKE2B_256, 32, [0xbd, 0xdd, 0x81, 0x3c], [0x0e, 0x57, 0x51, 0xc0]),
    (M::BLAKE2B_384, 48, [0x6f, 0x56, 0xa8, 0x2c], [0xb3, 0x28, 0x11, 0x42]),
    (M::BLAKE2B_512, 64, [0xba, 0x80, 0xa5, 0x3f], [0x78, 0x6a, 0x02, 0xf7]),
];

#[test]
fn digests_have_the_known_values_in_one_part_and_in_several() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.open());
        for (id, len, abc, nothing) in KNOWN {
            let once = |data: &[u8]| {
                let mut out = [0; 64];
                module.digest_init(session, &plain(id)).expect("an operation");
                assert_eq!(module.digest(session, data, Output::Buffer(&mut out)), Ok(len));
                out
            };
            let parts = |parts: &[&[u8]]| {
                let mut out = [0; 64];
                module.digest_init(session, &plain(id)).expect("an operation");
                for part in parts {
                    module.digest_update(session, part).expect("a part");
                }
                assert_eq!(module.digest_final(session, Output::Buffer(&mut out)), Ok(len));
                out
            };
            assert_eq!((&once(b"abc")[..4], &once(b"")[..4]), (&abc[..], &nothing[..]), "{id}");
            assert_eq!(once(b"abc"), parts(&[b"a", b"", b"bc"]), "{id}");
            assert_eq!(once(b""), parts(&[]), "{id}");
            let long = [0x61; 1000];
            assert_eq!(once(&long), parts(&[&long[..127], &long[127..129], &long[129..]]), "{id}");
        }
    });
}

#[test]
fn a_digest_follows_the_states_of_an_operation() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.open());
        let mechanism = plain(M::SHA256);
        let over = Err(Error::OperationNotInitialized);
        assert_eq!(module.digest(session, b"", Output::Length), over);
        assert_eq!(module.digest_update(session, b""), Err(Error::OperationNotInitialized));
        assert_eq!(module.digest_init(session, &plain(M::ECDSA)), Err(Error::MechanismInvalid));

        module.digest_init(session, &mechanism).expect("an operation");
        assert_eq!(module.digest_init(session, &mechanism), Err(Error::OperationActive));
        assert_eq!(module.digest(session, b"abc", Output::Length), Ok(32));
        let short = module.digest(session, b"abc", Output::Buffer(&mut [0; 31]));
        assert_eq!(short, Err(Error::BufferTooSmall { needed: 32 }));
        module.digest_update(session, b"abc").expect("a part");
        let mixed = module.digest(session, b"abc", Output::Buffer(&mut [0; 32]));
        assert_eq!(mixed, Err(Error::OperationActive));
        // PKCS#11 3.2, C_Digest: a call "always terminates the active digest operation".
        let mut out = [0; 32];
        assert_eq!(module.digest_final(session, Output::Buffer(&mut out)), over);
        module.digest_init(session, &mechanism).expect("an operation");
        module.digest_update(session, b"abc").expect("a part");
        assert_eq!(module.digest(session, b"abc", Output::Length), Err(Error::OperationActive));
        assert_eq!(module.digest_final(session, Output::Buffer(&mut out)), over);

        // Parts of a cancelled operation have no effect on the next one.
        module.digest_init(session, &mechanism).expect("an operation");
        module.digest_update(session, b"given up").expect("a part");
        module.digest_cancel(session).expect("an operation");
        module.digest_init(session, &mechanism).expect("an operation");
        module.digest_update(session, b"abc").expect("a part");
        module.digest_final(session, Output::Buffer(&mut out)).expect("a digest");
        assert_eq!(out[..4], KNOWN[2].2);
    });
}

#[test]
fn digest_key_digests_the_value_of_a_secret_key() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.user());
        let secret = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).bytes(A::VALUE, b"bc");
        let secret = client.create(session, &secret).expect("a key");
        let rsa = client.create(session, &RSA.public).expect("a key");
        assert_eq!(module.digest_key(session, secret), Err(Error::OperationNotInitialized));
        module.digest_init(session, &plain(M::SHA256)).expect("an operation");
        module.digest_update(session, b"a").expect("a part");
        module.digest_key(session, secret).expect("a key");
        let mut out = [0; 32];
        module.digest_final(session, Output::Buffer(&mut out)).expect("a digest");
        assert_eq!(out[..4], KNOWN[2].2);
        module.digest_init(session, &plain(M::SHA256)).expect("an operation");
        assert_eq!(module.digest_key(session, rsa), Err(Error::KeyIndigestible));
    });
}
