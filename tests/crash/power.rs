//! A power cut at any moment: unsynced writes are lost, partly written, or complete. Acknowledged
//! changes exist afterwards.
//!
//! The test records a run, and rebuilds the files as a power cut at one moment may leave them. An
//! unsynced write may reach the disk completely, in part (any of its sectors) or not at all,
//! independently of earlier writes. Bytes beside a write keep their values, as SQLite expects
//! (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).

use super::*;
use crate::many::{self, client, tokens_of, verify, workers};
use crate::worker::pin;

/// The number of calls with one token: enough for a few checkpoints, which come every 1000 pages.
const CALLS: usize = 700;
const CALLS_OF_MANY: usize = 400;
const SECTOR: usize = 512;

/// Files by name, as they are on disk.
type Files = BTreeMap<String, Vec<u8>>;

/// The argument is the number of tokens, and the seed.
pub fn child() {
    let (tokens, seed): (usize, u64) = argument();
    let (calls, rounds) = match tokens {
        1 => (CALLS, rounds()),
        _ => (CALLS_OF_MANY, many::rounds()),
    };
    let directory = directory();
    let mut random = Random::seeded(seed);
    let recording = Recording::of(&directory, || {
        let (one, slots) = client(&directory, tokens);
        let mut workers = workers(&one, &slots, "p", seed, |line| vfs::note(Event::Said(line)));
        for _ in 0..calls {
            workers[random.below(tokens as u64) as usize].step();
        }
        drop(workers);
        one.finalize().expect("a module");
    });
    let cuts = recording.cut(rounds, &mut random, |built, said| verify(built, said, "p", tokens));
    let (acknowledged, objects, caught) = (cuts.acknowledged, cuts.objects, cuts.caught);
    let events = &recording.events;
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    let syncs = count(|event| matches!(event, Event::Sync { .. }));
    let closed = count(|event| matches!(event, Event::Delete { .. }));
    println!(
        "{rounds} power cuts on {tokens} tokens in {} writes, {syncs} syncs and {closed} closings: {acknowledged} \
         acknowledged calls found, {objects} objects verified; on a disk that ignores syncs, {caught} cuts lose data",
        events.len() - syncs - said(events).count()
    );
    assert!(acknowledged > 0 && caught > 0 && (tokens == 1 || closed > tokens));
}

/// The writes of a run, and the files before it.
pub struct Recording {
    before: Files,
    pub events: Vec<Event>,
}

/// The sums of what the checks after all power cuts found.
#[derive(Default)]
pub struct Cuts {
    pub acknowledged: u64,
    pub objects: usize,
    /// The number of checks that fail on a disk that ignores syncs.
    pub caught: usize,
}

impl Recording {
    /// Records `work` in a directory. No other process may use the directory.
    pub fn of(directory: &Directory, work: impl FnOnce()) -> Self {
        let before = read(directory);
        vfs::start();
        work();
        Self { before, events: vfs::stop() }
    }

    /// Cuts the power at random moments. `check` compares the files after a cut with the lines that
    /// the process noted before. Returns the number of acknowledged calls and of objects, or the
    /// first difference.
    pub fn cut(
        &self,
        rounds: u64,
        random: &mut Random,
        check: impl Fn(&Arc<Directory>, &[&str]) -> Result<(u64, usize), String>,
    ) -> Cuts {
        let (events, mut cuts) = (&self.events, Cuts::default());
        for _ in 0..rounds {
            let end = random.below(events.len() as u64 + 1) as usize;
            let how = How::any(random);
            let built = rebuild(&self.before, &events[..end], random, how, true);
            let said: Vec<_> = said(&events[..end]).collect();
            match check(&built, &said) {
                Ok(found) => {
                    cuts.acknowledged += found.0;
                    cuts.objects += found.1;
                }
                Err(reason) => panic!("after {end} of {} events, {how:?}: {reason}", events.len()),
            }
            // A disk that ignores syncs. The check must detect the loss.
            let lying = rebuild(&self.before, &events[..end], random, How::Lost, false);
            cuts.caught += usize::from(check(&lying, &said).is_err());
        }
        cuts
    }
}

/// Files of more tokens than may be open are closed and opened again.
pub fn case(tokens: usize) {
    let directory = tokens_of(tokens, &pin(0));
    Process::start("power", &directory, (tokens, Random::new("JETON_CRASH_SEED").below(u64::MAX))).echo();
}

fn said(events: &[Event]) -> impl Iterator<Item = &str> {
    events.iter().filter_map(|event| if let Event::Said(line) = event { Some(line.as_str()) } else { None })
}

fn read(directory: &Directory) -> Files {
    let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
    let files = files_below(directory.path()).into_iter();
    files.map(|path| (name(&path), std::fs::read(path).expect("a file"))).collect()
}

/// The effect of a power cut on unsynced writes.
#[derive(Debug, Clone, Copy)]
enum How {
    Lost,
    There,
    /// Each write is lost, complete or partial, at random.
    Torn,
}

impl How {
    fn any(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::Lost,
            1 => Self::There,
            _ => Self::Torn,
        }
    }
}

/// Returns the files after these events and a power cut. If `honest` is false, the disk ignores
/// syncs.
fn rebuild(before: &Files, events: &[Event], random: &mut Random, how: How, honest: bool) -> Arc<Directory> {
    let mut files = before.clone();
    let mut pending: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        match event {
            Event::Write { file, .. } | Event::Truncate { file, .. } | Event::Delete { file } => {
                pending.entry(file).or_default().push(event);
            }
            // The first sync of a new file syncs its directory too.
            Event::Sync { file } if honest => {
                let events = pending.remove(file.as_str()).unwrap_or_default();
                events.into_iter().for_each(|event| apply(&mut files, event));
            }
            Event::Sync { .. } | Event::Said(_) => {}
        }
    }
    for events in pending.into_values() {
        for event in events {
            let there = match how {
                How::Lost => false,
                How::There => true,
                How::Torn => random.below(2) == 0,
            };
            if there {
                apply(&mut files, event);
            } else if matches!(event, Event::Delete { .. }) {
                // Later writes belong to another file with this name.
                break;
            } else if let (How::Torn, Event::Write { file, at, bytes }) = (&how, event) {
                for (place, sector) in bytes.chunks(SECTOR).enumerate() {
                    if random.below(2) == 0 {
                        put(files.entry(file.clone()).or_default(), at + place * SECTOR, sector);
                    }
                }
            }
        }
    }
    let directory = Directory::new();
    for (name, bytes) in &files {
        std::fs::write(directory.path().join(name), bytes).expect("a file");
    }
    directory
}

fn apply(files: &mut Files, event: &Event) {
    match event {
        Event::Write { file, at, bytes } => put(files.entry(file.clone()).or_default(), *at, bytes),
        Event::Truncate { file, len } => files.entry(file.clone()).or_default().resize(*len, 0),
        Event::Delete { file } => {
            files.remove(file);
        }
        Event::Sync { .. } | Event::Said(_) => {}
    }
}

fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}
