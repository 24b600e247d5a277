//! Sequences of calls of all functions in the table `calls::ALL`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::Run::of(bytes, &[]));
