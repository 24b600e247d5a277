//! RSA signatures and encryption (RFC 8017) on the integer operations of the `rsa` crate.
//!
//! Private operations are blinded, and their results are checked with the public exponent. So every
//! key needs that exponent.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crypto_bigint::modular::BoxedMontyForm;
use crypto_bigint::{BoxedUint, CheckedSub, ConcatenatingMul, Gcd, Integer, NonZero, Resize};
use getrandom::SysRng;
use getrandom::rand_core::UnwrapErr;
use jeton_crypto::rejection::Rejection;
use jeton_secret::Secret;
use rsa::hazmat::{rsa_decrypt_and_check, rsa_encrypt};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{PrivateKey as RsaPrivateKey, PublicKey as RsaPublicKey};
use zeroize::Zeroizing;

use super::emsa::Encoding;
use super::{PROVIDER, eme, failed, random};
use crate::backend::api::{
    Encryption, Leaf, PrivateKey, PrivateParts, PublicKey, PublicParts, RsaCrt, RsaPrivate, SHORTEST_RSA,
    Scheme, Signer, Verifier, failure, hmac_sha256, of_key_size, output,
};
use crate::error::{Error, Result, require};

/// Sizes of generated keys in bits.
const GENERATED: RangeInclusive<usize> = 1024..=8192;
/// Sizes of private keys in bits.
const PRIVATE_BITS: RangeInclusive<usize> = 1024..=16384;
/// Sizes of public keys in bits.
const PUBLIC_BITS: RangeInclusive<usize> = SHORTEST_RSA..=16384;

pub(super) fn generate(bits: usize, public_exponent: &[u8]) -> Result<(PublicParts, PrivateParts)> {
    require(GENERATED.contains(&bits), Error::KeySizeRange)?;
    let e = exponent(public_exponent)?;
    // The crate requires a generator that cannot fail. `fill` returns an error if the generator
    // fails now. If the generator fails only later, `new_with_exp` panics.
    random::fill(&mut [0; 32])?;
    let made = RsaPrivateKey::new_with_exp(&mut UnwrapErr(SysRng), bits, e.clone())
        .map_err(|error| failed("RSA key generation")(&error))?;
    let [p, q] = made.primes() else { return Err(Error::DeviceError) };
    // Computes d again from the primes. FIPS 186-5, A.1.1 requires d below lcm(p - 1, q - 1), and
    // the crate's first d is only below their product.
    pair(p.as_ref().clone(), q.as_ref().clone(), e)
}

/// Computes a pair with e = 65537 from its primes, which are equally long.
#[cfg(feature = "aws-lc")]
pub(super) fn of_primes([p, q]: &[Secret; 2]) -> Result<(PublicParts, PrivateParts)> {
    let bits = 8 * p.len() as u32;
    pair(number(p, bits)?, number(q, bits)?, BoxedUint::from(65537u32))
}

fn pair(p: BoxedUint, q: BoxedUint, e: BoxedUint) -> Result<(PublicParts, PrivateParts)> {
    let key = RsaPrivateKey::from_p_q(p, q, e).map_err(|error| failed("RSA key generation")(&error))?;
    Ok((public_parts(&key), private_parts(&key)?))
}

/// Parses a public exponent. It must be odd, at least 3 and below 2^33. The crate has this bound,
/// because a large exponent makes every operation slow.
fn exponent(bytes: &[u8]) -> Result<BoxedUint> {
    let e = BoxedUint::from_be_slice_vartime(bytes);
    let allowed = BoxedUint::from(3u8)..=BoxedUint::from(RsaPublicKey::MAX_PUB_EXPONENT);
    if bytes.is_empty() || bytes.len() > MAX_EXPONENT_LEN || !bool::from(e.is_odd()) || !allowed.contains(&e)
    {
        return Err(Error::DataInvalid);
    }
    Ok(e)
}

/// The length in bytes of the longest exponent that is parsed.
const MAX_EXPONENT_LEN: usize = 32;

fn public_parts(key: &impl PublicKeyParts) -> PublicParts {
    PublicParts::Rsa { n: key.n_bytes().into_vec(), e: key.e_bytes().into_vec() }
}

fn private_parts(key: &RsaPrivateKey) -> Result<PrivateParts> {
    let ([p, q], Some(dp), Some(dq), Some(qinv)) = (key.primes(), key.dp(), key.dq(), key.crt_coefficient())
    else {
        return Err(Error::DeviceError);
    };
    let qinv = Zeroizing::new(qinv);
    let crt = RsaCrt { p: secret(p), q: secret(q), dp: secret(dp), dq: secret(dq), qinv: secret(&qinv) };
    let (n, e) = (key.n_bytes().into_vec(), key.e_bytes().into_vec());
    Ok(PrivateParts::Rsa(RsaPrivate { n, e: Some(e), d: secret(key.d()), crt: Some(crt) }))
}

fn secret(number: &BoxedUint) -> Secret {
    let bytes = Zeroizing::new(number.to_be_bytes());
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Secret::from(&bytes[zeros..])
}

pub(super) fn public(n: &[u8], e: &[u8]) -> Result<Arc<dyn PublicKey>> {
    Ok(Arc::new(Public(public_key(n, &exponent(e)?, PUBLIC_BITS)?)))
}

fn public_key(n: &[u8], e: &BoxedUint, sizes: RangeInclusive<usize>) -> Result<RsaPublicKey> {
    // This check comes before any arithmetic: parsing takes linear time, but computing the
    // Montgomery parameters takes more.
    require(n.len() <= sizes.end() / 8, Error::KeySizeRange)?;
    let n = BoxedUint::from_be_slice_vartime(n);
    RsaPublicKey::new_with_size_limits(n, e.clone(), sizes).map_err(|error| match error {
        rsa::Error::ModulusTooSmall | rsa::Error::ModulusTooLarge => Error::KeySizeRange,
        _ => Error::DataInvalid,
    })
}

/// Parses a private key from the parts that are known.
///
/// If `e` is unknown, computes it from `p` and `dp`. If these are unknown too, tries the usual
/// exponents. Fails with `DataInvalid` if none of them fits, because without an exponent the key
/// would work without blinding and checks.
pub(super) fn private(parts: &RsaPrivate) -> Result<Arc<dyn PrivateKey>> {
    // This checks n first, with an exponent that fits every modulus.
    let any = public_key(&parts.n, &BoxedUint::from(65537u32), PRIVATE_BITS)?;
    let e = match (&parts.e, &parts.crt) {
        (Some(e), _) => exponent(e)?,
        (None, Some(crt)) => exponent_of_crt(crt)?,
        (None, None) => guess_exponent(&any, &parts.d)?,
    };
    let key = match &parts.crt {
        Some(crt) => with_primes(parts, e, crt)?,
        None => without_primes(parts, e)?,
    };
    let rejection = Rejection::new(&Leaf(PROVIDER.digest), &parts.d, key.size()).map_err(failure)?;
    Ok(Arc::new(Private { key, rejection }))
}

fn with_primes(parts: &RsaPrivate, e: BoxedUint, crt: &RsaCrt) -> Result<RsaPrivateKey> {
    let n = BoxedUint::from_be_slice_vartime(&parts.n);
    let half = n.bit_width_vartime().div_ceil(2);
    let d = number(&parts.d, n.bits_precision())?;
    let primes = vec![number(&crt.p, half)?, number(&crt.q, half)?];
    let key = RsaPrivateKey::from_components(n, e, d, primes).map_err(|_| Error::DataInvalid)?;
    // The crate computes dp, dq and qinv itself. If the caller's values differ, they belong to
    // another key or are faulty.
    let Ok(PrivateParts::Rsa(RsaPrivate { crt: Some(own), .. })) = private_parts(&key) else {
        // Two equal primes have no coefficient.
        return Err(Error::DataInvalid);
    };
    let agree = same(&own.dp, &crt.dp) & same(&own.dq, &crt.dq) & same(&own.qinv, &crt.qinv);
    if agree { Ok(key) } else { Err(Error::DataInvalid) }
}

/// Checks whether two numbers are equal, ignoring leading zeros of the second.
fn same(own: &Secret, given: &Secret) -> bool {
    let zeros = given.len().saturating_sub(own.len());
    let (leading, rest) = given.split_at(zeros);
    let differing = own.iter().zip(rest).fold(0, |all, (a, b)| all | (a ^ b));
    own.len() == rest.len() && leading.iter().fold(differing, |all, byte| all | byte) == 0
}

fn without_primes(parts: &RsaPrivate, e: BoxedUint) -> Result<RsaPrivateKey> {
    let public = public_key(&parts.n, &e, PRIVATE_BITS)?;
    let d = Zeroizing::new(number(&parts.d, public.n_bits_precision())?);
    let (p, q) = factor(&public, &d).ok_or(Error::DataInvalid)?;
    let (n, d) = (public.n().as_ref().clone(), BoxedUint::clone(&d));
    RsaPrivateKey::from_components(n, e, d, vec![p, q]).map_err(|_| Error::DataInvalid)
}

/// Finds the primes of a modulus (SP 800-56B, C.1) from a square root of 1 that is not 1 or -1. The
/// crate's own search needs a public exponent above 2^16.
fn factor(public: &RsaPublicKey, d: &BoxedUint) -> Option<(BoxedUint, BoxedUint)> {
    /// Each base fails with a probability of at most 1/2.
    const BASES: u32 = 100;
    let (n, params) = (public.n(), public.n_params());
    let one = BoxedMontyForm::one(params);
    let minus_one = one.neg();
    // (de - 1) = 2^t r is a multiple of the order of every number that is coprime to n.
    let order = Zeroizing::new(d.concatenating_mul(public.e()).checked_sub(&BoxedUint::one()).into_option()?);
    let t = order.trailing_zeros();
    let r = Zeroizing::new(order.shr(t));
    for base in 2..2 + BASES {
        let base = BoxedMontyForm::new(BoxedUint::from(base).resize_unchecked(n.bits_precision()), params);
        let mut root = base.pow(&r);
        for _ in 0..t {
            let square = root.square();
            if square == one {
                break;
            }
            root = square;
        }
        if root.square() != one {
            return None;
        }
        if root != one && root != minus_one {
            let p = root.sub(&one).retrieve().gcd(n.as_ref());
            let q = n.as_ref() / NonZero::new(p.clone()).into_option()?;
            return Some((p, q));
        }
    }
    None
}

/// Computes `e` as the inverse of `dp` modulo `p - 1`. `with_primes` then checks that `e` also fits
/// `d` and `q`.
fn exponent_of_crt(crt: &RsaCrt) -> Result<BoxedUint> {
    let bits = u32::try_from(8 * crt.p.len()).map_err(|_| Error::KeySizeRange)?;
    let p = Zeroizing::new(number(&crt.p, bits)?);
    let dp = Zeroizing::new(number(&crt.dp, bits)?);
    let order = p.checked_sub(&BoxedUint::one_with_precision(bits)).into_option();
    let order = order.and_then(|order| NonZero::new(order).into_option()).ok_or(Error::DataInvalid)?;
    let e = dp.invert_mod(&order).into_option().ok_or(Error::DataInvalid)?;
    exponent(&e.to_be_bytes_trimmed_vartime())
}

fn guess_exponent(any: &RsaPublicKey, d: &Secret) -> Result<BoxedUint> {
    let d = Zeroizing::new(number(d, any.n_bits_precision())?);
    let one = BoxedMontyForm::one(any.n_params());
    let two = one.add(&one);
    // The `e`-th power of `2^d mod n` is 2 if `e` and `d` belong together.
    let root = two.pow(&d);
    let belongs = |e: &BoxedUint| root.pow_bounded_exp(e, e.bit_width_vartime()) == two;
    RsaPrivate::USUAL_EXPONENTS.map(BoxedUint::from).into_iter().find(belongs).ok_or(Error::DataInvalid)
}

/// Parses an integer into `bits` bits of storage. Fails with `DataInvalid` if it needs more.
fn number(bytes: &[u8], bits: u32) -> Result<BoxedUint> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    BoxedUint::from_be_slice(&bytes[zeros..], bits).map_err(|_| Error::DataInvalid)
}

/// Computes RSASP1 (RFC 8017, 5.2.1), which equals RSADP. The input has the length of the modulus.
fn sign(key: &RsaPrivateKey, em: &[u8], out: &mut [u8]) -> Result<()> {
    let message = Zeroizing::new(integer(em, key)?);
    require(*message < *key.n().as_ref(), Error::DataInvalid)?;
    let signature = rsa_decrypt_and_check(key, Some(&mut SysRng), &message);
    write(&Zeroizing::new(signature.map_err(|error| failed("an RSA private operation")(&error))?), out);
    Ok(())
}

/// Computes RSAVP1 (RFC 8017, 5.2.2), which equals RSAEP. The signature has the length of the
/// modulus.
fn recover(public: &RsaPublicKey, signature: &[u8], em: &mut [u8]) -> Result<()> {
    let signature = integer(signature, public)?;
    require(signature < *public.n().as_ref(), Error::SignatureInvalid)?;
    write(&rsa_encrypt(public, &signature).map_err(|error| failed("an RSA verification")(&error))?, em);
    Ok(())
}

/// Parses an integer into storage of the modulus's size, as the crate requires.
fn integer(bytes: &[u8], key: &impl PublicKeyParts) -> Result<BoxedUint> {
    BoxedUint::from_be_slice(bytes, key.n_bits_precision()).map_err(|error| failed("an RSA operand")(&error))
}

/// Writes a number below the modulus to `out`, which has the length of the modulus.
fn write(number: &BoxedUint, out: &mut [u8]) {
    out.fill(0);
    for (chunk, word) in out.rchunks_mut(size_of::<crypto_bigint::Word>()).zip(number.as_words()) {
        let bytes = word.to_be_bytes();
        chunk.copy_from_slice(&bytes[bytes.len() - chunk.len()..]);
    }
}

struct Private {
    /// The crate wipes the key on drop.
    key: RsaPrivateKey,
    rejection: Rejection,
}

impl Private {
    /// Computes RSADP (RFC 8017, 5.1.2).
    fn decrypt_unpadded(&self, input: &[u8]) -> Result<Secret> {
        require(input.len() == self.key.size(), Error::EncryptedDataLenRange)?;
        let mut em = Secret::zeroed(input.len());
        sign(&self.key, input, &mut em).map_err(|error| match error {
            Error::DataInvalid => Error::EncryptedDataInvalid,
            error => error,
        })?;
        Ok(em)
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(public_parts(&self.key))
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let encoding = Encoding::new(scheme, bits(&self.key))?;
        let em = vec![0; self.key.size()];
        Ok(Box::new(RsaSigner { key: self, encoding, em }))
    }

    fn decrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        if *scheme == Encryption::Pkcs1 {
            let message = self.decrypt_pkcs1(input, &|_| true)?;
            output(out, message.len())?.copy_from_slice(&message);
            return Ok(message.len());
        }
        eme::decode(scheme, &mut self.decrypt_unpadded(input)?, out)
    }

    fn decrypt_pkcs1(&self, input: &[u8], fits: &dyn Fn(usize) -> bool) -> Result<Secret> {
        let em = self.decrypt_unpadded(input)?;
        self.rejection.decode(hmac_sha256(PROVIDER.macs), input, &em, fits).map_err(of_key_size)
    }
}

fn bits(key: &impl PublicKeyParts) -> usize {
    key.n().bit_width_vartime() as usize
}

struct RsaSigner {
    key: Arc<Private>,
    encoding: Encoding,
    em: Vec<u8>,
}

impl Signer for RsaSigner {
    fn signature_len(&self) -> usize {
        self.em.len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let out = output(out, self.em.len())?;
        self.encoding.encode(input, &mut self.em)?;
        sign(&self.key.key, &self.em, out)
    }
}

struct Public(RsaPublicKey);

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let encoding = Encoding::new(scheme, bits(&self.0))?;
        let (em, expected) = (vec![0; self.0.size()], vec![0; self.0.size()]);
        Ok(Box::new(RsaVerifier { key: self, encoding, em, expected }))
    }

    fn encrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.0.size();
        let out = output(out, len)?;
        let mut em = Zeroizing::new(vec![0; len]);
        eme::encode(scheme, input, &mut em)?;
        recover(&self.0, &em, out).map_err(|error| match error {
            Error::SignatureInvalid => Error::DataInvalid,
            error => error,
        })?;
        Ok(len)
    }

    fn encrypted_len(&self) -> usize {
        self.0.size()
    }
}

struct RsaVerifier {
    key: Arc<Public>,
    encoding: Encoding,
    em: Vec<u8>,
    expected: Vec<u8>,
}

impl Verifier for RsaVerifier {
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        require(signature.len() == self.em.len(), Error::SignatureLenRange)?;
        recover(&self.key.0, signature, &mut self.em)?;
        self.encoding.verify(input, &mut self.em, &mut self.expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::api::Hash;

    fn key(bits: usize, e: &[u8]) -> (Arc<dyn PublicKey>, RsaPrivate) {
        match generate(bits, e) {
            Ok((PublicParts::Rsa { n, e }, PrivateParts::Rsa(private))) => (public(&n, &e).unwrap(), private),
            _ => panic!("no RSA key"),
        }
    }

    #[test]
    fn imported_keys_of_unusual_sizes_sign_and_verify() {
        // With 2049 bits, the encoded message of PSS is one byte shorter than the modulus. 2056
        // bits are whole bytes but not whole words.
        for bits in [2049, 2056] {
            let key = RsaPrivateKey::new(&mut UnwrapErr(SysRng), bits).unwrap();
            let (PublicParts::Rsa { n, e }, Ok(PrivateParts::Rsa(parts))) =
                (public_parts(&key), private_parts(&key))
            else {
                panic!("no RSA key");
            };
            let (public, private) = (public(&n, &e).unwrap(), private(&parts).unwrap());
            for scheme in [
                Scheme::RsaRaw,
                Scheme::RsaPkcs1 { hash: Some(Hash::Sha256) },
                Scheme::RsaPss { hash: Hash::Sha256, mgf: Hash::Sha1, salt_len: 222 },
            ] {
                let mut signature = [0; 257];
                private.clone().signer(&scheme).unwrap().sign(&[7; 32], &mut signature).unwrap();
                let mut verifier = public.clone().verifier(&scheme).unwrap();
                assert_eq!(verifier.verify(&[7; 32], &signature), Ok(()), "{bits}");
                signature[256] ^= 1;
                assert_eq!(verifier.verify(&[7; 32], &signature), Err(Error::SignatureInvalid), "{bits}");
            }
        }
    }

    #[test]
    fn only_usual_exponents_are_found_without_the_primes() {
        let (_, mut parts) = key(2048, &[1, 0, 0x0f]);
        let public = private(&parts).unwrap().public().unwrap();
        parts.e = None;
        assert!(private(&parts).unwrap().public().unwrap() == public, "from p and dp");
        parts.crt = None;
        assert_eq!(private(&parts).err(), Some(Error::DataInvalid));
    }

    #[test]
    fn a_modulus_with_two_equal_primes_is_refused() {
        // d is 1 modulo p - 1, so that every equation between the exponents holds.
        let (_, mut parts) = key(2048, &[3]);
        let crt = parts.crt.as_mut().expect("primes");
        (crt.q, crt.dq) = (crt.p.duplicate(), crt.dp.duplicate());
        let p = BoxedUint::from_be_slice_vartime(&crt.p);
        (parts.n, parts.d) = (p.concatenating_mul(&p).to_be_bytes().into_vec(), crt.dp.duplicate());
        assert_eq!(private(&parts).err(), Some(Error::DataInvalid));
        parts.crt = None;
        assert_eq!(private(&parts).err(), Some(Error::DataInvalid));
    }
}
