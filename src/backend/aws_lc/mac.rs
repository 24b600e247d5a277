//! Message authentication codes: HMAC, CMAC, GMAC, and CBC-MAC in two forms, which are built on
//! CBC.

use jeton_secret::Secret;
use zeroize::Zeroizing;

use super::elsewhere;
use super::ffi::{self, CipherCtx, Mode};
use crate::backend::api::{Direction, Hash, Mac, MacScheme, Macs, output};
use crate::error::{Error, Result, require};

const BLOCK: usize = 16;

pub(super) struct AllMacs;

impl Macs for AllMacs {
    fn mac(&self, scheme: &MacScheme, key: &[u8]) -> Result<Box<dyn Mac>> {
        match scheme {
            MacScheme::Hmac(hash) if hash.is_blake2b() => elsewhere()?.macs.mac(scheme, key),
            MacScheme::Hmac(hash) => {
                Ok(Box::new(Hmac { context: ffi::Hmac::new(*hash, key)?, len: hash.len() }))
            }
            MacScheme::AesCmac => Ok(Box::new(Cmac(ffi::Cmac::new(key)?))),
            MacScheme::AesGmac { iv } => gmac(key, iv),
            MacScheme::AesCbcMac => Chain::boxed(CipherCtx::new(Mode::Cbc, key, Direction::Encrypt)?, None),
            MacScheme::AesXcbc => xcbc(key),
            MacScheme::HmacMd5 => {
                Ok(Box::new(Hmac { context: ffi::Hmac::md5(key)?, len: ffi::Hmac::MD5_LEN }))
            }
        }
    }

    fn pbkdf2(
        &self,
        hash: Hash,
        password: &[u8],
        salt: &[u8],
        iterations: u32,
        out: &mut [u8],
    ) -> Result<()> {
        require(iterations != 0, Error::MechanismParamInvalid)?;
        ffi::pbkdf2(hash, password, salt, iterations, out)
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
        self.context.finish(output(out, self.len)?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.reset()
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self { context: self.context.duplicate()?, len: self.len }))
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

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        self.0.duplicate().map(|copy| Box::new(Self(copy)) as _)
    }
}

fn gmac(key: &[u8], iv: &[u8]) -> Result<Box<dyn Mac>> {
    require((1..=256).contains(&iv.len()), Error::MechanismParamInvalid)?;
    let mut gmac = Gmac { context: CipherCtx::gcm(key, iv.len(), Direction::Encrypt)?, iv: iv.into() };
    gmac.reset()?;
    Ok(Box::new(gmac))
}

/// GCM without a message to encrypt.
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
        self.context.gcm_tag(output(out, BLOCK)?)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.context.start(&self.iv)
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self { context: self.context.duplicate()?, iv: self.iv.clone() }))
    }
}

/// Builds XCBC (RFC 3566, 4). Each of its three keys is the encryption of a constant under the
/// caller's key.
fn xcbc(key: &[u8]) -> Result<Box<dyn Mac>> {
    require(key.len() == BLOCK, Error::KeySizeRange)?;
    let mut aes = CipherCtx::new(Mode::Ecb, key, Direction::Encrypt)?;
    let mut keys = Secret::zeroed(3 * BLOCK);
    for (number, key) in (1..).zip(keys.chunks_mut(BLOCK)) {
        aes.update(&[number; BLOCK], key)?;
    }
    let (chaining, last) = keys.split_at(BLOCK);
    Chain::boxed(CipherCtx::new(Mode::Cbc, chaining, Direction::Encrypt)?, Some(Secret::from(last)))
}

/// CBC encryption of which only the last block matters.
struct Chain {
    context: CipherCtx,
    /// Only for XCBC: the masks of a complete and of an incomplete last block.
    masks: Option<Secret>,
    /// The block that is held back because it may be the last. XCBC treats the last block
    /// differently.
    held: Zeroizing<[u8; BLOCK]>,
    held_len: usize,
}

impl Chain {
    /// The largest number of bytes that one CBC call encrypts. The output goes to scratch memory,
    /// because only its last block is needed.
    const BATCH: usize = 32 * BLOCK;

    fn boxed(context: CipherCtx, masks: Option<Secret>) -> Result<Box<dyn Mac>> {
        let mut chain = Self { context, masks, held: Zeroizing::new([0; BLOCK]), held_len: 0 };
        chain.reset()?;
        Ok(Box::new(chain))
    }

    /// Returns the last block, padded and masked for the cipher.
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
        // More data follows the held block, so it is not the last. The whole blocks before the rest
        // are not the last either.
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
        let out = output(out, BLOCK)?;
        let last = self.last();
        self.context.update(&*last, out)?;
        self.reset()
    }

    fn reset(&mut self) -> Result<()> {
        self.held_len = 0;
        self.context.start(&[0; BLOCK])
    }

    fn duplicate(&self) -> Result<Box<dyn Mac>> {
        Ok(Box::new(Self {
            context: self.context.duplicate()?,
            masks: self.masks.as_ref().map(Secret::duplicate),
            held: self.held.clone(),
            held_len: self.held_len,
        }))
    }
}
