//! Locks of files between processes (flock(2)). The wait for a lock has a time limit, because every
//! process that may open a file can hold its lock forever.

use std::fs::{File, TryLockError};
use std::io::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// How long to wait for a lock. SQLite gets the same limit for its own locks.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The first pause between two attempts. Each later pause is twice as long, up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// Which other holders of the lock are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Other holders in this mode.
    Shared,
    /// No other holder.
    Exclusive,
}

/// Takes the lock. Fails with `TimedOut` if other holders keep it for longer than `limit`.
pub fn acquire(file: &File, mode: Mode, limit: Duration) -> Result<()> {
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        // flock(2) waits without a time limit. Only a signal could end the wait, and signals belong
        // to the application.
        let outcome = match mode {
            Mode::Shared => file.try_lock_shared(),
            Mode::Exclusive => file.try_lock(),
        };
        match outcome {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(reason)) if reason.kind() == ErrorKind::Interrupted => {}
            Err(TryLockError::Error(reason)) => return Err(reason),
            Err(TryLockError::WouldBlock) if start.elapsed() >= limit => {
                let text = format!("another process held the lock of the file for {limit:?}");
                return Err(Error::new(ErrorKind::TimedOut, text));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(pause.min(limit)),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_waited_for_until_the_limit() {
        let path = std::env::temp_dir().join(format!("jeton-file-lock-{}", std::process::id()));
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let (holder, waiter) = (open().expect("a file"), open().expect("a file"));
        let limit = Duration::from_millis(100);

        acquire(&holder, Mode::Shared, limit).expect("a free lock");
        acquire(&waiter, Mode::Shared, limit).expect("a shared lock");
        waiter.unlock().expect("a lock");
        let start = Instant::now();
        let refused = acquire(&waiter, Mode::Exclusive, limit).expect_err("a lock that is held");
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= limit);

        holder.unlock().expect("a lock");
        acquire(&waiter, Mode::Exclusive, limit).expect("a free lock");
        std::fs::remove_file(path).expect("a file");
    }
}
