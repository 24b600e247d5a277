//! Helpers of the attacks: victims, keys of the attacker, and functions that make several calls.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Failure, Mechanism, Memory, ObjectHandle, Structure};

use super::{Attacker, Setup, Stop, flag, mechanism};
use crate::fixture::P256;

/// The value of the victims that are secret keys.
pub const VICTIM: [u8; 32] = *b"the victim is thirty-two bytes..";
/// The value of a key that the attacker knows.
pub const KNOWN: [u8; 32] = *b"the attacker knows these bytes !";
/// The usages of secret keys.
pub const USAGES: [CK_ATTRIBUTE_TYPE; 7] =
    [CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP, CKA_SIGN, CKA_VERIFY, CKA_DERIVE];
/// The usages of private keys.
const PRIVATE_USAGES: [CK_ATTRIBUTE_TYPE; 5] =
    [CKA_DECRYPT, CKA_SIGN, CKA_SIGN_RECOVER, CKA_UNWRAP, CKA_DERIVE];

/// How the owner protects a victim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Guarded {
    /// `CKA_SENSITIVE` is true and `CKA_EXTRACTABLE` is false.
    Kept,
    /// `CKA_SENSITIVE` and `CKA_EXTRACTABLE` are true.
    Wrappable,
    /// `CKA_SENSITIVE`, `CKA_EXTRACTABLE` and `CKA_WRAP_WITH_TRUSTED` are true.
    ForTrusted,
    /// The key is readable, because the attacker may know its value.
    Open,
}

impl Guarded {
    pub fn attributes(self) -> Vec<Attribute> {
        let mut all =
            vec![flag(CKA_SENSITIVE, self != Self::Open), flag(CKA_EXTRACTABLE, self != Self::Kept)];
        if self == Self::ForTrusted {
            all.push(flag(CKA_WRAP_WITH_TRUSTED, true));
        }
        all
    }
}

/// Returns an attribute for each type in `all`. The value is true if `wanted` contains the type.
pub fn said(all: &[CK_ATTRIBUTE_TYPE], wanted: &[CK_ATTRIBUTE_TYPE]) -> Vec<Attribute> {
    all.iter().map(|usage| flag(*usage, wanted.contains(usage))).collect()
}

/// Returns the attributes of a session object of a class and key type.
pub fn head(class: CK_OBJECT_CLASS, kind: CK_KEY_TYPE) -> Vec<Attribute> {
    vec![Attribute::number(CKA_CLASS, class), Attribute::number(CKA_KEY_TYPE, kind), flag(CKA_TOKEN, false)]
}

/// Returns a template for a readable secret key.
pub fn readable(kind: CK_KEY_TYPE) -> Vec<Attribute> {
    [head(CKO_SECRET_KEY, kind), Guarded::Open.attributes()].concat()
}

/// Returns a template for a readable secret key of this length.
pub fn readable_of(kind: CK_KEY_TYPE, length: usize) -> Vec<Attribute> {
    [readable(kind), vec![Attribute::number(CKA_VALUE_LEN, length as CK_ULONG)]].concat()
}

/// Returns a template for a secret key that is sensitive and not extractable.
pub fn hidden_of(kind: CK_KEY_TYPE, length: usize, usages: &[CK_ATTRIBUTE_TYPE]) -> Vec<Attribute> {
    let mut template = [head(CKO_SECRET_KEY, kind), Guarded::Kept.attributes()].concat();
    template.push(Attribute::number(CKA_VALUE_LEN, length as CK_ULONG));
    template.extend(usages.iter().map(|usage| flag(*usage, true)));
    template
}

/// Returns AES-GCM with a nonce of zeros and a tag of 128 bits, in the form for `C_Encrypt` and
/// `C_WrapKey`.
pub fn gcm() -> Mechanism {
    Structure::new().bytes(&[0; 12]).number(96).bytes(&[]).number(128).mechanism(CKM_AES_GCM)
}

pub fn cbc(kind: CK_MECHANISM_TYPE) -> Mechanism {
    Mechanism::with_bytes(kind, &[0; 16])
}

pub fn oaep() -> Mechanism {
    let numbers = [CKM_SHA256, CKG_MGF1_SHA256, CKZ_DATA_SPECIFIED, 0, 0];
    Mechanism::with_numbers(CKM_RSA_PKCS_OAEP, &numbers)
}

pub fn rsa_aes() -> Mechanism {
    let oaep = [CKM_SHA256, CKG_MGF1_SHA256, CKZ_DATA_SPECIFIED, 0, 0];
    let oaep = oaep.iter().fold(Structure::new(), |made, number| made.number(*number));
    Structure::new().number(256).structure(oaep).mechanism(CKM_RSA_AES_KEY_WRAP)
}

pub fn ecdh(point: &[u8]) -> Mechanism {
    Structure::new().number(CKD_NULL).counted(&[]).counted(point).mechanism(CKM_ECDH1_DERIVE)
}

/// Returns a wrapping mechanism with its parameter.
pub fn wrapper(kind: CK_MECHANISM_TYPE) -> Mechanism {
    match kind {
        CKM_AES_CBC | CKM_AES_CBC_PAD | CKM_AES_CTS => cbc(kind),
        CKM_AES_GCM => gcm(),
        CKM_AES_CTR => Structure::new().number(128).inline(&[0; 16]).mechanism(kind),
        CKM_DES3_CBC | CKM_DES3_CBC_PAD => Mechanism::with_bytes(kind, &[0; 8]),
        CKM_RSA_PKCS_OAEP => oaep(),
        CKM_RSA_AES_KEY_WRAP => rsa_aes(),
        _ => mechanism(kind),
    }
}

/// The mechanisms with which the attacks wrap under an AES key.
pub const AES_WRAPS: [CK_MECHANISM_TYPE; 8] = [
    CKM_AES_ECB,
    CKM_AES_CBC,
    CKM_AES_CBC_PAD,
    CKM_AES_CTR,
    CKM_AES_GCM,
    CKM_AES_KEY_WRAP,
    CKM_AES_KEY_WRAP_KWP,
    CKM_AES_KEY_WRAP_PAD,
];
/// The mechanisms with which the attacks wrap under an RSA key.
pub const RSA_WRAPS: [CK_MECHANISM_TYPE; 4] =
    [CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP, CKM_RSA_X_509, CKM_RSA_AES_KEY_WRAP];

/// Returns the name of a mechanism without `CKM_`.
pub fn named(kind: CK_MECHANISM_TYPE) -> String {
    let name = jeton_client::names::mechanism(kind);
    name.trim_start_matches("CKM_").split(" (").next().unwrap_or_default().to_owned()
}

/// Returns the name of an attribute.
pub fn attribute_name(kind: CK_ATTRIBUTE_TYPE) -> String {
    let name = jeton_client::names::attribute(kind);
    name.split(" (").next().unwrap_or_default().to_owned()
}

impl Attacker<'_> {
    /// Imports a secret key with this value and only these usages.
    pub fn secret(
        &self,
        kind: CK_KEY_TYPE,
        value: &[u8],
        guarded: Guarded,
        usages: &[CK_ATTRIBUTE_TYPE],
        more: &[Attribute],
    ) -> Result<ObjectHandle, Failure> {
        let mut template = head(CKO_SECRET_KEY, kind);
        template.extend(guarded.attributes());
        template.push(Attribute::bytes(CKA_VALUE, value));
        template.extend(said(&USAGES, usages));
        self.create_object(&replaced(template, more))
    }

    /// Imports a key of the owner with the value [`VICTIM`].
    pub fn victim(
        &self,
        kind: CK_KEY_TYPE,
        guarded: Guarded,
        usages: &[CK_ATTRIBUTE_TYPE],
    ) -> Result<ObjectHandle, Stop> {
        self.secret(kind, &VICTIM, guarded, usages, &[]).setup()
    }

    /// Imports an AES key that the attacker knows.
    pub fn known(&self, usages: &[CK_ATTRIBUTE_TYPE]) -> Result<ObjectHandle, Failure> {
        self.secret(CKK_AES, &KNOWN, Guarded::Open, usages, &[])
    }

    /// Generates an RSA pair of 2048 bits. The arguments are the usages of the public key, those of
    /// the private key, and more attributes of the private key.
    pub fn rsa(
        &self,
        public: &[CK_ATTRIBUTE_TYPE],
        private: &[CK_ATTRIBUTE_TYPE],
        more: &[Attribute],
    ) -> Result<(ObjectHandle, ObjectHandle), Failure> {
        let all = [CKA_ENCRYPT, CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_WRAP];
        let mut template = vec![
            flag(CKA_TOKEN, false),
            Attribute::number(CKA_MODULUS_BITS, 2048),
            Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
        ];
        template.extend(said(&all, public));
        let mut own = vec![flag(CKA_TOKEN, false)];
        own.extend(Guarded::Kept.attributes());
        own.extend(said(&PRIVATE_USAGES[..4], private));
        self.generate_key_pair(&mechanism(CKM_RSA_PKCS_KEY_PAIR_GEN), &template, &replaced(own, more))
    }

    /// Generates a P-256 pair. The arguments are the usages, the protection and more attributes of
    /// the private key.
    pub fn ec(
        &self,
        private: &[CK_ATTRIBUTE_TYPE],
        guarded: Guarded,
        more: &[Attribute],
    ) -> Result<(ObjectHandle, ObjectHandle), Failure> {
        let public = [flag(CKA_TOKEN, false), Attribute::bytes(CKA_EC_PARAMS, P256), flag(CKA_VERIFY, true)];
        let mut own = vec![flag(CKA_TOKEN, false)];
        own.extend(guarded.attributes());
        own.extend(said(&[CKA_SIGN, CKA_DERIVE], private));
        self.generate_key_pair(&mechanism(CKM_EC_KEY_PAIR_GEN), &public, &replaced(own, more))
    }

    /// Returns the point of a public key without its DER encoding.
    pub fn point(&self, public: ObjectHandle) -> Result<Vec<u8>, Failure> {
        let point = self.attribute(public, CKA_EC_POINT)?;
        Ok(if point.first() == Some(&4) && point.len() % 2 == 1 && point.len() != 67 {
            point
        } else {
            point[2..].to_vec()
        })
    }

    pub fn value(&self, key: ObjectHandle) -> Result<Vec<u8>, Failure> {
        self.attribute(key, CKA_VALUE)
    }

    /// Returns whether a flag of an object is true.
    pub fn is(&self, object: ObjectHandle, kind: CK_ATTRIBUTE_TYPE) -> Result<bool, Failure> {
        Ok(self.attribute(object, kind)? == [1])
    }

    pub fn encrypted(&self, with: &Mechanism, key: ObjectHandle, data: &[u8]) -> Result<Vec<u8>, Failure> {
        self.encrypt_init(with, key)?;
        let mut out = vec![0; data.len() + 1024];
        let length = self.encrypt(data, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    pub fn decrypted(&self, with: &Mechanism, key: ObjectHandle, data: &[u8]) -> Result<Vec<u8>, Failure> {
        self.decrypt_init(with, key)?;
        let mut out = vec![0; data.len() + 1024];
        let length = self.decrypt(data, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    pub fn signed(&self, with: &Mechanism, key: ObjectHandle, data: &[u8]) -> Result<Vec<u8>, Failure> {
        self.sign_init(with, key)?;
        let mut out = vec![0; 8192];
        let length = self.sign(data, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// Returns whether the module verifies a signature.
    pub fn verifies(
        &self,
        with: &Mechanism,
        key: ObjectHandle,
        data: &[u8],
        signature: &[u8],
    ) -> Result<bool, Failure> {
        self.verify_init(with, key)?;
        self.verify(data, signature)
    }

    pub fn wrapped(
        &self,
        with: &Mechanism,
        wrapping: ObjectHandle,
        key: ObjectHandle,
    ) -> Result<Vec<u8>, Failure> {
        let mut out = vec![0; 8192];
        let length = self.wrap_key(with, wrapping, key, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    pub fn digested(&self, kind: CK_MECHANISM_TYPE, data: &[u8]) -> Result<Vec<u8>, Failure> {
        self.digest_init(&mechanism(kind))?;
        let mut out = vec![0; 64];
        let length = self.digest(data, &mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// Calls `C_DigestKey`. Returns the digest of the value of a key.
    pub fn digest_of_key(&self, key: ObjectHandle) -> Result<Vec<u8>, Failure> {
        self.digest_init(&mechanism(CKM_SHA256))?;
        self.fixture.call("C_DigestKey", &self.session, vec![Arg::Number(key.0)])?;
        let mut out = vec![0; 32];
        let length = self.digest_final(&mut out)?;
        out.truncate(length);
        Ok(out)
    }

    /// Calls `C_EncapsulateKey`. Returns the ciphertext and the key.
    pub fn encapsulated(
        &self,
        with: &Mechanism,
        key: ObjectHandle,
        template: &[Attribute],
    ) -> Result<(Vec<u8>, ObjectHandle), Failure> {
        let (output, mut out, mut length) = (Arg::zeroed(), vec![0; 2048], 2048);
        let arguments = vec![
            Arg::Mechanism(with),
            Arg::Number(key.0),
            Arg::Template(template),
            Arg::Buffer(&mut out, &mut length),
            Arg::Output(&output),
        ];
        self.fixture.call("C_EncapsulateKey", &self.session, arguments)?;
        out.truncate(length as usize);
        Ok((out, ObjectHandle(output.number(0))))
    }

    /// Calls `C_DecapsulateKey`. Returns the key.
    pub fn decapsulated(
        &self,
        with: &Mechanism,
        key: ObjectHandle,
        ciphertext: &[u8],
        template: &[Attribute],
    ) -> Result<ObjectHandle, Failure> {
        let output = Arg::zeroed();
        let arguments = vec![
            Arg::Mechanism(with),
            Arg::Number(key.0),
            Arg::Template(template),
            Arg::Bytes(ciphertext),
            Arg::Output(&output),
        ];
        self.fixture.call("C_DecapsulateKey", &self.session, arguments)?;
        Ok(ObjectHandle(output.number(0)))
    }

    /// Calls an `Init` function with a mechanism and a key.
    pub fn init(&self, function: &'static str, with: &Mechanism, key: ObjectHandle) -> Result<(), Failure> {
        self.fixture.call(function, &self.session, vec![Arg::Mechanism(with), Arg::Number(key.0)])
    }

    /// Calls a function that has an input and an output, such as `C_Encrypt`.
    pub fn transform(&self, function: &'static str, data: &[u8]) -> Result<Vec<u8>, Failure> {
        let (mut out, mut length) = (vec![0; 8192], 8192);
        let arguments = vec![Arg::Bytes(data), Arg::Buffer(&mut out, &mut length)];
        self.fixture.call(function, &self.session, arguments)?;
        out.truncate(length as usize);
        Ok(out)
    }

    /// Recovers the value of an AES or generic key that was wrapped under [`KNOWN`]. The attacker
    /// imports `KNOWN` as an unwrapping key, and unwraps the value as a readable key.
    pub fn opened(&self, with: &Mechanism, wrapped: &[u8]) -> Result<Vec<u8>, Failure> {
        let own = self.known(&[CKA_UNWRAP])?;
        let made = self.unwrap_key(with, own, wrapped, &readable(CKK_GENERIC_SECRET))?;
        self.value(made)
    }

    /// Returns whether this ciphertext under [`KNOWN`] contains the victim. If the module refuses
    /// to unwrap or to return the value, returns true for any ciphertext that is not empty. The
    /// attacker can decrypt such a ciphertext outside the token.
    pub fn is_victim_under_known(&self, with: &Mechanism, wrapped: &[u8]) -> Result<bool, Failure> {
        match self.opened(with, wrapped) {
            Ok(value) => Ok(value == VICTIM),
            // The key left the token under a key that the attacker knows.
            Err(_) => Ok(!wrapped.is_empty()),
        }
    }
}

/// Returns the template, in which the attributes in `more` replace those of the same types.
pub fn replaced(template: Vec<Attribute>, more: &[Attribute]) -> Vec<Attribute> {
    let kept = template.into_iter().filter(|one| !more.iter().any(|other| other.kind == one.kind));
    kept.chain(more.iter().cloned()).collect()
}

/// Returns a template as the value of an attribute, such as `CKA_UNWRAP_TEMPLATE`. The value points
/// to the returned memory, so the caller must keep that memory.
pub fn nested(attributes: &[Attribute]) -> (Vec<u8>, Vec<Memory>) {
    let held: Vec<_> = attributes.iter().map(|one| Memory::of(&one.value)).collect();
    let made = attributes.iter().zip(&held).fold(Structure::new(), |made, (one, memory)| {
        made.number(one.kind).pointer(memory).number(one.value.len() as CK_ULONG)
    });
    (made.memory().bytes(), held)
}
