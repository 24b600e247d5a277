//! `cert verify`: validates the path from a certificate to a root. The crate `webpki` does it, for
//! the rules of RFC 5280 that it implements; it refuses what it does not know. `rules` has those
//! that it leaves out. docs/paths.md has the results for public test suites.

use std::cell::Cell;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use der::asn1::AnyRef;
use der::{Decode, Header, SliceReader};
use jeton_client::text::shown;
use jeton_tool::formats::certificate::summary;
use jeton_tool::register::now;
use jeton_tool::{Cause, Error, formats};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde::Serialize;
use webpki::{
    ALL_VERIFICATION_ALGS, CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage,
    OwnedCertRevocationList, RevocationOptionsBuilder, VerifiedPath, anchor_from_trusted_cert,
};
use x509_cert::time::Time;

use super::authority::read_certificates;
use super::out;
use super::pin::warn;
use rules::Broken;

mod rules;

/// The purposes: 1.3.6.1.5.5.7.3 and a number (RFC 5280, 4.2.1.12).
const PURPOSES: [(&str, &[u8]); 6] = [
    ("server-auth", b"\x2b\x06\x01\x05\x05\x07\x03\x01"),
    ("client-auth", b"\x2b\x06\x01\x05\x05\x07\x03\x02"),
    ("code-signing", b"\x2b\x06\x01\x05\x05\x07\x03\x03"),
    ("email-protection", b"\x2b\x06\x01\x05\x05\x07\x03\x04"),
    ("time-stamping", b"\x2b\x06\x01\x05\x05\x07\x03\x08"),
    ("ocsp-signing", b"\x2b\x06\x01\x05\x05\x07\x03\x09"),
];

/// Validate the path from a certificate to a root (RFC 5280, 6).
///
/// The keys and signatures are RSA from 2048 bits, P-256, P-384, P-521 and Ed25519. A certificate
/// with a critical extension that this command does not know, such as policy constraints, is not
/// valid. Exit status: 1 if the certificate is not valid.
#[derive(Args)]
pub struct Verify {
    /// The file with the certificate, and after it perhaps those of CAs.
    file: PathBuf,
    /// The certificates of the roots.
    #[arg(long, value_name = "FILE")]
    roots: PathBuf,
    /// More certificates of CAs between them. May be repeated.
    #[arg(long, value_name = "FILE")]
    untrusted: Vec<PathBuf>,
    /// CRLs. With one, each certificate of the path needs a CRL that has not ended. May be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    crl: Vec<PathBuf>,
    /// What the certificate is for.
    #[arg(long, default_value = "server-auth", value_parser = PossibleValuesParser::new(PURPOSES.map(|(name, _)| name)))]
    purpose: String,
    /// The certificate also has this host name or address.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The time of the validation in seconds since 1970, instead of now.
    #[arg(long, value_name = "SECONDS")]
    at: Option<u64>,
}

/// The result in `--json`.
#[derive(Serialize)]
struct Row {
    valid: bool,
    /// The subjects, from the certificate to the root.
    path: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Verify {
    pub fn run(self) -> Result<ExitCode, Error> {
        let host = self.host.as_deref().map(ServerName::try_from).transpose();
        let host = host.map_err(|_| Error::Usage("--host is no host name and no address".to_owned()))?;
        let read =
            |path: &Path| Ok::<_, Error>(read_certificates(path)?.into_iter().map(CertificateDer::from));
        let mut own: Vec<_> = read(&self.file)?.collect();
        if own.is_empty() {
            return Err(Cause::NotFound.error(format!("{} has no certificate", self.file.display())));
        }
        let leaf = own.remove(0);
        for path in &self.untrusted {
            own.extend(read(path)?);
        }
        let roots: Vec<_> = read(&self.roots)?.collect();
        let crls = self.crl.iter().map(|path| crls_of(path)).collect::<Result<Vec<_>, Error>>()?;
        let crls = usable(crls.into_iter().flatten().collect());
        // A path that breaks only the rules says more than the paths that the crate refuses.
        let broken = Cell::new(None);
        let (path, reason) = match self.path(&leaf, &own, &roots, &crls, host.as_ref(), &broken) {
            Ok(path) => (path, None),
            Err(error) => {
                let reason =
                    broken.take().map_or_else(|| reason(&error), |broken| reason_of_rule(&broken).to_owned());
                (vec![subject(&leaf)], Some(reason))
            }
        };
        let text = match &reason {
            None => format!("valid: {}", shown(&path.join(" < "))),
            Some(reason) => format!("not valid: {}: {reason}", shown(&path[0])),
        };
        let valid = reason.is_none();
        out::result(&Row { valid, path, reason }, text)?;
        Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn path(
        &self,
        leaf: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        roots: &[CertificateDer<'_>],
        crls: &[CertRevocationList<'_>],
        host: Option<&ServerName<'_>>,
        broken: &Cell<Option<Broken>>,
    ) -> Result<Vec<String>, webpki::Error> {
        let anchors = roots.iter().map(anchor_from_trusted_cert).collect::<Result<Vec<_>, _>>()?;
        let crls: Vec<_> = crls.iter().collect();
        let revocation = match RevocationOptionsBuilder::new(&crls) {
            Ok(all) => Some(all.with_expiration_policy(ExpirationPolicy::Enforce).build()),
            Err(_) if self.crl.is_empty() => None,
            Err(_) => return Err(webpki::Error::UnknownRevocationStatus),
        };
        let purpose = PURPOSES.iter().find(|(name, _)| *name == self.purpose);
        let (_, oid) = purpose.expect("clap accepts only the names of the table");
        let time = self.at.unwrap_or(now().unsigned_abs());
        let certificate = EndEntityCert::try_from(leaf)?;
        let root_of = |path: &VerifiedPath<'_>| {
            roots.iter().zip(&anchors).find(|(_, anchor)| *anchor == path.anchor()).map(|(der, _)| der)
        };
        let check = |path: &VerifiedPath<'_>| {
            let between: Vec<_> = path.intermediate_certificates().map(|ca| ca.der()).collect();
            let all = root_of(path).into_iter().chain(between.iter().rev()).chain([leaf]);
            rules::check(&all.map(AsRef::as_ref).collect::<Vec<_>>()).map_err(|rule| {
                broken.set(Some(rule));
                webpki::Error::UnknownIssuer
            })
        };
        let verified = certificate.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            between,
            UnixTime::since_unix_epoch(Duration::from_secs(time)),
            KeyUsage::required_if_present(oid),
            revocation,
            Some(&check),
        )?;
        broken.set(None);
        if let Some(host) = host {
            certificate.verify_is_valid_for_subject_name(host)?;
        }
        let mut path = vec![subject(leaf)];
        path.extend(verified.intermediate_certificates().map(|cert| subject(&cert.der())));
        path.extend(root_of(&verified).map(|der| subject(der)));
        Ok(path)
    }
}

/// A CRL of a file.
struct Crl {
    /// The contents of its name.
    issuer: Vec<u8>,
    /// When the CA made it, since 1970.
    made: Duration,
    list: Result<CertRevocationList<'static>, webpki::Error>,
}

impl Crl {
    fn parse(der: &[u8]) -> Result<Self, der::Error> {
        let mut fields = SliceReader::new(der)?;
        // The list, and in it the part that is signed (RFC 5280, 5.1).
        Header::decode(&mut fields)?;
        Header::decode(&mut fields)?;
        let _version = Option::<u8>::decode(&mut fields)?;
        let _algorithm = AnyRef::decode(&mut fields)?;
        Ok(Self {
            issuer: AnyRef::decode(&mut fields)?.value().to_vec(),
            made: Time::decode(&mut fields)?.to_unix_duration(),
            list: OwnedCertRevocationList::from_der(der).map(Into::into),
        })
    }
}

/// Returns the CRLs that the crate can use, the newest first, because it asks only one of a CA. One
/// that it does not know, such as a delta CRL, may revoke more than another CRL of this CA. Without
/// all CRLs of the CA, the status of its certificates is unknown.
fn usable(mut crls: Vec<Crl>) -> Vec<CertRevocationList<'static>> {
    crls.sort_by_key(|crl| Reverse(crl.made));
    let unknown: Vec<_> = crls.iter().filter(|crl| crl.list.is_err()).map(|crl| crl.issuer.clone()).collect();
    crls.retain(|crl| !unknown.contains(&crl.issuer));
    crls.into_iter().filter_map(|crl| crl.list.ok()).collect()
}

/// Reads the CRLs of a file. Warns about those that the crate does not know.
fn crls_of(path: &Path) -> Result<Vec<Crl>, Error> {
    let file = out::input(path, out::MESSAGE)?;
    let refused = |source| Error::KeyFile { path: path.to_owned(), source };
    let all = formats::contents(&file, &["X509 CRL"]).map_err(refused)?;
    if all.is_empty() {
        return Err(Cause::Damaged.error(format!("{} has no CRL", path.display())));
    }
    let all = all.iter().map(|der| Crl::parse(der)).collect::<Result<Vec<_>, _>>()?;
    for unknown in all.iter().filter_map(|crl| crl.list.as_ref().err()) {
        warn(&format!("{}: the CRLs of a CA are left out: {}", path.display(), reason(unknown)));
    }
    Ok(all)
}

fn subject(der: &[u8]) -> String {
    summary(der).map(|summary| summary.subject).unwrap_or_default()
}

/// Says why a certificate is not valid, without the types of the crate.
fn reason(error: &webpki::Error) -> String {
    use webpki::Error as Wrong;
    let text = match error {
        Wrong::UnknownIssuer => "no path leads to one of the roots",
        Wrong::CertExpired { .. } => "a certificate of the path has ended",
        Wrong::CertNotValidYet { .. } => "a certificate of the path is not valid yet",
        Wrong::CertRevoked => "a certificate of the path is revoked",
        Wrong::UnknownRevocationStatus => "no CRL says whether a certificate of the path is revoked",
        Wrong::CrlExpired { .. } => "a CRL has ended",
        Wrong::NameConstraintViolation => "the name constraints of a CA exclude a name",
        Wrong::CaUsedAsEndEntity => "it is the certificate of a CA",
        Wrong::EndEntityUsedAsCa => reason_of_rule(&Broken::NotCa),
        Wrong::UnsupportedCriticalExtension => "a critical extension is not known",
        Wrong::RequiredEkuNotFoundContext(_) => "it is not for this purpose",
        Wrong::CertNotValidForName(_) => "it has not this name",
        Wrong::PathLenConstraintViolated => "a CA may not have this number of CAs below it",
        Wrong::InvalidSignatureForPublicKey => "the signature of a certificate is wrong",
        Wrong::InvalidCrlSignatureForPublicKey => "the signature of a CRL is wrong",
        Wrong::UnsupportedSignatureAlgorithmContext(_)
        | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext(_)
        | Wrong::UnsupportedCrlSignatureAlgorithmContext(_)
        | Wrong::UnsupportedCrlSignatureAlgorithmForPublicKeyContext(_) => {
            "a signature has an algorithm that is not supported"
        }
        Wrong::UnsupportedDeltaCrl => "delta CRLs are not supported",
        Wrong::UnsupportedIndirectCrl => "indirect CRLs are not supported",
        Wrong::UnsupportedRevocationReasonsPartitioning => "CRLs for some reasons are not supported",
        Wrong::UnsupportedCrlIssuingDistributionPoint => "CRLs for other points than URIs are not supported",
        Wrong::BadDer | Wrong::BadDerTime | Wrong::TrailingData(_) => reason_of_rule(&Broken::Malformed),
        Wrong::UnsupportedCertVersion => "a certificate is not of version 3",
        // The crate writes the other errors as the names of its variants.
        other => return format!("{}: {other}", reason_of_rule(&Broken::Malformed)),
    };
    text.to_owned()
}

fn reason_of_rule(broken: &Broken) -> &'static str {
    match broken {
        Broken::NotCa => "a certificate that signed one is not that of a CA",
        Broken::Policies => "no policy is valid for the whole path, and a CA requires one",
        Broken::Malformed => "a certificate or a CRL is malformed",
    }
}
