//! Connections from other hosts: TLS 1.3 with certificates of both sides.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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

use crate::PROGRESS;
use crate::handshake_limits::Turn;

/// How long a peer may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

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
        turn.succeed();
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

/// Lets the connection fail when its peer has vanished: after 35 s without an answer to probes, or
/// 40 s without one to data.
fn limit(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    Ok(sockopt::set_tcp_user_timeout(stream, 40_000)?)
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
