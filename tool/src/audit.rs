//! Verifies Jeton's audit log, and continues logs of this form. Each line ends with a SHA-256 hash
//! of the previous line's hash (32 zero bytes for the first line) and of the line itself without
//! its hash. A log that was moved away continues in the next file.

use std::io::BufRead;
use std::path::PathBuf;

use aws_lc_rs::digest::{SHA256, digest};
use jeton_client::safe_text::{from_hex, hex};
use serde::Deserialize;

use crate::Error;

pub mod files;
pub mod lives;
pub mod uses;

/// The text before a line's hash.
const HASH: &str = ",\"hash\":\"";
/// The start of the result of a record with which a module reports missing lines.
const MISSING: &str = "lines are missing";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of lines that have the expected hash and the expected record number.
    pub valid: u64,
    /// The hash in the last record. `None` if the log has no record.
    pub last: Option<String>,
    /// Whether a line has the hash that the caller asked for.
    pub known: bool,
    pub breaks: Vec<Break>,
}

/// A place where the chain breaks.
#[derive(Debug, PartialEq, Eq)]
pub struct Break {
    pub file: PathBuf,
    /// The position of the line in the file, from 1. `None` if a line is missing at the end of the
    /// log.
    pub line: Option<u64>,
    pub fault: &'static str,
}

/// The hashes that the caller knows.
#[derive(Default)]
pub struct Noted {
    /// The last hash of earlier files of the log, which the caller does not have.
    pub after: Option<String>,
    /// A hash of a line that the log must have.
    pub last: Option<String>,
}

/// What the next line must state.
struct Expected {
    hash: [u8; 32],
    /// `None` after files that the caller does not have.
    number: Option<u64>,
}

#[derive(Deserialize)]
struct Record {
    number: u64,
    /// The last hash of the log before this file.
    #[serde(default)]
    previous: Option<String>,
    #[serde(default)]
    function: String,
    #[serde(default)]
    result: String,
}

/// A log in one file that nothing moves away.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub valid: u64,
    pub last: Option<String>,
    /// The faults, each with the position of its line, from 1.
    pub breaks: Vec<(u64, &'static str)>,
}

/// Verifies a log from its first line.
pub fn verify_log(log: impl BufRead) -> std::io::Result<Log> {
    let mut chain = Chain::after(None);
    let breaks = chain.read(log, |_| ())?;
    Ok(Log { valid: chain.valid, last: chain.last, breaks })
}

/// Verifies the files of a log, the oldest one first.
pub fn verify(files: &files::Files, noted: &Noted) -> Result<Report, Error> {
    let after = noted.after.as_ref().map(|after| {
        let text = "--after needs the 64 hexadecimal digits of a hash";
        digits(after).ok_or_else(|| Error::Usage(text.to_owned()))
    });
    let mut chain = Chain::after(after.transpose()?);
    let (mut known, mut breaks) = (false, Vec::new());
    let mut ends: Vec<_> = files.ends.iter().collect();
    for file in &files.logs {
        let found = chain.read(files::open(file)?, |hash| {
            known |= noted.last.as_deref() == Some(hash);
            ends.retain(|end| end.hash != hash);
        });
        let found = found.map_err(Error::io(file))?.into_iter();
        breaks.extend(found.map(|(line, fault)| Break { file: file.clone(), line: Some(line), fault }));
    }
    breaks.extend(ends.into_iter().map(|end| Break {
        file: end.file.clone(),
        line: None,
        fault: "names the last line of the log, and no file has this line",
    }));
    Ok(Report { valid: chain.valid, last: chain.last, known, breaks })
}

/// The chain of the lines that were read.
struct Chain {
    expected: Expected,
    valid: u64,
    last: Option<String>,
}

impl Chain {
    /// A chain after a line with this hash, or from its first line on.
    fn after(hash: Option<[u8; 32]>) -> Self {
        let number = if hash.is_some() { None } else { Some(1) };
        let expected = Expected { hash: hash.unwrap_or_default(), number };
        Self { expected, valid: 0, last: None }
    }

    /// Reads lines, and calls `seen` with the hash of each. Returns the faults.
    fn read(
        &mut self,
        log: impl BufRead,
        mut seen: impl FnMut(&str),
    ) -> std::io::Result<Vec<(u64, &'static str)>> {
        let mut breaks = Vec::new();
        for (line, text) in (1..).zip(log.split(b'\n')) {
            let fault = match follow(&text?, &self.expected) {
                Ok((hash, number, fault)) => {
                    // The next line is compared with the hash and number that this line states, so
                    // that one changed line is not a fault of all later lines.
                    let told = hex(&hash);
                    seen(&told);
                    self.last = Some(told);
                    self.expected = Expected { hash, number: Some(number + 1) };
                    fault
                }
                Err(fault) => Some(fault),
            };
            match fault {
                None => self.valid += 1,
                Some(fault) => breaks.push((line, fault)),
            }
        }
        Ok(breaks)
    }
}

/// Returns the hash and the record number of a line, and a fault if one of them is not the expected
/// one. Fails with a reason if the line is not a record.
fn follow(line: &[u8], expected: &Expected) -> Result<([u8; 32], u64, Option<&'static str>), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "is not a record")?;
    let (body, rest) = text.rsplit_once(HASH).ok_or("is not a record")?;
    let told = rest.strip_suffix("\"}").and_then(digits).ok_or("is not a record")?;
    let record: Record = serde_json::from_str(text).map_err(|_| "is not a record")?;
    let follows = |before: &[u8; 32]| hash(*before, body) == told;
    let fault = if !follows(&expected.hash) {
        if record.previous.as_deref().and_then(digits).is_some_and(|previous| follows(&previous)) {
            Some("continues a file that is not here: the log was emptied, or name its earlier files too")
        } else {
            Some("does not follow from the line before, or was changed")
        }
    } else if expected.number.is_some_and(|number| number != record.number) {
        Some("has an unexpected record number")
    } else if record.function == "audit" && record.result.starts_with(MISSING) {
        Some("says that lines are missing")
    } else {
        None
    };
    Ok((told, record.number, fault))
}

/// Reads a hash.
fn digits(text: &str) -> Option<[u8; 32]> {
    from_hex(text).and_then(|bytes| bytes.try_into().ok())
}

/// Returns the hash of a line, whose text without its hash and without its last brace is `body`.
fn hash(before: [u8; 32], body: &str) -> [u8; 32] {
    let whole = digest(&SHA256, &[&before[..], body.as_bytes(), b"}"].concat());
    std::array::from_fn(|at| whole.as_ref()[at])
}

/// Returns the object of a line without its hash.
pub fn object(line: &str) -> Option<String> {
    let (body, _) = line.rsplit_once(HASH)?;
    Some(format!("{body}}}"))
}

/// Returns a line and its hash, for a log whose last line has the hash `before`, or has no line.
/// `object` is the text of an object in JSON, whose first field is the number of the line.
pub fn line(before: Option<&str>, object: &str) -> Option<(String, String)> {
    let before = before.map_or(Some([0; 32]), |before| from_hex(before)?.try_into().ok())?;
    let body = object.strip_suffix('}')?;
    let hash = hex(&hash(before, body));
    Some((format!("{body}{HASH}{hash}\"}}\n"), hash))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Lines that the module wrote.
    const LOG: &str = include_str!("audit/sample.jsonl");

    /// Verifies files with these contents.
    fn verified(texts: &[&str], noted: &Noted) -> Report {
        let folder = tempfile::tempdir().expect("a directory");
        let files: Vec<_> = (0..texts.len()).map(|index| folder.path().join(index.to_string())).collect();
        files.iter().zip(texts).for_each(|(file, text)| fs::write(file, text).expect("a file"));
        let files = files::Files::find(&files).expect("the files");
        verify(&files, noted).expect("a log")
    }

    fn verify_one(text: &str, last: Option<&str>) -> Report {
        verified(&[text], &Noted { last: last.map(str::to_owned), after: None })
    }

    fn breaks(text: &str) -> Vec<u64> {
        let report = verify_one(text, None);
        report.breaks.iter().map(|fault| fault.line.expect("a line")).collect()
    }

    fn lines() -> Vec<&'static str> {
        LOG.lines().collect()
    }

    fn joined(lines: &[&str]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn an_unchanged_log_verifies() {
        let report = verify_one(LOG, None);
        assert_eq!((report.valid, &report.breaks[..]), (lines().len() as u64, &[][..]));
        let last = report.last.expect("a hash");
        assert!(lines().last().is_some_and(|line| line.contains(&last)));
        assert_eq!(verify_one("", None), Report::default());
    }

    #[test]
    fn a_new_line_continues_the_log() {
        let report = verify_one(LOG, None);
        let next = format!("{{\"number\":{}}}", report.valid + 1);
        let of = |before| line(before, &next).expect("an object").0;
        assert!(breaks(&format!("{LOG}{}", of(report.last.as_deref()))).is_empty());
        assert_eq!(breaks(&format!("{LOG}{}", of(None))), [report.valid + 1]);
        let (first, hash) = line(None, "{\"number\":1}").expect("an object");
        assert_eq!(verify_log(first.as_bytes()).expect("a log").last, Some(hash));
        assert_eq!(object(first.trim_end()).as_deref(), Some("{\"number\":1}"));
        assert_eq!(line(Some("00"), &next), None);
    }

    #[test]
    fn an_edit_of_any_byte_of_any_line_is_found() {
        for line in 0..lines().len() {
            for (place, byte) in lines()[line].bytes().enumerate() {
                let mut edited = lines();
                let mut text = edited[line].as_bytes().to_vec();
                // The new byte is never the old one.
                text[place] = if byte == b'1' { b'2' } else { b'1' };
                let text = String::from_utf8(text).expect("text");
                edited[line] = &text;
                let shown = breaks(&joined(&edited));
                assert_eq!(shown.first(), Some(&(line as u64 + 1)), "{line}, {place}: {shown:?}");
            }
        }
    }

    #[test]
    fn removed_repeated_and_moved_lines_are_found() {
        for line in 0..lines().len() - 1 {
            let mut removed = lines();
            removed.remove(line);
            assert_eq!(breaks(&joined(&removed)), [line as u64 + 1]);
            let mut repeated = lines();
            repeated.insert(line, lines()[line]);
            assert_eq!(breaks(&joined(&repeated)), [line as u64 + 2]);
            let mut swapped = lines();
            swapped.swap(line, line + 1);
            assert_eq!(breaks(&joined(&swapped))[0], line as u64 + 1);
        }
    }

    #[test]
    fn missing_lines_at_the_end_are_found_with_a_noted_hash() {
        let all = verify_one(LOG, None);
        let noted = all.last.as_deref();
        assert!(verify_one(LOG, noted).known);
        let mut cut = lines();
        cut.pop();
        let report = verify_one(&joined(&cut), noted);
        assert_eq!((report.known, &report.breaks[..]), (false, &[][..]));
        // A truncated line.
        assert_eq!(breaks(&LOG[..LOG.len() - 9]), [lines().len() as u64]);
    }
}
