//! HKDF for keys and for data objects (PKCS#11 3.2, "HKDF mechanisms").

use super::guard::is_unreadable;
use super::{Work, feedback, hmac, parse_len};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::mechanism::{HkdfSalt, Mechanism, Params};
use crate::module::Module;
use crate::object::bits::Flag;
use crate::object::template::Template;
use crate::object::{Object, make};
use crate::secret::Secret;

impl Module {
    /// Derives a data object, whose length is `CKA_VALUE_LEN` of the template (PKCS#11 3.2, "HKDF
    /// Data").
    pub(super) fn derive_data(
        &self,
        session: SessionHandle,
        mechanism: &Mechanism,
        base: &Object,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        let (token, rights) = self.access(session)?;
        let forced = base.attributes().get(A::DERIVE_TEMPLATE);
        let (attributes, len) = make::derived_data(template, forced, rights)?;
        rights.write(&attributes)?;
        let wanted = parse_len(len)?;
        let work = Work { token: &token, session, rights, mechanism, base, wanted };
        // A data object is always readable.
        if work.is_mac() && work.find_named_keys()?.iter().any(|salt| is_unreadable(salt)) {
            return Err(Error::TemplateInconsistent);
        }
        if token.settings.is_strict() && base.flag(Flag::SENSITIVE) {
            return Err(Error::TemplateInconsistent);
        }
        let value = work.hkdf(&mechanism.params)?;
        token.insert(rights, session, make::put_data(attributes, &value, wanted)?)
    }
}

impl Work<'_> {
    /// Returns whether the derived key is the HMAC under a key that the parameter names. If the
    /// caller could read it, they could sign with a key that has `CKA_SIGN` false.
    pub(super) fn is_mac(&self) -> bool {
        matches!(self.mechanism.params, Params::Hkdf { expand: false, salt: HkdfSalt::Key(_), .. })
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
            false => Err(Error::MechanismParamInvalid),
        }
    }
}
