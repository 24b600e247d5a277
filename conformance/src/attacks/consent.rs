//! Finding H2 of docs/security.md: a private key with `CKA_ALWAYS_AUTHENTICATE` is used without its
//! PIN, or a usage that the owner refused is available through another function.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Mechanism, ObjectHandle, Structure, User};

use super::tools::{Guarded, ecdh, hidden_of, oaep, readable, readable_of, replaced, rsa_aes};
use super::{Attack, Attacker, Attempt, Setup, attack, flag, mechanism};
use crate::fixture::P256;

const H2: &str = "Review, H2";
const SECRET: &[u8; 32] = b"what was encrypted for the owner";
const MESSAGE: &[u8] = b"a message that the owner never signed";

pub fn attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    // The words that describe the key in the names of attacks, the usages of the key, and more
    // attributes that the owner chose.
    type Owner = (&'static str, &'static [CK_ATTRIBUTE_TYPE], &'static [(CK_ATTRIBUTE_TYPE, bool)]);
    const OWNERS: [Owner; 4] = [
        (
            "with CKA_ALWAYS_AUTHENTICATE",
            &[CKA_SIGN, CKA_DECRYPT, CKA_UNWRAP, CKA_SIGN_RECOVER],
            &[(CKA_ALWAYS_AUTHENTICATE, true)],
        ),
        (
            "that may only unwrap, with CKA_ALWAYS_AUTHENTICATE",
            &[CKA_UNWRAP],
            &[(CKA_ALWAYS_AUTHENTICATE, true)],
        ),
        (
            "with only CKA_SIGN and CKA_DECRYPT=false in its template",
            &[],
            &[(CKA_SIGN, true), (CKA_DECRYPT, false)],
        ),
        ("that may only sign", &[CKA_SIGN], &[]),
    ];
    for (what, usages, more) in OWNERS {
        let key = move |a: &Attacker<'_>| owned(a, usages, more);
        all.push(attack(
            H2,
            format!("forge a signature by unwrapping RSA_X_509, RSA key {what}"),
            &[CKM_RSA_X_509],
            move |a| {
                let (public, private) = key(a)?;
                let template = readable(CKK_GENERIC_SECRET);
                let made = a.unwrap_key(&mechanism(CKM_RSA_X_509), private, &padded(a)?, &template)?;
                let forged = a.value(made)?;
                Ok(a.verifies(&mechanism(CKM_SHA256_RSA_PKCS), public, MESSAGE, &forged)?)
            },
        ));
        for (kind, with) in [(CKM_RSA_PKCS, mechanism(CKM_RSA_PKCS)), (CKM_RSA_PKCS_OAEP, oaep())] {
            let name = super::tools::named(kind);
            let decrypting = with.clone();
            all.push(attack(
                H2,
                format!("decrypt by unwrapping {name}, RSA key {what}"),
                &[kind],
                move |a| {
                    let (public, private) = key(a)?;
                    let ciphertext = a.encrypted(&with, public, SECRET).setup()?;
                    let made = a.unwrap_key(&with, private, &ciphertext, &readable(CKK_GENERIC_SECRET))?;
                    Ok(a.value(made)? == SECRET)
                },
            ));
            if what != "that may only unwrap, with CKA_ALWAYS_AUTHENTICATE" {
                all.push(attack(H2, format!("decrypt {name}, RSA key {what}"), &[kind], move |a| {
                    let (public, private) = key(a)?;
                    let ciphertext = a.encrypted(&decrypting, public, SECRET).setup()?;
                    Ok(a.decrypted(&decrypting, private, &ciphertext)? == SECRET)
                }));
            }
        }
        all.push(attack(
            H2,
            format!("unwrap RSA_AES_KEY_WRAP, RSA key {what}"),
            &[CKM_RSA_AES_KEY_WRAP],
            move |a| {
                let (public, private) = key(a)?;
                let victim =
                    a.secret(CKK_GENERIC_SECRET, SECRET, Guarded::Wrappable, &[CKA_SIGN], &[]).setup()?;
                let wrapped = a.wrapped(&rsa_aes(), public, victim)?;
                let made = a.unwrap_key(&rsa_aes(), private, &wrapped, &readable(CKK_GENERIC_SECRET))?;
                Ok(a.value(made)? == SECRET)
            },
        ));
        all.push(attack(
            H2,
            format!("decrypt without padding, RSA key {what}"),
            &[CKM_RSA_X_509],
            move |a| {
                let (public, private) = key(a)?;
                let forged = a.decrypted(&mechanism(CKM_RSA_X_509), private, &padded(a)?)?;
                Ok(a.verifies(&mechanism(CKM_SHA256_RSA_PKCS), public, MESSAGE, &forged)?)
            },
        ));
    }
    all.extend(pins());
    all.extend(agreements());
    all.extend(refusals());
    all
}

/// Creates an RSA pair with these usages only, and the attributes in `more`. Without usages, the
/// usages that `more` omits have their defaults.
fn owned(
    a: &Attacker<'_>,
    usages: &[CK_ATTRIBUTE_TYPE],
    more: &[(CK_ATTRIBUTE_TYPE, bool)],
) -> Result<(ObjectHandle, ObjectHandle), super::Stop> {
    let more: Vec<_> = more.iter().map(|(kind, value)| flag(*kind, *value)).collect();
    let public = [CKA_ENCRYPT, CKA_VERIFY, CKA_WRAP];
    if !usages.is_empty() {
        // If the policy excludes some combinations, the owner takes only the first usage.
        let all = a.rsa(&public, usages, &more);
        let fewer = |_| a.rsa(&[CKA_VERIFY, CKA_ENCRYPT], &usages[..1], &more);
        return all.or_else(fewer).setup();
    }
    let template = vec![
        flag(CKA_TOKEN, false),
        Attribute::number(CKA_MODULUS_BITS, 2048),
        Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
        flag(CKA_VERIFY, true),
        flag(CKA_ENCRYPT, true),
        flag(CKA_WRAP, true),
    ];
    let private = replaced([vec![flag(CKA_TOKEN, false)], Guarded::Kept.attributes()].concat(), &more);
    a.generate_key_pair(&mechanism(CKM_RSA_PKCS_KEY_PAIR_GEN), &template, &private).setup()
}

/// Returns the EMSA-PKCS1-v1_5 encoding of [`MESSAGE`] with SHA-256 for 2048 bits (RFC 8017, 9.2).
fn padded(a: &Attacker<'_>) -> Result<Vec<u8>, super::Stop> {
    const PREFIX: [u8; 19] =
        [0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];
    let digest = a.digested(CKM_SHA256, MESSAGE).setup()?;
    let mut block = vec![0xff; 256];
    block[0] = 0;
    block[1] = 1;
    block[204] = 0;
    block[205..224].copy_from_slice(&PREFIX);
    block[224..].copy_from_slice(&digest);
    Ok(block)
}

/// Creates an EC pair that needs its PIN for each use.
fn careful(a: &Attacker<'_>, usage: CK_ATTRIBUTE_TYPE) -> Result<(ObjectHandle, ObjectHandle), super::Stop> {
    a.ec(&[usage], Guarded::Kept, &[flag(CKA_ALWAYS_AUTHENTICATE, true)]).setup()
}

/// Attacks on the context-specific login. Each operation must need a login of its own, in the same
/// session.
fn pins() -> Vec<Attack> {
    let ecdsa = || mechanism(CKM_ECDSA);
    let forged = |a: &Attacker<'_>, public, signature: &[u8]| -> Attempt {
        Ok(a.verifies(&mechanism(CKM_ECDSA), public, &[7; 32], signature)?)
    };
    let mut all = vec![
        attack(H2, "sign without the PIN of the key", &[CKM_ECDSA], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            let signature = a.signed(&ecdsa(), key, &[7; 32])?;
            forged(a, public, &signature)
        }),
        attack(H2, "sign twice with one PIN of the key", &[CKM_ECDSA], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            a.sign_init(&ecdsa(), key).setup()?;
            a.login(User::ContextSpecific, Some(&a.fixture.pin)).setup()?;
            let mut out = [0; 64];
            a.sign(&[1; 32], &mut out).setup()?;
            let signature = a.signed(&ecdsa(), key, &[7; 32])?;
            forged(a, public, &signature)
        }),
        attack(H2, "sign in one session with the PIN that was given in another", &[CKM_ECDSA], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            let other = a.fixture.fresh().setup()?;
            other.sign_init(&ecdsa(), key).setup()?;
            other.login(User::ContextSpecific, Some(&a.fixture.pin)).setup()?;
            let signature = a.signed(&ecdsa(), key, &[7; 32])?;
            forged(a, public, &signature)
        }),
        attack(H2, "sign with a second key after the PIN of the first", &[CKM_ECDSA], move |a| {
            let (_, first) = careful(a, CKA_SIGN)?;
            let (public, second) = careful(a, CKA_SIGN)?;
            a.sign_init(&ecdsa(), first).setup()?;
            a.login(User::ContextSpecific, Some(&a.fixture.pin)).setup()?;
            // This call ends the first operation.
            a.sign(&[1; 32], &mut [0; 64]).setup()?;
            let signature = a.signed(&ecdsa(), second, &[7; 32])?;
            forged(a, public, &signature)
        }),
        attack(H2, "sign with a wrong PIN of the key", &[CKM_ECDSA], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            a.sign_init(&ecdsa(), key).setup()?;
            let wrong = a.login(User::ContextSpecific, Some("not the PIN of it"));
            let mut out = vec![0; 64];
            let signed = a.sign(&[7; 32], &mut out);
            // The right PIN resets the count of wrong PINs.
            let _ = a.sign_init(&ecdsa(), key);
            let _ = a.login(User::ContextSpecific, Some(&a.fixture.pin));
            wrong.or(signed.map(drop))?;
            forged(a, public, &out)
        }),
        attack(
            H2,
            "sign with the login of the user in place of the PIN of the key",
            &[CKM_ECDSA],
            move |a| {
                let (public, key) = careful(a, CKA_SIGN)?;
                a.sign_init(&ecdsa(), key).setup()?;
                let _ = a.login(User::User, Some(&a.fixture.pin));
                let mut out = vec![0; 64];
                a.sign(&[7; 32], &mut out)?;
                forged(a, public, &out)
            },
        ),
        attack(H2, "sign messages without the PIN of the key", &[CKM_ECDSA], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            a.init("C_MessageSignInit", &ecdsa(), key)?;
            let (mut out, mut length) = (vec![0; 64], 64);
            let arguments = vec![Arg::NullBytes(0), Arg::Bytes(&[7; 32]), Arg::Buffer(&mut out, &mut length)];
            a.fixture.call("C_SignMessage", a, arguments)?;
            forged(a, public, &out)
        }),
        attack(H2, "sign two messages with one PIN of the key", &[CKM_ECDSA], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            a.init("C_MessageSignInit", &ecdsa(), key)?;
            a.login(User::ContextSpecific, Some(&a.fixture.pin)).setup()?;
            let mut out = vec![0; 64];
            for message in [[1; 32], [7; 32]] {
                let mut length = 64;
                let arguments =
                    vec![Arg::NullBytes(0), Arg::Bytes(&message), Arg::Buffer(&mut out, &mut length)];
                a.fixture.call("C_SignMessage", a, arguments)?;
            }
            forged(a, public, &out)
        }),
        attack(H2, "sign in parts without the PIN of the key", &[CKM_ECDSA_SHA256], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            a.sign_init(&mechanism(CKM_ECDSA_SHA256), key)?;
            a.sign_update(MESSAGE)?;
            let mut out = vec![0; 64];
            a.sign_final(&mut out)?;
            Ok(a.verifies(&mechanism(CKM_ECDSA_SHA256), public, MESSAGE, &out)?)
        }),
        attack(H2, "sign with recovery without the PIN of the key", &[CKM_RSA_PKCS], |a| {
            let more = [flag(CKA_ALWAYS_AUTHENTICATE, true)];
            let (public, key) = a.rsa(&[CKA_VERIFY], &[CKA_SIGN_RECOVER], &more).setup()?;
            a.init("C_SignRecoverInit", &mechanism(CKM_RSA_PKCS), key)?;
            let signature = a.transform("C_SignRecover", &[7; 32])?;
            Ok(a.verifies(&mechanism(CKM_RSA_PKCS), public, &[7; 32], &signature)?)
        }),
        attack(H2, "sign by an operation state that was saved with the PIN", &[CKM_ECDSA_SHA256], move |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            let with = mechanism(CKM_ECDSA_SHA256);
            a.sign_init(&with, key).setup()?;
            a.login(User::ContextSpecific, Some(&a.fixture.pin)).setup()?;
            let (mut state, mut length) = (vec![0; 4096], 4096);
            a.fixture.call("C_GetOperationState", a, vec![Arg::Buffer(&mut state, &mut length)])?;
            state.truncate(length as usize);
            let mut out = vec![0; 64];
            for _ in 0..2 {
                let other = a.fixture.fresh().setup()?;
                let arguments = vec![Arg::Bytes(&state), Arg::Number(0), Arg::Number(key.0)];
                a.fixture.call("C_SetOperationState", &other, arguments)?;
                other.sign(MESSAGE, &mut out)?;
            }
            Ok(a.verifies(&with, public, MESSAGE, &out)?)
        }),
    ];
    for (name, generate, sign, set) in [
        ("ML-DSA", CKM_ML_DSA_KEY_PAIR_GEN, CKM_ML_DSA, CKP_ML_DSA_44),
        ("SLH-DSA", CKM_SLH_DSA_KEY_PAIR_GEN, CKM_SLH_DSA, CKP_SLH_DSA_SHA2_128F),
    ] {
        all.push(attack(
            H2,
            format!("sign without the PIN of the key, {name}"),
            &[generate, sign],
            move |a| {
                let public = [
                    flag(CKA_TOKEN, false),
                    Attribute::number(CKA_PARAMETER_SET, set),
                    flag(CKA_VERIFY, true),
                ];
                let private =
                    [flag(CKA_TOKEN, false), flag(CKA_SIGN, true), flag(CKA_ALWAYS_AUTHENTICATE, true)];
                let (public, key) = a.generate_key_pair(&mechanism(generate), &public, &private).setup()?;
                let mut out = vec![0; 50000];
                a.sign_init(&mechanism(sign), key)?;
                let length = a.sign(MESSAGE, &mut out)?;
                Ok(a.verifies(&mechanism(sign), public, MESSAGE, &out[..length])?)
            },
        ));
    }
    all
}

/// Attacks that use key agreement, key encapsulation or a copy of a key that needs its PIN.
fn agreements() -> Vec<Attack> {
    let shared = || readable_of(CKK_GENERIC_SECRET, 32);
    let mut all = vec![
        attack(H2, "ECDH without the PIN of the key", &[CKM_ECDH1_DERIVE], move |a| {
            let (public, key) = careful(a, CKA_DERIVE)?;
            let (theirs, own) = a.ec(&[CKA_DERIVE], Guarded::Open, &[])?;
            let ours = a.derive_key(&ecdh(&a.point(theirs)?), key, &shared())?;
            let check = a.derive_key(&ecdh(&a.point(public)?), own, &shared())?;
            Ok(a.value(ours)? == a.value(check)?)
        }),
        attack(H2, "ECDH with a hidden result without the PIN of the key", &[CKM_ECDH1_DERIVE], move |a| {
            let (_, key) = careful(a, CKA_DERIVE)?;
            let (theirs, _) = a.ec(&[CKA_DERIVE], Guarded::Kept, &[])?;
            let template = hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_SIGN]);
            a.derive_key(&ecdh(&a.point(theirs)?), key, &template)?;
            Ok(true)
        }),
        attack(H2, "ML-KEM without the PIN of the key", &[CKM_ML_KEM], |a| {
            let set = Attribute::number(CKA_PARAMETER_SET, CKP_ML_KEM_768);
            let public = [flag(CKA_TOKEN, false), set, flag(CKA_ENCAPSULATE, true)];
            let private =
                [flag(CKA_TOKEN, false), flag(CKA_DECAPSULATE, true), flag(CKA_ALWAYS_AUTHENTICATE, true)];
            let made = a.generate_key_pair(&mechanism(CKM_ML_KEM_KEY_PAIR_GEN), &public, &private);
            let (public, key) = made.setup()?;
            let template = hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_SIGN]);
            let (ciphertext, _) = a.encapsulated(&mechanism(CKM_ML_KEM), public, &template).setup()?;
            a.decapsulated(&mechanism(CKM_ML_KEM), key, &ciphertext, &template)?;
            Ok(true)
        }),
        attack(H2, "X25519 without the PIN of the key", &[CKM_EC_MONTGOMERY_KEY_PAIR_GEN], move |a| {
            let public = [flag(CKA_TOKEN, false), Attribute::bytes(CKA_EC_PARAMS, crate::fixture::X25519)];
            let private =
                [flag(CKA_TOKEN, false), flag(CKA_DERIVE, true), flag(CKA_ALWAYS_AUTHENTICATE, true)];
            let generate = mechanism(CKM_EC_MONTGOMERY_KEY_PAIR_GEN);
            let (theirs, key) = a.generate_key_pair(&generate, &public, &private).setup()?;
            let point = a.point(theirs)?;
            a.derive_key(&ecdh(&point), key, &hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_SIGN]))?;
            Ok(true)
        }),
        attack(H2, "ECDH_AES_KEY_WRAP without the PIN of the key", &[CKM_ECDH_AES_KEY_WRAP], |a| {
            let public =
                [flag(CKA_TOKEN, false), Attribute::bytes(CKA_EC_PARAMS, P256), flag(CKA_WRAP, true)];
            let private =
                [flag(CKA_TOKEN, false), flag(CKA_UNWRAP, true), flag(CKA_ALWAYS_AUTHENTICATE, true)];
            let made = a.generate_key_pair(&mechanism(CKM_EC_KEY_PAIR_GEN), &public, &private);
            let (public, key) = made.setup()?;
            let with = Structure::new().number(256).number(CKD_SHA256_KDF).counted(&[]);
            let with: Mechanism = with.mechanism(CKM_ECDH_AES_KEY_WRAP);
            let victim =
                a.secret(CKK_GENERIC_SECRET, SECRET, Guarded::Wrappable, &[CKA_SIGN], &[]).setup()?;
            let wrapped = a.wrapped(&with, public, victim)?;
            let made = a.unwrap_key(&with, key, &wrapped, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)? == SECRET)
        }),
    ];
    all.push(attack(
        H2,
        "use a copy of a key with CKA_ALWAYS_AUTHENTICATE without the PIN",
        &[CKM_ECDSA],
        |a| {
            let (public, key) = careful(a, CKA_SIGN)?;
            let copy = a.copy_object(key, &[])?;
            let signature = a.signed(&mechanism(CKM_ECDSA), copy, &[7; 32])?;
            Ok(a.verifies(&mechanism(CKM_ECDSA), public, &[7; 32], &signature)?)
        },
    ));
    all
}

/// Attacks that obtain a usage which the template refused, through a related usage or a change of
/// the key.
fn refusals() -> Vec<Attack> {
    vec![
        attack(H2, "forge with a key that may only unwrap, RSA_X_509", &[CKM_RSA_X_509], |a| {
            let (public, key) = a.rsa(&[CKA_VERIFY], &[CKA_UNWRAP], &[]).setup()?;
            let template = readable(CKK_GENERIC_SECRET);
            let made = a.unwrap_key(&mechanism(CKM_RSA_X_509), key, &padded(a)?, &template)?;
            let forged = a.value(made)?;
            Ok(a.verifies(&mechanism(CKM_SHA256_RSA_PKCS), public, MESSAGE, &forged)?)
        }),
        attack(H2, "forge with a key that may only decrypt, RSA_X_509", &[CKM_RSA_X_509], |a| {
            let (public, key) = a.rsa(&[CKA_VERIFY], &[CKA_DECRYPT], &[]).setup()?;
            let forged = a.decrypted(&mechanism(CKM_RSA_X_509), key, &padded(a)?)?;
            Ok(a.verifies(&mechanism(CKM_SHA256_RSA_PKCS), public, MESSAGE, &forged)?)
        }),
        attack(H2, "decrypt with a key that may only sign, RSA_X_509", &[CKM_RSA_X_509], |a| {
            let (public, key) = a.rsa(&[CKA_VERIFY, CKA_ENCRYPT], &[CKA_SIGN], &[]).setup()?;
            let ciphertext = a.encrypted(&mechanism(CKM_RSA_PKCS), public, SECRET).setup()?;
            let raw = a.signed(&mechanism(CKM_RSA_X_509), key, &ciphertext)?;
            Ok(raw.ends_with(SECRET))
        }),
        attack(
            H2,
            "forge by C_SignRecover with a key with only CKA_SIGN=false in its template",
            &[CKM_RSA_PKCS],
            |a| {
                let (public, key) = owned(a, &[], &[(CKA_SIGN, false)])?;
                a.init("C_SignRecoverInit", &mechanism(CKM_RSA_PKCS), key)?;
                let signature = a.transform("C_SignRecover", &[7; 32])?;
                Ok(a.verifies(&mechanism(CKM_RSA_PKCS), public, &[7; 32], &signature)?)
            },
        ),
        attack(H2, "C_SetAttributeValue gives a signing RSA key CKA_DECRYPT", &[CKM_RSA_PKCS_OAEP], |a| {
            let (public, key) = a.rsa(&[CKA_VERIFY, CKA_ENCRYPT], &[CKA_SIGN], &[]).setup()?;
            let ciphertext = a.encrypted(&oaep(), public, SECRET).setup()?;
            a.set_attributes(key, &[flag(CKA_DECRYPT, true)])?;
            Ok(a.decrypted(&oaep(), key, &ciphertext)? == SECRET)
        }),
        attack(H2, "C_CopyObject gives a signing RSA key CKA_UNWRAP", &[CKM_RSA_PKCS_OAEP], |a| {
            let (public, key) = a.rsa(&[CKA_VERIFY, CKA_ENCRYPT], &[CKA_SIGN], &[]).setup()?;
            let ciphertext = a.encrypted(&oaep(), public, SECRET).setup()?;
            let copy = a.copy_object(key, &[flag(CKA_UNWRAP, true)])?;
            let made = a.unwrap_key(&oaep(), copy, &ciphertext, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)? == SECRET)
        }),
        attack(H2, "C_CopyObject gives a decrypting RSA key CKA_SIGN", &[CKM_SHA256_RSA_PKCS], |a| {
            let (public, key) = a.rsa(&[CKA_VERIFY, CKA_ENCRYPT], &[CKA_DECRYPT], &[]).setup()?;
            let copy = a.copy_object(key, &[flag(CKA_SIGN, true)])?;
            let signature = a.signed(&mechanism(CKM_SHA256_RSA_PKCS), copy, MESSAGE)?;
            Ok(a.verifies(&mechanism(CKM_SHA256_RSA_PKCS), public, MESSAGE, &signature)?)
        }),
        attack(H2, "C_SetAttributeValue gives a verifying HMAC key CKA_SIGN", &[CKM_SHA256_HMAC], |a| {
            let key = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_VERIFY])?;
            a.set_attributes(key, &[flag(CKA_SIGN, true)])?;
            let code = a.signed(&mechanism(CKM_SHA256_HMAC), key, MESSAGE)?;
            Ok(a.verifies(&mechanism(CKM_SHA256_HMAC), key, MESSAGE, &code)?)
        }),
    ]
}
