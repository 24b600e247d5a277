//! The counters of wrong PINs count the guesses of people.

mod common;

use common::peer::{Peer, Who, text};
use common::*;
use jeton_agent_wire::call::Here;
use jeton_agent_wire::status::PinState;
use jeton_agent_wire::{Call, Outcome};
use jeton_words::error::{Error, Result as Returns};
use jeton_words::id::SlotId;
use jeton_words::slot::Wait;

const NEW_PIN: &str = "87654321";
const WRONG_PIN: &str = "99999999";
/// More wrong PINs than any token allows.
const MANY: usize = 12;
/// The applications of one client that log in at once.
const CROWD: usize = 150;

fn flags(directory: &Path, slot: u64) -> CK_FLAGS {
    let returned = Peer::started(directory).returned(0, Call::C_GetTokenInfo { slot: SlotId(slot) });
    let returned = returned.expect("an answer");
    let Ok(Outcome::C_GetTokenInfo { result, .. }) = returned.answer().outcome else { panic!("no token") };
    result.flags
}

/// Returns a call of `C_SetPIN`.
fn change<'a>(old: &'a str, new: &'a str) -> Call<'a> {
    Call::C_SetPIN { session: Here, old: text(old), new: text(new) }
}

#[test]
fn an_old_ticket_is_refused_without_a_try() {
    let directory = &Directory::alone();
    let (more, audit) = audited(directory);
    let mut agent = Agent::try_start(directory, "agent.socket", &more).expect("an agent");
    let slot = make_token(directory);
    let (mut user, session) = Peer::opened(directory, slot);
    let old = user.login(session, Who::User, PIN).kept().expect("a ticket");
    // A login whose answer was lost is made again for its ticket.
    let again = user.login(session, Who::User, PIN);
    assert_eq!((again.result(), again.kept().as_ref()), (Err(Error::UserAlreadyLoggedIn), Some(&old)));
    let changed = user.returned(session, change(PIN, NEW_PIN)).expect("an answer");
    assert_eq!(changed.result(), Ok(()));
    agent.replace();
    // The application that changed the PIN stays logged in.
    let (mut user, session) = Peer::opened(directory, slot);
    assert_eq!(user.resume(session, &changed.kept().expect("a ticket")), Ok(()));
    for _ in 0..MANY {
        let (mut peer, session) = Peer::opened(directory, slot);
        assert_eq!(peer.resume(session, &old), Err(Error::UserNotLoggedIn));
    }
    assert_eq!(flags(directory, slot) & (CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_LOCKED), 0);
    // The administrator sees them.
    let clients = status(&socket(directory)).expect("a status").clients;
    assert_eq!(clients[0].refused, MANY as u64);
    let recorded = || fs::read_to_string(&audit).expect("the audit log").matches("ticket refused").count();
    // The further ones are counted.
    until("the audit log lacks a refused ticket", || recorded() == 10);
    let (mut peer, session) = Peer::opened(directory, slot);
    let login = peer.login(session, Who::User, NEW_PIN);
    assert_eq!(login.result(), Ok(()));
    agent.replace();
    let (mut peer, session) = Peer::opened(directory, slot);
    let ticket = login.kept().expect("a ticket");
    assert_eq!(peer.resume(session, &ticket), Ok(()));
    // A ticket that arrives after the logout does not log in.
    assert_eq!(peer.call(session, Call::C_Logout { session: Here }), Some(Ok(())));
    assert_eq!(peer.resume(session, &ticket), Err(Error::UserNotLoggedIn));
}

#[test]
fn a_rule_that_refuses_logins_refuses_older_tickets() {
    let directory = &Directory::alone();
    let agent = Agent::start(directory);
    let slot = make_token(directory);
    let (mut user, session) = Peer::opened(directory, slot);
    let ticket = user.login(session, Who::User, PIN).kept().expect("a ticket");
    drop(agent);
    for (refuse, outcome) in [("C_Login*", Err(Error::UserNotLoggedIn)), ("C_InitToken", Ok(()))] {
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
    fs::write(&pin, WRONG_PIN).expect("a file");
    let rules = format!("[[client]]\nlogin = {{ token = 't', pin-file = '{}' }}\n", pin.display());
    write_rules(directory, &rules);
    let mut command = Command::new(PROGRAM);
    command.stderr(File::create(&log).expect("a file"));
    let _agent = Agent::try_start_with(command, directory, "agent.socket", "").expect("an agent");
    let is_logged_in = || {
        let (mut peer, session) = Peer::opened(directory, slot);
        let returned = peer.returned(session, Call::C_GetSessionInfo { session: Here });
        let returned = returned.expect("an answer");
        let Ok(Outcome::C_GetSessionInfo { result, .. }) = returned.answer().outcome else { return false };
        result.state == CKS_RW_USER_FUNCTIONS
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
    let wrong = |user, count| -> Vec<Returns<()>> {
        let one = |_| {
            let (mut peer, session) = Peer::opened(directory, slot);
            peer.login(session, user, WRONG_PIN).result()
        };
        (0..count).map(one).collect()
    };
    let login = |user, pin| {
        let (mut peer, session) = Peer::opened(directory, slot);
        peer.login(session, user, pin).result()
    };
    // The right PIN gives all tries back.
    for _ in 0..2 {
        assert_eq!(wrong(Who::User, 4), [Err(Error::PinIncorrect); 4]);
        assert_eq!(login(Who::User, PIN), Ok(()));
    }
    for user in [Who::User, Who::SecurityOfficer] {
        let codes = wrong(user, MANY);
        let (tried, others) = codes.split_at(5);
        assert_eq!(tried, [Err(Error::PinIncorrect); 5]);
        assert!(others.iter().all(|code| *code == Err(Error::PinLocked)), "{others:?}");
    }
    let (mut peer, session) = Peer::opened(directory, slot);
    assert_eq!(peer.call(session, change(WRONG_PIN, NEW_PIN)), Some(Err(Error::PinLocked)));
    drop(peer);
    let init = Call::C_InitToken { slot: SlotId(slot), pin: text(WRONG_PIN), label: [b' '; 32] };
    assert_eq!(Peer::started(directory).call(0, init), Some(Err(Error::PinLocked)));
    let token = &status(&socket(directory)).expect("a status").tokens[0];
    assert!(token.pin != PinState::Locked && token.so_pin != PinState::Locked);
    agent.replace();
    assert_eq!((login(Who::User, PIN), login(Who::SecurityOfficer, SO_PIN)), (Ok(()), Ok(())));
}

/// One after the other, these logins would take longer than a peer waits.
#[test]
fn many_applications_log_in_at_once() {
    let directory = &Directory::new();
    let _agent = Agent::try_start(directory, "agent.socket", SLOW_PINS).expect("an agent");
    let slot = make_token(directory);
    for user in [(Who::User, PIN), (Who::SecurityOfficer, SO_PIN)] {
        let codes =
            at_once(directory, slot, CROWD, |_, peer, session| peer.login(session, user.0, user.1).result());
        assert_eq!(codes, [Ok(()); CROWD]);
    }
}

#[test]
fn wrong_pins_at_once_use_up_five_tries() {
    let (_agent, directory) = Agent::within(Directory::new());
    let slot = make_token(&directory);
    // Some applications try the same PIN, and others another one.
    let pin = |number: usize| format!("9999999{}", number % 7);
    let codes = at_once(&directory, slot, CROWD, |number, peer, session| match number % 3 {
        0 => peer.call(session, change(&pin(number), NEW_PIN)).expect("an answer"),
        _ => peer.login(session, Who::User, &pin(number)).result(),
    });
    let count = |wanted| codes.iter().filter(|code| **code == Err(wanted)).count();
    assert_eq!((count(Error::PinIncorrect), count(Error::PinLocked)), (5, CROWD - 5), "{codes:?}");
    // The client has no try left. The token has some.
    assert_ne!(flags(&directory, slot) & CKF_USER_PIN_LOCKED, 0);
    let tokens = status(&socket(&directory)).expect("a status").tokens;
    assert_ne!(tokens[0].pin, PinState::Locked);
}

#[test]
fn a_token_says_how_many_tries_the_client_has_left() {
    let (mut agent, directory) = Agent::within(Directory::new());
    let slot = make_token(&directory);
    let of_user = CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_FINAL_TRY | CKF_USER_PIN_LOCKED;
    let (mut peer, session) = Peer::opened(&directory, slot);
    let mut tried = |pin| {
        let result = peer.login(session, Who::User, pin).result();
        (result, flags(&directory, slot) & of_user)
    };
    for _ in 0..3 {
        assert_eq!(tried(WRONG_PIN), (Err(Error::PinIncorrect), CKF_USER_PIN_COUNT_LOW));
    }
    let last = CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_FINAL_TRY;
    assert_eq!(tried(WRONG_PIN), (Err(Error::PinIncorrect), last));
    let locked = CKF_USER_PIN_COUNT_LOW | CKF_USER_PIN_LOCKED;
    assert_eq!(tried(WRONG_PIN), (Err(Error::PinIncorrect), locked));
    assert_eq!(tried(PIN), (Err(Error::PinLocked), locked));
    // A process of the client that dies gives no new tries.
    let worker = Pid::from_raw(agent.workers()[0] as i32).expect("a process");
    kill_process(worker, Signal::KILL).expect("a signal");
    until("no new process", || Peer::connect(&directory).refusal().is_none());
    let (mut peer, session) = Peer::opened(&directory, slot);
    assert_eq!(peer.login(session, Who::User, PIN).result(), Err(Error::PinLocked));
    // The SO sets the PIN again. The tries of the old PIN do not count.
    assert_eq!(peer.login(session, Who::SecurityOfficer, SO_PIN).result(), Ok(()));
    let init = Call::C_InitPIN { session: Here, pin: text(NEW_PIN) };
    assert_eq!(peer.call(session, init), Some(Ok(())));
    assert_eq!(peer.call(session, Call::C_Logout { session: Here }), Some(Ok(())));
    assert_eq!(flags(&directory, slot) & of_user, 0);
    assert_eq!(peer.login(session, Who::User, NEW_PIN).result(), Ok(()));
    assert!(agent.runs());
}

/// A right PIN waits for the outcome of wrong ones that came first.
#[test]
fn a_few_wrong_pins_at_once_refuse_no_right_one() {
    let (_agent, directory) = Agent::within(Directory::new());
    let slot = make_token(&directory);
    let is_wrong = |number: usize| number % 40 == 7;
    let codes = at_once(&directory, slot, CROWD, |number, peer, session| {
        peer.login(session, Who::User, if is_wrong(number) { WRONG_PIN } else { PIN }).result()
    });
    let expected = |number| if is_wrong(number) { Err(Error::PinIncorrect) } else { Ok(()) };
    assert_eq!(codes, (0..CROWD).map(expected).collect::<Vec<_>>());
}

#[test]
fn a_hidden_token_announces_no_event() {
    for (label, outcome) in [("another", Err(Error::NoEvent)), ("t", Err(Error::NoEvent))] {
        let directory = &Directory::alone();
        let _free = Agent::start(directory);
        write_rules(directory, &format!("[[client]]\ntokens = ['{label}']\n"));
        let ruled = Agent::start_beside(directory, "ruled.socket");
        let mut peer = Peer(UnixStream::connect(ruled.socket()).expect("the agent"), 0);
        peer.start();
        make_token(directory);
        let call = Call::C_WaitForSlotEvent { wait: Wait::Never };
        assert_eq!(peer.call(0, call), Some(outcome), "{label}");
    }
}

/// The process of a client that a rule confines to tokens sees no later one. The next process does.
#[test]
fn a_later_token_of_a_rule_is_there_for_the_next_connection() {
    let directory = &Directory::alone();
    let _free = Agent::start(directory);
    write_rules(directory, "[[client]]\ntokens = ['t']\n");
    let ruled = Agent::start_beside(directory, "ruled.socket");
    let connect = || {
        let mut peer = Peer(UnixStream::connect(ruled.socket()).expect("the agent"), 0);
        peer.start();
        peer
    };
    let slots = |peer: &mut Peer| {
        let returned = peer.returned(0, Call::C_GetSlotList {}).expect("an answer");
        let Ok(Outcome::C_GetSlotList { result }) = returned.answer().outcome else { panic!("no list") };
        result.0.len()
    };
    let mut peer = connect();
    assert_eq!(slots(&mut peer), 0);
    make_token(directory);
    assert_eq!(slots(&mut peer), 0);
    drop(peer);
    until("the token does not come", || slots(&mut connect()) == 1);
}
