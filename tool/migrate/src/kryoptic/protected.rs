//! Encrypted values of Kryoptic: DER with AES-256-GCM, under a key that PBKDF2 derives from the
//! PIN or HKDF derives from the master key.

use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{constant_time, hkdf};
use der::asn1::{ObjectIdentifier, OctetStringRef};
use der::{Decode, Sequence};
use spki::AlgorithmIdentifierRef;
use zeroize::Zeroizing;

use crate::algorithm::{HMAC_SHA256, KEY, derive, malformed, parameters, unknown, wrong_length};
use crate::{Error, Secret};

/// `KKBPS1_OID`, Kryoptic's scheme: the version of a key, how the key is derived, and the cipher.
const SCHEME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.2312.20.2.1");
/// `KKDF1_OID`: HKDF-Expand.
const KKDF1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.2312.20.1.1");
const AES_256_GCM_OID: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.46");

/// `AES_GCM_TAG_LEN`: Kryoptic stores the first 8 of the 16 bytes of a tag.
const TAG: usize = 8;

/// `KProtectedData`
#[derive(Sequence)]
struct Protected<'a> {
    algorithm: AlgorithmIdentifierRef<'a>,
    data: OctetStringRef<'a>,
    signature: Option<OctetStringRef<'a>>,
}

/// `KKBPS1Params`
#[derive(Sequence)]
struct Scheme<'a> {
    version: u64,
    derivation: AlgorithmIdentifierRef<'a>,
    cipher: AlgorithmIdentifierRef<'a>,
}

/// `KKDF1Params`
#[derive(Sequence)]
struct Kkdf1<'a> {
    function: AlgorithmIdentifierRef<'a>,
    info: OctetStringRef<'a>,
    length: u64,
}

/// `KGCMParams`
#[derive(Sequence)]
struct Gcm<'a> {
    nonce: OctetStringRef<'a>,
    tag: OctetStringRef<'a>,
}

/// The master key, from which the key of each value is derived.
pub(super) struct Master {
    key: Secret,
    version: u64,
}

/// Decrypts the master key with a PIN (`decrypt_key`). `user` is its additional authenticated data.
pub(super) fn open_master(path: &Path, record: &[u8], pin: &[u8], user: &str) -> Result<Master, Error> {
    let (protected, scheme) = parse(path, record)?;
    let key = derive(path, &scheme.derivation, pin)?;
    let plain = decrypt(path, &key, &scheme.cipher, protected.data.as_bytes(), user)?;
    match plain {
        Some(key) if key.len() == KEY => Ok(Master { key, version: scheme.version }),
        _ => Err(Error::WrongPin(path.to_owned())),
    }
}

/// Decrypts a value (`decrypt_data`). Returns `None` if its tag does not verify. `id` is its
/// additional authenticated data.
pub(super) fn open_value(
    path: &Path,
    stored: &[u8],
    master: &Master,
    id: &str,
) -> Result<Option<Secret>, Error> {
    let (protected, scheme) = parse(path, stored)?;
    if scheme.version != master.version {
        return Err(Error::damaged(path, "a value is encrypted under another version of the master key"));
    }
    let parameters: Kkdf1<'_> = parameters(path, &scheme.derivation, KKDF1)?;
    if parameters.function.oid != HMAC_SHA256 {
        return Err(unknown(path, parameters.function.oid));
    }
    if parameters.length != KEY as u64 {
        return Err(wrong_length(path));
    }
    let mut key = Zeroizing::new([0; KEY]);
    let info = [parameters.info.as_bytes()];
    let failed = |_| Error::damaged(path, "the key of a value cannot be derived");
    let master = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &master.key);
    let derived = master.expand(&info, hkdf::HKDF_SHA256).map_err(failed)?;
    derived.fill(&mut key[..]).map_err(failed)?;
    decrypt(path, &key, &scheme.cipher, protected.data.as_bytes(), id)
}

fn parse<'a>(path: &Path, stored: &'a [u8]) -> Result<(Protected<'a>, Scheme<'a>), Error> {
    let protected = Protected::from_der(stored).map_err(malformed(path))?;
    if protected.signature.is_some() {
        return Err(Error::damaged(path, "an encrypted value has a signature"));
    }
    let scheme = parameters(path, &protected.algorithm, SCHEME)?;
    Ok((protected, scheme))
}

/// Decrypts AES-256-GCM with a tag of 8 bytes; `None` if the tag does not verify.
///
/// aws-lc-rs verifies only tags of 16 bytes. So this function encrypts twice. The first encryption
/// turns the ciphertext into the plain text, because GCM adds the same keystream in both
/// directions. The second encryption computes the full tag.
fn decrypt(
    path: &Path,
    key: &[u8; KEY],
    cipher: &AlgorithmIdentifierRef<'_>,
    ciphertext: &[u8],
    authenticated: &str,
) -> Result<Option<Secret>, Error> {
    let gcm: Gcm<'_> = parameters(path, cipher, AES_256_GCM_OID)?;
    let wrong = || Error::damaged(path, "a nonce or a tag has the wrong length");
    let nonce = <[u8; 12]>::try_from(gcm.nonce.as_bytes()).map_err(|_| wrong())?;
    let tag = <[u8; TAG]>::try_from(gcm.tag.as_bytes()).map_err(|_| wrong())?;
    let failed = |_| Error::damaged(path, "an encrypted value is too long");
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).map_err(failed)?);
    let encrypt = |buffer: &mut [u8]| {
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_separate_tag(nonce, Aad::from(authenticated), buffer).map_err(failed)
    };
    let mut plain = Zeroizing::new(ciphertext.to_vec());
    let _ = encrypt(&mut plain)?;
    let mut again = plain.clone();
    let computed = encrypt(&mut again)?;
    let same = constant_time::verify_slices_are_equal(&computed.as_ref()[..TAG], &tag);
    Ok(same.is_ok().then_some(plain))
}
