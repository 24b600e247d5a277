//! Encryption with a password: PBES1 and PBES2 (RFC 8018), the block ciphers of PKCS #12 (RFC 7292,
//! appendices B and C), and the encryption of PEM files by OpenSSL before PKCS #8.

use aes::{Aes128, Aes192, Aes256};
use cbc::Decryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, InnerIvInit, KeyInit};
use der::Decode;
use der::asn1::ObjectIdentifier;
use des::{Des, TdesEde2, TdesEde3};
use hmac::{Mac, SimpleHmac};
use jeton_client::safe_text::from_hex;
use md5::Md5;
use pbkdf2::pbkdf2_hmac;
use pkcs5::EncryptionScheme;
use pkcs5::pbes2::Kdf;
use rc2::Rc2;
use sha1::Sha1;
use sha2::digest::Digest;
use sha2::digest::block_api::BlockSizeUser;
use sha2::{Sha224, Sha256, Sha384, Sha512};
use zeroize::Zeroizing;

use super::{Error, Password, ber};
use crate::ber::{Element, INTEGER, OCTET_STRING, OID, SEQUENCE};

/// The largest number of iterations that all keys of a file may ask for. They take about ten
/// seconds.
const MAX_ITERATIONS: u64 = 10_000_000;
/// The largest product of scrypt's memory in bytes and its parallelization that a key may ask for.
const MAX_SCRYPT: u64 = 256 << 20;
/// The number of such keys in a file. They take about ten seconds.
const SCRYPT_KEYS: u64 = 10;

const TOO_MUCH: Error =
    Error::Refused("the file asks for more than 10,000,000 iterations or 256 MiB to decrypt it");

/// The names of algorithms that are not supported, by the start of their identifiers.
const NAMES: [(&str, &str); 5] = [
    ("1.2.840.113549.1.12.1.", "RC4"),
    ("1.2.840.113549.2.5", "MD5"),
    ("1.2.840.113549.3.2", "RC2 in PBES2"),
    ("1.2.392.200011.61.1.1.1.", "Camellia"),
    ("1.2.410.200046.1.1.", "ARIA"),
];

/// The parts of PBES2 and PBMAC1 that are supported: the schemes, PBKDF2, scrypt, HMAC, AES, DES
/// and triple DES.
const PARTS: [&str; 14] = [
    "1.2.840.113549.1.5.14",
    "1.2.840.113549.1.5.13",
    "1.2.840.113549.1.5.12",
    "1.3.6.1.4.1.11591.4.11",
    "1.2.840.113549.2.7",
    "1.2.840.113549.2.8",
    "1.2.840.113549.2.9",
    "1.2.840.113549.2.10",
    "1.2.840.113549.2.11",
    "2.16.840.1.101.3.4.1.2",
    "2.16.840.1.101.3.4.1.22",
    "2.16.840.1.101.3.4.1.42",
    "1.2.840.113549.3.7",
    "1.3.14.3.2.7",
];

/// RFC 9579.
const PBMAC1: &str = "1.2.840.113549.1.5.14";
/// 1.2.840.113549.1.5.12.
const PBKDF2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c";
/// 1.2.840.113549.2 and the number of a hash.
const HMAC: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x02";
const HMAC_SHA1: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x02\x07";

/// A block cipher with a derivation of its key and its initialisation vector.
struct Scheme {
    /// The object identifier.
    oid: &'static [u8],
    derive: Derive,
    cipher: Cipher,
    /// The length of the key.
    length: usize,
}

/// The schemes of PKCS #12 and PBES1. They have the same parameters.
#[rustfmt::skip]
const SCHEMES: [Scheme; 8] = [
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01\x03", derive: pkcs12, cipher: cbc::<TdesEde3>, length: 24 },
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01\x04", derive: pkcs12, cipher: cbc::<TdesEde2>, length: 16 },
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01\x05", derive: pkcs12, cipher: cbc::<Rc2>, length: 16 },
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x0c\x01\x06", derive: pkcs12, cipher: cbc::<Rc2>, length: 5 },
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x03", derive: pbkdf1::<Md5>, cipher: cbc::<Des>, length: 8 },
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x06", derive: pbkdf1::<Md5>, cipher: cbc::<Rc2>, length: 8 },
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0a", derive: pbkdf1::<Sha1>, cipher: cbc::<Des>, length: 8 },
    Scheme { oid: b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0b", derive: pbkdf1::<Sha1>, cipher: cbc::<Rc2>, length: 8 },
];

/// The ciphers of encrypted PEM files, each with the lengths of its key and its initialisation
/// vector.
const DEK_INFO: [(&str, Cipher, usize, usize); 5] = [
    ("AES-128-CBC", cbc::<Aes128>, 16, 16),
    ("AES-192-CBC", cbc::<Aes192>, 24, 16),
    ("AES-256-CBC", cbc::<Aes256>, 32, 16),
    ("DES-EDE3-CBC", cbc::<TdesEde3>, 24, 8),
    ("DES-CBC", cbc::<Des>, 8, 8),
];

/// Derives the key of this length, and the initialisation vector of 8 bytes behind it.
type Derive = fn(&mut Password<'_>, &[u8], u64, usize) -> Result<Zeroizing<Vec<u8>>, Error>;

/// Decrypts the data in its place, and returns the length without the padding.
type Cipher = fn(key: &[u8], iv: &[u8], data: &mut [u8]) -> Option<usize>;

fn cbc<C: BlockCipherDecrypt + KeyInit>(key: &[u8], iv: &[u8], data: &mut [u8]) -> Option<usize> {
    let decryptor = Decryptor::inner_iv_slice_init(C::new_from_slice(key).ok()?, iv).ok()?;
    decryptor.decrypt_padded::<Pkcs7>(data).ok().map(<[u8]>::len)
}

/// Decrypts data that was encrypted with this AlgorithmIdentifier.
pub(crate) fn decrypt(
    algorithm: &Element<'_>,
    data: &[u8],
    password: &mut Password<'_>,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let damaged = Error::Damaged("parameters of the encryption");
    if let [oid, parameters] = ber::elements(algorithm.content).unwrap_or_default()[..]
        && let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.oid == oid.content)
    {
        let (salt, count) = match ber::elements(parameters.content).unwrap_or_default()[..] {
            [salt, count] if salt.tag == OCTET_STRING => (salt.content, ber::number(&count).ok_or(damaged)?),
            _ => return Err(damaged),
        };
        // The longest key needs two digests, and the initialisation vector one.
        count_iterations(count.saturating_mul(3), password)?;
        let derived = (scheme.derive)(password, salt, count, scheme.length)?;
        let (key, iv) = derived.split_at(scheme.length);
        return decrypted(scheme.cipher, key, iv, data);
    }
    let scheme = EncryptionScheme::from_der(algorithm.whole).map_err(|_| unsupported(algorithm))?;
    limit(algorithm, &scheme, password)?;
    scheme.decrypt(password.get()?, data).map(Zeroizing::new).map_err(|_| Error::PasswordWrong)
}

fn decrypted(cipher: Cipher, key: &[u8], iv: &[u8], data: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    let mut plain = Zeroizing::new(data.to_vec());
    let length = cipher(key, iv, &mut plain).ok_or(Error::PasswordWrong)?;
    plain.truncate(length);
    Ok(plain)
}

/// Decrypts the data of a PEM file with the value of its header DEK-Info: a cipher, a comma, and an
/// initialisation vector. OpenSSL derives the key with MD5. Its salt is the start of the vector.
pub(crate) fn decrypt_pem(
    dek_info: &str,
    data: &[u8],
    password: &mut Password<'_>,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    const DAMAGED: Error = Error::Damaged("PEM file: the header DEK-Info");
    let (name, iv) = dek_info.split_once(',').ok_or(DAMAGED)?;
    let name = name.trim();
    let Some((_, cipher, length, iv_length)) = DEK_INFO.iter().find(|(known, ..)| *known == name) else {
        return Err(Error::Encryption(format!("{name:.20} in DEK-Info")));
    };
    let iv = from_hex(iv.trim()).filter(|iv| iv.len() == *iv_length).ok_or(DAMAGED)?;
    let key = bytes_to_key::<Md5>(password.get()?, &iv[..8], 1, *length);
    decrypted(*cipher, &key, &iv, data)
}

fn count_iterations(count: u64, password: &mut Password<'_>) -> Result<(), Error> {
    if password.count(count, MAX_ITERATIONS) { Ok(()) } else { Err(TOO_MUCH) }
}

fn limit(
    algorithm: &Element<'_>,
    scheme: &EncryptionScheme,
    password: &mut Password<'_>,
) -> Result<(), Error> {
    match scheme.pbes2().map(|parameters| &parameters.kdf) {
        Some(Kdf::Pbkdf2(kdf)) => count_iterations(kdf.iteration_count.into(), password),
        Some(Kdf::Scrypt(kdf)) => {
            // pkcs5 0.8.1 overflows if N is 0. RFC 7914, 2: N is a power of 2 greater than 1.
            if kdf.cost_parameter < 2 || !kdf.cost_parameter.is_power_of_two() {
                return Err(Error::Damaged("parameters of the encryption: the cost of scrypt"));
            }
            let work = (128 * u64::from(kdf.block_size))
                .checked_mul(kdf.cost_parameter)
                .and_then(|memory| memory.checked_mul(u64::from(kdf.parallelization).max(1)));
            match work.filter(|work| *work <= MAX_SCRYPT) {
                Some(work) if password.count(work, SCRYPT_KEYS * MAX_SCRYPT) => Ok(()),
                _ => Err(TOO_MUCH),
            }
        }
        _ => Err(unsupported(algorithm)),
    }
}

/// Names an algorithm that is not supported: the first part that has a name here, or the parts that
/// are not supported. If each part is supported, the parameters are damaged.
fn unsupported(algorithm: &Element<'_>) -> Error {
    let mut oids = identifiers(algorithm.content);
    oids.retain(|oid| !PARTS.contains(&oid.as_str()));
    if oids.is_empty() {
        // The salt has at most 32 bytes in the crate pkcs5.
        return Error::Damaged("parameters of the encryption, or the salt is longer than 32 bytes");
    }
    let fits = |known: &str, oid: &str| oid == known || known.ends_with('.') && oid.starts_with(known);
    let name =
        |oid: &String| NAMES.iter().find(|(known, _)| fits(known, oid)).map(|(_, name)| (*name).to_owned());
    Error::Encryption(oids.iter().find_map(name).unwrap_or_else(|| oids.join(" with ")))
}

fn identifiers(content: &[u8]) -> Vec<String> {
    let elements = ber::elements(content).unwrap_or_default().into_iter();
    let of = |element: Element<'_>| match element.tag {
        OID => {
            ObjectIdentifier::from_bytes(element.content).map(|oid| vec![oid.to_string()]).unwrap_or_default()
        }
        SEQUENCE => identifiers(element.content),
        _ => Vec::new(),
    };
    elements.flat_map(of).collect()
}

/// Finds out which password has this MAC (RFC 7292, 4: MacData) for the data: none, an empty one,
/// or that of the user. Only the last one is asked for.
pub(crate) fn verify_mac(mac: &Element<'_>, data: &[u8], password: &mut Password<'_>) -> Result<(), Error> {
    let damaged = || Error::Damaged("MAC of the PKCS#12 file");
    let (info, salt, count) = match ber::elements(mac.content).ok_or_else(damaged)?[..] {
        [info, salt] => (info, salt, 1),
        [info, salt, count] if count.tag == INTEGER => (info, salt, ber::number(&count).ok_or_else(damaged)?),
        _ => return Err(damaged()),
    };
    let [algorithm, digest] = ber::elements(info.content).ok_or_else(damaged)?[..] else {
        return Err(damaged());
    };
    let (oid, _) = ber::first(algorithm.content).ok_or_else(damaged)?;
    let oid = ObjectIdentifier::from_bytes(oid.content).map_err(|_| damaged())?.to_string();
    if oid == PBMAC1 {
        return verify_pbmac1(&algorithm, digest.content, data, password);
    }
    let verify = match oid.as_str() {
        "1.3.14.3.2.26" => has_mac::<Sha1>,
        "2.16.840.1.101.3.4.2.4" => has_mac::<Sha224>,
        "2.16.840.1.101.3.4.2.1" => has_mac::<Sha256>,
        "2.16.840.1.101.3.4.2.2" => has_mac::<Sha384>,
        "2.16.840.1.101.3.4.2.3" => has_mac::<Sha512>,
        _ => return Err(unsupported(&info)),
    };
    count_iterations(count.saturating_mul(3), password)?;
    let fits = |secret: &[u8]| verify(secret, salt.content, count, data, digest.content);
    for is_null in [true, false] {
        if fits(if is_null { b"" } else { b"\0\0" }) {
            password.is_empty(is_null);
            return Ok(());
        }
    }
    if fits(&password.utf16()?) { Ok(()) } else { Err(Error::PasswordWrong) }
}

/// Finds out which password has this MAC of RFC 9579. The MacData around it have a salt and a count
/// without a meaning.
fn verify_pbmac1(
    algorithm: &Element<'_>,
    mac: &[u8],
    data: &[u8],
    password: &mut Password<'_>,
) -> Result<(), Error> {
    const DAMAGED: Error = Error::Damaged("parameters of PBMAC1");
    let parameters = ber::elements(algorithm.content).ok_or(DAMAGED)?;
    let [_, parameters] = parameters[..] else { return Err(DAMAGED) };
    let [kdf, scheme] = ber::elements(parameters.content).ok_or(DAMAGED)?[..] else { return Err(DAMAGED) };
    let [kdf_oid, kdf] = ber::elements(kdf.content).ok_or(DAMAGED)?[..] else { return Err(DAMAGED) };
    let (scheme, _) = ber::first(scheme.content).ok_or(DAMAGED)?;
    // The length of the key is there (RFC 9579, 5). Without a function, it is HMAC with SHA-1.
    let (salt, count, length, function) = match ber::elements(kdf.content).ok_or(DAMAGED)?[..] {
        [salt, count, length] => (salt, count, length, None),
        [salt, count, length, function] => (salt, count, length, ber::first(function.content)),
        _ => return Err(DAMAGED),
    };
    let function = function.map_or(HMAC_SHA1, |(oid, _)| oid.content);
    let hash = |oid: &[u8]| HMACS.iter().find(|hash| oid == [HMAC, &[hash.number]].concat());
    let (Some(function), Some(scheme), PBKDF2) = (hash(function), hash(scheme.content), kdf_oid.content)
    else {
        return Err(unsupported(algorithm));
    };
    let count = ber::number(&count).and_then(|count| u32::try_from(count).ok()).ok_or(DAMAGED)?;
    let length = ber::number(&length).filter(|length| (20..=64).contains(length)).ok_or(DAMAGED)?;
    count_iterations(u64::from(count).saturating_mul(length.div_ceil(20)), password)?;
    let fits = |secret: &[u8]| {
        let mut key = Zeroizing::new(vec![0; length as usize]);
        (function.derive)(secret, salt.content, count, &mut key);
        (scheme.verify)(&key, data, mac)
    };
    if fits(b"") {
        password.is_empty(true);
        return Ok(());
    }
    if fits(password.get()?.as_bytes()) { Ok(()) } else { Err(Error::PasswordWrong) }
}

/// HMAC with a hash: as the function of PBKDF2, and as a MAC.
struct HmacHash {
    /// The last number of its identifier.
    number: u8,
    derive: fn(&[u8], &[u8], u32, &mut [u8]),
    verify: fn(&[u8], &[u8], &[u8]) -> bool,
}

const HMACS: [HmacHash; 5] = [
    HmacHash { number: 7, derive: pbkdf2_hmac::<Sha1>, verify: is_hmac::<Sha1> },
    HmacHash { number: 8, derive: pbkdf2_hmac::<Sha224>, verify: is_hmac::<Sha224> },
    HmacHash { number: 9, derive: pbkdf2_hmac::<Sha256>, verify: is_hmac::<Sha256> },
    HmacHash { number: 10, derive: pbkdf2_hmac::<Sha384>, verify: is_hmac::<Sha384> },
    HmacHash { number: 11, derive: pbkdf2_hmac::<Sha512>, verify: is_hmac::<Sha512> },
];

fn is_hmac<D: Digest + BlockSizeUser>(key: &[u8], data: &[u8], mac: &[u8]) -> bool {
    let keyed = SimpleHmac::<D>::new_from_slice(key);
    keyed.is_ok_and(|keyed| keyed.chain_update(data).verify_slice(mac).is_ok())
}

/// Computes the MAC with SHA-256 of a new file.
pub(crate) fn mac(data: &[u8], password: &str, salt: &[u8], count: u64) -> Vec<u8> {
    let secret: Vec<u8> = password.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect();
    let key = derive::<Sha256>(&Zeroizing::new(secret), salt, 3, count, 32);
    let keyed = SimpleHmac::<Sha256>::new_from_slice(&key).expect("HMAC takes keys of every length");
    keyed.chain_update(data).finalize().into_bytes().to_vec()
}

fn has_mac<D: Digest + BlockSizeUser>(
    secret: &[u8],
    salt: &[u8],
    count: u64,
    data: &[u8],
    mac: &[u8],
) -> bool {
    let key = derive::<D>(secret, salt, 3, count, <D as Digest>::output_size());
    is_hmac::<D>(&key, data, mac)
}

fn pkcs12(
    password: &mut Password<'_>,
    salt: &[u8],
    count: u64,
    length: usize,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let secret = password.utf16()?;
    let mut derived = Zeroizing::new(Vec::with_capacity(length + 8));
    derived.extend_from_slice(&derive::<Sha1>(&secret, salt, 1, count, length));
    derived.extend_from_slice(&derive::<Sha1>(&secret, salt, 2, count, 8));
    Ok(derived)
}

/// RFC 8018, 5.1 and 6.1: the key and the initialisation vector are parts of one digest.
fn pbkdf1<D: Digest>(
    password: &mut Password<'_>,
    salt: &[u8],
    count: u64,
    length: usize,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    Ok(bytes_to_key::<D>(password.get()?, salt, count, length + 8))
}

/// PBKDF1 for a key of any length, as `EVP_BytesToKey` of OpenSSL extends it: each further digest
/// also has the one before it as input.
fn bytes_to_key<D: Digest>(password: &str, salt: &[u8], count: u64, length: usize) -> Zeroizing<Vec<u8>> {
    let size = <D as Digest>::output_size();
    let mut key = Zeroizing::new(Vec::with_capacity(length + size));
    while key.len() < length {
        let last = key.len().saturating_sub(size);
        let digest = D::new().chain_update(&key[last..]).chain_update(password).chain_update(salt);
        let mut digest = digest.finalize();
        for _ in 1..count {
            digest = D::digest(&digest);
        }
        key.extend_from_slice(&digest);
    }
    key.truncate(length);
    key
}

/// RFC 7292, B.2: derives a key from a password in UTF-16 with a zero at its end.
fn derive<D: Digest + BlockSizeUser>(
    secret: &[u8],
    salt: &[u8],
    purpose: u8,
    count: u64,
    length: usize,
) -> Zeroizing<Vec<u8>> {
    let block = D::block_size();
    let filled = |bytes: &[u8]| {
        let length = bytes.len().next_multiple_of(block);
        Zeroizing::new(bytes.iter().copied().cycle().take(length).collect::<Vec<_>>())
    };
    let mut input = Zeroizing::new([filled(salt).as_slice(), filled(secret).as_slice()].concat());
    let mut key = Zeroizing::new(Vec::with_capacity(length + 64));
    while key.len() < length {
        let mut digest = D::new().chain_update(vec![purpose; block]).chain_update(&*input).finalize();
        for _ in 1..count {
            digest = D::digest(&digest);
        }
        key.extend_from_slice(&digest);
        for part in input.chunks_mut(block) {
            // Adds the repeated digest and 1.
            let mut carry = 1;
            for at in (0..block).rev() {
                carry += u16::from(part[at]) + u16::from(digest[at % digest.len()]);
                part[at] = carry as u8;
                carry >>= 8;
            }
        }
    }
    key.truncate(length);
    key
}
