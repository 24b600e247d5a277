//! Templates: every function that takes one and makes, changes, finds or reads objects with it.

#![no_main]

const FUNCTIONS: [&str; 8] = [
    "C_CreateObject",
    "C_CopyObject",
    "C_SetAttributeValue",
    "C_GetAttributeValue",
    "C_FindObjectsInit",
    "C_FindObjects",
    "C_FindObjectsFinal",
    "C_GetObjectSize",
];

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| jeton_fuzz::Run::of(bytes, &FUNCTIONS));
