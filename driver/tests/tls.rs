//! `jeton tls`: measures handshakes with a key in the token, and serves an independent client.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Scratch, has, jeton, peer, run, succeed};
use jeton_peers::Known;

/// A measurement of one kind of handshake.
fn measure(more: &[&str]) -> Command {
    let mut command = jeton(["tls", "--threads", "1", "--versions", "1.3", "--exchanges", "x25519"]);
    command.args(["--handshakes", "full"]).args(more);
    command
}

/// A quick measurement with P-256.
fn quick(more: &[&str]) -> Command {
    let mut command = measure(&["--keys", "p256", "--min-seconds", "0"]);
    command.args(more);
    command
}

/// A measurement with P-256 that takes at least twenty minutes.
fn slow(more: &[&str]) -> Command {
    let mut command = measure(&["--keys", "p256", "--min-seconds", "600"]);
    command.args(more);
    command
}

#[test]
fn all_keys_and_versions_are_measured_through_jeton() {
    if peer(Known::Jeton).is_none() {
        return;
    }
    let scratch = Scratch::new();
    let (json, html) = (scratch.file("json"), scratch.file("html"));
    let mut command =
        jeton(["tls", "--min-seconds", "0", "--threads", "2,1", "--json", &json, "--html", &html]);
    let text = succeed(&mut command);
    for row in [
        "rsa2048 1.2 x25519 full",
        "p256 1.3 x25519mlkem768 resumed",
        "p384 1.2 x25519 resumed",
        "ed25519 1.2 x25519 full",
        "ml-dsa-65 1.3 x25519mlkem768 full",
    ] {
        // Two tables for each number of threads.
        assert_eq!(text.matches(&format!(" {row} ")).count(), 4, "{row}\n{text}");
    }
    assert!(!text.contains("ml-dsa-65 1.2") && text.contains("\n2 threads: "), "{text}");
    let report = std::fs::read_to_string(&json).expect("the report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let cases = report["cases"].as_array().expect("a list");
    // Four keys with three combinations of version and key exchange, ML-DSA with two.
    assert_eq!(cases.len(), (4 * 3 + 2) * 2 * 2);
    for case in cases {
        let number = |path: &str| case.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_default();
        for path in ["/ratio/value", "/token/server/low", "/token/latency/p999", "/memory/client/high"] {
            assert!(number(path) > 0.0, "{path}: {case}");
        }
        assert!(number("/token/handshakes") >= 12.0 && number("/rounds") >= 6.0, "{case}");
    }
    let page = std::fs::read_to_string(&html).expect("the page");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let page = roxmltree::Document::parse_with_options(&page, options).expect("XML");
    let count = |name: &str| {
        page.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/1999/xhtml", name))).count()
    };
    assert_eq!((count("table"), count("figure")), (2, cases.len()));
}

#[test]
fn a_module_without_ml_dsa_is_measured_with_its_other_keys() {
    if peer(Known::SoftHsm2).is_none() {
        return;
    }
    let text = succeed(&mut measure(&[
        "--module",
        "softhsm2",
        "--min-seconds",
        "0",
        "--keys",
        "p256,rsa2048,ed25519,ml-dsa-65",
    ]));
    assert!(text.contains("n/a: softhsm2 has no CKM_ML_DSA_KEY_PAIR_GEN for ml-dsa-65"), "{text}");
    assert!(text.contains("ed25519 1.3 x25519 full"), "{text}");
}

#[test]
fn an_existing_token_keeps_no_keys_of_a_measurement() {
    let Some(library) = peer(Known::Jeton) else { return };
    let scratch = Scratch::new();
    let tokens = scratch.file("tokens");
    let tool = |arguments: &[&str]| {
        let mut command = jeton(arguments);
        command.env("JETON_DIR", &tokens).env("JETON_PIN", "87654321");
        command
    };
    std::fs::create_dir(&tokens).expect("the directory is fresh");
    let init = ["init-token", "--free", "--label", "web", "--so-pin", "12345678", "--pin", "87654321"];
    succeed(&mut tool(&init));
    let library = library.to_str().expect("UTF-8");
    let mut command = quick(&["--module", library, "--token-label", "web"]);
    succeed(command.env("JETON_DIR", &tokens).env("JETON_PIN", "87654321"));
    let text = succeed(&mut tool(&["object", "list", "--token", "web"]));
    assert!(!text.contains("jeton-tls"), "{text}");
    let (code, text) = run(command.env("JETON_PIN", "00000000"));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("C_Login: CKR_PIN_INCORRECT (0xA0) while logging in as the user"), "{text}");
    let (code, text) = run(quick(&["--module", library, "--token-label", "x"])
        .env("JETON_DIR", &tokens)
        .env("JETON_PIN", "1"));
    assert!(code == 1 && text.contains("the module has no token \"x\""), "{text}");
}

#[test]
fn wrong_options_are_named() {
    for (option, value, message) in [
        ("--keys", "rsa1", "unknown key \"rsa1\"; known are rsa2048, p256, p384, ed25519, ml-dsa-65"),
        ("--versions", "1.1", "unknown version of TLS \"1.1\"; known are 1.2, 1.3"),
        ("--exchanges", "dh", "unknown key exchange \"dh\"; known are x25519, x25519mlkem768"),
        ("--handshakes", "half", "unknown kind of handshake \"half\"; known are full, resumed"),
        ("--module", "no-such-module", "module \"no-such-module\" is neither a file nor one of"),
        ("--threads", "0", "0 is not in 1..=1024"),
        ("--serve", "localhost", "invalid socket address syntax"),
        ("--key-label", "www", "--serve"),
    ] {
        let (code, text) = run(&mut jeton(["tls", option, value]));
        assert!(code == 2 && text.contains(message), "{option}: {code} {text}");
    }
}

#[test]
fn a_file_that_is_not_a_module_is_reported() {
    let scratch = Scratch::new();
    let file = scratch.file("text");
    std::fs::write(&file, "no module").expect("the directory is writable");
    let (code, text) = run(&mut quick(&["--module", &file, "--pin", "1234"]));
    assert!(code == 1 && text.contains(&format!("jeton: cannot load {file}: ")), "{code} {text}");
}

#[test]
fn a_full_disk_is_reported() {
    for option in ["--json", "--html"] {
        let (code, text) = run(&mut quick(&["--module", "in-process", option, "/dev/full"]));
        assert_eq!(code, 1, "{text}");
        assert!(text.contains("jeton: /dev/full: No space left on device"), "{option}: {text}");
        let started = Instant::now();
        let (code, text) = run(&mut slow(&[option, "/proc/none/file"]));
        assert!(code == 1 && started.elapsed() < Duration::from_secs(60), "{text}");
    }
}

#[test]
fn an_interrupt_prints_what_was_measured() {
    let scratch = Scratch::new();
    let (store, temporary) = (scratch.file("store"), scratch.file("tmp"));
    std::fs::create_dir(&temporary).expect("the directory is fresh");
    let mut command = slow(&["--module", "in-process", "--results", &store]);
    let mut child = command
        .env("TMPDIR", &temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the tool starts");
    std::thread::sleep(Duration::from_secs(1));
    assert!(child.try_wait().is_ok_and(|status| status.is_none()), "the tool ended early");
    succeed(Command::new("sh").args(["-c", "kill -INT $0", &child.id().to_string()]));
    let output = child.wait_with_output().expect("the tool ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{text}");
    assert!(text.contains("p256 1.3 x25519 full"), "{text}");
    let page = scratch.file("page.md");
    succeed(&mut jeton(["report", &store, "--markdown", &page]));
    let page = std::fs::read_to_string(&page).expect("the page");
    assert!(page.contains("p256 1.3 x25519 full"), "{page}");
    assert_eq!(std::fs::read_dir(&temporary).expect("the directory").count(), 0);
}

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

    /// Connects with `openssl s_client` and requests the page. Returns the output of the client.
    fn openssl(&self, certificates: &str, arguments: &str) -> String {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &self.address, "-CAfile", certificates, "-ign_eof"]);
        command.args(["-servername", "localhost", "-verify_hostname", "localhost", "-verify_return_error"]);
        command.args(arguments.split_whitespace()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = command.stderr(Stdio::piped()).spawn().expect("openssl starts");
        client.stdin.take().expect("a pipe").write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it reads");
        let output = client.wait_with_output().expect("openssl ends");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
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
    let pem = scratch.file("certificates.pem");
    let session = scratch.file("session.pem");
    const CASES: [(&str, &str, &str, &str); 9] = [
        ("-tls1_2", "RSA-PSS+SHA256:RSA+SHA256", "RSA-PSS", "TLSv1.2"),
        ("-tls1_3", "RSA-PSS+SHA512:RSA+SHA256", "RSA-PSS", "TLSv1.3"),
        // RSA with PKCS #1 is not in TLS 1.3.
        ("-tls1_2", "RSA+SHA384:RSA+SHA256", "RSA", "TLSv1.2"),
        ("-tls1_2", "ECDSA+SHA256", "ECDSA", "TLSv1.2"),
        ("-tls1_3", "ECDSA+SHA256", "ECDSA", "TLSv1.3"),
        ("-tls1_2", "ECDSA+SHA384", "ECDSA", "TLSv1.2"),
        ("-tls1_3", "ECDSA+SHA384", "ECDSA", "TLSv1.3"),
        ("-tls1_2", "ed25519", "Ed25519", "TLSv1.2"),
        ("-tls1_3", "ed25519", "Ed25519", "TLSv1.3"),
    ];
    let mut command = jeton(["tls", "--serve", "127.0.0.1:0", "--keys", "rsa2048,p256,p384,ed25519"]);
    command.args(["--certificates", &pem, "--connections", "11"]);
    let mut server = Server::start(command);
    for (version, schemes, signature, protocol) in CASES {
        let text = server.openssl(&pem, &format!("{version} -sigalgs {schemes}"));
        for part in [
            format!("New, {protocol}, Cipher is "),
            "Verify return code: 0 (ok)".to_owned(),
            format!("\n{}, ", protocol.replace('.', "_")),
        ] {
            assert!(text.contains(&part), "{version} {schemes}: no {part:?} in\n{text}");
        }
        // OpenSSL 3.0 writes ed25519, and later versions Ed25519.
        let part = format!("peer signature type: {signature}\n").to_lowercase();
        assert!(text.to_lowercase().contains(&part), "{version} {schemes}: no {part:?} in\n{text}");
    }
    let text = server.openssl(&pem, &format!("-tls1_2 -sess_out {session}"));
    assert!(text.contains("New, TLSv1.2"), "{text}");
    let text = server.openssl(&pem, &format!("-tls1_2 -sess_in {session}"));
    assert!(text.contains("Reused, TLSv1.2"), "{text}");
    // The server ends by itself after the last connection, and has described each connection.
    let lines: Vec<_> = (&mut server.lines).lines().map_while(Result::ok).collect();
    assert_eq!(lines.len(), 11, "{lines:?}");
    assert!(server.child.wait().is_ok_and(|status| status.success()));
}

#[test]
fn a_server_uses_an_existing_key_and_chain() {
    let Some(library) = peer(Known::Jeton) else { return };
    if !has("openssl", "version") {
        return;
    }
    let scratch = Scratch::new();
    let tokens = scratch.file("tokens");
    let chain = scratch.file("chain.pem");
    std::fs::create_dir(&tokens).expect("the directory is fresh");
    let tool = |arguments: &[&str]| {
        let mut command = jeton(arguments);
        command.env("JETON_DIR", &tokens).env("JETON_PIN", "87654321");
        command
    };
    succeed(&mut tool(&[
        "init-token",
        "--free",
        "--label",
        "web",
        "--so-pin",
        "12345678",
        "--pin",
        "87654321",
    ]));
    for label in ["www", "other"] {
        succeed(&mut tool(&["key", "generate", "--token", "web", "--type", "ec:p256", "--label", label]));
    }
    let make = ["cert", "self-sign", "--token", "web", "--label", "www", "--subject", "CN=localhost"];
    succeed(tool(&make).args(["--san", "dns:localhost", "--out", &chain]));
    let serve = |label: &str| {
        let mut command = tool(&["tls", "--serve", "127.0.0.1:0", "--token-label", "web", "--module"]);
        command.arg(&library).args(["--key-label", label, "--chain", &chain, "--connections", "1"]);
        command
    };
    let server = Server::start(serve("www"));
    let text = server.openssl(&chain, "-tls1_3");
    assert!(text.contains("Verify return code: 0 (ok)") && text.contains("\nTLSv1_3, "), "{text}");
    let (code, text) = run(&mut serve("other"));
    assert!(
        code == 1 && text.contains("chain.pem: keys may not be consistent: KeyMismatch"),
        "{code} {text}"
    );
    let (code, text) = run(&mut serve("absent"));
    assert!(code == 1 && text.contains("the token has no private key with the label \"absent\""), "{text}");
}
