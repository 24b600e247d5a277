//! Where the tasks stand: a token, its user logged in, keys of each kind that are made when first asked for.

use std::cell::RefCell;
use std::collections::HashMap;

use cryptoki_sys::*;
use jeton_driver::Error;
use jeton_driver::client::{
    Access, Arg, Attribute, Failure, Mechanism, Module, ObjectHandle, Session, SlotId, User, names,
};
use jeton_driver::peers::SO_PIN;

/// A token with its user logged in.
pub struct Place<'a> {
    /// The module.
    pub module: &'a Module,
    /// The token's slot.
    pub slot: SlotId,
    /// The user's PIN.
    pub pin: String,
    /// A session that keeps the login and the keys.
    pub session: Session,
    /// Whether long sets of vectors are cut short.
    pub quick: bool,
    listed: Vec<CK_MECHANISM_TYPE>,
    keys: RefCell<HashMap<Key, Result<Pair, Failure>>>,
}

/// The two halves of a pair, or a secret key twice.
#[derive(Clone, Copy)]
pub struct Pair {
    /// The public key.
    pub public: ObjectHandle,
    /// The private key.
    pub private: ObjectHandle,
}

/// The keys that a place has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// ECDSA and ECDH with P-256.
    Ec,
    /// RSA with 2048 bits.
    Rsa,
    /// Ed25519.
    Edwards,
    /// X25519.
    Montgomery,
    /// ML-DSA-44.
    MlDsa,
    /// ML-KEM-768.
    MlKem,
    /// SLH-DSA-SHA2-128f.
    SlhDsa,
    /// AES with 256 bits.
    Aes,
    /// A generic secret of 32 bytes, whose value is [`SECRET`].
    Generic,
    /// An AES key that may do nothing.
    Idle,
    /// An AES key that stays where it is, and its value too.
    Sealed,
}

/// The value of [`Key::Generic`].
pub const SECRET: [u8; 32] = *b"a secret of thirty-two bytes, ok";
/// P-256 as an object identifier.
pub const P256: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// Ed25519 as an object identifier.
pub const ED25519: [u8; 5] = [6, 3, 0x2b, 0x65, 0x70];
/// X25519 as an object identifier.
pub const X25519: [u8; 5] = [6, 3, 0x2b, 0x65, 0x6e];
/// A handle that no module has given out.
pub const NO_OBJECT: ObjectHandle = ObjectHandle(0x7fff_fff0);
/// A session that no module has given out.
pub const NO_SESSION: CK_SESSION_HANDLE = 0x7fff_fff0;

impl<'a> Place<'a> {
    /// Logs in.
    pub fn new(module: &'a Module, slot: SlotId, pin: String, quick: bool) -> Result<Self, Error> {
        let session = module.open_session(slot, Access::ReadWrite)?;
        session.login(User::User, Some(&pin))?;
        let listed = module.mechanisms(slot)?;
        Ok(Self { module, slot, pin, session, quick, listed, keys: RefCell::default() })
    }

    /// The security officer's PIN: NSS has an empty one.
    pub fn so_pin(&self) -> &'static str {
        SO_PIN
    }

    /// Whether the module lists that mechanism.
    pub fn lists(&self, mechanism: CK_MECHANISM_TYPE) -> bool {
        self.listed.contains(&mechanism)
    }

    /// A session of its own for a case that may leave something behind.
    pub fn fresh(&self) -> Result<Session, Failure> {
        self.module.open_session(self.slot, Access::ReadWrite)
    }

    /// A read-only session.
    pub fn reader(&self) -> Result<Session, Failure> {
        self.module.open_session(self.slot, Access::ReadOnly)
    }

    /// Does something while nobody is logged in, and logs the user in again.
    pub fn logged_out<T>(&self, work: impl FnOnce(&Session) -> Result<T, Failure>) -> Result<T, Failure> {
        let session = self.fresh()?;
        session.logout()?;
        // Private session objects went with the login.
        self.keys.borrow_mut().clear();
        let outcome = work(&session);
        let _ = session.logout();
        session.login(User::User, Some(&self.pin))?;
        outcome
    }

    /// Logs the user in again if something logged them out.
    pub fn restore(&self) -> Result<(), Failure> {
        match self.session.login(User::User, Some(&self.pin)) {
            Err(Failure { code: CKR_USER_ALREADY_LOGGED_IN, .. }) => Ok(()),
            other => {
                self.keys.borrow_mut().clear();
                other
            }
        }
    }

    /// The two halves of that pair.
    pub fn pair(&self, key: Key) -> Result<Pair, Failure> {
        if let Some(made) = self.keys.borrow().get(&key) {
            return made.clone();
        }
        let made = make(&self.session, key);
        self.keys.borrow_mut().insert(key, made.clone());
        made
    }

    /// That secret key, or the private key of that pair.
    pub fn key(&self, key: Key) -> Result<ObjectHandle, Failure> {
        self.pair(key).map(|pair| pair.private)
    }

    /// Calls a function on a session; its handle comes first.
    pub fn call(
        &self,
        function: &'static str,
        session: &Session,
        arguments: Vec<Arg<'_>>,
    ) -> Result<(), Failure> {
        let mut all = vec![Arg::Number(session.handle())];
        all.extend(arguments);
        self.module.call(function, &mut all)
    }
}

/// What a task answers when a module let pass what it had to refuse: no code of the standard.
pub fn unexpected(function: &'static str) -> Failure {
    Failure { function, code: CKR_VENDOR_DEFINED, doing: "looking at what came out".into() }
}

/// Whether something that came out is right.
pub fn ensure(function: &'static str, right: bool) -> Result<(), Failure> {
    if right { Ok(()) } else { Err(unexpected(function)) }
}

/// The name of a return code alone.
pub fn code_name(code: CK_RV) -> String {
    if code == CKR_VENDOR_DEFINED {
        return "another result".to_owned();
    }
    let name = names::return_code(code);
    name.split(" (").next().unwrap_or(&name).to_owned()
}

/// What makes a session object that can be looked at.
pub fn open_key(class: CK_OBJECT_CLASS, kind: CK_KEY_TYPE) -> Vec<Attribute> {
    let mut template = vec![
        Attribute::number(CKA_CLASS, class),
        Attribute::number(CKA_KEY_TYPE, kind),
        Attribute::flag(CKA_TOKEN, false),
    ];
    if class != CKO_PUBLIC_KEY {
        template.extend([Attribute::flag(CKA_SENSITIVE, false), Attribute::flag(CKA_EXTRACTABLE, true)]);
    }
    template
}

/// That template, and these flags set.
pub fn able(mut template: Vec<Attribute>, flags: &[CK_ATTRIBUTE_TYPE]) -> Vec<Attribute> {
    template.extend(flags.iter().map(|flag| Attribute::flag(*flag, true)));
    template
}

/// That template, and one attribute more.
pub fn with(mut template: Vec<Attribute>, attribute: Attribute) -> Vec<Attribute> {
    template.push(attribute);
    template
}

fn make(session: &Session, key: Key) -> Result<Pair, Failure> {
    const SIGNS: (&[CK_ATTRIBUTE_TYPE], &[CK_ATTRIBUTE_TYPE]) = (&[CKA_VERIFY], &[CKA_SIGN]);
    const CIPHERS: [CK_ATTRIBUTE_TYPE; 7] =
        [CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP, CKA_SIGN, CKA_VERIFY, CKA_DERIVE];
    let set = |number| vec![Attribute::number(CKA_PARAMETER_SET, number)];
    let curve = |oid: &[u8]| vec![Attribute::bytes(CKA_EC_PARAMS, oid)];
    let pair = |kind, public, flags| generate_pair(session, kind, public, flags);
    match key {
        Key::Ec => pair(CKM_EC_KEY_PAIR_GEN, curve(&P256), (&[CKA_VERIFY], &[CKA_SIGN, CKA_DERIVE])),
        Key::Rsa => pair(
            CKM_RSA_PKCS_KEY_PAIR_GEN,
            vec![Attribute::number(CKA_MODULUS_BITS, 2048), Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])],
            (
                &[CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_ENCRYPT, CKA_WRAP],
                &[CKA_SIGN, CKA_SIGN_RECOVER, CKA_DECRYPT, CKA_UNWRAP],
            ),
        ),
        Key::Edwards => pair(CKM_EC_EDWARDS_KEY_PAIR_GEN, curve(&ED25519), SIGNS),
        Key::Montgomery => pair(CKM_EC_MONTGOMERY_KEY_PAIR_GEN, curve(&X25519), (&[], &[CKA_DERIVE])),
        Key::MlDsa => pair(CKM_ML_DSA_KEY_PAIR_GEN, set(CKP_ML_DSA_44), SIGNS),
        Key::SlhDsa => pair(CKM_SLH_DSA_KEY_PAIR_GEN, set(CKP_SLH_DSA_SHA2_128F), SIGNS),
        Key::MlKem => {
            pair(CKM_ML_KEM_KEY_PAIR_GEN, set(CKP_ML_KEM_768), (&[CKA_ENCAPSULATE], &[CKA_DECAPSULATE]))
        }
        Key::Aes => secret(session, CKK_AES, &SECRET, true, &CIPHERS),
        Key::Generic => {
            secret(session, CKK_GENERIC_SECRET, &SECRET, true, &[CKA_SIGN, CKA_VERIFY, CKA_DERIVE])
        }
        Key::Idle => secret(session, CKK_AES, &SECRET, true, &[]),
        Key::Sealed => secret(session, CKK_AES, &SECRET, false, &CIPHERS),
    }
}

fn generate_pair(
    session: &Session,
    kind: CK_MECHANISM_TYPE,
    public: Vec<Attribute>,
    flags: (&[CK_ATTRIBUTE_TYPE], &[CK_ATTRIBUTE_TYPE]),
) -> Result<Pair, Failure> {
    let private = vec![
        Attribute::flag(CKA_TOKEN, false),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_EXTRACTABLE, true),
    ];
    let public = with(able(public, flags.0), Attribute::flag(CKA_TOKEN, false));
    let made = session.generate_key_pair(&Mechanism::new(kind), &public, &able(private, flags.1));
    made.map(|(public, private)| Pair { public, private })
}

/// Every flag that a secret key may have is said, set or not.
fn secret(
    session: &Session,
    kind: CK_KEY_TYPE,
    value: &[u8],
    open: bool,
    flags: &[CK_ATTRIBUTE_TYPE],
) -> Result<Pair, Failure> {
    const ALL: [CK_ATTRIBUTE_TYPE; 7] =
        [CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP, CKA_SIGN, CKA_VERIFY, CKA_DERIVE];
    let mut template = vec![
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, kind),
        Attribute::flag(CKA_TOKEN, false),
        Attribute::bytes(CKA_VALUE, value),
        Attribute::flag(CKA_SENSITIVE, !open),
        Attribute::flag(CKA_EXTRACTABLE, open),
    ];
    template.extend(ALL.iter().map(|flag| Attribute::flag(*flag, flags.contains(flag))));
    session.create_object(&template).map(|key| Pair { public: key, private: key })
}
