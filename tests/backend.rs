//! The crypto backends, each by itself against known answers and each against the other.

#[path = "backend/acvp.rs"]
mod acvp;
#[path = "backend/cross.rs"]
mod cross;
#[path = "backend/known.rs"]
mod known;
#[path = "backend/loading.rs"]
mod loading;
#[path = "backend/support.rs"]
mod support;
#[path = "backend/wycheproof.rs"]
mod wycheproof;
