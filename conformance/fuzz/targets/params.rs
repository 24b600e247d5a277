//! The parameters of mechanisms.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::targets::params(bytes));
