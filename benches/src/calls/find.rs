//! `C_FindObjectsInit`, `C_FindObjects` to the end, `C_FindObjectsFinal`.

use cryptoki_sys::{CK_ATTRIBUTE, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_driver::client::{Attribute, Session};

use super::{Answer, TemplateMemory, check, entry};

type Init = unsafe extern "C" fn(CK_SESSION_HANDLE, *mut CK_ATTRIBUTE, CK_ULONG) -> CK_RV;
type Next = unsafe extern "C" fn(CK_SESSION_HANDLE, *mut CK_OBJECT_HANDLE, CK_ULONG, *mut CK_ULONG) -> CK_RV;
type End = unsafe extern "C" fn(CK_SESSION_HANDLE) -> CK_RV;

/// How many handles a call asks for: clients in the wild ask for 1 to some hundreds.
const ROOM: usize = 256;

/// A search from beginning to end.
pub struct Search<'a> {
    session: &'a Session,
    init: Init,
    next: Next,
    end: End,
    template: TemplateMemory,
    handles: Vec<CK_OBJECT_HANDLE>,
}

impl<'a> Search<'a> {
    /// For what has these attributes.
    pub fn new(session: &'a Session, template: &[Attribute]) -> Answer<Self> {
        let functions = session.module().functions();
        Ok(Self {
            session,
            init: entry("C_FindObjectsInit", functions.C_FindObjectsInit)?,
            next: entry("C_FindObjects", functions.C_FindObjects)?,
            end: entry("C_FindObjectsFinal", functions.C_FindObjectsFinal)?,
            template: TemplateMemory::new(template),
            handles: vec![0; ROOM],
        })
    }

    /// Searches for another value of the attribute at that place of the template.
    pub fn look_for(&mut self, at: usize, value: &[u8]) {
        self.template.overwrite(at, value);
    }

    /// How many objects there are. The search is over where a call gives fewer handles than it could.
    #[inline]
    pub fn call(&mut self) -> Answer<usize> {
        let session = self.session.handle();
        let (template, count) = self.template.parts();
        // SAFETY: the template goes with its count, and its values live in `self`.
        check("C_FindObjectsInit", unsafe { (self.init)(session, template, count) })?;
        let mut found = 0;
        loop {
            let mut given = 0;
            // SAFETY: `handles` has room for as many as are asked for, `given` is writable.
            let code = unsafe {
                (self.next)(session, self.handles.as_mut_ptr(), self.handles.len() as CK_ULONG, &mut given)
            };
            check("C_FindObjects", code)?;
            found += given as usize;
            if (given as usize) < self.handles.len() {
                break;
            }
        }
        // SAFETY: takes a session handle only.
        check("C_FindObjectsFinal", unsafe { (self.end)(session) })?;
        Ok(found)
    }
}
