//! RSA: the checks of sizes, exponents and input lengths, and the cases that AWS-LC does not
//! support.

use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::{PROVIDER, elsewhere, ffi, output, verdict};
use crate::backend::rejection::Rejection;
use crate::backend::{
    Encryption, Hash, PairSpec, PrivateKey, PrivateParts, PublicKey, PublicParts, RsaCrt, RsaPrivate,
    SHORTEST_RSA, Scheme, Signer, Verifier,
};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// Sizes in bits of the moduli of private keys. AWS-LC supports at most 16384 bits.
const PRIVATE_BITS: RangeInclusive<usize> = 1024..=16384;
/// Sizes in bits of the moduli of public keys.
const PUBLIC_BITS: RangeInclusive<usize> = SHORTEST_RSA..=16384;
/// Sizes in bits of generated moduli.
const GENERATED_BITS: RangeInclusive<usize> = 1024..=8192;
/// AWS-LC rounds the size of a modulus down to a multiple of this number of bits. RustCrypto
/// generates the other sizes.
const GENERATED_STEP: usize = 128;
/// FIPS 186-5, A.1.1: e < 2^256. A limit is necessary, because the cost of a verification grows
/// with e.
const MAX_EXPONENT_BITS: usize = 256;
/// AWS-LC generates keys with exponents up to this size in bits.
const MAX_GENERATED_EXPONENT_BITS: usize = 32;

pub(super) fn generate(bits: usize, public_exponent: &[u8]) -> Result<(PublicParts, PrivateParts)> {
    if !GENERATED_BITS.contains(&bits) {
        return Err(Error::KeySizeRange);
    }
    if !bits.is_multiple_of(GENERATED_STEP) {
        let other = elsewhere().map_err(|_| Error::KeySizeRange)?;
        return other.keys.generate(&PairSpec::Rsa { bits, public_exponent });
    }
    let e = ffi::Bignum::new(public_exponent)?;
    // With an even exponent AWS-LC would search for primes that do not exist.
    let odd = public_exponent.last().is_some_and(|last| last & 1 == 1);
    if !odd || !(2..=MAX_GENERATED_EXPONENT_BITS).contains(&e.bits()) {
        return Err(Error::DataInvalid);
    }
    let ffi::Numbers { n, e, d, p, q, dp, dq, qinv } = ffi::Rsa::generate(bits, &e)?.numbers()?;
    let (n, e) = (n.to_vec(), e.to_vec());
    let public = PublicParts::Rsa { n: n.clone(), e: e.clone() };
    let crt = Some(RsaCrt { p, q, dp, dq, qinv });
    Ok((public, PrivateParts::Rsa(RsaPrivate { n, e: Some(e), d, crt })))
}

/// A private key, and the data for the implicit rejection of a wrong PKCS #1 v1.5 padding.
pub(super) struct Private {
    rsa: ffi::Rsa,
    modulus: Modulus,
    e: Vec<u8>,
    rejection: Rejection,
}

impl Private {
    /// Parses a private key. If `e` is unknown, tries the usual exponents: without one, AWS-LC
    /// could not blind the operations, check them for faults, or find a wrong `d`.
    pub(super) fn parse(parts: &RsaPrivate) -> Result<Self> {
        if let Some(e) = &parts.e {
            return Self::with_exponent(parts, e);
        }
        for e in RsaPrivate::USUAL_EXPONENTS {
            match Self::with_exponent(parts, &e.to_be_bytes()) {
                Err(Error::DataInvalid) => {}
                done => return done,
            }
        }
        Err(Error::DataInvalid)
    }

    fn with_exponent(parts: &RsaPrivate, e: &[u8]) -> Result<Self> {
        let (n, modulus) = Modulus::parse(&parts.n, PRIVATE_BITS)?;
        let (e, d) = (exponent(e)?, ffi::Bignum::new(&parts.d)?);
        if d.bits() > n.bits() {
            return Err(Error::DataInvalid);
        }
        let rsa = match &parts.crt {
            Some(crt) => ffi::Rsa::private(&n, &e, &d, &numbers(crt)?)?,
            None => ffi::Rsa::private_no_crt(&n, &e, &d)?,
        };
        let rejection = Rejection::new(PROVIDER.digest, &parts.d, modulus.len())?;
        let key = Self { rsa, modulus, e: e.to_bytes(), rejection };
        key.warm_up()?;
        Ok(key)
    }

    /// Signs once at load, which costs as much as any signature (0.2 to 5 ms, 2048 to 4096 bits).
    /// Without this, the first signature would fill the pool of blinding factors and take longer.
    /// AWS-LC checks every result against `e`. So this also proves that `d` belongs to `e`, which
    /// no other check does for a key without primes.
    fn warm_up(&self) -> Result<()> {
        let mut two = vec![0; self.modulus.len()];
        two[self.modulus.len() - 1] = 2;
        let mut out = Secret::zeroed(self.modulus.len());
        self.rsa.try_out(&two, &mut out)
    }

    fn decrypt_unpadded(&self, input: &[u8], out: &mut [u8]) -> Result<Option<usize>> {
        let decrypted = if self.modulus.is_fixed(input) {
            out.copy_from_slice(input);
            true
        } else {
            self.rsa.decrypt_unpadded(input, out)?
        };
        Ok(decrypted.then_some(out.len()))
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Rsa { n: self.modulus.0.clone(), e: self.e.clone() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let padding = Padding::of(scheme, &self.modulus)?;
        let scratch = vec![0; self.modulus.len()];
        Ok(Box::new(RsaSigner { key: self, padding, scratch }))
    }

    fn decrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        if input.len() != self.modulus.len() {
            return Err(Error::EncryptedDataLenRange);
        }
        let out = output(out, self.modulus.len())?;
        let len = match scheme {
            Encryption::Raw => self.decrypt_unpadded(input, out)?,
            Encryption::Pkcs1 => {
                let message = self.decrypt_pkcs1(input, &|_| true)?;
                output(out, message.len())?.copy_from_slice(&message);
                Some(message.len())
            }
            Encryption::Oaep { hash, mgf, label } => {
                oaep_room(*hash, *mgf, &self.modulus)?;
                let mut encoded = Secret::zeroed(self.modulus.len());
                let decrypted = self.rsa.decrypt_unpadded(input, &mut encoded)?;
                if decrypted { ffi::oaep_decode(*hash, *mgf, label, &encoded, out) } else { None }
            }
        };
        len.ok_or(Error::EncryptedDataInvalid)
    }

    fn decrypt_pkcs1(&self, input: &[u8], fits: &dyn Fn(usize) -> bool) -> Result<Secret> {
        if input.len() != self.modulus.len() {
            return Err(Error::EncryptedDataLenRange);
        }
        let mut em = Secret::zeroed(input.len());
        self.decrypt_unpadded(input, &mut em)?.ok_or(Error::EncryptedDataInvalid)?;
        self.rejection.decode(PROVIDER.macs, input, &em, fits)
    }
}

/// A public key.
pub(super) struct Public {
    rsa: ffi::Rsa,
    modulus: Modulus,
}

impl Public {
    pub(super) fn parse(n: &[u8], e: &[u8]) -> Result<Self> {
        let (n, modulus) = Modulus::parse(n, PUBLIC_BITS)?;
        Ok(Self { rsa: ffi::Rsa::public(&n, &exponent(e)?)?, modulus })
    }
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let padding = Padding::of(scheme, &self.modulus)?;
        let scratch = vec![0; self.modulus.len()];
        Ok(Box::new(RsaVerifier { key: self, padding, scratch }))
    }

    fn encrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        let len = self.modulus.len();
        let room = match scheme {
            Encryption::Raw => len,
            Encryption::Pkcs1 => len - PKCS1_OVERHEAD,
            Encryption::Oaep { hash, mgf, .. } => oaep_room(*hash, *mgf, &self.modulus)?,
        };
        if input.len() > room {
            return Err(Error::DataLenRange);
        }
        let out = output(out, len)?;
        let mut encoded = Secret::zeroed(len);
        match scheme {
            Encryption::Raw => {
                pad_left(&mut encoded, input);
                if *encoded >= *self.modulus.0 {
                    return Err(Error::DataInvalid);
                }
                self.rsa.encrypt_unpadded(&encoded, out)?;
            }
            Encryption::Pkcs1 => self.rsa.encrypt_pkcs1(input, out)?,
            Encryption::Oaep { hash, mgf, label } => {
                ffi::oaep_encode(*hash, *mgf, label, input, &mut encoded)?;
                self.rsa.encrypt_unpadded(&encoded, out)?;
            }
        }
        Ok(len)
    }

    fn encrypted_len(&self) -> usize {
        self.modulus.len()
    }
}

/// Returns the length of the longest message for OAEP (RFC 8017, 7.1.1). Fails with `KeySizeRange`
/// if there is no room at all.
fn oaep_room(hash: Hash, mgf: Hash, modulus: &Modulus) -> Result<usize> {
    fixed_length(hash)?;
    fixed_length(mgf)?;
    modulus.len().checked_sub(2 * hash.len() + 2).ok_or(Error::KeySizeRange)
}

/// Checks that this backend supports the hash in the encodings of RFC 8017. It supports neither
/// extendable output (RFC 8702) nor BLAKE2b there.
fn fixed_length(hash: Hash) -> Result<()> {
    match hash {
        Hash::Shake128 | Hash::Shake256 => Err(Error::MechanismParamInvalid),
        hash if hash.is_blake2b() => Err(Error::MechanismParamInvalid),
        _ => Ok(()),
    }
}

/// The modulus without leading zeros. Its length is the length of a signature.
struct Modulus(Vec<u8>);

impl Modulus {
    fn parse(bytes: &[u8], sizes: RangeInclusive<usize>) -> Result<(ffi::Bignum, Self)> {
        let n = ffi::Bignum::new(bytes)?;
        if !sizes.contains(&n.bits()) {
            return Err(Error::KeySizeRange);
        }
        let modulus = Self(n.to_bytes());
        Ok((n, modulus))
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bits(&self) -> usize {
        8 * self.len() - self.0[0].leading_zeros() as usize
    }

    /// Checks whether a number is 0, 1 or the modulus minus 1. Every exponent is odd, so it maps
    /// these numbers to themselves. AWS-LC refuses to sign them. `number` is as long as the
    /// modulus.
    fn is_fixed(&self, number: &[u8]) -> bool {
        let Some((last, front)) = number.split_last() else { return false };
        let small = *last <= 1 && front.iter().all(|byte| *byte == 0);
        // The modulus is odd, so subtracting 1 clears its lowest bit.
        let (own_last, own_front) = (self.0[front.len()], &self.0[..front.len()]);
        small || (front == own_front && *last == own_last & !1)
    }
}

fn exponent(e: &[u8]) -> Result<ffi::Bignum> {
    let e = ffi::Bignum::new(e)?;
    if e.bits() > MAX_EXPONENT_BITS { Err(Error::KeySizeRange) } else { Ok(e) }
}

fn numbers(crt: &RsaCrt) -> Result<ffi::Crt> {
    Ok(ffi::Crt {
        p: ffi::Bignum::new(&crt.p)?,
        q: ffi::Bignum::new(&crt.q)?,
        dp: ffi::Bignum::new(&crt.dp)?,
        dq: ffi::Bignum::new(&crt.dq)?,
        qinv: ffi::Bignum::new(&crt.qinv)?,
    })
}

/// The length of a DigestInfo without its digest (RFC 8017, 9.2, note 1). With SHA-1 it is shorter.
const DIGEST_INFO: usize = 19;
/// The least length of the padding of PKCS #1 v1.5 (RFC 8017, 9.2).
const PKCS1_OVERHEAD: usize = 11;

/// An RSA padding that fits the size of the key.
#[derive(Clone, Copy)]
enum Padding {
    None,
    Pkcs1,
    Pkcs1Digest(Hash),
    Pss { hash: Hash, mgf: Hash, salt_len: c_int },
}

impl Padding {
    fn of(scheme: &Scheme, modulus: &Modulus) -> Result<Self> {
        match *scheme {
            Scheme::RsaRaw => Ok(Self::None),
            Scheme::RsaPkcs1 { hash: None } => Ok(Self::Pkcs1),
            Scheme::RsaPkcs1 { hash: Some(hash) } => {
                fixed_length(hash)?;
                let least = DIGEST_INFO + hash.len() + PKCS1_OVERHEAD;
                if modulus.len() < least { Err(Error::KeySizeRange) } else { Ok(Self::Pkcs1Digest(hash)) }
            }
            Scheme::RsaPss { hash, mgf, salt_len } => Self::pss(hash, mgf, salt_len, modulus),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }

    fn pss(hash: Hash, mgf: Hash, salt_len: usize, modulus: &Modulus) -> Result<Self> {
        fixed_length(hash)?;
        fixed_length(mgf)?;
        // RFC 8017, 9.1.1: emBits is the size of the modulus minus 1. The hash, the salt and two
        // bytes must fit.
        let room = (modulus.bits() - 1).div_ceil(8).checked_sub(hash.len() + 2);
        match c_int::try_from(salt_len) {
            Ok(len) if room.is_some_and(|room| salt_len <= room) => {
                Ok(Self::Pss { hash, mgf, salt_len: len })
            }
            _ => Err(Error::KeySizeRange),
        }
    }

    /// Checks that an input of this length can be signed.
    fn takes(self, input: usize, modulus: &Modulus) -> Result<()> {
        let fits = match self {
            Self::None => input <= modulus.len(),
            Self::Pkcs1 => input <= modulus.len() - PKCS1_OVERHEAD,
            Self::Pkcs1Digest(hash) | Self::Pss { hash, .. } => input == hash.len(),
        };
        if fits { Ok(()) } else { Err(Error::DataLenRange) }
    }
}

struct RsaSigner {
    key: Arc<Private>,
    padding: Padding,
    scratch: Vec<u8>,
}

impl RsaSigner {
    fn sign_unpadded(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        pad_left(&mut self.scratch, input);
        if self.scratch >= self.key.modulus.0 {
            return Err(Error::DataInvalid);
        }
        if self.key.modulus.is_fixed(&self.scratch) {
            out.copy_from_slice(&self.scratch);
            return Ok(());
        }
        self.key.rsa.sign_unpadded(&self.scratch, out)
    }
}

impl Signer for RsaSigner {
    fn signature_len(&self) -> usize {
        self.key.modulus.len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.padding.takes(input.len(), &self.key.modulus)?;
        let out = output(out, self.key.modulus.len())?;
        let rsa = &self.key.rsa;
        match self.padding {
            Padding::None => self.sign_unpadded(input, out),
            Padding::Pkcs1 => rsa.sign_pkcs1_raw(input, out),
            Padding::Pkcs1Digest(hash) => rsa.sign_pkcs1(hash, input, out),
            Padding::Pss { hash, mgf, salt_len } => rsa.sign_pss(hash, mgf, salt_len, input, out),
        }
    }
}

struct RsaVerifier {
    key: Arc<Public>,
    padding: Padding,
    scratch: Vec<u8>,
}

impl RsaVerifier {
    fn verify_unpadded(&mut self, input: &[u8], signature: &[u8]) -> bool {
        let Some(signed) = self.key.rsa.recover_unpadded(signature, &mut self.scratch) else { return false };
        // The recovered integer is as long as the modulus. If the input is shorter, only zeros may
        // precede it there.
        let (zeros, signed) = signed.split_at(signed.len() - input.len());
        ffi::equal(signed, input) && zeros.iter().all(|byte| *byte == 0)
    }

    fn verify_pkcs1(&mut self, input: &[u8], signature: &[u8]) -> bool {
        let signed = self.key.rsa.recover_pkcs1(signature, &mut self.scratch);
        signed.is_some_and(|signed| ffi::equal(signed, input))
    }
}

impl Verifier for RsaVerifier {
    fn signature_len(&self) -> usize {
        self.key.modulus.len()
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        self.padding.takes(input.len(), &self.key.modulus)?;
        if signature.len() != self.key.modulus.len() {
            return Err(Error::SignatureLenRange);
        }
        verdict(match self.padding {
            Padding::None => self.verify_unpadded(input, signature),
            Padding::Pkcs1 => self.verify_pkcs1(input, signature),
            Padding::Pkcs1Digest(hash) => self.key.rsa.verify_pkcs1(hash, input, signature),
            Padding::Pss { hash, mgf, salt_len } => {
                self.key.rsa.verify_pss(hash, mgf, salt_len, input, signature)
            }
        })
    }
}

/// Writes `number` to the right end of `out` and zeros before it. `number` must not be longer than
/// `out`.
fn pad_left(out: &mut [u8], number: &[u8]) {
    let (zeros, rest) = out.split_at_mut(out.len() - number.len());
    zeros.fill(0);
    rest.copy_from_slice(number);
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::tests::{generate, hex, sign, signer, verify};
    use super::*;
    use crate::backend::PairSpec;

    const F4: [u8; 3] = [1, 0, 1];
    const RAW: Scheme = Scheme::RsaRaw;
    const PKCS1: Scheme = Scheme::RsaPkcs1 { hash: None };

    /// Returns the hashes that the encodings of RFC 8017 accept. The SHAKEs, which come last, are
    /// not among them.
    fn hashes() -> &'static [Hash] {
        &Hash::ALL[..11]
    }

    static PAIR: LazyLock<(PublicParts, PrivateParts)> =
        LazyLock::new(|| generate(PairSpec::Rsa { bits: 2048, public_exponent: &F4 }));

    /// Returns a public key with the odd modulus 2^1024 - 1. It is sufficient for tests without a
    /// private key.
    fn public_1024() -> PublicParts {
        PublicParts::Rsa { n: vec![0xff; 128], e: F4.to_vec() }
    }

    fn private() -> &'static RsaPrivate {
        let PrivateParts::Rsa(private) = &PAIR.1 else { panic!("not RSA") };
        private
    }

    fn n() -> &'static [u8] {
        &private().n
    }

    /// Returns the key with only some of its parts.
    fn parts(e: bool, crt: bool) -> RsaPrivate {
        let RsaPrivate { n, e: exponent, d, crt: numbers } = private();
        let crt = numbers.as_ref().filter(|_| crt).map(|crt| RsaCrt {
            p: crt.p.duplicate(),
            q: crt.q.duplicate(),
            dp: crt.dp.duplicate(),
            dq: crt.dq.duplicate(),
            qinv: crt.qinv.duplicate(),
        });
        RsaPrivate { n: n.clone(), e: exponent.clone().filter(|_| e), d: d.duplicate(), crt }
    }

    fn pss(hash: Hash, mgf: Hash, salt_len: usize) -> Scheme {
        Scheme::RsaPss { hash, mgf, salt_len }
    }

    #[test]
    fn every_scheme_verifies_and_one_changed_bit_does_not() {
        let mut schemes = vec![(RAW, 256), (PKCS1, 245), (PKCS1, 0)];
        for &hash in hashes() {
            schemes.push((Scheme::RsaPkcs1 { hash: Some(hash) }, hash.len()));
            schemes.push((pss(hash, hash, hash.len()), hash.len()));
        }
        schemes.push((pss(Hash::Sha256, Hash::Sha1, 0), 32));
        schemes.push((pss(Hash::Sha1, Hash::Sha512, 20), 20));
        schemes.push((pss(Hash::Sha384, Hash::Sha256, 256 - 48 - 2), 48));
        let (public, private) = &*PAIR;
        for (scheme, len) in schemes {
            let input = vec![0x55; len];
            let mut signature = sign(private, &scheme, &input).unwrap();
            verify(public, &scheme, &input, &signature).unwrap();
            let wrong = Err(Error::SignatureInvalid);
            if len > 0 {
                let mut other = input.clone();
                other[len - 1] ^= 1;
                assert_eq!(verify(public, &scheme, &other, &signature), wrong);
            }
            signature[200] ^= 4;
            assert_eq!(verify(public, &scheme, &input, &signature), wrong);
            assert_eq!(verify(public, &scheme, &input, &[0xff; 256]), wrong);
        }
    }

    #[test]
    fn pss_verifies_only_with_the_same_parameters() {
        let (public, private) = &*PAIR;
        let signature = sign(private, &pss(Hash::Sha256, Hash::Sha256, 32), &[1; 32]).unwrap();
        for other in [pss(Hash::Sha256, Hash::Sha256, 31), pss(Hash::Sha256, Hash::Sha384, 32)] {
            assert_eq!(verify(public, &other, &[1; 32], &signature), Err(Error::SignatureInvalid));
        }
    }

    #[test]
    fn a_salt_that_does_not_fit_fails_with_key_size_range() {
        for salt_len in [256 - 32 - 1, usize::MAX] {
            let scheme = pss(Hash::Sha256, Hash::Sha256, salt_len);
            assert_eq!(signer(&PAIR.1, &scheme).err(), Some(Error::KeySizeRange));
        }
        let fits = pss(Hash::Sha512, Hash::Sha512, 62);
        assert_eq!(verify(&public_1024(), &fits, &[0; 64], &[0; 128]), Err(Error::SignatureInvalid));
        let scheme = pss(Hash::Sha512, Hash::Sha512, 63);
        assert_eq!(verify(&public_1024(), &scheme, &[0; 64], &[0; 128]), Err(Error::KeySizeRange));
    }

    #[test]
    fn the_three_ways_to_sign_pkcs1_give_the_same_signature() {
        let private = &PAIR.1;
        let digest = [9; 32];
        // RFC 8017, 9.2, note 1: SHA-256.
        let info = [hex("3031300d060960864801650304020105000420"), digest.to_vec()].concat();
        let padded = [&[0, 1][..], &vec![0xff; 256 - 3 - info.len()], &[0], &info].concat();
        let signature = sign(private, &Scheme::RsaPkcs1 { hash: Some(Hash::Sha256) }, &digest).unwrap();
        assert_eq!(sign(private, &PKCS1, &info).unwrap(), signature);
        assert_eq!(sign(private, &RAW, &padded).unwrap(), signature);
        assert_eq!(sign(private, &RAW, &padded[1..]).unwrap(), signature);
    }

    #[test]
    fn raw_input_is_padded_on_the_left_and_must_be_below_the_modulus() {
        let (public, private) = &*PAIR;
        let signature = sign(private, &RAW, &[7]).unwrap();
        for input in [&[7][..], &[0, 7], &pad_to(256, &[7])] {
            assert_eq!(sign(private, &RAW, input).unwrap(), signature);
            verify(public, &RAW, input, &signature).unwrap();
        }
        assert_eq!(verify(public, &RAW, &[], &signature), Err(Error::SignatureInvalid));
        assert_eq!(sign(private, &RAW, n()), Err(Error::DataInvalid));
        assert_eq!(sign(private, &RAW, &[0xff; 256]), Err(Error::DataInvalid));
        assert_eq!(sign(private, &RAW, &[0; 257]), Err(Error::DataLenRange));
        assert_eq!(verify(public, &RAW, &[0; 257], &signature), Err(Error::DataLenRange));
    }

    #[test]
    fn zero_one_and_the_modulus_minus_one_are_signed() {
        let (public, private) = &*PAIR;
        let mut last = n().to_vec();
        last[255] -= 1;
        for number in [&[][..], &[0], &[1], &last] {
            let signature = sign(private, &RAW, number).unwrap();
            assert_eq!(signature, pad_to(256, number));
            verify(public, &RAW, number, &signature).unwrap();
        }
    }

    #[test]
    fn wrong_lengths_of_inputs_and_signatures_are_refused() {
        let (public, private) = &*PAIR;
        let sha256 = Scheme::RsaPkcs1 { hash: Some(Hash::Sha256) };
        let pss = pss(Hash::Sha256, Hash::Sha256, 32);
        for (scheme, len) in [(&PKCS1, 246), (&sha256, 31), (&sha256, 33), (&pss, 20), (&pss, 0)] {
            assert_eq!(sign(private, scheme, &vec![0; len]), Err(Error::DataLenRange));
            assert_eq!(verify(public, scheme, &vec![0; len], &[0; 256]), Err(Error::DataLenRange));
        }
        for scheme in [&RAW, &PKCS1, &sha256, &pss] {
            for len in [0, 255, 257] {
                assert_eq!(verify(public, scheme, &[0; 32], &vec![0; len]), Err(Error::SignatureLenRange));
            }
        }
    }

    #[test]
    fn a_key_signs_without_its_primes_and_without_its_exponent() {
        let expected = sign(&PAIR.1, &RAW, &[7]).unwrap();
        for (e, crt) in [(true, true), (true, false), (false, true), (false, false)] {
            let private = PrivateParts::Rsa(parts(e, crt));
            assert_eq!(sign(&private, &RAW, &[7]).unwrap(), expected);
            assert!(PROVIDER.keys.private(&private).unwrap().public().unwrap() == PAIR.0);
        }
    }

    #[test]
    fn numbers_of_different_keys_are_refused() {
        type Damage = fn(&mut RsaPrivate);
        let damages: [Damage; 6] = [
            |key| key.n[255] ^= 1,
            |key| key.n[100] ^= 1,
            |key| key.e = Some(vec![3]),
            |key| key.e = Some(vec![1]),
            |key| key.d[100] ^= 1,
            |key| key.d = Secret::new([&[1][..], &vec![0; 256]].concat()),
        ];
        for (damage, crt) in damages.iter().flat_map(|damage| [(damage, true), (damage, false)]) {
            let mut key = parts(true, crt);
            damage(&mut key);
            assert_eq!(Private::parse(&key).err(), Some(Error::DataInvalid));
        }
        for damaged in 0..5 {
            let mut key = parts(true, true);
            let crt = key.crt.as_mut().unwrap();
            let number = [&mut crt.p, &mut crt.q, &mut crt.dp, &mut crt.dq, &mut crt.qinv];
            number[damaged][60] ^= 2;
            assert_eq!(Private::parse(&key).err(), Some(Error::DataInvalid));
        }
    }

    #[test]
    fn a_wrong_private_exponent_is_refused_without_the_public_one() {
        for crt in [true, false] {
            let mut key = parts(false, crt);
            key.d[100] ^= 1;
            assert_eq!(Private::parse(&key).err(), Some(Error::DataInvalid), "{crt}");
        }
        let key = RsaPrivate { n: vec![0xff; 64], ..parts(false, false) };
        assert_eq!(Private::parse(&key).err(), Some(Error::KeySizeRange));
    }

    #[test]
    fn a_trivial_private_exponent_is_refused() {
        for (d, e) in [([0], true), ([0], false), ([1], true), ([1], false)] {
            let key = RsaPrivate { d: Secret::from(&d[..]), ..parts(e, false) };
            assert_eq!(Private::parse(&key).err(), Some(Error::DataInvalid));
        }
    }

    #[test]
    fn sizes_outside_the_range_fail_with_key_size_range() {
        for (bytes, expected) in
            [(63, Err(Error::KeySizeRange)), (64, Ok(())), (2048, Ok(())), (2049, Err(Error::KeySizeRange))]
        {
            let n = [&[0][..], &vec![0xff; bytes]].concat();
            assert_eq!(Public::parse(&n, &F4).map(|_| ()), expected);
        }
        let bad = Some(Error::DataInvalid);
        assert_eq!(Public::parse(&[0xfe; 128], &F4).err(), bad);
        for e in [&[][..], &[0], &[1], &[1, 0, 0]] {
            assert_eq!(Public::parse(n(), e).err(), bad);
        }
        assert!(Public::parse(n(), &[0xff; 32]).is_ok());
        assert_eq!(Public::parse(n(), &[0xff; 33]).err(), Some(Error::KeySizeRange));
    }

    #[test]
    fn only_supported_sizes_and_exponents_are_generated() {
        for bits in [0, 1023, 8193, 8320, usize::MAX] {
            assert_eq!(super::generate(bits, &F4).err(), Some(Error::KeySizeRange), "{bits}");
        }
        for e in [&[][..], &[0], &[1], &[2], &[1, 0, 0], &[1, 0, 0, 0, 1]] {
            assert_eq!(super::generate(2048, e).err(), Some(Error::DataInvalid), "{e:?}");
        }
        let (public, private) = generate(PairSpec::Rsa { bits: 2176, public_exponent: &[3] });
        let signature = sign(&private, &PKCS1, b"message").unwrap();
        assert_eq!(signature.len(), 2176 / 8);
        verify(&public, &PKCS1, b"message", &signature).unwrap();
    }

    fn pad_to(len: usize, number: &[u8]) -> Vec<u8> {
        let mut out = vec![0xaa; len];
        pad_left(&mut out, number);
        out
    }

    fn oaep(hash: Hash, mgf: Hash, label: &[u8]) -> Encryption {
        Encryption::Oaep { hash, mgf, label: label.into() }
    }

    fn encrypt(scheme: &Encryption, input: &[u8]) -> Result<Vec<u8>> {
        let key = Public::parse(n(), &F4)?;
        let mut out = vec![0; key.encrypted_len()];
        assert_eq!(key.encrypt(scheme, input, &mut out)?, out.len());
        Ok(out)
    }

    fn decrypt(parts: &RsaPrivate, scheme: &Encryption, input: &[u8]) -> Result<Vec<u8>> {
        let mut out = vec![0; 256];
        let len = Private::parse(parts)?.decrypt(scheme, input, &mut out)?;
        out.truncate(len);
        Ok(out)
    }

    #[test]
    fn every_encryption_is_reversed_only_by_its_own_decryption() {
        let mut schemes = vec![(Encryption::Pkcs1, 245)];
        for &hash in hashes() {
            let room = 256 - 2 * hash.len() - 2;
            schemes.push((oaep(hash, hash, b""), room));
            schemes.push((oaep(hash, Hash::Sha1, b"label"), room));
        }
        let (private, other) = (private(), oaep(Hash::Sha256, Hash::Sha384, b"other"));
        for (scheme, room) in schemes {
            for len in [0, 1, room] {
                let plain = vec![0x55; len];
                let mut ciphertext = encrypt(&scheme, &plain).unwrap();
                assert_eq!(decrypt(private, &scheme, &ciphertext).unwrap(), plain);
                let refused = Err(Error::EncryptedDataInvalid);
                assert_eq!(decrypt(private, &other, &ciphertext), refused);
                // This number is not below the modulus.
                ciphertext.fill(0xff);
                assert_eq!(decrypt(private, &scheme, &ciphertext), refused);
            }
            assert_eq!(encrypt(&scheme, &vec![0; room + 1]), Err(Error::DataLenRange));
            for len in [0, 255, 257] {
                assert_eq!(decrypt(private, &scheme, &vec![1; len]), Err(Error::EncryptedDataLenRange));
            }
        }
        for bad in [oaep(Hash::Shake256, Hash::Sha256, b""), oaep(Hash::Sha256, Hash::Shake128, b"")] {
            assert_eq!(encrypt(&bad, b""), Err(Error::MechanismParamInvalid));
            assert_eq!(decrypt(private, &bad, &[1; 256]), Err(Error::MechanismParamInvalid));
        }
    }

    #[test]
    fn raw_encryption_is_a_modular_power_for_every_form_of_the_key() {
        let minus_one = {
            let mut number = n().to_vec();
            number[255] -= 1;
            number
        };
        for plain in [&[7][..], &[0], &[], &[1], &[0x11; 256], &minus_one] {
            let ciphertext = encrypt(&Encryption::Raw, plain).unwrap();
            for (e, crt) in [(true, true), (true, false), (false, true)] {
                let decrypted = decrypt(&parts(e, crt), &Encryption::Raw, &ciphertext).unwrap();
                assert_eq!(decrypted, pad_to(256, plain));
            }
        }
        for (input, error) in [(n(), Error::DataInvalid), (&[0; 257], Error::DataLenRange)] {
            assert_eq!(encrypt(&Encryption::Raw, input), Err(error));
        }
        assert_eq!(decrypt(private(), &Encryption::Raw, n()), Err(Error::EncryptedDataInvalid));
    }

    #[test]
    fn a_decryption_needs_an_output_as_long_as_the_modulus() {
        let short = Private::parse(private()).unwrap();
        let refused = short.decrypt(&Encryption::Pkcs1, &[1; 256], &mut [0; 255]);
        assert_eq!(refused, Err(Error::BufferTooSmall { needed: 256 }));
    }

    #[test]
    fn oaep_that_does_not_fit_fails_with_key_size_range() {
        let PublicParts::Rsa { n, e } = public_1024() else { panic!("not RSA") };
        let key = Public::parse(&n, &e).unwrap();
        let refused = key.encrypt(&oaep(Hash::Sha512, Hash::Sha512, b""), b"", &mut [0; 128]);
        assert_eq!(refused, Err(Error::KeySizeRange));
    }
}
