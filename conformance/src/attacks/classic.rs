//! Attacks on the roles of keys. Clulow 2003; Delaune, Kremer, Steel 2008 ("Formal analysis of
//! PKCS#11"); Bortolozzo, Centenaro, Focardi, Steel 2010. In most attacks the victim is
//! extractable, and the attacker creates the wrapping key.

use cryptoki_sys::*;
use jeton_client::{Arg, Memory, Structure};

use super::keys::Guarded::{Kept, Open, Wrappable};
use super::keys::{
    Handle, Handles, KNOWN, VICTIM, aes, bytes, ec, flag, head, hidden, kind_name, number, owner, public_rsa,
    rsa, secret, usual, victim, wrapping,
};
use super::oracles::odd_modulus;
use super::tools::{AES_WRAPS, ECB, GCM, KW, OAEP, RAW, RSA_CIPHERS, ctr, named};
use super::{Attacker, CLULOW, Setup, Table, Tried};

const DELAUNE: &str = "Delaune, Kremer, Steel 2008";
const A1: &str = "Bortolozzo et al. 2010, a1";
const A2: &str = "Bortolozzo et al. 2010, a2";

pub fn attacks(t: &Table) {
    AES_WRAPS.into_iter().for_each(|mode| two_roles(t, mode));
    wrap_decrypt(t);
    asymmetric(t);
    over_time(t);
    imports(t);
    weaker(t);
}

impl Attacker<'_> {
    /// Wraps the victim with the first key, and decrypts the result with the second.
    fn wrap_decrypt(&self, with: CK_MECHANISM_TYPE, keys: Handles, victim: Handle) -> Tried<Vec<u8>> {
        self.decrypted(with, keys.1, &self.wrapped(with, keys.0, victim)?)
    }

    /// Wraps the victim with the first key, and unwraps it as a readable key with the second.
    fn wrap_open(&self, with: CK_MECHANISM_TYPE, keys: Handles, victim: Handle) -> Tried<Vec<u8>> {
        self.opened(with, keys.1, &self.wrapped(with, keys.0, victim)?)
    }

    /// Generates an AES key with two roles, as the first and the second key.
    fn two_roles(&self, usages: [CK_ATTRIBUTE_TYPE; 2]) -> Tried<Handles> {
        self.generated(&usages).map(|key| (key, key))
    }
}

/// Attacks with a key that has two roles. Most of them wrap the victim and then decrypt or unwrap
/// the result.
fn two_roles(t: &Table, mode: CK_MECHANISM_TYPE) {
    let name = named(mode);
    let one_key = format!("wrap and decrypt with one {name} key, victim:");
    for kind in [CKK_AES, CKK_GENERIC_SECRET, CKK_SHA256_HMAC, CKK_CHACHA20] {
        t.row(A1, format!("{one_key} {} key", kind_name(kind)), &[mode], usual(kind, Wrappable))
            .reads(move |a, victim| a.wrap_decrypt(mode, a.two_roles([CKA_WRAP, CKA_DECRYPT])?, victim));
    }
    let pair = ec(&[CKA_SIGN], Wrappable);
    t.row(A1, format!("{one_key} EC key"), &[mode, CKM_EC_KEY_PAIR_GEN], pair).holds(
        move |a, (_, victim)| {
            let plain = a.wrap_decrypt(mode, a.two_roles([CKA_WRAP, CKA_DECRYPT])?, victim)?;
            // PKCS #8 as plaintext contains the algorithm id-ecPublicKey.
            Ok(plain.windows(7).any(|part| part == [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]))
        },
    );
    t.row(DELAUNE, format!("wrap and unwrap readably with one {name} key"), &[mode], aes(Wrappable))
        .reads(move |a, victim| a.wrap_open(mode, a.two_roles([CKA_WRAP, CKA_UNWRAP])?, victim));
    let name = format!("import a known wrapping key by encrypting and unwrapping, {name}");
    t.row(DELAUNE, name, &[mode], aes(Wrappable)).holds(move |a, victim| {
        let key = a.generated(&[CKA_ENCRYPT, CKA_UNWRAP])?;
        let ciphertext = a.encrypted(mode, key, &KNOWN)?;
        a.exports(a.unwrapped(mode, key, &ciphertext, hidden(CKK_AES).able(&[CKA_WRAP]))?, victim)
    });
}

/// Other attacks with secret keys that wrap the victim.
fn wrap_decrypt(t: &Table) {
    t.row(DELAUNE, "wrap a key with itself and unwrap it readably", &[KW], ()).reads(|a, ()| {
        let key = a.import(victim(CKK_AES, Wrappable, &[CKA_WRAP, CKA_UNWRAP]))?;
        a.wrap_open(KW, (key, key), key)
    });
    let name = "unwrap one key twice, for wrapping and for decryption";
    t.row(DELAUNE, name, &[KW, ECB], aes(Wrappable)).reads(|a, victim| {
        let outer = a.generated(&[CKA_WRAP, CKA_UNWRAP])?;
        let wrapped = a.wrapped(KW, outer, a.generated(&[CKA_ENCRYPT])?)?;
        let twin = |usage| a.unwrapped(KW, outer, &wrapped, hidden(CKK_AES).usages(&[usage]));
        a.wrap_decrypt(ECB, (twin(CKA_WRAP)?, twin(CKA_DECRYPT)?), victim)
    });
    let name = "wrap with C_WrapKeyAuthenticated and decrypt with one AES_GCM key";
    t.row(A1, name, &[GCM], aes(Wrappable)).holds(|a, victim| {
        let key = a.generated(&[CKA_WRAP, CKA_DECRYPT])?;
        let (nonce, tag) = (Memory::of(&[0; 12]), Memory::of(&[0; 16]));
        let parameter = Structure::new().pointer(&nonce).number(12).number(0).number(CKG_NO_GENERATE);
        let with = parameter.pointer(&tag).number(128).mechanism(GCM);
        let keys = vec![Arg::Mechanism(&with), Arg::Number(key.0), Arg::Number(victim.0), Arg::Bytes(b"")];
        let wrapped = a.output("C_WrapKeyAuthenticated", keys)?;
        // C_WrapKeyAuthenticated writes the tag to the parameter. AES-CTR with a counter that
        // starts at 2 decrypts the wrapped key.
        let counter = [&[0; 12][..], &[0, 0, 0, 2]].concat();
        Ok(a.decrypted(ctr(32, &counter), key, &wrapped)?.starts_with(&VICTIM))
    });
    t.row(CLULOW, "wrap with a key that the attacker imported", &[KW], aes(Wrappable))
        .holds(|a, victim| a.steals(victim));
}

/// Attacks with an RSA pair. Its public key wraps the victim or encrypts a known wrapping key.
fn asymmetric(t: &Table) {
    for with in RSA_CIPHERS {
        let name = named(with);
        for kind in [CKK_AES, CKK_GENERIC_SECRET] {
            let name = format!("wrap and decrypt with one RSA pair, {name}, key type {kind:#x}");
            t.row(A2, name, &[with], usual(kind, Wrappable)).holds(move |a, victim| {
                let pair = a.pair(&rsa(&[CKA_WRAP], &[CKA_DECRYPT]))?;
                Ok(a.wrap_decrypt(with, pair, victim)?.ends_with(&VICTIM))
            });
        }
        let readably = format!("wrap and unwrap readably with one RSA pair, {name}");
        t.row(A2, readably, &[with], aes(Wrappable)).holds(move |a, victim| {
            let pair = a.pair(&rsa(&[CKA_WRAP], &[CKA_UNWRAP]))?;
            Ok(a.wrap_open(with, pair, victim)?.ends_with(&VICTIM))
        });
        let trojan = format!("Trojan key: encrypt a known wrapping key and unwrap it, {name}");
        t.row(CLULOW, trojan, &[with], aes(Wrappable)).holds(move |a, victim| {
            let (public, private) = a.pair(&rsa(&[CKA_ENCRYPT], &[CKA_UNWRAP]))?;
            let ciphertext = a.encrypted(with, public, &KNOWN)?;
            let length = (with == RAW).then(|| number(CKA_VALUE_LEN, 32));
            let template = hidden(CKK_AES).able(&[CKA_WRAP]).and(length);
            a.exports(a.unwrapped(with, private, &ciphertext, template)?, victim)
        });
    }
    // A real attacker generates the pair outside the token. This test generates it in the token and
    // imports a copy of the public key.
    let outside = owner(|a| {
        let (public, private) = a.pair(&rsa(&[CKA_ENCRYPT], &[CKA_DECRYPT]))?;
        Ok((a.attribute(public, CKA_MODULUS)?, private))
    });
    t.row(CLULOW, "wrap with a public key that the attacker imported", &[OAEP], (aes(Wrappable), outside))
        .reads(|a, (victim, (modulus, private))| {
            let own = a.import(public_rsa(modulus, &[1, 0, 1]))?;
            a.wrap_decrypt(OAEP, (own, private), victim)
        });
}

/// Attacks in which the role of a key changes, or in which the default attributes of a key permit
/// the attack.
fn over_time(t: &Table) {
    /// Changes a wrapping key into a decrypting one.
    type Turn = fn(&Attacker<'_>, Handle) -> Tried<Handle>;
    let turn = |name, turn: Turn| {
        t.row(DELAUNE, name, &[ECB], aes(Wrappable)).reads(move |a, victim| {
            let key = a.generated(&[CKA_WRAP])?;
            let wrapped = a.wrapped(ECB, key, victim)?;
            a.decrypted(ECB, turn(a, key)?, &wrapped)
        });
    };
    turn("C_SetAttributeValue turns a wrapping key into a decrypting one", |a, key| {
        a.set(key, [flag(CKA_WRAP, false)])?;
        a.set(key, [flag(CKA_DECRYPT, true)])
    });
    turn("C_CopyObject turns a wrapping key into a decrypting one", |a, key| {
        a.copy(key, [flag(CKA_WRAP, false), flag(CKA_DECRYPT, true)])
    });
    turn("C_SetAttributeValue gives a wrapping key CKA_DECRYPT too", |a, key| {
        a.set(key, [flag(CKA_DECRYPT, true)])
    });
    t.row(DELAUNE, "C_SetAttributeValue turns a decrypting key into a wrapping one", &[ECB], aes(Wrappable))
        .reads(|a, victim| {
            let key = a.generated(&[CKA_DECRYPT])?;
            let twin = a.copy(key, [])?;
            a.set(key, [flag(CKA_DECRYPT, false), flag(CKA_WRAP, true)])?;
            a.wrap_decrypt(ECB, (key, twin), victim)
        });
    t.row(DELAUNE, "C_SetAttributeValue turns an encrypting key into an unwrapping one", &[ECB], ())
        .accepted(|a, ()| {
            let key = a.generated(&[CKA_ENCRYPT])?;
            let ciphertext = a.encrypted(ECB, key, &KNOWN)?;
            a.set(key, [flag(CKA_ENCRYPT, false), flag(CKA_UNWRAP, true)])?;
            a.unwrapped(ECB, key, &ciphertext, hidden(CKK_AES))
        });
    t.row(CLULOW, "the defaults of C_GenerateKey give a key that wraps and decrypts", &[ECB], aes(Wrappable))
        .reads(|a, victim| {
            let key = a.generate([flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 32)])?;
            a.wrap_decrypt(ECB, (key, key), victim)
        });
    t.row(CLULOW, "the defaults of C_UnwrapKey give a readable key", &[KW], aes(Wrappable)).reads(
        |a, victim| {
            let key = a.generated(&[CKA_WRAP, CKA_UNWRAP])?;
            let wrapped = a.wrapped(KW, key, victim)?;
            a.value(a.unwrapped(KW, key, &wrapped, head(CKO_SECRET_KEY, CKK_GENERIC_SECRET))?)
        },
    );
    t.row(
        CLULOW,
        "the defaults of C_CreateObject give a key that wraps and decrypts",
        &[ECB],
        aes(Wrappable),
    )
    .reads(|a, victim| {
        let key = a.import(head(CKO_SECRET_KEY, CKK_AES).and([bytes(CKA_VALUE, KNOWN)]))?;
        a.wrap_decrypt(ECB, (key, key), victim)
    });
}

/// Attacks in which C_UnwrapKey accepts bytes that C_WrapKey did not produce, or a key that was
/// wrapped before its attributes changed.
fn imports(t: &Table) {
    let both = || wrapping(&[CKA_WRAP, CKA_UNWRAP]);
    let encrypting = || hidden(CKK_AES).able(&[CKA_ENCRYPT]);
    let check = |value: &[u8]| secret(CKK_AES, value, Kept, &[CKA_ENCRYPT]);
    for (with, length) in
        [(ECB, 32), (CKM_AES_CBC, 32), (CKM_AES_CTR, 32), (KW, 40), (CKM_AES_KEY_WRAP_KWP, 40), (GCM, 48)]
    {
        let name = format!("key conjuring: unwrap random bytes with {}", named(with));
        t.row(CLULOW, name, &[with], both()).accepted(move |a, key| {
            let mut random = vec![0; length];
            a.random(&mut random).setup()?;
            a.unwrapped(with, key, &random, encrypting())
        });
    }
    for with in [ECB, CKM_AES_CBC] {
        let name = format!("unwrap the halves of a key, {}", named(with));
        t.row(CLULOW, name, &[with], (both(), aes(Wrappable))).holds(move |a, (wrapping, victim)| {
            let wrapped = a.wrapped(with, wrapping, victim)?;
            let half = a.unwrapped(with, wrapping, &wrapped[..16], encrypting())?;
            a.same(ECB, half, a.import(check(&VICTIM[..16]))?)
        });
    }
    let name = "exchange the blocks of a wrapped key, AES_ECB";
    t.row(CLULOW, name, &[ECB], (both(), aes(Wrappable))).holds(move |a, (wrapping, victim)| {
        let wrapped = a.wrapped(ECB, wrapping, victim)?;
        let made = a.unwrapped(ECB, wrapping, &wrapped[16..].repeat(2), encrypting())?;
        a.same(GCM, made, a.import(check(&VICTIM[16..].repeat(2)))?)
    });
    let name = "unwrap a readable copy of a key that is no longer extractable";
    t.row(DELAUNE, name, &[KW], (both(), aes(Wrappable))).reads(|a, (wrapping, victim)| {
        let wrapped = a.wrapped(KW, wrapping, victim)?;
        a.set(victim, [flag(CKA_EXTRACTABLE, false)])?;
        a.opened(KW, wrapping, &wrapped)
    });
}

/// Attacks that wrap a key under a weaker key (Clulow 2003, "Weaker key").
fn weaker(t: &Table) {
    const DES3: [u8; 24] =
        *b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\x89\xab\xcd\xef\x01\x23\x45\x67";
    let des = secret(CKK_DES3, &DES3, Open, &[CKA_WRAP]);
    for (what, with, own) in [
        ("a triple DES key, DES3_ECB", CKM_DES3_ECB, des.clone()),
        ("a triple DES key, DES3_CBC", CKM_DES3_CBC, des),
        ("RSA with 1024 bits", OAEP, public_rsa(&odd_modulus()[128..], &[1, 0, 1])),
        ("an AES-128 key", KW, secret(CKK_AES, &KNOWN[..16], Open, &[CKA_WRAP])),
    ] {
        t.row(CLULOW, format!("wrap an AES-256 key under {what}"), &[with], aes(Wrappable))
            .accepted(move |a, victim| a.wrapped(with, a.import(&own)?, victim));
    }
}
