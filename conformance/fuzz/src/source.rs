//! Values from the fuzzer's bytes. When these are used up, every choice is the first one. The run
//! then ends before its next call.

use arbitrary::Unstructured;
use cryptoki_sys::{CK_BBOOL, CK_ULONG};

/// Byte strings that reach more code than arbitrary ones.
const KNOWN: [&[u8]; 14] = [
    b"1234",
    b"user pin",
    b"so pin",
    // Object identifiers of P-256, P-384, secp256k1, Ed25519 and X25519, and the curve name
    // "edwards25519".
    &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
    &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22],
    &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x0a],
    &[0x06, 0x03, 0x2b, 0x65, 0x70],
    &[0x06, 0x03, 0x2b, 0x65, 0x6e],
    &[0x13, 0x0c, 0x65, 0x64, 0x77, 0x61, 0x72, 0x64, 0x73, 0x32, 0x35, 0x35, 0x31, 0x39],
    // Public exponents, a date, DER of an empty sequence and of a short octet string.
    &[1, 0, 1],
    &[3],
    b"20240229",
    &[0x30, 0x00],
    &[0x04, 0x02, 0x01, 0x02],
];

pub(crate) struct Source<'a>(Unstructured<'a>);

impl<'a> Source<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or_default()
    }

    /// Returns a number below `end`. `end` must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.int_in_range(0..=end - 1).unwrap_or_default()
    }

    /// Returns true once in `of` times, on average.
    pub(crate) fn once_in(&mut self, of: usize) -> bool {
        self.below(of) == of - 1
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Returns a small number, a boundary value, or any number.
    pub(crate) fn number(&mut self) -> CK_ULONG {
        match self.below(8) {
            0..4 => self.byte().into(),
            4 => 1 << self.below(64),
            5 => (1 << self.below(64)) - 1,
            6 => CK_ULONG::MAX - CK_ULONG::from(self.byte()),
            _ => self.0.arbitrary().unwrap_or_default(),
        }
    }

    pub(crate) fn boolean(&mut self) -> CK_BBOOL {
        if self.once_in(32) { self.byte() } else { self.byte() & 1 }
    }

    /// Returns a byte string of at most a few thousand bytes.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 => Vec::new(),
            1 => self.one(&KNOWN).to_vec(),
            2 => vec![self.byte(); self.below(4096)],
            3 => vec![self.byte(); 1 << self.below(10)],
            4 => self.taken(255),
            5 => self.taken(16),
            6 => self.taken(32),
            _ => self.taken(65),
        }
    }

    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.0.bytes(self.0.len()).unwrap_or_default().to_vec()
    }

    fn taken(&mut self, most: usize) -> Vec<u8> {
        let len = self.below(most + 1).min(self.0.len());
        self.0.bytes(len).unwrap_or_default().to_vec()
    }
}
