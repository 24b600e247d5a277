//! A mechanism as a caller gives it.

use super::{MechanismRow, Params};

/// A mechanism and its parameter: a parsed `CK_MECHANISM`.
#[derive(Clone)]
pub struct Mechanism {
    /// The row of the mechanism table.
    pub info: &'static MechanismRow,
    /// The parameter.
    pub params: Params,
}

impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.info, other.info) && self.params == other.params
    }
}
