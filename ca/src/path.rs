//! Validates the path from a certificate to a root (RFC 5280, 6). The crate `webpki` does it, for
//! the rules of RFC 5280 that it implements; it refuses what it does not know. `rules` has those
//! that it leaves out. docs/paths.md has the results for public test suites.

mod revocation;
mod rules;

use std::cell::Cell;
use std::path::Path;
use std::time::Duration;

use jeton_client::Attribute;
use jeton_formats::certificate::summary;
use jeton_pki::software::Algorithms;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath, anchor_from_trusted_cert};
use x509_cert::TbsCertificate;

use crate::{Cause, Error, Rules, file, name};
use revocation::{Crl, Known};
use rules::{Broken, Shared};

pub use rules::{PURPOSES, Purpose};

/// What a path must fulfil.
pub struct Validation {
    purpose: &'static Purpose,
    time: Duration,
    host: Option<ServerName<'static>>,
    /// With CRLs, each certificate below the root needs one.
    crls: Option<Vec<Known>>,
    check_key: fn(&[Attribute]) -> Result<Vec<u8>, String>,
    algorithms: Algorithms,
}

impl Validation {
    /// Begins with a purpose, a time in seconds since 1970, and a host that the certificate has.
    /// Fails if that is no host name and no address.
    pub fn new(
        purpose: &'static Purpose,
        time: u64,
        host: Option<&str>,
        rules: Rules,
    ) -> Result<Self, Error> {
        let host = host.map(|host| ServerName::try_from(host.to_owned())).transpose();
        let host = host.map_err(|_| Error::Usage("--host is no host name and no address".to_owned()))?;
        let time = Duration::from_secs(time);
        let algorithms = Algorithms::new(rules.is_signed);
        Ok(Self { purpose, time, host, crls: None, check_key: rules.check_key, algorithms })
    }

    /// Reads the CRLs of these files. `warn` gets what is said of those of an unknown form: another
    /// one of their CA does not count either, because they may revoke more than it does.
    pub fn read_crls(&mut self, paths: &[impl AsRef<Path>], warn: impl Fn(&str)) -> Result<(), Error> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut all = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            let bytes = file::input(path, file::LONGEST)?;
            let structures = file::structures(path, &bytes, &["X509 CRL"])?;
            if structures.is_empty() {
                return Err(Cause::Damaged.error(format!("{} has no CRL", path.display())));
            }
            let crls = structures.iter().map(|der| Crl::parse(der)).collect::<Result<Vec<_>, _>>();
            let crls = crls.map_err(Error::damaged)?;
            for unknown in crls.iter().filter_map(|crl| crl.known.as_ref().err()) {
                warn(&format!("{}: the CRLs of a CA are left out: {}", path.display(), reason(unknown)));
            }
            all.extend(crls);
        }
        self.crls = Some(usable(all));
        Ok(())
    }

    /// Validates a certificate. `between` has certificates of CAs. Returns the subjects from the
    /// certificate to the root, or why it is not valid.
    pub fn run(&self, leaf: &[u8], between: &[Vec<u8>], roots: &[Vec<u8>]) -> Result<Vec<String>, String> {
        let all = |ders: &[Vec<u8>]| -> Vec<_> { ders.iter().cloned().map(CertificateDer::from).collect() };
        // A path that breaks only the rules says more than the paths that the crate refuses.
        let broken = Cell::new(None);
        self.path(&CertificateDer::from(leaf), &all(between), &all(roots), &broken).map_err(|error| {
            let cause = || self.cause(&error, leaf, &[between, roots].concat());
            broken.take().map_or_else(cause, |broken| reason_of_rule(&broken))
        })
    }

    /// Says why the crate refuses a certificate. It does not tell a short RSA key, or one of a type
    /// that the program does not support, from a wrong signature, and refuses each name of a type
    /// whose constraints it does not know.
    fn cause(&self, error: &webpki::Error, leaf: &[u8], cas: &[Vec<u8>]) -> String {
        let leaf = rules::parse(&[leaf]).unwrap_or_default();
        let cas: Vec<_> = cas.iter().filter_map(|der| rules::parse(&[der]).ok()).flatten().collect();
        let above = above(&leaf, &cas);
        match error {
            webpki::Error::InvalidSignatureForPublicKey => {
                let shared = Shared::new(self.check_key);
                let refused = above.iter().find_map(|ca| shared.expect_key(ca).err());
                refused.map_or_else(|| reason(error), |broken| reason_of_rule(&broken))
            }
            webpki::Error::NameConstraintViolation
                if !leaf.is_empty() && !rules::exclude_a_name(&above, &leaf) =>
            {
                "a CA has name constraints of a type that is not supported: email, uri or dn".to_owned()
            }
            _ => reason(error),
        }
    }

    fn path(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        roots: &[CertificateDer<'_>],
        broken: &Cell<Option<Broken>>,
    ) -> Result<Vec<String>, webpki::Error> {
        let anchors = roots.iter().map(anchor_from_trusted_cert).collect::<Result<Vec<_>, _>>()?;
        let (purpose, time) = (self.purpose, self.time);
        let certificate = EndEntityCert::try_from(leaf)?;
        // Several roots may have the same name and the same key.
        let roots_of = |path: &VerifiedPath<'_>| -> Vec<_> {
            roots.iter().zip(&anchors).filter(|(_, one)| *one == path.anchor()).map(|(der, _)| der).collect()
        };
        let shared = Shared::new(self.check_key);
        let algorithms = self.algorithms.all();
        let check_below = |root: &CertificateDer<'_>, path: &VerifiedPath<'_>| {
            let unknown = webpki::Error::UnsupportedCriticalExtension;
            if EndEntityCert::try_from(root).is_err_and(|error| error == unknown) {
                return Err(Broken::Unknown);
            }
            let between: Vec<_> = path.intermediate_certificates().map(|ca| ca.der()).collect();
            let all = [root].into_iter().chain(between.iter().rev()).chain([leaf]);
            let all = rules::parse(&all.map(AsRef::as_ref).collect::<Vec<_>>())?;
            rules::check(&all, purpose, time, &shared)?;
            match &self.crls {
                Some(crls) => revocation::check(&all, crls, time, &self.algorithms),
                None => Ok(()),
            }
        };
        let check = |path: &VerifiedPath<'_>| {
            let mut wrong = None;
            for root in roots_of(path) {
                match check_below(root, path) {
                    Ok(()) => return Ok(()),
                    Err(rule) => wrong = Some(rule),
                }
            }
            broken.set(wrong);
            Err(webpki::Error::UnknownIssuer)
        };
        let verified = certificate.verify_for_usage(
            &algorithms,
            &anchors,
            between,
            UnixTime::since_unix_epoch(time),
            KeyUsage::required_if_present(purpose.oid.as_bytes()),
            None,
            Some(&check),
        )?;
        broken.set(None);
        if let Some(host) = &self.host {
            certificate.verify_is_valid_for_subject_name(host)?;
        }
        let mut path = vec![subject(leaf)];
        path.extend(verified.intermediate_certificates().map(|cert| subject(&cert.der())));
        path.extend(roots_of(&verified).first().map(|der| subject(der)));
        Ok(path)
    }
}

/// Returns the CAs that may be above a certificate, by their names.
fn above<'a>(leaf: &'a [TbsCertificate], cas: &'a [TbsCertificate]) -> Vec<&'a TbsCertificate> {
    let mut left: Vec<_> = cas.iter().collect();
    let mut found: Vec<&TbsCertificate> = Vec::new();
    let mut issuers: Vec<_> = leaf.iter().map(|one| &one.issuer).collect();
    while let Some(issuer) = issuers.pop() {
        let (fitting, others) = left.into_iter().partition::<Vec<_>, _>(|ca| ca.subject == *issuer);
        issuers.extend(fitting.iter().map(|ca| &ca.issuer));
        found.extend(fitting);
        left = others;
    }
    found
}

/// Returns the CRLs whose form is known. Another one, such as a delta CRL, may revoke more than
/// they do. Without all CRLs of a CA, the status of its certificates is unknown.
fn usable(mut crls: Vec<Crl>) -> Vec<Known> {
    let unknown: Vec<_> =
        crls.iter().filter(|crl| crl.known.is_err()).map(|crl| crl.issuer.clone()).collect();
    crls.retain(|crl| !unknown.iter().any(|issuer| name::same(issuer, &crl.issuer)));
    crls.into_iter().filter_map(|crl| crl.known.ok()).collect()
}

/// Returns the subject of a certificate, or nothing if it cannot be read.
pub fn subject(der: &[u8]) -> String {
    summary(der).map(|summary| summary.subject).unwrap_or_default()
}

/// Says why a certificate is not valid, without the types of the crate.
fn reason(error: &webpki::Error) -> String {
    use webpki::Error as Wrong;
    let text = match error {
        Wrong::UnknownIssuer => "no path leads to one of the roots",
        Wrong::CertExpired { .. } => return reason_of_rule(&Broken::Late),
        Wrong::CertNotValidYet { .. } => return reason_of_rule(&Broken::Early),
        Wrong::NameConstraintViolation => return reason_of_rule(&Broken::Name),
        Wrong::CaUsedAsEndEntity => "it is the certificate of a CA",
        Wrong::EndEntityUsedAsCa => return reason_of_rule(&Broken::NotCa),
        Wrong::UnsupportedCriticalExtension => return reason_of_rule(&Broken::Unknown),
        Wrong::RequiredEkuNotFoundContext(_) => return reason_of_rule(&Broken::Purpose),
        Wrong::CertNotValidForName(_) => "it has not this name",
        Wrong::PathLenConstraintViolated => return reason_of_rule(&Broken::Length),
        // Another key has signed, or the certificate was changed: nothing shows which of both.
        Wrong::InvalidSignatureForPublicKey => {
            "no certificate with the name of a CA has the key that signed, or a signature is wrong"
        }
        Wrong::UnsupportedSignatureAlgorithmContext(_)
        | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            "a signature has an algorithm that is not supported"
        }
        Wrong::MaximumPathDepthExceeded => {
            "no path with at most 6 CAs between the certificate and a root was found"
        }
        Wrong::MaximumPathBuildCallsExceeded | Wrong::MaximumSignatureChecksExceeded => {
            "the certificates of CAs allow too many paths; leave some out"
        }
        Wrong::MaximumNameConstraintComparisonsExceeded => {
            "the name constraints of a CA are too many to compare"
        }
        Wrong::UnsupportedDeltaCrl => "delta CRLs are not supported",
        Wrong::UnsupportedIndirectCrl => "indirect CRLs are not supported",
        Wrong::UnsupportedRevocationReasonsPartitioning => "CRLs for some reasons are not supported",
        Wrong::UnsupportedCrlIssuingDistributionPoint => {
            "CRLs whose distribution point has no full name are not supported"
        }
        Wrong::BadDer | Wrong::BadDerTime | Wrong::TrailingData(_) => {
            return reason_of_rule(&Broken::Malformed);
        }
        Wrong::UnsupportedCertVersion => "a certificate is not of version 3",
        // The crate writes the other errors as the names of its variants.
        other => return format!("{}: {other}", reason_of_rule(&Broken::Malformed)),
    };
    text.to_owned()
}

fn reason_of_rule(broken: &Broken) -> String {
    let text = match broken {
        Broken::NotCa => "a certificate that signed one is not that of a CA",
        Broken::Policies => "no policy is valid for the whole path, and a CA requires one",
        Broken::Malformed => "a certificate or a CRL is malformed",
        Broken::Unknown => "a critical extension is not known",
        Broken::Early => "a certificate of the path is not valid yet",
        Broken::Late => "a certificate of the path has ended",
        Broken::Length => "a CA may not have this number of CAs below it",
        Broken::Name => "the name constraints of a CA exclude a name",
        Broken::Purpose => "it is not for this purpose",
        Broken::Usage => "its key usage does not allow this purpose",
        Broken::Key(text) => text,
        Broken::Revoked => "a certificate of the path is revoked",
        Broken::NoCrl => "no CRL says whether a certificate of the path is revoked",
        Broken::CrlEnded => "a CRL has ended",
    };
    text.to_owned()
}
