//! Clauses that modules read differently, such as those on single-part mechanisms, the defaults of
//! attributes, restricted keys, and the flags of the token.
//!
//! Where the standard leaves the choice to the token, both answers are right, and the result shows
//! the answer. `conformance/tests/jeton.rs` expects a fixed answer from Jeton.

use cryptoki_sys::*;
use jeton_client::names::{CKM_ML_DSA_EXTERNAL_MU, CKM_ML_DSA_EXTERNAL_MU_GEN};
use jeton_client::{Arg, Attribute, Mechanism, ObjectHandle, Session, Structure};
use jeton_names::parameter::parameter;
use jeton_names::structs::Parameter;

use super::digests::digesting;
use super::encryption::oaep;
use super::keys::{ecdh, point};
use super::objects::FOREIGN;
use super::programs::{READABLE_OR_NOT, RSA_SIZE, SENSITIVE_OR_NOT, bare, imported};
use super::schemes::{hash_sign, pss};
use super::{Case, DIGEST, ECDSA, HMAC, MAY_REFUSE, OR_ABSENT, case, cbc, creates, optional};
use crate::fixture::{
    Answer, ED25519, Fixture, Key, P256, SECRET, able, bytes, ensure, flag, hex, hss_levels, number,
    open_key, signed, with,
};

/// PKCS#11 3.2, the tables of the mechanisms: "Single-part operations only". A module may lack the
/// mechanism.
const NO_PARTS: &[CK_RV] =
    &[CKR_OPERATION_NOT_INITIALIZED, CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED];
/// PKCS#11 3.3, "ExternalMu-ML-DSA Signature": the input has 64 bytes.
const SHORT_MU: &[CK_RV] = &[CKR_DATA_LEN_RANGE, CKR_MECHANISM_INVALID];
/// PKCS#11 3.3, "ExternalMu-ML-DSA generation": a key, or the hash of a public key.
const NO_MU: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID, CKR_MECHANISM_INVALID];
/// PKCS#11 3.2, "Common key attributes", `CKA_ALLOWED_MECHANISMS`: "A list of mechanisms allowed to
/// be used with this key".
const NOT_ALLOWED: &[CK_RV] = &[CKR_MECHANISM_INVALID, CKR_KEY_FUNCTION_NOT_PERMITTED];
/// PKCS#11 3.2, "Key derivation by data encryption": the data is at least as long as the key.
const TOO_SHORT: &[CK_RV] = &[CKR_DATA_LEN_RANGE, CKR_MECHANISM_INVALID];

const GMAC: &[CK_RV] = &[CKR_OK, CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID];
const NO_CONTEXT: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID, CKR_MECHANISM_INVALID, CKR_OK];
const BOTH_NUMBERS: &[CK_RV] = &[CKR_OK, CKR_MECHANISM_INVALID, CKR_ATTRIBUTE_TYPE_INVALID];
const NO_LENGTH: &[CK_RV] = &[
    CKR_TEMPLATE_INCOMPLETE,
    CKR_TEMPLATE_INCONSISTENT,
    CKR_KEY_SIZE_RANGE,
    CKR_ATTRIBUTE_VALUE_INVALID,
    CKR_MECHANISM_INVALID,
];

/// PKCS#11 3.2, "HSS": a module may lack it, or this parameter set.
const EXHAUSTED: &[CK_RV] = &[CKR_KEY_EXHAUSTED, CKR_MECHANISM_INVALID, CKR_ATTRIBUTE_VALUE_INVALID];

/// RFC 5903, 8.1: a private key of P-256, and the public key of the other side.
const OWN: &str = "c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433";
const PEER: &str = "04d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf6356fbf3ca366cc23e8157854c13c58d6aac\
                    23f046ada30f8353e74f33039872ab";
/// The first 24 bytes of the keys with the shared data "info", computed with `hashlib` of Python.
/// PKCS#11 3.2, "EC: Key Derivation Functions": the counter is before the secret in
/// `CKD_*_KDF_SP800`, and after it in `CKD_*_KDF`.
const STRETCHED: [(CK_ULONG, &str); 14] = [
    (CKD_SHA1_KDF, "ba96c1ad6985571fed409078843327ed518dd6e440e05600"),
    (CKD_SHA256_KDF, "1660bc357314e58d942a6546ef9cc0a1ce31f1960ca93a8d"),
    (CKD_SHA1_KDF_SP800, "5124bf5978b48a14a55b56e9cbfac5c716db8c3a1f5d7f3e"),
    (CKD_SHA224_KDF_SP800, "63f4553b22f9ee4e9c34f06475539f7f1fd384c7cafc3cca"),
    (CKD_SHA256_KDF_SP800, "c3c8652135c00ed05eb56fa632ba3780ddc5b918e8807e3b"),
    (CKD_SHA384_KDF_SP800, "5fbb3015aa8bcd4a8c62c8f01c8ac3567e87a3e4af1c8378"),
    (CKD_SHA512_KDF_SP800, "f0a31227aaa43623df2011123d24bdde880476b4e412c5c1"),
    (CKD_SHA3_224_KDF_SP800, "596250d997606f65840c02fcabfbb64f5195ce089fbe6e55"),
    (CKD_SHA3_256_KDF_SP800, "3286bd5842a5f3cabb050a98fe997b011276b8ebe2ee87e5"),
    (CKD_SHA3_384_KDF_SP800, "c42b73b61a332e0020da81f24d66ca504978f7b3be259a74"),
    (CKD_SHA3_512_KDF_SP800, "db49689c887609f48d210de7b3b24bdc9735a979c70fa4af"),
    (CKD_BLAKE2B_160_KDF, "bcaa7df8b9057848e5f66b1c2668c65f9eabdd7b82f3b440"),
    (CKD_BLAKE2B_256_KDF, "e3c99a898438dea423ad58d4a0d43416faccbf8c8f33485a"),
    (CKD_BLAKE2B_512_KDF, "5078629d0ecc7e4326fa14955b173c2e5d4ca4bf99fe65df"),
];

fn sign_part(fixture: &Fixture<'_>, mechanism: &Mechanism, key: Key, part: &[u8]) -> Answer {
    let session = fixture.fresh()?;
    session.sign_init(mechanism, fixture.key(key)?)?;
    over(session.sign_update(part), || session.sign_final(&mut [0; 20_000]).map(drop))
}

/// Returns the result of a part. If the code is `CKR_OPERATION_NOT_INITIALIZED`, checks that the
/// operation is over.
fn over(refused: Answer, end: impl FnOnce() -> Answer) -> Answer {
    let Err(failure) = &refused else { return refused };
    if failure.code == CKR_OPERATION_NOT_INITIALIZED {
        ensure(failure.function, end().is_err_and(|failure| failure.code == CKR_OPERATION_NOT_INITIALIZED))?;
    }
    refused
}

fn of_32(kind: CK_KEY_TYPE) -> Vec<Attribute> {
    with(bare(kind), number(CKA_VALUE_LEN, 32))
}

fn sensitive(fixture: &Fixture<'_>, kind: CK_KEY_TYPE) -> Answer<ObjectHandle> {
    fixture.create_object(&able(imported(kind), &[CKA_SENSITIVE, CKA_DERIVE]))
}

fn derived_value(fixture: &Fixture<'_>, mechanism: &Mechanism, base: ObjectHandle) -> Answer {
    let key = fixture.derive_key(mechanism, base, &of_32(CKK_GENERIC_SECRET))?;
    fixture.attribute(key, CKA_VALUE).map(drop)
}

/// Creates an AES key whose `CKA_ALLOWED_MECHANISMS` has only HMAC-SHA-256, although its usage
/// flags allow more.
fn restricted(fixture: &Fixture<'_>) -> Answer<ObjectHandle> {
    let template = with(open_key(CKO_SECRET_KEY, CKK_AES), bytes(CKA_VALUE, SECRET));
    let only = bytes(CKA_ALLOWED_MECHANISMS, CKM_SHA256_HMAC.to_ne_bytes());
    let usages = [CKA_ENCRYPT, CKA_WRAP, CKA_UNWRAP, CKA_DERIVE];
    fixture.create_object(&able(with(template, only), &usages))
}

fn hkdf() -> Mechanism {
    let steps = Structure::new().flag(true).flag(true).number(CKM_SHA256).number(CKF_HKDF_SALT_NULL);
    steps.bytes(b"").number(0).bytes(b"info").mechanism(CKM_HKDF_DERIVE)
}

fn ecb_data(data: &[u8]) -> Mechanism {
    Structure::new().bytes(data).mechanism(CKM_AES_ECB_ENCRYPT_DATA)
}

fn cbc_data(data: &[u8]) -> Mechanism {
    Structure::new().inline(&[1; 16]).bytes(data).mechanism(CKM_AES_CBC_ENCRYPT_DATA)
}

fn des3(fixture: &Fixture<'_>) -> Answer<ObjectHandle> {
    let template = able(vec![flag(CKA_TOKEN, false)], &[CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP]);
    fixture.generate_key(&Mechanism::new(CKM_DES3_KEY_GEN), &template)
}

/// Checks that the token has the flag if the function works, and only then.
fn flag_agrees(fixture: &Fixture<'_>, flag: CK_FLAGS, works: bool) -> Answer {
    ensure("C_GetTokenInfo", (fixture.module.token_info(fixture.slot)?.flags & flag != 0) == works)
}

/// Checks that no mechanism takes a parameter of a length that it does not have.
fn refuse_lengths(
    fixture: &Fixture<'_>,
    function: &'static str,
    init: fn(&Session, &Mechanism, ObjectHandle) -> Answer,
) -> Answer {
    let keys = [Key::Aes, Key::Generic, Key::Rsa, Key::Ec, Key::Edwards, Key::MlDsa];
    let keys: Vec<_> = keys.into_iter().filter_map(|key| fixture.key(key).ok()).collect();
    for kind in fixture.module.mechanisms(fixture.slot)? {
        let parameter = parameter(kind, None);
        let is_right = |length| match parameter {
            Parameter::None => true,
            // The initialisation vector of 2.40 has any other length. The structure has none here.
            Parameter::Gmac => length != 48,
            _ => parameter.layouts().iter().any(|layout| layout.size == length),
        };
        for length in
            [1, 7, 9, 15, 17, 24, 32, 40, 47, 48, 49, 56, 72, 257].into_iter().filter(|len| !is_right(*len))
        {
            let mechanism = Mechanism::with_bytes(kind, &vec![0; length]);
            for key in &keys {
                ensure(function, init(&fixture.fresh()?, &mechanism, *key).is_err())?;
            }
        }
    }
    Ok(())
}

const NO_STATE: &[CK_RV] = &[CKR_ARGUMENTS_BAD, CKR_SAVED_STATE_INVALID];
const MAY_LACK: &[CK_RV] = &[CKR_OK, CKR_ATTRIBUTE_TYPE_INVALID];
const NO_USAGE: &[CK_RV] =
    &[CKR_ATTRIBUTE_TYPE_INVALID, CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_VALUE_INVALID];

pub const CASES: &[Case] = &[
    case("C_SignUpdate", "with CKM_RSA_X_509", NO_PARTS, |fixture| {
        sign_part(fixture, &Mechanism::new(CKM_RSA_X_509), Key::Rsa, &[1; 256])
    }),
    case("C_SignUpdate", "with CKM_RSA_PKCS", NO_PARTS, |fixture| {
        sign_part(fixture, &Mechanism::new(CKM_RSA_PKCS), Key::Rsa, &DIGEST)
    }),
    case("C_SignUpdate", "with CKM_RSA_PKCS_PSS", NO_PARTS, |fixture| {
        sign_part(fixture, &pss(CKM_RSA_PKCS_PSS), Key::Rsa, &DIGEST)
    }),
    case("C_SignUpdate", "with CKM_ML_DSA_EXTERNAL_MU", NO_PARTS, |fixture| {
        sign_part(fixture, &Mechanism::new(CKM_ML_DSA_EXTERNAL_MU), Key::MlDsa, &[7; 64])
    }),
    case("C_Sign", "with CKM_ML_DSA_EXTERNAL_MU and 63 bytes", SHORT_MU, |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&Mechanism::new(CKM_ML_DSA_EXTERNAL_MU), fixture.key(Key::MlDsa)?)?;
        session.sign(&[7; 63], &mut [0; 4096]).map(drop)
    }),
    case("C_DigestInit", "with CKM_ML_DSA_EXTERNAL_MU_GEN without a key", NO_MU, |fixture| {
        let parameter = Structure::new().number(0).bytes(b"").bytes(b"");
        fixture.fresh()?.digest_init(&parameter.mechanism(CKM_ML_DSA_EXTERNAL_MU_GEN))
    }),
    case("C_SignUpdate", "with CKM_HASH_ML_DSA", NO_PARTS, |fixture| {
        sign_part(fixture, &hash_sign(CKM_HASH_ML_DSA), Key::MlDsa, &DIGEST)
    }),
    case("C_SignUpdate", "with CKM_HASH_SLH_DSA", NO_PARTS, |fixture| {
        sign_part(fixture, &hash_sign(CKM_HASH_SLH_DSA), Key::SlhDsa, &DIGEST)
    }),
    case("C_Sign", "with CKM_HSS until no one-time key remains", EXHAUSTED, |fixture| {
        let (public, key) = fixture.generate_key_pair(
            &Mechanism::new(CKM_HSS_KEY_PAIR_GEN),
            &[flag(CKA_TOKEN, false), flag(CKA_VERIFY, true)],
            &with(hss_levels(), flag(CKA_TOKEN, false)),
        )?;
        let (session, mechanism, mut signature) = (fixture.fresh()?, Mechanism::new(CKM_HSS), [0; 4096]);
        for used in 0..32 {
            let left = fixture.number(key, CKA_HSS_KEYS_REMAINING);
            ensure("C_GetAttributeValue", left == Some(32 - used))?;
            session.sign_init(&mechanism, key)?;
            let length = session.sign(b"message", &mut signature)?;
            session.verify_init(&mechanism, public)?;
            ensure("C_Verify", session.verify(b"message", &signature[..length])?)?;
        }
        session.sign_init(&mechanism, key)?;
        session.sign(b"message", &mut signature).map(drop)
    }),
    case("C_DecryptUpdate", "with CKM_RSA_PKCS_OAEP", NO_PARTS, |fixture| {
        let session = fixture.fresh()?;
        session.decrypt_init(&oaep(CKM_SHA256, CKG_MGF1_SHA256, b""), fixture.key(Key::Rsa)?)?;
        let (mut out, mut length) = ([0; 256], 256);
        let part = vec![Arg::Bytes(&[1; 256]), Arg::Buffer(&mut out, &mut length)];
        over(fixture.call("C_DecryptUpdate", &session, part), || {
            fixture.call("C_DecryptFinal", &session, vec![Arg::Buffer(&mut [0; 256], &mut 256)])
        })
    }),
    case("C_VerifySignatureUpdate", "with CKM_ECDSA", NO_PARTS, |fixture| {
        let (session, key) = (fixture.fresh()?, fixture.pair(Key::Ec)?.public);
        let init = vec![Arg::Mechanism(&ECDSA), Arg::Number(key.0), Arg::Bytes(&[1; 64])];
        fixture.call("C_VerifySignatureInit", &session, init)?;
        let part = fixture.call("C_VerifySignatureUpdate", &session, vec![Arg::Bytes(&DIGEST)]);
        over(part, || fixture.call("C_VerifySignatureFinal", &session, vec![]))
    }),
    case("C_DeriveKey", "by ECDH, and reading the result", SENSITIVE_OR_NOT, |fixture| {
        derived_value(fixture, &ecdh(CKD_NULL, &point(fixture)?), fixture.key(Key::Ec)?)
    }),
    case("C_DeriveKey", "by HKDF of a sensitive key, and reading the result", SENSITIVE_OR_NOT, |fixture| {
        derived_value(fixture, &hkdf(), sensitive(fixture, CKK_HKDF)?)
    }),
    case(
        "C_DeriveKey",
        "by encryption with a sensitive key, and reading the result",
        SENSITIVE_OR_NOT,
        |fixture| derived_value(fixture, &ecb_data(&SECRET), sensitive(fixture, CKK_AES)?),
    ),
    case("C_DeriveKey", "with CKM_AES_ECB_ENCRYPT_DATA and too little data", TOO_SHORT, |fixture| {
        derived_value(fixture, &ecb_data(&SECRET[..16]), sensitive(fixture, CKK_AES)?)
    }),
    case("C_DeriveKey", "with CKM_AES_CBC_ENCRYPT_DATA and too little data", TOO_SHORT, |fixture| {
        derived_value(fixture, &cbc_data(&SECRET[..16]), sensitive(fixture, CKK_AES)?)
    }),
    case("C_DeriveKey", "with ECDH and each KDF of SP 800-56A", MAY_REFUSE, |fixture| {
        let private = with(open_key(CKO_PRIVATE_KEY, CKK_EC), bytes(CKA_EC_PARAMS, P256));
        let private = able(with(private, bytes(CKA_VALUE, hex(OWN))), &[CKA_DERIVE]);
        let private = fixture.create_object(&private)?;
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let template = with(template, number(CKA_VALUE_LEN, 24));
        STRETCHED.iter().try_for_each(|(kdf, known)| {
            let parameter = Structure::new().number(*kdf).counted(b"info").counted(&hex(PEER));
            let mechanism = parameter.mechanism(CKM_ECDH1_DERIVE);
            let made = fixture.derive_key(&mechanism, private, &template)?;
            ensure("C_DeriveKey", fixture.attribute(made, CKA_VALUE)? == hex(known))
        })
    }),
    case("C_EncryptUpdate", "with CKM_DES3_CBC returns a block of 8 bytes at once", OR_ABSENT, |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&Mechanism::with_bytes(CKM_DES3_CBC, &[1; 8]), des3(fixture)?)?;
        let (mut out, mut length) = ([0; 16], 16);
        let part = vec![Arg::Bytes(&[2; 8]), Arg::Buffer(&mut out, &mut length)];
        fixture.call("C_EncryptUpdate", &session, part)?;
        ensure("C_EncryptUpdate", length == 8)
    }),
    // PKCS#11 3.2, "Conventions for functions returning output": the example with the padding.
    case(
        "C_DecryptUpdate",
        "with CKM_DES3_CBC_PAD returns a block after one more byte",
        OR_ABSENT,
        |fixture| {
            let (session, key) = (fixture.fresh()?, des3(fixture)?);
            let mechanism = Mechanism::with_bytes(CKM_DES3_CBC_PAD, &[1; 8]);
            session.encrypt_init(&mechanism, key)?;
            let (mut sealed, mut length) = ([0; 24], 24);
            let whole = vec![Arg::Bytes(&[2; 16]), Arg::Buffer(&mut sealed, &mut length)];
            fixture.call("C_Encrypt", &session, whole)?;
            session.decrypt_init(&mechanism, key)?;
            let part = |bytes: &[u8]| -> Answer<CK_ULONG> {
                let (mut out, mut length) = ([0; 32], 32);
                let part = vec![Arg::Bytes(bytes), Arg::Buffer(&mut out, &mut length)];
                fixture.call("C_DecryptUpdate", &session, part)?;
                ensure("C_DecryptUpdate", out[..length as usize].iter().all(|byte| *byte == 2))?;
                Ok(length)
            };
            ensure("C_DecryptUpdate", part(&sealed[..8])? == 0 && part(&sealed[8..9])? == 8)
        },
    ),
    // PKCS#11 3.2, CK_TOKEN_INFO: the token "has support for dual cryptographic operations".
    case("C_GetTokenInfo", "CKF_DUAL_CRYPTO_OPERATIONS agrees with the functions", &[CKR_OK], |fixture| {
        let session = digesting(fixture)?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        let (mut out, mut length) = ([0; 64], 64);
        let part = vec![Arg::Bytes(&DIGEST), Arg::Buffer(&mut out, &mut length)];
        let works = fixture.call("C_DigestEncryptUpdate", &session, part).is_ok();
        flag_agrees(fixture, CKF_DUAL_CRYPTO_OPERATIONS, works)
    }),
    // PKCS#11 3.2, CK_TOKEN_INFO: "a successful save of a session's cryptographic operations state
    // always contains all keys needed to restore the state".
    case("C_GetTokenInfo", "CKF_RESTORE_KEY_NOT_NEEDED agrees with the functions", &[CKR_OK], |fixture| {
        let (session, mut state, mut length) = (fixture.fresh()?, vec![0; 4096], 4096);
        session.sign_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.sign_update(b"part")?;
        let saved = fixture.call("C_GetOperationState", &session, vec![Arg::Buffer(&mut state, &mut length)]);
        state.truncate(length as usize);
        let arguments = vec![Arg::Bytes(&state), Arg::Number(0), Arg::Number(0)];
        let works =
            saved.is_ok() && fixture.call("C_SetOperationState", &fixture.fresh()?, arguments).is_ok();
        flag_agrees(fixture, CKF_RESTORE_KEY_NOT_NEEDED, works)
    }),
    optional("C_SetOperationState", "without data", NO_STATE, |fixture| {
        let arguments = vec![Arg::NullBytes(0), Arg::Number(0), Arg::Number(0)];
        fixture.call("C_SetOperationState", &fixture.fresh()?, arguments)
    }),
    creates("of an AES key with CKA_MODULUS", FOREIGN, || {
        with(imported(CKK_AES), bytes(CKA_MODULUS, [1; 8]))
    }),
    case("C_GenerateKey", "of a secret key whose value is read later", READABLE_OR_NOT, |fixture| {
        let template = [flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 16)];
        let key = fixture.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template)?;
        fixture.attribute(key, CKA_VALUE).map(drop)
    }),
    case("C_UnwrapKey", "of a session key without a login", &[CKR_OK, CKR_USER_NOT_LOGGED_IN], |fixture| {
        fixture.logged_out(|session| {
            let template = with(imported(CKK_AES), flag(CKA_PRIVATE, false));
            let template = able(template, &[CKA_WRAP, CKA_UNWRAP]);
            let wrapping = session.create_object(&able(template, &[CKA_EXTRACTABLE]))?;
            let (mechanism, mut wrapped) = (Mechanism::new(CKM_AES_KEY_WRAP), [0; 64]);
            let length = session.wrap_key(&mechanism, wrapping, wrapping, &mut wrapped)?;
            let key = session.unwrap_key(&mechanism, wrapping, &wrapped[..length], &bare(CKK_AES))?;
            ensure("C_UnwrapKey", session.attribute(key, CKA_PRIVATE)? == [0])
        })
    }),
    case("C_GetAttributeValue", "CKA_ALLOWED_MECHANISMS of a key made without it", MAY_LACK, |fixture| {
        let list = fixture.attribute(fixture.key(Key::Aes)?, CKA_ALLOWED_MECHANISMS)?;
        ensure("C_GetAttributeValue", list.is_empty())
    }),
    case("C_EncryptInit", "with a mechanism outside CKA_ALLOWED_MECHANISMS", NOT_ALLOWED, |fixture| {
        fixture.fresh()?.encrypt_init(&cbc(), restricted(fixture)?)
    }),
    case("C_WrapKey", "with a mechanism outside CKA_ALLOWED_MECHANISMS", NOT_ALLOWED, |fixture| {
        let key = fixture.key(Key::Generic)?;
        let mechanism = Mechanism::new(CKM_AES_KEY_WRAP);
        fixture.wrap_key(&mechanism, restricted(fixture)?, key, &mut [0; 64]).map(drop)
    }),
    case("C_UnwrapKey", "with a mechanism outside CKA_ALLOWED_MECHANISMS", NOT_ALLOWED, |fixture| {
        let mechanism = Mechanism::new(CKM_AES_KEY_WRAP);
        fixture.unwrap_key(&mechanism, restricted(fixture)?, &[1; 40], &bare(CKK_AES)).map(drop)
    }),
    case("C_DeriveKey", "with a mechanism outside CKA_ALLOWED_MECHANISMS", NOT_ALLOWED, |fixture| {
        let template = of_32(CKK_AES);
        fixture.derive_key(&ecb_data(&SECRET), restricted(fixture)?, &template).map(drop)
    }),
    // PKCS#11 3.2, "AES-GMAC": "the tag's length is determined by the CK_GCM_PARAMS field
    // ulTagBits". OpenSSL computed the MAC. A module that takes only the bare initialisation vector
    // of 2.40 refuses the structure.
    case("C_Sign", "with CKM_AES_GMAC and CK_GCM_PARAMS", GMAC, |fixture| {
        let nonce = Structure::new().bytes(&[3; 12]).number(96);
        let mechanism = nonce.bytes(b"").number(96).mechanism(CKM_AES_GMAC);
        let (session, key, mut mac) = (fixture.fresh()?, fixture.key(Key::Aes)?, [0; 16]);
        session.sign_init(&mechanism, key)?;
        let length = session.sign(b"message", &mut mac)?;
        ensure("C_Sign", mac[..length] == hex("4fb838aabc752cd0d0cb014f"))?;
        session.verify_init(&mechanism, key)?;
        ensure("C_Verify", session.verify(b"message", &mac[..length])?)
    }),
    case("C_SignInit", "with parameters of wrong lengths", &[CKR_OK], |fixture| {
        refuse_lengths(fixture, "C_SignInit", Session::sign_init)
    }),
    case("C_EncryptInit", "with parameters of wrong lengths", &[CKR_OK], |fixture| {
        refuse_lengths(fixture, "C_EncryptInit", Session::encrypt_init)
    }),
    // PKCS#11 3.2, "Mapping to RFC 8032 signature schemes": Ed25519ctx, whose context "SHOULD NOT
    // be empty" (RFC 8032, 8.3). The key and the message are those of RFC 8032, 7.2. The signature
    // was computed with the formulas of 5.1.6.
    case("C_SignInit", "with Ed25519 and CK_EDDSA_PARAMS without context", NO_CONTEXT, |fixture| {
        let mechanism = Structure::new().flag(false).number(0).null().mechanism(CKM_EDDSA);
        let seed = hex("0305334e381af78f141cb666f6199f57bc3495335a256a95bd2a55bf546663f6");
        let template = with(open_key(CKO_PRIVATE_KEY, CKK_EC_EDWARDS), bytes(CKA_EC_PARAMS, ED25519));
        let key = fixture.create_object(&able(with(template, bytes(CKA_VALUE, seed)), &[CKA_SIGN]))?;
        let signature = signed(fixture, &mechanism, key, &hex("f726936d19c800494e3fdaff20b276a8"))?;
        let known = "cc5e63a27e94afd3418338d2486fa92af9917c2d989e06e50277721c343818b4\
             2196bc292e68f34d859bbead179f54542d4b04dcfbfa4a684e3950fb1ccd8d0d";
        ensure("C_Sign", signature == hex(known))
    }),
    // The headers of 3.2 lack the flag. The correction of the standard has it.
    case("C_GenerateKeyPair", "with both numbers of CKA_ENCAPSULATE_TEMPLATE", BOTH_NUMBERS, |fixture| {
        let public = [flag(CKA_TOKEN, false), number(CKA_PARAMETER_SET, CKP_ML_KEM_768)];
        let private = [flag(CKA_TOKEN, false)];
        [CKA_ENCAPSULATE_TEMPLATE, CKA_ENCAPSULATE_TEMPLATE | CKF_ARRAY_ATTRIBUTE].iter().try_for_each(|id| {
            let public = with(public.to_vec(), bytes(*id, []));
            let mechanism = Mechanism::new(CKM_ML_KEM_KEY_PAIR_GEN);
            let (key, _) = fixture.generate_key_pair(&mechanism, &public, &private)?;
            ensure("C_GetAttributeValue", fixture.attribute(key, *id)?.is_empty())
        })
    }),
    // PKCS#11 3.2, "Hash-based Key Derivation": "that key type must have a well-defined length".
    case("C_DeriveKey", "an AES key by SHA-256 without CKA_VALUE_LEN", NO_LENGTH, |fixture| {
        let mechanism = Mechanism::new(CKM_SHA256_KEY_DERIVATION);
        fixture.derive_key(&mechanism, fixture.key(Key::Generic)?, &bare(CKK_AES)).map(drop)
    }),
    // PKCS#11 3.2, "Public key objects": only these have CKA_ENCAPSULATE.
    creates("of an AES key with CKA_ENCAPSULATE", NO_USAGE, || able(imported(CKK_AES), &[CKA_ENCAPSULATE])),
    // Certificates (RFC 3279) and DNSSEC still use keys of 1024 bits.
    case("C_CreateObject", "of an RSA key with 1024 bits", RSA_SIZE, |fixture| {
        // The product of two primes.
        let modulus = hex("d1130656f73dfddeaeba34525badc095d7b67610722c408122bf81a45bbfd910\
             ad1c886805e9446fc6017877551a0c3fccff9872c0b4f177517eca3ed8e84555\
             8d0fd7cb65c96ba86549492abd09ea4ed813e545212b43af769c6c2a4c7a872f\
             f2fddd7ecef5687c6886e49c399d12020bad89d64cef018b3f6d9d0122368e75");
        let template = with(open_key(CKO_PUBLIC_KEY, CKK_RSA), bytes(CKA_MODULUS, modulus));
        let template = with(template, bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]));
        fixture.create_object(&template).map(drop)
    }),
];
