//! The limits of parameters in messages. The C interface has the same limits for structs, so a
//! parameter beyond them comes from a sender that is not our client.

use jeton_names::structs::{AAD, CONTEXT, DATA, ITERATIONS, MAC, PEER, PSS_SALT, TLS_BITS, TR};

use crate::cipher::CipherScheme;
use crate::params::{HkdfSalt, MuKey, Params};
use crate::shape::{MacFunction, Shape};
use crate::sp800_108::{Field, Number};
use crate::tls::{Randoms, TlsPrf};

/// Returns whether a mechanism of this shape may have the parameter: each length is one for which
/// the core has memory and time, and each number is in its range.
pub fn fits(params: &Params, shape: Shape) -> bool {
    let data = |bytes: &[u8]| within(bytes, DATA);
    let both = |randoms: &Randoms| data(&randoms.client) && data(&randoms.server);
    match params {
        Params::None | Params::Key(_) | Params::Bit(_) | Params::Version(_) | Params::Otp { .. } => true,
        Params::Pss { salt_len, .. } => *salt_len as u64 <= PSS_SALT,
        Params::Eddsa { context, .. } | Params::SignContext { context, .. } => within(context, CONTEXT),
        Params::MuGen { key, context } => {
            let is_hash = |hash: &[u8]| hash.len() as u64 == TR;
            within(context, CONTEXT) && if let MuKey::Hash(hash) = key { is_hash(hash) } else { true }
        }
        Params::Oaep { label, .. } => data(label),
        Params::RsaAesWrap { aes_bits, label, .. } => matches!(aes_bits, 128 | 192 | 256) && data(label),
        Params::Cipher(scheme) => cipher_fits(scheme),
        Params::Gmac { iv, tag_len } => (1..=256).contains(&iv.len()) && *tag_len <= 16,
        Params::Length(len) => (1..=MAC).contains(&(*len as u64)),
        Params::Ecdh { shared, peer, .. } => data(shared) && within(peer, PEER),
        Params::EcdhAesWrap { aes_bits, shared, .. } => matches!(aes_bits, 128 | 192 | 256) && data(shared),
        Params::Hkdf { extract, expand, salt, info, .. } => {
            let salt = if let HkdfSalt::Data(salt) = salt { data(salt) } else { true };
            (*extract || *expand) && salt && data(info)
        }
        Params::Data(bytes) | Params::CbcData { data: bytes, .. } => data(bytes),
        Params::Sp800_108 { prf, fields, iv } => {
            matches!(prf, MacFunction::Hmac(_) | MacFunction::AesCmac)
                && fields.iter().any(|field| matches!(field, Field::Iteration(_)))
                && fields.iter().all(field_fits)
                && data(iv)
        }
        Params::Pbkdf2 { salt, iterations, .. } => {
            data(salt) && (1..=ITERATIONS).contains(&u64::from(*iterations))
        }
        Params::TlsMaster { randoms, .. } => both(randoms),
        Params::TlsExtendedMaster { session_hash, .. } => !session_hash.is_empty() && data(session_hash),
        Params::TlsKeys { randoms, mac_len, key_len, iv_len, .. } => {
            let short = [mac_len, key_len, iv_len].iter().all(|len| **len as u64 <= TLS_BITS / 8);
            // The initialisation vectors are the rest of the key block, in clear.
            short && both(randoms) && (shape != Shape::Tls12SafeKeys || *iv_len == 0)
        }
        Params::TlsKdf { label, randoms, context, .. } => {
            data(label) && both(randoms) && context.as_ref().is_none_or(|context| within(context, 0xffff))
        }
        Params::TlsMac { prf: TlsPrf::Md5Sha1, len, .. } => *len == 12,
        Params::TlsMac { prf: TlsPrf::Hash(_), len, .. } => (12..=256).contains(len),
        Params::TlsPrf { seed, label, len } => {
            data(seed) && data(label) && (1..=DATA).contains(&(*len as u64))
        }
        Params::IkePrf { nonces: pair, .. } | Params::Ike1Prf { cookies: pair, .. } => within(pair, 2 * DATA),
        Params::Ike1Extended { extra, .. } => data(extra),
        Params::Ike2PrfPlus { seed, .. } => data(seed),
    }
}

fn within(bytes: &[u8], most: u64) -> bool {
    bytes.len() as u64 <= most
}

fn cipher_fits(scheme: &CipherScheme) -> bool {
    match scheme {
        CipherScheme::Aead { cipher, nonce, aad, tag_len, data_len } => {
            // The C interface has this limit for the messages of CCM, the only ones with a length.
            cipher.takes(nonce.len(), *tag_len) && within(aad, AAD) && *data_len as u64 <= 1 << 31
        }
        CipherScheme::AesCtr { bits, .. } => (1..=128).contains(bits),
        CipherScheme::AesCfb { bits, .. } => matches!(bits, 1 | 8 | 64 | 128),
        CipherScheme::ChaCha20 { nonce, .. } => matches!(nonce.len(), 8 | 12),
        _ => true,
    }
}

fn field_fits(field: &Field) -> bool {
    let number = |number: &Number, most| (1..=most).contains(&number.len);
    match field {
        Field::Iteration(encoding) => encoding.as_ref().is_none_or(|encoding| number(encoding, 4)),
        Field::Counter(encoding) => number(encoding, 4),
        Field::Length { number: encoding, .. } => number(encoding, 8),
        Field::Bytes(bytes) => within(bytes, DATA),
        Field::Key(_) => true,
    }
}
