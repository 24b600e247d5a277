//! Verifies Jeton's audit log. Each line ends with a SHA-256 hash of the previous line's hash (32
//! zero bytes for the first line) and of the line itself without its hash.

use std::io::BufRead;

use aws_lc_rs::digest::{SHA256, digest};
use jeton_client::text::{from_hex, hex};
use serde::Deserialize;

pub mod uses;

/// The text before a line's hash.
const HASH: &str = ",\"hash\":\"";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of lines that have the expected hash and the expected record number.
    pub valid: u64,
    /// The hash in the last record. `None` if the log has no record.
    pub last: Option<String>,
    /// Whether a line has the hash that the caller asked for.
    pub known: bool,
    /// The faults, each with the position of its line in the file, from 1.
    pub breaks: Vec<(u64, &'static str)>,
}

#[derive(Deserialize)]
struct Record {
    number: u64,
}

/// Verifies a log from its first line. `noted` is a hash that the caller stored elsewhere.
pub fn verify(log: impl BufRead, noted: Option<&str>) -> std::io::Result<Report> {
    let mut report = Report::default();
    let mut expected = ([0; 32], 1);
    for (line, text) in (1..).zip(log.split(b'\n')) {
        match follow(&text?, expected) {
            Ok((hash, number, fault)) => {
                match fault {
                    None => report.valid += 1,
                    Some(fault) => report.breaks.push((line, fault)),
                }
                // The next line is compared with the hash and number that this line states, so that
                // one changed line is not a fault of all later lines.
                let told = hex(&hash);
                report.known |= noted == Some(&told);
                report.last = Some(told);
                expected = (hash, number + 1);
            }
            Err(fault) => report.breaks.push((line, fault)),
        }
    }
    Ok(report)
}

/// Returns the hash and the record number of a line, and a fault if one of them is not the expected
/// one. Fails with a reason if the line is not a record.
fn follow(
    line: &[u8],
    (before, number): ([u8; 32], u64),
) -> Result<([u8; 32], u64, Option<&'static str>), &'static str> {
    let text = std::str::from_utf8(line).map_err(|_| "is not a record")?;
    let (body, rest) = text.rsplit_once(HASH).ok_or("is not a record")?;
    let told = rest.strip_suffix("\"}").filter(|told| told.len() == 64).and_then(from_hex);
    let told: [u8; 32] = told.and_then(|told| told.try_into().ok()).ok_or("is not a record")?;
    let record: Record = serde_json::from_str(text).map_err(|_| "is not a record")?;
    let right = digest(&SHA256, &[&before[..], body.as_bytes(), b"}"].concat());
    let fault = if right.as_ref() != told {
        Some("does not follow from the line before, or was changed")
    } else if record.number != number {
        Some("has an unexpected record number")
    } else {
        None
    };
    Ok((told, record.number, fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that the module wrote.
    const LOG: &str = include_str!("audit/sample.jsonl");

    fn breaks(text: &str) -> Vec<u64> {
        let report = verify(text.as_bytes(), None).expect("a log");
        report.breaks.into_iter().map(|(line, _)| line).collect()
    }

    fn lines() -> Vec<&'static str> {
        LOG.lines().collect()
    }

    fn joined(lines: &[&str]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn an_unchanged_log_verifies() {
        let report = verify(LOG.as_bytes(), None).expect("a log");
        assert_eq!((report.valid, &report.breaks[..]), (lines().len() as u64, &[][..]));
        let last = report.last.expect("a hash");
        assert!(lines().last().is_some_and(|line| line.contains(&last)));
        assert_eq!(verify(&b""[..], None).expect("a log"), Report::default());
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
        let all = verify(LOG.as_bytes(), None).expect("a log");
        let noted = all.last.as_deref();
        assert!(verify(LOG.as_bytes(), noted).expect("a log").known);
        let mut cut = lines();
        cut.pop();
        let report = verify(joined(&cut).as_bytes(), noted).expect("a log");
        assert_eq!((report.known, &report.breaks[..]), (false, &[][..]));
        // A truncated line.
        assert_eq!(breaks(&LOG[..LOG.len() - 9]), [lines().len() as u64]);
    }
}
