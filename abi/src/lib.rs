//! `libjeton_pkcs11.so`: the C interface of PKCS#11 3.2 over the core's [`Module`](jeton::module::Module).
//!
//! A chapter of the specification's "Functions" is a file here, and a function is a few lines: C memory becomes a typed
//! value (`input`, `params`), the module is called, the outcome becomes a `CK_RV` (`call`). What a session, an object or
//! a token *is* stands in the core, which knows no C.
//!
//! # Safety
//!
//! Every exported function takes the pointers that PKCS#11 says it takes. The application guarantees that one which is
//! not `NULL` points to memory of the type and length that the call names, readable or writable as the specification
//! says, and that no other thread writes there until the call returns. Alignment is not asked for, and input may overlap
//! output. The `SAFETY` comments call this *the contract of PKCS#11*.

#![allow(non_snake_case, reason = "the exported names are the specification's")]

mod call;
mod fork;
mod input;
mod list;
mod number;
mod params;
mod sync;

mod asynchronous;
mod decrypt;
mod derive;
mod digest;
mod dual;
mod encrypt;
mod find;
mod info;
mod init;
mod kem;
mod key;
mod message;
mod object;
mod parallel;
mod random;
mod recover;
mod session;
mod sign;
mod slot;
mod verify;
mod verify_signature;
mod wrap;
mod wrap_authenticated;

pub use list::{C_GetFunctionList, C_GetInterface, C_GetInterfaceList};
