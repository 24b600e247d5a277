//! The library parameters: their effects, and the refusal of invalid ones.

use jeton::config::{self, Settings};
use jeton::functions::Threads;
use jeton::mechanism;

use crate::prelude::*;

#[test]
fn a_denied_mechanism_is_neither_listed_nor_accepted() {
    let deny = ", mechanisms = { deny = ['CKM_ECDSA', 'CKM_EC_EDWARDS_KEY_PAIR_GEN', 'CKM_SHA_1', \
                'CKM_AES_KEY_GEN'], legacy = true }";
    let client = Client::with(DEFAULT, deny);
    let (session, module) = (client.user(), &client.module);
    let denied = [M::ECDSA, M::EC_EDWARDS_KEY_PAIR_GEN, M::SHA_1, M::AES_KEY_GEN];
    let listed = module.mechanisms(client.slot).expect("mechanisms");
    assert_eq!(listed.len() + denied.len(), mechanism::all().count());
    for id in denied {
        assert!(!listed.contains(&id));
        assert_eq!(module.mechanism(client.slot, id).err(), Some(Error::MechanismInvalid), "{id}");
    }
    let (public, private) = pair(&client, session, Kind::P256, &none());
    let refused = Err(Error::MechanismInvalid);
    assert_eq!(module.sign_init(session, &plain(M::ECDSA), private), refused);
    assert_eq!(module.verify_init(session, &plain(M::ECDSA), public), refused);
    assert_eq!(module.digest_init(session, &plain(M::SHA_1)), refused);
    let kind = Kind::Ed25519;
    let pair = client.generate(session, kind.generator(), &kind.request(), &none());
    assert_eq!(pair, Err(Error::MechanismInvalid));
    let length = none().number(jeton::id::AttributeType::VALUE_LEN, 32);
    assert_eq!(client.generate_key(session, M::AES_KEY_GEN, &length), Err(Error::MechanismInvalid));
    client.sign(session, &plain(M::ECDSA_SHA256), private, b"data").expect("a signature");
}

#[test]
fn only_allowed_mechanisms_are_listed() {
    let allow = ", mechanisms = { allow = ['CKM_EDDSA', 'CKM_SHA256'], deny = ['CKM_SHA256'] }";
    let client = Client::with(DEFAULT, allow);
    assert_eq!(client.mechanisms(client.slot), Ok(vec![M::EDDSA]));
}

#[test]
fn an_invalid_configuration_is_refused_and_a_valid_one_works_afterwards() {
    let directory = Directory::new();
    let module = Module::new();
    let place = format!("token-dir = '{}'", directory.path().display());
    for wrong in [
        "tokendir = 'x'",
        "backend = 'openssl'",
        "backend = 3",
        "token-dir = 3",
        "token-dir = ",
        "just words",
        "pin = 3",
        "pin = { retries = 0 }",
        "pin = { retries = -1 }",
        "pin = { min-length = 9, max-length = 8 }",
        "pin = { memory-kib = 1 }",
        "pin = { memory-kib = 4294967295 }",
        "pin = { length = 4 }",
        "mechanisms = { deny = ['CKM_NONE'] }",
        "mechanisms = { deny = 'CKM_ECDSA' }",
        "mechanisms = { curves = ['P-256'] }",
        "mechanisms = { curves = ['secp256r1'], min-ec-bits = 522 }",
        "mechanisms = { min-ec-bits = 223 }",
        "mechanisms = { refuse = [] }",
        "log = { level = 'chatty' }",
        "log = { file = '/no such directory/log' }",
        "backend = 'a' }, more = { b = 1",
    ] {
        assert_eq!(module.initialize(Some(wrong)), Err(Error::GeneralError), "{wrong}");
        let alike = format!("{place}, {wrong}");
        assert_eq!(module.initialize(Some(&alike)), Err(Error::GeneralError), "{alike}");
        assert_eq!(module.slots(), Err(Error::NotInitialized), "{wrong}");
    }
    assert_eq!(module.initialize(Some(&place)), Ok(()));
    assert_eq!(module.slots().map(|slots| slots.len()), Ok(1));
}

/// A process may get the configuration from another one, and read no file of it.
#[test]
fn a_text_of_a_configuration_is_checked_like_a_file_and_starts_a_module() {
    let directory = Directory::new();
    let parse = |text: &str| Settings::parse(text, Threads::Forbidden, None);
    for wrong in ["tokendir = 'x'", "token-dir = 3", "[pin]\nretries = 0", "[pin", "backend = 'openssl'"] {
        assert_eq!(parse(wrong).err(), Some(Error::GeneralError), "{wrong}");
    }
    let text = format!("token-dir = '{}'\n[pin]\nretries = 5\n", directory.path().display());
    let settings = parse(&text).expect("a configuration");
    assert_eq!((settings.token_dir.as_path(), settings.pins.retries), (directory.path(), 5));
    let module = Module::new();
    module.initialize_with(settings).expect("a module");
    assert_eq!(module.slots().map(|slots| slots.len()), Ok(1));
    assert_eq!(module.initialize(None), Err(Error::AlreadyInitialized));
}

#[test]
fn the_text_of_the_configuration_of_this_process_gives_the_same_settings() {
    let text = config::text().expect("a configuration");
    let parsed = Settings::parse(&text, Threads::Forbidden, None).expect("a configuration");
    let loaded = Settings::load(None, Threads::Forbidden).expect("a configuration");
    assert_eq!((parsed.token_dir, parsed.pins.retries), (loaded.token_dir, loaded.pins.retries));
}
