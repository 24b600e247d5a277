//! Merkle trees, for XMSS and FORS (FIPS 205, 6 and 8): the root and the path of a leaf, from all
//! leaves or from a signature.

use super::address::Address;
use super::hash::{HashFunctions, Input};

/// The number of nodes that are computed in one call.
const BATCH: usize = 16;

/// Computes the root from the leaves, whose memory it uses. Writes the authentication path of the
/// leaf with the index `index`. `address` is a tree address, and `first` the index of the first
/// leaf in it. The number of leaves is a power of two.
pub(super) fn root<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    mut address: Address,
    leaves: &mut [[u8; N]],
    first: u32,
    index: usize,
    path: &mut [[u8; N]],
) -> [u8; N] {
    let mut level = leaves;
    for (height, sibling) in (1..).zip(path) {
        *sibling = level[(index >> (height - 1)) ^ 1];
        address.set_chain_or_height(height);
        let half = level.len() / 2;
        for start in (0..half).step_by(BATCH) {
            let count = BATCH.min(half - start);
            let mut parents = [Input::<N, 2>::EMPTY; BATCH];
            let parents = &mut parents[..count];
            for (i, parent) in (start..).zip(&mut *parents) {
                *parent = Input { address, nodes: [level[2 * i], level[2 * i + 1]] };
                parent.address.set_step_or_index((first >> height) + i as u32);
            }
            hash.hash(parents);
            for (node, parent) in level[start..].iter_mut().zip(parents) {
                *node = parent.nodes[0];
            }
        }
        level = &mut level[..half];
    }
    level[0]
}

/// A node on the way from a leaf to the root, with its index at its height.
pub(super) struct Climber<'a, const N: usize> {
    pub(super) node: [u8; N],
    pub(super) index: u32,
    pub(super) path: &'a [[u8; N]],
}

/// Computes the roots from leaves and their paths, which have the same length (algorithms 11 and
/// 17). There are at most `T` of them.
pub(super) fn climb<H: HashFunctions<N>, const N: usize, const T: usize>(
    hash: &H,
    mut address: Address,
    climbers: &mut [Climber<'_, N>],
) {
    let heights = climbers.first().map_or(0, |climber| climber.path.len());
    let mut parents = [Input::<N, 2>::EMPTY; T];
    let parents = &mut parents[..climbers.len()];
    for height in 0..heights {
        address.set_chain_or_height(height as u32 + 1);
        for (parent, climber) in parents.iter_mut().zip(&mut *climbers) {
            let mut nodes = [climber.node, climber.path[height]];
            if climber.index % 2 == 1 {
                nodes.swap(0, 1);
            }
            climber.index /= 2;
            *parent = Input { address, nodes };
            parent.address.set_step_or_index(climber.index);
        }
        hash.hash(parents);
        for (parent, climber) in parents.iter().zip(&mut *climbers) {
            climber.node = parent.nodes[0];
        }
    }
}
