//! The memory of this process, as the kernel counts it.

use std::fs;

/// Returns the number of bytes in memory now. Returns 0 if the kernel does not provide it.
pub fn resident() -> u64 {
    bytes("VmRSS:")
}

/// Returns the largest number of bytes in memory since [`reset_peak`]. Returns 0 if the kernel does
/// not provide it.
pub fn peak() -> u64 {
    bytes("VmHWM:")
}

/// Begins to record the peak again, if the kernel allows it.
pub fn reset_peak() {
    // proc(5), clear_refs: 5 resets the peak resident set size. If this fails, the peak is counted
    // from the start of the process.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}
