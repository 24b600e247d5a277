//! What the client module writes to standard error. This program has one test, because standard
//! error belongs to the process.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::{Duration, Instant};

use jeton_agent_wire as wire;
use jeton_client::Remote;
use jeton_words::error::{Error, Result};
use jeton_words::general::Threads;
use jeton_words::token::Token;

/// Calls `C_Initialize` with this standard error.
fn start(errors: &PipeWriter, parameters: &str) -> Result<()> {
    // SAFETY: open descriptors. Standard error is given back.
    unsafe {
        let before = libc::dup(2);
        assert_eq!(libc::dup2(errors.as_raw_fd(), 2), 2);
        let outcome = Remote::default().start(Some(parameters), Threads::Allowed);
        assert_eq!((libc::dup2(before, 2), libc::close(before)), (2, 0));
        outcome
    }
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
    let listener = UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut refused, mut first) = (Vec::new(), [0; 64]);
            let reason = "\u{1b}]0;title\u{7}red\u{9b}31m \u{202e}back\nline\u{e9}".repeat(9);
            wire::encode(&wire::Reply::Refused(&reason), &mut refused).expect("a message");
            let _ = stream.read(&mut first).and_then(|_| stream.write_all(&refused));
        }
    });
    let address = path.display();
    let hostile = format!("agent = {{ address = 'unix:{address}' }}");
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
}
