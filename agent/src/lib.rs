//! `jeton-agent`: opens the tokens of a host once, and serves them to the applications that load
//! `libjeton_client.so`. `docs/agent.md` describes it.

mod dispatch;
mod figures;
mod parameters;
pub mod peer;
pub mod rules;
pub mod server;
pub mod ticket;
pub mod tls;
