//! Token stores of other programs that an attacker altered.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::migrate::read(bytes));
