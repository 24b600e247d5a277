//! `docs/benchmarks.md` and its plots, from criterion's data and what was measured beside it. No number in it is
//! written by hand: the only ones that stand here are those that are to be reached.

mod data;
mod figures;
mod losses;
mod page;
mod plots;
mod tables;

use std::fs;
use std::path::Path;

use jeton_driver::report::write_between;

use crate::artefacts::root;

use data::Data;
pub use data::{JETON, NULL};

/// The lines of the README between which its table stands.
const README_BEGIN: &str = "<!-- benchmarks: written by the report of the benches -->";
const README_END: &str = "<!-- benchmarks end -->";

/// Writes the page, the table of all rows and the plots below `docs/`, and the table of the README.
pub fn write() -> Result<(), String> {
    let data = Data::read()?;
    let docs = root().join("docs");
    let beside = docs.join("benchmarks");
    fs::create_dir_all(&beside).map_err(|error| error.to_string())?;
    plots::draw(&data, &beside)?;
    let readme = root().join("README.md");
    write_between(&readme, README_BEGIN, README_END, &tables::summary(&data))
        .map_err(|error| error.to_string())?;
    save(&docs.join("benchmarks.md"), &page::page(&data))?;
    save(&beside.join("rows.md"), &tables::every_row(&data))
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}
