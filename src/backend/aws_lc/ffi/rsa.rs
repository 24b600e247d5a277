//! RSA keys and their operations. The output buffer of each operation has the length of the
//! modulus.

use std::ffi::c_int;
use std::ptr::NonNull;

use jeton_secret::Secret;

use super::digest::{md, names};
use super::{Bignum, aws, check, failed, owned, refused, to_secret};
use crate::backend::api::{Hash, RsaCrt, RsaPrivate};
use crate::error::{Error, Result};

/// An owned RSA key, public or private. It never changes after its creation.
pub(crate) struct Rsa(NonNull<aws::RSA>);

// SAFETY: rsa.h: several threads may use a key at once through functions that do not mutate it. The
// functions that sign, verify, encrypt, decrypt and read are such functions (they lock what they
// cache). We call no other function on a key after its creation.
unsafe impl Send for Rsa {}
// SAFETY: as for `Send`.
unsafe impl Sync for Rsa {}

impl Rsa {
    /// Generates a key pair. AWS-LC checks its consistency (`RSA_check_key`).
    pub(crate) fn generate(bits: usize, e: &Bignum) -> Result<Self> {
        let bits = c_int::try_from(bits).map_err(|_| Error::KeySizeRange)?;
        // SAFETY: the function has no arguments, and we own its result.
        let rsa = Self(owned("RSA_new", unsafe { aws::RSA_new() })?);
        #[cfg(feature = "fips")]
        if bits >= 2048 && e.to_bytes() == [1, 0, 1] {
            // SAFETY: the key is ours and new. Null means no callback. The function has this `e`.
            // It also tests the pair.
            let code = unsafe { aws::RSA_generate_key_fips(rsa.0.as_ptr(), bits, std::ptr::null_mut()) };
            check("RSA_generate_key_fips", code)?;
            return Ok(rsa);
        }
        // SAFETY: the key is ours and new, and `e` is alive. Null means no callback.
        let code =
            unsafe { aws::RSA_generate_key_ex(rsa.0.as_ptr(), bits, e.as_ptr(), std::ptr::null_mut()) };
        check("RSA_generate_key_ex", code)?;
        Ok(rsa)
    }

    pub(crate) fn public(n: &Bignum, e: &Bignum) -> Result<Self> {
        // SAFETY: the numbers are alive and are copied.
        Self::parsed(unsafe { aws::RSA_new_public_key_large_e(n.as_ptr(), e.as_ptr()) })
    }

    /// Creates a private key with its primes. AWS-LC checks every number against the others.
    pub(crate) fn private(n: &Bignum, e: &Bignum, d: &Bignum, crt: &RsaCrt) -> Result<Self> {
        let (p, q) = (Bignum::new(&crt.p)?, Bignum::new(&crt.q)?);
        let (dp, dq, qinv) = (Bignum::new(&crt.dp)?, Bignum::new(&crt.dq)?, Bignum::new(&crt.qinv)?);
        // SAFETY: the numbers are alive and are copied.
        Self::parsed(unsafe {
            aws::RSA_new_private_key_large_e(
                n.as_ptr(),
                e.as_ptr(),
                d.as_ptr(),
                p.as_ptr(),
                q.as_ptr(),
                dp.as_ptr(),
                dq.as_ptr(),
                qinv.as_ptr(),
            )
        })
    }

    /// Creates a private key without its primes. AWS-LC uses `e` to blind the operations of the
    /// key. Fails if `e` has more than 33 bits.
    pub(crate) fn private_no_crt(n: &Bignum, e: &Bignum, d: &Bignum) -> Result<Self> {
        // SAFETY: the numbers are alive and are copied.
        Self::parsed(unsafe { aws::RSA_new_private_key_no_crt(n.as_ptr(), e.as_ptr(), d.as_ptr()) })
    }

    /// Returns the modulus and the numbers of a generated key, without leading zeros.
    pub(crate) fn numbers(&self) -> Result<RsaPrivate> {
        Ok(RsaPrivate {
            n: self.number(aws::RSA_get0_n)?.to_vec(),
            e: Some(self.number(aws::RSA_get0_e)?.to_vec()),
            d: self.number(aws::RSA_get0_d)?,
            crt: Some(RsaCrt {
                p: self.number(aws::RSA_get0_p)?,
                q: self.number(aws::RSA_get0_q)?,
                dp: self.number(aws::RSA_get0_dmp1)?,
                dq: self.number(aws::RSA_get0_dmq1)?,
                qinv: self.number(aws::RSA_get0_iqmp)?,
            }),
        })
    }

    /// Returns the length of the modulus in bytes.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: the key is alive, and every constructor sets its modulus.
        unsafe { aws::RSA_size(self.0.as_ptr()) as usize }
    }

    /// Signs with RSASSA-PKCS1-v1_5 and the DigestInfo of `hash`.
    pub(crate) fn sign_pkcs1(&self, hash: Hash, digest: &[u8], out: &mut [u8]) -> Result<()> {
        self.fits(out)?;
        let mut len = 0;
        // SAFETY: `digest` is readable for its length, and `out` has the length of the modulus.
        let code = unsafe {
            aws::RSA_sign(
                names(hash).nid,
                digest.as_ptr(),
                digest.len(),
                out.as_mut_ptr(),
                &mut len,
                self.0.as_ptr(),
            )
        };
        check("RSA_sign", code)
    }

    /// Signs with RSASSA-PKCS1-v1_5, and adds no DigestInfo to `input`.
    pub(crate) fn sign_pkcs1_raw(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        check("RSA_sign_raw", self.sign_raw(aws::RSA_PKCS1_PADDING, input, out)?)
    }

    /// Computes RSASP1. `input` is as long as the modulus, and is not 0, 1 or the modulus minus 1.
    pub(crate) fn sign_unpadded(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        check("RSA_sign_raw", self.sign_raw(aws::RSA_NO_PADDING, input, out)?)
    }

    /// Tests a key with [`sign_unpadded`](Self::sign_unpadded). A failure means that the key is
    /// wrong: `DataInvalid`.
    pub(crate) fn try_out(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        super::check_key(self.sign_raw(aws::RSA_NO_PADDING, input, out)?)
    }

    /// Signs with RSASSA-PSS and a salt of exactly `salt_len` bytes.
    pub(crate) fn sign_pss(
        &self,
        hash: Hash,
        mgf: Hash,
        salt_len: c_int,
        digest: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        self.fits(out)?;
        let mut len = 0;
        // SAFETY: `digest` and `out` are passed with their lengths, and the hashes are statics.
        let code = unsafe {
            aws::RSA_sign_pss_mgf1(
                self.0.as_ptr(),
                &mut len,
                out.as_mut_ptr(),
                out.len(),
                digest.as_ptr(),
                digest.len(),
                md(hash),
                md(mgf),
                salt_len,
            )
        };
        check("RSA_sign_pss_mgf1", code)
    }

    pub(crate) fn verify_pkcs1(&self, hash: Hash, digest: &[u8], signature: &[u8]) -> bool {
        // SAFETY: both slices are passed with their lengths.
        good(unsafe {
            aws::RSA_verify(
                names(hash).nid,
                digest.as_ptr(),
                digest.len(),
                signature.as_ptr(),
                signature.len(),
                self.0.as_ptr(),
            )
        })
    }

    pub(crate) fn verify_pss(
        &self,
        hash: Hash,
        mgf: Hash,
        salt_len: c_int,
        digest: &[u8],
        signature: &[u8],
    ) -> bool {
        // SAFETY: both slices are passed with their lengths, and the hashes are statics.
        good(unsafe {
            aws::RSA_verify_pss_mgf1(
                self.0.as_ptr(),
                digest.as_ptr(),
                digest.len(),
                md(hash),
                md(mgf),
                salt_len,
                signature.as_ptr(),
                signature.len(),
            )
        })
    }

    /// Recovers the signed input of a PKCS#1 v1.5 signature into `scratch`. Returns `None` if the
    /// padding is wrong.
    pub(crate) fn recover_pkcs1<'a>(&self, signature: &[u8], scratch: &'a mut [u8]) -> Option<&'a [u8]> {
        self.recover(aws::RSA_PKCS1_PADDING, signature, scratch)
    }

    /// Computes RSAVP1: recovers the input of a raw signature into `scratch`. Returns `None` if the
    /// signature is not a number below the modulus.
    pub(crate) fn recover_unpadded<'a>(&self, signature: &[u8], scratch: &'a mut [u8]) -> Option<&'a [u8]> {
        self.recover(aws::RSA_NO_PADDING, signature, scratch)
    }

    /// Computes RSAEP. `input` is as long as the modulus, and is a smaller number.
    pub(crate) fn encrypt_unpadded(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.encrypt(aws::RSA_NO_PADDING, input, out)
    }

    /// Encrypts with RSAES-PKCS1-v1_5. `input` is at least 11 bytes shorter than the modulus.
    pub(crate) fn encrypt_pkcs1(&self, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.encrypt(aws::RSA_PKCS1_PADDING, input, out)
    }

    fn encrypt(&self, padding: c_int, input: &[u8], out: &mut [u8]) -> Result<()> {
        self.fits(out)?;
        check("RSA_encrypt", self.process(aws::RSA_encrypt, padding, input, out).0)
    }

    /// Computes RSADP on a number with the length of the modulus. Returns whether it was below the
    /// modulus, and was not 0, 1 or the modulus minus 1.
    pub(crate) fn decrypt_unpadded(&self, input: &[u8], out: &mut [u8]) -> Result<bool> {
        self.fits(out)?;
        Ok(good(self.process(aws::RSA_decrypt, aws::RSA_NO_PADDING, input, out).0))
    }

    fn recover<'a>(&self, padding: c_int, signature: &[u8], scratch: &'a mut [u8]) -> Option<&'a [u8]> {
        let (code, len) = self.process(aws::RSA_verify_raw, padding, signature, scratch);
        if good(code) { scratch.get(..len) } else { None }
    }

    fn sign_raw(&self, padding: c_int, input: &[u8], out: &mut [u8]) -> Result<c_int> {
        self.fits(out)?;
        Ok(self.process(aws::RSA_sign_raw, padding, input, out).0)
    }

    /// Calls one of the four functions `RSA_encrypt`, `RSA_decrypt`, `RSA_sign_raw` and
    /// `RSA_verify_raw`. Returns its code and the length of its output.
    fn process(&self, function: RawFunction, padding: c_int, input: &[u8], out: &mut [u8]) -> (c_int, usize) {
        let mut len = 0;
        // SAFETY: both slices are passed with their lengths. The pointer to the key is not const,
        // but these functions change only the caches of the key, under a lock.
        let code = unsafe {
            function(
                self.0.as_ptr(),
                &mut len,
                out.as_mut_ptr(),
                out.len(),
                input.as_ptr(),
                input.len(),
                padding,
            )
        };
        (code, len)
    }

    /// Checks that `out` has the length of the modulus.
    fn fits(&self, out: &[u8]) -> Result<()> {
        let needed = self.size();
        if out.len() == needed { Ok(()) } else { Err(Error::BufferTooSmall { needed }) }
    }

    fn parsed(rsa: *mut aws::RSA) -> Result<Self> {
        NonNull::new(rsa).map(Self).ok_or_else(|| refused(Error::DataInvalid))
    }

    fn number(&self, getter: unsafe extern "C" fn(*const aws::RSA) -> *const aws::BIGNUM) -> Result<Secret> {
        // SAFETY: the key is alive, and the getter only reads it.
        let number = unsafe { getter(self.0.as_ptr()) };
        if number.is_null() {
            return Err(failed("RSA_get0"));
        }
        // SAFETY: the number belongs to the key, which is alive and never changes.
        Ok(unsafe { to_secret(number) })
    }
}

type RawFunction =
    unsafe extern "C" fn(*mut aws::RSA, *mut usize, *mut u8, usize, *const u8, usize, c_int) -> c_int;

impl Drop for Rsa {
    fn drop(&mut self) {
        // SAFETY: we own the key and no code uses it after this. AWS-LC wipes the memory that it
        // frees.
        unsafe { aws::RSA_free(self.0.as_ptr()) }
    }
}

unsafe extern "C" {
    /// From `rsa/internal.h`. AWS-LC exports this function, but aws-lc-sys does not declare it.
    #[cfg_attr(not(feature = "fips"), link_name = "aws_lc_0_47_0_RSA_padding_check_PKCS1_OAEP_mgf1")]
    #[cfg_attr(feature = "fips", link_name = "aws_lc_fips_0_13_11_RSA_padding_check_PKCS1_OAEP_mgf1")]
    fn RSA_padding_check_PKCS1_OAEP_mgf1(
        out: *mut u8,
        out_len: *mut usize,
        max_out: usize,
        from: *const u8,
        from_len: usize,
        label: *const u8,
        label_len: usize,
        hash: *const aws::EVP_MD,
        mgf: *const aws::EVP_MD,
    ) -> c_int;
}

/// Encodes with EME-OAEP (RFC 8017, 7.1.1) into the whole of `out`, which has enough room.
pub(crate) fn oaep_encode(hash: Hash, mgf: Hash, label: &[u8], input: &[u8], out: &mut [u8]) -> Result<()> {
    // SAFETY: the slices are passed with their lengths, and the hashes are statics.
    check("RSA_padding_add_PKCS1_OAEP_mgf1", unsafe {
        aws::RSA_padding_add_PKCS1_OAEP_mgf1(
            out.as_mut_ptr(),
            out.len(),
            input.as_ptr(),
            input.len(),
            label.as_ptr(),
            label.len(),
            md(hash),
            md(mgf),
        )
    })
}

/// Decodes EME-OAEP (RFC 8017, 7.1.2) into `out`. Returns the length of the message, or `None` if
/// the encoding is wrong.
pub(crate) fn oaep_decode(
    hash: Hash,
    mgf: Hash,
    label: &[u8],
    input: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let mut len = 0;
    // SAFETY: the slices are passed with their lengths, and the hashes are statics.
    let code = unsafe {
        RSA_padding_check_PKCS1_OAEP_mgf1(
            out.as_mut_ptr(),
            &mut len,
            out.len(),
            input.as_ptr(),
            input.len(),
            label.as_ptr(),
            label.len(),
            md(hash),
            md(mgf),
        )
    };
    good(code).then_some(len)
}

fn good(code: c_int) -> bool {
    if code != 1 {
        refused(Error::SignatureInvalid);
    }
    code == 1
}
