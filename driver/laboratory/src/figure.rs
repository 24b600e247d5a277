//! Formats the times, rates and ratios of several tables.

use crate::Interval;

/// A ratio is marked as uncertain if its interval is wider than this fraction of it.
pub const WIDE: f64 = 0.1;

/// A report warns that other work disturbed a measurement if the spread of the baseline's runs is
/// larger than this.
pub const MOVED: f64 = 0.25;

/// A report has no ratio if the spread of the baseline's runs is larger than this.
pub const UNUSABLE: f64 = 1.0;

/// Formats a ratio. `~` marks a ratio with a wide interval.
pub fn ratio_text(ratio: Interval) -> String {
    let mark = if ratio.high - ratio.low > WIDE * ratio.value { "~" } else { "" };
    format!("{mark}{:.2}", ratio.value)
}

/// Formats seconds in µs, ms or s.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Formats nanoseconds with three digits.
pub fn nanoseconds(nanos: f64) -> String {
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", factor(value))
}

/// Formats a factor with three digits, or with all digits before the point.
pub fn factor(times: f64) -> String {
    match times {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// Formats a number of items per second.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{:.2} M", r / 1e6),
        r if r >= 1e4 => format!("{:.1} k", r / 1e3),
        r if r >= 10.0 => format!("{r:.0}"),
        r => format!("{r:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_their_unit() {
        assert_eq!(time(0.000_012_34), "12.3 µs");
        assert_eq!(time(0.012_34), "12.34 ms");
        assert_eq!(time(12.345), "12.35 s");
        assert_eq!(rate(1_234_567.0), "1.23 M");
        assert_eq!(rate(12_345.0), "12.3 k");
        assert_eq!(rate(0.5), "0.50");
    }

    #[test]
    fn nanoseconds_and_factors_have_three_digits() {
        let texts = [1.234, 12.34, 123.4, 1234.0, 12_340_000.0, 1.5e9].map(nanoseconds);
        assert_eq!(texts, ["1.23 ns", "12.3 ns", "123 ns", "1.23 µs", "12.3 ms", "1.50 s"]);
        assert_eq!([9.444, 94.44, 512_426.38].map(factor), ["9.44", "94.4", "512426"]);
    }

    #[test]
    fn an_uncertain_ratio_is_marked() {
        let ratio = |low: f64, high: f64| ratio_text(Interval { value: 1.0, low, high });
        assert_eq!(ratio(0.96, 1.05), "1.00");
        assert_eq!(ratio(0.94, 1.05), "~1.00");
    }
}
