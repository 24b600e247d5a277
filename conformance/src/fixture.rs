//! The environment of the tasks: a token whose user is logged in, and keys that are created at
//! their first use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::path::PathBuf;

use cryptoki_sys::*;
use jeton_client::{
    Access, Arg, Attribute, Failure, Mechanism, Module, ObjectHandle, Session, SlotId, User, names,
};
use jeton_peers::{Error, SO_PIN};
pub use jeton_vectors::hex;

use crate::choice::Choice;

/// The outcome of a function of the module.
pub type Answer<T = ()> = Result<T, Failure>;

pub struct Fixture<'a> {
    pub module: &'a Module,
    pub slot: SlotId,
    pub pin: String,
    /// The session that keeps the login and the keys.
    pub session: Session,
    /// True if the policy of the module is strict.
    pub strict: bool,
    /// The directory of the token's files, if it is known.
    pub directory: Option<PathBuf>,
    listed: Vec<CK_MECHANISM_TYPE>,
    keys: RefCell<HashMap<Key, Answer<Pair>>>,
}

/// The two keys of a pair, or a secret key twice.
#[derive(Clone, Copy)]
pub struct Pair {
    pub public: ObjectHandle,
    pub private: ObjectHandle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Ec,
    Rsa,
    Edwards,
    Montgomery,
    MlDsa,
    /// ML-DSA-44 and Ed25519. Only Jeton has it.
    Composite,
    MlKem,
    SlhDsa,
    Aes,
    /// A generic secret of 32 bytes, whose value is [`SECRET`].
    Generic,
    /// An AES key without usages.
    Idle,
    /// An AES key that is sensitive and cannot be extracted.
    Sealed,
}

/// The value of the secret keys in [`Key`].
pub const SECRET: [u8; 32] = *b"a secret of thirty-two bytes, ok";
pub const USAGES: [CK_ATTRIBUTE_TYPE; 7] =
    [CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP, CKA_SIGN, CKA_VERIFY, CKA_DERIVE];
pub const P256: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// The prime of ffdhe2048 (RFC 7919, appendix A.1).
pub const FFDHE2048: &str = "ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695a9e13641146433fbcc939dce249b3ef9\
    7d2fe363630c75d8f681b202aec4617ad3df1ed5d5fd65612433f51f5f066ed0856365553ded1af3b557135e7f57c935984f0c70e0e68b77e2a6\
    89daf3efe8721df158a136ade73530acca4f483a797abc0ab182b324fb61d108a94bb2c8e3fbb96adab760d7f4681d4f42a3de394df4ae56ede7\
    6372bb190b07a7c8ee0a6d709e02fce1cdf7e2ecc03404cd28342f619172fe9ce98583ff8e4f1232eef28183c3fe3b1b4c6fad733bb5fcbc2ec2\
    2005c58ef1837d1683b2c6f34a26c1b2effa886b423861285c97ffffffffffffffff";
/// The hashes by their names in mechanisms, each with its mask generation function and its length.
pub const HASHES: [(&str, [CK_ULONG; 3]); 9] = [
    ("SHA3_224", [CKM_SHA3_224, CKG_MGF1_SHA3_224, 28]),
    ("SHA3_256", [CKM_SHA3_256, CKG_MGF1_SHA3_256, 32]),
    ("SHA3_384", [CKM_SHA3_384, CKG_MGF1_SHA3_384, 48]),
    ("SHA3_512", [CKM_SHA3_512, CKG_MGF1_SHA3_512, 64]),
    ("SHA224", [CKM_SHA224, CKG_MGF1_SHA224, 28]),
    ("SHA256", [CKM_SHA256, CKG_MGF1_SHA256, 32]),
    ("SHA384", [CKM_SHA384, CKG_MGF1_SHA384, 48]),
    ("SHA512", [CKM_SHA512, CKG_MGF1_SHA512, 64]),
    ("SHA1", [CKM_SHA_1, CKG_MGF1_SHA1, 20]),
];
pub const ED25519: [u8; 5] = [6, 3, 0x2b, 0x65, 0x70];
pub const X25519: [u8; 5] = [6, 3, 0x2b, 0x65, 0x6e];
/// An object handle that no module has returned.
pub const NO_OBJECT: ObjectHandle = ObjectHandle(0x7fff_fff0);
/// A session handle that no module has returned.
pub const NO_SESSION: CK_SESSION_HANDLE = 0x7fff_fff0;

impl Deref for Fixture<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl<'a> Fixture<'a> {
    pub fn new(module: &'a Module, slot: SlotId, pin: String, choice: &Choice) -> Result<Self, Error> {
        let (strict, directory) = (choice.strict, choice.directory.clone());
        let session = module.open_session(slot, Access::ReadWrite)?;
        session.login(User::User, Some(&pin))?;
        let listed = module.mechanisms(slot)?;
        Ok(Self { module, slot, pin, session, strict, directory, listed, keys: RefCell::default() })
    }

    pub fn so_pin(&self) -> &'static str {
        SO_PIN
    }

    pub fn lists(&self, mechanism: CK_MECHANISM_TYPE) -> bool {
        self.listed.contains(&mechanism)
    }

    /// Opens a session for a case that may leave operations active.
    pub fn fresh(&self) -> Answer<Session> {
        self.module.open_session(self.slot, Access::ReadWrite)
    }

    pub fn reader(&self) -> Answer<Session> {
        self.module.open_session(self.slot, Access::ReadOnly)
    }

    /// Calls `work` while no user is logged in, and then logs the user in again.
    pub fn logged_out<T>(&self, work: impl FnOnce(&Session) -> Answer<T>) -> Answer<T> {
        let session = self.fresh()?;
        session.logout()?;
        // The logout destroyed the private session objects.
        self.keys.borrow_mut().clear();
        let outcome = work(&session);
        let _ = session.logout();
        session.login(User::User, Some(&self.pin))?;
        outcome
    }

    /// Logs the user in again if a task has logged them out.
    pub fn restore(&self) -> Answer {
        match self.session.login(User::User, Some(&self.pin)) {
            Err(Failure { code: CKR_USER_ALREADY_LOGGED_IN, .. }) => Ok(()),
            other => {
                self.keys.borrow_mut().clear();
                other
            }
        }
    }

    pub fn pair(&self, key: Key) -> Answer<Pair> {
        if let Some(made) = self.keys.borrow().get(&key) {
            return made.clone();
        }
        let made = make(&self.session, key);
        self.keys.borrow_mut().insert(key, made.clone());
        made
    }

    /// Returns that secret key, or the private key of that pair.
    pub fn key(&self, key: Key) -> Answer<ObjectHandle> {
        self.pair(key).map(|pair| pair.private)
    }

    /// Calls a function with the handle of the session as the first argument.
    pub fn call(&self, function: &'static str, session: &Session, arguments: Vec<Arg<'_>>) -> Answer {
        let mut all = vec![Arg::Number(session.handle())];
        all.extend(arguments);
        self.module.call(function, &mut all)
    }
}

/// Returns the failure of a task whose function returned a wrong result. No case expects its code,
/// `CKR_VENDOR_DEFINED`.
pub fn unexpected(function: &'static str) -> Failure {
    Failure { function, code: CKR_VENDOR_DEFINED, doing: "checking the result".into() }
}

/// Fails if the result of a function is wrong.
pub fn ensure(function: &'static str, right: bool) -> Answer {
    if right { Ok(()) } else { Err(unexpected(function)) }
}

/// Returns the name of a return code without its number, or "another result" for the code of
/// [`unexpected`].
pub fn code_name(code: CK_RV) -> String {
    if code == CKR_VENDOR_DEFINED {
        return "another result".to_owned();
    }
    let name = names::return_code(code);
    name.split(" (").next().unwrap_or(&name).to_owned()
}

/// Returns a signature or a MAC. The longest signatures are those of SLH-DSA.
pub fn signed(fixture: &Fixture<'_>, with: &Mechanism, key: ObjectHandle, message: &[u8]) -> Answer<Vec<u8>> {
    let (session, mut out) = (fixture.fresh()?, vec![0; 49856]);
    session.sign_init(with, key)?;
    let length = session.sign(message, &mut out)?;
    out.truncate(length);
    Ok(out)
}

pub fn flag(kind: CK_ATTRIBUTE_TYPE, value: bool) -> Attribute {
    Attribute::flag(kind, value)
}

pub fn number(kind: CK_ATTRIBUTE_TYPE, value: CK_ULONG) -> Attribute {
    Attribute::number(kind, value)
}

pub fn bytes(kind: CK_ATTRIBUTE_TYPE, value: impl Into<Vec<u8>>) -> Attribute {
    Attribute::bytes(kind, value)
}

/// Returns a template for a session object whose value is readable.
pub fn open_key(class: CK_OBJECT_CLASS, kind: CK_KEY_TYPE) -> Vec<Attribute> {
    let mut template = vec![number(CKA_CLASS, class), number(CKA_KEY_TYPE, kind), flag(CKA_TOKEN, false)];
    if class != CKO_PUBLIC_KEY {
        template.extend([flag(CKA_SENSITIVE, false), flag(CKA_EXTRACTABLE, true)]);
    }
    template
}

pub fn able(mut template: Vec<Attribute>, flags: &[CK_ATTRIBUTE_TYPE]) -> Vec<Attribute> {
    template.extend(flags.iter().map(|id| flag(*id, true)));
    template
}

pub fn with(mut template: Vec<Attribute>, attribute: Attribute) -> Vec<Attribute> {
    template.push(attribute);
    template
}

/// Returns the attributes of a private HSS key with one level, `LMS_SHA256_M32_H5` with
/// `LMOTS_SHA256_N32_W4` (RFC 8554, 5.1 and 4.1): it has 32 one-time keys.
pub fn hss_levels() -> Vec<Attribute> {
    vec![
        number(CKA_HSS_LEVELS, 1),
        number(CKA_HSS_LMS_TYPES, 5),
        number(CKA_HSS_LMOTS_TYPES, 3),
        flag(CKA_SIGN, true),
    ]
}

fn make(session: &Session, key: Key) -> Answer<Pair> {
    const SIGNS: (&[CK_ATTRIBUTE_TYPE], &[CK_ATTRIBUTE_TYPE]) = (&[CKA_VERIFY], &[CKA_SIGN]);
    let set = |set| vec![number(CKA_PARAMETER_SET, set)];
    let curve = |oid: &[u8]| vec![bytes(CKA_EC_PARAMS, oid)];
    let pair = |kind, public, flags| generate_pair(session, kind, public, flags);
    match key {
        Key::Ec => pair(CKM_EC_KEY_PAIR_GEN, curve(&P256), (&[CKA_VERIFY], &[CKA_SIGN, CKA_DERIVE])),
        Key::Rsa => pair(
            CKM_RSA_PKCS_KEY_PAIR_GEN,
            vec![number(CKA_MODULUS_BITS, 2048), bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])],
            (
                &[CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_ENCRYPT, CKA_WRAP],
                &[CKA_SIGN, CKA_SIGN_RECOVER, CKA_DECRYPT, CKA_UNWRAP],
            ),
        ),
        Key::Edwards => pair(CKM_EC_EDWARDS_KEY_PAIR_GEN, curve(&ED25519), SIGNS),
        Key::Montgomery => pair(CKM_EC_MONTGOMERY_KEY_PAIR_GEN, curve(&X25519), (&[], &[CKA_DERIVE])),
        Key::MlDsa => pair(CKM_ML_DSA_KEY_PAIR_GEN, set(CKP_ML_DSA_44), SIGNS),
        Key::Composite => pair(names::CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN, set(39), SIGNS),
        Key::SlhDsa => pair(CKM_SLH_DSA_KEY_PAIR_GEN, set(CKP_SLH_DSA_SHA2_128F), SIGNS),
        Key::MlKem => {
            pair(CKM_ML_KEM_KEY_PAIR_GEN, set(CKP_ML_KEM_768), (&[CKA_ENCAPSULATE], &[CKA_DECAPSULATE]))
        }
        Key::Aes => secret(session, CKK_AES, true, &USAGES),
        Key::Generic => secret(session, CKK_GENERIC_SECRET, true, &[CKA_SIGN, CKA_VERIFY, CKA_DERIVE]),
        Key::Idle => secret(session, CKK_AES, true, &[]),
        Key::Sealed => secret(session, CKK_AES, false, &USAGES),
    }
}

fn generate_pair(
    session: &Session,
    kind: CK_MECHANISM_TYPE,
    public: Vec<Attribute>,
    flags: (&[CK_ATTRIBUTE_TYPE], &[CK_ATTRIBUTE_TYPE]),
) -> Answer<Pair> {
    let private = vec![flag(CKA_TOKEN, false), flag(CKA_SENSITIVE, true), flag(CKA_EXTRACTABLE, true)];
    let public = with(able(public, flags.0), flag(CKA_TOKEN, false));
    let made = session.generate_key_pair(&Mechanism::new(kind), &public, &able(private, flags.1));
    made.map(|(public, private)| Pair { public, private })
}

/// Imports a key with the value [`SECRET`]. The template sets every usage flag to true or false.
fn secret(session: &Session, kind: CK_KEY_TYPE, open: bool, flags: &[CK_ATTRIBUTE_TYPE]) -> Answer<Pair> {
    let mut template = vec![
        number(CKA_CLASS, CKO_SECRET_KEY),
        number(CKA_KEY_TYPE, kind),
        flag(CKA_TOKEN, false),
        bytes(CKA_VALUE, SECRET),
        flag(CKA_SENSITIVE, !open),
        flag(CKA_EXTRACTABLE, open),
    ];
    template.extend(USAGES.iter().map(|usage| flag(*usage, flags.contains(usage))));
    session.create_object(&template).map(|key| Pair { public: key, private: key })
}
