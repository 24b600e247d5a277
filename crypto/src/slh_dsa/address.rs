//! Addresses (FIPS 205, 4.2 and 4.3). An address says where in the structure of a key a hash
//! value is. It is public.

/// ADRS: the layer, the tree (12 bytes), the type, and three words that depend on the type. All
/// numbers are big-endian.
#[derive(Clone, Copy)]
pub(super) struct Address([u8; 32]);

/// The types of addresses, with the numbers of FIPS 205, table 1.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum AddressType {
    WotsHash = 0,
    WotsPk = 1,
    Tree = 2,
    ForsTree = 3,
    ForsRoots = 4,
    WotsPrf = 5,
    ForsPrf = 6,
}

impl Address {
    pub(super) const fn zero() -> Self {
        Self([0; 32])
    }

    /// Returns the address of a tree of the hypertree. The number of a tree has at most 64 bits in
    /// all parameter sets.
    pub(super) fn tree(layer: u32, tree: u64) -> Self {
        let mut address = Self::zero();
        address.0[..4].copy_from_slice(&layer.to_be_bytes());
        address.0[8..16].copy_from_slice(&tree.to_be_bytes());
        address
    }

    /// Returns the address with this type and key pair. The words behind them are zero.
    pub(super) fn typed(&self, kind: AddressType, key_pair: u32) -> Self {
        let mut address = *self;
        address.0[16..].fill(0);
        address.0[19] = kind as u8;
        address.0[20..24].copy_from_slice(&key_pair.to_be_bytes());
        address
    }

    /// Sets the second word: the chain of a WOTS+ address, or the height of a tree address.
    pub(super) fn set_chain_or_height(&mut self, number: u32) {
        self.0[24..28].copy_from_slice(&number.to_be_bytes());
    }

    /// Sets the third word: the step in a WOTS+ chain, or the index of a tree address.
    pub(super) fn set_step_or_index(&mut self, number: u32) {
        self.0[28..].copy_from_slice(&number.to_be_bytes());
    }

    /// The form for SHAKE.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The form for SHA-2 (FIPS 205, 11.2).
    pub(super) fn compressed(&self) -> [u8; 22] {
        let mut short = [0; 22];
        short[0] = self.0[3];
        short[1..9].copy_from_slice(&self.0[8..16]);
        short[9..].copy_from_slice(&self.0[19..]);
        short
    }
}
