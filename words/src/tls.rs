//! The parameters of TLS 1.0 to 1.2 (PKCS#11 3.2, "SSL", "TLS 1.2 Mechanisms").

use serde::{Deserialize, Serialize};

use crate::bounded;
use crate::hash::Hash;

/// The pseudo-random function of a TLS version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsPrf {
    /// TLS 1.0 and 1.1 (RFC 2246, 5).
    Md5Sha1,
    /// TLS 1.2 (RFC 5246, 5).
    Hash(Hash),
}

/// The random values of a handshake.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Randoms {
    /// The client's random value.
    #[serde(with = "bounded::copied")]
    pub client: Box<[u8]>,
    /// The server's random value.
    #[serde(with = "bounded::copied")]
    pub server: Box<[u8]>,
}
