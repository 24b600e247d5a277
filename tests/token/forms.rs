//! Which mechanisms open what another mechanism wrapped, or a part of it. Each mechanism of the
//! table that wraps is tried with each one that opens, with the parameters that could join two
//! forms.

use jeton::backend::{CipherMode, CipherScheme};
use jeton::mechanism::flow::Wrapping;
use jeton::mechanism::{self, Shape};

use crate::guards::hidden;
use crate::prelude::*;

/// The wrapped key. Its end is zeros, so that a wrong length can cut it.
const KEY: [u8; 32] = {
    let mut key = [5; 32];
    let mut at = 25;
    while at < 32 {
        key[at] = 0;
        at += 1;
    }
    key
};
/// The initial value of KWP for the first 25 bytes of 32.
const CUTS: [u8; 8] = [0xa6, 0x59, 0x59, 0xa6, 0, 0, 0, 25];

/// Returns each way to call the AES mechanisms of the table that wrap, with the usual parameter and
/// with those that could join two forms.
fn aes_ways() -> Vec<Mechanism> {
    let rows = mechanism::all().filter(|row| row.key_type == Some(KeyType::AES));
    let ways = rows.filter(|row| row.wrapping(&Params::None).is_some()).flat_map(|row| {
        let of = |iv: &[u8]| with_iv(row.id, iv);
        let Shape::Cipher(mode) = row.shape() else { panic!("{} is not a cipher", row.id) };
        match mode {
            CipherMode::AesEcb => vec![plain(row.id)],
            CipherMode::AesKw | CipherMode::AesKwPkcs7 => {
                let whole = [0xa6, 0x59, 0x59, 0xa6, 0, 0, 0, 32];
                let icv = [1, 2, 3, 4, 0, 0, 0, 32];
                let own: [&[u8]; 5] = [&[0xa6; 8], &CUTS, &whole, &icv, &[9; 8]];
                own.map(of).into_iter().chain([plain(row.id)]).collect()
            }
            CipherMode::AesKwp => {
                let own: [&[u8]; 4] = [&[0xa6, 0x59, 0x59, 0xa6], &[0xa6; 4], &[1, 2, 3, 4], &[9; 4]];
                own.map(of).into_iter().chain([plain(row.id)]).collect()
            }
            CipherMode::AesCtr => {
                let scheme = CipherScheme::AesCtr { block: [7; 16], bits: 128 };
                vec![Mechanism { params: Params::Cipher(scheme), ..plain(row.id) }]
            }
            CipherMode::Aead(scheme) => {
                // CCM announces the length of the key, which follows from the wrapped key.
                let lens = if scheme == AeadScheme::AesCcm { 1..41 } else { 0..1 };
                let of = |len| aead_params(scheme, &[7; 12], &[], 16, len);
                lens.map(|len| Mechanism { params: of(len), ..plain(row.id) }).collect()
            }
            _ => vec![of(&[7; 16])],
        }
    });
    ways.collect()
}

fn name(mechanism: &Mechanism) -> String {
    match &mechanism.params {
        Params::Cipher(CipherScheme::AesKw { iv, .. }) => format!("{} {iv:?}", mechanism.info.id),
        Params::Cipher(CipherScheme::AesKwp { iv }) => format!("{} {iv:?}", mechanism.info.id),
        _ => mechanism.info.id.to_string(),
    }
}

fn key(usages: &[A], more: &Attributes) -> Attributes {
    let key = secret(KeyType::AES, &[3; 32]).and(more);
    [A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP, A::SIGN, A::VERIFY, A::DERIVE]
        .iter()
        .fold(key, |key, id| key.flag(*id, usages.contains(id)))
}

fn generic() -> Attributes {
    key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET)
}

/// A key that a template protects is opened by the form that wrapped it alone, and as a whole. A
/// trusted key that only wraps makes no form that another one opens.
#[test]
fn a_protected_key_is_opened_as_a_whole_by_its_own_form_alone() {
    let (client, session) = one_user();
    let own = none().stored().flag(A::PRIVATE, false).flag(A::SENSITIVE, true);
    let trusted = client.create(session, &key(&[A::WRAP], &own)).expect("a key");
    client.trust(session, trusted);
    let wraps = client.create(session, &key(&[A::WRAP], &none())).expect("a key");
    let opens = client.create(session, &key(&[A::UNWRAP], &none())).expect("a key");
    let protects = key(&[A::UNWRAP], &none());
    let protects = client.create_with(session, &protects, A::UNWRAP_TEMPLATE, &hidden()).expect("a key");
    let victim = generic().bytes(A::VALUE, &KEY).and(&shown());
    let victim = client.create(session, &victim).expect("a key");
    let (mut opened, mut joined, mut kept) = (0, Vec::new(), 0);
    for by in aes_ways() {
        let Ok(wrapped) = client.wrap(session, &by, wraps, victim) else { continue };
        let is_dedicated = client.wrap(session, &by, trusted, victim).is_ok();
        for with in aes_ways() {
            let unwrap = |key, template: &Attributes| client.unwrap(session, &with, key, &wrapped, template);
            let Ok(key) = unwrap(opens, &generic().and(&shown())) else { continue };
            let found = client.read(session, key, A::VALUE).expect("a value");
            let is_own = found == KEY && with.info.id == by.info.id;
            let pair = format!("{} by {}", name(&by), name(&with));
            opened += 1;
            joined.extend((!is_own).then(|| pair.clone()));
            if unwrap(protects, &generic()).is_ok() {
                kept += 1;
                let is_authentic =
                    mechanism::row_of(with.info).wrapping(&with.params) != Some(Wrapping::Unauthenticated);
                assert!(is_authentic && (found == KEY || !is_dedicated), "{pair}");
            }
        }
    }
    // KW under the initial value of KWP is one of the pairs.
    let cut = joined.iter().filter(|pair| pair.contains("25]")).count();
    println!("{opened} ways open, {} of another form, {kept} if a template protects", joined.len());
    assert!(cut > 0 && joined.len() > 20 && kept > 5, "{cut} {kept} {joined:#?}");
}

/// An RSA or EC key pair of which the private key unwraps and has other usages. A `list` limits its
/// mechanisms.
fn pair(client: &Client, session: SessionHandle, kind: M, list: Option<M>) -> (ObjectHandle, ObjectHandle) {
    let public = none().flag(A::WRAP, true);
    let public = match kind {
        M::EC_KEY_PAIR_GEN => public.bytes(A::EC_PARAMS, P256),
        _ => public.number(A::MODULUS_BITS, 2048),
    };
    let private = none().flag(A::UNWRAP, true).flag(A::EXTRACTABLE, true).flag(A::SENSITIVE, false);
    let private = match kind {
        M::EC_KEY_PAIR_GEN => private.flag(A::DERIVE, true).flag(A::SIGN, false),
        _ => private.flag(A::DECAPSULATE, true).flag(A::SIGN, false),
    };
    let private = match list {
        Some(id) => private.bytes(A::ALLOWED_MECHANISMS, &id.0.to_le_bytes()),
        None => private,
    };
    let protecting = hidden();
    let private = private.within(A::UNWRAP_TEMPLATE, &protecting);
    let made = client.generate_key_pair(session, &plain(kind), &public.template(), &private);
    made.expect("a pair")
}

fn aes() -> Attributes {
    key_object(ObjectClass::SECRET_KEY, KeyType::AES)
}

/// The head of a wrapped key of a hybrid mechanism is the AES key of the rest.
#[test]
fn the_head_of_a_hybrid_form_is_not_opened_apart() {
    each_user(|client, session| {
        let victim = client.create(session, &generic().bytes(A::VALUE, &KEY).and(&shown())).expect("a key");
        let hybrid = |id, params| Mechanism { params, ..plain(id) };
        let (hash, label) = (Hash::Sha256, Box::from(*b""));
        let rsa = hybrid(M::RSA_AES_KEY_WRAP, Params::RsaAesWrap { aes_bits: 256, hash, mgf: hash, label });
        let ecdh = |id| hybrid(id, Params::EcdhAesWrap { aes_bits: 256, kdf: None, shared: Box::default() });
        let mut forms = 0;
        for row in mechanism::all() {
            if row.wrapping(&Params::None) != Some(Wrapping::Hybrid) || !row.accepts(row.key_type, false) {
                continue;
            }
            forms += 1;
            let is_rsa = row.key_type == Some(KeyType::RSA);
            let kind = if is_rsa { M::RSA_PKCS_KEY_PAIR_GEN } else { M::EC_KEY_PAIR_GEN };
            // The head of a key on a Montgomery curve is opened by the same derivation.
            if row.key_type == Some(KeyType::EC_MONTGOMERY) {
                continue;
            }
            let (public, private) = pair(client, session, kind, None);
            let mechanism = if is_rsa { rsa.clone() } else { ecdh(row.id) };
            let wrapped = client.wrap(session, &mechanism, public, victim).expect("a wrapped key");
            let unwrap = |with: &Mechanism, key, bytes: &[u8], template: &Attributes| {
                client.unwrap(session, with, key, bytes, template)
            };
            unwrap(&mechanism, private, &wrapped, &generic()).expect("a key");
            let head = oaep(hash, hash, b"");
            let point = |skipped: usize| Params::Ecdh {
                kdf: None,
                shared: Box::default(),
                peer: wrapped[skipped..skipped + 65].into(),
            };
            let refused = match is_rsa {
                true => vec![
                    unwrap(&head, private, &wrapped[..256], &aes()),
                    client.decapsulate_key(session, &head, private, &aes().template(), &wrapped[..256]),
                ],
                false => [M::ECDH1_DERIVE, M::ECDH1_COFACTOR_DERIVE]
                    .map(|id| {
                        let derivation =
                            hybrid(id, point(if row.id == M::ECDH_AES_KEY_WRAP { 0 } else { 2 }));
                        let template = aes().number(A::VALUE_LEN, 32);
                        client.derive_key(session, &derivation, private, &template.template())
                    })
                    .into(),
            };
            for refused in refused {
                assert_eq!(refused, Err(Error::KeyFunctionNotPermitted), "{}", row.id);
            }
        }
        assert_eq!(forms, 4);
        // A key that opens heads alone opens them.
        let (public, private) = pair(client, session, M::RSA_PKCS_KEY_PAIR_GEN, Some(M::RSA_PKCS_OAEP));
        let head = oaep(hash, hash, b"");
        let wrapped = client.wrap(session, &head, public, victim).expect("a wrapped key");
        client.unwrap(session, &head, private, &wrapped, &generic()).expect("a key");
    });
}

/// A masked key or a key whose template hides results would come back without its mark.
#[test]
fn a_key_is_not_wrapped_if_it_would_lose_a_mark() {
    let (client, session) = one_user();
    let own = none().stored().flag(A::PRIVATE, false).flag(A::SENSITIVE, true);
    let by = client.create(session, &key(&[A::WRAP], &own)).expect("a key");
    client.trust(session, by);
    let marks = none().flag(A::SENSITIVE, true).flag(A::WRAP_WITH_TRUSTED, true).flag(A::DERIVE, true);
    let base = generic().bytes(A::VALUE, &KEY).and(&marks);
    let whole = client.create(session, &base).expect("a key");
    let kwp = plain(M::AES_KEY_WRAP_KWP);
    client.wrap(session, &kwp, by, whole).expect("a wrapped key");
    let mask = Mechanism { params: Params::Data([1; 32].into()), ..plain(M::XOR_BASE_AND_DATA) };
    let masked = client.derive_key(session, &mask, whole, &generic().template()).expect("a key");
    assert_eq!(client.wrap(session, &kwp, by, masked), Err(Error::KeyNotWrappable));
    let hides = client.create_with(session, &base, A::DERIVE_TEMPLATE, &hidden()).expect("a key");
    assert_eq!(client.wrap(session, &kwp, by, hides), Err(Error::KeyNotWrappable));
}

/// SoftHSMv2 2.6.1 wrapped a key on P-256 with the AES key 00 01 … 1f. It added zeros to the DER.
#[test]
fn a_private_key_that_softhsm_wrapped_is_unwrapped() {
    let wrapped = hex(
        "29f7800cf45922605a419cafc02b493f96664f166145479d89f3190490101a04d336cec497a9cb518fe3708e0e5cfa61\
         6847092389484be12791b0f28e28a043a932d52b4a24cc53c789d14e70bca61e",
    );
    let (client, session) = one_user();
    let by: Vec<u8> = (0..32).collect();
    let by = client.create(session, &aes().bytes(A::VALUE, &by).flag(A::UNWRAP, true)).expect("a key");
    let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC);
    let unwrap = |id, wrapped: &[u8]| client.unwrap(session, &plain(id), by, wrapped, &template);
    let key = unwrap(M::AES_KEY_WRAP, &wrapped).expect("the key");
    assert_eq!(client.read(session, key, A::EC_PARAMS), Ok(P256.to_vec()));
    assert!(unwrap(M::AES_KEY_WRAP, &wrapped[..72]).is_err());
}
