//! The page of a measurement: tables and plots, as one HTML or Markdown document without other
//! files.
//!
//! - `contents`, `issuance`, `tls`: the tables and plots of `jeton-driver pipeline`, `jeton-driver
//!   issue` and `jeton-driver tls`.
//! - `html` and `markdown`: write the same contents. Each escapes every text.

mod contents;
mod html;
mod issuance;
mod markdown;
mod tls;

pub use html::html;
pub use markdown::markdown;

use jeton_laboratory::Table;

use crate::Error;
use crate::results::Newest;

/// The contents of a page, before they are written as HTML or Markdown.
#[derive(Debug)]
pub struct Page {
    title: String,
    /// Facts about the measurement: a name and a text.
    facts: Vec<(String, String)>,
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    title: String,
    blocks: Vec<Block>,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Table(Table),
    Plot(Plot),
}

#[derive(Debug)]
struct Plot {
    title: String,
    /// The SVG element.
    svg: String,
}

impl Block {
    /// Returns the plot that `draw` makes of the title.
    fn plot(title: String, draw: impl FnOnce(&str) -> Result<String, String>) -> Result<Self, Error> {
        Ok(Self::Plot(Plot { svg: draw(&title).map_err(Error::Failed)?, title }))
    }
}

impl Page {
    /// Builds the page of the newest measurement of a store. Fails if the measurement is empty.
    pub fn of(newest: &Newest) -> Result<Self, Error> {
        match newest {
            Newest::Pipeline(measurements) => contents::page(measurements),
            Newest::Issuance(measurement) => issuance::page(measurement),
            Newest::Tls(measurement) => tls::page(contents::facts(&measurement.about), &measurement.cases),
        }
    }

    /// Builds the page of a measurement of `jeton-driver tls`. Fails if it has no case.
    pub fn of_tls(report: &crate::tls::Report) -> Result<Self, Error> {
        tls::page(tls::facts(report), &report.cases)
    }
}
