//! Counts the instructions and allocations of one repetition of an operation. Callgrind and
//! memcheck each run a child twice, with 500 and with 2500 repetitions. The difference between the
//! two counts, divided by 2000, is the cost of one repetition.

use std::path::Path;
use std::process::Command;

use super::{AnyError, child};
use crate::artefacts::{Artefacts, temporary};
use crate::baseline;
use crate::child::{Instance, Role};
use crate::names::{BASELINE, JETON, NULL, SIGNATURE};
use crate::scheme::{Aead, Scheme, named};
use crate::target::{Findable, Home, ModuleToken};

const COUNTS: [u64; 2] = [500, 2500];

#[derive(Clone, Copy)]
enum Counted {
    /// `C_SignInit` and `C_Sign` with the key pair of this name.
    Signature(&'static str, Scheme),
    /// `C_EncryptInit` and `C_Encrypt` of this number of bytes with AES-256-GCM.
    Sealing(usize),
    /// `C_EncryptMessage` of this number of bytes with AES-256-GCM.
    Messages(usize),
    /// A search for a label among this number of session objects.
    Search(usize),
    Session,
    /// `C_CreateObject` of an AES session key, and `C_DestroyObject`.
    Creation,
    /// `C_GenerateKey` of an AES session key, and `C_DestroyObject`.
    Generation,
    /// `C_GetAttributeValue` of five attributes of a private key.
    Reading,
}

impl Counted {
    /// Returns whether the operation is counted for a row. The null backend is counted for one
    /// signature and one cipher. The baseline has no sessions, objects and messages of PKCS#11.
    fn is_of(self, row: &str) -> bool {
        match self {
            Self::Signature(pair, _) => row != NULL || pair == "p256",
            Self::Sealing(_) => true,
            _ => row == JETON,
        }
    }
}

const COUNTED: [(&str, Counted); 10] = [
    (SIGNATURE, Counted::Signature("p256", Scheme::Ecdsa)),
    ("ML-DSA-65 sign", Counted::Signature("mldsa65", Scheme::MlDsa)),
    ("AES-256-GCM 4 KiB", Counted::Sealing(4096)),
    ("AES-256-GCM message of 4 KiB", Counted::Messages(4096)),
    ("search by label among 10", Counted::Search(10)),
    ("search by label among 10,000", Counted::Search(10_000)),
    ("session, open and close", Counted::Session),
    ("session object, create and destroy", Counted::Creation),
    ("AES key, generate and destroy", Counted::Generation),
    ("5 attributes", Counted::Reading),
];

/// Counts and prints the results. If valgrind is missing, prints that instead.
pub fn measure(artefacts: &Artefacts) -> Result<(), AnyError> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions are not counted: valgrind is not installed");
        return Ok(());
    }
    let rows = [
        (NULL, Some((&artefacts.null, "null"))),
        (JETON, Some((&artefacts.module, "aws-lc"))),
        (BASELINE, None),
    ];
    for (operation, (name, what)) in COUNTED.into_iter().enumerate() {
        println!("{name}:");
        for (row, module) in &rows {
            if !what.is_of(row) {
                continue;
            }
            let role = |directory: &Path, count| {
                let instance = module.map(|(library, backend)| Instance::of(library, directory, backend));
                Role::Count(instance, operation, count)
            };
            let instructions = difference(role, count_instructions)?;
            let allocations = difference(role, count_allocations)?;
            println!("{row:>12}: {instructions:.1} instructions, {allocations:.3} allocations");
        }
    }
    Ok(())
}

/// Returns the difference between the counts of the two runs, for one repetition.
pub(crate) fn difference(
    role: impl Fn(&Path, u64) -> Role,
    count: impl Fn(&Role) -> Result<u64, AnyError>,
) -> Result<f64, AnyError> {
    let mut totals = [0; 2];
    for (total, repetitions) in totals.iter_mut().zip(COUNTS) {
        let directory = temporary()?;
        *total = count(&role(directory.path(), repetitions))?;
    }
    let [less, more] = totals.map(|total| total as f64);
    Ok((more - less) / (COUNTS[1] - COUNTS[0]) as f64)
}

/// Returns the instructions that callgrind counts, from its line `Collected : …`.
pub(crate) fn count_instructions(role: &Role) -> Result<u64, AnyError> {
    let arguments = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let (_, said) = jeton_child::output(child::below("valgrind", &arguments, role))?;
    Ok(number_behind(&said, "Collected :").ok_or(format!("callgrind counted nothing:\n{said}"))?)
}

/// Returns the allocations that memcheck counts, from its line `total heap usage: … allocs`.
fn count_allocations(role: &Role) -> Result<u64, AnyError> {
    let arguments = ["--tool=memcheck", "--undef-value-errors=no"];
    let (_, said) = jeton_child::output(child::below("valgrind", &arguments, role))?;
    Ok(number_behind(&said, "total heap usage:").ok_or(format!("memcheck counted nothing:\n{said}"))?)
}

fn number_behind(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    let digits = rest.trim_start().chars().take_while(|char| char.is_ascii_digit() || *char == ',');
    digits.filter(char::is_ascii_digit).collect::<String>().parse().ok()
}

/// The child: repeats an operation of the module, or of the baseline.
pub(crate) fn count(instance: Option<&Instance>, operation: usize, repetitions: u64) -> Result<(), AnyError> {
    let (_, what) = COUNTED.get(operation).ok_or("no such operation")?;
    let Some(instance) = instance else { return count_baseline(*what, repetitions) };
    let token = ModuleToken::fresh(instance, Home::Session)?;
    let mut operation = match *what {
        Counted::Signature(pair, scheme) => {
            let pair = named(pair);
            token.signing(pair, scheme, token.pair(pair)?)?
        }
        Counted::Sealing(len) => token.sealing(Aead::AesGcm, token.cipher_key(Aead::AesGcm)?, len)?,
        Counted::Messages(len) => token.sealing_messages(token.cipher_key(Aead::AesGcm)?, len)?,
        Counted::Search(objects) => {
            token.fill(0..objects, Home::Session, 1, &|| false)?;
            token.searching(Findable::Label, objects)?
        }
        Counted::Session => token.sessions()?,
        Counted::Creation => token.creating(Home::Session)?,
        Counted::Generation => token.generating_aes(Home::Session)?,
        Counted::Reading => token.reading(token.pair(named("p256"))?)?,
    };
    operation.time(repetitions);
    Ok(())
}

fn count_baseline(what: Counted, repetitions: u64) -> Result<(), AnyError> {
    match what {
        Counted::Signature(pair, scheme) => {
            let pair = named(pair);
            let baseline = baseline::generate(pair.kind).ok_or("no baseline")?;
            baseline.signing(scheme, scheme.input(pair.kind)).time(repetitions);
        }
        Counted::Sealing(len) | Counted::Messages(len) => {
            baseline::sealing(Aead::AesGcm, len).time(repetitions);
        }
        _ => return Err("the baseline has no sessions and no objects".into()),
    }
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
