//! The common code of the measurements of the driver and the benches: the machine, the interval of
//! a figure, the text of a figure, tables, plots, and the memory of the process.

#![forbid(unsafe_code)]

pub mod figure;
mod interval;
mod machine;
pub mod memory;
pub mod plots;
mod table;

pub use interval::{Interval, Ratio, median, percentile, spread};
pub use machine::Machine;
pub use table::Table;

/// Returns the values without repetitions, in the order in which each first appears.
pub fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut known = Vec::new();
    for one in all {
        if !known.contains(&one) {
            known.push(one);
        }
    }
    known
}
