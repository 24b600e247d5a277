//! Compares the backends with each other: each accepts the results of the others, and all refuse
//! wrong ones.

use std::sync::LazyLock;

use crate::support::*;

pub type Pair = (PublicParts, PrivateParts);

/// RSA key generation is slow, so all tests share one key pair of each backend.
static RSA: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let spec = PairSpec::Rsa { bits: RSA_BITS, public_exponent: &[1, 0, 1] };
    Provider::ALL.iter().map(|provider| provider.keys.generate(&spec).expect("an RSA key")).collect()
});

const RSA_BITS: usize = 2048;
pub const RSA_LEN: usize = RSA_BITS / 8;

/// Returns every ordered pair of backends, with an RSA key that the first of the two generated.
pub fn rsa_keys() -> impl Iterator<Item = (&'static Provider, &'static Provider, &'static Pair)> {
    pairs().map(|(from, to)| {
        let made = Provider::ALL.iter().position(|provider| provider.name == from.name).expect("one of all");
        (from, to, &RSA[made])
    })
}

/// `from` signs `inputs` with `key` and `to` verifies. Then `to` signs with the same key and `from`
/// verifies. Both refuse altered signatures and inputs.
fn exchange(from: &Provider, to: &Provider, key: &Pair, scheme: &Scheme, inputs: &[Vec<u8>]) {
    for (signing, verifying) in [(from, to), (to, from)] {
        let what = format!("{} to {}", signing.name, verifying.name);
        let mut signer = signing.keys.private(&key.1).unwrap().signer(scheme).unwrap();
        let mut verifier = verifying.keys.public(&key.0).unwrap().verifier(scheme).unwrap();
        let len = signer.signature_len();
        for input in inputs {
            // Only the beginning of a longer buffer is written.
            let mut signature = vec![0xa5; len + 3];
            signer.sign(input, &mut signature).unwrap();
            assert_eq!(signature.split_off(len), [0xa5; 3], "{what}: written past the end");
            assert_eq!(verifier.verify(input, &signature), Ok(()), "{what}: {} bytes", input.len());
            refuses_spoilt(&what, &mut *verifier, input, &signature);
            assert_eq!(verifier.verify(input, &signature), Ok(()), "{what}: again after refusals");
        }
    }
}

fn refuses_spoilt(what: &str, verifier: &mut dyn Verifier, input: &[u8], signature: &[u8]) {
    for at in [0, signature.len() / 2, signature.len() - 1] {
        let mut spoilt = signature.to_vec();
        spoilt[at] ^= 1;
        assert_eq!(verifier.verify(input, &spoilt), Err(Error::SignatureInvalid), "{what}: byte {at}");
    }
    // Alters the first byte: ECDSA does not read the last bytes of a long input.
    if let Some((first, rest)) = input.split_first() {
        let other = [&[first ^ 4], rest].concat();
        assert_eq!(verifier.verify(&other, signature), Err(Error::SignatureInvalid), "{what}: another input");
    }
    let longer = [signature, &[0, 0]].concat();
    for wrong in [&[], &signature[..signature.len() - 1], &longer[..signature.len() + 1], &longer] {
        let outcome = verifier.verify(input, wrong);
        assert_eq!(outcome, Err(Error::SignatureLenRange), "{what}: {} bytes", wrong.len());
    }
}

pub fn public_half_is_computed(from: &Provider, to: &Provider, (public, private): &Pair) {
    assert!(to.keys.private(private).unwrap().public().unwrap() == *public, "{} to {}", from.name, to.name);
}

/// Expects that signing `input` fails with `error`. If it is `DataLenRange`, verification must fail
/// with it too.
fn refuses_input(from: &Provider, to: &Provider, key: &Pair, scheme: &Scheme, input: &[u8], error: Error) {
    let what = format!("{} to {}: {} bytes", from.name, to.name, input.len());
    assert_eq!(sign(to, &key.1, scheme, input), Err(error), "{what}");
    if error == Error::DataLenRange {
        let signature = vec![1; to.keys.private(&key.1).unwrap().signer(scheme).unwrap().signature_len()];
        assert_eq!(verify(to, &key.0, scheme, input, &signature), Err(error), "{what}");
    }
}

#[test]
fn raw_rsa_signatures_verify_in_each_backend() {
    for (from, to, key) in rsa_keys() {
        public_half_is_computed(from, to, key);
        // One bit shorter than the modulus, and shorter inputs.
        let mut below = bytes(RSA_LEN);
        below[0] = 0x7f;
        let PublicParts::Rsa { n, .. } = &key.0 else { panic!("not an RSA key") };
        // The modulus is odd.
        let mut last = n.clone();
        last[RSA_LEN - 1] -= 1;
        let inputs = [below, last, bytes(RSA_LEN - 1), bytes(20), vec![2], vec![1], vec![0]];
        exchange(from, to, key, &Scheme::RsaRaw, &inputs);
        refuses_input(from, to, key, &Scheme::RsaRaw, &vec![0; RSA_LEN + 1], Error::DataLenRange);
        refuses_input(from, to, key, &Scheme::RsaRaw, &[0xff; RSA_LEN], Error::DataInvalid);
        refuses_input(from, to, key, &Scheme::RsaRaw, n, Error::DataInvalid);
        assert_eq!(sign(to, &key.1, &Scheme::RsaRaw, &[2; 5]), sign(from, &key.1, &Scheme::RsaRaw, &[2; 5]));
    }
}

#[test]
fn pkcs1_signatures_verify_in_each_backend() {
    for (from, to, key) in rsa_keys() {
        let padding_only = Scheme::RsaPkcs1 { hash: None };
        exchange(from, to, key, &padding_only, &[vec![], bytes(36), bytes(RSA_LEN - 11)]);
        refuses_input(from, to, key, &padding_only, &bytes(RSA_LEN - 10), Error::DataLenRange);
        for hash in HASHES {
            let scheme = Scheme::RsaPkcs1 { hash: Some(hash) };
            exchange(from, to, key, &scheme, &[bytes(hash.len())]);
            for wrong in [0, hash.len() - 1, hash.len() + 1] {
                refuses_input(from, to, key, &scheme, &bytes(wrong), Error::DataLenRange);
            }
            // The scheme is deterministic: both backends give the same signature.
            let input = bytes(hash.len());
            assert_eq!(sign(from, &key.1, &scheme, &input), sign(to, &key.1, &scheme, &input), "{hash:?}");
        }
        // RFC 8017, 9.2, note 1: the DigestInfo of SHA-256. The three ways give the same signature.
        let info = [hex("3031300d060960864801650304020105000420"), bytes(32)].concat();
        let padded = [&[0, 1][..], &vec![0xff; RSA_LEN - 3 - info.len()], &[0], &info].concat();
        let signature = sign(from, &key.1, &Scheme::RsaPkcs1 { hash: Some(Hash::Sha256) }, &bytes(32));
        assert_eq!(sign(to, &key.1, &padding_only, &info), signature);
        assert_eq!(sign(to, &key.1, &Scheme::RsaRaw, &padded[1..]), signature);
        // DigestInfo has no identifiers for BLAKE2b.
        for hash in Hash::BLAKE2B {
            let scheme = Scheme::RsaPkcs1 { hash: Some(hash) };
            refuses_input(from, to, key, &scheme, &bytes(hash.len()), Error::MechanismParamInvalid);
        }
    }
}

#[test]
fn pss_signatures_verify_in_each_backend() {
    for (from, to, key) in rsa_keys() {
        for hash in HASHES {
            for mgf in HASHES {
                for salt_len in [0, hash.len(), RSA_LEN - hash.len() - 2] {
                    let scheme = Scheme::RsaPss { hash, mgf, salt_len };
                    exchange(from, to, key, &scheme, &[bytes(hash.len())]);
                }
            }
            let scheme = Scheme::RsaPss { hash, mgf: hash, salt_len: hash.len() };
            refuses_input(from, to, key, &scheme, &bytes(hash.len() - 1), Error::DataLenRange);
            refuses_input(from, to, key, &scheme, &bytes(hash.len() + 1), Error::DataLenRange);
            let [one, other] = [to, to].map(|by| sign(by, &key.1, &scheme, &bytes(hash.len())).unwrap());
            assert!(one != other, "{}: no salt", to.name);
        }
    }
}

/// How two signatures of the same message with the same key relate.
#[derive(Clone, Copy)]
enum Repeats {
    Always,
    Never,
    Maybe,
}

/// Each backend generates a key pair. All of them compute its public key, and verify signatures of
/// each other.
fn signs(spec: &PairSpec<'_>, schemes: &[(Scheme, Repeats)], inputs: &[Vec<u8>]) {
    for (from, to) in pairs() {
        let key = from.keys.generate(spec).unwrap();
        public_half_is_computed(from, to, &key);
        for (scheme, repeats) in schemes {
            exchange(from, to, &key, scheme, inputs);
            let [one, other] = [from, to].map(|by| sign(by, &key.1, scheme, &inputs[0]).unwrap());
            match repeats {
                Repeats::Always => assert!(one == other, "{} and {} differ", from.name, to.name),
                Repeats::Never => assert!(one != other, "{}: no randomness", to.name),
                Repeats::Maybe => (),
            }
        }
    }
}

#[test]
fn ecdsa_signatures_verify_in_each_backend() {
    // The lengths of digests, and some lengths near those of the curves' orders.
    let inputs = [1, 20, 28, 32, 48, 64, 65, 66, 67, 100].map(bytes);
    for curve in Curve::ALL {
        signs(&PairSpec::Ec(curve), &[(Scheme::Ecdsa, Repeats::Maybe)], &inputs);
    }
}

#[test]
fn edwards_signatures_verify_in_each_backend() {
    let messages = [vec![], bytes(1), bytes(1000)];
    signs(
        &PairSpec::Ed25519,
        &[(Scheme::Ed25519, Repeats::Always)],
        &[&messages[..], &[bytes(10_000)]].concat(),
    );
    for (prehash, inputs) in [(false, &messages[..]), (true, &[bytes(64)])] {
        let contexts = [vec![], vec![7], bytes(255)];
        let ed448 = |context: &Vec<u8>| Scheme::Ed448 { prehash, context: context[..].into() };
        signs(&PairSpec::Ed448, &contexts.each_ref().map(|one| (ed448(one), Repeats::Always)), inputs);
        let ed25519 = |context: &Vec<u8>| Scheme::Ed25519Context { prehash, context: context[..].into() };
        signs(&PairSpec::Ed25519, &contexts.each_ref().map(|one| (ed25519(one), Repeats::Always)), inputs);
    }
}

#[test]
fn ml_dsa_signatures_verify_in_each_backend() {
    let rows = |hash, context: Vec<u8>| {
        [(true, Repeats::Always), (false, Repeats::Never)].map(|(deterministic, repeats)| {
            (Scheme::MlDsa { hash, context: context.clone().into(), deterministic }, repeats)
        })
    };
    for set in MlDsa::ALL {
        let spec = PairSpec::MlDsa { set, seed: None };
        let schemes = [rows(None, vec![]), rows(None, bytes(MlDsa::MAX_CONTEXT))].concat();
        signs(&spec, &schemes, &[vec![], bytes(1000)]);
        let of_mu = [(true, Repeats::Always), (false, Repeats::Never)]
            .map(|(deterministic, repeats)| (Scheme::MlDsaMu { deterministic }, repeats));
        signs(&spec, &of_mu, &[bytes(64)]);
    }
    for (set, hash) in [
        (MlDsa::MlDsa44, Hash::Sha256),
        (MlDsa::MlDsa44, Hash::Shake128),
        (MlDsa::MlDsa65, Hash::Sha3_384),
        (MlDsa::MlDsa87, Hash::Shake256),
    ] {
        let spec = PairSpec::MlDsa { set, seed: None };
        signs(&spec, &rows(Some(hash), b"context".to_vec()), &[bytes(hash.len())]);
    }
}

/// The halves may be shorter than the order, but must have the same length. The top byte of a P-521
/// number has one bit. In a quarter of all signatures it is zero in both numbers.
#[test]
fn ecdsa_accepts_shorter_halves() {
    for (from, to) in pairs() {
        let (public, private) = from.keys.generate(&PairSpec::Ec(Curve::P521)).unwrap();
        let short = (0..200).find_map(|_| {
            let signature = sign(from, &private, &Scheme::Ecdsa, &bytes(32)).unwrap();
            let (r, s) = signature.split_at(66);
            (r[0] == 0 && s[0] == 0).then(|| [&r[1..], &s[1..]].concat())
        });
        let outcome = verify(to, &public, &Scheme::Ecdsa, &bytes(32), &short.expect("short halves"));
        assert_eq!(outcome, Ok(()), "{}", to.name);
    }
}
