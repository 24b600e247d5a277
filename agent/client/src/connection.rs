//! Where the agent is, and connections to it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jeton_agent_wire::channel::Channel;
use jeton_agent_wire::{self as wire, MAX_FIRST, MAX_MESSAGE, Reply, Request};
use serde::Deserialize;

use crate::system::{self, Listed};

/// The place of the agent if nothing names one.
const DEFAULT: &str = "unix:/run/jeton/agent.socket";

/// How long a call waits for an agent that does not answer, in seconds.
const TIMEOUT: u64 = 10;
/// How long an agent may take for a new connection, and for its first answer there.
const BRIEF: Duration = Duration::from_secs(2);
/// After this time without an answer, a call asks on another connection whether the agent lives. A
/// key generation may take minutes.
const SILENCE: Duration = Duration::from_secs(2);
/// How long an agent may take no byte of a message. It may wait for the memory of the client first.
const STUCK: Duration = Duration::from_secs(8);
/// How long a connection may take: until it is there, to receive and to send.
const LIMITS: [Duration; 3] = [BRIEF, SILENCE, STUCK];
/// How long a short answer may take from its first byte to its last one.
const WHOLE: Duration = Duration::from_secs(4);

/// Where an agent is.
#[derive(Debug, Clone)]
pub enum Address {
    Unix(PathBuf),
    #[cfg(feature = "tls")]
    Tls(tls::Host),
}

/// The library parameters and the configuration file, as far as this module reads them.
#[derive(Default, Deserialize)]
struct Configuration {
    agent: Option<Named>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    /// The address alone.
    Address(String),
    Section(Section),
}

/// The section `[agent]` of `jeton.toml`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Section {
    /// `unix:/PATH` or `tls://HOST:PORT`; several are separated by commas.
    address: String,
    /// The PEM file with the certificates of this client, its own first.
    certificate: Option<PathBuf>,
    /// The PEM file with the key of that certificate.
    key: Option<PathBuf>,
    /// The PEM file with the certificates that the agent's certificate must lead to.
    authority: Option<PathBuf>,
    /// The PEM file with revocation lists of the agents' certificates.
    revoked: Option<PathBuf>,
    /// How long a call waits for an agent that does not answer, in seconds.
    timeout_seconds: Option<u64>,
}

impl Section {
    /// Returns the agents that the library parameters name, or else the environment, or else the
    /// configuration file.
    fn find(parameters: Option<&str>) -> Result<Self, String> {
        // The user who starts a setuid program must not choose who gets its PINs.
        let is_privileged = system::is_privileged();
        let variable = |name| std::env::var(name).ok().filter(|value| !is_privileged && !value.is_empty());
        // Other parameters, for example those that NSS passes to its own module, are not for this
        // module.
        let given = parameters.map(|text| format!("given = {{ {text} }}"));
        let given =
            given.and_then(|text| toml::from_str::<Given>(&text).ok()).and_then(|all| all.given.agent);
        let path = variable("JETON_CONF").map_or_else(system::configuration, PathBuf::from);
        let mut section = Self::read(&path)?;
        match given {
            Some(Named::Section(given)) => return Ok(given),
            Some(Named::Address(address)) => section.address = address,
            None => section.address = variable("JETON_AGENT").unwrap_or(section.address),
        }
        if section.address.is_empty() {
            DEFAULT.clone_into(&mut section.address);
        }
        Ok(section)
    }

    fn read(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = match wire::file::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path == system::configuration() => {
                Vec::new()
            }
            Err(error) => return Err(named(&error)),
        };
        let text = std::str::from_utf8(&text).map_err(|error| named(&error))?;
        let all: Configuration = toml::from_str(text).map_err(|error| named(&error.message()))?;
        Ok(match all.agent {
            Some(Named::Section(section)) => section,
            Some(Named::Address(address)) => Self { address, ..Self::default() },
            None => Self::default(),
        })
    }

    fn parse(&self, one: &str) -> Result<Address, String> {
        match one.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Address::Unix(path.into())),
            #[cfg(feature = "tls")]
            Some(("tls", host)) if host.starts_with("//") => {
                tls::Host::new(&host[2..], self).map(Address::Tls)
            }
            #[cfg(not(feature = "tls"))]
            Some(("tls", _)) => Err("this libjeton_client.so was built without TLS".to_owned()),
            _ => Err(format!("{one:?} is not unix:/PATH or tls://HOST:PORT")),
        }
    }
}

/// The library parameters: the inside of an inline table.
#[derive(Deserialize)]
struct Given {
    given: Configuration,
}

impl Address {
    /// Returns the agents that the library parameters, the environment or the configuration file
    /// names, and how long a call waits for them.
    pub fn all(parameters: Option<&str>) -> Result<(Vec<Self>, Duration), String> {
        let section = Section::find(parameters)?;
        let seconds = section.timeout_seconds.unwrap_or(TIMEOUT);
        if !(1..=600).contains(&seconds) {
            return Err(format!("[agent] timeout-seconds: {seconds} is not 1 to 600"));
        }
        let all: Result<_, _> = section.address.split(',').map(|one| section.parse(one.trim())).collect();
        Ok((all?, Duration::from_secs(seconds)))
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::fmt;
    use std::io;
    use std::net::ToSocketAddrs;
    use std::sync::Arc;

    use jeton_agent_wire::tls::{self, Tls};
    use rustls::client::WebPkiServerVerifier;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection};

    use super::{BRIEF, LIMITS, SILENCE, STUCK, Section};
    use crate::system::{Listed, connect_tcp};

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
        pub(super) fn new(address: &str, section: &Section) -> Result<Self, String> {
            let (Some(certificate), Some(key), Some(authority)) =
                (&section.certificate, &section.key, &section.authority)
            else {
                return Err(format!("tls://{address} needs certificate, key and authority in [agent]"));
            };
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
            let roots = Arc::new(tls::authorities(authority)?);
            let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, tls::provider());
            if let Some(path) = &section.revoked {
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

        pub(super) fn open(&self) -> io::Result<(Tls, Listed)> {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            for address in self.address.to_socket_addrs()? {
                match connect_tcp(&address, LIMITS) {
                    Ok((stream, listed)) => {
                        let configuration = Arc::clone(&self.configuration);
                        let connection = ClientConnection::new(configuration, self.name.clone());
                        let connection = connection.map_err(io::Error::other)?;
                        let mut tls = Tls::new(connection, stream);
                        // Dropped before the socket is closed.
                        let listed = listed;
                        tls.shake_hands(BRIEF, [SILENCE, STUCK])?;
                        return Ok((tls, listed));
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

pub struct Connection {
    _listed: Listed,
    pub channel: Channel,
    /// The number of the last request with calls.
    pub number: u32,
    /// Whether the last request has its answer. Otherwise no other one is sent.
    pub is_answered: bool,
    address: Address,
}

/// An exchange that failed.
#[derive(Debug)]
pub struct Lost {
    /// Whether the agent may have carried out the request.
    pub sent: bool,
    /// What happened.
    pub error: io::Error,
}

impl Lost {
    /// The request was not sent.
    pub fn unsent() -> Self {
        Self { sent: false, error: io::ErrorKind::NotConnected.into() }
    }

    /// The agent answered something that does not follow the protocol.
    pub fn malformed() -> Self {
        Self { sent: true, error: io::ErrorKind::InvalidData.into() }
    }
}

impl Connection {
    pub fn open(address: &Address) -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let most = processors.saturating_sub(1).max(1);
        let (channel, listed) = match address {
            Address::Unix(path) => {
                let (socket, listed) = system::connect_unix(path, LIMITS)?;
                (Channel::new(socket, most), listed)
            }
            #[cfg(feature = "tls")]
            Address::Tls(host) => {
                let (tls, listed) = host.open()?;
                (Channel::new(tls, most), listed)
            }
        };
        Ok(Self { _listed: listed, channel, number: 0, is_answered: true, address: address.clone() })
    }

    /// Returns the message to send.
    pub fn frame(&mut self) -> &mut Vec<u8> {
        &mut self.channel.frame
    }

    /// Sends the frame and returns the message that answers it. Waits while the agent lives, and
    /// for at most the time `patience` if there is one.
    pub fn exchange(&mut self, patience: Option<Duration>) -> Result<&[u8], Lost> {
        self.is_answered = false;
        self.channel.whole = STUCK;
        // A request that is not whole is not carried out.
        self.channel.send().map_err(|error| Lost { sent: false, error })?;
        self.channel.whole = WHOLE;
        let start = Instant::now();
        while let Err(error) = self.channel.receive(MAX_MESSAGE, |_| true) {
            let is_over = patience.is_some_and(|patience| start.elapsed() >= patience);
            if error.kind() != io::ErrorKind::WouldBlock || is_over || !lives(&self.address) {
                return Err(Lost { sent: true, error });
            }
        }
        self.is_answered = true;
        Ok(self.channel.parts().0)
    }

    /// Sends a request that the agent carries out and answers with a code.
    pub fn ask(&mut self, request: &Request<'_>) -> Result<u64, Lost> {
        wire::encode(request, self.frame()).map_err(|_| Lost::malformed())?;
        match wire::decode(self.exchange(Some(STUCK))?) {
            Ok(Reply::Done(code)) => Ok(code),
            _ => Err(Lost::malformed()),
        }
    }

    /// Sends the first request of a connection, which the agent answers at once.
    pub fn ask_briefly(&mut self, request: &Request<'_>) -> Result<Reply<'_>, Lost> {
        wire::encode(request, self.frame()).map_err(|_| Lost::malformed())?;
        self.channel.send().map_err(|error| Lost { sent: false, error })?;
        self.channel.whole = BRIEF;
        self.channel.receive(MAX_FIRST, |_| true).map_err(|error| Lost { sent: true, error })?;
        wire::decode(self.channel.parts().0).map_err(|_| Lost::malformed())
    }
}

#[cfg(feature = "tls")]
pub use wire::tls::is_final;

/// Without TLS, no error is final.
#[cfg(not(feature = "tls"))]
pub fn is_final(_: &io::Error) -> bool {
    false
}

/// Returns whether an agent answers on a new connection.
fn lives(address: &Address) -> bool {
    let nothing = Request::Join { version: wire::VERSION, application: [0; 32] };
    Connection::open(address).is_ok_and(|mut other| other.ask_briefly(&nothing).is_ok())
}
