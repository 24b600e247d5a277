//! PKCS #12 files (RFC 7292). The crate `p12-keystore` reads them, and refuses a count of more than
//! 1,000,000 iterations. A file may have many counts, for example one for each key. So this module
//! first adds up the counts outside encrypted parts, and limits their sum.

use der::asn1::AnyRef;
use der::{Decode, Reader, SliceReader, Tag, Tagged};
use p12_keystore::Pkcs12Archive;

use crate::{Error, Password};

/// The largest number of iterations that a file may ask for outside its encrypted parts. They take
/// some seconds.
pub(crate) const MAX_ITERATIONS: u64 = 5_000_000;
/// The greatest depth of the structures of a file.
const MAX_DEPTH: u32 = 24;
/// The object identifier of scrypt in DER, 1.3.6.1.4.1.11591.4.11.
const SCRYPT: &[u8] = b"\x06\x09\x2b\x06\x01\x04\x01\xda\x47\x04\x0b";

/// Returns whether a file is a DER structure that begins with the version 3.
pub(crate) fn is(der: &[u8]) -> bool {
    AnyRef::from_der(der).is_ok_and(|any| any.value().starts_with(&[2, 1, 3]))
}

/// Reads the keys and certificates of a file.
pub(crate) fn read(der: &[u8], password: &mut Password<'_>) -> Result<Pkcs12Archive, Error> {
    if der.windows(SCRYPT.len()).any(|window| window == SCRYPT) {
        return Err(Error::Refused(
            "a PKCS#12 file with scrypt is not supported; convert it with `openssl pkcs12`",
        ));
    }
    if iterations(der, MAX_DEPTH).is_none_or(|all| all > MAX_ITERATIONS) {
        return Err(Error::Refused("the PKCS#12 file asks for more than 5,000,000 iterations to decrypt it"));
    }
    Pkcs12Archive::from_pkcs12(der, password.get()?).map_err(|error| match error {
        p12_keystore::error::Error::InvalidParameters => Error::Refused(
            "a part of the PKCS#12 file has no parameters, or asks for more than 1,000,000 iterations",
        ),
        _ => Error::PasswordWrong,
    })
}

/// Returns the sum of the integers that follow an octet string; `None` if the sum is too large or
/// the structures are too deep. In all structures of RFC 7292 and RFC 8018, the count of iterations
/// follows the salt, which is an octet string.
fn iterations(der: &[u8], depth: u32) -> Option<u64> {
    let mut sum = 0_u64;
    let Ok(mut reader) = SliceReader::new(der) else { return Some(sum) };
    let mut after_octets = false;
    while !reader.is_finished() {
        let Ok(any) = AnyRef::decode(&mut reader) else { return Some(sum) };
        let tag = any.tag();
        if tag == Tag::Integer && after_octets {
            sum = sum.checked_add(number(any.value())?)?;
        }
        if tag.is_constructed() || tag == Tag::OctetString {
            sum = sum.checked_add(iterations(any.value(), depth.checked_sub(1)?)?)?;
        }
        after_octets = tag == Tag::OctetString;
    }
    Some(sum)
}

fn number(integer: &[u8]) -> Option<u64> {
    (integer.len() <= 8).then(|| integer.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
