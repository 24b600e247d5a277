//! ML-KEM (FIPS 203).

use super::ffi;
use super::random::System;
use crate::backend::{MlKem, PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _};
use crate::error::{Error, Result};
use crate::secret::Secret;

pub(super) fn generate(set: MlKem, seed: Option<&Secret>) -> Result<(PublicParts, PrivateParts)> {
    let seed = System.seed(seed, MlKem::SEED_LEN)?;
    let (public, key) = expand(set, &seed)?;
    Ok((PublicParts::MlKem { set, key: public }, PrivateParts::MlKem { set, seed: Some(seed), key }))
}

fn expand(set: MlKem, seed: &[u8]) -> Result<(Vec<u8>, Secret)> {
    ffi::ml_kem_expand(set, seed.as_array().ok_or(Error::DataInvalid)?)
}

/// A decapsulation key in the encoding of FIPS 203. AWS-LC takes the key in this form.
pub(super) struct Private {
    set: MlKem,
    public: Vec<u8>,
    key: Secret,
}

impl Private {
    pub(super) fn parse(set: MlKem, seed: Option<&Secret>, key: &Secret) -> Result<Self> {
        let public = match seed {
            Some(seed) => {
                let (public, expanded) = expand(set, seed)?;
                if !ffi::equal(&expanded, key) {
                    return Err(Error::DataInvalid);
                }
                public
            }
            None => ffi::ml_kem_public(set, key)?,
        };
        Ok(Self { set, public, key: key.duplicate() })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::MlKem { set: self.set, key: self.public.clone() })
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Result<Secret> {
        ffi::ml_kem_decapsulate(self.set, &self.key, ciphertext)
    }
}

/// An encapsulation key that was checked.
pub(super) struct Public {
    set: MlKem,
    key: Vec<u8>,
}

impl Public {
    pub(super) fn parse(set: MlKem, key: &[u8]) -> Result<Self> {
        ffi::ml_kem_check(set, key)?;
        Ok(Self { set, key: key.to_vec() })
    }
}

impl PublicKey for Public {
    fn encapsulate(&self) -> Result<(Vec<u8>, Secret)> {
        ffi::ml_kem_encapsulate(self.set, &self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PROVIDER;
    use super::super::tests::generate;
    use super::*;
    use crate::backend::PairSpec;

    fn pair(set: MlKem, seed: u8) -> (PublicParts, PrivateParts) {
        generate(PairSpec::MlKem { set, seed: Some(&Secret::new(vec![seed; MlKem::SEED_LEN])) })
    }

    #[test]
    fn both_sides_compute_the_same_secret() {
        for set in MlKem::ALL {
            let (public, private) = generate(PairSpec::MlKem { set, seed: None });
            let private = PROVIDER.keys.private(&private).unwrap();
            assert!(private.public().unwrap() == public);
            let (mut ciphertext, secret) = PROVIDER.keys.public(&public).unwrap().encapsulate().unwrap();
            assert_eq!((ciphertext.len(), secret.len()), (set.ciphertext_len(), MlKem::SECRET_LEN));
            assert_eq!(private.decapsulate(&ciphertext).unwrap()[..], secret[..]);
            // FIPS 203, algorithm 18, line 9: each decapsulation of a wrong ciphertext gives the
            // same secret, which differs from the right one.
            ciphertext[3] ^= 1;
            let rejected = private.decapsulate(&ciphertext).unwrap();
            assert_eq!(private.decapsulate(&ciphertext).unwrap()[..], rejected[..]);
            assert_ne!(rejected[..], secret[..]);
            for bad in [&ciphertext[1..], &[]] {
                assert_eq!(private.decapsulate(bad).err(), Some(Error::EncryptedDataLenRange));
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_pair() {
        for set in MlKem::ALL {
            let ((public, _), (again, private)) = (pair(set, 7), pair(set, 7));
            assert!(public == again);
            let PrivateParts::MlKem { key, .. } = private else { panic!("not ML-KEM") };
            assert!(Private::parse(set, None, &key).unwrap().public().unwrap() == public);
        }
    }

    #[test]
    fn a_damaged_key_is_refused() {
        let set = MlKem::MlKem768;
        let (PublicParts::MlKem { key: mut public, .. }, PrivateParts::MlKem { seed, mut key, .. }) =
            pair(set, 9)
        else {
            panic!("not ML-KEM")
        };
        let invalid = Some(Error::DataInvalid);
        assert_eq!(Private::parse(set, None, &Secret::from(&key[1..])).err(), invalid);
        assert_eq!(Private::parse(MlKem::MlKem512, None, &key).err(), invalid);
        assert_eq!(Private::parse(set, Some(&Secret::zeroed(64)), &key).err(), invalid);
        assert_eq!(Private::parse(set, Some(&Secret::zeroed(63)), &key).err(), invalid);
        // This changes a bit of the encapsulation key inside the decapsulation key. The hash of the
        // encapsulation key then no longer matches.
        key[1300] ^= 1;
        assert_eq!(Private::parse(set, seed.as_ref(), &key).err(), invalid);
        assert_eq!(Private::parse(set, None, &key).err(), invalid);
        assert_eq!(Public::parse(set, &public[1..]).err(), invalid);
        // FIPS 203, 7.2: every coefficient is below q.
        public[..3].fill(0xff);
        assert_eq!(Public::parse(set, &public).err(), invalid);
    }
}
