//! The proof of a private key: what Jeton computes with it fits the public key of the old store.

mod public;

use cryptoki_sys::*;
use jeton_migrate::Object;

use super::Plan;
use crate::Error;
use crate::client::{Arg, Attribute, Failure, Mechanism, ObjectHandle, Session, Structure, User};

pub(super) use public::PublicKeys;

use public::PublicKey;

const MESSAGE: &[u8] = b"jeton migrate: proof of a key pair";
/// The longest signature in bytes, of SLH-DSA-SHA2-256f and SLH-DSA-SHAKE-256f. RSA ciphertexts and
/// those of ML-KEM are shorter.
const LONGEST: usize = 49_856;

pub(super) struct Prover<'a> {
    pub(super) session: &'a Session,
    pub(super) pin: &'a str,
    pub(super) publics: &'a PublicKeys<'a>,
    /// Whether the new token offers DSA.
    pub(super) has_dsa: bool,
    /// Whether the policy of the new token is *strict*.
    pub(super) is_strict: bool,
}

/// The operation that proves a key.
enum Way {
    Sign(Mechanism),
    Decrypt,
    Derive,
    Decapsulate,
}

/// The private key that a proof uses: the new object, or a session object with the same value.
struct Subject {
    key: ObjectHandle,
    /// Whether each use needs the PIN.
    asks: bool,
}

pub(super) enum Verdict {
    /// The key fits. The text says how that was shown.
    Proved(String),
    /// There was no way to prove the key. The text says why.
    Unproved(String),
}

impl Prover<'_> {
    /// Proves one private key. Fails if it does not fit its public key.
    pub(super) fn prove(&self, plan: &Plan, object: &Object, key: ObjectHandle) -> Result<Verdict, Error> {
        let publics = self.publics.of(object);
        if publics.is_empty() {
            let reason = "the old store has no public key and no certificate with this ID";
            return Ok(Verdict::Unproved(reason.to_owned()));
        }
        let Some(way) = Way::of(plan) else {
            return Ok(Verdict::Unproved("its type has no operation that can prove it".to_owned()));
        };
        let asks = plan.flag(CKA_ALWAYS_AUTHENTICATE);
        let subject = match way.is_allowed(plan) && !(asks && way.is_one_call()) {
            true => Subject { key, asks },
            false => Subject { key: self.twin(plan, &way)?, asks: false },
        };
        let verdict = match &way {
            Way::Sign(mechanism) => self.by_signature(&subject, mechanism, &publics),
            Way::Decrypt => self.by_decryption(&subject, &publics),
            Way::Derive => self.by_derivation(subject.key, &publics),
            Way::Decapsulate => self.by_decapsulation(&subject, &publics),
        };
        if subject.key != key {
            self.session.destroy_object(subject.key)?;
        }
        verdict
    }

    fn by_signature(
        &self,
        subject: &Subject,
        mechanism: &Mechanism,
        publics: &[PublicKey],
    ) -> Result<Verdict, Error> {
        self.session.sign_init(mechanism, subject.key)?;
        self.authenticate(subject)?;
        let mut signature = vec![0; LONGEST];
        let length = self.session.sign(MESSAGE, &mut signature)?;
        signature.truncate(length);
        for public in publics {
            let judge = self.judge(public, CKA_VERIFY)?;
            self.session.verify_init(mechanism, judge)?;
            // If the verification fails with any code, the signature is not valid.
            let is_valid = self.session.verify(MESSAGE, &signature).unwrap_or(false);
            self.session.destroy_object(judge)?;
            if is_valid {
                return Ok(Verdict::Proved("signature".to_owned()));
            }
        }
        Err(misfit("a signature made in Jeton does not verify with the old public key"))
    }

    fn by_decryption(&self, subject: &Subject, publics: &[PublicKey]) -> Result<Verdict, Error> {
        let mechanism = Mechanism::new(CKM_RSA_PKCS);
        for public in publics {
            let judge = self.judge(public, CKA_ENCRYPT)?;
            self.session.encrypt_init(&mechanism, judge)?;
            let mut ciphertext = vec![0; LONGEST];
            let length = self.session.encrypt(MESSAGE, &mut ciphertext)?;
            ciphertext.truncate(length);
            self.session.destroy_object(judge)?;
            self.session.decrypt_init(&mechanism, subject.key)?;
            self.authenticate(subject)?;
            let mut plain = vec![0; LONGEST];
            if self.session.decrypt(&ciphertext, &mut plain).is_ok_and(|length| plain[..length] == *MESSAGE) {
                return Ok(Verdict::Proved("decryption".to_owned()));
            }
        }
        Err(misfit("it does not decrypt what the old public key encrypts"))
    }

    /// Proves the key by a key agreement with a new key pair. The key and the new public key must
    /// give the same secret as the new private key and the old public key.
    fn by_derivation(&self, key: ObjectHandle, publics: &[PublicKey]) -> Result<Verdict, Error> {
        for public in publics {
            let (mechanism, template) = public.partner();
            let hidden = [Attribute::flag(CKA_DERIVE, true), Attribute::flag(CKA_TOKEN, false)];
            let (theirs, partner) =
                self.session.generate_key_pair(&Mechanism::new(mechanism), &template, &hidden)?;
            let point = self.session.attribute(theirs, public.value_kind())?;
            let ours = self.derive(public, key, &point)?;
            let other = self.derive(public, partner, public.value())?;
            for object in [theirs, partner] {
                self.session.destroy_object(object)?;
            }
            if ours == other {
                return Ok(Verdict::Proved("derivation".to_owned()));
            }
        }
        Err(misfit("it does not derive the secret that the old public key gives"))
    }

    fn derive(&self, public: &PublicKey, key: ObjectHandle, point: &[u8]) -> Result<Vec<u8>, Failure> {
        let mechanism = if public.kind == CKK_DH {
            Mechanism::with_bytes(CKM_DH_PKCS_DERIVE, point)
        } else {
            Structure::new().number(CKD_NULL).counted(&[]).counted(point).mechanism(CKM_ECDH1_DERIVE)
        };
        self.revealed(self.session.derive_key(&mechanism, key, &open_secret())?)
    }

    /// Proves a key of ML-KEM: it decapsulates the secret that the old public key encapsulates.
    fn by_decapsulation(&self, subject: &Subject, publics: &[PublicKey]) -> Result<Verdict, Error> {
        let (mechanism, template) = (Mechanism::new(CKM_ML_KEM), open_secret());
        for public in publics {
            let judge = self.judge(public, CKA_ENCAPSULATE)?;
            let (mut ciphertext, mut length) = (vec![0; LONGEST], LONGEST as CK_ULONG);
            let handles = [Arg::zeroed(), Arg::zeroed()];
            let mut arguments = [
                Arg::Number(self.session.handle()),
                Arg::Mechanism(&mechanism),
                Arg::Number(judge.0),
                Arg::Template(&template),
                Arg::Buffer(&mut ciphertext, &mut length),
                Arg::Output(&handles[0]),
            ];
            self.session.module().call("C_EncapsulateKey", &mut arguments)?;
            self.session.destroy_object(judge)?;
            let mut arguments = [
                Arg::Number(self.session.handle()),
                Arg::Mechanism(&mechanism),
                Arg::Number(subject.key.0),
                Arg::Template(&template),
                Arg::Bytes(&ciphertext[..length as usize]),
                Arg::Output(&handles[1]),
            ];
            self.session.module().call("C_DecapsulateKey", &mut arguments)?;
            let [theirs, ours] = handles.map(|handle| ObjectHandle(handle.number(0)));
            if self.revealed(theirs)? == self.revealed(ours)? {
                return Ok(Verdict::Proved("decapsulation".to_owned()));
            }
        }
        Err(misfit("it does not decapsulate what the old public key encapsulates"))
    }

    /// Returns the value of a secret, and destroys it.
    fn revealed(&self, secret: ObjectHandle) -> Result<Vec<u8>, Failure> {
        let value = self.session.attribute(secret, CKA_VALUE)?;
        self.session.destroy_object(secret)?;
        Ok(value)
    }

    /// Creates a session object with the value of the old public key.
    fn judge(&self, public: &PublicKey, usage: CK_ATTRIBUTE_TYPE) -> Result<ObjectHandle, Failure> {
        let mut template = public.parts.clone();
        template.extend([Attribute::flag(CKA_TOKEN, false), Attribute::flag(usage, true)]);
        self.session.create_object(&template)
    }

    /// Creates a session object with the value of the private key that permits this proof.
    fn twin(&self, plan: &Plan, way: &Way) -> Result<ObjectHandle, Failure> {
        let (usage, _) = way.needs(plan);
        let changed = [
            CKA_TOKEN,
            CKA_DESTROYABLE,
            usage,
            CKA_ALWAYS_AUTHENTICATE,
            CKA_ALLOWED_MECHANISMS,
            CKA_START_DATE,
            CKA_END_DATE,
        ];
        let kept = plan.template.iter().filter(|one| !changed.contains(&one.kind)).cloned();
        let more = [Attribute::flag(CKA_TOKEN, false), Attribute::flag(usage, true)];
        self.session.create_object(&kept.chain(more).collect::<Vec<_>>())
    }

    fn authenticate(&self, subject: &Subject) -> Result<(), Failure> {
        if subject.asks {
            self.session.login(User::ContextSpecific, Some(self.pin))?;
        }
        Ok(())
    }
}

/// Returns the template of a secret that can be read.
fn open_secret() -> [Attribute; 5] {
    [
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_GENERIC_SECRET),
        Attribute::flag(CKA_TOKEN, false),
        Attribute::flag(CKA_SENSITIVE, false),
        Attribute::flag(CKA_EXTRACTABLE, true),
    ]
}

const fn can_sign(kind: CK_KEY_TYPE) -> bool {
    matches!(kind, CKK_RSA | CKK_DSA | CKK_EC | CKK_EC_EDWARDS | CKK_ML_DSA | CKK_SLH_DSA)
}

impl Way {
    /// Chooses an operation that the usages of the key permit. If they permit no operation, chooses
    /// one that the key type supports: [`Prover::twin`] makes a session object that permits it.
    fn of(plan: &Plan) -> Option<Self> {
        let kind = plan.number(CKA_KEY_TYPE)?;
        let decrypts = kind == CKK_RSA && plan.flag(CKA_DECRYPT);
        let derives = matches!(kind, CKK_EC | CKK_EC_MONTGOMERY | CKK_DH);
        if decrypts && !plan.flag(CKA_SIGN) {
            return Some(Self::Decrypt);
        }
        if derives && !plan.flag(CKA_SIGN) && (plan.flag(CKA_DERIVE) || !can_sign(kind)) {
            return Some(Self::Derive);
        }
        if kind == CKK_ML_KEM {
            return Some(Self::Decapsulate);
        }
        let mechanism = match kind {
            CKK_RSA => CKM_SHA256_RSA_PKCS,
            CKK_DSA => CKM_DSA_SHA256,
            CKK_EC => CKM_ECDSA_SHA256,
            CKK_EC_EDWARDS => CKM_EDDSA,
            CKK_ML_DSA => CKM_ML_DSA,
            CKK_SLH_DSA => CKM_SLH_DSA,
            _ => return None,
        };
        Some(Self::Sign(Mechanism::new(mechanism)))
    }

    /// Returns whether the usages and the allowed mechanisms of the key permit this operation.
    fn is_allowed(&self, plan: &Plan) -> bool {
        let (usage, mechanism) = self.needs(plan);
        let allowed = plan.get(CKA_ALLOWED_MECHANISMS).is_none_or(|list| {
            list.as_chunks::<8>().0.iter().any(|number| u64::from_ne_bytes(*number) == mechanism)
        });
        plan.flag(usage) && allowed
    }

    fn needs(&self, plan: &Plan) -> (CK_ATTRIBUTE_TYPE, CK_MECHANISM_TYPE) {
        match self {
            Self::Sign(mechanism) => (CKA_SIGN, mechanism.kind),
            Self::Decrypt => (CKA_DECRYPT, CKM_RSA_PKCS),
            Self::Decapsulate => (CKA_DECAPSULATE, CKM_ML_KEM),
            Self::Derive if plan.number(CKA_KEY_TYPE) == Some(CKK_DH) => (CKA_DERIVE, CKM_DH_PKCS_DERIVE),
            Self::Derive => (CKA_DERIVE, CKM_ECDH1_DERIVE),
        }
    }

    /// Returns whether the operation is one call. Such a call has no moment for the PIN that a key
    /// with `CKA_ALWAYS_AUTHENTICATE` needs.
    const fn is_one_call(&self) -> bool {
        matches!(self, Self::Derive | Self::Decapsulate)
    }
}

fn misfit(reason: &str) -> Error {
    Error::Migration(reason.to_owned())
}
