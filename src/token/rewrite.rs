//! Rewrites all records of a token: to upgrade an older file, and for a new token key.

use std::sync::Arc;

use tracing::{error, info, warn};

use super::objects::Cached;
use super::pin::Unwrapped;
use super::state::{Token, public_indexer};
use crate::config::Format;
use crate::error::{Error, Result, require};
use crate::id::AttributeType as A;
use crate::object::access::Login;
use crate::object::value::Value;
use crate::store::seal::sealing_key::SealingKey;
use crate::store::seal::summary::Summary;
use crate::store::seal::{TokenKey, record};
use crate::store::{Change, Purpose, Role, Row, Snapshot, Transaction, Write};

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
        let outcome = self.seal_clear_keys(key, incarnation).and_then(|(before, sealed)| {
            self.acknowledge(before);
            self.load_rows(&change, Some(key), self.widest_login(), Cached::Forget)?;
            Ok(sealed)
        });
        match outcome {
            Ok(sealed) => info!(token = self.serial, sealed, "the file has the newest format"),
            Err(reason) => warn!(token = self.serial, ?reason, "the file keeps its older format"),
        }
    }

    /// Encrypts secret attributes that older versions stored in clear. Returns the state before,
    /// and the number of records that it replaced.
    fn seal_clear_keys(&self, key: &TokenKey, incarnation: i64) -> Result<(Change, usize)> {
        let (mut before, mut replaced) = (Change(0), Vec::new());
        self.store.transact(Purpose::Rewrite, &mut |transaction| {
            replaced.clear();
            replace_objects(transaction, |row, body| {
                if row.private || record::tag(body) != Some(row.tag) {
                    return Ok(None);
                }
                // A record that was altered stays as it is. A later read leaves it out.
                let Some(attributes) = key.open(&self.serial, row.id, body) else { return Ok(None) };
                if !record::is_clear_key(body, &attributes) {
                    return Ok(None);
                }
                let new = key.seal(&self.serial, row.id, &attributes, &self.public_indexer)?;
                replaced.push((key.row_hasher().hash(row), key.row_hasher().hash(&new.0)));
                Ok(Some(new))
            })?;
            let state = transaction.before()?;
            before = state.change;
            let summary = self.reseal_summary(key, incarnation, &state, |summary| {
                for (goes, comes) in &replaced {
                    summary.subtract(*goes);
                    summary.add(*comes);
                }
            })?;
            Ok(Some(Snapshot { change: before.next(), summary }))
        })?;
        Ok((before, replaced.len()))
    }

    /// Unwraps the token key with the SO PIN and, if it is given, with the user's PIN. `old` is
    /// another sealing key that the PIN records may need.
    pub(crate) fn unwrap_all(
        &self,
        so_pin: &[u8],
        user_pin: Option<&[u8]>,
        old: Option<&SealingKey>,
    ) -> Result<(Unwrapped, Option<Unwrapped>)> {
        let so = self.unwrap_with(Role::SecurityOfficer, so_pin, old)?;
        let user = user_pin.map(|pin| self.unwrap_with(Role::User, pin, old)).transpose()?;
        if let Some(user) = &user {
            require(user.incarnation == so.incarnation, Error::DeviceRemoved)?;
            so.key.expect_same(&self.serial, &user.key)?;
        }
        Ok((so, user))
    }

    /// Makes a new token key, and replaces all records and both PIN records in one transaction.
    /// Needs the user's PIN if it is set. Logs out every process, as `C_InitToken` does. `old` is
    /// another sealing key that the current PIN records may need. Without a `format`, the token
    /// keeps its own.
    pub(crate) fn rekey(
        &self,
        so_pin: &[u8],
        user_pin: Option<&[u8]>,
        sealing: Sealing,
        old: Option<&SealingKey>,
        format: Option<Format>,
    ) -> Result<()> {
        require(self.widest_login() == Login::Public, Error::UserAlreadyLoggedIn)?;
        let sealing = match sealing {
            Sealing::Configured => self.sealing_key()?,
            Sealing::Removed => None,
        };
        let (so, user) = self.unwrap_all(so_pin, user_pin, old)?;
        let key = TokenKey::generate(format.unwrap_or(so.key.format()))?;
        let wrap = |role, pin| key.wrap(&self.serial, role, pin, &self.settings.pins, sealing.as_ref(), None);
        let new = wrap(Role::SecurityOfficer, so_pin)?;
        let user = match user_pin.zip(user) {
            Some((pin, user)) => (user.record, wrap(Role::User, pin)?),
            None => Default::default(),
        };
        let pins = NewPins { so: (so.record, new), user };
        let _change = self.lock_changes();
        let rekey = Rekey {
            serials: Serials { old: &self.serial, new: &self.serial },
            old: &so.key,
            incarnation: so.incarnation,
            new: &key,
            pins,
        };
        let mut after = Change(0);
        self.store.transact(Purpose::Rewrite, &mut |transaction| {
            let state = rekey.run(transaction)?;
            after = state.change;
            Ok(Some(state))
        })?;
        self.count_change(after);
        info!(token = self.serial, "the token has a new key");
        Ok(())
    }
}

/// Passes each object to `renew`, and stores its replacement if there is one.
fn replace_objects(
    transaction: &mut dyn Transaction,
    mut renew: impl FnMut(&Row, &[u8]) -> Result<Option<(Row, Vec<u8>)>>,
) -> Result<()> {
    let mut last = i64::MIN;
    loop {
        let batch = transaction.objects_after(last)?;
        let Some((row, _)) = batch.last() else { return Ok(()) };
        last = row.id;
        let mut renewed = Vec::new();
        for (row, body) in &batch {
            renewed.extend(renew(row, body)?.map(|(new, body)| (row.tag, new, body)));
        }
        let writes: Vec<_> = renewed.iter().map(|(tag, row, body)| Write::Replace(*tag, row, body)).collect();
        transaction.apply(&writes)?;
    }
}

/// The PIN records of a new token key.
pub(crate) struct NewPins {
    /// The record of the SO PIN that the caller unwrapped, and the record that replaces it.
    pub(crate) so: (Vec<u8>, Vec<u8>),
    /// The same for the user PIN. Both are empty if the user has no PIN.
    pub(crate) user: (Vec<u8>, Vec<u8>),
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
    /// The serial numbers of the token.
    pub(crate) serials: Serials<'a>,
    /// The key that the records are sealed with.
    pub(crate) old: &'a TokenKey,
    /// The incarnation of the token that the key belongs to.
    pub(crate) incarnation: i64,
    pub(crate) new: &'a TokenKey,
    pub(crate) pins: NewPins,
}

impl Rekey<'_> {
    /// Replaces all records and the PIN records. Returns the new state. Fails with `DeviceError` if
    /// an object was altered on disk: a new key would make the alteration valid. Fails with
    /// `PinIncorrect` if another process has set another PIN in the meantime.
    pub(crate) fn run(&self, transaction: &mut dyn Transaction) -> Result<Snapshot> {
        let Serials { old: serial, new: next } = self.serials;
        let before = transaction.before()?;
        require(before.change.incarnation() == self.incarnation, Error::DeviceRemoved)?;
        // The sums of the existing rows, with the old key, and of the new rows, with the new key.
        let (mut found, mut made) = (Summary::empty(Change(0)), Summary::empty(Change(0)));
        let indexer = public_indexer(next);
        replace_objects(transaction, |row, body| {
            let opened = self.old.open(serial, row.id, body).filter(|_| record::tag(body) == Some(row.tag));
            let Some(mut attributes) = opened else {
                error!(token = serial, record = row.id, "no new key: an object was altered on disk");
                return Err(Error::DeviceError);
            };
            found.add(self.old.row_hasher().hash(row));
            // The uses of a key go on, unless the records become another token.
            let home = attributes.number(A::JETON_INCARNATION);
            if serial == next && home == Some(self.incarnation.cast_unsigned()) {
                let incarnation = before.change.next_incarnation().incarnation();
                attributes.put(A::JETON_INCARNATION, Value::Number(incarnation.cast_unsigned()));
            }
            let new = self.new.seal(next, row.id, &attributes, &indexer)?;
            made.add(self.new.row_hasher().hash(&new.0));
            Ok(Some(new))
        })?;
        let known = self.old.open_summary(serial, before.change, &before.summary);
        // A new key would make rows valid that an attacker added, or hide that rows were removed.
        if known.is_none_or(|known| known.differs(&found)) {
            error!(token = serial, "no new key: objects were removed, added or replaced on disk");
            return Err(Error::DeviceError);
        }
        for (role, (old, new)) in [(Role::SecurityOfficer, &self.pins.so), (Role::User, &self.pins.user)] {
            require(transaction.set_pin(role, Some(old), new)?, Error::PinIncorrect)?;
        }
        let change = before.change.next_incarnation();
        made.change = change.0;
        Ok(Snapshot { change, summary: self.new.seal_summary(next, &made)? })
    }
}
