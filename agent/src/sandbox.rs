//! What keeps a worker that is taken over from all that it does not need: Landlock for files and
//! addresses, seccomp for system calls. Both hold before the first connection, and stay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use jeton::admin::layout;
use jeton::config::{Places, Seen, Settings};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::io::Errno;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use crate::link::Start;

/// The newest Landlock that is used. An older kernel does less.
const LANDLOCK: ABI = ABI::V6;

/// What a worker is confined to.
pub struct Confined {
    /// The tokens that it sees; `None` for all.
    pub tokens: Option<Seen>,
    /// What is not in force.
    pub missing: Vec<String>,
    /// The files of tokens that the agent cannot read, and why.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

/// Confines this process, which has one thread, to what its client needs.
pub fn confine(start: &Start) -> Result<Confined, String> {
    let wrong = |error| format!("the configuration is wrong: {error:?}; the log says why");
    let places = Settings::places(&start.configuration).map_err(wrong)?;
    let mut missing = Vec::new();
    // Later, the directory cannot be listed.
    let unreadable = layout::unreadable(&places.tokens);
    let (tokens, directories) = tokens(start, &places, &mut missing);
    let above_audit = above_audit(&places, &directories);
    if let Err(reason) = confine_files(&places, directories) {
        missing.push(format!("files: {reason}"));
    }
    if let Some(other) = above_audit {
        missing.push(format!("audit log: a worker may write to {}", other.display()));
    }
    let needed = if places.has_sockets { SOCKETS } else { &[] };
    if let Err(reason) = confine_calls(needed, places.has_keyring) {
        missing.push(format!("system calls: {reason}"));
    }
    Ok(Confined { tokens, missing, unreadable })
}

/// Returns the tokens that the rule of the client names, and the directories that have all that it
/// may use. Their headers say which they are.
fn tokens(start: &Start, places: &Places, missing: &mut Vec<String>) -> (Option<Seen>, Vec<PathBuf>) {
    let all = (None, vec![places.tokens.clone()]);
    let Some(rule) = start.rule.as_ref().filter(|rule| rule.tokens.is_some()) else { return all };
    let listed = match layout::list(&places.tokens) {
        Ok(listed) => listed,
        Err(error) => {
            missing.push(format!("tokens of others: {error:?}"));
            return all;
        }
    };
    let slots = listed.iter().map(|token| (token.serial.clone(), token.slot)).collect();
    let seen = listed.into_iter().filter(|token| rule.sees_token(&token.serial, &token.label));
    let (mut serials, mut directories) = (Vec::new(), Vec::new());
    for token in seen {
        let Some(directory) = token.directory else {
            missing.push(format!(
                "tokens of others: {} has no directory of its own: jeton doctor",
                token.serial
            ));
            return all;
        };
        serials.push(token.serial);
        directories.push(directory);
    }
    (Some(Seen { serials, slots }), directories)
}

fn confine_files(places: &Places, directories: Vec<PathBuf>) -> Result<(), String> {
    if places.has_sockets {
        // The libraries of names and certificates read files that no list has.
        restrict(BitFlags::empty(), BitFlags::empty(), Vec::new())?;
        return Err("a database, or a log that goes to syslog, needs others".to_owned());
    }
    let every = AccessFs::from_all(LANDLOCK);
    let allowed = directories
        .into_iter()
        .chain(places.counters.clone())
        .map(|path| (path, every))
        .chain(appended(places.log.as_deref()))
        .chain(places.sealing_key.clone().map(|path| (path, AccessFs::ReadFile.into())));
    restrict(every, AccessNet::from_all(LANDLOCK), allowed.collect())
}

/// Returns the directory of a file to which lines are appended, with the rights to do so. The file
/// may be moved away.
fn appended(file: Option<&Path>) -> Option<(PathBuf, BitFlags<AccessFs>)> {
    let append =
        AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate;
    Some((directory(file?)?, append))
}

/// Returns a directory to which a worker may write, and in or below which the audit log is.
fn above_audit(places: &Places, directories: &[PathBuf]) -> Option<PathBuf> {
    let audit = directory(places.audit.as_deref()?)?;
    let written = directories.iter().cloned().chain(places.counters.clone());
    let written = written.map(|path| fs::canonicalize(&path).unwrap_or(path));
    written.chain(places.log.as_deref().and_then(directory)).find(|path| audit.starts_with(path))
}

/// Returns the directory of a file. A link may lead to another one.
fn directory(file: &Path) -> Option<PathBuf> {
    let resolved = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    Some(resolved.parent()?.to_owned())
}

/// Confines the process that writes the audit log, which has one thread, to the directories of the
/// logs. It has its socket to the local syslog.
pub fn confine_writer(places: &Places) -> Result<(), String> {
    let allowed = appended(places.audit.as_deref()).into_iter().chain(appended(places.log.as_deref()));
    let files = restrict(AccessFs::from_all(LANDLOCK), AccessNet::from_all(LANDLOCK), allowed.collect());
    files.and(confine_calls(&[], false))
}

/// Confines the door or the monitor, which has one thread, to its sockets and to the directories of
/// these files: a new list of revoked certificates is another file.
pub fn confine_door<'a>(files: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let directories = files.filter_map(|file| Some((file.parent()?.to_owned(), read)));
    let files = restrict(AccessFs::from_all(LANDLOCK), AccessNet::from_all(LANDLOCK), directories.collect());
    files.and(confine_calls(&[libc::SYS_socketpair, libc::SYS_accept4], false))
}

/// Takes all of these rights from this process, but those to these files and directories.
fn restrict(
    every: BitFlags<AccessFs>,
    addresses: BitFlags<AccessNet>,
    mut allowed: Vec<(PathBuf, BitFlags<AccessFs>)>,
) -> Result<(), String> {
    let text = |error: RulesetError| error.to_string();
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    allowed.extend([("/dev/null".into(), device), ("/dev/urandom".into(), device)]);
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    if every.is_empty() {
        allowed.clear();
    } else {
        ruleset = ruleset.handle_access(every).map_err(text)?;
    }
    if !addresses.is_empty() {
        ruleset = ruleset.handle_access(addresses).map_err(text)?;
    }
    let ruleset = ruleset.scope(Scope::from_all(LANDLOCK)).and_then(Ruleset::create).map_err(text)?;
    let (mut rules, mut absent) = (Vec::new(), None);
    for (path, access) in allowed {
        match PathFd::new(&path) {
            Ok(found) => rules.push(PathBeneath::new(found, access & every)),
            Err(error) => absent = Some(format!("{error}, so it may not be used")),
        }
    }
    let ruleset = ruleset.add_rules(rules.into_iter().map(Ok::<_, RulesetError>)).map_err(text)?;
    match ruleset.restrict_self().map_err(text)?.ruleset {
        RulesetStatus::FullyEnforced => absent.map_or(Ok(()), Err),
        RulesetStatus::PartiallyEnforced => Err("this kernel has an older Landlock".to_owned()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or systemd forbids it".to_owned()),
    }
}

/// The calls that reach other processes, start programs, or change files by their paths, which
/// Landlock does not cover.
const NEVER: &[libc::c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_setpriority,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_ioprio_set,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_shmget,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Not in libc yet: the same for all architectures.
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;

/// The calls for sockets.
const SOCKETS: &[libc::c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept4,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_accept,
];

/// The calls for the keyrings of the kernel, which all processes of a user share.
const KEYRINGS: &[libc::c_long] = &[libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl];

/// Refuses all of them but those that are needed.
fn confine_calls(needed: &[libc::c_long], has_keyring: bool) -> Result<(), String> {
    use SeccompCmpArgLen::{Dword, Qword};
    let text = |error: seccompiler::BackendError| error.to_string();
    let keyrings = KEYRINGS.iter().filter(|_| !has_keyring);
    let refused = NEVER.iter().chain(SOCKETS).chain(keyrings).filter(|call| !needed.contains(call));
    let mut rules: BTreeMap<_, _> = refused.map(|call| (*call, Vec::new())).collect();
    let when = |argument, size, operator, value| {
        SeccompCondition::new(argument, size, operator, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(text)
    };
    // abort(3) sends a signal to its own thread, and getrlimit(3) names its process by 0.
    for (call, own) in [(libc::SYS_tgkill, std::process::id()), (libc::SYS_prlimit64, 0)] {
        rules.insert(call, vec![when(0, Dword, SeccompCmpOp::Ne, own.into())?]);
    }
    // A thread is no process. The times of an open file are those of a file without a path.
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    rules.insert(libc::SYS_clone, vec![when(0, Dword, SeccompCmpOp::MaskedEq(thread), 0)?]);
    rules.insert(libc::SYS_utimensat, vec![when(1, Qword, SeccompCmpOp::Ne, 0)?]);
    // A signal for any process that a number names, when a descriptor is ready.
    for (call, commands) in [
        (libc::SYS_fcntl, [F_SETOWN, F_SETSIG, F_SETOWN_EX]),
        (libc::SYS_ioctl, [FIOSETOWN, SIOCSPGRP, TIOCSTI]),
    ] {
        let named = commands.map(|command| when(1, Dword, SeccompCmpOp::Eq, u64::from(command)));
        rules.insert(call, named.into_iter().collect::<Result<_, _>>()?);
    }
    apply(rules, Errno::PERM)?;
    // Its flags are in memory, which no filter reads. The C library then takes clone(2).
    apply(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), Errno::NOSYS)
}

const F_SETOWN: u32 = 8;
const F_SETSIG: u32 = 10;
const F_SETOWN_EX: u32 = 15;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
const TIOCSTI: u32 = 0x5412;

/// Refuses these calls with this error.
fn apply(rules: BTreeMap<libc::c_long, Vec<SeccompRule>>, error: Errno) -> Result<(), String> {
    let text = |error: seccompiler::BackendError| error.to_string();
    let refusal = SeccompAction::Errno(error.raw_os_error().cast_unsigned());
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(text)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture).map_err(text)?;
    let program: BpfProgram = filter.try_into().map_err(text)?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_a_worker_above_the_audit_log_is_reported() {
        let above = |audit: &str| {
            let files = "token-dir = '/none/tokens'\nlog = { file = '/none/log/agent.log' }";
            let places = Settings::places(&format!("{files}\naudit = {{ file = '{audit}' }}"));
            let places = places.expect("places");
            above_audit(&places, std::slice::from_ref(&places.tokens))
        };
        assert_eq!(above("/none/audit/audit.jsonl"), None);
        assert_eq!(above("/none/log-audit/audit.jsonl"), None);
        for inside in ["/none/log/audit.jsonl", "/none/log/audit/audit.jsonl", "/none/tokens/a/audit.jsonl"] {
            assert!(above(inside).is_some(), "{inside}");
        }
    }
}
