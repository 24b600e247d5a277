//! Modes of operation, each written once over a block cipher of a library.

mod blocks;
mod bytes;
mod chain;
mod key_wrap;
mod stream;
mod xts;

pub use blocks::{Blocks, Chain, Ending};
pub use bytes::xor;
pub use chain::{Cbc, Ecb, cs1};
pub use key_wrap::{KeyWrap, Kw, Kwp};
pub use stream::{Cfb, Mode};
pub use xts::{Xts, halves, within_unit};
