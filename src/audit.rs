//! The audit log. It has one line of JSON for each call of `C_Login`, `C_LoginUser` or `C_Logout`,
//! each new PIN, each call that changes a token or object or reads a secret value, and each use of
//! a private or secret key.
//!
//! Each line ends with a hash over the hash of the line before and the rest of this line. A line
//! that is changed, removed, added or moved breaks the chain there. The file beside the log
//! (`audit/last_line.rs`) reveals that the last lines are missing, unless it was changed too. The
//! chain does not reveal that all hashes were recomputed. To detect that, keep a copy of a hash
//! elsewhere. Several processes can share one log; each takes a lock to write (flock(2)).
//!
//! If the log was moved away or emptied, the next file continues its chain: its first line has the
//! next number, and the hash of the line before as `previous`.
//!
//! Each line that is in the file can also go to the local syslog (`audit/syslog.rs`).
//!
//! A separate thread writes, unless the application forbids threads. Calls queue their records for
//! it, and wait only while the queue is full. In a worker of the agent, calls send their records to
//! the process that writes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use jeton_words::general::Threads;
use jeton_words::session::User;
use jeton_words::token::Function;
use rustix::fs::OFlags;
use rustix::process::getuid;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use tracing::{error, warn};

use crate::backend::{Hash, Provider};
use crate::error::{Error, Result};
use crate::file;
use crate::file_lock::{self, Mode};

mod last_line;
pub(crate) mod syslog;
pub mod written;

use last_line::{EndFile, Last, hex};
use syslog::Syslog;

/// The largest number of records in the queue, and in one batch.
const QUEUE: usize = 4096;
/// How long to wait for the lock of the file after an earlier wait of `file_lock::LIMIT` failed.
const IMPATIENT: Duration = Duration::from_millis(100);
/// The largest length of a line in bytes, and of a record that goes to another process. What makes
/// a record longer is cut.
pub const LONGEST: usize = 16 * 1024;
/// The numbers of bytes at the end of the file in which a writer looks for the last line, one after
/// the other. Older versions wrote lines of any length.
const TAILS: [u64; 2] = [LONGEST as u64, 1 << 20];
/// The largest number of NULs at the end of the file that a writer looks at. After a power cut a
/// file has as many as it had lines that were not synced.
const MOST_NULS: u64 = 64 << 20;
/// The start of each line, and what follows the number.
const START: (&[u8], &[u8]) = (b"{\"number\":", b",\"time\":");
/// The length of the hash of a line with its name and the line break.
const HASH: usize = r#","hash":"""#.len() + 2 * 32 + 1;

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
    /// Another process writes.
    Process(Box<dyn Fn(&Record) + Send + Sync>),
}

enum Message {
    Record(Box<(Duration, Record)>),
    End,
}

/// One event.
#[derive(Serialize, Deserialize)]
pub struct Record {
    /// The process that called; `None` for the one that writes.
    pub process: Option<u32>,
    /// Whether lists or texts of the record are cut, because it was too long.
    pub cut: bool,
    /// The serial number of the token; `None` if the token could not be created, and in a report of
    /// lost records.
    pub token: Option<String>,
    /// The session; `None` for functions without a session, such as `C_InitToken`.
    pub session: Option<u64>,
    /// The client of the agent that called; `None` if the application loaded the module itself.
    pub client: Option<String>,
    /// The PKCS#11 function, the command of the tool `jeton`, or `audit` in a report of lost
    /// records.
    #[serde(deserialize_with = "function")]
    pub function: Word,
    /// The role that logs in.
    #[serde(deserialize_with = "user")]
    pub user: Option<Word>,
    /// The name of the mechanism.
    pub mechanism: Option<String>,
    /// `CKA_UNIQUE_ID` of the objects: first those that the caller named, then the new ones.
    pub objects: Vec<String>,
    /// The label and the ID of each object of `objects`, for a reader who has only the log.
    pub names: Vec<ObjectName>,
    /// The names of the secret attributes that the caller read.
    pub attributes: Vec<String>,
    /// In the first line of a file that continues a log: the hash of the last line of the log.
    pub previous: Option<String>,
    /// The number of further calls of this function that had this result, and have no record of
    /// their own.
    pub more: Option<u64>,
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
            process: self.process,
            cut: true,
            session: self.session,
            function: self.function,
            user: self.user,
            token: self.token.as_ref().map(text),
            client: self.client.as_ref().map(text),
            mechanism: self.mechanism.as_ref().map(text),
            objects: texts(&self.objects),
            names: self.names.iter().take(most).map(name).collect(),
            attributes: texts(&self.attributes),
            previous: self.previous.clone(),
            more: self.more,
            result: text(&self.result),
        }
    }

    /// Returns whether the call failed.
    pub fn has_failed(&self) -> bool {
        !["Ok", "Pending"].contains(&&*self.result)
    }

    /// Encodes the record. Cuts it until it is short enough: without lists and texts it is.
    pub fn encode<E>(&self, encode: impl Fn(&Self) -> Result<Vec<u8>, E>) -> Result<Vec<u8>, E> {
        let mut bytes = encode(self)?;
        let mut most = LONGEST;
        while bytes.len() > LONGEST && most > 0 {
            most /= 2;
            bytes = encode(&self.cut(most))?;
        }
        Ok(bytes)
    }
}

/// A word of this program. Another process can send no other.
type Word = &'static str;

fn function<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let sent = String::deserialize(from)?;
    let known = Function::ALL.iter().map(|function| function.name()).find(|name| *name == sent);
    known.ok_or_else(|| D::Error::custom("an unknown function"))
}

fn user<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Word>, D::Error> {
    let Some(sent) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let known = [User::SecurityOfficer, User::User, User::ContextSpecific].map(User::name);
    let known = known.into_iter().find(|name| *name == sent);
    known.map(Some).ok_or_else(|| D::Error::custom("an unknown user"))
}

/// The names of an object by which users know it.
#[derive(Serialize, Deserialize)]
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
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<&'a str>,
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mechanism: Option<&'a str>,
    objects: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    names: &'a [ObjectName],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    attributes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<u64>,
    result: &'a str,
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

    /// Returns an audit log that another process writes. `send` passes the records on.
    pub fn of_process(send: impl Fn(&Record) + Send + Sync + 'static) -> Self {
        Self(Way::Process(Box::new(send)))
    }

    /// Queues a record for writing, or writes it if there is no thread.
    pub fn note(&self, record: Record) {
        self.note_at(now(), record);
    }

    fn note_at(&self, time: Duration, record: Record) {
        let (writer, record) = match &self.0 {
            Way::Caller(writer) => (writer, (time, record)),
            Way::Process(send) => return send(&record),
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

    /// Writes records with their times since 1970, as one batch if there is no thread.
    pub fn note_all(&self, records: Vec<(Duration, Record)>) {
        let Way::Caller(writer) = &self.0 else {
            return records.into_iter().for_each(|(time, record)| self.note_at(time, record));
        };
        writer.lock().unwrap_or_else(PoisonError::into_inner).take(&records);
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

/// When a write looks at the file: before its lines, or after them to see that they are there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    First,
    Again,
}

struct Writer {
    path: PathBuf,
    /// The file name of the program of this process.
    program: Option<String>,
    provider: &'static Provider,
    /// The end of the file when this process last wrote.
    end: u64,
    /// The last record, and where its line ends.
    last: Last,
    place: u64,
    /// The number of records that could not be written since the last successful write.
    lost: usize,
    /// How long to wait for the lock of the file.
    patience: Duration,
    /// Gets a copy of each line after it is in the file.
    syslog: Option<Syslog>,
    /// Whether the file beside the log can be used. The log says once that it cannot.
    has_end_file: bool,
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
            end: u64::MAX,
            last: Last::NONE,
            place: 0,
            lost: 0,
            patience: file_lock::LIMIT,
            syslog,
            has_end_file: true,
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
        let end_file = self.end_file();
        // A process that holds a lock for too long must not stop all calls that write to the log.
        // After one failed wait the next waits are short, until the lock is free again.
        let locked = end_file.as_ref().map_or(Ok(()), |end_file| end_file.lock(self.patience));
        let written = locked.and_then(|()| {
            // The file is opened for each batch: it may have been moved away, and then a new file
            // begins. Older versions lock this file only.
            let mut file = file::open_log(&self.path, OFlags::RDWR)?;
            file_lock::acquire(&file, Mode::Exclusive, self.patience)?;
            if let Some(end_file) = &end_file {
                let _ = end_file.share(&file);
            }
            let outcome = self.append_twice(&mut file, end_file.as_ref(), batch);
            // Closing the file would not release the lock: a child that was forked in the meantime
            // has the file open too.
            let unlocked = file.unlock();
            Ok((outcome?, unlocked))
        });
        let is_late = |reason: &io::Error| reason.kind() == io::ErrorKind::TimedOut;
        self.patience = if written.as_ref().is_err_and(is_late) { IMPATIENT } else { file_lock::LIMIT };
        let unlocked = end_file.map_or(Ok(()), |end_file| end_file.unlock());
        let (text, file_unlocked) = written?;
        if let Some(syslog) = &self.syslog {
            syslog.send(&text);
        }
        file_unlocked.and(unlocked)
    }

    /// Opens the file beside the log. Without it calls continue, but a process that never wrote to
    /// the log cannot continue one that was moved away.
    fn end_file(&mut self) -> Option<EndFile> {
        let opened = EndFile::open(&self.path);
        if let Err(reason) = &opened
            && self.has_end_file
        {
            let effect = "a new file may not continue the chain";
            warn!(file = %self.path.display(), "audit: the file .end beside the log: {reason}; {effect}");
        }
        self.has_end_file = opened.is_ok();
        opened.ok().flatten()
    }

    /// Appends records to the file, and returns what it wrote. The caller holds the locks.
    fn append_twice(
        &mut self,
        file: &mut File,
        end_file: Option<&EndFile>,
        batch: &[(Duration, Record)],
    ) -> io::Result<Vec<u8>> {
        let text = self.append(file, end_file, Look::First, batch)?;
        // A program that empties the file takes no lock. So this looks at the file again, and
        // reports lines that went missing meanwhile. If that fails, the next write does it.
        Ok([text, self.append(file, end_file, Look::Again, &[]).unwrap_or_default()].concat())
    }

    fn append(
        &mut self,
        file: &mut File,
        end_file: Option<&EndFile>,
        look: Look,
        batch: &[(Duration, Record)],
    ) -> io::Result<Vec<u8>> {
        let data = file.metadata()?;
        let end = data.len();
        let mut text = Vec::new();
        let (last, place) = (self.last, self.place);
        // A device such as `/dev/null` keeps no lines. A file that was emptied may have its old
        // length again. An empty file may continue another one.
        let is_current =
            !data.is_file() || last != Last::NONE && end == self.end && ends_at(file, place, &last)?;
        let nuls = if is_current { 0 } else { nuls_before(file, end)? };
        // An append-only file keeps them.
        let is_cut = nuls > 0 && file.set_len(end - nuls).is_ok();
        let continued =
            if is_current { Ok(None) } else { self.resume((file, end - nuls), end_file, look, &mut text) };
        let lines = continued.and_then(|missing| {
            if nuls > 0 {
                self.report_nuls((nuls, is_cut), &mut text)?;
            }
            if let Some(missing) = missing {
                self.report_missing(&missing, &mut text)?;
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
                    self.note_end(end_file);
                }
                self.lost = 0;
            }
            // No file ends at `u64::MAX`, so the next write looks for the last line.
            Err(_) => {
                // A full disk may have taken a part of the text. An append-only file keeps it. If
                // NULs were cut, they are back, and the next write reports them.
                let _ = file.set_len(end);
                (self.last, self.place, self.end) = (last, place, u64::MAX);
            }
        }
        outcome.map(|()| text)
    }

    /// Writes the last line to the file beside the log.
    fn note_end(&self, end_file: Option<&EndFile>) {
        if let Some(Err(reason)) = end_file.map(|end_file| end_file.write(&self.last)) {
            warn!(file = %self.path.display(), "audit: the file .end beside the log: {reason}");
        }
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

    /// Continues the chain at the end of the file. An empty file, and one whose first line a crash
    /// cut off, continues the chain of the file before, or starts one. Fails if the file has
    /// another content without a record.
    ///
    /// Returns the last line that this process or the file beside the log knows, if this line is
    /// missing in the file.
    fn resume(
        &mut self,
        (file, end): (&mut File, u64),
        end_file: Option<&EndFile>,
        look: Look,
        text: &mut Vec<u8>,
    ) -> io::Result<Option<Last>> {
        let (own, own_place) = (self.last, self.place);
        let noted = end_file.and_then(EndFile::read).unwrap_or(Last::NONE);
        let newest = if noted.number < own.number { own } else { noted };
        let mut tail = Vec::new();
        for len in TAILS {
            tail.clear();
            file.seek(SeekFrom::Start(end.saturating_sub(len)))?;
            file.take(len.min(end)).read_to_end(&mut tail)?;
            let mut line_end = end;
            for line in tail.rsplit(|byte| *byte == b'\n') {
                // The last line that is a record. Lines after it that are not break the chain.
                if let Some(last) = Last::of_line(line) {
                    // The line break, which may be missing, belongs to the line.
                    (self.last, self.place) = (last, line_end + 1);
                    end_line(&tail, text);
                    let has_noted = noted.number < last.number || noted == last;
                    // At first the line of this process may be in an earlier file, which other
                    // processes continued.
                    let has_own = own == Last::NONE
                        || look == Look::First && has_noted && noted.number >= own.number
                        || ends_at(file, own_place, &own)?;
                    return Ok((!has_noted || !has_own).then_some(newest));
                }
                line_end = line_end.saturating_sub(line.len() as u64 + 1);
            }
        }
        let line = tail.trim_ascii_end();
        if line.len() > LONGEST || line.contains(&b'\n') || !begins_as_line(line) {
            let reason =
                "this file has no record of an audit log in its last MiB: move it away to begin a log";
            return Err(io::Error::other(reason));
        }
        (self.last, self.place) = (newest, 0);
        end_line(&tail, text);
        if newest != Last::NONE {
            let result = format!("this file continues after number {}", newest.number);
            let previous = Some(hex(&newest.hash));
            self.line(now(), &Record { previous, result, ..Record::default() }, text)?;
        }
        Ok(None)
    }

    /// Reports that lines are missing up to this one: the file was shortened or replaced.
    fn report_missing(&mut self, last: &Last, text: &mut Vec<u8>) -> io::Result<()> {
        let (number, hash) = (last.number, hex(&last.hash));
        let result = format!("lines are missing, up to number {number} with the hash {hash}");
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
        self.last.number += 1;
        let body = self.body(time, record)?;
        let chained = [&self.last.hash[..], &body].concat();
        let hashed = self.provider.digest.hash(Hash::Sha256, &chained, &mut self.last.hash);
        hashed.map_err(|error| io::Error::other(format!("SHA-256: {error:?}")))?;
        text.extend_from_slice(&body[..body.len() - 1]);
        writeln!(text, ",\"hash\":\"{}\"}}", hex(&self.last.hash))
    }

    /// Returns a line without its hash, with room for it.
    fn body(&self, time: Duration, record: &Record) -> io::Result<Vec<u8>> {
        let body = |record: &Record| {
            let mut body = serde_json::to_vec(&Line {
                number: self.last.number,
                time: time.as_secs_f64(),
                process: record.process.unwrap_or_else(std::process::id),
                uid: getuid().as_raw(),
                program: self.program.as_deref(),
                cut: record.cut,
                token: record.token.as_deref(),
                session: record.session,
                client: record.client.as_deref(),
                function: record.function,
                user: record.user,
                mechanism: record.mechanism.as_deref(),
                objects: &record.objects,
                names: &record.names,
                attributes: &record.attributes,
                previous: record.previous.as_deref(),
                more: record.more,
                result: &record.result,
            })?;
            body.resize(body.len() + HASH, 0);
            io::Result::Ok(body)
        };
        let mut body = record.encode(body)?;
        body.truncate(body.len() - HASH);
        Ok(body)
    }
}

impl Default for Record {
    fn default() -> Self {
        Self {
            process: None,
            cut: false,
            token: None,
            session: None,
            client: None,
            function: "audit",
            user: None,
            mechanism: None,
            objects: Vec::new(),
            names: Vec::new(),
            attributes: Vec::new(),
            previous: None,
            more: None,
            result: String::new(),
        }
    }
}

/// Returns whether a line begins as those of a log do. A crash may have cut it off.
fn begins_as_line(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(START.0) else { return START.0.starts_with(line) };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = &rest[digits..];
    rest.is_empty() || digits > 0 && (rest.starts_with(START.1) || START.1.starts_with(rest))
}

/// Returns whether this line ends here in the file.
fn ends_at(file: &mut File, end: u64, line: &Last) -> io::Result<bool> {
    let expected = format!("{}\"}}\n", hex(&line.hash));
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
