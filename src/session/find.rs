//! A search in a session (PKCS#11 3.2, `C_FindObjectsInit` to `C_FindObjectsFinal`).

use crate::id::ObjectHandle;

/// What a search found and has not given out yet. It is what was there when the search began.
pub struct Find {
    found: std::vec::IntoIter<ObjectHandle>,
}

impl Find {
    /// Gives these out, in order.
    pub fn new(found: Vec<ObjectHandle>) -> Self {
        Self { found: found.into_iter() }
    }

    /// Fills `out` from the front; how many were left to give.
    pub fn next(&mut self, out: &mut [ObjectHandle]) -> usize {
        let mut given = 0;
        for (place, handle) in out.iter_mut().zip(&mut self.found) {
            *place = handle;
            given += 1;
        }
        given
    }
}
