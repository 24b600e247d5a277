//! "Signing and MACing functions".

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, Structure};

use super::{Case, DIGEST, ECDSA, HMAC, NO_MECHANISM, SHA256, case};
use crate::fixture::{Key, NO_OBJECT, ensure};

const NOT_BEGUN: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED];
const RECOVER: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED];
static RSA: Mechanism = Mechanism::new(CKM_RSA_PKCS);

pub const CASES: &[Case] = &[
    case("C_SignInit", "with an unknown mechanism", &[CKR_MECHANISM_INVALID], |fixture| {
        fixture.fresh()?.sign_init(&NO_MECHANISM, fixture.key(Key::Ec)?)
    }),
    case("C_SignInit", "with a mechanism that does not sign", &[CKR_MECHANISM_INVALID], |fixture| {
        fixture.fresh()?.sign_init(&SHA256, fixture.key(Key::Ec)?)
    }),
    case("C_SignInit", "with an invalid key handle", &[CKR_KEY_HANDLE_INVALID], |fixture| {
        fixture.fresh()?.sign_init(&ECDSA, NO_OBJECT)
    }),
    case(
        "C_SignInit",
        "with the public key",
        &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID],
        |fixture| fixture.fresh()?.sign_init(&ECDSA, fixture.pair(Key::Ec)?.public),
    ),
    case("C_SignInit", "with an elliptic curve key for RSA", &[CKR_KEY_TYPE_INCONSISTENT], |fixture| {
        fixture.fresh()?.sign_init(&RSA, fixture.key(Key::Ec)?)
    }),
    case("C_SignInit", "with a key without CKA_SIGN", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |fixture| {
        fixture.fresh()?.sign_init(&Mechanism::new(CKM_AES_CMAC), fixture.key(Key::Idle)?)
    }),
    case(
        "C_SignInit",
        "with a parameter that the mechanism does not have",
        &[CKR_MECHANISM_PARAM_INVALID],
        |fixture| {
            fixture.fresh()?.sign_init(&Mechanism::with_bytes(CKM_ECDSA, &[1; 8]), fixture.key(Key::Ec)?)
        },
    ),
    case("C_SignInit", "with PSS and no parameter", &[CKR_MECHANISM_PARAM_INVALID], |fixture| {
        fixture.fresh()?.sign_init(&Mechanism::new(CKM_SHA256_RSA_PKCS_PSS), fixture.key(Key::Rsa)?)
    }),
    case(
        "C_SignInit",
        "with PSS and another hash than that of the mechanism",
        &[CKR_MECHANISM_PARAM_INVALID],
        |fixture| {
            let numbers = [CKM_SHA384, CKG_MGF1_SHA384, 48];
            fixture.fresh()?.sign_init(
                &Mechanism::with_numbers(CKM_SHA256_RSA_PKCS_PSS, &numbers),
                fixture.key(Key::Rsa)?,
            )
        },
    ),
    case(
        "C_SignInit",
        "with PSS and a salt that is too long",
        &[CKR_MECHANISM_PARAM_INVALID, CKR_KEY_SIZE_RANGE],
        |fixture| {
            let session = fixture.fresh()?;
            let pss = Mechanism::with_numbers(CKM_SHA256_RSA_PKCS_PSS, &[CKM_SHA256, CKG_MGF1_SHA256, 400]);
            session.sign_init(&pss, fixture.key(Key::Rsa)?)?;
            session.sign(b"abc", &mut [0; 256]).map(drop)
        },
    ),
    case(
        "C_SignInit",
        "with HMAC and a length that exceeds its output",
        &[CKR_MECHANISM_PARAM_INVALID],
        |fixture| {
            fixture.fresh()?.sign_init(
                &Mechanism::with_numbers(CKM_SHA256_HMAC_GENERAL, &[33]),
                fixture.key(Key::Generic)?,
            )
        },
    ),
    case(
        "C_SignInit",
        "with a context of 256 bytes",
        &[CKR_MECHANISM_PARAM_INVALID, CKR_MECHANISM_INVALID],
        |fixture| {
            if !fixture.lists(CKM_ML_DSA) {
                return fixture.fresh()?.sign_init(&NO_MECHANISM, fixture.key(Key::Ec)?);
            }
            let parameter = Structure::new().number(CKH_HEDGE_PREFERRED).bytes(&[0; 256]);
            fixture.fresh()?.sign_init(&parameter.mechanism(CKM_ML_DSA), fixture.key(Key::MlDsa)?)
        },
    ),
    case("C_SignInit", "while a signature is active", &[CKR_OPERATION_ACTIVE], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)
    }),
    case("C_SignInit", "with a NULL mechanism ends the signature", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        fixture.call("C_SignInit", &session, vec![Arg::Null, Arg::Number(0)])?;
        session.sign(&DIGEST, &mut [0; 64]).map(drop)
    }),
    case(
        "C_SignInit",
        "with a private key without a login",
        &[CKR_KEY_HANDLE_INVALID, CKR_USER_NOT_LOGGED_IN],
        |fixture| {
            let key = fixture.key(Key::Ec)?;
            fixture.logged_out(|session| session.sign_init(&ECDSA, key))
        },
    ),
    case("C_Sign", "without C_SignInit", NOT_BEGUN, |fixture| {
        fixture.fresh()?.sign(&DIGEST, &mut [0; 64]).map(drop)
    }),
    case("C_Sign", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        session.sign(&DIGEST, &mut [0; 63]).map(drop)
    }),
    case("C_Sign", "into a short buffer returns the needed length", &[CKR_OK], |fixture| {
        let (session, mut length) = (fixture.fresh()?, 63);
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        let short = fixture.call(
            "C_Sign",
            &session,
            vec![Arg::Bytes(&DIGEST), Arg::Buffer(&mut [0; 63], &mut length)],
        );
        ensure("C_Sign", short.is_err_and(|failure| failure.code == CKR_BUFFER_TOO_SMALL) && length >= 64)
    }),
    case("C_Sign", "continues after a short buffer", &[CKR_OK], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        let _short = session.sign(&DIGEST, &mut [0; 63]);
        session.sign(&DIGEST, &mut [0; 64]).map(drop)
    }),
    case("C_Sign", "continues after a length query", &[CKR_OK], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        ensure("C_Sign", session.sign_length(&DIGEST)? >= 64)?;
        session.sign(&DIGEST, &mut [0; 64]).map(drop)
    }),
    case("C_Sign", "a second time, after the operation ended", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        session.sign(&DIGEST, &mut [0; 64])?;
        session.sign(&DIGEST, &mut [0; 64]).map(drop)
    }),
    case("C_Sign", "of more data than RSA can sign", &[CKR_DATA_LEN_RANGE], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&RSA, fixture.key(Key::Rsa)?)?;
        session.sign(&[1; 246], &mut [0; 256]).map(drop)
    }),
    case("C_Sign", "of more data than RSA can sign ends the signature", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&RSA, fixture.key(Key::Rsa)?)?;
        let _refused = session.sign(&[1; 246], &mut [0; 256]);
        session.sign(&[1; 32], &mut [0; 256]).map(drop)
    }),
    case("C_Sign", "of a digest of the wrong length with PSS", &[CKR_DATA_LEN_RANGE], |fixture| {
        let session = fixture.fresh()?;
        let pss = Mechanism::with_numbers(CKM_RSA_PKCS_PSS, &[CKM_SHA256, CKG_MGF1_SHA256, 32]);
        session.sign_init(&pss, fixture.key(Key::Rsa)?)?;
        session.sign(&[1; 31], &mut [0; 256]).map(drop)
    }),
    case("C_Sign", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.sign_update(b"abc")?;
        session.sign(b"abc", &mut [0; 32]).map(drop)
    }),
    case("C_SignUpdate", "without C_SignInit", NOT_BEGUN, |fixture| fixture.fresh()?.sign_update(b"abc")),
    case("C_SignFinal", "without C_SignInit", NOT_BEGUN, |fixture| {
        fixture.fresh()?.sign_final(&mut [0; 64]).map(drop)
    }),
    case("C_SignFinal", "continues after a short buffer", &[CKR_OK], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.sign_update(b"abc")?;
        let _short = session.sign_final(&mut [0; 31]);
        session.sign_final(&mut [0; 32]).map(drop)
    }),
    case("C_SignFinal", "in parts gives the result of one part", &[CKR_OK], |fixture| {
        let (session, mut one, mut parts) = (fixture.fresh()?, [0; 32], [0; 32]);
        session.sign_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.sign(b"abcdef", &mut one)?;
        session.sign_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.sign_update(b"abc")?;
        session.sign_update(b"def")?;
        session.sign_final(&mut parts)?;
        ensure("C_SignFinal", one == parts)
    }),
    case("C_SignRecover", "without C_SignRecoverInit", RECOVER, |fixture| {
        fixture.call(
            "C_SignRecover",
            &fixture.fresh()?,
            vec![Arg::Bytes(b"abc"), Arg::Buffer(&mut [0; 256], &mut 256)],
        )
    }),
    case(
        "C_SignRecoverInit",
        "with a mechanism that does not recover",
        &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let key = fixture.key(Key::Ec)?;
            fixture.call(
                "C_SignRecoverInit",
                &fixture.fresh()?,
                vec![Arg::Mechanism(&ECDSA), Arg::Number(key.0)],
            )
        },
    ),
    case(
        "C_SignRecover",
        "is reversed by C_VerifyRecover",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            let (session, pair) = (fixture.fresh()?, fixture.pair(Key::Rsa)?);
            let (mut signature, mut data, mut length) = ([0; 256], [0; 256], 256);
            fixture.call(
                "C_SignRecoverInit",
                &session,
                vec![Arg::Mechanism(&RSA), Arg::Number(pair.private.0)],
            )?;
            fixture.call(
                "C_SignRecover",
                &session,
                vec![Arg::Bytes(b"abc"), Arg::Buffer(&mut signature, &mut length)],
            )?;
            fixture.call(
                "C_VerifyRecoverInit",
                &session,
                vec![Arg::Mechanism(&RSA), Arg::Number(pair.public.0)],
            )?;
            length = 256;
            fixture.call(
                "C_VerifyRecover",
                &session,
                vec![Arg::Bytes(&signature), Arg::Buffer(&mut data, &mut length)],
            )?;
            ensure("C_VerifyRecover", &data[..length as usize] == b"abc")
        },
    ),
];
