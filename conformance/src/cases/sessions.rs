//! "Session management functions".

use cryptoki_sys::*;
use jeton_client::{Access, Arg, Failure, Later, Mechanism, Session, SlotId};

use super::digests::digesting;
use super::general::padded;
use super::{Case, DIGEST, ECDSA, SHA256, case, objects, optional};
use crate::fixture::{Answer, Fixture, Key, NO_SESSION, ensure};

const SHORT: &[CK_RV] = &[CKR_BUFFER_TOO_SMALL, CKR_STATE_UNSAVEABLE];
const MAY_END: &[CK_RV] = &[CKR_OK, CKR_OPERATION_ACTIVE, CKR_STATE_UNSAVEABLE];
const MAY_SAVE: &[CK_RV] = &[CKR_OK, CKR_STATE_UNSAVEABLE];
// PKCS#11 3.2, C_AsyncJoin lists the first code among its return values.
const NOT_JOINED: &[CK_RV] = &[CKR_SAVED_STATE_INVALID, CKR_SESSION_ASYNC_NOT_SUPPORTED];

pub const CASES: &[Case] = &[
    case("C_OpenSession", "of an invalid slot", &[CKR_SLOT_ID_INVALID], |fixture| {
        fixture.module.open_session(SlotId(0x7fff_fff0), Access::ReadOnly).map(drop)
    }),
    case("C_OpenSession", "without CKF_SERIAL_SESSION", &[CKR_SESSION_PARALLEL_NOT_SUPPORTED], |fixture| {
        let output = Arg::zeroed();
        fixture.module.call(
            "C_OpenSession",
            &mut [Arg::Number(fixture.slot.0), Arg::Number(0), Arg::Null, Arg::Output(&output)],
        )
    }),
    case("C_CloseSession", "a second time", &[CKR_SESSION_HANDLE_INVALID], |fixture| {
        let session = fixture.fresh()?;
        let handle = session.handle();
        session.close()?;
        fixture.module.call("C_CloseSession", &mut [Arg::Number(handle)])
    }),
    case("C_CloseSession", "destroys the session objects", &[CKR_OBJECT_HANDLE_INVALID], |fixture| {
        let session = fixture.fresh()?;
        let object = session.create_object(&objects::data(false))?;
        session.close()?;
        fixture.object_size(object).map(drop)
    }),
    case("C_CloseAllSessions", "of an invalid slot", &[CKR_SLOT_ID_INVALID], |fixture| {
        fixture.module.close_all_sessions(SlotId(0x7fff_fff0))
    }),
    case("C_GetSessionInfo", "of the user's session", &[CKR_OK], |fixture| {
        let info = fixture.fresh()?.info()?;
        let flags = CKF_RW_SESSION | CKF_SERIAL_SESSION;
        ensure("C_GetSessionInfo", info.slot == fixture.slot && info.state == CKS_RW_USER_FUNCTIONS)?;
        ensure("C_GetSessionInfo", info.flags & flags == flags)
    }),
    case("C_GetSessionInfo", "of the user's read-only session", &[CKR_OK], |fixture| {
        let info = fixture.reader()?.info()?;
        ensure("C_GetSessionInfo", info.state == CKS_RO_USER_FUNCTIONS && info.flags & CKF_RW_SESSION == 0)
    }),
    case("C_GetSessionInfo", "of a public session", &[CKR_OK], |fixture| {
        fixture
            .logged_out(|session| ensure("C_GetSessionInfo", session.info()?.state == CKS_RW_PUBLIC_SESSION))
    }),
    optional("C_SessionCancel", "with no active operation", &[CKR_OK], |fixture| {
        fixture.call("C_SessionCancel", &fixture.fresh()?, vec![Arg::Number(CKF_SIGN | CKF_DIGEST)])
    }),
    optional("C_SessionCancel", "ends a signature", &[CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let session = fixture.fresh()?;
        session.sign_init(&ECDSA, fixture.key(Key::Ec)?)?;
        fixture.call("C_SessionCancel", &session, vec![Arg::Number(CKF_SIGN)])?;
        session.sign(&DIGEST, &mut [0; 64]).map(drop)
    }),
    optional("C_SessionCancel", "does not end other operations", &[CKR_OK], |fixture| {
        let session = digesting(fixture)?;
        fixture.call("C_SessionCancel", &session, vec![Arg::Number(CKF_SIGN)])?;
        session.digest(b"abc", &mut [0; 32]).map(drop)
    }),
    optional("C_GetOperationState", "without an operation", &[CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        fixture.call("C_GetOperationState", &fixture.fresh()?, vec![Arg::NoBuffer(&mut 0)])
    }),
    optional("C_GetOperationState", "into a short buffer", SHORT, |fixture| {
        let session = digesting(fixture)?;
        fixture.call("C_GetOperationState", &session, vec![Arg::Buffer(&mut [0; 4], &mut 1)])
    }),
    optional("C_GetOperationState", "a saved digest allows the next C_DigestInit", MAY_END, |fixture| {
        let (session, mut state, mut length) = (digesting(fixture)?, vec![0; 65536], 65536);
        session.digest_update(b"a")?;
        fixture.call("C_GetOperationState", &session, vec![Arg::Buffer(&mut state, &mut length)])?;
        session.digest_init(&SHA256)?;
        let (mut one, mut two) = ([0; 32], [0; 32]);
        session.digest(b"abc", &mut one)?;
        let arguments = vec![Arg::Bytes(&state[..length as usize]), Arg::Number(0), Arg::Number(0)];
        fixture.call("C_SetOperationState", &session, arguments)?;
        session.digest_update(b"bc")?;
        session.digest_final(&mut two)?;
        ensure("C_SetOperationState", one == two)
    }),
    optional("C_SetOperationState", "moves a digest to another session", MAY_SAVE, |fixture| {
        let (session, other, mut state, mut length) =
            (digesting(fixture)?, fixture.fresh()?, vec![0; 65536], 65536);
        session.digest_update(b"a")?;
        fixture.call("C_GetOperationState", &session, vec![Arg::Buffer(&mut state, &mut length)])?;
        let arguments = vec![Arg::Bytes(&state[..length as usize]), Arg::Number(0), Arg::Number(0)];
        fixture.call("C_SetOperationState", &other, arguments)?;
        let (mut one, mut two) = ([0; 32], [0; 32]);
        for (session, out) in [(&session, &mut one), (&other, &mut two)] {
            session.digest_update(b"bc")?;
            session.digest_final(out)?;
        }
        ensure("C_SetOperationState", one == two)
    }),
    optional("C_SetOperationState", "of an invalid state", &[CKR_SAVED_STATE_INVALID], |fixture| {
        let arguments = vec![Arg::Bytes(b"no state"), Arg::Number(0), Arg::Number(0)];
        fixture.call("C_SetOperationState", &fixture.fresh()?, arguments)
    }),
    optional("C_GetSessionValidationFlags", "of the last operation", &[CKR_OK], |fixture| {
        let output = Arg::zeroed();
        let arguments = vec![Arg::Number(CKS_LAST_VALIDATION_OK), Arg::Output(&output)];
        fixture.call("C_GetSessionValidationFlags", &fixture.session, arguments)
    }),
    optional("C_GetSessionValidationFlags", "of an unknown type", &[CKR_ARGUMENTS_BAD], |fixture| {
        let output = Arg::zeroed();
        fixture.call(
            "C_GetSessionValidationFlags",
            &fixture.session,
            vec![Arg::Number(77), Arg::Output(&output)],
        )
    }),
    case("C_AsyncComplete", "in a session that is not asynchronous", ASYNC, |fixture| {
        let (name, output) = (padded(b"C_Sign"), Arg::zeroed());
        fixture.call("C_AsyncComplete", &fixture.fresh()?, vec![Arg::Output(&name), Arg::Output(&output)])
    }),
    case("C_AsyncGetID", "in a session that is not asynchronous", ASYNC, |fixture| {
        let (name, output) = (padded(b"C_Sign"), Arg::zeroed());
        fixture.call("C_AsyncGetID", &fixture.fresh()?, vec![Arg::Output(&name), Arg::Output(&output)])
    }),
    optional("C_AsyncJoin", "of an unknown operation", NOT_JOINED, |fixture| {
        let name = padded(b"C_Sign");
        let arguments = vec![Arg::Output(&name), Arg::Number(1), Arg::Bytes(&[0; 64])];
        fixture.call("C_AsyncJoin", &fixture.fresh()?, arguments)
    }),
    optional("C_AsyncComplete", "of the signatures of eight sessions", ASYNC_WORKS, |fixture| {
        let sessions = (0..8).map(|_| asynchronous(fixture)).collect::<Result<Vec<_>, _>>()?;
        let begun: Vec<_> =
            sessions.iter().map(|session| sign_later(fixture, session)).collect::<Result<_, _>>()?;
        for (session, later) in sessions.iter().zip(begun) {
            let signature = later.complete()?;
            session.verify_init(&RSA, fixture.pair(Key::Rsa)?.public)?;
            ensure("C_AsyncComplete", session.verify(&DIGEST, &signature)?)?;
        }
        Ok(())
    }),
    optional("C_AsyncComplete", "of a signature that is complete", ASYNC, |fixture| {
        let (session, name, output) = (asynchronous(fixture)?, padded(b"C_Sign"), Arg::zeroed());
        sign_later(fixture, &session)?.complete()?;
        fixture.call("C_AsyncComplete", &session, vec![Arg::Output(&name), Arg::Output(&output)])
    }),
    optional("C_Sign", "in an asynchronous session, into a short buffer", ASYNC_TOO_SMALL, |fixture| {
        let session = asynchronous(fixture)?;
        session.sign_init(&RSA, fixture.key(Key::Rsa)?)?;
        session.sign(&DIGEST, &mut [0; 255]).map(drop)
    }),
    optional("C_AsyncGetID", "of a pending signature", ASYNC_ID, |fixture| {
        let (session, name, output) = (asynchronous(fixture)?, padded(b"C_Sign"), Arg::zeroed());
        let later = sign_later(fixture, &session)?;
        let given = fixture.call("C_AsyncGetID", &session, vec![Arg::Output(&name), Arg::Output(&output)]);
        // An operation with an ID waits for C_AsyncJoin.
        if given.is_err() {
            later.complete()?;
        }
        given
    }),
    // The first signature need not be pending.
    optional("C_SignInit", "while a signature is pending", ASYNC_IS_ACTIVE, |fixture| {
        let session = asynchronous(fixture)?;
        let (first, second) = (sign_later(fixture, &session)?, sign_later(fixture, &session).map(drop));
        first.complete()?;
        second
    }),
    case("C_GenerateRandom", "returns different bytes each time", &[CKR_OK], |fixture| {
        let (mut one, mut two) = ([0; 32], [0; 32]);
        fixture.random(&mut one)?;
        fixture.random(&mut two)?;
        ensure("C_GenerateRandom", one != two && one != [0; 32])
    }),
    case("C_GenerateRandom", "of zero bytes", &[CKR_OK, CKR_ARGUMENTS_BAD], |fixture| {
        fixture.random(&mut [])
    }),
    case("C_SeedRandom", "accepts a seed", &[CKR_OK, CKR_RANDOM_SEED_NOT_SUPPORTED], |fixture| {
        fixture.seed_random(b"seed")
    }),
    case("C_GenerateRandom", "in a session that does not exist", &[CKR_SESSION_HANDLE_INVALID], |fixture| {
        fixture.module.call("C_GenerateRandom", &mut [Arg::Number(NO_SESSION), Arg::Fill(&mut [0; 8])])
    }),
];

static RSA: Mechanism = Mechanism::new(CKM_RSA_PKCS);
// The second code is for a token without asynchronous sessions.
const ASYNC_WORKS: &[CK_RV] = &[CKR_OK, CKR_SESSION_ASYNC_NOT_SUPPORTED];
const ASYNC_TOO_SMALL: &[CK_RV] = &[CKR_BUFFER_TOO_SMALL, CKR_SESSION_ASYNC_NOT_SUPPORTED];
// The second code is for a signature that was never pending.
const ASYNC_ID: &[CK_RV] =
    &[CKR_STATE_UNSAVEABLE, CKR_OPERATION_NOT_INITIALIZED, CKR_SESSION_ASYNC_NOT_SUPPORTED, CKR_OK];
const ASYNC_IS_ACTIVE: &[CK_RV] = &[CKR_OPERATION_ACTIVE, CKR_SESSION_ASYNC_NOT_SUPPORTED, CKR_OK];

/// Opens an asynchronous session. A module that does not know the flag would open another one.
fn asynchronous(fixture: &Fixture<'_>) -> Answer<Session> {
    if fixture.module.token_info(fixture.slot)?.flags & CKF_ASYNC_SESSION_SUPPORTED == 0 {
        let (function, code) = ("C_OpenSession", CKR_SESSION_ASYNC_NOT_SUPPORTED);
        return Err(Failure { function, code, doing: "reading the token's flags".into() });
    }
    fixture.module.open_async_session(fixture.slot, Access::ReadWrite)
}

fn sign_later<'a>(fixture: &Fixture<'_>, session: &'a Session) -> Answer<Later<'a>> {
    session.sign_later(&RSA, fixture.key(Key::Rsa)?, &DIGEST, 256)
}

/// The codes for a session without CKF_ASYNC_SESSION (PKCS#11 3.2, "Asynchronous function
/// management functions").
const ASYNC: &[CK_RV] =
    &[CKR_SESSION_ASYNC_NOT_SUPPORTED, CKR_OPERATION_NOT_INITIALIZED, CKR_FUNCTION_NOT_SUPPORTED];
