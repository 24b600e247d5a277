//! Peers that do not follow the protocol cost their own connection only.

mod common;

use std::io::ErrorKind;

use common::peer::{Peer, Who, encoded, template};
use common::*;
use jeton_agent_wire::call::{Asked, Here, Length, OutputRoom, Told};
use jeton_agent_wire::channel::Channel;
use jeton_agent_wire::{self as protocol, Call, MAX_FIRST, MAX_MESSAGE, Outcome, Reply, Request};
use jeton_words::bounded::MAX_ATTRIBUTES;
use jeton_words::error::{Error, Result as Returns};
use jeton_words::id::{AttributeType, ObjectHandle as Object};
use jeton_words::slot::Wait;
use jeton_words::template::{Given, Raw, Template};
use jeton_words::token::{Function, Room};
use serde_bytes::Bytes;

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
    // An older client and a newer one get a line that says so.
    for version in [4, 77] {
        let reply = Peer::connect(directory).ask(&encoded(&Request::Start { version, single: false }));
        let reply = reply.expect("an answer");
        let Ok(Reply::Refused(reason)) = protocol::decode(&reply) else { panic!("{version}") };
        assert!(reason.contains(&format!("version {version}")) && reason.contains("version 5"), "{reason}");
    }

    // A long message that never comes, and a silent peer.
    let mut slow = Peer::started(directory);
    slow.0.write_all(&(MAX_MESSAGE as u32).to_le_bytes()).expect("a header");
    let _silent = Peer::connect(directory);

    // Calls that end early or have other bytes, and unknown functions.
    for function in 0..=u8::MAX {
        let mut peer = Peer::started(directory);
        let mut message =
            encoded(&Request::Calls { session: 0, count: 1, object: 0, number: 1, generation: 0 });
        message.extend([function, 0xff]);
        let is_none = usize::from(function) >= Function::ALL.len() + 2;
        let answer = peer.ask(&message);
        assert!(!is_none || answer.is_none(), "{function}");
    }

    for request in [Request::Status, Request::Applications, Request::Lock(None)] {
        let reply = Peer::connect(directory).ask(&encoded(&request)).expect("an answer");
        assert!(matches!(protocol::decode(&reply), Ok(Reply::Refused(_))));
    }
    let figures = status(&socket(directory)).expect("figures");
    assert!(figures.applications >= 1 && figures.requests >= 1);

    // The first application goes on, and another connection joins it.
    assert!(other.is_served());
    let mut second = Peer::connect(directory);
    assert!(second.joins(name));
    assert!(second.is_served());
    assert!(agent.runs());
}

fn read(rooms: Vec<(AttributeType, Room)>) -> Call<'static> {
    Call::C_GetAttributeValue { object: Object(1), asked: Asked(rooms) }
}

const NO_MEMORY: Option<Returns<()>> = Some(Err(Error::DeviceMemory));
const NO_SESSION: Option<Returns<()>> = Some(Err(Error::SessionHandleInvalid));

#[test]
fn impossible_rooms_get_no_memory() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    let mut peer = Peer::started(directory);
    for room in [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 40] {
        let out = OutputRoom::Bytes(room);
        assert_eq!(peer.call(77, Call::C_DigestFinal { session: Here, out }), NO_SESSION, "{room:#x}");
        assert_eq!(peer.call(77, Call::C_FindObjects { session: Here, out: room }), NO_SESSION, "{room:#x}");
        // It would be filled.
        let fill = Call::C_GenerateRandom { session: Here, out: room };
        assert_eq!(peer.call(77, fill), Some(Err(Error::DeviceMemory)), "{room:#x}");
        let rooms = (0..MAX_ATTRIBUTES).map(|_| (AttributeType::LABEL, Room::Bytes(room))).collect();
        assert_eq!(peer.call(77, read(rooms)), NO_SESSION);
        let array = Room::Template(room, vec![Room::Bytes(room); 2]);
        assert_eq!(peer.call(77, read(vec![(AttributeType::WRAP_TEMPLATE, array)])), NO_SESSION);
    }
    assert!(agent.runs());
}

/// Rules under which this user has this number of bytes.
fn limit(directory: &Path, bytes: usize) {
    let uid = rustix::process::getuid().as_raw();
    let text = format!("[[client]]\nuid = {uid}\nmemory = {bytes}\n");
    write_rules(directory, &text);
}

/// Returns a figure of the agent's processes in `/proc/PID/status`, as `VmHWM` in KiB.
fn figure(agent: &Agent, name: &str) -> usize {
    agent.figure(name)
}

/// Returns a template with templates in it, down to this depth.
fn nested(depth: usize) -> Template<'static> {
    let attribute = |value| Template(vec![Given { id: AttributeType::UNWRAP_TEMPLATE, value }]);
    (0..depth).fold(Template::default(), |below, _| attribute(Raw::Template(below)))
}

#[test]
fn nested_templates_cost_their_connection_only() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    for depth in [0, 3, 4, 5, 7, 100, 1000] {
        let mut peer = Peer::started(directory);
        let template = std::borrow::Cow::Owned(nested(depth));
        let outcome = peer.call(77, Call::C_CreateObject { session: Here, template });
        assert_eq!(outcome, NO_SESSION.filter(|_| depth <= 4), "{depth}");
    }
    // Deeper than a test can encode by recursion.
    let mut message = encoded(&Request::Calls { session: 77, count: 1, object: 0, number: 1, generation: 0 });
    protocol::append(&Call::C_CreateObject { session: Here, template: template(&[]) }, &mut message)
        .expect("a message");
    message.pop();
    message.extend([1, 1, 1].repeat(1_000_000));
    assert_eq!(Peer::started(directory).ask(&message), None);
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

    // Attributes that are longer in memory than in a message.
    let mut many = encoded(&Request::Calls { session: 0, count: 1, object: 0, number: 1, generation: 0 });
    protocol::append(&Call::C_CreateObject { session: Here, template: template(&[]) }, &mut many)
        .expect("a message");
    many.pop();
    many.extend([0xff, 0xff, 0xff, 3]);
    many.resize(LIMIT - 1024, 0);
    assert_eq!(first.ask(&many), None);
    assert!(grown(&agent) < 40, "attributes: {} MiB", grown(&agent));
    let mut longer = Peer::started(directory);
    assert_eq!(longer.ask(&vec![0; LIMIT + 1]), None);

    // Rooms: each call may have the limit, and many at once no more.
    thread::scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let mut peer = Peer::started(directory);
                for _ in 0..2 {
                    let out = OutputRoom::Bytes(6 << 20);
                    let outcome = peer.call(77, Call::C_DigestFinal { session: Here, out });
                    assert!(outcome == NO_SESSION || outcome == NO_MEMORY, "{outcome:?}");
                }
                let fill = Call::C_GenerateRandom { session: Here, out: 1 << 26 };
                assert_eq!(peer.call(77, fill), NO_MEMORY);
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
            let reply = peer.ask(&join)?;
            matches!(protocol::decode(&reply), Ok(Reply::Started { .. })).then_some(())?;
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
            assert_eq!(peer.login(session, Who::User, PIN).result(), Ok(()));
            all.wait();
            let (class, value) = (CKO_DATA.to_ne_bytes(), vec![7; len]);
            let mut created = 0;
            for in_token in [false, true] {
                let attributes =
                    [(CKA_CLASS, &class[..]), (CKA_TOKEN, &[u8::from(in_token)]), (CKA_VALUE, &value)];
                let create = Call::C_CreateObject { session: Here, template: template(&attributes) };
                // A request that does not get its room in time loses its connection.
                let Some(answer) = peer.returned(session, create) else { break };
                assert!(
                    matches!(answer.result(), Ok(()) | Err(Error::DeviceMemory)),
                    "{:?}",
                    answer.result()
                );
                if answer.result().is_ok() {
                    created += 1;
                    let destroy = Call::C_DestroyObject { session: Here, object: answer.object() };
                    assert_eq!(peer.call(session, destroy), Some(Ok(())));
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
    let out = OutputRoom::Bytes(1 << 16);
    for call in
        [read(vec![(AttributeType::LABEL, Room::Bytes(1 << 16))]), Call::C_DigestFinal { session: Here, out }]
    {
        let number = peer.1 + 1;
        let mut message =
            encoded(&Request::Calls { session: 77, count: 1, object: 0, number, generation: 0 });
        protocol::append(&call, &mut message).expect("a message");
        peer.1 = number;
        let reply = peer.ask(&message).expect("an answer");
        assert!(reply.len() < 64, "{} bytes", reply.len());
    }
}

#[test]
fn only_values_with_room_travel() {
    let (_, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    let (mut peer, session) = Peer::opened(directory, slot);
    let label = vec![b'l'; 5000];
    let class = CKO_DATA.to_ne_bytes();
    let attributes = [(CKA_CLASS, &class[..]), (CKA_LABEL, &label)];
    let create = Call::C_CreateObject { session: Here, template: template(&attributes) };
    let object = peer.returned(session, create).expect("an answer").object();
    for (room, travels) in [
        (Room::Length, false),
        (Room::Bytes(4999), false),
        (Room::Bytes(5000), true),
        (Room::Bytes(u64::MAX), true),
        (Room::Template(4999, vec![]), false),
    ] {
        let asked = Asked(vec![(AttributeType::LABEL, room.clone())]);
        let returned = peer.returned(session, Call::C_GetAttributeValue { object, asked });
        let returned = returned.expect("an answer");
        let Ok(Outcome::C_GetAttributeValue(told)) = returned.answer().outcome else { panic!("{room:?}") };
        match &told[..] {
            [Told::Length(Length::Bytes(5000))] => assert!(!travels, "{room:?}"),
            [Told::Bytes(value)] => assert!(travels && value.0[..] == label, "{room:?}"),
            _ => panic!("{room:?}"),
        }
    }
}

#[test]
fn every_part_of_an_answer_is_counted_in_the_memory_of_its_client() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    // For a connection, and 384 KiB for answers.
    limit(directory, (1 << 18) + (3 << 17));
    agent.replace();
    let (mut peer, session) = Peer::opened(directory, slot);
    assert_eq!(peer.login(session, Who::User, PIN).result(), Ok(()));
    let numbers = [CKO_SECRET_KEY, CKK_AES, 16].map(u64::to_ne_bytes);
    let flags = [CKA_ENCRYPT, CKA_DECRYPT, CKA_SIGN, CKA_VERIFY, CKA_WRAP, CKA_UNWRAP, CKA_DERIVE, CKA_TOKEN];
    let given = |(id, bytes)| Given { id: AttributeType(id), value: Raw::Bytes(bytes) };
    let within = Template(flags.into_iter().map(|flag| given((flag, &[0][..]))).collect());
    let mut attributes = vec![
        given((CKA_CLASS, &numbers[0][..])),
        given((CKA_KEY_TYPE, &numbers[1])),
        given((CKA_VALUE, &[7; 16])),
        given((CKA_LABEL, b"a label of 16 by")),
    ];
    attributes.push(Given { id: AttributeType::WRAP_TEMPLATE, value: Raw::Template(within) });
    let template = std::borrow::Cow::Owned(Template(attributes));
    let object = peer.returned(session, Call::C_CreateObject { session: Here, template });
    let object = object.expect("an answer").object();
    let array = Room::Template(24 * flags.len() as u64, vec![]);
    for (kind, room, few, many) in [
        (AttributeType::WRAP_TEMPLATE, array.clone(), 40, 113),
        (AttributeType::LABEL, Room::Length, 200, 1024),
        (AttributeType::LABEL, Room::Bytes(16), 200, 1024),
    ] {
        let read =
            |count| Call::C_GetAttributeValue { object, asked: Asked(vec![(kind, room.clone()); count]) };
        assert_eq!(peer.call(session, read(few)), Some(Ok(())), "{kind}");
        // Together, the calls of a request have the memory of a request.
        let answers = peer.all(session, (0..8).map(|_| read(many)).collect()).expect("answers");
        assert_eq!(answers.last().expect("an answer").result(), Err(Error::DeviceMemory), "{kind}");
    }
    // A client decodes 1024 attributes.
    let read = |count| Call::C_GetAttributeValue {
        object,
        asked: Asked(vec![(AttributeType::WRAP_TEMPLATE, array.clone()); count]),
    };
    assert_eq!(peer.call(session, read(113)), Some(Ok(())));
    assert_eq!(peer.call(session, read(114)), Some(Err(Error::DeviceMemory)));
    assert!(agent.runs());
}

#[test]
fn a_wait_for_a_slot_ends_with_its_peer() {
    let (agent, directory) = &mut Agent::within(Directory::new());
    // The process of the client has started.
    assert!(Peer::started(directory).is_served());
    let before = figure(agent, "Threads");
    for _ in 0..20 {
        let mut peer = Peer::started(directory);
        let mut message =
            encoded(&Request::Calls { session: 0, count: 1, object: 0, number: 1, generation: 0 });
        let wait = Call::C_WaitForSlotEvent { wait: Wait::ForEvent };
        protocol::append(&wait, &mut message).expect("a message");
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
        protocol::append(&Call::C_GetSlotList {}, &mut message).expect("a call");
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

/// Sends a digest with room for its output, without a session. Returns the result, or `None` if the
/// agent closes the connection.
fn digest(peer: &mut Peer, data: &[u8], room: u64) -> Option<Returns<()>> {
    let (data, out) = (Bytes::new(data), OutputRoom::Bytes(room));
    peer.call(0, Call::C_Digest { session: Here, data, out })
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

#[test]
fn a_client_without_memory_for_one_more_connection_learns_that_the_agent_lives() {
    let directory = &Directory::new();
    // Four connections.
    write_rules(directory, "[[client]]\nmemory = 1048576\n");
    let _agent = Agent::start(directory);
    let join = |application| {
        let mut peer = Peer::connect(directory);
        let reply = peer.ask(&encoded(&Request::Join { version: protocol::VERSION, application }));
        let reply = match protocol::decode(&reply.expect("an answer")) {
            Ok(Reply::Started { .. }) => "started",
            Ok(Reply::Busy) => "busy",
            Ok(Reply::Unknown) => "unknown",
            other => panic!("{other:?}"),
        };
        (peer, reply)
    };
    let mut first = Peer::connect(directory);
    let (name, _) = first.start();
    let mut joined: Vec<_> =
        (0..3).map(|_| join(name)).take_while(|(_, reply)| *reply == "started").collect();
    let busy = join(name);
    assert_eq!(busy.1, "busy");
    // It does not wait for memory, as the last one did for 900 ms.
    let times = [(); 5].map(|()| {
        let start = Instant::now();
        assert_eq!(join([7; 32]).1, "unknown");
        start.elapsed()
    });
    assert!(times.iter().any(|time| *time < Duration::from_millis(900)), "{times:?}");
    assert!(first.is_served());
    drop(joined.pop());
    assert_eq!(join(name).1, "started");
}
