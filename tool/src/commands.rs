//! The subcommands. They read the options and print the results; the library does the work.

mod again;
pub mod agent;
pub mod audit;
#[cfg(feature = "ca")]
mod authority;
pub mod backup;
#[cfg(feature = "ca")]
mod ca;
pub mod ceremony;
pub mod cert;
#[cfg(feature = "ca")]
pub mod certify;
pub mod compute;
pub mod config;
#[cfg(feature = "ca")]
mod crl;
pub mod doctor;
#[cfg(feature = "ca")]
mod hook;
#[cfg(feature = "ca")]
mod info;
pub mod inventory;
#[cfg(feature = "ca")]
mod issue;
#[cfg(feature = "ca")]
mod issued;
pub mod key;
pub mod manual;
pub mod mechanisms;
pub mod migrate;
pub mod object;
#[cfg(feature = "ca")]
mod ocsp;
pub mod out;
#[cfg(feature = "ca")]
mod p12;
pub mod pin;
pub mod pins;
mod protection;
mod recovery;
#[cfg(feature = "ca")]
mod report;
pub mod shares;
mod target;
pub mod token;
pub mod token_file;
#[cfg(feature = "ca")]
mod verify;
