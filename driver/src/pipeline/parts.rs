//! Parallel work in parts, each with its own time. See [`super::undisturbed`].

use std::time::Instant;

use rayon::prelude::{ParallelIterator, ParallelSlice};

use crate::Result;

/// The largest number of items in a part.
pub(super) const ITEMS: usize = 16;
/// The number of parts for each thread, if there are that many items.
const PARTS: usize = 16;

/// The results of all items, and the times of the parts.
pub(super) struct InParts<T> {
    pub results: Vec<T>,
    /// The seconds of each part, divided by the number of threads: its share of the time of all
    /// items. A last part with fewer items than the others is left out.
    pub seconds: Vec<f64>,
}

/// Does `work` with each item. The threads of the current pool share the parts; one thread does
/// the items of a part one after the other. Returns the error of the first item that fails.
pub(super) fn in_parts<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&I) -> Result<T> + Sync,
) -> Result<InParts<T>> {
    each_part(items, |items| items.iter().map(&work).collect())
}

/// Does `work` with each part, like [`in_parts`]. It returns a result for each item.
pub(super) fn each_part<I: Sync, T: Send>(
    items: &[I],
    work: impl Fn(&[I]) -> Result<Vec<T>> + Sync,
) -> Result<InParts<T>> {
    let threads = rayon::current_num_threads();
    let length = (items.len() / (PARTS * threads)).clamp(1, ITEMS);
    let part = |items: &[I]| {
        let start = Instant::now();
        let results = work(items);
        (results, start.elapsed().as_secs_f64() / threads as f64)
    };
    let parts: Vec<_> = items.par_chunks(length).map(part).collect();
    let mut all = InParts { results: Vec::with_capacity(items.len()), seconds: Vec::new() };
    for (results, seconds) in parts {
        let results = results?;
        if results.len() == length {
            all.seconds.push(seconds);
        }
        all.results.extend(results);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn on_two_threads<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool").install(work)
    }

    #[test]
    fn the_results_are_in_the_order_of_the_items() {
        for (count, parts) in [(0, 0), (1, 1), (40, 40), (64, 32), (65, 32), (1024, 64)] {
            let items: Vec<usize> = (0..count).collect();
            let all = on_two_threads(|| in_parts(&items, |item| Ok(item + 1)).expect("no item fails"));
            assert_eq!(all.results, (1..=count).collect::<Vec<_>>());
            assert_eq!(all.seconds.len(), parts, "{count} items");
        }
    }

    #[test]
    fn the_first_item_that_fails_is_reported() {
        let items: Vec<usize> = (0..100).collect();
        let fails = |item: &usize| match item {
            30.. => Err(Error::Failed(item.to_string())),
            item => Ok(*item),
        };
        let error = on_two_threads(|| in_parts(&items, fails)).err().expect("an item fails");
        assert_eq!(error.to_string(), "30");
    }
}
