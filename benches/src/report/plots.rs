//! Draws the plots as SVG.
//!
//! They have no background. Text and axes are dark, or light in dark mode. A style sheet inside the
//! file follows the reader's mode, also if a page shows the file as an image.

use std::fs;
use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::data::Data;
use super::figures::per_second;
use super::tables::time;
use super::words;
use crate::names::{BASELINE, JETON, NULL, SOFTHSM, shown};

const SIZE: (u32, u32) = (960, 480);
const FONT: (&str, i32) = ("sans-serif", 14);
/// The style sheet of each plot.
const STYLE: &str = "<style>[fill=\"#000000\"]{fill:#1f2328}[stroke=\"#000000\"]{stroke:#1f2328}\
    @media(prefers-color-scheme:dark){[fill=\"#000000\"]{fill:#f0f6fc}[stroke=\"#000000\"]{stroke:#f0f6fc}}</style>";

/// The colour of each row in every plot. Jeton has the same colour in the plots of the tool. The
/// colours of SoftHSMv2, NSS and Kryoptic are from Okabe and Ito: people with red-green blindness
/// can distinguish them.
const COLOURS: [(&str, RGBColor); 9] = [
    (JETON, RGBColor(30, 136, 200)),
    ("jeton-rc", RGBColor(86, 170, 220)),
    ("core", RGBColor(110, 190, 190)),
    (NULL, RGBColor(60, 100, 160)),
    (BASELINE, RGBColor(128, 128, 128)),
    (SOFTHSM, RGBColor(213, 94, 0)),
    ("nss", RGBColor(0, 158, 115)),
    ("kryoptic", RGBColor(204, 121, 167)),
    ("craton", RGBColor(150, 110, 200)),
];
/// The colour of the modules that the environment variable `JETON_BENCH_MODULES` names.
const OTHER: RGBColor = RGBColor(200, 140, 0);

type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A line of a plot.
struct Series {
    name: String,
    colour: RGBColor,
    stroke: Stroke,
    points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stroke {
    Solid,
    Dashed,
}

/// Draws all plots into `directory`.
pub fn draw(data: &Data, directory: &Path) -> Result<(), String> {
    let drawn = overhead(data)
        .and_then(|text| save(&text, &directory.join("overhead.svg")))
        .and_then(|()| threads(data))
        .and_then(|text| save(&text, &directory.join("threads.svg")))
        .and_then(|()| searches(data))
        .and_then(|text| save(&text, &directory.join("search.svg")));
    drawn.map_err(|error| error.to_string())
}

fn save(svg: &str, path: &Path) -> Drawn {
    let end = svg.find("<svg").and_then(|start| Some(start + svg[start..].find('>')? + 1));
    let (head, rest) = svg.split_at(end.ok_or("no SVG")?);
    fs::write(path, [head, STYLE, rest].concat())?;
    Ok(())
}

/// Returns the colour of a row. The configurations of a module share one.
fn colour(row: &str) -> RGBColor {
    let module = row.strip_suffix("-session").unwrap_or(row);
    COLOURS.iter().find(|(name, _)| *name == module).map_or(OTHER, |(_, colour)| *colour)
}

/// Returns a dashed stroke for session keys and session objects.
fn stroke(name: &str) -> Stroke {
    if name.contains("session") { Stroke::Dashed } else { Stroke::Solid }
}

/// Plots the time of each operation, divided by the time of the baseline.
fn overhead(data: &Data) -> Drawn<String> {
    let prefixes =
        ["sign/", "verify/", "kem/", "aes-gcm", "chacha20", "sha256/", "sha512/", "hmac-sha256/", "random/"];
    // The first operation is at the top.
    let mut groups: Vec<_> = prefixes.iter().flat_map(|prefix| data.groups(prefix)).collect();
    groups.reverse();
    let rows = rows_among(data, &groups);
    let rows: Vec<_> = rows.into_iter().filter(|row| *row == JETON || data.is_peer(row)).collect();
    let mut svg = String::new();
    {
        let size = (SIZE.0, 90 + 22 * groups.len().max(1) as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let right_edge = 2000.0;
        let mut chart = ChartBuilder::on(&root)
            .caption("Time of each operation, compared with AWS-LC called directly", ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(220)
            .build_cartesian_2d((0.7f64..right_edge).log_scale(), -0.5..groups.len() as f64 - 0.5)?;
        let name = |at: &f64| {
            let whole = (at - at.round()).abs() < 0.01;
            let group = usize::try_from(at.round() as i64).ok().and_then(|at| groups.get(at));
            group.filter(|_| whole).map_or(String::new(), |group| words::operation(group))
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .y_labels(groups.len() * 2 + 1)
            .y_label_formatter(&name)
            .x_label_formatter(&|times| format!("{times:.0}"))
            .x_desc("time divided by the baseline's time (1 = equal); no point: not measured")
            .label_style(FONT)
            .axis_desc_style(FONT)
            .draw()?;
        for row in rows {
            let points = groups
                .iter()
                .enumerate()
                .filter_map(|(at, group)| Some((data.times(group, row)?.min(right_edge), at as f64)));
            let style = match stroke(row) {
                Stroke::Solid => colour(row).filled(),
                Stroke::Dashed => colour(row).stroke_width(2),
            };
            chart
                .draw_series(points.map(|point| Circle::new(point, 4, style)))?
                .label(shown(row))
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, style));
        }
        chart.draw_series(std::iter::once(PathElement::new(
            vec![(1.0, -0.5), (1.0, groups.len() as f64 - 0.5)],
            BLACK,
        )))?;
        chart.configure_series_labels().label_font(FONT).border_style(BLACK.mix(0.3)).draw()?;
        root.present()?;
    }
    Ok(svg)
}

/// Plots the signatures per second by number of threads.
fn threads(data: &Data) -> Drawn<String> {
    let groups = data.groups("threads/p256/");
    let rows = rows_among(data, &groups);
    let series: Vec<Series> = rows
        .into_iter()
        .filter(|row| *row != NULL)
        .map(|row| {
            let point = |group: &&str| Some((size_of(group)?, per_second(data, group, row)?));
            series(row, shown(row).to_owned(), groups.iter().filter_map(point).collect())
        })
        .collect();
    let top = highest(&series) * 1.1;
    lines(
        "P-256 signatures per second",
        ["threads, each with its own session", "signatures per second"],
        series,
        (0.9f64..70.0).log_scale(),
        0.0..top,
        &|rate| format!("{:.0} k", rate / 1e3),
    )
}

/// Plots the time of a search by label, by number of objects.
fn searches(data: &Data) -> Drawn<String> {
    let mut all: Vec<Series> = Vec::new();
    for home in ["token", "session"] {
        let prefix = format!("search/{home}/label/");
        let groups = data.groups(&prefix);
        all.extend(rows_among(data, &groups).into_iter().filter(|row| *row != "core").map(|row| {
            let point = |group: &&str| Some((size_of(group)?, data.row(group, row)?.median));
            let points = groups.iter().filter_map(point).collect();
            series(row, format!("{row}, {home} objects"), points)
        }));
    }
    let top = highest(&all).max(1e4) * 2.0;
    lines(
        "Time of one search by label",
        ["objects in the token", "time of one search"],
        all,
        (8f64..1.3e6).log_scale(),
        (100f64..top).log_scale(),
        &|nanos| time(*nanos),
    )
}

fn series(row: &str, name: String, mut points: Vec<(f64, f64)>) -> Series {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Series { colour: colour(row), stroke: stroke(&name), name, points }
}

fn lines<X, Y>(
    title: &str,
    axes: [&str; 2],
    series: Vec<Series>,
    x: X,
    y: Y,
    label: &dyn Fn(&f64) -> String,
) -> Drawn<String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(90)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(axes[0])
            .y_desc(axes[1])
            .label_style(FONT)
            .axis_desc_style(FONT)
            .y_label_formatter(&label)
            .x_label_formatter(&|count| words::thousands(*count))
            .draw()?;
        for Series { name, colour, stroke, points } in series {
            let style = colour.stroke_width(2);
            let marks = points.clone().into_iter().map(|point| Circle::new(point, 3, colour.filled()));
            chart.draw_series(marks)?;
            let drawn = match stroke {
                Stroke::Solid => chart.draw_series(LineSeries::new(points, style))?,
                Stroke::Dashed => chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?,
            };
            drawn.label(name).legend(move |(x, y)| match stroke {
                Stroke::Solid => PathElement::new(vec![(x, y), (x + 16, y)], style),
                Stroke::Dashed => PathElement::new(vec![(x, y), (x + 6, y)], style),
            });
        }
        chart.configure_series_labels().label_font(FONT).border_style(BLACK.mix(0.3)).draw()?;
        root.present()?;
    }
    Ok(svg)
}

/// Returns the rows of all groups, without the second row of the baseline.
fn rows_among<'a>(data: &'a Data, groups: &[&str]) -> Vec<&'a str> {
    let mut rows = Vec::new();
    for (row, _) in groups.iter().flat_map(|group| data.rows(group)) {
        if !rows.contains(&row) && row != crate::names::BASELINE_AGAIN {
            rows.push(row);
        }
    }
    rows
}

/// Returns the number at the end of a group's name.
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
    fn jeton_and_both_configurations_of_a_peer_keep_their_colour() {
        assert_eq!(colour(JETON), RGBColor(30, 136, 200));
        assert_eq!(colour("softhsm2-session"), colour("softhsm2"));
        assert_eq!(colour("unknown"), OTHER);
    }

    #[test]
    fn every_plot_has_labels_on_its_axes_and_follows_dark_mode() {
        let data = Data::of(&[
            ("search/token/label/10", JETON, 700.0),
            ("search/token/label/1000", JETON, 790.0),
            ("sign/p256", JETON, 12.0),
        ]);
        let directory = tempfile::tempdir().expect("a directory");
        draw(&data, directory.path()).expect("three plots");
        for (file, label) in [
            ("search.svg", "objects in the token"),
            ("threads.svg", "signatures per second"),
            ("overhead.svg", "P-256 sign"),
        ] {
            let text = fs::read_to_string(directory.path().join(file)).expect("a plot");
            assert!(text.contains(label), "{file}: {text}");
            assert!(text.contains("prefers-color-scheme:dark") && !text.contains("#FFFFFF"), "{file}");
        }
    }
}
