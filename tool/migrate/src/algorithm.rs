//! The algorithms of encrypted values in DER, and PBKDF2, with which NSS and Kryoptic derive keys.

use std::num::NonZeroU32;
use std::path::Path;

use aws_lc_rs::pbkdf2;
use der::asn1::{ObjectIdentifier, OctetStringRef};
use der::{DecodeValue, FixedTag, Sequence};
use spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

use super::Error;

const PBKDF2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.5.12");
const HMAC_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.2.7");
pub(crate) const HMAC_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.2.9");

/// The length of every key.
pub(crate) const KEY: usize = 32;

/// The largest number of iterations of PBKDF2. NSS has the same limit (`MAX_ITERATION_COUNT`) and
/// uses 10,000; Kryoptic uses 1,000.
const MAX_ITERATIONS: u32 = 600_000;

/// RFC 8018, A.2: `PBKDF2-params`.
#[derive(Sequence)]
struct Pbkdf2<'a> {
    salt: OctetStringRef<'a>,
    iterations: u32,
    length: Option<u64>,
    function: Option<AlgorithmIdentifierRef<'a>>,
}

/// Derives a key with the PBKDF2 that an algorithm describes.
pub(crate) fn derive(
    path: &Path,
    scheme: &AlgorithmIdentifierRef<'_>,
    secret: &[u8],
) -> Result<Zeroizing<[u8; KEY]>, Error> {
    let parameters: Pbkdf2<'_> = parameters(path, scheme, PBKDF2)?;
    let algorithm = match parameters.function.map_or(HMAC_SHA1, |function| function.oid) {
        HMAC_SHA256 => pbkdf2::PBKDF2_HMAC_SHA256,
        HMAC_SHA1 => pbkdf2::PBKDF2_HMAC_SHA1,
        other => return Err(unknown(path, other)),
    };
    if parameters.length.is_some_and(|length| length != KEY as u64) {
        return Err(wrong_length(path));
    }
    let iterations = NonZeroU32::new(parameters.iterations).filter(|count| count.get() <= MAX_ITERATIONS);
    let iterations =
        iterations.ok_or_else(|| Error::damaged(path, "the number of iterations is out of range"))?;
    let mut key = Zeroizing::new([0; KEY]);
    pbkdf2::derive(algorithm, iterations, parameters.salt.as_bytes(), secret, &mut key[..]);
    Ok(key)
}

/// Returns the parameters of an algorithm. Fails if the algorithm is not `wanted`.
pub(crate) fn parameters<'a, T: DecodeValue<'a> + FixedTag>(
    path: &Path,
    algorithm: &AlgorithmIdentifierRef<'a>,
    wanted: ObjectIdentifier,
) -> Result<T, Error> {
    match algorithm.parameters {
        Some(parameters) if algorithm.oid == wanted => parameters.decode_as().map_err(malformed(path)),
        _ => Err(unknown(path, algorithm.oid)),
    }
}

pub(crate) fn malformed(path: &Path) -> impl Fn(der::Error) -> Error {
    move |error| Error::damaged(path, format!("an encrypted value: {error}"))
}

pub(crate) fn wrong_length(path: &Path) -> Error {
    Error::damaged(path, "a derived key has the wrong length")
}

pub(crate) fn unknown(path: &Path, algorithm: ObjectIdentifier) -> Error {
    let reason = format!("the algorithm {algorithm} of an encrypted value is unknown");
    Error::Unsupported { path: path.to_owned(), reason }
}
