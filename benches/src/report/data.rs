//! The measurements: criterion's estimates by group and row, and the facts of `facts.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::artefacts::data_directory;
use crate::facts::{self, Latency, Run, Startup, file};
use crate::names::{BASELINE, BASELINE_AGAIN, JETON, NULL};

/// A median with its 95 % interval, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// Bytes or elements per repetition, if the group counts them.
    pub amount: Option<f64>,
}

#[derive(Default)]
pub struct Data {
    groups: BTreeMap<String, BTreeMap<String, Estimate>>,
    pub run: Run,
    pub latency: Vec<Latency>,
    pub startup: Option<Startup>,
}

impl Data {
    /// Reads the files. Fails if no complete run has written them.
    pub fn read() -> Result<Self, String> {
        let run = facts::read(file::RUN).ok_or("no data: `cargo bench` writes it")?;
        let mut data = Self {
            run,
            latency: facts::read(file::LATENCY).unwrap_or_default(),
            startup: facts::read(file::STARTUP),
            ..Self::default()
        };
        data.gather(&data_directory())?;
        Ok(data)
    }

    fn gather(&mut self, directory: &Path) -> Result<(), String> {
        let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
        if directory.file_name().is_some_and(|name| name == "new") {
            let file = |name| fs::read_to_string(directory.join(name)).map_err(|error| fail(&error));
            let name: Benchmark =
                serde_json::from_str(&file("benchmark.json")?).map_err(|error| fail(&error))?;
            let found: Estimates =
                serde_json::from_str(&file("estimates.json")?).map_err(|error| fail(&error))?;
            let estimate = Estimate {
                median: found.median.point_estimate,
                low: found.median.confidence_interval.lower_bound,
                high: found.median.confidence_interval.upper_bound,
                amount: name.throughput.and_then(|throughput| throughput.into_values().next()),
            };
            let row = name.function_id.unwrap_or_default();
            self.groups.entry(name.group_id).or_default().insert(row, estimate);
            return Ok(());
        }
        for entry in fs::read_dir(directory).map_err(|error| fail(&error))? {
            let path = entry.map_err(|error| fail(&error))?.path();
            if path.is_dir() {
                self.gather(&path)?;
            }
        }
        Ok(())
    }

    pub fn groups(&self, prefix: &str) -> Vec<&str> {
        self.groups.keys().filter(|name| name.starts_with(prefix)).map(String::as_str).collect()
    }

    /// Returns the rows of a group: the baseline, ours, then the others by name.
    pub fn rows(&self, group: &str) -> Vec<(&str, Estimate)> {
        let mut rows: Vec<_> = self.groups.get(group).into_iter().flatten().collect();
        rows.sort_by_key(|(row, _)| (self.rank(row), *row));
        rows.into_iter().map(|(row, estimate)| (row.as_str(), *estimate)).collect()
    }

    fn rank(&self, row: &str) -> usize {
        const ORDER: [&str; 5] = [BASELINE, BASELINE_AGAIN, JETON, "jeton-rc", NULL];
        ORDER.iter().position(|known| *known == row).unwrap_or(ORDER.len())
    }

    pub fn row(&self, group: &str, row: &str) -> Option<Estimate> {
        self.groups.get(group)?.get(row).copied()
    }

    /// Returns the time of our module in a group, in nanoseconds.
    pub fn jeton(&self, group: &str) -> Option<f64> {
        self.row(group, JETON).map(|estimate| estimate.median)
    }

    /// Returns the time of the baseline in a group, in nanoseconds: the mean of its two rows, which
    /// are measured before and after the others.
    pub fn baseline(&self, group: &str) -> Option<f64> {
        let first = self.row(group, BASELINE)?.median;
        Some(self.row(group, BASELINE_AGAIN).map_or(first, |again| (first + again.median) / 2.0))
    }

    /// Returns the time of our module divided by the time of the baseline: the median of the turns
    /// if the group was measured in turns, otherwise the ratio of the medians.
    pub fn ratio(&self, group: &str) -> Option<f64> {
        let turns = self.run.turns.iter().find(|turns| turns.group == group).map(|turns| turns.median);
        turns.or_else(|| Some(self.jeton(group)? / self.baseline(group)?))
    }

    pub fn times(&self, group: &str, row: &str) -> Option<f64> {
        match row {
            JETON => self.ratio(group),
            _ => Some(self.row(group, row)?.median / self.baseline(group)?),
        }
    }

    /// Returns the fastest peer of a group, in the faster of its configurations.
    pub fn best_peer(&self, group: &str) -> Option<(&str, f64)> {
        let peers = self.rows(group).into_iter().filter(|(row, _)| self.is_peer(row));
        peers.map(|(row, estimate)| (row, estimate.median)).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns whether the row is a peer: neither the baseline nor ours.
    pub fn is_peer(&self, row: &str) -> bool {
        self.rank(row) == 5
    }

    pub fn per_second(&self, group: &str, row: &str) -> Option<f64> {
        let estimate = self.row(group, row)?;
        Some(estimate.amount? * 1e9 / estimate.median)
    }
}

#[derive(Deserialize)]
struct Benchmark {
    group_id: String,
    function_id: Option<String>,
    throughput: Option<BTreeMap<String, f64>>,
}

#[derive(Deserialize)]
struct Estimates {
    median: Median,
}

#[derive(Deserialize)]
struct Median {
    point_estimate: f64,
    confidence_interval: Interval,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

#[cfg(test)]
impl Data {
    pub fn of(rows: &[(&str, &str, f64)]) -> Self {
        let mut data = Self::default();
        for (group, row, median) in rows {
            let estimate = Estimate { median: *median, low: *median, high: *median, amount: None };
            data.groups.entry((*group).to_owned()).or_default().insert((*row).to_owned(), estimate);
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    #[test]
    fn the_baseline_is_the_mean_of_its_two_rows() {
        let data = Data::of(&[("g", BASELINE, 100.0), ("g", BASELINE_AGAIN, 110.0), ("g", JETON, 120.0)]);
        assert_eq!(data.baseline("g"), Some(105.0));
        assert_eq!(data.ratio("g"), Some(120.0 / 105.0));
    }

    #[test]
    fn the_best_peer_is_not_one_of_our_rows() {
        let rows = [
            ("g", JETON, 1.0),
            ("g", "jeton-rc", 2.0),
            ("g", names::SOFTHSM, 9.0),
            ("g", "nss-session", 5.0),
        ];
        assert_eq!(Data::of(&rows).best_peer("g"), Some(("nss-session", 5.0)));
    }
}
