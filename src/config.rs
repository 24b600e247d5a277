//! The configuration. The token works without a configuration. It refuses an invalid configuration
//! as a whole, and the log names the mistake.
//!
//! The sources are, in this order: the defaults; the TOML files of the machine and of the user, and
//! the one that `JETON_CONF` names (`files.rs`); the library parameters of `C_Initialize`;
//! `JETON_DIR` for the token directory. Later sources override earlier ones. The library parameters
//! are the inside of a TOML inline table: `token-dir = "/a", backend = "rustcrypto"`. A process
//! with raised privileges (setuid) ignores its environment and the files of the user. Then the file
//! of the machine or the library parameters must name the token directory.

use std::collections::HashMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use jeton_words::general::Threads;
use rustix::process::{Resource, getrlimit};
use serde::Deserialize;
use tracing::{error, warn};

use crate::audit::Audit;
use crate::backend::{Provider, SHORTEST_RSA};
use crate::error::{Error, Result};
use crate::id::{KeyType, MechanismType, SlotId, mechanism_flag as does};
use crate::mechanism::curve::{NAMED_CURVES, NamedCurve};
use crate::mechanism::{self, Mechanism, MechanismRow, Standing};

pub mod cnsa2;
mod database;
pub(crate) mod environment;
mod files;
pub mod fips;
pub mod log;
mod sealing;
pub mod strict;

pub use database::{CommitLevel, DatabaseRules};
pub(crate) use files::files;
pub use files::text;
pub use sealing::SealingSource;
pub(crate) use sealing::credentials;

/// The smallest RSA modulus in bits of keys that do more than verify, and the default limit. DNSSEC
/// zone-signing keys and smart card profiles still use this size.
pub(crate) const LEAST_RSA_BITS: u64 = 1024;
/// The limits that the configuration may set: from the smallest modulus that the backends support
/// to the largest that is generated.
const MIN_RSA_BITS: RangeInclusive<u64> = SHORTEST_RSA as u64..=8192;
/// The valid range of the smallest curve in bits: the sizes of the smallest and the largest curve.
const MIN_EC_BITS: RangeInclusive<u64> = 224..=521;

/// The default number of token files that are open at the same time.
const OPEN_TOKENS: usize = 64;
/// The largest number of open token files that the configuration may set.
const MOST_OPEN_TOKENS: usize = 1 << 16;
/// The most uses of a key that one commit may count.
const MOST_RESERVED: u64 = 1 << 16;
/// The number of descriptors of an open token file, with its log, index and locks. The tokens use
/// at most half of the descriptors of the process.
const DESCRIPTORS: usize = 8;

/// The checked configuration of a module.
pub struct Settings {
    /// The directory of the token files.
    pub token_dir: PathBuf,
    /// The tokens that the module looks for; `None` for all tokens of the directory. A process in a
    /// sandbox may be unable to list the directory. No configuration file sets this.
    pub tokens: Option<Seen>,
    /// The most tokens that the module sees after it has made one; `None` for any number. No
    /// configuration file sets this.
    pub most_tokens: Option<usize>,
    /// The algorithms of the files of new tokens.
    pub token_format: Format,
    /// The backend that does the cryptography.
    pub provider: &'static Provider,
    /// The offered mechanisms, sorted by number.
    pub mechanisms: Vec<&'static MechanismRow>,
    /// The smallest RSA modulus in bits.
    pub min_rsa_bits: u64,
    /// The smallest curve in bits.
    pub min_ec_bits: u64,
    /// The curves that keys may have. They have at least `min_ec_bits`.
    pub curves: Vec<&'static NamedCurve>,
    /// Whether slots claim to be readers of removable devices.
    pub removable: bool,
    /// The rules for PINs.
    pub pins: PinRules,
    /// The uses of keys that the token refuses although PKCS#11 allows them.
    pub policy: PolicyRules,
    /// The directory of the counters; `None` if there are no counters. A counter reveals that an
    /// older copy replaced a token's file.
    pub counter_dir: Option<PathBuf>,
    /// The location of the sealing key, which PIN records need in addition to the PIN.
    pub sealing_key: Option<SealingSource>,
    /// The number of uses of a key that one commit counts.
    pub reserve: u64,
    /// The largest number of token files that are open at the same time.
    pub open_tokens: usize,
    /// The database that has the tokens; `None` if they are files.
    pub database: Option<DatabaseRules>,
    /// The audit log; `None` if it is not configured.
    pub audit: Option<Audit>,
}

/// The tokens of a directory that a module looks for.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Their serial numbers. A flat token, which has no directory of its own, is not found.
    pub serials: Vec<String>,
    /// The slots of all tokens of the directory, by serial number: a token has one slot for those
    /// who see all tokens and for those who see some.
    pub slots: HashMap<String, SlotId>,
}

/// The rules for PINs.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PinRules {
    /// The shortest PIN in bytes.
    pub min_length: usize,
    /// The longest PIN in bytes.
    pub max_length: usize,
    /// The number of consecutive wrong PINs that locks a PIN.
    pub retries: u32,
    /// The memory of Argon2id in KiB for new PINs. A login strengthens a record that uses less.
    pub memory_kib: u32,
    /// The passes of Argon2id for new PINs. A login strengthens a record that uses fewer.
    pub passes: u32,
    /// The additional seconds of a login while the disk is full or read-only. A wrong PIN cannot be
    /// counted on disk then.
    pub uncounted_delay: u32,
}

impl PinRules {
    /// The valid range of the memory of Argon2id in KiB, for the configuration and for PIN records.
    /// The upper limit stops a file from demanding all memory of the machine.
    pub const MEMORY_KIB: RangeInclusive<u32> = 8..=1 << 20;
    /// The valid range of the passes of Argon2id.
    pub const PASSES: RangeInclusive<u32> = 1..=64;
    /// The default delay in seconds of a login while wrong PINs cannot be counted on disk.
    pub const UNCOUNTED_DELAY: u32 = 3;
    /// The longest such delay that the configuration may set, in seconds.
    const LONGEST_DELAY: u32 = 60;
}

impl Default for PinRules {
    fn default() -> Self {
        // OWASP's recommended minimum for Argon2id. It takes 18 to 23 ms on one core:
        // docs/security.md, "PINs".
        Self {
            min_length: 4,
            max_length: 255,
            retries: 10,
            memory_kib: 19 * 1024,
            passes: 2,
            uncounted_delay: Self::UNCOUNTED_DELAY,
        }
    }
}

/// The algorithms that protect a token. The number is the first byte of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Argon2id, XChaCha20-Poly1305 and SipHash-2-4.
    Standard = 1,
    /// PBKDF2 and HMAC with SHA-256, and AES-256-GCM with nonces of the library (docs/fips.md).
    Fips = 2,
}

impl Default for Format {
    fn default() -> Self {
        if cfg!(feature = "fips") { Self::Fips } else { Self::Standard }
    }
}

/// The `[policy]` section: which uses of keys the token refuses although PKCS#11 allows them.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PolicyRules {
    /// The policy.
    pub name: Policy,
    /// Allows `CKM_RSA_X_509` in `C_WrapKey` and `C_UnwrapKey`. This mechanism has no padding: if
    /// the public exponent is 3, a cube root of the wrapped key can reveal the key.
    pub raw_rsa_wrap: bool,
    /// Lets Diffie-Hellman keys agree in groups whose prime is not safe. Only *compatible* has
    /// this.
    pub any_dh_group: bool,
    /// What happens to services that are not approved. Only the build with the validated module has
    /// this.
    pub fips: Fips,
}

impl PolicyRules {
    fn does(&self, mechanism: &MechanismRow) -> u64 {
        let mut flags = mechanism.flags;
        if mechanism.id == MechanismType::RSA_X_509 && !self.raw_rsa_wrap {
            flags &= !(does::WRAP | does::UNWRAP);
        }
        if self.enforces_fips() {
            flags &= fips::left(mechanism);
        }
        match self.name {
            Policy::Compatible => flags,
            Policy::Strict => flags & !strict::refused(mechanism),
            Policy::Cnsa2 => flags & !cnsa2::refused(mechanism),
        }
    }

    fn enforces_fips(&self) -> bool {
        cfg!(feature = "fips") && self.fips == Fips::Enforce
    }

    /// Returns whether the build has this curve and the policy allows it.
    fn has_curve(&self, curve: &NamedCurve) -> bool {
        let in_build = !cfg!(feature = "fips") || fips::has_curve(curve);
        in_build && (!self.enforces_fips() || fips::approves_curve(curve))
    }

    /// Returns whether the build has the mechanism and the policy allows at least one function of
    /// it.
    fn offers(&self, mechanism: &MechanismRow) -> bool {
        let in_build = !cfg!(feature = "fips") || fips::has(mechanism);
        let allows_all = self.name == Policy::Compatible && !self.enforces_fips();
        in_build && (allows_all || self.does(mechanism) != 0)
    }

    fn pins(&self, pins: PinRules) -> PinRules {
        match self.name {
            Policy::Compatible => pins,
            Policy::Strict | Policy::Cnsa2 => {
                PinRules { min_length: pins.min_length.max(strict::PIN), ..pins }
            }
        }
    }
}

/// A named set of rules for the use of keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Allows the uses that PKCS#11 clients need.
    #[default]
    Compatible,
    /// Separates the roles of keys and refuses weak mechanisms.
    Strict,
    /// As `Strict`, and allows only the algorithms of CNSA 2.0.
    Cnsa2,
}

/// The handling of services that are not approved (FIPS 140-3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fips {
    /// `C_GetSessionValidationFlags` tells them apart.
    #[default]
    Mark,
    /// The token refuses them.
    Enforce,
}

impl Policy {
    /// Returns its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Strict => "strict",
            Self::Cnsa2 => "cnsa2",
        }
    }
}

/// What a module uses under a configuration, for a process that admits itself to nothing else.
#[derive(Debug)]
pub struct Places {
    /// The token directory.
    pub tokens: PathBuf,
    /// The directory of the counters.
    pub counters: Option<PathBuf>,
    /// The file of the log.
    pub log: Option<PathBuf>,
    /// The file of the audit log.
    pub audit: Option<PathBuf>,
    /// The file of the sealing key.
    pub sealing_key: Option<PathBuf>,
    /// Whether the sealing key is in a keyring of the kernel.
    pub has_keyring: bool,
    /// Whether the module connects to a database, or its log to the local syslog.
    pub has_sockets: bool,
}

impl Settings {
    /// Reads the configuration and starts the logs. `threads` says whether the audit log may
    /// have a thread.
    pub fn load(parameters: Option<&str>, threads: Threads) -> Result<Self> {
        let mut file = File::gather(parameters)?;
        let token_dir = token_dir(file.token_dir.take())?;
        Self::of(file, token_dir, threads, None)
    }

    /// Like [`load`](Self::load), with the text of a configuration file instead of the sources of
    /// the configuration. `JETON_DIR` counts only if the text names no token directory. [`text`]
    /// returns the text of all sources of another process. Opens no audit log if one is given.
    pub fn parse(text: &str, threads: Threads, audit: Option<Audit>) -> Result<Self> {
        let mut file = File::parse(text)?;
        let token_dir = file.token_dir.take().map_or_else(|| token_dir(None), Ok)?;
        Self::of(file, token_dir, threads, audit)
    }

    fn of(file: File, token_dir: PathBuf, threads: Threads, audit: Option<Audit>) -> Result<Self> {
        log::start(&file.log).map_err(|reason| refuse("log", &reason))?;
        if file.policy.fips == Fips::Enforce && !cfg!(feature = "fips") {
            return Err(refuse("policy.fips", &"this build has no validated module"));
        }
        let provider = provider(file.backend.as_deref())?;
        // Without optimisation, a batch takes 60 times the time of AWS-LC.
        crate::backend::allow_lanes(file.lanes.unwrap_or(!cfg!(debug_assertions)));
        let audit = match audit {
            None => open_audit(&file.audit, provider, threads)?,
            given => given,
        };
        let least = if file.policy.enforces_fips() { fips::RSA_BITS } else { 0 };
        let rsa_bits = file.mechanisms.min_rsa_bits.unwrap_or(LEAST_RSA_BITS).max(least);
        let min_ec_bits = file.mechanisms.min_ec_bits.unwrap_or(*MIN_EC_BITS.start());
        let min_ec_bits = within("mechanisms.min-ec-bits", min_ec_bits, MIN_EC_BITS)?;
        let mut curves = curves(&file.mechanisms, min_ec_bits)?;
        curves.retain(|curve| file.policy.has_curve(curve));
        let unusable = |reason: &str| refuse("store.sealing-key", &reason);
        Ok(Self {
            token_dir,
            tokens: None,
            most_tokens: None,
            token_format: file.token_format,
            provider,
            mechanisms: offered(&file.mechanisms, &file.policy, &curves)?,
            min_rsa_bits: within("mechanisms.min-rsa-bits", rsa_bits, MIN_RSA_BITS)?,
            min_ec_bits,
            curves,
            removable: file.slots.removable,
            pins: checked(file.policy.pins(file.pin))?,
            policy: file.policy,
            database: database::rules(&file.store)?,
            counter_dir: file.store.counter_dir,
            sealing_key: file.store.sealing_key.map(|text| text.parse().map_err(unusable)).transpose()?,
            reserve: within("stateful.reserve", file.stateful.reserve.unwrap_or(1), 1..=MOST_RESERVED)?,
            open_tokens: open_tokens(file.store.open_tokens)?,
            audit,
        })
    }

    /// Returns the files that the text of a configuration names, without opening one.
    pub fn places(text: &str) -> Result<Places> {
        let file = File::parse(text)?;
        let unusable = |reason: &str| refuse("store.sealing-key", &reason);
        let sealing_key = file.store.sealing_key.map(|text| text.parse().map_err(unusable)).transpose()?;
        let has_keyring = matches!(sealing_key, Some(SealingSource::Keyring(_)));
        let sealing_key = match sealing_key {
            Some(SealingSource::File(path)) => Some(path),
            Some(SealingSource::Credential(name)) => credentials().map(|within| within.join(name)),
            Some(SealingSource::Keyring(_)) | None => None,
        };
        Ok(Places {
            tokens: token_dir(file.token_dir)?,
            counters: file.store.counter_dir,
            log: file.log.file,
            audit: file.audit.file,
            sealing_key,
            has_keyring,
            has_sockets: file.store.url.is_some() || file.log.syslog.is_some(),
        })
    }

    /// Returns the mechanism with this number; `None` if it is not offered.
    pub fn mechanism(&self, id: MechanismType) -> Option<&'static MechanismRow> {
        let at = self.mechanisms.binary_search_by_key(&id, |mechanism| mechanism.id).ok()?;
        Some(self.mechanisms[at])
    }

    /// Returns the functions of a mechanism (`CKF_*`) without those that the policy refuses.
    pub fn does(&self, mechanism: &MechanismRow) -> u64 {
        self.policy.does(mechanism)
    }

    /// Returns the smallest and the largest key size that a mechanism and the policy allow, in the
    /// mechanism's units.
    pub fn sizes(&self, mechanism: &MechanismRow) -> (u64, u64) {
        let bits =
            self.curves.iter().filter(|curve| curve.is_used_by(mechanism)).map(|curve| curve.group.bits());
        let of_curves = bits.clone().min().zip(bits.max());
        let of_row =
            if self.policy.name == Policy::Cnsa2 { cnsa2::sizes(mechanism) } else { mechanism.sizes };
        let (mut least, most) = of_curves.unwrap_or(of_row);
        if mechanism.key_type == Some(KeyType::RSA) {
            least = least.max(self.min_rsa_bits);
        }
        if self.is_strict() { (least.max(strict::least_size(mechanism)), most) } else { (least, most) }
    }

    /// Fails with `KeySizeRange` if the configuration refuses an RSA modulus of this number of
    /// bits.
    pub(crate) fn check_rsa_bits(&self, bits: u64) -> Result<()> {
        if bits >= self.min_rsa_bits {
            return Ok(());
        }
        warn!(bits, min_rsa_bits = self.min_rsa_bits, "[mechanisms] min-rsa-bits refuses a short RSA key");
        Err(Error::KeySizeRange)
    }

    /// Fails with `KeySizeRange` if the configuration refuses the curve as too small, and with
    /// `CurveNotSupported` if its list of curves lacks the curve.
    pub(crate) fn check_curve(&self, curve: &NamedCurve) -> Result<()> {
        if self.curves.iter().any(|allowed| allowed.group == curve.group) {
            return Ok(());
        }
        let (name, min_ec_bits) = (curve.name, self.min_ec_bits);
        if curve.group.rated_bits() < min_ec_bits {
            warn!(name, min_ec_bits, "[mechanisms] min-ec-bits refuses a key on a small curve");
            return Err(Error::KeySizeRange);
        }
        warn!(name, "[mechanisms] curves refuses a key on a curve that it does not name");
        Err(Error::CurveNotSupported)
    }

    /// Returns whether the token refuses what is not approved.
    pub(crate) fn enforces_fips(&self) -> bool {
        self.policy.enforces_fips()
    }

    /// Fails with `MechanismParamInvalid` if the policy refuses the parameter of a mechanism.
    pub(crate) fn check_parameter(&self, mechanism: &Mechanism) -> Result<()> {
        match self.policy.name {
            Policy::Compatible => Ok(()),
            Policy::Strict => strict::check_parameter(mechanism),
            Policy::Cnsa2 => cnsa2::check_parameter(mechanism),
        }
    }

    /// Returns whether the rules of *strict* hold.
    pub fn is_strict(&self) -> bool {
        self.policy.name != Policy::Compatible
    }
}

/// The content of a configuration file, or of all sources together.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    token_dir: Option<PathBuf>,
    token_format: Format,
    backend: Option<String>,
    lanes: Option<bool>,
    log: LogRules,
    mechanisms: MechanismRules,
    pin: PinRules,
    policy: PolicyRules,
    store: StoreRules,
    audit: AuditRules,
    stateful: StatefulRules,
    slots: SlotRules,
    #[allow(dead_code, reason = "only `libjeton_client.so` reads it")]
    agent: AgentRules,
    #[allow(dead_code, reason = "only `libjeton_client.so` reads it")]
    split: Option<SplitRules>,
}

/// The `[split]` section: agents with shares of a key. It is here so that a mistake in it is
/// refused.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[allow(dead_code, reason = "only `libjeton_client.so` reads it")]
struct SplitRules {
    agents: Vec<String>,
    threshold: u8,
    token: Option<String>,
}

/// The `[agent]` section: where the agent is. It is here so that a mistake in it is refused.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
#[allow(dead_code, reason = "only `libjeton_client.so` reads it")]
struct AgentRules {
    address: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    authority: Option<PathBuf>,
    revoked: Option<PathBuf>,
    #[serde(rename = "timeout-seconds")]
    timeout_seconds: Option<u64>,
}

/// The `[slots]` section: what slots claim to be.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct SlotRules {
    removable: bool,
}

/// The `[stateful]` section: how the uses of keys are counted.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct StatefulRules {
    reserve: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct StoreRules {
    counter_dir: Option<PathBuf>,
    sealing_key: Option<String>,
    open_tokens: Option<usize>,
    url: Option<String>,
    schema: Option<String>,
    password: Option<String>,
    ca_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_key: Option<PathBuf>,
    least_commit: CommitLevel,
    require_standby: bool,
    outage_seconds: Option<u32>,
    timeout_seconds: Option<u32>,
}

/// Returns the largest number of token files that are open at the same time: the configured one, or
/// fewer if the limit on open files is low.
fn open_tokens(configured: Option<usize>) -> Result<usize> {
    let configured = within("store.open-tokens", configured.unwrap_or(OPEN_TOKENS), 1..=MOST_OPEN_TOKENS)?;
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    let possible = limit.map_or(usize::MAX, |limit| limit / 2 / DESCRIPTORS);
    if possible < configured {
        warn!(open_tokens = possible.max(1), "fewer token files are open: the limit on open files is low");
    }
    Ok(configured.min(possible).max(1))
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct AuditRules {
    file: Option<PathBuf>,
    syslog: Option<PathBuf>,
}

/// Opens the audit log.
fn open_audit(rules: &AuditRules, provider: &'static Provider, threads: Threads) -> Result<Option<Audit>> {
    let Some(file) = &rules.file else {
        return match rules.syslog {
            Some(_) => Err(refuse("audit.syslog", &"needs audit.file: only the file has all lines")),
            None => Ok(None),
        };
    };
    Audit::open(file, rules.syslog.as_deref(), provider, threads).map(Some)
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct LogRules {
    level: Option<String>,
    file: Option<PathBuf>,
    syslog: Option<PathBuf>,
}

/// The `[mechanisms]` section: which mechanisms are offered. `allow` lists the allowed ones
/// (without it, all are allowed), and `deny` removes some of them. Legacy mechanisms also need
/// `legacy`.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct MechanismRules {
    allow: Option<Vec<String>>,
    deny: Vec<String>,
    legacy: bool,
    /// The smallest RSA modulus in bits, for keys that are generated, imported or used.
    min_rsa_bits: Option<u64>,
    /// The smallest curve in bits, for the same keys.
    min_ec_bits: Option<u64>,
    /// The names of the curves that the same keys may have; `None` allows all.
    curves: Option<Vec<String>>,
}

/// Returns the token directory: `JETON_DIR`, the configured one, or a directory below the XDG data
/// directory.
fn token_dir(configured: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(dir) = environment::path("JETON_DIR") {
        return Ok(dir);
    }
    if let Some(dir) = configured {
        return Ok(dir);
    }
    let data = environment::path("XDG_DATA_HOME").filter(|dir| dir.is_absolute());
    data.or_else(|| environment::home().map(|home| home.join(".local/share")))
        .map(|data| data.join("jeton/tokens"))
        .ok_or_else(|| refuse("token-dir", &missing_token_dir()))
}

fn missing_token_dir() -> &'static str {
    if environment::is_privileged() {
        "not set. This process runs with raised privileges (setuid), so environment variables are ignored: \
         set token-dir in /etc/jeton/jeton.toml or in the library parameters"
    } else {
        "neither JETON_DIR, token-dir nor XDG_DATA_HOME is set, and the user has no home directory"
    }
}

fn provider(name: Option<&str>) -> Result<&'static Provider> {
    let Some(name) = name else { return Ok(Provider::ALL[0]) };
    Provider::named(name).ok_or_else(|| {
        let known: Vec<_> = Provider::ALL.iter().map(|provider| provider.name).collect();
        refuse("backend", &format!("unknown backend {name:?}; the backends are {known:?}"))
    })
}

fn offered(
    rules: &MechanismRules,
    policy: &PolicyRules,
    curves: &[&NamedCurve],
) -> Result<Vec<&'static MechanismRow>> {
    let has_curve = |row| {
        curves.iter().any(|curve| curve.is_used_by(row))
            || !NAMED_CURVES.iter().any(|curve| curve.is_used_by(row))
    };
    let allow = rules.allow.as_ref().map(|names| numbers("mechanisms.allow", names)).transpose()?;
    let deny = numbers("mechanisms.deny", &rules.deny)?;
    let mut offered: Vec<_> = mechanism::all()
        .filter(|row| rules.legacy || row.standing == Standing::Current)
        .filter(|row| policy.offers(row) && has_curve(row))
        .filter(|row| allow.as_ref().is_none_or(|allow| allow.contains(&row.id)) && !deny.contains(&row.id))
        .collect();
    offered.sort_by_key(|mechanism| mechanism.id);
    Ok(offered)
}

fn numbers(key: &str, names: &[String]) -> Result<Vec<MechanismType>> {
    let number = |name: &String| {
        MechanismType::named(name)
            .filter(|id| mechanism::find(*id).is_some())
            .ok_or_else(|| refuse(key, &format!("this token has no mechanism {name:?}")))
    };
    names.iter().map(number).collect()
}

/// Returns the curves that keys may have.
fn curves(rules: &MechanismRules, min_ec_bits: u64) -> Result<Vec<&'static NamedCurve>> {
    let named = |name: &String| {
        NAMED_CURVES.iter().find(|curve| curve.name == name).ok_or_else(|| {
            let known: Vec<_> = NAMED_CURVES.iter().map(|curve| curve.name).collect();
            refuse("mechanisms.curves", &format!("unknown curve {name:?}; the curves are {known:?}"))
        })
    };
    let mut curves: Vec<_> = match &rules.curves {
        Some(names) => names.iter().map(named).collect::<Result<_>>()?,
        None => NAMED_CURVES.iter().collect(),
    };
    curves.retain(|curve| curve.group.rated_bits() >= min_ec_bits);
    Ok(curves)
}

fn checked(pins: PinRules) -> Result<PinRules> {
    let wrong = if pins.min_length == 0 || pins.min_length > pins.max_length {
        Some(("pin.min-length", "must be from 1 to max-length"))
    } else if pins.max_length > 1024 {
        Some(("pin.max-length", "must be at most 1024"))
    } else if pins.retries == 0 {
        Some(("pin.retries", "must be at least 1"))
    } else if pins.uncounted_delay > PinRules::LONGEST_DELAY {
        Some(("pin.uncounted-delay", "must be at most 60"))
    } else {
        None
    };
    if let Some((key, reason)) = wrong {
        return Err(refuse(key, &reason));
    }
    within("pin.memory-kib", pins.memory_kib, PinRules::MEMORY_KIB)?;
    within("pin.passes", pins.passes, PinRules::PASSES)?;
    Ok(pins)
}

/// Returns a number of the configuration. Refuses one that is out of its range.
fn within<T: PartialOrd + Display>(key: &str, number: T, range: RangeInclusive<T>) -> Result<T> {
    if range.contains(&number) {
        return Ok(number);
    }
    Err(refuse(key, &format!("must be from {} to {}", range.start(), range.end())))
}

/// Writes the reason to the log. Returns `GeneralError`, so that the application learns only that
/// the configuration was refused.
fn refuse(at: &str, reason: &dyn Display) -> Error {
    log::install();
    error!(at, files = ?files(), "configuration refused: {}", reason.to_string().trim_end());
    Error::GeneralError
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OWASP, "Password Storage Cheat Sheet": at least 19 MiB and two passes.
    #[test]
    fn the_default_of_a_pin_record_is_the_recommended_minimum() {
        let rules = PinRules::default();
        assert_eq!((rules.memory_kib, rules.passes), (19 * 1024, 2));
    }

    #[test]
    fn the_strict_policy_asks_for_a_pin_of_eight_bytes() {
        let strict = PolicyRules { name: Policy::Strict, ..PolicyRules::default() };
        let lengths = |policy: &PolicyRules, min_length| {
            policy.pins(PinRules { min_length, ..PinRules::default() }).min_length
        };
        assert_eq!([lengths(&strict, 4), lengths(&strict, 12)], [8, 12]);
        assert_eq!(lengths(&PolicyRules::default(), 4), 4);
    }

    #[test]
    fn the_strict_policy_offers_no_mechanism_without_a_function() {
        let strict = PolicyRules { name: Policy::Strict, ..PolicyRules::default() };
        let rules = MechanismRules { allow: None, deny: vec![], legacy: true, ..Default::default() };
        let curves: Vec<_> = NAMED_CURVES.iter().collect();
        let offered = offered(&rules, &strict, &curves).expect("known names");
        assert!(offered.iter().all(|row| row.flags == 0 || strict.does(row) != 0));
        assert!(!offered.iter().any(|row| row.id == MechanismType::RSA_X_509));
    }

    #[test]
    fn the_sizes_of_a_mechanism_are_those_of_its_curves() {
        for row in mechanism::all() {
            let bits =
                NAMED_CURVES.iter().filter(|curve| curve.is_used_by(row)).map(|curve| curve.group.bits());
            if let Some(sizes) = bits.clone().min().zip(bits.max()) {
                assert_eq!(sizes, row.sizes, "{}", row.id);
            }
        }
    }
}
