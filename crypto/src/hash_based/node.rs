//! The nodes of a tree and their hashes, and the parts of a signature.

use crate::error::{Error, Result};
use crate::library::{Hash, Hashes};

/// The length of the longest node of a tree in bytes.
pub(super) const MAX_NODE: usize = 64;
/// A node of a tree, or a value of a one-time key. Only its first `n` bytes have a meaning.
pub(super) type Node = [u8; MAX_NODE];
/// The length of the longest input that is hashed in one call: two nodes of XMSS, their key and the
/// number of the function.
const MAX_INPUT: usize = 4 * MAX_NODE;

/// A hash function whose output is cut to `n` bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ShortHash {
    pub(super) hash: Hash,
    /// The length of a node in bytes, at most `MAX_NODE`.
    pub(super) n: usize,
}

impl ShortHash {
    /// Hashes the parts, which have at most `MAX_INPUT` bytes together.
    pub(super) fn of(self, hashes: &impl Hashes, parts: &[&[u8]]) -> Result<Node> {
        let (mut input, mut len) = ([0; MAX_INPUT], 0);
        for part in parts {
            input[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        let mut node = [0; MAX_NODE];
        hashes.hash(self.hash, &input[..len], &mut node[..self.hash.len()])?;
        Ok(node)
    }

    /// Hashes parts of any length.
    pub(super) fn of_long(self, hashes: &impl Hashes, parts: &[&[u8]]) -> Result<Node> {
        let mut node = [0; MAX_NODE];
        hashes.hash_parts(self.hash, parts, &mut node[..self.hash.len()])?;
        Ok(node)
    }
}

/// Splits the first `len` bytes off. Fails with `Length` if there are fewer.
pub(super) fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(len).ok_or(Error::Length)?;
    *rest = tail;
    Ok(head)
}

/// Reads a number of 4 bytes, as [`take`].
pub(super) fn number(rest: &mut &[u8]) -> Result<u32> {
    let bytes = take(rest, 4)?;
    Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}
