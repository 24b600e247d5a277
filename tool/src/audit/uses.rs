//! Counts the uses in an audit log of Jeton: by function, mechanism, key and client. It does not
//! verify the log.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use serde::{Deserialize, Serialize};

/// The function of a record that says how many records were lost.
const LOSS: &str = "audit";
/// The results of calls that did not fail.
const SUCCESSES: [&str; 2] = ["Ok", "Pending"];

/// The uses in an audit log. Each list begins with the most frequent entry.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Uses {
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
}

#[derive(Deserialize)]
struct ObjectName {
    label: String,
    id: String,
}

pub fn count(log: impl BufRead) -> std::io::Result<Uses> {
    let mut uses = Uses::default();
    let (mut functions, mut mechanisms) = (Tally::default(), Tally::default());
    let (mut keys, mut clients) = (Tally::default(), Tally::default());
    for line in log.split(b'\n') {
        let Ok(record) = serde_json::from_slice::<Record>(&line?) else {
            uses.invalid_lines += 1;
            continue;
        };
        if record.function == LOSS {
            uses.lost_records +=
                record.result.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0);
            continue;
        }
        let failed = !SUCCESSES.contains(&&record.result[..]);
        uses.calls += 1;
        functions.add(Function { function: record.function }, failed);
        clients.add(Client { uid: record.uid, program: record.program, client: record.client }, failed);
        let Some(mechanism) = record.mechanism else { continue };
        mechanisms.add(MechanismName { mechanism }, failed);
        let key = |name: ObjectName| Key { token: record.token.clone(), label: name.label, id: name.id };
        // One call may name a key twice, for example the two halves of a pair.
        let named: BTreeSet<_> = record.names.into_iter().map(key).collect();
        named.into_iter().for_each(|key| keys.add(key, failed));
    }
    uses.functions = functions.sorted();
    uses.mechanisms = mechanisms.sorted();
    uses.keys = keys.sorted();
    uses.clients = clients.sorted();
    Ok(uses)
}

/// The calls and the failed calls of each entry of a list.
struct Tally<T>(BTreeMap<T, (u64, u64)>);

impl<T> Default for Tally<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> Tally<T> {
    fn add(&mut self, of: T, failed: bool) {
        let (calls, failures) = self.0.entry(of).or_default();
        *calls += 1;
        *failures += u64::from(failed);
    }

    /// Returns the entries, the most frequent one first, and entries of the same frequency in their
    /// own order.
    fn sorted(self) -> Vec<Count<T>> {
        let count = |(of, (calls, failed))| Count { of, calls, failed };
        let mut counts: Vec<_> = self.0.into_iter().map(count).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.calls));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(lines: &[&str]) -> Uses {
        count(lines.join("\n").as_bytes()).expect("a log")
    }

    #[test]
    fn losses_and_invalid_lines_are_not_calls() {
        let uses = counted(&[
            r#"{"number":1,"function":"audit","objects":[],"result":"7 records lost"}"#,
            r#"{"number":2,"function":"C_Login","objects":[],"result":"Ok"}"#,
            "half of a li",
        ]);
        assert_eq!((uses.calls, uses.lost_records, uses.invalid_lines), (1, 7, 1));
        assert_eq!(uses.functions.len(), 1);
    }

    #[test]
    fn a_call_that_names_both_halves_of_a_pair_counts_once() {
        let uses = counted(&[
            r#"{"function":"C_GenerateKeyPair","token":"t","mechanism":"CKM_EC_KEY_PAIR_GEN",
                "names":[{"label":"a","id":"01"},{"label":"a","id":"01"}],"result":"Ok"}"#
                .replace('\n', "")
                .as_str(),
            r#"{"function":"C_SignInit","token":"t","mechanism":"CKM_ECDSA","names":[{"label":"a","id":"01"}],"result":"KeySizeRange"}"#,
            r#"{"function":"C_SignInit","token":"u","mechanism":"CKM_ECDSA","names":[{"label":"a","id":"01"}],"result":"Ok"}"#,
            r#"{"function":"C_DestroyObject","token":"t","names":[{"label":"a","id":"01"}],"result":"Ok"}"#,
        ]);
        let keys: Vec<_> =
            uses.keys.iter().map(|count| (&count.of.token[..], count.calls, count.failed)).collect();
        assert_eq!(keys, [("t", 2, 1), ("u", 1, 0)]);
        let mechanisms: Vec<_> =
            uses.mechanisms.iter().map(|count| (&count.of.mechanism[..], count.calls)).collect();
        assert_eq!(mechanisms, [("CKM_ECDSA", 2), ("CKM_EC_KEY_PAIR_GEN", 1)]);
    }
}
