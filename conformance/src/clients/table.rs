//! The table of clients, which is printed, and written into a file.

use std::collections::BTreeMap;

use jeton_peers::Error;

use crate::page::Page;
use crate::runner::Outcome;

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

/// Returns the table, with tabs between the cells. Their text is Markdown.
pub fn tabs(modules: &[&str], rows: &[Row], reasons: &Reasons) -> String {
    let mut text = format!("client\tversion\t{}\n", modules.join("\t"));
    for Row { page: Page { name, title, .. }, version, outcomes } in rows {
        let cells = modules.iter().zip(outcomes);
        let cells = cells.map(|(module, outcome)| cell(outcome, |section| reasons.of(module, name, section)));
        let cells = cells.collect::<Vec<_>>().join("\t");
        text += &format!("[{title}]({name}.md)\t{version}\t{cells}\n");
    }
    text
}

/// Returns the number of sections that passed, and why the others failed. Shows the last output of
/// a section without a known reason.
fn cell<'a>(outcome: &Outcome, reason: impl Fn(&str) -> Option<&'a str>) -> String {
    let (well, failed) = match outcome {
        Outcome::Done(well, failed) => (well, failed),
        Outcome::Absent(said) => return format!("not run: {}", plain(said)),
    };
    if failed.is_empty() {
        return format!("ok ({})", well.len());
    }
    let words = failed.iter().map(|(section, said)| {
        format!("*{section}*: {}", reason(section).map_or_else(|| plain(said), str::to_owned))
    });
    format!("{} of {}. {}", well.len(), well.len() + failed.len(), words.collect::<Vec<_>>().join("; "))
}

/// Returns a line of output as code in Markdown.
fn plain(line: &str) -> String {
    let kept: String = line.chars().filter(|c| *c != '`' && !c.is_control()).take(300).collect();
    format!("`{kept}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_cell_says_why_in_words() {
        let failed = ["Keys", "TLS"].map(|section| (section.to_owned(), "last output".to_owned())).to_vec();
        let outcome = Outcome::Done(vec!["Signing".to_owned()], failed);
        let reason = |section: &str| (section == "Keys").then_some("it has no keys");
        assert_eq!(cell(&outcome, reason), "1 of 3. *Keys*: it has no keys; *TLS*: `last output`");
    }

    #[test]
    fn the_file_of_reasons_can_be_parsed() {
        assert!(!Reasons::read().expect("reasons").0.is_empty());
    }
}
