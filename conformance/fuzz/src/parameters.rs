//! Mechanisms and their parameters: each structure of the standard with arbitrary values in its
//! fields, and sometimes with a wrong length.

use std::ffi::c_void;
use std::ptr::null_mut;

use cryptoki_sys::*;
use jeton_names::parameter::parameter;
use jeton_names::structs::{
    Count, DERIVED_KEY, Flow, ITERATIONS, Layout, Len, PEER, PRF_DATA, Parameter, TLS_BITS, Target, Value,
};

use crate::run::Run;

const HASHES: [CK_MECHANISM_TYPE; 6] =
    [CKM_SHA256, CKM_SHA_1, CKM_SHA512, CKM_SHA3_256, CKM_SHA384, CKM_SHA224];
const PRFS: [CK_MECHANISM_TYPE; 5] =
    [CKM_SHA256_HMAC, CKM_AES_CMAC, CKM_AES_XCBC_MAC, CKM_SHA_1_HMAC, CKM_SHA512_HMAC];
const AEADS: [CK_MECHANISM_TYPE; 3] = [CKM_AES_GCM, CKM_AES_CCM, CKM_CHACHA20_POLY1305];
/// Lengths of nonces and initialisation vectors.
const SHORT: [usize; 8] = [12, 16, 8, 13, 7, 1, 4, 128];
/// A run has no time for more iterations of PBKDF2, unless the module refuses them.
const MANY: CK_ULONG = 100;

/// The bytes of a structure, and their number.
type Bytes = (*mut u8, usize);

impl Run<'_> {
    /// Returns a mechanism, or `NULL`, which ends an operation.
    pub(crate) fn mechanism(&mut self) -> *mut CK_MECHANISM {
        if self.source.once_in(32) {
            return null_mut();
        }
        let mechanism = self.mechanism_number();
        let kind = parameter(mechanism, None);
        let (parameter, len) = match kind.layouts() {
            _ if self.source.once_in(32) => self.plain(),
            [] if kind == Parameter::None => (null_mut(), 0),
            [] => self.short(),
            layouts => self.one_of(layouts),
        };
        let (pParameter, ulParameterLen) = self.cut(parameter, len);
        self.memory.put(CK_MECHANISM { mechanism, pParameter, ulParameterLen })
    }

    /// Returns the parameter of a message. [`len`](Self::len) returns its length.
    pub(crate) fn parameter(&mut self) -> *mut c_void {
        let (parameter, len) = match self.source.below(8) {
            0 => (null_mut(), 0),
            _ => self.one_of(Parameter::Message.layouts()),
        };
        let (parameter, len) = self.cut(parameter, len);
        self.next_len = len;
        parameter
    }

    pub(crate) fn message_mechanism(&mut self) -> *mut CK_MECHANISM {
        let mechanism = if self.source.once_in(16) { CKM_AES_CBC } else { self.source.one(&AEADS) };
        let pParameter = self.parameter();
        self.memory.put(CK_MECHANISM { mechanism, pParameter, ulParameterLen: self.next_len })
    }

    /// Returns a mechanism for authenticated wrapping. An AEAD cipher gets the parameter of a
    /// message. Another structure of the same length is not allowed, because it may have a number
    /// where the module reads a pointer.
    pub(crate) fn wrapping_mechanism(&mut self) -> *mut CK_MECHANISM {
        let given = self.mechanism();
        // SAFETY: NULL, or made just now.
        let taken = !given.is_null() && AEADS.contains(&unsafe { given.read_unaligned() }.mechanism);
        if taken || self.source.once_in(2) { self.message_mechanism() } else { given }
    }

    pub(crate) fn mechanism_number(&mut self) -> CK_MECHANISM_TYPE {
        if self.source.once_in(64) {
            return self.source.number();
        }
        let index = self.source.below(self.token.mechanisms.len());
        self.token.mechanisms[index]
    }

    /// Returns the parameter, usually unchanged. A length that is shorter than the structure is
    /// odd. No structure has an odd length, so the module reads no pointer from such a parameter.
    fn cut(&mut self, parameter: *mut u8, len: usize) -> (*mut c_void, CK_ULONG) {
        let len = match self.source.below(32) {
            29 => CK_ULONG::MAX - CK_ULONG::from(self.source.byte()),
            30 => return (null_mut(), self.source.number()),
            31 if len > 2 => (self.source.below(len - 1) | 1) as CK_ULONG,
            _ => len as CK_ULONG,
        };
        (parameter.cast(), len)
    }

    /// Returns an odd number of bytes. The module reads no pointer from them, because structures
    /// with pointers are a whole number of words.
    fn plain(&mut self) -> Bytes {
        let mut bytes = self.source.bytes();
        if bytes.len().is_multiple_of(2) {
            bytes.push(0);
        }
        (self.memory.copy(&bytes), bytes.len())
    }

    /// Returns the bytes of an initialisation vector, or others.
    fn short(&mut self) -> Bytes {
        let mut bytes = self.source.bytes();
        if !self.source.once_in(8) {
            bytes.resize(self.source.one(&SHORT), 0);
        }
        (self.memory.copy(&bytes), bytes.len())
    }

    fn one_of(&mut self, layouts: &[&'static Layout]) -> Bytes {
        let layout = self.source.one(layouts);
        let bytes = self.structure(layout, &[]);
        (self.memory.copy(&bytes), layout.size)
    }

    /// Returns the bytes of a structure. Its pointers point to memory of the run. `owner` is the
    /// structure that points to this one.
    fn structure(&mut self, layout: &'static Layout, owner: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; layout.size];
        for (at, value) in layout.values {
            self.field(&mut bytes[*at..], *value);
        }
        let mut output = null_mut();
        for pointer in layout.pointers {
            let (place, len) = match &pointer.target {
                Target::Structs { layout, count } => self.structures(layout, count, &bytes),
                _ if std::ptr::eq(layout, &raw const PRF_DATA) => self.prf_value(),
                Target::Bytes { len: Len::Behind(_), .. } => (output, 0),
                // The number of bytes of the output.
                Target::Bytes { flow: Flow::Both, len: Len::Fixed(8), .. } => {
                    output = self.room();
                    (self.room_len().cast(), 0)
                }
                Target::Bytes { len, limit, .. } => self.behind(len, *limit, owner),
                Target::Value(_) => (null_mut(), 0),
            };
            word(&mut bytes[pointer.at..], place.expose_provenance() as CK_ULONG);
            let field = match &pointer.target {
                Target::Bytes { len: Len::Password(at), .. } => Some((*at, self.password_len(len))),
                Target::Bytes { len: by, .. } => by.field().map(|at| (at, len)),
                Target::Structs { count: Count::Field(at, _), .. } => Some((*at, len)),
                _ => None,
            };
            if let Some((at, len)) = field {
                word(&mut bytes[at..], len);
            }
        }
        bytes
    }

    fn field(&mut self, field: &mut [u8], value: Value) {
        let number = match value {
            Value::Flag(usual) => {
                field[0] = if self.source.once_in(2) { usual } else { self.source.boolean() };
                return;
            }
            Value::Bytes(len) => return field[..len].fill(self.source.byte()),
            Value::Object => self.object(),
            _ if self.source.once_in(16) => self.source.number(),
            Value::TlsHash if self.source.once_in(4) => CKM_TLS_PRF,
            Value::Hash | Value::TlsHash => self.source.one(&HASHES),
            Value::Prf => self.source.one(&PRFS),
            Value::Of(all) | Value::Among(all) => self.source.one(all),
            Value::Range(least, most) => {
                let near = least.wrapping_add(self.source.below(20) as CK_ULONG);
                self.source.one(&[near, least, most + 1, least.wrapping_sub(1)])
            }
            Value::Bits(_) => 8 * self.source.below(33) as CK_ULONG,
            Value::Any(usual) => {
                if self.source.once_in(2) {
                    self.source.byte().into()
                } else {
                    usual
                }
            }
        };
        let is_slow = matches!(value, Value::Range(_, ITERATIONS)) && (MANY..=ITERATIONS).contains(&number);
        let number = if is_slow { MANY } else { number };
        word(field, number);
    }

    /// Returns memory for the bytes behind a pointer of a structure, and their number.
    fn behind(&mut self, len: &Len, limit: u64, owner: &[u8]) -> (*mut u8, CK_ULONG) {
        let most = usize::try_from(limit).unwrap_or_default();
        match len {
            // Such a pointer is `NULL`.
            _ if most == 0 => (null_mut(), 0),
            _ if len.field().is_none() && self.source.once_in(16) => (null_mut(), 0),
            Len::Password(_) => {
                let password = self.source.bytes();
                (self.memory.copy(&password), password.len() as CK_ULONG)
            }
            Len::BitsOfOwner(at) => {
                // The module refuses more bits, so a larger buffer is not needed.
                let bits = CK_ULONG::from_ne_bytes(owner[*at..*at + 8].try_into().expect("8 bytes"));
                (self.memory.copy(&vec![0; if bits <= TLS_BITS { bits as usize / 8 } else { 0 }]), 0)
            }
            // The module reads or writes at most this number of bytes.
            _ if len.field().is_none() => (self.memory.copy(&vec![0; most]), 0),
            _ if limit == PEER => self.peer(),
            _ if limit == 8 && self.source.once_in(2) => {
                let number = self.source.number();
                (self.memory.copy(&number.to_ne_bytes()), 8)
            }
            _ if self.source.once_in(4) == (limit != 13) => {
                let len = self.source.one(&SHORT);
                (self.memory.copy(&vec![0; len]), len as CK_ULONG)
            }
            _ => self.input(),
        }
    }

    fn structures(&mut self, layout: &'static Layout, count: &Count, owner: &[u8]) -> (*mut u8, CK_ULONG) {
        let count = match count {
            Count::One => usize::from(!self.source.once_in(16)),
            Count::Field(..) => self.source.below(5),
        };
        let is_key = std::ptr::eq(layout, &raw const DERIVED_KEY);
        let all: Vec<u8> = (0..count)
            .flat_map(|_| if is_key { self.derived_key() } else { self.structure(layout, owner) })
            .collect();
        let len = if self.source.once_in(16) { 65 } else { count as CK_ULONG };
        (if count == 0 { null_mut() } else { self.memory.copy(&all) }, len)
    }

    fn derived_key(&mut self) -> Vec<u8> {
        let (template, count, key) = (self.attributes(), self.len(), self.handle());
        let words = [template.expose_provenance() as CK_ULONG, count, key.expose_provenance() as CK_ULONG];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// Returns the value of an input field of SP 800-108.
    fn prf_value(&mut self) -> (*mut u8, CK_ULONG) {
        let (dkmLengthMethod, bLittleEndian) = (self.source.below(4) as CK_ULONG, self.source.boolean());
        let ulWidthInBits = CK_ULONG::from(self.source.byte() & 0x48);
        match self.source.below(5) {
            0 => self.input(),
            1 => (null_mut(), 0),
            2 => self.put(CK_SP800_108_COUNTER_FORMAT { bLittleEndian, ulWidthInBits }),
            3 => self.put(CK_SP800_108_DKM_LENGTH_FORMAT { dkmLengthMethod, bLittleEndian, ulWidthInBits }),
            _ => {
                let key = self.object();
                self.put(key)
            }
        }
    }

    fn put<T: Copy>(&mut self, value: T) -> (*mut u8, CK_ULONG) {
        (self.memory.put(value).cast(), size_of::<T>() as CK_ULONG)
    }

    /// Returns the length of a password, or its address, which the older structure has.
    fn password_len(&mut self, len: CK_ULONG) -> CK_ULONG {
        if !self.source.once_in(4) {
            return len;
        }
        let place = Box::leak(Box::new(len));
        self.lengths.push(place);
        std::ptr::from_mut(place).expose_provenance() as CK_ULONG
    }

    /// Returns a public key of the token, sometimes altered, or other bytes.
    fn peer(&mut self) -> (*mut u8, CK_ULONG) {
        if self.source.once_in(2) {
            return self.input();
        }
        let index = self.source.below(self.token.points.len());
        let mut point = self.token.points[index].clone();
        if self.source.once_in(4) {
            let at = self.source.below(point.len());
            point[at] ^= self.source.byte();
        }
        (self.memory.copy(&point), point.len() as CK_ULONG)
    }
}

fn word(field: &mut [u8], number: CK_ULONG) {
    field[..8].copy_from_slice(&number.to_ne_bytes());
}
