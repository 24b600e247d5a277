//! When the keys of an audit log were made, and when they were used last.

use std::collections::HashMap;

use serde::Deserialize;

use super::uses::SUCCESSES;
use crate::Error;

/// The functions whose records name new objects only.
const MAKERS: [&str; 3] = ["C_GenerateKey", "C_GenerateKeyPair", "C_CreateObject"];
/// The functions whose records name the new object last, after those that the caller named.
const COPIERS: [&str; 6] = [
    "C_CopyObject",
    "C_DecapsulateKey",
    "C_DeriveKey",
    "C_EncapsulateKey",
    "C_UnwrapKey",
    "C_UnwrapKeyAuthenticated",
];

/// The times of a key in seconds since 1970, as far as the log has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    pub made: Option<i64>,
    pub last_use: Option<i64>,
}

/// The lives of the keys that a log names. Without a log it is empty.
#[derive(Default)]
pub struct Lives {
    /// By the serial number of the token and `CKA_UNIQUE_ID`.
    objects: HashMap<[String; 2], Life>,
    /// By the serial number of the token, the label and the ID.
    names: HashMap<[String; 3], Life>,
}

#[derive(Deserialize)]
struct Record {
    time: f64,
    token: String,
    function: String,
    mechanism: Option<String>,
    objects: Vec<String>,
    #[serde(default)]
    names: Vec<Name>,
    result: String,
}

#[derive(Deserialize)]
struct Name {
    label: String,
    id: String,
}

impl Lives {
    /// Reads the lines of a log. The lines of several processes may be out of order.
    pub fn read(lines: impl IntoIterator<Item = Result<Vec<u8>, Error>>) -> Result<Self, Error> {
        let mut lives = Self::default();
        for line in lines {
            // Records without a token or an object, and lines that are not records, name no key.
            let Ok(record) = serde_json::from_slice::<Record>(&line?) else { continue };
            if SUCCESSES.contains(&&record.result[..]) {
                lives.add(record);
            }
        }
        Ok(lives)
    }

    fn add(&mut self, record: Record) {
        let time = record.time as i64;
        let function = &record.function[..];
        let last = record.objects.len().saturating_sub(1);
        let makes = |index| MAKERS.contains(&function) || COPIERS.contains(&function) && index == last;
        let note = |life: &mut Life, index| {
            if makes(index) {
                life.made = Some(life.made.map_or(time, |made| made.min(time)));
            } else if record.mechanism.is_some() {
                life.last_use = life.last_use.max(Some(time));
            }
        };
        for (index, object) in record.objects.into_iter().enumerate() {
            note(self.objects.entry([record.token.clone(), object]).or_default(), index);
        }
        for (index, Name { label, id }) in record.names.into_iter().enumerate() {
            note(self.names.entry([record.token.clone(), label, id]).or_default(), index);
        }
    }

    /// Returns the life of the object with this `CKA_UNIQUE_ID`.
    pub fn of_object(&self, serial: &str, unique_id: &str) -> Life {
        self.objects.get(&[serial, unique_id].map(str::to_owned)).copied().unwrap_or_default()
    }

    /// Returns the life of the key pair with this label and this ID.
    pub fn of_name(&self, serial: &str, label: &str, id: &str) -> Life {
        self.names.get(&[serial, label, id].map(str::to_owned)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_used_later() {
        let line = |time: u32, function: &str, mechanism: &str, objects: &[&str], result: &str| {
            let names: Vec<_> =
                objects.iter().map(|_| serde_json::json!({ "label": "a", "id": "01" })).collect();
            let record = serde_json::json!({
                "time": time, "token": "t", "function": function, "mechanism": mechanism,
                "objects": objects, "names": names, "result": result,
            });
            Ok(record.to_string().into_bytes())
        };
        let log = [
            line(5, "C_SignInit", "CKM_ECDSA", &["private"], "Ok"),
            line(2, "C_GenerateKeyPair", "CKM_EC_KEY_PAIR_GEN", &["public", "private"], "Ok"),
            line(9, "C_SignInit", "CKM_ECDSA", &["private"], "KeyFunctionNotPermitted"),
            line(7, "C_DeriveKey", "CKM_ECDH1_DERIVE", &["private", "derived"], "Ok"),
            Ok(b"half of a li".to_vec()),
        ];
        let lives = Lives::read(log).expect("a log");
        let life = |made, last_use| Life { made, last_use };
        assert_eq!(lives.of_object("t", "private"), life(Some(2), Some(7)));
        assert_eq!(lives.of_object("t", "public"), life(Some(2), None));
        assert_eq!(lives.of_object("t", "derived"), life(Some(7), None));
        assert_eq!(lives.of_object("u", "private"), life(None, None));
        assert_eq!(lives.of_name("t", "a", "01"), life(Some(2), Some(7)));
    }
}
