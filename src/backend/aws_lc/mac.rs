//! Message authentication codes: HMAC, CMAC, GMAC, and CBC-MAC in two forms, composed of CBC.

use zeroize::Zeroizing;

use super::ffi::{self, CipherCtx, Mode};
use super::prefix;
use crate::backend::{Mac, MacScheme, Macs};
use crate::error::{Error, Result};
use crate::secret::Secret;

const BLOCK: usize = 16;

pub(super) struct Codes;

impl Macs for Codes {
    fn mac(&self, scheme: &MacScheme, key: &[u8]) -> Result<Box<dyn Mac>> {
        match scheme {
            MacScheme::Hmac(hash) => {
                Ok(Box::new(Hmac { context: ffi::Hmac::new(*hash, key)?, len: hash.len() }))
            }
            MacScheme::AesCmac => Ok(Box::new(Cmac(ffi::Cmac::new(key)?))),
            MacScheme::AesGmac { iv } => gmac(key, iv),
            MacScheme::AesCbcMac => cbc_mac(key),
            MacScheme::AesXcbc => xcbc(key),
        }
    }
}

struct Hmac {
    context: ffi::Hmac,
    len: usize,
}

impl Mac for Hmac {
    fn mac_len(&self) -> usize {
        self.len
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.context.update(data)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.context.finish(prefix(out, self.len)?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.reset()
    }
}

struct Cmac(ffi::Cmac);

impl Mac for Cmac {
    fn mac_len(&self) -> usize {
        ffi::Cmac::LEN
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.0.update(data)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.0.finish(out.first_chunk_mut().ok_or(Error::BufferTooSmall { needed: ffi::Cmac::LEN })?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.0.reset()
    }
}

fn gmac(key: &[u8], iv: &[u8]) -> Result<Box<dyn Mac>> {
    if !(1..=256).contains(&iv.len()) {
        return Err(Error::MechanismParamInvalid);
    }
    let mut gmac = Gmac { context: CipherCtx::gcm(key, iv.len(), true)?, iv: iv.into() };
    gmac.reset()?;
    Ok(Box::new(gmac))
}

/// GCM that encrypts nothing.
struct Gmac {
    context: CipherCtx,
    iv: Box<[u8]>,
}

impl Mac for Gmac {
    fn mac_len(&self) -> usize {
        BLOCK
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        self.context.authenticate(data)
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        self.context.gcm_tag(prefix(out, BLOCK)?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.start(&self.iv)
    }
}

fn cbc_mac(key: &[u8]) -> Result<Box<dyn Mac>> {
    Chain::boxed(CipherCtx::new(Mode::Cbc, key, true)?, None)
}

/// RFC 3566, 4: three keys, each the encryption of a constant under the given one.
fn xcbc(key: &[u8]) -> Result<Box<dyn Mac>> {
    if key.len() != BLOCK {
        return Err(Error::KeySizeRange);
    }
    let mut aes = CipherCtx::new(Mode::Ecb, key, true)?;
    let mut keys = Secret::zeroed(3 * BLOCK);
    for (number, key) in (1..).zip(keys.chunks_mut(BLOCK)) {
        aes.update(&[number; BLOCK], key)?;
    }
    let (chaining, last) = keys.split_at(BLOCK);
    Chain::boxed(CipherCtx::new(Mode::Cbc, chaining, true)?, Some(Secret::from(last)))
}

/// The last block of a CBC encryption.
struct Chain {
    context: CipherCtx,
    /// XCBC: the masks of a last block that is whole, and of one that is not.
    masks: Option<Secret>,
    /// The last block so far, which XCBC treats apart.
    held: Zeroizing<[u8; BLOCK]>,
    held_len: usize,
}

impl Chain {
    /// How many bytes go through CBC at once: into scratch memory, for the chain is all that matters.
    const BATCH: usize = 32 * BLOCK;

    fn boxed(context: CipherCtx, masks: Option<Secret>) -> Result<Box<dyn Mac>> {
        let mut chain = Self { context, masks, held: Zeroizing::new([0; BLOCK]), held_len: 0 };
        chain.reset()?;
        Ok(Box::new(chain))
    }

    /// The last block as it goes through the cipher.
    fn last(&self) -> Zeroizing<[u8; BLOCK]> {
        let mut last = self.held.clone();
        last[self.held_len..].fill(0);
        if let Some(masks) = &self.masks {
            let (of_whole, of_padded) = masks.split_at(BLOCK);
            let whole = self.held_len == BLOCK;
            if !whole {
                last[self.held_len] = 0x80;
            }
            for (byte, mask) in last.iter_mut().zip(if whole { of_whole } else { of_padded }) {
                *byte ^= mask;
            }
        }
        last
    }
}

impl Mac for Chain {
    fn mac_len(&self) -> usize {
        BLOCK
    }

    fn update(&mut self, data: &[u8]) -> Result<()> {
        let (fill, data) = data.split_at(data.len().min(BLOCK - self.held_len));
        self.held[self.held_len..][..fill.len()].copy_from_slice(fill);
        self.held_len += fill.len();
        if data.is_empty() {
            return Ok(());
        }
        // More follows the held block, so it is not the last; neither are the whole blocks before the rest.
        let mut scratch = [0; Self::BATCH];
        self.context.update(&*self.held, &mut scratch[..BLOCK])?;
        let (whole, rest) = data.split_at((data.len() - 1) / BLOCK * BLOCK);
        for batch in whole.chunks(Self::BATCH) {
            self.context.update(batch, &mut scratch[..batch.len()])?;
        }
        self.held[..rest.len()].copy_from_slice(rest);
        self.held_len = rest.len();
        Ok(())
    }

    fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        let out = prefix(out, BLOCK)?;
        let last = self.last();
        self.context.update(&*last, out)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.held_len = 0;
        self.context.start(&[0; BLOCK])
    }
}
