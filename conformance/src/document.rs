//! The document: every module in a column, what each got by name.

use std::fmt::Write;

use crate::record::{Record, Section, Verdict};
use crate::scorecard::sums;

/// A module's results.
pub struct Column {
    /// As the document calls it.
    pub title: &'static str,
    /// Whether it is Jeton, which must be right.
    pub ours: bool,
    /// What came out.
    pub records: Vec<Record>,
}

/// The whole text.
pub fn text(columns: &[Column], quick: bool) -> String {
    let mut text = String::from(HEAD);
    if quick {
        text.push_str("\nThis run cut long sets of vectors short (`--quick`).\n");
    }
    text.push_str("\n## Sums\n\n");
    for column in columns {
        let _ = writeln!(text, "**{}**\n", column.title);
        for sum in sums(&column.records) {
            let _ = writeln!(text, "- {sum}");
        }
        text.push('\n');
    }
    for (section, title, about) in CHAPTERS {
        let _ = writeln!(text, "## {title}\n\n{about}\n");
        table(&mut text, columns, *section);
    }
    deviations(&mut text, columns);
    text
}

const HEAD: &str = "# Conformance\n\n\
    Written by `cargo run --release -p jeton-conformance -- --write docs/conformance.md`: every module in a process of its\n\
    own, seen through its C interface alone. A peer's deviation is what this suite reads out of PKCS#11 3.2 and not a\n\
    verdict on the peer: several were made for earlier versions.\n";

const CHAPTERS: &[(Section, &str, &str)] = &[
    (
        Section::Functions,
        "Functions",
        "Each of the 104 functions, called with harmless arguments: what it answers. `CKR_FUNCTION_NOT_SUPPORTED` is \
         nothing behind the name, any other answer is something.",
    ),
    (
        Section::Mechanisms,
        "Mechanisms",
        "Each proven by a known answer or a round trip. `-`: not in the module's list.",
    ),
    (
        Section::Vectors,
        "Vectors",
        "Tests run, and in brackets those that came out otherwise than the set has it; `listed` are those with a reason \
         below. `-`: the module has not the mechanism.",
    ),
    (
        Section::Cases,
        "Cases",
        "The return code of each case: `ok` is one of those that the specification allows, anything else is what came \
         instead.",
    ),
];

fn table(text: &mut String, columns: &[Column], section: Section) {
    let titles: Vec<_> = columns.iter().map(|column| column.title).collect();
    let _ = writeln!(text, "| | | {} |\n|---|---|{}", titles.join(" | "), "---|".repeat(columns.len()));
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for record in columns.iter().flat_map(|column| &column.records).filter(|one| one.section == section) {
        let row = (record.subject.as_str(), record.name.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for (subject, name) in rows {
        let cells: Vec<_> = columns.iter().map(|column| cell(column, section, subject, name)).collect();
        let _ = writeln!(text, "| {subject} | {name} | {} |", cells.join(" | "));
    }
    text.push('\n');
}

fn cell(column: &Column, section: Section, subject: &str, name: &str) -> String {
    let found = column
        .records
        .iter()
        .find(|one| one.section == section && one.subject == subject && one.name == name);
    match found.map(|record| &record.verdict) {
        None => "not run".to_owned(),
        Some(Verdict::Case { fits: true, .. } | Verdict::Works) => "ok".to_owned(),
        Some(Verdict::Case { got, .. }) => format!("**{got}**"),
        Some(Verdict::Answer(answer)) => answer.clone(),
        Some(Verdict::Fails(why)) => format!("**{}**", why.split(" while").next().unwrap_or(why)),
        Some(Verdict::Absent(_)) => "-".to_owned(),
        Some(Verdict::Crashed(how)) => format!("**crashed**: {how}"),
        Some(Verdict::Vectors(tally)) => {
            let listed = tally.deviations.iter().filter(|one| one.reason.is_some()).count();
            match (tally.deviations.len() - listed, listed) {
                (0, 0) => tally.executed.to_string(),
                (0, listed) => format!("{} ({listed} listed)", tally.executed),
                (other, 0) => format!("{} (**{other}**)", tally.executed),
                (other, listed) => format!("{} (**{other}**, {listed} listed)", tally.executed),
            }
        }
    }
}

/// Each vector that came out otherwise, by its number; many of a kind in one line.
fn deviations(text: &mut String, columns: &[Column]) {
    text.push_str("## Vectors that come out otherwise\n\n");
    for column in columns {
        let _ = writeln!(text, "**{}**\n", column.title);
        let mut none = true;
        for record in &column.records {
            let Verdict::Vectors(tally) = &record.verdict else { continue };
            let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
            for one in &tally.deviations {
                let kind = match &one.reason {
                    Some(reason) => format!("{} instead of {}: {reason}", one.got, one.expected),
                    None => format!("{} instead of {}", one.got, one.expected),
                };
                match kinds.iter_mut().find(|(known, _)| *known == kind) {
                    Some((_, tests)) => tests.push(one.test.to_string()),
                    None => kinds.push((kind, vec![one.test.to_string()])),
                }
            }
            for (kind, tests) in kinds {
                none = false;
                let shown = tests.iter().take(12).cloned().collect::<Vec<_>>().join(", ");
                let more =
                    if tests.len() > 12 { format!(" and {} more", tests.len() - 12) } else { String::new() };
                let _ = writeln!(text, "- {}, tests {shown}{more}: {kind}", record.name);
            }
        }
        text.push_str(if none { "None.\n\n" } else { "\n" });
    }
}
