//! Objects of a session: create, find, read, change, destroy.

use std::ptr;

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_TRUE, CK_ULONG, CK_UNAVAILABLE_INFORMATION, CKR_ATTRIBUTE_SENSITIVE,
    CKR_ATTRIBUTE_TYPE_INVALID, CKR_BUFFER_TOO_SMALL,
};

use super::attribute::{Attribute, as_raw};
use super::failure::{Failure, call, check, entry};
use super::session::{ObjectHandle, Session};

/// The number of handles that one `C_FindObjects` asks for.
const FIND_BATCH: usize = 256;

impl Session {
    /// `C_CreateObject`.
    pub fn create_object(&self, template: &[Attribute]) -> Result<ObjectHandle, Failure> {
        let create = entry("C_CreateObject", self.module().functions().C_CreateObject)?;
        let mut raw = as_raw(template);
        let mut object = 0;
        // SAFETY: the template borrows `template`, which outlives the call; `object` is writable.
        let code = unsafe { create(self.handle(), raw.as_mut_ptr(), raw.len() as CK_ULONG, &mut object) };
        check("C_CreateObject", code, "creating an object")?;
        Ok(ObjectHandle(object))
    }

    /// `C_CopyObject`: a copy with `changes`.
    pub fn copy_object(&self, object: ObjectHandle, changes: &[Attribute]) -> Result<ObjectHandle, Failure> {
        let copy = entry("C_CopyObject", self.module().functions().C_CopyObject)?;
        let mut raw = as_raw(changes);
        let mut made = 0;
        // SAFETY: the template borrows `changes`, which outlives the call; `made` is writable.
        let code =
            unsafe { copy(self.handle(), object.0, raw.as_mut_ptr(), raw.len() as CK_ULONG, &mut made) };
        check("C_CopyObject", code, "copying an object")?;
        Ok(ObjectHandle(made))
    }

    /// `C_DestroyObject`.
    pub fn destroy_object(&self, object: ObjectHandle) -> Result<(), Failure> {
        // SAFETY: takes handles only.
        unsafe { call!(self.module(), C_DestroyObject(self.handle(), object.0), "destroying an object") }
    }

    /// `C_GetObjectSize`.
    pub fn object_size(&self, object: ObjectHandle) -> Result<CK_ULONG, Failure> {
        let get = entry("C_GetObjectSize", self.module().functions().C_GetObjectSize)?;
        let mut size = 0;
        // SAFETY: `size` is writable.
        let code = unsafe { get(self.handle(), object.0, &mut size) };
        check("C_GetObjectSize", code, "asking for an object's size")?;
        Ok(size)
    }

    /// Returns every object that matches `template`, by `C_FindObjectsInit`, `C_FindObjects` until
    /// the end, and `C_FindObjectsFinal`.
    pub fn find(&self, template: &[Attribute]) -> Result<Vec<ObjectHandle>, Failure> {
        self.find_init(template)?;
        let mut found = Vec::new();
        let result = loop {
            match self.find_next(FIND_BATCH) {
                Ok(batch) if batch.is_empty() => break Ok(found),
                Ok(batch) => found.extend(batch),
                Err(failure) => break Err(failure),
            }
        };
        self.find_final().and(result)
    }

    /// `C_FindObjectsInit`.
    pub fn find_init(&self, template: &[Attribute]) -> Result<(), Failure> {
        let mut raw = as_raw(template);
        let (raw, count) = (raw.as_mut_ptr(), raw.len() as CK_ULONG);
        // SAFETY: the template borrows `template`, which outlives the call.
        unsafe { call!(self.module(), C_FindObjectsInit(self.handle(), raw, count), "starting a search") }
    }

    /// `C_FindObjects`: returns at most `limit` more handles.
    pub fn find_next(&self, limit: usize) -> Result<Vec<ObjectHandle>, Failure> {
        let next = entry("C_FindObjects", self.module().functions().C_FindObjects)?;
        let mut handles = vec![0; limit];
        let mut count = 0;
        // SAFETY: `handles` has room for `limit` handles, `count` is writable.
        let code = unsafe { next(self.handle(), handles.as_mut_ptr(), limit as CK_ULONG, &mut count) };
        check("C_FindObjects", code, "searching objects")?;
        handles.truncate(count as usize);
        Ok(handles.into_iter().map(ObjectHandle).collect())
    }

    /// `C_FindObjectsFinal`.
    pub fn find_final(&self) -> Result<(), Failure> {
        // SAFETY: takes a session handle only.
        unsafe { call!(self.module(), C_FindObjectsFinal(self.handle()), "ending a search") }
    }

    /// Reads one attribute by the two-call convention. Fails if the object lacks the attribute, or
    /// if its value is sensitive.
    pub fn attribute(&self, object: ObjectHandle, kind: CK_ATTRIBUTE_TYPE) -> Result<Vec<u8>, Failure> {
        let mut length = CK_ATTRIBUTE { type_: kind, pValue: ptr::null_mut(), ulValueLen: 0 };
        self.attribute_value(object, std::slice::from_mut(&mut length))?;
        self.attribute_within(object, kind, length.ulValueLen as usize)
    }

    /// Reads one attribute of at most `capacity` bytes by one call.
    pub fn attribute_within(
        &self,
        object: ObjectHandle,
        kind: CK_ATTRIBUTE_TYPE,
        capacity: usize,
    ) -> Result<Vec<u8>, Failure> {
        let mut value = vec![0; capacity];
        let mut raw =
            CK_ATTRIBUTE { type_: kind, pValue: value.as_mut_ptr().cast(), ulValueLen: capacity as CK_ULONG };
        self.attribute_value(object, std::slice::from_mut(&mut raw))?;
        value.truncate(raw.ulValueLen as usize);
        Ok(value)
    }

    /// Reads several attributes. Returns `None` for an attribute that the object lacks, for a
    /// sensitive value, and for a value that became longer during the call.
    pub fn attributes(
        &self,
        object: ObjectHandle,
        kinds: &[CK_ATTRIBUTE_TYPE],
    ) -> Result<Vec<Option<Vec<u8>>>, Failure> {
        let mut raw: Vec<_> = kinds
            .iter()
            .map(|kind| CK_ATTRIBUTE { type_: *kind, pValue: ptr::null_mut(), ulValueLen: 0 })
            .collect();
        tolerant(self.attribute_value(object, &mut raw))?;
        let absent: Vec<bool> = raw.iter().map(|one| one.ulValueLen == CK_UNAVAILABLE_INFORMATION).collect();
        let mut values: Vec<Vec<u8>> = raw
            .iter()
            .zip(&absent)
            .map(|(one, absent)| vec![0; if *absent { 0 } else { one.ulValueLen as usize }])
            .collect();
        for ((one, value), absent) in raw.iter_mut().zip(&mut values).zip(&absent) {
            if !absent {
                one.pValue = value.as_mut_ptr().cast();
            }
        }
        tolerant(self.attribute_value(object, &mut raw))?;
        Ok(values.into_iter().zip(&raw).map(|(value, one)| written(value, one)).collect())
    }

    /// Reads an attribute as a number. Returns `None` if the module returns no number for it.
    pub fn number(&self, object: ObjectHandle, kind: CK_ATTRIBUTE_TYPE) -> Option<CK_ULONG> {
        let bytes = self.attribute_within(object, kind, size_of::<CK_ULONG>()).ok()?;
        Some(CK_ULONG::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Reads an attribute as bytes. Returns no bytes if the object lacks it, if it is sensitive, or
    /// if the call fails.
    pub fn bytes(&self, object: ObjectHandle, kind: CK_ATTRIBUTE_TYPE) -> Vec<u8> {
        let value = self.attributes(object, &[kind]).ok().and_then(|mut values| values.pop().flatten());
        value.unwrap_or_default()
    }

    /// Returns whether an attribute is `CK_TRUE`.
    pub fn flag(&self, object: ObjectHandle, kind: CK_ATTRIBUTE_TYPE) -> bool {
        self.bytes(object, kind) == [CK_TRUE]
    }

    /// `C_SetAttributeValue`.
    pub fn set_attributes(&self, object: ObjectHandle, changes: &[Attribute]) -> Result<(), Failure> {
        let set = entry("C_SetAttributeValue", self.module().functions().C_SetAttributeValue)?;
        let mut raw = as_raw(changes);
        // SAFETY: the template borrows `changes`, which outlives the call.
        let code = unsafe { set(self.handle(), object.0, raw.as_mut_ptr(), raw.len() as CK_ULONG) };
        check("C_SetAttributeValue", code, "changing an object's attributes")
    }

    /// `C_GetAttributeValue` on a raw template whose pointers are NULL or have room for their
    /// lengths.
    fn attribute_value(&self, object: ObjectHandle, raw: &mut [CK_ATTRIBUTE]) -> Result<(), Failure> {
        let get = entry("C_GetAttributeValue", self.module().functions().C_GetAttributeValue)?;
        // SAFETY: the callers in this file pass only such templates.
        let code = unsafe { get(self.handle(), object.0, raw.as_mut_ptr(), raw.len() as CK_ULONG) };
        check("C_GetAttributeValue", code, "reading an object's attributes")
    }
}

/// Returns the part of a buffer that the module wrote; `None` if it wrote no value. It may be
/// shorter than the buffer, because another program may change the object between the two calls.
fn written(mut buffer: Vec<u8>, raw: &CK_ATTRIBUTE) -> Option<Vec<u8>> {
    if raw.pValue.is_null() || raw.ulValueLen == CK_UNAVAILABLE_INFORMATION {
        return None;
    }
    buffer.truncate(raw.ulValueLen as usize);
    Some(buffer)
}

/// Accepts three return codes. PKCS#11 3.2, C_GetAttributeValue: a module that returns one of these
/// codes has nevertheless processed every attribute of the template.
fn tolerant(result: Result<(), Failure>) -> Result<(), Failure> {
    match result {
        Err(Failure {
            code: CKR_ATTRIBUTE_SENSITIVE | CKR_ATTRIBUTE_TYPE_INVALID | CKR_BUFFER_TOO_SMALL,
            ..
        }) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_length_of_the_second_call() {
        let value = |length| {
            let mut buffer = vec![7, 7, 0];
            let raw = CK_ATTRIBUTE { type_: 0, pValue: buffer.as_mut_ptr().cast(), ulValueLen: length };
            written(buffer, &raw)
        };
        assert_eq!((value(3), value(2)), (Some(vec![7, 7, 0]), Some(vec![7, 7])));
        assert_eq!((value(0), value(CK_UNAVAILABLE_INFORMATION)), (Some(vec![]), None));
        let absent = CK_ATTRIBUTE { type_: 0, pValue: ptr::null_mut(), ulValueLen: 0 };
        assert_eq!(written(vec![], &absent), None);
    }
}
