//! SHA-1, SHA-2, SHA-3 and SHAKE, and AWS-LC's numbers and functions for them.

use std::ffi::c_int;
use std::ptr::{self, NonNull};

use super::{aws, check, owned};
use crate::backend::api::Hash;
use crate::error::{Error, Result, require};

/// Writes the digest of `data` to `out`, which has `hash.len()` bytes.
pub(crate) fn hash(hash: Hash, data: &[u8], out: &mut [u8]) -> Result<()> {
    require(out.len() == hash.len(), Error::BufferTooSmall { needed: hash.len() })?;
    let Some(one_call) = names(hash).one_call else {
        let mut context = DigestCtx::new(hash)?;
        context.update(data)?;
        return context.finish(out);
    };
    // SAFETY: `data` is readable for its length, and `out` is writable for the length of the
    // digest.
    unsafe { one_call(data.as_ptr(), data.len(), out.as_mut_ptr()) };
    Ok(())
}

/// An owned `EVP_MD_CTX`. It is ready for data, except between [`finish`](Self::finish) and
/// [`reset`](Self::reset).
pub(crate) struct DigestCtx {
    context: NonNull<aws::EVP_MD_CTX>,
    hash: Hash,
}

// SAFETY: a context is not bound to the thread that created it, and it is used only through `&mut`.
unsafe impl Send for DigestCtx {}

impl DigestCtx {
    pub(crate) fn new(hash: Hash) -> Result<Self> {
        require(!hash.is_blake2b(), Error::MechanismInvalid)?;
        // SAFETY: the function has no arguments, and we own its result.
        let context = owned("EVP_MD_CTX_new", unsafe { aws::EVP_MD_CTX_new() })?;
        let mut context = Self { context, hash };
        context.reset()?;
        Ok(context)
    }

    /// Copies the context with its current state.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        let context = owned("EVP_MD_CTX_new", unsafe { aws::EVP_MD_CTX_new() })?;
        let copy = Self { context, hash: self.hash };
        // SAFETY: both contexts are ours. The copy is empty and this one is started.
        let code = unsafe { aws::EVP_MD_CTX_copy_ex(copy.context.as_ptr(), self.context.as_ptr()) };
        check("EVP_MD_CTX_copy_ex", code)?;
        Ok(copy)
    }

    /// Starts a new message. Allocates nothing.
    pub(crate) fn reset(&mut self) -> Result<()> {
        // SAFETY: the context is ours. A null engine selects the built-in functions.
        let code = unsafe { aws::EVP_DigestInit_ex(self.context.as_ptr(), md(self.hash), ptr::null_mut()) };
        check("EVP_DigestInit_ex", code)
    }

    pub(crate) fn update(&mut self, data: &[u8]) -> Result<()> {
        // SAFETY: the context is started, and `data` is readable for its length.
        let code = unsafe { aws::EVP_DigestUpdate(self.context.as_ptr(), data.as_ptr().cast(), data.len()) };
        check("EVP_DigestUpdate", code)
    }

    /// Writes the digest, which is as long as `out`. The caller must then call
    /// [`reset`](Self::reset).
    pub(crate) fn finish(&mut self, out: &mut [u8]) -> Result<()> {
        require(out.len() == self.hash.len(), Error::BufferTooSmall { needed: self.hash.len() })?;
        let context = self.context.as_ptr();
        if matches!(self.hash, Hash::Shake128 | Hash::Shake256) {
            // SAFETY: the context is started and has an extendable output, which fills `out`.
            let code = unsafe { aws::EVP_DigestFinalXOF(context, out.as_mut_ptr(), out.len()) };
            return check("EVP_DigestFinalXOF", code);
        }
        // SAFETY: `out` is as long as the digest. With null the function does not write the length.
        let code = unsafe { aws::EVP_DigestFinal_ex(context, out.as_mut_ptr(), ptr::null_mut()) };
        check("EVP_DigestFinal_ex", code)
    }
}

impl Drop for DigestCtx {
    fn drop(&mut self) {
        // SAFETY: we own the context and no code uses it after this.
        unsafe { aws::EVP_MD_CTX_free(self.context.as_ptr()) }
    }
}

/// AWS-LC's number (NID) and functions for a hash.
pub(super) struct Names {
    pub(super) nid: c_int,
    md: Md,
    one_call: Option<OneCall>,
}

type Md = unsafe extern "C" fn() -> *const aws::EVP_MD;
type OneCall = unsafe extern "C" fn(*const u8, usize, *mut u8) -> *mut u8;

pub(super) const fn names(hash: Hash) -> Names {
    const fn of(nid: c_int, md: Md, one_call: Option<OneCall>) -> Names {
        Names { nid, md, one_call }
    }
    match hash {
        Hash::Sha1 => of(aws::NID_sha1, aws::EVP_sha1, Some(aws::SHA1)),
        Hash::Sha224 => of(aws::NID_sha224, aws::EVP_sha224, Some(aws::SHA224)),
        Hash::Sha256 => of(aws::NID_sha256, aws::EVP_sha256, Some(aws::SHA256)),
        Hash::Sha384 => of(aws::NID_sha384, aws::EVP_sha384, Some(aws::SHA384)),
        Hash::Sha512 => of(aws::NID_sha512, aws::EVP_sha512, Some(aws::SHA512)),
        Hash::Sha512_224 => of(aws::NID_sha512_224, aws::EVP_sha512_224, Some(aws::SHA512_224)),
        Hash::Sha512_256 => of(aws::NID_sha512_256, aws::EVP_sha512_256, Some(aws::SHA512_256)),
        Hash::Sha3_224 => of(aws::NID_sha3_224, aws::EVP_sha3_224, None),
        Hash::Sha3_256 => of(aws::NID_sha3_256, aws::EVP_sha3_256, None),
        Hash::Sha3_384 => of(aws::NID_sha3_384, aws::EVP_sha3_384, None),
        Hash::Sha3_512 => of(aws::NID_sha3_512, aws::EVP_sha3_512, None),
        Hash::Shake128 => of(aws::NID_shake128, aws::EVP_shake128, None),
        Hash::Shake256 => of(aws::NID_shake256, aws::EVP_shake256, None),
        // AWS-LC supports only one of the four lengths. The second backend computes all of them, so
        // this function is never called for them.
        Hash::Blake2b160 | Hash::Blake2b256 | Hash::Blake2b384 | Hash::Blake2b512 => {
            of(aws::NID_undef, aws::EVP_blake2b256, None)
        }
    }
}

pub(super) fn md(hash: Hash) -> *const aws::EVP_MD {
    // SAFETY: the function has no arguments and returns a pointer to a static.
    unsafe { (names(hash).md)() }
}
