//! The process that writes the audit log.

mod common;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;

use common::peer::{Peer, Who};
use common::*;
use jeton::audit::{LONGEST, Record};
use jeton::config::Settings;
use jeton::functions::Threads;
use jeton_agent::link::{Link, Source, ToWriter, encode};
use jeton_agent::queue::{Queue, Reader};
use jeton_agent_wire::Call;
use jeton_agent_wire::call::Here;

/// Puts a packet into a queue.
fn put(records: &OwnedFd, bytes: &[u8]) {
    rustix::net::send(records, bytes, rustix::net::SendFlags::NOSIGNAL).expect("a packet");
}

fn send(records: &OwnedFd, record: &Record) {
    put(records, &encode(record).expect("a record"));
}

#[test]
fn a_record_is_of_the_client_that_the_front_names() {
    const RECORDS: usize = 200;
    let directory = &Directory::new();
    let (more, audit) = audited(directory);
    let (link, other) = Link::pair().expect("a socket");
    let mut writer = Command::new(PROGRAM);
    let mut writer = writer.arg("writer").stdin(other).spawn().expect("the writer");
    let configuration = format!("token-dir = '{}'\n{more}", directory.display());
    link.send(&ToWriter::Start(configuration, false), None).expect("a message");
    let worker = |number: u32| {
        let (queue, records) = Queue::pair().expect("a queue");
        let client = format!("uid {number}");
        let source = Source { owner: client.clone(), client, process: number };
        let queue = queue.try_clone().expect("a descriptor");
        link.send(&ToWriter::Worker(source), Some(queue.as_fd())).expect("a message");
        records
    };
    let (taken, honest, idle) = (worker(1), worker(2), worker(3));
    let record = |function, text: &str| Record {
        function,
        result: "Ok".to_owned(),
        client: Some("uid 2".to_owned()),
        process: Some(2),
        previous: Some(text.to_owned()),
        more: Some(7),
        attributes: vec![text.to_owned()],
        ..Record::default()
    };
    // What is no record of a call, or too long, is left out.
    send(&taken, &record("audit", "1000 records lost"));
    send(&taken, &record("jeton", ""));
    send(&taken, &record("C_Login", &"x".repeat(LONGEST)));
    put(&taken, &[0xff; 100]);
    let (flooded, ends) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                send(&taken, &record("C_Sign", "x"));
                flooded.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _ends = Ends(ends);
        until("the flood does not begin", || flooded.load(Ordering::Relaxed) > 1000);
        (0..RECORDS).for_each(|_| send(&honest, &record("C_Login", "y")));
        let logins = || fs::read_to_string(&audit).expect("an audit log").matches("C_Login").count();
        until("the records of a client wait for those of another one", || logins() == RECORDS);
    });
    drop((honest, idle));
    link.send(&ToWriter::Stop, None).expect("a message");
    assert!(writer.wait().expect("the writer").success());
    let all = records(&audit);
    let of = |number: u32| {
        let of = format!("uid {number}");
        all.iter().filter(move |record| record["client"] == of && record["process"] == number)
    };
    assert_eq!((of(1).count(), of(2).count()), (flooded.load(Ordering::Relaxed), RECORDS));
    assert_eq!(all.len(), of(1).count() + of(2).count());
    assert!(of(1).all(|record| record["function"] == "C_Sign"));
    assert!(of(1).all(|record| record.get("previous").is_none() && record.get("more").is_none()));
}

#[test]
fn records_wait_for_the_next_writer() {
    let directory = &Directory::alone();
    let (more, audit) = audited(directory);
    let agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    token::make(&parameters(directory));
    let module = token::load(&parameters(directory));
    let session = token::log_in(&module);
    let [first] = agent.parts("writer")[..] else { panic!("one writer") };
    kill_process(Pid::from_raw(first as i32).expect("a process"), Signal::KILL).expect("a signal");
    let template = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::flag(CKA_PRIVATE, false)];
    for _ in 0..1000 {
        session.create_object(&template).expect("an object");
    }
    let created = || fs::read_to_string(&audit).expect("a log").matches("\"C_CreateObject\"").count();
    until("records are missing", || created() == 1000);
    let ended = records(&audit).into_iter().filter(|record| record["result"] != "Ok");
    let ended: Vec<_> = ended.map(|record| record["result"].to_string()).collect();
    assert!(ended.len() == 1 && ended[0].contains("has ended"), "{ended:?}");
    session.close().expect("a session");
    module.finalize().expect("a module");
}

/// The writer takes nothing from a worker that has ended, and ends too.
#[test]
fn records_of_a_worker_that_has_ended_wait_for_the_next_writer() {
    const CALLS: usize = 30;
    let directory = &Directory::new();
    let (more, audit) = audited(directory);
    let agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    let slot = make_token(directory);
    let (mut peer, session) = Peer::opened(directory, slot);
    let ends = |process: u32, signal| {
        kill_process(Pid::from_raw(process.cast_signed()).expect("a process"), signal).expect("a signal");
    };
    let [writer] = agent.parts("writer")[..] else { panic!("one writer") };
    ends(writer, Signal::STOP);
    for _ in 0..CALLS {
        assert_eq!(peer.login(session, Who::User, PIN).result(), Ok(()));
        assert_eq!(peer.call(session, Call::C_Logout { session: Here }), Some(Ok(())));
    }
    let [worker] = agent.workers()[..] else { panic!("one worker") };
    ends(worker, Signal::KILL);
    until("the worker stays", || agent.workers().is_empty());
    ends(writer, Signal::KILL);
    let written = || fs::read_to_string(&audit).unwrap_or_default().matches("\"C_Logout\"").count();
    until("records are lost", || written() == CALLS);
}

/// The writer is confined, and has its socket to the syslog.
#[test]
fn the_syslog_gets_the_records_of_clients_that_are_confined() {
    let directory = &Directory::alone();
    let path = directory.join("syslog");
    let syslog = UnixDatagram::bind(&path).expect("a socket");
    syslog.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let (more, audit) = audited(directory);
    let more = format!("{more}syslog = '{}'\n", path.display());
    let _agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    make_token(directory);
    let mut line = [0; LONGEST];
    let len = syslog.recv(&mut line).expect("a line");
    let line = String::from_utf8_lossy(&line[..len]);
    assert!(line.contains("\"client\":\"uid ") && line.contains("\"C_InitToken\""), "{line}");
    until("records are missing", || records(&audit).len() >= 3);
    let missing = status(&socket(directory)).expect("a status").missing;
    assert!(!missing.iter().any(|part| part.contains("syslog")), "{missing:?}");
}

/// It waits for the lock of the log with the records that it has read.
#[test]
fn a_writer_that_is_killed_before_it_writes_loses_no_record() {
    const CALLS: usize = 30;
    let directory = &Directory::new();
    let (more, audit) = audited(directory);
    let agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    let slot = make_token(directory);
    let (mut peer, session) = Peer::opened(directory, slot);
    let written = || fs::read_to_string(&audit).unwrap_or_default().matches("\"C_Logout\"").count();
    for round in 1..=2 {
        until("there is no writer", || agent.parts("writer").len() == 1);
        let log = File::open(&audit).expect("a log");
        log.lock().expect("a lock");
        for _ in 0..CALLS {
            assert_eq!(peer.login(session, Who::User, PIN).result(), Ok(()));
            assert_eq!(peer.call(session, Call::C_Logout { session: Here }), Some(Ok(())));
        }
        thread::sleep(Duration::from_millis(200));
        let [writer] = agent.parts("writer")[..] else { panic!("one writer") };
        kill_process(Pid::from_raw(writer.cast_signed()).expect("a process"), Signal::KILL)
            .expect("a signal");
        drop(log);
        until("records are lost", || written() == round * CALLS);
    }
    records(&audit);
}

/// The writer before wrote some of the records that it had read, and took none out of the queue.
#[test]
fn records_that_were_written_before_the_writer_was_killed_are_there_once() {
    const PROCESS: u32 = 7;
    const RECORDS: usize = 20;
    let directory = &Directory::new();
    let (more, audit) = audited(directory);
    let configuration = format!("token-dir = '{}'\n{more}", directory.display());
    let (queue, worker) = Queue::pair().expect("a queue");
    let (client, process) = (Some("uid 1".to_owned()), Some(PROCESS));
    for number in 0..RECORDS as u64 {
        let (session, result) = (Some(number / 2), "Ok".to_owned());
        send(&worker, &Record { session, function: "C_Sign", result, ..Record::default() });
    }
    let settings = Settings::parse(&configuration, Threads::Forbidden, None).expect("settings");
    let log = settings.audit.expect("an audit log");
    let mut before = Reader::new(queue.try_clone().expect("a descriptor")).expect("a reader");
    let mut buffer = [0; LONGEST];
    let mut next = || {
        let (bytes, time) = before.look(&mut buffer).expect("a packet");
        let record: Record = postcard::from_bytes(bytes.expect("a record")).expect("a record");
        (time.expect("a time"), Record { client: client.clone(), process, ..record })
    };
    log.note_all((0..RECORDS / 3).map(|_| next()).collect());
    let (link, other) = Link::pair().expect("a socket");
    let mut writer = Command::new(PROGRAM).arg("writer").stdin(other).spawn().expect("the writer");
    link.send(&ToWriter::Start(configuration, true), None).expect("a message");
    let source = Source { client: "uid 1".to_owned(), owner: "uid 1".to_owned(), process: PROCESS };
    let socket = queue.try_clone().expect("a descriptor");
    link.send(&ToWriter::Worker(source), Some(socket.as_fd())).expect("a message");
    drop(worker);
    link.send(&ToWriter::Stop, None).expect("a message");
    assert!(writer.wait().expect("the writer").success());
    assert!(queue.is_drained());
    let all = records(&audit);
    let sessions: Vec<_> = all.iter().filter_map(|record| record["session"].as_u64()).collect();
    assert_eq!(sessions, (0..RECORDS as u64).map(|number| number / 2).collect::<Vec<_>>());
    assert_eq!(all.len(), RECORDS + 1);
}
