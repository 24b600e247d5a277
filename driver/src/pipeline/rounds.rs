//! Measures all modules in turns: in each round every module does one run of the same batch, and
//! the baseline is among them. A disturbance of a shared machine then affects all of them, and a
//! ratio compares runs of the same round.

use std::time::{Duration, Instant};

use jeton_peers::Interval;
use serde::Serialize;

use super::job::{ModuleDescription, Turn};
use super::stage::{STAGES, Seconds};

/// The least number of rounds of a size, so that a median is possible. Slow sizes have fewer: see
/// [`ENOUGH`].
const MIN_RUNS: usize = 3;
/// Fewer than [`MIN_RUNS`] rounds are enough if the runs of a module have taken this long in total.
const ENOUGH: Duration = Duration::from_secs(4);
/// The size of the turn before the measurement. It loads code, fills pools and opens files.
const WARM_UP: u64 = 4;

/// Runs the turns of a module.
pub trait Runner {
    /// Returns the module's name in the report.
    fn name(&self) -> &str;
    /// Runs the stages of a turn once.
    fn run(&mut self, turn: &Turn) -> Answer;
}

/// The result of a turn.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The times of the stages.
    Ran(Seconds),
    /// The module lacks what the algorithm needs, for this reason.
    NotAvailable(String),
    /// The turn failed, with this message. The module can take other turns.
    Failed(String),
    /// The module takes no more turns, for this reason.
    Lost(String),
}

/// The algorithms, sizes and limits of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names of the CA algorithms.
    pub algorithms: Vec<String>,
    /// The batch sizes.
    pub sizes: Vec<u64>,
    /// The least time of the runs of a module, for each size.
    pub min_seconds: f64,
}

/// Watches a measurement.
pub trait Watcher {
    /// A turn begins.
    fn begins(&mut self, module: &str, turn: &Turn);
    /// A run is measured. An error ends the measurement.
    fn ran(&mut self, module: &str, turn: &Turn, seconds: &Seconds) -> Result<(), crate::Error>;
    /// All modules are done with a size of an algorithm.
    fn done(&mut self, algorithm: &str, size: u64);
    /// Returns whether the user wants the measurement to end now.
    fn interrupted(&self) -> bool;
}

/// The result of a module.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The module's description of itself, if it was loaded.
    pub description: Option<ModuleDescription>,
    /// The sizes that were measured.
    pub batches: Vec<MeasuredBatch>,
    /// Algorithms that the module lacks, and the reason.
    pub not_available: Vec<(String, String)>,
    /// Failures, each with its algorithm and size.
    pub failures: Vec<(Option<(String, u64)>, String)>,
    /// Notes that are not failures.
    pub notes: Vec<String>,
}

/// The times of a size.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredBatch {
    /// The CA algorithm.
    pub algorithm: String,
    /// The batch size.
    pub size: u64,
    /// The number of measured runs.
    pub runs: usize,
    /// The seconds of each stage, in the order of the table.
    pub seconds: Vec<Interval>,
    /// The seconds of all stages of a run.
    pub total: Interval,
    /// How much the totals of the runs differ: the range without the fastest and the slowest tenth,
    /// divided by the median.
    pub spread: f64,
    /// For each stage, the time divided by that of the baseline in the same round. Empty for the
    /// baseline.
    pub ratios: Vec<Interval>,
    /// The total time divided by that of the baseline in the same round. `None` for the baseline.
    pub total_ratio: Option<Interval>,
}

/// A module of the measurement with its result.
pub struct Participant<R> {
    /// The module. `None` after it was lost, or if it could not be started.
    pub runner: Option<R>,
    /// Its result.
    pub outcome: Outcome,
}

/// Measures all modules. The first one is the baseline.
pub fn measure<R: Runner>(
    participants: &mut [Participant<R>],
    plan: &Plan,
    watcher: &mut dyn Watcher,
) -> Result<(), crate::Error> {
    for algorithm in &plan.algorithms {
        let mut active: Vec<_> = (0..participants.len()).collect();
        let warm_up = Turn { algorithm: algorithm.clone(), size: WARM_UP, round: 0 };
        active.retain(|index| run_turn(&mut participants[*index], &warm_up, watcher).is_some());
        for size in &plan.sizes {
            if watcher.interrupted() {
                return Ok(());
            }
            measure_size(participants, &mut active, plan, (algorithm, *size), watcher)?;
            watcher.done(algorithm, *size);
        }
    }
    Ok(())
}

/// The runs of a module in the rounds of a size.
#[derive(Default)]
struct Runs {
    /// The run of each round in which the module took part.
    rounds: Vec<Option<Seconds>>,
    spent: Duration,
}

impl Runs {
    fn count(&self) -> usize {
        self.rounds.iter().flatten().count()
    }

    fn wants(&self, min_seconds: f64) -> bool {
        self.count() == 0
            || self.spent.as_secs_f64() < min_seconds
            || (self.count() < MIN_RUNS && self.spent < ENOUGH)
    }
}

fn measure_size<R: Runner>(
    participants: &mut [Participant<R>],
    active: &mut Vec<usize>,
    plan: &Plan,
    (algorithm, size): (&str, u64),
    watcher: &mut dyn Watcher,
) -> Result<(), crate::Error> {
    const BASELINE: usize = 0;
    let mut runs: Vec<Runs> = participants.iter().map(|_| Runs::default()).collect();
    for round in 1.. {
        let wanting: Vec<_> =
            active.iter().copied().filter(|index| runs[*index].wants(plan.min_seconds)).collect();
        if wanting.is_empty() || watcher.interrupted() {
            break;
        }
        let turn = Turn { algorithm: algorithm.to_owned(), size, round };
        let mut order: Vec<_> =
            active.iter().copied().filter(|index| *index == BASELINE || wanting.contains(index)).collect();
        // Rotate the order, so that no module always follows the same one.
        let first = round % order.len();
        order.rotate_left(first);
        for index in order {
            let start = Instant::now();
            let seconds = run_turn(&mut participants[index], &turn, watcher);
            if let Some(seconds) = &seconds {
                watcher.ran(&name(&participants[index]), &turn, seconds)?;
            }
            if seconds.is_none() {
                active.retain(|one| *one != index);
            }
            let runs = &mut runs[index];
            runs.spent += start.elapsed();
            runs.rounds.resize(round - 1, None);
            runs.rounds.push(seconds);
        }
    }
    let baseline = std::mem::take(&mut runs[BASELINE].rounds);
    for (index, participant) in participants.iter_mut().enumerate() {
        let measured = match index {
            BASELINE => MeasuredBatch::of(algorithm, size, &baseline, None),
            _ => MeasuredBatch::of(algorithm, size, &runs[index].rounds, Some(&baseline)),
        };
        participant.outcome.batches.extend(measured);
    }
    Ok(())
}

/// Runs a turn of a module, and records why it has no result.
fn run_turn<R: Runner>(
    participant: &mut Participant<R>,
    turn: &Turn,
    watcher: &mut dyn Watcher,
) -> Option<Seconds> {
    let runner = participant.runner.as_mut()?;
    watcher.begins(runner.name(), turn);
    let answer = runner.run(turn);
    let at = Some((turn.algorithm.clone(), turn.size));
    match answer {
        Answer::Ran(seconds) => return Some(seconds),
        Answer::NotAvailable(reason) => {
            participant.outcome.not_available.push((turn.algorithm.clone(), reason))
        }
        Answer::Failed(message) => participant.outcome.failures.push((at, message)),
        Answer::Lost(message) => {
            participant.runner = None;
            participant.outcome.failures.push((at, message));
        }
    }
    None
}

fn name<R: Runner>(participant: &Participant<R>) -> String {
    participant.runner.as_ref().map(|runner| runner.name().to_owned()).unwrap_or_default()
}

impl MeasuredBatch {
    /// Returns the medians of the runs, or `None` if there is no run.
    fn of(
        algorithm: &str,
        size: u64,
        rounds: &[Option<Seconds>],
        baseline: Option<&[Option<Seconds>]>,
    ) -> Option<Self> {
        let runs: Vec<&Seconds> = rounds.iter().flatten().collect();
        let total = |run: &Seconds| run.iter().sum::<f64>();
        let pairs: Vec<(&Seconds, &Seconds)> = baseline
            .into_iter()
            .flat_map(|baseline| rounds.iter().zip(baseline))
            .filter_map(|(run, baseline)| Some((run.as_ref()?, baseline.as_ref()?)))
            .collect();
        let totals: Vec<f64> = runs.iter().map(|run| total(run)).collect();
        let stages = 0..STAGES.len();
        let seconds = stages.clone().map(|stage| Interval::of(runs.iter().map(|run| run[stage]).collect()));
        let ratios = stages
            .map(|stage| Interval::of(pairs.iter().map(|(run, base)| run[stage] / base[stage]).collect()));
        Some(Self {
            algorithm: algorithm.to_owned(),
            size,
            runs: runs.len(),
            seconds: seconds.collect::<Option<_>>()?,
            total: Interval::of(totals.clone())?,
            spread: spread(totals)?,
            ratios: ratios.collect::<Option<_>>().unwrap_or_default(),
            total_ratio: Interval::of(pairs.iter().map(|(run, base)| total(run) / total(base)).collect()),
        })
    }
}

fn spread(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 10;
    let last = values.len().checked_sub(1)?;
    Some((values[last - cut] - values[cut]) / values[last / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module whose stages each take this time in the rounds from 1 on.
    struct Fake {
        name: &'static str,
        stage: f64,
        answer: fn(&Turn, f64) -> Answer,
    }

    impl Runner for Fake {
        fn name(&self) -> &str {
            self.name
        }

        fn run(&mut self, turn: &Turn) -> Answer {
            (self.answer)(turn, self.stage)
        }
    }

    #[derive(Default)]
    struct Notes {
        turns: Vec<(String, u64, usize)>,
        stop_after: Option<usize>,
    }

    impl Watcher for Notes {
        fn begins(&mut self, module: &str, turn: &Turn) {
            self.turns.push((module.to_owned(), turn.size, turn.round));
        }

        fn ran(&mut self, _: &str, _: &Turn, _: &Seconds) -> Result<(), crate::Error> {
            Ok(())
        }

        fn done(&mut self, _: &str, _: u64) {}

        fn interrupted(&self) -> bool {
            self.stop_after.is_some_and(|count| self.turns.len() >= count)
        }
    }

    /// The machine gets slower from round to round.
    fn drifts(turn: &Turn, stage: f64) -> Answer {
        Answer::Ran([stage * (1.0 + turn.round as f64); STAGES.len()])
    }

    fn participants(fakes: Vec<Fake>) -> Vec<Participant<Fake>> {
        fakes
            .into_iter()
            .map(|fake| Participant { runner: Some(fake), outcome: Outcome::default() })
            .collect()
    }

    fn plan() -> Plan {
        Plan { algorithms: vec!["ed25519".to_owned()], sizes: vec![8], min_seconds: 0.0 }
    }

    #[test]
    fn a_ratio_compares_runs_of_the_same_round() {
        let mut participants = participants(vec![
            Fake { name: "base", stage: 1.0, answer: drifts },
            Fake { name: "module", stage: 1.5, answer: drifts },
        ]);
        let mut notes = Notes::default();
        measure(&mut participants, &plan(), &mut notes).expect("no watcher fails");
        let of = |participant: usize| &participants[participant].outcome.batches[0];
        assert_eq!((of(0).runs, of(1).runs), (MIN_RUNS, MIN_RUNS));
        assert!(of(0).ratios.is_empty());
        assert_eq!(of(1).ratios[3], Interval { median: 1.5, low: 1.5, high: 1.5 });
        assert_eq!(of(1).total_ratio.map(|ratio| ratio.median), Some(1.5));
        let order: Vec<_> = notes.turns.iter().map(|(name, _, round)| (&**name, *round)).collect();
        assert_eq!(
            order[..6],
            [("base", 0), ("module", 0), ("module", 1), ("base", 1), ("base", 2), ("module", 2)]
        );
    }

    #[test]
    fn the_spread_leaves_out_outliers() {
        let mut values = vec![1.0; 20];
        values[7] = 9.0;
        assert_eq!(spread(values), Some(0.0));
        assert_eq!(spread(vec![1.0, 2.0, 3.0]), Some(1.0));
    }

    #[test]
    fn a_lost_module_takes_no_more_turns() {
        let dies = |turn: &Turn, _: f64| match turn.round {
            2 => Answer::Lost("killed".to_owned()),
            _ => Answer::Ran([1.0; STAGES.len()]),
        };
        let mut participants = participants(vec![
            Fake { name: "base", stage: 1.0, answer: drifts },
            Fake { name: "module", stage: 1.0, answer: dies },
        ]);
        let plan = Plan { sizes: vec![8, 16], ..plan() };
        measure(&mut participants, &plan, &mut Notes::default()).expect("no watcher fails");
        let outcome = &participants[1].outcome;
        assert_eq!(
            outcome.batches.iter().map(|batch| (batch.size, batch.runs)).collect::<Vec<_>>(),
            [(8, 1)]
        );
        assert_eq!(outcome.failures, [(Some(("ed25519".to_owned(), 8)), "killed".to_owned())]);
        assert_eq!(participants[0].outcome.batches.len(), 2);
    }

    #[test]
    fn an_algorithm_that_a_module_lacks_is_tried_once() {
        let lacks = |_: &Turn, _: f64| Answer::NotAvailable("no CKM_EDDSA".to_owned());
        let mut participants = participants(vec![
            Fake { name: "base", stage: 1.0, answer: drifts },
            Fake { name: "module", stage: 1.0, answer: lacks },
        ]);
        let mut notes = Notes::default();
        measure(&mut participants, &plan(), &mut notes).expect("no watcher fails");
        assert_eq!(
            participants[1].outcome.not_available,
            [("ed25519".to_owned(), "no CKM_EDDSA".to_owned())]
        );
        assert_eq!(notes.turns.iter().filter(|(name, ..)| name == "module").count(), 1);
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let mut participants = participants(vec![Fake { name: "base", stage: 1.0, answer: drifts }]);
        let plan = Plan { sizes: vec![1, 2, 4], ..plan() };
        let mut notes = Notes { stop_after: Some(6), ..Notes::default() };
        measure(&mut participants, &plan, &mut notes).expect("no watcher fails");
        let sizes: Vec<_> =
            participants[0].outcome.batches.iter().map(|batch| (batch.size, batch.runs)).collect();
        assert_eq!(sizes, [(1, 3), (2, 2)]);
    }
}
