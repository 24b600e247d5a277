//! A case of every mechanism that signs, for the tests of saved states and of the backends. A test
//! fails if a row of the mechanism table has no case.

use jeton::id::mechanism_flag as flag;
use jeton::mechanism::tls::TlsPrf;
use jeton::mechanism::{self, Action, MechanismRow, Primitive, Shape};

use crate::prelude::*;

#[derive(Clone)]
pub struct Case {
    pub mechanism: Mechanism,
    pub kinds: &'static [Kind],
    pub message: usize,
    /// Whether the same message gives the same signature.
    pub repeats: bool,
}

const RSA: &[Kind] = &[Kind::Rsa];
const CURVES: &[Kind] = &[Kind::P224, Kind::P256, Kind::P384, Kind::P521, Kind::Secp256k1];
const BRAINPOOL: &[Kind] =
    &[Kind::BrainpoolP256r1, Kind::BrainpoolP256t1, Kind::BrainpoolP384r1, Kind::BrainpoolP384t1];
const ML_DSA: &[Kind] = &[Kind::MlDsa44, Kind::MlDsa65, Kind::MlDsa87];
const COMPOSITE: &[Kind] = &[Kind::Composite];
const SLH_DSA: &[Kind] = &[Kind::SlhDsaSha2, Kind::SlhDsaShake];
const EDWARDS: &[Kind] = &[Kind::Ed25519, Kind::Ed448];
const AES: &[Kind] = &[Kind::Aes];
/// Longer than the blocks of every hash.
const LONG: usize = 1000;

/// Returns the cases of each row of the mechanism table, and cases with other parameters.
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<_> = mechanism::all().flat_map(cases_of).collect();
    let mut add = |id, kinds, params, message, repeats| {
        cases.push(Case { mechanism: Mechanism { params, ..plain(id) }, kinds, message, repeats });
    };
    let pss = |mgf, salt_len| Params::Pss { hash: Hash::Sha256, mgf, salt_len };
    add(M::RSA_PKCS_PSS, RSA, pss(Hash::Sha1, 7), 32, false);
    add(M::SHA256_RSA_PKCS_PSS, RSA, pss(Hash::Sha512, 0), LONG, true);
    for (prehash, context) in [(false, &b""[..]), (false, b"foo"), (true, b""), (true, b"foo")] {
        add(M::EDDSA, EDWARDS, Params::Eddsa { prehash, context: context.into() }, LONG, true);
    }
    for (id, kinds, deterministic, context) in [
        (M::ML_DSA, ML_DSA, true, &b""[..]),
        (M::ML_DSA, ML_DSA, true, b"a context"),
        (M::ML_DSA, ML_DSA, false, &[7; 255]),
        (M::SLH_DSA, SLH_DSA, true, b"a context"),
    ] {
        add(id, kinds, in_context(deterministic, context, None), LONG, deterministic);
    }
    add(M::SHA256_HMAC, &[Kind::Hmac], Params::None, LONG, true);
    cases
}

/// The hashes of RSASSA-PSS. The message of `CKM_RSA_PKCS_PSS` is a digest.
const HASHES: [Hash; 9] = [
    Hash::Sha1,
    Hash::Sha224,
    Hash::Sha256,
    Hash::Sha384,
    Hash::Sha512,
    Hash::Sha3_224,
    Hash::Sha3_256,
    Hash::Sha3_384,
    Hash::Sha3_512,
];

fn in_context(deterministic: bool, context: &[u8], hash: Option<Hash>) -> Params {
    Params::SignContext { deterministic, context: context.into(), hash }
}

/// Returns the cases of a row. The message of a row without a hash may be a digest: the caller
/// applies the hash that the parameter names. SLH-DSA is slow, so `CKM_HASH_SLH_DSA` has cases for
/// only two hashes.
fn cases_of(info: &'static MechanismRow) -> Vec<Case> {
    use Primitive as P;
    let case = |kinds, params, message, repeats| Case {
        mechanism: Mechanism { info: info.word(), params },
        kinds,
        message,
        repeats,
    };
    let long = |kinds, repeats| vec![case(kinds, Params::None, LONG, repeats)];
    let pss = |hash: Hash| Params::Pss { hash, mgf: hash, salt_len: hash.len() };
    let (primitive, hash) = match info.action {
        Action::Sign(primitive, hash) => (primitive, hash),
        Action::Mac(function) => {
            let code = |(kinds, params)| case(kinds, params, LONG, true);
            return codes(info, function).into_iter().map(code).collect();
        }
        _ => return Vec::new(),
    };
    match (primitive, hash) {
        (P::RsaRaw, _) => vec![case(RSA, Params::None, 256, true)],
        (P::RsaPkcs1, None) => vec![case(RSA, Params::None, 51, true)],
        (P::RsaPkcs1, Some(_)) => long(RSA, true),
        (P::RsaPss, Some(hash)) => vec![case(RSA, pss(hash), LONG, false)],
        (P::RsaPss, None) => HASHES.map(|hash| case(RSA, pss(hash), hash.len(), false)).into(),
        // Their tests are in `stateful.rs`.
        (P::Stateful(_), _) => Vec::new(),
        (P::Digest(_), None) => vec![case(CURVES, Params::None, 32, false)],
        (P::Digest(_), Some(Hash::Sha384)) => [long(CURVES, false), long(BRAINPOOL, false)].concat(),
        (P::Digest(_), Some(_)) => long(CURVES, false),
        (P::Eddsa, _) => long(EDWARDS, true),
        (P::MlDsa, _) => long(ML_DSA, false),
        (P::MlDsaMu, _) => {
            vec![case(ML_DSA, Params::None, 64, false), case(ML_DSA, in_context(true, b"", None), 64, true)]
        }
        (P::Composite, _) => long(COMPOSITE, false),
        (P::SlhDsa, _) => long(SLH_DSA, false),
        (P::HashMlDsa, Some(_)) => {
            let context = in_context(true, b"a context", None);
            [long(&[Kind::MlDsa44], false), vec![case(&[Kind::MlDsa65], context, LONG, true)]].concat()
        }
        (P::HashMlDsa, None) => {
            let hashes = HASHES[1..].iter().chain(&[Hash::Shake128, Hash::Shake256]);
            let params = |hash| in_context(true, b"", Some(hash));
            hashes.map(|hash| case(&[Kind::MlDsa44], params(*hash), hash.len(), true)).collect()
        }
        (P::HashSlhDsa, Some(_)) => long(&[Kind::SlhDsaSha2], false),
        (P::HashSlhDsa, None) => [Hash::Sha256, Hash::Shake128]
            .map(|hash| case(&SLH_DSA[..1], in_context(false, b"", Some(hash)), hash.len(), false))
            .into(),
    }
}

/// Returns keys and parameters of a MAC. The shortest has 4 bytes: in tests that expect two MACs to
/// differ, two MACs of one byte could be equal by chance.
fn codes(info: &MechanismRow, function: MacFunction) -> Vec<(&'static [Kind], Params)> {
    const GENERIC: &[Kind] = &[Kind::Generic];
    let lengths = |kinds, lengths: &[usize]| match info.shape() {
        Shape::Length => lengths.iter().map(|len| (kinds, Params::Length(*len))).collect(),
        _ => vec![(kinds, Params::None)],
    };
    let finished = |prf, len, server| (GENERIC, Params::TlsMac { prf, len, server });
    match function {
        MacFunction::Hmac(hash) => lengths(GENERIC, &[4, hash.len() - 1, hash.len()]),
        MacFunction::AesCmac | MacFunction::AesCbcMac => lengths(AES, &[4, 8, 15, 16]),
        MacFunction::AesXcbc(_) => vec![(AES, Params::None)],
        MacFunction::AesGmac => [(1, 16), (12, 4), (256, 12)]
            .map(|(len, tag_len)| (AES, Params::Gmac { iv: vec![3; len].into(), tag_len }))
            .into(),
        MacFunction::TlsFinished => {
            vec![finished(TlsPrf::Md5Sha1, 12, true), finished(TlsPrf::Hash(Hash::Sha384), 60, false)]
        }
        // This MAC is as long as the caller's buffer. Its tests are in `tls.rs`.
        MacFunction::TlsPrf => Vec::new(),
    }
}

/// Mechanism, digest length, and the first bytes of the digests of `abc` and of the empty message
/// (the examples of FIPS 180-4 and 202).
pub const KNOWN: [(M, usize, [u8; 4], [u8; 4]); 15] = [
    (M::SHA_1, 20, [0xa9, 0x99, 0x3e, 0x36], [0xda, 0x39, 0xa3, 0xee]),
    (M::SHA224, 28, [0x23, 0x09, 0x7d, 0x22], [0xd1, 0x4a, 0x02, 0x8c]),
    (M::SHA256, 32, [0xba, 0x78, 0x16, 0xbf], [0xe3, 0xb0, 0xc4, 0x42]),
    (M::SHA384, 48, [0xcb, 0x00, 0x75, 0x3f], [0x38, 0xb0, 0x60, 0xa7]),
    (M::SHA512, 64, [0xdd, 0xaf, 0x35, 0xa1], [0xcf, 0x83, 0xe1, 0x35]),
    (M::SHA512_224, 28, [0x46, 0x34, 0x27, 0x0f], [0x6e, 0xd0, 0xdd, 0x02]),
    (M::SHA512_256, 32, [0x53, 0x04, 0x8e, 0x26], [0xc6, 0x72, 0xb8, 0xd1]),
    (M::SHA3_224, 28, [0xe6, 0x42, 0x82, 0x4c], [0x6b, 0x4e, 0x03, 0x42]),
    (M::SHA3_256, 32, [0x3a, 0x98, 0x5d, 0xa7], [0xa7, 0xff, 0xc6, 0xf8]),
    (M::SHA3_384, 48, [0xec, 0x01, 0x49, 0x82], [0x0c, 0x63, 0xa7, 0x5b]),
    (M::SHA3_512, 64, [0xb7, 0x51, 0x85, 0x0b], [0xa6, 0x9f, 0x73, 0xcc]),
    // Python's `hashlib` computed these.
    (M::BLAKE2B_160, 20, [0x38, 0x42, 0x64, 0xf6], [0x33, 0x45, 0x52, 0x4a]),
    (M::BLAKE2B_256, 32, [0xbd, 0xdd, 0x81, 0x3c], [0x0e, 0x57, 0x51, 0xc0]),
    (M::BLAKE2B_384, 48, [0x6f, 0x56, 0xa8, 0x2c], [0xb3, 0x28, 0x11, 0x42]),
    (M::BLAKE2B_512, 64, [0xba, 0x80, 0xa5, 0x3f], [0x78, 0x6a, 0x02, 0xf7]),
];

/// Returns a message that is smaller than every modulus.
pub fn message(len: usize, start: u8) -> Vec<u8> {
    (0..len).map(|at| if at == 0 { 1 } else { (at as u8).wrapping_mul(5).wrapping_add(start) }).collect()
}

/// Runs a test with every case, each of its kinds of keys and every backend.
pub fn each_case(test: impl Fn(&Client, SessionHandle, &Case, (ObjectHandle, ObjectHandle))) {
    each_user(|client, session| {
        let kinds = Kind::PAIRS.into_iter().chain(Kind::SECRETS);
        let pairs: Vec<_> = kinds.map(|kind| (kind, pair(client, session, kind, &none()))).collect();
        for case in cases() {
            for (kind, keys) in pairs.iter().filter(|(kind, _)| case.kinds.contains(kind)) {
                println!("{} with {kind:?}", case.mechanism.info.id);
                test(client, session, &case, *keys);
            }
        }
    });
}

const PROOFS: [&str; 5] = [
    include_str!("../../conformance/src/mechanisms.rs"),
    include_str!("../../conformance/src/mechanisms/ciphers.rs"),
    include_str!("../../conformance/src/mechanisms/derivations.rs"),
    include_str!("../../conformance/src/mechanisms/protocols.rs"),
    include_str!("../../conformance/src/mechanisms/signatures.rs"),
];

/// Returns whether the mechanism has a proof in the conformance suite, or a test in `derive` or
/// `tls`.
fn is_covered(id: M) -> bool {
    let name = format!("\"{}\"", id.to_string().trim_start_matches("CKM_"));
    // The suite writes `#` for each of these hashes.
    let hashes = ["SHA224", "SHA256", "SHA384", "SHA512", "SHA3_224", "SHA3_256", "SHA3_384", "SHA3_512"];
    let names = hashes.map(|hash| name.replace(hash, "#"));
    let here =
        crate::derive::BLAKE2B.map(|case| case.0).into_iter().chain(crate::derive::SHAKES.map(|case| case.0));
    here.chain(crate::tls::COVERED).any(|known| known == id)
        || PROOFS.iter().any(|text| names.iter().any(|name| text.contains(name)))
}

#[test]
fn every_row_of_the_table_has_a_case() {
    let signing: Vec<_> = cases().iter().map(|case| case.mechanism.info.id).collect();
    let generating: Vec<_> = crate::generate::covered().collect();
    let digesting: Vec<_> = KNOWN.iter().map(|(id, ..)| *id).collect();
    for row in mechanism::all() {
        let covered = match row.action {
            // The MAC of TLS_PRF_GENERAL is as long as the caller's buffer. The MACs in `cases`
            // have a fixed length.
            Action::Mac(MacFunction::TlsPrf)
            | Action::Derive(_)
            | Action::Encapsulate
            | Action::GenerateFromPassword
            | Action::GeneratePreMaster => is_covered(row.id),
            Action::Sign(Primitive::Stateful(_), _) => crate::stateful::MECHANISMS.contains(&row.id),
            Action::Sign(..) | Action::Mac(_) => signing.contains(&row.id),
            // The cases of these are in `conformance/src/cases`, whose test checks the list.
            Action::Cipher(_) | Action::Encrypt(_) => continue,
            // A test of `generate` has every row of this kind.
            Action::Generate => continue,
            Action::GeneratePair if row.id == M::HSS_KEY_PAIR_GEN => continue,
            Action::GeneratePair | Action::GeneratePairFromExtraBits => generating.contains(&row.id),
            Action::Digest(_) => digesting.contains(&row.id),
            Action::MlDsaMu => row.id == crate::external_mu::GENERATION,
            Action::GenerateParameters => row.id == M::DH_PKCS_PARAMETER_GEN,
            Action::Otp => row.id == M::HOTP,
        };
        assert!(covered, "{} has no case", row.id);
    }
}

#[test]
fn legacy_mechanisms_are_offered_only_if_configured() {
    const DES3: [M; 4] = [M::DES3_KEY_GEN, M::DES3_ECB, M::DES3_CBC, M::DES3_CBC_PAD];
    for (configuration, is_offered) in [("", false), (", mechanisms = { legacy = true }", true)] {
        let client = Client::with(DEFAULT, configuration);
        let offered = client.mechanisms(client.slot).expect("mechanisms");
        assert!(DES3.iter().all(|id| offered.contains(id) == is_offered), "{configuration}");
    }
}

#[test]
fn the_list_names_every_row_with_its_sizes_and_flags() {
    let client = Client::new(DEFAULT);
    let mut rows: Vec<_> = mechanism::all().map(|row| row.id).collect();
    rows.sort();
    assert_eq!(client.mechanisms(client.slot).expect("mechanisms"), rows);
    for row in mechanism::all() {
        let info = client.mechanism(client.slot, row.id).expect("a mechanism");
        assert_eq!((info.min, info.max), row.sizes);
        let does = match row.action {
            Action::Sign(Primitive::Stateful(_), _) => flag::VERIFY,
            Action::Sign(..) | Action::Mac(_) => flag::SIGN | flag::VERIFY,
            Action::Cipher(_) => flag::ENCRYPT | flag::DECRYPT | flag::WRAP | flag::UNWRAP,
            Action::Encrypt(_) => flag::WRAP | flag::UNWRAP,
            Action::Derive(_) => flag::DERIVE,
            Action::Encapsulate => flag::ENCAPSULATE | flag::DECAPSULATE,
            Action::Digest(_) | Action::MlDsaMu => flag::DIGEST,
            Action::Generate => flag::GENERATE,
            Action::GeneratePair | Action::GeneratePairFromExtraBits => flag::GENERATE_KEY_PAIR,
            Action::GenerateParameters => flag::GENERATE,
            Action::Otp => flag::SIGN | flag::VERIFY,
            Action::GenerateFromPassword | Action::GeneratePreMaster => flag::GENERATE,
        };
        assert_eq!(info.flags & does, does, "{}", row.id);
    }
    assert_eq!(client.mechanism(client.slot, M(0x8000_0001)).err(), Some(Error::MechanismInvalid));
}
