//! "Functions for verifying signatures and MACs", including those that get the signature first.

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, ObjectHandle};

use super::calls::{Calls, NOT_BEGUN, TOO_SMALL, message, refused};
use super::{
    BAD_HANDLE, BAD_MECHANISM, BAD_TYPE, Case, ECDSA, HMAC, Handle, INVALID, NO_HANDLE, NO_MECHANISM,
    NOT_PERMITTED, UNKNOWN, WRONG_KEY, case, optional, starts,
};
use crate::fixture::{Answer, Fixture, Key, NO_OBJECT, Pair, bytes, ensure, flag, number, open_key};

const EC: Handle = Handle::Public(Key::Ec);
const IDLE: Handle = Handle::Private(Key::Idle);
static RSA: Mechanism = Mechanism::new(CKM_RSA_PKCS);

/// Calls C_VerifySignatureInit with a signature of 64 bytes.
fn signature_init(fixture: &Fixture<'_>, mechanism: &Mechanism, key: ObjectHandle) -> Answer {
    let arguments = vec![Arg::Mechanism(mechanism), Arg::Number(key.0), Arg::Bytes(&[1; 64])];
    fixture.call("C_VerifySignatureInit", &fixture.fresh()?, arguments)
}

/// Generates an RSA key pair that neither signs nor verifies with recovery.
pub fn idle_pair(fixture: &Fixture<'_>) -> Answer<Pair> {
    let public = [number(CKA_MODULUS_BITS, 2048), flag(CKA_TOKEN, false), flag(CKA_VERIFY_RECOVER, false)];
    let private = [flag(CKA_TOKEN, false), flag(CKA_SIGN_RECOVER, false)];
    let generator = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
    let (public, private) = fixture.generate_key_pair(&generator, &public, &private)?;
    Ok(Pair { public, private })
}

pub const CASES: &[Case] = &[
    starts("C_VerifyInit", "with an unknown mechanism", BAD_MECHANISM, UNKNOWN, EC),
    starts("C_VerifyInit", "with an invalid key handle", BAD_HANDLE, CKM_ECDSA, Handle::Invalid),
    starts("C_VerifyInit", "with the private key", WRONG_KEY, CKM_ECDSA, Handle::Private(Key::Ec)),
    starts("C_VerifyInit", "with an elliptic curve key for RSA", BAD_TYPE, CKM_RSA_PKCS, EC),
    starts("C_VerifyInit", "with a key without CKA_VERIFY", NOT_PERMITTED, CKM_AES_CMAC, IDLE),
    case("C_VerifyInit", "with a public key without a login", &[CKR_OK], |fixture| {
        let modulus = fixture.attribute(fixture.pair(Key::Rsa)?.public, CKA_MODULUS)?;
        fixture.logged_out(|session| {
            let mut template = open_key(CKO_PUBLIC_KEY, CKK_RSA);
            template.push(flag(CKA_PRIVATE, false));
            template.push(bytes(CKA_MODULUS, modulus.clone()));
            template.push(bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]));
            let key = session.create_object(&template)?;
            session.verify_init(&RSA, key)
        })
    }),
    case("C_Verify", "after an update", &[CKR_OPERATION_ACTIVE, CKR_OPERATION_NOT_INITIALIZED], |fixture| {
        let session = fixture.fresh()?;
        session.verify_init(&HMAC, fixture.key(Key::Generic)?)?;
        session.verify_update(b"abc")?;
        session.verify(b"abc", &[0; 32]).map(drop)
    }),
    case("C_VerifySignatureInit", "with an invalid key handle", NO_HANDLE, |fixture| {
        signature_init(fixture, &ECDSA, NO_OBJECT)
    }),
    case("C_VerifySignatureInit", "with an unknown mechanism", INVALID, |fixture| {
        signature_init(fixture, &NO_MECHANISM, fixture.pair(Key::Ec)?.public)
    }),
    optional("C_VerifySignatureInit", "with a key without CKA_VERIFY", NOT_PERMITTED, |fixture| {
        signature_init(fixture, &Mechanism::new(CKM_AES_CMAC), fixture.key(Key::Idle)?)
    }),
    optional("C_VerifyRecoverInit", "with a key without CKA_VERIFY_RECOVER", NOT_PERMITTED, |fixture| {
        Calls::new(fixture)?.init("C_VerifyRecoverInit", &RSA, idle_pair(fixture)?.public)
    }),
    optional("C_VerifyRecover", "of each RSA mechanism", &[CKR_OK], |fixture| {
        let (calls, pair) = (Calls::new(fixture)?, fixture.pair(Key::Rsa)?);
        for (kind, length) in [(CKM_RSA_PKCS, 40), (CKM_RSA_PKCS, 0), (CKM_RSA_X_509, 256)] {
            let (mechanism, data) = (Mechanism::new(kind), message(length, 1));
            calls.init("C_SignRecoverInit", &mechanism, pair.private)?;
            let signature = calls.output("C_SignRecover", Some(&data))?;
            calls.init("C_SignInit", &mechanism, pair.private)?;
            ensure("C_SignRecover", signature == calls.output("C_Sign", Some(&data))?)?;
            calls.init("C_VerifyRecoverInit", &mechanism, pair.public)?;
            let (mut out, input) = (vec![0; length], || vec![Arg::Bytes(&signature)]);
            if let Some(short) = length.checked_sub(1) {
                let outcome = calls.fill("C_VerifyRecover", input(), &mut out[..short]).1;
                refused("C_VerifyRecover", outcome, TOO_SMALL)?;
            }
            let (written, outcome) = calls.fill("C_VerifyRecover", input(), &mut out);
            outcome?;
            ensure("C_VerifyRecover", written == length && out == data)?;
        }
        for (signature, code) in
            [(&[1; 255][..], CKR_SIGNATURE_LEN_RANGE), (&[1; 256], CKR_SIGNATURE_INVALID)]
        {
            // PKCS#11 3.2, C_VerifyRecover: this code precedes that for a short buffer.
            for length in [256, 1] {
                calls.init("C_VerifyRecoverInit", &RSA, pair.public)?;
                let outcome =
                    calls.fill("C_VerifyRecover", vec![Arg::Bytes(signature)], &mut vec![0; length]).1;
                refused("C_VerifyRecover", outcome, &[code])?;
                let over = calls.length("C_VerifyRecover", vec![Arg::Bytes(signature)]);
                refused("C_VerifyRecover", over, NOT_BEGUN)?;
            }
        }
        Ok(())
    }),
];
