//! Searches: `C_FindObjectsInit`, all calls of `C_FindObjects`, `C_FindObjectsFinal`.

use cryptoki_sys::CK_ULONG;
use jeton_client::{Attribute, Session};

use super::{Answer, TemplateMemory, Value, check, entry};

/// Handles per call. Real clients ask for one to several hundred.
const ROOM: usize = 256;

/// Prepares a search, which returns the number of objects. It ends when a call returns fewer
/// handles than it was asked for. The search takes another value of the same length, with its index
/// in the template.
pub fn search<'a>(
    session: &'a Session,
    template: &[Attribute],
) -> Answer<impl FnMut(Option<Value<'_>>) -> Answer<usize> + use<'a>> {
    let functions = session.module().functions();
    let init = entry("C_FindObjectsInit", functions.C_FindObjectsInit)?;
    let next = entry("C_FindObjects", functions.C_FindObjects)?;
    let end = entry("C_FindObjectsFinal", functions.C_FindObjectsFinal)?;
    let (mut template, mut handles) = (TemplateMemory::new(template), vec![0; ROOM]);
    Ok(move |value: Option<Value<'_>>| {
        if let Some((at, value)) = value {
            template.overwrite(at, value);
        }
        let session = session.handle();
        let (template, count) = template.parts();
        // SAFETY: the count is that of the template, and the closure owns its values.
        check("C_FindObjectsInit", unsafe { init(session, template, count) })?;
        let mut found = 0;
        loop {
            let mut given = 0;
            // SAFETY: `handles` has room for this number of handles; `given` is writable.
            let code = unsafe { next(session, handles.as_mut_ptr(), handles.len() as CK_ULONG, &mut given) };
            check("C_FindObjects", code)?;
            found += given as usize;
            if (given as usize) < handles.len() {
                break;
            }
        }
        // SAFETY: takes a session handle only.
        check("C_FindObjectsFinal", unsafe { end(session) })?;
        Ok(found)
    })
}
