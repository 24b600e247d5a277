//! `libjeton_pkcs11.so`: the functions of [`jeton_abi`] as a shared object.

pub use jeton_abi::*;
