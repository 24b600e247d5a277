//! Which client may do what: the file `jeton-agent.toml`.
//!
//! The first rule that fits the peer at the other end of the connection holds. If there is a file
//! and no rule fits, the client is refused. Without a file, everyone who may connect may do
//! everything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jeton::id::SlotId;
use jeton::module::{Module, TokenInfo};
use jeton_agent_wire::Function;
use serde::Deserialize;
use zeroize::Zeroizing;

use crate::peer::Peer;
use crate::tls;

/// The rules of all clients.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    #[serde(default)]
    client: Vec<Rule>,
    /// Where clients of other hosts connect.
    pub tls: Option<tls::Section>,
    #[serde(skip)]
    is_given: bool,
}

/// What a client may do.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// The number of the user. Absent: every user.
    uid: Option<u32>,
    /// The number of a group of the user. Absent: every group.
    gid: Option<u32>,
    /// The service of systemd. Absent: every process.
    unit: Option<String>,
    /// A DNS name in the certificate of a client of another host.
    certificate: Option<String>,
    /// The labels of the tokens that the client sees. Absent: all.
    tokens: Option<Vec<String>>,
    /// The labels of the token objects that the client sees and may make. Absent: all.
    pub objects: Option<Vec<String>>,
    /// The functions that are refused. `C_Generate*` stands for all that begin so.
    #[serde(default)]
    pub(crate) refuse: Vec<String>,
    /// The mechanisms that the client may use. Absent: all.
    pub(crate) mechanisms: Option<Vec<String>>,
    /// The most sessions on a token.
    pub(crate) sessions: Option<u64>,
    /// The most calls in a second. Further calls wait.
    pub(crate) calls_per_second: Option<u32>,
    /// The memory in bytes of long messages of the user, and again for the answers.
    pub memory: Option<usize>,
    /// The token that the agent logs in to, so that the client needs no PIN.
    login: Option<Login>,
}

/// A login by the agent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Login {
    /// The label of the token.
    token: String,
    /// The file of the user PIN. The end of its line is not part of the PIN.
    pin_file: Option<PathBuf>,
    /// The name of a credential of systemd (`LoadCredential=`) with the user PIN.
    pin_credential: Option<String>,
}

impl Rules {
    /// Reads the rules. A file that does not exist is no file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        Self::parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))
    }

    /// Parses the text of the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rules: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        rules.is_given = true;
        for rule in &rules.client {
            for pattern in &rule.refuse {
                if !Function::ALL.iter().any(|function| fits(pattern, function.name())) {
                    return Err(format!("refuse: no function {pattern}"));
                }
            }
            for name in rule.mechanisms.iter().flatten() {
                if jeton::mechanism::all().all(|row| row.id.to_string() != *name) {
                    return Err(format!("mechanisms: no mechanism {name}"));
                }
            }
        }
        Ok(rules)
    }

    /// Returns the rule of a client. `None` if the client is refused.
    pub fn of(&self, peer: &Peer) -> Option<Option<&Rule>> {
        for rule in &self.client {
            if rule.is_for(peer)? {
                return Some(Some(rule));
            }
        }
        if self.is_given { None } else { Some(None) }
    }
}

pub(crate) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Returns the label of a token without the blanks at its end.
fn label(token: &TokenInfo) -> &str {
    std::str::from_utf8(&token.label).unwrap_or_default().trim_end()
}

impl Rule {
    /// Returns whether the rule is for a client. `None` if that depends on a group that the host
    /// did not tell. Such a client gets no later rule: this one may restrict it.
    fn is_for(&self, peer: &Peer) -> Option<bool> {
        match peer {
            Peer::User { uid, groups, has_all_groups, unit } => {
                let fits = self.certificate.is_none()
                    && self.uid.is_none_or(|only| only == *uid)
                    && self.unit.as_ref().is_none_or(|only| unit.as_ref() == Some(only));
                match self.gid {
                    Some(only) if fits && !groups.contains(&only) => has_all_groups.then_some(false),
                    _ => Some(fits),
                }
            }
            Peer::Certificate { names } => Some(
                (self.uid, self.gid, &self.unit) == (None, None, &None)
                    && self.certificate.as_ref().is_none_or(|only| names.contains(only)),
            ),
        }
    }

    /// Returns whether the client sees a slot.
    pub fn sees(&self, module: &Module, slot: SlotId) -> bool {
        let Some(labels) = &self.tokens else { return true };
        module.token(slot).is_ok_and(|token| labels.iter().any(|one| one == label(&token)))
    }

    /// Returns whether the client sees only some slots.
    pub fn hides_slots(&self) -> bool {
        self.tokens.is_some()
    }

    /// Returns whether the agent logs in to the token of a slot itself.
    pub fn logs_in(&self, module: &Module, slot: SlotId) -> bool {
        let Some(login) = &self.login else { return false };
        module.token(slot).is_ok_and(|token| label(&token) == login.token)
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
        let pin = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut pin = Zeroizing::new(pin);
        while pin.last().is_some_and(|last| matches!(last, b'\n' | b'\r')) {
            pin.pop();
        }
        Ok(pin)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::policy::Pace;

    #[test]
    fn the_first_rule_that_fits_holds_and_no_rule_refuses() {
        let rules = Rules::parse("[[client]]\nuid = 33\nsessions = 1\n[[client]]\ngid = 100\nsessions = 2\n")
            .expect("rules");
        let sessions = |peer: &Peer| rules.of(peer).map(|rule| rule.and_then(|rule| rule.sessions));
        let user = |uid, gid| Peer::User { uid, groups: vec![7, gid], has_all_groups: true, unit: None };
        assert_eq!(sessions(&user(33, 100)), Some(Some(1)));
        assert_eq!(sessions(&user(34, 100)), Some(Some(2)));
        assert_eq!(sessions(&user(34, 101)), None);
        let certificate = |name: &str| Peer::Certificate { names: vec![name.to_owned()] };
        assert_eq!(sessions(&certificate("web.example")), None);
        assert!(Rules::default().of(&user(34, 101)).is_some_and(|rule| rule.is_none()));
    }

    #[test]
    fn a_client_whose_groups_are_unknown_passes_no_rule_for_a_group() {
        let rules = Rules::parse(
            "[[client]]\nuid = 33\nsessions = 1\n[[client]]\ngid = 100\nsessions = 2\n[[client]]\nsessions = 3\n",
        );
        let rules = rules.expect("rules");
        let sessions = |uid, gid, has_all_groups| {
            let peer = Peer::User { uid, groups: vec![gid], has_all_groups, unit: None };
            rules.of(&peer).map(|rule| rule.and_then(|rule| rule.sessions))
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
             [[client]]\ncertificate = 'web.example'\nsessions = 2\n",
        );
        let rules = rules.expect("rules");
        let sessions = |peer: &Peer| rules.of(peer).map(|rule| rule.and_then(|rule| rule.sessions));
        let of_unit = |unit: Option<&str>| {
            let unit = unit.map(str::to_owned);
            sessions(&Peer::User { uid: 33, groups: vec![], has_all_groups: true, unit })
        };
        assert_eq!(of_unit(Some("nginx.service")), Some(Some(1)));
        assert_eq!(of_unit(Some("other.service")), None);
        assert_eq!(of_unit(None), None);
        let names =
            |names: &[&str]| Peer::Certificate { names: names.iter().map(|name| (*name).into()).collect() };
        assert_eq!(sessions(&names(&["other.example", "web.example"])), Some(Some(2)));
        assert_eq!(sessions(&names(&["other.example"])), None);
    }

    #[test]
    fn unknown_names_are_refused() {
        for wrong in [
            "[[client]]\nrefuse = ['C_Nothing']",
            "[[client]]\nmechanisms = ['CKM_NOTHING']",
            "[[client]]\nuser = 'x'",
            "[[other]]",
        ] {
            assert!(Rules::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Rules::parse("[[client]]\nrefuse = ['C_Generate*']\nmechanisms = ['CKM_ECDSA']").is_ok());
    }

    #[test]
    fn calls_after_the_first_second_wait() {
        let rules = Rules::parse("[[client]]\ncalls-per-second = 100").expect("rules");
        let root = Peer::User { uid: 0, groups: vec![0], has_all_groups: true, unit: None };
        let rule = rules.of(&root).flatten().expect("a rule");
        let (pace, start) = (Pace::default(), Instant::now());
        (0..150).for_each(|_| pace.wait(rule));
        assert!(start.elapsed() >= Duration::from_millis(480));
    }
}
