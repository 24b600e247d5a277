//! Reads files with certificates, CRLs and requests.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use jeton_formats::{self as formats, Item, Password, Wanted};

use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::{Cause, Error};

/// The longest file in bytes.
pub const LONGEST: usize = 256 << 20;

/// Who named a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The operator. It may be a FIFO or a device, whose reader waits.
    Named,
    /// It was found, perhaps in a folder of others, who may have put a FIFO there since then. Only
    /// a regular file is read.
    Found,
}

/// Reads a file, or standard input for `-`. Fails if it is larger than `most` bytes.
pub fn input(path: &Path, most: usize) -> Result<Vec<u8>, Error> {
    read(path, Source::Named, most)
}

/// Reads a file. Fails if it is larger than `most` bytes.
pub fn read(path: &Path, source: Source, most: usize) -> Result<Vec<u8>, Error> {
    let file = match source {
        Source::Named => formats::input(path, most),
        Source::Found => found(path, most),
    };
    let file = file.map_err(Error::io(path))?;
    file.ok_or_else(|| Error::Failed(format!("{} is larger than {most} bytes", path.display())))
}

/// Opens a FIFO without waiting for a writer, and then refuses it.
fn found(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    formats::limited(file, most)
}

/// Reads the first certificate of a file.
pub fn certificate(path: &Path, source: Source) -> Result<Vec<u8>, Error> {
    let first = certificates_in(path, &read(path, source, formats::MAX_FILE)?)?.into_iter().next();
    first.ok_or_else(|| Error::Failed(format!("{} has no certificate", path.display())))
}

/// Reads all certificates of a file that the operator named.
pub fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    certificates_in(path, &input(path, formats::MAX_FILE)?)
}

/// Reads all certificates of a file that the operator named. It may be a PKCS#12 file with this
/// password.
pub fn protected_certificates(
    path: &Path,
    password: Option<Zeroizing<String>>,
) -> Result<Vec<Vec<u8>>, Error> {
    decrypt(path, &input(path, formats::MAX_FILE)?, &mut || password.clone())
}

/// Returns all certificates of a file that was read.
pub(crate) fn certificates_in(path: &Path, file: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    decrypt(path, file, &mut || None)
}

fn decrypt(
    path: &Path,
    file: &[u8],
    password: &mut dyn FnMut() -> Option<Zeroizing<String>>,
) -> Result<Vec<Vec<u8>>, Error> {
    let refused = |source| Error::File { path: path.to_owned(), source };
    let entries = formats::read(file, Wanted::Public, &mut Password::new(password)).map_err(refused)?;
    let certificates = entries.into_iter().filter_map(|entry| match entry.item {
        Item::Certificate(der) => Some(der),
        _ => None,
    });
    Ok(certificates.collect())
}

/// Returns the structures of a file in PEM with one of these labels, or in DER.
pub fn structures(path: &Path, file: &[u8], labels: &[&str]) -> Result<Vec<Vec<u8>>, Error> {
    let damaged = |source| Error::File { path: path.to_owned(), source };
    formats::contents(file, labels).map_err(damaged)
}

pub(crate) fn damaged(path: &Path, reason: &str) -> Error {
    Cause::Damaged.error(format!("{}: {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// Without the flag, the test does not end.
    #[test]
    fn a_fifo_in_a_folder_is_refused_and_not_waited_for() {
        let folder = std::env::temp_dir().join(format!("jeton-ca-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let (fifo, file) = (folder.join("fifo"), folder.join("file"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).expect("a FIFO");
        std::fs::write(&file, b"12").expect("a file");
        let refused = read(&fifo, Source::Found, 9).expect_err("a FIFO");
        assert!(refused.to_string().ends_with("fifo: it is no file"), "{refused}");
        assert!(read(Path::new("/dev/zero"), Source::Found, 9).is_err());
        assert_eq!(read(&file, Source::Found, 2).expect("a file"), b"12");
        assert!(read(&file, Source::Found, 1).is_err());
        std::fs::remove_dir_all(&folder).expect("no folder");
    }
}
