//! Facts that criterion does not keep, as JSON files beside its data.

use std::fs;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::AnyError;
use crate::artefacts::data_directory;

#[derive(Default, Serialize, Deserialize)]
pub struct Run {
    pub command: String,
    pub short: bool,
    /// The start, in seconds since 1970.
    pub started: u64,
    /// The duration in seconds.
    pub seconds: u64,
    pub rows: Vec<RowFacts>,
    pub left_out: Vec<LeftOut>,
    pub fills: Vec<Filled>,
    /// The comparisons of our module with the baseline, measured in turns.
    pub turns: Vec<Turns>,
}

/// The time of our module divided by the time of the baseline, measured in turns.
#[derive(Clone, Serialize, Deserialize)]
pub struct Turns {
    pub group: String,
    pub median: f64,
    /// The lower end of the 95 % interval of the median.
    pub low: f64,
    pub high: f64,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct RowFacts {
    pub name: String,
    pub description: String,
    /// Whether it is a module of Jeton.
    pub ours: bool,
}

/// A row that is missing in a group.
#[derive(Clone, Serialize, Deserialize)]
pub struct LeftOut {
    pub group: String,
    pub row: String,
    pub reason: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Filled {
    pub row: String,
    /// `session` or `token`.
    pub home: String,
    pub wanted: usize,
    /// The number of objects in the token at the end.
    pub reached: usize,
    /// The number of objects that this fill added.
    pub made: usize,
    pub threads: usize,
    /// The duration in seconds.
    pub seconds: f64,
}

/// Latencies of signatures in nanoseconds, while another thread makes RSA-4096 keys.
#[derive(Clone, Serialize, Deserialize)]
pub struct Latency {
    pub row: String,
    pub signatures: usize,
    /// The number of RSA keys that were made meanwhile.
    pub keys: usize,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Startup {
    /// The file size of each of our modules, in bytes.
    pub sizes: Vec<(String, u64)>,
    /// Milliseconds from `dlopen` to the end of `C_Initialize` with an empty token directory, in
    /// fresh processes: the row, the median, the shortest, the longest.
    pub load: Vec<(String, f64, f64, f64)>,
    pub memory: Vec<Memory>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Memory {
    pub row: String,
    /// `session` or `token`.
    pub home: String,
    pub objects: usize,
    /// How much the memory of the process grows for each object, in bytes.
    pub bytes: f64,
    /// The length of the attribute values of one object, in bytes.
    pub attributes: usize,
}

pub mod file {
    pub const RUN: &str = "run";
    pub const LATENCY: &str = "latency";
    pub const STARTUP: &str = "startup";
}

fn path(name: &str) -> PathBuf {
    data_directory().join("facts").join(format!("{name}.json"))
}

pub fn write(name: &str, facts: &impl Serialize) -> Result<(), AnyError> {
    let path = path(name);
    let text = serde_json::to_string_pretty(facts)?;
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    Ok(made.and_then(|()| fs::write(&path, text)).map_err(|error| format!("{}: {error}", path.display()))?)
}

/// Reads one of the files, if it exists.
pub fn read<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(path(name)).ok()?).ok()
}
