//! The records of the audit log: the front knows whose they are, and the process that writes them
//! gets their sockets.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tracing::{error, warn};

use super::process::Process;
use super::{Front, State, Worker};
use crate::link::{Link, Source, ToFront, ToWriter};
use crate::queue::Queue;
use crate::worker::CLOSE;

/// The most workers that have ended and whose records wait for the process that writes them.
const MOST_ENDED: usize = 1024;

impl Front {
    /// Tells a new process what to write, and whose records wait.
    pub(super) fn begin_audit(&self, state: &mut State, writer: &mut Process) {
        let follows = std::mem::replace(&mut state.had_writer, true);
        writer.send(&ToWriter::Start(self.configuration.clone(), follows), None);
        let of_workers =
            state.workers.values().filter_map(|worker| Some((worker.source(), worker.records.as_ref()?)));
        for (source, records) in of_workers {
            introduce(source, records, writer);
        }
        for (source, records) in &state.ended {
            introduce(source.clone(), records, writer);
        }
        if state.closes_audit {
            writer.send(&ToWriter::Stop, None);
        }
    }

    pub(super) fn hear_writer(self: &Arc<Self>, link: &Link) {
        while let Ok(Some((ToFront::Taken, _))) = link.receive() {
            if let Some(writer) = &mut self.lock().writer {
                writer.taken();
            }
        }
    }

    /// Waits until the records of all workers are written, after these have ended.
    pub(super) fn close_audit(&self) {
        {
            let mut state = self.lock();
            state.closes_audit = true;
            if let Some(writer) = &mut state.writer {
                writer.send(&ToWriter::Stop, None);
            }
        }
        let end = Instant::now() + CLOSE;
        let is_open = || {
            let mut state = self.lock();
            state.writer.is_some() || state.has_records()
        };
        while is_open() {
            if Instant::now() >= end {
                return warn!("the audit log may lack its last lines");
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl State {
    /// Keeps the records of a worker that has ended: the process that writes them may have ended
    /// too.
    pub(super) fn keep_records(&mut self, worker: &mut Worker) {
        let source = worker.source();
        let Some(records) = worker.records.take() else { return };
        self.forget_records();
        if self.ended.len() >= MOST_ENDED {
            error!(client = source.client, "too many records wait: those of a worker are lost");
        } else {
            self.ended.push((source, records));
        }
    }

    /// Forgets the workers that have ended and whose records were taken.
    pub(super) fn forget_records(&mut self) {
        self.ended.retain(|(_, records)| !records.is_drained());
    }

    /// Returns whether records may wait that no process writes.
    pub(super) fn has_records(&mut self) -> bool {
        self.forget_records();
        let mut of_workers = self.workers.values().filter_map(|worker| worker.records.as_ref());
        !self.ended.is_empty() || of_workers.any(|records| !records.is_drained())
    }
}

impl Worker {
    fn source(&self) -> Source {
        let (client, owner, process) = (self.client.0.clone(), self.owner.clone(), self.process.id());
        Source { client, owner, process }
    }

    /// Tells the process that writes the audit log whose records come, and where.
    pub(super) fn introduce(&self, writer: &mut Process) {
        if let Some(records) = &self.records {
            introduce(self.source(), records, writer);
        }
    }
}

fn introduce(source: Source, records: &Queue, writer: &mut Process) {
    match records.try_clone() {
        Ok(socket) => writer.send(&ToWriter::Worker(source), Some(socket)),
        Err(error) => error!(client = source.client, %error, "no records of a client"),
    }
}
