//! Keys of a session: generate, derive, wrap, unwrap.

use cryptoki_sys::CK_ULONG;

use super::attribute::{Attribute, Mechanism, as_raw};
use super::failure::{Failure, check, entry};
use super::session::{ObjectHandle, Session};

impl Session {
    /// `C_GenerateKey`.
    pub fn generate_key(
        &self,
        mechanism: &Mechanism,
        template: &[Attribute],
    ) -> Result<ObjectHandle, Failure> {
        let generate = entry("C_GenerateKey", self.module().functions().C_GenerateKey)?;
        let (mut raw_mechanism, mut raw) = (mechanism.as_raw(), as_raw(template));
        let (pointer, count) = (raw.as_mut_ptr(), raw.len() as CK_ULONG);
        let mut key = 0;
        // SAFETY: mechanism and template borrow the arguments, which outlive the call; `key` is
        // writable.
        let code = unsafe { generate(self.handle(), &mut raw_mechanism, pointer, count, &mut key) };
        check("C_GenerateKey", code, "generating a key")?;
        Ok(ObjectHandle(key))
    }

    /// `C_GenerateKeyPair`: the public key and the private key.
    pub fn generate_key_pair(
        &self,
        mechanism: &Mechanism,
        public: &[Attribute],
        private: &[Attribute],
    ) -> Result<(ObjectHandle, ObjectHandle), Failure> {
        let generate = entry("C_GenerateKeyPair", self.module().functions().C_GenerateKeyPair)?;
        let (mut with, mut public, mut private) = (mechanism.as_raw(), as_raw(public), as_raw(private));
        let (public, publics) = (public.as_mut_ptr(), public.len() as CK_ULONG);
        let (private, privates) = (private.as_mut_ptr(), private.len() as CK_ULONG);
        let (session, mut one, mut two) = (self.handle(), 0, 0);
        // SAFETY: mechanism and templates borrow the arguments, which outlive the call; the handles
        // are writable.
        let code =
            unsafe { generate(session, &mut with, public, publics, private, privates, &mut one, &mut two) };
        check("C_GenerateKeyPair", code, "generating a key pair")?;
        Ok((ObjectHandle(one), ObjectHandle(two)))
    }

    /// `C_DeriveKey`.
    pub fn derive_key(
        &self,
        mechanism: &Mechanism,
        base: ObjectHandle,
        template: &[Attribute],
    ) -> Result<ObjectHandle, Failure> {
        let derive = entry("C_DeriveKey", self.module().functions().C_DeriveKey)?;
        let (mut raw_mechanism, mut raw) = (mechanism.as_raw(), as_raw(template));
        let (pointer, count) = (raw.as_mut_ptr(), raw.len() as CK_ULONG);
        let mut key = 0;
        // SAFETY: mechanism and template borrow the arguments, which outlive the call; `key` is
        // writable.
        let code = unsafe { derive(self.handle(), &mut raw_mechanism, base.0, pointer, count, &mut key) };
        check("C_DeriveKey", code, "deriving a key")?;
        Ok(ObjectHandle(key))
    }

    /// `C_WrapKey` into `out`. Returns the number of bytes written.
    pub fn wrap_key(
        &self,
        mechanism: &Mechanism,
        wrapping: ObjectHandle,
        key: ObjectHandle,
        out: &mut [u8],
    ) -> Result<usize, Failure> {
        let wrap = entry("C_WrapKey", self.module().functions().C_WrapKey)?;
        let mut raw = mechanism.as_raw();
        let mut length = out.len() as CK_ULONG;
        // SAFETY: the mechanism borrows its argument, which outlives the call; `out` is writable
        // for `length`.
        let code = unsafe { wrap(self.handle(), &mut raw, wrapping.0, key.0, out.as_mut_ptr(), &mut length) };
        check("C_WrapKey", code, "wrapping a key")?;
        Ok(length as usize)
    }

    /// `C_UnwrapKey`.
    pub fn unwrap_key(
        &self,
        mechanism: &Mechanism,
        unwrapping: ObjectHandle,
        wrapped: &[u8],
        template: &[Attribute],
    ) -> Result<ObjectHandle, Failure> {
        let unwrap = entry("C_UnwrapKey", self.module().functions().C_UnwrapKey)?;
        let (mut with, mut raw) = (mechanism.as_raw(), as_raw(template));
        let (wrapped, length) = (wrapped.as_ptr().cast_mut(), wrapped.len() as CK_ULONG);
        let (raw, count) = (raw.as_mut_ptr(), raw.len() as CK_ULONG);
        let (session, by, mut key) = (self.handle(), unwrapping.0, 0);
        // SAFETY: mechanism, template and `wrapped` borrow the arguments, which outlive the call;
        // modules read them and do not write to them; `key` is writable.
        let code = unsafe { unwrap(session, &mut with, by, wrapped, length, raw, count, &mut key) };
        check("C_UnwrapKey", code, "unwrapping a key")?;
        Ok(ObjectHandle(key))
    }
}
