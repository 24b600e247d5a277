//! Built-in objects, in which the token describes itself. They are read-only, and visible without a
//! login.
//!
//! A search finds them only if its template names their class. PKCS#11 2.40 says so for hardware
//! features and mechanisms: "This protects applications … from finding objects that they do not
//! understand."

use super::value::Value;
use super::{Attributes, Home, Object};
use crate::backend::Provider;
use crate::error::Result;
use crate::id::{AttributeType as A, MechanismType, ObjectClass, value};

/// The profiles that the token follows (PKCS#11 Profiles 3.1). The last one applies because
/// certificates are public unless the caller makes them private.
const PROFILES: [(u64, &str); 4] = [
    (value::BASELINE_PROVIDER, "CKP_BASELINE_PROVIDER"),
    (value::EXTENDED_PROVIDER, "CKP_EXTENDED_PROVIDER"),
    (value::AUTHENTICATION_TOKEN, "CKP_AUTHENTICATION_TOKEN"),
    (value::PUBLIC_CERTIFICATES_TOKEN, "CKP_PUBLIC_CERTIFICATES_TOKEN"),
];

/// The classes of the built-in objects. Applications cannot create objects of these classes.
pub(crate) const CLASSES: [ObjectClass; 4] =
    [ObjectClass::PROFILE, ObjectClass::MECHANISM, ObjectClass::HW_FEATURE, ObjectClass::VALIDATION];

/// Returns a profile object for each profile, a mechanism object for each of these mechanisms, and
/// the clock. There is no counter and no display. Only the build with the validated module has a
/// validation object.
pub(crate) fn objects(
    mechanisms: impl Iterator<Item = MechanismType>,
    provider: &'static Provider,
) -> Result<Vec<Object>> {
    let profiles =
        PROFILES.iter().map(|(id, name)| (ObjectClass::PROFILE, A::PROFILE_ID, *id, (*name).to_owned()));
    let mechanisms = mechanisms.map(|id| (ObjectClass::MECHANISM, A::MECHANISM_TYPE, id.0, id.to_string()));
    let clock = (ObjectClass::HW_FEATURE, A::HW_FEATURE_TYPE, value::HW_CLOCK, "CKH_CLOCK".to_owned());
    let objects = profiles.chain(mechanisms).chain([clock]).map(|(class, kind, number, name)| {
        let mut attributes = Attributes::default();
        attributes.put(A::CLASS, Value::Number(class.0));
        attributes.put(kind, Value::Number(number));
        attributes.put(A::UNIQUE_ID, Value::Bytes(name.as_bytes().into()));
        Object::new(Home::BuiltIn, attributes, provider)
    });
    objects.chain(cfg!(feature = "fips").then(|| validation(provider))).collect()
}

/// Returns what is known of the validation of the module. `JETON_FIPS_CERTIFICATE` gives the
/// certificate at build time, because it depends on the platform and on how the module was built.
fn validation(provider: &'static Provider) -> Result<Object> {
    let certificate = option_env!("JETON_FIPS_CERTIFICATE").unwrap_or_default();
    let authority = if certificate.is_empty() { value::NO_AUTHORITY } else { value::CMVP };
    let mut attributes = Attributes::default();
    for (id, number) in [
        (A::CLASS, ObjectClass::VALIDATION.0),
        (A::VALIDATION_TYPE, value::VALIDATION_OF_SOFTWARE),
        (A::VALIDATION_LEVEL, 1),
        (A::VALIDATION_FLAG, 1),
        (A::VALIDATION_AUTHORITY_TYPE, authority),
    ] {
        attributes.put(id, Value::Number(number));
    }
    for (id, text) in [
        (A::UNIQUE_ID, "CKO_VALIDATION"),
        // FIPS 140-3.
        (A::VALIDATION_VERSION, "\x03\0"),
        (A::VALIDATION_MODULE_ID, "AWS-LC FIPS 3.1.0"),
        (A::VALIDATION_COUNTRY, "US"),
        (A::VALIDATION_CERTIFICATE_IDENTIFIER, certificate),
        (A::VALIDATION_CERTIFICATE_URI, ""),
        (A::VALIDATION_VENDOR_URI, "https://github.com/aws/aws-lc"),
        (A::VALIDATION_PROFILE, ""),
    ] {
        attributes.put(id, Value::Bytes(text.as_bytes().into()));
    }
    Object::new(Home::BuiltIn, attributes, provider)
}
