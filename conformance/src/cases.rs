//! The cases.

use std::cell::RefCell;

use cryptoki_sys::*;
use jeton_driver::Error;
use jeton_driver::client::{
    Access, Attribute, Failure, Mechanism, Module, ObjectHandle, Session, SlotId, User,
};

/// A case.
pub struct Case {
    /// The function that is looked at.
    pub function: &'static str,
    /// What is asked of it.
    pub name: &'static str,
    /// The return codes that the specification allows.
    pub expected: &'static [CK_RV],
    /// Asks; the failure is that of the function, or of what had to come before it.
    pub run: fn(&Place<'_>) -> Result<(), Failure>,
}

/// A token with its user logged in and an ECDSA P-256 pair in a session.
pub struct Place<'a> {
    module: &'a Module,
    slot: SlotId,
    pin: String,
    session: Session,
    public: ObjectHandle,
    private: ObjectHandle,
    /// A session for a case that may leave an operation behind.
    scratch: RefCell<Option<Session>>,
}

const P256: [u8; 10] = [6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const DIGEST: [u8; 32] = [7; 32];
const ECDSA: Mechanism = Mechanism::new(CKM_ECDSA);
/// A handle that no module has given out.
const NO_OBJECT: ObjectHandle = ObjectHandle(0x7fff_fff0);

impl<'a> Place<'a> {
    /// Logs in and makes the pair.
    pub fn new(module: &'a Module, slot: SlotId, pin: String) -> Result<Self, Error> {
        let session = module.open_session(slot, Access::ReadWrite)?;
        session.login(User::User, Some(&pin))?;
        let (public, private) = session.generate_key_pair(
            &Mechanism::new(CKM_EC_KEY_PAIR_GEN),
            &[Attribute::bytes(CKA_EC_PARAMS, P256), Attribute::flag(CKA_VERIFY, true)],
            &[
                Attribute::flag(CKA_SIGN, true),
                Attribute::flag(CKA_SENSITIVE, true),
                Attribute::flag(CKA_EXTRACTABLE, false),
            ],
        )?;
        Ok(Self { module, slot, pin, session, public, private, scratch: RefCell::new(None) })
    }

    /// Does something in a session of its own.
    fn apart<T>(&self, work: impl FnOnce(&Session) -> Result<T, Failure>) -> Result<T, Failure> {
        let session = self.module.open_session(self.slot, Access::ReadWrite)?;
        let outcome = work(&session);
        self.scratch.replace(Some(session));
        outcome
    }

    fn signature(&self) -> Result<Vec<u8>, Failure> {
        self.apart(|session| {
            session.sign_init(&ECDSA, self.private)?;
            let mut signature = vec![0; 64];
            let len = session.sign(&DIGEST, &mut signature)?;
            signature.truncate(len);
            Ok(signature)
        })
    }
}

/// What a case answers when a module let pass what it had to refuse: no code of the standard.
fn unexpected(function: &'static str) -> Failure {
    Failure { function, code: CKR_VENDOR_DEFINED, doing: "looking at what came out".into() }
}

/// The cases.
pub const CASES: &[Case] = &[
    Case {
        function: "C_Initialize",
        name: "twice",
        expected: &[CKR_CRYPTOKI_ALREADY_INITIALIZED],
        run: |place| place.module.initialize(None),
    },
    Case {
        function: "C_GetSlotInfo",
        name: "of a slot that is not there",
        expected: &[CKR_SLOT_ID_INVALID],
        run: |place| place.module.slot_info(SlotId(0x7fff_fff0)).map(drop),
    },
    Case {
        function: "C_GetMechanismInfo",
        name: "of a mechanism that is not there",
        expected: &[CKR_MECHANISM_INVALID],
        run: |place| place.module.mechanism_info(place.slot, 0x7fff_fff0).map(drop),
    },
    Case {
        function: "C_GetMechanismInfo",
        name: "of every mechanism in the list",
        expected: &[CKR_OK],
        run: |place| {
            let listed = place.module.mechanisms(place.slot)?;
            listed.into_iter().try_for_each(|id| place.module.mechanism_info(place.slot, id).map(drop))
        },
    },
    Case {
        function: "C_Login",
        name: "of a user who is logged in",
        expected: &[CKR_USER_ALREADY_LOGGED_IN],
        run: |place| place.session.login(User::User, Some(&place.pin)),
    },
    Case {
        function: "C_SignInit",
        name: "with a mechanism that is not there",
        expected: &[CKR_MECHANISM_INVALID],
        run: |place| place.apart(|session| session.sign_init(&Mechanism::new(0x7fff_fff0), place.private)),
    },
    Case {
        function: "C_SignInit",
        name: "with a handle that names no key",
        expected: &[CKR_KEY_HANDLE_INVALID],
        run: |place| place.apart(|session| session.sign_init(&ECDSA, NO_OBJECT)),
    },
    Case {
        function: "C_SignInit",
        name: "with the public key",
        expected: &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID],
        run: |place| place.apart(|session| session.sign_init(&ECDSA, place.public)),
    },
    Case {
        function: "C_SignInit",
        name: "with an elliptic curve key for RSA",
        expected: &[CKR_KEY_TYPE_INCONSISTENT],
        run: |place| place.apart(|session| session.sign_init(&Mechanism::new(CKM_RSA_PKCS), place.private)),
    },
    Case {
        function: "C_SignInit",
        name: "while a signature is being made",
        expected: &[CKR_OPERATION_ACTIVE],
        run: |place| {
            place.apart(|session| {
                session.sign_init(&ECDSA, place.private)?;
                session.sign_init(&ECDSA, place.private)
            })
        },
    },
    Case {
        function: "C_Sign",
        name: "without C_SignInit",
        expected: &[CKR_OPERATION_NOT_INITIALIZED],
        run: |place| place.apart(|session| session.sign(&DIGEST, &mut [0; 64]).map(drop)),
    },
    Case {
        function: "C_Sign",
        name: "into a short buffer",
        expected: &[CKR_BUFFER_TOO_SMALL],
        run: |place| {
            place.apart(|session| {
                session.sign_init(&ECDSA, place.private)?;
                session.sign(&DIGEST, &mut [0; 63]).map(drop)
            })
        },
    },
    Case {
        function: "C_Sign",
        name: "after a short buffer goes on",
        expected: &[CKR_OK],
        run: |place| {
            place.apart(|session| {
                session.sign_init(&ECDSA, place.private)?;
                let _short = session.sign(&DIGEST, &mut [0; 63]);
                session.sign(&DIGEST, &mut [0; 64]).map(drop)
            })
        },
    },
    Case {
        function: "C_Sign",
        name: "a second time is over",
        expected: &[CKR_OPERATION_NOT_INITIALIZED],
        run: |place| {
            place.apart(|session| {
                session.sign_init(&ECDSA, place.private)?;
                session.sign(&DIGEST, &mut [0; 64])?;
                session.sign(&DIGEST, &mut [0; 64]).map(drop)
            })
        },
    },
    Case {
        function: "C_Verify",
        name: "of a good signature and of an altered one",
        expected: &[CKR_OK],
        run: |place| {
            let mut signature = place.signature()?;
            place.apart(|session| {
                session.verify_init(&ECDSA, place.public)?;
                let good = session.verify(&DIGEST, &signature)?;
                signature[40] ^= 1;
                session.verify_init(&ECDSA, place.public)?;
                let altered = session.verify(&DIGEST, &signature)?;
                if good && !altered { Ok(()) } else { Err(unexpected("C_Verify")) }
            })
        },
    },
    Case {
        function: "C_Verify",
        name: "after a wrong signature is over",
        expected: &[CKR_OPERATION_NOT_INITIALIZED],
        run: |place| {
            place.apart(|session| {
                session.verify_init(&ECDSA, place.public)?;
                session.verify(&DIGEST, &[1; 64])?;
                session.verify(&DIGEST, &[1; 64]).map(drop)
            })
        },
    },
    Case {
        function: "C_GetAttributeValue",
        name: "of a sensitive value",
        expected: &[CKR_ATTRIBUTE_SENSITIVE],
        run: |place| place.session.attribute(place.private, CKA_VALUE).map(drop),
    },
    Case {
        function: "C_GetAttributeValue",
        name: "of an attribute that the object has not",
        expected: &[CKR_ATTRIBUTE_TYPE_INVALID],
        run: |place| place.session.attribute(place.public, CKA_MODULUS).map(drop),
    },
    Case {
        function: "C_SetAttributeValue",
        name: "CKA_SENSITIVE back to false",
        expected: &[CKR_ATTRIBUTE_READ_ONLY],
        run: |place| place.session.set_attributes(place.private, &[Attribute::flag(CKA_SENSITIVE, false)]),
    },
    Case {
        function: "C_CreateObject",
        name: "without a class",
        expected: &[CKR_TEMPLATE_INCOMPLETE],
        run: |place| place.session.create_object(&[Attribute::bytes(CKA_LABEL, *b"none")]).map(drop),
    },
    Case {
        function: "C_CreateObject",
        name: "of a token object in a read-only session",
        expected: &[CKR_SESSION_READ_ONLY],
        run: |place| {
            let session = place.module.open_session(place.slot, Access::ReadOnly)?;
            let template = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::flag(CKA_TOKEN, true)];
            session.create_object(&template).map(drop)
        },
    },
    Case {
        function: "C_DestroyObject",
        name: "a second time",
        expected: &[CKR_OBJECT_HANDLE_INVALID],
        run: |place| {
            let object = place.session.create_object(&[
                Attribute::number(CKA_CLASS, CKO_DATA),
                Attribute::flag(CKA_TOKEN, false),
                Attribute::flag(CKA_PRIVATE, false),
            ])?;
            place.session.destroy_object(object)?;
            place.session.destroy_object(object)
        },
    },
    Case {
        function: "C_FindObjects",
        name: "without C_FindObjectsInit",
        expected: &[CKR_OPERATION_NOT_INITIALIZED],
        run: |place| place.apart(|session| session.find_next(1).map(drop)),
    },
    Case {
        function: "C_FindObjectsInit",
        name: "while a search goes on",
        expected: &[CKR_OPERATION_ACTIVE],
        run: |place| {
            place.apart(|session| {
                session.find_init(&[])?;
                session.find_init(&[])
            })
        },
    },
    // The last: a module that lets it pass has wiped the token.
    Case {
        function: "C_InitToken",
        name: "while a session is open",
        expected: &[CKR_SESSION_EXISTS],
        run: |place| place.module.init_token(place.slot, "jeton-so-12345", "again"),
    },
];
