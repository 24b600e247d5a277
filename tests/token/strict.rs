//! Tests of the policy *strict*. `src/config/strict.rs` has its rules. Most tests also check that
//! *compatible* allows the same call.

use jeton::id::mechanism_flag as does;
use jeton::mechanism::message::{Generator, MessageParams};

use crate::prelude::*;

const STRICT: &str = ", mechanisms = { legacy = true }, policy = { name = 'strict' }";
const COMPATIBLE: &str = ", mechanisms = { legacy = true }, policy = { name = 'compatible' }";
/// The usages of each role of a secret key.
const ROLES: [&[A]; 4] =
    [&[A::ENCRYPT, A::DECRYPT], &[A::WRAP, A::UNWRAP], &[A::SIGN, A::VERIFY], &[A::DERIVE]];

/// Runs a test with each backend, under each of the two policies.
fn each_policy(test: impl Fn(&Client, SessionHandle, bool)) {
    for (strict, configuration) in [(false, COMPATIBLE), (true, STRICT)] {
        println!("strict: {strict}");
        let client = Client::with(DEFAULT, configuration);
        test(&client, client.user(), strict);
    }
}

fn expect<T: std::fmt::Debug>(outcome: Result<T, Error>, strict: bool, refused: Error) {
    match strict {
        true => assert_eq!(outcome.err(), Some(refused)),
        false => drop(outcome.expect("a call that compatible allows")),
    }
}

fn aes(usages: &[A]) -> Attributes {
    let key = secret(KeyType::AES, &[7; 32]);
    usages.iter().fold(key, |key, id| key.flag(*id, true))
}

fn generic(usages: &[A]) -> Attributes {
    let key = secret(KeyType::GENERIC_SECRET, &[9; 32]);
    usages.iter().fold(key, |key, id| key.flag(*id, true))
}

fn none_of(attributes: Attributes, all: &[A]) -> Attributes {
    all.iter().fold(attributes, |made, id| if made.has(*id) { made } else { made.flag(*id, false) })
}

/// Generates an RSA key pair of which each key has only these usages.
fn rsa_pair(
    client: &Client,
    session: SessionHandle,
    bits: u64,
    public: &[A],
    private: &[A],
) -> Result<(ObjectHandle, ObjectHandle), Error> {
    let one = none().number(A::MODULUS_BITS, bits).bytes(A::PUBLIC_EXPONENT, &[1, 0, 1]);
    let all = [A::ENCRYPT, A::VERIFY, A::VERIFY_RECOVER, A::WRAP];
    let one = none_of(public.iter().fold(one, |one, id| one.flag(*id, true)), &all);
    let all = [A::DECRYPT, A::SIGN, A::SIGN_RECOVER, A::UNWRAP];
    let two = none_of(private.iter().fold(none(), |two, id| two.flag(*id, true)), &all);
    client.generate(session, M::RSA_PKCS_KEY_PAIR_GEN, &one, &two)
}

/// Returns each pair of usages that belong to different roles.
fn conflicts() -> Vec<[A; 2]> {
    let mut all = Vec::new();
    for (at, one) in ROLES.iter().enumerate() {
        for other in &ROLES[at + 1..] {
            all.extend(one.iter().flat_map(|first| other.iter().map(move |second| [*first, *second])));
        }
    }
    all
}

#[test]
fn a_secret_key_has_one_role() {
    each_policy(|client, session, strict| {
        let generate = |usages: &[A]| {
            let template = usages.iter().fold(none().number(A::VALUE_LEN, 32), |all, id| all.flag(*id, true));
            client.generate_key(session, M::AES_KEY_GEN, &template)
        };
        for usages in conflicts() {
            println!("{usages:?}");
            expect(client.create(session, &aes(&usages)), strict, Error::TemplateInconsistent);
            expect(generate(&usages), strict, Error::TemplateInconsistent);
        }
        for role in ROLES {
            client.create(session, &aes(role)).expect("a key with one role");
            generate(role).expect("a key with one role");
        }
    });
}

#[test]
fn a_private_key_is_generated_with_one_role() {
    each_policy(|client, session, strict| {
        for usages in [
            [A::SIGN, A::DECRYPT],
            [A::SIGN, A::UNWRAP],
            [A::SIGN_RECOVER, A::DECRYPT],
            [A::SIGN_RECOVER, A::UNWRAP],
            [A::DECRYPT, A::UNWRAP],
        ] {
            println!("{usages:?}");
            let made = rsa_pair(client, session, 2048, &[A::VERIFY], &usages);
            expect(made, strict, Error::TemplateInconsistent);
        }
        // A pair cannot mix wrapping and encryption.
        for (public, private) in [(A::WRAP, A::DECRYPT), (A::ENCRYPT, A::UNWRAP)] {
            let made = rsa_pair(client, session, 2048, &[public], &[private]);
            expect(made, strict, Error::TemplateInconsistent);
        }
        let public = none().bytes(A::EC_PARAMS, P256);
        let private = none().flag(A::SIGN, true).flag(A::DERIVE, true);
        let made = client.generate(session, M::EC_KEY_PAIR_GEN, &public, &private);
        expect(made, strict, Error::TemplateInconsistent);
    });
}

#[test]
fn a_key_has_only_the_usages_of_its_template() {
    each_policy(|client, session, strict| {
        let template = none().number(A::VALUE_LEN, 32);
        let generated = client.generate_key(session, M::AES_KEY_GEN, &template).expect("a key");
        let created = client.create(session, &aes(&[])).expect("a key");
        for key in [generated, created] {
            let found = ROLES.concat().iter().filter(|id| client.flag(session, key, **id)).count();
            assert_eq!(found == 0, strict, "{found} usages");
        }
        let public = none().bytes(A::EC_PARAMS, P256);
        let (public, private) =
            client.generate(session, M::EC_KEY_PAIR_GEN, &public, &none()).expect("a pair");
        assert_eq!(client.flag(session, public, A::VERIFY), !strict);
        assert_eq!(client.flag(session, private, A::SIGN), !strict);
        assert_eq!(client.flag(session, private, A::DERIVE), !strict);
    });
}

#[test]
fn a_usage_can_be_removed_but_not_added() {
    each_policy(|client, session, strict| {
        for usages in conflicts() {
            let key = client.create(session, &aes(&usages[..1])).expect("a key");
            let turned = none().flag(usages[0], false).flag(usages[1], true);
            expect(client.set(session, key, &turned), strict, Error::AttributeReadOnly);
        }
        // A usage of the same role cannot be added either: a key that can only encrypt cannot get
        // `CKA_DECRYPT`.
        let key = client.create(session, &none_of(aes(&[A::ENCRYPT]), &[A::DECRYPT])).expect("a key");
        expect(client.set(session, key, &none().flag(A::DECRYPT, true)), strict, Error::AttributeReadOnly);
        let copied = client.copy(session, key, &none().flag(A::WRAP, true));
        // PKCS#11 3.2, C_CopyObject: the call fails with this code if a value of the template is
        // incompatible with other attributes of the object.
        if strict {
            assert_eq!(copied, Err(Error::TemplateInconsistent));
        }
        client.set(session, key, &none().flag(A::ENCRYPT, false)).expect("one usage less");
    });
}

/// Returns a trusted wrapping key, and an unwrapping key that has the same value.
fn trusted(client: &Client, session: SessionHandle) -> (ObjectHandle, ObjectHandle) {
    let wraps = none_of(aes(&[A::WRAP]), &ROLES.concat());
    let wraps = wraps.stored().flag(A::PRIVATE, false).flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
    let key = client.create(session, &wraps).expect("a key");
    client.trust(session, key);
    let unwraps = none_of(aes(&[A::UNWRAP]), &ROLES.concat());
    (key, client.create(session, &unwraps).expect("a key"))
}

#[test]
fn an_unwrapped_key_is_sensitive_and_has_one_role() {
    each_policy(|client, session, strict| {
        let (trusted, unwraps) = trusted(client, session);
        let key = client.create(session, &aes(&[A::ENCRYPT]).flag(A::EXTRACTABLE, true)).expect("a key");
        let mechanism = plain(M::AES_KEY_WRAP_KWP);
        let bytes = client.wrap(session, &mechanism, trusted, key).expect("a wrapped key");
        let unwrap = |template: &Attributes| client.unwrap(session, &mechanism, unwraps, &bytes, template);
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::AES);
        let made = unwrap(&template).expect("a key");
        assert_eq!(client.flag(session, made, A::SENSITIVE), strict);
        for usage in [A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP, A::SIGN, A::DERIVE] {
            assert!(!strict || !client.flag(session, made, usage), "{usage}");
        }
        expect(unwrap(&template.clone().flag(A::SENSITIVE, false)), strict, Error::TemplateInconsistent);
        for usages in conflicts() {
            let both = usages.iter().fold(template.clone(), |all, id| all.flag(*id, true));
            expect(unwrap(&both), strict, Error::TemplateInconsistent);
        }
    });
}

#[test]
fn an_unwrap_template_may_alone_name_the_class_of_a_private_key() {
    each_policy(|client, session, _| {
        let (trusted, _) = trusted(client, session);
        let public = none().bytes(A::EC_PARAMS, P256);
        let private = none().flag(A::SIGN, true).flag(A::EXTRACTABLE, true);
        let (_, key) = client.generate(session, M::EC_KEY_PAIR_GEN, &public, &private).expect("a pair");
        let mechanism = plain(M::AES_KEY_WRAP_KWP);
        let bytes = client.wrap(session, &mechanism, trusted, key).expect("a wrapped key");
        let forced = Attributes::of(ObjectClass::PRIVATE_KEY).flag(A::SIGN, true);
        let unwraps = client.create_with(session, &aes(&[A::UNWRAP]), A::UNWRAP_TEMPLATE, &forced);
        let unwraps = unwraps.expect("a key");
        let made = none().number(A::KEY_TYPE, KeyType::EC.0);
        let made = client.unwrap(session, &mechanism, unwraps, &bytes, &made);
        assert!(client.flag(session, made.expect("a key"), A::SIGN));
    });
}

fn hkdf(id: M) -> Mechanism {
    let (salt, info) = (HkdfSalt::Null, Box::default());
    let params = Params::Hkdf { extract: true, expand: true, hash: Hash::Sha256, salt, info };
    Mechanism { params, ..plain(id) }
}

#[test]
fn keys_derived_from_a_sensitive_key_are_sensitive() {
    each_policy(|client, session, strict| {
        let base = generic(&[A::DERIVE]).flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, false);
        let base = client.create(session, &none_of(base, &[A::SIGN, A::VERIFY])).expect("a key");
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET).number(A::VALUE_LEN, 32);
        let derive = |mechanism: &Mechanism, more: &Attributes| {
            client.derive_key(session, mechanism, base, &template.clone().and(more).template())
        };
        for mechanism in [hkdf(M::HKDF_DERIVE), plain(M::SHA256_KEY_DERIVATION)] {
            let made = derive(&mechanism, &none()).expect("a key");
            assert!(!strict || client.flag(session, made, A::SENSITIVE));
            assert!(!strict || !client.flag(session, made, A::SIGN));
            let shown = none().flag(A::SENSITIVE, false);
            expect(derive(&mechanism, &shown), strict, Error::TemplateInconsistent);
            let leaves = none().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, true);
            expect(derive(&mechanism, &leaves), strict, Error::TemplateInconsistent);
        }
        let data = Attributes::of(ObjectClass::DATA).number(A::VALUE_LEN, 32);
        let made = client.derive_key(session, &hkdf(M::HKDF_DATA), base, &data.template());
        expect(made, strict, Error::TemplateInconsistent);
    });
}

#[test]
fn an_encapsulated_secret_is_sensitive() {
    each_policy(|client, session, strict| {
        let public = none().number(A::PARAMETER_SET, 2).flag(A::ENCAPSULATE, true);
        let private = none().flag(A::DECAPSULATE, true);
        let made = client.generate(session, M::ML_KEM_KEY_PAIR_GEN, &public, &private);
        let (public, private) = made.expect("a pair");
        let template = key_object(ObjectClass::SECRET_KEY, KeyType::GENERIC_SECRET);
        let mechanism = plain(M::ML_KEM);
        let encapsulate = |template: &Attributes| client.encapsulate(session, public, &template.template());
        let (ciphertext, key) = encapsulate(&template).expect("a secret");
        assert_eq!(client.flag(session, key, A::SENSITIVE), strict);
        let shown = template.clone().flag(A::SENSITIVE, false);
        expect(encapsulate(&shown), strict, Error::TemplateInconsistent);
        let made = client.decapsulate_key(session, &mechanism, private, &shown.template(), &ciphertext);
        expect(made, strict, Error::TemplateInconsistent);
    });
}

/// Returns a second module under *strict* with the same tokens, and a session of the user.
fn under_strict(client: &Client) -> (Client, SessionHandle) {
    let other = Client::beside(&client.directory, DEFAULT, STRICT);
    let session = other.user();
    (other, session)
}

#[test]
fn an_old_key_with_several_roles_is_unusable_until_it_has_one_role() {
    let client = Client::with(DEFAULT, COMPATIBLE);
    let session = client.user();
    let both = aes(&[A::ENCRYPT, A::DECRYPT, A::SIGN, A::VERIFY]).stored().label("both");
    client.create(session, &none_of(both, &[A::WRAP, A::UNWRAP, A::DERIVE])).expect("a key");
    let (client, session) = under_strict(&client);
    let key = client.find_one(session, &none().label("both"));
    let mechanism = with_iv(M::AES_CBC, &[3; 16]);
    assert_eq!(client.encrypt_init(session, &mechanism, key), Err(Error::KeyFunctionNotPermitted));
    assert_eq!(client.sign_init(session, &plain(M::AES_CMAC), key), Err(Error::KeyFunctionNotPermitted));
    client.set(session, key, &none().flag(A::SIGN, false).flag(A::VERIFY, false)).expect("fewer usages");
    client.encrypt_init(session, &mechanism, key).expect("an encryption");
}

/// The product of two primes, of 1024 bits.
const SHORT_MODULUS: &str = "d1130656f73dfddeaeba34525badc095d7b67610722c408122bf81a45bbfd910\
    ad1c886805e9446fc6017877551a0c3fccff9872c0b4f177517eca3ed8e84555\
    8d0fd7cb65c96ba86549492abd09ea4ed813e545212b43af769c6c2a4c7a872f\
    f2fddd7ecef5687c6886e49c399d12020bad89d64cef018b3f6d9d0122368e75";

#[test]
fn rsa_needs_2048_bits_and_a_large_exponent() {
    let client = Client::with(DEFAULT, COMPATIBLE);
    let session = client.user();
    let import = |client: &Client, session, bits: usize, exponent: &[u8], label: &str| {
        let modulus = if bits == 1024 { hex(SHORT_MODULUS) } else { RSA.public.value(A::MODULUS).to_vec() };
        let key = key_object(ObjectClass::PUBLIC_KEY, KeyType::RSA).stored().label(label);
        let key = key.bytes(A::MODULUS, &modulus).bytes(A::PUBLIC_EXPONENT, exponent);
        client.create(session, &key.flag(A::ENCRYPT, true).flag(A::WRAP, false))
    };
    import(&client, session, 1024, &[1, 0, 1], "short").expect("a call that compatible allows");
    import(&client, session, 2048, &[3], "three").expect("a call that compatible allows");
    let (client, session) = under_strict(&client);
    assert_eq!(import(&client, session, 1024, &[1, 0, 1], "again"), Err(Error::KeySizeRange));
    assert_eq!(import(&client, session, 2048, &[3], "again"), Err(Error::AttributeValueInvalid));
    import(&client, session, 2048, &[1, 0, 1], "good").expect("a key");
    let mechanism = oaep(Hash::Sha256, Hash::Sha256, b"");
    for (label, refused) in [("short", Error::KeySizeRange), ("three", Error::AttributeValueInvalid)] {
        let key = client.find_one(session, &none().label(label));
        assert_eq!(client.encrypt_init(session, &mechanism, key), Err(refused), "{label}");
    }
    assert_eq!(rsa_pair(&client, session, 1024, &[A::VERIFY], &[A::SIGN]).err(), Some(Error::KeySizeRange));
}

#[test]
fn a_secret_key_needs_112_bits() {
    each_policy(|client, session, strict| {
        let short = secret(KeyType::GENERIC_SECRET, &[9; 13]);
        expect(client.create(session, &short.flag(A::SIGN, true)), strict, Error::KeySizeRange);
        let template = none().number(A::VALUE_LEN, 13);
        let made = client.generate_key(session, M::GENERIC_SECRET_KEY_GEN, &template);
        expect(made, strict, Error::KeySizeRange);
    });
}

#[test]
fn weak_mechanisms_are_off_and_not_listed() {
    each_policy(|client, session, strict| {
        let listed = client.mechanisms(client.slot).expect("mechanisms");
        let flags = |id| client.mechanism(client.slot, id).expect("a mechanism").flags;
        // The attacks call the functions that these mechanisms lose. OAEP opens the head of what
        // `CKM_RSA_AES_KEY_WRAP` wrapped, so it transports keys by encapsulation alone.
        let wrapping = does::WRAP | does::UNWRAP;
        for (id, off, on) in [
            (M::RSA_PKCS, does::DECRYPT | wrapping, does::SIGN),
            (M::RSA_PKCS_OAEP, wrapping, does::DECRYPT | does::ENCAPSULATE),
            (M::AES_ECB, wrapping, does::ENCRYPT),
            (M::AES_CBC, wrapping, does::ENCRYPT),
            (M::AES_CBC_PAD, wrapping, does::ENCRYPT),
        ] {
            assert_eq!(flags(id) & off == 0, strict, "{id}");
            assert_eq!(flags(id) & on, on, "{id}");
        }
        for id in [
            M::RSA_X_509,
            M::SHA1_RSA_PKCS,
            M::SHA1_RSA_PKCS_PSS,
            M::ECDSA_SHA1,
            M::DES3_CBC,
            M::CONCATENATE_BASE_AND_KEY,
            M::CONCATENATE_BASE_AND_DATA,
            M::CONCATENATE_DATA_AND_BASE,
            M::XOR_BASE_AND_DATA,
            M::EXTRACT_KEY_FROM_KEY,
        ] {
            assert_eq!(listed.contains(&id), !strict, "{id}");
            assert_eq!(client.mechanism(client.slot, id).is_err(), strict, "{id}");
        }
        let (_, private) = rsa_pair(client, session, 2048, &[A::VERIFY], &[A::SIGN]).expect("a pair");
        let signed = client.sign(session, &plain(M::SHA1_RSA_PKCS), private, b"data");
        expect(signed, strict, Error::MechanismInvalid);
    });
}

#[test]
fn sha_1_is_refused_in_pss_and_allowed_in_oaep_and_hmac() {
    each_policy(|client, session, strict| {
        let (_, private) = rsa_pair(client, session, 2048, &[A::VERIFY], &[A::SIGN]).expect("a pair");
        let (public, _) = rsa_pair(client, session, 2048, &[A::ENCRYPT], &[A::DECRYPT]).expect("a pair");
        for (hash, mgf) in [(Hash::Sha1, Hash::Sha1), (Hash::Sha256, Hash::Sha1)] {
            let params = Params::Pss { hash, mgf, salt_len: 20 };
            let mechanism = Mechanism { params, ..plain(M::RSA_PKCS_PSS) };
            let signed = client.sign(session, &mechanism, private, &vec![7; hash.len()]);
            expect(signed, strict, Error::MechanismParamInvalid);
        }
        client.encrypt_init(session, &oaep(Hash::Sha1, Hash::Sha1, b""), public).expect("OAEP");
        let key = client.create(session, &generic(&[A::SIGN])).expect("a key");
        client.sign(session, &plain(M::SHA_1_HMAC), key, b"data").expect("a code");
    });
}

#[test]
fn short_tags_macs_and_ivs_are_refused() {
    each_policy(|client, session, strict| {
        let key = client.create(session, &none_of(aes(&[A::ENCRYPT]), &[A::SIGN])).expect("a key");
        let gcm = |nonce: &[u8], tag_len| {
            let params = aead_params(AeadScheme::AesGcm, nonce, &[], tag_len, 0);
            Mechanism { params, ..plain(M::AES_GCM) }
        };
        let sealed = |mechanism: &Mechanism| {
            client.crypt(session, Direction::Encrypt, mechanism, key, b"data").map(drop)
        };
        // The operation is re-armed in the second round, if the parameter allows it.
        for _ in 0..2 {
            for mechanism in [gcm(&[1; 12], 4), gcm(&[1; 12], 8), gcm(&[1; 8], 16), gcm(&[1], 16)] {
                expect(sealed(&mechanism), strict, Error::MechanismParamInvalid);
            }
            sealed(&gcm(&[1; 12], 12)).expect("a ciphertext");
        }
        let params = |tag_len| aead_params(AeadScheme::AesCcm, &[1; 12], &[], tag_len, 4);
        let ccm = |tag_len| Mechanism { params: params(tag_len), ..plain(M::AES_CCM) };
        expect(sealed(&ccm(4)), strict, Error::MechanismParamInvalid);
        sealed(&ccm(8)).expect("a ciphertext");
        let key = client.create(session, &generic(&[A::SIGN])).expect("a key");
        let code = |len| {
            let mechanism = Mechanism { params: Params::Length(len), ..plain(M::SHA256_HMAC_GENERAL) };
            client.sign(session, &mechanism, key, b"data").map(drop)
        };
        for len in [1, 4, 7] {
            expect(code(len), strict, Error::MechanismParamInvalid);
        }
        code(8).expect("a code");
    });
}

#[test]
fn a_pin_needs_eight_bytes() {
    for (configuration, strict) in [(COMPATIBLE, false), (STRICT, true)] {
        let client = Client::beside(&Directory::new(), DEFAULT, configuration);
        let made = client.init_token(client.slot, b"seven77", LABEL);
        expect(made, strict, Error::PinLenRange);
    }
}

#[test]
fn messages_and_wrapped_keys_have_long_tags_and_nonces() {
    each_policy(|client, session, strict| {
        let key = client.create(session, &aes(&[A::ENCRYPT, A::DECRYPT])).expect("a key");
        for (scheme, id, nonce, tag_len, weak) in [
            (AeadScheme::AesGcm, M::AES_GCM, &[1; 12][..], 4, true),
            (AeadScheme::AesGcm, M::AES_GCM, &[1; 11], 16, true),
            (AeadScheme::AesGcm, M::AES_GCM, &[1; 12], 12, false),
            (AeadScheme::AesCcm, M::AES_CCM, &[1; 12], 4, true),
            (AeadScheme::AesCcm, M::AES_CCM, &[1; 12], 8, false),
        ] {
            let params = || {
                let mut params = MessageParams::new(scheme, nonce, tag_len).expect("lengths of the cipher");
                params.announce(4);
                params
            };
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                client.message_crypt_init(session, direction, &plain(id), key).expect("an operation");
                let (mut given, mut out) = (params(), [0; 4]);
                let out = Output::Buffer(&mut out);
                let made = client.crypt_message(session, direction, &mut given, b"", b"data", out);
                let begun = client.crypt_message_begin(session, direction, &mut params(), b"");
                if weak && strict {
                    let refused = Error::MechanismParamInvalid;
                    assert_eq!((made, begun), (Err(refused), Err(refused)));
                } else {
                    let refused = (direction == Direction::Decrypt).then_some(Error::AeadDecryptFailed);
                    assert_eq!(made.err(), refused);
                    begun.expect("a message");
                    client.crypt_message_cancel(session, direction).expect("a message");
                }
                client.message_crypt_cancel(session, direction).expect("an operation");
            }
        }
        let (by, _) = trusted(client, session);
        let key = client.create(session, &aes(&[A::ENCRYPT]).flag(A::EXTRACTABLE, true)).expect("a key");
        let mut params = MessageParams::new(AeadScheme::AesGcm, &[0; 12], 4).expect("lengths of GCM");
        params.set_generator(Generator::Random, 0).expect("bits of the nonce");
        let mechanism = plain(M::AES_GCM);
        let mut out = [0; 32];
        let out = Output::Buffer(&mut out);
        let made = client.wrap_key_authenticated(session, &mechanism, &mut params, b"", by, key, out);
        expect(made, strict, Error::MechanismParamInvalid);
    });
}

/// The caller chooses the length of this code, so a code of one byte is soon forged.
#[test]
fn the_prf_of_tls_signs_nothing() {
    each_policy(|client, session, strict| {
        let key = client.create(session, &generic(&[A::SIGN, A::VERIFY])).expect("a key");
        let mechanism = plain(M::TLS_PRF_GENERAL);
        let verified = |byte: &u8| client.verify(session, &mechanism, key, b"data", &[*byte]).is_ok();
        assert_eq!((0..=u8::MAX).any(|byte| verified(&byte)), !strict);
    });
}
