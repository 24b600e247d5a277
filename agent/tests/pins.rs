//! The counters of wrong PINs count the guesses of people.

mod common;

use common::peer::{Peer, text};
use common::*;
use jeton_agent_wire::layout::{SESSION_STATE, TOKEN_FLAGS};
use jeton_agent_wire::{Argument, Function};

const NEW_PIN: &str = "87654321";
/// More wrong PINs than any token allows.
const MANY: usize = 12;

fn flags(directory: &Path, slot: u64) -> CK_FLAGS {
    let arguments = vec![Argument::Number(slot), Argument::Pointer(true)];
    let returned = Peer::started(directory).returned(0, Function::C_GetTokenInfo, arguments);
    let info = &returned.expect("an answer").outputs[0];
    CK_FLAGS::from_ne_bytes(info[TOKEN_FLAGS..][..8].try_into().expect("flags"))
}

#[test]
fn an_old_ticket_is_refused_without_a_try() {
    let directory = &Directory::alone();
    let audit = directory.join("audit.jsonl");
    let more = format!("[audit]\nfile = '{}'\n", audit.display());
    let mut agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    let slot = make_token(directory);
    let (mut user, session) = Peer::opened(directory, slot);
    let old = user.login(session, CKU_USER, PIN).kept.expect("a ticket");
    // A login whose answer was lost is made again for its ticket.
    let again = user.login(session, CKU_USER, PIN);
    assert_eq!((again.code, again.kept.as_ref()), (CKR_USER_ALREADY_LOGGED_IN, Some(&old)));
    let change = vec![text(PIN), text(NEW_PIN)];
    let changed = user.returned(session, Function::C_SetPIN, change).expect("an answer");
    assert_eq!(changed.code, CKR_OK);
    agent.replace();
    // The application that changed the PIN stays logged in.
    let (mut user, session) = Peer::opened(directory, slot);
    assert_eq!(user.resume(session, &changed.kept.expect("a ticket")), CKR_OK);
    for _ in 0..MANY {
        let (mut peer, session) = Peer::opened(directory, slot);
        assert_eq!(peer.resume(session, &old), CKR_USER_NOT_LOGGED_IN);
    }
    assert_eq!(flags(directory, slot) & (CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_LOCKED), 0);
    // The administrator sees them.
    let clients = status(&socket(directory)).expect("a status").clients;
    assert_eq!(clients[0].refused, MANY as u64);
    let recorded = || fs::read_to_string(&audit).expect("the audit log").matches("ticket refused").count();
    until("the audit log lacks a refused ticket", || recorded() == MANY);
    let (mut peer, session) = Peer::opened(directory, slot);
    let login = peer.login(session, CKU_USER, NEW_PIN);
    assert_eq!(login.code, CKR_OK);
    agent.replace();
    let (mut peer, session) = Peer::opened(directory, slot);
    let ticket = login.kept.expect("a ticket");
    assert_eq!(peer.resume(session, &ticket), CKR_OK);
    // A ticket that arrives after the logout does not log in.
    assert_eq!(peer.call(session, Function::C_Logout, vec![]), Some(CKR_OK));
    assert_eq!(peer.resume(session, &ticket), CKR_USER_NOT_LOGGED_IN);
}

#[test]
fn a_rule_that_refuses_logins_refuses_older_tickets() {
    let directory = &Directory::alone();
    let agent = Agent::start(directory);
    let slot = make_token(directory);
    let (mut user, session) = Peer::opened(directory, slot);
    let ticket = user.login(session, CKU_USER, PIN).kept.expect("a ticket");
    drop(agent);
    for (refuse, outcome) in [("C_Login*", CKR_USER_NOT_LOGGED_IN), ("C_InitToken", CKR_OK)] {
        write_rules(directory, &format!("[[client]]\nrefuse = ['{refuse}']\n"));
        let _agent = Agent::start(directory);
        let (mut user, session) = Peer::opened(directory, slot);
        assert_eq!(user.resume(session, &ticket), outcome, "{refuse}");
    }
}

#[test]
fn the_agent_tries_a_wrong_pin_of_a_rule_once() {
    let directory = &Directory::alone();
    let agent = Agent::start(directory);
    let slot = make_token(directory);
    drop(agent);
    let (pin, log) = (directory.join("pin"), directory.join("log"));
    fs::write(&pin, "99999999").expect("a file");
    let rules = format!("[[client]]\nlogin = {{ token = 't', pin-file = '{}' }}\n", pin.display());
    write_rules(directory, &rules);
    let mut command = Command::new(PROGRAM);
    command.stderr(File::create(&log).expect("a file"));
    let _agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let is_logged_in = || {
        let (mut peer, session) = Peer::opened(directory, slot);
        let returned = peer.returned(session, Function::C_GetSessionInfo, vec![Argument::Pointer(true)]);
        let info = &returned.expect("an answer").outputs[0];
        info[SESSION_STATE..][..8] == CKS_RW_USER_FUNCTIONS.to_ne_bytes()
    };
    assert!((0..MANY).all(|_| !is_logged_in()));
    assert_eq!(flags(directory, slot) & (CKF_USER_PIN_FINAL_TRY | CKF_USER_PIN_LOCKED), 0);
    let said = fs::read_to_string(&log).expect("a log");
    assert_eq!(said.matches("the PIN is wrong").count(), 1, "{said}");
    assert!(said.contains("ERROR"), "{said}");
    fs::write(&pin, PIN).expect("a file");
    assert!(is_logged_in());
    // So is a missing PIN, after each change of the file.
    for _ in 0..2 {
        fs::remove_file(&pin).expect("a file");
        assert!((0..MANY).all(|_| !is_logged_in()));
        fs::write(&pin, PIN).expect("a file");
        assert!(is_logged_in());
    }
    let said = fs::read_to_string(&log).expect("a log");
    assert_eq!(said.matches("no PIN").count(), 2, "{said}");
}

#[test]
fn one_client_does_not_lock_the_pins_of_a_token() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let slot = make_token(directory);
    let wrong = |user, count| -> Vec<CK_RV> {
        let one = |_| {
            let (mut peer, session) = Peer::opened(directory, slot);
            peer.login(session, user, "99999999").code
        };
        (0..count).map(one).collect()
    };
    let login = |user, pin| {
        let (mut peer, session) = Peer::opened(directory, slot);
        peer.login(session, user, pin).code
    };
    // The right PIN gives all tries back.
    for _ in 0..2 {
        assert_eq!(wrong(CKU_USER, 4), [CKR_PIN_INCORRECT; 4]);
        assert_eq!(login(CKU_USER, PIN), CKR_OK);
    }
    for user in [CKU_USER, CKU_SO] {
        let codes = wrong(user, MANY);
        let (tried, others) = codes.split_at(5);
        assert_eq!(tried, [CKR_PIN_INCORRECT; 5]);
        assert!(others.iter().all(|code| *code == CKR_PIN_LOCKED), "{others:x?}");
    }
    let change = vec![text("99999999"), text(NEW_PIN)];
    let (mut peer, session) = Peer::opened(directory, slot);
    assert_eq!(peer.call(session, Function::C_SetPIN, change), Some(CKR_PIN_LOCKED));
    let label = " ".repeat(32);
    let init = vec![Argument::Number(slot), text("99999999"), text(&label)];
    drop(peer);
    assert_eq!(Peer::started(directory).call(0, Function::C_InitToken, init), Some(CKR_PIN_LOCKED));
    assert_eq!(flags(directory, slot) & (CKF_USER_PIN_LOCKED | CKF_SO_PIN_LOCKED), 0);
    agent.replace();
    assert_eq!((login(CKU_USER, PIN), login(CKU_SO, SO_PIN)), (CKR_OK, CKR_OK));
}

#[test]
fn a_hidden_token_announces_no_event() {
    for (label, outcome) in [("another", CKR_NO_EVENT), ("t", CKR_OK)] {
        let directory = &Directory::alone();
        let _free = Agent::start(directory);
        write_rules(directory, &format!("[[client]]\ntokens = ['{label}']\n"));
        let ruled = Agent::start_beside(directory, "ruled.socket");
        let mut peer = Peer(UnixStream::connect(ruled.socket()).expect("the agent"), 0);
        peer.start();
        make_token(directory);
        let call = vec![Argument::Number(CKF_DONT_BLOCK), Argument::Pointer(true), Argument::Pointer(false)];
        assert_eq!(peer.call(0, Function::C_WaitForSlotEvent, call), Some(outcome), "{label}");
    }
}
