//! Calls on objects (create, read, destroy) and on sessions (open, close).

use cryptoki_sys::{CK_ATTRIBUTE_TYPE, CK_OBJECT_HANDLE, CK_ULONG, CKF_RW_SESSION, CKF_SERIAL_SESSION};
use jeton_client::{Attribute, Module, ObjectHandle, Session, SlotId};

use super::{Answer, TemplateMemory, Value, check, entry};

/// Prepares `C_CreateObject`. The call takes other values of the same lengths, with their indexes
/// in the template.
pub fn create<'a>(
    session: &'a Session,
    template: &[Attribute],
) -> Answer<impl FnMut(&[Value<'_>]) -> Answer<ObjectHandle> + use<'a>> {
    let create = entry("C_CreateObject", session.module().functions().C_CreateObject)?;
    let mut template = TemplateMemory::new(template);
    Ok(move |values: &[Value<'_>]| {
        values.iter().for_each(|(at, value)| template.overwrite(*at, value));
        let (template, count) = template.parts();
        let mut object = 0;
        // SAFETY: the count is that of the template, and the closure owns its values; `object` is
        // writable.
        let code = unsafe { create(session.handle(), template, count, &mut object) };
        check("C_CreateObject", code)?;
        Ok(ObjectHandle(object))
    })
}

/// `C_DestroyObject`. Goes through the safe client, which adds nothing to it.
#[inline]
pub fn destroy(session: &Session, object: ObjectHandle) -> Answer {
    session.destroy_object(object)
}

/// Length of the buffer for each attribute.
const ROOM: usize = 512;

/// Prepares `C_GetAttributeValue` with buffers that are large enough.
pub fn read<'a>(
    session: &'a Session,
    object: CK_OBJECT_HANDLE,
    kinds: &[CK_ATTRIBUTE_TYPE],
) -> Answer<impl FnMut() -> Answer + use<'a>> {
    let get = entry("C_GetAttributeValue", session.module().functions().C_GetAttributeValue)?;
    let places: Vec<_> = kinds.iter().map(|kind| Attribute::bytes(*kind, [0; ROOM])).collect();
    let mut template = TemplateMemory::new(&places);
    Ok(move || {
        // The last call replaced the lengths of the buffers by those of the values.
        template.raw.iter_mut().for_each(|attribute| attribute.ulValueLen = ROOM as CK_ULONG);
        let (template, count) = template.parts();
        // SAFETY: the count is that of the template, and the closure owns buffers of the stated
        // lengths.
        let code = unsafe { get(session.handle(), object, template, count) };
        check("C_GetAttributeValue", code)
    })
}

/// Prepares `C_OpenSession` and `C_CloseSession`.
pub fn open_and_close(module: &Module, slot: SlotId) -> Answer<impl FnMut() -> Answer + use<>> {
    let functions = module.functions();
    let open = entry("C_OpenSession", functions.C_OpenSession)?;
    let close = entry("C_CloseSession", functions.C_CloseSession)?;
    Ok(move || {
        let mut session = 0;
        let flags = CKF_SERIAL_SESSION | CKF_RW_SESSION;
        // SAFETY: the notification callback is null; `session` is writable.
        let code = unsafe { open(slot.0, flags, std::ptr::null_mut(), None, &mut session) };
        check("C_OpenSession", code)?;
        // SAFETY: takes a session handle only.
        check("C_CloseSession", unsafe { close(session) })
    })
}
