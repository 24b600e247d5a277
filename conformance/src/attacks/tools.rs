//! The calls of the attacks, and their mechanisms. A call that obtains bytes or a key returns them.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Mechanism, Structure, User};

use super::keys::{Guarded, Handle, Handles, Pair, Template, VICTIM, flag, known, number, open, rsa};
use super::{Attacker, Setup, Tried};
use crate::fixture::Answer;

// Short names of the mechanisms that most attacks use.
pub const ECB: CK_MECHANISM_TYPE = CKM_AES_ECB;
pub const GCM: CK_MECHANISM_TYPE = CKM_AES_GCM;
pub const HMAC: CK_MECHANISM_TYPE = CKM_SHA256_HMAC;
pub const KW: CK_MECHANISM_TYPE = CKM_AES_KEY_WRAP;
pub const KWP: CK_MECHANISM_TYPE = CKM_AES_KEY_WRAP_KWP;
pub const OAEP: CK_MECHANISM_TYPE = CKM_RSA_PKCS_OAEP;
pub const RAW: CK_MECHANISM_TYPE = CKM_RSA_X_509;
pub const AES_WRAPS: [CK_MECHANISM_TYPE; 8] =
    [ECB, CKM_AES_CBC, CKM_AES_CBC_PAD, CKM_AES_CTR, GCM, KW, KWP, CKM_AES_KEY_WRAP_PAD];
pub const RSA_WRAPS: [CK_MECHANISM_TYPE; 4] = [CKM_RSA_PKCS, OAEP, RAW, CKM_RSA_AES_KEY_WRAP];
/// The mechanisms with which a public RSA key encrypts.
pub const RSA_CIPHERS: [CK_MECHANISM_TYPE; 3] = [CKM_RSA_PKCS, OAEP, RAW];
/// The size of the buffers. No output is larger; the signature of SLH-DSA has 17,088 bytes.
pub const BUFFER: usize = 1 << 15;

/// Returns the name of a mechanism without `CKM_`.
pub fn named(kind: CK_MECHANISM_TYPE) -> String {
    let name = jeton_client::names::mechanism(kind);
    name.trim_start_matches("CKM_").split(" (").next().unwrap_or_default().to_owned()
}

pub fn attribute_name(kind: CK_ATTRIBUTE_TYPE) -> String {
    let name = jeton_client::names::attribute(kind);
    name.split(" (").next().unwrap_or_default().to_owned()
}

/// A [`Template`], or a list of attributes.
pub trait Attributes: AsRef<[Attribute]> {}
impl<T: AsRef<[Attribute]>> Attributes for T {}

/// A mechanism, or the type of a mechanism, which gets its [`usual_parameter`].
pub trait With {
    fn mechanism(&self) -> Mechanism;
}

impl With for CK_MECHANISM_TYPE {
    fn mechanism(&self) -> Mechanism {
        usual_parameter(*self)
    }
}

impl With for Mechanism {
    fn mechanism(&self) -> Mechanism {
        self.clone()
    }
}

impl<T: With> With for &T {
    fn mechanism(&self) -> Mechanism {
        (*self).mechanism()
    }
}

/// Returns a mechanism with a usual parameter: nonces and initialisation vectors of zeros, SHA-256,
/// long tags, no salt.
fn usual_parameter(kind: CK_MECHANISM_TYPE) -> Mechanism {
    let oaep = [CKM_SHA256, CKG_MGF1_SHA256, CKZ_DATA_SPECIFIED, 0, 0];
    match kind {
        CKM_AES_CBC | CKM_AES_CBC_PAD | CKM_AES_CTS => Mechanism::with_bytes(kind, &[0; 16]),
        CKM_AES_GCM => gcm(&[0; 12]),
        CKM_AES_CTR => ctr(128, &[0; 16]),
        CKM_DES3_CBC | CKM_DES3_CBC_PAD => Mechanism::with_bytes(kind, &[0; 8]),
        CKM_RSA_PKCS_OAEP => Mechanism::with_numbers(kind, &oaep),
        CKM_RSA_AES_KEY_WRAP => {
            let oaep = oaep.iter().fold(Structure::new(), |made, number| made.number(*number));
            Structure::new().number(256).structure(oaep).mechanism(kind)
        }
        CKM_ECDH_AES_KEY_WRAP => {
            Structure::new().number(256).number(CKD_SHA256_KDF).counted(&[]).mechanism(kind)
        }
        CKM_HKDF_DERIVE => hkdf(kind, true, CKF_HKDF_SALT_NULL, Handle(0)),
        CKM_AES_ECB_ENCRYPT_DATA => data(kind, &[0; 16]),
        _ => Mechanism::new(kind),
    }
}

/// Returns AES-GCM with a nonce of the caller and a tag of 128 bits.
pub fn gcm(nonce: &[u8]) -> Mechanism {
    Structure::new().bytes(nonce).number(nonce.len() as CK_ULONG * 8).bytes(&[]).number(128).mechanism(GCM)
}

/// Returns AES-CTR with the first counter block.
pub fn ctr(bits: CK_ULONG, block: &[u8]) -> Mechanism {
    Structure::new().number(bits).inline(block).mechanism(CKM_AES_CTR)
}

/// Returns HKDF with SHA-256, which extracts, and perhaps expands.
pub fn hkdf(kind: CK_MECHANISM_TYPE, expand: bool, salt: CK_ULONG, key: Handle) -> Mechanism {
    let made = Structure::new().flag(true).flag(expand).number(CKM_SHA256).number(salt);
    made.bytes(&[]).number(key.0).bytes(&[]).mechanism(kind)
}

/// Returns a mechanism whose parameter is `CK_KEY_DERIVATION_STRING_DATA`.
pub fn data(kind: CK_MECHANISM_TYPE, data: &[u8]) -> Mechanism {
    Structure::new().bytes(data).mechanism(kind)
}

/// Returns a mechanism whose parameter is one number: a position, a length or a key.
pub fn numbered(kind: CK_MECHANISM_TYPE, number: CK_ULONG) -> Mechanism {
    Mechanism::with_numbers(kind, &[number])
}

pub fn ecdh(point: &[u8]) -> Mechanism {
    Structure::new().number(CKD_NULL).counted(&[]).counted(point).mechanism(CKM_ECDH1_DERIVE)
}

impl<'a> Attacker<'a> {
    /// Calls a function with the handle of the session as the first argument.
    pub fn call(&self, function: &'static str, arguments: Vec<Arg<'_>>) -> Tried<()> {
        Ok(self.fixture.call(function, &self.session, arguments)?)
    }

    /// Calls `fill` with a buffer. Returns the bytes that it wrote.
    fn filled(&self, fill: impl FnOnce(&mut [u8]) -> Answer<usize>) -> Tried<Vec<u8>> {
        let mut out = vec![0; BUFFER];
        let length = fill(&mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// Calls a function whose last arguments are a buffer and its length. Returns the output.
    pub fn output(&self, function: &'static str, arguments: Vec<Arg<'_>>) -> Tried<Vec<u8>> {
        let (mut out, mut length) = (vec![0; BUFFER], BUFFER as CK_ULONG);
        let mut all: Vec<Arg<'_>> = arguments;
        all.push(Arg::Buffer(&mut out, &mut length));
        self.call(function, all)?;
        out.truncate(length as usize);
        Ok(out)
    }

    pub fn init(&self, function: &'static str, with: impl With, key: Handle) -> Tried<()> {
        self.call(function, vec![Arg::Mechanism(&with.mechanism()), Arg::Number(key.0)])
    }

    /// Calls a function that has an input and an output, such as `C_Encrypt`.
    pub fn transform(&self, function: &'static str, data: &[u8]) -> Tried<Vec<u8>> {
        self.output(function, vec![Arg::Bytes(data)])
    }

    /// Returns an attacker with another session of the same application.
    pub fn another(&self) -> Tried<Self> {
        Ok(Attacker { fixture: self.fixture, session: self.fixture.fresh()? })
    }

    /// Gives the PIN of a key with `CKA_ALWAYS_AUTHENTICATE`. This is a step of the owner.
    pub fn give_pin(&self) -> Tried<()> {
        self.login(User::ContextSpecific, Some(&self.fixture.pin)).setup()
    }

    pub fn import(&self, template: impl Attributes) -> Tried<Handle> {
        Ok(self.create_object(template.as_ref())?)
    }

    pub fn copy(&self, key: Handle, changes: impl Attributes) -> Tried<Handle> {
        Ok(self.copy_object(key, changes.as_ref())?)
    }

    /// Calls `C_SetAttributeValue`. Returns the same key.
    pub fn set(&self, key: Handle, changes: impl Attributes) -> Tried<Handle> {
        self.set_attributes(key, changes.as_ref())?;
        Ok(key)
    }

    pub fn generate(&self, template: impl Attributes) -> Tried<Handle> {
        Ok(self.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), template.as_ref())?)
    }

    /// Generates an AES key with only these usages. The attacker does not know its value.
    pub fn generated(&self, usages: &[CK_ATTRIBUTE_TYPE]) -> Tried<Handle> {
        let template = Template::from([flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 32)]);
        self.generate(template.guarded(Guarded::Wrappable).usages(usages))
    }

    /// Generates a pair. Returns the public and the private key.
    pub fn pair(&self, pair: &Pair) -> Tried<Handles> {
        let with = Mechanism::new(pair.generate);
        Ok(self.generate_key_pair(&with, pair.public.as_ref(), pair.private.as_ref())?)
    }

    pub fn wrapping_key(&self, with: CK_MECHANISM_TYPE) -> Tried<Handle> {
        if RSA_WRAPS.contains(&with) {
            return self.pair(&rsa(&[CKA_WRAP], &[])).map(|(public, _)| public);
        }
        self.import(known(&[CKA_WRAP]))
    }

    /// Returns the point of a public key without its DER encoding.
    pub fn point(&self, public: Handle) -> Answer<Vec<u8>> {
        let point = self.attribute(public, CKA_EC_POINT)?;
        let bare = point.first() == Some(&4) && point.len() % 2 == 1 && point.len() != 67;
        Ok(if bare { point } else { point[2..].to_vec() })
    }

    pub fn value(&self, key: Handle) -> Tried<Vec<u8>> {
        Ok(self.attribute(key, CKA_VALUE)?)
    }

    pub fn is(&self, object: Handle, kind: CK_ATTRIBUTE_TYPE) -> Tried<bool> {
        Ok(self.attribute(object, kind)? == [1])
    }

    pub fn encrypted(&self, with: impl With, key: Handle, data: &[u8]) -> Tried<Vec<u8>> {
        self.encrypt_init(&with.mechanism(), key)?;
        self.filled(|out| self.encrypt(data, out))
    }

    pub fn decrypted(&self, with: impl With, key: Handle, data: &[u8]) -> Tried<Vec<u8>> {
        self.decrypt_init(&with.mechanism(), key)?;
        self.filled(|out| self.decrypt(data, out))
    }

    pub fn signed(&self, with: impl With, key: Handle, data: &[u8]) -> Tried<Vec<u8>> {
        self.sign_init(&with.mechanism(), key)?;
        self.filled(|out| self.sign(data, out))
    }

    pub fn verifies(&self, with: impl With, key: Handle, data: &[u8], signature: &[u8]) -> Tried<bool> {
        self.verify_init(&with.mechanism(), key)?;
        Ok(self.verify(data, signature)?)
    }

    /// Signs with the private key of a pair. Returns whether the public key verifies the signature.
    pub fn forges(&self, with: impl With, (public, private): Handles, data: &[u8]) -> Tried<bool> {
        let signature = self.signed(&with, private, data)?;
        self.verifies(with, public, data, &signature)
    }

    /// Returns whether two AES keys encrypt a block to the same ciphertext.
    pub fn same(&self, with: impl With, one: Handle, two: Handle) -> Tried<bool> {
        Ok(self.encrypted(&with, one, &[0; 16])? == self.encrypted(with, two, &[0; 16])?)
    }

    pub fn wrapped(&self, with: impl With, wrapping: Handle, key: Handle) -> Tried<Vec<u8>> {
        self.filled(|out| self.wrap_key(&with.mechanism(), wrapping, key, out))
    }

    pub fn unwrapped(
        &self,
        with: impl With,
        key: Handle,
        wrapped: &[u8],
        template: impl Attributes,
    ) -> Tried<Handle> {
        Ok(self.unwrap_key(&with.mechanism(), key, wrapped, template.as_ref())?)
    }

    /// Unwraps bytes as a readable key. Returns its value.
    pub fn opened(&self, with: impl With, key: Handle, wrapped: &[u8]) -> Tried<Vec<u8>> {
        self.value(self.unwrapped(with, key, wrapped, open(CKK_GENERIC_SECRET))?)
    }

    pub fn derived(&self, with: impl With, base: Handle, template: impl Attributes) -> Tried<Handle> {
        Ok(self.derive_key(&with.mechanism(), base, template.as_ref())?)
    }

    pub fn digested(&self, kind: CK_MECHANISM_TYPE, data: &[u8]) -> Tried<Vec<u8>> {
        self.digest_init(&Mechanism::new(kind))?;
        self.filled(|out| self.digest(data, out))
    }

    /// Calls `C_DigestKey`. Returns the digest of the value of a key.
    pub fn digest_of_key(&self, key: Handle) -> Tried<Vec<u8>> {
        self.digest_init(&Mechanism::new(CKM_SHA256))?;
        self.call("C_DigestKey", vec![Arg::Number(key.0)])?;
        self.filled(|out| self.digest_final(out))
    }

    /// Calls `C_EncapsulateKey` with ML-KEM. Returns the ciphertext and the key.
    pub fn encapsulated(&self, public: Handle, template: impl Attributes) -> Tried<(Vec<u8>, Handle)> {
        let (with, key) = (Mechanism::new(CKM_ML_KEM), Arg::zeroed());
        let (mut out, mut length) = (vec![0; BUFFER], BUFFER as CK_ULONG);
        let (with, template) = (Arg::Mechanism(&with), Arg::Template(template.as_ref()));
        let outputs = [Arg::Buffer(&mut out, &mut length), Arg::Output(&key)];
        let arguments = [with, Arg::Number(public.0), template].into_iter().chain(outputs).collect();
        self.call("C_EncapsulateKey", arguments)?;
        out.truncate(length as usize);
        Ok((out, Handle(key.number(0))))
    }

    /// The owner encapsulates a key. Then the attacker calls `C_DecapsulateKey`. Returns its key.
    pub fn decapsulates(
        &self,
        (public, private): Handles,
        owners: Template,
        template: Template,
    ) -> Tried<Handle> {
        let (with, key) = (Mechanism::new(CKM_ML_KEM), Arg::zeroed());
        let (ciphertext, _) = self.encapsulated(public, owners).setup()?;
        let (with, template) = (Arg::Mechanism(&with), Arg::Template(template.as_ref()));
        let bytes = Arg::Bytes(&ciphertext);
        let arguments = vec![with, Arg::Number(private.0), template, bytes, Arg::Output(&key)];
        self.call("C_DecapsulateKey", arguments)?;
        Ok(Handle(key.number(0)))
    }

    /// Wraps a key under `own`, whose value is [`KNOWN`]. Returns whether the ciphertext contains
    /// the victim. If the module refuses to unwrap or to return the value, returns true for any
    /// ciphertext that is not empty: the attacker decrypts it outside the token.
    pub fn exports(&self, own: Handle, victim: Handle) -> Tried<bool> {
        let wrapped = self.wrapped(KW, own, victim)?;
        let opened = self.import(known(&[CKA_UNWRAP])).and_then(|key| self.opened(KW, key, &wrapped));
        Ok(opened.map_or(!wrapped.is_empty(), |value| value == VICTIM))
    }

    /// Wraps a key under a key that the attacker imports, like [`Attacker::exports`].
    pub fn steals(&self, victim: Handle) -> Tried<bool> {
        self.exports(self.import(known(&[CKA_WRAP]))?, victim)
    }

    pub fn known_wrapped(&self) -> Tried<Vec<u8>> {
        self.wrapped(KW, self.import(known(&[CKA_WRAP]))?, self.import(known(&[CKA_ENCRYPT]))?)
    }

    pub fn known_unwrapped(&self, key: &Template, template: &Template) -> Tried<Handle> {
        let own = self.import(key)?;
        self.unwrapped(KW, own, &self.known_wrapped()?, template)
    }
}
