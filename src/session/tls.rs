//! The pseudo-random functions (PRF) of TLS and the MACs of its "finished" messages.

use std::mem;

use jeton_secret::Secret;

use crate::backend::{Hash, Mac, MacScheme, Provider};
use crate::error::{Error, Result, require};
use crate::mechanism::tls::TlsPrf;

/// Length of a master secret in bytes.
const MASTER: usize = 48;

/// The bytes that a MAC may hash: it hashes the signed data again for each block of its output.
const MOST_HASHED: usize = 128 << 20;
/// The length of the shortest block, which is that of MD5.
const BLOCK: usize = 16;

/// Returns `len` bytes of a PRF (RFC 5246, 5, or RFC 2246, 5). In RFC 2246 the two halves of the
/// secret are the keys of two functions.
pub(crate) fn prf(
    provider: &Provider,
    prf: TlsPrf,
    secret: &[u8],
    label: &[u8],
    seed: &[&[u8]],
    len: usize,
) -> Result<Secret> {
    let mut seeds = vec![label];
    seeds.extend_from_slice(seed);
    if let TlsPrf::Hash(hash) = prf {
        return expand(provider, &MacScheme::Hmac(hash), secret, &seeds, len);
    }
    // If the secret has an odd length, both halves contain the middle byte.
    let half = secret.len().div_ceil(2);
    let mut out = expand(provider, &MacScheme::HmacMd5, &secret[..half], &seeds, len)?;
    let second = &secret[secret.len() - half..];
    let other = expand(provider, &MacScheme::Hmac(Hash::Sha1), second, &seeds, len)?;
    out.iter_mut().zip(other.iter()).for_each(|(byte, other)| *byte ^= other);
    Ok(out)
}

/// Computes `P_hash` of RFC 5246, 5.
fn expand(
    provider: &Provider,
    scheme: &MacScheme,
    secret: &[u8],
    seed: &[&[u8]],
    len: usize,
) -> Result<Secret> {
    let mut out = Secret::default();
    let mut chain = provider.mac(scheme, secret, seed)?;
    while out.len() < len {
        let mut parts = vec![&chain[..]];
        parts.extend_from_slice(seed);
        out.extend(&provider.mac(scheme, secret, &parts)?)?;
        chain = provider.mac(scheme, secret, &[&chain])?;
    }
    Ok(out[..len].into())
}

/// A PRF that is used as a MAC. The signed data is the seed.
pub(crate) struct Finished {
    provider: &'static Provider,
    prf: TlsPrf,
    label: &'static [u8],
    secret: Secret,
    len: usize,
    seed: Secret,
}

impl Finished {
    /// Returns the MAC of `CKM_TLS_PRF_GENERAL`, which NSS defines. It is the PRF of TLS 1.0 and
    /// 1.1, and the signed data is its label and seed.
    pub(crate) fn general(provider: &'static Provider, secret: &[u8]) -> Self {
        let (prf, label) = (TlsPrf::Md5Sha1, &b""[..]);
        Self { provider, prf, label, secret: secret.into(), len: MASTER, seed: Secret::default() }
    }

    /// Returns the MAC for `verify_data` in a "finished" message of the server or the client. It
    /// has `len` bytes and signs the hash of a handshake.
    pub(crate) fn new(
        provider: &'static Provider,
        prf: TlsPrf,
        label: &'static [u8],
        secret: &[u8],
        len: usize,
    ) -> Self {
        Self { provider, prf, label, secret: secret.into(), len, seed: Secret::default() }
    }
}

impl Mac for Finished {
    fn mac_len(&self) -> usize {
        self.len
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        Ok(self.seed.extend(data)?)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let seed = mem::take(&mut self.seed);
        let hashed = seed.len().saturating_mul(out.len().div_ceil(BLOCK));
        require(hashed <= MOST_HASHED, Error::DataLenRange)?;
        let code = prf(self.provider, self.prf, &self.secret, self.label, &[&seed], out.len())?;
        out.copy_from_slice(&code);
        Ok(())
    }

    fn collects(&self) -> bool {
        true
    }

    /// Keeps no memory: a quota does not count that of a message in a single part.
    fn reset(&mut self) -> Result<()> {
        self.seed = Secret::default();
        Ok(())
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        let (secret, seed) = (self.secret.duplicate(), self.seed.duplicate());
        Ok(Box::new(Self { secret, seed, ..*self }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_keeps_no_memory_of_a_message_that_has_ended() {
        let unallocated = Secret::default().as_ptr();
        let mut mac = Finished::general(Provider::ALL[0], &[7; 32]);
        let mut code = [0; 48];
        mac.update(&[1; 1000]).unwrap();
        mac.finish(&mut code).unwrap();
        assert_eq!(mac.seed.as_ptr(), unallocated);
        mac.update(&[1; 1000]).unwrap();
        mac.reset().unwrap();
        assert_eq!(mac.seed.as_ptr(), unallocated);
    }

    #[test]
    fn a_mac_hashes_its_message_only_so_often() {
        let mut mac = Finished::general(Provider::ALL[0], &[7; 32]);
        let message = vec![1; 8 << 20];
        mac.update(&message).unwrap();
        assert_eq!(mac.finish(&mut [0; 257]), Err(Error::DataLenRange));
        // The next message begins again.
        let mut code = [0; 20];
        mac.update(b"a message").unwrap();
        mac.finish(&mut code).unwrap();
        let own = prf(mac.provider, mac.prf, &mac.secret, mac.label, &[b"a message"], 20).unwrap();
        assert_eq!(code, own[..]);
        mac.update(&message).unwrap();
        mac.finish(&mut [0; 32]).unwrap();
    }
}
