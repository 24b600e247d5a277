//! Stateful hash-based signatures (SP 800-208): HSS and LMS (RFC 8554), XMSS and XMSS^MT
//! (RFC 8391). Written once for every backend, over the backend's hash functions.
//!
//! No crate is fit: `lms-signature` has one hash and one level, and `hbs-lms` and `xmss` have
//! pre-releases only.

use std::sync::Arc;

use jeton_secret::with_wiped_frame;

use crate::backend::api::{
    Digest, Hash, HssType, PrivateKey, PrivateParts, PublicKey, PublicParts, Random, Scheme, Signer,
    Stateful, Uses, Verifier, output,
};
use crate::error::{Error, Result};

mod lms;
mod lms_private;
mod xmss;

/// Parses a public key in the encoding of its RFC. Fails with `DataInvalid` if no parameter set has
/// such a key.
pub(super) fn public(
    family: Stateful,
    key: &[u8],
    digest: &'static dyn Digest,
) -> Result<Arc<dyn PublicKey>> {
    let key = match family {
        Stateful::Hss => Key::Hss(lms::Public::parse(key)?),
        Stateful::Xmss | Stateful::XmssMt => Key::Xmss(xmss::Public::parse(family, key)?),
    };
    Ok(Arc::new(Public { family, key, digest }))
}

pub(super) fn generate(
    types: &[HssType],
    threads: usize,
    digest: &dyn Digest,
    random: &dyn Random,
) -> Result<(PublicParts, PrivateParts)> {
    let key = lms_private::Private::generate(types, digest, random, threads)?;
    let public = PublicParts::Stateful { family: Stateful::Hss, key: key.public() };
    Ok((public, PrivateParts::Hss { types: types.into(), key: key.encode() }))
}

/// Parses a private key of HSS. Fails with `DataInvalid` if its length does not fit its types.
pub(super) fn private(
    types: &[HssType],
    key: &[u8],
    digest: &'static dyn Digest,
) -> Result<Arc<dyn PrivateKey>> {
    let key = with_wiped_frame(|| lms_private::Private::parse(types, key, digest))?;
    Ok(Arc::new(HssPrivate { key, digest }))
}

/// Returns the number of one-time keys of an HSS key. Fails with `DataInvalid` if no parameter set
/// has these types, or if two levels have different hashes.
pub(crate) fn hss_uses(types: &[HssType]) -> Result<u64> {
    Ok(lms_private::uses(&lms_private::levels(types)?))
}

struct HssPrivate {
    key: lms_private::Private,
    digest: &'static dyn Digest,
}

impl PrivateKey for HssPrivate {
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
    key: Arc<HssPrivate>,
    uses: Arc<dyn Uses>,
}

impl Signer for HssSigner {
    fn signature_len(&self) -> usize {
        self.key.key.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let out = output(out, self.signature_len())?;
        let number = self.uses.take()?;
        with_wiped_frame(|| self.key.key.sign(self.key.digest, number, input, out))
    }
}

struct Public {
    family: Stateful,
    key: Key,
    digest: &'static dyn Digest,
}

enum Key {
    Hss(lms::Public),
    Xmss(xmss::Public),
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
        match &self.0.key {
            Key::Hss(key) => key.verify(self.0.digest, input, signature),
            Key::Xmss(key) => key.verify(self.0.digest, input, signature),
        }
    }
}

/// The length of the longest node of a tree in bytes.
const MAX_NODE: usize = 64;
/// A node of a tree, or a value of a one-time key. Only its first `n` bytes have a meaning.
type Node = [u8; MAX_NODE];
/// The length of the longest input that is hashed in one call: two nodes of XMSS, their key and the
/// number of the function.
const MAX_INPUT: usize = 4 * MAX_NODE;

/// A hash function whose output is cut to `n` bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ShortHash {
    hash: Hash,
    /// The length of a node in bytes, at most `MAX_NODE`.
    n: usize,
}

impl ShortHash {
    /// Hashes the parts, which have at most `MAX_INPUT` bytes together.
    fn of(self, digest: &dyn Digest, parts: &[&[u8]]) -> Result<Node> {
        let (mut input, mut len) = ([0; MAX_INPUT], 0);
        for part in parts {
            input[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        let mut node = [0; MAX_NODE];
        digest.hash(self.hash, &input[..len], &mut node[..self.hash.len()])?;
        Ok(node)
    }

    /// Hashes parts of any length.
    fn of_long<'a>(self, digest: &dyn Digest, parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Node> {
        let (mut hasher, mut node) = (digest.start(self.hash)?, [0; MAX_NODE]);
        parts.into_iter().try_for_each(|part| hasher.update(part))?;
        hasher.finish(&mut node[..self.hash.len()])?;
        Ok(node)
    }
}

/// Splits the first `len` bytes off. Fails with `SignatureLenRange` if there are fewer.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(len).ok_or(Error::SignatureLenRange)?;
    *rest = tail;
    Ok(head)
}

/// Reads a number of 4 bytes, as [`take`].
fn number(rest: &mut &[u8]) -> Result<u32> {
    let bytes = take(rest, 4)?;
    Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}
