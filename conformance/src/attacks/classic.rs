//! Attacks on the roles of keys. Clulow 2003; Delaune, Kremer, Steel 2008 ("Formal analysis of
//! PKCS#11"); Bortolozzo, Centenaro, Focardi, Steel 2010. In most attacks the victim is
//! extractable, and the attacker creates the wrapping key.

use cryptoki_sys::*;
use jeton_client::{Attribute, Failure, Mechanism, ObjectHandle, Structure};

use super::tools::{Guarded, KNOWN, USAGES, VICTIM, gcm, head, named, oaep, readable, said, wrapper};
use super::{Attack, Attacker, Attempt, Setup, Stop, attack, flag, mechanism};

const CLULOW: &str = "Clulow 2003";
const DELAUNE: &str = "Delaune, Kremer, Steel 2008";
const A1: &str = "Bortolozzo et al. 2010, a1";
const A2: &str = "Bortolozzo et al. 2010, a2";

pub fn attacks() -> Vec<Attack> {
    let mut all = wrap_decrypt();
    all.extend(asymmetric());
    all.extend(over_time());
    all.extend(imports());
    all.extend(weaker());
    all
}

/// Generates an AES key of the attacker with these usages. The attacker does not know its value.
fn generated(a: &Attacker<'_>, usages: &[CK_ATTRIBUTE_TYPE]) -> Result<ObjectHandle, Failure> {
    let mut template = vec![flag(CKA_TOKEN, false), Attribute::number(CKA_VALUE_LEN, 32)];
    template.extend(Guarded::Wrappable.attributes());
    template.extend(said(&USAGES, usages));
    a.generate_key(&mechanism(CKM_AES_KEY_GEN), &template)
}

/// Attacks with secret keys. Most of them wrap the victim and then decrypt or unwrap the result.
/// The others wrap the victim with a key that the attacker knows.
fn wrap_decrypt() -> Vec<Attack> {
    const MODES: [CK_MECHANISM_TYPE; 8] = [
        CKM_AES_ECB,
        CKM_AES_CBC,
        CKM_AES_CBC_PAD,
        CKM_AES_CTR,
        CKM_AES_GCM,
        CKM_AES_KEY_WRAP,
        CKM_AES_KEY_WRAP_KWP,
        CKM_AES_KEY_WRAP_PAD,
    ];
    let mut all = Vec::new();
    for mode in MODES {
        for (kind, name) in [
            (CKK_AES, "AES"),
            (CKK_GENERIC_SECRET, "generic"),
            (CKK_SHA256_HMAC, "HMAC"),
            (CKK_CHACHA20, "ChaCha20"),
        ] {
            let title = format!("wrap and decrypt with one {} key, victim: {name} key", named(mode));
            all.push(attack(A1, title, &[mode], move |a| {
                let victim = a.victim(kind, Guarded::Wrappable, &[usage_of(kind)])?;
                let key = generated(a, &[CKA_WRAP, CKA_DECRYPT])?;
                let wrapped = a.wrapped(&wrapper(mode), key, victim)?;
                Ok(a.decrypted(&wrapper(mode), key, &wrapped)? == VICTIM)
            }));
        }
        let title = format!("wrap and decrypt with one {} key, victim: EC key", named(mode));
        all.push(attack(A1, title, &[mode, CKM_EC_KEY_PAIR_GEN], move |a| {
            let (_, victim) = a.ec(&[CKA_SIGN], Guarded::Wrappable, &[]).setup()?;
            let key = generated(a, &[CKA_WRAP, CKA_DECRYPT])?;
            let wrapped = a.wrapped(&wrapper(mode), key, victim)?;
            let plain = a.decrypted(&wrapper(mode), key, &wrapped)?;
            // PKCS #8 as plaintext contains the algorithm id-ecPublicKey.
            Ok(plain.windows(7).any(|part| part == [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1]))
        }));
        let title = format!("wrap and unwrap readably with one {} key", named(mode));
        all.push(attack(DELAUNE, title, &[mode], move |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let key = generated(a, &[CKA_WRAP, CKA_UNWRAP])?;
            let wrapped = a.wrapped(&wrapper(mode), key, victim)?;
            let made = a.unwrap_key(&wrapper(mode), key, &wrapped, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)? == VICTIM)
        }));
        let title = format!("import a known wrapping key by encrypting and unwrapping, {}", named(mode));
        all.push(attack(DELAUNE, title, &[mode], move |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let key = generated(a, &[CKA_ENCRYPT, CKA_UNWRAP])?;
            let ciphertext = a.encrypted(&wrapper(mode), key, &KNOWN)?;
            let mut template = [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat();
            template.push(flag(CKA_WRAP, true));
            let trojan = a.unwrap_key(&wrapper(mode), key, &ciphertext, &template)?;
            let wrapped = a.wrapped(&mechanism(CKM_AES_KEY_WRAP), trojan, victim)?;
            Ok(a.is_victim_under_known(&mechanism(CKM_AES_KEY_WRAP), &wrapped)?)
        }));
    }
    all.push(attack(DELAUNE, "wrap a key with itself and unwrap it readably", &[CKM_AES_KEY_WRAP], |a| {
        let with = mechanism(CKM_AES_KEY_WRAP);
        let key = a.secret(CKK_AES, &VICTIM, Guarded::Wrappable, &[CKA_WRAP, CKA_UNWRAP], &[])?;
        let wrapped = a.wrapped(&with, key, key)?;
        let made = a.unwrap_key(&with, key, &wrapped, &readable(CKK_GENERIC_SECRET))?;
        Ok(a.value(made)? == VICTIM)
    }));
    all.push(attack(
        DELAUNE,
        "unwrap one key twice, for wrapping and for decryption",
        &[CKM_AES_KEY_WRAP, CKM_AES_ECB],
        |a| {
            let with = mechanism(CKM_AES_KEY_WRAP);
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let (outer, inner) = (generated(a, &[CKA_WRAP, CKA_UNWRAP])?, generated(a, &[CKA_ENCRYPT])?);
            let wrapped = a.wrapped(&with, outer, inner)?;
            let twin = |usage| {
                let mut template = [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat();
                template.extend(said(&USAGES, &[usage]));
                a.unwrap_key(&with, outer, &wrapped, &template)
            };
            let (wraps, decrypts) = (twin(CKA_WRAP)?, twin(CKA_DECRYPT)?);
            let stolen = a.wrapped(&mechanism(CKM_AES_ECB), wraps, victim)?;
            Ok(a.decrypted(&mechanism(CKM_AES_ECB), decrypts, &stolen)? == VICTIM)
        },
    ));
    all.push(attack(
        A1,
        "wrap with C_WrapKeyAuthenticated and decrypt with one AES_GCM key",
        &[CKM_AES_GCM],
        |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let key = generated(a, &[CKA_WRAP, CKA_DECRYPT])?;
            let wrapped = authenticated(a, key, victim)?;
            // C_WrapKeyAuthenticated writes the tag to the parameter. AES-CTR with a counter that
            // starts at 2 decrypts the wrapped key.
            let counter = [&[0; 12][..], &[0, 0, 0, 2]].concat();
            let with = Structure::new().number(32).inline(&counter).mechanism(CKM_AES_CTR);
            Ok(a.decrypted(&with, key, &wrapped)?.starts_with(&VICTIM))
        },
    ));
    all.push(attack(CLULOW, "wrap with a key that the attacker imported", &[CKM_AES_KEY_WRAP], |a| {
        let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
        let with = mechanism(CKM_AES_KEY_WRAP);
        let wrapped = a.wrapped(&with, a.known(&[CKA_WRAP])?, victim)?;
        Ok(a.is_victim_under_known(&with, &wrapped)?)
    }));
    all
}

fn authenticated(a: &Attacker<'_>, key: ObjectHandle, victim: ObjectHandle) -> Result<Vec<u8>, Failure> {
    use jeton_client::{Arg, Memory};
    let (nonce, tag) = (Memory::of(&[0; 12]), Memory::of(&[0; 16]));
    let parameter = Structure::new().pointer(&nonce).number(12).number(0).number(CKG_NO_GENERATE);
    let with = parameter.pointer(&tag).number(128).mechanism(CKM_AES_GCM);
    let (mut out, mut length) = (vec![0; 256], 256);
    let arguments = vec![
        Arg::Mechanism(&with),
        Arg::Number(key.0),
        Arg::Number(victim.0),
        Arg::Bytes(b""),
        Arg::Buffer(&mut out, &mut length),
    ];
    a.fixture.call("C_WrapKeyAuthenticated", a, arguments)?;
    out.truncate(length as usize);
    Ok(out)
}

const fn usage_of(kind: CK_KEY_TYPE) -> CK_ATTRIBUTE_TYPE {
    match kind {
        CKK_AES | CKK_CHACHA20 => CKA_ENCRYPT,
        _ => CKA_SIGN,
    }
}

/// Attacks with an RSA pair. Its public key wraps the victim or encrypts a known wrapping key.
fn asymmetric() -> Vec<Attack> {
    let mut all = Vec::new();
    for with in [CKM_RSA_PKCS, CKM_RSA_PKCS_OAEP, CKM_RSA_X_509] {
        for kind in [CKK_AES, CKK_GENERIC_SECRET] {
            let title = format!("wrap and decrypt with one RSA pair, {}, key type {kind:#x}", named(with));
            all.push(attack(A2, title, &[with], move |a| {
                let victim = a.victim(kind, Guarded::Wrappable, &[usage_of(kind)])?;
                let (public, private) = a.rsa(&[CKA_WRAP], &[CKA_DECRYPT], &[])?;
                let wrapped = a.wrapped(&wrapper(with), public, victim)?;
                Ok(a.decrypted(&wrapper(with), private, &wrapped)?.ends_with(&VICTIM))
            }));
        }
        let title = format!("wrap and unwrap readably with one RSA pair, {}", named(with));
        all.push(attack(A2, title, &[with], move |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let (public, private) = a.rsa(&[CKA_WRAP], &[CKA_UNWRAP], &[])?;
            let wrapped = a.wrapped(&wrapper(with), public, victim)?;
            let made = a.unwrap_key(&wrapper(with), private, &wrapped, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)?.ends_with(&VICTIM))
        }));
        let title = format!("Trojan key: encrypt a known wrapping key and unwrap it, {}", named(with));
        all.push(attack(CLULOW, title, &[with], move |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let (public, private) = a.rsa(&[CKA_ENCRYPT], &[CKA_UNWRAP], &[])?;
            let ciphertext = a.encrypted(&wrapper(with), public, &KNOWN)?;
            let mut template = [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat();
            template.push(flag(CKA_WRAP, true));
            if with == CKM_RSA_X_509 {
                template.push(Attribute::number(CKA_VALUE_LEN, 32));
            }
            let trojan = a.unwrap_key(&wrapper(with), private, &ciphertext, &template)?;
            let wrapped = a.wrapped(&mechanism(CKM_AES_KEY_WRAP), trojan, victim)?;
            Ok(a.is_victim_under_known(&mechanism(CKM_AES_KEY_WRAP), &wrapped)?)
        }));
    }
    all.push(attack(
        CLULOW,
        "wrap with a public key that the attacker imported",
        &[CKM_RSA_PKCS_OAEP],
        |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            // A real attacker generates the pair outside the token. This test generates it in the
            // token and imports a copy of the public key.
            let (public, private) = a.rsa(&[CKA_ENCRYPT], &[CKA_DECRYPT], &[]).setup()?;
            let template = [
                Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY),
                Attribute::number(CKA_KEY_TYPE, CKK_RSA),
                flag(CKA_TOKEN, false),
                Attribute::bytes(CKA_MODULUS, a.attribute(public, CKA_MODULUS).setup()?),
                Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
                flag(CKA_WRAP, true),
            ];
            let own = a.create_object(&template)?;
            let wrapped = a.wrapped(&oaep(), own, victim)?;
            Ok(a.decrypted(&oaep(), private, &wrapped)? == VICTIM)
        },
    ));
    all
}

/// Attacks in which the role of a key changes, or in which the default attributes of a key permit
/// the attack.
fn over_time() -> Vec<Attack> {
    let steal = |a: &Attacker<'_>,
                 turn: fn(&Attacker<'_>, ObjectHandle) -> Result<ObjectHandle, Failure>|
     -> Attempt {
        let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
        let key = generated(a, &[CKA_WRAP])?;
        let wrapped = a.wrapped(&mechanism(CKM_AES_ECB), key, victim)?;
        let key = turn(a, key)?;
        Ok(a.decrypted(&mechanism(CKM_AES_ECB), key, &wrapped)? == VICTIM)
    };
    vec![
        attack(
            DELAUNE,
            "C_SetAttributeValue turns a wrapping key into a decrypting one",
            &[CKM_AES_ECB],
            move |a| {
                steal(a, |a, key| {
                    a.set_attributes(key, &[flag(CKA_WRAP, false)])?;
                    a.set_attributes(key, &[flag(CKA_DECRYPT, true)])?;
                    Ok(key)
                })
            },
        ),
        attack(
            DELAUNE,
            "C_CopyObject turns a wrapping key into a decrypting one",
            &[CKM_AES_ECB],
            move |a| steal(a, |a, key| a.copy_object(key, &[flag(CKA_WRAP, false), flag(CKA_DECRYPT, true)])),
        ),
        attack(
            DELAUNE,
            "C_SetAttributeValue gives a wrapping key CKA_DECRYPT too",
            &[CKM_AES_ECB],
            move |a| steal(a, |a, key| a.set_attributes(key, &[flag(CKA_DECRYPT, true)]).map(|()| key)),
        ),
        attack(
            DELAUNE,
            "C_SetAttributeValue turns a decrypting key into a wrapping one",
            &[CKM_AES_ECB],
            |a| {
                let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
                let key = generated(a, &[CKA_DECRYPT])?;
                let twin = a.copy_object(key, &[])?;
                a.set_attributes(key, &[flag(CKA_DECRYPT, false), flag(CKA_WRAP, true)])?;
                let wrapped = a.wrapped(&mechanism(CKM_AES_ECB), key, victim)?;
                Ok(a.decrypted(&mechanism(CKM_AES_ECB), twin, &wrapped)? == VICTIM)
            },
        ),
        attack(
            DELAUNE,
            "C_SetAttributeValue turns an encrypting key into an unwrapping one",
            &[CKM_AES_ECB],
            |a| {
                let key = generated(a, &[CKA_ENCRYPT])?;
                let ciphertext = a.encrypted(&mechanism(CKM_AES_ECB), key, &KNOWN)?;
                a.set_attributes(key, &[flag(CKA_ENCRYPT, false), flag(CKA_UNWRAP, true)])?;
                let template = [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat();
                a.unwrap_key(&mechanism(CKM_AES_ECB), key, &ciphertext, &template)?;
                Ok(true)
            },
        ),
        attack(
            CLULOW,
            "the defaults of C_GenerateKey give a key that wraps and decrypts",
            &[CKM_AES_ECB],
            |a| {
                let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
                let template = [flag(CKA_TOKEN, false), Attribute::number(CKA_VALUE_LEN, 32)];
                let key = a.generate_key(&mechanism(CKM_AES_KEY_GEN), &template)?;
                let wrapped = a.wrapped(&mechanism(CKM_AES_ECB), key, victim)?;
                Ok(a.decrypted(&mechanism(CKM_AES_ECB), key, &wrapped)? == VICTIM)
            },
        ),
        attack(CLULOW, "the defaults of C_UnwrapKey give a readable key", &[CKM_AES_KEY_WRAP], |a| {
            let with = mechanism(CKM_AES_KEY_WRAP);
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let key = generated(a, &[CKA_WRAP, CKA_UNWRAP])?;
            let wrapped = a.wrapped(&with, key, victim)?;
            let made = a.unwrap_key(&with, key, &wrapped, &head(CKO_SECRET_KEY, CKK_GENERIC_SECRET))?;
            Ok(a.value(made)? == VICTIM)
        }),
        attack(
            CLULOW,
            "the defaults of C_CreateObject give a key that wraps and decrypts",
            &[CKM_AES_ECB],
            |a| {
                let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
                let mut template = head(CKO_SECRET_KEY, CKK_AES);
                template.push(Attribute::bytes(CKA_VALUE, KNOWN));
                let key = a.create_object(&template)?;
                let wrapped = a.wrapped(&mechanism(CKM_AES_ECB), key, victim)?;
                Ok(a.decrypted(&mechanism(CKM_AES_ECB), key, &wrapped)? == VICTIM)
            },
        ),
    ]
}

/// Attacks in which C_UnwrapKey accepts bytes that C_WrapKey did not produce, or a key that was
/// wrapped before its attributes changed.
fn imports() -> Vec<Attack> {
    let key = |a: &Attacker<'_>| -> Result<ObjectHandle, Stop> {
        a.secret(CKK_AES, &[0x42; 32], Guarded::Kept, &[CKA_WRAP, CKA_UNWRAP], &[]).setup()
    };
    let mut all = Vec::new();
    for kind in [CKM_AES_ECB, CKM_AES_CBC, CKM_AES_CTR, CKM_AES_KEY_WRAP, CKM_AES_KEY_WRAP_KWP, CKM_AES_GCM] {
        all.push(attack(
            CLULOW,
            format!("key conjuring: unwrap random bytes with {}", named(kind)),
            &[kind],
            move |a| {
                let mut random = [0; 48];
                a.random(&mut random).setup()?;
                let length = if matches!(kind, CKM_AES_KEY_WRAP | CKM_AES_KEY_WRAP_KWP) { 40 } else { 32 };
                let length = if kind == CKM_AES_GCM { 48 } else { length };
                let mut template = [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat();
                template.push(flag(CKA_ENCRYPT, true));
                a.unwrap_key(&wrapper(kind), key(a)?, &random[..length], &template)?;
                Ok(true)
            },
        ));
    }
    for kind in [CKM_AES_ECB, CKM_AES_CBC] {
        all.push(attack(CLULOW, format!("unwrap the halves of a key, {}", named(kind)), &[kind], move |a| {
            let (wrapping, victim) = (key(a)?, a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?);
            let wrapped = a.wrapped(&wrapper(kind), wrapping, victim)?;
            let mut template = [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat();
            template.push(flag(CKA_ENCRYPT, true));
            let half = a.unwrap_key(&wrapper(kind), wrapping, &wrapped[..16], &template)?;
            let check = a.secret(CKK_AES, &VICTIM[..16], Guarded::Kept, &[CKA_ENCRYPT], &[])?;
            let ecb: Mechanism = mechanism(CKM_AES_ECB);
            Ok(a.encrypted(&ecb, half, &[0; 16])? == a.encrypted(&ecb, check, &[0; 16])?)
        }));
    }
    all.push(attack(CLULOW, "exchange the blocks of a wrapped key, AES_ECB", &[CKM_AES_ECB], move |a| {
        let (wrapping, victim) = (key(a)?, a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?);
        let wrapped = a.wrapped(&mechanism(CKM_AES_ECB), wrapping, victim)?;
        let exchanged = [&wrapped[16..], &wrapped[16..]].concat();
        let mut template = [head(CKO_SECRET_KEY, CKK_AES), Guarded::Kept.attributes()].concat();
        template.push(flag(CKA_ENCRYPT, true));
        let made = a.unwrap_key(&mechanism(CKM_AES_ECB), wrapping, &exchanged, &template)?;
        let value = [&VICTIM[16..], &VICTIM[16..]].concat();
        let check = a.secret(CKK_AES, &value, Guarded::Kept, &[CKA_ENCRYPT], &[])?;
        Ok(a.encrypted(&gcm(), made, &[0; 16])? == a.encrypted(&gcm(), check, &[0; 16])?)
    }));
    all.push(attack(
        DELAUNE,
        "unwrap a readable copy of a key that is no longer extractable",
        &[CKM_AES_KEY_WRAP],
        move |a| {
            let with = mechanism(CKM_AES_KEY_WRAP);
            let wrapping = key(a)?;
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let wrapped = a.wrapped(&with, wrapping, victim)?;
            a.set_attributes(victim, &[flag(CKA_EXTRACTABLE, false)])?;
            let made = a.unwrap_key(&with, wrapping, &wrapped, &readable(CKK_GENERIC_SECRET))?;
            Ok(a.value(made)? == VICTIM)
        },
    ));
    all
}

/// Attacks that wrap a key under a weaker key (Clulow 2003, "Weaker key").
fn weaker() -> Vec<Attack> {
    let des = |kind: CK_MECHANISM_TYPE| {
        attack(
            CLULOW,
            format!("wrap an AES-256 key under a triple DES key, {}", named(kind)),
            &[kind],
            move |a| {
                let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
                let own = a.secret(CKK_DES3, b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10\x89\xab\xcd\xef\x01\x23\x45\x67", Guarded::Open, &[CKA_WRAP], &[])?;
                Ok(!a.wrapped(&wrapper(kind), own, victim)?.is_empty())
            },
        )
    };
    vec![
        des(CKM_DES3_ECB),
        des(CKM_DES3_CBC),
        attack(CLULOW, "wrap an AES-256 key under RSA with 1024 bits", &[CKM_RSA_PKCS_OAEP], |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let template = [
                Attribute::number(CKA_CLASS, CKO_PUBLIC_KEY),
                Attribute::number(CKA_KEY_TYPE, CKK_RSA),
                flag(CKA_TOKEN, false),
                Attribute::bytes(CKA_MODULUS, &super::oracles::odd_modulus()[128..]),
                Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]),
                flag(CKA_WRAP, true),
            ];
            let own = a.create_object(&template)?;
            Ok(!a.wrapped(&oaep(), own, victim)?.is_empty())
        }),
        attack(CLULOW, "wrap an AES-256 key under an AES-128 key", &[CKM_AES_KEY_WRAP], |a| {
            let victim = a.victim(CKK_AES, Guarded::Wrappable, &[CKA_ENCRYPT])?;
            let own = a.secret(CKK_AES, &KNOWN[..16], Guarded::Open, &[CKA_WRAP], &[])?;
            Ok(!a.wrapped(&mechanism(CKM_AES_KEY_WRAP), own, victim)?.is_empty())
        }),
    ]
}
