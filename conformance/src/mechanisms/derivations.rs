//! Derivations of keys from keys. The derived keys are compared with known answers or with the
//! module's own digests and ciphers, or both sides must agree on the same secret.

use cryptoki_sys::*;
use jeton_client::{Mechanism, Memory, Structure, names};

use super::hashes::digest;
use super::{Rows, derived, derived_from, generation, import};
use crate::cases::{decapsulate, encapsulate};
use crate::fixture::{
    Answer, Fixture, Key, P256, SECRET, able, bytes, ensure, flag, hex, number, open_key, with,
};

pub const HASHES: Rows = &[(
    hashed,
    &["#_KEY_DERIVATION", "SHA1_KEY_DERIVATION", "SHA512_224_KEY_DERIVATION", "SHA512_256_KEY_DERIVATION"],
)];

pub const HKDF: Rows =
    &[(hkdf, &["HKDF_DERIVE"]), (hkdf_data, &["HKDF_DATA"]), (generation::secret, &["HKDF_KEY_GEN"])];

pub const SECRETS: Rows = &[
    (generation::secret, &["GENERIC_SECRET_KEY_GEN"]),
    (concatenated, &["CONCATENATE_BASE_AND_DATA", "CONCATENATE_DATA_AND_BASE", "XOR_BASE_AND_DATA"]),
    (two_keys, &["CONCATENATE_BASE_AND_KEY"]),
    (extracted, &["EXTRACT_KEY_FROM_KEY"]),
    (public_key, &["PUB_KEY_FROM_PRIV_KEY"]),
];

fn hashed(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let name = names::mechanism(kind).replace("_KEY_DERIVATION", "").replace("SHA1", "SHA_1");
    let hash = names::mechanism_called(&name).unwrap_or(CKM_SHA256);
    let expected = digest(fixture, hash, &SECRET)?;
    ensure("C_DeriveKey", derived(fixture, &Mechanism::new(kind), &SECRET, None)? == expected)?;
    ensure("C_DeriveKey", derived(fixture, &Mechanism::new(kind), &SECRET, Some(16))? == expected[..16])
}

/// Returns the parameters of the example in RFC 5869, A.1, with these steps and this salt.
fn rfc5869(
    kind: CK_MECHANISM_TYPE,
    (extract, expand): (bool, bool),
    salt: CK_ULONG,
    key: CK_ULONG,
) -> Mechanism {
    let data = if salt == CKF_HKDF_SALT_DATA { hex(SALT) } else { vec![] };
    let parameter = Structure::new().flag(extract).flag(expand).number(CKM_SHA256).number(salt);
    parameter.bytes(&data).number(key).bytes(&hex("f0f1f2f3f4f5f6f7f8f9")).mechanism(kind)
}

const SALT: &str = "000102030405060708090a0b0c";
const PRK: &str = "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5";
const OKM: &str = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";

/// Checks both steps with the salt as data and as a key, and each step alone.
fn hkdf(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let salt = import(fixture, CKK_GENERIC_SECRET, &hex(SALT), &[CKA_DERIVE])?.0;
    let (input, both) = (vec![0x0b; 22], (true, true));
    for (base, steps, salt, key, length, known) in [
        (input.clone(), both, CKF_HKDF_SALT_DATA, 0, Some(42), OKM),
        (input.clone(), both, CKF_HKDF_SALT_KEY, salt, Some(42), OKM),
        (input, (true, false), CKF_HKDF_SALT_DATA, 0, None, PRK),
        (hex(PRK), (false, true), CKF_HKDF_SALT_NULL, 0, Some(42), OKM),
    ] {
        let base = import(fixture, CKK_HKDF, &base, &[CKA_DERIVE])?;
        let made = derived_from(fixture, &rfc5869(kind, steps, salt, key), base, length)?;
        ensure("C_DeriveKey", made == hex(known))?;
    }
    Ok(())
}

fn hkdf_data(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let base = import(fixture, CKK_HKDF, &[0x0b; 22], &[CKA_DERIVE])?;
    let template = [number(CKA_CLASS, CKO_DATA), flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 42)];
    let mechanism = rfc5869(kind, (true, true), CKF_HKDF_SALT_DATA, 0);
    let data = fixture.derive_key(&mechanism, base, &template)?;
    ensure("C_DeriveKey", fixture.attribute(data, CKA_VALUE)? == hex(OKM))
}

fn concatenated(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let mechanism = Structure::new().bytes(&[0x11; 8]).mechanism(kind);
    let expected = match kind {
        CKM_CONCATENATE_BASE_AND_DATA => [&SECRET[..], &[0x11; 8]].concat(),
        CKM_CONCATENATE_DATA_AND_BASE => [&[0x11; 8], &SECRET[..]].concat(),
        _ => SECRET[..8].iter().map(|byte| byte ^ 0x11).collect(),
    };
    ensure("C_DeriveKey", derived(fixture, &mechanism, &SECRET, None)? == expected)
}

fn two_keys(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let other = import(fixture, CKK_GENERIC_SECRET, &[0x22; 16], &[CKA_DERIVE])?;
    let made = derived(fixture, &Mechanism::with_numbers(kind, &[other.0]), &SECRET, None)?;
    ensure("C_DeriveKey", made == [&SECRET[..], &[0x22; 16]].concat())
}

/// Checks extractions that start at a byte, inside a byte, and near the end, where the bits wrap
/// around.
fn extracted(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let bit = |at: usize| SECRET[at % 256 / 8] >> (7 - at % 8) & 1;
    for (first, length) in [(8, 16), (12, 16), (255, 2)] {
        let made = derived(fixture, &Mechanism::with_numbers(kind, &[first]), &SECRET, Some(length))?;
        let byte = |at| (0..8).fold(0, |byte, next| byte << 1 | bit(first as usize + 8 * at + next));
        ensure("C_DeriveKey", made == (0..length).map(byte).collect::<Vec<u8>>())?;
    }
    Ok(())
}

fn public_key(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let pair = fixture.pair(Key::Ec)?;
    let template = able(open_key(CKO_PUBLIC_KEY, CKK_EC), &[CKA_VERIFY]);
    let made = fixture.derive_key(&Mechanism::new(kind), pair.private, &template)?;
    let point = |key| fixture.attribute(key, CKA_EC_POINT);
    ensure("C_DeriveKey", point(made)? == point(pair.public)?)
}

/// Checks that two sides agree on the same secret.
pub fn ecdh(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let public = [bytes(CKA_EC_PARAMS, P256)];
    let generate = Mechanism::new(CKM_EC_KEY_PAIR_GEN);
    let (theirs, private) = fixture.generate_key_pair(&generate, &public, &able(vec![], &[CKA_DERIVE]))?;
    let ours = fixture.pair(Key::Ec)?;
    let agreed = |public, private| {
        let point = fixture.attribute(public, CKA_EC_POINT)?;
        let mechanism = Structure::new().number(CKD_NULL).counted(&[]).counted(&point[2..]).mechanism(kind);
        derived_from(fixture, &mechanism, private, Some(32))
    };
    ensure("C_DeriveKey", agreed(theirs, ours.private)? == agreed(ours.public, private)?)
}

/// Checks that decapsulation returns the encapsulated secret.
pub fn kem(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (pair, mechanism) = (fixture.pair(Key::MlKem)?, Mechanism::new(kind));
    let (ciphertext, one) = encapsulate(fixture, &mechanism, pair.public, 1088)?;
    let two = decapsulate(fixture, &mechanism, pair.private, &ciphertext)?;
    let value = |key| fixture.attribute(key, CKA_VALUE);
    ensure("C_DecapsulateKey", value(one)? == value(two)? && value(one)?.len() == 32)
}

/// Checks that a derived key is the ciphertext of the data in the parameter.
pub fn encrypt_data(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let data = Memory::of(&[6; 32]);
    let (mechanism, cipher) = if kind == CKM_AES_CBC_ENCRYPT_DATA {
        let parameter = Structure::new().inline(&[1; 16]).pointer(&data).number(32);
        (parameter.mechanism(kind), Mechanism::with_bytes(CKM_AES_CBC, &[1; 16]))
    } else {
        (Structure::new().pointer(&data).number(32).mechanism(kind), Mechanism::new(CKM_AES_ECB))
    };
    let (session, mut expected) = (fixture.fresh()?, [0; 32]);
    session.encrypt_init(&cipher, fixture.key(Key::Aes)?)?;
    session.encrypt(&[6; 32], &mut expected)?;
    let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), number(CKA_VALUE_LEN, 32));
    let made = fixture.derive_key(&mechanism, fixture.key(Key::Aes)?, &template)?;
    ensure("C_DeriveKey", fixture.attribute(made, CKA_VALUE)? == expected)
}
