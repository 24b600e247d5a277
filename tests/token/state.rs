//! Operation state: saved and restored in another session, for every mechanism. A state of another
//! token, login or key is refused.

use jeton::mechanism::row_of;
use jeton::session::state::{MAX_COLLECTED, MAX_STATES};

use crate::mechanisms;
use crate::prelude::*;

const NO_KEY: ObjectHandle = ObjectHandle(0);

fn save(client: &Client, session: SessionHandle) -> Result<Vec<u8>> {
    let mut state = vec![0; client.operation_state(session, Output::Length)?];
    let len = client.operation_state(session, Output::Buffer(&mut state))?;
    assert_eq!(len, state.len());
    Ok(state)
}

fn digest_of(client: &Client, session: SessionHandle, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    assert_eq!(client.digest_final(session, Output::Buffer(&mut out)), Ok(len));
    out
}

/// Restores a state that was saved after `a`, and digests `bc`: the digest is that of `abc`. When
/// OpenSSL copies a digest, pkcs11-provider moves its state between any two sessions.
#[test]
fn every_digest_state_is_restored_in_other_sessions_and_repeatedly() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session) = (&client.module, client.open());
        let read_only = module.open_session(client.slot, Access::ReadOnly).expect("a session");
        let restore = |session, state: &[u8]| module.set_operation_state(session, state, NO_KEY, NO_KEY);
        let sessions = [(session, read_only), (read_only, session)];
        let cases = mechanisms::KNOWN.into_iter().flat_map(|case| sessions.map(|both| (case, both)));
        for ((id, len, abc, nothing), (one, other)) in cases {
            module.digest_init(one, &plain(id)).expect("an operation");
            let fresh = save(&client, one).expect("a state");
            module.digest_update(one, b"a").expect("a part");
            let begun = save(&client, one).expect("a state");
            module.digest_update(one, b" part that is not in the state").expect("a part");
            // Restoring ends the active operation, and the state can be restored again.
            for session in [other, one] {
                assert_eq!(restore(session, &begun), Ok(()));
                module.digest_update(session, b"bc").expect("a part");
                assert_eq!(digest_of(&client, session, len)[..4], abc, "{id}");
            }
            assert_eq!(restore(other, &fresh), Ok(()));
            assert_eq!(digest_of(&client, other, len)[..4], nothing, "{id}");
            // An operation without data can still run in one part.
            assert_eq!(restore(other, &fresh), Ok(()));
            let mut out = vec![0; len];
            assert_eq!(module.digest(other, b"abc", Output::Buffer(&mut out)), Ok(len));
            assert_eq!(out[..4], abc, "{id}");
        }
    });
}

/// PKCS#11 3.2, `CKR_OPERATION_ACTIVE`: an active operation "prevents Cryptoki from activating the
/// specified operation". An active digest whose state the caller has saved does not prevent another
/// digest. pkcs11-provider starts the next digest of a TLS handshake in such a session.
#[test]
fn a_digest_whose_state_is_saved_does_not_prevent_the_next_one() {
    let client = Client::new(DEFAULT);
    let (module, one, other) = (&client.module, client.open(), client.open());
    let init = |session| module.digest_init(session, &plain(M::SHA256));
    init(one).expect("an operation");
    module.digest_update(one, b"a").expect("a part");
    // A call that asks for the length does not save the state.
    module.operation_state(one, Output::Length).expect("a length");
    assert_eq!(init(one), Err(Error::OperationActive));
    let state = save(&client, one).expect("a state");
    assert_eq!(module.set_operation_state(other, &state, NO_KEY, NO_KEY), Ok(()));
    for session in [one, other] {
        assert_eq!(init(session), Ok(()));
        // The new digest is not saved, and has no data of the earlier one.
        assert_eq!(init(session), Err(Error::OperationActive));
        module.digest_update(session, b"abc").expect("a part");
        assert_eq!(init(session), Err(Error::OperationActive));
        assert_eq!(digest_of(&client, session, 32)[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
    // The caller still has the state of the digest that was ended.
    assert_eq!(module.set_operation_state(one, &state, NO_KEY, NO_KEY), Ok(()));
    module.digest_update(one, b"bc").expect("a part");
    // A new digest would lose the data that came after the saved state.
    assert_eq!(init(one), Err(Error::OperationActive));
    assert_eq!(digest_of(&client, one, 32)[..4], [0xba, 0x78, 0x16, 0xbf]);
    // The first digest is saved and ends. The second one is not saved, so it prevents a third.
    init(one).expect("an operation");
    save(&client, one).expect("a state");
    digest_of(&client, one, 32);
    init(one).expect("an operation");
    assert_eq!(init(one), Err(Error::OperationActive));
}

#[test]
fn every_signature_and_mac_state_is_restored_in_another_session() {
    mechanisms::each_case(|client, session, case, (public, private)| {
        let (module, mechanism) = (&client.module, &case.mechanism);
        if row_of(mechanism.info).is_single_part() {
            return;
        }
        let other = client.open();
        let data = mechanisms::message(case.message, 9);
        let (first, rest) = data.split_at(data.len() / 2 + 1);
        module.sign_init(session, mechanism, private).expect("an operation");
        module.sign_update(session, first).expect("a part");
        let state = save(client, session).expect("a state");
        module.sign_cancel(session).expect("an operation");
        assert_eq!(module.set_operation_state(other, &state, NO_KEY, private), Ok(()));
        module.sign_update(other, rest).expect("a part");
        let mut signature = vec![0; module.sign_final(other, Output::Length).expect("a length")];
        module.sign_final(other, Output::Buffer(&mut signature)).expect("a signature");
        assert_eq!(client.verify(session, mechanism, public, &data, &signature), Ok(()));

        module.verify_init(session, mechanism, public).expect("an operation");
        module.verify_update(session, first).expect("a part");
        let state = save(client, session).expect("a state");
        module.verify_cancel(session).expect("an operation");
        for wrong in [false, true] {
            assert_eq!(module.set_operation_state(other, &state, NO_KEY, public), Ok(()));
            module.verify_update(other, if wrong { b"another end" } else { rest }).expect("a part");
            assert_eq!(module.verify_final(other, &signature).is_err(), wrong);
        }

        module.verify_signature_init(session, mechanism, public, &signature).expect("an operation");
        module.verify_signature_update(session, first).expect("a part");
        let state = save(client, session).expect("a state");
        module.verify_signature_cancel(session).expect("an operation");
        assert_eq!(module.set_operation_state(other, &state, NO_KEY, public), Ok(()));
        module.verify_signature_update(other, rest).expect("a part");
        assert_eq!(module.verify_signature_final(other), Ok(()));
        module.close_session(other).expect("a session");
    });
}

#[test]
fn rsa_and_dual_operation_states_are_restored() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let (module, session, other) = (&client.module, client.user(), client.open());
        let (public, _) = pair(&client, session, Kind::Rsa, &none());
        let mechanism = plain(M::RSA_PKCS);
        // An RSA encryption has a single part, so its state has no data.
        module.encrypt_init(session, &mechanism, public).expect("an operation");
        module.digest_init(session, &plain(M::SHA_1)).expect("an operation");
        module.digest_update(session, b"ab").expect("a part");
        let state = save(&client, session).expect("a state");
        assert_eq!(module.set_operation_state(other, &state, public, NO_KEY), Ok(()));
        assert_eq!(module.encrypt(other, b"a secret", Output::Buffer(&mut [0; 256])), Ok(256));
        module.digest_update(other, b"c").expect("a part");
        assert_eq!(digest_of(&client, other, 20)[..4], [0xa9, 0x99, 0x3e, 0x36]);

        module.encrypt_cancel(session).expect("an operation");
        module.digest_cancel(session).expect("an operation");

        // C_SignEncryptUpdate makes a MAC of the plaintext and encrypts it. Each operation has its
        // own key.
        let (aes, _) = pair(&client, session, Kind::Aes, &none());
        let (generic, _) = pair(&client, session, Kind::Generic, &none());
        let iv = with_iv(M::AES_CBC_PAD, &[1; 16]);
        let code = plain(M::SHA256_HMAC);
        module.encrypt_init(session, &iv, aes).expect("an operation");
        module.sign_init(session, &code, generic).expect("an operation");
        let mut room = [0; 64];
        let len = module.sign_encrypt_update(session, &[5; 20], Output::Buffer(&mut room)).expect("a part");
        let state = save(&client, session).expect("a state");
        let restore = |encryption, authentication| {
            module.set_operation_state(other, &state, encryption, authentication)
        };
        assert_eq!(restore(generic, aes), Err(Error::KeyChanged));
        // PKCS#11 3.2, CK_TOKEN_INFO: CKF_RESTORE_KEY_NOT_NEEDED.
        for (encryption, authentication) in [(NO_KEY, NO_KEY), (aes, NO_KEY), (NO_KEY, generic)] {
            assert_eq!(restore(encryption, authentication), Ok(()));
        }
        assert_eq!(restore(aes, generic), Ok(()));
        let more =
            module.sign_encrypt_update(other, &[6; 20], Output::Buffer(&mut room[len..])).expect("a part");
        let end = module.encrypt_final(other, Output::Buffer(&mut room[len + more..])).expect("an end");
        let mut made = [0; 32];
        module.sign_final(other, Output::Buffer(&mut made)).expect("a code");
        module.encrypt_cancel(session).expect("an operation");
        module.sign_cancel(session).expect("an operation");
        let message = [[5; 20], [6; 20]].concat();
        assert_eq!(client.verify(session, &code, generic, &message, &made), Ok(()));
        let back = client.crypt(session, Direction::Decrypt, &iv, aes, &room[..len + more + end]);
        assert_eq!(back.expect("a plaintext"), message);
    });
}

#[test]
fn an_altered_state_or_one_of_another_token_or_login_is_refused() {
    let client = Client::new(DEFAULT);
    let (module, session) = (&client.module, client.open());
    let restore = |session, state: &[u8]| module.set_operation_state(session, state, NO_KEY, NO_KEY);
    module.digest_init(session, &plain(M::SHA256)).expect("an operation");
    let state = save(&client, session).expect("a state");
    let longer = [&state[..], &[0]].concat();
    let mut altered = state.clone();
    altered[7] ^= 1;
    for wrong in [&[][..], &state[1..], &longer, &altered] {
        assert_eq!(restore(session, wrong), Err(Error::SavedStateInvalid));
    }
    let elsewhere = Client::new(DEFAULT);
    let refused = elsewhere.set_operation_state(elsewhere.open(), &state, NO_KEY, NO_KEY);
    assert_eq!(refused, Err(Error::SavedStateInvalid));
    // Another token of the same module.
    let free = *module.slots().expect("slots").last().expect("a free slot");
    module.init_token(free, b"another", &[b' '; 32]).expect("a token");
    let neighbour = module.open_session(free, Access::ReadWrite).expect("a session");
    assert_eq!(restore(neighbour, &state), Err(Error::SavedStateInvalid));
    // A refused state does not end the active operation.
    assert_eq!(module.digest_update(session, b"abc"), Ok(()));

    for (encryption, authentication) in [(NO_KEY, ObjectHandle(1)), (ObjectHandle(1), NO_KEY)] {
        let refused = module.set_operation_state(session, &state, encryption, authentication);
        assert_eq!(refused, Err(Error::KeyNotNeeded));
    }
    client.login(session);
    assert_eq!(restore(session, &state), Err(Error::SavedStateInvalid));
    module.logout(session).expect("the user");
    // The state was saved without a login, so a logout does not invalidate it.
    assert_eq!(restore(session, &state), Ok(()));
}

#[test]
fn a_state_is_refused_after_its_login_ended() {
    let client = Client::new(DEFAULT);
    let module = &client.module;
    let begin = || {
        let session = client.user();
        module.digest_init(session, &plain(M::SHA256)).expect("an operation");
        let (key, _) = pair(&client, session, Kind::Generic, &none());
        assert_eq!(module.digest_key(session, key), Ok(()));
        (session, save(&client, session).expect("a state"))
    };
    let gone = |session, state: &[u8]| {
        assert_eq!(module.set_operation_state(session, state, NO_KEY, NO_KEY), Err(Error::SavedStateInvalid));
    };
    let (session, state) = begin();
    module.logout(session).expect("the user");
    client.login(session);
    gone(session, &state);
    module.close_session(session).expect("a session");
    let (session, state) = begin();
    module.close_session(session).expect("a session");
    gone(client.user(), &state);
    module.finalize().expect("a module");
    module.initialize(Some(&client.directory.parameters(DEFAULT, ""))).expect("a module");
    gone(client.user(), &state);
}

#[test]
fn a_state_is_restored_only_with_the_same_key_and_its_usage() {
    let client = Client::new(DEFAULT);
    let (module, session) = (&client.module, client.user());
    let (public, private) = pair(&client, session, Kind::P256, &none());
    let (_, other) = pair(&client, session, Kind::P256, &none());
    let mechanism = plain(M::ECDSA_SHA256);
    module.sign_init(session, &mechanism, private).expect("an operation");
    module.sign_update(session, b"da").expect("a part");
    let state = save(&client, session).expect("a state");
    let restore = |key| module.set_operation_state(session, &state, NO_KEY, key);
    for wrong in [other, public, ObjectHandle(4711)] {
        assert_eq!(restore(wrong), Err(Error::KeyChanged));
    }
    // The active operation continues.
    module.sign_update(session, b"ta").expect("a part");
    let mut signature = [0; 64];
    module.sign_final(session, Output::Buffer(&mut signature)).expect("a signature");
    assert_eq!(client.verify(session, &mechanism, public, b"data", &signature), Ok(()));

    assert_eq!(restore(private), Ok(()));
    // The caller may pass the same key in both arguments, as pkcs11-provider does. Another key
    // in the argument that is not needed is refused.
    assert_eq!(module.set_operation_state(session, &state, private, private), Ok(()));
    assert_eq!(module.set_operation_state(session, &state, other, private), Err(Error::KeyNotNeeded));
    client.set(session, private, &none().flag(A::SIGN, false)).expect("a change");
    assert_eq!(restore(private), Err(Error::KeyChanged));
    assert_eq!(module.sign_update(session, b""), Err(Error::OperationNotInitialized));
    assert_eq!(restore(NO_KEY), Err(Error::KeyChanged));
    module.destroy_object(session, private).expect("a key");
    assert_eq!(restore(private), Err(Error::KeyChanged));
    assert_eq!(restore(NO_KEY), Err(Error::KeyNeeded));
}

#[test]
fn always_authenticate_prevents_saving_the_state() {
    let (client, session) = one_user();
    let key = RSA.private.clone().stored().flag(A::ALWAYS_AUTHENTICATE, true);
    let key = client.create(session, &key).expect("a key");
    client.sign_init(session, &plain(M::SHA256_RSA_PKCS), key).expect("an operation");
    assert_eq!(save(&client, session), Err(Error::StateUnsaveable));
    client.module.login(session, User::ContextSpecific, PIN).expect("the user");
    assert_eq!(save(&client, session), Err(Error::StateUnsaveable));
    client.sign_update(session, b"data").expect("a part");
    assert_eq!(save(&client, session), Err(Error::StateUnsaveable));
    client.sign_final(session, Output::Buffer(&mut [0; 256])).expect("a signature");
    assert_eq!(save(&client, session), Err(Error::OperationNotInitialized));
}

#[test]
fn saved_states_are_limited_in_size_number_and_keys() {
    let (client, session) = one_user();
    let (aes, _) = pair(&client, session, Kind::Aes, &none());
    let (other, _) = pair(&client, session, Kind::Aes, &none());
    // C_SetOperationState has one argument for the key of encryption and decryption.
    client.encrypt_init(session, &plain(M::AES_ECB), aes).expect("an operation");
    client.decrypt_init(session, &plain(M::AES_ECB), other).expect("an operation");
    assert_eq!(save(&client, session), Err(Error::StateUnsaveable));
    client.encrypt_cancel(session).expect("an operation");
    client.decrypt_cancel(session).expect("an operation");

    let (_, private) = pair(&client, session, Kind::Ed25519, &none());
    client.sign_init(session, &plain(M::EDDSA), private).expect("an operation");
    client.sign_update(session, &vec![0; MAX_COLLECTED]).expect("a part");
    let large = save(&client, session).expect("a state");
    client.sign_update(session, b"1").expect("a part");
    assert_eq!(save(&client, session), Err(Error::StateUnsaveable));
    client.sign_cancel(session).expect("an operation");
    let restore = |state: &[u8], key| client.set_operation_state(session, state, NO_KEY, key);
    assert_eq!(restore(&large, private), Ok(()));
    client.sign_cancel(session).expect("an operation");

    client.digest_init(session, &plain(M::SHA256)).expect("an operation");
    let states: Vec<_> = (0..=MAX_STATES).map(|_| save(&client, session).expect("a state")).collect();
    assert_eq!(restore(&large, private), Err(Error::SavedStateInvalid));
    assert_eq!(restore(&states[0], NO_KEY), Err(Error::SavedStateInvalid));
    for kept in [&states[1], &states[MAX_STATES]] {
        assert_eq!(restore(kept, NO_KEY), Ok(()));
    }
}
