//! The configuration: none is needed, and a wrong one is named in the log and refused, never half obeyed.
//!
//! Sources, later ones over earlier ones: the defaults, the TOML file that `JETON_CONF` names, the library
//! parameters of `C_Initialize` (the inside of a TOML inline table: `token-dir = "/a", backend = "rustcrypto"`),
//! `JETON_DIR` for the token directory.

use std::env;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Deserialize;
use tracing::error;

use crate::audit::Audit;
use crate::backend::Provider;
use crate::error::{Error, Result};
use crate::id::MechanismType;
use crate::mechanism::{self, Mechanism};

mod log;

/// The configuration of a module, checked.
pub struct Settings {
    /// Where the token files are.
    pub token_dir: PathBuf,
    /// The backend that computes.
    pub provider: &'static Provider,
    /// The mechanisms that are offered, sorted by number.
    pub mechanisms: Vec<&'static Mechanism>,
    /// What holds for PINs.
    pub pins: PinRules,
    /// Where the counters are that show an older copy of a token's file; none are kept without.
    pub counter_dir: Option<PathBuf>,
    /// The audit log; none without configuration.
    pub audit: Option<Audit>,
}

/// What holds for PINs.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PinRules {
    /// Shortest PIN in bytes.
    pub min_length: usize,
    /// Longest PIN in bytes.
    pub max_length: usize,
    /// Wrong PINs in a row that lock one.
    pub retries: u32,
    /// Memory of Argon2id in KiB, for PINs set from now on, and for records that a login finds weaker.
    pub memory_kib: u32,
    /// Passes of Argon2id, likewise.
    pub passes: u32,
}

impl PinRules {
    /// The memory of Argon2id that is configured or obeyed, in KiB: a file must not ask for all that there is.
    pub const MEMORY_KIB: RangeInclusive<u32> = 8..=1 << 20;
    /// Its passes.
    pub const PASSES: RangeInclusive<u32> = 1..=64;
}

impl Default for PinRules {
    fn default() -> Self {
        // Argon2id over 32 MiB in three passes takes 60 to 100 ms on one core.
        Self { min_length: 4, max_length: 255, retries: 10, memory_kib: 32 * 1024, passes: 3 }
    }
}

impl Settings {
    /// Reads the configuration and starts the logs, with a thread where there may be one.
    pub fn load(parameters: Option<&str>, threads: bool) -> Result<Self> {
        let file = File::gather(parameters)?;
        log::start(&file.log).map_err(|reason| refuse("log", &reason))?;
        let provider = provider(file.backend.as_deref())?;
        let audit = file.audit.file.map(|path| Audit::open(&path, provider, threads)).transpose()?;
        Ok(Self {
            token_dir: token_dir(file.token_dir)?,
            provider,
            mechanisms: offered(&file.mechanisms)?,
            pins: checked(file.pin)?,
            counter_dir: file.store.counter_dir,
            audit,
        })
    }

    /// The mechanism of that number, if it is offered.
    pub fn mechanism(&self, id: MechanismType) -> Option<&'static Mechanism> {
        let at = self.mechanisms.binary_search_by_key(&id, |mechanism| mechanism.id).ok()?;
        Some(self.mechanisms[at])
    }
}

/// The file as it is written.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    token_dir: Option<PathBuf>,
    backend: Option<String>,
    log: LogRules,
    mechanisms: MechanismRules,
    pin: PinRules,
    store: StoreRules,
    audit: AuditRules,
}

/// How tokens are kept.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct StoreRules {
    counter_dir: Option<PathBuf>,
}

/// Where the audit log is.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct AuditRules {
    file: Option<PathBuf>,
}

/// What is logged, and where.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct LogRules {
    level: Option<String>,
    file: Option<PathBuf>,
}

/// Which mechanisms are offered: those allowed (all without a list) less those denied, and less those of old, where
/// `legacy` does not have them.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct MechanismRules {
    allow: Option<Vec<String>>,
    deny: Vec<String>,
    legacy: bool,
}

impl File {
    /// The file and the parameters, each checked by itself so that a mistake is named where it stands.
    fn gather(parameters: Option<&str>) -> Result<Self> {
        let mut all = toml::Table::new();
        if let Some(path) = set("JETON_CONF") {
            let source = path.display().to_string();
            let text = std::fs::read_to_string(&path).map_err(|reason| refuse(&source, &reason))?;
            all.extend(table(&source, &text)?);
        }
        if let Some(text) = parameters.filter(|text| !text.trim().is_empty()) {
            let source = "library parameters";
            let mut wrapped = plain_table(source, &format!("parameters = {{ {text} }}"))?;
            let Some(toml::Value::Table(inner)) = wrapped.remove("parameters") else {
                return Err(refuse(source, &"not the inside of an inline table"));
            };
            all.extend(table(source, &inner.to_string())?);
        }
        all.try_into().map_err(|reason| refuse("configuration", &reason))
    }
}

/// A TOML text that is a configuration.
fn table(source: &str, text: &str) -> Result<toml::Table> {
    toml::from_str::<File>(text).map_err(|reason| refuse(source, &reason))?;
    plain_table(source, text)
}

fn plain_table(source: &str, text: &str) -> Result<toml::Table> {
    toml::from_str(text).map_err(|reason| refuse(source, &reason))
}

/// The path in an environment variable; an empty one is none.
fn set(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// `JETON_DIR`, the configured one, or the XDG data directory.
fn token_dir(configured: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(dir) = set("JETON_DIR") {
        return Ok(dir);
    }
    if let Some(dir) = configured {
        return Ok(dir);
    }
    let data = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    data.or_else(|| env::home_dir().map(|home| home.join(".local/share")))
        .map(|data| data.join("jeton/tokens"))
        .ok_or_else(|| refuse("token-dir", &"neither JETON_DIR, token-dir, XDG_DATA_HOME nor HOME is set"))
}

fn provider(name: Option<&str>) -> Result<&'static Provider> {
    let Some(name) = name else { return Ok(Provider::ALL[0]) };
    Provider::named(name).ok_or_else(|| {
        let known: Vec<_> = Provider::ALL.iter().map(|provider| provider.name).collect();
        refuse("backend", &format!("{name:?} is none of {known:?}"))
    })
}

fn offered(rules: &MechanismRules) -> Result<Vec<&'static Mechanism>> {
    let allow = rules.allow.as_ref().map(|names| numbers("mechanisms.allow", names)).transpose()?;
    let deny = numbers("mechanisms.deny", &rules.deny)?;
    let mut offered: Vec<_> = mechanism::all()
        .filter(|row| rules.legacy || !mechanism::is_legacy(row))
        .filter(|row| allow.as_ref().is_none_or(|allow| allow.contains(&row.id)) && !deny.contains(&row.id))
        .collect();
    offered.sort_by_key(|mechanism| mechanism.id);
    Ok(offered)
}

fn numbers(key: &str, names: &[String]) -> Result<Vec<MechanismType>> {
    let number = |name: &String| {
        MechanismType::named(name)
            .ok_or_else(|| refuse(key, &format!("{name:?} is no mechanism of this token")))
    };
    names.iter().map(number).collect()
}

/// PINs from 1 byte.
fn checked(pins: PinRules) -> Result<PinRules> {
    let wrong = if pins.min_length == 0 || pins.min_length > pins.max_length {
        Some(("pin.min-length", "must be from 1 to max-length"))
    } else if pins.max_length > 1024 {
        Some(("pin.max-length", "must be at most 1024"))
    } else if pins.retries == 0 {
        Some(("pin.retries", "must be at least 1"))
    } else if !PinRules::MEMORY_KIB.contains(&pins.memory_kib) {
        Some(("pin.memory-kib", "must be from 8 to 1048576"))
    } else if !PinRules::PASSES.contains(&pins.passes) {
        Some(("pin.passes", "must be from 1 to 64"))
    } else {
        None
    };
    match wrong {
        Some((key, reason)) => Err(refuse(key, &reason)),
        None => Ok(pins),
    }
}

/// Names what is wrong in the log; the caller learns that the configuration was refused.
fn refuse(at: &str, reason: &dyn std::fmt::Display) -> Error {
    log::start_default();
    let file = env::var_os("JETON_CONF");
    error!(at, file = ?file, "configuration refused: {}", reason.to_string().trim_end());
    Error::GeneralError
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> Result<File> {
        table("test", text)?.try_into().map_err(|_| Error::GeneralError)
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert!(file("token-dir = '/a'\n[pin]\nretries = 3\n").is_ok());
        for text in ["tokendir = '/a'", "[pin]\nretry = 3", "[log]\nlevel = 3", "backend = "] {
            assert!(file(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_backend_mechanism_or_limit_is_refused() {
        assert!(provider(Some("openssl")).is_err());
        let rules = MechanismRules { allow: None, deny: vec!["CKM_NONE".into()], legacy: false };
        assert!(offered(&rules).is_err());
        assert!(checked(PinRules { min_length: 9, max_length: 8, ..PinRules::default() }).is_err());
        assert!(checked(PinRules { memory_kib: u32::MAX, ..PinRules::default() }).is_err());
    }

    #[test]
    fn a_denied_mechanism_is_not_offered() {
        let rules = MechanismRules { allow: None, deny: vec!["CKM_RSA_X_509".into()], legacy: false };
        let offered = offered(&rules).expect("known names");
        assert!(!offered.iter().any(|row| row.id == MechanismType::RSA_X_509));
        assert_eq!(offered.len() + 1, mechanism::all().filter(|row| !mechanism::is_legacy(row)).count());
    }
}
