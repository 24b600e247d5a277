//! Shares of a secret: any M of N shares recover it, and fewer say nothing about it (Shamir, "How
//! to share a secret", 1979).
//!
//! A share is a text in Bech32m (BIP 350). The part before the separator has the share's number, so
//! that a mistyped share can be named. A digest of the secret is shared with it. It is not in the
//! clear, because one holder could then guess a PIN.
//!
//! Not here: prompts and options. They are in the commands.

mod collection;
mod share;
mod sheet;
mod typing;

use std::str::FromStr;

use aws_lc_rs::rand;
use blahaj::Sharks;
use zeroize::Zeroizing;

use crate::{Cause, Error};
use share::{Header, SECRET};
use typing::MOST;

pub use collection::Collection;
pub use share::{Purpose, Secret, Share};
pub use sheet::{Sheets, first, read, sheets};
pub use typing::Typo;

/// The longest PIN in bytes.
pub const LONGEST_PIN: usize = SECRET - 1;

/// The number of shares, and how many of them recover the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    threshold: u8,
    total: u8,
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(m, n)| Some((m.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((threshold, total)) if 2 <= threshold && threshold <= total && total <= MOST => {
                Ok(Self { threshold, total })
            }
            _ => {
                Err(format!("it is M/N, as in 2/3: any M of N shares; M is at least 2, and N at most {MOST}"))
            }
        }
    }
}

/// Returns a new secret.
pub fn random() -> Result<Secret, Error> {
    let mut secret = Zeroizing::new([0; SECRET]);
    fill(&mut secret[..])?;
    Ok(secret)
}

fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    rand::fill(bytes).map_err(|_| Error::Failed("AWS-LC has no random numbers".to_owned()))
}

/// Makes shares of a secret, with the numbers from 1.
pub fn split(purpose: Purpose, secret: &Secret, scheme: Scheme) -> Result<Vec<Share>, Error> {
    let mut header = Header { purpose, threshold: scheme.threshold, set: Default::default() };
    fill(&mut header.set)?;
    let content = Zeroizing::new([&header.digest(secret)[..], &secret[..]].concat());
    let share = |point: blahaj::Share| {
        let bytes = Zeroizing::new(Vec::from(&point));
        let (number, value) = bytes.split_first()?;
        Some(Share { header, number: *number, value: Zeroizing::new(value.try_into().ok()?) })
    };
    let all = Sharks(scheme.threshold).dealer(&content).take(scheme.total.into()).map(share);
    all.collect::<Option<_>>().ok_or_else(|| Error::Failed("the shares have another length".to_owned()))
}

/// Returns the secret that has this PIN. Every such secret has the same length, so that a share
/// says nothing about the length of a PIN.
pub fn of_pin(pin: &str) -> Result<Secret, Error> {
    let mut secret = Zeroizing::new([0; SECRET]);
    if pin.is_empty() || pin.len() > LONGEST_PIN {
        let text = format!("a PIN in shares has 1 to {LONGEST_PIN} bytes; this one has {}", pin.len());
        return Err(Cause::Refused.error(text));
    }
    secret[0] = pin.len() as u8;
    secret[1..=pin.len()].copy_from_slice(pin.as_bytes());
    Ok(secret)
}

/// Returns the PIN of a secret.
pub fn pin(secret: &Secret) -> Result<Zeroizing<String>, Error> {
    let [len, bytes @ ..] = &**secret;
    let pin = bytes.get(..usize::from(*len)).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let pin = pin.ok_or_else(|| Cause::Damaged.error("the shares recover no PIN"))?;
    Ok(Zeroizing::new(pin.to_owned()))
}
