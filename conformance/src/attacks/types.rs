//! Findings K1 to K5 of the fourth review (docs/findings.md). K1, K2 and K4: a type of keys reads
//! parts of them apart, and the attacker changes one part (Kelsey, Schneier, Wagner 1996). K3: a
//! type of keys changes a bit of each byte. K5: a copy counts again.

use cryptoki_sys::*;
use jeton_client::{Mechanism, Structure};

use super::cuts::{BASE_AND_DATA, XOR};
use super::keys::Guarded::{Kept, Open};
use super::keys::{KNOWN, Template, VICTIM, bytes, head, hidden_of, mac_key, secret};
use super::tools::{HMAC, data};
use super::wraps::xor;
use super::{Attacker, Stop, Table};

const K1: &str = "Fourth review, K1";
const K2: &str = "Fourth review, K2";
const K3: &str = "Fourth review, K3";
const K4: &str = "Fourth review, K4";
const K5: &str = "Fourth review, K5";
const EXTENDED: CK_MECHANISM_TYPE = CKM_IKE1_EXTENDED_DERIVE;
/// The length of a key of triple DES.
const DES3: usize = 24;

pub fn attacks(t: &Table) {
    parts(t);
    parity(t);
    halves(t);
    copies(t);
}

/// Describes a victim of this length that may only derive.
fn short(length: usize) -> Template {
    secret(CKK_GENERIC_SECRET, &VICTIM[..length], Kept, &[CKA_DERIVE])
}

/// Takes the start of a key.
fn head_of() -> Mechanism {
    let parameter = Structure::new().number(HMAC).flag(false).number(0);
    parameter.bytes(&[]).mechanism(EXTENDED)
}

/// Returns the key with the parity of triple DES.
fn with_parity(key: &[u8]) -> Vec<u8> {
    key.iter().map(|byte| byte ^ u8::from(byte.count_ones() % 2 == 0)).collect()
}

/// Attacks that change a part of a key of triple DES and read a ciphertext.
fn parts(t: &Table) {
    let rows: [(&str, CK_MECHANISM_TYPE, usize); 3] = [
        ("an XOR", XOR, DES3),
        ("a concatenation", BASE_AND_DATA, 16),
        ("the start of an XOR", EXTENDED, VICTIM.len()),
    ];
    for (what, with, length) in rows {
        let derive = move |a: &Attacker<'_>, victim, mask: u8| {
            let made = hidden_of(CKK_DES3, DES3, &[]);
            let mask: Vec<_> = [mask].into_iter().chain([0; 31]).take(length).collect();
            let masked = hidden_of(CKK_GENERIC_SECRET, length, &[CKA_DERIVE]);
            let masked = || a.derived(data(XOR, &mask), victim, masked.clone());
            match with {
                XOR => a.derived(data(XOR, &mask), victim, made),
                EXTENDED => a.derived(head_of(), masked()?, made),
                _ => a.derived(data(with, &[1; 8]), masked()?, made),
            }
        };
        let name = format!("check values of {what} as a key of triple DES");
        t.row(K1, name, &[XOR, with], short(length)).holds(move |a, victim| {
            let check = |mask| Ok::<_, Stop>(a.attribute(derive(a, victim, mask)?, CKA_CHECK_VALUE)?);
            let (one, two) = (check(0)?, check(2)?);
            Ok(one.len() == 3 && one != two)
        });
    }
    let name = "encrypt and decrypt by two XORs as keys of triple DES";
    let deciphers = secret(CKK_GENERIC_SECRET, &VICTIM[..DES3], Kept, &[CKA_DERIVE]);
    t.row(K2, name, &[XOR, CKM_DES3_ECB], deciphers).accepted(|a, victim| {
        let of = |mask: u8, usage| {
            let mask: Vec<_> = [mask].into_iter().chain([0; DES3 - 1]).collect();
            a.derived(data(XOR, &mask), victim, hidden_of(CKK_DES3, DES3, &[usage]))
        };
        let middle = a.encrypted(CKM_DES3_ECB, of(0, CKA_ENCRYPT)?, &[0; 8])?;
        a.decrypted(CKM_DES3_ECB, of(2, CKA_DECRYPT)?, &middle)
    });
}

/// The attacker compares a key whose parity the token set with XORs of the key.
fn parity(t: &Table) {
    let name = "compare the digests of a key, and of the key with the parity of triple DES";
    t.row(K3, name, &[XOR, CKM_SHA256_KEY_DERIVATION, HMAC], short(DES3)).holds(|a, victim| {
        let code = |key| {
            let digest = a.derived(CKM_SHA256_KEY_DERIVATION, key, mac_key())?;
            a.signed(HMAC, digest, b"compared")
        };
        let derives = |kind| hidden_of(kind, DES3, &[CKA_DERIVE]);
        let changed = a.derived(data(XOR, &[0; DES3]), victim, derives(CKK_DES3))?;
        // A real attacker finds the mask by halves, with two times 4,096 derivations.
        let mask = xor(&with_parity(&VICTIM[..DES3]), &VICTIM[..DES3]);
        let masked = a.derived(data(XOR, &mask), victim, derives(CKK_GENERIC_SECRET))?;
        Ok(code(changed)? == code(masked)?)
    });
}

/// The attacker knows the second half of a key of XTS, and so chooses what the first one encrypts.
fn halves(t: &Table) {
    let name = "the check value of a concatenation as a key of AES-XTS";
    t.row(K4, name, &[BASE_AND_DATA], short(16)).holds(|a, victim| {
        let made = hidden_of(CKK_AES_XTS, 32, &[]);
        let made = a.derived(data(BASE_AND_DATA, &KNOWN[..16]), victim, made)?;
        let whole = [&VICTIM[..16], &KNOWN[..16]].concat();
        let same = a.import(secret(CKK_AES_XTS, &whole, Open, &[]))?;
        let (check, same) = (a.attribute(made, CKA_CHECK_VALUE)?, a.attribute(same, CKA_CHECK_VALUE)?);
        Ok(!check.is_empty() && check == same)
    });
}

fn copies(t: &Table) {
    let name = "copy a key that counts one-time passwords";
    let key = head(CKO_OTP_KEY, CKK_HOTP).guarded(Kept).and([bytes(CKA_VALUE, &VICTIM[..20])]);
    t.row(K5, name, &[CKM_HOTP], key).accepted(|a, victim| a.copy(victim, Template::default()));
}
