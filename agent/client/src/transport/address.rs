//! Where the agent is: library parameters, the environment and the configuration file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jeton_agent_wire as wire;
use jeton_words::general::Threads;
use serde::Deserialize;
use tracing::level_filters::LevelFilter;

#[cfg(feature = "tls")]
use super::tls;
use crate::system;

/// The place of the agent if nothing names one.
const DEFAULT: &str = "unix:/run/jeton/agent.socket";
/// How long a call waits for an agent that does not answer, in seconds.
const TIMEOUT: u64 = 10;

/// Where an agent is.
#[derive(Clone)]
pub enum Address {
    Unix(PathBuf),
    #[cfg(feature = "tls")]
    Tls(tls::Host),
}

/// The library parameters and the configuration file, as far as this module reads them.
#[derive(Default, Deserialize)]
struct Configuration {
    agent: Option<Named>,
    #[serde(default)]
    log: Log,
    #[cfg(feature = "split")]
    split: Option<SplitSection>,
    #[cfg(not(feature = "split"))]
    split: Option<serde::de::IgnoredAny>,
}

impl Configuration {
    fn read(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let text = match wire::file::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path == system::configuration() => {
                Vec::new()
            }
            Err(error) => return Err(named(&error)),
        };
        let text = std::str::from_utf8(&text).map_err(|error| named(&error))?;
        toml::from_str(text).map_err(|error| named(&error.message()))
    }
}

/// Returns a variable of the environment. The user who starts a setuid program must not choose who
/// gets its PINs.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty() && !system::is_privileged())
}

/// The section `[split]`: the agents that have the shares of split keys.
#[cfg(feature = "split")]
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SplitSection {
    /// The addresses of the agents, in the order that new keys have.
    agents: Vec<String>,
    /// How many of them a new key needs.
    threshold: u8,
    /// The label of the token at each agent. Absent: it has only one.
    token: Option<String>,
}

/// A group of agents.
#[cfg(feature = "split")]
pub struct Split {
    pub agents: Vec<String>,
    pub threshold: u8,
    pub token: Option<String>,
    /// How long a call waits.
    pub patience: Duration,
}

#[cfg(feature = "split")]
impl Split {
    /// Returns the group that the library parameters name, or else the configuration file. An agent
    /// that the parameters or the environment names comes before a group of the file.
    pub fn find(parameters: Option<&str>) -> Result<Option<Self>, String> {
        let given = parameters.map_or_else(|| Ok(Configuration::default()), given)?;
        let is_named = given.agent.is_some() || variable("JETON_AGENT").is_some();
        let path = variable("JETON_CONF").map_or_else(system::configuration, PathBuf::from);
        let mut file = Configuration::read(&path)?;
        let split = given.split.or(file.split.take().filter(|_| !is_named));
        let Some(SplitSection { agents, threshold, token }) = split else { return Ok(None) };
        if !(2..=wire::split::MAX_AGENTS).contains(&agents.len())
            || !(2..=agents.len()).contains(&usize::from(threshold))
        {
            return Err("[split]: threshold is at least 2, and at most the number of agents".to_owned());
        }
        let (section, _) = Section::of(file);
        let patience = Duration::from_secs(section.timeout_seconds.unwrap_or(TIMEOUT));
        Ok(Some(Self { agents, threshold, token, patience }))
    }
}

/// The section `[log]`. Its other keys are for the module in process.
#[derive(Default, Deserialize)]
struct Log {
    level: Option<String>,
}

impl Log {
    fn level(&self) -> Result<Option<LevelFilter>, String> {
        let parse = |text: &String| text.parse().map_err(|_| format!("[log] level: {text:?} is no level"));
        self.level.as_ref().map(parse).transpose()
    }
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
    /// configuration file, and the level of the log.
    fn find(parameters: Option<&str>) -> Result<(Self, LevelFilter), String> {
        let given = parameters.map_or_else(|| Ok(Configuration::default()), given)?;
        let path = variable("JETON_CONF").map_or_else(system::configuration, PathBuf::from);
        let file = Configuration::read(&path)?;
        // The application would take one agent for the group.
        #[cfg(not(feature = "split"))]
        if given.split.is_some() || file.split.is_some() {
            return Err("[split]: this libjeton_client.so was built without split keys".to_owned());
        }
        let (mut section, log) = Self::of(file);
        let level = given.log.level()?.or(log.level()?).unwrap_or(LevelFilter::ERROR);
        match given.agent {
            Some(Named::Section(given)) => return Ok((given, level)),
            Some(Named::Address(address)) => section.address = address,
            None => section.address = variable("JETON_AGENT").unwrap_or(section.address),
        }
        if section.address.is_empty() {
            DEFAULT.clone_into(&mut section.address);
        }
        Ok((section, level))
    }

    fn of(all: Configuration) -> (Self, Log) {
        let section = match all.agent {
            Some(Named::Section(section)) => section,
            Some(Named::Address(address)) => Self { address, ..Self::default() },
            None => Self::default(),
        };
        (section, all.log)
    }

    #[cfg_attr(not(feature = "tls"), allow(unused_variables, reason = "only TLS needs a thread"))]
    fn parse(&self, one: &str, threads: Threads) -> Result<Address, String> {
        match one.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Address::Unix(path.into())),
            #[cfg(feature = "tls")]
            Some(("tls", host)) if host.starts_with("//") => {
                let files = tls::Files {
                    certificate: self.certificate.as_deref(),
                    key: self.key.as_deref(),
                    authority: self.authority.as_deref(),
                    revoked: self.revoked.as_deref(),
                };
                tls::Host::new(&host[2..], &files, threads).map(Address::Tls)
            }
            #[cfg(not(feature = "tls"))]
            Some(("tls", _)) => Err("this libjeton_client.so was built without TLS".to_owned()),
            _ => Err(format!("{one:?} is not unix:/PATH or tls://HOST:PORT")),
        }
    }
}

/// Reads the library parameters: the inside of an inline table. Others, for example those that NSS
/// passes to its own module, are not for this module.
fn given(text: &str) -> Result<Configuration, String> {
    #[derive(Deserialize)]
    struct Given<T> {
        given: T,
    }
    let table = format!("given = {{ {text} }}");
    let is_ours = match toml::from_str::<Given<toml::Table>>(&table) {
        Ok(Given { given }) => ["agent", "log", "split"].iter().any(|key| given.contains_key(*key)),
        Err(_) => text.trim_start().starts_with("agent"),
    };
    if !is_ours {
        return Ok(Configuration::default());
    }
    let read = toml::from_str::<Given<_>>(&table).map(|all| all.given);
    read.map_err(|error| format!("the library parameters: {}", error.message()))
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "{}", path.display()),
            #[cfg(feature = "tls")]
            Self::Tls(host) => write!(formatter, "{host}"),
        }
    }
}

impl Address {
    /// Returns the agents that the library parameters, the environment or the configuration file
    /// names, how long a call waits for them, and the level of the log.
    pub fn all(
        parameters: Option<&str>,
        threads: Threads,
    ) -> Result<(Vec<Self>, Duration, LevelFilter), String> {
        let (section, level) = Section::find(parameters)?;
        let seconds = section.timeout_seconds.unwrap_or(TIMEOUT);
        if !(1..=600).contains(&seconds) {
            return Err(format!("[agent] timeout-seconds: {seconds} is not 1 to 600"));
        }
        let all = section.address.split(',').map(|one| section.parse(one.trim(), threads));
        Ok((all.collect::<Result<_, _>>()?, Duration::from_secs(seconds), level))
    }
}
