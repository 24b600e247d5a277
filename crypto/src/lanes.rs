//! Eight computations at once, in the lanes of AVX-512 IFMA, for callers that wait anyway.
//!
//! [`queue`] brings callers together. `montgomery` computes with eight numbers at once, and
//! `rsa` and `prime` are made of it. No branch and no address depends on a secret.

mod montgomery;
mod prime;
mod queue;
mod rsa;
mod vector;

pub use prime::primes;
pub use queue::{Joined, Permit, Queue, allow, most};
pub use rsa::{Job, Key, queue};
