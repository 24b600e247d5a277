//! IKE, versions 1 and 2 (PKCS#11 3.2, "IKE Mechanisms").

use jeton_secret::Secret;

use super::simple::concatenate;
use super::{Work, feedback, prf_len, prf_scheme};
use crate::backend::MacScheme;
use crate::error::{Error, Result, require};
use crate::id::{AttributeType as A, KeyType, ObjectHandle};
use crate::mechanism::{MacFunction, Params, hmac};
use crate::object::key;
use crate::object::template::Template;

/// The length of the keys of AES-CMAC-PRF-128 and AES-XCBC-PRF-128 in bytes.
const AES: usize = 16;

impl Work<'_> {
    pub(super) fn default_type(&self, template: &Template<'_>) -> Result<KeyType> {
        match self.mechanism.params {
            Params::IkePrf { prf, .. } => key_type(prf),
            // "CKA_KEY_TYPE must be specified in the template or CKR_TEMPLATE_INCOMPLETE is
            // returned."
            Params::Ike1Prf { .. } if template.bytes(A::KEY_TYPE).is_none() => Err(Error::TemplateIncomplete),
            _ => Ok(KeyType::GENERIC_SECRET),
        }
    }

    /// Computes "IKE PRF DERIVE": SKEYSEED of IKEv2, SKEYID of IKEv1.
    pub(super) fn ike_prf(&self) -> Result<Secret> {
        let Params::IkePrf { prf, data_as_key, nonces, new_key } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        let out = if *data_as_key {
            require(self.base.key_type() == Some(KeyType::GENERIC_SECRET), Error::KeyTypeInconsistent)?;
            self.prf(*prf, nonces, &[self.value()?])?
        } else {
            let new_key = self.generic(*new_key)?;
            self.prf(*prf, self.prf_key(*prf)?, &[&new_key, nonces])?
        };
        // "If CKA_VALUE_LEN is specified, it must equal the underlying prf or CKR_KEY_SIZE_RANGE is
        // returned."
        require(self.wanted.is_none_or(|wanted| wanted == out.len()), Error::KeySizeRange)?;
        Ok(out)
    }

    /// Computes "IKEv1 PRF DERIVE": SKEYID_d, SKEYID_a and SKEYID_e.
    pub(super) fn ike1_prf(&self) -> Result<Secret> {
        let Params::Ike1Prf { prf, shared, previous, cookies, number } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        let previous = previous.map(|handle| self.other(handle)).transpose()?.unwrap_or_default();
        let shared = self.generic(Some(*shared))?;
        let out = self.prf(*prf, self.prf_key(*prf)?, &[&previous, &shared, cookies, &[*number]])?;
        require(self.wanted.is_none_or(|wanted| wanted <= out.len()), Error::KeySizeRange)?;
        Ok(out)
    }

    /// Computes "IKEv1 Extended Derive" (RFC 2409, 5.5 and appendix B).
    pub(super) fn ike1_extended(&self) -> Result<Secret> {
        let Params::Ike1Extended { prf, shared, extra } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        let (key, len) = (self.prf_key(*prf)?, self.wanted.ok_or(Error::TemplateIncomplete)?);
        let seed = concatenate(&[&self.generic(*shared)?, extra]);
        let block = prf_len(&prf_scheme(*prf)?);
        // Appendix B: a base key that is long enough is cut. With extra data this is the quick mode
        // of 5.5, where the data makes the keys different. PKCS#11 says to cut the base key there
        // too, but this would give the same key for all data.
        if self.ike1_cuts(len) {
            return Ok(key[..len].into());
        }
        require(len <= 255 * block, Error::KeySizeRange)?;
        let first: &[u8] = if seed.is_empty() { &[0] } else { &seed };
        let mut last = self.prf(*prf, key, &[first])?;
        let mut out = last.duplicate();
        while out.len() < len {
            last = self.prf(*prf, key, &[&last, &seed])?;
            out.extend(&last)?;
        }
        Ok(out)
    }

    /// Returns whether "IKEv1 Extended Derive" gives the first bytes of the base key for a key of
    /// that length.
    pub(super) fn ike1_cuts(&self, len: usize) -> bool {
        let Params::Ike1Extended { prf, shared: None, extra } = &self.mechanism.params else { return false };
        let block = prf_scheme(*prf).map_or(0, |scheme| prf_len(&scheme));
        extra.is_empty() && len <= block.min(self.value_len())
    }

    /// Computes "IKEv2 PRF PLUS DERIVE" (RFC 7296, 2.13).
    pub(super) fn ike2_prf_plus(&self) -> Result<Secret> {
        let Params::Ike2PrfPlus { prf, seed_key, seed } = &self.mechanism.params else {
            return Err(Error::MechanismParamInvalid);
        };
        let (key, len) = (self.prf_key(*prf)?, self.wanted.ok_or(Error::TemplateIncomplete)?);
        let seed_key = seed_key.map(|handle| self.other(handle)).transpose()?.unwrap_or_default();
        feedback(|parts| self.prf(*prf, key, parts), &concatenate(&[&seed_key, seed]), len)
    }

    /// Returns the base key. Fails with `KeyTypeInconsistent` if the pseudo-random function (PRF)
    /// does not accept its type.
    fn prf_key(&self, prf: MacFunction) -> Result<&[u8]> {
        let own = self.base.key_type();
        // HMAC also accepts a generic secret (PKCS#11 3.2, "HMAC mechanisms").
        let generic = matches!(prf, MacFunction::Hmac(_)) && own == Some(KeyType::GENERIC_SECRET);
        if generic || own == Some(key_type(prf)?) { self.value() } else { Err(Error::KeyTypeInconsistent) }
    }

    /// Returns the value of another key, which must be a generic secret. Returns an empty value if
    /// there is no other key.
    fn generic(&self, handle: Option<ObjectHandle>) -> Result<Secret> {
        let Some(handle) = handle else { return Ok(Secret::default()) };
        let object = self.find_derivable(handle)?;
        require(object.key_type() == Some(KeyType::GENERIC_SECRET), Error::KeyTypeInconsistent)?;
        key::secret(object.attributes()).map(Secret::from)
    }

    /// Computes a PRF. The AES functions accept keys of every length, each by its own rule.
    fn prf(&self, prf: MacFunction, key: &[u8], parts: &[&[u8]]) -> Result<Secret> {
        let (provider, scheme) = (self.provider(), prf_scheme(prf)?);
        let key = match scheme {
            MacScheme::Hmac(_) => key.into(),
            _ if key.len() == AES => key.into(),
            // RFC 4434, 2: a shorter key is padded with zeros.
            MacScheme::AesXcbc if key.len() < AES => concatenate(&[key, &[0; AES][key.len()..]]),
            // RFC 4434, 2, and RFC 4615, 3: the PRF of any other key, under a key of zeros,
            // replaces the key.
            _ => provider.mac(&scheme, &[0; AES], &[key])?,
        };
        provider.mac(&scheme, &key, parts)
    }
}

fn key_type(prf: MacFunction) -> Result<KeyType> {
    match prf {
        MacFunction::Hmac(hash) => hmac::key_type(hash).ok_or(Error::MechanismParamInvalid),
        _ => Ok(KeyType::AES),
    }
}
