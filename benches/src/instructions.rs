//! Instructions and allocations per re-armed `C_SignInit` and `C_Sign`, counted by valgrind: callgrind and memcheck run
//! a child twice, which makes another number of signatures each time, and the difference is what the signatures cost.

use std::ffi::OsStr;
use std::path::Path;

use jeton_driver::client::{Module, ObjectHandle};
use jeton_driver::peers::{PIN, prepare_token};
use jeton_driver::pipeline::TokenAccess;

use crate::artefacts::{Artefacts, target_directory};
use crate::calls;
use crate::child;
use crate::facts::{self, Instructions};
use crate::floor::FloorPair;
use crate::rows::parameters;
use crate::scheme::{Scheme, named};
use crate::suite::FLOOR;
use crate::target::{Home, ModuleToken, Target};

/// How many signatures the two runs make.
const COUNTS: [u64; 2] = [500, 2500];

/// Counts and prints; without valgrind it says so and counts nothing.
pub fn measure(artefacts: &Artefacts) -> Result<(), String> {
    if std::process::Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions left out: no valgrind on this machine");
        return Ok(());
    }
    let module = |library: &Path, backend: &str| format!("sign\t{}\t{{}}\t{backend}", library.display());
    let rows = [
        ("jeton-null", module(&artefacts.null, "null")),
        ("jeton", module(&artefacts.module, "aws-lc")),
        (FLOOR, "sign-floor".to_owned()),
    ];
    let mut counted = Vec::new();
    println!("P-256, per re-armed C_SignInit and C_Sign:");
    for (row, role) in rows {
        let instructions = difference(&role, instructions)?;
        let allocations = difference(&role, allocations)?;
        println!("{row:>12}: {instructions:.1} instructions, {allocations:.3} allocations");
        counted.push(Instructions { row: row.to_owned(), instructions, allocations });
    }
    facts::write(facts::file::INSTRUCTIONS, &counted)
}

fn difference(role: &str, count: impl Fn(&str) -> Result<u64, String>) -> Result<f64, String> {
    let mut totals = [0; 2];
    for (total, signatures) in totals.iter_mut().zip(COUNTS) {
        let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(target_directory());
        let directory = directory.map_err(|error| error.to_string())?;
        let role = role.replace("{}", &directory.path().display().to_string());
        *total = count(&format!("{role}\t{signatures}"))?;
    }
    let [less, more] = totals.map(|total| total as f64);
    Ok((more - less) / (COUNTS[1] - COUNTS[0]) as f64)
}

/// Instructions that callgrind counts, from `Collected : …` at the end.
fn instructions(role: &str) -> Result<u64, String> {
    let arguments = ["--tool=callgrind", "--callgrind-out-file=/dev/null"].map(OsStr::new);
    let (_, said) = child::heard(child::below("valgrind", &arguments, role))?;
    number_behind(&said, "Collected :").ok_or(format!("callgrind counted nothing:\n{said}"))
}

/// Allocations that memcheck counts, from `total heap usage: … allocs`.
fn allocations(role: &str) -> Result<u64, String> {
    let arguments = ["--tool=memcheck", "--undef-value-errors=no"].map(OsStr::new);
    let (_, said) = child::heard(child::below("valgrind", &arguments, role))?;
    number_behind(&said, "total heap usage:").ok_or(format!("memcheck counted nothing:\n{said}"))
}

fn number_behind(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    let digits = rest.trim_start().chars().take_while(|char| char.is_ascii_digit() || *char == ',');
    digits.filter(char::is_ascii_digit).collect::<String>().parse().ok()
}

/// The child: so many signatures through the module.
pub(crate) fn sign(library: &str, directory: &str, backend: &str, count: &str) -> Result<(), String> {
    let count: u64 = count.parse().map_err(|_| "no count")?;
    let module = Module::load(library).map_err(|error| error.to_string())?;
    let reserved = parameters(directory.as_ref(), backend);
    module.initialize(Some(&reserved)).map_err(|failure| failure.to_string())?;
    let prepared = prepare_token(&module, &TokenAccess::Initialise);
    let (slot, _) = prepared.map_err(|error| error.to_string())?;
    let token = ModuleToken::open("child", &module, slot, PIN, Home::Token);
    let token = token.map_err(|failure| failure.to_string())?;
    let (pair, scheme) = (named("p256"), Scheme::Ecdsa);
    let keys = token.pair(pair)?;
    let input = scheme.module_input(pair.kind);
    let key = ObjectHandle(keys.private);
    let call = calls::Transform::sign(token.session(), &scheme.mechanism(), key, &input, 64);
    let mut call = call.map_err(|failure| failure.to_string())?;
    for _ in 0..count {
        call.call().map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

/// The child: so many signatures of the floor.
pub(crate) fn sign_floor(count: &str) -> Result<(), String> {
    let count: u64 = count.parse().map_err(|_| "no count")?;
    let (pair, scheme) = (named("p256"), Scheme::Ecdsa);
    let floor = FloorPair::generate(pair.kind).ok_or("no floor")?;
    floor.signing(scheme, scheme.input(pair.kind)).time(count);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_commas() {
        let said = "==1== Collected : 1234567\n==1==   total heap usage: 1,234 allocs, 1,200 frees, 9 bytes";
        assert_eq!(number_behind(said, "Collected :"), Some(1_234_567));
        assert_eq!(number_behind(said, "total heap usage:"), Some(1234));
        assert_eq!(number_behind(said, "nothing"), None);
    }
}
