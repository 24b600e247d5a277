//! TLS to the server. Its certificate is always verified, with the name in the address.

use std::future::Future;
use std::io::Result as IoResult;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Encrypted;

use super::message_limits::Guarded;
use crate::config::{DatabaseRules, SealingSource};
use crate::file::open_chosen;
use crate::store::seal::sealing_key::read_secret;

/// The certificates and keys of the connections.
#[derive(Clone)]
pub(super) struct Tls {
    config: Arc<ClientConfig>,
    authorities: PathBuf,
}

pub(super) struct Connector {
    tls: Tls,
    name: ServerName<'static>,
}

/// A stream that the client library can use, with TLS.
pub(super) type Secured = Guarded<Encrypted<TcpStream>>;

impl Tls {
    /// Reads the configured files. `None` if the configuration names no certificate authority.
    pub(super) fn new(rules: &DatabaseRules) -> Result<Option<Self>, String> {
        let Some(path) = &rules.ca_file else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in certificates(path)? {
            roots.add(certificate).map_err(|reason| format!("{}: {reason}", path.display()))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|reason| reason.to_string())?
            .with_root_certificates(roots);
        let config = match &rules.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let pem = read_secret(&SealingSource::File(key.clone()))
                    .map_err(|reason| format!("{}: {reason}", key.display()))?;
                let key = PrivateKeyDer::from_pem_slice(&pem)
                    .map_err(|_| format!("{}: not a private key in PEM", key.display()))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .map_err(|reason| format!("{}: {reason}", certificate.display()))?
            }
        };
        Ok(Some(Self { config: Arc::new(config), authorities: path.clone() }))
    }

    /// Returns the TLS of a connection to the host with this name or address.
    pub(super) fn connector(&self, name: &str) -> Result<Connector, String> {
        let name =
            ServerName::try_from(name.to_owned()).map_err(|_| format!("{name:?} is not a host name"))?;
        Ok(Connector { tls: self.clone(), name })
    }
}

/// Reads certificates in PEM.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let fail = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let file = open_chosen(path).map_err(|reason| fail(&reason))?;
    let found = CertificateDer::pem_reader_iter(file).collect::<Result<Vec<_>, _>>();
    match found.map_err(|reason| fail(&reason))? {
        none if none.is_empty() => Err(format!("{}: no certificate in PEM", path.display())),
        found => Ok(found),
    }
}

impl TlsConnect<TcpStream> for Connector {
    type Stream = Secured;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = IoResult<Secured>> + Send>>;

    fn connect(self, stream: TcpStream) -> Self::Future {
        let connector = TlsConnector::from(self.tls.config);
        Box::pin(async move {
            let fail = |reason: std::io::Error| {
                let authorities = self.tls.authorities.display();
                std::io::Error::new(reason.kind(), format!("{reason} (authorities: {authorities})"))
            };
            connector.connect(self.name, stream).await.map(Guarded::new).map_err(fail)
        })
    }
}

impl TlsStream for Secured {
    /// The certificate is verified, so that the password needs no binding to it.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
