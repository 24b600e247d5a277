//! The results of `jeton-driver parse`, as a table for people and as JSON for scripts.

use std::io::{self, Write};

use jeton_laboratory::Table;
use jeton_laboratory::figure::{rate, ratio_text};
use serde::Serialize;

use super::library::OURS;
use super::measure::MeasuredSet;
use crate::about::About;

/// A measurement, and the machine on which it ran.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine, the command and the tool.
    #[serde(flatten)]
    pub about: About,
    /// The libraries and their versions.
    pub libraries: Vec<(&'static str, String)>,
    /// The results.
    pub sets: Vec<MeasuredSet>,
    /// True if the user ended the measurement early.
    pub interrupted: bool,
}

/// The names and versions of the libraries. A test compares the versions with Cargo.lock.
const VERSIONS: [(&str, &str); 5] = [
    (OURS, "0.2.5"),
    ("x509-ocsp", "0.2.1"),
    ("x509-parser", "0.18.1"),
    ("synta-certificate", "0.5.1"),
    ("webpki-root-certs", "1.0.11"),
];

/// Returns the name and the version of each library.
fn libraries() -> Vec<(&'static str, String)> {
    #[cfg_attr(not(feature = "openssl"), expect(unused_mut, reason = "OpenSSL is pushed"))]
    let mut all: Vec<_> = VERSIONS.iter().map(|(name, version)| (*name, (*version).to_owned())).collect();
    #[cfg(feature = "openssl")]
    all.push((crate::selection::OPENSSL, openssl::version::version().to_owned()));
    all
}

impl Report {
    /// Starts a report of this machine.
    pub fn new() -> Self {
        Self { about: About::this(), libraries: libraries(), sets: Vec::new(), interrupted: false }
    }

    /// Adds the results, and the load of the machine at the end of the measurement.
    pub fn add(&mut self, sets: Vec<MeasuredSet>, interrupted: bool) {
        self.about.end();
        self.sets = sets;
        self.interrupted = interrupted;
    }
}

impl Default for Report {
    fn default() -> Self {
        Self::new()
    }
}

/// Prints the machine, the versions of the libraries, the table, and the notes below it.
pub fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let [before, after] = &report.about.load;
    writeln!(out, "{}, load {before}, then {after}", report.about.machine)?;
    let versions: Vec<_> =
        report.libraries.iter().map(|(name, version)| format!("{name} {version}")).collect();
    writeln!(out, "{}", versions.join(", "))?;
    let header = ["set", "operation", "library", "count", "bytes", "time", "items/s", "ratio"];
    let mut table = Table::new(3, header);
    for set in &report.sets {
        for row in &set.rows {
            let nanoseconds = row.seconds.value * 1e9;
            table.add([
                set.name.clone(),
                row.operation.to_owned(),
                row.library.to_owned(),
                (set.count - row.refused.min(set.count)).to_string(),
                set.bytes.to_string(),
                format!("{nanoseconds:.0} ns"),
                rate(1.0 / row.seconds.value),
                row.ratio.map(ratio_text).unwrap_or_default(),
            ]);
        }
    }
    writeln!(out, "{}", table.terminal(None))?;
    writeln!(
        out,
        "time: for one item, the median of the rounds. ratio: time divided by that of x509-cert (x509-ocsp for\n\
         responses) in the same round; ~: its 95 % interval is wider than 10 % of it. fields: parse, and read all\n\
         fields, names as text. parts: the signed bytes and the signature, for a verification. count: the items\n\
         that the library accepts."
    )?;
    for set in &report.sets {
        if let Some(chains) = set.chains {
            writeln!(out, "{}: {chains} chains verify", set.name)?;
        }
        for row in set.rows.iter().filter(|row| row.refused > 0) {
            writeln!(out, "{}: {} refuses {} of {}", set.name, row.library, row.refused, set.count)?;
        }
    }
    if report.interrupted {
        writeln!(out, "interrupted: the last sets are missing or have few rounds")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reported_versions_are_those_of_the_lock_file() {
        let lock = include_str!("../../../Cargo.lock");
        for (name, version) in VERSIONS {
            assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")), "{name}");
        }
    }
}
