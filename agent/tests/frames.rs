//! Peers that do not follow the protocol cost their own connection only.

mod common;

use std::borrow::Cow;
use std::io::ErrorKind;

use common::peer::{Peer, encoded};
use common::*;
use jeton_agent_wire::argument::{Content, Input};
use jeton_agent_wire::channel::Channel;
use jeton_agent_wire::image::{Image, Item};
use jeton_agent_wire::layout::{MAX_ATTRIBUTES, MAX_ROOM};
use jeton_agent_wire::{
    self as protocol, Argument, Call, Function, MAX_FIRST, MAX_MESSAGE, Reply, Request, mechanism,
};
use serde_bytes::Bytes;

fn image<'a>(structs: &[u8], items: impl Iterator<Item = Item<'a>>) -> Image<'static> {
    let mut image = Vec::new();
    Item::Structs(Bytes::new(structs)).append(&mut image).expect("an image");
    items.for_each(|item| item.append(&mut image).expect("an image"));
    Image(Cow::Owned(image.into()))
}

#[test]
fn hostile_messages_end_their_connection_only() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    let mut other = Peer::connect(directory);
    let (name, _) = other.start();

    // Before the first message: nothing else, nothing long, nothing twice.
    let calls = encoded(&Request::Calls { session: 0, count: 0, object: 0, number: 1, generation: 0 });
    let resume = encoded(&Request::Resume { session: 1, ticket: Bytes::new(b"x") });
    for message in [&calls[..], &[], &[0xff; 64], &[0; MAX_FIRST + 1]] {
        assert_eq!(Peer::connect(directory).ask(message), None, "{message:02x?}");
    }
    assert!(Peer::connect(directory).ask(&resume).is_some());
    for len in [MAX_FIRST as u32 + 1, u32::MAX] {
        let mut peer = Peer::connect(directory);
        peer.0.write_all(&len.to_le_bytes()).expect("a header");
        assert_eq!(peer.0.read(&mut [0]).unwrap_or(0), 0);
    }
    let mut peer = Peer::started(directory);
    assert_eq!(peer.ask(&encoded(&Request::Start { version: protocol::VERSION, single: false })), None);
    let mut peer = Peer::connect(directory);
    let reply = peer.ask(&encoded(&Request::Join { version: protocol::VERSION, application: [7; 32] }));
    assert!(matches!(protocol::decode(&reply.expect("an answer")), Ok(Reply::Unknown)));
    let reply = Peer::connect(directory).ask(&encoded(&Request::Start { version: 77, single: false }));
    assert!(matches!(protocol::decode(&reply.expect("an answer")), Ok(Reply::Refused(_))));

    // A long message that never comes, and a silent peer.
    let mut slow = Peer::started(directory);
    slow.0.write_all(&(MAX_MESSAGE as u32).to_le_bytes()).expect("a header");
    let _silent = Peer::connect(directory);

    // Arguments of other functions.
    for function in Function::ALL {
        let mut peer = Peer::started(directory);
        let arguments = (0..20).map(|_| Argument::Number(1)).collect();
        assert_eq!(peer.call(0, *function, arguments), None, "{function:?}");
    }

    // Parameters that their mechanism does not have, and structs with nothing but numbers. The
    // agent follows no pointer in them.
    let mut peer = Peer::started(directory);
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
                    (Content::Plain(Bytes::new(&bytes)), !parameter.is_plain(len as u64)),
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
                        peer = Peer::started(directory);
                    }
                }
            }
        }
    }

    let reply = Peer::connect(directory).ask(&encoded(&Request::Status)).expect("an answer");
    let figures = protocol::decode(&reply).expect("a reply");
    assert!(matches!(figures, Reply::Status(status) if status.applications >= 1 && status.requests >= 1));

    // The first application goes on, and another connection joins it.
    let slots = || vec![Argument::Number(1), Argument::Output(false, Some(0))];
    assert_eq!(other.call(0, Function::C_GetSlotList, slots()), Some(CKR_OK));
    let mut second = Peer::connect(directory);
    assert!(second.joins(name));
    assert_eq!(second.call(0, Function::C_GetSlotList, slots()), Some(CKR_OK));
    assert!(agent.runs());
}

#[test]
fn impossible_lengths_are_refused_by_the_function() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    let mut peer = Peer::started(directory);
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

/// Rules under which this user has this number of bytes.
fn limit(directory: &Path, bytes: usize) {
    let uid = rustix::process::getuid().as_raw();
    let text = format!("[[client]]\nuid = {uid}\nmemory = {bytes}\n");
    write_rules(directory, &text);
}

/// Returns a figure of a process in `/proc/PID/status`, as `VmHWM` in KiB.
fn figure(agent: &Agent, name: &str) -> usize {
    let text = fs::read_to_string(format!("/proc/{}/status", agent.id())).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a number")
}

#[test]
fn nested_structs_cost_their_connection_only() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    let attribute = [CKA_UNWRAP_TEMPLATE, 0, size_of::<CK_ATTRIBUTE>() as u64].map(u64::to_ne_bytes).concat();
    for depth in [1, 3, 7, 100, 10_000, 1_000_000] {
        let nested = (0..depth).map(|_| Item::Structs(Bytes::new(&attribute)));
        let template = Argument::Template(1, Some(image(&attribute, nested.chain([Item::Nothing]))));
        let mut peer = Peer::started(directory);
        let arguments = vec![template, Argument::Pointer(true)];
        let code = peer.call(77, Function::C_CreateObject, arguments);
        let expected = (depth < 7).then_some(CKR_SESSION_HANDLE_INVALID);
        assert_eq!(code, expected, "{depth}");
    }
    // What version 1 of the protocol decoded by recursion.
    let mut peer = Peer::started(directory);
    let old = [&[2, 0x4d, 1, 0x11, 1, 6, 0, 0, 1][..], &[0, 1, 3].repeat(3000), &[0, 0]].concat();
    assert_eq!(peer.ask(&old), None);
    assert!(agent.runs());
}

#[test]
fn the_memory_of_a_client_has_its_limit() {
    const LIMIT: usize = 16 << 20;
    let directory = &Directory::new();
    limit(directory, LIMIT);
    let mut agent = Agent::start(directory);
    let mut first = Peer::connect(directory);
    let (_, longest) = first.start();
    assert_eq!(longest, LIMIT as u64);
    let before = figure(&agent, "VmHWM");
    let grown = |agent: &Agent| figure(agent, "VmHWM").saturating_sub(before) / 1024;

    // Arguments that are longer in memory than in a message, and that no function has.
    let mut many = encoded(&Request::Calls { session: 0, count: 1, object: 0, number: 1, generation: 0 });
    many.extend([0, 0xff, 0xff, 0xff, 3]);
    many.resize(LIMIT - 1024, 0);
    assert_eq!(first.ask(&many), None);
    assert!(grown(&agent) < 40, "arguments: {} MiB", grown(&agent));
    let mut longer = Peer::started(directory);
    assert_eq!(longer.ask(&vec![0; LIMIT + 1]), None);

    // Rooms: each call may have the limit, and many at once no more.
    let attribute = [CKA_LABEL, 0, 6 << 20].map(u64::to_ne_bytes).concat();
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let mut peer = Peer::started(directory);
                for _ in 0..2 {
                    let template = Argument::Template(1, Some(image(&attribute, [Item::Room].into_iter())));
                    let arguments = vec![Argument::Number(1), template];
                    let code = peer.call(77, Function::C_GetAttributeValue, arguments);
                    assert!(matches!(code, Some(CKR_SESSION_HANDLE_INVALID | CKR_DEVICE_MEMORY)), "{code:?}");
                }
                let arguments = vec![Argument::Output(true, Some(MAX_ROOM))];
                assert_eq!(peer.call(77, Function::C_GenerateRandom, arguments), Some(CKR_DEVICE_MEMORY));
            });
        }
    });
    assert!(grown(&agent) < 64, "rooms: {} MiB", grown(&agent));

    // Connections, each of which sends as much as needs no room of its own.
    let mut first = Peer::connect(directory);
    let join = encoded(&Request::Join { version: protocol::VERSION, application: first.start().0 });
    let mut peers: Vec<_> = (0..500)
        .map_while(|_| {
            let mut peer = Peer::connect(directory);
            peer.ask(&join)?;
            peer.0.write_all(&(64 * 1024 - 8_u32).to_le_bytes()).ok()?;
            peer.0.write_all(&vec![0; 60 * 1024]).ok()?;
            Some(peer)
        })
        .collect();
    assert!((40..100).contains(&peers.len()), "{} connections", peers.len());
    assert!(grown(&agent) < 64, "connections: {} MiB", grown(&agent));
    peers.clear();
    assert!(agent.runs());
}

#[test]
fn long_objects_of_many_connections_stay_within_the_limit() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    limit(directory, 16 << 20);
    agent.replace();
    for (connections, len) in [(24, 3 << 20), (1, 7 << 20)] {
        let before = figure(agent, "VmHWM");
        let all = std::sync::Barrier::new(connections);
        let create = || {
            let mut peer = Peer::started(directory);
            let session = peer.open(slot);
            assert_eq!(peer.login(session, CKU_USER, PIN).code, CKR_OK);
            all.wait();
            let (class, value) = (CKO_DATA.to_ne_bytes(), vec![7; len]);
            let structs = [CKA_CLASS, 0, 8, CKA_TOKEN, 0, 1, CKA_VALUE, 0, len as u64].map(u64::to_ne_bytes);
            let mut created = 0;
            for in_token in [false, true] {
                let values = [&class[..], &[u8::from(in_token)], &value];
                let items = values.into_iter().map(|value| Item::Bytes(Bytes::new(value)));
                let template = Argument::Template(3, Some(image(&structs.concat(), items)));
                // A request that does not get its room in time loses its connection.
                let answer =
                    peer.returned(session, Function::C_CreateObject, vec![template, Argument::Pointer(true)]);
                let Some(answer) = answer else { break };
                assert!(matches!(answer.code, CKR_OK | CKR_DEVICE_MEMORY), "{:x}", answer.code);
                if answer.code == CKR_OK {
                    created += 1;
                    let object = u64::from_ne_bytes(answer.outputs[0][..].try_into().expect("a handle"));
                    let arguments = vec![Argument::Number(object)];
                    assert_eq!(peer.call(session, Function::C_DestroyObject, arguments), Some(CKR_OK));
                }
            }
            created
        };
        let created: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..connections).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
        });
        assert!(created > 0, "no object of {len} bytes");
        let grown = figure(agent, "VmHWM").saturating_sub(before) / 1024;
        assert!(grown < 64, "{grown} MiB for {connections} objects of {len} bytes");
    }
}

#[test]
fn a_failed_call_sends_no_rooms_back() {
    let (_, directory) = &mut Agent::within(Directory::new());
    let mut peer = Peer::started(directory);
    let attribute = [CKA_LABEL, 0, 1 << 16].map(u64::to_ne_bytes).concat();
    let template = Argument::Template(1, Some(image(&attribute, [Item::Room].into_iter())));
    let mut message = encoded(&Request::Calls { session: 77, count: 1, object: 0, number: 1, generation: 0 });
    let arguments = vec![Argument::Number(1), template];
    protocol::append(&Call { function: Function::C_GetAttributeValue, arguments }, &mut message)
        .expect("a message");
    let reply = peer.ask(&message).expect("an answer");
    assert!(reply.len() < 64, "{} bytes", reply.len());
}

#[test]
fn a_wait_for_a_slot_ends_with_its_peer() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    let before = figure(agent, "Threads");
    for _ in 0..20 {
        let mut peer = Peer::started(directory);
        let mut message =
            encoded(&Request::Calls { session: 0, count: 1, object: 0, number: 1, generation: 0 });
        let arguments = vec![Argument::Number(0), Argument::Pointer(true), Argument::Pointer(false)];
        protocol::append(&Call { function: Function::C_WaitForSlotEvent, arguments }, &mut message)
            .expect("a message");
        let mut frame = (message.len() as u32).to_le_bytes().to_vec();
        frame.extend(message);
        peer.0.write_all(&frame).expect("a call");
    }
    until("threads of peers that are gone", || figure(agent, "Threads") <= before);
}

#[test]
fn a_request_that_arrives_twice_is_carried_out_once() {
    let (_, directory) = &mut Agent::within(Directory::new());
    let mut peer = Peer::started(directory);
    let call = |number| {
        let mut message = encoded(&Request::Calls { session: 0, count: 1, object: 0, number, generation: 0 });
        let arguments = vec![Argument::Number(1), Argument::Output(false, Some(0))];
        protocol::append(&Call { function: Function::C_GetSlotList, arguments }, &mut message)
            .expect("a call");
        message
    };
    assert!(peer.ask(&call(1)).is_some());
    assert!(peer.ask(&call(2)).is_some());
    assert_eq!(peer.ask(&call(2)), None);
}

#[test]
fn a_message_that_its_peer_takes_slowly_ends_in_time() {
    let (ours, mut slow) = UnixStream::pair().expect("sockets");
    rustix::net::sockopt::set_socket_send_buffer_size(&ours, 4096).expect("a socket");
    ours.set_write_timeout(Some(Duration::from_millis(20))).expect("a socket");
    let reader = thread::spawn(move || {
        while let Ok(1..) = slow.read(&mut [0; 1000]) {
            thread::sleep(Duration::from_millis(10));
        }
    });
    let mut channel = Channel::new(ours, 1);
    (channel.frame, channel.whole) = (vec![0; 60_000], Duration::from_millis(100));
    let kind = channel.send().expect_err("a slow peer").kind();
    // On a loaded machine, the peer may take nothing for the time of one write.
    assert!(matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock), "{kind}");
    drop(channel);
    reader.join().expect("a thread");
}

/// Sends a digest with room for its output, without a session. Returns the code, or `None` if the
/// agent closes the connection.
fn digest(peer: &mut Peer, data: &[u8], room: u64) -> Option<CK_RV> {
    let data = Argument::Input(Input::Data(Bytes::new(data)));
    peer.call(0, Function::C_Digest, vec![data, Argument::Output(true, Some(room))])
}

#[test]
fn long_buffers_in_use_leave_memory_to_a_longer_message() {
    let directory = &Directory::new();
    limit(directory, 16 << 20);
    let _agent = Agent::start(directory);
    let (ends, mut busy) = (AtomicBool::new(false), Peer::started(directory));
    // The longest of its messages: the others need no other buffer.
    assert!(digest(&mut busy, &[7; (3 << 20) + 16], 4 << 20).is_some());
    let code = thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                assert!(digest(&mut busy, &[7; 3 << 20], 4 << 20).is_some());
            }
        });
        thread::sleep(Duration::from_millis(200));
        let code = digest(&mut Peer::started(directory), &vec![7; 12 << 20], 64);
        ends.store(true, Ordering::Relaxed);
        code
    });
    assert!(code.is_some(), "the message gets no memory");
}

#[test]
fn long_messages_leave_no_memory_behind() {
    let directory = &Directory::new();
    limit(directory, 16 << 20);
    let agent = Agent::start(directory);
    let before = figure(&agent, "VmRSS");
    let data = &vec![7; 3 << 20];
    let mut peers: Vec<_> = (0..16).map(|_| Peer::started(directory)).collect();
    thread::scope(|scope| {
        for peer in &mut peers {
            scope.spawn(move || (0..8).filter_map(|_| digest(peer, data, 64)).count());
        }
    });
    // Also of connections that stay.
    until("the memory of long messages goes back", || figure(&agent, "VmRSS") < before + 16 * 1024);
    drop(peers);
}
