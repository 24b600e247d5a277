//! Hash-based signatures.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::signatures::read(bytes));
