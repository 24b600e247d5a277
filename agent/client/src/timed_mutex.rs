//! A mutex for which a thread waits until a deadline only: the thread that has it may wait for an
//! agent that does not answer.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Default)]
pub struct TimedMutex<T> {
    turns: Mutex<Turns>,
    freed: Condvar,
    /// Locked by the thread whose turn it is, so that no thread waits here.
    value: Mutex<T>,
}

#[derive(Default)]
struct Turns {
    is_taken: bool,
    /// The number of threads that wait.
    waiting: usize,
}

/// The right to the value, until it is dropped.
pub struct TimedGuard<'a, T> {
    turns: &'a Mutex<Turns>,
    freed: &'a Condvar,
    value: MutexGuard<'a, T>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> TimedMutex<T> {
    pub fn new(value: T) -> Self {
        let (turns, freed) = Default::default();
        Self { turns, freed, value: Mutex::new(value) }
    }

    /// Locks the mutex. `None` if other threads have it until the time `end`.
    pub fn lock_until(&self, end: Instant) -> Option<TimedGuard<'_, T>> {
        let mut turns = lock(&self.turns);
        if turns.is_taken {
            turns.waiting += 1;
            let left = end.saturating_duration_since(Instant::now());
            let waited = self.freed.wait_timeout_while(turns, left, |turns| turns.is_taken);
            (turns, _) = waited.unwrap_or_else(PoisonError::into_inner);
            turns.waiting -= 1;
            if turns.is_taken {
                return None;
            }
        }
        turns.is_taken = true;
        drop(turns);
        Some(TimedGuard { turns: &self.turns, freed: &self.freed, value: lock(&self.value) })
    }

    /// Locks the mutex. `None` if another thread has it.
    pub fn try_lock(&self) -> Option<TimedGuard<'_, T>> {
        self.lock_until(Instant::now())
    }
}

impl<T> Deref for TimedGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for TimedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for TimedGuard<'_, T> {
    fn drop(&mut self) {
        let mut turns = lock(self.turns);
        turns.is_taken = false;
        // A notification is a system call.
        if turns.waiting != 0 {
            self.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_thread_waits_until_the_deadline_only() {
        let mutex = TimedMutex::new(0);
        let guard = mutex.try_lock().expect("a free mutex");
        thread::scope(|scope| {
            let wait = || {
                let start = Instant::now();
                mutex.lock_until(start + Duration::from_millis(50)).is_none() && start.elapsed() < LONG
            };
            let waiting = [(); 4].map(|()| scope.spawn(wait));
            assert!(waiting.into_iter().all(|thread| thread.join().expect("a thread")));
        });
        drop(guard);
        assert!(mutex.try_lock().is_some());
    }

    #[test]
    fn each_thread_gets_its_turn() {
        let mutex = TimedMutex::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        *mutex.lock_until(Instant::now() + LONG).expect("a turn") += 1;
                    }
                });
            }
        });
        assert_eq!(*mutex.try_lock().expect("a free mutex"), 8000);
    }
}
