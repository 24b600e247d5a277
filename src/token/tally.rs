//! What a process counts of the wrong PINs, besides the store.

/// The failures of a PIN that the store does not count correctly.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    /// The number of consecutive wrong PINs that could not be counted on disk.
    pub(super) uncounted: u32,
    /// The number of failures on disk that were not wrong PINs and could not be subtracted yet.
    pub(super) owed: u32,
}
