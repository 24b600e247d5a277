//! SHA-1 and SHA-2, and the numbers and tables by which AWS-LC knows them.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use super::{aws, check, owned};
use crate::backend::Hash;
use crate::error::{Error, Result};

/// The digest of `data`; `out` is `hash.len()` bytes long.
pub(crate) fn hash(hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
    if out.len() != hash.len() {
        return Err(Error::BufferTooSmall { needed: hash.len() });
    }
    // SAFETY: `data` is readable for its length, `out` writable for the digest's.
    unsafe { (names(hash).one_call)(data.as_ptr(), data.len(), out.as_mut_ptr()) };
    Ok(())
}

/// An owned `EVP_MD_CTX`, always between a DigestInit and a DigestFinal.
pub(crate) struct DigestCtx(NonNull<aws::EVP_MD_CTX>);

// SAFETY: a context has no ties to the thread that made it; it is used through `&mut` alone.
unsafe impl Send for DigestCtx {}

impl DigestCtx {
    pub(crate) fn new(hash: Hash) -> Result<Self> {
        // SAFETY: takes nothing; what it returns is ours.
        let mut context = Self(owned("EVP_MD_CTX_new", unsafe { aws::EVP_MD_CTX_new() })?);
        context.reset(hash)?;
        Ok(context)
    }

    /// Starts over; allocates nothing when the hash is the one from before.
    pub(crate) fn reset(&mut self, hash: Hash) -> Result<()> {
        // SAFETY: the context is ours; a null engine means the built-in functions.
        let code = unsafe { aws::EVP_DigestInit_ex(self.0.as_ptr(), md(hash), ptr::null_mut()) };
        check("EVP_DigestInit_ex", code)
    }

    pub(crate) fn update(&mut self, data: &[u8]) -> Result<()> {
        // SAFETY: the context is started, `data` is readable for its length.
        let code = unsafe { aws::EVP_DigestUpdate(self.0.as_ptr(), data.as_ptr().cast(), data.len()) };
        check("EVP_DigestUpdate", code)
    }

    /// Writes the digest, which is as long as `out`; [`reset`](Self::reset) must follow.
    pub(crate) fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        // SAFETY: the context is started.
        let len = unsafe { aws::EVP_MD_CTX_size(self.0.as_ptr()) };
        if out.len() != len {
            return Err(Error::BufferTooSmall { needed: len });
        }
        // SAFETY: `out` is as long as the digest; the length is not asked for.
        let code = unsafe { aws::EVP_DigestFinal_ex(self.0.as_ptr(), out.as_mut_ptr(), ptr::null_mut()) };
        check("EVP_DigestFinal_ex", code)
    }
}

impl Drop for DigestCtx {
    fn drop(&mut self) {
        // SAFETY: we own the context and nobody uses it after this.
        unsafe { aws::EVP_MD_CTX_free(self.0.as_ptr()) }
    }
}

/// What AWS-LC calls a hash.
pub(super) struct Names {
    pub(super) nid: c_int,
    md: unsafe extern "C" fn() -> *const aws::EVP_MD,
    one_call: unsafe extern "C" fn(*const u8, usize, *mut u8) -> *mut u8,
}

pub(super) const fn names(hash: Hash) -> Names {
    match hash {
        Hash::Sha1 => Names { nid: aws::NID_sha1, md: aws::EVP_sha1, one_call: aws::SHA1 },
        Hash::Sha224 => Names { nid: aws::NID_sha224, md: aws::EVP_sha224, one_call: aws::SHA224 },
        Hash::Sha256 => Names { nid: aws::NID_sha256, md: aws::EVP_sha256, one_call: aws::SHA256 },
        Hash::Sha384 => Names { nid: aws::NID_sha384, md: aws::EVP_sha384, one_call: aws::SHA384 },
        Hash::Sha512 => Names { nid: aws::NID_sha512, md: aws::EVP_sha512, one_call: aws::SHA512 },
    }
}

pub(super) fn md(hash: Hash) -> *const aws::EVP_MD {
    // SAFETY: takes nothing and returns a pointer to a static.
    unsafe { (names(hash).md)() }
}
