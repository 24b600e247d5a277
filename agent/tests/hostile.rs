//! The client module neither waits for ever for its agent, nor ends its application.

mod common;

use std::ffi::c_void;
use std::os::unix::net::UnixListener;
use std::ptr::null_mut;

use common::peer::{frame, read_frame};
use common::*;
use jeton_agent_wire::{self as wire, Reply, Request};
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn library_parameters_that_are_no_string_are_refused() {
    let _alone = module();
    let module = Module::load(Known::JetonAgent.library().expect("the client module")).expect("a module");
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

/// How long a call waits for an agent that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Returns library parameters with which calls wait longer: no agent of the test ends.
fn patient(directory: &Path) -> String {
    format!("agent = {{ address = 'unix:{}', timeout-seconds = 100 }}", socket(directory).display())
}

/// Returns how many sockets of this process are connected to this path. Async-signal-safe.
fn connections(path: &[u8]) -> i32 {
    let is_connected = |descriptor: &i32| {
        // SAFETY: all zeros are a valid address.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is writable for its length.
        let outcome = unsafe { libc::getpeername(*descriptor, (&raw mut address).cast(), &raw mut len) };
        // Other tests of this process connect to other paths.
        outcome == 0 && path.iter().zip(&address.sun_path).all(|(one, other)| *one == other.cast_unsigned())
    };
    (0..1024).filter(is_connected).count() as i32
}

/// Returns how many connections to this path a forked child has.
fn connections_in_child(path: &[u8]) -> i32 {
    // SAFETY: the child calls async-signal-safe functions only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child. A status has eight bits.
        unsafe { libc::_exit(connections(path).min(255)) };
    }
    let mut status = 0;
    // SAFETY: a child of this process; the number is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status}");
    libc::WEXITSTATUS(status)
}

/// Answers as an agent to the first message of each connection, and to no call. A slow machine does
/// this for many connections at once.
fn answer_first(listener: &UnixListener) {
    let (application, mut started) = ([7; 32], Vec::new());
    let reply = Reply::Started { version: wire::VERSION, application, longest: 1 << 20 };
    wire::encode(&reply, &mut started).expect("a frame");
    let mut open = Vec::new();
    for mut stream in listener.incoming().map(|stream| stream.expect("a connection")) {
        let Some(message) = read_frame(&mut stream) else { continue };
        let Ok(()) = stream.write_all(&started) else { continue };
        match wire::decode(&message) {
            Ok(Request::Start { .. }) => open.push(stream),
            Ok(Request::Join { application: joined, .. }) if joined == application => open.push(stream),
            // A call that waits asks whether the agent lives.
            Ok(Request::Join { .. }) => {}
            _ => return,
        }
    }
}

#[test]
fn a_forked_child_has_no_connection() {
    // The module's first list of descriptors has 256 places.
    const CONNECTIONS: i32 = 257;
    let directory = &Directory::alone();
    let listener = UnixListener::bind(socket(directory)).expect("a socket");
    let agent = thread::spawn(move || answer_first(&listener));
    let module = token::load(&parameters(directory));
    let wait = module.functions().C_WaitForSlotEvent.expect("a function");
    let threads: Vec<_> = (0..300)
        .map(|_| {
            thread::spawn(move || {
                let mut slot = 0;
                // SAFETY: the slot is writable.
                unsafe { wait(0, &raw mut slot, null_mut()) }
            })
        })
        .collect();
    let path = socket(directory);
    let path = path.as_os_str().as_encoded_bytes();
    let enough = || connections(path) >= CONNECTIONS;
    jeton_child::until(Duration::from_secs(120), "threads without a connection", enough);
    // A thread that asks whether the agent lives may close its connection at this moment: a child
    // may have that one, but not the next child too.
    let nothing = || connections_in_child(path) == 0;
    until("connections of the parent are open in the child", nothing);
    // What is no first message of a connection ends the agent. It must be able to answer before.
    let mut last = UnixStream::connect(socket(directory)).expect("a socket");
    last.write_all(&frame(&[])).expect("a message");
    agent.join().expect("a thread");
    module.finalize().expect("a module");
    for waiting in threads {
        assert_ne!(waiting.join().expect("a thread"), CKR_OK);
    }
}

#[test]
fn a_stopped_agent_is_an_error_of_the_device() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let module = token::load(&parameters(directory));
    let slot = module.slots(false).expect("slots")[0];
    agent.stop();
    let start = Instant::now();
    let failure = module.slots(false).expect_err("a stopped agent answers");
    assert!(matches!(failure.code, CKR_DEVICE_ERROR), "{failure}");
    assert!(start.elapsed() < 3 * PATIENCE, "{:?}", start.elapsed());
    agent.signal_all(Signal::CONT);
    until("the agent does not go on", || module.slots(false).is_ok());
    assert!(module.open_session(slot, Access::ReadOnly).is_err(), "there is no token");
    module.finalize().expect("a module");
}

#[test]
fn calls_fail_at_once_after_one_has_waited() {
    let (agent, directory) = &mut Agent::within(Directory::alone());
    let module = token::load(&parameters(directory));
    agent.kill();
    let start = Instant::now();
    module.close_all_sessions(jeton_client::SlotId(0)).expect("an answer without an agent");
    assert!(start.elapsed() < PATIENCE);
    assert_eq!(module.slots(false).expect_err("no agent").code, CKR_DEVICE_ERROR);
    let waited = Instant::now();
    for _ in 0..10 {
        assert_eq!(module.slots(false).expect_err("no agent").code, CKR_DEVICE_ERROR);
    }
    // None of them has waited.
    assert!(waited.elapsed() < PATIENCE);
    agent.replace();
    until("the agent does not answer", || module.slots(false).is_ok());
    module.finalize().expect("a module");
}

/// What a client process says: the codes of two digests of long data.
const LONG: [usize; 2] = [256 << 20, 100 << 20];

/// Not a test by itself: a client process that may have little memory. Its role is the directory of
/// the agent.
#[test]
fn client() {
    let Some(role) = jeton_child::role::<PathBuf>() else { return };
    let parameters = patient(&role.expect("a role"));
    token::make(&parameters);
    let module = token::load(&parameters);
    let slot = module.slots(true).expect("slots")[0];
    let session = module.open_session(slot, Access::ReadOnly).expect("a session");
    session.digest_init(&Mechanism::new(CKM_SHA256)).expect("an operation");
    let data = vec![0; LONG[0]];
    let status = fs::read_to_string("/proc/self/status").expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).expect("a line");
    let used: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    let limit = Some((used << 10) + (64 << 20));
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).expect("a limit");
    let codes =
        LONG.map(|len| session.digest_update(&data[..len]).map_or_else(|failure| failure.code, |()| CKR_OK));
    jeton_child::say(&codes);
    process::exit(0);
}

#[test]
fn a_client_without_memory_for_a_call_goes_on() {
    let (_, directory) = &mut Agent::within(Directory::new());
    let mut child =
        Child::start(&mut jeton_child::of_test("client", &directory.to_path_buf())).expect("a client");
    let codes: [CK_RV; 2] = child.hear(Duration::from_secs(120)).expect("a client");
    // A message of this length is refused before its copy, and the other one has no memory.
    assert_eq!(codes, [CKR_DEVICE_MEMORY, CKR_HOST_MEMORY]);
}

#[test]
fn a_length_that_does_not_fit_is_refused_as_in_process() {
    let directory = &Directory::alone();
    write_rules(directory, "[[client]]\nmemory = 1048576\n");
    let _agent = Agent::start(directory);
    token::make(&patient(directory));
    let module = token::load(&patient(directory));
    let session = token::log_in(&module);
    let find = |class| session.find(&[Attribute::number(CKA_CLASS, class)]).expect("a search")[0].0;
    let (key, private) = (find(CKO_PUBLIC_KEY), find(CKO_PRIVATE_KEY));
    let template = [Attribute::number(CKA_VALUE_LEN, 32)];
    let aes = session.generate_key(&Mechanism::new(CKM_AES_KEY_GEN), &template).expect("a key").0;
    let functions = module.functions_3_2().expect("a list");
    let given = |mechanism| CK_MECHANISM { mechanism, pParameter: null_mut(), ulParameterLen: 0 };
    let [mut ecdsa, mut ecb, mut sha256] = [CKM_ECDSA_SHA256, CKM_AES_ECB, CKM_SHA256].map(given);
    // More than a message of this client may have.
    let (session, mut data, long) = (session.handle(), vec![7; 2 << 20], 2 << 20);
    let (data, pin) = (data.as_mut_ptr(), PIN.as_ptr().cast_mut());
    macro_rules! call {
        ($name:ident($($argument:expr),*)) => {
            // SAFETY: the pointers are `NULL` or readable for their lengths, but for those that
            // every function refuses by their lengths.
            unsafe { functions.$name.expect("a function")(session, $($argument),*) }
        };
    }
    let mut len = 64;
    for (long, others) in
        [(1 << 36, None), (1 << 63, Some(CKR_ARGUMENTS_BAD)), (u64::MAX, Some(CKR_ARGUMENTS_BAD))]
    {
        let is = |code| others.unwrap_or(code);
        assert_eq!(call!(C_SetPIN(pin, PIN.len() as u64, data, long)), is(CKR_PIN_LEN_RANGE), "{long:#x}");
        assert_eq!(call!(C_VerifyInit(&raw mut ecdsa, key)), CKR_OK);
        assert_eq!(call!(C_Verify(data, 4, data, long)), is(CKR_SIGNATURE_LEN_RANGE), "{long:#x}");
        // A verification that is not carried out does not succeed.
        assert_eq!(call!(C_MessageVerifyInit(&raw mut ecdsa, key)), CKR_OK);
        assert_eq!(call!(C_VerifyMessageBegin(null_mut(), 0)), CKR_OK);
        let code = call!(C_VerifyMessageNext(null_mut(), 0, data, 4, data, long));
        assert_eq!(code, is(CKR_SIGNATURE_LEN_RANGE), "{long:#x}");
        assert_eq!(call!(C_SessionCancel(CKF_VERIFY | CKF_MESSAGE_VERIFY)), CKR_OK);
        if others.is_some() {
            assert_eq!(call!(C_SeedRandom(data, long)), CKR_ARGUMENTS_BAD, "{long:#x}");
            assert_eq!(call!(C_GenerateRandom(data, long)), CKR_ARGUMENTS_BAD, "{long:#x}");
        }
    }
    // More than the agent makes is refused before anything is written.
    assert_eq!(call!(C_GenerateRandom(data, 1 << 36)), CKR_DEVICE_MEMORY);
    assert_eq!(call!(C_VerifyInit(&raw mut ecdsa, key)), CKR_OK);
    assert_ne!(call!(C_Verify(data, 4, data, len)), CKR_OK);
    assert_eq!(call!(C_GetOperationState(null_mut(), &raw mut len)), CKR_OPERATION_NOT_INITIALIZED);

    // Such a call ends its operation, and no other one. The agent has no memory for this output.
    let mut most = 1 << 20;
    let room = &raw mut most;
    macro_rules! ends {
        ($flag:ident $init:expr; $($call:expr),*) => {
            $(
                assert_eq!($init, CKR_OK, stringify!($call));
                assert_eq!($call, CKR_DEVICE_MEMORY, stringify!($call));
            )*
            assert_eq!($init, CKR_OK, stringify!($init));
            assert_eq!(call!(C_SessionCancel($flag)), CKR_OK);
        };
    }
    assert_eq!(call!(C_DigestInit(&raw mut sha256)), CKR_OK);
    assert_eq!(call!(C_DigestUpdate(data, 4)), CKR_OK);
    ends!(CKF_SIGN call!(C_SignInit(&raw mut ecdsa, private));
        call!(C_Sign(data, long, data, room)), call!(C_Sign(data, 4, data, room)),
        call!(C_SignUpdate(data, long)), call!(C_SignFinal(data, room)));
    ends!(CKF_VERIFY call!(C_VerifyInit(&raw mut ecdsa, key));
        call!(C_Verify(data, long, data, 64)), call!(C_VerifyUpdate(data, long)));
    ends!(CKF_VERIFY call!(C_VerifySignatureInit(&raw mut ecdsa, key, data, 64));
        call!(C_VerifySignature(data, long)), call!(C_VerifySignatureUpdate(data, long)));
    ends!(CKF_ENCRYPT call!(C_EncryptInit(&raw mut ecb, aes));
        call!(C_Encrypt(data, long, data, room)), call!(C_EncryptUpdate(data, 16, data, room)),
        call!(C_DigestEncryptUpdate(data, long, data, room)));
    ends!(CKF_DECRYPT call!(C_DecryptInit(&raw mut ecb, aes));
        call!(C_Decrypt(data, 16, data, room)), call!(C_DecryptUpdate(data, long, data, room)));
    assert_eq!(call!(C_MessageSignInit(&raw mut ecdsa, private)), CKR_OK);
    let code = call!(C_SignMessage(null_mut(), 0, data, long, data, room));
    assert_eq!(code, CKR_DEVICE_MEMORY);
    let mut len = 64;
    assert_eq!(call!(C_SignMessage(null_mut(), 0, data, 4, data, &raw mut len)), CKR_OK);
    assert_eq!(call!(C_DigestFinal(data, &raw mut len)), CKR_OK);
    module.finalize().expect("a module");
}

#[test]
fn a_session_is_closed_after_the_call_that_runs_in_it() {
    let (_, directory) = &mut Agent::within(Directory::alone());
    token::make(&patient(directory));
    let module = token::load(&patient(directory));
    let session = token::log_in(&module);
    let close = module.functions().C_CloseSession.expect("a function");
    let handle = session.handle();
    let call = thread::spawn(move || {
        let public = [Attribute::number(CKA_MODULUS_BITS, 4096)];
        let generate = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
        let outcome = session.generate_key_pair(&generate, &public, &[]).map(drop);
        // Not dropped here: that closes the session.
        (session, outcome)
    });
    // That of the token, and this one.
    until("the call does not begin", || {
        let functions = status(&socket(directory)).expect("an agent").functions;
        functions.iter().any(|of| of.function == "C_GenerateKeyPair" && of.calls == 2)
    });
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { close(handle) }, CKR_OK);
    let is_closed = || status(&socket(directory)).expect("an agent").sessions == 0;
    until("the session stays open", is_closed);
    let (session, outcome) = call.join().expect("a thread");
    // It fails in a session that is closed.
    outcome.expect("a key pair");
    drop(session);
    module.finalize().expect("a module");
}
