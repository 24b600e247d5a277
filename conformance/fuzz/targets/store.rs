//! What stands in a token's file: records, names, summaries and PINs that somebody else wrote.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::store::read(bytes));
