//! Findings M4 and M5 of docs/findings.md: return codes that reveal the contents of a ciphertext
//! (Bleichenbacher 1998; Vaudenay 2002; Bardou et al. 2012, "Efficient padding oracle attacks on
//! cryptographic hardware"), and RSA without padding (Clulow 2003).

use std::collections::BTreeSet;

use cryptoki_sys::*;

use super::keys::Guarded::{ForTrusted, Wrappable};
use super::keys::{
    Handle, Handles, Template, VICTIM, aes, hidden, kind_name, public_rsa, rsa, usual, wrapping,
};
use super::tools::{KWP, OAEP, RAW, named};
use super::{Attacker, CLULOW, Setup, Stop, Table, Tried};

const BARDOU: &str = "Bardou et al. 2012";
const M5: &str = "Review, M5";
/// The largest number of RSA ciphertexts of one kind (valid, random or altered) in an attack.
const TRIES: usize = 24;
const CBC_PAD: CK_MECHANISM_TYPE = CKM_AES_CBC_PAD;

pub fn attacks(t: &Table) {
    let kinds = [CKK_GENERIC_SECRET, CKK_AES];
    let decrypting = || rsa(&[CKA_ENCRYPT], &[CKA_DECRYPT]);
    let pkcs = |what: &str, pair| {
        let name = format!("RSA_PKCS, {what} reveals bad padding");
        t.row(BARDOU, name, &[CKM_RSA_PKCS], pair)
    };
    pkcs("C_Decrypt", decrypting()).holds(|a, (public, private)| {
        a.distinguishes(public, |ciphertext| a.decrypted(CKM_RSA_PKCS, private, ciphertext).map(drop))
    });
    pkcs("C_DecryptUpdate", decrypting()).holds(|a, (public, private)| {
        a.distinguishes(public, |ciphertext| {
            a.init("C_DecryptInit", CKM_RSA_PKCS, private)?;
            a.transform("C_DecryptUpdate", ciphertext)?;
            a.output("C_DecryptFinal", vec![]).map(drop)
        })
    });
    for kind in kinds {
        let what = format!("C_UnwrapKey of {} keys", kind_name(kind));
        pkcs(&what, rsa(&[CKA_ENCRYPT], &[CKA_UNWRAP])).holds(move |a, (public, private)| {
            a.distinguishes(public, |ciphertext| {
                let key = a.unwrapped(CKM_RSA_PKCS, private, ciphertext, hidden(kind))?;
                Ok(a.destroy_object(key)?)
            })
        });
    }
    let name = "RSA_PKCS_OAEP, C_Decrypt distinguishes bad padding from bad data";
    t.row(BARDOU, name, &[OAEP], decrypting()).holds(|a, (public, private)| {
        // Manger 2001: the return code must not reveal whether the first byte of the block is 0.
        let good = a.encrypted(OAEP, public, b"message").setup()?;
        let altered = (1..TRIES).map(|at| flipped(&good, at * 8, 1));
        Ok(codes(altered, |bytes| a.decrypted(OAEP, private, bytes)).len() > 1)
    });
    for kind in kinds {
        let name = format!("AES_CBC_PAD, C_UnwrapKey of {} keys reveals bad padding", kind_name(kind));
        let keys = (wrapping(&[CKA_WRAP]), wrapping(&[CKA_UNWRAP]));
        t.row(BARDOU, name, &[CBC_PAD], (keys, usual(CKK_GENERIC_SECRET, Wrappable)))
            .holds(move |a, (keys, victim)| a.finds_last_byte(kind, keys, victim));
    }
    let both = || (wrapping(&[CKA_WRAP, CKA_UNWRAP]), aes(Wrappable));
    let name = "AES_CBC_PAD, C_UnwrapKey distinguishes bad padding from a bad key";
    t.row(BARDOU, name, &[CBC_PAD], both()).holds(|a, (key, victim)| {
        // The plaintext is an AES key of 32 bytes. A key of another length and a wrong padding must
        // give the same return code. The last byte before the last block gets each of its 255 other
        // values.
        let wrapped = a.wrapped(CBC_PAD, key, victim)?;
        let altered = (1..=u8::MAX).map(|flip| flipped(&wrapped, wrapped.len() - 17, flip));
        let mut codes = codes(altered, |bytes| a.unwrapped(CBC_PAD, key, bytes, hidden(CKK_AES)));
        codes.remove(&CKR_OK);
        Ok(codes.len() > 1)
    });
    let name = "AES_KEY_WRAP_KWP, C_UnwrapKey distinguishes bad padding from a bad tag";
    t.row(CLULOW, name, &[KWP], both()).holds(|a, (key, victim)| {
        let wrapped = a.wrapped(KWP, key, victim)?;
        let altered = (0..wrapped.len()).map(|at| flipped(&wrapped, at, 1));
        let codes = codes(altered, |bytes| a.unwrapped(KWP, key, bytes, hidden(CKK_AES)));
        Ok(codes.len() > 1 || codes.contains(&CKR_OK))
    });
    raw(t);
}

/// Returns the bytes with some bits of one of them changed.
pub fn flipped(bytes: &[u8], at: usize, flip: u8) -> Vec<u8> {
    let mut altered = bytes.to_vec();
    altered[at] ^= flip;
    altered
}

fn code<T>(outcome: Tried<T>) -> CK_RV {
    match outcome {
        Ok(_) => CKR_OK,
        Err(Stop::Setup(failure) | Stop::Refused(failure)) => failure.code,
    }
}

fn codes<T>(all: impl Iterator<Item = Vec<u8>>, ask: impl Fn(&[u8]) -> Tried<T>) -> BTreeSet<CK_RV> {
    all.map(|bytes| code(ask(&bytes))).collect()
}

impl Attacker<'_> {
    /// Returns whether the return code of `ask` distinguishes random ciphertexts from encrypted
    /// messages. The messages have many lengths, like the messages that an attacker intercepts.
    fn distinguishes(&self, public: Handle, ask: impl Fn(&[u8]) -> Tried<()>) -> Tried<bool> {
        let (mut good, mut bad) = (BTreeSet::new(), BTreeSet::new());
        for at in 0..TRIES {
            let mut block = self.encrypted(CKM_RSA_PKCS, public, &vec![7; 1 + at * 10]).setup()?;
            good.insert(code(ask(&block)));
            // The ciphertext must be smaller than the modulus.
            self.random(&mut block).setup()?;
            block[0] = 0;
            bad.insert(code(ask(&block)));
        }
        // A policy that disables the mechanism returns the same code for every ciphertext.
        let refused = good.len() == 1 && good == bad && !good.contains(&CKR_OK);
        Ok(!refused && (!bad.is_subset(&good) || !bad.contains(&CKR_OK) && good.contains(&CKR_OK)))
    }

    /// Vaudenay's attack: finds the last byte of a block, because the return code shows which
    /// padding is valid. The key `unwraps` can only unwrap.
    fn finds_last_byte(&self, kind: CK_KEY_TYPE, (wraps, unwraps): Handles, victim: Handle) -> Tried<bool> {
        let wrapped = self.wrapped(CBC_PAD, wraps, victim)?;
        let accepted = |guess: &u8| {
            // The first block of the victim follows a block of the attacker.
            let forged = [&[0; 31], &[*guess][..], &wrapped[..16]].concat();
            self.unwrapped(CBC_PAD, unwraps, &forged, hidden(kind)).is_ok()
        };
        let accepted: Vec<_> = (0..=u8::MAX).filter(accepted).collect();
        // The initialisation vector is zero. So a guess that makes the padding byte 1 is the last
        // byte of the victim's first block ^ 1.
        Ok(accepted.iter().any(|guess| guess ^ 1 == VICTIM[15]) && accepted.len() < 64)
    }
}

/// Returns an odd number of 2048 bits. The attacker uses it as a modulus without knowing a private
/// key.
pub fn odd_modulus() -> Vec<u8> {
    let mut modulus = vec![0xc3; 256];
    modulus[0] = 0xf1;
    modulus[255] = 0x0b;
    modulus
}

fn public_key(exponent: &[u8]) -> Template {
    public_rsa(odd_modulus(), exponent).able(&[CKA_ENCRYPT])
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
fn raw(t: &Table) {
    for (guarded, what) in [(Wrappable, "a key"), (ForTrusted, "a key with CKA_WRAP_WITH_TRUSTED")] {
        for kind in [CKK_AES, CKK_GENERIC_SECRET] {
            let what = format!("{what} of type {kind:#x}: the key is the cube root");
            let name = format!("RSA_X_509 with the exponent 3 wraps {what}");
            t.row(M5, name, &[RAW], usual(kind, guarded)).holds(|a, victim| {
                let wrapped = a.wrapped(RAW, a.import(public_key(&[3]))?, victim)?;
                Ok(same_number(&wrapped, &product(&product(&VICTIM, &VICTIM), &VICTIM)))
            });
        }
    }
    for with in [RAW, CKM_RSA_PKCS, OAEP] {
        let name = format!("{} with the exponent 1 wraps a key", named(with));
        t.row(CLULOW, name, &[with], aes(Wrappable)).holds(move |a, victim| {
            let wrapped = a.wrapped(with, a.import(public_key(&[1]))?, victim)?;
            // With the exponent 1, RSA_X_509 and RSA_PKCS do not encrypt the key. RSA_PKCS only
            // adds random padding.
            Ok(with == OAEP || wrapped.ends_with(&VICTIM))
        });
    }
}
