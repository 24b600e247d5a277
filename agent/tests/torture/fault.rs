//! The faults, and which of them this run has.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The proxy forwards bytes later.
    Delay,
    /// The proxy forwards bytes in small pieces.
    Split,
    /// The proxy forwards a part of the bytes. Then it closes the connection, or is silent.
    Truncate,
    /// The proxy forwards a message twice.
    Repeat,
    /// The proxy forwards nothing for a time.
    Freeze,
    /// The proxy closes the connection.
    Reset,
    /// SIGSTOP for an agent.
    StopAgent,
    /// SIGKILL for an agent.
    KillAgent,
    /// SIGTERM for an agent.
    EndAgent,
    /// SIGHUP for an agent, which reads its rules again.
    ReloadAgent,
    /// SIGSTOP for a client.
    StopClient,
    /// SIGKILL for a client.
    KillClient,
    /// The disk of the tokens has no free space for a time.
    FillDisk,
    /// The disk of the tokens fails.
    FailDisk,
}

use Fault::*;

/// The faults of the proxy.
const NETWORK: &[Fault] = &[Delay, Split, Truncate, Repeat, Freeze, Reset];
/// The faults of processes and of the disk.
const MACHINE: &[Fault] =
    &[StopAgent, KillAgent, EndAgent, ReloadAgent, StopClient, KillClient, FillDisk, FailDisk];

/// The faults of a run.
pub struct Chosen {
    pub network: Vec<Fault>,
    pub machine: Vec<Fault>,
}

impl Chosen {
    /// Reads the names of the faults from `JETON_TORTURE_FAULTS`, for example `Split,KillAgent`.
    /// The variable may be empty. Without it, a run has all faults that this host permits.
    pub fn read(has_disk: bool) -> Self {
        let names = std::env::var("JETON_TORTURE_FAULTS").ok();
        let names: Option<Vec<_>> = names.as_ref().map(|names| names.split(',').collect());
        let is_chosen =
            |fault: &Fault| names.as_ref().is_none_or(|names| names.contains(&format!("{fault:?}").as_str()));
        let is_possible = |fault: &Fault| has_disk || !matches!(fault, FillDisk | FailDisk);
        let choose = |all: &[Fault]| all.iter().copied().filter(is_chosen).filter(is_possible).collect();
        Self { network: choose(NETWORK), machine: choose(MACHINE) }
    }

    pub fn is_empty(&self) -> bool {
        self.network.is_empty() && self.machine.is_empty()
    }
}
