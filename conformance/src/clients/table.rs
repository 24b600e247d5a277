//! The table of clients, which is printed, and written into a file between two marker lines.

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

/// Returns the table in Markdown, followed by the failures.
pub fn markdown(modules: &[&str], rows: &[Row]) -> String {
    let mut text = format!("| client | version | what is done | {} |\n", modules.join(" | "));
    text += &format!("|---|---|---|{}\n", "---|".repeat(modules.len()));
    let mut notes = String::new();
    for Row { page, version, outcomes } in rows {
        let cells: Vec<_> = outcomes.iter().map(cell).collect();
        let Page { name, title, matter, .. } = page;
        text += &format!("| [{title}]({name}.md) | {version} | {} | {} |\n", matter.done, cells.join(" | "));
        for (module, outcome) in modules.iter().zip(outcomes) {
            notes += &failures(module, title, outcome);
        }
    }
    if notes.is_empty() { text } else { format!("{text}\nFailures with their last output:\n\n{notes}") }
}

fn cell(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(well, failed) if failed.is_empty() => format!("ok ({})", well.len()),
        Outcome::Done(well, failed) => format!("{} of {}", well.len(), well.len() + failed.len()),
        Outcome::Absent(_) => "not on this machine".to_owned(),
    }
}

fn failures(module: &str, title: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done(_, failed) => failed
            .iter()
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
