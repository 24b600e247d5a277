//! The audit log: one line of JSON for each login, each object that comes, changes or goes, and each use of a private or
//! secret key.
//!
//! Each line ends with a hash of itself and of the line before. A line that is changed, removed, added or moved breaks the
//! chain there; that the last lines are missing, or that somebody computed everything anew, shows only to who noted a
//! hash elsewhere. Several processes write to one file, one after the other (flock(2)).
//!
//! A thread of its own writes. Calls hand it their records and wait only where `QUEUE` of them are not written yet.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tracing::error;

use crate::backend::{Hash, Provider};
use crate::error::{Error, Result};

/// So many records may wait to be written.
const QUEUE: usize = 4096;
/// No line is longer.
const LONGEST: u64 = 16 * 1024;
/// The hash before the first line.
const NONE: [u8; 32] = [0; 32];

/// Where records go.
pub struct Audit(Way);

enum Way {
    Thread {
        queue: SyncSender<Message>,
        thread: Mutex<Option<JoinHandle<()>>>,
    },
    /// Where the application forbids threads: the call writes.
    Caller(Mutex<Writer>),
}

enum Message {
    Record(Box<(Duration, Record)>),
    End,
}

/// What happened.
#[derive(Serialize)]
pub struct Record {
    /// The serial number of the token; none for a token that could not be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The session; none for `C_InitToken`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// The function of PKCS#11.
    pub function: &'static str,
    /// Who logs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<&'static str>,
    /// The mechanism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// `CKA_UNIQUE_ID` of the objects: those that the caller named, then those that were made.
    pub objects: Vec<String>,
    /// `Ok`, or the [`Error`].
    pub result: String,
}

/// A line before its hash.
#[derive(Serialize)]
struct Line<'a> {
    number: u64,
    /// Seconds since 1970.
    time: f64,
    process: u32,
    #[serde(flatten)]
    record: &'a Record,
}

/// What the next line has to know of the last one.
#[derive(Deserialize)]
struct Last {
    number: u64,
    hash: String,
}

impl Audit {
    /// Writes to the file at `path`, by a thread of its own where there may be one. `DeviceError` where it cannot.
    pub fn open(path: &Path, provider: &'static Provider, threads: bool) -> Result<Self> {
        let mut writer = Writer { path: path.to_owned(), provider, end: 0, number: 0, last: NONE, lost: 0 };
        writer.write(&[]).map_err(|reason| writer.failed(&reason))?;
        if !threads {
            return Ok(Self(Way::Caller(Mutex::new(writer))));
        }
        let (queue, records) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("jeton-audit".into()).spawn(move || run(writer, &records));
        let thread = thread.map_err(|reason| {
            error!("audit: no thread: {reason}");
            Error::HostMemory
        })?;
        Ok(Self(Way::Thread { queue, thread: Mutex::new(Some(thread)) }))
    }

    /// Takes a record.
    pub fn note(&self, record: Record) {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        match &self.0 {
            // After C_Finalize nobody takes it: the call that came too late is told so by its session.
            Way::Thread { queue, .. } => drop(queue.send(Message::Record(Box::new((time, record))))),
            Way::Caller(writer) => {
                writer.lock().unwrap_or_else(PoisonError::into_inner).take(&[(time, record)]);
            }
        }
    }

    /// Waits until all is written.
    pub fn close(&self) {
        let Way::Thread { queue, thread } = &self.0 else { return };
        let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = queue.send(Message::End);
            // A panic in it has been logged; nothing more can be done here.
            let _ = thread.join();
        }
    }
}

/// The thread: what has come together meanwhile is written at once.
fn run(mut writer: Writer, records: &Receiver<Message>) {
    let mut batch = Vec::new();
    let mut open = true;
    while open {
        let first = records.recv().into_iter();
        for message in first.chain(records.try_iter()) {
            match message {
                Message::Record(record) => batch.push(*record),
                Message::End => open = false,
            }
            if batch.len() == QUEUE {
                break;
            }
        }
        // The sender is gone without a word.
        open &= !batch.is_empty();
        writer.take(&batch);
        batch.clear();
    }
}

struct Writer {
    path: PathBuf,
    provider: &'static Provider,
    /// Where the file ended, and with which line, when this process last wrote.
    end: u64,
    number: u64,
    last: [u8; 32],
    /// Records that could not be written.
    lost: usize,
}

impl Writer {
    /// Writes records, and that some are lost where that could not be done before.
    fn take(&mut self, batch: &[(Duration, Record)]) {
        if let Err(reason) = self.write(batch) {
            self.lost += batch.len();
            self.failed(&reason);
        }
    }

    fn failed(&self, reason: &io::Error) -> Error {
        error!(file = %self.path.display(), lost = self.lost, "audit: {reason}");
        Error::DeviceError
    }

    fn write(&mut self, batch: &[(Duration, Record)]) -> io::Result<()> {
        // Opened each time: the file may have been moved away, and another begins.
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        file.lock()?;
        let outcome = self.append(&mut file, batch);
        // Closing would not do: a child that was forked meanwhile has the file open too.
        outcome.and(file.unlock())
    }

    /// Appends to the file, which is locked.
    fn append(&mut self, file: &mut File, batch: &[(Duration, Record)]) -> io::Result<()> {
        let end = file.metadata()?.len();
        let mut text = Vec::new();
        if end != self.end || end == 0 {
            self.resume(file, end, &mut text)?;
        }
        let (number, last) = (self.number, self.last);
        let outcome = self.lines(batch, &mut text).and_then(|()| file.write_all(&text));
        match outcome {
            Ok(()) => {
                self.end = end + text.len() as u64;
                self.lost = 0;
            }
            // Part of it may be there: look again next time.
            Err(_) => (self.number, self.last, self.end) = (number, last, u64::MAX),
        }
        outcome
    }

    /// Takes the chain up where the file ends, or starts it. A line that was cut off by a crash ends here.
    fn resume(&mut self, file: &mut File, end: u64, text: &mut Vec<u8>) -> io::Result<()> {
        let start = end.saturating_sub(LONGEST);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(LONGEST).read_to_end(&mut tail)?;
        if tail.last().is_some_and(|byte| *byte != b'\n') {
            text.push(b'\n');
        }
        // The last one that is a record; after it what is none shows as a break.
        let last =
            tail.rsplit(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice::<Last>(line).ok());
        (self.number, self.last) = last.map_or((0, NONE), |last| (last.number, unhex(&last.hash)));
        Ok(())
    }

    fn lines(&mut self, batch: &[(Duration, Record)], text: &mut Vec<u8>) -> io::Result<()> {
        if self.lost > 0 {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let result = format!("{} records lost", self.lost);
            self.line(now, &Record { result, ..Record::default() }, text)?;
        }
        batch.iter().try_for_each(|(time, record)| self.line(*time, record, text))
    }

    fn line(&mut self, time: Duration, record: &Record, text: &mut Vec<u8>) -> io::Result<()> {
        self.number += 1;
        let line =
            Line { number: self.number, time: time.as_secs_f64(), process: std::process::id(), record };
        let body = serde_json::to_vec(&line)?;
        let chained = [&self.last[..], &body].concat();
        let hashed = self.provider.digest.hash(Hash::Sha256, &chained, &mut self.last);
        hashed.map_err(|error| io::Error::other(format!("SHA-256: {error:?}")))?;
        text.extend_from_slice(&body[..body.len() - 1]);
        let hash: String = self.last.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, ",\"hash\":\"{hash}\"}}")
    }
}

impl Default for Record {
    fn default() -> Self {
        Self {
            token: None,
            session: None,
            function: "audit",
            user: None,
            mechanism: None,
            objects: Vec::new(),
            result: String::new(),
        }
    }
}

/// The bytes of a hash; zeros for what is none, so that the chain breaks there.
fn unhex(text: &str) -> [u8; 32] {
    let mut bytes = NONE;
    let digits = text.as_bytes().chunks_exact(2).map(|pair| {
        let pair = str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    bytes.iter_mut().zip(digits).for_each(|(byte, digit)| *byte = digit.unwrap_or_default());
    bytes
}
