//! The log: one subscriber for the life of the process. Each `C_Initialize` sets its level and its
//! file.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tracing::callsite::{Identifier, rebuild_interest_cache};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use super::LogRules;
use crate::file;
use crate::sync::lock;

/// The level without configuration: only errors.
const DEFAULT: LevelFilter = LevelFilter::ERROR;

static LOG: Mutex<Log> = Mutex::new(Log { level: DEFAULT, file: None, places: None });
static INSTALLED: Once = Once::new();
thread_local! {
    static HELD: Cell<Option<MutexGuard<'static, Log>>> = const { Cell::new(None) };
}

struct Log {
    level: LevelFilter,
    /// The log goes to standard error if this is `None`.
    file: Option<Arc<File>>,
    /// When each place in the code wrote, for [`Few`].
    places: Option<HashMap<Identifier, Instant>>,
}

/// Runs before a fork. Waits until no thread is inside the log, which a child could not leave.
pub(crate) fn hold() {
    install();
    let _ = HELD.try_with(|held| held.set(Some(lock(&LOG))));
}

/// Runs after a fork, in the thread that called [`hold`] and in both processes.
pub(crate) fn release() {
    let _ = HELD.try_with(Cell::take);
}

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
    let mut log = lock(&LOG);
    (log.level, log.file) = (level, file.map(Arc::new));
    drop(log);
    rebuild_interest_cache();
    Ok(())
}

/// Starts the log with the defaults, unless it was started before. An application that links the
/// core and has its own subscriber keeps it.
pub(super) fn install() {
    INSTALLED.call_once(|| {
        let lines = tracing_subscriber::fmt::layer().with_writer(|| Sink).with_ansi(false);
        let _ = tracing::subscriber::set_global_default(
            Registry::default().with(Threshold).with(Few).with(lines),
        );
    });
}

/// Drops the lines below the level of the log.
struct Threshold;

impl<S: Subscriber> Layer<S> for Threshold {
    fn enabled(&self, place: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *place.level() <= lock(&LOG).level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(lock(&LOG).level)
    }
}

/// Lets each place in the code write ten lines at once, and then one in a second, so that no peer
/// fills the disk. Lines below the level "info" are for a person who waits for them.
struct Few;

impl<S: Subscriber> Layer<S> for Few {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        const EACH: Duration = Duration::from_secs(1);
        let (place, now) = (event.metadata(), Instant::now());
        let earliest = now.checked_sub(10 * EACH).unwrap_or(now);
        let mut log = lock(&LOG);
        let last = log.places.get_or_insert_default().entry(place.callsite()).or_insert(earliest);
        let turn = earliest.max(*last) + EACH;
        let is_due = turn <= now || *place.level() > Level::INFO;
        if is_due {
            *last = turn;
        }
        is_due
    }
}

/// Writes to the current log file, or to standard error. Holds no lock meanwhile, because a fork
/// waits for the locks: neither ours, nor the standard library's for standard error.
struct Sink;

impl Write for Sink {
    /// Writes one event as one line. Control characters are escaped, so that a value with a line
    /// break cannot imitate another line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let line = escaped(&String::from_utf8_lossy(event));
        let file = lock(&LOG).file.clone();
        let standard = io::stderr();
        let to = file.as_deref().map_or(standard.as_fd(), File::as_fd);
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::write(to, rest)) {
                // The host closed standard error.
                Ok(0) | Err(Errno::BADF) => break,
                Ok(written) => rest = &rest[written..],
                Err(reason) => return Err(reason.into()),
            }
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn no_place_writes_many_lines() {
        struct Counted(Arc<AtomicUsize>);
        impl<S: Subscriber> Layer<S> for Counted {
            fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(AtomicUsize::new(0));
        let subscriber = Registry::default().with(Few).with(Counted(Arc::clone(&count)));
        tracing::subscriber::with_default(subscriber, || {
            (0..1000).for_each(|_| tracing::warn!("a line of a peer"));
            tracing::warn!("another line");
            (0..1000).for_each(|_| tracing::debug!("a line for a person"));
        });
        // A slow machine takes more than a second.
        assert!((1011..1100).contains(&count.load(Ordering::Relaxed)));
    }

    #[test]
    fn a_value_with_a_line_break_stays_in_its_line() {
        assert_eq!(escaped("dir=/x\n/tmp/evil.so\u{1b}[1m\n"), "dir=/x\\n/tmp/evil.so\\u{1b}[1m\n");
    }
}
