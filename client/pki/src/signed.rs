//! The common structure of certificates, CRLs and basic OCSP responses: signed bytes, algorithm,
//! signature.

use der::asn1::{AnyRef, BitStringRef};
use der::referenced::OwnedToRef;
use der::{Decode, Encode, Reader, Sequence, SliceReader, Tag};
use spki::{AlgorithmIdentifierOwned, AlgorithmIdentifierRef};

/// The parts of a signed structure.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The bytes that were signed, with their tag and length.
    pub tbs: &'a [u8],
    /// The signature's algorithm in DER.
    pub algorithm: &'a [u8],
    /// The signature in its X.509 form.
    pub signature: &'a [u8],
}

#[derive(Sequence)]
struct Encoded<'a> {
    tbs: AnyRef<'a>,
    algorithm: AlgorithmIdentifierRef<'a>,
    signature: BitStringRef<'a>,
}

impl<'a> Signed<'a> {
    /// Splits DER into the parts, without decoding the signed bytes. Fails if bytes follow the
    /// signature: the certificates of a basic OCSP response.
    pub fn parse(der: &'a [u8]) -> der::Result<Self> {
        let mut reader = SliceReader::new(der)?;
        let parts = reader.sequence(|reader| {
            let (tbs, algorithm) = (reader.tlv_bytes()?, reader.tlv_bytes()?);
            let signature = BitStringRef::decode(reader)?;
            let signature = signature.as_bytes().ok_or_else(|| Tag::BitString.value_error())?;
            Ok(Self { tbs, algorithm, signature })
        })?;
        reader.finish(parts)
    }

    /// Encodes the parts.
    pub fn assemble(
        tbs: &[u8],
        algorithm: &AlgorithmIdentifierOwned,
        signature: &[u8],
    ) -> der::Result<Vec<u8>> {
        let signature = BitStringRef::from_bytes(signature)?;
        Encoded { tbs: AnyRef::from_der(tbs)?, algorithm: algorithm.owned_to_ref(), signature }.to_der()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure with short parts.
    const SMALL: &[u8] = b"\x30\x0b\x30\x01\x01\x30\x02\x05\x00\x03\x02\x00\x2a";

    #[test]
    fn a_structure_is_split_into_its_bytes() {
        let Signed { tbs, algorithm, signature } = Signed::parse(SMALL).expect("DER");
        assert_eq!((tbs, algorithm, signature), (&SMALL[2..5], &SMALL[5..9], &SMALL[12..]));
    }

    #[test]
    fn each_malformed_structure_is_refused() {
        let changed = |offset: usize, byte: u8| {
            let mut der = SMALL.to_vec();
            der[offset] = byte;
            der
        };
        let longer = [SMALL, &[0]].concat();
        // Another tag, other lengths, unused bits of the signature, bytes after the structure and
        // after the signature.
        let wrong = [
            changed(0, 0x31),
            changed(1, 0x0a),
            changed(9, 0x04),
            changed(10, 1),
            changed(11, 1),
            longer.clone(),
            [&[0x30, 0x0c], &longer[2..]].concat(),
            SMALL[..12].to_vec(),
            b"\x30\x81\x0b".iter().chain(&SMALL[2..]).copied().collect(),
        ];
        for der in wrong {
            assert!(Signed::parse(&der).is_err(), "{der:x?}");
        }
    }
}
