//! Round trips of signatures with key pairs, and of RSA encryption. A changed signature or message
//! must not verify. For many of these mechanisms, the sets of Wycheproof have known answers.

use cryptoki_sys::*;
use jeton_client::names::{self, CKM_ML_DSA_EXTERNAL_MU, CKM_ML_DSA_EXTERNAL_MU_GEN};
use jeton_client::{Mechanism, Structure};

use super::{Rows, derivations, generation, signs, signs_in_parts};
use crate::cases::hash_sign;
use crate::fixture::{Answer, Fixture, HASHES, Key, SECRET, ensure, open_key, signed};

const MESSAGE: &[u8] = b"a message that is signed in one part and in several";

pub const RSA: Rows = &[
    (generation::pair, &["RSA_PKCS_KEY_PAIR_GEN"]),
    (encrypts, &["RSA_PKCS_OAEP", "RSA_PKCS", "RSA_X_509"]),
    (pss_raw, &["RSA_PKCS_PSS"]),
    (|fixture, kind| both(fixture, &Mechanism::new(kind), Key::Rsa), &["#_RSA_PKCS", "SHA1_RSA_PKCS"]),
    (pss, &["#_RSA_PKCS_PSS", "SHA1_RSA_PKCS_PSS"]),
    (rsa_aes_wrap, &["RSA_AES_KEY_WRAP"]),
];

pub const EC: Rows = &[
    (derivations::ecdh, &["ECDH1_DERIVE", "ECDH1_COFACTOR_DERIVE"]),
    (|fixture, kind| digest(fixture, &Mechanism::new(kind), Key::Ec), &["ECDSA"]),
    (|fixture, kind| both(fixture, &Mechanism::new(kind), Key::Ec), &["ECDSA_#", "ECDSA_SHA1"]),
    (generation::pair, &["EC_KEY_PAIR_GEN"]),
    (generation::extra_bits, &["EC_KEY_PAIR_GEN_W_EXTRA_BITS"]),
];

pub const EDWARDS: Rows = &[
    (|fixture, kind| whole(fixture, kind, Key::Edwards), &["EDDSA"]),
    (generation::pair, &["EC_EDWARDS_KEY_PAIR_GEN"]),
];

pub const ML_DSA: Rows = &[
    (|fixture, kind| whole(fixture, kind, Key::MlDsa), &["ML_DSA"]),
    (generation::pair, &["ML_DSA_KEY_PAIR_GEN"]),
    (external_mu, &["ML_DSA_EXTERNAL_MU_GEN", "ML_DSA_EXTERNAL_MU"]),
    (|fixture, kind| digest(fixture, &hash_sign(kind), Key::MlDsa), &["HASH_ML_DSA"]),
    (|fixture, kind| both(fixture, &Mechanism::new(kind), Key::MlDsa), &["HASH_ML_DSA_#"]),
];

pub const SLH_DSA: Rows = &[
    (|fixture, kind| whole(fixture, kind, Key::SlhDsa), &["SLH_DSA"]),
    (generation::pair, &["SLH_DSA_KEY_PAIR_GEN"]),
    (|fixture, kind| digest(fixture, &hash_sign(kind), Key::SlhDsa), &["HASH_SLH_DSA"]),
    (|fixture, kind| both(fixture, &Mechanism::new(kind), Key::SlhDsa), &["HASH_SLH_DSA_#"]),
];

/// Checks signatures in a single part and in several parts.
fn both(fixture: &Fixture<'_>, mechanism: &Mechanism, key: Key) -> Answer {
    signs(fixture, mechanism, fixture.pair(key)?, MESSAGE)?;
    signs_in_parts(fixture, mechanism, fixture.pair(key)?, MESSAGE)
}

/// Checks signatures of a message in a single part.
fn whole(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE, key: Key) -> Answer {
    signs(fixture, &Mechanism::new(kind), fixture.pair(key)?, MESSAGE)
}

/// Checks that a signature of the message representative is one of the message, and the reverse.
fn external_mu(fixture: &Fixture<'_>, _: CK_MECHANISM_TYPE) -> Answer {
    let (pair, context) = (fixture.pair(Key::MlDsa)?, b"a context");
    let external = Mechanism::new(CKM_ML_DSA_EXTERNAL_MU);
    let whole = Structure::new().number(CKH_HEDGE_PREFERRED).bytes(context).mechanism(CKM_ML_DSA);
    for key in [pair.public, pair.private] {
        let generation = Structure::new().number(key.0).bytes(b"").bytes(context);
        let generation = generation.mechanism(CKM_ML_DSA_EXTERNAL_MU_GEN);
        let (session, mut mu, mut parts) = (fixture.fresh()?, [0; 64], [0; 64]);
        session.digest_init(&generation)?;
        session.digest(MESSAGE, &mut mu)?;
        session.digest_init(&generation)?;
        MESSAGE.chunks(5).try_for_each(|part| session.digest_update(part))?;
        session.digest_final(&mut parts)?;
        ensure("C_DigestFinal", mu == parts)?;
        for (signing, message, verifying, same) in
            [(&external, &mu[..], &whole, MESSAGE), (&whole, MESSAGE, &external, &mu)]
        {
            let signature = signed(fixture, signing, pair.private, message)?;
            session.verify_init(verifying, pair.public)?;
            ensure("C_Verify", session.verify(same, &signature)?)?;
        }
    }
    signs(fixture, &external, pair, &[7; 64])
}

fn digest(fixture: &Fixture<'_>, mechanism: &Mechanism, key: Key) -> Answer {
    signs(fixture, mechanism, fixture.pair(key)?, &[7; 32])
}

/// Returns the hash in the name of a mechanism, its mask generation function and its length.
fn hash_of(kind: CK_MECHANISM_TYPE) -> [CK_ULONG; 3] {
    let name = names::mechanism(kind);
    let found = HASHES.into_iter().find(|(part, _)| name.contains(part));
    found.map_or([CKM_SHA256, CKG_MGF1_SHA256, 32], |(_, hash)| hash)
}

fn pss(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    both(fixture, &Mechanism::with_numbers(kind, &hash_of(kind)), Key::Rsa)
}

fn pss_raw(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    signs(fixture, &Mechanism::with_numbers(kind, &hash_of(kind)), fixture.pair(Key::Rsa)?, &[7; 32])
}

/// Returns the OAEP parameters with that hash and no label.
fn oaep(hash: CK_ULONG, mgf: CK_ULONG) -> Structure {
    Structure::new().number(hash).number(mgf).number(CKZ_DATA_SPECIFIED).bytes(b"")
}

/// Checks encryption and decryption. For `CKM_RSA_PKCS`, also checks signatures.
fn encrypts(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let pair = fixture.pair(Key::Rsa)?;
    let (mechanism, message) = match kind {
        // Every module has OAEP with SHA-1. The sets of Wycheproof check the other hashes.
        CKM_RSA_PKCS_OAEP => (oaep(CKM_SHA_1, CKG_MGF1_SHA1).mechanism(kind), &MESSAGE[..32]),
        _ => (Mechanism::new(kind), &MESSAGE[..32]),
    };
    let (session, mut cipher, mut plain) = (fixture.fresh()?, [0; 256], [0; 256]);
    session.encrypt_init(&mechanism, pair.public)?;
    session.encrypt(message, &mut cipher)?;
    session.decrypt_init(&mechanism, pair.private)?;
    let length = session.decrypt(&cipher, &mut plain)?;
    ensure("C_Decrypt", plain[..length].ends_with(message))?;
    if kind == CKM_RSA_PKCS { signs(fixture, &mechanism, pair, message) } else { Ok(()) }
}

fn rsa_aes_wrap(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let mechanism = Structure::new().number(256).structure(oaep(CKM_SHA_1, CKG_MGF1_SHA1)).mechanism(kind);
    let (pair, mut out) = (fixture.pair(Key::Rsa)?, [0; 512]);
    let length = fixture.wrap_key(&mechanism, pair.public, fixture.key(Key::Generic)?, &mut out)?;
    let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let key = fixture.unwrap_key(&mechanism, pair.private, &out[..length], &template)?;
    ensure("C_UnwrapKey", fixture.attribute(key, CKA_VALUE)? == SECRET)
}
