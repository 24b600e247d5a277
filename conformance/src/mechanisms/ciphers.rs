//! Round trips of symmetric ciphers and key wraps. AES-ECB has the known answer of FIPS 197. For
//! some of the others, the sets of Wycheproof have known answers.

use cryptoki_sys::*;
use jeton_client::{Arg, Failure, Mechanism, Structure};

use super::{Proof, derivations, generation, hex, import};
use crate::fixture::{Fixture, Key, SECRET, ensure, open_key};

type Rows = &'static [(Proof, &'static [&'static str])];

pub const AES: Rows = &[
    (
        cipher,
        &[
            "AES_CBC",
            "AES_CBC_PAD",
            "AES_CTR",
            "AES_GCM",
            "AES_CTS",
            "AES_CCM",
            "AES_CFB1",
            "AES_CFB128",
            "AES_CFB8",
            "AES_OFB",
        ],
    ),
    (ecb, &["AES_ECB"]),
    (generation::secret, &["AES_KEY_GEN"]),
    (derivations::encrypt_data, &["AES_CBC_ENCRYPT_DATA", "AES_ECB_ENCRYPT_DATA"]),
];

pub const WRAPS: Rows = &[(wrap, &["AES_KEY_WRAP", "AES_KEY_WRAP_KWP", "AES_KEY_WRAP_PAD"])];

pub const CHACHA20: Rows =
    &[(cipher, &["CHACHA20", "CHACHA20_POLY1305"]), (generation::secret, &["CHACHA20_KEY_GEN"])];

/// A message of three blocks, which every mode accepts.
const MESSAGE: [u8; 48] = [0x5c; 48];

fn mechanism(kind: CK_MECHANISM_TYPE) -> Mechanism {
    let nonce = [2; 12];
    match kind {
        CKM_AES_CTR => Structure::new().number(128).inline(&[1; 16]).mechanism(kind),
        CKM_AES_GCM => Structure::new().bytes(&nonce).number(96).bytes(b"more").number(128).mechanism(kind),
        CKM_AES_CCM => Structure::new().number(48).bytes(&nonce).bytes(b"more").number(16).mechanism(kind),
        CKM_CHACHA20 => {
            let (counter, nonce) = (jeton_client::Memory::of(&[0; 4]), jeton_client::Memory::of(&nonce));
            Structure::new().pointer(&counter).number(32).pointer(&nonce).number(96).mechanism(kind)
        }
        CKM_CHACHA20_POLY1305 => Structure::new().bytes(&nonce).bytes(b"more").mechanism(kind),
        _ => Mechanism::with_bytes(kind, &[1; 16]),
    }
}

/// Checks a round trip in a single part, and that the ciphertext in parts is the same.
fn cipher(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let (mechanism, session) = (mechanism(kind), fixture.fresh()?);
    let key_type = if matches!(kind, CKM_CHACHA20 | CKM_CHACHA20_POLY1305) { CKK_CHACHA20 } else { CKK_AES };
    let key = import(fixture, key_type, &SECRET, &[CKA_ENCRYPT, CKA_DECRYPT])?;
    let (mut sealed, mut plain) = ([0; 128], [0; 128]);
    session.encrypt_init(&mechanism, key)?;
    let length = session.encrypt(&MESSAGE, &mut sealed)?;
    session.decrypt_init(&mechanism, key)?;
    let back = session.decrypt(&sealed[..length], &mut plain)?;
    ensure("C_Decrypt", plain[..back] == MESSAGE && sealed[..48] != MESSAGE)?;
    // PKCS#11 3.2, "AES-CCM": the parameter has the length of the full message. Some modules accept
    // the message only in a single part.
    if kind == CKM_AES_CCM {
        return Ok(());
    }
    session.encrypt_init(&mechanism, key)?;
    let mut parts: Vec<u8> = Vec::new();
    for part in MESSAGE.chunks(7) {
        let (mut out, mut written) = ([0; 128], 128);
        fixture.call(
            "C_EncryptUpdate",
            &session,
            vec![Arg::Bytes(part), Arg::Buffer(&mut out, &mut written)],
        )?;
        parts.extend(&out[..written as usize]);
    }
    let (mut out, mut written) = ([0; 128], 128);
    fixture.call("C_EncryptFinal", &session, vec![Arg::Buffer(&mut out, &mut written)])?;
    parts.extend(&out[..written as usize]);
    ensure("C_EncryptFinal", parts == sealed[..length])
}

/// Checks the answer of FIPS 197, appendix C.3.
fn ecb(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let key: Vec<u8> = (0..32).collect();
    let plain: Vec<u8> = (0..16).map(|digit| digit * 0x11).collect();
    let (session, mut out) = (fixture.fresh()?, [0; 16]);
    let key = import(fixture, CKK_AES, &key, &[CKA_ENCRYPT, CKA_DECRYPT])?;
    session.encrypt_init(&Mechanism::new(kind), key)?;
    session.encrypt(&plain, &mut out)?;
    ensure("C_Encrypt", out[..] == hex("8ea2b7ca516745bfeafc49904b496089"))?;
    let mut back = [0; 16];
    session.decrypt_init(&Mechanism::new(kind), key)?;
    session.decrypt(&out, &mut back)?;
    ensure("C_Decrypt", back[..] == plain)
}

fn wrap(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let (mechanism, aes, mut out) = (Mechanism::new(kind), fixture.key(Key::Aes)?, [0; 128]);
    let length = fixture.session.wrap_key(&mechanism, aes, fixture.key(Key::Generic)?, &mut out)?;
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let key = fixture.session.unwrap_key(&mechanism, aes, &out[..length], &template)?;
    ensure("C_UnwrapKey", fixture.session.attribute(key, CKA_VALUE)? == SECRET)
}
