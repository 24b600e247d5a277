//! The hypertree (FIPS 205, 6 and 7): d layers of XMSS trees. Each tree signs the root of a tree
//! below it, and the lowest layer signs the FORS keys.

use super::address::{Address, AddressType};
use super::hash::HashFunctions;
use super::merkle::{self, Climber};
use super::params::Params;
use super::wots::{self, Digits, Signing};

/// A leaf of the lowest layer: its tree, and its index there.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub(super) tree: u64,
    pub(super) index: u32,
}

impl Leaf {
    /// The leaf that signs the root of this leaf's tree.
    fn parent(self, params: &Params) -> Self {
        let mask = (1 << params.height) - 1;
        Self { tree: self.tree >> params.height, index: (self.tree & mask) as u32 }
    }
}

/// Computes the root of the tree in the highest layer, which is PK.root.
pub(super) fn root<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    params: &Params,
    sk_seed: &[u8; N],
) -> [u8; N] {
    let tree = Address::tree(params.d - 1, 0);
    let mut leaves: Vec<_> =
        (0..1 << params.height).map(|leaf| wots::public_key(hash, sk_seed, &tree, leaf, None)).collect();
    let mut path = vec![[0; N]; params.height];
    merkle::root(hash, tree.typed(AddressType::Tree, 0), &mut leaves, 0, 0, &mut path)
}

/// Signs a node with the key pair of `leaf` (algorithm 12). `scratch` has room for the leaves of a
/// tree.
pub(super) fn sign<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    params: &Params,
    sk_seed: &[u8; N],
    mut leaf: Leaf,
    mut node: [u8; N],
    scratch: &mut [[u8; N]],
    signature: &mut [[u8; N]],
) {
    for (layer, signature) in (0..params.d).zip(signature.chunks_exact_mut(wots::chains(N) + params.height)) {
        let tree = Address::tree(layer, leaf.tree);
        let (wots, path) = signature.split_at_mut(wots::chains(N));
        // The root of the tree below, or the FORS key: a verifier computes it.
        #[cfg(test)]
        crate::taint::public(&mut node);
        let digits = Digits::new(&node);
        let leaves = &mut scratch[..1 << params.height];
        let mut signing = Some(Signing { digits: &digits, signature: wots });
        for (index, public) in (0..).zip(&mut *leaves) {
            let signing = if index == leaf.index { signing.take() } else { None };
            *public = wots::public_key(hash, sk_seed, &tree, index, signing);
        }
        node = merkle::root(hash, tree.typed(AddressType::Tree, 0), leaves, 0, leaf.index as usize, path);
        leaf = leaf.parent(params);
    }
}

/// Computes PK.root from a signature of a node (algorithm 13).
pub(super) fn root_from_signature<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    params: &Params,
    mut leaf: Leaf,
    mut node: [u8; N],
    signature: &[[u8; N]],
) -> [u8; N] {
    for (layer, signature) in (0..params.d).zip(signature.chunks_exact(wots::chains(N) + params.height)) {
        let tree = Address::tree(layer, leaf.tree);
        let (wots, path) = signature.split_at(wots::chains(N));
        let public = wots::public_key_from_signature(hash, &tree, leaf.index, &Digits::new(&node), wots);
        let mut climber = [Climber { node: public, index: leaf.index, path }];
        merkle::climb::<H, N, 1>(hash, tree.typed(AddressType::Tree, 0), &mut climber);
        node = climber[0].node;
        leaf = leaf.parent(params);
    }
    node
}
