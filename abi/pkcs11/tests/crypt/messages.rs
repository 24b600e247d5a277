//! The message-based functions and authenticated wrapping through the function list, with valid and
//! with invalid arguments.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

use std::ffi::c_void;
use std::ptr::from_mut;

use super::*;
use crate::common::functions;

const AAD: &[u8] = b"a message";
const GCM_LEN: CK_ULONG = size_of::<CK_GCM_MESSAGE_PARAMS>() as CK_ULONG;

/// Memory that the parameter of a GCM message points to.
struct Places {
    nonce: [u8; 12],
    tag: [u8; 16],
}

impl Places {
    fn new() -> Self {
        Self { nonce: [7; 12], tag: [0xaa; 16] }
    }

    fn params(&mut self, generator: CK_GENERATOR_FUNCTION) -> CK_GCM_MESSAGE_PARAMS {
        CK_GCM_MESSAGE_PARAMS {
            pIv: self.nonce.as_mut_ptr(),
            ulIvLen: 12,
            ulIvFixedBits: 32,
            ivGenerator: generator,
            pTag: self.tag.as_mut_ptr(),
            ulTagBits: 128,
        }
    }
}

fn place<T>(params: &mut T) -> *mut c_void {
    from_mut(params).cast()
}

fn start(session: Session, key: Object) {
    let with = &mut mechanism(CKM_AES_GCM);
    ok!(C_MessageEncryptInit(session, with, key));
    ok!(C_MessageDecryptInit(session, with, key));
}

fn finish(session: Session) {
    ok!(C_MessageEncryptFinal(session));
    ok!(C_MessageDecryptFinal(session));
}

/// Calls `C_EncryptMessage` or `C_DecryptMessage` with the length of `out` as the size of the
/// buffer.
fn crypt_message(
    call: CK_C_EncryptMessage,
    session: Session,
    params: &mut CK_GCM_MESSAGE_PARAMS,
    out: &mut [u8],
) -> CK_RV {
    let (mut room, place, call) = (out.len() as CK_ULONG, place(params), call.expect("an entry"));
    let (aad, data, out) = (pointer(AAD), pointer(MESSAGE), out.as_mut_ptr());
    let (aad_len, data_len) = (len(AAD), len(MESSAGE));
    unsafe { call(session, place, GCM_LEN, aad, aad_len, data, data_len, out, &raw mut room) }
}

#[test]
fn malformed_parameters_of_messages_are_refused() {
    let (session, mut places) = (session(), Places::new());
    let key = aes_key(session);
    let good = places.params(CKG_GENERATE);
    // The order of the calls is checked first.
    let (encrypt, decrypt) = (functions().C_EncryptMessage, functions().C_DecryptMessage);
    let missing = crypt_message(encrypt, session, &mut { good }, &mut [0; 128]);
    assert_eq!(missing, CKR_OPERATION_NOT_INITIALIZED);
    let begin = |pointer: *mut c_void, len| rv!(C_EncryptMessageBegin(session, pointer, len, nothing(), 0));
    assert_eq!(begin(nothing(), 0), CKR_OPERATION_NOT_INITIALIZED);
    start(session, key);
    const HUGE: CK_ULONG = CK_ULONG::MAX;
    for wrong in [
        CK_GCM_MESSAGE_PARAMS { pIv: nothing(), ..good },
        CK_GCM_MESSAGE_PARAMS { ulIvLen: 0, ..good },
        CK_GCM_MESSAGE_PARAMS { ulIvLen: 65_537, ..good },
        CK_GCM_MESSAGE_PARAMS { ulIvLen: HUGE, ..good },
        CK_GCM_MESSAGE_PARAMS { ulIvFixedBits: 97, ..good },
        CK_GCM_MESSAGE_PARAMS { ulIvFixedBits: HUGE, ..good },
        CK_GCM_MESSAGE_PARAMS { ivGenerator: 5, ..good },
        CK_GCM_MESSAGE_PARAMS { pTag: nothing(), ..good },
        CK_GCM_MESSAGE_PARAMS { ulTagBits: 0, ..good },
        CK_GCM_MESSAGE_PARAMS { ulTagBits: 127, ..good },
        CK_GCM_MESSAGE_PARAMS { ulTagBits: 136, ..good },
        CK_GCM_MESSAGE_PARAMS { ulTagBits: HUGE, ..good },
    ] {
        let refused = crypt_message(encrypt, session, &mut { wrong }, &mut [0; 128]);
        assert_eq!(refused, CKR_MECHANISM_PARAM_INVALID, "{wrong:?}");
        // Decryption ignores the nonce generator.
        let generates = wrong.ulIvFixedBits != good.ulIvFixedBits || wrong.ivGenerator != good.ivGenerator;
        let expected = if generates { CKR_AEAD_DECRYPT_FAILED } else { CKR_MECHANISM_PARAM_INVALID };
        let refused = crypt_message(decrypt, session, &mut { wrong }, &mut [0; 128]);
        assert_eq!(refused, expected, "{wrong:?}");
    }
    let params = &mut { good };
    for wrong in [0, 1, GCM_LEN - 1, GCM_LEN + 1, HUGE] {
        assert_eq!(begin(place(params), wrong), CKR_MECHANISM_PARAM_INVALID, "{wrong} bytes");
    }
    assert_eq!(begin(nothing(), GCM_LEN), CKR_MECHANISM_PARAM_INVALID);
    assert_eq!(begin(nothing(), 0), CKR_MECHANISM_PARAM_INVALID);
    // The structures of other ciphers.
    for wrong in [size_of::<CK_CCM_MESSAGE_PARAMS>(), size_of::<CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS>()] {
        assert_eq!(begin([0_u8; 64].as_mut_ptr().cast(), wrong as CK_ULONG), CKR_MECHANISM_PARAM_INVALID);
    }
    let (data, null) = (pointer(MESSAGE), nothing());
    let mut room = 128;
    let whole = |aad, aad_len, data, room| {
        let place = mutable(&good).cast();
        rv!(C_EncryptMessage(session, place, GCM_LEN, aad, aad_len, data, 4, nothing(), room))
    };
    assert_eq!(whole(null, 1, data, &raw mut room), CKR_ARGUMENTS_BAD);
    assert_eq!(whole(null, 0, null, &raw mut room), CKR_ARGUMENTS_BAD);
    assert_eq!(whole(null, 0, data, nothing()), CKR_ARGUMENTS_BAD);
    assert_eq!(whole(null, 0, data, &raw mut room), CKR_OK);
    // Neither a query for the length nor a short buffer uses a nonce.
    assert_eq!(crypt_message(encrypt, session, &mut { good }, &mut [0; 4]), CKR_BUFFER_TOO_SMALL);
    assert_eq!((room, places.nonce, places.tag), (4, [7; 12], [0xaa; 16]));
    finish(session);
}

#[test]
fn a_part_with_invalid_arguments_ends_only_its_message() {
    let (session, mut places) = (session(), Places::new());
    start(session, aes_key(session));
    let params = &mut places.params(CKG_GENERATE);
    let (mut memory, mut room) = ([0_u8; 128], 128);
    let out = memory.as_mut_ptr();
    let begin = |params: &mut CK_GCM_MESSAGE_PARAMS| {
        rv!(C_EncryptMessageBegin(session, place(params), GCM_LEN, nothing(), 0))
    };
    let next = |place, len, data, room, flags| {
        rv!(C_EncryptMessageNext(session, place, len, data, 4, out, room, flags))
    };
    let data = pointer(MESSAGE);
    for (parameter, parameter_len, data, room, flags, expected) in [
        (place(params), GCM_LEN, nothing(), &raw mut room, 0, CKR_ARGUMENTS_BAD),
        (place(params), GCM_LEN, data, nothing(), 0, CKR_ARGUMENTS_BAD),
        (place(params), GCM_LEN, data, &raw mut room, 2, CKR_ARGUMENTS_BAD),
        (nothing(), 0, data, &raw mut room, CKF_END_OF_MESSAGE, CKR_MECHANISM_PARAM_INVALID),
    ] {
        assert_eq!(begin(params), CKR_OK);
        assert_eq!(begin(params), CKR_OPERATION_ACTIVE);
        assert_eq!(rv!(C_MessageEncryptFinal(session)), CKR_OPERATION_ACTIVE);
        assert_eq!(next(parameter, parameter_len, data, room, flags), expected);
        let mut fresh = 128;
        let over = next(place(params), GCM_LEN, pointer(MESSAGE), &raw mut fresh, 0);
        assert_eq!(over, CKR_OPERATION_NOT_INITIALIZED);
    }
    finish(session);
}

#[test]
fn the_init_functions_accept_the_parameter_of_a_message() {
    let (session, mut places) = (session(), Places::new());
    let key = aes_key(session);
    let params = places.params(CKG_GENERATE);
    ok!(C_MessageEncryptInit(session, &mut mechanism_with(CKM_AES_GCM, &params), key));
    ok!(C_MessageEncryptInit(session, nothing(), 0));
    assert_eq!(rv!(C_MessageEncryptFinal(session)), CKR_OPERATION_NOT_INITIALIZED);
    let init =
        |id, parameter: &[u8]| rv!(C_MessageEncryptInit(session, &mut mechanism_with(id, parameter), key));
    assert_eq!(init(CKM_AES_GCM, &[0; 7]), CKR_MECHANISM_PARAM_INVALID);
    assert_eq!(init(CKM_AES_CCM, &[0; GCM_LEN as usize]), CKR_MECHANISM_PARAM_INVALID);
    assert_eq!(init(CKM_AES_CBC, &[0; 16]), CKR_MECHANISM_INVALID);
    assert_eq!(init(CKM_VENDOR_DEFINED | 7, &[]), CKR_MECHANISM_INVALID);
}

#[test]
fn chacha20_poly1305_takes_the_length_of_its_nonce_in_bits_or_bytes() {
    let session = session();
    let attributes = [attribute(CKA_ENCRYPT, &CK_TRUE), attribute(CKA_DECRYPT, &CK_TRUE)];
    let key = generated(session, CKM_CHACHA20_KEY_GEN, &attributes);
    ok!(C_MessageEncryptInit(session, &mut mechanism(CKM_CHACHA20_POLY1305), key));
    let (mut nonce, mut tag, mut out) = ([7; 12], [0; 16], [0; 4]);
    let mut seen = Vec::new();
    for (nonce_len, expected) in [(96, CKR_OK), (12, CKR_OK), (64, CKR_MECHANISM_PARAM_INVALID)] {
        let mut params = CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS {
            pNonce: nonce.as_mut_ptr(),
            ulNonceLen: nonce_len,
            pTag: tag.as_mut_ptr(),
        };
        let (place, place_len) = (place(&mut params), size_of_val(&params) as CK_ULONG);
        let (data, cipher_text, mut room) = (pointer(MESSAGE), out.as_mut_ptr(), 4);
        let rv = rv!(C_EncryptMessage(
            session,
            place,
            place_len,
            nothing(),
            0,
            data,
            4,
            cipher_text,
            &raw mut room
        ));
        assert_eq!(rv, expected, "{nonce_len}");
        seen.push((out, tag));
    }
    assert_eq!(seen[0], seen[1]);
    ok!(C_MessageEncryptFinal(session));
}

/// The fuzz target `params` found this: a structure was identified only by its length, without the
/// mechanism, so a length in one structure was followed as a pointer of another.
#[test]
fn pointers_in_the_structure_of_another_cipher_are_not_followed() {
    let (session, mut places) = (session(), Places::new());
    let (by, key) = (aes_key(session), aes_key(session));
    // This structure is as long as CK_CCM_MESSAGE_PARAMS. Read as that structure, ulIvFixedBits and
    // ulTagBits are the lengths of nonce and tag, and ulIvLen and ulAADLen are pointers to them.
    let mut params = CK_GCM_WRAP_PARAMS {
        pIv: places.nonce.as_mut_ptr(),
        ulIvLen: 12,
        ulIvFixedBits: 12,
        ivGenerator: CKG_NO_GENERATE,
        pAAD: nothing(),
        ulAADLen: 9,
        ulTagBits: 16,
    };
    let params_len = size_of_val(&params) as CK_ULONG;
    let with = &mut mechanism_with(CKM_AES_GCM, &params);
    let with: *mut CK_MECHANISM = with;
    let (mut out, mut room, mut back) = ([0_u8; 64], 64, 0);
    let (to, to_len) = (out.as_mut_ptr(), &raw mut room);
    let wrapped = rv!(C_WrapKeyAuthenticated(session, with, by, key, nothing(), 0, to, to_len));
    assert_eq!(wrapped, CKR_MECHANISM_PARAM_INVALID);
    let template = aes_template();
    let (template, count) = (template.as_ptr().cast_mut(), template.len() as CK_ULONG);
    let unwrapped = rv!(C_UnwrapKeyAuthenticated(
        session,
        with,
        by,
        to,
        32,
        template,
        count,
        nothing(),
        0,
        &raw mut back
    ));
    assert_eq!(unwrapped, CKR_MECHANISM_PARAM_INVALID);

    start(session, by);
    let (data, data_len, params) = (pointer(MESSAGE), len(MESSAGE), place(&mut params));
    let encrypted =
        rv!(C_EncryptMessage(session, params, params_len, nothing(), 0, data, data_len, to, to_len));
    assert_eq!(encrypted, CKR_MECHANISM_PARAM_INVALID);
    let decrypted = rv!(C_DecryptMessage(session, params, params_len, nothing(), 0, data, 16, to, to_len));
    assert_eq!(decrypted, CKR_MECHANISM_PARAM_INVALID);
    finish(session);
}
