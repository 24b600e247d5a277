//! Several threads, each with its own session, sign with one key or create token objects.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::Throughput;
use jeton::backend::PublicParts;
use jeton_client::{ObjectHandle, Session};

use super::Fixture;
use super::signatures::destroy;
use crate::baseline::{self, BaselinePair};
use crate::calls;
use crate::independent;
use crate::names::BASELINE;
use crate::operation::Operation;
use crate::scheme::{Pair, Scheme, named};
use crate::suite::{Rows, Suite};
use crate::target::{Home, Keys, ModuleToken, Outcome, creation, public_parts};

const COUNTS: [usize; 5] = [1, 2, 4, 8, 64];

pub(super) fn run(suite: &mut Suite, fixture: &Fixture) {
    sign(suite, fixture, named("p256"), Scheme::Ecdsa);
    if !suite.settings.short || suite.filtered() {
        sign(suite, fixture, named("mldsa65"), Scheme::MlDsa);
    }
    create(suite, fixture);
}

fn sign(suite: &mut Suite, fixture: &Fixture, pair: &Pair, scheme: Scheme) {
    let group = |count: usize| format!("threads/{}/{count}", pair.name);
    if !COUNTS.iter().any(|count| suite.wants(&group(*count))) {
        return;
    }
    let baseline = baseline::generate(pair.kind).expect("a kind that signs");
    let tokens: Vec<_> = fixture.tokens.iter().map(|token| (token, token.pair(pair), true)).collect();
    let null = fixture.null.iter().map(|token| (token, token.pair(pair), false));
    let tokens: Vec<_> = tokens.into_iter().chain(null).collect();
    for count in COUNTS {
        let mut rows: Rows<'_> =
            vec![(BASELINE.to_owned(), Ok(Box::new(BaselineThreads::new(&*baseline, pair, scheme, count))))];
        for (token, keys, checked) in &tokens {
            let crowd = keys.clone().and_then(|keys| Crowd::new(token, pair, scheme, keys, count, *checked));
            rows.push((token.row().to_owned(), crowd.map(|crowd| Box::new(crowd) as Box<dyn Operation>)));
        }
        suite.compare(&group(count), Some(Throughput::Elements(count as u64)), || rows);
    }
    tokens.into_iter().for_each(|(token, keys, _)| destroy(token, keys));
}

type Span = (Instant, Instant);

/// Returns the time from the first start to the last end.
fn over(spans: &[Span]) -> Duration {
    let first = spans.iter().map(|span| span.0).min();
    let last = spans.iter().map(|span| span.1).max();
    last.zip(first).map_or(Duration::ZERO, |(last, first)| last.duration_since(first))
}

/// Does the work of each worker in a thread of its own. Returns the results in the same order.
fn together<W: Send, R: Send>(workers: impl IntoIterator<Item = W>, work: impl Fn(W) -> R + Sync) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || work(worker))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// The threads of the baseline: one parsed key, no sessions.
struct BaselineThreads<'a> {
    baseline: &'a dyn BaselinePair,
    pair: &'a Pair,
    scheme: Scheme,
    count: usize,
    signatures: Vec<Vec<u8>>,
}

impl<'a> BaselineThreads<'a> {
    fn new(baseline: &'a dyn BaselinePair, pair: &'a Pair, scheme: Scheme, count: usize) -> Self {
        Self { baseline, pair, scheme, count, signatures: Vec::new() }
    }
}

impl Operation for BaselineThreads<'_> {
    fn time(&mut self, repetitions: u64) -> Duration {
        let barrier = Barrier::new(self.count);
        let input = self.scheme.input(self.pair.kind);
        let work = |_| {
            let mut operation = self.baseline.signing(self.scheme, input);
            barrier.wait();
            let start = Instant::now();
            operation.time(repetitions);
            let span = (start, Instant::now());
            (span, self.baseline.signature(self.scheme, input))
        };
        let (spans, signatures): (Vec<_>, Vec<_>) = together(0..self.count, work).into_iter().unzip();
        self.signatures = signatures;
        over(&spans)
    }

    fn check(&mut self) {
        let public = self.baseline.public();
        for signature in &self.signatures {
            independent::verify(BASELINE, &public, self.scheme, self.pair.kind, signature);
        }
    }
}

/// The threads of a module, each with its own session.
struct Crowd<'a> {
    row: String,
    pair: &'a Pair,
    scheme: Scheme,
    key: ObjectHandle,
    sessions: Vec<Session>,
    /// The public key that verifies the signatures.
    public: Option<PublicParts>,
    signatures: Vec<Vec<u8>>,
}

impl<'a> Crowd<'a> {
    fn new(
        token: &ModuleToken,
        pair: &'a Pair,
        scheme: Scheme,
        keys: Keys,
        count: usize,
        checked: bool,
    ) -> Outcome<Self> {
        let sessions = (0..count).map(|_| token.another_session()).collect::<Result<_, _>>();
        let public = if checked { Some(public_parts(token, pair, keys)?) } else { None };
        Ok(Self {
            row: token.row().to_owned(),
            pair,
            scheme,
            key: ObjectHandle(keys.private),
            sessions: sessions.map_err(|failure| failure.to_string())?,
            public,
            signatures: Vec::new(),
        })
    }
}

impl Operation for Crowd<'_> {
    fn time(&mut self, repetitions: u64) -> Duration {
        let barrier = Barrier::new(self.sessions.len());
        let (mechanism, key) = (self.scheme.mechanism(), self.key);
        let input = self.scheme.module_input(self.pair.kind);
        let work = |session: &mut Session| {
            let call = calls::Transform::sign(session, &mechanism, key, &input, 1 << 13);
            let mut call = call.unwrap_or_else(|failure| panic!("{failure}"));
            barrier.wait();
            let (start, mut len) = (Instant::now(), 0);
            for _ in 0..repetitions {
                len = call.call().unwrap_or_else(|failure| panic!("{failure}"));
            }
            ((start, Instant::now()), call.out()[..len].to_vec())
        };
        let done = together(self.sessions.iter_mut(), work);
        let (spans, signatures): (Vec<_>, Vec<_>) = done.into_iter().unzip();
        self.signatures = signatures;
        over(&spans)
    }

    fn check(&mut self) {
        let Some(public) = &self.public else { return };
        for signature in &self.signatures {
            independent::verify(&self.row, public, self.scheme, self.pair.kind, signature);
        }
    }
}

/// Measures how fast many threads create token objects. A module that syncs its files has each
/// object on disk before the call returns.
fn create(suite: &mut Suite, fixture: &Fixture) {
    let counts: &[usize] = if suite.settings.short { &[1, 8] } else { &[1, 8, 64] };
    for count in counts.iter().copied() {
        let group = format!("threads/create-token/{count}");
        suite.compare(&group, Some(Throughput::Elements(count as u64)), || {
            let tokens = fixture.tokens.iter().filter(|token| !token.row().ends_with("-session"));
            let row = |token: &ModuleToken| {
                let sessions: Result<Vec<_>, _> = (0..count).map(|_| token.another_session()).collect();
                let makers = sessions.map_err(|failure| failure.to_string());
                let makers = makers.map(|sessions| Box::new(Makers { sessions }) as Box<dyn Operation>);
                (token.row().to_owned(), makers)
            };
            tokens.map(row).collect()
        });
    }
}

/// Threads that make token objects. Destroying them is not timed.
struct Makers {
    sessions: Vec<Session>,
}

impl Operation for Makers {
    fn time(&mut self, repetitions: u64) -> Duration {
        let barrier = Barrier::new(self.sessions.len());
        let work = |(number, session): (usize, &mut Session)| {
            let fail = |failure| panic!("{failure}");
            let mut call = creation(session, Home::Token).unwrap_or_else(fail);
            let mut number = number << 32;
            let mut made = Vec::with_capacity(repetitions as usize);
            barrier.wait();
            let start = Instant::now();
            for _ in 0..repetitions {
                number += 1;
                made.push(call(number).unwrap_or_else(|failure| panic!("{failure}")));
            }
            ((start, Instant::now()), made)
        };
        let done = together(self.sessions.iter_mut().enumerate(), work);
        // No thread destroys objects while another thread is timed.
        let mut spans = Vec::with_capacity(done.len());
        for ((span, made), session) in done.into_iter().zip(&mut self.sessions) {
            spans.push(span);
            for object in made {
                calls::destroy(session, object).unwrap_or_else(|failure| panic!("{failure}"));
            }
        }
        over(&spans)
    }
}
