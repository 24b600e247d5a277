//! Operations of a session: sign, verify and digest, in one part or several; encrypt and decrypt,
//! in one part only.

use std::ptr;

use cryptoki_sys::{
    CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG, CKR_SIGNATURE_INVALID,
    CKR_SIGNATURE_LEN_RANGE,
};

use super::attribute::Mechanism;
use super::failure::{Failure, check, entry};
use super::session::{ObjectHandle, Session};

type Init = unsafe extern "C" fn(CK_SESSION_HANDLE, *mut CK_MECHANISM, CK_OBJECT_HANDLE) -> CK_RV;
type Update = unsafe extern "C" fn(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG) -> CK_RV;
type Final = unsafe extern "C" fn(CK_SESSION_HANDLE, *mut CK_BYTE, *mut CK_ULONG) -> CK_RV;
type OneShot =
    unsafe extern "C" fn(CK_SESSION_HANDLE, *mut CK_BYTE, CK_ULONG, *mut CK_BYTE, *mut CK_ULONG) -> CK_RV;

impl Session {
    /// `C_SignInit`.
    pub fn sign_init(&self, mechanism: &Mechanism, key: ObjectHandle) -> Result<(), Failure> {
        let init = self.module().functions().C_SignInit;
        self.init("C_SignInit", init, mechanism, key, "starting a signature")
    }

    /// `C_Sign` with the buffer `out`. Returns the number of bytes written.
    pub fn sign(&self, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.transform("C_Sign", self.module().functions().C_Sign, data, out, "signing")
    }

    /// `C_Sign` with a NULL output: returns a length that is sufficient for the signature.
    pub fn sign_length(&self, data: &[u8]) -> Result<usize, Failure> {
        self.transform_length(
            "C_Sign",
            self.module().functions().C_Sign,
            data,
            "asking for a signature's length",
        )
    }

    /// `C_SignUpdate`.
    pub fn sign_update(&self, part: &[u8]) -> Result<(), Failure> {
        self.update("C_SignUpdate", self.module().functions().C_SignUpdate, part, "signing a part")
    }

    /// `C_SignFinal` into `out`.
    pub fn sign_final(&self, out: &mut [u8]) -> Result<usize, Failure> {
        self.finish("C_SignFinal", self.module().functions().C_SignFinal, out, "finishing a signature")
    }

    /// `C_VerifyInit`.
    pub fn verify_init(&self, mechanism: &Mechanism, key: ObjectHandle) -> Result<(), Failure> {
        let init = self.module().functions().C_VerifyInit;
        self.init("C_VerifyInit", init, mechanism, key, "starting a verification")
    }

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

    /// `C_VerifyUpdate`.
    pub fn verify_update(&self, part: &[u8]) -> Result<(), Failure> {
        self.update("C_VerifyUpdate", self.module().functions().C_VerifyUpdate, part, "verifying a part")
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
        let init = entry("C_DigestInit", self.module().functions().C_DigestInit)?;
        let mut raw = mechanism.as_raw();
        // SAFETY: the mechanism borrows `mechanism`, which outlives the call.
        check("C_DigestInit", unsafe { init(self.handle(), &mut raw) }, "starting a digest")
    }

    /// `C_Digest` into `out`.
    pub fn digest(&self, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.transform("C_Digest", self.module().functions().C_Digest, data, out, "digesting")
    }

    /// `C_DigestUpdate`.
    pub fn digest_update(&self, part: &[u8]) -> Result<(), Failure> {
        self.update("C_DigestUpdate", self.module().functions().C_DigestUpdate, part, "digesting a part")
    }

    /// `C_DigestFinal` into `out`.
    pub fn digest_final(&self, out: &mut [u8]) -> Result<usize, Failure> {
        self.finish("C_DigestFinal", self.module().functions().C_DigestFinal, out, "finishing a digest")
    }

    /// `C_EncryptInit`.
    pub fn encrypt_init(&self, mechanism: &Mechanism, key: ObjectHandle) -> Result<(), Failure> {
        let init = self.module().functions().C_EncryptInit;
        self.init("C_EncryptInit", init, mechanism, key, "starting an encryption")
    }

    /// `C_Encrypt` into `out`.
    pub fn encrypt(&self, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.transform("C_Encrypt", self.module().functions().C_Encrypt, data, out, "encrypting")
    }

    /// `C_DecryptInit`.
    pub fn decrypt_init(&self, mechanism: &Mechanism, key: ObjectHandle) -> Result<(), Failure> {
        let init = self.module().functions().C_DecryptInit;
        self.init("C_DecryptInit", init, mechanism, key, "starting a decryption")
    }

    /// `C_Decrypt` into `out`.
    pub fn decrypt(&self, data: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        self.transform("C_Decrypt", self.module().functions().C_Decrypt, data, out, "decrypting")
    }

    fn init(
        &self,
        function: &'static str,
        pointer: Option<Init>,
        mechanism: &Mechanism,
        key: ObjectHandle,
        doing: &'static str,
    ) -> Result<(), Failure> {
        let init = entry(function, pointer)?;
        let mut raw = mechanism.as_raw();
        // SAFETY: the mechanism borrows `mechanism`, which outlives the call.
        check(function, unsafe { init(self.handle(), &mut raw, key.0) }, doing)
    }

    fn transform(
        &self,
        function: &'static str,
        pointer: Option<OneShot>,
        data: &[u8],
        out: &mut [u8],
        doing: &'static str,
    ) -> Result<usize, Failure> {
        let transform = entry(function, pointer)?;
        let (data, data_length) = input(data);
        let mut length = out.len() as CK_ULONG;
        // SAFETY: the data is readable and `out` writable for its length.
        let code = unsafe { transform(self.handle(), data, data_length, out.as_mut_ptr(), &mut length) };
        check(function, code, doing)?;
        Ok(length as usize)
    }

    fn transform_length(
        &self,
        function: &'static str,
        pointer: Option<OneShot>,
        data: &[u8],
        doing: &'static str,
    ) -> Result<usize, Failure> {
        let transform = entry(function, pointer)?;
        let (data, data_length) = input(data);
        let mut length = 0;
        // SAFETY: the data is readable; a NULL output asks for the length.
        let code = unsafe { transform(self.handle(), data, data_length, ptr::null_mut(), &mut length) };
        check(function, code, doing)?;
        Ok(length as usize)
    }

    fn update(
        &self,
        function: &'static str,
        pointer: Option<Update>,
        part: &[u8],
        doing: &'static str,
    ) -> Result<(), Failure> {
        let update = entry(function, pointer)?;
        let (part, length) = input(part);
        // SAFETY: the part is readable for its length.
        check(function, unsafe { update(self.handle(), part, length) }, doing)
    }

    fn finish(
        &self,
        function: &'static str,
        pointer: Option<Final>,
        out: &mut [u8],
        doing: &'static str,
    ) -> Result<usize, Failure> {
        let end = entry(function, pointer)?;
        let mut length = out.len() as CK_ULONG;
        // SAFETY: `out` is writable for its length.
        check(function, unsafe { end(self.handle(), out.as_mut_ptr(), &mut length) }, doing)?;
        Ok(length as usize)
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
