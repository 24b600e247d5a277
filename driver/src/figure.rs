//! Formats the ratios of several tables.

use jeton_peers::Interval;

/// A ratio is marked as uncertain if its interval is wider than this fraction of its median.
pub(crate) const WIDE: f64 = 0.1;

/// Formats a ratio. `~` marks a ratio with a wide interval.
pub(crate) fn ratio_text(ratio: Interval) -> String {
    let mark = if ratio.high - ratio.low > WIDE * ratio.median { "~" } else { "" };
    format!("{mark}{:.2}", ratio.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncertain_ratio_is_marked() {
        let ratio = |low: f64, high: f64| ratio_text(Interval { median: 1.0, low, high });
        assert_eq!(ratio(0.96, 1.05), "1.00");
        assert_eq!(ratio(0.94, 1.05), "~1.00");
    }
}
