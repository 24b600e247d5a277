//! The memory of a client of an agent: what its application keeps in the module between calls is
//! taken from its quota, and comes back. Calls that compute for minutes need a login.

use jeton::functions::AsyncFunction;
use jeton::id::mechanism_flag;
use jeton::mechanism::message::{Generator, MessageParams};
use jeton::mechanism::password::Password;
use jeton::mechanism::sp800_108::{Field, Number};
use jeton::quota::Quota;
use jeton::token::Identity;
use jeton_secret::Secret;

use crate::prelude::*;

const MIB: usize = 1 << 20;
const PART: &[u8] = &[7; 64 << 10];

/// Runs a test with an application that has this number of bytes. After `C_Finalize` all of them
/// are free.
fn with_quota(bytes: usize, test: impl Fn(&Client, &Arc<Quota>)) {
    let quota = Quota::new(bytes);
    let agent = Client::new(DEFAULT);
    let client = application(&agent, &quota);
    test(&client, &quota);
    client.finalize().expect("a module");
    assert_eq!(quota.used(), 0);
}

fn application(agent: &Client, quota: &Arc<Quota>) -> Client {
    let identity = Identity { memory: Some(Arc::clone(quota)), ..Identity::default() };
    let module = agent.join_for(Some(identity)).expect("an application").into();
    Client { module, slot: agent.slot, directory: Arc::clone(&agent.directory) }
}

fn large(label: &str, bytes: usize) -> Attributes {
    data(label).without(A::VALUE).bytes(A::VALUE, &vec![1; bytes])
}

fn aes(client: &Client, session: SessionHandle) -> ObjectHandle {
    let template = secret(KeyType::AES, &[1; 16]);
    client.create(session, &template).expect("a key")
}

fn gcm(aad: &[u8]) -> Mechanism {
    Mechanism { params: aead_params(AeadScheme::AesGcm, &[9; 12], aad, 16, 0), ..plain(M::AES_GCM) }
}

/// Repeats a call until it fails. Returns the number of times that it succeeded.
fn until_full(most: usize, mut call: impl FnMut() -> Result<(), Error>) -> usize {
    for done in 0..most {
        match call() {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, Error::DeviceMemory);
                return done;
            }
        }
    }
    panic!("{most} calls have not used the memory up");
}

#[test]
fn session_objects_are_taken_from_the_quota() {
    with_quota(4 * MIB, |client, quota| {
        let other = application(client, quota);
        let (session, empty) = (client.open(), quota.used());
        let others = other.open();
        let made = until_full(100, || client.create(session, &large("a", 100_000)).map(drop));
        assert!((10..=40).contains(&made), "{made}");
        assert!(quota.used() > 3 * MIB);
        // An application of the same client has the same quota.
        assert_eq!(other.create(others, &large("b", 300_000)), Err(Error::DeviceMemory));
        other.finalize().expect("a module");

        let objects = client.find(session, &none().label("a"));
        client.destroy_object(session, objects[0]).expect("an object");
        client.destroy_object(session, objects[1]).expect("an object");
        let copy = client.copy(session, objects[2], &none()).expect("a copy");
        let more = none().bytes(A::VALUE, &vec![2; MIB]);
        assert_eq!(client.set(session, copy, &more), Err(Error::DeviceMemory));
        assert_eq!(client.read(session, copy, A::VALUE), Ok(vec![1; 100_000]));
        client.set(session, copy, &none().bytes(A::VALUE, &[3])).expect("a shorter value");
        assert!(client.create(session, &large("a", 100_000)).is_ok());

        client.login(session);
        let stored = client.create(session, &large("c", 100).stored()).expect("a token object");
        let before = quota.used();
        assert!(client.copy(session, stored, &none().flag(A::TOKEN, true)).is_ok());
        assert_eq!(quota.used(), before);
        client.close_session(session).expect("a session");
        let session = client.open();
        assert_eq!(quota.used(), empty);
        let generate = || client.generate(session, Kind::P256.generator(), &Kind::P256.request(), &none());
        let failed = (0..1000).find_map(|_| generate().err()).expect("the memory is not used up");
        assert_eq!(failed, Error::DeviceMemory);
    });
}

#[test]
fn an_application_that_is_dropped_gives_its_memory_back() {
    with_quota(4 * MIB, |client, quota| {
        let before = quota.used();
        let other = application(client, quota);
        let session = other.user();
        other.create(session, &large("a", 100_000)).expect("an object");
        assert!(quota.used() > before);
        drop(other);
        assert_eq!(quota.used(), before);
    });
}

#[test]
fn sessions_are_taken_from_the_quota() {
    with_quota(100_000, |client, quota| {
        let open = || client.open_session(client.slot, Access::ReadWrite);
        let opened = (0..1000).take_while(|_| open().is_ok()).count();
        assert!((10..100).contains(&opened), "{opened}");
        assert_eq!(open(), Err(Error::SessionCount));
        client.close_all_sessions(client.slot).expect("sessions");
        assert_eq!(quota.used(), 0);
        assert!(open().is_ok());
    });
}

#[test]
fn collected_messages_are_taken_from_the_quota() {
    with_quota(4 * MIB, |client, quota| {
        let (module, session) = (&client.module, client.open());
        let (public, private) = pair(client, session, Kind::Ed25519, &none());
        let ed25519 = &plain(M::EDDSA);
        let update = || module.sign_update(session, PART);
        module.sign_init(session, ed25519, private).expect("an operation");
        let begun = quota.used();
        assert!((10..=40).contains(&until_full(100, update)));
        assert_eq!(update(), Err(Error::OperationNotInitialized));
        assert_eq!(quota.used(), begun);

        module.verify_signature_init(session, ed25519, public, &vec![0; MIB]).expect("an operation");
        assert!(quota.used() > begun + MIB);
        module.verify_signature_init(session, ed25519, public, &[0; 64]).expect_err("an active operation");
        assert!(quota.used() > begun + MIB);
        assert!((10..=30).contains(&until_full(100, || module.verify_signature_update(session, PART))));
        let signature = vec![0; 5 * MIB];
        let refused = module.verify_signature_init(session, ed25519, public, &signature);
        assert_eq!(refused, Err(Error::DeviceMemory));
        module.verify_signature_init(session, ed25519, public, &[0; 64]).expect("an operation");
        assert!(quota.used() < begun + MIB);

        module.message_sign_init(session, ed25519, private).expect("an operation");
        module.sign_message_begin(session).expect("a message");
        assert!((10..=40).contains(&until_full(100, || module.sign_message_next(session, PART))));
        module.sign_message_begin(session).expect("a message");
        let last = vec![0; 3 * MIB];
        let refused = module.sign_message_end(session, &last, Output::Buffer(&mut [0; 64]));
        assert_eq!(refused, Err(Error::DeviceMemory));

        // A digest keeps nothing of its message.
        module.digest_init(session, &plain(M::SHA256)).expect("an operation");
        (0..100).for_each(|_| module.digest_update(session, PART).expect("a part"));
        assert_eq!(module.digest_final(session, Output::Buffer(&mut [0; 32])), Ok(32));
    });
}

#[test]
fn what_a_cipher_keeps_is_taken_from_the_quota() {
    with_quota(4 * MIB, |client, quota| {
        let (module, session) = (&client.module, client.open());
        let key = aes(client, session);
        let mut out = vec![0; PART.len() + 16];
        // Of a stream nothing is kept, however its parts are cut.
        for mechanism in [&with_iv(M::AES_CBC_PAD, &[1; 16]), &gcm(b"")] {
            module.encrypt_init(session, mechanism, key).expect("an operation");
            let begun = quota.used();
            for part in [PART, &PART[..1], &PART[..17]].iter().cycle().take(300) {
                module.encrypt_update(session, part, Output::Buffer(&mut out)).expect("a part");
            }
            assert!(quota.used() < begun + 200, "{} {begun}", quota.used());
            module.encrypt_final(session, Output::Buffer(&mut out)).expect("the end");
        }
        module.decrypt_init(session, &gcm(b""), key).expect("an operation");
        let part = || module.decrypt_update(session, PART, Output::Buffer(&mut [])).map(drop);
        assert!((10..=40).contains(&until_full(100, part)));

        let mut params = MessageParams::new(AeadScheme::AesGcm, &[9; 12], 16).expect("lengths");
        let decrypt = Direction::Decrypt;
        module.message_crypt_init(session, decrypt, &plain(M::AES_GCM), key).expect("an operation");
        let aad = vec![0; 3 * MIB];
        let begin = |params: &mut _, aad| module.crypt_message_begin(session, decrypt, params, aad);
        assert_eq!(begin(&mut params, &aad), Err(Error::DeviceMemory));
        begin(&mut params, b"").expect("a message");
        let part = || module.crypt_message_next(session, decrypt, PART, Output::Buffer(&mut [])).map(drop);
        assert!((10..=40).contains(&until_full(100, part)));
    });
}

#[test]
fn parameters_of_operations_are_taken_from_the_quota() {
    with_quota(4 * MIB, |client, quota| {
        let (module, session) = (&client.module, client.open());
        let key = aes(client, session);
        let (long, short) = (gcm(&vec![0; MIB]), gcm(b"short"));
        let init = |mechanism| module.encrypt_init(session, mechanism, key);
        init(&short).expect("an operation");
        let begun = quota.used();
        module.encrypt_cancel(session).expect("an operation");
        init(&long).expect("an operation");
        let with_long = quota.used();
        assert!(with_long - begun > 2 * (MIB - 100));
        // The engine keeps the long parameter.
        assert_eq!(init(&short), Err(Error::OperationActive));
        module.encrypt_cancel(session).expect("an operation");
        assert!(module.encrypt_init(session, &short, ObjectHandle(1 << 40)).is_err());
        assert!(quota.used() >= with_long);
        init(&short).expect("an operation");
        assert_eq!(quota.used(), begun);
        module.encrypt_cancel(session).expect("an operation");
        init(&long).expect("an operation");
        assert_eq!(module.encrypt_init(client.open(), &long, key), Err(Error::DeviceMemory));
    });
}

#[test]
fn saved_states_and_results_of_searches_are_taken_from_the_quota() {
    with_quota(4 * MIB, |client, quota| {
        let (module, session) = (&client.module, client.open());
        let (_, private) = pair(client, session, Kind::Ed25519, &none());
        module.sign_init(session, &plain(M::EDDSA), private).expect("an operation");
        (0..8).for_each(|_| module.sign_update(session, PART).expect("a part"));
        let mut state = [0; 32];
        let mut save = || module.operation_state(session, Output::Buffer(&mut state)).map(drop);
        let before = quota.used();
        save().expect("a state");
        assert!(quota.used() > before + 8 * PART.len());
        assert!((1..=6).contains(&until_full(100, &mut save)));
        module.sign_cancel(session).expect("an operation");
        assert_eq!(module.set_operation_state(session, &state, ObjectHandle(0), private), Ok(()));
        module.sign_cancel(session).expect("an operation");

        for number in 0..100 {
            client.create(session, &data(&format!("{number}"))).expect("an object");
        }
        let before = quota.used();
        module.find_init(session, &none().template()).expect("a search");
        assert!(quota.used() >= before + 800);
        module.find_final(session).expect("a search");
        assert_eq!(quota.used(), before);
    });
}

#[test]
fn pending_functions_are_taken_from_the_quota_after_their_session_is_closed() {
    with_quota(MIB, |client, quota| {
        let generate = AsyncFunction::GenerateKey;
        let template = none().number(A::VALUE_LEN, 16);
        let abandon = || {
            let session = client.open_async_session(client.slot, Access::ReadWrite)?;
            let outcome = client.generate_key(session, M::AES_KEY_GEN, &template);
            let named = client.async_id(session, generate);
            client.close_session(session)?;
            match outcome {
                Err(Error::Pending) => named.map(drop),
                other => other.map(drop),
            }
        };
        let abandoned = until_full(100, abandon);
        assert!((10..=50).contains(&abandoned), "{abandoned}");
        assert!(quota.used() > MIB / 2);
    });
}

#[test]
fn a_cancelled_function_has_its_memory_until_its_thread_ends() {
    with_quota(2 * MIB, |client, quota| {
        let session = client.open_async_session(client.slot, Access::ReadWrite).expect("a session");
        let public = none().number(A::MODULUS_BITS, 3072).label(&"a label".repeat(30_000));
        let abandon = || {
            let outcome = client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &public, &none());
            client.module.cancel(session, mechanism_flag::GENERATE_KEY_PAIR)?;
            if outcome == Err(Error::Pending) { Ok(()) } else { outcome.map(drop) }
        };
        // A few may have ended meanwhile.
        assert!((2..15).contains(&until_full(15, abandon)));
        assert!(quota.used() > MIB);
    });
}

#[test]
fn long_nonces_of_messages_are_taken_from_the_quota() {
    with_quota(4 * MIB, |client, quota| {
        let (module, encrypt) = (&client.module, Direction::Encrypt);
        let key = aes(client, client.open());
        let message = |session| {
            let mut params = MessageParams::new(AeadScheme::AesGcm, PART, 16).expect("lengths");
            params.set_generator(Generator::Any, 0).expect("bits of the nonce");
            module.crypt_message(session, encrypt, &mut params, b"", b"data", Output::Buffer(&mut [0; 4]))
        };
        let open = || {
            let session = client.open_session(client.slot, Access::ReadOnly)?;
            module.message_crypt_init(session, encrypt, &plain(M::AES_GCM), key)?;
            message(session)?;
            message(session).map(drop)
        };
        assert!((5..=32).contains(&until_full(100, open)));
        assert!(quota.used() > 3 * MIB);
    });
}

#[test]
fn an_agent_computes_for_minutes_only_after_a_login() {
    let stretch = |client: &Client, session, iterations| {
        let password = Password(Secret::from(&b"password"[..]));
        let params = Params::Pbkdf2 { hash: Hash::Sha256, salt: Box::from(*b"salt"), iterations, password };
        let template = none().number(A::KEY_TYPE, KeyType::AES.0).number(A::VALUE_LEN, 32);
        let mechanism = Mechanism { params, ..plain(M::PKCS5_PBKD2) };
        client.module.generate_key(session, &mechanism, &template.template()).map(drop)
    };
    let parameters = |client: &Client, session| {
        let template = none().number(A::PRIME_BITS, 1024);
        let mechanism = plain(M::DH_PKCS_PARAMETER_GEN);
        client.module.generate_key(session, &mechanism, &template.template()).map(drop)
    };
    let rsa = |client: &Client, session, bits| {
        let request = none().number(A::MODULUS_BITS, bits);
        client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &none()).map(drop)
    };
    let derive = |client: &Client, session, parts| {
        let base = secret(KeyType::GENERIC_SECRET, &[7; 32]).flag(A::DERIVE, true);
        let base = client.create(session, &base).expect("a key");
        let counter = Field::Iteration(Some(Number { little_endian: false, len: 4 }));
        let fields = [vec![counter], vec![Field::Bytes(PART.into()); parts]].concat();
        let params = Params::Sp800_108 { prf: MacFunction::Hmac(Hash::Sha256), fields, iv: Box::default() };
        let mechanism = Mechanism { params, ..plain(M::SP800_108_COUNTER_KDF) };
        let template = none().number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0).number(A::VALUE_LEN, 255 * 64);
        client.module.derive_key(session, &mechanism, base, &template.template()).map(drop)
    };
    let long = (1 << 21) + 1;
    with_quota(4 * MIB, |client, _| {
        let session = client.open();
        assert_eq!(stretch(client, session, 100_000), Ok(()));
        assert_eq!(stretch(client, session, long), Err(Error::UserNotLoggedIn));
        assert_eq!(parameters(client, session), Err(Error::UserNotLoggedIn));
        assert_eq!(rsa(client, session, 8192), Err(Error::UserNotLoggedIn));
        assert_eq!(rsa(client, session, 2048), Ok(()));
        // 64 KiB are hashed for each block of a long key.
        assert_eq!(derive(client, session, 1), Ok(()));
        assert_eq!(derive(client, session, 2), Err(Error::UserNotLoggedIn));
        client.login(session);
        assert_eq!(derive(client, session, 2), Ok(()));
        assert_eq!(stretch(client, session, long), Ok(()));
    });
    // A process that works for itself has no such limit.
    let client = Client::new(DEFAULT);
    assert_eq!(stretch(&client, client.open(), long), Ok(()));
}
