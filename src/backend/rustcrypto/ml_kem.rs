//! ML-KEM (FIPS 203).

use std::sync::Arc;

use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use jeton_secret::Secret;
#[expect(deprecated, reason = "CKA_VALUE of PKCS#11 3.2 is the expanded key")]
use ml_kem::ExpandedKeyEncoding;
use ml_kem::array::Array;
use ml_kem::kem::Decapsulator;
use ml_kem::{
    Ciphertext, Decapsulate, Encapsulate, Kem, KeyExport, KeyInit, MlKem512, MlKem768, MlKem1024, TryKeyInit,
};
use zeroize::Zeroizing;

use super::random::{self, System};
use crate::backend::api::{MlKem, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _};
use crate::error::{Error, Result, require};

pub(super) fn generate(set: MlKem, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, MlKem::SEED_LEN)?;
    match set {
        MlKem::MlKem512 => generate_in::<MlKem512>(set, seed),
        MlKem::MlKem768 => generate_in::<MlKem768>(set, seed),
        MlKem::MlKem1024 => generate_in::<MlKem1024>(set, seed),
    }
}

pub(super) fn private(set: MlKem, seed: Option<&Secret>, key: &Secret) -> Result<Arc<dyn PrivateKey>> {
    match set {
        MlKem::MlKem512 => private_in::<MlKem512>(set, seed, key),
        MlKem::MlKem768 => private_in::<MlKem768>(set, seed, key),
        MlKem::MlKem1024 => private_in::<MlKem1024>(set, seed, key),
    }
}

pub(super) fn public(set: MlKem, key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    match set {
        MlKem::MlKem512 => public_in::<MlKem512>(key),
        MlKem::MlKem768 => public_in::<MlKem768>(key),
        MlKem::MlKem1024 => public_in::<MlKem1024>(key),
    }
}

/// The requirements on a parameter set, as public traits of the crate.
#[expect(deprecated, reason = "CKA_VALUE of PKCS#11 3.2 is the expanded key")]
trait Set:
    Kem<
        DecapsulationKey: Decapsulate<Kem = Self> + ExpandedKeyEncoding + KeyInit + Send + Sync,
        EncapsulationKey: Encapsulate<Kem = Self> + KeyExport + TryKeyInit + Send + Sync,
    >
{
}
impl Set for MlKem512 {}
impl Set for MlKem768 {}
impl Set for MlKem1024 {}

fn generate_in<P: Set>(set: MlKem, seed: Secret) -> Result<(PublicParts, PrivateParts)> {
    let decapsulation = expand::<P>(&seed)?;
    let key = encode::<P>(&decapsulation);
    Ok((public_parts::<P>(set, &decapsulation), PrivateParts::MlKem { set, seed: Some(seed), key }))
}

/// Parses a private key. If the seed is known, expands the seed, and fails if the result differs
/// from `key`.
fn private_in<P: Set>(set: MlKem, seed: Option<&Secret>, key: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let Some(seed) = seed else {
        return Ok(Arc::new(Private::<P> { set, key: decode::<P>(key)? }));
    };
    let expanded = expand::<P>(seed)?;
    // Variable time is sufficient: the error already reveals that the keys differ.
    require(encode::<P>(&expanded)[..] == key[..], Error::DataInvalid)?;
    Ok(Arc::new(Private::<P> { set, key: expanded }))
}

/// Parses a public key. FIPS 203, 7.2: a key with another length or a coefficient that is not
/// reduced is invalid.
fn public_in<P: Set>(key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    let key = TryKeyInit::new_from_slice(key).map_err(|_| Error::DataInvalid)?;
    Ok(Arc::new(Public::<P>(key)))
}

fn public_parts<P: Set>(set: MlKem, key: &P::DecapsulationKey) -> PublicParts {
    PublicParts::MlKem { set, key: key.encapsulation_key().to_bytes().to_vec() }
}

fn expand<P: Set>(seed: &Secret) -> Result<P::DecapsulationKey> {
    KeyInit::new_from_slice(seed).map_err(|_| Error::DataInvalid)
}

#[expect(deprecated, reason = "CKA_VALUE of PKCS#11 3.2 is the expanded key")]
fn encode<P: Set>(key: &P::DecapsulationKey) -> Secret {
    Secret::from(&Zeroizing::new(key.to_expanded_bytes())[..])
}

/// Parses an expanded key. FIPS 203, 7.3: the hash of the encapsulation key is checked.
#[expect(deprecated, reason = "CKA_VALUE of PKCS#11 3.2 is the expanded key")]
fn decode<P: Set>(key: &Secret) -> Result<P::DecapsulationKey> {
    let bytes = Zeroizing::new(Array::try_from(&key[..]).map_err(|_| Error::DataInvalid)?);
    ExpandedKeyEncoding::from_expanded_bytes(&bytes).map_err(|_| Error::DataInvalid)
}

/// The crate wipes the key on drop.
struct Private<P: Set> {
    set: MlKem,
    key: P::DecapsulationKey,
}

impl<P: Set> PrivateKey for Private<P> {
    fn public(&self) -> Result<PublicParts> {
        Ok(public_parts::<P>(self.set, &self.key))
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret> {
        let ciphertext = Ciphertext::<P>::try_from(ciphertext).map_err(|_| Error::EncryptedDataLenRange)?;
        Ok(Secret::from(&Zeroizing::new(self.key.decapsulate(&ciphertext))[..]))
    }
}

struct Public<P: Set>(P::EncapsulationKey);

impl<P: Set> PublicKey for Public<P> {
    fn encapsulate(&self) -> Result<(Vec<u8>, Secret)> {
        // The crate requires a generator that cannot fail. `fill` returns an error if the generator
        // fails now. If the generator fails only later, `encapsulate_with_rng` panics.
        random::fill(&mut [0; 32])?;
        let (ciphertext, secret) = self.0.encapsulate_with_rng(&mut UnwrapErr(SysRng));
        Ok((ciphertext.to_vec(), Secret::from(&Zeroizing::new(secret)[..])))
    }
}
