//! The arguments of functions as they travel.
//!
//! None of these types contains itself, so that the memory of a decoded message does not depend on
//! what the peer sends: byte strings are borrowed from the message, and an [`Image`] is one of
//! them.

use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use crate::image::Image;

/// An argument of a call as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub enum Argument<'a> {
    /// A number.
    Number(u64),
    /// A pointer that nothing reads. True unless it is `NULL`.
    Pointer(bool),
    /// Bytes.
    Input(#[serde(borrow)] Input<'a>),
    /// A buffer in the two-call convention, or a list of numbers: whether the pointer is not
    /// `NULL`, and the room. `None` if the pointer to the length is `NULL`.
    Output(bool, Option<u64>),
    /// A mechanism; `None` for `NULL`.
    Mechanism(Option<u64>, #[serde(borrow)] Content<'a>),
    /// The parameter of a message.
    Parameter(#[serde(borrow)] Content<'a>),
    /// Attributes: their number. `None` for `NULL`, or if they are more than any function reads.
    Template(u64, #[serde(borrow)] Option<Image<'a>>),
}

impl Argument<'_> {
    /// Takes the memory of a length away, so that the function refuses the call. Then it ends its
    /// operation, as PKCS#11 demands of a call that fails. All arguments of a call are spoiled
    /// together: one `NULL` alone could mean that more parts follow.
    pub fn spoil(&mut self) {
        match self {
            Self::Input(input) => *input = Input::Absent(u64::MAX),
            Self::Output(_, room) => *room = None,
            _ => {}
        }
    }
}

/// Bytes of the application.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Input<'a> {
    /// `NULL`, with this length.
    Absent(u64),
    /// A pointer with this length, which no memory has, or which is too long for its function.
    Impossible(u64),
    /// The bytes.
    Data(#[serde(borrow)] &'a Bytes),
}

/// A parameter.
#[derive(Debug, Serialize, Deserialize)]
pub enum Content<'a> {
    /// `NULL`, or a parameter that no function reads, with its length. True unless it is `NULL`.
    Unread(bool, u64),
    /// Bytes without pointers.
    Plain(#[serde(borrow)] &'a Bytes),
    /// A struct with pointers, of this number of bytes.
    Struct(u64, #[serde(borrow)] Image<'a>),
}
