//! WOTS+, the one-time signatures (FIPS 205, 5), with w = 16. A private key is a row of chains of
//! 16 nodes, and a signature shows one node of each chain.

use super::address::{Address, AddressType};
use super::hash::{HashFunctions, Input};

/// The number of the last node of a chain: w - 1.
const LAST: u8 = 15;
/// The digits of the checksum (len2).
const CHECKSUM_DIGITS: usize = 3;
/// The largest number of chains, which is that of n = 32.
const MAX_CHAINS: usize = chains(32);

/// Returns the number of chains, which is also the number of nodes of a signature (len).
pub(super) const fn chains(n: usize) -> usize {
    2 * n + CHECKSUM_DIGITS
}

/// The digits that a signature signs: those of a node and of their checksum. They are public.
pub(super) struct Digits([u8; MAX_CHAINS]);

impl Digits {
    pub(super) fn new<const N: usize>(node: &[u8; N]) -> Self {
        let mut digits = [0; MAX_CHAINS];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(node) {
            *pair = [byte >> 4, byte & 15];
        }
        let checksum: u16 = digits[..2 * N].iter().map(|digit| u16::from(LAST - digit)).sum();
        let [high, low] = checksum.to_be_bytes();
        digits[2 * N..chains(N)].copy_from_slice(&[high, low >> 4, low & 15]);
        Self(digits)
    }
}

/// Where a signature is written while the public key is computed.
pub(super) struct Signing<'a, const N: usize> {
    pub(super) digits: &'a Digits,
    pub(super) signature: &'a mut [[u8; N]],
}

/// Computes the public key of a key pair, a leaf of its tree. Writes a signature if asked to: its
/// nodes are on the way. `tree` is the address of the tree.
pub(super) fn public_key<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    sk_seed: &[u8; N],
    tree: &Address,
    key_pair: u32,
    mut signing: Option<Signing<'_, N>>,
) -> [u8; N] {
    let mut row = [Input::<N, 1>::EMPTY; MAX_CHAINS];
    let row = &mut row[..chains(N)];
    let secret = tree.typed(AddressType::WotsPrf, key_pair);
    for (chain, input) in (0..).zip(&mut *row) {
        *input = Input { address: secret, nodes: [*sk_seed] };
        input.address.set_chain_or_height(chain);
    }
    hash.hash(row);
    address_chains(row, tree, key_pair, 0..);
    for step in 0..LAST {
        if let Some(signing) = &mut signing {
            signing.copy(row, step);
        }
        row.iter_mut().for_each(|input| input.address.set_step_or_index(step.into()));
        hash.hash(row);
    }
    if let Some(signing) = &mut signing {
        signing.copy(row, LAST);
    }
    compress(hash, tree, key_pair, row.iter().map(|input| input.nodes[0]))
}

impl<const N: usize> Signing<'_, N> {
    /// Copies the nodes of the chains whose digit is `step`.
    fn copy(&mut self, row: &[Input<N, 1>], step: u8) {
        for ((node, input), digit) in self.signature.iter_mut().zip(row).zip(&self.digits.0) {
            if *digit == step {
                *node = input.nodes[0];
            }
        }
    }
}

/// Computes the public key from a signature (algorithm 8).
pub(super) fn public_key_from_signature<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    tree: &Address,
    key_pair: u32,
    digits: &Digits,
    signature: &[[u8; N]],
) -> [u8; N] {
    // Sorted by digit, so that the chains that take part in a step are next to each other.
    let mut order: [usize; MAX_CHAINS] = std::array::from_fn(|chain| chain);
    let order = &mut order[..chains(N)];
    order.sort_unstable_by_key(|chain| digits.0[*chain]);

    let mut row = [Input::<N, 1>::EMPTY; MAX_CHAINS];
    let row = &mut row[..chains(N)];
    for (input, chain) in row.iter_mut().zip(&*order) {
        input.nodes = [signature[*chain]];
    }
    address_chains(row, tree, key_pair, order.iter().map(|chain| *chain as u32));
    for step in 0..LAST {
        let started = order.partition_point(|chain| digits.0[*chain] <= step);
        row[..started].iter_mut().for_each(|input| input.address.set_step_or_index(step.into()));
        hash.hash(&mut row[..started]);
    }

    let mut nodes = [[0; N]; MAX_CHAINS];
    for (input, chain) in row.iter().zip(order) {
        nodes[*chain] = input.nodes[0];
    }
    compress(hash, tree, key_pair, nodes.into_iter().take(chains(N)))
}

fn address_chains<const N: usize>(
    row: &mut [Input<N, 1>],
    tree: &Address,
    key_pair: u32,
    chains: impl Iterator<Item = u32>,
) {
    let address = tree.typed(AddressType::WotsHash, key_pair);
    for (input, chain) in row.iter_mut().zip(chains) {
        input.address = address;
        input.address.set_chain_or_height(chain);
    }
}

/// Hashes the last nodes of the chains.
fn compress<H: HashFunctions<N>, const N: usize>(
    hash: &H,
    tree: &Address,
    key_pair: u32,
    ends: impl Iterator<Item = [u8; N]>,
) -> [u8; N] {
    let mut nodes = [[0; N]; MAX_CHAINS];
    nodes.iter_mut().zip(ends).for_each(|(node, end)| *node = end);
    hash.hash_list(&tree.typed(AddressType::WotsPk, key_pair), &nodes[..chains(N)])
}
