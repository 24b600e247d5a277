//! Symmetric ciphers: AES in the modes of `EVP_CIPHER`, ChaCha20, and ChaCha20-Poly1305.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use super::{aws, check, owned, refused};
use crate::error::{Error, Result};

const BLOCK: usize = 16;
/// `EVP_CIPHER` counts in `int`: longer inputs go in parts, of whole blocks.
const LONGEST_PART: usize = 1 << 30;

/// A mode of AES under which AWS-LC has an `EVP_CIPHER`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Ecb,
    Cbc,
    Ctr,
    Ofb,
    Cfb128,
    Cfb8,
    Cfb1,
    /// With a key of 64 bytes alone: AWS-LC has no AES-128 here.
    Xts,
    Gcm,
    Ccm,
}

/// An owned `EVP_CIPHER_CTX` with its key. Every message begins with [`start`](Self::start).
pub(crate) struct CipherCtx {
    context: NonNull<aws::EVP_CIPHER_CTX>,
    mode: Mode,
    iv_len: usize,
}

// SAFETY: a context has no ties to the thread that made it; it is used through `&mut` alone.
unsafe impl Send for CipherCtx {}

impl CipherCtx {
    /// A mode without lengths of its own: its initialisation vector is one block, or none for ECB.
    pub(crate) fn new(mode: Mode, key: &[u8], encrypt: bool) -> Result<Self> {
        let iv_len = if mode == Mode::Ecb { 0 } else { BLOCK };
        Self::unkeyed(mode, key.len(), iv_len, encrypt)?.keyed(key)
    }

    /// GCM with an initialisation vector of `iv_len` bytes.
    pub(crate) fn gcm(key: &[u8], iv_len: usize, encrypt: bool) -> Result<Self> {
        let context = Self::unkeyed(Mode::Gcm, key.len(), iv_len, encrypt)?;
        context.control(aws::EVP_CTRL_AEAD_SET_IVLEN, iv_len, ptr::null_mut())?;
        context.keyed(key)
    }

    /// CCM with a nonce of 7 to 13 bytes and a tag of 4 to 16.
    pub(crate) fn ccm(key: &[u8], nonce_len: usize, tag_len: usize, encrypt: bool) -> Result<Self> {
        let context = Self::unkeyed(Mode::Ccm, key.len(), nonce_len, encrypt)?;
        context.control(aws::EVP_CTRL_AEAD_SET_IVLEN, nonce_len, ptr::null_mut())?;
        context.control(aws::EVP_CTRL_AEAD_SET_TAG, tag_len, ptr::null_mut())?;
        context.keyed(key)
    }

    fn unkeyed(mode: Mode, key_len: usize, iv_len: usize, encrypt: bool) -> Result<Self> {
        let cipher = cipher(mode, key_len)?;
        // SAFETY: takes nothing; what it returns is ours.
        let context = owned("EVP_CIPHER_CTX_new", unsafe { aws::EVP_CIPHER_CTX_new() })?;
        let context = Self { context, mode, iv_len };
        // SAFETY: the context is ours, the cipher a static; without a key nothing else is read.
        check("EVP_CipherInit_ex", unsafe {
            aws::EVP_CipherInit_ex(
                context.context.as_ptr(),
                cipher,
                ptr::null_mut(),
                ptr::null(),
                ptr::null(),
                c_int::from(encrypt),
            )
        })?;
        Ok(context)
    }

    /// The key has the length of the cipher that [`unkeyed`](Self::unkeyed) chose by it.
    fn keyed(self, key: &[u8]) -> Result<Self> {
        let context = self.context.as_ptr();
        // SAFETY: the context has its cipher, whose length `key` has; -1 keeps the direction.
        let code = unsafe {
            aws::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), key.as_ptr(), ptr::null(), -1)
        };
        check("EVP_CipherInit_ex", code)?;
        // SAFETY: the context is ours. Whole blocks go in: we pad ourselves.
        check("EVP_CIPHER_CTX_set_padding", unsafe { aws::EVP_CIPHER_CTX_set_padding(context, 0) })?;
        Ok(self)
    }

    /// A second context with the same key that goes on from here.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: takes nothing; what it returns is ours.
        let context = owned("EVP_CIPHER_CTX_new", unsafe { aws::EVP_CIPHER_CTX_new() })?;
        let copy = Self { context, mode: self.mode, iv_len: self.iv_len };
        // SAFETY: both contexts are ours, the copy an empty one and this one with its cipher and key.
        let code = unsafe { aws::EVP_CIPHER_CTX_copy(copy.context.as_ptr(), self.context.as_ptr()) };
        check("EVP_CIPHER_CTX_copy", code)?;
        Ok(copy)
    }

    /// Begins a message, whatever came before.
    pub(crate) fn start(&mut self, iv: &[u8]) -> Result<()> {
        if iv.len() != self.iv_len {
            return Err(Error::MechanismParamInvalid);
        }
        let context = self.context.as_ptr();
        // SAFETY: the context has its key, and `iv` the length that it was told.
        let code = unsafe {
            aws::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr(), -1)
        };
        check("EVP_CipherInit_ex", code)
    }

    /// CCM: the length of the message, known before all else.
    pub(crate) fn announce(&mut self, data_len: usize) -> Result<()> {
        let len = c_int::try_from(data_len).map_err(|_| Error::DataLenRange)?;
        let mut announced = 0;
        // SAFETY: the context is started; without input and output it takes the length alone.
        check("EVP_CipherUpdate", unsafe {
            aws::EVP_CipherUpdate(self.context.as_ptr(), ptr::null_mut(), &mut announced, ptr::null(), len)
        })
    }

    /// GCM and CCM (in one call): authenticated data.
    pub(crate) fn authenticate(&mut self, data: &[u8]) -> Result<()> {
        for part in data.chunks(LONGEST_PART) {
            let mut taken = 0;
            // SAFETY: `part` goes with its length, which is an `int`; without an output nothing is written.
            check("EVP_CipherUpdate", unsafe {
                aws::EVP_CipherUpdate(
                    self.context.as_ptr(),
                    ptr::null_mut(),
                    &mut taken,
                    part.as_ptr(),
                    part.len() as c_int,
                )
            })?;
        }
        Ok(())
    }

    /// As many bytes out as in; whole blocks where the mode has blocks.
    pub(crate) fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.fits(input, out)?;
        for (part, out) in input.chunks(LONGEST_PART).zip(out.chunks_mut(LONGEST_PART)) {
            check("EVP_CipherUpdate", self.part(part, out))?;
        }
        Ok(())
    }

    /// CCM's whole message; when decrypting whether the tag was right.
    pub(crate) fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<bool> {
        self.fits(input, out)?;
        if input.len() > LONGEST_PART {
            return Err(Error::DataLenRange);
        }
        Ok(good(self.part(input, out)))
    }

    fn fits(&self, input: &[u8], out: &[u8]) -> Result<()> {
        let blocks = matches!(self.mode, Mode::Ecb | Mode::Cbc);
        if input.len() != out.len() || blocks && !input.len().is_multiple_of(BLOCK) {
            return Err(Error::DataLenRange);
        }
        Ok(())
    }

    fn part(&mut self, part: &[u8], out: &mut [u8]) -> c_int {
        let mut written = 0;
        // SAFETY: `fits` saw to it that nothing is held back, so that as much is written as is read: the length of both
        // slices, which is an `int`.
        unsafe {
            aws::EVP_CipherUpdate(
                self.context.as_ptr(),
                out.as_mut_ptr(),
                &mut written,
                part.as_ptr(),
                part.len() as c_int,
            )
        }
    }

    /// GCM's tag, at the length of `out`, 4 to 16 bytes.
    pub(crate) fn gcm_tag(&mut self, out: &mut [u8]) -> Result<()> {
        check("EVP_CipherFinal_ex", self.finish())?;
        self.control(aws::EVP_CTRL_AEAD_GET_TAG, out.len(), out.as_mut_ptr())
    }

    /// Whether this is the tag of what GCM decrypted.
    pub(crate) fn gcm_verify(&mut self, tag: &[u8]) -> Result<bool> {
        self.expect_tag(tag)?;
        Ok(good(self.finish()))
    }

    /// CCM's tag of what was encrypted, at the length that was set.
    pub(crate) fn ccm_tag(&mut self, out: &mut [u8]) -> Result<()> {
        self.control(aws::EVP_CTRL_AEAD_GET_TAG, out.len(), out.as_mut_ptr())
    }

    /// The tag that decryption must come to; CCM wants it before the ciphertext.
    pub(crate) fn expect_tag(&mut self, tag: &[u8]) -> Result<()> {
        self.control(aws::EVP_CTRL_AEAD_SET_TAG, tag.len(), tag.as_ptr().cast_mut())
    }

    fn finish(&mut self) -> c_int {
        let (mut rest, mut len) = ([0; 2 * BLOCK], 0);
        // SAFETY: `rest` has room for a block, the most that any cipher ends with (GCM writes nothing).
        unsafe { aws::EVP_CipherFinal_ex(self.context.as_ptr(), rest.as_mut_ptr(), &mut len) }
    }

    /// `pointer` is null, or good for `len` bytes in the direction of the command.
    fn control(&self, command: c_int, len: usize, pointer: *mut u8) -> Result<()> {
        let len = c_int::try_from(len).map_err(|_| Error::MechanismParamInvalid)?;
        // SAFETY: the callers in this file give tags that are readable, or writable for GET_TAG, for `len` bytes, of
        // which the library touches no more and at most 16.
        check("EVP_CIPHER_CTX_ctrl", unsafe {
            aws::EVP_CIPHER_CTX_ctrl(self.context.as_ptr(), command, len, pointer.cast())
        })
    }
}

impl Drop for CipherCtx {
    fn drop(&mut self) {
        // SAFETY: we own the context and nobody uses it after this; AWS-LC wipes what it frees.
        unsafe { aws::EVP_CIPHER_CTX_free(self.context.as_ptr()) }
    }
}

/// The cipher of a mode and a key's length.
pub(super) fn cipher(mode: Mode, key_len: usize) -> Result<*const aws::EVP_CIPHER> {
    let [of_128, of_192, of_256]: [unsafe extern "C" fn() -> *const aws::EVP_CIPHER; 3] = match mode {
        Mode::Ecb => [aws::EVP_aes_128_ecb, aws::EVP_aes_192_ecb, aws::EVP_aes_256_ecb],
        Mode::Cbc => [aws::EVP_aes_128_cbc, aws::EVP_aes_192_cbc, aws::EVP_aes_256_cbc],
        Mode::Ctr => [aws::EVP_aes_128_ctr, aws::EVP_aes_192_ctr, aws::EVP_aes_256_ctr],
        Mode::Ofb => [aws::EVP_aes_128_ofb, aws::EVP_aes_192_ofb, aws::EVP_aes_256_ofb],
        Mode::Cfb128 => [aws::EVP_aes_128_cfb128, aws::EVP_aes_192_cfb128, aws::EVP_aes_256_cfb128],
        Mode::Cfb8 => [aws::EVP_aes_128_cfb8, aws::EVP_aes_192_cfb8, aws::EVP_aes_256_cfb8],
        Mode::Cfb1 => [aws::EVP_aes_128_cfb1, aws::EVP_aes_192_cfb1, aws::EVP_aes_256_cfb1],
        Mode::Gcm => [aws::EVP_aes_128_gcm, aws::EVP_aes_192_gcm, aws::EVP_aes_256_gcm],
        Mode::Ccm => [aws::EVP_aes_128_ccm, aws::EVP_aes_192_ccm, aws::EVP_aes_256_ccm],
        // SAFETY: takes nothing and returns a pointer to a static.
        Mode::Xts if key_len == 64 => return Ok(unsafe { aws::EVP_aes_256_xts() }),
        Mode::Xts => return Err(Error::KeySizeRange),
    };
    let cipher = match key_len {
        16 => of_128,
        24 => of_192,
        32 => of_256,
        _ => return Err(Error::KeySizeRange),
    };
    // SAFETY: takes nothing and returns a pointer to a static.
    Ok(unsafe { cipher() })
}

/// ChaCha20 over whole blocks of 64 bytes, and a last part of one. The counter must not wrap within the input.
pub(crate) fn chacha20(
    key: &[u8; 32],
    nonce: &[u8; 12],
    counter: u32,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    if input.len() != out.len() {
        return Err(Error::DataLenRange);
    }
    // SAFETY: as many bytes are written as are read; key and nonce have their lengths.
    unsafe {
        aws::CRYPTO_chacha_20(
            out.as_mut_ptr(),
            input.as_ptr(),
            input.len(),
            key.as_ptr(),
            nonce.as_ptr(),
            counter,
        )
    };
    Ok(())
}

/// An owned `EVP_AEAD_CTX`, which does a message in one call, with a tag of 16 bytes.
pub(crate) struct AeadCtx(NonNull<aws::EVP_AEAD_CTX>);

// SAFETY: a context has no ties to the thread that made it.
unsafe impl Send for AeadCtx {}

impl AeadCtx {
    pub(crate) const TAG_LEN: usize = 16;
    pub(crate) const NONCE_LEN: usize = 12;

    pub(crate) fn chacha20_poly1305(key: &[u8; 32]) -> Result<Self> {
        // SAFETY: takes nothing and returns a pointer to a static.
        Self::new(unsafe { aws::EVP_aead_chacha20_poly1305() }, key)
    }

    pub(crate) fn aes_gcm(key: &[u8]) -> Result<Self> {
        // SAFETY: takes nothing and returns a pointer to a static.
        let method = unsafe {
            match key.len() {
                16 => aws::EVP_aead_aes_128_gcm(),
                24 => aws::EVP_aead_aes_192_gcm(),
                32 => aws::EVP_aead_aes_256_gcm(),
                _ => return Err(Error::KeySizeRange),
            }
        };
        Self::new(method, key)
    }

    /// `method` is a static that takes keys of that length.
    fn new(method: *const aws::EVP_AEAD, key: &[u8]) -> Result<Self> {
        // SAFETY: the callers in this file give a static and a key of its length; 16 is the tag's.
        let context = unsafe { aws::EVP_AEAD_CTX_new(method, key.as_ptr(), key.len(), Self::TAG_LEN) };
        owned("EVP_AEAD_CTX_new", context).map(Self)
    }

    /// `out` is as long as `input`.
    pub(crate) fn seal(
        &self,
        nonce: &[u8; Self::NONCE_LEN],
        aad: &[u8],
        input: &[u8],
        out: &mut [u8],
        tag: &mut [u8; Self::TAG_LEN],
    ) -> Result<()> {
        if input.len() != out.len() {
            return Err(Error::DataLenRange);
        }
        let mut tag_len = 0;
        // SAFETY: every slice goes with its length; the output has that of the input, and the tag goes with its own.
        check("EVP_AEAD_CTX_seal_scatter", unsafe {
            aws::EVP_AEAD_CTX_seal_scatter(
                self.0.as_ptr(),
                out.as_mut_ptr(),
                tag.as_mut_ptr(),
                &mut tag_len,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                input.as_ptr(),
                input.len(),
                ptr::null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        })
    }

    /// Whether the tag is right; `out` is as long as `input`, and wiped by the library where the tag is wrong.
    pub(crate) fn open(
        &self,
        nonce: &[u8; Self::NONCE_LEN],
        aad: &[u8],
        input: &[u8],
        tag: &[u8],
        out: &mut [u8],
    ) -> bool {
        if input.len() != out.len() {
            return false;
        }
        // SAFETY: every slice goes with its length; the output has that of the input.
        good(unsafe {
            aws::EVP_AEAD_CTX_open_gather(
                self.0.as_ptr(),
                out.as_mut_ptr(),
                nonce.as_ptr(),
                nonce.len(),
                input.as_ptr(),
                input.len(),
                tag.as_ptr(),
                tag.len(),
                aad.as_ptr(),
                aad.len(),
            )
        })
    }
}

impl Drop for AeadCtx {
    fn drop(&mut self) {
        // SAFETY: we own the context and nobody uses it after this; AWS-LC wipes what it frees.
        unsafe { aws::EVP_AEAD_CTX_free(self.0.as_ptr()) }
    }
}

fn good(code: c_int) -> bool {
    if code != 1 {
        refused(Error::EncryptedDataInvalid);
    }
    code == 1
}
