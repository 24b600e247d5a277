//! Which client may do what: the file `jeton-agent.toml`.
//!
//! The first rule that fits the peer at the other end of the connection holds. If there is a file
//! and no rule fits, the client is refused. Without a file, everyone who may connect may do
//! everything.

use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jeton::functions::{Module, TokenInfo};
use jeton::id::SlotId;
use jeton_agent_wire::file;
use jeton_words::token::Function;
use nix::errno::Errno;
use rustls::pki_types::DnsName;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::peer::{Peer, Unit, domain};
use crate::{CONNECTION, tls};

/// The longest label and the longest serial number of a token in bytes.
const LABEL: usize = 32;
const SERIAL: usize = 16;

/// The rules of all clients.
#[derive(Default)]
pub struct Rules {
    clients: Vec<Arc<Rule>>,
    /// Where clients of other hosts connect.
    pub tls: Option<tls::Section>,
    is_given: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    client: Vec<Rule>,
    tls: Option<tls::Section>,
}

/// Whether systemd gives this process the credentials of the service (`LoadCredential=`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Credentials {
    /// This process is the service.
    Given,
    /// It is another one.
    Absent,
}

/// What the rules say of a peer.
#[derive(Clone)]
pub enum Verdict {
    /// There are no rules: it may do everything.
    Free,
    /// It may do what this rule says. The number of the rule in the file, from 1.
    Rule(usize, Arc<Rule>),
    /// No rule allows it.
    Refused,
}

/// What a client may do.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// The number of the user. Absent: every user.
    uid: Option<u32>,
    /// The name of the user, in place of the number.
    user: Option<String>,
    /// The number of a group of the user. Absent: every group.
    gid: Option<u32>,
    /// The name of that group, in place of the number.
    group: Option<String>,
    /// The service of systemd. Absent: every process.
    unit: Option<String>,
    /// A DNS name in the certificate of a client of another host.
    certificate: Option<String>,
    /// The labels of the tokens that the client sees, or `serial:` and their serial numbers.
    /// Absent: all.
    pub(crate) tokens: Option<Vec<String>>,
    /// The most tokens that the client sees after it has made one.
    pub(crate) most_tokens: Option<NonZeroUsize>,
    /// The labels of the token objects that the client sees and may make. Absent: all.
    pub objects: Option<Vec<String>>,
    /// The functions that are refused. `C_Generate*` stands for all that begin so.
    #[serde(default)]
    pub(crate) refuse: Vec<String>,
    /// The mechanisms that the client may use. Absent: all.
    pub(crate) mechanisms: Option<Vec<String>>,
    /// The most sessions on a token.
    pub(crate) sessions: Option<NonZeroU64>,
    /// The most calls in a second. Further calls wait.
    pub(crate) calls_per_second: Option<NonZeroU32>,
    /// The memory in bytes of long messages of the user, and again for the answers.
    pub(crate) memory: Option<Memory>,
    /// The token that the agent logs in to, so that the client needs no PIN.
    login: Option<Login>,
    /// The identities of the agents with which the client may generate split keys, in hexadecimal
    /// digits. Absent: none.
    #[cfg(feature = "split")]
    #[serde(default)]
    pub(crate) split_with: Vec<String>,
}

/// The memory of a client in bytes: at least what its first connection takes.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub(crate) struct Memory(usize);

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Login {
    /// The label of the token, or `serial:` and its serial number.
    token: String,
    /// The file of the user PIN. The end of its line is not part of the PIN.
    pin_file: Option<PathBuf>,
    /// The name of a credential of systemd (`LoadCredential=`) with the user PIN.
    pin_credential: Option<String>,
}

impl Memory {
    pub(crate) fn bytes(self) -> usize {
        self.0
    }
}

impl From<Memory> for usize {
    fn from(memory: Memory) -> Self {
        memory.0
    }
}

impl TryFrom<usize> for Memory {
    type Error = String;

    fn try_from(bytes: usize) -> Result<Self, String> {
        match bytes {
            CONNECTION.. => Ok(Self(bytes)),
            _ => Err(format!("a client needs at least {CONNECTION} bytes: one connection takes them")),
        }
    }
}

impl Rules {
    /// Reads the rules, and the files that they name. `None` is no file.
    pub fn read(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self::default()) };
        let named = |reason: String| format!("{}: {reason}", path.display());
        let text = file::read(path).map_err(|error| named(error.to_string()))?;
        let text = String::from_utf8(text).map_err(|error| named(error.to_string()))?;
        let mut rules = Self::parse(&text).map_err(named)?;
        if let Some(tls) = &mut rules.tls {
            if cfg!(feature = "fips") {
                return Err(named("[tls]: the TLS of this build is not in its validated module".to_owned()));
            }
            tls.open()?;
        }
        Ok(rules)
    }

    /// Parses the text of the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let File { mut client, tls } = toml::from_str(text).map_err(|error| error.to_string())?;
        client.iter_mut().try_for_each(Rule::resolve)?;
        Ok(Self { clients: client.into_iter().map(Arc::new).collect(), tls, is_given: true })
    }

    /// Returns whether there is a file.
    pub fn are_given(&self) -> bool {
        self.is_given
    }

    /// Returns what is wrong now, but does not stop the agent: it may serve other clients. A
    /// process that is not the service has no credentials.
    pub fn faults(&self, credentials: Credentials) -> Vec<String> {
        let is_read = |login: &Login| credentials == Credentials::Given || login.pin_credential.is_none();
        let of_rule = |rule: &Arc<Rule>| {
            rule.login.as_ref().filter(|login| is_read(login)).and_then(|_| rule.pin().err())
        };
        let pins = self.clients.iter().filter_map(of_rule);
        let pins = pins.map(|reason| format!("no PIN for a login by the agent: {reason}"));
        let certificates = self.clients.iter().filter_map(|rule| rule.certificate.as_ref());
        let certificates = certificates.filter(|_| self.tls.is_none());
        let certificates =
            certificates.map(|name| format!("certificate = {name:?}: without [tls] no other host connects"));
        let lists = self.tls.iter().flat_map(tls::Section::faults);
        pins.chain(certificates).chain(lists).collect()
    }

    /// Returns the names of the credentials with the PINs of logins.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        self.clients.iter().filter_map(|rule| rule.login.as_ref()?.pin_credential.as_deref())
    }

    /// Returns whether a client could have this identity.
    pub(crate) fn may_name(&self, identity: &str) -> bool {
        match self.is_given {
            true => self.clients.iter().any(|rule| rule.may_name(identity)),
            false => Rule::default().may_name(identity),
        }
    }

    /// Returns the verdict of the first rule that fits.
    pub fn verdict(&self, peer: &Peer) -> Verdict {
        if !self.is_given {
            return Verdict::Free;
        }
        for (at, rule) in self.clients.iter().enumerate() {
            match rule.is_for(peer) {
                Some(false) => {}
                Some(true) => return Verdict::Rule(at + 1, Arc::clone(rule)),
                None => break,
            }
        }
        Verdict::Refused
    }
}

impl Verdict {
    /// Returns the rule.
    pub fn rule(&self) -> Option<&Rule> {
        match self {
            Self::Rule(_, rule) => Some(rule),
            Self::Free | Self::Refused => None,
        }
    }

    /// Returns the number of the rule in the file, from 1.
    pub fn number(&self) -> Option<usize> {
        match self {
            Self::Rule(number, _) => Some(*number),
            Self::Free | Self::Refused => None,
        }
    }

    /// Returns whether both allow the same.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rule(_, one), Self::Rule(_, other)) => one == other,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Returns the text by which the logs, limits, tickets and applications know a peer: two peers
    /// under different rules are two clients.
    pub fn identity(&self, peer: &Peer) -> String {
        let Some(rule) = self.rule() else { return peer.name() };
        let name = match &rule.certificate {
            Some(name) => format!("certificate {}", domain(name)),
            None => peer.name(),
        };
        name + &rule.conditions()
    }
}

pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Returns the label of a token without the blanks at its end.
pub(crate) fn label(token: &TokenInfo) -> &str {
    std::str::from_utf8(&token.label).unwrap_or_default().trim_end()
}

fn names(text: &str, serial: &str, label: &str) -> bool {
    match text.strip_prefix("serial:") {
        Some(named) => named == serial.trim_end(),
        None => text == label,
    }
}

/// Returns the user or group of a name. getpwnam(3): some sources of names report a name that they
/// do not have as one of these errors, such as that of sssd while it does not run.
fn named<T>(kind: &str, name: &str, found: nix::Result<Option<T>>) -> Result<T, String> {
    match found {
        Ok(Some(found)) => Ok(found),
        Ok(None) | Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => {
            Err(format!("no {kind} {name}"))
        }
        Err(error) => Err(format!("{kind} {name}: {error}")),
    }
}

/// Checks the label or serial number of a token. A name that no token can have would hide all.
fn check_token(text: &str) -> Result<(), String> {
    let (name, most) = text.strip_prefix("serial:").map_or((text, LABEL), |serial| (serial, SERIAL));
    if name.is_empty() || name.len() > most || name.ends_with(' ') {
        return Err(format!("no token has the name {text:?}"));
    }
    if name.ends_with('*') {
        let reason = "a name of a token stands for no other; name a label that ends so by its serial number";
        return Err(format!("{text:?}: {reason}"));
    }
    Ok(())
}

/// Returns whether systemd may run a service of this name (systemd.unit(5)). One that ends in `@`
/// is a template.
fn is_service(unit: &str) -> bool {
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    let name = unit.strip_suffix(".service").filter(|_| unit.len() <= 255);
    name.is_some_and(|name| {
        !name.is_empty() && !name.starts_with('@') && !name.ends_with('@') && name.bytes().all(is_right)
    })
}

impl Rule {
    /// Checks the names of the rule, and finds the numbers of its user and group.
    fn resolve(&mut self) -> Result<(), String> {
        if let Some(unit) = self.unit.as_ref().filter(|unit| !is_service(unit)) {
            return Err(format!("unit: no service has the name {unit:?}, which ends in .service"));
        }
        for token in self.tokens.iter().flatten() {
            check_token(token).map_err(|reason| format!("tokens: {reason}"))?;
        }
        if let Some(login) = &self.login {
            check_token(&login.token).map_err(|reason| format!("login: {reason}"))?;
        }
        for pattern in &self.refuse {
            if !Function::ALL.iter().any(|function| fits(pattern, function.name())) {
                return Err(format!("refuse: no function {pattern}"));
            }
        }
        #[cfg(feature = "split")]
        for identity in &self.split_with {
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            if identity.len() != 64 || !identity.bytes().all(is_digit) {
                return Err(format!("split-with: {identity:?} is no identity: 64 hexadecimal digits"));
            }
        }
        for name in self.mechanisms.iter().flatten() {
            if jeton::mechanism::all().all(|row| row.id.to_string() != *name) {
                return Err(format!("mechanisms: no mechanism {name}"));
            }
        }
        let is_of_host = self.is_of_host() || self.user.is_some() || self.group.is_some();
        match &self.certificate {
            Some(_) if is_of_host => {
                return Err("certificate: a client of another host has no user, group or unit".to_owned());
            }
            Some(name) if DnsName::try_from(name.as_str()).is_err() && !name.starts_with("*.") => {
                return Err(format!("certificate: {name:?} is no DNS name"));
            }
            _ => {}
        }
        if let Some(name) = &self.user {
            let uid = named("user", name, nix::unistd::User::from_name(name))?.uid.as_raw();
            if self.uid.replace(uid).is_some_and(|given| given != uid) {
                return Err(format!("the user {name} has the number {uid}"));
            }
        }
        if let Some(name) = &self.group {
            let gid = named("group", name, nix::unistd::Group::from_name(name))?.gid.as_raw();
            if self.gid.replace(gid).is_some_and(|given| given != gid) {
                return Err(format!("the group {name} has the number {gid}"));
            }
        }
        Ok(())
    }

    /// Returns whether the rule is for a peer. `None` if that depends on a group or a unit that the
    /// agent does not know. Such a peer gets no later rule: this one may restrict it.
    fn is_for(&self, peer: &Peer) -> Option<bool> {
        match peer {
            Peer::User { uid, groups, has_all_groups, unit, .. } => {
                if self.certificate.is_some() || self.uid.is_some_and(|only| only != *uid) {
                    return Some(false);
                }
                let group = match self.gid {
                    Some(only) if !groups.contains(&only) => has_all_groups.then_some(false),
                    _ => Some(true),
                };
                let unit = match (&self.unit, unit) {
                    (Some(_), Unit::Unknown) => None,
                    (Some(only), unit) => Some(matches!(unit, Unit::Service(unit) if unit == only)),
                    (None, _) => Some(true),
                };
                match (group, unit) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }
            }
            Peer::Certificate { names, .. } => {
                let is_named = |only: &String| names.iter().any(|name| domain(name) == domain(only));
                Some(!self.is_of_host() && self.certificate.as_ref().is_none_or(is_named))
            }
        }
    }

    /// Returns whether the rule is for users of this host only.
    fn is_of_host(&self) -> bool {
        (self.uid, self.gid, &self.unit) != (None, None, &None)
    }

    /// Returns the end of the identity of each client under the rule.
    fn conditions(&self) -> String {
        let gid = self.gid.map(|gid| format!(", gid {gid}"));
        let unit = self.unit.as_ref().map(|unit| format!(", {unit}"));
        gid.into_iter().chain(unit).collect()
    }

    /// Returns whether a client under the rule could have this identity.
    fn may_name(&self, identity: &str) -> bool {
        let Some(peer) = identity.strip_suffix(&self.conditions()) else { return false };
        match (&self.certificate, peer.split_once(' ')) {
            (Some(only), _) => peer == format!("certificate {}", domain(only)),
            (None, Some(("uid", number))) => {
                let uid = number.parse().ok().filter(|uid: &u32| uid.to_string() == number);
                uid.is_some_and(|uid| self.uid.is_none_or(|only| only == uid))
            }
            (None, Some(("certificate", name))) => {
                !self.is_of_host() && DnsName::try_from(name).is_ok() && domain(name) == name
            }
            _ => false,
        }
    }

    /// Returns whether the client sees a slot.
    pub fn sees(&self, module: &Module, slot: SlotId) -> bool {
        let Some(tokens) = &self.tokens else { return true };
        module
            .token(slot)
            .is_ok_and(|token| tokens.iter().any(|one| names(one, &token.serial, label(&token))))
    }

    /// Returns whether the client sees the token with this serial number and label.
    pub(crate) fn sees_token(&self, serial: &str, label: &str) -> bool {
        self.tokens.as_ref().is_none_or(|tokens| tokens.iter().any(|one| names(one, serial, label)))
    }

    /// Returns whether the agent logs in to the token of a slot itself.
    pub fn logs_in(&self, module: &Module, slot: SlotId) -> bool {
        let Some(login) = &self.login else { return false };
        module.token(slot).is_ok_and(|token| names(&login.token, &token.serial, label(&token)))
    }

    /// Returns the user PIN of that token.
    pub fn pin(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        let login = self.login.as_ref().ok_or("no login")?;
        let path = match (&login.pin_file, &login.pin_credential) {
            (Some(path), None) => path.clone(),
            (None, Some(name)) => {
                let directory = std::env::var_os("CREDENTIALS_DIRECTORY");
                directory.map(PathBuf::from).ok_or("systemd passes no credentials")?.join(name)
            }
            _ => return Err("a login has either pin-file or pin-credential".to_owned()),
        };
        let pin = file::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut pin = Zeroizing::new(pin);
        while pin.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
            pin.pop();
        }
        Ok(pin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sessions that the rule of a peer allows; `None` if the peer is refused.
    fn sessions_of(rules: &Rules, peer: &Peer) -> Option<Option<u64>> {
        let verdict = rules.verdict(peer);
        let sessions = |rule: &Rule| rule.sessions.map(NonZeroU64::get);
        (!matches!(verdict, Verdict::Refused)).then(|| verdict.rule().and_then(sessions))
    }

    #[test]
    fn a_name_stands_for_the_number_of_a_user_or_a_group() {
        let rules = Rules::parse("[[client]]\nuser = 'root'\ngroup = 'root'\nsessions = 1").expect("rules");
        let user = |uid, gid| {
            let peer =
                Peer::User { uid, groups: vec![gid], has_all_groups: true, unit: Unit::None, process: 1 };
            sessions_of(&rules, &peer)
        };
        assert_eq!((user(0, 0), user(1, 0), user(0, 1)), (Some(Some(1)), None, None));
    }

    #[test]
    fn peers_under_different_rules_are_different_clients() {
        let rules = Rules::parse("[[client]]\nunit = 'a.service'\n[[client]]\ngid = 5\n[[client]]\nuid = 33");
        let rules = rules.expect("rules");
        let identity = |gid, unit| {
            let peer = Peer::User { uid: 33, groups: vec![gid], has_all_groups: true, unit, process: 1 };
            rules.verdict(&peer).identity(&peer)
        };
        assert_eq!(identity(5, Unit::Service("a.service".to_owned())), "uid 33, a.service");
        assert_eq!(identity(5, Unit::None), "uid 33, gid 5");
        assert_eq!(identity(6, Unit::None), "uid 33");
    }

    #[test]
    fn the_first_rule_that_fits_holds_and_no_rule_refuses() {
        let rules = Rules::parse("[[client]]\nuid = 33\nsessions = 1\n[[client]]\ngid = 100\nsessions = 2\n")
            .expect("rules");
        let sessions = |peer: &Peer| sessions_of(&rules, peer);
        let user = |uid, gid| Peer::User {
            uid,
            groups: vec![7, gid],
            has_all_groups: true,
            unit: Unit::None,
            process: 1,
        };
        assert_eq!(sessions(&user(33, 100)), Some(Some(1)));
        assert_eq!(sessions(&user(34, 100)), Some(Some(2)));
        assert_eq!(sessions(&user(34, 101)), None);
        let certificate = |name: &str| Peer::Certificate { names: vec![name.to_owned()] };
        assert_eq!(sessions(&certificate("web.example")), None);
        assert!(matches!(Rules::default().verdict(&user(34, 101)), Verdict::Free));
    }

    #[test]
    fn a_client_whose_groups_are_unknown_passes_no_rule_for_a_group() {
        let rules = Rules::parse(
            "[[client]]\nuid = 33\nsessions = 1\n[[client]]\ngid = 100\nsessions = 2\n[[client]]\nsessions = 3\n",
        );
        let rules = rules.expect("rules");
        let sessions = |uid, gid, has_all_groups| {
            let peer = Peer::User { uid, groups: vec![gid], has_all_groups, unit: Unit::None, process: 1 };
            sessions_of(&rules, &peer)
        };
        assert_eq!(sessions(34, 101, true), Some(Some(3)));
        assert_eq!(sessions(34, 101, false), None);
        assert_eq!(sessions(34, 100, false), Some(Some(2)));
        assert_eq!(sessions(33, 101, false), Some(Some(1)));
    }

    #[test]
    fn a_unit_and_a_certificate_choose_a_rule() {
        let rules = Rules::parse(
            "[[client]]\nunit = 'nginx.service'\nsessions = 1\n\
             [[client]]\ncertificate = 'web.example'\nsessions = 2\n\
             [[client]]\nsessions = 3\n",
        );
        let rules = rules.expect("rules");
        let sessions = |peer: &Peer| sessions_of(&rules, peer);
        let of_unit =
            |unit| sessions(&Peer::User { uid: 33, groups: vec![], has_all_groups: true, unit, process: 1 });
        assert_eq!(of_unit(Unit::Service("nginx.service".to_owned())), Some(Some(1)));
        assert_eq!(of_unit(Unit::Service("other.service".to_owned())), Some(Some(3)));
        assert_eq!(of_unit(Unit::None), Some(Some(3)));
        // A process whose unit is unknown does not pass the rule for a unit.
        assert_eq!(of_unit(Unit::Unknown), None);
        let names = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).into()).collect();
            Peer::Certificate { names }
        };
        assert_eq!(sessions(&names(&["other.example", "web.example"])), Some(Some(2)));
        assert_eq!(sessions(&names(&["other.example"])), Some(Some(3)));
        for same in ["WEB.example", "web.example.", "Web.Example."] {
            assert_eq!(sessions(&names(&[same])), Some(Some(2)), "{same}");
        }
    }

    #[test]
    fn a_number_that_allows_nothing_is_refused() {
        let keys = [("sessions", 1), ("calls-per-second", 1), ("most-tokens", 1), ("memory", CONNECTION)];
        for (key, least) in keys {
            let parse = |number| Rules::parse(&format!("[[client]]\n{key} = {number}"));
            assert!(parse(least).is_ok(), "{key}");
            for number in [0, least - 1] {
                let said = parse(number).err().expect("refused");
                assert!(said.contains(key) && said.contains("at least") == (key == "memory"), "{said}");
            }
        }
        let said = Rules::parse("[[client]]\nmemory = 0").err().expect("refused");
        assert!(said.contains("at least 262144 bytes"), "{said}");
    }

    #[test]
    fn unknown_names_are_refused() {
        for wrong in [
            "[[client]]\nrefuse = ['C_Nothing']",
            "[[client]]\nmechanisms = ['CKM_NOTHING']",
            "[[client]]\nuser = 'no-such-user'",
            "[[client]]\ngroup = 'no-such-group'",
            "[[client]]\nuser = 'root'\nuid = 7",
            "[[client]]\nname = 'x'",
            "[[other]]",
        ] {
            assert!(Rules::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Rules::parse("[[client]]\nrefuse = ['C_Generate*']\nmechanisms = ['CKM_ECDSA']").is_ok());
    }
    #[test]
    fn a_rule_that_no_client_and_no_token_can_fit_is_refused() {
        for (wrong, said) in [
            ("unit = 'nginx'", "unit: no service"),
            ("unit = ''", "unit: no service"),
            ("unit = '.service'", "unit: no service"),
            ("unit = '*.service'", "unit: no service"),
            ("unit = 'web@.service'", "unit: no service"),
            ("unit = 'system.slice/web.service'", "unit: no service"),
            ("unit = 'web.socket'", "unit: no service"),
            ("tokens = ['web*']", "tokens: \"web*\""),
            ("tokens = ['serial:*']", "tokens: \"serial:*\""),
            ("tokens = ['']", "tokens: no token"),
            ("tokens = ['web ']", "tokens: no token"),
            ("tokens = ['serial:']", "tokens: no token"),
            ("tokens = ['serial:0123456789abcdef0']", "tokens: no token"),
            ("tokens = ['a label with more than 32 letters']", "tokens: no token"),
            ("login = { token = 'web*', pin-file = 'x' }", "login: \"web*\""),
            ("certificate = ''", "certificate: \"\" is no DNS name"),
            ("certificate = 'a b'", "certificate: \"a b\" is no DNS name"),
            ("certificate = 'web.example'\nuid = 7", "certificate: a client of another host"),
            ("certificate = 'web.example'\nuser = 'root'", "certificate: a client of another host"),
        ] {
            let reason = Rules::parse(&format!("[[client]]\n{wrong}")).err();
            assert!(reason.as_ref().is_some_and(|reason| reason.contains(said)), "{wrong}: {reason:?}");
        }
        for right in [
            "unit = 'web@1.service'",
            "unit = 'dbus-org.freedesktop.timedate1.service'",
            r"unit = 'run-a\\x2db.service'",
            "tokens = ['serial:398fc3310496ebe5', 'my token']",
            "certificate = 'web.example.'",
            "certificate = '*.example'",
        ] {
            let rules = Rules::parse(&format!("[[client]]\n{right}"));
            assert!(rules.is_ok(), "{right}: {:?}", rules.err());
        }
    }

    #[test]
    fn a_process_that_is_not_the_service_misses_no_credential() {
        let rules = Rules::parse("[[client]]\nlogin = { token = 'web', pin-credential = 'web-pin' }");
        let rules = rules.expect("rules");
        assert_eq!(rules.faults(Credentials::Absent), Vec::<String>::new());
        assert!(rules.faults(Credentials::Given).iter().all(|fault| fault.contains("no PIN for a login")));
        assert_eq!(rules.credentials().collect::<Vec<_>>(), ["web-pin"]);
        let missing = Rules::parse("[[client]]\nlogin = { token = 'web', pin-file = '/none' }");
        assert_eq!(missing.expect("rules").faults(Credentials::Absent).len(), 1);
    }

    #[test]
    fn a_certificate_in_a_rule_needs_a_section_for_other_hosts() {
        let rules = Rules::parse("[[client]]\ncertificate = 'web.example'").expect("rules");
        let faults = rules.faults(Credentials::Given);
        assert!(faults.len() == 1 && faults[0].contains("without [tls]"), "{faults:?}");
    }

    #[test]
    fn only_identities_that_the_rules_give_may_be_named() {
        let rules = Rules::parse(
            "[[client]]\nuid = 33\nunit = 'web.service'\n[[client]]\ngid = 5\n[[client]]\nuid = 7\n\
             [[client]]\ncertificate = 'Web.example'",
        );
        let rules = rules.expect("rules");
        for right in ["uid 33, web.service", "uid 1000, gid 5", "uid 7", "certificate web.example"] {
            assert!(rules.may_name(right), "{right}");
        }
        for wrong in
            ["uid 33", "UID 7", "uid 7 ", "uid 07", "uid 8", "uid x, gid 5", "web", "", "certificate a"]
        {
            assert!(!rules.may_name(wrong), "{wrong}");
        }
        assert!(Rules::default().may_name("uid 4711") && !Rules::default().may_name("4711"));
        let all = Rules::parse("[[client]]").expect("rules");
        assert!(all.may_name("certificate a.example") && !all.may_name("certificate a b"));
    }
}
