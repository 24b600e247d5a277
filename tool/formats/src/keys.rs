//! Private keys in DER, as PKCS #8.

use der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef, UintRef};
use der::{Decode, Encode, Sequence};
use pkcs1::RsaPrivateKeyRef;
use pkcs5::EncryptionScheme;
use pkcs5::pbes2::Kdf;
use pkcs8::{AlgorithmIdentifierRef, PrivateKeyInfoRef};
use sec1::EcPrivateKey;
use zeroize::Zeroizing;

use crate::{Error, Password};

pub(crate) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
pub(crate) const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");

/// The largest number of iterations of PBKDF2 that all keys of a file may ask for. They take about
/// ten seconds.
const MAX_ITERATIONS: u64 = 10_000_000;
/// The largest product of scrypt's memory in bytes and its parallelization that a key may ask for.
const MAX_SCRYPT: u64 = 256 << 20;
/// The number of such keys in a file. They take about ten seconds.
const SCRYPT_KEYS: u64 = 10;

/// A private key in PKCS #8, wiped when it is dropped.
pub(crate) type PrivateKey = Zeroizing<Vec<u8>>;

#[derive(Sequence)]
struct Encrypted<'a> {
    algorithm: EncryptionScheme,
    data: &'a OctetStringRef,
}

/// Reads an object identifier of the table of key types.
pub(crate) fn identifier(der: &[u8]) -> Result<ObjectIdentifier, Error> {
    ObjectIdentifier::from_der(der).map_err(|_| Error::Damaged("object identifier"))
}

pub(crate) fn pkcs8(
    oid: ObjectIdentifier,
    parameters: Option<AnyRef<'_>>,
    key: &[u8],
) -> Result<PrivateKey, Error> {
    let wrong = |_| Error::Damaged("private key");
    let key = OctetStringRef::new(key).map_err(wrong)?;
    let info = PrivateKeyInfoRef::new(AlgorithmIdentifierRef { oid, parameters }, key);
    info.to_der().map(Zeroizing::new).map_err(wrong)
}

/// Reads a key in PKCS #8, and encodes it again without attributes. `None` if it is not PKCS #8.
pub(crate) fn plain(der: &[u8]) -> Option<PrivateKey> {
    let info = PrivateKeyInfoRef::from_der(der).ok()?;
    pkcs8(info.algorithm.oid, info.algorithm.parameters, info.private_key.as_bytes()).ok()
}

/// Returns whether these bytes are an encrypted key in PKCS #8.
pub(crate) fn is_encrypted(der: &[u8]) -> bool {
    Encrypted::from_der(der).is_ok()
}

/// Decrypts a key in PKCS #8.
pub(crate) fn decrypt(der: &[u8], password: &mut Password<'_>) -> Result<PrivateKey, Error> {
    let encrypted = Encrypted::from_der(der).map_err(|_| Error::Damaged("encrypted PKCS#8 key"))?;
    bounded(&encrypted.algorithm, password)?;
    let key = encrypted.algorithm.decrypt(password.get()?, encrypted.data.as_bytes());
    let key = Zeroizing::new(key.map_err(|_| Error::PasswordWrong)?);
    plain(&key).ok_or(Error::PasswordWrong)
}

fn bounded(scheme: &EncryptionScheme, password: &mut Password<'_>) -> Result<(), Error> {
    let parameters = scheme.pbes2().ok_or(Error::Refused(
        "this old encryption of PKCS#8 is not supported; convert the file with `openssl pkcs8 -topk8`",
    ))?;
    let allowed = match &parameters.kdf {
        Kdf::Pbkdf2(kdf) => password.count(kdf.iteration_count.into(), MAX_ITERATIONS),
        Kdf::Scrypt(kdf) => {
            // pkcs5 0.8.1 overflows if N is 0. RFC 7914, 2: N is a power of 2 greater than 1.
            if kdf.cost_parameter < 2 || !kdf.cost_parameter.is_power_of_two() {
                return Err(Error::Damaged("encrypted PKCS#8 key"));
            }
            let blocks = 128 * u64::from(kdf.block_size);
            blocks
                .checked_mul(kdf.cost_parameter)
                .and_then(|memory| memory.checked_mul(u64::from(kdf.parallelization).max(1)))
                .is_some_and(|work| work <= MAX_SCRYPT && password.count(work, SCRYPT_KEYS * MAX_SCRYPT))
        }
        _ => return Err(Error::Refused("an encryption with neither PBKDF2 nor scrypt is not supported")),
    };
    if allowed {
        Ok(())
    } else {
        Err(Error::Refused("the file asks for more than 10,000,000 iterations or 256 MiB to decrypt it"))
    }
}

/// Reads `RSAPrivateKey` of PKCS #1.
pub(crate) fn rsa(der: &[u8]) -> Option<PrivateKey> {
    RsaPrivateKeyRef::from_der(der).ok()?;
    pkcs8(RSA, Some(AnyRef::NULL), der).ok()
}

/// Reads `ECPrivateKey` of SEC 1. It must name its curve.
pub(crate) fn ec(der: &[u8]) -> Option<Result<PrivateKey, Error>> {
    let key = EcPrivateKey::from_der(der).ok()?;
    Some(match key.parameters.and_then(|parameters| parameters.named_curve()) {
        Some(curve) => on_curve(curve, key.private_key),
        None => Err(Error::Refused(
            "the EC key does not name its curve; convert the file with `openssl pkcs8 -topk8`",
        )),
    })
}

/// Encodes an EC key.
pub(crate) fn on_curve(curve: ObjectIdentifier, scalar: &[u8]) -> Result<PrivateKey, Error> {
    let key = EcPrivateKey { private_key: scalar, parameters: None, public_key: None };
    let inner = Zeroizing::new(key.to_der().map_err(|_| Error::Damaged("EC key"))?);
    pkcs8(EC, Some(AnyRef::from(&curve)), &inner)
}

/// Encodes an Ed25519, Ed448, X25519 or X448 key.
pub(crate) fn seed(oid: ObjectIdentifier, seed: &[u8]) -> Result<PrivateKey, Error> {
    let inner = OctetStringRef::new(seed).and_then(|seed| seed.to_der());
    pkcs8(oid, None, &Zeroizing::new(inner.map_err(|_| Error::Damaged("private key"))?))
}

/// Encodes an RSA key from its integers: n, e, d, p, q, d mod (p-1), d mod (q-1), q^-1 mod p.
pub(crate) fn rsa_integers(parts: [&[u8]; 8]) -> Result<PrivateKey, Error> {
    let wrong = |_| Error::Damaged("RSA key");
    let [n, e, d, p, q, dp, dq, qinv] = parts;
    let key = RsaPrivateKeyRef {
        modulus: UintRef::new(n).map_err(wrong)?,
        public_exponent: UintRef::new(e).map_err(wrong)?,
        private_exponent: UintRef::new(d).map_err(wrong)?,
        prime1: UintRef::new(p).map_err(wrong)?,
        prime2: UintRef::new(q).map_err(wrong)?,
        exponent1: UintRef::new(dp).map_err(wrong)?,
        exponent2: UintRef::new(dq).map_err(wrong)?,
        coefficient: UintRef::new(qinv).map_err(wrong)?,
        other_prime_infos: None,
    };
    rsa(&Zeroizing::new(key.to_der().map_err(wrong)?)).ok_or(Error::Damaged("RSA key"))
}
