//! Creates objects from files: key pairs, secret keys, certificates.

use std::collections::HashMap;

use cryptoki_sys::*;
use der::Decode;
use jeton_client::safe_text::hex;
use jeton_pki::key_type::Usages;
use jeton_pki::{expect_one_encoding, public_key_template};
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::certificate::{CertificateInner, Raw, Version};
use x509_cert::ext::pkix::BasicConstraints;

use crate::client::{Attribute, ObjectHandle, Session};
use crate::formats::{certificate, identity};
use crate::object::public_key_info;
use crate::token_file::{KeyPair, PrivateTemplate, check_public_key};
use crate::{Cause, Error};

#[derive(Clone, Debug)]
pub struct Naming {
    pub label: String,
    pub id: Vec<u8>,
    pub duplicates: Duplicates,
}

/// What happens if the token has an object of the same class with the same ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    Refused,
    /// The import creates another object with this ID.
    Allowed,
    /// The import keeps the object that exists, and creates nothing.
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It is sensitive and cannot be extracted.
    Sensitive,
    /// It is sensitive and can be wrapped.
    Extractable,
}

/// Creates a private key and, if `public` is true, its public key. If the public key cannot be
/// created, the private key is destroyed again.
pub fn key_pair(
    session: &Session,
    pair: &KeyPair,
    naming: &Naming,
    protection: Protection,
    usages: &Usages,
    public: bool,
) -> Result<ObjectHandle, Error> {
    if let Some(key) = existing(session, CKO_PRIVATE_KEY, naming)? {
        let is_same = public_key_info(session, key)
            .is_ok_and(|info| identity(&info) == identity(&pair.public_key_info));
        return if is_same { Ok(key) } else { Err(exists(naming)) };
    }
    let mut template = PrivateTemplate(pair.private.0.clone());
    template.0.extend(names(&naming.label, &naming.id));
    template.0.extend(protected(protection));
    template.0.extend(usages.attributes(CKO_PRIVATE_KEY));
    let private = create_private(session, &mut template)?;
    if public {
        let mut template = pair.public.clone();
        template.extend(names(&naming.label, &naming.id));
        template.extend(usages.attributes(CKO_PUBLIC_KEY));
        if let Err(failure) = session.create_object(&template) {
            session.destroy_object(private)?;
            return Err(failure.into());
        }
    }
    Ok(private)
}

/// Creates the private key. If the module does not know `CKA_SEED` of PKCS#11 3.2, tries again
/// without it.
fn create_private(session: &Session, template: &mut PrivateTemplate) -> Result<ObjectHandle, Error> {
    match session.create_object(&template.0) {
        Err(failure) if failure.code == CKR_ATTRIBUTE_TYPE_INVALID => {
            let before = template.0.len();
            template.0.retain(|one| one.kind != CKA_SEED);
            if template.0.len() == before {
                Err(failure.into())
            } else {
                Ok(session.create_object(&template.0)?)
            }
        }
        other => Ok(other?),
    }
}

pub fn secret_key(
    session: &Session,
    kind: CK_KEY_TYPE,
    value: &[u8],
    naming: &Naming,
    protection: Protection,
    usages: &Usages,
) -> Result<ObjectHandle, Error> {
    if let Some(key) = existing(session, CKO_SECRET_KEY, naming)? {
        return Ok(key);
    }
    let mut template = PrivateTemplate(vec![
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, kind),
        Attribute::bytes(CKA_VALUE, value),
    ]);
    template.0.extend(names(&naming.label, &naming.id));
    template.0.extend(protected(protection));
    template.0.extend(usages.attributes(CKO_SECRET_KEY));
    Ok(session.create_object(&template.0)?)
}

/// Fails if the key of a CA is no secret, or has a second encoding. A key that this tool does not
/// know is imported as it is.
fn expect_secret_of_authority(der: &[u8]) -> Result<(), Error> {
    // Raw: RFC 5280 has shorter serial numbers than some CAs. A certificate of version 1 or 2 does
    // not say whether it is that of a CA.
    let is_leaf = CertificateInner::<Raw>::from_der(der).map(|certificate| certificate.tbs_certificate);
    let is_leaf = is_leaf.is_ok_and(|tbs| {
        let basic = tbs.get::<BasicConstraints>();
        tbs.version == Version::V3 && basic.is_ok_and(|basic| basic.is_none_or(|(_, basic)| !basic.ca))
    });
    let info = SubjectPublicKeyInfoOwned::from_der(&certificate::public_key_of(der)?);
    let Some(info) = info.ok().filter(|_| !is_leaf) else { return Ok(()) };
    expect_one_encoding(&info)?;
    // RFC 8017, A.1.
    let is_rsa = info.algorithm.oid.to_string() == "1.2.840.113549.1.1.1";
    let flaw = match public_key_template(&info) {
        Ok(template) => check_public_key(&template).err(),
        Err(error) if is_rsa => {
            return Err(Cause::Refused.error(format!("the key of this CA is damaged: {error}")));
        }
        Err(_) => None,
    };
    // No program can use an RSA key of a size that is refused, or everyone factors it.
    match flaw.filter(|flaw| is_rsa || flaw.is_certain()) {
        None => Ok(()),
        Some(flaw) => Err(Cause::Refused.error(format!("the key of this CA is refused: {flaw}"))),
    }
}

/// Creates a certificate. Fails if it is that of a CA whose key is no secret.
pub fn certificate(session: &Session, der: &[u8], naming: &Naming) -> Result<ObjectHandle, Error> {
    expect_secret_of_authority(der)?;
    let names_of = certificate::names(der)?;
    // RFC 5280, 4.1.2.2: the issuer and the serial number identify a certificate.
    let identity = [
        Attribute::number(CKA_CLASS, CKO_CERTIFICATE),
        Attribute::bytes(CKA_ISSUER, names_of.issuer.clone()),
        Attribute::bytes(CKA_SERIAL_NUMBER, names_of.serial.clone()),
    ];
    match (session.find(&identity)?.first(), naming.duplicates) {
        (None, _) | (_, Duplicates::Allowed) => {}
        (Some(own), Duplicates::Kept) if session.bytes(*own, CKA_VALUE) == der => return Ok(*own),
        _ => {
            let text = format!(
                "the token has a certificate with the issuer and the serial number of {:?}; allow it with \
                 --allow-duplicate",
                names_of.title
            );
            return Err(Error::Caused(Cause::Exists, text));
        }
    }
    let mut template = vec![
        Attribute::number(CKA_CLASS, CKO_CERTIFICATE),
        Attribute::number(CKA_CERTIFICATE_TYPE, CKC_X_509),
        Attribute::bytes(CKA_VALUE, der),
        Attribute::bytes(CKA_SUBJECT, names_of.subject),
        Attribute::bytes(CKA_ISSUER, names_of.issuer),
        Attribute::bytes(CKA_SERIAL_NUMBER, names_of.serial),
        Attribute::flag(CKA_PRIVATE, false),
    ];
    template.extend(names(&naming.label, &naming.id));
    Ok(session.create_object(&template)?)
}

/// Returns the identities of the certificates and the private keys in the token, each with its
/// `CKA_ID`. A key and its certificate have the same ID, because other programs find one by the ID
/// of the other. If they differ, the ID is that of the key.
pub fn ids_in_token(session: &Session) -> Result<HashMap<Vec<u8>, Vec<u8>>, Error> {
    let of = |class| session.find(&[Attribute::number(CKA_CLASS, class)]);
    let objects = of(CKO_CERTIFICATE)?.into_iter().chain(of(CKO_PRIVATE_KEY)?);
    let ids = objects.map(|object| (public_key_info(session, object), session.bytes(object, CKA_ID)));
    Ok(ids
        .filter_map(|(info, id)| Some((identity(&info.ok()?), id)))
        .filter(|(_, id)| !id.is_empty())
        .collect())
}

/// Returns the attributes of a token object with these names.
pub fn names(label: &str, id: &[u8]) -> [Attribute; 3] {
    [
        Attribute::flag(CKA_TOKEN, true),
        Attribute::bytes(CKA_LABEL, label.as_bytes()),
        Attribute::bytes(CKA_ID, id),
    ]
}

/// Returns the attributes of a private or secret key.
pub fn protected(protection: Protection) -> [Attribute; 3] {
    [
        Attribute::flag(CKA_PRIVATE, true),
        Attribute::flag(CKA_SENSITIVE, true),
        Attribute::flag(CKA_EXTRACTABLE, protection == Protection::Extractable),
    ]
}

/// Returns the key of this class with the same ID or the same label, if the import
/// keeps it. Fails if the import is refused because of it.
fn existing(
    session: &Session,
    class: CK_OBJECT_CLASS,
    naming: &Naming,
) -> Result<Option<ObjectHandle>, Error> {
    let of_class = Attribute::number(CKA_CLASS, class);
    let id = (!naming.id.is_empty()).then(|| Attribute::bytes(CKA_ID, naming.id.clone()));
    let label = (!naming.label.is_empty()).then(|| Attribute::bytes(CKA_LABEL, naming.label.as_bytes()));
    for name in [id, label].into_iter().flatten() {
        let found = session.find(&[of_class.clone(), name])?;
        match (found.first(), naming.duplicates) {
            (None, _) | (_, Duplicates::Allowed) => {}
            (Some(_), Duplicates::Refused) => return Err(exists(naming)),
            (Some(object), Duplicates::Kept) => return Ok(Some(*object)),
        }
    }
    Ok(None)
}

fn exists(naming: &Naming) -> Error {
    let text = format!(
        "the token has another object of this class with the ID {} or the label {:?}; choose another --id or \
         --label, or allow it with --allow-duplicate",
        hex(&naming.id),
        naming.label
    );
    Error::Caused(Cause::Exists, text)
}
