//! Messages to the agent. The application has started, and has a session in which the user is
//! logged in. The fuzzer chooses everything that the peer sends then. It names the key with long
//! values in its templates by a number that stands for its handle.

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jeton_agent::ask_front::Front;
use jeton_agent::link::{Answer, Start, ToFront};
use jeton_agent::peer::{Peer, Unit};
use jeton_agent::rules::Rules;
use jeton_agent::worker::Worker;
use jeton_agent_wire::call::Here;
use jeton_agent_wire::spin::Stream;
use jeton_agent_wire::{self as protocol, Call, Request};
use jeton_words::id::SlotId;
use jeton_words::session::{Access, User};
use serde_bytes::Bytes;

use crate::token::{PIN, Token};

/// The first session of an application.
const SESSION: u64 = 1 << 17 | 1;
/// The handle of [`Token::nested`] in an input. Each process chooses another one, which has the
/// same number of bytes in a message.
const NESTED: u64 = 1 << 60 | 7;
/// The inputs after which the token's file is restored: they may have changed it.
const RUNS: usize = 500;
/// What would end the token, or wait for ever.
const RULES: &str = "[[client]]\nmemory = 16777216\n\
                     refuse = ['C_InitToken', 'C_InitPIN', 'C_SetPIN', 'C_WaitForSlotEvent']\n";

thread_local! {
    static FIXTURE: RefCell<Option<Fixture>> = const { RefCell::new(None) };
}

struct Fixture {
    token: Token,
    agent: Arc<Worker>,
    runs: usize,
}

/// A front that grants everything.
struct Grants(Arc<Mutex<Weak<Worker>>>);

impl Front for Grants {
    fn send(&self, message: ToFront) -> bool {
        if let ToFront::Ask(question, _) = message
            && let Some(worker) = self.0.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
        {
            worker.office.answer(question, Answer::Granted);
        }
        true
    }
}

/// What a peer sends: bytes, then a part of them again and again, which takes no memory here.
struct Sent {
    bytes: Vec<u8>,
    /// Where the part that is repeated begins. It ends with the bytes.
    again: usize,
    /// The number of bytes that are sent.
    len: usize,
    at: usize,
    /// A socket without bytes, and its other end.
    silent: (UnixStream, UnixStream),
}

impl Sent {
    /// Reads an input: its last two bytes say how long the part is, and how often it is repeated.
    fn new(beginning: &[u8], input: &[u8]) -> Self {
        let (input, long) = input.split_last_chunk().map_or((input, [0; 2]), |(input, long)| (input, *long));
        let bytes = [beginning, input].concat();
        let part = usize::from(long[0]) % (input.len() + 1);
        let (again, times) = (bytes.len() - part, 1_usize << (long[1] % 24));
        let more = (part * (times - 1)).min(protocol::MAX_MESSAGE);
        let silent = UnixStream::pair().expect("sockets");
        Self { len: bytes.len() + more, bytes, again, at: 0, silent }
    }

    fn byte(&self, at: usize) -> u8 {
        let part = (self.bytes.len() - self.again).max(1);
        self.bytes[if at < self.bytes.len() { at } else { self.again + (at - self.again) % part }]
    }
}

impl Read for Sent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = buffer.len().min(self.len - self.at);
        for (place, at) in buffer.iter_mut().zip(self.at..self.at + read) {
            *place = self.byte(at);
        }
        self.at += read;
        Ok(read)
    }
}

impl Stream for Sent {
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // One message at a time, as from a peer that waits for the answer. A part of a message that
        // the agent has begun to read has no header here.
        let left = self.len - self.at;
        let header = (self.at..self.len.min(self.at + 4)).map(|at| self.byte(at)).collect::<Vec<_>>();
        let len = header.first_chunk().map_or(left, |header| u32::from_le_bytes(*header) as usize + 4);
        let len = len.min(left).min(buffer.len());
        self.read(&mut buffer[..len])
    }

    fn send(&mut self, _: &[u8], _: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.silent.0.as_fd()
    }
}

/// Sends the bytes to an agent.
pub fn read(bytes: &[u8]) {
    FIXTURE.with_borrow_mut(|fixture| {
        let Fixture { token, agent, runs } = fixture.get_or_insert_with(|| {
            let token = Token::new(false);
            // From the start of the agent on, this process has no module of its own.
            token.finalize();
            let agent = start();
            Fixture { token, agent, runs: 0 }
        });
        *runs += 1;
        if runs.is_multiple_of(RUNS) {
            agent.stop();
            token.write_files();
            *agent = start();
        }
        let sent = Sent::new(&beginning(), &with_handle(bytes, token.nested));
        agent.serve(sent, *runs as u64);
    });
}

/// Replaces [`NESTED`] by a handle.
fn with_handle(input: &[u8], handle: u64) -> Vec<u8> {
    let [wanted, handle] = [NESTED, handle].map(|number| {
        let mut bytes = Vec::new();
        protocol::append(&number, &mut bytes).expect("a number");
        bytes
    });
    let mut input = input.to_vec();
    for at in 0..input.len() {
        if input[at..].starts_with(&wanted) {
            input[at..at + handle.len()].copy_from_slice(&handle);
        }
    }
    input
}

fn start() -> Arc<Worker> {
    let (uid, groups, has_all_groups, unit, process) = (60_000, Vec::new(), true, Unit::None, 0);
    let peer = Peer::User { uid, groups, has_all_groups, unit, process };
    let rule = Rules::parse(RULES).expect("rules").verdict(&peer).rule().cloned();
    let configuration = jeton::config::text().expect("a configuration");
    let start = Start { client: peer.name(), rule, key: [0; 32], configuration };
    let front = Arc::<Mutex<Weak<Worker>>>::default();
    let worker = Worker::start(start, None, None, Grants(Arc::clone(&front))).expect("an agent");
    *front.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&worker);
    worker
}

/// The messages before those of the fuzzer.
fn beginning() -> Vec<u8> {
    let open = Call::C_OpenSession { slot: SlotId(0), access: Access::ReadWrite, asynchronous: false };
    let login = Call::C_Login { session: Here, user: User::User, pin: Bytes::new(PIN) };
    let mut all = Vec::new();
    let mut frame = Vec::new();
    protocol::encode(&Request::Start { version: protocol::VERSION, single: false }, &mut frame)
        .expect("a frame");
    all.extend(&frame);
    for (number, (session, call)) in (1..).zip([(0, open), (SESSION, login)]) {
        protocol::start(&mut frame);
        let request = Request::Calls { session, count: 1, object: 0, number, generation: 0 };
        protocol::append(&request, &mut frame).expect("a request");
        protocol::append(&call, &mut frame).expect("a call");
        protocol::finish(&mut frame).expect("a frame");
        all.extend(&frame);
    }
    all
}
