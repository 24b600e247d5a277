//! Brings callers together that would otherwise wait for a processor.
//!
//! As long as a processor is free, each caller computes alone. After that, callers wait. A caller
//! that ends wakes one of them, and this one computes for the others too. While that happens, a
//! caller that finds a free processor yields once before it computes, so that the others can come.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::vector::LANES;

/// The number of times that a caller looks for company after the last one that waited.
const COMPANY: u32 = 16;

/// A queue of jobs of one kind.
pub struct Queue<J> {
    state: Mutex<State<J>>,
    compute: fn(&mut [J]),
}

struct State<J> {
    /// The process of these threads. The child of a fork has none of them.
    process: u32,
    /// The number of threads that compute.
    computing: usize,
    /// How many times callers still look for company.
    company: u32,
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

/// The result of [`Queue::join`].
pub enum Joined<'a, J> {
    /// The job, with its result.
    Done(J),
    /// No other caller waits, or the batch failed: the caller computes without lanes.
    Alone(Permit<'a, J>),
}

/// A processor in use. Dropping it wakes the caller that waits longest.
pub struct Permit<'a, J>(Option<&'a Queue<J>>);

impl<J> State<J> {
    const fn new(process: u32) -> Self {
        Self { process, computing: 0, company: 0, waiting: VecDeque::new() }
    }
}

impl<J> Queue<J> {
    pub(super) const fn new(compute: fn(&mut [J])) -> Self {
        Self { state: Mutex::new(State::new(0)), compute }
    }

    /// Computes up to eight jobs of this kind.
    pub fn compute(&self, jobs: &mut [J]) {
        (self.compute)(jobs);
    }

    /// Returns a permit to compute alone, or `None` if others may wait or come.
    pub fn enter(&self) -> Option<Permit<'_, J>> {
        let process = std::process::id();
        // Another thread may have held the lock when this process was forked. So this never waits.
        let Ok(mut state) = self.state.try_lock() else { return Some(Permit(None)) };
        if state.process != process {
            // The secrets of the jobs are in pages of the parent.
            std::mem::forget(std::mem::replace(&mut *state, State::new(process)));
        }
        if state.company > 0 || state.computing >= processors() {
            return None;
        }
        state.computing += 1;
        Some(Permit(Some(self)))
    }

    /// Computes the job, in this thread or in another one, if there is company.
    pub fn join(&self, job: J) -> Joined<'_, J> {
        let mut state = self.lock();
        if state.computing < processors() {
            state.computing += 1;
            drop(state);
            return self.lead(job);
        }
        let own = Arc::new(Waiter { turn: Mutex::new(None), changed: Condvar::new() });
        state.waiting.push_back((job, Arc::clone(&own)));
        state.company = COMPANY;
        drop(state);
        match own.wait() {
            Turn::Lead(job) => self.lead(job),
            Turn::Done(job) => job.map_or(Joined::Alone(Permit(None)), Joined::Done),
        }
    }

    fn lead(&self, job: J) -> Joined<'_, J> {
        let permit = Permit(Some(self));
        // Those whose jobs are done can bring the next ones.
        std::thread::yield_now();
        let mut others = Others(Vec::new());
        let mut jobs = vec![job];
        let mut state = self.lock();
        let most = most(state.waiting.len() + 1);
        while jobs.len() < most
            && let Some((job, waiter)) = state.waiting.pop_front()
        {
            jobs.push(job);
            others.0.push(waiter);
        }
        if others.0.is_empty() {
            state.company = state.company.saturating_sub(1);
            return Joined::Alone(permit);
        }
        drop(state);
        (self.compute)(&mut jobs);
        let mut jobs = jobs.into_iter();
        let own = jobs.next();
        for (waiter, job) in others.0.drain(..).zip(jobs) {
            waiter.give(Turn::Done(Some(job)));
        }
        own.map_or(Joined::Alone(permit), Joined::Done)
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

/// Returns how many of the waiting jobs to compute at once. A pass has eight lanes, and a job takes
/// two of them.
pub fn most(waiting: usize) -> usize {
    if waiting < LANES { waiting.min(LANES / 2) } else { LANES }
}

impl<J> Waiter<J> {
    fn wait(&self) -> Turn<J> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = self.changed.wait_while(turn, |turn| turn.is_none());
        turn.unwrap_or_else(PoisonError::into_inner).take().expect("a turn")
    }

    fn give(&self, turn: Turn<J>) {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
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

static IS_ALLOWED: AtomicBool = AtomicBool::new(true);

/// Says whether there are queues. Counts the processors of the calling thread: a thread that signs
/// later may be bound to one of them.
pub fn allow(allowed: bool) {
    count_processors();
    IS_ALLOWED.store(allowed, Ordering::Relaxed);
}

pub(super) fn is_allowed() -> bool {
    IS_ALLOWED.load(Ordering::Relaxed)
}

/// 0 before the first count. This is not a `OnceLock`, which a fork can leave half set.
static PROCESSORS: AtomicUsize = AtomicUsize::new(0);

/// Counts the processors on which the calling thread may run.
fn count_processors() -> usize {
    let count = std::thread::available_parallelism().map_or(1, Into::into);
    PROCESSORS.store(count, Ordering::Relaxed);
    count
}

fn processors() -> usize {
    match PROCESSORS.load(Ordering::Relaxed) {
        0 => count_processors(),
        count => count,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    static LARGEST: AtomicUsize = AtomicUsize::new(0);
    static DOUBLING: Queue<u64> = Queue::new(|jobs| {
        LARGEST.fetch_max(jobs.len(), Ordering::Relaxed);
        assert!(jobs[0] != 13, "a panic that the test wants");
        jobs.iter_mut().for_each(|job| *job *= 2);
    });

    fn done(joined: Joined<'_, u64>) -> Option<u64> {
        if let Joined::Done(job) = joined { Some(job) } else { None }
    }

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
                match caller.join().expect("a thread") {
                    Joined::Done(done) => assert_eq!(done, 2 * job),
                    Joined::Alone(permit) => drop(permit),
                }
            }
        });
        assert_eq!(LARGEST.load(Ordering::Relaxed), LANES);

        assert!(DOUBLING.enter().is_none(), "others may come");
        DOUBLING.lock().company = 0;
        let mut permits: Vec<_> = (0..processors()).map(|_| DOUBLING.enter().expect("a processor")).collect();
        thread::scope(|scope| {
            let leader = scope.spawn(|| done(DOUBLING.join(13)));
            while DOUBLING.lock().waiting.is_empty() {
                thread::yield_now();
            }
            let others: Vec<_> = (0..3).map(|_| scope.spawn(|| done(DOUBLING.join(1)))).collect();
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
        assert!(matches!(DOUBLING.join(4), Joined::Alone(_)));
        assert_eq!(DOUBLING.lock().computing, 0);
    }

    #[test]
    fn the_child_of_a_fork_does_not_wait_and_frees_no_job_of_its_parent() {
        struct Job;
        impl Drop for Job {
            fn drop(&mut self) {
                panic!("a job of the parent is freed");
            }
        }
        let queue = Queue::new(|_: &mut [Job]| ());
        let waiter = Arc::new(Waiter { turn: Mutex::new(None), changed: Condvar::new() });
        *queue.lock() = State { computing: processors(), ..State::new(0) };
        queue.lock().waiting.push_back((Job, waiter));
        assert!(queue.enter().is_some());
        assert!(queue.lock().waiting.is_empty());
    }

    #[test]
    fn the_processors_are_counted_before_the_first_signature() {
        PROCESSORS.store(0, Ordering::Relaxed);
        allow(true);
        let all = thread::available_parallelism().expect("processors").get();
        assert_eq!(PROCESSORS.load(Ordering::Relaxed), all);
    }
}
