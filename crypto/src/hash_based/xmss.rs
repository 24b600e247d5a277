//! XMSS and XMSS^MT (RFC 8391), with the parameter sets of SP 800-208. XMSS is XMSS^MT with one
//! layer, except for the length of the index.

use super::node::{self, MAX_NODE, Node, ShortHash, take};
use crate::error::{Error, Result, require};
use crate::library::{Hash, Hashes};

/// A hash function, and the length in bytes of the number before its input (RFC 8391, 5.1;
/// SP 800-208, 5).
#[derive(Clone, Copy)]
struct Keyed {
    hash: ShortHash,
    number_len: usize,
}

/// The hash functions of the parameter sets, in the order of the set numbers.
const HASHES: [Keyed; 7] = [
    keyed(Hash::Sha256, 32, 32),
    keyed(Hash::Sha512, 64, 64),
    keyed(Hash::Shake128, 32, 32),
    keyed(Hash::Shake256, 64, 64),
    keyed(Hash::Sha256, 24, 4),
    keyed(Hash::Shake256, 32, 32),
    keyed(Hash::Shake256, 24, 4),
];

const fn keyed(hash: Hash, n: usize, number_len: usize) -> Keyed {
    Keyed { hash: ShortHash { hash, n }, number_len }
}

/// The heights and layers of the sets of XMSS with one hash.
const SINGLE: [(u32, u32); 3] = [(10, 1), (16, 1), (20, 1)];
/// The heights and layers of the sets of XMSS^MT with one hash.
const MULTI: [(u32, u32); 8] = [(20, 2), (20, 4), (40, 2), (40, 4), (40, 8), (60, 3), (60, 6), (60, 12)];

// The numbers that separate the uses of the hash (RFC 8391, 5.1).
const F: u8 = 0;
const H: u8 = 1;
const H_MSG: u8 = 2;
const PRF: u8 = 3;

/// The number of digits of a checksum: `len_2`. A digit has 4 bits.
const CHECKSUM: usize = 3;
/// The largest digit.
const LAST: u8 = 15;

/// The two forms of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// XMSS, with one layer of trees.
    Xmss,
    /// XMSS^MT, with several layers.
    XmssMt,
}

/// A public key of XMSS or XMSS^MT.
pub struct Public {
    keyed: Keyed,
    /// The height of all layers together.
    height: u32,
    layers: u32,
    index_len: usize,
    root: Node,
    seed: Node,
}

impl Public {
    /// Parses the number of the set, the root and the seed (RFC 8391, 4.1.7).
    pub fn parse(family: Family, mut key: &[u8]) -> Result<Self> {
        let invalid = |_| Error::Invalid;
        let group: &[_] = if family == Family::Xmss { &SINGLE } else { &MULTI };
        let set = node::number(&mut key).map_err(invalid)? as usize;
        let at = set.checked_sub(1).ok_or(Error::Invalid)?;
        let keyed = *HASHES.get(at / group.len()).ok_or(Error::Invalid)?;
        let (height, layers) = group[at % group.len()];
        let n = keyed.hash.n;
        require(key.len() == 2 * n, Error::Invalid)?;
        let (mut root, mut seed) = ([0; MAX_NODE], [0; MAX_NODE]);
        root[..n].copy_from_slice(&key[..n]);
        seed[..n].copy_from_slice(&key[n..]);
        let index_len = if family == Family::Xmss { 4 } else { height.div_ceil(8) as usize };
        Ok(Self { keyed, height, layers, index_len, root, seed })
    }

    /// Returns the length of every signature.
    pub fn signature_len(&self) -> usize {
        let n = self.keyed.hash.n;
        self.index_len + n + self.layers as usize * (self.chains() + self.layer_height() as usize) * n
    }

    fn layer_height(&self) -> u32 {
        self.height / self.layers
    }

    /// The number of chains of a one-time key: `len`.
    fn chains(&self) -> usize {
        2 * self.keyed.hash.n + CHECKSUM
    }

    /// Verifies a signature (RFC 8391, 4.1.10 and 4.2.5).
    pub fn verify(&self, hashes: &impl Hashes, message: &[u8], signature: &[u8]) -> Result<()> {
        require(signature.len() == self.signature_len(), Error::Length)?;
        let (n, mut rest) = (self.keyed.hash.n, signature);
        let index = take(&mut rest, self.index_len)?;
        let mut tree = index.iter().fold(0, |index, byte| index << 8 | u64::from(*byte));
        require(tree >> self.height == 0, Error::Invalid)?;
        let random = take(&mut rest, n)?;
        let mut node = self.message_digest(hashes, tree, random, message)?;
        for layer in 0..self.layers {
            let leaf = (tree & ((1 << self.layer_height()) - 1)) as u32;
            tree >>= self.layer_height();
            let values = take(&mut rest, self.chains() * n)?;
            let path = take(&mut rest, self.layer_height() as usize * n)?;
            let layer = Layer { public: self, hashes, layer, tree };
            node = layer.root(leaf, &node, values, path)?;
        }
        require(node[..n] == self.root[..n], Error::Invalid)
    }

    /// Hashes a message: `H_msg(r || root || index, M)`.
    fn message_digest(
        &self,
        hashes: &impl Hashes,
        index: u64,
        random: &[u8],
        message: &[u8],
    ) -> Result<Node> {
        let n = self.keyed.hash.n;
        let (mut number, mut place) = ([0; MAX_NODE], [0; MAX_NODE]);
        let number = &mut number[..self.keyed.number_len];
        number[number.len() - 1] = H_MSG;
        place[n - 8..n].copy_from_slice(&index.to_be_bytes());
        self.keyed.hash.of_long(hashes, &[&*number, random, &self.root[..n], &place[..n], message])
    }
}

struct Layer<'a, H> {
    public: &'a Public,
    hashes: &'a H,
    layer: u32,
    tree: u64,
}

/// The type of a hash address (RFC 8391, 2.5), and its first number: the one-time key or the leaf.
#[derive(Clone, Copy)]
enum Kind {
    OneTimeKey(u32),
    LTree(u32),
    Tree,
}

impl<H: Hashes> Layer<'_, H> {
    /// Computes the root from a signature of `message` (RFC 8391, 4.1.10).
    fn root(&self, leaf: u32, message: &Node, values: &[u8], path: &[u8]) -> Result<Node> {
        let n = self.public.keyed.hash.n;
        let mut ends = values.to_vec();
        for (chain, (value, digit)) in ends.chunks_exact_mut(n).zip(digits(&message[..n])).enumerate() {
            for step in digit..LAST {
                self.step(Kind::OneTimeKey(leaf), chain as u32, step, value)?;
            }
        }
        let mut node = self.compress(leaf, ends)?;
        let mut place = leaf;
        for (height, sibling) in path.chunks_exact(n).enumerate() {
            let own = &node[..n];
            let children = if place & 1 == 0 { [own, sibling] } else { [sibling, own] };
            place >>= 1;
            node = self.parent(Kind::Tree, height as u32, place, children)?;
        }
        Ok(node)
    }

    /// Hashes a value of a chain once (RFC 8391, 3.1.2).
    fn step(&self, kind: Kind, chain: u32, step: u8, value: &mut [u8]) -> Result<()> {
        let key = self.prf(kind, chain, step.into(), 0)?;
        let mask = self.prf(kind, chain, step.into(), 1)?;
        value.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        let next = self.hash(F, &key, [value, &[]])?;
        value.copy_from_slice(&next[..value.len()]);
        Ok(())
    }

    /// Hashes the ends of the chains to a leaf: an L-tree (RFC 8391, 4.1.5).
    fn compress(&self, leaf: u32, mut nodes: Vec<u8>) -> Result<Node> {
        let (n, mut height) = (self.public.keyed.hash.n, 0);
        while nodes.len() > n {
            let mut next = Vec::with_capacity(nodes.len() / 2 + n);
            for (place, pair) in nodes.chunks(2 * n).enumerate() {
                match pair.split_at(n) {
                    (single, []) => next.extend_from_slice(single),
                    (left, right) => {
                        let parent = self.parent(Kind::LTree(leaf), height, place as u32, [left, right])?;
                        next.extend_from_slice(&parent[..n]);
                    }
                }
            }
            (nodes, height) = (next, height + 1);
        }
        let mut node = [0; MAX_NODE];
        node[..n].copy_from_slice(&nodes);
        Ok(node)
    }

    /// Computes a node from its children: `RAND_HASH` (RFC 8391, 4.1.4).
    fn parent(&self, kind: Kind, height: u32, place: u32, children: [&[u8]; 2]) -> Result<Node> {
        let key = self.prf(kind, height, place, 0)?;
        let mut masks = [self.prf(kind, height, place, 1)?, self.prf(kind, height, place, 2)?];
        for (mask, child) in masks.iter_mut().zip(children) {
            mask.iter_mut().zip(child).for_each(|(mask, byte)| *mask ^= byte);
        }
        let n = self.public.keyed.hash.n;
        self.hash(H, &key, [&masks[0][..n], &masks[1][..n]])
    }

    /// Computes a key or a mask from the seed and a hash address (RFC 8391, 2.5).
    fn prf(&self, kind: Kind, third: u32, fourth: u32, fifth: u32) -> Result<Node> {
        let (number, second) = match kind {
            Kind::OneTimeKey(leaf) => (0, leaf),
            Kind::LTree(leaf) => (1, leaf),
            Kind::Tree => (2, 0),
        };
        let mut address = [0; 32];
        address[..4].copy_from_slice(&self.layer.to_be_bytes());
        address[4..12].copy_from_slice(&self.tree.to_be_bytes());
        for (word, value) in address[12..].chunks_exact_mut(4).zip([number, second, third, fourth, fifth]) {
            word.copy_from_slice(&u32::to_be_bytes(value));
        }
        self.hash(PRF, &self.public.seed, [&address, &[]])
    }

    fn hash(&self, function: u8, key: &Node, parts: [&[u8]; 2]) -> Result<Node> {
        let Keyed { hash, number_len } = self.public.keyed;
        let mut number = [0; MAX_NODE];
        number[number_len - 1] = function;
        hash.of(self.hashes, &[&number[..number_len], &key[..hash.n], parts[0], parts[1]])
    }
}

/// Returns the digits of a digest and of its checksum (RFC 8391, 3.1.5).
fn digits(digest: &[u8]) -> impl Iterator<Item = u8> {
    let digits: Vec<u8> = digest.iter().flat_map(|byte| [byte >> 4, byte & LAST]).collect();
    let sum: u16 = digits.iter().map(|digit| u16::from(LAST - digit)).sum();
    let checksum = [sum >> 8, sum >> 4, sum].map(|digit| (digit & u16::from(LAST)) as u8);
    digits.into_iter().chain(checksum)
}
