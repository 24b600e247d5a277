//! The rules of clients, through the client module.

mod common;

use std::os::unix::fs::PermissionsExt;

use common::peer::{Peer, encoded, frame};
use common::*;
use jeton_agent_wire::{Call, Request};
use jeton_words::error::Error;
use jeton_words::token::Function;

#[test]
fn a_client_does_what_its_rule_allows_and_needs_no_pin() {
    let directory = &Directory::alone();
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
    module.finalize().expect("a module");
}

#[test]
fn the_log_names_a_token_that_the_agent_cannot_read() {
    if rustix::process::geteuid().is_root() {
        return jeton_programs::skip("root reads every file");
    }
    let directory = &Directory::new();
    let agent = Agent::start(directory);
    make_token(directory);
    drop(agent);
    let set = |mode| {
        for entry in fs::read_dir(directory.join("tokens")).expect("a directory") {
            let path = entry.expect("a token").path();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its owner");
        }
    };
    set(0);
    let log = directory.join("log");
    let mut command = Command::new(PROGRAM);
    command.stderr(File::create(&log).expect("a file"));
    let agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let lines = || fs::read_to_string(&log).expect("a log").matches("no client sees this token").count();
    assert_eq!(lines(), 1);
    assert!(Peer::started(directory).is_served());
    assert_eq!(lines(), 2);
    drop(agent);
    set(0o700);
}

/// A server opens its key as root, and a worker of another user goes on with the slot.
#[test]
fn a_token_has_one_slot_for_those_who_see_all_and_for_those_who_see_some() {
    let directory = &Directory::alone();
    let module = token::load_library();
    // As after a migration or a restore: both tokens were the first one of their directory.
    for label in ["one", "two"] {
        let alone = directory.join(label);
        fs::create_dir(&alone).expect("a directory");
        let _agent = Agent::start(&alone);
        module.initialize(Some(&parameters(&alone))).expect("an agent");
        initialise(&module, module.slots(false).expect("slots")[0], label, SO_PIN, PIN).expect("a token");
        module.finalize().expect("a module");
    }
    fs::create_dir(directory.join("tokens")).expect("a directory");
    for label in ["one", "two"] {
        for entry in fs::read_dir(directory.join(label).join("tokens")).expect("a directory") {
            let entry = entry.expect("a token");
            fs::rename(entry.path(), directory.join("tokens").join(entry.file_name())).expect("a token");
        }
    }
    let seen = |rule: &str| {
        write_rules(directory, &format!("[[client]]\n{rule}\n"));
        let _agent = Agent::start(directory);
        module.initialize(Some(&parameters(directory))).expect("an agent");
        let label = |slot| (module.token_info(slot).expect("a token").label, slot);
        let mut seen: Vec<_> = module.slots(true).expect("slots").into_iter().map(label).collect();
        module.finalize().expect("a module");
        // Without the free slot.
        seen.retain(|(label, _)| !label.is_empty());
        seen.sort();
        seen
    };
    let all = seen("");
    let labels: Vec<_> = all.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["one", "two"]);
    assert_eq!(seen("tokens = ['one']"), all[..1]);
    assert_eq!(seen("tokens = ['two']"), all[1..]);
}

/// Each token is a directory. The limit is one of the client: also its next process keeps to it.
#[test]
fn a_client_makes_no_more_tokens_than_its_rule_allows() {
    const MOST: usize = 3;
    let directory = &Directory::alone();
    write_rules(directory, &format!("[[client]]\nmost-tokens = {MOST}\n"));
    let agent = Agent::start(directory);
    let module = token::load(&parameters(directory));
    let make = |number: usize| {
        let slot = *module.slots(false).expect("slots").last().expect("a free slot");
        module.init_token(slot, SO_PIN, &number.to_string()).map_err(|failure| failure.code)
    };
    let codes: Vec<_> = (0..=MOST).map(make).collect();
    assert_eq!(codes, [Ok(()), Ok(()), Ok(()), Err(CKR_DEVICE_MEMORY)]);
    let worker = Pid::from_raw(agent.workers()[0] as i32).expect("a process");
    kill_process(worker, Signal::KILL).expect("a signal");
    until("no other process", || module.slots(true).is_ok() && !agent.workers().is_empty());
    assert_eq!(make(MOST), Err(CKR_DEVICE_MEMORY));
    assert_eq!(fs::read_dir(directory.join("tokens")).expect("tokens").count(), MOST);
    // An existing token can be made again.
    let slot = module.slots(true).expect("slots")[0];
    module.init_token(slot, SO_PIN, "again").expect("a token");
    module.finalize().expect("a module");
}

/// Starts an agent that refuses these functions, and writes its log to a file.
fn refusing(directory: &Path, refuse: &str) -> (Agent, PathBuf) {
    write_rules(directory, &format!("[[client]]\nrefuse = [{refuse}]\n"));
    let log = directory.join("log");
    let mut command = Command::new(PROGRAM);
    command.stderr(File::create(&log).expect("a file"));
    (Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent"), log)
}

#[test]
fn the_log_names_each_function_that_an_application_may_not_call() {
    let directory = &Directory::alone();
    let (_agent, log) = refusing(directory, "'C_D*', 'C_E*', 'C_S*', 'C_V*'");
    let mut peer = Peer::started(directory);
    // More than the lines that a client may write at once.
    let refused = [
        Function::C_DigestInit,
        Function::C_Digest,
        Function::C_DigestUpdate,
        Function::C_DigestFinal,
        Function::C_EncryptInit,
        Function::C_Encrypt,
        Function::C_EncryptUpdate,
        Function::C_EncryptFinal,
        Function::C_DecryptInit,
        Function::C_Decrypt,
        Function::C_SignInit,
        Function::C_Sign,
        Function::C_VerifyInit,
        Function::C_Verify,
    ];
    for function in refused {
        let call = Call::Refused { function, error: Error::ArgumentsBad };
        assert_eq!(peer.call(0, call), Some(Err(Error::FunctionNotSupported)), "{}", function.name());
    }
    let said = fs::read_to_string(&log).expect("a log");
    for function in refused {
        assert!(said.contains(&format!("function=\"{}\"", function.name())), "{said}");
    }
}

#[test]
fn the_log_says_how_many_lines_of_a_client_were_dropped() {
    const MANY: usize = 200;
    let directory = &Directory::alone();
    let (mut agent, log) = refusing(directory, "'C_Sign*'");
    for _ in 0..MANY {
        let call = Call::Refused { function: Function::C_Sign, error: Error::ArgumentsBad };
        assert_eq!(Peer::started(directory).call(0, call), Some(Err(Error::FunctionNotSupported)));
    }
    agent.signal(Signal::TERM);
    agent.wait();
    let said = fs::read_to_string(&log).expect("a log");
    let uid = format!("client=\"uid {}", rustix::process::getuid().as_raw());
    let reports: Vec<_> = said.lines().filter(|line| line.contains(" dropped=")).collect();
    assert!(!reports.is_empty() && reports.iter().all(|line| line.contains(&uid)), "{said}");
    let number =
        |line: &&str| -> Option<usize> { line.split_once(" dropped=")?.1.split(' ').next()?.parse().ok() };
    let dropped: usize = reports.iter().filter_map(number).sum();
    let written = said.lines().filter(|line| line.contains("refused by a rule")).count();
    assert_eq!(written + dropped, MANY, "{said}");
}

#[test]
fn calls_per_second_are_those_of_all_applications() {
    const RATE: u32 = 10;
    let directory = &Directory::new();
    write_rules(directory, &format!("[[client]]\ncalls-per-second = {RATE}\n"));
    let _agent = Agent::start(directory);
    // Six applications, each with a call, take twelve turns. The first ten come at once.
    let start = Instant::now();
    let mut applications = Vec::new();
    while applications.len() < 6 {
        let mut peer = Peer::connect(directory);
        if peer.refusal().is_none() {
            applications.push(peer);
        }
    }
    for peer in &mut applications {
        assert!(peer.is_served());
    }
    let begun = start.elapsed();
    assert!(begun >= Duration::from_millis(150), "{begun:?}");
    // Connections that end while they wait give back their turns.
    let waiting: Vec<_> = (0..300)
        .map(|_| {
            let mut peer = Peer::connect(directory);
            let start = Request::Start { version: jeton_agent_wire::VERSION, single: false };
            peer.0.write_all(&frame(&encoded(&start))).expect("a connection");
            peer
        })
        .collect();
    drop(waiting);
    let start = Instant::now();
    for peer in &mut applications {
        assert!(peer.is_served());
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// A rule names functions of the specification. Some have two requests.
#[test]
fn a_rule_for_a_function_refuses_both_of_its_requests() {
    let directory = &Directory::alone();
    let (_agent, _) = refusing(directory, "'C_EncryptMessageNext', 'C_SignMessageNext'");
    let mut peer = Peer::started(directory);
    for function in Function::ALL {
        let call = Call::Refused { function: *function, error: Error::ArgumentsBad };
        let is_refused = ["C_EncryptMessageNext", "C_SignMessageNext"].contains(&function.name());
        let refused = peer.call(0, call) == Some(Err(Error::FunctionNotSupported));
        assert_eq!(refused, is_refused, "{function:?}");
    }
}
