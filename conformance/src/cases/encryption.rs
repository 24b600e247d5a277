//! "Encryption functions", "Decryption functions", "Dual-function cryptographic functions".

use cryptoki_sys::*;
use jeton_client::{Arg, Failure, Mechanism, Session, Structure};

use super::{BLOCKS, Case, NO_MECHANISM, SHA256, case, cbc, cbc_pad, gcm};
use crate::fixture::{Fixture, Key, NO_OBJECT, ensure};

/// Calls an update function. Returns its output.
fn update(
    fixture: &Fixture<'_>,
    session: &Session,
    function: &'static str,
    data: &[u8],
) -> Result<Vec<u8>, Failure> {
    let (mut out, mut length) = (vec![0; data.len() + 64], data.len() as CK_ULONG + 64);
    fixture.call(function, session, vec![Arg::Bytes(data), Arg::Buffer(&mut out, &mut length)])?;
    out.truncate(length as usize);
    Ok(out)
}

/// Calls a final function. Returns its output.
fn last(fixture: &Fixture<'_>, session: &Session, function: &'static str) -> Result<Vec<u8>, Failure> {
    let (mut out, mut length) = (vec![0; 64], 64);
    fixture.call(function, session, vec![Arg::Buffer(&mut out, &mut length)])?;
    out.truncate(length as usize);
    Ok(out)
}

fn encrypted(fixture: &Fixture<'_>, mechanism: &Mechanism, data: &[u8]) -> Result<Vec<u8>, Failure> {
    let session = fixture.fresh()?;
    session.encrypt_init(mechanism, fixture.key(Key::Aes)?)?;
    let mut out = vec![0; data.len() + 64];
    let length = session.encrypt(data, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Decrypts a ciphertext whose last byte was changed.
fn decrypt_altered(fixture: &Fixture<'_>, mechanism: &Mechanism) -> Result<(), Failure> {
    let mut data = encrypted(fixture, mechanism, b"a message")?;
    if let Some(byte) = data.last_mut() {
        *byte ^= 1;
    }
    let session = fixture.fresh()?;
    session.decrypt_init(mechanism, fixture.key(Key::Aes)?)?;
    session.decrypt(&data, &mut [0; 128]).map(drop)
}

const KEY_REFUSED: &[CK_RV] =
    &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_HANDLE_INVALID];
const DUAL: &[CK_RV] = &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED];
const NOT_BEGUN: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED];
const NOT_BEGUN_OR_NOT_THERE: &[CK_RV] = &[CKR_OPERATION_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED];
/// The codes for an invalid ciphertext.
const NO_CIPHERTEXT: &[CK_RV] =
    &[CKR_ENCRYPTED_DATA_INVALID, CKR_ENCRYPTED_DATA_LEN_RANGE, CKR_AEAD_DECRYPT_FAILED];

pub const CASES: &[Case] = &[
    case("C_EncryptInit", "with an unknown mechanism", &[CKR_MECHANISM_INVALID], |fixture| {
        fixture.fresh()?.encrypt_init(&NO_MECHANISM, fixture.key(Key::Aes)?)
    }),
    case("C_EncryptInit", "with a mechanism that does not encrypt", &[CKR_MECHANISM_INVALID], |fixture| {
        fixture.fresh()?.encrypt_init(&SHA256, fixture.key(Key::Aes)?)
    }),
    case("C_EncryptInit", "with an invalid key handle", &[CKR_KEY_HANDLE_INVALID], |fixture| {
        fixture.fresh()?.encrypt_init(&cbc(), NO_OBJECT)
    }),
    case("C_EncryptInit", "with a key of another type", KEY_REFUSED, |fixture| {
        fixture.fresh()?.encrypt_init(&cbc(), fixture.key(Key::Generic)?)
    }),
    case("C_EncryptInit", "with a key without CKA_ENCRYPT", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |fixture| {
        fixture.fresh()?.encrypt_init(&cbc(), fixture.key(Key::Idle)?)
    }),
    case(
        "C_EncryptInit",
        "with an initialisation vector of 15 bytes",
        &[CKR_MECHANISM_PARAM_INVALID],
        |fixture| {
            fixture
                .fresh()?
                .encrypt_init(&Mechanism::with_bytes(CKM_AES_CBC, &[0; 15]), fixture.key(Key::Aes)?)
        },
    ),
    case("C_EncryptInit", "without an initialisation vector", &[CKR_MECHANISM_PARAM_INVALID], |fixture| {
        fixture.fresh()?.encrypt_init(&Mechanism::new(CKM_AES_CBC), fixture.key(Key::Aes)?)
    }),
    case("C_EncryptInit", "with GCM and no parameter", &[CKR_MECHANISM_PARAM_INVALID], |fixture| {
        fixture.fresh()?.encrypt_init(&Mechanism::new(CKM_AES_GCM), fixture.key(Key::Aes)?)
    }),
    case("C_EncryptInit", "with GCM and a tag of 129 bits", &[CKR_MECHANISM_PARAM_INVALID], |fixture| {
        fixture.fresh()?.encrypt_init(&gcm(129), fixture.key(Key::Aes)?)
    }),
    case(
        "C_EncryptInit",
        "with GCM and a NULL nonce of 12 bytes",
        &[CKR_MECHANISM_PARAM_INVALID, CKR_ARGUMENTS_BAD],
        |fixture| {
            let parameter = Structure::new().null().number(12).number(96).null().number(0).number(128);
            fixture.fresh()?.encrypt_init(&parameter.mechanism(CKM_AES_GCM), fixture.key(Key::Aes)?)
        },
    ),
    case("C_EncryptInit", "with CTR and a counter of 0 bits", &[CKR_MECHANISM_PARAM_INVALID], |fixture| {
        fixture.fresh()?.encrypt_init(
            &Structure::new().number(0).inline(&[0; 16]).mechanism(CKM_AES_CTR),
            fixture.key(Key::Aes)?,
        )
    }),
    case("C_EncryptInit", "while an encryption is active", &[CKR_OPERATION_ACTIVE], |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)
    }),
    case("C_EncryptInit", "with a NULL mechanism ends the encryption", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        fixture.call("C_EncryptInit", &session, vec![Arg::Null, Arg::Number(0)])?;
        session.encrypt(&BLOCKS, &mut [0; 64]).map(drop)
    }),
    case("C_Encrypt", "without C_EncryptInit", NOT_BEGUN, |fixture| {
        fixture.fresh()?.encrypt(&BLOCKS, &mut [0; 64]).map(drop)
    }),
    case("C_Encrypt", "of an incomplete block", &[CKR_DATA_LEN_RANGE], |fixture| {
        encrypted(fixture, &cbc(), &[0; 17]).map(drop)
    }),
    case("C_Encrypt", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        session.encrypt(&BLOCKS, &mut [0; 31]).map(drop)
    }),
    case("C_Encrypt", "continues after a short buffer", &[CKR_OK], |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        let _short = session.encrypt(&BLOCKS, &mut [0; 31]);
        session.encrypt(&BLOCKS, &mut [0; 32]).map(drop)
    }),
    case("C_Encrypt", "continues after a length query", &[CKR_OK], |fixture| {
        let (session, mut length) = (fixture.fresh()?, 0);
        session.encrypt_init(&cbc_pad(), fixture.key(Key::Aes)?)?;
        fixture.call("C_Encrypt", &session, vec![Arg::Bytes(&BLOCKS), Arg::NoBuffer(&mut length)])?;
        ensure("C_Encrypt", length >= 48)?;
        session.encrypt(&BLOCKS, &mut [0; 64]).map(drop)
    }),
    case("C_Encrypt", "a second time, after the operation ended", NOT_BEGUN, |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        session.encrypt(&BLOCKS, &mut [0; 32])?;
        session.encrypt(&BLOCKS, &mut [0; 32]).map(drop)
    }),
    case("C_Encrypt", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        update(fixture, &session, "C_EncryptUpdate", &BLOCKS)?;
        session.encrypt(&BLOCKS, &mut [0; 32]).map(drop)
    }),
    case("C_EncryptUpdate", "without C_EncryptInit", NOT_BEGUN, |fixture| {
        update(fixture, &fixture.fresh()?, "C_EncryptUpdate", &BLOCKS).map(drop)
    }),
    case("C_EncryptFinal", "without C_EncryptInit", NOT_BEGUN, |fixture| {
        last(fixture, &fixture.fresh()?, "C_EncryptFinal").map(drop)
    }),
    case("C_EncryptFinal", "of an incomplete block", &[CKR_DATA_LEN_RANGE], |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        update(fixture, &session, "C_EncryptUpdate", &[0; 17])?;
        last(fixture, &session, "C_EncryptFinal").map(drop)
    }),
    case("C_EncryptFinal", "in parts gives the result of one part", &[CKR_OK], |fixture| {
        let (session, message, mut made) = (fixture.fresh()?, [9; 77], Vec::new());
        session.encrypt_init(&cbc_pad(), fixture.key(Key::Aes)?)?;
        for part in message.chunks(7) {
            made.extend(update(fixture, &session, "C_EncryptUpdate", part)?);
        }
        made.extend(last(fixture, &session, "C_EncryptFinal")?);
        ensure("C_EncryptFinal", made == encrypted(fixture, &cbc_pad(), &message)?)
    }),
    case("C_DecryptInit", "with an unknown mechanism", &[CKR_MECHANISM_INVALID], |fixture| {
        fixture.fresh()?.decrypt_init(&NO_MECHANISM, fixture.key(Key::Aes)?)
    }),
    case("C_DecryptInit", "with an invalid key handle", &[CKR_KEY_HANDLE_INVALID], |fixture| {
        fixture.fresh()?.decrypt_init(&cbc(), NO_OBJECT)
    }),
    case("C_DecryptInit", "with a key without CKA_DECRYPT", &[CKR_KEY_FUNCTION_NOT_PERMITTED], |fixture| {
        fixture.fresh()?.decrypt_init(&cbc(), fixture.key(Key::Idle)?)
    }),
    case("C_DecryptInit", "with an RSA public key", KEY_REFUSED, |fixture| {
        fixture.fresh()?.decrypt_init(&Mechanism::new(CKM_RSA_PKCS), fixture.pair(Key::Rsa)?.public)
    }),
    case(
        "C_DecryptInit",
        "with OAEP and no parameter",
        &[CKR_MECHANISM_PARAM_INVALID, CKR_ARGUMENTS_BAD],
        |fixture| fixture.fresh()?.decrypt_init(&Mechanism::new(CKM_RSA_PKCS_OAEP), fixture.key(Key::Rsa)?),
    ),
    case("C_DecryptInit", "while a decryption is active", &[CKR_OPERATION_ACTIVE], |fixture| {
        let session = fixture.fresh()?;
        session.decrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        session.decrypt_init(&cbc(), fixture.key(Key::Aes)?)
    }),
    case("C_Decrypt", "without C_DecryptInit", NOT_BEGUN, |fixture| {
        fixture.fresh()?.decrypt(&BLOCKS, &mut [0; 64]).map(drop)
    }),
    case("C_Decrypt", "of an incomplete block", &[CKR_ENCRYPTED_DATA_LEN_RANGE], |fixture| {
        let session = fixture.fresh()?;
        session.decrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        session.decrypt(&[0; 17], &mut [0; 64]).map(drop)
    }),
    case("C_Decrypt", "of an altered message with its tag", NO_CIPHERTEXT, |fixture| {
        decrypt_altered(fixture, &gcm(128))
    }),
    case("C_Decrypt", "of a message shorter than its tag", NO_CIPHERTEXT, |fixture| {
        let session = fixture.fresh()?;
        session.decrypt_init(&gcm(128), fixture.key(Key::Aes)?)?;
        session.decrypt(&[0; 15], &mut [0; 64]).map(drop)
    }),
    case(
        "C_Decrypt",
        "of an RSA ciphertext of the wrong length",
        &[CKR_ENCRYPTED_DATA_LEN_RANGE],
        |fixture| {
            let session = fixture.fresh()?;
            session.decrypt_init(&Mechanism::new(CKM_RSA_PKCS), fixture.key(Key::Rsa)?)?;
            session.decrypt(&[1; 255], &mut [0; 256]).map(drop)
        },
    ),
    case("C_Decrypt", "returns the plaintext", &[CKR_OK], |fixture| {
        let (data, session, mut out) =
            (encrypted(fixture, &gcm(128), b"a message")?, fixture.fresh()?, [0; 64]);
        session.decrypt_init(&gcm(128), fixture.key(Key::Aes)?)?;
        let length = session.decrypt(&data, &mut out)?;
        ensure("C_Decrypt", &out[..length] == b"a message")
    }),
    case("C_Decrypt", "continues after a short buffer", &[CKR_OK], |fixture| {
        let (data, session) = (encrypted(fixture, &cbc_pad(), &BLOCKS)?, fixture.fresh()?);
        session.decrypt_init(&cbc_pad(), fixture.key(Key::Aes)?)?;
        let _short = session.decrypt(&data, &mut [0; 8]);
        session.decrypt(&data, &mut [0; 48]).map(drop)
    }),
    case("C_DecryptUpdate", "without C_DecryptInit", NOT_BEGUN, |fixture| {
        update(fixture, &fixture.fresh()?, "C_DecryptUpdate", &BLOCKS).map(drop)
    }),
    case("C_DecryptFinal", "without C_DecryptInit", NOT_BEGUN, |fixture| {
        last(fixture, &fixture.fresh()?, "C_DecryptFinal").map(drop)
    }),
    case("C_DecryptFinal", "of an altered message with its tag", NO_CIPHERTEXT, |fixture| {
        let (mut data, session) = (encrypted(fixture, &gcm(128), &BLOCKS)?, fixture.fresh()?);
        data[0] ^= 1;
        session.decrypt_init(&gcm(128), fixture.key(Key::Aes)?)?;
        update(fixture, &session, "C_DecryptUpdate", &data)?;
        last(fixture, &session, "C_DecryptFinal").map(drop)
    }),
    case("C_DigestEncryptUpdate", "without any operation", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        update(fixture, &fixture.fresh()?, "C_DigestEncryptUpdate", &BLOCKS).map(drop)
    }),
    case("C_DecryptDigestUpdate", "without any operation", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        update(fixture, &fixture.fresh()?, "C_DecryptDigestUpdate", &BLOCKS).map(drop)
    }),
    case("C_SignEncryptUpdate", "without any operation", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        update(fixture, &fixture.fresh()?, "C_SignEncryptUpdate", &BLOCKS).map(drop)
    }),
    case("C_DecryptVerifyUpdate", "without any operation", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        update(fixture, &fixture.fresh()?, "C_DecryptVerifyUpdate", &BLOCKS).map(drop)
    }),
    case("C_DigestEncryptUpdate", "without a digest", NOT_BEGUN_OR_NOT_THERE, |fixture| {
        let session = fixture.fresh()?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        update(fixture, &session, "C_DigestEncryptUpdate", &BLOCKS).map(drop)
    }),
    case("C_DigestEncryptUpdate", "digests and encrypts", DUAL, |fixture| {
        let (session, mut digest, mut alone) = (fixture.fresh()?, [0; 32], [0; 32]);
        session.digest_init(&SHA256)?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        let made = update(fixture, &session, "C_DigestEncryptUpdate", &BLOCKS)?;
        session.digest_final(&mut digest)?;
        let other = fixture.fresh()?;
        other.digest_init(&SHA256)?;
        other.digest(&BLOCKS, &mut alone)?;
        ensure("C_DigestEncryptUpdate", digest == alone && made == encrypted(fixture, &cbc(), &BLOCKS)?)
    }),
    case("C_DecryptDigestUpdate", "decrypts and digests", DUAL, |fixture| {
        let (data, session, mut digest, mut alone) =
            (encrypted(fixture, &cbc(), &BLOCKS)?, fixture.fresh()?, [0; 32], [0; 32]);
        session.digest_init(&SHA256)?;
        session.decrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        let plain = update(fixture, &session, "C_DecryptDigestUpdate", &data)?;
        session.digest_final(&mut digest)?;
        let other = fixture.fresh()?;
        other.digest_init(&SHA256)?;
        other.digest(&BLOCKS, &mut alone)?;
        ensure("C_DecryptDigestUpdate", digest == alone && plain == BLOCKS)
    }),
    case("C_SignEncryptUpdate", "signs and encrypts; C_DecryptVerifyUpdate reverses it", DUAL, |fixture| {
        let (session, key, mut code) = (fixture.fresh()?, fixture.key(Key::Generic)?, [0; 32]);
        session.sign_init(&super::HMAC, key)?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        let data = update(fixture, &session, "C_SignEncryptUpdate", &BLOCKS)?;
        session.sign_final(&mut code)?;
        let other = fixture.fresh()?;
        other.verify_init(&super::HMAC, key)?;
        other.decrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        let plain = update(fixture, &other, "C_DecryptVerifyUpdate", &data)?;
        ensure("C_DecryptVerifyUpdate", plain == BLOCKS && other.verify_final(&code)?)
    }),
];
