//! The client module neither waits for ever for its agent, nor ends its application.

mod common;

use std::ffi::c_void;
use std::thread;
use std::time::{Duration, Instant};

use agent_client as _;
use common::{Agent, parameters, socket};
use cryptoki_sys::*;
use jeton_agent_wire::status::status;
use jeton_client::{Access, Module};
use jeton_peers::Known;

fn module() -> Module {
    Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module")
}

#[test]
fn library_parameters_that_are_no_string_are_refused() {
    let _alone = common::alone();
    let module = module();
    let initialize = module.functions().C_Initialize.expect("a function");
    for pointer in [std::ptr::without_provenance_mut(1), c"\xff".as_ptr().cast_mut().cast::<c_void>()] {
        let mut given = CK_C_INITIALIZE_ARGS {
            CreateMutex: None,
            DestroyMutex: None,
            LockMutex: None,
            UnlockMutex: None,
            flags: CKF_OS_LOCKING_OK,
            pReserved: pointer,
        };
        // SAFETY: a complete struct; the module reads no more than the parameters' string.
        assert_eq!(unsafe { initialize((&raw mut given).cast()) }, CKR_ARGUMENTS_BAD);
    }
}

/// Returns the number of connected sockets of this process. Async-signal-safe.
fn connections() -> i32 {
    let is_connected = |descriptor: &i32| {
        // SAFETY: all zeros are a valid address.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is writable for its length.
        unsafe { libc::getpeername(*descriptor, (&raw mut address).cast(), &raw mut len) == 0 }
    };
    (0..1024).filter(is_connected).count() as i32
}

#[test]
fn a_forked_child_has_no_connection() {
    const WAITING: u64 = 300;
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let agent = Agent::start(directory.path());
    let module = module();
    module.initialize(Some(&parameters(directory.path()))).expect("an agent");
    let wait = module.functions().C_WaitForSlotEvent.expect("a function");
    let threads: Vec<_> = (0..WAITING)
        .map(|_| {
            thread::spawn(move || {
                let mut slot = 0;
                // SAFETY: the slot is writable.
                unsafe { wait(0, &raw mut slot, std::ptr::null_mut()) }
            })
        })
        .collect();
    while status(&socket(directory.path())).expect("an agent").connections < WAITING {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(connections() >= WAITING as i32);
    // SAFETY: the child calls async-signal-safe functions only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child. A status has eight bits.
        unsafe { libc::_exit(connections().min(255)) };
    }
    let mut left = 0;
    // SAFETY: a child of this process; the number is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut left, 0) }, child);
    assert_eq!(left, 0, "connections of the parent are open in the child");
    module.finalize().expect("a module");
    drop(agent);
    for waiting in threads {
        assert_ne!(waiting.join().expect("a thread"), CKR_OK);
    }
}

fn signal(agent: &Agent, signal: i32) {
    // SAFETY: kill(2) takes numbers.
    assert_eq!(unsafe { libc::kill(agent.id() as i32, signal) }, 0);
}

#[test]
fn a_stopped_agent_is_an_error_of_the_device() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let agent = Agent::start(directory.path());
    let module = module();
    module.initialize(Some(&parameters(directory.path()))).expect("an agent");
    let slot = module.slots(false).expect("slots")[0];
    signal(&agent, libc::SIGSTOP);
    let start = Instant::now();
    let failure = module.slots(false).expect_err("a stopped agent answers");
    assert!(matches!(failure.code, CKR_DEVICE_ERROR), "{failure}");
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    signal(&agent, libc::SIGCONT);
    thread::sleep(Duration::from_millis(300));
    assert!(module.slots(false).is_ok());
    assert!(module.open_session(slot, Access::ReadOnly).is_err(), "there is no token");
    module.finalize().expect("a module");
}

#[test]
fn calls_fail_at_once_after_one_has_waited() {
    let _alone = common::alone();
    let directory = tempfile::tempdir().expect("a directory");
    let mut agent = Agent::start(directory.path());
    let module = module();
    module.initialize(Some(&parameters(directory.path()))).expect("an agent");
    agent.kill();
    let start = Instant::now();
    module.close_all_sessions(jeton_client::SlotId(0)).expect("an answer without an agent");
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(module.slots(false).expect_err("no agent").code, CKR_DEVICE_ERROR);
    let waited = Instant::now();
    for _ in 0..10 {
        assert_eq!(module.slots(false).expect_err("no agent").code, CKR_DEVICE_ERROR);
    }
    assert!(waited.elapsed() < Duration::from_secs(1));
    agent.replace();
    thread::sleep(Duration::from_millis(300));
    assert!(module.slots(false).is_ok());
    module.finalize().expect("a module");
}
