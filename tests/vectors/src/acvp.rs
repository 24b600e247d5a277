//! The ACVP vectors of NIST, if their files are on this machine.
//!
//! The sets for signatures use the internal interface, which has no `0 || len(ctx) || ctx` before
//! the message. PKCS#11 does not have this interface, so these sets are left out. Encapsulation
//! with given randomness is left out too.

use std::path::PathBuf;

use serde_json::Value;

use crate::hex;

/// The keys of ML-DSA from seeds.
pub const ML_DSA_KEYS: &str = "ML-DSA-keyGen-FIPS204";
/// The keys of ML-KEM from seeds.
pub const ML_KEM_KEYS: &str = "ML-KEM-keyGen-FIPS203";
/// Decapsulation, also with implicit rejection.
pub const ML_KEM_DECAPSULATION: &str = "ML-KEM-encapDecap-FIPS203";
/// The keys of SLH-DSA from seeds.
pub const SLH_DSA_KEYS: &str = "SLH-DSA-keyGen-FIPS205";

/// A vector of a set.
pub struct Test<'a> {
    /// The name of the parameter set, for example `ML-DSA-44`.
    pub parameters: &'a str,
    /// The number of the test.
    pub number: usize,
    group: &'a Value,
    test: &'a Value,
}

impl Test<'_> {
    /// Returns the bytes of a field. If all tests of a group share a value, the group has the
    /// field.
    ///
    /// # Panics
    ///
    /// If the vector lacks the field.
    pub fn bytes(&self, field: &str) -> Vec<u8> {
        let value = [self.group, self.test].into_iter().find_map(|holder| holder[field].as_str());
        hex(value.unwrap_or_else(|| panic!("test {} has no {field}", self.number)))
    }
}

/// A set of vectors.
pub struct Set(Value);

impl Set {
    /// Reads a set below `acvp/` in the directory `JETON_VECTORS`, or in its default place beside
    /// the repository. Prints the reason and returns `None` if there is no file.
    ///
    /// # Panics
    ///
    /// If the file is not JSON.
    pub fn read(name: &str) -> Option<Self> {
        let directory = std::env::var_os("JETON_VECTORS").map_or_else(
            || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"),
            PathBuf::from,
        );
        let path = directory.join("acvp").join(name).with_extension("json");
        match std::fs::read_to_string(&path) {
            Ok(json) => Some(Self(serde_json::from_str(&json).expect("a JSON file"))),
            Err(error) => {
                eprintln!("skipped: {}: {error}", path.display());
                None
            }
        }
    }

    /// Returns the vectors. Operations with a small (s) parameter set of SLH-DSA are slow, so each
    /// such group has only its first vector.
    ///
    /// # Panics
    ///
    /// If the file does not have ACVP's form.
    pub fn tests(&self) -> impl Iterator<Item = Test<'_>> {
        let groups = self.0["testGroups"].as_array().expect("a list");
        groups.iter().flat_map(|group| {
            let parameters = group["parameterSet"].as_str().expect("a string");
            let tests = group["tests"].as_array().expect("a list").iter();
            let count = if parameters.ends_with('s') { 1 } else { tests.len() };
            tests.take(count).map(move |test| {
                let number = test["tcId"].as_u64().expect("a number") as usize;
                Test { parameters, number, group, test }
            })
        })
    }
}
