//! Tables of medians, intervals and ratios.

use jeton_laboratory::Table;
use jeton_laboratory::figure::{factor, nanoseconds as time};

use super::data::{Data, Estimate};
use super::{markdown, words};
use crate::names::{BASELINE, BASELINE_AGAIN, JETON, SOFTHSM, shown};

fn interval(estimate: Estimate) -> String {
    format!("{} to {}", time(estimate.low), time(estimate.high))
}

/// Returns a table with one line per group whose name begins with one of `prefixes`. It shows the
/// times of the baseline, of our module and of all other rows. The time of the baseline is the mean
/// of its two rows.
pub fn compared(data: &Data, prefixes: &[&str]) -> String {
    let groups: Vec<_> = prefixes.iter().flat_map(|prefix| data.groups(prefix)).collect();
    let mut others: Vec<&str> = Vec::new();
    for group in &groups {
        for (row, _) in data.rows(group) {
            if ![BASELINE, BASELINE_AGAIN, JETON].contains(&row) && !others.contains(&row) {
                others.push(row);
            }
        }
    }
    let header = ["operation", "filter", "baseline", "jeton", "95 % interval", SPEED, TIMES];
    let mut table = Table::new(2, header.into_iter().chain(others.iter().copied()));
    groups.iter().for_each(|group| table.add(line(data, group, &others)));
    markdown(&table)
}

fn line(data: &Data, group: &str, others: &[&str]) -> Vec<String> {
    let (baseline, jeton) = (data.baseline(group), data.row(group, JETON));
    let speed = data.ratio(group).map(|ratio| format!("{:.3}", 1.0 / ratio));
    let softhsm = data.row(group, SOFTHSM).zip(jeton);
    let softhsm = softhsm.map(|(softhsm, jeton)| factor(softhsm.median / jeton.median));
    let cells = [
        baseline.map(time),
        jeton.map(|estimate| time(estimate.median)),
        jeton.map(interval),
        speed,
        softhsm,
    ];
    let rest = others.iter().map(|row| data.row(group, row).map(|estimate| time(estimate.median)));
    let cells = cells.into_iter().chain(rest).map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
    [words::operation(group), format!("`{group}`")].into_iter().chain(cells).collect()
}

const SPEED: &str = "speed relative to baseline";
const TIMES: &str = "times as fast as SoftHSMv2";

/// The groups of the summary, with their names in the summary.
const SUMMARY: [(&str, &str); 19] = [
    ("sign/p256", "P-256 sign"),
    ("verify/p256", "P-256 verify"),
    ("sign/p384", "P-384 sign"),
    ("sign/ed25519", "Ed25519 sign"),
    ("sign/rsa2048-pkcs", "RSA-2048 sign"),
    ("sign/rsa4096-pkcs", "RSA-4096 sign"),
    ("sign/mldsa65", "ML-DSA-65 sign"),
    ("verify/mldsa65", "ML-DSA-65 verify"),
    ("kem/decapsulate", "ML-KEM-768 decapsulate"),
    ("aes-gcm/4096", "AES-256-GCM, 4 KiB"),
    ("sha256/4096", "SHA-256, 4 KiB"),
    ("random/32", "32 random bytes"),
    ("generate/p256", "make a P-256 key pair (session)"),
    ("generate/p256-token", "make a P-256 key pair (token)"),
    ("object/create-token", "create a token object"),
    ("search/token/label/1000", "find by label among 1,000"),
    ("search/session/label/1000000", "find by label among 1,000,000"),
    ("start/login/1000", "start and log in, 1,000 objects"),
    ("session/open-close", "open and close a session"),
];

/// The other modules, with the names that the summary has for them.
const PEERS: [(&str, &str); 4] =
    [(SOFTHSM, "SoftHSMv2"), ("nss", "NSS"), ("kryoptic", "Kryoptic"), ("craton", "Craton HSM")];

const FRONT_PAGE: [&str; 3] = ["sign/p256", "sign/rsa2048-pkcs", "object/create-token"];

/// The summary of the page: our module, the baseline, and the other modules in their faster
/// configurations. Leaves out a module without figures.
pub fn summary(data: &Data) -> String {
    chosen(data, &SUMMARY)
}

/// The table of the README: some lines of the summary.
pub fn front_page(data: &Data) -> String {
    let mut lines = SUMMARY.to_vec();
    lines.retain(|(group, _)| FRONT_PAGE.contains(group));
    chosen(data, &lines)
}

fn chosen(data: &Data, groups: &[(&str, &str)]) -> String {
    let quickest = |group: &str, peer: &str| {
        let rows = data.rows(group).into_iter().filter(|(row, _)| row.starts_with(peer));
        rows.map(|(_, estimate)| estimate.median).min_by(f64::total_cmp)
    };
    let mut peers = PEERS.to_vec();
    peers.retain(|(peer, _)| groups.iter().any(|(group, _)| quickest(group, peer).is_some()));
    let names = peers.iter().map(|(_, name)| *name);
    let header = ["operation", "Jeton", "AWS-LC called directly"].into_iter().chain(names);
    let rows = groups.iter().map(|(group, name)| {
        let ours = [data.jeton(group), data.baseline(group)];
        let cells = ours.into_iter().chain(peers.iter().map(|(peer, _)| quickest(group, peer)));
        let cells = cells.map(|cell| cell.map_or("-".to_owned(), time)).collect::<Vec<_>>();
        ((*name).to_owned(), cells)
    });
    markdown(&Table::new(1, header).with(rows))
}

pub fn every_row(data: &Data) -> String {
    let header = ["operation", "filter", "row", "median", "95 % interval", SPEED, TIMES];
    let mut table = Table::new(3, header);
    for group in data.groups("") {
        let softhsm = data.row(group, SOFTHSM);
        for (row, estimate) in data.rows(group) {
            let speed = data.times(group, row).map(|times| format!("{:.3}", 1.0 / times));
            let times = softhsm.map(|softhsm| factor(softhsm.median / estimate.median));
            table.add([
                words::operation(group),
                format!("`{group}`"),
                shown(row).to_owned(),
                time(estimate.median),
                interval(estimate),
                speed.unwrap_or_else(|| "-".to_owned()),
                times.unwrap_or_else(|| "-".to_owned()),
            ]);
        }
    }
    format!(
        "# Every row\n\n`cargo run --release -p jeton-benches -- report` writes this page. \
         [benchmarks.md](../benchmarks.md) explains the rows.\n\n{}",
        markdown(&table)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_page_is_part_of_the_summary() {
        let names = SUMMARY.map(|(group, _)| group);
        assert!(FRONT_PAGE.iter().all(|group| names.contains(group)));
        let lines = |text: String| text.lines().count();
        assert_eq!(lines(front_page(&Data::of(&[]))), 2 + FRONT_PAGE.len());
        assert_eq!(lines(summary(&Data::of(&[]))), 2 + SUMMARY.len());
    }

    #[test]
    fn a_missing_measurement_is_a_dash() {
        let data = Data::of(&[("g", "jeton", 200.0), ("g", "softhsm2", 500.0)]);
        let cells = ["g", "`g`", "-", "200 ns", "200 ns to 200 ns", "-", "2.50", "-"];
        assert_eq!(line(&data, "g", &["nss"]), cells);
    }
}
