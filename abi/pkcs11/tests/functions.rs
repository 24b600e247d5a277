//! Calls the functions of sessions and slots as a C client does: NULL PINs, named users,
//! asynchronous sessions, slot events. It is one test, because all threads of a process share the
//! state of the library.

#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

#[macro_use]
mod common;

use std::time::Duration;

use common::{P256, PIN, attribute, list, make_token, mechanism, mutable, nothing};
use cryptoki_sys::*;

const PAIR: &std::ffi::CStr = c"C_GenerateKeyPair";

#[test]
fn users_asynchronous_sessions_and_slot_events() {
    let directory = std::env::temp_dir().join(format!("jeton-functions-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // This is the only test of the binary, so no other thread reads the environment.
    unsafe { common::use_tokens(&directory, "lanes = true") };
    threads_may_be_forbidden();
    ok!(C_Initialize(nothing()));
    let slot = make_token(list());
    let session = open(slot, 0);
    a_null_pin_counts_no_failure(session, slot);
    named_users_are_refused(session);
    the_generation_of_a_pair_is_pending(slot);
    signatures_are_pending(session, slot);
    a_wait_for_a_slot_event_ends();
    std::fs::remove_dir_all(&directory).expect("the directory");
}

fn threads_may_be_forbidden() {
    let arguments = jeton_names::arguments(CKF_OS_LOCKING_OK | CKF_LIBRARY_CANT_CREATE_OS_THREADS, nothing());
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
    let mut ignored = [7];
    ok!(C_AsyncJoin(session, name, id, ignored.as_mut_ptr(), 1));
    assert_eq!(rv!(C_AsyncComplete(session, name, nothing())), CKR_ARGUMENTS_BAD);
    while complete(name) == CKR_PENDING {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((done.ulVersion, done.pValue.is_null(), done.ulValue), (0, true, 0));
    assert_eq!(ignored, [7]);
    for (key, class) in [(done.hObject, CKO_PUBLIC_KEY), (done.hAdditionalObject, CKO_PRIVATE_KEY)] {
        let mut found: CK_OBJECT_CLASS = 0;
        let mut template = [common::room(CKA_CLASS, &mut found)];
        ok!(C_GetAttributeValue(session, key, template.as_mut_ptr(), 1));
        assert_eq!(found, class);
    }
    ok!(C_CloseSession(session));
}

/// Calls `C_AsyncComplete` until it no longer returns `CKR_PENDING`.
fn complete(session: CK_SESSION_HANDLE, name: &std::ffi::CStr) -> (CK_RV, CK_ASYNC_DATA) {
    let mut done =
        CK_ASYNC_DATA { ulVersion: 0, pValue: nothing(), ulValue: 0, hObject: 9, hAdditionalObject: 9 };
    loop {
        let code = rv!(C_AsyncComplete(session, name.as_ptr().cast_mut().cast(), &raw mut done));
        if code != CKR_PENDING {
            return (code, done);
        }
        std::thread::yield_now();
    }
}

/// A session that signs, with its buffer.
struct Signing(CK_SESSION_HANDLE, Vec<u8>);

impl Signing {
    const NAME: &std::ffi::CStr = c"C_Sign";

    fn open(slot: CK_SLOT_ID) -> Self {
        Self(open(slot, CKF_ASYNC_SESSION), vec![0; 256])
    }

    fn init(&self, key: CK_OBJECT_HANDLE) -> CK_RV {
        let mut with = mechanism(CKM_SHA256_RSA_PKCS);
        rv!(C_SignInit(self.0, &raw mut with, key))
    }

    fn sign(&mut self, mut len: CK_ULONG) -> CK_RV {
        let data = mutable(b"data").cast();
        rv!(C_Sign(self.0, data, 4, self.1.as_mut_ptr(), &raw mut len))
    }

    fn begin(&mut self, key: CK_OBJECT_HANDLE) {
        assert_eq!((self.init(key), self.sign(256)), (CKR_OK, CKR_PENDING));
    }

    fn end(&self) -> CK_RV {
        let (code, done) = complete(self.0, Self::NAME);
        let len = if code == CKR_OK { 256 } else { 0 };
        let is_buffer = std::ptr::eq(done.pValue, self.1.as_ptr());
        assert_eq!((is_buffer, done.ulValue), (code != CKR_OPERATION_NOT_INITIALIZED, len));
        code
    }

    /// Calls C_SignEncryptUpdate, which does not encrypt a part that cannot be signed.
    fn encrypt_nothing(&self, key: CK_OBJECT_HANDLE) -> CK_RV {
        let (mut with, mut out, mut len) = (mechanism(CKM_AES_ECB), [0; 16], 16);
        ok!(C_EncryptInit(self.0, &raw mut with, key));
        let data = mutable(&[7_u8; 16]).cast();
        let code = rv!(C_SignEncryptUpdate(self.0, data, 16, out.as_mut_ptr(), &raw mut len));
        ok!(C_EncryptInit(self.0, nothing(), 0));
        assert_eq!(out, [0; 16]);
        code
    }

    fn verify(&self, public: CK_OBJECT_HANDLE) {
        let mut with = mechanism(CKM_SHA256_RSA_PKCS);
        ok!(C_VerifyInit(self.0, &raw mut with, public));
        ok!(C_Verify(self.0, mutable(b"data").cast(), 4, mutable(&self.1[..]).cast(), 256));
    }
}

fn rsa_pair(session: CK_SESSION_HANDLE, always: CK_BBOOL) -> (CK_OBJECT_HANDLE, CK_OBJECT_HANDLE) {
    let public = [attribute(CKA_MODULUS_BITS, &(2048 as CK_ULONG))];
    let private = [attribute(CKA_ALWAYS_AUTHENTICATE, &always), attribute(CKA_TOKEN, &CK_TRUE)];
    common::generate_pair(list(), session, CKM_RSA_PKCS_KEY_PAIR_GEN, &public, &private)
}

fn aes_key(session: CK_SESSION_HANDLE) -> CK_OBJECT_HANDLE {
    let (mut with, mut key) = (mechanism(CKM_AES_KEY_GEN), 0);
    let mut template = [attribute(CKA_VALUE_LEN, &(16 as CK_ULONG))];
    ok!(C_GenerateKey(session, &raw mut with, template.as_mut_ptr(), 1, &raw mut key));
    key
}

fn signatures_are_pending(session: CK_SESSION_HANDLE, slot: CK_SLOT_ID) {
    let (public, key) = rsa_pair(session, CK_FALSE);
    let mut all: Vec<_> = (0..11).map(|_| Signing::open(slot)).collect();
    assert_eq!(all[0].init(key), CKR_OK);
    let mut len = 0;
    ok!(C_Sign(all[0].0, mutable(b"data").cast(), 4, nothing(), &raw mut len));
    assert_eq!((len, all[0].sign(255)), (256, CKR_BUFFER_TOO_SMALL));
    if all[0].sign(256) == CKR_OK {
        println!("this processor has no lanes");
        return all[0].verify(public);
    }
    assert_eq!((all[0].init(key), all[0].sign(256)), (CKR_OPERATION_ACTIVE, CKR_OPERATION_ACTIVE));
    let (mut id, name) = (0, Signing::NAME.as_ptr().cast_mut().cast());
    assert_eq!(rv!(C_AsyncGetID(all[0].0, name, &raw mut id)), CKR_STATE_UNSAVEABLE);
    assert_eq!(rv!(C_AsyncJoin(all[0].0, name, 1, nothing(), 0)), CKR_SAVED_STATE_INVALID);
    assert_eq!(rv!(C_GetOperationState(all[0].0, nothing(), &raw mut len)), CKR_STATE_UNSAVEABLE);
    assert_eq!(complete(all[0].0, c"C_SignFinal").0, CKR_OPERATION_NOT_INITIALIZED);
    let aes = aes_key(session);
    assert_eq!(all[0].encrypt_nothing(aes), CKR_OPERATION_ACTIVE);
    all[1..10].iter_mut().for_each(|one| one.begin(key));
    let last = &mut all[10];
    for parts in 0..2 {
        assert_eq!(last.init(key), CKR_OK);
        (0..parts).for_each(|_| ok!(C_SignUpdate(last.0, mutable(b"data").cast(), 4)));
        len = 256;
        assert_eq!(rv!(C_SignFinal(last.0, last.1.as_mut_ptr(), &raw mut len)), CKR_PENDING);
        assert_eq!((last.end(), complete(last.0, c"C_SignFinal").0), (CKR_OPERATION_NOT_INITIALIZED, CKR_OK));
    }
    last.verify(public);
    for one in &all[..10] {
        // Two threads ask for the same result. One of them gets it.
        let session = one.0;
        let other = std::thread::spawn(move || complete(session, Signing::NAME).0);
        let mut codes = [complete(session, Signing::NAME).0, other.join().expect("a thread")];
        codes.sort_unstable();
        assert_eq!(codes, [CKR_OK, CKR_OPERATION_NOT_INITIALIZED]);
        one.verify(public);
    }
    // An operation that was cancelled has no result, and neither has one of a closed session.
    all[..3].iter_mut().for_each(|one| one.begin(key));
    ok!(C_SessionCancel(all[0].0, CKF_SIGN));
    ok!(C_SignInit(all[1].0, nothing(), 0));
    ok!(C_CloseSession(all[2].0));
    assert_eq!([all[0].end(), all[1].end()], [CKR_OPERATION_NOT_INITIALIZED; 2]);
    // An Init function permits one use of the key, also if the key is destroyed then.
    all[..2].iter_mut().for_each(|one| one.begin(key));
    ok!(C_DestroyObject(session, key));
    assert_eq!([all[0].end(), all[1].end()], [CKR_OK; 2]);
    all[..2].iter().for_each(|one| one.verify(public));

    let (public, key) = rsa_pair(session, CK_TRUE);
    let login = || rv!(C_Login(all[3].0, CKU_CONTEXT_SPECIFIC, mutable(PIN).cast(), PIN.len() as CK_ULONG));
    assert_eq!((all[3].init(key), login()), (CKR_OK, CKR_OK));
    assert_eq!((all[3].sign(256), all[3].end()), (CKR_PENDING, CKR_OK));
    all[3].verify(public);
    assert_eq!((all[3].init(key), all[3].sign(256)), (CKR_OK, CKR_USER_NOT_LOGGED_IN));
    assert_eq!((all[3].init(key), all[3].encrypt_nothing(aes)), (CKR_OK, CKR_USER_NOT_LOGGED_IN));

    let (_, key) = rsa_pair(session, CK_FALSE);
    all[..2].iter_mut().for_each(|one| one.begin(key));
    ok!(C_SessionCancel(all[1].0, CKF_SIGN));
    ok!(C_Logout(session));
    assert_eq!(complete(all[0].0, c"C_SignFinal").0, CKR_OPERATION_NOT_INITIALIZED);
    assert_eq!([all[0].end(), all[1].end()], [CKR_USER_NOT_LOGGED_IN, CKR_OPERATION_NOT_INITIALIZED]);
    assert_eq!(all[0].end(), CKR_OPERATION_NOT_INITIALIZED);
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
