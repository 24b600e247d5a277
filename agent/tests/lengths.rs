//! Lengths that no memory has, or that are not those of the memory. The agent gives its core the
//! lengths of memory that it made, and the application gets the code of the module in process.

#![allow(non_snake_case, reason = "the names of PKCS#11")]

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;

use common::peer::{Peer, Who, template, used};
use common::*;
use jeton::id::MechanismType;
use jeton_agent_wire::call::{Asked, Here, Length, OutputRoom, Told};
use jeton_agent_wire::{Call, Outcome};
use jeton_names::functions;
use jeton_names::parameter as mechanism;
use jeton_names::structs::{Layout, Len, Parameter, Pointer, TEMPLATES, Target, Value};
use jeton_words::error::Error;
use jeton_words::id::{AttributeType, SlotId};
use jeton_words::operation::{OneTimePassword, Signed};
use jeton_words::params::Params;
use jeton_words::session::Access as Type;
use jeton_words::template::{Given, Raw, Template};
use jeton_words::token::Room;
use serde_bytes::Bytes;

/// The lengths that every argument gets besides its own one and one less.
const LENGTHS: [u64; 7] = [0, 1, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, u64::MAX];
/// The size of a `CK_ATTRIBUTE`.
const SIZE: u64 = size_of::<CK_ATTRIBUTE>() as u64;
/// The exact length of each input and list of numbers.
const EXACT: u64 = 16;
/// The memory behind each pointer.
const MEMORY: usize = 64 << 10;

#[test]
fn a_template_in_a_template_stays_within_the_memory_of_its_entry() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    let mut other = Peer::started(directory);
    let (mut peer, session) = Peer::opened(directory, slot);
    peer.login(session, Who::User, PIN);
    for len in [24_000, 30_000, 60_000, 200_000, 2_000_000] {
        let label = vec![b'A'; len];
        let (class, kind) = (CKO_SECRET_KEY.to_ne_bytes(), CKK_AES.to_ne_bytes());
        let mut template =
            template(&[(CKA_CLASS, &class[..]), (CKA_KEY_TYPE, &kind), (CKA_VALUE, &[7; 16])]).into_owned();
        let inner = Template(vec![Given { id: AttributeType::LABEL, value: Raw::Bytes(&label) }]);
        template.0.push(Given { id: AttributeType::WRAP_TEMPLATE, value: Raw::Template(inner) });
        let create = Call::C_CreateObject { session: Here, template: std::borrow::Cow::Owned(template) };
        let object = peer.returned(session, create).expect("an answer").object();

        // The message says that the label is a template, with any room.
        let innermost = vec![Room::Bytes(1 << 40); 1000];
        for room in [Room::Template(len as u64, innermost.clone()), Room::Template(len as u64 - 1, innermost)]
        {
            let fits = matches!(room, Room::Template(room, _) if room == len as u64);
            let asked = Asked(vec![(AttributeType::WRAP_TEMPLATE, Room::Template(SIZE, vec![room]))]);
            let returned = peer.returned(session, Call::C_GetAttributeValue { object, asked });
            let returned = returned.expect("an answer");
            let Ok(Outcome::C_GetAttributeValue(told)) = returned.answer().outcome else { panic!("{len}") };
            let [Told::Template(within)] = &told[..] else { panic!("{len}") };
            match &within[..] {
                [(AttributeType::LABEL, Told::Bytes(value))] => assert!(fits && value.0[..] == label),
                [(AttributeType::LABEL, Told::Length(Length::Bytes(needed)))] => {
                    assert!(!fits && *needed == len as u64);
                }
                _ => panic!("{len}"),
            }
        }
        assert!(other.is_served() && agent.runs(), "{len}");
    }
}

#[test]
fn a_search_takes_any_number_for_its_room() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    for room in LENGTHS.into_iter().filter(|room| *room > 1) {
        let (mut peer, session) = Peer::opened(directory, slot);
        let init = Call::C_FindObjectsInit { session: Here, template: template(&[]) };
        assert_eq!(peer.call(session, init), Some(Ok(())));
        assert_eq!(peer.call(session, Call::C_FindObjects { session: Here, out: room }), Some(Ok(())));
    }
    assert!(agent.runs());
}

#[test]
fn a_request_has_no_call_in_a_session_that_it_opens_itself() {
    let (_, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    // The handles of an application are the same each time.
    let (_, session) = Peer::opened(directory, slot);
    let mut peer = Peer::started(directory);
    let open = Call::C_OpenSession { slot: SlotId(slot), access: Type::ReadWrite, asynchronous: false };
    let info = || Call::C_GetSessionInfo { session: Here };
    let answers = peer.all(session, vec![open, info()]).expect("answers");
    let Ok(Outcome::C_OpenSession { result, .. }) = answers[0].answer().outcome else { panic!("no session") };
    assert_eq!(result.0, session);
    assert_eq!(answers[1].result(), Err(Error::SessionHandleInvalid));
    assert_eq!(peer.call(session, info()), Some(Ok(())));
}

#[test]
fn a_one_time_password_has_no_address_of_the_agent() {
    let (_, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    let (mut peer, session) = Peer::opened(directory, slot);
    peer.login(session, Who::User, PIN);
    let (class, kind) = (CKO_OTP_KEY.to_ne_bytes(), CKK_HOTP.to_ne_bytes());
    let key: [(_, &[u8]); 4] =
        [(CKA_CLASS, &class), (CKA_KEY_TYPE, &kind), (CKA_VALUE, &[7; 20]), (CKA_SIGN, &[CK_TRUE])];
    let create = Call::C_CreateObject { session: Here, template: template(&key) };
    let key = peer.returned(session, create).expect("an answer").object();
    let params = Params::Otp { counter: None, digits: None, format: None, flags: 0 };
    let init = Call::C_SignInit { session: Here, mechanism: used(CKM_HOTP, params), key };
    assert_eq!(peer.call(session, init), Some(Ok(())));
    let out = OutputRoom::Bytes(256);
    let signed = peer.returned(session, Call::C_Sign { session: Here, data: Bytes::new(b""), out });
    let signed = signed.expect("an answer");
    let Ok(Outcome::C_Sign { result: Signed::Password(password), out, .. }) = signed.answer().outcome else {
        panic!("no password: {:?}", signed.result());
    };
    assert!(out.0.is_empty());
    let OneTimePassword { digits, len, counter } = password;
    assert!(digits[..usize::from(len)].iter().all(u8::is_ascii_digit));
    assert_eq!((len, counter), (6, [0; 8]));
}

/// Jeton in this process, and through an agent, with the same token and objects.
struct Both {
    names: [&'static str; 2],
    modules: [Module; 2],
    sessions: [Session; 2],
    _agent: Agent,
    _directory: Directory,
}

impl Both {
    fn new() -> Self {
        let directory = Directory::alone();
        let agent = Agent::start(&directory);
        let here = directory.join("here");
        fs::create_dir_all(&here).expect("a directory");
        let of_module = format!("token-dir = '{}', pin = {{ memory-kib = 8, passes = 1 }}", here.display());
        let library = Known::Jeton.library().expect("the module");
        let module = Module::load(library).expect("a module");
        module.initialize(Some(&of_module)).expect("a module");
        let modules = [module, token::load(&parameters(&directory))];
        let sessions = modules.each_ref().map(|module| {
            initialise(module, module.slots(true).expect("slots")[0], "t", SO_PIN, PIN).expect("a token");
            token::log_in(module)
        });
        Self { names: ["in process", "agent"], modules, sessions, _agent: agent, _directory: directory }
    }

    /// Does the same with both modules. Fails if the results differ.
    fn same<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        mut work: impl FnMut(&Module, &Session) -> T,
    ) -> T {
        let [here, there] = [0, 1].map(|index| work(&self.modules[index], &self.sessions[index]));
        assert_eq!(here, there, "{what}: {:?}", self.names);
        here
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        self.modules.iter().for_each(|module| drop(module.finalize()));
    }
}

/// What a function gets: one of its lengths is `len`, the others are exact.
struct Made<'a> {
    module: &'a Module,
    session: CK_SESSION_HANDLE,
    /// The length that is not exact, by its position among those of the call.
    chosen: usize,
    len: u64,
    /// Whether a module may read more than the memory.
    is_beyond: bool,
    next: usize,
    memory: Vec<Box<[u8]>>,
    mechanism: Box<CK_MECHANISM>,
}

impl Made<'_> {
    fn memory<T>(&mut self) -> *mut T {
        self.memory.push(vec![0; MEMORY].into());
        self.memory.last_mut().map_or(null_mut(), |memory| memory.as_mut_ptr().cast())
    }

    /// Returns the next length. No module is called with one that it reads beyond the memory.
    fn len(&mut self, exact: u64, is_read: bool) -> u64 {
        let is_chosen = self.next == self.chosen;
        self.next += 1;
        if !is_chosen {
            return exact;
        }
        let len = if self.len == u64::MAX - 1 { exact.saturating_sub(1) } else { self.len };
        self.is_beyond |= is_read && (MEMORY as u64..=isize::MAX as u64).contains(&len);
        len
    }

    fn place(&mut self, exact: u64) -> *mut CK_ULONG {
        let len = self.len(exact, false);
        let place = self.memory::<CK_ULONG>();
        // SAFETY: inside the memory.
        unsafe { place.write_unaligned(len) };
        place
    }

    fn template(&mut self) -> *mut CK_ATTRIBUTE {
        let attributes = self.memory::<CK_ATTRIBUTE>();
        let value = self.memory::<c_void>();
        for (index, type_) in [CKA_LABEL, CKA_ID].into_iter().enumerate() {
            let ulValueLen = self.len(EXACT, true);
            // SAFETY: inside the memory.
            unsafe { attributes.add(index).write(CK_ATTRIBUTE { type_, pValue: value, ulValueLen }) };
        }
        attributes
    }

    fn mechanism(&mut self, mechanism: CK_MECHANISM_TYPE) -> *mut CK_MECHANISM {
        let pParameter = self.memory();
        let ulParameterLen = self.len(EXACT, true);
        *self.mechanism = CK_MECHANISM { mechanism, pParameter, ulParameterLen };
        &raw mut *self.mechanism
    }
}

/// What a function gets for a parameter with this name.
trait Passed {
    fn passed(made: &mut Made<'_>, function: &str, name: &str) -> Self;
}

impl Passed for CK_ULONG {
    fn passed(made: &mut Made<'_>, _: &str, name: &str) -> Self {
        match name {
            "session" => made.session,
            "max" => made.len(EXACT, false),
            "parameter_len" => made.len(0, true),
            _ if name.ends_with("count") => made.len(2, false),
            _ if name.ends_with("_len") => made.len(EXACT, true),
            _ => 1,
        }
    }
}

impl Passed for *mut CK_ULONG {
    fn passed(made: &mut Made<'_>, function: &str, name: &str) -> Self {
        match name {
            "count" if function == "C_FindObjects" => made.memory(),
            "count" => made.place(MEMORY as u64 / 8),
            _ if name.ends_with("_len") => made.place(MEMORY as u64),
            _ => made.memory(),
        }
    }
}

impl Passed for *mut CK_ATTRIBUTE {
    fn passed(made: &mut Made<'_>, _: &str, _: &str) -> Self {
        made.template()
    }
}

impl Passed for *mut CK_MECHANISM {
    fn passed(made: &mut Made<'_>, function: &str, _: &str) -> Self {
        let is_message = function.ends_with("cryptInit") && function.starts_with("C_Message");
        let is_aead = is_message || function.ends_with("Authenticated");
        made.mechanism(if is_aead { CKM_AES_GCM } else { CKM_AES_CBC })
    }
}

impl Passed for *mut c_void {
    fn passed(made: &mut Made<'_>, _: &str, name: &str) -> Self {
        if name == "parameter" { made.memory() } else { null_mut() }
    }
}

impl Passed for CK_BBOOL {
    fn passed(_: &mut Made<'_>, _: &str, _: &str) -> Self {
        CK_TRUE
    }
}

impl Passed for CK_NOTIFY {
    fn passed(_: &mut Made<'_>, _: &str, _: &str) -> Self {
        None
    }
}

macro_rules! memory {
    ($($type:ty)*) => {
        $(impl Passed for *mut $type {
            fn passed(made: &mut Made<'_>, _: &str, _: &str) -> Self {
                made.memory()
            }
        })*
    };
}

memory!(CK_BYTE CK_INFO CK_SLOT_INFO CK_TOKEN_INFO CK_MECHANISM_INFO CK_SESSION_INFO CK_ASYNC_DATA);

type Calling = fn(&mut Made<'_>) -> Option<CK_RV>;

macro_rules! table {
    ($($version:literal { $($name:ident $(($($argument:ident: $type:ty),*))?;)* })*) => {
        /// The functions that are not those of the function lists.
        const TABLE: &[(&str, Calling)] = &[$($($(
            (stringify!($name), |made| {
                // The arguments come before the call, so that their lengths are counted.
                $(let $argument = <$type>::passed(made, stringify!($name), stringify!($argument));)*
                if made.is_beyond {
                    return None;
                }
                let list = made.module.functions_3_2().expect("a list");
                // SAFETY: the pointers point to memory of their lengths. A longer length is one
                // that the function refuses, or room that it does not need.
                Some(unsafe { list.$name.expect("a function")($($argument),*) })
            }),
        )?)*)*];
    };
}

functions!(table);

/// Begins every operation that can begin beside the others.
fn begin_operations(session: &Session, key: ObjectHandle) {
    let counter = Mechanism::with_bytes(CKM_AES_CBC, &[0; 16]);
    let all = CKF_ENCRYPT | CKF_DECRYPT | CKF_DIGEST | CKF_SIGN | CKF_VERIFY | CKF_FIND_OBJECTS;
    let list = session.module().functions_3_2().expect("a list");
    // SAFETY: no pointers.
    unsafe { list.C_SessionCancel.expect("a function")(session.handle(), all) };
    let _ = session.find_final();
    let _ = session.encrypt_init(&counter, key);
    let _ = session.decrypt_init(&counter, key);
    let _ = session.digest_init(&Mechanism::new(CKM_SHA256));
    let _ = session.sign_init(&Mechanism::new(CKM_AES_CMAC), key);
    let _ = session.verify_init(&Mechanism::new(CKM_AES_CMAC), key);
    let _ = session.find_init(&[]);
}

#[test]
fn every_length_of_every_function_gives_the_code_of_the_module_in_process() {
    let both = Both::new();
    let key = both.sessions.each_ref().map(|session| {
        let template = [Attribute::number(CKA_VALUE_LEN, 32), Attribute::flag(CKA_SIGN, true)];
        session.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template).expect("a key")
    });
    let ends = [
        "C_Initialize",
        "C_Finalize",
        "C_InitToken",
        "C_CloseSession",
        "C_CloseAllSessions",
        "C_Logout",
        "C_SetPIN",
        "C_LoginUser",
        "C_Login",
        "C_WaitForSlotEvent",
    ];
    let mut calls = 0;
    for (name, call) in TABLE.iter().filter(|(name, _)| !ends.contains(name)) {
        for is_active in [false, true] {
            let mut lengths = 1;
            let mut chosen = 0;
            while chosen < lengths {
                // The last one stands for one less than the exact length.
                for len in LENGTHS.into_iter().chain([EXACT, u64::MAX - 1]) {
                    let codes = [0, 1].map(|index| {
                        let (module, session) = (&both.modules[index], &both.sessions[index]);
                        if is_active {
                            begin_operations(session, key[index]);
                        }
                        let mut made = Made {
                            module,
                            session: session.handle(),
                            chosen,
                            len,
                            is_beyond: false,
                            next: 0,
                            memory: Vec::new(),
                            mechanism: Box::default(),
                        };
                        let code = call(&mut made);
                        lengths = made.next;
                        calls += 1;
                        code
                    });
                    assert_ne!(codes[1], Some(CKR_DEVICE_ERROR), "{name} {chosen} {len:#x}");
                    if codes[0].is_some() {
                        assert_eq!(
                            codes[0], codes[1],
                            "{name}, length {chosen} is {len:#x}, active {is_active}"
                        );
                    }
                }
                chosen += 1;
            }
        }
    }
    assert!(calls > 3000, "{calls}");
}

#[test]
fn every_length_in_a_parameter_gives_the_code_of_the_module_in_process() {
    let both = Both::new();
    let keys = both.sessions.each_ref().map(|session| {
        let template = [Attribute::number(CKA_VALUE_LEN, 32), Attribute::flag(CKA_DERIVE, true)];
        session.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template).expect("a key").0
    });
    let mut seen: Vec<Parameter> = Vec::new();
    for mechanism in jeton::mechanism::all().map(|row| row.id.0) {
        let parameter = mechanism::parameter(mechanism, None);
        if seen.contains(&parameter) {
            continue;
        }
        seen.push(parameter);
        for layout in parameter.layouts() {
            let fields = (0..layout.size).step_by(8);
            for (at, len) in fields.flat_map(|at| LENGTHS.into_iter().map(move |len| (at, len))) {
                // From 2^16 on, the length of a password is the address of the length.
                let is_password = |pointer: &Pointer| matches!(pointer.target, Target::Bytes { len: Len::Password(field), .. } if field == at);
                if layout.pointers.iter().any(is_password) && (1 << 16..1 << 47).contains(&len) {
                    continue;
                }
                for is_null in [false, true] {
                    let mut memory = vec![0_u64; MEMORY / 8];
                    let mut bytes = filled(layout);
                    bytes.resize(layout.size.next_multiple_of(8), 0);
                    let is_pointer = layout.pointers.iter().any(|pointer| pointer.at == at);
                    if !is_pointer && at + 8 <= layout.size {
                        bytes[at..at + 8].copy_from_slice(&len.to_ne_bytes());
                    }
                    for pointer in layout.pointers.iter().filter(|pointer| !is_null || pointer.at != at) {
                        let address = memory.as_mut_ptr().expose_provenance();
                        bytes[pointer.at..pointer.at + 8].copy_from_slice(&address.to_ne_bytes());
                    }
                    let what = format!("{mechanism:#x} {parameter:?} at {at}: {len:#x}, NULL {is_null}");
                    let mut index = 0;
                    both.same(&what, |module, session| {
                        let mut given = CK_MECHANISM {
                            mechanism,
                            pParameter: bytes.as_mut_ptr().cast(),
                            ulParameterLen: layout.size as u64,
                        };
                        let list = module.functions_3_2().expect("a list");
                        let mut made = 0;
                        let key = keys[index];
                        index += 1;
                        // SAFETY: the pointers of the parameter point to memory that is longer than
                        // the lengths that a function reads, but for those that it refuses.
                        unsafe {
                            let derived = list.C_DeriveKey.expect("a function")(
                                session.handle(),
                                &raw mut given,
                                key,
                                null_mut(),
                                0,
                                &raw mut made,
                            );
                            let signs =
                                list.C_SignInit.expect("a function")(session.handle(), &raw mut given, key);
                            let encrypts = list.C_EncryptInit.expect("a function")(
                                session.handle(),
                                &raw mut given,
                                key,
                            );
                            let all = CKF_ENCRYPT | CKF_SIGN;
                            list.C_SessionCancel.expect("a function")(session.handle(), all);
                            [derived, signs, encrypts]
                        }
                    });
                }
            }
        }
    }
    assert!(seen.len() > 30, "{}", seen.len());
}

/// Returns a struct without pointers whose other fields have values that a function accepts.
fn filled(layout: &Layout) -> Vec<u8> {
    let mut bytes = vec![0; layout.size];
    for (offset, value) in layout.values {
        let given = match value {
            Value::Of(all) | Value::Among(all) => all[0],
            Value::Range(first, _) => *first,
            Value::Hash | Value::TlsHash => CKM_SHA256,
            Value::Prf => CKM_SHA256_HMAC,
            _ => continue,
        };
        let end = (offset + 8).min(layout.size);
        bytes[*offset..end].copy_from_slice(&given.to_ne_bytes()[..end - offset]);
    }
    bytes
}

/// The code and the length; the type, the length and the value of each attribute within.
type ArrayRead = (CK_RV, u64, Vec<(u64, u64, Vec<u8>)>);

/// What an array attribute is read with, and what is there afterwards.
fn read_array(
    session: &Session,
    object: ObjectHandle,
    outer: (CK_ATTRIBUTE_TYPE, u64),
    inner: (CK_ATTRIBUTE_TYPE, u64),
    filler: u8,
) -> ArrayRead {
    let mut values = vec![vec![filler; MEMORY]; 4];
    let mut entries = vec![filler; MEMORY];
    if filler == 0 {
        for (entry, value) in entries.chunks_exact_mut(SIZE as usize).zip(&mut values) {
            let address = value.as_mut_ptr().expose_provenance() as u64;
            entry.copy_from_slice(&[inner.0, address, inner.1].map(u64::to_ne_bytes).concat());
        }
    }
    let mut template =
        CK_ATTRIBUTE { type_: outer.0, pValue: entries.as_mut_ptr().cast(), ulValueLen: outer.1 };
    let read = session.module().functions().C_GetAttributeValue.expect("a function");
    // SAFETY: each value has more room than the object's, whatever the lengths say.
    let code = unsafe { read(session.handle(), object.0, &raw mut template, 1) };
    let seen = entries.chunks_exact(SIZE as usize).take(4).zip(values).map(|(entry, value)| {
        let number = |at: usize| u64::from_ne_bytes(entry[at..at + 8].try_into().expect("8 bytes"));
        (number(0), number(16), value)
    });
    (code, template.ulValueLen, seen.collect())
}

#[test]
fn array_attributes_are_read_as_in_process() {
    let both = Both::new();
    for array in TEMPLATES {
        let objects = both.sessions.each_ref().map(|session| {
            let label = Attribute::bytes(CKA_LABEL, vec![b'A'; 30_000]);
            let id = Attribute::bytes(CKA_ID, vec![]);
            let mut structs = [label, id].map(|attribute| {
                let value = attribute.value.clone();
                (attribute.kind, value)
            });
            let within: Vec<CK_ATTRIBUTE> = structs
                .iter_mut()
                .map(|(type_, value)| CK_ATTRIBUTE {
                    type_: *type_,
                    pValue: value.as_mut_ptr().cast(),
                    ulValueLen: value.len() as u64,
                })
                .collect();
            // The array contains itself once more.
            let mut nested = within.clone();
            nested.push(CK_ATTRIBUTE {
                type_: CKA_UNWRAP_TEMPLATE,
                pValue: within.as_ptr().cast_mut().cast(),
                ulValueLen: within.len() as u64 * SIZE,
            });
            let (mut class, mut kind, mut value) = (CKO_SECRET_KEY, CKK_AES, [7_u8; 16]);
            let attribute = |type_, pointer: *mut u8, ulValueLen| CK_ATTRIBUTE {
                type_,
                pValue: pointer.cast(),
                ulValueLen,
            };
            let mut template = [
                attribute(CKA_CLASS, (&raw mut class).cast(), 8),
                attribute(CKA_KEY_TYPE, (&raw mut kind).cast(), 8),
                attribute(CKA_VALUE, value.as_mut_ptr(), 16),
                attribute(array, nested.as_mut_ptr().cast(), nested.len() as u64 * SIZE),
            ];
            let create = session.module().functions().C_CreateObject.expect("a function");
            let mut with = 0;
            // SAFETY: complete templates.
            let code = unsafe { create(session.handle(), template.as_mut_ptr(), 4, &raw mut with) };
            // SAFETY: as above, without the array.
            let other = unsafe {
                let mut without = 0;
                assert_eq!(create(session.handle(), template.as_mut_ptr(), 3, &raw mut without), CKR_OK);
                without
            };
            // Not every kind of key has each of them.
            [ObjectHandle(if code == CKR_OK { with } else { other }), ObjectHandle(other)]
        });
        let read = |what: &str, which: usize, outer, inner, filler| {
            let mut index = 0;
            both.same(what, |_, session| {
                let object = objects[index][which];
                index += 1;
                read_array(session, object, outer, inner, filler)
            })
        };
        for filler in [0xaa, 0xff, CKA_WRAP_TEMPLATE as u8] {
            read(&format!("{array:#x} absent, filled with {filler:#x}"), 1, (array, 10_240), (0, 0), filler);
        }
        let exact = 3 * SIZE;
        let lengths = || LENGTHS.into_iter().chain([exact, exact - 1, 30_000, 29_999]);
        for outer in lengths() {
            for kind in [0, CKA_LABEL, array, CKA_UNWRAP_TEMPLATE, CKA_CLASS, u64::MAX] {
                read(&format!("{array:#x} {outer:#x} {kind:#x}"), 0, (array, outer), (kind, 30_000), 0);
            }
        }
        for (kind, inner) in
            [0, array, CKA_LABEL].into_iter().flat_map(|kind| lengths().map(move |len| (kind, len)))
        {
            read(&format!("{array:#x} within {kind:#x} {inner:#x}"), 0, (array, exact), (kind, inner), 0);
        }
    }
}

#[test]
fn a_query_for_a_mac_of_any_length_is_answered_as_in_process() {
    let both = Both::new();
    both.same("CKM_TLS_PRF_GENERAL", |module, session| {
        let template = [
            Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
            Attribute::number(CKA_KEY_TYPE, CKK_GENERIC_SECRET),
            Attribute::bytes(CKA_VALUE, [7; 32]),
            Attribute::flag(CKA_SIGN, true),
        ];
        let key = session.create_object(&template).expect("a key");
        let sign = module.functions().C_Sign.expect("a function");
        let mut given = CK_MECHANISM {
            mechanism: MechanismType::TLS_PRF_GENERAL.0,
            pParameter: null_mut(),
            ulParameterLen: 0,
        };
        let init = module.functions().C_SignInit.expect("a function");
        let mut seen = Vec::new();
        for room in [12, 30, 48] {
            let (mut len, mut result) = (0, [0; 64]);
            let mut data = *b"seed";
            // SAFETY: complete arguments.
            unsafe {
                seen.push((init(session.handle(), &raw mut given, key.0), 0));
                let data = data.as_mut_ptr();
                seen.push((sign(session.handle(), data, 4, null_mut(), &raw mut len), len));
                len = room;
                seen.push((sign(session.handle(), data, 4, result.as_mut_ptr(), &raw mut len), len));
            }
        }
        seen
    });
}
