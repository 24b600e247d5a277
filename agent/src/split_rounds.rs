//! The generations and signatures with split keys that have begun for a client. They are in the
//! memory of its worker only.

use std::sync::Mutex;

use jeton_agent_split::{Generation, Name, Nonces, Refusal};

use crate::lock;

/// The most generations of a client that run. Another one takes the place of the oldest.
const GENERATIONS: usize = 4;

/// What has begun.
#[derive(Default)]
pub struct Begun {
    generations: Mutex<Vec<Generation>>,
    pub(crate) nonces: Nonces,
}

impl Begun {
    /// Adds a generation, in place of one with its name.
    pub(crate) fn add(&self, generation: Generation) {
        self.end(&generation.name);
        let mut all = lock(&self.generations);
        if all.len() >= GENERATIONS {
            all.remove(0);
        }
        all.push(generation);
    }

    /// Calls `work` with a generation.
    pub(crate) fn with<T>(
        &self,
        name: &Name,
        work: impl FnOnce(&mut Generation) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut all = lock(&self.generations);
        let generation = all.iter_mut().find(|one| one.name == *name);
        work(generation.ok_or_else(|| Refusal::new("no such generation runs"))?)
    }

    /// Forgets a generation.
    pub(crate) fn end(&self, name: &Name) {
        lock(&self.generations).retain(|one| one.name != *name);
    }
}
