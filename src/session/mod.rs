//! Sessions: their operations and their searches.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::id::{ObjectHandle, SessionHandle};
use crate::mechanism::{Action, Invocation};
use crate::object::Object;
use crate::object::bits::Flag;
use crate::object::policy::Rights;
use crate::token::Token;

pub mod find;
pub mod operation;
pub mod table;

use find::Find;
use operation::{Digesting, Message, Operation, Signing, Verifying};

/// A session.
pub struct Session {
    /// Its own handle.
    pub handle: SessionHandle,
    /// Its token.
    pub token: Arc<Token>,
    /// Whether it may write token objects.
    pub read_write: bool,
    /// The search.
    pub find: Option<Find>,
    /// The digest.
    pub digest: Operation<Digesting>,
    /// The signature.
    pub sign: Operation<Signing>,
    /// The verification.
    pub verify: Operation<Verifying>,
}

impl Session {
    /// A session without operations.
    pub fn new(handle: SessionHandle, token: Arc<Token>, read_write: bool) -> Self {
        Self {
            handle,
            token,
            read_write,
            find: None,
            digest: Operation::default(),
            sign: Operation::default(),
            verify: Operation::default(),
        }
    }

    /// What the session may do now.
    pub fn rights(&self) -> Rights {
        self.token.rights(self.read_write)
    }

    /// `C_DigestInit`
    pub fn digest_init(&mut self, with: &Invocation) -> Result<()> {
        let Action::Digest(hash) = with.mechanism.action else { return Err(Error::MechanismInvalid) };
        let (key, epoch) = (ObjectHandle(0), 0);
        if !self.digest.rearm(with, key, epoch)? {
            self.digest.start(with, key, epoch, Digesting::new(self.token.provider(), hash), false);
        }
        Ok(())
    }

    /// `C_SignInit`
    pub fn sign_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let epoch = self.token.epoch();
        if self.sign.rearm(with, key, epoch)? {
            return Ok(());
        }
        let (scheme, hash) = with.scheme()?;
        let object = self.key(with, key, Flag::SIGN)?;
        let provider = self.token.provider();
        let signer = object.private_key(provider)?.signer(&scheme)?;
        let engine = Signing { message: Message::new(provider, hash), signer };
        self.sign.start(with, key, epoch, engine, object.flag(Flag::ALWAYS_AUTHENTICATE));
        Ok(())
    }

    /// `C_VerifyInit`
    pub fn verify_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let epoch = self.token.epoch();
        if self.verify.rearm(with, key, epoch)? {
            return Ok(());
        }
        let (scheme, hash) = with.scheme()?;
        let object = self.key(with, key, Flag::VERIFY)?;
        let provider = self.token.provider();
        let verifier = object.public_key(provider)?.verifier(&scheme)?;
        self.verify.start(
            with,
            key,
            epoch,
            Verifying { message: Message::new(provider, hash), verifier },
            false,
        );
        Ok(())
    }

    /// The PIN came for an operation with a key that has `CKA_ALWAYS_AUTHENTICATE`.
    pub fn unlock(&mut self) -> Result<()> {
        if self.sign.unlock() { Ok(()) } else { Err(Error::OperationNotInitialized) }
    }

    /// Lets go what a login left behind: operations and parsed private keys.
    pub fn clear_keys(&mut self) {
        self.sign.clear();
        self.verify.clear();
    }

    /// The key of a handle, where it may be used for that.
    fn key(&self, with: &Invocation, key: ObjectHandle, usage: Flag) -> Result<Arc<Object>> {
        let object = self.token.object(self.rights(), key).map_err(|_| Error::KeyHandleInvalid)?;
        if !object.sort().is_key() {
            return Err(Error::KeyHandleInvalid);
        }
        if object.key_type() != with.mechanism.key_type {
            return Err(Error::KeyTypeInconsistent);
        }
        // The rules give CKA_SIGN to private keys alone and CKA_VERIFY to public ones, so the flag tells the half.
        let permitted = object.flag(usage) && object.allows(with.mechanism.id);
        if permitted { Ok(object) } else { Err(Error::KeyFunctionNotPermitted) }
    }
}
