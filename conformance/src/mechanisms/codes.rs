//! Round trips of MACs, which must detect a change. A MAC of 8 bytes must be the start of the MAC
//! of 12 bytes.

use cryptoki_sys::{CK_MECHANISM_TYPE, CKA_SIGN, CKA_VERIFY, CKK_AES, CKK_GENERIC_SECRET};
use jeton_client::{Mechanism, names};

use super::{Rows, generation, import, signs, signs_in_parts};
use crate::fixture::{Answer, Fixture, Key, Pair, SECRET, ensure, signed};

const MESSAGE: &[u8] = b"a message of some length, in parts";

pub const AES: Rows = &[
    (aes, &["AES_CMAC", "AES_MAC", "AES_XCBC_MAC", "AES_XCBC_MAC_96"]),
    (|fixture, kind| cut(fixture, kind, fixture.pair(Key::Aes)?), &["AES_CMAC_GENERAL", "AES_MAC_GENERAL"]),
];

pub const HMAC: Rows = &[
    (hmac, &["#_HMAC", "SHA_1_HMAC", "SHA512_224_HMAC", "SHA512_256_HMAC"]),
    (
        |fixture, kind| cut(fixture, kind, long_key(fixture)?),
        &["#_HMAC_GENERAL", "SHA_1_HMAC_GENERAL", "SHA512_224_HMAC_GENERAL", "SHA512_256_HMAC_GENERAL"],
    ),
    (generation::secret, &["#_KEY_GEN", "SHA_1_KEY_GEN", "SHA512_224_KEY_GEN", "SHA512_256_KEY_GEN"]),
];

fn code(fixture: &Fixture<'_>, mechanism: &Mechanism, keys: Pair) -> Answer {
    signs(fixture, mechanism, keys, MESSAGE)?;
    signs_in_parts(fixture, mechanism, keys, MESSAGE)
}

/// Checks an AES MAC. XCBC needs AES-128 (RFC 3566).
fn aes(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let value = if names::mechanism(kind).contains("XCBC") { &SECRET[..16] } else { &SECRET };
    let key = import(fixture, CKK_AES, value, &[CKA_SIGN, CKA_VERIFY])?;
    code(fixture, &Mechanism::new(kind), Pair { public: key, private: key })
}

/// Imports a key that is as long as the longest hash, because some modules accept no shorter key.
fn long_key(fixture: &Fixture<'_>) -> Answer<Pair> {
    let key = import(fixture, CKK_GENERIC_SECRET, &[0x3c; 64], &[CKA_SIGN, CKA_VERIFY])?;
    Ok(Pair { public: key, private: key })
}

fn hmac(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    code(fixture, &Mechanism::new(kind), long_key(fixture)?)
}

fn cut(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE, keys: Pair) -> Answer {
    let short = Mechanism::with_numbers(kind, &[8]);
    code(fixture, &short, keys)?;
    let (short, longer) = (
        signed(fixture, &short, keys.private, MESSAGE)?,
        signed(fixture, &Mechanism::with_numbers(kind, &[12]), keys.private, MESSAGE)?,
    );
    ensure("C_Sign", short.len() == 8 && longer.len() == 12 && longer.starts_with(&short))
}
