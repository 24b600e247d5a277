//! Counts the uses in an audit log of Jeton: by function, mechanism, key and client. It does not
//! verify the log.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize, Serializer};

use crate::Error;
use crate::time::date;

/// The function of a record that says how many records were lost.
const LOSS: &str = "audit";
/// The results of calls that did not fail.
pub(super) const SUCCESSES: [&str; 2] = ["Ok", "Pending"];

/// The uses in an audit log. Each list begins with the most frequent entry.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Uses {
    /// The times of the first and the last call. `None` without a call.
    #[serde(flatten)]
    pub times: Option<Times>,
    pub calls: u64,
    pub lost_records: u64,
    pub invalid_lines: u64,
    pub functions: Vec<Count<Function>>,
    pub mechanisms: Vec<Count<MechanismName>>,
    /// The calls with a mechanism, by the keys that they name. The generation of a key is one of
    /// them.
    pub keys: Vec<Count<Key>>,
    pub clients: Vec<Count<Client>>,
}

/// How often something was used.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Count<T> {
    #[serde(flatten)]
    pub of: T,
    pub calls: u64,
    pub failed: u64,
    #[serde(flatten)]
    pub times: Times,
}

/// The times of the first and the last call, in seconds since 1970. JSON has them as dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Times {
    #[serde(serialize_with = "as_date")]
    pub first: i64,
    #[serde(serialize_with = "as_date")]
    pub last: i64,
}

fn as_date<S: Serializer>(seconds: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&date(*seconds))
}

/// A function of PKCS#11, or a command of the tool.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Function {
    pub function: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MechanismName {
    pub mechanism: String,
}

/// A key, or the keys of a token with the same label and ID, such as a key pair.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Key {
    pub token: String,
    pub label: String,
    /// `CKA_ID` in hexadecimal digits.
    pub id: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Client {
    pub uid: Option<u32>,
    /// The file name of the program.
    pub program: Option<String>,
    /// The client of the agent, if the program is one.
    pub client: Option<String>,
}

#[derive(Deserialize)]
struct Record {
    time: f64,
    uid: Option<u32>,
    program: Option<String>,
    client: Option<String>,
    #[serde(default)]
    token: String,
    function: String,
    mechanism: Option<String>,
    #[serde(default)]
    names: Vec<ObjectName>,
    result: String,
    /// How many calls the record stands for, if it is not one of a single call.
    more: Option<u64>,
}

#[derive(Deserialize)]
struct ObjectName {
    label: String,
    id: String,
}

/// Counts the calls in the lines of a log, from a time in seconds since 1970 on. A line that is not
/// a record has no time, and is always counted.
pub fn count(
    lines: impl IntoIterator<Item = Result<Vec<u8>, Error>>,
    since: Option<i64>,
) -> Result<Uses, Error> {
    let mut uses = Uses::default();
    let mut calls = Tally::default();
    let (mut functions, mut mechanisms) = (Tally::default(), Tally::default());
    let (mut keys, mut clients) = (Tally::default(), Tally::default());
    for line in lines {
        let Ok(record) = serde_json::from_slice::<Record>(&line?) else {
            uses.invalid_lines += 1;
            continue;
        };
        let time = record.time as i64;
        if since.is_some_and(|since| time < since) {
            continue;
        }
        if record.function == LOSS {
            uses.lost_records +=
                record.result.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
            continue;
        }
        let call = (time, !SUCCESSES.contains(&&record.result[..]), record.more.unwrap_or(1));
        calls.add((), call);
        functions.add(Function { function: record.function }, call);
        clients.add(Client { uid: record.uid, program: record.program, client: record.client }, call);
        let Some(mechanism) = record.mechanism else { continue };
        mechanisms.add(MechanismName { mechanism }, call);
        let key = |name: ObjectName| Key { token: record.token.clone(), label: name.label, id: name.id };
        // One call may name a key twice, for example the two halves of a pair.
        let named: BTreeSet<_> = record.names.into_iter().map(key).collect();
        named.into_iter().for_each(|key| keys.add(key, call));
    }
    if let Some(all) = calls.sorted().pop() {
        (uses.calls, uses.times) = (all.calls, Some(all.times));
    }
    uses.functions = functions.sorted();
    uses.mechanisms = mechanisms.sorted();
    uses.keys = keys.sorted();
    uses.clients = clients.sorted();
    Ok(uses)
}

/// The calls, the failed calls and their times, of each entry of a list.
struct Tally<T>(BTreeMap<T, (u64, u64, Times)>);

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> Tally<T> {
    /// Adds calls at a time, which may have failed. Lines of several processes may be out of
    /// order.
    fn add(&mut self, of: T, (time, failed, count): (i64, bool, u64)) {
        let new = (0, 0, Times { first: time, last: time });
        let (calls, failures, times) = self.0.entry(of).or_insert(new);
        *calls += count;
        *failures += if failed { count } else { 0 };
        *times = Times { first: times.first.min(time), last: times.last.max(time) };
    }

    /// Returns the entries, the most frequent one first, and entries of the same frequency in their
    /// own order.
    fn sorted(self) -> Vec<Count<T>> {
        let count = |(of, (calls, failed, times))| Count { of, calls, failed, times };
        let mut counts: Vec<_> = self.0.into_iter().map(count).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.calls));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(lines: &[&str]) -> Uses {
        counted_since(None, lines)
    }

    fn counted_since(since: Option<i64>, lines: &[&str]) -> Uses {
        count(lines.iter().map(|line| Ok(line.as_bytes().to_vec())), since).expect("a log")
    }

    #[test]
    fn losses_and_invalid_lines_are_not_calls() {
        let uses = counted(&[
            r#"{"number":1,"time":1.5,"function":"audit","objects":[],"result":"7 records lost"}"#,
            r#"{"number":2,"time":2.5,"function":"C_Login","objects":[],"result":"Ok"}"#,
            "half of a li",
        ]);
        assert_eq!((uses.calls, uses.lost_records, uses.invalid_lines), (1, 7, 1));
        assert_eq!(uses.functions.len(), 1);
    }

    #[test]
    fn a_record_of_many_calls_counts_all() {
        let uses = counted(&[
            r#"{"time":1,"client":"uid 1","function":"C_Sign","objects":[],"result":"refused by a rule"}"#,
            r#"{"time":60,"client":"uid 1","function":"C_Sign","objects":[],"more":999,"result":"refused by a rule"}"#,
        ]);
        let of_function: Vec<_> = uses.functions.iter().map(|count| (count.calls, count.failed)).collect();
        assert_eq!((uses.calls, of_function), (1000, vec![(1000, 1000)]));
    }

    #[test]
    fn a_call_that_names_both_halves_of_a_pair_counts_once() {
        let uses = counted(&[
            r#"{"time":1,"function":"C_GenerateKeyPair","token":"t","mechanism":"CKM_EC_KEY_PAIR_GEN",
                "names":[{"label":"a","id":"01"},{"label":"a","id":"01"}],"result":"Ok"}"#
                .replace('\n', "")
                .as_str(),
            r#"{"time":5,"function":"C_SignInit","token":"t","mechanism":"CKM_ECDSA","names":[{"label":"a","id":"01"}],"result":"KeySizeRange"}"#,
            r#"{"time":4,"function":"C_SignInit","token":"u","mechanism":"CKM_ECDSA","names":[{"label":"a","id":"01"}],"result":"Ok"}"#,
            r#"{"time":9,"function":"C_DestroyObject","token":"t","names":[{"label":"a","id":"01"}],"result":"Ok"}"#,
        ]);
        let keys: Vec<_> =
            uses.keys.iter().map(|count| (&count.of.token[..], count.calls, count.failed)).collect();
        assert_eq!(keys, [("t", 2, 1), ("u", 1, 0)]);
        let mechanisms: Vec<_> =
            uses.mechanisms.iter().map(|count| (&count.of.mechanism[..], count.calls)).collect();
        assert_eq!(mechanisms, [("CKM_ECDSA", 2), ("CKM_EC_KEY_PAIR_GEN", 1)]);
    }

    #[test]
    fn times_are_the_earliest_and_the_latest_and_older_calls_are_left_out() {
        let lines = [5, 3, 9, 4].map(|time| {
            format!(
                r#"{{"time":{time}.9,"function":"C_SignInit","token":"t","mechanism":"CKM_ECDSA",
                "names":[{{"label":"a","id":"01"}}],"result":"Ok"}}"#
            )
            .replace('\n', "")
        });
        let lines = lines.each_ref().map(String::as_str);
        let key = |uses: &Uses| uses.keys.first().map(|key| (key.calls, key.times));
        assert_eq!(key(&counted(&lines)), Some((4, Times { first: 3, last: 9 })));
        let later = counted_since(Some(4), &lines);
        assert_eq!(key(&later), Some((3, Times { first: 4, last: 9 })));
        assert_eq!((later.calls, later.times), (3, Some(Times { first: 4, last: 9 })));
        let none = counted_since(Some(10), &lines);
        assert_eq!((none.calls, none.times, none.keys.len()), (0, None, 0));
        let json = serde_json::to_value(&later).expect("JSON");
        assert_eq!(json["keys"][0]["last"], "1970-01-01T00:00:09Z");
        assert_eq!(json["last"], "1970-01-01T00:00:09Z");
    }
}
