//! Tests that no branch and no address depends on a secret, with `crypto/taint`.

use std::hint::black_box;

use crate::extra_bits::{self, EXTRA};
use crate::library::Direction;
use crate::modes::{KeyWrap, Kw, Kwp};
use crate::padding;
use crate::slh_dsa::SETS;
use crate::taint::{public, secret};
use crate::testing::Xor;

fn is_good(choice: subtle::Choice) -> bool {
    let mut byte = [choice.unwrap_u8()];
    public(&mut byte);
    byte[0] == 1
}

#[test]
fn paddings_are_checked_without_a_branch() {
    for (last, expected) in [(4, true), (17, false)] {
        let mut plain = [4; 32];
        plain[31] = last;
        secret(&mut plain);
        let (good, len) = padding::pkcs7(&plain, 16);
        black_box(len);
        assert_eq!(is_good(good), expected);
    }
    let mut message = [0; 24];
    message[7] = 12;
    secret(&mut message);
    let (good, len) = padding::kwp(&message, &[0; 4]);
    black_box(len);
    assert!(is_good(good));
}

#[test]
fn a_scalar_is_computed_without_a_branch() {
    let mut random = [0xa5; 32 + EXTRA];
    secret(&mut random);
    black_box(extra_bits::scalar(&[0xfb; 32], &random));
}

#[test]
fn keys_are_wrapped_without_a_branch() {
    let mut key = [7; 32];
    secret(&mut key);
    let mut out = [0; 40];
    Kw::new(Xor(1), Direction::Encrypt, [0xa6; 8], false).process(&key, &mut out).expect("a key");
    Kwp::new(Xor(1), Direction::Encrypt, [0xa6, 0x59, 0x59, 0xa6]).process(&key, &mut out).expect("a key");
}

#[test]
fn slh_dsa_signs_without_a_branch_on_the_seeds() {
    for set in SETS.iter().filter(|set| set.name().ends_with("128f") || set.name() == "SHA2-192f") {
        let n = set.n();
        let mut key = set.expand(&vec![9; 3 * n]).expect("a key");
        let public_key = key[2 * n..].to_vec();
        secret(&mut key[..2 * n]);
        let mut signature = vec![0; set.signature_len()];
        set.sign(&key, &public_key[..n], &[b"message"], &mut signature).expect("a signature");
        public(&mut signature);
        set.verify(&public_key, &[b"message"], &signature).expect("the signature is right");
    }
}

/// `.ci/full taint` expects valgrind to find this branch.
#[test]
#[ignore = "valgrind has to find it"]
fn a_planted_branch_on_a_secret() {
    let mut byte = [3];
    secret(&mut byte);
    if black_box(byte[0]) > 2 {
        black_box(&byte);
    }
}
