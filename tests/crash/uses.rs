//! The uses of a key with each row of the mechanism table.

use std::thread;

use jeton::backend::{CipherMode, CipherScheme};
use jeton::functions::Derived;
use jeton::id::mechanism_flag as flag;
use jeton::mechanism::message::MessageParams;
use jeton::mechanism::sp800_108::{Field, Kdf, Number};
use jeton::mechanism::tls::{Randoms, TlsPrf};
use jeton::mechanism::{
    Action, AgreementKdf, Asymmetric, Derivation, MechanismRow, MuKey, Primitive, Shape, row_of,
};

use crate::prelude::*;
use crate::scan::Sought;

/// A key, with the other objects that its uses need.
pub struct Fixture<'a> {
    pub client: &'a Client,
    pub session: SessionHandle,
    pub key: ObjectHandle,
    /// Its public key, or the same secret key.
    pub public: ObjectHandle,
    /// Another secret key. It is wrapped, and derivations use it as their second key.
    pub other: ObjectHandle,
    /// The public value that key agreements take as the peer's.
    pub peer: Vec<u8>,
    /// Secrets that the uses produced.
    pub made: Vec<Sought>,
}

impl Fixture<'_> {
    /// Uses the key with the functions of a mechanism. Returns the error of the first function that
    /// failed.
    pub fn work(&mut self, row: &'static MechanismRow) -> Result<()> {
        let mechanism = Mechanism { info: row.word(), params: self.params(row) };
        match row.action {
            Action::Sign(primitive, hash) => self.sign(&mechanism, message_len(primitive, hash)),
            Action::Mac(_) => self.sign(&mechanism, 1000),
            Action::Otp => self.client.sign(self.session, &mechanism, self.key, b"").map(drop),
            Action::Cipher(mode) => self.encipher(&mechanism, mode),
            Action::Encrypt(Asymmetric::Oaep) => {
                self.encrypt(&mechanism, 32).and_then(|()| self.wrap(&mechanism))
            }
            Action::Encrypt(_) => self.wrap(&mechanism),
            Action::Derive(derivation) => self.derive(&mechanism, derivation),
            Action::Encapsulate => self.encapsulate(&mechanism),
            Action::Digest(_) | Action::MlDsaMu => self.digest(&mechanism),
            _ => Err(Error::MechanismInvalid),
        }
    }

    fn sign(&mut self, mechanism: &Mechanism, len: usize) -> Result<()> {
        let (module, session) = (&self.client.module, self.session);
        let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let out = &mut [0; 1 << 16];
        module.sign_init(session, mechanism, self.key)?;
        let cut = if mechanism.info.id == M::TLS_PRF_GENERAL { 50 } else { out.len() };
        let len = module.sign(session, &data, Output::Buffer(&mut out[..cut]))?;
        let signature = out[..len].to_vec();
        if mechanism.info.id != M::TLS_PRF_GENERAL {
            self.client.verify(session, mechanism, self.public, &data, &signature)?;
        }
        if let Action::Sign(Primitive::RsaRaw | Primitive::RsaPkcs1 | Primitive::RsaPss, _) =
            row_of(mechanism.info).action
        {
            self.sign_in_threads(mechanism, &data);
        }
        if !row_of(mechanism.info).is_single_part() {
            module.sign_init(session, mechanism, self.key)?;
            module.sign_update(session, &data)?;
            module.sign_final(session, Output::Buffer(&mut out[..cut]))?;
        }
        let does = row_of(mechanism.info).flags;
        if does & flag::MESSAGE_SIGN != 0 {
            module.message_sign_init(session, mechanism, self.key)?;
            module.sign_message(session, &data, Output::Buffer(out))?;
            module.sign_message_begin(session)?;
            module.sign_message_end(session, &data, Output::Buffer(out))?;
            module.message_sign_final(session)?;
        }
        if does & flag::SIGN_RECOVER != 0 {
            module.sign_recover_init(session, mechanism, self.key)?;
            module.sign_recover(session, &data, Output::Buffer(out))?;
        }
        if does & flag::DECRYPT != 0 {
            self.encrypt(mechanism, 32)?;
        }
        if does & flag::UNWRAP != 0 && mechanism.info.id != M::RSA_X_509 {
            self.wrap(mechanism)?;
        }
        Ok(())
    }

    /// Signs in more threads than there are processors, so that callers compute together.
    fn sign_in_threads(&self, mechanism: &Mechanism, data: &[u8]) {
        let sign = || {
            let session = self.client.open();
            for _ in 0..8 {
                self.client.sign(session, mechanism, self.key, data).expect("a signature");
            }
            self.client.module.close_session(session).expect("a session");
        };
        let count = 8 * thread::available_parallelism().expect("processors").get();
        thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(sign))));
    }

    fn encrypt(&self, mechanism: &Mechanism, len: usize) -> Result<()> {
        let (module, session) = (&self.client.module, self.session);
        let (mut sealed, mut opened) = ([0; 4096], [0; 4096]);
        module.encrypt_init(session, mechanism, self.public)?;
        let len = module.encrypt(session, &[7; 64][..len], Output::Buffer(&mut sealed))?;
        module.decrypt_init(session, mechanism, self.key)?;
        module.decrypt(session, &sealed[..len], Output::Buffer(&mut opened))?;
        if row_of(mechanism.info).is_single_part() {
            return Ok(());
        }
        module.encrypt_init(session, mechanism, self.public)?;
        let half = module.encrypt_update(session, &[7; 16], Output::Buffer(&mut sealed));
        if half == Err(Error::FunctionNotSupported) {
            return Ok(());
        }
        // CCM and XTS need the whole message.
        module.encrypt_update(session, &[7; 48], Output::Buffer(&mut sealed[64..]))?;
        module.encrypt_final(session, Output::Buffer(&mut sealed)).map(drop)
    }

    fn encipher(&mut self, mechanism: &Mechanism, mode: CipherMode) -> Result<()> {
        self.encrypt(mechanism, 64)?;
        let scheme = match mode {
            CipherMode::Aead(scheme) => scheme,
            CipherMode::ChaCha20 => return Ok(()),
            _ => return self.wrap(mechanism),
        };
        let (module, session) = (&self.client.module, self.session);
        let bare = Mechanism { params: Params::None, info: mechanism.info };
        let params = || {
            MessageParams::new(scheme, &[9; 12], 16).map(|mut params| {
                params.announce(64);
                params
            })
        };
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            module.message_crypt_init(session, direction, &bare, self.key)?;
            let mut params = params()?;
            // The ciphertext is forged. The decryption still uses the key.
            let whole = module.crypt_message(
                session,
                direction,
                &mut params,
                b"known",
                &[7; 64],
                Output::Buffer(&mut [0; 64]),
            );
            if direction == Direction::Encrypt {
                whole?;
            }
            module.crypt_message_begin(session, direction, &mut params, b"known")?;
            module.crypt_message_next(session, direction, &[7; 48], Output::Buffer(&mut [0; 64]))?;
            let end = module.crypt_message_end(
                session,
                direction,
                &mut params,
                &[7; 16],
                Output::Buffer(&mut [0; 64]),
            );
            if direction == Direction::Encrypt {
                end?;
            }
            module.message_crypt_final(session, direction)?;
        }
        if scheme == AeadScheme::AesGcm { self.wrap(mechanism) } else { Ok(()) }
    }

    /// Wraps the other key with this one, and unwraps it. `made` does not get the unwrapped key,
    /// because the other key has the same value.
    fn wrap(&mut self, mechanism: &Mechanism) -> Result<()> {
        let (module, session) = (&self.client.module, self.session);
        let mut wrapped = [0; 8192];
        let len =
            module.wrap_key(session, mechanism, self.public, self.other, Output::Buffer(&mut wrapped))?;
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET);
        let blocks = [M::AES_ECB, M::AES_CBC, M::DES3_ECB, M::DES3_CBC].contains(&mechanism.info.id);
        let template = if blocks { template.number(A::VALUE_LEN, 48) } else { template };
        module.unwrap_key(session, mechanism, self.key, &wrapped[..len], &template.template()).map(drop)
    }

    fn derive(&mut self, mechanism: &Mechanism, derivation: Derivation) -> Result<()> {
        let (module, session) = (&self.client.module, self.session);
        let template = match derivation {
            Derivation::PublicKey => {
                return module.derive_key(session, mechanism, self.key, &none().template()).map(drop);
            }
            Derivation::HkdfData => none().number(A::VALUE_LEN, 32),
            Derivation::TlsMaster { .. } | Derivation::TlsKeys | Derivation::TlsPrf => shown(),
            Derivation::HashOfKey(hash) => shown().number(A::VALUE_LEN, hash.len() as u64),
            Derivation::Ike1Prf => {
                shown().number(A::VALUE_LEN, 32).number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0)
            }
            _ => shown().number(A::VALUE_LEN, 32),
        };
        let template = if derivation == Derivation::TlsKeys {
            template.number(A::CLASS, ObjectClass::SECRET_KEY.0).number(A::KEY_TYPE, KeyType::AES.0)
        } else {
            template
        };
        match module.derive(session, mechanism, self.key, &template.template(), &mut [])? {
            Derived::Key(key) | Derived::Master(key, _) if derivation != Derivation::HkdfData => {
                self.keep(key)
            }
            _ => Ok(()),
        }
    }

    fn encapsulate(&mut self, mechanism: &Mechanism) -> Result<()> {
        let (module, session) = (&self.client.module, self.session);
        let template = shown();
        let mut sealed = [0; 4096];
        let out = Output::Buffer(&mut sealed);
        let (len, key) =
            module.encapsulate_key(session, mechanism, self.public, &template.template(), out)?;
        self.keep(key.expect("a key"))?;
        let key =
            module.decapsulate_key(session, mechanism, self.key, &template.template(), &sealed[..len])?;
        self.keep(key)
    }

    fn digest(&self, mechanism: &Mechanism) -> Result<()> {
        let (module, session) = (&self.client.module, self.session);
        module.digest_init(session, mechanism)?;
        module.digest_key(session, self.key)?;
        module.digest_update(session, b"data")?;
        module.digest_final(session, Output::Buffer(&mut [0; 64])).map(drop)
    }

    /// Records the value of a new key.
    fn keep(&mut self, key: ObjectHandle) -> Result<()> {
        let value = zeroize::Zeroizing::new(self.client.read(self.session, key, A::VALUE)?);
        self.made.push(Sought::new("a key that was made", &value));
        Ok(())
    }

    fn params(&self, row: &MechanismRow) -> Params {
        let bytes = |len: usize| vec![3; len].into_boxed_slice();
        let (client, server) = (bytes(32), bytes(32));
        let randoms = Randoms { client, server };
        let tls12 = matches!(row.shape(), Shape::Tls12Master(_) | Shape::Tls12Keys | Shape::Tls12SafeKeys)
            || [M::TLS12_MAC, M::TLS12_KDF, M::TLS12_EXTENDED_MASTER_KEY_DERIVE].contains(&row.id)
            || row.id == M::TLS12_EXTENDED_MASTER_KEY_DERIVE_DH;
        let prf = if tls12 { TlsPrf::Hash(Hash::Sha256) } else { TlsPrf::Md5Sha1 };
        let hash = match row.action {
            Action::Sign(_, Some(hash)) => hash,
            _ => Hash::Sha256,
        };
        let code = MacFunction::Hmac(Hash::Sha256);
        match row.shape() {
            Shape::None | Shape::Eddsa | Shape::SignContext => Params::None,
            Shape::HashSignContext => {
                Params::SignContext { deterministic: true, context: bytes(3), hash: Some(Hash::Sha256) }
            }
            Shape::MuGen => Params::MuGen { key: MuKey::Hash(bytes(64)), context: bytes(3) },
            Shape::Pss => Params::Pss { hash, mgf: hash, salt_len: hash.len() },
            Shape::Oaep => Params::Oaep { hash, mgf: hash, label: bytes(3) },
            Shape::RsaAesWrap => Params::RsaAesWrap { aes_bits: 256, hash, mgf: hash, label: bytes(3) },
            Shape::Cipher(mode) => Params::Cipher(cipher(mode)),
            Shape::Gmac => Params::Gmac { iv: bytes(12), tag_len: 16 },
            Shape::Length => Params::Length(16),
            Shape::Ecdh => Params::Ecdh {
                kdf: Some(AgreementKdf::X963(Hash::Sha256)),
                shared: bytes(5),
                peer: self.peer[..].into(),
            },
            Shape::Hkdf => {
                let salt = HkdfSalt::Key(self.other);
                Params::Hkdf { extract: true, expand: true, hash, salt, info: bytes(5) }
            }
            Shape::Data => Params::Data(bytes(64)),
            Shape::CbcData => Params::CbcData { iv: [3; 16], data: bytes(32) },
            Shape::Key => Params::Key(self.other),
            Shape::Bit => Params::Bit(0),
            Shape::Integer => Params::Data(self.peer[..].into()),
            Shape::EcdhAesWrap => {
                Params::EcdhAesWrap { aes_bits: 256, kdf: Some(AgreementKdf::X963(hash)), shared: bytes(5) }
            }
            Shape::Otp => Params::Otp { counter: None, digits: None, format: None, flags: 0 },
            Shape::Sp800_108(kdf) => {
                let number = Number { little_endian: false, len: 4 };
                let counter = (kdf == Kdf::Counter).then_some(number);
                let fields = vec![Field::Iteration(counter), Field::Bytes(bytes(5)), Field::Key(self.other)];
                Params::Sp800_108 { prf: code, fields, iv: Box::default() }
            }
            Shape::TlsMaster(_) | Shape::Tls12Master(_) => Params::TlsMaster { prf, randoms },
            Shape::Tls12ExtendedMaster(_) => Params::TlsExtendedMaster { prf, session_hash: bytes(32) },
            Shape::TlsKeys | Shape::Tls12Keys => {
                Params::TlsKeys { prf, randoms, mac_len: 20, key_len: 16, iv_len: 16 }
            }
            Shape::Tls12SafeKeys => Params::TlsKeys { prf, randoms, mac_len: 20, key_len: 16, iv_len: 0 },
            Shape::TlsKdf => Params::TlsKdf { prf, label: bytes(5), randoms, context: None },
            Shape::TlsMac => Params::TlsMac { prf, len: 12, server: true },
            Shape::TlsPrf => Params::TlsPrf { seed: bytes(32), label: bytes(5), len: 32 },
            Shape::IkePrf => {
                Params::IkePrf { prf: code, data_as_key: false, nonces: bytes(32), new_key: None }
            }
            Shape::Ike1Prf => {
                let (shared, cookies) = (self.other, bytes(16));
                Params::Ike1Prf { prf: code, shared, previous: Some(self.other), cookies, number: 1 }
            }
            Shape::Ike1Extended => {
                Params::Ike1Extended { prf: code, shared: Some(self.other), extra: bytes(5) }
            }
            Shape::Ike2PrfPlus => {
                Params::Ike2PrfPlus { prf: code, seed_key: Some(self.other), seed: bytes(5) }
            }
            Shape::Version | Shape::Pbkdf2 => Params::None,
        }
    }
}

/// A cipher with a parameter for messages of 64 bytes.
fn cipher(mode: CipherMode) -> CipherScheme {
    let nonce = [9; 12];
    match mode {
        CipherMode::AesCtr => CipherScheme::AesCtr { block: [3; 16], bits: 64 },
        CipherMode::ChaCha20 => CipherScheme::ChaCha20 { nonce: nonce.into(), counter: 1 },
        CipherMode::Aead(cipher) => {
            let aad = [3; 5].into();
            CipherScheme::Aead { cipher, nonce: nonce.into(), aad, tag_len: 16, data_len: 64 }
        }
        mode => {
            let schemes = [0, 4, 8, 16].map(|len| mode.scheme(&[3; 16][..len]));
            schemes.into_iter().find_map(Result::ok).expect("an initialisation vector")
        }
    }
}

/// The length of a message that the signature scheme accepts.
fn message_len(primitive: Primitive, hash: Option<Hash>) -> usize {
    match (primitive, hash) {
        (Primitive::RsaRaw, _) => 256,
        (Primitive::RsaPkcs1 | Primitive::RsaPss | Primitive::Digest(_), None) => 32,
        (Primitive::HashMlDsa | Primitive::HashSlhDsa, None) => 32,
        (Primitive::MlDsaMu, _) => 64,
        _ => 1000,
    }
}

/// Generates a key with a mechanism, and reads its secrets.
pub fn generate(client: &Client, session: SessionHandle, row: &'static MechanismRow) -> Result<Vec<Sought>> {
    let mechanism = match row.action {
        Action::GeneratePreMaster => Mechanism { params: Params::Version([3, 3]), ..plain(row.id) },
        Action::Generate => plain(row.id),
        _ => return Err(Error::MechanismInvalid),
    };
    let key_type = row.key_type.expect("a key type");
    let sized = ![KeyType::DES3].contains(&key_type) && row.action == Action::Generate;
    let template = if sized { shown().number(A::VALUE_LEN, 32) } else { shown() };
    let key = client.module.generate_key(session, &mechanism, &template.template())?;
    let value = zeroize::Zeroizing::new(client.read(session, key, A::VALUE)?);
    Ok(vec![Sought::new("a key that was generated", &value)])
}
