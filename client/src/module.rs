//! A module: loading, the function lists, initialisation, slots, tokens, mechanisms.

use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cryptoki_sys::{
    CK_C_GetFunctionList, CK_C_GetInterface, CK_FLAGS, CK_FUNCTION_LIST, CK_FUNCTION_LIST_3_0,
    CK_FUNCTION_LIST_3_2, CK_INFO, CK_INTERFACE, CK_MECHANISM_INFO, CK_MECHANISM_TYPE, CK_SLOT_ID,
    CK_SLOT_INFO, CK_TOKEN_INFO, CK_ULONG, CK_VERSION, CKF_OS_LOCKING_OK, CKR_OK,
};
use libloading::Library;

use super::failure::{Failure, call, check, entry};

/// A loaded module. Clones share it. Dropping the last clone calls `C_Finalize` if a clone called
/// `C_Initialize` and no clone called `C_Finalize` after it.
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

impl Module {
    /// Loads the shared object at `path` and reads its function lists. Calls only
    /// `C_GetFunctionList` and `C_GetInterface`, which are allowed before `C_Initialize`.
    ///
    /// A loaded module is never unloaded, because modules register destructors for threads and for
    /// the process. After an unload these would run unmapped code.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref().to_owned();
        let refused = |source| LoadError::Refused { path: path.clone(), source };
        // SAFETY: the caller trusts the file at this path, and so its initialisers.
        let library = unsafe { Library::new(&path) }.map_err(refused)?;
        let list = function_list(&library).map_err(|error| match error {
            ListError::Symbol(source) => refused(source),
            ListError::Call(failure) => LoadError::Call(failure),
        })?;
        let list_3_0 = interface(&library, CK_VERSION { major: 3, minor: 0 }).map(ptr::NonNull::cast);
        let list_3_2 = interface(&library, CK_VERSION { major: 3, minor: 2 }).map(ptr::NonNull::cast);
        std::mem::forget(library);
        let initialised = AtomicBool::new(false);
        Ok(Self { inner: Arc::new(Inner { path, list, list_3_0, list_3_2, initialised }) })
    }

    /// `C_Initialize` with `CKF_OS_LOCKING_OK`, because several threads may call the module.
    /// `reserved` is the library-parameter string that NSS introduced, passed through `pReserved`.
    pub fn initialize(&self, reserved: Option<&str>) -> Result<(), Failure> {
        // A module reads the string up to the first NUL, so a cut at this NUL loses nothing.
        let text =
            reserved.map(|text| CString::new(text.split('\0').next().unwrap_or("")).unwrap_or_default());
        let reserved = text.as_ref().map_or(ptr::null(), |text| text.as_ptr()).cast_mut().cast();
        let mut arguments = jeton_names::arguments(CKF_OS_LOCKING_OK, reserved);
        let arguments = ptr::from_mut(&mut arguments).cast::<c_void>();
        // SAFETY: the arguments and the string live until the call returns; modules copy what they
        // keep.
        unsafe { call!(self, C_Initialize(arguments), "initialising the module") }?;
        self.inner.initialised.store(true, Ordering::Release);
        Ok(())
    }

    /// `C_Finalize`. Sessions that are still open end with it.
    pub fn finalize(&self) -> Result<(), Failure> {
        self.inner.initialised.store(false, Ordering::Release);
        self.inner.finalize()
    }

    /// `C_GetInfo`.
    pub fn info(&self) -> Result<LibraryInfo, Failure> {
        let mut info = CK_INFO::default();
        // SAFETY: `info` is a writable CK_INFO.
        unsafe { call!(self, C_GetInfo(&mut info), "asking for the module's description") }?;
        Ok(LibraryInfo {
            cryptoki: info.cryptokiVersion.into(),
            manufacturer: text(&info.manufacturerID),
            description: text(&info.libraryDescription),
            version: info.libraryVersion.into(),
        })
    }

    /// `C_GetSlotList`: all slots, or those with a token.
    pub fn slots(&self, with_token: bool) -> Result<Vec<SlotId>, Failure> {
        let get = entry("C_GetSlotList", self.functions().C_GetSlotList)?;
        let slots = two_calls("C_GetSlotList", "listing the slots", |pointer, count| {
            // SAFETY: `pointer` is NULL or has room for `count` slot ids.
            unsafe { get(with_token.into(), pointer, count) }
        })?;
        Ok(slots.into_iter().map(SlotId).collect())
    }

    /// `C_GetSlotInfo`.
    pub fn slot_info(&self, slot: SlotId) -> Result<SlotInfo, Failure> {
        let mut info = CK_SLOT_INFO::default();
        // SAFETY: `info` is a writable CK_SLOT_INFO.
        unsafe { call!(self, C_GetSlotInfo(slot.0, &mut info), "asking about a slot") }?;
        Ok(SlotInfo {
            description: text(&info.slotDescription),
            manufacturer: text(&info.manufacturerID),
            flags: info.flags,
            hardware: info.hardwareVersion.into(),
            firmware: info.firmwareVersion.into(),
        })
    }

    /// `C_GetTokenInfo`.
    pub fn token_info(&self, slot: SlotId) -> Result<TokenInfo, Failure> {
        let mut info = CK_TOKEN_INFO::default();
        // SAFETY: `info` is a writable CK_TOKEN_INFO.
        unsafe { call!(self, C_GetTokenInfo(slot.0, &mut info), "asking about a token") }?;
        Ok(TokenInfo {
            label: text(&info.label),
            manufacturer: text(&info.manufacturerID),
            model: text(&info.model),
            serial: text(&info.serialNumber),
            flags: info.flags,
            pin_lengths: info.ulMinPinLen..=info.ulMaxPinLen,
            hardware: info.hardwareVersion.into(),
            firmware: info.firmwareVersion.into(),
        })
    }

    /// `C_GetMechanismList`.
    pub fn mechanisms(&self, slot: SlotId) -> Result<Vec<CK_MECHANISM_TYPE>, Failure> {
        let get = entry("C_GetMechanismList", self.functions().C_GetMechanismList)?;
        two_calls("C_GetMechanismList", "listing the mechanisms", |pointer, count| {
            // SAFETY: `pointer` is NULL or has room for `count` mechanism types.
            unsafe { get(slot.0, pointer, count) }
        })
    }

    /// `C_GetMechanismInfo`.
    pub fn mechanism_info(&self, slot: SlotId, kind: CK_MECHANISM_TYPE) -> Result<MechanismInfo, Failure> {
        let mut info = CK_MECHANISM_INFO::default();
        // SAFETY: `info` is a writable CK_MECHANISM_INFO.
        unsafe { call!(self, C_GetMechanismInfo(slot.0, kind, &mut info), "asking about a mechanism") }?;
        Ok(MechanismInfo { key_sizes: (info.ulMinKeySize, info.ulMaxKeySize), flags: info.flags })
    }

    /// `C_InitToken`: erases the token in `slot` and initialises it. The label is cut to at most 32
    /// bytes, and padded with blanks.
    pub fn init_token(&self, slot: SlotId, so_pin: &str, label: &str) -> Result<(), Failure> {
        let mut padded = [b' '; 32];
        let length = label.floor_char_boundary(32);
        padded[..length].copy_from_slice(&label.as_bytes()[..length]);
        let (pin, length, label) =
            (so_pin.as_ptr().cast_mut(), so_pin.len() as CK_ULONG, padded.as_mut_ptr());
        // SAFETY: the module reads `so_pin.len()` bytes of the PIN and 32 bytes of the label.
        unsafe { call!(self, C_InitToken(slot.0, pin, length, label), "initialising a token") }
    }

    /// `C_CloseAllSessions`.
    pub fn close_all_sessions(&self, slot: SlotId) -> Result<(), Failure> {
        // SAFETY: the function takes only a slot id.
        unsafe { call!(self, C_CloseAllSessions(slot.0), "closing all sessions") }
    }

    /// Returns the path from which the module was loaded.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the list of `C_GetFunctionList`, for functions that this client does not wrap.
    pub fn functions(&self) -> &CK_FUNCTION_LIST {
        // SAFETY: the list lies in the library, which stays mapped, and a module does not change
        // it.
        unsafe { self.inner.list.as_ref() }
    }

    /// Returns the function list of PKCS#11 3.0, or `None` if the module lacks it.
    pub fn functions_3_0(&self) -> Option<&CK_FUNCTION_LIST_3_0> {
        // SAFETY: as `functions`; `interface` checked the version of the list.
        self.inner.list_3_0.map(|list| unsafe { list.as_ref() })
    }

    /// Returns the function list of PKCS#11 3.2, or `None` if the module lacks it.
    pub fn functions_3_2(&self) -> Option<&CK_FUNCTION_LIST_3_2> {
        // SAFETY: as `functions`; `interface` checked the version of the list.
        self.inner.list_3_2.map(|list| unsafe { list.as_ref() })
    }
}

struct Inner {
    path: PathBuf,
    list: ptr::NonNull<CK_FUNCTION_LIST>,
    list_3_0: Option<ptr::NonNull<CK_FUNCTION_LIST_3_0>>,
    list_3_2: Option<ptr::NonNull<CK_FUNCTION_LIST_3_2>>,
    initialised: AtomicBool,
}

// SAFETY: the lists are constant tables of a library that stays mapped, and `C_Initialize`
// announced calls from several threads with CKF_OS_LOCKING_OK.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Inner {
    fn finalize(&self) -> Result<(), Failure> {
        // SAFETY: as `Module::functions`.
        let finalize = entry("C_Finalize", unsafe { self.list.as_ref() }.C_Finalize)?;
        // SAFETY: the reserved argument must be NULL.
        check("C_Finalize", unsafe { finalize(ptr::null_mut()) }, "finalising the module")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.initialised.get_mut() {
            // No caller is left to report an error to. The process continues without the module.
            let _ = self.finalize();
        }
    }
}

/// A slot ID, `CK_SLOT_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub CK_SLOT_ID);

/// A version: the major and the minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u8, pub u8);

impl From<CK_VERSION> for Version {
    fn from(version: CK_VERSION) -> Self {
        Self(version.major, version.minor)
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// `CK_INFO`.
#[derive(Clone, Debug)]
pub struct LibraryInfo {
    /// The version of the interface.
    pub cryptoki: Version,
    /// The manufacturer of the module.
    pub manufacturer: String,
    /// The module's description of itself.
    pub description: String,
    /// The module's own version.
    pub version: Version,
}

/// `CK_SLOT_INFO`.
#[derive(Clone, Debug)]
pub struct SlotInfo {
    /// The module's description of the slot.
    pub description: String,
    /// The manufacturer.
    pub manufacturer: String,
    /// `CKF_TOKEN_PRESENT`, …
    pub flags: CK_FLAGS,
    /// The hardware version of the slot.
    pub hardware: Version,
    /// The firmware version of the slot.
    pub firmware: Version,
}

/// `CK_TOKEN_INFO`, without its session counts, memory sizes and time.
#[derive(Clone, Debug)]
pub struct TokenInfo {
    /// The label without its padding.
    pub label: String,
    /// The manufacturer.
    pub manufacturer: String,
    /// The model.
    pub model: String,
    /// The serial number without its padding.
    pub serial: String,
    /// `CKF_TOKEN_INITIALIZED`, …
    pub flags: CK_FLAGS,
    /// The shortest and the longest PIN, in bytes.
    pub pin_lengths: std::ops::RangeInclusive<CK_ULONG>,
    /// The hardware version of the token.
    pub hardware: Version,
    /// The firmware version of the token.
    pub firmware: Version,
}

impl TokenInfo {
    /// Returns whether the token is initialised.
    pub fn is_initialised(&self) -> bool {
        self.flags & cryptoki_sys::CKF_TOKEN_INITIALIZED != 0
    }
}

/// `CK_MECHANISM_INFO`.
#[derive(Clone, Copy, Debug)]
pub struct MechanismInfo {
    /// The smallest and the largest key size, in the mechanism's unit (bits or bytes).
    pub key_sizes: (CK_ULONG, CK_ULONG),
    /// `CKF_SIGN`, …
    pub flags: CK_FLAGS,
}

/// Why [`Module::load`] failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The dynamic loader refused the file, or the file lacks `C_GetFunctionList`.
    #[error("cannot load {}: {}", path.display(), reason(source))]
    Refused {
        /// The file.
        path: PathBuf,
        /// The loader's reason.
        source: libloading::Error,
    },
    /// `C_GetFunctionList` failed or returned NULL.
    #[error(transparent)]
    Call(#[from] Failure),
}

/// Returns the text of dlerror(3). `libloading` keeps it as the source of its own error.
fn reason(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

enum ListError {
    Symbol(libloading::Error),
    Call(Failure),
}

fn function_list(library: &Library) -> Result<ptr::NonNull<CK_FUNCTION_LIST>, ListError> {
    // SAFETY: the specification gives this symbol this type; an Option of a function pointer may be
    // NULL.
    let get: libloading::Symbol<'_, CK_C_GetFunctionList> =
        unsafe { library.get(c"C_GetFunctionList") }.map_err(ListError::Symbol)?;
    let get = entry("C_GetFunctionList", *get).map_err(ListError::Call)?;
    let mut list = ptr::null_mut();
    // SAFETY: `list` is a writable pointer.
    let code = unsafe { get(&mut list) };
    check("C_GetFunctionList", code, "asking for the function list").map_err(ListError::Call)?;
    ptr::NonNull::new(list).ok_or(ListError::Call(Failure {
        function: "C_GetFunctionList",
        code: cryptoki_sys::CKR_GENERAL_ERROR,
        doing: "asking for the function list, which is NULL".into(),
    }))
}

/// Returns the function list of the standard interface in `version`, or `None` if the module lacks
/// it.
fn interface(library: &Library, mut version: CK_VERSION) -> Option<ptr::NonNull<c_void>> {
    // SAFETY: the specification gives this symbol this type; an Option of a function pointer may be
    // NULL.
    let get: libloading::Symbol<'_, CK_C_GetInterface> = unsafe { library.get(c"C_GetInterface") }.ok()?;
    let get = (*get)?;
    let mut found: *mut CK_INTERFACE = ptr::null_mut();
    let name = c"PKCS 11".as_ptr().cast_mut().cast();
    // SAFETY: the name is a C string, `version` and `found` are writable.
    let code = unsafe { get(name, &mut version, &mut found, 0) };
    if code != CKR_OK || found.is_null() {
        return None;
    }
    // SAFETY: the module returned CKR_OK and a pointer to its interface, which stays valid.
    let list = ptr::NonNull::new(unsafe { (*found).pFunctionList })?;
    // SAFETY: every function list begins with its version.
    let listed = unsafe { *list.cast::<CK_VERSION>().as_ptr() };
    ((listed.major, listed.minor) == (version.major, version.minor)).then_some(list)
}

/// Reads a list by the two-call convention: first the count, then the items. Starts again if the
/// list grows in between.
fn two_calls(
    function: &'static str,
    doing: &'static str,
    call: impl Fn(*mut CK_ULONG, *mut CK_ULONG) -> cryptoki_sys::CK_RV,
) -> Result<Vec<CK_ULONG>, Failure> {
    loop {
        let mut count: CK_ULONG = 0;
        check(function, call(ptr::null_mut(), &mut count), doing)?;
        let mut items = vec![0; count as usize];
        match call(items.as_mut_ptr(), &mut count) {
            cryptoki_sys::CKR_BUFFER_TOO_SMALL => {}
            code => {
                check(function, code, doing)?;
                items.truncate(count as usize);
                return Ok(items);
            }
        }
    }
}

/// Reads a text field of a C structure without its padding of blanks or NULs.
fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_end_matches([' ', '\0']).to_owned()
}
