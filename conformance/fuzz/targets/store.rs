//! The content of a token's file: records, index keys, summaries and PIN records that an attacker
//! wrote.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::store::read(bytes));
