//! The token of the client module, with an agent that answers as a test says.

mod fake;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use fake::*;
use jeton_agent_wire::call::{Found, Told};
use jeton_agent_wire::{Call, Outcome};
use jeton_client::Remote;
use jeton_secret::Secret;
use jeton_words::attribute::AttributeView;
use jeton_words::cipher::AeadScheme;
use jeton_words::derive::{Connection, Derived};
use jeton_words::error::{Error, Result};
use jeton_words::hash::Hash;
use jeton_words::id::{AttributeType, MechanismType, ObjectHandle, SessionHandle};
use jeton_words::mechanism::{Mechanism, find};
use jeton_words::message::MessageParams;
use jeton_words::operation::{OneTimePassword, Output, Signed};
use jeton_words::params::Params;
use jeton_words::template::Template;
use jeton_words::tls::{Randoms, TlsPrf};
use jeton_words::token::{Attributes, Function, Room, Token};

fn mechanism(id: MechanismType, params: Params) -> Mechanism {
    Mechanism { info: find(id).expect("a mechanism"), params }
}

fn ecdsa() -> Mechanism {
    mechanism(MechanismType::ECDSA_SHA256, Params::None)
}

/// Returns an agent that lies to all calls but the first.
fn liar(lie: impl Fn() -> Outcome<'static> + Send + Sync + 'static) -> (Fake, SessionHandle) {
    let lies = move |call: &Call<'_>, _| match call {
        Call::C_OpenSession { .. } => honest(call),
        _ => answer(Ok(lie())),
    };
    let fake = Fake::start(lies, || true);
    let session = fake.open();
    (fake, session)
}

#[test]
fn an_output_that_does_not_fit_its_buffer_is_not_written() {
    for (result, out) in [(5, &b"12345"[..]), (3, b"12"), (2, b"123"), (usize::MAX, b"1234")] {
        let (fake, session) =
            liar(move || Outcome::C_Encrypt { result, session: (), data: (), out: data(out) });
        let mut buffer = [9; 4];
        let outcome = fake.remote.encrypt(session, b"data", Output::Buffer(&mut buffer));
        assert_eq!((outcome, buffer), (Err(Error::DeviceError), [9; 4]), "{result}");
    }
    let (fake, session) = liar(|| Outcome::C_Encrypt { result: 1, session: (), data: (), out: data(b"1") });
    assert_eq!(fake.remote.encrypt(session, b"data", Output::Length), Err(Error::DeviceError));
    let mut buffer = [9; 4];
    let outcome = fake.remote.encrypt(session, b"data", Output::Buffer(&mut buffer));
    assert_eq!((outcome, buffer), (Ok(1), [b'1', 9, 9, 9]));
}

#[test]
fn a_one_time_password_needs_room_for_its_struct() {
    let (fake, session) = liar(|| {
        let password = OneTimePassword { digits: [b'1'; 8], len: 6, counter: [0; 8] };
        Outcome::C_Sign { result: Signed::Password(password), session: (), data: (), out: data(b"") }
    });
    let (mut fits, mut short) = (vec![0; OneTimePassword::room(6)], vec![0; OneTimePassword::room(6) - 1]);
    let signed = fake.remote.sign(session, b"", Output::Buffer(&mut fits));
    assert!(matches!(signed, Ok(Signed::Password(_))));
    for out in [Output::Buffer(&mut short), Output::Length] {
        assert_eq!(fake.remote.sign(session, b"", out), Err(Error::DeviceError));
    }
}

#[test]
fn random_bytes_fill_the_buffer_or_the_call_fails() {
    for len in [0, 3, 5] {
        let bytes = &[1; 5][..len];
        let (fake, session) =
            liar(move || Outcome::C_GenerateRandom { result: (), session: (), out: data(bytes) });
        let mut buffer = [9; 4];
        assert_eq!(fake.remote.random(session, &mut buffer), Err(Error::DeviceError));
        assert_eq!(buffer, [9; 4]);
    }
}

#[test]
fn a_search_returns_no_more_than_was_asked() {
    for (count, found) in [(3, 3), (1, 2), (2, 1)] {
        let (fake, session) = liar(move || {
            let out = Found(vec![ObjectHandle(1); found]);
            Outcome::C_FindObjects { result: count, session: (), out }
        });
        let mut handles = [ObjectHandle(9); 2];
        assert_eq!(fake.remote.find(session, &mut handles), Err(Error::DeviceError));
        assert_eq!(handles, [ObjectHandle(9); 2]);
    }
}

#[test]
fn a_nonce_or_tag_of_another_length_is_not_written() {
    let params = |nonce, tag| MessageParams::new(AeadScheme::AesGcm, &vec![1; nonce], tag).expect("lengths");
    for (nonce, tag) in [(13, 16), (12, 15), (11, 16)] {
        let (fake, session) = liar(move || {
            let (session, aad, bytes, out) = ((), (), (), data(b""));
            Outcome::C_EncryptMessage {
                result: 0,
                session,
                params: params(nonce, tag),
                aad,
                data: bytes,
                out,
            }
        });
        let mut given = params(12, 16);
        given.nonce_mut().fill(9);
        let outcome = fake.remote.encrypt_message(session, &mut given, b"", b"", Output::Buffer(&mut []));
        assert_eq!((outcome, given.nonce()), (Err(Error::DeviceError), &[9; 12][..]));
    }
}

#[test]
fn vectors_of_a_connection_have_their_length() {
    let keys = || {
        let (prf, client, server) = (TlsPrf::Hash(Hash::Sha256), Box::from([1; 32]), Box::from([2; 32]));
        let randoms = Randoms { client, server };
        mechanism(
            MechanismType::TLS12_KEY_AND_MAC_DERIVE,
            Params::TlsKeys { prf, randoms, mac_len: 0, key_len: 16, iv_len: 4 },
        )
    };
    for (len, fits) in [(3, false), (4, true), (5, false)] {
        let (fake, session) = liar(move || {
            let ivs = [4, len].map(|len| Secret::new(vec![1; len]));
            let result = Ok(Derived::Connection(Connection { macs: None, keys: None, ivs }));
            Outcome::C_DeriveKey { result, more: Vec::new() }
        });
        let base = ObjectHandle(1);
        let outcome = fake.remote.derive(session, &keys(), base, &Template::default(), &mut []);
        assert_eq!(outcome.is_ok(), fits);
    }
}

struct Label(Vec<Option<usize>>);

impl Attributes for Label {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn asked(&self, _: usize) -> (AttributeType, Room) {
        (AttributeType::LABEL, Room::Bytes(4))
    }

    fn tell(&mut self, index: usize, value: Result<AttributeView<'_>>) {
        self.0[index] = match value {
            Ok(AttributeView::Bytes(bytes)) => Some(bytes.len()),
            _ => None,
        };
    }

    fn outcome(&self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn an_answer_has_as_many_attributes_as_the_question() {
    for told in 0..3 {
        let (fake, session) =
            liar(move || Outcome::C_GetAttributeValue((0..told).map(|_| Told::Bytes(data(b"ca"))).collect()));
        let mut label = Label(vec![None]);
        let outcome = fake.remote.attributes(session, ObjectHandle(1), &mut label);
        let expected = if told == 1 { (Ok(()), Some(2)) } else { (Err(Error::DeviceError), None) };
        assert_eq!((outcome, label.0[0]), expected);
    }
}

#[test]
fn an_array_is_no_answer_to_a_request_for_bytes() {
    let within = || vec![(AttributeType::ID, Told::Bytes(data(b"written")))];
    let (fake, session) = liar(move || Outcome::C_GetAttributeValue(vec![Told::Template(within())]));
    let mut label = Label(vec![None]);
    let outcome = fake.remote.attributes(session, ObjectHandle(1), &mut label);
    assert_eq!((outcome, label.0[0]), (Err(Error::DeviceError), None));
}

#[test]
fn the_result_of_another_function_is_none() {
    let (fake, session) = liar(|| Outcome::Cleared);
    assert_eq!(fake.remote.sign_init(session, &ecdsa(), ObjectHandle(1)), Err(Error::DeviceError));
    assert_eq!(fake.remote.clear(session, Function::C_SignInit), Ok(()));
    assert_eq!(fake.remote.refused(session, Function::C_Sign, Error::ArgumentsBad), Error::DeviceError);
}

#[test]
fn an_init_function_that_succeeded_before_travels_with_the_next_call() {
    let fake = Fake::start(|call, _| honest(call), || true);
    let (session, key) = (fake.open(), ObjectHandle(1));
    let sign = |remote: &Remote| {
        remote.sign_init(session, &ecdsa(), key).expect("an operation");
        remote.sign(session, b"data", Output::Buffer(&mut [0; 4])).expect("a signature");
    };
    sign(&fake.remote);
    fake.got();
    sign(&fake.remote);
    let both = Got::Calls(5, 0, vec![Function::C_SignInit, Function::C_Sign]);
    assert_eq!(fake.got(), [both]);
    // Another operation may be certain no more.
    fake.remote.destroy_object(session, ObjectHandle(2)).expect("an object");
    fake.got();
    sign(&fake.remote);
    let calls = [Function::C_SignInit, Function::C_Sign].map(|function| Got::Calls(5, 0, vec![function]));
    assert_eq!(fake.got(), calls);
}

#[test]
fn a_call_that_only_reads_is_sent_again_in_the_next_generation() {
    let lose = |call: &Call<'_>, generation| match call {
        Call::C_Sign { .. } | Call::C_DestroyObject { .. } if generation == 0 => Act::Close,
        _ => honest(call),
    };
    let fake = Fake::start(lose, || true);
    let (session, object) = (fake.open(), ObjectHandle(1));
    fake.got();
    assert_eq!(fake.remote.sign(session, b"data", Output::Buffer(&mut [0; 4])), Ok(Signed::Bytes(4)));
    let sign = |generation| Got::Calls(5, generation, vec![Function::C_Sign]);
    assert_eq!(fake.got(), [sign(0), Got::Join, sign(1)]);
    let session = fake.open();
    fake.got();
    assert_eq!(fake.remote.destroy_object(session, object), Err(Error::DeviceError));
    assert_eq!(fake.got(), [Got::Calls(5, 0, vec![Function::C_DestroyObject])]);
}

#[test]
fn the_end_of_a_session_waits_for_an_agent_that_is_busy() {
    static DENIED: AtomicUsize = AtomicUsize::new(0);
    let admits = || DENIED.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err();
    let lose = |call: &Call<'_>, _| match call {
        Call::C_DestroyObject { .. } => Act::Close,
        _ => honest(call),
    };
    let fake = Fake::start(lose, admits);
    let (closed, other) = (fake.open(), fake.open());
    assert_eq!(fake.remote.destroy_object(closed, ObjectHandle(1)), Err(Error::DeviceError));
    fake.got();
    DENIED.store(5, SeqCst);
    assert_eq!(fake.remote.close_session(closed), Ok(()));
    assert_eq!(fake.got(), [Got::Join, Got::Calls(5, 1, vec![Function::C_CloseSession])]);
    // The other session goes on.
    assert_eq!(fake.remote.sign_init(other, &ecdsa(), ObjectHandle(1)), Ok(()));
    assert_eq!(fake.got(), [Got::Calls(5, 0, vec![Function::C_SignInit])]);
}

#[test]
fn a_call_waits_for_an_agent_that_has_no_room_for_the_question_whether_it_lives() {
    let slow = |call: &Call<'_>, _| {
        if matches!(call, Call::C_Sign { .. }) {
            thread::sleep(Duration::from_secs(3));
        }
        honest(call)
    };
    let fake = Fake::start(slow, || true);
    let session = fake.open();
    fake.got();
    assert_eq!(fake.remote.sign(session, b"data", Output::Buffer(&mut [0; 4])), Ok(Signed::Bytes(4)));
    assert_eq!(fake.got(), [Got::Calls(5, 0, vec![Function::C_Sign])]);
}
