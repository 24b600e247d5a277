//! The application: calls the functions of the client module with guarded memory.

use std::ptr::null_mut;

use jeton_names::structs::ASYNC_VALUE;

use crate::common::token;
use crate::common::*;
use crate::guarded::Guarded;

const DATA: [u8; 8] = CKO_DATA.to_ne_bytes();
const SECRET: [u8; 8] = CKO_SECRET_KEY.to_ne_bytes();
const AES: [u8; 8] = CKK_AES.to_ne_bytes();
const SIXTEEN: [u8; 8] = 16u64.to_ne_bytes();
const KEYS: [&str; 4] = ["ec", "aes", "otp", "secret"];
/// What a buffer has before a call.
const PATTERN: u8 = 0xa5;

/// What an application does in a round.
pub type Case = fn(&mut Application);

/// What happened in a round.
#[derive(Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The functions that were called, and their codes.
    pub codes: Vec<(String, CK_RV)>,
    /// What must not happen.
    pub wrong: Vec<String>,
    pub slowest: Duration,
}

pub struct Application {
    module: Module,
    parameters: String,
    session: Option<Session>,
    handle: CK_SESSION_HANDLE,
    slot: CK_SLOT_ID,
    /// The private EC key, the AES key, the HOTP key and the secret for derivations.
    keys: [CK_OBJECT_HANDLE; 4],
    /// What happened since the round began.
    pub outcome: Outcome,
}

/// When a function writes to memory.
#[derive(Clone, Copy, PartialEq)]
enum When {
    Success,
    /// Also if a buffer is too small: lengths.
    Length,
    /// Also if attributes are sensitive or unknown.
    Attributes,
}

macro_rules! call {
    ($self:ident [$($memory:expr),*] $name:ident($($argument:expr),*)) => {{
        let function = $self.module.functions_3_2().and_then(|list| list.$name).expect("a function");
        let memory: &[(&Guarded, When)] = &[$($memory),*];
        let before: Vec<_> = memory.iter().map(|(memory, _)| memory.bytes()).collect();
        let start = Instant::now();
        // SAFETY: all pointers are `NULL` or point to memory for the lengths of the arguments.
        let code = unsafe { function($($argument),*) };
        $self.outcome.slowest = $self.outcome.slowest.max(start.elapsed());
        $self.note(stringify!($name), memory, &before, code)
    }};
}

macro_rules! two_calls {
    ($self:ident $room:literal x $item:literal $name:ident($($argument:expr),*)) => {{
        let len = Guarded::number(0);
        call!($self [(&len, When::Length)] $name($($argument,)* null_mut(), len.pointer()));
        let (buffer, len) = (Guarded::of(&[PATTERN; $room * $item]), Guarded::number($room));
        let code = call!($self [(&buffer, When::Success), (&len, When::Length)]
            $name($($argument,)* buffer.pointer(), len.pointer()));
        $self.check_len(code, &buffer, &len, $item);
        buffer
    }};
}

macro_rules! put {
    ($self:ident $type:ty, $name:ident($($argument:expr),*)) => {{
        let place = Guarded::of(&[PATTERN; size_of::<$type>()]);
        call!($self [(&place, When::Success)] $name($($argument,)* place.pointer()));
        place
    }};
}

impl Application {
    /// Makes a token with its keys, through an honest agent.
    pub fn prepare(parameters: String) -> Self {
        let module = token::load(&parameters);
        let slot = module.slots(true).expect("slots")[0];
        let slot = initialise(&module, slot, "t", SO_PIN, PIN).expect("a token");
        let session = token::log_in(&module);
        let token = || Attribute::flag(CKA_TOKEN, true);
        let public = [Attribute::bytes(CKA_EC_PARAMS, token::CURVE), token()];
        let private = [token(), Attribute::bytes(CKA_LABEL, KEYS[0])];
        let pair = session.generate_key_pair(&Mechanism::new(CKM_EC_KEY_PAIR_GEN), &public, &private);
        pair.expect("a key pair");
        let key = |label: &str, class, kind, len: usize, flags: &[CK_ATTRIBUTE_TYPE]| {
            let mut template = vec![
                Attribute::bytes(CKA_LABEL, label),
                Attribute::number(CKA_CLASS, class),
                Attribute::number(CKA_KEY_TYPE, kind),
                Attribute::bytes(CKA_VALUE, vec![7; len]),
                token(),
            ];
            template.extend(flags.iter().map(|flag| Attribute::flag(*flag, true)));
            session.create_object(&template).expect("a key");
        };
        let aes = [CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP];
        key(KEYS[1], CKO_SECRET_KEY, CKK_AES, 32, &aes);
        key(KEYS[2], CKO_OTP_KEY, CKK_HOTP, 20, &[]);
        key(KEYS[3], CKO_SECRET_KEY, CKK_GENERIC_SECRET, 48, &[CKA_DERIVE]);
        let (slot, outcome) = (slot.0, Outcome::default());
        Self { module, parameters, session: None, handle: 0, slot, keys: [0; 4], outcome }
    }

    /// Opens a new session, after a lie. Nothing of this is checked.
    pub fn renew(&mut self) {
        self.session = None;
        // It may be initialised.
        let _ = self.module.initialize(Some(&self.parameters));
        let session = self.module.open_session(jeton_client::SlotId(self.slot), Access::ReadWrite);
        let Ok(session) = session else { return };
        let _ = session.login(User::User, Some(PIN));
        self.handle = session.handle();
        self.session = Some(session);
        self.find_keys();
    }

    /// Finds the keys. Private objects have other handles after each login.
    fn find_keys(&mut self) {
        let Some(session) = &self.session else { return };
        self.keys = KEYS.map(|label| {
            let template = [Attribute::bytes(CKA_LABEL, label)];
            session.find(&template).ok().and_then(|found| found.first().map(|key| key.0)).unwrap_or(0)
        });
    }

    /// Checks what a call did to memory.
    fn note(&mut self, name: &str, memory: &[(&Guarded, When)], before: &[Vec<u8>], code: CK_RV) -> CK_RV {
        for ((memory, when), before) in memory.iter().zip(before) {
            let writes = match code {
                CKR_OK => true,
                CKR_BUFFER_TOO_SMALL => *when != When::Success,
                CKR_ATTRIBUTE_SENSITIVE | CKR_ATTRIBUTE_TYPE_INVALID => *when == When::Attributes,
                _ => false,
            };
            self.check(writes || memory.bytes() == *before, name, "a failed call changed memory");
            self.check(memory.is_intact(), name, "memory before a buffer was changed");
        }
        self.outcome.codes.push((name.to_owned(), code));
        code
    }

    fn check(&mut self, is_right: bool, name: &str, what: &str) {
        if !is_right {
            self.outcome.wrong.push(format!("{name}: {what}"));
        }
    }

    /// Checks that a length is not longer than its buffer, and that what follows was not changed.
    fn check_len(&mut self, code: CK_RV, buffer: &Guarded, len: &Guarded, item: u64) {
        let bytes = buffer.bytes();
        let len = len.word(0).saturating_mul(item);
        let is_right = code != CKR_OK
            || bytes.get(len as usize..).is_some_and(|rest| rest.iter().all(|byte| *byte == PATTERN));
        self.check(is_right, "a buffer", &format!("the length {len} of {} bytes", bytes.len()));
    }
}

/// What an application does in a round.
pub const CASES: &[Case] = &[
    |a| {
        let _ = a.module.finalize();
        let code = a.module.initialize(Some(&a.parameters)).map_or_else(|failure| failure.code, |()| CKR_OK);
        a.outcome.codes.push(("C_Initialize".to_owned(), code));
        a.renew();
    },
    |a| drop(put!(a CK_INFO, C_GetInfo())),
    |a| drop(two_calls!(a 4 x 8 C_GetSlotList(1))),
    |a| drop(put!(a CK_SLOT_INFO, C_GetSlotInfo(a.slot))),
    |a| drop(put!(a CK_TOKEN_INFO, C_GetTokenInfo(a.slot))),
    |a| drop(two_calls!(a 512 x 8 C_GetMechanismList(a.slot))),
    |a| drop(put!(a CK_MECHANISM_INFO, C_GetMechanismInfo(a.slot, CKM_ECDSA))),
    |a| {
        let flags = CKF_SERIAL_SESSION;
        let session = put!(a CK_SESSION_HANDLE, C_OpenSession(a.slot, flags, null_mut(), None));
        call!(a [] C_CloseSession(session.word(0)));
    },
    |a| drop(put!(a CK_SESSION_INFO, C_GetSessionInfo(a.handle))),
    |a| {
        call!(a [] C_Logout(a.handle));
        call!(a [] C_Login(a.handle, CKU_USER, bytes(PIN.as_bytes()), PIN.len() as u64));
        call!(a [] C_SetPIN(a.handle, bytes(PIN.as_bytes()), PIN.len() as u64, bytes(PIN.as_bytes()), PIN.len() as u64));
        a.find_keys();
    },
    |a| {
        let template = [attribute(CKA_CLASS, &DATA), attribute(CKA_LABEL, b"data")];
        let object = put!(a CK_OBJECT_HANDLE, C_CreateObject(a.handle, attributes(&template), 2)).word(0);
        let copy = put!(a CK_OBJECT_HANDLE, C_CopyObject(a.handle, object, null_mut(), 0)).word(0);
        put!(a CK_ULONG, C_GetObjectSize(a.handle, object));
        call!(a [] C_SetAttributeValue(a.handle, copy, attributes(&template[1..]), 1));
        call!(a [] C_DestroyObject(a.handle, copy));
        call!(a [] C_DestroyObject(a.handle, object));
    },
    |a| get_attributes(a),
    |a| {
        call!(a [] C_FindObjectsInit(a.handle, null_mut(), 0));
        let (found, count) = (Guarded::of(&[PATTERN; 24]), Guarded::number(9));
        let code = call!(a [(&found, When::Success), (&count, When::Success)]
            C_FindObjects(a.handle, found.pointer(), 3, count.pointer()));
        a.check_len(code, &found, &count, 8);
        call!(a [] C_FindObjectsFinal(a.handle));
    },
    |a| encrypt(a),
    |a| {
        let mut sha = plain(CKM_SHA256);
        call!(a [] C_DigestInit(a.handle, &raw mut sha));
        two_calls!(a 32 x 1 C_Digest(a.handle, bytes(b"data"), 4));
        call!(a [] C_DigestInit(a.handle, &raw mut sha));
        call!(a [] C_DigestUpdate(a.handle, bytes(b"data"), 4));
        two_calls!(a 80 x 1 C_GetOperationState(a.handle));
        two_calls!(a 40 x 1 C_DigestFinal(a.handle));
    },
    |a| {
        let mut ecdsa = plain(CKM_ECDSA_SHA256);
        // The second time, the `Init` function travels with its call.
        for _ in 0..2 {
            call!(a [] C_SignInit(a.handle, &raw mut ecdsa, a.keys[0]));
            two_calls!(a 80 x 1 C_Sign(a.handle, bytes(b"data"), 4));
        }
        call!(a [] C_SignInit(a.handle, &raw mut ecdsa, a.keys[0]));
        call!(a [] C_SignUpdate(a.handle, bytes(b"data"), 4));
        two_calls!(a 64 x 1 C_SignFinal(a.handle));
    },
    |a| one_time_password(a),
    |a| {
        let template = [attribute(CKA_VALUE_LEN, &SIXTEEN)];
        let mut generate = plain(CKM_AES_KEY_GEN);
        put!(a CK_OBJECT_HANDLE, C_GenerateKey(a.handle, &raw mut generate, attributes(&template), 1));
        let template = [attribute(CKA_EC_PARAMS, &token::CURVE)];
        let (public, mut generate) = (Guarded::of(&[PATTERN; 8]), plain(CKM_EC_KEY_PAIR_GEN));
        let private = Guarded::of(&[PATTERN; 8]);
        call!(a [(&public, When::Success), (&private, When::Success)] C_GenerateKeyPair(
            a.handle, &raw mut generate, attributes(&template), 1, null_mut(), 0, public.pointer(),
            private.pointer()));
    },
    |a| {
        let template = [attribute(CKA_VALUE_LEN, &SIXTEEN), attribute(CKA_EXTRACTABLE, &[1])];
        let mut with = plain(CKM_AES_KEY_GEN);
        let key = put!(a CK_OBJECT_HANDLE, C_GenerateKey(a.handle, &raw mut with, attributes(&template), 2));
        let (key, mut with) = (key.word(0), plain(CKM_AES_KEY_WRAP_KWP));
        let wrapped = two_calls!(a 24 x 1 C_WrapKey(a.handle, &raw mut with, a.keys[1], key)).bytes();
        let template = [attribute(CKA_CLASS, &SECRET), attribute(CKA_KEY_TYPE, &AES)];
        put!(a CK_OBJECT_HANDLE, C_UnwrapKey(
            a.handle, &raw mut with, a.keys[1], bytes(&wrapped), 24, attributes(&template), 2));
    },
    |a| derive(a),
    |a| {
        let random = Guarded::of(&[PATTERN; 33]);
        call!(a [(&random, When::Success)] C_GenerateRandom(a.handle, random.pointer(), 33));
    },
    |a| {
        let slot = Guarded::number(7);
        call!(a [(&slot, When::Success)] C_WaitForSlotEvent(CKF_DONT_BLOCK, slot.pointer(), null_mut()));
        let result = put!(a CK_ASYNC_DATA, C_AsyncComplete(a.handle, bytes(b"C_Sign\0")));
        let is_right =
            a.outcome.codes.last().is_none_or(|(_, code)| *code != CKR_OK) || result.word(ASYNC_VALUE) == 0;
        a.check(is_right, "C_AsyncComplete", "a pointer of the agent");
    },
];

fn get_attributes(a: &mut Application) {
    for key in [a.keys[0], a.keys[1]] {
        // The last one is an array of attributes.
        let values = [64, 8].map(|len: usize| Guarded::of(&vec![PATTERN; len]));
        let values = [&values[0], &values[1], &Guarded::of(&[0; 48])];
        let one = |kind: u64, value: &Guarded| [kind, value.address(), value.bytes().len() as u64];
        let kinds = [CKA_LABEL, CKA_VALUE, CKA_UNWRAP_TEMPLATE].into_iter().zip(values);
        let words: Vec<_> =
            kinds.flat_map(|(kind, value)| one(kind, value)).flat_map(u64::to_ne_bytes).collect();
        let template = Guarded::of(&words);
        let when = When::Attributes;
        call!(a [(&template, when), (values[0], when), (values[1], when), (values[2], when)]
            C_GetAttributeValue(a.handle, key, template.pointer(), 3));
        for (index, value) in values.iter().enumerate() {
            let (kind, at, len) = (24 * index, 24 * index + 8, template.word(24 * index + 16));
            let is_right = len == CK_UNAVAILABLE_INFORMATION || len <= value.bytes().len() as u64;
            a.check(is_right, "C_GetAttributeValue", "a length beyond its buffer");
            let is_same = template.bytes()[kind..at + 8] == words[kind..at + 8];
            a.check(is_same, "C_GetAttributeValue", "another type or pointer");
        }
        // Nested attributes have no pointer, whatever the agent says.
        let nested = values[2];
        a.check((nested.word(8), nested.word(32)) == (0, 0), "C_GetAttributeValue", "a pointer of the agent");
    }
}

fn encrypt(a: &mut Application) {
    let mut iv = [7; 12];
    let mut gcm = CK_GCM_PARAMS {
        pIv: iv.as_mut_ptr(),
        ulIvLen: 12,
        ulIvBits: 96,
        pAAD: null_mut(),
        ulAADLen: 0,
        ulTagBits: 128,
    };
    let mut with = with_parameter(CKM_AES_GCM, &mut gcm);
    call!(a [] C_EncryptInit(a.handle, &raw mut with, a.keys[1]));
    let sealed = two_calls!(a 20 x 1 C_Encrypt(a.handle, bytes(b"data"), 4)).bytes();
    call!(a [] C_DecryptInit(a.handle, &raw mut with, a.keys[1]));
    two_calls!(a 20 x 1 C_Decrypt(a.handle, bytes(&sealed), 20));
    call!(a [] C_EncryptInit(a.handle, &raw mut with, a.keys[1]));
    two_calls!(a 20 x 1 C_EncryptUpdate(a.handle, bytes(b"data"), 4));
    two_calls!(a 20 x 1 C_EncryptFinal(a.handle));
    // The token makes the nonce and the tag of a message.
    let (nonce, tag) = (Guarded::of(&[0; 12]), Guarded::of(&[0; 16]));
    let mut message = CK_GCM_MESSAGE_PARAMS {
        pIv: nonce.pointer(),
        ulIvLen: 12,
        ulIvFixedBits: 0,
        ivGenerator: CKG_GENERATE,
        pTag: tag.pointer(),
        ulTagBits: 128,
    };
    let mut with = with_parameter(CKM_AES_GCM, &mut message);
    call!(a [] C_MessageEncryptInit(a.handle, &raw mut with, a.keys[1]));
    let (sealed, len) = (Guarded::of(&[PATTERN; 4]), Guarded::number(4));
    let code = call!(a [
            (&sealed, When::Success), (&len, When::Length), (&nonce, When::Success), (&tag, When::Success)
        ] C_EncryptMessage(
            a.handle, (&raw mut message).cast(), size_of_val(&message) as u64, null_mut(), 0, bytes(b"data"), 4,
            sealed.pointer(), len.pointer()));
    a.check_len(code, &sealed, &len, 1);
    call!(a [] C_MessageEncryptFinal(a.handle));
}

/// The one output with pointers.
fn one_time_password(a: &mut Application) {
    let mut none = CK_OTP_PARAMS { pParams: null_mut(), ulCount: 0 };
    let mut with = with_parameter(CKM_HOTP, &mut none);
    if call!(a [] C_SignInit(a.handle, &raw mut with, a.keys[2])) == CKR_OPERATION_ACTIVE {
        return;
    }
    let block = two_calls!(a 200 x 1 C_Sign(a.handle, null_mut(), 0));
    if a.outcome.codes.last().is_none_or(|(_, code)| *code != CKR_OK) {
        return;
    }
    // All pointers point into the block.
    let all = block.bytes();
    let offset = |address: u64| usize::try_from(address.checked_sub(block.address())?).ok();
    let read = |at: usize| Some(u64::from_ne_bytes(all.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let param = |index: u64| {
        let at = offset(read(0)?)?.checked_add(usize::try_from(index).ok()?.checked_mul(24)?)?;
        let (value, len) = (offset(read(at + 8)?)?, usize::try_from(read(at + 16)?).ok()?);
        all.get(value..value.checked_add(len)?)
    };
    let count = read(8).unwrap_or(u64::MAX);
    let is_right = count < 16 && (0..count).all(|index| param(index).is_some());
    a.check(is_right, "C_Sign", "a pointer of the agent in a one-time password");
}

/// Mechanisms that write to their parameters.
fn derive(a: &mut Application) {
    let (seed, label) = (Guarded::of(&[1; 32]), Guarded::of(b"label"));
    let (output, len) = (Guarded::of(&[PATTERN; 20]), Guarded::number(20));
    let mut prf = CK_TLS_PRF_PARAMS {
        pSeed: seed.pointer(),
        ulSeedLen: 32,
        pLabel: label.pointer(),
        ulLabelLen: 5,
        pOutput: output.pointer(),
        pulOutputLen: len.pointer(),
    };
    let mut with = with_parameter(CKM_TLS_PRF, &mut prf);
    let code = call!(a [(&output, When::Success), (&len, When::Success)]
        C_DeriveKey(a.handle, &raw mut with, a.keys[3], null_mut(), 0, null_mut()));
    a.check(code != CKR_OK || len.word(0) <= 20, "C_DeriveKey", "a length beyond its buffer");

    let vectors = [0; 2].map(|byte| Guarded::of(&[byte; 16]));
    let words = [0, 0, 0, 0, vectors[0].address(), vectors[1].address()];
    let material = Guarded::of(&words.map(u64::to_ne_bytes).concat());
    let mut keys = CK_TLS12_KEY_MAT_PARAMS {
        ulMacSizeInBits: 256,
        ulKeySizeInBits: 128,
        ulIVSizeInBits: 128,
        bIsExport: 0,
        RandomInfo: CK_SSL3_RANDOM_DATA {
            pClientRandom: seed.pointer(),
            ulClientRandomLen: 32,
            pServerRandom: seed.pointer(),
            ulServerRandomLen: 32,
        },
        pReturnedKeyMaterial: material.pointer(),
        prfHashMechanism: CKM_SHA256,
    };
    let mut with = with_parameter(CKM_TLS12_KEY_AND_MAC_DERIVE, &mut keys);
    let template = [attribute(CKA_CLASS, &SECRET), attribute(CKA_KEY_TYPE, &AES)];
    let when = When::Success;
    call!(a [(&material, when), (&vectors[0], when), (&vectors[1], when)]
        C_DeriveKey(a.handle, &raw mut with, a.keys[3], attributes(&template), 2, null_mut()));
    let pointers = (material.word(32), material.word(40));
    a.check(pointers == (words[4], words[5]), "C_DeriveKey", "a pointer of the agent");
}

/// Returns the pointer that a function takes for bytes.
fn bytes(bytes: &[u8]) -> *mut u8 {
    bytes.as_ptr().cast_mut()
}

fn attributes(template: &[CK_ATTRIBUTE]) -> *mut CK_ATTRIBUTE {
    template.as_ptr().cast_mut()
}

fn attribute(kind: CK_ATTRIBUTE_TYPE, value: &[u8]) -> CK_ATTRIBUTE {
    CK_ATTRIBUTE { type_: kind, pValue: bytes(value).cast(), ulValueLen: value.len() as u64 }
}

fn plain(mechanism: CK_MECHANISM_TYPE) -> CK_MECHANISM {
    CK_MECHANISM { mechanism, pParameter: null_mut(), ulParameterLen: 0 }
}

fn with_parameter<T>(mechanism: CK_MECHANISM_TYPE, parameter: &mut T) -> CK_MECHANISM {
    let len = size_of::<T>() as u64;
    CK_MECHANISM { mechanism, pParameter: std::ptr::from_mut(parameter).cast(), ulParameterLen: len }
}
