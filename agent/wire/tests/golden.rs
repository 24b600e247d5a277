//! The bytes of version 5. A change of these bytes needs another version, and a new function comes
//! last.

use std::borrow::Cow;

use jeton_agent_wire::call::{Asked, Data, Found, Here, Length, OutputRoom, Told as Shown};
use jeton_agent_wire::split::{Ask, Told};
use jeton_agent_wire::{Answer, Call, Outcome, Reply, Request, State, VERSION, append, decode};
use jeton_words::error::Error;
use jeton_words::id::{AttributeType, MechanismType, ObjectHandle, SlotId};
use jeton_words::mechanism::{Mechanism, find};
use jeton_words::operation::Signed;
use jeton_words::params::Params;
use jeton_words::session::{Access, User};
use jeton_words::template::{Given, Raw, Template};
use jeton_words::token::{Function, Room};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

/// Checks the bytes of a value, and that they are the bytes of the value that they decode to.
fn check<'a, T: Serialize + Deserialize<'a>>(value: &T, golden: &'a [u8]) {
    let bytes = |value: &T| {
        let mut bytes = Vec::new();
        append(value, &mut bytes).expect("a message");
        bytes
    };
    assert_eq!(bytes(value), golden, "{:02x?}", bytes(value));
    let again: T = decode(golden).expect("a value");
    assert_eq!(bytes(&again), golden);
}

#[test]
fn requests_have_the_bytes_of_version_5() {
    assert_eq!(VERSION, 5);
    check(&Request::Start { version: 5, single: false }, &[0, 5, 0]);
    check(&Request::Join { version: 5, application: [7; 32] }, &[&[1, 5][..], &[7; 32]].concat());
    let calls = Request::Calls { session: 300, count: 2, object: 0, number: 9, generation: 1 };
    check(&calls, &[2, 0xac, 2, 2, 0, 9, 1]);
    check(&Request::End, &[3]);
    check(&Request::Resume { session: 1, ticket: Bytes::new(b"t") }, &[4, 1, 1, b't']);
    check(&Request::Lock(None), &[7, 0]);
    check(&Request::Split { session: 300, ask: Ask::Identity }, &[8, 0xac, 2, 0]);
    let sign = Ask::Sign {
        share: ObjectHandle(9),
        message: Bytes::new(b"m"),
        commitments: vec![(1, Bytes::new(b"c")), (3, Bytes::new(b"d"))],
    };
    let golden = [8, 1, 6, 9, 1, b'm', 2, 1, 1, b'c', 3, 1, b'd'];
    check(&Request::Split { session: 1, ask: sign }, &golden);
}

/// A client of version 4 starts with the same bytes, and understands the refusal.
#[test]
fn a_client_of_version_4_gets_an_answer() {
    assert!(matches!(decode(&[0, 4, 0]), Ok(Request::Start { version: 4, single: false })));
    check(&Reply::Refused("no"), &[2, 2, b'n', b'o']);
    // The figures follow.
    check(&Reply::Status, &[5]);
    check(&Reply::Applications, &[6]);
}

#[test]
fn calls_have_the_bytes_of_version_5() {
    let session = Here;
    let mechanism = |id| Cow::Owned(Mechanism { info: find(id).expect("a mechanism"), params: Params::None });
    let key = ObjectHandle(1 << 7);
    check(&Call::Refused { function: Function::C_SignInit, error: Error::ArgumentsBad }, &[0, 55, 0]);
    check(&Call::Clear(Function::C_SignInit), &[1, 55]);
    let asked = Asked(vec![
        (AttributeType::LABEL, Room::Bytes(9)),
        (AttributeType::WRAP_TEMPLATE, Room::Template(24, vec![Room::Length])),
    ]);
    let golden = [2, 0x80, 1, 2, 3, 1, 9, 0x91, 0x84, 0x80, 0x80, 4, 2, 24, 1, 0];
    check(&Call::C_GetAttributeValue { object: key, asked }, &golden);
    check(&Call::C_GetSlotList {}, &[4]);
    let (access, asynchronous) = (Access::ReadWrite, false);
    check(&Call::C_OpenSession { slot: SlotId(1), access, asynchronous }, &[13, 1, 1, 0]);
    let pin = Bytes::new(b"1234");
    check(&Call::C_Login { session, user: User::User, pin }, &[20, 1, 4, b'1', b'2', b'3', b'4']);
    let value = Raw::Bytes(b"k");
    let template = Cow::Owned(Template(vec![Given { id: AttributeType::LABEL, value }]));
    check(&Call::C_FindObjectsInit { session, template }, &[29, 1, 3, 0, 1, b'k']);
    check(&Call::C_FindObjects { session, out: 10 }, &[30, 10]);
    let sign_init = Call::C_SignInit { session, mechanism: mechanism(MechanismType::ECDSA), key };
    check(&sign_init, &[57, 0xc1, 0x20, 0, 0x80, 1]);
    let (data, out) = (Bytes::new(b"d"), OutputRoom::Bytes(64));
    check(&Call::C_Sign { session, data, out }, &[58, 1, b'd', 1, 64]);
    check(&Call::C_GenerateRandom { session, out: 32 }, &[98, 32]);
}

#[test]
fn answers_have_the_bytes_of_version_5() {
    check(&Reply::Renewed(Bytes::new(b"t")), &[9, 1, b't']);
    check(&Reply::Split(Ok(Told::Commitment(Bytes::new(b"c")))), &[10, 0, 5, 1, b'c']);
    check(&Reply::Split(Err(Error::ArgumentsBad)), &[10, 1, 0]);
    let answer = |outcome| Answer { outcome, state: State { operations: 2, objects: 1 }, kept: None };
    check(&answer(Err(Error::PinIncorrect)), &[1, 43, 2, 1, 0]);
    check(&answer(Err(Error::BufferTooSmall { needed: 64 })), &[1, 7, 64, 2, 1, 0]);
    check(&answer(Ok(Outcome::Cleared)), &[0, 0, 2, 1, 0]);
    let told = vec![
        Shown::Refused(Error::AttributeSensitive),
        Shown::Length(Length::Bytes(9)),
        Shown::Number(3),
        Shown::Template(vec![(AttributeType::LABEL, Shown::Bytes(Data(Cow::Borrowed(Bytes::new(b"l")))))]),
    ];
    let golden = [0, 1, 4, 0, 2, 1, 1, 9, 2, 3, 4, 1, 3, 3, 1, b'l', 2, 1, 0];
    check(&answer(Ok(Outcome::C_GetAttributeValue(told))), &golden);
    let out = Data(Cow::Borrowed(Bytes::new(b"sig")));
    let signed = Outcome::C_Sign { result: Signed::Bytes(3), session: (), data: (), out };
    check(&answer(Ok(signed)), &[0, 57, 0, 3, 3, b's', b'i', b'g', 2, 1, 0]);
    let found = Outcome::C_FindObjects { result: 1, session: (), out: Found(vec![ObjectHandle(5)]) };
    check(&answer(Ok(found)), &[0, 29, 1, 1, 5, 2, 1, 0]);
}

#[test]
fn a_function_keeps_its_number() {
    let names: Vec<_> = Function::ALL.iter().map(|function| format!("{function:?}")).collect();
    assert_eq!(names, include_str!("functions.txt").lines().collect::<Vec<_>>());
}
