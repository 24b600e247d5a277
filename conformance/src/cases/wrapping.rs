//! "Key management functions": wrapping and unwrapping of keys, also with authenticated data.

use cryptoki_sys::*;
use jeton_driver::client::{Arg, Attribute, Failure, Mechanism, Memory, ObjectHandle, Structure};

use super::{Case, ECDSA, SHA256, case};
use crate::place::{Key, NO_OBJECT, Place, SECRET, able, ensure, open_key, with};

static KW: Mechanism = Mechanism::new(CKM_AES_KEY_WRAP);

fn wrapped(p: &Place<'_>, mechanism: &Mechanism, wrapping: Key, key: Key) -> Result<Vec<u8>, Failure> {
    let mut out = vec![0; 4096];
    let length = p.session.wrap_key(mechanism, p.key(wrapping)?, p.key(key)?, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Unwraps a key as a generic secret.
fn unwrap(p: &Place<'_>, mechanism: &Mechanism, key: Key, bytes: &[u8]) -> Result<(), Failure> {
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    p.session.unwrap_key(mechanism, p.key(key)?, bytes, &template).map(drop)
}

pub const CASES: &[Case] = &[
    case(
        "C_WrapKey",
        "with a mechanism that does not wrap",
        &[CKR_MECHANISM_INVALID, CKR_WRAPPING_KEY_TYPE_INCONSISTENT],
        |p| wrapped(p, &ECDSA, Key::Aes, Key::Generic).map(drop),
    ),
    case("C_WrapKey", "with a handle that names no wrapping key", &[CKR_WRAPPING_KEY_HANDLE_INVALID], |p| {
        p.session.wrap_key(&KW, NO_OBJECT, p.key(Key::Generic)?, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "with a handle that names no key", &[CKR_KEY_HANDLE_INVALID], |p| {
        p.session.wrap_key(&KW, p.key(Key::Aes)?, NO_OBJECT, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "with a wrapping key of another type", &[CKR_WRAPPING_KEY_TYPE_INCONSISTENT], |p| {
        wrapped(p, &KW, Key::Ec, Key::Generic).map(drop)
    }),
    case("C_WrapKey", "with a key that must not wrap", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |p| {
        wrapped(p, &KW, Key::Idle, Key::Generic).map(drop)
    }),
    case("C_WrapKey", "of a key that must not leave", &[CKR_KEY_UNEXTRACTABLE], |p| {
        wrapped(p, &KW, Key::Aes, Key::Sealed).map(drop)
    }),
    case("C_WrapKey", "of a key that only a trusted key may wrap", &[CKR_KEY_NOT_WRAPPABLE], |p| {
        let template =
            with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Attribute::bytes(CKA_VALUE, SECRET));
        let key = p.session.create_object(&able(template, &[CKA_WRAP_WITH_TRUSTED]))?;
        p.session.wrap_key(&KW, p.key(Key::Aes)?, key, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |p| {
        p.session.wrap_key(&KW, p.key(Key::Aes)?, p.key(Key::Generic)?, &mut [0; 39]).map(drop)
    }),
    case("C_WrapKey", "asked for the length", &[CKR_OK], |p| {
        let (aes, key, mut length) = (p.key(Key::Aes)?, p.key(Key::Generic)?, 0);
        let arguments =
            vec![Arg::Mechanism(&KW), Arg::Number(aes.0), Arg::Number(key.0), Arg::NoBuffer(&mut length)];
        p.call("C_WrapKey", &p.session, arguments)?;
        ensure("C_WrapKey", length >= 40)
    }),
    case("C_UnwrapKey", "of what was wrapped", &[CKR_OK], |p| {
        let bytes = wrapped(p, &KW, Key::Aes, Key::Generic)?;
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let key = p.session.unwrap_key(&KW, p.key(Key::Aes)?, &bytes, &template)?;
        ensure("C_UnwrapKey", p.session.attribute(key, CKA_VALUE)? == SECRET)
    }),
    case("C_UnwrapKey", "makes a key that is not local", &[CKR_OK], |p| {
        let bytes = wrapped(p, &KW, Key::Aes, Key::Generic)?;
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let key = p.session.unwrap_key(&KW, p.key(Key::Aes)?, &bytes, &template)?;
        ensure(
            "C_UnwrapKey",
            p.session.attribute(key, CKA_LOCAL)? == [0]
                && p.session.attribute(key, CKA_ALWAYS_SENSITIVE)? == [0],
        )
    }),
    case("C_UnwrapKey", "with a handle that names no key", &[CKR_UNWRAPPING_KEY_HANDLE_INVALID], |p| {
        p.session
            .unwrap_key(&KW, NO_OBJECT, &[1; 40], &open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET))
            .map(drop)
    }),
    case("C_UnwrapKey", "with a key of another type", &[CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT], |p| {
        unwrap(p, &KW, Key::Ec, &[1; 40])
    }),
    case("C_UnwrapKey", "with a key that must not unwrap", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |p| {
        unwrap(p, &KW, Key::Idle, &[1; 40])
    }),
    case("C_UnwrapKey", "of what was altered", &[CKR_WRAPPED_KEY_INVALID], |p| {
        let mut bytes = wrapped(p, &KW, Key::Aes, Key::Generic)?;
        bytes[3] ^= 1;
        unwrap(p, &KW, Key::Aes, &bytes)
    }),
    case(
        "C_UnwrapKey",
        "of a length that no wrap has",
        &[CKR_WRAPPED_KEY_LEN_RANGE, CKR_WRAPPED_KEY_INVALID],
        |p| unwrap(p, &KW, Key::Aes, &[1; 39]),
    ),
    case("C_UnwrapKey", "without a class", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        let bytes = wrapped(p, &KW, Key::Aes, Key::Generic)?;
        p.session.unwrap_key(&KW, p.key(Key::Aes)?, &bytes, &[Attribute::flag(CKA_TOKEN, false)]).map(drop)
    }),
    case(
        "C_UnwrapKey",
        "of what is no private key",
        &[CKR_WRAPPED_KEY_INVALID, CKR_WRAPPED_KEY_LEN_RANGE],
        |p| {
            let bytes = wrapped(p, &KW, Key::Aes, Key::Generic)?;
            p.session.unwrap_key(&KW, p.key(Key::Aes)?, &bytes, &open_key(CKO_PRIVATE_KEY, CKK_EC)).map(drop)
        },
    ),
    case("C_UnwrapKey", "of a token key in a read-only session", &[CKR_SESSION_READ_ONLY], |p| {
        let bytes = wrapped(p, &KW, Key::Aes, Key::Generic)?;
        let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        template[2] = Attribute::flag(CKA_TOKEN, true);
        p.reader()?.unwrap_key(&KW, p.key(Key::Aes)?, &bytes, &template).map(drop)
    }),
    case("C_WrapKey", "with AES-GCM and a nonce of the module's", WITH_NONCE, |p| {
        let nonce = Memory::of(&[3; 12]);
        let with = gcm_wrap(&nonce, CKG_GENERATE);
        let one = wrapped(p, &with, Key::Aes, Key::Generic)?;
        let first = nonce.bytes();
        let two = wrapped(p, &with, Key::Aes, Key::Generic)?;
        unwrap(p, &with, Key::Aes, &two)?;
        ensure("C_WrapKey", one.len() == SECRET.len() + 16 && one != two && first != nonce.bytes())
    }),
    case("C_WrapKey", "with AES-GCM and a nonce of the caller's", WITH_NONCE, |p| {
        let nonce = Memory::of(&[3; 12]);
        let with = gcm_wrap(&nonce, CKG_NO_GENERATE);
        let one = wrapped(p, &with, Key::Aes, Key::Generic)?;
        unwrap(p, &with, Key::Aes, &one)?;
        ensure("C_WrapKey", nonce.bytes() == [3; 12] && one == wrapped(p, &with, Key::Aes, Key::Generic)?)
    }),
    case(
        "C_WrapKeyAuthenticated",
        "with a mechanism that does not authenticate",
        &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |p| {
            let (aes, key) = (p.key(Key::Aes)?, p.key(Key::Generic)?);
            let (mut out, mut length) = ([0; 128], 128);
            let arguments = vec![
                Arg::Mechanism(&SHA256),
                Arg::Number(aes.0),
                Arg::Number(key.0),
                Arg::Bytes(b"more"),
                Arg::Buffer(&mut out, &mut length),
            ];
            p.call("C_WrapKeyAuthenticated", &p.session, arguments)
        },
    ),
    case(
        "C_WrapKeyAuthenticated",
        "of a key that must not leave",
        &[CKR_KEY_UNEXTRACTABLE, CKR_FUNCTION_NOT_SUPPORTED],
        |p| authenticated(p, Key::Sealed, &gcm_message()).map(drop),
    ),
    case(
        "C_UnwrapKeyAuthenticated",
        "gives back what was wrapped",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |p| {
            let (with, place) = (gcm_message(), Arg::place());
            let bytes = authenticated(p, Key::Generic, &with)?;
            unwrap_authenticated(p, &with, &bytes, b"more", &place)?;
            let key = ObjectHandle(place.number(0));
            ensure("C_UnwrapKeyAuthenticated", p.session.attribute(key, CKA_VALUE)? == SECRET)
        },
    ),
    case("C_UnwrapKeyAuthenticated", "with other data", AUTHENTIC, |p| {
        let with = gcm_message();
        unwrap_authenticated(p, &with, &authenticated(p, Key::Generic, &with)?, b"less", &Arg::place())
    }),
    case("C_UnwrapKeyAuthenticated", "of what was altered", AUTHENTIC, |p| {
        let with = gcm_message();
        let mut bytes = authenticated(p, Key::Generic, &with)?;
        bytes[0] ^= 1;
        unwrap_authenticated(p, &with, &bytes, b"more", &Arg::place())
    }),
];

/// The codes for a mechanism that some modules do not use for wrapping.
const WITH_NONCE: &[CK_RV] = &[CKR_OK, CKR_MECHANISM_INVALID];

/// Returns AES-GCM with CK_GCM_WRAP_PARAMS, which has a nonce generator.
fn gcm_wrap(nonce: &Memory, generator: CK_ULONG) -> Mechanism {
    let parameter = Structure::new().pointer(nonce).number(12).number(0).number(generator);
    parameter.bytes(b"more").number(128).mechanism(CKM_AES_GCM)
}

/// The codes for a wrapped key with a wrong tag.
const AUTHENTIC: &[CK_RV] = &[
    CKR_WRAPPED_KEY_INVALID,
    CKR_AEAD_DECRYPT_FAILED,
    CKR_ENCRYPTED_DATA_INVALID,
    CKR_FUNCTION_NOT_SUPPORTED,
];

/// Returns AES-GCM with a message parameter. PKCS#11 3.2, "AES-GCM Authenticated Wrap / Unwrap":
/// "AES-GCM uses … CK_GCM_MESSAGE_PARAMS for WrapKeyAuthenticated and UnwrapKeyAuthenticated." The
/// tag stays in the parameter.
fn gcm_message() -> Mechanism {
    let (nonce, tag) = (Memory::of(&[3; 12]), Memory::of(&[0; 16]));
    let parameter = Structure::new().pointer(&nonce).number(12).number(0).number(CKG_NO_GENERATE);
    parameter.pointer(&tag).number(128).mechanism(CKM_AES_GCM)
}

fn authenticated(p: &Place<'_>, key: Key, mechanism: &Mechanism) -> Result<Vec<u8>, Failure> {
    let (aes, key) = (p.key(Key::Aes)?, p.key(key)?);
    let (mut out, mut length) = (vec![0; 128], 128);
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(aes.0),
        Arg::Number(key.0),
        Arg::Bytes(b"more"),
        Arg::Buffer(&mut out, &mut length),
    ];
    p.call("C_WrapKeyAuthenticated", &p.session, arguments)?;
    out.truncate(length as usize);
    Ok(out)
}

fn unwrap_authenticated(
    p: &Place<'_>,
    mechanism: &Mechanism,
    bytes: &[u8],
    data: &[u8],
    place: &Memory,
) -> Result<(), Failure> {
    let aes = p.key(Key::Aes)?;
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(aes.0),
        Arg::Bytes(bytes),
        Arg::Template(&template),
        Arg::Bytes(data),
        Arg::Place(place),
    ];
    p.call("C_UnwrapKeyAuthenticated", &p.session, arguments)
}
