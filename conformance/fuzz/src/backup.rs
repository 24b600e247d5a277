//! The fuzz target of `jeton backup verify` and `jeton backup restore`. The input alters a backup
//! outside its encryption, or inside it: everyone who knows a recipient can encrypt.
//!
//! These are findings too: a file that remains although the backup was refused, a file outside the
//! token directory, and a restored token that is damaged or cannot be opened.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use zeroize::Zeroizing;

use super::{Error, store};
use crate::migrate::spliced;
use crate::source::Source;
use crate::token::{PIN, SO_PIN, Token, paths_in};
use crate::tool::backup::{self, Header, Identity, Keys, Opened, Output, Protection, Recipient};
use crate::tool::token_file::{self, Login, Pins, Restore, Role};

/// The first line of the content.
const VERSION: &[u8] = b"jeton backup 1\n";
/// The page size of a token file.
const PAGE: usize = 4096;
/// The number of bytes at the start of a backup that contain age's header.
const HEADER: usize = 512;

thread_local! {
    static BACKUP: RefCell<Backup> = RefCell::new(Backup::new());
}

/// Alters the backup as `bytes` describe, and restores it.
pub fn read(bytes: &[u8]) {
    BACKUP.with_borrow_mut(|backup| backup.read(&mut Source::new(bytes)));
}

struct Backup {
    /// The token. Its files exist only while a run needs them.
    token: Token,
    header: Header,
    store: Vec<u8>,
    file: Vec<u8>,
    recipient: Recipient,
    identities: Keys,
    passphrase: Keys,
}

struct Altered {
    file: Vec<u8>,
    has_passphrase: bool,
    /// Whether the PINs of the token are fast to check. A slow computation is not a finding.
    has_fast_pins: bool,
}

impl Backup {
    fn new() -> Self {
        let token = Token::new(false);
        token.finalize();
        let original = token_file::open(None, None).expect("the token");
        let identity = token.directory().join("identity");
        let recipient: Recipient =
            backup::new_identity(&identity).expect("a new file").parse().expect("a recipient");
        let (mut store, mut file) = (Vec::new(), Vec::new());
        let copy = token_file::copy(&original).expect("a copy");
        token_file::contents(&copy).expect("a copy").read_to_end(&mut store).expect("a copy");
        drop(copy);
        let protection = Protection::Recipients(vec![recipient]);
        let header =
            backup::create(&original, None, &protection, Output::Stream(&mut file)).expect("a backup");
        let identities = Keys::Identities(backup::read_keys(&identity).expect("an identity"));
        let passphrase = Keys::Passphrase(Zeroizing::new("a long passphrase".to_owned()));
        let backup = Self { token, header, store, file, recipient, identities, passphrase };
        backup.remove_tokens();
        backup
    }

    fn read(&mut self, source: &mut Source<'_>) {
        if source.once_in(16) {
            return self.read_keys(source);
        }
        let altered = self.altered(source);
        // The original prevents the restore.
        let has_original = source.once_in(16);
        self.token.write_files();
        if !has_original {
            self.remove_tokens();
        }
        let before = self.files();
        let restored = self.restore(&altered, source);
        let restored_stem = restored.as_ref().and_then(|path| path.file_stem()?.to_str());
        // The restore opens the original to read its serial number.
        let original = has_original.then_some(self.header.serial.as_str());
        for path in self.files().difference(&before) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_of_a_token = [restored_stem, original].iter().flatten().any(|stem| name.starts_with(stem));
            assert!(path.starts_with(self.token.tokens()) && is_of_a_token, "{path:?}");
        }
        if let Some(path) = restored {
            let tokens = token_file::all().expect("the directory");
            let token = tokens.iter().find(|token| token.path() == path).expect("the restored token");
            assert_eq!(token_file::damage(token).expect("the restored token"), [""; 0]);
        }
        self.remove_tokens();
    }

    /// Restores a backup. Returns the path of the restored token; `None` if the backup was refused.
    fn restore(&self, altered: &Altered, source: &mut Source<'_>) -> Option<PathBuf> {
        let Altered { file, has_passphrase, has_fast_pins } = altered;
        let keys = if *has_passphrase { &self.passphrase } else { &self.identities };
        let opened = Opened::open(Path::new("backup"), &file[..], keys, &self.token.tokens()).ok()?;
        let user = source.one(&[PIN, PIN, PIN, b"another PIN"]);
        let login = source.one(&[
            Login { role: Role::User, pin: user },
            Login { role: Role::SecurityOfficer, pin: SO_PIN },
        ]);
        if *has_fast_pins && source.once_in(2) {
            let _ = opened.check(login);
        }
        let pins = Pins { so: SO_PIN, user: opened.facts.has_user_pin.then_some(user) };
        let restored = match source.below(3) {
            0 if *has_fast_pins => opened.restore(Restore::NewState(login)),
            1 if *has_fast_pins => opened.restore(Restore::NewSerial(&pins)),
            _ => opened.restore(Restore::AsItIs),
        };
        restored.ok().map(|(_, path, _)| path)
    }

    fn altered(&self, source: &mut Source<'_>) -> Altered {
        if source.once_in(64) {
            return Altered { file: for_passphrase(source), has_passphrase: true, has_fast_pins: true };
        }
        let (mut header, mut store) = (self.header.clone(), self.store.clone());
        let mut has_fast_pins = true;
        let file = match source.below(8) {
            0 => [b"age-encryption.org/v1\n".to_vec(), source.rest()].concat(),
            1 => spliced(&self.file, source),
            2 => {
                let (head, rest) = self.file.split_at(HEADER);
                [spliced(head, source), rest.to_vec()].concat()
            }
            3 => self.encrypted(&spliced(&head(&header), source), &store),
            way => {
                let path = self.token.directory().join("store");
                if way < 6 {
                    fs::write(&path, &store).expect("a file");
                    store::alter(&path, source);
                    store = fs::read(&path).expect("a file");
                } else {
                    alter_pages(&mut store, source);
                    fs::write(&path, &store).expect("a file");
                }
                let mut fitting = header.clone();
                has_fast_pins = describe(&path, &mut fitting).unwrap_or(false);
                fs::remove_file(path).expect("a file");
                if !source.once_in(8) {
                    header = fitting;
                }
                self.encrypted(&head(&header), &store)
            }
        };
        Altered { file, has_passphrase: false, has_fast_pins }
    }

    fn encrypted(&self, head: &[u8], store: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let write = |plain: &mut dyn Write| {
            plain.write_all(head).and_then(|()| plain.write_all(store)).map_err(Error::io("memory"))
        };
        Protection::Recipients(vec![self.recipient]).encrypt(&mut file, write).expect("memory");
        file
    }

    /// Reads a file with identities or recipients.
    fn read_keys(&self, source: &mut Source<'_>) {
        let path = self.token.directory().join("keys");
        let prefix = source.one(&["", "AGE-SECRET-KEY-1", "age1", "# comment\n"]);
        fs::write(&path, [prefix.as_bytes().to_vec(), source.rest()].concat()).expect("a file");
        drop((backup::read_keys::<Identity>(&path), backup::read_keys::<Recipient>(&path)));
        fs::remove_file(path).expect("a file");
    }

    /// Returns the paths in the token directory and in the directory that contains it.
    fn files(&self) -> BTreeSet<PathBuf> {
        let directories = [self.token.directory().to_owned(), self.token.tokens()];
        let entries = directories.iter().flat_map(|path| fs::read_dir(path).expect("a directory"));
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    fn remove_tokens(&self) {
        for path in paths_in(&self.token.tokens()) {
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.expect("a file or a directory");
        }
    }
}

/// Returns the content of a backup before the store.
fn head(header: &Header) -> Vec<u8> {
    [VERSION, &serde_json::to_vec(header).expect("JSON"), b"\n"].concat()
}

/// Makes the header fit the store, if SQLite can read it. Returns whether the PINs are fast to
/// check.
fn describe(path: &Path, header: &mut Header) -> rusqlite::Result<bool> {
    let store = Connection::open(path)?;
    let sql = "SELECT serial, label, change, so_pin, user_pin FROM token";
    let (label, pins) = store.query_row(sql, [], |row| {
        header.serial = row.get(0)?;
        header.state = row.get(2)?;
        Ok((row.get::<_, Vec<u8>>(1)?, [row.get::<_, Vec<u8>>(3)?, row.get(4)?]))
    })?;
    header.label = String::from_utf8_lossy(&label).trim_end().to_owned();
    // A malformed file can have any number of rows.
    let count = "SELECT count(*) FROM (SELECT id FROM object LIMIT 10000)";
    header.objects = store.query_row(count, [], |row| row.get::<_, i64>(0))? as u64;
    // A PIN record starts with the memory in KiB and the number of passes.
    Ok(pins.iter().all(|record| record.is_empty() || matches!(record[..], [0..=64, 0..=2, ..])))
}

/// Alters the store up to four times: replaces bytes of a page, most often near its start, copies a
/// page over another one or to the end, or cuts the store.
fn alter_pages(store: &mut Vec<u8>, source: &mut Source<'_>) {
    for _ in 0..4 {
        if source.is_empty() {
            return;
        }
        let page = source.below(store.len() / PAGE) * PAGE;
        match source.below(8) {
            0 => {
                let other = source.below(store.len() / PAGE) * PAGE;
                store.copy_within(other..other + PAGE, page);
            }
            1 => store.extend_from_within(page..page + PAGE),
            2 if page > 0 => store.truncate(page + source.below(PAGE)),
            way => {
                let at = page + source.below(if way < 6 { 128 } else { PAGE });
                let new = source.bytes();
                let end = (at + new.len()).min(store.len());
                if let Some(old) = store.get_mut(at..end) {
                    old.copy_from_slice(&new[..old.len()]);
                }
            }
        }
    }
}

/// Returns a backup for a passphrase. The cost is small or invalid.
fn for_passphrase(source: &mut Source<'_>) -> Vec<u8> {
    let cost = source.one(&["1", "2", "0", "01", "-1", "", "21", "63", "64", "255", "256", "1 1"]);
    let salt = source.one(&["AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB", "AAAA", ""]);
    let body = source.one(&["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "AAAA", ""]);
    let mac = "A".repeat(43);
    let header = format!("age-encryption.org/v1\n-> scrypt {salt} {cost}\n{body}\n--- {mac}\n");
    [header.into_bytes(), source.rest()].concat()
}
