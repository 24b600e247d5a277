//! Keys in the vector registers: none remains when a call returns.
//!
//! A function in assembly calls the function of PKCS#11 and stores the registers directly after it,
//! before any compiled code runs.

#![cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11")]

mod common;

use std::arch::naked_asm;
use std::ffi::c_void;
use std::panic::Location;
use std::path::Path;
use std::sync::Mutex;

use common::{P256, PIN, attribute, functions, mechanism, mechanism_with, mutable, nothing};
use cryptoki_sys::*;

/// The value of every key.
static KEY: [u8; 32] = [
    0x51, 0x9b, 0x3e, 0xc7, 0x0d, 0xf2, 0x68, 0xa4, 0x1f, 0x83, 0xd9, 0x26, 0xbe, 0x47, 0x70, 0xec, 0x95,
    0x3a, 0xcd, 0x12, 0x6b, 0xe8, 0x04, 0x7f, 0xb1, 0x5c, 0xa9, 0x36, 0xd0, 0x8e, 0x23, 0xf7,
];

/// The stored registers: 32 of up to 64 bytes.
#[repr(C, align(64))]
struct Registers([[u8; 64]; 32]);

/// The most arguments that a function of PKCS#11 has.
const ARGUMENTS: usize = 10;
type Arguments = [usize; ARGUMENTS];
type Store = unsafe extern "C" fn(*mut Registers);

/// Calls a function and then `store`. No instruction in between changes a vector register.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn call(function: usize, arguments: &Arguments, store: Store, to: *mut Registers) -> CK_RV {
    naked_asm!(
        "push rbx",
        "push r12",
        "push r13",
        "mov rbx, rdx",
        "mov r12, rcx",
        "mov r10, rsi",
        "mov r11, rdi",
        "push qword ptr [r10 + 72]",
        "push qword ptr [r10 + 64]",
        "push qword ptr [r10 + 56]",
        "push qword ptr [r10 + 48]",
        "mov rdi, [r10]",
        "mov rsi, [r10 + 8]",
        "mov rdx, [r10 + 16]",
        "mov rcx, [r10 + 24]",
        "mov r8, [r10 + 32]",
        "mov r9, [r10 + 40]",
        "call r11",
        "add rsp, 32",
        "mov rdi, r12",
        "call rbx",
        "pop r13",
        "pop r12",
        "pop rbx",
        "ret",
    )
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn store_sse(to: *mut Registers) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        r"movups [rdi + 64 * \i], xmm\i",
        ".endr",
        "ret",
    )
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn store_avx(to: *mut Registers) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        r"vmovups [rdi + 64 * \i], ymm\i",
        ".endr",
        "ret",
    )
}

#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn store_avx_512(to: *mut Registers) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        r"vmovups [rdi + 64 * \i], zmm\i",
        ".endr",
        ".irp i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        r"vmovups [rdi + 64 * \i], zmm\i",
        ".endr",
        "ret",
    )
}

/// Returns the function that stores all vector registers of this processor.
#[cfg(target_arch = "x86_64")]
fn store() -> Store {
    if is_x86_feature_detected!("avx512f") {
        store_avx_512
    } else if is_x86_feature_detected!("avx") {
        store_avx
    } else {
        store_sse
    }
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn call(function: usize, arguments: &Arguments, store: Store, to: *mut Registers) -> CK_RV {
    naked_asm!(
        "stp x29, x30, [sp, #-48]!",
        "stp x19, x20, [sp, #16]",
        "str x21, [sp, #32]",
        "mov x29, sp",
        "mov x9, x0",
        "mov x10, x1",
        "mov x19, x2",
        "mov x20, x3",
        "ldp x11, x12, [x10, #64]",
        "stp x11, x12, [sp, #-16]!",
        "ldp x6, x7, [x10, #48]",
        "ldp x4, x5, [x10, #32]",
        "ldp x2, x3, [x10, #16]",
        "ldp x0, x1, [x10]",
        "blr x9",
        "add sp, sp, #16",
        "mov x21, x0",
        "mov x0, x20",
        "blr x19",
        "mov x0, x21",
        "ldr x21, [sp, #32]",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #48",
        "ret",
    )
}

#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn store_neon(to: *mut Registers) {
    naked_asm!(
        ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        r"str q\i, [x0, #64 * \i]",
        ".endr",
        ".irp i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
        r"str q\i, [x0, #64 * \i]",
        ".endr",
        "ret",
    )
}

#[cfg(target_arch = "aarch64")]
fn store() -> Store {
    store_neon
}

/// Calls a function of PKCS#11, which must succeed, and checks the registers.
macro_rules! clean {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let mut arguments = [0; ARGUMENTS];
        let given = [$($argument as usize),*];
        arguments[..given.len()].copy_from_slice(&given);
        check(stringify!($name), functions().$name.expect("an entry") as usize, &arguments);
    }};
}

/// The registers that calls left with data.
static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[track_caller]
fn check(name: &str, function: usize, arguments: &Arguments) {
    let mut registers = Registers([[0; 64]; 32]);
    assert_eq!(unsafe { call(function, arguments, store(), &raw mut registers) }, CKR_OK, "{name}");
    let line = Location::caller().line();
    for (number, register) in registers.0.iter_mut().enumerate() {
        // On AArch64 the lower halves of v8 to v15 belong to the caller.
        if cfg!(target_arch = "aarch64") && (8..16).contains(&number) {
            register[..8].fill(0);
        }
        let has_key = register.windows(8).any(|part| KEY.windows(8).any(|window| window == part));
        if *register != [0; 64] {
            let what = if has_key { "a part of the key" } else { "data" };
            LEFT.lock().expect("a test").push(format!("{name}, line {line}: {what} in register {number}"));
        }
    }
}

/// The test itself sees what a function leaves in the registers.
#[test]
fn the_test_sees_the_registers() {
    let mut registers = Registers([[0; 64]; 32]);
    let mut arguments = [0; ARGUMENTS];
    arguments[0] = (&raw const KEY) as usize;
    unsafe { call(load as *const () as usize, &arguments, store(), &raw mut registers) };
    assert_eq!(registers.0[3][..16], KEY[..16]);
}

#[unsafe(naked)]
unsafe extern "C" fn load(from: *const [u8; 32]) {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("movups xmm3, [rdi]", "ret");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("ldr q3, [x0]", "ret");
}

#[test]
fn no_call_leaves_data_in_the_vector_registers() {
    for backend in ["aws-lc", "rustcrypto"] {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("jeton-registers-{backend}"));
        // The token of an earlier run, if any.
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).expect("a directory");
        let configuration = format!("backend = '{backend}'\n[pin]\nmemory-kib = 8\npasses = 1\n");
        // SAFETY: the other test of the binary does not use the environment.
        unsafe { common::use_tokens(&directory, &configuration) };
        use_each_operation();
        let left = std::mem::take(&mut *LEFT.lock().expect("a test"));
        assert!(left.is_empty(), "backend {backend}:\n{}", left.join("\n"));
    }
}

fn use_each_operation() {
    clean!(C_Initialize(nothing::<c_void>()));
    let (pin, pin_len) = (mutable(PIN).cast::<u8>(), PIN.len());
    let slot = first_slot();
    clean!(C_InitToken(slot, pin, pin_len, mutable(&[b' '; 32])));
    let (slot, mut session) = (first_slot(), 0 as CK_SESSION_HANDLE);
    let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
    clean!(C_OpenSession(slot, flags, nothing::<c_void>(), 0, &raw mut session));
    clean!(C_Login(session, CKU_SO, pin, pin_len));
    clean!(C_InitPIN(session, pin, pin_len));
    clean!(C_Logout(session));
    clean!(C_Login(session, CKU_USER, pin, pin_len));

    let aes = created(session, CKO_SECRET_KEY, CKK_AES, CK_TRUE);
    let counter = CK_AES_CTR_PARAMS { ulCounterBits: 64, cb: [7; 16] };
    let gcm = CK_GCM_PARAMS {
        pIv: mutable(&[7u8; 12]).cast(),
        ulIvLen: 12,
        ulIvBits: 96,
        pAAD: nothing(),
        ulAADLen: 0,
        ulTagBits: 128,
    };
    for mut with in [
        mechanism(CKM_AES_ECB),
        mechanism_with(CKM_AES_CBC_PAD, &[7u8; 16]),
        mechanism_with(CKM_AES_CTR, &counter),
        mechanism_with(CKM_AES_GCM, &gcm),
        mechanism_with(CKM_AES_CFB128, &[7u8; 16]),
    ] {
        crypt(session, &mut with, aes);
    }
    let chacha = created(session, CKO_SECRET_KEY, CKK_CHACHA20, CK_TRUE);
    let poly = CK_SALSA20_CHACHA20_POLY1305_PARAMS {
        pNonce: mutable(&[7u8; 12]).cast(),
        ulNonceLen: 12,
        pAAD: nothing(),
        ulAADLen: 0,
    };
    crypt(session, &mut mechanism_with(CKM_CHACHA20_POLY1305, &poly), chacha);
    let generic = created(session, CKO_SECRET_KEY, CKK_GENERIC_SECRET, CK_TRUE);
    sign(session, &mut mechanism(CKM_AES_CMAC), aes);
    sign(session, &mut mechanism(CKM_SHA256_HMAC), generic);
    sign(session, &mut mechanism(CKM_ECDSA_SHA256), created(session, CKO_PRIVATE_KEY, CKK_EC, CK_FALSE));
    digest_key(session, generic);
    wrap(session, aes, generic);
    derive(session, generic);
    let mut value = [0u8; 32];
    let mut read = [attribute(CKA_VALUE, &value)];
    read[0].pValue = (&raw mut value).cast();
    clean!(C_GetAttributeValue(session, aes, read.as_mut_ptr(), 1));
    assert_eq!(value, KEY);
    clean!(C_DestroyObject(session, aes));
    clean!(C_Logout(session));
    clean!(C_Finalize(nothing::<c_void>()));
}

fn first_slot() -> CK_SLOT_ID {
    let (mut slots, mut count) = ([0; 4], 4 as CK_ULONG);
    clean!(C_GetSlotList(CK_TRUE, slots.as_mut_ptr(), &raw mut count));
    slots[0]
}

/// Creates a key with every usage that this test needs.
fn created(
    session: CK_SESSION_HANDLE,
    class: CK_OBJECT_CLASS,
    key_type: CK_KEY_TYPE,
    secret: CK_BBOOL,
) -> CK_OBJECT_HANDLE {
    let mut template = vec![
        attribute(CKA_CLASS, &class),
        attribute(CKA_KEY_TYPE, &key_type),
        attribute(CKA_VALUE, &KEY),
        attribute(CKA_EXTRACTABLE, &CK_TRUE),
        attribute(CKA_SENSITIVE, &CK_FALSE),
        attribute(CKA_SIGN, &CK_TRUE),
    ];
    if secret == CK_TRUE {
        let usages = [CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP, CKA_DERIVE];
        template.extend(usages.map(|usage| attribute(usage, &CK_TRUE)));
    } else {
        template.push(attribute(CKA_EC_PARAMS, P256));
    }
    let mut key = 0 as CK_OBJECT_HANDLE;
    clean!(C_CreateObject(session, template.as_mut_ptr(), template.len(), &raw mut key));
    key
}

fn crypt(session: CK_SESSION_HANDLE, with: &mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
    let (data, mut sealed, mut opened) = ([9u8; 64], [0u8; 128], [0u8; 128]);
    let with = std::ptr::from_mut(with);
    let mut len = 128 as CK_ULONG;
    clean!(C_EncryptInit(session, with, key));
    clean!(C_Encrypt(session, data.as_ptr(), 64, sealed.as_mut_ptr(), &raw mut len));
    let (sealed_len, mut len) = (len, 128 as CK_ULONG);
    clean!(C_DecryptInit(session, with, key));
    clean!(C_Decrypt(session, sealed.as_ptr(), sealed_len, opened.as_mut_ptr(), &raw mut len));
    assert_eq!(opened[..64], data);
}

fn sign(session: CK_SESSION_HANDLE, with: &mut CK_MECHANISM, key: CK_OBJECT_HANDLE) {
    let (data, mut out, mut len) = ([9u8; 64], [0u8; 128], 128 as CK_ULONG);
    clean!(C_SignInit(session, std::ptr::from_mut(with), key));
    clean!(C_Sign(session, data.as_ptr(), 64, out.as_mut_ptr(), &raw mut len));
}

fn digest_key(session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) {
    let (mut with, mut out, mut len) = (mechanism(CKM_SHA256), [0u8; 32], 32 as CK_ULONG);
    clean!(C_DigestInit(session, &raw mut with));
    clean!(C_DigestKey(session, key));
    clean!(C_DigestFinal(session, out.as_mut_ptr(), &raw mut len));
}

fn wrap(session: CK_SESSION_HANDLE, by: CK_OBJECT_HANDLE, key: CK_OBJECT_HANDLE) {
    let (mut with, mut out, mut len) = (mechanism(CKM_AES_KEY_WRAP), [0u8; 64], 64 as CK_ULONG);
    clean!(C_WrapKey(session, &raw mut with, by, key, out.as_mut_ptr(), &raw mut len));
    let mut template = [attribute(CKA_CLASS, &CKO_SECRET_KEY), attribute(CKA_KEY_TYPE, &CKK_GENERIC_SECRET)];
    let (place, mut unwrapped) = (template.as_mut_ptr(), 0 as CK_OBJECT_HANDLE);
    clean!(C_UnwrapKey(session, &raw mut with, by, out.as_ptr(), len, place, 2, &raw mut unwrapped));
}

fn derive(session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) {
    let mut template = [attribute(CKA_CLASS, &CKO_SECRET_KEY), attribute(CKA_KEY_TYPE, &CKK_GENERIC_SECRET)];
    let (mut with, mut derived) = (mechanism(CKM_SHA256_KEY_DERIVATION), 0 as CK_OBJECT_HANDLE);
    clean!(C_DeriveKey(session, &raw mut with, key, template.as_mut_ptr(), 2, &raw mut derived));
}
