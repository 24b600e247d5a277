//! Numbers of PKCS#11 and their names: return codes, mechanisms, attributes, flags of mechanisms.
//!
//! If a number has an old and a current name, these functions return the current name. If it has no
//! name, they return a text such as `CKM unknown 0x7ABC`.

use cryptoki_sys as sys;
use cryptoki_sys::{
    CK_ATTRIBUTE_TYPE, CK_FLAGS, CK_KEY_TYPE, CK_MECHANISM_TYPE, CK_OBJECT_CLASS, CK_RV, CK_ULONG,
};
use jeton_names::{AttributeType, KeyType, MechanismType, ObjectClass, ReturnCode};

/// The number of times that a private key may still be used. Only Jeton has this attribute
/// (docs/firmware-signing.md).
pub const JETON_USES_LEFT: CK_ATTRIBUTE_TYPE = AttributeType::JETON_USES_LEFT.0 as CK_ATTRIBUTE_TYPE;
/// The number of times that a private key could be used when it was made. Only Jeton has this
/// attribute.
pub const JETON_USES: CK_ATTRIBUTE_TYPE = AttributeType::JETON_USES.0 as CK_ATTRIBUTE_TYPE;
/// The number of the next one-time key of a private key of HSS. Only Jeton has this attribute.
pub const JETON_NEXT_KEY: CK_ATTRIBUTE_TYPE = AttributeType::JETON_NEXT_KEY.0 as CK_ATTRIBUTE_TYPE;

/// The type of composite ML-DSA keys. Only Jeton has it (docs/keys.md).
pub const CKK_JETON_COMPOSITE_ML_DSA: CK_KEY_TYPE = KeyType::JETON_COMPOSITE_ML_DSA.0 as CK_KEY_TYPE;
/// Generates composite ML-DSA keys. Only Jeton has it.
pub const CKM_JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN: CK_MECHANISM_TYPE =
    MechanismType::JETON_COMPOSITE_ML_DSA_KEY_PAIR_GEN.0 as CK_MECHANISM_TYPE;
/// Signs with composite ML-DSA keys. Only Jeton has it.
pub const CKM_JETON_COMPOSITE_ML_DSA: CK_MECHANISM_TYPE =
    MechanismType::JETON_COMPOSITE_ML_DSA.0 as CK_MECHANISM_TYPE;

/// Returns a return code in the form `CKR_PIN_INCORRECT (0xA0)`.
pub fn return_code(code: CK_RV) -> String {
    match ReturnCode(wide(code)).name() {
        Some(name) => format!("{name} ({code:#X})"),
        None => unnamed("CKR", sys::CKR_VENDOR_DEFINED, code),
    }
}

/// Returns the name of a mechanism, for example `CKM_ECDSA`.
pub fn mechanism(id: CK_MECHANISM_TYPE) -> String {
    let name = MechanismType(wide(id)).name();
    name.map_or_else(|| unnamed("CKM", sys::CKM_VENDOR_DEFINED, id), str::to_owned)
}

/// Returns the name of an attribute, for example `CKA_LABEL`.
pub fn attribute(id: CK_ATTRIBUTE_TYPE) -> String {
    let name = AttributeType(wide(id)).name();
    name.map_or_else(|| unnamed("CKA", sys::CKA_VENDOR_DEFINED, id), str::to_owned)
}

/// Returns the name of a class of objects, for example `CKO_PRIVATE_KEY`.
pub fn class(id: CK_OBJECT_CLASS) -> String {
    let name = ObjectClass(wide(id)).name();
    name.map_or_else(|| unnamed("CKO", sys::CKO_VENDOR_DEFINED, id), str::to_owned)
}

/// Returns the name of a type of keys, for example `CKK_EC`.
pub fn key_type(id: CK_KEY_TYPE) -> String {
    let name = KeyType(wide(id)).name();
    name.map_or_else(|| unnamed("CKK", sys::CKK_VENDOR_DEFINED, id), str::to_owned)
}

/// Returns all attributes that have a name.
pub fn attributes() -> impl Iterator<Item = CK_ATTRIBUTE_TYPE> {
    let mut all: Vec<_> = AttributeType::NAMES.iter().map(|(_, id)| id.0 as CK_ATTRIBUTE_TYPE).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

/// Returns whether an attribute is a list of attributes, which has no bytes to show.
pub const fn is_template(id: CK_ATTRIBUTE_TYPE) -> bool {
    id & sys::CKF_ARRAY_ATTRIBUTE != 0 && id != sys::CKA_ALLOWED_MECHANISMS
}

/// Returns whether an attribute holds secret bytes of a private or secret key. `CKA_VALUE` of a
/// certificate is public.
pub const fn is_secret(id: CK_ATTRIBUTE_TYPE) -> bool {
    // The secret numbers of an RSA key follow each other.
    matches!(id, sys::CKA_VALUE | sys::CKA_SEED | sys::CKA_PRIVATE_EXPONENT..=sys::CKA_COEFFICIENT)
}

/// The mechanisms of PKCS#11 3.3, which its headers do not have yet.
pub const CKM_ML_DSA_EXTERNAL_MU: CK_MECHANISM_TYPE =
    MechanismType::ML_DSA_EXTERNAL_MU.0 as CK_MECHANISM_TYPE;
/// Computes the message representative that [`CKM_ML_DSA_EXTERNAL_MU`] signs.
pub const CKM_ML_DSA_EXTERNAL_MU_GEN: CK_MECHANISM_TYPE =
    MechanismType::ML_DSA_EXTERNAL_MU_GEN.0 as CK_MECHANISM_TYPE;

/// Returns the mechanism with this name, with or without the prefix `CKM_`.
#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
pub fn mechanism_called(name: &str) -> Option<CK_MECHANISM_TYPE> {
    let bare = name.strip_prefix("CKM_").unwrap_or(name);
    MechanismType::named(&format!("CKM_{bare}")).and_then(|id| id.0.try_into().ok())
}

/// Returns the flags of a mechanism as words, for example `sign, verify`.
pub fn mechanism_flags(flags: CK_FLAGS) -> String {
    let words = MECHANISM_FLAGS.iter().filter(|(_, flag)| flags & flag != 0).map(|(word, _)| *word);
    words.collect::<Vec<_>>().join(", ")
}

const MECHANISM_FLAGS: &[(&str, CK_FLAGS)] = &[
    ("hardware", sys::CKF_HW),
    ("encrypt", sys::CKF_ENCRYPT),
    ("decrypt", sys::CKF_DECRYPT),
    ("digest", sys::CKF_DIGEST),
    ("sign", sys::CKF_SIGN),
    ("sign-recover", sys::CKF_SIGN_RECOVER),
    ("verify", sys::CKF_VERIFY),
    ("verify-recover", sys::CKF_VERIFY_RECOVER),
    ("generate", sys::CKF_GENERATE),
    ("generate-key-pair", sys::CKF_GENERATE_KEY_PAIR),
    ("wrap", sys::CKF_WRAP),
    ("unwrap", sys::CKF_UNWRAP),
    ("derive", sys::CKF_DERIVE),
    ("encapsulate", sys::CKF_ENCAPSULATE),
    ("decapsulate", sys::CKF_DECAPSULATE),
    ("message-encrypt", sys::CKF_MESSAGE_ENCRYPT),
    ("message-decrypt", sys::CKF_MESSAGE_DECRYPT),
    ("message-sign", sys::CKF_MESSAGE_SIGN),
    ("message-verify", sys::CKF_MESSAGE_VERIFY),
];

/// Converts a number to 64 bits, because `CK_ULONG` has 32 bits on some platforms.
#[allow(clippy::useless_conversion, reason = "CK_ULONG has 32 bits on other platforms")]
fn wide(number: CK_ULONG) -> u64 {
    u64::from(number)
}

fn unnamed(family: &str, vendor: CK_ULONG, number: CK_ULONG) -> String {
    let origin = if number & vendor != 0 { "vendor" } else { "unknown" };
    format!("{family} {origin} {number:#X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_those_of_the_specification() {
        assert_eq!(return_code(0x0000_0150), "CKR_BUFFER_TOO_SMALL (0x150)");
        assert_eq!(mechanism(0x0000_1041), "CKM_ECDSA");
        assert_eq!(attribute(0x0000_0180), "CKA_EC_PARAMS");
    }

    #[test]
    fn a_number_without_name_is_shown_as_a_number() {
        assert_eq!(return_code(0x8000_0001), "CKR vendor 0x80000001");
        assert_eq!(mechanism(0x0000_7ABC), "CKM unknown 0x7ABC");
    }

    #[test]
    fn a_mechanism_is_found_by_either_of_its_names() {
        assert_eq!(mechanism_called("CKM_EC_KEY_PAIR_GEN"), mechanism_called("ECDSA_KEY_PAIR_GEN"));
        assert_eq!(mechanism_called("CKM_NO_SUCH_THING"), None);
        assert_eq!(mechanism(sys::CKM_ECDSA_KEY_PAIR_GEN), "CKM_EC_KEY_PAIR_GEN");
    }
}
