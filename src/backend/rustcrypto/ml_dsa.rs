//! ML-DSA and HashML-DSA (FIPS 204).

use std::sync::Arc;

use digest::array::Array;
use digest::consts::U64;
use getrandom::SysRng;
use jeton_secret::Secret;
use ml_dsa::{
    EncodedVerifyingKey, ExpandedSigningKey, ExpandedSigningKeyBytes, MlDsa44, MlDsa65, MlDsa87, MlDsaParams,
    Seed, Signature, VerifyingKey,
};
use shake::Shake256;
use shake::digest::{ExtendableOutput, Update};
use zeroize::Zeroizing;

use super::failed;
use super::random::System;
use crate::backend::api::{
    Hash, MlDsa, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, Verifier,
    output,
};
use crate::backend::shared::prehash::{expect_len, expect_mu, prefix};
use crate::error::{Error, Result, require};

pub(super) fn generate(set: MlDsa, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, MlDsa::SEED_LEN)?;
    match set {
        MlDsa::MlDsa44 => generate_in::<MlDsa44>(set, seed),
        MlDsa::MlDsa65 => generate_in::<MlDsa65>(set, seed),
        MlDsa::MlDsa87 => generate_in::<MlDsa87>(set, seed),
    }
}

pub(super) fn private(set: MlDsa, seed: Option<&Secret>, key: &Secret) -> Result<Arc<dyn PrivateKey>> {
    match set {
        MlDsa::MlDsa44 => private_in::<MlDsa44>(set, seed, key),
        MlDsa::MlDsa65 => private_in::<MlDsa65>(set, seed, key),
        MlDsa::MlDsa87 => private_in::<MlDsa87>(set, seed, key),
    }
}

pub(super) fn public(set: MlDsa, key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    match set {
        MlDsa::MlDsa44 => public_in::<MlDsa44>(set, key),
        MlDsa::MlDsa65 => public_in::<MlDsa65>(set, key),
        MlDsa::MlDsa87 => public_in::<MlDsa87>(set, key),
    }
}

trait Set: MlDsaParams + Send + Sync + 'static {}
impl<P: MlDsaParams + Send + Sync + 'static> Set for P {}

fn generate_in<P: Set>(set: MlDsa, seed: Secret) -> Result<(PublicParts, PrivateParts)> {
    let expanded = expand::<P>(&seed)?;
    let key = Secret::from(&encode(&expanded)[..]);
    Ok((public_parts(set, &expanded), PrivateParts::MlDsa { set, seed: Some(seed), key }))
}

/// Parses a private key. If the seed is known, expands the seed, and fails if the result differs
/// from `key`.
fn private_in<P: Set>(set: MlDsa, seed: Option<&Secret>, key: &Secret) -> Result<Arc<dyn PrivateKey>> {
    let Some(seed) = seed else {
        let key = decode::<P>(set, key)?;
        return Ok(Arc::new(Private { set, key }));
    };
    let expanded = expand::<P>(seed)?;
    // The comparison need not take constant time: the error already reveals that the keys differ.
    require(encode(&expanded)[..] == key[..], Error::DataInvalid)?;
    Ok(Arc::new(Private { set, key: expanded }))
}

fn public_in<P: Set>(set: MlDsa, key: &[u8]) -> Result<Arc<dyn PublicKey>> {
    let encoded = EncodedVerifyingKey::<P>::try_from(key).map_err(|_| Error::DataInvalid)?;
    Ok(Arc::new(Public { set, key: VerifyingKey::<P>::decode(&encoded) }))
}

fn public_parts<P: Set>(set: MlDsa, key: &ExpandedSigningKey<P>) -> PublicParts {
    PublicParts::MlDsa { set, key: key.verifying_key().encode().to_vec() }
}

fn expand<P: Set>(seed: &Secret) -> Result<ExpandedSigningKey<P>> {
    let seed = Zeroizing::new(Seed::try_from(&seed[..]).map_err(|_| Error::DataInvalid)?);
    Ok(ExpandedSigningKey::from_seed(&seed))
}

#[expect(deprecated, reason = "CKA_VALUE of PKCS#11 3.2 is the expanded key")]
fn encode<P: Set>(key: &ExpandedSigningKey<P>) -> Zeroizing<ExpandedSigningKeyBytes<P>> {
    Zeroizing::new(key.to_expanded())
}

/// Parses an expanded key, whose parts depend on each other (FIPS 204, algorithm 6). The library
/// computes the public key from `rho`, `s1` and `s2`. A test signature must verify under this
/// public key, which proves that `tr` is its hash. The test finds only large errors in `s2` and
/// `t0`, which change few bits of the public key and of the hints: the library does not expose the
/// correct `t0`.
#[expect(deprecated, reason = "CKA_VALUE of PKCS#11 3.2 is the expanded key")]
fn decode<P: Set>(set: MlDsa, bytes: &[u8]) -> Result<ExpandedSigningKey<P>> {
    let encoded = ExpandedSigningKeyBytes::<P>::try_from(bytes).map_err(|_| Error::DataInvalid)?;
    let encoded = Zeroizing::new(encoded);
    require(coefficients_in_range(set, bytes), Error::DataInvalid)?;
    let key = ExpandedSigningKey::<P>::from_expanded(&encoded);
    let signature = key.sign_deterministic(&[], &[]).map_err(|_| Error::DataInvalid)?;
    require(key.verifying_key().verify_with_context(&[], &[], &signature), Error::DataInvalid)?;
    Ok(key)
}

/// Checks that every coefficient of `s1` and `s2` is within [-eta, eta]. FIPS 204, algorithm 25:
/// the coefficients of a malformed key may be outside this range. The library panics on such
/// coefficients.
fn coefficients_in_range(set: MlDsa, key: &[u8]) -> bool {
    /// `rho`, `K` and `tr` come first.
    const START: usize = 32 + 32 + 64;
    // For a coefficient c the key stores eta - c: 0 to 4 in three bits, or 0 to 8 in four bits.
    // Three bytes contain eight coefficients of three bits, or six of four bits.
    let (vectors, bits, largest) = match set {
        MlDsa::MlDsa44 => (4 + 4, 3, 4),
        MlDsa::MlDsa65 => (6 + 5, 4, 8),
        MlDsa::MlDsa87 => (8 + 7, 3, 4),
    };
    let packed = &key[START..START + vectors * 32 * bits];
    // The loop never exits early, so the time does not reveal the position of an error.
    let mut fine = true;
    for group in packed.chunks_exact(3) {
        let word = u32::from_le_bytes([group[0], group[1], group[2], 0]);
        for shift in (0..24).step_by(bits) {
            fine &= word >> shift & ((1 << bits) - 1) <= largest;
        }
    }
    // Only ML-DSA-65 leaves a remainder: one byte with two coefficients.
    let rest = packed.chunks_exact(3).remainder();
    fine & rest.iter().all(|byte| u32::from(byte & 15) <= largest && u32::from(byte >> 4) <= largest)
}

/// The library wipes the key on drop. The key includes the expanded matrix, so that no signature
/// computes it again.
struct Private<P: Set> {
    set: MlDsa,
    key: ExpandedSigningKey<P>,
}

impl<P: Set> PrivateKey for Private<P> {
    fn public(&self) -> Result<PublicParts> {
        Ok(public_parts(self.set, &self.key))
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let deterministic = match scheme {
            Scheme::MlDsa { deterministic, .. } | Scheme::MlDsaMu { deterministic } => *deterministic,
            _ => return Err(Error::KeyTypeInconsistent),
        };
        let mu = Mu::new(scheme, &self.key.verifying_key())?;
        Ok(Box::new(MlDsaSigner { key: self, mu, deterministic }))
    }
}

struct MlDsaSigner<P: Set> {
    key: Arc<Private<P>>,
    mu: Mu,
    deterministic: bool,
}

impl<P: Set> Signer for MlDsaSigner<P> {
    fn signature_len(&self) -> usize {
        self.key.set.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let mu = self.mu.of(input)?;
        let out = output(out, self.signature_len())?;
        let signature = if self.deterministic {
            self.key.key.sign_mu_deterministic(&mu)
        } else {
            let signature = self.key.key.sign_mu_randomized(&mu, &mut SysRng);
            signature.map_err(|error| failed("an ML-DSA signature")(&error))?
        };
        out.copy_from_slice(&signature.encode());
        Ok(())
    }
}

struct Public<P: Set> {
    set: MlDsa,
    key: VerifyingKey<P>,
}

impl<P: Set> PublicKey for Public<P> {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let mu = Mu::new(scheme, &self.key)?;
        Ok(Box::new(MlDsaVerifier { key: self, mu }))
    }
}

struct MlDsaVerifier<P: Set> {
    key: Arc<Public<P>>,
    mu: Mu,
}

impl<P: Set> Verifier for MlDsaVerifier<P> {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let mu = self.mu.of(input)?;
        require(signature.len() == self.key.set.signature_len(), Error::SignatureLenRange)?;
        let signature = Signature::<P>::try_from(signature).map_err(|_| Error::SignatureInvalid)?;
        if self.key.key.verify_mu(&mu, &signature) { Ok(()) } else { Err(Error::SignatureInvalid) }
    }
}

type B64 = Array<u8, U64>;

/// Computes the message representative mu (FIPS 204, algorithm 7) of a message (5.2) or of a digest
/// (5.4). The library computes mu only for messages.
struct Mu {
    /// The hash function that made the input, if the input is a digest.
    hash: Option<Hash>,
    /// The state of SHAKE256 after it has absorbed `tr` and the prefix of the input. `None` if the
    /// input is mu.
    start: Option<Shake256>,
}

impl Mu {
    fn new<P: Set>(scheme: &Scheme, key: &VerifyingKey<P>) -> Result<Self> {
        let (hash, context) = match scheme {
            Scheme::MlDsa { hash, context, .. } => (*hash, context),
            Scheme::MlDsaMu { .. } => return Ok(Self { hash: None, start: None }),
            _ => return Err(Error::KeyTypeInconsistent),
        };
        let prefix = prefix(hash, context)?;
        let mut tr = B64::default();
        Shake256::default().chain(key.encode()).finalize_xof_into(&mut tr);
        Ok(Self { hash, start: Some(Shake256::default().chain(tr).chain(prefix)) })
    }

    fn of(&self, input: &[u8]) -> Result<B64> {
        let Some(start) = &self.start else { return Ok(B64::from(*expect_mu(input)?)) };
        expect_len(self.hash, input)?;
        let mut mu = B64::default();
        start.clone().chain(input).finalize_xof_into(&mut mu);
        Ok(mu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(set: MlDsa) -> (Secret, Secret) {
        match generate(set, Some(&Secret::zeroed(MlDsa::SEED_LEN))) {
            Ok((_, PrivateParts::MlDsa { seed: Some(seed), key, .. })) => (seed, key),
            _ => panic!("no ML-DSA key"),
        }
    }

    #[test]
    fn malformed_expanded_keys_are_refused_without_a_panic() {
        for set in MlDsa::ALL {
            let (_, key) = parts(set);
            assert!(private(set, None, &key).is_ok());
            let last_of_s2 = key.len() - 1 - 13 * 32 * (set.public_len() - 32) / 320;
            // Coefficients of `s1` out of range, coefficients of `s2` out of range, a wrong `tr`.
            for (at, value) in [(128, 0xff), (last_of_s2, 0xff), (64, !key[64])] {
                let mut wrong = key.duplicate();
                wrong[at] = value;
                assert_eq!(private(set, None, &wrong).err(), Some(Error::DataInvalid), "{set:?} {at}");
            }
            assert_eq!(private(set, None, &Secret::from(&key[1..])).err(), Some(Error::DataInvalid));
        }
    }
}
