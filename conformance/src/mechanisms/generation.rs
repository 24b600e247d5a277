//! Generation of keys.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, Mechanism, Structure};

use super::hex;
use crate::fixture::{Fixture, Key, ensure, open_key};

/// Generates a pair and checks the classes of its keys. The other mechanisms of its family use the
/// same pair.
pub fn pair(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let key = match kind {
        CKM_RSA_PKCS_KEY_PAIR_GEN => Key::Rsa,
        CKM_EC_EDWARDS_KEY_PAIR_GEN => Key::Edwards,
        CKM_EC_MONTGOMERY_KEY_PAIR_GEN => Key::Montgomery,
        CKM_ML_DSA_KEY_PAIR_GEN => Key::MlDsa,
        CKM_ML_KEM_KEY_PAIR_GEN => Key::MlKem,
        CKM_SLH_DSA_KEY_PAIR_GEN => Key::SlhDsa,
        _ => Key::Ec,
    };
    let pair = fixture.pair(key)?;
    let class = |key| fixture.session.attribute(key, CKA_CLASS);
    let right = class(pair.public)? == CKO_PUBLIC_KEY.to_ne_bytes()
        && class(pair.private)? == CKO_PRIVATE_KEY.to_ne_bytes();
    ensure("C_GenerateKeyPair", right)
}

/// Generates two secret keys, which must differ. Both must have 32 bytes.
pub fn secret(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let mut template = vec![
        Attribute::flag(CKA_TOKEN, false),
        Attribute::flag(CKA_SENSITIVE, false),
        Attribute::flag(CKA_EXTRACTABLE, true),
    ];
    // PKCS#11 3.2, "ChaCha20 key generation": all ChaCha20 keys have the same length.
    if kind != CKM_CHACHA20_KEY_GEN {
        template.push(Attribute::number(CKA_VALUE_LEN, 32));
    }
    let value = || {
        let key = fixture.session.generate_key(&Mechanism::new(kind), &template)?;
        fixture.session.attribute(key, CKA_VALUE)
    };
    let (one, two) = (value()?, value()?);
    ensure("C_GenerateKey", one.len() == 32 && two.len() == 32 && one != two)
}

/// Checks PBKDF2 with HMAC-SHA256: "password", "salt", 2 iterations. The expected value comes from
/// `hashlib.pbkdf2_hmac` of Python.
pub fn pbkdf2(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let parameter = Structure::new().number(CKZ_SALT_SPECIFIED).bytes(b"salt").number(2);
    let mechanism =
        parameter.number(CKP_PKCS5_PBKD2_HMAC_SHA256).bytes(&[]).bytes(b"password").mechanism(kind);
    let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    template.push(Attribute::number(CKA_VALUE_LEN, 32));
    let key = fixture.session.generate_key(&mechanism, &template)?;
    let expected = hex("ae4d0c95af6b46d32d0adff928f06dd02a303f8ef3c251dfd6e2d85a95474c43");
    ensure("C_GenerateKey", fixture.session.attribute(key, CKA_VALUE)? == expected)
}
