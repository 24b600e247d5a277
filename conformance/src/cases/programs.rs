//! Calls that real programs make: defaults of templates that they do not fill in.
//!
//! Where the standard leaves the choice to the token, both answers are right, and the result shows
//! the answer.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, Mechanism, ObjectHandle, Structure};

use super::{Case, case};
use crate::fixture::{Fixture, SECRET, able, ensure, with};

/// The codes for a session key that is made without a login and without `CKA_PRIVATE`.
const PUBLIC_OR_REFUSED: &[CK_RV] = &[CKR_OK, CKR_USER_NOT_LOGGED_IN];

/// Returns a template of a session key without `CKA_PRIVATE`, `CKA_SENSITIVE` and
/// `CKA_EXTRACTABLE`.
fn bare(kind: CK_KEY_TYPE) -> Vec<Attribute> {
    vec![
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, kind),
        Attribute::flag(CKA_TOKEN, false),
    ]
}

fn imported(kind: CK_KEY_TYPE) -> Vec<Attribute> {
    with(bare(kind), Attribute::bytes(CKA_VALUE, SECRET))
}

/// Returns a derivation that hashes the key.
fn hashed() -> Mechanism {
    Mechanism::new(CKM_SHA256_KEY_DERIVATION)
}

fn reads(fixture: &Fixture<'_>, key: ObjectHandle, flag: CK_ATTRIBUTE_TYPE) -> Result<bool, Failure> {
    Ok(fixture.session.attribute(key, flag)? == [1])
}

pub const CASES: &[Case] = &[
    case("C_CreateObject", "of a session key without a login", PUBLIC_OR_REFUSED, |fixture| {
        fixture.logged_out(|session| {
            let key = session.create_object(&imported(CKK_GENERIC_SECRET))?;
            ensure("C_CreateObject", session.attribute(key, CKA_PRIVATE)? == [0])
        })
    }),
    case("C_GenerateKey", "of a session key without a login", PUBLIC_OR_REFUSED, |fixture| {
        fixture.logged_out(|session| {
            let template = [Attribute::flag(CKA_TOKEN, false), Attribute::number(CKA_VALUE_LEN, 16)];
            let key = session.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template)?;
            ensure("C_GenerateKey", session.attribute(key, CKA_PRIVATE)? == [0])
        })
    }),
    case("C_DeriveKey", "of a session key without a login", PUBLIC_OR_REFUSED, |fixture| {
        fixture.logged_out(|session| {
            let base = with(imported(CKK_GENERIC_SECRET), Attribute::flag(CKA_PRIVATE, false));
            let base = session.create_object(&able(base, &[CKA_DERIVE]))?;
            let key = session.derive_key(&hashed(), base, &bare(CKK_GENERIC_SECRET))?;
            ensure("C_DeriveKey", session.attribute(key, CKA_PRIVATE)? == [0])
        })
    }),
    case("C_CreateObject", "of a secret key sets CKA_DERIVE to false", &[CKR_OK], |fixture| {
        let key = fixture.session.create_object(&imported(CKK_GENERIC_SECRET))?;
        ensure("C_CreateObject", !reads(fixture, key, CKA_DERIVE)?)
    }),
    case("C_GenerateKey", "of a secret key sets CKA_DERIVE to false", &[CKR_OK], |fixture| {
        let template = [Attribute::flag(CKA_TOKEN, false), Attribute::number(CKA_VALUE_LEN, 16)];
        let key = fixture.session.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template)?;
        ensure("C_GenerateKey", !reads(fixture, key, CKA_DERIVE)?)
    }),
    case(
        "C_CreateObject",
        "of a secret key whose value is read later",
        &[CKR_OK, CKR_ATTRIBUTE_SENSITIVE],
        |fixture| {
            let key = fixture.session.create_object(&imported(CKK_GENERIC_SECRET))?;
            ensure("C_CreateObject", fixture.session.attribute(key, CKA_VALUE)? == SECRET)
        },
    ),
    case(
        "C_DeriveKey",
        "by hashing a sensitive key, and reading the result",
        &[CKR_OK, CKR_ATTRIBUTE_SENSITIVE, CKR_MECHANISM_INVALID],
        |fixture| {
            let template = with(imported(CKK_GENERIC_SECRET), Attribute::flag(CKA_SENSITIVE, true));
            let base = fixture.session.create_object(&able(template, &[CKA_DERIVE]))?;
            let key = fixture.session.derive_key(&hashed(), base, &bare(CKK_GENERIC_SECRET))?;
            fixture.session.attribute(key, CKA_VALUE).map(drop)
        },
    ),
    case(
        "C_DeriveKey",
        "by concatenation with a sensitive key makes a sensitive key",
        &[CKR_OK, CKR_MECHANISM_INVALID],
        |fixture| {
            let template = with(imported(CKK_GENERIC_SECRET), Attribute::flag(CKA_SENSITIVE, true));
            let base = fixture.session.create_object(&able(template, &[CKA_DERIVE]))?;
            let data = Structure::new().bytes(b"data");
            let mechanism = data.mechanism(CKM_CONCATENATE_BASE_AND_DATA);
            let key = fixture.session.derive_key(&mechanism, base, &bare(CKK_GENERIC_SECRET))?;
            ensure("C_DeriveKey", reads(fixture, key, CKA_SENSITIVE)?)
        },
    ),
];
