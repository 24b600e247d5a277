//! The guarantees of the flags of a key: usages, sensitivity, and the changes that the standard
//! forbids. Many attacks come from Bortolozzo, Centenaro, Focardi, Steel 2010 ("Attacking and
//! fixing PKCS#11 security tokens"). Attack a3 of this paper reads sensitive keys, a4 reads keys
//! that cannot be extracted, and a5 changes the flags back.

use cryptoki_sys::*;
use jeton_client::Mechanism;

use super::keys::Guarded::{ForTrusted, Kept, Wrappable};
use super::keys::{
    Handle, KINDS, KNOWN, Pair, Prepare, Template, VICTIM, aes, base, bytes, ec, flag, hidden, kind_name,
    known, mac_key, number, only, open_of, owner, rsa, secret, usual, victim,
};
use super::tools::{
    AES_WRAPS, ECB, GCM, HMAC, KW, OAEP, RSA_CIPHERS, RSA_WRAPS, attribute_name, ecdh, named,
};
use super::{Attacker, BORTOLOZZO, RULE, Table, Tried};
use crate::fixture::P256;

const A3: &str = "Bortolozzo et al. 2010, a3";
const A4: &str = "Bortolozzo et al. 2010, a4";
const A5: &str = "Bortolozzo et al. 2010, a5";
const MESSAGE: &[u8] = b"message";
const DERIVE: CK_MECHANISM_TYPE = CKM_SHA256_KEY_DERIVATION;
/// The functions that change an object, or make a changed copy.
const WAYS: [&str; 2] = ["C_SetAttributeValue", "C_CopyObject"];

pub fn attacks(t: &Table) {
    reads(t);
    exports(t);
    usages(t);
    WAYS.into_iter().for_each(|way| changes(t, way));
    histories(t);
    limits(t);
}

impl Attacker<'_> {
    /// Calls the function. Returns the changed object, or its changed copy.
    fn changed(&self, way: &str, object: Handle, changes: &Template) -> Tried<Handle> {
        if way == "C_CopyObject" { self.copy(object, changes) } else { self.set(object, changes) }
    }

    fn uses(&self, function: &'static str, with: CK_MECHANISM_TYPE, key: Handle) -> Tried<()> {
        match function {
            "C_Encrypt" => self.encrypted(with, key, &[0; 16]).map(drop),
            "C_Decrypt" => self.decrypted(with, key, &[0; 16]).map(drop),
            "C_Sign" => self.signed(with, key, MESSAGE).map(drop),
            "C_WrapKey" => self.wrapped(with, key, self.import(known(&[CKA_ENCRYPT]))?).map(drop),
            "C_UnwrapKey" => {
                let made = self.unwrapped(with, key, &[0; 16], open_of(CKK_GENERIC_SECRET, 16))?;
                self.value(made).map(drop)
            }
            "C_DeriveKey" => self.derived(with, key, mac_key()).map(drop),
            init => self.init(init, Mechanism::new(with), key),
        }
    }

    /// Derives a readable key. Returns whether it reveals the digest of the victim.
    fn derives_digest(&self, victim: Handle) -> Tried<bool> {
        let made = self.derived(DERIVE, victim, open_of(CKK_GENERIC_SECRET, 32))?;
        Ok(self.value(made)? == self.digested(CKM_SHA256, &VICTIM)?)
    }
}

/// Attacks like a3 and a4, which try to read values that the flags protect.
fn reads(t: &Table) {
    for kind in KINDS {
        let name = kind_name(kind);
        let unextractable = usual(kind, Kept).and([flag(CKA_SENSITIVE, false)]);
        t.row(A3, format!("read a sensitive {name} key"), &[], usual(kind, Wrappable))
            .reads(|a, key| a.value(key));
        t.row(A4, format!("read an unextractable {name} key"), &[], unextractable)
            .reads(|a, key| a.value(key));
    }
    for part in
        [CKA_PRIVATE_EXPONENT, CKA_PRIME_1, CKA_PRIME_2, CKA_EXPONENT_1, CKA_EXPONENT_2, CKA_COEFFICIENT]
    {
        let name = format!("read {} of a sensitive RSA key", attribute_name(part));
        t.row(A3, name, &[CKM_RSA_PKCS_KEY_PAIR_GEN], rsa(&[CKA_VERIFY], &[CKA_SIGN]))
            .holds(move |a, (_, key)| Ok(a.attribute(key, part)?.len() > 64));
    }
    t.row(A3, "read a sensitive EC key", &[CKM_EC_KEY_PAIR_GEN], ec(&[CKA_SIGN], Wrappable))
        .holds(|a, (_, key)| Ok(a.value(key)?.len() >= 31));
    for (generate, set) in
        [(CKM_ML_DSA_KEY_PAIR_GEN, CKP_ML_DSA_44), (CKM_ML_KEM_KEY_PAIR_GEN, CKP_ML_KEM_768)]
    {
        for part in [CKA_VALUE, CKA_SEED] {
            let name = format!("read {} of a sensitive key of {}", attribute_name(part), named(generate));
            let private = [flag(CKA_SENSITIVE, true), flag(CKA_EXTRACTABLE, true)];
            t.row(A3, name, &[generate], Pair::of(generate, [number(CKA_PARAMETER_SET, set)], private))
                .holds(move |a, (_, key)| Ok(a.attribute(key, part)?.len() >= 32));
        }
    }
    t.row(RULE, "confirm a guess of a sensitive key by a search for its value", &[], aes(Kept))
        .holds(|a, _| Ok(!a.find(&[bytes(CKA_VALUE, VICTIM)])?.is_empty()));
}

/// Attacks that wrap a key which is not extractable, or a key that `CKA_WRAP_TEMPLATE` excludes.
fn exports(t: &Table) {
    for with in AES_WRAPS.into_iter().chain(RSA_WRAPS) {
        t.row(RULE, format!("wrap an unextractable key with {}", named(with)), &[with], aes(Kept))
            .accepted(move |a, victim| a.wrapped(with, a.wrapping_key(with)?, victim));
    }
    let own = known(&[CKA_WRAP]).nested(CKA_WRAP_TEMPLATE, [number(CKA_KEY_TYPE, CKK_GENERIC_SECRET)]);
    t.row(RULE, "wrap a key against CKA_WRAP_TEMPLATE", &[KW], (aes(Wrappable), own))
        .holds(|a, (victim, own)| a.exports(own, victim));
}

/// Attacks that use a key for a function that the key does not permit.
fn usages(t: &Table) {
    // The victim has a usage that does not matter, but lacks the one that its use needs.
    for (what, function, lacking, with, kind, left) in [
        ("C_Encrypt", "C_Encrypt", CKA_ENCRYPT, ECB, CKK_AES, CKA_DECRYPT),
        ("C_Decrypt", "C_Decrypt", CKA_DECRYPT, ECB, CKK_AES, CKA_ENCRYPT),
        ("C_Sign", "C_Sign", CKA_SIGN, HMAC, CKK_GENERIC_SECRET, CKA_VERIFY),
        ("C_Sign (CMAC)", "C_Sign", CKA_SIGN, CKM_AES_CMAC, CKK_AES, CKA_VERIFY),
        ("C_MessageEncryptInit", "C_MessageEncryptInit", CKA_ENCRYPT, GCM, CKK_AES, CKA_DECRYPT),
        ("C_MessageDecryptInit", "C_MessageDecryptInit", CKA_DECRYPT, GCM, CKK_AES, CKA_ENCRYPT),
        ("C_MessageSignInit", "C_MessageSignInit", CKA_SIGN, HMAC, CKK_GENERIC_SECRET, CKA_VERIFY),
        ("C_WrapKey", "C_WrapKey", CKA_WRAP, KW, CKK_AES, CKA_ENCRYPT),
        ("C_UnwrapKey", "C_UnwrapKey", CKA_UNWRAP, ECB, CKK_AES, CKA_ENCRYPT),
        ("HKDF_DERIVE", "C_DeriveKey", CKA_DERIVE, CKM_HKDF_DERIVE, CKK_GENERIC_SECRET, CKA_SIGN),
        ("SHA256_KEY_DERIVATION", "C_DeriveKey", CKA_DERIVE, DERIVE, CKK_GENERIC_SECRET, CKA_SIGN),
    ] {
        let name = format!("{what} with a key without {}", attribute_name(lacking));
        t.row(RULE, name, &[with], victim(kind, Kept, &[left]))
            .accepted(move |a, key| a.uses(function, with, key));
    }
    let other = rsa(&[CKA_VERIFY], &[CKA_DECRYPT]);
    t.row(RULE, "sign with an RSA key without CKA_SIGN", &[CKM_SHA256_RSA_PKCS], other)
        .holds(|a, pair| a.forges(CKM_SHA256_RSA_PKCS, pair, MESSAGE));
    for with in RSA_CIPHERS {
        let name = format!("decrypt {} with an RSA key without CKA_DECRYPT", named(with));
        t.row(RULE, name, &[with], rsa(&[CKA_VERIFY], &[CKA_SIGN]))
            .accepted(move |a, (_, key)| a.init("C_DecryptInit", with, key));
    }
    t.row(RULE, "derive with an EC key without CKA_DERIVE", &[CKM_ECDH1_DERIVE], ec(&[CKA_SIGN], Kept))
        .accepted(|a, (public, key)| a.derived(ecdh(&a.point(public)?), key, mac_key()));
    t.row(RULE, "sign with an EC key without CKA_SIGN", &[CKM_ECDSA], ec(&[CKA_DERIVE], Kept))
        .holds(|a, pair| a.forges(CKM_ECDSA, pair, &[7; 32]));
}

/// Adds an attack like a5, which changes a key by one of [`WAYS`], and then uses it.
fn change<P: Prepare<Made = Handle> + 'static>(
    (t, way): (&Table, &'static str),
    what: impl AsRef<str>,
    needs: &[CK_MECHANISM_TYPE],
    key: P,
    change: impl Into<Template>,
    then: impl Fn(&Attacker<'_>, Handle) -> Tried<bool> + 'static,
) {
    let change = change.into();
    t.row(A5, format!("{way} {}", what.as_ref()), needs, key)
        .holds(move |a, key| then(a, a.changed(way, key, &change)?));
}

/// Attacks like a5, which change flags back or change constant values.
fn changes(t: &Table, way: &'static str) {
    let by = (t, way);
    for kind in KINDS {
        let (name, sensitive, kept) = (kind_name(kind), usual(kind, Wrappable), usual(kind, Kept));
        let what = format!("makes a sensitive {name} key readable");
        change(by, what, &[], sensitive, [flag(CKA_SENSITIVE, false)], |a, key| Ok(a.value(key)? == VICTIM));
        let what = format!("makes an unextractable {name} key extractable");
        change(by, what, &[KW], kept, [flag(CKA_EXTRACTABLE, true)], |a, key| a.steals(key));
    }
    for (wanted, forbidden) in [(CKA_SENSITIVE, false), (CKA_EXTRACTABLE, true)] {
        let what = format!("sets {} of an EC key to {forbidden}", attribute_name(wanted));
        let key = owner(|a| Ok(a.pair(&ec(&[CKA_SIGN], Kept))?.1));
        change(by, what, &[CKM_EC_KEY_PAIR_GEN], key, [flag(wanted, forbidden)], move |a, key| {
            Ok(a.is(key, wanted)? == forbidden)
        });
    }
    let freed = [flag(CKA_WRAP_WITH_TRUSTED, false)];
    change(by, "removes CKA_WRAP_WITH_TRUSTED", &[KW], aes(ForTrusted), freed, |a, key| a.steals(key));
    let careful = ec(&[CKA_SIGN], Kept).careful();
    t.row(A5, format!("{way} removes CKA_ALWAYS_AUTHENTICATE"), &[CKM_ECDSA], careful).holds(
        move |a, (public, key)| {
            let key = a.changed(way, key, &[flag(CKA_ALWAYS_AUTHENTICATE, false)].into())?;
            a.forges(CKM_ECDSA, (public, key), &[7; 32])
        },
    );
    let limited = aes(Kept).only(CKM_AES_CBC);
    change(by, "widens CKA_ALLOWED_MECHANISMS", &[ECB, CKM_AES_CBC], limited, [only(ECB)], |a, key| {
        Ok(!a.encrypted(ECB, key, &[0; 16])?.is_empty())
    });
    for kind in [CKA_WRAP_TEMPLATE, CKA_UNWRAP_TEMPLATE, CKA_DERIVE_TEMPLATE] {
        let key = victim(CKK_AES, Kept, &[CKA_UNWRAP]).nested(kind, [flag(CKA_SENSITIVE, true)]);
        let other = Template::default().nested(kind, [flag(CKA_SENSITIVE, false)]);
        change(by, format!("replaces {}", attribute_name(kind)), &[], key, other, |_, _| Ok(true));
    }
    for kept in [CKA_COPYABLE, CKA_MODIFIABLE] {
        let what = format!("sets {} to true again", attribute_name(kept));
        let key = aes(Kept).and([flag(kept, false)]);
        if (way, kept) == ("C_CopyObject", CKA_MODIFIABLE) {
            // The attack makes a readable copy of a key that cannot be modified.
            let readable = [flag(CKA_MODIFIABLE, false), flag(CKA_SENSITIVE, false)];
            change(by, what, &[], key, readable, |a, key| Ok(a.value(key)? == VICTIM));
        } else {
            change(by, what, &[], key, [flag(kept, true)], move |a, key| a.is(key, kept));
        }
    }
    let generic = [number(CKA_KEY_TYPE, CKK_GENERIC_SECRET)];
    change(by, "makes an AES key a generic one", &[], aes(Kept), generic, |a, key| {
        Ok(a.attribute(key, CKA_KEY_TYPE)? == CKK_GENERIC_SECRET.to_ne_bytes())
    });
    let (key, short) = (usual(CKK_GENERIC_SECRET, Kept), [number(CKA_VALUE_LEN, 1)]);
    change(by, "shortens a key by CKA_VALUE_LEN", &[], key, short, |a, key| {
        Ok(a.attribute(key, CKA_VALUE_LEN)? == 1usize.to_ne_bytes())
    });
    change(by, "replaces the value of a key", &[ECB], aes(Kept), [bytes(CKA_VALUE, KNOWN)], |a, key| {
        a.same(ECB, key, a.import(known(&[CKA_ENCRYPT]))?)
    });
}

/// Attacks that give a key a false history: `CKA_ALWAYS_SENSITIVE`, `CKA_NEVER_EXTRACTABLE`,
/// `CKA_LOCAL`.
fn histories(t: &Table) {
    for record in [CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE, CKA_LOCAL] {
        let name = attribute_name(record);
        let own = || secret(CKK_AES, &KNOWN, Kept, &[CKA_ENCRYPT]);
        t.row(BORTOLOZZO, format!("C_CreateObject gives {name} to a known key"), &[], ())
            .holds(move |a, ()| a.is(a.import(own().and([flag(record, true)]))?, record));
        t.row(BORTOLOZZO, format!("C_CreateObject leaves {name} true for a known key"), &[], ())
            .holds(move |a, ()| a.is(a.import(own())?, record));
        t.row(BORTOLOZZO, format!("C_UnwrapKey leaves {name} true for a known key"), &[KW], ())
            .holds(move |a, ()| a.is(a.known_unwrapped(&known(&[CKA_UNWRAP]), &hidden(CKK_AES))?, record));
        for way in WAYS {
            t.row(BORTOLOZZO, format!("{way} gives {name} to a known key"), &[], ()).holds(move |a, ()| {
                let key = a.import(known(&[CKA_ENCRYPT]))?;
                a.is(a.changed(way, key, &[flag(record, true)].into())?, record)
            });
        }
        if record != CKA_LOCAL {
            let name = format!("setting the flags of a known key makes {name} true");
            let key = owner(|a| a.generate(open_of(CKK_AES, 32).usages(&[CKA_ENCRYPT])));
            t.row(BORTOLOZZO, name, &[CKM_AES_KEY_GEN], key).holds(move |a, key| {
                a.is(a.set(key, [flag(CKA_SENSITIVE, true), flag(CKA_EXTRACTABLE, false)])?, record)
            });
        }
    }
}

/// Attacks on `CKA_ALLOWED_MECHANISMS`, on the templates for unwrapped and derived keys, on the
/// protection of derived keys, on usages, and on the parameters of an EC key.
fn limits(t: &Table) {
    // The victim may be used with a single mechanism. The attack uses another one.
    for (function, with, usage, only) in [
        ("C_Encrypt", ECB, CKA_ENCRYPT, GCM),
        ("C_Decrypt", CKM_AES_CBC, CKA_DECRYPT, GCM),
        ("C_Sign", CKM_AES_CMAC, CKA_SIGN, CKM_AES_GMAC),
        ("C_WrapKey", KW, CKA_WRAP, GCM),
        ("C_UnwrapKey", ECB, CKA_UNWRAP, GCM),
        ("C_DeriveKey", DERIVE, CKA_DERIVE, CKM_AES_ECB_ENCRYPT_DATA),
        ("C_MessageEncryptInit", GCM, CKA_ENCRYPT, CKM_AES_CBC),
    ] {
        let key = victim(CKK_AES, Kept, &[usage]).only(only);
        t.row(RULE, format!("{function} against CKA_ALLOWED_MECHANISMS"), &[with], key)
            .accepted(move |a, key| a.uses(function, with, key));
    }
    let hashing = ec(&[CKA_SIGN], Kept).and([only(CKM_ECDSA_SHA256)]);
    t.row(RULE, "ECDSA against CKA_ALLOWED_MECHANISMS", &[CKM_ECDSA], hashing)
        .holds(|a, pair| a.forges(CKM_ECDSA, pair, &[7; 32]));

    let sensitive = || [flag(CKA_SENSITIVE, true)];
    let unwrapping = secret(CKK_AES, &KNOWN, Kept, &[CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, sensitive());
    t.row(RULE, "unwrap against CKA_UNWRAP_TEMPLATE", &[KW], unwrapping)
        .yields(KNOWN, |a, key| a.opened(KW, key, &a.known_wrapped()?));
    let deriving = || victim(CKK_AES, Kept, &[CKA_DERIVE]);
    let limited = deriving().nested(CKA_DERIVE_TEMPLATE, sensitive());
    t.row(RULE, "derive against CKA_DERIVE_TEMPLATE", &[DERIVE], limited)
        .holds(|a, key| a.derives_digest(key));
    t.row(RULE, "read a key that is derived from a sensitive key", &[DERIVE], base())
        .holds(|a, key| a.derives_digest(key));
    t.row(RULE, "encrypt with a key that may only derive", &[CKM_AES_ECB_ENCRYPT_DATA], deriving()).accepted(
        |a, key| a.value(a.derived(CKM_AES_ECB_ENCRYPT_DATA, key, open_of(CKK_GENERIC_SECRET, 16))?),
    );

    let verifying = victim(CKK_AES, Kept, &[CKA_VERIFY]);
    t.row(RULE, "encrypt with a key that may only verify, AES_GCM", &[GCM], verifying)
        .accepted(|a, key| a.init("C_EncryptInit", GCM, key));
    let unwrapping = rsa(&[CKA_WRAP], &[CKA_UNWRAP]);
    t.row(RULE, "decrypt OAEP with an unwrapping RSA key", &[OAEP], unwrapping)
        .accepted(|a, (_, key)| a.init("C_DecryptInit", OAEP, key));
    let name = "change the parameters of an EC key by a copy";
    t.row(RULE, name, &[CKM_EC_KEY_PAIR_GEN], ec(&[CKA_SIGN], Kept)).holds(|a, (_, key)| {
        let p384 = [6, 5, 0x2b, 0x81, 4, 0, 0x22];
        Ok(a.attribute(a.copy(key, [bytes(CKA_EC_PARAMS, p384)])?, CKA_EC_PARAMS)? != P256)
    });
}
