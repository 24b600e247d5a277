//! Findings C3 and M1 of docs/findings.md. C3: a mechanism makes a short key from a long one, and a
//! few guesses find the short key. M1: HKDF uses a salt key without permission. Clulow 2003 ("On
//! the security of PKCS#11") describes the reduced key space with `CKM_EXTRACT_KEY_FROM_KEY` and
//! the related keys with `CKM_XOR_BASE_AND_DATA`.

use cryptoki_sys::*;
use jeton_client::{Memory, Structure};

use super::keys::Guarded::{Kept, Open, Wrappable};
use super::keys::{
    Handle, KINDS, KNOWN, Template, VICTIM, aes, base, flag, hidden_of, kind_name, known_base, number, open,
    open_of, rsa, secret, usual, victim, wrapping,
};
use super::tools::{ECB, GCM, HMAC, RSA_CIPHERS, data, hkdf, named, numbered};
use super::{Attacker, CLULOW, Table, Tried};

const C3: &str = "Review, C3";
const M1: &str = "Review, M1";
pub const EXTRACT: CK_MECHANISM_TYPE = CKM_EXTRACT_KEY_FROM_KEY;
const BASE_AND_KEY: CK_MECHANISM_TYPE = CKM_CONCATENATE_BASE_AND_KEY;
pub const BASE_AND_DATA: CK_MECHANISM_TYPE = CKM_CONCATENATE_BASE_AND_DATA;
pub const DATA_AND_BASE: CK_MECHANISM_TYPE = CKM_CONCATENATE_DATA_AND_BASE;
pub const XOR: CK_MECHANISM_TYPE = CKM_XOR_BASE_AND_DATA;
const TLS: CK_MECHANISM_TYPE = CKM_TLS12_MASTER_KEY_DERIVE;

pub fn attacks(t: &Table) {
    ["HMAC", "C_DigestKey", "CKA_VALUE"].into_iter().for_each(|oracle| guesses(t, Oracle(oracle)));
    second_key_rules(t);
    salts(t);
    protocols(t);
    macs(t);
}

/// How the attacker tests a guess of a derived key: `HMAC`, `C_DigestKey` or `CKA_VALUE`.
#[derive(Clone, Copy)]
pub struct Oracle(pub &'static str);

impl Oracle {
    /// Describes a derived key of this length. The oracle can use the key.
    fn key(self, length: usize) -> Template {
        match self.0 {
            "CKA_VALUE" => open_of(CKK_GENERIC_SECRET, length),
            "HMAC" => hidden_of(CKK_GENERIC_SECRET, length, &[CKA_SIGN]),
            _ => hidden_of(CKK_GENERIC_SECRET, length, &[]),
        }
    }

    /// Returns the answer for a key with these bytes. The attacker compares it with the answer for
    /// the derived key.
    fn expected(self, a: &Attacker<'_>, value: &[u8]) -> Tried<Vec<u8>> {
        match self.0 {
            "CKA_VALUE" => Ok(value.to_vec()),
            "HMAC" => a.hmac(value, b"oracle"),
            _ => a.digested(CKM_SHA256, value),
        }
    }

    fn answer(self, a: &Attacker<'_>, key: Handle) -> Tried<Vec<u8>> {
        match self.0 {
            "CKA_VALUE" => a.value(key),
            "HMAC" => a.signed(HMAC, key, b"oracle"),
            _ => a.digest_of_key(key),
        }
    }

    pub fn byte(self, a: &Attacker<'_>, key: Handle, value: impl Fn(u8) -> Vec<u8>) -> Tried<Option<u8>> {
        let answer = self.answer(a, key)?;
        for guess in 0..=u8::MAX {
            if self.expected(a, &value(guess))? == answer {
                return Ok(Some(guess));
            }
        }
        Ok(None)
    }

    /// Guesses the first `count` bytes of the victim. Returns whether all guesses are right. `make`
    /// derives a key from the `known` bytes and the byte at a position, with a template.
    fn finds(
        self,
        a: &Attacker<'_>,
        known: &[u8],
        count: usize,
        make: impl Fn(usize, Template) -> Tried<Handle>,
    ) -> Tried<bool> {
        let mut right = true;
        for (at, byte) in VICTIM.into_iter().enumerate().take(count) {
            let key = make(at, self.key(known.len() + 1))?;
            right &= self.byte(a, key, |guess| [known, &[guess]].concat())? == Some(byte);
        }
        Ok(right)
    }
}

impl Attacker<'_> {
    /// Computes HMAC (RFC 2104) from the module's digests. A real attacker would compute it outside
    /// the module.
    fn hmac(&self, key: &[u8], message: &[u8]) -> Tried<Vec<u8>> {
        let mut block = key.to_vec();
        block.resize(64, 0);
        let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<_>>();
        let inner = self.digested(CKM_SHA256, &[pad(0x36), message.to_vec()].concat())?;
        self.digested(CKM_SHA256, &[pad(0x5c), inner].concat())
    }

    /// Derives the bytes that start at a position.
    pub fn extracted(&self, key: Handle, at: usize, template: Template) -> Tried<Handle> {
        self.derived(numbered(EXTRACT, at as CK_ULONG * 8), key, template)
    }

    fn concatenated(&self, victim: Handle, template: Template) -> Tried<Handle> {
        self.derived(numbered(BASE_AND_KEY, victim.0), self.import(known_base(Kept))?, template)
    }
}

/// Describes a hidden key for the next derivation.
fn longer(length: usize) -> Template {
    hidden_of(CKK_GENERIC_SECRET, length, &[CKA_DERIVE])
}

/// Attacks that guess bytes of a victim one by one, because a derived or unwrapped key has only one
/// unknown byte.
fn guesses(t: &Table, oracle: Oracle) {
    let how = oracle.0;
    for kind in KINDS {
        let name = format!("EXTRACT_KEY_FROM_KEY, one byte of the {} key, {how}", kind_name(kind));
        t.row(CLULOW, name, &[EXTRACT], victim(kind, Kept, &[CKA_DERIVE])).holds(move |a, victim| {
            oracle.finds(a, &[], 3, |at, template| a.extracted(victim, at, template))
        });
    }
    // The victim is the second key of a concatenation. Its owner did not allow derivation.
    for kind in KINDS {
        let second = format!("{} key without CKA_DERIVE, {how}", kind_name(kind));
        let name = format!("CONCATENATE_BASE_AND_KEY and EXTRACT_KEY_FROM_KEY of the {second}");
        t.row(C3, name, &[BASE_AND_KEY, EXTRACT], victim(kind, Kept, &[])).holds(move |a, victim| {
            let both = a.concatenated(victim, longer(64))?;
            oracle.finds(a, &[], 2, |at, template| a.extracted(both, 32 + at, template))
        });
    }
    // The derived key consists of known bytes and the first byte of the victim. A minimum length
    // does not prevent attacks with many known bytes.
    let guess = |what, needs: &[_], known: &'static [u8], make: Make| {
        t.row(C3, format!("{what}, {how}"), needs, base())
            .holds(move |a, victim| oracle.finds(a, known, 1, |_, template| make(a, victim, template)));
    };
    const DATA_BY_LENGTH: &str =
        "CONCATENATE_DATA_AND_BASE, 31 known bytes and one of the key by CKA_VALUE_LEN";
    let ike = Structure::new().number(HMAC).flag(false).number(0).bytes(&[]);
    for (what, known, with) in [
        ("XOR_BASE_AND_DATA, cut to one byte", &[][..], data(XOR, &[0])),
        ("XOR_BASE_AND_DATA by CKA_VALUE_LEN, cut to one byte", &[], data(XOR, &[0; 32])),
        ("CONCATENATE_BASE_AND_DATA, cut to one byte", &[], data(BASE_AND_DATA, &[0; 8])),
        ("IKE1_EXTENDED_DERIVE, cut to one byte", &[], ike.mechanism(CKM_IKE1_EXTENDED_DERIVE)),
        (DATA_BY_LENGTH, &[9; 31], data(DATA_AND_BASE, &[9; 31])),
    ] {
        t.row(C3, format!("{what}, {how}"), &[with.kind], base()).holds(move |a, victim| {
            oracle.finds(a, known, 1, |_, template| a.derived(&with, victim, template))
        });
    }
    let name = "CONCATENATE_DATA_AND_BASE and EXTRACT_KEY_FROM_KEY, 47 known bytes and one of the key";
    guess(name, &[DATA_AND_BASE, EXTRACT], &[9; 47], |a, victim, template| {
        a.extracted(a.derived(data(DATA_AND_BASE, &[9; 47]), victim, longer(79))?, 0, template)
    });
    let name = "CONCATENATE_BASE_AND_KEY, 32 known bytes and one of the key by CKA_VALUE_LEN";
    guess(name, &[BASE_AND_KEY], &KNOWN, |a, victim, template| a.concatenated(victim, template));
    let name = "CONCATENATE_BASE_AND_DATA and EXTRACT_KEY_FROM_KEY, one byte of the key and 31 known bytes";
    t.row(C3, format!("{name}, {how}"), &[BASE_AND_DATA, EXTRACT], base()).holds(move |a, victim| {
        let long = a.derived(data(BASE_AND_DATA, &[9; 32]), victim, longer(64))?;
        let made = a.extracted(long, 31, oracle.key(32))?;
        Ok(oracle.byte(a, made, |guess| [&[guess][..], &[9; 31]].concat())? == Some(VICTIM[31]))
    });
    cut_by_unwrapping(t, oracle);
    guess("EXTRACT_KEY_FROM_KEY, halved five times", &[EXTRACT], &[], |a, victim, template| {
        let halved = |key, length| a.extracted(key, 0, longer(length));
        a.extracted([16, 8, 4, 2].into_iter().try_fold(victim, halved)?, 0, template)
    });
}

/// Derives a key with this template from the victim.
type Make = fn(&Attacker<'_>, Handle, Template) -> Tried<Handle>;

/// Attacks that unwrap only a part of a key. The attacker has the ciphertext of an owner's key, and
/// a key that unwraps it.
fn cut_by_unwrapping(t: &Table, oracle: Oracle) {
    let name = |with| format!("unwrap with {} and CKA_VALUE_LEN=1, {}", named(with), oracle.0);
    let secret = || usual(CKK_GENERIC_SECRET, Wrappable);
    for with in [ECB, CKM_AES_CBC, CKM_AES_CBC_PAD, CKM_AES_CTR, CKM_AES_KEY_WRAP_KWP, GCM] {
        t.row(C3, name(with), &[with], secret()).holds(move |a, victim| {
            let key = a.import(wrapping(&[CKA_WRAP, CKA_UNWRAP]))?;
            let wrapped = a.wrapped(with, key, victim)?;
            oracle.finds(a, &[], 1, |_, template| a.unwrapped(with, key, &wrapped, template))
        });
    }
    for with in RSA_CIPHERS {
        let owned = (rsa(&[CKA_WRAP], &[CKA_UNWRAP]), secret());
        t.row(C3, name(with), &[with], owned).holds(move |a, ((public, private), victim)| {
            // RSA without padding gives the end of the key. The other mechanisms give its
            // beginning. A random key in place of a refusal has one of these bytes by chance.
            for _ in 0..4 {
                let wrapped = a.wrapped(with, public, victim)?;
                let made = a.unwrapped(with, private, &wrapped, oracle.key(1))?;
                let found = oracle.byte(a, made, |guess| vec![guess])?;
                if found != Some(VICTIM[0]) && found != Some(VICTIM[31]) {
                    return Ok(false);
                }
            }
            Ok(true)
        });
    }
}

/// Attacks that pass a second key in a parameter although the attributes of that key forbid this.
/// In other attacks here, the derived object has more rights than one of its base keys.
fn second_key_rules(t: &Table) {
    let deriving = || victim(CKK_AES, Kept, &[CKA_DERIVE]);
    let name = "CONCATENATE_BASE_AND_KEY against the CKA_ALLOWED_MECHANISMS of the second key";
    t.row(C3, name, &[BASE_AND_KEY], deriving().only(ECB))
        .accepted(|a, victim| a.concatenated(victim, longer(64)));
    let name = "CONCATENATE_BASE_AND_KEY of a readable key with a sensitive one";
    t.row(C3, name, &[BASE_AND_KEY], base()).holds(|a, victim| {
        let own = a.import(known_base(Open))?;
        let made = a.derived(numbered(BASE_AND_KEY, victim.0), own, open(CKK_GENERIC_SECRET))?;
        Ok(a.value(made)?[32..] == VICTIM)
    });
    for (kind, length) in [(BASE_AND_DATA, 8), (DATA_AND_BASE, 8), (XOR, 32)] {
        let name = format!("{} of a sensitive key into a readable one", named(kind));
        t.row(CLULOW, name, &[kind], base()).holds(move |a, victim| {
            let made = a.derived(data(kind, &vec![0; length]), victim, open(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)?.windows(32).any(|part| part == VICTIM))
        });
    }
    let name = "gain usages that the base key lacks, by a derivation that keeps its value";
    t.row(CLULOW, name, &[XOR, ECB], (deriving(), aes(Kept))).holds(|a, (victim, encrypting)| {
        let made = a.derived(data(XOR, &[0; 32]), victim, hidden_of(CKK_AES, 32, &[CKA_ENCRYPT]))?;
        a.same(ECB, made, encrypting)
    });
}

/// Attacks in which HKDF uses the victim as the salt key: the result is an HMAC of the victim.
fn salts(t: &Table) {
    const FORGED: &[u8] = b"a message to forge a code";
    let salt = |usages: &[CK_ATTRIBUTE_TYPE]| victim(CKK_GENERIC_SECRET, Kept, usages);
    for (left, what) in [(&[CKA_VERIFY][..], "that may only verify"), (&[], "without any usage")] {
        for expand in [false, true] {
            let name = format!("forge an HMAC by HKDF with a salt key {what}, expand={expand}");
            t.row(M1, name, &[CKM_HKDF_DERIVE], salt(left)).holds(move |a, salt| {
                let base = a.import(secret(CKK_GENERIC_SECRET, FORGED, Open, &[CKA_DERIVE]))?;
                let with = hkdf(CKM_HKDF_DERIVE, expand, CKF_HKDF_SALT_KEY, salt);
                let forged = a.value(a.derived(with, base, open_of(CKK_GENERIC_SECRET, 32))?)?;
                let extracted = a.hmac(&VICTIM, FORGED)?;
                Ok(forged == if expand { a.hmac(&extracted, &[1])? } else { extracted })
            });
        }
    }
    let reveals = |name, with, salt, made: Template| {
        t.row(M1, name, &[with], salt).holds(move |a, salt| {
            let base = a.import(known_base(Open))?;
            let made = a.derived(hkdf(with, false, CKF_HKDF_SALT_KEY, salt), base, &made)?;
            Ok(a.value(made)? == a.hmac(&VICTIM, &KNOWN)?)
        });
    };
    let (limited, made) = (salt(&[CKA_DERIVE]).only(HMAC), open_of(CKK_GENERIC_SECRET, 32));
    reveals("HKDF against the CKA_ALLOWED_MECHANISMS of the salt key", CKM_HKDF_DERIVE, limited, made);
    let object = [number(CKA_CLASS, CKO_DATA), flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 32)];
    let name = "HKDF_DATA makes a data object with an HMAC of a sensitive salt key";
    reveals(name, CKM_HKDF_DATA, salt(&[CKA_VERIFY]), object.into());
}

/// Attacks on mechanisms of TLS and IKE. The mechanism of TLS returns the version field of a
/// pre-master secret: the attacker passes another key of 48 bytes, and gets its first two bytes.
fn protocols(t: &Table) {
    let version = |a: &Attacker<'_>, key| {
        let told = Memory::of(&[0; 2]);
        let randoms = Structure::new().bytes(&[1; 32]).bytes(&[2; 32]);
        let parameter = Structure::new().members(randoms).pointer(&told).number(CKM_SHA256);
        a.derived(parameter.mechanism(TLS), key, longer(48)).map(|_| told.bytes())
    };
    let victim_48 = secret(CKK_GENERIC_SECRET, &VICTIM.repeat(2)[..48], Kept, &[CKA_DERIVE]);
    let name = "TLS12_MASTER_KEY_DERIVE reveals a key that EXTRACT_KEY_FROM_KEY rotates";
    t.row(C3, name, &[TLS, EXTRACT], victim_48).yields(&VICTIM[..8], move |a, victim| {
        let rotated = [0, 2, 4, 6].map(|at| version(a, a.extracted(victim, at, longer(48))?));
        Ok(rotated.into_iter().collect::<Tried<Vec<_>>>()?.concat())
    });
    let name = "TLS12_MASTER_KEY_DERIVE reveals a key that follows known bytes";
    t.row(C3, name, &[TLS, BASE_AND_DATA], base()).yields(&VICTIM[..2], move |a, victim| {
        version(a, a.derived(data(BASE_AND_DATA, &[0; 16]), victim, longer(48))?)
    });
    let name = "IKE1_PRF_DERIVE with a second key without CKA_DERIVE";
    let verifying = victim(CKK_GENERIC_SECRET, Kept, &[CKA_VERIFY]);
    t.row(C3, name, &[CKM_IKE1_PRF_DERIVE], verifying).accepted(|a, victim| {
        let keys = Structure::new().number(HMAC).flag(false).number(victim.0).number(0);
        let with = keys.bytes(&[1; 8]).bytes(&[2; 8]).inline(&[0]).mechanism(CKM_IKE1_PRF_DERIVE);
        a.derived(with, a.import(known_base(Kept))?, longer(32))
    });
}

/// Attacks that forge a MAC of one byte with a key that can only verify, find a key of one byte, or
/// decrypt with a key that may only unwrap.
fn macs(t: &Table) {
    for (with, kind) in [
        (CKM_SHA256_HMAC_GENERAL, CKK_GENERIC_SECRET),
        (CKM_SHA512_HMAC_GENERAL, CKK_GENERIC_SECRET),
        (CKM_AES_CMAC_GENERAL, CKK_AES),
        (CKM_AES_MAC_GENERAL, CKK_AES),
    ] {
        let name = format!("forge a MAC of one byte, {}", named(with));
        t.row("Review, Low", name, &[with], victim(kind, Kept, &[CKA_VERIFY])).holds(move |a, victim| {
            for guess in 0..=u8::MAX {
                if a.verifies(numbered(with, 1), victim, b"a forged message", &[guess])? {
                    return Ok(true);
                }
            }
            Ok(false)
        });
    }
    let short = secret(CKK_GENERIC_SECRET, &VICTIM[..1], Kept, &[CKA_SIGN]);
    t.row(CLULOW, "find a key of one byte by HMAC", &[HMAC], short)
        .holds(|a, victim| Oracle("HMAC").finds(a, &[], 1, |_, _| Ok(victim)));
    let unwrapping = victim(CKK_AES, Kept, &[CKA_UNWRAP]);
    t.row(CLULOW, "decrypt with a key that may only unwrap", &[CKM_AES_CBC], unwrapping)
        .accepted(|a, victim| a.init("C_DecryptInit", CKM_AES_CBC, victim));
}
