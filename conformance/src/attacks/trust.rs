//! Finding H1 of docs/findings.md: the user creates a trusted key, or changes one that the SO
//! trusts. Then the user wraps keys that have `CKA_WRAP_WITH_TRUSTED`. Also attacks with untrusted
//! keys.

use cryptoki_sys::*;
use jeton_client::Attribute;

use super::keys::Guarded::{ForTrusted, Kept, Open};
use super::keys::{
    Handle, Pair, Template, aes, bytes, ec, flag, hidden, kem, known, known_base, number, open, owner,
    public_rsa, rsa, wrapping,
};
use super::oracles::odd_modulus;
use super::tools::{AES_WRAPS, ECB, KW, KWP, OAEP, RSA_WRAPS, attribute_name, data, ecdh, named};
use super::{Attacker, RULE, Setup, Table, Tried};

const H1: &str = "Review, H1";

pub fn attacks(t: &Table) {
    untrusted(t);
    forged(t);
    nested_templates(t);
    edited(t);
}

/// Attacks that wrap a key that has `CKA_WRAP_WITH_TRUSTED` under a key of the attacker.
fn untrusted(t: &Table) {
    for with in AES_WRAPS.into_iter().chain(RSA_WRAPS) {
        let name = "wrap a key that has CKA_WRAP_WITH_TRUSTED under an untrusted key";
        t.row(RULE, format!("{name}, {}", named(with)), &[with], aes(ForTrusted))
            .accepted(move |a, victim| a.wrapped(with, a.wrapping_key(with)?, victim));
    }
    let name = "wrap an EC key that has CKA_WRAP_WITH_TRUSTED under an untrusted key";
    t.row(RULE, name, &[KWP], ec(&[CKA_SIGN], ForTrusted))
        .accepted(|a, (_, victim)| a.wrapped(KWP, a.wrapping_key(KWP)?, victim));
}

fn trusted() -> Attribute {
    flag(CKA_TRUSTED, true)
}

impl Attacker<'_> {
    /// Returns whether `trusted`, whose value is [`KNOWN`], wraps a victim that only trusted keys
    /// may wrap.
    fn takes(&self, trusted: Handle) -> Tried<bool> {
        self.exports(trusted, self.import(aes(ForTrusted)).setup()?)
    }

    fn known_derived(&self, base: &Template, template: &Template) -> Tried<Handle> {
        self.derived(data(CKM_XOR_BASE_AND_DATA, &[0; 32]), self.import(base)?, template)
    }
}

/// Describes a made AES key of the attacker that wraps.
fn wraps() -> Template {
    open(CKK_AES).able(&[CKA_WRAP])
}

/// Attacks with `CKA_TRUSTED` in a template of the user.
fn forged(t: &Table) {
    let gives = |function: &str, needs: &[_]| t.row(H1, format!("{function} gives CKA_TRUSTED"), needs, ());
    gives("C_CreateObject", &[KW]).holds(|a, ()| a.takes(a.import(known(&[CKA_WRAP]).and([trusted()]))?));
    gives("C_SetAttributeValue", &[KW])
        .holds(|a, ()| a.takes(a.set(a.import(known(&[CKA_WRAP]))?, [trusted()])?));
    gives("C_CopyObject", &[KW]).holds(|a, ()| a.takes(a.copy(a.import(known(&[CKA_WRAP]))?, [trusted()])?));
    gives("C_GenerateKey", &[CKM_AES_KEY_GEN]).holds(|a, ()| {
        let template = [flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 32), flag(CKA_WRAP, true), trusted()];
        a.is(a.generate(template)?, CKA_TRUSTED)
    });
    gives("C_GenerateKeyPair", &[CKM_RSA_PKCS_KEY_PAIR_GEN]).holds(|a, ()| {
        let public = [number(CKA_MODULUS_BITS, 2048), flag(CKA_WRAP, true), trusted()];
        a.is(a.pair(&Pair::of(CKM_RSA_PKCS_KEY_PAIR_GEN, public, []))?.0, CKA_TRUSTED)
    });
    gives("C_UnwrapKey", &[KW])
        .holds(|a, ()| a.takes(a.known_unwrapped(&known(&[CKA_UNWRAP]), &wraps().and([trusted()]))?));
    gives("C_DeriveKey", &[CKM_XOR_BASE_AND_DATA, KW])
        .holds(|a, ()| a.takes(a.known_derived(&known_base(Open), &wraps().and([trusted()]))?));
    t.row(H1, "C_EncapsulateKey gives CKA_TRUSTED", &[CKM_ML_KEM], kem()).holds(|a, (public, _)| {
        a.is(a.encapsulated(public, hidden(CKK_AES).and([trusted()]))?.1, CKA_TRUSTED)
    });
    t.row(H1, "C_DecapsulateKey gives CKA_TRUSTED", &[CKM_ML_KEM], kem()).holds(|a, pair| {
        a.is(a.decapsulates(pair, hidden(CKK_AES), hidden(CKK_AES).and([trusted()]))?, CKA_TRUSTED)
    });
    t.row(H1, "C_CreateObject gives CKA_TRUSTED to a public key", &[CKM_RSA_PKCS], ())
        .holds(|a, ()| a.is(a.import(public_rsa(odd_modulus(), &[1, 0, 1]).and([trusted()]))?, CKA_TRUSTED));
    t.row(H1, "C_CreateObject gives CKA_TRUSTED to a certificate", &[], ()).holds(|a, ()| {
        let kind = [number(CKA_CLASS, CKO_CERTIFICATE), number(CKA_CERTIFICATE_TYPE, CKC_X_509)];
        let values = [bytes(CKA_SUBJECT, [0x30, 0]), bytes(CKA_VALUE, [0x30, 0])];
        let template = Template::from(kind).and(values).and([flag(CKA_TOKEN, false), trusted()]);
        a.is(a.import(template)?, CKA_TRUSTED)
    });
}

/// Attacks with `CKA_TRUSTED` in a template attribute of a key that unwraps, derives, encapsulates
/// or decapsulates. Three more attacks have another read-only flag in `CKA_UNWRAP_TEMPLATE`.
fn nested_templates(t: &Table) {
    let gives = |template: &str, needs: &[_]| t.row(H1, format!("{template} gives CKA_TRUSTED"), needs, ());
    let unwrapping = |given| known(&[CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, [flag(given, true)]);
    let inner = || Template::default().nested(CKA_UNWRAP_TEMPLATE, [trusted()]);
    gives("CKA_UNWRAP_TEMPLATE", &[KW])
        .holds(move |a, ()| a.takes(a.known_unwrapped(&unwrapping(CKA_TRUSTED), &wraps())?));
    gives("CKA_UNWRAP_TEMPLATE of a copy", &[KW]).holds(move |a, ()| {
        let own = a.copy(a.import(known(&[CKA_UNWRAP]))?, inner())?;
        a.takes(a.unwrapped(KW, own, &a.known_wrapped()?, wraps())?)
    });
    gives("CKA_DERIVE_TEMPLATE", &[CKM_XOR_BASE_AND_DATA, KW]).holds(|a, ()| {
        a.takes(a.known_derived(&known_base(Open).nested(CKA_DERIVE_TEMPLATE, [trusted()]), &wraps())?)
    });
    gives("CKA_ENCAPSULATE_TEMPLATE", &[CKM_ML_KEM]).holds(|a, ()| {
        let pair = kem();
        let public = pair.public.nested(CKA_ENCAPSULATE_TEMPLATE, [trusted()]);
        let (public, _) = a.pair(&Pair { public, ..pair })?;
        a.is(a.encapsulated(public, hidden(CKK_AES))?.1, CKA_TRUSTED)
    });
    gives("CKA_DECAPSULATE_TEMPLATE", &[CKM_ML_KEM]).holds(|a, ()| {
        let pair = a.pair(&kem().nested(CKA_DECAPSULATE_TEMPLATE, [trusted()]))?;
        a.is(a.decapsulates(pair, hidden(CKK_AES), hidden(CKK_AES))?, CKA_TRUSTED)
    });
    gives("CKA_DERIVE_TEMPLATE of an EC key", &[CKM_ECDH1_DERIVE]).holds(|a, ()| {
        let pair = ec(&[CKA_DERIVE], Kept).nested(CKA_DERIVE_TEMPLATE, [trusted()]);
        let (public, private) = a.pair(&pair)?;
        let template = wraps().and([number(CKA_VALUE_LEN, 32)]);
        a.is(a.derived(ecdh(&a.point(public)?), private, template)?, CKA_TRUSTED)
    });
    gives("CKA_UNWRAP_TEMPLATE of an RSA key", &[OAEP]).holds(|a, ()| {
        let pair = rsa(&[CKA_WRAP], &[CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, [trusted()]);
        let (public, private) = a.pair(&pair)?;
        let wrapped = a.wrapped(OAEP, public, a.import(known(&[CKA_ENCRYPT]))?)?;
        a.is(a.unwrapped(OAEP, private, &wrapped, wraps())?, CKA_TRUSTED)
    });
    gives("CKA_UNWRAP_TEMPLATE in a CKA_UNWRAP_TEMPLATE", &[KW]).holds(move |a, ()| {
        let first = known(&[CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, inner());
        let second = a.known_unwrapped(&first, &open(CKK_AES).able(&[CKA_UNWRAP]))?;
        a.takes(a.unwrapped(KW, second, &a.known_wrapped()?, wraps())?)
    });
    for given in [CKA_LOCAL, CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE] {
        t.row(H1, format!("CKA_UNWRAP_TEMPLATE gives {}", attribute_name(given)), &[KW], ())
            .holds(move |a, ()| a.is(a.known_unwrapped(&unwrapping(given), &open(CKK_AES))?, given));
    }
}

/// Returns what creates a key that the SO trusts. It is a token object that is not private, because
/// the SO sees no private objects. Private session objects of the user are lost.
pub fn trusted_key(key: Template) -> impl Fn(&Attacker<'_>) -> Tried<Handle> {
    let stored = key.and([flag(CKA_TOKEN, true), flag(CKA_PRIVATE, false), trusted()]);
    owner(move |a: &Attacker<'_>| a.as_officer(|session| session.create_object(stored.as_ref())))
}

/// Attacks in which the user changes or copies a key that the SO trusts.
fn edited(t: &Table) {
    let user = |what: &str, needs: &[_]| t.row(H1, what, needs, trusted_key(wrapping(&[CKA_WRAP])));
    let wrap = |a: &Attacker<'_>, with: CK_MECHANISM_TYPE, key| {
        a.wrapped(with, key, a.import(aes(ForTrusted)).setup()?)
    };
    let session = || flag(CKA_TOKEN, false);
    user("the user adds CKA_DECRYPT to a trusted key", &[ECB]).reads(move |a, key| {
        a.set(key, [flag(CKA_DECRYPT, true)])?;
        a.decrypted(ECB, key, &wrap(a, ECB, key)?)
    });
    user("the user adds CKA_DECRYPT to a copy of a trusted key", &[ECB]).reads(move |a, key| {
        let copy = a.copy(key, [session(), flag(CKA_DECRYPT, true)])?;
        a.decrypted(ECB, copy, &wrap(a, ECB, key)?)
    });
    user("the user adds CKA_UNWRAP to a trusted key", &[KW]).reads(move |a, key| {
        a.set(key, [flag(CKA_UNWRAP, true)])?;
        a.opened(KW, key, &wrap(a, KW, key)?)
    });
    user("the user adds CKA_UNWRAP to a copy of a trusted key", &[KW]).reads(move |a, key| {
        let copy = a.copy(key, [session(), flag(CKA_UNWRAP, true)])?;
        a.opened(KW, copy, &wrap(a, KW, key)?)
    });
    user("a copy by the user keeps CKA_TRUSTED", &[KW])
        .holds(move |a, key| a.is(a.copy(key, [session()])?, CKA_TRUSTED));
    user("the user adds CKA_DERIVE to a trusted key", &[])
        .holds(|a, key| a.is(a.set(key, [flag(CKA_DERIVE, true)])?, CKA_DERIVE));
    for changed in [CKA_LABEL, CKA_ID] {
        user(&format!("the user changes {} of a trusted key", attribute_name(changed)), &[KW])
            .yields(b"another", move |a, key| {
                Ok(a.attribute(a.set(key, [bytes(changed, *b"another")])?, changed)?)
            });
    }
    user("a copy by the user with CKA_TRUSTED in its template is trusted", &[KW, CKM_AES_KEY_GEN])
        .holds(move |a, key| a.is(a.copy(key, [session(), trusted()])?, CKA_TRUSTED));
}
