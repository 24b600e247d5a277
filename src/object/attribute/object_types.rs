//! The object types that the token knows: each class together with a key, certificate or hardware
//! feature type.

use super::ObjectTypes;
use crate::id::{KeyType as K, ObjectClass, value};

#[allow(missing_docs, reason = "the names are the specification's")]
impl ObjectTypes {
    pub const DATA: Self = Self::member(0);
    pub const X_509: Self = Self::member(1);
    pub(crate) const RSA_PUBLIC: Self = Self::member(2);
    pub(crate) const EC_PUBLIC: Self = Self::member(3);
    pub(crate) const EDWARDS_PUBLIC: Self = Self::member(4);
    pub(crate) const MONTGOMERY_PUBLIC: Self = Self::member(5);
    pub(crate) const ML_DSA_PUBLIC: Self = Self::member(6);
    pub(crate) const SLH_DSA_PUBLIC: Self = Self::member(7);
    pub(crate) const ML_KEM_PUBLIC: Self = Self::member(8);
    pub(crate) const RSA_PRIVATE: Self = Self::member(10);
    pub(crate) const EC_PRIVATE: Self = Self::member(11);
    pub(crate) const EDWARDS_PRIVATE: Self = Self::member(12);
    pub(crate) const MONTGOMERY_PRIVATE: Self = Self::member(13);
    pub(crate) const ML_DSA_PRIVATE: Self = Self::member(14);
    pub(crate) const SLH_DSA_PRIVATE: Self = Self::member(15);
    pub(crate) const ML_KEM_PRIVATE: Self = Self::member(16);
    pub(crate) const AES: Self = Self::member(20);
    pub(crate) const GENERIC_SECRET: Self = Self::member(21);
    pub(crate) const AES_XTS: Self = Self::member(22);
    pub(crate) const CHACHA20: Self = Self::member(23);
    pub(crate) const HKDF: Self = Self::member(24);
    /// The key types of the HMACs.
    pub(crate) const HMAC: Self = Self::member(25);
    pub(crate) const DH_PUBLIC: Self = Self::member(40);
    pub(crate) const DH_PRIVATE: Self = Self::member(41);
    pub const DH_PARAMETERS: Self = Self::member(42);
    pub(crate) const HOTP: Self = Self::member(43);
    pub const X_509_ATTRIBUTE: Self = Self::member(44);
    pub const WTLS: Self = Self::member(45);
    pub const TRUST: Self = Self::member(46);
    pub(crate) const PROFILE: Self = Self::member(47);
    pub(crate) const MECHANISM: Self = Self::member(48);
    /// The clock, the only hardware feature.
    pub(crate) const CLOCK: Self = Self::member(49);
    pub(crate) const VALIDATION: Self = Self::member(50);
    pub(crate) const DES3: Self = Self::member(51);
    pub(crate) const DSA_PUBLIC: Self = Self::member(52);
    pub(crate) const DSA_PRIVATE: Self = Self::member(53);
    pub const DSA_PARAMETERS: Self = Self::member(54);

    pub(crate) const RSA: Self = Self::RSA_PUBLIC.or(Self::RSA_PRIVATE);
    pub(super) const CURVE_PUBLIC: Self =
        Self::EC_PUBLIC.or(Self::EDWARDS_PUBLIC).or(Self::MONTGOMERY_PUBLIC);
    pub(super) const CURVE_PRIVATE: Self =
        Self::EC_PRIVATE.or(Self::EDWARDS_PRIVATE).or(Self::MONTGOMERY_PRIVATE);
    /// Public keys with a parameter set.
    pub(super) const SET_PUBLIC: Self = Self::ML_DSA_PUBLIC.or(Self::SLH_DSA_PUBLIC).or(Self::ML_KEM_PUBLIC);
    pub(super) const SET_PRIVATE: Self =
        Self::ML_DSA_PRIVATE.or(Self::SLH_DSA_PRIVATE).or(Self::ML_KEM_PRIVATE);
    /// Private keys that can be expanded from a seed.
    pub(super) const SEEDED: Self = Self::ML_DSA_PRIVATE.or(Self::ML_KEM_PRIVATE);
    pub(super) const PUBLIC: Self =
        Self::RSA_PUBLIC.or(Self::CURVE_PUBLIC).or(Self::SET_PUBLIC).or(Self::DH_PUBLIC).or(Self::DSA_PUBLIC);
    pub(super) const PRIVATE: Self = Self::RSA_PRIVATE
        .or(Self::CURVE_PRIVATE)
        .or(Self::SET_PRIVATE)
        .or(Self::DH_PRIVATE)
        .or(Self::DSA_PRIVATE);
    pub const PARAMETERS: Self = Self::DH_PARAMETERS.or(Self::DSA_PARAMETERS);
    pub(super) const SECRET: Self =
        Self::CIPHER.or(Self::GENERIC_SECRET).or(Self::HKDF).or(Self::HMAC).or(Self::HOTP);
    /// Secret keys whose template contains the length, because their type has more than one length.
    pub(super) const LENGTHS: Self = Self::SECRET.without(Self::CHACHA20.or(Self::DES3));
    pub(super) const CIPHER: Self = Self::AES.or(Self::AES_XTS).or(Self::CHACHA20).or(Self::DES3);
    pub(super) const SIGNS: Self = Self::RSA_PRIVATE
        .or(Self::DSA_PRIVATE)
        .or(Self::EC_PRIVATE)
        .or(Self::EDWARDS_PRIVATE)
        .or(Self::ML_DSA_PRIVATE)
        .or(Self::SLH_DSA_PRIVATE)
        .or(Self::CODES);
    pub(super) const VERIFIES: Self = Self::RSA_PUBLIC
        .or(Self::DSA_PUBLIC)
        .or(Self::EC_PUBLIC)
        .or(Self::EDWARDS_PUBLIC)
        .or(Self::ML_DSA_PUBLIC)
        .or(Self::SLH_DSA_PUBLIC)
        .or(Self::CODES);
    /// Secret keys that compute MACs or one-time passwords.
    pub(super) const CODES: Self = Self::AES.or(Self::GENERIC_SECRET).or(Self::HMAC).or(Self::HOTP);
    pub(super) const HIDDEN: Self = Self::PRIVATE.or(Self::SECRET);
    pub(super) const KEYS: Self = Self::PUBLIC.or(Self::HIDDEN);
    pub(super) const CERTIFICATES: Self = Self::X_509.or(Self::X_509_ATTRIBUTE).or(Self::WTLS);
    /// PKCS#11 3.2, "Object Classification": the objects that applications create.
    pub(super) const STORAGE: Self =
        Self::KEYS.or(Self::DATA).or(Self::CERTIFICATES).or(Self::TRUST).or(Self::PARAMETERS);
    /// Those objects that applications create and that have no secret part.
    pub(super) const OPEN: Self = Self::STORAGE.without(Self::HIDDEN);
    /// The built-in objects, which applications cannot create.
    pub(super) const BUILT_IN: Self = Self::PROFILE.or(Self::MECHANISM).or(Self::CLOCK).or(Self::VALIDATION);
    pub(super) const ALL: Self = Self::STORAGE.or(Self::BUILT_IN);

    /// Returns every class with its key, certificate or feature type, and the corresponding set.
    pub fn known() -> impl Iterator<Item = (ObjectClass, Option<u64>, ObjectTypes)> {
        OBJECT_TYPES.iter().copied()
    }

    /// Returns the set that contains only this class and type. `kind` is the key, certificate or
    /// feature type.
    pub fn of(class: ObjectClass, kind: Option<u64>) -> Option<Self> {
        OBJECT_TYPES
            .iter()
            .find(|(known, sub, _)| *known == class && *sub == kind)
            .map(|(_, _, object_type)| *object_type)
    }

    /// Returns whether it is a key of a key pair.
    pub(crate) const fn is_of_pair(self) -> bool {
        self.has(Self::PUBLIC.or(Self::PRIVATE))
    }

    /// Returns whether it is a public, private or secret key.
    pub const fn is_key(self) -> bool {
        Self::KEYS.has(self)
    }

    /// Returns whether it is a secret key.
    pub const fn is_secret(self) -> bool {
        Self::SECRET.has(self)
    }

    /// Returns whether it is a private key.
    pub const fn is_private(self) -> bool {
        Self::PRIVATE.has(self)
    }

    /// Returns whether it is a public key.
    pub const fn is_public(self) -> bool {
        Self::PUBLIC.has(self)
    }

    /// Returns whether it is a certificate.
    pub(crate) const fn is_certificate(self) -> bool {
        Self::CERTIFICATES.has(self)
    }

    /// Returns whether it is a class of built-in objects.
    pub const fn is_built_in(self) -> bool {
        Self::BUILT_IN.has(self)
    }

    /// Returns whether it is a private or secret key.
    pub const fn is_hidden(self) -> bool {
        Self::HIDDEN.has(self)
    }
}

/// Each class, its key, certificate or feature type, and the set that contains only this pair. The
/// key types of HMACs share one set.
const OBJECT_TYPES: &[(ObjectClass, Option<u64>, ObjectTypes)] = &[
    (ObjectClass::DATA, None, ObjectTypes::DATA),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509), ObjectTypes::X_509),
    (ObjectClass::PUBLIC_KEY, Some(K::RSA.0), ObjectTypes::RSA_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::EC.0), ObjectTypes::EC_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::EC_EDWARDS.0), ObjectTypes::EDWARDS_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::ML_DSA.0), ObjectTypes::ML_DSA_PUBLIC),
    (ObjectClass::PRIVATE_KEY, Some(K::RSA.0), ObjectTypes::RSA_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::EC.0), ObjectTypes::EC_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::EC_EDWARDS.0), ObjectTypes::EDWARDS_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::ML_DSA.0), ObjectTypes::ML_DSA_PRIVATE),
    (ObjectClass::SECRET_KEY, Some(K::AES.0), ObjectTypes::AES),
    (ObjectClass::SECRET_KEY, Some(K::GENERIC_SECRET.0), ObjectTypes::GENERIC_SECRET),
    (ObjectClass::PUBLIC_KEY, Some(K::EC_MONTGOMERY.0), ObjectTypes::MONTGOMERY_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::SLH_DSA.0), ObjectTypes::SLH_DSA_PUBLIC),
    (ObjectClass::PUBLIC_KEY, Some(K::ML_KEM.0), ObjectTypes::ML_KEM_PUBLIC),
    (ObjectClass::PRIVATE_KEY, Some(K::EC_MONTGOMERY.0), ObjectTypes::MONTGOMERY_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::SLH_DSA.0), ObjectTypes::SLH_DSA_PRIVATE),
    (ObjectClass::PRIVATE_KEY, Some(K::ML_KEM.0), ObjectTypes::ML_KEM_PRIVATE),
    (ObjectClass::SECRET_KEY, Some(K::AES_XTS.0), ObjectTypes::AES_XTS),
    (ObjectClass::SECRET_KEY, Some(K::CHACHA20.0), ObjectTypes::CHACHA20),
    (ObjectClass::SECRET_KEY, Some(K::DES3.0), ObjectTypes::DES3),
    (ObjectClass::SECRET_KEY, Some(K::HKDF.0), ObjectTypes::HKDF),
    (ObjectClass::SECRET_KEY, Some(K::SHA_1_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA224_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA256_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA384_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA512_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA512_224_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA512_256_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_224_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_256_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_384_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::SHA3_512_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_160_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_256_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_384_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::SECRET_KEY, Some(K::BLAKE2B_512_HMAC.0), ObjectTypes::HMAC),
    (ObjectClass::PUBLIC_KEY, Some(K::DH.0), ObjectTypes::DH_PUBLIC),
    (ObjectClass::PRIVATE_KEY, Some(K::DH.0), ObjectTypes::DH_PRIVATE),
    (ObjectClass::DOMAIN_PARAMETERS, Some(K::DH.0), ObjectTypes::DH_PARAMETERS),
    (ObjectClass::PUBLIC_KEY, Some(K::DSA.0), ObjectTypes::DSA_PUBLIC),
    (ObjectClass::PRIVATE_KEY, Some(K::DSA.0), ObjectTypes::DSA_PRIVATE),
    (ObjectClass::DOMAIN_PARAMETERS, Some(K::DSA.0), ObjectTypes::DSA_PARAMETERS),
    (ObjectClass::OTP_KEY, Some(K::HOTP.0), ObjectTypes::HOTP),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_X_509_ATTRIBUTE), ObjectTypes::X_509_ATTRIBUTE),
    (ObjectClass::CERTIFICATE, Some(value::CERTIFICATE_WTLS), ObjectTypes::WTLS),
    (ObjectClass::TRUST, None, ObjectTypes::TRUST),
    (ObjectClass::PROFILE, None, ObjectTypes::PROFILE),
    (ObjectClass::MECHANISM, None, ObjectTypes::MECHANISM),
    (ObjectClass::HW_FEATURE, Some(value::HW_CLOCK), ObjectTypes::CLOCK),
    (ObjectClass::VALIDATION, None, ObjectTypes::VALIDATION),
];

/// Returns the class of the secret keys of a type. PKCS#11 3.2, "OTP key objects": keys for
/// one-time passwords have their own class.
pub fn secret_class(key_type: K) -> ObjectClass {
    if key_type == K::HOTP { ObjectClass::OTP_KEY } else { ObjectClass::SECRET_KEY }
}
