//! Every mechanism that signs: in one part, in several parts, in a second operation, and with wrong
//! signatures. A test fails if a row of the mechanism table has no case.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{MechanismType as M, ObjectHandle, SessionHandle, mechanism_flag as flag};
use jeton::mechanism::tls::TlsPrf;
use jeton::mechanism::{self, Action, MacFunction, Mechanism, Params};
use jeton::module::Output;

use crate::keys::{Kind, pair};
use crate::support::{Client, each_backend, none, plain};

/// A mechanism that signs.
pub struct Case {
    pub mechanism: Mechanism,
    pub kinds: &'static [Kind],
    /// A message length that it accepts.
    pub message: usize,
    /// Whether the same message gives the same signature.
    pub repeats: bool,
}

const RSA: &[Kind] = &[Kind::Rsa];
const CURVES: &[Kind] = &[Kind::P224, Kind::P256, Kind::P384, Kind::P521, Kind::Secp256k1];
const BRAINPOOL: &[Kind] =
    &[Kind::BrainpoolP256r1, Kind::BrainpoolP256t1, Kind::BrainpoolP384r1, Kind::BrainpoolP384t1];
const ML_DSA: &[Kind] = &[Kind::MlDsa44, Kind::MlDsa65, Kind::MlDsa87];
const SLH_DSA: &[Kind] = &[Kind::SlhDsaSha2, Kind::SlhDsaShake];
const DSA: &[Kind] = &[Kind::Dsa];
const AES: &[Kind] = &[Kind::Aes];
/// Longer than the blocks of every hash.
const LONG: usize = 1000;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (id, message) in [(M::RSA_X_509, 256), (M::RSA_PKCS, 51)] {
        cases.push(Case { message, repeats: true, ..simple(id, RSA) });
    }
    for (pkcs1, pss_id, ecdsa, hash) in HASHED {
        cases.push(Case { repeats: true, ..simple(pkcs1, RSA) });
        cases.push(simple(ecdsa, CURVES));
        cases.push(pss(pss_id, hash, hash, hash.len(), LONG));
        cases.push(pss(M::RSA_PKCS_PSS, hash, hash, hash.len(), hash.len()));
    }
    cases.push(pss(M::RSA_PKCS_PSS, Hash::Sha256, Hash::Sha1, 7, 32));
    cases.push(pss(M::SHA256_RSA_PKCS_PSS, Hash::Sha256, Hash::Sha512, 0, LONG));
    cases.push(Case { message: 32, ..simple(M::ECDSA, CURVES) });
    cases.extend([20, 28, 32, 48, 64].map(|message| Case { message, ..simple(M::DSA, DSA) }));
    cases.extend(DSA_HASHED.map(|id| simple(id, DSA)));
    cases.push(simple(M::ECDSA_SHA384, BRAINPOOL));
    cases.push(Case { repeats: true, ..simple(M::EDDSA, &[Kind::Ed25519, Kind::Ed448]) });
    for (prehash, context) in [(false, &b""[..]), (false, b"foo"), (true, b""), (true, b"foo")] {
        let params = Params::Eddsa { prehash, context: context.into() };
        cases.push(Case { repeats: true, ..parameterized(M::EDDSA, &[Kind::Ed25519, Kind::Ed448], params) });
    }
    cases.extend(post_quantum());
    cases.extend(codes());
    cases
}

/// RSASSA-PKCS1-v1_5, RSASSA-PSS and ECDSA with each hash.
const HASHED: [(M, M, M, Hash); 9] = [
    (M::SHA1_RSA_PKCS, M::SHA1_RSA_PKCS_PSS, M::ECDSA_SHA1, Hash::Sha1),
    (M::SHA224_RSA_PKCS, M::SHA224_RSA_PKCS_PSS, M::ECDSA_SHA224, Hash::Sha224),
    (M::SHA256_RSA_PKCS, M::SHA256_RSA_PKCS_PSS, M::ECDSA_SHA256, Hash::Sha256),
    (M::SHA384_RSA_PKCS, M::SHA384_RSA_PKCS_PSS, M::ECDSA_SHA384, Hash::Sha384),
    (M::SHA512_RSA_PKCS, M::SHA512_RSA_PKCS_PSS, M::ECDSA_SHA512, Hash::Sha512),
    (M::SHA3_224_RSA_PKCS, M::SHA3_224_RSA_PKCS_PSS, M::ECDSA_SHA3_224, Hash::Sha3_224),
    (M::SHA3_256_RSA_PKCS, M::SHA3_256_RSA_PKCS_PSS, M::ECDSA_SHA3_256, Hash::Sha3_256),
    (M::SHA3_384_RSA_PKCS, M::SHA3_384_RSA_PKCS_PSS, M::ECDSA_SHA3_384, Hash::Sha3_384),
    (M::SHA3_512_RSA_PKCS, M::SHA3_512_RSA_PKCS_PSS, M::ECDSA_SHA3_512, Hash::Sha3_512),
];

const DSA_HASHED: [M; 9] = [
    M::DSA_SHA1,
    M::DSA_SHA224,
    M::DSA_SHA256,
    M::DSA_SHA384,
    M::DSA_SHA512,
    M::DSA_SHA3_224,
    M::DSA_SHA3_256,
    M::DSA_SHA3_384,
    M::DSA_SHA3_512,
];

/// HashML-DSA and HashSLH-DSA with each hash.
const PREHASHED: [(M, M, Hash); 10] = [
    (M::HASH_ML_DSA_SHA224, M::HASH_SLH_DSA_SHA224, Hash::Sha224),
    (M::HASH_ML_DSA_SHA256, M::HASH_SLH_DSA_SHA256, Hash::Sha256),
    (M::HASH_ML_DSA_SHA384, M::HASH_SLH_DSA_SHA384, Hash::Sha384),
    (M::HASH_ML_DSA_SHA512, M::HASH_SLH_DSA_SHA512, Hash::Sha512),
    (M::HASH_ML_DSA_SHA3_224, M::HASH_SLH_DSA_SHA3_224, Hash::Sha3_224),
    (M::HASH_ML_DSA_SHA3_256, M::HASH_SLH_DSA_SHA3_256, Hash::Sha3_256),
    (M::HASH_ML_DSA_SHA3_384, M::HASH_SLH_DSA_SHA3_384, Hash::Sha3_384),
    (M::HASH_ML_DSA_SHA3_512, M::HASH_SLH_DSA_SHA3_512, Hash::Sha3_512),
    (M::HASH_ML_DSA_SHAKE128, M::HASH_SLH_DSA_SHAKE128, Hash::Shake128),
    (M::HASH_ML_DSA_SHAKE256, M::HASH_SLH_DSA_SHAKE256, Hash::Shake256),
];

/// ML-DSA and SLH-DSA. The message of `CKM_HASH_ML_DSA` is a digest: the caller applies the hash
/// that the parameter names.
fn post_quantum() -> Vec<Case> {
    let mut cases = vec![simple(M::ML_DSA, ML_DSA), simple(M::SLH_DSA, SLH_DSA)];
    for (deterministic, context) in [(true, &b""[..]), (true, b"a context"), (false, &[7; 255])] {
        let params = Params::SignContext { deterministic, context: context.into(), hash: None };
        cases.push(Case { repeats: deterministic, ..parameterized(M::ML_DSA, ML_DSA, params) });
    }
    let params =
        Params::SignContext { deterministic: true, context: b"a context".as_slice().into(), hash: None };
    cases.push(Case { repeats: true, ..parameterized(M::SLH_DSA, SLH_DSA, params) });
    for (ml_dsa, _, hash) in PREHASHED {
        cases.push(simple(ml_dsa, &[Kind::MlDsa44]));
        let params =
            Params::SignContext { deterministic: true, context: b"a context".as_slice().into(), hash: None };
        cases.push(Case { repeats: true, ..parameterized(ml_dsa, &[Kind::MlDsa65], params) });
        let params = Params::SignContext { deterministic: true, context: Box::default(), hash: Some(hash) };
        let named = parameterized(M::HASH_ML_DSA, &[Kind::MlDsa44], params);
        cases.push(Case { message: hash.len(), repeats: true, ..named });
    }
    // SLH-DSA is slow, so `CKM_HASH_SLH_DSA` has cases for only two hashes.
    for (_, slh_dsa, hash) in PREHASHED {
        if matches!(hash, Hash::Sha256 | Hash::Shake128) {
            let params =
                Params::SignContext { deterministic: false, context: Box::default(), hash: Some(hash) };
            let named = parameterized(M::HASH_SLH_DSA, &[Kind::SlhDsaSha2], params);
            cases.push(Case { message: hash.len(), ..named });
        }
        cases.push(simple(slh_dsa, &[Kind::SlhDsaSha2]));
    }
    cases
}

/// HMAC and its general-length form.
const HMACS: [(M, M, Hash); 15] = [
    (M::SHA_1_HMAC, M::SHA_1_HMAC_GENERAL, Hash::Sha1),
    (M::SHA224_HMAC, M::SHA224_HMAC_GENERAL, Hash::Sha224),
    (M::SHA256_HMAC, M::SHA256_HMAC_GENERAL, Hash::Sha256),
    (M::SHA384_HMAC, M::SHA384_HMAC_GENERAL, Hash::Sha384),
    (M::SHA512_HMAC, M::SHA512_HMAC_GENERAL, Hash::Sha512),
    (M::SHA512_224_HMAC, M::SHA512_224_HMAC_GENERAL, Hash::Sha512_224),
    (M::SHA512_256_HMAC, M::SHA512_256_HMAC_GENERAL, Hash::Sha512_256),
    (M::SHA3_224_HMAC, M::SHA3_224_HMAC_GENERAL, Hash::Sha3_224),
    (M::SHA3_256_HMAC, M::SHA3_256_HMAC_GENERAL, Hash::Sha3_256),
    (M::SHA3_384_HMAC, M::SHA3_384_HMAC_GENERAL, Hash::Sha3_384),
    (M::SHA3_512_HMAC, M::SHA3_512_HMAC_GENERAL, Hash::Sha3_512),
    (M::BLAKE2B_160_HMAC, M::BLAKE2B_160_HMAC_GENERAL, Hash::Blake2b160),
    (M::BLAKE2B_256_HMAC, M::BLAKE2B_256_HMAC_GENERAL, Hash::Blake2b256),
    (M::BLAKE2B_384_HMAC, M::BLAKE2B_384_HMAC_GENERAL, Hash::Blake2b384),
    (M::BLAKE2B_512_HMAC, M::BLAKE2B_512_HMAC_GENERAL, Hash::Blake2b512),
];

/// MACs. The shortest has 4 bytes: in tests that expect two MACs to differ, two MACs of one byte
/// could be equal by chance.
fn codes() -> Vec<Case> {
    let code = |id, kinds, params| Case { repeats: true, ..parameterized(id, kinds, params) };
    let mut cases = Vec::new();
    for (whole, cut, hash) in HMACS {
        cases.push(code(whole, &[Kind::Generic], Params::None));
        for len in [4, hash.len() - 1, hash.len()] {
            cases.push(code(cut, &[Kind::Generic], Params::Length(len)));
        }
    }
    cases.push(code(M::SHA256_HMAC, &[Kind::Hmac], Params::None));
    for id in [M::AES_CMAC, M::AES_MAC, M::AES_XCBC_MAC, M::AES_XCBC_MAC_96] {
        cases.push(code(id, AES, Params::None));
    }
    for id in [M::AES_CMAC_GENERAL, M::AES_MAC_GENERAL] {
        cases.extend([4, 8, 15, 16].map(|len| code(id, AES, Params::Length(len))));
    }
    for id in [M::TLS_MAC, M::TLS12_MAC] {
        let finished = |prf, len, server| code(id, &[Kind::Generic], Params::TlsMac { prf, len, server });
        cases.push(finished(TlsPrf::Md5Sha1, 12, true));
        cases.push(finished(TlsPrf::Hash(Hash::Sha384), 60, false));
    }
    cases.extend([1, 12, 256].map(|len| code(M::AES_GMAC, AES, Params::Iv(vec![3; len].into()))));
    cases
}

fn simple(id: M, kinds: &'static [Kind]) -> Case {
    parameterized(id, kinds, Params::None)
}

fn pss(id: M, hash: Hash, mgf: Hash, salt_len: usize, message: usize) -> Case {
    let case = parameterized(id, RSA, Params::Pss { hash, mgf, salt_len });
    Case { message, repeats: salt_len == 0, ..case }
}

fn parameterized(id: M, kinds: &'static [Kind], params: Params) -> Case {
    Case { mechanism: Mechanism { params, ..plain(id) }, kinds, message: LONG, repeats: false }
}

/// Returns a message that is smaller than every modulus.
pub fn message(len: usize, start: u8) -> Vec<u8> {
    (0..len).map(|at| if at == 0 { 1 } else { (at as u8).wrapping_mul(5).wrapping_add(start) }).collect()
}

/// Runs a test with every case, each of its kinds of keys and every backend.
pub fn each_case(test: impl Fn(&Client, SessionHandle, &Case, (ObjectHandle, ObjectHandle))) {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let kinds = Kind::PAIRS.into_iter().chain(Kind::SECRETS);
        let pairs: Vec<_> = kinds.map(|kind| (kind, pair(&client, session, kind, &none()))).collect();
        for case in cases() {
            for (kind, keys) in pairs.iter().filter(|(kind, _)| case.kinds.contains(kind)) {
                println!("{} with {kind:?}", case.mechanism.info.id);
                test(&client, session, &case, *keys);
            }
        }
    });
}

#[test]
fn every_row_of_the_table_has_a_case() {
    let signing: Vec<_> = cases().iter().map(|case| case.mechanism.info.id).collect();
    let generating: Vec<_> = crate::generate::covered().collect();
    let ciphers: Vec<_> = crate::ciphers::cases().iter().map(|case| case.mechanism.info.id).collect();
    let digesting: Vec<_> = crate::digest::KNOWN.iter().map(|(id, ..)| *id).collect();
    for row in mechanism::all() {
        let covered = match row.action {
            // The MAC of TLS_PRF_GENERAL is as long as the caller's buffer. The MACs in `cases`
            // have a fixed length.
            Action::Mac(MacFunction::TlsPrf)
            | Action::Derive(_)
            | Action::Encapsulate
            | Action::GenerateFromPassword
            | Action::GeneratePreMaster => crate::derive::covered(row.id),
            Action::Sign(..) | Action::Mac(_) => signing.contains(&row.id),
            Action::Cipher(_) => ciphers.contains(&row.id),
            Action::Encrypt(_) => {
                crate::rsa::COVERED.contains(&row.id) || crate::wrap_ecdh::COVERED.contains(&row.id)
            }
            Action::Generate | Action::GeneratePair => generating.contains(&row.id),
            Action::Digest(_) => digesting.contains(&row.id),
            Action::GenerateParameters => [M::DH_PKCS_PARAMETER_GEN, M::DSA_PARAMETER_GEN].contains(&row.id),
            Action::Otp => row.id == M::HOTP,
        };
        assert!(covered, "{} has no case", row.id);
    }
}

#[test]
fn the_list_names_every_row_with_its_sizes_and_flags() {
    each_backend(|provider| {
        let client = Client::new(provider);
        let mut rows: Vec<_> = mechanism::all().map(|row| row.id).collect();
        rows.sort();
        assert_eq!(client.module.mechanisms(client.slot).expect("mechanisms"), rows);
        for row in mechanism::all() {
            let info = client.module.mechanism(client.slot, row.id).expect("a mechanism");
            assert_eq!((info.min, info.max), row.sizes);
            let does = match row.action {
                Action::Sign(..) | Action::Mac(_) => flag::SIGN | flag::VERIFY,
                Action::Cipher(_) => flag::ENCRYPT | flag::DECRYPT | flag::WRAP | flag::UNWRAP,
                Action::Encrypt(_) => flag::WRAP | flag::UNWRAP,
                Action::Derive(_) => flag::DERIVE,
                Action::Encapsulate => flag::ENCAPSULATE | flag::DECAPSULATE,
                Action::Digest(_) => flag::DIGEST,
                Action::Generate => flag::GENERATE,
                Action::GeneratePair => flag::GENERATE_KEY_PAIR,
                Action::GenerateParameters => flag::GENERATE,
                Action::Otp => flag::SIGN | flag::VERIFY,
                Action::GenerateFromPassword | Action::GeneratePreMaster => flag::GENERATE,
            };
            assert_eq!(info.flags & does, does, "{}", row.id);
        }
        let unknown = client.module.mechanism(client.slot, M(0x8000_0001)).err();
        assert_eq!(unknown, Some(Error::MechanismInvalid));
    });
}

#[test]
fn one_part_and_several_parts_both_verify() {
    each_case(|client, session, case, (public, private)| {
        let (module, mechanism) = (&client.module, &case.mechanism);
        let data = message(case.message, 3);
        let whole = client.sign(session, mechanism, private, &data).expect("a signature");
        if mechanism.info.is_single_part() {
            return refuses_parts(client, session, mechanism, (public, private), &data, &whole);
        }

        let (head, rest) = data.split_at(1);
        let (middle, tail) = rest.split_at(rest.len() / 2);
        let parts = [head, middle, b"", tail];
        module.sign_init(session, mechanism, private).expect("an operation");
        for part in parts {
            module.sign_update(session, part).expect("a part");
        }
        let mut signature = vec![0; module.sign_final(session, Output::Length).expect("a length")];
        let written = module.sign_final(session, Output::Buffer(&mut signature));
        assert_eq!(written, Ok(whole.len()));
        if case.repeats {
            assert_eq!(signature, whole);
        }

        for signature in [&whole, &signature] {
            assert_eq!(client.verify(session, mechanism, public, &data, signature), Ok(()));
            module.verify_init(session, mechanism, public).expect("an operation");
            for part in parts {
                module.verify_update(session, part).expect("a part");
            }
            assert_eq!(module.verify_final(session, signature), Ok(()));
        }
    });
}

/// PKCS#11 3.2, "Mechanisms vs. functions", footnote: "Single-part operations only". The operation
/// ends at the refused part.
fn refuses_parts(
    client: &Client,
    session: SessionHandle,
    mechanism: &Mechanism,
    (public, private): (ObjectHandle, ObjectHandle),
    data: &[u8],
    signature: &[u8],
) {
    let (module, refused) = (&client.module, Error::OperationNotInitialized);
    let mut out = vec![0; 20_000];
    module.sign_init(session, mechanism, private).expect("an operation");
    assert_eq!(module.sign_update(session, data), Err(refused));
    assert_eq!(module.sign_final(session, Output::Buffer(&mut out)), Err(refused));
    assert_eq!(module.sign(session, data, Output::Buffer(&mut out)), Err(refused));
    module.verify_init(session, mechanism, public).expect("an operation");
    assert_eq!(module.verify_update(session, data), Err(refused));
    assert_eq!(module.verify_final(session, signature), Err(refused));
    module.verify_signature_init(session, mechanism, public, signature).expect("an operation");
    assert_eq!(module.verify_signature_update(session, data), Err(refused));
    assert_eq!(module.verify_signature_final(session), Err(refused));
    // A dual function is also refused, because it processes a part. It ends the signature
    // operation, and the encryption operation continues.
    let aes = pair(client, session, Kind::Aes, &none()).0;
    module.encrypt_init(session, &plain(M::AES_ECB), aes).expect("an operation");
    module.sign_init(session, mechanism, private).expect("an operation");
    let dual = module.sign_encrypt_update(session, &[0; 16], Output::Buffer(&mut out));
    assert_eq!(dual, Err(refused));
    assert_eq!(module.sign_final(session, Output::Length), Err(refused));
    assert_eq!(module.encrypt_update(session, &[0; 16], Output::Buffer(&mut out)), Ok(16));
    assert_eq!(module.encrypt_final(session, Output::Buffer(&mut out)), Ok(0));
    // The next operation has a single part and works.
    assert!(client.sign(session, mechanism, private, data).is_ok());
    assert_eq!(client.verify(session, mechanism, public, data, signature), Ok(()));
}

#[test]
fn wrong_signatures_and_lengths_have_their_own_errors_and_end_the_operation() {
    each_case(|client, session, case, (public, private)| {
        let (module, mechanism) = (&client.module, &case.mechanism);
        let data = message(case.message, 3);
        let good = client.sign(session, mechanism, private, &data).expect("a signature");
        let mut flipped = good.clone();
        *flipped.last_mut().expect("bytes") ^= 1;
        let longer = [&good[..], &[0]].concat();
        for (signature, expected) in [
            (&flipped[..], Error::SignatureInvalid),
            (&good[1..], Error::SignatureLenRange),
            (&longer, Error::SignatureLenRange),
            (&[], Error::SignatureLenRange),
        ] {
            assert_eq!(client.verify(session, mechanism, public, &data, signature), Err(expected));
            let over = module.verify(session, &data, &good);
            assert_eq!(over, Err(Error::OperationNotInitialized));
            if mechanism.info.is_single_part() {
                continue;
            }

            module.verify_init(session, mechanism, public).expect("an operation");
            module.verify_update(session, &data).expect("a part");
            assert_eq!(module.verify_final(session, signature), Err(expected));
            assert_eq!(module.verify_final(session, &good), Err(Error::OperationNotInitialized));
        }
        let another = message(case.message, 4);
        let refused = client.verify(session, mechanism, public, &another, &good);
        assert_eq!(refused, Err(Error::SignatureInvalid));
    });
}

#[test]
fn short_buffers_and_length_queries_keep_the_operation_active() {
    each_case(|client, session, case, (public, private)| {
        let (module, mechanism) = (&client.module, &case.mechanism);
        let data = message(case.message, 3);
        module.sign_init(session, mechanism, private).expect("an operation");
        let needed = module.sign(session, &data, Output::Length).expect("a length");
        for short in [0, 1, needed - 1] {
            let refused = module.sign(session, &data, Output::Buffer(&mut vec![0; short]));
            assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
        }
        // The rest of a longer buffer stays unchanged.
        let mut room = vec![0xaa; needed + 9];
        assert_eq!(module.sign(session, &data, Output::Buffer(&mut room)), Ok(needed));
        assert_eq!(room[needed..], [0xaa; 9]);
        assert_eq!(client.verify(session, mechanism, public, &data, &room[..needed]), Ok(()));
        assert_eq!(module.sign(session, &data, Output::Length), Err(Error::OperationNotInitialized));
        if mechanism.info.is_single_part() {
            return;
        }

        module.sign_init(session, mechanism, private).expect("an operation");
        module.sign_update(session, &data).expect("a part");
        assert_eq!(module.sign_final(session, Output::Length), Ok(needed));
        let refused = module.sign_final(session, Output::Buffer(&mut vec![0; needed - 1]));
        assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
        assert_eq!(module.sign_final(session, Output::Buffer(&mut room)), Ok(needed));
        assert_eq!(client.verify(session, mechanism, public, &data, &room[..needed]), Ok(()));
    });
}

#[test]
fn a_re_armed_operation_signs_the_new_data() {
    each_case(|client, session, case, (public, private)| {
        let (module, mechanism) = (&client.module, &case.mechanism);
        if mechanism.info.is_single_part() {
            return;
        }
        for start in [3, 4, 3] {
            // Parts of a cancelled operation have no effect on the next one.
            module.sign_init(session, mechanism, private).expect("an operation");
            module.sign_update(session, b"given up").expect("a part");
            module.sign_cancel(session).expect("an operation");
            module.verify_init(session, mechanism, public).expect("an operation");
            module.verify_update(session, b"given up").expect("a part");
            module.verify_cancel(session).expect("an operation");

            let data = message(case.message, start);
            let signature = client.sign(session, mechanism, private, &data).expect("a signature");
            assert_eq!(client.verify(session, mechanism, public, &data, &signature), Ok(()));
            module.sign_init(session, mechanism, private).expect("an operation");
            module.sign_update(session, &data).expect("a part");
            let mut in_parts = vec![0; signature.len()];
            module.sign_final(session, Output::Buffer(&mut in_parts)).expect("a signature");
            assert_eq!(client.verify(session, mechanism, public, &data, &in_parts), Ok(()));
            assert!(!case.repeats || in_parts == signature);
        }
    });
}
