//! What monitors ask: the process for them asks the front, which gives it the figures.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use super::Front;
use crate::link::{Link, ToFront};

/// How long the figures are good. Any process of this host may ask for them again and again.
const FRESH: Duration = Duration::from_secs(1);

impl Front {
    /// Gives the process for monitors the figures, until it ends.
    pub(super) fn hear_monitor(&self, link: &Link) {
        let mut last: Option<(Instant, String)> = None;
        while let Ok(Some((ToFront::Figures, Some(pipe)))) = link.receive() {
            let text = match last.take_if(|(since, _)| since.elapsed() < FRESH) {
                Some(fresh) => fresh,
                None => (Instant::now(), self.status().prometheus()),
            };
            // A monitor may have gone. One that does not read holds up this thread only.
            let _ = File::from(pipe).write_all(text.1.as_bytes());
            last = Some(text);
        }
    }
}
