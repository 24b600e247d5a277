//! The PINs with which the applications of a client are logged in. Another application of the same
//! client logs in with the same PIN without a run of the KDF. Only a keyed hash of a PIN is kept.
//!
//! A client that knows no PIN learns nothing here: a PIN is known for the client that gave it.

use std::sync::{Arc, Mutex, Weak};

use jeton_secret::Secret;
use subtle::ConstantTimeEq;

use crate::backend::{Hash, MacScheme, Provider};
use crate::error::Result;
use crate::store::seal;
use crate::store::seal::pin_record::PinMark;
use crate::sync::lock;

/// The known PINs of a token.
pub(super) struct KnownPins {
    /// The key of the hashes, which is drawn at random when the token is opened.
    key: Secret,
    pins: Mutex<Vec<Weak<KnownPin>>>,
}

/// A PIN of a client. The value exists while a login with the PIN runs or lasts.
pub(super) struct KnownPin {
    client: String,
    hash: Secret,
    /// Whether the PIN has unwrapped the token key. Locked while a login tries the PIN: the others
    /// with the same PIN wait for its outcome.
    pub(super) is_right: Mutex<bool>,
}

impl KnownPins {
    pub(super) fn new() -> Result<Self> {
        let mut key = Secret::zeroed(32);
        seal::fill_random(&mut key)?;
        Ok(Self { key, pins: Mutex::default() })
    }

    /// Returns the known PIN that equals `pin`, or a new one. A PIN that was replaced has another
    /// mark, and is not known any more.
    pub(super) fn find(
        &self,
        provider: &Provider,
        client: &str,
        mark: &PinMark,
        pin: &[u8],
    ) -> Result<Arc<KnownPin>> {
        let parts = [&mark[..], &(client.len() as u64).to_le_bytes(), client.as_bytes(), pin];
        let hash = provider.mac(&MacScheme::Hmac(Hash::Sha256), &self.key, &parts)?;
        let mut pins = lock(&self.pins);
        pins.retain(|known| known.strong_count() != 0);
        let new = Arc::new(KnownPin { client: client.to_owned(), hash, is_right: Mutex::default() });
        if let Some(known) = pins.iter().filter_map(Weak::upgrade).find(|known| known.equals(&new)) {
            return Ok(known);
        }
        pins.push(Arc::downgrade(&new));
        Ok(new)
    }

    /// Forgets the PINs of the client that gave a PIN. A login that fails calls this: without a
    /// known PIN, no guess can be compared with it before a failure is counted.
    pub(super) fn forget(&self, pin: &KnownPin) {
        let is_others = |known: Arc<KnownPin>| known.client != pin.client;
        lock(&self.pins).retain(|known| known.upgrade().is_some_and(is_others));
    }
}

impl KnownPin {
    /// Returns whether both are the same PIN of the same client, and current at the same time.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.hash[..].ct_eq(&other.hash).into()
    }
}
