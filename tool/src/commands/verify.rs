//! `cert verify`: validates the path from a certificate to a root. The crate `webpki` does it, for
//! the rules of RFC 5280 that it implements; it refuses what it does not know. `rules` has those
//! that it leaves out. docs/paths.md has the results for public test suites.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use jeton_client::text::shown;
use jeton_tool::formats::certificate::summary;
use jeton_tool::register::now;
use jeton_tool::{Cause, Error, formats};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use serde::Serialize;
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, VerifiedPath, anchor_from_trusted_cert};

use super::authority::read_certificates;
use super::out;
use super::pin::warn;
use revocation::{Crl, Known};
use rules::{Broken, PURPOSES};

mod revocation;
mod rules;

/// Validate the path from a certificate to a root (RFC 5280, 6).
///
/// The keys and signatures are RSA from 2048 bits, P-256, P-384, P-521 and Ed25519. A certificate
/// with a critical extension that this command does not know, such as policy constraints, is not
/// valid. A root counts like the other certificates: it has not ended, for example, and its
/// constraints apply. Exit status: 1 if the certificate is not valid.
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
    /// CRLs. With one, each certificate of the path below the root needs a CRL that has not ended.
    /// Of several ones of a CA with the same scope, that with the highest number counts. May be
    /// repeated.
    #[arg(long, value_name = "FILE")]
    crl: Vec<PathBuf>,
    /// What the certificate is for.
    #[arg(long, default_value = "server-auth", value_parser = PossibleValuesParser::new(PURPOSES.map(|purpose| purpose.name)))]
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
        crls: &[Known],
        host: Option<&ServerName<'_>>,
        broken: &Cell<Option<Broken>>,
    ) -> Result<Vec<String>, webpki::Error> {
        let anchors = roots.iter().map(anchor_from_trusted_cert).collect::<Result<Vec<_>, _>>()?;
        let purpose = PURPOSES.iter().find(|purpose| purpose.name == self.purpose);
        let purpose = purpose.expect("clap accepts only the names of the table");
        let time = Duration::from_secs(self.at.unwrap_or(now().unsigned_abs()));
        let certificate = EndEntityCert::try_from(leaf)?;
        // Several roots may have the same name and the same key.
        let roots_of = |path: &VerifiedPath<'_>| -> Vec<_> {
            roots.iter().zip(&anchors).filter(|(_, one)| *one == path.anchor()).map(|(der, _)| der).collect()
        };
        let check_below = |root: &CertificateDer<'_>, path: &VerifiedPath<'_>| {
            let unknown = webpki::Error::UnsupportedCriticalExtension;
            if EndEntityCert::try_from(root).is_err_and(|error| error == unknown) {
                return Err(Broken::Unknown);
            }
            let between: Vec<_> = path.intermediate_certificates().map(|ca| ca.der()).collect();
            let all = [root].into_iter().chain(between.iter().rev()).chain([leaf]);
            let all = rules::parse(&all.map(AsRef::as_ref).collect::<Vec<_>>())?;
            rules::check(&all, purpose, time)?;
            if self.crl.is_empty() { Ok(()) } else { revocation::check(&all, crls, time) }
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
            ALL_VERIFICATION_ALGS,
            &anchors,
            between,
            UnixTime::since_unix_epoch(time),
            KeyUsage::required_if_present(purpose.oid.as_bytes()),
            None,
            Some(&check),
        )?;
        broken.set(None);
        if let Some(host) = host {
            certificate.verify_is_valid_for_subject_name(host)?;
        }
        let mut path = vec![subject(leaf)];
        path.extend(verified.intermediate_certificates().map(|cert| subject(&cert.der())));
        path.extend(roots_of(&verified).first().map(|der| subject(der)));
        Ok(path)
    }
}

/// Returns the CRLs whose form is known. Another one, such as a delta CRL, may revoke more than
/// they do. Without all CRLs of a CA, the status of its certificates is unknown.
fn usable(mut crls: Vec<Crl>) -> Vec<Known> {
    let unknown: Vec<_> =
        crls.iter().filter(|crl| crl.known.is_err()).map(|crl| crl.issuer.clone()).collect();
    crls.retain(|crl| !unknown.contains(&crl.issuer));
    crls.into_iter().filter_map(|crl| crl.known.ok()).collect()
}

/// Reads the CRLs of a file. Warns about those of an unknown form.
fn crls_of(path: &Path) -> Result<Vec<Crl>, Error> {
    let file = out::input(path, out::MESSAGE)?;
    let refused = |source| Error::KeyFile { path: path.to_owned(), source };
    let all = formats::contents(&file, &["X509 CRL"]).map_err(refused)?;
    if all.is_empty() {
        return Err(Cause::Damaged.error(format!("{} has no CRL", path.display())));
    }
    let all = all.iter().map(|der| Crl::parse(der)).collect::<Result<Vec<_>, _>>()?;
    for unknown in all.iter().filter_map(|crl| crl.known.as_ref().err()) {
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
        Wrong::CertExpired { .. } => reason_of_rule(&Broken::Late),
        Wrong::CertNotValidYet { .. } => reason_of_rule(&Broken::Early),
        Wrong::NameConstraintViolation => reason_of_rule(&Broken::Name),
        Wrong::CaUsedAsEndEntity => "it is the certificate of a CA",
        Wrong::EndEntityUsedAsCa => reason_of_rule(&Broken::NotCa),
        Wrong::UnsupportedCriticalExtension => reason_of_rule(&Broken::Unknown),
        Wrong::RequiredEkuNotFoundContext(_) => reason_of_rule(&Broken::Purpose),
        Wrong::CertNotValidForName(_) => "it has not this name",
        Wrong::PathLenConstraintViolated => reason_of_rule(&Broken::Length),
        Wrong::InvalidSignatureForPublicKey => "the signature of a certificate is wrong",
        Wrong::UnsupportedSignatureAlgorithmContext(_)
        | Wrong::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
            "a signature has an algorithm that is not supported"
        }
        Wrong::UnsupportedDeltaCrl => "delta CRLs are not supported",
        Wrong::UnsupportedIndirectCrl => "indirect CRLs are not supported",
        Wrong::UnsupportedRevocationReasonsPartitioning => "CRLs for some reasons are not supported",
        Wrong::UnsupportedCrlIssuingDistributionPoint => {
            "CRLs whose distribution point has no full name are not supported"
        }
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
        Broken::Unknown => "a critical extension is not known",
        Broken::Early => "a certificate of the path is not valid yet",
        Broken::Late => "a certificate of the path has ended",
        Broken::Length => "a CA may not have this number of CAs below it",
        Broken::Name => "the name constraints of a CA exclude a name",
        Broken::Purpose => "it is not for this purpose",
        Broken::Usage => "its key usage does not allow this purpose",
        Broken::Key => "a key of the path is no secret",
        Broken::Revoked => "a certificate of the path is revoked",
        Broken::NoCrl => "no CRL says whether a certificate of the path is revoked",
        Broken::CrlEnded => "a CRL has ended",
    }
}
