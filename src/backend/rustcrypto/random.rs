//! Random bytes of the operating system, which need no state of ours across threads and `fork`.

use super::failed;
use crate::backend::Random;
use crate::error::{Error, Result};

pub(super) struct System;

impl Random for System {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        fill(out)
    }
}

/// Fills `out`.
pub(super) fn fill(out: &mut [u8]) -> Result<()> {
    getrandom::fill(out).map_err(unavailable)
}

/// The operating system gave no random bytes.
pub(super) fn unavailable(error: getrandom::Error) -> Error {
    failed("the system's random generator")(&error)
}
