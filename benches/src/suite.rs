//! Passes groups of rows to criterion.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};

use crate::facts::{Filled, LeftOut, Turns};
use crate::names::{BASELINE, BASELINE_AGAIN, JETON};
use crate::operation::Boxed;
use crate::settings::Settings;
use crate::target::Outcome;
use crate::turns;

/// The rows of a group. A row that is not available has a reason instead.
pub type Rows<'a> = Vec<(String, Outcome<Boxed<'a>>)>;

/// The group of a row that is missing in every group.
pub const ALL: &str = "all operations";

pub struct Suite {
    criterion: Criterion,
    filter: Option<String>,
    pub settings: Settings,
    pub left_out: Vec<LeftOut>,
    pub fills: Vec<Filled>,
    /// The comparisons of our module with the baseline, measured in turns.
    pub turns: Vec<Turns>,
}

impl Suite {
    /// Takes the settings from the environment, the options from the command line.
    pub fn new(filter: Option<String>) -> Self {
        let settings = Settings::of_environment();
        let criterion = Criterion::default()
            .configure_from_args()
            .without_plots()
            .sample_size(settings.samples)
            .measurement_time(settings.measurement)
            .warm_up_time(settings.warm_up)
            .nresamples(5_000);
        Self { criterion, filter, settings, left_out: Vec::new(), fills: Vec::new(), turns: Vec::new() }
    }

    pub fn wants(&self, group: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| group.contains(filter))
    }

    pub fn filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// Measures the rows of a group one after the other, if the command line asks for the group.
    /// The baseline is first, and is measured again at the end. Our module and the baseline are
    /// also measured in turns.
    pub fn compare<'a>(
        &mut self,
        name: &str,
        throughput: Option<Throughput>,
        rows: impl FnOnce() -> Rows<'a>,
    ) {
        if !self.wants(name) {
            return;
        }
        let mut group = self.criterion.benchmark_group(name);
        let mut budget = self.settings.measurement;
        if let Some(throughput) = throughput {
            // Starting and ending threads takes time, which must be a small part of a sample.
            if matches!(throughput, Throughput::Elements(_)) {
                budget *= 4;
                group.measurement_time(budget);
            }
            group.throughput(throughput);
        }
        let (mut baseline, mut missing): (Option<Boxed<'_>>, _) = (None, Vec::new());
        for (row, operation) in rows() {
            let measured = operation.and_then(|mut operation| {
                measure(&mut group, &row, &mut operation)?;
                if let (Some(baseline), JETON) = (&mut baseline, row.as_str()) {
                    // Twice the time of a row, because two rows are measured.
                    let turns = turns::take(name, baseline, &mut operation, 2 * budget);
                    let Turns { median, low, high, .. } = turns;
                    println!(
                        "{name}: {JETON} takes {median:.4} times as long as the baseline ({low:.4} to {high:.4}), in turns"
                    );
                    self.turns.push(turns);
                }
                Ok(operation)
            });
            match measured {
                Ok(operation) if row == BASELINE => baseline = Some(operation),
                Ok(_) => {}
                Err(reason) => missing.push((row, reason)),
            }
        }
        if let Some(mut baseline) = baseline
            && let Err(reason) = measure(&mut group, BASELINE_AGAIN, &mut baseline)
        {
            missing.push((BASELINE_AGAIN.to_owned(), reason));
        }
        group.finish();
        missing.into_iter().for_each(|(row, reason)| self.leave_out(name, &row, reason));
    }

    pub fn leave_out(&mut self, group: &str, row: &str, reason: String) {
        println!("{group}/{row} left out: {reason}");
        self.left_out.push(LeftOut { group: group.to_owned(), row: row.to_owned(), reason });
    }

    pub fn patience(&self, ours: bool) -> Duration {
        if ours { self.settings.fill_ours } else { self.settings.fill_peer }
    }
}

/// Measures one row. A module that fails while it is timed loses its row, but the run goes on.
fn measure(group: &mut BenchmarkGroup<'_, WallTime>, row: &str, operation: &mut Boxed<'_>) -> Outcome<()> {
    let measured = panic::catch_unwind(AssertUnwindSafe(|| {
        group.bench_function(row, |bencher| bencher.iter_custom(|count| operation.time(count)));
        operation.check();
    }));
    measured.map_err(|reason| {
        let text = reason.downcast_ref::<String>().cloned();
        let text = text.or_else(|| reason.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("failed while it was timed: {}", text.unwrap_or_default())
    })
}
