//! HMAC and CMAC. What else makes codes is composed of ciphers.

use std::ptr::{self, NonNull};

use super::cipher::{Mode, cipher};
use super::digest::md;
use super::{aws, check, owned};
use crate::backend::Hash;
use crate::error::{Error, Result};

/// PBKDF2 with HMAC.
pub(crate) fn pbkdf2(
    hash: Hash,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) -> Result<()> {
    let md = fixed(hash)?;
    // SAFETY: the three slices go with their lengths and are not null, the hash is a static.
    check("PKCS5_PBKDF2_HMAC", unsafe {
        aws::PKCS5_PBKDF2_HMAC(
            password.as_ptr().cast(),
            password.len(),
            salt.as_ptr(),
            salt.len(),
            iterations,
            md,
            out.len(),
            out.as_mut_ptr(),
        )
    })
}

/// A hash that HMAC takes: of a fixed length.
fn fixed(hash: Hash) -> Result<*const aws::EVP_MD> {
    match hash {
        Hash::Shake128 | Hash::Shake256 => Err(Error::MechanismInvalid),
        hash if hash.is_blake2b() => Err(Error::MechanismInvalid),
        hash => Ok(md(hash)),
    }
}

/// An owned `HMAC_CTX` with its key, always in a message.
pub(crate) struct Hmac {
    context: NonNull<aws::HMAC_CTX>,
    len: usize,
}

// SAFETY: a context has no ties to the thread that made it; it is used through `&mut` alone.
unsafe impl Send for Hmac {}

impl Hmac {
    /// AWS-LC's HMAC takes every hash of a fixed length.
    pub(crate) fn new(hash: Hash, key: &[u8]) -> Result<Self> {
        Self::with(fixed(hash)?, hash.len(), key)
    }

    /// The length of a code with MD5, which is no [`Hash`] here.
    pub(crate) const MD5_LEN: usize = 16;

    pub(crate) fn md5(key: &[u8]) -> Result<Self> {
        // SAFETY: takes nothing, returns a static.
        Self::with(unsafe { aws::EVP_md5() }, Self::MD5_LEN, key)
    }

    /// `md` is a static of AWS-LC whose digests have `len` bytes.
    fn with(md: *const aws::EVP_MD, len: usize, key: &[u8]) -> Result<Self> {
        // SAFETY: takes nothing; what it returns is ours.
        let context = owned("HMAC_CTX_new", unsafe { aws::HMAC_CTX_new() })?;
        let hmac = Self { context, len };
        // SAFETY: the context is ours, `key` goes with its length and is not null, the hash is a static.
        check("HMAC_Init_ex", unsafe {
            aws::HMAC_Init_ex(hmac.context.as_ptr(), key.as_ptr().cast(), key.len(), md, ptr::null_mut())
        })?;
        Ok(hmac)
    }

    pub(crate) fn update(&mut self, data: &[u8]) -> Result<()> {
        // SAFETY: the context is started, `data` is readable for its length.
        check("HMAC_Update", unsafe { aws::HMAC_Update(self.context.as_ptr(), data.as_ptr(), data.len()) })
    }

    /// Writes the code, which is as long as `out`; [`reset`](Self::reset) must follow.
    pub(crate) fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        if out.len() != self.len {
            return Err(Error::BufferTooSmall { needed: self.len });
        }
        let mut len = 0;
        // SAFETY: the context is started, `out` is as long as the hash.
        check("HMAC_Final", unsafe { aws::HMAC_Final(self.context.as_ptr(), out.as_mut_ptr(), &mut len) })
    }

    /// A second code with the same key that goes on from here.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: takes nothing; what it returns is ours.
        let context = owned("HMAC_CTX_new", unsafe { aws::HMAC_CTX_new() })?;
        let copy = Self { context, len: self.len };
        // SAFETY: both contexts are ours, the copy an empty one and this one started.
        let code = unsafe { aws::HMAC_CTX_copy_ex(copy.context.as_ptr(), self.context.as_ptr()) };
        check("HMAC_CTX_copy_ex", code)?;
        Ok(copy)
    }

    /// Starts over with the same key.
    pub(crate) fn reset(&mut self) -> Result<()> {
        // SAFETY: the context is ours and has a key and a hash, which nulls keep.
        check("HMAC_Init_ex", unsafe {
            aws::HMAC_Init_ex(self.context.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null_mut())
        })
    }
}

impl Drop for Hmac {
    fn drop(&mut self) {
        // SAFETY: we own the context and nobody uses it after this; AWS-LC wipes what it frees.
        unsafe { aws::HMAC_CTX_free(self.context.as_ptr()) }
    }
}

/// An owned `CMAC_CTX` with an AES key, always in a message.
pub(crate) struct Cmac(NonNull<aws::CMAC_CTX>);

// SAFETY: a context has no ties to the thread that made it; it is used through `&mut` alone.
unsafe impl Send for Cmac {}

impl Cmac {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn new(key: &[u8]) -> Result<Self> {
        let cipher = cipher(Mode::Cbc, key.len())?;
        // SAFETY: takes nothing; what it returns is ours.
        let cmac = Self(owned("CMAC_CTX_new", unsafe { aws::CMAC_CTX_new() })?);
        // SAFETY: the context is ours, `key` has the length of the cipher, which is a static.
        check("CMAC_Init", unsafe {
            aws::CMAC_Init(cmac.0.as_ptr(), key.as_ptr().cast(), key.len(), cipher, ptr::null_mut())
        })?;
        Ok(cmac)
    }

    pub(crate) fn update(&mut self, data: &[u8]) -> Result<()> {
        // SAFETY: the context is started, `data` is readable for its length.
        check("CMAC_Update", unsafe { aws::CMAC_Update(self.0.as_ptr(), data.as_ptr(), data.len()) })
    }

    /// Writes the code; [`reset`](Self::reset) must follow.
    pub(crate) fn finish(&mut self, out: &mut [u8; Self::LEN]) -> Result<()> {
        let mut len = 0;
        // SAFETY: the context is started, `out` is one block of AES long.
        check("CMAC_Final", unsafe { aws::CMAC_Final(self.0.as_ptr(), out.as_mut_ptr(), &mut len) })
    }

    /// A second code with the same key that goes on from here.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: takes nothing; what it returns is ours.
        let copy = Self(owned("CMAC_CTX_new", unsafe { aws::CMAC_CTX_new() })?);
        // SAFETY: both contexts are ours, the copy an empty one and this one started.
        check("CMAC_CTX_copy", unsafe { aws::CMAC_CTX_copy(copy.0.as_ptr(), self.0.as_ptr()) })?;
        Ok(copy)
    }

    /// Starts over with the same key.
    pub(crate) fn reset(&mut self) -> Result<()> {
        // SAFETY: the context is ours and has a key.
        check("CMAC_Reset", unsafe { aws::CMAC_Reset(self.0.as_ptr()) })
    }
}

impl Drop for Cmac {
    fn drop(&mut self) {
        // SAFETY: we own the context and nobody uses it after this; AWS-LC wipes what it frees.
        unsafe { aws::CMAC_CTX_free(self.0.as_ptr()) }
    }
}
