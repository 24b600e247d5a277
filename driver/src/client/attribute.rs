//! Templates and mechanisms as a caller writes them.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_BBOOL, CK_FALSE, CK_MECHANISM, CK_MECHANISM_TYPE, CK_TRUE, CK_ULONG,
};

use super::memory::Memory;

/// One attribute of a template: its type and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// `CKA_…`
    pub kind: CK_ATTRIBUTE_TYPE,
    /// The value as it lies in memory.
    pub value: Vec<u8>,
}

impl Attribute {
    /// A byte array, a string, a big integer, or anything else already in its form.
    pub fn bytes(kind: CK_ATTRIBUTE_TYPE, value: impl Into<Vec<u8>>) -> Self {
        Self { kind, value: value.into() }
    }

    /// A `CK_BBOOL`.
    pub fn flag(kind: CK_ATTRIBUTE_TYPE, value: bool) -> Self {
        let value: CK_BBOOL = if value { CK_TRUE } else { CK_FALSE };
        Self::bytes(kind, [value])
    }

    /// A `CK_ULONG`: a class, a key type, a length.
    pub fn number(kind: CK_ATTRIBUTE_TYPE, value: CK_ULONG) -> Self {
        Self::bytes(kind, value.to_ne_bytes())
    }
}

/// A mechanism with its parameter, the bytes of the parameter's C structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// `CKM_…`
    pub kind: CK_MECHANISM_TYPE,
    /// Empty: no parameter, a NULL pointer.
    pub parameter: Vec<u8>,
    /// What the structure points to; [`Structure::mechanism`](super::Structure::mechanism) makes such a mechanism.
    pub(super) held: Vec<Memory>,
}

impl Mechanism {
    /// A mechanism without parameter.
    pub const fn new(kind: CK_MECHANISM_TYPE) -> Self {
        Self { kind, parameter: Vec::new(), held: Vec::new() }
    }

    /// A mechanism whose parameter is made of `CK_ULONG`s, as `CK_RSA_PKCS_PSS_PARAMS` is.
    pub fn with_numbers(kind: CK_MECHANISM_TYPE, numbers: &[CK_ULONG]) -> Self {
        let parameter = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Self { kind, parameter, held: Vec::new() }
    }

    /// A mechanism whose parameter is these bytes, an initialisation vector for example.
    pub fn with_bytes(kind: CK_MECHANISM_TYPE, bytes: &[u8]) -> Self {
        Self { kind, parameter: bytes.to_vec(), held: Vec::new() }
    }

    /// The C structure, which borrows `self`: modules take it as input and do not write to it.
    pub(super) fn as_raw(&self) -> CK_MECHANISM {
        let pointer =
            if self.parameter.is_empty() { std::ptr::null_mut() } else { self.parameter.as_ptr().cast_mut() };
        CK_MECHANISM {
            mechanism: self.kind,
            pParameter: pointer.cast(),
            ulParameterLen: self.parameter.len() as CK_ULONG,
        }
    }
}

/// The C structures of a template, which borrow `template`: modules take them as input and do not write to them.
pub(super) fn as_raw(template: &[Attribute]) -> Vec<CK_ATTRIBUTE> {
    template
        .iter()
        .map(|attribute| CK_ATTRIBUTE {
            type_: attribute.kind,
            pValue: attribute.value.as_ptr().cast_mut().cast(),
            ulValueLen: attribute.value.len() as CK_ULONG,
        })
        .collect()
}
