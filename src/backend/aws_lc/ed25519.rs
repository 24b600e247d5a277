//! Ed25519 (RFC 8032): pure, with a context, and on a digest.

use std::sync::Arc;

use super::random::System;
use super::{ffi, verdict};
use crate::backend::{
    PrivateKey, PrivateParts, PublicKey, PublicParts, Random as _, Scheme, Signer, Verifier,
};
use crate::error::{Error, Result};
use crate::secret::Secret;

const SEED_LEN: usize = 32;
const SIGNATURE_LEN: usize = 64;

pub(super) fn generate() -> Result<(PublicParts, PrivateParts)> {
    let seed = System.secret(SEED_LEN)?;
    let public = Private::parse(&seed)?.point;
    Ok((PublicParts::Ed25519 { point: public }, PrivateParts::Ed25519 { seed }))
}

/// A private key and its public key.
pub(super) struct Private {
    point: [u8; 32],
    /// The seed and the public key, in the form that AWS-LC signs with.
    key: Secret,
}

impl Private {
    pub(super) fn parse(seed: &[u8]) -> Result<Self> {
        let seed = seed.as_array::<SEED_LEN>().ok_or(Error::DataInvalid)?;
        let (point, key) = ffi::ed25519_public(seed);
        Ok(Self { point, key })
    }
}

impl PrivateKey for Private {
    fn public(&self) -> Result<PublicParts> {
        Ok(PublicParts::Ed25519 { point: self.point })
    }

    fn signer(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Signer>> {
        Ok(Box::new(Ed25519Signer { key: self, form: Form::parse(scheme)? }))
    }
}

/// A public key that was checked.
pub(super) struct Public([u8; 32]);

impl Public {
    pub(super) fn parse(point: [u8; 32]) -> Result<Self> {
        if ffi::ed25519_is_on_curve(&point) { Ok(Self(point)) } else { Err(Error::DataInvalid) }
    }
}

impl PublicKey for Public {
    fn verifier(self: Arc<Self>, scheme: &Scheme) -> Result<Box<dyn Verifier>> {
        Ok(Box::new(Ed25519Verifier { key: self, form: Form::parse(scheme)? }))
    }
}

/// The variant of Ed25519.
enum Form {
    Pure,
    /// Ed25519ctx, with this context.
    Context(Box<[u8]>),
    /// Ed25519ph, with this context.
    Prehash(Box<[u8]>),
}

impl Form {
    fn parse(scheme: &Scheme) -> Result<Self> {
        match scheme {
            Scheme::Ed25519 => Ok(Self::Pure),
            Scheme::Ed25519Context { context, .. } if context.len() > 255 => {
                Err(Error::MechanismParamInvalid)
            }
            Scheme::Ed25519Context { prehash: true, context } => Ok(Self::Prehash(context.clone())),
            // RFC 8032, 5.1: the context of Ed25519ctx should not be empty.
            Scheme::Ed25519Context { context, .. } if context.is_empty() => Err(Error::MechanismParamInvalid),
            Scheme::Ed25519Context { context, .. } => Ok(Self::Context(context.clone())),
            _ => Err(Error::KeyTypeInconsistent),
        }
    }

    fn input<'a>(&'a self, input: &'a [u8]) -> Result<ffi::Ed25519Input<'a>> {
        Ok(match self {
            Self::Pure => ffi::Ed25519Input::Pure(input),
            Self::Context(context) => ffi::Ed25519Input::Context(input, context),
            Self::Prehash(context) => {
                ffi::Ed25519Input::Digest(input.as_array().ok_or(Error::DataLenRange)?, context)
            }
        })
    }
}

struct Ed25519Signer {
    key: Arc<Private>,
    form: Form,
}

impl Signer for Ed25519Signer {
    fn signature_len(&self) -> usize {
        SIGNATURE_LEN
    }

    fn sign(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        let input = self.form.input(input)?;
        let out = out.first_chunk_mut().ok_or(Error::BufferTooSmall { needed: SIGNATURE_LEN })?;
        ffi::ed25519_sign(&self.key.key, input, out)
    }
}

struct Ed25519Verifier {
    key: Arc<Public>,
    form: Form,
}

impl Verifier for Ed25519Verifier {
    fn signature_len(&self) -> usize {
        SIGNATURE_LEN
    }

    fn verify(&mut self, input: &[u8], signature: &[u8]) -> Result<()> {
        let input = self.form.input(input)?;
        let signature = signature.as_array().ok_or(Error::SignatureLenRange)?;
        verdict(ffi::ed25519_verify(&self.key.0, input, signature))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{generate, hex, sign, verifier, verify};
    use super::*;
    use crate::backend::PairSpec;

    /// RFC 8032, 7.1, tests 1 and 2: seed, public key, message, signature.
    const RFC_8032: [[&str; 4]; 2] = [
        [
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155\
             5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ],
        [
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ],
    ];

    #[test]
    fn published_keys_and_signatures() {
        for [seed, public, message, signature] in RFC_8032.map(|row| row.map(hex)) {
            let private = PrivateParts::Ed25519 { seed: Secret::new(seed.clone()) };
            assert_eq!(sign(&private, &Scheme::Ed25519, &message).unwrap(), signature);
            let PublicParts::Ed25519 { point } = Arc::new(Private::parse(&seed).unwrap()).public().unwrap()
            else {
                panic!("not Ed25519")
            };
            assert_eq!(point.as_slice(), public);
            verify(&PublicParts::Ed25519 { point }, &Scheme::Ed25519, &message, &signature).unwrap();
        }
    }

    #[test]
    fn a_changed_bit_and_another_key_are_refused() {
        let (public, private) = generate(PairSpec::Ed25519);
        let (other, _) = generate(PairSpec::Ed25519);
        let mut signature = sign(&private, &Scheme::Ed25519, b"message").unwrap();
        let wrong = Err(Error::SignatureInvalid);
        assert_eq!(verify(&public, &Scheme::Ed25519, b"messagf", &signature), wrong);
        assert_eq!(verify(&other, &Scheme::Ed25519, b"message", &signature), wrong);
        for byte in [0, 31, 32, 63] {
            signature[byte] ^= 1;
            assert_eq!(verify(&public, &Scheme::Ed25519, b"message", &signature), wrong);
            signature[byte] ^= 1;
        }
        verify(&public, &Scheme::Ed25519, b"message", &signature).unwrap();
    }

    #[test]
    fn wrong_lengths_of_keys_and_signatures_are_refused() {
        assert_eq!(Private::parse(&[1; 31]).err(), Some(Error::DataInvalid));
        assert_eq!(Private::parse(&[1; 33]).err(), Some(Error::DataInvalid));
        let (public, _) = generate(PairSpec::Ed25519);
        let mut verifier = verifier(&public, &Scheme::Ed25519).unwrap();
        for len in [0, 63, 65] {
            assert_eq!(verifier.verify(b"", &vec![0; len]), Err(Error::SignatureLenRange));
        }
    }

    #[test]
    fn a_point_off_the_curve_is_refused() {
        // y = 2 has no x: (y^2 - 1) / (d y^2 + 1) is not a square.
        let mut point = [0; 32];
        point[0] = 2;
        assert_eq!(Public::parse(point).err(), Some(Error::DataInvalid));
    }

    fn form(prehash: bool, context: &[u8]) -> Scheme {
        Scheme::Ed25519Context { prehash, context: context.into() }
    }

    /// RFC 8032, 7.2 ("foo") and 7.3.
    #[test]
    fn published_signatures_with_a_context_and_of_a_digest() {
        let mut digest = [0; 64];
        super::super::PROVIDER.digest.hash(crate::backend::Hash::Sha512, b"abc", &mut digest).unwrap();
        for (seed, scheme, input, expected) in [
            (
                "0305334e381af78f141cb666f6199f57bc3495335a256a95bd2a55bf546663f6",
                form(false, b"foo"),
                hex("f726936d19c800494e3fdaff20b276a8"),
                "55a4cc2f70a54e04288c5f4cd1e45a7bb520b36292911876cada7323198dd87a\
                 8b36950b95130022907a7fb7c4e9b2d5f6cca685a587b4b21f4b888e4e7edb0d",
            ),
            (
                "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
                form(true, b""),
                digest.to_vec(),
                "98a70222f0b8121aa9d30f813d683f809e462b469c7ff87639499bb94e6dae41\
                 31f85042463c2a355a2003d062adf5aaa10b8c61e636062aaad11c2a26083406",
            ),
        ] {
            let private = PrivateParts::Ed25519 { seed: Secret::new(hex(seed)) };
            let public = Private::parse(&hex(seed)).unwrap().public().unwrap();
            assert_eq!(sign(&private, &scheme, &input).unwrap(), hex(expected));
            verify(&public, &scheme, &input, &hex(expected)).unwrap();
            let other = form(input.len() == 64, b"bar");
            let wrong = Err(Error::SignatureInvalid);
            assert_eq!(verify(&public, &other, &input, &hex(expected)), wrong);
            assert_eq!(verify(&public, &Scheme::Ed25519, &input, &hex(expected)), wrong);
        }
    }

    #[test]
    fn wrong_lengths_of_contexts_and_digests_are_refused() {
        let (public, private) = generate(PairSpec::Ed25519);
        for bad in [form(false, b""), form(false, &[1; 256]), form(true, &[1; 256])] {
            let refused = Some(Error::MechanismParamInvalid);
            assert_eq!(sign(&private, &bad, &[1; 64]).err(), refused);
            assert_eq!(verifier(&public, &bad).err(), refused);
        }
        for longest in [form(false, &[1; 255]), form(true, &[1; 255])] {
            let signature = sign(&private, &longest, &[1; 64]).unwrap();
            verify(&public, &longest, &[1; 64], &signature).unwrap();
        }
        assert_eq!(sign(&private, &form(true, b""), &[1; 63]), Err(Error::DataLenRange));
        assert_eq!(verify(&public, &form(true, b""), &[1; 65], &[1; 64]), Err(Error::DataLenRange));
    }
}
