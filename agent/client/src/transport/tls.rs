//! An agent on another host.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use jeton_agent_wire::tls::{self, Tls};
use jeton_words::general::Threads;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::limits::{Attempt, BRIEF, SILENCE, STUCK};
use crate::system::{Listed, connect_tcp};
use crate::timed_mutex::TimedMutex;

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
    threads: Threads,
    lookup: Arc<TimedMutex<Option<Lookup>>>,
}

/// A thread that looks a name up. The system has no limit of time for this, so the thread is left
/// alone after the time of a call, and a later call gets what it has found.
type Lookup = Receiver<io::Result<Vec<SocketAddr>>>;

/// Looks a name up within this time, in a thread unless one does so already.
fn look_up(
    running: &TimedMutex<Option<Lookup>>,
    time: Duration,
    find: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> io::Result<Vec<SocketAddr>> {
    let end = Instant::now() + time;
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no name server answers");
    let mut running = running.lock_until(end).ok_or_else(late)?;
    let lookup = match &mut *running {
        Some(lookup) => lookup,
        none => {
            let (sender, lookup) = mpsc::channel();
            thread::Builder::new().spawn(move || sender.send(find()))?;
            none.insert(lookup)
        }
    };
    let found = lookup.recv_timeout(end.saturating_duration_since(Instant::now()));
    if let Err(RecvTimeoutError::Timeout) = found {
        return Err(late());
    }
    *running = None;
    found.unwrap_or_else(|_| Err(late()))
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.address)
    }
}

impl Host {
    /// Reads the files that the configuration names.
    pub(super) fn new(address: &str, files: &Files<'_>, threads: Threads) -> Result<Self, String> {
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
            threads,
            lookup: Arc::default(),
        })
    }

    /// Returns the addresses of the host. Looks its name up within this time, unless the module may
    /// create no thread.
    fn addresses(&self, time: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.address.parse() {
            return Ok(vec![address]);
        }
        let address = self.address.clone();
        let find = move || address.to_socket_addrs().map(Iterator::collect);
        if self.threads == Threads::Forbidden { find() } else { look_up(&self.lookup, time, find) }
    }

    pub(super) fn open(&self, attempt: Attempt) -> io::Result<(Tls, Listed)> {
        // The last host has the time of a call for its handshake and its answer, but a missing one
        // shows earlier.
        let time = || attempt.left().min(BRIEF);
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in self.addresses(time())? {
            match connect_tcp(&address, time()) {
                Ok((stream, listed)) => {
                    let configuration = Arc::clone(&self.configuration);
                    let connection = ClientConnection::new(configuration, self.name.clone());
                    let connection = connection.map_err(io::Error::other)?;
                    let mut tls = Tls::new(connection, stream);
                    // Dropped before the socket is closed.
                    let listed = listed;
                    tls.shake_hands(attempt.left(), [SILENCE, STUCK])?;
                    return Ok((tls, listed));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const TIME: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_name_is_looked_up_in_time_and_by_one_thread() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        let address: SocketAddr = "192.0.2.1:7512".parse().expect("an address");
        let running = TimedMutex::default();
        let (answer, silent) = mpsc::channel();
        let slow = move || {
            LOOKUPS.fetch_add(1, Ordering::Relaxed);
            let _ = silent.recv();
            Ok(vec![address])
        };
        let fails = |start: Instant, found: io::Result<Vec<SocketAddr>>| {
            let is_late = found.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
            assert!(is_late && start.elapsed() < LONG, "{:?}", start.elapsed());
        };
        fails(Instant::now(), look_up(&running, TIME, slow));
        let second = || {
            LOOKUPS.fetch_add(1, Ordering::Relaxed);
            Ok(Vec::new())
        };
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| fails(Instant::now(), look_up(&running, TIME, second)));
            }
        });
        answer.send(()).expect("a thread that waits");
        assert_eq!(look_up(&running, LONG, second).expect("an answer"), [address]);
        assert_eq!(LOOKUPS.load(Ordering::Relaxed), 1);
        assert_eq!(look_up(&running, LONG, second).expect("an answer"), []);
    }
}
