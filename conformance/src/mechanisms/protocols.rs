//! Derivations that protocols define. NIST's ACVP server gives the expected values for SP 800-108.
//! RFCs, the module's own HMAC-SHA256 and the formulas give those for IKE. RFC 4226 gives the HOTP
//! passwords. For Diffie-Hellman and TLS, Python computes most of them:
//!
//! ```python
//! def p(h, s, seed, n):
//!     a, o = seed, b""
//!     while len(o) < n:
//!         a = hmac.new(s, a, h).digest()
//!         o += hmac.new(s, a + seed, h).digest()
//!     return o[:n]
//! def prf12(s, label, seed, n): return p("sha256", s, label + seed, n)
//! def prf10(s, label, seed, n):
//!     h = (len(s) + 1) // 2
//!     halves = zip(p("md5", s[:h], label + seed, n), p("sha1", s[-h:], label + seed, n))
//!     return bytes(x ^ y for x, y in halves)
//! ```
//!
//! with `client, server = b"\1" * 32, b"\2" * 32`, `pre = b"\3\3" + b"\t" * 46` and `master =
//! b"\7" * 48`. OpenSSL's `kdf TLS1-PRF` computes the same master secret of TLS 1.2.

use cryptoki_sys::*;
use jeton_client::{Arg, Mechanism, Memory, ObjectHandle, Structure};

use super::{Rows, derived, derived_from, hmac, import, signs};
use crate::fixture::{
    Answer, FFDHE2048, Fixture, Pair, SECRET, able, bytes, ensure, flag, hex, number, open_key, signed, with,
};

pub const SP800_108: Rows =
    &[(sp800_108, &["SP800_108_COUNTER_KDF", "SP800_108_FEEDBACK_KDF", "SP800_108_DOUBLE_PIPELINE_KDF"])];

pub const TLS: Rows = &[
    (extended_master, &["TLS12_EXTENDED_MASTER_KEY_DERIVE", "TLS12_EXTENDED_MASTER_KEY_DERIVE_DH"]),
    (key_and_mac, &["TLS12_KEY_AND_MAC_DERIVE", "TLS12_KEY_SAFE_DERIVE", "TLS_KEY_AND_MAC_DERIVE"]),
    (master, &["TLS12_MASTER_KEY_DERIVE", "TLS12_MASTER_KEY_DERIVE_DH"]),
    (master, &["TLS_MASTER_KEY_DERIVE", "TLS_MASTER_KEY_DERIVE_DH"]),
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

/// Returns a field of the input of SP 800-108 with a number of that width.
fn numbered(kind: CK_PRF_DATA_TYPE, little_endian: bool, bits: CK_ULONG) -> Structure {
    let format = Structure::new();
    let format = if kind == CK_SP800_108_DKM_LENGTH {
        format.number(CK_SP800_108_DKM_LENGTH_SUM_OF_KEYS)
    } else {
        format
    };
    let format = format.flag(little_endian).number(bits);
    let length = format.memory().len();
    Structure::new().number(kind).structure(format).number(length as CK_ULONG)
}

fn fixed(digits: &str) -> Structure {
    Structure::new().number(CK_SP800_108_BYTE_ARRAY).bytes(&hex(digits))
}

/// Checks the first bytes of answers of NIST (tcId 3, 2435, 2449 and 5961), and one of Python's
/// `hmac`, whose numbers have the other byte order. A PRF that the module does not list is left
/// out.
fn sp800_108(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (iteration, counter) = (CK_SP800_108_ITERATION_VARIABLE, CK_SP800_108_COUNTER);
    let variable = || Structure::new().number(iteration).bytes(&[]);
    let rows = match kind {
        CKM_SP800_108_COUNTER_KDF => vec![
            (
                CKM_AES_CMAC,
                "5FBB37D515DA4DE35EB9177CAA17B135",
                "",
                vec![fixed("EE5691BF4BFD78FD55A87086A592A5B3"), numbered(iteration, false, 8)],
                "54B3B5A2F578B50D89F1E7DB1A32A9BCBB96069DCEBCBA36B9AE9CEA1F56053C",
            ),
            (
                CKM_SHA256_HMAC,
                "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
                "",
                vec![
                    numbered(iteration, true, 32),
                    fixed("aabb"),
                    numbered(CK_SP800_108_DKM_LENGTH, true, 32),
                ],
                "e1666c8cccc74772a456e011a28e8e3943ec62b6bc8d9d76aedeb3a2fd7f4b2b",
            ),
        ],
        CKM_SP800_108_FEEDBACK_KDF => vec![
            (
                CKM_SHA_1_HMAC,
                "A46140C4F6725512F32BCFE131822086",
                "931501DDBC7534A4E30175BCF341D2F26BECA5E1",
                vec![variable(), fixed("8F714B9A449461AB31AAE4C2E61AAE22"), numbered(counter, false, 32)],
                "9E8D0653BF7E03E19431F5F6A4A64E7132C1DBDD554BB7BA7440056D884A21521392BCA1F50AE2867A00253A0B8F9004",
            ),
            (
                CKM_SHA_1_HMAC,
                "CB75C9125A1E3ACAEC2F2A25E7AFF92C",
                "",
                vec![variable(), numbered(counter, false, 32), fixed("EA0645BF27A9B0805794453EAD364CDE")],
                "AC099BCC9D7A8C4B4A9D3C28F0A4CFAD7CBE49FBB2F5FF92616A3C967732E27509C6E1229261D74682161E666192C0E4",
            ),
        ],
        _ => vec![(
            CKM_SHA3_384_HMAC,
            "BC626DB65EB56A621EA8595321D68284",
            "",
            vec![numbered(counter, false, 16), variable(), fixed("E391C59511159555A43983445689D165")],
            "30897ABA4B6DC270BE990D0409163CBF85E0A2DC42D635E1582B4ED528A0CBDA7A6E06871B524728821BFBF325B9E19EAA87\
             C40181EFF9409E11E1CD0077FE28476BDE4B0FB2766AEBE460EAA1E927D0A106FC2FABB82DDEB8803D210F928A99",
        )],
    };
    for (prf, key, iv, fields, known) in rows.into_iter().filter(|row| fixture.lists(row.0)) {
        let parameter = Structure::new().number(prf).number(fields.len() as CK_ULONG);
        let parameter = parameter.structure(fields.into_iter().fold(Structure::new(), Structure::members));
        let parameter = match (kind, hex(iv)) {
            (CKM_SP800_108_FEEDBACK_KDF, iv) if iv.is_empty() => parameter.number(0).null(),
            (CKM_SP800_108_FEEDBACK_KDF, iv) => {
                parameter.number(iv.len() as CK_ULONG).pointer(&Memory::of(&iv))
            }
            _ => parameter,
        };
        let mechanism = parameter.number(0).null().mechanism(kind);
        let key_type = if prf == CKM_AES_CMAC { CKK_AES } else { CKK_GENERIC_SECRET };
        let base = import(fixture, key_type, &hex(key), &[CKA_DERIVE])?;
        let known = hex(known);
        ensure("C_DeriveKey", derived_from(fixture, &mechanism, base, Some(known.len()))? == known)?;
    }
    Ok(())
}

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

/// Checks a master secret, `prf(pre, b"master secret", client + server, 48)`, and the version that
/// the module returns.
fn master(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let has_version = matches!(kind, CKM_TLS12_MASTER_KEY_DERIVE | CKM_TLS_MASTER_KEY_DERIVE);
    let (parameter, version) = (Structure::new().members(randoms()), Memory::of(&[0; 2]));
    let parameter = if has_version { parameter.pointer(&version) } else { parameter.null() };
    let parameter = if is_tls12(kind) { parameter.number(CKM_SHA256) } else { parameter };
    let known = hex(if is_tls12(kind) {
        "b4396d3602fe4bb3453033efe929bc404a229e801ce74891a64128b024e509f08b0d11f673d898fccda972f432668ce4"
    } else {
        "d662f75be03738f5ef6907b36f5002937663602fd825b2694d1904d974ea8595b30000d504cd4bb05875c278f9bfe974"
    });
    let made = derived(fixture, &parameter.mechanism(kind), &pre_master(), Some(48))?;
    ensure("C_DeriveKey", made == known && (!has_version || version.bytes() == [3, 3]))
}

/// Checks an extended master secret. The expected value is P_SHA256 (RFC 5246, 5) over the label of
/// RFC 7627, computed with `hmac` of Python.
fn extended_master(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let parameter = Structure::new().number(CKM_SHA256).bytes(&[5; 32]);
    let with_version = kind == CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE;
    let parameter = if with_version { parameter.pointer(&Memory::of(&[0; 2])) } else { parameter.null() };
    let made = derived(fixture, &parameter.mechanism(kind), &pre_master(), Some(48))?;
    let known = hex(
        "c848d9b12f2fdeb327ad7af14a1dd4b53d7cebc83227d70985b7665ee394a221610bdb141c895feebdbd5fdc76d9eeb7",
    );
    ensure("C_DeriveKey", made == known)
}

/// Checks the values of the four keys and, except for `CKM_TLS12_KEY_SAFE_DERIVE`, of the
/// initialisation vectors: `prf(master, b"key expansion", server + client, 128)`.
fn key_and_mac(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let safe = kind == CKM_TLS12_KEY_SAFE_DERIVE;
    let (client, server) = (Memory::of(&[0; 16]), Memory::of(&[0; 16]));
    let handles = Structure::new().number(0).number(0).number(0).number(0).pointer(&client).pointer(&server);
    let returned = handles.memory();
    let parameter = Structure::new().number(256).number(128).number(if safe { 0 } else { 128 }).flag(false);
    let parameter = parameter.members(randoms()).pointer(&returned);
    let parameter = if is_tls12(kind) { parameter.number(CKM_SHA256) } else { parameter };
    let base = import(fixture, CKK_GENERIC_SECRET, &[7; 48], &[CKA_DERIVE])?;
    let template = [
        number(CKA_CLASS, CKO_SECRET_KEY),
        number(CKA_KEY_TYPE, CKK_AES),
        flag(CKA_TOKEN, false),
        flag(CKA_ENCRYPT, true),
    ];
    fixture.derive_key(&parameter.mechanism(kind), base, &template)?;
    let mut block = Vec::new();
    for key in 0..4 {
        block.extend(fixture.attribute(ObjectHandle(returned.number(key)), CKA_VALUE)?);
    }
    if !safe {
        block.extend([client.bytes(), server.bytes()].concat());
    }
    let known = hex(if is_tls12(kind) {
        "c05bdd26d64f865f7cce6dd9dc7a06335caef9509d2d700758b43249928497804d54ea73d09aec7d8dc575c14aaad0cad31d67\
         00b8b03029e79fcb94a6fc93bbaf140418a68e3d9ec53ef821e07736a4f73517b3a401bbc9c0b1d40b493dabe40193a4b7a889\
         090031b078ddc1d1e4a07f893fa3e58be8a2eb03f914c43c7ba5"
    } else {
        "10ee64d53ee16885b61be73aa2603328dd3dadd57a8f8b16eea27127af5264ce4e39f0e006c24081c114b7a5b278f8b73e6fe9\
         8816a36239621245c5d19ff2a44dd607c1bfbf6ff8dd69edc8553cead1bc91e984ca27165e87a6680f5e690fb149db46210455\
         e766f0bc50d7f95523acaf6d74754e4f15adb7af5b047b60fc12"
    });
    ensure("C_DeriveKey", block == known[..if safe { 96 } else { 128 }])
}

/// Checks the MAC of a Finished message of TLS: `prf12(master, b"server finished", b"\4" * 32,
/// 12)`, or the first bytes of `prf10(master, b"", b"\4" * 32, …)`. The Finished message of the
/// client is the one of "The Illustrated TLS 1.2 Connection" (tls12.xargs.org).
fn finished(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (mechanism, known) = match kind {
        CKM_TLS12_MAC | CKM_TLS_MAC => {
            let master = "916abf9da55973e13614ae0a3f5d3f37b023ba129aee02cc9134338127cd7049781c8e19fc1eb2a7387ac06ae237344c";
            let messages = "061dda04b3c2217ff73bd79b9cf88a2bb6ec505404aac8722db03ef417b54cb4";
            let key = import(fixture, CKK_GENERIC_SECRET, &hex(master), &[CKA_SIGN])?;
            let client = Mechanism::with_numbers(kind, &[CKM_SHA256, 12, 2]);
            let code = signed(fixture, &client, key, &hex(messages))?;
            ensure("C_Sign", code == hex("cf919626f1360c536aaad73a"))?;
            (Mechanism::with_numbers(kind, &[CKM_SHA256, 12, 1]), "2ceaa84c26e4babf73791019")
        }
        _ => (Mechanism::new(kind), "419b04a2564e83e841832d6e"),
    };
    let key = import(fixture, CKK_GENERIC_SECRET, &[7; 48], &[CKA_SIGN, CKA_VERIFY])?;
    ensure("C_Sign", signed(fixture, &mechanism, key, &[4; 32])?.starts_with(&hex(known)))?;
    signs(fixture, &mechanism, Pair { public: key, private: key }, &[4; 32])
}

/// Checks `prf12(master, b"EXPORTER one", client + server + b"\0\7context", 32)`, and the same
/// without a context. The vector for P_SHA256 was published on the list of the TLS working group
/// ("Test vectors for TLS 1.2 PRF"). Its seed is the random value of the client here.
fn exported(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let parameter = || Structure::new().number(CKM_SHA256).bytes(b"EXPORTER one").members(randoms());
    for (parameter, known) in [
        (parameter().bytes(b"context"), "a500cb1bb15b4197b7cd46a94d7e7746555525d571348845d7a10b6c61b7c4dd"),
        (parameter().null().number(0), "5f1c893cf05f55a46cdb1e23d480664d4f25c3758d7824be4b5844771b919589"),
    ] {
        let made = derived(fixture, &parameter.mechanism(kind), &[7; 48], Some(32))?;
        ensure("C_DeriveKey", made == hex(known))?;
    }
    let seed = Structure::new().bytes(&hex("a0ba9f936cda311827a6f796ffd5198c")).bytes(&[]);
    let parameter = Structure::new().number(CKM_SHA256).bytes(b"test label").members(seed).null().number(0);
    let secret = hex("9bbe436ba940f017b17652849a71db35");
    let made = derived(fixture, &parameter.mechanism(kind), &secret, Some(100))?;
    let known = "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af0fa022\
                 f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66";
    ensure("C_DeriveKey", made == hex(known))
}

/// Checks the derivations of RFC 7296, 2.13 and 2.14, and of RFC 2409, 5 and appendix B. `f` is the
/// PRF.
fn ike(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let f = |key: &[u8], parts: &[&[u8]]| hmac(fixture, key, &parts.concat());
    let prf = || Structure::new().number(CKM_SHA256_HMAC);
    let (g, nonces, cookies) = (&[3; 32][..], [[1; 16], [2; 16]].concat(), [[1; 8], [2; 8]].concat());
    let shared = import(fixture, CKK_GENERIC_SECRET, g, &[CKA_DERIVE])?.0;
    let rows = match kind {
        CKM_IKE_PRF_DERIVE => {
            let of = |data_as_key, new_key| {
                let parameter = prf().flag(data_as_key).flag(new_key != 0);
                parameter.bytes(&[1; 16]).bytes(&[2; 16]).number(new_key)
            };
            block_cipher_prfs(fixture, kind)?;
            vec![
                (of(true, 0), f(&nonces, &[&SECRET])?),
                (of(false, 0), f(&SECRET, &[&nonces])?),
                (of(false, shared), f(&SECRET, &[g, &nonces])?),
            ]
        }
        CKM_IKE2_PRF_PLUS_DERIVE => {
            let of = |seed_key| prf().flag(seed_key != 0).number(seed_key).bytes(b"seed");
            let plus = |seed: &[u8]| -> Answer<Vec<u8>> {
                let first = f(&SECRET, &[seed, &[1]])?;
                Ok([&first[..], &f(&SECRET, &[&first, seed, &[2]])?].concat())
            };
            vec![(of(0), plus(b"seed")?), (of(shared), plus(&[g, b"seed"].concat())?)]
        }
        CKM_IKE1_PRF_DERIVE => {
            let of = |previous, number| {
                let parameter = prf().flag(previous != 0).number(shared).number(previous);
                parameter.bytes(&[1; 8]).bytes(&[2; 8]).inline(&[number])
            };
            let first = f(&SECRET, &[g, &cookies, &[0]])?;
            let second = f(&SECRET, &[&first, g, &cookies, &[1]])?;
            let previous = import(fixture, CKK_GENERIC_SECRET, &first, &[CKA_DERIVE])?.0;
            vec![(of(0, 0), first), (of(previous, 1), second[..20].to_vec()), (of(previous, 1), second)]
        }
        _ => {
            let of = |key, extra: &[u8]| prf().flag(key != 0).number(key).bytes(extra);
            let chain = |first: Vec<u8>, rest: &[u8]| -> Answer<Vec<u8>> {
                Ok([&first[..], &f(&SECRET, &[&first, rest])?].concat())
            };
            let both = [g, b"more"].concat();
            vec![
                (of(0, b"more"), f(&SECRET, &[b"more"])?),
                (of(shared, b"more"), chain(f(&SECRET, &[&both])?, &both)?),
                (of(0, b""), chain(f(&SECRET, &[&[0]])?, b"")?),
                // A key that is not longer than the output of the PRF: the bytes of the base key.
                (of(0, b""), SECRET[..16].to_vec()),
            ]
        }
    };
    rows.into_iter().try_for_each(|(parameter, known)| {
        let made = derived(fixture, &parameter.mechanism(kind), &SECRET, Some(known.len()))?;
        ensure("C_DeriveKey", made == known)
    })
}

/// Checks AES-XCBC-PRF-128 and AES-CMAC-PRF-128 with the keys of RFC 4434, 4, and of RFC 4615, 4,
/// of 16, 10 and 18 bytes, which are the nonces here. A PRF that the module does not list is left
/// out.
fn block_cipher_prfs(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    const KEYS: [&str; 3] =
        ["000102030405060708090a0b0c0d0e0f", "00010203040506070809", "000102030405060708090a0b0c0d0e0fedcb"];
    const XCBC: [&str; 3] = [
        "47f51b4564966215b8985c63055ed308",
        "0fa087af7d866e7653434e602fdde835",
        "8cd3c93ae598a9803006ffb67c40e9e4",
    ];
    const CMAC: [&str; 3] = [
        "980ae87b5f4c9c5214f5b6a8455e4c2d",
        "290d9e112edb09ee141fcf64c0b72f3d",
        "84a348a4a45d235babfffc0d2b4da09a",
    ];
    let message: Vec<u8> = (0..20).collect();
    let rows = [(CKM_AES_XCBC_MAC, XCBC), (CKM_AES_CMAC, CMAC)];
    let rows = rows.into_iter().filter(|(prf, _)| fixture.lists(*prf));
    for (prf, key, known) in rows.flat_map(|(prf, known)| (0..3).map(move |at| (prf, KEYS[at], known[at]))) {
        let parameter = Structure::new().number(prf).flag(true).flag(false);
        let mechanism = parameter.bytes(&hex(key)).bytes(&[]).number(0).mechanism(kind);
        ensure("C_DeriveKey", derived(fixture, &mechanism, &message, Some(16))? == hex(known))?;
    }
    Ok(())
}

/// Checks the passwords of RFC 4226, appendix D. The counter of the key increases from 0 to 10.
fn hotp(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let mut template = able(open_key(CKO_OTP_KEY, CKK_HOTP), &[CKA_SIGN]);
    template.extend([
        bytes(CKA_VALUE, *b"12345678901234567890"),
        bytes(CKA_OTP_COUNTER, [0; 8]),
        number(CKA_OTP_LENGTH, 6),
        number(CKA_OTP_FORMAT, CK_OTP_FORMAT_DECIMAL),
    ]);
    let key = fixture.create_object(&template)?;
    // "The mechanism takes a pointer to a CK_OTP_PARAMS structure as a parameter". This structure
    // is empty.
    let mechanism = Structure::new().null().number(0).mechanism(kind);
    for known in
        ["755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"]
    {
        let made = signed(fixture, &mechanism, key, b"")?;
        ensure("C_Sign", made.windows(6).any(|digits| digits == known.as_bytes()))?;
    }
    ensure("C_Sign", fixture.attribute(key, CKA_OTP_COUNTER)? == [0, 0, 0, 0, 0, 0, 0, 10])
}

fn hotp_key(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let template = [flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, 20), number(CKA_OTP_LENGTH, 6)];
    let key = fixture.generate_key(&Mechanism::new(kind), &template)?;
    ensure("C_GenerateKey", fixture.attribute(key, CKA_KEY_TYPE)? == CKK_HOTP.to_ne_bytes())
}

fn dh_keys(fixture: &Fixture<'_>) -> Answer<Pair> {
    let public = [bytes(CKA_PRIME, hex(FFDHE2048)), bytes(CKA_BASE, [2]), flag(CKA_TOKEN, false)];
    let private = able(vec![flag(CKA_TOKEN, false)], &[CKA_DERIVE]);
    let made = fixture.generate_key_pair(&Mechanism::new(CKM_DH_PKCS_KEY_PAIR_GEN), &public, &private);
    made.map(|(public, private)| Pair { public, private })
}

fn dh_pair(fixture: &Fixture<'_>, _: CK_MECHANISM_TYPE) -> Answer {
    let value = fixture.attribute(dh_keys(fixture)?.public, CKA_VALUE)?;
    ensure("C_GenerateKeyPair", value.len() > 128)
}

/// Checks that two sides agree on the same secret, and a secret that Python computes.
fn dh(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (ours, theirs) = (dh_keys(fixture)?, dh_keys(fixture)?);
    let agreed = |public, private| {
        let value = fixture.attribute(public, CKA_VALUE)?;
        derived_from(fixture, &Mechanism::with_bytes(kind, &value), private, Some(32))
    };
    ensure("C_DeriveKey", agreed(theirs.public, ours.private)? == agreed(ours.public, theirs.private)?)?;
    let [prime, base, own, peer, secret] = KNOWN.map(hex);
    let template = able(open_key(CKO_PRIVATE_KEY, CKK_DH), &[CKA_DERIVE]);
    let template = with(with(template, bytes(CKA_PRIME, prime)), bytes(CKA_BASE, base));
    let private = fixture.create_object(&with(template, bytes(CKA_VALUE, own)))?;
    ensure(
        "C_DeriveKey",
        derived_from(fixture, &Mechanism::with_bytes(kind, &peer), private, None)? == secret,
    )
}

/// The prime of RFC 2409, 6.2, its base, a private value, the public value of the other side, and
/// the secret.
const KNOWN: [&str; 5] = [
    "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404d\
     def9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7\
     edee386bfb5a899fa5ae9f24117c4b1fe649286651ece65381ffffffffffffffff",
    "02",
    "b9a3b3ae8fefc1a2930496507086f8455d48943e",
    "7c66326e63b86930786ffdeb8a5c1de130e8a3a65f07e58a409ecf84398a560c89b9865c989aac66ce6aa824ae32de9\
     092b96a23742504a47f693aed8d2df92ca917d1d2381c918e6a686e7046080478222a168238dd6c0aa45764f83dca8d\
     85f3ddf026be19af539f087866b516ceaceb581a9ba6cd44a94079d9983581595f",
    "58864ba64563850f42cf55ec5a0d3aa83de0171bf10e137b3574178b3381153705f18ce57fe5057c8d3ed4a3582be91\
     9c42325abef4ba87b853112824a3441763453080be0b9d8ec91ad9e954addf537f7eb93a4475d003046914e0a3bca42\
     758c316e3a5c67682ad186379be5d20219fc0677e6b822183b323644fbfb971971",
];

fn dh_group(fixture: &Fixture<'_>, kind: CK_MECHANISM_TYPE) -> Answer {
    let (mechanism, template, output) =
        (Mechanism::new(kind), [number(CKA_PRIME_BITS, 1024), flag(CKA_TOKEN, false)], Arg::zeroed());
    let arguments = vec![Arg::Mechanism(&mechanism), Arg::Template(&template), Arg::Output(&output)];
    fixture.call("C_GenerateKey", &fixture.session, arguments)?;
    let prime = fixture.attribute(ObjectHandle(output.number(0)), CKA_PRIME)?;
    ensure("C_GenerateKey", prime.len() == 128)
}
