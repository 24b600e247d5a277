//! The document, which has a column for each module.

use std::fmt::Write;

use crate::record::{Record, Section, Verdict};
use crate::scorecard::sums;

pub struct Column {
    pub title: &'static str,
    /// True for Jeton, which must have no errors.
    pub ours: bool,
    pub records: Vec<Record>,
}

/// Returns the text of the document.
pub fn text(columns: &[Column], quick: bool) -> String {
    let mut text = String::from(HEAD);
    if quick {
        text.push_str("\nThis run used only a part of long sets of vectors (`--quick`).\n");
    }
    text.push_str("\n## Sums\n\n");
    for column in columns {
        let _ = writeln!(text, "**{}**\n", column.title);
        for sum in sums(&column.records) {
            let _ = writeln!(text, "- {sum}");
        }
        text.push('\n');
    }
    let has = |section| columns.iter().any(|column| column.records.iter().any(|one| one.section == section));
    for (section, title, about) in CHAPTERS.iter().filter(|(section, ..)| has(*section)) {
        let _ = writeln!(text, "## {title}\n\n{about}\n");
        table(&mut text, columns, *section);
    }
    if has(Section::Vectors) {
        deviations(&mut text, columns);
    }
    text
}

const HEAD: &str = "# Conformance\n\n\
    Written by `cargo run --release -p jeton-conformance -- --write docs/conformance.md`. It runs each module in its own\n\
    process and uses only the C interface. A deviation of another module follows from how this suite reads PKCS#11 3.2.\n\
    It is not a verdict: several modules implement earlier versions.\n";

/// Returns the text of the document on attacks.
pub fn attacks(columns: &[Column]) -> String {
    let mut text = String::from(ATTACKS);
    for column in columns {
        let _ = writeln!(text, "- **{}**: {}", column.title, crate::scorecard::attacks(&column.records));
    }
    text.push('\n');
    table(&mut text, columns, Section::Attacks);
    text.push_str("## Succeeded, and allowed by the standard\n\n");
    let mut reasons: Vec<&str> = Vec::new();
    for record in columns.iter().flat_map(|column| &column.records) {
        if let Verdict::Allowed(reason) = &record.verdict
            && !reasons.contains(&reason.as_str())
        {
            reasons.push(reason);
            let _ = writeln!(text, "- {}", reason);
        }
    }
    text
}

const ATTACKS: &str = "# Attacks on keys\n\n\
    Written by `cargo run --release -p jeton-conformance -- --attacks --write docs/attacks.md`. The attacker is an\n\
    application with the user PIN. An attack succeeds if it obtains a key or a use that was not permitted. `-`: the\n\
    module lacks a mechanism or a function that the attack needs, or refuses a step of the owner of the key.\n\n";

const CHAPTERS: &[(Section, &str, &str)] = &[
    (
        Section::Functions,
        "Functions",
        "The return code of each of the 104 functions for harmless arguments. `CKR_FUNCTION_NOT_SUPPORTED` means that the \
         module does not implement the function.",
    ),
    (
        Section::Mechanisms,
        "Mechanisms",
        "A known answer, a round trip or a comparison with other mechanisms checks each mechanism. `-`: the module does \
         not list the mechanism.",
    ),
    (
        Section::Vectors,
        "Vectors",
        "The number of tests, and in brackets the number of results that differ from the set. `listed` results have a \
         reason below. `-`: the module does not have the mechanism.",
    ),
    (
        Section::Cases,
        "Cases",
        "The return code of each case. `ok`: the specification allows the code. Otherwise the table shows the code.",
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
        Some(Verdict::Resisted(_)) => "resisted".to_owned(),
        Some(Verdict::Succeeded) => "**succeeded**".to_owned(),
        Some(Verdict::Allowed(_)) => "succeeded (allowed)".to_owned(),
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

/// Appends the vectors with another result. Vectors with the same kind of deviation share a line.
fn deviations(text: &mut String, columns: &[Column]) {
    text.push_str("## Vectors with another result\n\n");
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
                let noun = if tests.len() == 1 { "test" } else { "tests" };
                let _ = writeln!(text, "- {}, {noun} {shown}{more}: {kind}", record.name);
            }
        }
        text.push_str(if none { "None.\n\n" } else { "\n" });
    }
}
