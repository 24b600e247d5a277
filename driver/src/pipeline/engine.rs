//! Who holds the CA key and computes with it.

use spki::SubjectPublicKeyInfoOwned;

use crate::Error;
use crate::pki::Algorithm;

/// The crypto of the pipeline: a PKCS#11 module, or AWS-LC called directly. The methods that take `&self` are
/// called from many threads at once.
pub trait Engine: Sync {
    /// Makes a fresh CA key pair and keeps it; the one before is destroyed.
    fn make_ca(&mut self, algorithm: &'static Algorithm) -> Result<SubjectPublicKeyInfoOwned, Error>;

    /// Takes over the public key of a CA whose certificate was stored, for verification only.
    fn import_ca(
        &mut self,
        algorithm: &'static Algorithm,
        key: &SubjectPublicKeyInfoOwned,
    ) -> Result<(), Error>;

    /// The CA's signature in the form of X.509.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error>;

    /// Whether the signature is the CA's.
    fn verify(&self, message: &[u8], signature: &[u8]) -> Result<bool, Error>;

    /// A subscriber's key pair of the CA's algorithm; its private key stays in the engine.
    fn make_subscriber(&self) -> Result<Subscriber, Error>;

    /// Destroys all that was made since the last call.
    fn clear(&mut self) -> Result<(), Error>;
}

/// A subscriber as the CA sees it.
pub struct Subscriber {
    /// What goes into the certificate.
    pub public_key: SubjectPublicKeyInfoOwned,
}
