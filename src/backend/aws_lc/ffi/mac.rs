//! HMAC, CMAC and PBKDF2. The other MACs are built on ciphers.

use std::ptr::{self, NonNull};

use super::cipher::{Mode, cipher};
use super::digest::md;
use super::{aws, check, owned};
use crate::backend::api::Hash;
use crate::error::{Error, Result, require};

/// Fills `out` with the output of PBKDF2 with HMAC.
pub(crate) fn pbkdf2(
    hash: Hash,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
    out: &mut [u8],
) -> Result<()> {
    let md = fixed(hash)?;
    // SAFETY: the three slices are passed with their lengths and are not null, and the hash is a
    // static.
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

/// Returns the hash for HMAC. Fails with `MechanismInvalid` for SHAKE and BLAKE2b, and for SHA-3 in
/// AWS-LC FIPS 3.1.0.
fn fixed(hash: Hash) -> Result<*const aws::EVP_MD> {
    match hash {
        Hash::Shake128 | Hash::Shake256 => Err(Error::MechanismInvalid),
        Hash::Sha3_224 | Hash::Sha3_256 | Hash::Sha3_384 | Hash::Sha3_512 if cfg!(feature = "fips") => {
            Err(Error::MechanismInvalid)
        }
        hash if hash.is_blake2b() => Err(Error::MechanismInvalid),
        hash => Ok(md(hash)),
    }
}

/// An owned `HMAC_CTX` with its key. It is ready for data, except between [`finish`](Self::finish)
/// and [`reset`](Self::reset).
pub(crate) struct Hmac {
    context: NonNull<aws::HMAC_CTX>,
    len: usize,
}

// SAFETY: a context is not bound to the thread that created it, and it is used only through `&mut`.
unsafe impl Send for Hmac {}

impl Hmac {
    /// Creates a context. Fails with `MechanismInvalid` for SHAKE and BLAKE2b.
    pub(crate) fn new(hash: Hash, key: &[u8]) -> Result<Self> {
        Self::with(fixed(hash)?, hash.len(), key)
    }

    /// The length of an HMAC with MD5, which is not a [`Hash`].
    pub(crate) const MD5_LEN: usize = 16;

    pub(crate) fn md5(key: &[u8]) -> Result<Self> {
        // SAFETY: the function has no arguments and returns a static.
        Self::with(unsafe { aws::EVP_md5() }, Self::MD5_LEN, key)
    }

    /// Creates a context. `md` is a static of AWS-LC whose digests have `len` bytes.
    fn with(md: *const aws::EVP_MD, len: usize, key: &[u8]) -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        let context = owned("HMAC_CTX_new", unsafe { aws::HMAC_CTX_new() })?;
        let hmac = Self { context, len };
        // SAFETY: the context is ours, `key` is passed with its length and is not null, and the
        // hash is a static.
        check("HMAC_Init_ex", unsafe {
            aws::HMAC_Init_ex(hmac.context.as_ptr(), key.as_ptr().cast(), key.len(), md, ptr::null_mut())
        })?;
        Ok(hmac)
    }

    pub(crate) fn update(&mut self, data: &[u8]) -> Result<()> {
        // SAFETY: the context is started, and `data` is readable for its length.
        check("HMAC_Update", unsafe { aws::HMAC_Update(self.context.as_ptr(), data.as_ptr(), data.len()) })
    }

    /// Writes the MAC, which is as long as `out`. The caller must then call [`reset`](Self::reset).
    pub(crate) fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        require(out.len() == self.len, Error::BufferTooSmall { needed: self.len })?;
        let mut len = 0;
        // SAFETY: the context is started, and `out` is as long as the hash.
        check("HMAC_Final", unsafe { aws::HMAC_Final(self.context.as_ptr(), out.as_mut_ptr(), &mut len) })
    }

    /// Copies the context with its key and its current state.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        let context = owned("HMAC_CTX_new", unsafe { aws::HMAC_CTX_new() })?;
        let copy = Self { context, len: self.len };
        // SAFETY: both contexts are ours. The copy is empty and this one is started.
        let code = unsafe { aws::HMAC_CTX_copy_ex(copy.context.as_ptr(), self.context.as_ptr()) };
        check("HMAC_CTX_copy_ex", code)?;
        Ok(copy)
    }

    /// Starts a new message with the same key.
    pub(crate) fn reset(&mut self) -> Result<()> {
        #[cfg(feature = "fips")]
        self.end();
        // SAFETY: the context is ours and has a key and a hash, which null arguments keep.
        check("HMAC_Init_ex", unsafe {
            aws::HMAC_Init_ex(self.context.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null_mut())
        })
    }
}

impl Hmac {
    /// Ends the message if it has data: AWS-LC FIPS 3.1.0 would take the empty key in place of the
    /// old one for the next message. The C function ignores a context that has ended.
    #[cfg(feature = "fips")]
    fn end(&mut self) {
        let mut code = zeroize::Zeroizing::new([0; 64]);
        // SAFETY: the context is ours, and no hash of HMAC is longer than `code`.
        unsafe { aws::HMAC_Final(self.context.as_ptr(), code.as_mut_ptr(), &mut 0) };
    }
}

impl Drop for Hmac {
    fn drop(&mut self) {
        // SAFETY: we own the context and no code uses it after this. AWS-LC wipes the memory that
        // it frees.
        unsafe { aws::HMAC_CTX_free(self.context.as_ptr()) }
    }
}

/// An owned `CMAC_CTX` with an AES key. It is ready for data, except between
/// [`finish`](Self::finish) and [`reset`](Self::reset).
pub(crate) struct Cmac(NonNull<aws::CMAC_CTX>);

// SAFETY: a context is not bound to the thread that created it, and it is used only through `&mut`.
unsafe impl Send for Cmac {}

impl Cmac {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn new(key: &[u8]) -> Result<Self> {
        let cipher = cipher(Mode::Cbc, key.len())?;
        // SAFETY: the function has no arguments, and we own its result.
        let cmac = Self(owned("CMAC_CTX_new", unsafe { aws::CMAC_CTX_new() })?);
        // SAFETY: the context is ours, `key` has the key length of the cipher, and the cipher is a
        // static.
        check("CMAC_Init", unsafe {
            aws::CMAC_Init(cmac.0.as_ptr(), key.as_ptr().cast(), key.len(), cipher, ptr::null_mut())
        })?;
        Ok(cmac)
    }

    pub(crate) fn update(&mut self, data: &[u8]) -> Result<()> {
        // SAFETY: the context is started, and `data` is readable for its length.
        check("CMAC_Update", unsafe { aws::CMAC_Update(self.0.as_ptr(), data.as_ptr(), data.len()) })
    }

    /// Writes the MAC. The caller must then call [`reset`](Self::reset).
    pub(crate) fn finish(&mut self, out: &mut [u8; Self::LEN]) -> Result<()> {
        let mut len = 0;
        // SAFETY: the context is started, and `out` has the length of one AES block.
        check("CMAC_Final", unsafe { aws::CMAC_Final(self.0.as_ptr(), out.as_mut_ptr(), &mut len) })
    }

    /// Copies the context with its key and its current state.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        let copy = Self(owned("CMAC_CTX_new", unsafe { aws::CMAC_CTX_new() })?);
        // SAFETY: both contexts are ours. The copy is empty and this one is started.
        check("CMAC_CTX_copy", unsafe { aws::CMAC_CTX_copy(copy.0.as_ptr(), self.0.as_ptr()) })?;
        Ok(copy)
    }

    /// Starts a new message with the same key.
    pub(crate) fn reset(&mut self) -> Result<()> {
        // SAFETY: the context is ours and has a key.
        check("CMAC_Reset", unsafe { aws::CMAC_Reset(self.0.as_ptr()) })
    }
}

impl Drop for Cmac {
    fn drop(&mut self) {
        // SAFETY: we own the context and no code uses it after this. AWS-LC wipes the memory that
        // it frees.
        unsafe { aws::CMAC_CTX_free(self.0.as_ptr()) }
    }
}
