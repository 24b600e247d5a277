//! The page of a measurement of `jeton-driver issue`.

use jeton_laboratory::Table;
use jeton_laboratory::plots::{self, Mark, Series};

use super::{Block, Page, Section, facts};
use crate::Error;
use crate::issuance::{Load, LoadTurn, Metric, document_tables, tables, tables_of};
use crate::results::Measurement;
use crate::selection::shown;

/// Builds the page. Fails if the measurement has no run.
pub(super) fn page(measurement: &Measurement<LoadTurn>) -> Result<Page, Error> {
    let about = &measurement.about;
    let plans = if about.command.iter().any(|word| word == "--all-tables") {
        document_tables()
    } else {
        tables_of(loads(measurement).cloned().collect())
    };
    let modules: Vec<_> =
        measurement.modules.iter().map(|(name, loads)| (name.as_str(), loads.as_slice())).collect();
    let all = tables(&plans, &modules, about.machine.cores);
    if all.is_empty() {
        return Err(Error::Failed("the store has no measurement with a run".to_owned()));
    }
    let mut sections = vec![scaling(measurement)?];
    for table in all {
        let mut blocks: Vec<Block> = table.remarks.iter().cloned().map(Block::Text).collect();
        let columns = table.columns.iter().map(|text| text.replace('\n', " ").trim().to_owned());
        let mut all = Table::new(2, [table.label.clone(), "module".to_owned()].into_iter().chain(columns));
        for row in table.rows {
            all.add([row.label, row.module].into_iter().chain(row.cells));
        }
        blocks.push(Block::Table(all));
        sections.push(Section { title: table.title, blocks });
    }
    let descriptions = measurement.descriptions.iter().map(|(name, about)| (name.as_str(), about));
    let facts = facts(about, Some(&measurement.started), descriptions);
    Ok(Page { title: "Jeton: issuance under load".to_owned(), facts, sections })
}

/// Returns the loads of the first module, which is the baseline unless the store was changed.
fn loads(measurement: &Measurement<LoadTurn>) -> impl Iterator<Item = &Load> {
    measurement.modules.iter().take(1).flat_map(|(_, loads)| loads).map(|one| &one.load)
}

/// Shows certificates per second over the number of clients. Uses the loads that differ from the
/// first load only in the number of clients.
fn scaling(measurement: &Measurement<LoadTurn>) -> Result<Section, Error> {
    let first = loads(measurement).next();
    let same =
        |load: &Load| first.is_some_and(|first| Load { clients: first.clients, ..load.clone() } == *first);
    let names: Vec<&str> = measurement.modules.iter().map(|(name, _)| name.as_str()).collect();
    let series: Vec<_> = measurement
        .modules
        .iter()
        .map(|(name, loads)| {
            let points = loads.iter().filter(|one| same(&one.load));
            let mut points: Vec<_> =
                points.map(|one| (one.load.clients as f64, one.median(Metric::Throughput))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            Series {
                name: shown(name).to_owned(),
                colour: plots::colour(name, &names),
                mark: Mark::Line,
                points,
            }
        })
        .collect();
    let what = first.map(|load| format!(", keys {}, CA key {}", load.key_type, load.ca_key_type));
    let title = format!("Certificates per second by clients{}", what.unwrap_or_default());
    let plot = Block::plot(title, |title| {
        plots::lines(title, ["clients", "certificates per second"], &plots::number, &series)
    })?;
    Ok(Section { title: "Scaling".to_owned(), blocks: vec![plot] })
}
