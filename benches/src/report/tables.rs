//! Tables of medians, intervals and ratios.

use std::fmt::Write;

use super::data::{Data, Estimate};
use super::words;
use crate::names::{BASELINE, BASELINE_AGAIN, JETON, SOFTHSM, shown};

/// A duration with three digits.
pub fn time(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

fn interval(estimate: Estimate) -> String {
    format!("{} to {}", time(estimate.low), time(estimate.high))
}

/// A factor with three digits, or all digits before the point.
fn factor(times: f64) -> String {
    match times {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
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
    let mut text = String::from(
        "| operation | filter | baseline | jeton | 95 % interval | speed relative to baseline | times as fast as SoftHSMv2 |",
    );
    others.iter().for_each(|row| write!(text, " {row} |").expect("a string"));
    text.push_str("\n|---|---|--:|--:|--:|--:|--:|");
    others.iter().for_each(|_| text.push_str("--:|"));
    text.push('\n');
    for group in groups {
        text.push_str(&line(data, group, &others));
    }
    text
}

fn line(data: &Data, group: &str, others: &[&str]) -> String {
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
    let mut text = format!("| {} | `{group}` |", words::operation(group));
    for cell in cells.into_iter().chain(rest) {
        write!(text, " {} |", cell.as_deref().unwrap_or("-")).expect("a string");
    }
    text.push('\n');
    text
}

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

/// The groups of the README's table.
const FRONT_PAGE: [&str; 6] = [
    "sign/p256",
    "sign/rsa2048-pkcs",
    "sign/mldsa65",
    "aes-gcm/4096",
    "object/create-token",
    "search/session/label/1000000",
];

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
    let names: String = peers.iter().map(|(_, name)| format!(" {name} |")).collect();
    let mut text = format!(
        "| operation | Jeton | AWS-LC called directly |{names}\n|---|--:|--:|{}\n",
        "--:|".repeat(peers.len())
    );
    for (group, name) in groups {
        let ours = [data.jeton(group), data.baseline(group)];
        let cells = ours.into_iter().chain(peers.iter().map(|(peer, _)| quickest(group, peer)));
        let cells: Vec<_> = cells.map(|cell| cell.map_or("-".to_owned(), time)).collect();
        writeln!(text, "| {name} | {} |", cells.join(" | ")).expect("a string");
    }
    text
}

/// Returns the page `docs/benchmarks/rows.md`.
pub fn every_row(data: &Data) -> String {
    let mut text = String::from(
        "# Every row\n\n`cargo run --release -p jeton-benches -- report` writes this page. \
         [benchmarks.md](../benchmarks.md) explains the rows.\n\n\
         | operation | filter | row | median | 95 % interval | speed relative to baseline | times as fast as SoftHSMv2 |\n\
         |---|---|---|--:|--:|--:|--:|\n",
    );
    for group in data.groups("") {
        let softhsm = data.row(group, SOFTHSM);
        for (row, estimate) in data.rows(group) {
            let of_baseline =
                data.times(group, row).map_or("-".to_owned(), |times| format!("{:.3}", 1.0 / times));
            let of_softhsm =
                softhsm.map_or("-".to_owned(), |softhsm| factor(softhsm.median / estimate.median));
            let (row, median, interval) = (shown(row), time(estimate.median), interval(estimate));
            let operation = words::operation(group);
            writeln!(
                text,
                "| {operation} | `{group}` | {row} | {median} | {interval} | {of_baseline} | {of_softhsm} |"
            )
            .expect("a string");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let texts = [1.234, 12.34, 123.4, 1234.0, 12_340_000.0, 1.5e9].map(time);
        assert_eq!(texts, ["1.23 ns", "12.3 ns", "123 ns", "1.23 us", "12.3 ms", "1.50 s"]);
    }

    #[test]
    fn the_front_page_is_part_of_the_summary() {
        let names = SUMMARY.map(|(group, _)| group);
        assert!(FRONT_PAGE.iter().all(|group| names.contains(group)));
        let lines = |text: String| text.lines().count();
        assert_eq!(lines(front_page(&Data::of(&[]))), 2 + FRONT_PAGE.len());
        assert_eq!(lines(summary(&Data::of(&[]))), 2 + SUMMARY.len());
    }

    #[test]
    fn large_factors_have_no_decimals() {
        assert_eq!([9.444, 94.44, 512_426.38].map(factor), ["9.44", "94.4", "512426"]);
    }

    #[test]
    fn a_missing_measurement_is_a_dash() {
        let data = Data::of(&[("g", "jeton", 200.0), ("g", "softhsm2", 500.0)]);
        assert_eq!(
            line(&data, "g", &["nss"]),
            "| g | `g` | - | 200 ns | 200 ns to 200 ns | - | 2.50 | - |\n"
        );
    }
}
