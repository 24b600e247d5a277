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
use std::ops::Range;
use std::sync::{Arc, PoisonError, Weak};

use jeton_words::session::Access;
use tracing::warn;

use super::client::ClientToken;
use super::reserve::Stock;
use crate::backend::{Encryption, PrivateKey, PublicParts, Scheme, Signer, Uses};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle};
use crate::object::access::Rights;
use crate::object::key_type::stateful::one_time_keys_left;
use crate::object::value::Value;
use crate::object::{Attributes, Object};

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
        self.counted.reserved.take(self.known(handle)?, || self.reserve_uses(rights, handle))
    }

    /// Takes uses in the store.
    fn reserve_uses(&self, rights: Rights, handle: ObjectHandle) -> Result<Range<u64>> {
        let range = Cell::new(None);
        let incarnation = self.state().incarnation;
        self.rewrite(rights, handle, |object| {
            let mut attributes = object.attributes().duplicate();
            let is_stored = attributes.flag(A::TOKEN) == Some(true);
            let home = is_stored.then_some(incarnation.cast_unsigned());
            if attributes.number(A::JETON_INCARNATION) != home {
                warn!(token = self.serial, "a key that counts its uses is not used in a copy of its token");
                return Err(Error::KeyExhausted);
            }
            range.set(Some(take(&mut attributes, self.settings.reserve).ok_or(Error::KeyExhausted)?));
            Ok(attributes)
        })?;
        range.take().ok_or(Error::GeneralError)
    }
}

/// Takes at most `count` uses in the attributes of a key. Returns their numbers; `None` if no use
/// is left.
fn take(attributes: &mut Attributes, count: u64) -> Option<Range<u64>> {
    let one_time_keys = match attributes.number(A::JETON_NEXT_KEY) {
        Some(next) => Some((next, one_time_keys_left(attributes)?)),
        None => None,
    };
    let mut stock = Stock { uses_left: attributes.number(A::JETON_USES_LEFT), one_time_keys };
    let range = stock.take(count);
    if let Some(left) = stock.uses_left {
        attributes.put(A::JETON_USES_LEFT, Value::Number(left));
    }
    if let Some((next, _)) = stock.one_time_keys {
        attributes.put(A::JETON_NEXT_KEY, Value::Number(next));
    }
    range
}

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
