//! A token on a full disk, on a read-only disk, and in a directory that the process cannot write:
//! listing, login and use succeed. In a process without memory, a login fails. Only a wrong PIN
//! costs an attempt.
//!
//! The disks are file systems in memory, in a mount namespace of the child. This needs root. A test
//! that cannot run prints the reason.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use jeton::id::token_flag as flag;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::faults::failures;

const WRONG: &[u8] = b"a wrong one";
const LIMIT: u32 = 3;
/// The delay in seconds of a PIN attempt that cannot be counted, in these tests.
const DELAY: u64 = 1;
/// An unprivileged user.
const STRANGER: u32 = 65534;

const DISK: &str = "size=2m,mode=0700";

/// Runs a child in its own mount namespace. Without the permission, prints a line instead.
pub fn with_mounts(role: &str) {
    let allowed = Command::new("unshare").args(["--mount", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return jeton_programs::skip("only root can mount a disk");
    }
    let directory = Directory::new();
    Process::below("unshare", &["--mount"], role, &directory, ()).echo();
}

fn mount(arguments: &[&str], place: &Path) {
    let status = Command::new("mount").args(arguments).arg(place).status().expect("mount");
    assert!(status.success(), "mount {arguments:?}");
}

/// A module that waits one second for each PIN attempt that it cannot count.
fn slow(directory: &Arc<Directory>) -> Client {
    let path = directory.path().display();
    let text = format!(
        "token-dir = '{path}', log = {{ level = 'off' }}, \
         pin = {{ memory-kib = 8, passes = 1, retries = {LIMIT}, uncounted-delay = {DELAY} }}"
    );
    Client::start(directory, &text).expect("a module")
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

fn fill(directory: &Directory) -> PathBuf {
    let path = directory.path().join("filler");
    let mut file = File::options().append(true).create(true).open(&path).expect("a file");
    for len in [1 << 16, 1 << 12, 1] {
        while file.write(&vec![1; len]).is_ok_and(|written| written > 0) {}
    }
    path
}

fn signs(client: &Client, session: SessionHandle) {
    let key = client.find_one(session, &none().label("pair").flag(A::SIGN, true));
    client.sign(session, &plain(M::ECDSA_SHA256), key, b"data").expect("a signature");
}

fn stored(client: &Client, session: SessionHandle, count: usize) -> Vec<ObjectHandle> {
    (0..count).map(|_| client.create(session, &data("doomed").stored()).expect("an object")).collect()
}

/// Creates a token with a key pair and some objects in this directory.
fn made(directory: &Arc<Directory>) {
    let client = client(directory, LIMIT);
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    unlock(&client, PIN);
    let session = client.user();
    pair(&client, session, Kind::P256, &none().stored().label("pair"));
    stored(&client, session, 20);
    client.finalize().expect("a module");
}

pub fn full_child() {
    let directory = directory();
    mount(&["-t", "tmpfs", "-o", DISK, "jeton"], directory.path());
    made(&directory);

    // A process that has the token open when the disk fills up.
    let client = slow(&directory);
    let session = client.user();
    let filler = fill(&directory);
    let doomed = client.find(session, &none().label("doomed"));
    assert_eq!(client.create(session, &data("new").stored()), Err(Error::DeviceMemory));
    for object in &doomed[..5] {
        client.destroy_object(session, *object).expect("room to destroy an object");
    }
    client.logout(session).expect("a logout");
    // The reserve has room for the count.
    let (outcome, time) = timed(|| client.module.login(session, User::User, WRONG));
    assert_eq!(outcome, Err(Error::PinIncorrect));
    assert!(time < Duration::from_secs(DELAY), "{time:?}");
    assert_eq!(failures(&directory), Ok((0, 1)));
    client.login(session);
    assert_eq!(failures(&directory), Ok((0, 0)));
    signs(&client, session);
    client.finalize().expect("a module");

    // A process that starts on the full disk.
    let client = slow(&directory);
    let session = client.user();
    signs(&client, session);
    assert_eq!(client.module.login(session, User::User, PIN), Err(Error::UserAlreadyLoggedIn));
    let doomed = client.find(session, &none().label("doomed"));
    assert_eq!(doomed.len(), 15);
    for object in doomed {
        client.destroy_object(session, object).expect("room to destroy an object");
    }
    assert_eq!(client.find(session, &none().label("doomed")), []);
    client.finalize().expect("a module");

    // A process that starts on the full disk, after another file used the reserve.
    let reserve = directory.file("jeton-lock");
    File::options().write(true).open(reserve).expect("the reserve").set_len(0).expect("the reserve");
    fill(&directory);
    let client = slow(&directory);
    let session = client.open();
    let (outcome, time) = timed(|| client.module.login(session, User::User, PIN));
    assert_eq!(outcome, Ok(()));
    assert!(time >= Duration::from_secs(DELAY), "{time:?}");
    signs(&client, session);
    assert_eq!(client.create(session, &data("new").stored()), Err(Error::DeviceMemory));
    let free = client.slots().expect("slots")[1];
    assert_eq!(client.init_token(free, SO_PIN, LABEL), Err(Error::DeviceMemory));
    client.logout(session).expect("a logout");
    lock_in_memory(&client, session, Error::DeviceMemory);

    // When there is free space again, a new module can write. The failed calls left no partial
    // object that prevents this.
    std::fs::remove_file(filler).expect("the filler");
    let client = slow(&directory);
    let session = client.user();
    stored(&client, session, 1);
    let free = client.slots().expect("slots")[1];
    client.init_token(free, SO_PIN, LABEL).expect("a token");
    // An object that is too large for the disk does not fail with those of other threads.
    let large = Attributes::of(ObjectClass::DATA).bytes(A::VALUE, &vec![1; 4 << 20]).stored();
    std::thread::scope(|scope| {
        let refused = || assert_eq!(client.create(session, &large), Err(Error::DeviceMemory));
        scope.spawn(move || (0..20).for_each(|_| refused()));
        for object in stored(&client, session, 20) {
            client.destroy_object(session, object).expect("an object");
        }
    });
    // Nor does it leave its pages in the log.
    assert_eq!(client.create(session, &large), Err(Error::DeviceMemory));
    let files = files_below(directory.path()).into_iter();
    let mut logs = files.filter(|file| file.to_string_lossy().ends_with("-wal"));
    assert!(logs.all(|log| log.metadata().expect("a length").len() < 1 << 16));
    for (disk, len) in [("size=3m,mode=0700", 3000), (DISK, 120_000), ("size=3m,mode=0700", 1_200_000)] {
        let fresh = Directory::new();
        mount(&["-t", "tmpfs", "-o", disk, "jeton"], fresh.path());
        fill_with_objects(&fresh, len);
        assert!(Command::new("umount").arg(fresh.path()).status().expect("umount").success());
    }
    let limit = Rlimit { current: Some(1 << 19), ..getrlimit(Resource::Fsize) };
    setrlimit(Resource::Fsize, limit).expect("a limit");
    fill_with_objects(&Directory::new(), 1000);
    sign_with_full_logs();
    println!("a full disk of 2 MiB: listed, logged in, signed, 20 objects destroyed");
}

/// A process with a limit on the length of its files signs after its logs have that length.
fn sign_with_full_logs() {
    let directory = Directory::new();
    made(&directory);
    let [log, audit] = ["log", "audit"].map(|name| directory.path().join(name));
    File::create(&log).and_then(|file| file.set_len(1 << 19)).expect("a file");
    let text = format!(
        "token-dir = '{}', log = {{ file = '{}' }}, audit = {{ file = '{}' }}, \
         pin = {{ memory-kib = 8, passes = 1 }}",
        directory.path().display(),
        log.display(),
        audit.display()
    );
    let client = Client::start(&directory, &text).expect("a module");
    let session = client.user();
    for _ in 0..4_000 {
        signs(&client, session);
    }
    client.finalize().expect("a module");
    let lens = [log, audit].map(|path| std::fs::metadata(path).expect("a file").len());
    assert!(lens[0] == 1 << 19 && (15 << 15..=1 << 19).contains(&lens[1]), "{lens:?}");
}

/// Objects of any length leave no log for which the main file has no room.
fn fill_with_objects(directory: &Arc<Directory>, len: usize) {
    made(directory);
    let client = slow(directory);
    let session = client.user();
    let object = Attributes::of(ObjectClass::DATA).bytes(A::VALUE, &vec![1; len]).stored();
    for object in std::iter::from_fn(|| client.create(session, &object).ok()).collect::<Vec<_>>() {
        client.destroy_object(session, object).expect("room to destroy an object");
    }
    client.finalize().expect("a module");
}

/// On a small disk, mke2fs(8) makes blocks of 1 KiB. SQLite writes one byte to each 4 KiB of its
/// index file. If the disk has room for these blocks and not for the whole file, a write through
/// the mapping ends the process by SIGBUS, unless the file gets its blocks first.
pub fn full_small_blocks_child() {
    if !jeton_programs::has("mke2fs") {
        return;
    }
    let (directory, images) = (directory(), Directory::new());
    let image = images.path().join("image");
    File::create(&image).and_then(|file| file.set_len(8 << 20)).expect("an image");
    let format =
        Command::new("mke2fs").args(["-q", "-t", "ext4", "-b", "1024", "-m", "0"]).arg(&image).status();
    assert!(format.is_ok_and(|status| status.success()), "mke2fs");
    mount(&["-o", "loop", &image.to_string_lossy()], directory.path());
    made(&directory);
    for blocks in [2, 6, 10, 14, 20, 28] {
        let truncated = |path: PathBuf, less: u64| {
            let file = File::options().write(true).open(path).expect("a file");
            file.set_len(file.metadata().expect("a length").len().saturating_sub(less)).expect("room");
        };
        truncated(directory.file("jeton-lock"), u64::MAX);
        let filler = fill(&directory);
        truncated(filler.clone(), blocks << 10);
        let client = slow(&directory);
        let session = client.user();
        signs(&client, session);
        client.finalize().expect("a module");
        std::fs::remove_file(filler).expect("the filler");
    }
    println!("a full disk with blocks of 1 KiB: logged in, signed");
}

/// Wrong PINs that cannot be counted on disk lock this process out, and cost time for any number of
/// threads.
fn lock_in_memory(client: &Client, session: SessionHandle, reason: Error) {
    let login = || client.module.login(session, User::User, WRONG);
    let (outcomes, time) = timed(|| {
        std::thread::scope(|scope| {
            let tries: Vec<_> = (0..LIMIT + 1).map(|_| scope.spawn(login)).collect();
            tries.into_iter().map(|thread| thread.join().expect("a thread")).collect::<Vec<_>>()
        })
    });
    let wrong = outcomes.iter().filter(|outcome| **outcome == Err(Error::PinIncorrect)).count();
    assert_eq!(wrong, LIMIT as usize, "{outcomes:?} with {reason:?}");
    assert!(time >= Duration::from_secs(DELAY * u64::from(LIMIT + 1)), "{time:?}");
    assert_eq!(client.module.login(session, User::User, PIN), Err(Error::PinLocked));
}

pub fn read_only_child() {
    let directory = directory();
    let disk = directory.path().to_owned();
    mount(&["-t", "tmpfs", "-o", DISK, "jeton"], &disk);
    made(&directory);
    mount(&["-o", "remount,ro"], &disk);
    let client = slow(&directory);
    read_only_use(&client);

    // The same process writes once the disk can be written.
    mount(&["-o", "remount,rw"], &disk);
    let session = client.user();
    stored(&client, session, 1);
    assert_eq!(client.flags() & flag::WRITE_PROTECTED, 0);

    // A copy of the files of a token in use, so that SQLite's files exist.
    let copy = Directory::new();
    mount(&["-t", "tmpfs", "-o", DISK, "jeton"], copy.path());
    copy_files(&disk, copy.path());
    mount(&["-o", "remount,ro"], copy.path());
    let other = slow(&copy);
    read_only_use(&other);
    assert_eq!(other.find(other.open(), &none().label("doomed")).len(), 21);
    other.finalize().expect("a module");
    drop(other);
    assert!(Command::new("umount").arg(copy.path()).status().expect("umount").success());
    println!("a read-only disk: listed, logged in, signed");
}

/// Uses a token that cannot be written, and logs out.
fn read_only_use(client: &Client) {
    assert_ne!(client.flags() & flag::WRITE_PROTECTED, 0);
    let session = client.open();
    let (outcome, time) = timed(|| client.module.login(session, User::User, PIN));
    assert_eq!(outcome, Ok(()));
    assert!(time >= Duration::from_secs(DELAY), "{time:?}");
    signs(client, session);
    let refused = Err(Error::TokenWriteProtected);
    assert_eq!(client.create(session, &data("new").stored()).map(drop), refused);
    let object = client.find(session, &none().label("doomed"))[0];
    assert_eq!(client.destroy_object(session, object), refused);
    assert_eq!(client.set(session, object, &none().label("new")), refused);
    assert_eq!(client.set_pin(session, PIN, b"a new one"), refused);
    client.logout(session).expect("a logout");
    client.close_session(session).expect("a session");
}

/// A directory that the process may not write, as another user than root.
pub fn unwritable() {
    let directory = Directory::new();
    made(&directory);
    let own = directory.file("jeton").parent().expect("a directory").to_owned();
    let mut paths = files_below(directory.path());
    paths.extend([directory.path().to_owned(), own.clone()]);
    if paths.iter().any(|path| chown(path, Some(STRANGER), Some(STRANGER)).is_err()) {
        return jeton_programs::skip("only root can act as another user");
    }
    for path in [directory.path(), &own] {
        std::fs::set_permissions(path, Permissions::from_mode(0o555)).expect("permissions");
    }
    // A copy of this binary where the other user can read it.
    let place = Directory::new();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).expect("permissions");
    let binary = place.path().join("crash");
    std::fs::copy(std::env::current_exe().expect("this binary"), &binary).expect("a copy");
    let stranger = STRANGER.to_string();
    let arguments = ["--reuid", &stranger, "--regid", &stranger, "--clear-groups"];
    let mut command = Command::new("setpriv");
    command.args(arguments).arg(binary);
    Process::run(jeton_child::in_role(command, &role_of("unwritable", &directory, ()))).echo();
}

pub fn unwritable_child() {
    let client = slow(&directory());
    read_only_use(&client);
    println!("an unwritable directory: listed, logged in, signed");
}

/// A login without memory for Argon2id costs no attempt.
pub fn memory() {
    let directory = Directory::new();
    let client = client(&directory, LIMIT);
    client.init_token(client.slot, SO_PIN, LABEL).expect("a token");
    client.finalize().expect("a module");
    let text = format!(
        "token-dir = '{}', pin = {{ memory-kib = {}, passes = 1, retries = {LIMIT} }}",
        directory.path().display(),
        256 * 1024
    );
    client.initialize(Some(&text)).expect("a module");
    unlock(&client, PIN);
    client.finalize().expect("a module");
    let script = ["-c", "ulimit -v 220000; exec \"$0\""];
    let said = Process::below("sh", &script, "no memory", &directory, ()).wait();
    assert_eq!(said, vec![format!("{:?}", Error::HostMemory); 2 * LIMIT as usize]);
    assert_eq!(failures(&directory), Ok((0, 0)));
    client.initialize(Some(&text)).expect("a module");
    assert_eq!(client.module.login(client.open(), User::User, PIN), Ok(()));
    println!("{} logins without memory cost no attempt", said.len());
}

pub fn memory_child() {
    let client = client(&directory(), LIMIT);
    let session = client.open();
    for _ in 0..2 * LIMIT {
        let outcome = client.module.login(session, User::User, PIN);
        println!("{:?}", outcome.expect_err("no memory"));
    }
}
