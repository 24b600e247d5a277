//! PKCS #12 files (RFC 7292). `p12-keystore` reads them. It accepts every number of iterations that
//! a file asks for, so this module checks the numbers first.

use der::asn1::AnyRef;
use der::{Decode, Reader, SliceReader, Tag, Tagged};
use p12_keystore::Pkcs12Archive;

use crate::{Error, Password};

/// The largest number of iterations that a file may ask for. It takes some seconds for each part.
const MAX_ITERATIONS: u64 = 5_000_000;
/// The greatest depth of the structures of a file.
const MAX_DEPTH: u32 = 24;
/// The object identifier of scrypt in DER, 1.3.6.1.4.1.11591.4.11.
const SCRYPT: &[u8] = b"\x06\x09\x2b\x06\x01\x04\x01\xda\x47\x04\x0b";

/// Returns whether a file is a sequence that begins with the version 3.
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
    if !counts_fit(der, MAX_DEPTH) {
        return Err(Error::Refused("the PKCS#12 file asks for more than 5,000,000 iterations to decrypt it"));
    }
    Pkcs12Archive::from_pkcs12(der, password.get()?).map_err(|_| Error::PasswordWrong)
}

/// Returns whether every integer that follows an octet string is at most [`MAX_ITERATIONS`]. A salt
/// and its count of iterations are such a pair, in all structures of RFC 7292 and RFC 8018. Counts
/// inside encrypted parts are not seen.
fn counts_fit(der: &[u8], depth: u32) -> bool {
    let Ok(mut reader) = SliceReader::new(der) else { return true };
    let mut after_octets = false;
    while !reader.is_finished() {
        let Ok(any) = AnyRef::decode(&mut reader) else { return true };
        let tag = any.tag();
        if tag == Tag::Integer && after_octets && !is_small(any.value()) {
            return false;
        }
        let inside = tag.is_constructed() || tag == Tag::OctetString;
        if inside && (depth == 0 || !counts_fit(any.value(), depth - 1)) {
            return false;
        }
        after_octets = tag == Tag::OctetString;
    }
    true
}

fn is_small(integer: &[u8]) -> bool {
    integer.len() <= 8 && integer.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)) <= MAX_ITERATIONS
}
