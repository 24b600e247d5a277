//! Digests of "abc" (FIPS 180-4 and FIPS 202), in one part and in several parts.

use cryptoki_sys::*;
use jeton_client::Mechanism;

use super::Proof;
use crate::fixture::{Answer, Fixture, ensure, hex};

pub const HASHES: &[(Proof, &[&str])] = &[(abc, &["#", "SHA_1", "SHA512_224", "SHA512_256"])];

/// The first eight bytes of the digest, and its length.
const ABC: [(CK_MECHANISM_TYPE, &str, usize); 11] = [
    (CKM_SHA_1, "a9993e364706816a", 20),
    (CKM_SHA224, "23097d223405d822", 28),
    (CKM_SHA256, "ba7816bf8f01cfea", 32),
    (CKM_SHA384, "cb00753f45a35e8b", 48),
    (CKM_SHA512, "ddaf35a193617aba", 64),
    (CKM_SHA512_224, "4634270f707b6a54", 28),
    (CKM_SHA512_256, "53048e2681941ef9", 32),
    (CKM_SHA3_224, "e642824c3f8cf24a", 28),
    (CKM_SHA3_256, "3a985da74fe225b2", 32),
    (CKM_SHA3_384, "ec01498288516fc9", 48),
    (CKM_SHA3_512, "b751850b1a57168a", 64),
];

pub fn digest(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE, message: &[u8]) -> Answer<Vec<u8>> {
    let (session, mut out) = (fixture.fresh()?, [0; 64]);
    session.digest_init(&Mechanism::new(kind))?;
    let length = session.digest(message, &mut out)?;
    Ok(out[..length].to_vec())
}

fn abc(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let known = ABC.iter().find(|(known, ..)| *known == kind);
    let made = digest(fixture, kind, b"abc")?;
    let right =
        known.is_some_and(|(_, start, length)| made.starts_with(&hex(start)) && made.len() == *length);
    let (session, mut out) = (fixture.fresh()?, [0; 64]);
    session.digest_init(&Mechanism::new(kind))?;
    session.digest_update(b"a")?;
    session.digest_update(b"bc")?;
    let length = session.digest_final(&mut out)?;
    ensure("C_Digest", right && out[..length] == made[..])
}
