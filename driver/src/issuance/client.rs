//! A client: it makes a key and a certificate request, and verifies the certificate.

use der::Encode;
use jeton_pki::certificate::{Holder, request_tbs};
use jeton_pki::{Algorithm, AlternativeName, Content, SUBJECT_ALT_NAME, Signed, alternative_names};
use spki::SubjectPublicKeyInfoOwned;

use super::ca::Ca;
use super::load::{Clock, Phase};
use crate::Error;
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
pub(super) fn request(
    algorithm: &Algorithm,
    name: &str,
    has_key: impl FnOnce(),
) -> Result<(SubjectPublicKeyInfoOwned, Vec<u8>), Error> {
    let pair = KeyPair::generate(algorithm)?;
    let key = pair.public_key()?;
    has_key();
    let holder = Holder::parse(&format!("CN={name}"), &[format!("dns:{name}")])?;
    let tbs = request_tbs(&key.to_der()?, &holder)?;
    let request = Signed::assemble(&tbs, &algorithm.signature.to_owned(), &pair.sign(&tbs)?)?;
    Ok((key, request))
}

/// Verifies a certificate: the CA's signature, the client's key, and the name.
fn verify(der: &[u8], ca: &PublicKey, key: &SubjectPublicKeyInfoOwned, name: &str) -> Result<(), Error> {
    let wrong = |what: &str| Error::Failed(format!("the certificate for {name}: {what}"));
    let signed = Signed::parse(der)?;
    if !ca.verify(signed.tbs, signed.signature) {
        return Err(wrong("the signature does not verify"));
    }
    let content = Content::parse(signed.tbs)?;
    if content.public_key != key.to_der()? {
        return Err(wrong("it has another key"));
    }
    let extension = content.extensions.iter().find(|extension| extension.oid == SUBJECT_ALT_NAME);
    let names = extension.map(|extension| alternative_names(extension.value)).transpose()?;
    if names.as_deref() == Some(&[AlternativeName::Dns(name)]) {
        Ok(())
    } else {
        Err(wrong("it has other names"))
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
