//! The message-based functions. Each chapter of the specification is a file.

mod crypt;
mod decrypt;
mod encrypt;
mod sign;
mod verify;

pub(crate) use decrypt::*;
pub(crate) use encrypt::*;
pub(crate) use sign::*;
pub(crate) use verify::*;
