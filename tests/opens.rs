//! `jeton::file::open` opens every file in the directories of tokens, counters and logs: it follows
//! no link and waits for no FIFO. This test lists all other places that open a file by its name,
//! and fails on a place without a reason.
//!
//! It does not parse Rust. It finds the names of functions in code that rustfmt has formatted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The sources that open such files: the core, the module, and these parts of the tool.
const SOURCES: &str = "src secret/src abi/src tool/src/backup tool/src/backup.rs tool/src/commands/backup.rs \
    tool/src/commands/token.rs tool/src/commands/token_file.rs tool/src/doctor tool/src/doctor.rs \
    tool/src/migrate/stage.rs tool/src/token tool/src/token.rs tool/src/token_file.rs";

/// The ends of the paths of functions that open a file by its name, or change it.
const OPENS: &str = "File::create File::create_new File::open File::options OpenOptions::new fs::copy fs::open \
    fs::read fs::read_to_string fs::set_permissions fs::write libc::chmod libc::creat libc::fopen \
    libc::open libc::openat Connection::open_with_flags";

/// The other places, each with its reason.
const ALLOWED: [(&str, &str, &str); 14] = [
    ("src/file.rs", "fs::open", "the one function, and the open of a directory"),
    (
        "src/file.rs",
        "OpenOptions::new",
        "a descriptor of this process, by its link below /proc, and a file that a configuration names",
    ),
    ("src/functions/key.rs", "File::options", "/dev/urandom"),
    ("src/store/descriptors.rs", "File::open", "/dev/null"),
    ("src/store/fcntl_locks.rs", "File::open", "/dev/null"),
    ("src/store/fcntl_locks.rs", "libc::open", "directories and /dev/null, which SQLite opens"),
    (
        "src/store/sqlite/schema.rs",
        "Connection::open_with_flags",
        "SQLite opens its files with src/store/fcntl_locks.rs",
    ),
    ("tool/src/backup/protection.rs", "File::open", "a file that the command line names"),
    ("tool/src/commands/backup.rs", "File::open", "a file that the command line names"),
    ("tool/src/doctor.rs", "fs::open", "changes nothing, and compares the file with the one examined before"),
    ("tool/src/doctor.rs", "fs::set_permissions", "a descriptor of this process, by its link below /proc"),
    ("tool/src/doctor/processes.rs", "fs::read", "/proc"),
    ("tool/src/migrate/stage.rs", "File::open", "the token directory itself"),
    ("secret/src/pages.rs", "fs::read_to_string", "a unit test"),
];

#[test]
fn every_open_is_the_one_function_or_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for source in SOURCES.split_whitespace() {
        collect(&root.join(source), &mut files);
    }
    assert!(files.len() > 100, "{} source files", files.len());
    let mut found = BTreeMap::new();
    for file in files {
        let name = file.strip_prefix(root).expect("a path in the clone").display().to_string();
        for (line, open) in opens(&fs::read_to_string(&file).expect("a source file")) {
            found.entry((name.clone(), open)).or_insert(line);
        }
    }
    let allowed = |(file, open): &(String, &str)| {
        ALLOWED.iter().any(|(known, function, _)| known == file && function == open)
    };
    let wrong: Vec<_> = found
        .iter()
        .filter(|(place, _)| !allowed(place))
        .map(|((file, open), line)| format!("{file} line {line}: {open}"))
        .collect();
    assert!(wrong.is_empty(), "opened without jeton::file::open:\n{}", wrong.join("\n"));
    let places: BTreeSet<_> = found.keys().map(|(file, open)| (file.as_str(), *open)).collect();
    for (file, open, _) in ALLOWED {
        assert!(places.contains(&(file, open)), "{file} does not call {open} any more");
    }
}

/// Adds a file, or the Rust files below a directory, without files of unit tests.
fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            collect(&entry.expect("an entry").path(), files);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
        files.push(path.to_owned());
    }
}

/// Returns the lines that open a file, and the functions. Leaves out comments and unit tests. These
/// are at the end of a file: clippy warns about code after them (`items_after_test_module`).
fn opens(text: &str) -> Vec<(usize, &'static str)> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for (line, code) in (1..).zip(code.lines().map(|line| line.split("//").next().unwrap_or_default())) {
        let is_end =
            |at: usize| !code[at..].starts_with(|after: char| after.is_alphanumeric() || after == '_');
        let is_start = |at: usize| !code[..at].ends_with(|before: char| before.is_alphanumeric());
        for open in OPENS.split_whitespace() {
            let hits = code.match_indices(open);
            if hits.into_iter().any(|(at, _)| is_start(at) && is_end(at + open.len())) {
                found.push((line, open));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_open_a_file_is_found() {
        for (line, open) in [
            ("let file = File::open(&path)?;", "File::open"),
            ("    .and_then(std::fs::File::open)", "File::open"),
            ("match OpenOptions::new()", "OpenOptions::new"),
            ("std::fs::read_to_string(path)", "fs::read_to_string"),
            ("rustix::fs::open(path, flags, mode)", "fs::open"),
            ("unsafe { libc::open(path, flags) }", "libc::open"),
            ("fs::set_permissions(path, mode)", "fs::set_permissions"),
        ] {
            assert_eq!(opens(&format!("\n{line}\n")), [(2, open)], "{line}");
        }
        for line in [
            "fs::read_dir(path)",
            "// File::open(path)",
            "file::open(path, flags, 0)",
            "file.set_permissions(mode)",
            "Connection::open_in_memory()",
            "#[cfg(test)]\nmod tests {\n    File::open(path);\n}",
        ] {
            assert_eq!(opens(line), [], "{line}");
        }
    }
}
