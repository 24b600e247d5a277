//! The token of the client module, with an agent that answers as a test says.

mod fake;

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;
use std::time::Duration;

use fake::*;
use jeton_agent_wire::call::{Found, Length, OutputRoom, Told};
use jeton_agent_wire::{self as wire, Answer, Call, Outcome, State};
use jeton_client::Remote;
use jeton_secret::Secret;
use jeton_words::asynchronous::{AsyncFunction, Completed};
use jeton_words::attribute::AttributeView;
use jeton_words::cipher::AeadScheme;
use jeton_words::derive::{Additional, Connection, Derived};
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::hash::Hash;
use jeton_words::id::{AttributeType, MechanismType, ObjectHandle, SessionHandle, SlotId};
use jeton_words::mechanism::{Mechanism, find};
use jeton_words::message::MessageParams;
use jeton_words::operation::{OneTimePassword, Output, Signed};
use jeton_words::params::Params;
use jeton_words::session::{Access, SessionInfo};
use jeton_words::template::Template;
use jeton_words::tls::{Randoms, TlsPrf};
use jeton_words::token::{Attributes, Function, Room, Token};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use serde_bytes::Bytes;

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
fn a_signature_has_the_form_of_its_mechanism() {
    let password = OneTimePassword { digits: [b'1'; 8], len: 6, counter: [0; 8] };
    let room = OneTimePassword::room(6);
    let lie = move |call: &Call<'_>, _| match call {
        Call::C_Sign { data: given, out, .. } => {
            let is_password = given[..] == *b"password";
            let len = if let OutputRoom::Bytes(len) = out { *len as usize } else { 0 };
            let bytes = vec![7; if is_password { 0 } else { len.min(room) }];
            let result = if is_password { Signed::Password(password) } else { Signed::Bytes(len.min(room)) };
            answer(Ok(Outcome::C_Sign { result, session: (), data: (), out: data(&bytes) }))
        }
        Call::C_SetOperationState { .. } => {
            let (result, session, state, encryption, authentication) = ((), (), (), (), ());
            answer(Ok(Outcome::C_SetOperationState { result, session, state, encryption, authentication }))
        }
        call => honest(call),
    };
    let fake = Fake::start(lie, || true);
    let (session, key) = (fake.open(), ObjectHandle(1));
    let hotp =
        mechanism(MechanismType::HOTP, Params::Otp { counter: None, digits: None, format: None, flags: 0 });
    let sign = |data: &[u8], len| fake.remote.sign(session, data, Output::Buffer(&mut vec![0; len]));
    let wrong = Err(Error::DeviceError);
    // The second time, the `Init` function travels with its call.
    for _ in 0..2 {
        for data in [&b"password"[..], b"bytes"] {
            assert_eq!(fake.remote.sign_init(session, &hotp, key), Ok(()));
            let expected = if data == b"password" { Ok(Signed::Password(password)) } else { wrong };
            assert_eq!(sign(data, room), expected);
        }
        assert_eq!(fake.remote.sign_init(session, &hotp, key), Ok(()));
        assert_eq!(sign(b"password", room - 1), wrong);
        assert_eq!(fake.remote.sign_init(session, &hotp, key), Ok(()));
        assert_eq!(fake.remote.sign(session, b"password", Output::Length), wrong);
        assert_eq!(fake.remote.sign_init(session, &hotp, key), Ok(()));
        assert_eq!(fake.remote.sign(session, b"bytes", Output::Length), Ok(Signed::Bytes(0)));
        for data in [&b"password"[..], b"bytes"] {
            assert_eq!(fake.remote.sign_init(session, &ecdsa(), key), Ok(()));
            assert_eq!(sign(data, room), if data == b"bytes" { Ok(Signed::Bytes(room)) } else { wrong });
        }
    }
    // A restored operation.
    assert_eq!(fake.remote.sign_init(session, &hotp, key), Ok(()));
    assert_eq!(fake.remote.set_operation_state(session, b"state", ObjectHandle(0), key), Ok(()));
    assert_eq!(sign(b"password", room), wrong);
    assert_eq!(sign(b"bytes", room), Ok(Signed::Bytes(room)));
}

#[test]
fn no_length_is_longer_than_an_int() {
    let most = i32::MAX as usize;
    for (len, fits) in [(most, true), (most + 1, false), (usize::MAX, false)] {
        let (fake, session) =
            liar(move || Outcome::C_Encrypt { result: len, session: (), data: (), out: data(b"") });
        let outcome = fake.remote.encrypt(session, b"data", Output::Length);
        assert_eq!(outcome, if fits { Ok(len) } else { Err(Error::DeviceError) });
        let (fake, session) =
            liar(move || Outcome::C_GetObjectSize { result: len as u64, session: (), object: () });
        assert_eq!(fake.remote.object_size(session, ObjectHandle(1)).is_ok(), fits);
        let length = Length::Bytes(len as u64);
        let (fake, session) = liar(move || Outcome::C_GetAttributeValue(vec![Told::Length(length)]));
        let outcome = fake.remote.attributes(session, ObjectHandle(1), &mut Label(vec![None]));
        assert_eq!(outcome.is_ok(), fits);
        // A buffer that is too small.
        let short = move |call: &Call<'_>, _| match call {
            Call::C_OpenSession { .. } => honest(call),
            _ => answer(Err(Error::BufferTooSmall { needed: len })),
        };
        let fake = Fake::start(short, || true);
        let session = fake.open();
        let outcome = fake.remote.encrypt(session, b"data", Output::Buffer(&mut [0; 4]));
        let expected = if fits { Error::BufferTooSmall { needed: len } } else { Error::DeviceError };
        assert_eq!(outcome, Err(expected));
        // These calls have none.
        assert_eq!(fake.remote.encrypt(session, b"data", Output::Length), Err(Error::DeviceError));
        assert_eq!(fake.remote.sign_init(session, &ecdsa(), ObjectHandle(1)), Err(Error::DeviceError));
    }
}

#[test]
fn no_value_is_longer_than_its_room() {
    let told: [fn() -> Told<'static>; 3] =
        [|| Told::Bytes(data(b"four")), || Told::Bytes(data(b"fives")), || Told::Number(1)];
    for (told, fits) in told.into_iter().zip([true, false, false]) {
        let (fake, session) = liar(move || Outcome::C_GetAttributeValue(vec![told()]));
        let mut label = Label(vec![None]);
        let outcome = fake.remote.attributes(session, ObjectHandle(1), &mut label);
        let expected = if fits { (Ok(()), Some(4)) } else { (Err(Error::DeviceError), None) };
        assert_eq!((outcome, label.0[0]), expected);
    }
}

#[test]
fn an_encapsulation_makes_a_key_unless_the_caller_asks_for_the_length() {
    let kem = mechanism(MechanismType::ML_KEM, Params::None);
    for key in [None, Some(ObjectHandle(7))] {
        let (fake, session) = liar(move || {
            let (session, mechanism, public, template) = ((), (), (), ());
            Outcome::C_EncapsulateKey {
                result: (0, key),
                session,
                mechanism,
                public,
                template,
                out: data(b""),
            }
        });
        let call = |out| {
            fake.remote.encapsulate_key(session, &kem, ObjectHandle(1), &Template::default(), out).is_ok()
        };
        assert_eq!((call(Output::Length), call(Output::Buffer(&mut []))), (key.is_none(), key.is_some()));
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
fn only_a_pair_has_two_keys() {
    for additional in [None, Some(ObjectHandle(2))] {
        let (fake, session) = liar(move || Outcome::C_AsyncComplete {
            result: Completed { object: ObjectHandle(1), additional },
            session: (),
            function: (),
        });
        let completes = |function| fake.remote.async_complete(session, function).is_ok();
        assert_eq!(completes(AsyncFunction::GenerateKey), additional.is_none());
        assert_eq!(completes(AsyncFunction::GenerateKeyPair), additional.is_some());
    }
}

/// Makes the result of a derivation.
type Derives = fn() -> Result<Derived>;

/// Derives with a mechanism at an agent that answers so. Returns whether the client believes it.
fn derives(
    mechanism: &Mechanism,
    result: Derives,
    keys: &'static [Option<u64>],
) -> Result<(bool, Option<ObjectHandle>)> {
    let (fake, session) = liar(move || {
        let more = keys.iter().map(|key| key.map(ObjectHandle)).collect();
        Outcome::C_DeriveKey { result: result(), more }
    });
    let mut more = [Additional { template: Template::default(), key: None }];
    let more = &mut more[..keys.len().min(1)];
    let outcome = fake.remote.derive(session, mechanism, ObjectHandle(1), &Template::default(), more);
    match outcome {
        Err(Error::DeviceError) => Err(Error::DeviceError),
        outcome => Ok((outcome.is_ok(), more.first().and_then(|further| further.key))),
    }
}

#[test]
fn a_derivation_has_the_results_of_its_mechanism() {
    let randoms = || Randoms { client: Box::from([1; 32]), server: Box::from([2; 32]) };
    let prf = TlsPrf::Hash(Hash::Sha256);
    let keys = Params::TlsKeys { prf, randoms: randoms(), mac_len: 0, key_len: 16, iv_len: 4 };
    let master = || Params::TlsMaster { prf, randoms: randoms() };
    let output = Params::TlsPrf { seed: Box::from([1]), label: Box::from([2]), len: 3 };
    let mechanisms = [
        mechanism(MechanismType::TLS12_KEY_AND_MAC_DERIVE, keys),
        mechanism(MechanismType::TLS12_MASTER_KEY_DERIVE, master()),
        mechanism(MechanismType::TLS12_MASTER_KEY_DERIVE_DH, master()),
        mechanism(MechanismType::TLS_PRF, output),
        mechanism(MechanismType::SHA256_KEY_DERIVATION, Params::None),
    ];
    const PAIR: Option<[ObjectHandle; 2]> = Some([ObjectHandle(1), ObjectHandle(2)]);
    let results: [(Derives, Option<usize>); 11] = [
        (|| made(None, PAIR, 4), Some(0)),
        (|| made(None, PAIR, 3), None),
        (|| made(None, PAIR, 5), None),
        (|| made(None, None, 4), None),
        (|| made(PAIR, PAIR, 4), None),
        (|| Ok(Derived::Master(ObjectHandle(1), Some([3, 3]))), Some(1)),
        (|| Ok(Derived::Master(ObjectHandle(1), None)), Some(2)),
        (|| Ok(Derived::Output(Secret::new(vec![1; 3]))), Some(3)),
        (|| Ok(Derived::Output(Secret::new(vec![1; 2]))), None),
        (|| Ok(Derived::Output(Secret::new(vec![1; 4]))), None),
        (|| Ok(Derived::Key(ObjectHandle(1))), Some(4)),
    ];
    for (number, (result, of)) in results.into_iter().enumerate() {
        for (index, mechanism) in mechanisms.iter().enumerate() {
            let expected = if of == Some(index) { Ok((true, None)) } else { Err(Error::DeviceError) };
            assert_eq!(derives(mechanism, result, &[]), expected, "{number} {index}");
        }
    }
}

fn made(macs: Option<[ObjectHandle; 2]>, keys: Option<[ObjectHandle; 2]>, len: usize) -> Result<Derived> {
    let ivs = [4, len].map(|len| Secret::new(vec![1; len]));
    Ok(Derived::Connection(Connection { macs, keys, ivs }))
}

#[test]
fn each_further_key_has_its_handle_or_the_call_fails() {
    let derive = mechanism(MechanismType::SHA256_KEY_DERIVATION, Params::None);
    let done = || Ok(Derived::Key(ObjectHandle(1)));
    let failed = || Err(Error::TemplateInconsistent);
    let wrong = Err(Error::DeviceError);
    assert_eq!(derives(&derive, done, &[Some(5)]), Ok((true, Some(ObjectHandle(5)))));
    assert_eq!(derives(&derive, done, &[None]), wrong);
    assert_eq!(derives(&derive, done, &[Some(5), Some(6)]), wrong);
    assert_eq!(derives(&derive, failed, &[Some(0)]), Ok((false, Some(ObjectHandle(0)))));
    assert_eq!(derives(&derive, failed, &[None]), Ok((false, None)));
    assert_eq!(derives(&derive, failed, &[Some(5)]), wrong);
    assert_eq!(derives(&derive, || Err(Error::BufferTooSmall { needed: 9 }), &[None]), wrong);
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
fn a_call_that_travelled_later_has_the_answer_of_its_own_function() {
    let sign_init: fn() -> Outcome<'static> =
        || Outcome::C_SignInit { result: (), session: (), mechanism: (), key: () };
    for (other, fits) in [
        (Ok(sign_init), true),
        (Ok((|| Outcome::Cleared) as fn() -> _), false),
        (Ok(|| Outcome::C_VerifyInit { result: (), session: (), mechanism: (), key: () }), false),
        (Err(Error::BufferTooSmall { needed: 4 }), false),
    ] {
        let inits = AtomicUsize::new(0);
        let lie = move |call: &Call<'_>, _| match call {
            // The second one travels with its call.
            Call::C_SignInit { .. } if inits.fetch_add(1, SeqCst) == 1 => {
                answer(other.map(|outcome| outcome()))
            }
            call => honest(call),
        };
        let fake = Fake::start(lie, || true);
        let session = fake.open();
        let sign = |expected| {
            fake.remote.sign_init(session, &ecdsa(), ObjectHandle(1)).expect("an operation");
            let signed = fake.remote.sign(session, b"data", Output::Buffer(&mut [0; 4]));
            assert_eq!(signed, expected);
        };
        sign(Ok(Signed::Bytes(4)));
        sign(if fits { Ok(Signed::Bytes(4)) } else { Err(Error::DeviceError) });
        sign(Ok(Signed::Bytes(4)));
    }
}

#[test]
fn a_call_whose_answer_is_malformed_is_not_sent_again() {
    let lie = |call: &Call<'_>, _| match call {
        Call::C_Sign { .. } => Act::Answer(vec![0xff; 9]),
        _ => honest(call),
    };
    let fake = Fake::start(lie, || true);
    let session = fake.open();
    fake.got();
    let signed = fake.remote.sign(session, b"data", Output::Buffer(&mut [0; 4]));
    assert_eq!(signed, Err(Error::DeviceError));
    assert_eq!(fake.got(), [Got::Calls(5, 0, vec![Function::C_Sign])]);
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
fn a_search_that_is_alone_ends_with_the_next_request() {
    let searching = |others: u16| {
        move |call: &Call<'_>, _| match call {
            Call::C_FindObjectsInit { .. } => {
                let init = Outcome::C_FindObjectsInit { result: (), session: (), template: () };
                answer_with_active(Ok(init), 1 << 12 | others)
            }
            Call::C_FindObjects { .. } => {
                let out = Found(vec![ObjectHandle(1)]);
                let found = Outcome::C_FindObjects { result: 1, session: (), out };
                answer_with_active(Ok(found), 1 << 12 | others)
            }
            Call::C_FindObjectsFinal { .. } => {
                answer_with_active(Ok(Outcome::C_FindObjectsFinal { result: (), session: () }), others)
            }
            _ => honest(call),
        }
    };
    let search = |fake: &Fake, session, room| {
        fake.remote.find_init(session, &Template(Vec::new())).expect("a search");
        assert_eq!(fake.remote.find(session, &mut vec![ObjectHandle(0); room]), Ok(1));
    };
    let calls = |generation, function| Got::Calls(5, generation, vec![function]);
    let [init, find] = [Function::C_FindObjectsInit, Function::C_FindObjects];
    let asked = |fake: &Fake, session| {
        fake.got();
        fake.remote.find_final(session).expect("an answer");
        fake.got().len()
    };
    let fake = Fake::start(searching(0), || true);
    let session = fake.open();
    fake.got();
    for generation in [0, 1] {
        search(&fake, session, 2);
        assert_eq!(fake.remote.find_final(session), Ok(()));
        assert_eq!(fake.got(), [calls(generation, init), calls(generation, find)]);
    }
    // Without a search, the agent says that there is none.
    assert_eq!(asked(&fake, session), 1);
    // There may be more objects, which have memory at the agent.
    search(&fake, session, 1);
    assert_eq!(asked(&fake, session), 1);
    // A call in another session may have ended it.
    search(&fake, session, 2);
    let other = fake.open();
    fake.remote.destroy_object(other, ObjectHandle(2)).expect("an object");
    assert_eq!(asked(&fake, session), 1);
    // A signature goes on.
    let fake = Fake::start(searching(1 << 1), || true);
    let session = fake.open();
    search(&fake, session, 2);
    assert_eq!(asked(&fake, session), 1);
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

/// Reads a message; `None` at the end.
fn message(from: &mut UnixStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; wire::HEADER];
    from.read_exact(&mut bytes).ok()?;
    let len = u32::from_le_bytes(bytes[..].try_into().expect("a header")) as usize;
    bytes.resize(wire::HEADER + len, 0);
    from.read_exact(&mut bytes[wire::HEADER..]).ok().map(|()| bytes)
}

/// A process that ends before it reads a request has not carried it out.
#[test]
fn a_request_that_was_not_read_is_sent_again_also_if_it_changes_something() {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    let fake = Fake::start(|call, _| honest(call), || true);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("proxy");
    let (listener, agent) = (UnixListener::bind(&path).expect("a socket"), fake.address());
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let agent = agent.trim_start_matches("unix:").to_owned();
            thread::spawn(move || {
                let mut agent = UnixStream::connect(agent).expect("the agent");
                // Waits for a request, and reads nothing.
                while recv(&client, &mut [0], RecvFlags::PEEK).is_ok() {
                    if IS_ENDING.swap(false, SeqCst) {
                        return;
                    }
                    let Some(request) = message(&mut client) else { return };
                    agent.write_all(&request).expect("the agent");
                    client.write_all(&message(&mut agent).expect("an answer")).expect("the client");
                }
            });
        }
    });
    let remote = Remote::default();
    let parameters = format!("agent = 'unix:{}'", path.display());
    remote.start(Some(&parameters), Threads::Allowed).expect("an application");
    let session = remote.open_session(SlotId(1), Access::ReadWrite, false).expect("a session");
    fake.got();
    IS_ENDING.store(true, SeqCst);
    assert_eq!(remote.destroy_object(session, ObjectHandle(1)), Ok(()));
    assert_eq!(fake.got(), [Got::Join, Got::Calls(5, 0, vec![Function::C_DestroyObject])]);
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

/// Calls a function.
type Calls = fn(&Remote, SessionHandle) -> Result<()>;

/// Returns what the functions return at an agent that fails so.
fn failures<const N: usize>(error: Error, asynchronous: bool, calls: [Calls; N]) -> [Result<()>; N] {
    let lie = move |call: &Call<'_>, _| match call {
        Call::C_OpenSession { .. } => honest(call),
        _ => answer(Err(error)),
    };
    let fake = Fake::start(lie, || true);
    let session = fake.remote.open_session(SlotId(1), Access::ReadWrite, asynchronous).expect("a session");
    calls.map(|call| call(&fake.remote, session))
}

#[test]
fn an_error_is_one_of_the_function() {
    let calls: [Calls; 5] = [
        |remote, session| remote.sign(session, b"data", Output::Buffer(&mut [0; 4])).map(drop),
        |remote, session| remote.async_complete(session, AsyncFunction::GenerateKey).map(drop),
        |remote, session| remote.sign_init(session, &ecdsa(), ObjectHandle(1)),
        |remote, session| {
            let derive = mechanism(MechanismType::SHA256_KEY_DERIVATION, Params::None);
            remote.derive(session, &derive, ObjectHandle(1), &Template::default(), &mut []).map(drop)
        },
        |remote, _| remote.slots().map(drop),
    ];
    let wrong = Err(Error::DeviceError);
    for error in [Error::NotInitialized, Error::AlreadyInitialized] {
        assert_eq!(failures(error, true, calls), [wrong; 5]);
    }
    let pending = Err(Error::Pending);
    assert_eq!(failures(Error::Pending, true, calls), [pending, pending, wrong, wrong, wrong]);
    assert_eq!(failures(Error::Pending, false, calls), [wrong; 5]);
    for (needed, is_short) in [(0, false), (4, false), (5, true)] {
        let error = Error::BufferTooSmall { needed };
        let first = if is_short { Err(error) } else { wrong };
        assert_eq!(failures(error, true, calls), [first, wrong, wrong, wrong, wrong]);
    }
    assert_eq!(failures(Error::DataInvalid, false, calls), [Err(Error::DataInvalid); 5]);
}

#[test]
fn a_session_is_the_one_that_was_opened() {
    let infos = [(1, Access::ReadWrite, false), (2, Access::ReadWrite, false), (1, Access::ReadOnly, false)];
    for (number, (slot, access, asynchronous)) in
        infos.into_iter().chain([(1, Access::ReadWrite, true)]).enumerate()
    {
        let (fake, session) = liar(move || {
            let result = SessionInfo { slot: SlotId(slot), state: 2, access, asynchronous };
            Outcome::C_GetSessionInfo { result, session: () }
        });
        assert_eq!(fake.remote.session(session).is_ok(), number == 0, "{number}");
    }
}

#[test]
fn a_length_that_is_refused_is_not_noted() {
    for (len, out) in [(1 << 40, &b""[..]), (4, b"four")] {
        let lie = move |call: &Call<'_>, _| match call {
            Call::C_Sign { out: OutputRoom::Length, .. } => answer(Ok(Outcome::C_Sign {
                result: Signed::Bytes(len),
                session: (),
                data: (),
                out: data(out),
            })),
            call => honest(call),
        };
        let fake = Fake::start(lie, || true);
        let (session, key) = (fake.open(), ObjectHandle(1));
        for _ in 0..2 {
            assert_eq!(fake.remote.sign_init(session, &ecdsa(), key), Ok(()));
            assert_eq!(fake.remote.sign(session, b"data", Output::Length), Err(Error::DeviceError));
            // The next one waits for its call.
            assert_eq!(fake.remote.sign_init(session, &ecdsa(), key), Ok(()));
            fake.got();
            assert_eq!(fake.remote.sign(session, b"data", Output::Length), Err(Error::DeviceError));
            assert!(!fake.got().is_empty());
        }
    }
}

#[test]
fn an_agent_passes_no_descriptor_whose_close_could_take_an_hour() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent");
    let listener = UnixListener::bind(&path).expect("a socket");
    if !jeton_agent_system::take_no_descriptors(&listener) {
        // Linux before 6.16 does not have this.
        return;
    }
    let hostile = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let _ = stream.read(&mut [0; 64]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut passed = SendAncillaryBuffer::new(&mut space);
        let descriptor = [stream.as_fd()];
        assert!(passed.push(SendAncillaryMessage::ScmRights(&descriptor)));
        sendmsg(&stream, &[IoSlice::new(&[1])], &mut passed, SendFlags::NOSIGNAL)
    });
    let parameters = format!("agent = {{ address = 'unix:{}', timeout-seconds = 1 }}", path.display());
    assert_eq!(Remote::default().start(Some(&parameters), Threads::Allowed), Err(Error::GeneralError));
    assert_eq!(hostile.join().expect("a thread"), Err(Errno::PERM));
}

#[test]
fn a_serial_number_is_no_longer_than_that_of_a_token() {
    for (len, outcome) in [(16, Ok(())), (17, Err(Error::DeviceError))] {
        let opens = move |call: &Call<'_>, _| match call {
            Call::C_OpenSession { .. } => {
                let (slot, access, asynchronous) = ((), (), ());
                let result = SessionHandle(5);
                let outcome = Ok(Outcome::C_OpenSession { result, slot, access, asynchronous });
                let (serial, mut bytes) = ([b'1'; 17], Vec::new());
                let kept = Some(Bytes::new(&serial[..len]));
                wire::append(&Answer { outcome, state: State::default(), kept }, &mut bytes)
                    .expect("an answer");
                Act::Answer(bytes)
            }
            call => honest(call),
        };
        let fake = Fake::start(opens, || true);
        let opened = fake.remote.open_session(SlotId(1), Access::ReadWrite, false);
        assert_eq!(opened.map(drop), outcome, "{len}");
    }
}

/// A long one would move a PIN of its call to another buffer.
#[test]
fn a_long_init_function_travels_alone() {
    let encrypts = |call: &Call<'_>, _| match call {
        Call::C_EncryptInit { .. } => {
            let (result, session, mechanism, key) = ((), (), (), ());
            answer(Ok(Outcome::C_EncryptInit { result, session, mechanism, key }))
        }
        call => honest(call),
    };
    for (len, is_long) in [(400, false), (600, true)] {
        let fake = Fake::start(encrypts, || true);
        let session = fake.open();
        let (hash, mgf, label) = (Hash::Sha256, Hash::Sha256, vec![1; len].into());
        let oaep = mechanism(MechanismType::RSA_PKCS_OAEP, Params::Oaep { hash, mgf, label });
        for _ in 0..2 {
            let begun = fake.remote.encrypt_init(session, (&oaep).into(), ObjectHandle(1));
            assert_eq!(begun, Ok(()), "{len}");
        }
        fake.got();
        assert_eq!(fake.remote.set_pin(session, b"1234", b"5678"), Err(Error::FunctionNotSupported));
        let mut calls = vec![Function::C_EncryptInit, Function::C_SetPIN];
        calls.drain(..usize::from(is_long));
        assert_eq!(fake.got(), [Got::Calls(5, 0, calls)], "{len}");
    }
}
