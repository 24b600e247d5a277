//! The crypto backends: compared with known answers, and with each other.

mod cross;
mod cross_ciphers;
mod cross_keys;
mod dh;
mod loading;
mod modes;
mod support;
mod vectors;
