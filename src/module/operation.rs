//! Gives the C interface access to a session, whose methods are the functions of operations.

use super::Module;
use super::audit;
use crate::error::{Error, Result};
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::MechanismRow;
use crate::session::{Engine, Operation, Session};

impl Module {
    /// Calls `work` with a session. No other call uses the session meanwhile.
    pub fn with_session<T>(
        &self,
        session: SessionHandle,
        work: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        self.sessions.with(session, work)
    }

    /// Runs the `Init` function of an operation with a mechanism and a key. Records it in the audit
    /// log if the key is private or secret.
    pub fn start(
        &self,
        session: SessionHandle,
        function: &'static str,
        info: &'static MechanismRow,
        key: ObjectHandle,
        init: impl FnOnce(&mut Session) -> Result<()>,
    ) -> Result<()> {
        self.sessions.with(session, |session| {
            let outcome = init(session);
            if let Some(audit) = &session.token.settings.audit {
                audit::record_start(audit, session, function, info, key, &outcome);
            }
            outcome
        })
    }

    /// Runs a message-based function. Ends the operation if its key may not be used any more. If
    /// the call is a message or begins one, `function` is its name, and the audit log records it
    /// like an `Init` function.
    pub fn message<E: Engine, T>(
        &self,
        session: SessionHandle,
        function: Option<&'static str>,
        operation: impl Fn(&mut Session) -> &mut Operation<E>,
        work: impl FnOnce(&mut Operation<E>) -> Result<T>,
    ) -> Result<T> {
        self.sessions.with(session, |session| {
            let used = function.zip(operation(session).uses());
            let outcome = session.follow_key(&operation).and_then(|()| work(operation(session)));
            let result = outcome.as_ref().map(|_| ()).map_err(|error| *error);
            if let (Some(audit), Some((function, (info, key)))) = (&session.token.settings.audit, used)
                && !matches!(result, Err(Error::BufferTooSmall { .. }))
            {
                audit::record_start(audit, session, function, info, key, &result);
            }
            outcome
        })
    }
}
