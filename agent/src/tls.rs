//! Connections from other hosts: TLS 1.3 with certificates of both sides.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use der::asn1::{AnyRef, BitStringRef, GeneralizedTime, UtcTime};
use der::{Decode, Header, Reader, SliceReader, Tag, Tagged};
use jeton_agent_wire::tls::{self, Tls};
use rustix::net::sockopt;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use serde::{Deserialize, Serialize};
use webpki::EndEntityCert;

use crate::{PROGRESS, lock};

const MOST_HANDSHAKES: usize = 128;
/// How long a peer may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Those of addresses from which no certificate was right yet.
const MOST_OF_STRANGERS: usize = 64;
const MOST_KNOWN: usize = 65_536;
/// The most handshakes of one address at the same time.
const MOST_OF_ADDRESS: usize = 8;
/// The shortest time between two handshakes, those of known addresses apart. After a pause, more
/// begin at once.
const PACE: Duration = Duration::from_millis(5);

/// The section `[tls]` of the rules.
#[derive(Clone, Serialize, Deserialize)]
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
    /// What these files say.
    #[serde(skip)]
    opened: Option<Arc<Opened>>,
}

/// What the files of the section say.
struct Opened {
    configuration: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
    /// The last `thisUpdate` and the first `nextUpdate` of the revocation lists, since 1970. The
    /// verifier admits no client after the second one.
    begins: Duration,
    ends: Option<Duration>,
    /// What is wrong with the issuers and the signatures of the lists.
    foreign: Option<&'static str>,
}

/// What limits the handshakes.
#[derive(Default)]
pub struct Gate(Mutex<Shaking>);

#[derive(Default)]
struct Shaking {
    /// The handshakes that have not ended, by address.
    turns: HashMap<IpAddr, usize>,
    /// Addresses from which a certificate was right.
    known: HashSet<IpAddr>,
    /// When another handshake of a stranger, and of a known address, may begin.
    next: [Option<Instant>; 2],
}

/// A handshake that has not ended.
pub struct Turn {
    gate: Arc<Gate>,
    address: IpAddr,
}

impl Section {
    /// Reads the files.
    pub fn open(&mut self) -> Result<(), String> {
        let roots = Arc::new(tls::authorities(&self.authority)?);
        let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), tls::provider());
        let (mut begins, mut ends, mut foreign) = (Duration::ZERO, None, None);
        if let Some(path) = &self.revoked {
            let lists = tls::revocation_lists(path)?;
            let parsed: der::Result<Vec<_>> = lists.iter().map(|list| List::parse(list)).collect();
            let parsed = parsed.map_err(|error| format!("{}: {error}", path.display()))?;
            begins = parsed.iter().map(|list| list.begins).max().unwrap_or_default();
            ends = parsed.iter().filter_map(|list| list.ends).min();
            foreign = self::foreign(&parsed, &roots);
            verifier = verifier.with_crls(lists).enforce_revocation_expiration();
        }
        let verifier = verifier.build().map_err(|error| format!("tls: {error}"))?;
        let mut configuration = ServerConfig::builder_with_provider(tls::provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| format!("tls: {error}"))?
            .with_client_cert_verifier(Arc::clone(&verifier))
            .with_single_cert(tls::certificates(&self.certificate)?, tls::key(&self.key)?)
            .map_err(|error| format!("tls: {error}"))?;
        // The agent sends nothing before the first request.
        configuration.send_tls13_tickets = 0;
        let configuration = Arc::new(configuration);
        self.opened = Some(Arc::new(Opened { configuration, verifier, begins, ends, foreign }));
        Ok(())
    }

    /// Shakes hands. Returns the connection, and the names of the host.
    pub fn shake_hands(&self, stream: TcpStream, turn: Turn) -> io::Result<(Tls, Vec<String>)> {
        let opened = self.opened.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let connection = ServerConnection::new(Arc::clone(&opened.configuration));
        limit(&stream)?;
        let mut tls = Tls::new(connection.map_err(io::Error::other)?, stream);
        tls.shake_hands(HANDSHAKE, [PROGRESS; 2])?;
        let names = tls.certificates().first().map(names).unwrap_or_default();
        if names.is_empty() {
            return Err(io::Error::other("the certificate has no DNS name"));
        }
        let mut shaking = lock(&turn.gate.0);
        if shaking.known.len() < MOST_KNOWN {
            shaking.known.insert(turn.address);
        }
        drop(shaking);
        Ok((tls, names))
    }

    /// Returns the files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let named = [&self.certificate, &self.key, &self.authority].into_iter().chain(&self.revoked);
        named.map(PathBuf::as_path)
    }

    /// Returns what is wrong with the revocation lists now.
    pub fn faults(&self) -> Vec<String> {
        let (Some(opened), Some(path)) = (&self.opened, &self.revoked) else { return Vec::new() };
        let now = UnixTime::now().as_secs();
        let since = opened.ends.and_then(|end| now.checked_sub(end.as_secs()));
        let ended = since.map(|since| {
            let hours = since / 3600;
            format!(
                "a revocation list ended {hours} hours ago (nextUpdate), so no client of another host is admitted"
            )
        });
        let early = (opened.begins.as_secs() > now).then(|| {
            "a revocation list begins in the future (thisUpdate): it is wrong, or the clock of this host"
                .to_owned()
        });
        let foreign = opened.foreign.map(str::to_owned);
        let all = ended.into_iter().chain(early).chain(foreign);
        all.map(|fault| format!("{}: {fault}", path.display())).collect()
    }

    /// Returns whether the certificate of a peer is valid now, and not revoked.
    pub fn admits(&self, chain: &[CertificateDer<'static>]) -> bool {
        let (Some(opened), Some((own, others))) = (&self.opened, chain.split_first()) else { return false };
        opened.verifier.verify_client_cert(own, others, UnixTime::now()).is_ok()
    }
}

impl Gate {
    /// Counts a handshake. Fails with a reason if there are too many at the same time or in the
    /// last second, so that who has no certificate cannot keep others out.
    pub fn turn(self: &Arc<Self>, address: IpAddr) -> Result<Turn, &'static str> {
        let address = network(address);
        let mut shaking = lock(&self.0);
        let all: usize = shaking.turns.values().sum();
        let is_known = shaking.known.contains(&address);
        let most = if is_known { MOST_HANDSHAKES } else { MOST_OF_STRANGERS };
        let of_address = shaking.turns.get(&address).copied().unwrap_or(0);
        if all >= most || of_address >= MOST_OF_ADDRESS {
            return Err("too many handshakes");
        }
        let (now, next) = (Instant::now(), &mut shaking.next[usize::from(is_known)]);
        let from = next.map_or(now, |next| next.max(now));
        if from.duration_since(now) > PACE * MOST_OF_STRANGERS as u32 {
            return Err("too many handshakes in a second");
        }
        *next = Some(from + PACE);
        shaking.turns.insert(address, of_address + 1);
        Ok(Turn { gate: Arc::clone(self), address })
    }
}

/// Returns the network of an address. A host with IPv6 has all addresses of a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Lets the connection fail when its peer has vanished: after 35 s without an answer to probes, or
/// 40 s without one to data.
fn limit(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(sockopt::set_tcp_user_timeout(stream, 40_000)?)
}

impl Drop for Turn {
    fn drop(&mut self) {
        let turns = &mut lock(&self.gate.0).turns;
        if let Some(count) = turns.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                turns.remove(&self.address);
            }
        }
    }
}

/// What a list of revoked certificates says of itself (RFC 5280, 5.1). webpki checks it when a
/// client connects, and shows it nowhere.
struct List<'a> {
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
    issuer: &'a [u8],
    /// `thisUpdate` and `nextUpdate`, since 1970.
    begins: Duration,
    ends: Option<Duration>,
}

impl<'a> List<'a> {
    fn parse(list: &'a [u8]) -> der::Result<Self> {
        let mut reader = SliceReader::new(list)?;
        Header::decode(&mut reader)?;
        let signed = reader.tlv_bytes()?;
        let algorithm = AnyRef::decode(&mut reader)?.value();
        let signature = BitStringRef::decode(&mut reader)?.raw_bytes();
        let mut reader = SliceReader::new(signed)?;
        Header::decode(&mut reader)?;
        for _ in ["version", "signature"] {
            AnyRef::decode(&mut reader)?;
        }
        let issuer = AnyRef::decode(&mut reader)?.value();
        let begins = time(&AnyRef::decode(&mut reader)?)?;
        let ends = AnyRef::decode(&mut reader).ok().and_then(|value| time(&value).ok());
        Ok(Self { signed, algorithm, signature, issuer, begins, ends })
    }

    /// Returns whether an authority with this SubjectPublicKeyInfo signed the list.
    fn is_signed_by(&self, key: &[u8]) -> bool {
        let parse = || {
            let mut reader = SliceReader::new(key)?;
            let algorithm = AnyRef::decode(&mut reader)?.value();
            der::Result::Ok((algorithm, BitStringRef::decode(&mut reader)?.raw_bytes()))
        };
        let Ok((algorithm, key)) = parse() else { return false };
        tls::provider().signature_verification_algorithms.all.iter().any(|known| {
            *known.public_key_alg_id() == *algorithm
                && *known.signature_alg_id() == *self.algorithm
                && known.verify_signature(key, self.signed, self.signature).is_ok()
        })
    }
}

fn time(value: &AnyRef<'_>) -> der::Result<Duration> {
    match value.tag() {
        Tag::UtcTime => value.decode_as::<UtcTime>().map(|time| time.to_unix_duration()),
        _ => value.decode_as::<GeneralizedTime>().map(|time| time.to_unix_duration()),
    }
}

/// Returns what is wrong with the issuers and the signatures of lists. A list of an authority below
/// is not checked, because its certificate comes with those of the clients.
fn foreign(lists: &[List<'_>], roots: &RootCertStore) -> Option<&'static str> {
    let mut has_own = false;
    for list in lists {
        let authorities: Vec<_> = roots.roots.iter().filter(|root| *root.subject == *list.issuer).collect();
        let is_signed = authorities.iter().any(|root| list.is_signed_by(&root.subject_public_key_info));
        if !authorities.is_empty() && !is_signed {
            return Some(
                "the signature of a revocation list is wrong, so it admits no client of its authority",
            );
        }
        has_own |= is_signed;
    }
    (!has_own).then_some("no revocation list is of an authority, so no client of another host is admitted")
}

fn names(certificate: &CertificateDer<'static>) -> Vec<String> {
    let parsed = EndEntityCert::try_from(certificate);
    parsed.map(|parsed| parsed.valid_dns_names().map(str::to_owned).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_handshakes_to_hosts_that_had_a_right_certificate() {
        let gate = Arc::new(Gate::default());
        let address = |text: &str| network(text.parse().expect("an address"));
        let known = address("2001:db8:1::1");
        lock(&gate.0).known.insert(known);
        // All addresses of a host are one.
        let of_host: Vec<_> =
            (0..9).map(|host| gate.turn(address(&format!("2001:db8:2::{host}"))).ok()).collect();
        assert_eq!(of_host.iter().flatten().count(), MOST_OF_ADDRESS);
        let others: Vec<_> = (3..99).map(|net| gate.turn(address(&format!("10.0.0.{net}"))).ok()).collect();
        assert_eq!(others.iter().flatten().count(), MOST_OF_STRANGERS - MOST_OF_ADDRESS);
        assert!(gate.turn(address("2001:db8:1::2")).is_ok());
        drop(of_host);
        assert!(gate.turn(address("2001:db8:2::1")).is_ok());
    }
}
