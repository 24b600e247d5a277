//! The saved state of the operations of a session (PKCS#11 3.2, `C_GetOperationState`,
//! `C_SetOperationState`).
//!
//! The application gets a random number that identifies the state. The state itself stays in the
//! module. This has three effects:
//!
//! - No part of the state leaves the module: neither digested data (a key, by `C_DigestKey`) nor
//!   the round keys of a cipher.
//! - An attacker cannot alter or forge a state.
//! - Every state that a crypto library can copy can be saved.
//!
//! The application can restore a state any number of times in this process, also in another session
//! of the same token. The state ends with the login under which it was saved, with `C_Finalize`, or
//! when newer states reach the limit [`MAX_STATES`] or [`MAX_COLLECTED`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::Session;
use super::operation::NO_KEY;
use super::operations::{Role, SAVABLE, Savable};
use super::progress::{Progress, Saved};
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, ObjectHandle};
use crate::object::access::Login;
use crate::store::seal;
use crate::sync::lock;
use crate::token::ClientToken;

/// Length in bytes of the number that the application gets.
pub const STATE_LEN: usize = 32;
/// Maximum number of states in a module. A further state replaces the oldest one.
pub const MAX_STATES: usize = 1024;
/// Maximum number of collected message bytes in all states together.
pub const MAX_COLLECTED: usize = 16 << 20;

type Ticket = [u8; STATE_LEN];

/// The saved operations of a session.
pub(crate) struct Snapshot {
    login: Login,
    operations: Vec<(&'static Savable, Saved)>,
    /// `CKA_UNIQUE_ID` of the key that encrypts or decrypts.
    encryption_key: Option<Box<[u8]>>,
    /// `CKA_UNIQUE_ID` of the key that signs or verifies.
    authentication_key: Option<Box<[u8]>>,
    /// The signature that the caller passed before the message.
    signature: Box<[u8]>,
}

impl Session {
    /// Saves the active operations. Fails with `OperationNotInitialized` if no operation is active
    /// that can be saved.
    pub(crate) fn save(&self) -> Result<Snapshot> {
        let mut operations = Vec::new();
        for savable in SAVABLE {
            operations.extend((savable.save)(&self.operations)?.map(|saved| (savable, saved)));
        }
        require(!operations.is_empty(), Error::OperationNotInitialized)?;
        Ok(Snapshot {
            login: self.rights().login,
            encryption_key: self.key_in(&operations, Role::Encryption)?,
            authentication_key: self.key_in(&operations, Role::Authentication)?,
            operations,
            signature: self.operations.verify_signature.signature().unwrap_or_default().into(),
        })
    }

    /// Returns the `CKA_UNIQUE_ID` of the key that the operations in a role use; `None` if no
    /// operation has this role. `C_SetOperationState` can name only one key for each role.
    fn key_in(&self, operations: &[(&Savable, Saved)], role: Role) -> Result<Option<Box<[u8]>>> {
        let mut keys =
            operations.iter().filter(|(savable, _)| savable.role == Some(role)).map(|(_, saved)| saved.key);
        let Some(key) = keys.next() else { return Ok(None) };
        require(keys.all(|other| other == key), Error::StateUnsaveable)?;
        self.unique_id(key).map(Some).ok_or(Error::StateUnsaveable)
    }

    fn unique_id(&self, key: ObjectHandle) -> Option<Box<[u8]>> {
        let object = self.token.object(self.rights(), key).ok()?;
        object.attributes().bytes(A::UNIQUE_ID).map(Into::into)
    }

    /// Ends the search and the active operations, and restores the saved operations.
    ///
    /// The session that saved the state and the session that restores it "should have a common
    /// session state" (`C_SetOperationState`). A read-only session can still restore the state of a
    /// read/write session, and the reverse. OpenSSL's pkcs11-provider does this.
    pub(crate) fn restore(
        &mut self,
        state: &Snapshot,
        encryption: ObjectHandle,
        authentication: ObjectHandle,
    ) -> Result<()> {
        require(state.login == self.rights().login, Error::SavedStateInvalid)?;
        let encryption = self.key_or_saved(state, Role::Encryption, encryption);
        let authentication = self.key_or_saved(state, Role::Authentication, authentication);
        self.check_keys(state, encryption, authentication)?;
        self.cancel(u64::MAX);
        for (savable, saved) in &state.operations {
            let key = match savable.role {
                Some(Role::Encryption) => encryption,
                Some(Role::Authentication) | None => authentication,
            };
            self.resume(savable, saved, key, &state.signature).inspect_err(|_| self.cancel(u64::MAX))?;
        }
        self.operations.digest.set_saved(true);
        Ok(())
    }

    /// Returns the caller's key, or the saved key if the caller passes none (PKCS#11 3.2,
    /// CK_TOKEN_INFO, `CKF_RESTORE_KEY_NOT_NEEDED`). If the object with the saved handle is gone,
    /// or is now another key, the caller must pass the key.
    fn key_or_saved(&self, state: &Snapshot, role: Role, given: ObjectHandle) -> ObjectHandle {
        let wanted = match role {
            Role::Encryption => state.encryption_key.as_deref(),
            Role::Authentication => state.authentication_key.as_deref(),
        };
        let mut saved = state
            .operations
            .iter()
            .filter(|(savable, _)| savable.role == Some(role))
            .map(|(_, saved)| saved.key);
        match saved.next().filter(|_| given == NO_KEY) {
            Some(key) if self.unique_id(key).as_deref() == wanted => key,
            _ => given,
        }
    }

    /// Checks that the caller's keys are the keys of the state. A caller may pass the only key of a
    /// state in both arguments, as pkcs11-provider does. That key is not "extraneous"
    /// (`CKR_KEY_NOT_NEEDED`).
    fn check_keys(
        &self,
        state: &Snapshot,
        encryption: ObjectHandle,
        authentication: ObjectHandle,
    ) -> Result<()> {
        let wanted = (state.encryption_key.as_deref(), state.authentication_key.as_deref());
        match wanted {
            (Some(one), None) | (None, Some(one)) if encryption == authentication => {
                self.check_key(Some(one), encryption)
            }
            (for_encryption, for_authentication) => {
                self.check_key(for_encryption, encryption)?;
                self.check_key(for_authentication, authentication)
            }
        }
    }

    /// Checks that the caller's key is the wanted key. If no key is wanted, the handle must be 0.
    fn check_key(&self, wanted: Option<&[u8]>, given: ObjectHandle) -> Result<()> {
        match (wanted, given) {
            (None, ObjectHandle(0)) => Ok(()),
            (None, _) => Err(Error::KeyNotNeeded),
            (Some(_), ObjectHandle(0)) => Err(Error::KeyNeeded),
            (Some(wanted), given) if self.unique_id(given).as_deref() == Some(wanted) => Ok(()),
            (Some(_), _) => Err(Error::KeyChanged),
        }
    }

    /// Starts a saved operation and continues from its saved state.
    fn resume(
        &mut self,
        savable: &Savable,
        saved: &Saved,
        key: ObjectHandle,
        signature: &[u8],
    ) -> Result<()> {
        (savable.init)(self, &saved.mechanism, key, signature).map_err(|error| match error {
            Error::KeyFunctionNotPermitted | Error::KeyHandleInvalid => Error::KeyChanged,
            other => other,
        })?;
        (savable.resume)(&mut self.operations, saved)
    }
}

/// The saved states of a module, the oldest first.
#[derive(Default)]
pub(crate) struct SavedStates(Mutex<VecDeque<Entry>>);

struct Entry {
    ticket: Ticket,
    token: Arc<ClientToken>,
    /// True if the user or the SO was logged in when the state was saved.
    of_login: bool,
    collected: usize,
    /// Locked while it is restored, because only one thread at a time may use the objects of the
    /// cryptographic libraries.
    snapshot: Arc<Mutex<Snapshot>>,
}

impl SavedStates {
    /// Stores a state. Returns the number that identifies it.
    pub(crate) fn keep(&self, token: &Arc<ClientToken>, snapshot: Snapshot) -> Result<Ticket> {
        let progress = snapshot.operations.iter().filter_map(|(_, saved)| saved.progress.as_ref());
        let collected = progress.map(Progress::collected).sum();
        require(collected <= MAX_COLLECTED, Error::StateUnsaveable)?;
        let ticket = seal::random()?;
        let mut entries = lock(&self.0);
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

    /// Returns the state with this number if a session of this token saved it.
    pub(crate) fn find(&self, token: &Arc<ClientToken>, ticket: &[u8]) -> Result<Arc<Mutex<Snapshot>>> {
        let entries = lock(&self.0);
        let found = entries.iter().find(|entry| entry.ticket == ticket && Arc::ptr_eq(&entry.token, token));
        found.map(|entry| Arc::clone(&entry.snapshot)).ok_or(Error::SavedStateInvalid)
    }

    /// Removes the states of this token that were saved while the user or the SO was logged in.
    pub(crate) fn end_login(&self, token: &Arc<ClientToken>) {
        lock(&self.0).retain(|entry| !entry.of_login || !Arc::ptr_eq(&entry.token, token));
    }

    /// Removes all states.
    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}
