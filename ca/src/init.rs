//! Binds a CA to a list.

use std::path::Path;

use cryptoki_sys::CKA_LOCAL;
use jeton_pki::public_key_template;
use jeton_pki::signer::is_signed;

use crate::authority::{Ready, certificates_in, entry_of, parse};
use crate::register::{Ca, Register, now};
use crate::{Cause, Error, name};

/// The longest chain of CAs.
const MOST_ABOVE: usize = 8;
/// A CA with a certificate that is older than this may have signed CRLs before it got its list. So
/// may one whose key was imported.
const NEW: i64 = 24 * 60 * 60;

/// Adds the CA to the list, which is made if it does not exist. `chain` has certificates of the CAs
/// above; those in the token and in the list are found without it.
pub fn init(ready: &Ready<'_>, path: &Path, chain: Vec<Vec<u8>>) -> Result<(Register, Ca), Error> {
    ready.expect_own_key()?;
    let key = parse(&ready.certificate)?.tbs_certificate.subject_public_key_info;
    (ready.rules.check_key)(&public_key_template(&key)?)
        .map_err(|flaw| Cause::Refused.error(format!("the key of the CA is refused: {flaw}")))?;
    let mut known = Vec::new();
    if !Register::is_missing(path) {
        let register = Register::create(path, ready.rules)?;
        register.expect_secret(&ready.key.info)?;
        for ca in register.authorities()? {
            if ca.id != ready.name && is_one_ca(&ca.certificate, &ready.certificate)? {
                let text =
                    "the list has this CA with its name in other string types; the certificate needs those";
                return Err(Error::Caused(Cause::Refused, text.to_owned()));
            }
            known.push(ca.certificate);
        }
    }
    known.extend(chain);
    known.extend(certificates_in(&ready.key.session)?);
    let above = above(ready, &known)?;
    known.push(ready.certificate.clone());
    let is_old = |der: &Vec<u8>| {
        let start = entry_of(der, "", "").ok().and_then(|entry| entry.not_before);
        start.is_some_and(|start| start + NEW < now()) && is_one_ca(der, &ready.certificate).unwrap_or(false)
    };
    // If the token did not make the key, other programs may have used it.
    let is_own = ready.key.session.flag(ready.key.handle, CKA_LOCAL);
    let mut register = Register::create(path, ready.rules)?;
    register.add_authority(&Ca {
        id: ready.name.clone(),
        subject: ready.issuer.subject(),
        certificate: ready.certificate.clone(),
        above,
        crl_number: 0,
        crl_end: None,
        crl_file: None,
        unsure: known.iter().any(is_old) || !is_own,
    })?;
    let ca = register.authority(&ready.name)?;
    Ok((register, ca))
}

/// Returns whether two certificates have one key, and names that are equal (RFC 5280, 7.1).
fn is_one_ca(one: &[u8], other: &[u8]) -> Result<bool, Error> {
    let (one, other) = (parse(one)?.tbs_certificate, parse(other)?.tbs_certificate);
    let has_one_key = one.subject_public_key_info == other.subject_public_key_info;
    Ok(has_one_key && name::same(&one.subject, &other.subject))
}

/// Returns the certificates above a CA, up to one that signed itself. Each one signed the one
/// before. A certificate that signed itself comes after the others of the same key, because those
/// may have constraints.
fn above(ready: &Ready<'_>, known: &[Vec<u8>]) -> Result<Vec<u8>, Error> {
    let (mut current, mut all) = (parse(&ready.certificate)?, Vec::new());
    let mut bytes = ready.certificate.clone();
    for _ in 0..MOST_ABOVE {
        let tbs = &current.tbs_certificate;
        if tbs.issuer == tbs.subject {
            return Ok(all);
        }
        let fitting = known.iter().filter_map(|der| {
            let other = parse(der).ok()?;
            let above = &other.tbs_certificate;
            let signed = || is_signed(&ready.key.session, &bytes, &above.subject_public_key_info).ok();
            (above.subject == tbs.issuer && signed()?).then(|| (other, der.clone()))
        });
        let signer = fitting.min_by_key(|(one, _)| one.tbs_certificate.issuer == one.tbs_certificate.subject);
        let Some((signer, der)) = signer else {
            let text = format!("the certificate of {} is not known; --chain names its file", tbs.issuer);
            return Err(Error::Caused(Cause::NotFound, text));
        };
        all.extend(&der);
        (current, bytes) = (signer, der);
    }
    Err(Error::Failed(format!("more than {MOST_ABOVE} CAs above {}", ready.issuer.subject())))
}
