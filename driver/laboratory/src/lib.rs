//! The common code of the measurements of the driver and the benches: the machine, the interval of
//! a figure, and the text of a figure.

#![forbid(unsafe_code)]

pub mod figure;
mod interval;
mod machine;

pub use interval::{Interval, spread};
pub use machine::Machine;
