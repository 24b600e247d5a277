//! The process that writes the audit log. No other process of the agent that knows a client opens
//! it.
//!
//! Each worker has a [queue](crate::queue) of its own: one that has filled it waits, and delays no
//! other. This process reads one record of each in turn, writes them, and then takes them out of
//! the queues. The front says whose records these are, and the kernel when they were sent.

use std::collections::VecDeque;
use std::io;
use std::thread;
use std::time::{Duration, SystemTime};

use jeton::audit::written::Written;
use jeton::audit::{Audit, LONGEST, Record};
use jeton::config::Settings;
use jeton::error::Error;
use jeton::functions::Threads;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use tracing::warn;

use crate::link::{Link, Source, ToFront, ToWriter};
use crate::queue::Reader;
use crate::record_limit::Refusals;
use crate::sandbox;

/// The most records in a batch.
const MOST: usize = 1024;
/// How long records gather, so that a batch has many: it opens, locks and reads the file.
const GATHER: Duration = Duration::from_millis(1);
/// What the log says after such a process has ended before its time.
const ENDED: &str =
    "the process that writes has ended: numbers of failed calls and lost records may be missing";
/// How often this process looks whether calls that failed are to be counted in a line.
const LOOK: Duration = Duration::from_secs(1);

/// A worker whose records are written.
struct Worker {
    source: Source,
    records: Reader,
}

/// Works until the front and all workers have ended.
pub fn run(link: &Link) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let wrong = |error: Error| format!("the configuration is wrong: {error:?}; the log says why");
    let Some((ToWriter::Start(configuration, follows), _)) = link.receive().map_err(text)? else {
        return Ok(());
    };
    let places = Settings::places(&configuration).map_err(wrong)?;
    let settings = Settings::parse(&configuration, Threads::Forbidden, None).map_err(wrong)?;
    let audit = settings.audit.ok_or("the configuration names no audit log")?;
    let confined = sandbox::confine_writer(&places);
    // Without a front, the records of the workers are still written.
    let _ = link.send(&ToFront::Ready(confined.err().into_iter().collect()), None);
    let mut written = Written::default();
    if follows {
        let log = places.audit.as_deref().and_then(|log| {
            Written::read(log).inspect_err(|error| warn!(%error, "the log may have records twice")).ok()
        });
        written = log.unwrap_or_default();
        audit.note_all(vec![(now(), Record { result: ENDED.to_owned(), ..Record::default() })]);
    }
    serve(link, &audit, written).map_err(text)
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Writes the records of workers. `written` are those that were written before.
fn serve(link: &Link, audit: &Audit, mut written: Written) -> io::Result<()> {
    let (mut workers, mut refusals): (Vec<Worker>, _) = (Vec::new(), Refusals::default());
    let mut is_open = true;
    while is_open || !workers.is_empty() {
        let sockets = workers.iter().map(|worker| worker.records.descriptor());
        let sockets = sockets.chain(is_open.then(|| link.descriptor()));
        let mut polled: Vec<_> =
            sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        let limit = refusals.are_counted().then(|| Timespec::try_from(LOOK)).and_then(Result::ok);
        retry_on_intr(|| poll(&mut polled, limit.as_ref()))?;
        let is_ready = |at: &usize| polled.get(*at).is_some_and(|socket| !socket.revents().is_empty());
        let ready: VecDeque<_> = (0..workers.len()).filter(is_ready).collect();
        let is_told = is_ready(&workers.len());
        if !ready.is_empty() {
            thread::sleep(GATHER);
        }
        let numbers = refusals.ended().into_iter().map(|record| (now(), record));
        let mut batch: Vec<_> = numbers.collect();
        let is_new = |time, record: &Record| !written.remove(time, record);
        let ended = look(&mut workers, ready, is_new, &mut refusals, &mut batch);
        if !batch.is_empty() {
            audit.note_all(batch);
        }
        workers.iter_mut().for_each(|worker| worker.records.remove_seen());
        let mut at = 0..;
        workers.retain(|_| !at.next().is_some_and(|at| ended.contains(&at)));
        if is_told {
            match link.receive() {
                Ok(Some((ToWriter::Worker(source), Some(socket)))) => {
                    // Without a front, the records of the workers are still written.
                    let _ = link.send(&ToFront::Taken, None);
                    workers.push(Worker { source, records: Reader::new(socket)? });
                }
                _ => is_open = false,
            }
        }
    }
    audit.note_all(refusals.all().into_iter().map(|record| (now(), record)).collect());
    Ok(())
}

/// Reads records of these workers in turn. Returns the workers that have ended.
fn look(
    workers: &mut [Worker],
    mut turns: VecDeque<usize>,
    mut is_new: impl FnMut(Duration, &Record) -> bool,
    refusals: &mut Refusals,
    batch: &mut Vec<(Duration, Record)>,
) -> Vec<usize> {
    let (mut ended, mut buffer) = (Vec::new(), [0; LONGEST]);
    for _ in 0..MOST {
        let Some(at) = turns.pop_front() else { break };
        let worker = &mut workers[at];
        match worker.next(&mut buffer) {
            Ok(record) => {
                let record = record.filter(|(time, record)| is_new(*time, record));
                let owner = &worker.source.owner;
                batch.extend(record.and_then(|(time, record)| Some((time, refusals.admit(owner, record)?))));
                turns.push_back(at);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => ended.push(at),
        }
    }
    ended
}

impl Worker {
    /// Reads a record. What the front and the kernel know better than a worker comes from them.
    /// `None` if it is not a record.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<Option<(Duration, Record)>> {
        let (bytes, time) = self.records.look(buffer)?;
        let record = bytes.and_then(|bytes| postcard::from_bytes::<Record>(bytes).ok());
        if record.is_none() {
            warn!(client = self.source.client, "not a record of the audit log");
        }
        let (client, process) = (Some(self.source.client.clone()), Some(self.source.process));
        let record = record.map(|record| Record { client, process, previous: None, more: None, ..record });
        Ok(record.map(|record| (time.unwrap_or_else(now), record)))
    }
}
