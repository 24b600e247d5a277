//! A token from `C_InitToken` to a verified signature. Like a C client, the test calls functions
//! of the function list. It is one test, because all threads of a process share the state of the
//! library.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

#[macro_use]
mod common;

use common::{attribute, mechanism, mutable, nothing, room, two_calls};
use cryptoki_sys::*;

const SO_PIN: &[u8] = b"so pin of a test";
const PIN: &[u8] = b"user pin of a test";
const LABEL: &[u8; 32] = b"a token                         ";
/// DER of the object identifier of P-256.
const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];

#[test]
fn a_token_is_initialised_and_used_through_the_c_interface() {
    let directory = std::env::temp_dir().join(format!("jeton-token-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    // This is the only test of the binary, so no other thread reads the environment.
    unsafe { common::use_tokens(&directory, "") };

    ok!(C_Initialize(nothing()));
    assert_eq!(rv!(C_Initialize(nothing())), CKR_CRYPTOKI_ALREADY_INITIALIZED);
    library_info_is_returned();
    parallel_functions_return_their_code();
    let slot = initialised_slot();
    let session = open(slot);
    let (public, private) = ec_key_pair(session);
    attributes_are_read(session, private);
    objects_are_found(session);
    signatures_verify(session, public, private);
    lengths_and_refusals(session, private);
    digests_in_place(session);
    random_bytes_are_written(session);

    ok!(C_CloseSession(session));
    assert_eq!(rv!(C_CloseSession(session)), CKR_SESSION_HANDLE_INVALID);
    ok!(C_Finalize(nothing()));
    assert_eq!(rv!(C_Finalize(nothing())), CKR_CRYPTOKI_NOT_INITIALIZED);

    // After the next C_Initialize the token still exists, and no session is open.
    ok!(C_Initialize(nothing()));
    let mut info = CK_SESSION_INFO::default();
    assert_eq!(rv!(C_GetSessionInfo(session, &raw mut info)), CKR_SESSION_HANDLE_INVALID);
    assert!(slots(CK_TRUE).contains(&slot));
    ok!(C_Finalize(nothing()));
    std::fs::remove_dir_all(&directory).expect("the directory");
}

fn library_info_is_returned() {
    let mut info = CK_INFO::default();
    ok!(C_GetInfo(&raw mut info));
    assert_eq!((info.cryptokiVersion.major, info.cryptokiVersion.minor), (3, 2));
    assert!(info.manufacturerID.starts_with(b"Jeton  "));
    assert_eq!(rv!(C_GetInfo(nothing())), CKR_ARGUMENTS_BAD);
}

fn parallel_functions_return_their_code() {
    assert_eq!(rv!(C_GetFunctionStatus(0)), CKR_FUNCTION_NOT_PARALLEL);
    assert_eq!(rv!(C_CancelFunction(0)), CKR_FUNCTION_NOT_PARALLEL);
}

fn slots(present: CK_BBOOL) -> Vec<CK_SLOT_ID> {
    let mut count = 0;
    ok!(C_GetSlotList(present, nothing(), &raw mut count));
    let mut slots = vec![0; count as usize];
    ok!(C_GetSlotList(present, slots.as_mut_ptr(), &raw mut count));
    slots.truncate(count as usize);
    slots
}

/// Initialises the free slot, and finds the token by its label.
fn initialised_slot() -> CK_SLOT_ID {
    let free = *slots(CK_FALSE).last().expect("a slot is always there");
    let (pin, pin_len) = (mutable(SO_PIN).cast(), SO_PIN.len() as CK_ULONG);
    assert_eq!(rv!(C_InitToken(free, pin, pin_len, nothing())), CKR_ARGUMENTS_BAD);
    assert_eq!(rv!(C_InitToken(free, nothing(), 0, mutable(LABEL).cast())), CKR_ARGUMENTS_BAD);
    ok!(C_InitToken(free, pin, pin_len, mutable(LABEL).cast()));
    let label_of = |slot: &CK_SLOT_ID| {
        let mut info = CK_TOKEN_INFO::default();
        ok!(C_GetTokenInfo(*slot, &raw mut info));
        info.label
    };
    slots(CK_TRUE).into_iter().find(|slot| label_of(slot) == *LABEL).expect("the token")
}

/// Logs in as the SO and sets the user PIN. Then logs in as the user, and returns the session.
fn open(slot: CK_SLOT_ID) -> CK_SESSION_HANDLE {
    let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
    let mut session = 0;
    let mut open = |flags| rv!(C_OpenSession(slot, flags, nothing(), None, &raw mut session));
    assert_eq!(open(CKF_RW_SESSION), CKR_SESSION_PARALLEL_NOT_SUPPORTED);
    assert_eq!(open(flags), CKR_OK);

    let login = |user, pin: &[u8]| rv!(C_Login(session, user, mutable(pin).cast(), pin.len() as CK_ULONG));
    assert_eq!(login(CKU_SO, b"a wrong pin"), CKR_PIN_INCORRECT);
    assert_eq!(login(CKU_SO, SO_PIN), CKR_OK);
    assert_eq!(rv!(C_InitPIN(session, nothing(), 0)), CKR_ARGUMENTS_BAD);
    ok!(C_InitPIN(session, mutable(PIN).cast(), PIN.len() as CK_ULONG));
    ok!(C_Logout(session));
    a_null_pin_counts_no_failure(session, slot);
    assert_eq!(login(17, PIN), CKR_USER_TYPE_INVALID);
    assert_eq!(login(CKU_USER, PIN), CKR_OK);

    let mut info = CK_SESSION_INFO::default();
    ok!(C_GetSessionInfo(session, &raw mut info));
    assert_eq!((info.slotID, info.state, info.flags), (slot, CKS_RW_USER_FUNCTIONS, flags));
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

fn ec_key_pair(session: CK_SESSION_HANDLE) -> (CK_OBJECT_HANDLE, CK_OBJECT_HANDLE) {
    let mut with = mechanism(CKM_EC_KEY_PAIR_GEN);
    let public = [attribute(CKA_EC_PARAMS, P256), attribute(CKA_VERIFY, &CK_TRUE)];
    let private = [
        attribute(CKA_SIGN, &CK_TRUE),
        attribute(CKA_SENSITIVE, &CK_TRUE),
        attribute(CKA_LABEL, b"ca"),
        attribute(CKA_TOKEN, &CK_TRUE),
    ];
    let (mut public_key, mut private_key) = (0, 0);
    ok!(C_GenerateKeyPair(
        session,
        &raw mut with,
        public.as_ptr().cast_mut(),
        public.len() as CK_ULONG,
        private.as_ptr().cast_mut(),
        private.len() as CK_ULONG,
        &raw mut public_key,
        &raw mut private_key
    ));
    (public_key, private_key)
}

fn attributes_are_read(session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) {
    let (mut label, mut short, mut value) = ([0u8; 2], [0u8; 1], [0u8; 64]);
    let mut template = [
        room(CKA_VALUE, &mut value),
        room(CKA_LABEL, &mut label),
        room(CKA_LABEL, &mut short),
        room(CKA_MODULUS, &mut value),
    ];
    let count = template.len() as CK_ULONG;
    let rv = rv!(C_GetAttributeValue(session, key, template.as_mut_ptr(), count));
    assert_eq!(rv, CKR_ATTRIBUTE_SENSITIVE);
    let unavailable = CK_UNAVAILABLE_INFORMATION;
    assert_eq!(template.map(|given| given.ulValueLen), [unavailable, 2, unavailable, unavailable]);
    assert_eq!(label, *b"ca");
}

fn objects_are_found(session: CK_SESSION_HANDLE) {
    let template = [attribute(CKA_LABEL, b"ca")];
    let (mut found, mut count) = ([0; 70], 9);
    ok!(C_FindObjectsInit(session, template.as_ptr().cast_mut(), 1));
    ok!(C_FindObjects(session, nothing(), 0, &raw mut count));
    assert_eq!(count, 0);
    assert_eq!(rv!(C_FindObjects(session, nothing(), 1, &raw mut count)), CKR_ARGUMENTS_BAD);
    ok!(C_FindObjects(session, found.as_mut_ptr(), 70, &raw mut count));
    assert_eq!(count, 1);
    ok!(C_FindObjectsFinal(session));
}

fn signatures_verify(session: CK_SESSION_HANDLE, public: CK_OBJECT_HANDLE, private: CK_OBJECT_HANDLE) {
    let mut with = mechanism(CKM_ECDSA_SHA256);
    let with = &raw mut with;
    let (data, len) = (mutable(b"to be signed").cast::<u8>(), 12);
    ok!(C_SignInit(session, with, private));
    let mut signature = two_calls(|out, room| rv!(C_Sign(session, data, len, out, room)));
    assert_eq!(signature.len(), 64);
    ok!(C_VerifyInit(session, with, public));
    ok!(C_Verify(session, data, len, signature.as_mut_ptr(), 64));

    ok!(C_SignInit(session, with, private));
    ok!(C_SignUpdate(session, data, 5));
    ok!(C_SignUpdate(session, data.wrapping_add(5), 7));
    let mut in_parts = two_calls(|out, room| rv!(C_SignFinal(session, out, room)));
    ok!(C_VerifyInit(session, with, public));
    ok!(C_VerifyUpdate(session, data, len));
    ok!(C_VerifyFinal(session, in_parts.as_mut_ptr(), 64));

    signature[7] ^= 1;
    ok!(C_VerifyInit(session, with, public));
    assert_eq!(rv!(C_Verify(session, data, len, signature.as_mut_ptr(), 64)), CKR_SIGNATURE_INVALID);
}

fn lengths_and_refusals(session: CK_SESSION_HANDLE, private: CK_OBJECT_HANDLE) {
    let mut with = mechanism(CKM_ECDSA_SHA256);
    let with = &raw mut with;
    let (data, mut signature, mut room) = (mutable(b"data").cast(), [0; 64], 63);
    let place = signature.as_mut_ptr();
    ok!(C_SignInit(session, with, private));
    assert_eq!(rv!(C_SignInit(session, with, private)), CKR_OPERATION_ACTIVE);
    assert_eq!(rv!(C_Sign(session, data, 4, place, &raw mut room)), CKR_BUFFER_TOO_SMALL);
    assert_eq!(room, 64);
    ok!(C_Sign(session, data, 4, place, &raw mut room));

    // Invalid arguments end the operation.
    ok!(C_SignInit(session, with, private));
    assert_eq!(rv!(C_Sign(session, data, 4, place, nothing())), CKR_ARGUMENTS_BAD);
    assert_eq!(rv!(C_Sign(session, data, 4, place, &raw mut room)), CKR_OPERATION_NOT_INITIALIZED);

    // So do a NULL mechanism and C_SessionCancel.
    ok!(C_SignInit(session, with, private));
    ok!(C_SignInit(session, nothing(), private));
    assert_eq!(rv!(C_Sign(session, data, 4, place, &raw mut room)), CKR_OPERATION_NOT_INITIALIZED);
    ok!(C_SignInit(session, with, private));
    ok!(C_SessionCancel(session, CKF_SIGN));
    assert_eq!(rv!(C_Sign(session, data, 4, place, &raw mut room)), CKR_OPERATION_NOT_INITIALIZED);

    let mut unknown = mechanism(CKM_VENDOR_DEFINED | 7);
    let unknown = &raw mut unknown;
    assert_eq!(rv!(C_SignInit(session, unknown, private)), CKR_MECHANISM_INVALID);
}

fn digests_in_place(session: CK_SESSION_HANDLE) {
    let mut with = mechanism(CKM_SHA_1);
    let with = &raw mut with;
    let mut memory = [0; 20];
    memory[..3].copy_from_slice(b"abc");
    let place = memory.as_mut_ptr();
    let mut room = 20;
    ok!(C_DigestInit(session, with));
    ok!(C_Digest(session, place, 3, place, &raw mut room));
    // FIPS 180-2, appendix A.1.
    assert_eq!(memory[..8], [0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81, 0x6a]);
}

fn random_bytes_are_written(session: CK_SESSION_HANDLE) {
    let (mut one, mut other) = ([0_u8; 32], [0_u8; 32]);
    ok!(C_GenerateRandom(session, one.as_mut_ptr(), 32));
    ok!(C_GenerateRandom(session, other.as_mut_ptr(), 32));
    assert_ne!(one, other);
    ok!(C_GenerateRandom(session, nothing(), 0));
    assert_eq!(rv!(C_GenerateRandom(session, nothing(), 1)), CKR_ARGUMENTS_BAD);
}
