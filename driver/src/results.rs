//! The result store of `--results`: an SQLite file that receives each run as it is measured, so
//! that an interrupted measurement keeps the runs so far. It has the same tables for each command:
//! the work and the sample of a run are JSON.
//!
//! A store may come from another person, so nothing here trusts its texts or numbers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jeton_laboratory::figure::time;
use jeton_laboratory::{Interval, Table};
use rusqlite::{Connection, OpenFlags, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::about::About;
use crate::pipeline::{DocumentSize, MeasuredBatch, ModuleDescription, STAGES, Turn, Work};
use crate::selection::{IN_PROCESS, shown};
use crate::tls::CaseTurn;
use crate::{Error, Result};

/// `application_id` of the file: "JRES".
const APPLICATION: i32 = 0x4A52_4553;
/// `user_version` of the file. A change of the tables increments it.
const VERSION: i32 = 5;
/// The largest number of runs of a measurement that a report reads.
const MOST_RUNS: usize = 1_000_000;
/// The largest round number that a report reads.
const MOST_ROUNDS: usize = 100_000;

const SCHEMA: &str = "
    CREATE TABLE measurement (
        id INTEGER PRIMARY KEY, started TEXT NOT NULL, scenario TEXT NOT NULL, about TEXT NOT NULL,
        threads INTEGER NOT NULL, rsa_key_pool INTEGER NOT NULL);
    CREATE TABLE module (
        measurement INTEGER NOT NULL REFERENCES measurement, name TEXT NOT NULL, description TEXT NOT NULL,
        PRIMARY KEY (measurement, name));
    CREATE TABLE run (
        measurement INTEGER NOT NULL REFERENCES measurement, module TEXT NOT NULL, work TEXT NOT NULL,
        round INTEGER NOT NULL, sample TEXT NOT NULL, PRIMARY KEY (measurement, module, work, round));
    CREATE TABLE document (
        measurement INTEGER NOT NULL REFERENCES measurement, algorithm TEXT NOT NULL, size INTEGER NOT NULL,
        kind TEXT NOT NULL, bytes INTEGER NOT NULL, PRIMARY KEY (measurement, algorithm, size, kind));
";

/// A measurement that is written to a result store.
pub struct Results {
    path: PathBuf,
    connection: Connection,
    measurement: i64,
}

impl Results {
    /// Opens or creates the store at `path`, and begins a measurement of this type of work in it.
    pub fn begin<W: Work>(path: &Path, about: &About, threads: usize, rsa_key_pool: u64) -> Result<Self> {
        in_store(path, || {
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
            connection.execute(
                "INSERT INTO measurement (started, scenario, about, threads, rsa_key_pool)
                 VALUES (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?1, ?2, ?3, ?4)",
                params![W::SCENARIO, json(about)?, threads, rsa_key_pool],
            )?;
            let measurement = connection.last_insert_rowid();
            Ok(Self { path: path.to_owned(), connection, measurement })
        })
    }

    pub fn describe(&self, name: &str, module: &ModuleDescription) -> Result<()> {
        self.write("INSERT INTO module VALUES (?1, ?2, ?3)", params![self.measurement, name, json(module)?])
    }

    pub fn ran<W: Work>(&self, module: &str, turn: &W, round: usize, sample: &W::Sample) -> Result<()> {
        self.write(
            "INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5)",
            params![self.measurement, module, json(&turn.in_round(0))?, round, json(sample)?],
        )
    }

    /// Writes the sizes of the documents that the modules signed.
    pub fn add_documents(&self, sizes: &[DocumentSize]) -> Result<()> {
        sizes.iter().try_for_each(|one| {
            self.write(
                "INSERT OR REPLACE INTO document VALUES (?1, ?2, ?3, ?4, ?5)",
                params![self.measurement, one.algorithm, one.size, one.kind, one.bytes],
            )
        })
    }

    fn write(&self, statement: &str, values: &[&dyn rusqlite::ToSql]) -> Result<()> {
        in_store(&self.path, || Ok(self.connection.prepare_cached(statement)?.execute(values).map(drop)?))
    }
}

/// The names of modules, with what each of them measured.
type Modules<W> = Vec<(String, Vec<<W as Work>::Measured>)>;

pub struct Measurement<W: Work> {
    /// When it began, in UTC.
    pub started: String,
    pub about: About,
    pub threads: u64,
    /// RSA key pairs of subscribers that a batch reused; 0 means one for each certificate.
    pub rsa_key_pool: u64,
    pub descriptions: Vec<(String, ModuleDescription)>,
    /// The results of each module, in the order of their first runs.
    pub modules: Modules<W>,
    pub documents: Vec<DocumentSize>,
}

/// The newest measurement of a store, for `jeton-driver report`.
pub enum Newest {
    Pipeline(Measurement<Turn>),
    Tls(Measurement<CaseTurn>),
}

/// Reads the newest measurement of a store.
pub fn newest(path: &Path) -> Result<Newest> {
    in_store(path, || {
        let connection = open(path)?;
        let newest = with_runs(&connection, "%")?.pop().unwrap_or_default();
        let scenario = connection
            .query_row("SELECT scenario FROM measurement WHERE id = ?1", [newest], |row| row.get(0))
            .unwrap_or_else(|_| String::new());
        Ok(match scenario.as_str() {
            CaseTurn::SCENARIO => Newest::Tls(read(&connection, newest)?),
            Turn::SCENARIO => Newest::Pipeline(read(&connection, newest)?),
            _ => return Err(Error::Failed("the store has no measurement with a run".to_owned())),
        })
    })
}

/// Returns the measurements of a scenario that have runs, the oldest first.
fn with_runs(connection: &Connection, scenario: &str) -> Result<Vec<i64>> {
    let mut statement = connection.prepare(
        "SELECT id FROM measurement WHERE scenario LIKE ?1
         AND EXISTS (SELECT 1 FROM run WHERE measurement = id) ORDER BY id",
    )?;
    let ids = statement.query_map([scenario], |row| row.get(0))?;
    Ok(ids.collect::<Result<_, _>>()?)
}

fn read<W: Work>(connection: &Connection, id: i64) -> Result<Measurement<W>> {
    let query = "SELECT started, about, threads, rsa_key_pool FROM measurement WHERE id = ?1";
    let (started, about, threads, rsa_key_pool) = connection.query_row(query, [id], |row| {
        Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?))
    })?;
    let mut measurement = Measurement {
        started,
        about: parsed(&about)?,
        threads,
        rsa_key_pool,
        descriptions: Vec::new(),
        modules: measured::<W>(connection, id)?,
        documents: Vec::new(),
    };
    let query = "SELECT name, description FROM module WHERE measurement = ?1 ORDER BY rowid";
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([id])?;
    while let Some(row) = rows.next()? {
        measurement.descriptions.push((row.get(0)?, parsed(&row.get::<_, String>(1)?)?));
    }
    let query =
        "SELECT algorithm, size, kind, bytes FROM document WHERE measurement = ?1 ORDER BY rowid LIMIT 10000";
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map([id], |row| {
        Ok(DocumentSize { algorithm: row.get(0)?, size: row.get(1)?, kind: row.get(2)?, bytes: row.get(3)? })
    })?;
    measurement.documents = rows.collect::<Result<_, _>>()?;
    Ok(measurement)
}

/// The runs of a module with one piece of work, by their rounds.
struct Runs<S> {
    module: String,
    work: String,
    rounds: Vec<Option<S>>,
}

/// Summarises the runs of a measurement for each module, as the command did that measured them.
fn measured<W: Work>(connection: &Connection, id: i64) -> Result<Modules<W>> {
    let query = "SELECT module, work, round, sample FROM run WHERE measurement = ?1 ORDER BY rowid";
    let mut statement = connection.prepare(query)?;
    let mut rows = statement.query([id])?;
    let mut runs: Vec<Runs<W::Sample>> = Vec::new();
    let mut places = HashMap::new();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let (module, work, round): (String, String, usize) = (row.get(0)?, row.get(1)?, row.get(2)?);
        count += 1;
        if count > MOST_RUNS || !(1..=MOST_ROUNDS).contains(&round) {
            return Err(Error::Failed("the measurement has more runs than a report can show".to_owned()));
        }
        let place = *places.entry((module.clone(), work.clone())).or_insert(runs.len());
        if place == runs.len() {
            runs.push(Runs { module, work, rounds: Vec::new() });
        }
        let rounds = &mut runs[place].rounds;
        rounds.resize_with(rounds.len().max(round), || None);
        rounds[round - 1] = Some(parsed(&row.get::<_, String>(3)?)?);
    }
    let mut modules: Modules<W> = Vec::new();
    for Runs { module, work, rounds } in &runs {
        let baseline = places.get(&(IN_PROCESS.to_owned(), work.clone())).filter(|_| module != IN_PROCESS);
        let baseline = baseline.map(|place| runs[*place].rounds.as_slice());
        let summary = parsed::<W>(work)?.summarise(rounds, baseline).filter(W::can_be_drawn);
        let Some(summary) = summary else { continue };
        match modules.iter_mut().find(|(name, _)| name == module) {
            Some((_, all)) => all.push(summary),
            None => modules.push((module.clone(), vec![summary])),
        }
    }
    Ok(modules)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    pub module: String,
    /// The CA's algorithm, or a profile such as `rsa4096/ecdsa-p256`.
    pub algorithm: String,
    pub size: u64,
    pub stage: &'static str,
}

#[derive(Clone, Debug)]
pub struct Comparison {
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

/// Returns a table of before, after, change and significance.
pub fn comparison(compared: &[Comparison]) -> String {
    let header = ["module", "algorithm", "stage", "batch", "before", "after", "change", "significant"];
    let mut table = Table::new(3, header);
    for one in compared {
        let cell = &one.cell;
        table.add([
            shown(&cell.module).to_owned(),
            cell.algorithm.clone(),
            cell.stage.to_owned(),
            cell.size.to_string(),
            time(one.before.value),
            time(one.after.value),
            format!("{:+.1} %", one.change() * 100.0),
            if one.is_significant() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.terminal(None)
}

/// Compares the last measurements of `jeton-driver pipeline` in two stores, cell by cell. Cells
/// that only one store has are left out.
pub fn compare(before: &Path, after: &Path) -> Result<Vec<Comparison>> {
    let before = last(before)?;
    let after: HashMap<Cell, Interval> = last(after)?.into_iter().collect();
    let pairs = before.into_iter().filter_map(|(cell, before)| {
        let after = *after.get(&cell)?;
        Some(Comparison { cell, before, after })
    });
    Ok(pairs.collect())
}

/// Returns the times of the last measurement of `jeton-driver pipeline` in a store.
fn last(path: &Path) -> Result<Vec<(Cell, Interval)>> {
    in_store(path, || {
        let connection = open(path)?;
        let Some(id) = with_runs(&connection, Turn::SCENARIO)?.pop() else { return Ok(Vec::new()) };
        let mut cells = Vec::new();
        for (module, batches) in measured::<Turn>(&connection, id)? {
            for MeasuredBatch { algorithm, size, seconds, .. } in batches {
                cells.extend(STAGES.iter().zip(seconds).map(|(row, seconds)| {
                    let (module, algorithm) = (module.clone(), algorithm.clone());
                    (Cell { module, algorithm, size, stage: row.name }, seconds)
                }));
            }
        }
        Ok(cells)
    })
}

/// Opens a store to read it.
fn open(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)
        .map_err(|_| Error::Failed(format!("{}: no result store can be opened there", path.display())))?;
    check(&connection, path)?;
    Ok(connection)
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Failed(error.to_string()))
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Failed(format!("the store cannot be read: {error}")))
}

fn in_store<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    work().map_err(|error| match error {
        Error::Database(error) => Error::Failed(format!("{}: {error}", path.display())),
        error => error,
    })
}

/// Fails if the file is not a result store of this version.
fn check(connection: &Connection, path: &Path) -> Result<()> {
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
    use crate::pipeline::StageTimes;

    fn begin<W: Work>(path: &Path) -> Results {
        Results::begin::<W>(path, &About::this(), 2, 16).expect("a store")
    }

    fn store(path: &Path, seconds: &[f64]) {
        add(&begin::<Turn>(path), "jeton", seconds);
    }

    /// Adds a run for each value. Each stage takes this number of seconds.
    fn add(results: &Results, module: &str, seconds: &[f64]) {
        for (index, seconds) in seconds.iter().enumerate() {
            let turn = Turn { algorithm: "ed25519".to_owned(), size: 8, round: index + 1 };
            let stage = StageTimes { seconds: *seconds, parts: vec![*seconds / 2.0; 2] };
            let times = std::array::from_fn(|_| stage.clone());
            results.ran(module, &turn, turn.round, &times).expect("a row");
        }
    }

    #[test]
    fn two_stores_are_compared_cell_by_cell() {
        let directory = tempfile::tempdir().expect("a directory");
        let [old, new] = ["old", "new"].map(|name| directory.path().join(name));
        store(&old, &[9.0]);
        store(&old, &[1.0, 1.1, 1.2]);
        store(&new, &[1.5, 1.6, 1.7]);
        // A measurement of another command has no such runs.
        begin::<CaseTurn>(&new);
        let compared = compare(&old, &new).expect("two stores");
        assert_eq!(compared.len(), STAGES.len());
        let first = &compared[0];
        assert_eq!((first.before.value, first.after.value), (1.1, 1.6));
        assert!(first.is_significant() && (first.change() - 0.4545).abs() < 1e-3);
        store(&new, &[1.15, 1.3, 1.4]);
        assert!(!compare(&old, &new).expect("two stores")[0].is_significant(), "the times overlap");
    }

    #[test]
    fn a_report_has_the_ratios_of_the_runs_of_the_same_rounds() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store");
        let results = begin::<Turn>(&path);
        add(&results, IN_PROCESS, &[1.0, 1.0, 9.0]);
        add(&results, "jeton", &[2.5, 2.5]);
        let Newest::Pipeline(read) = newest(&path).expect("a store") else { panic!("of another command") };
        let (module, batches) = &read.modules[1];
        let ratio = |stage: usize| batches[0].ratios[stage].map(|ratio| ratio.quotient.value);
        assert_eq!((module.as_str(), ratio(1), ratio(4)), ("jeton", Some(2.5), None));
        assert_eq!(batches[0].total_ratio.map(|ratio| ratio.quotient.value), Some(2.5));
        drop(results);
        let connection = Connection::open(&path).expect("a database");
        connection.execute("UPDATE run SET sample = '[1, x'", []).expect("a change");
        assert!(newest(&path).is_err_and(|error| error.to_string().contains("the store cannot be read")));
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
        assert!(refused().is_err_and(|text| text.contains("version 7; this tool reads version 5")));
        change("application_id");
        assert!(refused().is_err_and(|text| text.contains("not a result store")));
        std::fs::write(&path, "not a database").expect("a file");
        assert!(refused().is_err());
        assert!(Results::begin::<Turn>(&path, &About::this(), 2, 16).is_err());
    }
}
