//! Passwords in parameters.

use serde::{Deserialize, Serialize};

use jeton_secret::Secret;
use subtle::ConstantTimeEq;

/// A password from a parameter. It is wiped on drop and compared in constant time.
#[derive(Serialize, Deserialize)]
pub struct Password(pub Secret);

impl Clone for Password {
    fn clone(&self) -> Self {
        Self(self.0.duplicate())
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Password {}
