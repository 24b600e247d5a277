//! Models of the reservation of uses: threads of several processes use one key.

use std::collections::HashSet;
use std::sync::Arc;

use jeton_models::error::Error;
use jeton_models::uses::{Change, Process, Store};
use shuttle::thread;

/// The number of orders for each model.
const ORDERS: usize = 5_000;
/// The number of threads of each process, and of the uses that each tries.
const THREADS: usize = 2;
const USES: usize = 3;

/// One process for each number of uses of a commit. The key has one-time keys for all uses and a
/// limit, or the other way round. Returns the number of uses, each of which has its own number.
fn use_in_processes(reserves: &[u64], (one_time_keys, limit): (u64, u64), change: Change) -> usize {
    let store = Store::new(one_time_keys, limit);
    let processes: Vec<_> =
        reserves.iter().map(|reserve| Arc::new(Process::new(&store, *reserve, change))).collect();
    let threads: Vec<_> = processes
        .iter()
        .flat_map(|process| std::iter::repeat_n(process, THREADS))
        .map(|process| {
            let process = Arc::clone(process);
            thread::spawn(move || (0..USES).map(|_| process.take()).collect::<Vec<_>>())
        })
        .collect();
    let (mut numbers, mut uses) = (HashSet::new(), 0);
    for taken in threads.into_iter().flat_map(|thread| thread.join().expect("a thread")) {
        match taken {
            Ok(number) => {
                assert!(numbers.insert(number), "the use {number} was taken twice");
                uses += 1;
            }
            Err(error) => assert_eq!(error, Error::KeyExhausted),
        }
    }
    uses
}

#[test]
fn no_use_is_taken_twice_or_beyond_the_limit() {
    for counts in [(100, 5), (5, 100)] {
        for reserves in [[1, 1], [1, 2], [2, 3]] {
            // The threads of a process try more uses than it can have, so that it loses none.
            let model = move || assert_eq!(use_in_processes(&reserves, counts, Change::MadeAgain), 5);
            shuttle::check_random(model, ORDERS);
        }
    }
}

/// The models find a store that does not compare the counts before it replaces them.
#[test]
#[should_panic(expected = "was taken twice")]
fn a_change_that_overwrites_another_one_takes_a_use_twice() {
    let model = || assert_eq!(use_in_processes(&[1, 2], (100, 5), Change::Overwrites), 5);
    shuttle::check_random(model, ORDERS);
}
