//! Calls the functions of operations, which are methods of a session, and records them in the audit
//! log.

use jeton_words::operation::CryptMechanism;
use jeton_words::token::Function;

use super::Module;
use super::audit;
use crate::backend::Direction;
use crate::error::{Error, Result};
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::{Mechanism, MechanismWord};
use crate::session::{Engine, Operation, Owner, Session};

impl Module {
    /// Calls `work` with a session. No other call uses the session meanwhile.
    pub fn with_session<T>(
        &self,
        session: SessionHandle,
        work: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        if !cfg!(feature = "fips") {
            return self.sessions.with(session, work);
        }
        self.sessions.with(session, |session| {
            let before = session.active();
            let outcome = work(session);
            session.judge(before, outcome.is_ok());
            outcome
        })
    }
}

impl Session {
    /// Runs the `Init` function of an operation with a mechanism and a key. Records it in the audit
    /// log if the key is private or secret.
    pub(super) fn start(
        &mut self,
        function: &'static str,
        mechanism: &Mechanism,
        key: ObjectHandle,
        init: impl FnOnce(&mut Self, &Mechanism, ObjectHandle) -> Result<()>,
    ) -> Result<()> {
        let outcome = init(self, mechanism, key);
        self.record_start(function, mechanism.info, key, &outcome);
        outcome
    }

    /// Like [`start`](Self::start), for an encryption or a decryption. The parameter of GCM is not
    /// copied.
    pub(super) fn start_crypt(
        &mut self,
        function: &'static str,
        direction: Direction,
        mechanism: CryptMechanism<'_>,
        key: ObjectHandle,
    ) -> Result<()> {
        let outcome = self.crypt_init(direction, mechanism, key);
        self.record_start(function, mechanism.info, key, &outcome);
        outcome
    }

    #[inline]
    fn record_start(
        &mut self,
        function: &'static str,
        info: &'static MechanismWord,
        key: ObjectHandle,
        outcome: &Result<()>,
    ) {
        self.split().0.record(function, info, key, outcome);
    }
}

impl Session {
    /// Ends what a function ends if its arguments are refused with `error`. Such a call did not
    /// reach the operation, so the operation did not end by itself. Returns the error for the
    /// caller.
    pub(super) fn refuse(&mut self, function: Function, error: Error) -> Error {
        let (owner, operations) = self.split();
        let error = operations.with_parameter(function).map_or(error, |(operation, phase)| {
            // A wrong order of calls takes precedence.
            let refuse = |operation: &mut Operation<_>| {
                operation.message_engine(phase).map_or_else(Err, |_| Err(error))
            };
            // No key was used, so the audit log has no record.
            owner.message(None, operation, refuse).map_or_else(|error| error, |()| error)
        });
        // The parameter of a message is an argument too.
        if matches!(error, Error::ArgumentsBad | Error::MechanismParamInvalid | Error::HostMemory) {
            operations.end_refused(function);
        }
        error
    }
}

impl Owner<'_> {
    /// Runs a message-based function. Ends the operation if its key may not be used any more. If
    /// the call is a message or begins one, `function` is its name, and the audit log records it
    /// like an `Init` function.
    pub(super) fn message<E: Engine, T>(
        self,
        function: Option<&'static str>,
        operation: &mut Operation<E>,
        work: impl FnOnce(&mut Operation<E>) -> Result<T>,
    ) -> Result<T> {
        let used = function.zip(operation.uses());
        let outcome = operation.follow_key(self.token, self.access).and_then(|()| work(operation));
        let result = outcome.as_ref().map(|_| ()).map_err(|error| *error);
        if let Some((function, (info, key))) = used
            && !matches!(result, Err(Error::BufferTooSmall { .. }))
        {
            self.record(function, info, key, &result);
        }
        outcome
    }

    #[inline(always)]
    fn record(
        self,
        function: &'static str,
        info: &'static MechanismWord,
        key: ObjectHandle,
        outcome: &Result<()>,
    ) {
        if let Some(audit) = &self.token.settings.audit {
            audit::record_start(audit, self, function, info, key, outcome);
        }
    }
}
