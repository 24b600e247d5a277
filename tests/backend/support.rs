//! What the tests of the backends share: one call for a signature or a verification, and pairs of backends.

use jeton::backend::{Hash, PrivateParts, Provider, PublicParts, Scheme};
use jeton::error::Result;

/// Every backend with every backend, itself too.
pub fn pairs() -> impl Iterator<Item = (&'static Provider, &'static Provider)> {
    Provider::ALL.iter().flat_map(|a| Provider::ALL.iter().map(move |b| (*a, *b)))
}

pub fn sign(provider: &Provider, key: &PrivateParts, scheme: &Scheme, input: &[u8]) -> Result<Vec<u8>> {
    let mut signer = provider.keys.private(key)?.signer(scheme)?;
    let mut signature = vec![0; signer.signature_len()];
    signer.sign(input, &mut signature)?;
    Ok(signature)
}

pub fn verify(
    provider: &Provider,
    key: &PublicParts,
    scheme: &Scheme,
    input: &[u8],
    signature: &[u8],
) -> Result<()> {
    provider.keys.public(key)?.verifier(scheme)?.verify(input, signature)
}

pub fn digest(provider: &Provider, hash: Hash, data: &[u8]) -> Vec<u8> {
    let mut digest = vec![0; hash.len()];
    provider.digest.hash(hash, data, &mut digest).expect("a digest of bytes in memory");
    digest
}

pub const HASHES: [Hash; 5] = [Hash::Sha1, Hash::Sha224, Hash::Sha256, Hash::Sha384, Hash::Sha512];

/// Bytes that look like a digest or a message, different for every length.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(7) + 0x91) as u8).collect()
}

/// Bytes of hexadecimal digits of either case.
pub fn hex(digits: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A big-endian integer without leading zeros.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().skip_while(|byte| *byte == 0).collect()
}
