//! AES (PKCS#11 3.2, "AES" to "AES key wrap").

use super::{Action, CRYPTS_MESSAGES, MacFunction, MechanismInfo, Mode, SIGNS, Shape, Wraps};
use crate::id::KeyType;
use crate::id::MechanismType as M;
use crate::id::mechanism_flag::{DECRYPT, ENCRYPT, GENERATE, SIGN, UNWRAP, VERIFY, WRAP};

/// Sizes of a key in bytes.
const BYTES: (u64, u64) = (16, 32);
const CIPHER: u64 = ENCRYPT | DECRYPT | WRAP | UNWRAP;
const BLOCK: usize = 16;

pub(super) const ROWS: &[MechanismInfo] = &[
    row(M::AES_KEY_GEN, GENERATE, Shape::None, Action::Generate),
    zero_padded(mode(M::AES_ECB, Shape::None, Mode::AesEcb)),
    zero_padded(mode(M::AES_CBC, Shape::Iv(BLOCK), Mode::AesCbc)),
    mode(M::AES_CBC_PAD, Shape::Iv(BLOCK), Mode::AesCbcPad),
    mode(M::AES_CTS, Shape::Iv(BLOCK), Mode::AesCts),
    mode(M::AES_CTR, Shape::Counter, Mode::AesCtr),
    mode(M::AES_OFB, Shape::Iv(BLOCK), Mode::AesOfb),
    mode(M::AES_CFB1, Shape::Iv(BLOCK), Mode::AesCfb(1)),
    mode(M::AES_CFB8, Shape::Iv(BLOCK), Mode::AesCfb(8)),
    mode(M::AES_CFB64, Shape::Iv(BLOCK), Mode::AesCfb(64)),
    mode(M::AES_CFB128, Shape::Iv(BLOCK), Mode::AesCfb(128)),
    aead(mode(M::AES_GCM, Shape::Gcm, Mode::AesGcm)),
    aead(mode(M::AES_CCM, Shape::Ccm, Mode::AesCcm)),
    mode(M::AES_KEY_WRAP, Shape::OptionalIv(8), Mode::AesKw),
    mode(M::AES_KEY_WRAP_KWP, Shape::OptionalIv(4), Mode::AesKwp),
    // The name in version 2.40 of a wrap with padding. It uses KWP, because other products can
    // unwrap KWP.
    mode(M::AES_KEY_WRAP_PAD, Shape::OptionalIv(4), Mode::AesKwp),
    MechanismInfo {
        id: M::AES_XTS,
        flags: CIPHER,
        wraps: Wraps::Any,
        sizes: (32, 64),
        key_type: Some(KeyType::AES_XTS),
        shape: Shape::Iv(BLOCK),
        action: Action::Cipher(Mode::AesXts),
        ..MechanismInfo::BASE
    },
    MechanismInfo {
        id: M::AES_XTS_KEY_GEN,
        flags: GENERATE,
        sizes: (32, 64),
        key_type: Some(KeyType::AES_XTS),
        shape: Shape::None,
        action: Action::Generate,
        ..MechanismInfo::BASE
    },
    mac(M::AES_CMAC, Shape::None, MacFunction::AesCmac),
    mac(M::AES_CMAC_GENERAL, Shape::Length, MacFunction::AesCmac),
    // A message of GMAC has no initialisation vector of its own. Two messages under the same one
    // reveal the authentication key.
    MechanismInfo { flags: SIGN | VERIFY, ..mac(M::AES_GMAC, Shape::Gmac, MacFunction::AesGmac) },
    mac(M::AES_MAC, Shape::None, MacFunction::AesCbcMac),
    mac(M::AES_MAC_GENERAL, Shape::Length, MacFunction::AesCbcMac),
    mac(M::AES_XCBC_MAC, Shape::None, MacFunction::AesXcbc(16)),
    mac(M::AES_XCBC_MAC_96, Shape::None, MacFunction::AesXcbc(12)),
];

const fn mode(id: M, shape: Shape, mode: Mode) -> MechanismInfo {
    MechanismInfo { wraps: Wraps::Any, ..row(id, CIPHER, shape, Action::Cipher(mode)) }
}

const fn zero_padded(row: MechanismInfo) -> MechanismInfo {
    MechanismInfo { wraps: Wraps::SecretWithZeros(BLOCK), ..row }
}

const fn aead(row: MechanismInfo) -> MechanismInfo {
    MechanismInfo { flags: row.flags | CRYPTS_MESSAGES, ..row }
}

const fn mac(id: M, shape: Shape, function: MacFunction) -> MechanismInfo {
    row(id, SIGNS, shape, Action::Mac(function))
}

const fn row(id: M, flags: u64, shape: Shape, action: Action) -> MechanismInfo {
    MechanismInfo {
        id,
        flags,
        sizes: BYTES,
        key_type: Some(KeyType::AES),
        shape,
        action,
        ..MechanismInfo::BASE
    }
}
