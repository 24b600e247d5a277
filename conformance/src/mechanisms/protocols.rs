//! Derivations that protocols define. The module's own HMAC-SHA256 and the formulas give the
//! expected values for SP 800-108 and IKE. OpenSSL's `kdf TLS1-PRF` gives the expected master
//! secret of TLS 1.2, Python the extended master secret, and RFC 4226 the HOTP password.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Failure, Mechanism, Memory, Structure};

use super::{Proof, derived, derived_from, hex, hmac, import, signed, signs};
use crate::fixture::{Fixture, Pair, SECRET, able, ensure, open_key};

type Rows = &'static [(Proof, &'static [&'static str])];

pub const SP800_108: Rows =
    &[(sp800_108, &["SP800_108_COUNTER_KDF", "SP800_108_FEEDBACK_KDF", "SP800_108_DOUBLE_PIPELINE_KDF"])];

pub const TLS: Rows = &[
    (extended_master, &["TLS12_EXTENDED_MASTER_KEY_DERIVE", "TLS12_EXTENDED_MASTER_KEY_DERIVE_DH"]),
    (key_and_mac, &["TLS12_KEY_AND_MAC_DERIVE", "TLS12_KEY_SAFE_DERIVE", "TLS_KEY_AND_MAC_DERIVE"]),
    (
        master,
        &[
            "TLS12_MASTER_KEY_DERIVE",
            "TLS12_MASTER_KEY_DERIVE_DH",
            "TLS_MASTER_KEY_DERIVE",
            "TLS_MASTER_KEY_DERIVE_DH",
        ],
    ),
    (finished, &["TLS_MAC", "TLS12_MAC", "TLS_PRF_GENERAL"]),
    (exported, &["TLS12_KDF", "TLS_KDF"]),
];

pub const IKE: Rows =
    &[(ike, &["IKE1_EXTENDED_DERIVE", "IKE1_PRF_DERIVE", "IKE2_PRF_PLUS_DERIVE", "IKE_PRF_DERIVE"])];

pub const OTP: Rows = &[(hotp, &["HOTP"]), (hotp_key, &["HOTP_KEY_GEN"])];

pub const DH: Rows = &[
    (dh, &["DH_PKCS_DERIVE"]),
    (dh_pair, &["DH_PKCS_KEY_PAIR_GEN"]),
    (dh_group, &["DH_PKCS_PARAMETER_GEN"]),
];

/// Checks the first 32 bytes. The input is the iteration variable, followed by fixed bytes.
fn sp800_108(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let input = b"fixed input";
    let counter = Structure::new().flag(false).number(32);
    let first = Structure::new().number(CK_SP800_108_ITERATION_VARIABLE);
    let first = if kind == CKM_SP800_108_COUNTER_KDF {
        first.structure(counter).number(16)
    } else {
        first.bytes(&[])
    };
    let data = first.number(CK_SP800_108_BYTE_ARRAY).bytes(input);
    let parameter = Structure::new().number(CKM_SHA256_HMAC).number(2).structure(data);
    let parameter = if kind == CKM_SP800_108_FEEDBACK_KDF { parameter.number(0).null() } else { parameter };
    let mechanism = parameter.number(0).null().mechanism(kind);
    let expected = match kind {
        CKM_SP800_108_COUNTER_KDF => hmac(fixture, &SECRET, &[&[0, 0, 0, 1], &input[..]].concat())?,
        CKM_SP800_108_FEEDBACK_KDF => hmac(fixture, &SECRET, input)?,
        _ => {
            let first = hmac(fixture, &SECRET, input)?;
            hmac(fixture, &SECRET, &[&first[..], input].concat())?
        }
    };
    ensure("C_DeriveKey", derived(fixture, &mechanism, &SECRET, Some(32))? == expected)
}

/// Returns `CK_SSL3_RANDOM_DATA`.
fn randoms() -> Structure {
    Structure::new().bytes(&[1; 32]).bytes(&[2; 32])
}

fn pre_master() -> Vec<u8> {
    [&[3, 3][..], &[9; 46]].concat()
}

fn is_tls12(kind: CK_MECHANISM_TYPE) -> bool {
    matches!(
        kind,
        CKM_TLS12_MASTER_KEY_DERIVE
            | CKM_TLS12_MASTER_KEY_DERIVE_DH
            | CKM_TLS12_KEY_AND_MAC_DERIVE
            | CKM_TLS12_KEY_SAFE_DERIVE
            | CKM_TLS12_MAC
            | CKM_TLS12_KDF
    )
}

/// Checks a master secret. For TLS 1.2 it must be the value that OpenSSL computes. For older
/// versions it must have 48 bytes and differ from the premaster secret.
fn master(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let has_version = matches!(kind, CKM_TLS12_MASTER_KEY_DERIVE | CKM_TLS_MASTER_KEY_DERIVE);
    let parameter = Structure::new().members(randoms());
    let parameter = if has_version { parameter.pointer(&Memory::of(&[0; 2])) } else { parameter.null() };
    let parameter = if is_tls12(kind) { parameter.number(CKM_SHA256) } else { parameter };
    let mechanism = parameter.mechanism(kind);
    let made = derived(fixture, &mechanism, &pre_master(), Some(48))?;
    let known = hex(
        "b4396d3602fe4bb3453033efe929bc404a229e801ce74891a64128b024e509f08b0d11f673d898fccda972f432668ce4",
    );
    ensure("C_DeriveKey", made.len() == 48 && (!is_tls12(kind) || made == known) && made != pre_master())
}

/// Checks an extended master secret. The expected value is P_SHA256 (RFC 5246, 5) over the label of
/// RFC 7627, computed with `hmac` of Python.
fn extended_master(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let parameter = Structure::new().number(CKM_SHA256).bytes(&[5; 32]);
    let with_version = kind == CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE;
    let parameter = if with_version { parameter.pointer(&Memory::of(&[0; 2])) } else { parameter.null() };
    let made = derived(fixture, &parameter.mechanism(kind), &pre_master(), Some(48))?;
    let known = hex(
        "c848d9b12f2fdeb327ad7af14a1dd4b53d7cebc83227d70985b7665ee394a221610bdb141c895feebdbd5fdc76d9eeb7",
    );
    ensure("C_DeriveKey", made == known)
}

/// Checks that the module returns the handles of four keys. Except for `CKM_TLS12_KEY_SAFE_DERIVE`,
/// also checks that it derives two different initialisation vectors.
fn key_and_mac(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let safe = kind == CKM_TLS12_KEY_SAFE_DERIVE;
    let (client, server) = (Memory::of(&[0; 16]), Memory::of(&[0; 16]));
    let handles = Structure::new().number(0).number(0).number(0).number(0).pointer(&client).pointer(&server);
    let returned = handles.memory();
    let parameter = Structure::new().number(256).number(128).number(if safe { 0 } else { 128 }).flag(false);
    let parameter = parameter.members(randoms()).pointer(&returned);
    let parameter = if is_tls12(kind) { parameter.number(CKM_SHA256) } else { parameter };
    let base = import(fixture, CKK_GENERIC_SECRET, &[7; 48], &[CKA_DERIVE])?;
    let template = [
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, CKK_AES),
        Attribute::flag(CKA_TOKEN, false),
        Attribute::flag(CKA_ENCRYPT, true),
    ];
    let mechanism = parameter.mechanism(kind);
    fixture.session.derive_key(&mechanism, base, &template)?;
    let mut keys: Vec<_> = (0..4).map(|index| returned.number(index)).collect();
    keys.sort_unstable();
    keys.dedup();
    let vectors = safe || (client != server && client.bytes() != [0; 16]);
    ensure("C_DeriveKey", keys.len() == 4 && keys[0] != 0 && vectors)
}

/// Checks the MAC of a Finished message of TLS.
fn finished(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let mechanism = match kind {
        CKM_TLS12_MAC | CKM_TLS_MAC => Mechanism::with_numbers(kind, &[CKM_SHA256, 12, 1]),
        _ => Mechanism::new(kind),
    };
    let key = import(fixture, CKK_GENERIC_SECRET, &[7; 48], &[CKA_SIGN, CKA_VERIFY])?;
    signs(fixture, &mechanism, Pair { public: key, private: key }, &[4; 32])
}

/// Checks that derivations with the same label agree, and that those with different labels differ.
fn exported(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let made = |label: &[u8]| {
        let parameter = Structure::new().number(CKM_SHA256).bytes(label).members(randoms()).bytes(b"context");
        derived(fixture, &parameter.mechanism(kind), &[7; 48], Some(32))
    };
    let (one, again, other) = (made(b"EXPORTER one")?, made(b"EXPORTER one")?, made(b"EXPORTER two")?);
    ensure("C_DeriveKey", one == again && one != other && one.len() == 32)
}

/// Checks the derivations of RFC 7296, 2.13 and 2.14, and of RFC 2409, 5 and appendix B.
fn ike(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let prf = Structure::new().number(CKM_SHA256_HMAC);
    let (parameter, expected) = match kind {
        CKM_IKE_PRF_DERIVE => {
            let parameter = prf.flag(true).flag(false).bytes(&[1; 16]).bytes(&[2; 16]).number(0);
            (parameter, hmac(fixture, &[[1; 16], [2; 16]].concat(), &SECRET)?)
        }
        CKM_IKE2_PRF_PLUS_DERIVE => {
            (prf.flag(false).number(0).bytes(b"seed"), hmac(fixture, &SECRET, b"seed\x01")?)
        }
        CKM_IKE1_PRF_DERIVE => {
            let shared = import(fixture, CKK_GENERIC_SECRET, &[3; 32], &[CKA_DERIVE])?;
            let parameter =
                prf.flag(false).number(shared.0).number(0).bytes(&[1; 8]).bytes(&[2; 8]).inline(&[0]);
            (parameter, hmac(fixture, &SECRET, &[&[3; 32][..], &[1; 8], &[2; 8], &[0]].concat())?)
        }
        _ => (prf.flag(false).number(0).bytes(b"more"), hmac(fixture, &SECRET, b"more")?),
    };
    ensure("C_DeriveKey", derived(fixture, &parameter.mechanism(kind), &SECRET, Some(32))? == expected)
}

/// Checks the first password of RFC 4226, appendix D, whose counter is 0.
fn hotp(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let mut template = able(open_key(CKO_OTP_KEY, CKK_HOTP), &[CKA_SIGN]);
    template.extend([
        Attribute::bytes(CKA_VALUE, *b"12345678901234567890"),
        Attribute::bytes(CKA_OTP_COUNTER, [0; 8]),
        Attribute::number(CKA_OTP_LENGTH, 6),
        Attribute::number(CKA_OTP_FORMAT, CK_OTP_FORMAT_DECIMAL),
    ]);
    let key = fixture.session.create_object(&template)?;
    // "The mechanism takes a pointer to a CK_OTP_PARAMS structure as a parameter". This structure
    // is empty.
    let made = signed(fixture, &Structure::new().null().number(0).mechanism(kind), key, b"")?;
    ensure("C_Sign", made.windows(6).any(|digits| digits == b"755224"))
}

fn hotp_key(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let template = [
        Attribute::flag(CKA_TOKEN, false),
        Attribute::number(CKA_VALUE_LEN, 20),
        Attribute::number(CKA_OTP_LENGTH, 6),
    ];
    let key = fixture.session.generate_key(&Mechanism::new(kind), &template)?;
    ensure("C_GenerateKey", fixture.session.attribute(key, CKA_KEY_TYPE)? == CKK_HOTP.to_ne_bytes())
}

/// The prime of ffdhe2048 (RFC 7919, appendix A.1).
const PRIME: &str = "ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695a9e13641146433fbcc939dce249b3ef9\
    7d2fe363630c75d8f681b202aec4617ad3df1ed5d5fd65612433f51f5f066ed0856365553ded1af3b557135e7f57c935984f0c70e0e68b77e2a6\
    89daf3efe8721df158a136ade73530acca4f483a797abc0ab182b324fb61d108a94bb2c8e3fbb96adab760d7f4681d4f42a3de394df4ae56ede7\
    6372bb190b07a7c8ee0a6d709e02fce1cdf7e2ecc03404cd28342f619172fe9ce98583ff8e4f1232eef28183c3fe3b1b4c6fad733bb5fcbc2ec2\
    2005c58ef1837d1683b2c6f34a26c1b2effa886b423861285c97ffffffffffffffff";

fn dh_keys(fixture: &Fixture<'_>) -> Result<Pair, Failure> {
    let public = [
        Attribute::bytes(CKA_PRIME, hex(PRIME)),
        Attribute::bytes(CKA_BASE, [2]),
        Attribute::flag(CKA_TOKEN, false),
    ];
    let private = able(vec![Attribute::flag(CKA_TOKEN, false)], &[CKA_DERIVE]);
    let made =
        fixture.session.generate_key_pair(&Mechanism::new(CKM_DH_PKCS_KEY_PAIR_GEN), &public, &private);
    made.map(|(public, private)| Pair { public, private })
}

fn dh_pair(fixture: &Fixture<'_>, _: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let value = fixture.session.attribute(dh_keys(fixture)?.public, CKA_VALUE)?;
    ensure("C_GenerateKeyPair", value.len() > 128)
}

/// Checks that two sides agree on the same secret.
fn dh(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let (ours, theirs) = (dh_keys(fixture)?, dh_keys(fixture)?);
    let agreed = |public, private| {
        let value = fixture.session.attribute(public, CKA_VALUE)?;
        derived_from(fixture, &Mechanism::with_bytes(kind, &value), private, Some(32))
    };
    ensure("C_DeriveKey", agreed(theirs.public, ours.private)? == agreed(ours.public, theirs.private)?)
}

fn dh_group(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Result<(), Failure> {
    let (mechanism, template, output) = (
        Mechanism::new(kind),
        [Attribute::number(CKA_PRIME_BITS, 1024), Attribute::flag(CKA_TOKEN, false)],
        Arg::zeroed(),
    );
    let arguments = vec![Arg::Mechanism(&mechanism), Arg::Template(&template), Arg::Output(&output)];
    fixture.call("C_GenerateKey", &fixture.session, arguments)?;
    let prime = fixture.session.attribute(jeton_client::ObjectHandle(output.number(0)), CKA_PRIME)?;
    ensure("C_GenerateKey", prime.len() == 128)
}
