//! Symmetric ciphers: AES in the modes of `EVP_CIPHER`, ChaCha20, and ChaCha20-Poly1305.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use jeton_secret::wipe_stack;

use super::{aws, check, owned, refused};
use crate::backend::api::{AeadScheme, Direction};
use crate::error::{Error, Result, require};

const BLOCK: usize = 16;
/// The length of an `EVP_CIPHER` call has the type `int`. Longer inputs are split into parts of
/// whole blocks.
const LONGEST_PART: usize = 1 << 30;

/// An AES mode for which AWS-LC has an `EVP_CIPHER`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Ecb,
    Cbc,
    Ctr,
    Ofb,
    Cfb128,
    Cfb8,
    Cfb1,
    /// Only with a key of 64 bytes: AWS-LC has no `EVP_CIPHER` for XTS with AES-128.
    Xts,
    Gcm,
    Ccm,
}

/// An owned `EVP_CIPHER_CTX` with its key. Except with ECB, every message begins with
/// [`start`](Self::start).
pub(crate) struct CipherCtx {
    context: NonNull<aws::EVP_CIPHER_CTX>,
    mode: Mode,
    iv_len: usize,
}

// SAFETY: a context is not bound to the thread that created it, and it is used only through `&mut`.
unsafe impl Send for CipherCtx {}

impl CipherCtx {
    /// Creates a context for a mode whose initialisation vector has a fixed length: one block, or 0
    /// for ECB.
    pub(crate) fn new(mode: Mode, key: &[u8], direction: Direction) -> Result<Self> {
        let iv_len = if mode == Mode::Ecb { 0 } else { BLOCK };
        Self::unkeyed(mode, key.len(), iv_len, direction)?.keyed(key)
    }

    /// Creates a context for GCM with an initialisation vector of `iv_len` bytes.
    pub(crate) fn gcm(key: &[u8], iv_len: usize, direction: Direction) -> Result<Self> {
        let context = Self::unkeyed(Mode::Gcm, key.len(), iv_len, direction)?;
        context.control(aws::EVP_CTRL_AEAD_SET_IVLEN, iv_len, ptr::null_mut())?;
        context.keyed(key)
    }

    /// Creates a context for CCM with a nonce of 7 to 13 bytes and a tag of 4 to 16.
    pub(crate) fn ccm(key: &[u8], nonce_len: usize, tag_len: usize, direction: Direction) -> Result<Self> {
        let context = Self::unkeyed(Mode::Ccm, key.len(), nonce_len, direction)?;
        context.control(aws::EVP_CTRL_AEAD_SET_IVLEN, nonce_len, ptr::null_mut())?;
        context.control(aws::EVP_CTRL_AEAD_SET_TAG, tag_len, ptr::null_mut())?;
        context.keyed(key)
    }

    fn unkeyed(mode: Mode, key_len: usize, iv_len: usize, direction: Direction) -> Result<Self> {
        let cipher = cipher(mode, key_len)?;
        // SAFETY: the function has no arguments, and we own its result.
        let context = owned("EVP_CIPHER_CTX_new", unsafe { aws::EVP_CIPHER_CTX_new() })?;
        let context = Self { context, mode, iv_len };
        // SAFETY: the context is ours and the cipher is a static. Without a key the function reads
        // nothing else.
        check("EVP_CipherInit_ex", unsafe {
            aws::EVP_CipherInit_ex(
                context.context.as_ptr(),
                cipher,
                ptr::null_mut(),
                ptr::null(),
                ptr::null(),
                c_int::from(direction == Direction::Encrypt),
            )
        })?;
        Ok(context)
    }

    /// Sets the key. [`unkeyed`](Self::unkeyed) chose the cipher by the length of this key.
    fn keyed(self, key: &[u8]) -> Result<Self> {
        let context = self.context.as_ptr();
        // SAFETY: the context has its cipher, and `key` has the key length of that cipher. -1 keeps
        // the direction.
        let code = unsafe {
            aws::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), key.as_ptr(), ptr::null(), -1)
        };
        check("EVP_CipherInit_ex", code)?;
        // SAFETY: the context is ours. The input of ECB and CBC is whole blocks, because we pad
        // ourselves.
        check("EVP_CIPHER_CTX_set_padding", unsafe { aws::EVP_CIPHER_CTX_set_padding(context, 0) })?;
        Ok(self)
    }

    /// Copies the context with its key and its current state.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        let context = owned("EVP_CIPHER_CTX_new", unsafe { aws::EVP_CIPHER_CTX_new() })?;
        let copy = Self { context, mode: self.mode, iv_len: self.iv_len };
        // SAFETY: both contexts are ours. The copy is empty, and this one has its cipher and key.
        let code = unsafe { aws::EVP_CIPHER_CTX_copy(copy.context.as_ptr(), self.context.as_ptr()) };
        check("EVP_CIPHER_CTX_copy", code)?;
        Ok(copy)
    }

    /// Begins a new message and discards the previous one.
    pub(crate) fn start(&mut self, iv: &[u8]) -> Result<()> {
        require(iv.len() == self.iv_len, Error::MechanismParamInvalid)?;
        let context = self.context.as_ptr();
        // SAFETY: the context has its key, and `iv` has the length that was set.
        let code = unsafe {
            aws::EVP_CipherInit_ex(context, ptr::null(), ptr::null_mut(), ptr::null(), iv.as_ptr(), -1)
        };
        check("EVP_CipherInit_ex", code)
    }

    /// Sets the length of the message. CCM needs it before all other data.
    pub(crate) fn announce(&mut self, data_len: usize) -> Result<()> {
        let len = c_int::try_from(data_len).map_err(|_| Error::DataLenRange)?;
        let mut announced = 0;
        // SAFETY: the context is started. Without input and output the function only takes the
        // length.
        check("EVP_CipherUpdate", unsafe {
            aws::EVP_CipherUpdate(self.context.as_ptr(), ptr::null_mut(), &mut announced, ptr::null(), len)
        })
    }

    /// Adds authenticated data for GCM or CCM. For CCM it must be one call.
    pub(crate) fn authenticate(&mut self, data: &[u8]) -> Result<()> {
        for part in data.chunks(LONGEST_PART) {
            let mut taken = 0;
            // SAFETY: `part` is passed with its length, which fits an `int`. Without an output the
            // function writes nothing.
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

    /// Processes `input` into `out`, which has the same length. ECB and CBC need whole blocks.
    pub(crate) fn update(&mut self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.fits(input, out)?;
        for (part, out) in input.chunks(LONGEST_PART).zip(out.chunks_mut(LONGEST_PART)) {
            check("EVP_CipherUpdate", self.part(part, out))?;
        }
        Ok(())
    }

    /// Processes `data` in place. ECB and CBC need whole blocks.
    pub(crate) fn update_in_place(&mut self, data: &mut [u8]) -> Result<()> {
        self.fits(data, data)?;
        for part in data.chunks_mut(LONGEST_PART) {
            let (mut written, len, part) = (0, part.len() as c_int, part.as_mut_ptr());
            // SAFETY: as in `part`. The function may write over its own input if both begin at the
            // same address.
            let code = unsafe { aws::EVP_CipherUpdate(self.context.as_ptr(), part, &mut written, part, len) };
            check("EVP_CipherUpdate", code)?;
        }
        Ok(())
    }

    /// Processes the whole message of CCM. Decryption returns whether the tag was right.
    pub(crate) fn whole(&mut self, input: &[u8], out: &mut [u8]) -> Result<bool> {
        self.fits(input, out)?;
        require(input.len() <= LONGEST_PART, Error::DataLenRange)?;
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
        // SAFETY: `fits` has checked the lengths, so the context holds nothing back. The function
        // writes as many bytes as it reads: the length of both slices, which fits an `int`.
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

    /// Writes the tag of GCM, which is as long as `out`, 4 to 16 bytes.
    pub(crate) fn gcm_tag(&mut self, out: &mut [u8]) -> Result<()> {
        check("EVP_CipherFinal_ex", self.finish())?;
        self.control(aws::EVP_CTRL_AEAD_GET_TAG, out.len(), out.as_mut_ptr())
    }

    /// Checks whether this is the tag of the message that GCM decrypted.
    pub(crate) fn gcm_verify(&mut self, tag: &[u8]) -> Result<bool> {
        self.expect_tag(tag)?;
        Ok(good(self.finish()))
    }

    /// Writes the tag of the message that CCM encrypted, with the length that was set.
    pub(crate) fn ccm_tag(&mut self, out: &mut [u8]) -> Result<()> {
        self.control(aws::EVP_CTRL_AEAD_GET_TAG, out.len(), out.as_mut_ptr())
    }

    /// Sets the tag that decryption must compute. CCM needs it before the ciphertext.
    pub(crate) fn expect_tag(&mut self, tag: &[u8]) -> Result<()> {
        self.control(aws::EVP_CTRL_AEAD_SET_TAG, tag.len(), tag.as_ptr().cast_mut())
    }

    fn finish(&mut self) -> c_int {
        let (mut rest, mut len) = ([0; 2 * BLOCK], 0);
        // SAFETY: `rest` has room for a block, the longest end that a cipher writes. GCM writes
        // nothing.
        unsafe { aws::EVP_CipherFinal_ex(self.context.as_ptr(), rest.as_mut_ptr(), &mut len) }
    }

    /// Sends a command. `pointer` is null, or readable or writable for `len` bytes as the command
    /// needs.
    fn control(&self, command: c_int, len: usize, pointer: *mut u8) -> Result<()> {
        let len = c_int::try_from(len).map_err(|_| Error::MechanismParamInvalid)?;
        // SAFETY: the callers in this file pass null, or a tag of `len` bytes that is readable, or
        // writable for GET_TAG. The library touches at most these bytes and at most 16.
        check("EVP_CIPHER_CTX_ctrl", unsafe {
            aws::EVP_CIPHER_CTX_ctrl(self.context.as_ptr(), command, len, pointer.cast())
        })
    }
}

impl Drop for CipherCtx {
    fn drop(&mut self) {
        // SAFETY: we own the context and no code uses it after this. AWS-LC wipes the memory that
        // it frees.
        unsafe { aws::EVP_CIPHER_CTX_free(self.context.as_ptr()) }
    }
}

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
        // SAFETY: the function has no arguments and returns a pointer to a static.
        Mode::Xts if key_len == 64 => return Ok(unsafe { aws::EVP_aes_256_xts() }),
        Mode::Xts => return Err(Error::KeySizeRange),
    };
    let cipher = match key_len {
        16 => of_128,
        24 => of_192,
        32 => of_256,
        _ => return Err(Error::KeySizeRange),
    };
    // SAFETY: the function has no arguments and returns a pointer to a static.
    Ok(unsafe { cipher() })
}

/// The depth in bytes at which ChaCha20 leaves its key on the stack. AWS-LC keeps the state of
/// several blocks there and does not wipe it.
const CHACHA_DEPTH: usize = 4 << 10;

/// Computes ChaCha20 over whole blocks of 64 bytes; the last one may be incomplete. The counter
/// must not wrap within the input.
pub(crate) fn chacha20(
    key: &[u8; 32],
    nonce: &[u8; 12],
    counter: u32,
    input: &[u8],
    out: &mut [u8],
) -> Result<()> {
    require(input.len() == out.len(), Error::DataLenRange)?;
    // SAFETY: the function writes as many bytes as it reads. Key and nonce have the lengths that it
    // requires.
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
    wipe_stack::<CHACHA_DEPTH>();
    Ok(())
}

/// An owned `EVP_AEAD_CTX`. It processes a message in one call, with a tag of 16 bytes.
pub(crate) struct AeadCtx {
    context: NonNull<aws::EVP_AEAD_CTX>,
    scheme: AeadScheme,
}

// SAFETY: a context is not bound to the thread that created it.
unsafe impl Send for AeadCtx {}

impl AeadCtx {
    pub(crate) const TAG_LEN: usize = 16;
    pub(crate) const NONCE_LEN: usize = 12;

    pub(crate) fn chacha20_poly1305(key: &[u8; 32]) -> Result<Self> {
        // SAFETY: the function has no arguments and returns a pointer to a static.
        let method = unsafe { aws::EVP_aead_chacha20_poly1305() };
        Self::new(method, key, AeadScheme::ChaCha20Poly1305)
    }

    pub(crate) fn aes_gcm(key: &[u8]) -> Result<Self> {
        // SAFETY: the functions have no arguments and return pointers to statics.
        let method = unsafe {
            match key.len() {
                16 => aws::EVP_aead_aes_128_gcm(),
                24 => aws::EVP_aead_aes_192_gcm(),
                32 => aws::EVP_aead_aes_256_gcm(),
                _ => return Err(Error::KeySizeRange),
            }
        };
        Self::new(method, key, AeadScheme::AesGcm)
    }

    /// Creates a context that encrypts with random nonces of its own.
    pub(crate) fn aes_256_gcm_with_own_nonces(key: &[u8; 32]) -> Result<Self> {
        // SAFETY: the function has no arguments and returns a pointer to a static.
        Self::new(unsafe { aws::EVP_aead_aes_256_gcm_randnonce() }, key, AeadScheme::AesGcm)
    }

    /// Creates a context. `method` is a static that accepts keys of this length.
    fn new(method: *const aws::EVP_AEAD, key: &[u8], scheme: AeadScheme) -> Result<Self> {
        // SAFETY: the callers in this file pass a static and a key of the length that it requires.
        // The length 0 of the tag means the default.
        let context = unsafe { aws::EVP_AEAD_CTX_new(method, key.as_ptr(), key.len(), 0) };
        let context = owned("EVP_AEAD_CTX_new", context)?;
        Ok(Self { context, scheme })
    }

    /// Encrypts `input` into `out`, which has the same length.
    pub(crate) fn seal(
        &self,
        nonce: &[u8; Self::NONCE_LEN],
        aad: &[u8],
        input: &[u8],
        out: &mut [u8],
        tag: &mut [u8; Self::TAG_LEN],
    ) -> Result<()> {
        self.scatter(nonce, aad, input, out, tag)
    }

    /// Encrypts `input` into `out`, which has the same length. A context with own nonces takes an
    /// empty nonce, and writes its own one after the tag.
    #[inline]
    pub(crate) fn scatter(
        &self,
        nonce: &[u8],
        aad: &[u8],
        input: &[u8],
        out: &mut [u8],
        tag: &mut [u8],
    ) -> Result<()> {
        require(input.len() == out.len(), Error::DataLenRange)?;
        let mut tag_len = 0;
        // SAFETY: every slice is passed with its length. The output has the length of the input,
        // and the tag has its own length.
        let code = unsafe {
            aws::EVP_AEAD_CTX_seal_scatter(
                self.context.as_ptr(),
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
        };
        self.wipe_stack();
        check("EVP_AEAD_CTX_seal_scatter", code)
    }

    /// Decrypts `input` into `out`, which has the same length. Returns whether the tag is right. If
    /// it is wrong, the library wipes `out`.
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
        // SAFETY: every slice is passed with its length. The output has the length of the input.
        let code = unsafe {
            aws::EVP_AEAD_CTX_open_gather(
                self.context.as_ptr(),
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
        };
        self.wipe_stack();
        good(code)
    }

    /// Wipes the stack after ChaCha20. AES keeps its round keys in registers.
    fn wipe_stack(&self) {
        if self.scheme == AeadScheme::ChaCha20Poly1305 {
            wipe_stack::<CHACHA_DEPTH>();
        }
    }
}

impl Drop for AeadCtx {
    fn drop(&mut self) {
        // SAFETY: we own the context and no code uses it after this. AWS-LC wipes the memory that
        // it frees.
        unsafe { aws::EVP_AEAD_CTX_free(self.context.as_ptr()) }
    }
}

fn good(code: c_int) -> bool {
    if code != 1 {
        refused(Error::EncryptedDataInvalid);
    }
    code == 1
}
