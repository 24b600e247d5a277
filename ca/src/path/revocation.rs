//! Whether a CRL revokes a certificate of a path (RFC 5280, 6.3.3). The crate `webpki` asks only
//! the first CRL of a CA that fits. Another one may be newer, or have another scope.

use std::time::Duration;

use der::asn1::{AnyRef, Uint};
use der::oid::AssociatedOid;
use der::oid::db::rfc5280::ID_CE_ISSUING_DISTRIBUTION_POINT;
use der::{Decode, Encode, Header, Reader, SliceReader};
use jeton_pki::software::Algorithms;
use webpki::OwnedCertRevocationList;
use x509_cert::TbsCertificate;
use x509_cert::crl::CertificateList;
use x509_cert::ext::pkix::crl::dp::IssuingDistributionPoint;
use x509_cert::ext::pkix::name::DistributionPointName;
use x509_cert::ext::pkix::{CrlDistributionPoints, CrlNumber, KeyUsage};
use x509_cert::name::Name;

use super::rules::{Broken, get};
use crate::name;

/// A CRL of a file.
pub struct Crl {
    pub issuer: Name,
    pub known: Result<Known, webpki::Error>,
}

/// A CRL whose form is known.
pub struct Known {
    list: CertificateList,
    /// The part that is signed.
    signed: Vec<u8>,
    /// The contents of the identifier of the algorithm of the signature.
    algorithm: Vec<u8>,
    number: Option<Uint>,
    /// The extension with its scope.
    scope: Option<Vec<u8>>,
}

impl Crl {
    /// Reads a CRL. The crate decides whether its form is known. That of a delta CRL is not.
    pub fn parse(der: &[u8]) -> Result<Self, der::Error> {
        let mut fields = SliceReader::new(der)?;
        // The list, and in it the part that is signed (RFC 5280, 5.1).
        Header::decode(&mut fields)?;
        Header::decode(&mut fields)?;
        let _version = Option::<u8>::decode(&mut fields)?;
        let _algorithm = AnyRef::decode(&mut fields)?;
        Ok(Self {
            issuer: Name::decode(&mut fields)?,
            known: OwnedCertRevocationList::from_der(der)
                .and_then(|_| Known::parse(der).map_err(|_| webpki::Error::BadDer)),
        })
    }
}

impl Known {
    fn parse(der: &[u8]) -> Result<Self, der::Error> {
        let mut fields = SliceReader::new(der)?;
        Header::decode(&mut fields)?;
        let signed = fields.tlv_bytes()?.to_vec();
        let algorithm = AnyRef::decode(&mut fields)?.value().to_vec();
        let list = CertificateList::from_der(der)?;
        let extensions = || list.tbs_cert_list.crl_extensions.iter().flatten();
        let value =
            |oid| extensions().find(|one| one.extn_id == oid).map(|one| one.extn_value.as_bytes().to_vec());
        let number = value(CrlNumber::OID).map(|number| CrlNumber::from_der(&number)).transpose()?;
        let scope = value(ID_CE_ISSUING_DISTRIBUTION_POINT);
        Ok(Self { number: number.map(|number| number.0), scope, signed, algorithm, list })
    }

    fn made(&self) -> Duration {
        self.list.tbs_cert_list.this_update.to_unix_duration()
    }

    /// Returns whether the other CRL replaces this one: it has the same scope, and a higher number
    /// or the same one and a later time. Without a number, only the time counts.
    fn is_replaced_by(&self, other: &Self) -> bool {
        let times = (self.made(), other.made());
        self.scope == other.scope
            && match (&self.number, &other.number) {
                (Some(own), Some(number)) => (own, times.0) < (number, times.1),
                _ => times.0 < times.1,
            }
    }

    fn is_signed_by(&self, ca: &TbsCertificate, algorithms: &Algorithms) -> Result<bool, der::Error> {
        let info = ca.subject_public_key_info.to_der()?;
        let signature = self.list.signature.raw_bytes();
        Ok(algorithms.is_signed(&info, &self.algorithm, &self.signed, signature)? == Some(true))
    }

    /// Returns whether this CRL is one for the certificate: it has the scope of all certificates,
    /// or a distribution point that the certificate names.
    fn covers(&self, certificate: &TbsCertificate, is_ca: bool) -> Result<bool, Broken> {
        let Some(scope) = &self.scope else { return Ok(true) };
        let scope = IssuingDistributionPoint::from_der(scope).map_err(|_| Broken::Malformed)?;
        if is_ca && scope.only_contains_user_certs || !is_ca && scope.only_contains_ca_certs {
            return Ok(false);
        }
        let Some(DistributionPointName::FullName(own)) = scope.distribution_point else { return Ok(false) };
        let points = get::<CrlDistributionPoints>(certificate)?.map(|all| all.0).unwrap_or_default();
        // The crate knows no CRLs for some reasons, or of another issuer.
        let whole = points.into_iter().filter(|one| one.reasons.is_none() && one.crl_issuer.is_none());
        Ok(whole.filter_map(|one| one.distribution_point).any(|name| match name {
            DistributionPointName::FullName(names) => names.iter().any(|name| own.contains(name)),
            DistributionPointName::NameRelativeToCRLIssuer(_) => false,
        }))
    }

    /// Returns whether the list still counts at a time. Each list of a known form has an end.
    fn has_ended(&self, at: Duration) -> bool {
        self.list.tbs_cert_list.next_update.is_none_or(|end| end.to_unix_duration() <= at)
    }

    fn revokes(&self, certificate: &TbsCertificate) -> bool {
        let mut all = self.list.tbs_cert_list.revoked_certificates.iter().flatten();
        all.any(|one| one.serial_number == certificate.serial_number)
    }
}

/// Checks that no certificate of a path is revoked, from the root on. The newest CRL of each scope
/// counts. One from the future, or one with another signature than that of the CA, does not.
pub fn check(
    path: &[TbsCertificate],
    crls: &[Known],
    at: Duration,
    algorithms: &Algorithms,
) -> Result<(), Broken> {
    for (place, pair) in path.windows(2).enumerate() {
        let [ca, certificate] = pair else { return Err(Broken::Malformed) };
        let is_ca = place + 2 < path.len();
        let mut usable = Vec::new();
        let signs = get::<KeyUsage>(ca)?.is_none_or(|usage| usage.crl_sign());
        let is_of_ca =
            |crl: &&Known| signs && name::same(&crl.list.tbs_cert_list.issuer, &certificate.issuer);
        for crl in crls.iter().filter(is_of_ca) {
            if crl.made() <= at
                && crl.covers(certificate, is_ca)?
                && crl.is_signed_by(ca, algorithms).map_err(|_| Broken::Malformed)?
            {
                usable.push(crl);
            }
        }
        let newest: Vec<_> =
            usable.iter().filter(|crl| !usable.iter().any(|other| crl.is_replaced_by(other))).collect();
        if newest.iter().any(|crl| crl.revokes(certificate)) {
            return Err(Broken::Revoked);
        }
        if newest.is_empty() {
            return Err(Broken::NoCrl);
        }
        if newest.iter().any(|crl| crl.has_ended(at)) {
            return Err(Broken::CrlEnded);
        }
    }
    Ok(())
}
