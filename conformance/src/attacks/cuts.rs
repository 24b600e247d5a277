//! Findings C3 and M1 of docs/security.md. C3: a mechanism makes a short key from a long one, and a
//! few guesses find the short key. M1: HKDF uses a salt key without permission. Clulow 2003 ("On
//! the security of PKCS#11") describes the reduced key space with `CKM_EXTRACT_KEY_FROM_KEY` and
//! the related keys with `CKM_XOR_BASE_AND_DATA`.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, Mechanism, Memory, ObjectHandle, Structure};

use super::tools::{Guarded, KNOWN, VICTIM, cbc, hidden_of, named, oaep, readable};
use super::{Attack, Attacker, Attempt, Setup, Stop, attack, mechanism};

const C3: &str = "Review, C3";
const M1: &str = "Review, M1";
const CLULOW: &str = "Clulow 2003";

/// How the attacker tests a guess of a derived key.
#[derive(Clone, Copy)]
enum Oracle {
    Hmac,
    DigestKey,
    Read,
}

const ORACLES: [(Oracle, &str); 3] =
    [(Oracle::Hmac, "HMAC"), (Oracle::DigestKey, "C_DigestKey"), (Oracle::Read, "CKA_VALUE")];

/// The victims: a key type and its name.
const VICTIMS: [(CK_KEY_TYPE, &str); 4] = [
    (CKK_AES, "AES"),
    (CKK_GENERIC_SECRET, "generic"),
    (CKK_CHACHA20, "ChaCha20"),
    (CKK_SHA256_HMAC, "HMAC"),
];

pub fn attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    for (oracle, how) in ORACLES {
        for (kind, name) in VICTIMS {
            all.push(attack(
                CLULOW,
                format!("EXTRACT_KEY_FROM_KEY, one byte of the {name} key, {how}"),
                &[EXTRACT],
                move |a| {
                    let victim = a.victim(kind, Guarded::Kept, &[CKA_DERIVE])?;
                    bytes_of(a, oracle, &[], 3, |at| {
                        a.derive_key(&number(EXTRACT, at * 8), victim, &short(oracle, 1))
                    })
                },
            ));
        }
        all.extend(second_keys(oracle, how));
        all.extend(first_bytes(oracle, how));
        all.extend(diluted(oracle, how));
        all.extend(unwrapped(oracle, how));
        all.extend(chains(oracle, how));
    }
    all.extend(second_key_rules());
    all.extend(protocols());
    all.extend(macs());
    all
}

const EXTRACT: CK_MECHANISM_TYPE = CKM_EXTRACT_KEY_FROM_KEY;

fn number(kind: CK_MECHANISM_TYPE, number: usize) -> Mechanism {
    Mechanism::with_numbers(kind, &[number as CK_ULONG])
}

fn data(kind: CK_MECHANISM_TYPE, data: &[u8]) -> Mechanism {
    Structure::new().bytes(data).mechanism(kind)
}

/// Returns a template for a derived key of this length. The oracle can use the key.
fn short(oracle: Oracle, length: usize) -> Vec<Attribute> {
    match oracle {
        Oracle::Read => super::tools::readable_of(CKK_GENERIC_SECRET, length),
        Oracle::Hmac => hidden_of(CKK_GENERIC_SECRET, length, &[CKA_SIGN]),
        Oracle::DigestKey => hidden_of(CKK_GENERIC_SECRET, length, &[]),
    }
}

/// Returns the answer that the oracle gives for a key with these bytes. The attacker compares this
/// answer with the answer for the derived key.
fn expected(a: &Attacker<'_>, oracle: Oracle, guess: &[u8]) -> Result<Vec<u8>, Failure> {
    match oracle {
        Oracle::Read => Ok(guess.to_vec()),
        Oracle::DigestKey => a.digested(CKM_SHA256, guess),
        Oracle::Hmac => hmac(a, guess, b"oracle"),
    }
}

fn said(a: &Attacker<'_>, oracle: Oracle, key: ObjectHandle) -> Result<Vec<u8>, Failure> {
    match oracle {
        Oracle::Read => a.value(key),
        Oracle::DigestKey => a.digest_of_key(key),
        Oracle::Hmac => a.signed(&mechanism(CKM_SHA256_HMAC), key, b"oracle"),
    }
}

/// Computes HMAC (RFC 2104) from the module's digests. A real attacker would compute it outside the
/// module.
fn hmac(a: &Attacker<'_>, key: &[u8], message: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut block = key.to_vec();
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<_>>();
    let inner = a.digested(CKM_SHA256, &[pad(0x36), message.to_vec()].concat())?;
    a.digested(CKM_SHA256, &[pad(0x5c), inner].concat())
}

/// Guesses the first `count` bytes of the victim. Returns whether all guesses are right. `make`
/// derives a key from the `known` bytes and the byte at a position.
fn bytes_of(
    a: &Attacker<'_>,
    oracle: Oracle,
    known: &[u8],
    count: usize,
    make: impl Fn(usize) -> Result<ObjectHandle, Failure>,
) -> Attempt {
    let mut found = Vec::new();
    for at in 0..count {
        let answer = said(a, oracle, make(at)?)?;
        for guess in 0..=u8::MAX {
            let whole = [known, &[guess]].concat();
            if expected(a, oracle, &whole)? == answer {
                found.push(guess);
                break;
            }
        }
    }
    Ok(found == VICTIM[..count])
}

/// Attacks with the victim as the second key of a concatenation. The owner of the victim did not
/// allow derivation.
fn second_keys(oracle: Oracle, how: &str) -> Vec<Attack> {
    let mut all = Vec::new();
    for (kind, name) in VICTIMS {
        let title = format!(
            "CONCATENATE_BASE_AND_KEY and EXTRACT_KEY_FROM_KEY of the {name} key without CKA_DERIVE, {how}"
        );
        all.push(attack(C3, title, &[CKM_CONCATENATE_BASE_AND_KEY, EXTRACT], move |a| {
            let victim = a.victim(kind, Guarded::Kept, &[])?;
            let both = both(a, victim)?;
            bytes_of(a, oracle, &[], 2, |at| {
                a.derive_key(&number(EXTRACT, (32 + at) * 8), both, &short(oracle, 1))
            })
        }));
    }
    all
}

/// Concatenates [`KNOWN`] and the victim.
fn both(a: &Attacker<'_>, victim: ObjectHandle) -> Result<ObjectHandle, Failure> {
    let own = a.secret(CKK_GENERIC_SECRET, &KNOWN, Guarded::Kept, &[CKA_DERIVE], &[])?;
    let with = Mechanism::with_numbers(CKM_CONCATENATE_BASE_AND_KEY, &[victim.0]);
    a.derive_key(&with, own, &hidden_of(CKK_GENERIC_SECRET, 64, &[CKA_DERIVE]))
}

/// Attacks that derive a key from only the first byte of the victim.
fn first_bytes(oracle: Oracle, how: &str) -> Vec<Attack> {
    let one = move |title: &str, needs: CK_MECHANISM_TYPE, with: fn() -> Mechanism| {
        attack(C3, format!("{title}, cut to one byte, {how}"), &[needs], move |a| {
            let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
            bytes_of(a, oracle, &[], 1, |_| a.derive_key(&with(), victim, &short(oracle, 1)))
        })
    };
    vec![
        one("XOR_BASE_AND_DATA", CKM_XOR_BASE_AND_DATA, || data(CKM_XOR_BASE_AND_DATA, &[0])),
        one("XOR_BASE_AND_DATA by CKA_VALUE_LEN", CKM_XOR_BASE_AND_DATA, || {
            data(CKM_XOR_BASE_AND_DATA, &[0; 32])
        }),
        one("CONCATENATE_BASE_AND_DATA", CKM_CONCATENATE_BASE_AND_DATA, || {
            data(CKM_CONCATENATE_BASE_AND_DATA, &[0; 8])
        }),
        one("IKE1_EXTENDED_DERIVE", CKM_IKE1_EXTENDED_DERIVE, || {
            let parameter = Structure::new().number(CKM_SHA256_HMAC).flag(false).number(0);
            parameter.bytes(&[]).mechanism(CKM_IKE1_EXTENDED_DERIVE)
        }),
    ]
}

/// Attacks that derive a key from many known bytes and a single byte of the victim. A minimum
/// length does not prevent them.
fn diluted(oracle: Oracle, how: &str) -> Vec<Attack> {
    vec![
        attack(
            C3,
            format!("CONCATENATE_DATA_AND_BASE, 31 known bytes and one of the key by CKA_VALUE_LEN, {how}"),
            &[CKM_CONCATENATE_DATA_AND_BASE],
            move |a| {
                let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
                let with = data(CKM_CONCATENATE_DATA_AND_BASE, &[9; 31]);
                bytes_of(a, oracle, &[9; 31], 1, |_| a.derive_key(&with, victim, &short(oracle, 32)))
            },
        ),
        attack(
            C3,
            format!(
                "CONCATENATE_DATA_AND_BASE and EXTRACT_KEY_FROM_KEY, 47 known bytes and one of the key, {how}"
            ),
            &[CKM_CONCATENATE_DATA_AND_BASE, EXTRACT],
            move |a| {
                let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
                let with = data(CKM_CONCATENATE_DATA_AND_BASE, &[9; 47]);
                let long = a.derive_key(&with, victim, &hidden_of(CKK_GENERIC_SECRET, 79, &[CKA_DERIVE]))?;
                bytes_of(a, oracle, &[9; 47], 1, |_| {
                    a.derive_key(&number(EXTRACT, 0), long, &short(oracle, 48))
                })
            },
        ),
        attack(
            C3,
            format!("CONCATENATE_BASE_AND_KEY, 32 known bytes and one of the key by CKA_VALUE_LEN, {how}"),
            &[CKM_CONCATENATE_BASE_AND_KEY],
            move |a| {
                let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
                let own = a.secret(CKK_GENERIC_SECRET, &KNOWN, Guarded::Kept, &[CKA_DERIVE], &[])?;
                let with = Mechanism::with_numbers(CKM_CONCATENATE_BASE_AND_KEY, &[victim.0]);
                bytes_of(a, oracle, &KNOWN, 1, |_| a.derive_key(&with, own, &short(oracle, 33)))
            },
        ),
        attack(
            C3,
            format!(
                "CONCATENATE_BASE_AND_DATA and EXTRACT_KEY_FROM_KEY, one byte of the key and 31 known bytes, {how}"
            ),
            &[CKM_CONCATENATE_BASE_AND_DATA, EXTRACT],
            move |a| {
                let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
                let with = data(CKM_CONCATENATE_BASE_AND_DATA, &[9; 32]);
                let long = a.derive_key(&with, victim, &hidden_of(CKK_GENERIC_SECRET, 64, &[CKA_DERIVE]))?;
                let made = a.derive_key(&number(EXTRACT, 31 * 8), long, &short(oracle, 32))?;
                let answer = said(a, oracle, made)?;
                for guess in 0..=u8::MAX {
                    if expected(a, oracle, &[&[guess][..], &[9; 31]].concat())? == answer {
                        return Ok(guess == VICTIM[31]);
                    }
                }
                Ok(false)
            },
        ),
    ]
}

/// Attacks that unwrap only a part of a key. The attacker has the ciphertext of an owner's key, and
/// a key that unwraps it.
fn unwrapped(oracle: Oracle, how: &str) -> Vec<Attack> {
    let one = |kind: CK_MECHANISM_TYPE| {
        let title = format!("unwrap with {} and CKA_VALUE_LEN=1, {how}", named(kind));
        attack(C3, title, &[kind], move |a| {
            let with = super::tools::wrapper(kind);
            let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Wrappable, &[CKA_SIGN])?;
            let key = a.secret(CKK_AES, &[0x42; 32], Guarded::Kept, &[CKA_WRAP, CKA_UNWRAP], &[])?;
            let wrapped = a.wrapped(&with, key, victim)?;
            bytes_of(a, oracle, &[], 1, |_| a.unwrap_key(&with, key, &wrapped, &short(oracle, 1)))
        })
    };
    let mut all: Vec<_> =
        [CKM_AES_ECB, CKM_AES_CBC, CKM_AES_CBC_PAD, CKM_AES_CTR, CKM_AES_KEY_WRAP_KWP, CKM_AES_GCM]
            .into_iter()
            .map(one)
            .collect();
    for kind in [CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP, CKM_RSA_X_509] {
        let title = format!("unwrap with {} and CKA_VALUE_LEN=1, {how}", named(kind));
        all.push(attack(C3, title, &[kind], move |a| {
            let with = if kind == CKM_RSA_PKCS_OAEP { oaep() } else { mechanism(kind) };
            let (public, private) = a.rsa(&[CKA_WRAP], &[CKA_UNWRAP], &[]).setup()?;
            let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Wrappable, &[CKA_SIGN])?;
            let wrapped = a.wrapped(&with, public, victim)?;
            // RSA without padding gives the end of the key. The other mechanisms give its
            // beginning.
            let made = a.unwrap_key(&with, private, &wrapped, &short(oracle, 1))?;
            let answer = said(a, oracle, made)?;
            for guess in 0..=u8::MAX {
                if expected(a, oracle, &[guess])? == answer {
                    return Ok(guess == VICTIM[0] || guess == VICTIM[31]);
                }
            }
            Ok(false)
        }));
    }
    all
}

/// Attacks that shorten a key in several small steps.
fn chains(oracle: Oracle, how: &str) -> Vec<Attack> {
    vec![attack(C3, format!("EXTRACT_KEY_FROM_KEY, halved five times, {how}"), &[EXTRACT], move |a| {
        let mut key = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
        for length in [16, 8, 4, 2] {
            key = a.derive_key(
                &number(EXTRACT, 0),
                key,
                &hidden_of(CKK_GENERIC_SECRET, length, &[CKA_DERIVE]),
            )?;
        }
        bytes_of(a, oracle, &[], 1, |_| a.derive_key(&number(EXTRACT, 0), key, &short(oracle, 1)))
    })]
}

/// Attacks that pass a second key in a parameter although the attributes of that key forbid this.
/// In other attacks here, the derived object has more rights than one of its base keys.
fn second_key_rules() -> Vec<Attack> {
    let mut all = Vec::new();
    let concatenated = |a: &Attacker<'_>, victim: ObjectHandle| -> Attempt {
        both(a, victim)?;
        Ok(true)
    };
    all.push(attack(
        C3,
        "CONCATENATE_BASE_AND_KEY against the CKA_ALLOWED_MECHANISMS of the second key",
        &[CKM_CONCATENATE_BASE_AND_KEY],
        move |a| {
            let only = Attribute::bytes(CKA_ALLOWED_MECHANISMS, CKM_AES_ECB.to_ne_bytes());
            let victim = a.secret(CKK_AES, &VICTIM, Guarded::Kept, &[CKA_DERIVE], &[only]).setup()?;
            concatenated(a, victim)
        },
    ));
    all.push(attack(
        C3,
        "CONCATENATE_BASE_AND_KEY of a readable key with a sensitive one",
        &[CKM_CONCATENATE_BASE_AND_KEY],
        |a| {
            let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
            let own = a.secret(CKK_GENERIC_SECRET, &KNOWN, Guarded::Open, &[CKA_DERIVE], &[])?;
            let with = Mechanism::with_numbers(CKM_CONCATENATE_BASE_AND_KEY, &[victim.0]);
            let made = a.derive_key(&with, own, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)?[32..] == VICTIM)
        },
    ));
    for (kind, with) in [
        (CKM_CONCATENATE_BASE_AND_DATA, data(CKM_CONCATENATE_BASE_AND_DATA, &[0; 8])),
        (CKM_CONCATENATE_DATA_AND_BASE, data(CKM_CONCATENATE_DATA_AND_BASE, &[0; 8])),
        (CKM_XOR_BASE_AND_DATA, data(CKM_XOR_BASE_AND_DATA, &[0; 32])),
    ] {
        let title = format!("{} of a sensitive key into a readable one", named(kind));
        all.push(attack(CLULOW, title, &[kind], move |a| {
            let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
            let made = a.derive_key(&with, victim, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)?.windows(32).any(|part| part == VICTIM))
        }));
    }
    all.push(attack(
        CLULOW,
        "gain usages that the base key lacks, by a derivation that keeps its value",
        &[CKM_XOR_BASE_AND_DATA, CKM_AES_ECB],
        |a| {
            let victim = a.victim(CKK_AES, Guarded::Kept, &[CKA_DERIVE])?;
            let with = data(CKM_XOR_BASE_AND_DATA, &[0; 32]);
            let made = a.derive_key(&with, victim, &hidden_of(CKK_AES, 32, &[CKA_ENCRYPT]))?;
            let own = a.secret(CKK_AES, &VICTIM, Guarded::Kept, &[CKA_ENCRYPT], &[]).setup()?;
            let block = a.encrypted(&mechanism(CKM_AES_ECB), made, &[0; 16])?;
            Ok(block == a.encrypted(&mechanism(CKM_AES_ECB), own, &[0; 16])?)
        },
    ));
    for (left, what) in [(&[CKA_VERIFY][..], "that may only verify"), (&[][..], "without any usage")] {
        for expand in [false, true] {
            let title = format!("forge an HMAC by HKDF with a salt key {what}, expand={expand}");
            all.push(attack(M1, title, &[CKM_HKDF_DERIVE], move |a| {
                let salt = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, left)?;
                let base = a.secret(
                    CKK_GENERIC_SECRET,
                    b"a message to forge a code",
                    Guarded::Open,
                    &[CKA_DERIVE],
                    &[],
                )?;
                let parameter = Structure::new().flag(true).flag(expand).number(CKM_SHA256);
                let parameter = parameter.number(CKF_HKDF_SALT_KEY).bytes(&[]).number(salt.0).bytes(&[]);
                let template = super::tools::readable_of(CKK_GENERIC_SECRET, 32);
                let made = a.derive_key(&parameter.mechanism(CKM_HKDF_DERIVE), base, &template)?;
                let forged = a.value(made)?;
                if expand {
                    let extracted = hmac(a, &VICTIM, b"a message to forge a code")?;
                    return Ok(forged == hmac(a, &extracted, &[1])?);
                }
                Ok(forged == hmac(a, &VICTIM, b"a message to forge a code")?)
            }));
        }
    }
    all.push(attack(
        M1,
        "HKDF against the CKA_ALLOWED_MECHANISMS of the salt key",
        &[CKM_HKDF_DERIVE],
        |a| {
            let only = Attribute::bytes(CKA_ALLOWED_MECHANISMS, CKM_SHA256_HMAC.to_ne_bytes());
            let salt =
                a.secret(CKK_GENERIC_SECRET, &VICTIM, Guarded::Kept, &[CKA_DERIVE], &[only]).setup()?;
            let base = a.secret(CKK_GENERIC_SECRET, &KNOWN, Guarded::Open, &[CKA_DERIVE], &[])?;
            let parameter = Structure::new().flag(true).flag(false).number(CKM_SHA256);
            let parameter = parameter.number(CKF_HKDF_SALT_KEY).bytes(&[]).number(salt.0).bytes(&[]);
            let template = super::tools::readable_of(CKK_GENERIC_SECRET, 32);
            let made = a.derive_key(&parameter.mechanism(CKM_HKDF_DERIVE), base, &template)?;
            Ok(a.value(made)? == hmac(a, &VICTIM, &KNOWN)?)
        },
    ));
    all.push(attack(
        M1,
        "HKDF_DATA makes a data object with an HMAC of a sensitive salt key",
        &[CKM_HKDF_DATA],
        |a| {
            let salt = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_VERIFY])?;
            let base = a.secret(CKK_GENERIC_SECRET, &KNOWN, Guarded::Open, &[CKA_DERIVE], &[])?;
            let parameter = Structure::new().flag(true).flag(false).number(CKM_SHA256);
            let parameter = parameter.number(CKF_HKDF_SALT_KEY).bytes(&[]).number(salt.0).bytes(&[]);
            let template = [
                Attribute::number(CKA_CLASS, CKO_DATA),
                super::flag(CKA_TOKEN, false),
                Attribute::number(CKA_VALUE_LEN, 32),
            ];
            let made = a.derive_key(&parameter.mechanism(CKM_HKDF_DATA), base, &template)?;
            Ok(a.value(made)? == hmac(a, &VICTIM, &KNOWN)?)
        },
    ));
    all
}

/// Attacks on mechanisms of TLS and IKE. The mechanism of TLS returns the version field of a
/// pre-master secret: the attacker passes another key of 48 bytes, and gets its first two bytes.
fn protocols() -> Vec<Attack> {
    const TLS: CK_MECHANISM_TYPE = CKM_TLS12_MASTER_KEY_DERIVE;
    let version = |a: &Attacker<'_>, key: ObjectHandle| -> Result<Vec<u8>, Stop> {
        let told = Memory::of(&[0; 2]);
        let randoms = Structure::new().bytes(&[1; 32]).bytes(&[2; 32]);
        let parameter = Structure::new().members(randoms).pointer(&told).number(CKM_SHA256);
        a.derive_key(&parameter.mechanism(TLS), key, &hidden_of(CKK_GENERIC_SECRET, 48, &[CKA_DERIVE]))?;
        Ok(told.bytes())
    };
    vec![
        attack(
            C3,
            "TLS12_MASTER_KEY_DERIVE reveals a key that EXTRACT_KEY_FROM_KEY rotates",
            &[TLS, EXTRACT],
            move |a| {
                let value = [&VICTIM[..], &VICTIM[..16]].concat();
                let victim =
                    a.secret(CKK_GENERIC_SECRET, &value, Guarded::Kept, &[CKA_DERIVE], &[]).setup()?;
                let mut found = Vec::new();
                for at in [0, 2, 4, 6] {
                    let template = hidden_of(CKK_GENERIC_SECRET, 48, &[CKA_DERIVE]);
                    let turned = a.derive_key(&number(EXTRACT, at * 8), victim, &template)?;
                    found.extend(version(a, turned)?);
                }
                Ok(found == VICTIM[..8])
            },
        ),
        attack(
            C3,
            "TLS12_MASTER_KEY_DERIVE reveals a key that follows known bytes",
            &[TLS, CKM_CONCATENATE_BASE_AND_DATA],
            move |a| {
                let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
                let template = hidden_of(CKK_GENERIC_SECRET, 48, &[CKA_DERIVE]);
                let long = a.derive_key(&data(CKM_CONCATENATE_BASE_AND_DATA, &[0; 16]), victim, &template)?;
                Ok(version(a, long)? == VICTIM[..2])
            },
        ),
        attack(C3, "IKE1_PRF_DERIVE with a second key without CKA_DERIVE", &[CKM_IKE1_PRF_DERIVE], |a| {
            let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_VERIFY])?;
            let own = a.secret(CKK_GENERIC_SECRET, &KNOWN, Guarded::Kept, &[CKA_DERIVE], &[])?;
            let parameter = Structure::new().number(CKM_SHA256_HMAC).flag(false).number(victim.0).number(0);
            let parameter = parameter.bytes(&[1; 8]).bytes(&[2; 8]).inline(&[0]);
            let template = hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_DERIVE]);
            a.derive_key(&parameter.mechanism(CKM_IKE1_PRF_DERIVE), own, &template)?;
            Ok(true)
        }),
    ]
}

/// Attacks that forge a MAC of one byte with a key that can only verify, find a key of one byte, or
/// decrypt with a key that may only unwrap.
fn macs() -> Vec<Attack> {
    let one = |kind: CK_MECHANISM_TYPE, key: CK_KEY_TYPE| {
        let title = format!("forge a MAC of one byte, {}", named(kind));
        attack("Review, Low", title, &[kind], move |a| {
            let victim = a.victim(key, Guarded::Kept, &[CKA_VERIFY])?;
            let with = Mechanism::with_numbers(kind, &[1]);
            for guess in 0..=u8::MAX {
                if a.verifies(&with, victim, b"a forged message", &[guess])? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    };
    vec![
        one(CKM_SHA256_HMAC_GENERAL, CKK_GENERIC_SECRET),
        one(CKM_SHA512_HMAC_GENERAL, CKK_GENERIC_SECRET),
        one(CKM_AES_CMAC_GENERAL, CKK_AES),
        one(CKM_AES_MAC_GENERAL, CKK_AES),
        attack(CLULOW, "find a key of one byte by HMAC", &[CKM_SHA256_HMAC], |a| {
            // The owner creates a sensitive key of one byte.
            let victim =
                a.secret(CKK_GENERIC_SECRET, &VICTIM[..1], Guarded::Kept, &[CKA_SIGN], &[]).setup()?;
            bytes_of(a, Oracle::Hmac, &[], 1, |_| Ok(victim))
        }),
        attack(CLULOW, "decrypt with a key that may only unwrap", &[CKM_AES_CBC], |a| {
            let victim = a.victim(CKK_AES, Guarded::Kept, &[CKA_UNWRAP])?;
            a.decrypt_init(&cbc(CKM_AES_CBC), victim)?;
            Ok(true)
        }),
    ]
}
