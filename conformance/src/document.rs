//! The document, which has a column for each module.

use std::fmt::Write;

use crate::map::demands;
use crate::record::{Record, Section, Verdict};
use crate::scorecard::{outcomes, sums};

pub struct Column {
    pub title: &'static str,
    /// True for Jeton, which must have no errors.
    pub ours: bool,
    pub records: Vec<Record>,
}

/// A page about the modules. The page of the site is the summary and then the tables.
pub struct Document {
    /// The part that the tree keeps.
    pub summary: String,
    /// A row for each check.
    pub tables: String,
}

impl Document {
    pub fn of_checks(columns: &[Column]) -> Self {
        let mut summary = String::from(CHECKS);
        summary.push_str("\n## Sums\n");
        for column in columns {
            let _ = writeln!(summary, "\n**{}**\n", column.title);
            for sum in sums(&column.records) {
                let _ = writeln!(summary, "- {sum}");
            }
        }
        let vectors = records(columns).filter_map(|record| match &record.verdict {
            Verdict::Vectors(tally) => Some(&tally.deviations),
            _ => None,
        });
        reasons(&mut summary, "Listed reasons", vectors.flatten().filter_map(|one| one.reason.as_deref()));
        let mut tables = String::new();
        let has = |section| records(columns).any(|record| record.section == section);
        for (section, title, about) in CHAPTERS.iter().filter(|(section, ..)| has(*section)) {
            let _ = writeln!(tables, "\n## {title}\n\n{about}\n");
            table(&mut tables, columns, *section);
        }
        if has(Section::Vectors) {
            deviations(&mut tables, columns);
        }
        demanded(&mut tables, columns);
        Self { summary, tables }
    }

    pub fn of_attacks(columns: &[Column]) -> Self {
        let mut summary = String::from(ATTACKS);
        for Column { title, records, .. } in columns {
            let [resisted, allowed, succeeded, absent] = outcomes(records);
            let attacks = records.len();
            let _ = writeln!(
                summary,
                "| {title} | {attacks} | {resisted} | {allowed} | {succeeded} | {absent} |"
            );
        }
        let allowed = records(columns).filter_map(|record| match &record.verdict {
            Verdict::Allowed(reason) => Some(reason.as_str()),
            _ => None,
        });
        reasons(&mut summary, "Succeeded, and allowed by the standard", allowed);
        let mut tables = String::from("\n## Every attack\n\n");
        table(&mut tables, columns, Section::Attacks);
        Self { summary, tables }
    }
}

const CHECKS: &str = "# Conformance\n\n\
    `cargo run --release -p jeton-conformance -- --write docs/conformance.md` writes this summary, and `--page FILE` the\n\
    page of the site: the summary, and a row for each function, mechanism, set of vectors and case. The suite runs each\n\
    module in its own process and uses only the C interface. A deviation of another module follows from how this suite\n\
    reads PKCS#11 3.2. It is not a verdict: several modules implement earlier versions.\n";

const ATTACKS: &str = "# Attacks on keys\n\n\
    `cargo run --release -p jeton-conformance -- --attacks --write docs/attacks.md` writes this summary, and\n\
    `--attacks --page FILE` the page of the site: the summary, and a row for each attack. The attacker is an application\n\
    with the user PIN. An attack succeeds if it obtains a key or a use that was not permitted. \"Allowed\": it succeeds, and\n\
    PKCS#11 permits it unless the owner of the key forbids it; the reasons are below. \"Not applicable\" (`-`): the module\n\
    lacks a mechanism or a function that the attack needs, or refuses a step of the owner of the key.\n\n\
    | module | attacks | resisted | allowed | succeeded | not applicable |\n|---|--:|--:|--:|--:|--:|\n";

fn records(columns: &[Column]) -> impl Iterator<Item = &Record> {
    columns.iter().flat_map(|column| &column.records)
}

/// Appends a list of the different reasons, if there is one.
fn reasons<'a>(text: &mut String, title: &str, all: impl Iterator<Item = &'a str>) {
    let mut known = Vec::new();
    for reason in all.filter(|reason| !reason.is_empty()) {
        if known.is_empty() {
            let _ = writeln!(text, "\n## {title}\n");
        }
        if !known.contains(&reason) {
            known.push(reason);
            let _ = writeln!(text, "- {reason}");
        }
    }
}

const DEMANDS: &str = "The demands of [the map](map.md) that cases of this page answer. `-`: the module lacks the mechanisms of \
    all these cases.";

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
         reason above. `-`: the module does not have the mechanism.",
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
    for record in records(columns).filter(|one| one.section == section) {
        let row = (record.subject.as_str(), record.name.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    for (subject, name) in rows {
        let cells: Vec<_> = columns.iter().map(|column| cell(column, section, subject, name)).collect();
        let _ = writeln!(text, "| {subject} | {name} | {} |", cells.join(" | "));
    }
}

/// Appends a row for each demand of the standard that cases answer.
fn demanded(text: &mut String, columns: &[Column]) {
    let titles: Vec<_> = columns.iter().map(|column| column.title).collect();
    let _ = writeln!(text, "\n## Demands of the standard\n\n{DEMANDS}\n");
    let _ = writeln!(
        text,
        "| section | demand | {} |\n|---|---|{}",
        titles.join(" | "),
        "---|".repeat(columns.len())
    );
    for demand in demands() {
        let cases: Vec<_> = demand.cases().collect();
        if !cases.is_empty() {
            let cells: Vec<_> = columns.iter().map(|column| met(column, &cases)).collect();
            let _ = writeln!(text, "| {} | {} | {} |", demand.section, demand.demand, cells.join(" | "));
        }
    }
}

/// Returns whether the module meets a demand, by the checks that one of these texts selects.
fn met(column: &Column, cases: &[&str]) -> String {
    let selected = |record: &&Record| cases.iter().any(|text| record.title().contains(text));
    let selected: Vec<_> = column.records.iter().filter(selected).collect();
    let is_absent = |record: &&&Record| matches!(record.verdict, Verdict::Absent(_));
    let (good, absent) = (
        selected.iter().filter(|record| record.is_good()).count(),
        selected.iter().filter(is_absent).count(),
    );
    match selected.len() {
        0 => "not run".to_owned(),
        all if all == absent => "-".to_owned(),
        all if all == good => "ok".to_owned(),
        all => format!("**{} of {all} differ**", all - good),
    }
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
    text.push_str("\n## Vectors with another result\n");
    for column in columns {
        let _ = writeln!(text, "\n**{}**\n", column.title);
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
        if none {
            text.push_str("None.\n");
        }
    }
}
