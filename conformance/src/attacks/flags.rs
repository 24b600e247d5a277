//! The guarantees of the flags of a key: usages, sensitivity, and the changes that the standard
//! forbids. Many attacks come from Bortolozzo, Centenaro, Focardi, Steel 2010 ("Attacking and
//! fixing PKCS#11 security tokens"). Attack a3 of this paper reads sensitive keys, a4 reads keys
//! that cannot be extracted, and a5 changes the flags back.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, ObjectHandle};

use super::tools::{
    AES_WRAPS, Guarded, KNOWN, RSA_WRAPS, VICTIM, attribute_name, cbc, ecdh, gcm, hidden_of, named, nested,
    oaep, readable, readable_of, said, wrapper,
};
use super::{Attack, Attacker, Attempt, Setup, Stop, attack, flag, mechanism};
use crate::fixture::P256;

const TOOKAN: &str = "Bortolozzo et al. 2010";
const RULE: &str = "PKCS#11 3.2";
const STICKY: &str = "Bortolozzo et al. 2010, a5";
/// The ways to change an object: `C_SetAttributeValue` and `C_CopyObject`.
const WAYS: [Way; 2] = [Way::Set, Way::Copy];

#[derive(Clone, Copy)]
enum Way {
    Set,
    Copy,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Set => "C_SetAttributeValue",
            Self::Copy => "C_CopyObject",
        }
    }

    /// Returns the changed object, or its changed copy.
    fn change(
        self,
        a: &Attacker<'_>,
        object: ObjectHandle,
        changes: &[Attribute],
    ) -> Result<ObjectHandle, Failure> {
        match self {
            Self::Set => a.set_attributes(object, changes).map(|()| object),
            Self::Copy => a.copy_object(object, changes),
        }
    }
}

pub fn attacks() -> Vec<Attack> {
    let mut all = reads();
    all.extend(exports());
    all.extend(usages());
    all.extend(changes());
    all.extend(histories());
    all.extend(limits());
    all
}

/// Attacks like a3 and a4, which try to read values that the flags protect.
fn reads() -> Vec<Attack> {
    let mut all = Vec::new();
    for (kind, name) in KINDS {
        for (sensitive, extractable, what, source) in [
            (true, true, "a sensitive", "Bortolozzo et al. 2010, a3"),
            (false, false, "an unextractable", "Bortolozzo et al. 2010, a4"),
        ] {
            all.push(attack(source, format!("read {what} {name} key"), &[], move |a| {
                let more = [flag(CKA_SENSITIVE, sensitive), flag(CKA_EXTRACTABLE, extractable)];
                let key = a.secret(kind, &VICTIM, Guarded::Kept, usage_of(kind), &more).setup()?;
                Ok(a.value(key)? == VICTIM)
            }));
        }
    }
    for (part, name) in [
        (CKA_PRIVATE_EXPONENT, "CKA_PRIVATE_EXPONENT"),
        (CKA_PRIME_1, "CKA_PRIME_1"),
        (CKA_PRIME_2, "CKA_PRIME_2"),
        (CKA_EXPONENT_1, "CKA_EXPONENT_1"),
        (CKA_EXPONENT_2, "CKA_EXPONENT_2"),
        (CKA_COEFFICIENT, "CKA_COEFFICIENT"),
    ] {
        all.push(attack(
            "Bortolozzo et al. 2010, a3",
            format!("read {name} of a sensitive RSA key"),
            &[CKM_RSA_PKCS_KEY_PAIR_GEN],
            move |a| {
                let (_, key) = a.rsa(&[CKA_VERIFY], &[CKA_SIGN], &[]).setup()?;
                Ok(a.attribute(key, part)?.len() > 64)
            },
        ));
    }
    all.push(attack("Bortolozzo et al. 2010, a3", "read a sensitive EC key", &[CKM_EC_KEY_PAIR_GEN], |a| {
        let (_, key) = a.ec(&[CKA_SIGN], Guarded::Wrappable, &[]).setup()?;
        Ok(a.value(key)?.len() >= 31)
    }));
    for (generate, set, part) in [
        (CKM_ML_DSA_KEY_PAIR_GEN, CKP_ML_DSA_44, CKA_VALUE),
        (CKM_ML_DSA_KEY_PAIR_GEN, CKP_ML_DSA_44, CKA_SEED),
        (CKM_ML_KEM_KEY_PAIR_GEN, CKP_ML_KEM_768, CKA_VALUE),
        (CKM_ML_KEM_KEY_PAIR_GEN, CKP_ML_KEM_768, CKA_SEED),
    ] {
        let name = format!("read {} of a sensitive key of {}", attribute_name(part), named(generate));
        all.push(attack("Bortolozzo et al. 2010, a3", name, &[generate], move |a| {
            let public = [flag(CKA_TOKEN, false), Attribute::number(CKA_PARAMETER_SET, set)];
            let private = [flag(CKA_TOKEN, false), flag(CKA_SENSITIVE, true), flag(CKA_EXTRACTABLE, true)];
            let (_, key) = a.generate_key_pair(&mechanism(generate), &public, &private).setup()?;
            Ok(a.attribute(key, part)?.len() >= 32)
        }));
    }
    all.push(attack(RULE, "confirm a guess of a sensitive key by a search for its value", &[], |a| {
        let _key = a.victim(CKK_AES, Guarded::Kept, &[CKA_ENCRYPT])?;
        let found = a.find(&[Attribute::bytes(CKA_VALUE, VICTIM)])?;
        Ok(!found.is_empty())
    }));
    all
}

const KINDS: [(CK_KEY_TYPE, &str); 4] = [
    (CKK_AES, "AES"),
    (CKK_GENERIC_SECRET, "generic"),
    (CKK_CHACHA20, "ChaCha20"),
    (CKK_SHA256_HMAC, "HMAC"),
];

fn usage_of(kind: CK_KEY_TYPE) -> &'static [CK_ATTRIBUTE_TYPE] {
    match kind {
        CKK_AES | CKK_CHACHA20 => &[CKA_ENCRYPT],
        _ => &[CKA_SIGN],
    }
}

/// Attacks that wrap a key which is not extractable, or a key that `CKA_WRAP_TEMPLATE` excludes.
fn exports() -> Vec<Attack> {
    let mut all = Vec::new();
    for kind in AES_WRAPS.into_iter().chain(RSA_WRAPS) {
        let name = format!("wrap an unextractable key with {}", named(kind));
        all.push(attack(RULE, name, &[kind], move |a| {
            let victim = a.victim(CKK_AES, Guarded::Kept, &[CKA_ENCRYPT])?;
            Ok(!a.wrapped(&wrapper(kind), wrapping_key(a, kind)?, victim)?.is_empty())
        }));
    }
    all.push(attack(RULE, "wrap a key against CKA_WRAP_TEMPLATE", &[CKM_AES_KEY_WRAP], |a| {
        let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
        let (value, _held) = nested(&[Attribute::number(CKA_KEY_TYPE, CKK_GENERIC_SECRET)]);
        let more = [Attribute::bytes(CKA_WRAP_TEMPLATE, value)];
        let own = a.secret(CKK_AES, &KNOWN, Guarded::Open, &[CKA_WRAP], &more).setup()?;
        let with = mechanism(CKM_AES_KEY_WRAP);
        let wrapped = a.wrapped(&with, own, victim)?;
        Ok(a.is_victim_under_known(&with, &wrapped)?)
    }));
    all
}

/// Creates a key of the attacker that wraps with this mechanism.
pub fn wrapping_key(a: &Attacker<'_>, kind: CK_MECHANISM_TYPE) -> Result<ObjectHandle, Failure> {
    if RSA_WRAPS.contains(&kind) {
        return a.rsa(&[CKA_WRAP], &[], &[]).map(|(public, _)| public);
    }
    a.known(&[CKA_WRAP])
}

/// Attacks that use a key for a function that the key does not permit.
fn usages() -> Vec<Attack> {
    let mut all: Vec<Attack> = Vec::new();
    let mut add = |name: &'static str,
                   needs: &[CK_MECHANISM_TYPE],
                   run: fn(&Attacker<'_>, ObjectHandle) -> Attempt,
                   left: &'static [CK_ATTRIBUTE_TYPE],
                   kind| {
        all.push(attack(RULE, name, needs, move |a| run(a, a.victim(kind, Guarded::Kept, left)?)));
    };
    add(
        "C_Encrypt with a key without CKA_ENCRYPT",
        &[CKM_AES_ECB],
        |a, key| Ok(!a.encrypted(&mechanism(CKM_AES_ECB), key, &[0; 16])?.is_empty()),
        &[CKA_DECRYPT],
        CKK_AES,
    );
    add(
        "C_Decrypt with a key without CKA_DECRYPT",
        &[CKM_AES_ECB],
        |a, key| Ok(!a.decrypted(&mechanism(CKM_AES_ECB), key, &[0; 16])?.is_empty()),
        &[CKA_ENCRYPT],
        CKK_AES,
    );
    add(
        "C_Sign with a key without CKA_SIGN",
        &[CKM_SHA256_HMAC],
        |a, key| Ok(!a.signed(&mechanism(CKM_SHA256_HMAC), key, b"message")?.is_empty()),
        &[CKA_VERIFY],
        CKK_GENERIC_SECRET,
    );
    add(
        "C_Sign (CMAC) with a key without CKA_SIGN",
        &[CKM_AES_CMAC],
        |a, key| Ok(!a.signed(&mechanism(CKM_AES_CMAC), key, b"message")?.is_empty()),
        &[CKA_VERIFY],
        CKK_AES,
    );
    add(
        "C_MessageEncryptInit with a key without CKA_ENCRYPT",
        &[CKM_AES_GCM],
        |a, key| {
            a.init("C_MessageEncryptInit", &mechanism(CKM_AES_GCM), key)?;
            Ok(true)
        },
        &[CKA_DECRYPT],
        CKK_AES,
    );
    add(
        "C_MessageDecryptInit with a key without CKA_DECRYPT",
        &[CKM_AES_GCM],
        |a, key| {
            a.init("C_MessageDecryptInit", &mechanism(CKM_AES_GCM), key)?;
            Ok(true)
        },
        &[CKA_ENCRYPT],
        CKK_AES,
    );
    add(
        "C_MessageSignInit with a key without CKA_SIGN",
        &[CKM_SHA256_HMAC],
        |a, key| {
            a.init("C_MessageSignInit", &mechanism(CKM_SHA256_HMAC), key)?;
            Ok(true)
        },
        &[CKA_VERIFY],
        CKK_GENERIC_SECRET,
    );
    add(
        "C_WrapKey with a key without CKA_WRAP",
        &[CKM_AES_KEY_WRAP],
        |a, key| {
            let other = a.known(&[CKA_ENCRYPT])?;
            Ok(!a.wrapped(&mechanism(CKM_AES_KEY_WRAP), key, other)?.is_empty())
        },
        &[CKA_ENCRYPT],
        CKK_AES,
    );
    add(
        "C_UnwrapKey with a key without CKA_UNWRAP",
        &[CKM_AES_ECB],
        |a, key| {
            let template = readable_of(CKK_GENERIC_SECRET, 16);
            let made = a.unwrap_key(&mechanism(CKM_AES_ECB), key, &[0; 16], &template)?;
            Ok(!a.value(made)?.is_empty())
        },
        &[CKA_ENCRYPT],
        CKK_AES,
    );
    for (name, kind) in
        [("HKDF_DERIVE", CKM_HKDF_DERIVE), ("SHA256_KEY_DERIVATION", CKM_SHA256_KEY_DERIVATION)]
    {
        all.push(attack(RULE, format!("{name} with a key without CKA_DERIVE"), &[kind], move |a| {
            let key = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_SIGN])?;
            a.derive_key(&derivation(kind), key, &hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_SIGN]))?;
            Ok(true)
        }));
    }
    all.push(attack(RULE, "sign with an RSA key without CKA_SIGN", &[CKM_SHA256_RSA_PKCS], |a| {
        let (public, key) = a.rsa(&[CKA_VERIFY], &[CKA_DECRYPT], &[]).setup()?;
        let with = mechanism(CKM_SHA256_RSA_PKCS);
        let signature = a.signed(&with, key, b"message")?;
        Ok(a.verifies(&with, public, b"message", &signature)?)
    }));
    for with in [CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP, CKM_RSA_X_509] {
        let name = format!("decrypt {} with an RSA key without CKA_DECRYPT", named(with));
        all.push(attack(RULE, name, &[with], move |a| {
            let (_, key) = a.rsa(&[CKA_VERIFY], &[CKA_SIGN], &[]).setup()?;
            a.decrypt_init(&wrapper(with), key)?;
            Ok(true)
        }));
    }
    all.push(attack(RULE, "derive with an EC key without CKA_DERIVE", &[CKM_ECDH1_DERIVE], |a| {
        let (public, key) = a.ec(&[CKA_SIGN], Guarded::Kept, &[]).setup()?;
        let point = a.point(public)?;
        a.derive_key(&ecdh(&point), key, &hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_SIGN]))?;
        Ok(true)
    }));
    all.push(attack(RULE, "sign with an EC key without CKA_SIGN", &[CKM_ECDSA], |a| {
        let (public, key) = a.ec(&[CKA_DERIVE], Guarded::Kept, &[]).setup()?;
        let signature = a.signed(&mechanism(CKM_ECDSA), key, &[7; 32])?;
        Ok(a.verifies(&mechanism(CKM_ECDSA), public, &[7; 32], &signature)?)
    }));
    all
}

fn derivation(kind: CK_MECHANISM_TYPE) -> jeton_client::Mechanism {
    if kind != CKM_HKDF_DERIVE {
        return mechanism(kind);
    }
    let parameter = jeton_client::Structure::new().flag(true).flag(true).number(CKM_SHA256);
    parameter.number(CKF_HKDF_SALT_NULL).bytes(&[]).number(0).bytes(&[]).mechanism(kind)
}

/// Attacks like a5, which change flags back or change constant values.
fn changes() -> Vec<Attack> {
    let mut all = Vec::new();
    for way in WAYS {
        for (kind, name) in KINDS {
            all.push(attack(
                STICKY,
                format!("{} makes a sensitive {name} key readable", way.name()),
                &[],
                move |a| {
                    let key = a.victim(kind, Guarded::Wrappable, usage_of(kind))?;
                    let key = way.change(a, key, &[flag(CKA_SENSITIVE, false)])?;
                    Ok(a.value(key)? == VICTIM)
                },
            ));
            let name = format!("{} makes an unextractable {name} key extractable", way.name());
            all.push(attack(STICKY, name, &[CKM_AES_KEY_WRAP], move |a| {
                let key = a.victim(kind, Guarded::Kept, usage_of(kind))?;
                let key = way.change(a, key, &[flag(CKA_EXTRACTABLE, true)])?;
                let with = mechanism(CKM_AES_KEY_WRAP);
                let wrapped = a.wrapped(&with, a.known(&[CKA_WRAP])?, key)?;
                Ok(a.is_victim_under_known(&with, &wrapped)?)
            }));
        }
        for (wanted, forbidden) in [(CKA_SENSITIVE, false), (CKA_EXTRACTABLE, true)] {
            let name = format!("{} sets {} of an EC key to {forbidden}", way.name(), attribute_name(wanted));
            all.push(attack(STICKY, name, &[CKM_EC_KEY_PAIR_GEN], move |a| {
                let (_, key) = a.ec(&[CKA_SIGN], Guarded::Kept, &[]).setup()?;
                let key = way.change(a, key, &[flag(wanted, forbidden)])?;
                Ok(a.is(key, wanted)? == forbidden)
            }));
        }
        let name = format!("{} removes CKA_WRAP_WITH_TRUSTED", way.name());
        all.push(attack(STICKY, name, &[CKM_AES_KEY_WRAP], move |a| {
            let key = a.victim(CKK_AES, Guarded::ForTrusted, &[CKA_ENCRYPT])?;
            let key = way.change(a, key, &[flag(CKA_WRAP_WITH_TRUSTED, false)])?;
            let with = mechanism(CKM_AES_KEY_WRAP);
            let wrapped = a.wrapped(&with, a.known(&[CKA_WRAP])?, key)?;
            Ok(a.is_victim_under_known(&with, &wrapped)?)
        }));
        let name = format!("{} removes CKA_ALWAYS_AUTHENTICATE", way.name());
        all.push(attack(STICKY, name, &[CKM_ECDSA], move |a| {
            let more = [flag(CKA_ALWAYS_AUTHENTICATE, true)];
            let (public, key) = a.ec(&[CKA_SIGN], Guarded::Kept, &more).setup()?;
            let key = way.change(a, key, &[flag(CKA_ALWAYS_AUTHENTICATE, false)])?;
            let signature = a.signed(&mechanism(CKM_ECDSA), key, &[7; 32])?;
            Ok(a.verifies(&mechanism(CKM_ECDSA), public, &[7; 32], &signature)?)
        }));
        let name = format!("{} widens CKA_ALLOWED_MECHANISMS", way.name());
        all.push(attack(STICKY, name, &[CKM_AES_ECB, CKM_AES_CBC], move |a| {
            let key = limited(a, &[CKA_ENCRYPT], CKM_AES_CBC)?;
            let wider = Attribute::bytes(CKA_ALLOWED_MECHANISMS, CKM_AES_ECB.to_ne_bytes());
            let key = way.change(a, key, &[wider])?;
            Ok(!a.encrypted(&mechanism(CKM_AES_ECB), key, &[0; 16])?.is_empty())
        }));
        for (template, what) in [
            (CKA_WRAP_TEMPLATE, "CKA_WRAP_TEMPLATE"),
            (CKA_UNWRAP_TEMPLATE, "CKA_UNWRAP_TEMPLATE"),
            (CKA_DERIVE_TEMPLATE, "CKA_DERIVE_TEMPLATE"),
        ] {
            all.push(attack(STICKY, format!("{} replaces {what}", way.name()), &[], move |a| {
                let (value, _held) = nested(&[flag(CKA_SENSITIVE, true)]);
                let more = [Attribute::bytes(template, value)];
                let key = a.secret(CKK_AES, &VICTIM, Guarded::Kept, &[CKA_UNWRAP], &more).setup()?;
                let (value, _other) = nested(&[flag(CKA_SENSITIVE, false)]);
                way.change(a, key, &[Attribute::bytes(template, value)])?;
                Ok(true)
            }));
        }
        for (kept, what) in [(CKA_COPYABLE, "CKA_COPYABLE"), (CKA_MODIFIABLE, "CKA_MODIFIABLE")] {
            all.push(attack(STICKY, format!("{} sets {what} to true again", way.name()), &[], move |a| {
                let more = [flag(kept, false)];
                let key = a.secret(CKK_AES, &VICTIM, Guarded::Kept, &[CKA_ENCRYPT], &more).setup()?;
                if matches!(way, Way::Copy) && kept == CKA_MODIFIABLE {
                    // The attack makes a readable copy of a key that cannot be modified.
                    let copy =
                        a.copy_object(key, &[flag(CKA_MODIFIABLE, false), flag(CKA_SENSITIVE, false)])?;
                    return Ok(a.value(copy)? == VICTIM);
                }
                let key = way.change(a, key, &[flag(kept, true)])?;
                Ok(a.is(key, kept)?)
            }));
        }
        all.push(attack(STICKY, format!("{} makes an AES key a generic one", way.name()), &[], move |a| {
            let key = a.victim(CKK_AES, Guarded::Kept, &[CKA_ENCRYPT])?;
            let key = way.change(a, key, &[Attribute::number(CKA_KEY_TYPE, CKK_GENERIC_SECRET)])?;
            Ok(a.attribute(key, CKA_KEY_TYPE)? == CKK_GENERIC_SECRET.to_ne_bytes())
        }));
        all.push(attack(STICKY, format!("{} shortens a key by CKA_VALUE_LEN", way.name()), &[], move |a| {
            let key = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_SIGN])?;
            let key = way.change(a, key, &[Attribute::number(CKA_VALUE_LEN, 1)])?;
            Ok(a.attribute(key, CKA_VALUE_LEN)? == 1usize.to_ne_bytes())
        }));
        all.push(attack(
            STICKY,
            format!("{} replaces the value of a key", way.name()),
            &[CKM_AES_ECB],
            move |a| {
                let key = a.victim(CKK_AES, Guarded::Kept, &[CKA_ENCRYPT])?;
                let key = way.change(a, key, &[Attribute::bytes(CKA_VALUE, KNOWN)])?;
                let with = mechanism(CKM_AES_ECB);
                let known = a.known(&[CKA_ENCRYPT])?;
                Ok(a.encrypted(&with, key, &[0; 16])? == a.encrypted(&with, known, &[0; 16])?)
            },
        ));
    }
    all
}

/// Attacks that give a key a false history: `CKA_ALWAYS_SENSITIVE`, `CKA_NEVER_EXTRACTABLE`,
/// `CKA_LOCAL`.
fn histories() -> Vec<Attack> {
    let mut all = Vec::new();
    for (record, name) in [
        (CKA_ALWAYS_SENSITIVE, "CKA_ALWAYS_SENSITIVE"),
        (CKA_NEVER_EXTRACTABLE, "CKA_NEVER_EXTRACTABLE"),
        (CKA_LOCAL, "CKA_LOCAL"),
    ] {
        all.push(attack(TOOKAN, format!("C_CreateObject gives {name} to a known key"), &[], move |a| {
            let key = a.secret(CKK_AES, &KNOWN, Guarded::Kept, &[CKA_ENCRYPT], &[flag(record, true)])?;
            Ok(a.is(key, record)?)
        }));
        all.push(attack(
            TOOKAN,
            format!("C_CreateObject leaves {name} true for a known key"),
            &[],
            move |a| {
                let key = a.secret(CKK_AES, &KNOWN, Guarded::Kept, &[CKA_ENCRYPT], &[])?;
                Ok(a.is(key, record)?)
            },
        ));
        all.push(attack(
            TOOKAN,
            format!("C_UnwrapKey leaves {name} true for a known key"),
            &[CKM_AES_KEY_WRAP],
            move |a| {
                let with = mechanism(CKM_AES_KEY_WRAP);
                let wrapped = a.wrapped(&with, a.known(&[CKA_WRAP])?, a.known(&[CKA_ENCRYPT])?)?;
                let own = a.known(&[CKA_UNWRAP])?;
                let template = super::tools::replaced(readable(CKK_AES), &Guarded::Kept.attributes());
                let key = a.unwrap_key(&with, own, &wrapped, &template)?;
                Ok(a.is(key, record)?)
            },
        ));
        for way in WAYS {
            let name = format!("{} gives {name} to a known key", way.name());
            all.push(attack(TOOKAN, name, &[], move |a| {
                let key = a.known(&[CKA_ENCRYPT])?;
                let key = way.change(a, key, &[flag(record, true)])?;
                Ok(a.is(key, record)?)
            }));
        }
        if record != CKA_LOCAL {
            let name = format!("setting the flags of a known key makes {name} true");
            all.push(attack(TOOKAN, name, &[CKM_AES_KEY_GEN], move |a| {
                let template =
                    [readable_of(CKK_AES, 32), said(&super::tools::USAGES, &[CKA_ENCRYPT])].concat();
                let key = a.generate_key(&mechanism(CKM_AES_KEY_GEN), &template).setup()?;
                a.set_attributes(key, &[flag(CKA_SENSITIVE, true), flag(CKA_EXTRACTABLE, false)])?;
                Ok(a.is(key, record)?)
            }));
        }
    }
    all
}

/// Creates an AES key that is limited to a single mechanism.
fn limited(
    a: &Attacker<'_>,
    usages: &[CK_ATTRIBUTE_TYPE],
    only: CK_MECHANISM_TYPE,
) -> Result<ObjectHandle, Stop> {
    let more = [Attribute::bytes(CKA_ALLOWED_MECHANISMS, only.to_ne_bytes())];
    a.secret(CKK_AES, &VICTIM, Guarded::Kept, usages, &more).setup()
}

/// Attacks on `CKA_ALLOWED_MECHANISMS`, on the templates for unwrapped and derived keys, on the
/// protection of derived keys, on usages, and on the parameters of an EC key.
fn limits() -> Vec<Attack> {
    let ecb = || mechanism(CKM_AES_ECB);
    vec![
        attack(RULE, "C_Encrypt against CKA_ALLOWED_MECHANISMS", &[CKM_AES_ECB], move |a| {
            let key = limited(a, &[CKA_ENCRYPT], CKM_AES_GCM)?;
            Ok(!a.encrypted(&ecb(), key, &[0; 16])?.is_empty())
        }),
        attack(RULE, "C_Decrypt against CKA_ALLOWED_MECHANISMS", &[CKM_AES_CBC], |a| {
            let key = limited(a, &[CKA_DECRYPT], CKM_AES_GCM)?;
            Ok(!a.decrypted(&cbc(CKM_AES_CBC), key, &[0; 16])?.is_empty())
        }),
        attack(RULE, "C_Sign against CKA_ALLOWED_MECHANISMS", &[CKM_AES_CMAC], |a| {
            let key = limited(a, &[CKA_SIGN], CKM_AES_GMAC)?;
            Ok(!a.signed(&mechanism(CKM_AES_CMAC), key, b"message")?.is_empty())
        }),
        attack(RULE, "C_WrapKey against CKA_ALLOWED_MECHANISMS", &[CKM_AES_KEY_WRAP], |a| {
            let key = limited(a, &[CKA_WRAP], CKM_AES_GCM)?;
            let other = a.known(&[CKA_ENCRYPT])?;
            Ok(!a.wrapped(&mechanism(CKM_AES_KEY_WRAP), key, other)?.is_empty())
        }),
        attack(RULE, "C_UnwrapKey against CKA_ALLOWED_MECHANISMS", &[CKM_AES_ECB], move |a| {
            let key = limited(a, &[CKA_UNWRAP], CKM_AES_GCM)?;
            let template = readable_of(CKK_GENERIC_SECRET, 16);
            let made = a.unwrap_key(&ecb(), key, &[0; 16], &template)?;
            Ok(!a.value(made)?.is_empty())
        }),
        attack(RULE, "C_DeriveKey against CKA_ALLOWED_MECHANISMS", &[CKM_SHA256_KEY_DERIVATION], |a| {
            let key = limited(a, &[CKA_DERIVE], CKM_AES_ECB_ENCRYPT_DATA)?;
            let template = hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_SIGN]);
            a.derive_key(&mechanism(CKM_SHA256_KEY_DERIVATION), key, &template)?;
            Ok(true)
        }),
        attack(RULE, "C_MessageEncryptInit against CKA_ALLOWED_MECHANISMS", &[CKM_AES_GCM], |a| {
            let key = limited(a, &[CKA_ENCRYPT], CKM_AES_CBC)?;
            a.init("C_MessageEncryptInit", &mechanism(CKM_AES_GCM), key)?;
            Ok(true)
        }),
        attack(RULE, "ECDSA against CKA_ALLOWED_MECHANISMS", &[CKM_ECDSA], |a| {
            let more = [Attribute::bytes(CKA_ALLOWED_MECHANISMS, CKM_ECDSA_SHA256.to_ne_bytes())];
            let (public, key) = a.ec(&[CKA_SIGN], Guarded::Kept, &more).setup()?;
            let signature = a.signed(&mechanism(CKM_ECDSA), key, &[7; 32])?;
            Ok(a.verifies(&mechanism(CKM_ECDSA), public, &[7; 32], &signature)?)
        }),
        attack(RULE, "unwrap against CKA_UNWRAP_TEMPLATE", &[CKM_AES_KEY_WRAP], |a| {
            let with = mechanism(CKM_AES_KEY_WRAP);
            let wrapped = a.wrapped(&with, a.known(&[CKA_WRAP])?, a.known(&[CKA_ENCRYPT])?)?;
            let (value, _held) = nested(&[flag(CKA_SENSITIVE, true)]);
            let more = [Attribute::bytes(CKA_UNWRAP_TEMPLATE, value)];
            let key = a.secret(CKK_AES, &KNOWN, Guarded::Kept, &[CKA_UNWRAP], &more).setup()?;
            let made = a.unwrap_key(&with, key, &wrapped, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)? == KNOWN)
        }),
        attack(RULE, "derive against CKA_DERIVE_TEMPLATE", &[CKM_SHA256_KEY_DERIVATION], |a| {
            let (value, _held) = nested(&[flag(CKA_SENSITIVE, true)]);
            let more = [Attribute::bytes(CKA_DERIVE_TEMPLATE, value)];
            let key = a.secret(CKK_AES, &VICTIM, Guarded::Kept, &[CKA_DERIVE], &more).setup()?;
            let template = readable_of(CKK_GENERIC_SECRET, 32);
            let made = a.derive_key(&mechanism(CKM_SHA256_KEY_DERIVATION), key, &template)?;
            Ok(a.value(made)? == a.digested(CKM_SHA256, &VICTIM)?)
        }),
        attack(RULE, "read a key that is derived from a sensitive key", &[CKM_SHA256_KEY_DERIVATION], |a| {
            let key = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
            let template = readable_of(CKK_GENERIC_SECRET, 32);
            let made = a.derive_key(&mechanism(CKM_SHA256_KEY_DERIVATION), key, &template)?;
            Ok(a.value(made)? == a.digested(CKM_SHA256, &VICTIM)?)
        }),
        attack(RULE, "encrypt with a key that may only derive", &[CKM_AES_ECB_ENCRYPT_DATA], |a| {
            let key = a.victim(CKK_AES, Guarded::Kept, &[CKA_DERIVE])?;
            let with = jeton_client::Structure::new().bytes(&[0; 16]).mechanism(CKM_AES_ECB_ENCRYPT_DATA);
            let made = a.derive_key(&with, key, &readable_of(CKK_GENERIC_SECRET, 16))?;
            Ok(a.value(made)?.len() == 16)
        }),
        attack(RULE, "encrypt with a key that may only verify, AES_GCM", &[CKM_AES_GCM], |a| {
            let key = a.victim(CKK_AES, Guarded::Kept, &[CKA_VERIFY])?;
            a.encrypt_init(&gcm(), key)?;
            Ok(true)
        }),
        attack(RULE, "decrypt OAEP with an unwrapping RSA key", &[CKM_RSA_PKCS_OAEP], |a| {
            let (_, key) = a.rsa(&[CKA_WRAP], &[CKA_UNWRAP], &[]).setup()?;
            a.decrypt_init(&oaep(), key)?;
            Ok(true)
        }),
        attack(RULE, "change the parameters of an EC key by a copy", &[CKM_EC_KEY_PAIR_GEN], |a| {
            let (_, key) = a.ec(&[CKA_SIGN], Guarded::Kept, &[]).setup()?;
            let p384 = [6, 5, 0x2b, 0x81, 4, 0, 0x22];
            let copy = a.copy_object(key, &[Attribute::bytes(CKA_EC_PARAMS, p384)])?;
            Ok(a.attribute(copy, CKA_EC_PARAMS)? != P256)
        }),
    ]
}
