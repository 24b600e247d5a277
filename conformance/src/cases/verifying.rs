//! "Functions for verifying signatures and MACs", including those that get the signature first.

use cryptoki_sys::*;
use jeton_client::{Arg, Failure, Mechanism};

use super::{Case, DIGEST, ECDSA, HMAC, NO_MECHANISM, case};
use crate::fixture::{Fixture, Key, NO_OBJECT, ensure};

const NOT_BEGUN: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED];
const NOT_BEGUN_OR_NOT_THERE: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED];
static RSA: Mechanism = Mechanism::new(CKM_RSA_PKCS);

fn signature(fixture: &Fixture<'_>) -> Result<[u8; 64], Failure> {
    let (session, mut signature) = (fixture.fresh()?, [0; 64]);
    session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
    session.sign(&DIGEST, &mut signature)?;
    Ok(signature)
}

/// Calls C_VerifyInit and C_Verify.
fn verify(fixture: &Fixture<'_>, data: &[u8], signature: &[u8]) -> Result<(), Failure> {
    let session = fixture.fresh()?;
    session.verify_init(&ECDSA, fixture.pair(Key::Ec)?.public)?;
    fixture.call("C_Verify", &session, vec![Arg::Bytes(data), Arg::Bytes(signature)])
}

/// Calls C_VerifySignatureInit and C_VerifySignature.
fn verify_signature(fixture: &Fixture<'_>, data: &[u8], signature: &[u8]) -> Result<(), Failure> {
    let (session, key) = (fixture.fresh()?, fixture.pair(Key::Ec)?.public);
    let init = vec![Arg::Mechanism(&ECDSA), Arg::Number(key.0), Arg::Bytes(signature)];
    fixture.call("C_VerifySignatureInit", &session, init)?;
    fixture.call("C_VerifySignature", &session, vec![Arg::Bytes(data)])
}

pub const CASES: &[Case] = &[
    case("C_VerifyInit", "with an unknown mechanism", &[CKR_MECHANISM_INVALID], |fixture| {
        fixture.fresh()?.verify_init(&NO_MECHANISM, fixture.pair(Key::Ec)?.public)
    }),
    case("C_VerifyInit", "with an invalid key handle", &[CKR_KEY_HANDLE_INVALID], |fixture| {
        fixture.fresh()?.verify_init(&ECDSA, NO_OBJECT)
    }),
    case(
        "C_VerifyInit",
        "with the private key",
        &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID],
        |fixture| fixture.fresh()?.verify_init(&ECDSA, fixture.key(Key::Ec)?),
    ),
    case("C_VerifyInit", "with an elliptic curve key for RSA", &[CKR_KEY_TYPE_INCONSISTENT], |fixture| {
        fixture.fresh()?.verify_init(&RSA, fixture.pair(Key::Ec)?.public)
    }),
    case("C_VerifyInit", "with a key without CKA_VERIFY", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |fixture| {
        fixture.fresh()?.verify_init(&Mechanism::new(CKM_AES_CMAC), fixture.key(Key::Idle)?)
    }),
    case("C_VerifyInit", "while a verification is active", &[CKR_OPERATION_ACTIVE], |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&ECDSA, fixture.pair(Key::Ec)?.public)?;
        session.verify_init(&ECDSA, fixture.pair(Key::Ec)?.public)
    }),
    case("C_VerifyInit", "with a NULL mechanism ends the verification", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&ECDSA, fixture.pair(Key::Ec)?.public)?;
        fixture.call("C_VerifyInit", &session, vec![Arg::Null, Arg::Number(0)])?;
        session.verify(&DIGEST, &[1; 64]).map(drop)
    }),
    case("C_VerifyInit", "with a public key without a login", &[CKR_OK], |fixture| {
        fixture.logged_out(|session| {
            let mut template = crate::fixture::open_key(CKO_PUBLIC_KEY, CKK_RSA);
            template.push(jeton_client::Attribute::flag(CKA_PRIVATE, false));
            template.push(jeton_client::Attribute::bytes(CKA_MODULUS, [0xc5; 256]));
            template.push(jeton_client::Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]));
            let key = session.create_object(&template)?;
            session.verify_init(&RSA, key)
        })
    }),
    case("C_Verify", "without C_VerifyInit", NOT_BEGUN, |fixture| {
        fixture.fresh()?.verify(&DIGEST, &[1; 64]).map(drop)
    }),
    case("C_Verify", "of a valid signature", &[CKR_OK], |fixture| {
        verify(fixture, &DIGEST, &signature(fixture)?)
    }),
    case("C_Verify", "of an altered signature", &[CKR_SIGNATURE_INVALID], |fixture| {
        let mut signature = signature(fixture)?;
        signature[40] ^= 1;
        verify(fixture, &DIGEST, &signature)
    }),
    case("C_Verify", "of altered data", &[CKR_SIGNATURE_INVALID], |fixture| {
        verify(fixture, &[8; 32], &signature(fixture)?)
    }),
    case("C_Verify", "of a signature that is too long", &[CKR_SIGNATURE_LEN_RANGE], |fixture| {
        verify(fixture, &DIGEST, &[1; 66])
    }),
    case(
        "C_Verify",
        "of a signature of odd length",
        &[CKR_SIGNATURE_LEN_RANGE, CKR_SIGNATURE_INVALID],
        |fixture| verify(fixture, &DIGEST, &[1; 63]),
    ),
    case(
        "C_Verify",
        "of an empty signature",
        &[CKR_SIGNATURE_LEN_RANGE, CKR_SIGNATURE_INVALID, CKR_ARGUMENTS_BAD],
        |fixture| verify(fixture, &DIGEST, &[]),
    ),
    case("C_Verify", "of an RSA signature that is too short", &[CKR_SIGNATURE_LEN_RANGE], |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&RSA, fixture.pair(Key::Rsa)?.public)?;
        fixture.call("C_Verify", &session, vec![Arg::Bytes(&DIGEST), Arg::Bytes(&[1; 255])])
    }),
    case("C_Verify", "of an invalid RSA signature", &[CKR_SIGNATURE_INVALID], |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&RSA, fixture.pair(Key::Rsa)?.public)?;
        fixture.call("C_Verify", &session, vec![Arg::Bytes(&DIGEST), Arg::Bytes(&[1; 256])])
    }),
    case(
        "C_Verify",
        "of a MAC that is too short",
        &[CKR_SIGNATURE_LEN_RANGE, CKR_SIGNATURE_INVALID],
        |fixture| {
            let session = fixture.fresh()?;
            session.verify_init(&HMAC, fixture.key(Key::Generic)?)?;
            fixture.call("C_Verify", &session, vec![Arg::Bytes(&DIGEST), Arg::Bytes(&[1; 31])])
        },
    ),
    case("C_Verify", "after a wrong signature ended the operation", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&ECDSA, fixture.pair(Key::Ec)?.public)?;
        session.verify(&DIGEST, &[1; 64])?;
        session.verify(&DIGEST, &[1; 64]).map(drop)
    }),
    case("C_Verify", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.verify_update(b"abc")?;
        session.verify(b"abc", &[0; 32]).map(drop)
    }),
    case("C_VerifyUpdate", "without C_VerifyInit", NOT_BEGUN, |fixture| {
        fixture.fresh()?.verify_update(b"abc")
    }),
    case("C_VerifyFinal", "without C_VerifyInit", NOT_BEGUN, |fixture| {
        fixture.fresh()?.verify_final(&[0; 64]).map(drop)
    }),
    case("C_VerifyFinal", "of a wrong MAC", &[CKR_SIGNATURE_INVALID], |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.verify_update(b"abc")?;
        fixture.call("C_VerifyFinal", &session, vec![Arg::Bytes(&[1; 32])])
    }),
    case("C_VerifyRecover", "without C_VerifyRecoverInit", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        fixture.call(
            "C_VerifyRecover",
            &fixture.fresh()?,
            vec![Arg::Bytes(&[1; 256]), Arg::Buffer(&mut [0; 256], &mut 256)],
        )
    }),
    case(
        "C_VerifyRecover",
        "of an invalid signature",
        &[CKR_SIGNATURE_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let (session, key) = (fixture.fresh()?, fixture.pair(Key::Rsa)?.public);
            fixture.call("C_VerifyRecoverInit", &session, vec![Arg::Mechanism(&RSA), Arg::Number(key.0)])?;
            fixture.call(
                "C_VerifyRecover",
                &session,
                vec![Arg::Bytes(&[1; 256]), Arg::Buffer(&mut [0; 256], &mut 256)],
            )
        },
    ),
    case(
        "C_VerifySignatureInit",
        "with an invalid key handle",
        &[CKR_KEY_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let arguments = vec![Arg::Mechanism(&ECDSA), Arg::Number(NO_OBJECT.0), Arg::Bytes(&[1; 64])];
            fixture.call("C_VerifySignatureInit", &fixture.fresh()?, arguments)
        },
    ),
    case(
        "C_VerifySignatureInit",
        "with an unknown mechanism",
        &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let key = fixture.pair(Key::Ec)?.public;
            let arguments = vec![Arg::Mechanism(&NO_MECHANISM), Arg::Number(key.0), Arg::Bytes(&[1; 64])];
            fixture.call("C_VerifySignatureInit", &fixture.fresh()?, arguments)
        },
    ),
    case(
        "C_VerifySignatureInit",
        "while a verification is active",
        &[CKR_OPERATION_ACTIVE, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let (session, key) = (fixture.fresh()?, fixture.pair(Key::Ec)?.public);
            let init = || {
                let arguments = vec![Arg::Mechanism(&ECDSA), Arg::Number(key.0), Arg::Bytes(&[1; 64])];
                fixture.call("C_VerifySignatureInit", &session, arguments)
            };
            init()?;
            init()
        },
    ),
    case("C_VerifySignature", "without C_VerifySignatureInit", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        fixture.call("C_VerifySignature", &fixture.fresh()?, vec![Arg::Bytes(&DIGEST)])
    }),
    case("C_VerifySignature", "of a valid signature", &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED], |fixture| {
        verify_signature(fixture, &DIGEST, &signature(fixture)?)
    }),
    case(
        "C_VerifySignature",
        "of altered data",
        &[CKR_SIGNATURE_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| verify_signature(fixture, &[8; 32], &signature(fixture)?),
    ),
    case("C_VerifySignatureUpdate", "without C_VerifySignatureInit", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        fixture.call("C_VerifySignatureUpdate", &fixture.fresh()?, vec![Arg::Bytes(&DIGEST)])
    }),
    case("C_VerifySignatureFinal", "without C_VerifySignatureInit", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        fixture.call("C_VerifySignatureFinal", &fixture.fresh()?, vec![])
    }),
    case(
        "C_VerifySignatureFinal",
        "of a MAC over several parts",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let (session, key, mut code) = (fixture.fresh()?, fixture.key(Key::Generic)?, [0; 32]);
            session.sign_init(&HMAC, key)?;
            session.sign(b"abcdef", &mut code)?;
            let init = vec![Arg::Mechanism(&HMAC), Arg::Number(key.0), Arg::Bytes(&code)];
            fixture.call("C_VerifySignatureInit", &session, init)?;
            fixture.call("C_VerifySignatureUpdate", &session, vec![Arg::Bytes(b"abc")])?;
            fixture.call("C_VerifySignatureUpdate", &session, vec![Arg::Bytes(b"def")])?;
            fixture.call("C_VerifySignatureFinal", &session, vec![])
        },
    ),
    case("C_VerifyFinal", "in parts accepts a signature of one part", &[CKR_OK], |fixture| {
        let (session, key, mut code) = (fixture.fresh()?, fixture.key(Key::Generic)?, [0; 32]);
        session.sign_init(&HMAC, key)?;
        session.sign(b"abcdef", &mut code)?;
        session.verify_init(&HMAC, key)?;
        session.verify_update(b"abcde")?;
        session.verify_update(b"f")?;
        ensure("C_VerifyFinal", session.verify_final(&code)?)
    }),
];
