//! Saved operations (PKCS#11 3.2, `C_GetOperationState`, `C_SetOperationState`).

use std::sync::PoisonError;

use super::Module;
use super::audit::Call;
use crate::error::Result;
use crate::id::{ObjectHandle, SessionHandle};
use crate::session::operation::{Output, place};
use crate::session::state::STATE_LEN;

impl Module {
    /// `C_GetOperationState`. Returns the length of the state.
    pub fn operation_state(&self, session: SessionHandle, out: Output<'_>) -> Result<usize> {
        self.sessions.with(session, |session| {
            let snapshot = session.save()?;
            if let Output::Buffer(out) = out {
                let place = place(out, STATE_LEN)?;
                place.copy_from_slice(&self.states.keep(&session.token, snapshot)?);
                session.operations.digest.set_saved(true);
            }
            Ok(STATE_LEN)
        })
    }

    /// `C_SetOperationState`. `encryption` is the key of an encryption or decryption.
    /// `authentication` is the key of a signature, MAC or verification. 0 means no key.
    pub fn set_operation_state(
        &self,
        session: SessionHandle,
        state: &[u8],
        encryption: ObjectHandle,
        authentication: ObjectHandle,
    ) -> Result<()> {
        self.record_call(
            session,
            Call::of("C_SetOperationState", None, &[encryption, authentication]),
            |_, _| {
                self.sessions.with(session, |session| {
                    let snapshot = self.states.find(&session.token, state)?;
                    let snapshot = snapshot.lock().unwrap_or_else(PoisonError::into_inner);
                    session.restore(&snapshot, encryption, authentication)
                })
            },
        )
    }
}
