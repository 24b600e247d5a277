//! Requests with calls, and their answers.

use std::time::Duration;

use cryptoki_sys::{CKR_DEVICE_MEMORY, CKR_HOST_MEMORY, CKR_OK};
use jeton_agent_wire::{self as wire, Answer, Call, Function, Reply, Request, Unfit};

use crate::connection::{Connection, Lost};
use crate::pool::Refusal;
use crate::system;

/// Returns whether a call changes objects, logins or the token, so that it must not be carried out
/// twice by one agent, and no later outcome is certain.
pub fn changes(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::C_InitToken
            | F::C_InitPIN
            | F::C_SetPIN
            | F::C_Login
            | F::C_LoginUser
            | F::C_Logout
            | F::C_CreateObject
            | F::C_CopyObject
            | F::C_DestroyObject
            | F::C_SetAttributeValue
            | F::C_GenerateKey
            | F::C_GenerateKeyPair
            | F::C_UnwrapKey
            | F::C_UnwrapKeyAuthenticated
            | F::C_DeriveKey
            | F::C_EncapsulateKey
            | F::C_DecapsulateKey
            | F::C_SetOperationState
            | F::C_CloseAllSessions
            | F::C_AsyncComplete
            | F::C_AsyncJoin
    )
}

/// Returns whether what a call changes is lost with the agent, so that another agent may carry it
/// out.
pub const fn ends_with_agent(function: Function) -> bool {
    use Function as F;
    matches!(function, F::C_Login | F::C_LoginUser | F::C_Logout)
}

/// Returns the code of a value that does not fit into a message.
pub fn refusal(unfit: Unfit) -> Refusal {
    match unfit {
        Unfit::TooLong => CKR_DEVICE_MEMORY,
        Unfit::NoMemory => CKR_HOST_MEMORY,
    }
}

/// Starts a request with calls in a session of a generation. `object` is the handle of the session
/// object that the call makes again; otherwise 0.
pub fn begin(connection: &mut Connection, at: (u64, u64), count: usize, object: u64) -> Result<(), Unfit> {
    let (session, generation) = at;
    let number = connection.number.wrapping_add(1);
    wire::start(connection.frame());
    append(connection, &Request::Calls { session, count: count as u8, object, number, generation })
}

pub fn append(connection: &mut Connection, value: &impl serde::Serialize) -> Result<(), Unfit> {
    wire::append(value, connection.frame())
}

/// Returns how long a call waits for its answer while the agent lives; `None` if the function may
/// compute or wait for longer.
pub fn limit(function: Function, patience: Duration) -> Option<Duration> {
    use Function as F;
    let is_long = matches!(
        function,
        F::C_WaitForSlotEvent
            | F::C_InitToken
            | F::C_GenerateKey
            | F::C_GenerateKeyPair
            | F::C_DeriveKey
            | F::C_UnwrapKey
            | F::C_UnwrapKeyAuthenticated
            | F::C_AsyncComplete
    );
    (!is_long).then_some(patience)
}

/// Sends a request with this number of calls. Returns the answers, for which it waits for at most
/// the time `patience`, if there is one. Fails if they are not those of calls up to the first one
/// that failed.
pub fn exchange(
    connection: &mut Connection,
    count: usize,
    patience: Option<Duration>,
) -> Result<Vec<Answer<'_>>, Lost> {
    connection.number = connection.number.wrapping_add(1);
    let number = connection.number;
    let mut rest = connection.exchange(patience)?;
    let mut answers: Vec<Answer<'_>> = Vec::with_capacity(count);
    let mut has_failed = !matches!(wire::take(&mut rest), Ok(Reply::Answers(of)) if of == number);
    while !rest.is_empty() && !has_failed && answers.len() < count {
        let answer: Answer<'_> = wire::take(&mut rest).map_err(|_| Lost::malformed())?;
        if !system::is_code(answer.code) || answer.kept.is_some_and(|kept| kept.len() > wire::MAX_KEPT) {
            return Err(Lost::malformed());
        }
        has_failed = answer.code != CKR_OK;
        answers.push(answer);
    }
    let is_whole = answers.len() == count || has_failed && !answers.is_empty();
    if rest.is_empty() && is_whole { Ok(answers) } else { Err(Lost::malformed()) }
}

/// Returns the bytes of a call. `None` if it does not fit into a message.
pub fn encoded(call: &Call<'_>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    wire::append(call, &mut bytes).ok().map(|()| bytes)
}
