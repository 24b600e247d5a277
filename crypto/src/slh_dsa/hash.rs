//! The hash functions of a parameter set (FIPS 205, 4.1 and 11), as a trait. Most hashes of a
//! signature do not depend on each other, so the functions that the trees and chains call take
//! many inputs. An implementation computes as many at once as the processor can.

use super::address::Address;

/// The inputs of one hash: its address, and `W` nodes of `N` bytes.
#[derive(Clone, Copy)]
pub(super) struct Input<const N: usize, const W: usize> {
    pub(super) address: Address,
    pub(super) nodes: [[u8; N]; W],
}

impl<const N: usize, const W: usize> Input<N, W> {
    pub(super) const EMPTY: Self = Self { address: Address::zero(), nodes: [[0; N]; W] };
}

/// The hash functions under one PK.seed. `N` is the security parameter n.
pub(super) trait HashFunctions<const N: usize> {
    fn new(pk_seed: &[u8; N]) -> Self;

    /// Hashes each input, and replaces its first node by the result. With one node this is F or
    /// PRF, and with two nodes H.
    fn hash<const W: usize>(&self, inputs: &mut [Input<N, W>]);

    /// T: hashes a list of nodes.
    fn hash_list(&self, address: &Address, nodes: &[[u8; N]]) -> [u8; N];

    fn prf_msg(sk_prf: &[u8; N], randomness: &[u8; N], message: &[&[u8]]) -> [u8; N];

    /// H_msg of a message in parts. `public` is PK.seed || PK.root. `out` has the m bytes of the
    /// parameter set.
    fn h_msg(r: &[u8; N], public: &[u8], message: &[&[u8]], out: &mut [u8]);
}
