//! "Key management functions": wrapping and unwrapping of keys, also with authenticated data.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Failure, Mechanism, Memory, ObjectHandle, Structure};

use super::{Case, ECDSA, SHA256, case};
use crate::fixture::{Fixture, Key, NO_OBJECT, SECRET, able, ensure, open_key, with};

static KW: Mechanism = Mechanism::new(CKM_AES_KEY_WRAP);

fn wrapped(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    wrapping: Key,
    key: Key,
) -> Result<Vec<u8>, Failure> {
    let mut out = vec![0; 4096];
    let length = fixture.session.wrap_key(mechanism, fixture.key(wrapping)?, fixture.key(key)?, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Unwraps a key as a generic secret.
fn unwrap(fixture: &Fixture<'_>, mechanism: &Mechanism, key: Key, bytes: &[u8]) -> Result<(), Failure> {
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    fixture.session.unwrap_key(mechanism, fixture.key(key)?, bytes, &template).map(drop)
}

pub const CASES: &[Case] = &[
    case(
        "C_WrapKey",
        "with a mechanism that does not wrap",
        &[CKR_MECHANISM_INVALID, CKR_WRAPPING_KEY_TYPE_INCONSISTENT],
        |fixture| wrapped(fixture, &ECDSA, Key::Aes, Key::Generic).map(drop),
    ),
    case("C_WrapKey", "with an invalid wrapping key handle", &[CKR_WRAPPING_KEY_HANDLE_INVALID], |fixture| {
        fixture.session.wrap_key(&KW, NO_OBJECT, fixture.key(Key::Generic)?, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "with an invalid key handle", &[CKR_KEY_HANDLE_INVALID], |fixture| {
        fixture.session.wrap_key(&KW, fixture.key(Key::Aes)?, NO_OBJECT, &mut [0; 64]).map(drop)
    }),
    case(
        "C_WrapKey",
        "with a wrapping key of another type",
        &[CKR_WRAPPING_KEY_TYPE_INCONSISTENT],
        |fixture| wrapped(fixture, &KW, Key::Ec, Key::Generic).map(drop),
    ),
    case("C_WrapKey", "with a key without CKA_WRAP", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |fixture| {
        wrapped(fixture, &KW, Key::Idle, Key::Generic).map(drop)
    }),
    case("C_WrapKey", "of a key with CKA_EXTRACTABLE false", &[CKR_KEY_UNEXTRACTABLE], |fixture| {
        wrapped(fixture, &KW, Key::Aes, Key::Sealed).map(drop)
    }),
    case("C_WrapKey", "of a key with CKA_WRAP_WITH_TRUSTED", &[CKR_KEY_NOT_WRAPPABLE], |fixture| {
        let template =
            with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Attribute::bytes(CKA_VALUE, SECRET));
        let key = fixture.session.create_object(&able(template, &[CKA_WRAP_WITH_TRUSTED]))?;
        fixture.session.wrap_key(&KW, fixture.key(Key::Aes)?, key, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        fixture
            .session
            .wrap_key(&KW, fixture.key(Key::Aes)?, fixture.key(Key::Generic)?, &mut [0; 39])
            .map(drop)
    }),
    case("C_WrapKey", "with NULL for the buffer", &[CKR_OK], |fixture| {
        let (aes, key, mut length) = (fixture.key(Key::Aes)?, fixture.key(Key::Generic)?, 0);
        let arguments =
            vec![Arg::Mechanism(&KW), Arg::Number(aes.0), Arg::Number(key.0), Arg::NoBuffer(&mut length)];
        fixture.call("C_WrapKey", &fixture.session, arguments)?;
        ensure("C_WrapKey", length >= 40)
    }),
    case("C_UnwrapKey", "of a wrapped key", &[CKR_OK], |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let key = fixture.session.unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &template)?;
        ensure("C_UnwrapKey", fixture.session.attribute(key, CKA_VALUE)? == SECRET)
    }),
    case("C_UnwrapKey", "sets CKA_LOCAL to false", &[CKR_OK], |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let key = fixture.session.unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &template)?;
        ensure(
            "C_UnwrapKey",
            fixture.session.attribute(key, CKA_LOCAL)? == [0]
                && fixture.session.attribute(key, CKA_ALWAYS_SENSITIVE)? == [0],
        )
    }),
    case("C_UnwrapKey", "with an invalid key handle", &[CKR_UNWRAPPING_KEY_HANDLE_INVALID], |fixture| {
        fixture
            .session
            .unwrap_key(&KW, NO_OBJECT, &[1; 40], &open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET))
            .map(drop)
    }),
    case("C_UnwrapKey", "with a key of another type", &[CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT], |fixture| {
        unwrap(fixture, &KW, Key::Ec, &[1; 40])
    }),
    case("C_UnwrapKey", "with a key without CKA_UNWRAP", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |fixture| {
        unwrap(fixture, &KW, Key::Idle, &[1; 40])
    }),
    case("C_UnwrapKey", "of an altered wrapped key", &[CKR_WRAPPED_KEY_INVALID], |fixture| {
        let mut bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        bytes[3] ^= 1;
        unwrap(fixture, &KW, Key::Aes, &bytes)
    }),
    case(
        "C_UnwrapKey",
        "of an impossible length",
        &[CKR_WRAPPED_KEY_LEN_RANGE, CKR_WRAPPED_KEY_INVALID],
        |fixture| unwrap(fixture, &KW, Key::Aes, &[1; 39]),
    ),
    case("C_UnwrapKey", "without CKA_CLASS", &[CKR_TEMPLATE_INCOMPLETE], |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        fixture
            .session
            .unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &[Attribute::flag(CKA_TOKEN, false)])
            .map(drop)
    }),
    case(
        "C_UnwrapKey",
        "of bytes that are not a private key",
        &[CKR_WRAPPED_KEY_INVALID, CKR_WRAPPED_KEY_LEN_RANGE],
        |fixture| {
            let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
            fixture
                .session
                .unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &open_key(CKO_PRIVATE_KEY, CKK_EC))
                .map(drop)
        },
    ),
    case("C_UnwrapKey", "of a token key in a read-only session", &[CKR_SESSION_READ_ONLY], |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        template[2] = Attribute::flag(CKA_TOKEN, true);
        fixture.reader()?.unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &template).map(drop)
    }),
    case("C_WrapKey", "with AES-GCM and a generated nonce", WITH_NONCE, |fixture| {
        let nonce = Memory::of(&[3; 12]);
        let with = gcm_wrap(&nonce, CKG_GENERATE);
        let one = wrapped(fixture, &with, Key::Aes, Key::Generic)?;
        let first = nonce.bytes();
        let two = wrapped(fixture, &with, Key::Aes, Key::Generic)?;
        unwrap(fixture, &with, Key::Aes, &two)?;
        ensure("C_WrapKey", one.len() == SECRET.len() + 16 && one != two && first != nonce.bytes())
    }),
    case("C_WrapKey", "with AES-GCM and a given nonce", WITH_NONCE, |fixture| {
        let nonce = Memory::of(&[3; 12]);
        let with = gcm_wrap(&nonce, CKG_NO_GENERATE);
        let one = wrapped(fixture, &with, Key::Aes, Key::Generic)?;
        unwrap(fixture, &with, Key::Aes, &one)?;
        ensure(
            "C_WrapKey",
            nonce.bytes() == [3; 12] && one == wrapped(fixture, &with, Key::Aes, Key::Generic)?,
        )
    }),
    case(
        "C_WrapKeyAuthenticated",
        "with a mechanism that does not authenticate",
        &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let (aes, key) = (fixture.key(Key::Aes)?, fixture.key(Key::Generic)?);
            let (mut out, mut length) = ([0; 128], 128);
            let arguments = vec![
                Arg::Mechanism(&SHA256),
                Arg::Number(aes.0),
                Arg::Number(key.0),
                Arg::Bytes(b"more"),
                Arg::Buffer(&mut out, &mut length),
            ];
            fixture.call("C_WrapKeyAuthenticated", &fixture.session, arguments)
        },
    ),
    case(
        "C_WrapKeyAuthenticated",
        "of a key with CKA_EXTRACTABLE false",
        &[CKR_KEY_UNEXTRACTABLE, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| authenticated(fixture, Key::Sealed, &gcm_message()).map(drop),
    ),
    case(
        "C_UnwrapKeyAuthenticated",
        "returns the wrapped key",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let (with, output) = (gcm_message(), Arg::zeroed());
            let bytes = authenticated(fixture, Key::Generic, &with)?;
            unwrap_authenticated(fixture, &with, &bytes, b"more", &output)?;
            let key = ObjectHandle(output.number(0));
            ensure("C_UnwrapKeyAuthenticated", fixture.session.attribute(key, CKA_VALUE)? == SECRET)
        },
    ),
    case("C_UnwrapKeyAuthenticated", "with other associated data", AUTHENTIC, |fixture| {
        let with = gcm_message();
        unwrap_authenticated(
            fixture,
            &with,
            &authenticated(fixture, Key::Generic, &with)?,
            b"less",
            &Arg::zeroed(),
        )
    }),
    case("C_UnwrapKeyAuthenticated", "of an altered wrapped key", AUTHENTIC, |fixture| {
        let with = gcm_message();
        let mut bytes = authenticated(fixture, Key::Generic, &with)?;
        bytes[0] ^= 1;
        unwrap_authenticated(fixture, &with, &bytes, b"more", &Arg::zeroed())
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
/// "AES-GCM uses … CK_GCM_MESSAGE_PARAMS for WrapKeyAuthenticated and UnwrapKeyAuthenticated."
/// C_WrapKeyAuthenticated writes the tag to the parameter.
fn gcm_message() -> Mechanism {
    let (nonce, tag) = (Memory::of(&[3; 12]), Memory::of(&[0; 16]));
    let parameter = Structure::new().pointer(&nonce).number(12).number(0).number(CKG_NO_GENERATE);
    parameter.pointer(&tag).number(128).mechanism(CKM_AES_GCM)
}

fn authenticated(fixture: &Fixture<'_>, key: Key, mechanism: &Mechanism) -> Result<Vec<u8>, Failure> {
    let (aes, key) = (fixture.key(Key::Aes)?, fixture.key(key)?);
    let (mut out, mut length) = (vec![0; 128], 128);
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(aes.0),
        Arg::Number(key.0),
        Arg::Bytes(b"more"),
        Arg::Buffer(&mut out, &mut length),
    ];
    fixture.call("C_WrapKeyAuthenticated", &fixture.session, arguments)?;
    out.truncate(length as usize);
    Ok(out)
}

fn unwrap_authenticated(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    bytes: &[u8],
    data: &[u8],
    output: &Memory,
) -> Result<(), Failure> {
    let aes = fixture.key(Key::Aes)?;
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(aes.0),
        Arg::Bytes(bytes),
        Arg::Template(&template),
        Arg::Bytes(data),
        Arg::Output(output),
    ];
    fixture.call("C_UnwrapKeyAuthenticated", &fixture.session, arguments)
}
