//! The values of attributes as `C_GetAttributeValue` returns them.

use std::ffi::c_ulong;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::id::AttributeType;

/// A value as `C_GetAttributeValue` returns it.
#[derive(Serialize, Deserialize)]
pub enum AttributeView<'a> {
    /// The bytes in the caller's representation.
    Bytes(#[serde(borrow)] Shown<'a>),
    /// The attributes of a template.
    Template(#[serde(borrow)] Vec<(AttributeType, AttributeView<'a>)>),
}

/// The bytes that the caller gets.
#[derive(Serialize, Deserialize)]
pub enum Shown<'a> {
    /// Borrowed from the object.
    Held(#[serde(borrow, with = "serde_bytes")] &'a [u8]),
    /// A `CK_ULONG`.
    Number([u8; ULONG]),
    /// Computed for this call.
    Made(#[serde(with = "serde_bytes")] Vec<u8>),
}

impl Shown<'_> {
    /// Returns the bytes as a vector.
    pub fn into_owned(self) -> Vec<u8> {
        match self {
            Self::Made(bytes) => bytes,
            bytes => bytes.to_vec(),
        }
    }
}

impl Deref for Shown<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Held(bytes) => bytes,
            Self::Number(bytes) => bytes,
            Self::Made(bytes) => bytes,
        }
    }
}

/// The size of a `CK_ULONG` in the caller's memory.
pub const ULONG: usize = size_of::<c_ulong>();

impl AttributeView<'_> {
    /// Returns the view of a `CK_BBOOL`.
    pub fn flag(flag: bool) -> Self {
        Self::Bytes(Shown::Held(if flag { &[1] } else { &[0] }))
    }

    /// Returns the same view with its own copy of the bytes.
    pub fn into_owned(self) -> AttributeView<'static> {
        match self {
            Self::Bytes(bytes) => AttributeView::Bytes(Shown::Made(bytes.into_owned())),
            Self::Template(within) => AttributeView::Template(
                within.into_iter().map(|(id, view)| (id, view.into_owned())).collect(),
            ),
        }
    }
}
