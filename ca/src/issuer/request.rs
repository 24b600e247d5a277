//! Reads certificate requests (PKCS #10), and checks them against a profile.

use const_oid::AssociatedOid;
use der::asn1::Any;
use der::{Decode, Encode, ErrorKind, Tag};
use jeton_client::Session;
use jeton_client::safe_text::hex;
use jeton_pki::signer::is_signed;
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{
    BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::request::CertReq;

use super::CertificateProfile;
use super::profile::{Beyond, Purpose, Usage, usage_name};
use crate::certificate::{EXTENSION_REQUEST, Holder};
use crate::{Error, name};

/// A certificate request.
pub struct Request {
    der: Vec<u8>,
    request: CertReq,
    extensions: Vec<Extension>,
    /// The extensions whose identifiers are no [`const_oid::ObjectIdentifier`].
    unknown: Vec<String>,
}

impl Request {
    /// Reads a request in DER.
    pub fn parse(der: &[u8]) -> Result<Self, Error> {
        let wrong = |error| Error::Failed(format!("not a certificate request: {error}"));
        let request = CertReq::from_der(der).map_err(wrong)?;
        let (mut extensions, mut unknown) = (Vec::<Extension>::new(), Vec::new());
        let asked = request.info.attributes.iter().filter(|attribute| attribute.oid == EXTENSION_REQUEST);
        for value in asked.flat_map(|attribute| attribute.values.iter()) {
            for extension in value.decode_as::<Vec<Any>>()? {
                // X.667: an identifier may have an arc of 128 bits.
                let is_odd = |kind| {
                    matches!(kind, ErrorKind::OidMalformed | ErrorKind::Length { tag: Tag::ObjectIdentifier })
                };
                match extension.decode_as() {
                    Ok(extension) => extensions.push(extension),
                    Err(error) if is_odd(error.kind()) => {
                        unknown.push(format!("an unknown extension ({})", hex(extension.value())));
                    }
                    Err(error) => return Err(wrong(error)),
                }
            }
        }
        // RFC 5280, 4.2: a second extension of one type would be in no certificate.
        let mut seen = std::collections::BTreeSet::new();
        if let Some(twice) = extensions.iter().find(|extension| !seen.insert(extension.extn_id)) {
            return Err(Error::Refused(format!("the request has the extension {} twice", twice.extn_id)));
        }
        Ok(Self { der: der.to_vec(), request, extensions, unknown })
    }

    /// Returns the public key as SubjectPublicKeyInfo.
    pub fn public_key(&self) -> Result<Vec<u8>, Error> {
        Ok(self.request.info.public_key.to_der()?)
    }

    /// Replaces the encoding of the public key by another one of the same key.
    pub fn put_public_key(&mut self, info: &[u8]) -> Result<(), Error> {
        self.request.info.public_key = SubjectPublicKeyInfoOwned::from_der(info)?;
        Ok(())
    }

    /// Returns whether the key of the request signed it. The module verifies the signature.
    pub fn is_signed_by_its_key(&self, session: &Session) -> Result<bool, Error> {
        Ok(is_signed(session, &self.der, &self.request.info.public_key)?)
    }

    /// Returns the subject and the names that the request asks for.
    pub fn holder(&self) -> Result<Holder, Error> {
        let names = self.extension::<SubjectAltName>()?.map(|names| names.0).unwrap_or_default();
        Ok(Holder { subject: self.request.info.subject.clone(), names })
    }

    /// Returns what the request asks for beyond the profile: the certificate does not have it.
    /// Fails with [`Error::Refused`] if the profile refuses such a request, or if it is one for a
    /// CA.
    pub fn check(&self, profile: &CertificateProfile) -> Result<Vec<String>, Error> {
        let refused = |what: &str| {
            let name = &profile.name;
            let text = format!("the request asks for {what}, which the profile {name} does not allow");
            Err(Error::Refused(text))
        };
        if self.extension::<BasicConstraints>()?.is_some_and(|basic| basic.ca) && !profile.ca {
            return refused("the certificate of a CA");
        }
        let usages = self.extension::<KeyUsage>()?.map(|usage| usage.0).unwrap_or_default();
        let usages = usages.into_iter().filter(|usage| !profile.usages.contains(&Usage(*usage)));
        let extended = self.extension::<ExtendedKeyUsage>()?.map(|usage| usage.0).unwrap_or_default();
        let extended = extended.into_iter().filter(|usage| !profile.extended.contains(&Purpose(*usage)));
        let names = self.holder()?.names.into_iter().filter(|one| !profile.has_names(name::type_of(one)));
        let known = [BasicConstraints::OID, KeyUsage::OID, ExtendedKeyUsage::OID, SubjectAltName::OID];
        // Each certificate has a key identifier of its own (RFC 5280, 4.2.1.2).
        let known = |oid| known.contains(&oid) || oid == SubjectKeyIdentifier::OID;
        let others = self.extensions.iter().map(|extension| extension.extn_id).filter(|oid| !known(*oid));
        let beyond: Vec<_> = usages
            .map(|usage| format!("the key usage {}", usage_name(usage)))
            .chain(extended.map(|usage| format!("the extended key usage {usage}")))
            .chain(names.map(|name| format!("the name {}", name::shown(&name))))
            .chain(others.map(|oid| format!("the extension {oid}")))
            .chain(self.unknown.iter().cloned())
            .collect();
        match beyond.first() {
            Some(first) if profile.beyond == Beyond::Refuse => refused(first),
            _ => Ok(beyond),
        }
    }

    fn extension<E: AssociatedOid + for<'a> Decode<'a>>(&self) -> Result<Option<E>, Error> {
        let found = self.extensions.iter().find(|extension| extension.extn_id == E::OID);
        Ok(found.map(|extension| E::from_der(extension.extn_value.as_bytes())).transpose()?)
    }
}
