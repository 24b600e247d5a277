//! ML-DSA (FIPS 204, pure), hedged or deterministic, with a context.

use std::sync::Arc;

use super::{ffi, prefix};
use crate::backend::{MlDsa, PrivateKey, PrivateParts, PublicKey, PublicParts, Scheme, Signer, Verifier};
use crate::error::{Error, Result};
use crate::secret::Secret;

pub(super) fn generate(set: MlDsa, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = match seed {
        Some(seed) => seed.duplicate(),
        None => random_seed()?,
    };
    let (public, key) = expand(set, &seed)?;
    Ok((PublicParts::MlDsa { set, key: public }, PrivateParts::MlDsa { set, seed: Some(seed), key }))
}

fn random_seed() -> Result<Secret> {
    let mut seed = Secret::zeroed(MlDsa::SEED_LEN);
    ffi::random(&mut seed)?;
    Ok(seed)
}

fn expand(set: MlDsa, seed: &[u8]) -> Result<(Vec<u8>, Secret)> {
    ffi::ml_dsa_expand(set, seed.as_array().ok_or(Error::DataInvalid)?)
}

/// A private key. AWS-LC signs from the expanded encoding; it knows no faster form.
pub(super) struct Private {
    set: MlDsa,
    public: Vec<u8>,
    key: Secret,
}

impl Private {
    pub(super) fn parse(set: MlDsa, seed: Option<&Secret>, key: &Secret) -> Result<Self> {
        let public = match seed {
            Some(seed) => {
                let (public, expanded) = expand(set, seed)?;
                if !ffi::equal(&expanded, key) {
                    return Err(Error::DataInvalid);
                }
                public
            }
            None => ffi::ml_dsa_public(set, key)?,
        };
        Ok(Self { set, public, key: key.duplicate() })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::MlDsa { set: self.set, key: self.public.clone() })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        let (context, deterministic) = parameters(scheme)?;
        Ok(Box::new(MlDsaSigner { key: self, context, deterministic }))
    }
}

/// A public key: every string of the right length is one.
pub(super) struct Public {
    set: MlDsa,
    key: Vec<u8>,
}

impl Public {
    pub(super) fn parse(set: MlDsa, key: &[u8]) -> Result<Self> {
        if key.len() != set.public_len() {
            return Err(Error::DataInvalid);
        }
        Ok(Self { set, key: key.to_vec() })
    }
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        let (context, _) = parameters(scheme)?;
        Ok(Box::new(MlDsaVerifier { key: self, context }))
    }
}

/// What goes before the message (FIPS 204, algorithm 2, line 10), and whether signatures are deterministic.
fn parameters(scheme: &Scheme) -> Result<(Vec<u8>, bool)> {
    let Scheme::MlDsa { context, deterministic } = scheme else {
        return Err(Error::KeyTypeInconsistent);
    };
    // The length is at most MlDsa::MAX_CONTEXT, which is all that fits into its byte.
    let len = u8::try_from(context.len()).map_err(|_| Error::MechanismParamInvalid)?;
    Ok(([&[0, len], &context[..]].concat(), *deterministic))
}

struct MlDsaSigner {
    key: Arc<Private>,
    context: Vec<u8>,
    deterministic: bool,
}

impl Signer for MlDsaSigner {
    fn signature_len(&self) -> usize {
        self.key.set.signature_len()
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let out = prefix(out, self.key.set.signature_len())?;
        // FIPS 204, algorithm 2: zeros make the deterministic variant.
        let mut random = [0; 32];
        if !self.deterministic {
            ffi::random(&mut random)?;
        }
        ffi::ml_dsa_sign(self.key.set, &self.key.key, &self.context, input, &random, out)
    }
}

struct MlDsaVerifier {
    key: Arc<Public>,
    context: Vec<u8>,
}

impl Verifier for MlDsaVerifier {
    fn signature_len(&self) -> usize {
        self.key.set.signature_len()
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        if signature.len() != self.key.set.signature_len() {
            return Err(Error::SignatureLenRange);
        }
        ffi::ml_dsa_verify(self.key.set, &self.key.key, &self.context, input, signature)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{generate, sign, signer, verifier, verify};
    use super::*;
    use crate::backend::PairSpec;

    fn scheme(context: &[u8], deterministic: bool) -> Scheme {
        Scheme::MlDsa { context: context.into(), deterministic }
    }

    fn pair(set: MlDsa, seed: u8) -> (PublicParts, PrivateParts) {
        generate(PairSpec::MlDsa { set, seed: Some(&Secret::new(vec![seed; MlDsa::SEED_LEN])) })
    }

    #[test]
    fn signatures_verify_with_their_key_message_and_context_only() {
        for set in MlDsa::ALL {
            let (public, private) = generate(PairSpec::MlDsa { set, seed: None });
            let (other, _) = generate(PairSpec::MlDsa { set, seed: None });
            let own = scheme(b"context", false);
            let mut signature = sign(&private, &own, b"message").unwrap();
            assert_eq!(signature.len(), set.signature_len());
            verify(&public, &own, b"message", &signature).unwrap();
            let wrong = Err(Error::SignatureInvalid);
            assert_eq!(verify(&public, &own, b"messagf", &signature), wrong);
            assert_eq!(verify(&public, &scheme(b"", false), b"message", &signature), wrong);
            assert_eq!(verify(&other, &own, b"message", &signature), wrong);
            signature[7] ^= 0x10;
            assert_eq!(verify(&public, &own, b"message", &signature), wrong);
        }
    }

    #[test]
    fn a_seed_makes_the_same_pair_again_and_deterministic_signatures_repeat() {
        for set in MlDsa::ALL {
            let ((public, private), (again, private_again)) = (pair(set, 7), pair(set, 7));
            assert!(public == again);
            let deterministic = scheme(b"", true);
            let signature = sign(&private, &deterministic, b"message").unwrap();
            assert!(signature == sign(&private_again, &deterministic, b"message").unwrap());
            assert!(signature != sign(&private, &scheme(b"", false), b"message").unwrap());
            verify(&public, &deterministic, b"message", &signature).unwrap();
        }
    }

    #[test]
    fn the_public_key_comes_out_of_an_expanded_key_without_its_seed() {
        for set in MlDsa::ALL {
            let (public, PrivateParts::MlDsa { key, .. }) = pair(set, 9) else { panic!("not ML-DSA") };
            assert!(Private::parse(set, None, &key).unwrap().public().unwrap() == public);
        }
    }

    #[test]
    fn a_damaged_key_is_no_key() {
        let set = MlDsa::MlDsa65;
        let (_, PrivateParts::MlDsa { seed, mut key, .. }) = pair(set, 9) else { panic!("not ML-DSA") };
        let invalid = Some(Error::DataInvalid);
        assert_eq!(Private::parse(set, seed.as_ref(), &Secret::from(&key[1..])).err(), invalid);
        assert_eq!(Private::parse(set, None, &Secret::from(&key[1..])).err(), invalid);
        assert_eq!(Private::parse(MlDsa::MlDsa44, None, &key).err(), invalid);
        assert_eq!(Private::parse(set, Some(&Secret::zeroed(32)), &key).err(), invalid);
        assert_eq!(Private::parse(set, Some(&Secret::zeroed(31)), &key).err(), invalid);
        key[set.private_len() - 1] ^= 1;
        assert_eq!(Private::parse(set, seed.as_ref(), &key).err(), invalid);
        assert_eq!(Private::parse(set, None, &key).err(), invalid);
        assert_eq!(Public::parse(set, &[0; 1951]).err(), invalid);
    }

    #[test]
    fn contexts_end_at_255_bytes_and_signatures_have_one_length() {
        let (public, private) = pair(MlDsa::MlDsa44, 1);
        let longest = scheme(&[3; MlDsa::MAX_CONTEXT], true);
        let signature = sign(&private, &longest, b"").unwrap();
        let mut verifier = verifier(&public, &longest).unwrap();
        verifier.verify(b"", &signature).unwrap();
        for bad in [&[][..], &signature[1..], &[0; 2421]] {
            assert_eq!(verifier.verify(b"", bad), Err(Error::SignatureLenRange));
        }
        let too_long = scheme(&[3; MlDsa::MAX_CONTEXT + 1], true);
        assert_eq!(signer(&private, &too_long).err(), Some(Error::MechanismParamInvalid));
    }
}
