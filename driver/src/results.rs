//! The result store of `--results`: an SQLite file that receives each run as it is measured, so
//! that an interrupted measurement keeps the runs so far.

mod handshake;
mod issuance;
mod measurement;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jeton_laboratory::{Interval, Machine};
use rusqlite::{Connection, OpenFlags, params};

use crate::Error;
use crate::pipeline::{DocumentSize, ModuleDescription, STAGES, StageTimes, Times, Turn, Work};

pub use handshake::TlsMeasurement;
pub use issuance::IssuanceMeasurement;
pub use measurement::{Document, Measurement, ModuleRow, measurements};

/// `application_id` of the file: "JRES".
const APPLICATION: i32 = 0x4A52_4553;
/// `user_version` of the file. A change of the tables increments it.
const VERSION: i32 = 4;

const SCHEMA: &str = "
    CREATE TABLE measurement (
        id INTEGER PRIMARY KEY, started TEXT NOT NULL, tool_version TEXT NOT NULL, command TEXT NOT NULL,
        cpu TEXT NOT NULL, cores INTEGER NOT NULL, memory_kib INTEGER, system TEXT NOT NULL,
        threads INTEGER NOT NULL, rsa_key_pool INTEGER NOT NULL);
    CREATE TABLE module (
        measurement INTEGER NOT NULL REFERENCES measurement, name TEXT NOT NULL, description TEXT NOT NULL,
        manufacturer TEXT NOT NULL, version TEXT NOT NULL, cryptoki TEXT NOT NULL, library TEXT,
        PRIMARY KEY (measurement, name));
    CREATE TABLE sample (
        measurement INTEGER NOT NULL REFERENCES measurement, module TEXT NOT NULL, algorithm TEXT NOT NULL,
        size INTEGER NOT NULL, round INTEGER NOT NULL, stage TEXT NOT NULL, seconds REAL NOT NULL,
        parts TEXT, PRIMARY KEY (measurement, module, algorithm, size, round, stage));
    CREATE TABLE document (
        measurement INTEGER NOT NULL REFERENCES measurement, algorithm TEXT NOT NULL, size INTEGER NOT NULL,
        kind TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (measurement, algorithm, size, kind));
";

/// Writes the work of a command to a result store.
pub trait Record<W: Work> {
    /// Writes a run.
    fn ran(&mut self, _module: &str, _turn: &W, _sample: &W::Sample) -> Result<(), Error> {
        Ok(())
    }

    /// Writes the summary of the runs of a module.
    fn measured(&mut self, _measured: &W::Measured) -> Result<(), Error> {
        Ok(())
    }
}

/// A measurement that is written to a result store.
pub struct Results {
    path: PathBuf,
    connection: Connection,
    measurement: i64,
}

impl Results {
    /// Opens or creates the store at `path`, and begins a measurement in it.
    pub fn begin(path: &Path, machine: &Machine, threads: usize, rsa_key_pool: u64) -> Result<Self, Error> {
        Self::create(path, machine, threads, rsa_key_pool).map_err(|error| of_store(path, error))
    }

    fn create(path: &Path, machine: &Machine, threads: usize, rsa_key_pool: u64) -> Result<Self, Error> {
        let connection = Connection::open(path)?;
        let new = connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
        if new {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.execute_batch(SCHEMA)?;
            connection.pragma_update(None, "application_id", APPLICATION)?;
            connection.pragma_update(None, "user_version", VERSION)?;
        }
        check(&connection, path)?;
        // A commit does not wait for the disk, because the next run is measured right after it.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let command: Vec<String> = std::env::args().collect();
        let command = serde_json::to_string(&command).map_err(|error| Error::Failed(error.to_string()))?;
        connection.execute(
            "INSERT INTO measurement (started, tool_version, command, cpu, cores, memory_kib, system, threads,
                 rsa_key_pool)
             VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                env!("CARGO_PKG_VERSION"),
                command,
                machine.cpu,
                machine.cores,
                machine.memory_kib,
                machine.system,
                threads,
                rsa_key_pool
            ],
        )?;
        let measurement = connection.last_insert_rowid();
        Ok(Self { path: path.to_owned(), connection, measurement })
    }

    /// Writes the description of a module.
    pub fn describe(&self, name: &str, module: &ModuleDescription) -> Result<(), Error> {
        let library = module.library.as_ref().map(|path| path.to_string_lossy());
        let added = self.connection.execute(
            "INSERT INTO module VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                self.measurement,
                name,
                module.description,
                module.manufacturer,
                module.version,
                module.cryptoki,
                library
            ],
        );
        added.map(drop).map_err(|error| of_store(&self.path, error.into()))
    }

    fn add_samples(&mut self, module: &str, turn: &Turn, times: &Times) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert =
                transaction.prepare_cached("INSERT INTO sample VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
            let Turn { algorithm, size, round } = turn;
            for (row, StageTimes { seconds, parts }) in STAGES.iter().zip(times) {
                let parts = (!parts.is_empty()).then(|| serde_json::json!(parts).to_string());
                insert.execute(params![
                    self.measurement,
                    module,
                    algorithm,
                    size,
                    round,
                    row.name,
                    seconds,
                    parts
                ])?;
            }
        }
        transaction.commit()
    }

    /// Writes the sizes of the documents that the modules signed, for the algorithms and batch
    /// sizes of this measurement.
    pub fn add_documents(&self, sizes: &[DocumentSize]) -> Result<(), Error> {
        self.add_sizes(sizes).map_err(|error| of_store(&self.path, error.into()))
    }

    fn add_sizes(&self, sizes: &[DocumentSize]) -> rusqlite::Result<()> {
        let mut insert = self.connection.prepare(
            "INSERT OR REPLACE INTO document SELECT ?1, ?2, ?3, ?4, ?5
             WHERE EXISTS (SELECT 1 FROM sample WHERE measurement = ?1 AND algorithm = ?2 AND size = ?3)",
        )?;
        for one in sizes {
            insert.execute(params![self.measurement, one.algorithm, one.size, one.kind, one.bytes])?;
        }
        Ok(())
    }
}

impl Record<Turn> for Results {
    fn ran(&mut self, module: &str, turn: &Turn, times: &Times) -> Result<(), Error> {
        self.add_samples(module, turn, times).map_err(|error| of_store(&self.path, error.into()))
    }
}

/// A module, an algorithm, a batch size and a stage.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The module's name in the report.
    pub module: String,
    /// The CA's algorithm, or a profile such as `rsa4096/ecdsa-p256`.
    pub algorithm: String,
    /// The batch size.
    pub size: u64,
    /// The name of the stage.
    pub stage: String,
}

/// The times of a cell in two stores.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The cell.
    pub cell: Cell,
    /// Seconds in the first store.
    pub before: Interval,
    /// Seconds in the second store.
    pub after: Interval,
}

impl Comparison {
    /// Returns the change of the median: 0.1 means 10 % slower.
    pub fn change(&self) -> f64 {
        self.after.value / self.before.value - 1.0
    }

    /// Returns whether the 95 % intervals do not overlap.
    pub fn is_significant(&self) -> bool {
        self.before.high < self.after.low || self.after.high < self.before.low
    }
}

/// Compares the last measurements of `jeton-driver pipeline` in two stores, cell by cell. Cells
/// that only one store has are left out.
pub fn compare(before: &Path, after: &Path) -> Result<Vec<Comparison>, Error> {
    let before = last(before)?;
    let after: HashMap<Cell, Interval> = last(after)?.into_iter().collect();
    let pairs = before.into_iter().filter_map(|(cell, before)| {
        let after = *after.get(&cell)?;
        Some(Comparison { cell, before, after })
    });
    Ok(pairs.collect())
}

/// Returns the times of the last measurement of `jeton-driver pipeline` in a store.
fn last(path: &Path) -> Result<Vec<(Cell, Interval)>, Error> {
    let connection = open(path)?;
    let newest = connection.query_row("SELECT max(measurement) FROM sample", [], |row| row.get(0));
    let last = newest.map_err(Error::from).and_then(|newest| intervals(&connection, SECONDS, newest));
    last.map_err(|error| of_store(path, error))
}

/// The newest measurement of a store, for `jeton-driver report`.
#[derive(Debug)]
pub enum Newest {
    /// `jeton-driver pipeline` made it. The older measurements of the pipeline are before it.
    Pipeline(Vec<Measurement>),
    /// `jeton-driver issue` made it.
    Issuance(IssuanceMeasurement),
    /// `jeton-driver tls` made it.
    Tls(TlsMeasurement),
}

/// Reads the newest measurement of a store.
pub fn newest(path: &Path) -> Result<Newest, Error> {
    read_newest(path).map_err(|error| of_store(path, error))
}

fn read_newest(path: &Path) -> Result<Newest, Error> {
    let connection = open(path)?;
    let last = |table: &str| -> Result<Option<i64>, Error> {
        let known = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        if connection.query_row(known, [table], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(None);
        }
        Ok(connection.query_row(&format!("SELECT max(measurement) FROM {table}"), [], |row| row.get(0))?)
    };
    let (sample, issued, shaken) = (last("sample")?, last("issuance")?, last("handshake")?);
    match (issued, shaken) {
        (Some(id), _) if issued > sample && issued > shaken => {
            issuance::read(&connection, id).map(Newest::Issuance)
        }
        (_, Some(id)) if shaken > sample => handshake::read(&connection, id).map(Newest::Tls),
        _ => measurements(path).map(Newest::Pipeline),
    }
}

/// Opens a store to read it.
fn open(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|_| Error::Failed(format!("{}: no result store can be opened there", path.display())))?;
    check(&connection, path)?;
    Ok(connection)
}

/// The query for the seconds of a measurement.
const SECONDS: &str =
    "SELECT module, algorithm, size, stage, seconds FROM sample WHERE measurement = ?1 ORDER BY rowid";

/// Returns the interval of each cell in the rows of a query.
fn intervals(
    connection: &Connection,
    query: &str,
    measurement: Option<i64>,
) -> Result<Vec<(Cell, Interval)>, Error> {
    let mut statement = connection.prepare(query)?;
    // The cells in the order of their first run, and the index of each cell.
    let mut cells: Vec<(Cell, Vec<f64>)> = Vec::new();
    let mut places = HashMap::new();
    let mut rows = statement.query([measurement])?;
    while let Some(row) = rows.next()? {
        let cell =
            Cell { module: row.get(0)?, algorithm: row.get(1)?, size: row.get(2)?, stage: row.get(3)? };
        let seconds = row.get(4)?;
        let place = *places.entry(cell.clone()).or_insert(cells.len());
        match cells.get_mut(place) {
            Some((_, samples)) => samples.push(seconds),
            None => cells.push((cell, vec![seconds])),
        }
    }
    Ok(cells.into_iter().filter_map(|(cell, samples)| Some((cell, Interval::of(samples)?))).collect())
}

/// Names the store in an error of its database.
fn of_store(path: &Path, error: Error) -> Error {
    match error {
        Error::Database(error) => Error::Failed(format!("{}: {error}", path.display())),
        error => error,
    }
}

/// Fails if the file is not a result store of this version.
fn check(connection: &Connection, path: &Path) -> Result<(), Error> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let other = |what: String| Err(Error::Failed(format!("{}: {what}", path.display())));
    match (pragma("application_id"), pragma("user_version")) {
        (Ok(APPLICATION), Ok(VERSION)) => Ok(()),
        (Ok(APPLICATION), Ok(version)) => {
            other(format!("a result store of version {version}; this tool reads version {VERSION}"))
        }
        _ => other("not a result store of jeton".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(path: &Path, seconds: &[f64]) {
        let mut results = Results::begin(path, &Machine::this(), 2, 16).expect("a new store");
        add(&mut results, "jeton", seconds);
    }

    /// Adds a run for each value. Each stage takes this number of seconds.
    fn add(results: &mut Results, module: &str, seconds: &[f64]) {
        for (index, seconds) in seconds.iter().enumerate() {
            let turn = Turn { algorithm: "ed25519".to_owned(), size: 8, round: index + 1 };
            let stage = StageTimes { seconds: *seconds, parts: vec![*seconds / 2.0; 2] };
            results.ran(module, &turn, &std::array::from_fn(|_| stage.clone())).expect("a row");
        }
    }

    #[test]
    fn two_stores_are_compared_cell_by_cell() {
        let directory = tempfile::tempdir().expect("a directory");
        let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
        store(&old, &[9.0]);
        store(&old, &[1.0, 1.1, 1.2]);
        store(&new, &[1.5, 1.6, 1.7]);
        // A measurement of another command has no sample.
        store(&new, &[]);
        let compared = compare(&old, &new).expect("two stores");
        assert_eq!(compared.len(), STAGES.len());
        let first = &compared[0];
        assert_eq!((first.before.value, first.after.value), (1.1, 1.6));
        assert!(first.is_significant() && (first.change() - 0.4545).abs() < 1e-3);
    }

    #[test]
    fn overlapping_times_are_not_significant() {
        let directory = tempfile::tempdir().expect("a directory");
        let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
        store(&old, &[1.0, 1.1, 1.2]);
        store(&new, &[1.15, 1.3, 1.4]);
        assert!(!compare(&old, &new).expect("two stores")[0].is_significant());
    }

    #[test]
    fn a_report_has_the_ratios_of_the_runs_of_the_same_rounds() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store");
        let mut results = Results::begin(&path, &Machine::this(), 2, 16).expect("a new store");
        add(&mut results, "in-process", &[1.0, 1.0, 9.0]);
        add(&mut results, "jeton", &[2.5, 2.5]);
        drop(results);
        let measured = measurements(&path).expect("a store");
        let ratio = |stage: &str| {
            let found = measured[0].ratios.iter().find(|(cell, _)| cell.stage == stage);
            found.map(|(cell, ratio)| (&*cell.module, ratio.quotient.value))
        };
        assert_eq!(ratio("cert_gen"), Some(("jeton", 2.5)));
        assert_eq!(ratio("total"), Some(("jeton", 2.5)));
        assert_eq!(ratio("db_read_certs"), None);
        let connection = Connection::open(&path).expect("a database");
        connection.execute("UPDATE sample SET parts = '[1, x'", []).expect("a change");
        assert!(
            measurements(&path)
                .is_err_and(|error| error.to_string().contains("store: the parts of a sample"))
        );
    }

    #[test]
    fn another_file_and_another_version_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        store(&path, &[1.0]);
        let refused = || compare(&path, &path).map(drop).map_err(|error| error.to_string());
        assert_eq!(refused(), Ok(()));
        let change = |name: &str| {
            let connection = Connection::open(&path).expect("a database");
            connection.pragma_update(None, name, 7).expect("a pragma");
        };
        change("user_version");
        assert!(refused().is_err_and(|text| text.contains("version 7; this tool reads version 4")));
        change("application_id");
        assert!(refused().is_err_and(|text| text.contains("not a result store")));
        std::fs::write(&path, "not a database").expect("a file");
        assert!(refused().is_err());
        assert!(Results::begin(&path, &Machine::this(), 2, 16).is_err());
    }
}
