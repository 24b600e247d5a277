//! Draws the plots as SVG.

use std::path::Path;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::data::Data;
use super::figures::per_second;
use super::tables::time;
use crate::names::{JETON, NULL, shown};

const SIZE: (u32, u32) = (960, 480);
/// Colours that people with red-green blindness can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
    RGBColor(0, 158, 115),
    RGBColor(90, 90, 90),
    RGBColor(213, 94, 0),
    RGBColor(240, 228, 66),
];

type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;
/// A line of a plot: its name and its points.
type Series = (String, Vec<(f64, f64)>);

/// Draws all plots into `directory`.
pub fn draw(data: &Data, directory: &Path) -> Result<(), String> {
    let drawn = overhead(data, &directory.join("overhead.svg"))
        .and_then(|()| threads(data, &directory.join("threads.svg")))
        .and_then(|()| searches(data, &directory.join("search.svg")));
    drawn.map_err(|error| error.to_string())
}

/// The time of each operation relative to the baseline; 1 is the baseline.
fn overhead(data: &Data, path: &Path) -> Drawn {
    let prefixes = ["sign/", "verify/", "kem/", "aes-gcm/", "sha256/", "hmac-sha256/", "random/"];
    let groups: Vec<_> = prefixes.iter().flat_map(|prefix| data.groups(prefix)).collect();
    let rows = rows_among(data, &groups);
    let rows: Vec<_> = rows.into_iter().filter(|row| *row == JETON || data.is_peer(row)).collect();
    let root = SVGBackend::new(path, (SIZE.0, 40 + 22 * groups.len().max(1) as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("time relative to AWS-LC called directly (1 = equal)", ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(170)
        .build_cartesian_2d((0.7f64..200.0).log_scale(), -0.5..groups.len() as f64 - 0.5)?;
    let name = |at: &f64| {
        let whole = (at - at.round()).abs() < 0.01;
        let group = usize::try_from(at.round() as i64).ok().and_then(|at| groups.get(at));
        group.filter(|_| whole).map_or(String::new(), |group| (*group).to_owned())
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(groups.len() * 2 + 1)
        .y_label_formatter(&name)
        .x_label_formatter(&|times| format!("{times:.0}"))
        .draw()?;
    for (row, colour) in rows.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<_> = groups
            .iter()
            .enumerate()
            .filter_map(|(at, group)| Some((data.times(group, row)?, at as f64)))
            .collect();
        let colour = *colour;
        chart
            .draw_series(points.into_iter().map(|point| Circle::new(point, 4, colour.filled())))?
            .label(shown(row))
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
    }
    chart.draw_series(std::iter::once(PathElement::new(
        vec![(1.0, -0.5), (1.0, groups.len() as f64 - 0.5)],
        BLACK,
    )))?;
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
}

/// Signatures per second by number of threads.
fn threads(data: &Data, path: &Path) -> Drawn {
    let groups = data.groups("threads/p256/");
    let rows = rows_among(data, &groups);
    let series: Vec<Series> = rows
        .into_iter()
        .filter(|row| *row != NULL)
        .map(|row| {
            let point = |group: &&str| Some((size_of(group)?, per_second(data, group, row)?));
            (row.to_owned(), sorted(groups.iter().filter_map(point).collect()))
        })
        .collect();
    let top = highest(&series) * 1.1;
    lines(
        path,
        "P-256 signatures per second by number of threads, one session each",
        series,
        (0.9f64..70.0).log_scale(),
        0.0..top,
        &|rate| format!("{:.0} k", rate / 1e3),
    )
}

/// Time of a search by label, by number of objects.
fn searches(data: &Data, path: &Path) -> Drawn {
    let mut series: Vec<Series> = Vec::new();
    for home in ["session", "token"] {
        let prefix = format!("search/{home}/label/");
        let groups = data.groups(&prefix);
        series.extend(rows_among(data, &groups).into_iter().map(|row| {
            let point = |group: &&str| Some((size_of(group)?, data.row(group, row)?.median));
            (format!("{row}, {home} objects"), sorted(groups.iter().filter_map(point).collect()))
        }));
    }
    let top = highest(&series).max(1e4) * 2.0;
    lines(
        path,
        "time of one search by label, by number of objects",
        series,
        (8f64..1.3e6).log_scale(),
        (100f64..top).log_scale(),
        &|nanos| time(*nanos),
    )
}

fn lines<X, Y>(
    path: &Path,
    title: &str,
    series: Vec<Series>,
    x: X,
    y: Y,
    label: &dyn Fn(&f64) -> String,
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(80)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .y_label_formatter(&label)
        .x_label_formatter(&|count| format!("{count:.0}"))
        .draw()?;
    for ((row, points), colour) in series.into_iter().zip(COLOURS.iter().cycle()) {
        let colour = *colour;
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
            .label(shown(&row))
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    root.present()?;
    Ok(())
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

fn sorted(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn highest(series: &[Series]) -> f64 {
    series.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(1.0, f64::max)
}
