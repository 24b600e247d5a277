//! The records at the end of a log, for a process that goes on with the work of one that ended: it
//! does not know which records that one had written.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Deserializer};

use super::{Record, Word, function};
use crate::file;

/// The bytes at the end of the log that are read: a batch of the longest records, and as many of
/// other processes.
const END: u64 = 32 << 20;

/// The records at the end of a log.
#[derive(Default)]
pub struct Written(HashSet<Mark>);

/// What two records do not have in common: a session carries out one call after the other, and a
/// call takes longer than a microsecond.
#[derive(PartialEq, Eq, Hash, Deserialize)]
struct Mark {
    process: u32,
    /// In microseconds since 1970.
    #[serde(deserialize_with = "micros")]
    time: u64,
    session: Option<u64>,
    #[serde(deserialize_with = "function")]
    function: Word,
}

impl Written {
    /// Reads the end of the log at `path`.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut file = file::open_log(path, OFlags::RDWR)?;
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(end.saturating_sub(END)))?;
        let mut marks = HashSet::new();
        for line in BufReader::new(file).split(b'\n') {
            // The first line may be a part of one, and a crash may have cut off the last one.
            marks.extend(serde_json::from_slice::<Mark>(&line?));
        }
        Ok(Self(marks))
    }

    /// Returns whether the log has this record of another process, with this time in whole
    /// microseconds. Forgets the record.
    pub fn remove(&mut self, time: Duration, record: &Record) -> bool {
        let Some(process) = record.process else { return false };
        let time = round(time.as_secs_f64());
        self.0.remove(&Mark { process, time, session: record.session, function: record.function })
    }
}

fn micros<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    f64::deserialize(from).map(round)
}

/// Returns the microseconds in a time of a line, which has a little less than their precision.
fn round(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}
