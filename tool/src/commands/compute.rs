//! `sign`, `verify`, `encrypt`, `decrypt`, `hash` and `random`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use cryptoki_sys::{
    CK_SLOT_ID, CKA_CLASS, CKA_KEY_TYPE, CKK_RSA, CKM_AES_CBC_PAD, CKM_AES_GCM, CKO_SECRET_KEY,
};
use jeton_client::safe_text::hex;
use jeton_pki::signer::{Login, Signer, sign};
use jeton_tool::client::{Access, Mechanism, ObjectHandle, Session, SlotId, Structure, names};
use jeton_tool::object::{Uses, partner, public_key_info, uses};
use jeton_tool::{Cause, Error};
use zeroize::Zeroizing;

use super::key::rsa_oaep;
use super::out::{self, Output};
use super::pin::warn;
use super::target::{self, Chosen, Need, Objects};

/// A key, and the file that it is used on.
#[derive(Args)]
struct Work {
    /// The file, or - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    chosen: Chosen,
}

/// Sign a file with a key of the token.
///
/// By default the signature has the form that X.509 and OpenSSL use. RSA keys sign with SHA-256.
/// ECDSA signatures are in DER, and the curve determines the hash. EdDSA, ML-DSA, SLH-DSA and HSS
/// keys sign the file itself. With --mechanism the signature has the form of PKCS#11.
#[derive(Args)]
pub struct Sign {
    #[command(flatten)]
    work: Work,
    /// A mechanism without a parameter, for example CKM_ECDSA_SHA384 or CKM_SHA256_HMAC.
    #[arg(long, value_name = "NAME")]
    mechanism: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl Sign {
    pub fn run(self) -> Result<(), Error> {
        self.output.expect_writable()?;
        let message = out::input(&self.work.file, out::MESSAGE)?;
        let (opened, session) = self.work.chosen.session(Access::ReadOnly, Need::Login)?;
        let key = self.work.chosen.objects.one(&session, &["private", "secret-key"])?;
        let login = Login { pin: &|| Ok(opened.pin(&self.work.chosen.pin)?) };
        let signature = match &self.mechanism {
            Some(name) => sign(&session, key, &mechanism(name)?, &login, &message)?,
            None => signer(&session, key)?.sign(&session, key, &login, &message)?,
        };
        if let Some(Uses { left, at_first: Some(all) }) = uses(&session, key)
            && left <= (all / 10).max(1)
        {
            warn(&format!("{left} of {all} signatures are left"));
        }
        self.output.public(&signature, out::Form::Binary)
    }
}

/// Verify the signature of a file. Exits with 1 if the signature is not valid.
///
/// Only a login authenticates the public keys of a token. So give the PIN unless you trust everyone
/// who may write the token's file.
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    work: Work,
    /// The file with the signature.
    #[arg(long, value_name = "FILE")]
    signature: PathBuf,
    /// The mechanism of the signature. By default the signature has the form of X.509 and OpenSSL.
    #[arg(long, value_name = "NAME")]
    mechanism: Option<String>,
}

impl Verify {
    pub fn run(self) -> Result<ExitCode, Error> {
        let message = out::input(&self.work.file, out::MESSAGE)?;
        let signature = out::input(&self.signature, 1 << 20)?;
        let (opened, session) = self.work.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let key = verifying(&self.work.chosen.objects, &session)?;
        let valid = match &self.mechanism {
            Some(name) => {
                session.verify_init(&mechanism(name)?, key)?;
                session.verify(&message, &signature)?
            }
            None => signer(&session, key)?.verify(&session, key, &message, &signature)?,
        };
        let text = if valid { "The signature is valid." } else { "The signature is NOT valid." };
        out::result(&serde_json::json!({ "valid": valid }), text)?;
        if opened.lacks_login(&session)? {
            warn("the public key is not authenticated, because the command has no PIN");
        }
        Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Finds the key that verifies: a public or secret key, or the public key of a private key.
fn verifying(objects: &Objects, session: &Session) -> Result<ObjectHandle, Error> {
    match objects.find(session, &["public", "secret-key"]) {
        Ok(found) if found.len() == 1 => Ok(found[0]),
        _ => {
            let key = objects.one(session, &["public", "secret-key", "private"])?;
            let none = || Cause::NotFound.error("the key has no public key in the token");
            partner(session, key).ok_or_else(none)
        }
    }
}

fn signer(session: &Session, key: ObjectHandle) -> Result<Signer, Error> {
    if session.number(key, CKA_CLASS) == Some(CKO_SECRET_KEY) {
        return Err(Error::Usage("a secret key needs --mechanism, for example CKM_SHA256_HMAC".to_owned()));
    }
    Ok(Signer::of(&public_key_info(session, key)?)?)
}

fn mechanism(name: &str) -> Result<Mechanism, Error> {
    let id = names::mechanism_called(&name.to_ascii_uppercase().replace('-', "_"));
    id.map(Mechanism::new)
        .ok_or_else(|| Error::Usage(format!("unknown mechanism {name:?}; `jeton mechanisms` lists them")))
}

/// A method of encryption.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// AES-GCM. The result is a nonce of 12 bytes, the ciphertext, and a tag of 16 bytes.
    AesGcm,
    /// AES-CBC with padding. The result is an initialisation vector of 16 bytes and the ciphertext.
    AesCbc,
    /// RSA-OAEP with SHA-256, for messages that are at least 66 bytes shorter than the modulus.
    RsaOaep,
}

/// A key, the file that it is used on, the method and the destination.
#[derive(Args)]
struct Cipher {
    #[command(flatten)]
    work: Work,
    /// The method. By default aes-gcm for an AES key and rsa-oaep for an RSA key.
    #[arg(long, value_enum)]
    method: Option<Method>,
    #[command(flatten)]
    output: Output,
}

/// Encrypt a file with a key of the token.
#[derive(Args)]
pub struct Encrypt {
    #[command(flatten)]
    with: Cipher,
}

/// Decrypt what `encrypt` wrote.
#[derive(Args)]
pub struct Decrypt {
    #[command(flatten)]
    with: Cipher,
}

/// An output is at most this number of bytes longer than its input: a tag, padding, or one block of
/// RSA.
const ROOM: usize = 4096;

impl Method {
    fn of(chosen: Option<Self>, session: &Session, key: ObjectHandle) -> Self {
        let rsa = session.number(key, CKA_KEY_TYPE) == Some(CKK_RSA);
        chosen.unwrap_or(if rsa { Self::RsaOaep } else { Self::AesGcm })
    }

    const fn nonce(self) -> usize {
        match self {
            Self::AesGcm => 12,
            Self::AesCbc => 16,
            Self::RsaOaep => 0,
        }
    }

    fn mechanism(self, nonce: &[u8]) -> Mechanism {
        match self {
            Self::AesGcm => {
                // CK_GCM_PARAMS: IV, its length in bytes and in bits, no additional data, tag bits.
                let parameter = Structure::new().bytes(nonce).number(96).bytes(&[]).number(128);
                parameter.mechanism(CKM_AES_GCM)
            }
            Self::AesCbc => Mechanism::with_bytes(CKM_AES_CBC_PAD, nonce),
            Self::RsaOaep => rsa_oaep(),
        }
    }
}

impl Encrypt {
    pub fn run(self) -> Result<(), Error> {
        let Cipher { work, method, output } = self.with;
        let message = out::input(&work.file, out::MESSAGE)?;
        let (_, session) = work.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let key = work.chosen.objects.one(&session, &["secret-key", "public"])?;
        let method = Method::of(method, &session, key);
        let mut result = vec![0; method.nonce() + message.len() + ROOM];
        let (nonce, rest) = result.split_at_mut(method.nonce());
        if !nonce.is_empty() {
            session.random(nonce)?;
        }
        session.encrypt_init(&method.mechanism(nonce), key)?;
        let length = session.encrypt(&message, rest)?;
        output.binary(&result[..method.nonce() + length])
    }
}

impl Decrypt {
    pub fn run(self) -> Result<(), Error> {
        let Cipher { work, method, output } = self.with;
        let input = out::input(&work.file, out::MESSAGE + ROOM)?;
        let (opened, session) = work.chosen.session(Access::ReadOnly, Need::Login)?;
        let key = work.chosen.objects.one(&session, &["secret-key", "private"])?;
        let method = Method::of(method, &session, key);
        let (nonce, ciphertext) = input
            .split_at_checked(method.nonce())
            .ok_or_else(|| Cause::Damaged.error("the file is too short"))?;
        session.decrypt_init(&method.mechanism(nonce), key)?;
        Login { pin: &|| Ok(opened.pin(&work.chosen.pin)?) }.again(&session, key)?;
        let mut message = Zeroizing::new(vec![0; ciphertext.len() + ROOM]);
        let length = session.decrypt(ciphertext, &mut message)?;
        output.text(&message[..length])
    }
}

/// A module and one of its slots, for commands that need no login.
#[derive(Args)]
struct AnySlot {
    #[command(flatten)]
    module: target::ModuleOption,
    /// The slot. The default is the first one with a token.
    #[arg(long)]
    slot: Option<CK_SLOT_ID>,
}

impl AnySlot {
    fn session(&self) -> Result<Session, Error> {
        let module = self.module.open(None)?;
        let slot = match self.slot {
            Some(slot) => SlotId(slot),
            None => {
                let none = || Cause::NotFound.error("the module has no slot with a token");
                *module.slots(true)?.first().ok_or_else(none)?
            }
        };
        Ok(module.open_session(slot, Access::ReadOnly)?)
    }
}

/// Hash a file with the module.
#[derive(Args)]
pub struct Hash {
    /// The file, or - for standard input.
    #[arg(default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    slot: AnySlot,
    /// A mechanism: sha256, sha384, sha512, sha3-256, blake2b-256, ...
    #[arg(long, default_value = "sha256")]
    mechanism: String,
}

impl Hash {
    pub fn run(self) -> Result<(), Error> {
        let name = self.mechanism.to_ascii_uppercase();
        // The specification writes CKM_SHA_1, but CKM_SHA256.
        let name = if name == "SHA1" { "SHA_1".to_owned() } else { name };
        let mechanism = mechanism(&name)?;
        let message = out::input(&self.file, out::MESSAGE)?;
        let session = self.slot.session()?;
        session.digest_init(&mechanism)?;
        let mut digest = [0; 64];
        let length = session.digest(&message, &mut digest)?;
        let digest = hex(&digest[..length]);
        out::result(&serde_json::json!({ "hex": digest }), &digest)
    }
}

/// Write random bytes from the module, as hexadecimal digits.
#[derive(Args)]
pub struct Random {
    /// The number of bytes, at most 1,048,576.
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    bytes: u32,
    #[command(flatten)]
    slot: AnySlot,
    /// Write raw bytes instead of hexadecimal digits.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    output: Output,
}

impl Random {
    pub fn run(self) -> Result<(), Error> {
        let mut random = vec![0; self.bytes as usize];
        self.slot.session()?.random(&mut random)?;
        if self.raw {
            self.output.binary(&random)
        } else {
            self.output.text(format!("{}\n", hex(&random)).as_bytes())
        }
    }
}
