//! Measures all modules in turns: in each round the baseline and every module that needs more runs
//! do one run of the same work (a batch, or a case of TLS). A disturbance of a
//! shared machine then affects all of them, and a ratio compares runs of the same rounds.

use std::time::{Duration, Instant};

use jeton_laboratory::{Interval, Ratio, spread};
use serde::Serialize;

use super::undisturbed::{ratios, total};
use super::{ModuleDescription, STAGES, Times, Turn, Work};
use crate::Result;

/// The smallest number of rounds of a batch that is not slow. Fewer runs have no 95 % interval.
const MIN_RUNS: usize = 6;
/// Fewer than [`MIN_RUNS`] rounds are enough if the runs of a module have taken this multiple of
/// [`Plan::min_seconds`], but at least and at most [`ENOUGH_SECONDS`].
const ENOUGH_FACTOR: f64 = 30.0;
/// See [`ENOUGH_FACTOR`].
const ENOUGH_SECONDS: [f64; 2] = [2.0, 15.0];
/// The smallest number of rounds of a batch, however slow it is. Other work may slow all of one
/// run.
const FEWEST_RUNS: usize = 3;
/// With this number of rounds, a ratio hardly changes from one measurement to the next, also for a
/// batch of one certificate, whose stages have one part each.
const STEADY_RUNS: usize = 100;
/// Fewer than [`STEADY_RUNS`] rounds are enough if the runs of a module have taken this multiple of
/// [`Plan::min_seconds`], or [`STEADY_SECONDS`] if that is less.
const STEADY_FACTOR: f64 = 8.0;
/// See [`STEADY_FACTOR`].
const STEADY_SECONDS: f64 = 4.0;
/// The size of the batch before the measurement. It loads code, fills pools and opens files.
const WARM_UP: u64 = 4;

pub trait Runner<W: Work> {
    fn run(&mut self, turn: &W) -> Answer<W::Sample>;
}

#[derive(Clone, Debug)]
pub enum Answer<S> {
    /// The values that the run measured.
    Ran(S),
    /// The module lacks what the algorithm needs, for this reason.
    NotAvailable(String),
    /// The turn failed, with this message. The module takes turns again in the next group.
    Failed(String),
    /// The module takes no more turns, for this reason.
    Lost(String),
}

/// The work of a measurement, and its limit.
#[derive(Clone, Debug)]
pub struct Plan<W> {
    /// The work in groups. A module that has no result for the warm-up of a group takes no turns
    /// in the group.
    pub groups: Vec<Group<W>>,
    /// The least time of the runs of a module, for each piece of work.
    pub min_seconds: f64,
    /// The smallest number of rounds, however long the runs take.
    pub fewest_runs: usize,
    /// The smallest number of rounds of work that is not slow, so that one slow run does not change
    /// the median much.
    pub min_runs: usize,
    /// Fewer rounds than `min_runs` are enough if the runs of a module have taken this long in
    /// total.
    pub enough: Duration,
    /// A module with fewer runs than this continues for longer than `min_seconds`, up to a limit.
    pub steady_runs: usize,
}

#[derive(Clone, Debug)]
pub struct Group<W> {
    pub warm_up: W,
    pub work: Vec<W>,
}

impl<W> Plan<W> {
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.work.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Plan<Turn> {
    pub fn batches(algorithms: &[String], sizes: &[u64], min_seconds: f64) -> Self {
        let group = |algorithm: &String| {
            let batch = |size| Turn { algorithm: algorithm.clone(), size, round: 0 };
            Group { warm_up: batch(WARM_UP), work: sizes.iter().copied().map(batch).collect() }
        };
        let groups = algorithms.iter().map(group).collect();
        let [least, most] = ENOUGH_SECONDS;
        let enough = Duration::from_secs_f64((ENOUGH_FACTOR * min_seconds).clamp(least, most));
        Self {
            groups,
            min_seconds,
            fewest_runs: FEWEST_RUNS,
            min_runs: MIN_RUNS,
            enough,
            steady_runs: STEADY_RUNS,
        }
    }
}

pub trait Watcher<W: Work> {
    fn begins(&mut self, module: &str, turn: &W);
    /// A run is measured. An error ends the measurement.
    fn ran(&mut self, module: &str, turn: &W, round: usize, sample: &W::Sample) -> Result<()>;
    /// All modules are done with a piece of work.
    fn done(&mut self);
    /// Returns whether the user wants the measurement to end now.
    fn interrupted(&self) -> bool;
}

/// What a module measured, as the report shows it.
#[derive(Debug, Serialize)]
pub struct Outcome<M> {
    pub name: String,
    /// The module's description of itself, if it was loaded.
    pub description: Option<ModuleDescription>,
    pub measured: Vec<M>,
    /// Algorithms that the module lacks, with the missing mechanism or function.
    pub not_available: Vec<(String, String)>,
    pub failures: Vec<String>,
    pub notes: Vec<String>,
}

impl<M> Outcome<M> {
    pub fn of(name: String, description: Option<ModuleDescription>) -> Self {
        let (measured, not_available) = (Vec::new(), Vec::new());
        Self { name, description, measured, not_available, failures: Vec::new(), notes: Vec::new() }
    }
}

/// The times of a batch size with one algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredBatch {
    /// The CA's algorithm, or a profile such as `rsa4096/ecdsa-p256`.
    pub algorithm: String,
    pub size: u64,
    pub runs: usize,
    /// The seconds of each stage, in the order of [`STAGES`].
    pub seconds: Vec<Interval>,
    pub total: Interval,
    /// How much the totals of the runs differ: the range without the fastest and the slowest tenth,
    /// divided by the median.
    pub spread: f64,
    /// For each stage, the time of the parts that no other program slowed, divided by that of the
    /// baseline in the same rounds. `None` for the baseline, for the stages that never call the
    /// module, and if the baseline's runs differ too much.
    pub ratios: Vec<Option<Ratio>>,
    /// The undisturbed time of all stages divided by that of the baseline in the same rounds.
    /// `None` for the baseline, and if its runs differ too much.
    pub total_ratio: Option<Ratio>,
}

pub struct Participant<R, W: Work> {
    /// The module. `None` after it was lost, or if it could not be started.
    pub runner: Option<R>,
    pub outcome: Outcome<W::Measured>,
}

/// Measures all modules. The first one is the baseline.
pub fn measure<W: Work, R: Runner<W>>(
    participants: &mut [Participant<R, W>],
    plan: &Plan<W>,
    watcher: &mut dyn Watcher<W>,
) -> Result<()> {
    for group in &plan.groups {
        let mut active: Vec<_> = (0..participants.len()).collect();
        active.retain(|index| run_turn(&mut participants[*index], &group.warm_up, watcher).is_some());
        for work in &group.work {
            if watcher.interrupted() {
                return Ok(());
            }
            measure_work(participants, &mut active, plan, work, watcher)?;
            watcher.done();
        }
    }
    Ok(())
}

/// The runs of a module in the rounds of a piece of work.
struct Runs<S> {
    /// The run of each round, or `None` if the module has no result in the round.
    rounds: Vec<Option<S>>,
    spent: Duration,
}

impl<S> Default for Runs<S> {
    fn default() -> Self {
        Self { rounds: Vec::new(), spent: Duration::ZERO }
    }
}

impl<S> Runs<S> {
    fn count(&self) -> usize {
        self.rounds.iter().flatten().count()
    }

    fn wants<W>(&self, plan: &Plan<W>) -> bool {
        let (count, spent) = (self.count(), self.spent.as_secs_f64());
        let steady = (STEADY_FACTOR * plan.min_seconds).min(STEADY_SECONDS);
        count < plan.fewest_runs
            || spent < plan.min_seconds
            || (count < plan.min_runs && self.spent < plan.enough)
            || (count < plan.steady_runs && spent < steady)
    }
}

fn measure_work<W: Work, R: Runner<W>>(
    participants: &mut [Participant<R, W>],
    active: &mut Vec<usize>,
    plan: &Plan<W>,
    work: &W,
    watcher: &mut dyn Watcher<W>,
) -> Result<()> {
    const BASELINE: usize = 0;
    let mut runs: Vec<Runs<W::Sample>> = participants.iter().map(|_| Runs::default()).collect();
    for round in 1.. {
        let wanting: Vec<_> = active.iter().copied().filter(|index| runs[*index].wants(plan)).collect();
        if wanting.is_empty() || watcher.interrupted() {
            break;
        }
        let turn = work.in_round(round);
        let mut order: Vec<_> =
            active.iter().copied().filter(|index| *index == BASELINE || wanting.contains(index)).collect();
        // Rotate the order, so that the modules take turns in beginning a round.
        let first = round % order.len();
        order.rotate_left(first);
        for index in order {
            let start = Instant::now();
            let sample = run_turn(&mut participants[index], &turn, watcher);
            if let Some(sample) = &sample {
                watcher.ran(&participants[index].outcome.name, &turn, round, sample)?;
            }
            if sample.is_none() {
                active.retain(|one| *one != index);
            }
            let runs = &mut runs[index];
            runs.spent += start.elapsed();
            runs.rounds.resize(round - 1, None);
            runs.rounds.push(sample);
        }
    }
    let baseline = std::mem::take(&mut runs[BASELINE].rounds);
    for (index, participant) in participants.iter_mut().enumerate() {
        let measured = match index {
            BASELINE => work.summarise(&baseline, None),
            _ => work.summarise(&runs[index].rounds, Some(&baseline)),
        };
        participant.outcome.measured.extend(measured);
    }
    Ok(())
}

/// Runs a turn of a module, and records why it has no result.
fn run_turn<W: Work, R: Runner<W>>(
    participant: &mut Participant<R, W>,
    turn: &W,
    watcher: &mut dyn Watcher<W>,
) -> Option<W::Sample> {
    let Participant { runner: place, outcome } = participant;
    let runner = place.as_mut()?;
    watcher.begins(&outcome.name, turn);
    match runner.run(turn) {
        Answer::Ran(sample) => return Some(sample),
        Answer::NotAvailable(reason) => {
            let lack = (turn.algorithm(), reason);
            if !outcome.not_available.contains(&lack) {
                outcome.not_available.push(lack);
            }
        }
        Answer::Failed(message) => outcome.failures.push(format!("{turn}: {message}")),
        Answer::Lost(message) => {
            *place = None;
            outcome.failures.push(format!("{turn}: {message}"));
        }
    }
    None
}

impl Work for Turn {
    type Sample = Times;
    type Measured = MeasuredBatch;

    const ROLE: crate::role::Role = crate::role::Role::Pipeline;
    const SCENARIO: &'static str = "pipeline";

    fn algorithm(&self) -> String {
        self.algorithm.clone()
    }

    fn in_round(&self, round: usize) -> Self {
        Self { round, ..self.clone() }
    }

    fn summarise(
        &self,
        rounds: &[Option<Times>],
        baseline: Option<&[Option<Times>]>,
    ) -> Option<MeasuredBatch> {
        let runs: Vec<&Times> = rounds.iter().flatten().collect();
        let both = rounds.iter().zip(baseline.unwrap_or_default());
        let pairs: Vec<_> =
            both.filter_map(|(run, baseline)| Some((run.as_ref()?, baseline.as_ref()?))).collect();
        let totals: Vec<f64> = runs.iter().map(|run| total(run)).collect();
        let of_stage = |stage: usize| Interval::of(runs.iter().map(|run| run[stage].seconds).collect());
        let seconds = (0..STAGES.len()).map(of_stage);
        let ratios = ratios(&pairs);
        Some(MeasuredBatch {
            algorithm: self.algorithm.clone(),
            size: self.size,
            runs: runs.len(),
            seconds: seconds.collect::<Option<_>>()?,
            total: Interval::of(totals.clone())?,
            spread: spread(totals)?,
            ratios: ratios.stages,
            total_ratio: ratios.total,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::StageTimes;

    /// A module that answers with a function of the turn and of `stage`, the time of a stage.
    struct Fake {
        name: &'static str,
        stage: f64,
        answer: fn(&Turn, f64) -> Answer<Times>,
    }

    impl Runner<Turn> for Fake {
        fn run(&mut self, turn: &Turn) -> Answer<Times> {
            (self.answer)(turn, self.stage)
        }
    }

    #[derive(Default)]
    struct Notes {
        turns: Vec<(String, u64, usize)>,
        stop_after: Option<usize>,
    }

    impl Watcher<Turn> for Notes {
        fn begins(&mut self, module: &str, turn: &Turn) {
            self.turns.push((module.to_owned(), turn.size, turn.round));
        }

        fn ran(&mut self, _: &str, _: &Turn, _: usize, _: &Times) -> Result<()> {
            Ok(())
        }

        fn done(&mut self) {}

        fn interrupted(&self) -> bool {
            self.stop_after.is_some_and(|count| self.turns.len() >= count)
        }
    }

    /// The machine gets slower from round to round.
    fn drifts(turn: &Turn, stage: f64) -> Answer<Times> {
        Answer::Ran(times(stage * (9.0 + turn.round as f64)))
    }

    /// Returns a run whose stages take `seconds` each.
    fn times(seconds: f64) -> Times {
        std::array::from_fn(|_| StageTimes { seconds, parts: Vec::new() })
    }

    /// Returns a base that drifts, and `module`.
    fn participants(module: Option<Fake>) -> Vec<Participant<Fake, Turn>> {
        let start = |fake: Fake| {
            let outcome = Outcome::of(fake.name.to_owned(), None);
            Participant { runner: Some(fake), outcome }
        };
        let base = Fake { name: "base", stage: 1.0, answer: drifts };
        std::iter::once(base).chain(module).map(start).collect()
    }

    fn plan(sizes: &[u64]) -> Plan<Turn> {
        Plan::batches(&["ed25519".to_owned()], sizes, 0.0)
    }

    #[test]
    fn a_ratio_compares_runs_of_the_same_rounds() {
        let mut participants = participants(Some(Fake { name: "module", stage: 1.5, answer: drifts }));
        let mut notes = Notes::default();
        measure(&mut participants, &plan(&[8]), &mut notes).expect("no watcher fails");
        let of = |participant: usize| &participants[participant].outcome.measured[0];
        assert_eq!((of(0).runs, of(1).runs), (MIN_RUNS, MIN_RUNS));
        assert!(of(0).ratios.iter().all(Option::is_none));
        assert_eq!(of(1).ratios[3].map(|ratio| ratio.quotient.value), Some(1.5));
        // `db_read_certs` never calls the module.
        assert_eq!(of(1).ratios[4], None);
        assert_eq!(of(1).total_ratio.map(|ratio| ratio.quotient.value), Some(1.5));
        let order: Vec<_> = notes.turns.iter().map(|(name, _, round)| (&**name, *round)).collect();
        assert_eq!(
            order[..6],
            [("base", 0), ("module", 0), ("module", 1), ("base", 1), ("base", 2), ("module", 2)]
        );
    }

    #[test]
    fn short_runs_are_repeated_until_the_median_is_steady() {
        let runs =
            |count, millis| Runs { rounds: vec![Some(()); count], spent: Duration::from_millis(millis) };
        let plan = |min_seconds| Plan::batches(&[], &[], min_seconds);
        assert!(runs(99, 3_900).wants(&plan(0.5)));
        assert!(!runs(100, 3_900).wants(&plan(0.5)));
        assert!(!runs(99, 4_000).wants(&plan(0.5)));
        assert!(runs(5, 1_900).wants(&plan(0.0)));
        assert!(!runs(5, 2_000).wants(&plan(0.0)));
        assert!(runs(5, 14_900).wants(&plan(1.0)));
        assert!(!runs(5, 15_000).wants(&plan(1.0)));
        assert!(!runs(6, 10).wants(&plan(0.0)));
        assert!(runs(2, 60_000).wants(&plan(0.0)));
    }

    #[test]
    fn a_lost_module_takes_no_more_turns() {
        let dies = |turn: &Turn, _: f64| match turn.round {
            2 => Answer::Lost("killed".to_owned()),
            _ => Answer::Ran(times(1.0)),
        };
        let mut participants = participants(Some(Fake { name: "module", stage: 1.0, answer: dies }));
        let plan = plan(&[8, 16]);
        measure(&mut participants, &plan, &mut Notes::default()).expect("no watcher fails");
        let outcome = &participants[1].outcome;
        assert_eq!(
            outcome.measured.iter().map(|batch| (batch.size, batch.runs)).collect::<Vec<_>>(),
            [(8, 1)]
        );
        assert_eq!(outcome.failures, ["ed25519, batch of 8, round 2: killed"]);
        assert_eq!(participants[0].outcome.measured.len(), 2);
    }

    #[test]
    fn an_algorithm_that_a_module_lacks_is_tried_once() {
        let lacks = |_: &Turn, _: f64| Answer::NotAvailable("no CKM_EDDSA".to_owned());
        let mut participants = participants(Some(Fake { name: "module", stage: 1.0, answer: lacks }));
        let mut notes = Notes::default();
        measure(&mut participants, &plan(&[8]), &mut notes).expect("no watcher fails");
        assert_eq!(
            participants[1].outcome.not_available,
            [("ed25519".to_owned(), "no CKM_EDDSA".to_owned())]
        );
        assert_eq!(notes.turns.iter().filter(|(name, ..)| name == "module").count(), 1);
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        let mut participants = participants(None);
        let plan = plan(&[1, 2, 4]);
        // One turn warms up.
        let mut notes = Notes { stop_after: Some(1 + MIN_RUNS + 2), ..Notes::default() };
        measure(&mut participants, &plan, &mut notes).expect("no watcher fails");
        let sizes: Vec<_> =
            participants[0].outcome.measured.iter().map(|batch| (batch.size, batch.runs)).collect();
        assert_eq!(sizes, [(1, MIN_RUNS), (2, 2)]);
    }
}
