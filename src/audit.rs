//! The audit log. It has one line of JSON for each call of `C_Login`, `C_LoginUser` or `C_Logout`,
//! each new PIN, each call that changes a token or object or reads a secret value, and each use of
//! a private or secret key.
//!
//! Each line ends with a hash over the hash of the line before and the rest of this line. A line
//! that is changed, removed, added or moved breaks the chain there. The chain does not reveal that
//! the last lines are missing, or that all hashes were recomputed. To detect that, keep a copy of a
//! hash elsewhere. Several processes can share one file; each takes a lock to write (flock(2)).
//!
//! Each line that is in the file can also go to the local syslog (`audit/syslog.rs`).
//!
//! A separate thread writes, unless the application forbids threads. Calls queue their records for
//! it, and wait only while the queue is full.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use jeton_words::general::Threads;
use rustix::fs::OFlags;
use rustix::process::getuid;
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use crate::backend::{Hash, Provider};
use crate::error::{Error, Result};
use crate::file;
use crate::file_lock::{self, Mode};

mod syslog;

use syslog::Syslog;

/// The largest number of records in the queue, and in one batch.
const QUEUE: usize = 4096;
/// How long to wait for the lock of the file after an earlier wait of `file_lock::LIMIT` failed.
const IMPATIENT: Duration = Duration::from_millis(100);
/// The largest length of a line in bytes. What makes a record longer is cut.
const LONGEST: usize = 16 * 1024;
/// The numbers of bytes at the end of the file in which a writer looks for the last line, one after
/// the other. Older versions wrote lines of any length.
const TAILS: [u64; 2] = [LONGEST as u64, 1 << 20];
/// The largest number of NULs at the end of the file that a writer looks at. After a power cut a
/// file has as many as it had lines that were not synced.
const MOST_NULS: u64 = 64 << 20;
/// The start of the first line of a log.
const FIRST: &[u8] = b"{\"number\":1,";
/// The length of the hash of a line with its name and the line break.
const HASH: usize = r#","hash":"""#.len() + 2 * NONE.len() + 1;
/// The value that the first line uses as the hash of the line before.
const NONE: [u8; 32] = [0; 32];

/// The audit log of a module.
pub struct Audit(Way);

enum Way {
    Thread {
        queue: SyncSender<Message>,
        thread: Mutex<Option<JoinHandle<()>>>,
        /// Writes the records of calls that end after the thread.
        late: Mutex<Writer>,
    },
    /// The application forbids threads, so each call writes its own record.
    Caller(Mutex<Writer>),
}

enum Message {
    Record(Box<(Duration, Record)>),
    End,
}

/// One event.
#[derive(Serialize)]
pub struct Record {
    /// The serial number of the token; `None` if the token could not be created, and in a report of
    /// lost records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The session; `None` for functions without a session, such as `C_InitToken`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u64>,
    /// The client of the agent that called; `None` if the application loaded the module itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The PKCS#11 function, the command of the tool `jeton`, or `audit` in a report of lost
    /// records.
    pub function: &'static str,
    /// The role that logs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<&'static str>,
    /// The name of the mechanism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
    /// `CKA_UNIQUE_ID` of the objects: first those that the caller named, then the new ones.
    pub objects: Vec<String>,
    /// The label and the ID of each object of `objects`, for a reader who has only the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<ObjectName>,
    /// The names of the secret attributes that the caller read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
    /// `Ok`, the [`Error`], or what happened to the log: records were lost, or lines are missing.
    pub result: String,
}

impl Record {
    /// Returns the record with the first `most` entries of each list and the first `most`
    /// characters of each text.
    fn cut(&self, most: usize) -> Self {
        let text = |text: &String| text.chars().take(most).collect();
        let texts = |texts: &[String]| texts.iter().take(most).map(text).collect();
        let name = |name: &ObjectName| ObjectName { label: text(&name.label), id: text(&name.id) };
        Self {
            token: self.token.as_ref().map(text),
            client: self.client.as_ref().map(text),
            mechanism: self.mechanism.as_ref().map(text),
            objects: texts(&self.objects),
            names: self.names.iter().take(most).map(name).collect(),
            attributes: texts(&self.attributes),
            result: text(&self.result),
            ..*self
        }
    }
}

/// The names of an object by which users know it.
#[derive(Serialize)]
pub struct ObjectName {
    /// `CKA_LABEL`, at most 64 characters of it.
    pub label: String,
    /// `CKA_ID` in hexadecimal digits, at most 32 bytes of it.
    pub id: String,
}

/// A line without its hash.
#[derive(Serialize)]
struct Line<'a> {
    number: u64,
    /// Seconds since 1970.
    time: f64,
    process: u32,
    /// The real user ID of the process.
    uid: u32,
    /// The file name of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    /// Whether the record is longer than a line may be, so that lists or texts of it are cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    #[serde(flatten)]
    record: &'a Record,
}

/// The fields of the last line that the next line needs.
#[derive(Deserialize)]
struct Last {
    number: u64,
    hash: String,
}

impl Audit {
    /// Opens the audit log at `path`, with a thread if `threads` allows it. `syslog` is the socket
    /// of the local syslog, which gets a copy of each line. Fails with `DeviceError` if the file
    /// cannot be written.
    pub fn open(
        path: &Path,
        syslog: Option<&Path>,
        provider: &'static Provider,
        threads: Threads,
    ) -> Result<Self> {
        let mut writer = Writer::new(path, syslog, provider)?;
        writer.write(&[]).map_err(|reason| {
            let effect = "this stops each program whose configuration has this [audit]";
            writer.failed(&io::Error::other(format!("{reason}; {effect}")))
        })?;
        if threads == Threads::Forbidden {
            return Ok(Self(Way::Caller(Mutex::new(writer))));
        }
        let (queue, records) = sync_channel(QUEUE);
        let thread = thread::Builder::new().name("jeton-audit".into()).spawn(move || run(writer, &records));
        let thread = thread.map_err(|reason| {
            error!("audit: the thread cannot start: {reason}");
            Error::HostMemory
        })?;
        let late = Mutex::new(Writer::new(path, syslog, provider)?);
        Ok(Self(Way::Thread { queue, thread: Mutex::new(Some(thread)), late }))
    }

    /// Queues a record for writing, or writes it if there is no thread.
    pub fn note(&self, record: Record) {
        let time = now();
        let (writer, record) = match &self.0 {
            Way::Caller(writer) => (writer, (time, record)),
            Way::Thread { queue, late, .. } => {
                match queue.send(Message::Record(Box::new((time, record)))) {
                    // The thread has ended. A call that passed the check of its session before
                    // C_Finalize may have changed the token, so its record is written here.
                    Err(SendError(Message::Record(record))) => (late, *record),
                    _ => return,
                }
            }
        };
        writer.lock().unwrap_or_else(PoisonError::into_inner).take(&[record]);
    }

    /// Waits until all records are written, and ends the thread.
    pub fn close(&self) {
        let Way::Thread { queue, thread, .. } = &self.0 else { return };
        let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = queue.send(Message::End);
            // If the thread panicked, Rust has written the message to standard error. Nothing else
            // can be done here.
            let _ = thread.join();
        }
    }
}

/// Runs the thread, which writes all queued records as one batch.
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
        // An empty batch means that the sender was dropped without `End`.
        open &= !batch.is_empty();
        writer.take(&batch);
        batch.clear();
    }
}

struct Writer {
    path: PathBuf,
    /// The file name of the program of this process.
    program: Option<String>,
    provider: &'static Provider,
    /// The end of the file when this process last wrote.
    end: u64,
    /// The number and the hash of the last record, and where its line ends.
    number: u64,
    last: [u8; 32],
    place: u64,
    /// The number of records that could not be written since the last successful write.
    lost: usize,
    /// How long to wait for the lock of the file.
    patience: Duration,
    /// Gets a copy of each line after it is in the file.
    syslog: Option<Syslog>,
}

impl Writer {
    fn new(path: &Path, syslog: Option<&Path>, provider: &'static Provider) -> Result<Self> {
        let syslog = syslog.map(|socket| Syslog::new(socket.to_owned())).transpose();
        let syslog = syslog.map_err(|reason| {
            error!("audit: syslog: {reason}");
            Error::DeviceError
        })?;
        let program = std::env::current_exe().ok();
        let program = program.as_deref().and_then(Path::file_name);
        Ok(Self {
            path: path.to_owned(),
            program: program.map(|name| name.to_string_lossy().into_owned()),
            provider,
            end: 0,
            number: 0,
            last: NONE,
            place: 0,
            lost: 0,
            patience: file_lock::LIMIT,
            syslog,
        })
    }

    /// Writes records. If that fails, counts them as lost; the next successful write reports the
    /// number.
    fn take(&mut self, batch: &[(Duration, Record)]) {
        if let Err(reason) = self.write(batch) {
            let before = self.lost;
            self.lost += batch.len();
            // A disk stays full for a long time: the log says it for 1, 2, 4 … lost records.
            if (before + 1).next_power_of_two() <= self.lost {
                self.failed(&reason);
            }
        }
    }

    fn failed(&self, reason: &io::Error) -> Error {
        error!(file = %self.path.display(), lost = self.lost, "audit: {reason}");
        Error::DeviceError
    }

    fn write(&mut self, batch: &[(Duration, Record)]) -> io::Result<()> {
        // The file is opened for each batch: it may have been moved away, and then a new file
        // begins.
        let mut file = file::open_log(&self.path, OFlags::RDWR)?;
        // A process that holds the lock for too long must not stop all calls that write to the log.
        // After one failed wait the next waits are short, until the lock is free again.
        let locked = file_lock::acquire(&file, Mode::Exclusive, self.patience);
        self.patience = if locked.is_ok() { file_lock::LIMIT } else { IMPATIENT };
        locked?;
        let outcome = self.append(&mut file, batch).map(|text| {
            // A program that empties the file takes no lock. So this looks at the file again, and
            // reports lines that went missing meanwhile. If that fails, the next write does it.
            [text, self.append(&mut file, &[]).unwrap_or_default()].concat()
        });
        // Closing the file would not release the lock: a child that was forked in the meantime has
        // the file open too.
        let unlocked = file.unlock();
        let text = outcome?;
        if let Some(syslog) = &mut self.syslog {
            syslog.send(&text);
        }
        unlocked
    }

    /// Appends records to the file, and returns what it wrote. The caller holds the lock.
    fn append(&mut self, file: &mut File, batch: &[(Duration, Record)]) -> io::Result<Vec<u8>> {
        let data = file.metadata()?;
        let end = data.len();
        let mut text = Vec::new();
        let (number, last, place) = (self.number, self.last, self.place);
        // A device such as `/dev/null` keeps no lines. A file that was emptied may have its old
        // length again.
        let is_current = !data.is_file() || end == self.end && (number == 0 || ends_at(file, place, &last)?);
        let nuls = if is_current { 0 } else { nuls_before(file, end)? };
        // An append-only file keeps them.
        let is_cut = nuls > 0 && file.set_len(end - nuls).is_ok();
        let continued = if is_current { Ok(()) } else { self.resume(file, end - nuls, &mut text) };
        let lines = continued.and_then(|()| {
            if nuls > 0 {
                self.report_nuls((nuls, is_cut), &mut text)?;
            }
            if !is_current {
                self.report_missing(file, (number, &last, place), &mut text)?;
            }
            self.lines(batch, &mut text)
        });
        let allowed = lines.and_then(|()| file::expect_appendable(&*file, text.len()));
        let outcome = allowed.and_then(|()| file.write_all(&text));
        match outcome {
            Ok(()) => {
                self.end = if is_cut { end - nuls } else { end } + text.len() as u64;
                // Without a record the text ends a line that a crash cut off.
                if text.ends_with(b"}\n") {
                    self.place = self.end;
                }
                self.lost = 0;
            }
            // No file ends at `u64::MAX`, so the next write looks for the last line.
            Err(_) => {
                // A full disk may have taken a part of the text. An append-only file keeps it. If
                // NULs were cut, they are back, and the next write reports them.
                let _ = file.set_len(end);
                (self.number, self.last, self.place, self.end) = (number, last, place, u64::MAX);
            }
        }
        outcome.map(|()| text)
    }

    /// Reports NULs at the end of the file. After a power cut a file may have its new length, and
    /// not its new content.
    fn report_nuls(&mut self, (nuls, is_cut): (u64, bool), text: &mut Vec<u8>) -> io::Result<()> {
        if !is_cut && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        let what = if is_cut { "were cut" } else { "stay before this line" };
        let result = format!("{nuls} NUL bytes at the end of the file {what}");
        warn!(file = %self.path.display(), "audit: {result}, as after a power cut");
        self.line(now(), &Record { result, ..Record::default() }, text)
    }

    /// Continues the chain at the end of the file. Starts it in an empty file, and after a first
    /// line that a crash cut off. Fails if the file has another content without a record.
    fn resume(&mut self, file: &mut File, end: u64, text: &mut Vec<u8>) -> io::Result<()> {
        let mut tail = Vec::new();
        for len in TAILS {
            tail.clear();
            file.seek(SeekFrom::Start(end.saturating_sub(len)))?;
            file.take(len.min(end)).read_to_end(&mut tail)?;
            let mut line_end = end;
            for line in tail.rsplit(|byte| *byte == b'\n') {
                // The last line that is a record. Lines after it that are not break the chain.
                if let Ok(last) = serde_json::from_slice::<Last>(line)
                    && last.number < u64::MAX
                {
                    // The line break, which may be missing, belongs to the line.
                    (self.number, self.last, self.place) = (last.number, unhex(&last.hash), line_end + 1);
                    end_line(&tail, text);
                    return Ok(());
                }
                line_end = line_end.saturating_sub(line.len() as u64 + 1);
            }
        }
        let line = tail.trim_ascii_end();
        let is_one_line = line.len() <= LONGEST && !line.contains(&b'\n');
        if !is_one_line || !(line.starts_with(FIRST) || FIRST.starts_with(line)) {
            let reason =
                "this file has no record of an audit log in its last MiB: move it away to begin a log";
            return Err(io::Error::other(reason));
        }
        (self.number, self.last, self.place) = (0, NONE, 0);
        end_line(&tail, text);
        Ok(())
    }

    /// Reports that lines are missing that this process knows: the number and the hash of the last
    /// one, and where it ends. The file was emptied, shortened, or moved away; another process may
    /// have written any number of lines since.
    fn report_missing(
        &mut self,
        file: &mut File,
        (number, last, place): (u64, &[u8; 32], u64),
        text: &mut Vec<u8>,
    ) -> io::Result<()> {
        if number == 0 || ends_at(file, place, last)? {
            return Ok(());
        }
        let result = format!("lines are missing, up to number {number} with the hash {}", hex(last));
        self.line(now(), &Record { result, ..Record::default() }, text)
    }

    fn lines(&mut self, batch: &[(Duration, Record)], text: &mut Vec<u8>) -> io::Result<()> {
        if self.lost > 0 {
            let result = format!("{} records lost", self.lost);
            self.line(now(), &Record { result, ..Record::default() }, text)?;
        }
        batch.iter().try_for_each(|(time, record)| self.line(*time, record, text))
    }

    fn line(&mut self, time: Duration, record: &Record, text: &mut Vec<u8>) -> io::Result<()> {
        self.number += 1;
        let body = self.body(time, record)?;
        let chained = [&self.last[..], &body].concat();
        let hashed = self.provider.digest.hash(Hash::Sha256, &chained, &mut self.last);
        hashed.map_err(|error| io::Error::other(format!("SHA-256: {error:?}")))?;
        text.extend_from_slice(&body[..body.len() - 1]);
        writeln!(text, ",\"hash\":\"{}\"}}", hex(&self.last))
    }

    /// Returns a line without its hash. Cuts the record until the line is short enough: without
    /// lists and texts it is.
    fn body(&self, time: Duration, record: &Record) -> io::Result<Vec<u8>> {
        let (mut shorter, mut most) = (None, LONGEST);
        loop {
            let line = Line {
                number: self.number,
                time: time.as_secs_f64(),
                process: std::process::id(),
                uid: getuid().as_raw(),
                program: self.program.as_deref(),
                cut: shorter.is_some(),
                record: shorter.as_ref().unwrap_or(record),
            };
            let body = serde_json::to_vec(&line)?;
            if body.len() + HASH <= LONGEST || most == 0 {
                return Ok(body);
            }
            most /= 2;
            shorter = Some(record.cut(most));
        }
    }
}

impl Default for Record {
    fn default() -> Self {
        Self {
            token: None,
            session: None,
            client: None,
            function: "audit",
            user: None,
            mechanism: None,
            objects: Vec::new(),
            names: Vec::new(),
            attributes: Vec::new(),
            result: String::new(),
        }
    }
}

/// Returns whether a line with this hash ends here in the file.
fn ends_at(file: &mut File, end: u64, hash: &[u8; 32]) -> io::Result<bool> {
    let expected = format!("{}\"}}\n", hex(hash));
    let Some(start) = end.checked_sub(expected.len() as u64) else { return Ok(false) };
    let mut found = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(expected.len() as u64).read_to_end(&mut found)?;
    Ok(found == expected.as_bytes())
}

/// Returns the number of NULs before this place in the file. Fails if there are too many to look
/// at.
fn nuls_before(file: &mut File, end: u64) -> io::Result<u64> {
    let (mut start, mut block) = (end, Vec::new());
    while start > 0 && end - start < MOST_NULS {
        let len = start.min(TAILS[0]);
        block.clear();
        file.seek(SeekFrom::Start(start - len))?;
        file.take(len).read_to_end(&mut block)?;
        if block.len() as u64 != len {
            // Another program empties the file.
            return Ok(0);
        }
        if let Some(at) = block.iter().rposition(|byte| *byte != 0) {
            return Ok(end - (start - len) - at as u64 - 1);
        }
        start -= len;
    }
    match start {
        0 => Ok(end),
        _ => Err(io::Error::other("this file ends with NULs only: move it away to begin a log")),
    }
}

/// Ends a line that a crash cut off.
fn end_line(tail: &[u8], text: &mut Vec<u8>) {
    if tail.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes a hash. Invalid digits become zeros, so that the chain breaks there.
fn unhex(text: &str) -> [u8; 32] {
    let byte = |at| text.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    std::array::from_fn(|at| byte(at).unwrap_or_default())
}
