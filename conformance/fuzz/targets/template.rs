//! Templates: the functions that create, copy, change, find and read objects.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::targets::template(bytes));
