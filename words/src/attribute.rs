//! The values of attributes as `C_GetAttributeValue` returns them.

use std::ffi::c_ulong;
use std::ops::Deref;

use crate::id::AttributeType;

/// A value as `C_GetAttributeValue` returns it.
pub enum AttributeView<'a> {
    /// The bytes in the caller's representation.
    Bytes(Shown<'a>),
    /// The attributes of a template.
    Template(Vec<(AttributeType, AttributeView<'a>)>),
    /// The length in the caller's memory of a value that is elsewhere: the caller has no room for
    /// it. Only a connection has such values.
    Length(usize),
}

/// The bytes that the caller gets.
pub enum Shown<'a> {
    /// Borrowed from the object.
    Held(&'a [u8]),
    /// A `CK_ULONG`.
    Number([u8; ULONG]),
    /// Computed for this call.
    Made(Vec<u8>),
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
            Self::Length(len) => AttributeView::Length(len),
        }
    }
}
