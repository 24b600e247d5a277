//! The parameter of RSA-OAEP. Its cases are in `conformance/src/cases/encryption.rs`.

use crate::prelude::*;

pub fn oaep(hash: Hash, mgf: Hash, label: &[u8]) -> Mechanism {
    Mechanism { params: Params::Oaep { hash, mgf, label: label.into() }, ..plain(M::RSA_PKCS_OAEP) }
}
