//! A group of agents that have the shares of split keys. To the application it is one slot; each
//! signature is one of enough agents together. `docs/split-keys.md` describes it.
//!
//! This module relays what the agents say, and adds their shares of a signature. It has no share of
//! a key and no nonce.

mod generation;
mod keys;
mod member;
mod objects;
mod sessions;
mod signature;

pub use sessions::Group;
