//! Verifies signatures of certificates and CRLs without a module, with AWS-LC. The crate `webpki`
//! lacks some algorithms: the program verifies these.

use cryptoki_sys::{CKA_CLASS, CKA_KEY_TYPE, CKA_VALUE, CKK_ML_DSA, CKK_SLH_DSA, CKO_PUBLIC_KEY};
use der::asn1::{AnyRef, BitStringRef};
use der::{Decode, Header, SliceReader};
use jeton_client::Attribute;
use jeton_client::key_types::{self, KeyType};
use jeton_client::names::CKK_JETON_COMPOSITE_ML_DSA;
use rustls_pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm};
use webpki::ALL_VERIFICATION_ALGS;

/// Returns whether the public key of a template made a signature of a message: a key of ML-DSA, of
/// a composite or of SLH-DSA, without a context.
pub type IsSigned = fn(&[Attribute], &[u8], &[u8]) -> bool;

/// The algorithms of signatures.
pub struct Algorithms(Vec<Own>);

/// An algorithm that the crate lacks. It has one identifier for its keys and its signatures (RFC
/// 9881, 2; RFC 9814, 3; draft-ietf-lamps-pq-composite-sigs, 5).
#[derive(Debug)]
struct Own {
    key: &'static KeyType,
    is_signed: IsSigned,
}

impl Algorithms {
    /// Begins with the function of the program for the algorithms that the crate lacks.
    pub fn new(is_signed: IsSigned) -> Self {
        let is_own =
            |key: &&KeyType| matches!(key.kind, CKK_ML_DSA | CKK_SLH_DSA | CKK_JETON_COMPOSITE_ML_DSA);
        Self(key_types::ALL.iter().filter(is_own).map(|key| Own { key, is_signed }).collect())
    }

    /// Returns each algorithm.
    pub fn all(&self) -> Vec<&dyn SignatureVerificationAlgorithm> {
        let own = self.0.iter().map(|own| own as &dyn SignatureVerificationAlgorithm);
        ALL_VERIFICATION_ALGS.iter().copied().chain(own).collect()
    }

    /// Returns whether the key of a SubjectPublicKeyInfo in DER made a signature, whose algorithm
    /// is the contents of an AlgorithmIdentifier. `None` if the algorithm is not known.
    pub fn is_signed(
        &self,
        info: &[u8],
        algorithm: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<Option<bool>, der::Error> {
        let mut fields = SliceReader::new(info)?;
        Header::decode(&mut fields)?;
        let kind = AnyRef::decode(&mut fields)?.value();
        let key = BitStringRef::decode(&mut fields)?.raw_bytes();
        let mut known = self.all();
        known.retain(|one| one.public_key_alg_id().as_ref() == kind);
        known.retain(|one| one.signature_alg_id().as_ref() == algorithm);
        if known.is_empty() {
            return Ok(None);
        }
        Ok(Some(known.iter().any(|one| one.verify_signature(key, message, signature).is_ok())))
    }
}

impl SignatureVerificationAlgorithm for Own {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let template = [
            Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY),
            Attribute::number(CKA_KEY_TYPE, self.key.kind),
            self.key.parameters(),
            Attribute::bytes(CKA_VALUE, public_key),
        ];
        if (self.is_signed)(&template, message, signature) { Ok(()) } else { Err(InvalidSignature) }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        AlgorithmIdentifier::from_slice(self.key.oid)
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.public_key_alg_id()
    }
}
