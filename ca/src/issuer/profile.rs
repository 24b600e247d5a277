//! The profiles of certificates: TOML, of this crate and of the operator.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use const_oid::ObjectIdentifier;
use cryptoki_sys::CKK_EC;
use der::{DateTime, Encode};
use jeton_client::key_types;
use jeton_pki::RsaPublicKey;
use serde::Deserialize;
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::ext::pkix::KeyUsages;

use crate::Error;

/// The built-in profiles, in the form of a file of the operator.
pub const BUILT_IN: &str = include_str!("profiles.toml");

/// The types of keys of CNSA 2.0, as profiles name them. The policy *cnsa2* takes them alone, and
/// HSS with one level alone, which is LMS.
const CNSA2: [&str; 3] = ["ml-dsa-87", "ml-kem-1024", "hss"];

/// The names of the built-in profiles.
pub const PROFILE_NAMES: &[&str] = &[
    "tls-server",
    "internal-server",
    "tls-client",
    "tls-peer",
    "code-signing",
    "email",
    "timestamping",
    "ocsp-signer",
    "sub-ca",
    "kerberos-kdc",
    "kerberos-client",
];

/// The types of names in profiles.
const NAMES: [&str; 6] = ["dns", "ip", "email", "uri", "upn", "dn"];

/// What a certificate is for. A profile decides its extensions, and limits its lifetime, its key
/// and its names.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CertificateProfile {
    /// The name on the command line.
    #[serde(skip)]
    pub name: String,
    /// The lifetime in days that a certificate has by default.
    pub days: u32,
    /// The longest lifetime in days, from a date on.
    most_days: BTreeMap<String, u32>,
    #[serde(default)]
    keys: Vec<String>,
    /// Whether the keys are those of CNSA 2.0.
    #[serde(skip)]
    is_cnsa2: bool,
    pub(super) usages: Vec<Usage>,
    #[serde(default)]
    pub(super) extended: Vec<Purpose>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    pub(super) needs_name: bool,
    /// Whether the certificate is that of a CA.
    #[serde(default)]
    pub ca: bool,
    #[serde(default)]
    pub(super) beyond: Beyond,
    #[serde(default)]
    pub(super) policies: Vec<Purpose>,
    pub(super) crl_url: Option<String>,
    pub(super) ocsp_url: Option<String>,
    pub(super) issuer_url: Option<String>,
}

/// What happens to what only the request asks for.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Beyond {
    #[default]
    Drop,
    Refuse,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) struct Usage(pub KeyUsages);

pub(super) const USAGES: [(KeyUsages, &str); 9] = [
    (KeyUsages::DigitalSignature, "digital-signature"),
    (KeyUsages::NonRepudiation, "content-commitment"),
    (KeyUsages::KeyEncipherment, "key-encipherment"),
    (KeyUsages::DataEncipherment, "data-encipherment"),
    (KeyUsages::KeyAgreement, "key-agreement"),
    (KeyUsages::KeyCertSign, "key-cert-sign"),
    (KeyUsages::CRLSign, "crl-sign"),
    (KeyUsages::EncipherOnly, "encipher-only"),
    (KeyUsages::DecipherOnly, "decipher-only"),
];

impl TryFrom<String> for Usage {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = USAGES.iter().find(|(_, known)| *known == name);
        found.map(|(usage, _)| Self(*usage)).ok_or_else(|| format!("unknown key usage {name:?}"))
    }
}

/// Returns the name of a key usage.
pub fn usage_name(usage: KeyUsages) -> &'static str {
    USAGES.iter().find(|(known, _)| *known == usage).map_or("", |(_, name)| *name)
}

/// Returns the name of an extended key usage, or its object identifier.
pub fn purpose_name(purpose: ObjectIdentifier) -> String {
    let text = purpose.to_string();
    let known = PURPOSES.iter().find(|(_, oid)| *oid == text);
    known.map(|(name, _)| (*name).to_owned()).unwrap_or(text)
}

/// An extended key usage or a policy.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(super) struct Purpose(pub ObjectIdentifier);

const PURPOSES: [(&str, &str); 9] = [
    ("server-auth", "1.3.6.1.5.5.7.3.1"),
    ("client-auth", "1.3.6.1.5.5.7.3.2"),
    ("code-signing", "1.3.6.1.5.5.7.3.3"),
    ("email-protection", "1.3.6.1.5.5.7.3.4"),
    ("time-stamping", "1.3.6.1.5.5.7.3.8"),
    ("ocsp-signing", "1.3.6.1.5.5.7.3.9"),
    ("smart-card-logon", "1.3.6.1.4.1.311.20.2.2"),
    ("kerberos-client", "1.3.6.1.5.2.3.4"),
    ("kerberos-kdc", "1.3.6.1.5.2.3.5"),
];

impl TryFrom<String> for Purpose {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = PURPOSES.iter().find(|(known, _)| *known == name).map_or(name.as_str(), |(_, oid)| oid);
        found.parse().map(Self).map_err(|_| format!("{name:?} is no known usage and no object identifier"))
    }
}

impl CertificateProfile {
    /// Reads the profiles of a file.
    pub fn read(text: &str) -> Result<Vec<Self>, Error> {
        let all: BTreeMap<String, Self> =
            toml::from_str(text).map_err(|error| Error::Usage(format!("the profiles: {error}")))?;
        let all: Vec<_> = all.into_iter().map(|(name, profile)| Self { name, ..profile }).collect();
        match all.iter().find_map(|profile| Some((&profile.name, profile.wrong()?))) {
            Some((name, wrong)) => Err(Error::Usage(format!("the profile {name}: {wrong}"))),
            None => Ok(all),
        }
    }

    /// Returns what would be ignored or would make certificates that RFC 5280 forbids.
    fn wrong(&self) -> Option<String> {
        let is_date =
            |date: &&String| date.len() == 10 && format!("{date}T00:00:00Z").parse::<DateTime>().is_ok();
        let not = |text: &String, what| format!("{text:?} is no {what}");
        let key = self
            .keys
            .iter()
            .find(|key| !is_key(key))
            .map(|key| not(key, "type of keys, such as rsa:BITS or ec:p256"));
        let name = self.names.iter().find(|name| !NAMES.contains(&name.as_str()));
        let name = name.map(|name| not(name, "type of names: dns, ip, email, uri, upn or dn"));
        let date =
            self.most_days.keys().find(|date| !is_date(date)).map(|date| not(date, "date: YYYY-MM-DD"));
        // RFC 5280, 4.2.1.3 and 4.2.1.9.
        let signs = self.usages.contains(&Usage(KeyUsages::KeyCertSign));
        let usage =
            (signs != self.ca).then(|| "key-cert-sign is the usage of a CA, and only of one".to_owned());
        // RFC 5280, 4.2.1.4 and 4.2.1.12.
        let twice = twice(&self.usages) || twice(&self.extended) || twice(&self.policies);
        key.or(name).or(date).or(usage).or(twice.then(|| "a usage or a policy is there twice".to_owned()))
    }

    /// Returns the longest lifetime in days of a certificate that is issued at this time.
    pub fn most_days(&self, at: DateTime) -> u32 {
        let date = at.to_string();
        let rule = self.most_days.range(..=date[..10].to_owned()).next_back();
        rule.map_or(0, |(_, days)| *days)
    }

    /// Returns whether a certificate may have a name of this type.
    pub fn has_names(&self, kind: &str) -> bool {
        self.names.iter().any(|name| name == kind)
    }

    /// Fails unless a certificate may have this key. In every profile, RSA has 2048 bits or more,
    /// and an odd exponent above 1 (SP 800-131A; SP 800-89, 5.3.3).
    pub fn check_key(&self, info: &SubjectPublicKeyInfoOwned) -> Result<(), Error> {
        if let Some((bits, is_strong)) = rsa(info)?
            && (bits < 2048 || !is_strong)
        {
            return Err(Error::Refused(format!("an RSA key of {bits} bits, or with a weak exponent")));
        }
        let name = key_name(info)?;
        let levels = info.subject_public_key.raw_bytes().get(..4);
        if self.is_cnsa2 && name == "hss" && levels != Some(&[0, 0, 0, 1]) {
            return Err(Error::Refused("an HSS key of several levels, which CNSA 2.0 lacks".to_owned()));
        }
        if self.has_keys(&name) {
            return Ok(());
        }
        Err(Error::Refused(format!("the profile {} has no keys of the type {name}", self.name)))
    }

    fn has_keys(&self, name: &str) -> bool {
        let allows = |entry: &String| match (entry.strip_prefix("rsa:"), name.strip_prefix("rsa:")) {
            (Some(least), Some(bits)) => bits.parse::<u32>().ok() >= least.parse().ok(),
            _ => is_of_type(name, entry),
        };
        self.keys.is_empty() || self.keys.iter().any(allows)
    }

    /// Returns the profile with the keys of CNSA 2.0 alone. Fails if it has none of them.
    pub fn under_cnsa2(self) -> Result<Self, Error> {
        let keys = CNSA2.into_iter().filter(|name| self.has_keys(name));
        let keys: Vec<_> = keys.map(str::to_owned).collect();
        if keys.is_empty() {
            return Err(Error::Refused(format!("the profile {} has no keys of CNSA 2.0", self.name)));
        }
        Ok(Self { keys, is_cnsa2: true, ..self })
    }
}

/// Returns whether some key is of this type of a profile.
fn is_key(entry: &str) -> bool {
    if let Some(bits) = entry.strip_prefix("rsa:") {
        return bits.parse::<u32>().is_ok();
    }
    let all = key_types::ALL.iter().map(|row| match row.kind {
        CKK_EC => format!("ec:{}", row.id),
        _ => row.id.to_owned(),
    });
    let others = ["rsa:2048", "hss"].map(str::to_owned);
    entry.parse::<ObjectIdentifier>().is_ok() || all.chain(others).any(|name| is_of_type(&name, entry))
}

/// Returns whether a key is of a type, which may leave out the end: its parameters.
fn is_of_type(name: &str, entry: &str) -> bool {
    name.strip_prefix(entry).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':']))
}

fn twice<T: PartialEq>(all: &[T]) -> bool {
    (1..all.len()).any(|at| all[..at].contains(&all[at]))
}

/// Returns the bits of an RSA key, and whether its exponent is strong.
pub(super) fn rsa(info: &SubjectPublicKeyInfoOwned) -> Result<Option<(u32, bool)>, Error> {
    use der::Decode;
    if ![key_types::RSA, key_types::RSA_PSS].contains(&info.algorithm.oid.to_der()?.as_slice()) {
        return Ok(None);
    }
    let key = RsaPublicKey::from_der(info.subject_public_key.raw_bytes())?;
    let (modulus, exponent) = (key.modulus.as_bytes(), key.public_exponent.as_bytes());
    let bits = modulus.len() as u32 * 8 - modulus.first().map_or(0, |byte| byte.leading_zeros());
    Ok(Some((bits, exponent != [1] && exponent.last().is_some_and(|byte| byte & 1 == 1))))
}

/// Returns the type of a key, as `key generate --type` names it, or its object identifier.
pub fn key_name(info: &SubjectPublicKeyInfoOwned) -> Result<String, Error> {
    if let Some((bits, _)) = rsa(info)? {
        return Ok(format!("rsa:{bits}"));
    }
    let oid = info.algorithm.oid.to_der()?;
    let curve = info.algorithm.parameters.as_ref().map(Encode::to_der).transpose()?.unwrap_or_default();
    let is_curve = oid == key_types::EC;
    Ok(match key_types::of_oid(if is_curve { &curve } else { &oid }) {
        Some(row) if is_curve => format!("ec:{}", row.id),
        Some(row) => row.id.to_owned(),
        None if oid == key_types::HSS => "hss".to_owned(),
        None => info.algorithm.oid.to_string(),
    })
}

/// Returns [`BUILT_IN`] with the keys of CNSA 2.0 alone.
pub fn built_in_under_cnsa2() -> Result<String, Error> {
    let mut text = String::new();
    for line in BUILT_IN.lines().filter(|line| !line.starts_with("keys = ")) {
        text.push_str(line);
        text.push('\n');
        if let Some(profile) = line.strip_prefix('[').and_then(|name| profile(name.strip_suffix(']')?)) {
            text.push_str(&format!("keys = {:?}\n", profile.clone().under_cnsa2()?.keys));
        }
    }
    Ok(text)
}

/// Returns the built-in profile with this name.
pub fn profile(name: &str) -> Option<&'static CertificateProfile> {
    static ALL: LazyLock<Vec<CertificateProfile>> =
        LazyLock::new(|| CertificateProfile::read(BUILT_IN).expect("the test reads them"));
    ALL.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profiles_have_keys_of_cnsa2() {
        let keys = |text: &str| -> Vec<_> {
            let all = CertificateProfile::read(text).expect("profiles").into_iter();
            all.map(|profile| (profile.name, profile.keys)).collect()
        };
        let all = keys(&built_in_under_cnsa2().expect("profiles"));
        assert_eq!(all.len(), PROFILE_NAMES.len());
        for (name, keys) in &all {
            let expected: &[&str] = match &name[..] {
                "tls-server" | "internal-server" | "tls-client" | "tls-peer" | "timestamping" => {
                    &["ml-dsa-87"]
                }
                "code-signing" => &["ml-dsa-87", "hss"],
                _ => &CNSA2,
            };
            assert_eq!(keys, expected, "{name}");
        }
        let rsa = BUILT_IN.replace(r#", "ml-dsa", "slh-dsa""#, "");
        let rsa = CertificateProfile::read(&rsa).expect("profiles").into_iter();
        let refused: Vec<_> = rsa.filter_map(|profile| profile.under_cnsa2().err()).collect();
        assert_eq!(refused.len(), 5, "{refused:?}");
    }

    #[test]
    fn the_built_in_profiles_have_the_lifetimes_of_the_ca_browser_forum() {
        let all = CertificateProfile::read(BUILT_IN).expect("profiles");
        assert!(all.len() == PROFILE_NAMES.len() && PROFILE_NAMES.iter().all(|name| profile(name).is_some()));
        let server = profile("tls-server").expect("a profile");
        for ((year, month, day), days) in [
            ((2026, 3, 14), 398),
            ((2026, 3, 15), 200),
            ((2027, 3, 14), 200),
            ((2027, 3, 15), 100),
            ((2029, 3, 15), 47),
            ((2019, 1, 1), 0),
        ] {
            let at = DateTime::new(year, month, day, 12, 0, 0).expect("a date");
            assert_eq!(server.most_days(at), days, "{year}-{month}-{day}");
        }
        for (from, to) in [
            ("server-auth", "no-auth"),
            ("crl-sign", "crl"),
            ("needs-name", "needs"),
            ("\"dns\"", "\"dsn\""),
            ("ec:p256", "ecc:p256"),
            ("rsa:2048", "rsa:many"),
            ("ed448", "1.3.101.113"),
        ] {
            let changed = BUILT_IN.replacen(from, to, usize::MAX);
            assert_eq!(CertificateProfile::read(&changed).is_ok(), from == "ed448", "{from}");
        }
    }
}
