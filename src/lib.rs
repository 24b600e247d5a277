//! Jeton's core: the semantics of PKCS#11 in ordinary Rust, without C types.
//!
//! The C interface is in `abi/`; it uses [`module::Module`] and its [`session::Session`]s. The tool
//! `jeton` administers token files through [`admin`]. Imports run in one direction: `error`,
//! `file_lock`, `id`, `sync` <- `secret` <- `backend` <- `mechanism` <- `audit` <- `config` <-
//! `object` <- `store` <- `token` <- `session` <- `module`, `admin`. CI checks this, and
//! `docs/design.md` explains it.

#![deny(unsafe_code)]

pub mod admin;
pub mod audit;
pub mod backend;
pub mod config;
pub mod error;
mod file_lock;
pub mod id;
pub mod mechanism;
pub mod module;
pub mod object;
pub mod secret;
pub mod session;
pub mod store;
mod sync;
pub mod token;
