//! Keys with `CKA_ALWAYS_AUTHENTICATE`, usages that have the effect of a refused usage, and raw RSA
//! wrapping.

use jeton::id::{mechanism_flag as does, token_flag};

use crate::prelude::*;

fn always() -> Attributes {
    none().flag(A::ALWAYS_AUTHENTICATE, true)
}

fn generic() -> Attributes {
    key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).flag(A::SENSITIVE, false)
}

/// A function without an Init function has no point at which the PIN could be given. The attacks
/// "without the PIN of the key" have ECDH, ML-KEM, and the other mechanisms that unwrap.
#[test]
fn functions_without_init_refuse_a_key_with_always_authenticate() {
    let (client, session) = one_user();
    let (module, refused) = (&client.module, Error::UserNotLoggedIn);
    let rsa = client.create(session, &RSA.private.clone().and(&always())).expect("a key");
    let (aes_bits, hash, label) = (256, Hash::Sha256, Box::default());
    let params = Params::RsaAesWrap { aes_bits, hash, mgf: hash, label };
    let aes_wrap = Mechanism { params, ..plain(M::RSA_AES_KEY_WRAP) };
    let template = generic().number(A::VALUE_LEN, 32);
    assert_eq!(client.unwrap(session, &aes_wrap, rsa, &[1; 296], &template), Err(refused));
    let kind = Kind::Dh;
    let (public, private) = pair(&client, session, kind, &none());
    let (_, locked) = client.generate(session, kind.generator(), &kind.request(), &always()).expect("a pair");
    let peer = client.read(session, public, A::VALUE).expect("a public key").into_boxed_slice();
    let mechanism = Mechanism { params: Params::Data(peer), ..plain(M::DH_PKCS_DERIVE) };
    let derive = |key| module.derive_key(session, &mechanism, key, &none().template());
    assert!(derive(private).is_ok());
    assert_eq!(derive(locked), Err(refused));
    // Such a key cannot be wrapped, because unwrapping could create it without the attribute.
    let open = shown();
    let (_, leaving) = client
        .generate(session, M::EC_KEY_PAIR_GEN, &Kind::P256.request(), &always().and(&open))
        .expect("a pair");
    let (by, _) = pair(&client, session, Kind::Aes, &none());
    let out = module.wrap_key(session, &plain(M::AES_KEY_WRAP_KWP), by, leaving, Output::Length);
    assert_eq!(out, Err(refused));
    // A PIN before the call belongs to no operation.
    assert_eq!(module.login(session, User::ContextSpecific, PIN), Err(Error::OperationNotInitialized));
}

#[test]
fn every_operation_with_always_authenticate_waits_for_the_pin() {
    let (client, session) = one_user();
    let rsa = client.create(session, &RSA.private.clone().and(&always())).expect("a key");
    let (pkcs1, mut out) = (plain(M::RSA_PKCS), [0; 256]);
    let refused = Err(Error::UserNotLoggedIn);
    let raw = plain(M::RSA_X_509);
    for mechanism in [&pkcs1, &raw] {
        client.sign_init(session, mechanism, rsa).expect("an operation");
        assert_eq!(client.module.sign(session, &[1; 32], Output::Buffer(&mut out)), refused);
        client.sign_recover_init(session, mechanism, rsa).expect("an operation");
        assert_eq!(client.sign_recover(session, &[1; 32], Output::Buffer(&mut out)), refused);
        client.decrypt_init(session, mechanism, rsa).expect("an operation");
        assert_eq!(client.decrypt(session, &[1; 256], Output::Buffer(&mut out)), refused);
    }
    client.decrypt_init(session, &pkcs1, rsa).expect("an operation");
    assert_eq!(client.decrypt_update(session, &[1; 256], Output::Buffer(&mut out)), refused);
    client.sign_init(session, &plain(M::SHA256_RSA_PKCS), rsa).expect("an operation");
    assert_eq!(client.sign_update(session, b"part"), Err(Error::UserNotLoggedIn));
    client.message_sign_init(session, &pkcs1, rsa).expect("an operation");
    assert_eq!(client.sign_message(session, b"data", Output::Buffer(&mut out)), refused);
    assert_eq!(client.sign_message_begin(session), Err(Error::UserNotLoggedIn));
    // The state of a message-based operation is never saved.
    assert!(client.operation_state(session, Output::Length).is_err());
    client.message_sign_cancel(session).expect("a session");
    let never = none().flag(A::ALWAYS_AUTHENTICATE, false);
    assert_eq!(client.set(session, rsa, &never), Err(Error::AttributeReadOnly));
    assert_eq!(client.copy(session, rsa, &never), Err(Error::AttributeReadOnly));
    let copy = client.copy(session, rsa, &none()).expect("a copy");
    assert!(client.flag(session, copy, A::ALWAYS_AUTHENTICATE));
}

#[test]
fn a_context_specific_login_serves_the_last_operation_that_waits() {
    let (client, session) = one_user();
    let rsa = client.create(session, &RSA.private.clone().and(&always())).expect("a key");
    let (mechanism, mut out) = (plain(M::RSA_PKCS), [0; 256]);
    client.sign_init(session, &mechanism, rsa).expect("an operation");
    client.sign_recover_init(session, &mechanism, rsa).expect("an operation");
    client.module.login(session, User::ContextSpecific, PIN).expect("the PIN");
    assert_eq!(client.sign_recover(session, b"data", Output::Buffer(&mut out)), Ok(256));
    assert_eq!(client.module.sign(session, b"data", Output::Buffer(&mut out)), Err(Error::UserNotLoggedIn));
    // The two operations start in the opposite order.
    client.sign_recover_init(session, &mechanism, rsa).expect("an operation");
    client.sign_init(session, &mechanism, rsa).expect("an operation");
    client.module.login(session, User::ContextSpecific, PIN).expect("the PIN");
    assert_eq!(client.module.sign(session, b"data", Output::Buffer(&mut out)), Ok(256));
    // `sign_recover` still waits for its own PIN.
    client.module.login(session, User::ContextSpecific, PIN).expect("the PIN");
    assert_eq!(client.sign_recover(session, b"data", Output::Buffer(&mut out)), Ok(256));
    assert_eq!(client.module.login(session, User::ContextSpecific, PIN), Err(Error::OperationNotInitialized));
}

/// Another thread ends the operation while the PIN is tried, and starts one with another key.
#[test]
fn a_pin_unlocks_only_the_operation_that_it_was_given_for() {
    let client = Client::slow(&Client::new(DEFAULT).directory, DEFAULT);
    let (module, session) = (&client.module, client.user());
    let [harmless, root] =
        [(); 2].map(|()| client.create(session, &RSA.private.clone().and(&always())).expect("a key"));
    module.sign_init(session, &plain(M::RSA_PKCS), harmless).expect("an operation");
    std::thread::scope(|scope| {
        let login = scope.spawn(|| module.login(session, User::ContextSpecific, PIN));
        // The attempt is counted before the PIN is tried.
        while client.flags() & token_flag::USER_PIN_COUNT_LOW == 0 && !login.is_finished() {
            std::thread::yield_now();
        }
        module.sign_cancel(session).expect("a session");
        module.sign_init(session, &plain(M::RSA_PKCS), root).expect("an operation");
        let outcome = login.join().expect("a thread");
        assert_eq!(module.sign(session, b"data", Output::Buffer(&mut [0; 256])), Err(Error::UserNotLoggedIn));
        assert_eq!(outcome, Err(Error::OperationNotInitialized));
    });
}

/// One PIN decrypted any number of ciphertexts, because a buffer that is too small keeps the
/// operation active, and returned the length of each plaintext.
#[test]
fn a_buffer_that_may_be_too_small_uses_no_key_that_needs_a_pin() {
    each_user(|client, session| {
        let public = client.create(session, &RSA.public.clone()).expect("a key");
        let private = client.create(session, &RSA.private.clone().and(&always())).expect("a key");
        for mechanism in [plain(M::RSA_PKCS), plain(M::RSA_X_509)] {
            let sealed = [&[7; 5][..], &[7; 50]].map(|data| {
                let mut sealed = vec![0; 256];
                client.encrypt_init(session, &mechanism, public).expect("an operation");
                client.encrypt(session, data, Output::Buffer(&mut sealed)).expect("a ciphertext");
                sealed
            });
            client.decrypt_init(session, &mechanism, private).expect("an operation");
            client.module.login(session, User::ContextSpecific, PIN).expect("the PIN");
            for len in [0, 1, 50, 255] {
                for sealed in &sealed {
                    let out = client.decrypt(session, sealed, Output::Buffer(&mut vec![0; len]));
                    assert_eq!(out, Err(Error::BufferTooSmall { needed: 256 }));
                }
            }
            assert!(client.decrypt(session, &sealed[0], Output::Buffer(&mut [0; 256])).is_ok());
            let again = client.decrypt(session, &sealed[1], Output::Buffer(&mut [0; 256]));
            assert_eq!(again, Err(Error::OperationNotInitialized));
        }
    });
}

#[test]
fn a_usage_with_the_effect_of_a_refused_usage_is_false_by_default() {
    let (client, session) = one_user();
    let no = |id| none().flag(id, false);
    let flags =
        |key, ids: &[A]| -> Vec<bool> { ids.iter().map(|id| client.flag(session, key, *id)).collect() };
    let rsa = [A::DECRYPT, A::UNWRAP, A::SIGN_RECOVER, A::SIGN];
    for (more, wanted) in [
        (none(), [true, true, true, true]),
        (no(A::DECRYPT), [false, false, false, true]),
        (no(A::SIGN), [true, true, false, false]),
        (no(A::DECRYPT).flag(A::UNWRAP, true), [false, true, false, true]),
        (no(A::DECRYPT).flag(A::SIGN_RECOVER, true), [false, false, true, true]),
        (no(A::UNWRAP), [true, false, true, true]),
    ] {
        let created = client.create(session, &RSA.private.clone().and(&more)).expect("a key");
        assert_eq!(flags(created, &rsa), wanted);
    }
    let request = Kind::Rsa.request();
    let (_, made) =
        client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &request, &no(A::DECRYPT)).expect("a pair");
    assert_eq!(flags(made, &rsa), [false, false, false, true]);
    let (_, made) = client
        .generate(session, M::ML_KEM_KEY_PAIR_GEN, &Kind::MlKem512.request(), &no(A::DECRYPT))
        .expect("a pair");
    assert!(!client.flag(session, made, A::DECAPSULATE));
    let (_, made) =
        client.generate(session, M::ML_KEM_KEY_PAIR_GEN, &Kind::MlKem512.request(), &none()).expect("a pair");
    assert!(client.flag(session, made, A::DECAPSULATE));

    let aes = [A::DECRYPT, A::UNWRAP, A::ENCRYPT];
    let template = none().number(A::VALUE_LEN, 16).and(&no(A::DECRYPT));
    let made = client.generate_key(session, M::AES_KEY_GEN, &template).expect("a key");
    assert_eq!(flags(made, &aes), [false, false, true]);
    let base = generic().bytes(A::VALUE, &[7; 32]).flag(A::DERIVE, true);
    let base = client.create(session, &base).expect("a key");
    let received = key_object(ObjectClass::SECRET_KEY, KeyType::AES).and(&no(A::DECRYPT));
    let hash = plain(M::SHA256_KEY_DERIVATION);
    let long = received.clone().number(A::VALUE_LEN, 32);
    let made = client.derive_key(session, &hash, base, &long.template()).expect("a key");
    assert_eq!(flags(made, &aes), [false, false, true]);
    let (by, _) = pair(&client, session, Kind::Aes, &none());
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    let wrapped = client.wrap(session, &kwp, by, base).expect("a wrapped key");
    let made = client.unwrap(session, &kwp, by, &wrapped, &received).expect("a key");
    assert_eq!(flags(made, &aes), [false, false, true]);
    let (public, private) = pair(&client, session, Kind::MlKem512, &none());
    let (sealed, made) = client.encapsulate(session, public, &received.template()).expect("a key");
    assert_eq!(flags(made, &aes), [false, false, true]);
    let kem = plain(M::ML_KEM);
    let made = client.decapsulate_key(session, &kem, private, &received.template(), &sealed);
    assert_eq!(flags(made.expect("a key"), &aes), [false, false, true]);
}

/// Findings H2 and M5 of docs/findings.md: through `C_UnwrapKey` with raw RSA, a key that was
/// created only for signatures signed any input, without padding.
#[test]
fn raw_rsa_neither_wraps_nor_unwraps_unless_it_is_configured() {
    for (configuration, allowed) in [
        ("", false),
        (", policy = { raw-rsa-wrap = false }", false),
        (", policy = { raw-rsa-wrap = true }", true),
    ] {
        let client = Client::with(DEFAULT, configuration);
        let (module, session) = (&client.module, client.user());
        let flags = module.mechanism(client.slot, M::RSA_X_509).expect("a mechanism").flags;
        assert_eq!(flags & (does::WRAP | does::UNWRAP) != 0, allowed);
        assert_ne!(flags & does::DECRYPT, 0);
        let (public, private) = pair(&client, session, Kind::Rsa, &none());
        let key = generic().bytes(A::VALUE, &[7; 32]).flag(A::EXTRACTABLE, true);
        let key = client.create(session, &key).expect("a key");
        let (raw, mut wrapped) = (plain(M::RSA_X_509), [0; 256]);
        let out = module.wrap_key(session, &raw, public, key, Output::Buffer(&mut wrapped));
        assert_eq!(out, if allowed { Ok(256) } else { Err(Error::MechanismInvalid) });
        let template = generic().number(A::VALUE_LEN, 32);
        let back = client.unwrap(session, &raw, private, &wrapped, &template);
        assert_eq!(back.map(drop), if allowed { Ok(()) } else { Err(Error::MechanismInvalid) });
    }
}
