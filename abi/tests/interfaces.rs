//! The interfaces of the module before `C_Initialize`: lists, versions, and what a function answers then.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

mod common;

use std::ffi::CStr;
use std::mem::{offset_of, size_of};
use std::ptr::null_mut;

use common::{entries, functions, interface, nothing};
use cryptoki_sys::*;
use jeton_pkcs11::{C_GetFunctionList, C_GetInterface, C_GetInterfaceList};

/// Version and number of functions of each interface, in the order of the list.
const EXPECTED: [((u8, u8), usize); 3] = [((3, 2), 104), ((3, 0), 92), ((2, 40), 68)];

/// What `C_GetInterface` finds: the version, or the error.
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
fn no_entry_of_a_list_is_null() {
    for ((major, minor), count) in EXPECTED {
        let interface = interface(major, minor);
        assert!(entries(interface, count).iter().all(|entry| *entry != 0), "{major}.{minor}");
    }
}

#[test]
fn the_structs_hold_a_version_and_the_functions() {
    let size = |count: usize| (count + 1) * size_of::<usize>();
    assert_eq!(size_of::<CK_FUNCTION_LIST>(), size(68));
    assert_eq!(size_of::<CK_FUNCTION_LIST_3_0>(), size(92));
    assert_eq!(size_of::<CK_FUNCTION_LIST_3_2>(), size(104));
    assert_eq!(offset_of!(CK_FUNCTION_LIST_3_2, C_Initialize), size_of::<usize>());
}

#[test]
fn the_lists_share_their_functions() {
    let newest = entries(interface(3, 2), 104);
    assert_eq!(entries(interface(3, 0), 92), &newest[..92]);
    assert_eq!(entries(interface(2, 40), 68), &newest[..68]);
    let mut distinct = newest.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    // A linker may fold functions that do the same, as the unsupported ones do, but not the two ends.
    assert_ne!(distinct.first(), distinct.last());
    assert_eq!(newest[3], C_GetFunctionList as *const () as usize);
    assert_eq!(newest[68], C_GetInterfaceList as *const () as usize);
    assert_eq!(newest[69], C_GetInterface as *const () as usize);
}

#[test]
fn the_function_list_is_that_of_2_40() {
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
fn an_interface_that_is_not_there_is_refused() {
    for version in [(3, 1), (3, 3), (2, 20), (2, 0), (0, 0)] {
        assert_eq!(find(Some(c"PKCS 11"), Some(version), 0), Err(CKR_ARGUMENTS_BAD), "{version:?}");
    }
    for name in [c"PKCS11", c"PKCS 11 ", c"pkcs 11", c""] {
        assert_eq!(find(Some(name), None, 0), Err(CKR_ARGUMENTS_BAD), "{name:?}");
    }
    assert_eq!(find(None, None, CKF_INTERFACE_FORK_SAFE), Err(CKR_ARGUMENTS_BAD));
    let rv = unsafe { C_GetInterface(null_mut(), null_mut(), null_mut(), 0) };
    assert_eq!(rv, CKR_ARGUMENTS_BAD);
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
    let mut arguments = CK_C_INITIALIZE_ARGS {
        CreateMutex: None,
        DestroyMutex: None,
        LockMutex: None,
        UnlockMutex: None,
        flags: CKF_OS_LOCKING_OK,
        pReserved: std::ptr::without_provenance_mut(1),
    };
    let initialize = functions.C_Initialize.expect("an entry");
    assert_eq!(unsafe { initialize((&raw mut arguments).cast()) }, CKR_ARGUMENTS_BAD);
    let finalize = functions.C_Finalize.expect("an entry");
    assert_eq!(unsafe { finalize(std::ptr::without_provenance_mut(1)) }, CKR_ARGUMENTS_BAD);
}

/// Calls each function with zeros and `NULL`s, as many as it takes.
macro_rules! answers {
    ($list:expr => $($name:ident($($argument:expr),*))*) => {
        vec![$((stringify!($name), unsafe { $list.$name.expect("an entry")($($argument),*) })),*]
    };
}

#[test]
fn before_initialize_every_function_says_so() {
    let list = functions();
    let answers = answers! { list =>
        C_Finalize(nothing())
        C_GetInfo(nothing())
        C_GetSlotList(0, nothing(), nothing())
        C_GetSlotInfo(0, nothing())
        C_GetTokenInfo(0, nothing())
        C_GetMechanismList(0, nothing(), nothing())
        C_GetMechanismInfo(0, 0, nothing())
        C_InitToken(0, nothing(), 0, nothing())
        C_InitPIN(0, nothing(), 0)
        C_SetPIN(0, nothing(), 0, nothing(), 0)
        C_OpenSession(0, 0, nothing(), None, nothing())
        C_CloseSession(0)
        C_CloseAllSessions(0)
        C_GetSessionInfo(0, nothing())
        C_GetOperationState(0, nothing(), nothing())
        C_SetOperationState(0, nothing(), 0, 0, 0)
        C_Login(0, 0, nothing(), 0)
        C_Logout(0)
        C_CreateObject(0, nothing(), 0, nothing())
        C_CopyObject(0, 0, nothing(), 0, nothing())
        C_DestroyObject(0, 0)
        C_GetObjectSize(0, 0, nothing())
        C_GetAttributeValue(0, 0, nothing(), 0)
        C_SetAttributeValue(0, 0, nothing(), 0)
        C_FindObjectsInit(0, nothing(), 0)
        C_FindObjects(0, nothing(), 0, nothing())
        C_FindObjectsFinal(0)
        C_EncryptInit(0, nothing(), 0)
        C_Encrypt(0, nothing(), 0, nothing(), nothing())
        C_EncryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_EncryptFinal(0, nothing(), nothing())
        C_DecryptInit(0, nothing(), 0)
        C_Decrypt(0, nothing(), 0, nothing(), nothing())
        C_DecryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_DecryptFinal(0, nothing(), nothing())
        C_DigestInit(0, nothing())
        C_Digest(0, nothing(), 0, nothing(), nothing())
        C_DigestUpdate(0, nothing(), 0)
        C_DigestKey(0, 0)
        C_DigestFinal(0, nothing(), nothing())
        C_SignInit(0, nothing(), 0)
        C_Sign(0, nothing(), 0, nothing(), nothing())
        C_SignUpdate(0, nothing(), 0)
        C_SignFinal(0, nothing(), nothing())
        C_SignRecoverInit(0, nothing(), 0)
        C_SignRecover(0, nothing(), 0, nothing(), nothing())
        C_VerifyInit(0, nothing(), 0)
        C_Verify(0, nothing(), 0, nothing(), 0)
        C_VerifyUpdate(0, nothing(), 0)
        C_VerifyFinal(0, nothing(), 0)
        C_VerifyRecoverInit(0, nothing(), 0)
        C_VerifyRecover(0, nothing(), 0, nothing(), nothing())
        C_DigestEncryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_DecryptDigestUpdate(0, nothing(), 0, nothing(), nothing())
        C_SignEncryptUpdate(0, nothing(), 0, nothing(), nothing())
        C_DecryptVerifyUpdate(0, nothing(), 0, nothing(), nothing())
        C_GenerateKey(0, nothing(), nothing(), 0, nothing())
        C_GenerateKeyPair(0, nothing(), nothing(), 0, nothing(), 0, nothing(), nothing())
        C_WrapKey(0, nothing(), 0, 0, nothing(), nothing())
        C_UnwrapKey(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing())
        C_DeriveKey(0, nothing(), 0, nothing(), 0, nothing())
        C_SeedRandom(0, nothing(), 0)
        C_GenerateRandom(0, nothing(), 0)
        C_GetFunctionStatus(0)
        C_CancelFunction(0)
        C_WaitForSlotEvent(0, nothing(), nothing())
        C_LoginUser(0, 0, nothing(), 0, nothing(), 0)
        C_SessionCancel(0, 0)
        C_MessageEncryptInit(0, nothing(), 0)
        C_EncryptMessage(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_EncryptMessageBegin(0, nothing(), 0, nothing(), 0)
        C_EncryptMessageNext(0, nothing(), 0, nothing(), 0, nothing(), nothing(), 0)
        C_MessageEncryptFinal(0)
        C_MessageDecryptInit(0, nothing(), 0)
        C_DecryptMessage(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_DecryptMessageBegin(0, nothing(), 0, nothing(), 0)
        C_DecryptMessageNext(0, nothing(), 0, nothing(), 0, nothing(), nothing(), 0)
        C_MessageDecryptFinal(0)
        C_MessageSignInit(0, nothing(), 0)
        C_SignMessage(0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_SignMessageBegin(0, nothing(), 0)
        C_SignMessageNext(0, nothing(), 0, nothing(), 0, nothing(), nothing())
        C_MessageSignFinal(0)
        C_MessageVerifyInit(0, nothing(), 0)
        C_VerifyMessage(0, nothing(), 0, nothing(), 0, nothing(), 0)
        C_VerifyMessageBegin(0, nothing(), 0)
        C_VerifyMessageNext(0, nothing(), 0, nothing(), 0, nothing(), 0)
        C_MessageVerifyFinal(0)
        C_EncapsulateKey(0, nothing(), 0, nothing(), 0, nothing(), nothing(), nothing())
        C_DecapsulateKey(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing())
        C_VerifySignatureInit(0, nothing(), 0, nothing(), 0)
        C_VerifySignature(0, nothing(), 0)
        C_VerifySignatureUpdate(0, nothing(), 0)
        C_VerifySignatureFinal(0)
        C_GetSessionValidationFlags(0, 0, nothing())
        C_AsyncComplete(0, nothing(), nothing())
        C_AsyncGetID(0, nothing(), nothing())
        C_AsyncJoin(0, nothing(), 0, nothing(), 0)
        C_WrapKeyAuthenticated(0, nothing(), 0, 0, nothing(), 0, nothing(), nothing())
        C_UnwrapKeyAuthenticated(0, nothing(), 0, nothing(), 0, nothing(), 0, nothing(), 0, nothing())
    };
    // All but C_Initialize and the three that may be called before it.
    assert_eq!(answers.len(), 100);
    for (name, answer) in answers {
        assert_eq!(answer, CKR_CRYPTOKI_NOT_INITIALIZED, "{name}");
    }
}
