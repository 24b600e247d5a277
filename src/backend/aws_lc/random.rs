//! Random bytes from AWS-LC's generator, which reseeds itself after a `fork`.

use super::ffi;
use crate::backend::api::Random;
use crate::error::Result;

pub(super) struct System;

impl Random for System {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        ffi::random(out)
    }
}
