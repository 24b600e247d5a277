//! Private keys of ML-DSA, ML-KEM and SLH-DSA in every encoding of RFC 9881, RFC 9935 and RFC 9909
//! (the working group LAMPS). OpenSSL 3.6 made them.

use std::fs;
use std::path::Path;

use jeton_formats::{Item, Password, Wanted, read};
use jeton_tool::token_file::read_private_key;

const KEYS: [(&str, &[&str]); 4] = [
    ("ml-dsa-44", &["-seed", "-expanded", "-both"]),
    ("ml-kem-512", &["-seed", "-expanded", "-both"]),
    ("slh-dsa-sha2-128s", &[""]),
    ("slh-dsa-shake-256f", &[""]),
];

fn sample(name: &str) -> Vec<u8> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/formats/tests/samples/lamps");
    fs::read(samples.join(name)).expect("a sample")
}

fn private_key(file: &[u8]) -> Vec<u8> {
    let mut ask = || None;
    let mut entries = read(file, Wanted::All, &mut Password::new(&mut ask)).expect("a key");
    match entries.remove(0).item {
        Item::PrivateKey(key) => key.to_vec(),
        _ => panic!("a private key"),
    }
}

#[test]
fn every_encoding_of_a_key_has_the_public_key_of_openssl() {
    for (name, encodings) in KEYS {
        let public = sample(&format!("{name}-public.der"));
        for encoding in encodings {
            let key = private_key(&sample(&format!("{name}{encoding}.pem")));
            let pair = read_private_key(&key).unwrap_or_else(|error| panic!("{name}{encoding}: {error}"));
            assert_eq!(pair.public_key_info, public, "{name}{encoding}");
        }
    }
}

#[test]
fn a_seed_that_does_not_fit_its_expanded_key_is_refused() {
    for (name, _) in &KEYS[..2] {
        let key = private_key(&sample(&format!("{name}-both.pem")));
        let seed = private_key(&sample(&format!("{name}-seed.pem")));
        // The encoding of the seed ends with the seed. Its last 32 bytes are enough to find the
        // seed in the key that has both.
        let seed = &seed[seed.len() - 32..];
        let at = key.windows(seed.len()).position(|window| window == seed).expect("the seed");
        let mut altered = key;
        altered[at] ^= 1;
        assert!(read_private_key(&altered).is_err(), "{name}");
    }
}

#[test]
fn a_truncated_key_is_refused() {
    for (name, encodings) in KEYS {
        for encoding in encodings {
            let key = private_key(&sample(&format!("{name}{encoding}.pem")));
            for length in (0..key.len()).step_by(7) {
                assert!(read_private_key(&key[..length]).is_err(), "{name}{encoding}: {length}");
            }
        }
    }
}
