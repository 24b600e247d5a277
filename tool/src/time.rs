//! Times, as command lines and results have them.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use der::DateTime;

/// Returns the seconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64
}

/// Returns a time in seconds since 1970 as a date.
pub fn date(seconds: i64) -> String {
    let time = Duration::from_secs(seconds.unsigned_abs());
    DateTime::from_unix_duration(time).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Reads a number of hours, days or weeks.
pub fn seconds(text: &str) -> Result<i64, String> {
    let unit = [("h", 3_600), ("d", 86_400), ("w", 604_800)];
    let parsed = unit.iter().find_map(|(unit, length)| {
        let number: u16 = text.strip_suffix(unit)?.parse().ok()?;
        Some(i64::from(number) * length)
    });
    parsed.ok_or_else(|| "write a number of hours, days or weeks: 12h, 30d, 4w".to_owned())
}

/// Returns the seconds since 1970 of a date, which may have a time in UTC.
pub fn seconds_of(text: &str) -> Option<i64> {
    let time = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    DateTime::from_str(&time).ok().map(|time| time.unix_duration().as_secs() as i64)
}

/// Returns a `CK_DATE` as 2026-01-31. `None` if it is empty or no date.
pub fn iso(date: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(date).ok().filter(|text| text.len() == 8 && text.is_ascii())?;
    Some(format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..])).filter(|day| seconds_of(day).is_some())
}

/// Reads a day as the 8 digits of a `CK_DATE`: a date, or how far away it is. `none` is no day.
pub fn day(text: &str) -> Result<Vec<u8>, String> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let day = match seconds(text) {
        Ok(length) => date(now() + length).chars().take(10).collect(),
        Err(_) => text.to_owned(),
    };
    if day.len() != 10 || seconds_of(&day).is_none() {
        return Err("write a day, how far away it is, or none: 2028-01-31, 730d, 104w, none".to_owned());
    }
    Ok(day.replace('-', "").into_bytes())
}

/// Reads a time in the past: a date, a date with a time in UTC, or how long it is ago.
pub fn since(text: &str) -> Result<i64, String> {
    if let Ok(length) = seconds(text) {
        return Ok(now() - length);
    }
    let help = "write a date or how long ago: 2026-01-31, 2026-01-31T12:00:00Z, 12h, 30d, 4w";
    seconds_of(text).ok_or_else(|| help.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_a_length() {
        assert_eq!(since("2026-11-29"), Ok(1_795_910_400));
        assert_eq!(since("2026-11-29T00:00:01Z"), Ok(1_795_910_401));
        assert_eq!(date(1_795_910_401), "2026-11-29T00:00:01Z");
        assert!((now() - 36 * 86_400..=now()).contains(&since("5w").expect("five weeks")));
        for text in ["", "yesterday", "2026-13-01", "2026-02-30", "30", "-3d", "2026-11-29T00:00:01"] {
            assert!(since(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_day_is_eight_digits() {
        assert_eq!(day("2028-02-29").as_deref(), Ok(&b"20280229"[..]));
        assert_eq!(day("none").as_deref(), Ok(&b""[..]));
        let tomorrow: String = date(now() + 86_400).chars().take(10).collect();
        assert_eq!(iso(&day("1d").expect("a day")), Some(tomorrow));
        assert_eq!(iso(b"20280229").as_deref(), Some("2028-02-29"));
        for text in ["", "2027-02-29", "2028-02-29T00:00:00Z", "20280229", "soon"] {
            assert!(day(text).is_err(), "{text}");
        }
        for bytes in [&b""[..], b"20270229", b"2028022", b"\xff0280229"] {
            assert_eq!(iso(bytes), None);
        }
    }
}
