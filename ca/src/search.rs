//! Searches in the list of issued certificates.

use std::collections::BTreeMap;
use std::path::Path;

use jeton_client::safe_text::shown;
use jeton_formats::certificate::{public_key_of, split};

use crate::authority::{entry_of, number_of, parse};
use crate::file::Source;
use crate::register::{Entry, Of, Register, now};
use crate::{Cause, Error, file, name};

/// Returns the valid certificates that end in this number of seconds and have no successor, which
/// is a later certificate of the CA with the same subject, names and profile.
pub fn soon(entries: &[Entry], within: i64) -> Vec<&Entry> {
    let last = now() + within;
    let mut valid: Vec<_> = entries.iter().filter(|entry| entry.status() == "valid").collect();
    // A certificate without an end is known from a CRL alone, and is revoked.
    valid.sort_by_key(|entry| entry.not_after);
    let newest: BTreeMap<_, _> = valid.iter().map(|entry| (holder(entry), entry.id)).collect();
    let is_newest = |entry: &Entry| newest.get(&holder(entry)) == Some(&entry.id);
    valid.retain(|entry| entry.not_after.is_some_and(|end| end <= last) && is_newest(entry));
    valid
}

fn holder(entry: &Entry) -> [&str; 4] {
    [&entry.subject, &entry.names, &entry.profile, &entry.authority]
}

/// Finds the certificate: the only valid one with this name, or else the only one. What a name
/// and a number fit together is refused. Another user may have put a file with the name of a
/// host into the working directory, so a word is never a file.
pub fn find(register: &Register, text: &str) -> Result<Entry, Error> {
    let path = Path::new(text);
    let is_path = text.contains('/') || text.ends_with(".pem");
    let mut found = called(register, text)?;
    if is_path && path.is_file() {
        let of_file = of_file(register, path)?;
        if found.iter().any(|entry| of_file.iter().all(|own| own.id != entry.id)) {
            let text =
                format!("{text} is a file, and the name of another certificate; name it by serial:NUMBER");
            return Err(Cause::Refused.error(text));
        }
        found = of_file;
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 if !is_path && path.is_file() => Err(Cause::NotFound
            .error(format!("the list has no certificate with the name {text}; for the file write ./{text}"))),
        0 => Err(Cause::NotFound.error(format!("the list has no certificate {text}"))),
        _ => {
            let line = |entry: &Entry| format!("serial:{} {}", entry.serial, shown(&entry.subject));
            let all: Vec<_> = found.iter().map(line).collect();
            let text = format!("several certificates fit; name the file or the number: {}", all.join(", "));
            Err(Error::Failed(text))
        }
    }
}

/// Returns the certificates with this number or name.
fn called(register: &Register, text: &str) -> Result<Vec<Entry>, Error> {
    let mut found = register.entries(None)?;
    let number = text.strip_prefix("serial:");
    let serial = number_of(number.unwrap_or(text)).unwrap_or_default();
    let mut named = Vec::new();
    for entry in found.iter().filter(|entry| number.is_none() && entry.serial != serial) {
        // Without the bytes, the list knows no decoded name.
        let ders = register.ders(entry)?;
        let mut is_named = ders.is_empty() && entry.subject == text;
        for der in &ders {
            // An adopted certificate may have what the crate cannot read.
            is_named |= is_called(der, text).unwrap_or(entry.subject == text);
        }
        if is_named {
            named.push(entry.clone());
        }
    }
    if named.iter().any(is_live) {
        named.retain(is_live);
    }
    found.retain(|entry| entry.serial == serial);
    found.extend(named);
    Ok(found)
}

/// Returns the entries of the certificate in a file.
fn of_file(register: &Register, path: &Path) -> Result<Vec<Entry>, Error> {
    let der = file::certificate(path, Source::Found)?;
    let wanted = entry_of(&der, "", "")?;
    let mut found = Vec::new();
    for entry in register.entries(None)?.into_iter().filter(|entry| entry.serial == wanted.serial) {
        let ders = register.ders(&entry)?;
        // An adopted certificate may have no bytes to compare.
        if ders.contains(&der) || ders.is_empty() && entry.issuer == wanted.issuer {
            found.push(entry);
        }
    }
    Ok(found)
}

/// Returns whether a certificate has this subject, common name or other name.
pub fn is_called(der: &[u8], text: &str) -> Result<bool, Error> {
    name::is_called(&parse(der)?.tbs_certificate, text)
}

fn is_live(entry: &Entry) -> bool {
    matches!(entry.status(), "valid" | "held")
}

/// Returns the certificates between a certificate and the root.
pub fn above(register: &Register, entry: &Entry) -> Result<Vec<Vec<u8>>, Error> {
    let ca = register.authority(&entry.authority)?;
    let mut all = vec![ca.certificate];
    all.extend(split(&ca.above)?.into_iter().map(<[u8]>::to_vec));
    // The last certificate is the root's, which a client has.
    all.pop();
    Ok(all)
}

/// Returns the valid and the held certificates of the same key, of all CAs.
pub fn others_of_key(register: &Register, entry: &Entry) -> Result<Vec<Entry>, Error> {
    let mut others = Vec::<Entry>::new();
    // One that was adopted from a CRL alone has no known key.
    for der in register.ders(entry)? {
        others.extend(register.of_key(&public_key_of(&der)?, Of::All)?);
    }
    others.sort_by_key(|other| other.id);
    others.dedup_by_key(|other| other.id);
    others.retain(|other| other.id != entry.id && ["valid", "held"].contains(&other.status()));
    Ok(others)
}
