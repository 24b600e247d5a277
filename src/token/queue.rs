//! The queue of the threads that create objects. One of them writes the objects of all.

use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::id::ObjectHandle;
use crate::object::Object;
use crate::store::Row;
use crate::store::seal::TokenKey;
use crate::sync::lock;

/// A writer waits for further jobs for at most this part of the time of the last commit.
const SHARE: u32 = 4;
/// A commit that took longer counts as this.
const LONGEST: Duration = Duration::from_millis(40);
/// The jobs of the threads that create objects.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Signalled when a thread has appended a job.
    joined: Condvar,
    /// Signalled when a thread has written jobs.
    written: Condvar,
}

/// The jobs that wait to be written.
#[derive(Default)]
struct Waiting {
    jobs: Vec<Arc<Job>>,
    /// Whether a thread writes jobs or is about to. It may leave jobs that came later.
    writing: bool,
    /// The number of jobs that were written last, and the time that it took.
    last: (usize, Duration),
}

impl Queue {
    /// Appends a job and waits. Returns `None` when another thread has done the job. Returns the
    /// right to write if no thread writes, but waits for a short time until there are as many jobs
    /// as the last time: the threads whose jobs were written may begin again at once.
    pub(super) fn join(&self, job: &Arc<Job>) -> Option<Writer<'_>> {
        let mut waiting = lock(&self.waiting);
        waiting.jobs.push(Arc::clone(job));
        self.joined.notify_one();
        while waiting.writing {
            waiting = self.written.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            if job.done.get().is_some() {
                return None;
            }
        }
        waiting.writing = true;
        let (usual, took) = waiting.last;
        let are_few = |waiting: &mut Waiting| waiting.jobs.len() < usual;
        drop(self.joined.wait_timeout_while(waiting, took.min(LONGEST) / SHARE, are_few));
        Some(Writer { queue: self, jobs: 0, since: Instant::now() })
    }

    /// Appends a job that waits until another thread writes.
    #[cfg(test)]
    pub(super) fn append(&self, job: &Arc<Job>) {
        lock(&self.waiting).jobs.push(Arc::clone(job));
    }
}

/// The right to write the jobs of all threads. Its end wakes the threads that wait.
pub(super) struct Writer<'a> {
    queue: &'a Queue,
    /// The jobs that were taken, and when.
    jobs: usize,
    since: Instant,
}

impl Writer<'_> {
    pub(super) fn take(&mut self) -> Vec<Arc<Job>> {
        let jobs = std::mem::take(&mut lock(&self.queue.waiting).jobs);
        (self.jobs, self.since) = (jobs.len(), Instant::now());
        jobs
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.queue.waiting);
        (waiting.writing, waiting.last) = (false, (self.jobs, self.since.elapsed()));
        self.queue.written.notify_all();
    }
}

/// The row and the record of an object.
pub(super) type Sealed = (Row, Vec<u8>);

/// The objects of one call. Either all of them are created, or no object is.
pub(super) struct Job {
    pub(super) key: (Arc<TokenKey>, i64),
    /// The length of the records.
    pub(super) len: usize,
    pub(super) objects: Mutex<Vec<(Object, Sealed)>>,
    pub(super) done: OnceLock<Result<Vec<ObjectHandle>>>,
}
