//! Connections from other hosts: TLS 1.3 with certificates of both sides.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jeton_agent_wire::tls::{self, Tls};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection};
use serde::Deserialize;
use webpki::EndEntityCert;

use crate::peer::Peer;

/// The most handshakes at the same time.
const MOST_HANDSHAKES: usize = 64;
/// The most handshakes of one address at the same time.
const MOST_OF_ADDRESS: usize = 8;
/// The shortest time between two handshakes.
const PACE: Duration = Duration::from_millis(5);

/// The section `[tls]` of the rules.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The address and the port.
    pub listen: SocketAddr,
    /// The PEM file with the certificates of the agent, its own first.
    certificate: PathBuf,
    /// The PEM file with the key of that certificate.
    key: PathBuf,
    /// The PEM file with the certificates that a client's certificate must lead to.
    authority: PathBuf,
    /// The PEM file with revocation lists.
    revoked: Option<PathBuf>,
}

/// What accepts TLS connections.
pub struct Gate {
    configuration: Arc<ServerConfig>,
    shaking: Mutex<HashMap<IpAddr, usize>>,
}

/// A handshake that has not ended.
struct Turn<'a> {
    gate: &'a Gate,
    address: IpAddr,
}

impl Section {
    /// Reads the files.
    pub fn open(&self) -> Result<Gate, String> {
        let roots = Arc::new(tls::authorities(&self.authority)?);
        let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, tls::provider());
        if let Some(path) = &self.revoked {
            let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let lists = CertificateRevocationListDer::pem_file_iter(path).map_err(|error| named(&error))?;
            verifier =
                verifier.with_crls(lists.collect::<Result<Vec<_>, _>>().map_err(|error| named(&error))?);
        }
        let verifier = verifier.build().map_err(|error| format!("tls: {error}"))?;
        let mut configuration = ServerConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| format!("tls: {error}"))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(tls::certificates(&self.certificate)?, tls::key(&self.key)?)
            .map_err(|error| format!("tls: {error}"))?;
        // The agent sends nothing before the first request.
        configuration.send_tls13_tickets = 0;
        Ok(Gate { configuration: Arc::new(configuration), shaking: Mutex::default() })
    }
}

impl Gate {
    /// Shakes hands. Returns the connection and the peer.
    pub fn admit(&self, stream: TcpStream, address: IpAddr) -> io::Result<(Tls, Peer)> {
        let _turn = self.turn(address)?;
        let connection = ServerConnection::new(Arc::clone(&self.configuration)).map_err(io::Error::other)?;
        let tls = Tls::new(connection, stream)?;
        let names = tls.certificate().map(names).unwrap_or_default();
        if names.is_empty() {
            return Err(io::Error::other("the certificate has no DNS name"));
        }
        Ok((tls, Peer::Certificate { names }))
    }

    /// Counts a handshake. Fails if there are too many, so that who has no certificate cannot keep
    /// others out.
    fn turn(&self, address: IpAddr) -> io::Result<Turn<'_>> {
        let mut shaking = self.shaking.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = shaking.values().sum();
        let of_address = shaking.entry(address).or_default();
        if all >= MOST_HANDSHAKES || *of_address >= MOST_OF_ADDRESS {
            return Err(io::Error::other("too many handshakes"));
        }
        *of_address += 1;
        Ok(Turn { gate: self, address })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut shaking = self.gate.shaking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = shaking.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                shaking.remove(&self.address);
            }
        }
    }
}

/// Waits until another handshake may begin.
pub fn pace(last: &mut Instant) {
    std::thread::sleep(PACE.saturating_sub(last.elapsed()));
    *last = Instant::now();
}

/// Returns the DNS names of a certificate.
fn names(certificate: &rustls::pki_types::CertificateDer<'_>) -> Vec<String> {
    let parsed = EndEntityCert::try_from(certificate);
    parsed.map(|parsed| parsed.valid_dns_names().map(str::to_owned).collect()).unwrap_or_default()
}
