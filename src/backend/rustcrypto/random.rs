//! Random bytes from the operating system. Threads and `fork` need no special handling, because the
//! token keeps no generator state.

use super::failed;
use crate::backend::api::Random;
use crate::error::{Error, Result};

pub(super) struct System;

impl Random for System {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        fill(out)
    }
}

pub(super) fn fill(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(unavailable)
}

/// Logs that the operating system returned no random bytes.
pub(super) fn unavailable(error: getrandom::Error) -> Error {
    failed("the system's random generator")(&error)
}
