//! Finding H1 of docs/security.md: the user creates a trusted key, or changes one that the SO
//! trusts. Then the user wraps keys that have `CKA_WRAP_WITH_TRUSTED`. Also attacks with untrusted
//! keys.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, Mechanism, ObjectHandle};

use super::tools::{
    AES_WRAPS, Guarded, KNOWN, RSA_WRAPS, USAGES, VICTIM, ecdh, head, named, nested, readable, replaced,
    said, wrapper,
};
use super::{Attack, Attacker, Attempt, Setup, Stop, attack, destroy, flag, mechanism};

const H1: &str = "Review, H1";
const RULE: &str = "PKCS#11 3.2";
const KW: CK_MECHANISM_TYPE = CKM_AES_KEY_WRAP;

pub fn attacks() -> Vec<Attack> {
    let mut all = untrusted();
    all.extend(forged());
    all.extend(nested_templates());
    all.extend(edited());
    all
}

/// Attacks that wrap a key that has `CKA_WRAP_WITH_TRUSTED` under a key of the attacker.
fn untrusted() -> Vec<Attack> {
    let mut all = Vec::new();
    for kind in AES_WRAPS.into_iter().chain(RSA_WRAPS) {
        let name =
            format!("wrap a key that has CKA_WRAP_WITH_TRUSTED under an untrusted key, {}", named(kind));
        all.push(attack(RULE, name, &[kind], move |a| {
            let victim = a.victim(CKK_AES, Guarded::ForTrusted, &[CKA_ENCRYPT])?;
            Ok(!a.wrapped(&wrapper(kind), super::flags::wrapping_key(a, kind)?, victim)?.is_empty())
        }));
    }
    all.push(attack(
        RULE,
        "wrap an EC key that has CKA_WRAP_WITH_TRUSTED under an untrusted key",
        &[CKM_AES_KEY_WRAP_KWP],
        |a| {
            let (_, victim) = a.ec(&[CKA_SIGN], Guarded::ForTrusted, &[]).setup()?;
            let wrapped = a.wrapped(&mechanism(CKM_AES_KEY_WRAP_KWP), a.known(&[CKA_WRAP])?, victim)?;
            Ok(!wrapped.is_empty())
        },
    ));
    all
}

/// Returns whether `trusted`, whose value is [`KNOWN`], wraps a victim that only trusted keys may
/// wrap.
fn takes(a: &Attacker<'_>, trusted: ObjectHandle) -> Attempt {
    let victim = a.victim(CKK_AES, Guarded::ForTrusted, &[CKA_ENCRYPT])?;
    let with = mechanism(KW);
    let wrapped = a.wrapped(&with, trusted, victim)?;
    Ok(a.is_victim_under_known(&with, &wrapped)?)
}

/// Attacks with `CKA_TRUSTED` in a template of the user.
fn forged() -> Vec<Attack> {
    let trusted = || flag(CKA_TRUSTED, true);
    vec![
        attack(H1, "C_CreateObject gives CKA_TRUSTED", &[KW], move |a| {
            let key = a.secret(CKK_AES, &KNOWN, Guarded::Open, &[CKA_WRAP], &[trusted()])?;
            takes(a, key)
        }),
        attack(H1, "C_SetAttributeValue gives CKA_TRUSTED", &[KW], move |a| {
            let key = a.known(&[CKA_WRAP])?;
            a.set_attributes(key, &[trusted()])?;
            takes(a, key)
        }),
        attack(H1, "C_CopyObject gives CKA_TRUSTED", &[KW], move |a| {
            let key = a.known(&[CKA_WRAP])?;
            takes(a, a.copy_object(key, &[trusted()])?)
        }),
        attack(H1, "C_GenerateKey gives CKA_TRUSTED", &[CKM_AES_KEY_GEN], move |a| {
            let template = [
                flag(CKA_TOKEN, false),
                Attribute::number(CKA_VALUE_LEN, 32),
                flag(CKA_WRAP, true),
                trusted(),
            ];
            let key = a.generate_key(&mechanism(CKM_AES_KEY_GEN), &template)?;
            Ok(a.is(key, CKA_TRUSTED)?)
        }),
        attack(H1, "C_GenerateKeyPair gives CKA_TRUSTED", &[CKM_RSA_PKCS_KEY_PAIR_GEN], move |a| {
            let public = [
                flag(CKA_TOKEN, false),
                Attribute::number(CKA_MODULUS_BITS, 2048),
                flag(CKA_WRAP, true),
                trusted(),
            ];
            let made = a.generate_key_pair(
                &mechanism(CKM_RSA_PKCS_KEY_PAIR_GEN),
                &public,
                &[flag(CKA_TOKEN, false)],
            );
            Ok(a.is(made?.0, CKA_TRUSTED)?)
        }),
        attack(H1, "C_UnwrapKey gives CKA_TRUSTED", &[KW], move |a| {
            let template = replaced(wrapping_template(), &[trusted()]);
            takes(a, a.unwrap_key(&mechanism(KW), a.known(&[CKA_UNWRAP])?, &known_wrapped(a)?, &template)?)
        }),
        attack(H1, "C_DeriveKey gives CKA_TRUSTED", &[CKM_XOR_BASE_AND_DATA, KW], move |a| {
            let template = replaced(wrapping_template(), &[trusted()]);
            takes(a, derived_known(a, &[], &template)?)
        }),
        attack(H1, "C_EncapsulateKey gives CKA_TRUSTED", &[CKM_ML_KEM], move |a| {
            let (public, _) = kem(a, &[], &[]).setup()?;
            let template = replaced(plain_template(), &[trusted()]);
            let (_, key) = a.encapsulated(&mechanism(CKM_ML_KEM), public, &template)?;
            Ok(a.is(key, CKA_TRUSTED)?)
        }),
        attack(H1, "C_DecapsulateKey gives CKA_TRUSTED", &[CKM_ML_KEM], move |a| {
            let (public, private) = kem(a, &[], &[]).setup()?;
            let with = mechanism(CKM_ML_KEM);
            let (ciphertext, _) = a.encapsulated(&with, public, &plain_template()).setup()?;
            let template = replaced(plain_template(), &[trusted()]);
            Ok(a.is(a.decapsulated(&with, private, &ciphertext, &template)?, CKA_TRUSTED)?)
        }),
        attack(H1, "C_CreateObject gives CKA_TRUSTED to a public key", &[CKM_RSA_PKCS], move |a| {
            let template = [
                vec![
                    Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY),
                    Attribute::number(CKA_KEY_TYPE, CKK_RSA),
                    flag(CKA_TOKEN, false),
                ],
                vec![
                    Attribute::bytes(CKA_MODULUS, super::oracles::odd_modulus()),
                    Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
                    flag(CKA_WRAP, true),
                    trusted(),
                ],
            ];
            Ok(a.is(a.create_object(&template.concat())?, CKA_TRUSTED)?)
        }),
        attack(H1, "C_CreateObject gives CKA_TRUSTED to a certificate", &[], move |a| {
            let template = [
                Attribute::number(CKA_CLASS, CKO_CERTIFICATE),
                Attribute::number(CKA_CERTIFICATE_TYPE, CKC_X_509),
                flag(CKA_TOKEN, false),
                Attribute::bytes(CKA_SUBJECT, [0x30, 0]),
                Attribute::bytes(CKA_VALUE, [0x30, 0]),
                trusted(),
            ];
            Ok(a.is(a.create_object(&template)?, CKA_TRUSTED)?)
        }),
    ]
}

fn wrapping_template() -> Vec<Attribute> {
    let mut template = readable(CKK_AES);
    template.push(flag(CKA_WRAP, true));
    template
}

/// Returns a template for a key that every policy accepts.
fn plain_template() -> Vec<Attribute> {
    [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat()
}

/// Returns [`KNOWN`] wrapped under itself.
fn known_wrapped(a: &Attacker<'_>) -> Result<Vec<u8>, Failure> {
    a.wrapped(&mechanism(KW), a.known(&[CKA_WRAP])?, a.known(&[CKA_ENCRYPT])?)
}

/// Derives a key with the value [`KNOWN`] from a base key that also has these attributes.
fn derived_known(
    a: &Attacker<'_>,
    more: &[Attribute],
    template: &[Attribute],
) -> Result<ObjectHandle, Failure> {
    let base = a.secret(CKK_GENERIC_SECRET, &KNOWN, Guarded::Open, &[CKA_DERIVE], more)?;
    let with = jeton_client::Structure::new().bytes(&[0; 32]).mechanism(CKM_XOR_BASE_AND_DATA);
    a.derive_key(&with, base, template)
}

fn kem(
    a: &Attacker<'_>,
    public: &[Attribute],
    private: &[Attribute],
) -> Result<(ObjectHandle, ObjectHandle), Failure> {
    let set = Attribute::number(CKA_PARAMETER_SET, CKP_ML_KEM_768);
    let public = [&[flag(CKA_TOKEN, false), set, flag(CKA_ENCAPSULATE, true)], public].concat();
    let private = [&[flag(CKA_TOKEN, false), flag(CKA_DECAPSULATE, true)], private].concat();
    a.generate_key_pair(&mechanism(CKM_ML_KEM_KEY_PAIR_GEN), &public, &private)
}

/// Attacks with `CKA_TRUSTED` in a template attribute of a key that unwraps, derives, encapsulates
/// or decapsulates. Three more attacks have another read-only flag in `CKA_UNWRAP_TEMPLATE`.
fn nested_templates() -> Vec<Attack> {
    let inner = || nested(&[flag(CKA_TRUSTED, true)]);
    let mut all = vec![
        attack(H1, "CKA_UNWRAP_TEMPLATE gives CKA_TRUSTED", &[KW], move |a| {
            let (value, _held) = inner();
            let more = [Attribute::bytes(CKA_UNWRAP_TEMPLATE, value)];
            let own = a.secret(CKK_AES, &KNOWN, Guarded::Open, &[CKA_UNWRAP], &more)?;
            takes(a, a.unwrap_key(&mechanism(KW), own, &known_wrapped(a)?, &wrapping_template())?)
        }),
        attack(H1, "CKA_UNWRAP_TEMPLATE of a copy gives CKA_TRUSTED", &[KW], move |a| {
            let (value, _held) = inner();
            let own = a.known(&[CKA_UNWRAP])?;
            let own = a.copy_object(own, &[Attribute::bytes(CKA_UNWRAP_TEMPLATE, value)])?;
            takes(a, a.unwrap_key(&mechanism(KW), own, &known_wrapped(a)?, &wrapping_template())?)
        }),
        attack(H1, "CKA_DERIVE_TEMPLATE gives CKA_TRUSTED", &[CKM_XOR_BASE_AND_DATA, KW], move |a| {
            let (value, _held) = inner();
            let more = [Attribute::bytes(CKA_DERIVE_TEMPLATE, value)];
            takes(a, derived_known(a, &more, &wrapping_template())?)
        }),
        attack(H1, "CKA_ENCAPSULATE_TEMPLATE gives CKA_TRUSTED", &[CKM_ML_KEM], move |a| {
            let (value, _held) = inner();
            let (public, _) = kem(a, &[Attribute::bytes(CKA_ENCAPSULATE_TEMPLATE, value)], &[])?;
            let (_, key) = a.encapsulated(&mechanism(CKM_ML_KEM), public, &plain_template())?;
            Ok(a.is(key, CKA_TRUSTED)?)
        }),
        attack(H1, "CKA_DECAPSULATE_TEMPLATE gives CKA_TRUSTED", &[CKM_ML_KEM], move |a| {
            let (value, _held) = inner();
            let (public, private) = kem(a, &[], &[Attribute::bytes(CKA_DECAPSULATE_TEMPLATE, value)])?;
            let with = mechanism(CKM_ML_KEM);
            let (ciphertext, _) = a.encapsulated(&with, public, &plain_template()).setup()?;
            let key = a.decapsulated(&with, private, &ciphertext, &plain_template())?;
            Ok(a.is(key, CKA_TRUSTED)?)
        }),
        attack(H1, "CKA_DERIVE_TEMPLATE of an EC key gives CKA_TRUSTED", &[CKM_ECDH1_DERIVE], move |a| {
            let (value, _held) = inner();
            let more = [Attribute::bytes(CKA_DERIVE_TEMPLATE, value)];
            let (public, private) = a.ec(&[CKA_DERIVE], Guarded::Kept, &more)?;
            let template = replaced(wrapping_template(), &[Attribute::number(CKA_VALUE_LEN, 32)]);
            let key = a.derive_key(&ecdh(&a.point(public)?), private, &template)?;
            Ok(a.is(key, CKA_TRUSTED)?)
        }),
        attack(H1, "CKA_UNWRAP_TEMPLATE of an RSA key gives CKA_TRUSTED", &[CKM_RSA_PKCS_OAEP], move |a| {
            let (value, _held) = inner();
            let more = [Attribute::bytes(CKA_UNWRAP_TEMPLATE, value)];
            let (public, private) = a.rsa(&[CKA_WRAP], &[CKA_UNWRAP], &more)?;
            let with = super::tools::oaep();
            let wrapped = a.wrapped(&with, public, a.known(&[CKA_ENCRYPT])?)?;
            Ok(a.is(a.unwrap_key(&with, private, &wrapped, &wrapping_template())?, CKA_TRUSTED)?)
        }),
        attack(H1, "CKA_UNWRAP_TEMPLATE in a CKA_UNWRAP_TEMPLATE gives CKA_TRUSTED", &[KW], move |a| {
            let (value, _held) = inner();
            let (outer, _outer) = nested(&[Attribute::bytes(CKA_UNWRAP_TEMPLATE, value)]);
            let more = [Attribute::bytes(CKA_UNWRAP_TEMPLATE, outer)];
            let own = a.secret(CKK_AES, &KNOWN, Guarded::Open, &[CKA_UNWRAP], &more)?;
            let mut template = readable(CKK_AES);
            template.push(flag(CKA_UNWRAP, true));
            let second = a.unwrap_key(&mechanism(KW), own, &known_wrapped(a)?, &template)?;
            takes(a, a.unwrap_key(&mechanism(KW), second, &known_wrapped(a)?, &wrapping_template())?)
        }),
    ];
    for (given, name) in [
        (CKA_LOCAL, "CKA_LOCAL"),
        (CKA_ALWAYS_SENSITIVE, "CKA_ALWAYS_SENSITIVE"),
        (CKA_NEVER_EXTRACTABLE, "CKA_NEVER_EXTRACTABLE"),
    ] {
        all.push(attack(H1, format!("CKA_UNWRAP_TEMPLATE gives {name}"), &[KW], move |a| {
            let (value, _held) = nested(&[flag(given, true)]);
            let more = [Attribute::bytes(CKA_UNWRAP_TEMPLATE, value)];
            let own = a.secret(CKK_AES, &KNOWN, Guarded::Open, &[CKA_UNWRAP], &more)?;
            let key = a.unwrap_key(&mechanism(KW), own, &known_wrapped(a)?, &readable(CKK_AES))?;
            Ok(a.is(key, given)?)
        }));
    }
    all
}

/// Creates a wrapping key that the SO trusts. It is a token object that is not private, because the
/// SO sees no private objects.
fn trusted_key(a: &Attacker<'_>) -> Result<ObjectHandle, Stop> {
    let mut template = replaced(head(CKO_SECRET_KEY, CKK_AES), &[flag(CKA_TOKEN, true)]);
    template.extend(Guarded::Kept.attributes());
    template.extend(said(&USAGES, &[CKA_WRAP]));
    template.extend([flag(CKA_PRIVATE, false), flag(CKA_TRUSTED, true)]);
    template.push(Attribute::bytes(CKA_VALUE, [0x42; 32]));
    a.as_officer(|session| session.create_object(&template)).setup()
}

/// Runs an attack with a trusted key, and destroys the key afterwards.
fn with_trusted(a: &Attacker<'_>, run: impl FnOnce(ObjectHandle) -> Attempt) -> Attempt {
    let key = trusted_key(a)?;
    let outcome = run(key);
    destroy(a, &[key]);
    if a.attribute(key, CKA_CLASS).is_ok() {
        let _ = a.as_officer(|session| session.destroy_object(key));
    }
    outcome
}

/// Attacks in which the user changes or copies a key that the SO trusts.
fn edited() -> Vec<Attack> {
    let wrap = |a: &Attacker<'_>, with: &Mechanism, key| -> Result<Vec<u8>, Stop> {
        let victim = a.victim(CKK_AES, Guarded::ForTrusted, &[CKA_ENCRYPT])?;
        Ok(a.wrapped(with, key, victim)?)
    };
    let mut all = vec![
        attack(H1, "the user adds CKA_DECRYPT to a trusted key", &[CKM_AES_ECB], move |a| {
            with_trusted(a, |key| {
                a.set_attributes(key, &[flag(CKA_DECRYPT, true)])?;
                let wrapped = wrap(a, &mechanism(CKM_AES_ECB), key)?;
                Ok(a.decrypted(&mechanism(CKM_AES_ECB), key, &wrapped)? == VICTIM)
            })
        }),
        attack(H1, "the user adds CKA_DECRYPT to a copy of a trusted key", &[CKM_AES_ECB], move |a| {
            with_trusted(a, |key| {
                let more = [flag(CKA_TOKEN, false), flag(CKA_DECRYPT, true)];
                let copy = a.copy_object(key, &more)?;
                let wrapped = wrap(a, &mechanism(CKM_AES_ECB), key)?;
                Ok(a.decrypted(&mechanism(CKM_AES_ECB), copy, &wrapped)? == VICTIM)
            })
        }),
        attack(H1, "the user adds CKA_UNWRAP to a trusted key", &[KW], move |a| {
            with_trusted(a, |key| {
                a.set_attributes(key, &[flag(CKA_UNWRAP, true)])?;
                let wrapped = wrap(a, &mechanism(KW), key)?;
                let made = a.unwrap_key(&mechanism(KW), key, &wrapped, &readable(CKK_GENERIC_SECRET))?;
                Ok(a.value(made)? == VICTIM)
            })
        }),
        attack(H1, "the user adds CKA_UNWRAP to a copy of a trusted key", &[KW], move |a| {
            with_trusted(a, |key| {
                let copy = a.copy_object(key, &[flag(CKA_TOKEN, false), flag(CKA_UNWRAP, true)])?;
                let wrapped = wrap(a, &mechanism(KW), key)?;
                let made = a.unwrap_key(&mechanism(KW), copy, &wrapped, &readable(CKK_GENERIC_SECRET))?;
                Ok(a.value(made)? == VICTIM)
            })
        }),
        attack(H1, "a copy by the user keeps CKA_TRUSTED", &[KW], move |a| {
            with_trusted(a, |key| {
                let copy = a.copy_object(key, &[flag(CKA_TOKEN, false)])?;
                Ok(a.is(copy, CKA_TRUSTED)?)
            })
        }),
        attack(H1, "the user adds CKA_DERIVE to a trusted key", &[], move |a| {
            with_trusted(a, |key| {
                a.set_attributes(key, &[flag(CKA_DERIVE, true)])?;
                Ok(a.is(key, CKA_DERIVE)?)
            })
        }),
    ];
    for (changed, name) in [(CKA_LABEL, "CKA_LABEL"), (CKA_ID, "CKA_ID")] {
        all.push(attack(H1, format!("the user changes {name} of a trusted key"), &[KW], move |a| {
            with_trusted(a, |key| {
                a.set_attributes(key, &[Attribute::bytes(changed, *b"another")])?;
                Ok(a.attribute(key, changed)? == b"another")
            })
        }));
    }
    all.push(attack(
        H1,
        "a copy by the user with CKA_TRUSTED in its template is trusted",
        &[KW, CKM_AES_KEY_GEN],
        |a| {
            with_trusted(a, |key| {
                let template = [flag(CKA_TOKEN, false), flag(CKA_TRUSTED, true)];
                let made = a.copy_object(key, &template)?;
                Ok(a.is(made, CKA_TRUSTED)?)
            })
        },
    ));
    all
}
