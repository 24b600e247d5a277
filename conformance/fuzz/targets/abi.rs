//! Calls of all functions.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::targets::abi(bytes));
