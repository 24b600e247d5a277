//! The process of a module: it makes the turns of both servers.

use std::sync::Arc;
use std::time::Instant;

use rustls::sign::CertifiedKey;

use super::handshake::Pair;
use super::key::{TokenKeys, in_memory};
use super::measure::turn;
use super::{Case, CaseTurn, KeyKind, Sides, Turn};
use crate::pipeline::{InProcess, Job, ModuleDescription, TakesTurns, Target};
use crate::{Error, Result};

/// The largest number of handshakes of a thread in a turn.
const MOST: f64 = 2000.0;
/// The number of handshakes of each thread in the turns before the measurement.
const WARM_UP: usize = 4;

/// The keys of a job, ready for turns.
pub struct CaseChild {
    /// `None` if all keys are in memory.
    token: Option<TokenKeys>,
    /// The newest keys: in memory, and in the token.
    keys: Option<(KeyKind, Sides<Arc<CertifiedKey>>)>,
    /// The newest case, its servers, and the number of handshakes of a thread in a turn.
    case: Option<(Case, Sides<Pair>, usize)>,
}

impl TakesTurns for CaseChild {
    type Work = CaseTurn;

    fn start(job: Job) -> Result<(Self, ModuleDescription)> {
        let (token, description) = open(&job.target)?;
        Ok((Self { token, keys: None, case: None }, description))
    }

    fn take(&mut self, asked: &CaseTurn) -> Result<Sides<Turn>> {
        if self.case.as_ref().is_none_or(|(case, ..)| *case != asked.case) {
            self.case = Some(self.prepare(asked)?);
        }
        let Some((case, pairs, count)) = &self.case else { return Err(Error::Failed("no case".to_owned())) };
        let make = |pair| turn(pair, case.threads, *count);
        // The first server of a round alternates.
        Ok(if asked.round.is_multiple_of(2) {
            let memory = make(&pairs.memory)?;
            Sides { memory, token: make(&pairs.token)? }
        } else {
            let token = make(&pairs.token)?;
            Sides { memory: make(&pairs.memory)?, token }
        })
    }
}

impl CaseChild {
    /// Makes the servers of a case, and counts the handshakes that fit into a turn.
    fn prepare(&mut self, asked: &CaseTurn) -> Result<(Case, Sides<Pair>, usize)> {
        let case = asked.case;
        let keys = self.keys(case.key)?;
        let pair = |key| Pair::new(key, case.version, case.exchange, case.handshake);
        let pairs = Sides { memory: pair(&keys.memory)?, token: pair(&keys.token)? };
        let start = Instant::now();
        for pair in [&pairs.memory, &pairs.token] {
            turn(pair, case.threads, WARM_UP)?;
        }
        let one = start.elapsed().as_secs_f64() / (2 * WARM_UP) as f64;
        // The clamp returns a number from 2 to MOST, which fits in a `usize`.
        let count = (asked.seconds / one).clamp(2.0, MOST) as usize;
        Ok((case, pairs, count))
    }

    /// Returns keys of this type. Without a token, both are in memory.
    fn keys(&mut self, kind: KeyKind) -> Result<&Sides<Arc<CertifiedKey>>> {
        if self.keys.as_ref().is_none_or(|(known, _)| *known != kind) {
            let token = self.token.as_mut().map_or_else(|| in_memory(kind), |token| token.generate(kind))?;
            let memory = Arc::new(in_memory(kind)?);
            self.keys = Some((kind, Sides { memory, token: Arc::new(token) }));
        }
        self.keys.as_ref().map(|(_, keys)| keys).ok_or_else(|| Error::Failed("no keys".to_owned()))
    }
}

fn open(target: &Target) -> Result<(Option<TokenKeys>, ModuleDescription)> {
    match target.open()? {
        Some(((module, slot, pin), description)) => {
            Ok((Some(TokenKeys::open(&module, slot, &pin)?), description))
        }
        None => Ok((None, InProcess::describe())),
    }
}
