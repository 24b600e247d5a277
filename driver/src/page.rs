//! The page of a measurement: tables and plots, as one HTML or Markdown document without other
//! files.
//!
//! - `contents`, `issuance`, `tls`: the tables and plots of `jeton pipeline`, `jeton issue` and
//!   `jeton tls`; `plots` draws all plots.
//! - `html` and `markdown`: write the same contents. Each escapes every text.

mod contents;
mod html;
mod issuance;
mod markdown;
mod plots;
mod tls;

pub use html::html;
pub use markdown::markdown;

use crate::Error;
use crate::results::{IssuanceMeasurement, Measurement};

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

/// A table. The first column is aligned left, the others right.
#[derive(Debug)]
struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Plot {
    title: String,
    /// The SVG element.
    svg: String,
}

impl Page {
    /// Builds the page of a store from its measurements, which are ordered from the oldest to the
    /// newest. The newest is shown in full. Fails if there is none.
    pub fn of(measurements: &[Measurement]) -> Result<Self, Error> {
        contents::page(measurements)
    }

    /// Builds the page of a measurement of `jeton issue`. Fails if it has no run.
    pub fn of_issuance(measurement: &IssuanceMeasurement) -> Result<Self, Error> {
        issuance::page(measurement)
    }

    /// Builds the page of a measurement of `jeton tls`. Fails if it has no case.
    pub fn of_tls(report: &crate::tls::Report) -> Result<Self, Error> {
        tls::page(report)
    }
}
