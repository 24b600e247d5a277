//! The interfaces of the module before `C_Initialize`: lists, versions, and return codes.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

mod common;

use std::ffi::CStr;
use std::mem::size_of;
use std::ptr::null_mut;

use common::{entries, functions, interface};
use cryptoki_sys::*;
use jeton_pkcs11::{C_GetFunctionList, C_GetInterface, C_GetInterfaceList};

/// Version and number of functions of each interface, in the order of the list.
const EXPECTED: [((u8, u8), usize); 3] = [((3, 2), 104), ((3, 0), 92), ((2, 40), 68)];

/// Returns the version that `C_GetInterface` finds, or the error.
fn find(name: Option<&CStr>, version: Option<(u8, u8)>, flags: CK_FLAGS) -> Result<(u8, u8), CK_RV> {
    let name = name.map_or(null_mut(), |name| name.as_ptr().cast_mut().cast());
    let mut version = version.map(|(major, minor)| CK_VERSION { major, minor });
    let version = version.as_mut().map_or(null_mut(), std::ptr::from_mut);
    let mut found = null_mut();
    match unsafe { C_GetInterface(name, version, &raw mut found, flags) } {
        CKR_OK => Ok(version_of(unsafe { &*found })),
        error => Err(error),
    }
}

fn version_of(interface: &CK_INTERFACE) -> (u8, u8) {
    let version = unsafe { &*interface.pFunctionList.cast::<CK_VERSION>() };
    (version.major, version.minor)
}

#[test]
fn no_function_pointer_of_a_list_is_null() {
    for ((major, minor), count) in EXPECTED {
        let interface = interface(major, minor);
        assert!(entries(interface, count).iter().all(|entry| *entry != 0), "{major}.{minor}");
    }
}

#[test]
fn the_lists_begin_with_a_version_and_contain_the_functions() {
    let size = |count: usize| (count + 1) * size_of::<usize>();
    assert_eq!(size_of::<CK_FUNCTION_LIST>(), size(68));
    assert_eq!(size_of::<CK_FUNCTION_LIST_3_0>(), size(92));
    assert_eq!(size_of::<CK_FUNCTION_LIST_3_2>(), size(104));
    let list = interface(3, 2).pFunctionList.cast::<CK_FUNCTION_LIST_3_2>();
    let first = unsafe { &raw const (*list).C_Initialize };
    assert_eq!(first.addr() - list.addr(), size_of::<usize>());
}

#[test]
fn the_lists_contain_the_same_functions() {
    let newest = entries(interface(3, 2), 104);
    assert_eq!(entries(interface(3, 0), 92), &newest[..92]);
    assert_eq!(entries(interface(2, 40), 68), &newest[..68]);
    let mut distinct = newest.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    // A linker may merge functions with equal code, such as C_GetFunctionStatus and
    // C_CancelFunction. It does not merge all functions.
    assert_ne!(distinct.first(), distinct.last());
    assert_eq!(newest[3], C_GetFunctionList as *const () as usize);
    assert_eq!(newest[68], C_GetInterfaceList as *const () as usize);
    assert_eq!(newest[69], C_GetInterface as *const () as usize);
}

#[test]
fn get_function_list_returns_version_2_40() {
    let mut list = null_mut();
    assert_eq!(unsafe { C_GetFunctionList(&raw mut list) }, CKR_OK);
    assert_eq!(list.cast(), interface(2, 40).pFunctionList);
    assert_eq!(unsafe { C_GetFunctionList(null_mut()) }, CKR_ARGUMENTS_BAD);
}

#[test]
fn an_interface_is_found_by_name_version_and_flags() {
    assert_eq!(find(None, None, 0), Ok((3, 2)));
    for (version, _) in EXPECTED {
        assert_eq!(find(Some(c"PKCS 11"), Some(version), 0), Ok(version));
        assert_eq!(find(None, Some(version), 0), Ok(version));
    }
}

#[test]
fn an_unknown_interface_is_refused() {
    for version in [(3, 1), (3, 3), (2, 20), (2, 0), (0, 0)] {
        assert_eq!(find(Some(c"PKCS 11"), Some(version), 0), Err(CKR_ARGUMENTS_BAD), "{version:?}");
    }
    for name in [c"PKCS11", c"PKCS 11 ", c"pkcs 11", c""] {
        assert_eq!(find(Some(name), None, 0), Err(CKR_ARGUMENTS_BAD), "{name:?}");
    }
    assert_eq!(find(None, None, CKF_INTERFACE_FORK_SAFE), Err(CKR_ARGUMENTS_BAD));
    assert_eq!(unsafe { C_GetInterface(null_mut(), null_mut(), null_mut(), 0) }, CKR_ARGUMENTS_BAD);
}

#[test]
fn the_interfaces_are_listed_in_two_calls() {
    let mut count = 99;
    assert_eq!(unsafe { C_GetInterfaceList(null_mut(), &raw mut count) }, CKR_OK);
    assert_eq!(count, 3);

    let empty = CK_INTERFACE { pInterfaceName: null_mut(), pFunctionList: null_mut(), flags: 0 };
    let mut list = [empty; 3];
    count = 2;
    assert_eq!(unsafe { C_GetInterfaceList(list.as_mut_ptr(), &raw mut count) }, CKR_BUFFER_TOO_SMALL);
    assert_eq!(count, 3);
    assert!(list[0].pFunctionList.is_null());

    assert_eq!(unsafe { C_GetInterfaceList(list.as_mut_ptr(), &raw mut count) }, CKR_OK);
    assert_eq!(list.map(|interface| version_of(&interface)), EXPECTED.map(|(version, _)| version));
    for interface in list {
        assert_eq!(unsafe { CStr::from_ptr(interface.pInterfaceName.cast()) }, c"PKCS 11");
        assert_eq!(interface.flags, 0);
    }
    assert_eq!(unsafe { C_GetInterfaceList(list.as_mut_ptr(), null_mut()) }, CKR_ARGUMENTS_BAD);
}

#[test]
fn wrong_arguments_of_initialize_are_refused() {
    let functions = functions();
    let mut arguments = jeton_names::arguments(CKF_OS_LOCKING_OK, std::ptr::without_provenance_mut(1));
    let initialize = functions.C_Initialize.expect("an entry");
    assert_eq!(unsafe { initialize((&raw mut arguments).cast()) }, CKR_ARGUMENTS_BAD);
    let finalize = functions.C_Finalize.expect("an entry");
    assert_eq!(unsafe { finalize(std::ptr::without_provenance_mut(1)) }, CKR_ARGUMENTS_BAD);
}
