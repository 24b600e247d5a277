//! One handshake: a client and a server in this thread exchange buffers. There are no sockets, so
//! only the work of the library and of the key is measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption as ClientSessions;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, HandshakeKind, RootCertStore, ServerConfig,
    ServerConnection, SideData,
};

use super::case::name_of;
use super::key::{NAME, failed};
use super::{Exchange, Resumption, TlsVersion};
use crate::{Error, Result};

/// A server, and a client that trusts its certificate.
#[derive(Clone)]
pub(super) struct Pair {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    resumption: Resumption,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) client: Duration,
    pub(super) server: Duration,
}

impl Pair {
    /// Configures both sides. They agree on one version and one key exchange.
    pub(super) fn new(
        key: &Arc<CertifiedKey>,
        version: TlsVersion,
        exchange: Exchange,
        resumption: Resumption,
    ) -> Result<Self> {
        let provider = CryptoProvider { kx_groups: vec![exchange.group()], ..aws_lc_rs::default_provider() };
        let provider = Arc::new(provider);
        let versions = [version.supported()];
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let mut server = server
            .with_protocol_versions(&versions)
            .map_err(failed)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(key))));
        let mut roots = RootCertStore::empty();
        roots.add(key.end_entity_cert().map_err(failed)?.clone().into_owned()).map_err(failed)?;
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&versions);
        let mut client = client.map_err(failed)?.with_root_certificates(roots).with_no_client_auth();
        match resumption {
            Resumption::Full => {
                server.session_storage = Arc::new(NoServerSessionStorage {});
                client.resumption = ClientSessions::disabled();
            }
            Resumption::Resumed => {
                server.ticketer = Ticketer::new().map_err(failed)?;
                server.send_tls13_tickets = 1;
            }
        }
        Ok(Self { server: Arc::new(server), client: Arc::new(client), resumption })
    }

    /// Returns the same server with another client, which has its own sessions.
    pub(super) fn with_own_client(&self) -> Result<Self> {
        let mut client = ClientConfig::clone(&self.client);
        if self.resumption == Resumption::Resumed {
            client.resumption = ClientSessions::in_memory_sessions(8);
        }
        let own = Self { client: Arc::new(client), ..self.clone() };
        if self.resumption == Resumption::Resumed {
            // A full handshake, which gives the client its first ticket.
            own.exchange(&mut Vec::new())?;
        }
        Ok(own)
    }

    /// Makes one handshake. Fails if it is full instead of resumed, or resumed instead of full.
    pub(super) fn shake(&self, buffer: &mut Vec<u8>) -> Result<Times> {
        let (times, kind) = self.exchange(buffer)?;
        match (self.resumption, kind) {
            (Resumption::Full, Some(HandshakeKind::Full))
            | (Resumption::Resumed, Some(HandshakeKind::Resumed)) => Ok(times),
            (wanted, kind) => {
                Err(Error::Failed(format!("TLS: the handshake was {kind:?} instead of {}", name_of(wanted))))
            }
        }
    }

    fn exchange(&self, buffer: &mut Vec<u8>) -> Result<(Times, Option<HandshakeKind>)> {
        let mut times = Times::default();
        // The name is a constant and valid.
        let name = ServerName::try_from(NAME).map_err(|error| Error::Failed(error.to_string()))?;
        let start = Instant::now();
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).map_err(failed)?;
        times.client += start.elapsed();
        let start = Instant::now();
        let mut server = ServerConnection::new(Arc::clone(&self.server)).map_err(failed)?;
        times.server += start.elapsed();
        while client.is_handshaking() || server.is_handshaking() {
            transfer(&mut client, &mut times.client, &mut server, &mut times.server, buffer)?;
            transfer(&mut server, &mut times.server, &mut client, &mut times.client, buffer)?;
        }
        // The tickets of TLS 1.3 follow the handshake.
        transfer(&mut server, &mut times.server, &mut client, &mut times.client, buffer)?;
        Ok((times, server.handshake_kind()))
    }
}

/// Passes the output of `sender` to `receiver`. Adds the time of each side to its total.
fn transfer<S: SideData, R: SideData>(
    sender: &mut ConnectionCommon<S>,
    sending: &mut Duration,
    receiver: &mut ConnectionCommon<R>,
    receiving: &mut Duration,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let memory = |error: std::io::Error| Error::Failed(format!("TLS: {error}"));
    let start = Instant::now();
    buffer.clear();
    while sender.wants_write() {
        sender.write_tls(buffer).map_err(memory)?;
    }
    *sending += start.elapsed();
    let start = Instant::now();
    let mut rest = buffer.as_slice();
    while !rest.is_empty() {
        receiver.read_tls(&mut rest).map_err(memory)?;
        receiver.process_new_packets().map_err(failed)?;
    }
    *receiving += start.elapsed();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::case::KeyKind;
    use super::super::key::in_memory;
    use super::*;

    #[test]
    fn handshakes_are_full_or_resumed_as_asked_for() {
        let key = Arc::new(in_memory(KeyKind::P256).expect("a key"));
        for version in [TlsVersion::V12, TlsVersion::V13] {
            for resumption in [Resumption::Full, Resumption::Resumed] {
                let pair = Pair::new(&key, version, Exchange::X25519, resumption).expect("a configuration");
                let own = pair.with_own_client().expect("a client");
                for _ in 0..3 {
                    let times = own.shake(&mut Vec::new()).expect("a handshake");
                    assert!(times.client > Duration::ZERO && times.server > Duration::ZERO);
                }
            }
        }
    }

    #[test]
    fn a_resumed_handshake_without_a_ticket_is_an_error() {
        let key = Arc::new(in_memory(KeyKind::Ed25519).expect("a key"));
        let pair = Pair::new(&key, TlsVersion::V13, Exchange::X25519MlKem768, Resumption::Resumed);
        let error = pair.expect("a configuration").shake(&mut Vec::new()).expect_err("no ticket");
        assert!(error.to_string().contains("instead of resumed"), "{error}");
    }
}
