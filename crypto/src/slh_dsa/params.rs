//! The parameters of a set (FIPS 205, table 2). n is a generic constant of the functions.

/// The numbers of a parameter set, with their names in FIPS 205.
pub(super) struct Params {
    /// The number of layers of the hypertree.
    pub(super) d: u32,
    /// The height of each of its trees (h').
    pub(super) height: usize,
    /// The height of a FORS tree.
    pub(super) a: usize,
    /// The number of FORS trees.
    pub(super) k: usize,
}

impl Params {
    /// The bits of the number of a tree in the lowest layer.
    pub(super) const fn tree_bits(&self) -> usize {
        (self.d as usize - 1) * self.height
    }
    /// The length of the message digest in bytes (m).
    pub(super) const fn m(&self) -> usize {
        (self.k * self.a).div_ceil(8) + self.tree_bits().div_ceil(8) + self.height.div_ceil(8)
    }
}
