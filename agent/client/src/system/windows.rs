//! The process, its sockets and the C types of its programs on Windows: numbers of 32 bits, and
//! structs without padding. The messages have those of a 64-bit Linux.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::ptr::{null_mut, slice_from_raw_parts};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cryptoki_sys::*;
use jeton_agent_wire::Parameter;
use jeton_agent_wire::image::number as number_at;
use jeton_agent_wire::layout::{
    ATTRIBUTE_LEN, ATTRIBUTE_TYPE, Layout, Len, NUMBERS, Pointer, TEMPLATES, Target, Value,
};
use jeton_agent_wire::tls::Tls;
use jeton_names::Initialization;

/// The offset of `pValue` in `CK_ASYNC_DATA`.
pub const ASYNC_VALUE: usize = 4;
/// No length is an address: `CK_PKCS5_PBKD2_PARAMS` has another size than its successor here.
pub const END_OF_ADDRESSES: u64 = 0;
/// Numbers that stand for longer ones, such as object handles, in this process.
const STAND_INS: Range<u32> = 0x7e00_0000..0x7e40_0000;

/// The numbers that have stand-ins, and those by their stand-ins.
static KNOWN: Mutex<(BTreeMap<u64, u32>, Vec<u64>)> = Mutex::new((BTreeMap::new(), Vec::new()));

/// The configuration file: that of the user, or else that of the machine.
pub fn configuration() -> PathBuf {
    let file = |variable| {
        // Without the variable, it would be a file in the folder in which the program runs.
        let folder = std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute());
        folder.map(|folder| folder.join("jeton\\jeton.toml"))
    };
    let machine = || file("ProgramData").unwrap_or_else(|| "C:\\ProgramData\\jeton\\jeton.toml".into());
    file("APPDATA").filter(|path| path.is_file()).unwrap_or_else(machine)
}

/// Returns whether the program has rights that the user who starts it lacks: there are none such.
pub const fn is_privileged() -> bool {
    false
}

/// Processes do not fork. This library, which has the function, stays in the process: a program may
/// unload it while its threads are in calls.
pub fn at_fork(function: unsafe extern "C" fn()) {
    const STAYS: u32 = 1;
    const HAS_THIS_ADDRESS: u32 = 4;
    // SAFETY: an address of this library, and a place for its handle.
    unsafe { GetModuleHandleExW(STAYS | HAS_THIS_ADDRESS, function as *const c_void, &mut null_mut()) };
}

unsafe extern "system" {
    fn GetModuleHandleExW(flags: u32, address: *const c_void, module: &mut *mut c_void) -> i32;
}

/// Processes do not fork.
pub const fn close_all() {}

/// Processes do not fork.
pub struct Listed;

/// Fails: agents of this host have Unix sockets.
pub fn connect_unix(_: &Path, _: [Duration; 3]) -> io::Result<(Tls, Listed)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "Windows needs tls://HOST:PORT"))
}

/// Connects to an agent of another host. The limits are for the connection, to receive and to send.
pub fn connect_tcp(address: &SocketAddr, limits: [Duration; 3]) -> io::Result<(TcpStream, Listed)> {
    let stream = TcpStream::connect_timeout(address, limits[0])?;
    stream.set_nonblocking(true)?;
    stream.set_read_timeout(Some(limits[1]))?;
    stream.set_write_timeout(Some(limits[2]))?;
    Ok((stream, Listed))
}

/// Returns whether a number can be the code of a function: the application sees half of it.
pub const fn is_code(code: CK_RV) -> bool {
    code <= u32::MAX as u64
}

/// Bytes for the application.
pub type Written<'a> = Cow<'a, [u8]>;

/// What an argument keeps for the message.
pub type Kept = OnceCell<Vec<u8>>;

/// Reads the argument of `C_Initialize`.
///
/// # Safety
///
/// As for [`jeton_names::initialization`].
pub unsafe fn initialization<'a>(arguments: *const c_void) -> Result<Initialization<'a>, CK_RV> {
    if arguments.is_null() {
        return Ok(Initialization::default());
    }
    let mut given = CK_C_INITIALIZE_ARGS::default();
    // SAFETY: four pointers and a number are followed by a pointer. The caller promises the rest.
    unsafe {
        (&raw mut given).cast::<[u64; 4]>().write(arguments.cast::<[u64; 4]>().read_unaligned());
        given.flags = read(arguments.byte_add(4 * 8).cast());
        given.pReserved = arguments.byte_add(4 * 8 + 4).cast::<*mut c_void>().read_unaligned();
        jeton_names::initialization((&raw const given).cast())
    }
}

/// Returns a number that the application passed. The caller leaves the upper half undefined.
pub fn number(given: CK_ULONG) -> CK_ULONG {
    match given as u32 {
        // Such as `CK_UNAVAILABLE_INFORMATION`.
        u32::MAX => u64::MAX,
        short if STAND_INS.contains(&short) => {
            let known = &KNOWN.lock().unwrap_or_else(PoisonError::into_inner).1;
            known.get((short - STAND_INS.start) as usize).copied().unwrap_or(short.into())
        }
        short => short.into(),
    }
}

/// Returns a number for the application: 0, which is no handle, if there are too many long ones.
fn narrowed(number: u64) -> u32 {
    match u32::try_from(number) {
        _ if number == u64::MAX => u32::MAX,
        Ok(short) if short != u32::MAX && !STAND_INS.contains(&short) => short,
        _ => {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            let (short, long) = &mut *known;
            if short.len() == STAND_INS.len() && !short.contains_key(&number) {
                return 0;
            }
            *short.entry(number).or_insert_with(|| {
                long.push(number);
                STAND_INS.start + long.len() as u32 - 1
            })
        }
    }
}

/// Reads a number of the application.
///
/// # Safety
///
/// Readable.
pub unsafe fn read(from: *const CK_ULONG) -> CK_ULONG {
    // SAFETY: the caller's promise. A number has 32 bits.
    number(unsafe { from.cast::<u32>().read_unaligned() }.into())
}

/// Reads a number of the application that is no handle: no number stands for it.
///
/// # Safety
///
/// Readable.
unsafe fn read_value(from: *const CK_ULONG) -> CK_ULONG {
    // SAFETY: the caller's promise.
    match unsafe { from.cast::<u32>().read_unaligned() } {
        u32::MAX => u64::MAX,
        short => short.into(),
    }
}

/// Returns a number that is no handle for the application: the greatest one in place of a longer
/// one.
fn clamped(number: u64) -> u32 {
    if number == u64::MAX { u32::MAX } else { number.min(u64::from(u32::MAX) - 1) as u32 }
}

/// Returns numbers for the application.
pub fn numbers(written: &[u8]) -> Written<'_> {
    written.chunks_exact(8).flat_map(|long| narrowed(number_at(long, 0)).to_ne_bytes()).collect()
}

/// Reads a mechanism of the application.
///
/// # Safety
///
/// Readable.
pub unsafe fn mechanism(given: *const CK_MECHANISM) -> CK_MECHANISM {
    // SAFETY: a number, a pointer and a number by the caller's promise.
    let (mechanism, pointer, len) = unsafe {
        (read(given.cast()), given.byte_add(4).cast::<*mut c_void>(), read(given.byte_add(12).cast()))
    };
    // A one-time password would travel as a struct with pointers. No token has the other number.
    let mechanism = if mechanism == CKM_HOTP { u64::MAX } else { mechanism };
    // SAFETY: as above.
    CK_MECHANISM { mechanism, pParameter: unsafe { pointer.read_unaligned() }, ulParameterLen: len }
}

/// Returns the fields of a struct: the offset in messages, the offset in the application, and the
/// number of bytes there. A number has 4.
fn fields(layout: &Layout) -> impl Iterator<Item = (usize, usize, usize)> {
    let (mut at, mut native) = (0, 0);
    std::iter::from_fn(move || {
        let bytes = |at| match layout.values.iter().find(|(value, _)| *value == at) {
            Some((_, Value::Flag(_))) => Some(1),
            Some((_, Value::Bytes(len))) => Some(*len),
            _ => layout.pointers.iter().any(|pointer| pointer.at == at).then_some(8),
        };
        if bytes(at).is_none() {
            at = at.next_multiple_of(8);
        }
        let (wide, len) = bytes(at).map_or((8, 4), |len| (len, len));
        let field = (at, native, len);
        (at, native) = (at + wide, native + len);
        (at <= layout.size).then_some(field)
    })
}

/// Returns the number of bytes of a struct in the application.
fn size(layout: &Layout) -> usize {
    fields(layout).last().map_or(0, |(_, native, len)| native + len)
}

/// Returns the length in messages of a parameter that has this length in the application. No
/// function takes the greatest one.
pub fn parameter_len(parameter: Parameter, len: u64) -> u64 {
    let layouts = parameter.layouts();
    match layouts.iter().find(|layout| size(layout) as u64 == len) {
        Some(layout) => layout.size as u64,
        // Some mechanisms need no parameter.
        None if len == 0 || layouts.is_empty() => len,
        // An initialisation vector that has not the length of the struct in messages.
        None if parameter == Parameter::Gmac && len != layouts[0].size as u64 => len,
        None => u64::MAX,
    }
}

/// Returns a parameter without pointers.
///
/// # Safety
///
/// Readable.
pub unsafe fn plain(parameter: Parameter, from: *const u8, len: u64, kept: &Kept) -> &[u8] {
    match parameter.layouts().iter().find(|layout| layout.size as u64 == len) {
        Some(layout) => kept.get_or_init(|| {
            let mut wide = vec![0; layout.size];
            // SAFETY: the caller's promise.
            unsafe { copy(layout, from, &mut wide) };
            wide
        }),
        // SAFETY: the caller's promise.
        None => unsafe { &*slice_from_raw_parts(from, len as usize) },
    }
}

/// Copies structs of the application.
///
/// # Safety
///
/// Readable for as many structs as `to` has.
pub unsafe fn copy(layout: &Layout, first: *const u8, to: &mut [u8]) {
    let is_attribute = matches!(layout.pointers, [Pointer { target: Target::Value(_), .. }]);
    // A length that the agent chose is no longer than its number says.
    let read = if is_attribute { read_value } else { read };
    for (index, bytes) in to.chunks_exact_mut(layout.size).enumerate() {
        for (at, native, len) in fields(layout) {
            // SAFETY: inside the structs by the caller's promise.
            let from = unsafe { first.add(index * size(layout) + native) };
            if len == 4 {
                // SAFETY: as above.
                bytes[at..at + 8].copy_from_slice(&unsafe { read(from.cast()) }.to_ne_bytes());
            } else {
                // SAFETY: as above.
                bytes[at..at + len].copy_from_slice(unsafe { &*slice_from_raw_parts(from, len) });
            }
        }
        if is_attribute {
            let (kind, len) = (number_at(bytes, ATTRIBUTE_TYPE), number_at(bytes, ATTRIBUTE_LEN));
            let len = scaled(kind, len, [16, 24], [4, 8]);
            bytes[ATTRIBUTE_LEN..ATTRIBUTE_LEN + 8].copy_from_slice(&len.to_ne_bytes());
        }
    }
}

/// Translates the length of an attribute's value: from the first size of an attribute and of a
/// number to the second one. A length that is wrong stays wrong.
fn scaled(kind: u64, len: u64, attribute: [u64; 2], number: [u64; 2]) -> u64 {
    let [from, to] = match kind {
        _ if len == u64::MAX => return len,
        kind if NUMBERS.contains(&kind) => number,
        kind if TEMPLATES.contains(&kind) => attribute,
        _ => return len,
    };
    (len / from).saturating_mul(to) + len % from
}

/// Returns the address of a field in one of the application's structs.
///
/// # Safety
///
/// `first` points to more than `index` structs.
pub unsafe fn field(layout: &Layout, first: *mut u8, index: usize, at: usize) -> *mut u8 {
    let native = fields(layout).find(|field| field.0 == at).map_or(0, |field| field.1);
    // SAFETY: inside the structs by the caller's promise.
    unsafe { first.add(index * size(layout) + native) }
}

fn are_numbers(pointer: &Pointer, kind: u64) -> bool {
    match &pointer.target {
        Target::Value(_) => NUMBERS.contains(&kind),
        Target::Bytes { len: Len::Fixed(8), .. } => true,
        _ => false,
    }
}

/// Returns the bytes behind a pointer of a struct: `len` of them in messages.
///
/// # Safety
///
/// Readable.
pub unsafe fn bytes<'a>(
    pointer: &Pointer,
    owner: &[u8],
    from: *const u8,
    len: u64,
    kept: &'a mut Vec<u8>,
) -> &'a [u8] {
    if !are_numbers(pointer, number_at(owner, ATTRIBUTE_TYPE)) {
        // SAFETY: the caller's promise.
        return unsafe { &*slice_from_raw_parts(from, len as usize) };
    }
    let read = if matches!(pointer.target, Target::Value(_)) { read_value } else { read };
    for index in 0..len as usize / 8 {
        // SAFETY: the caller's promise.
        kept.extend(unsafe { read(from.add(index * 4).cast()) }.to_ne_bytes());
    }
    // A length that is no number's: every function refuses it.
    kept.resize(len as usize, 0);
    kept
}

/// Returns the bytes that a function wrote behind a pointer. An attribute had the first type and
/// has the second one. `None` if the application has less room.
pub fn value<'a>(
    pointer: &Pointer,
    [old, kind]: [u64; 2],
    room: u64,
    written: &'a [u8],
) -> Option<Written<'a>> {
    let of_attribute = matches!(pointer.target, Target::Value(_));
    let values = || written.chunks_exact(8).flat_map(|long| clamped(number_at(long, 0)).to_ne_bytes());
    let bytes = match are_numbers(pointer, kind) {
        true if of_attribute => values().collect(),
        true => numbers(written),
        false => written.into(),
    };
    let room = if of_attribute { value_len(old, room) } else { room };
    (bytes.len() as u64 <= room).then_some(bytes)
}

/// Returns the length that an attribute's value has in the application.
pub fn value_len(kind: u64, len: u64) -> u64 {
    scaled(kind, len, [24, 16], [8, 4])
}

/// Returns the length of an attribute's value for the application.
pub fn length(kind: u64, written: &[u8]) -> Written<'_> {
    clamped(value_len(kind, number_at(written, 0))).to_ne_bytes().to_vec().into()
}

/// Returns the parts of a value that a function wrote, and their places.
pub fn parts<'a>(
    place: *mut u8,
    value: &'a [u8],
    fields: &'static [(usize, usize)],
) -> impl Iterator<Item = (*mut u8, Written<'a>)> {
    let (mut end, mut native) = (0, 0);
    fields.iter().map(move |(at, len)| {
        // What has no field is padding, or a pointer.
        native += if at - end < 8 { 0 } else { 8 };
        let bytes = &value[*at..at + len];
        let part = if *len == 8 { numbers(bytes) } else { bytes.into() };
        let to = place.wrapping_add(native);
        (end, native) = (at + len, native + part.len());
        (to, part)
    })
}
