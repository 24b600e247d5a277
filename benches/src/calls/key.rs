//! Calls that make keys: generation, encapsulation and decapsulation.

use cryptoki_sys::{CK_OBJECT_HANDLE, CK_ULONG};
use jeton_client::{Attribute, Mechanism, ObjectHandle, Session};

use super::{Answer, MechanismMemory, TemplateMemory, check, entry};

/// Prepares `C_GenerateKey`.
pub fn generate_key<'a>(
    session: &'a Session,
    mechanism: &Mechanism,
    template: &[Attribute],
) -> Answer<impl FnMut() -> Answer<ObjectHandle> + use<'a>> {
    let generate = entry("C_GenerateKey", session.module().functions().C_GenerateKey)?;
    let (mut mechanism, mut template) = (MechanismMemory::new(mechanism), TemplateMemory::new(template));
    Ok(move || {
        let (template, count) = template.parts();
        let mut key = 0;
        // SAFETY: the closure owns mechanism, template and the memory they point to; `key` is
        // writable.
        let code = unsafe { generate(session.handle(), &mut mechanism.raw, template, count, &mut key) };
        check("C_GenerateKey", code)?;
        Ok(ObjectHandle(key))
    })
}

/// Prepares `C_GenerateKeyPair`, which returns the public and the private key.
pub fn generate_pair<'a>(
    session: &'a Session,
    mechanism: &Mechanism,
    public: &[Attribute],
    private: &[Attribute],
) -> Answer<impl FnMut() -> Answer<(ObjectHandle, ObjectHandle)> + use<'a>> {
    let generate = entry("C_GenerateKeyPair", session.module().functions().C_GenerateKeyPair)?;
    let (mut public, mut private) = (TemplateMemory::new(public), TemplateMemory::new(private));
    let mut mechanism = MechanismMemory::new(mechanism);
    Ok(move || {
        let (public, public_count) = public.parts();
        let (private, private_count) = private.parts();
        let (mut public_key, mut private_key) = (0, 0);
        // SAFETY: the closure owns mechanism, templates and the memory they point to; the handles
        // are writable.
        let code = unsafe {
            generate(
                session.handle(),
                &mut mechanism.raw,
                public,
                public_count,
                private,
                private_count,
                &mut public_key,
                &mut private_key,
            )
        };
        check("C_GenerateKeyPair", code)?;
        Ok((ObjectHandle(public_key), ObjectHandle(private_key)))
    })
}

/// Prepares `C_EncapsulateKey` with a public key and a template for the shared secret. The call
/// takes a buffer for the ciphertext.
pub fn encapsulate<'a>(
    session: &'a Session,
    mechanism: &Mechanism,
    public: CK_OBJECT_HANDLE,
    template: &[Attribute],
) -> Answer<impl FnMut(&mut [u8]) -> Answer<ObjectHandle> + use<'a>> {
    let functions = session.module().functions_3_2();
    let encapsulate = entry("C_EncapsulateKey", functions.and_then(|functions| functions.C_EncapsulateKey))?;
    let (mut mechanism, mut template) = (MechanismMemory::new(mechanism), TemplateMemory::new(template));
    Ok(move |out: &mut [u8]| {
        let (template, count) = template.parts();
        let (mut len, mut key) = (out.len() as CK_ULONG, 0);
        let (handle, mechanism) = (session.handle(), &mut mechanism.raw);
        // SAFETY: the closure owns mechanism, template and the memory they point to; the length is
        // that of `out`; `key` is writable.
        let code = unsafe {
            encapsulate(handle, mechanism, public, template, count, out.as_mut_ptr(), &mut len, &mut key)
        };
        check("C_EncapsulateKey", code)?;
        Ok(ObjectHandle(key))
    })
}

/// Prepares `C_DecapsulateKey` with a private key and a template for the shared secret.
pub fn decapsulate<'a>(
    session: &'a Session,
    mechanism: &Mechanism,
    private: CK_OBJECT_HANDLE,
    template: &[Attribute],
    ciphertext: Vec<u8>,
) -> Answer<impl FnMut() -> Answer<ObjectHandle> + use<'a>> {
    let functions = session.module().functions_3_2();
    let decapsulate = entry("C_DecapsulateKey", functions.and_then(|functions| functions.C_DecapsulateKey))?;
    let (mut mechanism, mut template) = (MechanismMemory::new(mechanism), TemplateMemory::new(template));
    Ok(move || {
        let (template, count) = template.parts();
        let (handle, mechanism) = (session.handle(), &mut mechanism.raw);
        let (input, len) = (ciphertext.as_ptr().cast_mut(), ciphertext.len() as CK_ULONG);
        let mut key = 0;
        // SAFETY: the closure owns mechanism, template and the memory they point to; the length is
        // that of the ciphertext, which is only read; `key` is writable.
        let code = unsafe { decapsulate(handle, mechanism, private, template, count, input, len, &mut key) };
        check("C_DecapsulateKey", code)?;
        Ok(ObjectHandle(key))
    })
}
