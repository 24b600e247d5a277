//! FORS, the few-time signatures (FIPS 205, 8): k trees of 2^a leaves. A signature shows one leaf
//! of each tree, with its path.

use super::address::{Address, AddressType};
use super::hash::{HashFunctions, Input};
use super::merkle::{self, Climber};
use super::params::Params;

/// The largest k.
const MAX_TREES: usize = 35;
/// The number of leaves that are computed in one call.
const BATCH: usize = 16;

/// Signs the first k·a bits of `digest`, and returns the public key (algorithms 16 and 17). `tree`
/// is the address of the tree that signs this public key with `key_pair`. `scratch` has room for
/// the leaves of a tree.
pub(super) fn sign<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    params: &Params,
    sk_seed: &[u8; N],
    (tree, key_pair): (&Address, u32),
    digest: &[u8],
    scratch: &mut [[u8; N]],
    signature: &mut [[u8; N]],
) -> [u8; N] {
    let mut roots = [[0; N]; MAX_TREES];
    let trees = indices(params, digest).zip(signature.chunks_exact_mut(params.a + 1));
    for ((number, (index, signature)), root) in (0u32..).zip(trees).zip(&mut roots) {
        let first = number << params.a;
        let (secret, path) = signature.split_at_mut(1);
        let leaves = &mut scratch[..1 << params.a];
        for (batch, leaves) in leaves.chunks_mut(BATCH).enumerate() {
            let start = batch * BATCH;
            let values = secrets_and_leaves(hash, sk_seed, (tree, key_pair), first + start as u32, leaves);
            if let Some(value) = index.checked_sub(start).and_then(|i| values.get(i)) {
                secret[0] = *value;
            }
        }
        let address = tree.typed(AddressType::ForsTree, key_pair);
        *root = merkle::root(hash, address, leaves, first, index, path);
    }
    compress(hash, params, (tree, key_pair), &roots)
}

/// Computes leaves from the index `first` on. Returns the secret values below them.
fn secrets_and_leaves<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    sk_seed: &[u8; N],
    (tree, key_pair): (&Address, u32),
    first: u32,
    leaves: &mut [[u8; N]],
) -> [[u8; N]; BATCH] {
    let mut inputs = [Input::<N, 1>::EMPTY; BATCH];
    let inputs = &mut inputs[..leaves.len()];
    let address = |kind, index| {
        let mut address = tree.typed(kind, key_pair);
        address.set_step_or_index(index);
        address
    };
    for (index, input) in (first..).zip(&mut *inputs) {
        *input = Input { address: address(AddressType::ForsPrf, index), nodes: [*sk_seed] };
    }
    hash.hash(inputs);
    let mut values = [[0; N]; BATCH];
    for ((index, input), value) in (first..).zip(&mut *inputs).zip(&mut values) {
        *value = input.nodes[0];
        input.address = address(AddressType::ForsTree, index);
    }
    hash.hash(inputs);
    for (leaf, input) in leaves.iter_mut().zip(inputs) {
        *leaf = input.nodes[0];
    }
    values
}

/// Computes the public key from a signature (algorithm 17).
pub(super) fn public_key_from_signature<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    params: &Params,
    (tree, key_pair): (&Address, u32),
    digest: &[u8],
    signature: &[[u8; N]],
) -> [u8; N] {
    let address = tree.typed(AddressType::ForsTree, key_pair);
    let trees = indices(params, digest).zip(signature.chunks_exact(params.a + 1));
    let mut leaves = [Input::<N, 1>::EMPTY; MAX_TREES];
    let leaves = &mut leaves[..params.k];
    let mut climbers: [Climber<'_, N>; MAX_TREES] =
        std::array::from_fn(|_| Climber { node: [0; N], index: 0, path: &[] });
    let climbers = &mut climbers[..params.k];
    for ((number, (index, signature)), (leaf, climber)) in
        (0u32..).zip(trees).zip(leaves.iter_mut().zip(&mut *climbers))
    {
        climber.index = (number << params.a) + index as u32;
        climber.path = &signature[1..];
        *leaf = Input { address, nodes: [signature[0]] };
        leaf.address.set_step_or_index(climber.index);
    }
    hash.hash(leaves);
    for (climber, leaf) in climbers.iter_mut().zip(leaves) {
        climber.node = leaf.nodes[0];
    }
    merkle::climb::<H, N, MAX_TREES>(hash, address, climbers);
    let mut roots = [[0; N]; MAX_TREES];
    roots.iter_mut().zip(climbers).for_each(|(root, climber)| *root = climber.node);
    compress(hash, params, (tree, key_pair), &roots)
}

/// The indices of the leaves that a signature shows: numbers of `a` bits (algorithm 4).
fn indices(params: &Params, digest: &[u8]) -> impl Iterator<Item = usize> {
    let bit = |i: usize| usize::from(digest[i / 8] >> (7 - i % 8) & 1);
    let a = params.a;
    (0..params.k).map(move |tree| (tree * a..(tree + 1) * a).fold(0, |index, i| index << 1 | bit(i)))
}

fn compress<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    params: &Params,
    (tree, key_pair): (&Address, u32),
    roots: &[[u8; N]; MAX_TREES],
) -> [u8; N] {
    hash.hash_list(&tree.typed(AddressType::ForsRoots, key_pair), &roots[..params.k])
}
