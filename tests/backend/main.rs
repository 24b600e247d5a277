//! The crypto backends: compared with known answers, and with each other.

mod acvp;
mod blake2b;
mod cross;
mod cross_ciphers;
mod cross_keys;
mod dh;
mod dsa;
mod known;
mod loading;
mod modes;
mod support;
mod wycheproof;
mod wycheproof_ciphers;
mod wycheproof_keys;
