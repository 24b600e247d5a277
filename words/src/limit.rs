//! The parameters that the mechanisms may have. The C interface makes no other ones from structs,
//! so that another one in a message comes from a sender that is not our client.

use jeton_names::structs::{
    AAD, CONTEXT, DATA, ITERATIONS, MAC, PASSWORD_LIMIT, PEER, PSS_SALT, TLS_BITS, TR,
};

use crate::cipher::{AeadScheme, CipherMode, CipherScheme};
use crate::hash::Hash;
use crate::params::{AgreementKdf, HkdfSalt, MuKey, Params};
use crate::shape::{MacFunction, Shape};
use crate::sp800_108::{Field, Kdf, Number};
use crate::tls::{Randoms, TlsPrf};

/// Maximum length in bytes of a message that the caller may announce for CCM. CCM holds the full
/// message in memory before it returns output.
pub const CCM_MESSAGE: usize = 1 << 31;
/// Maximum length of a "Big integer" in bytes: a Diffie-Hellman public value of 8192 bits with
/// leading zeros.
pub const INTEGER: usize = 1024 + 16;
/// The length in bytes of `verify_data` in TLS 1.0 and 1.1, and the minimum length in TLS 1.2.
const VERIFY_DATA: usize = 12;
/// Maximum length in bytes of `verify_data` in TLS 1.2. The limit is this token's own.
const MAX_VERIFY_DATA: usize = 256;
/// Maximum length of a counter in bytes (SP 800-108, 4).
const COUNTER: usize = 4;
/// Maximum length of a length field in bytes.
const LENGTH: usize = 8;

/// Returns whether a mechanism of this shape may have the parameter: it is that of the shape, each
/// length is one for which the core has memory and time, and each number is in its range.
pub fn fits(params: &Params, shape: Shape) -> bool {
    let data = |bytes: &[u8]| within(bytes, DATA);
    let both = |randoms: &Randoms| data(&randoms.client) && data(&randoms.server);
    let hashes = |hash: &Hash, mgf: &Hash| is_digest(*hash) && is_mask(*mgf);
    match (shape, params) {
        (Shape::None, Params::None) => true,
        // "If no parameter is supplied …". The functions for messages have the parameter of each.
        (Shape::Eddsa | Shape::SignContext | Shape::Cipher(CipherMode::Aead(_)), Params::None) => true,
        (Shape::Pss, Params::Pss { hash, mgf, salt_len }) => {
            hashes(hash, mgf) && *salt_len as u64 <= PSS_SALT
        }
        (Shape::Eddsa, Params::Eddsa { context, .. })
        | (Shape::SignContext, Params::SignContext { context, hash: None, .. })
        | (Shape::HashSignContext, Params::SignContext { context, hash: Some(_), .. }) => {
            within(context, CONTEXT)
        }
        (Shape::MuGen, Params::MuGen { key, context }) => {
            let is_hash = |hash: &[u8]| hash.len() as u64 == TR;
            within(context, CONTEXT) && if let MuKey::Hash(hash) = key { is_hash(hash) } else { true }
        }
        (Shape::Oaep, Params::Oaep { hash, mgf, label }) => hashes(hash, mgf) && data(label),
        (Shape::RsaAesWrap, Params::RsaAesWrap { aes_bits, hash, mgf, label }) => {
            is_aes(*aes_bits) && hashes(hash, mgf) && data(label)
        }
        (Shape::Cipher(mode), Params::Cipher(scheme)) => scheme.mode() == mode && cipher_fits(scheme),
        (Shape::Gmac, Params::Gmac { iv, tag_len }) => AeadScheme::AesGcm.takes(iv.len(), *tag_len),
        (Shape::Length, Params::Length(len)) => (1..=MAC).contains(&(*len as u64)),
        (Shape::Ecdh, Params::Ecdh { kdf, shared, peer }) => {
            agreement_fits(*kdf, shared) && within(peer, PEER)
        }
        (Shape::EcdhAesWrap, Params::EcdhAesWrap { aes_bits, kdf, shared }) => {
            is_aes(*aes_bits as u64) && agreement_fits(*kdf, shared)
        }
        (Shape::Hkdf, Params::Hkdf { extract, expand, hash, salt, info }) => {
            let has_salt = match salt {
                HkdfSalt::Null => true,
                HkdfSalt::Data(salt) => *extract && data(salt),
                HkdfSalt::Key(_) => *extract,
            };
            let has_info = info.is_empty() || *expand && data(info);
            (*extract || *expand) && is_digest(*hash) && has_salt && has_info
        }
        (Shape::Data, Params::Data(bytes)) | (Shape::CbcData, Params::CbcData { data: bytes, .. }) => {
            data(bytes)
        }
        (Shape::Integer, Params::Data(bytes)) => bytes.len() <= INTEGER,
        (Shape::Key, Params::Key(_)) | (Shape::Bit, Params::Bit(_)) => true,
        (Shape::Otp, Params::Otp { .. }) | (Shape::Version, Params::Version(_)) => true,
        (Shape::Sp800_108(kdf), Params::Sp800_108 { prf, fields, iv }) => {
            matches!(prf, MacFunction::Hmac(_) | MacFunction::AesCmac)
                && is_prf(*prf)
                && fields_fit(kdf, fields)
                && if kdf == Kdf::Feedback { data(iv) } else { iv.is_empty() }
        }
        (Shape::Pbkdf2, Params::Pbkdf2 { hash, salt, iterations, password }) => {
            use Hash::{Sha1, Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
            matches!(hash, Sha1 | Sha224 | Sha256 | Sha384 | Sha512 | Sha512_224 | Sha512_256)
                && data(salt)
                && (1..=ITERATIONS).contains(&u64::from(*iterations))
                && (password.0.len() as u64) < PASSWORD_LIMIT
        }
        (Shape::TlsMaster(_), Params::TlsMaster { prf: TlsPrf::Md5Sha1, randoms }) => both(randoms),
        (Shape::Tls12Master(_), Params::TlsMaster { prf: TlsPrf::Hash(hash), randoms }) => {
            is_digest(*hash) && both(randoms)
        }
        (
            Shape::Tls12ExtendedMaster(_),
            Params::TlsExtendedMaster { prf: TlsPrf::Hash(hash), session_hash },
        ) => is_digest(*hash) && !session_hash.is_empty() && data(session_hash),
        (
            Shape::TlsKeys | Shape::Tls12Keys | Shape::Tls12SafeKeys,
            Params::TlsKeys { prf, randoms, mac_len, key_len, iv_len },
        ) => {
            let is_prf = match prf {
                TlsPrf::Md5Sha1 => shape == Shape::TlsKeys,
                TlsPrf::Hash(hash) => shape != Shape::TlsKeys && is_digest(*hash),
            };
            let are_short = [mac_len, key_len, iv_len].iter().all(|len| **len as u64 <= TLS_BITS / 8);
            // The initialisation vectors are the rest of the key block, in clear.
            is_prf && are_short && both(randoms) && (shape != Shape::Tls12SafeKeys || *iv_len == 0)
        }
        (Shape::TlsKdf, Params::TlsKdf { prf, label, randoms, context }) => {
            let has_context = context.as_ref().is_none_or(|context| within(context, 0xffff));
            is_any_prf(*prf) && data(label) && both(randoms) && has_context
        }
        (Shape::TlsMac, Params::TlsMac { prf, len, .. }) => {
            let most = if *prf == TlsPrf::Md5Sha1 { VERIFY_DATA } else { MAX_VERIFY_DATA };
            is_any_prf(*prf) && (VERIFY_DATA..=most).contains(len)
        }
        (Shape::TlsPrf, Params::TlsPrf { seed, label, len }) => {
            data(seed) && data(label) && (1..=DATA).contains(&(*len as u64))
        }
        (Shape::IkePrf, Params::IkePrf { prf, data_as_key, nonces, new_key }) => {
            is_prf(*prf) && within(nonces, 2 * DATA) && !(*data_as_key && new_key.is_some())
        }
        (Shape::Ike1Prf, Params::Ike1Prf { prf, cookies, .. }) => is_prf(*prf) && within(cookies, 2 * DATA),
        (Shape::Ike1Extended, Params::Ike1Extended { prf, extra, .. }) => is_prf(*prf) && data(extra),
        (Shape::Ike2PrfPlus, Params::Ike2PrfPlus { prf, seed, .. }) => is_prf(*prf) && data(seed),
        _ => false,
    }
}

fn within(bytes: &[u8], most: u64) -> bool {
    bytes.len() as u64 <= most
}

fn is_aes(bits: u64) -> bool {
    matches!(bits, 128 | 192 | 256)
}

/// Returns whether the hash has a mechanism of its own, by which a parameter names it.
fn is_digest(hash: Hash) -> bool {
    !matches!(hash, Hash::Shake128 | Hash::Shake256)
}

/// Returns whether the hash has a mask generation function (`CKG_MGF1_*`).
fn is_mask(hash: Hash) -> bool {
    is_digest(hash) && !hash.is_blake2b() && !matches!(hash, Hash::Sha512_224 | Hash::Sha512_256)
}

/// Returns whether it is the pseudo-random function of a key derivation: a MAC without a parameter.
fn is_prf(function: MacFunction) -> bool {
    match function {
        MacFunction::Hmac(hash) => is_digest(hash),
        MacFunction::AesCmac | MacFunction::AesXcbc(16) => true,
        _ => false,
    }
}

/// Returns whether a parameter names this function of a TLS version.
fn is_any_prf(prf: TlsPrf) -> bool {
    if let TlsPrf::Hash(hash) = prf { is_digest(hash) } else { true }
}

/// PKCS#11 3.2, CK_ECDH1_DERIVE_PARAMS: with `CKD_NULL` there is no shared information.
fn agreement_fits(kdf: Option<AgreementKdf>, shared: &[u8]) -> bool {
    match kdf {
        None => shared.is_empty(),
        Some(AgreementKdf::X963(hash)) => (is_mask(hash) || hash.is_blake2b()) && within(shared, DATA),
        Some(AgreementKdf::OneStep(hash)) => is_mask(hash) && within(shared, DATA),
    }
}

fn cipher_fits(scheme: &CipherScheme) -> bool {
    match scheme {
        CipherScheme::Aead { cipher, nonce, aad, tag_len, data_len } => {
            let is_message = match cipher {
                AeadScheme::AesCcm => {
                    *data_len <= CCM_MESSAGE && AeadScheme::check_ccm_len(nonce.len(), *data_len).is_ok()
                }
                _ => *data_len == 0,
            };
            cipher.takes(nonce.len(), *tag_len) && within(aad, AAD) && is_message
        }
        CipherScheme::AesCtr { bits, .. } => (1..=128).contains(bits),
        CipherScheme::ChaCha20 { nonce, counter } => match nonce.len() {
            8 => true,
            12 => u32::try_from(*counter).is_ok(),
            _ => false,
        },
        _ => true,
    }
}

/// The iteration variable "is mandatory", and the counter and the length have "only one instance".
/// Of the iteration variable only a counter has an encoding.
fn fields_fit(kdf: Kdf, fields: &[Field]) -> bool {
    let fits = |number: &Number, most| (1..=most).contains(&number.len);
    let [mut iterations, mut counters, mut lengths] = [0; 3];
    let each = fields.iter().all(|field| match field {
        Field::Iteration(encoding) => {
            iterations += 1;
            let is_counter = encoding.is_some();
            is_counter == (kdf == Kdf::Counter)
                && encoding.as_ref().is_none_or(|number| fits(number, COUNTER))
        }
        Field::Counter(number) => {
            counters += 1;
            kdf != Kdf::Counter && fits(number, COUNTER)
        }
        Field::Length { number, .. } => {
            lengths += 1;
            fits(number, LENGTH)
        }
        Field::Bytes(bytes) => !bytes.is_empty() && within(bytes, DATA),
        Field::Key(_) => true,
    });
    each && iterations == 1 && counters <= 1 && lengths <= 1
}
