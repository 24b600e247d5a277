//! The third review: a wrapped key that another mechanism opens, one value in two objects with two
//! roles, two derivations whose composition is a third one, and Diffie-Hellman in groups with small
//! subgroups.

use cryptoki_sys::*;
use jeton_client::{Mechanism, Structure};

use super::keys::Guarded::{ForTrusted, Kept, Open};
use super::keys::{
    Handle, KNOWN, Pair, Template, VICTIM, aes, base, bytes, ec, flag, head, hidden, hidden_of, known,
    open_of, owner, public_rsa, rsa, secret, victim, wrapping,
};
use super::tools::{ECB, HMAC, KW, KWP, OAEP, With, data, hkdf};
use super::trust::trusted_key;
use super::{Attacker, Setup, Stop, Table, Tried};
use crate::fixture::hex;

const H2: &str = "Third review, H2";
const H3: &str = "Third review, H3";
const H4: &str = "Third review, H4";
const M7: &str = "Third review, M7";
const M12: &str = "Third review, M12";
const M4: &str = "Second review, M4";
const KDF: CK_MECHANISM_TYPE = CKM_HKDF_DERIVE;

pub fn attacks(t: &Table) {
    heads(t);
    unwrapped_roles(t);
    initial_values(t);
    compositions(t);
    derived_roles(t);
    small_subgroups(t);
}

/// What a key makes unreadable, with these usages.
fn protected(usages: &[CK_ATTRIBUTE_TYPE]) -> Template {
    Template::default().guarded(Kept).able(usages)
}

/// Attacks on the hybrid mechanisms: the head of the output is the AES key of the rest.
fn heads(t: &Table) {
    for usages in [&[][..], &[CKA_DECRYPT]] {
        // Another party wraps a key of the token's owner: the head under the public key, and the
        // rest under the AES key.
        let pair = rsa(&[CKA_WRAP], &[CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, protected(usages));
        let given = owner(move |a: &Attacker<'_>| {
            let (public, private) = a.pair(&pair)?;
            let [modulus, exponent] =
                [CKA_MODULUS, CKA_PUBLIC_EXPONENT].map(|number| a.attribute(public, number));
            let public = public_rsa(modulus?, &exponent?).and([flag(CKA_WRAP, false)]).able(&[CKA_ENCRYPT]);
            let aes = a.import(known(&[CKA_ENCRYPT]))?;
            let head = a.encrypted(OAEP, a.import(public)?, &KNOWN)?;
            Ok((private, head, a.encrypted(KWP, aes, &VICTIM)?))
        });
        let name = format!("unwrap the head of a key that RSA_AES_KEY_WRAP wrapped, {} usages", usages.len());
        t.row(H2, name, &[OAEP, KWP, CKM_RSA_AES_KEY_WRAP], given).reads(|a, (private, head, rest)| {
            let aes = hidden(CKK_AES).able(&[CKA_DECRYPT]);
            a.decrypted(KWP, a.unwrapped(OAEP, private, &head, aes)?, &rest)
        });
    }
    let pair = ec(&[CKA_DERIVE], Kept).nested(CKA_UNWRAP_TEMPLATE, protected(&[]));
    let pair =
        Pair { public: pair.public.able(&[CKA_WRAP]), private: pair.private.able(&[CKA_UNWRAP]), ..pair };
    let name = "derive the AES key of a key that ECDH_AES_KEY_WRAP wrapped";
    let needs = [CKM_ECDH_AES_KEY_WRAP, CKM_ECDH1_DERIVE, KWP];
    t.row(H2, name, &needs, (pair, victim(CKK_GENERIC_SECRET, Open, &[CKA_SIGN]))).reads(
        |a, ((public, private), victim)| {
            let wrapped = a.wrapped(CKM_ECDH_AES_KEY_WRAP, public, victim).setup()?;
            let (point, rest) = wrapped.split_at(65);
            let kdf = Structure::new().number(CKD_SHA256_KDF).counted(&[]).counted(point);
            let aes = hidden_of(CKK_AES, 32, &[CKA_DECRYPT]);
            a.decrypted(KWP, a.derived(kdf.mechanism(CKM_ECDH1_DERIVE), private, aes)?, rest)
        },
    );
}

/// Returns HKDF with SHA-256 that only extracts or only expands.
fn step(extract: bool) -> Mechanism {
    let made = Structure::new().flag(extract).flag(!extract).number(CKM_SHA256).number(CKF_HKDF_SALT_NULL);
    made.bytes(&[]).number(0).bytes(&[]).mechanism(KDF)
}

/// Attacks that unwrap a key of the token again, in another role.
fn unwrapped_roles(t: &Table) {
    let trusted = || trusted_key(wrapping(&[CKA_WRAP, CKA_UNWRAP]));
    let base = victim(CKK_GENERIC_SECRET, ForTrusted, &[CKA_DERIVE]);
    let name = "unwrap a key that derives as a key that signs: a signature is a derived key";
    t.row(H3, name, &[KDF, KWP, HMAC, ECB], (trusted(), base)).holds(|a, (by, victim)| {
        let derived = a.derived(step(false), victim, hidden_of(CKK_AES, 32, &[CKA_ENCRYPT]))?;
        let signs = head(CKO_SECRET_KEY, CKK_GENERIC_SECRET).able(&[CKA_SIGN]);
        let signs = a.unwrapped(KWP, by, &a.wrapped(KWP, by, victim)?, signs)?;
        let value = a.signed(HMAC, signs, &[1])?;
        a.same(ECB, derived, a.import(secret(CKK_AES, &value, Open, &[CKA_ENCRYPT]))?)
    });
    let other = trusted_key(secret(CKK_AES, &[0x43; 32], ForTrusted, &[CKA_WRAP]));
    let name = "unwrap a trusted wrapping key as a key that decrypts";
    t.row(H3, name, &[KWP], ((trusted(), other), aes(ForTrusted))).reads(|a, ((by, other), victim)| {
        let opens = head(CKO_SECRET_KEY, CKK_AES).able(&[CKA_DECRYPT]);
        let opens = a.unwrapped(KWP, by, &a.wrapped(KWP, by, other)?, opens)?;
        a.decrypted(KWP, opens, &a.wrapped(KWP, other, victim)?)
    });
}

/// Attacks that wrap with KW under the initial value of KWP, which makes a padding oracle.
fn initial_values(t: &Table) {
    let keys = || {
        let by = wrapping(&[CKA_WRAP, CKA_UNWRAP]).nested(CKA_UNWRAP_TEMPLATE, protected(&[]));
        (trusted_key(by), victim(CKK_GENERIC_SECRET, ForTrusted, &[CKA_DERIVE]))
    };
    let own = |value: &[u8]| Mechanism::with_bytes(KW, value);
    let name = "read the last byte of a masked key by KW under the initial value of KWP";
    t.row(H4, name, &[KW, KWP, CKM_XOR_BASE_AND_DATA], keys()).holds(move |a, (by, victim)| {
        let mut mask = [0; 32];
        let is_zero = |guess| {
            mask[31] = guess;
            let masked = head(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
            let masked = a.derived(data(CKM_XOR_BASE_AND_DATA, &mask), victim, masked)?;
            let wrapped = a.wrapped(own(&[0xa6, 0x59, 0x59, 0xa6, 0, 0, 0, 31]), by, masked)?;
            Ok::<_, Stop>(a.unwrapped(KWP, by, &wrapped, head(CKO_SECRET_KEY, CKK_GENERIC_SECRET)).is_ok())
        };
        let found: Tried<Vec<bool>> = (0..=u8::MAX).map(is_zero).collect();
        Ok(found?.iter().position(|zero| *zero) == Some(VICTIM[31].into()))
    });
    for (name, wraps, unwraps) in [
        ("KW under the initial value of KWP", own(&[0xa6, 0x59, 0x59, 0xa6, 0, 0, 0, 32]), KWP.mechanism()),
        ("KWP under the initial value of KW", Mechanism::with_bytes(KWP, &[0xa6; 4]), KWP.mechanism()),
    ] {
        let name = format!("wrap a key that only trusted keys wrap with {name}");
        t.row(H4, name, &[KW, KWP], keys()).accepted(move |a, (by, victim)| {
            let wrapped = a.wrapped(&wraps, by, victim)?;
            let made = head(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
            a.unwrapped(&unwraps, by, &wrapped, made.clone())
                .or_else(|_| a.unwrapped(&wraps, by, &wrapped, made))
        });
    }
    let name = "a masked key comes back from unwrapping without its mark";
    t.row(H4, name, &[KWP, CKM_XOR_BASE_AND_DATA], keys()).accepted(|a, (by, victim)| {
        let made = || head(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let masked = a.derived(data(CKM_XOR_BASE_AND_DATA, &[1; 32]), victim, made())?;
        a.unwrapped(KWP, by, &a.wrapped(KWP, by, masked)?, made())
    });
}

/// Attacks that derive in two steps what a template hides in one.
fn compositions(t: &Table) {
    let hides = || base().nested(CKA_DERIVE_TEMPLATE, protected(&[]));
    let name = "HKDF in two steps: extract to a hidden key, expand to a readable one";
    t.row(M7, name, &[KDF, ECB], hides()).holds(|a, victim| {
        let hidden_result = a.derived(hkdf(KDF, true, CKF_HKDF_SALT_NULL, Handle(0)), victim, {
            hidden_of(CKK_AES, 32, &[CKA_ENCRYPT])
        })?;
        let middle = a.derived(step(true), victim, hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_DERIVE]))?;
        let value = a.value(a.derived(step(false), middle, open_of(CKK_GENERIC_SECRET, 32))?)?;
        a.same(ECB, hidden_result, a.import(secret(CKK_AES, &value, Open, &[CKA_ENCRYPT]))?)
    });
}

/// Attacks that derive one value twice, in two roles.
fn derived_roles(t: &Table) {
    const BY_CIPHER: CK_MECHANISM_TYPE = CKM_AES_ECB_ENCRYPT_DATA;
    let name = "derive one value twice, to derive and to encipher: a ciphertext is a derived key";
    t.row(M4, name, &[KDF, BY_CIPHER, ECB], base()).holds(|a, victim| {
        let derived = |usage| a.derived(KDF, victim, hidden_of(CKK_AES, 32, &[usage]));
        let block = data(BY_CIPHER, &[7; 16]);
        let key = a.derived(block, derived(CKA_DERIVE)?, hidden_of(CKK_AES, 16, &[CKA_ENCRYPT]))?;
        let value = a.encrypted(ECB, derived(CKA_ENCRYPT)?, &[7; 16])?;
        a.same(ECB, key, a.import(secret(CKK_AES, &value, Open, &[CKA_ENCRYPT]))?)
    });
    let name = "derive one value twice, to derive and to sign: a signature is a derived key";
    t.row(M4, name, &[KDF, HMAC, ECB], base()).holds(|a, victim| {
        let derived = |usage| a.derived(KDF, victim, hidden_of(CKK_GENERIC_SECRET, 32, &[usage]));
        let key = a.derived(step(false), derived(CKA_DERIVE)?, hidden_of(CKK_AES, 32, &[CKA_ENCRYPT]))?;
        let value = a.signed(HMAC, derived(CKA_SIGN)?, &[1])?;
        a.same(ECB, key, a.import(secret(CKK_AES, &value, Open, &[CKA_ENCRYPT]))?)
    });
}

/// Attacks with a peer of order 7, in a group of 2048 bits whose prime minus 1 has the factors 7,
/// 13 and 2549.
fn small_subgroups(t: &Table) {
    let group = || [bytes(CKA_PRIME, hex(PRIME)), bytes(CKA_BASE, [3])];
    let key = || Pair::of(CKM_DH_PKCS_KEY_PAIR_GEN, group(), [flag(CKA_DERIVE, true)]);
    let with = Mechanism::with_bytes(CKM_DH_PKCS_DERIVE, &hex(ORDER_7));
    let name = "Diffie-Hellman with a public value of order 7";
    t.row(M12, name, &[CKM_DH_PKCS_DERIVE], key().and([flag(CKA_SENSITIVE, true)]))
        .accepted(move |a, (_, key)| a.derived(&with, key, hidden_of(CKK_GENERIC_SECRET, 32, &[CKA_DERIVE])));
}

const PRIME: &str = "e1105c790e4ee3790f4a1ab88537bb98728ad66561d1cbf9dec5806133a8679955801bd404cf7ee976f57c4ec8402d76\
     8614529d016186f48519b98292461f0d2b3c7c90af9b3b0600fe6477c01a87e8efff0a947785896fdae9a4c5517b691a\
     9e8d0b7c9d6fefca08d81ae47b65a09b8d5e1bed409635576d2ac9ab50dbbb7c9f44a6f34059bb56b3cfecbcd70abbdd\
     a150f54ad63397ae3309253cc92e0a86ab33ec49584d8513d8f80d01853de5f59e6b1bdf7c0697ce8ac6ec4e27fb63db\
     90e3f7b48acff8cdc5873d3c195dbfcca084449420120dd63b456ae0fc94b5336abf7c564e18847bf6d623421a8ce481\
     ae3e179be34a2079964bc9372740f36b";
const ORDER_7: &str = "0e80a952ed96387035ed0ba11b8c4744a03173ee58c4ce87550460e55c164a8ec66adfd3321d8964a74a2eac8e9c6d13\
     87fa3c7710b853c2d91cea2ef6122ffff9bcfa1f70d52750a048d0ac7ae7460e713383f1670cccc8f7bf927ba828741d\
     5c082207864238df543450ccdaa2f57f0a744b23d03fd576c34284653e3bdb1651439d21ce28e8c170880b64277d8ef9\
     eab480ac9c164cac0786dca43d99aa64097451ebed24f83485becea278503a4be2af677d4824bc34456a1ffa572f35f0\
     901210b3e2788761449b7786d4885c209376d5693e64316691d839e7121149f6024fa3cd3ec0fc832edc468f7734b616\
     be1f64c72f7b901fada54d5eafa301c9";
