//! What all workers share: the tries of PINs, and the runs of their KDF. A question waits here
//! until it has an answer, and what it got is given back when the worker says so, or ends.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use jeton::functions::{PinMark, User};
use zeroize::Zeroizing;

use crate::link::{Answer, Outcome};
use crate::wrong_pins::{MOST_WRONG, PAUSE, WRONG};

/// Who asks: the number of a worker, and that of its question.
pub(super) type Asker = (u64, u64);

/// An answer to a question of a worker.
pub(super) type Answers = Vec<(Asker, Answer)>;

/// The tries of a client for a user of a token. Each that runs counts as a wrong one until its end,
/// and for good if its worker ends before.
#[derive(Default)]
struct Tries {
    wrong: usize,
    last_wrong: Option<Instant>,
    running: Vec<Asker>,
    waiting: VecDeque<Asker>,
}

impl Tries {
    /// Answers those of which the outcome of others decides no longer.
    fn settle(&mut self, answers: &mut Answers) {
        if self.last_wrong.is_none_or(|last| last.elapsed() > PAUSE) {
            self.wrong = 0;
        }
        while let Some(asker) = self.waiting.front().copied() {
            let answer = if self.wrong >= MOST_WRONG {
                Answer::Refused
            } else if self.wrong + self.running.len() < MOST_WRONG {
                self.running.push(asker);
                Answer::Granted
            } else {
                return;
            };
            self.waiting.pop_front();
            answers.push((asker, answer));
        }
    }

    /// Returns whether a wrong PIN still counts.
    fn has_wrong(&self) -> bool {
        self.wrong != 0 && self.last_wrong.is_some_and(|last| last.elapsed() <= PAUSE)
    }

    /// Ends a try; `None` if its worker has ended.
    fn end(&mut self, outcome: Option<Outcome>) {
        match outcome {
            Some(Outcome::Right) => self.wrong = 0,
            Some(Outcome::Wrong) | None => {
                self.wrong += 1;
                self.last_wrong = Some(Instant::now());
            }
            Some(Outcome::Neither) => {}
        }
    }
}

/// A PIN: the serial number of its token, its user, and its mark. A new PIN has its own tries.
pub(super) type Pin = (String, User, PinMark);

/// The tries of all clients, by the name of an owner and the PIN.
#[derive(Default)]
pub(super) struct Pins {
    clients: HashMap<String, HashMap<Pin, Tries>>,
    /// The logins with PINs of rules, by the owner and the token.
    own: HashMap<(String, String), Own>,
    /// The PINs of rules that were wrong for a token while the user's PIN has this mark. No other
    /// owner tries one again.
    wrong: HashMap<String, Wrong>,
}

/// The most PINs that are counted for a client, and the most tokens of which the agent tries PINs
/// of rules.
const MOST_TOKENS: usize = 4096;

/// The logins of an owner with PINs of rules to a token. Many sessions that open at once try a PIN
/// once.
#[derive(Default)]
struct Own {
    running: Option<Login>,
    waiting: VecDeque<Login>,
}

/// A login with the PIN of a client's rule.
pub(super) struct Login {
    pub(super) asker: Asker,
    pub(super) owner: String,
    pub(super) mark: PinMark,
    pub(super) pin: Zeroizing<Vec<u8>>,
}

type Wrong = (PinMark, Vec<Zeroizing<Vec<u8>>>);

impl Own {
    fn settle(&mut self, wrong: Option<&Wrong>, answers: &mut Answers) {
        while self.running.is_none()
            && let Some(login) = self.waiting.pop_front()
        {
            if wrong.is_some_and(|(mark, pins)| *mark == login.mark && pins.contains(&login.pin)) {
                answers.push((login.asker, Answer::NoPin(WRONG.to_owned())));
            } else {
                answers.push((login.asker, Answer::Pin(login.pin.to_vec())));
                self.running = Some(login);
            }
        }
    }
}

impl Pins {
    fn tries(&mut self, client: &str, pin: Pin) -> Option<&mut Tries> {
        let pins = self.clients.entry(client.to_owned()).or_default();
        (pins.len() < MOST_TOKENS || pins.contains_key(&pin)).then(|| pins.entry(pin).or_default())
    }

    /// A client wants to try a PIN.
    pub(super) fn begin(&mut self, asker: Asker, client: &str, pin: Pin) -> Answers {
        let mut answers = Vec::new();
        let Some(tries) = self.tries(client, pin) else { return vec![(asker, Answer::Refused)] };
        tries.waiting.push_back(asker);
        tries.settle(&mut answers);
        answers
    }

    /// A client wants the PIN of its rule. It gets none after its workers ended in several such
    /// logins: the token counts these.
    pub(super) fn begin_own(&mut self, login: Login, token: String) -> Answers {
        let mut answers = Vec::new();
        let is_left = |tries: &mut Tries| {
            tries.settle(&mut answers);
            tries.wrong < MOST_WRONG
        };
        let pin = (token.clone(), User::User, login.mark);
        let is_left = self.tries(&login.owner, pin).is_some_and(is_left);
        if !is_left {
            answers.push((login.asker, Answer::NoPin("no try is left for ten minutes".to_owned())));
            return answers;
        }
        let own = self.own.entry((login.owner.clone(), token.clone())).or_default();
        own.waiting.push_back(login);
        own.settle(self.wrong.get(&token), &mut answers);
        answers
    }

    /// Forgets what a worker waits for.
    pub(super) fn leave(&mut self, worker: u64) {
        for tries in self.clients.values_mut().flat_map(HashMap::values_mut) {
            tries.waiting.retain(|asker| asker.0 != worker);
        }
        for own in self.own.values_mut() {
            own.waiting.retain(|login| login.asker.0 != worker);
        }
    }

    /// Returns whether a wrong PIN still counts.
    pub(super) fn is_wanted(&self) -> bool {
        self.clients.values().flat_map(HashMap::values).any(Tries::has_wrong)
    }

    /// Forgets the PINs of which no try runs, waits or counts.
    pub(super) fn forget(&mut self) {
        self.clients.retain(|_, pins| {
            pins.retain(|_, tries| {
                tries.has_wrong() || !tries.running.is_empty() || !tries.waiting.is_empty()
            });
            !pins.is_empty()
        });
    }

    /// Ends the tries for which `is_it` holds; without an outcome if their worker has ended.
    pub(super) fn end(&mut self, is_it: impl Fn(&Asker) -> bool, outcome: Option<Outcome>) -> Answers {
        let mut answers = Vec::new();
        for tries in self.clients.values_mut().flat_map(HashMap::values_mut) {
            let before = (tries.running.len(), tries.waiting.len());
            tries.waiting.retain(|asker| !is_it(asker));
            tries.running.retain(|asker| !is_it(asker));
            for _ in tries.running.len()..before.0 {
                tries.end(outcome);
            }
            if before != (tries.running.len(), tries.waiting.len()) {
                tries.settle(&mut answers);
            }
        }
        for ((owner, token), own) in &mut self.own {
            own.waiting.retain(|login| !is_it(&login.asker));
            if let Some(login) = own.running.take_if(|login| is_it(&login.asker)) {
                match outcome {
                    Some(Outcome::Wrong) => {
                        if self.wrong.len() >= MOST_TOKENS {
                            self.wrong.clear();
                        }
                        let (mark, pins) = self.wrong.entry(token.clone()).or_default();
                        if *mark != login.mark {
                            (*mark, *pins) = (login.mark, Vec::new());
                        }
                        pins.push(login.pin);
                    }
                    Some(_) => {}
                    None => {
                        let tries = self.clients.entry(owner.clone()).or_default();
                        tries.entry((token.clone(), User::User, login.mark)).or_default().end(None);
                    }
                }
            }
            own.settle(self.wrong.get(token), &mut answers);
        }
        self.own.retain(|_, own| own.running.is_some());
        answers
    }
}

/// How long a run takes one of the processors. A client may keep its own run as long as it wants:
/// it starves it by other threads.
const HELD: Duration = Duration::from_secs(2);

/// The runs of the KDF of PINs. Each takes a processor, and its memory. So that no owner delays the
/// logins of others, one has at most half of them, and those that wait take turns by owner.
pub(super) struct Runs {
    most: usize,
    running: Vec<Run>,
    waiting: VecDeque<(Asker, String)>,
    /// When the owners that run or wait were granted their last run, as a number that grows.
    turns: HashMap<String, u64>,
    last: u64,
}

/// A run that was granted.
struct Run {
    asker: Asker,
    owner: String,
    since: Instant,
}

impl Runs {
    pub(super) fn new() -> Self {
        Self::with(thread::available_parallelism().map_or(1, NonZero::get))
    }

    fn with(most: usize) -> Self {
        let (running, waiting, turns, last) = Default::default();
        Self { most, running, waiting, turns, last }
    }

    pub(super) fn begin(&mut self, asker: Asker, owner: &str) -> Answers {
        self.waiting.push_back((asker, owner.to_owned()));
        self.settle(Instant::now())
    }

    pub(super) fn end(&mut self, is_it: impl Fn(&Asker) -> bool) -> Answers {
        self.waiting.retain(|(asker, _)| !is_it(asker));
        self.running.retain(|run| !is_it(&run.asker));
        self.settle(Instant::now())
    }

    /// Forgets what a worker waits for.
    pub(super) fn leave(&mut self, worker: u64) {
        self.waiting.retain(|(asker, _)| asker.0 != worker);
    }

    /// Grants what is free at this time.
    pub(super) fn settle(&mut self, now: Instant) -> Answers {
        let mut answers = Vec::new();
        // Runs that are held too long have their memory: as much as four of each processor have.
        let is_free = |running: &[Run]| {
            running.len() < 4 * self.most
                && running.iter().filter(|run| now.duration_since(run.since) < HELD).count() < self.most
        };
        while is_free(&self.running) {
            let of = |owner: &str| self.running.iter().filter(|run| run.owner == owner).count();
            // The owner with the fewest runs is next, of these the one whose last run is the
            // longest ago, and its oldest question.
            let next = (0..self.waiting.len()).min_by_key(|at| {
                let owner = &self.waiting[*at].1;
                (of(owner), self.turns.get(owner).copied().unwrap_or(0))
            });
            let most = (self.most / 2).max(1);
            let Some(next) = next.filter(|at| of(&self.waiting[*at].1) < most) else { break };
            let Some((asker, owner)) = self.waiting.remove(next) else { break };
            self.last += 1;
            self.turns.insert(owner.clone(), self.last);
            self.running.push(Run { asker, owner, since: now });
            answers.push((asker, Answer::Granted));
        }
        let (running, waiting) = (&self.running, &self.waiting);
        self.turns.retain(|owner, _| {
            running.iter().any(|run| run.owner == *owner) || waiting.iter().any(|(_, of)| of == owner)
        });
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_for_its_own_runs_only() {
        let mut runs = Runs::with(4);
        for question in 0..5 {
            let answers = runs.begin((1, question), "one");
            assert_eq!(answers.len(), usize::from(question < 2), "{question}");
        }
        assert_eq!(runs.begin((2, 0), "two").len(), 1);
        assert_eq!(runs.begin((2, 1), "two").len(), 1);
        assert!(runs.begin((3, 0), "three").is_empty());
        // The calls of a worker that stops wait for nothing.
        assert!(runs.begin((4, 0), "four").is_empty());
        runs.leave(4);
        // The client without a run is before those that wait longer.
        let answers = runs.end(|asker| *asker == (1, 0));
        assert!(matches!(answers[..], [((3, 0), Answer::Granted)]));
        // A worker that ends gives back all that it has.
        let answers = runs.end(|(worker, _)| *worker == 1);
        assert!(answers.is_empty() && runs.waiting.is_empty() && runs.running.len() == 3);
    }

    #[test]
    fn owners_that_wait_take_turns() {
        let mut runs = Runs::with(1);
        let granted = |answers: Answers| answers.into_iter().map(|(asker, _)| asker).collect::<Vec<_>>();
        for question in 0..9 {
            runs.begin((1, question), "one");
            runs.begin((2, question), "two");
        }
        assert!(granted(runs.begin((3, 0), "three")).is_empty());
        assert_eq!(granted(runs.end(|asker| *asker == (1, 0))), [(2, 0)]);
        assert_eq!(granted(runs.end(|asker| *asker == (2, 0))), [(3, 0)]);
    }

    #[test]
    fn a_run_that_is_held_delays_no_other_owner() {
        let mut runs = Runs::with(2);
        runs.begin((1, 0), "one");
        runs.begin((2, 0), "two");
        assert!(runs.begin((3, 0), "three").is_empty() && runs.begin((1, 1), "one").is_empty());
        let later = Instant::now() + HELD;
        assert!(matches!(runs.settle(later)[..], [((3, 0), Answer::Granted)]));
        // The memory of held runs has a limit.
        for owner in 4..100 {
            runs.begin((u64::from(owner), 0), &owner.to_string());
            runs.settle(later + owner * HELD);
        }
        assert_eq!(runs.running.len(), 8);
        assert_eq!(runs.running.iter().filter(|run| run.owner == "one").count(), 1);
    }

    #[test]
    fn a_try_counts_until_it_turns_out_right() {
        let mut pins = Pins::default();
        let pin = |mark| ("0123".to_owned(), User::User, [mark; 16]);
        let begin = |pins: &mut Pins, asker| pins.begin(asker, "one", pin(1));
        for question in 0..7 {
            let answers = begin(&mut pins, (1, question));
            assert_eq!(answers.len(), usize::from(question < 5), "{question}");
        }
        // One of those that wait may try.
        let answers = pins.end(|asker| *asker == (1, 0), Some(Outcome::Right));
        assert!(matches!(answers[..], [((1, 5), Answer::Granted)]));
        // A worker that dies has used its tries.
        assert!(pins.end(|(worker, _)| *worker == 1, None).is_empty());
        assert!(matches!(begin(&mut pins, (2, 0))[..], [((2, 0), Answer::Refused)]));
        let other = pins.begin((2, 1), "two", pin(1));
        assert!(matches!(other[..], [((2, 1), Answer::Granted)]));
        // The PIN was set again: the tries of the old one do not count.
        let new = pins.begin((2, 2), "one", pin(2));
        assert!(matches!(new[..], [((2, 2), Answer::Granted)]));
    }

    #[test]
    fn tokens_are_forgotten_whose_tries_count_no_longer() {
        let mut pins = Pins::default();
        let tokens = ["right", "wrong", "running"];
        for (question, token) in (0..).zip(tokens) {
            let pin = (token.to_owned(), User::User, [1; 16]);
            assert_eq!(pins.begin((1, question), "one", pin).len(), 1);
        }
        pins.begin((2, 0), "two", ("right".to_owned(), User::User, [1; 16]));
        for (asker, outcome) in [((1, 0), Outcome::Right), ((1, 1), Outcome::Wrong), ((2, 0), Outcome::Right)]
        {
            pins.end(|of| *of == asker, Some(outcome));
        }
        pins.forget();
        let mut left: Vec<_> = pins.clients["one"].keys().map(|(token, ..)| token.as_str()).collect();
        left.sort_unstable();
        assert_eq!((left, pins.clients.len()), (vec!["running", "wrong"], 1));
    }

    #[test]
    fn a_wrong_pin_of_a_rule_is_tried_once() {
        let mut pins = Pins::default();
        let begin = |pins: &mut Pins, asker, mark| {
            let (owner, pin) = ("one".to_owned(), Zeroizing::new(b"1".to_vec()));
            pins.begin_own(Login { asker, owner, mark, pin }, "0123".to_owned())
        };
        assert!(matches!(begin(&mut pins, (1, 0), [1; 16])[..], [((1, 0), Answer::Pin(_))]));
        assert!(begin(&mut pins, (2, 0), [1; 16]).is_empty());
        let answers = pins.end(|asker| *asker == (1, 0), Some(Outcome::Wrong));
        assert!(matches!(answers[..], [((2, 0), Answer::NoPin(_))]));
        // The user's PIN has changed. A worker that dies costs the client a try, not the PIN.
        for question in 1..=MOST_WRONG as u64 {
            let answers = begin(&mut pins, (1, question), [2; 16]);
            assert!(matches!(answers[..], [(_, Answer::Pin(_))]), "{question}");
            assert!(pins.end(|(worker, _)| *worker == 1, None).is_empty());
        }
        assert!(matches!(begin(&mut pins, (3, 0), [2; 16])[..], [((3, 0), Answer::NoPin(_))]));
    }
}
