//! `--keep`: a CA certificate, a leaf, the CRL and an OCSP response as files.

use std::fs;

use der::pem::{LineEnding, encode_string};

use super::*;

/// The CA certificate of a batch, and the first document of each other type in the database. A
/// document is `None` if the batch has no such document.
pub(super) struct Sample {
    pub ca: Vec<u8>,
    pub leaf: Option<Vec<u8>>,
    pub crl: Option<Vec<u8>>,
    pub ocsp: Option<Vec<u8>>,
}

impl Sample {
    /// Writes the files for OpenSSL: certificates and CRL in PEM and DER, the OCSP response in DER.
    pub(super) fn write(&self, directory: &Path) -> Result<(), Error> {
        fs::create_dir_all(directory).map_err(Error::io(directory))?;
        let documents = [
            ("ca", Some("CERTIFICATE"), Some(&self.ca)),
            ("leaf", Some("CERTIFICATE"), self.leaf.as_ref()),
            ("crl", Some("X509 CRL"), self.crl.as_ref()),
            ("ocsp", None, self.ocsp.as_ref()),
        ];
        for (name, label, der) in documents {
            let Some(der) = der else { continue };
            write(&directory.join(name).with_extension("der"), der)?;
            if let Some(label) = label {
                let pem = encode_string(label, LineEnding::LF, der).map_err(der::Error::from)?;
                write(&directory.join(name).with_extension("pem"), pem.as_bytes())?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(Error::io(path))
}
