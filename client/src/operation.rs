//! Operations of a session: sign, verify and digest, in one part or several; encrypt and decrypt,
//! in one part only.

use cryptoki_sys::{CK_BYTE, CK_RV, CK_ULONG, CKR_SIGNATURE_INVALID, CKR_SIGNATURE_LEN_RANGE};

use super::attribute::Mechanism;
use super::failure::{Failure, call, check, entry};
use super::session::{ObjectHandle, Session};

/// Defines methods by their shape: their name, the function, and the step of the caller. An output
/// goes into `out`, and the method returns the number of bytes written.
macro_rules! methods {
    ($($shape:ident $method:ident: $function:ident, $doing:literal;)*) => {
        impl Session {
            $(methods!(@$shape $method, $function, $doing);)*
        }
    };
    (@init $method:ident, $function:ident, $doing:literal) => {
        #[doc = concat!("`", stringify!($function), "`.")]
        pub fn $method(&self, mechanism: &Mechanism, key: ObjectHandle) -> Result<(), Failure> {
            let mut raw = mechanism.as_raw();
            // SAFETY: the mechanism borrows `mechanism`, which outlives the call.
            unsafe { call!(self.module(), $function(self.handle(), &mut raw, key.0), $doing) }
        }
    };
    (@transform $method:ident, $function:ident, $doing:literal) => {
        #[doc = concat!("`", stringify!($function), "` into `out`. Returns the number of bytes written.")]
        pub fn $method(&self, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
            let ((data, data_length), mut length) = (input(data), out.len() as CK_ULONG);
            let place = out.as_mut_ptr();
            // SAFETY: the data is readable and `out` writable for its length.
            unsafe { call!(self.module(), $function(self.handle(), data, data_length, place, &mut length), $doing) }?;
            Ok(length as usize)
        }
    };
    (@update $method:ident, $function:ident, $doing:literal) => {
        #[doc = concat!("`", stringify!($function), "`.")]
        pub fn $method(&self, part: &[u8]) -> Result<(), Failure> {
            let (part, length) = input(part);
            // SAFETY: the part is readable for its length.
            unsafe { call!(self.module(), $function(self.handle(), part, length), $doing) }
        }
    };
    (@finish $method:ident, $function:ident, $doing:literal) => {
        #[doc = concat!("`", stringify!($function), "` into `out`. Returns the number of bytes written.")]
        pub fn $method(&self, out: &mut [u8]) -> Result<usize, Failure> {
            let mut length = out.len() as CK_ULONG;
            // SAFETY: `out` is writable for its length.
            unsafe { call!(self.module(), $function(self.handle(), out.as_mut_ptr(), &mut length), $doing) }?;
            Ok(length as usize)
        }
    };
}

methods! {
    init sign_init: C_SignInit, "starting a signature";
    transform sign: C_Sign, "signing";
    update sign_update: C_SignUpdate, "signing a part";
    finish sign_final: C_SignFinal, "finishing a signature";
    init verify_init: C_VerifyInit, "starting a verification";
    update verify_update: C_VerifyUpdate, "verifying a part";
    transform digest: C_Digest, "digesting";
    update digest_update: C_DigestUpdate, "digesting a part";
    finish digest_final: C_DigestFinal, "finishing a digest";
    init encrypt_init: C_EncryptInit, "starting an encryption";
    transform encrypt: C_Encrypt, "encrypting";
    init decrypt_init: C_DecryptInit, "starting a decryption";
    transform decrypt: C_Decrypt, "decrypting";
}

impl Session {
    /// `C_Verify`: returns whether the signature belongs to the data. `CKR_SIGNATURE_INVALID` and
    /// `CKR_SIGNATURE_LEN_RANGE` mean `false`.
    pub fn verify(&self, data: &[u8], signature: &[u8]) -> Result<bool, Failure> {
        let verify = entry("C_Verify", self.module().functions().C_Verify)?;
        let (data, data_length) = input(data);
        let (signature, signature_length) = input(signature);
        // SAFETY: both inputs are readable for their lengths.
        let code = unsafe { verify(self.handle(), data, data_length, signature, signature_length) };
        verdict("C_Verify", code, "verifying a signature")
    }

    /// `C_VerifyFinal`: returns whether the signature belongs to the data. [`Self::verify`] says
    /// which return codes mean `false`.
    pub fn verify_final(&self, signature: &[u8]) -> Result<bool, Failure> {
        let end = entry("C_VerifyFinal", self.module().functions().C_VerifyFinal)?;
        let (signature, length) = input(signature);
        // SAFETY: the signature is readable for its length.
        let code = unsafe { end(self.handle(), signature, length) };
        verdict("C_VerifyFinal", code, "finishing a verification")
    }

    /// `C_DigestInit`.
    pub fn digest_init(&self, mechanism: &Mechanism) -> Result<(), Failure> {
        let mut raw = mechanism.as_raw();
        // SAFETY: the mechanism borrows `mechanism`, which outlives the call.
        unsafe { call!(self.module(), C_DigestInit(self.handle(), &mut raw), "starting a digest") }
    }
}

/// Returns an input as pointer and length. Modules read it and do not write to it.
fn input(data: &[u8]) -> (*mut CK_BYTE, CK_ULONG) {
    (data.as_ptr().cast_mut(), data.len() as CK_ULONG)
}

/// Converts the return code of a verification. Two codes mean that the signature is wrong. Every
/// other code except `CKR_OK` is a failure.
fn verdict(function: &'static str, code: CK_RV, doing: &'static str) -> Result<bool, Failure> {
    match code {
        CKR_SIGNATURE_INVALID | CKR_SIGNATURE_LEN_RANGE => Ok(false),
        code => check(function, code, doing).map(|()| true),
    }
}
