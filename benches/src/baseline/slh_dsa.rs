//! Hedged SLH-DSA-SHA2-128f and SLH-DSA-SHA2-128s by the crate `slh-dsa`. AWS-LC lacks both.

use jeton::backend::{PublicParts, SlhDsa};
use slh_dsa::{ParameterSet, Signature, SigningKey, VerifyingKey};

use super::BaselinePair;
use super::symmetric::random;
use crate::scheme::Scheme;

pub struct SlhDsaPair<P: ParameterSet> {
    set: SlhDsa,
    private: SigningKey<P>,
    public: VerifyingKey<P>,
}

/// FIPS 205, 5.1: n, in bytes, which both sets share.
const N: usize = SlhDsa::Sha2_128f.n();

impl<P: ParameterSet> SlhDsaPair<P> {
    pub(super) fn generate(set: SlhDsa) -> Self {
        let mut seed = [0; 3 * N];
        random(&mut seed);
        let private = SigningKey::slh_keygen_internal(&seed[..N], &seed[N..2 * N], &seed[2 * N..]);
        let public: &VerifyingKey<P> = private.as_ref();
        let public = public.clone();
        Self { set, private, public }
    }
}

impl<P: ParameterSet + Send + Sync> BaselinePair for SlhDsaPair<P> {
    fn public(&self) -> PublicParts {
        PublicParts::SlhDsa { set: self.set, key: self.public.to_vec() }
    }

    fn sign(&self, _: Scheme, message: &[u8], out: &mut [u8]) -> usize {
        let mut extra = [0; N];
        random(&mut extra);
        let signature = self.private.try_sign_with_context(message, &[], Some(&extra)).expect("no context");
        let bytes = signature.to_bytes();
        out[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    }

    fn verify(&self, _: Scheme, message: &[u8], signature: &[u8]) {
        let signature = Signature::<P>::try_from(signature).expect("a signature's length");
        self.public.try_verify_with_context(message, &[], &signature).expect("a good signature");
    }
}
