//! The module that wrote the old store. It helps to prove the keys: it signs, verifies and decrypts
//! with the keys in the old store.
//!
//! It gets a copy of the store, because SoftHSMv2 writes to the store that it opens.

use std::collections::HashMap;
use std::path::PathBuf;

use cryptoki_sys::*;
use jeton_migrate::Object;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::client::{Access, Doing, Failure, Mechanism, Module, ObjectHandle, Session, User};
use crate::token::{self, Slot};

#[derive(Clone, Serialize, Deserialize)]
pub struct OldModule {
    pub library: PathBuf,
    /// The library parameters of `C_Initialize`.
    pub parameters: Option<String>,
    /// The serial number of the token; `None` for NSS, whose token has a fixed slot.
    pub serial: Option<String>,
    pub pin: String,
    /// Whether the user named the module. If so, it must open the store.
    pub required: bool,
}

/// The longest signature in bytes, of SLH-DSA-SHA2-256f and SLH-DSA-SHAKE-256f. RSA ciphertexts are
/// shorter.
pub(super) const LONGEST: usize = 49_856;

/// The slot of NSS that holds keys.
const NSS_SLOT: CK_SLOT_ID = 2;

/// The old module with its token open.
pub(super) struct Witness {
    session: Session,
    pin: String,
    keys: HashMap<Mark, Vec<ObjectHandle>>,
}

/// The attributes by which a key is found in the old module: class, type, ID, label, modulus.
type Mark = (u64, u64, Vec<u8>, Vec<u8>, Vec<u8>);

impl Witness {
    /// Opens the old module. A module that the user named must open the store. For a module that
    /// the tool found, a note says why it does not open the store.
    pub(super) fn open(old: &OldModule) -> Result<(Option<Self>, Option<String>), Error> {
        let error = match Self::try_open(old) {
            Ok(witness) => return Ok((Some(witness), None)),
            Err(error) => error,
        };
        let text =
            format!("the old module {} does not open a copy of the store ({error})", old.library.display());
        if old.required { Err(Error::Migration(text)) } else { Ok((None, Some(text))) }
    }

    fn try_open(old: &OldModule) -> Result<Self, Error> {
        let module = Module::load(&old.library)?;
        module.initialize(old.parameters.as_deref())?;
        let fits = |slot: &Slot| match &old.serial {
            Some(serial) => slot.token.as_ref().is_some_and(|token| token.serial == *serial),
            None => slot.id.0 == NSS_SLOT,
        };
        let slot = token::slots(&module)?.into_iter().find(fits);
        let slot = slot.ok_or_else(|| Error::Migration("it does not show the token".to_owned()))?;
        let session = module.open_session(slot.id, Access::ReadOnly)?;
        // A database of NSS without a password is always logged in.
        if !(old.pin.is_empty() && old.serial.is_none()) {
            session.login(User::User, Some(&old.pin))?;
        }
        let mut witness = Self { session, pin: old.pin.clone(), keys: HashMap::new() };
        witness.list()?;
        Ok(witness)
    }

    fn list(&mut self) -> Result<(), Failure> {
        for class in [CKO_PRIVATE_KEY, CKO_PUBLIC_KEY] {
            let wanted = crate::client::Attribute::number(CKA_CLASS, class);
            for handle in self.session.find(std::slice::from_ref(&wanted))? {
                let kinds = [CKA_KEY_TYPE, CKA_ID, CKA_LABEL, CKA_MODULUS];
                let values = self.session.attributes(handle, &kinds)?;
                let [kind, id, label, modulus] =
                    <[_; 4]>::try_from(values).unwrap_or_default().map(Option::unwrap_or_default);
                let kind = kind.try_into().map_or(u64::MAX, u64::from_ne_bytes);
                self.keys.entry((class, kind, id, label, modulus)).or_default().push(handle);
            }
        }
        Ok(())
    }

    /// Returns the handles of the keys that may be this object. Keys with the same class, type, ID,
    /// label and modulus are not distinguished.
    fn handles(&self, object: &Object, class: u64) -> &[ObjectHandle] {
        let bytes = |kind| object.bytes(kind).to_vec();
        let kind = object.number(CKA_KEY_TYPE).unwrap_or(u64::MAX);
        let mark = (class, kind, bytes(CKA_ID), bytes(CKA_LABEL), bytes(CKA_MODULUS));
        self.keys.get(&mark).map_or(&[], Vec::as_slice)
    }

    /// Signs with each private key that may be this object. Returns the signatures. Returns `None`
    /// if the old module refuses the mechanism, always or for this key, or refuses to sign with its
    /// own key.
    pub(super) fn sign(
        &self,
        object: &Object,
        mechanism: &Mechanism,
        data: &[u8],
    ) -> Result<Option<Vec<Vec<u8>>>, Failure> {
        let mut signatures = Vec::new();
        for handle in self.handles(object, CKO_PRIVATE_KEY) {
            match self.session.sign_init(mechanism, *handle) {
                Err(failure) if is_refusal(&failure) => return Ok(None),
                started => started?,
            }
            self.authenticate(object)?;
            let mut out = vec![0; LONGEST];
            match self.session.sign(data, &mut out) {
                // NSS 3.132 returns this code for an Ed25519 key that it generated. The code says
                // nothing about the key.
                Err(failure) if failure.code == CKR_ARGUMENTS_BAD => return Ok(None),
                signed => out.truncate(signed.doing(|| "signing with the old module".to_owned())?),
            }
            signatures.push(out);
        }
        Ok(Some(signatures))
    }

    /// Decrypts with each private key that may be this object. Returns the plaintexts.
    pub(super) fn decrypt(
        &self,
        object: &Object,
        mechanism: &Mechanism,
        ciphertext: &[u8],
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let mut plain = Vec::new();
        for handle in self.handles(object, CKO_PRIVATE_KEY) {
            self.session.decrypt_init(mechanism, *handle)?;
            self.authenticate(object)?;
            let mut out = vec![0; LONGEST];
            // Decryption fails with another key that has the same attributes.
            if let Ok(length) = self.session.decrypt(ciphertext, &mut out) {
                out.truncate(length);
                plain.push(out);
            }
        }
        Ok(plain)
    }

    /// Verifies a signature with the public keys that may be this object; `None` if no such key can
    /// verify.
    pub(super) fn verify(
        &self,
        public: &Object,
        mechanism: &Mechanism,
        data: &[u8],
        signature: &[u8],
    ) -> Result<Option<bool>, Failure> {
        let mut verdict = None;
        if public.flag(CKA_VERIFY) {
            for handle in self.handles(public, CKO_PUBLIC_KEY) {
                match self.session.verify_init(mechanism, *handle) {
                    Err(failure) if is_refusal(&failure) => return Ok(None),
                    started => started?,
                }
                let good = self.session.verify(data, signature)?;
                verdict = Some(good || verdict == Some(true));
            }
        }
        Ok(verdict)
    }

    fn authenticate(&self, object: &Object) -> Result<(), Failure> {
        if object.flag(CKA_ALWAYS_AUTHENTICATE) {
            self.session.login(User::ContextSpecific, Some(&self.pin))?;
        }
        Ok(())
    }
}

/// Returns whether a module refuses a mechanism, always or for one key.
fn is_refusal(failure: &Failure) -> bool {
    matches!(
        failure.code,
        CKR_MECHANISM_INVALID | CKR_MECHANISM_PARAM_INVALID | CKR_KEY_FUNCTION_NOT_PERMITTED
    )
}
