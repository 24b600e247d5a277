//! ECDSA and ECDH on the NIST curves, secp256k1 and the brainpool curves (FIPS 186-5, 6; SP
//! 800-56A, 5.7.1.2).

use std::sync::Arc;

use bp256::{BrainpoolP256r1, BrainpoolP256t1};
use bp384::{BrainpoolP384r1, BrainpoolP384t1};
use ecdsa::elliptic_curve::ecdh::diffie_hellman;
use ecdsa::elliptic_curve::sec1::{FromSec1Point, ModulusSize, ToSec1Point};
use ecdsa::elliptic_curve::{self, CurveArithmetic, Generate};
use ecdsa::signature::hazmat::{PrehashVerifier, RandomizedPrehashSigner};
use ecdsa::{DigestAlgorithm, EcdsaCurve, Signature, SigningKey, VerifyingKey};
use getrandom::SysRng;
use jeton_secret::Secret;
use k256::Secp256k1;
use p224::NistP224;
use p256::NistP256;
use p384::NistP384;
use p521::NistP521;
use zeroize::Zeroizing;

use super::{failed, random};
use crate::backend::api::{
    Curve, PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier, output,
};
use crate::backend::shared::point::encoding;
use crate::error::{Error, Result, require};

type Parsed<K> = Result<Arc<K>>;

pub(super) fn generate(curve: Curve) -> Result<(PublicParts, PrivateParts)> {
    (functions(curve).generate)(curve)
}

pub(super) fn private(curve: Curve, scalar: &Secret) -> Parsed<dyn PrivateKey> {
    (functions(curve).private)(curve, scalar)
}

pub(super) fn public(curve: Curve, point: &[u8]) -> Parsed<dyn PublicKey> {
    (functions(curve).public)(curve, point)
}

pub(super) fn uncompressed(curve: Curve, point: &[u8]) -> Result<Vec<u8>> {
    (functions(curve).uncompressed)(curve, point)
}

/// The functions of a curve.
struct Functions {
    generate: fn(Curve) -> Result<(PublicParts, PrivateParts)>,
    private: fn(Curve, &Secret) -> Parsed<dyn PrivateKey>,
    public: fn(Curve, &[u8]) -> Parsed<dyn PublicKey>,
    uncompressed: fn(Curve, &[u8]) -> Result<Vec<u8>>,
}

fn functions(curve: Curve) -> Functions {
    match curve {
        Curve::P224 => on::<NistP224>(),
        Curve::P256 => on::<NistP256>(),
        Curve::P384 => on::<NistP384>(),
        Curve::P521 => on::<NistP521>(),
        Curve::Secp256k1 => on::<Secp256k1>(),
        Curve::BrainpoolP256r1 => on::<BrainpoolP256r1>(),
        Curve::BrainpoolP256t1 => on::<BrainpoolP256t1>(),
        Curve::BrainpoolP384r1 => on::<BrainpoolP384r1>(),
        Curve::BrainpoolP384t1 => on::<BrainpoolP384t1>(),
    }
}

fn on<C: Weierstrass>() -> Functions {
    Functions {
        generate: generate_on::<C>,
        private: private_on::<C>,
        public: public_on::<C>,
        uncompressed: |curve, point| {
            let key = VerifyingKey::<C>::from_sec1_bytes(&encoding(curve, point)?);
            Ok(key.map_err(|_| Error::DataInvalid)?.to_sec1_point(false).as_bytes().to_vec())
        },
    }
}

/// The requirements on a curve.
trait Weierstrass:
    EcdsaCurve<FieldBytesSize: ModulusSize>
    + CurveArithmetic<AffinePoint: FromSec1Point<Self> + ToSec1Point<Self>>
    + DigestAlgorithm
{
}
impl<C> Weierstrass for C where
    C: EcdsaCurve<FieldBytesSize: ModulusSize>
        + CurveArithmetic<AffinePoint: FromSec1Point<C> + ToSec1Point<C>>
        + DigestAlgorithm
{
}

fn generate_on<C: Weierstrass>(curve: Curve) -> Result<(PublicParts, PrivateParts)> {
    let key = SigningKey::<C>::try_generate_from_rng(&mut SysRng).map_err(random::unavailable)?;
    let scalar = Secret::from(&Zeroizing::new(key.to_bytes())[..]);
    Ok((public_parts(curve, key.verifying_key()), PrivateParts::Ec { curve, scalar }))
}

fn private_on<C: Weierstrass>(curve: Curve, scalar: &Secret) -> Parsed<dyn PrivateKey> {
    require(scalar.len() == curve.len(), Error::DataInvalid)?;
    // `from_slice` refuses zero and scalars that are not below the order.
    let key = SigningKey::<C>::from_slice(scalar).map_err(|_| Error::DataInvalid)?;
    Ok(Arc::new(Private { curve, key }))
}

fn public_on<C: Weierstrass>(curve: Curve, point: &[u8]) -> Parsed<dyn PublicKey> {
    // Compressed points and the point at infinity have other lengths.
    require(point.len() == 1 + 2 * curve.len(), Error::DataInvalid)?;
    let key = VerifyingKey::<C>::from_sec1_bytes(point).map_err(|_| Error::DataInvalid)?;
    Ok(Arc::new(Public { curve, key }))
}

fn public_parts<C: Weierstrass>(curve: Curve, key: &VerifyingKey<C>) -> PublicParts {
    PublicParts::Ec { curve, point: key.to_sec1_point(false).as_bytes().to_vec() }
}

/// The library wipes the key on drop.
struct Private<C: Weierstrass> {
    curve: Curve,
    key: SigningKey<C>,
}

impl<C: Weierstrass> PrivateKey for Private<C> {
    fn public(&self) -> Result<PublicParts> {
        Ok(public_parts(self.curve, self.key.verifying_key()))
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        match scheme {
            Scheme::Ecdsa => Ok(Box::new(EcdsaSigner(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }

    fn agree(&self, peer: &[u8]) -> Result<Secret> {
        // The crate also accepts other forms. It refuses points that are not on the curve. The
        // orders are prime, so no product is the neutral element.
        let peer = encoding(self.curve, peer)?;
        let peer = elliptic_curve::PublicKey::<C>::from_sec1_bytes(&peer).map_err(|_| Error::DataInvalid)?;
        let shared = diffie_hellman(self.key.as_nonzero_scalar(), peer.as_affine());
        Ok(Secret::from(&shared.raw_secret_bytes()[..]))
    }
}

struct EcdsaSigner<C: Weierstrass>(Arc<Private<C>>);

impl<C: Weierstrass> Signer for EcdsaSigner<C> {
    fn signature_len(&self) -> usize {
        2 * self.0.curve.len()
    }

    /// The nonce is that of RFC 6979 with added entropy (3.6). The key stays secret even if the
    /// random generator is broken. It also stays secret even if one of two computations of the same
    /// signature has a fault.
    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let out = output(out, self.signature_len())?;
        let digest = Representative::new(self.0.curve, input);
        let signature: Signature<C> = self
            .0
            .key
            .sign_prehash_with_rng(&mut SysRng, digest.as_bytes())
            .map_err(|error| failed("an ECDSA signature")(&error))?;
        out.copy_from_slice(&signature.to_bytes());
        Ok(())
    }
}

struct Public<C: Weierstrass> {
    curve: Curve,
    key: VerifyingKey<C>,
}

impl<C: Weierstrass> PublicKey for Public<C> {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        match scheme {
            Scheme::Ecdsa => Ok(Box::new(EcdsaVerifier(self))),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }
}

struct EcdsaVerifier<C: Weierstrass>(Arc<Public<C>>);

impl<C: Weierstrass> Verifier for EcdsaVerifier<C> {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let mut padded = [0; 2 * LONGEST];
        let padded = pad_halves(self.0.curve, signature, &mut padded)?;
        let signature = Signature::<C>::from_slice(padded).map_err(|_| Error::SignatureInvalid)?;
        // If s is valid, its negative is too. The crate for secp256k1 accepts only the lower one
        // (Bitcoin's rule).
        let signature = if C::NORMALIZE_S { signature.normalize_s() } else { signature };
        let digest = Representative::new(self.0.curve, input);
        self.0.key.verify_prehash(digest.as_bytes(), &signature).map_err(|_| Error::SignatureInvalid)
    }
}

/// Pads `r || s` to full length. PKCS#11 3.2, 6.3.1 (EC signatures) permits shorter halves of equal
/// length.
fn pad_halves<'a>(curve: Curve, signature: &[u8], padded: &'a mut [u8; 2 * LONGEST]) -> Result<&'a [u8]> {
    let (full, half) = (curve.len(), signature.len() / 2);
    if signature.is_empty() || !signature.len().is_multiple_of(2) || half > full {
        return Err(Error::SignatureLenRange);
    }
    let (r, s) = signature.split_at(half);
    padded[full - half..full].copy_from_slice(r);
    padded[2 * full - half..2 * full].copy_from_slice(s);
    Ok(&padded[..2 * full])
}

/// The length of the longest order in bytes.
const LONGEST: usize = Curve::P521.len();

/// A digest as an integer with the length of the order (FIPS 186-5, 6.4.1, step 2). A shorter
/// digest is padded on the left. A longer digest is truncated to its leftmost bits. For P-521,
/// whose order does not have a multiple of 8 bits, `ecdsa` 0.17 takes the wrong bits of a digest.
/// So `ecdsa` receives this integer instead.
struct Representative {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Representative {
    fn new(curve: Curve, digest: &[u8]) -> Self {
        let len = curve.len();
        let taken = digest.len().min(len);
        let mut bytes = [0; LONGEST];
        bytes[len - taken..len].copy_from_slice(&digest[..taken]);
        let surplus = 8 * len - curve.bits();
        if taken == len && surplus != 0 {
            shift_right(&mut bytes[..len], surplus);
        }
        Self { bytes, len }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Shifts a big-endian integer right by 1 to 7 bits.
fn shift_right(bytes: &mut [u8], bits: usize) {
    let mut carry = 0;
    for byte in bytes {
        (*byte, carry) = (*byte >> bits | carry, *byte << (8 - bits));
    }
}
