//! "Key management functions": wrapping and unwrapping of keys, also with authenticated data.

use cryptoki_sys::*;
use jeton_client::names::{CKK_JETON_COMPOSITE_ML_DSA, CKM_JETON_COMPOSITE_ML_DSA};
use jeton_client::{Arg, Attribute, Mechanism, Memory, ObjectHandle, Structure};

use super::calls::{Calls, TOO_SMALL, listed, message, refused};
use super::messages::{AUTHENTIC, MORE, Message, key_of};
use super::{
    BAD_HANDLE, BAD_MECHANISM, Case, ECDSA, INCOMPLETE, NOT_PERMITTED, OR_ABSENT, READ_ONLY, SHA256, case,
    gcm, optional,
};
use crate::fixture::{
    Answer, Fixture, Key, NO_OBJECT, P256, SECRET, X25519, able, bytes, ensure, flag, hex, number, open_key,
    with,
};
use crate::task::Task;

static KW: Mechanism = Mechanism::new(CKM_AES_KEY_WRAP);
/// The codes for bytes that are not a wrapped key.
const DAMAGED: &[CK_RV] = &[CKR_WRAPPED_KEY_LEN_RANGE, CKR_WRAPPED_KEY_INVALID];

fn wrapped(fixture: &Fixture<'_>, mechanism: &Mechanism, wrapping: Key, key: Key) -> Answer<Vec<u8>> {
    let mut out = vec![0; 4096];
    let length = fixture.wrap_key(mechanism, fixture.key(wrapping)?, fixture.key(key)?, &mut out)?;
    out.truncate(length);
    Ok(out)
}

fn unwrap(fixture: &Fixture<'_>, mechanism: &Mechanism, key: Key, bytes: &[u8]) -> Answer {
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    fixture.unwrap_key(mechanism, fixture.key(key)?, bytes, &template).map(drop)
}

const NO_WRAPPING: &[CK_RV] = &[CKR_MECHANISM_INVALID, CKR_WRAPPING_KEY_TYPE_INCONSISTENT];
const WRONG_TYPE: &[CK_RV] = &[CKR_WRAPPING_KEY_TYPE_INCONSISTENT];
const UNEXTRACTABLE: &[CK_RV] = &[CKR_KEY_UNEXTRACTABLE];

pub const CASES: &[Case] = &[
    case("C_WrapKey", "with a mechanism that does not wrap", NO_WRAPPING, |fixture| {
        wrapped(fixture, &ECDSA, Key::Aes, Key::Generic).map(drop)
    }),
    case("C_WrapKey", "with an invalid wrapping key handle", &[CKR_WRAPPING_KEY_HANDLE_INVALID], |fixture| {
        fixture.wrap_key(&KW, NO_OBJECT, fixture.key(Key::Generic)?, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "with an invalid key handle", BAD_HANDLE, |fixture| {
        fixture.wrap_key(&KW, fixture.key(Key::Aes)?, NO_OBJECT, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "with a wrapping key of another type", WRONG_TYPE, |fixture| {
        wrapped(fixture, &KW, Key::Ec, Key::Generic).map(drop)
    }),
    case("C_WrapKey", "with a key without CKA_WRAP", NOT_PERMITTED, |fixture| {
        wrapped(fixture, &KW, Key::Idle, Key::Generic).map(drop)
    }),
    case("C_WrapKey", "of a key with CKA_EXTRACTABLE false", UNEXTRACTABLE, |fixture| {
        wrapped(fixture, &KW, Key::Aes, Key::Sealed).map(drop)
    }),
    case("C_WrapKey", "of a key with CKA_WRAP_WITH_TRUSTED", &[CKR_KEY_NOT_WRAPPABLE], |fixture| {
        let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), bytes(CKA_VALUE, SECRET));
        let key = fixture.create_object(&able(template, &[CKA_WRAP_WITH_TRUSTED]))?;
        fixture.wrap_key(&KW, fixture.key(Key::Aes)?, key, &mut [0; 64]).map(drop)
    }),
    case("C_WrapKey", "with NULL for the buffer", &[CKR_OK], |fixture| {
        let (aes, key, mut length) = (fixture.key(Key::Aes)?, fixture.key(Key::Generic)?, 0);
        let arguments =
            vec![Arg::Mechanism(&KW), Arg::Number(aes.0), Arg::Number(key.0), Arg::NoBuffer(&mut length)];
        fixture.call("C_WrapKey", &fixture.session, arguments)?;
        ensure("C_WrapKey", length >= 40)
    }),
    case("C_UnwrapKey", "with an invalid key handle", &[CKR_UNWRAPPING_KEY_HANDLE_INVALID], |fixture| {
        fixture.unwrap_key(&KW, NO_OBJECT, &[1; 40], &open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET)).map(drop)
    }),
    case("C_UnwrapKey", "with a key of another type", &[CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT], |fixture| {
        unwrap(fixture, &KW, Key::Ec, &[1; 40])
    }),
    case("C_UnwrapKey", "with a key without CKA_UNWRAP", NOT_PERMITTED, |fixture| {
        unwrap(fixture, &KW, Key::Idle, &[1; 40])
    }),
    case("C_UnwrapKey", "of an altered wrapped key", &[CKR_WRAPPED_KEY_INVALID], |fixture| {
        let mut bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        bytes[3] ^= 1;
        unwrap(fixture, &KW, Key::Aes, &bytes)
    }),
    case("C_UnwrapKey", "of an impossible length", DAMAGED, |fixture| {
        unwrap(fixture, &KW, Key::Aes, &[1; 39])
    }),
    case("C_UnwrapKey", "with a length that contradicts the key", &[CKR_WRAPPED_KEY_LEN_RANGE], |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        let template = with(open_key(CKO_SECRET_KEY, CKK_AES), number(CKA_VALUE_LEN, 16));
        fixture.unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &template).map(drop)
    }),
    case("C_UnwrapKey", "without CKA_CLASS", INCOMPLETE, |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        fixture.unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &[flag(CKA_TOKEN, false)]).map(drop)
    }),
    case("C_UnwrapKey", "of bytes that are not a private key", DAMAGED, |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        fixture.unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &open_key(CKO_PRIVATE_KEY, CKK_EC)).map(drop)
    }),
    case("C_UnwrapKey", "of a token key in a read-only session", READ_ONLY, |fixture| {
        let bytes = wrapped(fixture, &KW, Key::Aes, Key::Generic)?;
        let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        template[2] = flag(CKA_TOKEN, true);
        fixture.reader()?.unwrap_key(&KW, fixture.key(Key::Aes)?, &bytes, &template).map(drop)
    }),
    case("C_WrapKey", "with AES-GCM and a generated nonce", OR_ABSENT, |fixture| {
        let nonce = Memory::of(&[3; 12]);
        generates(fixture, &gcm_wrap(&nonce, CKG_GENERATE), &nonce)
    }),
    case("C_WrapKey", "with AES-CCM and a generated nonce", OR_ABSENT, |fixture| {
        let nonce = Memory::of(&[3; 12]);
        let parameter = Structure::new().number(0).pointer(&nonce).number(12).number(0);
        let parameter = parameter.number(CKG_GENERATE).bytes(b"more").number(16);
        generates(fixture, &parameter.mechanism(CKM_AES_CCM), &nonce)
    }),
    case("C_WrapKey", "with AES-GCM and a given nonce", OR_ABSENT, |fixture| {
        let nonce = Memory::of(&[3; 12]);
        let with = gcm_wrap(&nonce, CKG_NO_GENERATE);
        let one = wrapped(fixture, &with, Key::Aes, Key::Generic)?;
        unwrap(fixture, &with, Key::Aes, &one)?;
        ensure(
            "C_WrapKey",
            nonce.bytes() == [3; 12] && one == wrapped(fixture, &with, Key::Aes, Key::Generic)?,
        )
    }),
    // PKCS#11 3.2, "AES-CCM Wrap and UnWrap": `ulDataLen` is ignored.
    case("C_WrapKey", "with AES-CCM and a data length of 0", OR_ABSENT, |fixture| {
        let parameter = Structure::new().number(0).bytes(&[3; 13]).bytes(b"more").number(8);
        let with = parameter.mechanism(CKM_AES_CCM);
        let one = wrapped(fixture, &with, Key::Aes, Key::Generic)?;
        unwrap(fixture, &with, Key::Aes, &one)?;
        ensure("C_WrapKey", one.len() == SECRET.len() + 8)
    }),
    optional(
        "C_WrapKeyAuthenticated",
        "with a mechanism that does not authenticate",
        BAD_MECHANISM,
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
    optional("C_WrapKeyAuthenticated", "of a key with CKA_EXTRACTABLE false", UNEXTRACTABLE, |fixture| {
        wrap_authenticated(fixture, Key::Aes, Key::Sealed)
    }),
    optional("C_WrapKeyAuthenticated", "with a key without CKA_WRAP", NOT_PERMITTED, |fixture| {
        wrap_authenticated(fixture, Key::Idle, Key::Generic)
    }),
    optional("C_UnwrapKeyAuthenticated", "with a key without CKA_UNWRAP", NOT_PERMITTED, |fixture| {
        let message = Message::of(CKM_AES_GCM, &[3; 12], &[0; 16], SECRET.len());
        let mechanism = message.parameter().mechanism(CKM_AES_GCM);
        let (template, key) = (open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Arg::zeroed());
        let arguments = vec![
            Arg::Mechanism(&mechanism),
            Arg::Number(fixture.key(Key::Idle)?.0),
            Arg::Bytes(&SECRET),
            Arg::Template(&template),
            Arg::Bytes(MORE),
            Arg::Output(&key),
        ];
        fixture.call("C_UnwrapKeyAuthenticated", &fixture.session, arguments)
    }),
];

fn wrap_authenticated(fixture: &Fixture<'_>, wrapping: Key, key: Key) -> Answer {
    let message = Message::of(CKM_AES_GCM, &[3; 12], &[0; 16], SECRET.len());
    let mechanism = message.parameter().mechanism(CKM_AES_GCM);
    let (wrapping, key) = (fixture.key(wrapping)?.0, fixture.key(key)?.0);
    let input = vec![Arg::Mechanism(&mechanism), Arg::Number(wrapping), Arg::Number(key), Arg::Bytes(MORE)];
    Calls::new(fixture)?.fill("C_WrapKeyAuthenticated", input, &mut [0; 128]).1
}

/// Checks that each wrapping has a new nonce, and that the last one unwraps.
fn generates(fixture: &Fixture<'_>, with: &Mechanism, nonce: &Memory) -> Answer {
    let one = wrapped(fixture, with, Key::Aes, Key::Generic)?;
    let first = nonce.bytes();
    let two = wrapped(fixture, with, Key::Aes, Key::Generic)?;
    unwrap(fixture, with, Key::Aes, &two)?;
    ensure("C_WrapKey", one.len() == SECRET.len() + 16 && one != two && first != nonce.bytes())
}

fn gcm_wrap(nonce: &Memory, generator: CK_ULONG) -> Mechanism {
    let parameter = Structure::new().pointer(nonce).number(12).number(0).number(generator);
    parameter.bytes(b"more").number(128).mechanism(CKM_AES_GCM)
}

const INAUTHENTIC: &[CK_RV] = &[
    CKR_WRAPPED_KEY_INVALID,
    CKR_AEAD_DECRYPT_FAILED,
    CKR_ENCRYPTED_DATA_INVALID,
    CKR_FUNCTION_NOT_SUPPORTED,
];

/// A mechanism that wraps, with its parameter, its key, and whether it adds bytes to the wrapped
/// key that C_UnwrapKey cannot recognise.
type Wrap = (CK_MECHANISM_TYPE, fn(CK_MECHANISM_TYPE) -> Mechanism, Key, bool);

const WRAPS: &[Wrap] = &[
    (CKM_AES_KEY_WRAP, Mechanism::new, Key::Aes, false),
    (CKM_AES_KEY_WRAP_KWP, Mechanism::new, Key::Aes, false),
    (CKM_AES_KEY_WRAP_PAD, Mechanism::new, Key::Aes, false),
    (CKM_AES_KEY_WRAP_PKCS7, Mechanism::new, Key::Aes, false),
    (CKM_AES_ECB, Mechanism::new, Key::Aes, true),
    (CKM_AES_CBC, iv, Key::Aes, true),
    (CKM_AES_CBC_PAD, iv, Key::Aes, false),
    (CKM_AES_GCM, |_| gcm(128), Key::Aes, false),
    (CKM_RSA_PKCS_OAEP, |kind| oaep().mechanism(kind), Key::Rsa, false),
    (
        CKM_RSA_AES_KEY_WRAP,
        |kind| Structure::new().number(256).structure(oaep()).mechanism(kind),
        Key::Rsa,
        false,
    ),
];

fn iv(kind: CK_MECHANISM_TYPE) -> Mechanism {
    Mechanism::with_bytes(kind, &[3; 16])
}

fn oaep() -> Structure {
    Structure::new().number(CKM_SHA_1).number(CKG_MGF1_SHA1).number(CKZ_DATA_SPECIFIED).bytes(b"")
}

pub fn tasks() -> Vec<Task> {
    let secrets = WRAPS.iter().map(|wrap| {
        let name = "of secret keys of several lengths, with {}";
        listed("C_UnwrapKey", name, (wrap.0, CKF_WRAP | CKF_UNWRAP), &[], |fixture| {
            secret_keys(fixture, wrap)
        })
    });
    // The length of a private key is seldom a multiple of 8 bytes, as AES key wrap needs it.
    let short = |kind| [CKM_RSA_PKCS_OAEP, CKM_AES_KEY_WRAP].contains(&kind);
    let private = WRAPS.iter().filter(move |(kind, .., pads)| !pads && !short(*kind)).map(|wrap| {
        let name = "of private keys of each type, with {}";
        listed("C_UnwrapKey", name, (wrap.0, CKF_WRAP | CKF_UNWRAP), &[], |fixture| {
            private_keys(fixture, wrap)
        })
    });
    let known = KNOWN.iter().map(|known| {
        let name = format!("of a key that another library wrapped, with {{}}{}", known.variant);
        listed("C_UnwrapKey", &name, (known.kind, CKF_UNWRAP), &[], |fixture| known_answer(fixture, known))
    });
    let authentic = AUTHENTIC.into_iter().map(|(kind, _)| {
        let codes = &[CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID];
        let name = "wraps as C_WrapKey does, with {}";
        listed("C_WrapKeyAuthenticated", name, (kind, CKF_WRAP), codes, move |fixture| {
            both_wrap(fixture, kind)
        })
    });
    let name = "with keys that do and do not fit, with {}";
    let agreed = listed("C_WrapKey", name, (CKM_ECDH_AES_KEY_WRAP, CKF_WRAP), &[], agreeing_keys);
    secrets.chain(private).chain(known).chain(authentic).chain([agreed]).collect()
}

fn count(fixture: &Fixture<'_>) -> Answer<usize> {
    fixture.find(&[]).map(|found| found.len())
}

fn secret_keys(fixture: &Fixture<'_>, (kind, parameter, key, pads): &Wrap) -> Answer {
    let (mechanism, pair, session) = (parameter(*kind), fixture.pair(*key)?, &fixture.session);
    for (key_type, length) in
        [(CKK_AES, 32), (CKK_AES, 24), (CKK_GENERIC_SECRET, 40), (CKK_GENERIC_SECRET, 21)]
    {
        if *kind == CKM_AES_KEY_WRAP && length == 21 {
            continue;
        }
        let (value, template) = (message(length, 7), open_key(CKO_SECRET_KEY, key_type));
        let inner = session.create_object(&with(template.clone(), bytes(CKA_VALUE, &value[..])))?;
        let mut out = vec![0; 512];
        let length = session.wrap_key(&mechanism, pair.public, inner, &mut out)?;
        let short = session.wrap_key(&mechanism, pair.public, inner, &mut out[..length - 1]);
        refused("C_WrapKey", short, TOO_SMALL)?;
        let length = session.wrap_key(&mechanism, pair.public, inner, &mut out[..length])?;
        let of = |length| with(template.clone(), number(CKA_VALUE_LEN, length));
        let sized = if *pads { of(value.len() as CK_ULONG) } else { template.clone() };
        let unwrap = |bytes: &[u8], template: &[Attribute]| {
            session.unwrap_key(&mechanism, pair.private, bytes, template)
        };
        let back = unwrap(&out[..length], &sized)?;
        let read = |kind| session.attribute(back, kind);
        ensure("C_UnwrapKey", read(CKA_VALUE)? == value && read(CKA_EXTRACTABLE)? == [1])?;
        ensure("C_UnwrapKey", read(CKA_VALUE_LEN)? == (value.len() as CK_ULONG).to_ne_bytes())?;
        for flag in [CKA_LOCAL, CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE] {
            ensure("C_UnwrapKey", read(flag)? == [0])?;
        }
        // An invalid wrapped key creates no object.
        let before = count(fixture)?;
        ensure("C_UnwrapKey", *pads || unwrap(&out[1..length], &sized).is_err())?;
        ensure("C_UnwrapKey", unwrap(&out[..length], &of(4000)).is_err() && count(fixture)? == before)?;
    }
    Ok(())
}

/// Checks that a private key signs after it was wrapped and unwrapped.
fn private_keys(fixture: &Fixture<'_>, (kind, parameter, key, _): &Wrap) -> Answer {
    const REFUSED: &[CK_RV] = &[CKR_TEMPLATE_INCONSISTENT, CKR_WRAPPED_KEY_INVALID];
    let (mechanism, by) = (parameter(*kind), fixture.pair(*key)?);
    for (key, key_type, signs) in [
        (Key::Rsa, CKK_RSA, Some(CKM_SHA256_RSA_PKCS)),
        (Key::Ec, CKK_EC, Some(CKM_ECDSA_SHA256)),
        (Key::Edwards, CKK_EC_EDWARDS, Some(CKM_EDDSA)),
        (Key::Montgomery, CKK_EC_MONTGOMERY, None),
        (Key::MlDsa, CKK_ML_DSA, Some(CKM_ML_DSA)),
        (Key::Composite, CKK_JETON_COMPOSITE_ML_DSA, Some(CKM_JETON_COMPOSITE_ML_DSA)),
        (Key::SlhDsa, CKK_SLH_DSA, Some(CKM_SLH_DSA)),
        (Key::MlKem, CKK_ML_KEM, None),
    ] {
        // A module may lack the key type.
        let Ok(pair) = fixture.pair(key) else { continue };
        let mut out = vec![0; 8192];
        let length = fixture.wrap_key(&mechanism, by.public, pair.private, &mut out)?;
        let unwrap =
            |template: &[Attribute]| fixture.unwrap_key(&mechanism, by.private, &out[..length], template);
        let template = open_key(CKO_PRIVATE_KEY, key_type);
        let Some(signs) = signs else {
            unwrap(&template)?;
            continue;
        };
        let (back, calls) = (unwrap(&able(template, &[CKA_SIGN]))?, Calls::new(fixture)?);
        calls.init("C_SignInit", &Mechanism::new(signs), back)?;
        let signature = calls.output("C_Sign", Some(b"data"))?;
        calls.init("C_VerifyInit", &Mechanism::new(signs), pair.public)?;
        calls.call("C_Verify", vec![Arg::Bytes(b"data"), Arg::Bytes(&signature)])?;
        let other = if key == Key::Rsa { CKK_EC } else { CKK_RSA };
        refused("C_UnwrapKey", unwrap(&open_key(CKO_PRIVATE_KEY, other)), REFUSED)?;
    }
    Ok(())
}

/// A wrapped key of another library, and the key that unwraps it.
struct Known {
    kind: CK_MECHANISM_TYPE,
    variant: &'static str,
    parameter: fn(CK_MECHANISM_TYPE) -> Mechanism,
    by: fn() -> Vec<Attribute>,
    value: &'static str,
    wrapped: &'static str,
}

/// ECDH: Python's `cryptography`. Every byte of the token's private key is 11, and every byte of
/// the sender's ephemeral private key is 22. 3DES: OpenSSL 3.0, for example `xxd -r -p | openssl
/// enc -des-ede3-ecb -nopad -K KEY` with the value and 8 zero digits.
const KNOWN: &[Known] = &[
    Known {
        kind: CKM_ECDH_AES_KEY_WRAP,
        variant: "",
        parameter: |kind| ecdh(kind, 256, CKD_SHA256_KDF, b"shared"),
        by: || agreeing(CKK_EC, &P256),
        value: FORTY,
        wrapped: "04d65a93977caa3d1b081852ff57a79e465f1660577304baead505dd3a48589cf350185e895372df6221ea3a137557e473\
                  fddb6755f05bd507c3c533fce9c9128575c21378d3b81e53a04e9f9a62b6e7caa254c8fcd1faceab4028c37b9ba1b920b2\
                  a2d188265fe125ed66f06f7d7381cb",
    },
    Known {
        kind: CKM_ECDH_COF_AES_KEY_WRAP,
        variant: "",
        parameter: |kind| ecdh(kind, 128, CKD_NULL, b""),
        by: || agreeing(CKK_EC, &P256),
        value: FORTY,
        wrapped: "044104d65a93977caa3d1b081852ff57a79e465f1660577304baead505dd3a48589cf350185e895372df6221ea3a137557\
                  e473fddb6755f05bd507c3c533fce9c91285127b8048f7c88ef3a7ce04314fbaa29c854df2cd1dea42d116d17a9c633058\
                  bd28d640f6c833b30d56381939a6cb6fc6",
    },
    Known {
        kind: CKM_ECDH_X_AES_KEY_WRAP,
        variant: "",
        parameter: |kind| ecdh(kind, 192, CKD_SHA512_KDF, b""),
        by: || agreeing(CKK_EC_MONTGOMERY, &X25519),
        value: FORTY,
        wrapped: "0faa684ed28867b97f4a6a2dee5df8ce974e76b7018e3f22a1c4cf2678570f206e30501cb7975f7a5cdce9d8978fe79561\
                  ad11ff5e7f0334b7a62e7f4d49483b702ee99addc4813d22108c233dd9411f",
    },
    Known {
        kind: CKM_DES3_ECB,
        variant: " pads to 8 bytes",
        parameter: Mechanism::new,
        by: des3,
        value: TWENTY,
        wrapped: "109aeac4d79bfaddf9ad78eda08644d5b2ccb7b273bba797",
    },
    Known {
        kind: CKM_DES3_CBC,
        variant: " pads to 8 bytes",
        parameter: |kind| Mechanism::with_bytes(kind, &[0, 1, 2, 3, 4, 5, 6, 7]),
        by: des3,
        value: TWENTY,
        wrapped: "6f14fb5e9186be21828978a90af1794fb25fcd97cd029759",
    },
    Known {
        kind: CKM_DES3_CBC,
        variant: "",
        parameter: |kind| Mechanism::with_bytes(kind, &[0, 1, 2, 3, 4, 5, 6, 7]),
        by: des3,
        value: DES3_KEY,
        wrapped: "04c9c882ffa783fa8313193ece3c9db407cbc438a18d7fff",
    },
];

const FORTY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627";
const TWENTY: &str = "00112233445566778899aabbccddeeff01020304";
/// SP 800-67, B.1.
const DES3_KEY: &str = "0123456789abcdef23456789abcdef01456789abcdef0123";

fn ecdh(kind: CK_MECHANISM_TYPE, bits: CK_ULONG, kdf: CK_ULONG, shared: &[u8]) -> Mechanism {
    Structure::new().number(bits).number(kdf).counted(shared).mechanism(kind)
}

fn agreeing(kind: CK_KEY_TYPE, curve: &[u8]) -> Vec<Attribute> {
    let template = with(open_key(CKO_PRIVATE_KEY, kind), bytes(CKA_EC_PARAMS, curve));
    with(template, bytes(CKA_VALUE, [0x11; 32]))
}

fn des3() -> Vec<Attribute> {
    with(open_key(CKO_SECRET_KEY, CKK_DES3), bytes(CKA_VALUE, hex(DES3_KEY)))
}

/// Checks that the key is unwrapped, and that altered and shorter bytes are refused. 3DES cannot
/// detect a change.
fn known_answer(fixture: &Fixture<'_>, known: &Known) -> Answer {
    let (session, mechanism, value) = (&fixture.session, (known.parameter)(known.kind), hex(known.value));
    let by = session.create_object(&able((known.by)(), &[CKA_UNWRAP]))?;
    let length = number(CKA_VALUE_LEN, value.len() as CK_ULONG);
    let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), length);
    let unwrap = |bytes: &[u8]| session.unwrap_key(&mechanism, by, bytes, &template);
    let wrapped = hex(known.wrapped);
    let key = unwrap(&wrapped)?;
    ensure("C_UnwrapKey", session.attribute(key, CKA_VALUE)? == value)?;
    if matches!(known.kind, CKM_DES3_ECB | CKM_DES3_CBC) {
        return Ok(());
    }
    for at in [0, 3, 40, wrapped.len() - 1] {
        let mut flipped = wrapped.clone();
        flipped[at] ^= 1;
        refused("C_UnwrapKey", unwrap(&flipped), &[CKR_WRAPPED_KEY_INVALID])?;
    }
    for short in [31, wrapped.len() - 1] {
        refused("C_UnwrapKey", unwrap(&wrapped[..short]), &[CKR_WRAPPED_KEY_LEN_RANGE])?;
    }
    Ok(())
}

/// Checks keys of P-224 and X25519 with the mechanisms that wrap by key agreement.
fn agreeing_keys(fixture: &Fixture<'_>) -> Answer {
    const TYPE: CK_RV = CKR_WRAPPING_KEY_TYPE_INCONSISTENT;
    const P224: [u8; 7] = [6, 5, 0x2b, 0x81, 4, 0, 0x21];
    let (session, inner) = (&fixture.session, fixture.key(Key::Generic)?);
    let pair = |kind, curve: &[u8]| {
        let public = [bytes(CKA_EC_PARAMS, curve), flag(CKA_WRAP, true)];
        session.generate_key_pair(&Mechanism::new(kind), &public, &[flag(CKA_UNWRAP, true)])
    };
    let p224 = pair(CKM_EC_KEY_PAIR_GEN, &P224)?;
    let x25519 = pair(CKM_EC_MONTGOMERY_KEY_PAIR_GEN, &X25519)?;
    let hashed = |kind| ecdh(kind, 256, CKD_SHA384_KDF, b"info");
    for (kind, (public, private)) in [
        (CKM_ECDH_AES_KEY_WRAP, p224),
        (CKM_ECDH_COF_AES_KEY_WRAP, p224),
        (CKM_ECDH_AES_KEY_WRAP, x25519),
        (CKM_ECDH_X_AES_KEY_WRAP, x25519),
    ] {
        let (mut out, template) = ([0; 256], open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET));
        let length = session.wrap_key(&hashed(kind), public, inner, &mut out)?;
        let short = session.wrap_key(&hashed(kind), public, inner, &mut [0; 256][..length - 1]);
        refused("C_WrapKey", short, TOO_SMALL)?;
        let back = session.unwrap_key(&hashed(kind), private, &out[..length], &template)?;
        ensure("C_UnwrapKey", session.attribute(back, CKA_VALUE)? == SECRET)?;
    }
    for (mechanism, by, code) in [
        (hashed(CKM_ECDH_COF_AES_KEY_WRAP), x25519.0, TYPE),
        (hashed(CKM_ECDH_X_AES_KEY_WRAP), p224.0, TYPE),
        (Mechanism::new(CKM_ECDH_AES_KEY_WRAP), p224.0, CKR_MECHANISM_PARAM_INVALID),
        // The coordinate of P-224 has fewer than 256 bits, and without a KDF it is the AES key.
        (ecdh(CKM_ECDH_AES_KEY_WRAP, 256, CKD_NULL, b""), p224.0, CKR_MECHANISM_PARAM_INVALID),
    ] {
        refused("C_WrapKey", session.wrap_key(&mechanism, by, inner, &mut [0; 256]), &[code])?;
    }
    Ok(())
}

/// Checks C_WrapKeyAuthenticated against C_WrapKey, and that a forged wrapped key creates no
/// object.
fn both_wrap(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (calls, by, value) = (Calls::new(fixture)?, key_of(fixture, kind)?, message(21, 7));
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let inner = fixture.create_object(&with(template.clone(), bytes(CKA_VALUE, &value[..])))?;
    let new = || Message::of(kind, &[5; 12], &[0; 16], value.len());
    let mut single = [0; 37];
    fixture.wrap_key(&new().single(), by, inner, &mut single)?;
    let (given, mut out) = (new(), [0; 21]);
    let mechanism = given.parameter().mechanism(kind);
    let input =
        || vec![Arg::Mechanism(&mechanism), Arg::Number(by.0), Arg::Number(inner.0), Arg::Bytes(MORE)];
    refused(
        "C_WrapKeyAuthenticated",
        calls.fill("C_WrapKeyAuthenticated", input(), &mut [0; 20]).1,
        TOO_SMALL,
    )?;
    calls.fill("C_WrapKeyAuthenticated", input(), &mut out).1?;
    let tag = given.tag();
    ensure("C_WrapKeyAuthenticated", [&out[..], &tag].concat() == single)?;
    let output = Arg::zeroed();
    let unwrap = |tag: &[u8], bytes: &[u8], more: &[u8]| {
        let mechanism = new().tagged(tag).parameter().mechanism(kind);
        let arguments = vec![
            Arg::Mechanism(&mechanism),
            Arg::Number(by.0),
            Arg::Bytes(bytes),
            Arg::Template(&template),
            Arg::Bytes(more),
            Arg::Output(&output),
        ];
        calls.call("C_UnwrapKeyAuthenticated", arguments)
    };
    unwrap(&tag, &out, MORE)?;
    let back = ObjectHandle(output.number(0));
    ensure("C_UnwrapKeyAuthenticated", fixture.attribute(back, CKA_VALUE)? == value)?;
    let before = count(fixture)?;
    let (mut flipped, mut other) = (out, tag.clone());
    (flipped[0], other[15]) = (flipped[0] ^ 1, other[15] ^ 1);
    for (tag, bytes, more) in
        [(&tag, &flipped[..], MORE), (&tag, &out[1..], MORE), (&tag, &out, b"less"), (&other, &out, MORE)]
    {
        refused("C_UnwrapKeyAuthenticated", unwrap(tag, bytes, more), INAUTHENTIC)?;
    }
    ensure("C_UnwrapKeyAuthenticated", count(fixture)? == before)
}
