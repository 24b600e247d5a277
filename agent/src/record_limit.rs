//! The calls that failed, so that no client fills the disk with records of them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jeton::audit::Record;

/// How long calls are counted before a line has their number.
const MINUTE: Duration = Duration::from_secs(60);
/// The calls of an owner that have a record of their own in this time.
const MOST_WRITTEN: usize = 10;
/// The most lines with numbers for an owner. A last one has the number of all other calls.
const MOST_KINDS: usize = 16;
/// The name and the result of the functions in that last line.
const OTHERS: (&str, &str) = ("*", "failed");

/// The calls that failed in the last minute.
#[derive(Default)]
pub(crate) struct Refusals(HashMap<String, Failed>);

/// The calls of an owner that failed.
struct Failed {
    since: Instant,
    written: usize,
    more: HashMap<Kind, u64>,
}

/// Calls that are alike: the client, the function and the result.
type Kind = (Option<String>, &'static str, String);

impl Refusals {
    /// Returns the record, unless it is of a call that is only counted.
    pub(crate) fn admit(&mut self, owner: &str, record: Record) -> Option<Record> {
        if !record.has_failed() {
            return Some(record);
        }
        let (since, written, more) = (Instant::now(), 0, HashMap::new());
        let failed = self.0.entry(owner.to_owned()).or_insert(Failed { since, written, more });
        if failed.written < MOST_WRITTEN {
            failed.written += 1;
            return Some(record);
        }
        let mut kind = (record.client, record.function, record.result);
        if failed.more.len() >= MOST_KINDS && !failed.more.contains_key(&kind) {
            kind = (None, OTHERS.0, OTHERS.1.to_owned());
        }
        *failed.more.entry(kind).or_default() += 1;
        None
    }

    /// Returns whether calls are counted now.
    pub(crate) fn are_counted(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the lines of the owners whose minute is over.
    pub(crate) fn ended(&mut self) -> Vec<Record> {
        let ended = self.0.extract_if(|_, failed| failed.since.elapsed() >= MINUTE);
        ended.flat_map(|(_, failed)| failed.lines()).collect()
    }

    /// Returns the lines of all owners.
    pub(crate) fn all(&mut self) -> Vec<Record> {
        self.0.drain().flat_map(|(_, failed)| failed.lines()).collect()
    }
}

impl Failed {
    fn lines(self) -> impl Iterator<Item = Record> {
        let line = |((client, function, result), number)| {
            let more = Some(number);
            Record { client, function, result, more, ..Record::default() }
        };
        self.more.into_iter().map(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(client: &str, function: &'static str, result: &str) -> Record {
        let (client, result) = (Some(client.to_owned()), result.to_owned());
        Record { client, function, result, ..Record::default() }
    }

    #[test]
    fn an_owner_has_ten_records_and_then_numbers() {
        let mut refusals = Refusals::default();
        let mut admits = |owner, client, function, result| {
            refusals.admit(owner, record(client, function, result)).is_some()
        };
        let written = (0..1000).filter(|_| admits("uid 1", "uid 1", "C_Sign", "refused")).count();
        assert_eq!(written, MOST_WRITTEN);
        // Another client of the owner, and one of another owner.
        assert!(!admits("uid 1", "uid 1, a.service", "C_Sign", "refused"));
        assert!(admits("uid 2", "uid 2", "C_Sign", "refused"));
        // Calls that succeed have a record each.
        assert!((0..1000).all(|_| admits("uid 1", "uid 1", "C_Sign", "Ok")));
        assert!(refusals.ended().is_empty() && refusals.are_counted());
        let mut lines: Vec<_> =
            refusals.all().into_iter().map(|line| (line.client, line.function, line.more)).collect();
        lines.sort();
        let line = |client: &str, more| (Some(client.to_owned()), "C_Sign", Some(more));
        assert_eq!(lines, [line("uid 1", 990), line("uid 1, a.service", 1)]);
        assert!(!refusals.are_counted());
    }

    #[test]
    fn the_numbers_of_an_owner_are_few_lines() {
        let mut refusals = Refusals::default();
        for number in 0..1000 {
            refusals.admit("uid 1", record("uid 1", "C_Sign", &number.to_string()));
        }
        let lines = refusals.all();
        assert_eq!(lines.len(), MOST_KINDS + 1);
        assert_eq!(lines.iter().filter_map(|line| line.more).sum::<u64>(), 1000 - MOST_WRITTEN as u64);
    }
}
