//! The identifiers of the algorithms of keys, and the parameter that some of them have.

use der::asn1::ObjectIdentifier;

pub(crate) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
pub(crate) const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
pub(crate) const PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
pub(crate) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
pub(crate) const ED448: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.113");
pub(crate) const NULL: &[u8] = &[5, 0];
