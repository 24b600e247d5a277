//! RSA: the checks of sizes, exponents and input lengths, and the cases that AWS-LC does not
//! support.

use std::ffi::c_int;
use std::ops::RangeInclusive;
use std::sync::Arc;

#[cfg(feature = "rustcrypto")]
use jeton_crypto::lanes;
use jeton_crypto::rejection::Rejection;
use jeton_secret::Secret;

use super::{PROVIDER, elsewhere, ffi, verdict};
#[cfg(feature = "rustcrypto")]
use crate::backend::api::Job;
use crate::backend::api::{
    Encryption, Hash, Leaf, PairSpec, PrivateKey, PrivateParts, PublicKey, PublicParts, RsaPrivate,
    SHORTEST_RSA, Scheme, Signer, Verifier, failure, hmac_sha256, of_key_size, output,
};
#[cfg(feature = "rustcrypto")]
use crate::backend::rustcrypto::Encoding;
use crate::error::{Error, Result, require};

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
    require(GENERATED_BITS.contains(&bits), Error::KeySizeRange)?;
    if !bits.is_multiple_of(GENERATED_STEP) {
        let other = elsewhere().map_err(|_| Error::KeySizeRange)?;
        return other.keys.generate(&PairSpec::Rsa { bits, public_exponent });
    }
    let e = ffi::Bignum::new(public_exponent)?;
    // With an even exponent AWS-LC would search for primes that do not exist.
    let odd = public_exponent.last().is_some_and(|last| last & 1 == 1);
    require(odd && (2..=MAX_GENERATED_EXPONENT_BITS).contains(&e.bits()), Error::DataInvalid)?;
    #[cfg(feature = "rustcrypto")]
    if e.to_bytes() == [1, 0, 1]
        && let Some(pair) = generate_in_lanes(bits)?
    {
        return Ok(pair);
    }
    let key = ffi::Rsa::generate(bits, &e)?.numbers()?;
    Ok((PublicParts::Rsa { n: key.n.clone(), e: e.to_bytes() }, PrivateParts::Rsa(key)))
}

/// Returns `None` if lanes find no pair of this size.
#[cfg(feature = "rustcrypto")]
fn generate_in_lanes(bits: usize) -> Result<Option<(PublicParts, PrivateParts)>> {
    let Some(primes) = lanes::primes(bits, &Leaf(PROVIDER.random)).map_err(failure)? else { return Ok(None) };
    let pair = crate::backend::rustcrypto::rsa_pair(&primes)?;
    let PrivateParts::Rsa(key) = &pair.1 else { return Ok(None) };
    // AWS-LC checks every number against the others. FIPS 186-5, A.1.1: d > 2^(bits / 2).
    Private::parse(key)?;
    Ok((key.d.len() > bits / 16).then_some(pair))
}

/// A private key, and the data for the implicit rejection of a wrong PKCS #1 v1.5 padding.
pub(super) struct Private {
    rsa: ffi::Rsa,
    modulus: Modulus,
    e: Vec<u8>,
    rejection: Rejection,
    /// The numbers for lanes, from the first time that they are needed.
    #[cfg(feature = "rustcrypto")]
    numbers: std::sync::OnceLock<Option<Arc<lanes::Key>>>,
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
        require(d.bits() <= n.bits(), Error::DataInvalid)?;
        let rsa = match &parts.crt {
            Some(crt) => ffi::Rsa::private(&n, &e, &d, crt)?,
            None => ffi::Rsa::private_no_crt(&n, &e, &d)?,
        };
        let rejection = Rejection::new(&Leaf(PROVIDER.digest), &parts.d, modulus.len()).map_err(failure)?;
        let key = Self {
            rsa,
            modulus,
            e: e.to_bytes(),
            rejection,
            #[cfg(feature = "rustcrypto")]
            numbers: parts.crt.as_ref().map_or_else(|| None.into(), |_| std::sync::OnceLock::new()),
        };
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
        let alone = RsaSigner { key: self, padding, scratch };
        #[cfg(feature = "rustcrypto")]
        if let Some(queue) = lanes::queue(alone.key.modulus.bits()) {
            let encoding = Encoding::new(scheme, alone.key.modulus.bits())?;
            return Ok(Box::new(Together { alone, encoding, queue }));
        }
        Ok(Box::new(alone))
    }

    fn decrypt(&self, scheme: &Encryption, input: &[u8], out: &mut [u8]) -> Result<usize> {
        require(input.len() == self.modulus.len(), Error::EncryptedDataLenRange)?;
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
        require(input.len() == self.modulus.len(), Error::EncryptedDataLenRange)?;
        let mut em = Secret::zeroed(input.len());
        self.decrypt_unpadded(input, &mut em)?.ok_or(Error::EncryptedDataInvalid)?;
        self.rejection.decode(hmac_sha256(PROVIDER.macs), input, &em, fits).map_err(of_key_size)
    }
}

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
        require(input.len() <= room, Error::DataLenRange)?;
        let out = output(out, len)?;
        let mut encoded = Secret::zeroed(len);
        match scheme {
            Encryption::Raw => {
                pad_left(&mut encoded, input);
                require(*encoded < *self.modulus.0, Error::DataInvalid)?;
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
        require(sizes.contains(&n.bits()), Error::KeySizeRange)?;
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
        require(self.scratch < self.key.modulus.0, Error::DataInvalid)?;
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

/// Signs together with other callers, if all processors are busy.
#[cfg(feature = "rustcrypto")]
struct Together {
    alone: RsaSigner,
    encoding: Encoding,
    queue: &'static lanes::Queue<lanes::Job>,
}

#[cfg(feature = "rustcrypto")]
fn lane_key(rsa: &ffi::Rsa) -> Option<Arc<lanes::Key>> {
    let RsaPrivate { n, e, crt, .. } = rsa.numbers().ok()?;
    let (e, crt) = (e?, crt?);
    let (primes, exponents) = ([crt.p, crt.q], [crt.dp, crt.dq]);
    lanes::Key::new(Secret::new(n), &e, primes, exponents, crt.qinv).map(Arc::new)
}

#[cfg(feature = "rustcrypto")]
impl Together {
    /// Returns `None` if lanes cannot compute this signature.
    fn lane_job(&mut self, input: &[u8]) -> Option<lanes::Job> {
        let key = self.alone.key.numbers.get_or_init(|| lane_key(&self.alone.key.rsa)).clone()?;
        let mut number = Secret::try_zeroed(self.signature_len()).ok()?;
        self.encoding.encode(input, &mut number).ok()?;
        lanes::Job::new(key, number)
    }
}

#[cfg(feature = "rustcrypto")]
impl Signer for Together {
    fn signature_len(&self) -> usize {
        self.alone.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let queue = self.queue;
        let mut permit = queue.enter();
        if permit.is_none()
            && let Some(job) = self.lane_job(input)
        {
            match queue.join(job) {
                lanes::Joined::Done(lanes::Job { result: Some(signature), .. }) => {
                    output(out, signature.len())?.copy_from_slice(&signature);
                    return Ok(());
                }
                lanes::Joined::Done(_) => {}
                lanes::Joined::Alone(own) => permit = Some(own),
            }
        }
        let result = self.alone.sign(input, out);
        drop(permit);
        result
    }

    fn job(&mut self, input: &[u8]) -> Option<Job> {
        Some(Job::new((self.queue, self.lane_job(input)?)))
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
    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        self.padding.takes(input.len(), &self.key.modulus)?;
        require(signature.len() == self.key.modulus.len(), Error::SignatureLenRange)?;
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
