//! A CA: certificates for requests, CRLs, and OCSP responses. A request, a profile and the CA's own
//! certificate decide the contents.

mod ocsp;
mod profile;
mod request;

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use const_oid::ObjectIdentifier;
use const_oid::db::rfc5280::ID_KP_OCSP_SIGNING;
use const_oid::db::rfc6960::ID_PKIX_OCSP_NOCHECK;
use der::asn1::{AnyRef, Ia5String, Null, OctetString};
use der::flagset::FlagSet;
use der::{DateTime, Decode, Encode, Tag};
use jeton_pki::signer::{Signer, key_id};
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::crl::{RevokedCert, TbsCertList};
use x509_cert::ext::pkix::certpolicy::PolicyInformation;
use x509_cert::ext::pkix::crl::dp::DistributionPoint;
use x509_cert::ext::pkix::name::{DistributionPointName, GeneralName};
use x509_cert::ext::pkix::{
    AccessDescription, AuthorityInfoAccessSyntax, BasicConstraints, CertificatePolicies,
    CrlDistributionPoints, CrlReason, KeyUsage, KeyUsages, NameConstraints, SubjectKeyIdentifier,
};
use x509_cert::ext::{AsExtension, Extension};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::time::Validity;
use x509_cert::{Certificate, TbsCertificate, Version};

use super::certificate::{Holder, positive, utc};
use super::{extension, name};
use crate::Error;

pub use ocsp::{
    Answer, Query, Responder, Unsigned, internal_error, malformed_request, payload as ocsp_payload,
    request as ocsp_request,
};
pub use profile::{
    BUILT_IN, CertificateProfile, PROFILE_NAMES, built_in_under_cnsa2, key_name, profile, purpose_name,
    usage_name,
};
pub use request::Request;

const DAY: u64 = 24 * 60 * 60;
/// id-ad-caIssuers of RFC 5280, 4.2.2.1.
const CA_ISSUERS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.2");
/// id-ad-ocsp of RFC 5280, 4.2.2.1.
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");

/// What the administrator decides about a certificate.
pub struct Order<'a> {
    /// The profile.
    pub profile: &'a CertificateProfile,
    /// The subject and the names.
    pub holder: Holder,
    /// The public key as SubjectPublicKeyInfo.
    pub public_key: &'a [u8],
    /// The lifetime. Without it, the profile's default, but at most that of the CA.
    pub days: Option<u32>,
    /// The number of CAs that may follow below a CA.
    pub path_length: u8,
    /// The names that the certificates below a CA may have. Empty: all names.
    pub permitted: Vec<GeneralName>,
    /// The names that the certificates below a CA must not have.
    pub excluded: Vec<GeneralName>,
    /// The address of the CA's CRL.
    pub crl_url: Option<&'a str>,
    /// The address of the CA's OCSP responder.
    pub ocsp_url: Option<&'a str>,
}

/// A certificate that a CRL or an OCSP response revokes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The bytes of the serial number, as in DER.
    pub serial: Vec<u8>,
    /// Seconds since 1970.
    pub time: u64,
    /// The reason.
    pub reason: CrlReason,
}

/// A CA: its certificate, and how its key signs.
pub struct Issuer {
    /// How the key signs.
    pub signer: Signer,
    certificate: Certificate,
    /// The certificates above, without that of the CA itself.
    above: Vec<Certificate>,
    key_id: Vec<u8>,
}

impl Issuer {
    /// Reads the certificate of a CA. Fails if it may not issue certificates and CRLs.
    pub fn new(certificate: &[u8]) -> Result<Self, Error> {
        let certificate = Certificate::from_der(certificate)?;
        let tbs = &certificate.tbs_certificate;
        let is_authority = tbs.get::<BasicConstraints>()?.is_some_and(|(_, basic)| basic.ca);
        let may_sign = tbs.get::<KeyUsage>()?.is_none_or(|(_, usage)| usage.key_cert_sign());
        if !is_authority {
            return Err(Error::Refused(format!("{} is not the certificate of a CA", tbs.subject)));
        }
        if !may_sign {
            let text = format!("the key usage of the certificate of {} lacks keyCertSign", tbs.subject);
            return Err(Error::Refused(text));
        }
        let info = tbs.subject_public_key_info.to_der()?;
        // RFC 5280, 4.2.1.1: the value is the subject key identifier of the CA's certificate.
        let own = tbs.get::<SubjectKeyIdentifier>()?.map(|(_, id)| id.0.into_bytes());
        let key_id = own.map_or_else(|| key_id(&info), Ok)?;
        Ok(Self { signer: Signer::of(&info)?, key_id, certificate, above: Vec::new() })
    }

    /// Adds the certificates of the CAs above, which restrict this CA too.
    pub fn below(self, above: &[&[u8]]) -> Result<Self, Error> {
        let above = above.iter().map(|der| Certificate::from_der(der)).collect::<Result<_, _>>()?;
        Ok(Self { above, ..self })
    }

    /// Returns the certificate of the CA and those above it.
    fn path(&self) -> impl Iterator<Item = &TbsCertificate> {
        [&self.certificate].into_iter().chain(&self.above).map(|one| &one.tbs_certificate)
    }

    /// Returns the name of the CA.
    pub fn subject(&self) -> String {
        self.certificate.tbs_certificate.subject.to_string()
    }

    /// Returns whether this is the name of the CA (RFC 5280, 7.1).
    pub fn is_called(&self, name: &Name) -> bool {
        name::same(&self.certificate.tbs_certificate.subject, name)
    }

    /// Returns the public key of the CA as SubjectPublicKeyInfo.
    pub fn public_key(&self) -> Result<Vec<u8>, Error> {
        Ok(self.certificate.tbs_certificate.subject_public_key_info.to_der()?)
    }

    /// Returns the public keys of the CA and of those above it as SubjectPublicKeyInfo.
    pub fn public_keys(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.path().map(|ca| Ok(ca.subject_public_key_info.to_der()?)).collect()
    }

    /// Returns a certificate as bytes to sign. The caller passes a random `serial`. Fails with
    /// [`Error::Refused`] if the profile or the CA's certificate does not allow the order.
    pub fn certificate_tbs(&self, order: &Order<'_>, serial: [u8; 16]) -> Result<Vec<u8>, Error> {
        self.check(order)?;
        let own = &self.certificate.tbs_certificate;
        let now = now();
        let subject = order.holder.subject.clone();
        let key = SubjectPublicKeyInfoOwned::from_der(order.public_key)?;
        let is_rsa = key.algorithm.oid.to_der()? == jeton_client::key_types::RSA;
        let mut usages = FlagSet::default();
        for profile::Usage(usage) in &order.profile.usages {
            // RFC 8813, 3 and RFC 9881, 5: only RSA keys encipher keys.
            if is_rsa || *usage != KeyUsages::KeyEncipherment {
                usages |= *usage;
            }
        }
        if usages.is_empty() {
            // RFC 5280, 4.2.1.3.
            let name = &order.profile.name;
            return Err(Error::Refused(format!("the profile {name} has no key usage for this key")));
        }
        let mut extensions = vec![
            extension::key_usage(usages)?,
            extension::subject_key_identifier(&key_id(order.public_key)?)?,
            extension::authority_key_identifier(&self.key_id)?,
        ];
        extensions.push(match order.profile.ca {
            true => extension::ca_basic_constraints(Some(order.path_length))?,
            false => extension::leaf_basic_constraints()?,
        });
        let extended: Vec<_> = order.profile.extended.iter().map(|purpose| purpose.0).collect();
        if extended.contains(&ID_KP_OCSP_SIGNING) {
            // RFC 6960, 4.2.2.2.1: clients do not ask whether the signer itself is revoked.
            let extn_value = OctetString::new(Null.to_der()?)?;
            extensions.push(Extension { extn_id: ID_PKIX_OCSP_NOCHECK, critical: false, extn_value });
        }
        if !extended.is_empty() {
            extensions.push(extension::extended_key_usage(extended)?);
        }
        let policy = |policy: &profile::Purpose| PolicyInformation {
            policy_identifier: policy.0,
            policy_qualifiers: None,
        };
        let policies: Vec<_> = order.profile.policies.iter().map(policy).collect();
        if !policies.is_empty() {
            extensions.push(CertificatePolicies(policies).to_extension(&subject, &[])?);
        }
        extensions.extend(order.holder.extension()?);
        if let Some(constraints) = name::constraints(&order.permitted, &order.excluded)? {
            extensions.push(constraints.to_extension(&subject, &[])?);
        }
        if let Some(url) = order.crl_url.or(order.profile.crl_url.as_deref()) {
            let name = DistributionPointName::FullName(vec![address(url)?]);
            let point = DistributionPoint { distribution_point: Some(name), reasons: None, crl_issuer: None };
            extensions.push(CrlDistributionPoints(vec![point]).to_extension(&subject, &[])?);
        }
        let ocsp = order.ocsp_url.or(order.profile.ocsp_url.as_deref());
        let urls = [(OCSP, ocsp), (CA_ISSUERS, order.profile.issuer_url.as_deref())];
        let mut places = Vec::new();
        for (access_method, url) in urls.into_iter().filter_map(|(method, url)| Some((method, url?))) {
            places.push(AccessDescription { access_method, access_location: address(url)? });
        }
        if !places.is_empty() {
            extensions.push(AuthorityInfoAccessSyntax(places).to_extension(&subject, &[])?);
        }
        let validity = Validity { not_before: utc(at(now)?)?, not_after: utc(at(self.end(order, now)?)?)? };
        let certificate = TbsCertificate {
            version: Version::V3,
            serial_number: SerialNumber::new(&positive(serial))?,
            signature: self.signer.algorithm.clone(),
            issuer: own.subject.clone(),
            validity,
            subject,
            subject_public_key_info: key,
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(extensions),
        };
        Ok(certificate.to_der()?)
    }

    /// Returns a CRL as bytes to sign. It is valid from this second since 1970 on, for this number
    /// of days.
    pub fn crl_tbs(&self, number: u64, revoked: &[Revoked], start: u64, days: u32) -> Result<Vec<u8>, Error> {
        let own = &self.certificate.tbs_certificate;
        if own.get::<KeyUsage>()?.is_some_and(|(_, usage)| !usage.crl_sign()) {
            return Err(Error::Refused(format!("the certificate of {} may not sign CRLs", own.subject)));
        }
        let validity = own.validity.not_before.to_unix_duration()..=own.validity.not_after.to_unix_duration();
        if !validity.contains(&Duration::from_secs(start)) {
            return Err(Error::Refused(format!("the certificate of {} is not valid now", own.subject)));
        }
        let too_long = |_| Error::Usage("--days leads beyond the year 9999".to_owned());
        let end = at(start + u64::from(days) * DAY).map_err(too_long)?;
        let entry = |one: &Revoked| -> Result<RevokedCert, Error> {
            // RFC 5280, 5.3.1: the extension is absent if the reason is unspecified.
            let reason = (one.reason != CrlReason::Unspecified)
                .then(|| one.reason.to_extension(&own.subject, &[]).map(|extension| vec![extension]));
            Ok(RevokedCert {
                serial_number: serial_number(&one.serial)?,
                revocation_date: utc(at(one.time)?)?,
                crl_entry_extensions: reason.transpose()?,
            })
        };
        let list = TbsCertList {
            version: Version::V2,
            signature: self.signer.algorithm.clone(),
            issuer: own.subject.clone(),
            this_update: utc(at(start)?)?,
            next_update: Some(utc(end)?),
            // RFC 5280 5.1.2.6: the list is absent if it would be empty.
            revoked_certificates: (!revoked.is_empty())
                .then(|| revoked.iter().map(entry).collect::<Result<_, _>>())
                .transpose()?,
            crl_extensions: Some(vec![
                extension::authority_key_identifier(&self.key_id)?,
                extension::crl_number(number)?,
            ]),
        };
        Ok(list.to_der()?)
    }

    /// Fails if the profile or the CA's certificate does not allow the order.
    fn check(&self, order: &Order<'_>) -> Result<(), Error> {
        let CertificateProfile { name: profile, ca: is_authority, .. } = order.profile;
        let refused = |text: String| Err(Error::Refused(text));
        let most_days = order.profile.most_days(at(now())?);
        if order.days.is_some_and(|days| days > most_days) {
            return refused(format!(
                "the profile {profile} allows at most {most_days} days; internal-server is for the servers of a private \
                network, and a file of --profiles has profiles of your own"
            ));
        }
        let mut types = order.holder.names.iter().map(name::type_of);
        if let Some(wrong) = types.find(|kind| !order.profile.has_names(kind)) {
            return refused(format!("the profile {profile} has no names of the type {wrong}"));
        }
        if order.profile.needs_name && order.holder.names.is_empty() {
            return refused(format!("a certificate of the profile {profile} needs a name: --san dns:NAME"));
        }
        if order.holder.names.is_empty() && order.holder.subject.0.is_empty() {
            return refused("a certificate needs a subject or a name".to_owned());
        }
        if *is_authority {
            if order.holder.subject.0.is_empty() {
                return refused("a CA needs a subject".to_owned());
            }
        } else if order.path_length != 0 || !order.permitted.is_empty() || !order.excluded.is_empty() {
            return refused(format!("only the profile sub-ca has constraints, not {profile}"));
        }
        name::check(&order.holder.subject, &order.holder.names)?;
        order.profile.check_key(&SubjectPublicKeyInfoOwned::from_der(order.public_key)?)?;
        let budget = Cell::new(name::COMPARISONS);
        for (above, ca) in self.path().enumerate() {
            // A chain of names that are equal has no end that a verifier finds.
            if name::same(&order.holder.subject, &ca.subject) {
                return refused(format!("{} is the subject of the CA itself", ca.subject));
            }
            let limit = ca.get::<BasicConstraints>()?.and_then(|(_, basic)| basic.path_len_constraint);
            let below = usize::from(order.path_length) + above;
            if let Some(limit) = limit.filter(|limit| *is_authority && below >= usize::from(*limit)) {
                return refused(format!("the certificate of {} allows {limit} CAs below it", ca.subject));
            }
            let Some((_, constraints)) = ca.get::<NameConstraints>()? else { continue };
            if let Some(name) =
                name::excluded(&constraints, &order.holder.subject, &order.holder.names, &budget)
            {
                return refused(format!("the name constraints of {} exclude {name}", ca.subject));
            }
        }
        Ok(())
    }

    /// Returns the end of the certificate in seconds since 1970. Fails if the certificate would
    /// outlive that of the CA.
    fn end(&self, order: &Order<'_>, now: u64) -> Result<u64, Error> {
        // RFC 5280, 4.1.2.5: the last second belongs to the lifetime.
        let end = |days| now + u64::from(days) * DAY - 1;
        let ends = |ca: &TbsCertificate| ca.validity.not_after.to_unix_duration().as_secs();
        let first = self.path().min_by_key(|ca| ends(ca)).expect("the CA itself");
        let last = ends(first);
        let start = self.path().map(|ca| ca.validity.not_before.to_unix_duration().as_secs()).max();
        if start > Some(now) {
            return Err(Error::Refused("a certificate of the CA or above it is not valid yet".to_owned()));
        }
        if last <= now || order.days.is_some_and(|days| end(days) > last) {
            let ending = first.validity.not_after.to_date_time();
            return Err(Error::Refused(format!("the certificate of {} ends at {ending}", first.subject)));
        }
        let usual = order.profile.days.min(order.profile.most_days(at(now)?));
        if usual == 0 {
            return Err(Error::Refused(format!("the profile {} allows no day today", order.profile.name)));
        }
        Ok(order.days.map_or(end(usual).min(last), end))
    }
}

/// Returns what no other CA has: the subject and the public key of its certificate, in DER.
pub fn identity(certificate: &[u8]) -> Result<Vec<u8>, Error> {
    let tbs = Certificate::from_der(certificate)?.tbs_certificate;
    Ok([tbs.subject.to_der()?, tbs.subject_public_key_info.to_der()?].concat())
}

/// Returns a serial number with these bytes in DER. Other CAs have negative and long ones.
fn serial_number(bytes: &[u8]) -> der::Result<SerialNumber> {
    SerialNumber::from_der(&AnyRef::new(Tag::Integer, bytes)?.to_der()?)
}

fn address(url: &str) -> Result<GeneralName, Error> {
    let is_address = name::is_uri(url) && url.contains("://");
    let text = Ia5String::new(url).ok().filter(|_| is_address);
    let wrong = || Error::Usage(format!("{url:?} is not an address; write it as http://HOST/PATH"));
    text.map(GeneralName::UniformResourceIdentifier).ok_or_else(wrong)
}

/// Returns the seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn at(seconds: u64) -> der::Result<DateTime> {
    DateTime::from_unix_duration(Duration::from_secs(seconds))
}
