//! The table of clients, which is printed, and written into a file between two marker lines.

use std::collections::BTreeMap;
use std::path::Path;

use jeton_peers::Error;
use jeton_peers::write_between;

use crate::page::Page;
use crate::runner::Outcome;

/// The lines before and after the table in a file.
const BEGIN: &str = "<!-- table: written by the program `clients` -->";
const END: &str = "<!-- table ends -->";

/// A client: its guide, its version, and its result with each module.
pub struct Row<'a> {
    pub page: &'a Page,
    pub version: String,
    pub outcomes: Vec<Outcome>,
}

/// Why sections fail with other modules, in words: from `clients/reasons.toml`.
#[derive(Default)]
pub struct Reasons(BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>);

impl Reasons {
    /// Reads the file of this package.
    pub fn read() -> Result<Self, Error> {
        let reasons = include_str!("../../clients/reasons.toml");
        let reasons =
            toml::from_str(reasons).map_err(|error| Error::Message(format!("reasons.toml: {error}")))?;
        Ok(Self(reasons))
    }

    /// Returns why a section of a guide fails with a module.
    fn of(&self, module: &str, guide: &str, section: &str) -> Option<&str> {
        self.0.get(module)?.get(guide)?.get(section).map(String::as_str)
    }
}

/// Returns the table in Markdown, followed by the failures without a known reason and the guides
/// that did not run.
pub fn markdown(modules: &[&str], rows: &[Row], reasons: &Reasons) -> String {
    let mut text = format!("| client | version | {} |\n", modules.join(" | "));
    text += &format!("|---|---|{}\n", "---|".repeat(modules.len()));
    let mut notes = String::new();
    for Row { page, version, outcomes } in rows {
        let Page { name, title, .. } = page;
        let cells = modules.iter().zip(outcomes).map(|(module, outcome)| {
            let reason = |section: &str| reasons.of(module, name, section);
            notes += &failures(module, title, outcome, reason);
            cell(outcome, reason)
        });
        let cells = cells.collect::<Vec<_>>().join(" | ");
        text += &format!("| [{title}]({name}.md) | {version} | {cells} |\n");
    }
    if notes.is_empty() { text } else { format!("{text}\nFailures with their last output:\n\n{notes}") }
}

/// Returns the number of sections that passed, and why the others failed.
fn cell<'a>(outcome: &Outcome, reason: impl Fn(&str) -> Option<&'a str>) -> String {
    let (well, failed) = match outcome {
        Outcome::Done(well, failed) => (well, failed),
        Outcome::Absent(_) => return "not on this machine".to_owned(),
    };
    if failed.is_empty() {
        return format!("ok ({})", well.len());
    }
    let words =
        failed.iter().map(|(section, _)| format!("*{section}*: {}", reason(section).unwrap_or("see below")));
    format!("{} of {}. {}", well.len(), well.len() + failed.len(), words.collect::<Vec<_>>().join("; "))
}

fn failures<'a>(
    module: &str,
    title: &str,
    outcome: &Outcome,
    reason: impl Fn(&str) -> Option<&'a str>,
) -> String {
    match outcome {
        Outcome::Done(_, failed) => failed
            .iter()
            .filter(|(section, _)| reason(section).is_none())
            .map(|(section, said)| format!("- {module}, {title}, {section}: {}\n", plain(said)))
            .collect(),
        Outcome::Absent(said) => format!("- {module}, {title}, not run: {}\n", plain(said)),
    }
}

/// Returns a line of output as code in Markdown.
fn plain(line: &str) -> String {
    let kept: String = line.chars().filter(|c| *c != '`' && !c.is_control()).take(300).collect();
    format!("`{kept}`")
}

/// Writes the table between the marker lines of the file.
pub fn write(file: &Path, table: &str) -> Result<(), Error> {
    write_between(file, BEGIN, END, table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_cell_says_why_in_words() {
        let failed = ["Keys", "TLS"].map(|section| (section.to_owned(), "last output".to_owned())).to_vec();
        let outcome = Outcome::Done(vec!["Signing".to_owned()], failed);
        let reason = |section: &str| (section == "Keys").then_some("it has no keys");
        assert_eq!(cell(&outcome, reason), "1 of 3. *Keys*: it has no keys; *TLS*: see below");
        assert_eq!(failures("softhsm2", "X", &outcome, reason), "- softhsm2, X, TLS: `last output`\n");
    }

    #[test]
    fn the_file_of_reasons_can_be_parsed() {
        assert!(!Reasons::read().expect("reasons").0.is_empty());
    }
}
