//! The shares that people give, in any order, until there are enough of them.

use blahaj::Sharks;
use zeroize::Zeroizing;

use super::share::{DIGEST, Purpose, Secret, Share};
use crate::{Cause, Error};

/// The shares that people have given so far. They belong to one set, and no two have one number.
pub struct Collection {
    purpose: Option<Purpose>,
    shares: Vec<Share>,
}

impl Collection {
    /// Makes an empty collection for shares with this purpose, or with that of the first share.
    pub fn new(purpose: Option<Purpose>) -> Self {
        Self { purpose, shares: Vec::new() }
    }

    /// Returns what the secret is for, once there is a share.
    pub fn purpose(&self) -> Option<Purpose> {
        self.shares.first().map(|share| share.header.purpose)
    }

    /// Returns the number of shares, and the number that the first one asks for.
    pub fn progress(&self) -> (usize, Option<usize>) {
        (self.shares.len(), self.shares.first().map(|share| share.header.threshold.into()))
    }

    /// Returns how many shares there are, in words.
    pub fn shortage(&self) -> String {
        let (number, needed) = self.progress();
        needed.map_or("no share was given".to_owned(), |needed| {
            format!("{needed} shares are needed, {number} given")
        })
    }

    /// Returns whether the secret can be recovered.
    pub fn is_complete(&self) -> bool {
        let (number, needed) = self.progress();
        needed.is_some_and(|needed| number >= needed)
    }

    /// Adds a share. Fails, and keeps the others, if it does not belong to them.
    pub fn add(&mut self, share: Share) -> Result<(), Error> {
        let number = share.number;
        let purpose = share.header.purpose;
        if let Some(expected) = self.purpose.filter(|expected| *expected != purpose) {
            let text = format!("share {number} recovers {}, not {}", purpose.name(), expected.name());
            return Err(Error::Failed(text));
        }
        if let Some(first) = self.shares.first().filter(|first| first.header != share.header) {
            return Err(Error::Failed(format!(
                "share {number} belongs to the set {}, and share {} to the set {}: they do not fit together",
                share.header.set_name(),
                first.number,
                first.header.set_name()
            )));
        }
        if let Some(same) = self.shares.iter().find(|one| one.number == number) {
            return Err(Error::Failed(if same.value == share.value {
                format!(
                    "share {number} was given twice; {} different shares are needed",
                    share.header.threshold
                )
            } else {
                format!("there are two different shares with the number {number}: one of them is forged")
            }));
        }
        self.shares.push(share);
        Ok(())
    }

    /// Recovers the secret. If there are more shares than needed, names one that is forged.
    pub fn recover(&self) -> Result<Secret, Error> {
        let (number, needed) = self.progress();
        let Some(needed) = needed.filter(|needed| number >= *needed) else {
            return Err(Error::Failed(self.shortage()));
        };
        let all: Vec<_> = self.shares.iter().collect();
        let (fitting, secret) = subsets(&all, needed)
            .find_map(|some| open(&some).map(|secret| (some, secret)))
            .ok_or_else(|| Cause::Damaged.error("these shares do not fit together: one of them is forged"))?;
        for share in &all {
            let others = fitting.iter().filter(|one| one.number != share.number).take(needed - 1);
            let mut some: Vec<_> = others.copied().collect();
            some.push(share);
            if open(&some).is_none_or(|found| found != secret) {
                let text = format!("share {} does not fit the others: it is forged", share.number);
                return Err(Cause::Damaged.error(text));
            }
        }
        Ok(secret)
    }
}

/// Returns each set of this number of shares.
fn subsets<'a>(shares: &[&'a Share], number: usize) -> impl Iterator<Item = Vec<&'a Share>> {
    let chosen = move |set: &u32| set.count_ones() as usize == number;
    let members = move |set: u32| {
        let is_member = |at: &usize| set >> at & 1 == 1;
        (0..shares.len()).filter(is_member).map(|at| shares[at]).collect()
    };
    (0..1_u32 << shares.len()).filter(chosen).map(members)
}

/// Returns the secret if its digest is right.
fn open(shares: &[&Share]) -> Option<Secret> {
    let header = shares.first()?.header;
    let point = |share: &&Share| {
        let bytes = Zeroizing::new([&[share.number][..], &share.value[..]].concat());
        blahaj::Share::try_from(&bytes[..]).ok()
    };
    let points: Vec<_> = shares.iter().map(point).collect::<Option<_>>()?;
    let content = Zeroizing::new(Sharks(header.threshold).recover(&points).ok()?);
    let (digest, secret) = content.split_first_chunk::<DIGEST>()?;
    let secret: Secret = Zeroizing::new(secret.try_into().ok()?);
    (header.digest(&secret) == *digest).then_some(secret)
}
