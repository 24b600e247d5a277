//! The symmetric ciphers: the checks of their parameters, and when each cipher may write output.
//!
//! There are three types of cipher. A [stream](stream) writes output for all its input at once.
//! [Blocks](jeton_crypto::modes::Blocks) hold back an incomplete block, and the bytes that the end
//! of the message may need. The others must see the end of the message first: XTS with AES-256, KW,
//! KWP, and [authenticated ciphers](message) except for the encryption with GCM. `crypto/` has the
//! modes that this backend does not take from AWS-LC.

mod blocks;
mod gcm;
mod message;
mod stream;
mod xts;

use jeton_crypto::library::BlockCipher;
use jeton_crypto::modes::{Cfb, Ending, Kw, Kwp, Xts};

use self::blocks::{Cbc, Ecb, OneWay};
use super::ffi::Mode;
use crate::backend::api::{
    Aead, AeadScheme, Cipher, CipherScheme, Ciphers, Direction, KW_IV, KWP_IV, blocks, collected, failure,
    halves, streamed, way,
};
use crate::backend::shared::des3;
use crate::backend::shared::tagged::tagged;
use crate::error::{Error, Result};

const BLOCK: usize = 16;

pub(super) struct AllCiphers;

impl Ciphers for AllCiphers {
    fn cipher(&self, scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>> {
        use CipherScheme as S;
        let cbc = |iv| Cbc::new(key, direction, iv);
        match scheme {
            S::AesEcb => blocks(Ecb::new(key, direction)?, Ending::Whole, direction),
            S::AesCbc { iv, padded: false } => blocks(cbc(iv)?, Ending::Whole, direction),
            S::AesCbc { iv, padded: true } => blocks(cbc(iv)?, Ending::Padded, direction),
            S::AesCts { iv } => blocks(cbc(iv)?, Ending::Stealing, direction),
            S::AesCtr { block, bits } => stream::counter(key, block, *bits),
            S::AesOfb { iv } => stream::plain(Mode::Ofb, key, iv, direction),
            S::AesCfb { iv, bits: 1 } => stream::plain(Mode::Cfb1, key, iv, direction),
            S::AesCfb { iv, bits: 8 } => stream::plain(Mode::Cfb8, key, iv, direction),
            S::AesCfb { iv, bits: 128 } => stream::plain(Mode::Cfb128, key, iv, direction),
            S::AesCfb { iv, bits } => {
                let cipher = OneWay::new(key, Direction::Encrypt)?;
                let cfb = Cfb::new(cipher, way(direction), iv, *bits);
                streamed(cfb.ok_or(Error::MechanismParamInvalid)?, direction)
            }
            S::AesXts { tweak } => xts(key, *tweak, direction),
            S::Aead { cipher: AeadScheme::AesGcm, nonce, aad, tag_len, .. }
                if direction == Direction::Encrypt =>
            {
                gcm::seal(key, nonce, aad, *tag_len)
            }
            S::Aead { cipher, nonce, aad, tag_len, data_len } => {
                if *cipher == AeadScheme::AesCcm {
                    message::check_ccm(nonce, aad, *tag_len, *data_len)?;
                }
                tagged(self.aead(*cipher, key)?, scheme, direction)
            }
            S::Des3Ecb => des3::ecb(key, direction),
            S::Des3Cbc { iv, padded } => des3::cbc(key, iv, *padded, direction),
            S::AesKw { iv, padded } => {
                let (cipher, iv) = (OneWay::new(key, direction)?, iv.unwrap_or(KW_IV));
                collected(Kw::new(cipher, way(direction), iv, *padded))
            }
            S::AesKwp { iv } => {
                let (cipher, iv) = (OneWay::new(key, direction)?, iv.unwrap_or(KWP_IV));
                collected(Kwp::new(cipher, way(direction), iv))
            }
            S::ChaCha20 { nonce, counter } => stream::chacha20(key, nonce, *counter),
        }
    }

    fn aead(&self, scheme: AeadScheme, key: &[u8]) -> Result<Box<dyn Aead>> {
        match scheme {
            AeadScheme::AesGcm => message::gcm(key),
            AeadScheme::AesCcm => message::ccm(key),
            AeadScheme::ChaCha20Poly1305 => message::chacha20_poly1305(key),
        }
    }

    fn seal_gcm(&self, key: &[u8], aad: &[u8], input: &[u8]) -> Result<Vec<u8>> {
        message::seal_gcm(key, aad, input)
    }
}

/// Returns the cipher for XTS. AWS-LC has it with AES-256, but not with AES-128.
fn xts(key: &[u8], mut tweak: [u8; BLOCK], direction: Direction) -> Result<Box<dyn Cipher>> {
    let (data, tweak_key) = halves(key)?;
    if key.len() == 64 {
        return xts::xts256(key, tweak, direction);
    }
    OneWay::new(tweak_key, Direction::Encrypt)?.process(std::slice::from_mut(&mut tweak)).map_err(failure)?;
    let chain = Xts::new(OneWay::new(data, direction)?, tweak);
    blocks(chain, Ending::Stealing, direction)
}
