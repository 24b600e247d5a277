//! The attacks that PKCS#11 allows by its defaults. They may succeed under the policy *compatible*,
//! but not under *strict*.

// Why the standard allows an attack.
const TWO_ROLES: &str = "the owner allows every wrapping key to wrap this key (CKA_EXTRACTABLE without \
    CKA_WRAP_WITH_TRUSTED), and the caller made the wrapping key: PKCS#11 lets one key have two roles";
const OWN_KEY: &str = "the owner allows every wrapping key to wrap this key (CKA_EXTRACTABLE without \
    CKA_WRAP_WITH_TRUSTED): PKCS#11 does not ask who owns the wrapping key";
const UNWRAPPED: &str =
    "PKCS#11 lets the caller choose the attributes of an unwrapped key, so it may be readable";
const UNAUTHENTICATED: &str = "PKCS#11 unwraps with modes that authenticate nothing, so any bytes give a key";
const MODIFIABLE: &str = "PKCS#11 lets the usages of a key change as long as CKA_MODIFIABLE is true";
const RAW: &str = "PKCS#11 has RSA without padding, so a private key computes with any input";
const PADDING: &str =
    "by definition, CBC padding is either valid or invalid; every invalid padding has the same return code";
const SHORT: &str = "mechanisms with a length allow a MAC of one byte, and the verifier chooses the length";
const DIGESTED: &str =
    "PKCS#11 3.2, \"C_DigestKey\", digests the value of any secret key that the token can digest";
const SHOWN: &str = "the mechanism returns its result to the caller, and has no attribute that hides it \
    (PKCS#11 2.20, CKM_TLS_PRF; PKCS#11 3.2, \"HKDF Data\", \"Key and MAC derivation\")";
const DERIVED: &str =
    "PKCS#11 lets the caller choose the attributes of a derived key, unless that key reveals the base key";

/// The beginning of the names of attacks, and the reason why these attacks may succeed.
const ALLOWED: &[(&str, &str)] = &[
    ("wrap and decrypt with one ", TWO_ROLES),
    ("wrap with C_WrapKeyAuthenticated and decrypt with one ", TWO_ROLES),
    ("wrap and unwrap readably with one ", TWO_ROLES),
    ("wrap a key with itself and unwrap it readably", TWO_ROLES),
    ("unwrap one key twice, for wrapping and for decryption", TWO_ROLES),
    ("import a known wrapping key by encrypting and unwrapping", TWO_ROLES),
    ("Trojan key: ", TWO_ROLES),
    ("the defaults of C_GenerateKey give a key that wraps and decrypts", TWO_ROLES),
    ("the defaults of C_CreateObject give a key that wraps and decrypts", TWO_ROLES),
    ("the defaults of C_UnwrapKey give a readable key", UNWRAPPED),
    ("unwrap a readable copy of a key that is no longer extractable", UNWRAPPED),
    ("wrap with a key that the attacker imported", OWN_KEY),
    ("wrap with a public key that the attacker imported", OWN_KEY),
    ("wrap an AES-256 key under ", OWN_KEY),
    ("key conjuring: ", UNAUTHENTICATED),
    ("unwrap the halves of a key, ", UNAUTHENTICATED),
    ("exchange the blocks of a wrapped key, AES_ECB", UNAUTHENTICATED),
    ("C_SetAttributeValue turns ", MODIFIABLE),
    ("C_SetAttributeValue gives a wrapping key CKA_DECRYPT too", MODIFIABLE),
    ("C_CopyObject turns a wrapping key into a decrypting one", MODIFIABLE),
    ("C_SetAttributeValue gives a signing RSA key CKA_DECRYPT", MODIFIABLE),
    ("C_SetAttributeValue gives a verifying HMAC key CKA_SIGN", MODIFIABLE),
    ("C_CopyObject gives a signing RSA key CKA_UNWRAP", MODIFIABLE),
    ("C_CopyObject gives a decrypting RSA key CKA_SIGN", MODIFIABLE),
    ("forge with a key that may only decrypt, RSA_X_509", RAW),
    ("decrypt with a key that may only sign, RSA_X_509", RAW),
    ("AES_CBC_PAD, C_UnwrapKey of generic keys reveals bad padding", PADDING),
    ("AES_CBC_PAD, C_UnwrapKey of AES keys reveals bad padding", PADDING),
    ("forge a MAC of one byte, ", SHORT),
    ("read a key that is derived from a sensitive key", DERIVED),
    ("encrypt with a key that may only derive", DERIVED),
    ("unwrap a key that derives as a key that signs", UNWRAPPED),
    ("unwrap a trusted wrapping key as a key that decrypts", UNWRAPPED),
    ("derive one value twice, ", DERIVED),
    ("C_DigestKey of a sensitive key", DIGESTED),
    ("TLS_PRF of a sensitive key", SHOWN),
    ("HKDF_DATA of a sensitive key", SHOWN),
    ("the initialisation vectors of TLS12_KEY_AND_MAC_DERIVE of a sensitive key", SHOWN),
    ("the initialisation vectors of TLS_KEY_AND_MAC_DERIVE of a sensitive key", SHOWN),
];

/// Returns why that attack may succeed under the policy *compatible*.
pub fn reason(name: &str) -> Option<&'static str> {
    ALLOWED.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_exception_is_the_name_of_an_attack() {
        let names: Vec<_> = crate::attacks::tasks().into_iter().map(|task| task.name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        for (prefix, _) in ALLOWED {
            assert!(names.iter().any(|name| name.starts_with(prefix)), "no attack begins with {prefix}");
        }
    }
}
