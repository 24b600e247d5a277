//! A client: it makes a key and a certificate request, and verifies the certificate.

use der::{Decode, Encode};
use jeton_pki::Signed;
use jeton_pki::certificate::{Holder, Signer, assemble, request_tbs};
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::Certificate;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::ca::Ca;
use super::load::{Clock, Phase};
use crate::Error;
use crate::algorithm::Algorithm;
use crate::pipeline::{KeyPair, PublicKey};

/// The validity that clients ask for.
const DAYS: u32 = 7;

/// A verified certificate with the times of its phases.
pub(super) struct Issued {
    pub(super) certificate: Vec<u8>,
    pub(super) clock: Clock,
}

/// Orders a certificate and verifies it. Returns `None` if the database of the CA was busy.
pub(super) fn order(ca: &Ca<'_>, algorithm: &Algorithm, serial: u64) -> Result<Option<Issued>, Error> {
    let mut clock = Clock::start();
    let name = format!("host-{serial}.issue.test");
    let (key, request) = request(algorithm, &name, || clock.lap(Phase::Key))?;
    clock.lap(Phase::Request);
    let Some(certificate) = ca.issue(serial, &request, DAYS, &mut clock)? else { return Ok(None) };
    verify(&certificate, &ca.public, &key, &name)?;
    clock.lap(Phase::Verify);
    Ok(Some(Issued { certificate, clock }))
}

/// Makes a key pair and a request for this name. Calls `has_key` between these two steps. Returns
/// the public key and the request in DER.
pub(crate) fn request(
    algorithm: &Algorithm,
    name: &str,
    has_key: impl FnOnce(),
) -> Result<(SubjectPublicKeyInfoOwned, Vec<u8>), Error> {
    let pair = KeyPair::generate(algorithm)?;
    let key = pair.public_key()?;
    has_key();
    let holder = Holder::parse(&format!("CN={name}"), &[format!("dns:{name}")])?;
    let info = key.to_der()?;
    let tbs = request_tbs(&info, &holder)?;
    let request = assemble(&tbs, &Signer::of(&info)?, &pair.sign(&tbs)?)?;
    Ok((key, request))
}

/// Verifies a certificate: the CA's signature, the client's key, and the name.
fn verify(der: &[u8], ca: &PublicKey, key: &SubjectPublicKeyInfoOwned, name: &str) -> Result<(), Error> {
    let wrong = |what: &str| Error::Failed(format!("the certificate for {name}: {what}"));
    let signed = Signed::parse(der)?;
    if !ca.verify(signed.tbs, signed.signature) {
        return Err(wrong("the signature does not verify"));
    }
    let content = Certificate::from_der(der)?.tbs_certificate;
    if content.subject_public_key_info != *key {
        return Err(wrong("it has another key"));
    }
    match content.get::<SubjectAltName>()?.as_ref().map(|(_, names)| names.0.as_slice()) {
        Some([GeneralName::DnsName(only)]) if only.as_str() == name => Ok(()),
        _ => Err(wrong("it has other names")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issuance::ca::verified;

    #[test]
    fn a_request_is_verified_with_its_own_key() {
        let algorithm = Algorithm::named("ecdsa-p384").expect("it is known");
        let (_, request) = request(algorithm, "a.issue.test", || ()).expect("a request");
        assert!(verified(&request).is_ok());
        for offset in [request.len() - 5, 60] {
            let mut other = request.clone();
            other[offset] ^= 1;
            assert!(verified(&other).is_err(), "{offset}");
        }
    }
}
