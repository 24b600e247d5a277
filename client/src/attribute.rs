//! The attributes and mechanisms that a caller passes to a module.

use cryptoki_sys::{
    CK_ATTRIBUTE, CK_ATTRIBUTE_TYPE, CK_BBOOL, CK_FALSE, CK_MECHANISM, CK_MECHANISM_TYPE, CK_TRUE, CK_ULONG,
};

use super::memory::{Memory, Structure};

/// One attribute of a template: its type and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The type, `CKA_…`.
    pub kind: CK_ATTRIBUTE_TYPE,
    /// The value in the form that C expects.
    pub value: Vec<u8>,
}

impl Attribute {
    /// Makes an attribute from a value in its C form, for example a byte array, a string or a big
    /// integer.
    pub fn bytes(kind: CK_ATTRIBUTE_TYPE, value: impl Into<Vec<u8>>) -> Self {
        Self { kind, value: value.into() }
    }

    /// Makes an attribute whose value is a `CK_BBOOL`.
    pub fn flag(kind: CK_ATTRIBUTE_TYPE, value: bool) -> Self {
        let value: CK_BBOOL = if value { CK_TRUE } else { CK_FALSE };
        Self::bytes(kind, [value])
    }

    /// Makes an attribute whose value is a `CK_ULONG`, for example an object class, a key type or a
    /// length.
    pub fn number(kind: CK_ATTRIBUTE_TYPE, value: CK_ULONG) -> Self {
        Self::bytes(kind, value.to_ne_bytes())
    }
}

/// A mechanism with its parameter in the form that C expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The type, `CKM_…`.
    pub kind: CK_MECHANISM_TYPE,
    /// The parameter. If it is empty, the pointer is NULL.
    pub parameter: Vec<u8>,
    /// The memory that the pointers in `parameter` point to. It is empty unless
    /// [`Structure::mechanism`](super::Structure::mechanism) made the mechanism.
    pub(super) held: Vec<Memory>,
}

impl Structure {
    /// Makes a mechanism with this structure as its parameter.
    pub fn mechanism(self, kind: CK_MECHANISM_TYPE) -> Mechanism {
        let (memory, held) = self.finish();
        Mechanism { kind, parameter: memory.bytes(), held }
    }
}

impl Mechanism {
    /// Makes a mechanism without a parameter.
    pub const fn new(kind: CK_MECHANISM_TYPE) -> Self {
        Self { kind, parameter: Vec::new(), held: Vec::new() }
    }

    /// Makes a mechanism whose parameter consists of `CK_ULONG`s, such as `CK_RSA_PKCS_PSS_PARAMS`.
    pub fn with_numbers(kind: CK_MECHANISM_TYPE, numbers: &[CK_ULONG]) -> Self {
        let parameter = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        Self { kind, parameter, held: Vec::new() }
    }

    /// Makes a mechanism whose parameter is these bytes, for example an initialisation vector.
    pub fn with_bytes(kind: CK_MECHANISM_TYPE, bytes: &[u8]) -> Self {
        Self { kind, parameter: bytes.to_vec(), held: Vec::new() }
    }

    /// Returns the C structure. It points to the memory of `self`, which modules read and do not
    /// write to.
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

/// Returns the C structures of a template. They point to the memory of `template`, which modules
/// read and do not write to.
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

#[cfg(test)]
mod tests {
    use cryptoki_sys::CK_CCM_PARAMS;

    use super::*;

    #[test]
    fn a_mechanism_owns_the_memory_of_its_parameter() {
        let made = Structure::new().number(1).bytes(b"nonce").bytes(b"data").number(16);
        let mechanism = made.mechanism(cryptoki_sys::CKM_AES_CCM);
        assert_eq!(mechanism.parameter.len(), size_of::<CK_CCM_PARAMS>());
        assert_eq!(mechanism.clone().held, mechanism.held);
    }
}
