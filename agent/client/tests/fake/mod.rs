//! An agent that behaves as a test says, and the token of the client module.

#![allow(dead_code, reason = "each test program uses a part")]

use std::borrow::Cow;
use std::io::{Read, Write};
use std::iter;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jeton_agent_wire::call::Data;
use jeton_agent_wire::{self as wire, Answer, Call, MAX_MESSAGE, Outcome, Reply, Request, State};
use jeton_client::Remote;
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::id::{ObjectHandle, SessionHandle, SlotId};
use jeton_words::operation::Signed;
use jeton_words::session::Access;
use jeton_words::token::{Function, Token};
use serde_bytes::Bytes;

/// What the agent does.
pub enum Act {
    Answer(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Says nothing more.
    Stop,
    /// Says one byte after the other.
    Drip,
    /// Sends a message that takes ten minutes.
    Pour,
    /// Answers with a message that does not follow the protocol.
    Garbage,
    /// Does this after a time.
    After(Duration, Box<Act>),
}

/// What the agent says to a connection that joins the application.
pub enum Joining {
    Admitted,
    Busy,
    Forgotten,
    /// The agent says nothing.
    Silent,
}

/// What the agent does with a call in a generation, which makes an object with this handle again.
pub type OnCall = dyn Fn(&Call<'_>, u64, u64) -> Act + Send + Sync;

/// How the agent behaves.
pub struct Behaviour {
    pub calls: Box<OnCall>,
    pub joins: Box<dyn Fn() -> Joining + Send + Sync>,
    /// To a ticket.
    pub resumes: Box<dyn Fn() -> Act + Send + Sync>,
}

/// What the agent has got, besides connections.
#[derive(Debug, PartialEq, Clone)]
pub enum Got {
    Start,
    Join,
    /// The session, the generation and the functions.
    Calls(u64, u64, Vec<Function>),
}

pub struct Fake {
    directory: tempfile::TempDir,
    pub remote: Remote,
    got: Arc<Mutex<Vec<Got>>>,
}

/// The time between two parts of a message that never ends.
pub const DRIP: Duration = Duration::from_millis(100);

impl Fake {
    /// Starts an agent that answers calls by `behave`, and an application of it. `admits` says for
    /// each further connection whether it may join.
    pub fn start(
        behave: impl Fn(&Call<'_>, u64) -> Act + Send + Sync + 'static,
        admits: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let behaviour = Behaviour {
            calls: Box::new(move |call, generation, _| behave(call, generation)),
            joins: Box::new(move || if admits() { Joining::Admitted } else { Joining::Busy }),
            ..Behaviour::default()
        };
        Self::behaving(behaviour, 10)
    }

    /// Starts an agent, and an application of it whose calls wait for a number of seconds.
    pub fn behaving(behaviour: Behaviour, seconds: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("agent");
        let listener = UnixListener::bind(&path).expect("a socket");
        let got = Arc::new(Mutex::new(Vec::new()));
        let (noted, behaviour) = (Arc::clone(&got), Arc::new(behaviour));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, behaviour) = (Arc::clone(&noted), Arc::clone(&behaviour));
                thread::spawn(move || serve(stream, &noted, &behaviour));
            }
        });
        let remote = Remote::default();
        let address = path.display();
        let parameters = format!("agent = {{ address = 'unix:{address}', timeout-seconds = {seconds} }}");
        remote.start(Some(&parameters), Threads::Allowed).expect("an application");
        Self { directory, remote, got }
    }

    pub fn address(&self) -> String {
        format!("unix:{}", self.directory.path().join("agent").display())
    }

    pub fn open(&self) -> SessionHandle {
        self.remote.open_session(SlotId(1), Access::ReadWrite, false).expect("a session")
    }

    pub fn got(&self) -> Vec<Got> {
        std::mem::take(&mut self.got.lock().expect("a lock"))
    }
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            calls: Box::new(|call, _, object| honest_about(call, object)),
            joins: Box::new(|| Joining::Admitted),
            resumes: Box::new(|| answer_with(&Reply::Resumed(Ok(())))),
        }
    }
}

pub fn serve(mut stream: UnixStream, noted: &Mutex<Vec<Got>>, behaviour: &Behaviour) {
    let started = || Reply::Started { version: wire::VERSION, application: [7; 32], longest: 1 << 20 };
    let note = |got| noted.lock().expect("a lock").push(got);
    loop {
        let mut header = [0; wire::HEADER];
        if stream.read_exact(&mut header).is_err() {
            return;
        }
        let mut message = vec![0; u32::from_le_bytes(header) as usize];
        stream.read_exact(&mut message).expect("a message");
        let mut rest = &message[..];
        let mut frame = Vec::new();
        wire::start(&mut frame);
        let mut add = |act| match done(act, &mut stream) {
            Some(answer) => {
                frame.extend(answer);
                true
            }
            None => false,
        };
        let goes_on = match wire::take(&mut rest).expect("a request") {
            Request::Start { .. } => {
                note(Got::Start);
                add(answer_with(&started()))
            }
            // A question whether the agent lives.
            Request::Join { application, .. } if application != [7; 32] => return,
            Request::Join { .. } => match (behaviour.joins)() {
                Joining::Admitted => {
                    note(Got::Join);
                    add(answer_with(&started()))
                }
                Joining::Busy => add(answer_with(&Reply::Busy)),
                Joining::Forgotten => add(answer_with(&Reply::Unknown)),
                Joining::Silent => add(Act::Stop),
            },
            Request::Calls { session, count, number, generation, object } => {
                let mut goes_on = add(answer_with(&Reply::Answers(number)));
                let mut functions = Vec::new();
                for _ in 0..count {
                    let call: Call<'_> = wire::take(&mut rest).expect("a call");
                    functions.push(call.function());
                    goes_on = goes_on && add((behaviour.calls)(&call, generation, object));
                }
                note(Got::Calls(session, generation, functions));
                goes_on
            }
            Request::Resume { .. } => add((behaviour.resumes)()),
            _ => add(answer_with(&Reply::Done(0))),
        };
        if !goes_on {
            return;
        }
        wire::finish(&mut frame).expect("a frame");
        if stream.write_all(&frame).is_err() {
            return;
        }
    }
}

/// Returns the answer. `None` if the agent ends the connection in another way, and has done so.
fn done(act: Act, stream: &mut UnixStream) -> Option<Vec<u8>> {
    match act {
        Act::Answer(answer) => return Some(answer),
        Act::After(time, act) => {
            thread::sleep(time);
            return done(*act, stream);
        }
        Act::Close => {}
        Act::Stop => drop(stream.read(&mut [0])),
        Act::Garbage => drop(stream.write_all(&[1, 0, 0, 0, 0xff])),
        Act::Drip => pour(stream, 1),
        Act::Pour => pour(stream, MAX_MESSAGE / 6000),
    }
    None
}

/// Sends a long message with this number of bytes at a time, until the client has gone.
fn pour(stream: &mut UnixStream, bytes: usize) {
    let mut message = (MAX_MESSAGE as u32).to_le_bytes().into_iter().chain(iter::repeat(0));
    loop {
        let part: Vec<_> = message.by_ref().take(bytes).collect();
        if stream.write_all(&part).is_err() {
            return;
        }
        thread::sleep(DRIP);
    }
}

fn answer_with(reply: &Reply<'_>) -> Act {
    let mut bytes = Vec::new();
    wire::append(reply, &mut bytes).expect("a reply");
    Act::Answer(bytes)
}

pub fn answer(outcome: Result<Outcome<'_>>) -> Act {
    answer_with_active(outcome, 0)
}

/// Answers with these active operations.
pub fn answer_with_active(outcome: Result<Outcome<'_>>, operations: u16) -> Act {
    let mut bytes = Vec::new();
    let kept = match outcome {
        Ok(Outcome::C_OpenSession { .. }) => Some(Bytes::new(b"serial")),
        Ok(Outcome::C_Login { .. }) => Some(Bytes::new(b"ticket")),
        _ => None,
    };
    let state = State { operations, objects: 0 };
    wire::append(&Answer { outcome, state, kept }, &mut bytes).expect("an answer");
    Act::Answer(bytes)
}

/// Answers what opens and closes sessions, and some calls in them.
pub fn honest(call: &Call<'_>) -> Act {
    honest_about(call, 0)
}

/// Answers a call that makes this object again.
fn honest_about(call: &Call<'_>, object: u64) -> Act {
    let session = ();
    answer(Ok(match call {
        Call::C_OpenSession { .. } => {
            let (slot, access, asynchronous) = ((), (), ());
            Outcome::C_OpenSession { result: SessionHandle(5), slot, access, asynchronous }
        }
        Call::C_CloseSession { .. } => Outcome::C_CloseSession { result: (), session },
        Call::C_Login { .. } => Outcome::C_Login { result: (), session, user: (), pin: () },
        Call::C_CopyObject { .. } => {
            Outcome::C_CopyObject { result: ObjectHandle(object.max(1)), session, object: (), template: () }
        }
        Call::C_SignInit { .. } => Outcome::C_SignInit { result: (), session, mechanism: (), key: () },
        Call::C_Sign { .. } => {
            Outcome::C_Sign { result: Signed::Bytes(4), session, data: (), out: data(b"sign") }
        }
        Call::C_DestroyObject { .. } => Outcome::C_DestroyObject { result: (), session, object: () },
        _ => return answer(Err(Error::FunctionNotSupported)),
    }))
}

pub fn data(bytes: &[u8]) -> Data<'_> {
    Data(Cow::Borrowed(Bytes::new(bytes)))
}
