//! The core through its public API, every case once per backend.

#[path = "token/attribute_rules.rs"]
mod attribute_rules;
#[path = "token/attribute_table.rs"]
mod attribute_table;
#[path = "token/attribute_values.rs"]
mod attribute_values;
#[path = "token/backends.rs"]
mod backends;
#[path = "token/built_in.rs"]
mod built_in;
#[path = "token/ciphers.rs"]
mod ciphers;
#[path = "token/computed.rs"]
mod computed;
#[path = "token/configuration.rs"]
mod configuration;
#[path = "token/derive.rs"]
mod derive;
#[path = "token/digest.rs"]
mod digest;
#[path = "token/generate.rs"]
mod generate;
#[path = "token/import.rs"]
mod import;
#[path = "token/kem.rs"]
mod kem;
#[path = "token/keys.rs"]
mod keys;
#[path = "token/mechanisms.rs"]
mod mechanisms;
#[path = "token/objects.rs"]
mod objects;
#[path = "token/operations.rs"]
mod operations;
#[path = "token/pins.rs"]
mod pins;
#[path = "token/processes.rs"]
mod processes;
#[path = "token/protection.rs"]
mod protection;
#[path = "token/recover.rs"]
mod recover;
#[path = "token/rsa.rs"]
mod rsa;
#[path = "token/samples.rs"]
mod samples;
#[path = "token/search.rs"]
mod search;
#[path = "token/sessions.rs"]
mod sessions;
#[path = "token/support.rs"]
mod support;
#[path = "token/threads.rs"]
mod threads;
#[path = "token/wrap.rs"]
mod wrap;
