//! The search of a session (PKCS#11 3.2, `C_FindObjectsInit` to `C_FindObjectsFinal`).

use crate::id::ObjectHandle;

/// The results of a search that the caller has not received yet. They are the objects that matched
/// when the search began.
pub(crate) struct Find {
    found: std::vec::IntoIter<ObjectHandle>,
}

impl Find {
    /// Returns a search with these results, in this order.
    pub(crate) fn new(found: Vec<ObjectHandle>) -> Self {
        Self { found: found.into_iter() }
    }

    /// Moves the next results into `out`. Returns their number.
    pub(crate) fn next(&mut self, out: &mut [ObjectHandle]) -> usize {
        let mut given = 0;
        for (place, handle) in out.iter_mut().zip(&mut self.found) {
            *place = handle;
            given += 1;
        }
        given
    }
}
