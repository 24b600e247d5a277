//! Files with keys and certificates that an attacker wrote.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::import::read(bytes));
