//! Brings callers together that would otherwise wait for a processor.
//!
//! As long as a processor is free, each caller computes alone. After that, callers wait. Whoever
//! ends wakes one of them, and this one computes for the others too. So nobody waits for company.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::LANES;

/// A queue of jobs of one kind.
pub(in super::super) struct Queue<J> {
    state: Mutex<State<J>>,
    /// Computes up to [`LANES`] jobs.
    pub(super) compute: fn(&mut [J]),
}

struct State<J> {
    /// The process of these threads. The child of a fork has none of them.
    process: u32,
    /// The number of threads that compute.
    computing: usize,
    waiting: VecDeque<(J, Arc<Waiter<J>>)>,
}

struct Waiter<J> {
    turn: Mutex<Option<Turn<J>>>,
    changed: Condvar,
}

enum Turn<J> {
    /// A processor is free for this job, and for those that still wait.
    Lead(J),
    /// Another thread computed the job. `None` if it panicked.
    Done(Option<J>),
}

/// A processor in use. Dropping it wakes the caller that waits longest.
pub(in super::super) struct Permit<'a, J>(Option<&'a Queue<J>>);

impl<J> Queue<J> {
    pub(in super::super) const fn new(compute: fn(&mut [J])) -> Self {
        Self { state: Mutex::new(State { process: 0, computing: 0, waiting: VecDeque::new() }), compute }
    }

    /// Returns a permit to compute alone, or `None` if all processors are in use.
    pub(in super::super) fn enter(&self) -> Option<Permit<'_, J>> {
        let process = std::process::id();
        // Another thread may have held the lock when this process was forked. So nobody waits here.
        let Ok(mut state) = self.state.try_lock() else { return Some(Permit(None)) };
        if state.process != process {
            *state = State { process, computing: 0, waiting: VecDeque::new() };
        }
        if !state.waiting.is_empty() || state.computing >= processors() {
            return None;
        }
        state.computing += 1;
        Some(Permit(Some(self)))
    }

    /// Computes the job, in this thread or in another one. Returns `None` after a panic.
    pub(in super::super) fn join(&self, job: J) -> Option<J> {
        let own = Arc::new(Waiter { turn: Mutex::new(None), changed: Condvar::new() });
        let mut state = self.lock();
        state.waiting.push_back((job, Arc::clone(&own)));
        // A processor may have become free since `enter`.
        let is_free = state.computing < processors();
        state.computing += usize::from(is_free);
        drop(state);
        if is_free {
            self.wake();
        }
        match own.wait() {
            Turn::Lead(job) => self.lead(job),
            Turn::Done(job) => job,
        }
    }

    fn lead(&self, job: J) -> Option<J> {
        let _permit = Permit(Some(self));
        let mut others = Others(Vec::new());
        let mut jobs = vec![job];
        let mut state = self.lock();
        // A pass has eight lanes, and a job takes two of them.
        let most = if state.waiting.len() + 1 < LANES { LANES / 2 } else { LANES };
        while jobs.len() < most
            && let Some((job, waiter)) = state.waiting.pop_front()
        {
            jobs.push(job);
            others.0.push(waiter);
        }
        drop(state);
        (self.compute)(&mut jobs);
        let mut jobs = jobs.into_iter();
        let own = jobs.next();
        for (waiter, job) in others.0.drain(..).zip(jobs) {
            waiter.give(Turn::Done(Some(job)));
        }
        own
    }

    /// Gives a processor to the caller that waits longest.
    fn wake(&self) {
        let mut state = self.lock();
        match state.waiting.pop_front() {
            Some((job, waiter)) => {
                // The system may run the other thread at once, in place of this one.
                drop(state);
                waiter.give(Turn::Lead(job));
            }
            None => state.computing -= 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Waiter<J> {
    fn wait(&self) -> Turn<J> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match turn.take() {
                Some(turn) => return turn,
                None => turn = self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn give(&self, turn: Turn<J>) {
        let mut own = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Some(turn);
        drop(own);
        self.changed.notify_one();
    }
}

impl<J> Drop for Permit<'_, J> {
    fn drop(&mut self) {
        if let Some(queue) = self.0 {
            queue.wake();
        }
    }
}

/// The callers whose jobs this thread took.
struct Others<J>(Vec<Arc<Waiter<J>>>);

impl<J> Drop for Others<J> {
    fn drop(&mut self) {
        for waiter in &self.0 {
            waiter.give(Turn::Done(None));
        }
    }
}

fn processors() -> usize {
    static COUNT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, Into::into))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    static LARGEST: AtomicUsize = AtomicUsize::new(0);
    static DOUBLING: Queue<u64> = Queue::new(|jobs| {
        LARGEST.fetch_max(jobs.len(), Ordering::Relaxed);
        assert!(jobs[0] != 13, "a panic that the test wants");
        jobs.iter_mut().for_each(|job| *job *= 2);
    });

    #[test]
    fn each_caller_gets_the_result_of_its_own_job_and_a_panic_ends_only_one_batch() {
        // All processors are in use, so the callers wait.
        let permits: Vec<_> = (0..processors()).map(|_| DOUBLING.enter().expect("a processor")).collect();
        assert!(DOUBLING.enter().is_none());
        thread::scope(|scope| {
            let callers: Vec<_> =
                (100..140).map(|job| (job, scope.spawn(move || DOUBLING.join(job)))).collect();
            while DOUBLING.lock().waiting.len() < callers.len() {
                thread::yield_now();
            }
            drop(permits);
            for (job, caller) in callers {
                assert_eq!(caller.join().expect("a thread"), Some(2 * job));
            }
        });
        assert_eq!(LARGEST.load(Ordering::Relaxed), LANES);

        let mut permits: Vec<_> = (0..processors()).map(|_| DOUBLING.enter().expect("a processor")).collect();
        thread::scope(|scope| {
            let leader = scope.spawn(|| DOUBLING.join(13));
            while DOUBLING.lock().waiting.is_empty() {
                thread::yield_now();
            }
            let others: Vec<_> = (0..3).map(|_| scope.spawn(|| DOUBLING.join(1))).collect();
            while DOUBLING.lock().waiting.len() < 4 {
                thread::yield_now();
            }
            permits.pop();
            assert!(leader.join().is_err());
            for other in others {
                assert!(other.join().expect("a thread").is_none());
            }
            permits.clear();
        });
        assert_eq!((DOUBLING.join(4), DOUBLING.lock().computing), (Some(8), 0));
    }
}
