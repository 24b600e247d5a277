//! Findings M4 and M5 of docs/security.md: return codes that reveal the contents of a ciphertext
//! (Bleichenbacher 1998; Vaudenay 2002; Bardou et al. 2012, "Efficient padding oracle attacks on
//! cryptographic hardware"), and RSA without padding (Clulow 2003).

use std::collections::BTreeSet;

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, ObjectHandle};

use super::tools::{Guarded, VICTIM, cbc, hidden_of, named, oaep, replaced};
use super::{Attack, Attacker, Attempt, Setup, attack, flag, mechanism};

const BARDOU: &str = "Bardou et al. 2012";
const CLULOW: &str = "Clulow 2003";
const M5: &str = "Review, M5";
/// The largest number of RSA ciphertexts of one kind (valid, random or altered) in an attack.
const TRIES: usize = 24;

pub fn attacks() -> Vec<Attack> {
    let mut all = vec![
        attack(BARDOU, "RSA_PKCS, C_Decrypt reveals bad padding", &[CKM_RSA_PKCS], |a| {
            let (public, private) = a.rsa(&[CKA_ENCRYPT], &[CKA_DECRYPT], &[]).setup()?;
            distinguishes(a, public, |ciphertext| {
                a.decrypted(&mechanism(CKM_RSA_PKCS), private, ciphertext).map(drop)
            })
        }),
        attack(BARDOU, "RSA_PKCS, C_DecryptUpdate reveals bad padding", &[CKM_RSA_PKCS], |a| {
            let (public, private) = a.rsa(&[CKA_ENCRYPT], &[CKA_DECRYPT], &[]).setup()?;
            distinguishes(a, public, |ciphertext| {
                a.decrypt_init(&mechanism(CKM_RSA_PKCS), private)?;
                a.transform("C_DecryptUpdate", ciphertext)?;
                let (mut out, mut length) = (vec![0; 512], 512);
                let arguments = vec![jeton_client::Arg::Buffer(&mut out, &mut length)];
                a.fixture.call("C_DecryptFinal", a, arguments)
            })
        }),
    ];
    for (kind, name) in [(CKK_GENERIC_SECRET, "generic"), (CKK_AES, "AES")] {
        let title = format!("RSA_PKCS, C_UnwrapKey of {name} keys reveals bad padding");
        all.push(attack(BARDOU, title, &[CKM_RSA_PKCS], move |a| {
            let (public, private) = a.rsa(&[CKA_ENCRYPT], &[CKA_UNWRAP], &[]).setup()?;
            let template = replaced(hidden_of(kind, 0, &[]), &[]);
            let template: Vec<_> = template.into_iter().filter(|one| one.kind != CKA_VALUE_LEN).collect();
            distinguishes(a, public, |ciphertext| {
                let key = a.unwrap_key(&mechanism(CKM_RSA_PKCS), private, ciphertext, &template)?;
                a.destroy_object(key)
            })
        }));
    }
    all.push(attack(
        BARDOU,
        "RSA_PKCS_OAEP, C_Decrypt distinguishes bad padding from bad data",
        &[CKM_RSA_PKCS_OAEP],
        |a| {
            // Manger 2001: the return code must not reveal whether the first byte of the block is
            // 0.
            let (public, private) = a.rsa(&[CKA_ENCRYPT], &[CKA_DECRYPT], &[]).setup()?;
            let good = a.encrypted(&oaep(), public, b"message").setup()?;
            let codes = |mut ciphertext: Vec<u8>, flip: usize| {
                ciphertext[flip] ^= 1;
                code(a.decrypted(&oaep(), private, &ciphertext).map(drop))
            };
            let all: BTreeSet<_> = (1..TRIES).map(|at| codes(good.clone(), at * 8)).collect();
            Ok(all.len() > 1)
        },
    ));
    for (kind, name) in [(CKK_GENERIC_SECRET, "generic"), (CKK_AES, "AES")] {
        let title = format!("AES_CBC_PAD, C_UnwrapKey of {name} keys reveals bad padding");
        all.push(attack(BARDOU, title, &[CKM_AES_CBC_PAD], move |a| finds_last_byte(a, kind)));
    }
    all.push(attack(
        BARDOU,
        "AES_CBC_PAD, C_UnwrapKey distinguishes bad padding from a bad key",
        &[CKM_AES_CBC_PAD],
        |a| {
            // The plaintext is an AES key of 32 bytes. A key of another length and a wrong padding
            // must give the same return code.
            let key = a.secret(CKK_AES, &[0x42; 32], Guarded::Kept, &[CKA_WRAP, CKA_UNWRAP], &[]).setup()?;
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let wrapped = a.wrapped(&cbc(CKM_AES_CBC_PAD), key, victim)?;
            let refused = refusals(a, key, CKK_AES, &wrapped);
            Ok(refused.len() > 1)
        },
    ));
    all.push(attack(
        CLULOW,
        "AES_KEY_WRAP_KWP, C_UnwrapKey distinguishes bad padding from a bad tag",
        &[CKM_AES_KEY_WRAP_KWP],
        |a| {
            let key = a.secret(CKK_AES, &[0x42; 32], Guarded::Kept, &[CKA_WRAP, CKA_UNWRAP], &[]).setup()?;
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let with = mechanism(CKM_AES_KEY_WRAP_KWP);
            let wrapped = a.wrapped(&with, key, victim)?;
            let codes = (0..wrapped.len()).map(|at| {
                let mut altered = wrapped.clone();
                altered[at] ^= 1;
                code(a.unwrap_key(&with, key, &altered, &hidden_template(CKK_AES)).map(drop))
            });
            let codes: BTreeSet<_> = codes.collect();
            Ok(codes.len() > 1 || codes.contains(&CKR_OK))
        },
    ));
    all.extend(raw());
    all
}

fn code(outcome: Result<(), Failure>) -> CK_RV {
    outcome.err().map_or(CKR_OK, |failure| failure.code)
}

/// Returns whether the return code of `ask` distinguishes random ciphertexts from encrypted
/// messages. The messages have many lengths, like the messages that an attacker intercepts.
fn distinguishes(
    a: &Attacker<'_>,
    public: ObjectHandle,
    ask: impl Fn(&[u8]) -> Result<(), Failure>,
) -> Attempt {
    let (mut good, mut bad) = (BTreeSet::new(), BTreeSet::new());
    for at in 0..TRIES {
        let message = vec![7; 1 + at * 10];
        let padded = a.encrypted(&mechanism(CKM_RSA_PKCS), public, &message).setup()?;
        good.insert(code(ask(&padded)));
        let mut block = padded;
        // The ciphertext must be smaller than the modulus.
        a.random(&mut block).setup()?;
        block[0] = 0;
        bad.insert(code(ask(&block)));
    }
    // A policy that disables the mechanism returns the same code for every ciphertext.
    let refused = good.len() == 1 && good == bad && !good.contains(&CKR_OK);
    Ok(!refused && (!bad.is_subset(&good) || !bad.contains(&CKR_OK) && good.contains(&CKR_OK)))
}

fn hidden_template(kind: CK_KEY_TYPE) -> Vec<Attribute> {
    hidden_of(kind, 0, &[]).into_iter().filter(|one| one.kind != CKA_VALUE_LEN).collect()
}

/// Gives the last byte before the last block each of its 255 other values. Returns the codes with
/// which the module refuses the altered ciphertexts.
fn refusals(a: &Attacker<'_>, key: ObjectHandle, kind: CK_KEY_TYPE, wrapped: &[u8]) -> BTreeSet<CK_RV> {
    let with = cbc(CKM_AES_CBC_PAD);
    let end = wrapped.len() - 17;
    let codes = (1..=u8::MAX).map(|flip| {
        let mut altered = wrapped.to_vec();
        altered[end] ^= flip;
        code(a.unwrap_key(&with, key, &altered, &hidden_template(kind)).map(drop))
    });
    codes.filter(|code| *code != CKR_OK).collect()
}

/// Vaudenay's attack: finds the last byte of a block, because the return code shows which padding
/// is valid. The key can only unwrap.
fn finds_last_byte(a: &Attacker<'_>, kind: CK_KEY_TYPE) -> Attempt {
    let with = cbc(CKM_AES_CBC_PAD);
    let wrapping = a.secret(CKK_AES, &[0x42; 32], Guarded::Kept, &[CKA_WRAP], &[]).setup()?;
    let key = a.secret(CKK_AES, &[0x42; 32], Guarded::Kept, &[CKA_UNWRAP], &[]).setup()?;
    let victim = a.victim(CKK_GENERIC_SECRET, Guarded::Wrappable, &[CKA_SIGN])?;
    let wrapped = a.wrapped(&with, wrapping, victim)?;
    // The first block of the victim follows a block of the attacker.
    let target = &wrapped[..16];
    let mut accepted = Vec::new();
    for guess in 0..=u8::MAX {
        let mut forged = vec![0; 32];
        forged.extend([0; 16]);
        forged[31..32].fill(guess);
        forged[32..].copy_from_slice(target);
        if a.unwrap_key(&with, key, &forged, &hidden_template(kind)).is_ok() {
            accepted.push(guess);
        }
    }
    // The initialisation vector is zero. So a guess that makes the padding byte 1 is the last byte
    // of the victim's first block ^ 1.
    Ok(accepted.iter().any(|guess| guess ^ 1 == VICTIM[15]) && accepted.len() < 64)
}

/// Returns an odd number of 2048 bits. The attacker uses it as a modulus without knowing a private
/// key.
pub fn odd_modulus() -> Vec<u8> {
    let mut modulus = vec![0xc3; 256];
    modulus[0] = 0xf1;
    modulus[255] = 0x0b;
    modulus
}

/// Creates a public key of the attacker with this exponent.
fn public_key(a: &Attacker<'_>, exponent: &[u8]) -> Result<ObjectHandle, Failure> {
    let template = [
        Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_RSA),
        flag(CKA_TOKEN, false),
        Attribute::bytes(CKA_MODULUS, odd_modulus()),
        Attribute::bytes(CKA_PUBLIC_EXPONENT, exponent),
        flag(CKA_WRAP, true),
        flag(CKA_ENCRYPT, true),
    ];
    a.create_object(&template)
}

/// Returns the product of two numbers, most significant byte first.
fn product(one: &[u8], two: &[u8]) -> Vec<u8> {
    let mut sum = vec![0u32; one.len() + two.len()];
    for (at, first) in one.iter().enumerate() {
        for (other, second) in two.iter().enumerate() {
            sum[at + other + 1] += u32::from(*first) * u32::from(*second);
        }
    }
    for at in (1..sum.len()).rev() {
        sum[at - 1] += sum[at] >> 8;
        sum[at] &= 0xff;
    }
    sum.into_iter().map(|digit| digit as u8).collect()
}

fn same_number(one: &[u8], two: &[u8]) -> bool {
    let digits = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<_>>();
    digits(one) == digits(two)
}

/// Attacks that wrap without padding, or with exponents that do not hide the key.
fn raw() -> Vec<Attack> {
    let mut all = Vec::new();
    for (guarded, what) in
        [(Guarded::Wrappable, "a key"), (Guarded::ForTrusted, "a key with CKA_WRAP_WITH_TRUSTED")]
    {
        for kind in [CKK_AES, CKK_GENERIC_SECRET] {
            let title = format!(
                "RSA_X_509 with the exponent 3 wraps {what} of type {kind:#x}: the key is the cube root"
            );
            all.push(attack(M5, title, &[CKM_RSA_X_509], move |a| {
                let victim =
                    a.victim(kind, guarded, if kind == CKK_AES { &[CKA_ENCRYPT] } else { &[CKA_SIGN] })?;
                let wrapped = a.wrapped(&mechanism(CKM_RSA_X_509), public_key(a, &[3])?, victim)?;
                Ok(same_number(&wrapped, &product(&product(&VICTIM, &VICTIM), &VICTIM)))
            }));
        }
    }
    for with in [CKM_RSA_X_509, CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP] {
        all.push(attack(
            CLULOW,
            format!("{} with the exponent 1 wraps a key", named(with)),
            &[with],
            move |a| {
                let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
                let wrapped = a.wrapped(&super::tools::wrapper(with), public_key(a, &[1])?, victim)?;
                // With the exponent 1, RSA_X_509 and RSA_PKCS do not encrypt the key. RSA_PKCS only
                // adds random padding.
                Ok(with == CKM_RSA_PKCS_OAEP || wrapped.ends_with(&VICTIM))
            },
        ));
    }
    all
}
