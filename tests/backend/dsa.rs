//! DSA: the signatures of RFC 6979, signatures and domain parameters of one backend that the other
//! checks, and invalid numbers.

use jeton::backend::{DsaGroup, Hash, PairSpec, PrivateParts, Provider, PublicParts, Scheme};
use jeton::error::Error;
use jeton::secret::Secret;
use jeton_vectors::hex;

use crate::support::{bytes, digest, pairs, sign, verify};

/// RFC 6979, A.2.1 and A.2.2: the prime, the subprime, the base, the private and the public value.
const KEYS: [[&str; 5]; 2] = [
    [
        "86f5ca03dcfeb225063ff830a0c769b9dd9d6153ad91d7ce27f787c43278b447e6533b86b18bed6e\
        8a48b784a14c252c5be0dbf60b86d6385bd2f12fb763ed8873abfd3f5ba2e0a8c0a59082eac056935e529daf7c61\
        0467899c77adedfc846c881870b7b19b2b58f9be0521a17002e3bdd6b86685ee90b3d9a1b02b782b1779",
        "996f967f6c8e388d9e28d01e205fba957a5698b1",
        "07b0f92546150b62514bb771e2a0c0ce387f03bda6c56b505209ff25fd3c133d89bbcd97e904e091\
        14d9a7defdeadfc9078ea544d2e401aeecc40bb9fbbf78fd87995a10a1c27cb7789b594ba7efb5c4326a9fe59a07\
        0e136db77175464adca417be5dce2f40d10a46a3a3943f26ab7fd9c0398ff8c76ee0a56826a8a88f1dbd",
        "411602cb19a6ccc34494d79d98ef1e7ed5af25f7",
        "5df5e01ded31d0297e274e1691c192fe5868fef9e19a84776454b100cf16f65392195a38b90523e2\
        542ee61871c0440cb87c322fc4b4d2ec5e1e7ec766e1be8d4ce935437dc11c3c8fd426338933ebfe739cb3465f4d\
        3668c5e473508253b1e682f65cbdc4fae93c2ea212390e54905a86e2223170b44eaa7da5dd9ffcfb7f3b",
    ],
    [
        "9db6fb5951b66bb6fe1e140f1d2ce5502374161fd6538df1648218642f0b5c48c8f7a41aadfa1873\
        24b87674fa1822b00f1ecf8136943d7c55757264e5a1a44ffe012e9936e00c1d3e9310b01c7d179805d3058b2a9f\
        4bb6f9716bfe6117c6b5b3cc4d9be341104ad4a80ad6c94e005f4b993e14f091eb51743bf33050c38de235567e1b\
        34c3d6a5c0ceaa1a0f368213c3d19843d0b4b09dcb9fc72d39c8de41f1bf14d4bb4563ca28371621cad3324b6a2d\
        392145bebfac748805236f5ca2fe92b871cd8f9c36d3292b5509ca8caa77a2adfc7bfd77dda6f71125a7456fea15\
        3e433256a2261c6a06ed3693797e7995fad5aabbcfbe3eda2741e375404ae25b",
        "f2c3119374ce76c9356990b465374a17f23f9ed35089bd969f61c6dde9998c1f",
        "5c7ff6b06f8f143fe8288433493e4769c4d988ace5be25a0e24809670716c613d7b0cee6932f8faa\
        7c44d2cb24523da53fbe4f6ec3595892d1aa58c4328a06c46a15662e7eaa703a1decf8bbb2d05dbe2eb956c142a3\
        38661d10461c0d135472085057f3494309ffa73c611f78b32adbb5740c361c9f35be90997db2014e2ef5aa61782f\
        52abeb8bd6432c4dd097bc5423b285dafb60dc364e8161f4a2a35aca3a10b1c4d203cc76a470a33afdcbdd929598\
        59abd8b56e1725252d78eac66e71ba9ae3f1dd2487199874393cd4d832186800654760e1e34c09e4d155179f9ec0\
        dc4473f996bdce6eed1cabed8b6f116f7ad9cf505df0f998e34ab27514b0ffe7",
        "69c7548c21d0dfea6b9a51c9ead4e27c33d3b3f180316e5bcab92c933f0e4dbc",
        "667098c654426c78d7f8201eac6c203ef030d43605032c2f1fa937e5237dbd949f34a0a2564fe126\
        dc8b715c5141802ce0979c8246463c40e6b6bdaa2513fa611728716c2e4fd53bc95b89e69949d96512e873b9c8f8\
        dfd499cc312882561adecb31f658e934c0c197f2c4d96b05cbad67381e7b768891e4da3843d24d94cdfb5126e9b8\
        bf21e8358ee0e0a30ef13fd6a664c0dce3731f7fb49a4845a4fd8254687972a2d382599c9bac4e0ed79981930789\
        13032558134976410b89d2c171d123ac35fd977219597aa7d15c1a9a428e59194f75c721ebcbcfae44696a499afa\
        74e04299f132026601638cb87ab79190d4a0986315da8eec6561c938996beadf",
    ],
];

/// RFC 6979, A.2.1 and A.2.2: the number of the key, the hash, the message, r and s.
const SIGNATURES: [(usize, Hash, &str, &str, &str); 20] = [
    (
        0,
        Hash::Sha1,
        "sample",
        "2e1a0c2562b2912caaf89186fb0f42001585da55",
        "29efb6b0aff2d7a68eb70ca313022253b9a88df5",
    ),
    (
        0,
        Hash::Sha1,
        "test",
        "42ab2052fd43e123f0607f115052a67dcd9c5c77",
        "183916b0230d45b9931491d4c6b0bd2fb4aaf088",
    ),
    (
        0,
        Hash::Sha224,
        "sample",
        "4bc3b686aea70145856814a6f1bb53346f02101e",
        "410697b92295d994d21edd2f4ada85566f6f94c1",
    ),
    (
        0,
        Hash::Sha224,
        "test",
        "6868e9964e36c1689f6037f91f28d5f2c30610f2",
        "49cec3acdc83018c5bd2674ecaad35b8cd22940f",
    ),
    (
        0,
        Hash::Sha256,
        "sample",
        "81f2f5850be5bc123c43f71a3033e9384611c545",
        "4cdd914b65eb6c66a8aaad27299bee6b035f5e89",
    ),
    (
        0,
        Hash::Sha256,
        "test",
        "22518c127299b0f6fdc9872b282b9e70d0790812",
        "6837ec18f150d55de95b5e29be7af5d01e4fe160",
    ),
    (
        0,
        Hash::Sha384,
        "sample",
        "07f2108557ee0e3921bc1774f1ca9b410b4ce65a",
        "54df70456c86fac10fab47c1949ab83f2c6f7595",
    ),
    (
        0,
        Hash::Sha384,
        "test",
        "854cf929b58d73c3cbfdc421e8d5430cd6db5e66",
        "91d0e0f53e22f898d158380676a871a157cda622",
    ),
    (
        0,
        Hash::Sha512,
        "sample",
        "16c3491f9b8c3fbbdd5e7a7b667057f0d8ee8e1b",
        "02c36a127a7b89edbb72e4ffbc71dabc7d4fc69c",
    ),
    (
        0,
        Hash::Sha512,
        "test",
        "8ea47e475ba8ac6f2d821da3bd212d11a3deb9a0",
        "7c670c7ad72b6c050c109e1790008097125433e8",
    ),
    (
        1,
        Hash::Sha1,
        "sample",
        "3a1b2dbd7489d6ed7e608fd036c83af396e290dbd602408e8677daabd6e7445a",
        "d26fcba19fa3e3058ffc02ca1596cdbb6e0d20cb37b06054f7e36ded0cdbbccf",
    ),
    (
        1,
        Hash::Sha1,
        "test",
        "c18270a93cfc6063f57a4dfa86024f700d980e4cf4e2cb65a504397273d98ea0",
        "414f22e5f31a8b6d33295c7539c1c1ba3a6160d7d68d50ac0d3a5beac2884faa",
    ),
    (
        1,
        Hash::Sha224,
        "sample",
        "dc9f4deada8d8ff588e98fed0ab690ffce858dc8c79376450eb6b76c24537e2c",
        "a65a9c3bc7babe286b195d5da68616da8d47fa0097f36dd19f517327dc848cec",
    ),
    (
        1,
        Hash::Sha224,
        "test",
        "272aba31572f6cc55e30bf616b7a265312018dd325be031be0cc82aa17870ea3",
        "e9cc286a52cce201586722d36d1e917eb96a4ebdb47932f9576ac645b3a60806",
    ),
    (
        1,
        Hash::Sha256,
        "sample",
        "eace8bdbbe353c432a795d9ec556c6d021f7a03f42c36e9bc87e4ac7932cc809",
        "7081e175455f9247b812b74583e9e94f9ea79bd640dc962533b0680793a38d53",
    ),
    (
        1,
        Hash::Sha256,
        "test",
        "8190012a1969f9957d56fccaad223186f423398d58ef5b3cefd5a4146a4476f0",
        "7452a53f7075d417b4b013b278d1bb8bbd21863f5e7b1cee679cf2188e1ab19e",
    ),
    (
        1,
        Hash::Sha384,
        "sample",
        "b2da945e91858834fd9bf616ebac151edbc4b45d27d0dd4a7f6a22739f45c00b",
        "19048b63d9fd6bca1d9bae3664e1bcb97f7276c306130969f63f38fa8319021b",
    ),
    (
        1,
        Hash::Sha384,
        "test",
        "239e66ddbe8f8c230a3d071d601b6ffbdfb5901f94d444c6af56f732beb954be",
        "6bd737513d5e72fe85d1c750e0f73921fe299b945aad1c802f15c26a43d34961",
    ),
    (
        1,
        Hash::Sha512,
        "sample",
        "2016ed092dc5fb669b8efb3d1f31a91eecb199879be0cf78f02ba062cb4c942e",
        "d0c76f84b5f091e141572a639a4fb8c230807eea7d55c8a154a224400aff2351",
    ),
    (
        1,
        Hash::Sha512,
        "test",
        "89ec4bb1400eccff8e7d9aa515cd1de7803f2daff09693ee7fd1353e90a68307",
        "c9f0bdabcc0d880bb137a994cc7f3980ce91cc10faf529fc46565b15cea854e1",
    ),
];

fn group(key: &[&str; 5]) -> DsaGroup {
    DsaGroup { prime: hex(key[0]), subprime: hex(key[1]), base: hex(key[2]) }
}

fn public(key: &[&str; 5]) -> PublicParts {
    PublicParts::Dsa { group: group(key), value: hex(key[4]) }
}

fn private(key: &[&str; 5]) -> PrivateParts {
    PrivateParts::Dsa { group: group(key), value: Secret::from(&hex(key[3])[..]) }
}

#[test]
fn published_signatures_verify_and_rustcrypto_reproduces_them() {
    for provider in Provider::ALL {
        for (number, hash, message, r, s) in SIGNATURES {
            let (key, input) = (&KEYS[number], digest(provider, hash, message.as_bytes()));
            let published = [hex(r), hex(s)].concat();
            assert_eq!(verify(provider, &public(key), &Scheme::Dsa, &input, &published), Ok(()));
            let own = sign(provider, &private(key), &Scheme::Dsa, &input).expect("a signature");
            // AWS-LC signs with a random nonce.
            assert_eq!(own == published, provider.name == "rustcrypto", "{}", provider.name);
            let parts = provider.keys.private(&private(key)).expect("a key").public().expect("a public key");
            assert!(parts == public(key));
        }
    }
}

#[test]
fn each_backend_verifies_signatures_of_the_other() {
    for (from, to) in pairs() {
        for key in &KEYS {
            let (public, private) = from.keys.generate(&PairSpec::Dsa(group(key))).expect("a pair");
            for len in [20, 28, 32, 48, 64] {
                let input = bytes(len);
                let signature = sign(from, &private, &Scheme::Dsa, &input).expect("a signature");
                assert_eq!(signature.len(), key[1].len());
                assert_eq!(verify(to, &public, &Scheme::Dsa, &input, &signature), Ok(()));
                let mut wrong = signature.clone();
                wrong[len % signature.len()] ^= 1;
                let refused = verify(to, &public, &Scheme::Dsa, &input, &wrong);
                assert_eq!(refused, Err(Error::SignatureInvalid), "{} {}", from.name, to.name);
            }
        }
    }
}

#[test]
fn digests_and_signatures_of_wrong_lengths_are_refused() {
    for provider in Provider::ALL {
        let key = &KEYS[0];
        for len in [0, 1, 19, 21, 33, 65, 128] {
            let refused = sign(provider, &private(key), &Scheme::Dsa, &bytes(len));
            assert_eq!(refused, Err(Error::DataLenRange));
            let refused = verify(provider, &public(key), &Scheme::Dsa, &bytes(len), &[1; 40]);
            assert_eq!(refused, Err(Error::DataLenRange));
        }
        for len in [0, 1, 38, 39, 41, 42, 64] {
            let refused = verify(provider, &public(key), &Scheme::Dsa, &bytes(20), &vec![1; len]);
            assert_eq!(refused, Err(Error::SignatureLenRange));
        }
        let subprime = hex(key[1]);
        let one = [vec![0; 19], vec![1]].concat();
        for half in [&[0; 20][..], &subprime, &[0xff; 20]] {
            for signature in [[half, &one].concat(), [&one, half].concat()] {
                let refused = verify(provider, &public(key), &Scheme::Dsa, &bytes(20), &signature);
                assert_eq!(refused, Err(Error::SignatureInvalid));
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
            let started = std::time::Instant::now();
            let made = maker.keys.dsa_group(prime, subprime).expect("domain parameters");
            println!("{}: {prime}/{subprime} in {:?}", maker.name, started.elapsed());
            assert_eq!((made.prime.len() * 8, made.subprime.len() * 8), (prime, subprime));
            assert!(made.prime[0] >> 7 == 1 && made.subprime[0] >> 7 == 1);
            assert_eq!(judge.keys.check_dsa_group(&made), Ok(()));
        }
        for (prime, subprime) in [(1024, 256), (2048, 160), (1536, 160), (512, 160), (4096, 256), (0, 0)] {
            let refused = maker.keys.dsa_group(prime, subprime);
            assert_eq!(refused.err(), Some(Error::KeySizeRange));
        }
    }
}

#[test]
fn invalid_domain_parameters_are_refused() {
    let good = group(&KEYS[0]);
    let changed = |change: &dyn Fn(&mut DsaGroup)| {
        let mut group = good.clone();
        change(&mut group);
        group
    };
    let largest = changed(&|group| group.prime[127] -= 1).prime;
    let cases: [(DsaGroup, Error); 14] = [
        (changed(&|group| group.prime = vec![]), Error::KeySizeRange),
        (changed(&|group| group.prime[0] = 0x40), Error::KeySizeRange),
        (changed(&|group| group.prime = vec![0xff; 385]), Error::KeySizeRange),
        (changed(&|group| group.prime = vec![0xff; 1 << 20]), Error::KeySizeRange),
        (changed(&|group| group.subprime = vec![]), Error::KeySizeRange),
        (changed(&|group| group.subprime = vec![1]), Error::KeySizeRange),
        (changed(&|group| group.subprime = vec![0xff; 32 + 1]), Error::KeySizeRange),
        (changed(&|group| group.prime[127] -= 1), Error::DomainParamsInvalid),
        (changed(&|group| group.subprime[19] -= 1), Error::DomainParamsInvalid),
        (changed(&|group| group.base = vec![]), Error::DomainParamsInvalid),
        (changed(&|group| group.base = vec![1]), Error::DomainParamsInvalid),
        // The order of 2 is not the subprime.
        (changed(&|group| group.base = vec![2]), Error::DomainParamsInvalid),
        (changed(&|group| group.base = largest.clone()), Error::DomainParamsInvalid),
        (changed(&|group| group.base = vec![0xff; 200]), Error::DomainParamsInvalid),
    ];
    for provider in Provider::ALL {
        for (number, (group, error)) in cases.iter().enumerate() {
            let refused = Some(*error);
            assert_eq!(provider.keys.check_dsa_group(group).err(), refused, "{} {number}", provider.name);
            let parts = PublicParts::Dsa { group: group.clone(), value: vec![7] };
            assert_eq!(provider.keys.public(&parts).err(), refused);
            let parts = PrivateParts::Dsa { group: group.clone(), value: Secret::from(&[7][..]) };
            assert_eq!(provider.keys.private(&parts).err(), refused);
            assert_eq!(provider.keys.generate(&PairSpec::Dsa(group.clone())).err(), refused);
        }
    }
}

/// Modulo q^4 the number 1 + q^3 has the order q. So a base of the right order exists, although q^4
/// is not prime.
#[test]
fn a_group_whose_prime_is_composite_is_refused() {
    let subprime = hex(KEYS[1][1]);
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

#[test]
fn private_and_public_values_out_of_range_are_refused() {
    for provider in Provider::ALL {
        let key = &KEYS[0];
        let subprime = hex(key[1]);
        for value in [&[][..], &[0], &[0; 20], &subprime, &[0xff; 20], &[1; 21], &[0xff; 4096]] {
            let parts = PrivateParts::Dsa { group: group(key), value: Secret::from(value) };
            assert_eq!(provider.keys.private(&parts).err(), Some(Error::DataInvalid));
        }
        let mut largest = hex(key[0]);
        largest[127] -= 1;
        for value in [&[][..], &[0], &[1], &[2], &largest, &hex(key[0]), &[0xff; 4096]] {
            let parts = PublicParts::Dsa { group: group(key), value: value.to_vec() };
            assert_eq!(provider.keys.public(&parts).err(), Some(Error::DataInvalid));
        }
    }
}

/// Returns the product of two numbers without leading zeros.
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
