//! Composite ML-DSA (draft-ietf-lamps-pq-composite-sigs, 3), built from the keys of a backend.

use std::sync::Arc;

use der::asn1::UintRef;
use der::{Decode, Encode, Sequence};
use jeton_secret::Secret;

use crate::backend::api::{
    Composite, Curve, Digest, Hash, PairSpec, PrivateKey, PrivateParts, Provider, PublicKey, PublicParts,
    Scheme, Signer, Traditional, Verifier, output,
};
use crate::error::{Error, Result, require};

/// The bytes before the label in what both components sign.
const PREFIX: &[u8] = b"CompositeAlgorithmSignatures2025";
/// The length of the longest context in bytes.
const MAX_CONTEXT: usize = 255;
/// The only public exponent of the RSA components: 65537, which the draft recommends.
const EXPONENT: [u8; 3] = [1, 0, 1];
/// The most signatures of ECDSA that a signer makes for one that has the full length. All of them
/// are shorter with a probability of 2^-106.
const TRIES: usize = 256;

pub(in crate::backend) fn generate(
    set: &'static Composite,
    provider: &Provider,
) -> Result<(PublicParts, PrivateParts)> {
    let first = provider.keys.generate(&PairSpec::MlDsa { set: set.ml_dsa, seed: None })?;
    let (PublicParts::MlDsa { key, .. }, PrivateParts::MlDsa { seed: Some(seed), .. }) = first else {
        return Err(Error::GeneralError);
    };
    let (public, private) = provider.keys.generate(&match set.traditional {
        Traditional::RsaPkcs1(bits) | Traditional::RsaPss(bits) => {
            PairSpec::Rsa { bits, public_exponent: &EXPONENT }
        }
        Traditional::Ecdsa(curve) => PairSpec::Ec(curve),
        Traditional::Ed25519 => PairSpec::Ed25519,
    })?;
    Ok((
        PublicParts::Composite { set, ml_dsa: key, traditional: Box::new(public) },
        PrivateParts::Composite { set, seed, traditional: Box::new(private) },
    ))
}

/// Parses a private key. Fails with `DataInvalid` if the second key is not one of the algorithm.
pub(in crate::backend) fn private(
    set: &'static Composite,
    seed: &Secret,
    traditional: &PrivateParts,
    provider: &'static Provider,
) -> Result<Arc<dyn PrivateKey>> {
    let spec = PairSpec::MlDsa { set: set.ml_dsa, seed: Some(seed) };
    let first = provider.keys.private(&provider.keys.generate(&spec)?.1)?;
    let second = provider.keys.private(traditional)?;
    expect(set, &second.public()?)?;
    let digest = provider.digest;
    Ok(Arc::new(Key { set, first, second, digest }))
}

/// Parses a public key. Fails with `DataInvalid` if the second key is not one of the algorithm.
pub(in crate::backend) fn public(
    set: &'static Composite,
    ml_dsa: &[u8],
    traditional: &PublicParts,
    provider: &'static Provider,
) -> Result<Arc<dyn PublicKey>> {
    expect(set, traditional)?;
    let first = provider.keys.public(&PublicParts::MlDsa { set: set.ml_dsa, key: ml_dsa.to_vec() })?;
    let (second, digest) = (provider.keys.public(traditional)?, provider.digest);
    Ok(Arc::new(Key { set, first, second, digest }))
}

/// Fails with `DataInvalid` unless a key can be the second component of the algorithm.
fn expect(set: &Composite, traditional: &PublicParts) -> Result<()> {
    let fits = match (set.traditional, traditional) {
        (Traditional::RsaPkcs1(bits) | Traditional::RsaPss(bits), PublicParts::Rsa { n, e }) => {
            n.len() * 8 == bits && n[0] >= 0x80 && *e == EXPONENT
        }
        (Traditional::Ecdsa(wanted), PublicParts::Ec { curve, .. }) => *curve == wanted,
        (Traditional::Ed25519, PublicParts::Ed25519 { .. }) => true,
        _ => false,
    };
    require(fits, Error::DataInvalid)
}

/// A private or public key: those of both components.
struct Key<K: ?Sized> {
    set: &'static Composite,
    first: Arc<K>,
    second: Arc<K>,
    digest: &'static dyn Digest,
}

impl PrivateKey for Key<dyn PrivateKey> {
    fn public(&self) -> Result<PublicParts> {
        let PublicParts::MlDsa { key, .. } = self.first.public()? else { return Err(Error::GeneralError) };
        let traditional = Box::new(self.second.public()?);
        Ok(PublicParts::Composite { set: self.set, ml_dsa: key, traditional })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let (message, [first, second]) = Representative::of(self.set, self.digest, scheme)?;
        let (first, second) =
            (Arc::clone(&self.first).signer(&first)?, Arc::clone(&self.second).signer(&second)?);
        Ok(Box::new(Both { message, first, second }))
    }
}

impl PublicKey for Key<dyn PublicKey> {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let (message, [first, second]) = Representative::of(self.set, self.digest, scheme)?;
        let (first, second) =
            (Arc::clone(&self.first).verifier(&first)?, Arc::clone(&self.second).verifier(&second)?);
        Ok(Box::new(Both { message, first, second }))
    }
}

/// Computes what the components sign.
struct Representative {
    set: &'static Composite,
    digest: &'static dyn Digest,
    context: Box<[u8]>,
}

impl Representative {
    /// Returns also the schemes of the components.
    fn of(
        set: &'static Composite,
        digest: &'static dyn Digest,
        scheme: &Scheme,
    ) -> Result<(Self, [Scheme; 2])> {
        let Scheme::Composite { context, deterministic } = scheme else {
            return Err(Error::KeyTypeInconsistent);
        };
        require(context.len() <= MAX_CONTEXT, Error::MechanismParamInvalid)?;
        let label = set.label.as_bytes().into();
        let first = Scheme::MlDsa { hash: None, context: label, deterministic: *deterministic };
        let second = match set.traditional {
            Traditional::RsaPkcs1(_) => Scheme::RsaPkcs1 { hash: Some(Hash::Sha256) },
            Traditional::RsaPss(_) => Scheme::RsaPss { hash: Hash::Sha256, mgf: Hash::Sha256, salt_len: 32 },
            Traditional::Ecdsa(_) => Scheme::Ecdsa,
            Traditional::Ed25519 => Scheme::Ed25519,
        };
        Ok((Self { set, digest, context: context.clone() }, [first, second]))
    }

    /// Returns the inputs of the components for a message. The second is a digest of the first,
    /// unless the second component signs messages.
    fn inputs(&self, message: &[u8]) -> Result<[Vec<u8>; 2]> {
        let length = [self.context.len() as u8];
        let digest = self.hashed(self.set.prehash, message)?;
        let whole = [PREFIX, self.set.label.as_bytes(), &length, &self.context, &digest].concat();
        let second = match self.set.traditional {
            Traditional::RsaPkcs1(_) | Traditional::RsaPss(_) => self.hashed(Hash::Sha256, &whole)?,
            Traditional::Ecdsa(Curve::P384) => self.hashed(Hash::Sha384, &whole)?,
            Traditional::Ecdsa(_) => self.hashed(Hash::Sha256, &whole)?,
            Traditional::Ed25519 => whole.clone(),
        };
        Ok([whole, second])
    }

    fn hashed(&self, hash: Hash, message: &[u8]) -> Result<Vec<u8>> {
        let mut digest = vec![0; hash.len()];
        self.digest.hash(hash, message, &mut digest)?;
        Ok(digest)
    }

    /// Returns the length of the second signature. With ECDSA it is that of the longest one.
    fn second_len(&self) -> usize {
        match self.set.traditional {
            Traditional::RsaPkcs1(bits) | Traditional::RsaPss(bits) => bits / 8,
            // Each of two integers has a header of two bytes, and a zero byte before its high bit.
            Traditional::Ecdsa(curve) => 2 + 2 * (2 + 1 + curve.len()),
            Traditional::Ed25519 => 64,
        }
    }
}

/// The signers or the verifiers of both components.
struct Both<C: ?Sized> {
    message: Representative,
    first: Box<C>,
    second: Box<C>,
}

impl Signer for Both<dyn Signer> {
    fn signature_len(&self) -> usize {
        self.first.signature_len() + self.message.second_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let inputs = self.message.inputs(input)?;
        let out = output(out, self.signature_len())?;
        let (first, second) = out.split_at_mut(self.first.signature_len());
        self.first.sign(&inputs[0], first)?;
        match self.message.set.traditional {
            Traditional::Ecdsa(curve) => self.sign_ecdsa(curve, &inputs[1], second),
            _ => self.second.sign(&inputs[1], second),
        }
    }
}

impl Both<dyn Signer> {
    /// Writes a signature of ECDSA in DER. A signer of PKCS#11 has signatures of one length. So it
    /// signs again until both integers have their high bit, which one of four signatures has. The
    /// others are dropped: who sees many signatures could drop them, too.
    fn sign_ecdsa(&mut self, curve: Curve, digest: &[u8], out: &mut [u8]) -> Result<()> {
        let mut numbers = vec![0; 2 * curve.len()];
        for _ in 0..TRIES {
            self.second.sign(digest, &mut numbers)?;
            if numbers[0] >= 0x80 && numbers[curve.len()] >= 0x80 {
                return EcdsaSignature::of(&numbers)?.encode_to_slice(out).map(drop).map_err(failed);
            }
        }
        Err(Error::DeviceError)
    }
}

impl Verifier for Both<dyn Verifier> {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let Representative { set, .. } = self.message;
        let parts = signature.split_at_checked(set.ml_dsa.signature_len());
        let (first, second) = parts.ok_or(Error::SignatureLenRange)?;
        let most = self.message.second_len();
        let numbers = match set.traditional {
            Traditional::Ecdsa(curve) if (1..=most).contains(&second.len()) => {
                Some(EcdsaSignature::decoded(second, curve).ok_or(Error::SignatureInvalid)?)
            }
            Traditional::Ecdsa(_) => return Err(Error::SignatureLenRange),
            _ if second.len() != most => return Err(Error::SignatureLenRange),
            _ => None,
        };
        let inputs = self.message.inputs(input)?;
        self.first.verify(&inputs[0], first)?;
        self.second.verify(&inputs[1], numbers.as_deref().unwrap_or(second))
    }
}

/// `Ecdsa-Sig-Value` of RFC 3279, 2.2.3.
#[derive(Sequence)]
struct EcdsaSignature<'a> {
    r: UintRef<'a>,
    s: UintRef<'a>,
}

impl<'a> EcdsaSignature<'a> {
    /// Returns the signature r || s.
    fn of(numbers: &'a [u8]) -> Result<Self> {
        let (r, s) = numbers.split_at(numbers.len() / 2);
        Ok(Self { r: UintRef::new(r).map_err(failed)?, s: UintRef::new(s).map_err(failed)? })
    }

    /// Returns r || s, each as long as the order. `None` if the DER is malformed, or if a number is
    /// longer.
    fn decoded(der: &'a [u8], curve: Curve) -> Option<Vec<u8>> {
        let Self { r, s } = EcdsaSignature::from_der(der).ok()?;
        let mut numbers = vec![0; 2 * curve.len()];
        for (number, out) in [r, s].into_iter().zip(numbers.chunks_mut(curve.len())) {
            let start = out.len().checked_sub(number.as_bytes().len())?;
            out[start..].copy_from_slice(number.as_bytes());
        }
        Some(numbers)
    }
}

fn failed(_: der::Error) -> Error {
    Error::GeneralError
}
