//! AES (PKCS#11 3.2, "AES" to "AES key wrap").

use super::{Action, MacFunction, MechanismInfo, Mode, Shape};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECRYPT, ENCRYPT, GENERATE, SIGN, UNWRAP, VERIFY, WRAP};

/// Sizes of a key in bytes.
const BYTES: (u64, u64) = (16, 32);
const CIPHER: u64 = ENCRYPT | DECRYPT;
const WRAPS: u64 = CIPHER | WRAP | UNWRAP;
const BLOCK: usize = 16;

pub(super) const ROWS: &[MechanismInfo] = &[
    row(M::AES_KEY_GEN, GENERATE, Shape::None, Action::Generate),
    mode(M::AES_ECB, WRAPS, Shape::None, Mode::AesEcb),
    mode(M::AES_CBC, WRAPS, Shape::Iv(BLOCK), Mode::AesCbc),
    mode(M::AES_CBC_PAD, WRAPS, Shape::Iv(BLOCK), Mode::AesCbcPad),
    mode(M::AES_CTS, WRAPS, Shape::Iv(BLOCK), Mode::AesCts),
    mode(M::AES_CTR, WRAPS, Shape::Counter, Mode::AesCtr),
    mode(M::AES_OFB, WRAPS, Shape::Iv(BLOCK), Mode::AesOfb),
    mode(M::AES_CFB1, WRAPS, Shape::Iv(BLOCK), Mode::AesCfb(1)),
    mode(M::AES_CFB8, WRAPS, Shape::Iv(BLOCK), Mode::AesCfb(8)),
    mode(M::AES_CFB64, WRAPS, Shape::Iv(BLOCK), Mode::AesCfb(64)),
    mode(M::AES_CFB128, WRAPS, Shape::Iv(BLOCK), Mode::AesCfb(128)),
    mode(M::AES_GCM, WRAPS, Shape::Gcm, Mode::AesGcm),
    mode(M::AES_CCM, WRAPS, Shape::Ccm, Mode::AesCcm),
    mode(M::AES_KEY_WRAP, WRAPS, Shape::OptionalIv(8), Mode::AesKw),
    mode(M::AES_KEY_WRAP_KWP, WRAPS, Shape::OptionalIv(4), Mode::AesKwp),
    // The name in version 2.40 of a wrap with padding. It uses KWP, because other products can
    // unwrap KWP.
    mode(M::AES_KEY_WRAP_PAD, WRAPS, Shape::OptionalIv(4), Mode::AesKwp),
    MechanismInfo {
        id: M::AES_XTS,
        flags: WRAPS,
        sizes: (32, 64),
        key_type: Some(KeyType::AES_XTS),
        shape: Shape::Iv(BLOCK),
        action: Action::Cipher(Mode::AesXts),
    },
    MechanismInfo {
        id: M::AES_XTS_KEY_GEN,
        flags: GENERATE,
        sizes: (32, 64),
        key_type: Some(KeyType::AES_XTS),
        shape: Shape::None,
        action: Action::Generate,
    },
    code(M::AES_CMAC, Shape::None, MacFunction::AesCmac),
    code(M::AES_CMAC_GENERAL, Shape::Length, MacFunction::AesCmac),
    code(M::AES_GMAC, Shape::Gmac, MacFunction::AesGmac),
    code(M::AES_MAC, Shape::None, MacFunction::AesCbcMac),
    code(M::AES_MAC_GENERAL, Shape::Length, MacFunction::AesCbcMac),
    code(M::AES_XCBC_MAC, Shape::None, MacFunction::AesXcbc(16)),
    code(M::AES_XCBC_MAC_96, Shape::None, MacFunction::AesXcbc(12)),
];

const fn mode(id: M, flags: u64, shape: Shape, mode: Mode) -> MechanismInfo {
    row(id, flags, shape, Action::Cipher(mode))
}

const fn code(id: M, shape: Shape, code: MacFunction) -> MechanismInfo {
    row(id, SIGN | VERIFY, shape, Action::Mac(code))
}

const fn row(id: M, flags: u64, shape: Shape, action: Action) -> MechanismInfo {
    MechanismInfo { id, flags, sizes: BYTES, key_type: Some(KeyType::AES), shape, action }
}
