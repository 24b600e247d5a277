//! Encryption, MACs and dual functions through the function list, as a C client calls them. The
//! modules below test derivation and messages. The tests share a token; each has a session.

#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;
mod derive;
mod messages;

use std::sync::OnceLock;

use common::{attribute, generate_pair, list, mechanism, mechanism_with, mutable, nothing, two_calls};
use cryptoki_sys::*;

/// Longer than one block. Its length is not a multiple of the block length.
const MESSAGE: &[u8] = b"a message that is longer than two blocks of the cipher";
const IV: [u8; 16] = [7; 16];

type Session = CK_SESSION_HANDLE;
type Object = CK_OBJECT_HANDLE;

/// A session of the token, with the user logged in.
fn session() -> Session {
    static SLOT: OnceLock<CK_SLOT_ID> = OnceLock::new();
    let slot = *SLOT.get_or_init(token);
    common::open(list(), slot, 0)
}

/// A fresh token whose user is logged in.
fn token() -> CK_SLOT_ID {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("jeton-crypt");
    // The token of an earlier run, if any.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory");
    // SAFETY: every test waits for its first session, so no other thread reads the environment.
    unsafe { common::use_tokens(&directory, "") };
    ok!(C_Initialize(nothing()));
    let slot = common::make_token(list());
    common::user(list());
    slot
}

fn len(bytes: &[u8]) -> CK_ULONG {
    bytes.len() as CK_ULONG
}

fn pointer(bytes: &[u8]) -> *mut u8 {
    bytes.as_ptr().cast_mut()
}

fn generated(session: Session, id: CK_MECHANISM_TYPE, attributes: &[CK_ATTRIBUTE]) -> Object {
    let mut key = 0;
    let (mut with, count) = (mechanism(id), attributes.len() as CK_ULONG);
    ok!(C_GenerateKey(session, &raw mut with, attributes.as_ptr().cast_mut(), count, &raw mut key));
    key
}

fn created(session: Session, attributes: &[CK_ATTRIBUTE]) -> Object {
    let mut key = 0;
    let count = attributes.len() as CK_ULONG;
    ok!(C_CreateObject(session, attributes.as_ptr().cast_mut(), count, &raw mut key));
    key
}

/// Creates an extractable AES key of 256 bits that encrypts, decrypts, wraps and unwraps.
fn aes_key(session: Session) -> Object {
    let attributes = [
        attribute(CKA_VALUE_LEN, &(32 as CK_ULONG)),
        attribute(CKA_ENCRYPT, &CK_TRUE),
        attribute(CKA_DECRYPT, &CK_TRUE),
        attribute(CKA_WRAP, &CK_TRUE),
        attribute(CKA_UNWRAP, &CK_TRUE),
        attribute(CKA_EXTRACTABLE, &CK_TRUE),
    ];
    generated(session, CKM_AES_KEY_GEN, &attributes)
}

/// The template of an AES key that is unwrapped, derived or encapsulated.
fn aes_template() -> [CK_ATTRIBUTE; 4] {
    [
        attribute(CKA_CLASS, &CKO_SECRET_KEY),
        attribute(CKA_KEY_TYPE, &CKK_AES),
        attribute(CKA_ENCRYPT, &CK_TRUE),
        attribute(CKA_DECRYPT, &CK_TRUE),
    ]
}

/// Creates the HMAC key of RFC 4231, 4.3.
fn hmac_key(session: Session) -> Object {
    let attributes = [
        attribute(CKA_CLASS, &CKO_SECRET_KEY),
        attribute(CKA_KEY_TYPE, &CKK_GENERIC_SECRET),
        attribute(CKA_SIGN, &CK_TRUE),
        attribute(CKA_VERIFY, &CK_TRUE),
        attribute(CKA_VALUE, b"Jefe"),
    ];
    created(session, &attributes)
}

fn encrypted(session: Session, with: &mut CK_MECHANISM, key: Object, data: &[u8]) -> Vec<u8> {
    ok!(C_EncryptInit(session, with, key));
    two_calls(|out, room| rv!(C_Encrypt(session, pointer(data), len(data), out, room)))
}

/// Runs a test with a mechanism that authenticates, one that pads and one that does neither.
fn with_each(test: impl Fn(&mut CK_MECHANISM)) {
    let counter = CK_AES_CTR_PARAMS { ulCounterBits: 64, cb: IV };
    test(&mut mechanism_with(CKM_AES_GCM, &gcm()));
    test(&mut mechanism_with(CKM_AES_CBC_PAD, &IV));
    test(&mut mechanism_with(CKM_AES_CTR, &counter));
}

fn gcm() -> CK_GCM_PARAMS {
    CK_GCM_PARAMS {
        pIv: pointer(&IV),
        ulIvLen: 12,
        ulIvBits: 96,
        pAAD: pointer(MESSAGE),
        ulAADLen: 9,
        ulTagBits: 128,
    }
}

#[test]
fn output_may_overlap_input() {
    let session = session();
    let key = aes_key(session);
    with_each(|with| {
        let whole = encrypted(session, with, key, MESSAGE);
        // The input is at offset 32. The output starts before, at and after it.
        for at in [0, 1, 31, 32, 33, 64] {
            let mut memory = [0_u8; 256];
            memory[32..][..MESSAGE.len()].copy_from_slice(MESSAGE);
            let (start, mut room) = (memory.as_mut_ptr(), 128);
            let (input, output) = (start.wrapping_add(32), start.wrapping_add(at));
            ok!(C_EncryptInit(session, with, key));
            ok!(C_Encrypt(session, input, len(MESSAGE), output, &raw mut room));
            assert_eq!(memory[at..][..room as usize], whole, "at {at}");

            let (start, mut message_room) = (memory.as_mut_ptr(), 128);
            let place = start.wrapping_add(at);
            ok!(C_DecryptInit(session, with, key));
            ok!(C_Decrypt(session, place, room, place, &raw mut message_room));
            assert_eq!(memory[at..][..message_room as usize], *MESSAGE, "at {at}");
        }
    });
}

#[test]
fn a_part_may_be_encrypted_in_place() {
    let session = session();
    let key = aes_key(session);
    let counter = CK_AES_CTR_PARAMS { ulCounterBits: 64, cb: IV };
    let with = &mut mechanism_with(CKM_AES_CTR, &counter);
    let whole = encrypted(session, with, key, MESSAGE);
    let mut memory = MESSAGE.to_vec();
    ok!(C_EncryptInit(session, with, key));
    for part in memory.chunks_mut(20) {
        let (place, mut room) = (part.as_mut_ptr(), part.len() as CK_ULONG);
        ok!(C_EncryptUpdate(session, place, room, place, &raw mut room));
        assert_eq!(room as usize, part.len());
    }
    assert_eq!(two_calls(|out, room| rv!(C_EncryptFinal(session, out, room))), [0_u8; 0]);
    assert_eq!(memory, whole);
}

#[test]
fn the_parameter_of_a_mechanism_without_one_is_not_read() {
    let session = session();
    let (key, mac_key) = (aes_key(session), hmac_key(session));
    for (pParameter, ulParameterLen) in [(std::ptr::without_provenance_mut(8), 64), (nothing(), 77)] {
        let with = |mechanism| CK_MECHANISM { mechanism, pParameter, ulParameterLen };
        ok!(C_DigestInit(session, &mut with(CKM_SHA256)));
        ok!(C_DigestInit(session, nothing()));
        ok!(C_SignInit(session, &mut with(CKM_SHA256_HMAC), mac_key));
        ok!(C_SignInit(session, nothing(), 0));
        ok!(C_EncryptInit(session, &mut with(CKM_AES_ECB), key));
        ok!(C_EncryptInit(session, nothing(), 0));
        ok!(C_MessageSignInit(session, &mut with(CKM_SHA256_HMAC), mac_key));
        ok!(C_MessageSignFinal(session));
        ok!(C_MessageVerifyInit(session, &mut with(CKM_SHA256_HMAC), mac_key));
        ok!(C_MessageVerifyFinal(session));
        let code = [0; 32];
        let code = (pointer(&code), len(&code));
        ok!(C_VerifySignatureInit(session, &mut with(CKM_SHA256_HMAC), mac_key, code.0, code.1));
        ok!(C_VerifySignatureInit(session, nothing(), 0, nothing(), 0));
    }
}

/// A client that gets the length 0 may allocate nothing and pass `NULL` again, so that the part is
/// never decrypted.
#[test]
fn a_query_for_the_length_of_an_authenticated_part_is_not_0() {
    type Update = fn(Session, *mut u8, CK_ULONG, *mut u8, *mut CK_ULONG) -> CK_RV;
    const UPDATES: [Update; 3] = [
        |session, part, size, out, room| rv!(C_DecryptUpdate(session, part, size, out, room)),
        |session, part, size, out, room| rv!(C_DecryptDigestUpdate(session, part, size, out, room)),
        |session, part, size, out, room| rv!(C_DecryptVerifyUpdate(session, part, size, out, room)),
    ];
    let session = session();
    let (key, code_key) = (aes_key(session), hmac_key(session));
    let gcm = gcm();
    let with = &mut mechanism_with(CKM_AES_GCM, &gcm);
    let whole = encrypted(session, with, key, MESSAGE);
    for update in UPDATES {
        ok!(C_DecryptInit(session, with, key));
        ok!(C_DigestInit(session, &mut mechanism(CKM_SHA256)));
        ok!(C_VerifyInit(session, &mut mechanism(CKM_SHA256_HMAC), code_key));
        for part in whole.chunks(17) {
            let mut room = 0;
            assert_eq!(update(session, pointer(part), len(part), nothing(), &raw mut room), CKR_OK);
            assert_eq!(room, len(part));
            let mut out = vec![0; room as usize];
            assert_eq!(update(session, pointer(part), len(part), out.as_mut_ptr(), &raw mut room), CKR_OK);
            assert_eq!(room, 0, "no plaintext before the tag is verified");
        }
        assert_eq!(two_calls(|out, room| rv!(C_DecryptFinal(session, out, room))), MESSAGE);
        ok!(C_DigestInit(session, nothing()));
        ok!(C_VerifyInit(session, nothing(), 0));
    }
}

/// RFC 4226, appendix D. The output of `C_Sign` contains pointers into the caller's buffer.
#[test]
fn a_one_time_password_is_written_to_the_buffer_of_the_caller() {
    let session = session();
    let attributes = [
        attribute(CKA_CLASS, &CKO_OTP_KEY),
        attribute(CKA_KEY_TYPE, &CKK_HOTP),
        attribute(CKA_VALUE, b"12345678901234567890"),
    ];
    let key = created(session, &attributes);
    let own = CK_OTP_PARAMS { pParams: nothing(), ulCount: 0 };
    for (at, known) in [b"755224", b"287082"].into_iter().enumerate() {
        let mut with = mechanism_with(CKM_HOTP, &own);
        ok!(C_SignInit(session, &raw mut with, key));
        let block = two_calls(|out, len| rv!(C_Sign(session, nothing(), 0, out, len)));
        // SAFETY: the block starts with the structure; an unaligned read accepts any address.
        let info = unsafe { block.as_ptr().cast::<CK_OTP_SIGNATURE_INFO>().read_unaligned() };
        let params: Vec<_> = (0..info.ulCount as usize)
            .map(|index| {
                // SAFETY: the structure gives the number of parameters in the block.
                let param = unsafe { info.pParams.wrapping_add(index).read_unaligned() };
                // SAFETY: a parameter points to its value in the block.
                let value = unsafe {
                    std::slice::from_raw_parts(param.pValue.cast::<u8>(), param.ulValueLen as usize)
                };
                assert!(block.as_ptr_range().contains(&value.as_ptr()));
                (param.type_, value)
            })
            .collect();
        let counter = (at as u64).to_be_bytes();
        assert_eq!(params, [(CK_OTP_VALUE, &known[..]), (CK_OTP_COUNTER, &counter)]);

        let given = [CK_OTP_PARAM {
            type_: CK_OTP_COUNTER,
            pValue: mutable(&counter).cast(),
            ulValueLen: len(&counter),
        }];
        let given = CK_OTP_PARAMS { pParams: mutable(&given).cast(), ulCount: 1 };
        let mut with = mechanism_with(CKM_HOTP, &given);
        ok!(C_VerifyInit(session, &raw mut with, key));
        ok!(C_Verify(session, nothing(), 0, pointer(known), len(known)));
    }
    let mut without = mechanism(CKM_HOTP);
    assert_eq!(rv!(C_SignInit(session, &raw mut without, key)), CKR_MECHANISM_PARAM_INVALID);
}
