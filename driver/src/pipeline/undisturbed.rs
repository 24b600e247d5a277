//! The time that a stage takes while no other program disturbs it.
//!
//! On a shared machine, another program slows a part of every measurement. The median of whole runs
//! depends on how much of them it slowed. A stage with many items is therefore timed in parts of at
//! most 16 items. Of each quarter of the stage, the fifth percentile of all parts of all runs
//! counts. So there may be 19 slowed parts for each other one, and a stage that gets slower from
//! quarter to quarter keeps its time. The time of a run outside the parts counts in the same way.

use jeton_laboratory::figure::UNUSABLE;
use jeton_laboratory::{Interval, Ratio, spread};

use super::stage::StageRow;
use super::{Place, STAGES, StageTimes, Times};

/// The share of the parts that are faster than the figure. In a measurement in which a compiler
/// slowed most parts, a ratio was 8 % lower with 0.1, and 4 % lower with 0.05.
const SHARE: f64 = 0.05;
/// The number of sections of a stage with a figure each.
const SECTIONS: usize = 4;

/// With fewer runs, other work may have slowed all parts. Then the interval goes from the fastest
/// to the slowest part.
const FEW_RUNS: usize = 3;

/// Returns the undisturbed seconds of a stage with their interval, or `None` if there is no run.
/// The interval takes the parts for independent.
fn undisturbed(runs: &[&StageTimes]) -> Option<Interval> {
    let parts = runs.iter().map(|run| run.parts.len()).max()?;
    let mut sections = vec![Vec::new(); SECTIONS.min(parts)];
    let mut outside = Vec::new();
    for run in runs {
        for (index, seconds) in run.parts.iter().enumerate() {
            let section = index * sections.len() / parts;
            sections[section].push(*seconds);
        }
        outside.push(run.seconds - run.parts.iter().sum::<f64>());
    }
    let figure = |values: Vec<f64>| {
        let range = values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max));
        let figure = Interval::of_share(values, SHARE)?;
        let (low, high) = if runs.len() < FEW_RUNS { range? } else { (figure.low, figure.high) };
        Some(Interval { low, high, ..figure })
    };
    let sections = sections.into_iter().map(|parts| {
        let count = parts.len() as f64 / runs.len() as f64;
        Some(scaled(figure(parts)?, count))
    });
    let outside = figure(outside)?;
    sections.chain([Some(outside)]).reduce(|all, one| Some(sum(all?, one?))).flatten()
}

/// The ratios of a module to the baseline.
#[derive(Debug, PartialEq)]
pub(crate) struct Ratios {
    /// The ratio of each stage, in the order of [`STAGES`]. `None` for the stages that never call
    /// the module.
    pub stages: Vec<Option<Ratio>>,
    /// The ratio of all stages together.
    pub total: Option<Ratio>,
}

/// Divides the undisturbed times of a module by those of the baseline. A pair has a run of the
/// module and the baseline's run in the same round. There is no ratio without a pair, or if the
/// baseline's runs differ too much.
pub(crate) fn ratios(pairs: &[(&Times, &Times)]) -> Ratios {
    let totals = pairs.iter().map(|(_, baseline)| total(baseline)).collect();
    let usable = spread(totals).is_some_and(|spread| spread <= UNUSABLE);
    let times = |stage: usize| {
        let (module, baseline): (Vec<_>, Vec<_>) =
            pairs.iter().map(|(module, baseline)| (&module[stage], &baseline[stage])).unzip();
        usable.then_some((undisturbed(&module)?, undisturbed(&baseline)?))
    };
    let times: Vec<Option<(Interval, Interval)>> = (0..STAGES.len()).map(times).collect();
    let all = times.iter().copied().reduce(|all, one| {
        let ((module, baseline), (more, more_of_baseline)) = (all?, one?);
        Some((sum(module, more), sum(baseline, more_of_baseline)))
    });
    let stage = |(row, times): (&StageRow, &Option<(Interval, Interval)>)| match row.place {
        Place::Module => times.and_then(quotient),
        Place::Tool => None,
    };
    Ratios { stages: STAGES.iter().zip(&times).map(stage).collect(), total: all.flatten().and_then(quotient) }
}

/// Returns the seconds of all stages of a run.
pub(super) fn total(run: &Times) -> f64 {
    run.iter().map(|stage| stage.seconds).sum()
}

fn scaled(one: Interval, factor: f64) -> Interval {
    Interval { value: one.value * factor, low: one.low * factor, high: one.high * factor }
}

fn sum(one: Interval, other: Interval) -> Interval {
    Interval { value: one.value + other.value, low: one.low + other.low, high: one.high + other.high }
}

/// Divides two times. The interval goes from the smallest to the largest quotient. `None` if a time
/// is not positive.
fn quotient((module, baseline): (Interval, Interval)) -> Option<Ratio> {
    (baseline.low > 0.0).then(|| Ratio {
        figure: module.value,
        baseline: baseline.value,
        quotient: Interval {
            value: module.value / baseline.value,
            low: module.low / baseline.high,
            high: module.high / baseline.low,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Stage;

    /// A run whose stages have 32 parts of `part` seconds, and 1 s outside the parts. `slow` parts
    /// of each run take three times as long.
    fn run(part: f64, slow: std::ops::Range<usize>) -> Times {
        let parts: Vec<f64> =
            (0..32).map(|index| if slow.contains(&index) { 3.0 * part } else { part }).collect();
        std::array::from_fn(|_| StageTimes { seconds: parts.iter().sum::<f64>() + 1.0, parts: parts.clone() })
    }

    fn ratio(module: &[Times], baseline: &[Times]) -> Interval {
        let pairs: Vec<_> = module.iter().zip(baseline).collect();
        ratios(&pairs).stages[Stage::CertGen as usize].expect("a ratio").quotient
    }

    #[test]
    fn parts_that_another_program_slowed_do_not_count() {
        let baseline: Vec<_> = (0..6).map(|_| run(1.0, 0..0)).collect();
        // Half of the parts of each run are slow, other ones in each run.
        let module: Vec<_> = (0..6).map(|round| run(2.0, 3 * round..3 * round + 16)).collect();
        let found = ratio(&module, &baseline);
        assert!((found.value - 65.0 / 33.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_section_that_is_slow_in_every_run_counts() {
        let baseline: Vec<_> = (0..6).map(|_| run(1.0, 0..0)).collect();
        let module: Vec<_> = (0..6).map(|_| run(1.0, 24..32)).collect();
        let found = ratio(&module, &baseline);
        assert!((found.value - (24.0 + 24.0 + 1.0) / 33.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_interval_of_few_runs_has_all_parts() {
        let measured = |rounds| {
            let baseline: Vec<_> = (0..rounds).map(|_| run(1.0, 0..0)).collect();
            let module: Vec<_> = (0..rounds).map(|_| run(1.0, 31..32)).collect();
            ratio(&module, &baseline)
        };
        let (few, enough) = (measured(2), measured(3));
        assert!((few.value, few.low) == (1.0, 1.0) && few.high > 1.4, "{few:?}");
        assert!((enough.value, enough.low, enough.high) == (1.0, 1.0, 1.0), "{enough:?}");
    }

    #[test]
    fn only_stages_that_call_the_module_have_a_ratio() {
        let (module, baseline) = (run(2.0, 0..0), run(1.0, 0..0));
        let found = ratios(&[(&module, &baseline)]);
        let has_ratio: Vec<_> = found.stages.iter().map(Option::is_some).collect();
        let calls: Vec<_> = STAGES.iter().map(|row| row.place == Place::Module).collect();
        assert_eq!(has_ratio, calls);
        assert!(found.total.is_some_and(|total| (total.quotient.value - 65.0 / 33.0).abs() < 1e-9));
        assert_eq!(ratios(&[]), Ratios { stages: vec![None; STAGES.len()], total: None });
    }

    #[test]
    fn a_baseline_whose_runs_differ_too_much_gives_no_ratio() {
        let baseline = [run(1.0, 0..0), run(3.0, 0..0), run(1.0, 0..0)];
        let pairs = baseline.each_ref().map(|one| (one, one));
        assert_eq!(ratios(&pairs).total, None);
        assert!(ratios(&pairs[..1]).total.is_some());
    }

    #[test]
    fn a_time_that_is_not_positive_has_no_ratio() {
        let module = run(1.0, 0..0);
        let none: Times = Default::default();
        assert_eq!(ratios(&[(&module, &none)]).total, None);
    }
}
