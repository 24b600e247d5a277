//! The core through its public API, every case once per backend.

#[path = "token/asynchronous.rs"]
mod asynchronous;
#[path = "token/at_rest.rs"]
mod at_rest;
#[path = "token/attribute_rules.rs"]
mod attribute_rules;
#[path = "token/attribute_table.rs"]
mod attribute_table;
#[path = "token/attribute_values.rs"]
mod attribute_values;
#[path = "token/audit.rs"]
mod audit;
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
#[path = "token/des3.rs"]
mod des3;
#[path = "token/dh.rs"]
mod dh;
#[path = "token/digest.rs"]
mod digest;
#[path = "token/files.rs"]
mod files;
#[path = "token/generate.rs"]
mod generate;
#[path = "token/import.rs"]
mod import;
#[path = "token/kem.rs"]
mod kem;
#[path = "token/key_copies.rs"]
mod key_copies;
#[path = "token/key_derivations.rs"]
mod key_derivations;
#[path = "token/key_logins.rs"]
mod key_logins;
#[path = "token/keys.rs"]
mod keys;
#[path = "token/mechanisms.rs"]
mod mechanisms;
#[path = "token/message_signatures.rs"]
mod message_signatures;
#[path = "token/messages.rs"]
mod messages;
#[path = "token/objects.rs"]
mod objects;
#[path = "token/operations.rs"]
mod operations;
#[path = "token/otp.rs"]
mod otp;
#[path = "token/pins.rs"]
mod pins;
#[path = "token/processes.rs"]
mod processes;
#[path = "token/protection.rs"]
mod protection;
#[path = "token/public_half.rs"]
mod public_half;
#[path = "token/recover.rs"]
mod recover;
#[path = "token/rejection.rs"]
mod rejection;
#[path = "token/rsa.rs"]
mod rsa;
#[path = "token/samples.rs"]
mod samples;
#[path = "token/search.rs"]
mod search;
#[path = "token/sessions.rs"]
mod sessions;
#[path = "token/state.rs"]
mod state;
#[path = "token/strict.rs"]
mod strict;
#[path = "token/support.rs"]
mod support;
#[path = "token/tampering.rs"]
mod tampering;
#[path = "token/threads.rs"]
mod threads;
#[path = "token/wrap.rs"]
mod wrap;
#[path = "token/wrap_authenticated.rs"]
mod wrap_authenticated;
#[path = "token/wrap_ecdh.rs"]
mod wrap_ecdh;

#[path = "token/ike.rs"]
mod ike;
#[path = "token/password.rs"]
mod password;
#[path = "token/sp800_108.rs"]
mod sp800_108;
#[path = "token/tls.rs"]
mod tls;
