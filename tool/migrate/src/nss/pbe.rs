//! Encrypted values and MACs of NSS: PBES2 and PBMAC1 of PKCS #5, both with PBKDF2.

use std::path::Path;

use aws_lc_rs::hmac;
use cryptoki_sys::CK_ATTRIBUTE_TYPE;
use der::asn1::{ObjectIdentifier, OctetStringRef};
use der::{Decode, Encode, Sequence};
use spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

use crate::algorithm::{HMAC_SHA256, derive, malformed, parameters, unknown};
use crate::cipher::{BLOCK, decrypt_cbc};
use crate::{Error, Secret};

const PBES2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.5.13");
const PBMAC1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.5.14");
const AES_256_CBC: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.42");
/// SHA-1 and Triple DES, with which older versions of NSS encrypted.
const SHA1_TRIPLE_DES: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.5.1.3");

/// `SFTKDBEncryptedDataInfo`
#[derive(Sequence)]
struct Encrypted<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    data: OctetStringRef<'a>,
}

/// The parameters of PBES2 and of PBMAC1: how the key is derived, and its algorithm.
#[derive(Sequence)]
struct Schemes<'a> {
    derivation: AlgorithmIdentifierRef<'a>,
    algorithm: AlgorithmIdentifierRef<'a>,
}

/// Decrypts a value; `None` if the length or the padding is wrong.
pub(super) fn decrypt(path: &Path, stored: &[u8], key: &[u8]) -> Result<Option<Secret>, Error> {
    let encrypted = Encrypted::from_der(stored).map_err(malformed(path))?;
    if encrypted.algorithm.oid == SHA1_TRIPLE_DES {
        let reason = "the keys were encrypted with Triple DES, by an older NSS. Set the password again with the \
                      certutil of a newer NSS (certutil -W -d sql:DIRECTORY), on a copy if you like, and try again";
        return Err(Error::Unsupported { path: path.to_owned(), reason: reason.to_owned() });
    }
    let schemes: Schemes<'_> = parameters(path, &encrypted.algorithm, PBES2)?;
    if schemes.algorithm.oid != AES_256_CBC {
        return Err(unknown(path, schemes.algorithm.oid));
    }
    // nsspkcs5_SetIVParam: the vector is an octet string in DER, with a header of 2 bytes and a
    // content of 14 bytes.
    let parameters = schemes.algorithm.parameters.ok_or_else(|| Error::damaged(path, "no vector"))?;
    let iv = parameters.to_der().map_err(malformed(path))?;
    let iv =
        <[u8; BLOCK]>::try_from(iv).map_err(|_| Error::damaged(path, "a vector has the wrong length"))?;
    let key = derive(path, &schemes.derivation, key)?;
    Ok(decrypt_cbc(&key[..], &iv, encrypted.data.as_bytes()))
}

pub(super) fn verify(
    path: &Path,
    code: &[u8],
    key: &[u8],
    object: u32,
    kind: CK_ATTRIBUTE_TYPE,
    plain: &[u8],
) -> Result<bool, Error> {
    let stored = Encrypted::from_der(code).map_err(malformed(path))?;
    let schemes: Schemes<'_> = parameters(path, &stored.algorithm, PBMAC1)?;
    if schemes.algorithm.oid != HMAC_SHA256 {
        return Err(unknown(path, schemes.algorithm.oid));
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, &derive(path, &schemes.derivation, key)?[..]);
    // The MAC covers the low 4 bytes of the attribute's number.
    let kind = (kind & u64::from(u32::MAX)) as u32;
    let mut message = Zeroizing::new([object.to_be_bytes(), kind.to_be_bytes()].concat());
    message.extend_from_slice(plain);
    Ok(hmac::verify(&key, &message, stored.data.as_bytes()).is_ok())
}
