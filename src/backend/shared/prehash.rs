//! The prefix of the message or digest in ML-DSA (FIPS 204, 5.2 and 5.4) and SLH-DSA (FIPS 205,
//! 10.2).

use crate::backend::api::Hash;
use crate::error::{Error, Result, require};

/// The length of the longest context in bytes.
const MAX_CONTEXT: usize = 255;

pub(in crate::backend) fn prefix(hash: Option<Hash>, context: &[u8]) -> Result<Vec<u8>> {
    require(context.len() <= MAX_CONTEXT, Error::MechanismParamInvalid)?;
    let mut prefix = vec![u8::from(hash.is_some()), context.len() as u8];
    prefix.extend_from_slice(context);
    if let Some(hash) = hash {
        prefix.extend_from_slice(NIST_HASHES);
        prefix.push(number(hash)?);
    }
    Ok(prefix)
}

/// The DER encoding of an object identifier below 2.16.840.1.101.3.4.2 (NIST's hash functions),
/// without its last byte, which is the number of the hash.
const NIST_HASHES: &[u8] = b"\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02";

/// Returns the number of a hash below that object identifier.
fn number(hash: Hash) -> Result<u8> {
    match hash {
        // FIPS 204 and FIPS 205 require more collision resistance than SHA-1 has.
        Hash::Sha1 => Err(Error::MechanismParamInvalid),
        // NIST does not define these.
        Hash::Blake2b160 | Hash::Blake2b256 | Hash::Blake2b384 | Hash::Blake2b512 => {
            Err(Error::MechanismParamInvalid)
        }
        Hash::Sha256 => Ok(1),
        Hash::Sha384 => Ok(2),
        Hash::Sha512 => Ok(3),
        Hash::Sha224 => Ok(4),
        Hash::Sha512_224 => Ok(5),
        Hash::Sha512_256 => Ok(6),
        Hash::Sha3_224 => Ok(7),
        Hash::Sha3_256 => Ok(8),
        Hash::Sha3_384 => Ok(9),
        Hash::Sha3_512 => Ok(10),
        Hash::Shake128 => Ok(11),
        Hash::Shake256 => Ok(12),
    }
}

/// The length of a message representative of ML-DSA (FIPS 204, algorithm 7, line 6).
pub(in crate::backend) const MU_LEN: usize = 64;

/// Checks that a message representative has its length.
pub(in crate::backend) fn expect_mu(input: &[u8]) -> Result<&[u8; MU_LEN]> {
    input.as_array().ok_or(Error::DataLenRange)
}

/// Checks that a digest has the length of `hash`. Without a hash the input is a message of any
/// length.
pub(in crate::backend) fn expect_len(hash: Option<Hash>, input: &[u8]) -> Result<()> {
    match hash {
        Some(hash) if hash.len() != input.len() => Err(Error::DataLenRange),
        _ => Ok(()),
    }
}
