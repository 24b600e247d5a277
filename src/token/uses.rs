//! Counts the uses of private keys: the one-time keys of a stateful key, and the uses that
//! `CKA_JETON_USES_LEFT` allows.
//!
//! A use is taken in the store, and synced, before the key is used. So neither a crash nor another
//! process nor another host of a database takes it again. A commit may take several uses for this
//! process (`[stateful] reserve`). Those that the process does not need are lost.
//!
//! A copy of the token would count the same uses again. So a key is used only in the incarnation of
//! the token in which it was made: a backup that is restored begins a new one. A token's file that
//! was put back by other means is detected by the counter outside the file.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tracing::warn;

use super::ClientToken;
use crate::backend::{Encryption, PrivateKey, PublicParts, Scheme, Signer, Uses};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle};
use crate::object::key_type::stateful::one_time_keys_left;
use crate::object::policy::{Access, Rights};
use crate::object::value::Value;
use crate::object::{Attributes, Object};

/// The keys of a token whose uses this process counts.
#[derive(Default)]
pub(super) struct Counted {
    /// The uses of each key that were taken in the store and not used yet.
    taken: Mutex<HashMap<ObjectHandle, Range<u64>>>,
    /// The parsed keys. Each use replaces the object, which would have to be parsed again.
    parsed: Mutex<HashMap<ObjectHandle, Weak<dyn PrivateKey>>>,
}

impl ClientToken {
    /// Returns a private key for an operation. Each of its uses is counted if the key demands it.
    pub(crate) fn private_key(
        self: &Arc<Self>,
        access: Access,
        handle: ObjectHandle,
        object: &Object,
    ) -> Result<Arc<dyn PrivateKey>> {
        if !object.attributes().counts_uses() {
            return object.private_key(self.provider());
        }
        let known = self.known(handle)?;
        let mut parsed = self.counted.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let key = match parsed.get(&known).and_then(Weak::upgrade) {
            Some(key) => key,
            None => {
                let key = object.private_key(self.provider())?;
                parsed.retain(|_, key| key.strong_count() != 0);
                parsed.insert(known, Arc::downgrade(&key));
                key
            }
        };
        Ok(Arc::new(CountedKey { key, uses: Arc::new(KeyUses { token: Arc::clone(self), access, handle }) }))
    }

    /// Takes a use of a private key and returns its number, which for a stateful key is that of a
    /// one-time key. No other call gets the number. Fails with `KeyExhausted` if no use is left.
    pub(crate) fn take_use(&self, rights: Rights, handle: ObjectHandle) -> Result<u64> {
        // Threads that need the same key would have to wait for the commit anyway.
        let mut taken = self.counted.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known(handle)?;
        let mut range = match taken.remove(&known) {
            Some(range) => range,
            None => self.reserve_uses(rights, handle)?,
        };
        let number = range.next().ok_or(Error::GeneralError)?;
        if !range.is_empty() {
            taken.insert(known, range);
        }
        Ok(number)
    }

    /// Takes uses in the store.
    fn reserve_uses(&self, rights: Rights, handle: ObjectHandle) -> Result<Range<u64>> {
        let range = Cell::new((0, 0));
        let incarnation = self.state().incarnation;
        self.rewrite(rights, handle, |object| {
            let mut attributes = object.attributes().duplicate();
            let is_stored = attributes.flag(A::TOKEN) == Some(true);
            let home = is_stored.then_some(incarnation.cast_unsigned());
            if attributes.number(A::JETON_INCARNATION) != home {
                warn!(token = self.serial, "a key that counts its uses is not used in a copy of its token");
                return Err(Error::KeyExhausted);
            }
            let taken = take(&mut attributes, self.settings.reserve).ok_or(Error::KeyExhausted)?;
            range.set(taken);
            Ok(attributes)
        })?;
        Ok(range.get().0..range.get().1)
    }
}

/// Takes at most `count` uses in the attributes of a key. Returns the number of the first and of
/// the one after the last; `None` if no use is left.
fn take(attributes: &mut Attributes, count: u64) -> Option<(u64, u64)> {
    let left = [attributes.number(A::JETON_USES_LEFT), one_time_keys_left(attributes)];
    let count = left.into_iter().flatten().fold(count, u64::min);
    if let Some(left) = left[0] {
        attributes.put(A::JETON_USES_LEFT, Value::Number(left - count));
    }
    let first = attributes.number(A::JETON_NEXT_KEY);
    if let Some(first) = first {
        attributes.put(A::JETON_NEXT_KEY, Value::Number(first + count));
    }
    let first = first.unwrap_or(0);
    (count != 0).then_some((first, first + count))
}

/// The uses of one key for one session.
struct KeyUses {
    token: Arc<ClientToken>,
    access: Access,
    handle: ObjectHandle,
}

impl Uses for KeyUses {
    fn take(&self) -> Result<u64> {
        self.token.take_use(self.token.rights(self.access), self.handle)
    }
}

/// A private key whose uses are counted. Operations only sign and decrypt. The functions without an
/// `Init` function take a use before they parse the key (`session::usable`).
struct CountedKey {
    key: Arc<dyn PrivateKey>,
    uses: Arc<dyn Uses>,
}

impl PrivateKey for CountedKey {
    fn public(&self) -> Result<PublicParts> {
        self.key.public()
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        Arc::clone(&self.key).counted_signer(scheme, Arc::clone(&self.uses))
    }

    fn decrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.uses.take()?;
        self.key.decrypt(scheme, input, out)
    }
}
