//! The machine of a measurement.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

/// The processor, the memory and the system of a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name in the operating system.
    pub cpu: String,
    /// The number of threads that can run at once.
    pub cores: usize,
    /// The memory in KiB, if the kernel reports it.
    pub memory_kib: Option<u64>,
    /// The distribution and the kernel's version.
    pub system: String,
}

impl Machine {
    /// Describes this machine. A text that cannot be read is `unknown`.
    pub fn this() -> Self {
        let line = |path: &str, key: &str| {
            let text = fs::read_to_string(path).ok()?;
            let value = text.lines().find_map(|line| line.strip_prefix(key))?;
            Some(value.trim_start_matches([' ', '\t', ':']).trim_matches(['"', ' ']).to_owned())
        };
        let unknown = || "unknown".to_owned();
        let distribution = line("/etc/os-release", "PRETTY_NAME=").unwrap_or_else(unknown);
        let kernel = line("/proc/sys/kernel/osrelease", "").unwrap_or_else(unknown);
        let memory = line("/proc/meminfo", "MemTotal:");
        Self {
            cpu: line("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_kib: memory.and_then(|text| text.trim_end_matches(" kB").parse().ok()),
            system: format!("{distribution}, Linux {kernel}"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} cores, {}", self.cpu, self.cores, self.system)
    }
}
