//! "Signing and MACing functions".

use cryptoki_sys::*;
use jeton_client::{Mechanism, Structure};

use super::calls::{Calls, NOT_BEGUN, listed, refused};
use super::schemes::pss;
use super::verifying::idle_pair;
use super::{
    BAD_HANDLE, BAD_MECHANISM, BAD_PARAMETER, BAD_TYPE, Case, DIGEST, ECDSA, HMAC, Handle, INVALID,
    MAY_REFUSE, NO_MECHANISM, NOT_PERMITTED, UNKNOWN, WRONG_KEY, case, optional, refuses, starts,
};
use crate::fixture::{Answer, Fixture, Key, ensure, signed};
use crate::task::Task;

static RSA: Mechanism = Mechanism::new(CKM_RSA_PKCS);

const EC: Handle = Handle::Private(Key::Ec);
const IDLE: Handle = Handle::Private(Key::Idle);
const RSA_KEY: Handle = Handle::Private(Key::Rsa);

const BAD_SALT: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID, CKR_KEY_SIZE_RANGE];
const BAD_CONTEXT: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID, CKR_MECHANISM_INVALID];
const NO_LOGIN: &[CK_RV] = &[CKR_KEY_HANDLE_INVALID, CKR_USER_NOT_LOGGED_IN];

/// The signatures with a hedge variant, their keys, and the hashes that their parameters name.
const HEDGED: [(CK_MECHANISM_TYPE, Key, Option<CK_MECHANISM_TYPE>); 6] = [
    (CKM_ML_DSA, Key::MlDsa, None),
    (CKM_HASH_ML_DSA, Key::MlDsa, Some(CKM_SHA256)),
    (CKM_HASH_ML_DSA_SHA256, Key::MlDsa, None),
    (CKM_SLH_DSA, Key::SlhDsa, None),
    (CKM_HASH_SLH_DSA, Key::SlhDsa, Some(CKM_SHA256)),
    (CKM_HASH_SLH_DSA_SHA256, Key::SlhDsa, None),
];

pub fn tasks() -> Vec<Task> {
    let tasks = HEDGED.into_iter().map(|(kind, key, hash)| {
        listed("C_Sign", "with each hedge variant, with {}", (kind, CKF_SIGN), &[], move |fixture| {
            hedges(fixture, kind, key, hash)
        })
    });
    tasks.collect()
}

/// Checks that a hedged signature differs from the one before, and that a deterministic one does
/// not.
fn hedges(
    fixture: &Fixture<'_>,
    kind: CK_MECHANISM_TYPE,
    key: Key,
    hash: Option<CK_MECHANISM_TYPE>,
) -> Answer {
    for (variant, repeats) in [(CKH_DETERMINISTIC_REQUIRED, true), (CKH_HEDGE_REQUIRED, false)] {
        let parameter = Structure::new().number(variant).bytes(b"context");
        let parameter = if let Some(hash) = hash { parameter.number(hash) } else { parameter };
        let (mechanism, key) = (parameter.mechanism(kind), fixture.key(key)?);
        let one = signed(fixture, &mechanism, key, &DIGEST)?;
        ensure("C_Sign", (one == signed(fixture, &mechanism, key, &DIGEST)?) == repeats)?;
    }
    Ok(())
}

pub const CASES: &[Case] = &[
    starts("C_SignInit", "with an unknown mechanism", BAD_MECHANISM, UNKNOWN, EC),
    starts("C_SignInit", "with a mechanism that does not sign", BAD_MECHANISM, CKM_SHA256, EC),
    starts("C_SignInit", "with an invalid key handle", BAD_HANDLE, CKM_ECDSA, Handle::Invalid),
    starts("C_SignInit", "with the public key", WRONG_KEY, CKM_ECDSA, Handle::Public(Key::Ec)),
    starts("C_SignInit", "with an elliptic curve key for RSA", BAD_TYPE, CKM_RSA_PKCS, EC),
    // PKCS#11 3.2, CKR_KEY_FUNCTION_NOT_PERMITTED: the code of a wrong type precedes it.
    starts("C_SignInit", "with an AES key without CKA_SIGN for RSA", BAD_TYPE, CKM_RSA_PKCS, IDLE),
    starts("C_SignInit", "with HMAC and an AES key", BAD_TYPE, CKM_SHA256_HMAC, Handle::Private(Key::Aes)),
    starts("C_SignInit", "with a key without CKA_SIGN", NOT_PERMITTED, CKM_AES_CMAC, IDLE),
    case("C_SignInit", "with a parameter that the mechanism does not have", MAY_REFUSE, |fixture| {
        fixture.fresh()?.sign_init(&Mechanism::with_bytes(CKM_ECDSA, &[1; 8]), fixture.key(Key::Ec)?)
    }),
    starts("C_SignInit", "with PSS and no parameter", BAD_PARAMETER, CKM_SHA256_RSA_PKCS_PSS, RSA_KEY),
    refuses(
        "C_SignInit",
        "with PSS and another hash than that of the mechanism",
        CKM_SHA256_RSA_PKCS_PSS,
        RSA_KEY,
        |kind| Mechanism::with_numbers(kind, &[CKM_SHA384, CKG_MGF1_SHA384, 48]),
    ),
    case("C_SignInit", "with PSS and a salt that is too long", BAD_SALT, |fixture| {
        let session = fixture.fresh()?;
        let pss = Mechanism::with_numbers(CKM_SHA256_RSA_PKCS_PSS, &[CKM_SHA256, CKG_MGF1_SHA256, 400]);
        session.sign_init(&pss, fixture.key(Key::Rsa)?)?;
        session.sign(b"abc", &mut [0; 256]).map(drop)
    }),
    refuses(
        "C_SignInit",
        "with HMAC and a length that exceeds its output",
        CKM_SHA256_HMAC_GENERAL,
        Handle::Private(Key::Generic),
        |kind| Mechanism::with_numbers(kind, &[33]),
    ),
    case("C_SignInit", "with a context of 256 bytes", BAD_CONTEXT, |fixture| {
        if !fixture.lists(CKM_ML_DSA) {
            return fixture.fresh()?.sign_init(&NO_MECHANISM, fixture.key(Key::Ec)?);
        }
        let parameter = Structure::new().number(CKH_HEDGE_PREFERRED).bytes(&[0; 256]);
        fixture.fresh()?.sign_init(&parameter.mechanism(CKM_ML_DSA), fixture.key(Key::MlDsa)?)
    }),
    case("C_SignInit", "with a private key without a login", NO_LOGIN, |fixture| {
        let key = fixture.key(Key::Ec)?;
        fixture.logged_out(|session| session.sign_init(&ECDSA, key))
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
        session.sign_init(&pss(CKM_RSA_PKCS_PSS), fixture.key(Key::Rsa)?)?;
        session.sign(&[1; 31], &mut [0; 256]).map(drop)
    }),
    case("C_Sign", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.sign_update(b"abc")?;
        session.sign(b"abc", &mut [0; 32]).map(drop)
    }),
    starts("C_SignRecoverInit", "with a mechanism that does not recover", INVALID, CKM_ECDSA, EC),
    optional("C_SignRecoverInit", "with a key without CKA_SIGN_RECOVER", NOT_PERMITTED, |fixture| {
        Calls::new(fixture)?.init("C_SignRecoverInit", &RSA, idle_pair(fixture)?.private)
    }),
    case("C_Sign", "of data that CKM_RSA_X_509 cannot sign", &[CKR_OK], |fixture| {
        const TOO_LARGE: &[CK_RV] = &[CKR_DATA_INVALID, CKR_DATA_LEN_RANGE];
        let session = fixture.fresh()?;
        for (data, codes) in [(&[1; 257][..], &[CKR_DATA_LEN_RANGE][..]), (&[0xff; 256], TOO_LARGE)] {
            session.sign_init(&Mechanism::new(CKM_RSA_X_509), fixture.key(Key::Rsa)?)?;
            refused("C_Sign", session.sign(data, &mut [0; 256]), codes)?;
            refused("C_Sign", session.sign(data, &mut [0; 256]), NOT_BEGUN)?;
        }
        Ok(())
    }),
];
