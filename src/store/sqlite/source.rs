//! The tokens of a directory. Finds the token files, and knows the file of each token.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use tracing::error;

use super::OpenFile;
use super::directory::Entry;
use super::failure::{log_io_failure, log_not_a_token};
use super::file_identity::{DirectoryStamp, FileId, Stamp};
use super::header::Reader;
use super::layout;
use super::pool::Pool;
use super::token_store::SqliteStore;
use crate::config::Settings;
use crate::error::{Error, Result};
use crate::store::source::{TokenSource, Watch};
use crate::store::{Header, Store, is_serial};
use crate::sync::lock;

pub(crate) struct TokenDirectory {
    path: PathBuf,
    /// The serial numbers of the tokens to look for; `None` for all.
    only: Option<Vec<String>>,
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
    /// The files that were left out because they are not tokens, or are copies of one. The log
    /// names each file once.
    left_out: HashMap<FileId, LeftOut>,
    /// The files that are missing in their own directories.
    missing: Vec<PathBuf>,
}

/// A file that was left out, with the stamps that tell whether it has changed since.
#[derive(PartialEq, Eq)]
struct LeftOut {
    path: PathBuf,
    stamp: Stamp,
    own_directory: Option<Stamp>,
}

impl LeftOut {
    fn of(path: &Path) -> Option<Self> {
        let own_directory = layout::own_directory(path).and_then(Stamp::of);
        Some(Self { path: path.to_owned(), stamp: Stamp::of(path)?, own_directory })
    }

    fn is_current(&self) -> bool {
        Self::of(&self.path).as_ref() == Some(self)
    }
}

impl Look {
    /// Returns whether a new look would find the same.
    fn is_current(&self, dir: &Path) -> bool {
        self.directory.is_some()
            && self.directory == DirectoryStamp::settled(dir)
            && self.left_out.values().all(LeftOut::is_current)
            && self.missing.iter().all(|path| layout::is_missing(path))
    }

    fn leaves_out(&self, file: FileId) -> bool {
        self.left_out.get(&file).is_some_and(LeftOut::is_current)
    }
}

impl TokenDirectory {
    /// Returns the configured directory. Fails with `DeviceError` if every user may write to it.
    pub(crate) fn open(settings: &Settings) -> Result<Self> {
        SqliteStore::check_directory(&settings.token_dir)?;
        let only = settings.tokens.as_ref().map(|seen| seen.serials.clone());
        Ok(Self { only, ..Self::new(&settings.token_dir, settings.open_tokens) })
    }

    /// Returns the tokens of a directory, of which this number of files may be open.
    fn new(path: &Path, open_tokens: usize) -> Self {
        let pool = Pool::new(open_tokens);
        Self { path: path.to_owned(), only: None, pool, look: Mutex::default(), files: Mutex::default() }
    }

    /// Returns the headers of the tokens of a directory, and the paths of their files. No file
    /// stays open.
    pub(crate) fn headers(path: &Path) -> Result<Vec<(Header, PathBuf)>> {
        SqliteStore::check_directory(path)?;
        let source = Self::new(path, 1);
        let headers = source.list()?.into_iter();
        headers.map(|header| source.file(&header.serial).map(|file| (header, file.path))).collect()
    }

    fn file(&self, serial: &str) -> Result<TokenFile> {
        lock(&self.files).get(serial).cloned().ok_or(Error::DeviceRemoved)
    }

    /// Returns the files that may be tokens, and are not the file of a token under its name.
    fn unknown(&self) -> Result<Vec<Entry>> {
        let own = |serial: &String| is_serial(serial.as_bytes()).then(|| Entry::own(&self.path, serial));
        let mut entries = match &self.only {
            Some(serials) => serials.iter().filter_map(own).collect(),
            None => SqliteStore::entries(&self.path)?,
        };
        let files = lock(&self.files);
        let known: HashMap<&Path, FileId> =
            files.values().map(|file| (file.path.as_path(), file.id)).collect();
        // The inode number in the directory entry shows that the name still has the same file.
        // A directory of its own keeps its token.
        let has = |file: &FileId, inode: Option<u64>| inode.is_none_or(|inode| file.inode == inode);
        let is_known =
            |entry: &Entry| known.get(entry.path.as_path()).is_some_and(|file| has(file, entry.inode));
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
        let new = stamped.filter(|(stamp, _)| !known.contains(&stamp.file) && !look.leaves_out(stamp.file));
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
        look.missing.clear();
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
        let directory = |file: &TokenFile| file.path.parent().is_some_and(may_write);
        self.file(serial).is_ok_and(|file| may_write(&file.path) && directory(&file))
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
            let file = match entry.path.symlink_metadata() {
                Ok(data) => FileId::from(&data),
                Err(reason) => {
                    if reason.kind() == ErrorKind::NotFound {
                        self.look.missing.push(entry.path.clone());
                    } else {
                        // It may be the directory of another user.
                        log_not_a_token(&entry.path, &reason);
                        files = Files::SomeFailed;
                    }
                    continue;
                }
            };
            self.present.insert(file);
            // A second name of a file is the same token.
            if self.ids.contains(&file) || self.look.leaves_out(file) {
                continue;
            }
            match self.add(entry) {
                Ok(()) => {}
                // A damaged file must not make the other tokens unavailable. The log names it, and
                // it is not opened again until it changes.
                Err(Error::TokenNotRecognized) => {
                    let file = LeftOut::of(&entry.path);
                    self.look.left_out.extend(file.map(|file| (file.stamp.file, file)));
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
        layout::check_serial(&entry.path, &header.serial)?;
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
