//! Jeton's core: the semantics of PKCS#11 in Rust, without C pointers.
//!
//! The shared library `libjeton_pkcs11.so` (package `jeton-pkcs11`, `abi/pkcs11/`) reads the
//! pointers of a C caller and calls this crate. The tool `jeton` administers token files through
//! [`admin`].
//!
//! # A tour, from the caller down
//!
//! 1. [`functions::Module`] is the state of PKCS#11 in a process, from `C_Initialize` to
//!    `C_Finalize`: the slots and the sessions. Start here.
//! 2. [`session::Session`] is an open session. It has at most one active operation of each kind,
//!    such as sign, decrypt and search.
//! 3. [`token::Token`] is an initialised token: PINs, login, and its objects in memory.
//! 4. [`store::Store`] keeps the objects on disk. [`store::sqlite`] is the implementation for
//!    files, and [`store::seal`] the format of the sealed records. The feature `postgresql` adds an
//!    implementation for a database.
//! 5. [`object::Object`] is a list of attributes. [`object::attribute`] is the table of the rules
//!    of every attribute.
//! 6. [`mechanism::MechanismRow`] is a row of the mechanism table: what it computes, with which
//!    keys. [`mechanism::Mechanism`] is a mechanism of the words with its parameter.
//! 7. [`backend::Provider`] is a crypto library: AWS-LC or RustCrypto.
//! 8. [`jeton_secret::Secret`], of a package of its own, is memory that is locked where possible
//!    and wiped when it is freed.
//!
//! Beside these, [`config`] reads the configuration and the environment, [`audit`] writes the audit
//! log, [`id`] has the numbers of the specification as types, [`quota`] limits the memory of a
//! client, and [`error::Error`] is a return code (`CKR_*`) other than `CKR_OK`.
//!
//! # Imports
//!
//! A module imports only from the modules to its left: `file`, `file_lock`, `gate`, `quota`,
//! `sync` <- `backend` <- `mechanism` <- `audit` <- `config` <- `object`
//! <- `store` <- `token` <- `session` <- `functions`, `admin`. The test `arrows` checks this.
//! `docs/design.md` has the map, and `docs/internals.md` explains each part.

#![deny(unsafe_code)]

pub use jeton_words::{error, id};

pub mod admin;
pub mod audit;
pub mod backend;
pub mod config;
pub mod file;
mod file_lock;
pub mod functions;
mod gate;
pub mod mechanism;
pub mod object;
pub mod quota;
pub mod session;
pub mod store;
mod sync;
pub mod token;
