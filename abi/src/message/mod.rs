//! The message-based functions. Each section of the specification has its own file.

mod crypt;
mod decrypt;
mod encrypt;
mod sign;
mod verify;

use jeton::error::Result;
use jeton::id::SessionHandle;
use jeton::module::Module;
use jeton::session::{Engine, Operation, Session};

pub(crate) use decrypt::*;
pub(crate) use encrypt::*;
pub(crate) use sign::*;
pub(crate) use verify::*;

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
