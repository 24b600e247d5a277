//! Sessions, their active operations and their searches.

use std::sync::Arc;

use crate::backend::{Direction, Encryption};
use crate::config::strict as policy;
use crate::error::{Error, Result};
use crate::id::{ObjectHandle, SessionHandle, mechanism_flag as does};
use crate::mechanism::{Action, MacFunction, Mechanism, Params};
use crate::object::bits::Flag;
use crate::object::policy::Rights;
use crate::object::{Object, curve, key, strict};
use crate::secret::try_boxed;
use crate::token::Token;

pub mod crypt;
pub mod digest;
pub mod find;
pub mod message;
pub mod nonce;
pub mod operation;
pub mod otp;
pub mod recover;
pub mod sign;
pub mod state;
pub mod table;
pub mod tls;

use crypt::{Crypting, RsaHalf};
use digest::Digesting;
use find::Find;
use message::Messages;
use operation::{Engine, Message, Operation};
use otp::Otp;
use recover::Recovering;
use sign::{Signing, Verifying};

/// An open session with its active operations.
pub struct Session {
    /// The handle of this session.
    pub handle: SessionHandle,
    /// The token that the session is open on.
    pub token: Arc<Token>,
    /// True for a read/write session, which may write token objects.
    pub read_write: bool,
    /// The active search.
    pub find: Option<Find>,
    /// The digest operation.
    pub digest: Operation<Digesting>,
    /// The signature operation.
    pub sign: Operation<Signing>,
    /// The verification operation.
    pub verify: Operation<Verifying>,
    /// The encryption operation.
    pub encrypt: Operation<Crypting>,
    /// The decryption operation.
    pub decrypt: Operation<Crypting>,
    /// The signature operation with data recovery.
    pub sign_recover: Operation<Signing>,
    /// The verification operation with data recovery.
    pub verify_recover: Operation<Recovering>,
    /// The verification operation of `C_VerifySignatureInit`, which gets the signature before the
    /// data.
    pub verify_signature: Operation<Verifying>,
    /// The signature that `verify_signature` checks.
    pub signature: Vec<u8>,
    /// True for an asynchronous session, in which key generation may return `CKR_PENDING`.
    pub asynchronous: bool,
    /// The message-based encryption operation.
    pub message_encrypt: Operation<Messages>,
    /// The message-based decryption operation.
    pub message_decrypt: Operation<Messages>,
    /// The message-based signature operation.
    pub message_sign: Operation<Signing>,
    /// The message-based verification operation.
    pub message_verify: Operation<Verifying>,
}

/// The shortest sensitive key, in bytes, that makes a MAC, a digest or another key.
const MIN_SENSITIVE: usize = 14;

/// A use of a key: the flag of the mechanism and the flag of the key that permit it.
#[derive(Clone, Copy)]
pub struct Usage {
    /// The flag that the mechanism must have (`CKF_*`).
    pub mechanism: u64,
    /// The flag that the key must have.
    pub key: Flag,
}

#[allow(missing_docs, reason = "the names are the specification's")]
impl Usage {
    pub const SIGN: Self = Self { mechanism: does::SIGN, key: Flag::SIGN };
    pub const SIGN_RECOVER: Self = Self { mechanism: does::SIGN_RECOVER, key: Flag::SIGN_RECOVER };
    pub const VERIFY_RECOVER: Self = Self { mechanism: does::VERIFY_RECOVER, key: Flag::VERIFY_RECOVER };
    pub const VERIFY: Self = Self { mechanism: does::VERIFY, key: Flag::VERIFY };
    pub const ENCRYPT: Self = Self { mechanism: does::ENCRYPT, key: Flag::ENCRYPT };
    pub const DECRYPT: Self = Self { mechanism: does::DECRYPT, key: Flag::DECRYPT };
    pub const WRAP: Self = Self { mechanism: does::WRAP, key: Flag::WRAP };
    pub const UNWRAP: Self = Self { mechanism: does::UNWRAP, key: Flag::UNWRAP };
    pub const DERIVE: Self = Self { mechanism: does::DERIVE, key: Flag::DERIVE };
    pub const ENCAPSULATE: Self = Self { mechanism: does::ENCAPSULATE, key: Flag::ENCAPSULATE };
    pub const DECAPSULATE: Self = Self { mechanism: does::DECAPSULATE, key: Flag::DECAPSULATE };
    pub const MESSAGE_ENCRYPT: Self = Self { mechanism: does::MESSAGE_ENCRYPT, key: Flag::ENCRYPT };
    pub const MESSAGE_DECRYPT: Self = Self { mechanism: does::MESSAGE_DECRYPT, key: Flag::DECRYPT };
    pub const MESSAGE_SIGN: Self = Self { mechanism: does::MESSAGE_SIGN, key: Flag::SIGN };
    pub const MESSAGE_VERIFY: Self = Self { mechanism: does::MESSAGE_VERIFY, key: Flag::VERIFY };
}

impl Session {
    /// Returns a session without active operations.
    pub fn new(handle: SessionHandle, token: Arc<Token>, read_write: bool) -> Self {
        Self {
            handle,
            token,
            read_write,
            find: None,
            digest: Operation::default(),
            sign: Operation::default(),
            verify: Operation::default(),
            encrypt: Operation::default(),
            decrypt: Operation::default(),
            sign_recover: Operation::default(),
            verify_recover: Operation::default(),
            verify_signature: Operation::default(),
            signature: Vec::new(),
            asynchronous: false,
            message_encrypt: Operation::default(),
            message_decrypt: Operation::default(),
            message_sign: Operation::default(),
            message_verify: Operation::default(),
        }
    }

    /// Returns what the session may do with the current login.
    pub fn rights(&self) -> Rights {
        self.token.rights(self.read_write)
    }

    /// `C_DigestInit`
    pub fn digest_init(&mut self, mechanism: &Mechanism) -> Result<()> {
        let Action::Digest(hash) = mechanism.info.action else { return Err(Error::MechanismInvalid) };
        let (key, epoch) = (ObjectHandle(0), 0);
        if !self.digest.rearm(mechanism, key, epoch)? {
            offered(&self.token, mechanism)?;
            self.digest.start(mechanism, key, epoch, Digesting::new(self.token.provider(), hash), false);
        }
        Ok(())
    }

    /// `C_SignInit`
    pub fn sign_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, sign, read_write, .. } = self;
        let make = |object: Arc<Object>| match mechanism.info.action {
            Action::Otp => Otp::signing(token, *read_write, mechanism, key, object).map(Signing::Otp),
            _ => signing(token, mechanism, &object),
        };
        arm(sign, token, *read_write, mechanism, key, Usage::SIGN, make)
    }

    /// `C_SignRecoverInit`
    pub fn sign_recover_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, sign_recover, .. } = self;
        let make = |key: Arc<Object>| signing(token, mechanism, &key);
        arm(sign_recover, token, self.read_write, mechanism, key, Usage::SIGN_RECOVER, make)
    }

    /// `C_VerifyInit`
    pub fn verify_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, verify, .. } = self;
        let make = |object: Arc<Object>| match mechanism.info.action {
            Action::Otp => Otp::verifying(token, mechanism, key, object).map(Verifying::Otp),
            _ => verifying(token, mechanism, &object),
        };
        arm(verify, token, self.read_write, mechanism, key, Usage::VERIFY, make)
    }

    /// `C_VerifySignatureInit`
    pub fn verify_init_with(
        &mut self,
        mechanism: &Mechanism,
        key: ObjectHandle,
        signature: &[u8],
    ) -> Result<()> {
        let Self { token, verify_signature, .. } = self;
        let make = |key: Arc<Object>| verifying(token, mechanism, &key);
        arm(verify_signature, token, self.read_write, mechanism, key, Usage::VERIFY, make)?;
        // The caller chose the length of the signature, so the copy may not fit in memory.
        match try_boxed(signature) {
            Ok(signature) => self.signature = signature.into(),
            Err(error) => {
                self.verify_signature.cancel();
                return Err(error);
            }
        }
        Ok(())
    }

    /// `C_VerifyRecoverInit`
    pub fn verify_recover_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, verify_recover, .. } = self;
        let make = |key: Arc<Object>| {
            let padded = mechanism.encryption()? == Encryption::Pkcs1;
            Ok(Recovering { key: key.public_key(token.provider())?, padded })
        };
        arm(verify_recover, token, self.read_write, mechanism, key, Usage::VERIFY_RECOVER, make)
    }

    /// `C_EncryptInit`
    pub fn encrypt_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, encrypt, .. } = self;
        let make = |key: Arc<Object>| crypting(token, mechanism, &key, Direction::Encrypt);
        arm(encrypt, token, self.read_write, mechanism, key, Usage::ENCRYPT, make)
    }

    /// `C_DecryptInit`
    pub fn decrypt_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, decrypt, .. } = self;
        let make = |key: Arc<Object>| crypting(token, mechanism, &key, Direction::Decrypt);
        arm(decrypt, token, self.read_write, mechanism, key, Usage::DECRYPT, make)
    }

    /// `C_MessageSignInit`
    pub fn message_sign_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, message_sign, .. } = self;
        let make = |key: Arc<Object>| signing(token, mechanism, &key);
        arm(message_sign, token, self.read_write, mechanism, key, Usage::MESSAGE_SIGN, make)
    }

    /// `C_MessageVerifyInit`
    pub fn message_verify_init(&mut self, mechanism: &Mechanism, key: ObjectHandle) -> Result<()> {
        let Self { token, message_verify, .. } = self;
        let make = |key: Arc<Object>| verifying(token, mechanism, &key);
        arm(message_verify, token, self.read_write, mechanism, key, Usage::MESSAGE_VERIFY, make)
    }

    /// `C_MessageEncryptInit`, `C_MessageDecryptInit`
    pub fn message_crypt_init(
        &mut self,
        direction: Direction,
        mechanism: &Mechanism,
        key: ObjectHandle,
    ) -> Result<()> {
        let Self { token, message_encrypt, message_decrypt, .. } = self;
        let (operation, usage) = match direction {
            Direction::Encrypt => (message_encrypt, Usage::MESSAGE_ENCRYPT),
            Direction::Decrypt => (message_decrypt, Usage::MESSAGE_DECRYPT),
        };
        let make = |key: Arc<Object>| {
            let scheme = mechanism.info.aead().ok_or(Error::MechanismInvalid)?;
            Messages::new(token.provider(), scheme, direction, key)
        };
        arm(operation, token, self.read_write, mechanism, key, usage, make)?;
        operation.engine()?.renew();
        Ok(())
    }

    /// Returns the message-based encryption or decryption operation.
    pub fn messages(&mut self, direction: Direction) -> &mut Operation<Messages> {
        match direction {
            Direction::Encrypt => &mut self.message_encrypt,
            Direction::Decrypt => &mut self.message_decrypt,
        }
    }

    /// Returns whether an operation waits for the PIN of a key with `CKA_ALWAYS_AUTHENTICATE`.
    pub fn waits(&self) -> bool {
        self.last_waiting().is_some()
    }

    fn last_waiting(&self) -> Option<u64> {
        let single = self.sign.waits().max(self.decrypt.waits()).max(self.sign_recover.waits());
        single.max(self.message_sign.waits())
    }

    /// Unlocks the operation that was started last and waits for the PIN of its key, which has
    /// `CKA_ALWAYS_AUTHENTICATE`. PKCS#11 3.2, "Private key objects": "the user has to supply the
    /// PIN for each use". One PIN unlocks one operation.
    pub fn unlock(&mut self) -> Result<()> {
        let last = self.last_waiting().ok_or(Error::OperationNotInitialized)?;
        self.sign.unlock(last);
        self.decrypt.unlock(last);
        self.sign_recover.unlock(last);
        self.message_sign.unlock(last);
        Ok(())
    }

    /// Ends every operation that has a key and drops its engine, which holds the parsed key.
    pub fn clear_keys(&mut self) {
        self.sign.clear();
        self.verify.clear();
        self.encrypt.clear();
        self.decrypt.clear();
        self.sign_recover.clear();
        self.verify_recover.clear();
        self.verify_signature.clear();
        self.message_encrypt.clear();
        self.message_decrypt.clear();
        self.message_sign.clear();
        self.message_verify.clear();
    }
}

/// Starts an operation with a key. Reuses the kept engine if mechanism, key and epoch are the same.
fn arm<E: Engine>(
    operation: &mut Operation<E>,
    token: &Token,
    read_write: bool,
    mechanism: &Mechanism,
    key: ObjectHandle,
    usage: Usage,
    make: impl FnOnce(Arc<Object>) -> Result<E>,
) -> Result<()> {
    token.poll_occasionally()?;
    let epoch = token.epoch();
    if operation.rearm(mechanism, key, epoch)? {
        return Ok(());
    }
    offered(token, mechanism)?;
    let object = permitted(token, token.rights(read_write), mechanism, key, usage)?;
    // Only private keys have this attribute.
    let locked = object.flag(Flag::ALWAYS_AUTHENTICATE);
    operation.start(mechanism, key, epoch, make(object)?, locked);
    Ok(())
}

/// Fails with `MechanismInvalid` if the configuration does not offer the mechanism. A reused engine
/// needs no new check, because the configuration cannot change while the session is open.
fn offered(token: &Token, mechanism: &Mechanism) -> Result<()> {
    let offered = token.settings.mechanism(mechanism.info.id).is_some();
    if offered { Ok(()) } else { Err(Error::MechanismInvalid) }
}

/// Looks up a key that a session with these rights may use with this mechanism. It first takes over
/// changes of other processes, at most once a second. It is for functions that have no `Init`
/// function.
///
/// They refuse a key with `CKA_ALWAYS_AUTHENTICATE`. PKCS#11 3.2, "Private key objects": the login
/// for a use comes "immediately after a cryptographic operation using the key has been initiated".
/// Without it the function returns `CKR_USER_NOT_LOGGED_IN`. These functions initiate no operation,
/// so there is no moment for this login. `C_Login` returns `CKR_OPERATION_NOT_INITIALIZED` if no
/// operation waits for it.
pub fn usable(
    token: &Token,
    rights: Rights,
    mechanism: &Mechanism,
    key: ObjectHandle,
    usage: Usage,
) -> Result<Arc<Object>> {
    token.poll_occasionally()?;
    let object = permitted(token, rights, mechanism, key, usage)?;
    if object.flag(Flag::ALWAYS_AUTHENTICATE) { Err(Error::UserNotLoggedIn) } else { Ok(object) }
}

/// Looks up the key, but does not look for changes of other processes.
fn permitted(
    token: &Token,
    rights: Rights,
    mechanism: &Mechanism,
    key: ObjectHandle,
    usage: Usage,
) -> Result<Arc<Object>> {
    if token.settings.does(mechanism.info) & usage.mechanism == 0 {
        return Err(Error::MechanismInvalid);
    }
    let object = token.key_object(rights, key)?;
    if !object.object_type().is_key() {
        return Err(Error::KeyHandleInvalid);
    }
    if !mechanism.info.accepts(object.key_type(), object.object_type().is_secret()) {
        return Err(Error::KeyTypeInconsistent);
    }
    // Only private keys can have CKA_SIGN and only public keys CKA_VERIFY. So the flag also selects
    // the half of a key pair.
    let permitted = object.flag(usage.key) && object.allows(mechanism.info.id);
    if !permitted {
        return Err(Error::KeyFunctionNotPermitted);
    }
    if token.settings.is_strict() {
        policy::check_parameter(mechanism)?;
        strict::usable(&object)?;
    }
    Ok(object)
}

fn signing(token: &Token, mechanism: &Mechanism, object: &Object) -> Result<Signing> {
    if let Action::Mac(_) = mechanism.info.action {
        return Ok(Signing::Mac(mac(token, mechanism, object)?));
    }
    let (scheme, hash) = mechanism.scheme(curve::is_edwards448(object.attributes()))?;
    let signer = object.private_key(token.provider())?.signer(&scheme)?;
    Ok(Signing::Signature(Message::new(token.provider(), hash), signer))
}

fn verifying(token: &Token, mechanism: &Mechanism, object: &Object) -> Result<Verifying> {
    if let Action::Mac(_) = mechanism.info.action {
        return Ok(Verifying::Mac(mac(token, mechanism, object)?));
    }
    let (scheme, hash) = mechanism.scheme(curve::is_edwards448(object.attributes()))?;
    let verifier = object.public_key(token.provider())?.verifier(&scheme)?;
    Ok(Verifying::Signature(Message::new(token.provider(), hash), verifier))
}

fn mac(token: &Token, mechanism: &Mechanism, object: &Object) -> Result<sign::MacEngine> {
    strong_enough(object)?;
    if let Params::TlsMac { prf, len, server } = mechanism.params {
        let secret = key::secret(object.attributes())?;
        let finished = tls::Finished::new(token.provider(), prf, server, secret, len);
        return sign::MacEngine::new(Box::new(finished), None);
    }
    if mechanism.info.action == Action::Mac(MacFunction::TlsPrf) {
        let general = tls::Finished::general(token.provider(), key::secret(object.attributes())?);
        return sign::MacEngine::of_any_length(Box::new(general));
    }
    let request = mechanism.mac()?;
    let mac = token.provider().macs.mac(&request.scheme, key::secret(object.attributes())?)?;
    sign::MacEngine::new(mac, request.len)
}

/// Fails with `KeySizeRange` if a sensitive key is too short for a MAC. NIST SP 800-131A asks for
/// 112 bits in a key of HMAC. The MAC under a shorter key reveals the key to a caller who tries all
/// values: 256 attempts find one byte. A verification confirms a guess in the same way.
pub fn strong_enough(object: &Object) -> Result<()> {
    let short = || key::secret(object.attributes()).map(|value| value.len() < MIN_SENSITIVE);
    if object.flag(Flag::SENSITIVE) && short()? { Err(Error::KeySizeRange) } else { Ok(()) }
}

/// Returns an engine that encrypts or decrypts with the key.
pub fn crypting(
    token: &Token,
    mechanism: &Mechanism,
    object: &Object,
    direction: Direction,
) -> Result<Crypting> {
    let provider = token.provider();
    if let Action::Cipher(_) = mechanism.info.action {
        let scheme = mechanism.cipher()?;
        let cipher = provider.ciphers.cipher(&scheme, direction, key::secret(object.attributes())?)?;
        return Ok(Crypting::Cipher { cipher, scheme, direction });
    }
    let scheme = mechanism.encryption()?;
    let key = match direction {
        Direction::Encrypt => RsaHalf::Public(object.public_key(provider)?),
        Direction::Decrypt => RsaHalf::Private(object.private_key(provider)?),
    };
    let len = key::modulus_len(object.attributes())?;
    Ok(Crypting::Rsa { key, scheme, len, collected: Default::default() })
}
