//! A client of the module's C interface, as an application has it: function lists, and nothing of Rust behind them.

#![allow(dead_code, unused_macros, reason = "each test binary uses its part")]
#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

use std::ptr::null_mut;

use cryptoki_sys::*;

/// Calls a function of the list.
macro_rules! rv {
    ($name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: the test passes what PKCS#11 asks for, or what it says is refused.
        unsafe { $crate::common::functions().$name.expect("an entry")($($argument),*) }
    };
}

/// Calls a function of the list, which succeeds.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(rv!($name($($argument),*)), CKR_OK, stringify!($name))
    };
}

/// The functions by the name and version of an interface.
pub fn interface(major: u8, minor: u8) -> &'static CK_INTERFACE {
    let mut version = CK_VERSION { major, minor };
    let mut found = null_mut();
    let name = c"PKCS 11".as_ptr().cast_mut().cast();
    // SAFETY: name and version are live, and `found` takes the address.
    let rv = unsafe { jeton_pkcs11::C_GetInterface(name, &raw mut version, &raw mut found, 0) };
    assert_eq!(rv, CKR_OK, "interface {major}.{minor}");
    // SAFETY: C_GetInterface gave the address of a constant.
    unsafe { &*found }
}

/// The functions of PKCS#11 3.2.
pub fn functions() -> &'static CK_FUNCTION_LIST_3_2 {
    // SAFETY: the list of an interface of version 3.2 has that type and is constant.
    unsafe { &*interface(3, 2).pFunctionList.cast() }
}

/// The entries of a function list, as addresses, in order.
pub fn entries(interface: &CK_INTERFACE, count: usize) -> &'static [usize] {
    let list = interface.pFunctionList.cast::<usize>();
    // SAFETY: a list is a version, padded to an address, and `count` addresses.
    unsafe { std::slice::from_raw_parts(list.add(1), count) }
}

/// An attribute of a template.
pub fn attribute<T: ?Sized>(type_: CK_ATTRIBUTE_TYPE, value: &T) -> CK_ATTRIBUTE {
    CK_ATTRIBUTE { type_, pValue: mutable(value).cast(), ulValueLen: size_of_val(value) as CK_ULONG }
}

/// An attribute to be filled.
pub fn room<T: ?Sized>(type_: CK_ATTRIBUTE_TYPE, value: &mut T) -> CK_ATTRIBUTE {
    let len = size_of_val(value) as CK_ULONG;
    CK_ATTRIBUTE { type_, pValue: std::ptr::from_mut(value).cast(), ulValueLen: len }
}

/// A mechanism without parameter.
pub fn mechanism(mechanism: CK_MECHANISM_TYPE) -> CK_MECHANISM {
    CK_MECHANISM { mechanism, pParameter: null_mut(), ulParameterLen: 0 }
}

/// A mechanism with a parameter, which lives as long as the mechanism is used.
pub fn mechanism_with<T: ?Sized>(mechanism: CK_MECHANISM_TYPE, parameter: &T) -> CK_MECHANISM {
    let ulParameterLen = size_of_val(parameter) as CK_ULONG;
    CK_MECHANISM { mechanism, pParameter: mutable(parameter).cast(), ulParameterLen }
}

/// `pulLen`-style two calls: asks for the length, then for the bytes.
pub fn two_calls(call: impl Fn(*mut CK_BYTE, *mut CK_ULONG) -> CK_RV) -> Vec<u8> {
    let mut len = 0;
    assert_eq!(call(null_mut(), &raw mut len), CKR_OK);
    let mut bytes = vec![0; len as usize];
    assert_eq!(call(bytes.as_mut_ptr(), &raw mut len), CKR_OK);
    bytes.truncate(len as usize);
    bytes
}

/// A pointer that C declares without `const`.
pub fn mutable<T: ?Sized>(value: &T) -> *mut T {
    std::ptr::from_ref(value).cast_mut()
}

/// `NULL`.
pub fn nothing<T>() -> *mut T {
    null_mut()
}
