//! The tokens of a directory. Finds the token files, and knows the file of each token.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use tracing::error;

use super::OpenFile;
use super::direct::Reader;
use super::directory::Entry;
use super::failure::log_io_failure;
use super::pool::Pool;
use super::stamp::{DirectoryStamp, FileId, Stamp};
use super::stored::SqliteStore;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::store::source::{TokenSource, Watch};
use crate::store::{Header, Store};
use crate::sync::lock;

pub(crate) struct TokenDirectory {
    path: PathBuf,
    pool: Arc<Pool>,
    /// The result of the last look at the directory. It is locked while files are read, and before
    /// `files`.
    look: Mutex<Look>,
    files: Mutex<HashMap<String, TokenFile>>,
}

/// The file of a token when the token was found or created.
#[derive(Clone)]
struct TokenFile {
    path: PathBuf,
    id: FileId,
}

/// The result of the last look at the directory.
#[derive(Default)]
struct Look {
    /// The stamp of the directory before the look; `None` if the next call must look again.
    directory: Option<DirectoryStamp>,
    /// The files that were left out because they are not tokens, or are copies of one. The stamp
    /// tells whether a file has changed since. The log names each file once.
    left_out: HashMap<FileId, (PathBuf, Stamp)>,
}

impl Look {
    /// Returns whether a new look would find the same.
    fn is_current(&self, dir: &Path) -> bool {
        self.directory.is_some()
            && self.directory == DirectoryStamp::settled(dir)
            && self.left_out.values().all(|(path, stamp)| Stamp::of(path).as_ref() == Some(stamp))
    }

    fn leaves_out(&self, stamp: &Stamp) -> bool {
        self.left_out.get(&stamp.file).is_some_and(|(_, known)| known == stamp)
    }
}

impl TokenDirectory {
    /// Returns the configured directory. Fails with `DeviceError` if every user may write to it.
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        SqliteStore::check_directory(&settings.token_dir)?;
        Ok(Self {
            path: settings.token_dir.clone(),
            pool: Pool::new(settings.open_tokens),
            look: Mutex::default(),
            files: Mutex::default(),
        })
    }

    fn file(&self, serial: &str) -> Result<TokenFile> {
        lock(&self.files).get(serial).cloned().ok_or(Error::DeviceRemoved)
    }

    /// Returns the files that may be tokens, and are not the file of a token under its name.
    fn unknown(&self) -> Result<Vec<Entry>> {
        let mut entries = SqliteStore::entries(&self.path)?;
        let files = lock(&self.files);
        let known: HashMap<&Path, FileId> =
            files.values().map(|file| (file.path.as_path(), file.id)).collect();
        // The inode number in the directory entry shows that the name still has the same file.
        let is_known =
            |entry: &Entry| known.get(entry.path.as_path()).is_some_and(|file| file.inode == entry.inode);
        entries.retain(|entry| !is_known(entry));
        Ok(entries)
    }

    /// Returns the files that may be tokens, belong to no known token, and are not left out. Each
    /// has its stamp.
    fn new_files(&self) -> Result<Vec<(PathBuf, Stamp)>> {
        let look = lock(&self.look);
        if look.is_current(&self.path) {
            return Ok(Vec::new());
        }
        let unknown = self.unknown()?;
        let known: HashSet<_> = lock(&self.files).values().map(|file| file.id).collect();
        let stamped = unknown.into_iter().filter_map(|entry| Some((Stamp::of(&entry.path)?, entry.path)));
        let new = stamped.filter(|(stamp, _)| !known.contains(&stamp.file) && !look.leaves_out(stamp));
        Ok(new.map(|(stamp, path)| (path, stamp)).collect())
    }
}

impl TokenSource for TokenDirectory {
    /// Returns the tokens that are new since the last call. Fails with `HostMemory` if the process
    /// has no descriptors left, so that no token seems to be missing. The next call finds all of
    /// them.
    fn list(&self) -> Result<Vec<Header>> {
        let mut look = lock(&self.look);
        if look.is_current(&self.path) {
            return Ok(Vec::new());
        }
        // The stamp of the directory is taken before the look, so that the next call finds a later
        // change.
        look.directory = None;
        let directory = DirectoryStamp::settled(&self.path);
        let unknown = self.unknown()?;
        let known = if unknown.is_empty() { HashMap::new() } else { lock(&self.files).clone() };
        let mut search = Search {
            source: self,
            look: &mut look,
            ids: known.values().map(|file| file.id).collect(),
            files: known,
            present: HashSet::new(),
            reader: Reader::default(),
            found: Vec::new(),
        };
        let outcome = search.read_all(&unknown)?;
        let Search { files, found, present, .. } = search;
        lock(&self.files).extend(files);
        look.left_out.retain(|file, _| present.contains(file));
        if outcome == Files::AllRead {
            look.directory = directory;
        }
        Ok(found)
    }

    fn watch(&self) -> Watch<'_> {
        let (mut before, mut listed) = (None, None);
        Box::new(move || {
            let new = self.new_files()?;
            // A new file is opened when it has not changed since the previous check. So this does
            // not disturb the process that creates it, and a file that is not a token does not fill
            // the log. The first check opens every file, so that the call has a result at once.
            let rests = before.as_ref().is_none_or(|before| *before == new);
            let is_due = !new.is_empty() && rests && listed.as_ref() != Some(&new);
            if is_due {
                listed = Some(new.clone());
            }
            before = Some(new);
            Ok(is_due)
        })
    }

    fn create(&self, header: &Header) -> Result<()> {
        let path = OpenFile::create(&self.path, header)?;
        let data = std::fs::symlink_metadata(&path);
        let id = FileId::from(&data.map_err(|reason| log_io_failure(&path, "create", &reason))?);
        lock(&self.files).insert(header.serial.clone(), TokenFile { path, id });
        Ok(())
    }

    fn open(self: Arc<Self>, serial: &str) -> Result<Box<dyn Store>> {
        let TokenFile { path, id } = self.file(serial)?;
        let store = SqliteStore::open_again(&self.pool, &path, id)?;
        if store.header()?.serial != serial {
            error!(file = %path.display(), serial, "the file has another token now");
            return Err(Error::DeviceRemoved);
        }
        Ok(Box::new(store))
    }

    fn closed_header(&self, serial: &str) -> Option<Header> {
        let TokenFile { path, id } = self.file(serial).ok()?;
        let (header, stamp) = Reader::default().read(&path)?;
        (stamp.file == id && header.serial == serial).then_some(header)
    }

    fn looks_writable(&self, serial: &str) -> bool {
        let may_write = |path: &Path| accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
        self.file(serial).is_ok_and(|file| may_write(&file.path) && may_write(&self.path))
    }
}

/// Whether every file could be read.
#[derive(PartialEq, Eq)]
enum Files {
    AllRead,
    /// The next call tries the files that failed again.
    SomeFailed,
}

/// A search for new tokens in the files of the directory.
struct Search<'a> {
    source: &'a TokenDirectory,
    look: &'a mut Look,
    /// The files of the known tokens and of those that were found.
    files: HashMap<String, TokenFile>,
    ids: HashSet<FileId>,
    /// The files that were checked.
    present: HashSet<FileId>,
    reader: Reader,
    found: Vec<Header>,
}

impl Search<'_> {
    fn read_all(&mut self, unknown: &[Entry]) -> Result<Files> {
        let mut files = Files::AllRead;
        for entry in unknown {
            let Some(stamp) = Stamp::of(&entry.path) else { continue };
            self.present.insert(stamp.file);
            // A second name of a file is the same token.
            if self.ids.contains(&stamp.file) || self.look.leaves_out(&stamp) {
                continue;
            }
            match self.add(entry) {
                Ok(()) => {}
                // A damaged file must not make the other tokens unavailable. The log names it, and
                // it is not opened again until it changes.
                Err(Error::TokenNotRecognized) => {
                    let stamp = Stamp::of(&entry.path);
                    self.look.left_out.extend(stamp.map(|stamp| (stamp.file, (entry.path.clone(), stamp))));
                }
                Err(Error::HostMemory) => return Err(Error::HostMemory),
                Err(_) => files = Files::SomeFailed,
            }
        }
        Ok(files)
    }

    /// Adds the token of a file. Opens the file only if its header cannot be read without. Fails
    /// with `TokenNotRecognized` if a token with the same serial number is known, because the file
    /// is a copy.
    fn add(&mut self, entry: &Entry) -> Result<()> {
        let (header, id) = match self.reader.read(&entry.path) {
            Some((header, stamp)) => (header, stamp.file),
            None => {
                let store = SqliteStore::open_in(&self.source.pool, &entry.path)?;
                (store.header()?, store.file())
            }
        };
        if self.files.contains_key(&header.serial) {
            error!(
                file = %entry.path.display(),
                serial = header.serial,
                "token left out: a token with this serial number has a slot already, and this file is a copy of it"
            );
            return Err(Error::TokenNotRecognized);
        }
        self.ids.insert(id);
        self.files.insert(header.serial.clone(), TokenFile { path: entry.path.clone(), id });
        self.found.push(header);
        Ok(())
    }
}
