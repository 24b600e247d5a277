//! "General-purpose functions": `C_GetInfo`, and the text and version fields of all info
//! structures.

use cryptoki_sys::{CK_BYTE, CK_INFO, CK_RV, CK_UTF8CHAR, CK_VERSION};

use jeton_words::token::Token;

use crate::call::{Entry, guarded};
use crate::input::Place;

pub(crate) const MANUFACTURER: &str = "Jeton";

pub unsafe fn C_GetInfo<T: Token>(entry: &Entry<T>, info: *mut CK_INFO) -> CK_RV {
    let body = || {
        entry.token()?;
        let place = Place::at(info)?;
        // SAFETY: the contract of PKCS#11 for pInfo.
        unsafe { place.put(library()) };
        Ok(())
    };
    guarded(|| "C_GetInfo", body)
}

fn library() -> CK_INFO {
    CK_INFO {
        cryptokiVersion: CK_VERSION { major: 3, minor: 2 },
        manufacturerID: padded(MANUFACTURER),
        flags: 0,
        libraryDescription: padded("Jeton PKCS#11 software token"),
        libraryVersion: CK_VERSION {
            major: number(env!("CARGO_PKG_VERSION_MAJOR")),
            minor: number(env!("CARGO_PKG_VERSION_MINOR")),
        },
    }
}

/// Returns a text field: padded with blanks, without NUL. A text that is too long ends before the
/// first character that does not fit.
pub(crate) fn padded<const N: usize>(text: &str) -> [CK_UTF8CHAR; N] {
    let mut field = [b' '; N];
    let fits = &text.as_bytes()[..text.floor_char_boundary(N)];
    field[..fits.len()].copy_from_slice(fits);
    field
}

pub(crate) fn version((major, minor): (u8, u8)) -> CK_VERSION {
    CK_VERSION { major, minor }
}

/// Returns a part of the package's version. 255 stands for a larger number.
fn number(part: &str) -> CK_BYTE {
    part.parse().unwrap_or(CK_BYTE::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_padded_with_blanks() {
        assert_eq!(&padded::<8>("Jeton"), b"Jeton   ");
        assert_eq!(&padded::<5>("Jeton"), b"Jeton");
        assert_eq!(&padded::<3>(""), b"   ");
    }

    #[test]
    fn a_long_text_ends_between_two_characters() {
        assert_eq!(&padded::<4>("abc\u{e9}"), b"abc ");
        assert_eq!(&padded::<5>("abc\u{e9}"), "abc\u{e9}".as_bytes());
    }

    #[test]
    fn the_library_version_is_that_of_the_package() {
        let info = library();
        let version = format!("{}.{}.", info.libraryVersion.major, info.libraryVersion.minor);
        assert!(env!("CARGO_PKG_VERSION").starts_with(&version));
        assert_eq!((info.cryptokiVersion.major, info.cryptokiVersion.minor), (3, 2));
        assert_eq!(&info.libraryDescription, b"Jeton PKCS#11 software token    ");
    }
}
