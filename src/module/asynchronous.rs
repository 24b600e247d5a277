//! Functions that go on after they have answered (PKCS#11 3.2, "Asynchronous function management functions").
//!
//! In a session opened for it `C_GenerateKey` and `C_GenerateKeyPair` answer `CKR_PENDING`; every other function is
//! done when it answers, as the standard allows. A thread of ours makes the pair and does nothing else: the objects
//! come into being in `C_AsyncComplete`, under the rights that the session has then. So a session that is closed
//! or a user who logs out meanwhile leaves nothing behind, and the result of a thread that nobody asks for any more
//! is wiped. A secret key takes no time and no thread.
//!
//! What `C_AsyncGetID` has named outlives its session, but not `C_Finalize`, which waits for our threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tracing::error;

use super::Module;
use super::audit::Call;
use crate::error::{Error, Result};
use crate::id::{ObjectHandle, SessionHandle, mechanism_flag as flag};
use crate::object::Attributes;
use crate::token::Token;

/// Most threads of ours at once; what comes beyond is made by the thread that asks for it.
const MAX_THREADS: usize = 16;

/// A function that may be pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum AsyncFunction {
    GenerateKey,
    GenerateKeyPair,
}

impl AsyncFunction {
    const ALL: [Self; 2] = [Self::GenerateKey, Self::GenerateKeyPair];

    /// The function of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GenerateKey => "C_GenerateKey",
            Self::GenerateKeyPair => "C_GenerateKeyPair",
        }
    }

    /// The flag by which `C_SessionCancel` names it.
    const fn flag(self) -> u64 {
        match self {
            Self::GenerateKey => flag::GENERATE,
            Self::GenerateKeyPair => flag::GENERATE_KEY_PAIR,
        }
    }
}

/// The objects that a function made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// The secret key, or the public one.
    pub object: ObjectHandle,
    /// The private key.
    pub additional: Option<ObjectHandle>,
}

/// What objects are to be made of.
pub(super) enum Made {
    /// A secret key.
    One(Attributes),
    /// A public and a private key.
    Pair(Attributes, Attributes),
}

/// The functions that are pending, and the threads that work.
#[derive(Default)]
pub(super) struct Jobs {
    pending: Mutex<Vec<Job>>,
    /// None while the module is not initialised, so that no thread is started that nobody would wait for.
    threads: Mutex<Option<Vec<JoinHandle<()>>>>,
    last: AtomicU64,
}

struct Job {
    id: u64,
    /// None where the session that had it was closed.
    session: Option<SessionHandle>,
    token: Arc<Token>,
    function: AsyncFunction,
    /// Whether its number was asked for: then it outlives the session.
    named: bool,
    result: Receiver<Result<Made>>,
}

impl Job {
    fn is(&self, session: SessionHandle, function: AsyncFunction) -> bool {
        self.session == Some(session) && self.function == function
    }
}

impl Jobs {
    /// Threads may be started from now on.
    pub(super) fn open(&self) {
        *self.threads() = Some(Vec::new());
    }

    /// Forgets what is pending, and waits for the threads.
    pub(super) fn close(&self) {
        let threads = self.threads().take();
        self.pending().clear();
        for thread in threads.into_iter().flatten() {
            if thread.join().is_err() {
                error!("a thread panicked");
            }
        }
    }

    /// Starts the work of a function; the answer of the function.
    pub(super) fn start(
        &self,
        session: SessionHandle,
        token: Arc<Token>,
        function: AsyncFunction,
        work: impl FnOnce() -> Result<Made> + Send + 'static,
    ) -> Error {
        let (sender, result) = sync_channel(1);
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Job { id, session: Some(session), token, function, named: false, result };
        {
            let mut pending = self.pending();
            if pending.iter().any(|job| job.is(session, function)) {
                return Error::OperationActive;
            }
            pending.push(job);
        }
        match self.work(function, sender, work) {
            Ok(()) => Error::Pending,
            Err(error) => {
                self.pending().retain(|job| job.id != id);
                error
            }
        }
    }

    fn work(
        &self,
        function: AsyncFunction,
        sender: SyncSender<Result<Made>>,
        work: impl FnOnce() -> Result<Made> + Send + 'static,
    ) -> Result<()> {
        let mut threads = self.threads();
        let running = threads.as_mut().ok_or(Error::NotInitialized)?;
        running.retain(|thread| !thread.is_finished());
        // Nobody takes the result where the session was closed meanwhile: it is dropped, and wiped.
        let deliver = move || drop(sender.send(work()));
        if function == AsyncFunction::GenerateKey || running.len() >= MAX_THREADS {
            drop(threads);
            deliver();
            return Ok(());
        }
        let thread = std::thread::Builder::new().name("jeton".into()).spawn(deliver);
        running.push(thread.map_err(|reason| {
            error!("no thread: {reason}");
            Error::HostMemory
        })?);
        Ok(())
    }

    /// What a function has made; `Pending` where it is not done.
    fn take(&self, session: SessionHandle, function: AsyncFunction) -> Result<Made> {
        let mut pending = self.pending();
        let at = pending.iter().position(|job| job.is(session, function));
        let at = at.ok_or(Error::OperationNotInitialized)?;
        let made = match pending[at].result.try_recv() {
            Ok(made) => made,
            Err(TryRecvError::Empty) => return Err(Error::Pending),
            // Its thread panicked.
            Err(TryRecvError::Disconnected) => Err(Error::GeneralError),
        };
        pending.remove(at);
        made
    }

    fn name(&self, session: SessionHandle, function: AsyncFunction) -> Result<u64> {
        let mut pending = self.pending();
        let job = pending.iter_mut().find(|job| job.is(session, function));
        let job = job.ok_or(Error::OperationNotInitialized)?;
        job.named = true;
        Ok(job.id)
    }

    fn join(
        &self,
        session: SessionHandle,
        token: &Arc<Token>,
        function: AsyncFunction,
        id: u64,
    ) -> Result<()> {
        let mut pending = self.pending();
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

    /// Cancels what `flags` name in a session.
    pub(super) fn cancel(&self, session: SessionHandle, flags: u64) {
        self.pending().retain(|job| job.session != Some(session) || flags & job.function.flag() == 0);
    }

    /// PKCS#11 3.2, C_CloseSession: it "cancels all pending operations whose ID has not been retrieved".
    pub(super) fn session_closed(&self, session: SessionHandle) {
        self.pending().retain_mut(|job| {
            let own = job.session == Some(session);
            if own {
                job.session = None;
            }
            !own || job.named
        });
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Job>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, Option<Vec<JoinHandle<()>>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Module {
    /// `C_AsyncComplete`: the result of a function that answered `Pending`, or `Pending` again.
    pub fn async_complete(&self, session: SessionHandle, function: AsyncFunction) -> Result<Completed> {
        self.recorded(session, Call::of("C_AsyncComplete", None, &[]), || {
            let (token, rights) = self.access(session)?;
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

    /// `C_AsyncGetID`: the number under which another session can join, after this one was closed too.
    pub fn async_id(&self, session: SessionHandle, function: AsyncFunction) -> Result<u64> {
        self.access(session)?;
        self.jobs.name(session, function)
    }

    /// `C_AsyncJoin`: the function is pending in this session from now on.
    pub fn async_join(&self, session: SessionHandle, function: AsyncFunction, id: u64) -> Result<()> {
        let (token, _) = self.access(session)?;
        self.jobs.join(session, &token, function, id)
    }
}
