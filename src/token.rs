//! A token: its PINs and its objects, which all applications of a process share.

mod client;
mod commit;
mod epoch;
mod known_pin;
mod load;
mod objects;
mod pin;
mod poll;
mod queue;
mod reserve;
mod rewrite;
mod search;
mod state;
mod tally;
mod uses;
mod walk;

pub use client::{ClientToken, Identity};
pub use objects::with_handle;
pub(crate) use pin::fits;
pub(crate) use rewrite::{NewPins, Rekey, Sealing, Serials};
pub use state::Token;
pub(crate) use state::{Remains, new_serial};
