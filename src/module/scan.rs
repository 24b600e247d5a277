//! Looks for the tokens of the directory or of the database server, and gives each a slot.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::error;

use super::Slot;
use super::tokens::{Home, Known};
use crate::error::{Error, Result};
use crate::id::SlotId;
use crate::store::sqlite::stamp::{DirectoryStamp, FileId, Stamp};
use crate::store::sqlite::{Entry, Found, Reader, SqliteStore};
use crate::store::{Header, Store, TokenServer};

/// The result of the last look at the directory.
#[derive(Default)]
pub(super) struct Look {
    /// The stamp of the directory before the look; `None` if the next call must look again.
    directory: Option<DirectoryStamp>,
    /// The files that were left out because they are not tokens, or are copies of one. The stamp
    /// tells whether a file has changed since. The log names each file once.
    left_out: HashMap<FileId, (PathBuf, Stamp)>,
}

impl Look {
    /// Returns whether a new look would find the same.
    pub(super) fn is_current(&self, dir: &Path) -> bool {
        self.directory.is_some()
            && self.directory == DirectoryStamp::settled(dir)
            && self.left_out.values().all(|(path, stamp)| SqliteStore::stamp(path).as_ref() == Some(stamp))
    }

    fn has(&self, stamp: &Stamp) -> bool {
        self.left_out.get(&stamp.file).is_some_and(|(_, known)| known == stamp)
    }
}

/// The slots that a scan fills.
struct Filling<'a> {
    home: &'a Home,
    slots: &'a mut Vec<Slot>,
    files: HashSet<FileId>,
    serials: HashSet<String>,
    taken: HashSet<SlotId>,
    /// The files that this scan checked: those that had no slot under their name.
    present: HashSet<FileId>,
    reader: Reader,
}

/// Gives slots to the tokens that have none. Makes sure that the last slot has no token. Fails
/// with `HostMemory` if the process has no descriptors left; the slots keep their tokens.
pub(super) fn scan(home: &Home, slots: &mut Vec<Slot>, look: &mut Look) -> Result<()> {
    if let Some(server) = &home.server {
        return scan_server(server, slots);
    }
    let dir = &home.settings.token_dir;
    // The stamp of the directory is taken before the look, so that the next call finds a later
    // change.
    look.directory = None;
    let directory = DirectoryStamp::settled(dir);
    let unknown = unknown(dir, slots)?;
    let tokens = |slots: &[Slot]| slots.iter().filter_map(|slot| slot.token.clone()).collect::<Vec<_>>();
    let known = if unknown.is_empty() { Vec::new() } else { tokens(slots) };
    let mut filling = Filling {
        home,
        slots,
        files: known.iter().filter_map(|token| token.file()).map(|(_, id)| id).collect(),
        serials: known.iter().map(|token| token.serial.clone()).collect(),
        taken: known.iter().map(|token| token.slot).collect(),
        present: HashSet::new(),
        reader: Reader::default(),
    };
    let outcome = filling.fill(&unknown, look);
    let present = filling.present;
    finish(slots);
    let outcome = outcome?;
    look.left_out.retain(|file, _| present.contains(file));
    if outcome == Files::AllRead {
        look.directory = directory;
    }
    Ok(())
}

/// Gives slots to the tokens of a server that have none. During an outage the slots stay as they
/// are.
fn scan_server(server: &Arc<dyn TokenServer>, slots: &mut Vec<Slot>) -> Result<()> {
    let known: HashSet<_> =
        slots.iter().filter_map(|slot| Some(slot.token.as_ref()?.serial.clone())).collect();
    let headers = match server.headers() {
        Err(Error::DeviceError) if !known.is_empty() => return Ok(()),
        headers => headers?,
    };
    let mut taken: HashSet<_> =
        slots.iter().filter(|slot| slot.token.is_some()).map(|slot| slot.id).collect();
    for header in headers.iter().filter(|header| !known.contains(&header.serial)) {
        let id = slot_for(header, &taken, slots);
        taken.insert(id);
        let token = Known::on_server(id, server, header);
        slots.push(Slot { id, token: Some(Arc::new(token)), event: true });
    }
    finish(slots);
    Ok(())
}

/// Returns the slot that a token asks for, or the next free slot if another token has that slot.
fn slot_for(header: &Header, taken: &HashSet<SlotId>, slots: &[Slot]) -> SlotId {
    let wanted = SlotId(header.slot);
    if taken.contains(&wanted) { next_free(slots) } else { wanted }
}

/// Whether every file could be read.
#[derive(PartialEq, Eq)]
enum Files {
    AllRead,
    /// The next call tries the files that failed again.
    SomeFailed,
}

/// Whether a token file is open after its header was read.
enum Source {
    Closed(Stamp),
    Open(SqliteStore),
}

impl Filling<'_> {
    fn fill(&mut self, unknown: &[Entry], look: &mut Look) -> Result<Files> {
        let mut files = Files::AllRead;
        for entry in unknown {
            // While no file is left out, as in `C_Initialize`, the header is read first. The stamp
            // of the file comes with it.
            let found = if look.left_out.is_empty() { entry.header(&mut self.reader) } else { None };
            let Some(stamp) = found.as_ref().map(|(_, stamp)| stamp.clone()).or_else(|| entry.stamp()) else {
                continue;
            };
            self.present.insert(stamp.file);
            // A second name of a file is the same token.
            if self.files.contains(&stamp.file) || look.has(&stamp) {
                continue;
            }
            let found = found.or_else(|| entry.header(&mut self.reader));
            match self.adopt(entry, found) {
                Ok(()) => {}
                // A damaged file must not make the other tokens unavailable. The log names it, and
                // it is not opened again until it changes.
                Err(Error::TokenNotRecognized) => {
                    let stamp = SqliteStore::stamp(&entry.path);
                    look.left_out.extend(stamp.map(|stamp| (stamp.file, (entry.path.clone(), stamp))));
                }
                // Without descriptors the call fails, so that no token seems to be missing.
                Err(Error::HostMemory) => return Err(Error::HostMemory),
                Err(reason) => {
                    error!(file = %entry.path.display(), ?reason, "token left out");
                    files = Files::SomeFailed;
                }
            }
        }
        Ok(files)
    }

    /// Gives the token of a file the slot that the file names, or the next free slot if another
    /// token has that slot. Fails with `TokenNotRecognized` if a token with the same serial number
    /// is known, because the file is a copy.
    fn adopt(&mut self, entry: &Entry, found: Option<Found>) -> Result<()> {
        let (header, source) = match found {
            Some((header, stamp)) => (header, Source::Closed(stamp)),
            None => {
                let store = SqliteStore::open_in(&self.home.pool, &entry.path, self.home.probing())?;
                (store.header()?, Source::Open(store))
            }
        };
        if self.serials.contains(&header.serial) {
            error!(
                file = %entry.path.display(),
                serial = header.serial,
                "token left out: a token with this serial number has a slot already, and this file is a copy of it"
            );
            return Err(Error::TokenNotRecognized);
        }
        let id = slot_for(&header, &self.taken, self.slots);
        let token = match source {
            Source::Closed(stamp) => Known::closed(id, &entry.path, stamp, &header),
            Source::Open(store) => Known::open(self.home, id, &entry.path, store, &header)?,
        };
        self.files.extend(token.file().map(|(_, id)| id));
        self.serials.insert(header.serial);
        self.taken.insert(id);
        self.slots.push(Slot { id, token: Some(Arc::new(token)), event: true });
        Ok(())
    }
}

/// Sorts the slots, and makes sure that the last one has no token.
pub(super) fn finish(slots: &mut Vec<Slot>) {
    slots.sort_by_key(|slot| (slot.id, slot.token.is_none()));
    // Another process may have initialised the token in a slot that is empty here.
    slots.dedup_by_key(|slot| slot.id);
    slots.sort_by_key(|slot| (slot.token.is_none(), slot.id));
    if slots.iter().all(|slot| slot.token.is_some()) {
        slots.push(Slot { id: next_free(slots), token: None, event: false });
    }
}

/// Returns the files that may be tokens and have no slot under their name.
fn unknown(dir: &Path, slots: &[Slot]) -> Result<Vec<Entry>> {
    let tokens = slots.iter().filter_map(|slot| slot.token.as_ref());
    let known: HashMap<&Path, FileId> = tokens.filter_map(|token| token.file()).collect();
    let mut entries = SqliteStore::entries(dir)?;
    // The inode number in the directory entry shows that the name still has the same file.
    let has_slot =
        |entry: &Entry| known.get(entry.path.as_path()).is_some_and(|file| file.has_inode(entry.inode));
    entries.retain(|entry| !has_slot(entry));
    Ok(entries)
}

/// Returns the files that may be tokens, have no slot, and are not left out. Each has its stamp.
pub(super) fn strangers(dir: &Path, slots: &[Slot], look: &Look) -> Result<Vec<(PathBuf, Stamp)>> {
    let files: HashSet<_> = slots.iter().filter_map(|slot| Some(slot.token.as_ref()?.file()?.1)).collect();
    let stamped = unknown(dir, slots)?.into_iter().filter_map(|entry| Some((entry.stamp()?, entry.path)));
    let new = stamped.filter(|(stamp, _)| !files.contains(&stamp.file) && !look.has(stamp));
    Ok(new.map(|(stamp, path)| (path, stamp)).collect())
}

fn next_free(slots: &[Slot]) -> SlotId {
    SlotId(slots.iter().map(|slot| slot.id.0 + 1).max().unwrap_or(0))
}
