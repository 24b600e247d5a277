//! Private keys of LMS and HSS (RFC 8554): generation of trees, and signatures.
//!
//! A tree follows from a seed and an identifier (RFC 8554, appendix A). A signature needs the nodes
//! beside its path. Those above the cut are kept; those below are the nodes of one subtree, which
//! is computed when the first of its leaves signs. The seed of a lower tree follows from the leaf
//! that signs its public key. So that leaf always signs the same tree, also after a restart.
//!
//! The caller chooses the leaf, and must never choose one twice.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use jeton_secret::{Secret, with_wiped_frame};

use super::lms::{ID, Params, Tree};
use super::node::{self, MAX_NODE, Node};
use crate::error::{Error, Result, require};
use crate::library::{Hashes, Random};

/// The hashes for a subtree, unless its tree is so high that more than `MOST_KEPT` nodes would be
/// kept. A hash takes about 0.1 us, so that the subtree takes about 3 ms.
const SUBTREE_HASHES: u64 = 1 << 15;
/// The logarithm of the most nodes that are kept at the cut: 64 KiB with SHA-256.
const MOST_KEPT: u32 = 11;
/// The most one-time keys of a key, as a power of two. Their numbers are counted in 64 bits.
const MOST_USES: u32 = 60;

// The numbers in place of a chain and of a step in the hashes that make secrets from a seed.
const D_RANDOMIZER: u16 = 0xfffd;
const D_CHILD_SEED: u16 = 0xfffe;
const D_CHILD_ID: u16 = 0xffff;
const D_SEED: u8 = 0xff;

/// The types of a level of HSS: the numbers of RFC 8554, 4.1 and 5.1, and of SP 800-208, 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HssType {
    /// The type of the tree.
    pub lms: u32,
    /// The type of its one-time keys.
    pub ots: u32,
}

/// A private key of HSS.
pub struct Private {
    levels: Vec<Params>,
    top: Arc<PrivateTree>,
    /// The tree of each lower level that signed last.
    lower: Mutex<Vec<Option<Lower>>>,
}

/// A tree of a lower level.
#[derive(Clone)]
struct Lower {
    /// Its place among the trees of its level.
    number: u64,
    tree: Arc<PrivateTree>,
    /// The signature of its public key, and the public key.
    signed: Arc<[u8]>,
}

impl Private {
    /// Generates a key. Fails with `Invalid` if there are no or more than 8 levels, if no
    /// parameter set has their types, if two levels have different hashes, or if there are more
    /// than 2^60 one-time keys.
    pub fn generate(
        types: &[HssType],
        hashes: &impl Hashes,
        random: &dyn Random,
        threads: usize,
    ) -> Result<Self> {
        let levels = levels(types)?;
        let mut id = [0; ID];
        random.fill(&mut id)?;
        let seed = random.secret(levels[0].hash.n)?;
        let top = Arc::new(PrivateTree::generate(levels[0], id, seed, hashes, threads)?);
        let lower = Mutex::new(vec![None; levels.len() - 1]);
        Ok(Self { levels, top, lower })
    }

    /// Parses a key in the form of [`encode`](Self::encode).
    pub fn parse(types: &[HssType], key: &[u8], hashes: &impl Hashes) -> Result<Self> {
        let levels = levels(types)?;
        let top = Arc::new(PrivateTree::parse(levels[0], key, hashes)?);
        let lower = Mutex::new(vec![None; levels.len() - 1]);
        Ok(Self { levels, top, lower })
    }

    /// Returns the identifier, the seed and the kept nodes of the top tree.
    pub fn encode(&self) -> Secret {
        let (tree, n) = (&self.top, self.levels[0].hash.n);
        [&tree.tree.id[..], &tree.seed, &tree.nodes[tree.kept() * n..]].concat()[..].into()
    }

    /// Returns the public key (RFC 8554, 6.1).
    pub fn public(&self) -> Vec<u8> {
        [&(self.levels.len() as u32).to_be_bytes()[..], &self.top.tree.encode()].concat()
    }

    /// Returns the number of one-time keys.
    pub fn uses(&self) -> u64 {
        count(&self.levels)
    }

    /// Returns the length of every signature.
    pub fn signature_len(&self) -> usize {
        let keys = self.levels[1..].iter().map(Params::public_len).sum::<usize>();
        4 + keys + self.levels.iter().map(Params::signature_len).sum::<usize>()
    }

    /// Writes the signature with the one-time key of this number (RFC 8554, 6.2). Fails with
    /// `Invalid` if there is no such key.
    pub fn sign(&self, hashes: &impl Hashes, number: u64, message: &[u8], out: &mut [u8]) -> Result<()> {
        require(number < self.uses(), Error::Invalid)?;
        let mut signature = ((self.levels.len() - 1) as u32).to_be_bytes().to_vec();
        let (mut tree, mut below) = (Arc::clone(&self.top), self.uses().ilog2());
        for (level, params) in self.levels.iter().enumerate() {
            if level > 0 {
                let lower = self.lower(hashes, level, number >> below, &tree)?;
                signature.extend_from_slice(&lower.signed);
                tree = lower.tree;
            }
            below -= params.height;
        }
        let leaf = number & ((1 << tree.tree.params.height) - 1);
        signature.extend_from_slice(&tree.sign(hashes, leaf as u32, message)?);
        out.copy_from_slice(&signature);
        Ok(())
    }

    /// Returns the tree at this place of a level. `parent` signs its public key.
    fn lower(&self, hashes: &impl Hashes, level: usize, number: u64, parent: &PrivateTree) -> Result<Lower> {
        let mut lower = lock(&self.lower);
        if let Some(known) = lower[level - 1].as_ref().filter(|known| known.number == number) {
            return Ok(known.clone());
        }
        let params = self.levels[level];
        let leaf = (number & ((1 << parent.tree.params.height) - 1)) as u32;
        let mut id = [0; ID];
        id.copy_from_slice(&parent.secret(hashes, leaf, D_CHILD_ID)?[..ID]);
        let seed = parent.secret(hashes, leaf, D_CHILD_SEED)?[..params.hash.n].into();
        let tree = Arc::new(PrivateTree::generate(params, id, seed, hashes, 1)?);
        let public = tree.tree.encode();
        let signed = [parent.sign(hashes, leaf, &public)?, public].concat().into();
        Ok(lower[level - 1].insert(Lower { number, tree, signed }).clone())
    }
}

/// Returns the number of one-time keys of an HSS key. Fails with `Invalid` if no parameter set has
/// these types, or if two levels have different hashes.
pub fn uses(types: &[HssType]) -> Result<u64> {
    levels(types).map(|levels| count(&levels))
}

fn count(levels: &[Params]) -> u64 {
    1 << levels.iter().map(|level| level.height).sum::<u32>()
}

/// Returns the parameters of the levels. Fails as [`Private::generate`] does.
fn levels(types: &[HssType]) -> Result<Vec<Params>> {
    require((1..=super::lms::MAX_LEVELS as usize).contains(&types.len()), Error::Invalid)?;
    let levels: Option<Vec<_>> = types.iter().map(|types| Params::of(types.lms, types.ots)).collect();
    let levels = levels.ok_or(Error::Invalid)?;
    let height = levels.iter().map(|level| level.height).sum::<u32>();
    let same = levels.windows(2).all(|pair| pair[0].hash == pair[1].hash);
    if height <= MOST_USES && same { Ok(levels) } else { Err(Error::Invalid) }
}

/// Locks a mutex, also after a panic in a thread that held the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct PrivateTree {
    tree: Tree,
    seed: Secret,
    /// The height of the subtrees whose nodes are not kept.
    cut: u32,
    /// The nodes from the root (number 1) to the cut. A node has the children `2 * number` and
    /// `2 * number + 1`.
    nodes: Vec<u8>,
    /// The subtree that signed last.
    recent: Mutex<Option<Arc<Subtree>>>,
}

/// The nodes of a subtree below the cut, from its root (number 1).
struct Subtree {
    number: u32,
    nodes: Vec<u8>,
}

impl PrivateTree {
    fn new(params: Params, id: [u8; ID], seed: Secret) -> Self {
        let leaf_hashes = (params.chains() as u64) << params.width;
        let cheap = (SUBTREE_HASHES / leaf_hashes).max(1).ilog2();
        let cut = cheap.max(params.height.saturating_sub(MOST_KEPT)).min(params.height);
        let nodes = vec![0; (2 << (params.height - cut)) * params.hash.n];
        let tree = Tree { params, id, root: [0; MAX_NODE] };
        Self { tree, seed, cut, nodes, recent: Mutex::new(None) }
    }

    /// Returns the number of nodes at the cut.
    fn kept(&self) -> usize {
        1 << (self.tree.params.height - self.cut)
    }

    /// Computes the tree with this number of threads.
    fn generate(
        params: Params,
        id: [u8; ID],
        seed: Secret,
        hashes: &impl Hashes,
        threads: usize,
    ) -> Result<Self> {
        let mut key = Self::new(params, id, seed);
        let (mut nodes, n, kept) = (std::mem::take(&mut key.nodes), params.hash.n, key.kept());
        let part = kept.div_ceil(threads.max(1));
        let compute = |first: usize, out: &mut [u8]| {
            with_wiped_frame(|| {
                out.chunks_exact_mut(n).zip(first as u32..).try_for_each(|(out, number)| {
                    out.copy_from_slice(&key.subtree(hashes, number)?.nodes[n..2 * n]);
                    Ok(())
                })
            })
        };
        let roots = &mut nodes[kept * n..];
        if part == kept {
            compute(0, roots)?;
        } else {
            thread::scope(|scope| {
                let parts = roots.chunks_mut(part * n).enumerate();
                let compute = &compute;
                let start = |(at, out)| {
                    let thread = thread::Builder::new().name("jeton".into());
                    thread.spawn_scoped(scope, move || compute(at * part, out)).map_err(|_| Error::Memory)
                };
                let threads = parts.map(start).collect::<Result<Vec<_>>>()?;
                threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(Error::Library)))
            })?;
        }
        key.nodes = nodes;
        key.finish(hashes)
    }

    /// Reads the identifier, the seed and the nodes at the cut.
    fn parse(params: Params, mut key: &[u8], hashes: &impl Hashes) -> Result<Self> {
        let n = params.hash.n;
        let mut take = |len| node::take(&mut key, len).map_err(|_| Error::Invalid);
        let id = take(ID)?.try_into().map_err(|_| Error::Invalid)?;
        let mut tree = Self::new(params, id, take(n)?.into());
        let kept = tree.kept() * n;
        tree.nodes[kept..].copy_from_slice(take(kept)?);
        if key.is_empty() { tree.finish(hashes) } else { Err(Error::Invalid) }
    }

    /// Computes the nodes above the cut.
    fn finish(mut self, hashes: &impl Hashes) -> Result<Self> {
        let n = self.tree.params.hash.n;
        self.tree.join(hashes, &mut self.nodes, |number| number as u32)?;
        self.tree.root[..n].copy_from_slice(&self.nodes[n..2 * n]);
        Ok(self)
    }

    /// Returns the signature of a message (RFC 8554, 5.4.1).
    fn sign(&self, hashes: &impl Hashes, leaf: u32, message: &[u8]) -> Result<Vec<u8>> {
        let (params, n) = (&self.tree.params, self.tree.params.hash.n);
        let subtree = self.recent(hashes, leaf >> self.cut)?;
        let mut out = Vec::with_capacity(params.signature_len());
        out.extend_from_slice(&leaf.to_be_bytes());
        out.extend_from_slice(&params.ots_type.to_be_bytes());
        let random = self.secret(hashes, leaf, D_RANDOMIZER)?;
        out.extend_from_slice(&random[..n]);
        let hashed = self.tree.message_digest(hashes, leaf, &random[..n], message)?;
        for (chain, digit) in params.digits(&hashed[..n]).into_iter().enumerate() {
            out.extend_from_slice(&self.value(hashes, leaf, chain as u16, 0..digit)?[..n]);
        }
        out.extend_from_slice(&params.lms_type.to_be_bytes());
        let mut extend = |nodes: &[u8], mut number: usize| {
            while number > 1 {
                out.extend_from_slice(&nodes[(number ^ 1) * n..][..n]);
                number >>= 1;
            }
        };
        let leaf = leaf as usize;
        extend(&subtree.nodes, 1 << self.cut | leaf & ((1 << self.cut) - 1));
        extend(&self.nodes, self.kept() | leaf >> self.cut);
        Ok(out)
    }

    /// Returns a subtree, and keeps it for the next signature.
    fn recent(&self, hashes: &impl Hashes, number: u32) -> Result<Arc<Subtree>> {
        let mut recent = lock(&self.recent);
        if let Some(known) = recent.as_ref().filter(|known| known.number == number) {
            return Ok(Arc::clone(known));
        }
        Ok(Arc::clone(recent.insert(Arc::new(self.subtree(hashes, number)?))))
    }

    fn subtree(&self, hashes: &impl Hashes, number: u32) -> Result<Subtree> {
        let (n, leaves) = (self.tree.params.hash.n, 1usize << self.cut);
        let mut nodes = vec![0; 2 * leaves * n];
        for (out, leaf) in nodes[leaves * n..].chunks_exact_mut(n).zip(number << self.cut..) {
            out.copy_from_slice(&self.leaf(hashes, leaf)?[..n]);
        }
        let root = (self.kept() as u32) | number;
        self.tree.join(hashes, &mut nodes, |number| {
            let depth = number.ilog2();
            root << depth | (number as u32 & ((1 << depth) - 1))
        })?;
        Ok(Subtree { number, nodes })
    }

    fn leaf(&self, hashes: &impl Hashes, leaf: u32) -> Result<Node> {
        let params = &self.tree.params;
        let mut ends = Vec::with_capacity(params.chains() * params.hash.n);
        for chain in 0..params.chains() as u16 {
            let end = self.value(hashes, leaf, chain, 0..params.last_digit())?;
            ends.extend_from_slice(&end[..params.hash.n]);
        }
        self.tree.leaf(hashes, leaf, &ends)
    }

    fn value(&self, hashes: &impl Hashes, leaf: u32, chain: u16, steps: Range<u8>) -> Result<Node> {
        let mut value = self.secret(hashes, leaf, chain)?;
        self.tree.advance(hashes, leaf, chain, steps, &mut value[..self.tree.params.hash.n])?;
        Ok(value)
    }

    /// Computes a secret of a leaf from the seed: the start of a chain, or another secret.
    fn secret(&self, hashes: &impl Hashes, leaf: u32, number: u16) -> Result<Node> {
        let numbers = (leaf.to_be_bytes(), number.to_be_bytes());
        self.tree.params.hash.of(hashes, &[&self.tree.id, &numbers.0, &numbers.1, &[D_SEED], &self.seed])
    }
}

#[cfg(test)]
mod tests {
    use jeton_vectors::hex;

    use super::*;
    use crate::testing::Crates;

    /// Public keys and seeds of the samples of ACVP (LMS, keyGen), with heights 5 and 10. A public
    /// key has the types and the identifier.
    #[test]
    fn a_seed_gives_the_public_key_of_acvp() {
        let samples = [
            (
                "0000000A00000006571284648295F8BE3EF86D53828FED4DBA9A7B575BA634DAC138C7D8C3F903BDA344B53230D93C6F",
                "863A95143B2F407A888B271D8C66B96FBB30950352043C7ACE311704E4893C4E",
            ),
            (
                "0000000B00000005E5F6FF4CE8FD40EC16D668BF10C6F0568A6048E3C62C4FFA5021E04BFF03B3688B2386A9223D8672",
                "FD52DCBEDED24485867D117B1C5651F04A37E47DBCB6C197EF74D6968AC2F8E0",
            ),
            (
                "0000000B00000006C9D26767452C2CC63A99A5E7A41B8EADC952B7CEE614C86B9811A1CCE691C53CF438BEAB909777E1",
                "667F08DC9CC7AEC3D879BA8F7C1AD3A77F27F09AC022B6CA7CAD13325C10F0B6",
            ),
            (
                "0000000A00000005B5EE140CAF2D202F4D5B5B7050CBFEDB295AD558D50F4C52531B06165CECCA5AD1711EF216A406B6",
                "5B71348E62B5DF3A019783D40B13BC37C1A0104C84993876FB5F5F0A23978CD1",
            ),
        ];
        for ((public, seed), threads) in samples.into_iter().zip(1..) {
            let public = hex(public);
            let number = |at: usize| u32::from_be_bytes(public[at..at + 4].try_into().expect("a type"));
            let params = Params::of(number(0), number(4)).expect("types");
            let id = public[8..8 + ID].try_into().expect("an identifier");
            let key = PrivateTree::generate(params, id, hex(seed)[..].into(), &Crates, threads);
            assert_eq!(key.expect("a key").tree.encode(), public);
        }
    }
}
