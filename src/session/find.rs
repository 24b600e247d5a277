//! The search of a session (PKCS#11 3.2, `C_FindObjectsInit` to `C_FindObjectsFinal`).

use crate::error::Result;
use crate::id::ObjectHandle;
use crate::quota::Permit;
use crate::token::ClientToken;

/// The results of a search that the caller has not received yet. They are the objects that matched
/// when the search began.
pub(crate) struct Find {
    found: std::vec::IntoIter<ObjectHandle>,
    /// The memory of the results, in the quota of the application.
    memory: Option<Permit>,
}

impl Find {
    /// Returns a search of an application with these results, in this order. Fails with
    /// `DeviceMemory` if the quota of the application has no memory for them.
    pub(crate) fn new(token: &ClientToken, found: Vec<ObjectHandle>) -> Result<Self> {
        let memory = token.hold(found.capacity() * size_of::<ObjectHandle>())?;
        Ok(Self { found: found.into_iter(), memory })
    }

    /// Moves the next results into `out`. Returns their number. After the last one, the search has
    /// no memory.
    pub(crate) fn next(&mut self, out: &mut [ObjectHandle]) -> usize {
        let mut given = 0;
        for (place, handle) in out.iter_mut().zip(&mut self.found) {
            *place = handle;
            given += 1;
        }
        if self.found.len() == 0 {
            (self.found, self.memory) = Default::default();
        }
        given
    }
}
