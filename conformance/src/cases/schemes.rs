//! Signatures and MACs of each kind: with short buffers, wrong signatures, a second operation, and
//! the functions for messages. The mechanisms of one kind differ in their hashes.

use cryptoki_sys::*;
use jeton_client::names::CKM_ML_DSA_EXTERNAL_MU;
use jeton_client::{Arg, Mechanism, Structure};

use super::calls::{Calls, NOT_BEGUN, TOO_SMALL, listed, message, refused};
use crate::fixture::{Answer, Fixture, Key, Pair, SECRET, able, bytes, ensure, open_key, with};
use crate::task::Task;

struct Scheme {
    kind: CK_MECHANISM_TYPE,
    parameter: fn(CK_MECHANISM_TYPE) -> Mechanism,
    /// `None` for an AES key of 128 bits.
    key: Option<Key>,
    length: usize,
    /// Whether the same message has the same signature.
    repeats: bool,
    /// Whether the functions for several parts accept it.
    parts: bool,
}

/// Longer than the blocks of every hash.
const LONG: usize = 1000;

const SCHEMES: &[Scheme] = &[
    Scheme { length: 256, repeats: true, parts: false, ..scheme(CKM_RSA_X_509, Some(Key::Rsa)) },
    Scheme { length: 51, repeats: true, parts: false, ..scheme(CKM_RSA_PKCS, Some(Key::Rsa)) },
    Scheme { repeats: true, ..scheme(CKM_SHA256_RSA_PKCS, Some(Key::Rsa)) },
    Scheme { length: 32, parts: false, parameter: pss, ..scheme(CKM_RSA_PKCS_PSS, Some(Key::Rsa)) },
    Scheme { parameter: pss, ..scheme(CKM_SHA256_RSA_PKCS_PSS, Some(Key::Rsa)) },
    Scheme { length: 32, parts: false, ..scheme(CKM_ECDSA, Some(Key::Ec)) },
    scheme(CKM_ECDSA_SHA512, Some(Key::Ec)),
    Scheme { repeats: true, parts: false, ..scheme(CKM_EDDSA, Some(Key::Edwards)) },
    Scheme { parts: false, ..scheme(CKM_ML_DSA, Some(Key::MlDsa)) },
    Scheme { length: 64, parts: false, ..scheme(CKM_ML_DSA_EXTERNAL_MU, Some(Key::MlDsa)) },
    Scheme { length: 32, parts: false, parameter: hash_sign, ..scheme(CKM_HASH_ML_DSA, Some(Key::MlDsa)) },
    scheme(CKM_HASH_ML_DSA_SHA256, Some(Key::MlDsa)),
    scheme(CKM_HASH_SLH_DSA_SHA256, Some(Key::SlhDsa)),
    code(CKM_SHA256_HMAC, Some(Key::Generic)),
    Scheme { parameter: of_8, ..code(CKM_SHA512_HMAC_GENERAL, Some(Key::Generic)) },
    code(CKM_BLAKE2B_256_HMAC, Some(Key::Generic)),
    code(CKM_AES_CMAC, Some(Key::Aes)),
    Scheme { parameter: of_8, ..code(CKM_AES_CMAC_GENERAL, Some(Key::Aes)) },
    code(CKM_AES_MAC, Some(Key::Aes)),
    code(CKM_AES_XCBC_MAC, None),
    code(CKM_AES_XCBC_MAC_96, None),
    Scheme { parameter: |kind| Mechanism::with_bytes(kind, &[3; 12]), ..code(CKM_AES_GMAC, Some(Key::Aes)) },
];

const fn scheme(kind: CK_MECHANISM_TYPE, key: Option<Key>) -> Scheme {
    Scheme { kind, parameter: Mechanism::new, key, length: LONG, repeats: false, parts: true }
}

const fn code(kind: CK_MECHANISM_TYPE, key: Option<Key>) -> Scheme {
    Scheme { repeats: true, ..scheme(kind, key) }
}

pub fn pss(kind: CK_MECHANISM_TYPE) -> Mechanism {
    Mechanism::with_numbers(kind, &[CKM_SHA256, CKG_MGF1_SHA256, 32])
}

/// Returns a mechanism that signs a SHA-256 digest with a post-quantum key.
pub fn hash_sign(kind: CK_MECHANISM_TYPE) -> Mechanism {
    Structure::new().number(CKH_HEDGE_PREFERRED).bytes(b"").number(CKM_SHA256).mechanism(kind)
}

fn of_8(kind: CK_MECHANISM_TYPE) -> Mechanism {
    Mechanism::with_numbers(kind, &[8])
}

/// The function under test, the situation, the flag that the mechanism needs, and the calls, which
/// fail if a module gives another result.
type Check = (&'static str, &'static str, CK_FLAGS, fn(&Trial<'_>) -> Answer);

const CHECKS: &[Check] = &[
    ("C_Sign", "into short and long buffers", CKF_SIGN, short_buffers),
    ("C_Verify", "of wrong signatures", CKF_VERIFY, wrong_signatures),
    ("C_SignInit", "after a cancelled operation", CKF_SIGN, again),
    ("C_VerifySignature", "of right and wrong signatures", CKF_VERIFY, signature_first),
    ("C_SignMessage", "signs as C_Sign does", CKF_MESSAGE_SIGN, messages),
];

pub fn tasks() -> Vec<Task> {
    let pairs = SCHEMES.iter().flat_map(|scheme| CHECKS.iter().map(move |check| (scheme, check)));
    let tasks = pairs.map(|(scheme, (function, situation, flag, run))| {
        let (name, codes) = (format!("{situation}, with {{}}"), &[CKR_FUNCTION_NOT_SUPPORTED]);
        listed(function, &name, (scheme.kind, *flag), codes, |fixture| run(&Trial::of(fixture, scheme)?))
    });
    tasks.collect()
}

/// A mechanism with its keys, two messages, and a session for its operations.
struct Trial<'a> {
    calls: Calls<'a>,
    scheme: &'a Scheme,
    mechanism: Mechanism,
    keys: Pair,
    data: Vec<u8>,
    other: Vec<u8>,
}

impl<'a> Trial<'a> {
    fn of(fixture: &'a Fixture<'a>, scheme: &'a Scheme) -> Answer<Self> {
        let keys = match scheme.key {
            Some(key) => fixture.pair(key)?,
            None => {
                let template = able(open_key(CKO_SECRET_KEY, CKK_AES), &[CKA_SIGN, CKA_VERIFY]);
                let value = bytes(CKA_VALUE, &SECRET[..16]);
                let key = fixture.create_object(&with(template, value))?;
                Pair { public: key, private: key }
            }
        };
        let [data, other] = [3, 4].map(|start| message(scheme.length, start));
        let mechanism = (scheme.parameter)(scheme.kind);
        Ok(Self { calls: Calls::new(fixture)?, scheme, mechanism, keys, data, other })
    }

    fn init(&self, function: &'static str) -> Answer {
        let key = if function.contains("Sign") { self.keys.private } else { self.keys.public };
        self.calls.init(function, &self.mechanism, key)
    }

    fn sign(&self, data: &[u8]) -> Answer<Vec<u8>> {
        self.init("C_SignInit")?;
        self.calls.output("C_Sign", Some(data))
    }

    fn sign_part(&self, part: &[u8]) -> Answer {
        self.calls.call("C_SignUpdate", vec![Arg::Bytes(part)])
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Answer {
        self.init("C_VerifyInit")?;
        self.calls.call("C_Verify", vec![Arg::Bytes(data), Arg::Bytes(signature)])
    }

    fn verify_in_parts(&self, signature: &[u8]) -> Answer {
        let (head, tail) = self.data.split_at(self.data.len() / 2);
        self.init("C_VerifyInit")?;
        for part in [head, b"", tail] {
            self.calls.call("C_VerifyUpdate", vec![Arg::Bytes(part)])?;
        }
        self.calls.call("C_VerifyFinal", vec![Arg::Bytes(signature)])
    }

    /// Checks that a signature is that of the message, and that a repeatable one is `known`.
    fn right(&self, function: &'static str, signature: &[u8], known: &[u8]) -> Answer {
        self.verify(&self.data, signature)?;
        ensure(function, !self.scheme.repeats || signature == known)
    }
}

fn short_buffers(trial: &Trial<'_>) -> Answer {
    let (calls, known) = (&trial.calls, trial.sign(&trial.data)?);
    let mut functions = vec![("C_Sign", Some(&trial.data))];
    functions.extend(trial.scheme.parts.then_some(("C_SignFinal", None)));
    for (function, data) in functions {
        let arguments = || data.into_iter().map(|data| Arg::Bytes(data)).collect();
        trial.init("C_SignInit")?;
        if data.is_none() {
            trial.data.chunks(7).try_for_each(|part| trial.sign_part(part))?;
        }
        let bound = calls.length(function, arguments())?;
        for short in [0, 1, known.len() - 1] {
            let (needed, outcome) = calls.fill(function, arguments(), &mut vec![0; short]);
            refused(function, outcome, TOO_SMALL)?;
            ensure(function, (known.len()..=bound).contains(&needed))?;
        }
        let mut room = vec![0xaa; bound + 9];
        let (length, outcome) = calls.fill(function, arguments(), &mut room);
        outcome?;
        ensure(function, room[bound..] == [0xaa; 9])?;
        refused(function, calls.length(function, arguments()), NOT_BEGUN)?;
        trial.right(function, &room[..length], &known)?;
    }
    Ok(())
}

fn wrong_signatures(trial: &Trial<'_>) -> Answer {
    const LENGTH: &[CK_RV] = &[CKR_SIGNATURE_LEN_RANGE];
    const EMPTY: &[CK_RV] = &[CKR_SIGNATURE_LEN_RANGE, CKR_SIGNATURE_INVALID, CKR_ARGUMENTS_BAD];
    let good = trial.sign(&trial.data)?;
    let (mut flipped, longer) = (good.clone(), [&good[..], &[0]].concat());
    flipped[good.len() - 1] ^= 1;
    for (signature, codes) in
        [(&flipped[..], &[CKR_SIGNATURE_INVALID][..]), (&good[1..], LENGTH), (&longer, LENGTH), (&[], EMPTY)]
    {
        refused("C_Verify", trial.verify(&trial.data, signature), codes)?;
        let over = vec![Arg::Bytes(&trial.data), Arg::Bytes(&good)];
        refused("C_Verify", trial.calls.call("C_Verify", over), NOT_BEGUN)?;
        if trial.scheme.parts {
            refused("C_VerifyFinal", trial.verify_in_parts(signature), codes)?;
            let over = trial.calls.call("C_VerifyFinal", vec![Arg::Bytes(&good)]);
            refused("C_VerifyFinal", over, NOT_BEGUN)?;
            trial.verify_in_parts(&good)?;
        }
    }
    refused("C_Verify", trial.verify(&trial.other, &good), &[CKR_SIGNATURE_INVALID])
}

/// Checks that parts of a cancelled operation have no effect on the next one.
fn again(trial: &Trial<'_>) -> Answer {
    let calls = &trial.calls;
    let known = trial.sign(&trial.data)?;
    for _ in 0..2 {
        for init in ["C_SignInit", "C_VerifyInit"] {
            trial.init(init)?;
            refused(init, trial.init(init), &[CKR_OPERATION_ACTIVE])?;
            if trial.scheme.parts {
                let update = if init == "C_SignInit" { "C_SignUpdate" } else { "C_VerifyUpdate" };
                calls.call(update, vec![Arg::Bytes(b"given up")])?;
            }
            calls.cancel(init)?;
        }
        let other = trial.sign(&trial.other)?;
        trial.verify(&trial.other, &other)?;
        trial.right("C_Sign", &trial.sign(&trial.data)?, &known)?;
        if trial.scheme.parts {
            trial.init("C_SignInit")?;
            trial.sign_part(&trial.data[..1])?;
            trial.sign_part(&trial.data[1..])?;
            trial.right("C_SignFinal", &calls.output("C_SignFinal", None)?, &known)?;
        }
    }
    Ok(())
}

/// Checks the functions that get the signature before the data.
fn signature_first(trial: &Trial<'_>) -> Answer {
    let (calls, key) = (&trial.calls, trial.keys.public.0);
    let (good, bad) = (trial.sign(&trial.data)?, trial.sign(&trial.other)?);
    let judge = |function, outcome: Answer, right| match right {
        true => outcome,
        false => refused(function, outcome, &[CKR_SIGNATURE_INVALID]),
    };
    for (signature, right) in [(&good, true), (&bad, false), (&good, true)] {
        let init = || vec![Arg::Mechanism(&trial.mechanism), Arg::Number(key), Arg::Bytes(signature)];
        calls.call("C_VerifySignatureInit", init())?;
        let twice = calls.call("C_VerifySignatureInit", init());
        refused("C_VerifySignatureInit", twice, &[CKR_OPERATION_ACTIVE])?;
        let whole = calls.call("C_VerifySignature", vec![Arg::Bytes(&trial.data)]);
        judge("C_VerifySignature", whole, right)?;
        if trial.scheme.parts {
            calls.call("C_VerifySignatureInit", init())?;
            for part in trial.data.chunks(trial.data.len() / 2) {
                calls.call("C_VerifySignatureUpdate", vec![Arg::Bytes(part)])?;
            }
            let parts = calls.call("C_VerifySignatureFinal", vec![]);
            judge("C_VerifySignatureFinal", parts, right)?;
        }
        refused("C_VerifySignatureFinal", calls.call("C_VerifySignatureFinal", vec![]), NOT_BEGUN)?;
    }
    Ok(())
}

/// Checks the functions for messages against those for a single operation, in one part and in
/// several. A wrong signature ends only its message.
fn messages(trial: &Trial<'_>) -> Answer {
    let (calls, known) = (&trial.calls, trial.sign(&trial.data)?);
    let (head, tail) = trial.data.split_at(trial.data.len() / 2);
    let input = |data| vec![Arg::NullBytes(0), Arg::Bytes(data)];
    let verify = |function, data: &[u8], signature: &[u8]| {
        calls.call(function, vec![Arg::NullBytes(0), Arg::Bytes(data), Arg::Bytes(signature)])
    };
    let begin = |function| calls.call(function, vec![Arg::NullBytes(0)]);
    trial.init("C_MessageSignInit")?;
    trial.init("C_MessageVerifyInit")?;
    for _ in 0..2 {
        let mut made = Vec::new();
        for in_parts in [false, true] {
            if in_parts {
                begin("C_SignMessageBegin")?;
                let part = vec![Arg::NullBytes(0), Arg::Bytes(head), Arg::NoLength(None)];
                calls.call("C_SignMessageNext", part)?;
                let mixed = calls.length("C_SignMessage", input(&trial.data));
                refused("C_SignMessage", mixed, &[CKR_OPERATION_ACTIVE])?;
            }
            let (function, data) =
                if in_parts { ("C_SignMessageNext", tail) } else { ("C_SignMessage", &trial.data[..]) };
            let mut out = vec![0; calls.length(function, input(data))?];
            let short = out.len() - 1;
            refused(function, calls.fill(function, input(data), &mut out[..short]).1, TOO_SMALL)?;
            let (length, outcome) = calls.fill(function, input(data), &mut out);
            outcome?;
            out.truncate(length);
            made.push(out);
            if in_parts {
                refused(function, calls.length(function, input(data)), NOT_BEGUN)?;
            }
        }
        for signature in &made {
            trial.right("C_SignMessage", signature, &known)?;
            verify("C_VerifyMessage", &trial.data, signature)?;
            begin("C_VerifyMessageBegin")?;
            calls
                .call("C_VerifyMessageNext", vec![Arg::NullBytes(0), Arg::Bytes(head), Arg::NullBytes(0)])?;
            verify("C_VerifyMessageNext", tail, signature)?;
        }
        made[0][known.len() - 1] ^= 1;
        for (wrong, code) in [(&made[0][..], CKR_SIGNATURE_INVALID), (&made[0][1..], CKR_SIGNATURE_LEN_RANGE)]
        {
            refused("C_VerifyMessage", verify("C_VerifyMessage", &trial.data, wrong), &[code])?;
            begin("C_VerifyMessageBegin")?;
            refused("C_VerifyMessageNext", verify("C_VerifyMessageNext", &trial.data, wrong), &[code])?;
            refused("C_VerifyMessageNext", verify("C_VerifyMessageNext", tail, wrong), NOT_BEGUN)?;
        }
    }
    for last in ["C_MessageSignFinal", "C_MessageVerifyFinal"] {
        calls.call(last, vec![])?;
        refused(last, calls.call(last, vec![]), NOT_BEGUN)?;
    }
    Ok(())
}
