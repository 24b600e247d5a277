//! The memory of a process, as the kernel counts it.

use std::fmt::Display;
use std::fs;

/// Returns the number of bytes of this process in memory now. Returns 0 if the kernel does not
/// provide it.
pub fn resident() -> u64 {
    resident_of("self")
}

/// Returns the number of bytes of the process with this number, like [`resident`].
pub fn resident_of(process: impl Display) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}
