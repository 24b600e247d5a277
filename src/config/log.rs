//! The log: one subscriber for the life of the process. Each `C_Initialize` sets its level, and its
//! file or its syslog.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use tracing::callsite::{Identifier, rebuild_interest_cache};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

use super::LogRules;
use crate::audit::syslog::Syslog;
use crate::file;
use crate::sync::lock;

/// The level without configuration: only errors.
const DEFAULT: LevelFilter = LevelFilter::ERROR;

/// The interval between two lines of a client from one place in the code, after the first ones.
const EACH: Duration = Duration::from_secs(1);
/// The number of lines that a client may write at once from one place.
const AT_ONCE: u32 = 10;
/// The largest number of pairs of a place and a client that are counted. The other clients share
/// the count of a place.
const MOST: usize = 1024;
/// The largest number of functions of which a count knows that a line named them.
const MOST_FUNCTIONS: usize = 128;

/// The facility `daemon` (RFC 5424, 6.2.1).
const FACILITY: u32 = 3;
/// The end of the path of the socket on which journald takes messages with fields
/// (systemd.journal-fields(7), sd_journal_send(3)).
const JOURNAL: &str = "systemd/journal/socket";
/// The fields of a line that a message for journald has as fields of its own.
const FIELDS: [&str; 3] = ["token", "function", "client"];

static LOG: Mutex<Log> = Mutex::new(Log { level: DEFAULT, file: None, syslog: None, counts: None });
static INSTALLED: Once = Once::new();
thread_local! {
    static CLIENT: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
    static HELD: Cell<Option<MutexGuard<'static, Log>>> = const { Cell::new(None) };
}

struct Log {
    level: LevelFilter,
    /// The log goes to standard error if there is neither a file nor a syslog.
    file: Option<Arc<File>>,
    syslog: Option<Arc<Syslog>>,
    counts: Option<Counts>,
}

/// Names the client of an agent that this thread works for from now on. Each client has its own
/// limit of lines.
pub fn work_for(client: &str) {
    CLIENT.set(Some(client.into()));
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

/// Sets the level of the log, and where it goes. Fails if the level is unknown, if there are a file
/// and a syslog, or if the file cannot be opened.
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
    let syslog = match &rules.syslog {
        Some(_) if file.is_some() => return Err("choose one of file and syslog".to_owned()),
        Some(path) => Some(Syslog::new(path.clone()).map_err(|reason| format!("syslog: {reason}"))?),
        None => None,
    };
    install();
    let mut log = lock(&LOG);
    (log.level, log.file, log.syslog) = (level, file.map(Arc::new), syslog.map(Arc::new));
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
            Registry::default().with(Threshold).with(Few).with(lines).with(ToSyslog),
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

/// Lets each client write ten lines at once from each place in the code, and then one in a second,
/// so that no client fills the disk or hides the lines of another one. Lines below the level "info"
/// are for a person who waits for them.
struct Few;

impl<S: Subscriber> Layer<S> for Few {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let place = event.metadata();
        if *place.level() > Level::INFO {
            return true;
        }
        let mut named = Named::default();
        event.record(&mut named);
        let client = named.client.or_else(|| CLIENT.with_borrow(Clone::clone));
        let mut log = lock(&LOG);
        let counts = log.counts.get_or_insert_default();
        let (is_due, dropped) = counts.note(place, client, named.function.as_deref(), Instant::now());
        drop(log);
        dropped.iter().for_each(Dropped::write);
        is_due
    }
}

/// Writes the numbers of dropped lines that no later line has reported.
pub(crate) fn report_dropped() {
    let dropped = lock(&LOG).counts.as_mut().map(|counts| counts.take_dropped(|_| true));
    dropped.iter().flatten().for_each(Dropped::write);
}

/// The fields of a line that name its client and its function.
#[derive(Default)]
struct Named {
    client: Option<Arc<str>>,
    function: Option<String>,
}

impl Visit for Named {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "client" => self.client = Some(value.into()),
            "function" => self.function = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// The lines of each client from each place in the code.
#[derive(Default)]
struct Counts(HashMap<(Identifier, Option<Arc<str>>), Count>);

struct Count {
    place: &'static Metadata<'static>,
    /// The time up to which the client has used its lines.
    used: Instant,
    /// The lines that were dropped and not reported.
    dropped: u64,
    /// The functions that lines have named. The first line of each is always due: an agent logs
    /// each refused function of an application only once.
    functions: HashSet<String>,
}

impl Count {
    fn is_due(&self, now: Instant) -> bool {
        self.used + EACH <= now
    }
}

/// Lines that were dropped.
struct Dropped {
    place: &'static Metadata<'static>,
    client: Option<Arc<str>>,
    count: u64,
}

impl Counts {
    /// Counts a line. Returns whether it is written, and the dropped lines to report before it.
    fn note(
        &mut self,
        place: &'static Metadata<'static>,
        client: Option<Arc<str>>,
        function: Option<&str>,
        now: Instant,
    ) -> (bool, Vec<Dropped>) {
        let earliest = now.checked_sub(AT_ONCE * EACH).unwrap_or(now);
        let mut key = (place.callsite(), client);
        let mut reported = Vec::new();
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            reported = self.take_dropped(|count| count.is_due(now));
            self.0.retain(|_, count| count.used > earliest);
            if self.0.len() >= MOST {
                key.1 = None;
            }
        }
        let new = || Count { place, used: earliest, dropped: 0, functions: HashSet::new() };
        let count = self.0.entry(key.clone()).or_insert_with(new);
        let is_new = function.is_some_and(|function| {
            count.functions.len() < MOST_FUNCTIONS && count.functions.insert(function.to_owned())
        });
        let is_due = count.is_due(now);
        if !is_due && !is_new {
            count.dropped += 1;
            return (false, reported);
        }
        reported.extend(self.take_dropped(|count| count.is_due(now)));
        if let Some(count) = self.0.get_mut(&key).filter(|_| is_due) {
            count.used = earliest.max(count.used) + EACH;
        }
        (true, reported)
    }

    /// Takes the numbers of dropped lines of these counts.
    fn take_dropped(&mut self, of: impl Fn(&Count) -> bool) -> Vec<Dropped> {
        let counts = self.0.iter_mut().filter(|(_, count)| count.dropped > 0 && of(count));
        counts
            .map(|((_, client), count)| Dropped {
                place: count.place,
                client: client.clone(),
                count: std::mem::take(&mut count.dropped),
            })
            .collect()
    }
}

impl Dropped {
    /// Writes a line in the format of all lines.
    fn write(&self) {
        let Self { place, client, count } = self;
        let (level, target, line_of_code) = (place.level(), place.target(), place.line().unwrap_or_default());
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _ = SystemTime.format_time(&mut Writer::new(&mut line));
        let what = "too many lines from one place";
        let _ = write!(line, " {level:>5} {target}: {what} dropped={count} line={line_of_code}");
        let _ = client.iter().try_for_each(|client| write!(line, " client={client:?}"));
        let syslog = lock(&LOG).syslog.clone();
        // There is no other place for the reason why a log cannot be written.
        let _ = match syslog {
            Some(syslog) => syslog.send_line(priority(level), escaped(&line).trim_end().as_bytes()),
            None => Sink.write(line.as_bytes()).map(drop),
        };
    }
}

/// Sends each event to the syslog, if the log goes there.
struct ToSyslog;

impl<S: Subscriber> Layer<S> for ToSyslog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(syslog) = lock(&LOG).syslog.clone() else { return };
        let place = event.metadata();
        let mut line = Line::default();
        event.record(&mut line);
        let text = format!("{}: {}", place.target(), line.text());
        let text = escaped(&text);
        let sent = match syslog.path.ends_with(JOURNAL) {
            true => syslog.send_message(line.for_journal(text.trim_end(), place.level()).as_bytes()),
            false => syslog.send_line(priority(place.level()), text.trim_end().as_bytes()),
        };
        if sent.is_err() {
            // A line that the daemon does not take is not lost where somebody reads this.
            let _ = put(io::stderr().as_fd(), text.as_bytes());
        }
    }
}

/// The message and the other fields of an event.
#[derive(Default)]
struct Line {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
}

impl Line {
    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.fields.push((name, value)),
        }
    }

    fn text(&self) -> String {
        let fields = self.fields.iter().map(|(name, value)| format!(" {name}={value}"));
        [self.message.clone()].into_iter().chain(fields).collect()
    }

    /// Returns the message for journald. No value has a line break, so each field is a line.
    fn for_journal(&self, text: &str, level: &Level) -> String {
        let severity = priority(level) % 8;
        let mut message = format!(
            "MESSAGE={text}\nPRIORITY={severity}\nSYSLOG_FACILITY={FACILITY}\nSYSLOG_IDENTIFIER=jeton\n"
        );
        let own = CLIENT.with_borrow(Clone::clone).map(|client| ("client", client.to_string()));
        let named = |name| self.fields.iter().chain(&own).find(|(known, _)| *known == name);
        for (name, value) in FIELDS.into_iter().filter_map(named) {
            message += &format!("{}={}", name.to_uppercase(), escaped(value));
        }
        message
    }
}

/// Returns the priority of a line: the facility, and the severity of RFC 5424, 6.2.1.
fn priority(level: &Level) -> u32 {
    let severity = match *level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    };
    8 * FACILITY + severity
}

/// Writes to the current log file, or to standard error; nothing if the log goes to the syslog.
/// Holds no lock meanwhile, because a fork waits for the locks: neither ours, nor the standard
/// library's for standard error.
struct Sink;

impl Write for Sink {
    /// Writes one event as one line. Control characters are escaped, so that a value with a line
    /// break cannot imitate another line.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (file, syslog) = {
            let log = lock(&LOG);
            (log.file.clone(), log.syslog.is_some())
        };
        if !syslog {
            let line = escaped(&String::from_utf8_lossy(event));
            let standard = io::stderr();
            put(file.as_deref().map_or(standard.as_fd(), File::as_fd), line.as_bytes())?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all bytes to a file, or to standard error, which the host may have closed.
fn put(to: BorrowedFd<'_>, mut rest: &[u8]) -> io::Result<()> {
    // The host may have closed standard error.
    if let Err(reason) = file::expect_appendable(to, rest.len())
        && reason.kind() == io::ErrorKind::FileTooLarge
    {
        return Err(reason);
    }
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(to, rest)) {
            // The host closed standard error.
            Ok(0) | Err(Errno::BADF) => break,
            Ok(written) => rest = &rest[written..],
            Err(reason) => return Err(reason.into()),
        }
    }
    Ok(())
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

    use tracing::callsite::Callsite;
    use tracing::field::FieldSet;
    use tracing::metadata::Kind;
    use tracing::subscriber::Interest;

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

    /// Returns a place in the code.
    fn place() -> &'static Metadata<'static> {
        struct Place;
        impl Callsite for Place {
            fn set_interest(&self, _: Interest) {}
            fn metadata(&self) -> &Metadata<'_> {
                &METADATA
            }
        }
        static PLACE: Place = Place;
        static METADATA: Metadata<'static> = Metadata::new(
            "place",
            "target",
            Level::WARN,
            None,
            Some(1),
            None,
            FieldSet::new(&[], Identifier(&PLACE)),
            Kind::EVENT,
        );
        &METADATA
    }

    /// Returns how many of these lines are written.
    fn written(counts: &mut Counts, client: &str, lines: usize, now: Instant) -> usize {
        (0..lines).filter(|_| counts.note(place(), Some(client.into()), None, now).0).count()
    }

    #[test]
    fn no_client_hides_the_lines_of_another_one() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        assert_eq!(written(&mut counts, "noise", 1000, now), 10);
        assert_eq!(written(&mut counts, "victim", 10, now), 10);
        // Even if it has many names.
        for client in 0..2 * MOST {
            written(&mut counts, &client.to_string(), 2, now);
        }
        assert!(counts.0.len() <= MOST + 1);
        // Clients that have been quiet make room.
        let later = now + AT_ONCE * EACH;
        assert_eq!(written(&mut counts, "another", 20, later), 10);
        assert_eq!(counts.0.len(), 1);
    }

    #[test]
    fn dropped_lines_are_reported_with_their_number_and_client() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        written(&mut counts, "one", 1000, now);
        written(&mut counts, "two", 11, now);
        let mut report = |client: &str, now| -> Vec<(String, u64)> {
            let (_, dropped) = counts.note(place(), Some(client.into()), None, now);
            let mut dropped: Vec<_> = dropped
                .into_iter()
                .map(|dropped| (dropped.client.expect("a client").to_string(), dropped.count))
                .collect();
            dropped.sort();
            dropped
        };
        assert_eq!(report("three", now), []);
        // Any client causes the report, once.
        assert_eq!(report("three", now + EACH), [("one".to_owned(), 990), ("two".to_owned(), 1)]);
        assert_eq!(report("three", now + EACH), []);
        assert_eq!(report("one", now + EACH), []);
        assert_eq!(report("one", now + EACH), []);
        assert_eq!(report("one", now + 2 * EACH), [("one".to_owned(), 1)]);
    }

    #[test]
    fn each_function_has_one_line_in_spite_of_the_limit() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        let mut is_written = |function: &str| counts.note(place(), Some("one".into()), Some(function), now).0;
        assert_eq!((0..100).filter(|_| is_written("C_Sign")).count(), 10);
        let names: Vec<_> = (0..2 * MOST_FUNCTIONS).map(|number| number.to_string()).collect();
        assert_eq!(names.iter().filter(|name| is_written(name)).count(), MOST_FUNCTIONS - 1);
        assert_eq!(names.iter().filter(|name| is_written(name)).count(), 0);
    }

    #[test]
    fn a_value_with_a_line_break_stays_in_its_line() {
        assert_eq!(escaped("dir=/x\n/tmp/evil.so\u{1b}[1m\n"), "dir=/x\\n/tmp/evil.so\\u{1b}[1m\n");
    }
}
