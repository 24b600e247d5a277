//! Checks a record and the signatures under it.

use ssh_key::{HashAlg, SshSig};

use super::paper;
use super::record::{Event, Line, Present, whole_lines};
use crate::{Error, audit};

/// The namespace of the signatures.
pub const NAMESPACE: &str = "jeton-ceremony";

/// A file that `ssh-keygen -Y sign` wrote.
pub struct Signature {
    /// The name of the file.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A person who was present.
pub struct Signer {
    /// The comment of their key, and its fingerprint.
    pub name: String,
    pub key: Present,
    pub has_signed: bool,
}

/// What a record says, and what is wrong with it.
#[derive(Default)]
pub struct Report {
    pub purpose: String,
    /// The number of commands.
    pub commands: usize,
    pub signers: Vec<Signer>,
    /// A sentence for each certificate and CRL.
    pub papers: Vec<String>,
    /// The hashes of the files, in hexadecimal digits.
    pub hashes: Vec<String>,
    pub faults: Vec<String>,
}

/// Checks a record: its chain, its order, its certificates and CRLs, and that each person who was
/// present has signed all of it.
pub fn check(record: &[u8], signatures: &[Signature]) -> Result<Report, Error> {
    let mut report = Report::default();
    let chain = audit::verify_log(record).map_err(Error::io("record"))?;
    report.faults.extend(chain.breaks.iter().map(|(line, fault)| format!("line {line} {fault}")));
    let (lines, damaged) = whole_lines(record);
    report.faults.extend(damaged.map(|line| format!("line {line} is not a whole line of a ceremony")));
    read(&lines, &mut report);
    if report.signers.is_empty() {
        report.faults.push("the record names no person who was present".to_owned());
        return Ok(report);
    }
    for signature in signatures {
        if let Some(fault) = attribute(record, signature, &mut report.signers) {
            report.faults.push(format!("{}: {fault}", signature.name));
        }
    }
    for missing in report.signers.iter().filter(|signer| !signer.has_signed) {
        report.faults.push(format!("{} has not signed this record", missing.name));
    }
    Ok(report)
}

fn read(lines: &[Line], report: &mut Report) {
    let mut files = Vec::new();
    let mut runs = None;
    for (event, line) in lines.iter().map(|line| &line.event).zip(1..) {
        if let (Some(command), false) = (runs, matches!(event, Event::Exit { .. })) {
            report.faults.push(format!("the command of line {command} has not exited: it was killed"));
            runs = None;
        }
        match event {
            Event::Begin { purpose, present, .. } if line == 1 => {
                report.purpose.clone_from(purpose);
                for key in present {
                    match Present::parse(key) {
                        Ok(key) => {
                            report.signers.push(Signer { name: key.name(), key, has_signed: false });
                        }
                        Err(error) => report.faults.push(format!("line 1: {error}")),
                    }
                }
            }
            Event::Begin { .. } => report.faults.push(format!("line {line} begins another ceremony")),
            Event::Command { .. } => {
                report.commands += 1;
                runs = Some(line);
            }
            Event::Exit { files: some, .. } => {
                if runs.take().is_none() {
                    report.faults.push(format!("line {line} has the result of no command"));
                }
                files.extend(some);
            }
            Event::Note { .. } => {}
            Event::End {} if line < lines.len() => {
                report.faults.push(format!("line {} is after the end of the ceremony", line + 1));
            }
            Event::End {} => {}
        }
    }
    if !matches!(lines.first().map(|line| &line.event), Some(Event::Begin { .. })) {
        report.faults.push("the record has no first line: it was cut".to_owned());
    }
    if !matches!(lines.last().map(|line| &line.event), Some(Event::End {})) {
        report.faults.push("the record has no end: it was cut, or the ceremony has not ended".to_owned());
    }
    report.hashes = files.iter().map(|file| file.sha256.clone()).collect();
    for paper in paper::check(files.into_iter()) {
        let list = if paper.is_wrong { &mut report.faults } else { &mut report.papers };
        list.push(paper.text);
    }
}

/// Finds the signer of a signature. Returns what is wrong with it.
fn attribute(record: &[u8], signature: &Signature, signers: &mut [Signer]) -> Option<String> {
    let Ok(parsed) = SshSig::from_pem(&signature.bytes) else {
        return Some("not a signature of `ssh-keygen -Y sign`".to_owned());
    };
    let Some(signer) = signers.iter_mut().find(|one| one.key.0.key_data() == parsed.public_key()) else {
        let key = parsed.public_key().fingerprint(HashAlg::Sha256);
        return Some(format!("the key {key} is not of those present"));
    };
    if parsed.namespace() != NAMESPACE {
        let namespace = parsed.namespace();
        return Some(format!("it is for the namespace {namespace:?}; sign with `-n {NAMESPACE}`"));
    }
    let key = &signer.key.0;
    if key.verify(NAMESPACE, record, &parsed).is_ok() {
        signer.has_signed = true;
        return None;
    }
    // An older state of the record is its first lines.
    let ends = record.iter().zip(1..).filter(|(byte, _)| **byte == b'\n').map(|(_, end)| end);
    let mut states = ends.zip(1..);
    let older = states.find(|(end, _)| key.verify(NAMESPACE, &record[..*end], &parsed).is_ok());
    Some(match older {
        Some((_, line)) => format!("{} signed the record up to line {line} only", signer.name),
        None => format!("{} signed another text, or the record was changed later", signer.name),
    })
}
