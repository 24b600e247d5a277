//! Why a file was refused.

/// Why a file cannot be read or a key cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The format is unknown.
    #[error(
        "not a key or certificate in a known format (PKCS#8, PKCS#1, SEC1, PKCS#12, PKCS#7, OpenSSH, BIND, JWK, X.509; \
         PEM or DER)"
    )]
    Unknown,
    /// The format is known and the contents are damaged.
    #[error("damaged {0}")]
    Damaged(&'static str),
    /// The contents are known and not supported. The text says why, or what to do.
    #[error("{0}")]
    Refused(&'static str),
    /// The file is protected with an algorithm that is not supported. The text is its name or its
    /// object identifier.
    #[error(
        "the file is protected with {0}, which is not supported; convert a key with `openssl pkcs8 -topk8` and a \
         PKCS#12 file with `openssl pkcs12`, both with `-provider legacy -provider default`"
    )]
    Encryption(String),
    /// The file is encrypted and there is no password.
    #[error("the file is encrypted and no password was given")]
    PasswordMissing,
    /// The password is wrong, or the contents are damaged.
    #[error("the file's password is wrong, or the file is damaged")]
    PasswordWrong,
}

/// FIPS 186-5 no longer allows DSA for signatures.
pub(crate) const NO_DSA: Error = Error::Refused(
    "DSA is obsolete and not supported; generate a key of another type with `jeton key generate`",
);
