//! The results of `C_DeriveKey`.

use jeton_secret::Secret;

use serde::{Deserialize, Serialize};

use crate::id::ObjectHandle;
use crate::template::Template;

/// The result of a derivation.
#[derive(Serialize, Deserialize)]
pub enum Derived {
    /// A single key.
    Key(ObjectHandle),
    /// A TLS master secret, and the version at the start of the pre-master secret.
    Master(ObjectHandle, Option<[u8; 2]>),
    /// The keys of a TLS connection.
    Connection(Connection),
    /// Output that is not a key.
    Output(Secret),
}

/// A further key that is derived in the same call (`CK_DERIVED_KEY`).
#[derive(Serialize, Deserialize)]
pub struct Additional<'a> {
    /// The template of the key.
    #[serde(borrow)]
    pub template: Template<'a>,
    /// The new key. Handle 0 if the call failed because of this template; `None` if it failed for
    /// another reason.
    pub key: Option<ObjectHandle>,
}

/// The keys of a connection, each as a pair of the client's key and the server's key. `None` if the
/// requested length was 0.
#[derive(Serialize, Deserialize)]
pub struct Connection {
    /// The MAC keys.
    pub macs: Option<[ObjectHandle; 2]>,
    /// The encryption keys.
    pub keys: Option<[ObjectHandle; 2]>,
    /// The initialisation vectors.
    pub ivs: [Secret; 2],
}
