//! "Message-based" encryption, decryption, signing and verification.

use cryptoki_sys::*;
use jeton_client::{Arg, Failure, Mechanism, Memory, Session, Structure};

use super::{Case, DIGEST, ECDSA, HMAC, NO_MECHANISM, SHA256, case};
use crate::fixture::{Fixture, Key, NO_OBJECT, ensure};

const NOT_BEGUN: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED];
const ACTIVE: &[CK_RV] = &[CKR_OPERATION_ACTIVE, CKR_FUNCTION_NOT_SUPPORTED];
const WORKS: &[CK_RV] = &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID];
const NO_HANDLE: &[CK_RV] = &[CKR_KEY_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED];
const INVALID: &[CK_RV] = &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED];
/// The mechanism of C_MessageEncryptInit and C_MessageDecryptInit. It has no parameter. PKCS#11
/// 3.2, "AES-GCM": each message has its own parameter, for example in C_EncryptMessage.
static GCM: Mechanism = Mechanism::new(CKM_AES_GCM);

/// Returns `CK_GCM_MESSAGE_PARAMS` with a nonce of the application, and memory for the tag.
fn message(nonce: &[u8; 12], tag: &Memory) -> Structure {
    let nonce = Memory::of(nonce);
    Structure::new().pointer(&nonce).number(12).number(0).number(CKG_NO_GENERATE).pointer(tag).number(128)
}

fn init(
    fixture: &Fixture<'_>,
    session: &Session,
    function: &'static str,
    mechanism: &Mechanism,
    key: CK_ULONG,
) -> Result<(), Failure> {
    fixture.call(function, session, vec![Arg::Mechanism(mechanism), Arg::Number(key)])
}

/// Processes one message in a single part.
fn whole(
    fixture: &Fixture<'_>,
    session: &Session,
    function: &'static str,
    parameter: &Structure,
    data: &[u8],
) -> Result<Vec<u8>, Failure> {
    let (mut out, mut length) = (vec![0; data.len()], data.len() as CK_ULONG);
    let arguments = vec![
        Arg::Structure(parameter),
        Arg::Bytes(b"more"),
        Arg::Bytes(data),
        Arg::Buffer(&mut out, &mut length),
    ];
    fixture.call(function, session, arguments)?;
    out.truncate(length as usize);
    Ok(out)
}

/// Encrypts and decrypts two messages. If `spoil` is true, changes the tag of the second one.
fn there_and_back(fixture: &Fixture<'_>, spoil: bool) -> Result<(), Failure> {
    let (session, key) = (fixture.fresh()?, fixture.key(Key::Aes)?.0);
    let (tags, nonces) = ([Memory::of(&[0; 16]), Memory::of(&[0; 16])], [[1; 12], [2; 12]]);
    init(fixture, &session, "C_MessageEncryptInit", &GCM, key)?;
    let one = whole(fixture, &session, "C_EncryptMessage", &message(&nonces[0], &tags[0]), b"one")?;
    let two = whole(fixture, &session, "C_EncryptMessage", &message(&nonces[1], &tags[1]), b"the second")?;
    fixture.call("C_MessageEncryptFinal", &session, vec![])?;
    let mut tag = tags[1].bytes();
    tag[0] ^= u8::from(spoil);
    init(fixture, &session, "C_MessageDecryptInit", &GCM, key)?;
    let first = whole(fixture, &session, "C_DecryptMessage", &message(&nonces[0], &tags[0]), &one)?;
    let second = whole(fixture, &session, "C_DecryptMessage", &message(&nonces[1], &Memory::of(&tag)), &two)?;
    fixture.call("C_MessageDecryptFinal", &session, vec![])?;
    ensure("C_DecryptMessage", first == b"one" && second == b"the second")
}

/// Checks that a message in parts has the same ciphertext and tag as in a single part.
fn in_parts(fixture: &Fixture<'_>) -> Result<(), Failure> {
    let (session, key) = (fixture.fresh()?, fixture.key(Key::Aes)?.0);
    let (tag, other) = (Memory::of(&[0; 16]), Memory::of(&[0; 16]));
    init(fixture, &session, "C_MessageEncryptInit", &GCM, key)?;
    let expected = whole(fixture, &session, "C_EncryptMessage", &message(&[1; 12], &tag), &[7; 32])?;
    let parameter = message(&[1; 12], &other);
    fixture.call("C_EncryptMessageBegin", &session, vec![Arg::Structure(&parameter), Arg::Bytes(b"more")])?;
    let mut made: Vec<u8> = Vec::new();
    for flags in [0, CKF_END_OF_MESSAGE] {
        let (mut out, mut length) = ([0; 48], 48);
        let arguments = vec![
            Arg::Structure(&parameter),
            Arg::Bytes(&[7; 16]),
            Arg::Buffer(&mut out, &mut length),
            Arg::Number(flags),
        ];
        fixture.call("C_EncryptMessageNext", &session, arguments)?;
        made.extend(&out[..length as usize]);
    }
    fixture.call("C_MessageEncryptFinal", &session, vec![])?;
    ensure("C_EncryptMessageNext", made == expected && tag == other)
}

/// Signs twice with one Init, and verifies both signatures with one Init. If `spoil` is true,
/// changes the second signature.
fn signed(fixture: &Fixture<'_>, spoil: bool) -> Result<(), Failure> {
    let (session, pair) = (fixture.fresh()?, fixture.pair(Key::Ec)?);
    let mut signatures = [[0; 64]; 2];
    init(fixture, &session, "C_MessageSignInit", &ECDSA, pair.private.0)?;
    for signature in &mut signatures {
        let mut length = 64;
        let arguments = vec![Arg::NullBytes(0), Arg::Bytes(&DIGEST), Arg::Buffer(signature, &mut length)];
        fixture.call("C_SignMessage", &session, arguments)?;
    }
    fixture.call("C_MessageSignFinal", &session, vec![])?;
    signatures[1][40] ^= u8::from(spoil);
    init(fixture, &session, "C_MessageVerifyInit", &ECDSA, pair.public.0)?;
    for signature in &signatures {
        let arguments = vec![Arg::NullBytes(0), Arg::Bytes(&DIGEST), Arg::Bytes(signature)];
        fixture.call("C_VerifyMessage", &session, arguments)?;
    }
    fixture.call("C_MessageVerifyFinal", &session, vec![])
}

/// Calls one function in a new session, for example C_SignMessage without C_MessageSignInit.
fn alone(fixture: &Fixture<'_>, function: &'static str, arguments: Vec<Arg<'_>>) -> Result<(), Failure> {
    fixture.call(function, &fixture.fresh()?, arguments)
}

pub const CASES: &[Case] = &[
    case("C_MessageEncryptInit", "with an unknown mechanism", INVALID, |fixture| {
        init(fixture, &fixture.fresh()?, "C_MessageEncryptInit", &NO_MECHANISM, fixture.key(Key::Aes)?.0)
    }),
    case("C_MessageEncryptInit", "with a mechanism without message functions", INVALID, |fixture| {
        init(fixture, &fixture.fresh()?, "C_MessageEncryptInit", &SHA256, fixture.key(Key::Aes)?.0)
    }),
    case("C_MessageEncryptInit", "with an invalid key handle", NO_HANDLE, |fixture| {
        init(fixture, &fixture.fresh()?, "C_MessageEncryptInit", &GCM, NO_OBJECT.0)
    }),
    case(
        "C_MessageEncryptInit",
        "with a key without CKA_ENCRYPT",
        &[CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| init(fixture, &fixture.fresh()?, "C_MessageEncryptInit", &GCM, fixture.key(Key::Idle)?.0),
    ),
    case("C_MessageEncryptInit", "while a message encryption is active", ACTIVE, |fixture| {
        let session = fixture.fresh()?;
        init(fixture, &session, "C_MessageEncryptInit", &GCM, fixture.key(Key::Aes)?.0)?;
        init(fixture, &session, "C_MessageEncryptInit", &GCM, fixture.key(Key::Aes)?.0)
    }),
    case("C_MessageDecryptInit", "while a message decryption is active", ACTIVE, |fixture| {
        let session = fixture.fresh()?;
        init(fixture, &session, "C_MessageDecryptInit", &GCM, fixture.key(Key::Aes)?.0)?;
        init(fixture, &session, "C_MessageDecryptInit", &GCM, fixture.key(Key::Aes)?.0)
    }),
    case("C_MessageDecryptInit", "with an invalid key handle", NO_HANDLE, |fixture| {
        init(fixture, &fixture.fresh()?, "C_MessageDecryptInit", &GCM, NO_OBJECT.0)
    }),
    case("C_MessageSignInit", "with an invalid key handle", NO_HANDLE, |fixture| {
        init(fixture, &fixture.fresh()?, "C_MessageSignInit", &ECDSA, NO_OBJECT.0)
    }),
    case("C_MessageSignInit", "with a mechanism that does not sign", INVALID, |fixture| {
        init(fixture, &fixture.fresh()?, "C_MessageSignInit", &SHA256, fixture.key(Key::Ec)?.0)
    }),
    case("C_MessageSignInit", "while a message signature is active", ACTIVE, |fixture| {
        let session = fixture.fresh()?;
        init(fixture, &session, "C_MessageSignInit", &ECDSA, fixture.key(Key::Ec)?.0)?;
        init(fixture, &session, "C_MessageSignInit", &ECDSA, fixture.key(Key::Ec)?.0)
    }),
    case("C_MessageVerifyInit", "with an invalid key handle", NO_HANDLE, |fixture| {
        init(fixture, &fixture.fresh()?, "C_MessageVerifyInit", &ECDSA, NO_OBJECT.0)
    }),
    case("C_MessageVerifyInit", "while a message verification is active", ACTIVE, |fixture| {
        let session = fixture.fresh()?;
        init(fixture, &session, "C_MessageVerifyInit", &ECDSA, fixture.pair(Key::Ec)?.public.0)?;
        init(fixture, &session, "C_MessageVerifyInit", &ECDSA, fixture.pair(Key::Ec)?.public.0)
    }),
    case("C_EncryptMessage", "without C_MessageEncryptInit", NOT_BEGUN, |fixture| {
        whole(
            fixture,
            &fixture.fresh()?,
            "C_EncryptMessage",
            &message(&[1; 12], &Memory::of(&[0; 16])),
            b"one",
        )
        .map(drop)
    }),
    case("C_DecryptMessage", "without C_MessageDecryptInit", NOT_BEGUN, |fixture| {
        whole(
            fixture,
            &fixture.fresh()?,
            "C_DecryptMessage",
            &message(&[1; 12], &Memory::of(&[0; 16])),
            b"one",
        )
        .map(drop)
    }),
    case("C_EncryptMessageBegin", "without C_MessageEncryptInit", NOT_BEGUN, |fixture| {
        let parameter = message(&[1; 12], &Memory::of(&[0; 16]));
        alone(fixture, "C_EncryptMessageBegin", vec![Arg::Structure(&parameter), Arg::Bytes(b"more")])
    }),
    case("C_DecryptMessageBegin", "without C_MessageDecryptInit", NOT_BEGUN, |fixture| {
        let parameter = message(&[1; 12], &Memory::of(&[0; 16]));
        alone(fixture, "C_DecryptMessageBegin", vec![Arg::Structure(&parameter), Arg::Bytes(b"more")])
    }),
    case("C_EncryptMessageNext", "without C_EncryptMessageBegin", NOT_BEGUN, |fixture| {
        let (session, parameter) = (fixture.fresh()?, message(&[1; 12], &Memory::of(&[0; 16])));
        init(fixture, &session, "C_MessageEncryptInit", &GCM, fixture.key(Key::Aes)?.0)?;
        let (mut out, mut length) = ([0; 32], 32);
        let arguments = vec![
            Arg::Structure(&parameter),
            Arg::Bytes(&[7; 16]),
            Arg::Buffer(&mut out, &mut length),
            Arg::Number(0),
        ];
        fixture.call("C_EncryptMessageNext", &session, arguments)
    }),
    case("C_MessageEncryptFinal", "without C_MessageEncryptInit", NOT_BEGUN, |fixture| {
        alone(fixture, "C_MessageEncryptFinal", vec![])
    }),
    case("C_MessageDecryptFinal", "without C_MessageDecryptInit", NOT_BEGUN, |fixture| {
        alone(fixture, "C_MessageDecryptFinal", vec![])
    }),
    case("C_MessageSignFinal", "without C_MessageSignInit", NOT_BEGUN, |fixture| {
        alone(fixture, "C_MessageSignFinal", vec![])
    }),
    case("C_MessageVerifyFinal", "without C_MessageVerifyInit", NOT_BEGUN, |fixture| {
        alone(fixture, "C_MessageVerifyFinal", vec![])
    }),
    case("C_SignMessage", "without C_MessageSignInit", NOT_BEGUN, |fixture| {
        alone(
            fixture,
            "C_SignMessage",
            vec![Arg::NullBytes(0), Arg::Bytes(&DIGEST), Arg::Buffer(&mut [0; 64], &mut 64)],
        )
    }),
    case("C_SignMessageBegin", "without C_MessageSignInit", NOT_BEGUN, |fixture| {
        alone(fixture, "C_SignMessageBegin", vec![Arg::NullBytes(0)])
    }),
    case("C_VerifyMessage", "without C_MessageVerifyInit", NOT_BEGUN, |fixture| {
        alone(fixture, "C_VerifyMessage", vec![Arg::NullBytes(0), Arg::Bytes(&DIGEST), Arg::Bytes(&[1; 64])])
    }),
    case("C_VerifyMessageBegin", "without C_MessageVerifyInit", NOT_BEGUN, |fixture| {
        alone(fixture, "C_VerifyMessageBegin", vec![Arg::NullBytes(0)])
    }),
    case("C_EncryptMessage", "encrypts two messages, which are decrypted", WORKS, |fixture| {
        there_and_back(fixture, false)
    }),
    case(
        "C_DecryptMessage",
        "with an altered tag",
        &[
            CKR_AEAD_DECRYPT_FAILED,
            CKR_ENCRYPTED_DATA_INVALID,
            CKR_FUNCTION_NOT_SUPPORTED,
            CKR_MECHANISM_INVALID,
        ],
        |fixture| there_and_back(fixture, true),
    ),
    case(
        "C_EncryptMessage",
        "without a parameter",
        &[CKR_MECHANISM_PARAM_INVALID, CKR_ARGUMENTS_BAD, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID],
        |fixture| {
            let session = fixture.fresh()?;
            init(fixture, &session, "C_MessageEncryptInit", &GCM, fixture.key(Key::Aes)?.0)?;
            let (mut out, mut length) = ([0; 32], 32);
            let arguments = vec![
                Arg::NullBytes(0),
                Arg::Bytes(b"more"),
                Arg::Bytes(b"data"),
                Arg::Buffer(&mut out, &mut length),
            ];
            fixture.call("C_EncryptMessage", &session, arguments)
        },
    ),
    case(
        "C_EncryptMessage",
        "into a short buffer",
        &[CKR_BUFFER_TOO_SMALL, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID],
        |fixture| {
            let (session, parameter) = (fixture.fresh()?, message(&[1; 12], &Memory::of(&[0; 16])));
            init(fixture, &session, "C_MessageEncryptInit", &GCM, fixture.key(Key::Aes)?.0)?;
            let (mut out, mut length) = ([0; 3], 3);
            let arguments = vec![
                Arg::Structure(&parameter),
                Arg::Bytes(b"more"),
                Arg::Bytes(b"data"),
                Arg::Buffer(&mut out, &mut length),
            ];
            fixture.call("C_EncryptMessage", &session, arguments)
        },
    ),
    case("C_EncryptMessageNext", "in parts gives the result of one part", WORKS, in_parts),
    case("C_SignMessage", "signs two messages, which are verified", WORKS, |fixture| signed(fixture, false)),
    case(
        "C_VerifyMessage",
        "of an altered signature",
        &[CKR_SIGNATURE_INVALID, CKR_FUNCTION_NOT_SUPPORTED, CKR_MECHANISM_INVALID],
        |fixture| signed(fixture, true),
    ),
    case("C_SignMessageNext", "without C_SignMessageBegin", NOT_BEGUN, |fixture| {
        let (session, key) = (fixture.fresh()?, fixture.key(Key::Generic)?.0);
        init(fixture, &session, "C_MessageSignInit", &HMAC, key)?;
        let (mut out, mut length) = ([0; 32], 32);
        let arguments = vec![Arg::NullBytes(0), Arg::Bytes(b"abc"), Arg::Buffer(&mut out, &mut length)];
        fixture.call("C_SignMessageNext", &session, arguments)
    }),
    case("C_VerifyMessageNext", "without C_VerifyMessageBegin", NOT_BEGUN, |fixture| {
        let (session, key) = (fixture.fresh()?, fixture.key(Key::Generic)?.0);
        init(fixture, &session, "C_MessageVerifyInit", &HMAC, key)?;
        let arguments = vec![Arg::NullBytes(0), Arg::Bytes(b"abc"), Arg::Bytes(&[1; 32])];
        fixture.call("C_VerifyMessageNext", &session, arguments)
    }),
];
