//! Symmetric ciphers: AES in its modes, ChaCha20 and Triple DES.
//!
//! The modes are composed from the crates' block cipher, keystream and universal hashes, here and
//! in `crypto/`. No crate supports counters of any width, ciphertext stealing, GCM with every
//! nonce and tag length, or key wraps with the caller's initial value.

mod aead;
mod ctr;
mod message;
mod stream;

pub(super) use aead::Gcm;

use jeton_crypto::modes::{Cbc, Cfb, Ecb, Ending, Kw, Kwp, Xts};

use super::aes::{Aes, Block, OneWay};
use super::clean::Clean;
use crate::backend::api::{
    Aead, AeadScheme, Cipher, CipherScheme, Ciphers, Direction, KW_IV, KWP_IV, blocks, collected, halves,
    streamed, way,
};
use crate::backend::shared::des3;
use crate::backend::shared::tagged::tagged;
use crate::error::{Error, Result};

pub(super) struct AllCiphers;

impl Ciphers for AllCiphers {
    fn cipher(&self, scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>> {
        Ok(Box::new(Clean::new(cipher(scheme, direction, key)?)))
    }

    fn aead(&self, scheme: AeadScheme, key: &[u8]) -> Result<Box<dyn Aead>> {
        Ok(Box::new(Clean::new(message::aead(scheme, key)?)))
    }
}

/// Builds the cipher for [`Ciphers::cipher`], without the wrapper that wipes the stack.
fn cipher(scheme: &CipherScheme, direction: Direction, key: &[u8]) -> Result<Box<dyn Cipher>> {
    use CipherScheme as S;
    let aes = || OneWay::new(key, direction);
    let cbc = |iv| aes().map(|aes| Cbc::new(aes, way(direction), iv));
    match scheme {
        S::AesEcb => blocks(Ecb(aes()?), Ending::Whole, direction),
        S::AesCbc { iv, padded: false } => blocks(cbc(iv)?, Ending::Whole, direction),
        S::AesCbc { iv, padded: true } => blocks(cbc(iv)?, Ending::Padded, direction),
        S::AesCts { iv } => blocks(cbc(iv)?, Ending::Stealing, direction),
        S::AesXts { tweak } => blocks(xts(key, direction, *tweak)?, Ending::Stealing, direction),
        S::AesCtr { block, bits } => streamed(stream::Ctr::new(Aes::new(key)?, block, *bits)?, direction),
        S::AesOfb { iv } => streamed(stream::Ofb::new(Aes::new(key)?, iv), direction),
        S::AesCfb { iv, bits: 1 } => streamed(stream::Cfb1::new(Aes::new(key)?, direction, iv), direction),
        S::AesCfb { iv, bits } => {
            let cfb = Cfb::new(OneWay::new(key, Direction::Encrypt)?, way(direction), iv, *bits);
            streamed(cfb.ok_or(Error::MechanismParamInvalid)?, direction)
        }
        S::ChaCha20 { nonce, counter } => stream::chacha20(key, nonce, *counter, direction),
        S::Aead { cipher, .. } => tagged(message::aead(*cipher, key)?, scheme, direction),
        S::Des3Ecb => des3::ecb(key, direction),
        S::Des3Cbc { iv, padded } => des3::cbc(key, iv, *padded, direction),
        S::AesKw { iv, padded } => collected(Kw::new(aes()?, way(direction), iv.unwrap_or(KW_IV), *padded)),
        S::AesKwp { iv } => collected(Kwp::new(aes()?, way(direction), iv.unwrap_or(KWP_IV))),
    }
}

fn xts(key: &[u8], direction: Direction, mut tweak: Block) -> Result<Xts<OneWay>> {
    let (data, tweak_key) = halves(key)?;
    Aes::new(tweak_key)?.encrypt_block(&mut tweak);
    Ok(Xts::new(OneWay::new(data, direction)?, tweak))
}
