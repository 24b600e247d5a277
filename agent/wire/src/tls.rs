//! TLS 1.3 on TCP, for an agent on another host. Both sides have a certificate.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::{AlertDescription, Connection, Error, RootCertStore};
use webpki::{BorrowedCertRevocationList, CertRevocationList};

use crate::channel::wipe;
use crate::file;
use crate::spin::Stream;
use crate::system::{Descriptor, Flags, NOW, WAIT, descriptor, receive, transmit};

/// A TCP connection whose bytes can be asked for without sleeping.
struct Socket {
    stream: TcpStream,
    flags: Flags,
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        receive(descriptor(&self.stream), buffer, self.flags)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        transmit(descriptor(&self.stream), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TLS connection.
pub struct Tls {
    connection: Connection,
    socket: Socket,
}

impl Tls {
    /// Returns a connection that has not shaken hands.
    pub fn new(connection: impl Into<Connection>, stream: TcpStream) -> Self {
        Self { connection: connection.into(), socket: Socket { stream, flags: WAIT } }
    }

    /// Shakes hands, within this time. Afterwards, each part of a message may take the time
    /// `progress` until it is received or sent: see
    /// [`Channel::receive`](crate::channel::Channel::receive).
    pub fn shake_hands(&mut self, handshake: Duration, progress: [Duration; 2]) -> io::Result<()> {
        self.socket.stream.set_nodelay(true)?;
        let end = Instant::now() + handshake;
        while self.connection.is_handshaking() {
            // A peer that sends its bytes one by one has no more time than another.
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.socket.stream.set_read_timeout(Some(left))?;
            self.socket.stream.set_write_timeout(Some(left))?;
            if self.connection.wants_write() {
                self.connection.write_tls(&mut self.socket)?;
            } else if let Err(error) = self.fetch()
                && !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            {
                return Err(error);
            }
        }
        self.flush(&|| Ok(()))?;
        self.socket.stream.set_read_timeout(Some(progress[0]))?;
        self.socket.stream.set_write_timeout(Some(progress[1]))
    }

    /// Returns the certificate of the peer, and those that lead to its authority.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.connection.peer_certificates().unwrap_or_default()
    }

    /// Reads from the socket. Fails at its end.
    fn fetch(&mut self) -> io::Result<()> {
        if self.connection.read_tls(&mut self.socket)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Err(error) = self.connection.process_new_packets() {
            // The alert says why.
            let _ = self.flush(&|| Ok(()));
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(())
    }

    fn flush(&mut self, check: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        while self.connection.wants_write() {
            check()?;
            self.connection.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    /// Reads what the peer said, from the socket at most once. Fails with `none` if the bytes of
    /// the socket are only a part of TLS: the peer may send such parts for ever, so the caller
    /// looks at its limits of time.
    fn read_with(&mut self, buffer: &mut [u8], flags: Flags, none: io::ErrorKind) -> io::Result<usize> {
        match self.connection.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        self.socket.flags = flags;
        self.fetch()?;
        match self.connection.reader().read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(none.into()),
            outcome => outcome,
        }
    }
}

impl Read for Tls {
    /// Fails with [`io::ErrorKind::Interrupted`] if another attempt may have something.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(buffer, WAIT, io::ErrorKind::Interrupted)
    }
}

impl Stream for Tls {
    fn read_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_with(buffer, NOW, io::ErrorKind::WouldBlock)
    }

    fn send(&mut self, mut bytes: &[u8], check: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.connection.writer().write(bytes)?;
            self.flush(check)?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    fn descriptor(&self) -> Descriptor<'_> {
        descriptor(&self.socket.stream)
    }
}

/// Returns whether a connection failed because one side does not accept the certificate of the
/// other one, so that another attempt fails too.
pub fn is_final(error: &io::Error) -> bool {
    use AlertDescription as Alert;
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidCertificate(_)) => true,
        Some(Error::AlertReceived(alert)) => matches!(
            alert,
            Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::CertificateRequired
        ),
        _ => false,
    }
}

/// Returns the algorithms of both sides.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Reads the certificates of a PEM file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = file::read(path).map_err(|error| named(&error))?;
    let all: Vec<_> =
        CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|error| named(&error))?;
    if all.is_empty() { Err(named(&"no certificate")) } else { Ok(all) }
}

/// Reads a key in a PEM file.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut text = file::read(path).map_err(|error| named(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| named(&error));
    wipe(&mut text);
    key
}

/// Reads the certificates that a peer's certificate must lead to.
pub fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(roots)
}

/// Reads the revocation lists of a PEM file. Fails if two are of one issuer: webpki reads only the
/// first one, which may be the older.
pub fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = file::read(path).map_err(|error| named(&error))?;
    let all: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| named(&error))?;
    let mut issuers = HashSet::new();
    for list in &all {
        let list = BorrowedCertRevocationList::from_der(list).map_err(|error| named(&error))?;
        if !issuers.insert(CertRevocationList::from(list).issuer().to_vec()) {
            return Err(named(&"two revocation lists of one issuer: keep the newest"));
        }
    }
    if all.is_empty() { Err(named(&"no revocation list")) } else { Ok(all) }
}
