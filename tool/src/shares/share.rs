//! One share, and its text.

use std::str::FromStr;

use aws_lc_rs::digest::{self, SHA256};
use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32m, ByteIterExt, Fe32IterExt, Hrp};
use zeroize::Zeroizing;

use super::typing::{self, MOST, PART, Typo};

/// The length of every secret in bytes.
pub const SECRET: usize = 32;
/// The length of the digest in bytes.
pub const DIGEST: usize = 8;
/// The length of a share without its header in bytes.
const VALUE: usize = DIGEST + SECRET;
/// The length of a header in bytes: the purpose, the threshold, the set.
const HEADER: usize = 2 + SET;
const SET: usize = 4;
/// The letters of a share after the separator: 5 bits of the header and the value in each, and the
/// checksum.
const LETTERS: usize = (8 * (HEADER + VALUE)).div_ceil(5) + 6;

/// A secret that shares recover.
pub type Secret = Zeroizing<[u8; SECRET]>;

/// What the secret is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// The identity of a backup.
    Identity = 1,
    SealingKey = 2,
    SoPin = 3,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Identity, Self::SealingKey, Self::SoPin];

    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "the identity of a backup",
            Self::SealingKey => "a sealing key",
            Self::SoPin => "an SO PIN",
        }
    }
}

/// What all shares of a secret have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub purpose: Purpose,
    pub threshold: u8,
    /// A random number.
    pub set: [u8; SET],
}

impl Header {
    fn bytes(self) -> [u8; HEADER] {
        let [a, b, c, d] = self.set;
        [self.purpose as u8, self.threshold, a, b, c, d]
    }

    /// Returns the set in hexadecimal digits.
    pub fn set_name(&self) -> String {
        jeton_client::safe_text::hex(&self.set)
    }

    /// Returns the digest of a secret. It covers the header, so that a share with an altered
    /// threshold fits no other one.
    pub fn digest(&self, secret: &Secret) -> [u8; DIGEST] {
        let bytes = Zeroizing::new([b"jeton share", &self.bytes()[..], &secret[..]].concat());
        let whole = digest::digest(&SHA256, &bytes);
        std::array::from_fn(|at| whole.as_ref()[at])
    }
}

/// One share of a secret.
#[derive(Clone)]
pub struct Share {
    pub header: Header,
    /// From 1 to the largest number of shares.
    pub number: u8,
    pub value: Zeroizing<[u8; VALUE]>,
}

impl Share {
    /// Returns the text of the share, in lower case.
    pub fn text(&self) -> Zeroizing<String> {
        let part = Hrp::parse_unchecked(&format!("{PART}{}", self.number));
        let bytes = self.header.bytes().into_iter().chain(self.value.iter().copied());
        Zeroizing::new(bytes.bytes_to_fes().with_checksum::<Bech32m>(&part).chars().collect())
    }
}

impl FromStr for Share {
    type Err = Typo;

    /// Reads the text of a share. Spaces, hyphens and the case of letters have no meaning.
    fn from_str(text: &str) -> Result<Self, Typo> {
        let is_letter = |letter: &char| !letter.is_whitespace() && *letter != '-';
        let text: String = text.chars().filter(is_letter).map(|letter| letter.to_ascii_lowercase()).collect();
        let text = Zeroizing::new(text);
        let number = typing::check(&text, LETTERS)?;
        let checked = CheckedHrpstring::new::<Bech32m>(&text).map_err(|_| Typo::Checksum(number))?;
        let bytes = Zeroizing::new(checked.byte_iter().collect::<Vec<_>>());
        let unknown = Typo::Unknown(number);
        let (header, value) = bytes.split_first_chunk::<HEADER>().ok_or(unknown)?;
        let [purpose, threshold, set @ ..] = *header;
        let purpose = Purpose::ALL.into_iter().find(|known| *known as u8 == purpose).ok_or(unknown)?;
        let value = Zeroizing::new(value.try_into().map_err(|_| unknown)?);
        if !(2..=MOST).contains(&threshold) {
            return Err(unknown);
        }
        let share = Self { header: Header { purpose, threshold, set }, number, value };
        // The last letter has bits that belong to no byte.
        if *share.text() == *text { Ok(share) } else { Err(unknown) }
    }
}
