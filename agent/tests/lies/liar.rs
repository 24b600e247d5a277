//! The liar: it stands between the client module and an honest agent, and alters one answer.

use std::os::unix::net::UnixListener;

use jeton_agent_wire::{self as wire, Answer, HEADER, MAX_MESSAGE, Reply, State};
use jeton_child::Random;
use serde_bytes::{ByteBuf, Bytes};

use crate::common::peer::{frame, read_frame};
use crate::common::*;

/// Numbers in place of others: codes, lengths, handles.
const NUMBERS: [u64; 12] =
    [0, 1, 6, 0x30, 0x150, 1 << 16, 1 << 26, 1 << 32, 1 << 40, 1 << 63, u64::MAX - 1, u64::MAX];
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

/// The same in memory of its own, to alter it.
#[derive(Clone)]
struct Owned {
    code: u64,
    state: State,
    outputs: Vec<ByteBuf>,
    kept: Option<ByteBuf>,
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
                let answer: Answer<'_> = wire::take(&mut rest).expect("an answer of the agent");
                let outputs = answer.outputs.iter().map(|output| ByteBuf::from(output.to_vec())).collect();
                let kept = answer.kept.map(|kept| ByteBuf::from(kept.to_vec()));
                answers.push(Owned { code: answer.code, state: answer.state, outputs, kept });
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
        Reply::Applications(Vec::new()),
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

fn alter(book: &mut Book, number: u32, answers: &[Owned]) {
    for wrong in [0, number.wrapping_sub(1), number + 1, u32::MAX] {
        book.add(|| (format!("the number {wrong}"), message(wrong, answers), Then::GoOn));
    }
    for count in [2, 9, 5000] {
        book.add(|| {
            let repeated: Vec<_> = std::iter::repeat_n(answers, count).flatten().cloned().collect();
            (format!("{count} times"), message(number, &repeated), Then::GoOn)
        });
    }
    for at in 0..answers.len() {
        let mut add = |what: String, alter: &dyn Fn(&mut Owned)| {
            book.add(|| {
                let mut answers = answers.to_vec();
                alter(&mut answers[at]);
                (what, message(number, &answers), Then::GoOn)
            });
        };
        for code in NUMBERS.into_iter().chain([0x11, 0x32, 0x90, 0xa0, 0xb3, 0x101, 0x190]) {
            add(format!("code {code:#x}"), &|answer| answer.code = code);
            // What the honest agent does not say in a failure.
            add(format!("code {code:#x}, and outputs"), &|answer| {
                answer.code = code;
                answer.outputs = vec![ByteBuf::from([0x41; 8]); 4];
            });
        }
        for len in [8, 24, 32, 40, 48, 112, 256] {
            add(format!("CKR_OK, and {len} bytes"), &|answer| {
                answer.code = 0;
                answer.outputs = vec![ByteBuf::from(vec![0x41; len])];
            });
        }
        for operations in [0, 1, 2, 0xfff, u16::MAX] {
            add(format!("operations {operations:#x}"), &|answer| answer.state.operations = operations);
        }
        add("objects".to_owned(), &|answer| answer.state.objects = u64::MAX);
        for kept in [None, Some(0), Some(1), Some(1 << 20)] {
            add(format!("{kept:?} bytes to keep"), &|answer| {
                answer.kept = kept.map(|len| ByteBuf::from(vec![7; len]));
            });
        }
        add("no outputs".to_owned(), &|answer| answer.outputs.clear());
        add("outputs in another order".to_owned(), &|answer| answer.outputs.reverse());
        add("many outputs".to_owned(), &|answer| answer.outputs.resize(1 << 20, ByteBuf::new()));
        for output in 0..answers[at].outputs.len() {
            let len = answers[at].outputs[output].len();
            add(format!("without output {output}"), &|answer| drop(answer.outputs.remove(output)));
            add(format!("output {output} twice"), &|answer| {
                answer.outputs.insert(output, answer.outputs[output].clone());
            });
            for wrong in [0, 1, len.saturating_sub(1), len + 1, 2 * len, 4096, 1 << 17] {
                add(format!("output {output} has {wrong} bytes"), &|answer| {
                    answer.outputs[output].resize(wrong, 0x41);
                });
            }
            for word in (0..len / 8).take(8) {
                for value in NUMBERS {
                    add(format!("word {word} of output {output} is {value:#x}"), &|answer| {
                        answer.outputs[output][8 * word..][..8].copy_from_slice(&value.to_ne_bytes());
                    });
                }
            }
        }
    }
}

fn message(number: u32, answers: &[Owned]) -> Vec<u8> {
    let mut message = Vec::new();
    wire::append(&Reply::Answers(number), &mut message).expect("a message");
    for answer in answers {
        let outputs = answer.outputs.iter().map(|output| Bytes::new(output)).collect();
        let kept = answer.kept.as_ref().map(|kept| Bytes::new(kept));
        let answer = Answer { code: answer.code, state: answer.state, outputs, kept };
        wire::append(&answer, &mut message).expect("a message");
    }
    frame(&message)
}

fn framed(reply: &Reply<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(reply, &mut bytes).expect("a message");
    bytes
}
