//! One-time passwords: the values of RFC 4226, the counter that only increases, and refused uses.

use std::collections::BTreeSet;

use jeton::functions::Module;
use jeton::id::mechanism_flag;
use jeton::mechanism::sp800_108::Field;
use jeton_words::operation::Signed;

use crate::derive::derive;
use crate::prelude::*;

/// RFC 4226, appendix D: the secret, and the passwords of the counters 0 to 3.
const SECRET: &[u8] = b"12345678901234567890";
const KNOWN: [&str; 4] = ["755224", "287082", "359152", "969429"];

fn hotp() -> Attributes {
    key_object(ObjectClass::OTP_KEY, KeyType::HOTP).bytes(A::VALUE, SECRET)
}

fn with(counter: Option<u64>, digits: Option<u64>, format: Option<u64>, flags: u64) -> Mechanism {
    let counter = counter.map(u64::to_be_bytes);
    Mechanism { params: Params::Otp { counter, digits, format, flags }, ..plain(M::HOTP) }
}

fn own() -> Mechanism {
    with(None, None, None, 0)
}

/// Generates a password. Returns it with its counter.
fn password(
    client: &Client,
    session: SessionHandle,
    mechanism: &Mechanism,
    key: ObjectHandle,
) -> Result<(String, u64), Error> {
    client.sign_init(session, mechanism, key)?;
    let mut info = vec![0; client.module.sign(session, b"", Output::Length)?];
    match Module::sign(&client.module, session, b"", Output::Buffer(&mut info))? {
        Signed::Password(password) => {
            assert_eq!(Signed::Password(password).length(), info.len());
            let digits = String::from_utf8(password.digits().to_vec()).expect("digits");
            Ok((digits, u64::from_be_bytes(password.counter)))
        }
        signed => panic!("{signed:?}"),
    }
}

fn counter(client: &Client, session: SessionHandle, key: ObjectHandle) -> u64 {
    let bytes = client.read(session, key, A::OTP_COUNTER).expect("a counter");
    u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
}

#[test]
fn hotp_matches_rfc_4226_and_increments_the_counter() {
    let (client, session) = one_user();
    let key = client.create(session, &hotp()).expect("a key");
    for (at, known) in (0..).zip(KNOWN) {
        assert_eq!(counter(&client, session, key), at);
        assert_eq!(password(&client, session, &own(), key), Ok((known.to_owned(), at)));
    }
    // A counter in the parameter does not change the counter of the key. The longer passwords
    // are the last digits of the decimal values in the RFC's table.
    let given = |at, digits| password(&client, session, &with(Some(at), digits, Some(0), 32), key);
    assert_eq!(given(9, None), Ok(("520489".to_owned(), 9)));
    assert_eq!(given(1, Some(8)), Ok(("94287082".to_owned(), 1)));
    assert_eq!(given(2, Some(7)), Ok(("7359152".to_owned(), 2)));
    assert_eq!(counter(&client, session, key), 4);

    // An operation in several parts takes no data either, and only its last call increments the
    // counter.
    client.sign_init(session, &own(), key).expect("an operation");
    client.sign_update(session, b"").expect("nothing");
    let needed = client.sign_final(session, Output::Length).expect("a length");
    let short = client.sign_final(session, Output::Buffer(&mut vec![0; needed - 1]));
    assert_eq!(short, Err(Error::BufferTooSmall { needed }));
    assert_eq!(counter(&client, session, key), 4);
    client.sign_final(session, Output::Buffer(&mut vec![0; needed])).expect("a password");
    assert_eq!(counter(&client, session, key), 5);
    client.sign_init(session, &own(), key).expect("an operation");
    assert_eq!(client.module.sign(session, b"data", Output::Buffer(&mut [0; 200])), Err(Error::DataLenRange));
    assert_eq!(counter(&client, session, key), 5);
}

#[test]
fn hotp_verification_uses_the_given_counter() {
    let (client, session) = one_user();
    let key = client.create(session, &hotp()).expect("a key");
    for (at, known) in (0..).zip(KNOWN) {
        let mechanism = with(Some(at), None, None, 0);
        assert_eq!(client.verify(session, &mechanism, key, b"", known.as_bytes()), Ok(()));
        let other = KNOWN[(at as usize + 1) % 4].as_bytes();
        assert_eq!(client.verify(session, &mechanism, key, b"", other), Err(Error::SignatureInvalid));
        let short = &known.as_bytes()[1..];
        assert_eq!(client.verify(session, &mechanism, key, b"", short), Err(Error::SignatureLenRange));
        for (password, outcome) in [(known.as_bytes(), Ok(())), (other, Err(Error::SignatureInvalid))] {
            client.verify_signature_init(session, &mechanism, key, password).expect("an operation");
            assert_eq!(client.verify_signature(session, b""), outcome);
        }
    }
    assert_eq!(counter(&client, session, key), 0);
    assert_eq!(client.verify_init(session, &own(), key), Err(Error::MechanismParamInvalid));
    let mechanism = with(Some(0), None, None, 0);
    assert_eq!(client.verify(session, &mechanism, key, b"x", b"755224"), Err(Error::DataLenRange));
    client.verify_init(session, &mechanism, key).expect("an operation");
    assert_eq!(client.verify_final(session, b"755224"), Ok(()));
}

#[test]
fn the_hotp_counter_survives_the_process_and_never_repeats() {
    let one = Client::new(DEFAULT);
    let two = Client::beside(&one.directory, DEFAULT, "");
    let (mine, yours) = (one.user(), two.user());
    let template = hotp().stored().label("shared");
    let made = one.create(mine, &template).expect("a key");
    let seen = two.find_one(yours, &none().label("shared"));
    let mut counters = BTreeSet::new();
    std::thread::scope(|scope| {
        let draw = |client, session, key| {
            move || {
                let draw = || password(client, session, &own(), key).expect("a password").1;
                (0..20).map(|_| draw()).collect::<Vec<_>>()
            }
        };
        let draws = [scope.spawn(draw(&one, mine, made)), scope.spawn(draw(&two, yours, seen))];
        counters.extend(draws.into_iter().flat_map(|draw| draw.join().expect("a thread")));
    });
    assert_eq!(counters, (0..40).collect());
    let three = Client::beside(&one.directory, DEFAULT, "");
    // The counter increases in a read-only session too.
    let reading = three.open_session(three.slot, Access::ReadOnly).expect("a session");
    three.login(reading);
    let key = three.find_one(reading, &none().label("shared"));
    assert_eq!(password(&three, reading, &own(), key).map(|(_, at)| at), Ok(40));
}

#[test]
fn hotp_key_attributes_restrict_the_parameter() {
    let (client, session) = one_user();
    let key = client.create(session, &hotp().number(A::OTP_LENGTH, 8)).expect("a key");
    assert_eq!(password(&client, session, &own(), key), Ok(("84755224".to_owned(), 0)));
    for wrong in [
        with(None, Some(5), None, 0),
        with(None, Some(9), None, 0),
        with(None, None, Some(1), 0),
        // The flags `CKF_NEXT_OTP` and `CKF_EXCLUDE_COUNTER`.
        with(None, None, None, 1),
        with(None, None, None, 4),
        plain(M::HOTP),
    ] {
        assert_eq!(client.sign_init(session, &wrong, key), Err(Error::MechanismParamInvalid));
    }
    // The value 0 means that the counter is ignored, and 2 that it is mandatory.
    let ignoring = client.create(session, &hotp().number(A::OTP_COUNTER_REQUIREMENT, 0)).expect("a key");
    let nine = with(Some(9), None, None, 0);
    assert_eq!(password(&client, session, &nine, ignoring), Ok((KNOWN[0].to_owned(), 0)));
    assert_eq!(client.verify(session, &nine, ignoring, b"", b"520489"), Ok(()));
    let asking = client.create(session, &hotp().number(A::OTP_COUNTER_REQUIREMENT, 2)).expect("a key");
    assert_eq!(client.sign_init(session, &own(), asking), Err(Error::MechanismParamInvalid));
    let plain_mode = hotp().flag(A::OTP_USER_FRIENDLY_MODE, false);
    let plain_mode = client.create(session, &plain_mode).expect("a key");
    let refused = client.sign_init(session, &with(None, None, None, 32), plain_mode);
    assert_eq!(refused, Err(Error::MechanismParamInvalid));
    for (id, number) in [
        (A::OTP_FORMAT, 3),
        (A::OTP_LENGTH, 5),
        (A::OTP_LENGTH, 9),
        (A::OTP_TIME_REQUIREMENT, 2),
        (A::OTP_PIN_REQUIREMENT, 1),
        (A::OTP_CHALLENGE_REQUIREMENT, 2),
        (A::OTP_COUNTER_REQUIREMENT, 3),
    ] {
        let refused = client.create(session, &hotp().number(id, number));
        assert_eq!(refused, Err(Error::AttributeValueInvalid), "{id}");
    }
    let short = hotp().bytes(A::OTP_COUNTER, &[1; 7]);
    assert_eq!(client.create(session, &short), Err(Error::AttributeValueInvalid));
    for wrong in [&b"2026"[..], b"2026-01-01 120", b"202601011200001"] {
        let timed = client.create(session, &hotp().bytes(A::OTP_TIME, wrong));
        assert_eq!(timed, Err(Error::AttributeValueInvalid));
    }
    let back = none().bytes(A::OTP_COUNTER, &[0; 8]);
    password(&client, session, &own(), key).expect("a password");
    assert_eq!(client.set(session, key, &back), Err(Error::AttributeReadOnly));
    let last = client.create(session, &hotp().bytes(A::OTP_COUNTER, &[0xff; 8])).expect("a key");
    assert_eq!(password(&client, session, &own(), last), Err(Error::KeyFunctionNotPermitted));
    // Another class, another mechanism, and another key for this mechanism.
    let wrong = hotp().without(A::CLASS).number(A::CLASS, ObjectClass::SECRET_KEY.0);
    assert_eq!(client.create(session, &wrong), Err(Error::AttributeValueInvalid));
    assert_eq!(client.sign_init(session, &plain(M::SHA_1_HMAC), key), Err(Error::KeyTypeInconsistent));
    let generic = secret(KeyType::GENERIC_SECRET, SECRET);
    let generic = client.create(session, &generic).expect("a key");
    assert_eq!(client.sign_init(session, &own(), generic), Err(Error::KeyTypeInconsistent));
}

#[test]
fn hotp_keys_are_generated_with_a_counter() {
    let (client, session) = one_user();
    let make = |template: Attributes| client.generate_key(session, M::HOTP_KEY_GEN, &template);
    let key = make(none().number(A::VALUE_LEN, 20)).expect("a key");
    assert_eq!(client.number(session, key, A::CLASS), ObjectClass::OTP_KEY.0);
    assert_eq!(client.number(session, key, A::KEY_TYPE), KeyType::HOTP.0);
    assert_eq!(counter(&client, session, key), 0);
    let (text, _) = password(&client, session, &own(), key).expect("a password");
    let zero = with(Some(0), None, None, 0);
    assert_eq!(client.verify(session, &zero, key, b"", text.as_bytes()), Ok(()));
    let started = none().number(A::VALUE_LEN, 16).bytes(A::OTP_COUNTER, &7u64.to_be_bytes());
    let started = make(started).expect("a key");
    assert_eq!(password(&client, session, &own(), started).map(|(_, at)| at), Ok(7));
    for len in [0, 15, 4097, u64::MAX] {
        assert_eq!(make(none().number(A::VALUE_LEN, len)), Err(Error::KeySizeRange), "{len}");
    }
    assert_eq!(make(none()), Err(Error::TemplateIncomplete));
}

/// K5 of the review of commit d77ec499: a copy would give the passwords of the future.
#[test]
fn what_counts_passwords_is_not_copied() {
    let (client, session) = one_user();
    let both = none().flag(A::DERIVE, true).flag(A::SENSITIVE, true);
    let generated = client.generate_key(session, M::HOTP_KEY_GEN, &none().number(A::VALUE_LEN, 20));
    for key in [client.create(session, &hotp().and(&both)), generated] {
        let key = key.expect("a key");
        assert!(!client.flag(session, key, A::COPYABLE));
        for template in [none(), none().flag(A::TOKEN, true), none().flag(A::COPYABLE, false)] {
            assert_eq!(client.copy(session, key, &template), Err(Error::ActionProhibited));
        }
        assert_eq!(client.set(session, key, &none().flag(A::COPYABLE, true)), Err(Error::AttributeReadOnly));
    }
    let copyable = none().flag(A::COPYABLE, true);
    assert_eq!(client.create(session, &hotp().and(&copyable)), Err(Error::TemplateInconsistent));
}

/// A derivation or a digest would compute the passwords of the future, and a trusted key would
/// bring back a key that does not count.
#[test]
fn what_counts_passwords_derives_nothing_and_is_not_digested() {
    let (client, session) = one_user();
    let own = secret(KeyType::GENERIC_SECRET, &[1; 16]).flag(A::DERIVE, true);
    let own = client.create(session, &own).expect("a key");
    let hkdf = |extract, expand, salt| {
        (M::HKDF_DERIVE, Params::Hkdf { extract, expand, hash: Hash::Sha1, salt, info: [0; 8].into() })
    };
    let sp800_108 = |id, fields| {
        let prf = MacFunction::Hmac(Hash::Sha1);
        (id, Params::Sp800_108 { prf, fields, iv: [0; 8].into() })
    };
    for (sensitive, extractable) in [(true, false), (false, true)] {
        let flags = none().flag(A::DERIVE, true).flag(A::SENSITIVE, sensitive);
        let key = client.create(session, &hotp().and(&flags.flag(A::EXTRACTABLE, extractable)));
        let key = key.expect("a key");
        for (base, (mechanism, params)) in [
            (key, (M::XOR_BASE_AND_DATA, Params::Data([0; 20].into()))),
            (key, (M::CONCATENATE_BASE_AND_DATA, Params::Data([0].into()))),
            (key, (M::EXTRACT_KEY_FROM_KEY, Params::Bit(0))),
            (own, (M::CONCATENATE_BASE_AND_KEY, Params::Key(key))),
            (key, hkdf(false, true, HkdfSalt::Null)),
            (own, hkdf(true, false, HkdfSalt::Key(key))),
            (key, sp800_108(M::SP800_108_FEEDBACK_KDF, vec![Field::Iteration(None)])),
            (own, sp800_108(M::SP800_108_FEEDBACK_KDF, vec![Field::Iteration(None), Field::Key(key)])),
            (key, (M::SHA1_KEY_DERIVATION, Params::None)),
        ] {
            let template = none().number(A::VALUE_LEN, 20);
            let template = match mechanism {
                M::CONCATENATE_BASE_AND_DATA | M::CONCATENATE_BASE_AND_KEY => template.without(A::VALUE_LEN),
                _ => template,
            };
            let refused = derive(&client, session, (mechanism, params), base, &template);
            assert_eq!(refused, Err(Error::KeyFunctionNotPermitted), "{mechanism} {sensitive}");
        }
        let digesting = client.open();
        client.digest_init(digesting, &plain(M::SHA_1)).expect("an operation");
        assert_eq!(client.digest_key(digesting, key), Err(Error::KeyIndigestible));
    }
}

#[test]
fn a_key_that_counts_passwords_has_no_other_mechanism() {
    let (client, session) = one_user();
    let uses = [A::SIGN, A::VERIFY, A::ENCRYPT, A::DECRYPT, A::WRAP, A::UNWRAP];
    let key = uses.iter().fold(hotp(), |key, usage| key.flag(*usage, true));
    let key = client.create(session, &key).expect("a key");
    for row in jeton::mechanism::all().filter(|row| row.id != M::HOTP) {
        let can = |flag| row.flags & flag != 0;
        let mechanism = plain(row.id);
        let starts = [
            can(mechanism_flag::SIGN).then(|| client.sign_init(session, &mechanism, key)),
            can(mechanism_flag::ENCRYPT).then(|| client.encrypt_init(session, &mechanism, key)),
        ];
        for start in starts.into_iter().flatten() {
            let is_refused = matches!(start, Err(Error::KeyTypeInconsistent | Error::MechanismInvalid));
            assert!(is_refused, "{}: {start:?}", row.id);
        }
    }
}

#[test]
fn a_trusted_key_does_not_wrap_what_counts_passwords() {
    let (client, session) = one_user();
    let trusted = secret(KeyType::AES, &[7; 16]).flag(A::WRAP, true).flag(A::PRIVATE, false).stored();
    let trusted = client.create(session, &trusted).expect("a key");
    client.trust(session, trusted);
    let kept = hotp().flag(A::SENSITIVE, true).flag(A::EXTRACTABLE, true);
    let only_trusted = client.create(session, &kept.clone().flag(A::WRAP_WITH_TRUSTED, true)).expect("a key");
    let wrap = |key| client.wrap(session, &plain(M::AES_KEY_WRAP_KWP), trusted, key);
    assert_eq!(wrap(only_trusted), Err(Error::KeyNotWrappable));
    // A key that every key wraps is no secret of the token.
    assert!(wrap(client.create(session, &kept).expect("a key")).is_ok());
}
