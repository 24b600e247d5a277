//! Digests in parts.

use crate::support::*;

/// Every hash function, also those that only digests and HMACs use.
fn hashes() -> impl Iterator<Item = Hash> {
    Hash::ALL.into_iter().chain(Hash::BLAKE2B)
}

#[test]
fn digests_in_parts_equal_those_of_one_part() {
    let data = bytes(1000);
    for (provider, hash) in
        Provider::ALL.iter().flat_map(|provider| hashes().map(move |hash| (provider, hash)))
    {
        let mut hasher = provider.digest.start(hash).unwrap();
        let mut out = vec![0; hash.len()];
        // Lengths around the block sizes, and empty parts. The second and later rounds show that
        // `finish` resets the digest, and that `reset` discards the input.
        for part in [1, 3, 63, 64, 65, 127, 128, 129, 999] {
            for chunk in data.chunks(part) {
                hasher.update(chunk).unwrap();
                hasher.update(&[]).unwrap();
            }
            hasher.finish(&mut out).unwrap();
            assert_eq!(out, digest(provider, hash, &data), "{} {hash:?} {part}", provider.name);
            hasher.update(b"forget me").unwrap();
            hasher.reset().unwrap();
        }
    }
}
