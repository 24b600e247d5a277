//! HKDF for keys and for data objects (PKCS#11 3.2, "HKDF mechanisms").

use jeton_secret::Secret;

use super::{Work, feedback, hmac, parse_len};
use crate::error::{Error, Result};
use crate::id::ObjectHandle;
use crate::mechanism::field;
use crate::mechanism::{HkdfSalt, Params};
use crate::object::make;
use crate::object::template::Template;

impl Work<'_> {
    /// Derives a data object, whose length is `CKA_VALUE_LEN` of the template (PKCS#11 3.2, "HKDF
    /// Data").
    pub(super) fn hkdf_data(&self, template: &Template<'_>) -> Result<ObjectHandle> {
        let guard = self.guard(template)?;
        let (attributes, len) = make::derived_data(template, guard.forced(), self.rights)?;
        self.rights.write(&attributes)?;
        let wanted = parse_len(len)?;
        let _permit = self.admit(wanted.unwrap_or(0))?;
        let value = Work { wanted, ..*self }.hkdf(&self.mechanism.params)?;
        self.token.insert(self.rights, self.session, make::put_data(attributes, &value, wanted)?)
    }

    pub(super) fn hkdf(&self, params: &Params) -> Result<Secret> {
        let Params::Hkdf { extract, expand, hash, salt, info } = params else {
            return Err(Error::MechanismParamInvalid);
        };
        let provider = self.token.provider();
        let salt = match salt {
            HkdfSalt::Null => Secret::zeroed(hash.len()),
            HkdfSalt::Data(salt) => Secret::from(&salt[..]),
            HkdfSalt::Key(handle) => self.other(*handle)?,
        };
        let key = match extract {
            true => hmac(provider, *hash, &salt, &[self.value()?])?,
            false => Secret::from(self.value()?),
        };
        match expand {
            true => feedback(
                |parts| hmac(provider, *hash, &key, parts),
                info,
                self.wanted.ok_or(Error::TemplateIncomplete)?,
            ),
            false if *extract => Ok(key),
            false => Err(field::refused("bExtract, bExpand: both are false")),
        }
    }
}
