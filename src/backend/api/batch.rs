//! Signatures of several callers that one thread computes together.

use std::any::Any;

use jeton_secret::Secret;

/// A signature that can be computed together with others.
pub struct Job(Box<dyn Joint>);

/// A job of one kind, with what computes the jobs of this kind.
pub(crate) trait Joint: Any + Send {
    /// Returns a number that two jobs share if they can be computed together.
    fn kind(&self) -> usize;
    /// Returns how many of these waiting jobs to compute at once. If that is one, a signer is
    /// faster.
    fn most(&self, waiting: usize) -> usize;
    /// Computes the job and others of its kind. Returns their results in this order.
    fn compute(self: Box<Self>, others: Vec<Box<dyn Any>>) -> Vec<Option<Secret>>;
}

impl Job {
    /// The largest number of jobs that are computed at once.
    pub(crate) const MOST: usize = 8;

    #[cfg(any(all(feature = "aws-lc", feature = "rustcrypto"), test))]
    pub(crate) fn new(job: impl Joint) -> Self {
        Self(Box::new(job))
    }

    pub(crate) fn kind(&self) -> usize {
        self.0.kind()
    }

    pub(crate) fn most(&self, waiting: usize) -> usize {
        self.0.most(waiting)
    }

    /// Computes jobs of the same kind. Returns a signature for each, or `None` if its signer must
    /// compute it.
    pub(crate) fn compute(jobs: Vec<Self>) -> Vec<Option<Secret>> {
        let mut jobs = jobs.into_iter();
        let Some(Self(first)) = jobs.next() else { return Vec::new() };
        first.compute(jobs.map(|Self(job)| job as Box<dyn Any>).collect())
    }
}
