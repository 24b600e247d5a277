//! DSA: the signatures of RFC 6979, and other signatures and domain parameters of one backend that
//! the other checks. `tests/token/dsa.rs` has the numbers that are refused.

use std::sync::LazyLock;

use jeton_vectors::RFC_6979;
use serde_json::Value;

use crate::support::*;
use crate::vectors::hash;

/// The groups of RFC 6979, A.2.1 and A.2.2. Those with the same key differ in the hash.
static RFC: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let file: Value = serde_json::from_str(RFC_6979).expect("a JSON file");
    file["testGroups"].as_array().expect("groups").clone()
});

/// A key of RFC 6979.
struct Key {
    group: DsaGroup,
    public: Vec<u8>,
    private: Vec<u8>,
}

impl Key {
    fn new(group: &Value) -> Self {
        let [prime, subprime, base, public] =
            ["p", "q", "g", "y"].map(|part| field(&group["publicKey"], part));
        Self { group: DsaGroup { prime, subprime, base }, public, private: field(group, "x") }
    }

    fn public(&self) -> PublicParts {
        PublicParts::Dsa { group: self.group.clone(), value: self.public.clone() }
    }

    fn private(&self) -> PrivateParts {
        PrivateParts::Dsa { group: self.group.clone(), value: Secret::from(&self.private[..]) }
    }
}

fn field(object: &Value, name: &str) -> Vec<u8> {
    hex(object[name].as_str().expect("hexadecimal digits"))
}

/// `vectors.rs` verifies the published signatures.
#[test]
fn rustcrypto_reproduces_published_signatures() {
    for (provider, group) in
        Provider::ALL.iter().flat_map(|provider| RFC.iter().map(move |one| (provider, one)))
    {
        let key = Key::new(group);
        let computed = provider.keys.private(&key.private()).expect("a key").public();
        assert!(computed == Ok(key.public()), "{}", provider.name);
        for test in group["tests"].as_array().expect("tests") {
            let input = digest(provider, hash(group["sha"].as_str().expect("a hash")), &field(test, "msg"));
            let own = sign(provider, &key.private(), &Scheme::Dsa, &input).expect("a signature");
            // AWS-LC signs with a random nonce.
            assert_eq!(own == field(test, "sig"), provider.name == "rustcrypto", "{}", provider.name);
        }
    }
}

#[test]
fn each_backend_verifies_signatures_of_the_other() {
    for (from, to) in pairs() {
        for key in [&RFC[0], &RFC[5]].map(Key::new) {
            let spec = PairSpec::Dsa(key.group.clone());
            let (public, private) = from.keys.generate(&spec).expect("a pair");
            for len in [20, 28, 32, 48, 64] {
                let input = bytes(len);
                let signature = sign(from, &private, &Scheme::Dsa, &input).expect("a signature");
                assert_eq!(signature.len(), 2 * key.group.subprime.len());
                assert_eq!(verify(to, &public, &Scheme::Dsa, &input, &signature), Ok(()));
                let mut wrong = signature.clone();
                wrong[len % signature.len()] ^= 1;
                let refused = verify(to, &public, &Scheme::Dsa, &input, &wrong);
                assert_eq!(refused, Err(Error::SignatureInvalid), "{} {}", from.name, to.name);
            }
        }
    }
}

/// Larger primes take seconds: `JETON_DSA_GROUPS=1` generates them too.
#[test]
fn generated_domain_parameters_pass_the_check_of_the_other_backend() {
    let all = std::env::var_os("JETON_DSA_GROUPS").is_some();
    let sizes = [(1024, 160), (2048, 224), (2048, 256), (3072, 256)];
    for (maker, judge) in pairs().filter(|(maker, judge)| maker.name != judge.name) {
        for (prime, subprime) in sizes.into_iter().take(if all { sizes.len() } else { 1 }) {
            let made = maker.keys.dsa_group(prime, subprime).expect("domain parameters");
            assert_eq!((made.prime.len() * 8, made.subprime.len() * 8), (prime, subprime));
            assert!(made.prime[0] >> 7 == 1 && made.subprime[0] >> 7 == 1);
            assert_eq!(judge.keys.check_dsa_group(&made), Ok(()));
        }
        for (prime, subprime) in [(1024, 256), (2048, 160), (1536, 160), (512, 160), (4096, 256), (0, 0)] {
            assert_eq!(maker.keys.dsa_group(prime, subprime).err(), Some(Error::KeySizeRange));
        }
    }
}

/// Modulo q^4 the number 1 + q^3 has the order q. So a base of the right order exists, although q^4
/// is not prime.
#[test]
fn a_group_whose_prime_is_composite_is_refused() {
    let subprime = Key::new(&RFC[5]).group.subprime;
    let cube = times(&times(&subprime, &subprime), &subprime);
    let prime = times(&cube, &subprime);
    let mut base = cube;
    // The last byte is not 255, so there is no carry.
    *base.last_mut().expect("a digit") += 1;
    let group = DsaGroup { prime, subprime, base };
    for provider in Provider::ALL {
        let refused = provider.keys.check_dsa_group(&group);
        assert_eq!(refused, Err(Error::DomainParamsInvalid), "{}", provider.name);
        // `private` does not test whether the prime is prime: such a key harms only its owner.
        let parts = PrivateParts::Dsa { group: group.clone(), value: Secret::from(&[7][..]) };
        assert!(provider.keys.private(&parts).is_ok(), "{}", provider.name);
    }
}

fn times(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut out = vec![0u8; a.len() + b.len()];
    for (i, x) in a.iter().rev().enumerate() {
        let mut carry = 0u32;
        for (j, y) in b.iter().rev().chain([&0]).enumerate() {
            let Some(place) = out.len().checked_sub(1 + i + j) else { break };
            let sum = u32::from(out[place]) + u32::from(*x) * u32::from(*y) + carry;
            (out[place], carry) = (sum as u8, sum >> 8);
        }
    }
    let zeros = out.iter().take_while(|byte| **byte == 0).count();
    out.split_off(zeros)
}
