//! A run: calls with arguments from the fuzzer's bytes. An argument that depends on another one,
//! such as a length on its pointer, comes after it.

use std::ptr::null_mut;

use cryptoki_sys::*;
use jeton_names::ReturnCode;

use crate::memory::Memory;
use crate::policy::{Protection, judge};
use crate::secrets::Watch;
use crate::source::Source;
use crate::token::{PIN, SO_PIN, Token};
use crate::trace::Trace;

/// The greatest number of calls in a run.
const MOST: usize = 64;

thread_local! {
    static WATCH: Watch = Watch::new();
}

/// The name of a function, and the code that calls it.
pub(crate) type Call = (&'static str, fn(&mut Run<'_>) -> CK_RV);

/// If one of these succeeds, the token must be restored before the next run.
const CHANGING: &str = "C_Initialize C_Finalize C_InitToken C_InitPIN C_SetPIN C_CloseSession \
    C_CloseAllSessions C_Login C_LoginUser C_Logout C_DestroyObject C_SetAttributeValue";

/// A sequence of calls.
pub struct Run<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) memory: Memory,
    pub(crate) token: &'a mut Token,
    /// The length for the pointer of the previous argument.
    pub(crate) next_len: CK_ULONG,
    /// Aligned memory for lengths.
    pub(crate) lengths: Vec<*mut CK_ULONG>,
    room_len: *mut CK_ULONG,
    /// The saved operation state of an earlier call: its buffer, and the pointer to its length.
    state: (*mut u8, *mut CK_ULONG),
    /// The buffer for the operation state of this call. It becomes `state` if the call succeeds. If
    /// the buffer is too short, the call writes only the length.
    state_asked: (*mut u8, *mut CK_ULONG),
    /// The memory to which this call writes handles.
    places: Vec<*mut CK_OBJECT_HANDLE>,
    sessions: Vec<CK_SESSION_HANDLE>,
    made: Vec<CK_OBJECT_HANDLE>,
    /// The objects in the arguments of this call, with their protection before the call.
    asked: Vec<(CK_OBJECT_HANDLE, Protection)>,
    /// Whether this call requests a login of the SO.
    officer_asked: bool,
    /// Whether the SO was logged in at any time of the run.
    pub(crate) officer: bool,
    /// Whether the fuzzer's own bytes contain a part of a secret. Then the same part in an output
    /// proves nothing.
    knows: bool,
    /// Whether C_Finalize succeeded.
    has_ended: bool,
    /// What the calls returned and wrote, for a comparison with another module.
    trace: Option<&'a mut Trace>,
}

impl Run<'_> {
    /// Makes the calls that `bytes` describe, with these functions. Restores the token at the end
    /// if the run changed it.
    pub(crate) fn of<'r>(
        bytes: &'r [u8],
        calls: &[&Call],
        token: &'r mut Token,
        trace: Option<&'r mut Trace>,
    ) {
        let mut run = Run {
            source: Source::new(bytes),
            memory: Memory::default(),
            token,
            next_len: 0,
            lengths: Vec::new(),
            room_len: null_mut(),
            state: (null_mut(), null_mut()),
            state_asked: (null_mut(), null_mut()),
            places: Vec::new(),
            sessions: Vec::new(),
            made: Vec::new(),
            asked: Vec::new(),
            officer_asked: false,
            officer: false,
            knows: WATCH.with(|watch| watch.sees(bytes)),
            has_ended: false,
            trace,
        };
        run.calls(calls);
        run.end();
    }

    fn calls(&mut self, calls: &[&Call]) {
        let session = self.open();
        self.sessions.push(session);
        for _ in 0..MOST {
            if self.source.is_empty() {
                break;
            }
            let (name, call) = calls[self.source.below(calls.len())];
            let first = self.memory.len();
            self.officer_asked = false;
            let rv = call(self);
            assert!(is_known(rv), "{name}: {rv:#x}");
            let leaked = WATCH.with(|watch| self.memory.since(first).any(|block| watch.sees(block)));
            assert!(self.knows || !leaked, "{name}: part of a key's value in the call's memory");
            assert!(self.memory.is_intact(), "{name}: wrote beyond its memory");
            if let Some(trace) = &mut self.trace {
                trace.after(name, rv, &self.memory);
            }
            self.learn(name, rv);
        }
    }

    /// Runs when the arguments of a call are made.
    pub(crate) fn before(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.before(&self.memory);
        }
    }

    /// Returns a number that is no handle. Modules number their handles in different ways.
    fn no_handle(&mut self) -> CK_ULONG {
        let number = self.source.number();
        if self.trace.is_some() { number | 1 << 62 } else { number }
    }

    fn open(&mut self) -> CK_SESSION_HANDLE {
        self.token.session_in(self.token.slot).expect("a session at the start of a run")
    }

    /// Records the new handles of a call, and whether it changed the token for the next run.
    fn learn(&mut self, name: &str, rv: CK_RV) {
        let places = std::mem::take(&mut self.places);
        let asked = std::mem::take(&mut self.asked);
        if rv != CKR_OK {
            return;
        }
        self.officer |= self.officer_asked;
        self.has_ended |= name == "C_Finalize";
        // SAFETY: the run owns this memory; the module wrote a handle or left it 0.
        let handles = places.iter().map(|place| unsafe { place.read_unaligned() });
        let handles: Vec<_> = handles.filter(|handle| *handle != 0).collect();
        match name {
            // These functions return no object handles.
            "C_OpenSession" | "C_InitToken" | "C_Finalize" => {}
            _ => judge(self.token, self.officer, name, &asked, &handles),
        }
        match name {
            "C_OpenSession" => self.sessions.extend(handles),
            "C_GetOperationState" => self.state = self.state_asked,
            _ => self.made.extend(handles),
        }
        self.token.changed |= CHANGING.split_whitespace().any(|changing| changing == name);
    }

    /// Closes the sessions of the run, which destroys their objects. Restores the token if the run
    /// changed it.
    fn end(mut self) {
        let list = self.token.list;
        let stored = std::mem::take(&mut self.made).into_iter().any(|object| self.is_stored(object));
        if stored || self.token.changed {
            self.token.restore();
            return self.release();
        }
        for session in std::mem::take(&mut self.sessions) {
            // SAFETY: takes any number as a handle.
            unsafe { list.C_CloseSession.expect("an entry")(session) };
        }
        self.release();
    }

    fn is_stored(&self, object: CK_OBJECT_HANDLE) -> bool {
        let mut stored = CK_FALSE;
        let mut asked = CK_ATTRIBUTE { type_: CKA_TOKEN, pValue: (&raw mut stored).cast(), ulValueLen: 1 };
        let (list, session) = (self.token.list, self.token.session);
        // SAFETY: an attribute with a buffer of its length.
        unsafe { list.C_GetAttributeValue.expect("an entry")(session, object, &raw mut asked, 1) };
        stored == CK_TRUE
    }

    fn release(self) {
        for place in self.lengths {
            // SAFETY: created by `Box::leak`, and no call reads them any more.
            drop(unsafe { Box::from_raw(place) });
        }
    }

    /// A pointer and a length with which the module must not read anything: `NULL` with any length,
    /// or a length beyond the address space.
    pub(crate) fn odd_pair(&mut self) -> (*mut u8, CK_ULONG) {
        self.next_len = self.source.number();
        if self.source.once_in(2) {
            return (null_mut(), self.next_len);
        }
        self.next_len = CK_ULONG::MAX - CK_ULONG::from(self.source.byte());
        (self.memory.copy(&[0]), self.next_len)
    }

    /// A byte string.
    pub(crate) fn input(&mut self) -> (*mut u8, CK_ULONG) {
        if self.source.once_in(32) {
            return self.odd_pair();
        }
        let bytes = self.source.bytes();
        (self.memory.copy(&bytes), bytes.len() as CK_ULONG)
    }
}

/// The kinds of arguments in the table of functions.
impl Run<'_> {
    pub(crate) fn bytes(&mut self) -> *mut u8 {
        let (pointer, len) = self.input();
        self.next_len = len;
        pointer
    }

    pub(crate) fn len(&mut self) -> CK_ULONG {
        self.next_len
    }

    /// A buffer for output. [`room_len`](Self::room_len) then returns the pointer to its length.
    pub(crate) fn room(&mut self) -> *mut u8 {
        let len = match self.source.below(8) {
            0 => {
                let asked = self.source.number();
                self.room_len = self.memory.put(asked);
                return null_mut();
            }
            1 => self.source.below(64),
            2 => 1 << self.source.below(12),
            3 => 0,
            _ => 8192,
        };
        let said = if self.source.once_in(32) { CK_ULONG::MAX } else { len as CK_ULONG };
        self.room_len = if self.source.once_in(64) { null_mut() } else { self.memory.put(said) };
        self.memory.copy(&vec![0; len])
    }

    pub(crate) fn room_len(&mut self) -> *mut CK_ULONG {
        self.room_len
    }

    /// Memory for a list of numbers. [`room_len`](Self::room_len) then returns the pointer to their
    /// count.
    pub(crate) fn numbers(&mut self) -> *mut CK_ULONG {
        let count = self.source.below(300);
        self.room_len = self.memory.put(count as CK_ULONG);
        self.next_len = count as CK_ULONG;
        if self.source.once_in(8) { null_mut() } else { self.memory.put_all(&vec![0; count]) }
    }

    /// Memory for a struct that the module fills, or `NULL`.
    pub(crate) fn info<T>(&mut self) -> *mut T {
        if self.source.once_in(32) { null_mut() } else { self.memory.copy(&vec![0; size_of::<T>()]).cast() }
    }

    pub(crate) fn nothing<T>(&mut self) -> *mut T {
        if self.source.once_in(32) { self.memory.copy(&vec![0; size_of::<T>()]).cast() } else { null_mut() }
    }

    pub(crate) fn handle(&mut self) -> *mut CK_OBJECT_HANDLE {
        let place = self.info::<CK_OBJECT_HANDLE>();
        if !place.is_null() {
            self.places.push(place);
        }
        place
    }

    pub(crate) fn number(&mut self) -> CK_ULONG {
        self.source.number()
    }

    pub(crate) fn flag(&mut self) -> CK_BBOOL {
        self.source.boolean()
    }

    pub(crate) fn slot(&mut self) -> CK_SLOT_ID {
        if self.source.once_in(8) { self.source.number() } else { self.token.slot }
    }

    pub(crate) fn session(&mut self) -> CK_SESSION_HANDLE {
        match self.source.below(16) {
            13 => self.no_handle(),
            14 => self.token.session,
            15 => self.source.one(&self.sessions),
            _ => *self.sessions.last().unwrap_or(&0),
        }
    }

    pub(crate) fn object(&mut self) -> CK_OBJECT_HANDLE {
        let object = match self.source.below(16) {
            // The agent of several applications keeps a handle of a token object.
            _ if self.trace.is_some() && self.has_ended => self.no_handle(),
            15 => self.no_handle(),
            8..15 if !self.made.is_empty() => self.source.one(&self.made),
            _ => self.source.one(&self.token.objects),
        };
        self.asked.push((object, Protection::of(self.token, object)));
        object
    }

    /// The PIN of the user or of the SO, or other bytes.
    pub(crate) fn pin(&mut self) -> *mut u8 {
        let pin = match self.source.below(4) {
            0 => return self.bytes(),
            1 => SO_PIN,
            _ => PIN,
        };
        self.next_len = pin.len() as CK_ULONG;
        self.memory.copy(pin)
    }

    pub(crate) fn user(&mut self) -> CK_USER_TYPE {
        let user =
            if self.source.once_in(16) { self.source.number() } else { self.source.below(3) as CK_ULONG };
        self.officer_asked |= user == CKU_SO;
        user
    }

    pub(crate) fn label(&mut self) -> *mut u8 {
        let mut label = self.source.bytes();
        label.resize(32, b' ');
        self.memory.copy(&label)
    }

    pub(crate) fn opening(&mut self) -> CK_FLAGS {
        if self.source.once_in(16) {
            return self.source.number();
        }
        CKF_SERIAL_SESSION | self.source.one(&[CKF_RW_SESSION, 0, CKF_RW_SESSION | CKF_ASYNC_SESSION])
    }

    /// Returns the flags of `C_WaitForSlotEvent`, always with CKF_DONT_BLOCK.
    pub(crate) fn at_once(&mut self) -> CK_FLAGS {
        CKF_DONT_BLOCK | self.source.number()
    }

    /// The name of a function, which ends with NUL, or more bytes without NUL than the module
    /// reads.
    pub(crate) fn name(&mut self) -> *mut u8 {
        let known = [&b"C_GenerateKey\0"[..], b"C_GenerateKeyPair\0", b"C_Sign\0", b"\0", &[b'C'; 33]];
        let name = self.source.one(&known);
        self.memory.copy(name)
    }

    pub(crate) fn no_callback(&mut self) -> CK_NOTIFY {
        None
    }

    /// A buffer for an operation state, which a later call may restore.
    pub(crate) fn state_room(&mut self) -> *mut u8 {
        let room = self.room();
        self.state_asked = (room, self.room_len);
        room
    }

    /// A saved operation state, or arbitrary bytes.
    pub(crate) fn state(&mut self) -> *mut u8 {
        let (room, place) = self.state;
        if room.is_null() || self.source.once_in(4) {
            return self.bytes();
        }
        // SAFETY: the run owns this memory, and the module wrote the length.
        self.next_len = unsafe { place.read_unaligned() };
        room
    }

    /// Returns the argument of C_Initialize, or `NULL`.
    pub(crate) fn start<T>(&mut self) -> *mut T {
        if self.source.once_in(2) {
            return null_mut();
        }
        let flags = self.source.number();
        self.memory.put(Arguments { callbacks: [0; 4], flags, reserved: 0 }).cast()
    }
}

/// `CK_C_INITIALIZE_ARGS` without callbacks.
#[derive(Clone, Copy)]
#[repr(C)]
struct Arguments {
    callbacks: [usize; 4],
    flags: CK_FLAGS,
    reserved: usize,
}

/// Returns whether this is a return code of PKCS#11 that the arguments of a caller may cause.
/// `CKR_GENERAL_ERROR` is a finding: the module returns it after a panic, or in a state that it
/// does not expect.
pub(crate) fn is_known(rv: CK_RV) -> bool {
    rv != CKR_GENERAL_ERROR && ReturnCode(rv).name().is_some()
}
