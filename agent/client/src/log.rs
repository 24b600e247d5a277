//! The log of this module: lines on standard error. An error of the agent is in the agent's log.
//! This log has what the agent never sees: parameters that the C interface refuses.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber, subscriber};

use crate::system::say;

/// The longest line in characters.
const LINE: usize = 1024;

/// Starts the log at this level, once.
pub fn start(level: LevelFilter) {
    // Another C_Initialize of this process has started it.
    let _ = subscriber::set_global_default(Log(level));
}

/// Returns a text without characters that a terminal obeys, and no longer than a line.
pub fn plain(text: &str) -> String {
    text.chars().filter(|letter| *letter == ' ' || letter.is_ascii_graphic()).take(LINE).collect()
}

struct Log(LevelFilter);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.0
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let level = event.metadata().level();
        say(&format!("libjeton_client: {level}: {}\n", plain(&(line.message + &line.fields))));
    }

    // The module has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A `String` takes everything.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
