//! The errors of this package.

use jeton_client::Failure;

/// Why a token, a key or a signature cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A function of the module failed.
    #[error(transparent)]
    Module(#[from] Failure),
    /// No initialised token has this label, or there is no initialised token.
    #[error("the module has no {}", token(label))]
    NoToken {
        /// The wanted label.
        label: Option<String>,
    },
    /// Several tokens have this label, or there are several tokens and no label was given.
    #[error("the module has several tokens: {}", several(label))]
    SeveralTokens {
        /// The wanted label.
        label: Option<String>,
    },
    /// No object matches.
    #[error("the token has no {object} with {find}")]
    NotFound {
        /// The object class in words.
        object: &'static str,
        /// The label and the ID.
        find: String,
    },
    /// Several objects match.
    #[error("the token has {count} objects of the class {object} with {find}; give the label and the ID")]
    Several {
        /// The object class in words.
        object: &'static str,
        /// The label and the ID.
        find: String,
        /// The number of objects.
        count: usize,
    },
    /// TLS cannot use the key.
    #[error("the key cannot be used for TLS: {0}")]
    UnusableKey(String),
    /// The end-entity certificate is missing, malformed, or belongs to another key.
    #[error("the certificate chain cannot be used: {0}")]
    Certificate(rustls::Error),
    /// The list of certificate chains for a resolver is empty.
    #[error("no certificate chain was given")]
    NoChain,
    /// The module returned an ECDSA signature that is not a pair of integers.
    #[error("the module returned a malformed ECDSA signature")]
    MalformedSignature,
}

fn token(label: &Option<String>) -> String {
    label.as_ref().map_or("initialised token".to_owned(), |label| format!("token {label:?}"))
}

fn several(label: &Option<String>) -> String {
    match label {
        Some(label) => format!("each has the label {label:?}"),
        None => "give a label".to_owned(),
    }
}
