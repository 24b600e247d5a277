//! The findings of the review of commit eb67fe51 about keys that derive, digest, wrap and unwrap,
//! and their relatives: docs/findings.md lists them. Each test fails with the rules of that commit.
//! `src/mechanism/rule.rs` has the rules.

use jeton::backend::{AeadScheme, CipherScheme, Hash};
use jeton::error::{Error, Result};
use jeton::id::{AttributeType as A, KeyType, MechanismType as M, ObjectClass, ObjectHandle, SessionHandle};
use jeton::mechanism::message::{Generator, MessageParams};
use jeton::mechanism::sp800_108::Field;
use jeton::mechanism::tls::{Randoms, TlsPrf};
use jeton::mechanism::{HkdfSalt, MacFunction, Mechanism, Params};
use jeton::module::{Authenticated, Output, User};
use jeton::object::template::{Given, Raw, Template};

use crate::ciphers::Way;
use crate::derive::{derive, shown, value};
use crate::keys::{Kind, P256, key_object};
use crate::support::{Attributes, Client, SO_PIN, aead_params, each_backend, none, plain, with_iv};

const POLICIES: [(bool, &str); 2] = [(false, ""), (true, ", policy = { name = 'strict' }")];
const SHA256: MacFunction = MacFunction::Hmac(Hash::Sha256);
const CMAC: MacFunction = MacFunction::AesCmac;

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

fn derives() -> Attributes {
    none().flag(A::DERIVE, true)
}

/// An unreadable key that can only derive.
fn victim(client: &Client, session: SessionHandle, key_type: KeyType, len: u8) -> ObjectHandle {
    let kept = derives().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
    client.create(session, &secret(key_type, len, &kept)).expect("a key")
}

/// A key of the attacker.
fn own(client: &Client, session: SessionHandle, key_type: KeyType, len: u8) -> ObjectHandle {
    client.create(session, &secret(key_type, len, &derives().and(&shown()))).expect("a key")
}

/// Creates a key with a template attribute that makes other keys unreadable.
fn with_template(client: &Client, session: SessionHandle, key: &Attributes, id: A) -> ObjectHandle {
    let forced = none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
    let mut template = key.template();
    template.0.push(Given { id, value: Raw::Template(forced.template()) });
    client.module.create_object(session, &template).expect("a key")
}

fn len(len: u64) -> Attributes {
    none().number(A::VALUE_LEN, len)
}

fn generic(bytes: u64) -> Attributes {
    len(bytes).number(A::KEY_TYPE, KeyType::GENERIC_SECRET.0)
}

fn sp800(prf: MacFunction, field: Field) -> (M, Params) {
    let fields = vec![Field::Iteration(None), field];
    (M::SP800_108_FEEDBACK_KDF, Params::Sp800_108 { prf, fields, iv: Box::default() })
}

fn prf_plus(prf: MacFunction, seed_key: Option<ObjectHandle>) -> (M, Params) {
    (M::IKE2_PRF_PLUS_DERIVE, Params::Ike2PrfPlus { prf, seed_key, seed: Box::from([1]) })
}

fn cut(prf: MacFunction) -> (M, Params) {
    (M::IKE1_EXTENDED_DERIVE, Params::Ike1Extended { prf, shared: None, extra: Box::default() })
}

fn hkdf(salt: HkdfSalt) -> (M, Params) {
    let info = Box::default();
    (M::HKDF_DERIVE, Params::Hkdf { extract: true, expand: true, hash: Hash::Sha256, salt, info })
}

fn extract(bit: u64) -> (M, Params) {
    (M::EXTRACT_KEY_FROM_KEY, Params::Bit(bit))
}

fn digests(client: &Client, session: SessionHandle, key: ObjectHandle) -> Result<()> {
    client.module.digest_init(session, &plain(M::SHA256)).expect("an operation");
    let answer = client.module.digest_key(session, key);
    client.module.digest_cancel(session).expect("a session");
    answer
}

fn wrap(
    client: &Client,
    session: SessionHandle,
    with: &Mechanism,
    by: ObjectHandle,
    key: ObjectHandle,
) -> Result<Vec<u8>> {
    let mut out = vec![0; 512];
    let len = client.module.wrap_key(session, with, by, key, Output::Buffer(&mut out))?;
    out.truncate(len);
    Ok(out)
}

fn seal(
    client: &Client,
    session: SessionHandle,
    (generator, fixed_bits): (Generator, usize),
    by: ObjectHandle,
    key: ObjectHandle,
) -> Result<usize> {
    let mut params = MessageParams::new(AeadScheme::AesGcm, &[5; 12], 16)?;
    params.set_generator(generator, fixed_bits)?;
    let mechanism = plain(M::AES_GCM);
    let how = Authenticated { mechanism: &mechanism, params: &mut params, aad: &[] };
    client.module.wrap_key_authenticated(session, how, by, key, Output::Buffer(&mut [0; 512]))
}

fn seal_with_params(
    client: &Client,
    session: SessionHandle,
    fixed_bits: usize,
    by: ObjectHandle,
    key: ObjectHandle,
) -> Result<usize> {
    let mut message = MessageParams::new(AeadScheme::AesGcm, &[5; 12], 16)?;
    message.set_generator(Generator::Random, fixed_bits)?;
    let params = aead_params(AeadScheme::AesGcm, &[5; 12], &[], 16, 0);
    let mut mechanism = Mechanism { params, ..plain(M::AES_GCM) };
    let out = Output::Buffer(&mut [0; 512]);
    client.module.wrap_key_with_nonce(session, (&mut mechanism, &mut message), by, key, out)
}

/// Creates a trusted key that wraps, and has these usages too.
fn trusted(client: &Client, session: SessionHandle, usages: &[A]) -> ObjectHandle {
    let all = [A::ENCRYPT, A::DECRYPT, A::SIGN, A::VERIFY, A::DERIVE, A::UNWRAP];
    let key = none().stored().flag(A::PRIVATE, false).flag(A::WRAP, true).flag(A::SENSITIVE, true);
    let key = all.iter().fold(key, |key, id| key.flag(*id, usages.contains(id)));
    let key = client.create(session, &secret(KeyType::AES, 32, &key.flag(A::EXTRACTABLE, false)));
    let key = key.expect("a key");
    client.module.logout(session).expect("the user");
    client.module.login(session, User::SecurityOfficer, SO_PIN).expect("the SO");
    client.set(session, key, &none().flag(A::TRUSTED, true)).expect("trust");
    client.module.logout(session).expect("the SO");
    client.login(session);
    key
}

fn only_with_trusted() -> Attributes {
    none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, true).flag(A::WRAP_WITH_TRUSTED, true)
}

/// H1: two keys that a caller wraps under the same nonce have a known XOR. One of them is his.
#[test]
fn a_trusted_wrapping_key_takes_no_nonce_of_the_caller() {
    each_policy(|client, session, strict| {
        let by = trusted(client, session, &[]);
        let ca = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC).bytes(A::EC_PARAMS, P256);
        let ca = ca.bytes(A::VALUE, &[7; 32]).flag(A::SIGN, true).flag(A::DERIVE, false);
        let ca = client.create(session, &ca.and(&only_with_trusted())).expect("a key");
        let mine = none().flag(A::SIGN, true).and(&shown());
        let mine = client.create(session, &secret(KeyType::GENERIC_SECRET, 32, &mine)).expect("a key");
        let gcm = aead_params(AeadScheme::AesGcm, &[5; 12], &[], 16, 0);
        let ccm = aead_params(AeadScheme::AesCcm, &[5; 12], &[], 16, 32);
        let ctr = Params::Cipher(CipherScheme::AesCtr { block: [1; 16], bits: 128 });
        for key in [mine, ca] {
            for (id, params) in [(M::AES_GCM, gcm.clone()), (M::AES_CCM, ccm.clone())] {
                let refused = wrap(client, session, &Mechanism { params, ..plain(id) }, by, key);
                assert_eq!(refused, Err(Error::MechanismParamInvalid), "{id}");
            }
            for (generator, fixed_bits) in
                [(Generator::None, 0), (Generator::Random, 1), (Generator::Any, 96), (Generator::Random, 32)]
            {
                let refused = seal(client, session, (generator, fixed_bits), by, key);
                assert_eq!(refused, Err(Error::MechanismParamInvalid), "{generator:?} {fixed_bits}");
            }
            assert_eq!(seal_with_params(client, session, 8, by, key), Err(Error::MechanismParamInvalid));
            // The block that makes the key stream shows it as well.
            for mechanism in [
                Mechanism { params: ctr.clone(), ..plain(M::AES_CTR) },
                with_iv(M::AES_OFB, &[1; 16]),
                with_iv(M::AES_CBC_PAD, &[1; 16]),
            ] {
                let refused = wrap(client, session, &mechanism, by, key);
                let error = if strict { Error::MechanismInvalid } else { Error::KeyFunctionNotPermitted };
                assert_eq!(refused, Err(error), "{}", mechanism.info.id);
            }
            wrap(client, session, &plain(M::AES_KEY_WRAP_KWP), by, key).expect("a wrapped key");
            seal(client, session, (Generator::Any, 0), by, key).expect("a wrapped key");
            seal_with_params(client, session, 0, by, key).expect("a wrapped key");
        }
    });
}

/// A relative of H1: KWP of a key of at most 8 bytes is one block, which may make a key stream.
#[test]
fn a_trusted_wrapping_key_wraps_no_key_of_a_single_block() {
    under_compatible(|client, session| {
        let by = trusted(client, session, &[]);
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        for (len, answer) in
            [(1, Err(Error::KeyFunctionNotPermitted)), (8, Err(Error::KeyFunctionNotPermitted)), (9, Ok(()))]
        {
            let mine =
                client.create(session, &secret(KeyType::GENERIC_SECRET, len, &shown())).expect("a key");
            assert_eq!(wrap(client, session, &kwp, by, mine).map(drop), answer, "{len}");
        }
    });
}

/// A relative of H1: the caller encrypts under the nonce of a wrapped key.
#[test]
fn a_wrapping_key_with_other_usages_wraps_unreadable_keys_as_a_whole_only() {
    under_compatible(|client, session| {
        let by = trusted(client, session, &[A::ENCRYPT]);
        let key = secret(KeyType::AES, 16, &only_with_trusted());
        let key = client.create(session, &key).expect("a key");
        for refused in [
            wrap(client, session, &plain(M::AES_ECB), by, key).map(drop),
            wrap(client, session, &with_iv(M::AES_CBC, &[1; 16]), by, key).map(drop),
            seal(client, session, (Generator::Any, 0), by, key).map(drop),
        ] {
            assert_eq!(refused, Err(Error::KeyNotWrappable));
        }
        wrap(client, session, &plain(M::AES_KEY_WRAP), by, key).expect("a wrapped key");
        // A readable key has nothing to hide.
        let mine = client.create(session, &secret(KeyType::AES, 16, &shown())).expect("a key");
        wrap(client, session, &plain(M::AES_ECB), by, mine).expect("a wrapped key");
        seal(client, session, (Generator::None, 0), by, mine).expect("a wrapped key");
    });
}

/// A relative of H1: a copy of the trusted key is not trusted, but it has its value.
#[test]
fn a_copy_of_a_trusted_key_gets_no_other_usage() {
    under_compatible(|client, session| {
        let by = trusted(client, session, &[]);
        let copy = client.copy(session, by, &none()).expect("a copy");
        let set = client.set(session, copy, &none().flag(A::DECRYPT, true));
        assert_eq!(set, Err(Error::ActionProhibited));
        let raised = client.copy(session, by, &none().flag(A::MODIFIABLE, true));
        assert_eq!(raised, Err(Error::TemplateInconsistent));
        let mine = client.create(session, &secret(KeyType::AES, 16, &shown())).expect("a key");
        let refused = seal(client, session, (Generator::None, 0), copy, mine);
        assert_eq!(refused, Err(Error::MechanismParamInvalid));
    });
}

/// H2 and M1: CMAC under a known key is a permutation of its message.
#[test]
fn an_unreadable_key_is_never_the_message_of_a_block_cipher() {
    each_policy(|client, session, strict| {
        let known = own(client, session, KeyType::AES, 16);
        let refused = Err(Error::KeyFunctionNotPermitted);
        // Under *strict* IKE has no block cipher.
        let error = if strict { Error::MechanismParamInvalid } else { Error::KeyFunctionNotPermitted };
        let refused_in_ike = Err(error);
        let trusted_alone = derives().and(&only_with_trusted());
        let trusted_alone = secret(KeyType::AES, 16, &trusted_alone);
        let trusted_alone = client.create(session, &trusted_alone).expect("a key");
        for key in [victim(client, session, KeyType::AES, 16), trusted_alone] {
            let with_key = sp800(CMAC, Field::Key(key));
            assert_eq!(derive(client, session, with_key, known, &generic(16)), refused);
            assert_eq!(
                derive(client, session, prf_plus(CMAC, Some(key)), known, &generic(16)),
                refused_in_ike
            );
        }
        // IKE compresses a long key with CMAC under a key of zeros.
        let long = victim(client, session, KeyType::AES, 32);
        assert_eq!(derive(client, session, prf_plus(CMAC, None), long, &generic(16)), refused_in_ike);
        // The nonces of the caller are the key of the MAC.
        let nonces = Box::from([0; 16]);
        let secret = victim(client, session, KeyType::GENERIC_SECRET, 16);
        let first = Params::IkePrf { prf: CMAC, data_as_key: true, nonces, new_key: None };
        assert_eq!(derive(client, session, (M::IKE_PRF_DERIVE, first), secret, &generic(16)), refused_in_ike);
        // HMAC hides its message, and CMAC its key.
        let hmac = sp800(SHA256, Field::Key(secret));
        let base = own(client, session, KeyType::GENERIC_SECRET, 32);
        derive(client, session, hmac, base, &generic(32).and(&hidden())).expect("a key");
        let base = victim(client, session, KeyType::AES, 16);
        derive(client, session, sp800(CMAC, Field::Bytes([1].into())), base, &generic(16).and(&hidden()))
            .expect("a key");
    });
}

fn hidden() -> Attributes {
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
        let trusted_alone = secret(KeyType::GENERIC_SECRET, 32, &derives().and(&only_with_trusted()));
        let trusted_alone = client.create(session, &trusted_alone).expect("a key");
        let mechanism = prf_plus(SHA256, Some(trusted_alone));
        let made = derive(client, session, mechanism.clone(), base, &generic(32)).expect("a key");
        assert!(client.flag(session, made, A::WRAP_WITH_TRUSTED));
        let without = generic(32).flag(A::WRAP_WITH_TRUSTED, false);
        assert_eq!(derive(client, session, mechanism, base, &without), Err(Error::TemplateInconsistent));
    });
}

/// H3: equal results of two derivations show equal keys, so no two keys may differ in one byte.
#[test]
fn an_unreadable_key_is_neither_cut_nor_rotated() {
    under_compatible(|client, session| {
        let key = victim(client, session, KeyType::GENERIC_SECRET, 32);
        let code = |mechanism, template: &Attributes| derive(client, session, mechanism, key, template).err();
        for bit in [1, 8, 128, 248] {
            assert_eq!(code(extract(bit), &len(32)), Some(Error::MechanismParamInvalid), "{bit}");
        }
        for short in [16, 31] {
            assert_eq!(code(extract(0), &len(short)), Some(Error::KeySizeRange));
            let mask = Params::Data(vec![0; short as usize].into());
            assert_eq!(code((M::XOR_BASE_AND_DATA, mask), &none()), Some(Error::KeySizeRange));
        }
        assert_eq!(code(extract(0), &len(32)), None);
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
        let raised = client.set(session, made, &derives());
        assert_eq!(raised, Err(Error::AttributeReadOnly));
        let copied = client.copy(session, made, &none().flag(A::SIGN, true));
        assert!(copied.is_err());
        let aes = len(16).number(A::KEY_TYPE, KeyType::AES.0).flag(A::ENCRYPT, true);
        let aes = derive(client, session, cut(SHA256), key, &aes).expect("a key");
        let mechanism = with_iv(M::AES_CBC_PAD, &[1; 16]);
        Way::Encrypt.whole(client, session, &mechanism, aes, b"data").expect("a ciphertext");
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

/// A wrapped key has no mark, so a part of a key would be a whole key after it is unwrapped.
#[test]
fn a_concatenation_of_an_unreadable_key_is_not_wrapped() {
    under_compatible(|client, session| {
        let by = trusted(client, session, &[]);
        let key = secret(KeyType::GENERIC_SECRET, 32, &derives().and(&only_with_trusted()));
        let key = client.create(session, &key).expect("a key");
        let joining = (M::CONCATENATE_BASE_AND_DATA, Params::Data([0; 8].into()));
        let joined = derive(client, session, joining, key, &derives()).expect("a key");
        let kwp = plain(M::AES_KEY_WRAP_KWP);
        assert_eq!(wrap(client, session, &kwp, by, joined), Err(Error::KeyNotWrappable));
        wrap(client, session, &kwp, by, key).expect("a wrapped key");
    });
}

/// M2: `C_DigestKey` is a derivation whose result everyone reads.
#[test]
fn digest_key_gives_no_result_that_the_key_hides() {
    each_policy(|client, session, strict| {
        let plain_key = victim(client, session, KeyType::GENERIC_SECRET, 32);
        let refused = Err(Error::KeyIndigestible);
        assert_eq!(digests(client, session, plain_key), if strict { refused } else { Ok(()) });
        let bound = secret(KeyType::GENERIC_SECRET, 32, &derives().and(&hidden()));
        let bound = with_template(client, session, &bound, A::DERIVE_TEMPLATE);
        assert_eq!(digests(client, session, bound), refused);
        let tls = Params::TlsPrf { seed: [1].into(), label: [2].into(), len: 16 };
        if !strict {
            let refused = derive(client, session, (M::TLS_PRF, tls), bound, &none());
            assert_eq!(refused, Err(Error::TemplateInconsistent));
        }
        // The initialisation vectors are a part of the key block.
        let randoms = Randoms { client: [1; 32].into(), server: [2; 32].into() };
        let prf = TlsPrf::Hash(Hash::Sha256);
        let master = secret(KeyType::GENERIC_SECRET, 48, &derives().and(&hidden()));
        let master = with_template(client, session, &master, A::DERIVE_TEMPLATE);
        let keys = Params::TlsKeys { prf, randoms, mac_len: 0, key_len: 0, iv_len: 16 };
        let refused = derive(client, session, (M::TLS12_KEY_AND_MAC_DERIVE, keys), master, &none());
        assert_eq!(refused, Err(Error::TemplateInconsistent));
    });
}

/// M3: the `CKA_DERIVE_TEMPLATE` of each key of a derivation applies.
#[test]
fn the_derive_template_of_a_second_key_applies() {
    each_policy(|client, session, _| {
        let base = own(client, session, KeyType::GENERIC_SECRET, 32);
        let bound = secret(KeyType::GENERIC_SECRET, 32, &derives().and(&hidden()));
        let bound = with_template(client, session, &bound, A::DERIVE_TEMPLATE);
        for mechanism in
            [hkdf(HkdfSalt::Key(bound)), sp800(SHA256, Field::Key(bound)), prf_plus(SHA256, Some(bound))]
        {
            let read = value(client, session, mechanism.clone(), base, &generic(32));
            assert_eq!(read, Err(Error::TemplateInconsistent), "{}", mechanism.0);
            let made = derive(client, session, mechanism, base, &generic(32)).expect("a key");
            assert!(client.flag(session, made, A::SENSITIVE) && !client.flag(session, made, A::EXTRACTABLE));
        }
        let (_, params) = hkdf(HkdfSalt::Key(bound));
        let data = Attributes::of(ObjectClass::DATA).number(A::VALUE_LEN, 32);
        let refused = derive(client, session, (M::HKDF_DATA, params), base, &data);
        assert_eq!(refused, Err(Error::TemplateInconsistent));
    });
}

/// M5: a changed bit of an unauthenticated wrapped key is a changed bit of the key, which its
/// public key shows.
#[test]
fn a_key_that_a_template_protects_is_unwrapped_authentic() {
    under_compatible(|client, session| {
        let aes = secret(KeyType::AES, 32, &none().flag(A::WRAP, true).flag(A::UNWRAP, true));
        let by = client.create(session, &aes).expect("a key");
        let bound = with_template(client, session, &aes, A::UNWRAP_TEMPLATE);
        let (_, private) =
            client.generate(session, M::EC_KEY_PAIR_GEN, &Kind::P256.request(), &shown()).expect("a pair");
        let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC);
        let unwrap = |mechanism: &Mechanism, key, wrapped: &[u8]| {
            client.module.unwrap_key(session, mechanism, key, wrapped, &template.template())
        };
        let ctr = Params::Cipher(CipherScheme::AesCtr { block: [1; 16], bits: 128 });
        let tag = |len| {
            Params::Cipher(CipherScheme::Aead {
                cipher: AeadScheme::AesGcm,
                nonce: [5; 12].into(),
                aad: Box::default(),
                tag_len: len,
                data_len: 0,
            })
        };
        for (mechanism, malleable) in [
            (Mechanism { params: ctr, ..plain(M::AES_CTR) }, true),
            (with_iv(M::AES_CBC_PAD, &[3; 16]), true),
            (with_iv(M::AES_OFB, &[3; 16]), true),
            (Mechanism { params: tag(4), ..plain(M::AES_GCM) }, true),
            (Mechanism { params: tag(16), ..plain(M::AES_GCM) }, false),
            (plain(M::AES_KEY_WRAP_KWP), false),
        ] {
            let wrapped = wrap(client, session, &mechanism, by, private).expect("a wrapped key");
            unwrap(&mechanism, by, &wrapped).expect("a key");
            let made = unwrap(&mechanism, bound, &wrapped).map(drop);
            let refused = Err(Error::KeyFunctionNotPermitted);
            assert_eq!(made, if malleable { refused } else { Ok(()) }, "{}", mechanism.info.id);
        }
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
        let wrapped = wrap(client, session, &cbc, by, private).expect("a wrapped key");
        let mut der = Way::Decrypt.whole(client, session, &cbc, by, &wrapped).expect("DER");
        let point = client.read(session, public, A::EC_POINT).expect("a point");
        assert!(der.windows(65).any(|window| window == &point[2..]), "the DER has the point");
        let template = key_object(ObjectClass::PRIVATE_KEY, KeyType::EC);
        let mut unwrap = |change: &dyn Fn(&mut Vec<u8>)| {
            change(&mut der);
            let wrapped = Way::Encrypt.whole(client, session, &cbc, by, &der).expect("a ciphertext");
            client.module.unwrap_key(session, &cbc, by, &wrapped, &template.template()).map(drop)
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
    });
}

/// M7 of the review of cb7123e8: HKDF is an extract step and an expand step.
#[test]
fn what_a_template_hides_stays_hidden_in_two_steps() {
    each_policy(|client, session, _| {
        let base = secret(KeyType::GENERIC_SECRET, 32, &derives().flag(A::SENSITIVE, true));
        let base = with_template(client, session, &base, A::DERIVE_TEMPLATE);
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

/// Creates an unreadable key with this `CKA_DERIVE_TEMPLATE`.
fn with_roles(client: &Client, session: SessionHandle, len: u8, forced: Template<'_>) -> ObjectHandle {
    let kept = derives().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
    let key = secret(KeyType::GENERIC_SECRET, len, &kept);
    let mut template = key.template();
    template.0.push(Given { id: A::DERIVE_TEMPLATE, value: Raw::Template(forced) });
    client.module.create_object(session, &template).expect("a key")
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
