//! `libjeton_pkcs11.so`: the C interface of PKCS#11 3.2 over the core's
//! [`Module`](jeton::functions::Module).
//!
//! Each file with exported functions implements a section of the specification's chapter
//! "Functions", a part of a section, or two sections that differ only in the direction. Each
//! function has only a few lines. It converts C memory to typed values (`input`, `params`), calls
//! the module or a session (`operation`), and converts the result to a `CK_RV` (`call`). The core
//! implements sessions, objects and tokens, without C pointers.
//!
//! # Safety
//!
//! Every exported function takes the pointers of its PKCS#11 declaration. The application
//! guarantees that a pointer other than `NULL` points to memory of the type and length in the call.
//! This memory is readable or writable as the specification says, and no other thread writes there
//! until the call returns. Alignment is not required, and input may overlap output. The `SAFETY`
//! comments call this *the contract of PKCS#11*.

#![allow(non_snake_case, reason = "the exported names are the specification's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of PKCS#11 above holds for every exported function"
)]

mod call;
mod input;
mod list;
mod number;
mod operation;
mod otp;
mod params;
mod sync;

mod asynchronous;
mod crypt;
mod derive;
mod digest;
mod dual;
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

pub use call::{serve_applications, with_module};
pub use list::{C_GetFunctionList, C_GetInterface, C_GetInterfaceList, functions};

/// The heap of this library's Rust code. It wipes freed memory, because the crates that the core
/// uses leave copies of keys there. AWS-LC and SQLite allocate by themselves; AWS-LC wipes what it
/// frees, and SQLite has no secrets.
#[global_allocator]
static ALLOCATOR: jeton_secret::WipingAllocator = jeton_secret::WipingAllocator;
