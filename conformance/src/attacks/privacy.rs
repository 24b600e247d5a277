//! Finding C1 of docs/security.md: a key is used without a login, or is on the disk as plaintext.
//! Also attacks on the rules of logins, read-only sessions and destroyed objects.

use std::path::Path;

use cryptoki_sys::*;
use jeton_client::{Access, Attribute, Failure, ObjectHandle, Session};

use super::tools::{Guarded, USAGES, VICTIM, gcm, head, replaced, said};
use super::{Attack, Attacker, Attempt, Setup, attack, destroy, flag, mechanism};
use crate::fixture::P256;

const C1: &str = "Review, C1";
const RULE: &str = "PKCS#11 3.2";
const LABEL: &[u8] = b"attacked by C1";

pub fn attacks() -> Vec<Attack> {
    let mut all = vec![
        attack(C1, "use a copy of an AES key with CKA_PRIVATE=false after the logout", &[CKM_AES_ECB], |a| {
            let key = stored(a, &[]).setup()?;
            let copy = a.copy_object(key, &[flag(CKA_PRIVATE, false)]);
            let outcome = copy.map_err(Into::into).and_then(|_| encrypts_without_login(a));
            clean(a);
            outcome
        }),
        attack(
            C1,
            "use, after the logout, an AES key that C_SetAttributeValue made public",
            &[CKM_AES_ECB],
            |a| {
                let key = stored(a, &[]).setup()?;
                let set = a.set_attributes(key, &[flag(CKA_PRIVATE, false)]);
                let outcome = set.map_err(Into::into).and_then(|()| encrypts_without_login(a));
                clean(a);
                outcome
            },
        ),
        attack(C1, "use an imported AES key with CKA_PRIVATE=false after the logout", &[CKM_AES_ECB], |a| {
            let made = stored(a, &[flag(CKA_PRIVATE, false)]);
            let outcome = made.map_err(Into::into).and_then(|_| encrypts_without_login(a));
            clean(a);
            outcome
        }),
        attack(
            C1,
            "use a generated AES key with CKA_PRIVATE=false after the logout",
            &[CKM_AES_ECB, CKM_AES_KEY_GEN],
            |a| {
                let template = [
                    vec![
                        flag(CKA_TOKEN, true),
                        flag(CKA_PRIVATE, false),
                        Attribute::bytes(CKA_LABEL, LABEL),
                        Attribute::number(CKA_VALUE_LEN, 32),
                    ],
                    Guarded::Kept.attributes(),
                    said(&USAGES, &[CKA_ENCRYPT]),
                ];
                let made = a.generate_key(&mechanism(CKM_AES_KEY_GEN), &template.concat());
                let outcome = made.map_err(Into::into).and_then(|_| encrypts_without_login(a));
                clean(a);
                outcome
            },
        ),
        attack(
            C1,
            "use a generated EC key with CKA_PRIVATE=false after the logout",
            &[CKM_EC_KEY_PAIR_GEN, CKM_ECDSA],
            |a| {
                let made = stored_pair(a, false);
                let outcome = made.map_err(Into::into).and_then(|_| signs_without_login(a));
                clean(a);
                outcome
            },
        ),
        attack(
            C1,
            "use a copy of an EC key with CKA_PRIVATE=false after the logout",
            &[CKM_EC_KEY_PAIR_GEN, CKM_ECDSA],
            |a| {
                let key = stored_pair(a, true).setup()?;
                let copy = a.copy_object(key, &[flag(CKA_PRIVATE, false)]);
                let outcome = copy.map_err(Into::into).and_then(|_| signs_without_login(a));
                clean(a);
                outcome
            },
        ),
        attack(
            C1,
            "use an unwrapped AES key with CKA_PRIVATE=false after the logout",
            &[CKM_AES_ECB, CKM_AES_KEY_WRAP],
            |a| {
                let with = mechanism(CKM_AES_KEY_WRAP);
                let wrapped = a.wrapped(&with, a.known(&[CKA_WRAP])?, a.known(&[CKA_ENCRYPT])?).setup()?;
                let made = a.unwrap_key(&with, a.known(&[CKA_UNWRAP])?, &wrapped, &public_template());
                let outcome = made.map_err(Into::into).and_then(|_| encrypts_without_login(a));
                clean(a);
                outcome
            },
        ),
        attack(
            C1,
            "use a derived AES key with CKA_PRIVATE=false after the logout",
            &[CKM_AES_ECB, CKM_SHA256_KEY_DERIVATION],
            |a| {
                let base = a.victim(CKK_GENERIC_SECRET, Guarded::Kept, &[CKA_DERIVE])?;
                let template = [public_template(), vec![Attribute::number(CKA_VALUE_LEN, 32)]].concat();
                let made = a.derive_key(&mechanism(CKM_SHA256_KEY_DERIVATION), base, &template);
                let outcome = made.map_err(Into::into).and_then(|_| encrypts_without_login(a));
                clean(a);
                outcome
            },
        ),
    ];
    all.extend(on_disk());
    all.extend(logins());
    all
}

fn public_template() -> Vec<Attribute> {
    let mut template = head(CKO_SECRET_KEY, CKK_AES);
    template.extend(Guarded::Kept.attributes());
    template.extend([flag(CKA_PRIVATE, false), Attribute::bytes(CKA_LABEL, LABEL)]);
    template.extend(said(&USAGES, &[CKA_ENCRYPT]));
    replaced(template, &[flag(CKA_TOKEN, true)])
}

/// Creates a sensitive AES key on the token.
fn stored(a: &Attacker<'_>, more: &[Attribute]) -> Result<ObjectHandle, Failure> {
    let own = [flag(CKA_TOKEN, true), flag(CKA_PRIVATE, true), Attribute::bytes(CKA_LABEL, LABEL)];
    let more = replaced(own.to_vec(), more);
    a.secret(CKK_AES, &VICTIM, Guarded::Kept, &[CKA_ENCRYPT], &more)
}

/// Creates a P-256 pair on the token. Returns the private key.
fn stored_pair(a: &Attacker<'_>, private: bool) -> Result<ObjectHandle, Failure> {
    let label = || Attribute::bytes(CKA_LABEL, LABEL);
    let public =
        [flag(CKA_TOKEN, true), Attribute::bytes(CKA_EC_PARAMS, P256), flag(CKA_VERIFY, true), label()];
    let mut own = vec![flag(CKA_TOKEN, true), flag(CKA_PRIVATE, private), label(), flag(CKA_SIGN, true)];
    own.extend(Guarded::Kept.attributes());
    a.generate_key_pair(&mechanism(CKM_EC_KEY_PAIR_GEN), &public, &own).map(|(_, key)| key)
}

/// Returns whether a caller without a login finds a secret key of the attack and encrypts with it.
fn encrypts_without_login(a: &Attacker<'_>) -> Attempt {
    let used = a.logged_out(|session| {
        let mut out = [0; 16];
        for key in session.find(&named(CKO_SECRET_KEY))? {
            if session.encrypt_init(&mechanism(CKM_AES_ECB), key).is_ok() {
                return Ok(session.encrypt(&[0; 16], &mut out).is_ok());
            }
        }
        Ok(false)
    });
    Ok(used?)
}

/// Returns whether a caller without a login finds a private key of the attack and signs with it.
fn signs_without_login(a: &Attacker<'_>) -> Attempt {
    let used = a.logged_out(|session| {
        let mut out = [0; 64];
        for key in session.find(&named(CKO_PRIVATE_KEY))? {
            if session.sign_init(&mechanism(CKM_ECDSA), key).is_ok() {
                return Ok(session.sign(&[7; 32], &mut out).is_ok());
            }
        }
        Ok(false)
    });
    Ok(used?)
}

fn named(class: CK_OBJECT_CLASS) -> [Attribute; 2] {
    [Attribute::number(CKA_CLASS, class), Attribute::bytes(CKA_LABEL, LABEL)]
}

fn clean(a: &Attacker<'_>) {
    let found = a.find(&[Attribute::bytes(CKA_LABEL, LABEL)]).unwrap_or_default();
    destroy(a, &found);
}

/// Attacks that find the bytes of a sensitive key in the files of the token.
fn on_disk() -> Vec<Attack> {
    /// Creates a token object with this value.
    type Make = fn(&Attacker<'_>, &[u8]) -> Result<(), Failure>;
    const WAYS: [(&str, Make); 4] = [
        ("a private key", |a, value| import(a, value, true).map(drop)),
        ("an imported key with CKA_PRIVATE=false", |a, value| import(a, value, false).map(drop)),
        ("a copy with CKA_PRIVATE=false", |a, value| {
            let key = import(a, value, true)?;
            a.copy_object(key, &[flag(CKA_PRIVATE, false)]).map(drop)
        }),
        ("an unwrapped key with CKA_PRIVATE=false", |a, value| {
            let with = mechanism(CKM_AES_KEY_WRAP);
            let source = a.secret(CKK_AES, value, Guarded::Wrappable, &[CKA_ENCRYPT], &[])?;
            let wrapped = a.wrapped(&with, a.known(&[CKA_WRAP])?, source)?;
            a.unwrap_key(&with, a.known(&[CKA_UNWRAP])?, &wrapped, &public_template()).map(drop)
        }),
    ];
    let one = |(what, make): (&str, Make)| {
        attack(C1, format!("read {what} in the files of the token"), &[], move |a| {
            let Some(directory) = a.fixture.directory.as_deref() else { return Ok(false) };
            let mut value = [0; 32];
            a.random(&mut value).setup()?;
            let outcome = make(a, &value);
            let found = contains(directory, &value);
            clean(a);
            outcome?;
            Ok(found)
        })
    };
    WAYS.into_iter().map(one).collect()
}

fn import(a: &Attacker<'_>, value: &[u8], private: bool) -> Result<ObjectHandle, Failure> {
    let more = [flag(CKA_TOKEN, true), flag(CKA_PRIVATE, private), Attribute::bytes(CKA_LABEL, LABEL)];
    a.secret(CKK_AES, value, Guarded::Kept, &[CKA_ENCRYPT], &more)
}

/// Returns whether a file below a directory contains these bytes.
fn contains(directory: &Path, value: &[u8]) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| {
        if path.is_dir() {
            return contains(&path, value);
        }
        std::fs::read(&path).is_ok_and(|text| text.windows(value.len()).any(|part| part == value))
    })
}

/// Attacks on private objects without a login as the user, on token objects through a read-only
/// session, and with the handle of a destroyed key.
fn logins() -> Vec<Attack> {
    let find_private = |session: &Session| Ok(!session.find(&named(CKO_SECRET_KEY))?.is_empty());
    vec![
        attack(RULE, "find a private key without a login", &[], move |a| {
            stored(a, &[]).setup()?;
            let found = a.logged_out(find_private);
            clean(a);
            Ok(found?)
        }),
        attack(RULE, "use the old handle of a private key without a login", &[CKM_AES_ECB], |a| {
            let key = stored(a, &[]).setup()?;
            let used = a.logged_out(|session| session.encrypt_init(&mechanism(CKM_AES_ECB), key));
            clean(a);
            used?;
            Ok(true)
        }),
        attack(RULE, "finish an operation with a private key after the logout", &[CKM_AES_ECB], |a| {
            let key = stored(a, &[]).setup()?;
            a.encrypt_init(&mechanism(CKM_AES_ECB), key).setup()?;
            let used = a.logged_out(|_| a.encrypt(&[0; 16], &mut [0; 16]).map(|_| ()));
            clean(a);
            used?;
            Ok(true)
        }),
        attack(RULE, "restore an operation state after the logout", &[CKM_AES_CBC], |a| {
            let key = stored(a, &[]).setup()?;
            a.encrypt_init(&super::tools::cbc(CKM_AES_CBC), key).setup()?;
            let state = state(a);
            let used = a.logged_out(|session| {
                let arguments = vec![
                    jeton_client::Arg::Bytes(state.as_deref().unwrap_or(&[])),
                    jeton_client::Arg::Number(key.0),
                    jeton_client::Arg::Number(0),
                ];
                a.fixture.call("C_SetOperationState", session, arguments)?;
                session.encrypt(&[0; 16], &mut [0; 32])
            });
            clean(a);
            state?;
            used?;
            Ok(true)
        }),
        attack(RULE, "use the user's keys as the security officer", &[CKM_AES_GCM], |a| {
            let key = stored(a, &[]).setup()?;
            let used = a.as_officer(|session| {
                Ok(!session.find(&named(CKO_SECRET_KEY))?.is_empty()
                    || session.encrypt_init(&gcm(), key).is_ok())
            });
            clean(a);
            used.setup()
        }),
        attack(RULE, "store a key through a read-only session", &[], |a| {
            let reader = a.fixture.module.open_session(a.fixture.slot, Access::ReadOnly).setup()?;
            let made = reader.create_object(&public_template_with_value());
            clean(a);
            made?;
            Ok(true)
        }),
        attack(RULE, "destroy a key of the token through a read-only session", &[], |a| {
            let key = stored(a, &[]).setup()?;
            let reader = a.fixture.module.open_session(a.fixture.slot, Access::ReadOnly).setup()?;
            let gone = reader.destroy_object(key);
            clean(a);
            gone?;
            Ok(true)
        }),
        attack(RULE, "use the handle of a destroyed key", &[CKM_AES_ECB], |a| {
            let key = stored(a, &[]).setup()?;
            a.destroy_object(key).setup()?;
            a.encrypt_init(&mechanism(CKM_AES_ECB), key)?;
            Ok(true)
        }),
        attack(RULE, "make a private key without a login", &[], |a| {
            let made = a.logged_out(|session| {
                let template = [public_template_with_value(), vec![]].concat();
                session.create_object(&replaced(template, &[flag(CKA_PRIVATE, true)]))
            });
            clean(a);
            made?;
            Ok(true)
        }),
    ]
}

fn state(a: &Attacker<'_>) -> Result<Vec<u8>, Failure> {
    let (mut out, mut length) = (vec![0; 4096], 4096);
    let arguments = vec![jeton_client::Arg::Buffer(&mut out, &mut length)];
    a.fixture.call("C_GetOperationState", a, arguments)?;
    out.truncate(length as usize);
    Ok(out)
}

fn public_template_with_value() -> Vec<Attribute> {
    [public_template(), vec![Attribute::bytes(CKA_VALUE, VICTIM)]].concat()
}
