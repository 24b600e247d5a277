//! What the client module writes to standard error. This program has one test, because standard
//! error belongs to the process.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use jeton_agent_wire::{self as wire, Reply};
use jeton_client::Remote;
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::token::Token;
use rustix::net::{SocketAddrUnix, getpeername};

/// Calls `C_Initialize` with this standard error.
fn start(errors: &PipeWriter, parameters: &str) -> Result<()> {
    with(errors, || Remote::default().start(Some(parameters), Threads::Allowed))
}

/// Does something with this standard error.
fn with<T>(errors: &PipeWriter, work: impl FnOnce() -> T) -> T {
    // SAFETY: open descriptors. Standard error is given back.
    unsafe {
        let before = libc::dup(2);
        assert_eq!(libc::dup2(errors.as_raw_fd(), 2), 2);
        let outcome = work();
        assert_eq!((libc::dup2(before, 2), libc::close(before)), (2, 0));
        outcome
    }
}

/// Starts an agent with this answer to each connection.
fn answer(path: &Path, reply: &Reply<'_>) {
    let listener = UnixListener::bind(path).expect("a socket");
    let mut message = Vec::new();
    wire::encode(reply, &mut message).expect("a message");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 64]).and_then(|_| stream.write_all(&message));
        }
    });
}

/// Fills a pipe.
fn fill(writer: &PipeWriter) {
    let set = |flags: libc::c_int| {
        // SAFETY: an open descriptor.
        assert_eq!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) }, 0);
    };
    set(libc::O_NONBLOCK);
    while (&*writer).write(&[b'x'; 4096]).is_ok() {}
    assert_eq!((&*writer).write(b"x").map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
    set(0);
}

/// Returns whether a connection to an agent is the standard input of an application that has closed
/// its own.
fn connects_as_standard_input(errors: &PipeWriter, path: &Path) -> bool {
    let listener = UnixListener::bind(path).expect("a socket");
    let parameters = format!("agent = {{ address = 'unix:{}', timeout-seconds = 1 }}", path.display());
    let address = SocketAddrUnix::new(path).expect("a path");
    let is_connection = || {
        // SAFETY: only borrowed, and the number of no descriptor is an error of the call.
        let peer = getpeername(unsafe { BorrowedFd::borrow_raw(0) });
        let peer = peer.ok().flatten().and_then(|peer| SocketAddrUnix::try_from(peer).ok());
        peer.is_some_and(|peer| peer == address)
    };
    thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let mut found = Vec::new();
            while let Ok(_connection) = listener.accept() {
                found.push(is_connection());
            }
            found
        });
        // The agent has the descriptor of its first connection.
        thread::sleep(Duration::from_millis(200));
        let found = with(errors, || {
            // SAFETY: open descriptors. Standard input is given back when nothing is opened.
            unsafe {
                let before = libc::dup(0);
                assert_eq!(libc::close(0), 0);
                let started = Remote::default().start(Some(&parameters), Threads::Allowed);
                assert_eq!(started, Err(Error::GeneralError));
                assert_eq!(libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR), 0);
                let found = agent.join().expect("a thread");
                assert_eq!((libc::dup2(before, 0), libc::close(before)), (0, 0));
                found
            }
        });
        assert!(!found.is_empty());
        found.contains(&true)
    })
}

fn lines((mut reader, writer): (PipeReader, PipeWriter)) -> String {
    drop(writer);
    let mut lines = String::new();
    reader.read_to_string(&mut lines).expect("lines");
    lines
}

#[test]
fn standard_error_neither_stops_nor_ends_the_application_and_has_no_words_for_a_terminal() {
    // SAFETY: the usual action, which ends the process. A test program ignores the signal.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("agent");
    let reason = "\u{1b}]0;title\u{7}red\u{9b}31m \u{202e}back\nline\u{e9}".repeat(9);
    answer(&path, &Reply::Refused(&reason));
    let address = path.display();
    // The first call chooses the level of the log.
    let hostile = format!("agent = {{ address = 'unix:{address}' }}, log = {{ level = 'debug' }}");
    let refused = Err(Error::GeneralError);

    let (reader, writer) = pipe().expect("a pipe");
    assert_eq!(start(&writer, &hostile), refused);
    let said = lines((reader, writer));
    let line = format!("libjeton_client: no agent: {}\n", "]0;titlered31m backline".repeat(9));
    assert_eq!(said, line);

    let long = format!("agent = {{ address = 'unix:/{}' }}", "a".repeat(1 << 16));
    let (full_reader, full) = pipe().expect("a pipe");
    fill(&full);
    let (closed_reader, closed) = pipe().expect("a pipe");
    drop(closed_reader);
    for parameters in [&*hostile, "agent = { address = 'nonsense' }", &long] {
        for errors in [&full, &closed] {
            let begin = Instant::now();
            assert_eq!(start(errors, parameters), refused);
            assert!(begin.elapsed() < Duration::from_secs(8));
        }
    }
    assert!(!lines((full_reader, full)).contains("jeton"));

    let (reader, writer) = pipe().expect("a pipe");
    assert_eq!(start(&writer, &long), refused);
    assert!(lines((reader, writer)).len() < 2048);

    let (reader, writer) = pipe().expect("a pipe");
    assert!(!connects_as_standard_input(&writer, &directory.path().join("other")));
    lines((reader, writer));

    // An agent of another version.
    for (version, older) in [(wire::VERSION - 1, "agent"), (wire::VERSION + 1, "module")] {
        let path = directory.path().join(version.to_string());
        answer(&path, &Reply::Started { version, application: [7; 32], longest: 1 << 20 });
        let (reader, writer) = pipe().expect("a pipe");
        assert_eq!(start(&writer, &format!("agent = {{ address = 'unix:{}' }}", path.display())), refused);
        let said = lines((reader, writer));
        assert!(said.contains(&format!("the agent version {version}: update the {older}")), "{said}");
    }

    // What the C interface refuses, no agent sees.
    let (reader, writer) = pipe().expect("a pipe");
    with(&writer, || {
        tracing::trace!("a step");
        tracing::debug!(field = "hash\u{1b}[31m", len = 3, "the parameter is refused");
    });
    let line = "libjeton_client: DEBUG: the parameter is refused field=\"hash\\u{1b}[31m\" len=3\n";
    assert_eq!(lines((reader, writer)), line);

    for (parameters, reason) in [
        ("agent = { adress = 'unix:/x' }", "the library parameters: "),
        ("agent=unix:/x", "the library parameters: "),
        ("log = { level = 'much' }", "[log] level: \"much\" is no level"),
    ] {
        let (reader, writer) = pipe().expect("a pipe");
        assert_eq!(start(&writer, parameters), refused);
        let said = lines((reader, writer));
        assert!(said.contains(reason), "{parameters}: {said}");
    }
    // Parameters of NSS are not for this module.
    let (reader, writer) = pipe().expect("a pipe");
    let of_nss = "configdir='sql:/x' certPrefix='' flags=readOnly";
    let outcome = start(&writer, of_nss);
    let said = lines((reader, writer));
    assert!(outcome.is_ok() || !said.contains("library parameters"), "{said}");
}
