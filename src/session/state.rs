//! The saved state of a session's operations (PKCS#11 3.2, `C_GetOperationState`, `C_SetOperationState`).
//!
//! What the application is given is a random number, by which the state is found again: the state itself stays in
//! the module. So nothing of it leaves the token, neither what was digested (a key, by `C_DigestKey`) nor a cipher's
//! round keys; none can be altered or made up; and whatever a library can copy can be saved. It can be restored any
//! number of times in this process, in another session of the same token too, until the login that it was saved
//! under ends, `C_Finalize`, or [`MAX_STATES`] newer ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Session;
use super::operation::{Engine, Operation};
use crate::backend::{Hasher, Mac, SavedCipher};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle};
use crate::mechanism::Invocation;
use crate::object::policy::Login;
use crate::secret::Secret;
use crate::store::seal;
use crate::token::Token;

/// Length in bytes of what the application is given.
pub const STATE_LEN: usize = 32;
/// Most states of a module; the oldest goes when one more is saved.
pub const MAX_STATES: usize = 1024;
/// Most bytes of messages that were collected for saved operations, of all states together.
pub const MAX_COLLECTED: usize = 16 << 20;

type Ticket = [u8; STATE_LEN];

/// How far an engine is in its message.
pub enum Progress {
    /// A digest; none was started yet.
    Hasher(Option<Box<dyn Hasher>>),
    /// A message authentication code.
    Mac(Box<dyn Mac>),
    /// A cipher.
    Cipher(SavedCipher),
    /// The message so far.
    Collected(Secret),
}

impl Progress {
    /// How many bytes of a message it has.
    fn collected(&self) -> usize {
        match self {
            Self::Collected(message) | Self::Cipher(SavedCipher::Collected(message)) => message.len(),
            Self::Hasher(_) | Self::Mac(_) | Self::Cipher(SavedCipher::Running(_)) => 0,
        }
    }
}

/// A saved operation.
pub struct Saved {
    /// What it was started with.
    pub with: Invocation,
    /// The handle of its key, or 0.
    pub key: ObjectHandle,
    /// How far it is, if it has begun.
    pub progress: Option<Progress>,
}

/// The kinds of operations that can be saved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Digest,
    Sign,
    Verify,
    VerifySignature,
    Encrypt,
    Decrypt,
}

/// Which argument of `C_SetOperationState` names the key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Encryption,
    Authentication,
}

impl Kind {
    fn role(self) -> Option<Role> {
        match self {
            Self::Digest => None,
            Self::Encrypt | Self::Decrypt => Some(Role::Encryption),
            Self::Sign | Self::Verify | Self::VerifySignature => Some(Role::Authentication),
        }
    }
}

/// The operations of a session, saved.
pub struct Snapshot {
    login: Login,
    operations: Vec<(Kind, Saved)>,
    /// `CKA_UNIQUE_ID` of the key that encrypts or decrypts.
    encryption_key: Option<Box<[u8]>>,
    /// `CKA_UNIQUE_ID` of the key that signs or verifies.
    authentication_key: Option<Box<[u8]>>,
    /// The signature that came before its message.
    signature: Vec<u8>,
}

impl Session {
    /// Saves what is active; `OperationNotInitialized` where nothing is that can be saved.
    pub fn save(&self) -> Result<Snapshot> {
        let operations: Vec<_> = [
            (Kind::Digest, self.digest.save()?),
            (Kind::Sign, self.sign.save()?),
            (Kind::Verify, self.verify.save()?),
            (Kind::VerifySignature, self.verify_signature.save()?),
            (Kind::Encrypt, self.encrypt.save()?),
            (Kind::Decrypt, self.decrypt.save()?),
        ]
        .into_iter()
        .filter_map(|(kind, saved)| Some((kind, saved?)))
        .collect();
        if operations.is_empty() {
            return Err(Error::OperationNotInitialized);
        }
        Ok(Snapshot {
            login: self.rights().login,
            encryption_key: self.key_in(&operations, Role::Encryption)?,
            authentication_key: self.key_in(&operations, Role::Authentication)?,
            operations,
            signature: self.signature.clone(),
        })
    }

    /// The key of the operations in a role. `C_SetOperationState` can name one only.
    fn key_in(&self, operations: &[(Kind, Saved)], role: Role) -> Result<Option<Box<[u8]>>> {
        let mut keys =
            operations.iter().filter(|(kind, _)| kind.role() == Some(role)).map(|(_, saved)| saved.key);
        let Some(key) = keys.next() else { return Ok(None) };
        if keys.any(|other| other != key) {
            return Err(Error::StateUnsaveable);
        }
        self.unique_id(key).map(Some).ok_or(Error::StateUnsaveable)
    }

    fn unique_id(&self, key: ObjectHandle) -> Option<Box<[u8]>> {
        let object = self.token.object(self.rights(), key).ok()?;
        object.attributes().bytes(A::UNIQUE_ID).map(Into::into)
    }

    /// Restores what was saved, in place of what is active.
    ///
    /// The two sessions "should have a common session state" (`C_SetOperationState`). That one of them may only read is no
    /// hindrance: nothing that is saved writes, and OpenSSL's pkcs11-provider goes from one kind to the other.
    pub fn restore(
        &mut self,
        state: &Snapshot,
        encryption: ObjectHandle,
        authentication: ObjectHandle,
    ) -> Result<()> {
        if state.login != self.rights().login {
            return Err(Error::SavedStateInvalid);
        }
        self.are_keys(state, encryption, authentication)?;
        self.cancel_all();
        for (kind, saved) in &state.operations {
            let key = match kind.role() {
                Some(Role::Encryption) => encryption,
                Some(Role::Authentication) | None => authentication,
            };
            self.resume(*kind, saved, key, &state.signature).inspect_err(|_| self.cancel_all())?;
        }
        Ok(())
    }

    /// Whether the keys that are given are those that are wanted. The one key of a state may be given in both places, as
    /// pkcs11-provider does: it is not "extraneous" (`CKR_KEY_NOT_NEEDED`).
    fn are_keys(
        &self,
        state: &Snapshot,
        encryption: ObjectHandle,
        authentication: ObjectHandle,
    ) -> Result<()> {
        let wanted = (state.encryption_key.as_deref(), state.authentication_key.as_deref());
        match wanted {
            (Some(one), None) | (None, Some(one)) if encryption == authentication => {
                self.is_key(Some(one), encryption)
            }
            (for_encryption, for_authentication) => {
                self.is_key(for_encryption, encryption)?;
                self.is_key(for_authentication, authentication)
            }
        }
    }

    /// Whether the key that is given is the one that is wanted, if one is.
    fn is_key(&self, wanted: Option<&[u8]>, given: ObjectHandle) -> Result<()> {
        match (wanted, given) {
            (None, ObjectHandle(0)) => Ok(()),
            (None, _) => Err(Error::KeyNotNeeded),
            (Some(_), ObjectHandle(0)) => Err(Error::KeyNeeded),
            (Some(wanted), given) if self.unique_id(given).as_deref() == Some(wanted) => Ok(()),
            (Some(_), _) => Err(Error::KeyChanged),
        }
    }

    /// Starts an operation by its own `Init` function, which asks again whether the key may, and goes on in it.
    fn resume(&mut self, kind: Kind, saved: &Saved, key: ObjectHandle, signature: &[u8]) -> Result<()> {
        let with = &saved.with;
        let started = match kind {
            Kind::Digest => self.digest_init(with),
            Kind::Sign => self.sign_init(with, key),
            Kind::Verify => self.verify_init(with, key),
            Kind::VerifySignature => self.verify_init_with(with, key, signature),
            Kind::Encrypt => self.encrypt_init(with, key),
            Kind::Decrypt => self.decrypt_init(with, key),
        };
        started.map_err(|error| match error {
            Error::KeyFunctionNotPermitted | Error::KeyHandleInvalid => Error::KeyChanged,
            other => other,
        })?;
        match kind {
            Kind::Digest => self.digest.resume(saved),
            Kind::Sign => self.sign.resume(saved),
            Kind::Verify => self.verify.resume(saved),
            Kind::VerifySignature => self.verify_signature.resume(saved),
            Kind::Encrypt => self.encrypt.resume(saved),
            Kind::Decrypt => self.decrypt.resume(saved),
        }
    }

    /// Ends every operation and the search.
    fn cancel_all(&mut self) {
        fn cancel<E: Engine>(operation: &mut Operation<E>) {
            operation.cancel();
        }
        self.find = None;
        cancel(&mut self.digest);
        cancel(&mut self.sign);
        cancel(&mut self.verify);
        cancel(&mut self.encrypt);
        cancel(&mut self.decrypt);
        cancel(&mut self.sign_recover);
        cancel(&mut self.verify_recover);
        cancel(&mut self.verify_signature);
        cancel(&mut self.message_encrypt);
        cancel(&mut self.message_decrypt);
        cancel(&mut self.message_sign);
        cancel(&mut self.message_verify);
    }
}

/// The states that were saved in a module, the oldest first.
#[derive(Default)]
pub struct SavedStates(Mutex<VecDeque<Entry>>);

struct Entry {
    ticket: Ticket,
    token: Arc<Token>,
    /// Whether somebody was logged in.
    of_login: bool,
    collected: usize,
    /// Locked while it is restored: what the libraries made is for one thread at a time.
    snapshot: Arc<Mutex<Snapshot>>,
}

impl SavedStates {
    /// Keeps a state; by what it is found again.
    pub fn keep(&self, token: &Arc<Token>, snapshot: Snapshot) -> Result<Ticket> {
        let progress = snapshot.operations.iter().filter_map(|(_, saved)| saved.progress.as_ref());
        let collected = progress.map(Progress::collected).sum();
        if collected > MAX_COLLECTED {
            return Err(Error::StateUnsaveable);
        }
        let ticket = seal::random()?;
        let mut entries = self.entries();
        while entries.len() >= MAX_STATES
            || entries.iter().map(|entry| entry.collected).sum::<usize>() + collected > MAX_COLLECTED
        {
            entries.pop_front();
        }
        entries.push_back(Entry {
            ticket,
            token: Arc::clone(token),
            of_login: snapshot.login != Login::Public,
            collected,
            snapshot: Arc::new(Mutex::new(snapshot)),
        });
        Ok(ticket)
    }

    /// The state that a token's session saved.
    pub fn find(&self, token: &Arc<Token>, ticket: &[u8]) -> Result<Arc<Mutex<Snapshot>>> {
        let entries = self.entries();
        let found = entries.iter().find(|entry| entry.ticket == ticket && Arc::ptr_eq(&entry.token, token));
        found.map(|entry| Arc::clone(&entry.snapshot)).ok_or(Error::SavedStateInvalid)
    }

    /// Forgets what was saved while somebody was logged in to that token.
    pub fn end_login(&self, token: &Arc<Token>) {
        self.entries().retain(|entry| !entry.of_login || !Arc::ptr_eq(&entry.token, token));
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.entries().clear();
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
