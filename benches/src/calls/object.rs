//! Calls on objects (create, read, destroy) and on sessions (open, close).

use jeton_client::{Module, SlotId};

use super::*;

pub struct Creation<'a> {
    session: &'a Session,
    create: Entry<CK_C_CreateObject>,
    template: TemplateMemory,
}

impl<'a> Creation<'a> {
    pub fn new(session: &'a Session, template: &[Attribute]) -> Answer<Self> {
        let create = entry("C_CreateObject", session.module().functions().C_CreateObject)?;
        Ok(Self { session, create, template: TemplateMemory::new(template) })
    }

    /// Sets another value of the same length for the attribute at this index of the template.
    pub fn set(&mut self, at: usize, value: &[u8]) {
        self.template.overwrite(at, value);
    }

    #[inline]
    pub fn call(&mut self) -> Answer<ObjectHandle> {
        let (template, count) = self.template.parts();
        let mut object = 0;
        // SAFETY: the count is that of the template, and `self` owns its values; `object` is
        // writable.
        let code = unsafe { (self.create)(self.session.handle(), template, count, &mut object) };
        check("C_CreateObject", code)?;
        Ok(ObjectHandle(object))
    }
}

/// `C_DestroyObject`. Goes through the safe client, which adds nothing to it.
#[inline]
pub fn destroy(session: &Session, object: ObjectHandle) -> Answer {
    session.destroy_object(object)
}

/// `C_GetAttributeValue` with buffers that are large enough.
pub struct Reading<'a> {
    session: &'a Session,
    get: Entry<CK_C_GetAttributeValue>,
    object: CK_OBJECT_HANDLE,
    template: TemplateMemory,
}

/// Length of the buffer for each attribute.
const ROOM: usize = 512;

impl<'a> Reading<'a> {
    pub fn new(session: &'a Session, object: ObjectHandle, kinds: &[CK_ATTRIBUTE_TYPE]) -> Answer<Self> {
        let get = entry("C_GetAttributeValue", session.module().functions().C_GetAttributeValue)?;
        let places: Vec<_> = kinds.iter().map(|kind| Attribute::bytes(*kind, [0; ROOM])).collect();
        Ok(Self { session, get, object: object.0, template: TemplateMemory::new(&places) })
    }

    #[inline]
    pub fn call(&mut self) -> Answer {
        // The last call replaced the lengths of the buffers by those of the values.
        self.template.raw.iter_mut().for_each(|attribute| attribute.ulValueLen = ROOM as CK_ULONG);
        let (template, count) = self.template.parts();
        // SAFETY: the count is that of the template, and `self` owns buffers of the stated lengths.
        let code = unsafe { (self.get)(self.session.handle(), self.object, template, count) };
        check("C_GetAttributeValue", code)
    }
}

pub struct Sessions {
    slot: CK_SLOT_ID,
    open: Entry<CK_C_OpenSession>,
    close: Entry<CK_C_CloseSession>,
}

impl Sessions {
    pub fn new(module: &Module, slot: SlotId) -> Answer<Self> {
        let functions = module.functions();
        Ok(Self {
            slot: slot.0,
            open: entry("C_OpenSession", functions.C_OpenSession)?,
            close: entry("C_CloseSession", functions.C_CloseSession)?,
        })
    }

    #[inline]
    pub fn call(&self) -> Answer {
        let mut session = 0;
        let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
        // SAFETY: the notification callback is null; `session` is writable.
        let code = unsafe { (self.open)(self.slot, flags, std::ptr::null_mut(), None, &mut session) };
        check("C_OpenSession", code)?;
        // SAFETY: takes a session handle only.
        check("C_CloseSession", unsafe { (self.close)(session) })
    }
}
