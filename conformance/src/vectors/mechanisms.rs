//! The mechanism of a vector, with its parameter.

use cryptoki_sys::*;
use jeton_client::names::{self, CKM_ML_DSA_EXTERNAL_MU};
use jeton_client::{Mechanism, Memory, Structure};
use jeton_vectors::{Mac, Operation, Padding, Parameter, Scheme};

use crate::fixture::HASHES;

/// Returns the mechanism that carries out the operation, if PKCS#11 has it.
pub fn mechanism(operation: &Operation) -> Option<Mechanism> {
    Some(match operation {
        Operation::Verify { scheme, .. } => match scheme {
            Scheme::Pkcs1 { hash } => Mechanism::new(named(&format!("{}_RSA_PKCS", word(hash)))?),
            Scheme::Pss { hash, mgf, salt_len } => {
                let kind = named(&format!("{}_RSA_PKCS_PSS", word(hash)))?;
                Mechanism::with_numbers(kind, &[digest(hash)?, mask(mgf)?, *salt_len as CK_ULONG])
            }
            // The message is a digest.
            Scheme::Ecdsa { hash } if hash.is_empty() => Mechanism::new(CKM_ECDSA),
            Scheme::Ecdsa { hash } => Mechanism::new(named(&format!("ECDSA_{}", word(hash)))?),
            // PKCS#11 3.2, "EdDSA": Ed25519 has no parameter, Ed448 must have one.
            Scheme::Ed25519 => Mechanism::new(CKM_EDDSA),
            Scheme::Ed448 => eddsa(false, &[]),
            Scheme::MlDsa { context } => hedged(CKM_ML_DSA, CKH_HEDGE_PREFERRED, context),
            Scheme::MlDsaMu => hedged(CKM_ML_DSA_EXTERNAL_MU, CKH_HEDGE_PREFERRED, &[]),
            Scheme::Stateful { family } => Mechanism::new(named(family)?),
        },
        Operation::Digest { hash, .. } => Mechanism::new(digest(hash)?),
        Operation::SignEddsa { key, prehash, .. } => match &key.context {
            None => Mechanism::new(CKM_EDDSA),
            Some(context) => eddsa(prehash.is_some(), context),
        },
        Operation::Sign { scheme: Scheme::MlDsa { context }, .. } => {
            hedged(CKM_ML_DSA, CKH_DETERMINISTIC_REQUIRED, context)
        }
        Operation::Sign { .. } => hedged(CKM_ML_DSA_EXTERNAL_MU, CKH_DETERMINISTIC_REQUIRED, &[]),
        Operation::Crypt { cipher, parameter, sealed, .. } => symmetric(cipher, parameter, sealed.len())?,
        Operation::Mac { mac, .. } => match mac {
            Mac::Cmac => Mechanism::new(CKM_AES_CMAC),
            Mac::Xcbc => Mechanism::new(CKM_AES_XCBC_MAC),
            Mac::Gmac { iv } => {
                let parameter = Structure::new().bytes(iv).number(iv.len() as CK_ULONG * 8);
                parameter.bytes(b"").number(128).mechanism(CKM_AES_GMAC)
            }
            Mac::Hmac { hash } => Mechanism::new(named(&format!("{}_HMAC", digest_word(hash)))?),
        },
        Operation::Hkdf { hash, salt, info, .. } => {
            let kind = if salt.is_empty() { CKF_HKDF_SALT_NULL } else { CKF_HKDF_SALT_DATA };
            let parameter = Structure::new().flag(true).flag(true).number(digest(hash)?).number(kind);
            parameter.bytes(salt).number(0).bytes(info).mechanism(CKM_HKDF_DERIVE)
        }
        Operation::Decrypt { padding: Padding::Pkcs1, .. } => Mechanism::new(CKM_RSA_PKCS),
        Operation::Decrypt { padding: Padding::Oaep { hash, mgf, label }, .. } => {
            let parameter = Structure::new().number(digest(hash)?).number(mask(mgf)?);
            parameter.number(CKZ_DATA_SPECIFIED).bytes(label).mechanism(CKM_RSA_PKCS_OAEP)
        }
        Operation::Agree { peer, .. } => {
            Structure::new().number(CKD_NULL).counted(&[]).counted(peer).mechanism(CKM_ECDH1_DERIVE)
        }
        Operation::Keys(pair) if pair.set.starts_with("ML-DSA") => Mechanism::new(CKM_ML_DSA),
        Operation::Keys(pair) if pair.set.starts_with("SLH-DSA") => Mechanism::new(CKM_SLH_DSA),
        Operation::Keys(_) | Operation::Kem { .. } => Mechanism::new(CKM_ML_KEM),
    })
}

/// Returns the mechanism that shows whether the module has keys of this type, if the mechanism of
/// the operation does not show it.
pub fn generation(operation: &Operation) -> Option<CK_MECHANISM_TYPE> {
    match operation {
        Operation::Agree { curve, .. } if !curve.is_weierstrass() => Some(CKM_EC_MONTGOMERY_KEY_PAIR_GEN),
        _ => None,
    }
}

fn symmetric(cipher: &str, parameter: &Parameter, sealed: usize) -> Option<Mechanism> {
    let Parameter { iv, aad, tag_len, counter } = parameter;
    let number = |value: usize| value as CK_ULONG;
    let with_iv = |kind| Mechanism::with_bytes(kind, iv);
    Some(match cipher {
        // The standard allows longer ones since version 3.0 only.
        "AES-GCM" if iv.len() > 256 => return None,
        "AES-GCM" => {
            let parameter = Structure::new().bytes(iv).number(number(8 * iv.len()));
            parameter.bytes(aad).number(number(8 * tag_len)).mechanism(CKM_AES_GCM)
        }
        "AES-CCM" => {
            let parameter = Structure::new().number(number(sealed.saturating_sub(*tag_len)));
            parameter.bytes(iv).bytes(aad).number(number(*tag_len)).mechanism(CKM_AES_CCM)
        }
        "CHACHA20-POLY1305" => Structure::new().bytes(iv).bytes(aad).mechanism(CKM_CHACHA20_POLY1305),
        "CHACHA20" => {
            // A nonce of 12 bytes leaves 32 bits for the counter, and a nonce of 8 bytes 64.
            let (counter, nonce) = (Memory::of(&counter.to_le_bytes()[..16 - iv.len()]), Memory::of(iv));
            let parameter = Structure::new().pointer(&counter).number(number(8 * counter.len()));
            parameter.pointer(&nonce).number(number(8 * iv.len())).mechanism(CKM_CHACHA20)
        }
        "AES-CTR" => Structure::new().number(128).inline(iv).mechanism(CKM_AES_CTR),
        "AES-ECB" => Mechanism::new(CKM_AES_ECB),
        "AES-WRAP" => Mechanism::new(CKM_AES_KEY_WRAP),
        "AES-KWP" => Mechanism::new(CKM_AES_KEY_WRAP_KWP),
        "AES-CBC-PKCS5" => with_iv(CKM_AES_CBC_PAD),
        // AES_CBC, AES_CTS, AES_OFB, AES_XTS, AES_CFB1, AES_CFB8 and AES_CFB128.
        other => with_iv(named(&other.replace('-', "_"))?),
    })
}

fn hedged(kind: CK_MECHANISM_TYPE, hedge: CK_ULONG, context: &[u8]) -> Mechanism {
    Structure::new().number(hedge).bytes(context).mechanism(kind)
}

fn eddsa(prehash: bool, context: &[u8]) -> Mechanism {
    Structure::new().flag(prehash).counted(context).mechanism(CKM_EDDSA)
}

fn named(name: &str) -> Option<CK_MECHANISM_TYPE> {
    names::mechanism_called(name)
}

/// Returns the hash as names of signature mechanisms spell it: `SHA1`, `SHA512_224`, `SHA3_256`.
fn word(hash: &str) -> String {
    hash.replace("SHA-", "SHA").replace(['-', '/'], "_")
}

/// Returns the hash as names of digests and HMACs spell it: `SHA_1`, otherwise as [`word`].
fn digest_word(hash: &str) -> String {
    if hash == "SHA-1" { "SHA_1".to_owned() } else { word(hash) }
}

fn digest(hash: &str) -> Option<CK_MECHANISM_TYPE> {
    named(&digest_word(hash))
}

fn mask(hash: &str) -> Option<CK_RSA_PKCS_MGF_TYPE> {
    let word = word(hash);
    HASHES.into_iter().find(|(name, _)| *name == word).map(|(_, [_, mask, _])| mask)
}
