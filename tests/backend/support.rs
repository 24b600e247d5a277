//! Helpers of the backend tests: one call for a signature or a verification, and pairs of backends.

use std::fmt::Debug;

pub use jeton::backend::*;
pub use jeton::error::{Error, Result};
pub use jeton_secret::Secret;
pub use jeton_vectors::hex;

/// Returns all pairs of backends. The two backends of a pair may be the same.
pub fn pairs() -> impl Iterator<Item = (&'static Provider, &'static Provider)> {
    Provider::ALL.iter().flat_map(|a| Provider::ALL.iter().map(move |b| (*a, *b)))
}

/// Expects that a call of a backend failed with `error`.
#[track_caller]
pub fn refused<T>(provider: &Provider, outcome: Result<T>, error: Error, what: impl Debug) {
    assert_eq!(outcome.err(), Some(error), "{} {what:?}", provider.name);
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

/// Returns p, q, dp, dq and qinv as the parts of a private key.
pub fn crt([p, q, dp, dq, qinv]: [Secret; 5]) -> RsaCrt {
    RsaCrt { p, q, dp, dq, qinv }
}

pub fn digest(provider: &Provider, hash: Hash, data: &[u8]) -> Vec<u8> {
    let mut digest = vec![0; hash.len()];
    provider.digest.hash(hash, data, &mut digest).expect("a digest of bytes in memory");
    digest
}

pub const HASHES: [Hash; 5] = [Hash::Sha1, Hash::Sha224, Hash::Sha256, Hash::Sha384, Hash::Sha512];

/// Returns the first `len` bytes of a fixed sequence, for a digest or a message.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(7) + 0x91) as u8).collect()
}

pub fn crypt(
    provider: &Provider,
    scheme: &CipherScheme,
    direction: Direction,
    key: &[u8],
    message: &[u8],
) -> Result<Vec<u8>> {
    run(&mut *provider.ciphers.cipher(scheme, direction, key)?, [message])
}

/// Returns the output of a cipher for a message in parts. Checks every length that the cipher
/// announces.
pub fn run<'a>(cipher: &mut dyn Cipher, parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>> {
    let mut whole = Vec::new();
    for part in parts {
        let announced = cipher.update_len(part.len());
        if announced > 0 {
            let short = cipher.update(part, &mut vec![0; announced - 1]);
            assert_eq!(short, Err(Error::BufferTooSmall { needed: announced }));
        }
        let mut out = vec![0xa5; announced + 1];
        assert_eq!(cipher.update(part, &mut out)?, announced);
        assert_eq!(out.pop(), Some(0xa5), "written past the end");
        whole.extend(out);
    }
    let most = cipher.finish_len();
    let mut out = vec![0; most];
    let len = cipher.finish(&mut out)?;
    assert!(len <= most);
    whole.extend_from_slice(&out[..len]);
    Ok(whole)
}

pub fn mac(
    provider: &Provider,
    scheme: &MacScheme,
    key: &[u8],
    message: &[u8],
    part: usize,
) -> Result<Vec<u8>> {
    let mut mac = provider.macs.mac(scheme, key)?;
    for part in message.chunks(part) {
        mac.update(part)?;
    }
    let mut out = vec![0; mac.mac_len()];
    mac.finish(&mut out)?;
    Ok(out)
}
