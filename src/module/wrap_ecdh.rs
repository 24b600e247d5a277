//! Wrapping by an agreement on a curve (PKCS#11 3.2, "ECDH AES KEY WRAP" and its sisters): a fresh key pair agrees
//! with the wrapping key on an AES key, under which the other key goes with KWP, behind the fresh public key.

use der::Encode;
use der::asn1::OctetStringRef;

use super::derive::x963;
use super::wrap::kwp;
use crate::backend::{CipherScheme, Direction, Hash, PrivateKey};
use crate::error::{Error, Result};
use crate::mechanism::{Action, Asymmetric, Invocation, Params, PointForm};
use crate::object::{Attributes, Object, curve, key};
use crate::secret::Secret;
use crate::token::Token;

/// The parameter, and the form of the fresh public key; `None` for another mechanism.
pub(super) struct Agreement<'a> {
    aes_len: usize,
    kdf: Option<Hash>,
    shared: &'a [u8],
    form: PointForm,
}

impl<'a> Agreement<'a> {
    pub(super) fn of(with: &'a Invocation) -> Result<Option<Self>> {
        let Action::Encrypt(Asymmetric::EcdhAesWrap(form)) = with.mechanism.action else {
            return Ok(None);
        };
        let Params::EcdhAesWrap { aes_bits, kdf, shared } = &with.params else {
            return Err(Error::MechanismParamInvalid);
        };
        Ok(Some(Self { aes_len: aes_bits / 8, kdf: *kdf, shared, form }))
    }

    /// The length of what wraps `len` bytes.
    pub(super) fn wrapped_len(&self, wrapping: &Object, len: usize) -> Result<usize> {
        let kwp = CipherScheme::AesKwp { iv: None }.output_len(Direction::Encrypt, len);
        Ok(self.head_len(wrapping.attributes())? + kwp)
    }

    pub(super) fn wrap(
        &self,
        token: &Token,
        wrapping: &Object,
        plain: &Secret,
        out: &mut [u8],
    ) -> Result<usize> {
        let provider = token.provider();
        let spec = key::pair_spec(wrapping.attributes(), &Attributes::default())?;
        let (fresh, private) = provider.keys.generate(&spec)?;
        let head = self.encoded(curve::point_of(&fresh)?)?;
        let peer = key::public_parts(wrapping.attributes())?;
        let aes = self.aes_key(token, &*provider.keys.private(&private)?, curve::point_of(&peer)?).map_err(
            |error| match error {
                // The wrapping key is a point of small order, with which no secret is made.
                Error::DataInvalid => Error::KeyFunctionNotPermitted,
                other => other,
            },
        )?;
        let (place, rest) = out.split_at_mut_checked(head.len()).ok_or(Error::GeneralError)?;
        place.copy_from_slice(&head);
        Ok(head.len() + kwp(token, &aes, Direction::Encrypt, plain, rest)?)
    }

    /// What was wrapped, into the front of `plain`; its length.
    pub(super) fn unwrap(
        &self,
        token: &Token,
        unwrapping: &Object,
        wrapped: &[u8],
        plain: &mut [u8],
    ) -> Result<usize> {
        let len = self.head_len(unwrapping.attributes())?;
        let (head, rest) = wrapped.split_at_checked(len).ok_or(Error::WrappedKeyLenRange)?;
        let bare = head.len() - curve::point_len(unwrapping.attributes())?;
        if self.encoded(&head[bare..])? != head {
            return Err(Error::WrappedKeyInvalid);
        }
        let private = unwrapping.private_key(token.provider())?;
        let aes = self.aes_key(token, &*private, &head[bare..]).map_err(|error| match error {
            Error::DataInvalid => Error::WrappedKeyInvalid,
            other => other,
        })?;
        kwp(token, &aes, Direction::Decrypt, rest, plain)
    }

    /// The first bits of what the agreement gives.
    fn aes_key(&self, token: &Token, private: &dyn PrivateKey, peer: &[u8]) -> Result<Secret> {
        let secret = private.agree(peer)?;
        match self.kdf {
            Some(hash) => x963(token.provider(), hash, &secret, self.shared, self.aes_len),
            // A curve's coordinate may be shorter than the AES key.
            None => secret.get(..self.aes_len).map(Secret::from).ok_or(Error::MechanismParamInvalid),
        }
    }

    fn head_len(&self, attributes: &Attributes) -> Result<usize> {
        let point = vec![0; curve::point_len(attributes)?];
        self.encoded(&point).map(|head| head.len())
    }

    /// The fresh public key: the point or u-coordinate itself, or, where the cofactor is named, a DER octet string.
    fn encoded(&self, point: &[u8]) -> Result<Vec<u8>> {
        match self.form {
            PointForm::Bare => Ok(point.to_vec()),
            PointForm::Octets => {
                OctetStringRef::new(point).and_then(|octets| octets.to_der()).map_err(|_| Error::GeneralError)
            }
        }
    }
}
