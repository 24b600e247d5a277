//! The log: one subscriber for the life of the process. Each `C_Initialize` sets its level and its
//! file.

use std::fs::File;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::{Mutex, Once, PoisonError};

use rustix::fs::OFlags;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;

use super::LogRules;
use crate::file;

/// The level without configuration: only errors.
const DEFAULT: LevelFilter = LevelFilter::ERROR;

/// The log file. The log goes to standard error if it is `None`.
static SINK: Mutex<Option<File>> = Mutex::new(None);
static LEVEL: Mutex<Option<reload::Handle<LevelFilter, Registry>>> = Mutex::new(None);
static INSTALLED: Once = Once::new();

/// Sets the level and the file of the log. Fails if the level is unknown or the file cannot be
/// opened.
pub(super) fn start(rules: &LogRules) -> Result<(), String> {
    let level = match &rules.level {
        Some(name) => LevelFilter::from_str(name).map_err(|_| format!("unknown level {name:?}"))?,
        None => DEFAULT,
    };
    let file = match &rules.file {
        Some(path) => {
            let opened = file::open_log(path, OFlags::WRONLY);
            Some(opened.map_err(|reason| format!("file {}: {reason}", path.display()))?)
        }
        None => None,
    };
    install();
    *SINK.lock().unwrap_or_else(PoisonError::into_inner) = file;
    if let Some(handle) = &*LEVEL.lock().unwrap_or_else(PoisonError::into_inner) {
        handle.modify(|current| *current = level).map_err(|reason| reason.to_string())?;
    }
    Ok(())
}

/// Starts the log with the defaults, unless it was started before. An application that links the
/// core and has its own subscriber keeps it.
pub(super) fn install() {
    INSTALLED.call_once(|| {
        let (filter, handle) = reload::Layer::new(DEFAULT);
        let lines = tracing_subscriber::fmt::layer().with_writer(|| Sink).with_ansi(false);
        let subscriber = Registry::default().with(filter).with(lines);
        if tracing::subscriber::set_global_default(subscriber).is_ok() {
            *LEVEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        }
    });
}

/// Writes to the current log file, or to standard error.
struct Sink;

impl Write for Sink {
    /// Writes one event as one line. Control characters are escaped, so that a value with a line
    /// break cannot imitate another line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = escaped(&String::from_utf8_lossy(event));
        match &mut *SINK.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write_all(line.as_bytes())?,
            None => io::stderr().write_all(line.as_bytes())?,
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the text of an event as one line.
fn escaped(event: &str) -> String {
    let mut line = String::with_capacity(event.len() + 1);
    for character in event.trim_end().chars() {
        match character {
            control if control.is_control() => line.extend(control.escape_default()),
            other => line.push(other),
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_a_line_break_stays_in_its_line() {
        assert_eq!(escaped("dir=/x\n/tmp/evil.so\u{1b}[1m\n"), "dir=/x\\n/tmp/evil.so\\u{1b}[1m\n");
    }
}
