//! Rules for a path that the crate `webpki` does not have: the key usage of CAs and of the holder,
//! the names in subjects, keys that everyone knows, and whether a policy is valid for the whole
//! path if a CA requires one. To the crate, a root is a name and a key. Here it is a certificate
//! like the others of the path, as RFC 5280, 6.2, allows.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use cryptoki_sys::CKA_MODULUS;
use der::flagset::FlagSet;
use der::oid::db::rfc5280::{
    ANY_POLICY, ID_KP_CLIENT_AUTH, ID_KP_CODE_SIGNING, ID_KP_EMAIL_PROTECTION, ID_KP_OCSP_SIGNING,
    ID_KP_SERVER_AUTH, ID_KP_TIME_STAMPING,
};
use der::oid::{AssociatedOid, ObjectIdentifier};
use der::{Decode, Encode};
use jeton_client::Attribute;
use jeton_client::safe_text::shown;
use jeton_pki::public_key_template;
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    BasicConstraints, CertificatePolicies, ExtendedKeyUsage, InhibitAnyPolicy, KeyUsage, KeyUsages,
    NameConstraints, PolicyConstraints, PolicyMappings, SubjectAltName,
};
use x509_cert::{Certificate, TbsCertificate, Version};

use crate::name;

/// What a certificate is for (RFC 5280, 4.2.1.12).
pub struct Purpose {
    /// The name on the command line.
    pub name: &'static str,
    /// The extended key usage.
    pub oid: ObjectIdentifier,
    /// The holder's key usage has one of these, if there is one.
    usages: &'static [KeyUsages],
    /// The certificate says that it is for this purpose.
    explicit: bool,
}

/// The purposes of a validation.
pub const PURPOSES: [Purpose; 6] = {
    use KeyUsages as K;
    const SIGNS: &[K] = &[K::DigitalSignature, K::NonRepudiation];
    const SERVES: &[K] = &[K::DigitalSignature, K::KeyEncipherment, K::KeyAgreement];
    const CALLS: &[K] = &[K::DigitalSignature, K::KeyAgreement];
    const MAILS: &[K] = &[K::DigitalSignature, K::NonRepudiation, K::KeyEncipherment, K::KeyAgreement];
    const fn purpose(
        name: &'static str,
        oid: ObjectIdentifier,
        usages: &'static [K],
        explicit: bool,
    ) -> Purpose {
        Purpose { name, oid, usages, explicit }
    }
    [
        purpose("server-auth", ID_KP_SERVER_AUTH, SERVES, false),
        purpose("client-auth", ID_KP_CLIENT_AUTH, CALLS, false),
        purpose("code-signing", ID_KP_CODE_SIGNING, &[K::DigitalSignature], false),
        purpose("email-protection", ID_KP_EMAIL_PROTECTION, MAILS, false),
        // RFC 3161, 2.3, and RFC 6960, 4.2.2.2.
        purpose("time-stamping", ID_KP_TIME_STAMPING, SIGNS, true),
        purpose("ocsp-signing", ID_KP_OCSP_SIGNING, SIGNS, true),
    ]
};

/// Why a path is not valid.
pub enum Broken {
    NotCa,
    Policies,
    Malformed,
    /// An extension of the root.
    Unknown,
    Early,
    Late,
    Length,
    Name,
    Purpose,
    Usage,
    /// Whose key is refused, and why.
    Key(String),
    Revoked,
    NoCrl,
    CrlEnded,
}

/// Reads the certificates of a path.
pub fn parse(path: &[&[u8]]) -> Result<Vec<TbsCertificate>, Broken> {
    let parse = |der: &&[u8]| Certificate::from_der(der).map(|certificate| certificate.tbs_certificate);
    path.iter().map(parse).collect::<Result<_, _>>().map_err(|_| Broken::Malformed)
}

/// The least length in bytes of an RSA modulus.
const MODULUS: usize = 2048 / 8;

/// What the paths of a certificate share: a stranger may send many paths of the same certificates.
pub struct Shared {
    comparisons: Cell<usize>,
    check_key: fn(&[Attribute]) -> Result<Vec<u8>, String>,
    /// Why each public key is refused.
    keys: RefCell<BTreeMap<Vec<u8>, Option<String>>>,
}

impl Shared {
    pub fn new(check_key: fn(&[Attribute]) -> Result<Vec<u8>, String>) -> Self {
        Self { comparisons: Cell::new(name::COMPARISONS), check_key, keys: RefCell::default() }
    }

    /// Fails if a check refuses the public key of a certificate.
    pub fn expect_key(&self, certificate: &TbsCertificate) -> Result<(), Broken> {
        let info = &certificate.subject_public_key_info;
        let der = info.to_der().map_err(|_| Broken::Malformed)?;
        match self.keys.borrow_mut().entry(der).or_insert_with(|| self.check(info).err()) {
            None => Ok(()),
            Some(reason) => {
                let subject = shown(&certificate.subject.to_string());
                Err(Broken::Key(format!("the key of {subject} is refused: {reason}")))
            }
        }
    }

    /// Says why a public key is refused. The crate knows the types of the keys that sign. The key
    /// of the holder may have another: one that was not checked is not valid.
    fn check(&self, info: &SubjectPublicKeyInfoOwned) -> Result<(), String> {
        let template = public_key_template(info).map_err(|_| "its type is not supported".to_owned())?;
        let modulus = template.iter().find(|attribute| attribute.kind == CKA_MODULUS);
        if modulus.is_some_and(|modulus| modulus.value.len() < MODULUS) {
            return Err(format!("RSA with fewer than {} bits", 8 * MODULUS));
        }
        (self.check_key)(&template).map(drop)
    }
}

/// Checks a path, from the certificate of the root to the one that is validated. The crate checks
/// the times, the purposes and the numbers of CAs too, but not those of a root.
pub fn check(
    path: &[TbsCertificate],
    purpose: &Purpose,
    at: Duration,
    shared: &Shared,
) -> Result<(), Broken> {
    let Some((holder, cas)) = path.split_last() else { return Err(Broken::Malformed) };
    for (place, ca) in cas.iter().enumerate() {
        expect_ca(ca)?;
        expect_names(ca, &path[place + 1..], &shared.comparisons)?;
        let below = cas[place + 1..].iter().filter(|ca| ca.issuer != ca.subject).count();
        let limit = get::<BasicConstraints>(ca)?.and_then(|basic| basic.path_len_constraint);
        if limit.is_some_and(|limit| below > usize::from(limit)) {
            return Err(Broken::Length);
        }
    }
    for certificate in path {
        if at < certificate.validity.not_before.to_unix_duration() {
            return Err(Broken::Early);
        }
        if at > certificate.validity.not_after.to_unix_duration() {
            return Err(Broken::Late);
        }
        if get::<ExtendedKeyUsage>(certificate)?.is_some_and(|all| !all.0.contains(&purpose.oid)) {
            return Err(Broken::Purpose);
        }
        shared.expect_key(certificate)?;
    }
    expect_purpose(holder, purpose)?;
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

/// RFC 5280, 6.1.3 (b) and (c), for the subjects: also for a mailbox and a host in them. The crate
/// checks the other names. To it, an IPv4 address in an IPv6 address is another one.
fn expect_names(
    ca: &TbsCertificate,
    below: &[TbsCertificate],
    comparisons: &Cell<usize>,
) -> Result<(), Broken> {
    let Some(constraints) = get::<NameConstraints>(ca)? else { return Ok(()) };
    for (place, certificate) in below.iter().enumerate() {
        let counts = place + 1 == below.len() || certificate.issuer != certificate.subject;
        let mut names = get::<SubjectAltName>(certificate)?.map(|names| names.0).unwrap_or_default();
        names.retain(|name| matches!(name, GeneralName::IpAddress(_)));
        if counts && name::excluded(&constraints, &certificate.subject, &names, comparisons).is_some() {
            return Err(Broken::Name);
        }
    }
    Ok(())
}

/// Returns whether the constraints of one of the CAs exclude a name of the holder or of another CA.
pub fn exclude_a_name(cas: &[&TbsCertificate], holder: &[TbsCertificate]) -> bool {
    let comparisons = Cell::new(name::COMPARISONS);
    let excludes = |ca: &TbsCertificate, below: &TbsCertificate| {
        let constraints = get::<NameConstraints>(ca).ok().flatten();
        let names = get::<SubjectAltName>(below).ok().flatten().map(|names| names.0).unwrap_or_default();
        constraints.is_some_and(|all| name::excluded(&all, &below.subject, &names, &comparisons).is_some())
    };
    let below = || cas.iter().copied().chain(holder);
    cas.iter()
        .any(|ca| below().any(|below| below != *ca && below.subject != ca.issuer && excludes(ca, below)))
}

/// What a holder needs for a purpose. One that stamps times has no other purpose and no other
/// usage.
fn expect_purpose(holder: &TbsCertificate, purpose: &Purpose) -> Result<(), Broken> {
    let stamps = purpose.oid == ID_KP_TIME_STAMPING;
    let fits = match holder.get::<ExtendedKeyUsage>().map_err(|_| Broken::Malformed)? {
        None => !purpose.explicit,
        Some((critical, all)) => !stamps || critical && all.0.len() == 1,
    };
    let allowed = purpose.usages.iter().fold(FlagSet::default(), |all, one| all | *one);
    let usage = get::<KeyUsage>(holder)?.map(|usage| usage.0);
    let is_allowed =
        usage.is_none_or(|own| !(own & allowed).is_empty() && (!stamps || (own - allowed).is_empty()));
    match (fits, is_allowed) {
        (false, _) => Err(Broken::Purpose),
        (_, false) => Err(Broken::Usage),
        _ => Ok(()),
    }
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
