//! Draws the plots of pages as SVG elements.
//!
//! A plot has no background. Its text, its axes and its grid are black. A page replaces black with
//! its own text colour ([`STYLE`]), which differs between light and dark mode.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::{BindKeyPoints, WithKeyPoints};
use plotters::coord::ranged1d::{AsRangedCoord, DefaultFormatting, KeyPointHint, Ranged, ValueFormatter};
use plotters::prelude::{
    BLACK, ChartBuilder, Circle, Color, DashedLineSeries, DrawingArea, IntoDrawingArea, IntoLogRange,
    LineSeries, PathElement, Rectangle, SVGBackend, ShapeStyle, Text,
};

pub use plotters::prelude::{LogCoord, RGBColor};

/// A logarithmic scale whose labels are at given numbers.
pub type LabelledLog = WithKeyPoints<LogCoord<f64>>;

/// The CSS rules that replace black in a plot with the text colour of the page.
pub const STYLE: &str = "[fill=\"#000000\"]{fill:currentColor}[stroke=\"#000000\"]{stroke:currentColor}";
/// The CSS rules for the text colour of a plot that is a file of its own.
const COLOURS: &str = "svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#f0f6fc}}";

/// The colour of Jeton in every plot.
pub const JETON: RGBColor = RGBColor(30, 136, 200);
/// The colour of AWS-LC called directly, and of keys in memory.
pub const MEMORY: RGBColor = RGBColor(128, 128, 128);
/// The colours of the known modules, of the rows of the benches, and of the baseline. Those of
/// SoftHSMv2, NSS and Kryoptic are from Okabe and Ito: people with red-green blindness can
/// distinguish them. All are visible on white and on black.
const KNOWN: [(&str, RGBColor); 11] = [
    ("jeton", JETON),
    ("in-process", MEMORY),
    ("floor", MEMORY),
    ("softhsm2", RGBColor(213, 94, 0)),
    ("nss", RGBColor(0, 158, 115)),
    ("jeton-rc", OTHERS[2]),
    ("openssl", OTHERS[1]),
    ("kryoptic", OTHERS[0]),
    ("craton", OTHERS[3]),
    ("core", RGBColor(110, 190, 190)),
    ("jeton-null", RGBColor(60, 100, 160)),
];
/// The colours of other modules and series.
const OTHERS: [RGBColor; 4] =
    [RGBColor(204, 121, 167), RGBColor(200, 140, 0), RGBColor(86, 170, 220), RGBColor(150, 110, 200)];

const SIZE: (u32, u32) = (860, 400);
const FONT: (&str, i32) = ("sans-serif", 14);
/// The largest number of names that are readable below a plot.
const NAMED: usize = 24;
const LEGEND_ROW: i32 = 20;
/// The width of a character of the legend, and of the mark before its text.
const CHARACTER: i32 = 7;
const LEGEND_MARK: i32 = 34;

type Error = Box<dyn std::error::Error>;

/// A set of points with a name. A set without a name is not in the legend.
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The colour.
    pub colour: RGBColor,
    /// How the points are drawn.
    pub mark: Mark,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Filled circles with lines between them.
    Line,
    /// Filled circles with dashes between them.
    Dashes,
    /// Filled circles.
    Dots,
    /// Empty circles.
    Rings,
    /// A black line without circles.
    Rule,
    /// Bars from zero.
    Bars,
}

/// An axis of a plot.
pub struct Axis<'a, C> {
    /// The description.
    pub name: &'a str,
    /// The range.
    pub range: C,
    /// Formats a number of the axis.
    pub label: &'a dyn Fn(&f64) -> String,
    /// The number of labels. `None`: as many as the library chooses.
    pub labels: Option<usize>,
    /// Whether the plot has lines at the labels.
    pub grid: bool,
    /// The room for the labels, in pixels.
    pub room: u32,
}

/// Returns the colour of a module. `all` are the modules of the page.
pub fn colour(module: &str, all: &[&str]) -> RGBColor {
    let known = KNOWN.iter().find(|(name, _)| *name == module).map(|(_, colour)| *colour);
    known.unwrap_or_else(|| other_colour(all.iter().position(|one| *one == module).unwrap_or_default()))
}

/// Returns a colour for a module that is not known, or for a series that is not a module.
pub fn other_colour(index: usize) -> RGBColor {
    OTHERS[index % OTHERS.len()]
}

/// Returns a plot as a file: it follows the light or dark mode of the reader, also if a page shows
/// the file as an image.
pub fn standalone(svg: &str) -> String {
    let at = svg.find("<svg").and_then(|start| Some(start + svg[start..].find('>')? + 1));
    let (head, rest) = svg.split_at(at.unwrap_or_default());
    format!("{head}<style>{COLOURS}{STYLE}</style>{rest}")
}

/// Draws series whose axes are logarithmic. `names` describe the axes. `x_label` formats a number
/// of the x axis.
pub fn lines(
    title: &str,
    names: [&str; 2],
    x_label: &dyn Fn(&f64) -> String,
    series: &[Series],
) -> Result<String, String> {
    let x = Axis { label: x_label, ..logarithmic(names[0], series, |point| point.0, 1.3) };
    let y = logarithmic(names[1], series, |point| point.1, 2.0);
    draw(Plot { title, caption: false, size: SIZE }, x, y, series)
}

/// Draws series over the `labels` of the x axis. The y axis is logarithmic.
pub fn points(title: &str, names: [&str; 2], labels: &[&str], series: &[Series]) -> Result<String, String> {
    let shown = if labels.len() <= NAMED { labels } else { &[] };
    let name = name_at(shown);
    let x = named(names[0], labels.len(), &name);
    let y = logarithmic(names[1], series, |point| point.1, 2.5);
    draw(Plot { title, caption: false, size: SIZE }, x, y, series)
}

/// Draws series of [`Mark::Bars`] over the `labels` of the x axis. The y axis begins at zero.
pub fn bars(title: &str, names: [&str; 2], labels: &[&str], series: &[Series]) -> Result<String, String> {
    let name = name_at(labels);
    let x = named(names[0], labels.len(), &name);
    let top = series.iter().flat_map(|one| &one.points).fold(0.0_f64, |top, point| top.max(point.1));
    // The sum of steps is not a round number.
    let label =
        |value: &f64| if *value < 1e3 { format!("{}", (value * 1e9).round() / 1e9) } else { number(value) };
    let y =
        Axis { name: names[1], range: 0.0..1.05 * top, label: &label, labels: None, grid: true, room: 80 };
    draw(Plot { title, caption: false, size: SIZE }, x, y, series)
}

fn named<'a>(name: &'a str, count: usize, label: &'a dyn Fn(&f64) -> String) -> Axis<'a, Places> {
    Axis { name, range: Places(count), label, labels: None, grid: false, room: 48 }
}

/// A scale with this number of places for names. The first is at 0.
pub struct Places(pub usize);

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        start + ((value + 0.5) / self.0 as f64 * f64::from(end - start)) as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let count = if hint.weight().allow_light_points() { 0 } else { self.0 };
        (0..count).map(|at| at as f64).collect()
    }

    fn range(&self) -> Range<f64> {
        -0.5..self.0 as f64 - 0.5
    }
}

/// Returns a label for each whole number: the name with this index.
pub fn name_at<T: AsRef<str>>(names: &[T]) -> impl Fn(&f64) -> String + '_ {
    move |at: &f64| {
        let is_whole = (at - at.round()).abs() < 0.01 && *at > -0.01;
        // An axis has few names; the conversion of a small positive number is exact.
        let name = names.get(at.round().max(0.0) as usize).filter(|_| is_whole);
        name.map(|name| plain(name.as_ref())).unwrap_or_default()
    }
}

/// Returns an axis from the smallest value divided by `factor` to the largest value times `factor`.
/// The values are positive.
fn logarithmic<'a>(
    name: &'a str,
    series: &[Series],
    value: fn(&(f64, f64)) -> f64,
    factor: f64,
) -> Axis<'a, LabelledLog> {
    let range = around(series.iter().flat_map(|one| &one.points).map(value), factor);
    let numbers = round_numbers(&range);
    Axis { name, range: log_scale_at(range, numbers), label: &number, labels: None, grid: true, room: 80 }
}

/// Returns a logarithmic scale.
pub fn log_scale(range: Range<f64>) -> LogCoord<f64> {
    range.log_scale().into()
}

/// Returns a logarithmic scale with labels at these numbers.
pub fn log_scale_at(range: Range<f64>, numbers: Vec<f64>) -> LabelledLog {
    log_scale(range).with_key_points(numbers)
}

/// Returns the powers of ten in a range, and twice and five times each if the range is short.
fn round_numbers(range: &Range<f64>) -> Vec<f64> {
    let steps: &[u8] = if range.end < 1e3 * range.start { &[1, 2, 5] } else { &[1] };
    let powers = range.start.log10().floor() as i32..=range.end.log10().floor() as i32;
    let numbers = powers.flat_map(|power| steps.iter().map(move |step| format!("{step}e{power}").parse()));
    numbers.flatten().filter(|number| range.contains(number)).collect()
}

fn around(values: impl Iterator<Item = f64>, factor: f64) -> Range<f64> {
    let (low, high) = values.fold((f64::MAX, 0.0_f64), |(low, high), one| (low.min(one), high.max(one)));
    if low > high { 1.0..10.0 } else { low / factor..high * factor }
}

/// A plot without its axes and series.
pub struct Plot<'a> {
    /// The title.
    pub title: &'a str,
    /// Whether the plot shows its title.
    pub caption: bool,
    /// The width and the height in pixels.
    pub size: (u32, u32),
}

/// Draws a plot. Returns its SVG element. The error is the message to the user.
pub fn draw<X, Y>(plot: Plot<'_>, x: Axis<'_, X>, y: Axis<'_, Y>, series: &[Series]) -> Result<String, String>
where
    X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
{
    let title = plot.title;
    try_draw(plot, x, y, series).map_err(|error| format!("the plot {title:?} cannot be drawn: {error}"))
}

fn try_draw<X, Y>(plot: Plot<'_>, x: Axis<'_, X>, y: Axis<'_, Y>, series: &[Series]) -> Result<String, Error>
where
    X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
    Y: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
{
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, plot.size).into_drawing_area();
        let below = if plot.caption { root.titled(plot.title, ("sans-serif", 18))? } else { root.clone() };
        let below = legend(&below, plot.size.0, series)?;
        let mut builder = ChartBuilder::on(&below);
        builder.margin(12).margin_right(28).x_label_area_size(48).y_label_area_size(y.room);
        let mut chart = builder.build_cartesian_2d(x.range, y.range)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(plain(x.name)).y_desc(plain(y.name)).label_style(FONT).axis_desc_style(FONT);
        mesh.x_label_formatter(&x.label).y_label_formatter(&y.label);
        // Only the lines at the labels: finer ones make a moiré.
        mesh.max_light_lines(0).bold_line_style(BLACK.mix(0.15));
        if let Some(count) = x.labels {
            mesh.x_labels(count);
        }
        if !x.grid {
            mesh.disable_x_mesh();
        }
        if !y.grid {
            mesh.disable_y_mesh();
        }
        if let Some(count) = y.labels {
            mesh.y_labels(count);
        }
        mesh.draw()?;
        // Jeton's points are above the others.
        let (own, others): (Vec<_>, Vec<_>) = series.iter().partition(|one| one.colour == JETON);
        for one in others.into_iter().chain(own) {
            let (line, mark) = (one.colour.stroke_width(2), one.mark);
            let points = || one.points.iter().copied();
            match mark {
                Mark::Line => {
                    chart.draw_series(LineSeries::new(points(), line))?;
                }
                Mark::Dashes => {
                    chart.draw_series(DashedLineSeries::new(points(), 6, 4, line))?;
                }
                Mark::Rule => {
                    chart.draw_series(LineSeries::new(points(), BLACK))?;
                }
                Mark::Bars => {
                    let bar = |(x, y)| Rectangle::new([(x - 0.3, 0.0), (x + 0.3, y)], one.colour.filled());
                    chart.draw_series(points().map(bar))?;
                }
                Mark::Dots | Mark::Rings => {}
            }
            let style = one.circle();
            let circles = points().filter(|_| !matches!(mark, Mark::Rule | Mark::Bars));
            chart.draw_series(circles.map(|point| Circle::new(point, 4, style)))?;
        }
        root.present()?;
    }
    Ok(svg)
}

impl Series {
    fn circle(&self) -> ShapeStyle {
        if self.mark == Mark::Rings { self.colour.stroke_width(2) } else { self.colour.filled() }
    }
}

/// Draws the legend at the top of an area, where no point can be. Returns the area below it.
fn legend<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    width: u32,
    series: &[Series],
) -> Result<DrawingArea<SVGBackend<'a>, Shift>, Error> {
    let named: Vec<_> = series.iter().filter(|one| !one.name.is_empty()).collect();
    let longest = named.iter().map(|one| plain(&one.name).chars().count()).max().unwrap_or_default();
    let entry = LEGEND_MARK + CHARACTER * longest as i32;
    let columns = ((width as i32 - 24) / entry).max(1);
    let rows = (named.len() as i32 + columns - 1) / columns;
    let (own, below) = area.split_vertically(LEGEND_ROW * rows + 8);
    for (index, one) in (0..).zip(named) {
        let (x, y) = (12 + index % columns * entry, 14 + index / columns * LEGEND_ROW);
        let dashes: &[(i32, i32)] = match one.mark {
            Mark::Line | Mark::Rule => &[(0, 26)],
            Mark::Dashes => &[(0, 6), (10, 16), (20, 26)],
            Mark::Dots | Mark::Rings | Mark::Bars => &[],
        };
        for (from, to) in dashes {
            own.draw(&PathElement::new(vec![(x + from, y), (x + to, y)], one.colour.stroke_width(2)))?;
        }
        if one.mark != Mark::Rule {
            own.draw(&Circle::new((x + 13, y), 4, one.circle()))?;
        }
        own.draw(&Text::new(plain(&one.name), (x + LEGEND_MARK - 4, y - 6), FONT))?;
    }
    Ok(below)
}

/// Returns the beginning of a name, without characters that XML does not allow. plotters escapes
/// markup.
fn plain(name: &str) -> String {
    let is_wrong = |one: &char| one.is_control() || matches!(one, '\u{fffe}' | '\u{ffff}');
    name.chars().take(48).map(|one| if is_wrong(&one) { '\u{fffd}' } else { one }).collect()
}

/// Formats a number of an axis.
pub fn number(value: &f64) -> String {
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
    fn a_logarithmic_axis_has_several_labels() {
        assert_eq!(round_numbers(&(0.04..0.3)), [0.05, 0.1, 0.2]);
        assert_eq!(round_numbers(&(0.5..2000.0)), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn each_name_has_one_tick_in_the_middle_of_its_place() {
        let ticks = Places(2).key_points(plotters::coord::ranged1d::BoldPoints(9));
        assert_eq!(ticks, [0.0, 1.0]);
        assert_eq!([0.0, 1.0].map(|at| Places(2).map(&at, (100, 500))), [200, 400]);
    }

    #[test]
    fn a_plot_has_its_axes_and_names_and_follows_dark_mode() {
        let series = |name: &str, mark| Series {
            name: name.to_owned(),
            colour: JETON,
            mark,
            points: vec![(0.0, 1.0), (1.0, 20.0)],
        };
        let all = [series("one", Mark::Dots), series("", Mark::Rule), series("two", Mark::Dashes)];
        let svg = points("title", ["names", "seconds"], &["first", "second"], &all).expect("a plot");
        for text in ["names", "seconds", "first", "second", "one", "two"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("title") && !svg.contains("#FFFFFF"), "{svg}");
        assert!(standalone(&svg).contains("<style>svg{color:"), "{svg}");
    }
}
