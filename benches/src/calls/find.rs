//! Searches: `C_FindObjectsInit`, all calls of `C_FindObjects`, `C_FindObjectsFinal`.

use super::*;

/// Handles per call. Real clients ask for one to several hundred.
const ROOM: usize = 256;

pub struct Search<'a> {
    session: &'a Session,
    init: Entry<CK_C_FindObjectsInit>,
    next: Entry<CK_C_FindObjects>,
    end: Entry<CK_C_FindObjectsFinal>,
    template: TemplateMemory,
    handles: Vec<CK_OBJECT_HANDLE>,
}

impl<'a> Search<'a> {
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

    /// Sets another value of the same length for the attribute at this index of the template.
    pub fn look_for(&mut self, at: usize, value: &[u8]) {
        self.template.overwrite(at, value);
    }

    /// Searches and returns the number of objects. The search ends when a call returns fewer
    /// handles than it was asked for.
    #[inline]
    pub fn call(&mut self) -> Answer<usize> {
        let session = self.session.handle();
        let (template, count) = self.template.parts();
        // SAFETY: the count is that of the template, and `self` owns its values.
        check("C_FindObjectsInit", unsafe { (self.init)(session, template, count) })?;
        let mut found = 0;
        loop {
            let mut given = 0;
            // SAFETY: `handles` has room for this number of handles; `given` is writable.
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
