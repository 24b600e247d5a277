//! Sequences of calls of every function.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::Run::of(bytes, &[]));
