//! Certificates for requests, and for certificates of the list again.

use std::path::Path;

use der::{Decode, Encode};
use jeton_client::key_types;
use jeton_pki::public_key_template;
use jeton_pki::signer::assemble;
use spki::SubjectPublicKeyInfoOwned;
use x509_cert::ext::pkix::constraints::name::GeneralSubtree;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, NameConstraints, SubjectAltName};

use crate::authority::{Ready, entry_of, parse};
use crate::certificate::Holder;
use crate::file::Source;
use crate::issuer::{CertificateProfile, Order, Request};
use crate::register::{Entry, Register};
use crate::{Cause, Error, file};

/// The largest request. A signature of SLH-DSA has 50 KB.
const MOST_REQUEST: usize = 128 << 10;
/// The largest file with a request: also in PEM, after its text.
const MOST_FILE: usize = 8 * MOST_REQUEST;
/// What a renewed certificate takes from the old one.
pub struct Old {
    /// The subject and the names.
    pub holder: Holder,
    /// The public key as SubjectPublicKeyInfo.
    pub public_key: Vec<u8>,
    /// The number of CAs that may follow below a CA.
    pub path_length: u8,
    /// The names that the certificates below a CA may have.
    pub permitted: Vec<GeneralName>,
    /// The names that the certificates below a CA must not have.
    pub excluded: Vec<GeneralName>,
}

impl Ready<'_> {
    /// Signs a certificate. Returns it with its entry, which is not in the list yet. `remark` says
    /// what the list has to say about it.
    pub fn certificate(
        &self,
        register: &Register,
        order: &Order<'_>,
        remark: &[String],
    ) -> Result<(Entry, Vec<u8>), Error> {
        register.expect_secret(order.public_key)?;
        let mut serial = [0; 16];
        self.key.session.random(&mut serial)?;
        let tbs = self.issuer.certificate_tbs(order, serial)?;
        self.expect_foreign(order.public_key)?;
        let signature = self.sign(&self.issuer.signer, &tbs)?;
        let der = assemble(&tbs, &self.issuer.signer, &signature)?;
        let mut entry = entry_of(&der, &self.name, &order.profile.name)?;
        entry.remark = Some(remark.join("; ")).filter(|remark| !remark.is_empty());
        Ok((entry, der))
    }

    /// Adds a certificate of this public key to the list, if the CA still may issue it. `old` is
    /// the serial number of the certificate that this one renews.
    pub fn add(
        &self,
        register: &Register,
        (entry, der): (&Entry, &[u8]),
        public_key: &[u8],
        old: Option<&str>,
    ) -> Result<(), Error> {
        register.add(entry, der, || {
            self.expect_may_issue(register)?;
            register.expect_secret(public_key)?;
            old.iter().try_for_each(|old| register.expect_good(&self.name, old))
        })
    }

    /// Fails unless a certificate of the list can be issued again: it is one of this CA, and not
    /// revoked.
    pub fn expect_renewable(&self, entry: &Entry) -> Result<(), Error> {
        if entry.authority != self.name {
            let text = format!("{} is a certificate of {}", entry.serial, entry.issuer);
            return Err(Cause::Refused.error(text));
        }
        if entry.revoked.is_some() {
            return Err(Cause::Refused.error(format!("the certificate {} is revoked", entry.serial)));
        }
        Ok(())
    }

    /// Returns what a certificate of the list says about its holder. The key is that of a request,
    /// if there is one.
    pub fn old(
        &self,
        register: &Register,
        entry: &Entry,
        profile: &CertificateProfile,
        request: Option<&Path>,
    ) -> Result<Old, Error> {
        let [old] = &register.ders(entry)?[..] else {
            return Err(Cause::Refused.error(format!(
                "several certificates have the number {}: issue another one from a request",
                entry.serial
            )));
        };
        let old = parse(old)?.tbs_certificate;
        let public_key = match request {
            Some(path) => self.request(path, Source::Named, profile)?.public_key()?,
            None => {
                let info = old.subject_public_key_info.to_der().map_err(Error::damaged)?;
                self.plain_key(&info, profile)?
            }
        };
        let names = old.get::<SubjectAltName>().map_err(Error::damaged)?;
        let names = names.map(|(_, names)| names.0).unwrap_or_default();
        let basic = old.get::<BasicConstraints>().map_err(Error::damaged)?;
        let path_length = basic.and_then(|(_, basic)| basic.path_len_constraint).unwrap_or_default();
        let constraints = old.get::<NameConstraints>().map_err(Error::damaged)?;
        let (permitted, excluded) =
            constraints.map(|(_, all)| (all.permitted_subtrees, all.excluded_subtrees)).unwrap_or_default();
        let bases = |subtrees: Option<Vec<_>>| {
            subtrees.into_iter().flatten().map(|subtree: GeneralSubtree| subtree.base).collect()
        };
        let (permitted, excluded) = (bases(permitted), bases(excluded));
        let holder = Holder { subject: old.subject, names };
        Ok(Old { holder, public_key, path_length, permitted, excluded })
    }

    /// Reads a request that its own key signed.
    pub fn request(
        &self,
        path: &Path,
        source: Source,
        profile: &CertificateProfile,
    ) -> Result<Request, Error> {
        let bytes = file::read(path, source, MOST_FILE)?;
        let all = file::structures(path, &bytes, &["CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"])?;
        let mut request = match all.as_slice() {
            [der] if der.len() > MOST_REQUEST => {
                return Err(
                    Cause::Refused.error(format!("{} has a request of more than 128 KiB", path.display()))
                );
            }
            [der] => Request::parse(der)?,
            [] => {
                let text = format!("{} has no certificate request, or a damaged one", path.display());
                return Err(Error::Failed(text));
            }
            _ => return Err(Cause::Refused.error(format!("{} has several requests", path.display()))),
        };
        let plain = self.plain_key(&request.public_key()?, profile)?;
        request.put_public_key(&plain)?;
        if !request.is_signed_by_its_key(&self.key.session)? {
            let text = "the signature of the request is not valid";
            return Err(Error::Refused(text.to_owned()));
        }
        Ok(request)
    }

    /// Checks the public key of a certificate. Returns it as the certificate has it.
    fn plain_key(&self, info: &[u8], profile: &CertificateProfile) -> Result<Vec<u8>, Error> {
        let key = SubjectPublicKeyInfoOwned::from_der(info).map_err(Error::damaged)?;
        let template = public_key_template(&key)?;
        profile.check_key(&key)?;
        let plain = (self.rules.check_key)(&template)
            .map_err(|flaw| Cause::Refused.error(format!("the public key is refused: {flaw}")))?;
        // RFC 5480, 2.2: programs need not read compressed points. RFC 3279, 2.3.1: the parameters
        // of RSA are NULL.
        let oid = key.algorithm.oid.to_der()?;
        Ok(if [key_types::EC, key_types::RSA].contains(&&oid[..]) { plain } else { info.to_vec() })
    }
}
