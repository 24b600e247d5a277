//! The hash functions of the SHAKE parameter sets (FIPS 205, 11.1). Each is SHAKE256 of its inputs
//! in a row.

use shake::Shake256;
use shake::digest::{ExtendableOutput, Update};

use super::address::Address;
use super::hash::{HashFunctions, Input};
use super::lanes::keccak::{Keccak, LANES, States};

/// The rate of SHAKE256 in 64-bit words.
const RATE: usize = 136 / 8;

pub(super) struct Shake<const N: usize> {
    pk_seed: [u8; N],
    /// Hashes several inputs at once, if the processor can.
    lanes: Option<Keccak>,
}

impl<const N: usize> HashFunctions<N> for Shake<N> {
    fn new(pk_seed: &[u8; N]) -> Self {
        Self { pk_seed: *pk_seed, lanes: Keccak::detect() }
    }

    fn hash<const W: usize>(&self, inputs: &mut [Input<N, W>]) {
        let Some(lanes) = self.lanes else {
            for input in inputs {
                input.nodes[0] = self.hash_list(&input.address, &input.nodes);
            }
            return;
        };
        for inputs in inputs.chunks_mut(LANES) {
            let mut sponges = Sponges::new(lanes);
            for (lane, input) in inputs.iter().enumerate() {
                sponges.absorb(lane, [&self.pk_seed, input.address.bytes(), input.nodes.as_flattened()]);
            }
            lanes.permute(&mut sponges.states);
            for (lane, input) in inputs.iter_mut().enumerate() {
                sponges.squeeze(lane, &mut input.nodes[0]);
            }
        }
    }

    fn hash_list(&self, address: &Address, nodes: &[[u8; N]]) -> [u8; N] {
        let parts = [&self.pk_seed, &address.bytes()[..], nodes.as_flattened()];
        let mut out = [0; N];
        if let Some(lanes) = self.lanes {
            // One of the lanes takes less time than the crate.
            let mut sponges = Sponges::new(lanes);
            sponges.absorb(0, parts);
            lanes.permute(&mut sponges.states);
            sponges.squeeze(0, &mut out);
        } else {
            shake256(&parts, &[], &mut out);
        }
        out
    }

    fn prf_msg(sk_prf: &[u8; N], randomness: &[u8; N], message: &[&[u8]]) -> [u8; N] {
        let mut out = [0; N];
        shake256(&[sk_prf, randomness], message, &mut out);
        out
    }

    fn h_msg(r: &[u8; N], public: &[u8], message: &[&[u8]], out: &mut [u8]) {
        shake256(&[r, public], message, out);
    }
}

/// A sponge of SHAKE256 in each lane.
struct Sponges {
    lanes: Keccak,
    states: States,
}

impl Sponges {
    fn new(lanes: Keccak) -> Self {
        Self { lanes, states: Default::default() }
    }

    /// Absorbs the input of a lane, in parts of whole words, up to the last permutation. Only a
    /// lane that is used alone takes more than one block.
    fn absorb(&mut self, lane: usize, parts: [&[u8]; 3]) {
        let mut position = 0;
        for part in parts {
            for word in part.as_chunks().0 {
                self.states[position][lane] ^= u64::from_le_bytes(*word);
                position += 1;
                if position == RATE {
                    self.lanes.permute(&mut self.states);
                    position = 0;
                }
            }
        }
        // FIPS 202, 6.2 and 5.1: the suffix of SHAKE and the padding.
        self.states[position][lane] ^= 0x1f;
        self.states[RATE - 1][lane] ^= 1 << 63;
    }

    fn squeeze(&self, lane: usize, out: &mut [u8]) {
        for (bytes, word) in out.as_chunks_mut().0.iter_mut().zip(&self.states) {
            *bytes = word[lane].to_le_bytes();
        }
    }
}

fn shake256(start: &[&[u8]], message: &[&[u8]], out: &mut [u8]) {
    let mut hasher = Shake256::default();
    start.iter().chain(message).for_each(|part| hasher.update(part));
    hasher.finalize_xof_into(out);
}
