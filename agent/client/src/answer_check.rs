//! What an answer may be, whatever the agent says.

use jeton_agent_wire::call::OutputRoom;
use jeton_agent_wire::{Answer, Call, Outcome};
use jeton_words::asynchronous::AsyncFunction;
use jeton_words::derive::Derived;
use jeton_words::error::{Error, Result};
use jeton_words::id::ObjectHandle;
use jeton_words::mechanism::Mechanism;
use jeton_words::params::Params;
use jeton_words::shape::{KeyExchange, Shape};

/// The greatest length that an answer tells. An application keeps lengths in an `int`, or adds one
/// to them. No agent has memory for as many bytes of a client.
pub const MAX_LENGTH: usize = i32::MAX as usize;

/// Returns whether a function without an output can fail so in this process, which has initialised
/// the module.
pub fn can_fail(error: Error) -> bool {
    use Error::{AlreadyInitialized, BufferTooSmall, NotInitialized, Pending};
    !matches!(error, AlreadyInitialized | BufferTooSmall { .. } | NotInitialized | Pending)
}

/// Returns whether a call can have this answer: the result of its own function, or an error. Only
/// a call with a buffer can learn that it is too small, and only a function that continues after it
/// has returned can be pending.
pub fn fits(call: &Call<'_>, answer: &Answer<'_>) -> bool {
    match (call, &answer.outcome) {
        (_, Err(Error::BufferTooSmall { needed })) => {
            let room = call.room();
            *needed <= MAX_LENGTH && matches!(room, Some(OutputRoom::Bytes(room)) if room < *needed as u64)
        }
        (
            Call::C_AsyncComplete { .. } | Call::C_Sign { .. } | Call::C_SignFinal { .. },
            Err(Error::Pending),
        ) => true,
        (_, Err(error)) => can_fail(*error),
        (Call::Refused { .. }, Ok(_)) => false,
        (Call::Clear(_), Ok(outcome)) => matches!(outcome, Outcome::Cleared),
        (_, Ok(Outcome::C_GetObjectSize { result, .. })) if *result > MAX_LENGTH as u64 => false,
        (Call::C_AsyncComplete { function, .. }, Ok(Outcome::C_AsyncComplete { result, .. })) => {
            result.additional.is_some() == (*function == AsyncFunction::GenerateKeyPair)
        }
        (_, Ok(outcome)) => outcome.function() == Some(call.function()),
    }
}

/// Returns whether a derivation with this mechanism can have this result, and these handles of its
/// further keys: all of them, or 0 for a template because of which the call failed.
pub fn derives(mechanism: &Mechanism, result: &Result<Derived>, more: &[Option<ObjectHandle>]) -> bool {
    match result {
        Ok(derived) => is_result_of(mechanism, derived) && more.iter().all(Option::is_some),
        Err(error) => can_fail(*error) && more.iter().flatten().all(|key| *key == ObjectHandle(0)),
    }
}

/// Returns whether each output of a mechanism has its value, and no other output has one.
fn is_result_of(mechanism: &Mechanism, derived: &Derived) -> bool {
    match (derived, mechanism.info.shape, &mechanism.params) {
        (Derived::Connection(connection), _, Params::TlsKeys { mac_len, key_len, iv_len, .. }) => {
            connection.macs.is_some() == (*mac_len > 0)
                && connection.keys.is_some() == (*key_len > 0)
                && connection.ivs.iter().all(|iv| iv.len() == *iv_len)
        }
        (Derived::Output(output), _, Params::TlsPrf { len, .. }) => output.len() == *len,
        (_, _, Params::TlsKeys { .. } | Params::TlsPrf { .. }) => false,
        (
            Derived::Master(_, version),
            Shape::TlsMaster(exchange) | Shape::Tls12Master(exchange) | Shape::Tls12ExtendedMaster(exchange),
            _,
        ) => version.is_some() == (exchange == KeyExchange::Rsa),
        (Derived::Key(_), Shape::TlsMaster(_) | Shape::Tls12Master(_) | Shape::Tls12ExtendedMaster(_), _) => {
            false
        }
        (Derived::Key(_), ..) => true,
        _ => false,
    }
}
