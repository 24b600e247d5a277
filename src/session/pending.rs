//! Signatures that are pending in asynchronous sessions.
//!
//! If lanes can compute a signature, `C_Sign` and `C_SignFinal` only note it. The first
//! `C_AsyncComplete` that needs it computes it with the signatures of other sessions, up to eight
//! at once. No thread waits for another one, and no thread is created.
//!
//! A session has at most one pending signature. A signature that is cancelled stays here until the
//! session starts another one or is closed, or the user logs out.

use std::collections::BTreeMap;
use std::iter::repeat_with;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use jeton_secret::{Secret, try_boxed};

use super::operation::Parts;
use crate::backend::{Job, Signer};
use crate::error::{Error, Result};
use crate::id::SessionHandle;
use crate::sync::lock;

/// The pending signatures of an application.
#[derive(Default)]
pub(crate) struct Pending {
    signatures: Mutex<BTreeMap<SessionHandle, Signature>>,
    last: AtomicU64,
}

/// A pending signature.
pub(crate) struct Signature {
    number: u64,
    /// The address of the caller's buffer. The C interface writes there, when the caller asks for
    /// the result.
    pub(super) buffer: usize,
    pub(super) len: usize,
    /// The input of the signer.
    pub(super) input: Box<[u8]>,
    pub(super) state: State,
}

pub(super) enum State {
    Waiting(Job),
    /// A thread computes it for another session.
    Computing,
    /// `None` if it is computed alone.
    Done(Option<Secret>),
    /// The user logged out while such a function was pending.
    Withdrawn(Parts),
}

impl Pending {
    /// Notes a signature for `out`, in place of an earlier one of the session.
    fn note(&self, session: SessionHandle, job: Job, input: &[u8], out: &mut [u8]) -> Result<()> {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let (buffer, len) = (out.as_mut_ptr().expose_provenance(), out.len());
        let (input, state) = (try_boxed(input)?, State::Waiting(job));
        lock(&self.signatures).insert(session, Signature { number, buffer, len, input, state });
        Ok(())
    }

    /// Computes the signature of the session if it still waits. Fails with `Pending` if another
    /// thread computes it.
    pub(super) fn compute(&self, session: SessionHandle) -> Result<()> {
        let mut signatures = lock(&self.signatures);
        let sessions = match signatures.get(&session).map(|own| &own.state) {
            Some(State::Computing) => return Err(Error::Pending),
            Some(State::Waiting(job)) => company(&signatures, session, job),
            _ => return Ok(()),
        };
        let mut batch = Batch { pending: self, members: Vec::new() };
        let mut jobs = Vec::new();
        for session in sessions {
            if let Some(signature) = signatures.get_mut(&session)
                && let State::Waiting(job) = std::mem::replace(&mut signature.state, State::Computing)
            {
                batch.members.push((session, signature.number));
                jobs.push(job);
            }
        }
        drop(signatures);
        if jobs.len() > 1 {
            batch.deliver(Job::compute(jobs).into_iter());
        }
        Ok(())
    }

    /// Removes the signature of the session, and returns it.
    pub(crate) fn remove(&self, session: SessionHandle) -> Option<Signature> {
        lock(&self.signatures).remove(&session)
    }

    /// Discards the signature of the session with its key, because the user logs out. `passed` is
    /// `None` if the signature was cancelled before. Then `C_AsyncComplete` does not return it.
    pub(super) fn withdraw(&self, session: SessionHandle, passed: Option<Parts>) {
        let mut signatures = lock(&self.signatures);
        match (signatures.get_mut(&session), passed) {
            (Some(signature), Some(parts)) => {
                signature.state = State::Withdrawn(parts);
                signature.input = Box::default();
            }
            (Some(Signature { state: State::Withdrawn(_), .. }), None) => (),
            _ => drop(signatures.remove(&session)),
        }
    }

    /// Removes the signature of the session if it was withdrawn from this function. Returns the
    /// address of the caller's buffer.
    pub(super) fn remove_withdrawn(&self, session: SessionHandle, parts: Parts) -> Option<usize> {
        let mut signatures = lock(&self.signatures);
        match signatures.get(&session)?.state {
            State::Withdrawn(passed) if passed == parts => Some(signatures.remove(&session)?.buffer),
            _ => None,
        }
    }
}

/// Returns the sessions whose signatures are computed together. The given session is the first.
fn company(
    signatures: &BTreeMap<SessionHandle, Signature>,
    session: SessionHandle,
    job: &Job,
) -> Vec<SessionHandle> {
    let waits = |(_, signature): &(&SessionHandle, &Signature)| matches!(&signature.state, State::Waiting(other) if other.kind() == job.kind());
    // An application usually asks for the results in the order of its sessions.
    let all = signatures.range(session..).chain(signatures.range(..session).rev());
    let mut sessions: Vec<_> = all.filter(waits).map(|(session, _)| *session).take(Job::MOST).collect();
    sessions.truncate(job.most(sessions.len()));
    sessions
}

/// The signatures that a thread computes together. Those that it does not deliver, for example
/// because it panics, are computed alone.
struct Batch<'a> {
    pending: &'a Pending,
    members: Vec<(SessionHandle, u64)>,
}

impl Batch<'_> {
    fn deliver(&mut self, results: impl Iterator<Item = Option<Secret>>) {
        let mut signatures = lock(&self.pending.signatures);
        for ((session, number), result) in self.members.drain(..).zip(results.chain(repeat_with(|| None))) {
            // The session may have been closed, or may have started another signature.
            if let Some(signature) = signatures.get_mut(&session)
                && signature.number == number
                && let State::Computing = signature.state
            {
                signature.state = State::Done(result.filter(|result| result.len() == signature.len));
            }
        }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.deliver(std::iter::empty());
    }
}

/// The signer of an asynchronous session. [`sign`](Signer::sign) fails with `Pending` if it only
/// noted the signature.
pub(super) struct Later {
    pub(super) signer: Box<dyn Signer>,
    pub(super) session: SessionHandle,
    pub(super) pending: Arc<Pending>,
}

impl Signer for Later {
    fn signature_len(&self) -> usize {
        self.signer.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let Some(job) = self.signer.job(input) else { return self.signer.sign(input, out) };
        self.pending.note(self.session, job, input, out)?;
        Err(Error::Pending)
    }

    fn sign_now(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.signer.sign(input, out)
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;

    use super::*;
    use crate::backend::Joint;

    /// Its result is the number of jobs that were computed together, and its own number.
    struct Fake(u8, Arc<dyn Fn() + Send + Sync>);

    impl Joint for Fake {
        fn kind(&self) -> usize {
            usize::from(self.0 / 100)
        }

        fn most(&self, waiting: usize) -> usize {
            waiting
        }

        fn compute(self: Box<Self>, others: Vec<Box<dyn Any>>) -> Vec<Option<Secret>> {
            (self.1)();
            let count = others.len() as u8 + 1;
            let others = others.into_iter().map(|other| other.downcast::<Self>().expect("a kind").0);
            std::iter::once(self.0).chain(others).map(|job| Some(Secret::from(&[count, job][..]))).collect()
        }
    }

    fn note(pending: &Pending, job: u8, meanwhile: impl Fn() + Send + Sync + 'static) -> SessionHandle {
        let session = SessionHandle(job.into());
        let job = Job::new(Fake(job, Arc::new(meanwhile)));
        pending.note(session, job, b"input", &mut [0; 2]).expect("memory");
        session
    }

    fn result(pending: &Pending, session: SessionHandle) -> Option<Secret> {
        match pending.remove(session).expect("a signature").state {
            State::Done(result) => result,
            _ => panic!("not done"),
        }
    }

    #[test]
    fn a_call_computes_eight_signatures_of_its_kind() {
        let pending = Pending::default();
        for job in (1..=10).chain(100..=100) {
            note(&pending, job, || ());
        }
        pending.compute(SessionHandle(3)).expect("no other thread");
        for job in 3..=10 {
            let session = SessionHandle(job.into());
            pending.compute(session).expect("no other thread");
            assert_eq!(result(&pending, session).as_deref(), Some(&[8, job][..]));
        }
        for (job, together) in [(2, Some(2)), (1, Some(2)), (100, None)] {
            let session = SessionHandle(job.into());
            pending.compute(session).expect("no other thread");
            let expected = together.map(|together| Secret::from(&[together, job][..]));
            assert!(result(&pending, session).as_deref() == expected.as_deref(), "{job}");
        }
        assert!(lock(&pending.signatures).is_empty());
    }

    #[test]
    fn a_signature_that_changes_while_it_is_computed_gets_no_result() {
        let pending = Arc::new(Pending::default());
        let other = Arc::clone(&pending);
        let first = note(&pending, 1, move || {
            assert_eq!(other.compute(SessionHandle(2)), Err(Error::Pending));
            other.remove(SessionHandle(3));
            other.withdraw(SessionHandle(4), Some(Parts::Single));
            note(&other, 5, || ());
        });
        for job in 2..=5 {
            note(&pending, job, || ());
        }
        pending.compute(first).expect("no other thread");
        assert!(result(&pending, first).is_some() && result(&pending, SessionHandle(2)).is_some());
        assert!(pending.remove(SessionHandle(3)).is_none());
        let state = |job| pending.remove(SessionHandle(job)).expect("a signature").state;
        assert!(matches!(state(4), State::Withdrawn(_)) && matches!(state(5), State::Waiting(_)));
    }

    #[test]
    fn a_logout_leaves_no_key_of_a_cancelled_signature() {
        let pending = Pending::default();
        let cancelled = note(&pending, 1, || ());
        pending.withdraw(cancelled, None);
        assert!(pending.remove(cancelled).is_none());
        let passed = note(&pending, 2, || ());
        pending.withdraw(passed, Some(Parts::Single));
        pending.withdraw(passed, None);
        assert!(pending.remove_withdrawn(passed, Parts::Multiple).is_none());
        assert!(pending.remove_withdrawn(passed, Parts::Single).is_some());
    }

    #[test]
    fn after_a_panic_each_signature_is_computed_alone() {
        let pending = Pending::default();
        let first = note(&pending, 1, || panic!("a panic that the test wants"));
        let second = note(&pending, 2, || ());
        let compute = std::panic::AssertUnwindSafe(|| pending.compute(first));
        assert!(std::panic::catch_unwind(compute).is_err());
        assert!(result(&pending, first).is_none() && result(&pending, second).is_none());
    }
}
