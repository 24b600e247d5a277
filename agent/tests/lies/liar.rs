//! The liar: it stands between the client module and an honest agent, and alters one answer.

use std::borrow::Cow;
use std::os::unix::net::UnixListener;

use jeton_agent_wire::call::{Data, Found, Told};
use jeton_agent_wire::{self as wire, Answer, HEADER, MAX_MESSAGE, Outcome, Reply};
use jeton_child::Random;
use jeton_words::bounded::List;
use jeton_words::error::Error;
use jeton_words::id::{MechanismType, ObjectHandle as Object, SessionHandle, SlotId};
use jeton_words::operation::{OneTimePassword, Signed};
use serde_bytes::Bytes;

use crate::common::peer::{frame, read_frame};
use crate::common::*;

/// Numbers in place of others: errors, lengths, handles.
const NUMBERS: [u64; 12] =
    [0, 1, 2, 6, 0x30, 1 << 16, 1 << 26, 1 << 32, 1 << 40, 1 << 63, u64::MAX - 1, u64::MAX];
/// Lengths in place of others.
const LENGTHS: [usize; 5] = [0, 1, 63, 4096, 1 << 17];
/// The bytes of an answer, counted from its first one and its last one, at which a number or a byte
/// string becomes another one.
const PLACES: usize = 16;
/// More bytes than a client keeps.
static KEPT: [u8; 1 << 20] = [7; 1 << 20];
/// The most altered bytes of each message, and the most places where it is cut.
const RAW: u64 = 12;
/// The time between two bytes of a message that never ends.
const TRICKLE: Duration = Duration::from_millis(200);

/// What the client gets in place of an answer.
#[derive(Clone)]
pub struct Lie {
    /// For a report.
    what: String,
    bytes: Vec<u8>,
    then: Then,
}

/// What the liar does after these bytes.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    GoOn,
    Close,
    /// Says nothing more.
    Wait,
    /// Says one byte after the other.
    Trickle,
}

/// What the liar does with the next answers.
#[derive(Default)]
pub struct Plan {
    /// The honest answers since the plan was made.
    pub answers: Vec<Vec<u8>>,
    /// The position of an answer, and the number of the lie about it.
    pub lie: Option<(usize, usize)>,
    /// Lies about half of all answers.
    pub storm: Option<Random>,
    /// A lie about the next answer, whatever it is.
    pub next: Option<Lie>,
    /// The lies so far.
    pub told: Vec<String>,
}

pub type Plans = Arc<Mutex<Plan>>;

/// Starts a liar on this socket, in front of the agent on the other one. It runs until the process
/// ends.
pub fn start(socket: &Path, agent: &Path) -> Plans {
    let listener = UnixListener::bind(socket).expect("a socket");
    let plans = Plans::default();
    let (own, agent) = (Arc::clone(&plans), agent.to_owned());
    thread::spawn(move || {
        for client in listener.incoming() {
            let (plans, agent) = (Arc::clone(&own), UnixStream::connect(&agent));
            let client = client.expect("a connection");
            thread::spawn(move || serve(client, &mut agent.expect("the agent"), &plans));
        }
    });
    plans
}

/// Passes messages on until one side ends. `None` at the end.
fn serve(mut client: UnixStream, agent: &mut UnixStream, plans: &Plans) -> Option<()> {
    loop {
        let request = read_frame(&mut client)?;
        agent.write_all(&frame(&request)).ok()?;
        let answer = read_frame(agent)?;
        let Some(lie) = plans.lock().expect("a plan").next(&answer) else {
            client.write_all(&frame(&answer)).ok()?;
            continue;
        };
        client.write_all(&lie.bytes).ok()?;
        match lie.then {
            Then::GoOn => {}
            Then::Close => return None,
            Then::Wait => drop(client.read(&mut [0])),
            Then::Trickle => loop {
                thread::sleep(TRICKLE);
                client.write_all(&[0]).ok()?;
            },
        }
    }
}

impl Plan {
    /// Returns the lie about the next answer, if it is not passed on.
    fn next(&mut self, answer: &[u8]) -> Option<Lie> {
        let position = self.answers.len();
        self.answers.push(answer.to_vec());
        if let Some(lie) = self.next.take() {
            self.told.push(lie.what.clone());
            return Some(lie);
        }
        let number = match (&mut self.storm, self.lie) {
            (Some(random), _) => random.below(1 << 16) as usize,
            (None, Some((at, number))) if at == position => number,
            _ => return None,
        };
        // A storm passes half of the answers on.
        if self.storm.is_some() && number % 2 == 0 {
            return None;
        }
        let number = if self.storm.is_some() { number / 2 } else { number };
        let lie = about(answer, number % count(answer)).found.expect("a lie");
        self.told.push(lie.what.clone());
        Some(lie)
    }
}

/// Counts lies, and makes one of them.
struct Book {
    wanted: usize,
    count: usize,
    found: Option<Lie>,
}

impl Book {
    fn add(&mut self, lie: impl FnOnce() -> (String, Vec<u8>, Then)) {
        if self.count == self.wanted {
            let (what, bytes, then) = lie();
            self.found = Some(Lie { what, bytes, then });
        }
        self.count += 1;
    }
}

/// Returns the number of lies about an answer.
pub fn count(answer: &[u8]) -> usize {
    about(answer, usize::MAX).count
}

/// Goes through all lies about an answer. Answers of the same form have the same lies.
fn about(answer: &[u8], wanted: usize) -> Book {
    let mut book = Book { wanted, count: 0, found: None };
    let mut rest = answer;
    match wire::take::<Reply<'_>>(&mut rest).expect("an answer of the agent") {
        Reply::Answers(number) => {
            let mut answers = Vec::new();
            while !rest.is_empty() {
                let start = rest;
                let _: Answer<'_> = wire::take(&mut rest).expect("an answer of the agent");
                answers.push(&start[..start.len() - rest.len()]);
            }
            alter(&mut book, number, &answers);
        }
        Reply::Started { version, application, longest } => {
            let none = [0; 32];
            for (version, application, longest) in [
                (0, none, longest),
                (version, none, 0),
                (version, application, 0),
                (7, application, u64::MAX),
            ] {
                let started = Reply::Started { version, application, longest };
                book.add(|| (format!("{version}, longest {longest}"), framed(&started), Then::GoOn));
            }
        }
        _ => {}
    }
    let text = "\x1b[31m".repeat(1 << 14);
    for reply in [
        Reply::Unknown,
        Reply::Refused(""),
        Reply::Refused(&text),
        Reply::Answers(1),
        Reply::Done(0),
        Reply::Done(u64::MAX),
        Reply::Started { version: 0, application: [1; 32], longest: 1 << 20 },
        Reply::Applications,
    ] {
        book.add(|| (format!("{reply:.40?}"), framed(&reply), Then::GoOn));
    }
    for len in [0, answer.len() as u32 - 1, answer.len() as u32 + 1, MAX_MESSAGE as u32, u32::MAX] {
        let then = if len as usize > answer.len() { Then::Close } else { Then::GoOn };
        book.add(|| (format!("the length {len}"), [&len.to_le_bytes(), answer].concat(), then));
    }
    book.add(|| ("twice".to_owned(), frame(answer).repeat(2), Then::GoOn));
    book.add(|| ("the end".to_owned(), Vec::new(), Then::Close));
    let mut random = Random::seeded(answer.len() as u64);
    for _ in 0..RAW {
        let cut = random.below(HEADER as u64 + answer.len() as u64) as usize;
        book.add(|| (format!("{cut} bytes, and the end"), frame(answer)[..cut].to_vec(), Then::Close));
        let (at, byte) = (random.below(answer.len() as u64) as usize, random.below(256) as u8);
        book.add(|| {
            let mut bytes = frame(answer);
            bytes[HEADER + at] = byte;
            (format!("byte {at} is {byte:#x}"), bytes, Then::GoOn)
        });
    }
    book
}

/// Returns lies that take their time.
pub fn slow() -> Vec<Lie> {
    let lie = |what: &str, bytes: &[u8], then| Lie { what: what.to_owned(), bytes: bytes.to_vec(), then };
    let long = (MAX_MESSAGE as u32).to_le_bytes();
    vec![
        lie("nothing", &[], Then::Wait),
        lie("half a length", &long[..2], Then::Wait),
        lie("a length", &long, Then::Wait),
        lie("a message without an end", &long, Then::Trickle),
        lie("a length without an end", &[], Then::Trickle),
    ]
}

fn alter(book: &mut Book, number: u32, answers: &[&[u8]]) {
    for wrong in [0, number.wrapping_sub(1), number + 1, u32::MAX] {
        book.add(|| (format!("the number {wrong}"), message(wrong, &answers.concat()), Then::GoOn));
    }
    for count in [2, 9, 5000] {
        let repeated = || message(number, &answers.concat().repeat(count));
        book.add(|| (format!("{count} times"), repeated(), Then::GoOn));
    }
    for at in 0..answers.len() {
        let before = answers[..at].concat();
        let after = answers[at + 1..].concat();
        let bytes = answers[at];
        let mut add_bytes = |what: String, altered: &dyn Fn() -> Vec<u8>| {
            let whole = || message(number, &[&before[..], &altered(), &after].concat());
            book.add(|| (what, whole(), Then::GoOn));
        };
        let mut add = |what: String, alter: &dyn Fn(&mut Answer<'_>)| {
            add_bytes(what, &|| {
                let mut answer = wire::decode(bytes).expect("an answer");
                alter(&mut answer);
                encoded(&answer)
            });
        };
        for error in errors() {
            add(format!("{error:?}"), &|answer| answer.outcome = Err(error));
        }
        for (what, outcome) in outcomes() {
            add(what.to_owned(), &|answer| answer.outcome = Ok(outcome()));
        }
        for operations in [0, 1, 2, 0xfff, u16::MAX] {
            add(format!("operations {operations:#x}"), &|answer| answer.state.operations = operations);
        }
        add("objects".to_owned(), &|answer| answer.state.objects = u64::MAX);
        for kept in [None, Some(0), Some(1), Some(KEPT.len())] {
            add(format!("{kept:?} bytes to keep"), &|answer| {
                answer.kept = kept.map(|len| Bytes::new(&KEPT[..len]));
            });
        }
        let last = bytes.len().saturating_sub(PLACES).max(PLACES);
        for place in (0..bytes.len().min(PLACES)).chain(last..bytes.len()) {
            for value in NUMBERS {
                add_bytes(format!("the number at byte {place} is {value:#x}"), &|| {
                    let (_, rest) = number_at(bytes, place);
                    [&bytes[..place], &encoded(&value), rest].concat()
                });
            }
            for len in LENGTHS {
                add_bytes(format!("the bytes at byte {place} are {len}"), &|| {
                    let (old, rest) = number_at(bytes, place);
                    let rest = &rest[rest.len().min(usize::try_from(old).unwrap_or(0))..];
                    [&bytes[..place], &encoded(&len), &vec![0x41; len], rest].concat()
                });
            }
        }
    }
}

/// Returns all errors.
fn errors() -> impl Iterator<Item = Error> {
    (0..=u8::MAX).filter_map(|number| wire::decode(&[number]).or(wire::decode(&[number, 9])).ok())
}

/// A name, and what makes an outcome.
type Named = (&'static str, fn() -> Outcome<'static>);

/// Results of functions, also of others than the one that was called.
fn outcomes() -> [Named; 12] {
    [
        ("no operation", || Outcome::Cleared),
        ("no values", || Outcome::C_GetAttributeValue(Vec::new())),
        ("1024 values", || Outcome::C_GetAttributeValue((0..1024).map(Told::Number).collect())),
        ("1025 values", || Outcome::C_GetAttributeValue((0..1025).map(Told::Number).collect())),
        ("a slot", || Outcome::C_GetSlotList { result: List(vec![SlotId(u64::MAX)]) }),
        ("many slots", || Outcome::C_GetSlotList { result: List(vec![SlotId(1); 1 << 20]) }),
        ("many mechanisms", || Outcome::C_GetMechanismList {
            result: List(vec![MechanismType(u64::MAX); 1 << 20]),
            slot: (),
        }),
        ("a session", || Outcome::C_OpenSession {
            result: SessionHandle(u64::MAX),
            slot: (),
            access: (),
            asynchronous: (),
        }),
        ("many objects", || Outcome::C_FindObjects {
            result: 1 << 40,
            session: (),
            out: Found(vec![Object(u64::MAX); 8192]),
        }),
        ("objects that are missing", || Outcome::C_FindObjects {
            result: usize::MAX,
            session: (),
            out: Found(Vec::new()),
        }),
        ("a long signature", || Outcome::C_Sign {
            result: Signed::Bytes(usize::MAX),
            session: (),
            data: (),
            out: Data(Cow::Borrowed(Bytes::new(&[0x41; 3]))),
        }),
        ("a password", || {
            let password = OneTimePassword { digits: [0xff; 8], len: u8::MAX, counter: [0xff; 8] };
            let out = Data(Cow::Borrowed(Bytes::new(&[])));
            Outcome::C_Sign { result: Signed::Password(password), session: (), data: (), out }
        }),
    ]
}

/// Returns the number at a place, as postcard encodes it, and the bytes after it.
fn number_at(bytes: &[u8], place: usize) -> (u64, &[u8]) {
    let mut rest = &bytes[place..];
    match wire::take(&mut rest) {
        Ok(number) => (number, rest),
        Err(_) => (0, &bytes[place + 1..]),
    }
}

fn message(number: u32, answers: &[u8]) -> Vec<u8> {
    frame(&[&encoded(&Reply::Answers(number))[..], answers].concat())
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::append(value, &mut bytes).expect("a message");
    bytes
}

fn framed(reply: &Reply<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(reply, &mut bytes).expect("a message");
    bytes
}
