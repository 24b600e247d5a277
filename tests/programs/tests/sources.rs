//! A test starts only programs that every Debian has, that the README installs, or whose absence
//! skips the test. This test reads the sources of all tests, and finds the names after
//! `Command::new`. It does not see the programs in shell scripts: `.ci/full bare` runs all tests
//! without them.

use std::fs;
use std::path::{Path, PathBuf};

use jeton_programs::PROGRAMS;

/// The programs of Debian's essential packages and of those with the priority "required".
const ESSENTIAL: [&str; 13] = [
    "bash", "chown", "cp", "env", "find", "mount", "setpriv", "setsid", "sh", "timeout", "true", "umount",
    "unshare",
];

/// The programs of the packages in the first command of the README.
const README: [(&str, &str); 2] = [("cc", "gcc"), ("nm", "gcc")];

/// The programs of the tests with PostgreSQL, whose package depends on procps, and of those with
/// network namespaces. Both kinds of tests skip themselves.
const ELSEWHERE: [(&str, &str); 7] = [
    ("kill", "tests/token/server.rs"),
    ("kill", "tests/crash/database/namespaces.rs"),
    ("ip", "tests/crash/database/namespaces.rs"),
    ("kill", "tests/crash/database/patroni.rs"),
    ("ip", "tests/crash/database/patroni.rs"),
    ("ip", "agent/tests/network.rs"),
    ("mke2fs", "agent/tests/torture/disk.rs"),
];

#[test]
fn tests_start_no_program_that_may_be_missing() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    let install = readme.lines().find_map(|line| line.strip_prefix("apt-get install ")).expect("a command");
    for (program, package) in README {
        assert!(install.split(' ').any(|one| one == package), "the README lacks {package}, for {program}");
    }
    let mut wrong = Vec::new();
    for (name, text) in sources() {
        for start in text.split(concat!("Command::new", "(\"")).skip(1) {
            let program = start.split('"').next().unwrap_or_default();
            let is_there = ESSENTIAL.contains(&program) || README.iter().any(|(one, _)| *one == program);
            let is_checked = PROGRAMS.iter().any(|(one, _)| *one == program)
                && text.contains(&format!("has(\"{program}\")"))
                || ELSEWHERE.contains(&(program, &name));
            if !is_there && !is_checked {
                wrong.push(format!("{name} starts {program} without has({program:?})"));
            }
        }
    }
    wrong.dedup();
    assert_eq!(wrong, [""; 0], "a machine with the README's packages may lack these programs");
}

#[test]
fn no_rules_of_a_test_name_root() {
    let named = sources().into_iter().filter(|(_, text)| text.contains(concat!("uid = ", "0")));
    let named: Vec<_> = named.map(|(name, _)| name).collect();
    assert_eq!(named, [""; 0], "these tests fail for an ordinary user: use the uid of the process");
}

/// A name in the last column of docs/findings-agent.tsv that could be that of a test is one.
#[test]
fn findings_of_the_agent_name_tests_that_exist() {
    let table = fs::read_to_string(root().join("docs/findings-agent.tsv")).expect("the findings");
    let mut paths = Vec::new();
    find_sources(&root(), true, &mut paths);
    let texts: Vec<_> = paths.iter().map(|path| fs::read_to_string(path).expect("a source file")).collect();
    let is_name = |word: &&str| {
        let letters = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        word.chars().all(letters) && word.matches('_').count() > 1
    };
    let tests = table.lines().filter_map(|line| line.rsplit('\t').next());
    let named: Vec<_> = tests.flat_map(|tests| tests.split('`').skip(1).step_by(2)).filter(is_name).collect();
    assert!(named.len() > 50, "{named:?}");
    let is_missing = |name: &&str| !texts.iter().any(|text| text.contains(&format!("fn {name}(")));
    let missing: Vec<_> = named.into_iter().filter(is_missing).collect();
    assert_eq!(missing, [""; 0], "docs/findings-agent.tsv names no test");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the path and the text of each source file of a test.
fn sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    find_sources(&root(), false, &mut paths);
    assert!(paths.len() > 100, "{paths:?}");
    let name = |path: &Path| path.strip_prefix(root()).expect("a path below the root").display().to_string();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).expect("a source file"))).collect()
}

/// Adds the Rust files in the directories `tests`.
fn find_sources(directory: &Path, is_test: bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && name != ".git" {
            find_sources(&path, is_test || name == "tests", found);
        } else if is_test && path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
