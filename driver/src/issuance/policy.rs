//! The policy of the CA: the rules that a request must keep.

use jeton_pki::{
    Algorithm, AlternativeName, EXTENSION_REQUEST, Request, SUBJECT_ALT_NAME, alternative_names, extensions,
};

/// The rules of a CA.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The algorithms that a subscriber's key may have.
    pub key_types: Vec<&'static Algorithm>,
    /// The ending of every DNS name, for example `.issue.test`.
    pub suffix: &'static str,
    /// The largest number of names.
    pub max_names: usize,
    /// The longest validity in days.
    pub max_days: u32,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The key's algorithm is not allowed.
    #[error("the policy does not allow this type of key")]
    KeyType,
    /// The subject is not one common name, or the names do not contain it.
    #[error("the subject is not one of the DNS names")]
    Subject,
    /// The request has no names, too many, or something else than DNS names.
    #[error("the names are not between one and the allowed number of DNS names")]
    Names,
    /// A DNS name is outside the CA's domain, or malformed.
    #[error("a DNS name is outside the domain of the CA or malformed")]
    Domain,
    /// The request asks for another extension or attribute.
    #[error("the request asks for something other than the extension subjectAltName")]
    Extension,
    /// The validity is too long, or empty.
    #[error("the validity is not between one day and the allowed number of days")]
    Validity,
}

impl Policy {
    /// Checks the content of a request. Returns the names for the certificate: the value of the
    /// extension subjectAltName.
    pub fn check<'a>(&self, request: &Request<'a>, days: u32) -> Result<&'a [u8], Refusal> {
        let algorithm = Algorithm::of_public_key(&request.public_key).ok_or(Refusal::KeyType)?;
        if !self.key_types.iter().any(|allowed| allowed.name == algorithm.name) {
            return Err(Refusal::KeyType);
        }
        if !(1..=self.max_days).contains(&days) {
            return Err(Refusal::Validity);
        }
        let value = requested_names(request)?;
        let names = alternative_names(value).map_err(|_| Refusal::Names)?;
        if !(1..=self.max_names).contains(&names.len()) {
            return Err(Refusal::Names);
        }
        let common = common_name(request).ok_or(Refusal::Subject)?;
        let mut has_common = false;
        for name in names {
            let AlternativeName::Dns(name) = name else { return Err(Refusal::Names) };
            if !self.is_inside(name) {
                return Err(Refusal::Domain);
            }
            has_common |= name == common;
        }
        if has_common { Ok(value) } else { Err(Refusal::Subject) }
    }

    /// Returns whether a name is in the CA's domain, and all its labels are letters, digits and
    /// hyphens.
    fn is_inside(&self, name: &str) -> bool {
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        name.len() <= 253 && name.strip_suffix(self.suffix).is_some_and(|host| host.split('.').all(is_label))
    }
}

/// Returns the value of the extension subjectAltName that a request asks for. Fails if the request
/// asks for anything else.
fn requested_names<'a>(request: &Request<'a>) -> Result<&'a [u8], Refusal> {
    let [attribute] = request.attributes.as_slice() else {
        return Err(if request.attributes.is_empty() { Refusal::Names } else { Refusal::Extension });
    };
    let [value] = attribute.values.as_slice() else { return Err(Refusal::Extension) };
    match extensions(value).as_deref() {
        Ok([only]) if attribute.oid == EXTENSION_REQUEST && only.oid == SUBJECT_ALT_NAME => Ok(only.value),
        _ => Err(Refusal::Extension),
    }
}

/// Returns the only attribute of the subject if it is a common name.
fn common_name(request: &Request<'_>) -> Option<String> {
    let text = request.subject.to_string();
    let common = text.strip_prefix("CN=")?;
    (request.subject.0.len() == 1 && !common.contains(['+', ','])).then(|| common.to_owned())
}

#[cfg(test)]
mod tests {
    use der::Encode;

    use super::*;
    use crate::pipeline::KeyPair;
    use jeton_pki::certificate::{Holder, request_tbs};

    fn policy() -> Policy {
        let key_types = vec![Algorithm::named("ed25519").expect("it is known")];
        Policy { key_types, suffix: ".issue.test", max_names: 2, max_days: 30 }
    }

    /// Makes a request and checks it.
    fn checked(key_type: &str, subject: &str, names: &[&str], days: u32) -> Result<usize, Refusal> {
        let pair = KeyPair::generate(Algorithm::named(key_type).expect("it is known")).expect("a key");
        let key = pair.public_key().and_then(|key| Ok(key.to_der()?)).expect("a public key");
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let holder = Holder::parse(subject, &names).expect("a subject");
        let request = request_tbs(&key, &holder).expect("a request");
        let request = Request::parse(&request).expect("a request");
        let count = |value| alternative_names(value).map(|names| names.len()).expect("names");
        policy().check(&request, days).map(count)
    }

    #[test]
    fn a_request_with_allowed_names_is_granted() {
        assert_eq!(checked("ed25519", "CN=a.issue.test", &["dns:a.issue.test"], 30), Ok(1));
        assert_eq!(
            checked("ed25519", "CN=b.issue.test", &["dns:a.issue.test", "dns:b.issue.test"], 1),
            Ok(2)
        );
    }

    #[test]
    fn each_rule_refuses_a_request_that_breaks_it() {
        const NAME: &str = "dns:a.issue.test";
        fn refused(key_type: &str, subject: &str, names: &[&str], days: u32) -> Refusal {
            checked(key_type, subject, names, days).expect_err("it breaks a rule")
        }
        assert_eq!(refused("ecdsa-p256", "CN=a.issue.test", &[NAME], 30), Refusal::KeyType);
        assert_eq!(refused("ed25519", "CN=a.issue.test", &[NAME], 31), Refusal::Validity);
        assert_eq!(refused("ed25519", "CN=a.issue.test", &[NAME], 0), Refusal::Validity);
        assert_eq!(refused("ed25519", "CN=b.issue.test", &[NAME], 30), Refusal::Subject);
        assert_eq!(refused("ed25519", "O=a.issue.test", &[NAME], 30), Refusal::Subject);
        assert_eq!(refused("ed25519", "CN=a.issue.test,O=x", &[NAME], 30), Refusal::Subject);
        assert_eq!(refused("ed25519", "CN=a.issue.test", &[], 30), Refusal::Names);
        assert_eq!(refused("ed25519", "CN=a.issue.test", &[NAME, NAME, NAME], 30), Refusal::Names);
        assert_eq!(refused("ed25519", "CN=a.issue.test", &["ip:127.0.0.1"], 30), Refusal::Names);
        for name in ["dns:a.example.org", "dns:*.issue.test", "dns:-a.issue.test", "dns:.issue.test"] {
            let subject = format!("CN={}", &name[4..]);
            assert_eq!(refused("ed25519", &subject, &[name], 30), Refusal::Domain, "{name}");
        }
    }
}
