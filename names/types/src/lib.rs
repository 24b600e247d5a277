//! The C types of PKCS#11 as a 64-bit Linux has them: numbers of 64 bits in structs with padding.
//! They are those of `cryptoki-sys`, but for Windows: there the programs have other ones, which the
//! C interface reads. The numbers of the specification have these types, as in messages.

#![allow(missing_docs, non_camel_case_types, non_snake_case, reason = "the names are the specification's")]
#![allow(clippy::missing_safety_doc, clippy::type_complexity, reason = "the specification's")]

include!(concat!(env!("OUT_DIR"), "/types.rs"));
