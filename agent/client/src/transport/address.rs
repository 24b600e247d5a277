//! Where the agent is: library parameters, the environment and the configuration file.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jeton_agent_wire as wire;
use serde::Deserialize;

#[cfg(feature = "tls")]
use super::tls;
use crate::system;

/// The place of the agent if nothing names one.
const DEFAULT: &str = "unix:/run/jeton/agent.socket";
/// How long a call waits for an agent that does not answer, in seconds.
const TIMEOUT: u64 = 10;

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
                let files = tls::Files {
                    certificate: self.certificate.as_deref(),
                    key: self.key.as_deref(),
                    authority: self.authority.as_deref(),
                    revoked: self.revoked.as_deref(),
                };
                tls::Host::new(&host[2..], &files).map(Address::Tls)
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
