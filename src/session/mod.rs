//! Sessions: their operations and their searches.

use std::sync::Arc;

use crate::backend::{Direction, Encryption};
use crate::error::{Error, Result};
use crate::id::{KeyType, ObjectHandle, SessionHandle, mechanism_flag as does};
use crate::mechanism::{Action, Asymmetric, Code, Invocation, Params, PointForm, hmac};
use crate::object::bits::Flag;
use crate::object::policy::Rights;
use crate::object::{Object, curve, key};
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
    /// The encryption.
    pub encrypt: Operation<Crypting>,
    /// The decryption.
    pub decrypt: Operation<Crypting>,
    /// The signature that gives its data back.
    pub sign_recover: Operation<Signing>,
    /// The recovery of such data.
    pub verify_recover: Operation<Recovering>,
    /// The verification of a signature that came first.
    pub verify_signature: Operation<Verifying>,
    /// That signature.
    pub signature: Vec<u8>,
    /// Whether slow functions answer before they are done.
    pub asynchronous: bool,
    /// The message-based encryption.
    pub message_encrypt: Operation<Messages>,
    /// The message-based decryption.
    pub message_decrypt: Operation<Messages>,
    /// The message-based signature.
    pub message_sign: Operation<Signing>,
    /// The message-based verification.
    pub message_verify: Operation<Verifying>,
}

/// What a key is used for.
#[derive(Clone, Copy)]
pub struct Usage {
    /// The flag that the mechanism has (`CKF_*`).
    pub mechanism: u64,
    /// The flag that the key has.
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

    /// What the session may do now.
    pub fn rights(&self) -> Rights {
        self.token.rights(self.read_write)
    }

    /// `C_DigestInit`
    pub fn digest_init(&mut self, with: &Invocation) -> Result<()> {
        let Action::Digest(hash) = with.mechanism.action else { return Err(Error::MechanismInvalid) };
        let (key, epoch) = (ObjectHandle(0), 0);
        if !self.digest.rearm(with, key, epoch)? {
            offered(&self.token, with)?;
            self.digest.start(with, key, epoch, Digesting::new(self.token.provider(), hash), false);
        }
        Ok(())
    }

    /// `C_SignInit`
    pub fn sign_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, sign, read_write, .. } = self;
        let make = |object: Arc<Object>| match with.mechanism.action {
            Action::Otp => Otp::signing(token, *read_write, with, key, object).map(Signing::Otp),
            _ => signing(token, with, &object),
        };
        arm(sign, token, *read_write, with, key, Usage::SIGN, make)
    }

    /// `C_SignRecoverInit`
    pub fn sign_recover_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, sign_recover, .. } = self;
        let make = |key: Arc<Object>| signing(token, with, &key);
        arm(sign_recover, token, self.read_write, with, key, Usage::SIGN_RECOVER, make)
    }

    /// `C_VerifyInit`
    pub fn verify_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, verify, .. } = self;
        let make = |object: Arc<Object>| match with.mechanism.action {
            Action::Otp => Otp::verifying(token, with, key, object).map(Verifying::Otp),
            _ => verifying(token, with, &object),
        };
        arm(verify, token, self.read_write, with, key, Usage::VERIFY, make)
    }

    /// `C_VerifySignatureInit`
    pub fn verify_init_with(&mut self, with: &Invocation, key: ObjectHandle, signature: &[u8]) -> Result<()> {
        let Self { token, verify_signature, .. } = self;
        let make = |key: Arc<Object>| verifying(token, with, &key);
        arm(verify_signature, token, self.read_write, with, key, Usage::VERIFY, make)?;
        self.signature.clear();
        self.signature.extend_from_slice(signature);
        Ok(())
    }

    /// `C_VerifyRecoverInit`
    pub fn verify_recover_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, verify_recover, .. } = self;
        let make = |key: Arc<Object>| {
            let padded = with.encryption()? == Encryption::Pkcs1;
            Ok(Recovering { key: key.public_key(token.provider())?, padded })
        };
        arm(verify_recover, token, self.read_write, with, key, Usage::VERIFY_RECOVER, make)
    }

    /// `C_EncryptInit`
    pub fn encrypt_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, encrypt, .. } = self;
        let make = |key: Arc<Object>| crypting(token, with, &key, Direction::Encrypt);
        arm(encrypt, token, self.read_write, with, key, Usage::ENCRYPT, make)
    }

    /// `C_DecryptInit`
    pub fn decrypt_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, decrypt, .. } = self;
        let make = |key: Arc<Object>| crypting(token, with, &key, Direction::Decrypt);
        arm(decrypt, token, self.read_write, with, key, Usage::DECRYPT, make)
    }

    /// `C_MessageSignInit`
    pub fn message_sign_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, message_sign, .. } = self;
        let make = |key: Arc<Object>| signing(token, with, &key);
        arm(message_sign, token, self.read_write, with, key, Usage::MESSAGE_SIGN, make)
    }

    /// `C_MessageVerifyInit`
    pub fn message_verify_init(&mut self, with: &Invocation, key: ObjectHandle) -> Result<()> {
        let Self { token, message_verify, .. } = self;
        let make = |key: Arc<Object>| verifying(token, with, &key);
        arm(message_verify, token, self.read_write, with, key, Usage::MESSAGE_VERIFY, make)
    }

    /// `C_MessageEncryptInit`, `C_MessageDecryptInit`
    pub fn message_crypt_init(
        &mut self,
        direction: Direction,
        with: &Invocation,
        key: ObjectHandle,
    ) -> Result<()> {
        let Self { token, message_encrypt, message_decrypt, .. } = self;
        let (operation, usage) = match direction {
            Direction::Encrypt => (message_encrypt, Usage::MESSAGE_ENCRYPT),
            Direction::Decrypt => (message_decrypt, Usage::MESSAGE_DECRYPT),
        };
        let make = |key: Arc<Object>| {
            let scheme = with.mechanism.aead().ok_or(Error::MechanismInvalid)?;
            Messages::new(token.provider(), scheme, direction, key)
        };
        arm(operation, token, self.read_write, with, key, usage, make)?;
        operation.engine()?.renew();
        Ok(())
    }

    /// The message-based encryption or decryption.
    pub fn messages(&mut self, direction: Direction) -> &mut Operation<Messages> {
        match direction {
            Direction::Encrypt => &mut self.message_encrypt,
            Direction::Decrypt => &mut self.message_decrypt,
        }
    }

    /// Whether an operation waits for the PIN of its key, which has `CKA_ALWAYS_AUTHENTICATE`.
    pub fn waits(&self) -> bool {
        let single = self.sign.active() || self.decrypt.active() || self.sign_recover.active();
        single || self.message_sign.active()
    }

    /// The PIN came for an operation with a key that has `CKA_ALWAYS_AUTHENTICATE`.
    pub fn unlock(&mut self) -> Result<()> {
        let single = self.sign.unlock() | self.decrypt.unlock() | self.sign_recover.unlock();
        let unlocked = single | self.message_sign.unlock();
        if unlocked { Ok(()) } else { Err(Error::OperationNotInitialized) }
    }

    /// Lets go what a login left behind: operations and parsed private keys.
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

/// Starts an operation with a key, or takes the engine again that was made for the same.
fn arm<E: Engine>(
    operation: &mut Operation<E>,
    token: &Token,
    read_write: bool,
    with: &Invocation,
    key: ObjectHandle,
    usage: Usage,
    make: impl FnOnce(Arc<Object>) -> Result<E>,
) -> Result<()> {
    token.glance()?;
    let epoch = token.epoch();
    if operation.rearm(with, key, epoch)? {
        return Ok(());
    }
    offered(token, with)?;
    let object = permitted(token, token.rights(read_write), with, key, usage)?;
    // Private keys alone have it.
    let locked = object.flag(Flag::ALWAYS_AUTHENTICATE);
    operation.start(with, key, epoch, make(object)?, locked);
    Ok(())
}

/// Whether the configuration offers the mechanism. What is armed again was, for the life of a session.
fn offered(token: &Token, with: &Invocation) -> Result<()> {
    let offered = token.settings.mechanism(with.mechanism.id).is_some();
    if offered { Ok(()) } else { Err(Error::MechanismInvalid) }
}

/// The key of a handle, where a session with these rights may use it for that with this mechanism, after a look at what
/// other processes did.
pub fn usable(
    token: &Token,
    rights: Rights,
    with: &Invocation,
    key: ObjectHandle,
    usage: Usage,
) -> Result<Arc<Object>> {
    token.glance()?;
    permitted(token, rights, with, key, usage)
}

/// The same without the look.
fn permitted(
    token: &Token,
    rights: Rights,
    with: &Invocation,
    key: ObjectHandle,
    usage: Usage,
) -> Result<Arc<Object>> {
    if with.mechanism.does() & usage.mechanism == 0 {
        return Err(Error::MechanismInvalid);
    }
    let object = token.object(rights, key).map_err(|_| Error::KeyHandleInvalid)?;
    if !object.sort().is_key() {
        return Err(Error::KeyHandleInvalid);
    }
    if !accepts(with, &object) {
        return Err(Error::KeyTypeInconsistent);
    }
    // The rules give CKA_SIGN to private keys alone and CKA_VERIFY to public ones, so the flag tells the half.
    let permitted = object.flag(usage.key) && object.allows(with.mechanism.id);
    if permitted { Ok(object) } else { Err(Error::KeyFunctionNotPermitted) }
}

/// Whether a mechanism works with a key of that type.
fn accepts(with: &Invocation, object: &Object) -> bool {
    let (own, wanted) = (object.key_type(), with.mechanism.key_type);
    match with.mechanism.action {
        // PKCS#11 3.2, "HMAC mechanisms": generic secrets, and the key types of the hashes.
        Action::Mac(Code::Hmac(hash)) => own == wanted || own == hmac::key_type(hash),
        // Any secret key.
        Action::Derive(_) if wanted.is_none() => object.sort().is_secret(),
        Action::Derive(_) if wanted == Some(KeyType::EC) => {
            own == wanted || own == Some(KeyType::EC_MONTGOMERY)
        }
        Action::Encrypt(Asymmetric::EcdhAesWrap(PointForm::Bare)) if wanted == Some(KeyType::EC) => {
            own == wanted || own == Some(KeyType::EC_MONTGOMERY)
        }
        _ => own == wanted,
    }
}

fn signing(token: &Token, with: &Invocation, object: &Object) -> Result<Signing> {
    if let Action::Mac(_) = with.mechanism.action {
        return Ok(Signing::Code(code(token, with, object)?));
    }
    let (scheme, hash) = with.scheme(curve::is_edwards448(object.attributes()))?;
    let signer = object.private_key(token.provider())?.signer(&scheme)?;
    Ok(Signing::Signature(Message::new(token.provider(), hash), signer))
}

fn verifying(token: &Token, with: &Invocation, object: &Object) -> Result<Verifying> {
    if let Action::Mac(_) = with.mechanism.action {
        return Ok(Verifying::Code(code(token, with, object)?));
    }
    let (scheme, hash) = with.scheme(curve::is_edwards448(object.attributes()))?;
    let verifier = object.public_key(token.provider())?.verifier(&scheme)?;
    Ok(Verifying::Signature(Message::new(token.provider(), hash), verifier))
}

fn code(token: &Token, with: &Invocation, object: &Object) -> Result<sign::Code> {
    if let Params::TlsMac { prf, len, server } = with.params {
        let secret = key::secret(object.attributes())?;
        let finished = tls::Finished::new(token.provider(), prf, server, secret, len);
        return sign::Code::new(Box::new(finished), None);
    }
    if with.mechanism.action == Action::Mac(Code::TlsPrf) {
        let general = tls::Finished::general(token.provider(), key::secret(object.attributes())?);
        return sign::Code::of_any_length(Box::new(general));
    }
    let request = with.mac()?;
    let mac = token.provider().macs.mac(&request.scheme, key::secret(object.attributes())?)?;
    sign::Code::new(mac, request.len)
}

/// An encryption or decryption with that key.
pub fn crypting(token: &Token, with: &Invocation, object: &Object, direction: Direction) -> Result<Crypting> {
    let provider = token.provider();
    if let Action::Cipher(_) = with.mechanism.action {
        let scheme = with.cipher()?;
        let cipher = provider.ciphers.cipher(&scheme, direction, key::secret(object.attributes())?)?;
        return Ok(Crypting::Cipher { cipher, scheme, direction });
    }
    let scheme = with.encryption()?;
    let key = match direction {
        Direction::Encrypt => RsaHalf::Public(object.public_key(provider)?),
        Direction::Decrypt => RsaHalf::Private(object.private_key(provider)?),
    };
    let len = key::modulus_len(object.attributes())?;
    Ok(Crypting::Rsa { key, scheme, len, collected: Default::default() })
}
