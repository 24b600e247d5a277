//! The crypto backends, each by itself against known answers and each against the other.

#[path = "backend/acvp.rs"]
mod acvp;
#[path = "backend/blake2b.rs"]
mod blake2b;
#[path = "backend/cross.rs"]
mod cross;
#[path = "backend/cross_ciphers.rs"]
mod cross_ciphers;
#[path = "backend/cross_keys.rs"]
mod cross_keys;
#[path = "backend/dh.rs"]
mod dh;
#[path = "backend/known.rs"]
mod known;
#[path = "backend/loading.rs"]
mod loading;
#[path = "backend/modes.rs"]
mod modes;
#[path = "backend/support.rs"]
mod support;
#[path = "backend/wycheproof.rs"]
mod wycheproof;
#[path = "backend/wycheproof_ciphers.rs"]
mod wycheproof_ciphers;
#[path = "backend/wycheproof_keys.rs"]
mod wycheproof_keys;
