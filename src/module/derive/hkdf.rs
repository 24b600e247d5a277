//! HKDF, to keys and to data (PKCS#11 3.2, "HKDF mechanisms").

use super::{Work, feedback, hmac, wanted};
use crate::error::{Error, Result};
use crate::id::{AttributeType as A, ObjectHandle, SessionHandle};
use crate::mechanism::{HkdfSalt, Invocation, Params};
use crate::module::Module;
use crate::object::template::Template;
use crate::object::{Object, make};
use crate::secret::Secret;

impl Module {
    /// PKCS#11 3.2, "HKDF Data": a data object, as long as `CKA_VALUE_LEN` of the template says.
    pub(super) fn derive_data(
        &self,
        session: SessionHandle,
        with: &Invocation,
        base: &Object,
        template: &Template<'_>,
    ) -> Result<ObjectHandle> {
        let (token, rights) = self.access(session)?;
        let forced = base.attributes().get(A::DERIVE_TEMPLATE);
        let (attributes, len) = make::derived_data(template, forced, rights.officer())?;
        rights.write(&attributes)?;
        let wanted = wanted(len)?;
        let value = Work { token: &token, session, rights, with, base, wanted }.hkdf(&with.params)?;
        token.insert(rights, session, make::put_data(attributes, &value, wanted)?)
    }
}

impl Work<'_> {
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
