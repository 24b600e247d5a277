//! Templates: the functions that create, copy, change, find and read objects.

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
