//! The database that has the tokens: the settings in `[store]` that belong to `url`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::{SealingSource, StoreRules, refuse, within};
use crate::error::Result;

/// The default schema of the tables.
const SCHEMA: &str = "jeton";
/// The default of the longest time that a call waits for the server, in seconds.
const TIMEOUT: u32 = 10;
/// The longest time that the configuration may set, in seconds.
const LONGEST_TIMEOUT: u32 = 600;
/// The longest name that PostgreSQL does not cut.
const LONGEST_NAME: usize = 63;

/// How to reach the database that has the tokens, and the rules for its use.
#[derive(Debug, Clone)]
pub struct DatabaseRules {
    /// The address, `postgresql://...`. It has no password.
    pub url: String,
    /// The schema that has the tables.
    pub schema: String,
    /// The location of the password; `None` if the server asks for none.
    pub password: Option<SealingSource>,
    /// The file with the certificates of the authorities that may have issued the server's
    /// certificate. A connection with TLS needs it.
    pub ca_file: Option<PathBuf>,
    /// The files with the certificate of the client and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The lowest setting of `synchronous_commit` that the server may have.
    pub least_commit: CommitLevel,
    /// Whether the server must wait for a synchronous standby.
    pub require_standby: bool,
    /// How long the keys in memory may be used while the server cannot be reached. `None`: as long
    /// as the login lasts.
    pub outage: Option<Duration>,
    /// How long a call waits for the server.
    pub timeout: Duration,
}

/// The values of PostgreSQL's `synchronous_commit`, in ascending order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitLevel {
    /// A crash of the server may lose acknowledged changes.
    Off,
    /// A failover to a standby may lose acknowledged changes.
    Local,
    /// A failover to a standby whose operating system crashed may lose acknowledged changes.
    RemoteWrite,
    /// An acknowledged change is on the disk of the server and of its synchronous standbys.
    #[default]
    On,
    /// Like `On`, and searches on the standbys find the change.
    RemoteApply,
}

impl CommitLevel {
    /// Returns the level with this name of PostgreSQL; `None` if there is none.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "off" => Self::Off,
            "local" => Self::Local,
            "remote_write" => Self::RemoteWrite,
            "on" => Self::On,
            "remote_apply" => Self::RemoteApply,
            _ => return None,
        })
    }
}

/// Returns the rules of the configured database; `None` if the configuration has no `url`.
pub(super) fn rules(store: &StoreRules) -> Result<Option<DatabaseRules>> {
    let Some(url) = &store.url else { return Ok(None) };
    if !["postgresql://", "postgres://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(refuse("store.url", &"must begin with postgresql://"));
    }
    if has_password(url) {
        return Err(refuse("store.url", &"must not have a password: set store.password to its place"));
    }
    let schema = store.schema.as_deref().unwrap_or(SCHEMA);
    if !is_name(schema) {
        return Err(refuse("store.schema", &"must be up to 63 of a-z, 0-9 and _, and begin with a letter"));
    }
    let timeout = store.timeout_seconds.unwrap_or(TIMEOUT);
    let timeout = within("store.timeout-seconds", timeout, 1..=LONGEST_TIMEOUT)?;
    if cfg!(not(feature = "postgresql")) {
        let reason = "this build of Jeton has no client for PostgreSQL (cargo feature postgresql)";
        return Err(refuse("store.url", &reason));
    }
    let client = match (&store.client_certificate, &store.client_key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        _ => return Err(refuse("store.client-key", &"client-certificate and client-key belong together")),
    };
    let password = store.password.as_deref().map(str::parse).transpose();
    Ok(Some(DatabaseRules {
        url: url.clone(),
        schema: schema.to_owned(),
        password: password.map_err(|reason: &str| refuse("store.password", &reason))?,
        ca_file: store.ca_file.clone(),
        client,
        least_commit: store.least_commit,
        require_standby: store.require_standby,
        outage: store.outage_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        timeout: Duration::from_secs(timeout.into()),
    }))
}

/// Returns whether an address contains a password, after the user or as a parameter.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (address, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let user = address.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || parameters.split('&').any(|parameter| parameter.starts_with("password="))
}

/// Returns whether this is a name that SQL needs no quotes for.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
        && name.len() <= LONGEST_NAME
        && name.as_bytes().iter().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_found() {
        for url in ["postgresql://a:b@host/db", "postgresql://host/db?password=b", "postgres://a:@host"] {
            assert!(has_password(url), "{url}");
        }
        for url in ["postgresql://a@host:5432/db", "postgresql:///db?host=/run", "postgresql://[::1]:5432/db"]
        {
            assert!(!has_password(url), "{url}");
        }
    }

    #[test]
    fn a_schema_is_a_plain_name() {
        for (name, fits) in
            [("jeton", true), ("a_1", true), ("", false), ("1a", false), ("a b", false), ("A", false)]
        {
            assert_eq!(is_name(name), fits, "{name:?}");
        }
        assert!(!is_name(&"a".repeat(64)));
    }

    #[test]
    fn levels_are_ordered_by_durability() {
        let names = ["off", "local", "remote_write", "on", "remote_apply"];
        let levels: Vec<_> = names.iter().map(|name| CommitLevel::named(name).expect("a level")).collect();
        assert!(levels.is_sorted());
        assert_eq!(CommitLevel::named("yes"), None);
    }
}
