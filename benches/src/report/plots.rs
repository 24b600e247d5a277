//! Draws the plots of the page.

use std::fs;
use std::path::Path;

use jeton_laboratory::distinct;
use jeton_laboratory::figure::nanoseconds as time;
use jeton_laboratory::plots::{self, Axis, Mark, Plot, Series, standalone};

use super::data::Data;
use super::words;
use crate::names::{BASELINE, BASELINE_AGAIN, JETON, NULL, shown};

const SIZE: (u32, u32) = (960, 520);

pub fn draw(data: &Data, directory: &Path) -> Result<(), String> {
    for (name, plot) in [("overhead", overhead(data)), ("threads", threads(data)), ("search", searches(data))]
    {
        let path = directory.join(name).with_extension("svg");
        fs::write(&path, standalone(&plot?)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Plots the time of each operation, divided by the time of the baseline.
fn overhead(data: &Data) -> Result<String, String> {
    const RIGHT_EDGE: f64 = 2000.0;
    let prefixes =
        ["sign/", "verify/", "kem/", "aes-gcm", "chacha20", "sha256/", "sha512/", "hmac-sha256/", "random/"];
    // The first operation is at the top.
    let mut groups: Vec<_> = prefixes.iter().flat_map(|prefix| data.groups(prefix)).collect();
    groups.reverse();
    let rows = rows_among(data, &groups).into_iter().filter(|row| *row == JETON || data.is_peer(row));
    let mut all: Vec<_> = rows
        .map(|row| {
            let point =
                |(at, group): (usize, &&str)| Some((data.times(group, row)?.min(RIGHT_EDGE), at as f64));
            let mark = if row.contains("session") { Mark::Rings } else { Mark::Dots };
            Series { mark, ..series(row, &legend(row), groups.iter().enumerate().filter_map(point)) }
        })
        .collect();
    let ends = [(1.0, -0.5), (1.0, groups.len() as f64 - 0.5)].into_iter();
    all.push(Series { mark: Mark::Rule, ..series("", "", ends) });
    let names: Vec<_> = groups.iter().map(|group| words::operation(group)).collect();
    let x = Axis {
        name: "time divided by the baseline's time (1 = equal); no point: not measured",
        range: plots::log_scale(0.7..RIGHT_EDGE),
        label: &|times| format!("{times:.0}"),
        labels: None,
        grid: true,
        room: 48,
    };
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    let (label, room) = (plots::name_at(&names), 20 + 6 * longest as u32);
    let y =
        Axis { name: "", range: plots::Places(names.len()), label: &label, labels: None, grid: false, room };
    let title = "Time of each operation, compared with AWS-LC called directly";
    let size = (SIZE.0, 140 + 22 * groups.len().max(1) as u32);
    plots::draw(Plot { title, caption: true, size }, x, y, &all)
}

fn threads(data: &Data) -> Result<String, String> {
    let groups = data.groups("threads/p256/");
    let rows = rows_among(data, &groups).into_iter().filter(|row| *row != NULL);
    let all: Vec<_> = rows
        .map(|row| {
            let point = |group: &&str| Some((size_of(group)?, data.per_second(group, row)?));
            series(row, &legend(row), groups.iter().filter_map(point))
        })
        .collect();
    let y = Axis {
        name: "signatures per second",
        range: 0.0..highest(&all) * 1.1,
        label: &|rate| format!("{:.0} k", rate / 1e3),
        labels: None,
        grid: true,
        room: 90,
    };
    let x = counts("threads, each with its own session", 0.9..70.0, &all);
    plots::draw(captioned("P-256 signatures per second"), x, y, &all)
}

/// Plots the time of a search by label, by number of objects.
fn searches(data: &Data) -> Result<String, String> {
    let mut all: Vec<Series> = Vec::new();
    for home in ["token", "session"] {
        let groups = data.groups(&format!("search/{home}/label/"));
        all.extend(rows_among(data, &groups).into_iter().map(|row| {
            let point = |group: &&str| Some((size_of(group)?, data.row(group, row)?.median));
            series(row, &format!("{row}, {home} objects"), groups.iter().filter_map(point))
        }));
    }
    let y = Axis {
        name: "time of one search",
        range: plots::log_scale(100.0..highest(&all).max(1e4) * 2.0),
        label: &|nanos| time(*nanos),
        labels: None,
        grid: true,
        room: 90,
    };
    let x = counts("objects in the token", 8.0..1.3e6, &all);
    plots::draw(captioned("Time of one search by label"), x, y, &all)
}

fn captioned(title: &str) -> Plot<'_> {
    Plot { title, caption: true, size: SIZE }
}

/// Returns a logarithmic x axis of whole numbers, with a label for each number of the series.
fn counts<'a>(name: &'a str, range: std::ops::Range<f64>, series: &[Series]) -> Axis<'a, plots::LabelledLog> {
    let mut numbers: Vec<f64> = series.iter().flat_map(|one| &one.points).map(|point| point.0).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let label = &|count: &f64| words::thousands(*count);
    Axis { name, range: plots::log_scale_at(range, numbers), label, labels: None, grid: true, room: 48 }
}

/// Returns a series in the colour of its row. The configurations of a module share one. Those with
/// session keys or session objects have dashes.
fn series(row: &str, name: &str, points: impl Iterator<Item = (f64, f64)>) -> Series {
    let mut points: Vec<_> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let colour = plots::colour(row.strip_suffix("-session").unwrap_or(row), &[]);
    let mark = if name.contains("session") { Mark::Dashes } else { Mark::Line };
    Series { name: name.to_owned(), colour, mark, points }
}

fn legend(row: &str) -> String {
    if row == BASELINE { "AWS-LC".to_owned() } else { shown(row).replace("-session", ", session keys") }
}

/// Returns the rows of all groups, without the second row of the baseline.
fn rows_among<'a>(data: &'a Data, groups: &[&str]) -> Vec<&'a str> {
    let rows = groups.iter().flat_map(|group| data.rows(group)).map(|(row, _)| row);
    distinct(rows.filter(|row| *row != BASELINE_AGAIN))
}

fn size_of(group: &str) -> Option<f64> {
    group.rsplit('/').next()?.parse().ok()
}

fn highest(series: &[Series]) -> f64 {
    series.iter().flat_map(|one| &one.points).map(|point| point.1).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plot_has_labels_on_its_axes_and_follows_dark_mode() {
        let data = Data::of(&[
            ("search/token/label/10", JETON, 700.0),
            ("search/token/label/1000", JETON, 790.0),
            ("sign/p256", JETON, 12.0),
            ("threads/p256/1", BASELINE, 12.0),
        ]);
        let directory = tempfile::tempdir().expect("a directory");
        draw(&data, directory.path()).expect("three plots");
        for (file, label) in [
            ("search.svg", "objects in the token"),
            ("threads.svg", "signatures per second"),
            ("threads.svg", "AWS-LC"),
            ("overhead.svg", "P-256 sign"),
        ] {
            let text = fs::read_to_string(directory.path().join(file)).expect("a plot");
            assert!(text.contains(label), "{file}: {text}");
            assert!(text.contains("prefers-color-scheme:dark") && !text.contains("#FFFFFF"), "{file}");
        }
    }
}
