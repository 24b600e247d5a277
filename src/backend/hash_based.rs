//! Stateful hash-based signatures, of our own cryptography: HSS, XMSS and XMSS^MT, over the hash
//! functions of a backend.

use std::sync::Arc;

use jeton_crypto::hash_based::{self, Family, HssPrivate, HssPublic, XmssPublic};
use jeton_secret::with_wiped_frame;

use crate::backend::api::{
    Digest, HssType, Leaf, PrivateKey, PrivateParts, PublicKey, PublicParts, Random, Scheme, Signer,
    Stateful, Uses, Verifier, failure, of_key, of_signature, output,
};
use crate::error::{Error, Result, require};

/// Parses a public key in the encoding of its RFC. Fails with `DataInvalid` if no parameter set has
/// such a key.
pub(super) fn public(
    family: Stateful,
    key: &[u8],
    digest: &'static dyn Digest,
) -> Result<Arc<dyn PublicKey>> {
    let key = match family {
        Stateful::Hss => HssPublic::parse(key).map(Key::Hss),
        Stateful::Xmss => XmssPublic::parse(Family::Xmss, key).map(Key::Xmss),
        Stateful::XmssMt => XmssPublic::parse(Family::XmssMt, key).map(Key::Xmss),
    };
    let key = key.map_err(of_key)?;
    Ok(Arc::new(Public { family, key, digest }))
}

pub(super) fn generate(
    types: &[HssType],
    threads: usize,
    digest: &dyn Digest,
    random: &dyn Random,
) -> Result<(PublicParts, PrivateParts)> {
    let key = HssPrivate::generate(types, &Leaf(digest), &Leaf(random), threads).map_err(of_key)?;
    let public = PublicParts::Stateful { family: Stateful::Hss, key: key.public() };
    Ok((public, PrivateParts::Hss { types: types.into(), key: key.encode() }))
}

/// Parses a private key of HSS. Fails with `DataInvalid` if its length does not fit its types.
pub(super) fn private(
    types: &[HssType],
    key: &[u8],
    digest: &'static dyn Digest,
) -> Result<Arc<dyn PrivateKey>> {
    let key = with_wiped_frame(|| HssPrivate::parse(types, key, &Leaf(digest))).map_err(of_key)?;
    Ok(Arc::new(Private { key, digest }))
}

/// Returns the number of one-time keys of an HSS key. Fails with `DataInvalid` if no parameter set
/// has these types, or if two levels have different hashes.
pub(crate) fn hss_uses(types: &[HssType]) -> Result<u64> {
    hash_based::uses(types).map_err(of_key)
}

struct Private {
    key: HssPrivate,
    digest: &'static dyn Digest,
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Stateful { family: Stateful::Hss, key: self.key.public() })
    }

    fn counted_signer(self: Arc<Self>, scheme: &Scheme, uses: Arc<dyn Uses>) -> Result<Box<dyn Signer>> {
        match scheme {
            Scheme::Stateful(Stateful::Hss) => Ok(Box::new(HssSigner { key: self, uses })),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct HssSigner {
    key: Arc<Private>,
    uses: Arc<dyn Uses>,
}

impl Signer for HssSigner {
    fn signature_len(&self) -> usize {
        self.key.key.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let out = output(out, self.signature_len())?;
        let number = self.uses.take()?;
        let Private { key, digest } = &*self.key;
        require(number < key.uses(), Error::KeyExhausted)?;
        with_wiped_frame(|| key.sign(&Leaf(*digest), number, input, out)).map_err(failure)
    }
}

struct Public {
    family: Stateful,
    key: Key,
    digest: &'static dyn Digest,
}

enum Key {
    Hss(HssPublic),
    Xmss(XmssPublic),
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Stateful(family) if *family == self.family => Ok(Box::new(StatefulVerifier(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct StatefulVerifier(Arc<Public>);

impl Verifier for StatefulVerifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let hashes = Leaf(self.0.digest);
        let verified = match &self.0.key {
            Key::Hss(key) => key.verify(&hashes, input, signature),
            Key::Xmss(key) => key.verify(&hashes, input, signature),
        };
        verified.map_err(of_signature)
    }
}
