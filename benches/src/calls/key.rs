//! Calls that make keys: generation, encapsulation and decapsulation.

use super::*;

pub struct KeyGeneration<'a> {
    session: &'a Session,
    generate: Entry<CK_C_GenerateKey>,
    mechanism: MechanismMemory,
    template: TemplateMemory,
}

impl<'a> KeyGeneration<'a> {
    pub fn new(session: &'a Session, mechanism: &Mechanism, template: &[Attribute]) -> Answer<Self> {
        let generate = entry("C_GenerateKey", session.module().functions().C_GenerateKey)?;
        let (mechanism, template) = (MechanismMemory::new(mechanism), TemplateMemory::new(template));
        Ok(Self { session, generate, mechanism, template })
    }

    #[inline]
    pub fn call(&mut self) -> Answer<ObjectHandle> {
        let (template, count) = self.template.parts();
        let mut key = 0;
        // SAFETY: `self` owns mechanism, template and the memory they point to; `key` is writable.
        let code = unsafe {
            (self.generate)(self.session.handle(), &mut self.mechanism.raw, template, count, &mut key)
        };
        check("C_GenerateKey", code)?;
        Ok(ObjectHandle(key))
    }
}

pub struct PairGeneration<'a> {
    session: &'a Session,
    generate: Entry<CK_C_GenerateKeyPair>,
    mechanism: MechanismMemory,
    public: TemplateMemory,
    private: TemplateMemory,
}

impl<'a> PairGeneration<'a> {
    pub fn new(
        session: &'a Session,
        mechanism: &Mechanism,
        public: &[Attribute],
        private: &[Attribute],
    ) -> Answer<Self> {
        let generate = entry("C_GenerateKeyPair", session.module().functions().C_GenerateKeyPair)?;
        let (public, private) = (TemplateMemory::new(public), TemplateMemory::new(private));
        Ok(Self { session, generate, mechanism: MechanismMemory::new(mechanism), public, private })
    }

    #[inline]
    pub fn call(&mut self) -> Answer<(ObjectHandle, ObjectHandle)> {
        let (public, public_count) = self.public.parts();
        let (private, private_count) = self.private.parts();
        let (mut public_key, mut private_key) = (0, 0);
        // SAFETY: `self` owns mechanism, templates and the memory they point to; the handles are
        // writable.
        let code = unsafe {
            (self.generate)(
                self.session.handle(),
                &mut self.mechanism.raw,
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
    }
}

/// `C_EncapsulateKey`, whose shared secret is a new key.
pub struct Encapsulation<'a> {
    session: &'a Session,
    encapsulate: Entry<CK_C_EncapsulateKey>,
    mechanism: MechanismMemory,
    key: CK_OBJECT_HANDLE,
    template: TemplateMemory,
    out: Vec<u8>,
}

impl<'a> Encapsulation<'a> {
    /// Prepares the call with a public key, a buffer of `room` bytes and a template for the new
    /// key.
    pub fn new(
        session: &'a Session,
        mechanism: &Mechanism,
        key: ObjectHandle,
        template: &[Attribute],
        room: usize,
    ) -> Answer<Self> {
        let functions = session.module().functions_3_2();
        let encapsulate = functions.and_then(|functions| functions.C_EncapsulateKey);
        Ok(Self {
            session,
            encapsulate: entry("C_EncapsulateKey", encapsulate)?,
            mechanism: MechanismMemory::new(mechanism),
            key: key.0,
            template: TemplateMemory::new(template),
            out: vec![0; room],
        })
    }

    #[inline]
    pub fn call(&mut self) -> Answer<ObjectHandle> {
        let (template, count) = self.template.parts();
        let (mut len, mut key) = (self.out.len() as CK_ULONG, 0);
        // SAFETY: `self` owns mechanism, template and the memory they point to; the length is that
        // of `out`; `key` is writable.
        let code = unsafe {
            (self.encapsulate)(
                self.session.handle(),
                &mut self.mechanism.raw,
                self.key,
                template,
                count,
                self.out.as_mut_ptr(),
                &mut len,
                &mut key,
            )
        };
        check("C_EncapsulateKey", code)?;
        Ok(ObjectHandle(key))
    }

    pub fn ciphertext(&self) -> &[u8] {
        &self.out
    }
}

/// `C_DecapsulateKey`, whose shared secret is a new key.
pub struct Decapsulation<'a> {
    session: &'a Session,
    decapsulate: Entry<CK_C_DecapsulateKey>,
    mechanism: MechanismMemory,
    key: CK_OBJECT_HANDLE,
    template: TemplateMemory,
    ciphertext: Vec<u8>,
}

impl<'a> Decapsulation<'a> {
    pub fn new(
        session: &'a Session,
        mechanism: &Mechanism,
        key: ObjectHandle,
        template: &[Attribute],
        ciphertext: Vec<u8>,
    ) -> Answer<Self> {
        let functions = session.module().functions_3_2();
        let decapsulate = functions.and_then(|functions| functions.C_DecapsulateKey);
        Ok(Self {
            session,
            decapsulate: entry("C_DecapsulateKey", decapsulate)?,
            mechanism: MechanismMemory::new(mechanism),
            key: key.0,
            template: TemplateMemory::new(template),
            ciphertext,
        })
    }

    #[inline]
    pub fn call(&mut self) -> Answer<ObjectHandle> {
        let (template, count) = self.template.parts();
        let mut key = 0;
        // SAFETY: `self` owns mechanism, template and the memory they point to; the length is that
        // of the ciphertext, which is only read; `key` is writable.
        let code = unsafe {
            (self.decapsulate)(
                self.session.handle(),
                &mut self.mechanism.raw,
                self.key,
                template,
                count,
                self.ciphertext.as_ptr().cast_mut(),
                self.ciphertext.len() as CK_ULONG,
                &mut key,
            )
        };
        check("C_DecapsulateKey", code)?;
        Ok(ObjectHandle(key))
    }
}
