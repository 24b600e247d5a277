//! What criterion does not keep: of the run, and what was measured beside it. JSON files beside criterion's data.

use std::fs;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::artefacts::data_directory;

/// Of the run.
#[derive(Default, Serialize, Deserialize)]
pub struct Run {
    /// The command line.
    pub command: String,
    /// Whether it was the short mode.
    pub short: bool,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// How many seconds it took.
    pub seconds: u64,
    /// The rows.
    pub rows: Vec<RowFacts>,
    /// What is missing, and why.
    pub left_out: Vec<LeftOut>,
    /// How tokens were filled.
    pub fills: Vec<Filled>,
    /// Our module and the floor in turns.
    pub turns: Vec<Turns>,
}

/// How many times as long as the floor our module takes, measured in turns.
#[derive(Clone, Serialize, Deserialize)]
pub struct Turns {
    /// The group.
    pub group: String,
    /// Half of the rounds have less.
    pub median: f64,
    /// The begin of the median's interval of 95 %.
    pub low: f64,
    /// Its end.
    pub high: f64,
}

/// A row's module.
#[derive(Clone, Serialize, Deserialize)]
pub struct RowFacts {
    /// Its name.
    pub name: String,
    /// What it is, with its version.
    pub description: String,
    /// Whether it is one of ours.
    pub ours: bool,
}

/// A row that is missing in a group.
#[derive(Clone, Serialize, Deserialize)]
pub struct LeftOut {
    /// The group.
    pub group: String,
    /// The row.
    pub row: String,
    /// Why.
    pub reason: String,
}

/// A token that was filled with objects.
#[derive(Clone, Serialize, Deserialize)]
pub struct Filled {
    /// The row.
    pub row: String,
    /// `session` or `token`.
    pub home: String,
    /// How many objects there should be.
    pub wanted: usize,
    /// How many there are.
    pub reached: usize,
    /// How many were made for that.
    pub made: usize,
    /// In how many threads.
    pub threads: usize,
    /// How many seconds it took.
    pub seconds: f64,
}

/// Latencies of signatures while another thread makes RSA-4096 keys, in nanoseconds.
#[derive(Clone, Serialize, Deserialize)]
pub struct Latency {
    /// The row.
    pub row: String,
    /// How many signatures were made.
    pub signatures: usize,
    /// How many RSA keys were made meanwhile.
    pub keys: usize,
    /// Half are quicker.
    pub p50: u64,
    /// Ninety-nine of a hundred are quicker.
    pub p99: u64,
    /// Nine hundred and ninety-nine of a thousand are.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

/// What callgrind and memcheck count of an operation whose Init function is re-armed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Instructions {
    /// The operation.
    pub operation: String,
    /// The row.
    pub row: String,
    /// Instructions of each.
    pub instructions: f64,
    /// Allocations of each.
    pub allocations: f64,
}

/// Loading, starting and memory.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Startup {
    /// Size of each module of ours, in bytes.
    pub sizes: Vec<(String, u64)>,
    /// Milliseconds from `dlopen` to the end of `C_Initialize` with an empty token directory, in fresh processes:
    /// the row, and the median, least and most.
    pub load: Vec<(String, f64, f64, f64)>,
    /// Memory of objects.
    pub memory: Vec<Memory>,
}

/// Memory of idle objects.
#[derive(Clone, Serialize, Deserialize)]
pub struct Memory {
    /// The row.
    pub row: String,
    /// `session` or `token`.
    pub home: String,
    /// How many objects.
    pub objects: usize,
    /// By how many bytes the process grew for each.
    pub bytes: f64,
    /// How many bytes its attributes have.
    pub attributes: usize,
}

/// The names of the files.
pub mod file {
    #![allow(missing_docs, reason = "the names of the structures")]
    pub const RUN: &str = "run";
    pub const LATENCY: &str = "latency";
    pub const INSTRUCTIONS: &str = "instructions";
    pub const STARTUP: &str = "startup";
}

fn path(name: &str) -> PathBuf {
    data_directory().join("facts").join(format!("{name}.json"))
}

/// Writes one of the files.
pub fn write(name: &str, facts: &impl Serialize) -> Result<(), String> {
    let path = path(name);
    let text = serde_json::to_string_pretty(facts).map_err(|error| error.to_string())?;
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(&path, text)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads one of the files, if it is there.
pub fn read<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(path(name)).ok()?).ok()
}
