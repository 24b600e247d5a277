//! DSA. AWS-LC signs with random nonces.

use jeton_secret::Secret;

use super::dh::Numbers;
use super::{elsewhere, ffi};
use crate::backend::api::DsaGroup;
use crate::backend::shared::dsa::Library;
use crate::error::{Error, Result};

impl Library for Numbers {
    type Key = ffi::Dsa;

    fn is_prime(number: &[u8]) -> Result<bool> {
        ffi::is_prime(number)
    }

    fn group(prime_bits: usize, subprime_bits: usize) -> Result<DsaGroup> {
        // AWS-LC chooses the size of the subprime, and it never chooses 224 bits.
        if subprime_bits == 224 {
            let other = elsewhere().map_err(|_| Error::KeySizeRange)?;
            return other.keys.dsa_group(prime_bits, subprime_bits);
        }
        let [prime, subprime, base] = ffi::Dsa::parameters(prime_bits)?.group();
        Ok(DsaGroup { prime, subprime, base })
    }

    fn value(group: &DsaGroup) -> Result<Secret> {
        ffi::Dsa::generate(group)?.private_value()
    }

    fn key(group: &DsaGroup, public: &[u8], private: Option<&Secret>) -> Result<ffi::Dsa> {
        ffi::Dsa::new(group, public, private.map(|value| &value[..]))
    }

    fn sign(key: &ffi::Dsa, digest: &[u8], r: &mut [u8], s: &mut [u8]) -> Result<()> {
        key.sign(digest, r, s)
    }

    fn verify(key: &ffi::Dsa, digest: &[u8], r: &[u8], s: &[u8]) -> Result<bool> {
        key.verify(digest, r, s)
    }
}
