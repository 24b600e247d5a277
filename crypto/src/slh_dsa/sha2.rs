//! The hash functions of the SHA-2 parameter sets (FIPS 205, 11.2).

use hmac::{Hmac, KeyInit, Mac};
use sha2::block_api::{compress256, compress512};
use sha2::{Digest, Sha256, Sha512};

use super::address::Address;
use super::hash::{HashFunctions, Input};
use super::lanes;

/// The number of blocks that are prepared before they are hashed.
const BATCH: usize = 16;
/// The length in bytes of the longest list: 67 nodes of 32 bytes, an address and the padding, in
/// blocks of SHA-512.
const LONGEST: usize = 18 * 128;

/// The states of both hashes after their first block, which only depends on PK.seed.
pub(super) struct Sha2<const N: usize> {
    after_seed_256: [u32; 8],
    after_seed_512: [u64; 8],
}

impl<const N: usize> HashFunctions<N> for Sha2<N> {
    fn new(pk_seed: &[u8; N]) -> Self {
        let (mut block_256, mut block_512) = ([0; 64], [0; 128]);
        block_256[..N].copy_from_slice(pk_seed);
        block_512[..N].copy_from_slice(pk_seed);
        let (mut after_seed_256, mut after_seed_512) = (START_256, START_512);
        compress256(&mut after_seed_256, &[block_256]);
        compress512(&mut after_seed_512, &[block_512]);
        Self { after_seed_256, after_seed_512 }
    }

    fn hash<const W: usize>(&self, inputs: &mut [Input<N, W>]) {
        for inputs in inputs.chunks_mut(BATCH) {
            if N == 16 || W == 1 {
                self.hash_256(inputs);
            } else {
                self.hash_512(inputs);
            }
        }
    }

    fn hash_list(&self, address: &Address, nodes: &[[u8; N]]) -> [u8; N] {
        let nodes = nodes.as_flattened();
        let mut blocks = [0; LONGEST];
        let mut out = [0; N];
        if N == 16 {
            let blocks = &mut blocks[..(22 + nodes.len() + 9).next_multiple_of(64)];
            write_last_blocks::<64>(blocks, address, nodes);
            let mut state = self.after_seed_256;
            compress256(&mut state, blocks.as_chunks().0);
            write_256(&state, &mut out);
        } else {
            let blocks = &mut blocks[..(22 + nodes.len() + 17).next_multiple_of(128)];
            write_last_blocks::<128>(blocks, address, nodes);
            let mut state = self.after_seed_512;
            compress512(&mut state, blocks.as_chunks().0);
            write_512(&state, &mut out);
        }
        out
    }

    fn prf_msg(sk_prf: &[u8; N], randomness: &[u8; N], message: &[&[u8]]) -> [u8; N] {
        if N == 16 {
            prf_msg::<Hmac<Sha256>, N>(sk_prf, randomness, message)
        } else {
            prf_msg::<Hmac<Sha512>, N>(sk_prf, randomness, message)
        }
    }

    fn h_msg(r: &[u8; N], public: &[u8], message: &[&[u8]], out: &mut [u8]) {
        if N == 16 {
            h_msg::<Sha256>(r, public, message, out);
        } else {
            h_msg::<Sha512>(r, public, message, out);
        }
    }
}

impl<const N: usize> Sha2<N> {
    fn hash_256<const W: usize>(&self, inputs: &mut [Input<N, W>]) {
        let mut blocks = [[0; 64]; BATCH];
        let mut states = [self.after_seed_256; BATCH];
        for (block, input) in blocks.iter_mut().zip(&*inputs) {
            write_last_blocks::<64>(block, &input.address, input.nodes.as_flattened());
        }
        lanes::sha256::compress_each(&mut states[..inputs.len()], &blocks[..inputs.len()]);
        for (input, state) in inputs.iter_mut().zip(&states) {
            write_256(state, &mut input.nodes[0]);
        }
    }

    fn hash_512<const W: usize>(&self, inputs: &mut [Input<N, W>]) {
        let mut blocks = [[0; 128]; BATCH];
        let mut states = [self.after_seed_512; BATCH];
        for (block, input) in blocks.iter_mut().zip(&*inputs) {
            write_last_blocks::<128>(block, &input.address, input.nodes.as_flattened());
        }
        lanes::sha512::compress_each(&mut states[..inputs.len()], &blocks[..inputs.len()]);
        for (input, state) in inputs.iter_mut().zip(&states) {
            write_512(state, &mut input.nodes[0]);
        }
    }
}

/// Writes the blocks behind the first, and pads them (FIPS 180-4, 5.1). `blocks` is zero, and has
/// the length of the address, the message and the padding, in blocks of `B` bytes.
#[inline(always)]
fn write_last_blocks<const B: usize>(blocks: &mut [u8], address: &Address, message: &[u8]) {
    let len = 22 + message.len();
    blocks[..22].copy_from_slice(&address.compressed());
    blocks[22..len].copy_from_slice(message);
    blocks[len] = 0x80;
    let bits = 8 * (B + len) as u64;
    let end = blocks.len();
    blocks[end - 8..].copy_from_slice(&bits.to_be_bytes());
}

#[inline(always)]
fn write_256<const N: usize>(state: &[u32; 8], out: &mut [u8; N]) {
    for (bytes, word) in out.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
}

#[inline(always)]
fn write_512<const N: usize>(state: &[u64; 8], out: &mut [u8; N]) {
    for (bytes, word) in out.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
}

fn prf_msg<M: Mac + KeyInit, const N: usize>(key: &[u8], randomness: &[u8], message: &[&[u8]]) -> [u8; N] {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of every length");
    mac.update(randomness);
    message.iter().for_each(|part| mac.update(part));
    let mut out = [0; N];
    out.copy_from_slice(&mac.finalize().into_bytes()[..N]);
    out
}

/// MGF1(R || PK.seed || hash(R || PK.seed || PK.root || M), m).
fn h_msg<D: Digest + Clone>(r: &[u8], public: &[u8], message: &[&[u8]], out: &mut [u8]) {
    let mut inner = D::new_with_prefix(r).chain_update(public);
    message.iter().for_each(|part| inner.update(part));
    let inner = inner.finalize();
    let seed = D::new_with_prefix(r).chain_update(&public[..r.len()]).chain_update(inner);
    for (counter, part) in (0u32..).zip(out.chunks_mut(<D as Digest>::output_size())) {
        let mask = seed.clone().chain_update(counter.to_be_bytes()).finalize();
        part.copy_from_slice(&mask[..part.len()]);
    }
}

/// FIPS 180-4, 5.3.3.
const START_256: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];
/// FIPS 180-4, 5.3.5.
const START_512: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];
