//! Draws the plots of a page as SVG elements.
//!
//! A plot has no background. Its text, its axes and its grid are black. The page replaces black
//! with its own text colour ([`STYLE`]), which differs between light and dark mode.

use std::ops::Range;

use plotters::prelude::*;

use crate::Error;

/// The CSS rules that replace black in a plot with the text colour of the page.
pub(super) const STYLE: &str =
    "[fill=\"#000000\"]{fill:currentColor}[stroke=\"#000000\"]{stroke:currentColor}";

/// The colour of Jeton in every plot.
pub(super) const JETON: RGBColor = RGBColor(30, 136, 200);
/// The colour of AWS-LC called directly, and of keys in memory.
pub(super) const MEMORY: RGBColor = RGBColor(128, 128, 128);
/// The colours of the other modules that the tool knows, and of the baseline.
const KNOWN: [(&str, RGBColor); 7] = [
    ("in-process", MEMORY),
    ("softhsm2", RGBColor(213, 94, 0)),
    ("nss", RGBColor(0, 158, 115)),
    ("jeton-rc", RGBColor(86, 170, 220)),
    ("openssl", RGBColor(200, 140, 0)),
    ("kryoptic", RGBColor(204, 121, 167)),
    ("craton", RGBColor(150, 110, 200)),
];
/// The colours of other modules and series. Four known modules have the same colours. Most colours
/// are close to the palette of Okabe and Ito, which people with red-green blindness can
/// distinguish. All are visible on white and on black.
const OTHERS: [RGBColor; 4] =
    [RGBColor(204, 121, 167), RGBColor(200, 140, 0), RGBColor(86, 170, 220), RGBColor(150, 110, 200)];

const SIZE: (u32, u32) = (860, 400);
const FONT: (&str, i32) = ("sans-serif", 14);
/// The largest number of names that are readable below a plot.
const NAMED: usize = 24;

/// A set of points with a name.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) colour: RGBColor,
    pub(super) points: Vec<(f64, f64)>,
}

/// A logarithmic axis of [`lines`].
pub(super) struct Axis {
    pub(super) name: &'static str,
}

/// Returns the colour of a module. `all` are the modules of the page.
pub(super) fn colour(module: &str, all: &[&str]) -> RGBColor {
    if module == "jeton" {
        return JETON;
    }
    if let Some((_, colour)) = KNOWN.iter().find(|(name, _)| *name == module) {
        return *colour;
    }
    other_colour(all.iter().position(|one| *one == module).unwrap_or_default())
}

/// Returns a colour for a module that the tool does not know, or for a series that is not a module.
pub(super) fn other_colour(index: usize) -> RGBColor {
    OTHERS[index % OTHERS.len()]
}

/// Draws lines. Both axes are logarithmic.
pub(super) fn lines(title: &str, axes: [Axis; 2], series: &[Series]) -> Result<String, Error> {
    let x = around(series.iter().flat_map(|one| &one.points).map(|point| point.0), 1.3);
    let y = around(series.iter().flat_map(|one| &one.points).map(|point| point.1), 2.0);
    let [x_axis, y_axis] = axes;
    draw(title, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(80)
            .build_cartesian_2d(x.log_scale(), y.log_scale())?;
        chart
            .configure_mesh()
            .x_desc(x_axis.name)
            .y_desc(y_axis.name)
            .label_style(FONT)
            .axis_desc_style(FONT)
            .x_label_formatter(&number)
            .y_label_formatter(&number)
            .draw()?;
        for one in series {
            let colour = one.colour;
            chart
                .draw_series(
                    LineSeries::new(one.points.iter().copied(), colour.stroke_width(2)).point_size(4),
                )?
                .label(plain(&one.name))
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(3)));
        }
        legend(&mut chart)
    })
}

/// Draws points. The x axis shows `names`; the y axis is logarithmic.
pub(super) fn points(
    title: &str,
    x_name: &str,
    y_name: &str,
    names: &[&str],
    series: &[Series],
) -> Result<String, Error> {
    let y = around(series.iter().flat_map(|one| &one.points).map(|point| point.1), 2.5);
    let name = |at: &f64| {
        let is_whole = (at - at.round()).abs() < 0.01 && *at > -0.01;
        // The axis has few names; the conversion of a small positive number is exact.
        let name = names.get(at.round().max(0.0) as usize).filter(|_| is_whole && names.len() <= NAMED);
        name.map(|name| plain(name)).unwrap_or_default()
    };
    // Room for the legend on the left.
    let count = names.len() as f64;
    let left = -0.5 - 0.2 * count;
    draw(title, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(80)
            .build_cartesian_2d(left..count - 0.5, y.log_scale())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(names.len() * 2 + 1)
            .y_labels(6)
            .max_light_lines(2)
            .x_desc(x_name)
            .y_desc(y_name)
            .label_style(FONT)
            .axis_desc_style(FONT)
            .x_label_formatter(&name)
            .y_label_formatter(&number)
            .draw()?;
        for one in series {
            let colour = one.colour;
            let circles = one.points.iter().map(|point| Circle::new(*point, 5, colour.filled()));
            chart
                .draw_series(circles)?
                .label(plain(&one.name))
                .legend(move |(x, y)| Circle::new((x + 8, y), 5, colour.filled()));
        }
        legend(&mut chart)
    })
}

type Drawn = Result<(), Box<dyn std::error::Error>>;
type Root<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn legend<'a, X, Y>(chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(FONT)
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// Returns the SVG element of a plot.
fn draw(title: &str, work: impl for<'a> FnOnce(&Root<'a>) -> Drawn) -> Result<String, Error> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let drawn = work(&root).and_then(|()| Ok(root.present()?));
    drop(root);
    drawn.map_err(|error| Error::Failed(format!("the plot {title:?} cannot be drawn: {error}")))?;
    Ok(svg)
}

/// Returns the range from the smallest value divided by `factor` to the largest value times
/// `factor`. The values are positive.
fn around(values: impl Iterator<Item = f64>, factor: f64) -> Range<f64> {
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
    if low > high { 1.0..10.0 } else { low / factor..high * factor }
}

/// Returns the beginning of a name, without characters that XML does not allow. plotters escapes
/// markup.
fn plain(name: &str) -> String {
    let is_wrong = |one: &char| one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}');
    name.chars().take(32).map(|one| if is_wrong(&one) { '\u{fffd}' } else { one }).collect()
}

/// Formats a number of an axis.
fn number(value: &f64) -> String {
    match *value {
        value if value >= 1e6 => format!("{} M", value / 1e6),
        value if value >= 1e3 => format!("{} k", value / 1e3),
        value if value >= 1.0 => format!("{value:.0}"),
        value => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jeton_has_its_own_colour_at_every_position() {
        assert_eq!(colour("jeton", &["jeton"]), JETON);
        assert_eq!(colour("jeton", &["a", "b", "jeton"]), JETON);
        let others = ["in-process", "softhsm2", "nss", "a", "b", "c", "d"];
        assert!(others.iter().all(|name| colour(name, &others) != JETON));
    }

    #[test]
    fn no_values_give_a_range_from_1_to_10() {
        assert_eq!(around(std::iter::empty(), 2.0), 1.0..10.0);
        assert_eq!(around([2.0, 4.0].into_iter(), 2.0), 1.0..8.0);
    }
}
