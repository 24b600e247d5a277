//! Generation of keys.

use cryptoki_sys::*;
use jeton_client::{Mechanism, Structure};

use super::signs;
use crate::fixture::{Answer, Fixture, Key, P256, Pair, bytes, ensure, flag, hex, number, open_key};

/// Generates a pair and checks the classes of its keys. The other mechanisms of its family use the
/// same pair.
pub fn pair(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
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
    let class = |key| fixture.attribute(key, CKA_CLASS);
    let right = class(pair.public)? == CKO_PUBLIC_KEY.to_ne_bytes()
        && class(pair.private)? == CKO_PRIVATE_KEY.to_ne_bytes();
    ensure("C_GenerateKeyPair", right)
}

/// Generates an EC pair with this mechanism, and checks its mechanism and a signature.
pub fn extra_bits(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let token = || flag(CKA_TOKEN, false);
    let public = [bytes(CKA_EC_PARAMS, P256), token(), flag(CKA_VERIFY, true)];
    let private = [token(), flag(CKA_SIGN, true)];
    let made = fixture.generate_key_pair(&Mechanism::new(kind), &public, &private)?;
    let pair = Pair { public: made.0, private: made.1 };
    for key in [pair.public, pair.private] {
        let told = fixture.attribute(key, CKA_KEY_GEN_MECHANISM)?;
        ensure("C_GenerateKeyPair", told == kind.to_ne_bytes())?;
    }
    signs(fixture, &Mechanism::new(CKM_ECDSA), pair, &[7; 32])
}

/// Generates two secret keys, which must differ. Both must have 32 bytes.
pub fn secret(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let mut template = vec![flag(CKA_TOKEN, false), flag(CKA_SENSITIVE, false), flag(CKA_EXTRACTABLE, true)];
    // PKCS#11 3.2, "ChaCha20 key generation": all ChaCha20 keys have the same length.
    if kind != CKM_CHACHA20_KEY_GEN {
        template.push(number(CKA_VALUE_LEN, 32));
    }
    let value = || {
        let key = fixture.generate_key(&Mechanism::new(kind), &template)?;
        fixture.attribute(key, CKA_VALUE)
    };
    let (one, two) = (value()?, value()?);
    ensure("C_GenerateKey", one.len() == 32 && two.len() == 32 && one != two)
}

/// Checks PBKDF2: answers of RFC 6070 (SHA-1, one of them with a password that has a zero byte) and
/// of `hashlib.pbkdf2_hmac` of Python. A hash that the module does not list for HMAC is left out.
pub fn pbkdf2(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let rows = [
        (CKP_PKCS5_PBKD2_HMAC_SHA1, CKM_SHA_1_HMAC, 4096, "4b007901b765489abead49d926f721d065a429c12e463f6c"),
        (CKP_PKCS5_PBKD2_HMAC_SHA224, CKM_SHA224_HMAC, 4096, "218c453bf90635bd0a21a75d172703ff"),
        (CKP_PKCS5_PBKD2_HMAC_SHA256, CKM_SHA256_HMAC, 2, "ae4d0c95af6b46d32d0adff928f06dd0"),
        (CKP_PKCS5_PBKD2_HMAC_SHA384, CKM_SHA384_HMAC, 1000, "3bd37e2236941d4a77b1b5b714c6f913"),
        (CKP_PKCS5_PBKD2_HMAC_SHA512, CKM_SHA512_HMAC, 1000, "afe6c5530785b6cc6b1c6453384731bd"),
        (CKP_PKCS5_PBKD2_HMAC_SHA512_224, CKM_SHA512_224_HMAC, 1000, "2f7dd7172b0324e8234fb87a2a789b8c"),
        (CKP_PKCS5_PBKD2_HMAC_SHA512_256, CKM_SHA512_256_HMAC, 1000, "f7e4fb1d98c78b615f585f974af8cd97"),
    ];
    let of_words =
        |(prf, hash, iterations, known)| (prf, hash, iterations, &b"password"[..], &b"salt"[..], known);
    let (prf, hash, known) = (CKP_PKCS5_PBKD2_HMAC_SHA1, CKM_SHA_1_HMAC, "56fa6aa75548099dcc37d7f03425e0c3");
    let zero_bytes = (prf, hash, 4096, &b"pass\0word"[..], &b"sa\0lt"[..], known);
    let rows = rows.map(of_words).into_iter().chain([zero_bytes]).filter(|row| fixture.lists(row.1));
    for (prf, _, iterations, password, salt, known) in rows {
        let parameter = Structure::new().number(CKZ_SALT_SPECIFIED).bytes(salt).number(iterations);
        let mechanism = parameter.number(prf).bytes(&[]).bytes(password).mechanism(kind);
        let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        template.push(number(CKA_VALUE_LEN, hex(known).len() as CK_ULONG));
        let key = fixture.generate_key(&mechanism, &template)?;
        ensure("C_GenerateKey", fixture.attribute(key, CKA_VALUE)? == hex(known))?;
    }
    Ok(())
}
