//! AES (PKCS#11 3.2, "AES" to "AES key wrap").

use super::flow::Wrapping;
use super::row::{CRYPTS_MESSAGES, aead_of};
use super::{Action, MechanismRow, Wraps};
use crate::id::mechanism_flag::{SIGN, VERIFY};
use crate::id::{KeyType, MechanismType as M};

/// Sizes of a key in bytes.
const BYTES: (u64, u64) = (16, 32);
const BLOCK: usize = 16;

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::Generate, M::AES_KEY_GEN, KeyType::AES, BYTES),
    zero_padded(mode(M::AES_ECB)),
    zero_padded(mode(M::AES_CBC)),
    mode(M::AES_CBC_PAD),
    mode(M::AES_CTS),
    mode(M::AES_CTR),
    mode(M::AES_OFB),
    mode(M::AES_CFB1),
    mode(M::AES_CFB8),
    mode(M::AES_CFB64),
    mode(M::AES_CFB128),
    aead(M::AES_GCM),
    aead(M::AES_CCM),
    key_wrap(M::AES_KEY_WRAP),
    key_wrap(M::AES_KEY_WRAP_KWP),
    // PKCS#11 2.40 has this mechanism for a key wrap with padding. The token uses KWP for it,
    // because other products can unwrap KWP.
    key_wrap(M::AES_KEY_WRAP_PAD),
    // It checks a padding after the check of the key wrap. So unwrapping a key that AES_KEY_WRAP
    // wrapped would show whether the key ends like a padding, and its XOR with chosen bytes too.
    mode(M::AES_KEY_WRAP_PKCS7),
    MechanismRow::encrypts(M::AES_XTS, KeyType::AES_XTS, (32, 64), Wrapping::Unauthenticated),
    MechanismRow::generates(Action::Generate, M::AES_XTS_KEY_GEN, KeyType::AES_XTS, (32, 64)),
    mac(M::AES_CMAC),
    mac(M::AES_CMAC_GENERAL),
    // The message-based functions do not support GMAC, because all messages would have the same
    // initialisation vector. Two messages with the same initialisation vector reveal the
    // authentication key.
    MechanismRow { flags: SIGN | VERIFY, ..mac(M::AES_GMAC) },
    mac(M::AES_MAC),
    mac(M::AES_MAC_GENERAL),
    mac(M::AES_XCBC_MAC),
    mac(M::AES_XCBC_MAC_96),
];

/// Builds the row of a mode without authentication.
const fn mode(id: M) -> MechanismRow {
    cipher(id, Wrapping::Unauthenticated)
}

const fn key_wrap(id: M) -> MechanismRow {
    cipher(id, Wrapping::KeyWrap)
}

const fn cipher(id: M, wrapping: Wrapping) -> MechanismRow {
    MechanismRow::encrypts(id, KeyType::AES, BYTES, wrapping)
}

const fn zero_padded(row: MechanismRow) -> MechanismRow {
    MechanismRow { wraps: Wraps::SecretWithZeros(BLOCK), ..row }
}

const fn aead(id: M) -> MechanismRow {
    cipher(id, Wrapping::Aead(aead_of(id))).also(CRYPTS_MESSAGES)
}

const fn mac(id: M) -> MechanismRow {
    MechanismRow::codes(id, KeyType::AES, BYTES)
}
