//! The libraries take turns with the same certificates. A ratio compares turns of the same round.

use std::time::Instant;

use jeton_laboratory::Interval;
use serde::Serialize;

use super::build::{Builders, REVOKED};
use super::library::{LIBRARIES, Library, OURS};
use super::set::{Choice, sets};
use crate::Error;

/// The smallest number of rounds that has a 95 % interval.
const MIN_ROUNDS: usize = 6;
/// The planned length of a turn in seconds.
const TURN: f64 = 0.01;

/// The result of a set, or of a document that is built.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredSet {
    /// The name of the set or of the document.
    pub name: String,
    /// The number of certificates, or of documents that are built.
    pub count: usize,
    /// The median of their lengths in bytes.
    pub bytes: usize,
    /// The number of chains that were verified.
    pub chains: Option<usize>,
    /// The libraries and their operations.
    pub rows: Vec<Row>,
}

/// An operation of a library.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The library.
    pub library: &'static str,
    /// `parse`, `fields`, `parts` or `build`.
    pub operation: &'static str,
    /// The number of items that the library refuses.
    pub refused: usize,
    /// The number of rounds.
    pub rounds: usize,
    /// Seconds for one item.
    pub seconds: Interval,
    /// The seconds divided by those of the baseline in the same round. `None` for the baseline.
    pub ratio: Option<Interval>,
}

/// Measures the sets of these choices, and the building of documents.
pub fn measure(
    choices: &[Choice],
    min_seconds: f64,
    begins: &mut dyn FnMut(&str),
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<MeasuredSet>, Error> {
    let mut results = Vec::new();
    for choice in choices {
        begins(&format!("{choice:?}: making the certificates"));
        for set in sets(*choice)? {
            if interrupted() {
                return Ok(results);
            }
            begins(&set.name);
            let all = &set.certificates;
            let mut rows = Vec::new();
            for operation in ["parse", "fields", "parts"] {
                // `black_box` is in the libraries' functions.
                let works = LIBRARIES.iter().filter_map(|library| {
                    let work: fn(&Library, &[u8]) -> bool = match operation {
                        "parse" => |library, der| (library.parse)(der),
                        "fields" => |library, der| (library.fields)(der) > 0,
                        _ => {
                            library.parts?;
                            |library, der| library.parts.is_some_and(|parts| parts(der) > 0)
                        }
                    };
                    let work = move || Ok(all.iter().filter(|der| !work(library, der)).count());
                    Some((library.name, Box::new(work) as Work<'_>))
                });
                rows.extend(turns(
                    operation,
                    all.len(),
                    &works.collect::<Vec<_>>(),
                    min_seconds,
                    interrupted,
                )?);
            }
            let mut lengths: Vec<_> = all.iter().map(Vec::len).collect();
            lengths.sort_unstable();
            let bytes = lengths[lengths.len() / 2];
            results.push(MeasuredSet { name: set.name, count: all.len(), bytes, chains: set.chains, rows });
        }
    }
    if !interrupted() {
        begins("CRLs and OCSP responses");
        results.extend(build(min_seconds, interrupted)?);
    }
    Ok(results)
}

fn build(min_seconds: f64, interrupted: &dyn Fn() -> bool) -> Result<[MeasuredSet; 2], Error> {
    let builders = Builders::new()?;
    let builders = &builders;
    let crl: [(_, Work<'_>); 2] = [
        (OURS, Box::new(|| builders.own_crl().map(|_| 0))),
        ("synta-certificate", Box::new(|| builders.synta_crl().map(|_| 0))),
    ];
    let ocsp: [(_, Work<'_>); 2] = [
        ("x509-ocsp", Box::new(|| builders.own_ocsp().map(|_| 0))),
        ("synta-certificate", Box::new(|| builders.synta_ocsp().map(|_| 0))),
    ];
    let set = |name: String, bytes, rows| MeasuredSet { name, count: 1, bytes, chains: None, rows };
    Ok([
        set(
            format!("crl of {REVOKED}"),
            builders.own_crl()?.len(),
            turns("build", 1, &crl, min_seconds, interrupted)?,
        ),
        set(
            "ocsp".to_owned(),
            builders.own_ocsp()?.len(),
            turns("build", 1, &ocsp, min_seconds, interrupted)?,
        ),
    ])
}

/// Reads or builds all items once. Returns the number of items that the library refuses.
type Work<'a> = Box<dyn Fn() -> Result<usize, Error> + 'a>;

/// Measures the work of several libraries. The first one is the baseline.
fn turns(
    operation: &'static str,
    items: usize,
    works: &[(&'static str, Work<'_>)],
    min_seconds: f64,
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<Row>, Error> {
    let start = Instant::now();
    let refused = works.iter().map(|(_, work)| work()).collect::<Result<Vec<_>, _>>()?;
    let once = start.elapsed().as_secs_f64() / works.len() as f64;
    let turn = TURN.min(min_seconds / MIN_ROUNDS as f64);
    // The clamp returns a number from 1 to 100,000, which fits in a `usize`.
    let repeats = (turn / once).clamp(1.0, 1e5) as usize;
    let mut seconds: Vec<Vec<f64>> = works.iter().map(|_| Vec::new()).collect();
    let began = Instant::now();
    for round in 0.. {
        let enough = began.elapsed().as_secs_f64() >= min_seconds * works.len() as f64;
        if (round >= MIN_ROUNDS && enough) || (round > 0 && interrupted()) {
            break;
        }
        for turn in 0..works.len() {
            // The first library of a round differs from that of the round before.
            let index = (round + turn) % works.len();
            let start = Instant::now();
            for _ in 0..repeats {
                (works[index].1)()?;
            }
            seconds[index].push(start.elapsed().as_secs_f64() / (repeats * items) as f64);
        }
    }
    let rows = works.iter().zip(&seconds).zip(refused).enumerate().filter_map(|(index, parts)| {
        let (((library, _), own), refused) = parts;
        let ratios = own.iter().zip(&seconds[0]).map(|(own, baseline)| own / baseline).collect();
        let ratio = if index == 0 { None } else { Interval::of(ratios) };
        let seconds = Interval::of(own.clone())?;
        Some(Row { library, operation, refused, rounds: own.len(), seconds, ratio })
    });
    Ok(rows.collect())
}
