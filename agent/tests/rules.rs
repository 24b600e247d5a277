//! The rules of clients, through the client module.

mod common;

use common::*;

#[test]
fn a_client_does_what_its_rule_allows_and_needs_no_pin() {
    let directory = &Directory::new();
    let agent = Agent::start(directory);
    let parameters = parameters(directory);
    let module = token::load(&parameters);
    for label in ["mine", "other"] {
        let free = module.slots(true).expect("slots").pop().expect("a free slot");
        initialise(&module, free, label, SO_PIN, PIN).expect("a token");
    }
    let slot = module.slots(true).expect("slots")[0];
    let session = token::log_in(&module);
    let public = [Attribute::bytes(CKA_EC_PARAMS, token::CURVE), Attribute::flag(CKA_TOKEN, true)];
    let private = [Attribute::flag(CKA_TOKEN, true)];
    let generate = Mechanism::new(CKM_EC_KEY_PAIR_GEN);
    session.generate_key_pair(&generate, &public, &private).expect("a key");
    session.close().expect("a session");
    let serial = module.token_info(slot).expect("a token").serial;
    module.finalize().expect("a module");
    drop(agent);

    let uid = rustix::process::getuid().as_raw();
    let pin = directory.join("pin");
    fs::write(&pin, format!("{PIN}\n")).expect("a file");
    let rules = format!(
        "[[client]]\nuid = {uid}\ntokens = ['serial:{serial}']\nrefuse = ['C_Generate*', 'C_InitToken']\n\
         mechanisms = ['CKM_ECDSA']\nsessions = 2\nlogin = {{ token = 'serial:{serial}', pin-file = '{}' }}\n",
        pin.display()
    );
    write_rules(directory, &rules);
    let _agent = Agent::start(directory);
    module.initialize(Some(&parameters)).expect("an agent");
    assert_eq!(module.slots(true).expect("slots"), [slot]);
    assert_eq!(module.token_info(slot).expect("a token").flags & CKF_LOGIN_REQUIRED, 0);
    let session = module.open_session(slot, Access::ReadWrite).expect("a session");
    let keys = session.find(&[Attribute::number(CKA_CLASS, CKO_PRIVATE_KEY)]).expect("a search");
    let sign = |kind| {
        session.sign_init(&Mechanism::new(kind), keys[0])?;
        session.sign(&[7; 32], &mut [0; 64])
    };
    assert_eq!(sign(CKM_ECDSA).map_err(|failure| failure.code), Ok(64));
    assert_eq!(sign(CKM_ECDSA_SHA256).map_err(|failure| failure.code), Err(CKR_MECHANISM_INVALID));
    // A program that insists on a login, with any PIN, changes nothing.
    session.login(User::User, Some("unknown")).expect("a login");
    session.logout().expect("a logout");
    let so = session.login(User::So, Some(SO_PIN)).map_err(|failure| failure.code);
    assert_eq!(so, Err(CKR_USER_ANOTHER_ALREADY_LOGGED_IN));
    assert_eq!(sign(CKM_ECDSA).map_err(|failure| failure.code), Ok(64));
    let refused = session.generate_key_pair(&generate, &public, &private);
    assert_eq!(refused.map_err(|failure| failure.code), Err(CKR_FUNCTION_NOT_SUPPORTED));
    let _second = module.open_session(slot, Access::ReadOnly).expect("a session");
    let third = module.open_session(slot, Access::ReadOnly);
    assert_eq!(third.map(drop).map_err(|failure| failure.code), Err(CKR_SESSION_COUNT));
}
