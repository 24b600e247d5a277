//! The numbers of PKCS#11 with their names: mechanisms, attributes, object classes, key types and
//! return codes. The core, the client, the models and the fuzz targets use this list, so that each
//! name exists once. [`structs`] describes the C structs of the parameters.
//!
//! What both modules share is here too: the function lists, and the argument of `C_Initialize`.
//!
//! The numbers come from the specification's headers through `cryptoki-sys`. The package does not
//! depend on the core, so that the client can use the names without the core.

mod function_lists;
mod initialization;
mod lists;
mod mechanism;
pub mod parameter;
pub mod structs;

pub use initialization::{Initialization, arguments, initialization};
pub use lists::{AttributeType, KeyType, ObjectClass, ReturnCode};
pub use mechanism::MechanismType;

/// The constants of the specification, and those that it lacks.
mod source {
    pub(crate) use cryptoki_sys::*;

    /// NSS defined this number. The standard has no number for it.
    pub(crate) const CKM_TLS_PRF_GENERAL: CK_MECHANISM_TYPE = 0x8000_0373;

    /// The first mechanisms of PKCS#11 3.3. No published header has them yet.
    pub(crate) const CKM_ML_DSA_EXTERNAL_MU_GEN: CK_MECHANISM_TYPE = 0x403b;
    pub(crate) const CKM_ML_DSA_EXTERNAL_MU: CK_MECHANISM_TYPE = 0x403c;

    /// Keys and signatures of composite ML-DSA (draft-ietf-lamps-pq-composite-sigs), until the
    /// committee gives numbers. `CKA_PARAMETER_SET` is the last number of the object identifier.
    pub(crate) const CKK_JETON_COMPOSITE_ML_DSA: CK_KEY_TYPE = CKK_VENDOR_DEFINED | 0x4a45_0001;
    pub(crate) const CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN: CK_MECHANISM_TYPE =
        CKM_VENDOR_DEFINED | 0x4a45_0001;
    pub(crate) const CKM_JETON_COMPOSITE_ML_DSA: CK_MECHANISM_TYPE = CKM_VENDOR_DEFINED | 0x4a45_0002;

    /// Marks a secret key that contains bytes of an unreadable key. It is 1 if the key comes from a
    /// concatenation, and 2 after other derivations that copy bytes. Only Jeton's core sets it
    /// (`src/functions/derive/guard.rs`).
    pub(crate) const CKA_JETON_COPIED: CK_ATTRIBUTE_TYPE = CKA_VENDOR_DEFINED | 0x4a45_0001;

    /// The number of times that a private key may still be used (`src/token/uses.rs`).
    pub(crate) const CKA_JETON_USES_LEFT: CK_ATTRIBUTE_TYPE = CKA_VENDOR_DEFINED | 0x4a45_0002;

    /// The number of the next one-time key of a stateful private key. Only Jeton's core sets it.
    pub(crate) const CKA_JETON_NEXT_KEY: CK_ATTRIBUTE_TYPE = CKA_VENDOR_DEFINED | 0x4a45_0003;

    /// The incarnation of the token in which the uses of a private key are counted. In another one
    /// the key is not used: a restored copy of the token must not count the same uses again. Only
    /// Jeton's core sets it.
    pub(crate) const CKA_JETON_INCARNATION: CK_ATTRIBUTE_TYPE = CKA_VENDOR_DEFINED | 0x4a45_0004;

    /// The number of times that a private key could be used when it was made. Only Jeton's core
    /// sets it.
    pub(crate) const CKA_JETON_USES: CK_ATTRIBUTE_TYPE = CKA_VENDOR_DEFINED | 0x4a45_0005;

    /// The type of a private key that is a share of an Ed25519 key which no token has
    /// (`docs/split-keys.md`). No mechanism takes it.
    pub(crate) const CKK_JETON_SHARE: CK_KEY_TYPE = CKK_VENDOR_DEFINED | 0x4a45_0002;
}

/// Defines a type of numbers, its constants, and their specification names, which begin with
/// `$prefix`. If a number has two names, the current one comes first.
macro_rules! numbers {
    ($(#[$meta:meta])* $type:ident $prefix:ident { $($constant:ident,)* $(; $other:ident = $source:ident)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $type(pub u64);

        #[allow(missing_docs, reason = "the names are the specification's")]
        #[allow(clippy::unnecessary_cast, reason = "CK_ULONG has 32 bits on other platforms")]
        impl $type {
            pastey::paste! {
                $(pub const $constant: Self = Self($crate::source::[<$prefix $constant>] as u64);)*
            }
            $(pub const $other: Self = Self($crate::source::$source as u64);)?

            /// All names with their numbers.
            pub const NAMES: &'static [(&'static str, Self)] = &[
                $((concat!(stringify!($prefix), stringify!($constant)), Self::$constant),)*
                $((stringify!($source), Self::$other))?
            ];

            /// Returns the specification's name of this number. Returns `None` if it has no name.
            /// Of two names, this is the current one.
            pub fn name(self) -> Option<&'static str> {
                Self::NAMES.iter().find(|(_, number)| *number == self).map(|(name, _)| *name)
            }

            /// Returns the number with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}({:#x})", stringify!($type), self.0),
                }
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    };
}
use numbers;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_convert_both_ways() {
        assert_eq!(MechanismType::named("CKM_ECDSA_SHA256"), Some(MechanismType::ECDSA_SHA256));
        assert_eq!(MechanismType::ECDSA_SHA256.name(), Some("CKM_ECDSA_SHA256"));
        assert_eq!(MechanismType(0x8000_0001).to_string(), "MechanismType(0x80000001)");
    }

    #[test]
    fn the_current_name_comes_before_the_old_name() {
        assert_eq!(MechanismType::ECDSA_KEY_PAIR_GEN.name(), Some("CKM_EC_KEY_PAIR_GEN"));
        assert_eq!(KeyType::ECDSA.name(), Some("CKK_EC"));
    }

    #[test]
    fn no_name_is_listed_twice() {
        let names = |list: &[&'static str]| {
            let mut names = list.to_vec();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        };
        names(&MechanismType::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        names(&AttributeType::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        names(&ReturnCode::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
