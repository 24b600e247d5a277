//! Rules of RFC 5280 for a path that the crate `webpki` does not have: the key usage of CAs, and
//! whether a policy is valid for the whole path if a CA requires one.

use der::Decode;
use der::oid::db::rfc5280::ANY_POLICY;
use der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::ext::pkix::{
    BasicConstraints, CertificatePolicies, InhibitAnyPolicy, KeyUsage, PolicyConstraints, PolicyMappings,
};
use x509_cert::{Certificate, TbsCertificate, Version};

/// Why a path is not valid.
pub enum Broken {
    NotCa,
    Policies,
    Malformed,
    Revoked,
    NoCrl,
    CrlEnded,
}

/// Reads the certificates of a path.
pub fn parse(path: &[&[u8]]) -> Result<Vec<TbsCertificate>, Broken> {
    let parse = |der: &&[u8]| Certificate::from_der(der).map(|certificate| certificate.tbs_certificate);
    path.iter().map(parse).collect::<Result<_, _>>().map_err(|_| Broken::Malformed)
}

/// Checks a path, from the certificate of the root to the one that is validated.
pub fn check(path: &[TbsCertificate]) -> Result<(), Broken> {
    let Some((_, cas)) = path.split_last() else { return Err(Broken::Malformed) };
    cas.iter().try_for_each(expect_ca)?;
    expect_policy(path)
}

/// Returns an extension.
pub fn get<'a, T: Decode<'a> + AssociatedOid>(of: &'a TbsCertificate) -> Result<Option<T>, Broken> {
    of.get().map(|found| found.map(|(_, extension)| extension)).map_err(|_| Broken::Malformed)
}

/// RFC 5280, 6.1.4 (k) and (n). An old root may be of version 1, which has no extensions.
fn expect_ca(ca: &TbsCertificate) -> Result<(), Broken> {
    let is_ca = get::<BasicConstraints>(ca)?.is_some_and(|basic| basic.ca) || ca.version == Version::V1;
    let signs = get::<KeyUsage>(ca)?.is_none_or(|usage| usage.key_cert_sign());
    if is_ca && signs { Ok(()) } else { Err(Broken::NotCa) }
}

/// RFC 5280, 6.1, for an operator who accepts any policy and requires none. A CA may require one. A
/// path that also maps policies, or excludes the policy for any, is not valid then: the crate does
/// not know these extensions if they are critical, as they must be.
fn expect_policy(path: &[TbsCertificate]) -> Result<(), Broken> {
    // The certificates that may follow without a policy. The root does not count.
    let mut explicit = path.len();
    // The policies that all certificates have. All policies are valid above the first certificate.
    let mut valid: Option<Vec<ObjectIdentifier>> = None;
    let mut maps = false;
    for (place, certificate) in path.iter().enumerate().skip(1) {
        let policies = get::<CertificatePolicies>(certificate)?.map(|all| all.0).unwrap_or_default();
        let own: Vec<_> = policies.iter().map(|policy| policy.policy_identifier).collect();
        if !own.contains(&ANY_POLICY) {
            valid = Some(match valid {
                None => own,
                Some(all) => all.into_iter().filter(|policy| own.contains(policy)).collect(),
            });
        }
        let is_last = place + 1 == path.len();
        let has_policy = valid.as_ref().is_none_or(|all| !all.is_empty()) && !maps;
        if explicit == 0 && !has_policy {
            return Err(Broken::Policies);
        }
        if is_last || certificate.issuer != certificate.subject {
            explicit = explicit.saturating_sub(1);
        }
        let required = get::<PolicyConstraints>(certificate)?.and_then(|all| all.require_explicit_policy);
        explicit = required.map_or(explicit, |required| explicit.min(required as usize));
        if is_last && explicit == 0 && !has_policy {
            return Err(Broken::Policies);
        }
        maps |=
            get::<PolicyMappings>(certificate)?.is_some() || get::<InhibitAnyPolicy>(certificate)?.is_some();
    }
    Ok(())
}
