//! Calls the functions of sessions and slots as a C client does: NULL PINs, named users,
//! asynchronous sessions, slot events. It is one test, because all threads of a process share the
//! state of the library.

#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

#[macro_use]
mod common;

use std::time::Duration;

use common::{P256, PIN, arguments, attribute, list, make_token, mechanism, mutable, nothing};
use cryptoki_sys::*;

const PAIR: &std::ffi::CStr = c"C_GenerateKeyPair";

#[test]
fn users_asynchronous_sessions_and_slot_events() {
    let directory = std::env::temp_dir().join(format!("jeton-functions-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // This is the only test of the binary, so no other thread reads the environment.
    unsafe { common::use_tokens(&directory, "") };
    threads_may_be_forbidden();
    ok!(C_Initialize(nothing()));
    let slot = make_token(list());
    let session = open(slot, 0);
    a_null_pin_counts_no_failure(session, slot);
    named_users_are_refused(session);
    the_generation_of_a_pair_is_pending(slot);
    a_wait_for_a_slot_event_ends();
    std::fs::remove_dir_all(&directory).expect("the directory");
}

fn threads_may_be_forbidden() {
    let arguments = arguments(CKF_OS_LOCKING_OK | CKF_LIBRARY_CANT_CREATE_OS_THREADS, nothing());
    ok!(C_Initialize(mutable(&arguments).cast()));
    let slot = make_token(list());
    let mut session = 0;
    let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION | CKF_ASYNC_SESSION;
    let refused = rv!(C_OpenSession(slot, flags, nothing(), None, &raw mut session));
    assert_eq!(refused, CKR_SESSION_ASYNC_NOT_SUPPORTED);
    ok!(C_Finalize(nothing()));
}

fn open(slot: CK_SLOT_ID, more: CK_FLAGS) -> CK_SESSION_HANDLE {
    let (session, flags) = (common::open(list(), slot, more), CKF_SERIAL_SESSION | CKF_RW_SESSION | more);
    let mut info = CK_SESSION_INFO::default();
    ok!(C_GetSessionInfo(session, &raw mut info));
    assert_eq!(info.flags, flags);
    session
}

fn a_null_pin_counts_no_failure(session: CK_SESSION_HANDLE, slot: CK_SLOT_ID) {
    let (pin, len) = (mutable(PIN).cast(), PIN.len() as CK_ULONG);
    // Ten wrong PINs would lock the PIN.
    for _ in 0..12 {
        assert_eq!(rv!(C_Login(session, CKU_USER, nothing(), 0)), CKR_ARGUMENTS_BAD);
        assert_eq!(rv!(C_LoginUser(session, CKU_USER, nothing(), 0, nothing(), 0)), CKR_ARGUMENTS_BAD);
        assert_eq!(rv!(C_SetPIN(session, nothing(), 0, pin, len)), CKR_ARGUMENTS_BAD);
        assert_eq!(rv!(C_SetPIN(session, pin, len, nothing(), 0)), CKR_ARGUMENTS_BAD);
    }
    let mut info = CK_TOKEN_INFO::default();
    ok!(C_GetTokenInfo(slot, &raw mut info));
    let counts = CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_FINAL_TRY | CKF_USER_PIN_LOCKED;
    assert_eq!(info.flags & counts, 0);
}

fn named_users_are_refused(session: CK_SESSION_HANDLE) {
    let login = |user, name: *mut CK_UTF8CHAR, len| {
        rv!(C_LoginUser(session, user, mutable(PIN).cast(), PIN.len() as CK_ULONG, name, len))
    };
    assert_eq!(login(CKU_USER, mutable(b"somebody").cast(), 8), CKR_PIN_INCORRECT);
    assert_eq!(login(CKU_USER, nothing(), 8), CKR_ARGUMENTS_BAD);
    assert_eq!(login(17, nothing(), 0), CKR_USER_TYPE_INVALID);
    assert_eq!(login(CKU_CONTEXT_SPECIFIC, nothing(), 0), CKR_OPERATION_NOT_INITIALIZED);
    assert_eq!(login(CKU_USER, nothing(), 0), CKR_OK);
}

fn the_generation_of_a_pair_is_pending(slot: CK_SLOT_ID) {
    let session = open(slot, CKF_ASYNC_SESSION);
    let name = PAIR.as_ptr().cast_mut().cast();
    let mut with = mechanism(CKM_EC_KEY_PAIR_GEN);
    let public = [attribute(CKA_EC_PARAMS, P256)];
    let mut keys = [7; 2];
    let [one, other] = keys.each_mut().map(std::ptr::from_mut);
    let template = public.as_ptr().cast_mut();
    let mut generate =
        || rv!(C_GenerateKeyPair(session, &raw mut with, template, 1, nothing(), 0, one, other));
    assert_eq!(generate(), CKR_PENDING);
    assert_eq!(generate(), CKR_OPERATION_ACTIVE);
    let mut id = 0;
    ok!(C_AsyncGetID(session, name, &raw mut id));
    assert_eq!(rv!(C_AsyncGetID(session, name, nothing())), CKR_ARGUMENTS_BAD);
    assert_eq!(rv!(C_AsyncGetID(session, nothing(), &raw mut id)), CKR_ARGUMENTS_BAD);
    ok!(C_CloseSession(session));
    assert_eq!(keys, [7; 2], "only pResult has the result");

    let session = open(slot, CKF_ASYNC_SESSION);
    let mut done =
        CK_ASYNC_DATA { ulVersion: 0, pValue: nothing(), ulValue: 9, hObject: 9, hAdditionalObject: 9 };
    let mut complete = |name| rv!(C_AsyncComplete(session, name, &raw mut done));
    assert_eq!(complete(name), CKR_OPERATION_NOT_INITIALIZED);
    assert_eq!(complete(nothing()), CKR_ARGUMENTS_BAD);
    assert_eq!(complete(c"C_Sign".as_ptr().cast_mut().cast()), CKR_OPERATION_NOT_INITIALIZED);
    assert_eq!(rv!(C_AsyncJoin(session, name, id + 1, nothing(), 0)), CKR_SAVED_STATE_INVALID);
    assert_eq!(rv!(C_AsyncJoin(session, nothing(), id, nothing(), 0)), CKR_ARGUMENTS_BAD);
    ok!(C_AsyncJoin(session, name, id, nothing(), 0));
    assert_eq!(rv!(C_AsyncComplete(session, name, nothing())), CKR_ARGUMENTS_BAD);
    while complete(name) == CKR_PENDING {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((done.ulVersion, done.pValue.is_null(), done.ulValue), (0, true, 0));
    for (key, class) in [(done.hObject, CKO_PUBLIC_KEY), (done.hAdditionalObject, CKO_PRIVATE_KEY)] {
        let mut found: CK_OBJECT_CLASS = 0;
        let mut template = [common::room(CKA_CLASS, &mut found)];
        ok!(C_GetAttributeValue(session, key, template.as_mut_ptr(), 1));
        assert_eq!(found, class);
    }
    ok!(C_CloseSession(session));
}

fn a_wait_for_a_slot_event_ends() {
    let mut slot = 0;
    let mut wait = |flags, reserved| rv!(C_WaitForSlotEvent(flags, &raw mut slot, reserved));
    assert_eq!(wait(CKF_DONT_BLOCK, nothing()), CKR_NO_EVENT);
    assert_eq!(wait(CKF_DONT_BLOCK, std::ptr::without_provenance_mut(1)), CKR_ARGUMENTS_BAD);
    assert_eq!(rv!(C_WaitForSlotEvent(0, nothing(), nothing())), CKR_ARGUMENTS_BAD);
    let waiting = std::thread::spawn(|| {
        let mut slot = 0;
        rv!(C_WaitForSlotEvent(0, &raw mut slot, nothing()))
    });
    std::thread::sleep(Duration::from_millis(50));
    ok!(C_Finalize(nothing()));
    assert_eq!(waiting.join().expect("a thread"), CKR_CRYPTOKI_NOT_INITIALIZED);
}
