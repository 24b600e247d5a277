//! Sessions, their active operations and their searches.

use std::sync::{Arc, Mutex};

use jeton_secret::{Secret, try_boxed};
use jeton_words::operation::CryptMechanism;
use jeton_words::session::Access;
use jeton_words::token::Function;
use tracing::warn;

use crate::backend::{Direction, Encryption, Hash, PrivateKey, PublicParts, Scheme};
use crate::config::{LEAST_RSA_BITS, fips as approvals};
use crate::error::{Error, Result, require};
use crate::id::{ObjectHandle, SessionHandle, mechanism_flag as does};
use crate::mechanism::flow::{Flow, KeyFlow};
use crate::mechanism::{Action, MacFunction, Mechanism, MuKey, Params, row_of, rule, scheme};
use crate::object::access::Rights;
use crate::object::flags::Flag;
use crate::object::key_type::{Limited, ec, limited};
use crate::object::{Object, fips, key, strict};
use crate::quota::Permit;
use crate::token::{ClientToken, Token};

mod crypt;
mod digest;
mod dual;
pub(crate) mod find;
mod input;
mod memory;
mod message;
pub(crate) mod nonce;
pub(crate) mod operation;
mod operations;
mod otp;
pub(crate) mod pending;
mod progress;
mod recover;
mod sign;
pub mod state;
pub(crate) mod table;
pub(crate) mod tls;
mod verify_signature;

pub(crate) use crypt::Crypting;
pub(crate) use digest::Digesting;
pub(crate) use message::Messages;
pub(crate) use operation::{Engine, Operation, Phase};
pub(crate) use operations::Operations;
pub(crate) use recover::Recovering;
pub(crate) use sign::{Signature, Signing, Verifying};
pub(crate) use verify_signature::VerifyingSignature;

use crypt::RsaHalf;
use find::Find;
use input::Message;
use operation::{NO_KEY, Output, Parts, PinTurn, Reuse};
use otp::Otp;
use pending::Pending;

/// An open session with its active operations.
pub struct Session {
    pub(crate) handle: SessionHandle,
    /// The token that the session is open on.
    pub(crate) token: Arc<ClientToken>,
    pub(crate) access: Access,
    /// True for an asynchronous session, in which key generation may return `CKR_PENDING`.
    pub(crate) asynchronous: bool,
    /// The pending signatures of the application, if they may be pending in this session.
    pub(crate) pending: Option<Arc<Pending>>,
    /// Whether the last operation that completed was an approved service of the validated module.
    pub(crate) approved: bool,
    /// The active search.
    pub(crate) find: Option<Find>,
    /// The lock of the requests of an agent's client: see [`turn`](Self::turn).
    turn: Option<Arc<Mutex<u64>>>,
    /// The memory of the session itself, in the quota of the application.
    _memory: Option<Permit>,
    /// The operations.
    pub(crate) operations: Operations,
}

/// A session without its operations, for the functions that use one of them.
#[derive(Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) handle: SessionHandle,
    pub(crate) token: &'a Arc<ClientToken>,
    pub(crate) access: Access,
}

/// The bytes that a session without operations counts as in a quota. The table of sessions has at
/// most twice as many places as sessions were open at once.
const SESSION: usize = 2 * size_of::<Session>() + 1024;

/// The shortest sensitive key, in bytes, that makes a MAC, a digest or another key.
const MIN_SENSITIVE: usize = 14;

/// A use of a key: the flag of the mechanism and the flag of the key that permit it.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// The flag that the mechanism must have (`CKF_*`).
    pub(crate) mechanism: u64,
    /// The flag that the key must have.
    pub(crate) key: Flag,
}

#[allow(missing_docs, reason = "the names are the specification's")]
impl Usage {
    pub(crate) const SIGN: Self = Self { mechanism: does::SIGN, key: Flag::SIGN };
    pub(crate) const SIGN_RECOVER: Self = Self { mechanism: does::SIGN_RECOVER, key: Flag::SIGN_RECOVER };
    pub(crate) const VERIFY_RECOVER: Self =
        Self { mechanism: does::VERIFY_RECOVER, key: Flag::VERIFY_RECOVER };
    pub(crate) const VERIFY: Self = Self { mechanism: does::VERIFY, key: Flag::VERIFY };
    pub(crate) const ENCRYPT: Self = Self { mechanism: does::ENCRYPT, key: Flag::ENCRYPT };
    pub(crate) const DECRYPT: Self = Self { mechanism: does::DECRYPT, key: Flag::DECRYPT };
    pub(crate) const WRAP: Self = Self { mechanism: does::WRAP, key: Flag::WRAP };
    pub(crate) const UNWRAP: Self = Self { mechanism: does::UNWRAP, key: Flag::UNWRAP };
    pub(crate) const DERIVE: Self = Self { mechanism: does::DERIVE, key: Flag::DERIVE };
    pub(crate) const ENCAPSULATE: Self = Self { mechanism: does::ENCAPSULATE, key: Flag::ENCAPSULATE };
    pub(crate) const DECAPSULATE: Self = Self { mechanism: does::DECAPSULATE, key: Flag::DECAPSULATE };
    pub(crate) const MESSAGE_ENCRYPT: Self = Self { mechanism: does::MESSAGE_ENCRYPT, key: Flag::ENCRYPT };
    pub(crate) const MESSAGE_DECRYPT: Self = Self { mechanism: does::MESSAGE_DECRYPT, key: Flag::DECRYPT };
    pub(crate) const MESSAGE_SIGN: Self = Self { mechanism: does::MESSAGE_SIGN, key: Flag::SIGN };
    pub(crate) const MESSAGE_VERIFY: Self = Self { mechanism: does::MESSAGE_VERIFY, key: Flag::VERIFY };
}

impl Session {
    /// Takes the memory of a session from the quota of the application. Fails with `SessionCount`
    /// if the quota does not have it.
    pub(crate) fn hold(token: &ClientToken) -> Result<Option<Permit>> {
        token.hold(SESSION).map_err(|_| Error::SessionCount)
    }

    /// Returns a session without active operations. `memory` is the result of [`hold`](Self::hold).
    pub(crate) fn new(
        handle: SessionHandle,
        token: Arc<ClientToken>,
        access: Access,
        asynchronous: bool,
        memory: Option<Permit>,
    ) -> Self {
        let (pending, approved, find, turn, operations) = Default::default();
        Self {
            handle,
            token,
            access,
            asynchronous,
            pending,
            approved,
            find,
            turn,
            _memory: memory,
            operations,
        }
    }

    /// Returns the rights of the session under the current login.
    pub(crate) fn rights(&self) -> Rights {
        self.token.rights(self.access)
    }

    /// Returns a bit for each active operation, in the order of `operations.rs`, and one above them
    /// for a search.
    pub fn active(&self) -> u16 {
        const FIND: u16 = 1 << 12;
        self.operations.active() | if self.find.is_some() { FIND } else { 0 }
    }

    /// Records whether the operations that a call has ended were approved. `before` is
    /// [`active`](Self::active) before the call. One that failed does not count, and no
    /// message-based operation, because it completes a message without an end.
    pub(crate) fn judge(&mut self, before: u16, succeeded: bool) {
        const WITH_END: u16 = 0xff;
        const MESSAGES: u16 = 0xf00;
        let active = self.active();
        let ended = before & !active & WITH_END;
        if (before | active) & MESSAGES != 0 {
            self.approved = false;
        } else if ended != 0 {
            let (token, rights) = (Arc::clone(&self.token), self.rights());
            self.approved = succeeded
                && self.operations.each().enumerate().all(|(place, (_, operation))| {
                    ended >> place & 1 == 0
                        || operation.used().is_some_and(|used| is_approved(&token, rights, used))
                });
        }
    }

    /// Returns the number of logins of the user that the application has ended on the token. The
    /// handles of private objects have it.
    pub fn logouts(&self) -> u64 {
        self.token.logouts()
    }

    /// Sets that number for an application that goes on after a restart of the agent.
    pub fn set_logouts(&self, logouts: u64) {
        self.token.set_logouts(logouts);
    }

    /// Returns the lock that an agent holds during a request, which has several calls. It has the
    /// generation of the last request.
    pub fn turn(&mut self) -> Arc<Mutex<u64>> {
        Arc::clone(self.turn.get_or_insert_default())
    }

    /// Returns the number of session objects that the application has on the token.
    pub fn session_objects(&self) -> usize {
        self.token.session_objects()
    }

    /// `C_DigestInit`
    pub(crate) fn digest_init(&mut self, mechanism: &Mechanism) -> Result<()> {
        let (token, rights) = (&self.token, self.rights());
        let epoch = match row_of(mechanism.info).action {
            Action::Digest(_) => 0,
            Action::MlDsaMu => {
                token.poll_occasionally()?;
                token.epoch()
            }
            _ => return Err(Error::MechanismInvalid),
        };
        let digest = &mut self.operations.digest;
        digest.end_saved();
        if !digest.rearm(mechanism.info, NO_KEY, epoch, |_, kept| Ok(kept.same(&mechanism.params)))? {
            check_offered(token, mechanism)?;
            let engine = digesting(token, rights, mechanism)?;
            digest.start(token, mechanism, None, Reuse::Epoch(epoch), engine)?;
        }
        Ok(())
    }

    /// `C_SignInit`
    #[inline]
    pub(crate) fn sign_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { handle, token, access, pending, operations, .. } = self;
        let start = Start { token, access: *access, mechanism, key, usage: Usage::SIGN };
        start.arm(&mut operations.sign, |object| match (row_of(mechanism.info).action, pending) {
            (Action::Otp, _) => {
                Otp::signing(start.token, start.access, mechanism, key, object).map(Signing::Otp)
            }
            (_, Some(pending)) => Ok(start.signing(&object)?.later(*handle, pending)),
            (_, None) => start.signing(&object),
        })
    }

    /// `C_AsyncComplete` for `C_Sign` or `C_SignFinal`. Returns the address of the caller's buffer
    /// and the signature for it. Fails with `Pending` if another thread computes it.
    pub(crate) fn complete(&mut self, parts: Parts) -> Result<(usize, Result<Secret>)> {
        let (handle, operation) = (self.handle, &mut self.operations.sign);
        let pending = self.pending.as_ref().ok_or(Error::OperationNotInitialized)?;
        match operation.pending() {
            Some(passed) if passed == parts => {
                pending.compute(handle)?;
                let signature = pending.remove(handle).ok_or(Error::GeneralError)?;
                Ok((signature.buffer, operation.complete(signature)))
            }
            Some(_) => Err(Error::OperationNotInitialized),
            None => {
                let buffer = pending.remove_withdrawn(handle, parts).ok_or(Error::OperationNotInitialized)?;
                Ok((buffer, Err(Error::UserNotLoggedIn)))
            }
        }
    }

    /// `C_SignRecoverInit`
    pub(crate) fn sign_recover_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let (start, operations) = self.prepare(mechanism, key, Usage::SIGN_RECOVER);
        start.arm(&mut operations.sign_recover, |key| start.signing(&key))
    }

    /// `C_VerifyInit`
    pub(crate) fn verify_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let (start, operations) = self.prepare(mechanism, key, Usage::VERIFY);
        start.arm(&mut operations.verify, |key| start.verifying(key))
    }

    /// `C_VerifySignatureInit`
    pub(crate) fn verify_signature_init(
        &mut self,
        mechanism: &Mechanism,
        key: ObjectHandle,
        signature: &[u8],
    ) -> Result<()> {
        // The caller chose the length of the signature, so the copy may not fit in memory.
        let signature = try_boxed(signature)?;
        let (start, operations) = self.prepare(mechanism, key, Usage::VERIFY);
        let operation = &mut operations.verify_signature;
        start.arm(operation, |key| start.verifying(key).map(VerifyingSignature::new))?;
        operation.set_signature(signature)
    }

    /// `C_VerifyRecoverInit`
    pub(crate) fn verify_recover_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let (start, operations) = self.prepare(mechanism, key, Usage::VERIFY_RECOVER);
        start.arm(&mut operations.verify_recover, |key| {
            let padded = scheme::encryption(mechanism)? == Encryption::Pkcs1;
            Ok(Recovering { key: key.public_key(start.token.provider())?, padded })
        })
    }

    /// `C_EncryptInit`
    pub(crate) fn encrypt_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        self.crypt_init(Direction::Encrypt, mechanism.into(), key)
    }

    /// `C_DecryptInit`
    pub(crate) fn decrypt_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        self.crypt_init(Direction::Decrypt, mechanism.into(), key)
    }

    /// `C_EncryptInit`, `C_DecryptInit`
    #[inline]
    pub(crate) fn crypt_init(
        &mut self,
        direction: Direction,
        CryptMechanism { info, params }: CryptMechanism<'_>,
        key: ObjectHandle,
    ) -> Result<()> {
        self.token.poll_occasionally()?;
        let epoch = self.token.epoch();
        let operation = self.operations.crypt(direction);
        operation.reserve(|| 2 * params.size())?;
        if operation.rearm(info, key, epoch, |engine, kept| engine.renew(params, kept))? {
            return operation.pass(|| 2 * params.size());
        }
        self.start_crypting(direction, &Mechanism { info, params: params.copied()? }, key, epoch)
    }

    fn start_crypting(
        &mut self,
        direction: Direction,
        mechanism: &Mechanism,
        key: ObjectHandle,
        epoch: u64,
    ) -> Result<()> {
        let usage = match direction {
            Direction::Encrypt => Usage::ENCRYPT,
            Direction::Decrypt => Usage::DECRYPT,
        };
        let (start, operations) = self.prepare(mechanism, key, usage);
        let make = |key: Arc<Object>| start.crypting(&key, direction);
        start.arm_new(operations.crypt(direction), epoch, make)
    }

    /// `C_EncryptUpdate`, `C_DecryptUpdate`
    pub(crate) fn crypt_update(
        &mut self,
        direction: Direction,
        input: &[u8],
        out: Output<'_>,
    ) -> Result<usize> {
        let operation = self.operations.crypt(direction);
        operation.follow_key(&self.token, self.access)?;
        operation.crypt_update(input, out)
    }

    /// `C_MessageSignInit`
    pub(crate) fn message_sign_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let (start, operations) = self.prepare(mechanism, key, Usage::MESSAGE_SIGN);
        start.arm(&mut operations.message_sign, |key| start.signing(&key))
    }

    /// `C_MessageVerifyInit`
    pub(crate) fn message_verify_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let (start, operations) = self.prepare(mechanism, key, Usage::MESSAGE_VERIFY);
        start.arm(&mut operations.message_verify, |key| start.verifying(key))
    }

    /// `C_MessageEncryptInit`, `C_MessageDecryptInit`
    pub(crate) fn message_crypt_init(
        &mut self,
        direction: Direction,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        let usage = match direction {
            Direction::Encrypt => Usage::MESSAGE_ENCRYPT,
            Direction::Decrypt => Usage::MESSAGE_DECRYPT,
        };
        let (start, operations) = self.prepare(mechanism, key, usage);
        let operation = operations.messages(direction);
        start.arm(operation, |key| {
            let scheme = mechanism.info.aead().ok_or(Error::MechanismInvalid)?;
            Messages::new(start.token.provider(), scheme, direction, key, start.token.rules())
        })?;
        operation.engine()?.renew();
        Ok(())
    }

    /// Returns the session without its operations, and the operations.
    pub(crate) fn split(&mut self) -> (Owner<'_>, &mut Operations) {
        let Self { handle, token, access, operations, .. } = self;
        (Owner { handle: *handle, token, access: *access }, operations)
    }

    fn prepare<'a>(
        &'a mut self,
        mechanism: &'a Mechanism,
        key: ObjectHandle,
        usage: Usage,
    ) -> (Start<'a>, &'a mut Operations) {
        let Self { token, access, operations, .. } = self;
        (Start { token, access: *access, mechanism, key, usage }, operations)
    }

    /// Ends the search and the operations that `flags` name, as in `CK_MECHANISM_INFO`.
    pub(crate) fn cancel(&mut self, flags: u64) {
        if flags & does::FIND_OBJECTS != 0 {
            self.find = None;
        }
        let named = self.operations.each().filter(|(flag, _)| flags & flag != 0);
        named.for_each(|(_, operation)| operation.cancel());
    }

    /// Returns the turn of the operation that the next PIN of a key with `CKA_ALWAYS_AUTHENTICATE`
    /// is for: of the operations that wait for one, the one that was started last. Fails with
    /// `OperationNotInitialized` if no operation waits.
    pub(crate) fn waits(&mut self) -> Result<PinTurn> {
        let turns = self.operations.each().filter_map(|(_, operation)| operation.waits());
        turns.max().ok_or(Error::OperationNotInitialized)
    }

    /// Unlocks the operation with this turn. PKCS#11 3.2, "Private key objects": "the user has to
    /// supply the PIN for each use". One PIN unlocks one operation. Fails with
    /// `OperationNotInitialized` if the operation does not wait any more.
    pub(crate) fn unlock(&mut self, turn: PinTurn) -> Result<()> {
        let unlocked = self.operations.each().any(|(_, operation)| operation.unlock(turn));
        if unlocked { Ok(()) } else { Err(Error::OperationNotInitialized) }
    }

    /// Ends every operation that has a key and drops its engine, which holds the parsed key.
    pub(crate) fn clear_keys(&mut self) {
        let passed = self.operations.sign.pending();
        self.operations.each().for_each(|(_, operation)| operation.clear_key());
        if let Some(pending) = &self.pending {
            pending.withdraw(self.handle, passed);
        }
    }
}

impl Operations {
    /// Returns the encryption or the decryption operation.
    pub fn crypt(&mut self, direction: Direction) -> &mut Operation<Crypting> {
        match direction {
            Direction::Encrypt => &mut self.encrypt,
            Direction::Decrypt => &mut self.decrypt,
        }
    }

    /// Returns the message-based encryption or decryption operation.
    pub fn messages(&mut self, direction: Direction) -> &mut Operation<Messages> {
        match direction {
            Direction::Encrypt => &mut self.message_encrypt,
            Direction::Decrypt => &mut self.message_decrypt,
        }
    }

    /// Returns the operation that a function with the parameter of a message continues.
    pub(crate) fn with_parameter(&mut self, function: Function) -> Option<(&mut Operation<Messages>, Phase)> {
        match function {
            Function::C_EncryptMessage | Function::C_EncryptMessageBegin => {
                Some((&mut self.message_encrypt, Phase::Begin))
            }
            Function::C_DecryptMessage | Function::C_DecryptMessageBegin => {
                Some((&mut self.message_decrypt, Phase::Begin))
            }
            Function::C_EncryptMessageEnd => Some((&mut self.message_encrypt, Phase::Continue)),
            Function::C_DecryptMessageEnd => Some((&mut self.message_decrypt, Phase::Continue)),
            _ => None,
        }
    }
}

impl<E: Engine> Operation<E> {
    /// Checks the key of the operation again, before the operation returns another result. An
    /// `Init` function permits one result, however long it takes. An operation that returns more of
    /// them, for messages or for parts, would never notice that the key was destroyed. Loads the
    /// changes of other processes first, at most once a second. If the key may not be used any
    /// more, the operation ends.
    pub(crate) fn follow_key(&mut self, token: &ClientToken, access: Access) -> Result<()> {
        if !self.is_active() {
            return Ok(());
        }
        let outcome = token.poll_occasionally().and_then(|()| self.permit_again(token, access));
        outcome.inspect_err(|_| self.clear())
    }

    fn permit_again(&mut self, token: &ClientToken, access: Access) -> Result<()> {
        let epoch = token.epoch();
        if let Some((mechanism, key, usage)) = self.outdated(epoch) {
            find_permitted(token, token.rights(access), mechanism, key, usage)?;
            self.permit(epoch);
        }
        Ok(())
    }
}

/// The start of an operation with a key.
#[derive(Clone, Copy)]
struct Start<'a> {
    token: &'a Arc<ClientToken>,
    access: Access,
    mechanism: &'a Mechanism,
    key: ObjectHandle,
    usage: Usage,
}

impl Start<'_> {
    /// Starts the operation. Reuses the kept engine if mechanism, key and epoch are the same.
    fn arm<E: Engine>(
        self,
        operation: &mut Operation<E>,
        make: impl FnOnce(Arc<Object>) -> Result<E>,
    ) -> Result<()> {
        self.token.poll_occasionally()?;
        let epoch = self.token.epoch();
        let same = |_: &mut E, kept: &mut Params| Ok(kept.same(&self.mechanism.params));
        if operation.rearm(self.mechanism.info, self.key, epoch, same)? {
            return Ok(());
        }
        self.arm_new(operation, epoch, make)
    }

    fn arm_new<E: Engine>(
        self,
        operation: &mut Operation<E>,
        epoch: u64,
        make: impl FnOnce(Arc<Object>) -> Result<E>,
    ) -> Result<()> {
        let Self { token, access, mechanism, key, usage } = self;
        check_offered(token, mechanism)?;
        let object = find_permitted(token, token.rights(access), mechanism, key, usage)?;
        // Only private keys have this attribute.
        let always = object.flag(Flag::ALWAYS_AUTHENTICATE);
        let engine = make(object)?;
        let reuse = if always { Reuse::never() } else { Reuse::Epoch(epoch) };
        operation.start(token, mechanism, Some((key, usage)), reuse, engine)
    }

    /// Returns an engine that signs with the key.
    fn signing(self, object: &Object) -> Result<Signing> {
        let signer = |scheme: &Scheme| self.private_key(object)?.signer(scheme);
        signature(self.token, self.mechanism, object, signer)
    }

    /// Returns an engine that verifies with the key.
    fn verifying(self, object: Arc<Object>) -> Result<Verifying> {
        if row_of(self.mechanism.info).action == Action::Otp {
            return Otp::verifying(self.token, self.mechanism, self.key, object).map(Verifying::Otp);
        }
        let verifier = |scheme: &Scheme| object.public_key(self.token.provider())?.verifier(scheme);
        signature(self.token, self.mechanism, &object, verifier)
    }

    /// Returns an engine that encrypts or decrypts with the key.
    fn crypting(self, object: &Object, direction: Direction) -> Result<Crypting> {
        let (provider, mechanism) = (self.token.provider(), self.mechanism);
        if let Action::Cipher(_) = row_of(mechanism.info).action {
            let scheme = scheme::cipher(mechanism)?;
            let cipher = provider.ciphers.cipher(scheme, direction, key::secret(object.attributes())?)?;
            return Ok(Crypting::Cipher { cipher, growth: scheme.growth(), direction });
        }
        let scheme = scheme::encryption(mechanism)?;
        let key = match direction {
            Direction::Encrypt => RsaHalf::Public(object.public_key(provider)?),
            Direction::Decrypt => RsaHalf::Private(self.private_key(object)?),
        };
        let len = key::modulus_len(object.attributes())?;
        Ok(Crypting::Rsa { key, scheme, len })
    }

    fn private_key(self, object: &Object) -> Result<Arc<dyn PrivateKey>> {
        self.token.private_key(self.access, self.key, object)
    }
}

/// Fails with `MechanismInvalid` if the configuration does not offer the mechanism. A reused engine
/// needs no new check, because the configuration cannot change while the session is open.
fn check_offered(token: &Token, mechanism: &Mechanism) -> Result<()> {
    let offered = token.settings.mechanism(mechanism.info.id).is_some();
    if offered { Ok(()) } else { Err(Error::MechanismInvalid) }
}

/// Returns the engine of a digest, or of the message representative of ML-DSA. The latter is
/// computed from public values, so a private key needs no usage attribute and no login for its use.
fn digesting(token: &ClientToken, rights: Rights, mechanism: &Mechanism) -> Result<Digesting> {
    let provider = token.provider();
    match (row_of(mechanism.info).action, &mechanism.params) {
        (Action::Digest(hash), _) => Ok(Digesting::new(provider, hash)),
        (_, Params::MuGen { key: MuKey::Hash(tr), context }) => Digesting::of_mu(provider, tr, context),
        (_, Params::MuGen { key: MuKey::Object(key), context }) => {
            let object = token.key_object(rights, *key)?;
            require(object.object_type().is_key(), Error::KeyHandleInvalid)?;
            require(object.allows(mechanism.info.id), Error::MechanismInvalid)?;
            let half = key::public_half(object.attributes(), object.object_type(), provider);
            let Ok(PublicParts::MlDsa { key, .. }) = half else { return Err(Error::KeyTypeInconsistent) };
            let mut tr = [0; 64];
            provider.digest.hash(Hash::Shake256, &key, &mut tr)?;
            Digesting::of_mu(provider, &tr, context)
        }
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Looks up a key that a session with these rights may use with this mechanism. It first loads
/// changes of other processes, at most once a second. It is for functions that have no `Init`
/// function.
///
/// Such functions refuse a key with `CKA_ALWAYS_AUTHENTICATE`. PKCS#11 3.2, "Private key objects":
/// the login for a use comes "immediately after a cryptographic operation using the key has been
/// initiated". Without it the function returns `CKR_USER_NOT_LOGGED_IN`. These functions initiate
/// no operation, so there is no moment for this login. Without an operation that waits for the
/// login, `C_Login` returns `CKR_OPERATION_NOT_INITIALIZED`.
///
/// If the uses of the key are counted, this is one, whether or not the function succeeds.
pub(crate) fn usable(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    key: ObjectHandle,
    usage: Usage,
) -> Result<Arc<Object>> {
    token.poll_occasionally()?;
    let object = find_permitted(token, rights, mechanism, key, usage)?;
    require(!object.flag(Flag::ALWAYS_AUTHENTICATE), Error::UserNotLoggedIn)?;
    if object.attributes().counts_uses() {
        token.take_use(rights, key)?;
    }
    Ok(object)
}

/// Like [`usable`], but does not load changes first, and accepts keys with
/// `CKA_ALWAYS_AUTHENTICATE`.
fn find_permitted(
    token: &ClientToken,
    rights: Rights,
    mechanism: &Mechanism,
    key: ObjectHandle,
    usage: Usage,
) -> Result<Arc<Object>> {
    require(token.settings.does(row_of(mechanism.info)) & usage.mechanism != 0, Error::MechanismInvalid)?;
    let object = token.key_object(rights, key)?;
    require(object.object_type().is_key(), Error::KeyHandleInvalid)?;
    if !row_of(mechanism.info).accepts(object.key_type(), object.object_type().is_secret()) {
        return Err(Error::KeyTypeInconsistent);
    }
    // Of a key pair, only the private key can have CKA_SIGN and only the public key CKA_VERIFY. So
    // this check also refuses the wrong key of the pair.
    require(object.flag(usage.key), Error::KeyFunctionNotPermitted)?;
    require(object.allows(mechanism.info.id), Error::MechanismInvalid)?;
    // The lists of PKCS#11 3.2 do not have `CKR_CURVE_NOT_SUPPORTED` for functions that use a key.
    token.check_key_size(object.attributes()).map_err(|_| Error::KeySizeRange)?;
    if ![Flag::VERIFY, Flag::VERIFY_RECOVER].contains(&usage.key) {
        more_than_verifies(&object)?;
    }
    if let KeyFlow::Signs(flow @ Flow::Halves) = row_of(mechanism.info).flow {
        rule::sign(flow, object.attributes().makeup()).map_err(|_| {
            let reason = "the mechanism reads the halves of the unreadable key apart";
            warn!(mechanism = %mechanism.info.id, reason, "a use of a key is refused");
            Error::KeyFunctionNotPermitted
        })?;
    }
    if token.settings.enforces_fips() {
        fips::permit(mechanism, object.attributes())?;
    }
    if token.settings.is_strict() {
        token.settings.check_parameter(mechanism)?;
        strict::usable(&object, token.settings.policy.name)?;
    }
    Ok(object)
}

fn is_approved(
    token: &ClientToken,
    rights: Rights,
    (mechanism, key): (&Mechanism, Option<(ObjectHandle, Usage)>),
) -> bool {
    let approved = approvals::approved(row_of(mechanism.info));
    let Some((key, usage)) = key else { return approved != 0 };
    let permits = |object: Arc<Object>| fips::permit(mechanism, object.attributes()).is_ok();
    approved & usage.mechanism != 0 && token.key_object(rights, key).is_ok_and(permits)
}

/// Fails with `KeySizeRange` if the key is an RSA key that is so short that it only verifies.
fn more_than_verifies(object: &Object) -> Result<()> {
    match limited(object.attributes())? {
        Some(Limited::RsaBits(bits)) if bits < LEAST_RSA_BITS => {
            warn!(bits, LEAST_RSA_BITS, "a short RSA key only verifies");
            Err(Error::KeySizeRange)
        }
        _ => Ok(()),
    }
}

fn signature<A: ?Sized>(
    token: &Token,
    mechanism: &Mechanism,
    object: &Object,
    algorithm: impl FnOnce(&Scheme) -> Result<Box<A>>,
) -> Result<Signature<A>> {
    if let Action::Mac(_) = row_of(mechanism.info).action {
        return Ok(Signature::Mac(mac(token, mechanism, object)?));
    }
    let (scheme, hash) = scheme::signature(mechanism, ec::edwards_curve(object.attributes()))?;
    Ok(Signature::Pair(Message::new(token.provider(), hash), algorithm(&scheme)?))
}

fn mac(token: &Token, mechanism: &Mechanism, object: &Object) -> Result<sign::MacEngine> {
    strong_enough(object)?;
    if let Params::TlsMac { prf, len, server } = mechanism.params {
        let secret = key::secret(object.attributes())?;
        let label: &[u8] = if server { b"server finished" } else { b"client finished" };
        let finished = tls::Finished::new(token.provider(), prf, label, secret, len);
        return sign::MacEngine::new(Box::new(finished), None);
    }
    if row_of(mechanism.info).action == Action::Mac(MacFunction::TlsPrf) {
        let general = tls::Finished::general(token.provider(), key::secret(object.attributes())?);
        return sign::MacEngine::of_any_length(Box::new(general));
    }
    let request = scheme::mac(mechanism)?;
    let mac = token.provider().macs.mac(&request.scheme, key::secret(object.attributes())?)?;
    sign::MacEngine::new(mac, request.len)
}

/// Fails with `KeySizeRange` if a sensitive key is too short to make a MAC, a digest or another
/// key. NIST SP 800-131A asks for 112 bits in a key of HMAC. The MAC under a shorter key reveals
/// the key to a caller who tries all values: 256 attempts find one byte. A verification confirms a
/// guess in the same way.
pub(crate) fn strong_enough(object: &Object) -> Result<()> {
    let short = || key::secret(object.attributes()).map(|value| value.len() < MIN_SENSITIVE);
    if object.flag(Flag::SENSITIVE) && short()? { Err(Error::KeySizeRange) } else { Ok(()) }
}
