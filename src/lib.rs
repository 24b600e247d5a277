//! Jeton's core: the semantics of PKCS#11 in ordinary Rust, without C types.
//!
//! The C interface stands in `abi/`; it talks to [`module::Module`] alone. Imports run one way:
//! `error`, `id`, `secret` <- `backend` <- `mechanism` <- `audit` <- `config` <- `object` <- `store` <- `token` <-
//! `session` <- `module` (checked in CI, explained in `docs/design.md`).

#![deny(unsafe_code)]

pub mod audit;
pub mod backend;
pub mod config;
pub mod error;
pub mod id;
pub mod mechanism;
pub mod module;
pub mod object;
pub mod secret;
pub mod session;
pub mod store;
mod sync;
pub mod token;
