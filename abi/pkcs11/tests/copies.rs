//! Two copies of the module in one process lose no object. Neither does a process that reads its
//! own token directory.
//!
//! Locks of fcntl(2) belong to a process. Two copies in one process would both get the same lock.
//! Closing any descriptor of a file would drop every lock of the process on the file. So the module
//! takes locks that belong to an open file description.
//!
//! `JETON_COPIES_OBJECTS` is the number of objects that each thread creates, by default 150.

#![cfg(target_os = "linux")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or POSIX")]

#[macro_use]
mod common;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{attribute, built, load, nothing, open, slots, user};
use cryptoki_sys::*;

fn main() {
    match jeton_child::role::<String>().transpose().expect("a role").as_deref() {
        None => {
            let filter = std::env::args().nth(1).unwrap_or_default();
            let tests: [(&str, fn()); 2] = [
                ("two_copies_in_one_process_lose_nothing", two_copies_in_one_process_lose_nothing),
                (
                    "a_process_that_reads_its_token_directory_loses_nothing",
                    a_process_that_reads_its_token_directory_loses_nothing,
                ),
            ];
            for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&filter)) {
                println!("{name}");
                test();
            }
        }
        Some("token") => common::prepare_token(load(&built())),
        Some("labels") => labels(load(&built())).iter().for_each(|label| println!("{label}")),
        Some("copies") => {
            let copies = ["one", "other"].map(|name| {
                let copy = directory().join(format!("{name}.so"));
                std::fs::copy(built(), &copy).expect("a copy of the module");
                load(&copy)
            });
            std::thread::scope(|scope| {
                for (number, list) in copies.into_iter().enumerate() {
                    scope.spawn(move || create_objects(list, &format!("copy {number}")));
                }
            });
        }
        Some("reader") => {
            static DONE: AtomicBool = AtomicBool::new(false);
            let reader = std::thread::spawn(|| {
                while !DONE.load(Ordering::Relaxed) {
                    back_up();
                }
            });
            create_objects(load(&built()), "reader");
            DONE.store(true, Ordering::Relaxed);
            reader.join().expect("a thread that reads");
        }
        Some(name) => create_objects(load(&built()), name),
    }
}

fn two_copies_in_one_process_lose_nothing() {
    // The sanitizer needs an executable that exports its symbols. Both copies would use the symbols
    // of the executable, and behave as one module.
    if !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__asan_init".as_ptr()) }.is_null() {
        return jeton_programs::skip("under AddressSanitizer two copies share their state");
    }
    let directory = Directory::new("two");
    let written = directory.run("copies");
    directory.check(&written, 4);
}

fn a_process_that_reads_its_token_directory_loses_nothing() {
    let directory = &Directory::new("reader");
    let written = std::thread::scope(|scope| {
        let start = |work| scope.spawn(move || directory.run(work));
        let workers = ["reader", "second", "third"].map(start);
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    });
    directory.check(&written, 6);
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("jeton-copies-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("tokens")).expect("a directory");
        let configuration = format!("[pin]\nmemory-kib = 8\npasses = 1\n{}", common::store(&path));
        std::fs::write(path.join("jeton.toml"), configuration).expect("a file");
        let directory = Self(path);
        directory.run("token");
        directory
    }

    /// Runs a process of this binary that does `work` on the token. Returns the labels that it
    /// prints.
    fn run(&self, work: &str) -> BTreeSet<String> {
        let mut command = jeton_child::of_role(&work);
        command.env("JETON_DIR", self.0.join("tokens")).env("JETON_CONF", self.0.join("jeton.toml"));
        let (labels, _) = jeton_child::output(command).expect("a process");
        labels.lines().map(str::to_owned).collect()
    }

    /// Checks that all acknowledged objects exist, and that the file is valid.
    fn check(&self, written: &BTreeSet<String>, threads: usize) {
        let expected = threads * objects_per_thread();
        assert_eq!(written.len(), expected, "objects acknowledged");
        let found = self.run("labels");
        let lost: Vec<_> = written.difference(&found).collect();
        assert!(lost.is_empty(), "{} objects are lost: {lost:?}", lost.len());
        if !common::has_database() {
            let connection =
                rusqlite::Connection::open(token_file(&self.0.join("tokens"))).expect("the file");
            let answer: String =
                connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
            assert_eq!(answer, "ok");
        }
        println!("{expected} objects acknowledged, none lost");
        std::fs::remove_dir_all(&self.0).expect("the directory");
    }
}

fn directory() -> PathBuf {
    PathBuf::from(std::env::var_os("JETON_DIR").expect("the token directory")).join("..")
}

fn token_file(tokens: &Path) -> PathBuf {
    let own = std::fs::read_dir(tokens).expect("the directory").next().expect("a token").expect("an entry");
    own.path().join(own.file_name()).with_extension("jeton")
}

fn objects_per_thread() -> usize {
    std::env::var("JETON_COPIES_OBJECTS").map_or(150, |text| text.parse().expect("a number"))
}

/// Opens every file of the token directory, reads one byte and closes the file. A backup program
/// also opens and closes these files.
fn back_up() {
    let tokens = PathBuf::from(std::env::var_os("JETON_DIR").expect("the token directory"));
    let own = token_file(&tokens);
    for entry in std::fs::read_dir(own.parent().expect("a directory")).expect("the directory") {
        // A journal may be gone by now. One byte is enough, because closing the file would already
        // drop locks of fcntl(2).
        let file = std::fs::File::open(entry.expect("a file").path());
        let _ = file.and_then(|mut file| file.read_exact(&mut [0]));
    }
}

/// Two threads create objects, and print the label of each when it is acknowledged.
fn create_objects(list: &'static CK_FUNCTION_LIST, name: &str) {
    call!(list.C_Initialize(nothing()));
    user(list);
    let slot = slots(list)[0];
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let session = open(list, slot, 0);
                for number in 0..objects_per_thread() {
                    let label = format!("{name}, thread {thread}, object {number}");
                    let mut template = [
                        attribute(CKA_CLASS, &CKO_DATA),
                        attribute(CKA_TOKEN, &CK_TRUE),
                        attribute(CKA_LABEL, label.as_bytes()),
                    ];
                    let mut object = 0;
                    call!(list.C_CreateObject(session, template.as_mut_ptr(), 3, &raw mut object));
                    println!("{label}");
                }
            });
        }
    });
    call!(list.C_Finalize(nothing()));
}

fn labels(list: &CK_FUNCTION_LIST) -> Vec<String> {
    call!(list.C_Initialize(nothing()));
    let session = user(list);
    call!(list.C_FindObjectsInit(session, nothing(), 0));
    let mut labels = Vec::new();
    loop {
        let (mut object, mut count) = (0, 0);
        call!(list.C_FindObjects(session, &raw mut object, 1, &raw mut count));
        if count == 0 {
            break;
        }
        let mut label = [0; 64];
        let mut template = [common::room(CKA_LABEL, &mut label)];
        call!(list.C_GetAttributeValue(session, object, template.as_mut_ptr(), 1));
        let len = template[0].ulValueLen as usize;
        labels.push(String::from_utf8(label[..len].to_vec()).expect("text"));
    }
    call!(list.C_Finalize(nothing()));
    labels
}
