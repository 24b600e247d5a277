//! The files of shares, to be printed: a share as text in groups of five letters and as a QR code.
//! A line that begins with `#` is a comment.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use zeroize::Zeroizing;

use super::share::Share;
use super::typing::{PART, Typo};
use crate::output_file::{Existing, NewFile};
use crate::{Cause, Error};

/// The longest file with a share in bytes.
const LONGEST: u64 = 64 << 10;
/// The groups of letters in a line, and the letters of a group.
const GROUPS: usize = 8;
const GROUP: usize = 5;

/// New files with a share in each, which exist when [`publish`](Self::publish) returns.
pub struct Sheets(Vec<(PathBuf, NewFile)>);

/// Makes the files of shares beside a path: its name, a dot, and the number of the share. `note` is
/// a comment in each file. Fails if one of the files exists.
pub fn sheets(path: &Path, shares: &[Share], note: &str) -> Result<Sheets, Error> {
    let sheet = |share: &Share| {
        let path = name(path, share.number);
        let new = NewFile::create(&path, Existing::Keep)?;
        new.write(page(share, shares.len(), note)?.as_bytes())?;
        Ok((path, new))
    };
    Ok(Sheets(shares.iter().map(sheet).collect::<Result<_, Error>>()?))
}

/// Returns the name of the file of the first share.
pub fn first(path: &Path) -> PathBuf {
    name(path, 1)
}

fn name(path: &Path, number: u8) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

impl Sheets {
    /// Gives the files their names, and returns these.
    pub fn publish(self) -> Result<Vec<PathBuf>, Error> {
        self.0.into_iter().map(|(path, new)| new.publish().map(|()| path)).collect()
    }
}

/// Returns the text of a file.
fn page(share: &Share, total: usize, note: &str) -> Result<Zeroizing<String>, Error> {
    let text = share.text();
    let (head, letters) = text.split_at(PART.len() + share.number.to_string().len() + 1);
    let letters: Vec<_> = letters.as_bytes().chunks(GROUP).map(String::from_utf8_lossy).collect();
    let lines: Vec<_> = letters.chunks(GROUPS).map(|line| line.join(" ")).collect();
    // Digits and capital letters alone need fewer bits of a QR code.
    let capitals = Zeroizing::new(text.to_ascii_uppercase());
    let code = QrCode::with_error_correction_level(&*capitals, EcLevel::M)
        .map_err(|error| Error::Failed(format!("QR code: {error}")))?;
    let code = code.render::<Dense1x2>().build();
    let code: String = code.lines().map(|line| format!("# {line}\n")).collect();
    Ok(Zeroizing::new(format!(
        "# Share {} of {total} of {}, set {}. Any {} of the shares recover it.\n{note}{head}\n{}\n{code}",
        share.number,
        share.header.purpose.name(),
        share.header.set_name(),
        share.header.threshold,
        lines.join("\n"),
    )))
}

/// Reads the share of a file.
pub fn read(path: &Path) -> Result<Share, Error> {
    let mut text = Zeroizing::new(String::with_capacity(LONGEST as usize));
    File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut text))
        .map_err(Error::io(path))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let share = Zeroizing::new(lines.collect::<String>()).parse();
    share.map_err(|typo: Typo| Cause::Damaged.error(format!("{}: {typo}", path.display())))
}
