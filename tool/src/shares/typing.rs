//! The errors of a person who types a share.

use bech32::Fe32;

/// The human-readable part of a share, before its number.
pub const PART: &str = "share";
/// The largest number of shares of a secret.
pub const MOST: u8 = 16;

/// What is wrong with the text of a share. The number of a share is the one that the text names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Typo {
    #[error("this is no share: a share begins with `{PART}` and a number from 1 to {MOST}")]
    NotShare,
    #[error("share {0} is mistyped: the letter {2:?} is in no share (it is letter {1} after the number)")]
    Letter(u8, usize, char),
    #[error("share {0} is mistyped: {1} letters are missing")]
    Short(u8, usize),
    #[error("share {0} is mistyped: it has {1} letters too many")]
    Long(u8, usize),
    #[error("share {0} is mistyped: its checksum is wrong")]
    Checksum(u8),
    /// The checksum is right, but this version makes no such share.
    #[error("share {0} is of a newer version, or forged: its threshold or its purpose is unknown")]
    Unknown(u8),
}

/// Checks all but the checksum of a text in lower case without spaces, which should have this
/// number of letters after the separator. Returns the number of the share.
pub fn check(text: &str, expected: usize) -> Result<u8, Typo> {
    // The separator is `1` too. So share 11 must come before share 1.
    let found = (1..=MOST).rev().find_map(|number| {
        let letters = text.strip_prefix(PART)?.strip_prefix(&number.to_string())?.strip_prefix('1')?;
        Some((number, letters))
    });
    let (number, letters) = found.ok_or(Typo::NotShare)?;
    let unknown = letters.chars().zip(1..).find(|(letter, _)| Fe32::from_char(*letter).is_err());
    if let Some((letter, at)) = unknown {
        return Err(Typo::Letter(number, at, letter));
    }
    match letters.len() {
        len if len < expected => Err(Typo::Short(number, expected - len)),
        len if len > expected => Err(Typo::Long(number, len - expected)),
        _ => Ok(number),
    }
}
