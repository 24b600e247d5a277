//! Gives the C interface access to a session, whose methods are the functions of operations.

use super::Module;
use super::audit;
use crate::error::Result;
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::MechanismRow;
use crate::session::Session;

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
}
