//! `jeton-agent`: opens the tokens of a host once, and serves them to the applications that load
//! `libjeton_client.so`. `docs/agent.md` describes it.

mod application;
mod budget;
pub mod connections;
mod dispatch;
mod figures;
mod given;
mod memory;
pub mod peer;
mod pins;
mod policy;
mod register;
pub mod rules;
mod state;
pub mod ticket;
pub mod tls;
