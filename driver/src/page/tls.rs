//! The page of a measurement of `jeton-driver tls`.

use jeton_laboratory::plots::{self, Mark, Series};

use super::{Block, Page, Section};
use crate::tls::{MeasuredCase, case_name, explanation, tables, threads};
use crate::{Error, Result};

pub(super) fn page(facts: Vec<(String, String)>, all: &[&MeasuredCase]) -> Result<Page> {
    let mut sections = Vec::new();
    for threads in threads(all) {
        let cases: Vec<_> = all.iter().copied().filter(|one| one.case.threads == threads).collect();
        sections.push(section(threads, &cases)?);
    }
    if sections.is_empty() {
        return Err(Error::Failed("no case was measured".to_owned()));
    }
    Ok(Page { title: "Jeton: TLS handshakes".to_owned(), facts, sections })
}

fn section(threads: usize, cases: &[&MeasuredCase]) -> Result<Section> {
    let text = format!(
        "{} client: the client's rate (median). p50 to p99.9: the server's time for one handshake.",
        explanation(cases)
    );
    let mut blocks = vec![Block::Text(text)];
    blocks.extend(tables(cases).map(Block::Table));
    for case in cases {
        blocks.push(latency(threads, case)?);
    }
    let plural = if threads == 1 { "thread" } else { "threads" };
    Ok(Section { title: format!("{threads} {plural}"), blocks })
}

fn latency(threads: usize, case: &MeasuredCase) -> Result<Block> {
    let title = format!("Latency of {}, threads: {threads}", case_name(case));
    let microseconds = |points: &[(f64, f64)]| points.iter().map(|(x, y)| (*x, y * 1e6)).collect();
    let series = [
        ("key in memory", plots::MEMORY, &case.memory.latency.curve),
        ("key in the token", plots::JETON, &case.token.latency.curve),
    ];
    let series = series.map(|(name, colour, curve)| Series {
        name: name.to_owned(),
        colour,
        mark: Mark::Line,
        points: microseconds(curve),
    });
    let names = ["percentile of the handshakes", "microseconds"];
    Block::plot(title, |title| plots::lines(title, names, &percentile, &series))
}

/// Returns the percentile that one in `number` handshakes exceeds: p99 for 100.
fn percentile(number: &f64) -> String {
    match *number {
        number if number < 1.5 => "fastest".to_owned(),
        number => format!("p{}", (100.0 - 100.0 / number) as f32),
    }
}
