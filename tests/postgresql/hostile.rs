//! Servers that are hostile or broken: they get no password in clear, and little memory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use crate::prelude::*;
use crate::provider;

/// More than any server may make the module keep.
const MOST: usize = 256 << 20;
const PASSWORD: &str = "a password";
/// The message that ends the authentication.
const AUTHENTICATED: &[u8] = b"R\0\0\0\x08\0\0\0\0";

/// Starts a module whose server sends these bytes after the first message, and then `more` again
/// and again. Returns what the server received, and how many bytes it could send.
fn meet(first: &[u8], more: &[u8]) -> (Vec<u8>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let directory = Directory::new();
    let password = directory.path().join("password");
    std::fs::write(&password, PASSWORD).expect("a file");
    std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).expect("a mode");
    let parameters = format!(
        "token-dir = '{}', backend = '{}', store = {{ password = 'file:{}', \
         url = 'postgresql://host@127.0.0.1:{port}/postgres?sslmode=disable' }}",
        directory.path().display(),
        provider().name,
        password.display()
    );
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (stream, _) = listener.accept().expect("a connection");
            serve(stream, first, more)
        });
        assert_eq!(Functions::new().initialize(Some(&parameters)), Err(Error::DeviceError));
        server.join().expect("a server")
    })
}

fn serve(mut stream: TcpStream, first: &[u8], more: &[u8]) -> (Vec<u8>, usize) {
    let mut received = vec![0; 4096];
    let len = stream.read(&mut received).expect("the first message");
    received.truncate(len);
    stream.write_all(first).expect("an answer");
    let mut sent = first.len();
    while !more.is_empty() && sent < MOST && stream.write_all(more).is_ok() {
        sent += more.len();
    }
    // The module may have closed the connection before it read everything.
    let _ = stream.read_to_end(&mut received);
    (received, sent)
}

#[test]
fn a_server_that_asks_for_the_password_in_clear_does_not_get_it() {
    let clear = b"R\0\0\0\x08\0\0\0\x03";
    let hashed = b"R\0\0\0\x0c\0\0\0\x05salt";
    for request in [&clear[..], hashed] {
        let (received, _) = meet(request, b"");
        let text = String::from_utf8_lossy(&received);
        assert!(text.contains("postgres"), "the first message: {text:?}");
        assert!(!text.contains(PASSWORD) && !text.contains("md5"), "{text:?}");
    }
}

#[test]
fn a_server_cannot_fill_the_memory_of_the_application() {
    let parameter = [&b"S\0\0\x04\0name\0"[..], &[b'a'; 1014], b"\0"].concat();
    let (_, sent) = meet(AUTHENTICATED, &parameter);
    assert!(sent < MOST, "parameters: {sent} bytes");
    let error = [AUTHENTICATED, b"E\x7f\xff\xff\xff"].concat();
    let (_, sent) = meet(&error, &[0; 1 << 16]);
    assert!(sent < MOST, "one message: {sent} bytes");
}
