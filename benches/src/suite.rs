//! Groups of rows, given to criterion.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};

use crate::facts::{Filled, LeftOut, Turns};
use crate::operation::Boxed;
use crate::report::JETON;
use crate::settings::Settings;
use crate::target::Outcome;
use crate::turns;

/// The name of the floor's row, which every ratio is to.
pub const FLOOR: &str = "floor";
/// The floor once more behind the other rows, so that a drift of the machine shows.
pub const FLOOR_AGAIN: &str = "floor-again";

/// The rows of a group, as far as they can be had.
pub type Rows<'a> = Vec<(String, Outcome<Boxed<'a>>)>;

/// Criterion, and what is to be said of the run.
pub struct Suite {
    criterion: Criterion,
    filter: Option<String>,
    /// The mode.
    pub settings: Settings,
    /// What is missing, and why.
    pub left_out: Vec<LeftOut>,
    /// How tokens were filled.
    pub fills: Vec<Filled>,
    /// Our module and the floor in turns.
    pub turns: Vec<Turns>,
}

impl Suite {
    /// With the settings of the environment, and the filter and options of the command line.
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

    /// Whether the command line asks for such a group.
    pub fn wants(&self, group: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| group.contains(filter))
    }

    /// Whether it names one at all.
    pub fn filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// Measures the rows one after the other; the floor, which comes first, again at the end. Our module and the floor
    /// also take turns.
    pub fn compare(&mut self, name: &str, throughput: Option<Throughput>, rows: Rows<'_>) {
        if !self.wants(name) {
            return;
        }
        let mut group = self.criterion.benchmark_group(name);
        let mut budget = self.settings.measurement;
        if let Some(throughput) = throughput {
            // Threads take their time to be off and to end: that must not be much of a sample.
            if matches!(throughput, Throughput::Elements(_)) {
                budget *= 4;
                group.measurement_time(budget);
            }
            group.throughput(throughput);
        }
        let (mut floor, mut missing): (Option<Boxed<'_>>, _) = (None, Vec::new());
        for (row, operation) in rows {
            let measured = operation.and_then(|mut operation| {
                measure(&mut group, &row, &mut operation)?;
                if let (Some(floor), JETON) = (&mut floor, row.as_str()) {
                    // Twice the time of a row, for two.
                    let turns = turns::take(name, floor, &mut operation, 2 * budget);
                    let Turns { median, low, high, .. } = turns;
                    println!(
                        "{name}: {JETON} takes {median:.4} [{low:.4} {high:.4}] of the floor's time, in turns"
                    );
                    self.turns.push(turns);
                }
                Ok(operation)
            });
            match measured {
                Ok(operation) if row == FLOOR => floor = Some(operation),
                Ok(_) => {}
                Err(reason) => missing.push((row, reason)),
            }
        }
        if let Some(mut floor) = floor
            && let Err(reason) = measure(&mut group, FLOOR_AGAIN, &mut floor)
        {
            missing.push((FLOOR_AGAIN.to_owned(), reason));
        }
        group.finish();
        missing.into_iter().for_each(|(row, reason)| self.leave_out(name, &row, reason));
    }

    /// Says what is missing.
    pub fn leave_out(&mut self, group: &str, row: &str, reason: String) {
        println!("{group}/{row} left out: {reason}");
        self.left_out.push(LeftOut { group: group.to_owned(), row: row.to_owned(), reason });
    }

    /// How long a token may take to be filled.
    pub fn patience(&self, ours: bool) -> Duration {
        if ours { self.settings.fill_ours } else { self.settings.fill_peer }
    }
}

/// One row. A module that fails while it is timed loses its row, not the run; what it said stands above.
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
