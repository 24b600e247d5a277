//! The measurements of `jeton-driver issue` in a result store. They have their own table, which the
//! first measurement of `jeton-driver issue` creates.

use rusqlite::{Connection, params};

use super::measurement::{Measurement, described};
use super::{Record, Results, of_store};
use crate::Error;
use crate::issuance::{Load, LoadTurn, METRICS, MeasuredLoad, Metric, Storage, Values};
use crate::selection::IN_PROCESS;

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS issuance (
        measurement INTEGER NOT NULL REFERENCES measurement, module TEXT NOT NULL, clients INTEGER NOT NULL,
        key_type TEXT NOT NULL, ca_key_type TEXT NOT NULL, pool INTEGER NOT NULL, database TEXT NOT NULL,
        round INTEGER NOT NULL, metric TEXT NOT NULL, value REAL NOT NULL,
        PRIMARY KEY (measurement, module, clients, key_type, ca_key_type, pool, database, round, metric));
";

/// The largest number of rows of the table that a report reads.
const MOST_ROWS: usize = 5_000_000;
/// The largest round number that a report reads.
const MOST_ROUNDS: usize = 100_000;

impl Record<LoadTurn> for Results {
    fn ran(&mut self, module: &str, turn: &LoadTurn, values: &Values) -> Result<(), Error> {
        self.add_metrics(module, turn, values).map_err(|error| of_store(&self.path, error.into()))
    }
}

impl Results {
    fn add_metrics(&mut self, module: &str, turn: &LoadTurn, values: &Values) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(TABLE)?;
        {
            let mut insert = transaction
                .prepare_cached("INSERT INTO issuance VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)")?;
            let LoadTurn { load, round, .. } = turn;
            let storage = load.storage.to_string();
            for ((_, metric), value) in METRICS.iter().zip(values.0) {
                insert.execute(params![
                    self.measurement,
                    module,
                    load.clients,
                    load.key_type,
                    load.ca_key_type,
                    load.pool,
                    storage,
                    round,
                    metric,
                    value
                ])?;
            }
        }
        transaction.commit()
    }
}

/// A measurement of `jeton-driver issue`.
#[derive(Clone, Debug)]
pub struct IssuanceMeasurement {
    /// Machine, command and modules.
    pub about: Measurement,
    /// The loads in the order of their first run.
    pub loads: Vec<Load>,
    /// The name of each module, and its loads.
    pub modules: Vec<(String, Vec<MeasuredLoad>)>,
}

/// The runs of a module with one load.
struct Runs {
    module: String,
    load: Load,
    rounds: Vec<Option<Values>>,
}

/// Reads a measurement.
pub(super) fn read(connection: &Connection, id: i64) -> Result<IssuanceMeasurement, Error> {
    let runs = runs(connection, id)?;
    let mut loads: Vec<Load> = Vec::new();
    let mut modules: Vec<(String, Vec<MeasuredLoad>)> = Vec::new();
    for one in &runs {
        if !loads.contains(&one.load) {
            loads.push(one.load.clone());
        }
        let baseline = runs.iter().find(|other| other.module == IN_PROCESS && other.load == one.load);
        let baseline = baseline.filter(|_| one.module != IN_PROCESS).map(|other| other.rounds.as_slice());
        let Some(measured) = MeasuredLoad::of(&one.load, &one.rounds, baseline) else { continue };
        match modules.iter_mut().find(|(name, _)| *name == one.module) {
            Some((_, all)) => all.push(measured),
            None => modules.push((one.module.clone(), vec![measured])),
        }
    }
    Ok(IssuanceMeasurement { about: described(connection, id)?, loads, modules })
}

fn runs(connection: &Connection, id: i64) -> Result<Vec<Runs>, Error> {
    let mut statement = connection.prepare(
        "SELECT module, clients, key_type, ca_key_type, pool, database, round, metric, value FROM issuance
         WHERE measurement = ?1 ORDER BY rowid",
    )?;
    let mut rows = statement.query([id])?;
    let mut all: Vec<Runs> = Vec::new();
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        let round: usize = row.get(6)?;
        if count > MOST_ROWS || !(1..=MOST_ROUNDS).contains(&round) {
            return Err(Error::Failed("the measurement has more runs than a report can show".to_owned()));
        }
        let load = Load {
            clients: row.get(1)?,
            key_type: row.get(2)?,
            ca_key_type: row.get(3)?,
            pool: row.get(4)?,
            storage: Storage::parse(&row.get::<_, String>(5)?),
        };
        let (module, metric, value): (String, String, f64) = (row.get(0)?, row.get(7)?, row.get(8)?);
        let Some(index) = METRICS.iter().position(|(_, name)| *name == metric) else { continue };
        // The rows of a run follow each other, so the search begins at the end.
        let at = all.iter().rposition(|one| one.module == module && one.load == load);
        let at = at.unwrap_or_else(|| {
            all.push(Runs { module, load, rounds: Vec::new() });
            all.len() - 1
        });
        let rounds = &mut all[at].rounds;
        if rounds.len() < round {
            rounds.resize(round, None);
        }
        rounds[round - 1].get_or_insert(Values([0.0; METRICS.len()])).0[index] = value;
    }
    for one in &mut all {
        for round in &mut one.rounds {
            // Leaves out a run whose rate is too small or too large for a plot.
            *round = round.filter(|values| (1e-6..1e9).contains(&values.get(Metric::Throughput)));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use jeton_laboratory::Machine;

    use super::*;
    use crate::results::{Newest, newest};

    #[test]
    fn a_measurement_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store");
        let mut results = Results::begin(&path, &Machine::this(), 2, 0).expect("a new store");
        let load = Load {
            clients: 5,
            key_type: "ed25519".to_owned(),
            ca_key_type: "rsa2048".to_owned(),
            pool: 2,
            storage: Storage::Directory("/dev/shm".into()),
        };
        for (module, value) in [(IN_PROCESS, 100.0), ("jeton", 50.0)] {
            for round in 1..=3 {
                let turn = LoadTurn { load: load.clone(), requests: 1, warm_up: 0, max_seconds: 1.0, round };
                results.ran(module, &turn, &Values([value; METRICS.len()])).expect("a run");
            }
        }
        drop(results);
        let Newest::Issuance(read) = newest(&path).expect("a store") else { panic!("of another command") };
        assert_eq!(read.loads, [load]);
        let names: Vec<_> = read.modules.iter().map(|(name, loads)| (name.as_str(), loads[0].runs)).collect();
        assert_eq!(names, [(IN_PROCESS, 3), ("jeton", 3)]);
        assert_eq!(read.modules[1].1[0].ratio.map(|ratio| ratio.quotient.value), Some(2.0));
    }
}
