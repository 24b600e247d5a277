//! Finds the files of a log that was moved away: those that a command line names, and those in a
//! directory.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::Error;

/// The ending of the file beside a log that has the number and the hash of its last line.
const END: &str = ".end";
/// How far to look for the first record of a log. A crash may have cut off a line before it.
const START: u64 = 1 << 20;
/// The largest length of the file beside a log.
const MOST_END: u64 = 1024;

/// The files of a log.
pub struct Files {
    /// The files, the oldest one first.
    pub logs: Vec<PathBuf>,
    /// What the files beside the logs know.
    pub ends: Vec<End>,
    /// The other files of the directories.
    pub others: Vec<PathBuf>,
}

/// The last line of a log, as the file beside the log has it.
pub struct End {
    pub file: PathBuf,
    pub hash: String,
}

#[derive(Deserialize)]
struct Number {
    number: u64,
}

#[derive(Deserialize)]
struct Hash {
    hash: String,
}

impl Files {
    /// Finds the files of a log. Of a directory, takes the files that begin as a log does.
    pub fn find(paths: &[PathBuf]) -> Result<Self, Error> {
        let (mut logs, mut others, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            if !path.is_dir() {
                if !is_end(path) {
                    logs.push((first_number(path)?, path.clone()));
                }
                continue;
            }
            let mut inside = Vec::new();
            for entry in fs::read_dir(path).map_err(Error::io(path))? {
                inside.push(entry.map_err(Error::io(path))?.path());
            }
            inside.sort();
            for file in inside.into_iter().filter(|file| file.is_file() && !is_end(file)) {
                match first_number(&file)? {
                    Some(number) => logs.push((Some(number), file)),
                    // A log that was just moved away has no line yet.
                    None if end_of(&file)?.is_some() => logs.push((None, file)),
                    None => others.push(file),
                }
            }
        }
        // The file beside a log is read before the log: meanwhile a process may add lines.
        for (_, log) in &logs {
            ends.extend(end_of(log)?);
        }
        // A file without a record is the newest one.
        logs.sort_by_key(|(number, _)| number.unwrap_or(u64::MAX));
        Ok(Self { logs: logs.into_iter().map(|(_, file)| file).collect(), ends, others })
    }

    /// Returns the lines of all files.
    pub fn lines(&self) -> Result<impl Iterator<Item = Result<Vec<u8>, Error>>, Error> {
        let mut logs = Vec::new();
        for file in &self.logs {
            logs.push((file, open(file)?));
        }
        let read = |file| move |line: std::io::Result<_>| line.map_err(Error::io(file));
        Ok(logs.into_iter().flat_map(move |(file, log)| log.split(b'\n').map(read(file))))
    }
}

/// Opens a file of a log.
pub(super) fn open(file: &Path) -> Result<BufReader<File>, Error> {
    File::open(file).map(BufReader::new).map_err(Error::io(file))
}

fn is_end(path: &Path) -> bool {
    path.to_string_lossy().ends_with(END)
}

/// Returns the number of the first record. `None` if the file has no record at its start.
fn first_number(file: &Path) -> Result<Option<u64>, Error> {
    for line in open(file)?.take(START).split(b'\n') {
        if let Ok(record) = serde_json::from_slice::<Number>(&line.map_err(Error::io(file))?) {
            return Ok(Some(record.number));
        }
    }
    Ok(None)
}

/// Reads the file beside a log. `None` if there is none, or if it is new.
fn end_of(log: &Path) -> Result<Option<End>, Error> {
    let mut file = log.as_os_str().to_owned();
    file.push(END);
    let file = PathBuf::from(file);
    let mut text = Vec::new();
    if !file.is_file() {
        return Ok(None);
    }
    open(&file)?.take(MOST_END).read_to_end(&mut text).map_err(Error::io(&file))?;
    Ok(serde_json::from_slice::<Hash>(&text).ok().map(|end| End { file, hash: end.hash }))
}
