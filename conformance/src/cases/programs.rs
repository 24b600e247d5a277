//! Calls that real programs make, for example with templates that omit optional attributes.
//!
//! Where the standard leaves the choice to the token, both answers are right, and the result shows
//! the answer.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Mechanism, ObjectHandle, Structure};

use super::calls::NOT_BEGUN;
use super::{Case, DIGEST, ECDSA, HMAC, OR_ABSENT, case};
use crate::fixture::{Answer, Fixture, Key, SECRET, able, bytes, ensure, flag, number, with};

/// The codes for a session key that is made without a login and without `CKA_PRIVATE`.
const PUBLIC_OR_REFUSED: &[CK_RV] = &[CKR_OK, CKR_USER_NOT_LOGGED_IN];

/// PKCS#11 3.2, "Common key attributes": the default of `CKA_SENSITIVE` depends on the mechanism or
/// the token.
pub const READABLE_OR_NOT: &[CK_RV] = &[CKR_OK, CKR_ATTRIBUTE_SENSITIVE];
/// As before, for a mechanism that a module may lack.
pub const SENSITIVE_OR_NOT: &[CK_RV] = &[CKR_OK, CKR_ATTRIBUTE_SENSITIVE, CKR_MECHANISM_INVALID];
/// The codes for a saved state that is restored without its key. A token with
/// `CKF_RESTORE_KEY_NOT_NEEDED` returns `CKR_OK`.
const RESTORED: &[CK_RV] = &[CKR_OK, CKR_KEY_NEEDED, CKR_STATE_UNSAVEABLE, CKR_FUNCTION_NOT_SUPPORTED];

/// The codes for an RSA key of a size that a token may refuse.
pub const RSA_SIZE: &[CK_RV] = &[CKR_OK, CKR_ATTRIBUTE_VALUE_INVALID, CKR_KEY_SIZE_RANGE];

/// Returns a template of a session key without `CKA_PRIVATE`, `CKA_SENSITIVE` and
/// `CKA_EXTRACTABLE`.
pub fn bare(kind: CK_KEY_TYPE) -> Vec<Attribute> {
    vec![number(CKA_CLASS, CKO_SECRET_KEY), number(CKA_KEY_TYPE, kind), flag(CKA_TOKEN, false)]
}

pub fn imported(kind: CK_KEY_TYPE) -> Vec<Attribute> {
    with(bare(kind), bytes(CKA_VALUE, SECRET))
}

/// Returns a derivation that hashes the key.
fn hashed() -> Mechanism {
    Mechanism::new(CKM_SHA256_KEY_DERIVATION)
}

fn generated_rsa(fixture: &Fixture<'_>, bits: CK_ULONG) -> Answer {
    let public =
        [flag(CKA_TOKEN, false), number(CKA_MODULUS_BITS, bits), bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])];
    let private = [flag(CKA_TOKEN, false)];
    let mechanism = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
    fixture.generate_key_pair(&mechanism, &public, &private).map(drop)
}

fn reads(fixture: &Fixture<'_>, key: ObjectHandle, flag: CK_ATTRIBUTE_TYPE) -> Answer<bool> {
    Ok(fixture.attribute(key, flag)? == [1])
}

fn refuses_parts(code: Answer, over: Answer) -> Answer {
    let not_initialized = |outcome: &Answer| {
        outcome.as_ref().err().is_some_and(|failure| failure.code == CKR_OPERATION_NOT_INITIALIZED)
    };
    ensure("C_SignUpdate", !not_initialized(&code) || not_initialized(&over))?;
    code
}

pub const CASES: &[Case] = &[
    case("C_SignUpdate", "with CKM_ECDSA", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        refuses_parts(session.sign_update(&DIGEST), session.sign_final(&mut [0; 64]).map(drop))
    }),
    case("C_VerifyUpdate", "with CKM_ECDSA", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&ECDSA, fixture.pair(Key::Ec)?.public)?;
        refuses_parts(session.verify_update(&DIGEST), session.verify_final(&[1; 64]).map(drop))
    }),
    case("C_EncryptUpdate", "with CKM_RSA_PKCS", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&Mechanism::new(CKM_RSA_PKCS), fixture.pair(Key::Rsa)?.public)?;
        fixture.call(
            "C_EncryptUpdate",
            &session,
            vec![Arg::Bytes(&DIGEST), Arg::Buffer(&mut [0; 256], &mut 256)],
        )
    }),
    case("C_GenerateKeyPair", "of RSA with 1024 bits", RSA_SIZE, |fixture| generated_rsa(fixture, 1024)),
    case("C_GenerateKeyPair", "of RSA with 3092 bits", RSA_SIZE, |fixture| generated_rsa(fixture, 3092)),
    case("C_GetMechanismInfo", "reports the smallest RSA key that is generated", &[CKR_OK], |fixture| {
        let least = fixture.module.mechanism_info(fixture.slot, CKM_RSA_PKCS_KEY_PAIR_GEN)?.key_sizes.0;
        generated_rsa(fixture, least)
    }),
    case("C_SetOperationState", "of a signature without the key", RESTORED, |fixture| {
        let (session, key) = (fixture.fresh()?, fixture.key(Key::Generic)?);
        session.sign_init(&HMAC, key)?;
        session.sign_update(b"part")?;
        let (mut state, mut length) = (vec![0; 4096], 4096);
        fixture.call("C_GetOperationState", &session, vec![Arg::Buffer(&mut state, &mut length)])?;
        state.truncate(length as usize);
        let restored = fixture.fresh()?;
        let arguments = vec![Arg::Bytes(&state), Arg::Number(0), Arg::Number(0)];
        fixture.call("C_SetOperationState", &restored, arguments)
    }),
    case("C_CreateObject", "of a session key without a login", PUBLIC_OR_REFUSED, |fixture| {
        fixture.logged_out(|session| {
            let key = session.create_object(&imported(CKK_GENERIC_SECRET))?;
            ensure("C_CreateObject", session.attribute(key, CKA_PRIVATE)? == [0])
        })
    }),
    case("C_GenerateKey", "of a session key without a login", PUBLIC_OR_REFUSED, |fixture| {
        fixture.logged_out(|session| {
            let template = [flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 16)];
            let key = session.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template)?;
            ensure("C_GenerateKey", session.attribute(key, CKA_PRIVATE)? == [0])
        })
    }),
    case("C_DeriveKey", "of a session key without a login", PUBLIC_OR_REFUSED, |fixture| {
        fixture.logged_out(|session| {
            let base = with(imported(CKK_GENERIC_SECRET), flag(CKA_PRIVATE, false));
            let base = session.create_object(&able(base, &[CKA_DERIVE]))?;
            let key = session.derive_key(&hashed(), base, &bare(CKK_GENERIC_SECRET))?;
            ensure("C_DeriveKey", session.attribute(key, CKA_PRIVATE)? == [0])
        })
    }),
    case("C_CreateObject", "of a secret key sets CKA_DERIVE to false", &[CKR_OK], |fixture| {
        let key = fixture.create_object(&imported(CKK_GENERIC_SECRET))?;
        ensure("C_CreateObject", !reads(fixture, key, CKA_DERIVE)?)
    }),
    case("C_GenerateKey", "of a secret key sets CKA_DERIVE to false", &[CKR_OK], |fixture| {
        let template = [flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 16)];
        let key = fixture.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template)?;
        ensure("C_GenerateKey", !reads(fixture, key, CKA_DERIVE)?)
    }),
    case("C_CreateObject", "of a secret key whose value is read later", READABLE_OR_NOT, |fixture| {
        let key = fixture.create_object(&imported(CKK_GENERIC_SECRET))?;
        ensure("C_CreateObject", fixture.attribute(key, CKA_VALUE)? == SECRET)
    }),
    case("C_DeriveKey", "by hashing a sensitive key, and reading the result", SENSITIVE_OR_NOT, |fixture| {
        let template = with(imported(CKK_GENERIC_SECRET), flag(CKA_SENSITIVE, true));
        let base = fixture.create_object(&able(template, &[CKA_DERIVE]))?;
        let key = fixture.derive_key(&hashed(), base, &bare(CKK_GENERIC_SECRET))?;
        fixture.attribute(key, CKA_VALUE).map(drop)
    }),
    case(
        "C_DeriveKey",
        "by concatenation with a sensitive key makes a sensitive key",
        OR_ABSENT,
        |fixture| {
            let template = with(imported(CKK_GENERIC_SECRET), flag(CKA_SENSITIVE, true));
            let base = fixture.create_object(&able(template, &[CKA_DERIVE]))?;
            let data = Structure::new().bytes(b"data");
            let mechanism = data.mechanism(CKM_CONCATENATE_BASE_AND_DATA);
            let key = fixture.derive_key(&mechanism, base, &bare(CKK_GENERIC_SECRET))?;
            ensure("C_DeriveKey", reads(fixture, key, CKA_SENSITIVE)?)
        },
    ),
];
