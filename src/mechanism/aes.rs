//! AES (PKCS#11 3.2, "AES" to "AES key wrap").

use super::flow::Wrapping;
use super::row::CRYPTS_MESSAGES;
use super::{Action, MacFunction, MechanismRow, Shape, Wraps};
use crate::backend::{AeadScheme, CipherMode as Mode};
use crate::id::mechanism_flag::{SIGN, VERIFY};
use crate::id::{KeyType, MechanismType as M};

/// Sizes of a key in bytes.
const BYTES: (u64, u64) = (16, 32);
const BLOCK: usize = 16;

pub(super) const ROWS: &[MechanismRow] = &[
    MechanismRow::generates(Action::Generate, M::AES_KEY_GEN, KeyType::AES, BYTES),
    zero_padded(mode(M::AES_ECB, Mode::AesEcb)),
    zero_padded(mode(M::AES_CBC, Mode::AesCbc)),
    mode(M::AES_CBC_PAD, Mode::AesCbcPad),
    mode(M::AES_CTS, Mode::AesCts),
    mode(M::AES_CTR, Mode::AesCtr),
    mode(M::AES_OFB, Mode::AesOfb),
    mode(M::AES_CFB1, Mode::AesCfb(1)),
    mode(M::AES_CFB8, Mode::AesCfb(8)),
    mode(M::AES_CFB64, Mode::AesCfb(64)),
    mode(M::AES_CFB128, Mode::AesCfb(128)),
    aead(M::AES_GCM, AeadScheme::AesGcm),
    aead(M::AES_CCM, AeadScheme::AesCcm),
    key_wrap(M::AES_KEY_WRAP, Mode::AesKw),
    key_wrap(M::AES_KEY_WRAP_KWP, Mode::AesKwp),
    // PKCS#11 2.40 has this mechanism for a key wrap with padding. The token uses KWP for it,
    // because other products can unwrap KWP.
    key_wrap(M::AES_KEY_WRAP_PAD, Mode::AesKwp),
    // It checks a padding after the check of the key wrap. So unwrapping a key that AES_KEY_WRAP
    // wrapped would show whether the key ends like a padding, and its XOR with chosen bytes too.
    mode(M::AES_KEY_WRAP_PKCS7, Mode::AesKwPkcs7),
    MechanismRow::encrypts(M::AES_XTS, KeyType::AES_XTS, (32, 64), Wrapping::Unauthenticated, Mode::AesXts),
    MechanismRow::generates(Action::Generate, M::AES_XTS_KEY_GEN, KeyType::AES_XTS, (32, 64)),
    mac(M::AES_CMAC, Shape::None, MacFunction::AesCmac),
    mac(M::AES_CMAC_GENERAL, Shape::Length, MacFunction::AesCmac),
    // The message-based functions do not support GMAC, because all messages would have the same
    // initialisation vector. Two messages with the same initialisation vector reveal the
    // authentication key.
    MechanismRow { flags: SIGN | VERIFY, ..mac(M::AES_GMAC, Shape::Gmac, MacFunction::AesGmac) },
    mac(M::AES_MAC, Shape::None, MacFunction::AesCbcMac),
    mac(M::AES_MAC_GENERAL, Shape::Length, MacFunction::AesCbcMac),
    mac(M::AES_XCBC_MAC, Shape::None, MacFunction::AesXcbc(16)),
    mac(M::AES_XCBC_MAC_96, Shape::None, MacFunction::AesXcbc(12)),
];

/// Builds the row of a mode without authentication.
const fn mode(id: M, mode: Mode) -> MechanismRow {
    cipher(id, mode, Wrapping::Unauthenticated)
}

const fn key_wrap(id: M, mode: Mode) -> MechanismRow {
    cipher(id, mode, Wrapping::KeyWrap)
}

const fn cipher(id: M, mode: Mode, wrapping: Wrapping) -> MechanismRow {
    MechanismRow::encrypts(id, KeyType::AES, BYTES, wrapping, mode)
}

const fn zero_padded(row: MechanismRow) -> MechanismRow {
    MechanismRow { wraps: Wraps::SecretWithZeros(BLOCK), ..row }
}

const fn aead(id: M, scheme: AeadScheme) -> MechanismRow {
    cipher(id, Mode::Aead(scheme), Wrapping::Aead(scheme)).also(CRYPTS_MESSAGES)
}

const fn mac(id: M, shape: Shape, function: MacFunction) -> MechanismRow {
    MechanismRow::signs(id, KeyType::AES, BYTES, shape, Action::Mac(function))
}
