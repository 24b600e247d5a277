//! The log: one subscriber for the life of the process, whose level and file each `C_Initialize` sets anew.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::str::FromStr;
use std::sync::{Mutex, Once, PoisonError};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;

use super::LogRules;

/// What is logged without configuration: what went wrong in the token itself.
const DEFAULT: LevelFilter = LevelFilter::ERROR;

/// The file; standard error without one.
static SINK: Mutex<Option<File>> = Mutex::new(None);
static LEVEL: Mutex<Option<reload::Handle<LevelFilter, Registry>>> = Mutex::new(None);
static INSTALLED: Once = Once::new();

/// Logs as the rules say.
pub(super) fn start(rules: &LogRules) -> Result<(), String> {
    let level = match &rules.level {
        Some(name) => LevelFilter::from_str(name).map_err(|_| format!("level {name:?} is no level"))?,
        None => DEFAULT,
    };
    let file = match &rules.file {
        Some(path) => {
            let open = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            Some(open.map_err(|reason| format!("file {}: {reason}", path.display()))?)
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

/// Logs with the defaults, where nothing was configured yet.
pub(super) fn start_default() {
    install();
}

/// Installs the subscriber once. A host that links the core and has its own keeps it.
fn install() {
    INSTALLED.call_once(|| {
        let (filter, handle) = reload::Layer::new(DEFAULT);
        let lines = tracing_subscriber::fmt::layer().with_writer(|| Sink).with_ansi(false);
        let subscriber = Registry::default().with(filter).with(lines);
        if tracing::subscriber::set_global_default(subscriber).is_ok() {
            *LEVEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(handle);
        }
    });
}

/// Writes a line to where the log goes now.
struct Sink;

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut *SINK.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => file.write(line),
            None => io::stderr().write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
