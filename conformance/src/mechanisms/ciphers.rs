//! Round trips of symmetric ciphers and key wraps. AES-ECB has the known answer of FIPS 197. For
//! some of the others, the sets of Wycheproof have known answers.

use cryptoki_sys::{
    CK_MECHANISM_TYPE, CKA_DECRYPT, CKA_ENCRYPT, CKA_VALUE, CKK_AES, CKK_GENERIC_SECRET, CKO_SECRET_KEY,
};
use jeton_client::Mechanism;

use super::{Rows, derivations, generation, import};
use crate::cases::cipher_works;
use crate::fixture::{Answer, Fixture, Key, SECRET, ensure, hex, open_key};

pub const AES: Rows = &[
    (cipher_works, &["AES_CBC", "AES_CBC_PAD", "AES_CTR", "AES_GCM", "AES_CTS", "AES_CCM"]),
    (cipher_works, &["AES_CFB1", "AES_CFB128", "AES_CFB8", "AES_OFB"]),
    (ecb, &["AES_ECB"]),
    (generation::secret, &["AES_KEY_GEN"]),
    (derivations::encrypt_data, &["AES_CBC_ENCRYPT_DATA", "AES_ECB_ENCRYPT_DATA"]),
];

pub const WRAPS: Rows = &[(wrap, &["AES_KEY_WRAP", "AES_KEY_WRAP_KWP", "AES_KEY_WRAP_PAD"])];

pub const CHACHA20: Rows =
    &[(cipher_works, &["CHACHA20", "CHACHA20_POLY1305"]), (generation::secret, &["CHACHA20_KEY_GEN"])];

/// Checks the answer of FIPS 197, appendix C.3.
fn ecb(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
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

fn wrap(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (mechanism, aes, mut out) = (Mechanism::new(kind), fixture.key(Key::Aes)?, [0; 128]);
    let length = fixture.wrap_key(&mechanism, aes, fixture.key(Key::Generic)?, &mut out)?;
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let key = fixture.unwrap_key(&mechanism, aes, &out[..length], &template)?;
    ensure("C_UnwrapKey", fixture.attribute(key, CKA_VALUE)? == SECRET)
}
