//! The tables and plots of the page about a measurement of `jeton-driver pipeline`.

use jeton_laboratory::figure::{UNUSABLE, WIDE, rate, ratio_text, time};
use jeton_laboratory::plots::{self, Mark, Series};
use jeton_laboratory::{Interval, Ratio, Table, distinct};

use super::{Block, Page, Section, facts};
use crate::pipeline::{Items, MeasuredBatch, STAGES, Turn};
use crate::report::{has_rsa_subscribers, rsa_keys};
use crate::results::Measurement;
use crate::selection::{IN_PROCESS, shown};
use crate::{Error, Result};

/// The batch sizes whose stages are shown side by side, if the store has them.
const SIZES: [u64; 2] = [64, 1024];
const TOTAL: &str = "total";
const SIGNING: [&str; 7] =
    ["ca_self_sign", "cert_gen", "cert_verify", "crl_sign", "crl_verify", "ocsp_sign", "ocsp_verify"];
/// Further stages in the comparison of algorithms: two whose time depends on the length of a
/// signature, and one whose time does not.
const SIZED: [&str; 3] = ["db_insert_certs", "db_insert_ocsp", "ocsp_build"];

pub(super) fn page(measurement: &Measurement<Turn>) -> Result<Page> {
    if !measurement.modules.iter().flat_map(|(_, batches)| batches).any(|batch| can_be_drawn(&batch.total)) {
        return Err(Error::Failed("the store has no measurement with a run".to_owned()));
    }
    let view = View::of(measurement);
    let mut sections = vec![modules(&view)?, signing(&view), algorithms(&view)?];
    if view.sizes.len() > 1 {
        sections.push(throughput(&view)?);
    }
    sections.extend(documents(measurement)?);
    sections.extend(view.algorithms.iter().map(|algorithm| stages(&view, algorithm)));
    Ok(Page { title: "Jeton: the PKI pipeline".to_owned(), facts: pipeline_facts(measurement), sections })
}

/// A measurement, and the modules, algorithms and batch sizes that it has.
struct View<'a> {
    measurement: &'a Measurement<Turn>,
    /// The baseline is the first.
    modules: Vec<&'a str>,
    algorithms: Vec<&'a str>,
    /// In ascending order.
    sizes: Vec<u64>,
}

impl<'a> View<'a> {
    fn of(measurement: &'a Measurement<Turn>) -> Self {
        let batches = || measurement.modules.iter().flat_map(|(_, batches)| batches);
        let mut sizes = distinct(batches().map(|batch| batch.size));
        sizes.sort_unstable();
        let mut modules = distinct(measurement.modules.iter().map(|(name, _)| name.as_str()));
        modules.sort_by_key(|module| *module != IN_PROCESS);
        Self {
            measurement,
            modules,
            algorithms: distinct(batches().map(|batch| batch.algorithm.as_str())),
            sizes,
        }
    }

    fn batch(&self, module: &str, algorithm: &str, size: u64) -> Option<&'a MeasuredBatch> {
        let (_, batches) = self.measurement.modules.iter().find(|(name, _)| name == module)?;
        batches.iter().find(|batch| batch.size == size && batch.algorithm == algorithm)
    }

    fn seconds(&self, module: &str, algorithm: &str, size: u64, stage: &str) -> Option<Interval> {
        let batch = self.batch(module, algorithm, size)?;
        let seconds = match STAGES.iter().position(|row| row.name == stage) {
            Some(index) => batch.seconds[index],
            None => batch.total,
        };
        Some(seconds).filter(can_be_drawn)
    }

    fn ratio(&self, module: &str, algorithm: &str, size: u64, stage: &str) -> Option<Ratio> {
        let batch = self.batch(module, algorithm, size)?;
        let ratio = match STAGES.iter().position(|row| row.name == stage) {
            Some(index) => batch.ratios[index],
            None => batch.total_ratio,
        };
        ratio.filter(|ratio| can_be_drawn(&ratio.quotient))
    }

    /// Returns a time, with the ratio or why there is none.
    fn cell(&self, module: &str, algorithm: &str, size: u64, stage: &str) -> String {
        let Some(seconds) = self.seconds(module, algorithm, size, stage) else { return missing() };
        let baseline = self.batch(IN_PROCESS, algorithm, size);
        let ratio = match (self.ratio(module, algorithm, size, stage), baseline) {
            _ if module == IN_PROCESS => return time(seconds.value),
            (Some(ratio), _) => ratio_text(ratio.quotient),
            (None, None) => "no baseline".to_owned(),
            (None, Some(baseline)) if baseline.spread > UNUSABLE => "disturbed".to_owned(),
            (None, Some(_)) => "no call".to_owned(),
        };
        format!("{} ({ratio})", time(seconds.value))
    }

    /// Returns a table with a column for each module and a row for each of `rows`: the cells below
    /// `names`, the algorithm and the stage.
    fn compared<'b>(
        &self,
        names: &[&str],
        size: u64,
        rows: impl Iterator<Item = (Vec<&'b str>, &'b str, &'b str)>,
    ) -> Block {
        let header = names.iter().copied().chain(self.modules.iter().map(|module| shown(module)));
        let mut table = Table::new(names.len(), header);
        for (label, algorithm, stage) in rows {
            let cells = self.modules.iter().map(|module| self.cell(module, algorithm, size, stage));
            table.add(label.into_iter().map(str::to_owned).chain(cells));
        }
        Block::Table(table)
    }

    fn per_second(&self, module: &str, algorithm: &str, size: u64, stage: &str) -> Option<f64> {
        let row = STAGES.iter().find(|row| row.name == stage)?;
        let items = match row.items {
            Items::Certificates => size,
            Items::One => 1,
        };
        Some(items as f64 / self.seconds(module, algorithm, size, stage)?.value)
    }

    fn largest(&self) -> u64 {
        self.sizes.last().copied().unwrap_or_default()
    }
}

/// Returns whether a time or a ratio is positive and within the range that a plot can show. A store
/// may come from another person.
fn can_be_drawn(one: &Interval) -> bool {
    [one.low, one.value, one.high].iter().all(|number| (1e-12..1e9).contains(number))
}

fn pipeline_facts(measurement: &Measurement<Turn>) -> Vec<(String, String)> {
    let pairs = match measurement.rsa_key_pool {
        0 => "a new pair for each certificate".to_owned(),
        pairs => format!("{pairs} pairs that a batch reuses"),
    };
    let modules = measurement.descriptions.iter().map(|(name, about)| (name.as_str(), about));
    let mut facts = facts(&measurement.about, &measurement.started, modules);
    facts.push(("Threads".to_owned(), measurement.threads.to_string()));
    facts.push(("RSA key pairs of subscribers".to_owned(), pairs));
    facts
}

/// Compares the modules: the time of all stages for each algorithm.
fn modules(view: &View<'_>) -> Result<Section> {
    let size = view.largest();
    let rows = view.algorithms.iter().map(|algorithm| (vec![*algorithm], *algorithm, TOTAL));
    let table = view.compared(&["algorithm"], size, rows);
    let modules = view.modules.iter().map(|module| (shown(module), plots::colour(module, &view.modules)));
    let plot = chart(
        format!("Time of all stages, batch of {size}"),
        ["algorithm of the CA", "seconds"],
        &view.algorithms,
        &modules.collect::<Vec<_>>(),
        |algorithm, at| Some(view.seconds(view.modules[at], algorithm, size, TOTAL)?.value),
    )?;
    let text = format!(
        "The time of the fifteen stages together for a batch of {size} certificates: the median of whole runs. In \
         parentheses: the ratio of the undisturbed times of the module and of the baseline (AWS-LC called \
         directly) in the same rounds; of the parts of a stage, those count that no other program slowed. A ~ \
         marks a ratio whose 95 % interval is wider than {:.0} % of it. Disturbed: the baseline's runs differ by \
         more than {:.0} %, because of other work. No call: the stage never calls the module.",
        WIDE * 100.0,
        UNUSABLE * 100.0
    );
    Ok(Section { title: "The modules".to_owned(), blocks: vec![Block::Text(text), plot, table] })
}

/// Compares the modules in the stages that sign or verify, for each algorithm.
fn signing(view: &View<'_>) -> Section {
    let size = view.largest();
    let row = |algorithm| SIGNING.map(|stage| (vec![algorithm, stage], algorithm, stage));
    let rows = view.algorithms.iter().copied().flat_map(row);
    let table = view.compared(&["algorithm", "stage"], size, rows);
    let blocks = vec![Block::Text(format!("A batch of {size}.")), table];
    Section { title: "Signatures and verifications".to_owned(), blocks }
}

/// Compares the times of the algorithms in one module: in Jeton, or in the first module if Jeton
/// was not measured.
fn algorithms(view: &View<'_>) -> Result<Section> {
    const SHOWN: [&str; 4] = ["cert_gen", "cert_verify", "ocsp_sign", "ocsp_verify"];
    let size = view.largest();
    let own = view.modules.iter().find(|module| **module == "jeton").or(view.modules.first());
    let module = own.copied().unwrap_or_default();
    let per_second = |algorithm: &str, stage: &str| view.per_second(module, algorithm, size, stage);
    let headers = SHOWN.map(|stage| format!("{stage} per second"));
    let rates = view.algorithms.iter().map(|algorithm| {
        let cells = SHOWN.map(|stage| per_second(algorithm, stage).map_or_else(missing, rate));
        ((*algorithm).to_owned(), cells)
    });
    let rates = Table::new(1, std::iter::once("algorithm".to_owned()).chain(headers)).with(rates);
    let colours = SHOWN.iter().enumerate().map(|(at, stage)| (*stage, plots::other_colour(at)));
    let plot = chart(
        format!("Items per second with {module}, batch of {size}"),
        ["algorithm of the CA", "items per second"],
        &view.algorithms,
        &colours.collect::<Vec<_>>(),
        |algorithm, at| per_second(algorithm, SHOWN[at]),
    )?;
    let stages = [&SIGNING[..], &SIZED].concat();
    let times = grid("stage", &stages, &view.algorithms, |stage, algorithm| {
        Some(time(view.seconds(module, algorithm, size, stage)?.value))
    });
    let text = format!("The time of each stage with {module}, batch of {size}:");
    let mut blocks = vec![plot, Block::Table(rates), Block::Text(text), times];
    if view.algorithms.iter().any(|algorithm| has_rsa_subscribers(algorithm)) {
        blocks.push(Block::Text(format!("RSA: {}", rsa_keys(view.measurement.rsa_key_pool))));
    }
    Ok(Section { title: "The algorithms".to_owned(), blocks })
}

/// Shows certificates per second over the batch size.
fn throughput(view: &View<'_>) -> Result<Section> {
    let plot = |algorithm: &&str| {
        let series = view.modules.iter().map(|module| {
            let point =
                |size: &u64| Some((*size as f64, view.per_second(module, algorithm, *size, "cert_gen")?));
            let points = view.sizes.iter().filter_map(point).collect();
            let colour = plots::colour(module, &view.modules);
            Series { name: shown(module).to_owned(), colour, mark: Mark::Line, points }
        });
        let series: Vec<_> = series.collect();
        Block::plot(format!("Certificates per second by batch size, {algorithm}"), |title| {
            plots::lines(
                title,
                ["certificates per batch", "certificates per second"],
                &plots::number,
                &series,
            )
        })
    };
    let blocks = view.algorithms.iter().map(plot).collect::<Result<_, _>>()?;
    Ok(Section { title: "Throughput over the batch size".to_owned(), blocks })
}

/// Shows the sizes of the signed documents, if the store has them.
fn documents(measurement: &Measurement<Turn>) -> Result<Option<Section>> {
    const KIND: &str = "certificate";
    let all = &measurement.documents;
    let algorithms = distinct(all.iter().map(|one| one.algorithm.as_str()));
    let kinds = distinct(all.iter().map(|one| one.kind.as_str()));
    if algorithms.is_empty() {
        return Ok(None);
    }
    let largest = |algorithm: &str, kind: &str| {
        all.iter().filter(|one| one.algorithm == algorithm && one.kind == kind).max_by_key(|one| one.size)
    };
    let table = grid("algorithm", &algorithms, &kinds, |algorithm, kind| {
        let one = largest(algorithm, kind)?;
        Some(match kind {
            "CRL" => format!("{} ({} entries)", one.bytes, one.size),
            _ => one.bytes.to_string(),
        })
    });
    let plot = chart(
        "Size of a certificate".to_owned(),
        ["algorithm of the CA", "bytes"],
        &algorithms,
        &[(KIND, plots::other_colour(1))],
        |algorithm, _| Some(largest(algorithm, KIND)?.bytes as f64),
    )?;
    let text = "Bytes of the longest document in DER, in the largest batch. The key of a certificate has the \
                algorithm of its CA, or the algorithm after the slash.";
    let blocks = vec![Block::Text(text.to_owned()), plot, table];
    Ok(Some(Section { title: "Sizes of the signed documents".to_owned(), blocks }))
}

/// Shows the stages of an algorithm with two batch sizes side by side.
fn stages(view: &View<'_>, algorithm: &str) -> Section {
    let measured = |size: &u64| {
        view.modules.iter().any(|module| view.seconds(module, algorithm, *size, TOTAL).is_some())
    };
    let mut sizes: Vec<_> = SIZES.into_iter().filter(measured).collect();
    if sizes.is_empty() {
        let there: Vec<_> = view.sizes.iter().copied().filter(measured).collect();
        sizes = there[there.len().saturating_sub(2)..].to_vec();
    }
    let mut blocks = Vec::new();
    for size in sizes {
        let stages = STAGES.iter().map(|row| row.name).chain([TOTAL]);
        let rows = stages.map(|stage| (vec![stage], algorithm, stage));
        blocks.push(Block::Text(format!("A batch of {size}:")));
        blocks.push(view.compared(&["stage"], size, rows));
    }
    if has_rsa_subscribers(algorithm) {
        blocks.push(Block::Text(format!("RSA: {}", rsa_keys(view.measurement.rsa_key_pool))));
    }
    Section { title: format!("Stages: {algorithm}"), blocks }
}

fn grid(first: &str, rows: &[&str], columns: &[&str], cell: impl Fn(&str, &str) -> Option<String>) -> Block {
    let row = |row: &&str| {
        let cells = columns.iter().map(|column| cell(row, column).unwrap_or_else(missing));
        ((*row).to_owned(), cells.collect::<Vec<_>>())
    };
    let header = std::iter::once(first).chain(columns.iter().copied());
    Block::Table(Table::new(1, header).with(rows.iter().map(row)))
}

/// Draws a set of points for each name of `all`, or a bar for each if there is one place only.
fn chart(
    title: String,
    axes: [&str; 2],
    places: &[&str],
    all: &[(&str, plots::RGBColor)],
    value: impl Fn(&str, usize) -> Option<f64>,
) -> Result<Block> {
    let is_single = places.len() == 1;
    let series = |(at, (name, colour)): (usize, &(&str, plots::RGBColor))| {
        let x = |place: usize| (if is_single { at } else { place }) as f64;
        let point = |(place, name): (usize, &&str)| Some((x(place), value(name, at)?));
        let points = places.iter().enumerate().filter_map(point).collect();
        let mark = if is_single { Mark::Bars } else { Mark::Dots };
        // A bar has its name below it.
        let name = if is_single { String::new() } else { (*name).to_owned() };
        Series { name, colour: *colour, mark, points }
    };
    let series: Vec<_> = all.iter().enumerate().map(series).collect();
    Block::plot(title, |title| {
        if is_single {
            let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
            plots::bars(title, [places[0], axes[1]], &names, &series)
        } else {
            plots::points(title, axes, places, &series)
        }
    })
}

fn missing() -> String {
    "-".to_owned()
}
