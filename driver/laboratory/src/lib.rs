//! The common code of the measurements of the driver and the benches: the machine, the interval of
//! a figure, the text of a figure, tables and plots.

#![forbid(unsafe_code)]

pub mod figure;
mod interval;
mod machine;
pub mod plots;
mod table;

pub use interval::{Interval, spread};
pub use machine::Machine;
pub use table::Table;
