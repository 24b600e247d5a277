//! The message-based functions.

mod crypt;
mod sign;

use jeton::error::Result;
use jeton::id::SessionHandle;
use jeton::module::Module;
use jeton::session::{Engine, Operation, Session};

pub(crate) use crypt::*;
pub(crate) use sign::*;

/// Ends a message that is processed in several parts. The operation continues.
fn end_message<E: Engine>(
    module: &Module,
    session: SessionHandle,
    operation: impl FnOnce(&mut Session) -> &mut Operation<E>,
) -> Result<()> {
    module.with_session(session, |session| {
        operation(session).message_cancel();
        Ok(())
    })
}
