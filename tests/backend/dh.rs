//! Diffie-Hellman in a published group: agreement between the backends, powers that are known, and
//! primes of one backend that the other checks.

use std::sync::Arc;

use crate::support::*;

/// RFC 5114, 2.1: the group of 1024 bits.
const PRIME: &str = "b10b8f96a080e01dde92de5eae5d54ec52c99fbcfb06a3c69a6a9dca52d23b616073e28675a23d189838ef1e2ee652c013ec\
    b4aea906112324975c3cd49b83bfaccbdd7d90c4bd7098488e9c219a73724effd6fae5644738faa31a4ff55bccc0a151af5f\
    0dc8b4bd45bf37df365c1a65e68cfda76d4da708df1fb2bc2e4a4371";
const BASE: &str = "a4d1cbd5c3fd34126765a442efb99905f8104dd258ac507fd6406cff14266d31266fea1e5c41564b777e690f5504f2131602\
    17b4b01b886a5e91547f9e2749f4d7fbd7d3b9a92ee1909d0d2263f80a76a6a24c087a091f531dbf0a0169b6a28ad662a4d1\
    8e73afa32d779d5918d08bc8858f4dcef97c2a24855e6eeb22b3b2e5";

fn private(provider: &Provider, prime: &[u8], base: &[u8], value: &[u8]) -> Arc<dyn PrivateKey> {
    let parts = PrivateParts::Dh { prime: prime.to_vec(), base: base.to_vec(), value: Secret::from(value) };
    provider.keys.private(&parts).expect(provider.name)
}

fn power(provider: &Provider, prime: &[u8], base: &[u8], exponent: &[u8]) -> Vec<u8> {
    let key = private(provider, prime, base, exponent);
    value(key.public().expect("a public key"))
}

fn value(parts: PublicParts) -> Vec<u8> {
    let PublicParts::Dh { value, .. } = parts else { panic!("not Diffie-Hellman") };
    value
}

#[test]
fn key_pairs_of_both_backends_agree() {
    let (prime, base) = (hex(PRIME), hex(BASE));
    for (a, b) in pairs() {
        for private_bits in [None, Some(160), Some(1000)] {
            let spec = PairSpec::Dh { prime: &prime, base: &base, private_bits };
            let [(y, x), (peer_y, peer_x)] =
                [a, b].map(|provider| provider.keys.generate(&spec).expect("a pair"));
            // The other backend computes the same public value.
            assert!(b.keys.private(&x).expect("a key").public().expect("a value") == y);
            let one = a.keys.private(&x).expect("a key").agree(&value(peer_y)).expect("a secret");
            let two = b.keys.private(&peer_x).expect("a key").agree(&value(y)).expect("a secret");
            assert_eq!(one[..], two[..], "{} {}", a.name, b.name);
            assert_eq!(one.len(), 128);
        }
    }
}

#[test]
fn small_powers_have_the_expected_values() {
    let prime = hex(PRIME);
    for provider in Provider::ALL {
        assert_eq!(power(provider, &prime, &[2], &[10]), [4, 0]);
        assert_eq!(power(provider, &prime, &[3], &[5]), [243]);
        assert_eq!(power(provider, &prime, &[0xff], &[0, 1]), [0xff]);
        // A short secret is padded to the length of the prime.
        let key = private(provider, &prime, &[2], &[3]);
        let mut cube = [0; 128];
        cube[127] = 27;
        assert_eq!(key.agree(&[3]).expect("a secret")[..], cube);
    }
}

/// Fermat: modulo a prime n, 2 to the power of n - 2 is the inverse of 2, which is (n + 1) / 2. In
/// this way, each backend tests the primes of each backend, and the halves of the primes.
#[test]
fn safe_primes_are_prime_and_so_are_their_halves() {
    for (maker, judge) in pairs() {
        let prime = maker.keys.safe_prime(520).expect("a prime");
        assert_eq!((prime.len(), prime[0] >> 7, prime[64] & 3), (65, 1, 3));
        let half = halved(&prime);
        for number in [prime, half] {
            let mut less = number.clone();
            let mut borrow = 2;
            for byte in less.iter_mut().rev() {
                let under;
                (*byte, under) = byte.overflowing_sub(borrow);
                borrow = u8::from(under);
            }
            let mut inverse = halved(&number);
            for byte in inverse.iter_mut().rev() {
                let carry;
                (*byte, carry) = byte.overflowing_add(1);
                if !carry {
                    break;
                }
            }
            assert_eq!(power(judge, &number, &[2], &less), inverse, "{} {}", maker.name, judge.name);
        }
    }
}

/// Returns half of a number, rounded down, without leading zeros.
fn halved(number: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let half = number.iter().map(|byte| {
        let out = carry << 7 | byte >> 1;
        carry = byte & 1;
        out
    });
    half.skip_while(|byte| *byte == 0).collect()
}
