//! LM-OTS, LMS and HSS (RFC 8554), with the parameter sets of SP 800-208.

use super::node::{MAX_NODE, Node, ShortHash, number, take};
use crate::error::{Error, Result, require};
use crate::library::{Hash, Hashes};

/// The hash functions of the parameter sets, in the order of the type numbers.
const HASHES: [ShortHash; 4] = [
    ShortHash { hash: Hash::Sha256, n: 32 },
    ShortHash { hash: Hash::Sha256, n: 24 },
    ShortHash { hash: Hash::Shake256, n: 32 },
    ShortHash { hash: Hash::Shake256, n: 24 },
];
/// The type number of LMS_SHA256_M32_H5 (RFC 8554, 5.1). The others follow (SP 800-208, 4).
const FIRST_LMS: u32 = 5;
/// The heights of the trees with one hash.
const HEIGHTS: [u32; 5] = [5, 10, 15, 20, 25];
/// The type number of LMOTS_SHA256_N32_W1 (RFC 8554, 4.1).
const FIRST_OTS: u32 = 1;
/// The widths of a digit in bits, for the one-time keys with one hash.
const WIDTHS: [u32; 4] = [1, 2, 4, 8];
/// The most levels of HSS (RFC 8554, 6).
pub(super) const MAX_LEVELS: u32 = 8;
/// The length of the identifier of a tree in bytes.
pub(super) const ID: usize = 16;

// The numbers that separate the uses of the hash (RFC 8554, 3.2).
const D_PBLK: u16 = 0x8080;
const D_MESG: u16 = 0x8181;
const D_LEAF: u16 = 0x8282;
const D_INTR: u16 = 0x8383;

/// The parameters of a tree and its one-time keys.
#[derive(Clone, Copy)]
pub(super) struct Params {
    pub(super) lms_type: u32,
    pub(super) ots_type: u32,
    pub(super) hash: ShortHash,
    pub(super) height: u32,
    /// The width of a digit in bits.
    pub(super) width: u32,
}

impl Params {
    /// Returns the parameters of two type numbers. SP 800-208, 4: both must have the same hash.
    pub(super) fn of(lms_type: u32, ots_type: u32) -> Option<Self> {
        let (hash, height) = place(lms_type, FIRST_LMS, &HEIGHTS)?;
        let (ots_hash, width) = place(ots_type, FIRST_OTS, &WIDTHS)?;
        (hash == ots_hash).then_some(Self { lms_type, ots_type, hash, height, width })
    }

    fn message_digits(&self) -> usize {
        8 * self.hash.n / self.width as usize
    }

    /// The number of digits of the checksum (RFC 8554, appendix B).
    fn checksum_digits(&self) -> usize {
        let largest = self.message_digits() * ((1 << self.width) - 1);
        (largest.ilog2() + 1).div_ceil(self.width) as usize
    }

    /// The number of chains of a one-time key: `p`.
    pub(super) fn chains(&self) -> usize {
        self.message_digits() + self.checksum_digits()
    }

    /// The length of a public key of one tree.
    pub(super) fn public_len(&self) -> usize {
        8 + ID + self.hash.n
    }

    pub(super) fn signature_len(&self) -> usize {
        let one_time = 4 + self.hash.n * (1 + self.chains());
        4 + one_time + 4 + self.height as usize * self.hash.n
    }

    /// The largest digit: the number of steps in a chain.
    pub(super) fn last_digit(&self) -> u8 {
        ((1u16 << self.width) - 1) as u8
    }

    /// Returns the digits of a digest and of its checksum (RFC 8554, 4.4).
    pub(super) fn digits(&self, digest: &[u8]) -> Vec<u8> {
        let mask = self.last_digit();
        let per_byte = (0..8 / self.width).rev().map(|at| at * self.width);
        let of_bytes = |bytes: &[u8]| -> Vec<u8> {
            bytes.iter().flat_map(|byte| per_byte.clone().map(move |shift| byte >> shift & mask)).collect()
        };
        let mut digits = of_bytes(digest);
        let sum: u16 = digits.iter().map(|digit| u16::from(mask - digit)).sum();
        let shift = 16 - self.checksum_digits() as u32 * self.width;
        digits.extend(&of_bytes(&(sum << shift).to_be_bytes())[..self.checksum_digits()]);
        digits
    }
}

fn place(number: u32, first: u32, group: &[u32]) -> Option<(ShortHash, u32)> {
    let at = usize::try_from(number.checked_sub(first)?).ok()?;
    Some((*HASHES.get(at / group.len())?, group[at % group.len()]))
}

/// The public key of one tree (RFC 8554, 5.3).
pub(super) struct Tree {
    pub(super) params: Params,
    pub(super) id: [u8; ID],
    pub(super) root: Node,
}

impl Tree {
    /// Reads a public key. Fails with `Invalid` if its types are unknown.
    fn read(rest: &mut &[u8]) -> Result<Self> {
        let types = (number(rest)?, number(rest)?);
        let params = Params::of(types.0, types.1).ok_or(Error::Invalid)?;
        let (mut id, mut root) = ([0; ID], [0; MAX_NODE]);
        id.copy_from_slice(take(rest, ID)?);
        root[..params.hash.n].copy_from_slice(take(rest, params.hash.n)?);
        Ok(Self { params, id, root })
    }

    /// Writes the public key.
    pub(super) fn encode(&self) -> Vec<u8> {
        let Params { lms_type, ots_type, hash, .. } = self.params;
        let types = (lms_type.to_be_bytes(), ots_type.to_be_bytes());
        [&types.0[..], &types.1, &self.id, &self.root[..hash.n]].concat()
    }

    /// Reads a signature (RFC 8554, 5.4.2) and checks that it is of the message.
    fn verify(&self, hashes: &impl Hashes, message: &[u8], rest: &mut &[u8]) -> Result<()> {
        let Params { lms_type, ots_type, hash, height, .. } = self.params;
        let mut signature = take(rest, self.params.signature_len())?;
        let leaf = number(&mut signature)?;
        require(number(&mut signature)? == ots_type && leaf >> height == 0, Error::Invalid)?;
        let random = take(&mut signature, hash.n)?;
        let values = take(&mut signature, self.params.chains() * hash.n)?;
        require(number(&mut signature)? == lms_type, Error::Invalid)?;

        let message = self.message_digest(hashes, leaf, random, message)?;
        let mut ends = values.to_vec();
        let digits = self.params.digits(&message[..hash.n]);
        for (chain, (value, digit)) in ends.chunks_exact_mut(hash.n).zip(digits).enumerate() {
            let steps = digit..self.params.last_digit();
            self.advance(hashes, leaf, chain as u16, steps, value)?;
        }
        let mut place = 1 << height | leaf;
        let mut node = self.leaf(hashes, leaf, &ends)?;
        for sibling in signature.chunks_exact(hash.n) {
            let own = &node[..hash.n];
            let children = if place & 1 == 0 { [own, sibling] } else { [sibling, own] };
            place >>= 1;
            node = self.parent(hashes, place, children)?;
        }
        require(node[..hash.n] == self.root[..hash.n], Error::Invalid)
    }

    /// Hashes a message (RFC 8554, 4.5).
    pub(super) fn message_digest(
        &self,
        hashes: &impl Hashes,
        leaf: u32,
        random: &[u8],
        message: &[u8],
    ) -> Result<Node> {
        let (leaf, number) = (leaf.to_be_bytes(), D_MESG.to_be_bytes());
        self.params.hash.of_long(hashes, &[&self.id[..], &leaf, &number, random, message])
    }

    /// Hashes a value of a chain once for each step.
    pub(super) fn advance(
        &self,
        hashes: &impl Hashes,
        leaf: u32,
        chain: u16,
        steps: std::ops::Range<u8>,
        value: &mut [u8],
    ) -> Result<()> {
        for step in steps {
            let (leaf, chain) = (leaf.to_be_bytes(), chain.to_be_bytes());
            let next = self.params.hash.of(hashes, &[&self.id, &leaf, &chain, &[step], value])?;
            value.copy_from_slice(&next[..self.params.hash.n]);
        }
        Ok(())
    }

    /// Computes a leaf of the tree from the ends of its chains.
    pub(super) fn leaf(&self, hashes: &impl Hashes, leaf: u32, ends: &[u8]) -> Result<Node> {
        let hash = self.params.hash;
        let key = hash.of_long(hashes, &[&self.id[..], &leaf.to_be_bytes(), &D_PBLK.to_be_bytes(), ends])?;
        let place = 1 << self.params.height | leaf;
        hash.of(hashes, &[&self.id, &place.to_be_bytes(), &D_LEAF.to_be_bytes(), &key[..hash.n]])
    }

    /// Computes all nodes above the lowest level of a complete tree. Node 1 is the root, and a node
    /// has the children `2 * number` and `2 * number + 1`. `place` returns the place of a node in
    /// the whole tree.
    pub(super) fn join(
        &self,
        hashes: &impl Hashes,
        nodes: &mut [u8],
        place: impl Fn(usize) -> u32,
    ) -> Result<()> {
        let n = self.params.hash.n;
        for number in (1..nodes.len() / n / 2).rev() {
            let (upper, lower) = nodes.split_at_mut(2 * number * n);
            let parent = self.parent(hashes, place(number), [&lower[..n], &lower[n..2 * n]])?;
            upper[number * n..][..n].copy_from_slice(&parent[..n]);
        }
        Ok(())
    }

    fn parent(&self, hashes: &impl Hashes, place: u32, children: [&[u8]; 2]) -> Result<Node> {
        let numbers = (place.to_be_bytes(), D_INTR.to_be_bytes());
        self.params.hash.of(hashes, &[&self.id, &numbers.0, &numbers.1, children[0], children[1]])
    }
}

/// A public key of HSS (RFC 8554, 6.1).
pub struct Public {
    levels: u32,
    top: Tree,
}

impl Public {
    /// Parses the encoding of RFC 8554. Fails with `Invalid` if no parameter set has such a key.
    pub fn parse(mut key: &[u8]) -> Result<Self> {
        let invalid = |_| Error::Invalid;
        let levels = number(&mut key).map_err(invalid)?;
        let top = Tree::read(&mut key).map_err(invalid)?;
        if key.is_empty() && (1..=MAX_LEVELS).contains(&levels) {
            Ok(Self { levels, top })
        } else {
            Err(Error::Invalid)
        }
    }

    /// Returns the length of a signature. The key does not name the parameters of lower levels, so
    /// that with several levels this is the length if all have the parameters of the top.
    pub(super) fn signature_len(&self) -> usize {
        let params = &self.top.params;
        4 + self.levels as usize * params.signature_len() + (self.levels as usize - 1) * params.public_len()
    }

    /// Verifies a signature (RFC 8554, 6.3). Fails with `Length` if its length is not
    /// the one that follows from the key and from the keys in the signature.
    pub fn verify(&self, hashes: &impl Hashes, message: &[u8], mut rest: &[u8]) -> Result<()> {
        require(self.levels != 1 || rest.len() == self.signature_len(), Error::Length)?;
        require(number(&mut rest)? == self.levels - 1, Error::Invalid)?;
        let mut lower = None;
        for _ in 1..self.levels {
            let (tree, signature) = (lower.as_ref().unwrap_or(&self.top), rest);
            take(&mut rest, tree.params.signature_len())?;
            let start = rest;
            let next = Tree::read(&mut rest)?;
            let signed = &start[..start.len() - rest.len()];
            tree.verify(hashes, signed, &mut &signature[..])?;
            lower = Some(next);
        }
        lower.as_ref().unwrap_or(&self.top).verify(hashes, message, &mut rest)?;
        if rest.is_empty() { Ok(()) } else { Err(Error::Length) }
    }
}
