//! The time in the format of the specification, and the lengths of months.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in UTC as `YYYYMMDDhhmmss00` (PKCS#11 3.2, "Clock").
pub(crate) fn now() -> [u8; 16] {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    written(seconds)
}

/// Formats seconds since 1970 as `YYYYMMDDhhmmss00`.
fn written(seconds: u64) -> [u8; 16] {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let text =
        format!("{year:04}{month:02}{day:02}{:02}{:02}{:02}00", second / 3600, second / 60 % 60, second % 60);
    let mut out = [b'0'; 16];
    // The text has 16 bytes until the year 10000.
    let len = text.len().min(out.len());
    out[..len].copy_from_slice(&text.as_bytes()[..len]);
    out
}

/// Converts days since 1970-01-01 to year, month and day of the Gregorian calendar.
fn date(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    while days >= year_len(year) {
        days -= year_len(year);
        year += 1;
    }
    let mut month = 1;
    while days >= month_len(year, month) {
        days -= month_len(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn year_len(year: u64) -> u64 {
    (1..=12).map(|month| month_len(year, month)).sum()
}

/// Returns the number of days of a month from 1 to 12; 0 for other numbers.
pub(super) fn month_len(year: u64, month: usize) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times from `date -u -d @SECONDS +%Y%m%d%H%M%S`.
    #[test]
    fn a_time_is_written_in_utc() {
        for (seconds, text) in [
            (0, b"1970010100000000"),
            (951_782_399, b"2000022823595900"),
            (951_782_400, b"2000022900000000"),
            (1_709_251_199, b"2024022923595900"),
            (4_107_542_400, b"2100030100000000"),
        ] {
            assert_eq!(written(seconds), *text, "{seconds}");
        }
    }
}
