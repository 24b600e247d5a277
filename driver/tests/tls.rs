//! `jeton tls --serve`: an independent client makes handshakes with keys of the token.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{Scratch, Tool, has, jeton, peer, run};
use jeton_peers::Known;

/// A server process. Dropping this value ends it.
struct Server {
    child: Child,
    address: String,
    lines: BufReader<ChildStdout>,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the tool starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("the address").to_owned();
        Self { child, address, lines }
    }

    /// Connects with `openssl s_client` and requests the page. The output of the client must
    /// contain these texts, in any case of letters: OpenSSL 3.0 writes ed25519, and later versions
    /// Ed25519.
    fn openssl(&self, certificates: &str, arguments: &str, wanted: &[&str]) {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &self.address, "-CAfile", certificates, "-ign_eof"]);
        command.args(["-servername", "localhost", "-verify_hostname", "localhost", "-verify_return_error"]);
        command.args(arguments.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.stderr(Stdio::piped()).spawn().expect("openssl starts");
        client.stdin.take().expect("a pipe").write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it reads");
        let output = client.wait_with_output().expect("openssl ends");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).to_lowercase();
        for part in wanted {
            assert!(text.contains(&part.to_lowercase()), "{arguments}: no {part:?} in\n{text}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn openssl_makes_handshakes_with_keys_of_the_token() {
    if peer(Known::Jeton).is_none() || !has("openssl", "version") {
        return;
    }
    let scratch = Scratch::new();
    let (pem, session) = (scratch.file("certificates.pem"), scratch.file("session.pem"));
    const CASES: [(&str, &str, &str); 9] = [
        ("1_2", "RSA-PSS+SHA256:RSA+SHA256", "RSA-PSS"),
        ("1_3", "RSA-PSS+SHA512:RSA+SHA256", "RSA-PSS"),
        // RSA with PKCS #1 is not in TLS 1.3.
        ("1_2", "RSA+SHA384:RSA+SHA256", "RSA"),
        ("1_2", "ECDSA+SHA256", "ECDSA"),
        ("1_3", "ECDSA+SHA256", "ECDSA"),
        ("1_2", "ECDSA+SHA384", "ECDSA"),
        ("1_3", "ECDSA+SHA384", "ECDSA"),
        ("1_2", "ed25519", "Ed25519"),
        ("1_3", "ed25519", "Ed25519"),
    ];
    let mut command = jeton(["tls", "--serve", "127.0.0.1:0", "--keys", "rsa2048,p256,p384,ed25519"]);
    command.args(["--certificates", &pem, "--connections", "11"]);
    let mut server = Server::start(command);
    for (version, schemes, signature) in CASES {
        let protocol = format!("New, TLSv{}, Cipher is ", version.replace('_', "."));
        let (page, signature) = (format!("\nTLSv{version}, "), format!("peer signature type: {signature}\n"));
        let wanted = [&*protocol, "Verify return code: 0 (ok)", &page, &signature];
        server.openssl(&pem, &format!("-tls{version} -sigalgs {schemes}"), &wanted);
    }
    for (option, wanted) in [("-sess_out", "New, TLSv1.2"), ("-sess_in", "Reused, TLSv1.2")] {
        server.openssl(&pem, &format!("-tls1_2 {option} {session}"), &[wanted]);
    }
    // The server ends by itself after the last connection, and has described each connection.
    let lines: Vec<_> = (&mut server.lines).lines().map_while(Result::ok).collect();
    assert_eq!(lines.len(), 11, "{lines:?}");
    assert!(server.child.wait().is_ok_and(|status| status.success()));
}

#[test]
fn a_server_uses_an_existing_key_and_chain() {
    let Some(tool) = Tool::new().filter(|_| has("openssl", "version")) else { return };
    for label in ["www", "other"] {
        tool.ok(&["key", "generate", "--type", "ec:p256", "--label", label]);
    }
    let chain = tool.scratch.file("chain.pem");
    let make = ["cert", "self-sign", "--label", "www", "--subject", "CN=localhost", "--san", "dns:localhost"];
    tool.ok(&[&make[..], &["--out", &chain]].concat());
    let serve = |label: &str| {
        let mut command = tool.command(&["tls", "--serve", "127.0.0.1:0", "--token-label", "mine"]);
        command.args(["--key-label", label, "--chain", &chain, "--connections", "1"]);
        command
    };
    let wanted = ["Verify return code: 0 (ok)", "\nTLSv1_3, "];
    Server::start(serve("www")).openssl(&chain, "-tls1_3", &wanted);
    for (label, wanted) in [
        ("other", "chain.pem: keys may not be consistent: KeyMismatch"),
        ("absent", "the token has no private key with the label \"absent\""),
    ] {
        let (code, text) = run(&mut serve(label));
        assert!(code == 1 && text.contains(wanted), "{code} {text}");
    }
}
