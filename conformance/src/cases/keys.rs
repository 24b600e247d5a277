//! "Key management functions": keys made, wrapped, unwrapped, derived.

use cryptoki_sys::*;
use jeton_driver::client::{Arg, Attribute, Failure, Mechanism, Structure};

use super::{Case, ECDSA, NO_MECHANISM, SHA256, case};
use crate::place::{Key, NO_OBJECT, P256, Place, SECRET, able, ensure, open_key, with};

static KW: Mechanism = Mechanism::new(CKM_AES_KEY_WRAP);
static AES_GEN: Mechanism = Mechanism::new(CKM_AES_KEY_GEN);
static EC_GEN: Mechanism = Mechanism::new(CKM_EC_KEY_PAIR_GEN);
static RSA_GEN: Mechanism = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
const BAD_VALUE: &[CK_RV] = &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_KEY_SIZE_RANGE, CKR_TEMPLATE_INCONSISTENT];

/// A key of that many bytes.
fn sized(bytes: CK_ULONG) -> Vec<Attribute> {
    vec![Attribute::flag(CKA_TOKEN, false), Attribute::number(CKA_VALUE_LEN, bytes)]
}

fn generated(p: &Place<'_>, template: &[Attribute]) -> Result<(), Failure> {
    p.session.generate_key(&AES_GEN, template).map(drop)
}

fn wrapped(p: &Place<'_>, mechanism: &Mechanism, wrapping: Key, key: Key) -> Result<Vec<u8>, Failure> {
    let mut out = vec![0; 4096];
    let length = p.session.wrap_key(mechanism, p.key(wrapping)?, p.key(key)?, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Unwraps as a generic secret.
fn unwrap(p: &Place<'_>, mechanism: &Mechanism, key: Key, bytes: &[u8]) -> Result<(), Failure> {
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    p.session.unwrap_key(mechanism, p.key(key)?, bytes, &template).map(drop)
}

/// ECDH with that public value.
fn ecdh(kdf: CK_ULONG, public: &[u8]) -> Mechanism {
    Structure::new().number(kdf).counted(&[]).counted(public).mechanism(CKM_ECDH1_DERIVE)
}

fn agreed(p: &Place<'_>, mechanism: &Mechanism, more: &[Attribute]) -> Result<(), Failure> {
    let template = [open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), more.to_vec()].concat();
    p.session.derive_key(mechanism, p.key(Key::Ec)?, &template).map(drop)
}

/// The raw point of the place's own pair.
fn point(p: &Place<'_>) -> Result<Vec<u8>, Failure> {
    let point = p.session.attribute(p.pair(Key::Ec)?.public, CKA_EC_POINT)?;
    Ok(point[2..].to_vec())
}

pub const CASES: &[Case] = &[
    case("C_GenerateKey", "with a mechanism that is not there", &[CKR_MECHANISM_INVALID], |p| {
        p.session.generate_key(&NO_MECHANISM, &sized(32)).map(drop)
    }),
    case("C_GenerateKey", "with a mechanism that makes no key", &[CKR_MECHANISM_INVALID], |p| {
        p.session.generate_key(&SHA256, &sized(32)).map(drop)
    }),
    case("C_GenerateKey", "of AES without a length", &[CKR_TEMPLATE_INCOMPLETE], |p| generated(p, &[])),
    case("C_GenerateKey", "of AES with 17 bytes", BAD_VALUE, |p| generated(p, &sized(17))),
    case(
        "C_GenerateKey",
        "with a value",
        &[CKR_ATTRIBUTE_TYPE_INVALID, CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT],
        |p| generated(p, &with(sized(32), Attribute::bytes(CKA_VALUE, SECRET))),
    ),
    case(
        "C_GenerateKey",
        "of another class",
        &[CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_VALUE_INVALID],
        |p| generated(p, &with(sized(32), Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY))),
    ),
    case(
        "C_GenerateKey",
        "of another type",
        &[CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_VALUE_INVALID],
        |p| generated(p, &with(sized(32), Attribute::number(CKA_KEY_TYPE, CKK_RSA))),
    ),
    case(
        "C_GenerateKey",
        "with a parameter that the mechanism has not",
        &[CKR_MECHANISM_PARAM_INVALID],
        |p| p.session.generate_key(&Mechanism::with_bytes(CKM_AES_KEY_GEN, &[1; 8]), &sized(32)).map(drop),
    ),
    case("C_GenerateKey", "of a token key in a read-only session", &[CKR_SESSION_READ_ONLY], |p| {
        let template = [Attribute::flag(CKA_TOKEN, true), Attribute::number(CKA_VALUE_LEN, 32)];
        p.reader()?.generate_key(&AES_GEN, &template).map(drop)
    }),
    case("C_GenerateKey", "of a private key while nobody is logged in", &[CKR_USER_NOT_LOGGED_IN], |p| {
        p.logged_out(|session| {
            session.generate_key(&AES_GEN, &with(sized(32), Attribute::flag(CKA_PRIVATE, true))).map(drop)
        })
    }),
    case("C_GenerateKey", "makes a key that knows where it is from", &[CKR_OK], |p| {
        let template =
            [sized(32), vec![Attribute::flag(CKA_SENSITIVE, true), Attribute::flag(CKA_EXTRACTABLE, false)]];
        let key = p.session.generate_key(&AES_GEN, &template.concat())?;
        for flag in [CKA_LOCAL, CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE] {
            ensure("C_GenerateKey", p.session.attribute(key, flag)? == [1])?;
        }
        let mechanism = p.session.attribute(key, CKA_KEY_GEN_MECHANISM)?;
        ensure("C_GenerateKey", mechanism == CKM_AES_KEY_GEN.to_ne_bytes())
    }),
    case("C_GenerateKeyPair", "with a mechanism that makes no pair", &[CKR_MECHANISM_INVALID], |p| {
        p.session.generate_key_pair(&AES_GEN, &[], &[]).map(drop)
    }),
    case("C_GenerateKeyPair", "without a curve", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        p.session.generate_key_pair(&EC_GEN, &[], &[]).map(drop)
    }),
    case(
        "C_GenerateKeyPair",
        "on a curve that is none",
        &[
            CKR_CURVE_NOT_SUPPORTED,
            CKR_DOMAIN_PARAMS_INVALID,
            CKR_ATTRIBUTE_VALUE_INVALID,
            CKR_TEMPLATE_INCONSISTENT,
        ],
        |p| {
            p.session
                .generate_key_pair(&EC_GEN, &[Attribute::bytes(CKA_EC_PARAMS, [6, 3, 0x2a, 3, 4])], &[])
                .map(drop)
        },
    ),
    case("C_GenerateKeyPair", "of RSA without a length", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        p.session
            .generate_key_pair(&RSA_GEN, &[Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])], &[])
            .map(drop)
    }),
    case("C_GenerateKeyPair", "of RSA with 128 bits", BAD_VALUE, |p| {
        p.session.generate_key_pair(&RSA_GEN, &[Attribute::number(CKA_MODULUS_BITS, 128)], &[]).map(drop)
    }),
    case(
        "C_GenerateKeyPair",
        "of RSA with an even exponent",
        &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_TEMPLATE_INCONSISTENT],
        |p| {
            let public =
                [Attribute::number(CKA_MODULUS_BITS, 2048), Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 0])];
            p.session.generate_key_pair(&RSA_GEN, &public, &[]).map(drop)
        },
    ),
    case("C_GenerateKeyPair", "of token keys in a read-only session", &[CKR_SESSION_READ_ONLY], |p| {
        let token = Attribute::flag(CKA_TOKEN, true);
        let public = [Attribute::bytes(CKA_EC_PARAMS, P256), token.clone()];
        p.reader()?.generate_key_pair(&EC_GEN, &public, &[token]).map(drop)
    }),
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
    case("C_DeriveKey", "with a mechanism that does not derive", &[CKR_MECHANISM_INVALID], |p| {
        agreed(p, &ECDSA, &[])
    }),
    case("C_DeriveKey", "with a handle that names no key", &[CKR_KEY_HANDLE_INVALID], |p| {
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        p.session.derive_key(&ecdh(CKD_NULL, &point(p)?), NO_OBJECT, &template).map(drop)
    }),
    case(
        "C_DeriveKey",
        "with a key that must not derive",
        &[CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_TYPE_INCONSISTENT],
        |p| {
            let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
            let mechanism = Structure::new().bytes(&[0; 16]).mechanism(CKM_AES_ECB_ENCRYPT_DATA);
            p.session.derive_key(&mechanism, p.key(Key::Idle)?, &template).map(drop)
        },
    ),
    case("C_DeriveKey", "with a key of another type", &[CKR_KEY_TYPE_INCONSISTENT], |p| {
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        p.session.derive_key(&ecdh(CKD_NULL, &point(p)?), p.key(Key::Generic)?, &template).map(drop)
    }),
    case("C_DeriveKey", "without a parameter", &[CKR_MECHANISM_PARAM_INVALID], |p| {
        agreed(p, &Mechanism::new(CKM_ECDH1_DERIVE), &[])
    }),
    case(
        "C_DeriveKey",
        "with a derivation function that is not there",
        &[CKR_MECHANISM_PARAM_INVALID],
        |p| agreed(p, &ecdh(0x7fff_fff0, &point(p)?), &[]),
    ),
    case(
        "C_DeriveKey",
        "with a point that is not on the curve",
        &[CKR_MECHANISM_PARAM_INVALID, CKR_DATA_INVALID, CKR_PUBLIC_KEY_INVALID, CKR_DOMAIN_PARAMS_INVALID],
        |p| {
            agreed(
                p,
                &ecdh(CKD_NULL, &[&[4][..], &[1; 64]].concat()),
                &[Attribute::number(CKA_VALUE_LEN, 32)],
            )
        },
    ),
    case(
        "C_DeriveKey",
        "of more bytes than there are",
        &[CKR_KEY_SIZE_RANGE, CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_VALUE_INVALID],
        |p| agreed(p, &ecdh(CKD_NULL, &point(p)?), &[Attribute::number(CKA_VALUE_LEN, 33)]),
    ),
    case("C_DeriveKey", "of what both sides agree on", &[CKR_OK], |p| {
        let public = [Attribute::bytes(CKA_EC_PARAMS, P256)];
        let (theirs, private) =
            p.session.generate_key_pair(&EC_GEN, &public, &able(vec![], &[CKA_DERIVE]))?;
        let their_point = p.session.attribute(theirs, CKA_EC_POINT)?[2..].to_vec();
        let template =
            with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Attribute::number(CKA_VALUE_LEN, 32));
        let one = p.session.derive_key(&ecdh(CKD_NULL, &their_point), p.key(Key::Ec)?, &template)?;
        let two = p.session.derive_key(&ecdh(CKD_NULL, &point(p)?), private, &template)?;
        ensure("C_DeriveKey", p.session.attribute(one, CKA_VALUE)? == p.session.attribute(two, CKA_VALUE)?)
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
        |p| authenticated(p, Key::Sealed).map(drop),
    ),
    case(
        "C_UnwrapKeyAuthenticated",
        "gives back what was wrapped",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |p| {
            let (bytes, place) = (authenticated(p, Key::Generic)?, Arg::place());
            unwrap_authenticated(p, &bytes, b"more", &place)?;
            let key = jeton_driver::client::ObjectHandle(place.number(0));
            ensure("C_UnwrapKeyAuthenticated", p.session.attribute(key, CKA_VALUE)? == SECRET)
        },
    ),
    case("C_UnwrapKeyAuthenticated", "with other data", AUTHENTIC, |p| {
        unwrap_authenticated(p, &authenticated(p, Key::Generic)?, b"less", &Arg::place())
    }),
    case("C_UnwrapKeyAuthenticated", "of what was altered", AUTHENTIC, |p| {
        let mut bytes = authenticated(p, Key::Generic)?;
        bytes[0] ^= 1;
        unwrap_authenticated(p, &bytes, b"more", &Arg::place())
    }),
];

/// A wrapped key whose tag is wrong.
const AUTHENTIC: &[CK_RV] = &[
    CKR_WRAPPED_KEY_INVALID,
    CKR_AEAD_DECRYPT_FAILED,
    CKR_ENCRYPTED_DATA_INVALID,
    CKR_FUNCTION_NOT_SUPPORTED,
];

/// PKCS#11 3.2, "AES-GCM": CK_GCM_WRAP_PARAMS, the parameter that says where the nonce comes from.
fn gcm_wrap() -> Mechanism {
    let nonce = jeton_driver::client::Memory::of(&[3; 12]);
    let parameter = Structure::new().pointer(&nonce).number(12).number(0).number(CKG_NO_GENERATE).number(128);
    parameter.mechanism(CKM_AES_GCM)
}

fn authenticated(p: &Place<'_>, key: Key) -> Result<Vec<u8>, Failure> {
    let (aes, key, mechanism) = (p.key(Key::Aes)?, p.key(key)?, gcm_wrap());
    let (mut out, mut length) = (vec![0; 128], 128);
    let arguments = vec![
        Arg::Mechanism(&mechanism),
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
    bytes: &[u8],
    data: &[u8],
    place: &jeton_driver::client::Memory,
) -> Result<(), Failure> {
    let (aes, mechanism) = (p.key(Key::Aes)?, gcm_wrap());
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let arguments = vec![
        Arg::Mechanism(&mechanism),
        Arg::Number(aes.0),
        Arg::Bytes(bytes),
        Arg::Template(&template),
        Arg::Bytes(data),
        Arg::Place(place),
    ];
    p.call("C_UnwrapKeyAuthenticated", &p.session, arguments)
}
