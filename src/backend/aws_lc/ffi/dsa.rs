//! DSA keys, signatures and domain parameters.

use std::ffi::{c_uint, c_ulong};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use jeton_secret::{Secret, wipe_stack};

use super::{Bignum, aws, check, failed, owned, refused, to_padded, to_secret};
use crate::backend::api::DsaGroup;
use crate::error::{Error, Result};

/// The depth in bytes to which the stack is wiped after a computation with the private value or a
/// nonce.
const DEPTH: usize = 16 << 10;

/// An owned `DSA`: a key, public or private, or domain parameters. It never changes after its
/// creation.
pub(crate) struct Dsa(NonNull<aws::DSA>);

// SAFETY: dsa.h: several threads may use a key at once through functions that do not mutate it.
// Signing, verifying and reading are such functions. We call no other function on a key after its
// creation.
unsafe impl Send for Dsa {}
// SAFETY: as for `Send`.
unsafe impl Sync for Dsa {}

impl Dsa {
    /// Generates domain parameters. AWS-LC chooses the size of the subprime: 160 bits if the prime
    /// has fewer than 2048 bits, and 256 bits otherwise.
    pub(crate) fn parameters(bits: usize) -> Result<Self> {
        let bits = c_uint::try_from(bits).map_err(|_| Error::KeySizeRange)?;
        let group = Self::empty()?;
        // SAFETY: the object is ours. The null arguments mean a random seed, no results beside the
        // numbers, and no callback.
        check("DSA_generate_parameters_ex", unsafe {
            aws::DSA_generate_parameters_ex(
                group.0.as_ptr(),
                bits,
                ptr::null(),
                0,
                ptr::null_mut(),
                ptr::null_mut::<c_ulong>(),
                ptr::null_mut(),
            )
        })?;
        Ok(group)
    }

    /// Generates a key in a group whose numbers were checked.
    pub(crate) fn generate(group: &DsaGroup) -> Result<Self> {
        let key = Self::in_group(group)?;
        // SAFETY: the key is ours and has its group.
        let code = unsafe { aws::DSA_generate_key(key.0.as_ptr()) };
        wipe_stack::<DEPTH>();
        check("DSA_generate_key", code)?;
        Ok(key)
    }

    /// Creates a key. All numbers were checked.
    pub(crate) fn new(group: &DsaGroup, public: &[u8], private: Option<&[u8]>) -> Result<Self> {
        let key = Self::in_group(group)?;
        let public = ManuallyDrop::new(Bignum::new(public)?);
        let private = private.map(Bignum::new).transpose()?.map(ManuallyDrop::new);
        let private = private.map_or(ptr::null_mut(), |number| number.0.as_ptr());
        // SAFETY: the key is ours and takes ownership of the numbers. The call fails only without a
        // public key.
        check("DSA_set0_key", unsafe { aws::DSA_set0_key(key.0.as_ptr(), public.0.as_ptr(), private) })?;
        Ok(key)
    }

    /// Returns p, q and g.
    pub(crate) fn group(&self) -> [Vec<u8>; 3] {
        let mut numbers = [ptr::null(); 3];
        let [p, q, g] = &mut numbers;
        // SAFETY: the object is alive and has its three numbers. They live as long as the object.
        unsafe { aws::DSA_get0_pqg(self.0.as_ptr(), p, q, g) };
        // SAFETY: the numbers belong to the object, and no code changes them.
        numbers.map(|number| unsafe { to_secret(number) }.to_vec())
    }

    pub(crate) fn private_value(&self) -> Result<Secret> {
        let mut value = ptr::null();
        // SAFETY: the key is alive. Null asks for no public value.
        unsafe { aws::DSA_get0_key(self.0.as_ptr(), ptr::null_mut(), &mut value) };
        if value.is_null() {
            return Err(failed("DSA_get0_key"));
        }
        // SAFETY: the number belongs to the key, and no code changes it.
        Ok(unsafe { to_secret(value) })
    }

    /// Signs a digest. `r` and `s` have the length of the subprime. The nonce is random.
    pub(crate) fn sign(&self, digest: &[u8], r: &mut [u8], s: &mut [u8]) -> Result<()> {
        // SAFETY: the key is alive, `digest` is readable for its length, and we own the result.
        let signature = unsafe { aws::DSA_do_sign(digest.as_ptr(), digest.len(), self.0.as_ptr()) };
        wipe_stack::<DEPTH>();
        let signature = Signature(owned("DSA_do_sign", signature)?);
        let mut numbers = [ptr::null(); 2];
        let [own_r, own_s] = &mut numbers;
        // SAFETY: the signature is alive and has both numbers. They live as long as the signature.
        unsafe { aws::DSA_SIG_get0(signature.0.as_ptr(), own_r, own_s) };
        // SAFETY: the signature and its r are alive.
        unsafe { to_padded(numbers[0], r) }?;
        // SAFETY: the signature and its s are alive.
        unsafe { to_padded(numbers[1], s) }
    }

    pub(crate) fn verify(&self, digest: &[u8], r: &[u8], s: &[u8]) -> Result<bool> {
        // SAFETY: the function has no arguments, and we own its result.
        let signature = Signature(owned("DSA_SIG_new", unsafe { aws::DSA_SIG_new() })?);
        let (r, s) = (ManuallyDrop::new(Bignum::new(r)?), ManuallyDrop::new(Bignum::new(s)?));
        // SAFETY: the signature is ours and takes ownership of both numbers.
        check("DSA_SIG_set0", unsafe {
            aws::DSA_SIG_set0(signature.0.as_ptr(), r.0.as_ptr(), s.0.as_ptr())
        })?;
        // SAFETY: key and signature are alive, and `digest` is readable for its length.
        let code = unsafe {
            aws::DSA_do_verify(digest.as_ptr(), digest.len(), signature.0.as_ptr(), self.0.as_ptr())
        };
        if code != 1 {
            refused(Error::SignatureInvalid);
        }
        Ok(code == 1)
    }

    fn empty() -> Result<Self> {
        // SAFETY: the function has no arguments, and we own its result.
        owned("DSA_new", unsafe { aws::DSA_new() }).map(Self)
    }

    fn in_group(group: &DsaGroup) -> Result<Self> {
        let key = Self::empty()?;
        let [p, q, g] = [&group.prime, &group.subprime, &group.base].map(|number| Bignum::new(number));
        let (p, q, g) = (ManuallyDrop::new(p?), ManuallyDrop::new(q?), ManuallyDrop::new(g?));
        // SAFETY: the key is ours and takes ownership of the numbers. The call fails only if one of
        // them is null.
        check("DSA_set0_pqg", unsafe {
            aws::DSA_set0_pqg(key.0.as_ptr(), p.0.as_ptr(), q.0.as_ptr(), g.0.as_ptr())
        })?;
        Ok(key)
    }
}

impl Drop for Dsa {
    fn drop(&mut self) {
        // SAFETY: we own the key and no code uses it after this. AWS-LC wipes the numbers that it
        // frees.
        unsafe { aws::DSA_free(self.0.as_ptr()) }
    }
}

struct Signature(NonNull<aws::DSA_SIG>);

impl Drop for Signature {
    fn drop(&mut self) {
        // SAFETY: we own the signature and no code uses it after this.
        unsafe { aws::DSA_SIG_free(self.0.as_ptr()) }
    }
}
