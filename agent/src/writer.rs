//! The process that writes the audit log. No other process of the agent that knows a client opens
//! it.
//!
//! Each worker has a socket of its own to this process. The buffer of the socket is the queue of
//! the worker: one that has filled it waits, and delays no other. This process takes one record of
//! each in turn, and answers nothing. The front says whose records these are.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::Duration;

use jeton::audit::{Audit, LONGEST, Record};
use jeton::config::Settings;
use jeton::error::Error;
use jeton::functions::Threads;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, recv};
use tracing::warn;

use crate::link::{Link, Source, ToFront, ToWriter};
use crate::record_limit::Refusals;
use crate::sandbox;

/// The most records that are taken before a batch is written.
const MOST: usize = 1024;
/// How long records gather, so that a batch has many: it opens, locks and reads the file.
const GATHER: Duration = Duration::from_millis(1);
/// How often this process looks whether calls that failed are to be counted in a line.
const LOOK: Duration = Duration::from_secs(1);

/// A worker whose records are written.
struct Worker {
    source: Source,
    socket: OwnedFd,
}

/// Works until the front and all workers have ended.
pub fn run(link: &Link) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let wrong = |error: Error| format!("the configuration is wrong: {error:?}; the log says why");
    let Some((ToWriter::Start(configuration), _)) = link.receive().map_err(text)? else { return Ok(()) };
    let places = Settings::places(&configuration).map_err(wrong)?;
    let settings = Settings::parse(&configuration, Threads::Forbidden, None).map_err(wrong)?;
    let audit = settings.audit.ok_or("the configuration names no audit log")?;
    let confined = sandbox::confine_writer(&places);
    // Without a front, the records of the workers are still written.
    let _ = link.send(&ToFront::Ready(confined.err().into_iter().collect()), None);
    serve(link, &audit).map_err(text)
}

fn serve(link: &Link, audit: &Audit) -> io::Result<()> {
    let (mut workers, mut refusals): (Vec<Worker>, _) = (Vec::new(), Refusals::default());
    let mut is_open = true;
    while is_open || !workers.is_empty() {
        let sockets = workers.iter().map(|worker| worker.socket.as_fd());
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
        let mut batch = refusals.ended();
        let ended = take(&workers, ready, &mut refusals, &mut batch);
        if !batch.is_empty() {
            audit.note_all(batch);
        }
        let mut at = 0..;
        workers.retain(|_| !at.next().is_some_and(|at| ended.contains(&at)));
        if is_told {
            match link.receive() {
                Ok(Some((ToWriter::Worker(source), Some(socket)))) => {
                    // Without a front, the records of the workers are still written.
                    let _ = link.send(&ToFront::Taken, None);
                    workers.push(Worker { source, socket });
                }
                _ => is_open = false,
            }
        }
    }
    audit.note_all(refusals.all());
    Ok(())
}

/// Takes records of these workers in turn. Returns the workers that have ended.
fn take(
    workers: &[Worker],
    mut turns: VecDeque<usize>,
    refusals: &mut Refusals,
    batch: &mut Vec<Record>,
) -> Vec<usize> {
    let (mut ended, mut buffer) = (Vec::new(), [0; LONGEST]);
    for _ in 0..MOST {
        let Some(at) = turns.pop_front() else { break };
        let worker = &workers[at];
        match worker.next(&mut buffer) {
            Ok(record) => {
                let record = record.and_then(|record| refusals.admit(&worker.source.owner, record));
                batch.extend(record);
                turns.push_back(at);
            }
            Err(Errno::AGAIN) => {}
            Err(_) => ended.push(at),
        }
    }
    ended
}

impl Worker {
    /// Takes a record. What the front knows better than a worker comes from the front. `None` if it
    /// is not a record; `PIPE` if the worker has ended.
    fn next(&self, buffer: &mut [u8]) -> rustix::io::Result<Option<Record>> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
        let (_, len) = retry_on_intr(|| recv(&self.socket, &mut *buffer, flags))?;
        if len == 0 {
            return Err(Errno::PIPE);
        }
        let record = buffer.get(..len).and_then(|bytes| postcard::from_bytes::<Record>(bytes).ok());
        if record.is_none() {
            warn!(client = self.source.client, "not a record of the audit log");
        }
        let (client, process) = (Some(self.source.client.clone()), Some(self.source.process));
        Ok(record.map(|record| Record { client, process, previous: None, more: None, ..record }))
    }
}
