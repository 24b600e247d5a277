//! The measurements of `jeton-driver tls` in a result store. They have their own table, which the
//! first measurement of `jeton-driver tls` creates.

use jeton_laboratory::Ratio;
use rusqlite::{Connection, params};

use super::measurement::{Measurement, described};
use super::{Record, Results, of_store};
use crate::Error;
use crate::tls::{Case, CaseTurn, MeasuredCase, Side};

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS handshake (
        measurement INTEGER NOT NULL REFERENCES measurement, key TEXT NOT NULL, version TEXT NOT NULL,
        exchange TEXT NOT NULL, handshake TEXT NOT NULL, threads INTEGER NOT NULL,
        memory_per_second REAL NOT NULL, token_per_second REAL NOT NULL, ratio REAL NOT NULL,
        result TEXT NOT NULL, PRIMARY KEY (measurement, key, version, exchange, handshake, threads));
";

/// The largest number of cases that a report reads.
const MOST_CASES: usize = 10_000;
/// The largest number of points of a distribution that a report draws.
const MOST_POINTS: usize = 1000;

/// A measurement of `jeton-driver tls`.
#[derive(Clone, Debug)]
pub struct TlsMeasurement {
    /// Machine, command and modules.
    pub about: Measurement,
    /// The cases.
    pub cases: Vec<MeasuredCase>,
}

impl Record<CaseTurn> for Results {
    fn measured(&mut self, case: &MeasuredCase) -> Result<(), Error> {
        let result = serde_json::to_string(case).map_err(|error| Error::Failed(error.to_string()))?;
        self.add_result(case, &result).map_err(|error| of_store(&self.path, error.into()))
    }
}

impl Results {
    fn add_result(&self, measured: &MeasuredCase, result: &str) -> rusqlite::Result<()> {
        let Case { key, version, exchange, handshake, threads } = measured.case;
        self.connection.execute_batch(TABLE)?;
        self.connection.execute(
            "INSERT INTO handshake VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                self.measurement,
                key.name(),
                version.name(),
                exchange.name(),
                handshake.name(),
                threads,
                measured.memory.server.value,
                measured.token.server.value,
                measured.ratio.quotient.value,
                result
            ],
        )?;
        Ok(())
    }
}

/// Reads a measurement. A store may come from another person, so a case that a plot cannot show is
/// left out.
pub(super) fn read(connection: &Connection, id: i64) -> Result<TlsMeasurement, Error> {
    let mut statement =
        connection.prepare("SELECT result FROM handshake WHERE measurement = ?1 ORDER BY rowid LIMIT ?2")?;
    let rows = statement.query_map(params![id, MOST_CASES], |row| row.get::<_, String>(0))?;
    let mut cases = Vec::new();
    for row in rows {
        let case = serde_json::from_str(&row?).ok().filter(can_be_drawn);
        cases.extend(case);
    }
    Ok(TlsMeasurement { about: described(connection, id)?, cases })
}

fn can_be_drawn(case: &MeasuredCase) -> bool {
    let is_time = |seconds: f64| (1e-12..1e9).contains(&seconds);
    let side = |side: &Side| {
        let curve = &side.latency.curve;
        is_time(side.server.value)
            && curve.len() <= MOST_POINTS
            && curve.iter().all(|(number, seconds)| is_time(*number) && is_time(*seconds))
    };
    let Ratio { figure, baseline, .. } = case.ratio;
    is_time(figure) && is_time(baseline) && side(&case.memory) && side(&case.token)
}

#[cfg(test)]
mod tests {
    use jeton_laboratory::{Interval, Machine, Ratio};

    use super::*;
    use crate::results::{Newest, newest};
    use crate::tls::{Exchange, KeyKind, Latency, Resumption, TlsVersion};

    fn case(threads: usize, seconds: f64) -> MeasuredCase {
        let interval = Interval { value: 2.0, low: 1.0, high: 3.0 };
        let curve = vec![(1.0, seconds), (10.0, seconds)];
        let latency =
            Latency { p50: seconds, p90: seconds, p99: seconds, p999: seconds, max: seconds, curve };
        let side = Side { handshakes: 12, server: interval, client: interval, spread: 0.0, latency };
        MeasuredCase {
            case: Case {
                key: KeyKind::P256,
                version: TlsVersion::V13,
                exchange: Exchange::X25519,
                handshake: Resumption::Full,
                threads,
            },
            rounds: 6,
            memory: side.clone(),
            token: side,
            ratio: Ratio { figure: 2.0, baseline: 1.0, quotient: interval },
        }
    }

    #[test]
    fn the_newest_measurement_is_read_without_cases_that_no_plot_can_show() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("store");
        for cases in [vec![case(4, 1.0)], vec![case(1, 1e-4), case(2, -1.0), case(8, 1e-3)]] {
            let mut results = Results::begin(&path, &Machine::this(), 2, 0).expect("a store");
            for case in cases {
                Record::<CaseTurn>::measured(&mut results, &case).expect("a row");
            }
        }
        let Newest::Tls(read) = newest(&path).expect("a store") else { panic!("of another command") };
        assert_eq!(read.cases.iter().map(|one| one.case.threads).collect::<Vec<_>>(), [1, 8]);
        assert_eq!(read.cases[0].token.latency.p50, 1e-4);
    }
}
