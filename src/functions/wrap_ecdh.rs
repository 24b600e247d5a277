//! Wrapping by ECDH (PKCS#11 3.2, "ECDH AES KEY WRAP" and the similar mechanisms). A fresh key pair
//! and the wrapping key agree on an AES key. The AES key wraps the target key with KWP. The output
//! is the fresh public key, followed by the wrapped key.

use der::Encode;
use der::asn1::OctetStringRef;
use jeton_secret::Secret;

use super::derive::stretch;
use super::wrap_aes::kwp;
use crate::backend::{CipherScheme, Direction, PrivateKey};
use crate::error::{Error, Result, require};
use crate::mechanism::field;
use crate::mechanism::{Action, AgreementKdf, Asymmetric, Mechanism, Params, PointForm, row_of};
use crate::object::key_type::ec;
use crate::object::{Attributes, Object, key};
use crate::token::Token;

/// The parameter of the mechanism, and the encoding of the fresh public key.
pub(super) struct Agreement<'a> {
    aes_len: usize,
    kdf: Option<AgreementKdf>,
    shared: &'a [u8],
    form: PointForm,
}

impl<'a> Agreement<'a> {
    pub(super) fn of(mechanism: &'a Mechanism) -> Result<Option<Self>> {
        let Action::Encrypt(Asymmetric::EcdhAesWrap(form)) = row_of(mechanism.info).action else {
            return Ok(None);
        };
        let Params::EcdhAesWrap { aes_bits, kdf, shared } = &mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        Ok(Some(Self { aes_len: aes_bits / 8, kdf: *kdf, shared, form }))
    }

    /// Returns the length of the output for a key of `len` bytes.
    pub(super) fn wrapped_len(&self, wrapping: &Object, len: usize) -> Result<usize> {
        let kwp = CipherScheme::AesKwp { iv: None }.growth().output_len(Direction::Encrypt, len);
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
        let head = self.encode(ec::point_of(&fresh)?)?;
        let peer = key::public_parts(wrapping.attributes())?;
        let aes = self.aes_key(token, &*provider.keys.private(&private)?, ec::point_of(&peer)?).map_err(
            |error| match error {
                // The wrapping key is a point of small order, which gives no shared secret.
                Error::DataInvalid => Error::KeyFunctionNotPermitted,
                other => other,
            },
        )?;
        let (place, rest) = out.split_at_mut_checked(head.len()).ok_or(Error::GeneralError)?;
        place.copy_from_slice(&head);
        Ok(head.len() + kwp(token, &aes, Direction::Encrypt, plain, rest)?)
    }

    /// Writes the unwrapped key to the front of `plain`. Returns its length.
    pub(super) fn unwrap(
        &self,
        token: &Token,
        unwrapping: &Object,
        wrapped: &[u8],
        plain: &mut [u8],
    ) -> Result<usize> {
        let len = self.head_len(unwrapping.attributes())?;
        let (head, rest) = wrapped.split_at_checked(len).ok_or(Error::WrappedKeyLenRange)?;
        let bare = head.len() - ec::point_len(unwrapping.attributes())?;
        require(self.encode(&head[bare..])? == head, Error::WrappedKeyInvalid)?;
        let private = unwrapping.private_key(token.provider())?;
        let aes = self.aes_key(token, &*private, &head[bare..]).map_err(|error| match error {
            Error::DataInvalid => Error::WrappedKeyInvalid,
            other => other,
        })?;
        kwp(token, &aes, Direction::Decrypt, rest, plain)
    }

    /// Returns the AES key: the output of the KDF, or without a KDF the first bytes of the shared
    /// secret.
    fn aes_key(&self, token: &Token, private: &dyn PrivateKey, peer: &[u8]) -> Result<Secret> {
        let secret = private.agree(peer)?;
        match self.kdf {
            Some(kdf) => stretch(token.provider(), kdf, &secret, self.shared, self.aes_len),
            // The shared secret of P-224 has 28 bytes, and an AES key may have 32.
            None => {
                let key = secret.get(..self.aes_len).map(Secret::from);
                key.ok_or_else(|| field::refused("ulAESKeyBits: more than the shared secret has"))
            }
        }
    }

    fn head_len(&self, attributes: &Attributes) -> Result<usize> {
        let point = vec![0; ec::point_len(attributes)?];
        self.encode(&point).map(|head| head.len())
    }

    /// Encodes the fresh public key: the bare point or u-coordinate, or a DER octet string around
    /// it for `CKM_ECDH_COF_AES_KEY_WRAP`.
    fn encode(&self, point: &[u8]) -> Result<Vec<u8>> {
        match self.form {
            PointForm::Bare => Ok(point.to_vec()),
            PointForm::Octets => {
                OctetStringRef::new(point).and_then(|octets| octets.to_der()).map_err(|_| Error::GeneralError)
            }
        }
    }
}
