//! Verifies signatures of certificates and CRLs without a module, with AWS-LC.

use der::asn1::{AnyRef, BitStringRef};
use der::{Decode, Header, SliceReader};
use webpki::ALL_VERIFICATION_ALGS;

/// Returns whether the key of a SubjectPublicKeyInfo in DER made a signature, whose algorithm is
/// the contents of an AlgorithmIdentifier. `None` if the crate `webpki` does not know the
/// algorithm.
pub fn is_signed(
    info: &[u8],
    algorithm: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Result<Option<bool>, der::Error> {
    let mut fields = SliceReader::new(info)?;
    Header::decode(&mut fields)?;
    let kind = AnyRef::decode(&mut fields)?.value();
    let key = BitStringRef::decode(&mut fields)?.raw_bytes();
    let mut known = ALL_VERIFICATION_ALGS
        .iter()
        .filter(|one| one.public_key_alg_id().as_ref() == kind)
        .filter(|one| one.signature_alg_id().as_ref() == algorithm)
        .peekable();
    if known.peek().is_none() {
        return Ok(None);
    }
    Ok(Some(known.any(|one| one.verify_signature(key, message, signature).is_ok())))
}
