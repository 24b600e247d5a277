//! An operation that is timed: repeated between two readings of the clock.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

pub trait Operation {
    /// Returns the time of this number of repetitions, without preparation and clean-up.
    fn time(&mut self, repetitions: u64) -> Duration;

    /// Panics if the last result was wrong. Called at the end of the row, so that it is not timed.
    fn check(&mut self) {}
}

pub type Boxed<'a> = Box<dyn Operation + 'a>;

/// Returns an operation whose result needs no removal.
pub fn repeated<'a>(act: impl FnMut() + 'a) -> Boxed<'a> {
    Box::new(Repeated(act))
}

/// Returns an operation whose result must be removed. The removal is not timed.
pub fn making<'a, O: 'a>(mut act: impl FnMut() -> O + 'a, clear: impl FnMut(O) + 'a) -> Boxed<'a> {
    batched(|| (), move |()| act(), clear)
}

/// Returns an operation with untimed preparation and clean-up, many repetitions at a time.
pub fn batched<'a, I: 'a, O: 'a>(
    prepare: impl FnMut() -> I + 'a,
    act: impl FnMut(I) -> O + 'a,
    clear: impl FnMut(O) + 'a,
) -> Boxed<'a> {
    Box::new(Steps { prepare, act, clear, batch: BATCH, types: PhantomData })
}

/// Like [`batched`], for an operation that must clean up before the next repetition.
pub fn one_by_one<'a, I: 'a, O: 'a>(
    prepare: impl FnMut() -> I + 'a,
    act: impl FnMut(I) -> O + 'a,
    clear: impl FnMut(O) + 'a,
) -> Boxed<'a> {
    Box::new(Steps { prepare, act, clear, batch: 1, types: PhantomData })
}

struct Repeated<F>(F);

impl<F: FnMut()> Operation for Repeated<F> {
    fn time(&mut self, repetitions: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..repetitions {
            (self.0)();
        }
        start.elapsed()
    }
}

/// The number of repetitions that are prepared, timed and cleaned up together.
const BATCH: u64 = 64;

struct Steps<P, A, C, I, O> {
    prepare: P,
    act: A,
    clear: C,
    batch: u64,
    types: PhantomData<fn(I) -> O>,
}

impl<P: FnMut() -> I, A: FnMut(I) -> O, C: FnMut(O), I, O> Operation for Steps<P, A, C, I, O> {
    fn time(&mut self, repetitions: u64) -> Duration {
        let (mut left, mut spent) = (repetitions, Duration::ZERO);
        while left > 0 {
            let count = left.min(self.batch);
            let inputs: Vec<I> = (0..count).map(|_| (self.prepare)()).collect();
            let mut outputs = Vec::with_capacity(inputs.len());
            let start = Instant::now();
            for input in inputs {
                outputs.push((self.act)(input));
            }
            spent += start.elapsed();
            outputs.into_iter().for_each(&mut self.clear);
            left -= count;
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repetition_is_prepared_and_cleaned_up() {
        let (mut made, mut used, mut cleared) = (0, Vec::new(), 0);
        {
            let prepare = || {
                made += 1;
                made
            };
            let mut operation = batched(prepare, |number: u32| used.push(number), |()| cleared += 1);
            operation.time(130);
        }
        assert_eq!(used, (1..=130).collect::<Vec<_>>());
        assert_eq!((made, cleared), (130, 130));
    }
}
