//! A server on a socket. It answers an HTTP request with one line of text that describes the
//! connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde::{Deserialize, Serialize};

use super::case::KeyKind;
use super::key::{TokenKeys, failed, in_memory};
use crate::Error;
use crate::pipeline::Target;

/// The longest wait of a read from a client, or of a write to it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest number of bytes that the server reads of a request.
const REQUEST: usize = 8 << 10;

/// A server on a socket. It comes through standard input, because a PIN must not be on a command
/// line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Serve {
    /// The module. `InProcess` if all keys are in memory.
    pub target: Target,
    /// The address. Port 0 is any free port.
    pub address: SocketAddr,
    /// The types of the keys that the server makes, if `existing` is `None`.
    pub keys: Vec<KeyKind>,
    /// The label of an existing key of the token, and the file of its certificate chain.
    pub existing: Option<(String, PathBuf)>,
    /// The file that receives the certificates in PEM.
    pub certificates: Option<PathBuf>,
    /// The server ends after this number of connections.
    pub connections: Option<u64>,
}

/// Serves until the number of connections is reached. `say` shows a line to the user.
pub(super) fn serve(
    work: &Serve,
    token: Option<&mut TokenKeys>,
    say: &(dyn Fn(String) + Sync),
) -> Result<(), Error> {
    let keys = keys(work, token)?;
    if let Some(path) = &work.certificates {
        let pem = keys.iter().flat_map(|key| &key.cert).map(|certificate| {
            let text = der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, certificate);
            text.map_err(|error| Error::Failed(error.to_string()))
        });
        std::fs::write(path, pem.collect::<Result<String, _>>()?).map_err(Error::io(path))?;
    }
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Chosen(keys)));
    let config = Arc::new(config);
    let address = work.address.to_string();
    let listener = TcpListener::bind(work.address).map_err(Error::io(address.clone()))?;
    say(format!("listening on {}", listener.local_addr().map_err(Error::io(address.clone()))?));
    let mut served = 0;
    std::thread::scope(|scope| {
        while work.connections.is_none_or(|most| served < most) {
            let (stream, _) = listener.accept().map_err(Error::io(address.clone()))?;
            served += 1;
            let config = Arc::clone(&config);
            scope.spawn(move || {
                say(answer(stream, config).unwrap_or_else(|error| format!("a connection failed: {error}")));
            });
        }
        Ok(())
    })
}

fn keys(work: &Serve, token: Option<&mut TokenKeys>) -> Result<Vec<Arc<CertifiedKey>>, Error> {
    let Some(token) = token else {
        return work.keys.iter().map(|kind| in_memory(*kind).map(Arc::new)).collect();
    };
    let Some((label, path)) = &work.existing else {
        return work.keys.iter().map(|kind| token.generate(*kind).map(Arc::new)).collect();
    };
    let wrong = |error| Error::Failed(format!("{}: {error}", path.display()));
    let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let key = token.existing(label, chain.map_err(wrong)?)?;
    match key.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(vec![Arc::new(key)])
        }
        Err(error) => Err(Error::Failed(format!("{}: {error}", path.display()))),
    }
}

/// Selects the first key whose signatures the client can verify, like [`jeton_rustls::Resolver`].
/// Here the keys may also be in memory.
#[derive(Debug)]
struct Chosen(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Chosen {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.iter().find(|one| one.key.choose_scheme(hello.signature_schemes()).is_some()).cloned()
    }
}

/// Makes the handshake and answers a request. Returns a line that describes the connection.
fn answer(stream: TcpStream, config: Arc<ServerConfig>) -> std::io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = stream.peer_addr()?;
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut tls = StreamOwned::new(connection, stream);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    let version = tls.conn.protocol_version().and_then(|one| one.as_str()).unwrap_or("?");
    let suite = tls.conn.negotiated_cipher_suite().and_then(|one| one.suite().as_str()).unwrap_or("?");
    let group = tls.conn.negotiated_key_exchange_group().and_then(|one| one.name().as_str()).unwrap_or("?");
    let line = format!("{version}, {suite}, {group}");
    // A client that sends no request tests only the handshake.
    let read = tls.read(&mut [0; REQUEST]).unwrap_or(0);
    if read > 0 {
        let text = format!("{line}\n");
        let head =
            format!("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", text.len());
        tls.write_all((head + &text).as_bytes())?;
    }
    tls.conn.send_close_notify();
    tls.flush()?;
    Ok(format!("{peer}: {line}"))
}
