//! The standard mechanisms of SoftHSMv2, NSS, Kryoptic and Craton HSM. Each has a proof that it
//! works, such as a known answer, a round trip, or a comparison with other mechanisms.

use cryptoki_sys::*;
use jeton_client::{Mechanism, ObjectHandle, names};

use crate::fixture::{Answer, Fixture, Pair, able, bytes, ensure, number, open_key, signed, with};
use crate::record::{Section, Verdict};
use crate::task::{Task, Work};

mod ciphers;
mod codes;
mod derivations;
mod generation;
mod hashes;
mod protocols;
mod signatures;

type Proof = fn(&Fixture<'_>, CK_MECHANISM_TYPE) -> Answer;

/// The proofs of a family of mechanisms. Beside each proof are the names of its mechanisms, without
/// `CKM_`. A name with `#` stands for a mechanism with each hash of [`NAMES`].
type Rows = &'static [(Proof, &'static [&'static str])];

const NAMES: [&str; 8] =
    ["SHA224", "SHA256", "SHA384", "SHA512", "SHA3_224", "SHA3_256", "SHA3_384", "SHA3_512"];

/// All 182 mechanisms of these modules, and `CKM_EC_KEY_PAIR_GEN_W_EXTRA_BITS`, which PKCS#11 3.2
/// has.
const UNION: &[(&str, Rows)] = &[
    ("RSA", signatures::RSA),
    ("EC", signatures::EC),
    ("EdDSA", signatures::EDWARDS),
    ("X25519 and X448", &[(generation::pair, &["EC_MONTGOMERY_KEY_PAIR_GEN"])]),
    ("ML-DSA", signatures::ML_DSA),
    ("ML-KEM", &[(derivations::kem, &["ML_KEM"]), (generation::pair, &["ML_KEM_KEY_PAIR_GEN"])]),
    ("SLH-DSA", signatures::SLH_DSA),
    ("AES", ciphers::AES),
    ("AES MACs", codes::AES),
    ("AES key wrap", ciphers::WRAPS),
    ("HMAC", codes::HMAC),
    ("SHA-1, SHA-2, SHA-3", hashes::HASHES),
    ("Hash key derivation", derivations::HASHES),
    ("ChaCha20-Poly1305", ciphers::CHACHA20),
    ("HKDF", derivations::HKDF),
    ("SP 800-108", protocols::SP800_108),
    ("PBKDF2", &[(generation::pbkdf2, &["PKCS5_PBKD2"])]),
    ("TLS", protocols::TLS),
    ("IKE", protocols::IKE),
    ("OTP", protocols::OTP),
    ("Secrets", derivations::SECRETS),
    ("DH", protocols::DH),
];

pub fn tasks() -> Vec<Task> {
    let rows = UNION.iter().flat_map(|(family, rows)| {
        rows.iter().flat_map(|(proof, names)| named(names).map(|name| task(family, *proof, name)))
    });
    rows.collect()
}

/// Returns the names of mechanisms that a row stands for.
fn named(names: &'static [&str]) -> impl Iterator<Item = String> {
    names.iter().flat_map(|name| {
        let hashes = if name.contains('#') { &NAMES[..] } else { &[""] };
        hashes.iter().map(|hash| name.replace('#', hash))
    })
}

fn task(family: &str, proof: Proof, name: String) -> Task {
    let called = name.clone();
    let work = move |fixture: &Fixture<'_>| {
        let Some(kind) = names::mechanism_called(&called) else {
            return Verdict::Fails("cryptoki-sys has no number for this name".to_owned());
        };
        if !fixture.lists(kind) {
            return Verdict::Absent("not listed".to_owned());
        }
        match proof(fixture, kind) {
            Ok(()) => Verdict::Works,
            Err(failure) => Verdict::Fails(failure.to_string()),
        }
    };
    Task {
        section: Section::Mechanisms,
        subject: family.to_owned(),
        name,
        work: Work::LoggedIn(Box::new(work)),
    }
}

fn import(
    fixture: &Fixture<'_>,
    kind: CK_KEY_TYPE,
    value: &[u8],
    uses: &[CK_ATTRIBUTE_TYPE],
) -> Answer<ObjectHandle> {
    let template = able(open_key(CKO_SECRET_KEY, kind), uses);
    fixture.create_object(&with(template, bytes(CKA_VALUE, value)))
}

/// Derives a key from a generic secret. Returns the value of the derived key.
fn derived(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    base: &[u8],
    length: Option<usize>,
) -> Answer<Vec<u8>> {
    let base = import(fixture, CKK_GENERIC_SECRET, base, &[CKA_DERIVE])?;
    derived_from(fixture, mechanism, base, length)
}

/// Derives a key from `base`. Returns the value of the derived key.
fn derived_from(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    base: ObjectHandle,
    length: Option<usize>,
) -> Answer<Vec<u8>> {
    let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    template.extend(length.map(|length| number(CKA_VALUE_LEN, length as CK_ULONG)));
    let made = fixture.derive_key(mechanism, base, &template)?;
    fixture.attribute(made, CKA_VALUE)
}

/// Computes HMAC-SHA256 with the module. Several key derivations are compared with it.
fn hmac(fixture: &Fixture<'_>, key: &[u8], message: &[u8]) -> Answer<Vec<u8>> {
    let key = import(fixture, CKK_GENERIC_SECRET, key, &[CKA_SIGN])?;
    signed(fixture, &Mechanism::new(CKM_SHA256_HMAC), key, message)
}

/// Checks that a signature verifies, and that a changed signature or a changed message does not.
fn signs(fixture: &Fixture<'_>, mechanism: &Mechanism, keys: Pair, message: &[u8]) -> Answer {
    let (mut signature, session) = (signed(fixture, mechanism, keys.private, message)?, fixture.fresh()?);
    let mut verdict = |message: &[u8], flip: u8| {
        signature[0] ^= flip;
        session.verify_init(mechanism, keys.public)?;
        let verdict = session.verify(message, &signature);
        signature[0] ^= flip;
        verdict
    };
    let mut other = message.to_vec();
    other[0] ^= 1;
    ensure("C_Verify", verdict(message, 0)? && !verdict(message, 0x40)? && !verdict(&other, 0)?)
}

fn signs_in_parts(fixture: &Fixture<'_>, mechanism: &Mechanism, keys: Pair, message: &[u8]) -> Answer {
    let (session, mut out) = (fixture.fresh()?, vec![0; 49856]);
    session.sign_init(mechanism, keys.private)?;
    message.chunks(5).try_for_each(|part| session.sign_update(part))?;
    let length = session.sign_final(&mut out)?;
    session.verify_init(mechanism, keys.public)?;
    message.chunks(7).try_for_each(|part| session.verify_update(part))?;
    ensure("C_VerifyFinal", session.verify_final(&out[..length])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_185_mechanisms_and_each_name_has_a_number() {
        let mut names: Vec<_> =
            UNION.iter().flat_map(|(_, rows)| rows.iter().flat_map(|(_, names)| named(names))).collect();
        assert!(names.iter().all(|name| names::mechanism_called(name).is_some()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 185);
    }
}
