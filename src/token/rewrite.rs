//! Rewrites all records of a token: to upgrade an older file, and for a new token key.

use std::sync::Arc;

use tracing::{error, info, warn};

use super::objects::Cached;
use super::{Token, public_indexer};
use crate::error::{Error, Result};
use crate::object::policy::Login;
use crate::store::seal::index::Indexer;
use crate::store::seal::sealing_key::SealingKey;
use crate::store::seal::summary::{RowHash, Summary};
use crate::store::seal::{self, TokenKey};
use crate::store::{Change, NewPins, Rewriter, Rewritten, Role, Row, Snapshot};

/// The sealing key that a token needs after [`Token::rekey`].
pub(crate) enum Sealing {
    /// The configured one. The token needs no sealing key if the configuration has none.
    Configured,
    /// No sealing key, even if the configuration has one.
    Removed,
}

impl Token {
    /// Upgrades an older file to the newest format: encrypts secret attributes that are stored in
    /// clear. A failure does not affect the login; the next login tries again.
    pub(super) fn upgrade(&self, key: &Arc<TokenKey>, incarnation: i64) {
        match self.store.is_outdated() {
            Ok(false) => return,
            Ok(true) => {}
            Err(reason) => return warn!(token = self.serial, ?reason, "the file keeps its older format"),
        }
        let change = self.lock_changes();
        let mut upgrade = Upgrade { token: self, key, incarnation, moves: Vec::new() };
        let outcome = self.store.rewrite(&mut upgrade).and_then(|before| {
            let sealed = upgrade.moves.len();
            self.acknowledge(before);
            self.load_rows(&change, Some(key), self.widest_login(), Cached::Forget)?;
            Ok(sealed)
        });
        match outcome {
            Ok(sealed) => info!(token = self.serial, sealed, "the file has the newest format"),
            Err(reason) => warn!(token = self.serial, ?reason, "the file keeps its older format"),
        }
    }

    /// Makes a new token key, and replaces all records and both PIN records in one transaction.
    /// Needs the user's PIN if it is set. Logs out every process, as `C_InitToken` does. `old` is
    /// another sealing key that the current PIN records may need.
    pub(crate) fn rekey(
        &self,
        so_pin: &[u8],
        user_pin: Option<&[u8]>,
        sealing: Sealing,
        old: Option<&SealingKey>,
    ) -> Result<()> {
        if self.widest_login() != Login::Public {
            return Err(Error::UserAlreadyLoggedIn);
        }
        let sealing = match sealing {
            Sealing::Configured => self.sealing_key()?,
            Sealing::Removed => None,
        };
        let so = self.unwrap_with(Role::SecurityOfficer, so_pin, old)?;
        let user = match user_pin {
            Some(pin) => Some((pin, self.unwrap_with(Role::User, pin, old)?)),
            None => None,
        };
        if user.as_ref().is_some_and(|(_, user)| user.incarnation != so.incarnation) {
            return Err(Error::DeviceRemoved);
        }
        let key = TokenKey::generate()?;
        let wrap = |role, pin| key.wrap(&self.serial, role, pin, &self.settings.pins, sealing.as_ref());
        let new = wrap(Role::SecurityOfficer, so_pin)?;
        let user = match user {
            Some((pin, user)) => (user.record, wrap(Role::User, pin)?),
            None => Default::default(),
        };
        let pins = NewPins { so: (so.record, new), user };
        let _change = self.lock_changes();
        let serials = Serials { old: &self.serial, new: &self.serial };
        let mut rekey = Rekey::new(serials, (&so.key, so.incarnation), &key, pins);
        let before = self.store.rewrite(&mut rekey)?;
        self.count_change(before.next_incarnation());
        info!(token = self.serial, "the token has a new key");
        Ok(())
    }
}

/// Encrypts secret attributes that older versions stored in clear.
struct Upgrade<'a> {
    token: &'a Token,
    key: &'a TokenKey,
    incarnation: i64,
    /// The row hashes to subtract and to add.
    moves: Vec<(RowHash, RowHash)>,
}

impl Rewriter for Upgrade<'_> {
    fn record(&mut self, row: Row, body: &[u8]) -> Result<Option<(Row, Vec<u8>)>> {
        if row.private || seal::tag(body) != Some(row.tag) {
            return Ok(None);
        }
        // A record that was altered stays as it is. A later read leaves it out.
        let Some(attributes) = self.key.open(&self.token.serial, row.id, body) else { return Ok(None) };
        if !seal::is_clear_key(body, &attributes) {
            return Ok(None);
        }
        let new = self.key.seal(&self.token.serial, row.id, &attributes, &self.token.public_indexer)?;
        self.moves.push((self.key.row_hasher().hash(&row), self.key.row_hasher().hash(&new.0)));
        Ok(Some(new))
    }

    fn finish(&mut self, before: &Snapshot) -> Result<Rewritten> {
        let summary = self.token.reseal_summary(self.key, self.incarnation, before, |summary| {
            for (goes, comes) in &self.moves {
                summary.subtract(*goes);
                summary.add(*comes);
            }
        })?;
        Ok(Rewritten { change: before.change.next(), summary, pins: None })
    }
}

/// The serial numbers of a token before and after its records are encrypted again.
#[derive(Clone, Copy)]
pub(crate) struct Serials<'a> {
    /// The serial number that the records belong to now.
    pub(crate) old: &'a str,
    /// The serial number that they will belong to.
    pub(crate) new: &'a str,
}

/// Encrypts all records with another token key.
pub(crate) struct Rekey<'a> {
    serials: Serials<'a>,
    public_indexer: Indexer,
    old: &'a TokenKey,
    new: &'a TokenKey,
    incarnation: i64,
    /// The sums of the existing rows, with the old key.
    found: Summary,
    /// The sums of the new rows, with the new key.
    made: Summary,
    pins: Option<NewPins>,
}

impl<'a> Rekey<'a> {
    /// Returns a rewriter from the key `old` of this incarnation to the key `new`.
    pub(crate) fn new(
        serials: Serials<'a>,
        (old, incarnation): (&'a TokenKey, i64),
        new: &'a TokenKey,
        pins: NewPins,
    ) -> Self {
        let [found, made] = [Change(0); 2].map(Summary::empty);
        let public_indexer = public_indexer(serials.new);
        Self { serials, public_indexer, old, new, incarnation, found, made, pins: Some(pins) }
    }
}

impl Rewriter for Rekey<'_> {
    fn record(&mut self, row: Row, body: &[u8]) -> Result<Option<(Row, Vec<u8>)>> {
        let Serials { old: serial, new: next } = self.serials;
        let opened = self.old.open(serial, row.id, body).filter(|_| seal::tag(body) == Some(row.tag));
        let Some(attributes) = opened else {
            error!(token = serial, record = row.id, "no new key: an object was altered on disk");
            return Err(Error::DeviceError);
        };
        self.found.add(self.old.row_hasher().hash(&row));
        let new = self.new.seal(next, row.id, &attributes, &self.public_indexer)?;
        self.made.add(self.new.row_hasher().hash(&new.0));
        Ok(Some(new))
    }

    fn finish(&mut self, before: &Snapshot) -> Result<Rewritten> {
        if before.change.incarnation() != self.incarnation {
            return Err(Error::DeviceRemoved);
        }
        let Serials { old: serial, new: next } = self.serials;
        let known = self.old.open_summary(serial, before.change, &before.summary);
        // A new key would make rows valid that an attacker added, or hide that rows were removed.
        if known.is_none_or(|known| known.differs(&self.found)) {
            error!(token = serial, "no new key: objects were removed, added or replaced on disk");
            return Err(Error::DeviceError);
        }
        let change = before.change.next_incarnation();
        self.made.change = change.0;
        let summary = self.new.seal_summary(next, &self.made)?;
        Ok(Rewritten { change, summary, pins: self.pins.take() })
    }
}
