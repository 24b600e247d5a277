//! A power cut at any moment: unsynced writes are lost, partly written, or complete. Acknowledged
//! changes exist afterwards.
//!
//! The test records a run, and rebuilds the files as a power cut at one moment may leave them. An
//! unsynced write may reach the disk completely, in part (any of its sectors) or not at all,
//! independently of earlier writes. Bytes beside a write keep their values, as SQLite expects
//! (`SQLITE_IOCAP_POWERSAFE_OVERWRITE`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jeton::module::Access;

use crate::model::Model;
use crate::process::{Process, Random, client, directory, number, token, unlock};
use crate::support::Directory;
use crate::vfs::{self, Event};
use crate::worker::{Worker, pin, try_log_in};

/// Enough for a few checkpoints, which come every 1000 pages.
const CALLS: usize = 700;
const SECTOR: usize = 512;

/// Files by name, as they are on disk.
pub type Files = BTreeMap<String, Vec<u8>>;

pub fn child() {
    let rounds: u64 = number("JETON_CRASH_ROUNDS", 40);
    let directory = directory();
    let before = read(&directory);
    vfs::start();
    let one = client(&directory, u32::MAX);
    let mut worker = Worker::new(&one, 0, true, "p", |line| vfs::note(Event::Said(line)));
    (0..CALLS).for_each(|_| worker.step());
    one.module.finalize().expect("a module");
    let events = vfs::stop();
    let mut random = Random::seeded(number("JETON_CRASH_SEED", 0));
    let (mut acknowledged, mut objects, mut caught) = (0, 0, 0);
    for _ in 0..rounds {
        let end = random.below(events.len() as u64 + 1) as usize;
        let how = How::any(&mut random);
        let built = rebuild(&before, &events[..end], &mut random, how, true);
        let model = Model::of(said(&events[..end]));
        match check(&built, &model) {
            Ok(count) => objects += count,
            Err(reason) => panic!("after {end} of {} events, {how:?}: {reason}", events.len()),
        }
        acknowledged += model.acknowledged;
        // A disk that ignores syncs. The test must detect the loss.
        let lying = rebuild(&before, &events[..end], &mut random, How::Lost, false);
        caught += usize::from(check(&lying, &model).is_err());
    }
    let syncs = events.iter().filter(|event| matches!(event, Event::Sync { .. })).count();
    println!(
        "{rounds} power cuts in {} writes and {syncs} syncs: {acknowledged} acknowledged calls found, {objects} objects \
         verified; on a disk that ignores syncs, {caught} cuts lose data",
        events.len() - syncs - said(&events).count()
    );
    assert!(acknowledged > 0 && caught > 0);
}

pub fn case() {
    let directory = token();
    let one = client(&directory, u32::MAX);
    unlock(&one, &pin(0));
    one.module.finalize().expect("a module");
    let seed = [("JETON_CRASH_SEED", Random::new().below(u64::MAX).to_string())];
    Process::start("power", &directory, &seed).wait().iter().for_each(|line| println!("{line}"));
}

pub fn said(events: &[Event]) -> impl Iterator<Item = &str> {
    events.iter().filter_map(|event| if let Event::Said(line) = event { Some(line.as_str()) } else { None })
}

/// Returns the files of a directory.
pub fn read(directory: &Directory) -> Files {
    let entries =
        std::fs::read_dir(directory.path()).expect("a directory").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| {
            (entry.file_name().into_string().expect("a name"), std::fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

/// The effect of a power cut on unsynced writes.
#[derive(Debug, Clone, Copy)]
pub enum How {
    Lost,
    There,
    /// Each write is lost, complete or partial, at random.
    Torn,
}

impl How {
    pub fn any(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::Lost,
            1 => Self::There,
            _ => Self::Torn,
        }
    }
}

/// Returns the files after these events and a power cut. If `honest` is false, the disk ignores
/// syncs.
pub fn rebuild(
    before: &Files,
    events: &[Event],
    random: &mut Random,
    how: How,
    honest: bool,
) -> Arc<Directory> {
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
            } else if matches!(how, How::Torn) {
                tear(&mut files, event, random);
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

/// Applies random sectors of a write.
fn tear(files: &mut Files, event: &Event, random: &mut Random) {
    let Event::Write { file, at, bytes } = event else { return };
    for (place, sector) in bytes.chunks(SECTOR).enumerate() {
        if random.below(2) == 0 {
            put(files.entry(file.clone()).or_default(), at + place * SECTOR, sector);
        }
    }
}

fn put(content: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if content.len() < at + bytes.len() {
        content.resize(at + bytes.len(), 0);
    }
    content[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Opens the token. Returns the number of objects, or the first difference from the acknowledged
/// state.
fn check(directory: &Arc<Directory>, model: &Model) -> Result<usize, String> {
    let client = client(directory, u32::MAX);
    let (acknowledged, in_doubt) = model.pins(0);
    let session = client
        .module
        .open_session(client.slot, Access::ReadWrite)
        .map_err(|error| format!("no token: {error:?}"))?;
    let opens = |number| try_log_in(&client, session, number).map_err(|error| format!("login: {error:?}"));
    if !opens(acknowledged)? && in_doubt.is_none_or(|number| opens(number) != Ok(true)) {
        return Err(format!("PIN {acknowledged} was acknowledged, and {in_doubt:?} in doubt"));
    }
    let verified = model.verify(&client, session, "p-");
    client.module.finalize().map_err(|error| format!("{error:?}"))?;
    verified.map(|verified| verified.objects)
}
