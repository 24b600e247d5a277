//! Backups that an attacker wrote or altered.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::backup::read(bytes));
