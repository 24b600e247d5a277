//! A short process that reads the headers of the tokens, so that the front opens none.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use jeton::functions::{Module, TokenInfo};
use jeton::id::token_flag;
use jeton_agent_wire::status::{OfToken, PinState};

use crate::rules::label;

/// The processes that were killed and have not ended: their store hangs.
static HANGING: AtomicUsize = AtomicUsize::new(0);
/// The most of them.
const MOST_HANGING: usize = 4;

/// Starts the process, and returns the tokens. Fails if that takes longer than `limit`.
pub fn ask(limit: Duration) -> io::Result<Vec<OfToken>> {
    if HANGING.load(Ordering::Acquire) >= MOST_HANGING {
        return Err(io::Error::other("the processes that list the tokens hang: does the store?"));
    }
    let mut command = Command::new("/proc/self/exe");
    let mut child = command.arg("tokens").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let (sender, receiver) = mpsc::channel();
    let reader = thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        let read = output.read_to_end(&mut bytes).map(|_| bytes);
        // After the limit, no thread waits for it.
        let _ = sender.send(read);
    });
    let read = reader.map(|_| receiver.recv_timeout(limit));
    let Ok(Ok(read)) = read else {
        // It may have ended. A process that waits for a disk ends later.
        let _ = child.kill();
        HANGING.fetch_add(1, Ordering::AcqRel);
        let reap = move || {
            let _ = child.wait();
            HANGING.fetch_sub(1, Ordering::AcqRel);
        };
        thread::Builder::new().spawn(reap)?;
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the tokens are not listed in time"));
    };
    if !child.wait()?.success() {
        return Err(io::Error::other("the tokens cannot be opened; the log says why"));
    }
    postcard::from_bytes(&read?).map_err(io::Error::other)
}

/// Writes the tokens to standard output, in that process.
pub fn write() -> Result<(), String> {
    let module = Module::new();
    let opened = module.initialize(None).and_then(|()| module.slots());
    let slots = opened.map_err(|error| format!("cannot open the tokens: {error:?}; the log says why"))?;
    let tokens = slots.into_iter().filter_map(|slot| module.token(slot).ok());
    let initialised = tokens.filter(|token| token.flags & token_flag::TOKEN_INITIALIZED != 0);
    let all: Vec<_> = initialised.map(|token| of_token(&token)).collect();
    let bytes = postcard::to_stdvec(&all).map_err(|error| error.to_string())?;
    io::stdout().write_all(&bytes).map_err(|error| error.to_string())
}

fn of_token(token: &TokenInfo) -> OfToken {
    let state = |is_set: bool, low, last, locked| match token.flags {
        _ if !is_set => PinState::Unset,
        flags if flags & locked != 0 => PinState::Locked,
        flags if flags & last != 0 => PinState::LastTry,
        flags if flags & low != 0 => PinState::Wrong,
        _ => PinState::Good,
    };
    let is_set = token.flags & token_flag::USER_PIN_INITIALIZED != 0;
    OfToken {
        label: label(token).to_owned(),
        serial: token.serial.clone(),
        pin: state(
            is_set,
            token_flag::USER_PIN_COUNT_LOW,
            token_flag::USER_PIN_FINAL_TRY,
            token_flag::USER_PIN_LOCKED,
        ),
        so_pin: state(
            true,
            token_flag::SO_PIN_COUNT_LOW,
            token_flag::SO_PIN_FINAL_TRY,
            token_flag::SO_PIN_LOCKED,
        ),
    }
}
