//! The mechanisms with messages (PKCS#11 3.2, "Message-based encryption functions" and
//! "Message-based decryption functions").

pub use jeton_words::message::{Generator, MessageParams};

#[cfg(test)]
mod tests {
    use crate::id::MechanismType as M;
    use crate::id::mechanism_flag as does;

    #[test]
    fn only_authenticated_ciphers_and_signatures_have_message_flags() {
        let messages = does::MESSAGE_ENCRYPT
            | does::MESSAGE_DECRYPT
            | does::MESSAGE_SIGN
            | does::MESSAGE_VERIFY
            | does::MULTI_MESSAGE;
        let crypts = does::MESSAGE_ENCRYPT | does::MESSAGE_DECRYPT | does::MULTI_MESSAGE;
        let signs = does::MESSAGE_SIGN | does::MESSAGE_VERIFY | does::MULTI_MESSAGE;
        for (id, expected) in [
            (M::AES_GCM, crypts),
            (M::AES_CCM, crypts),
            (M::CHACHA20_POLY1305, crypts),
            (M::AES_CBC, 0),
            (M::AES_GMAC, 0),
            (M::AES_CMAC, signs),
            (M::ECDSA_SHA256, signs),
            (M::RSA_PKCS, signs),
            (M::RSA_PKCS_OAEP, 0),
            (M::AES_KEY_GEN, 0),
        ] {
            let flags = crate::mechanism::find(id).expect("a row").flags;
            assert_eq!(flags & messages, expected, "{id}");
        }
    }
}
