//! The crypto backends, each by itself against known answers and each against the other.

#[path = "backend/acvp.rs"]
mod acvp;
#[path = "backend/known.rs"]
mod known;
#[path = "backend/support.rs"]
mod support;
#[path = "backend/wycheproof.rs"]
mod wycheproof;
