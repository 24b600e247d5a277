//! "Message digesting functions".

use cryptoki_sys::{
    CKR_BUFFER_TOO_SMALL, CKR_KEY_INDIGESTIBLE, CKR_OK, CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED,
};
use jeton_client::{Arg, Session};

use super::calls::NOT_BEGUN;
use super::{BAD_HANDLE, BAD_MECHANISM, BLOCKS, Case, NO_MECHANISM, SHA256, case, cbc, optional};
use crate::fixture::{Answer, Fixture, Key, NO_OBJECT, SECRET, ensure};

/// Opens a session and starts a digest in it.
pub fn digesting(fixture: &Fixture<'_>) -> Answer<Session> {
    let session = fixture.fresh()?;
    session.digest_init(&SHA256)?;
    Ok(session)
}

pub const CASES: &[Case] = &[
    case("C_DigestInit", "with an unknown mechanism", BAD_MECHANISM, |fixture| {
        fixture.fresh()?.digest_init(&NO_MECHANISM)
    }),
    case("C_DigestInit", "with a mechanism that does not digest", BAD_MECHANISM, |fixture| {
        fixture.fresh()?.digest_init(&cbc())
    }),
    case("C_DigestInit", "while a digest is active", &[CKR_OPERATION_ACTIVE], |fixture| {
        let session = digesting(fixture)?;
        session.digest_init(&SHA256)
    }),
    case("C_DigestInit", "with a NULL mechanism ends the digest", NOT_BEGUN, |fixture| {
        let session = digesting(fixture)?;
        fixture.call("C_DigestInit", &session, vec![Arg::Null])?;
        session.digest_update(b"abc")
    }),
    case("C_Digest", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        let session = digesting(fixture)?;
        session.digest(b"abc", &mut [0; 31]).map(drop)
    }),
    case("C_Digest", "continues after a short buffer", &[CKR_OK], |fixture| {
        let session = digesting(fixture)?;
        let _short = session.digest(b"abc", &mut [0; 31]);
        session.digest(b"abc", &mut [0; 32]).map(drop)
    }),
    case("C_Digest", "continues after a length query", &[CKR_OK], |fixture| {
        let (session, mut length) = (digesting(fixture)?, 0);
        fixture.call("C_Digest", &session, vec![Arg::Bytes(b"abc"), Arg::NoBuffer(&mut length)])?;
        ensure("C_Digest", length == 32)?;
        session.digest(b"abc", &mut [0; 32]).map(drop)
    }),
    case("C_Digest", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let session = digesting(fixture)?;
        session.digest_update(b"abc")?;
        session.digest(b"abc", &mut [0; 32]).map(drop)
    }),
    case("C_Digest", "of zero bytes", &[CKR_OK], |fixture| {
        let (session, mut digest) = (digesting(fixture)?, [0; 32]);
        session.digest(b"", &mut digest)?;
        ensure("C_Digest", digest[..4] == [0xe3, 0xb0, 0xc4, 0x42])
    }),
    case("C_DigestFinal", "continues after a short buffer", &[CKR_OK], |fixture| {
        let session = digesting(fixture)?;
        session.digest_update(b"abc")?;
        let _short = session.digest_final(&mut [0; 31]);
        session.digest_final(&mut [0; 32]).map(drop)
    }),
    optional("C_DigestKey", "with an invalid key handle", BAD_HANDLE, |fixture| {
        let session = digesting(fixture)?;
        fixture.call("C_DigestKey", &session, vec![Arg::Number(NO_OBJECT.0)])
    }),
    optional("C_DigestKey", "with a private key", &[CKR_KEY_INDIGESTIBLE], |fixture| {
        let (session, key) = (digesting(fixture)?, fixture.key(Key::Ec)?);
        fixture.call("C_DigestKey", &session, vec![Arg::Number(key.0)])
    }),
    optional("C_DigestKey", "digests the value of the key", &[CKR_OK], |fixture| {
        let (session, other, key) = (digesting(fixture)?, digesting(fixture)?, fixture.key(Key::Generic)?);
        let (mut one, mut two) = ([0; 32], [0; 32]);
        fixture.call("C_DigestKey", &session, vec![Arg::Number(key.0)])?;
        session.digest_final(&mut one)?;
        other.digest(&SECRET, &mut two)?;
        ensure("C_DigestKey", one == two)
    }),
    case("C_DigestUpdate", "works beside an encryption", &[CKR_OK], |fixture| {
        let session = digesting(fixture)?;
        session.digest_update(b"a")?;
        session.encrypt_init(&cbc(), fixture.key(Key::Aes)?)?;
        session.encrypt(&BLOCKS, &mut [0; 32])?;
        session.digest_update(b"bc")
    }),
    // PKCS#11 3.2, C_Digest: a call "always terminates the active digest operation".
    case("C_DigestFinal", "after C_Digest ended a digest in parts", NOT_BEGUN, |fixture| {
        let session = digesting(fixture)?;
        session.digest_update(b"abc")?;
        let _refused = session.digest(b"abc", &mut [0; 32]);
        session.digest_final(&mut [0; 32]).map(drop)
    }),
];
