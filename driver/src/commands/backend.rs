//! The backend of Jeton that a command asks for.

use clap::ValueEnum;

/// A backend of Jeton.
#[derive(Clone, Copy, ValueEnum)]
pub enum Backend {
    /// AWS-LC.
    AwsLc,
    /// RustCrypto.
    Rustcrypto,
}

impl Backend {
    /// Returns the name that the configuration uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AwsLc => "aws-lc",
            Self::Rustcrypto => "rustcrypto",
        }
    }
}
