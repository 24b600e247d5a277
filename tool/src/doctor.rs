//! Examines a token directory or a database: finds what is wrong, and names the command that mends
//! it.

mod database;
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jeton_client::safe_text::shown;
use rustix::fs::{Access, AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use serde::{Serialize, Serializer};

use crate::token_file::{self, Info, Login, MOVING, PinCost, PinInfo, Role, TokenFile};
use crate::{Cause, Error, certificate_list};

/// How old a file must be to count as left over. A process may still be creating a newer file. A
/// rollback journal, and a log that has content but no token, count at any age.
const QUIET: Duration = Duration::from_secs(60);
/// The least free space in bytes. A token needs space for its log, also to destroy objects.
const LEAST_FREE: u64 = 16 << 20;
/// The least limit on locked memory in bytes. The module uses half of it for secrets.
const LEAST_LOCKED: u64 = 1 << 20;
/// The least product of memory in KiB and passes of Argon2id: OWASP's choice with the least memory.
const LEAST_COST: u64 = 7 * 1024 * 5;
/// 2026-01-01, before this tool was written. In seconds since 1970.
const WRITTEN: u64 = 1_767_225_600;
/// How much newer than the clock a file may be. The clock of a network file system may be ahead.
const AHEAD: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The name of the check. It is the same in all versions.
    pub check: &'static str,
    #[serde(serialize_with = "as_text")]
    pub file: Option<PathBuf>,
    pub problem: String,
    /// The command or the action that mends it.
    pub remedy: String,
    pub repairable: bool,
    #[serde(skip)]
    repair: Option<Repair>,
}

/// Another user may have chosen the name of a file, which may not be UTF-8, as JSON is.
fn as_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}

#[derive(Clone, Debug)]
enum Repair {
    SetMode {
        mode: u32,
        /// The device and the inode of the file that was examined.
        id: (u64, u64),
    },
    Remove,
    RemoveDirectory,
    GiveOwnDirectory,
}

impl Finding {
    fn new(check: &'static str, file: Option<&Path>, problem: String, remedy: String) -> Self {
        Self { check, file: file.map(Path::to_owned), problem, remedy, repairable: false, repair: None }
    }

    fn with_repair(self, repair: Repair) -> Self {
        Self { repairable: true, repair: Some(repair), ..self }
    }

    /// Mends the problem if that is safe. Returns whether it is mended.
    pub fn repair(&self) -> Result<bool, Error> {
        let (Some(repair), Some(file)) = (&self.repair, &self.file) else { return Ok(false) };
        match repair {
            Repair::SetMode { mode, id } => set_mode(file, *mode, *id),
            // The file may have been the last one in its token's own directory.
            Repair::Remove => fs::remove_file(file).map(|()| token_file::remove_empty_directory(file)),
            Repair::RemoveDirectory => fs::remove_dir(file),
            Repair::GiveOwnDirectory => return token_file::give_own_directory(file).map(|_| true),
        }
        .map_err(Error::io(file))?;
        Ok(true)
    }
}

/// Changes the mode of the file or directory with this ID. Fails if the name leads to another one
/// now, or if a file has a second name: who may write to the directory may have put another user's
/// file there.
fn set_mode(path: &Path, mode: u32, id: (u64, u64)) -> std::io::Result<()> {
    // This flag opens a file that the user may not read, and waits for no FIFO.
    let open = File::from(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    let data = open.metadata()?;
    if self::id(&data) != id || !(data.is_dir() || data.is_file() && data.nlink() == 1) {
        return Err(std::io::Error::new(ErrorKind::ResourceBusy, "this is not the file that was examined"));
    }
    // fchmod(2) does not accept such a descriptor. This link leads to the open file itself.
    let link = format!("/proc/self/fd/{}", open.as_raw_fd());
    fs::set_permissions(link, Permissions::from_mode(mode))
}

fn id(data: &Metadata) -> (u64, u64) {
    (data.dev(), data.ino())
}

/// Returns the place of the tokens: the directory, or the address of the database with the facts
/// about the server.
pub fn place() -> Result<String, Error> {
    let settings = token_file::configuration()?.into_iter().collect();
    match (url(&settings), database::describe()?) {
        (Some(url), Some(server)) => Ok(format!("{url} ({server})")),
        _ => Ok(token_file::directory()?.display().to_string()),
    }
}

/// Returns the address of the configured database; `None` if the tokens are in files.
fn url<'a>(settings: &'a BTreeMap<&str, String>) -> Option<&'a str> {
    settings.get("store.url").map(String::as_str).filter(|url| *url != "none")
}

#[derive(Default)]
pub struct Examination {
    pub findings: Vec<Finding>,
    /// What was not examined, and why; and a shared directory.
    pub notes: Vec<String>,
}

/// Examines the configured token directory or database, and this process. With a PIN, reads every
/// record of the tokens.
pub fn examine(login: Option<Login<'_>>) -> Result<Examination, Error> {
    let mut notes = Vec::new();
    let findings = find(login, &mut notes)?;
    Ok(Examination { findings, notes })
}

fn find(login: Option<Login<'_>>, notes: &mut Vec<String>) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let settings: BTreeMap<_, _> = token_file::configuration()?.into_iter().collect();
    let directory = token_file::directory()?;
    findings.extend(memory_lock());
    findings.extend(issued(&directory.with_file_name("issued.sqlite")));
    if let Some(url) = url(&settings) {
        findings.extend(interrupted_moves(&directory));
        findings.extend(database::examine(url, &settings)?);
        notes.push("not examined: the records of the tokens in the database".to_owned());
        return Ok(findings);
    }
    let data = match fs::metadata(&directory) {
        Ok(data) => data,
        Err(reason) => {
            let remedy = "jeton token init --label NAME".to_owned();
            findings.push(Finding::new("directory", Some(&directory), reason.to_string(), remedy));
            return Ok(findings);
        }
    };
    let files = Files::read(&directory)?;
    let sharing = files.sharing(&data);
    if sharing == Sharing::Group {
        let risk = "a member of its group can end each process that has a token open, by a truncated file";
        notes.push(format!("{}: {risk}", directory.display()));
    }
    findings.extend(way(&directory, &data).or_else(|| directory_permissions(&directory, &data, sharing)));
    findings.extend(read_only(&directory));
    findings.extend(unreadable_sealing_key(&settings));
    findings.extend(free_space(&directory)?);
    findings.extend(interrupted_moves(&directory));
    for (path, own) in &files.directories {
        if !own.is_dir() {
            let problem = "the module refuses a link in place of a token's own directory".to_owned();
            let remedy = "move the directory itself here".to_owned();
            findings.push(Finding::new("link", Some(path), problem, remedy));
            continue;
        }
        findings.extend(directory_permissions(path, own, sharing));
        findings.extend(owner(path, own, &data, sharing));
        findings.extend(empty(path, own));
    }
    for (path, file) in &files.files {
        findings.extend(file_permissions(path, file, sharing));
        findings.extend(owner(path, file, &data, sharing));
        findings.extend(files.leftover(path, file));
    }
    findings.extend(clock(&files));
    // Opening a token creates files beside it, so this is last.
    findings.extend(tokens(&files, &settings, login, notes)?);
    Ok(findings)
}

/// Returns what is wrong with the list of issued certificates, and the CRLs that have ended.
fn issued(path: &Path) -> Vec<Finding> {
    let finding = |problem, remedy: &str| Finding::new("list", Some(path), problem, remedy.to_owned());
    if certificate_list::is_missing(path) {
        return Vec::new();
    }
    let ended = match certificate_list::with_ended_crl(path) {
        Ok(ended) => ended,
        Err(reason) => {
            return vec![finding(reason.to_string(), "restore the list from a backup, with mode 600")];
        }
    };
    let text = |subject| format!("the last CRL of {subject} has ended");
    ended.into_iter().map(|subject| finding(text(subject), "jeton crl --label LABEL")).collect()
}

/// Returns a finding for each token whose move to or from a database was interrupted.
fn interrupted_moves(directory: &Path) -> Vec<Finding> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let in_own = |path: &PathBuf| token_file::token_in(path).map(|file| file.with_extension(MOVING));
    let files = entries.map(|path| in_own(&path).unwrap_or(path));
    let moving =
        files.filter(|path| path.extension().is_some_and(|ending| ending == MOVING) && path.is_file());
    let found = |path: PathBuf| {
        let problem = "the move of this token to or from a database was interrupted".to_owned();
        let serial = path.file_stem().unwrap_or_default().to_string_lossy();
        let remedy = format!("jeton token move --serial {serial} --to database, or --to directory");
        Finding::new("interrupted-move", Some(&path), problem, remedy)
    };
    moving.map(found).collect()
}

/// The files that belong to tokens, and the tokens' own directories, by path.
#[derive(Default)]
struct Files {
    files: BTreeMap<PathBuf, Metadata>,
    directories: BTreeMap<PathBuf, Metadata>,
}

impl Files {
    fn read(directory: &Path) -> Result<Self, Error> {
        let mut found = Self::default();
        for entry in fs::read_dir(directory).map_err(Error::io(directory))? {
            let path = entry.map_err(Error::io(directory))?.path();
            // A file may be gone by now.
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            if token_file::token_in(&path).is_some() && !data.is_file() {
                if data.is_dir() {
                    found.files.extend(files_in(&path));
                }
                found.directories.insert(path, data);
            } else if is_of_token(&path) {
                found.files.insert(path, data);
            }
        }
        Ok(found)
    }

    fn sharing(&self, directory: &Metadata) -> Sharing {
        let of_group =
            |(_, data): (&PathBuf, &Metadata)| data.gid() == directory.gid() && data.mode() & 0o060 == 0o060;
        if directory.mode() & 0o020 == 0 {
            Sharing::Owner
        } else if directory.mode() & 0o2000 != 0 || self.tokens().any(of_group) {
            Sharing::Group
        } else if self.tokens().next().is_none() {
            Sharing::Unknown
        } else {
            Sharing::Owner
        }
    }

    fn tokens(&self) -> impl Iterator<Item = (&PathBuf, &Metadata)> {
        self.files.iter().filter(|(path, _)| path.extension().is_some_and(|ending| ending == "jeton"))
    }

    /// Returns a finding if a killed process left this file, or if its token is gone. A rollback
    /// journal is always a finding.
    fn leftover(&self, path: &Path, data: &Metadata) -> Option<Finding> {
        let ending = path.extension()?.to_str()?;
        let token = self.files.contains_key(&path.with_extension("jeton"));
        let problem = match ending {
            "jeton" => return None,
            "jeton-journal" => {
                "a token never has a rollback journal, and the module refuses a token with one"
            }
            "jeton-wal" | "jeton-shm" | "jeton-lock" if token => return None,
            "jeton-wal" if data.len() > 0 => {
                "the token of this log is gone; the log may hold its last changes"
            }
            _ if data.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age < QUIET)) => {
                return None;
            }
            "jeton-wal" | "jeton-shm" | "jeton-lock" => "the token of this file is gone",
            _ => "a process that was killed left this file",
        };
        let finding =
            Finding::new("leftover", Some(path), problem.to_owned(), format!("rm {}", quoted(path)));
        let safe = ending != "jeton-journal" && (ending != "jeton-wal" || data.len() == 0);
        Some(if safe && is_free(path) { finding.with_repair(Repair::Remove) } else { finding })
    }
}

/// Returns a finding if a killed process left an own directory empty.
fn empty(path: &Path, data: &Metadata) -> Option<Finding> {
    let is_old = data.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= QUIET));
    let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let problem = "a process that was killed left this directory".to_owned();
    let finding = Finding::new("leftover", Some(path), problem, format!("rmdir {}", quoted(path)));
    (is_old && is_empty).then(|| finding.with_repair(Repair::RemoveDirectory))
}

/// Returns the files of a token in its own directory.
fn files_in(own: &Path) -> Vec<(PathBuf, Metadata)> {
    let paths = fs::read_dir(own).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = paths.filter(|path| token_file::own_directory(path).is_some() && is_of_token(path));
    files.filter_map(|path| fs::symlink_metadata(&path).ok().map(|data| (path, data))).collect()
}

/// Returns whether a file has an extension of the files of a token.
fn is_of_token(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ending.split('-').next().is_some_and(|ending| ["jeton", "new", "backup"].contains(&ending))
}

/// Returns whether no process holds a lock of the file.
fn is_free(path: &Path) -> bool {
    let Ok(file) = token_file::open_file(path, OFlags::RDWR, 0) else { return false };
    // SQLite locks files with fcntl(2). Jeton itself uses flock(2).
    let sqlite = rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    sqlite.is_ok() && file.try_lock().is_ok()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Owner,
    /// A group, which may write to the directory and to its tokens.
    Group,
    /// A group may write to the directory, which has no tokens yet.
    Unknown,
}

/// Returns a finding if every user may write to a directory on the way to the token directory.
fn way(path: &Path, data: &Metadata) -> Option<Finding> {
    let reason = token_file::check_directory(path).err().filter(|_| data.mode() & 0o002 == 0)?.to_string();
    let (problem, remedy) = reason.split_once(": ").unwrap_or((&reason, ""));
    Some(Finding::new("permissions", Some(path), problem.to_owned(), remedy.to_owned()))
}

fn directory_permissions(path: &Path, data: &Metadata, sharing: Sharing) -> Option<Finding> {
    let mode = data.mode() & 0o7777;
    let lacks_setgid = mode & 0o2020 == 0o020;
    let problem = if mode & 0o002 != 0 {
        "every user may add files"
    } else if lacks_setgid && sharing == Sharing::Owner {
        "a group may replace files, but the tokens belong to one user"
    } else if lacks_setgid {
        "a group may write, but new files do not belong to the group: the setgid bit is missing"
    } else {
        return None;
    };
    // A group that uses the tokens keeps its rights.
    let right = match sharing {
        Sharing::Group => mode & !0o002 | 0o2000,
        Sharing::Unknown => mode & !0o002,
        Sharing::Owner => mode & !0o077,
    };
    let remedy = match sharing {
        Sharing::Group if mode & 0o002 == 0 => format!("chmod g+s {}", quoted(path)),
        Sharing::Unknown if mode & 0o002 == 0 => {
            format!(
                "chmod g+s {0} to share the directory with the group, otherwise chmod g-w {0}",
                quoted(path)
            )
        }
        _ => format!("chmod {right:o} {}", quoted(path)),
    };
    let finding = Finding::new("permissions", Some(path), format!("mode {mode:o}: {problem}"), remedy);
    let repair = Repair::SetMode { mode: right, id: id(data) };
    Some(if right == mode { finding } else { finding.with_repair(repair) })
}

fn file_permissions(path: &Path, data: &Metadata, sharing: Sharing) -> Option<Finding> {
    let mode = data.mode() & 0o7777;
    let right = if sharing == Sharing::Owner { mode & 0o600 } else { mode & 0o660 };
    if !data.is_file() || mode == right {
        return None;
    }
    let finding = |problem: &str, remedy| {
        Finding::new(
            "permissions",
            Some(path),
            format!("mode {mode:o} gives {problem} rights on this file"),
            remedy,
        )
    };
    let command = format!("chmod {right:o} {}", quoted(path));
    // A group that has rights may need them. So only the administrator takes them away.
    if mode & 0o7007 == 0 {
        return Some(finding("a group", format!("{command}, unless the group needs the token")));
    }
    Some(finding("other users", command).with_repair(Repair::SetMode { mode: right, id: id(data) }))
}

fn owner(path: &Path, data: &Metadata, directory: &Metadata, sharing: Sharing) -> Option<Finding> {
    // In a shared directory each file belongs to the user who made it.
    if data.uid() == directory.uid() || sharing != Sharing::Owner {
        return None;
    }
    let problem =
        format!("the file belongs to user {}, the directory to user {}", data.uid(), directory.uid());
    let remedy = format!("chown {}:{} {}", directory.uid(), directory.gid(), quoted(path));
    Some(Finding::new("owner", Some(path), problem, remedy))
}

fn read_only(directory: &Path) -> Option<Finding> {
    let reason = rustix::fs::accessat(CWD, directory, Access::WRITE_OK, AtFlags::EACCESS).err()?;
    let reason = std::io::Error::from(reason);
    let problem =
        format!("{reason}: no token can be changed, wrong PINs are not counted, and logins take longer");
    let remedy = if reason.kind() == ErrorKind::PermissionDenied {
        format!("use the tool as a user who may write to {}", quoted(directory))
    } else {
        "mount the file system with write access; for a service: ReadWritePaths=".to_owned()
    };
    Some(Finding::new("read-only", Some(directory), problem, remedy))
}

/// Returns a finding if the file of the configured sealing key cannot be read.
fn unreadable_sealing_key(settings: &BTreeMap<&str, String>) -> Option<Finding> {
    let path = Path::new(settings.get("store.sealing-key")?.strip_prefix("file:")?);
    let reason = std::io::Error::from(rustix::fs::access(path, Access::READ_OK).err()?);
    let problem = format!("the configured sealing key cannot be read: {reason}");
    let remedy = "put the file of the sealing key back; without it, no PIN opens the tokens that need it";
    Some(Finding::new("sealing-key", Some(path), problem, remedy.to_owned()))
}

fn free_space(directory: &Path) -> Result<Option<Finding>, Error> {
    let space = rustix::fs::statvfs(directory).map_err(|reason| Error::io(directory)(reason.into()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let problem = format!("{} KiB are free; a token needs {} KiB", free >> 10, LEAST_FREE >> 10);
    let remedy =
        "free space on this file system, or move the directory (`token-dir` in the configuration)".to_owned();
    Ok((free < LEAST_FREE).then(|| Finding::new("free-space", Some(directory), problem, remedy)))
}

fn memory_lock() -> Option<Finding> {
    let limit = getrlimit(Resource::Memlock).current?;
    let problem = format!(
        "the limit on locked memory is {} KiB, and secrets use half of it; further secrets may be swapped out",
        limit >> 10
    );
    let remedy = format!("ulimit -l {}; for a service: LimitMEMLOCK=8M", LEAST_LOCKED >> 10);
    (limit < LEAST_LOCKED).then(|| Finding::new("memory-lock", None, problem, remedy))
}

fn clock(files: &Files) -> Option<Finding> {
    let remedy = "set the clock: the audit log and the dates of backups need it".to_owned();
    let now = SystemTime::now();
    if now < SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN) {
        return Some(Finding::new("clock", None, "the clock is before 2026".to_owned(), remedy));
    }
    let newer = |data: &Metadata| data.modified().is_ok_and(|time| time > now + AHEAD);
    let (path, _) = files.files.iter().find(|(_, data)| newer(data))?;
    let problem = "this file was changed more than a day after the time of the clock".to_owned();
    Some(Finding::new("clock", Some(path), problem, remedy))
}

/// Examines the contents of the tokens, and the processes that use them.
fn tokens(
    files: &Files,
    settings: &BTreeMap<&str, String>,
    login: Option<Login<'_>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Finding>, Error> {
    let mut findings = Vec::new();
    let opened = token_file::all()?;
    let paths: BTreeSet<_> = opened.iter().map(TokenFile::path).collect();
    // A user who may not read a token's own directory does not see its file.
    let closed = files.directories.keys().filter(|path| rustix::fs::access(*path, Access::READ_OK).is_err());
    let unopened = files.tokens().map(|(path, _)| path).filter(|path| !paths.contains(path.as_path()));
    for path in closed.chain(unopened) {
        // A file that this user may not open is not damaged.
        if let Err(reason) = rustix::fs::access(path, Access::READ_OK) {
            let reason = std::io::Error::from(reason);
            let problem = format!("this user cannot open the token: {reason}");
            let remedy = "use the tool as the owner of the file, or as a member of its group".to_owned();
            findings.push(Finding::new("access", Some(path), problem, remedy));
            continue;
        }
        let problem = "the module cannot open this token; the log says why".to_owned();
        let remedy = "jeton backup restore BACKUP, after this file is moved away".to_owned();
        findings.push(Finding::new("damaged", Some(path), problem, remedy));
    }
    let names_sealing_key = settings.get("store.sealing-key").is_some_and(|key| key != "none");
    let has_sealing_key = names_sealing_key && unreadable_sealing_key(settings).is_none();
    let mut serials = BTreeSet::new();
    for token in &opened {
        let path = token.path();
        let info = token_file::info(token)?;
        if !serials.insert(info.serial.clone()) {
            let problem = format!("another file has the serial number {} too", shown(&info.serial));
            let remedy = format!("move the older copy away: mv {} ELSEWHERE", quoted(path));
            findings.push(Finding::new("duplicate", Some(path), problem, remedy));
        } else {
            findings.extend(flat(path));
        }
        let damage = token_file::damage(token)?;
        let mut skip = |reason: &str| notes.push(not_examined(&info, reason));
        match login {
            None => skip("they need a PIN"),
            Some(_) if !damage.is_empty() => {}
            Some(Login { role: Role::User, .. }) if info.user.is_none() => {
                skip("the user's PIN was never set")
            }
            Some(_) if info.so.sealing_key.is_some() && !has_sealing_key => {
                skip("they need its sealing key");
            }
            Some(login) => {
                let is_cnsa2 = settings.get("policy.name").is_some_and(|name| name == "cnsa2");
                findings.extend(records(token, &info, login, is_cnsa2, notes));
            }
        }
        for problem in damage {
            let remedy = "jeton backup restore BACKUP, after this file is moved away".to_owned();
            findings.push(Finding::new("damaged", Some(path), problem, remedy));
        }
        findings.extend(pins(path, &info, settings));
        findings.extend(sealing_key(path, &info, settings));
        findings.extend(
            processes::of_other_versions(path)
                .into_iter()
                .map(|(problem, remedy)| Finding::new("other-versions", Some(path), problem, remedy)),
        );
    }
    Ok(findings)
}

/// Returns a finding if a token has no directory of its own.
fn flat(path: &Path) -> Option<Finding> {
    let problem =
        "the token has no directory of its own, so an agent cannot confine a client to it".to_owned();
    let remedy = "end the programs that use the token; then jeton doctor --repair".to_owned();
    let finding = Finding::new("flat", Some(path), problem, remedy);
    token_file::own_directory(path).is_none().then(|| finding.with_repair(Repair::GiveOwnDirectory))
}

fn not_examined(info: &Info, reason: &str) -> String {
    format!("not examined: the encrypted records of the token {:?}: {reason}", info.label)
}

/// Decrypts every record of a copy of the token. Under the policy *cnsa2*, also returns a finding
/// for each key that the policy refuses.
fn records(
    token: &TokenFile,
    info: &Info,
    login: Login<'_>,
    is_cnsa2: bool,
    notes: &mut Vec<String>,
) -> Vec<Finding> {
    let copy = match token_file::copy(token) {
        Ok(copy) => copy,
        Err(reason) => {
            notes.push(not_examined(info, &reason.to_string()));
            return Vec::new();
        }
    };
    let reason = match token_file::check(&copy, Some(login)) {
        Ok(facts) if is_cnsa2 => {
            let refused = facts.outside_cnsa2.into_iter().map(|key| {
                let problem = format!("the policy cnsa2 refuses the key {key}");
                let remedy = "generate a new one, and delete this one: jeton object delete".to_owned();
                Finding::new("cnsa2", Some(token.path()), problem, remedy)
            });
            return refused.collect();
        }
        Ok(_) => return Vec::new(),
        Err(reason) => reason,
    };
    let (check, remedy) = if reason.cause() == Cause::WrongPin {
        (
            "wrong-pin",
            "pass the right PIN; if it is right, the PIN record was altered: jeton backup restore BACKUP",
        )
    } else {
        ("damaged", "jeton backup restore BACKUP, after this file is moved away")
    };
    vec![Finding::new(check, Some(token.path()), reason.to_string(), remedy.to_owned())]
}

fn pins(path: &Path, info: &Info, settings: &BTreeMap<&str, String>) -> Vec<Finding> {
    let serial = &info.serial;
    let number = |key: &str| settings.get(key).and_then(|text| text.parse().ok()).unwrap_or(0);
    let (memory, passes): (u32, u32) = (number("pin.memory-kib"), number("pin.passes"));
    let each = [("SO", Some(&info.so)), ("user", info.user.as_ref())];
    let mut findings = Vec::new();
    for (whose, pin) in each.into_iter().filter_map(|(whose, pin)| Some((whose, pin?))) {
        let PinInfo { failures, limit, .. } = *pin;
        let new_pin = match whose {
            "SO" => format!("jeton pin reset --serial {serial}"),
            _ => format!("jeton pin unblock --serial {serial}"),
        };
        if failures >= limit {
            let problem = format!("the {whose} PIN is locked after {failures} wrong PINs");
            findings.push(Finding::new("locked-pin", Some(path), problem, new_pin));
        } else if failures * 2 >= limit {
            let problem = format!("{failures} of {limit} wrong {whose} PINs were tried since the last login");
            let remedy =
                format!("a login with the right PIN, or jeton pin reset --failures --serial {serial}");
            findings.push(Finding::new("wrong-pins", Some(path), problem, remedy));
        }
        let Some(PinCost::Argon2id { memory_kib: its_memory, passes: its_passes }) = pin.cost else {
            continue;
        };
        let weaker = its_memory < memory || its_passes < passes;
        if weaker || u64::from(its_memory) * u64::from(its_passes) < LEAST_COST {
            let problem = format!(
                "the {whose} PIN is protected by Argon2id with {its_memory} KiB and {its_passes} passes only"
            );
            let login = format!("a login of the {whose} makes it as strong as the configuration says");
            let remedy =
                if weaker { login } else { format!("[pin] memory-kib = 19456 and passes = 2; then {login}") };
            findings.push(Finding::new("weak-pin-record", Some(path), problem, remedy));
        }
    }
    findings
}

fn sealing_key(path: &Path, info: &Info, settings: &BTreeMap<&str, String>) -> Option<Finding> {
    let id = info.so.sealing_key.as_ref()?;
    let missing = settings.get("store.sealing-key").is_none_or(|key| key == "none");
    let problem =
        format!("no PIN opens the token without the sealing key {id}, and the configuration names no key");
    let remedy = "[store] sealing-key = \"file:/PATH\"".to_owned();
    missing.then(|| Finding::new("sealing-key", Some(path), problem, remedy))
}

/// Returns a path as a word of the shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+".contains(&byte)) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_repair_changes_no_file_but_the_one_that_was_examined() {
        let folder = tempfile::tempdir().expect("a directory");
        let (path, other) = (folder.path().join("a.jeton"), folder.path().join("other"));
        let set =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("its owner");
        let mode = |path: &Path| fs::metadata(path).expect("a file").mode() & 0o777;
        let examine = || {
            let data = fs::symlink_metadata(&path).expect("a file");
            file_permissions(&path, &data, Sharing::Owner).expect("a finding")
        };
        for file in [&path, &other] {
            fs::write(file, "").expect("a file");
            set(file, 0o644);
        }
        let finding = examine();
        let swaps: [fn(&Path, &Path); 3] = [
            |path, other| symlink(other, path).expect("a link"),
            |path, other| fs::hard_link(other, path).expect("a link"),
            |path, _| {
                rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o644), 0)
                    .expect("a FIFO")
            },
        ];
        for swap in swaps {
            let aside = folder.path().join("aside");
            fs::rename(&path, &aside).expect("another name");
            swap(&path, &other);
            assert!(finding.repair().is_err());
            assert_eq!((mode(&other), mode(&path)), (0o644, 0o644));
            fs::rename(&aside, &path).expect("the name");
        }
        // A file with a second name may be another user's from the start.
        fs::hard_link(&path, folder.path().join("second")).expect("a link");
        assert!(examine().repair().is_err());
        fs::remove_file(folder.path().join("second")).expect("a link");
        assert!(finding.repair().expect("the file itself"));
        assert_eq!(mode(&path), 0o600);
    }
}
