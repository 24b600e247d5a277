//! "Encryption functions", "Decryption functions", "Dual-function cryptographic functions".

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, Structure};

use super::calls::{Calls, NOT_BEGUN, TOO_SMALL, message, refused};
use super::digests::digesting;
use super::{
    BAD_MECHANISM, BAD_PARAMETER, BLOCKS, Case, HMAC, Handle, OR_ABSENT, SHA256, UNKNOWN, WRONG_KEY, case,
    cbc, cbc_pad, gcm, refuses, starts,
};
use crate::fixture::{Answer, Fixture, Key, able, bytes, ensure, hex, open_key, with};

fn encrypted(fixture: &Fixture<'_>, mechanism: &Mechanism, data: &[u8]) -> Answer<Vec<u8>> {
    let session = fixture.fresh()?;
    session.encrypt_init(mechanism, fixture.key(Key::Aes)?)?;
    let mut out = vec![0; data.len() + 64];
    let length = session.encrypt(data, &mut out)?;
    out.truncate(length);
    Ok(out)
}

pub fn oaep(hash: CK_ULONG, mask: CK_ULONG, label: &[u8]) -> Mechanism {
    let parameter = Structure::new().number(hash).number(mask).number(CKZ_DATA_SPECIFIED);
    parameter.bytes(label).mechanism(CKM_RSA_PKCS_OAEP)
}

/// Checks messages up to the longest one, longer messages, short buffers, and ciphertexts of a
/// wrong length.
fn rsa_padding(fixture: &Fixture<'_>, mechanism: &Mechanism, longest: usize) -> Answer {
    let (calls, pair) = (Calls::new(fixture)?, fixture.pair(Key::Rsa)?);
    let init = |function| {
        let key = if function == "C_EncryptInit" { pair.public } else { pair.private };
        calls.init(function, mechanism, key)
    };
    let encrypt = |data: &[u8]| init("C_EncryptInit").and_then(|()| calls.output("C_Encrypt", Some(data)));
    let decrypt = |data: &[u8]| init("C_DecryptInit").and_then(|()| calls.output("C_Decrypt", Some(data)));
    for length in [0, 1, longest] {
        let (data, sealed) = (message(length, 1), encrypt(&message(length, 1))?);
        ensure("C_Encrypt", sealed.len() == 256 && decrypt(&sealed)? == data)?;
    }
    for length in [longest + 1, 257, 1000] {
        refused("C_Encrypt", encrypt(&message(length, 1)), &[CKR_DATA_LEN_RANGE])?;
    }
    for length in [0, 255, 257] {
        refused("C_Decrypt", decrypt(&message(length, 1)), &[CKR_ENCRYPTED_DATA_LEN_RANGE])?;
        refused("C_DecryptFinal", calls.length("C_DecryptFinal", vec![]), NOT_BEGUN)?;
    }
    let sealed = encrypt(b"0123456789")?;
    // PKCS#11 3.2, "Mechanisms vs. functions": "Single-part operations only".
    for (start, update) in [("C_EncryptInit", "C_EncryptUpdate"), ("C_DecryptInit", "C_DecryptUpdate")] {
        init(start)?;
        refused(update, calls.output(update, Some(&sealed)), NOT_BEGUN)?;
    }
    for (init_name, function, data, length) in
        [("C_DecryptInit", "C_Decrypt", &sealed[..], 10), ("C_EncryptInit", "C_Encrypt", b"data", 256)]
    {
        init(init_name)?;
        let (needed, outcome) = calls.fill(function, vec![Arg::Bytes(data)], &mut vec![0; length - 1]);
        refused(function, outcome, TOO_SMALL)?;
        ensure(function, needed >= length)?;
        calls.fill(function, vec![Arg::Bytes(data)], &mut vec![0; length]).1?;
    }
    let other = oaep(CKM_SHA_1, CKG_MGF1_SHA1, b"another label");
    calls.init("C_DecryptInit", &other, pair.private)?;
    refused("C_Decrypt", calls.output("C_Decrypt", Some(&sealed)), NO_CIPHERTEXT)?;
    ensure("C_Decrypt", decrypt(&sealed)? == b"0123456789")
}

fn digest(fixture: &Fixture<'_>) -> Answer<Vec<u8>> {
    let (session, mut digest) = (digesting(fixture)?, vec![0; 32]);
    session.digest(&BLOCKS, &mut digest)?;
    Ok(digest)
}

/// Processes two blocks with a dual function. Returns the digest or MAC. A length query and a short
/// buffer digest, sign and verify nothing.
fn dual(fixture: &Fixture<'_>, function: &'static str) -> Answer<Vec<u8>> {
    let (calls, aes, generic) = (Calls::new(fixture)?, fixture.key(Key::Aes)?, fixture.key(Key::Generic)?);
    let (session, sealed) = (&calls.session, encrypted(fixture, &cbc(), &BLOCKS)?);
    let (crypt, input, output) = match function.starts_with("C_Decrypt") {
        true => ("C_DecryptInit", &sealed[..], &BLOCKS[..]),
        false => ("C_EncryptInit", &BLOCKS[..], &sealed[..]),
    };
    calls.init(crypt, &cbc(), aes)?;
    let mut code = vec![0; 32];
    match function {
        "C_SignEncryptUpdate" => session.sign_init(&HMAC, generic)?,
        "C_DecryptVerifyUpdate" => {
            session.sign_init(&HMAC, generic)?;
            session.sign(&BLOCKS, &mut code)?;
            session.verify_init(&HMAC, generic)?;
        }
        _ => session.digest_init(&SHA256)?,
    }
    calls.length(function, vec![Arg::Bytes(input)])?;
    refused(function, calls.fill(function, vec![Arg::Bytes(input)], &mut [0; 31]).1, TOO_SMALL)?;
    ensure(function, calls.output(function, Some(input))? == output)?;
    match function {
        "C_SignEncryptUpdate" => session.sign_final(&mut code)?,
        "C_DecryptVerifyUpdate" => return ensure(function, session.verify_final(&code)?).map(|()| code),
        _ => session.digest_final(&mut code)?,
    };
    Ok(code)
}

/// Encrypts with a new 3DES key and compares the result.
fn des3(fixture: &Fixture<'_>, mechanism: &Mechanism, known: &str) -> Answer {
    let value = hex("0123456789abcdef23456789abcdef01456789abcdef0123");
    let template = with(open_key(CKO_SECRET_KEY, CKK_DES3), bytes(CKA_VALUE, value));
    let (calls, key) = (Calls::new(fixture)?, fixture.create_object(&able(template, &[CKA_ENCRYPT]))?);
    calls.init("C_EncryptInit", mechanism, key)?;
    let made = calls.output("C_Encrypt", Some(b"The qufck brown fox jump"))?;
    ensure("C_Encrypt", made == hex(known) && fixture.attribute(key, CKA_CHECK_VALUE)? == hex("4eba73"))
}

const AES: Handle = Handle::Private(Key::Aes);
const RSA: Handle = Handle::Private(Key::Rsa);
const NO_PARAMETER: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID, CKR_ARGUMENTS_BAD];
const DUAL: &[CK_RV] = &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED];
const NOT_BEGUN_OR_NOT_THERE: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED];
const NO_CIPHERTEXT: &[CK_RV] =
    &[CKR_ENCRYPTED_DATA_INVALID, CKR_ENCRYPTED_DATA_LEN_RANGE, CKR_AEAD_DECRYPT_FAILED];

const TOO_LARGE: &[CK_RV] = &[CKR_DATA_INVALID, CKR_DATA_LEN_RANGE, CKR_MECHANISM_INVALID];

pub const CASES: &[Case] = &[
    starts("C_EncryptInit", "with an unknown mechanism", BAD_MECHANISM, UNKNOWN, AES),
    starts("C_EncryptInit", "with a mechanism that does not encrypt", BAD_MECHANISM, CKM_SHA256, AES),
    starts("C_EncryptInit", "without an initialisation vector", BAD_PARAMETER, CKM_AES_CBC, AES),
    starts("C_EncryptInit", "with GCM and no parameter", BAD_PARAMETER, CKM_AES_GCM, AES),
    refuses("C_EncryptInit", "with GCM and a tag of 129 bits", CKM_AES_GCM, AES, |_| gcm(129)),
    case("C_EncryptInit", "with GCM and a NULL nonce of 12 bytes", NO_PARAMETER, |fixture| {
        let parameter = Structure::new().null().number(12).number(96).null().number(0).number(128);
        fixture.fresh()?.encrypt_init(&parameter.mechanism(CKM_AES_GCM), fixture.key(Key::Aes)?)
    }),
    refuses("C_EncryptInit", "with CTR and a counter of 0 bits", CKM_AES_CTR, AES, |kind| {
        Structure::new().number(0).inline(&[0; 16]).mechanism(kind)
    }),
    case("C_Encrypt", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let calls = Calls::new(fixture)?;
        calls.init("C_EncryptInit", &cbc(), fixture.key(Key::Aes)?)?;
        calls.output("C_EncryptUpdate", Some(&BLOCKS))?;
        calls.session.encrypt(&BLOCKS, &mut [0; 32]).map(drop)
    }),
    case("C_Decrypt", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let (calls, sealed) = (Calls::new(fixture)?, encrypted(fixture, &cbc(), &BLOCKS)?);
        calls.init("C_DecryptInit", &cbc(), fixture.key(Key::Aes)?)?;
        calls.output("C_DecryptUpdate", Some(&sealed))?;
        calls.fill("C_Decrypt", vec![Arg::Bytes(&sealed)], &mut [0; 32]).1
    }),
    starts("C_DecryptInit", "with an unknown mechanism", BAD_MECHANISM, UNKNOWN, AES),
    starts("C_DecryptInit", "with an RSA public key", WRONG_KEY, CKM_RSA_PKCS, Handle::Public(Key::Rsa)),
    starts("C_DecryptInit", "with OAEP and no parameter", NO_PARAMETER, CKM_RSA_PKCS_OAEP, RSA),
    case("C_DigestEncryptUpdate", "without a digest", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        let calls = Calls::new(fixture)?;
        calls.init("C_EncryptInit", &cbc(), fixture.key(Key::Aes)?)?;
        calls.output("C_DigestEncryptUpdate", Some(&BLOCKS)).map(drop)
    }),
    case("C_DigestEncryptUpdate", "digests and encrypts", DUAL, |fixture| {
        ensure("C_DigestFinal", dual(fixture, "C_DigestEncryptUpdate")? == digest(fixture)?)
    }),
    case("C_DecryptDigestUpdate", "decrypts and digests", DUAL, |fixture| {
        ensure("C_DigestFinal", dual(fixture, "C_DecryptDigestUpdate")? == digest(fixture)?)
    }),
    case("C_SignEncryptUpdate", "signs and encrypts", DUAL, |fixture| {
        let (session, code) = (fixture.fresh()?, dual(fixture, "C_SignEncryptUpdate")?);
        session.verify_init(&HMAC, fixture.key(Key::Generic)?)?;
        ensure("C_SignFinal", session.verify(&BLOCKS, &code)?)
    }),
    case("C_DecryptVerifyUpdate", "decrypts and verifies", DUAL, |fixture| {
        dual(fixture, "C_DecryptVerifyUpdate").map(drop)
    }),
    case("C_Encrypt", "up to the longest message, with CKM_RSA_PKCS", &[CKR_OK], |fixture| {
        rsa_padding(fixture, &Mechanism::new(CKM_RSA_PKCS), 256 - 11)
    }),
    case("C_Encrypt", "up to the longest message, with OAEP and SHA-1", &[CKR_OK], |fixture| {
        rsa_padding(fixture, &oaep(CKM_SHA_1, CKG_MGF1_SHA1, b""), 256 - 2 - 2 * 20)
    }),
    case("C_Encrypt", "up to the longest message, with OAEP and each hash", OAEP_HASHES, |fixture| {
        for (hash, mask, length) in [
            (CKM_SHA224, CKG_MGF1_SHA224, 28),
            (CKM_SHA256, CKG_MGF1_SHA256, 32),
            (CKM_SHA384, CKG_MGF1_SHA384, 48),
            (CKM_SHA512, CKG_MGF1_SHA512, 64),
            (CKM_SHA3_256, CKG_MGF1_SHA3_256, 32),
            (CKM_SHA256, CKG_MGF1_SHA1, 32),
        ] {
            let label: &[u8] = if mask == CKG_MGF1_SHA1 { b"a label" } else { b"" };
            rsa_padding(fixture, &oaep(hash, mask, label), 256 - 2 - 2 * length)?;
        }
        Ok(())
    }),
    case("C_Encrypt", "of a number above the RSA modulus", TOO_LARGE, |fixture| {
        let (calls, raw, pair) =
            (Calls::new(fixture)?, Mechanism::new(CKM_RSA_X_509), fixture.pair(Key::Rsa)?);
        calls.init("C_EncryptInit", &raw, pair.public)?;
        let sealed = calls.output("C_Encrypt", Some(b"short"))?;
        calls.init("C_DecryptInit", &raw, pair.private)?;
        let opened = calls.output("C_Decrypt", Some(&sealed))?;
        ensure("C_Decrypt", opened == [&[0; 251][..], b"short"].concat())?;
        calls.init("C_EncryptInit", &raw, pair.public)?;
        calls.output("C_Encrypt", Some(&[0xff; 256])).map(drop)
    }),
    // PKCS#11 3.2, CK_GCM_PARAMS: the vector and the additional data may have up to 2^32-1 bytes.
    case("C_Encrypt", "with GCM, a long initialisation vector and long data", &[CKR_OK], |fixture| {
        let parameter = Structure::new().bytes(&message(1 << 16, 1)).number(8 << 16);
        let gcm = parameter.bytes(&message(4 << 20, 1)).number(128).mechanism(CKM_AES_GCM);
        let (calls, key) = (Calls::new(fixture)?, fixture.key(Key::Aes)?);
        let sealed = encrypted(fixture, &gcm, b"data")?;
        calls.init("C_DecryptInit", &gcm, key)?;
        ensure("C_Decrypt", calls.output("C_Decrypt", Some(&sealed))? == b"data")
    }),
    case("C_Decrypt", "of invalid padding", &[CKR_OK], |fixture| {
        const INVALID: &[CK_RV] = &[CKR_ENCRYPTED_DATA_INVALID];
        let (calls, key) = (Calls::new(fixture)?, fixture.key(Key::Aes)?);
        for last in [&[0; 16][..], &[17; 16], &[&[1; 14][..], &[2, 3]].concat()] {
            let sealed = encrypted(fixture, &cbc(), &[&[5; 16], last].concat())?;
            calls.init("C_DecryptInit", &cbc_pad(), key)?;
            refused("C_Decrypt", calls.output("C_Decrypt", Some(&sealed)), INVALID)?;
            calls.init("C_DecryptInit", &cbc_pad(), key)?;
            calls.output("C_DecryptUpdate", Some(&sealed))?;
            refused("C_DecryptFinal", calls.output("C_DecryptFinal", None), INVALID)?;
            refused("C_DecryptFinal", calls.length("C_DecryptFinal", vec![]), NOT_BEGUN)?;
        }
        for length in [0, 15, 33] {
            calls.init("C_DecryptInit", &cbc_pad(), key)?;
            let outcome = calls.fill("C_Decrypt", vec![Arg::Bytes(&message(length, 1))], &mut [0; 64]).1;
            refused("C_Decrypt", outcome, &[CKR_ENCRYPTED_DATA_LEN_RANGE])?;
        }
        Ok(())
    }),
    // ECB: SP 800-67, B.1. CBC: `openssl enc -des-ede3-cbc` of OpenSSL 3.0.
    case("C_Encrypt", "with each mode of 3DES", OR_ABSENT, |fixture| {
        let iv = |kind| Mechanism::with_bytes(kind, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let ecb = "a826fd8ce53b855fcce21c8112256fe668d5c05dd9b6b900";
        let cbc = "f368d06f3bbd614e60f2d0245cad3f818d5c69f2cb3fd5c7";
        des3(fixture, &Mechanism::new(CKM_DES3_ECB), ecb)?;
        des3(fixture, &iv(CKM_DES3_CBC), cbc)?;
        des3(fixture, &iv(CKM_DES3_CBC_PAD), &[cbc, "efa5066e2c4e03b9"].concat())
    }),
];

const OAEP_HASHES: &[CK_RV] = &[CKR_OK, CKR_MECHANISM_PARAM_INVALID, CKR_ARGUMENTS_BAD];
