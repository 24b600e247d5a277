//! The findings of the review of commit eb67fe51 about keys that derive, digest, wrap and unwrap,
//! and their relatives: docs/findings.md lists them. Each test fails with the rules of that commit.
//! `src/mechanism/rule.rs` has the rules.

use jeton::mechanism::sp800_108::Field;
use jeton::mechanism::tls::{Randoms, TlsPrf};

use crate::derive::{derive, value};
use crate::prelude::*;

const POLICIES: [(bool, &str); 2] = [(false, ""), (true, ", policy = { name = 'strict' }")];
const SHA256: MacFunction = MacFunction::Hmac(Hash::Sha256);
/// Runs a test with each backend, under each of the two policies.
fn each_policy(test: impl Fn(&Client, SessionHandle, bool)) {
    each_backend(|provider| {
        for (strict, configuration) in POLICIES {
            println!("strict: {strict}");
            let client = Client::with(provider, configuration);
            test(&client, client.user(), strict);
        }
    });
}

fn under_compatible(test: impl Fn(&Client, SessionHandle)) {
    each_policy(|client, session, strict| {
        if !strict {
            test(client, session);
        }
    });
}

fn secret(key_type: KeyType, len: u8, more: &Attributes) -> Attributes {
    let value: Vec<u8> = (1..=len).collect();
    key_object(ObjectClass::SECRET_KEY, key_type).bytes(A::VALUE, &value).and(more)
}

pub fn derives() -> Attributes {
    none().flag(A::DERIVE, true)
}

/// An unreadable key that can only derive.
fn victim(client: &Client, session: SessionHandle, key_type: KeyType, len: u8) -> ObjectHandle {
    client.create(session, &secret(key_type, len, &derives().and(&hidden()))).expect("a key")
}

fn own(client: &Client, session: SessionHandle, key_type: KeyType, len: u8) -> ObjectHandle {
    client.create(session, &secret(key_type, len, &derives().and(&shown()))).expect("a key")
}

pub fn len(len: u64) -> Attributes {
    none().number(A::VALUE_LEN, len)
}

fn generic(bytes: u64) -> Attributes {
    len(bytes).number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0)
}

fn sp800(prf: MacFunction, field: Field) -> (M, Params) {
    let fields = vec![Field::Iteration(None), field];
    (M::SP800_108_FEEDBACK_KDF, Params::Sp800_108 { prf, fields, iv: Box::default() })
}

fn cut(prf: MacFunction) -> (M, Params) {
    (M::IKE1_EXTENDED_DERIVE, Params::Ike1Extended { prf, shared: None, extra: Box::default() })
}

fn hkdf(salt: HkdfSalt) -> (M, Params) {
    let info = Box::default();
    (M::HKDF_DERIVE, Params::Hkdf { extract: true, expand: true, hash: Hash::Sha256, salt, info })
}

/// Returns the result of `C_DigestKey`.
pub fn digests(client: &Client, session: SessionHandle, key: ObjectHandle) -> Result<()> {
    client.digest_init(session, &plain(M::SHA256)).expect("an operation");
    let answer = client.digest_key(session, key);
    client.digest_cancel(session).expect("a session");
    answer
}

pub fn hidden() -> Attributes {
    none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false)
}

/// H2: the protection of a key in a parameter counts like that of the base key.
#[test]
fn each_key_of_a_derivation_protects_the_derived_key() {
    each_policy(|client, session, strict| {
        let base = own(client, session, KeyType::GENERIC_SECRET, 32);
        let key = victim(client, session, KeyType::GENERIC_SECRET, 32);
        for mechanism in [sp800(SHA256, Field::Key(key)), hkdf(HkdfSalt::Key(key))] {
            let read = value(client, session, mechanism.clone(), base, &generic(32));
            // PKCS#11 3.2 lets the template choose. The default is the protection.
            assert_eq!(read.err(), strict.then_some(Error::TemplateInconsistent));
            let made = derive(client, session, mechanism.clone(), base, &generic(32)).expect("a key");
            let inherits = strict || mechanism.0 == M::SP800_108_FEEDBACK_KDF;
            assert_eq!(client.flag(session, made, A::SENSITIVE), inherits, "{}", mechanism.0);
        }
        // M1: the mark for trusted wrapping keys stays too.
        let trusted =
            derives().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, true).flag(A::WRAP_WITH_TRUSTED, true);
        let trusted_alone = secret(KeyType::GENERIC_SECRET, 32, &trusted);
        let seed_key = Some(client.create(session, &trusted_alone).expect("a key"));
        let params = Params::Ike2PrfPlus { prf: SHA256, seed_key, seed: Box::from([1]) };
        let mechanism = (M::IKE2_PRF_PLUS_DERIVE, params);
        let made = derive(client, session, mechanism.clone(), base, &generic(32)).expect("a key");
        assert!(client.flag(session, made, A::WRAP_WITH_TRUSTED));
        let without = generic(32).flag(A::WRAP_WITH_TRUSTED, false);
        assert_eq!(derive(client, session, mechanism, base, &without), Err(Error::TemplateInconsistent));
    });
}

/// H3 under strict: IKEv1 cuts a key for a cipher. The cut key enciphers and does nothing else.
#[test]
fn the_start_of_an_unreadable_key_only_enciphers() {
    each_policy(|client, session, strict| {
        let key = victim(client, session, KeyType::GENERIC_SECRET, 32);
        if strict {
            let refused = derive(client, session, cut(SHA256), key, &generic(31));
            assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
            return;
        }
        for usage in [A::DERIVE, A::SIGN, A::VERIFY] {
            let template = generic(31).flag(usage, true);
            let refused = derive(client, session, cut(SHA256), key, &template);
            assert_eq!(refused, Err(Error::TemplateInconsistent), "{usage}");
        }
        let made = derive(client, session, cut(SHA256), key, &generic(31)).expect("a key");
        assert_eq!(digests(client, session, made), Err(Error::KeyIndigestible));
        assert_eq!(client.set(session, made, &derives()), Err(Error::AttributeReadOnly));
        assert!(client.copy(session, made, &none().flag(A::SIGN, true)).is_err());
        let aes = len(16).number(A::KEY_TYPE, KeyType::AES.0).flag(A::ENCRYPT, true);
        let aes = derive(client, session, cut(SHA256), key, &aes).expect("a key");
        let mechanism = with_iv(M::AES_CBC_PAD, &[1; 16]);
        client.crypt(session, Direction::Encrypt, &mechanism, aes, b"data").expect("a ciphertext");
        assert!(!client.flag(session, aes, A::SIGN));
    });
}

/// A relative of H3: a derivation at two lengths gives two keys that differ in a few bytes.
#[test]
fn a_short_result_of_a_derivation_only_enciphers() {
    each_policy(|client, session, strict| {
        let key = victim(client, session, KeyType::GENERIC_SECRET, 32);
        let made = |mechanism, bytes| {
            let template = generic(bytes).and(&hidden()).flag(A::DERIVE, true);
            derive(client, session, mechanism, key, &template)
        };
        let hash = || (M::SHA256_KEY_DERIVATION, Params::None);
        for bytes in [16, 32] {
            made(hkdf(HkdfSalt::Null), bytes).expect("a key");
            made(hash(), bytes).expect("a key");
        }
        for bytes in [17, 20, 31] {
            assert_eq!(made(hkdf(HkdfSalt::Null), bytes), Err(Error::TemplateInconsistent));
            assert_eq!(made(hash(), bytes), Err(Error::TemplateInconsistent));
        }
        let template = generic(31).and(&hidden());
        let short = derive(client, session, hash(), key, &template).expect("a key");
        assert_eq!(digests(client, session, short), Err(Error::KeyIndigestible));
        assert!(!client.flag(session, short, A::SIGN));
        // A readable result can be cut by anyone.
        if !strict {
            value(client, session, hash(), key, &generic(31)).expect("a value");
        }
    });
}

/// A relative of H3: the PRF of TLS 1.0 reads the halves of its key apart. With known bytes behind
/// a key, a half ends after any byte of it.
#[test]
fn a_concatenation_only_derives_and_not_by_halves() {
    under_compatible(|client, session| {
        let key = victim(client, session, KeyType::GENERIC_SECRET, 32);
        let joining = || (M::CONCATENATE_BASE_AND_DATA, Params::Data([0; 30].into()));
        for usage in [A::SIGN, A::VERIFY] {
            let refused = derive(client, session, joining(), key, &none().flag(usage, true));
            assert_eq!(refused, Err(Error::TemplateInconsistent), "{usage}");
        }
        let joined = derive(client, session, joining(), key, &derives()).expect("a key");
        let tls = Params::TlsPrf { seed: [1].into(), label: [2].into(), len: 16 };
        let refused = derive(client, session, (M::TLS_PRF, tls.clone()), joined, &none());
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        let randoms = Randoms { client: [1; 32].into(), server: [2; 32].into() };
        let old = Params::TlsMaster { prf: TlsPrf::Md5Sha1, randoms: randoms.clone() };
        let refused = derive(client, session, (M::TLS_MASTER_KEY_DERIVE_DH, old), joined, &none());
        assert_eq!(refused, Err(Error::KeyFunctionNotPermitted));
        // Two secrets in one KDF: ECDH and ML-KEM, or a pre-shared key.
        let other = victim(client, session, KeyType::GENERIC_SECRET, 16);
        let both = (M::CONCATENATE_BASE_AND_KEY, Params::Key(other));
        let both = derive(client, session, both, joined, &derives()).expect("a key");
        for mechanism in [hkdf(HkdfSalt::Null), (M::SHA256_KEY_DERIVATION, Params::None)] {
            derive(client, session, mechanism, both, &generic(32)).expect("a key");
        }
        let new = Params::TlsMaster { prf: TlsPrf::Hash(Hash::Sha256), randoms };
        derive(client, session, (M::TLS12_MASTER_KEY_DERIVE_DH, new), joined, &none()).expect("a key");
    });
}

/// M5: a wrapped EC key has its public key, which must belong to it.
#[test]
fn an_unwrapped_private_key_belongs_to_its_public_key() {
    under_compatible(|client, session| {
        let aes = secret(KeyType::AES, 32, &none());
        let by = client.create(session, &aes).expect("a key");
        let (public, private) =
            client.generate(session, M::EC_KEY_PAIR_GEN, &Kind::P256.request(), &shown()).expect("a pair");
        let cbc = with_iv(M::AES_CBC_PAD, &[3; 16]);
        let wrapped = client.wrap(session, &cbc, by, private).expect("a wrapped key");
        let mut der = client.crypt(session, Direction::Decrypt, &cbc, by, &wrapped).expect("DER");
        let point = client.read(session, public, A::EC_POINT).expect("a point");
        assert!(der.windows(65).any(|window| window == &point[2..]), "the DER has the point");
        let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC);
        let mut unwrap = |change: &dyn Fn(&mut Vec<u8>)| {
            change(&mut der);
            let wrapped = client.crypt(session, Direction::Encrypt, &cbc, by, &der).expect("a ciphertext");
            client.unwrap(session, &cbc, by, &wrapped, &template).map(drop)
        };
        assert_eq!(unwrap(&|_| {}), Ok(()));
        // A bit of the scalar, and then a bit of the point.
        let scalar = |der: &mut Vec<u8>| {
            let at = der.windows(2).position(|window| window == [4, 32]).expect("a scalar");
            der[at + 33] ^= 1;
        };
        assert_eq!(unwrap(&scalar), Err(Error::WrappedKeyInvalid));
        assert_eq!(unwrap(&scalar), Ok(()));
        let last = |der: &mut Vec<u8>| *der.last_mut().expect("a point") ^= 1;
        assert_eq!(unwrap(&last), Err(Error::WrappedKeyInvalid));
        // The key names its curve outside and inside.
        let with_curve = |own: &[u8]| {
            let key = [b"\x02\x01\x01\x04\x20", &[7; 32][..], &[0xa0, own.len() as u8], own].concat();
            let key = [&[4, key.len() as u8 + 2, 0x30, key.len() as u8], &key[..]].concat();
            let algorithm = [b"\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01", P256].concat();
            [&[0x30, (algorithm.len() + key.len()) as u8], &algorithm[..], &key].concat()
        };
        assert_eq!(unwrap(&|der| *der = with_curve(P256)), Ok(()));
        assert_eq!(unwrap(&|der| *der = with_curve(SECP256K1)), Err(Error::WrappedKeyInvalid));
    });
}

/// M7 of the review of cb7123e8: HKDF is an extract step and an expand step.
#[test]
fn what_a_template_hides_stays_hidden_in_two_steps() {
    each_policy(|client, session, _| {
        let base = secret(KeyType::GENERIC_SECRET, 32, &derives().flag(A::SENSITIVE, true));
        let base = client.create_with(session, &base, A::DERIVE_TEMPLATE, &hidden()).expect("a key");
        let step = |extract| {
            let (salt, info) = (HkdfSalt::Null, Box::default());
            let hash = Hash::Sha256;
            (M::HKDF_DERIVE, Params::Hkdf { extract, expand: !extract, hash, salt, info })
        };
        let middle = derive(client, session, step(true), base, &generic(32).and(&derives()));
        let middle = middle.expect("a key between the steps");
        let readable = derive(client, session, step(false), middle, &generic(32).and(&shown()));
        assert_eq!(readable, Err(Error::TemplateInconsistent));
        assert_eq!(digests(client, session, middle), Err(Error::KeyIndigestible));
        let last = derive(client, session, step(false), middle, &generic(32)).expect("a hidden key");
        assert_eq!(client.read(session, last, A::VALUE), Err(Error::AttributeSensitive));
    });
}

fn extract(bit: u64) -> (M, Params) {
    (M::EXTRACT_KEY_FROM_KEY, Params::Bit(bit))
}

/// Creates an unreadable key with this `CKA_DERIVE_TEMPLATE`.
fn with_roles(client: &Client, session: SessionHandle, len: u8, forced: Template<'_>) -> ObjectHandle {
    let kept = derives().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
    let key = secret(KeyType::GENERIC_SECRET, len, &kept);
    let mut template = key.template();
    template.0.push(Given { id: A::DERIVE_TEMPLATE, value: Raw::Template(forced) });
    client.create_object(session, &template).expect("a key")
}

/// A code by the key of the first step of a derivation is the key that both steps give.
#[test]
fn no_key_that_signs_is_a_step_of_a_derivation() {
    each_policy(|client, session, strict| {
        let signs = none().flag(A::SIGN, true);
        let known = own(client, session, KeyType::GENERIC_SECRET, 32);
        let signing = with_roles(client, session, 32, signs.template());
        let long = with_roles(client, session, 65, signs.template());
        let step = |salt, expand| {
            let info = Box::from(*b"info");
            let params = Params::Hkdf { extract: true, expand, hash: Hash::Sha256, salt, info };
            (M::HKDF_DERIVE, params)
        };
        let ike = |data_as_key, new_key| {
            let params = Params::IkePrf { prf: SHA256, data_as_key, nonces: Box::default(), new_key };
            (M::IKE_PRF_DERIVE, params)
        };
        let digest = || (M::SHA256_KEY_DERIVATION, Params::None);
        let hidden = generic(32).flag(A::SENSITIVE, true);
        let derive = |how, base| derive(client, session, how, base, &hidden);
        for (name, how, base, refused) in [
            ("both steps of HKDF", step(HkdfSalt::Null, true), signing, false),
            ("the first step", step(HkdfSalt::Null, false), signing, true),
            ("the first step with this salt", step(HkdfSalt::Key(signing), false), known, false),
            ("both steps with this salt", step(HkdfSalt::Key(signing), true), known, true),
            ("the first step by IKE", ike(true, None), signing, true),
            ("the first step by IKE with a new key", ike(false, Some(signing)), known, true),
            ("the first step by SP 800-108", sp800(SHA256, Field::Key(signing)), known, true),
            ("a digest", digest(), signing, false),
            ("the digest that HMAC takes for a key", digest(), long, true),
        ] {
            let made = derive(how, base);
            assert_eq!(made.err(), (refused && strict).then_some(Error::KeyFunctionNotPermitted), "{name}");
        }
    });
}

/// A copy would give what is derived from it the attributes of the next step.
#[test]
fn a_copy_of_a_key_keeps_its_derive_template() {
    each_policy(|client, session, strict| {
        let inner = derives();
        let forced = derives().flag(A::SENSITIVE, true);
        let base = with_roles(client, session, 32, forced.within(A::DERIVE_TEMPLATE, &inner));
        let mask = (M::XOR_BASE_AND_DATA, Params::Data([0; 32].into()));
        for (mechanism, params) in [mask, cut(SHA256), extract(0)] {
            let off = strict && mechanism != M::IKE1_EXTENDED_DERIVE;
            let made = derive(client, session, (mechanism, params), base, &generic(32));
            let expected = match (strict, off) {
                (_, true) => Error::MechanismInvalid,
                (true, _) => Error::KeyFunctionNotPermitted,
                _ => Error::TemplateInconsistent,
            };
            assert_eq!(made, Err(expected), "{mechanism}");
        }
    });
}

/// A derived key of 48 bytes is no pre-master secret, whose first two bytes the caller gets.
#[test]
fn a_derived_key_returns_no_version() {
    each_policy(|client, session, strict| {
        let key = victim(client, session, KeyType::GENERIC_SECRET, 32);
        let template = generic(48).and(&derives()).flag(A::SENSITIVE, true);
        let derived = derive(client, session, hkdf(HkdfSalt::Null), key, &template).expect("a key");
        let version = Mechanism { params: Params::Version([3, 3]), ..plain(M::TLS_PRE_MASTER_KEY_GEN) };
        let template = derives().flag(A::SENSITIVE, true);
        let made = client.module.generate_key(session, &version, &template.template()).expect("a key");
        for (base, refused) in [(derived, strict), (made, false)] {
            let randoms = Randoms { client: [1; 32].into(), server: [2; 32].into() };
            let params = Params::TlsMaster { prf: TlsPrf::Hash(Hash::Sha256), randoms };
            let master = (M::TLS12_MASTER_KEY_DERIVE, params);
            let made = derive(client, session, master, base, &derives().flag(A::SENSITIVE, true));
            assert_eq!(made.err(), refused.then_some(Error::KeyTypeInconsistent));
        }
    });
}
