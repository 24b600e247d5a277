//! Functions that continue after they have returned (PKCS#11 3.2, "Asynchronous function management
//! functions").
//!
//! In an asynchronous session `C_GenerateKey` and `C_GenerateKeyPair` return `CKR_PENDING`, except
//! for domain parameters. `C_Sign` and `C_SignFinal` return it if lanes can compute the signature
//! ([`session::pending`](crate::session::pending)). As the standard allows, every other function is
//! complete when it returns.
//!
//! A thread of the module only generates the key pair. `C_AsyncComplete` creates the objects, with
//! the rights that the session has then. So a session that closes or a user who logs out leaves
//! nothing behind. If no call asks for the result, it is wiped. A secret key needs no thread,
//! because its generation is short.
//!
//! A function whose number `C_AsyncGetID` returned outlives its session. It does not outlive
//! `C_Finalize`, which waits for the threads of the module.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use jeton_secret::Secret;
use jeton_words::asynchronous::{AsyncFunction, Completed, Started};
use tracing::error;

use super::Module;
use super::audit::{Call, Makes};
use crate::error::{Error, Result, require};
use crate::id::{ObjectHandle, SessionHandle, mechanism_flag as flag};
use crate::object::Attributes;
use crate::quota::Permit;
use crate::session::operation::Parts;
use crate::sync::lock;
use crate::token::ClientToken;

/// Maximum number of threads at the same time. Beyond it, the calling thread generates the key
/// pair.
const MAX_THREADS: usize = 16;

/// The bytes that a pending function counts as in a quota, besides its templates: a key pair.
const RESULT: usize = 32 << 10;

/// Returns how the function passes the message; `None` if it does not sign.
const fn parts(function: AsyncFunction) -> Option<Parts> {
    match function {
        AsyncFunction::GenerateKey | AsyncFunction::GenerateKeyPair => None,
        AsyncFunction::Sign => Some(Parts::Single),
        AsyncFunction::SignFinal => Some(Parts::Multiple),
    }
}

/// Returns the flag of the function in `C_SessionCancel`.
const fn flag_of(function: AsyncFunction) -> u64 {
    match function {
        AsyncFunction::GenerateKey => flag::GENERATE,
        AsyncFunction::GenerateKeyPair => flag::GENERATE_KEY_PAIR,
        AsyncFunction::Sign | AsyncFunction::SignFinal => flag::SIGN,
    }
}

impl<T: Makes> Makes for Started<T> {
    fn handles(&self) -> Vec<ObjectHandle> {
        match self {
            Self::Done(done) => done.handles(),
            Self::Pending => Vec::new(),
        }
    }

    fn result(&self) -> String {
        match self {
            Self::Done(done) => done.result(),
            Self::Pending => "Pending".to_owned(),
        }
    }
}

impl Makes for Completed {
    fn handles(&self) -> Vec<ObjectHandle> {
        [self.object].into_iter().chain(self.additional).collect()
    }
}

/// The attributes of the objects that `C_AsyncComplete` creates.
pub(super) enum Made {
    /// The attributes of a secret key.
    One(Attributes),
    /// The attributes of a public and a private key.
    Pair(Attributes, Attributes),
}

/// The pending functions and the threads that run them.
#[derive(Default)]
pub(super) struct Jobs {
    pending: Mutex<Vec<Job>>,
    /// `None` while the module is not initialised. Then no thread can start, because `C_Finalize`
    /// would not wait for it.
    threads: Mutex<Option<Vec<JoinHandle<()>>>>,
    last: AtomicU64,
}

struct Job {
    id: u64,
    /// `None` if the session was closed.
    session: Option<SessionHandle>,
    token: Arc<ClientToken>,
    function: AsyncFunction,
    /// True if `C_AsyncGetID` returned the number. Then the job outlives the session.
    named: bool,
    result: Receiver<Result<Made>>,
    /// The memory of the templates and the result, in the quota of the application. The thread has
    /// it too, and may end later than the job.
    _memory: Arc<Option<Permit>>,
}

impl Job {
    fn is(&self, session: SessionHandle, function: AsyncFunction) -> bool {
        self.session == Some(session) && self.function == function
    }
}

impl Jobs {
    /// Allows threads to start.
    pub(super) fn open(&self) {
        *lock(&self.threads) = Some(Vec::new());
    }

    /// Drops the pending functions and waits for the threads.
    pub(super) fn close(&self) {
        let threads = lock(&self.threads).take();
        lock(&self.pending).clear();
        for thread in threads.into_iter().flatten() {
            if thread.join().is_err() {
                error!("a thread panicked");
            }
        }
    }

    /// Starts the work of a function, which is then pending. `template` is the
    /// [footprint](Attributes::footprint) of the attributes that it has got.
    pub(super) fn start<T>(
        &self,
        session: SessionHandle,
        token: Arc<ClientToken>,
        function: AsyncFunction,
        template: usize,
        work: impl FnOnce() -> Result<Made> + Send + 'static,
    ) -> Result<Started<T>> {
        let memory = Arc::new(token.hold(RESULT + template)?);
        let (sender, result) = sync_channel(1);
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let _memory = Arc::clone(&memory);
        let job = Job { id, session: Some(session), token, function, named: false, result, _memory };
        {
            let mut pending = lock(&self.pending);
            require(!pending.iter().any(|job| job.is(session, function)), Error::OperationActive)?;
            pending.push(job);
        }
        // If the job was cancelled meanwhile, no call receives the result. It is dropped and wiped.
        let deliver = move || {
            drop(sender.send(work()));
            drop(memory);
        };
        self.run(function, deliver).inspect_err(|_| lock(&self.pending).retain(|job| job.id != id))?;
        Ok(Started::Pending)
    }

    fn run(&self, function: AsyncFunction, deliver: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut threads = lock(&self.threads);
        let running = threads.as_mut().ok_or(Error::NotInitialized)?;
        running.retain(|thread| !thread.is_finished());
        if function == AsyncFunction::GenerateKey || running.len() >= MAX_THREADS {
            drop(threads);
            deliver();
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("jeton".into()).spawn(deliver);
        running.push(thread.map_err(|reason| {
            error!("cannot start a thread: {reason}");
            Error::HostMemory
        })?);
        Ok(())
    }

    /// Returns the result of a function. Fails with `Pending` if the function is still running.
    fn take(&self, session: SessionHandle, function: AsyncFunction) -> Result<Made> {
        let mut pending = lock(&self.pending);
        let at = pending.iter().position(|job| job.is(session, function));
        let at = at.ok_or(Error::OperationNotInitialized)?;
        let made = match pending[at].result.try_recv() {
            Ok(made) => made,
            Err(TryRecvError::Empty) => return Err(Error::Pending),
            // The thread panicked.
            Err(TryRecvError::Disconnected) => Err(Error::GeneralError),
        };
        pending.remove(at);
        made
    }

    fn name(&self, session: SessionHandle, function: AsyncFunction) -> Result<u64> {
        let mut pending = lock(&self.pending);
        let job = pending.iter_mut().find(|job| job.is(session, function));
        let job = job.ok_or(Error::OperationNotInitialized)?;
        job.named = true;
        Ok(job.id)
    }

    fn join(
        &self,
        session: SessionHandle,
        token: &Arc<ClientToken>,
        function: AsyncFunction,
        id: u64,
    ) -> Result<()> {
        let mut pending = lock(&self.pending);
        let wanted = |job: &Job| {
            job.named && job.id == id && job.function == function && Arc::ptr_eq(&job.token, token)
        };
        let at = pending.iter().position(wanted).ok_or(Error::SavedStateInvalid)?;
        if pending.iter().any(|job| job.id != id && job.is(session, function)) {
            return Err(Error::OperationActive);
        }
        pending[at].session = Some(session);
        Ok(())
    }

    pub(super) fn cancel(&self, session: SessionHandle, flags: u64) {
        lock(&self.pending).retain(|job| job.session != Some(session) || flags & flag_of(job.function) == 0);
    }

    /// Drops the pending functions of a closed session. PKCS#11 3.2, C_CloseSession: it "cancels
    /// all pending operations whose ID has not been retrieved".
    pub(super) fn close_session(&self, session: SessionHandle) {
        lock(&self.pending).retain_mut(|job| {
            let own = job.session == Some(session);
            if own {
                job.session = None;
            }
            !own || job.named
        });
    }
}

impl Module {
    /// `C_AsyncComplete` for keys. Returns the result of a pending function. Fails with `Pending`
    /// if the function is still running.
    pub fn async_complete(&self, session: SessionHandle, function: AsyncFunction) -> Result<Completed> {
        self.record_call(session, Call::of("C_AsyncComplete", None, &[]), |token, rights| {
            match self.jobs.take(session, function)? {
                Made::One(key) => {
                    Ok(Completed { object: token.insert(rights, session, key)?, additional: None })
                }
                Made::Pair(public, private) => {
                    let [public, private] = token.insert_all(rights, session, [public, private])?;
                    Ok(Completed { object: public, additional: Some(private) })
                }
            }
        })
    }

    /// `C_AsyncComplete` for signatures. Returns the address of the buffer that the pending
    /// function got, and the signature for it. Fails with `Pending` if another thread computes the
    /// signature together with one of its own.
    pub fn async_signature(
        &self,
        session: SessionHandle,
        function: AsyncFunction,
    ) -> Result<(usize, Result<Secret>)> {
        let parts = parts(function).ok_or(Error::OperationNotInitialized)?;
        self.sessions.with(session, |session| session.complete(parts))
    }

    /// `C_AsyncGetID`. Returns the number with which another session can join, even after this one
    /// is closed. A signature has none.
    pub fn async_id(&self, session: SessionHandle, function: AsyncFunction) -> Result<u64> {
        let pending = self.sessions.with(session, |session| Ok(session.operations.sign.pending()))?;
        require(pending.is_none() || pending != parts(function), Error::StateUnsaveable)?;
        self.jobs.name(session, function)
    }

    /// `C_AsyncJoin`. Makes the function pending in this session.
    pub fn async_join(&self, session: SessionHandle, function: AsyncFunction, id: u64) -> Result<()> {
        let (token, _) = self.access(session)?;
        self.jobs.join(session, &token, function, id)
    }
}
