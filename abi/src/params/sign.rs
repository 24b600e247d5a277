//! The parameters of signatures and MACs. The parameters of RSA are in the file `rsa.rs`.

use cryptoki_sys::*;
use jeton_names::structs::{MuGen, TR};
use jeton_words::error::{Error, Result, require};
use jeton_words::hash::Hash;
use jeton_words::id::ObjectHandle;
use jeton_words::params::{MuKey, Params};

use super::{Parts, boolean, hash, named, read, size};
use crate::ck_ulong::object;

/// Whether signatures with a hedge variant are deterministic. PKCS#11 3.2, "ML-DSA Signature":
/// `CKH_HEDGE_PREFERRED` leaves the choice to the token. This token then makes hedged signatures.
const DETERMINISTIC: [(CK_HEDGE_TYPE, bool); 3] =
    [(CKH_HEDGE_PREFERRED, false), (CKH_HEDGE_REQUIRED, false), (CKH_DETERMINISTIC_REQUIRED, true)];

/// The SHAKE functions. PKCS#11 has no digest mechanism for them. The caller names a SHAKE function
/// by its mechanism for key derivation.
const SHAKES: [(CK_MECHANISM_TYPE, Hash); 2] =
    [(CKM_SHAKE_128_KEY_DERIVATION, Hash::Shake128), (CKM_SHAKE_256_KEY_DERIVATION, Hash::Shake256)];

pub(super) fn eddsa(given: CK_EDDSA_PARAMS, [context]: Parts<1>) -> Result<Params> {
    let prehash = boolean(given.phFlag)?;
    Ok(Params::Eddsa { prehash, context })
}

pub(super) fn context(given: CK_SIGN_ADDITIONAL_CONTEXT, [context]: Parts<1>) -> Result<Params> {
    sign_context(given.hedgeVariant, context, None)
}

pub(super) fn hash_context(given: CK_HASH_SIGN_ADDITIONAL_CONTEXT, [context]: Parts<1>) -> Result<Params> {
    let hash = hash(given.hash).or_else(|_| named(&SHAKES, given.hash))?;
    sign_context(given.hedgeVariant, context, Some(hash))
}

fn sign_context(hedge: CK_HEDGE_TYPE, context: Box<[u8]>, hash: Option<Hash>) -> Result<Params> {
    let deterministic = named(&DETERMINISTIC, hedge)?;
    Ok(Params::SignContext { deterministic, context, hash })
}

/// Reads `CK_MU_GEN_PARAMS`. PKCS#11 3.3, "ExternalMu-ML-DSA generation": "If the key handles is
/// empty then then a TR is expected".
pub(super) fn mu_gen(given: MuGen, [hash, context]: Parts<2>) -> Result<Params> {
    let key = match object(given.key) {
        ObjectHandle(0) => MuKey::Hash(hash),
        key => MuKey::Object(key),
    };
    let has_key = if let MuKey::Hash(hash) = &key { hash.len() as u64 == TR } else { true };
    require(has_key, Error::MechanismParamInvalid)?;
    Ok(Params::MuGen { key, context })
}

/// Reads `CK_MAC_GENERAL_PARAMS`.
pub(super) fn length(parameter: &[u8]) -> Result<Params> {
    // SAFETY: the parameter is an integer.
    size(unsafe { read::<CK_MAC_GENERAL_PARAMS>(parameter) }?).map(Params::Length)
}
