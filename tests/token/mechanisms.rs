//! Every mechanism that signs: in one part, in several parts, armed again, and its signatures refused when wrong.
//! A row of the mechanism table without a case here fails.

use jeton::backend::Hash;
use jeton::error::Error;
use jeton::id::{MechanismType as M, ObjectHandle, SessionHandle, mechanism_flag as flag};
use jeton::mechanism::{self, Action, Invocation, Params};
use jeton::module::Output;

use crate::keys::{Kind, pair};
use crate::support::{Client, each_backend, none, plain};

/// A mechanism that signs.
pub struct Case {
    pub with: Invocation,
    pub kinds: &'static [Kind],
    /// The length of a message that it takes.
    pub message: usize,
    /// Whether the same message gives the same signature.
    pub repeats: bool,
}

const RSA: &[Kind] = &[Kind::Rsa];
const CURVES: &[Kind] = &[Kind::P256, Kind::P384, Kind::P521];
const ML_DSA: &[Kind] = &[Kind::MlDsa44, Kind::MlDsa65, Kind::MlDsa87];
/// Longer than the blocks of every hash.
const LONG: usize = 1000;

pub fn cases() -> Vec<Case> {
    let simple = |id, kinds, message, repeats| Case { with: plain(id), kinds, message, repeats };
    let mut cases = vec![
        simple(M::RSA_X_509, RSA, 256, true),
        simple(M::RSA_PKCS, RSA, 51, true),
        simple(M::SHA1_RSA_PKCS, RSA, LONG, true),
        simple(M::SHA224_RSA_PKCS, RSA, LONG, true),
        simple(M::SHA256_RSA_PKCS, RSA, LONG, true),
        simple(M::SHA384_RSA_PKCS, RSA, LONG, true),
        simple(M::SHA512_RSA_PKCS, RSA, LONG, true),
        simple(M::ECDSA, CURVES, 32, false),
        simple(M::ECDSA_SHA1, CURVES, LONG, false),
        simple(M::ECDSA_SHA224, CURVES, LONG, false),
        simple(M::ECDSA_SHA256, CURVES, LONG, false),
        simple(M::ECDSA_SHA384, CURVES, LONG, false),
        simple(M::ECDSA_SHA512, CURVES, LONG, false),
        simple(M::EDDSA, &[Kind::Ed25519], LONG, true),
        simple(M::ML_DSA, ML_DSA, LONG, false),
    ];
    for (id, hash) in [
        (M::SHA1_RSA_PKCS_PSS, Hash::Sha1),
        (M::SHA224_RSA_PKCS_PSS, Hash::Sha224),
        (M::SHA256_RSA_PKCS_PSS, Hash::Sha256),
        (M::SHA384_RSA_PKCS_PSS, Hash::Sha384),
        (M::SHA512_RSA_PKCS_PSS, Hash::Sha512),
    ] {
        cases.push(pss(id, hash, hash, hash.len(), LONG));
        cases.push(pss(M::RSA_PKCS_PSS, hash, hash, hash.len(), hash.len()));
    }
    cases.push(pss(M::RSA_PKCS_PSS, Hash::Sha256, Hash::Sha1, 7, 32));
    cases.push(pss(M::SHA256_RSA_PKCS_PSS, Hash::Sha256, Hash::Sha512, 0, LONG));
    let plain_ed25519 = Params::Eddsa { prehash: false, context: Box::default() };
    cases.push(Case { repeats: true, ..parameterized(M::EDDSA, &[Kind::Ed25519], plain_ed25519) });
    for (deterministic, context) in [(true, &b""[..]), (true, b"a context"), (false, &[7; 255])] {
        let params = Params::SignContext { deterministic, context: context.into() };
        cases.push(Case { repeats: deterministic, ..parameterized(M::ML_DSA, ML_DSA, params) });
    }
    cases
}

fn pss(id: M, hash: Hash, mgf: Hash, salt_len: usize, message: usize) -> Case {
    let case = parameterized(id, RSA, Params::Pss { hash, mgf, salt_len });
    Case { message, repeats: salt_len == 0, ..case }
}

fn parameterized(id: M, kinds: &'static [Kind], params: Params) -> Case {
    Case { with: Invocation { params, ..plain(id) }, kinds, message: LONG, repeats: false }
}

/// A message below every modulus.
pub fn message(len: usize, start: u8) -> Vec<u8> {
    (0..len).map(|at| if at == 0 { 1 } else { (at as u8).wrapping_mul(5).wrapping_add(start) }).collect()
}

/// Runs a test with every case, each kind of key and every backend.
fn each_case(test: impl Fn(&Client, SessionHandle, &Case, (ObjectHandle, ObjectHandle))) {
    each_backend(|provider| {
        let client = Client::new(provider);
        let session = client.user();
        let pairs = Kind::ALL.map(|kind| (kind, pair(&client, session, kind, &none())));
        for case in cases() {
            for (kind, keys) in pairs.iter().filter(|(kind, _)| case.kinds.contains(kind)) {
                println!("{} with {kind:?}", case.with.mechanism.id);
                test(&client, session, &case, *keys);
            }
        }
    });
}

#[test]
fn every_row_of_the_table_has_a_case() {
    let signing: Vec<_> = cases().iter().map(|case| case.with.mechanism.id).collect();
    let generating: Vec<_> = crate::generate::covered().collect();
    let digesting: Vec<_> = crate::digest::KNOWN.iter().map(|(id, ..)| *id).collect();
    for row in mechanism::all() {
        let covered = match row.action {
            Action::Sign(..) => signing.contains(&row.id),
            Action::Generate | Action::GeneratePair => generating.contains(&row.id),
            Action::Digest(_) => digesting.contains(&row.id),
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
                Action::Sign(..) => flag::SIGN | flag::VERIFY,
                Action::Digest(_) => flag::DIGEST,
                Action::Generate => flag::GENERATE,
                Action::GeneratePair => flag::GENERATE_KEY_PAIR,
            };
            assert_eq!(info.flags & does, does, "{}", row.id);
        }
        let unknown = client.module.mechanism(client.slot, M(0x8000_0001)).err();
        assert_eq!(unknown, Some(Error::MechanismInvalid));
    });
}

#[test]
fn one_part_and_several_parts_are_the_same_to_the_verifier() {
    each_case(|client, session, case, (public, private)| {
        let (module, with) = (&client.module, &case.with);
        let data = message(case.message, 3);
        let whole = client.sign(session, with, private, &data).expect("a signature");

        let (head, rest) = data.split_at(1);
        let (middle, tail) = rest.split_at(rest.len() / 2);
        let parts = [head, middle, b"", tail];
        module.sign_init(session, with, private).expect("an operation");
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
            assert_eq!(client.verify(session, with, public, &data, signature), Ok(()));
            module.verify_init(session, with, public).expect("an operation");
            for part in parts {
                module.verify_update(session, part).expect("a part");
            }
            assert_eq!(module.verify_final(session, signature), Ok(()));
        }
    });
}

#[test]
fn wrong_signatures_and_lengths_are_told_apart_and_end_the_operation() {
    each_case(|client, session, case, (public, private)| {
        let (module, with) = (&client.module, &case.with);
        let data = message(case.message, 3);
        let good = client.sign(session, with, private, &data).expect("a signature");
        let mut flipped = good.clone();
        *flipped.last_mut().expect("bytes") ^= 1;
        let longer = [&good[..], &[0]].concat();
        for (signature, expected) in [
            (&flipped[..], Error::SignatureInvalid),
            (&good[1..], Error::SignatureLenRange),
            (&longer, Error::SignatureLenRange),
            (&[], Error::SignatureLenRange),
        ] {
            assert_eq!(client.verify(session, with, public, &data, signature), Err(expected));
            let over = module.verify(session, &data, &good);
            assert_eq!(over, Err(Error::OperationNotInitialized));

            module.verify_init(session, with, public).expect("an operation");
            module.verify_update(session, &data).expect("a part");
            assert_eq!(module.verify_final(session, signature), Err(expected));
            assert_eq!(module.verify_final(session, &good), Err(Error::OperationNotInitialized));
        }
        let another = message(case.message, 4);
        let refused = client.verify(session, with, public, &another, &good);
        assert_eq!(refused, Err(Error::SignatureInvalid));
    });
}

#[test]
fn short_buffers_and_length_queries_keep_the_operation_active() {
    each_case(|client, session, case, (public, private)| {
        let (module, with) = (&client.module, &case.with);
        let data = message(case.message, 3);
        module.sign_init(session, with, private).expect("an operation");
        let needed = module.sign(session, &data, Output::Length).expect("a length");
        for short in [0, 1, needed - 1] {
            let refused = module.sign(session, &data, Output::Buffer(&mut vec![0; short]));
            assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
        }
        // Room to spare is left as it was.
        let mut room = vec![0xaa; needed + 9];
        assert_eq!(module.sign(session, &data, Output::Buffer(&mut room)), Ok(needed));
        assert_eq!(room[needed..], [0xaa; 9]);
        assert_eq!(client.verify(session, with, public, &data, &room[..needed]), Ok(()));
        assert_eq!(module.sign(session, &data, Output::Length), Err(Error::OperationNotInitialized));

        module.sign_init(session, with, private).expect("an operation");
        module.sign_update(session, &data).expect("a part");
        assert_eq!(module.sign_final(session, Output::Length), Ok(needed));
        let refused = module.sign_final(session, Output::Buffer(&mut vec![0; needed - 1]));
        assert_eq!(refused, Err(Error::BufferTooSmall { needed }));
        assert_eq!(module.sign_final(session, Output::Buffer(&mut room)), Ok(needed));
        assert_eq!(client.verify(session, with, public, &data, &room[..needed]), Ok(()));
    });
}

#[test]
fn an_operation_armed_again_signs_what_it_is_given_now() {
    each_case(|client, session, case, (public, private)| {
        let (module, with) = (&client.module, &case.with);
        for start in [3, 4, 3] {
            // Parts that were given up leave nothing behind.
            module.sign_init(session, with, private).expect("an operation");
            module.sign_update(session, b"given up").expect("a part");
            module.sign_cancel(session).expect("an operation");
            module.verify_init(session, with, public).expect("an operation");
            module.verify_update(session, b"given up").expect("a part");
            module.verify_cancel(session).expect("an operation");

            let data = message(case.message, start);
            let signature = client.sign(session, with, private, &data).expect("a signature");
            assert_eq!(client.verify(session, with, public, &data, &signature), Ok(()));
            module.sign_init(session, with, private).expect("an operation");
            module.sign_update(session, &data).expect("a part");
            let mut in_parts = vec![0; signature.len()];
            module.sign_final(session, Output::Buffer(&mut in_parts)).expect("a signature");
            assert_eq!(client.verify(session, with, public, &data, &in_parts), Ok(()));
            assert!(!case.repeats || in_parts == signature);
        }
    });
}
