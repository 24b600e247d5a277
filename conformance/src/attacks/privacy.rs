//! Finding C1 of docs/findings.md: a key is used without a login, or is on the disk as plaintext.
//! Also attacks on the rules of logins, read-only sessions and destroyed objects.

use std::path::Path;

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Session};

use super::keys::Guarded::{Kept, Wrappable};
use super::keys::{
    Handle, Pair, Template, VICTIM, aes, base, bytes, flag, hidden, known, number, owner, secret,
};
use super::tools::{ECB, GCM, KW, With};
use super::{Attacker, RULE, Setup, Table, Tried};
use crate::fixture::{Answer, P256};

const C1: &str = "Review, C1";
const LABEL: &[u8] = b"attacked by C1";

pub fn attacks(t: &Table) {
    t.row(C1, "use a copy of an AES key with CKA_PRIVATE=false after the logout", &[ECB], stored())
        .holds(|a, key| a.copy(key, [public()]).and_then(|_| a.used_without_login(CKO_SECRET_KEY)));
    t.row(C1, "use, after the logout, an AES key that C_SetAttributeValue made public", &[ECB], stored())
        .holds(|a, key| a.set(key, [public()]).and_then(|_| a.used_without_login(CKO_SECRET_KEY)));
    t.row(C1, "use an imported AES key with CKA_PRIVATE=false after the logout", &[ECB], ())
        .holds(|a, ()| a.import(stored().and([public()])).and_then(|_| a.used_without_login(CKO_SECRET_KEY)));
    let name = "use a generated AES key with CKA_PRIVATE=false after the logout";
    t.row(C1, name, &[ECB, CKM_AES_KEY_GEN], ()).holds(|a, ()| {
        let stored = [flag(CKA_TOKEN, true), public(), label(), number(CKA_VALUE_LEN, 32)];
        a.generate(Template::from(stored).guarded(Kept).usages(&[CKA_ENCRYPT]))?;
        a.used_without_login(CKO_SECRET_KEY)
    });
    let name = "use a generated EC key with CKA_PRIVATE=false after the logout";
    t.row(C1, name, &[CKM_EC_KEY_PAIR_GEN, CKM_ECDSA], ())
        .holds(|a, ()| a.pair(&stored_pair(false)).and_then(|_| a.used_without_login(CKO_PRIVATE_KEY)));
    let name = "use a copy of an EC key with CKA_PRIVATE=false after the logout";
    t.row(C1, name, &[CKM_EC_KEY_PAIR_GEN, CKM_ECDSA], stored_pair(true))
        .holds(|a, (_, key)| a.copy(key, [public()]).and_then(|_| a.used_without_login(CKO_PRIVATE_KEY)));
    let name = "use an unwrapped AES key with CKA_PRIVATE=false after the logout";
    t.row(C1, name, &[ECB, KW], owner(|a| a.known_wrapped())).holds(|a, wrapped| {
        a.unwrapped(KW, a.import(known(&[CKA_UNWRAP]))?, &wrapped, made_public())?;
        a.used_without_login(CKO_SECRET_KEY)
    });
    let name = "use a derived AES key with CKA_PRIVATE=false after the logout";
    t.row(C1, name, &[ECB, CKM_SHA256_KEY_DERIVATION], base()).holds(|a, base| {
        a.derived(CKM_SHA256_KEY_DERIVATION, base, made_public().and([number(CKA_VALUE_LEN, 32)]))?;
        a.used_without_login(CKO_SECRET_KEY)
    });
    on_disk(t);
    logins(t);
}

fn public() -> Attribute {
    flag(CKA_PRIVATE, false)
}

fn label() -> Attribute {
    bytes(CKA_LABEL, LABEL)
}

/// Describes a made key of the token that is not private.
fn made_public() -> Template {
    hidden(CKK_AES).and([public(), label()]).usages(&[CKA_ENCRYPT]).and([flag(CKA_TOKEN, true)])
}

/// Describes an imported key of the token that is not private.
fn imported_public() -> Template {
    made_public().and([bytes(CKA_VALUE, VICTIM)])
}

fn stored() -> Template {
    aes(Kept).and([flag(CKA_TOKEN, true), flag(CKA_PRIVATE, true), label()])
}

fn stored_pair(private: bool) -> Pair {
    let stored = || [flag(CKA_TOKEN, true), label()];
    let public = [bytes(CKA_EC_PARAMS, P256), flag(CKA_VERIFY, true)];
    let pair = Pair::of(CKM_EC_KEY_PAIR_GEN, public, [flag(CKA_PRIVATE, private), flag(CKA_SIGN, true)]);
    Pair { public: pair.public.and(stored()), private: pair.private.and(stored()).guarded(Kept), ..pair }
}

fn seen(session: &Session, class: CK_OBJECT_CLASS) -> Answer<Vec<Handle>> {
    session.find(&[number(CKA_CLASS, class), label()])
}

impl Attacker<'_> {
    /// Returns whether a caller without a login finds a secret key of the attack and encrypts with
    /// it, or a private key and signs with it.
    fn used_without_login(&self, class: CK_OBJECT_CLASS) -> Tried<bool> {
        let encrypts = class == CKO_SECRET_KEY;
        let (ecb, ecdsa, mut out) = (ECB.mechanism(), CKM_ECDSA.mechanism(), [0; 64]);
        self.logged_out(|session| {
            let starts = |key: &Handle| match encrypts {
                true => session.encrypt_init(&ecb, *key).is_ok(),
                false => session.sign_init(&ecdsa, *key).is_ok(),
            };
            if !seen(session, class)?.iter().any(starts) {
                return Ok(false);
            }
            let block = [7; 32];
            Ok(if encrypts { session.encrypt(&block, &mut out) } else { session.sign(&block, &mut out) }
                .is_ok())
        })
    }
}

/// Attacks that find the bytes of a sensitive key in the files of the token.
fn on_disk(t: &Table) {
    type Make = fn(&Attacker<'_>, &[u8]) -> Tried<Handle>;
    let read = |what: &str, make: Make| {
        t.row(C1, format!("read {what} in the files of the token"), &[], ()).holds(move |a, ()| {
            let Some(directory) = a.fixture.directory.as_deref() else { return Ok(false) };
            let mut value = [0; 32];
            a.random(&mut value).setup()?;
            let outcome = make(a, &value);
            let found = contains(directory, &value);
            outcome.map(|_| found)
        });
    };
    read("a private key", |a, value| a.import(stored().and([bytes(CKA_VALUE, value)])));
    read("an imported key with CKA_PRIVATE=false", |a, value| {
        a.import(stored().and([bytes(CKA_VALUE, value), public()]))
    });
    read("a copy with CKA_PRIVATE=false", |a, value| {
        a.copy(a.import(stored().and([bytes(CKA_VALUE, value)]))?, [public()])
    });
    read("an unwrapped key with CKA_PRIVATE=false", |a, value| {
        let source = a.import(secret(CKK_AES, value, Wrappable, &[CKA_ENCRYPT]))?;
        let wrapped = a.wrapped(KW, a.import(known(&[CKA_WRAP]))?, source)?;
        a.unwrapped(KW, a.import(known(&[CKA_UNWRAP]))?, &wrapped, made_public())
    });
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
fn logins(t: &Table) {
    // The owner has started an operation with a key that is on the token.
    let started = |with: CK_MECHANISM_TYPE| {
        owner(move |a| {
            let key = a.import(stored())?;
            a.encrypt_init(&with.mechanism(), key)?;
            Ok(key)
        })
    };
    t.row(RULE, "find a private key without a login", &[], stored())
        .holds(|a, _| a.logged_out(|session| Ok(!seen(session, CKO_SECRET_KEY)?.is_empty())));
    t.row(RULE, "use the old handle of a private key without a login", &[ECB], stored())
        .accepted(|a, key| a.logged_out(|session| session.encrypt_init(&ECB.mechanism(), key)));
    t.row(RULE, "finish an operation with a private key after the logout", &[ECB], started(ECB))
        .accepted(|a, _| a.logged_out(|_| a.encrypt(&[0; 16], &mut [0; 16]).map(drop)));
    let name = "restore an operation state after the logout";
    t.row(RULE, name, &[CKM_AES_CBC], started(CKM_AES_CBC)).accepted(|a, key| {
        let state = a.output("C_GetOperationState", vec![])?;
        a.logged_out(|session| {
            let arguments = vec![Arg::Bytes(&state), Arg::Number(key.0), Arg::Number(0)];
            a.fixture.call("C_SetOperationState", session, arguments)?;
            session.encrypt(&[0; 16], &mut [0; 32]).map(drop)
        })
    });
    t.row(RULE, "use the user's keys as the security officer", &[GCM], stored()).holds(|a, key| {
        let used = a.as_officer(|session| {
            let finds = !seen(session, CKO_SECRET_KEY)?.is_empty();
            Ok(finds || session.encrypt_init(&GCM.mechanism(), key).is_ok())
        });
        used.setup()
    });
    t.row(RULE, "store a key through a read-only session", &[], ())
        .accepted(|a, ()| Ok(a.fixture.reader().setup()?.create_object(imported_public().as_ref())?));
    t.row(RULE, "destroy a key of the token through a read-only session", &[], stored())
        .accepted(|a, key| Ok(a.fixture.reader().setup()?.destroy_object(key)?));
    t.row(RULE, "use the handle of a destroyed key", &[ECB], stored()).accepted(|a, key| {
        a.destroy_object(key).setup()?;
        a.init("C_EncryptInit", ECB, key)
    });
    t.row(RULE, "make a private key without a login", &[], ()).accepted(|a, ()| {
        let template = imported_public().and([flag(CKA_PRIVATE, true)]);
        a.logged_out(|session| session.create_object(template.as_ref()))
    });
}
