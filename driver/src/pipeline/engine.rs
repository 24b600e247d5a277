//! The engine of the pipeline: it holds the CA key, signs and verifies.

use spki::SubjectPublicKeyInfoOwned;

use crate::Result;
use crate::algorithm::Algorithm;

/// The cryptography of the pipeline: a PKCS#11 module, or AWS-LC or OpenSSL called directly. Many
/// threads call the methods with `&self` at the same time.
pub trait Engine: Sync {
    /// Generates a CA key pair and keeps it. The pair replaces the previous one.
    fn make_ca(&mut self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned>;

    /// Signs with the CA key. Returns the signature in its X.509 form.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>>;

    /// Signs each message with the CA key.
    fn sign_all(&self, messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        messages.iter().map(|message| self.sign(message)).collect()
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool>;

    /// Generates a subscriber's key pair, whose private key stays in the engine. Returns the public
    /// key.
    fn make_subscriber(&self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned>;

    /// Destroys all keys that were generated or imported since the last call.
    fn clear(&mut self) -> Result<()>;
}
