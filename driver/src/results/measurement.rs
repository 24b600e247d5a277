//! Reads whole measurements of a result store, for `jeton-driver report`.
//!
//! A store may come from another person, so this module does not trust its texts or numbers.

use std::collections::HashMap;
use std::path::Path;

use jeton_laboratory::{Interval, Ratio};
use rusqlite::Connection;

use super::{Cell, SECONDS, intervals, open};
use crate::Error;
use crate::pipeline::{STAGES, StageTimes, Times, ratios};
use crate::selection::IN_PROCESS;

/// The largest number of cells of one measurement in a report.
const MOST_CELLS: usize = 50_000;

/// The query for the seconds of all stages of each run.
const TOTALS: &str = "
    SELECT module, algorithm, size, 'total', sum(seconds) FROM sample WHERE measurement = ?1
    GROUP BY module, algorithm, size, round ORDER BY min(rowid)";

/// A measurement.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// When it began, in UTC.
    pub started: String,
    /// The version of the tool.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// The processor.
    pub cpu: String,
    /// The number of cores.
    pub cores: u64,
    /// The memory in KiB.
    pub memory_kib: Option<u64>,
    /// The distribution and the kernel's version.
    pub system: String,
    /// Threads of the parallel stages.
    pub threads: u64,
    /// RSA key pairs of subscribers that a batch reused; 0 means one for each certificate.
    pub rsa_key_pool: u64,
    /// The modules.
    pub modules: Vec<ModuleRow>,
    /// The times, in the order of the first run of each cell. The stage `total` has those of all
    /// stages.
    pub cells: Vec<(Cell, Interval)>,
    /// The undisturbed times divided by those of the baseline in the same rounds.
    pub ratios: Vec<(Cell, Ratio)>,
    /// The sizes of the signed documents.
    pub documents: Vec<Document>,
}

/// A module of a measurement.
#[derive(Clone, Debug)]
pub struct ModuleRow {
    /// Its name in the report.
    pub name: String,
    /// Its description of itself.
    pub description: String,
    /// Its manufacturer.
    pub manufacturer: String,
    /// Its version.
    pub version: String,
    /// Its file.
    pub library: Option<String>,
}

/// The size of a signed document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The CA's algorithm, or a profile such as `rsa4096/ecdsa-p256`.
    pub algorithm: String,
    /// The batch size.
    pub size: u64,
    /// The type of the document, for example `certificate`.
    pub kind: String,
    /// The length of the longest one in bytes.
    pub bytes: u64,
}

impl Measurement {
    /// Returns the backend that the command line names for Jeton, or the default.
    pub fn backend(&self) -> &str {
        let named = self.command.iter().zip(self.command.iter().skip(1));
        let apart = named.filter(|(option, _)| *option == "--backend").map(|(_, value)| value.as_str());
        let joined = self.command.iter().filter_map(|word| word.strip_prefix("--backend="));
        apart.chain(joined).last().unwrap_or("aws-lc")
    }
}

/// Returns the measurements of a store that have samples, the oldest first.
pub fn measurements(path: &Path) -> Result<Vec<Measurement>, Error> {
    let connection = open(path)?;
    let mut statement = connection.prepare("SELECT id FROM measurement ORDER BY id")?;
    let ids = statement.query_map([], |row| row.get::<_, i64>(0))?;
    let mut found = Vec::new();
    for id in ids {
        let id = id?;
        let mut measurement = described(&connection, id)?;
        measurement.cells = intervals(&connection, SECONDS, Some(id))?;
        measurement.cells.extend(intervals(&connection, TOTALS, Some(id))?);
        measurement.ratios = read_ratios(&connection, path, id)?;
        measurement.cells.retain(|(_, seconds)| can_be_drawn(seconds));
        measurement.ratios.retain(|(_, ratio)| can_be_drawn(&ratio.quotient));
        if measurement.cells.len() > MOST_CELLS {
            let many = format!("{}: more than {MOST_CELLS} times in one measurement", path.display());
            return Err(Error::Failed(many));
        }
        measurement.documents = documents(&connection, id)?;
        if !measurement.cells.is_empty() {
            found.push(measurement);
        }
    }
    Ok(found)
}

/// Returns a measurement with its modules, and without its times.
pub(super) fn described(connection: &Connection, id: i64) -> Result<Measurement, Error> {
    let query = "SELECT started, tool_version, command, cpu, cores, memory_kib, system, threads, rsa_key_pool
                 FROM measurement WHERE id = ?1";
    let mut measurement = connection.query_row(query, [id], |row| {
        let command: String = row.get(2)?;
        Ok(Measurement {
            started: row.get(0)?,
            version: row.get(1)?,
            // A text that is not a list of words is shown as one word.
            command: serde_json::from_str(&command).unwrap_or_else(|_| vec![command]),
            cpu: row.get(3)?,
            cores: row.get(4)?,
            memory_kib: row.get(5)?,
            system: row.get(6)?,
            threads: row.get(7)?,
            rsa_key_pool: row.get(8)?,
            modules: Vec::new(),
            cells: Vec::new(),
            ratios: Vec::new(),
            documents: Vec::new(),
        })
    })?;
    measurement.modules = modules(connection, id)?;
    Ok(measurement)
}

/// A module, an algorithm and a batch size.
type Batch = (String, String, u64);

/// Returns the ratios of all modules to the baseline. The stage `total` has those of all stages.
fn read_ratios(connection: &Connection, path: &Path, measurement: i64) -> Result<Vec<(Cell, Ratio)>, Error> {
    let mut batches = read_runs(connection, path, measurement)?;
    let baseline: HashMap<_, _> = batches
        .extract_if(|(module, ..), _| module == IN_PROCESS)
        .map(|((_, algorithm, size), runs)| ((algorithm, size), runs))
        .collect();
    let mut found = Vec::new();
    for ((module, algorithm, size), runs) in batches {
        let Some(baseline) = baseline.get(&(algorithm.clone(), size)) else { continue };
        let pairs: Vec<(&Times, &Times)> =
            runs.iter().filter_map(|(round, run)| Some((run, baseline.get(round)?))).collect();
        let ratios = ratios(&pairs);
        let names = STAGES.iter().map(|row| row.name).chain(["total"]);
        let of_stages = names.zip(ratios.stages.into_iter().chain([ratios.total]));
        found.extend(of_stages.filter_map(|(stage, ratio)| {
            let (module, algorithm, stage) = (module.clone(), algorithm.clone(), stage.to_owned());
            Some((Cell { module, algorithm, size, stage }, ratio?))
        }));
    }
    Ok(found)
}

/// Returns the runs of each batch, by their round.
fn read_runs(
    connection: &Connection,
    path: &Path,
    measurement: i64,
) -> Result<HashMap<Batch, HashMap<i64, Times>>, Error> {
    let mut statement = connection.prepare(
        "SELECT module, algorithm, size, round, stage, seconds, parts FROM sample WHERE measurement = ?1",
    )?;
    let mut batches: HashMap<Batch, HashMap<i64, Times>> = HashMap::new();
    let mut rows = statement.query([measurement])?;
    while let Some(row) = rows.next()? {
        let stage: String = row.get(4)?;
        let Some(stage) = STAGES.iter().position(|row| row.name == stage) else { continue };
        let parts = row.get::<_, Option<String>>(6)?.map(|text| serde_json::from_str(&text)).transpose();
        let parts = parts.map_err(|error| {
            let path = path.display();
            Error::Failed(format!("{path}: the parts of a sample cannot be read: {error}"))
        })?;
        let run = batches
            .entry((row.get(0)?, row.get(1)?, row.get(2)?))
            .or_default()
            .entry(row.get(3)?)
            .or_default();
        run[stage] = StageTimes { seconds: row.get(5)?, parts: parts.unwrap_or_default() };
    }
    Ok(batches)
}

/// Returns whether a time or a ratio is positive and within the range that a plot can show.
fn can_be_drawn(one: &Interval) -> bool {
    [one.low, one.value, one.high].iter().all(|number| (1e-12..1e9).contains(number))
}

fn modules(connection: &Connection, id: i64) -> Result<Vec<ModuleRow>, Error> {
    let mut statement = connection.prepare(
        "SELECT name, description, manufacturer, version, library FROM module WHERE measurement = ?1 ORDER BY rowid",
    )?;
    let rows = statement.query_map([id], |row| {
        Ok(ModuleRow {
            name: row.get(0)?,
            description: row.get(1)?,
            manufacturer: row.get(2)?,
            version: row.get(3)?,
            library: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn documents(connection: &Connection, id: i64) -> Result<Vec<Document>, Error> {
    let mut statement = connection.prepare(
        "SELECT algorithm, size, kind, bytes FROM document WHERE measurement = ?1 ORDER BY rowid LIMIT 10000",
    )?;
    let rows = statement.query_map([id], |row| {
        Ok(Document { algorithm: row.get(0)?, size: row.get(1)?, kind: row.get(2)?, bytes: row.get(3)? })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
