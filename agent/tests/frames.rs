//! Peers that do not follow the protocol cost their own connection only.

mod common;

use std::borrow::Cow;
use std::io::{Read, Write};

use common::Agent;
use common::peer::{Peer, encoded};
use cryptoki_sys::*;
use jeton_agent_wire::argument::{Content, Input};
use jeton_agent_wire::image::{Image, Item};
use jeton_agent_wire::layout::{MAX_ATTRIBUTES, MAX_ROOM};
use jeton_agent_wire::{
    self as protocol, Argument, Function, MAX_FIRST, MAX_MESSAGE, Parameter, Reply, Request, mechanism,
};
use serde_bytes::Bytes;

/// Returns the image of structs, with these items behind their pointers.
fn image<'a>(structs: &[u8], items: impl Iterator<Item = Item<'a>>) -> Image<'static> {
    let mut image = Vec::new();
    Item::Structs(Bytes::new(structs)).append(&mut image).expect("an image");
    items.for_each(|item| item.append(&mut image).expect("an image"));
    Image(Cow::Owned(image.into()))
}

#[test]
fn hostile_messages_end_their_connection_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::start(directory.path());
    let mut other = Peer::connect(directory.path());
    let (name, _) = other.start();

    // Before the first message: nothing else, nothing long, nothing twice.
    let calls = encoded(&Request::Calls { session: 0, count: 0 });
    let resume = encoded(&Request::Resume { session: 1, ticket: Bytes::new(b"x") });
    for message in [&calls[..], &[], &[0xff; 64], &[0; MAX_FIRST + 1]] {
        assert_eq!(Peer::connect(directory.path()).ask(message), None, "{message:02x?}");
    }
    assert!(Peer::connect(directory.path()).ask(&resume).is_some());
    for len in [MAX_FIRST as u32 + 1, u32::MAX] {
        let mut peer = Peer::connect(directory.path());
        peer.0.write_all(&len.to_le_bytes()).expect("a header");
        assert_eq!(peer.0.read(&mut [0]).unwrap_or(0), 0);
    }
    let mut peer = Peer::connect(directory.path());
    peer.start();
    assert_eq!(peer.ask(&encoded(&Request::Start { version: protocol::VERSION, single: false })), None);
    let mut peer = Peer::connect(directory.path());
    let reply = peer.ask(&encoded(&Request::Join { version: protocol::VERSION, application: [7; 32] }));
    assert!(matches!(protocol::decode(&reply.expect("an answer")), Ok(Reply::Unknown)));
    let reply = Peer::connect(directory.path()).ask(&encoded(&Request::Start { version: 77, single: false }));
    assert!(matches!(protocol::decode(&reply.expect("an answer")), Ok(Reply::Refused(_))));

    // A long message that never comes, and a silent peer.
    let mut slow = Peer::connect(directory.path());
    slow.start();
    slow.0.write_all(&(MAX_MESSAGE as u32).to_le_bytes()).expect("a header");
    let _silent = Peer::connect(directory.path());

    // Arguments of other functions.
    for function in Function::ALL {
        let mut peer = Peer::connect(directory.path());
        peer.start();
        let arguments = (0..20).map(|_| Argument::Number(1)).collect();
        assert_eq!(peer.call(0, *function, arguments), None, "{function:?}");
    }

    // Parameters that their mechanism does not have, and structs with nothing but numbers. The
    // agent follows no pointer in them.
    let mut peer = Peer::connect(directory.path());
    peer.start();
    for mechanism in jeton::mechanism::all().map(|row| row.id.0) {
        let parameter = mechanism::parameter(mechanism, None);
        for len in [0, 1, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 2048] {
            for filler in [0, 0x41, 0xff] {
                let bytes = vec![filler; len];
                let blocks = parameter.layout(len as u64).map_or(0, |layout| layout.pointers.len());
                let image = || image(&bytes, (0..blocks).map(|_| Item::Nothing));
                for (content, is_refused) in [
                    (Content::Unread(true, len as u64), false),
                    (Content::Unread(false, len as u64), false),
                    (Content::Plain(Bytes::new(&bytes)), parameter != Parameter::Plain),
                    (Content::Struct(len as u64, image()), parameter.layout(len as u64).is_none()),
                ] {
                    // Each refusal ends a connection, so only some are tried.
                    if is_refused && (len, filler) != (48, 0x41) {
                        continue;
                    }
                    let arguments = vec![
                        Argument::Mechanism(Some(mechanism), content),
                        Argument::Number(1),
                        Argument::Template(0, None),
                        Argument::Pointer(true),
                    ];
                    let code = peer.call(77, Function::C_DeriveKey, arguments);
                    assert_eq!(code.is_none(), is_refused, "{mechanism:#x} {len}");
                    if is_refused {
                        peer = Peer::connect(directory.path());
                        peer.start();
                    }
                }
            }
        }
    }

    let reply = Peer::connect(directory.path()).ask(&encoded(&Request::Status)).expect("an answer");
    let figures = protocol::decode(&reply).expect("a reply");
    assert!(matches!(figures, Reply::Status(status) if status.applications >= 1 && status.requests >= 1));

    // The first application goes on, and another connection joins it.
    let slots = || vec![Argument::Number(1), Argument::Output(false, Some(0))];
    assert_eq!(other.call(0, Function::C_GetSlotList, slots()), Some(CKR_OK));
    let mut second = Peer::connect(directory.path());
    let join = encoded(&Request::Join { version: protocol::VERSION, application: name });
    assert!(matches!(protocol::decode(&second.ask(&join).expect("an answer")), Ok(Reply::Started { .. })));
    assert_eq!(second.call(0, Function::C_GetSlotList, slots()), Some(CKR_OK));
    assert!(agent.runs());
}

#[test]
fn impossible_lengths_are_refused_by_the_function() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::start(directory.path());
    let mut peer = Peer::connect(directory.path());
    peer.start();
    for room in [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 40] {
        let arguments = vec![Argument::Output(true, Some(room))];
        let code = peer.call(77, Function::C_GenerateRandom, arguments);
        assert_eq!(code, Some(CKR_SESSION_HANDLE_INVALID), "{room:#x}");
    }
    // The rooms of all attributes together have a limit.
    let attribute = [CKA_LABEL, 0, MAX_ROOM].map(u64::to_ne_bytes).concat();
    let structs = attribute.repeat(MAX_ATTRIBUTES as usize);
    let image = image(&structs, (0..MAX_ATTRIBUTES).map(|_| Item::Room));
    let template = Argument::Template(MAX_ATTRIBUTES, Some(image));
    let code = peer.call(77, Function::C_GetAttributeValue, vec![Argument::Number(1), template]);
    assert_eq!(code, Some(CKR_SESSION_HANDLE_INVALID));
    let arguments = vec![Argument::Input(Input::Impossible(u64::MAX))];
    assert_eq!(peer.call(77, Function::C_SeedRandom, arguments), Some(CKR_SESSION_HANDLE_INVALID));
    assert!(agent.runs());
}
