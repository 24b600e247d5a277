//! Writes `docs/benchmarks.md` and its plots from criterion's data and the other measurements.
//! Measured numbers that are written by hand are only in the reasons of `benches/reasons.txt`.

mod data;
mod losses;
mod page;
mod plots;
mod tables;
mod words;

use std::fs;
use std::path::Path;

use jeton_laboratory::Table;
use jeton_peers::write_between;

use super::AnyError;
use crate::artefacts::root;

use data::Data;

/// The report replaces the text of the README between these lines.
const README_BEGIN: &str = "<!-- benchmarks: written by the report of the benches -->";
const README_END: &str = "<!-- benchmarks end -->";

/// The operations in the table of the README.
const FRONT_PAGE: [&str; 3] = ["sign/p256", "sign/rsa2048-pkcs", "object/create-token"];

/// Writes the page, the table of all rows and the plots to `docs/`, the table of the README, and
/// our figures beside those of source document 004.
pub fn write() -> Result<(), AnyError> {
    let data = Data::read()?;
    let docs = root().join("docs");
    let beside = docs.join("benchmarks");
    fs::create_dir_all(&beside)?;
    plots::draw(&data, &beside)?;
    let readme = root().join("README.md");
    write_between(&readme, README_BEGIN, README_END, &tables::compared(&data, &FRONT_PAGE))?;
    let craton = beside.join("seeds-craton.tsv");
    save(&craton, &tables::filled(&data, &fs::read_to_string(&craton)?))?;
    save(&docs.join("benchmarks.md"), &page::page(&data))?;
    save(&beside.join("rows.tsv"), &tables::every_row(&data))
}

/// Returns a table in Markdown. The texts of the benches are Markdown already.
fn markdown(table: &Table) -> String {
    table.markdown()
}

fn save(path: &Path, text: &str) -> Result<(), AnyError> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
