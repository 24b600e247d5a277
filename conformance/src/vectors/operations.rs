//! The calls of a vector.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Failure, Mechanism, ObjectHandle};
use jeton_vectors::{Mac, Miss, Operation, Pair};

use super::Outcome;
use super::keys::{decrypting, on_curve, secret, value_of, verifying, with_key, with_set};
use crate::cases::{decapsulate, encapsulate};
use crate::fixture::{Fixture, number, open_key, signed, with};

pub fn carry_out(fixture: &Fixture<'_>, mechanism: &Mechanism, operation: &Operation) -> Outcome {
    match operation {
        Operation::Verify { key, message, signature, .. } => {
            with_key(fixture, &verifying(key), |key| verify(fixture, mechanism, key, message, signature))
        }
        Operation::Digest { message, digest, .. } => {
            let (session, mut out) = (fixture.fresh()?, [0; 64]);
            session.digest_init(mechanism)?;
            let length = session.digest(message, &mut out)?;
            same(&out[..length], digest)
        }
        Operation::SignEddsa { key, message, signature, .. } => {
            let template = on_curve(key.curve, &key.seed, CKA_SIGN);
            with_key(fixture, &template, |handle| match signed(fixture, mechanism, handle, message) {
                // The module has Ed25519 without a context only.
                Err(Failure { function: "C_SignInit", code: CKR_MECHANISM_PARAM_INVALID, .. })
                    if key.context.is_some() =>
                {
                    Err(Miss::Inexpressible)
                }
                made => same(&made?, signature),
            })
        }
        Operation::Sign { pair, message, signature, .. } => {
            let Some(template) = private(pair, CKK_ML_DSA, CKA_SIGN) else { return Err(Miss::Inexpressible) };
            with_key(fixture, &template, |key| same(&signed(fixture, mechanism, key, message)?, signature))
        }
        Operation::Crypt { cipher, key, plain, sealed, .. }
            if ["AES-WRAP", "AES-KWP"].contains(&&cipher[..]) =>
        {
            // A key must have a value.
            if plain.is_empty() {
                return Err(Miss::Inexpressible);
            }
            let template = secret(CKK_AES, key, &[CKA_WRAP, CKA_UNWRAP]);
            with_key(fixture, &template, |key| wraps(fixture, mechanism, key, plain, sealed))
        }
        Operation::Crypt { cipher, key, plain, sealed, .. } => {
            let kind = match &cipher[..] {
                "CHACHA20" | "CHACHA20-POLY1305" => CKK_CHACHA20,
                "AES-XTS" => CKK_AES_XTS,
                _ => CKK_AES,
            };
            let template = secret(kind, key, &[CKA_ENCRYPT, CKA_DECRYPT]);
            with_key(fixture, &template, |key| {
                same(&decrypt(fixture, mechanism, key, sealed)?, plain)?;
                let (session, mut out) = (fixture.fresh()?, vec![0; sealed.len() + 64]);
                session.encrypt_init(mechanism, key)?;
                let length = session.encrypt(plain, &mut out)?;
                same(&out[..length], sealed)
            })
        }
        Operation::Mac { mac, key, message, tag } => {
            let kind = if matches!(mac, Mac::Hmac { .. }) { CKK_GENERIC_SECRET } else { CKK_AES };
            with_key(fixture, &secret(kind, key, &[CKA_SIGN, CKA_VERIFY]), |key| {
                let made = signed(fixture, mechanism, key, message)?;
                same(made.get(..tag.len()).unwrap_or_default(), tag)
            })
        }
        Operation::Hkdf { key, output, .. } => {
            derives(fixture, mechanism, &secret(CKK_HKDF, key, &[CKA_DERIVE]), output, output.len())
        }
        Operation::Decrypt { key, plain, sealed, .. } => {
            with_key(fixture, &decrypting(key), |key| same(&decrypt(fixture, mechanism, key, sealed)?, plain))
        }
        Operation::Agree { curve, scalar, secret, .. } => {
            derives(fixture, mechanism, &on_curve(curve, scalar, CKA_DERIVE), secret, curve.len)
        }
        Operation::Keys(pair) if mechanism.kind == CKM_SLH_DSA => belong(fixture, mechanism, pair),
        Operation::Keys(pair) => {
            let (kind, usage) = match mechanism.kind {
                CKM_ML_DSA => (CKK_ML_DSA, CKA_SIGN),
                _ => (CKK_ML_KEM, CKA_DECAPSULATE),
            };
            let Some(template) = private(pair, kind, usage) else { return Err(Miss::Inexpressible) };
            with_key(fixture, &template, |key| has_value(fixture, key, pair))
        }
        Operation::Kem { pair, ciphertext, secret } => {
            kem(fixture, mechanism, pair, ciphertext.as_deref(), secret.as_deref())
        }
    }
}

fn same(made: &[u8], expected: &[u8]) -> Outcome {
    if made == expected { Ok(()) } else { Err(Miss::Differs) }
}

type Bytes = Result<Vec<u8>, Miss<Failure>>;

fn verify(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    message: &[u8],
    signature: &[u8],
) -> Outcome {
    let session = fixture.fresh()?;
    session.verify_init(mechanism, key)?;
    Ok(fixture.call("C_Verify", &session, vec![Arg::Bytes(message), Arg::Bytes(signature)])?)
}

fn decrypt(fixture: &Fixture<'_>, mechanism: &Mechanism, key: ObjectHandle, sealed: &[u8]) -> Bytes {
    let (session, mut out) = (fixture.fresh()?, vec![0; sealed.len() + 1024]);
    session.decrypt_init(mechanism, key)?;
    let length = session.decrypt(sealed, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// Checks both directions of a key wrap, in which the wrapped key is a generic secret.
fn wraps(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    plain: &[u8],
    sealed: &[u8],
) -> Outcome {
    let inner = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let made = fixture.unwrap_key(mechanism, key, sealed, &inner)?;
    same(&value_of(fixture, made)?, plain)?;
    with_key(fixture, &secret(CKK_GENERIC_SECRET, plain, &[]), |inner| {
        let mut out = vec![0; sealed.len() + 64];
        let length = fixture.wrap_key(mechanism, key, inner, &mut out)?;
        same(&out[..length], sealed)
    })
}

fn derives(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    base: &[Attribute],
    output: &[u8],
    length: usize,
) -> Outcome {
    let length = number(CKA_VALUE_LEN, length as CK_ULONG);
    let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), length);
    with_key(fixture, base, |base| {
        let made = fixture.derive_key(mechanism, base, &template)?;
        same(&value_of(fixture, made)?, output)
    })
}

/// Returns the template of the private key, with the seed if the vector has one.
fn private(pair: &Pair, kind: CK_KEY_TYPE, usage: CK_ATTRIBUTE_TYPE) -> Option<Vec<Attribute>> {
    let seed = pair.seed.as_deref().map(|seed| (CKA_SEED, seed));
    let part = seed.or_else(|| Some((CKA_VALUE, pair.private.as_deref()?)))?;
    Some(with_set(CKO_PRIVATE_KEY, kind, &pair.set, usage, part))
}

/// Compares the value of a private key with the expected one, if the vector has it.
fn has_value(fixture: &Fixture<'_>, key: ObjectHandle, pair: &Pair) -> Outcome {
    let Some(expected) = &pair.private else { return Ok(()) };
    same(&fixture.attribute(key, CKA_VALUE)?, expected)
}

/// Checks that the public key verifies a signature of the private key. PKCS#11 has no seed for
/// SLH-DSA, so both keys are imported.
fn belong(fixture: &Fixture<'_>, mechanism: &Mechanism, pair: &Pair) -> Outcome {
    let (Some(public), Some(private)) = (&pair.public, &pair.private) else {
        return Err(Miss::Inexpressible);
    };
    let key = |class, usage, value: &[u8]| with_set(class, CKK_SLH_DSA, &pair.set, usage, (CKA_VALUE, value));
    let signature = with_key(fixture, &key(CKO_PRIVATE_KEY, CKA_SIGN, private), |key| {
        Ok(signed(fixture, mechanism, key, b"a message")?)
    })?;
    with_key(fixture, &key(CKO_PUBLIC_KEY, CKA_VERIFY, public), |key| {
        verify(fixture, mechanism, key, b"a message", &signature)
    })
}

fn kem(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    pair: &Pair,
    ciphertext: Option<&[u8]>,
    secret: Option<&[u8]>,
) -> Outcome {
    if let Some(key) = &pair.public {
        let part = (CKA_VALUE, &key[..]);
        let template = with_set(CKO_PUBLIC_KEY, CKK_ML_KEM, &pair.set, CKA_ENCAPSULATE, part);
        with_key(fixture, &template, |public| {
            let (_, secret) = encapsulate(fixture, mechanism, public, 1568)?;
            Ok(fixture.destroy_object(secret)?)
        })?;
    }
    let Some(template) = private(pair, CKK_ML_KEM, CKA_DECAPSULATE) else { return Ok(()) };
    with_key(fixture, &template, |key| {
        has_value(fixture, key, pair)?;
        let Some(ciphertext) = ciphertext else { return Ok(()) };
        let made = value_of(fixture, decapsulate(fixture, mechanism, key, ciphertext)?)?;
        secret.map_or(Ok(()), |secret| same(&made, secret))
    })
}
