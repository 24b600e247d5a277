//! Chooses a certificate chain for each client.

use std::sync::Arc;

use rustls::InconsistentKeys;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::error::Error;
use crate::key::SigningKey;

/// The certificate chains of a server, each with its key. A client gets the first chain whose key
/// has a signature scheme that the client offers. Put ML-DSA before ECDSA, and ECDSA before RSA.
#[derive(Debug)]
pub struct Resolver {
    chains: Vec<Arc<CertifiedKey>>,
}

impl Resolver {
    /// Takes chains, each with the end-entity certificate first. Fails if there is no chain, or if
    /// an end-entity certificate is missing, malformed or belongs to another key. If the token has
    /// no public key for the private key, checks only that the certificate is there.
    pub fn new(
        chains: impl IntoIterator<Item = (Vec<CertificateDer<'static>>, Arc<SigningKey>)>,
    ) -> Result<Self, Error> {
        let checked = |(chain, key): (_, Arc<SigningKey>)| {
            let certified = CertifiedKey::new(chain, key);
            certified.end_entity_cert().map_err(Error::Certificate)?;
            match certified.keys_match() {
                Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                    Ok(Arc::new(certified))
                }
                Err(error) => Err(Error::Certificate(error)),
            }
        };
        let chains = chains.into_iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        if chains.is_empty() { Err(Error::NoChain) } else { Ok(Self { chains }) }
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |one: &&Arc<CertifiedKey>| one.key.choose_scheme(hello.signature_schemes()).is_some();
        self.chains.iter().find(fits).cloned()
    }
}
