//! Finding H2 of docs/findings.md: a private key with `CKA_ALWAYS_AUTHENTICATE` is used without its
//! PIN, or a usage that the owner refused is available through another function.

use cryptoki_sys::*;
use jeton_client::{Arg, User};

use super::keys::Guarded::{Kept, Open, Wrappable};
use super::keys::{
    Handle, Handles, Pair, Template, bytes, ec, flag, kem, mac_key, number, open_of, owner, rsa, secret,
    victim,
};
use super::tools::{HMAC, OAEP, RAW, With, ecdh, named};
use super::{Attacker, Setup, Table, Tried};
use crate::fixture::{P256, X25519};

const H2: &str = "Review, H2";
const SECRET: &[u8; 32] = b"what was encrypted for the owner";
const MESSAGE: &[u8] = b"a message that the owner never signed";
const RSA_SHA256: CK_MECHANISM_TYPE = CKM_SHA256_RSA_PKCS;

pub fn attacks(t: &Table) {
    OWNERS.into_iter().for_each(|owned| around(t, owned));
    pins(t);
    agreements(t);
    refusals(t);
}

impl Attacker<'_> {
    /// Signs [`MESSAGE`] by unwrapping or decrypting its padded digest. Returns whether the public
    /// key verifies the result.
    fn forged(&self, public: Handle, raw: impl Fn(&[u8]) -> Tried<Vec<u8>>) -> Tried<bool> {
        self.verifies(RSA_SHA256, public, MESSAGE, &raw(&self.padded()?)?)
    }

    /// Returns the EMSA-PKCS1-v1_5 encoding of [`MESSAGE`] with SHA-256 for 2048 bits (RFC 8017,
    /// 9.2).
    fn padded(&self) -> Tried<Vec<u8>> {
        const PREFIX: [u8; 19] =
            [0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];
        let digest = self.digested(CKM_SHA256, MESSAGE).setup()?;
        Ok([&[0, 1][..], &[0xff; 202], &[0], &PREFIX, &digest].concat())
    }

    fn ciphertext(&self, with: CK_MECHANISM_TYPE, public: Handle) -> Tried<Vec<u8>> {
        self.encrypted(with, public, SECRET).setup()
    }

    /// Starts a signature and gives the PIN. These are steps of the owner.
    fn start_with_pin(&self, with: CK_MECHANISM_TYPE, key: Handle) -> Tried<()> {
        self.sign_init(&with.mechanism(), key).setup()?;
        self.give_pin()
    }

    fn sign_message(&self, message: &[u8]) -> Tried<Vec<u8>> {
        self.output("C_SignMessage", vec![Arg::NullBytes(0), Arg::Bytes(message)])
    }
}

/// The words that describe the RSA key in the names of attacks, the usages of the key, and more
/// attributes that the owner chose.
type Owned = (&'static str, &'static [CK_ATTRIBUTE_TYPE], &'static [(CK_ATTRIBUTE_TYPE, bool)]);
const ONLY_UNWRAPS: &str = "that may only unwrap, with CKA_ALWAYS_AUTHENTICATE";
const CAREFUL: &[(CK_ATTRIBUTE_TYPE, bool)] = &[(CKA_ALWAYS_AUTHENTICATE, true)];
const NO_DECRYPT: &[(CK_ATTRIBUTE_TYPE, bool)] = &[(CKA_SIGN, true), (CKA_DECRYPT, false)];
const OWNERS: [Owned; 4] = [
    ("with CKA_ALWAYS_AUTHENTICATE", &[CKA_SIGN, CKA_DECRYPT, CKA_UNWRAP, CKA_SIGN_RECOVER], CAREFUL),
    (ONLY_UNWRAPS, &[CKA_UNWRAP], CAREFUL),
    ("with only CKA_SIGN and CKA_DECRYPT=false in its template", &[], NO_DECRYPT),
    ("that may only sign", &[CKA_SIGN], &[]),
];

/// Attacks that use this RSA key through a function that the owner did not think of.
fn around(t: &Table, (what, usages, more): Owned) {
    let row = |how: &str, with| {
        let key = owner(move |a| owned(a, usages, more));
        t.row(H2, format!("{how}, RSA key {what}"), &[with], key)
    };
    row("forge a signature by unwrapping RSA_X_509", RAW)
        .holds(|a, (public, private)| a.forged(public, |block| a.opened(RAW, private, block)));
    for with in [CKM_RSA_PKCS, OAEP] {
        let name = named(with);
        row(&format!("decrypt by unwrapping {name}"), with).yields(SECRET, move |a, (public, private)| {
            a.opened(with, private, &a.ciphertext(with, public)?)
        });
        if what != ONLY_UNWRAPS {
            row(&format!("decrypt {name}"), with).yields(SECRET, move |a, (public, private)| {
                a.decrypted(with, private, &a.ciphertext(with, public)?)
            });
        }
    }
    row("unwrap RSA_AES_KEY_WRAP", CKM_RSA_AES_KEY_WRAP).yields(SECRET, |a, (public, private)| {
        let victim = a.import(wrappable_secret()).setup()?;
        let wrapped = a.wrapped(CKM_RSA_AES_KEY_WRAP, public, victim)?;
        a.opened(CKM_RSA_AES_KEY_WRAP, private, &wrapped)
    });
    row("decrypt without padding", RAW)
        .holds(|a, (public, private)| a.forged(public, |block| a.decrypted(RAW, private, block)));
}

/// Creates an RSA pair with these usages only, and the attributes in `more`. Without usages, the
/// usages that `more` omits have their defaults.
fn owned(
    a: &Attacker<'_>,
    usages: &[CK_ATTRIBUTE_TYPE],
    more: &[(CK_ATTRIBUTE_TYPE, bool)],
) -> Tried<Handles> {
    let more = || more.iter().map(|(kind, value)| flag(*kind, *value));
    if usages.is_empty() {
        let public = [number(CKA_MODULUS_BITS, 2048), bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])];
        let pair = Pair::of(CKM_RSA_PKCS_KEY_PAIR_GEN, public, []);
        let public = pair.public.able(&[CKA_VERIFY, CKA_ENCRYPT, CKA_WRAP]);
        return a.pair(&Pair { public, private: pair.private.guarded(Kept).and(more()), ..pair });
    }
    // If the policy excludes some combinations, the owner takes only the first usage.
    a.pair(&rsa(&[CKA_ENCRYPT, CKA_VERIFY, CKA_WRAP], usages).and(more()))
        .or_else(|_| a.pair(&rsa(&[CKA_VERIFY, CKA_ENCRYPT], &usages[..1]).and(more())))
}

/// Describes an HMAC key with the value [`SECRET`].
fn wrappable_secret() -> Template {
    secret(CKK_GENERIC_SECRET, SECRET, Wrappable, &[CKA_SIGN])
}

/// Describes an EC pair that needs its PIN for each use.
fn careful(usage: CK_ATTRIBUTE_TYPE) -> Pair {
    ec(&[usage], Kept).careful()
}

/// Attacks on the context-specific login. Each operation must need a login of its own, in the same
/// session.
fn pins(t: &Table) {
    const ECDSA: CK_MECHANISM_TYPE = CKM_ECDSA;
    const HASHING: CK_MECHANISM_TYPE = CKM_ECDSA_SHA256;
    const FORGED: [u8; 32] = [7; 32];
    let sign = |how: &str, with| t.row(H2, format!("sign {how}"), &[with], careful(CKA_SIGN));
    sign("without the PIN of the key", ECDSA).holds(|a, pair| a.forges(ECDSA, pair, &FORGED));
    sign("twice with one PIN of the key", ECDSA).holds(|a, pair| {
        a.start_with_pin(ECDSA, pair.1)?;
        a.transform("C_Sign", &[1; 32]).setup()?;
        a.forges(ECDSA, pair, &FORGED)
    });
    sign("in one session with the PIN that was given in another", ECDSA).holds(|a, pair| {
        let other = a.another().setup()?;
        other.start_with_pin(ECDSA, pair.1)?;
        a.forges(ECDSA, pair, &FORGED)
    });
    let two = (careful(CKA_SIGN), careful(CKA_SIGN));
    t.row(H2, "sign with a second key after the PIN of the first", &[ECDSA], two).holds(
        |a, ((_, first), second)| {
            a.start_with_pin(ECDSA, first)?;
            // This call ends the first operation.
            a.transform("C_Sign", &[1; 32]).setup()?;
            a.forges(ECDSA, second, &FORGED)
        },
    );
    sign("with a wrong PIN of the key", ECDSA).holds(|a, (public, key)| {
        a.sign_init(&ECDSA.mechanism(), key).setup()?;
        let _ = a.login(User::ContextSpecific, Some("not the PIN of it"));
        let signed = a.transform("C_Sign", &FORGED);
        // The right PIN resets the count of wrong PINs.
        let _ = a.start_with_pin(ECDSA, key);
        a.verifies(ECDSA, public, &FORGED, &signed?)
    });
    sign("with the login of the user in place of the PIN of the key", ECDSA).holds(|a, (public, key)| {
        a.sign_init(&ECDSA.mechanism(), key).setup()?;
        let _ = a.login(User::User, Some(&a.fixture.pin));
        a.verifies(ECDSA, public, &FORGED, &a.transform("C_Sign", &FORGED)?)
    });
    sign("messages without the PIN of the key", ECDSA).holds(|a, (public, key)| {
        a.init("C_MessageSignInit", ECDSA, key)?;
        a.verifies(ECDSA, public, &FORGED, &a.sign_message(&FORGED)?)
    });
    sign("two messages with one PIN of the key", ECDSA).holds(|a, (public, key)| {
        a.init("C_MessageSignInit", ECDSA, key)?;
        a.give_pin()?;
        a.sign_message(&[1; 32])?;
        a.verifies(ECDSA, public, &FORGED, &a.sign_message(&FORGED)?)
    });
    sign("in parts without the PIN of the key", HASHING).holds(|a, (public, key)| {
        a.init("C_SignInit", HASHING, key)?;
        a.sign_update(MESSAGE)?;
        a.verifies(HASHING, public, MESSAGE, &a.output("C_SignFinal", vec![])?)
    });
    let recovering = rsa(&[CKA_VERIFY], &[CKA_SIGN_RECOVER]).careful();
    t.row(H2, "sign with recovery without the PIN of the key", &[CKM_RSA_PKCS], recovering)
        .holds(recovery_forges);
    sign("by an operation state that was saved with the PIN", HASHING).holds(|a, (public, key)| {
        a.start_with_pin(HASHING, key)?;
        let state = a.output("C_GetOperationState", vec![])?;
        let sign_again = || {
            let other = a.another().setup()?;
            let arguments = vec![Arg::Bytes(&state), Arg::Number(0), Arg::Number(key.0)];
            other.call("C_SetOperationState", arguments)?;
            other.transform("C_Sign", MESSAGE)
        };
        sign_again()?;
        a.verifies(HASHING, public, MESSAGE, &sign_again()?)
    });
    for (name, generate, with, set) in [
        ("ML-DSA", CKM_ML_DSA_KEY_PAIR_GEN, CKM_ML_DSA, CKP_ML_DSA_44),
        ("SLH-DSA", CKM_SLH_DSA_KEY_PAIR_GEN, CKM_SLH_DSA, CKP_SLH_DSA_SHA2_128F),
    ] {
        let public = [number(CKA_PARAMETER_SET, set), flag(CKA_VERIFY, true)];
        let pair = Pair::of(generate, public, [flag(CKA_SIGN, true)]).careful();
        t.row(H2, format!("sign without the PIN of the key, {name}"), &[generate, with], pair)
            .holds(move |a, pair| a.forges(with, pair, MESSAGE));
    }
}

/// Signs by `C_SignRecover`. Returns whether the public key verifies the signature.
fn recovery_forges(a: &Attacker<'_>, (public, private): Handles) -> Tried<bool> {
    a.init("C_SignRecoverInit", CKM_RSA_PKCS, private)?;
    a.verifies(CKM_RSA_PKCS, public, &[7; 32], &a.transform("C_SignRecover", &[7; 32])?)
}

/// Attacks that use key agreement, key encapsulation or a copy of a key that needs its PIN.
fn agreements(t: &Table) {
    const ECDH: CK_MECHANISM_TYPE = CKM_ECDH1_DERIVE;
    let deriving = || careful(CKA_DERIVE);
    t.row(H2, "ECDH without the PIN of the key", &[ECDH], deriving()).holds(|a, (public, key)| {
        let (theirs, own) = a.pair(&ec(&[CKA_DERIVE], Open))?;
        let shared = |public, key| a.derived(ecdh(&a.point(public)?), key, open_of(CKK_GENERIC_SECRET, 32));
        let (ours, check) = (shared(theirs, key)?, shared(public, own)?);
        Ok(a.value(ours)? == a.value(check)?)
    });
    let name = "ECDH with a hidden result without the PIN of the key";
    t.row(H2, name, &[ECDH], deriving()).accepted(|a, (_, key)| {
        let (theirs, _) = a.pair(&ec(&[CKA_DERIVE], Kept))?;
        a.derived(ecdh(&a.point(theirs)?), key, mac_key())
    });
    t.row(H2, "ML-KEM without the PIN of the key", &[CKM_ML_KEM], kem().careful())
        .accepted(|a, pair| a.decapsulates(pair, mac_key(), mac_key()));
    let curve = [bytes(CKA_EC_PARAMS, X25519)];
    let pair = Pair::of(CKM_EC_MONTGOMERY_KEY_PAIR_GEN, curve, [flag(CKA_DERIVE, true)]).careful();
    t.row(H2, "X25519 without the PIN of the key", &[CKM_EC_MONTGOMERY_KEY_PAIR_GEN], pair)
        .accepted(|a, (theirs, key)| a.derived(ecdh(&a.point(theirs)?), key, mac_key()));
    let public = [bytes(CKA_EC_PARAMS, P256), flag(CKA_WRAP, true)];
    let pair = Pair::of(CKM_EC_KEY_PAIR_GEN, public, [flag(CKA_UNWRAP, true)]).careful();
    let (name, with) = ("ECDH_AES_KEY_WRAP without the PIN of the key", CKM_ECDH_AES_KEY_WRAP);
    t.row(H2, name, &[with], (pair, wrappable_secret())).yields(SECRET, move |a, ((public, key), victim)| {
        a.opened(with, key, &a.wrapped(with, public, victim)?)
    });
    let name = "use a copy of a key with CKA_ALWAYS_AUTHENTICATE without the PIN";
    t.row(H2, name, &[CKM_ECDSA], careful(CKA_SIGN))
        .holds(|a, (public, key)| a.forges(CKM_ECDSA, (public, a.copy(key, [])?), &[7; 32]));
}

/// Attacks that obtain a usage which the template refused, through a related usage or a change of
/// the key.
fn refusals(t: &Table) {
    let verifying = |usage| rsa(&[CKA_VERIFY], &[usage]);
    let pair = |usage| rsa(&[CKA_VERIFY, CKA_ENCRYPT], &[usage]);
    t.row(H2, "forge with a key that may only unwrap, RSA_X_509", &[RAW], verifying(CKA_UNWRAP))
        .holds(|a, (public, key)| a.forged(public, |block| a.opened(RAW, key, block)));
    t.row(H2, "forge with a key that may only decrypt, RSA_X_509", &[RAW], verifying(CKA_DECRYPT))
        .holds(|a, (public, key)| a.forged(public, |block| a.decrypted(RAW, key, block)));
    let name = "decrypt with a key that may only sign, RSA_X_509";
    t.row(H2, name, &[RAW], pair(CKA_SIGN)).holds(|a, (public, key)| {
        Ok(a.signed(RAW, key, &a.ciphertext(CKM_RSA_PKCS, public)?)?.ends_with(SECRET))
    });
    let name = "forge by C_SignRecover with a key with only CKA_SIGN=false in its template";
    let key = owner(|a| owned(a, &[], &[(CKA_SIGN, false)]));
    t.row(H2, name, &[CKM_RSA_PKCS], key).holds(recovery_forges);
    let name = "C_SetAttributeValue gives a signing RSA key CKA_DECRYPT";
    t.row(H2, name, &[OAEP], pair(CKA_SIGN)).yields(SECRET, |a, (public, key)| {
        let ciphertext = a.ciphertext(OAEP, public)?;
        a.decrypted(OAEP, a.set(key, [flag(CKA_DECRYPT, true)])?, &ciphertext)
    });
    let name = "C_CopyObject gives a signing RSA key CKA_UNWRAP";
    t.row(H2, name, &[OAEP], pair(CKA_SIGN)).yields(SECRET, |a, (public, key)| {
        let ciphertext = a.ciphertext(OAEP, public)?;
        a.opened(OAEP, a.copy(key, [flag(CKA_UNWRAP, true)])?, &ciphertext)
    });
    let name = "C_CopyObject gives a decrypting RSA key CKA_SIGN";
    t.row(H2, name, &[RSA_SHA256], pair(CKA_DECRYPT)).holds(|a, (public, key)| {
        a.forges(RSA_SHA256, (public, a.copy(key, [flag(CKA_SIGN, true)])?), MESSAGE)
    });
    let verifying = victim(CKK_GENERIC_SECRET, Kept, &[CKA_VERIFY]);
    t.row(H2, "C_SetAttributeValue gives a verifying HMAC key CKA_SIGN", &[HMAC], verifying).holds(
        |a, key| {
            let key = a.set(key, [flag(CKA_SIGN, true)])?;
            a.forges(HMAC, (key, key), MESSAGE)
        },
    );
}
