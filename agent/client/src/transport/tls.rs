//! An agent on another host.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use jeton_agent_wire::tls::{self, Tls};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::limits::{SILENCE, STUCK, brief};
use crate::system::{Listed, connect_tcp};

/// The files that the configuration names.
pub struct Files<'a> {
    pub certificate: Option<&'a Path>,
    pub key: Option<&'a Path>,
    pub authority: Option<&'a Path>,
    pub revoked: Option<&'a Path>,
}

/// An agent on another host.
#[derive(Clone)]
pub struct Host {
    address: String,
    name: ServerName<'static>,
    configuration: Arc<ClientConfig>,
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.address)
    }
}

impl Host {
    /// Reads the files that the configuration names.
    pub(super) fn new(address: &str, files: &Files<'_>) -> Result<Self, String> {
        let (Some(certificate), Some(key), Some(authority)) = (files.certificate, files.key, files.authority)
        else {
            return Err(format!("tls://{address} needs certificate, key and authority in [agent]"));
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
        let roots = Arc::new(tls::authorities(authority)?);
        let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, tls::provider());
        if let Some(path) = files.revoked {
            verifier = verifier.with_crls(tls::revocation_lists(path)?).enforce_revocation_expiration();
        }
        let configuration = ClientConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| error.to_string())?
            .with_webpki_verifier(verifier.build().map_err(|error| error.to_string())?)
            .with_client_auth_cert(tls::certificates(certificate)?, tls::key(key)?)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            address: address.to_owned(),
            name: name.map_err(|error| format!("{host}: {error}"))?,
            configuration: Arc::new(configuration),
        })
    }

    pub(super) fn open(&self, end: Instant) -> io::Result<(Tls, Listed)> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in self.address.to_socket_addrs()? {
            match connect_tcp(&address, brief(end)) {
                Ok((stream, listed)) => {
                    let configuration = Arc::clone(&self.configuration);
                    let connection = ClientConnection::new(configuration, self.name.clone());
                    let connection = connection.map_err(io::Error::other)?;
                    let mut tls = Tls::new(connection, stream);
                    // Dropped before the socket is closed.
                    let listed = listed;
                    tls.shake_hands(brief(end), [SILENCE, STUCK])?;
                    return Ok((tls, listed));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
