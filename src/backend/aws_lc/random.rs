//! Random bytes from AWS-LC's generator, which reseeds itself after a `fork`.

use super::ffi;
use crate::backend::Random;
use crate::error::Result;

pub(super) struct System;

impl Random for System {
    fn fill(&self, out: &mut [u8]) -> Result<()> {
        ffi::random(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_outputs_differ_and_an_empty_one_succeeds() {
        let (mut one, mut two) = ([0; 32], [0; 32]);
        System.fill(&mut one).unwrap();
        System.fill(&mut two).unwrap();
        assert_ne!(one, two);
        assert_ne!(one, [0; 32]);
        System.fill(&mut []).unwrap();
    }
}
