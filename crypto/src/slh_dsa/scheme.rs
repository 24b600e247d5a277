//! The internal functions of SLH-DSA (FIPS 205, 9), without the prefix of the message.

use super::address::Address;
use super::fors;
use super::hash::HashFunctions;
use super::hypertree::{self, Leaf};
use super::params::Params;

pub(super) fn root<H: HashFunctions<N>, const N: usize>(
    params: &Params,
    sk_seed: &[u8],
    pk_seed: &[u8],
    out: &mut [u8],
) {
    out.copy_from_slice(&hypertree::root(&H::new(node(pk_seed)), params, node(sk_seed)));
}

/// Signs a message in parts (algorithm 19). `key` is SK.seed || SK.prf || PK.seed || PK.root, and
/// `signature` has the length of a signature.
pub(super) fn sign<H: HashFunctions<N>, const N: usize>(
    params: &Params,
    key: &[u8],
    randomness: &[u8],
    message: &[&[u8]],
    signature: &mut [u8],
) {
    let (sk_seed, sk_prf, public) = (node(key), node(&key[N..]), &key[2 * N..]);
    let hash = H::new(node(public));
    let ([r, signature @ ..], []) = signature.as_chunks_mut() else { unreachable!("a multiple of n") };
    *r = H::prf_msg(sk_prf, node(randomness), message);
    // A part of the signature.
    #[cfg(test)]
    crate::taint::public(r);
    let digest = Digest::new::<H, N>(params, r, public, message);
    let (fors, hypertree) = signature.split_at_mut(fors_nodes(params));
    let mut scratch = vec![[0; N]; 1 << params.a.max(params.height)];
    let tree = Address::tree(0, digest.leaf.tree);
    let place = (&tree, digest.leaf.index);
    let fors_key = fors::sign(&hash, params, sk_seed, place, &digest.bytes, &mut scratch, fors);
    hypertree::sign(&hash, params, sk_seed, digest.leaf, fors_key, &mut scratch, hypertree);
}

/// Verifies a signature of a message in parts (algorithm 20). `public` is PK.seed || PK.root, and
/// `signature` has the length of a signature.
pub(super) fn verify<H: HashFunctions<N>, const N: usize>(
    params: &Params,
    public: &[u8],
    message: &[&[u8]],
    signature: &[u8],
) -> bool {
    let hash = H::new(node(public));
    let ([r, signature @ ..], []) = signature.as_chunks() else { unreachable!("a multiple of n") };
    let digest = Digest::new::<H, N>(params, r, public, message);
    let (fors, hypertree) = signature.split_at(fors_nodes(params));
    let tree = Address::tree(0, digest.leaf.tree);
    let place = (&tree, digest.leaf.index);
    let fors_key = fors::public_key_from_signature(&hash, params, place, &digest.bytes, fors);
    hypertree::root_from_signature(&hash, params, digest.leaf, fors_key, hypertree) == public[N..]
}

/// The largest m in bytes.
const MAX_M: usize = 49;

/// The digest of a message: what FORS signs, and where.
struct Digest {
    /// Its first k·a bits are for FORS.
    bytes: [u8; MAX_M],
    leaf: Leaf,
}

impl Digest {
    fn new<H: HashFunctions<N>, const N: usize>(
        params: &Params,
        r: &[u8; N],
        public: &[u8],
        message: &[&[u8]],
    ) -> Self {
        let mut bytes = [0; MAX_M];
        H::h_msg(r, public, message, &mut bytes[..params.m()]);
        let rest = &bytes[(params.k * params.a).div_ceil(8)..];
        let (tree, rest) = rest.split_at(params.tree_bits().div_ceil(8));
        let index = &rest[..params.height.div_ceil(8)];
        let leaf = Leaf {
            tree: lowest_bits(tree, params.tree_bits()),
            index: lowest_bits(index, params.height) as u32,
        };
        Self { bytes, leaf }
    }
}

/// The lowest bits of a big-endian number, between 1 and 64 of them.
fn lowest_bits(bytes: &[u8], count: usize) -> u64 {
    let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    number & u64::MAX >> (64 - count)
}

fn fors_nodes(params: &Params) -> usize {
    params.k * (params.a + 1)
}

/// The first n bytes.
fn node<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.first_chunk().expect("the caller checked the length")
}
